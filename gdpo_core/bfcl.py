"""Function-calling tasks in the style of the Berkeley Function Calling Leaderboard (BFCL), and three graders.

correctness   exactly the needed calls, in any order; each value is accepted once read as its documented type
style         exact JSON types, enum and date spelling, arguments by name, and a bare Python call
conciseness   nothing that could be deleted: a documented default, an empty or unknown parameter, a repeat

An answer without a readable call fails all three. Answers are parsed, never run, so arguments are
plain values.
"""

import ast
import json
import math
import re
from dataclasses import dataclass
from datetime import datetime
from itertools import permutations
from pathlib import Path

from gdpo_core.errors import InputError, expect

REWARDS = ("correctness", "style", "conciseness")

MIN_ANSWERS = 12
MAX_ANSWER = 4000  # characters; far longer text can keep the Python parser busy for seconds
MAX_CALLS = 6  # needed calls of a task: the calls of an answer are held against them in every order

# documented type: (in words, the Python types that are exactly it)
TYPES = {
    "string": ("text", (str,)),
    "integer": ("a whole number", (int,)),
    "float": ("a number", (int, float)),  # JSON has one kind of number: 5000 is exact here, as it is in BFCL
    "boolean": ("True or False", (bool,)),
}
KINDS = {str: "text", int: "a whole number", float: "a decimal", bool: "a truth value", type(None): "nothing"}

# only with the month in words or the year first: 03/06/2026 is June in Lyon and March in New York
DATES = ("%Y-%m-%d", "%Y/%m/%d", "%Y%m%d", "%B %d %Y", "%d %B %Y", "%b %d %Y", "%d %b %Y")

# a task file: every field, "*" for any name; a type stands for any value of it
SHAPE = {
    "id": str,
    "title": str,
    "request": str,
    "functions": [
        {
            "name": str,
            "description": str,
            "parameters": {
                "type": str,
                "properties": {"*": {"type": str, "description": str}},
                "required": [str],
            },
        }
    ],
    "accepted": [{"*": {"*": list}}],
    "answers": [str],
}


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
    functions: tuple[dict, ...]  # name, description and parameters, as BFCL documents them
    accepted: tuple[dict, ...]  # {function: {parameter: accepted values}} a needed call; "" = may be left out
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
        calls, wrapping = _read(task, answer)
    except _Unreadable as why:
        unreadable = Verdict(False, f"No call can be read: {why}.")
        return Grades(unreadable, unreadable, unreadable)
    return Grades(_correctness(task, calls), _style(task, calls, wrapping), _conciseness(task, calls))


def grade_all(task: Task) -> tuple[Grades, ...]:
    """Grade every answer of a task.

    >>> [grades.vector for grades in grade_all(load_task("data/tasks/1_interest.json"))][:3]
    [(1, 1, 1), (1, 1, 0), (0, 1, 1)]
    """
    return tuple(grade(task, answer) for answer in task.answers)


def _correctness(task, calls):
    needed = len(task.accepted)
    if len(calls) != needed:
        return Verdict(False, f"The number of calls is {len(calls)} instead of {needed}: {_show_calls(calls)}.")
    faults = [[_wrong(task, call, wanted) for wanted in task.accepted] for call in calls]
    orders = permutations(range(needed))
    pairings = [[row[i] for row, i in zip(faults, order, strict=True)] for order in orders]
    fault = next(filter(None, min(pairings, key=lambda pairing: sum(map(bool, pairing)))), None)
    return Verdict(not fault, f"{fault or 'This asks for exactly what is needed: ' + _show_calls(calls)}.")


def _style(task, calls, wrapping):
    if wrapping:
        return Verdict(False, f"{wrapping}, while a bare Python call is asked for: {_show_calls(calls)}.")
    for call in calls:
        if call.function not in _parameters(task):
            return Verdict(False, f"{call.function} is not a documented function.")
        if call.positional:
            name = call.positional[0]
            return Verdict(False, f"{_show(call.args[name])} is sent by position, but {name}=… is asked for.")
        for name, value, schema in _documented(task, call):
            if fault := _mistyped(value, schema) or _misspelt(value, schema):
                return Verdict(False, f"{name}={_show(value)} {fault}.")
    return Verdict(True, f"Bare, with the documented types and spelling: {_show_calls(calls)}.")


