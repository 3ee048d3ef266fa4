"""The Lab without a browser: verdicts, arithmetic, shares, folds, deeds and the program, over all its controls."""

import contextlib
import io
import itertools
import re
from dataclasses import replace

import pytest
import traitlets
from helpers import html_of, text_of
from hypothesis import given
from hypothesis import strategies as st

import gdpo_core as gc
from app import app
from gdpo_core import bfcl
from gdpo_core._words import signed
from views import books, depth, lab, terms
from views.lab import Lab, draw, program, seen, sheet
from views.link import Session
from views.state import PAYS, UNDEFINED, State, frozen, methods

TASKS = bfcl.load_tasks("data/tasks")
SHEETS = [sheet(task) for task in TASKS]
GRADED = frozen(SHEETS[0]["graded"])
LENGTHS = tuple(map(len, SHEETS[0]["answers"]))
START = State(0, GRADED)
marks = st.lists(st.tuples(*[st.integers(0, 1)] * 3), min_size=12, max_size=12).map(tuple)
states = st.builds(
    State,
    st.just(0),
    marks,
    st.tuples(*[st.sampled_from([1.0, 1.0, *PAYS])] * 3),
    st.tuples(*[st.sampled_from([1.0, 1.0, 0.0, 0.5, 1.3, 2.0, 5.0])] * 3),
    st.sampled_from(list(gc.CONVENTIONS)),
    st.sampled_from([key for key in methods() if key != "grpo"]),
).filter(lambda s: [s.method, s.convention] not in UNDEFINED)


def drawn(state: State) -> dict:
    return draw(state, LENGTHS, GRADED)


def advantages(state: State, method: str) -> list[float]:
    given = {"weights": state.weights, "lengths": LENGTHS, "convention": gc.CONVENTIONS[state.convention]}
    return gc.advantages(state.rewards, method, **given).tolist()


# --- what is drawn ---------------------------------------------------------------------------------------------------


@given(states)
def test_bars_ties_and_order_are_those_of_the_core(state):
    d, n = drawn(state), range(12)
    for side, method in enumerate(("grpo", state.method)):
        a = advantages(state, method)
        assert d["a"][side] == pytest.approx(a, abs=1e-12)
        assert d["said"][side] == [signed(x) for x in d["a"][side]]
        tied = {frozenset(tie["answers"]) for tie in d["ties"][side]}
        near = 1e-9 * max(map(abs, a))  # as the core ties
        found = {i: frozenset(j for j in n if abs(a[i] - a[j]) <= near) for i in n}
        assert tied == {s for s in found.values() if len({state.marks[i] for i in s}) > 1}
    assert sorted(d["order"]) == list(n)
    ranked = [d["a"][1][i] for i in d["order"]]
    assert all(x >= y - 1e-8 * max(1, abs(x)) for x, y in itertools.pairwise(ranked))


def test_the_default_view_shows_its_case():
    d = drawn(START)
    assert [sum(column) for column in zip(*GRADED, strict=True)] == [9, 10, 7]
    assert d["levels"] == [4, 6] and d["mixes"] == 6
    told = text_of(" ".join(d["verdict"]))
    assert told.startswith(
        "With equal pay and weights GRPO gives 6 different mixes of marks only 4 advantages , GDPO all 6"
    )
    mended = "Of 4 ties of a right and a wrong answer GDPO puts the right one first in 3."
    assert f"{mended} But GDPO puts answer 9 , wrong, above answer 10 , right" in told


def test_but_is_said_only_where_gdpo_has_more_wrong_answers_above_right_ones_than_grpo():
    rows = ["111", "111", "110", "110", "110", "110", "101", "101", "101", "011", "100", "100"]
    marks = tuple(tuple(map(int, row)) for row in rows)
    told = text_of(" ".join(drawn(State(0, marks))["verdict"]))
    assert "Of 7 ties of a right and a wrong answer GDPO puts the right one first in 7. It also puts" in told
    assert "2 of 11 pairs of wrong and right, 2 under GRPO" in told and "But" not in told


