"""The chapter Lab without a browser: bars, verdicts, arithmetic, shares, folds and the program, over all of its
controls.
"""

import itertools
import re
from dataclasses import replace

import numpy as np
import pytest
from helpers import printed, text_of
from hypothesis import given
from hypothesis import strategies as st

import gdpo_core as gc
from gdpo_core.board import Board
from gdpo_core.board.drawing import draw
from gdpo_core.board.facts import board_facts
from gdpo_core.board.result import compute
from gdpo_core.board.state import CHOSEN_METHODS, PAYS, UNDEFINED, State
from gdpo_core.shared.words import signed
from views import bfcl
from views.chapters.lab import answers, books, depth
from views.widgets.address import DEEDS
from views.widgets.nav import Nav

TASKS = bfcl.load_tasks("data/tasks")
SHEETS = [answers.grade_answers(task) for task in TASKS]
START = SHEETS[0].state
GRADED, LENGTHS, ONES = START.marks, START.lengths, START.weights
third = st.one_of(st.integers(0, 1), st.sampled_from([0, 1, 0.25, 0.94, -0.37]))  # passes and fails, or a number
marks = st.lists(st.tuples(st.integers(0, 1), st.integers(0, 1), third), min_size=12, max_size=12).map(tuple)
states = st.builds(
    State,
    marks,
    st.tuples(*[st.sampled_from([1.0, 1.0, *PAYS])] * 3),
    st.tuples(*[st.sampled_from([1.0, 1.0, 0.0, 0.5, 1.3, 2.0, 5.0])] * 3),
    st.sampled_from(list(gc.CONVENTIONS)),
    st.sampled_from(list(CHOSEN_METHODS)),
    st.just(LENGTHS),
).filter(lambda s: [s.method, s.convention] not in UNDEFINED)


def equal(marks, **given) -> State:
    return State(marks, ONES, ONES, lengths=LENGTHS, **given)


def advantages(state: State, method: str, **changes: float) -> list[float]:
    convention = replace(gc.CONVENTIONS[state.convention], **changes)
    given = {"weights": state.weights, "lengths": LENGTHS, "convention": convention}
    return gc.advantages(state.rewards, method, **given).tolist()


# --- what is drawn ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sheet", "levels", "tied", "share", "push", "inverted"),
    [
        (0, (3, 5), 0.345, (0.0, 0.29), (0.0, 0.36), (2, 2, 11)),
        (1, (3, 5), 0.345, (0.5, 0.37), (0.59, 0.46), (0, 3, 35)),
        (2, (4, 4), 0.089, (0.29, 0.29), (0.7, 0.7), (2, 2, 36)),
        (3, (12, 12), 0, (0.43, 0.25), (0.74, 0.53), (0, 4, 32)),
    ],
    ids=[task.title for task in TASKS],
)
def test_each_task_shows_its_case(sheet, levels, tied, share, push, inverted):
    state = SHEETS[sheet].state
    both = [compute(state, method) for method in ("grpo", "gdpo")]
    assert tuple(len(set(one.level)) for one in both) == levels
    assert both[0].collapsed.tied_pairs == pytest.approx(tied, abs=5e-4)
    assert tuple(round(one.shares[0], 2) for one in both) == share
    facts = board_facts(state, *both)
    assert tuple(round(side.push, 2) for side in (facts.base, facts.chosen)) == push
    assert (len(facts.base.wrong_order), len(facts.chosen.wrong_order), len(facts.pairs)) == inverted


def test_the_first_picture_is_one_wrong_answer_among_seven_right_ones():
    d = draw(START)
    assert d["said"][0] == ["+1.66"] * 2 + ["0.00"] * 8 + ["−1.66"] * 2
    assert d["said"][1] == ["+1.65"] * 2 + ["+0.11"] * 4 + ["+0.09"] * 3 + ["−1.13"] + ["−1.45"] * 2
    said = text_of(" ".join(d["verdict"]))
    assert said.startswith(
        "GRPO gives eight answers, seven right and one wrong, the same advantage; GDPO gives them three different ones."
    )
    assert (
        "Here every passed mark pays the same and has the same weight in the sum, so GRPO has only 3 advantages for 5 "
        "combinations of marks, while GDPO has 5." in said
    )
    assert "GRPO ties a right answer with a wrong one in 7 pairs. GDPO ranks the right answer higher in all 7." in said
    assert "Both methods still rank the wrong answer 10 above the right answers 11 and 12." in said
    assert "The push on correctness, which is its correlation with the advantages, is 0.00 under GRPO and +0.36" in said
    hurt = text_of(" ".join(draw(SHEETS[1].state)["verdict"]))
    assert "in 15 pairs. GDPO ranks the right answer higher in 12 and the wrong answer higher in 3 (for example" in hurt
    less = "is +0.59 under GRPO and +0.46 under GDPO, so in this group GDPO's update raises correctness less."
    assert hurt.endswith(f"{less} GRPO does not raise style: the push on it is 0.00 under GRPO and +0.36 under GDPO.")


