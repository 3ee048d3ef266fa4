import json
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdpo_core.shared.errors import InputError
from views import bfcl

TASKS = Path(__file__).parent.parent / "data" / "tasks"
INTEREST, HOTEL, WEATHER, COAT = bfcl.load_tasks(TASKS)

# The correctness, style and conciseness of the answers that the Lab shows, in their order, were worked out by hand from
# the request and the documentation.
ORACLE = {
    "interest": "111 111 110 110 110 110 101 101 101 011 100 100",
    "hotel": "111 111 110 110 110 110 011 011 011 101 010 010",
    "weather": "111 011 101 000 000 111 110 011 100 000 111 000",
}
CASES = [  # answers that the Lab does not show
    (INTEREST, "The balance after 10 years will be €8,144.47.", (0, 0, 0), "a sentence, no call"),
    (INTEREST, "[compound(principal=5000.0, rate=0.05, years=10)]", (1, 1, 1), "5000.0 for a documented float"),
    (INTEREST, "[compound(amount=5000, rate=0.05, years=10)]", (0, 1, 0), "principal is asked for, amount is unknown"),
    (INTEREST, "compound(principal=5_000, rate=0.05, years=10)", (1, 1, 1), "5_000 is the Python literal 5000"),
    (HOTEL, '[book(date="2026-06-03", city="Lyon")]', (0, 1, 1), "left out, the room is a DOUBLE"),
    (HOTEL, '[book(date="2026-06-03", room="DOUBLE", city="Lyon")]', (0, 1, 0), "DOUBLE is wrong, and the default"),
    (HOTEL, '[book(date="03/06/2026", room="SUITE", city="Lyon")]', (0, 0, 1), "day or month first cannot be told"),
    (HOTEL, '[book(date="June 3, 2026", city="Lyon", breakfast=False)]', (0, 0, 0), "in words, no suite, a default"),
    (HOTEL, '[book(date="2026-06-03", room="SUITE", city="Ly', (0, 0, 0), "cut off"),
    (INTEREST, "compound(principal=5000, rate='5%', years=10)", (0, 0, 1), "no number"),
    (INTEREST, "compound(principal=5000, rate=0.05, years=10.0)", (1, 0, 1), "a float for a documented integer"),
    (INTEREST, "compound(principal='nan', rate=0.05, years=10)", (0, 0, 1), "no number either"),
    (INTEREST, "compound(principal=5000, rate=0.05, years=10, currency='')", (1, 0, 0), "empty"),
    (INTEREST, "compound(principal=5000, rate=0.05, years=10, per_year=None)", (1, 0, 0), "none"),
    (INTEREST, "compound(principal=5000, rate=0.05, years=10, tax=0)", (0, 1, 0), "tax is unknown"),
    (INTEREST, "compound(5000, rate=0.05, years=10)", (1, 0, 1), "by position"),
    (INTEREST, "  [ compound(principal=5000,\n rate=5e-2, years=10) ]\n", (1, 1, 1), "spaces and lines"),
    (INTEREST, "Call `compound(principal=5000, rate=0.05, years=10)`.", (1, 0, 1), "in a sentence"),
    (HOTEL, "book(date='2026-06-03', room='SUITE', city='LYON ')", (1, 1, 1), "free text has no spelling"),
    (HOTEL, "book(date='3rd June 2026', room='SUITE', city='Lyon')", (1, 0, 1), "a date in words"),
    (HOTEL, "book(date='2026-02-30', room='SUITE', city='Lyon')", (0, 0, 1), "no date"),
    (HOTEL, "book(date='2026-06-03', room='PENTHOUSE', city='Lyon')", (0, 0, 1), "no room"),
    (HOTEL, "book(date='2026-06-03', room='SUITE', city='')", (0, 1, 1), "required: empty but not deletable"),
    (HOTEL, "book(date='2026-06-03', room='SUITE', city='Lyon', breakfast=false)", (1, 0, 0), "JSON's false"),
    (WEATHER, "[weather(city='Oslo'), weather(city='oslo')]", (0, 1, 0), "a repeat in other letters"),
    (WEATHER, "[weather(city='Rome'), weather(city='Roma')]", (0, 1, 1), "both spellings of one city"),
    (COAT, "# " + "x" * 178 + "\nsubmit(price=163.2)", (1, 1, 0.33), "200 of 300 characters"),
    (COAT, "submit(price=163.2, currency='EUR')" + " " * 965, (1, 1, 0), "too long; a default is not looked at"),
]
EVERY_ANSWER = [
    (task, answer, tuple(map(int, marks)), f"answer {n}")
    for task in (INTEREST, HOTEL, WEATHER)
    for n, (answer, marks) in enumerate(zip(task.answers, ORACLE[task.id].split(), strict=True), start=1)
] + CASES


