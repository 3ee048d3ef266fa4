"""The page in a browser: its bar, its chapters, its links and the Lab's instrument, by mouse, touch and keyboard."""

import re
from urllib.parse import urlencode, urlsplit

import pytest
from conftest import served
from helpers import accessibility_faults, arrived, becomes, settled
from links import HOSTILE, TASKS, random_link

import gdpo_core as gc
from gdpo_core import bfcl
from gdpo_core._words import signed
from views.address import CHAPTERS
from views.lab.answers import grade_answers

pytestmark = pytest.mark.slow

GRADED = [list(row) for row in grade_answers(TASKS[0]).marks]
# Its menu button, its outline, the input inside its upload, Vega's menu in a chart.
MARIMOS_OWN = ("radix", ".py-4", "marimo-file", "marimo-mime-renderer")
SHOWN = """() => [...document.querySelectorAll(".marimo-cell[data-cell-name]")].filter(c => c.checkVisibility())
  .map(c => c.dataset.cellName)"""


def toggle(page, answer, reward):
    return page.get_by_label(re.compile(f"^Answer {answer + 1}, {bfcl.REWARDS[reward]}, (passed|failed)$"))


def numbers(page):
    """{answer: (left, right)} as printed beside the bars."""
    rows = page.locator(".board .row").evaluate_all(
        "all => all.map(r => [r.querySelector('.number').textContent,"
        " ...[...r.querySelectorAll('.value')].map(v => v.textContent.replace(/^\\S /, ''))])"
    )
    return {int(answer) - 1: (left, right) for answer, left, right in rows}


def computed(marks, left="grpo", right="gdpo", **options):
    a, b = (gc.advantages(marks, method, **options).tolist() for method in (left, right))
    return {i: (signed(x), signed(y)) for i, (x, y) in enumerate(zip(a, b, strict=True))}


def drawn(page, expected):
    page.wait_for_function(
        "want => { const rows = [...document.querySelectorAll('marimo-anywidget')].map(e => e.shadowRoot)"
        ".find(s => s?.querySelector('.board')).querySelectorAll('.row');"
        " return [...rows].every(r => [...r.querySelectorAll('.value')].every((v, k) =>"
        " v.textContent.replace(/^\\S /, '') === want[r.querySelector('.number').textContent][k])) }",
        arg={str(i + 1): list(pair) for i, pair in expected.items()},
    )
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


def follows(page, scheme):
    """The page is as dark or light as the reader's system, which is `scheme` from now on."""
    page.emulate_media(color_scheme=scheme)
    page.wait_for_function(
        "([low, high]) => { const c = document.createElement('canvas').getContext('2d');"
        " c.fillStyle = getComputedStyle(document.body).backgroundColor; c.fillRect(0, 0, 1, 1);"
        " const red = c.getImageData(0, 0, 1, 1).data[0]; return low < red && red < high }",
        arg={"light": [240, 256], "dark": [-1, 40]}[scheme],
    )
    settled(page)


def serious_faults(page):
    """What axe finds that is serious and ours."""
    return {
        (fault["id"], str(node["target"]), node["failureSummary"][:200])
        for fault, node in accessibility_faults(page)
        if fault["impact"] in ("serious", "critical") and not any(own in str(node["target"]) for own in MARIMOS_OWN)
    }


# --- chapters --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_a_link_opens_its_chapter_alone_and_without_serious_fault_in_both_themes(visit, chapter):
    page = visit(f"?at={chapter}", scheme="dark")
    at(page, chapter)
    chapter_ready(page, chapter)
    assert {name.split("_")[0] for name in page.evaluate(SHOWN)} - {"bar", "footer"} == {chapter}
    current = page.locator("nav [aria-current=page]")
    assert current.count() == 1 and CHAPTERS[chapter] in current.inner_text()
    assert page.locator("[role=main]").count() == 1 and page.get_by_role("navigation", name="Chapters").count() == 1
    for scheme in ("dark", "light"):
        follows(page, scheme)
        assert not serious_faults(page), scheme


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


def test_the_instrument_alone(visit):
    page = visit("?embed=lab")
    drawn(page, computed(GRADED))
    assert not page.locator(".bar nav").is_visible() and not page.locator("h1").first.is_visible()
    assert not page.get_by_role("switch").first.is_visible()


