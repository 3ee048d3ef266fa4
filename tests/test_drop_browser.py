"""The first screen of the Lab in a browser: where the labels of the drop stand, what Play shows, what a reader is
asked, and how much there is to read.
"""

import json
import random
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from helpers import ROOTS, becomes, settled
from hypothesis import given
from hypothesis import strategies as st
from links import TASKS

import gdpo_core as gc
from gdpo_core.board import Board
from gdpo_core.board.drawing import SET_BY_READERS, draw
from gdpo_core.board.state import CHOSEN_METHODS, PAYS, UNDEFINED
from views.bfcl import REWARDS
from views.chapters.lab.answers import grade_answers

pytestmark = pytest.mark.slow

SCRIPT = (Path(__file__).parent / "drop_boxes.js").read_text(encoding="utf-8")
SHEETS = [grade_answers(task) for task in TASKS]
WIDTHS = (390, 768, 1024, 1440)
# A page with nothing but a board, which stands in a model that never answers. It is as wide as in the Lab.
HOST = """<!doctype html><meta charset="utf-8"><style>
  :root { --foreground: CanvasText; --background: Canvas; --muted-foreground: GrayText; --border: GrayText; }
  body { margin: 0; padding: 0 clamp(16px, 4.3vw, 62px); }
</style><div></div><script type="module">CODE
window.lay = async (traits) => {
  window.leave?.();
  const place = document.querySelector("div");
  place.replaceChildren();
  const answers = { on() {}, off() {}, save_changes() {} };
  const model = { get: (name) => traits[name], set: (name, x) => (traits[name] = x), ...answers };
  window.leave = render({ model, el: place });
  for (let frame = 0; frame < 2; frame++) await new Promise(requestAnimationFrame);
  return collisions(place.firstChild.shadowRoot.querySelector(".drop"));
};
SCRIPT
window.collisions = collisions;
</script>"""
BOARD = f"{ROOTS}.find(root => root?.querySelector('.board'))"


def any_state(seed):
    """Return the board of a task in a random state, as a browser holds it: with flipped marks, pays, weights, a method
    and a convention.
    """
    rng = random.Random(seed)
    sheet = rng.choice(SHEETS)
    marks = [list(row) for row in sheet.marks]
    for _ in range(rng.choice((0, 1, 1, 2, 3, 5, 9, 20))):
        row, k = rng.choice(marks), rng.randrange(3)
        row[k] = 1 - row[k] if row[k] in (0, 1) else rng.random()
    changed = {
        "pays": tuple(rng.choice(PAYS) for _ in range(3)) if rng.random() < 0.5 else (1.0, 1.0, 1.0),
        "weights": tuple(rng.choice((0.0, 0.3, 1.0, 2.0, 6.5)) for _ in range(3)) if rng.random() < 0.5 else (1.0,) * 3,
        "method": "gdpo" if rng.random() < 0.7 else rng.choice(list(CHOSEN_METHODS)),
        "convention": "paper" if rng.random() < 0.6 else rng.choice(list(gc.CONVENTIONS)),
    }
    if [changed["method"], changed["convention"]] in UNDEFINED:
        changed["method"] = "gdpo"
    return held(sheet, replace(sheet.state, marks=tuple(map(tuple, marks)), primary=0, **changed))


def held(sheet, state):
    board = Board(
        sheet.marks, answers=sheet.answers, names=REWARDS, reasons=sheet.reasons, primary=REWARDS[0], drop=True
    )
    traits = {name: getattr(board, name) for name in Board.class_own_traits(sync=True)}
    changed = {name: getattr(state, name) for name in SET_BY_READERS}
    return json.loads(json.dumps(traits | changed | {"drawing": draw(state)}))


@pytest.fixture(scope="module")
def laid(browser):
    """Yield a page that lays out a board and returns what collides in its drop."""
    page = browser.new_page(reduced_motion="reduce")
    code = str(Board._esm).replace("export default { render };", "")
    page.set_content(HOST.replace("SCRIPT", SCRIPT).replace("CODE", code))
    page.wait_for_function("() => window.lay")
    yield page
    page.close()


def collisions(page, traits):
    found = {}
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 900})
        came = page.evaluate("traits => lay(traits)", traits)
        found |= {(width, kind): texts for kind, texts in came["found"].items()}
    return found


