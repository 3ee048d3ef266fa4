"""The page without a browser: every cell runs, and what it draws is what gdpo_core computes."""

import itertools
import re
from dataclasses import replace

import pytest
import traitlets
from helpers import html_of
from hypothesis import given
from hypothesis import strategies as st

import gdpo_core as gc
from app import app
from gdpo_core import bfcl
from views import books, shares, steps
from views.board import Board, draw, sheet

TASKS = bfcl.load_tasks("data/tasks")
GRADED = tuple(map(tuple, sheet(TASKS[0])["graded"]))
marks = st.lists(st.tuples(*[st.integers(0, 1)] * 3), min_size=12, max_size=12).map(tuple)


def test_the_page_runs_with_its_defaults(default_page):
    outputs, defs = default_page
    assert defs["passed"] == [list(row) for row in GRADED]
    text = html_of(outputs)
    for claim in ("Follow one answer", "Scale and weight", "Train it", "of GRPO's steps"):
        assert claim in text


def test_the_page_runs_when_nothing_can_be_learnt():
    outputs, _ = app.run(defs={"passed": [[1, 1, 1]] * 12})
    text = html_of(outputs)
    assert "no update to share" in text
    assert "because all are equal" in text


def test_a_broken_task_file_is_a_sentence_on_the_page(monkeypatch):
    def broken(_directory):
        raise gc.InputError("data/tasks/2_hotel.json: answers[3]: expected text, got 5")

    monkeypatch.setattr(bfcl, "load_tasks", broken)
    outputs, _ = app.run()
    assert "answers[3]: expected text, got 5" in html_of(outputs)
    assert "Traceback" not in html_of(outputs)


def test_the_default_task_collapses_as_promised():
    drawn = draw(GRADED)
    assert [sum(column) for column in zip(*GRADED, strict=True)] == [9, 10, 7]
    assert len(set(GRADED)) >= 6
    assert drawn["levels"]["grpo"] <= 4
    assert drawn["levels"]["gdpo"] >= 6
    a, b = GRADED.index((1, 0, 1)), GRADED.index((0, 1, 1))
    assert drawn["grpo"][a] == pytest.approx(drawn["grpo"][b], abs=1e-12)
    assert abs(drawn["gdpo"][a] - drawn["gdpo"][b]) > 0.1
    assert "wrong call above the right one" in drawn["verdict"][1]


@given(marks)
def test_what_is_drawn_is_counted_right(passed):
    drawn = draw(passed)
    n = range(len(passed))
    for method in ("grpo", "gdpo"):
        a = drawn[method]
        tied = {i for i in n for j in n if passed[i] != passed[j] and abs(a[i] - a[j]) < 1e-9}
        assert {i for tie in drawn["ties"][method] for i in tie["answers"]} == tied
        assert all(abs(x) <= drawn["limit"] + 1e-9 for x in a)
    assert sorted(drawn["order"]) == list(n)
    ranked = [drawn["gdpo"][i] for i in drawn["order"]]
    assert all(x >= y - 1e-9 for x, y in itertools.pairwise(ranked))
    pairs = sum(passed[i] != passed[j] and abs(drawn["grpo"][i] - drawn["grpo"][j]) < 1e-9 for i in n for j in range(i))
    told = re.search(r"<b>(\d+) pairs?</b>", drawn["verdict"][0])
    assert (int(told[1]) if told else 0) == pairs
    wrong_first = any(
        passed[i][0] < passed[j][0]
        and abs(drawn["grpo"][i] - drawn["grpo"][j]) < 1e-9
        and drawn["gdpo"][i] > drawn["gdpo"][j] + 1e-9
        for i in n
        for j in n
    )
    assert ("wrong call above" in " ".join(drawn["verdict"])) == wrong_first


LENGTHS = st.lists(st.integers(1, 200), min_size=12, max_size=12)


@given(marks, st.integers(0, 11), st.sampled_from(sorted(gc.CONVENTIONS)), LENGTHS)
def test_any_answer_can_be_followed(passed, answer, convention, lengths):
    c = gc.CONVENTIONS[convention]
    text = steps.follow([list(row) for row in passed], answer, c, lengths)
    assert "nan" not in text
    for method in ("grpo", "gdpo"):
        a = gc.advantages(passed, method, convention=c, lengths=lengths)[answer].item()
        assert f"<b>{steps.decimal(a)}</b>" in text