@pytest.mark.parametrize(("task", "answer", "expected", "why"), EVERY_ANSWER)
def test_every_answer_gets_the_rewards_worked_out_by_hand(task, answer, expected, why):
    grades = bfcl.grade(task, answer)
    assert grades.vector == expected, why
    for name in bfcl.REWARDS:
        reason = getattr(grades, name).reason
        assert reason.endswith(".") and not reason.endswith("..") and reason[:-1].strip() and "\n" not in reason


ARGUMENTS = "rate=0.05, years=10)"
HOSTILE = [
    "", "\ud800", "[]", "compound", "compound(*[5000, 0.05, 10])", "compound(**{})", "compound(" * 400,
    "compound('" * 350, "[" * 1_000_000, "a." * 1990 + "a()", '{"name": 3, "arguments": {}}',
    '{"name": "compound", "arguments": ' + '{"a": ' * 500 + "1" + "}" * 501,
    "compound(principal=5000, " + ARGUMENTS + " " * 10_000_000 + "!",
    *(f"compound(principal={value}, {ARGUMENTS}" for value in (
        "5000\0", "2500*2", "__import__('os').getpid()", "1e999", "{[]: 1}", "b'5000'", "0x" + "f" * 3900,
        "[" * 50 + "]" * 50, "5000, principal=5000",
    )),
]  # fmt: skip


@pytest.mark.parametrize("answer", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_text_is_unreadable_and_quick(answer):
    start = time.thread_time()  # CPU time is measured, because on a busy machine the same work takes longer.
    grades = bfcl.grade(INTEREST, answer)
    assert time.thread_time() - start < 1
    assert grades.vector == (0, 0, 0)
    for name in bfcl.REWARDS:
        reason = getattr(grades, name).reason
        assert reason.endswith(".") and "\n" not in reason and len(reason) < 400
        reason.encode()


def test_an_argument_that_is_no_plain_value_is_named():
    reason = bfcl.grade(INTEREST, "[compound(principal=5000, rate=5/100, years=10)]").correctness.reason
    assert reason == "No call can be read: rate=5 / 100 is not a plain value."


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
)


@pytest.mark.slow
@given(
    st.dictionaries(st.sampled_from([*HOTEL.functions[0]["parameters"]["properties"], "wifi"]), values),
    st.sampled_from(["[{}]", "{}", "```python\n{}\n```", "Here it is: {} Enjoy!"]),
)
def test_any_call_is_graded_in_one_sentence_each(arguments, frame):
    call = f"book({', '.join(f'{name}={value!r}' for name, value in arguments.items())})"
    for answer in (frame.replace("{}", call), json.dumps({"name": "book", "arguments": arguments})):
        grades = bfcl.grade(HOTEL, answer)
        assert grades == bfcl.grade(HOTEL, answer)
        for name in bfcl.REWARDS:
            reason = getattr(grades, name).reason
            assert reason.endswith(".") and len(reason.splitlines()) == 1
            reason.encode()


def put(*path_and_value):
    *path, last, value = path_and_value

    def change(data):
        for key in path:
            data = data[key]
        data[last] = value

    return change


PARAMETERS = ("functions", 0, "parameters")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (put("answers", ["f()"] * 11), "answers: expected `array` of length >= 12"),
        (put("functions", 0, "name", "com pound"), "functions[0].name: expected `str` matching regex"),
        (lambda data: data["functions"].append(data["functions"][0]), "functions: expected a name of its own for each"),
        (put(*PARAMETERS, "properties", "years", "type", "int"), "properties[...].type: expected `str` matching"),
        (put("accepted", 0, {"grow": {"rate": [1]}}), "accepted[0]: expected one documented function (compound)"),
        (lambda data: data["accepted"][0]["compound"].pop("years"), "accepted[0].compound: expected the required ones"),
        (put("accepted", 0, "compound", "years", ["10"]), "accepted[0].compound.years: expected a value as documented"),
    ],
)
def test_a_broken_task_names_file_and_entry(tmp_path, change, message):
    data = json.loads((TASKS / "1_interest.json").read_text(encoding="utf-8"))
    change(data)
    path = tmp_path / "broken.json"
    path.write_text(json.dumps(data))
    with pytest.raises(InputError) as error:
        bfcl.load_task(path)
    assert str(error.value).startswith(f"{path}: ")
    assert message in str(error.value)


def test_a_missing_file_an_empty_directory_and_a_second_id_are_named(tmp_path):
    with pytest.raises(InputError, match=r"none\.json: expected a readable file"):
        bfcl.load_task(tmp_path / "none.json")
    with pytest.raises(InputError, match=r"expected a directory with \*\.json tasks, got none"):
        bfcl.load_tasks(tmp_path)
    for name in ("1.json", "2.json"):
        (tmp_path / name).write_text((TASKS / "2_hotel.json").read_text(encoding="utf-8"))
    with pytest.raises(InputError, match=r"2\.json: id: expected an id that no earlier task has, got 'hotel'"):
        bfcl.load_tasks(tmp_path)
