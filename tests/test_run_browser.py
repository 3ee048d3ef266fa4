"""The chapter Your run as a reader uses it, in Chromium, with files to upload."""

import io
import json
import zipfile
from pathlib import Path

import polars as pl
import pytest
from helpers import arrived, settled

SAMPLES = Path(__file__).parent.parent / "data" / "samples"
TRL = sorted((SAMPLES / "trl_gdpo").iterdir())
WEIGHTS = "correctness_reward 1, format_reward 0.5, length_reward 2"


def file(name, content):
    return {"name": name, "mimeType": "application/octet-stream", "buffer": content}


def zipped():
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as packed:
        for path in TRL:
            packed.write(path, f"run/completions/{path.name}")
    return file("run.zip", content.getvalue())


@pytest.fixture
def run(visit):
    """Return a function that opens the chapter."""

    def open_chapter(query="", **options):
        page = visit(f"?at=run{query}", **options)
        arrived(page, ".audit.front")
        settled(page)
        return page

    return open_chapter


def upload(page, *files):
    """Upload files, and return when the page has read them or says why it has not."""
    before = page.locator(".named").inner_text()
    page.locator(".upload input[type=file]").set_input_files(list(files))
    page.wait_for_function(
        "before => document.querySelector('.unread, .named:not(:empty)')?.innerText !== before",
        arg=before,
    )


def verdict(page):
    return page.locator(".audit .what-ran")


def test_the_chapter_as_it_opens(run):
    page = run(width=1440, height=900, permissions=["clipboard-read", "clipboard-write"])
    assert "A real run" in page.locator(".whose").inner_text() and "GRPO" in verdict(page).inner_text()
    assert "reward-dominates" in page.locator(".audit .card > summary").first.inner_text()
    # The area for files, the question, the verdict and the bars of the recommended setting are on the first screen.
    asked = "[data-cell-name=run_primary]"
    for selector in ("h1:visible", ".upload", asked, ".verdict-line", ".what-ran", ".setting.best ul"):
        box = page.locator(selector).bounding_box()
        assert box["y"] + box["height"] <= 900, selector
    # The sections of the file come in its order, and the lines of the plan can be copied.
    order = (
        "Use GDPO",
        "What each reward did",
        "What would other weights or another method have done?",
        "Findings: 2 warnings, 1 info",
    )
    tops = [page.get_by_role("heading", name=title).bounding_box()["y"] for title in order]
    assert tops == sorted(tops)
    assert page.locator(".setting").evaluate_all("all => all.map(e => e.querySelectorAll('li').length)") == [3, 3, 3]
    assert not page.get_by_role("heading", name="Plan", exact=True).is_visible()
    page.get_by_text("The plan: all settings that were tried").click()
    page.get_by_role("heading", name="Plan", exact=True).wait_for()
    # The groups have one title; on a phone it is that of the fold.
    assert page.locator(".waits > :is(summary, h2)").evaluate_all("all => all.map(e => e.checkVisibility())") == [0, 1]
    assert page.locator(".board .rules .given").all_inner_texts() == ["5"]  # what a pass in conciseness pays
    lines = page.locator(".setting.best")
    lines.get_by_role("button", name="Copy").click()
    page.get_by_text("Copied.").wait_for()
    assert page.evaluate("navigator.clipboard.readText()") == lines.locator("pre").inner_text()
    # A fold is computed when it is opened.
    assert page.get_by_text("Correlations inside groups").count() == 0
    page.get_by_role("button", name="Tables").click()
    page.get_by_text("Correlations inside groups").wait_for()
    # Another setting is computed in the browser alone.
    asked, share = [], page.locator("[data-reward='2']")
    page.on("request", lambda request: asked.append(request.url))
    page.locator(".asks select").select_option("GDPO")
    page.get_by_role("slider", name="weight of conciseness").press("Home")
    assert share.inner_text() == "0\xa0%" and "reward_weights=[1.0, 1.0, 0.0]" in page.locator(".asks pre").inner_text()
    assert not asked and not page.evaluate("location.hash")
    page.locator(".audit .card > summary").first.click()
    page.get_by_role("link", name="See it trained").first.click()
    page.wait_for_url("**at=train**")


