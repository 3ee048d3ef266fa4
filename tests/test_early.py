"""The early board: it is the Lab as it opens, reads an address as the server does, and hands over to the Lab without a
move and without losing a flip.
"""

import json
import random
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path

import pytest
from helpers import arrived, becomes
from links import TASKS

from gdpo_core.board.drawing import SET_BY_READERS, draw
from scripts.make_early import early
from views.chapters.lab import answers
from views.chapters.train.train_words import HEADLINES
from views.server.early import scripts_to_add
from views.widgets.nav import Nav

ROOT = Path(__file__).resolve().parent.parent
STORED = json.loads((ROOT / "data" / "early.json").read_text("utf-8"))
READ = (ROOT / "views" / "server" / "early_address.js").read_text("utf-8")
# By control of the Lab: values that fit, at the bounds, just outside them, and of other forms.
GIVEN = {
    "task": ("interest", "hotel", "nowhere", ""),
    "marks": (
        ".".join(["101"] * 12), ".".join(["101"] * 11), ".".join(["1011"] * 12), ".".join(["10"] * 12), "",
        "~".join(["1_0_1"] * 12), "~".join(["1_0.5_1"] * 12), "~".join(["1_0_1"] * 11), ".".join(["102"] * 12), "1..0",
        "~".join(["1e0_0_ 1"] * 12), f".{'.'.join(['101'] * 12)}",
    ),
    "pays": ("1_10_100", "0.1_0.3_3", "0.1_0.3_2", "1_10", "1_10_100_1", "0.09_1_1", "1_1_nan", "1_1_", "1__1", "x"),
    "weights": ("0_10_5", "0_10.01_5", "-1_1_1", "1_2_3_4", "1e1_.5_+2", "1e_1_1", "inf_1_1", "0x1_1_1", "1_1_1" * 200),
    "convention": ("verl", "nemo_rl_loo", "nowhere", "Paper", ""),
    "method": ("grpo_no_std", "corr_grpo", "gdpo", "papo", "nowhere", ""),
    "why": ("yes", "no", "", "Yes"),
}  # fmt: skip
DRAWN = "() => document.querySelector('#early .board-root')?.shadowRoot.querySelectorAll('.row').length === 12"
GONE = "() => !document.getElementById('early')"
# In the page, these are the cover, the root of the board wherever it stands, and the board's rows as they are numbered.
FIND = """
  const cover = () => document.getElementById("early");
  const roots = () => [...document.querySelectorAll("#root marimo-anywidget")].map((one) => one.shadowRoot);
  const hosts = () => [cover(), ...roots()].map((root) => root?.querySelector(".board-root"));
  const board = () => hosts().find(Boolean)?.shadowRoot;
  const number = (row) => Number(row.querySelector(".number").textContent);
  const rows = () => [...board().querySelectorAll(".row")].sort((a, b) => number(a) - number(b));
"""
FILM = f"""() => {{ {FIND}"""
FILM += """
  const box = (node) => {
    const { x, y, width, height } = node.getBoundingClientRect();
    return [x, y, width, height].map((n) => Math.round(n * 10) / 10);
  };
  const film = (window.film = []);
  const look = () => {
    const title = document.querySelector(cover() ? "#early h1" : "[data-cell-name=lab_claim] h1");
    const parts = board() ? [title, board().querySelector(".picture"), ...rows()].map(box) : [];
    const values = [...(board()?.querySelectorAll(".value") ?? [])].map((one) => one.textContent);
    film.push([Boolean(cover()), parts, title?.textContent, values]);
    requestAnimationFrame(look);
  };
  look();
}"""
MARKS = f"""() => {{ {FIND}"""
MARKS += """
  return rows().map((row) => [...row.querySelectorAll("input")].map((input) => Number(input.checked)));
}"""
FLIP = f"""([answer, k]) => {{ {FIND}"""
FLIP += """
  const input = rows()[answer].querySelectorAll("input")[k];
  input.focus();
  input.click();
}"""
FOCUS = f"""() => {{ {FIND} return board().activeElement?.type ?? null; }}"""


def test_the_file_is_the_lab_as_it_opens():
    assert json.loads(json.dumps(early())) == STORED


def test_a_page_without_the_element_is_left_as_it_is():
    assert scripts_to_add("<p>", "<i>") == "<p>"