def test_print_has_what_was_opened_under_headings(visit):
    page = visit()
    page.get_by_role("navigation").get_by_role("link", name="Train").click()
    chapter_ready(page, "train")
    page.get_by_role("navigation").get_by_role("link", name="Lab").click()
    at(page, "lab")
    page.emulate_media(media="print")
    shown = {name.split("_")[0] for name in page.evaluate(SHOWN)}
    assert {"lab", "train"} <= shown
    assert page.locator(".board").is_visible() and not page.locator(".bar nav").is_visible()
    assert page.locator("h1").locator("visible=true").count() == 2
    page.emulate_media(media="screen")


# --- links -----------------------------------------------------------------------------------------------------------


# Everything that the open chapter says, draws and is set to, through all shadow roots.
STATE = """chapter => {
  const all = [], walk = node => {
    if (node.nodeType === 3) return node.data.trim() && all.push(node.data.trim())
    if (node.nodeType === 1) {
      if (node.matches("style, script, .unseen") || !node.checkVisibility()) return
      if (node.matches("input, select, textarea")) all.push([node.type, node.checked ?? "", node.value])
      for (const name of ["aria-pressed", "aria-label", "d"])
        if (node.hasAttribute(name)) all.push([name, node.getAttribute(name)])
      if (node.shadowRoot) node.shadowRoot.childNodes.forEach(walk)
    }
    node.childNodes.forEach(walk)
  }
  document.querySelectorAll(`[data-cell-name^="${chapter}_"]`).forEach(walk)
  return all
}"""
READY = {
    "lab": ".board .bar",
    "train": "[data-cell-name^=train_] svg",
    "evidence": "[data-cell-name=evidence_about] .onward",
    "run": ".audit.front, .unread",
    "use": ".claims",
}


def seen(page, chapter):
    """The state of the chapter on the screen, once it has all come."""
    arrived(page, READY[chapter])
    settled(page)
    return page.evaluate(STATE, chapter)


def test_the_address_restores_state_and_numbers_in_another_browser_and_after_a_reload(visit, state_seed):
    chapter = list(CHAPTERS)[state_seed % len(CHAPTERS)]
    page = visit(f"?at={chapter}&{urlencode(random_link(chapter, state_seed))}")
    first, bars = seen(page, chapter), numbers(page)
    page.get_by_role("button", name="Share", exact=True).click()
    page.get_by_text("Link copied. It restores what you see.").wait_for()
    other = visit(page.evaluate("location.search"))
    assert (seen(other, chapter), numbers(other)) == (first, bars)
    becomes(other, "() => location.search", page.evaluate("location.search"))
    assert not other.locator(".ignored").is_visible()
    other.reload()
    arrived(other, ".board .bar")
    assert (seen(other, chapter), numbers(other)) == (first, bars)


def test_a_hostile_link_opens_the_page_and_says_what_it_ignored(visit, hostile):
    query, note = HOSTILE[hostile]
    chapter = next((key for key in CHAPTERS if f"{key}-" in query), "lab")
    page = visit(f"?at={chapter}&{query}")
    drawn(page, computed(GRADED))
    if "at=" not in query:
        arrived(page, READY[chapter])
    page.locator(".ignored li", has_text=note[:40]).first.wait_for()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.get_by_role("button", name="Close").click()
    assert not page.locator(".ignored").is_visible()


def test_flips_are_in_the_address_and_the_copied_program_prints_their_numbers(visit):
    page = visit()
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    toggle(page, 5, 0).click()
    flipped = [list(row) for row in GRADED]
    flipped[5][0] = 1 - flipped[5][0]
    drawn(page, computed(flipped))
    marks = ".".join("".join(map(str, row)) for row in flipped)
    page.wait_for_function("marks => new URLSearchParams(location.search).get('lab-marks') === marks", arg=marks)
    page.get_by_role("button", name="Copy as Python").click()
    page.get_by_text("Program copied. It prints these numbers.").wait_for()
    source = page.evaluate("navigator.clipboard.readText()")
    assert str(flipped[5]) in source and len(source.splitlines()) <= 15


# --- the Lab ---------------------------------------------------------------------------------------------------------


