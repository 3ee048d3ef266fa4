"""The page in a browser: its bar, its chapters, its links and the board of the Lab, by mouse, touch and keyboard."""

import re
import time

import numpy as np
import pytest
from helpers import ROOTS, becomes, settled
from links import TASKS

import gdpo_core as gc
from gdpo_core.shared.words import signed
from views import bfcl
from views.chapters.lab.answers import grade_answers
from views.widgets.address import CHAPTERS

pytestmark = pytest.mark.slow

GRADED = [list(row) for row in grade_answers(TASKS[0]).marks]
# These are its menu button, its outline, the input inside its upload, and Vega's menu in a chart.
MARIMOS_OWN = ("radix", ".py-4", "marimo-file", "marimo-mime-renderer")
SHOWN = """() => [...document.querySelectorAll(".marimo-cell[data-cell-name]")].filter(c => c.checkVisibility())
  .map(c => c.dataset.cellName)"""


def toggle(page, answer, reward):
    return page.get_by_label(re.compile(f"^Answer {answer + 1}, {bfcl.REWARDS[reward]}, (passed|failed)$"))


def numbers(page):
    """Return the two numbers that are printed beside the bars of each answer, by the answer."""
    rows = page.locator(".board .row").evaluate_all(
        "all => all.map(r => [r.querySelector('.number').textContent,"
        " ...[...r.querySelectorAll('.value')].map(v => v.textContent.replace(/^\\S /, ''))])"
    )
    return {int(answer) - 1: (left, right) for answer, left, right in rows}


def computed(marks, left="grpo", right="gdpo", **options):
    a, b = (gc.advantages(marks, method, **options).tolist() for method in (left, right))
    return {i: (signed(x), signed(y)) for i, (x, y) in enumerate(zip(a, b, strict=True))}


def drawn(page, expected):
    deadline = time.monotonic() + 60
    while numbers(page) != expected and time.monotonic() < deadline:
        page.wait_for_timeout(40)
    assert numbers(page) == expected


def at(page, chapter):
    page.wait_for_function("at => document.documentElement.dataset.at === at", arg=chapter)


def chapter_ready(page, chapter):
    page.wait_for_function(
        "at => [...document.querySelectorAll(`[data-cell-name^='${at}_']`)].some(c => c.checkVisibility() &&"
        " c.getBoundingClientRect().height > 100)",
        arg=chapter,
    )
    settled(page)


# --- chapters --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_a_link_opens_its_chapter_alone_without_serious_fault_and_within_every_width(visit, chapter):
    from axe_playwright_python.sync_playwright import Axe

    page = visit(f"?at={chapter}", scheme="light" if chapter in ("train", "run") else "dark")
    at(page, chapter)
    chapter_ready(page, chapter)
    assert {name.split("_")[0] for name in page.evaluate(SHOWN)} - {"bar", "footer"} == {chapter}
    current = page.locator("nav [aria-current=page]")
    assert current.count() == 1 and CHAPTERS[chapter] in current.inner_text()
    assert page.locator("[role=main]").count() == 1 and page.get_by_role("navigation", name="Chapters").count() == 1
    assert page.get_by_text("None", exact=True).count() == 0  # A function without an answer leaves this word on a page.
    found = Axe().run(page, options={"resultTypes": ["violations"]}).response["violations"]
    nodes = [
        (fault["id"], node) for fault in found if fault["impact"] in ("serious", "critical") for node in fault["nodes"]
    ]
    assert not [one for one in nodes if not any(own in str(one[1]["target"]) for own in MARIMOS_OWN)]
    if chapter == "use":  # The table in the fold that is open arrives after the rest.
        page.locator(".claims td").last.wait_for()
    for width in (1024, 320):
        page.set_viewport_size({"width": width, "height": 844})
        settled(page)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.evaluate("document.getElementById('App').scrollWidth") <= width
        # A sentence of a table of prose ends within the page, although the table may scroll.
        ends = "cells => cells.map(cell => cell.getBoundingClientRect().right)"
        assert all(end <= width for end in page.locator(":is(.claims, .which) td").evaluate_all(ends))