def test_headline_and_notes_say_the_largest_effect():
    said = [draw(sheet.state)["claim"] for sheet in SHEETS]
    assert said == [
        "GRPO cannot tell a wrong answer from seven right ones.",
        "GDPO pushes right answer 10 below three wrong ones.",
        "Both methods agree.",
        "GDPO ranks wrong over right in 4 of 32 pairs, GRPO in none.",
    ]
    number = draw(SHEETS[3].state)
    assert number["notes"] == [
        {"side": 0, "answers": [7], "lines": ["answer 8, right", "four wrong answers overtake it"]}
    ]
    assert "The score, conciseness, has a share of 8 % in GRPO's update and of 30 % in GDPO's." in text_of(
        number["verdict"][1]
    )
    d = draw(START)
    assert [one["lines"] for one in d["notes"]] == [
        ["8 answers, one advantage: 0.00", "seven right, one wrong"],
        ["answer 10, wrong", "−1.13"],
        ["seven right", "+0.09 and +0.11"],
    ]
    assert [round(x, 2) for x in d["parts"][0][9]] == [-1.52, 0.69, 0.83]
    assert [round(x, 2) for x in d["parts"][1][9]] == [-2.55, 0.65, 0.77]
    mended = equal((*GRADED[:9], (1, 1, 1), *GRADED[10:]))
    assert "wrong" not in draw(mended)["claim"] and draw(mended)["right"] == (True,) * 12


@pytest.mark.parametrize(
    ("task", "marks", "options", "says"),
    [
        # The review's states, in which a headline was false or hid the largest effect.
        (
            0,
            "111.110.101.011.100.010.001.000.111.111.000.000",
            {"pays": (1.0, 1.0, 100.0), "convention": "nemo_rl"},
            "GRPO ranks wrong over right in 4 of 36 pairs, GDPO in 1.",
        ),
        (0, "", {"weights": (3.0, 1.0, 1.0)}, "GDPO no longer raises conciseness (push +0.21 to −0.03)."),
        (
            0,
            "",
            {"pays": (1.0, 3.0, 10.0), "weights": (2.0, 1.0, 0.5), "convention": "trl"},
            "GRPO lowers correctness: wrong over right in 9 of 11 pairs.",
        ),
    ],
)
def test_a_headline_names_the_largest_effect_of_a_changed_state(task, marks, options, says):
    given = [tuple(map(int, row)) for row in marks.split(".")] if marks else SHEETS[task].state.marks
    assert draw(replace(SHEETS[task].state, marks=tuple(given), **options))["claim"] == says


# --- the arithmetic --------------------------------------------------------------------------------------------------


def value(text: str) -> float:
    """Return what a reader gets who computes with the printed numbers alone."""
    text = text.replace("−", "-").replace("·", "*").replace("÷", "/")
    text = re.sub(r"(?<=[\d)]) (?=[+-][\d])", "", text)  # Terms of z stand beside each other, each with its sign.
    assert re.fullmatch(r"[-+*/(). \de]+", text), text
    return eval(text)


@pytest.mark.slow
@given(states)
def test_every_line_is_near_what_its_printed_numbers_give_and_ends_in_the_bars_number(state):
    d = draw(state)
    for both, *said in zip(d["lines"], *d["said"], strict=True):
        for line, result in zip(both, said, strict=True):
            first, *rest = re.sub(r"⟨\d\||⟩|\*\*", "", line).split(" → ")
            assert "nan" not in line and "inf" not in line and (rest or [first])[-1].rsplit(" = ", 1)[1] == result
            if rest:
                sums, total = first.rsplit(" = ", 1)
                assert value(sums) == pytest.approx(value(total), rel=2e-3, abs=0.02)
            if rest and "left out" not in rest[0] and "without" not in rest[0]:
                assert value(rest[0].split(" = ")[0]) == pytest.approx(value(result), rel=0.02, abs=0.06)


