"""The time between a flip and the core's answer: the browser's numbers are those of the core, and no word about another
state is shown.
"""

import json
import random
import re
from dataclasses import replace
from html import unescape

import pytest
from helpers import ROOTS, arrived, becomes
from links import TASKS

from gdpo_core.board import Board
from gdpo_core.board.drawing import draw
from views.bfcl import REWARDS
from views.chapters.lab.answers import grade_answers

pytestmark = pytest.mark.slow

FLIPS = 60
SHEET = grade_answers(TASKS[0])
ROWS = f"{ROOTS}.find(root => root?.querySelector('.board'))"
# In the page, these are the rows of the board, sorted by the number of their answer.
SORTED = f"""const board = {ROWS};
  const number = (row) => Number(row.querySelector(".number").textContent);
  const rows = () => [...board.querySelectorAll(".row")].sort((a, b) => number(a) - number(b));
"""
# For each frame it records the marks, the numbers beside the bars, and the words where they are seen.
RECORD = f"""() => {{
  {SORTED}"""
RECORD += """
  const frames = (window.frames_ = []);
  const seen = (node) => (node?.checkVisibility({ visibilityProperty: true }) ? node.innerText : null);
  const look = () => {
    frames.push([
      rows().map((row) => [...row.querySelectorAll(".marks input")].map((input) => Number(input.checked))),
      rows().map((row) => [...row.querySelectorAll(".value")].map((node) => node.textContent.match(/[+−]?[\\d.]+/)[0])),
      seen(board.querySelector(".sentences")),
      seen(document.querySelector("[data-cell-name=lab_claim] h1")),
    ]);
    window.recording = requestAnimationFrame(look);
  };
  look();
}"""
# It clicks at random, from faster than the core can answer to slower than it needs.
CLICK = f"""async ([flips, waits]) => {{
  {SORTED}"""
CLICK += """
  for (const [n, [answer, reward]] of flips.entries()) {
    rows()[answer].querySelectorAll(".marks input")[reward].click();
    await new Promise((resolve) => setTimeout(resolve, waits[n]));
  }
}"""


def plain(html):
    """Return the words of a sentence without its tags."""
    return " ".join(unescape(re.sub(r"<[^>]+>", "", html)).replace("\u00a0", " ").split())


def expected(marks):
    """Return what the core draws and says for these marks."""
    return draw(replace(SHEET.state, marks=tuple(map(tuple, marks))))


def test_flips_at_any_speed_show_the_cores_numbers_and_no_word_of_another_state(visit):
    page = visit()
    warned = []
    page.on("console", lambda message: warned.append(message.text) if "off the core's" in message.text else None)
    becomes(page, "() => document.querySelector('[data-cell-name=lab_claim] h1')?.textContent.slice(0, 6)", "GRPO c")
    draw_at = random.Random(46)
    flips = [[draw_at.randrange(12), draw_at.randrange(3)] for _ in range(FLIPS)]
    waits = [draw_at.choice((0, 3, 10, 25, 60, 120)) for _ in range(FLIPS)]
    page.evaluate(RECORD)
    page.evaluate(CLICK, [flips, waits])
    marks = [list(row) for row in SHEET.marks]
    for answer, reward in flips:
        marks[answer][reward] = 1 - marks[answer][reward]
    becomes(page, f"() => {ROWS}.querySelector('.sentences').checkVisibility({{ visibilityProperty: true }})", True)
    page.evaluate("() => cancelAnimationFrame(window.recording)")
    frames = page.evaluate("() => window.frames_")
    assert frames[-1][0] == marks and not warned
    cores = {}
    for shown, values, sentences, claim in frames:
        core = cores.setdefault(json.dumps(shown), None) or expected(shown)
        cores[json.dumps(shown)] = core
        numbers = [list(both) for both in zip(*core["said"], strict=True)]
        assert all(
            abs(number(x) - number(y)) <= 0.011
            for a, b in zip(values, numbers, strict=True)
            for x, y in zip(a, b, strict=True)
        )
        assert sentences is None or " ".join(sentences.split()) == " ".join(map(plain, core["verdict"])), shown
        assert claim is None or claim == core["claim"], shown
    assert frames[-1][1] == [list(both) for both in zip(*expected(marks)["said"], strict=True)]
    assert len(cores) > FLIPS / 2 and sum(frame[2] is None for frame in frames) > FLIPS / 4


def number(text):
    return float(text.replace("−", "-"))


def test_without_a_connection_the_board_goes_on_and_says_that_its_words_wait(browser, page_url):
    # The context is a new one, because the browser reports the lost connection as an error.
    context = browser.new_context(reduced_motion="reduce")
    page = context.new_page()
    page.goto(page_url)
    arrived(page, ".board .bar")
    becomes(page, "() => document.querySelector('[data-cell-name=lab_claim] h1')?.textContent.slice(0, 6)", "GRPO c")
    page.context.set_offline(True)
    page.evaluate(CLICK, [[[2, 0]], [0]])
    marks = [list(row) for row in SHEET.marks]
    marks[2][0] = 0
    core = expected(marks)
    value = f"() => {ROWS}.querySelectorAll('.row .value')[5].textContent"
    becomes(page, value, core["said"][1][2])
    late = f"() => {ROWS}.querySelector('.lateness').checkVisibility()"
    becomes(page, late, True)
    page.context.set_offline(False)
    becomes(page, late, False)
    becomes(page, "() => document.querySelector('[data-cell-name=lab_claim] h1').textContent", core["claim"])
    context.close()


def test_the_board_as_one_file_flips_and_draws_without_a_network(browser, tmp_path):
    board = Board(SHEET.marks, answers=SHEET.answers, names=REWARDS, reasons=SHEET.reasons, primary=REWARDS[0])
    html = board.to_html()
    assert len(html.encode()) <= 60_000 and not re.search(r"https?://(?!www\.w3\.org)", html)
    file = tmp_path / "board.html"
    file.write_text(html, encoding="utf-8")
    context, errors, asked = browser.new_context(offline=True, reduced_motion="reduce"), [], []
    page = context.new_page()
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    page.goto(file.as_uri())
    page.locator(".row").first.wait_for()
    claim = draw(SHEET.state)["claim"]
    assert page.locator("h1").inner_text() == claim and page.locator(".sentences").is_visible()
    page.get_by_label("Answer 3, correctness, passed").click()
    marks = [list(row) for row in SHEET.marks]
    marks[2][0] = 0
    core = expected(marks)
    values = "document.querySelector('.board-root').shadowRoot.querySelectorAll('.row .value')"
    becomes(page, f"() => {values}[5].textContent", core["said"][1][2])
    assert not page.locator(".sentences").is_visible() and page.locator("h1").inner_text().strip() == ""
    page.get_by_label("Answer 3, correctness, failed").click()
    becomes(page, "() => document.querySelector('h1').textContent", claim)
    context.close()
    assert not errors and {url.split(":")[0] for url in asked} <= {"file", "blob"}
