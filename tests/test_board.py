"""Any group on the board: it shows what gdpo_core computes, and refuses what it cannot show."""

import json
import re

import numpy as np
import pytest
import torch
import traitlets
from hypothesis import given
from hypothesis import strategies as st

import gdpo_core as gc
from examples.board import app as example
from gdpo_core.board import Board
from gdpo_core.board.state import UNDEFINED, two_values


def number(said: str) -> float:
    return float(said.replace("−", "-"))


@st.composite
def groups(draw):
    many, width = draw(st.integers(2, 20)), draw(st.integers(1, 6))
    kinds = [draw(st.sampled_from([(0, 1), (-1, 1), (0, 0.5), (0, 0.1, 0.25, 1.0, 7.5)])) for _ in range(width)]
    rows = [[draw(st.sampled_from(kind)) for kind in kinds] for _ in range(many)]
    return rows, [draw(st.sampled_from([0.0, 0.5, 1.0, 8.0, -1.0])) for _ in range(width)]


@pytest.mark.slow
@given(groups(), st.sampled_from([*gc.CONVENTIONS]), st.sampled_from(["gdpo", "grpo_no_std", "mo_grpo", "dvao"]))
def test_bars_sums_ties_and_shares_are_those_of_the_core(group, convention, method):
    rewards, weights = group
    if [method, convention] in UNDEFINED:
        return
    board = Board(rewards, weights=weights, convention=convention, method=method)
    options = {"weights": weights, "convention": gc.CONVENTIONS[convention]}
    if options["convention"].last_step == "tokens":
        options["lengths"] = [1] * len(rewards)
    both = [gc.explain(rewards, m, **options) for m in ("grpo", method)]
    for side, one in enumerate(both):
        assert board.drawing["a"][side] == pytest.approx(one.advantages.tolist(), abs=1e-6)
        assert [number(x) for x in board.drawing["said"][side]] == pytest.approx(one.advantages.tolist(), abs=0.0051)
        c = gc.collapse(rewards, one.method, **options)
        if all(share == share for share in c.update_share):
            assert board.drawing["shares"][side] == pytest.approx(list(c.update_share))
        assert [number(x) for x in board.drawing["pushes"][side]] == pytest.approx(list(c.push), abs=0.0051)
        tied = {(i, j) for tie in board.drawing["ties"][side] for i in tie["answers"] for j in tie["answers"] if i < j}
        assert sum(rewards[i] != rewards[j] for i, j in tied) == c.tied_pair_count
        results = [re.search(r"\*\*(.*)\*\*", lines[side])[1] for lines in board.drawing["lines"]]
        assert results == board.drawing["said"][side]
    board.why = True
    for side, one in enumerate(both):
        parts = torch.tensor(board.drawing["parts"][side])
        assert parts.sum(-1).tolist() == pytest.approx(one.advantages.tolist(), abs=5e-4)
    assert torch.equal(board.rewards, torch.tensor(rewards, dtype=torch.float64))
    assert json.dumps(board.drawing, allow_nan=False)
    words = " ".join(board.drawing["verdict"])
    assert "right" not in words and "wrong" not in words, "no reward is named that says so"


@pytest.mark.slow
@given(groups(), st.data())
def test_a_change_by_hand_is_a_board_of_that(group, data):
    rewards, weights = group
    board = Board(rewards, weights=weights)
    i, k = data.draw(st.integers(0, len(rewards) - 1)), data.draw(st.integers(0, len(weights) - 1))
    pair = two_values([row[k] for row in rewards])
    rewards[i][k] = data.draw(st.sampled_from(pair)) if pair else data.draw(st.floats(-1e9, 1e9))
    board.set_state({"marks": rewards})
    assert board.drawing["a"] == Board(rewards, weights=weights).drawing["a"]
    if pair:
        with pytest.raises(traitlets.TraitError, match=r"marks: expected"):
            board.marks = [[0.123456] * len(weights)] * len(rewards)


