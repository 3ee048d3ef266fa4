"""Your run as a reader has it: in Chromium, with files in hand."""

import io
import json
import zipfile
from pathlib import Path

import polars as pl
import pytest
from helpers import accessibility_faults, arrived, settled

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
def visit(visit):
    """Opens the chapter."""

    def open_page(*size, **options):
        page = visit(*size, **options)
        page.locator("nav").get_by_role("link", name="Your run").click()
        arrived(page, ".audit.front")
        settled(page)
        return page

    return open_page


def upload(page, *files):
    """Hand the files over; returns when the page has read them or says why not."""
    before = page.locator(".whose, .unread").first.inner_text()
    page.locator(".upload input[type=file]").set_input_files(list(files))
    page.wait_for_function(
        "before => { const e = document.querySelector('.whose, .unread'); return e && e.innerText !== before }",
        arg=before,
    )


def verdict(page):
    return page.locator(".audit .what-ran")


def test_the_chapter_as_it_opens(visit, subtests):
    page = visit(width=1440, height=900, permissions=["clipboard-read", "clipboard-write"])
    with subtests.test("the sample is audited without a click"):
        assert "no training run" in page.locator(".whose").inner_text()
        assert "GRPO" in verdict(page).inner_text()
        cards = page.locator(".audit .card > summary").all_inner_texts()
        assert any("reward-dominates" in text for text in cards)
        assert page.locator(".audit figure svg").count() > 0
    with subtests.test("claim, verdict, findings, picture and controls are on the first screen"):
        for selector in (
            "h1:visible",
            ".upload",
            ".verdict-line",
            ".what-ran",
            ".card >> nth=0",
            ".front > figure > svg",
        ):
            box = page.locator(selector).bounding_box()
            assert box["y"] + box["height"] <= 900, selector
        assert page.evaluate("document.getElementById('App').scrollHeight") <= 4 * 900
    with subtests.test("a line of configuration is copied with a click"):
        button = page.locator(".card .copied button").first
        button.click()
        page.get_by_role("button", name="Copied").wait_for()
        assert page.evaluate("navigator.clipboard.readText()") == button.get_attribute("data-copy")
        assert "normalize_then_sum" in button.get_attribute("data-copy")
    with subtests.test("a fold is computed when it is opened"):
        charts = page.locator(".folds > .fold", has_text="All charts")
        assert charts.locator("figure").count() == 0
        charts.locator("summary").first.click()
        charts.locator("figure svg").first.wait_for()
        # The page's own style does not reach into it.
        assert charts.locator(".figures-grid").evaluate("e => getComputedStyle(e).display") == "grid"
        button = charts.locator(".save button").first
        assert button.evaluate("e => getComputedStyle(e).borderTopWidth") == "0px"


def test_what_the_reader_set_outlives_a_visit_to_another_chapter(visit):
    page = visit()
    page.get_by_label("Sample", exact=True).select_option("ms-swift")
    verdict(page).get_by_text("Every logged advantage is 0").wait_for()
    page.locator("nav").get_by_role("link", name="Use it").click()
    page.locator(".should").wait_for()
    page.locator("nav").get_by_role("link", name="Your run").click()
    assert verdict(page).get_by_text("Every logged advantage is 0").is_visible()


def test_a_real_log_is_handed_over_by_keyboard_or_zipped_and_gets_its_verdict(visit):
    page = visit()
    for files in (TRL, [zipped()]):
        with page.expect_file_chooser() as chooser:
            page.locator(".upload [tabindex='0']").press("Enter")
        assert chooser.value.is_multiple()
        chooser.value.set_files(files)
        verdict(page).get_by_text(WEIGHTS).wait_for()
        assert "GDPO" in verdict(page).inner_text()
        assert page.locator(".audit .card").count() > 0
        page.get_by_role("button", name="Click to clear files").click()
        page.locator(".whose").get_by_text("no training run").wait_for()


def test_what_can_be_taken_away_opens(visit, browser):
    page = visit()
    upload(page, *TRL)
    verdict(page).get_by_text(WEIGHTS).wait_for()
    taken = {}
    for label in ("Report (JSON)", "Report (HTML)", "Table (CSV)"):
        with page.expect_download() as download:
            page.get_by_role("button", name=label).or_(page.get_by_role("link", name=label)).click()
        taken[download.value.suggested_filename] = download.value.path().read_bytes()
    report = json.loads(taken["audit.json"])
    assert report["schema"] == 1 and report["run"]["method"] == "gdpo"
    table = pl.read_csv(taken["responses.csv"])
    assert len(table) == report["source"]["responses"] == 128
    offline = browser.new_context(offline=True)
    opened = offline.new_page()
    asked = []
    opened.on("request", lambda request: asked.append(request.url))
    opened.set_content(taken["audit.html"].decode())
    assert WEIGHTS in opened.locator("body").inner_text()
    assert opened.locator("svg").count() > 0
    assert not asked
    offline.close()


