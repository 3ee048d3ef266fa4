"""Nothing that a log holds is run, neither in the page nor in the HTML report.

Every string of the log is a payload: names of columns and files, prompts, weights, the path of the run.
"""

import io
import json
import zipfile
from urllib.parse import quote

import polars as pl
import pytest
from helpers import arrived

import gdpo_audit as ga
import gdpo_core as gc

pytestmark = pytest.mark.slow
# Each would set window.hacked, were it HTML, an attribute, CSS, a script or Markdown; the last one is for terminals.
PAYLOADS = (
    "<script>window.hacked=1</script>",
    "<img src=x onerror=window.hacked=2>",
    '"><svg onload=window.hacked=3>',
    "'><details open ontoggle=window.hacked=4>",
    "</style><script>window.hacked=5</script>",
    "</title></textarea><script>window.hacked=6</script>",
    "[a](javascript:window.hacked=7)",
    "javascript:window.hacked=8",
    "<iframe srcdoc='<script>parent.hacked=9</script>'>",
    "<marimo-callout-output data-html='\"<img src=x onerror=window.hacked=10>\"'></marimo-callout-output>",
    "{{constructor.constructor('window.hacked=11')()}}",
    "**<img src=x onerror=window.hacked=12>**",
    "$\\href{javascript:window.hacked=13}{a}$",
    "\x1b]8;;javascript:window.hacked=14\x07a\x1b]8;;\x07\u202e::set-output name=a::b",
)


def log() -> bytes:
    """Return a log of TRL in which every name and every text is a payload; some rewards are constant, and one
    dominates.
    """
    n = 64
    frame = pl.DataFrame(
        {
            "step": [1 + i // 32 for i in range(n)],
            "prompt": [PAYLOADS[i // 8 % len(PAYLOADS)] for i in range(n)],
            "completion": [PAYLOADS[i % len(PAYLOADS)] for i in range(n)],
        }
        | {name: [(i * (k + 3)) % 5 * 0.1 * (k < 9) for i in range(n)] for k, name in enumerate(PAYLOADS)}
    )
    rewards = frame.select(PAYLOADS).to_numpy().reshape(-1, 8, len(PAYLOADS))
    content = io.BytesIO()
    frame.with_columns(advantage=pl.Series(gc.grpo(rewards).flatten().numpy())).write_parquet(content)
    return content.getvalue()


def upload() -> dict:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as file:
        file.writestr(f"{PAYLOADS[1]}/completions/completions_00001.parquet", log())
        file.writestr("args.json", json.dumps({"output_dir": PAYLOADS[0], "run_name": PAYLOADS[1]}))
    return {"name": f"{PAYLOADS[1]}.zip", "mimeType": "application/zip", "buffer": packed.getvalue()}


def test_no_string_of_a_log_runs_in_the_page(visit, browser):
    page = visit(f"?at=run&run-sample={quote(PAYLOADS[1])}&{quote(PAYLOADS[0])}=1")
    arrived(page, ".audit.front")
    page.get_by_role("status").get_by_text("Parts of this link were not understood.").wait_for()
    page.locator(".upload input[type=file]").set_input_files([upload()])
    page.wait_for_function("() => document.querySelector('.named')?.innerText.startsWith('Your file')")
    page.locator(".audit.front .card").first.wait_for()
    opened(page)
    page.get_by_role("button", name="What the run did").click()
    opened(page)
    assert page.locator("body").get_by_text(PAYLOADS[1]).count()  # The payload is shown as text.
    assert page.evaluate("window.hacked") is None
    with page.expect_download() as download:
        label = "Report (HTML)"
        page.get_by_role("button", name=label).or_(page.get_by_role("link", name=label)).click()
    quiet(browser, download.value.path().read_text())
    weights = page.get_by_label("Weights, if they differ from those in the log")
    weights.fill(f"no{PAYLOADS[1]}=1")
    weights.press("Enter")
    page.locator(".unread").wait_for()
    assert page.evaluate("window.hacked") is None


def test_no_string_of_a_log_runs_in_a_notebook(browser):
    report = ga.audit(ga.read_run({f"{PAYLOADS[1]}.parquet": log()}), primary=PAYLOADS[2])
    quiet(browser, f"<div>{report._repr_html_()}</div>")


def opened(page) -> None:
    """Open all that can be opened on a page."""
    page.locator("details").evaluate_all("all => all.forEach(e => e.open = true)")


def quiet(browser, html: str) -> None:
    """Assert that nothing in an HTML document is run."""
    page = browser.new_page()
    page.set_content(html)
    opened(page)
    assert PAYLOADS[0] in page.locator("body").inner_text()
    assert page.evaluate("window.hacked") is None
    page.close()
