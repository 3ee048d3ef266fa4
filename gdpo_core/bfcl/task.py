"""A task: its request, its functions, the accepted calls and the answers, read from a file and checked."""

import json
from dataclasses import dataclass
from pathlib import Path

from gdpo_core.bfcl.values import TYPES, is_name, misspelt, mistyped, show
from gdpo_core.errors import InputError, expect

MIN_ANSWERS = 12
MAX_CALLS = 6  # needed calls of a task: the calls of an answer are held against them in every order

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
class Task:
    """One request, the functions that a model may call, the accepted calls and the answers to grade."""

    id: str
    title: str
    request: str
    functions: tuple[dict, ...]  # name, description and parameters, as BFCL documents them
    accepted: tuple[dict, ...]  # {function: {parameter: accepted values}} a needed call; "" = may be left out
    answers: tuple[str, ...]

    @property
    def parameters(self) -> dict[str, dict]:
        """The documented parameters of each function by its name."""
        return {function["name"]: function["parameters"] for function in self.functions}


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
        unique = is_name(name) and name not in known
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
    expect(fits, where.rstrip(": ."), {str: "text", list: "a list", dict: "an object"}[kind], show(value))
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
        expect(dated, f"{at}.format", "'date', of a string", show(form))
        expect(isinstance(schema.get("enum", []), list), f"{at}.enum", "a list", show(schema.get("enum")))
        if "default" in schema:
            _check_value(schema["default"], schema, f"{at}.default")
    unknown = [name for name in required if name not in schemas]
    expect(not unknown, f"{where}.required", f"some of {', '.join(schemas)}", unknown)


def _check_accepted(wanted, known, where):
    expect(len(wanted) == 1, where, "one function", show(list(wanted)))
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
    fault = mistyped(value, schema) or misspelt(value, schema)
    expect(not fault, where, "a value as documented", f"{show(value)}, which {fault}")
