"""A task: its request, the documented functions, the accepted calls and the answers; and what its values mean."""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Annotated, NotRequired, TypeAlias, TypedDict

import msgspec

from gdpo_core.shared.errors import expect
from gdpo_core.shared.json_files import read_json
from gdpo_core.shared.words import clip

MIN_ANSWERS = 12
MAX_CALLS = 6  # the most needed calls of a task, since an answer's calls are compared with them in every order

_Text = Annotated[str, msgspec.Meta(min_length=1)]
Name = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z_]\w*(\.[A-Za-z_]\w*)*$", max_length=64)]  # dots included
# {function: {parameter: accepted values}} of a needed call; the value "" says that the call may leave it out
Accepted: TypeAlias = dict[str, dict[str, list[object]]]


class ParameterSchema(TypedDict):
    """The documentation of one parameter of a function, as BFCL writes it.

    type: the name of the parameter's type, such as "string".
    description: what the parameter means.
    format: "date" for a text that has to be a date, YYYY-MM-DD.
    enum: the values that are allowed, as they have to be spelled.
    default: the value that the parameter has where a call leaves it out.
    """

    type: Annotated[str, msgspec.Meta(pattern="^(string|integer|float|boolean)$")]  # the keys of TYPES
    description: _Text
    format: NotRequired[str]
    enum: NotRequired[list[object]]
    default: NotRequired[object]


class Parameters(TypedDict):
    """The documentation of the parameters of one function.

    type: the JSON type of the whole, as BFCL writes it.
    properties: the documentation of each parameter, by its name.
    required: the names of the parameters that a call must send.
    """

    type: _Text
    properties: dict[str, ParameterSchema]
    required: list[_Text]


class Function(TypedDict):
    """The documentation of one function, as BFCL writes it."""

    name: Name
    description: _Text
    parameters: Parameters


@dataclass(frozen=True)
class Task:
    """A task: one request, the functions that a model may call, the accepted calls and the answers to grade.

    accepted: for each needed call, {function: {parameter: accepted values}}. The value "" says that the call may leave
        the parameter out.
    longest: if given, conciseness is a number, which is 1 for no text and 0 from so many characters on.

    Raises InputError if two functions have one name, or if a required parameter or an accepted call does not fit the
    documentation.
    """

    id: _Text
    title: _Text
    request: _Text
    functions: tuple[Function, ...] = field(hash=False)  # these are dicts, which have no hash
    accepted: Annotated[tuple[Accepted, ...], msgspec.Meta(min_length=1, max_length=MAX_CALLS)] = field(hash=False)
    answers: Annotated[tuple[_Text, ...], msgspec.Meta(min_length=MIN_ANSWERS)]
    longest: Annotated[int, msgspec.Meta(ge=1)] | None = None

    def __post_init__(self) -> None:
        expect(len(self.parameters) == len(self.functions), "functions", "a name of its own for each", "one twice")
        for function in self.functions:
            unknown = set(function["parameters"]["required"]) - set(function["parameters"]["properties"])
            expect(not unknown, f"functions.{function['name']}.required", "documented parameters", sorted(unknown))
        for i, call in enumerate(self.accepted):
            _check_accepted(call, self.parameters, f"accepted[{i}]")

    @property
    def parameters(self) -> dict[str, Parameters]:
        """The documentation of the parameters of each function, by the function's name."""
        return {function["name"]: function["parameters"] for function in self.functions}


def parameters_of(task: Task, function: str) -> dict[str, ParameterSchema]:
    """Return the documentation of each parameter of a function by its name; empty for an unknown function."""
    return task.parameters[function]["properties"] if function in task.parameters else {}


def load_tasks(directory: str | Path) -> tuple[Task, ...]:
    """Return the tasks in all files *.json of a directory, in the order of the files' names.

    Raises InputError if there is none, or one is broken or has the id of another.

    >>> [task.title for task in load_tasks("data/tasks")]
    ['GDPO helps', 'GDPO hurts correctness', 'both agree', 'one reward is a score']
    """
    paths = sorted(Path(directory).glob("*.json"))
    expect(bool(paths), str(directory), "a directory with *.json tasks", "none")
    tasks: dict[str, Task] = {}
    for path in paths:
        task = load_task(path)
        expect(task.id not in tasks, f"{path}: id", "an id that no earlier task has", repr(task.id))
        tasks[task.id] = task
    return tuple(tasks.values())


