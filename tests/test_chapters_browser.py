"""The page in a browser: its bar, its chapters, its links and the Lab's instrument, by mouse, touch and keyboard."""

import re
from urllib.parse import parse_qs, urlencode

import pytest
from helpers import accessibility_faults, arrived, settled
from links import HOSTILE, TASKS, opened, random_link

import gdpo_core as gc
from gdpo_core import bfcl
from gdpo_core._words import signed
from views.lab import sheet
from views.link import CHAPTERS

pytestmark = pytest.mark.slow

GRADED = sheet(TASKS[0])["graded"]
MARIMOS_OWN = ("radix", ".py-4", "marimo-file")  # its menu button, its outline and the input inside its upload
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
    assert {name.split("_")[0] for name in page.evaluate(SHOWN)} - {"bar"} == {chapter}
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
    assert not page.locator(".folds").is_visible()


def test_print_has_what_was_opened_under_headings(visit):
    page = visit()
    page.get_by_role("navigation").get_by_role("link", name="Train").click()
    chapter_ready(page, "train")
    page.get_by_role("navigation").get_by_role("link", name="Lab").click()
    page.emulate_media(media="print")
    shown = {name.split("_")[0] for name in page.evaluate(SHOWN)}
    assert {"lab", "train"} <= shown
    assert page.locator(".board").is_visible() and not page.locator(".bar nav").is_visible()
    assert page.locator("h2:text-is('Train')").is_visible() and not page.locator("h2:text-is('Evidence')").is_visible()
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
    "train": ".panels svg",
    "evidence": ".square",
    "run": ".audit.front, .unread",
    "use": ".claims",
}


def seen(page, chapter):
    """The state of the chapter on the screen, once it has all come."""
    arrived(page, READY[chapter])
    settled(page)
    return page.evaluate(STATE, chapter)


def test_a_shared_link_restores_state_and_numbers(visit, state_seed):
    chapter = list(CHAPTERS)[state_seed % len(CHAPTERS)]
    given = urlencode(random_link(chapter, state_seed))
    session, (_, lab, *_) = opened(given, chapter)
    bars = {i: pair for i, pair in enumerate(zip(*lab["said"], strict=True))}
    page = visit(f"?at={chapter}&{given}")
    drawn(page, bars)
    first = seen(page, chapter)
    page.get_by_role("button", name="Share", exact=True).click()
    page.wait_for_function("() => location.search.includes('v=')")
    link = page.evaluate("location.search.slice(1)")
    assert parse_qs(link) == parse_qs(session.query(chapter)), "what is shared is what the link said"
    other = visit(f"?{link}")
    drawn(other, bars)
    assert seen(other, chapter) == first
    assert not other.locator(".ignored").is_visible()


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


def test_the_copied_program_prints_the_numbers(visit):
    page = visit()
    toggle(page, 5, 0).click()
    flipped = [list(row) for row in GRADED]
    flipped[5][0] = 1 - flipped[5][0]
    drawn(page, computed(flipped))
    page.get_by_role("button", name="Copy as Python").click()
    page.wait_for_function("() => document.documentElement.dataset.program")
    source = page.evaluate("document.documentElement.dataset.program")
    assert str(flipped[5]) in source and len(source.splitlines()) <= 15


# --- the Lab ---------------------------------------------------------------------------------------------------------


def test_the_lab_as_it_opens(visit, subtests):
    page = visit(width=1440, height=900)
    with subtests.test("the first screen"):
        for selector in ("h1", ".board .rows", ".verdict", ".detail", ".shares"):
            box = page.locator(selector).locator("visible=true").first.bounding_box()
            assert box["y"] >= 0 and box["y"] + box["height"] <= 900, selector
        assert "◆ 3 mixes" in page.locator(".words").inner_text()
        assert page.evaluate("document.getElementById('App').scrollHeight") <= 4 * 900
    with subtests.test("the way past the bar"):
        page.keyboard.press("Tab")
        skip = page.get_by_role("button", name="Skip to the chapter")
        skip.focus()
        assert skip.bounding_box()["y"] >= 0
        page.keyboard.press("Enter")
        assert page.evaluate("document.activeElement.tagName") == "H1"
    with subtests.test("a term explains itself on focus"):
        term = page.locator("dfn.term", has_text="advantage").first
        display = "e => getComputedStyle(e, '::after').display"
        assert term.evaluate(display) == "none"
        term.focus()
        assert term.evaluate(display) == "block"
    with subtests.test("the verdict is not announced before the first change"):
        page.locator(".row").nth(5).hover()
        assert page.locator(".verdict").get_attribute("role") is None
        assert "Answer 6" in page.locator(".detail").inner_text()