# --- what is said of a state; every sentence is judged in tests/test_sentences.py -------------------------------------

SAID = [  # a link that a review found a false or odd headline under, and what it says now
    ({"pays": (1.0, 3.0, 10.0)}, 2, "GRPO ranks wrong over right in 6 of 36 pairs, GDPO in 2."),
    ({"method": "grpo_no_std"}, 2, "Same order; GRPO without std takes longer steps."),
    ({"weights": (1.2, 0.0, 1.0)}, 0, "Same order, unequal pushes."),
    ({"weights": (2.0, 1.0, 1.0)}, 0, "GRPO cannot tell a wrong answer from two right ones."),
    ({"weights": (0.5, 0.5, 5.0)}, 1, "Neither raises correctness: wrong order in 12 and 15 of 35."),
    ({"method": "sa_mrpo"}, 1, "SA-MRPO pushes four right answers down, GRPO none."),
    ({"convention": "nemo_rl_loo"}, 0, "GDPO lowers correctness: wrong over right in 9 of 11 pairs."),
    ({"convention": "nemo_rl_loo"}, 1, "GRPO cannot tell three wrong answers from five right ones."),
    ({"method": "gd2po"}, 0, "GD²PO teaches nothing here; GRPO does."),
    ({"marks": ((1, 1, 1),) * 12}, 0, "Nothing to learn here."),
]


@pytest.mark.parametrize(("changed", "sheet", "said"), SAID, ids=[said for *_, said in SAID])
def test_the_headline_is_chosen_by_facts(changed, sheet, said):
    assert draw(replace(SHEETS[sheet].state, **changed))["claim"] == said


def test_the_tie_that_the_headline_names_is_the_one_that_is_outlined():
    three = draw(replace(START, weights=(2.0, 1.0, 1.0)))["notes"]
    assert three[0]["answers"] == [9, 10, 11]
    assert three[1] == {"side": 1, "answers": [9], "lines": ["answer 10, wrong", "−2.47"]}


def test_shares_beyond_the_whole_and_against_the_update_are_put_in_words():
    d = draw(replace(START, pays=(100.0, 1.0, 1.0)))
    assert d["percents"][0][0] == "101 %"
    assert d["share_notes"] == [
        "works against the update: conciseness −0.5 % (GRPO)",
        "more than the whole, as others work against it: correctness 101 % (GRPO)",
    ]
    assert draw(START)["share_notes"] == []
    silent = draw(replace(START, weights=(0.0, 0.0, 0.0)))
    assert silent["share_notes"] == ["no update under GRPO", "no update under GDPO"]


def test_a_primary_reward_that_weighs_nothing_is_not_as_it_stands():
    said = text_of(draw(replace(START, weights=(0.0, 1.0, 1.0)))["verdict"][0]).replace("\N{NO-BREAK SPACE}", " ")
    assert said.startswith(
        "Not as it stands: correctness weighs 0, so neither method looks at it. 82 % of the right–wrong"
    )
    assert said.endswith("which is its correlation with the advantages, is −0.43 under both methods.")


# --- the same numbers from a program ----------------------------------------------------------------------------------


@pytest.mark.slow
@given(states)
def test_the_program_prints_the_numbers_on_the_screen(state):
    lines, d = printed(answers.lab_program(state)), draw(state)
    for side, method in enumerate(("grpo", state.method)):
        name, *values = lines[2 * side].split(" ")
        assert name == method
        shown = [float(x.replace("−", "-")) for x in d["said"][side]]
        assert [float(x) for x in values] == pytest.approx(shown, abs=1e-9)
        shares = re.findall(r"(-?[\d.]+|nan) %", lines[2 * side + 1])
        if d["shares"][side]:
            assert [float(x) for x in shares] == pytest.approx([100 * x for x in d["shares"][side]], abs=0.0051)


# --- folds -----------------------------------------------------------------------------------------------------------


def test_the_papers_figure_stands_in_both_readings():
    before, alone, together = ("0.707", "1.414"), ("0.707", "0.707"), ("0.548", "1.095")
    text = depth.figure_two()
    rows = [re.findall("<td>±(.*?)</td>", row) for row in re.findall('<tr>(<th scope="row">.*?)</tr>', text)]
    assert [tuple(row) for row in rows][1:] == [before, alone, together]
    assert "n − 1" in text