def _conciseness(task, calls):
    seen = []
    for call in calls:
        for name, value in call.args.items():
            if why := _deletable(task, call.function, name, value):
                return Verdict(False, f"{name}={_show(value)} can be deleted: {why}.")
        if call.function not in _parameters(task):
            return Verdict(False, f"{_show_calls([call])} can be deleted: there is no such function.")
        meanings = {name: _meaning(value, schema) or repr(value) for name, value, schema in _documented(task, call)}
        if (call.function, meanings) in seen:
            return Verdict(False, f"{_show_calls([call])} can be deleted: it is a repeat.")
        seen.append((call.function, meanings))
    return Verdict(True, f"Nothing can be deleted: {_show_calls(calls)}.")


def _wrong(task, call, wanted):
    """Why a call is not the wanted one, or None."""
    [(function, accepted)] = wanted.items()
    if call.function != function:
        return f"{call.function} is called, but {function} is needed"
    schemas = _parameters(task)[function]["properties"]
    for name, schema in schemas.items():
        allowed = accepted.get(name, [""])
        values = [value for value in allowed if value != ""]
        needed = f"{' or '.join(map(_show, values))} is needed" if values else "it should be left out"
        if name not in call.args:
            if "" not in allowed:
                return f"{name} is missing, but {needed}"
        elif not ("" in allowed and _deletable(task, function, name, call.args[name])):
            meaning = _meaning(call.args[name], schema)
            if meaning is None or meaning not in [_meaning(value, schema) for value in values]:
                return f"{name}={_show(call.args[name])} is not accepted, but {needed}"
    unknown = [f"{name}={_show(value)}" for name, value in call.args.items() if name not in schemas]
    return f"{unknown[0]} is not a parameter of {function}" if unknown else None


def _deletable(task, function, name, value):
    """Why the call would be the same without this parameter, or None."""
    parameters = _parameters(task).get(function, {"properties": {}})
    schema = parameters["properties"].get(name)
    if schema is None:
        return f"{function} documents no such parameter"
    if name in parameters["required"]:
        return None
    if "default" in schema and _meaning(value, schema) == _meaning(schema["default"], schema):
        return "it is the documented default"
    return "it is empty" if value in ("", None, [], {}, ()) else None


def _mistyped(value, schema):
    words, exact = TYPES[schema["type"]]
    if type(value) not in exact:
        return f"is {KINDS.get(type(value), 'several values')}, but {words} is documented"
    return None


def _misspelt(value, schema):
    if "enum" in schema and value not in schema["enum"]:
        return f"is not spelled like {' or '.join(map(_show, schema['enum']))}"
    if schema.get("format") == "date" and _iso_date(value) != value:
        return "is not written as YYYY-MM-DD"
    return None


def _meaning(value, schema):
    """What a value says when read as its documented type, comparable by ==; None if it cannot be read so."""
    kind = schema["type"]
    if kind == "boolean":
        word = str(value).strip().lower() if isinstance(value, bool | str) else None
        return {"true": True, "false": False}.get(word)
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    if kind == "string":
        if schema.get("format") == "date":
            return _iso_date(str(value))
        # BFCL ignores case, spaces and these marks too
        return re.sub(r"[\s,./_*^-]", "", str(value)).casefold()
    try:
        number = float(value) if isinstance(value, str) else value
    except ValueError:
        return None
    return number if math.isfinite(number) and (kind == "float" or number == int(number)) else None


def _iso_date(text):
    words = re.sub(r"(?<=\d)(st|nd|rd|th)\b", "", " ".join(text.replace(",", " ").split()))
    for spelling in DATES:
        try:
            return datetime.strptime(words, spelling).date().isoformat()
        except ValueError:
            continue
    return None


@dataclass(frozen=True)
class _Call:
    function: str
    args: dict
    positional: tuple[str, ...] = ()  # which of `args` were sent by position


class _Unreadable(Exception):
    pass