def test_a_readers_log_is_read_audited_and_taken_away(run, browser):
    page = run()
    upload(page, file("completions_00001.parquet", b"PAR1 and no more"))
    page.locator(".unread").get_by_text("completions_00001.parquet").wait_for()
    page.locator(".audit.front").wait_for(state="detached")
    assert page.get_by_text("Traceback").count() == 0
    for files in (TRL, [zipped()]):
        with page.expect_file_chooser() as chooser:
            page.locator(".upload [tabindex='0']").press("Enter")
        assert chooser.value.is_multiple()
        chooser.value.set_files(files)
        verdict(page).get_by_text(WEIGHTS).wait_for()
        if len(files) > 1:
            named = "Your files: completions_00001.parquet and 3 more, 128 responses"
            assert page.locator(".named").inner_text() == named
            assert (
                page.get_by_label("Log to show", exact=True).evaluate("e => e.selectedOptions[0].text") == "your files"
            )
            assert page.locator(".whose").count() == 0
            clear = page.get_by_role("button", name="Click to clear files")
            assert clear.evaluate("e => parseFloat(getComputedStyle(e).fontSize)") >= 16
            clear.click()
            page.locator(".whose").get_by_text("A real run").wait_for()
    downloads = {}
    for label in ("Report (JSON)", "Report (HTML)", "Table (CSV)"):
        with page.expect_download() as download:
            page.get_by_role("button", name=label).or_(page.get_by_role("link", name=label)).click()
        downloads[download.value.suggested_filename] = download.value.path().read_bytes()
    report = json.loads(downloads["audit.json"])
    assert report["schema"] == 1 and report["run"]["method"] == "gdpo"
    assert len(pl.read_csv(downloads["responses.csv"])) == report["source"]["responses"] == 128
    offline = browser.new_context(offline=True)
    opened = offline.new_page()
    requests = []
    opened.on("request", lambda request: requests.append(request.url))
    opened.set_content(downloads["audit.html"].decode())
    assert WEIGHTS in opened.locator("body").inner_text() and opened.locator("svg").count() > 0 and not requests
    offline.close()
    page.locator("nav").get_by_role("link", name="Use it").click()
    lines = page.locator(".use .copied pre").first
    lines.get_by_text("reward_weights=[1.0, 0.5, 2.0], num_generations=8").wait_for()
    assert page.get_by_label("Gate", exact=True).count() == 0
    page.locator(".should").get_by_text("too short to judge: it holds 128 responses in 16 groups.").wait_for()


FOCUSED = """() => {
  let at = document.activeElement
  while (at?.shadowRoot?.activeElement) at = at.shadowRoot.activeElement
  return at?.placeholder
}"""


def test_an_error_opens_and_focuses_the_field_that_mends_it(run):
    page = run()
    upload(page, file("log.csv", b"a,b\n" + b"1,0\n0,1\n" * 8))
    page.locator(".unread").get_by_text("in “Responses per prompt”").wait_for()
    page.wait_for_function(f"() => ({FOCUSED})() === '8'")
    page.keyboard.type("5")
    page.keyboard.press("Enter")
    page.locator(".unread").get_by_text("groups of 5").wait_for()
    page.wait_for_function(f"() => ({FOCUSED})() === '8'")
    page.keyboard.press("ControlOrMeta+a")
    page.keyboard.type("4")
    page.keyboard.press("Enter")
    verdict(page).wait_for()
    assert page.locator(".unread").count() == 0


TEXT_STARTS = """element => {
  const range = document.createRange()
  range.selectNodeContents(element)
  return range.getClientRects()[0].left
}"""
DROP = """(area, size) => {
  const files = new DataTransfer()
  files.items.add(new File([new Uint8Array(size)], "dropped.parquet"))
  for (const type of ["dragenter", "dragover", "drop"])
    area.dispatchEvent(new DragEvent(type, { dataTransfer: files, bubbles: true, composed: true, cancelable: true }))
}"""


