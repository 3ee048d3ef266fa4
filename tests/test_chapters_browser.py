"""The page in a browser: its bar, its chapters, its links and the Lab's instrument, by mouse, touch and keyboard."""

import random
import re
from urllib.parse import parse_qs, urlencode

import pytest
from helpers import accessibility_faults, settled

import gdpo_core as gc
from gdpo_core import bfcl
from gdpo_core._words import signed
from views.lab import PAYS, UNDEFINED, Lab, methods, sheet
from views.link import CHAPTERS, Session

pytestmark = pytest.mark.slow

TASKS = bfcl.load_tasks("data/tasks")
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
    settled(page, 500)


# --- chapters --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_a_link_opens_its_chapter_alone(visit, chapter):
    page = visit(f"?at={chapter}&theme=light")
    at(page, chapter)
    chapter_ready(page, chapter)
    assert {name.split("_")[0] for name in page.evaluate(SHOWN)} - {"bar"} == {chapter}
    current = page.locator("nav [aria-current=page]")
    assert current.count() == 1 and CHAPTERS[chapter] in current.inner_text()
    assert page.locator("[role=main]").count() == 1 and page.get_by_role("navigation", name="Chapters").count() == 1


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


def test_the_way_past_the_bar(visit):
    page = visit()
    page.keyboard.press("Tab")
    skip = page.get_by_role("button", name="Skip to the chapter")
    skip.focus()
    assert skip.bounding_box()["y"] >= 0
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.tagName") == "H1"


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


def random_state(seed):
    r = random.Random(seed)
    while True:
        state = {
            "lab-task": r.choice(TASKS).id,
            "lab-marks": ".".join("".join(r.choice("01") for _ in range(3)) for _ in range(12)),
            "lab-pays": "_".join(f"{r.choice(PAYS):g}" for _ in range(3)),
            "lab-weights": "_".join(f"{r.randint(0, 50) / 10:g}" for _ in range(3)),
            "lab-convention": r.choice(list(gc.CONVENTIONS)),
            "lab-method": r.choice([key for key in methods() if key != "grpo"]),
        }
        if [state["lab-method"], state["lab-convention"]] not in UNDEFINED:
            return state


@pytest.mark.parametrize("seed", range(5))
def test_a_shared_link_restores_state_and_numbers(visit, seed):
    given = urlencode(random_state(seed))
    wanted = Lab(TASKS, Session.of(parse_qs(given)))
    said = wanted.drawing["said"]
    expected = {i: (said[0][i], said[1][i]) for i in range(12)}
    page = visit(f"?{given}")
    drawn(page, expected)
    page.get_by_role("button", name="Share").click()
    page.wait_for_function("location.search.includes('v=')")
    other = visit(page.evaluate("location.search"))
    drawn(other, expected)
    assert other.locator(".verdict").inner_text() == page.locator(".verdict").inner_text()
    assert other.locator(".shares").inner_text() == page.locator(".shares").inner_text()
    assert not other.locator(".ignored").is_visible()


HOSTILE = [
    "v=99",
    "lab-marks=" + "1" * 10000,
    "lab-marks=111.000&lab-pays=nan_inf_-1&lab-weights=a_b_c",
    "lab-task=%3Cscript%3Ealert(1)%3C/script%3E&colour=red",
    "lab-convention=__class__&lab-method=grpo",
    "train-scenario=%00&evidence-draw=1e999&run-sample=../../etc/passwd&use-framework=%F0%9F%92%A5&lab-x=1",
    "at=nowhere&embed=nothing&lab-weights=1_1",
]


@pytest.mark.parametrize("query", HOSTILE, ids=range(len(HOSTILE)))
def test_a_hostile_link_opens_the_page_and_says_what_it_ignored(visit, query):
    page = visit(f"?{query}")
    drawn(page, computed(GRADED))
    page.locator(".ignored li").first.wait_for()
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
    page.wait_for_function("document.documentElement.dataset.program")
    source = page.evaluate("document.documentElement.dataset.program")
    assert str(flipped[5]) in source and len(source.splitlines()) <= 15


# --- the Lab ---------------------------------------------------------------------------------------------------------


def test_everything_is_on_the_first_screen(visit):
    page = visit(width=1440, height=900)
    for selector in ("h1", ".board .rows", ".verdict", ".detail", ".shares"):
        box = page.locator(selector).locator("visible=true").first.bounding_box()
        assert box["y"] >= 0 and box["y"] + box["height"] <= 900, selector
    assert "◆ 3 mixes" in page.locator(".words").inner_text()
    assert page.evaluate("document.getElementById('App').scrollHeight") <= 4 * 900


def test_every_control_moves_the_bars(visit):
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


def test_ten_flips_in_a_second_leave_no_stale_number(visit):
    page = visit()
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


def test_a_verdict_is_not_announced_before_the_first_change(visit):
    page = visit()
    page.locator(".row").nth(5).hover()
    assert page.locator(".verdict").get_attribute("role") is None
    assert "Answer 6" in page.locator(".detail").inner_text()


def test_the_tours_steps_of_the_lab_by_keyboard_alone(visit):
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
    tour.focus()
    page.keyboard.press("Enter")
    assert page.locator(".tour li.done").count() == 5 and page.locator(".tour").is_visible()
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


def test_a_term_explains_itself_on_focus(visit):
    page = visit()
    term = page.locator("dfn.term", has_text="advantage").first
    shown = "e => getComputedStyle(e, '::after').display"
    assert term.evaluate(shown) == "none"
    term.focus()
    assert term.evaluate(shown) == "block"


@pytest.mark.parametrize("width", [390, 320])
def test_a_phone_shows_everything_within_its_width(visit, width):
    page = visit(width=width, height=844, has_touch=True, is_mobile=True)
    drawn(page, computed(GRADED))
    page.locator(".paying summary").tap()
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
    page.get_by_label("What a pass of style pays").select_option("10")
    drawn(page, computed([[a, 10 * b, c] for a, b, c in GRADED]))
    toggle(page, 5, 0).tap()
    page.locator(".row .detail").wait_for()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("chapter", CHAPTERS)
def test_no_serious_accessibility_fault(visit, chapter, scheme):
    page = visit(f"?at={chapter}", scheme=scheme)
    chapter_ready(page, chapter)
    ours = {
        (fault["id"], str(node["target"]), node["failureSummary"][:200])
        for fault, node in accessibility_faults(page)
        if fault["impact"] in ("serious", "critical") and not any(own in str(node["target"]) for own in MARIMOS_OWN)
    }
    assert not ours


def test_dark_follows_the_readers_system(visit):
    page = visit()
    for scheme, low, high in (("light", 240, 256), ("dark", -1, 40), ("light", 240, 256)):
        page.emulate_media(color_scheme=scheme)
        page.wait_for_function(
            "([low, high]) => { const c = document.createElement('canvas').getContext('2d');"
            " c.fillStyle = getComputedStyle(document.body).backgroundColor; c.fillRect(0, 0, 1, 1);"
            " const red = c.getImageData(0, 0, 1, 1).data[0]; return low < red && red < high }",
            arg=[low, high],
        )


def test_two_visitors_do_not_share_their_toggles(visit):
    one, other = visit(), visit()
    toggle(one, 0, 0).click()
    drawn(one, computed([[0, *GRADED[0][1:]], *GRADED[1:]]))
    drawn(other, computed(GRADED))