def test_an_answer_is_shown_under_every_convention_to_six_digits():
    text = steps.follow(GRADED, 9, gc.PAPER, range(1, 13))
    for convention in gc.CONVENTIONS.values():
        row = re.search(f'<tr><th scope="row">{re.escape(convention.name)}</th>(.*?)</tr>', text)[1]
        for method in ("grpo", "gdpo"):
            a = gc.advantages(GRADED, method, convention=convention, lengths=range(1, 13))[9].item()
            assert f"<td>{steps.decimal(a, 6)}</td>" in row


def test_lengths_of_another_task_count_as_none():
    verl = gc.CONVENTIONS["verl"]
    assert steps.follow(GRADED, 0, verl, [5, 7]) == steps.follow(GRADED, 0, verl)
    assert steps.follow(GRADED, 0, verl, range(1, 13)) != steps.follow(GRADED, 0, verl)


@pytest.mark.parametrize(
    ("convention", "before", "alone", "together"),
    [
        ("paper", ("0.707", "1.414"), ("0.707", "0.707"), ("0.548", "1.095")),
        ("trl", ("0.707", "1.414"), ("0.707", "0.707"), ("0.548", "1.095")),
        ("axolotl_streaming", ("0.707", "1.414"), ("0.707", "0.707"), ("0.707", "0.707")),
        ("nemo_rl_loo", ("1", "2"), ("0.707", "0.707"), ("0.548", "1.095")),
    ],
)
def test_figure_2_in_both_readings(convention, before, alone, together):
    text = steps.readings(gc.CONVENTIONS[convention])
    rows = [re.findall("<td>±(.*?)</td>", row) for row in re.findall('<tr>(<th scope="row">.*?)</tr>', text)]
    assert [tuple(row) for row in rows][1:] == [before, alone, together]
    assert "prints 0.707 and 1.414" in text
    assert ("even with other prompts" in text) == (convention == "axolotl_streaming")
    grpo = re.findall("<td>±(.*?)</td>", text.split("<tbody>")[1].split("</tr>")[0])
    assert ("GRPO keeps the two apart" in text) == (grpo[0] != grpo[1]) == (convention == "nemo_rl_loo")


def test_the_frameworks_that_are_named_are_those_whose_numbers_differ():
    told = steps.implementations(TASKS[0])
    assert told.startswith("Eight configurations of six code bases differ")
    assert "10⁻⁴ in TRL" in told
    lengths = [len(answer) for answer in TASKS[0].answers]
    passed = [grades.vector for grades in bfcl.grade_all(TASKS[0])]
    pairs = [[[0, 0], [1, 0]], [[0, 0], [1, 1]]]

    def far(rewards, lengths, c):
        gaps = [
            gc.advantages(rewards, m, convention=c, lengths=lengths) - gc.advantages(rewards, m)
            for m in ("grpo", "gdpo")
        ]
        return max(gap.abs().max().item() for gap in gaps) >= 0.01

    alone, batch = told.split("On one prompt, only ")[1].split("; ")
    for c in gc.CONVENTIONS.values():
        name = c.name.replace(", ", " (") + ")" * (", " in c.name)
        at_once, later = far(passed, lengths, c), far(pairs, [[1, 1], [1, 1]], c)
        assert (name in re.split(", | and | move", alone)) == at_once
        assert (name in re.split(", | and | once", batch)) == (later and not at_once)


def test_the_opening_names_what_the_papers_call_it_and_whose_answers_these_are(default_page):
    text = " ".join(html_of(default_page[0]).split())
    assert "written by hand to show typical faults" in text
    assert "A mark, 1 or 0, is the" in text and 'href="https://arxiv.org/abs/2601.05242"' in text
    assert "are a <em>group</em>" in text and "a <em>batch</em>" in text


def test_an_eps_is_a_power_of_ten_and_the_source_of_a_convention_is_named():
    for c in gc.CONVENTIONS.values():
        text = steps.follow(GRADED, 9, c, range(1, 13))
        assert c.source in text
        assert "0.0001" not in text and "1e-" not in text
        assert ("10⁻" in text) == (c != gc.PAPER)
    assert steps.named() == {
        "paper (arXiv 2601.05242)": "paper",
        **{c.name: key for key, c in gc.CONVENTIONS.items() if c != gc.PAPER},
    }


