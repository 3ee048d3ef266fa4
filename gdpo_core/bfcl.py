"""Function-calling tasks in the style of the Berkeley Function Calling Leaderboard, and three graders of an answer's text.

correctness   exactly the needed calls, in any order; each value is accepted once read as its documented type
style         exact JSON types, enum and date spelling, arguments by name, and nothing around the Python call
conciseness   nothing that could be deleted: a documented default, an empty or unknown parameter, a repeat

An answer without a readable call fails all three. Answers are parsed, never run: every argument must be a plain value.
"""

import ast
import json
import math
import re
from dataclasses import dataclass
from datetime import date, datetime
from itertools import permutations
from pathlib import Path

from gdpo_core.errors import InputError

REWARDS = ("correctness", "style", "conciseness")

MAX_ANSWER = 4000  # characters; the Python parser takes seconds or overflows on far longer text
MAX_CALLS = 6  # accepted calls of a task, which are tried in every order
MAX_NAME = 64
MIN_ANSWERS = 12

EMPTY = ("", None, [], {}, ())

# documented type: (in words, the Python types that are exactly it); JSON has one kind of number, so 5000 is a float too
TYPES = {
    "string": ("text", (str,)),
    "integer": ("a whole number", (int,)),
    "float": ("a number", (int, float)),
    "boolean": ("True or False", (bool,)),
    "array": ("a list", (list,)),
}
KINDS = {str: "text", int: "a whole number", float: "a decimal number", bool: "a truth value", list: "a list"}

# months in words only: 03/06/2026 is June in Lyon and March in New York
DATE_SPELLINGS = ("%Y-%m-%d", "%Y/%m/%d", "%Y%m%d", "%B %d %Y", "%d %B %Y", "%b %d %Y", "%d %b %Y")


@dataclass(frozen=True)
class Verdict:
    """Whether an answer earns one reward, and why in one sentence."""

    passed: bool
    reason: str


@dataclass(frozen=True)
class Grades:
    """The three verdicts on one answer."""

    correctness: Verdict
    style: Verdict
    conciseness: Verdict

    @property
    def vector(self) -> tuple[int, int, int]:
        """The rewards as 0 or 1, in the order of REWARDS."""
        return int(self.correctness.passed), int(self.style.passed), int(self.conciseness.passed)


@dataclass(frozen=True)
class Task:
    """One request, the functions that a model may call, the accepted calls and the answers to grade."""

    id: str
    title: str
    request: str
    functions: tuple[dict, ...]  # name, description, parameters, as BFCL documents them
    accepted: tuple[
        dict, ...
    ]  # {function: {parameter: [accepted values]}}, one a needed call; "" = may be left out
    answers: tuple[str, ...]


def grade(task: Task, answer: str) -> Grades:
    """Grade one answer from its text alone; InputError if it is not text.

    >>> task = load_task("data/tasks/1_interest.json")
    >>> grades = grade(task, '[compound(principal="5000", rate=0.05, years=10)]')
    >>> grades.vector
    (1, 0, 1)
    >>> grades.style.reason
    "principal='5000' is text, but a number is documented."
    """
    if not isinstance(answer, str):
        raise InputError(f"answer: expected text, got {type(answer).__name__}")
    try:
        sent = _read(task, answer)
    except _Unreadable as why:
        unreadable = Verdict(False, f"No call can be read: {why}.")
        return Grades(unreadable, unreadable, unreadable)
    return Grades(_correctness(task, sent), _style(task, sent), _conciseness(task, sent))


def grade_all(task: Task) -> tuple[Grades, ...]:
    """Grade every answer of a task.

    >>> [grades.vector for grades in grade_all(load_task("data/tasks/1_interest.json"))][:3]
    [(1, 1, 1), (1, 1, 0), (0, 1, 1)]
    """
    return tuple(grade(task, answer) for answer in task.answers)


def _correctness(task, sent):
    if len(sent.calls) != len(task.accepted):
        count = f"{len(sent.calls)} {'call' if len(sent.calls) == 1 else 'calls'}"
        needed = f"{len(task.accepted)} {'is' if len(task.accepted) == 1 else 'are'}"
        return Verdict(False, f"Makes {count} where {needed} needed: {_and(map(_show_call, sent.calls))}.")
    faults = [[_value_fault(task, call, wanted) for wanted in task.accepted] for call in sent.calls]
    pairings = [[row[i] for row, i in zip(faults, order)] for order in permutations(range(len(faults)))]
    fault = next(filter(None, min(pairings, key=lambda pairing: sum(map(bool, pairing)))), None)
    if fault:
        return Verdict(False, f"{fault}.")
    return Verdict(True, f"Calls what is needed with accepted values: {_and(map(_show_call, sent.calls))}.")