def test_right_and_wrong_are_those_of_the_primary_reward_wherever_it_stands():
    rows = [[1, 1, 0], [1, 0, 1], [0, 1, 1], [0, 1, 0]] * 2
    first = Board([[c, *rest] for *rest, c in rows], names=["c", "a", "b"], primary="c")
    last = Board(rows, names=["a", "b", "c"], primary="c")
    assert first.drawing["verdict"] == last.drawing["verdict"] and "right" in last.drawing["verdict"][0]


def test_arrays_tensors_and_booleans_are_read_as_they_print():
    for rewards in (
        torch.tensor([[0.1, 1], [0.7, 0]], dtype=torch.float64),
        [[0.1, True], [0.7, False]],
        np.array([[0.1, 1], [0.7, 0]]),
    ):
        assert Board(rewards).marks == [[0.1, 1], [0.7, 0]]
    board = Board([[1], [0]], answers=(text for text in ("a", None)), logged=(None, 0.5))
    assert (board.answers, board.logged) == (["a", "answer 2"], ["–", "+0.50"])
    board = Board(np.array([[True], [False]]), weights=torch.tensor([12.0]), convention=gc.TRL, names=("ok",))
    assert (board.weights, board.convention, board.choices["heaviest"]) == ([12.0], "trl", 12.0)


@pytest.mark.parametrize(
    ("rewards", "options", "said"),
    [
        ([[1, 0]], {}, "rewards: expected 2 to 64 answers, got 1"),
        ([[0] * 7] * 2, {}, "rewards: expected 1 to 6 rewards, got 7"),
        ([[1, 2], [3]], {}, "rewards: expected numbers in a regular array"),
        ([[1, float("nan")], [0, 1]], {}, "got nan in answer 1, reward 2"),
        ([[1, 0], [1e12, 1]], {}, "got 1000000000000.0 in answer 2, reward 1"),
        ([[1], [0]], {"answers": ["one"]}, "answers: expected 2 texts"),
        ([[1], [0]], {"answers": "ab"}, "answers: expected 2 texts"),
        ([[1], [0]], {"names": ["a", "b"]}, "names: expected 1 texts"),
        ([[1], [0]], {"reasons": [["a"]]}, "reasons: expected 2 rows"),
        ([[1], [0]], {"weights": [1, 2]}, "weights: expected 1 numbers"),
        ([[1], [0]], {"method": "ppo"}, "method"),
        ([[1], [0]], {"convention": "moon"}, "convention: expected one of paper"),
        ([[1], [0]], {"convention": "nemo_rl_loo", "method": "corr_grpo"}, "expected one that defines corr_grpo"),
        ([[1], [0]], {"primary": "x"}, "primary: expected one of reward 1"),
        ([[1], [0]], {"lengths": [0, 1]}, "lengths: expected positive whole token counts, got [0.0]"),
        ([[1], [0]], {"logged": [1.0]}, "logged: expected 2 advantages"),
        ([[1], [0]], {"answers": 5}, "answers: expected 2 texts, one per answer, got 5"),
        (None, {}, "rewards: expected numbers"),
    ],
)
def test_what_cannot_be_shown_is_refused_in_one_sentence(rewards, options, said):
    with pytest.raises(gc.InputError) as caught:
        Board(rewards, **options)
    assert said in str(caught.value) and "\n" not in str(caught.value)


def test_texts_are_clipped_and_half_characters_do_not_stop_them():
    board = Board([[1], [0], [1]], answers=["x" * 2**20, "\ud83d<script>", 7], names=["a\udc00<b>"])
    assert board.answers[0].endswith("… (1,048,576 characters)") and len(board.answers[0]) < 5000
    assert board.answers[1:] == ["�<script>", "7"] and board.names == ["a�<b>"]
    assert json.dumps(board.get_state(), ensure_ascii=False, default=str).encode("utf-8")


def test_the_example_for_marimo_shows_the_advantages_of_its_board():
    outputs, defs = example.run()
    board = defs["board"].widget
    assert outputs[-1] == {method: gc.advantages(board.rewards, method).tolist() for method in ("grpo", "gdpo")}