def test_back_and_forward_and_what_was_set_stays(visit):
    page = visit("?theme=light")
    page.evaluate("window.mine = 1")
    toggle(page, 0, 0).click()
    flipped = [[0, *GRADED[0][1:]], *GRADED[1:]]
    drawn(page, computed(flipped))
    for chapter in ("train", "use"):
        page.get_by_role("navigation").get_by_role("link", name=CHAPTERS[chapter]).click()
        at(page, chapter)
    page.go_back()
    at(page, "train")
    page.go_back()
    at(page, "lab")
    drawn(page, computed(flipped))
    page.go_forward()
    at(page, "train")
    page.get_by_role("link", name="Reward Policy Intuition").click()
    at(page, "lab")
    page.get_by_role("link", name=re.compile("^Next: ")).locator("visible=true").first.click()
    at(page, "train")
    assert page.evaluate("window.mine") == 1, "no link of the page may load it anew"
    # What was opened on the screen stands on paper too.
    chapter_ready(page, "train")
    page.locator("[data-cell-name=train_headline] h1").wait_for()  # the plot is drawn before it
    page.emulate_media(media="print")
    assert {name.split("_")[0] for name in page.evaluate(SHOWN)} >= {"lab", "train"}
    assert page.locator("h1").locator("visible=true").count() >= 2 and not page.locator(".bar nav").is_visible()


# --- the Lab ---------------------------------------------------------------------------------------------------------


BOARD = f"{ROOTS}.find(root => root?.querySelector('.board'))"
ORDER = f"() => [...{BOARD}.querySelectorAll('.row .number')].map(n => Number(n.textContent))"


def test_a_journey_through_the_lab(visit):
    page = visit(width=1440, height=900, permissions=["clipboard-read", "clipboard-write"])
    for selector in ("h1", ".drop", ".board .rows"):  # These are on the first screen.
        box = page.locator(selector).locator("visible=true").first.bounding_box()
        assert box["y"] >= 0 and box["y"] + box["height"] <= 900, selector
    page.get_by_role("button", name="Skip to the chapter").focus()
    page.keyboard.press("Enter")
    becomes(page, "() => document.activeElement.tagName", "H1")
    page.locator(".row").nth(5).hover()
    assert "Answer 6" in page.locator(".detail").inner_text()
    # The grid can be used by keyboard, and its rows keep their places.
    toggle(page, 0, 0).focus()
    for key in ("ArrowDown", "ArrowDown", "ArrowDown", "ArrowRight", "ArrowLeft", "Space"):
        page.keyboard.press(key)
    marks = [list(row) for row in GRADED]
    marks[3][0] = 1 - marks[3][0]
    drawn(page, computed(marks))
    assert page.locator(".sentences").get_attribute("role") == "status"
    assert page.evaluate(ORDER) == list(range(1, 13))
    page.get_by_role("button", name="Sort by GDPO").click()
    a = gc.gdpo(marks)
    becomes(page, ORDER, [i + 1 for i in sorted(range(12), key=lambda i: (-round(a[i].item(), 9), i))])
    # What was flipped is in the address, in the link and in the program.
    text = ".".join("".join(map(str, row)) for row in marks)
    page.wait_for_function("marks => new URLSearchParams(location.search).get('lab-marks') === marks", arg=text)
    page.get_by_role("button", name="Share", exact=True).click()
    page.get_by_text("Link copied. It restores what you see.").wait_for()
    page.get_by_role("button", name="Copy as Python").click()
    page.get_by_text("Program copied. It prints these numbers.").wait_for()
    source = page.evaluate("navigator.clipboard.readText()")
    assert str(marks[3]) in source and len(source.splitlines()) <= 15
    # Every control moves the bars, and ten flips in a second leave no stale number.
    page.get_by_role("button", name="Reset").click()
    page.get_by_role("button", name="Change the rules").click()
    page.get_by_label("pay of style").select_option("10")
    paid, weights = [[a, 10 * b, c] for a, b, c in GRADED], [10, 1, 1]
    weight = page.get_by_label("weight of correctness")
    weight.fill("10")
    drawn(page, computed(paid, weights=weights))
    # A deed that was done is told at the foot of the window.
    done = page.locator(".finished")
    done.get_by_text("✓ Done: give correctness a weight").wait_for()
    box = done.bounding_box()
    assert (box["height"], box["y"] + box["height"]) == (44, 900)
    weight.fill("11")
    assert page.get_by_role("alert").inner_text().endswith("from 0 to 10. The weight of correctness stays 10.")
    page.get_by_label("formulas of").select_option("trl")
    page.get_by_label("Method on the right").select_option("dvao")
    drawn(page, computed(paid, right="dvao", weights=weights, convention=gc.TRL))
    page.get_by_role("button", name="Reset").click()
    drawn(page, computed(GRADED))
    marks = [list(row) for row in GRADED]
    for n in range(10):
        toggle(page, n, n % 3).click(no_wait_after=True)
        marks[n][n % 3] = 1 - marks[n][n % 3]
    drawn(page, computed(marks))
    assert page.get_by_role("alert").count() == 0
    done.wait_for(state="hidden")


DOTS = f"""() => ["base", "other"].map(side => {BOARD}.querySelectorAll(`.dot.${{side}}`))
  .map(dots => [...dots].map(dot =>
    dot.getBoundingClientRect()).map(box => [box.x + box.width / 2, box.y + box.height / 2]))"""