def test_every_control_moves_the_bars_and_ten_flips_in_a_second_leave_no_stale_number(visit):
    page = visit()
    pays, weights = [1.0, 1.0, 1.0], [1.0, 1.0, 1.0]

    def rewards():
        return [[m * p for m, p in zip(row, pays, strict=True)] for row in GRADED]

    page.get_by_label("What a pass of style pays").select_option("10")
    pays[1] = 10
    drawn(page, computed(rewards()))
    page.get_by_label("Weight of correctness").fill("2.5")
    weights[0] = 2.5
    drawn(page, computed(rewards(), weights=weights))
    page.get_by_label("Computed as by").select_option("trl")
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


def test_the_grid_by_keyboard_and_its_focus_outlives_the_sorting(visit):
    page = visit()
    toggle(page, 0, 0).focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Space")
    marks = [list(row) for row in GRADED]
    marks[1][1] = 1 - marks[1][1]
    drawn(page, computed(marks))
    page.wait_for_function(
        "() => { const r = [...document.querySelectorAll('marimo-anywidget')].map(e => e.shadowRoot)"
        ".find(s => s?.querySelector('.board')); return r.querySelector('.row .number').textContent === '1' &&"
        " r.activeElement?.getAttribute('aria-label') === 'Answer 2, style, failed' &&"
        " r.querySelectorAll('.row .number')[1].textContent !== '2' }"
    )
    assert page.locator(".verdict").get_attribute("role") == "status"


def test_the_tour_by_keyboard_alone(visit):
    page = visit()
    tour = page.get_by_role("button", name=re.compile("^Tour"))

    def at_grid(answer, reward):
        toggle(page, answer, reward).focus()
        page.keyboard.press("Space")

    def ticked(n):
        page.wait_for_function(
            "n => [...document.querySelectorAll('marimo-anywidget')].some(e =>"
            " [...e.shadowRoot?.querySelectorAll('.tools button') ?? []].some(b => b.textContent === `Tour ${n}/7`))",
            arg=n,
        )

    at_grid(9, 0)  # the right one in bad style is wrong too: fewer ties
    ticked(1)
    at_grid(9, 0)
    page.get_by_label("Weight of correctness").focus()
    page.keyboard.press("ControlOrMeta+a")
    page.keyboard.type("2")
    ticked(2)
    page.keyboard.press("ControlOrMeta+a")
    page.keyboard.type("1")
    pay = page.get_by_label("What a pass of conciseness pays")
    pay.focus()
    page.keyboard.press("End")
    ticked(3)
    pay.focus()
    pay.select_option("1")
    at_grid(0, 1)  # as many pass style as are correct, so that GDPO ties two
    ticked(4)
    for answer in range(5):  # nobody passes all: GRPO ties the best
        at_grid(answer, 2)
    ticked(5)

    def go(chapter):
        page.get_by_role("navigation").get_by_role("link", name=CHAPTERS[chapter]).focus()
        page.keyboard.press("Enter")
        at(page, chapter)

    go("train")
    page.get_by_role("button", name="Weights tuned for a sum").focus()
    page.keyboard.press("Enter")
    ticked(6)
    go("run")
    arrived(page, ".audit.front")
    settled(page)
    ticked(6)  # the sample that is there already is nobody's deed
    page.get_by_label("Sample", exact=True).focus()
    page.keyboard.press("ArrowDown")
    ticked(7)
    tour.focus()
    page.keyboard.press("Enter")
    assert page.locator(".tour li.done").count() == 7 and page.locator(".tour").is_visible()
    page.keyboard.press("Tab")
    page.keyboard.press("Escape")
    assert not page.locator(".tour").is_visible()


def test_folds_are_filled_when_they_are_opened(visit):
    page = visit()
    for summary in page.locator(".fold summary").all():
        summary.click()
    page.locator(".rankings .ranking").wait_for()
    assert page.locator(".fold .wide tbody tr").count() == len(gc.CONVENTIONS)
    before = page.locator(".rankings").inner_text()
    slider = page.get_by_label("Murder at the regatta: enjoyment")
    slider.focus()
    for _ in range(5):
        page.keyboard.press("ArrowLeft")
    page.wait_for_function(
        "before => [...document.querySelectorAll('marimo-anywidget')].map(e => e.shadowRoot)"
        ".find(s => s?.querySelector('.board')).querySelector('.rankings').innerText !== before",
        arg=before,
    )
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
