"""The three graders: each reads the calls of an answer and gives a verdict with a reason."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import permutations

from gdpo_core.shared.errors import expect
from views.bfcl.calls import Call, UnreadableAnswer, parse_calls, show_calls
from views.bfcl.task import (
    Accepted,
    ParameterSchema,
    Task,
    comparable_value,
    parameters_of,
    quoted,
    spelling_error,
    type_error,
)

REWARDS = ("correctness", "style", "conciseness")


@dataclass(frozen=True)
class Verdict:
    """A verdict on whether an answer earns one reward.

    passed: True or False, or the part of the reward that it earns, from 0 to 1.
    reason: one sentence on why.
    """

    passed: bool | float
    reason: str


@dataclass(frozen=True)
class Grades:
    """The verdicts of the three graders on one answer."""

    correctness: Verdict
    style: Verdict
    conciseness: Verdict

    @property
    def vector(self) -> tuple[float, float, float]:
        """The three rewards of the answer, each from 0 to 1, in the order of REWARDS."""
        return self.correctness.passed + 0, self.style.passed + 0, self.conciseness.passed + 0


def grade(task: Task, answer: str) -> Grades:
    """Grade one answer from its text alone, and return the three verdicts.

    An answer in which no call can be read fails all three. Where the task has `longest`, conciseness is a number for
    any other answer. It falls from 1 to 0 as the answer grows to `longest` characters, and is rounded to two decimals.

    Raises InputError if the answer is not text.

    >>> from views.bfcl import load_task
    >>> task = load_task("data/tasks/1_interest.json")
    >>> grades = grade(task, '[compound(principal="5000", rate=0.05, years=10)]')
    >>> grades.vector
    (1, 0, 1)
    >>> grades.style.reason
    "principal='5000' is text, but a number is documented."
    """
    expect(isinstance(answer, str), "answer", "text", type(answer).__name__)
    try:
        calls, wrapping = parse_calls(task, answer)
    except UnreadableAnswer as why:
        unreadable = Verdict(False, f"No call can be read: {why}.")
        return Grades(unreadable, unreadable, unreadable)
    concise = _length(answer, task.longest) if task.longest else _conciseness(task, calls)
    return Grades(_correctness(task, calls), _style(task, calls, wrapping), concise)


def grade_all(task: Task) -> tuple[Grades, ...]:
    """Grade every answer of a task, and return the verdicts in the order of the answers.

    >>> from views.bfcl import load_task
    >>> [grades.vector for grades in grade_all(load_task("data/tasks/1_interest.json"))][:3]
    [(1, 1, 1), (1, 1, 1), (1, 1, 0)]
    """
    return tuple(grade(task, answer) for answer in task.answers)


def _correctness(task: Task, calls: Sequence[Call]) -> Verdict:
    needed = len(task.accepted)
    if len(calls) != needed:
        return Verdict(False, f"The number of calls is {len(calls)} instead of {needed}: {show_calls(calls)}.")
    faults = [[_wrong(task, call, wanted) for wanted in task.accepted] for call in calls]
    orders = permutations(range(needed))
    pairings = [[row[i] for row, i in zip(faults, order, strict=True)] for order in orders]
    fault = next(filter(None, min(pairings, key=lambda pairing: sum(map(bool, pairing)))), None)
    return Verdict(not fault, f"{fault or 'This asks for exactly what is needed: ' + show_calls(calls)}.")


def _style(task: Task, calls: Sequence[Call], wrapping: str) -> Verdict:
    if wrapping:
        return Verdict(False, f"{wrapping}, while a bare Python call is asked for: {show_calls(calls)}.")
    for call in calls:
        if call.function not in task.parameters:
            return Verdict(False, f"{call.function} is not a documented function.")
        if call.positional:
            name = call.positional[0]
            return Verdict(False, f"{quoted(call.args[name])} is sent by position, but {name}=… is asked for.")
        for name, value, schema in _documented_args(task, call):
            if fault := type_error(value, schema) or spelling_error(value, schema):
                return Verdict(False, f"{name}={quoted(value)} {fault}.")
    return Verdict(True, f"Bare, with the documented types and spelling: {show_calls(calls)}.")


def _length(answer: str, longest: int) -> Verdict:
    earned = round(max(0.0, 1 - len(answer) / longest), 2)
    return Verdict(earned, f"1 − {len(answer)} ÷ {longest} characters.")


def _conciseness(task: Task, calls: Sequence[Call]) -> Verdict:
    seen: list[tuple[str, dict[str, object]]] = []
    for call in calls:
        for name, value in call.args.items():
            if why := _deletable(task, call.function, name, value):
                return Verdict(False, f"{name}={quoted(value)} can be deleted: {why}.")
        if call.function not in task.parameters:
            return Verdict(False, f"{show_calls([call])} can be deleted: there is no such function.")
        meanings: dict[str, object] = {
            name: comparable_value(value, schema) or repr(value) for name, value, schema in _documented_args(task, call)
        }
        if (call.function, meanings) in seen:
            return Verdict(False, f"{show_calls([call])} can be deleted: it is a repeat.")
        seen.append((call.function, meanings))
    return Verdict(True, f"Nothing can be deleted: {show_calls(calls)}.")


def _wrong(task: Task, call: Call, wanted: Accepted) -> str | None:
    """Return why a call is not the wanted one, as a sentence without its full stop; None if it is.

    task: the task whose documentation says of which types the values are.
    call: the call of the answer.
    wanted: {function: {parameter: accepted values}} of the one wanted call, in which "" says that it may leave the
        parameter out.
    """
    [(function, accepted)] = wanted.items()
    if call.function != function:
        return f"{call.function} is called, but {function} is needed"
    schemas = task.parameters[function]["properties"]
    for name, schema in schemas.items():
        allowed = accepted.get(name, [""])
        values = [value for value in allowed if value != ""]
        needed = f"{' or '.join(map(quoted, values))} is needed" if values else "it should be left out"
        if name not in call.args:
            if "" not in allowed:
                return f"{name} is missing, but {needed}"
        elif not ("" in allowed and _deletable(task, function, name, call.args[name])):
            sent = comparable_value(call.args[name], schema)
            if sent is None or sent not in [comparable_value(value, schema) for value in values]:
                return f"{name}={quoted(call.args[name])} is not accepted: {needed}"
    unknown = [f"{name}={quoted(value)}" for name, value in call.args.items() if name not in schemas]
    return f"{unknown[0]} is not a parameter of {function}" if unknown else None


def _deletable(task: Task, function: str, name: str, value: object) -> str | None:
    """Return why one parameter can be deleted from a call without a change of its meaning; None if it cannot.

    It can be deleted if the function does not document it. It can also be deleted if it is not required and its value
    is the documented default or empty.

    task: the task that documents the functions.
    function: the name of the function that is called.
    name: the name of the parameter.
    value: what was sent for it.
    """
    schema = parameters_of(task, function).get(name)
    if schema is None:
        return f"{function} documents no such parameter"
    if name in task.parameters[function]["required"]:
        return None
    if "default" in schema and comparable_value(value, schema) == comparable_value(schema["default"], schema):
        return "it is the documented default"
    return "it is empty" if value in ("", None, [], {}, ()) else None


def _documented_args(task: Task, call: Call) -> list[tuple[str, object, ParameterSchema]]:
    """Return the name, the value and the documentation of each argument of a call that its function documents."""
    schemas = parameters_of(task, call.function)
    return [(name, value, schemas[name]) for name, value in call.args.items() if name in schemas]