def test_the_lab_as_it_opens(visit, subtests):
    page = visit(width=1440, height=900)
    with subtests.test("the first screen"):
        for selector in ("h1", ".board .rows", ".sentences", ".detail", ".shares"):
            box = page.locator(selector).locator("visible=true").first.bounding_box()
            assert box["y"] >= 0 and box["y"] + box["height"] <= 900, selector
        assert "◆ 3 kinds" in page.locator(".words").inner_text()
        assert page.evaluate("document.getElementById('App').scrollHeight") <= 4 * 900
    with subtests.test("the way past the bar"):
        page.keyboard.press("Tab")
        skip = page.get_by_role("button", name="Skip to the chapter")
        skip.focus()
        assert skip.bounding_box()["y"] >= 0
        page.keyboard.press("Enter")
        becomes(page, "() => document.activeElement.tagName", "H1")
    with subtests.test("a term explains itself on focus"):
        term = page.locator("dfn.term", has_text="advantage").first
        display = "e => getComputedStyle(e, '::after').display"
        assert term.evaluate(display) == "none"
        term.focus()
        page.wait_for_function(display + " === 'block'", arg=term.element_handle())
    with subtests.test("the verdict is not announced before the first change"):
        page.locator(".row").nth(5).hover()
        assert page.locator(".sentences").get_attribute("role") is None
        assert "Answer 6" in page.locator(".detail").inner_text()


def test_every_control_moves_the_bars_and_ten_flips_in_a_second_leave_no_stale_number(visit):
    page = visit()
    pays, weights = [1.0, 1.0, 1.0], [1.0, 1.0, 1.0]

    def rewards():
        return [[m * p for m, p in zip(row, pays, strict=True)] for row in GRADED]

    page.locator(".paying summary").click()
    page.get_by_label("What a pass of style pays").select_option("10")
    pays[1] = 10
    drawn(page, computed(rewards()))
    page.get_by_label("Weight of correctness").fill("2.5")
    weights[0] = 2.5
    drawn(page, computed(rewards(), weights=weights))
    page.get_by_label("Formulas of").select_option("trl")
    drawn(page, computed(rewards(), weights=weights, convention=gc.TRL))
    page.get_by_label("Method on the right").select_option("dvao")
    drawn(page, computed(rewards(), right="dvao", weights=weights, convention=gc.TRL))
    page.get_by_role("button", name="Reset").click()
    drawn(page, computed(GRADED))
    marks = [list(row) for row in GRADED]
    for n in range(10):
        toggle(page, n, n % 3).click(no_wait_after=True)
        marks[n][n % 3] = 1 - marks[n][n % 3]
    drawn(page, computed(marks))


ORDER = """() => [...[...document.querySelectorAll('marimo-anywidget')].map(e => e.shadowRoot)
  .find(s => s?.querySelector('.board')).querySelectorAll('.row .number')].map(n => Number(n.textContent))"""


def test_the_grid_by_keyboard_and_rows_that_stay_under_the_hand(visit):
    page = visit()
    toggle(page, 0, 0).focus()
    for key in ("ArrowDown", "ArrowDown", "ArrowDown", "ArrowRight", "ArrowLeft", "Space"):
        page.keyboard.press(key)
    marks = [list(row) for row in GRADED]
    marks[3][0] = 1 - marks[3][0]
    drawn(page, computed(marks))
    assert page.locator(".sentences").get_attribute("role") == "status"
    assert "correctness: you set it to failed" in page.locator(".detail").inner_text()
    page.wait_for_timeout(1500)
    assert page.evaluate(ORDER) == list(range(1, 13))
    page.get_by_role("button", name="Sort by GDPO").click()
    a = gc.gdpo(marks)
    becomes(page, ORDER, [i + 1 for i in sorted(range(12), key=lambda i: (-round(a[i].item(), 9), i))])


def test_what_would_change_that_does_it_and_can_be_taken_back(visit):
    page = visit(f"?lab-task={TASKS[1].id}")
    hurts = [list(row) for row in grade_answers(TASKS[1]).marks]
    drawn(page, computed(hurts))
    page.get_by_role("button", name="What would change that?").click()
    said = page.locator(".aimed").inner_text()
    weight = float(re.search(r"it is ([\d.]+) now", said)[1])
    drawn(page, computed(hurts, weights=[weight, 1, 1]))
    assert gc.collapse(hurts, "gdpo", weights=[weight, 1, 1]).inversions() == 0
    page.get_by_role("button", name="Undo").click()
    drawn(page, computed(hurts))