PARTS = """all => all.map(row => [...row.querySelectorAll(".plot")].map(plot => {
  const [zero] = [plot.querySelector(".tick").getBoundingClientRect()].map(box => box.x + box.width / 2)
  const boxes = [...plot.querySelectorAll(".part")].map(part => part.getBoundingClientRect())
  return [zero, ...boxes.flatMap(box => [box.left, box.right])]
}))"""


def test_the_chip_of_a_changed_task_says_so_and_starts_over(visit):
    page = visit()
    says = "() => getComputedStyle(document.documentElement).getPropertyValue('--changed')"
    assert page.evaluate(says) == ""
    toggle(page, 0, 0).click()
    becomes(page, says, '" · changed ↺"')
    page.get_by_text("GDPO helps", exact=True).click()
    becomes(page, says, "")
    drawn(page, computed(GRADED))


def by_hand(marks):
    """Return two pairs, for GRPO and for GDPO as the paper has them: the advantages, and each reward's part of them."""
    r = np.array(marks, dtype=float)
    sums, z = r.sum(1), (r - r.mean(0)) / r.std(0, ddof=1)
    spreads = sums.std(ddof=1), z.sum(1).std(ddof=1)
    return [(parts.sum(1), parts) for parts in ((r - r.mean(0)) / spreads[0], z / spreads[1])]


def test_dots_and_parts_stand_where_numpy_has_them(visit):
    page = visit("?lab-task=interest")
    title, said = (
        page.locator("[data-cell-name=lab_claim] h1"),
        "GRPO cannot tell a wrong answer from seven right ones.",
    )
    assert title.inner_text() == said
    assert page.locator(".play").is_hidden()  # A reader who wants no motion has the still picture.
    marks = [list(row) for row in GRADED]
    for answer, reward in ((None, None), (8, 0), (4, 1)):
        if answer is not None:
            toggle(page, answer, reward).click()
            marks[answer][reward] = 1 - marks[answer][reward]
        drawn(page, computed(marks))
        settled(page)
        x, y = np.moveaxis(np.array(page.evaluate(DOTS)), -1, 0)
        a = np.array([one for one, _ in by_hand(marks)])
        unit, zero = np.polyfit(a.ravel(), x.ravel(), 1)
        assert unit > 200 and np.abs(zero + unit * a - x).max() < 0.1
        assert len({(round(u), round(v)) for u, v in zip(x[0], y[0], strict=True)}) == 12, "no dot hides another"
        wrong = page.locator(".row.wrong .number").all_inner_texts()
        assert wrong == [str(i + 1) for i, row in enumerate(marks) if not row[0]]
        assert page.locator(".dot.base.wrong").all_inner_texts() == wrong
    assert title.inner_text() != said
    # Every bar can be shown as what its rewards add, also by keyboard, and a link keeps that.
    page.get_by_role("button", name="Change the rules").click()
    page.get_by_role("button", name="Why: each bar").focus()
    page.keyboard.press("Enter")
    page.wait_for_function("() => new URLSearchParams(location.search).get('lab-why') === 'yes'")
    settled(page)
    drawn_parts = np.array(page.locator(".board .row").evaluate_all(PARTS))
    for side, (a, parts) in enumerate(by_hand(marks)):
        tick, *ends = drawn_parts[:, side].T
        widths = np.array(ends[1::2]) - np.array(ends[::2])
        unit, zero = np.polyfit(a, tick, 1)
        assert unit > 40 and np.abs(zero + unit * a - tick).max() < 0.1
        assert np.abs(widths.T - unit * np.abs(parts)).max() < 0.1
        up = parts.clip(min=0).sum(1)
        assert np.abs(zero + unit * up - np.maximum(np.max(ends, axis=0), zero)).max() < 0.1
    assert page.locator(".board .bar.base .tick").first.is_visible()


def places_below_the_headline(page):
    """Return how far below the headline the rows, the verdict and the first thing to do stand, in pixels."""
    h1, *below = (
        page.locator(selector).locator("visible=true").first.bounding_box()
        for selector in ("h1", ".board .rows", ".board .verdict", ".deed")
    )
    return tuple(round(one["y"] - h1["y"] - h1["height"], 1) for one in below)


def at_rest(page):
    """Return the positions of the dots, once they have not moved for longer than they rest between two motions."""
    page.wait_for_function(f"() => window.stood === (window.stood = JSON.stringify(({DOTS})()))", polling=700)
    return page.evaluate(DOTS)