def test_the_boxes_see_a_label_that_stands_on_something(laid):
    traits = held(SHEETS[0], SHEETS[0].state)
    assert not collisions(laid, traits)
    assert laid.evaluate("traits => lay(traits)", traits)["labels"] == 3
    move = "root => { root.querySelector('.note').style.translate = '700px 150px' }"
    laid.evaluate(f"({move})(document.querySelector('.board-root').shadowRoot)")
    seen = laid.evaluate("() => collisions(document.querySelector('.board-root').shadowRoot.querySelector('.drop'))")
    assert {"a label on a dot", "a label on an axis", "a label on a thread"} <= set(seen["found"])


@given(st.integers(0, 2**32))
def test_labels_stand_free_and_no_dot_covers_a_number_in_any_state_at_any_width(laid, seed):
    for n in (2 * seed, 2 * seed + 1):
        traits = any_state(n)
        assert not collisions(laid, traits), {name: traits[name] for name in SET_BY_READERS}


def test_a_group_without_room_for_its_numbers_shows_none(laid):
    rng = np.random.default_rng(3)
    for rows in (np.ones((64, 2)), rng.integers(0, 2, (64, 3)), rng.random((64, 2)), np.eye(2)):
        board = Board(rows.tolist(), drop=True)
        traits = {name: getattr(board, name) for name in Board.class_own_traits(sync=True)}
        assert not collisions(laid, json.loads(json.dumps(traits)))


def test_the_first_screen_asks_for_little_reading(visit):
    page = visit(width=1440, height=900)
    page.emulate_media(reduced_motion="no-preference")
    settled(page)
    met = page.evaluate(f"() => {{ {SCRIPT} return firstScreen() }}")
    assert met["marks"] == 36
    assert len(met["words"]) <= 150, met["words"]
    assert met["controls"] <= 60


HEAD = f"""() => {{
  {SCRIPT}
  const root = {BOARD}, found = [];
  const all = [...root.querySelectorAll(".head *, .rules *")].filter((node) => seen(node) && !node.matches("option"));
  const words = all.filter((node) => [...node.childNodes].some((one) => one.nodeType === 3 && one.data.trim()));
  const place = (node) => (node.matches("button") ? box(node) : ink(node));
  words.forEach((one, n) => words.slice(n + 1).filter((two) => !one.contains(two)).forEach((two) => {{
    if (meet(place(one), place(two), 1)) found.push([one.textContent, two.textContent]);
  }}));
  return found;
}}"""


def test_nothing_in_the_head_stands_on_anything_else_at_any_width_or_on_paper(visit):
    screen = (320, 390, 700, 768, 800, 1024, 1200, 1370, 1420, 1440)
    for query in ("", "?lab-method=grpo_no_std"):  # the rules are closed, or open, with a long name
        page = visit(query)
        for media, widths in (("screen", screen), ("print", (700, 1000))):
            page.emulate_media(media=media)
            for width in widths:
                page.set_viewport_size({"width": width, "height": 900})
                settled(page)
                assert page.evaluate(HEAD) == [], (query, media, width)


# --- what is asked, and what can be changed --------------------------------------------------------------------------


def test_one_flip_is_asked_until_a_mark_is_flipped(visit):
    page = visit()
    ask, invited = page.locator(".ask"), page.locator(".invited input")
    assert ask.inner_text() == "Your turn: untick correct for answer 1."
    assert invited.count() == 1 and invited.get_attribute("aria-label") == "Answer 1, correctness, passed"
    assert page.get_by_role("button", name="Sort by GDPO").count() == 0
    assert invited.evaluate("one => getComputedStyle(one).animationName") == "none", "nothing moves unasked"
    page.emulate_media(reduced_motion="no-preference")
    assert invited.evaluate("one => getComputedStyle(one).animationIterationCount") == "1"
    invited.click()
    assert not ask.is_visible() and invited.count() == 0
    page.get_by_role("button", name="Sort by GDPO").wait_for()