# --- the arithmetic --------------------------------------------------------------------------------------------------

RAISED = str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789")


def value(text: str) -> float:
    """What a reader gets who computes with the printed numbers alone."""
    text = re.sub(r"10(⁻[⁰¹²³⁴⁵⁶⁷⁸⁹]+)", lambda m: f"1e{m[1].translate(RAISED)}", text)
    text = re.sub(r"√(\([^()]*\))", r"(\1)**.5", text).replace("²", "**2")
    text = text.replace("−", "-").replace("·", "*").replace("÷", "/")
    # z terms stand beside each other, each with its sign
    text = re.sub(r"(?<=[\d)]) (?=[+-][\d])", "", text)
    assert re.fullmatch(r"[-+*/(). \de]+", text), text
    return eval(text)


@given(states)
def test_every_line_adds_up_as_it_is_printed_and_ends_in_the_bars_number(state):
    d = drawn(state)
    for both, *said in zip(d["lines"], *d["said"], strict=True):
        for line, result in zip(both, said, strict=True):
            text = re.sub(r"⟨\d\||⟩|\*\*", "", line)
            assert "nan" not in text and "inf" not in text and not re.search(r"[-−+]0(?![.\d])(?!·)(?!.*\d·)$", text)
            first, *rest = text.split(" → ")
            *_, end = text.split(" = ")
            assert end == result
            sums, total = first.rsplit(" = ", 1)
            decimals = len(total.split(".")[1]) if "." in total else 2
            assert abs(value(sums) - value(total)) <= 0.5001 * 10 ** -max(decimals, 2) + 1e-9, text
            if rest and "left out" not in rest[0] and ", as " not in rest[0] and ", undivided" not in rest[0]:
                assert abs(value(rest[0].split(" = ")[0]) - value(result)) <= 0.005 + 1e-8, text
            elif rest and ", undivided" not in rest[0]:
                assert result == "0.00"


def test_a_line_by_hand():
    # 1 + 0 + 1 = 2; sums have the mean 26/12 = 2.17 and the std 0.937
    line = re.sub(r"⟨\d\||⟩|\*\*", "", drawn(START)["lines"][9][0])
    assert line == "1 + 0 + 1 = 2 → (2 − 2.17) ÷ 0.937 = −0.18"


# --- the verdict -----------------------------------------------------------------------------------------------------


@given(states)
def test_what_the_verdict_counts_is_so(state):
    d = drawn(state)
    told = text_of(" ".join(d["verdict"])).replace(" ,", ",")
    mixes, (left, right) = len(set(state.marks)), d["levels"]
    assert "nan" not in told and "  " not in told and not re.search(r": \.|left: *\.", told)
    if mixes == 1 or not any(state.weights):
        assert "every advantage is 0" in told
        assert not any(any(side) for side in d["a"])
        return
    one, two = (advantages(state, m) for m in ("grpo", state.method))
    if "gives" in told and "only" in told and left < mixes:
        assert re.search(rf"gives {mixes} different mixes of marks only {left} advantages?", told), told
    assert ("No tie" in told) == (left == mixes == right)
    assert ("With equal pay and weights" in told) == (
        left < mixes and len(set(state.pays)) == len(set(state.weights)) == 1
    )
    wrong = [(i, j) for i, u in enumerate(state.marks) for j, v in enumerate(state.marks) if not u[0] and v[0]]
    above = [sum(a[i] > a[j] + 1.5e-9 * max(1e-9, *map(abs, a)) for i, j in wrong) for a in (one, two)]
    if found := re.search(
        r"wrong, above answer (\d+), right: (\d+) of ([\d,]+) pairs? of wrong and right(?:, (\d+) under GRPO)?\.", told
    ):
        assert [int(found[2]), int(found[4] or 0)] == above[::-1] and int(found[3]) == len(wrong)
    if "the right one first in all" in told or "No wrong answer stands above" in told:
        assert above[1] == 0
    if "What is left" in told:
        assert left == mixes and not state.equal
        if said := re.search(r"right one in (\d+) under (GRPO|both)(?:, in (\d+))?", told):
            assert [int(said[1]), int(said[3] or said[1])] == above
    if "break GRPO's ties too" in told:
        same = gc.collapse([list(map(float, row)) for row in state.marks], "grpo")
        assert same.tied_pair_count > 0
    if "It can't tell two marks apart" in told:
        assert len(set(state.weights)) == 1 and right < mixes