def _read(task, answer):
    """The calls of an answer and what they are wrapped in ("" for bare calls); raises _Unreadable."""
    if len(answer) > MAX_ANSWER:
        raise _Unreadable(f"the answer has {len(answer):,} characters, more than {MAX_ANSWER:,}")
    text = answer.strip()
    if calls := _python_calls(task, text):
        return calls, ""
    fenced = re.search(r"```\w*\s(.*?)```", text, re.DOTALL)
    if calls := _json_calls(text) or (fenced and _json_calls(fenced[1])):
        return calls, "Sent as JSON"
    names = "|".join(map(re.escape, _parameters(task)))
    # possessive repeats, so that hostile text cannot make the search backtrack
    pattern = rf"""(?<![\w.])(?:{names})\((?:[^()"']|"(?:[^"\\]|\\.)*+"|'(?:[^'\\]|\\.)*+')*+\)"""
    calls, why = [], _Unreadable(f"the text holds no complete call of {names.replace('|', ' or ')}")
    for match in re.finditer(pattern, text, re.DOTALL):
        try:
            calls += _python_calls(task, match[0]) or []
        except _Unreadable as error:
            why = error
    if not calls:
        raise why
    return calls, "Wrapped in other text"


def _python_calls(task, source):
    """The calls that `source` is made of, or None; raises _Unreadable if an argument is no plain value."""
    try:
        body = ast.parse(source, mode="eval").body
        nodes = body.elts if isinstance(body, ast.List | ast.Tuple) else [body]
        if all(isinstance(node, ast.Call) for node in nodes):
            return [_python_call(task, node) for node in nodes]
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        pass
    return None


def _python_call(task, node):
    function = ast.unparse(node.func)
    parameters = list(_parameters(task).get(function, {"properties": {}})["properties"])
    parameters += [f"argument_{i + 1}" for i in range(len(parameters), len(node.args))]
    positional = tuple(parameters[: len(node.args)])
    names = [*positional, *(keyword.arg for keyword in node.keywords)]
    if not all(map(_is_name, (function, *names))) or len(set(names)) < len(names):
        raise _Unreadable("a function or parameter in it has no proper name, or one name comes twice")
    nodes = [*node.args, *(keyword.value for keyword in node.keywords)]
    return _Call(function, dict(zip(names, map(_plain_value, names, nodes), strict=True)), positional)


def _plain_value(name, node):
    if isinstance(node, ast.Name) and node.id in ("true", "false"):
        return node.id  # JSON's spelling inside a Python call: read as text, which style marks down
    try:
        value = ast.literal_eval(node)
    except (ValueError, TypeError):
        value = ...
    if not _is_plain(value):
        raise _Unreadable(f"{name}={_clip(' '.join(ast.unparse(node).split()))} is not a plain value")
    return value


def _json_calls(source):
    """The tool calls that `source` is made of, or None."""
    try:
        data = json.loads(source)
        entries = data if isinstance(data, list) else [data]
        calls = [_Call(entry["name"], dict(entry["arguments"])) for entry in entries]
        named = all(_is_name(name) for call in calls for name in (call.function, *call.args))
        return calls if named and all(_is_plain(call.args) for call in calls) else None
    except (ValueError, TypeError, KeyError, RecursionError):
        return None


def _is_name(name):
    return isinstance(name, str) and len(name) <= 64 and all(part.isidentifier() for part in name.split("."))


def _is_plain(value, depth=0):
    if isinstance(value, list | tuple | dict):
        items = [*value, *value.values()] if isinstance(value, dict) else value
        return depth < 5 and all(_is_plain(item, depth + 1) for item in items)
    if isinstance(value, int):
        return value.bit_length() <= 64  # Python refuses to turn far longer ones into floats or text
    return value is None or isinstance(value, str) or (isinstance(value, float) and math.isfinite(value))


def _parameters(task):
    return {function["name"]: function["parameters"] for function in task.functions}


def _documented(task, call):
    """Name, value and schema of each argument that the function documents."""
    schemas = _parameters(task).get(call.function, {"properties": {}})["properties"]
    return [(name, value, schemas[name]) for name, value in call.args.items() if name in schemas]


def _show_calls(calls):
    shown = [f"{c.function}({', '.join(f'{k}={_show(v)}' for k, v in c.args.items())})" for c in calls]
    return " and ".join(shown[:3]) + (" and more" if len(shown) > 3 else "")


def _show(value):
    return _clip(repr(value))  # repr escapes line breaks, and lone surrogates that no page can encode


def _clip(text):
    return text if len(text) <= 60 else f"{text[:59]}…"