def load_task(path: str | Path) -> Task:
    """Return the task in a JSON file. Raises InputError if the file is missing or broken.

    The error names the file, the entry, what was expected and what came.

    >>> load_task("data/tasks/1_interest.json").accepted[0]["compound"]["per_year"]
    ['', 1]
    """
    return read_json(path, Task)


def _check_accepted(call: Accepted, functions: Mapping[str, Parameters], where: str) -> None:
    known = len(call) == 1 and set(call) <= set(functions)
    expect(known, where, f"one documented function ({', '.join(functions)})", quoted(list(call)))
    [(function, accepted)] = call.items()
    schemas, required = functions[function]["properties"], set(functions[function]["required"])
    fits = required <= set(accepted) <= set(schemas)
    expect(
        fits, f"{where}.{function}", f"the required ones of {', '.join(schemas)}, and no others", quoted(list(accepted))
    )
    for name, values in accepted.items():
        for value in values:
            fault = value != "" and (type_error(value, schemas[name]) or spelling_error(value, schemas[name]))
            expect(not fault, f"{where}.{function}.{name}", "a value as documented", f"{quoted(value)}, which {fault}")


# By documented type, words for it and the Python types that are exactly this type.
TYPES: dict[str, tuple[str, tuple[type, ...]]] = {
    "string": ("text", (str,)),
    "integer": ("a whole number", (int,)),
    "float": ("a number", (int, float)),  # JSON has one kind of number: 5000 is exact here, as it is in BFCL
    "boolean": ("True or False", (bool,)),
}
_KINDS = {str: "text", int: "a whole number", float: "a decimal", bool: "a truth value", type(None): "nothing"}

# The spellings of a date that are read: the month is in words or the year comes first, because 03/06/2026 is in June in
# Lyon and in March in New York.
DATES = ("%Y-%m-%d", "%Y/%m/%d", "%Y%m%d", "%B %d %Y", "%d %B %Y", "%b %d %Y", "%d %b %Y")


def type_error(value: object, schema: ParameterSchema) -> str | None:
    """Return in what a value differs from its documented type, as the end of a sentence; None if it has that type."""
    words, exact = TYPES[schema["type"]]
    if type(value) not in exact:
        return f"is {_KINDS.get(type(value), 'several values')}, but {words} is documented"
    return None


def spelling_error(value: object, schema: ParameterSchema) -> str | None:
    """Return in what a value differs from its documented spelling, as the end of a sentence; None if it fits.

    The documentation can fix the spelling by an enum, or by the format of a date, YYYY-MM-DD.
    """
    if "enum" in schema and value not in schema["enum"]:
        return f"is not spelled like {' or '.join(map(quoted, schema['enum']))}"
    if schema.get("format") == "date" and not (isinstance(value, str) and _iso_date(value) == value):
        return "is not written as YYYY-MM-DD"
    return None


def comparable_value(value: object, schema: ParameterSchema) -> str | bool | float | None:
    """Return a value as the type that its schema documents, so that values with one meaning are equal.

    A text comes back in lower case, without spaces and the marks , . / _ * ^ and -. A date comes back as YYYY-MM-DD.
    The result is None if the value cannot be read as the type.

    schema: its "type" is the name of the type; its "format" may be "date".
    """
    kind = schema["type"]
    if kind == "boolean":
        word = str(value).strip().lower() if isinstance(value, bool | str) else ""
        return {"true": True, "false": False}.get(word)
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    if kind == "string":
        if schema.get("format") == "date":
            return _iso_date(str(value))
        # BFCL ignores case, spaces and these marks too.
        return re.sub(r"[\s,./_*^-]", "", str(value)).casefold()
    try:
        number = float(value) if isinstance(value, str) else value
    except ValueError:
        return None
    return number if math.isfinite(number) and (kind == "float" or number == int(number)) else None


def _iso_date(text: str) -> str | None:
    words = re.sub(r"(?<=\d)(st|nd|rd|th)\b", "", " ".join(text.replace(",", " ").split()))
    for spelling in DATES:
        try:
            return datetime.strptime(words, spelling).date().isoformat()
        except ValueError:
            continue
    return None


def quoted(value: object) -> str:
    """Return a value as the reason of a verdict quotes it, as Python would write it; a long one is cut."""
    return clip(repr(value))  # repr escapes line breaks, and lone surrogates that no page can encode


def is_name(name: object) -> bool:
    """Return whether a value can name a function or parameter: identifiers joined by dots, at most 64 characters."""
    return isinstance(name, str) and len(name) <= 64 and all(piece.isidentifier() for piece in name.split("."))