def test_files_that_are_too_large_leave_the_readers_report(run, tmp_path):
    page = run()
    upload(page, *TRL)
    verdict(page).get_by_text(WEIGHTS).wait_for()
    settled(page)
    posts = []
    page.on("request", lambda request: posts.append(request.url) if request.method == "POST" else None)
    refused = page.locator(".upload .refused")
    # Each of them alone is below the limit; together they are above it.
    large = [tmp_path / "one.parquet", tmp_path / "two.parquet"]
    for path in large:
        path.write_bytes(bytes(32_000_001))
    page.locator(".upload input[type=file]").set_input_files(large)
    refused.get_by_text("expected at most 64 MB in all").wait_for()
    assert refused.get_attribute("role") == "alert"
    upload(page, *TRL[:1])
    settled(page)
    assert not refused.is_visible() and len(posts) == 1
    page.locator(".upload [tabindex='0']").evaluate(DROP, 64_000_001)
    refused.get_by_text("The page stays as it was.").wait_for()
    settled(page)
    assert len(posts) == 1 and verdict(page).get_by_text(WEIGHTS).is_visible()


def test_corrections_change_the_report_and_go_with_the_files_which_a_sample_leaves(run):
    page = run("&run-weights=conciseness=0.1")
    page.get_by_text("Which files, and how they are read").click()
    weights = page.get_by_label("Weights, if they differ from those in the log")
    assert weights.input_value() == "conciseness=0.1"
    weights.fill("accuracy=1")
    weights.press("Enter")
    page.locator(".unread").get_by_text("accuracy").wait_for()
    assert page.locator(".audit.front").count() == 0
    weights.fill("")
    weights.press("Enter")
    cards = page.locator(".audit .card > summary")
    cards.filter(has_text="priority-inversion").wait_for()
    # The keyboard chooses, as it does among the buttons of a form.
    page.get_by_role("radio", name="correctness").focus()
    page.keyboard.press("ArrowRight")
    page.wait_for_url(lambda url: "run-primary=style" in url)
    page.get_by_text("not decided", exact=True).click()
    cards.filter(has_text="priority-inversion").wait_for(state="detached")
    page.wait_for_url(lambda url: "run-primary=none" in url and "run-weights" not in url)
    upload(page, *TRL)
    verdict(page).get_by_text(WEIGHTS).wait_for()
    page.wait_for_function("() => !new URLSearchParams(location.search).has('run-primary')")
    page.get_by_label("Log to show", exact=True).select_option("verl, v1 trainer")
    page.locator(".whose").get_by_text("verl 0.9").wait_for()
    page.wait_for_function("() => new URLSearchParams(location.search).get('run-sample') === 'verl_v1'")
    page.get_by_label("Log to show", exact=True).select_option("your files")
    verdict(page).get_by_text(WEIGHTS).wait_for()


def test_a_hostile_logs_own_group_opens_and_runs_nothing(run):
    page = run()
    script = "<script>window.ran=1</script><img src=x onerror=window.ran=1>\ud83d"
    rows = [
        {"step": 1, "prompt": f"{g} {script} what is asked", "completion": f"{script} answer {i}"}
        | {
            "<b onmouseover=window.ran=1>x": i & 1,
            "**ok**": i >> 1,
            "advantage": [-1.16, 0, 0, 1.16][i] if g else 0,
        }
        for g in range(32)
        for i in range(4)
    ]
    upload(page, file("log.jsonl", "\n".join(map(json.dumps, rows)).encode()))
    page.get_by_label("Choose a group").wait_for()
    own = page.locator("[data-cell-name=run_board] .board")
    # No answer of the sample's board, which stood there before, has this text.
    own.locator(".row").filter(has_text="<script>").first.click()
    assert "<script>" in own.locator(".detail code").inner_text()
    own.locator(".toggle input").first.click()
    settled(page)
    assert page.evaluate("window.ran") is None