def cases():
    """Return queries: each value alone, pairs of two controls, values of all controls at random, and random marks with
    weights that a reader can set.
    """
    alone = [{name: value} for name, values in GIVEN.items() for value in values]
    pairs = [{"method": m, "convention": c} for m, c in product(GIVEN["method"], GIVEN["convention"])]
    pairs += [{"task": task, "marks": GIVEN["marks"][0]} for task in GIVEN["task"]]
    chance = random.Random(59)
    mixed = [{name: chance.choice(values) for name, values in GIVEN.items()} for _ in range(100)]
    marks = (".".join("".join(chance.choices("01", k=3)) for _ in range(12)) for _ in range(60))
    set_by_hand = [
        {"marks": one, "weights": "_".join(f"{chance.uniform(0, 10):.2g}" for _ in range(3))} for one in marks
    ]
    return alone + pairs + mixed + set_by_hand


def on_server(query):
    """Return the state of the board that the server makes of a query; None where it shows another task."""
    page = Nav({f"lab-{name}": value for name, value in query.items()}, editing=False)
    task = next((task for task in TASKS if task.id == query.get("task")), TASKS[0])
    board = answers.task_board(task, TASKS[0], page)
    return {name: getattr(board, name) for name in (*SET_BY_READERS, "why")} if task == TASKS[0] else None


def test_the_browser_reads_an_address_as_the_server_does(browser):
    page = browser.new_page()
    read = (
        f"([stored, queries]) => {{ {READ}; return queries.map((one) => addressed(new URLSearchParams(one), stored)) }}"
    )
    queries = [{f"lab-{name}": value for name, value in query.items()} for query in cases()]
    found = page.evaluate(read, [STORED, queries])
    page.close()
    for query, state in zip(cases(), found, strict=True):
        assert state == json.loads(json.dumps(on_server(query))), query
    assert None in found and len({json.dumps(state) for state in found}) > 80


@pytest.fixture(scope="session")
def tabs(browser):
    """Yield a function that returns a new tab of one window, which keeps the files of the page but no reader's data."""
    window = browser.new_context(reduced_motion="reduce")

    def tab(width=1440, height=900, scheme="light"):
        page = window.new_page()
        page.set_viewport_size({"width": width, "height": height})
        page.emulate_media(color_scheme=scheme)
        page.add_init_script("localStorage.clear()")
        return page

    yield tab
    window.close()


def opened(tabs, url, width=1440, height=1100, scheme="light"):
    """Return a new page that has just begun to load, with its early board drawn, and that records every frame."""
    page = tabs(width, height, scheme)
    page.add_init_script(f"({FILM})()")
    page.goto(url, wait_until="commit")
    page.wait_for_function(DRAWN, polling=20)
    return page


@pytest.mark.slow
@pytest.mark.parametrize(("width", "scheme"), [(1440, "light"), (390, "dark")])
def test_the_lab_takes_over_without_a_move(tabs, page_url, width, scheme):
    page = opened(tabs, page_url, width, scheme=scheme)
    page.wait_for_function(GONE, polling=20)
    arrived(page, ".board .bar")
    film = page.evaluate("film")
    page.close()
    last = next(n for n, (early, *_) in reversed(list(enumerate(film))) if early)
    before, after = film[last][1:], film[last + 1][1:]
    assert before == after and len(before[0]) == 14
    assert all(frame == after for _, *frame in film if frame[0])  # from the first frame that shows the board


@pytest.mark.slow
def test_no_flip_is_lost_at_any_moment_of_the_load(tabs, page_url):
    chance = random.Random(59)
    for until in (0.2, 6.0):  # flips at the beginning only, and until after the handover
        page = opened(tabs, page_url)
        marks = page.evaluate(MARKS)
        assert marks == STORED["traits"]["marks"]
        for _ in range(12):
            answer, k = chance.randrange(12), chance.randrange(3)
            page.evaluate(FLIP, [answer, k])
            marks[answer][k] = 1 - marks[answer][k]
            page.wait_for_timeout(chance.uniform(0, until / 12 * 2000))
        page.wait_for_function(GONE, polling=20)
        assert page.evaluate(MARKS) == marks
        state = replace(answers.grade_answers(TASKS[0]).state, marks=tuple(map(tuple, marks)))
        claim = draw(state)["claim"]
        title = "document.querySelector('[data-cell-name=lab_claim] h1')"
        becomes(page, f"() => [{title}.textContent, {title}.style.visibility]", [claim, ""])
        written = ".".join("".join(map(str, row)) for row in marks)
        becomes(page, "() => new URLSearchParams(location.search).get('lab-marks')", written)
        assert page.evaluate(FOCUS) == "checkbox"
        page.close()