def test_the_drop_falls_piles_up_and_lets_go(visit):
    page = visit()
    end = at_rest(page)
    page.emulate_media(reduced_motion="no-preference")
    page.get_by_role("button", name="Play").click()
    begun = page.evaluate(DOTS)
    assert max(y for _, y in begun[0]) < min(y for _, y in end[0]), "all are above the pile"
    becomes(page, f"() => {BOARD}.querySelector('.stage').textContent", "")  # while dots rest, it says what comes
    assert at_rest(page) == end
    page.get_by_text("marks", exact=True).first.focus()
    page.keyboard.press("Tab")  # The focus goes to the task that is chosen, from which an arrow goes to the next one.
    places, opened = {places_below_the_headline(page)}, set()
    for said in ("GDPO pushes right an", "Both methods agree.", "GDPO ranks wrong ove"):
        page.keyboard.press("ArrowRight")
        becomes(page, "() => document.querySelector('h1').textContent.slice(0, 20)", said)
        settled(page)
        for answer in (0, 9):
            page.locator(".row").nth(answer).hover()
            places.add(places_below_the_headline(page))
        # The events are dispatched so that the focus stays where it is.
        for name in ("Change the rules", "Why: each bar"):
            page.get_by_role("button", name=name).dispatch_event("click")
            settled(page)
            opened.add(places_below_the_headline(page))
    assert len(places) == len(opened) == 1, "nothing moves between tasks, rows and what adds up to a bar"


def test_a_mark_that_is_a_number_is_typed_and_left_by_arrows(visit):
    page = visit("?lab-task=coat&lab-why=yes")
    marks = [list(row) for row in grade_answers(TASKS[3]).marks]
    toggle(page, 7, 1).focus()
    for key in ("ArrowRight", "1", ".", "5", "ArrowDown"):  # What is typed replaces what stood in the cell.
        page.keyboard.press(key)
    marks[7][2] = 1.5
    drawn(page, computed(marks))
    page.wait_for_function("() => new URLSearchParams(location.search).get('lab-marks')?.split('~')[7] === '1_1_1.5'")
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("Space")
    marks[8][1] = 1 - marks[8][1]
    drawn(page, computed(marks))
    # A number beyond the limit is refused: the cell says so, and the last good state stays.
    score = page.get_by_label("Answer 8, conciseness")
    score.fill("1e308")
    score.press("Enter")
    refused = page.get_by_role("alert").inner_text()
    assert refused == "A mark here is a number of at most 1,000,000,000 in size. This one stays 1.5."
    assert score.input_value() == "1.50" and score.get_attribute("aria-invalid")
    drawn(page, computed(marks))
    ends = page.locator(".drop .picture").bounding_box()
    assert all(ends["x"] <= x <= ends["x"] + ends["width"] for side in page.evaluate(DOTS) for x, _ in side)


def test_on_a_phone_everything_can_be_touched(visit):
    page = visit(width=390, height=844, has_touch=True, is_mobile=True)
    drawn(page, computed(GRADED))
    small = (
        page.locator(".board :is(button, select, input, summary, .toggle)")
        .locator("visible=true")
        .evaluate_all(
            "all => all.filter(e => !e.closest('.toggle') || e.matches('.toggle')).map(e => e.getBoundingClientRect())"
            ".filter(box => Math.min(box.width, box.height) < 24).length"
        )
    )
    cut = page.locator(".board .value").evaluate_all("all => all.filter(v => v.scrollWidth > v.clientWidth + 1).length")
    assert (small, cut) == (0, 0)
    # A row has the first words of its answer. A sheet at the foot has all of it and leaves the bars of the row in
    # sight.
    assert page.locator(".row code").nth(9).inner_text().startswith("[compound(rate=5")
    toggle(page, 9, 0).tap()
    sheet = page.locator(".board .detail")
    sheet.wait_for()
    settled(page)
    row, box = page.locator(".row").nth(9).bounding_box(), sheet.bounding_box()
    # The picture of the drop stays in sight, below the page's bar and above the row.
    bar, drop = page.locator(".bar:has(nav)").bounding_box(), page.locator(".drop").bounding_box()
    assert abs(drop["y"] - bar["height"]) <= 1 and drop["y"] + drop["height"] <= row["y"] + 1
    assert drop["height"] <= 170 and row["height"] == pytest.approx(44, abs=1)
    assert row["y"] + row["height"] <= box["y"] + 1 and box["y"] + box["height"] == pytest.approx(844, abs=1)
    assert max(row["width"], box["width"]) <= 390
    assert "years=10" in sheet.inner_text() and sheet.evaluate("one => one.scrollWidth <= one.clientWidth")
    page.get_by_role("button", name="Close the arithmetic").tap()
    assert not sheet.is_visible()
    halo = f"() => getComputedStyle({BOARD}.querySelector('.drop.upright .tick')).textShadow"
    assert page.evaluate(halo) != "none", "a thread does not strike through a number of the axis"