def test_why_gdpo_ties_is_said_where_it_is_the_reason():
    passed = ((0, 1, 1),) * 8 + ((1, 1, 0),) * 3 + ((0, 0, 1),)
    assert sum(row[0] for row in passed) + sum(row[2] for row in passed) == len(passed)
    assert "as many pass the one as fail the other" in " ".join(drawn(State(0, passed))["verdict"])
    unequal = drawn(State(0, passed, weights=(1.0, 0.0, 0.0)))
    assert "A mark without weight" in " ".join(unequal["verdict"])


def test_unequal_weights_leave_near_ties_and_priorities():
    told = text_of(drawn(replace(START, weights=(1.0, 0.95, 0.9)))["verdict"][1])
    assert told.startswith("Unequal pay or weights break GRPO's ties too. What is left: ")
    assert "GRPO's closest two only 0." in told and "the largest share of the update" in told


def test_a_weight_puts_right_answers_first_and_a_pay_drowns():
    assert "right-first" in drawn(replace(START, weights=(2.0, 1.0, 1.0)))["deeds"]
    assert "drowned" in drawn(replace(START, pays=(1.0, 1.0, 100.0)))["deeds"]
    assert "best-differs" not in drawn(START)["deeds"] and "tie-broken" not in drawn(START)["deeds"]
    flipped = frozen([[*row] for row in GRADED[:9]] + [[0, 0, 0]] + [[*row] for row in GRADED[10:]])
    assert "tie-broken" in drawn(State(0, flipped))["deeds"]
    tied = State(0, ((1, 0, 0),) * 3 + ((0, 1, 0),) * 3 + ((0, 0, 1),) * 6)
    assert "gdpo-ties" in drawn(tied)["deeds"]


def test_every_task_makes_another_point():
    told = [
        " ".join(draw(State(i, frozen(s["graded"])), tuple(map(len, s["answers"])), frozen(s["graded"]))["verdict"])
        for i, s in enumerate(SHEETS)
    ]
    assert len({re.sub(r"\d+", "", one) for one in told}) == len(told)


# --- the same numbers from a program ----------------------------------------------------------------------------------


@given(states)
def test_the_program_prints_the_numbers_on_the_screen(state):
    source = program(state, LENGTHS)
    assert len(source.splitlines()) <= 15
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(source, {})
    d = drawn(state)
    lines = out.getvalue().splitlines()
    for side, method in enumerate(("grpo", state.method)):
        name, *values = lines[2 * side].split(" ")
        assert name == method
        shown = [float(x.replace("−", "-")) for x in d["said"][side]]
        assert [float(x) for x in values] == pytest.approx(shown, abs=1e-9)
        shares = re.findall(r"(-?[\d.]+|nan) %", lines[2 * side + 1])
        if d["shares"][side]:
            assert [float(x) for x in shares] == pytest.approx([100 * x for x in d["shares"][side]], abs=0.0051)


# --- folds -----------------------------------------------------------------------------------------------------------


def test_every_fold_is_computed_when_it_is_opened():
    one = Lab(TASKS, Session.of({}))
    assert one.drawing["folds"] == {}
    asked = {"task": 0, "marks": GRADED, "pays": [1, 1, 1], "weights": [1, 1, 1], "convention": "trl", "method": "gdpo"}
    one._asked(asked | {"n": 1, "open": [*lab.FOLD_TITLES, "x"], "active": 9})
    assert set(one.drawing["folds"]) == set(lab.FOLD_TITLES)
    table = text_of(one.drawing["folds"]["conventions"])
    for convention in gc.CONVENTIONS.values():
        assert convention.name in table


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
    text = depth.figure_two(convention)
    rows = [re.findall("<td>±(.*?)</td>", row) for row in re.findall('<tr>(<th scope="row">.*?)</tr>', text)]
    assert [tuple(row) for row in rows][1:] == [before, alone, together]
    assert "prints 0.707 and 1.414" in text and "n − 1" in text