@pytest.mark.slow
def test_a_flip_stays_over_a_reload_while_the_page_loads_and_another_one_undoes_it(tabs, page_url):
    page = unconnected(tabs, page_url)
    page.evaluate(FLIP, [3, 1])
    marks = page.evaluate(MARKS)
    assert marks != STORED["traits"]["marks"]
    page.reload(wait_until="commit")
    page.wait_for_selector("#early[data-live]")
    assert page.evaluate(MARKS) == marks
    page.goto(page_url, wait_until="commit")  # no reload
    page.wait_for_selector("#early[data-live]")
    assert page.evaluate(MARKS) == STORED["traits"]["marks"]
    page.evaluate(FLIP, [3, 1])
    page.evaluate("() => { Date.now = () => 9e12; }")
    page.reload(wait_until="commit")  # what was kept at another time does not count
    page.wait_for_selector("#early[data-live]")
    assert page.evaluate(MARKS) == STORED["traits"]["marks"]
    page.close()
    page = opened(tabs, page_url)
    page.evaluate(FLIP, [3, 1])
    page.reload(wait_until="commit")
    page.wait_for_function(GONE, polling=20)
    arrived(page, ".board .bar")
    written = ".".join("".join(map(str, row)) for row in marks)
    becomes(page, "() => new URLSearchParams(location.search).get('lab-marks')", written)
    page.evaluate(FLIP, [3, 1])
    becomes(page, "() => new URLSearchParams(location.search).get('lab-marks')", None)
    page.reload(wait_until="commit")
    page.wait_for_function(DRAWN, polling=20)
    assert page.evaluate(MARKS) == STORED["traits"]["marks"]
    page.close()


# --- without a connection, and without what a browser may lack -------------------------------------------------------

NOTE = "() => document.querySelector('#early .lost').textContent"
LATER = "() => { const now = performance.now.bind(performance); performance.now = () => now() + (window.passed ?? 0); }"


def unconnected(tabs, url, query="", width=1440, scheme="light"):
    """Return a new page whose WebSocket never answers, and that takes `window.passed` milliseconds as passed."""
    page = tabs(width, scheme=scheme)
    page.route_web_socket("**/ws*", lambda socket: None)
    page.add_init_script(f"({LATER})()")
    page.goto(f"{url}/{query}", wait_until="commit")
    page.wait_for_selector("#early[data-live]")
    return page


@pytest.mark.slow
def test_without_a_connection_the_board_flips_and_says_what_is_missing(tabs, page_url):
    page = unconnected(tabs, page_url)
    page.evaluate(FLIP, [0, 0])
    assert page.evaluate(NOTE) == ""
    page.evaluate("window.passed = 9000")
    becomes(page, f"() => ({NOTE})().split('. ')[0]", "The server has not answered yet")
    page.evaluate(FLIP, [1, 1])
    marks = [list(row) for row in STORED["traits"]["marks"]]
    marks[0][0], marks[1][1] = 1 - marks[0][0], 1 - marks[1][1]
    assert page.evaluate(MARKS) == marks
    assert page.evaluate(
        "[...document.querySelectorAll('#early :disabled')].every(e => getComputedStyle(e).opacity < 1)"
    )
    page.close()


TWO_VIEWS = """async () => {
  const { traits } = JSON.parse(document.getElementById("early-data").textContent);
  const view = () => {
    const values = structuredClone(traits);
    values.choices.alone = false;
    return { sent: 0, values, get: (n) => values[n], set: (n, x) => (values[n] = x), save_changes() { this.sent += 1 },
      on() {}, off() {} };
  };
  const frames = async (many) => { while (many--) await new Promise(requestAnimationFrame); };
  const [first, second] = [view(), view()];
  const release = gdpoEarly.take(first, document.createElement("div"));
  await frames(4);
  const before = second.sent;
  release();
  gdpoEarly.take(second, document.createElement("div"));
  await frames(4);
  return [first.sent, before, second.sent, second.values.marks];
}"""