def load_tasks(directory: str | Path) -> tuple[Task, ...]:
    """Load every *.json of a directory in the order of file names; InputError for none or a broken one.

    >>> [task.title for task in load_tasks("data/tasks")]
    ['Compound interest', 'Hotel room', 'Two cities']
    """
    paths = sorted(Path(directory).glob("*.json"))
    expect(bool(paths), str(directory), "a directory with *.json tasks", "none")
    tasks = {}
    for path in paths:
        task = load_task(path)
        expect(task.id not in tasks, f"{path}: id", "an id that no earlier task has", repr(task.id))
        tasks[task.id] = task
    return tuple(tasks.values())


def load_task(path: str | Path) -> Task:
    """Load one task; InputError names the file, the entry, what was expected and what came.

    >>> load_task("data/tasks/1_interest.json").accepted[0]["compound"]["per_year"]
    ['', 1]
    """
    try:
        data = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:  # a JSON error's text names the line
        raise InputError(f"{path}: expected a readable file with JSON in UTF-8, got: {error}") from error
    _check_shape(data, SHAPE, f"{path}: ")
    known = {}
    for i, function in enumerate(data["functions"]):
        name, parameters = function["name"], function["parameters"]
        unique = _is_name(name) and name not in known
        expect(unique, f"{path}: functions[{i}].name", "a Python name of its own", repr(name))
        _check_parameters(parameters, f"{path}: functions[{i}].parameters")
        known[name] = parameters
    for i, wanted in enumerate(data["accepted"]):
        _check_accepted(wanted, known, f"{path}: accepted[{i}]")
    calls, answers = len(data["accepted"]), len(data["answers"])
    expect(1 <= calls <= MAX_CALLS, f"{path}: accepted", f"1 to {MAX_CALLS} calls", calls)
    expect(answers >= MIN_ANSWERS, f"{path}: answers", f"at least {MIN_ANSWERS} texts", answers)
    fields = {field: tuple(data[field]) if shape is not str else data[field] for field, shape in SHAPE.items()}
    return Task(**fields)


def _check_shape(value, shape, where):
    kind = shape if isinstance(shape, type) else type(shape)
    fits = isinstance(value, kind) and (kind is not str or bool(value.strip()))
    expect(fits, where.rstrip(": ."), {str: "text", list: "a list", dict: "an object"}[kind], _show(value))
    if isinstance(shape, list):
        for i, item in enumerate(value):
            _check_shape(item, shape[0], f"{where.rstrip('.')}[{i}].")
    if isinstance(shape, dict):
        for key in value if "*" in shape else shape:
            _check_shape(value.get(key), shape.get(key, shape.get("*")), f"{where}{key}.")


def _check_parameters(parameters, where):
    schemas, required = parameters["properties"], parameters["required"]
    for name, schema in schemas.items():
        at, kind, form = f"{where}.properties.{name}", schema["type"], schema.get("format")
        expect(kind in TYPES, f"{at}.type", f"one of {', '.join(TYPES)}", repr(kind))
        dated = form is None or (form, kind) == ("date", "string")
        expect(dated, f"{at}.format", "'date', of a string", _show(form))
        expect(isinstance(schema.get("enum", []), list), f"{at}.enum", "a list", _show(schema.get("enum")))
        if "default" in schema:
            _check_value(schema["default"], schema, f"{at}.default")
    unknown = [name for name in required if name not in schemas]
    expect(not unknown, f"{where}.required", f"some of {', '.join(schemas)}", unknown)


def _check_accepted(wanted, known, where):
    expect(len(wanted) == 1, where, "one function", _show(list(wanted)))
    [(function, accepted)] = wanted.items()
    expect(function in known, where, f"a documented function ({', '.join(known)})", repr(function))
    where = f"{where}.{function}"
    schemas = known[function]["properties"]
    for name, values in accepted.items():
        expect(name in schemas, where, f"parameters among {', '.join(schemas)}", repr(name))
        expect(bool(values), f"{where}.{name}", "at least one accepted value", "none")
        for value in values:
            if value != "":
                _check_value(value, schemas[name], f"{where}.{name}")
    for name in known[function]["required"]:
        expect(name in accepted, f"{where}.{name}", "accepted values, as the parameter is required", "none")
        expect("" not in accepted[name], f"{where}.{name}", "no '', as the parameter is required", "''")


def _check_value(value, schema, where):
    fault = _mistyped(value, schema) or _misspelt(value, schema)
    expect(not fault, where, "a value as documented", f"{_show(value)}, which {fault}")