def test_an_answer_under_every_convention():
    text = depth.conventions(START, 0)
    for c in gc.CONVENTIONS.values():
        row = re.search(f'<tr><th scope="row">{re.escape(c.name)}</th>(.*?)</tr>', text)[1]
        for method in ("grpo", "gdpo"):
            a = gc.advantages(GRADED, method, convention=c, lengths=LENGTHS)[0].item()
            assert f"<td>{a:.4f}</td>".replace("-", "−") in row


def test_books_are_ranked_by_both_methods():
    text = text_of(books.ranking(books.RATINGS))
    rows = [books.RATINGS[i : i + 3] for i in range(0, 15, 3)]
    for method in ("grpo", "gdpo"):
        for a in gc.advantages(rows, method).tolist():
            assert signed(a) in text
    assert "GRPO puts A short history of salt first, and GDPO puts The lighthouse keeper first." in text
    alike = books.ranking((3,) * 15)
    assert "= tie" not in alike and "Both methods give all books the same advantage." in alike
    one_sum = books.ranking((5, 3, 2, 3, 5, 2, 4, 1, 5, 1, 6, 3, 2, 7, 1))
    assert "GRPO ties all five books, and GDPO puts" in one_sum


# --- the board's traits ----------------------------------------------------------------------------------------------


def board() -> Board:
    return answers.task_board(TASKS[0], TASKS[0], Nav({}, False))


REFUSED = [
    {"marks": [[1]]}, {"marks": [[1, 0, {}]] * 12}, {"pays": [0, 1, 1]}, {"pays": [1, 1, 1e9]}, {"weights": [1, 1, 11]},
    {"weights": [float("nan"), 1, 1]}, {"method": "x"}, {"convention": None}, {"active": 12},
    {"convention": "nemo_rl_loo", "method": "corr_grpo"},
]  # fmt: skip


@pytest.mark.parametrize("state", REFUSED, ids=str)
def test_a_value_that_a_trait_does_not_accept_leaves_the_board_as_it_was(state):
    one = board()
    before = one.state, one.drawing
    one.set_state(state)
    assert "expected" in one.refused and (one.state, one.drawing) == before


# --- the page around it ----------------------------------------------------------------------------------------------


def test_a_method_is_refused_where_its_convention_does_not_define_it():
    page = Nav({"lab-method": "corr_grpo", "lab-convention": "nemo_rl_loo"}, False)
    one = answers.task_board(TASKS[0], TASKS[0], page)
    assert one.method == "corr_grpo" and one.convention == "paper" and page.unread
    for method, convention in UNDEFINED:
        with pytest.raises(gc.InputError):
            gc.advantages(GRADED, method, convention=gc.CONVENTIONS[convention])
    for method, convention in itertools.product(CHOSEN_METHODS, gc.CONVENTIONS):
        if [method, convention] not in UNDEFINED:
            compute(replace(START, method=method, convention=convention), method)


def test_a_deed_is_told_once_and_not_where_a_link_says_that_it_was_done():
    page = Nav({"done": "order"}, False)
    said = [page.deed(name, done) for name, done in (("tie", False), ("tie", True), ("tie", True), ("order", True))]
    assert ["✓ Done:" in one for one in said] == [False, True, True, True]
    assert page.finished == [DEEDS["tie"]]


def test_a_deed_is_ticked_where_a_plain_loop_sees_it_done():
    one, done, rng = board(), set(), np.random.default_rng(0)
    one.set_state({"method": "dvao"})
    assert not answers.deeds(one, TASKS[0])
    for weight in (1.0, 1.5, 3.0) * 40:
        flips = rng.random((12, 3)) < rng.choice([0.03, 0.1])
        r = np.where(flips, 1 - np.array(GRADED), GRADED)
        one.set_state({"marks": r.tolist(), "weights": [weight, 1, 1], "method": "gdpo"})
        spread = r.std(0, ddof=1)
        z = (r - r.mean(0)) / np.where(spread > 0, spread, 1) @ [weight, 1, 1]
        pairs = [(i, j) for i, j in itertools.combinations(range(12), 2) if tuple(r[i]) != tuple(r[j])]
        expected = {"tie"} if any(abs(z[i] - z[j]) < 1e-9 for i, j in pairs) else set()
        wrong, right = z[r[:, 0] == 0], z[r[:, 0] == 1]
        if weight != 1 and len(wrong) and len(right) and wrong.max() < right.min() + 1e-9:
            expected.add("order")
        assert answers.deeds(one, TASKS[0]) == expected
        done.add(frozenset(expected))
    assert done == {frozenset(), frozenset({"tie"}), frozenset({"order"}), frozenset({"tie", "order"})}