@pytest.mark.slow
def test_a_flip_in_the_air_is_sent_again_at_once_where_the_view_that_took_it_ends(tabs, page_url):
    page = unconnected(tabs, page_url)
    page.evaluate(FLIP, [0, 0])
    marks = page.evaluate(MARKS)
    assert marks[0][0] != STORED["traits"]["marks"][0][0]
    assert page.evaluate(TWO_VIEWS) == [1, 0, 1, marks]
    page.close()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("query", "title"),
    [("?lab-task=hotel", "Where GDPO hurts"), ("?at=run", "Your log shows"), ("?at=run&run-sample=x", "Your run")],
)
def test_what_the_early_board_does_not_have_has_a_heading_and_a_sentence(tabs, page_url, query, title):
    page = unconnected(tabs, page_url, query)
    page.evaluate("window.passed = 9000")
    becomes(page, f"() => ({NOTE})().endsWith('what stands here needs it.')", True)
    (shown,) = page.locator("#early h1:visible").all_inner_texts()
    assert shown.startswith(title)
    page.close()


@pytest.mark.slow
def test_train_has_its_first_words_and_a_still_before_it_loads_unless_the_address_changes_them(tabs, page_url):
    page = unconnected(tabs, page_url, "?at=train")
    page.locator("#early .still path").nth(5).wait_for()
    assert page.locator("#early h1:visible").inner_text() == HEADLINES["equal"]
    assert page.locator("#early .early-train h2").inner_text() == "Rewards of unequal scale"
    page.close()
    page = unconnected(tabs, page_url, "?at=train&train-compare=published")
    page.locator("#early h1:visible", has_text="Train").wait_for()
    assert not page.locator("#early .still").is_visible()
    page.close()


@pytest.mark.slow
@pytest.mark.parametrize(("width", "scheme"), [(1440, "light"), (1440, "dark"), (390, "dark")])
def test_the_early_board_has_no_serious_fault(tabs, page_url, width, scheme):
    from axe_playwright_python.sync_playwright import Axe

    page = unconnected(tabs, page_url, width=width, scheme=scheme)
    page.wait_for_function(DRAWN, polling=20)
    page.evaluate("window.passed = 9000")
    becomes(page, f"() => ({NOTE})() > ''", True)
    found = Axe().run(page, context="#early", options={"resultTypes": ["violations"]}).response["violations"]
    assert not [(one["id"], one["nodes"]) for one in found if one["impact"] in ("serious", "critical")]
    page.close()


@pytest.mark.slow
@pytest.mark.parametrize("lacks", ["window.ResizeObserver", "Element.prototype.checkVisibility"])
def test_an_old_browser_comes_to_the_lab(tabs, page_url, lacks):
    page = tabs()
    page.add_init_script(f"delete {lacks}")
    page.goto(page_url)
    page.wait_for_function(GONE, polling=20)
    arrived(page, ".board .bar")
    assert not page.evaluate("document.getElementById('root').inert") and page.evaluate(MARKS)
    page.close()


@pytest.mark.slow
def test_a_bar_that_comes_after_the_core_has_a_flip_writes_it_into_the_address(tabs, page_url):
    page, held = tabs(), []

    def hold(route):
        body = route.fetch().text()
        send = partial(route.fulfill, body=body, content_type="text/javascript")
        held.append(send) if "// The bar: it shows a chapter" in body else send()

    page.route("**/@file/*", hold)
    page.goto(page_url, wait_until="commit")
    page.wait_for_function(DRAWN, polling=20)
    page.evaluate(FLIP, [0, 0])
    marks = page.evaluate(MARKS)
    state = replace(answers.grade_answers(TASKS[0]).state, marks=tuple(map(tuple, marks)))
    title = "document.querySelector('#early h1')"  # it shows once the core has answered
    becomes(page, f"() => [{title}.textContent, {title}.style.visibility]", [draw(state)["claim"], ""])
    for send in held:
        send()
    written = ".".join("".join(map(str, row)) for row in marks)
    becomes(page, "() => new URLSearchParams(location.search).get('lab-marks')", written)
    page.close()
