"""A chart is taken away, in every chapter that has some: SVG with marks and text, PNG with pixels, CSV with numbers."""

import io
import struct
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import polars as pl
import pytest

import gdpo_core as gc
from gdpo_core import bfcl
from gdpo_core.runs.run import read_run
from views.lab import sheet

pytestmark = pytest.mark.slow
DRAWN = {"path", "rect", "circle", "line"}


def lab():
    marks = sheet(bfcl.load_tasks("data/tasks")[0])["graded"]
    return {"GRPO": gc.advantages(marks, "grpo").tolist(), "GDPO": gc.advantages(marks, "gdpo").tolist()}


def evidence():
    data = bfcl.load_published("data/bfcl_rewards.parquet")
    marks = data.rewards(bfcl.REWARDS)
    drawn = marks.gather(1, bfcl.draw(data, 12, seed=0)[..., None].expand(-1, -1, 3))
    tied = [gc.collapse(drawn, method) for method in ("grpo", "gdpo")]
    return {"share": [c.groups_with_ties * c.mixed_groups / c.groups for c in tied]}


def run():
    report = gc.audit(read_run("data/samples/published_answers.zip"), primary="correctness")
    return {m: [reward["update_share"][m] for reward in report.rewards] for m in report.methods}


# Per chapter: a chart, rows of its CSV, and what these have to hold.
CHARTS = {
    "lab": ("lab-advantages", lambda table: table, lab),
    "train": ("train-curves", lambda table: table.filter(pl.col("epoch") == 0), lambda: {"median": [0.5] * 6}),
    "evidence": ("evidence-ties", lambda table: table.filter(pl.col("answers") == 12), evidence),
    "run": ("run-front-1", lambda table: table, run),
}


def taken(page, chart, kind):
    button = page.locator(f"[data-chart={chart}] [data-save={kind}]")
    button.scroll_into_view_if_needed()
    button.focus()
    with page.expect_download() as download:
        page.keyboard.press("Enter")
    assert download.value.suggested_filename == f"{chart}.{kind}"
    return Path(download.value.path()).read_bytes()


@pytest.mark.parametrize("chapter", CHARTS)
def test_a_chart_is_taken_away_in_three_forms(visit, chapter):
    chart, rows, expected = CHARTS[chapter]
    page = visit(f"?at={chapter}", accept_downloads=True)
    if chapter == "evidence":
        page.locator(".part.sizes").scroll_into_view_if_needed()
        page.locator("[data-picture=evidence-ties] svg.marks text").first.wait_for()
    page.locator(f"[data-chart={chart}]").wait_for()
    text = taken(page, chart, "svg").decode()
    drawing = ElementTree.fromstring(text)
    names = [node.tag.rpartition("}")[2] for node in drawing.iter()]
    assert sum(name in DRAWN for name in names) > 20 and names.count("text") > 5
    assert "var(" not in text and "href" not in text  # nothing that only the page knows
    png = taken(page, chart, "png")
    assert png[:8] == b"\x89PNG\r\n\x1a\n" and len(png) > 10_000
    assert list(struct.unpack(">II", png[16:24])) == [2 * int(drawing.get(side)) for side in ("width", "height")]
    found = rows(pl.read_csv(io.BytesIO(taken(page, chart, "csv"))))
    for column, values in expected().items():
        assert found[column].to_list() == pytest.approx(values, abs=1e-12)  # written and read, no digit is lost
    if chapter == "run":  # the small picture of a finding too: the first one's is 2
        page.locator("details.card").nth(1).locator("> summary").click()
        constant = pl.read_csv(io.BytesIO(taken(page, "run-front-3", "csv")))
        rewards = {r["name"]: r for r in gc.audit(read_run("data/samples/published_answers.zip")).rewards}
        assert constant["bar"].to_list() == ["conciseness", "the sum"]
        assert constant["value"][0] == rewards["conciseness"]["dead_groups"]
        assert "Groups in which it is constant" in taken(page, "run-front-3", "svg").decode()


@pytest.mark.parametrize("chapter", CHARTS)
def test_the_buttons_have_names_of_their_own_and_room(visit, chapter):
    page = visit(f"?at={chapter}")
    page.locator(f"[data-chart={CHARTS[chapter][0]}]").first.wait_for(state="attached")
    buttons = page.locator("[data-save]").evaluate_all(
        "all => all.filter(b => b.checkVisibility()).map(b => [b.ariaLabel, b.offsetWidth, b.offsetHeight])"
    )
    names = [name for name, _, _ in buttons]
    assert len(names) == len(set(names)) >= 3
    assert all(width >= 24 and height >= 24 for _, width, height in buttons)
    page.emulate_media(media="print")
    assert not page.locator("[data-save]").first.is_visible()