def test_an_answer_under_every_convention():
    text = depth.conventions(START, LENGTHS, 9)
    for c in gc.CONVENTIONS.values():
        row = re.search(f'<tr><th scope="row">{re.escape(c.name)}</th>(.*?)</tr>', text)[1]
        for method in ("grpo", "gdpo"):
            a = gc.advantages(GRADED, method, convention=c, lengths=LENGTHS)[9].item()
            assert f"<td>{a:.4f}</td>".replace("-", "−") in row


def test_no_right_answer_of_the_first_task_is_one_that_bfcl_would_fail():
    assert "here it would fail" not in depth.marking(TASKS[0], SHEETS[0]["answers"])
    assert "here it would fail" in depth.marking(TASKS[2], SHEETS[2]["answers"])


def test_books_are_ranked_by_both_methods():
    text = text_of(books.shelf(books.RATINGS))
    rows = [books.RATINGS[i : i + 3] for i in range(0, 15, 3)]
    for method in ("grpo", "gdpo"):
        for a in gc.advantages(rows, method).tolist():
            assert signed(a) in text
    tie = books.ranking((9, 1, 2, 1, 9, 2, 9, 9, 5, 1, 1, 1, 1, 1, 1))
    grpo, _ = tie.split('<section class="gdpo">')
    assert grpo.count("= tie") == 2
    assert "= tie" not in books.ranking((3,) * 15) and "rated alike" in books.ranking((3,) * 15)
    assert books.checked([99] * 15) == (10, 10, 5) * 5
    with pytest.raises(ValueError):
        books.checked([1, 2])


# --- the page around it ----------------------------------------------------------------------------------------------


def test_the_lead_is_short_and_its_terms_explain_themselves():
    said = re.sub(r"<[^>]+>", "", lab.opening(12)).split("\n", 3)[3]
    assert len(said.split()) <= 60
    assert 'data-tip="The number that says' in lab.opening(12)
    assert {"mix", "advantage", "normalise", "tie"} <= terms.glossary().keys()


def test_a_broken_task_file_closes_the_lab_alone(monkeypatch):
    def broken(_directory):
        raise gc.InputError("data/tasks/2_hotel.json: answers[3]: expected text, got 5")

    monkeypatch.setattr(lab, "load_tasks", broken)
    outputs, _ = app.run()
    assert "answers[3]: expected text, got 5" in html_of(outputs)
    assert "Traceback" not in html_of(outputs)


def test_tasks_may_have_different_numbers_of_answers():
    longer = replace(TASKS[1], answers=(*TASKS[1].answers, "book()"))
    one = Lab([TASKS[0], longer], Session.of({"lab-task": longer.id}))
    assert len(one.drawing["order"]) == 13


@pytest.mark.parametrize(
    "message", [{}, None, {"task": 0}, {"books": [1]}, {"books": None}, {"task": "x"}, {"marks": [[1, 0, {}]] * 12}]
)
def test_a_message_that_is_none_of_ours_leaves_the_drawing(message):
    one = Lab(TASKS, Session.of({}))
    before = one.drawing
    with pytest.raises(traitlets.TraitError):
        one._asked(message)
    assert one.drawing == before and one.state == START


def test_a_method_is_refused_where_its_convention_does_not_define_it():
    session = Session.of({"lab-method": "corr_grpo", "lab-convention": "nemo_rl_loo"})
    one = Lab(TASKS, session)
    assert one.state.method == "corr_grpo" and one.state.convention == "paper" and session.notes
    for method, convention in UNDEFINED:
        with pytest.raises(gc.InputError):
            gc.advantages(GRADED, method, convention=gc.CONVENTIONS[convention])
    for method, convention in itertools.product(methods(), gc.CONVENTIONS):
        if [method, convention] not in UNDEFINED:
            seen(replace(START, method=method, convention=convention), method, LENGTHS)