def test_the_rules_open_in_a_row_and_stand_open_where_they_are_not_the_plain_ones(visit):
    page = visit()
    opener, weight = page.get_by_role("button", name="Change the rules"), page.get_by_label("weight of correctness")
    assert opener.get_attribute("aria-expanded") == "false" and not weight.is_visible()
    opener.focus()
    page.keyboard.press("Enter")
    assert opener.get_attribute("aria-expanded") == "true" and weight.is_visible()
    meaning = page.locator(".rules .meaning").inner_text()
    assert meaning.startswith("What a mark pays is") and "What it weighs is" in meaning
    page.keyboard.press("Tab")
    assert page.evaluate(f"() => {BOARD}.activeElement.getAttribute('aria-label')").startswith("pay of")
    opener.click()
    assert not weight.is_visible()
    for query in ("lab-weights=2_1_1", "lab-convention=trl", "lab-why=yes", "lab-method=dvao", "lab-pays=1_1_10"):
        page.goto(re.sub(r"/\?.*|/$", f"/?{query}", page.url))
        page.locator(".board .bar").first.wait_for()
        assert weight.is_visible(), query


# --- what Play shows -------------------------------------------------------------------------------------------------

AT = f"""(ms) => {{
  const root = {BOARD};
  for (const animation of root.getAnimations()) {{
    if (animation instanceof CSSTransition) continue;
    animation.pause();
    animation.currentTime = ms;
  }}
  const opaque = (node) => getComputedStyle(node).opacity === "1";
  return [...root.querySelectorAll(".row")].map((row) => {{
    const cells = [...row.querySelectorAll(".toggle")].map((cell) => cell.getBoundingClientRect());
    const at = ({{ left, right, width }}) => [left, right, width];
    return {{
      pieces: [...row.querySelectorAll(".piece")].filter(opaque).map((piece) => at(piece.getBoundingClientRect())),
      figures: [...row.querySelectorAll(".figure")].filter(opaque).map((figure) => figure.textContent),
      middles: cells.map(({{ left, width }}) => left + width / 2),
      sum: at(row.querySelector(".sum").getBoundingClientRect()),
      bars: [...row.querySelectorAll(".bar")].map(opaque),
    }};
  }});
}}"""


def test_play_shows_both_orders_of_work_in_the_columns_of_the_table(visit):
    page = visit()
    page.emulate_media(reduced_motion="no-preference")
    page.get_by_role("button", name="Play").click()
    marks = np.array(SHEETS[0].marks, dtype=float)
    z = (marks - marks.mean(0)) / marks.std(0, ddof=1)
    start = page.evaluate(AT, 0)
    assert not any(any(row["bars"]) for row in start), "no result stands there before its cause"
    # GRPO: as many pieces as marks have slid into the column of sums.
    added = page.evaluate(AT, 1090)
    for row, passed in zip(added, marks, strict=True):
        left, right, _ = row["sum"]
        assert len(row["pieces"]) == passed.sum()
        assert all(left <= piece[0] and piece[1] <= right for piece in row["pieces"]) and row["figures"] == []
    assert [row["bars"] for row in page.evaluate(AT, 2500)] == [[True, False]] * 12
    # GDPO: each column is stretched around its middle, by one scale, with its numbers.
    stretched = page.evaluate(AT, 4200)
    figures = [[float(x.replace("−", "-")) for x in row["figures"]] for row in stretched]
    assert np.abs(np.array(figures) - z).max() <= 0.0051
    assert stretched[9]["figures"][0] == "−3.18" and stretched[0]["figures"][0] == "+0.29"
    ends = np.array([row["pieces"] for row in stretched])  # (answers, rewards, [left, right, width])
    middles = np.array([row["middles"] for row in stretched])
    unit = ends[..., 2].max() / np.abs(z).max()
    assert unit > 10 and np.abs(ends[..., 2] - unit * np.abs(z)).max() < 0.5
    assert np.abs(np.where(z > 0, ends[..., 0], ends[..., 1]) - middles).max() < 0.5
    # … and then added.
    summed = page.evaluate(AT, 6290)
    for row, sums in zip(summed, z.sum(1), strict=True):
        left, right, _ = row["sum"]
        assert all(left <= piece[0] and piece[1] <= right for piece in row["pieces"])
        assert abs(float(row["figures"][-1].replace("−", "-")) - sums) <= 0.0051
    assert [row["bars"] for row in page.evaluate(AT, 7400)] == [[True, True]] * 12
    # A flip ends it at once, and nothing of it stays.
    page.get_by_label("Answer 1, style, passed").click()
    becomes(page, f"() => {BOARD}.querySelectorAll('.piece, .figure').length", 0)
    assert page.locator(".stage").inner_text() == ""