def test_what_lies_below_the_board_follows_it(visit):
    page = visit()
    for switch in page.get_by_role("switch").all():
        switch.click()
    page.locator(".ranking").wait_for()
    assert page.locator(".wide tbody tr").count() == len(gc.CONVENTIONS)
    page.locator("text=Lighter and dashed").wait_for()
    before = page.locator(".wide").inner_text()
    toggle(page, 5, 0).click()
    page.wait_for_function("before => document.querySelector('.wide').innerText !== before", arg=before)
    ranked = page.locator(".ranking").inner_text()
    page.get_by_role("slider", name="Diaries of a celebrity: enjoyment").focus()
    for _ in range(5):
        page.keyboard.press("ArrowRight")
    page.wait_for_function("before => document.querySelector('.ranking').innerText !== before", arg=ranked)
    assert page.evaluate("document.getElementById('App').scrollWidth <= innerWidth")


def check_widths(page, width):
    """Nothing of the Lab sticks out, is cut off or is too small to touch."""
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate("document.getElementById('App').scrollWidth") <= width
    too_wide = page.locator(".board *").evaluate_all(
        f"all => all.filter(e => e.checkVisibility() && e.getBoundingClientRect().right > {width} + 1"
        " && !e.closest('.unseen')).map(e => e.className)"
    )
    assert too_wide == []
    small = (
        page.locator(".board :is(button, select, input, summary, .toggle)")
        .locator("visible=true")
        .evaluate_all(
            "all => all.filter(e => !e.closest('.tasks') && !e.closest('.toggle') || e.matches('.toggle'))"
            ".map(e => [e.className || e.tagName, e.getBoundingClientRect()])"
            ".filter(([, b]) => Math.min(b.width, b.height) < 24).map(([name, b]) => `${name} ${b.width}x${b.height}`)"
        )
    )
    assert small == []
    texts = page.locator(".board .value").evaluate_all(
        "all => all.filter(v => v.scrollWidth > v.clientWidth + 1).length"
    )
    assert texts == 0


def test_a_phone_shows_everything_within_its_width(visit):
    page = visit(width=390, height=844, has_touch=True, is_mobile=True)
    drawn(page, computed(GRADED))
    page.locator(".paying summary").tap()
    for width in (390, 320):
        page.set_viewport_size({"width": width, "height": 844})
        settled(page)
        check_widths(page, width)
    page.get_by_label("What a pass of style pays").select_option("10")
    drawn(page, computed([[a, 10 * b, c] for a, b, c in GRADED]))
    toggle(page, 5, 0).tap()
    page.locator(".row .detail").wait_for()


def test_two_visitors_do_not_share_their_toggles(visit):
    one, other = visit(), visit()
    toggle(one, 0, 0).click()
    drawn(one, computed([[0, *GRADED[0][1:]], *GRADED[1:]]))
    drawn(other, computed(GRADED))


def test_a_page_whose_server_is_started_anew_goes_on_by_itself(browser):
    flipped = [[1 - GRADED[0][0], *GRADED[0][1:]], *GRADED[1:]]
    page = browser.new_page(reduced_motion="reduce")
    with served("app.py") as url:
        page.goto(url)
        arrived(page, ".board .bar")
        toggle(page, 0, 0).click()
        page.wait_for_url("**lab-marks=**")
    page.locator(".lost", has_text="The server does not answer.").wait_for()
    assert page.locator("#root").get_attribute("inert") is not None  # what would not be computed can't be set
    with page.expect_event("load") as loaded, served("app.py", port=urlsplit(url).port):
        loaded.value  # noqa: B018
        arrived(page, ".board .bar")
        drawn(page, computed(flipped))
        flipped[1] = [1 - flipped[1][0], *flipped[1][1:]]
        toggle(page, 1, 0).click()
        drawn(page, computed(flipped))
        assert not page.locator(".lost").is_visible() and page.get_by_text("Failed to update").count() == 0
    page.close()