def test_a_reason_that_is_missing_is_empty():
    assert Board([[1, 0], [0, 1]], reasons=[["why", None], [None, ""]]).reasons == [["why", ""], ["", ""]]


def test_what_only_an_eps_parts_is_a_tie():
    """Under TRL's eps a reward of 5 and one of 1 differ by less than two decimals show; the paper has no eps."""
    rewards = [[1, 1, 5]] * 8 + [[0, 1, 5]] * 2 + [[1, 1, 0]] * 2
    said = Board(rewards, convention="trl").drawing["verdict"]
    assert said[0].startswith("<b>GRPO does not raise reward 1:</b> the push on it is 0.00 under GRPO and +0.63")
    assert said[1].startswith(
        "<b>GDPO gives four answers the same advantage; GRPO ties none.</b> Here GDPO is the method that loses "
        "information: in 4 pairs, answers"
    )
    assert "The 4 pairs that GDPO ties are not tied exactly: TRL adds a small ε to its divisors" in said[1]
    a = gc.gdpo(rewards, convention=gc.TRL)
    assert 1e-6 < abs(a[8] - a[10]) < 0.005
    assert "GDPO is the method that loses information: in 4 pairs" in Board(rewards).drawing["verdict"][1]
    assert "ε" not in Board(rewards).drawing["verdict"][1]


def test_what_a_browser_may_not_set_is_refused_in_a_sentence_and_the_state_stays():
    board = Board([[1, 1], [1, 0], [0, 1]])
    for sent, named in (
        ({"marks": [[1e308, 1], [1, 0], [0, 1]]}, "marks: expected 3 rows of 2 marks"),
        ({"weights": [1, 11]}, "weights: expected 2 numbers from 0 to 10"),
        ({"pays": [1, "x"], "weights": [2, 2]}, "pays: expected 2 numbers above 0"),
        ({"method": "ppo"}, "ppo"),
    ):
        before = board.state
        board.set_state(sent)
        assert named in board.refused and board.state == before and board.drawing["state"]["marks"] == before.marks
    board.set_state({"weights": [2, 1]})
    assert board.refused == "" and board.weights == [2, 1]


@pytest.mark.parametrize("pay", [0.1, 3, 10])
def test_marks_that_only_round_off_tells_apart_are_drawn_whatever_they_pay(pay):
    for marks in ([[3.3000000000000003], [3.3]], [[3.3000000000000003], [3.3], [1.0]], [[0.6999999999999998], [0.7]]):
        board = Board(marks)
        board.set_state({"pays": [pay]})
        assert board.refused == "" and len(board.drawing["verdict"]) >= 1


def test_what_the_core_refuses_and_what_no_reader_sets_leaves_the_board_whole():
    board = Board([[1, 1], [1, 0], [0, 1]])
    before = board.state
    board.set_state({"pays": [1e-200, 1e-200]})
    assert "1e-100" in board.refused and board.state == before
    board.set_state({"choices": {}, "names": [], "drawing": {}})
    assert board.choices and board.names and board.drawing["a"] and board.to_html()
    board.set_state({"method": [0] * 10**5})
    assert len(board.refused) <= 4_000 and board.state == before
    board.set_state({"weights": [2, 1]})
    assert board.refused == "" and board.weights == [2, 1]


def test_a_negative_weight_turns_the_sign_of_what_a_reward_adds():
    lines = Board([[1, 0], [0, 1], [1, 1]], weights=[-2, 1]).drawing["lines"]
    assert lines[0][1].startswith("⟨0|−2·0.577⟩") and not any("+−" in line or "−−" in line for _, line in lines)


def test_stars_in_a_name_do_not_move_what_is_bold():
    board = Board([[1, 0], [0, 1]], names=["**", "b"], weights=[-2, 1], primary="**")
    assert "The push on ∗∗, which is" in " ".join(board.drawing["verdict"])