def test_the_last_step_says_what_is_subtracted_and_over_whom():
    text = steps.follow(GRADED, 9, gc.PAPER)
    assert "Subtract the mean of all s (0) and divide by their spread" in text and "here: these 12" in text
    assert "here in characters" in steps.follow(GRADED, 9, gc.VERL, range(1, 13))
    assert "over the group once more" in steps.follow(GRADED, 9, gc.AXOLOTL_STREAMING)


def test_only_the_paper_leaves_cases_open():
    said = "The paper leaves these open; this library then does:"
    assert [key for key, c in gc.CONVENTIONS.items() if said in steps.follow(GRADED, 9, c)] == ["paper"]


@given(
    marks,
    st.lists(st.sampled_from([0.1, 0.3, 1, 3, 10, 100]), min_size=3, max_size=3),
    st.lists(st.sampled_from([0, 0.05, 0.5, 1, 3]), min_size=3, max_size=3),
)
def test_the_shares_of_the_update_hold_for_any_slider(passed, scale, weights):
    text = shares.update([list(row) for row in passed], scale, weights, bfcl.REWARDS)
    assert "nan" not in text
    assert text.count("<tr>") == 4


def test_the_needed_weight_is_the_one_that_turns_the_order():
    text = shares.update([list(row) for row in GRADED], (1, 1, 1), (1, 1, 1), bfcl.REWARDS)
    needed = float(re.search(r"weighs more than <b>([\d.]+)</b>", text)[1])
    inverted = {
        w: gc.broken_ties(gc.collapse(GRADED, "grpo"), gc.collapse(GRADED, "gdpo", weights=(w, 1, 1))).inverted.sum()
        for w in (needed - 0.01, needed + 0.01)
    }
    assert inverted[needed - 0.01] > 0
    assert inverted[needed + 0.01] == 0


def test_the_board_refuses_what_is_no_toggle():
    board = Board(TASKS)
    for bad in ([[1, 0, 1]], [[2, 0, 1]] * 12, [[1, 0]] * 12):
        with pytest.raises(traitlets.TraitError):
            board.passed = bad
    assert board.passed == [list(row) for row in GRADED]


def test_books_that_a_sum_ties_share_a_place():
    text = books.ranking(["one", "two", "three"], [[9, 1, 2], [1, 9, 2], [9, 9, 5]])
    grpo, gdpo = text.split('<section class="gdpo">')
    assert grpo.count("= tie") == 2
    assert "<b>1</b> three" in grpo
    assert "<b>1</b> three" in gdpo


def test_why_gdpo_ties_is_true_on_its_own_screen():
    passed = ((0, 1, 1),) * 8 + ((1, 1, 0),) * 3 + ((0, 0, 1),)
    sums = [sum(column) for column in zip(*passed, strict=True)]
    assert sums[0] + sums[2] == len(passed)
    assert "as many pass the one as fail the other" in " ".join(draw(passed)["verdict"])


def test_rewards_that_cancel_are_not_called_equal():
    text = shares.update([[1, 0, 0]] * 6 + [[0, 1, 0]] * 6, (1, 1, 1), (1, 1, 1), bfcl.REWARDS)
    assert "they cancel" in text


def test_books_with_the_same_ratings_are_no_tie():
    assert "= tie" not in books.ranking(["one", "two"], [[3, 3, 3], [3, 3, 3]])


def test_tasks_may_have_different_numbers_of_answers():
    longer = replace(TASKS[1], answers=(*TASKS[1].answers, "book()"))
    board = Board([TASKS[0], longer])
    board.passed = sheet(longer)["graded"]
    assert len(board.drawing["order"]) == len(longer.answers)
    board.passed = sheet(TASKS[0])["graded"]
    assert "12 answers" in steps.follow(board.passed, 12, gc.PAPER)


@pytest.mark.parametrize("message", [{}, {"passed": None}, {"passed": [[1, 0, {}]] * 12}, {"passed": "x" * 12}])
def test_a_message_that_is_no_toggle_leaves_the_drawing(message):
    board = Board(TASKS)
    before = board.drawing
    with pytest.raises(traitlets.TraitError):
        board._draw(board._checked(message.get("passed")))
    assert board.drawing == before
