"""Links: what a page can say in its address comes back as it was, and what it cannot is ignored with a note."""

from urllib.parse import parse_qs

import pytest
from hypothesis import given
from hypothesis import strategies as st

import gdpo_core as gc
from gdpo_core import bfcl
from views.lab import PAYS, Lab, State, checked, frozen
from views.link import CONTROLS, VERSION, Session, parse

TASKS = bfcl.load_tasks("data/tasks")


def lab(query: str = "") -> tuple[Lab, Session]:
    session = Session.of(parse_qs(query, keep_blank_values=True))
    return Lab(TASKS, session), session


STATES = st.builds(
    lambda task, bits, pays, weights, convention, method: {
        "task": task,
        "marks": [[bits >> (3 * i + k) & 1 for k in range(3)] for i in range(len(TASKS[task].answers))],
        "pays": pays,
        "weights": weights,
        "convention": convention,
        "method": method,
    },
    st.integers(0, len(TASKS) - 1),
    st.integers(0, 2**60),
    st.lists(st.sampled_from(PAYS), min_size=3, max_size=3),
    st.lists(st.integers(0, 50).map(lambda n: n / 10), min_size=3, max_size=3),
    st.sampled_from(list(gc.CONVENTIONS)),
    st.sampled_from(["gdpo", "grpo_no_std"]),
)


@given(STATES)
def test_a_link_restores_the_lab_and_its_numbers_exactly(asked):
    first, session = lab()
    first._asked(asked)
    second, restored = lab(session.query("lab"))
    assert second.state == first.state
    assert not restored.notes
    assert {k: v for k, v in second.drawing.items() if k != "n"} == {k: v for k, v in first.drawing.items() if k != "n"}


def test_an_untouched_page_has_an_empty_link():
    _, session = lab()
    assert session.query("lab") == f"v={VERSION}&at=lab"


def test_a_link_keeps_what_its_chapter_never_read():
    _, session = lab("evidence-draw=7&train-compare=published")
    assert "evidence-draw=7" in session.query("evidence")
    assert "train-compare" not in session.query("evidence")


@pytest.mark.parametrize(
    "query, note",
    [
        ("v=9", "version 9"),
        ("lab-colour=red", "lab-colour is not known here"),
        ("evidence-draw=many", "expected a number from 0 to 99, got “many”"),
        ("evidence-draw=nan", "expected a number from 0 to 99"),
        ("train-compare=worse", "expected one of equal, published, neither"),
        ("lab-marks=1120", "expected rows of 0 and 1"),
        ("lab-marks=111.000", "lab-marks: expected"),
        ("lab-task=nowhere", "lab-task: expected"),
        ("lab-pays=1_2_3", "lab-pays: expected"),
        ("lab-weights=1", "lab-weights: expected"),
        ("lab-convention=mine", "lab-convention: expected"),
        ("lab-method=grpo", "lab-method: expected"),
        ("lab-pays=" + "1_" * 5000, "longer than"),
        ("lab-weights=1_1_", "expected a number from 0 to 5, got “1_1_”"),
        ("lab-task=%00<script>", "lab-task: expected"),
    ],
)
def test_what_a_link_cannot_say_is_ignored_with_a_note(query, note):
    one, session = lab(query)
    assert any(note in line for line in session.notes), session.notes
    assert one.state == lab()[0].state


@pytest.mark.parametrize("query", ["theme=dark", "__theme=light", "at=nowhere", "session_id=x", "embed=lab"])
def test_keys_of_others_are_no_fault(query):
    assert not lab(query)[1].notes


def test_numbers_beyond_their_range_are_brought_into_it():
    values, notes = parse({"evidence-draw": "1e9", "lab-weights": "-3_99_1"})
    assert values == {"evidence-draw": 99, "lab-weights": (0, 5, 1.0)}
    assert not notes


@given(st.dictionaries(st.text(max_size=12), st.text(max_size=30), max_size=5))
def test_no_query_breaks_the_page(params):
    session = Session.of(params)
    assert isinstance(Lab(TASKS, session).state, State)


@given(st.sampled_from(sorted(CONTROLS)), st.text(max_size=40))
def test_no_value_breaks_the_page(key, text):
    Lab(TASKS, Session.of({key: text}))


def test_what_the_browser_may_not_ask():
    good = {
        "task": 0,
        "marks": [[1, 1, 1]] * 12,
        "pays": [1, 1, 1],
        "weights": [1, 1, 1],
        "convention": "paper",
        "method": "gdpo",
    }
    answers = [len(task.answers) for task in TASKS]
    assert checked(good, answers).marks == frozen(good["marks"])
    for bad in (
        {"task": 9},
        {"task": -1},
        {"marks": [[1, 1, 1]] * 11},
        {"marks": [[1, 1]] * 12},
        {"marks": [[2, 1, 1]] * 12},
        {"pays": [0, 1, 1]},
        {"pays": [float("nan"), 1, 1]},
        {"weights": [1, 1]},
        {"weights": [-1, 1, 1]},
        {"convention": "mine"},
        {"method": "ppo"},
    ):
        with pytest.raises(ValueError):
            checked(good | bad, answers)