def _style(task, sent):
    if sent.wrapping:
        return Verdict(
            False, f"{_show_call(sent.calls[0])} is {sent.wrapping}, but a bare Python call is asked for."
        )
    for call in sent.calls:
        if call.name not in _properties(task):
            return Verdict(False, f"{call.name} is not a documented function.")
        if call.positional:
            name = call.positional[0]
            return Verdict(
                False, f"{_show(call.args[name])} is sent by position instead of by name, {name}=…."
            )
        for name, value, spec in _documented(task, call):
            if fault := _type_fault(value, spec) or _spelling_fault(value, spec):
                return Verdict(False, f"{name}={_show(value)} {fault}.")
    return Verdict(
        True, f"Sent bare, with the documented types and spelling: {_and(map(_show_call, sent.calls))}."
    )


def _conciseness(task, sent):
    seen = []
    for call in sent.calls:
        if call.name not in _properties(task):
            return Verdict(
                False, f"{_show_call(call)} can be deleted, as {call.name} is not a documented function."
            )
        for name, value in call.args.items():
            if why := _deletable(task, call.name, name, value):
                return Verdict(False, f"{name}={_show(value)} can be deleted, as {why}.")
        meaning = (call.name, {name: _meaning(value, spec) for name, value, spec in _documented(task, call)})
        if meaning in seen:
            return Verdict(False, f"{_show_call(call)} can be deleted, as it repeats an earlier call.")
        seen.append(meaning)
    return Verdict(True, f"Nothing can be deleted from {_and(map(_show_call, sent.calls))}.")


def _value_fault(task, call, wanted):
    """Why a call is not the wanted one, or None."""
    [(function, accepted)] = wanted.items()
    if call.name != function:
        return f"{call.name} is called where {function} is needed"
    for name, spec in _properties(task)[function].items():
        allowed = accepted.get(name, [""])
        values = [value for value in allowed if value != ""]
        needed = f"{' or '.join(map(_show, values))} is needed" if values else "it is to be left out"
        omittable = "" in allowed
        if name not in call.args:
            if not omittable:
                return f"{name} is missing, and {needed}"
        elif not (omittable and _deletable(task, function, name, call.args[name])):
            meaning = _meaning(call.args[name], spec)
            if meaning is None or meaning not in [_meaning(value, spec) for value in values]:
                return f"{name}={_show(call.args[name])} is not accepted, and {needed}"
    for name, value in call.args.items():
        if name not in _properties(task)[function]:
            return f"{name}={_show(value)} is not a parameter of {function}"
    return None


def _deletable(task, function, name, value):
    """Why a parameter could be left out without changing the call, or None."""
    spec = _properties(task)[function].get(name)
    if spec is None:
        return f"{function} has no such parameter"
    if name in _required(task, function):
        return None
    if "default" in spec and _meaning(value, spec) == _meaning(spec["default"], spec):
        return "it is the documented default"
    return "it is empty" if value in EMPTY else None


def _type_fault(value, spec):
    words, exact = TYPES[spec["type"]]
    if type(value) not in exact:
        return f"is {KINDS.get(type(value), type(value).__name__)}, but {words} is documented"
    if spec["type"] == "array":
        for item in value:
            if fault := _type_fault(item, spec["items"]):
                return f"holds {_show(item)}, which {fault}"
    return None


def _spelling_fault(value, spec):
    if spec["type"] == "array":
        return next(
            (f"holds {_show(v)}, which {f}" for v in value if (f := _spelling_fault(v, spec["items"]))), None
        )
    if "enum" in spec and value not in spec["enum"]:
        return f"is not spelled like one of {', '.join(map(_show, spec['enum']))}"
    if spec.get("format") == "date" and _iso_date(value) != value:
        return "is not a date written as YYYY-MM-DD"
    return None


def _meaning(value, spec):
    """What a value says once read as its documented type, comparable by ==; None where it cannot be read so."""
    kind = spec["type"]
    if kind == "array":
        items = (
            [_meaning(item, spec["items"]) for item in value] if isinstance(value, list | tuple) else [None]
        )
        return None if None in items else items
    if kind == "boolean":
        word = str(value).strip().lower()
        return word == "true" if isinstance(value, bool | str) and word in ("true", "false") else None
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    if kind == "string":
        # BFCL ignores case, spaces and these marks too: "April 1, 2026" and "April 1 2026" are one answer
        text = str(value)
        return (
            _iso_date(text) if spec.get("format") == "date" else re.sub(r"[\s,./_*^-]", "", text).casefold()
        )
    try:
        number = float(value) if isinstance(value, str) else value
    except ValueError:
        return None
    return number if math.isfinite(number) and (kind == "float" or number == int(number)) else None


def _iso_date(text):
    words = re.sub(r"(?<=\d)(st|nd|rd|th)\b", "", " ".join(text.replace(",", " ").split()))
    for spelling in DATE_SPELLINGS:
        try:
            return datetime.strptime(words, spelling).date().isoformat()
        except ValueError:
            continue
    return None


@dataclass(frozen=True)
class _Call:
    name: str
    args: dict
    positional: tuple[str, ...] = ()  # the parameters among `args` that were sent by position