def test_a_bad_file_is_one_sentence_and_a_good_one_then_a_report(visit):
    page = visit()
    upload(page, file("completions_00001.parquet", b"PAR1 and no more"))
    page.locator(".unread").get_by_text("completions_00001.parquet").wait_for()
    page.locator(".audit.front").wait_for(state="detached")
    assert page.get_by_text("Traceback").count() == 0
    assert page.get_by_label("Sample", exact=True).count() == 1
    upload(page, *TRL)
    verdict(page).get_by_text(WEIGHTS).wait_for()
    assert page.locator(".unread").count() == 0


def test_a_file_over_the_limit_is_refused(visit, tmp_path):
    page = visit()
    large = tmp_path / "large.parquet"
    large.write_bytes(bytes(64_000_001))
    page.locator(".upload input[type=file]").set_input_files(large)
    page.get_by_text("large.parquet (File is larger than 64000000 bytes)", exact=True).wait_for()
    assert page.locator(".audit.front").count() == 1


def test_corrections_by_hand_change_the_report_and_go_with_the_files(visit):
    page = visit()
    upload(page, *TRL)
    verdict(page).get_by_text(WEIGHTS).wait_for()
    page.get_by_text("Which files, and how they are read").click()
    page.get_by_label("Written by").select_option("verl")
    page.locator(".unread").wait_for()
    page.get_by_label("Written by").select_option("TRL or axolotl")
    verdict(page).get_by_text(WEIGHTS).wait_for()
    size = page.get_by_label("Responses per prompt")
    size.fill("5")
    size.press("Enter")
    page.locator(".unread").get_by_text("5").first.wait_for()
    page.get_by_role("button", name="Click to clear files").click()
    page.locator(".whose").get_by_text("no training run").wait_for()
    page.get_by_text("Which files, and how they are read").click()
    assert page.get_by_label("Responses per prompt").input_value() == ""


def test_the_reward_that_should_decide_and_the_weights_are_asked(visit):
    page = visit()
    cards = page.locator(".audit .card > summary")
    assert cards.filter(has_text="priority-inversion").count() == 1
    page.get_by_label("The reward that matters most").select_option("--")
    cards.filter(has_text="priority-inversion").wait_for(state="detached")
    page.get_by_text("Which files, and how they are read").click()
    weights = page.get_by_label("Weights, if not those of the log")
    weights.fill("accuracy=1")
    weights.press("Enter")
    page.locator(".unread").get_by_text("accuracy").wait_for()
    assert page.locator(".audit.front").count() == 0
    weights.fill("conciseness=0.1")
    weights.press("Enter")
    page.locator(".audit.front").wait_for()


def test_every_sample_has_its_report_and_puts_files_away(visit):
    page = visit()
    upload(page, *TRL)
    choice = page.get_by_label("Sample", exact=True)
    for title in choice.locator("option").all_inner_texts()[1:]:
        before = page.locator(".whose").inner_text()
        choice.select_option(title)
        page.wait_for_function("before => document.querySelector('.whose')?.innerText !== before", arg=before)
        page.locator(".audit .card").first.wait_for()
    assert page.get_by_text("Click to clear files").count() == 0


def test_a_phone_shows_the_report_within_its_width(visit):
    page = visit(width=390, height=844, has_touch=True, is_mobile=True)
    page.get_by_text("Which files, and how they are read").click()
    page.locator(".audit details, .folds details").evaluate_all("all => all.forEach(e => e.open = true)")
    for width in (390, 360):
        page.set_viewport_size({"width": width, "height": 844})
        settled(page)
        assert page.evaluate("document.querySelector('#App').scrollWidth") <= width
        too_wide = page.eval_on_selector_all(
            ".upload, .whose, .audit, .audit > *, .audit .card, .audit .card > *, .audit figure, .taken",
            f"all => all.filter(e => e.getBoundingClientRect().right > {width} + 1 && e.checkVisibility())"
            ".map(e => e.className || e.tagName)",
        )
        assert too_wide == []


def test_no_accessibility_fault(visit):
    page = visit(width=1440, scheme="dark")
    upload(page, *TRL)
    verdict(page).get_by_text(WEIGHTS).wait_for()
    page.get_by_text("Which files, and how they are read").click()
    page.locator(".audit details, .folds details").evaluate_all("all => all.forEach(e => e.open = true)")
    section = [[selector] for selector in (".upload", ".whose", ".audit", ".folds", ".taken", ".asking")]
    for scheme, width in (("dark", 1440), ("light", 1440), ("light", 390)):
        page.emulate_media(color_scheme=scheme)
        page.set_viewport_size({"width": width, "height": 960})
        settled(page)
        ours = [
            (fault["id"], node["target"])
            for fault, node in accessibility_faults(page, {"include": section})
            # marimo gives its file input no name; the group around it has one.
            if not (fault["id"] == "label" and 'type="file"' in node["html"])
        ]
        assert ours == [], (scheme, width)