@dataclass(frozen=True)
class _Sent:
    calls: list[_Call]
    wrapping: str = ""  # what keeps the answer from being a bare Python call


class _Unreadable(Exception):
    pass


def _read(task, answer):
    if len(answer) > MAX_ANSWER:
        raise _Unreadable(f"the answer has {len(answer):,} characters, more than {MAX_ANSWER:,}")
    text = answer.strip()
    if calls := _python_calls(task, text):
        return _Sent(calls)
    fenced = re.search(r"```\w*\s(.*?)```", text, re.DOTALL)
    if calls := _json_calls(text) or (fenced and _json_calls(fenced[1])):
        return _Sent(calls, "sent as JSON")
    names = "|".join(re.escape(function["name"]) for function in task.functions)
    # possessive repeats, so that hostile text cannot make the search backtrack
    pattern = rf"""(?<![\w.])(?:{names})\((?:[^()"']|"(?:[^"\\]|\\.)*+"|'(?:[^'\\]|\\.)*+')*+\)"""
    calls, unreadable = [], None
    for match in re.finditer(pattern, text, re.DOTALL):
        try:
            calls += _python_calls(task, match[0]) or []
        except _Unreadable as why:
            unreadable = why
    if calls:
        return _Sent(calls, "wrapped in other text")
    functions = " or ".join(function["name"] for function in task.functions)
    raise unreadable or _Unreadable(f"the text holds no complete call of {functions}")


def _python_calls(task, source):
    """The calls that `source` consists of, None if it is anything else; _Unreadable if an argument is no plain value."""
    try:
        body = ast.parse(source, mode="eval").body
        nodes = body.elts if isinstance(body, ast.List | ast.Tuple) else [body]
        if nodes and all(isinstance(node, ast.Call) for node in nodes):
            return [_python_call(task, node) for node in nodes]
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        pass
    return None


def _python_call(task, node):
    function = ast.unparse(node.func)
    if len(function) > MAX_NAME or not all(part.isidentifier() for part in function.split(".")):
        raise _Unreadable(f"{_clip(function)} is not a function's name")
    parameters = list(_properties(task).get(function, ()))
    positional = [*parameters, *(f"argument {i + 1}" for i in range(len(parameters), len(node.args)))]
    positional = positional[: len(node.args)]
    args = {}
    for name, argument in [*zip(positional, node.args), *((word.arg, word.value) for word in node.keywords)]:
        if name is None or name in args or len(name) > MAX_NAME:
            raise _Unreadable(
                f"{function} gets one of its arguments twice, unpacked or with an overlong name"
            )
        args[name] = _plain(name, argument)
    return _Call(function, args, tuple(positional))


def _plain(name, node):
    if isinstance(node, ast.Name) and node.id in ("true", "false"):
        return node.id  # JSON's spelling inside a Python call: read as text, so that style can mark it down
    try:
        value = ast.literal_eval(node)
    except (ValueError, TypeError):  # TypeError: an unhashable dictionary key
        value = ...
    if not _is_plain(value):
        raise _Unreadable(f"{name}={_clip(' '.join(ast.unparse(node).split()))} is not a plain value")
    return value


def _is_plain(value):
    if isinstance(value, list | tuple):
        return all(map(_is_plain, value))
    if isinstance(value, dict):
        return all(isinstance(key, str) for key in value) and all(map(_is_plain, value.values()))
    if isinstance(value, int):
        return value.bit_length() <= 64  # longer ones cannot be turned into float or text without errors
    return value is None or isinstance(value, str) or (isinstance(value, float) and math.isfinite(value))


def _json_calls(source):
    """The tool calls that `source` consists of, None if it is anything else."""
    try:
        data = json.loads(source)
        entries = data if isinstance(data, list) else [data]
        calls = [_Call(entry["name"], entry["arguments"]) for entry in entries]
        for call in calls:
            names = [*call.name.split("."), *call.args]
            if not all(name.isidentifier() and len(name) <= MAX_NAME for name in names) or not _is_plain(
                call.args
            ):
                return None
        return calls
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None


def _properties(task):
    return {function["name"]: function["parameters"]["properties"] for function in task.functions}


def _required(task, function):
    return next(f["parameters"]["required"] for f in task.functions if f["name"] == function)


def _documented(task, call):
    """Name, value and schema of each argument that the call's function documents."""
    properties = _properties(task).get(call.name, {})
    return [(name, value, properties[name]) for name, value in call.args.items() if name in properties]


def _clip(text):
    return text if len(text) <= 40 else f"{text[:39]}…"


def _show(value):
    return _clip(repr(value))  # repr also escapes line breaks and lone surrogates, which a page cannot encode


def _show_call(call):
    return f"{call.name}({', '.join(f'{name}={_show(value)}' for name, value in call.args.items())})"


def _and(phrases):
    phrases = list(phrases)
    return " and ".join(phrases[:3]) + (" and others" if len(phrases) > 3 else "")
