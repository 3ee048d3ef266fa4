"""Requests in the style of data/tasks, drawn from eight templates. Each comes with a task, by which answers to it are
graded.

An answer is a list of pieces, which are the tokens of the model. Joined, they are the text that the graders read.
"""

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TypeAlias

import msgspec
import numpy as np

from views.bfcl import Task
from views.bfcl.task import Function, ParameterSchema

Value: TypeAlias = bool | int | float | str


@dataclass(frozen=True)
class Argument:
    """A required argument of a function.

    name: its name.
    type: its documented type.
    values: the values that a request may ask for.
    enum: whether the documentation lists these values.
    """

    name: str
    type: str
    values: tuple[Value, ...]
    enum: bool = False  # whether the documentation lists the values


@dataclass(frozen=True)
class Template:
    """A kind of request.

    words: its words, in which {NAME} stands for the value of the argument NAME.
    function: the name of the function that answers it.
    arguments: the two required arguments of the function.
    optional: the name of the function's optional argument.
    default: the default of the optional argument.
    """

    words: str
    function: str
    arguments: tuple[Argument, Argument]
    optional: str
    default: Value


TEMPLATES = msgspec.json.decode((Path(__file__).parent / "templates.json").read_bytes(), type=tuple[Template, ...])
# Pieces of the answers with faults in the warm-up. No intended answer has them, but they are tokens of the checkpoint.
PROSE = "Sure: "
NOTE = ', note=""'  # an optional argument of every function, sent empty


@dataclass(frozen=True)
class Request:
    """A request.

    template: the number of its template.
    values: the values that it asks for, in the order of the template's arguments.
    """

    template: int
    values: tuple[Value, Value]

    @property
    def kind(self) -> Template:
        """The template of the request."""
        return TEMPLATES[self.template]

    @property
    def text(self) -> str:
        """The words of the user, which are all of the prompt."""
        names = [argument.name for argument in self.kind.arguments]
        return self.kind.words.format(**dict(zip(names, self.values, strict=True)))


def task_of(request: Request) -> Task:
    """Return the task by which the graders judge an answer to this request."""
    kind = request.kind
    accepted: dict[str, list[object]] = {a.name: [v] for a, v in zip(kind.arguments, request.values, strict=True)}
    accepted |= {kind.optional: ["", kind.default], "note": [""]}
    return Task(
        id=request.text,
        title=request.text,
        request=request.text,
        functions=(_function(request.template),),
        accepted=({kind.function: accepted},),
        answers=("".join(answer(request)),),
    )


@cache
def _function(template: int) -> Function:
    """Return the documentation of the function that answers requests of a template.

    template: its number.
    """
    kind = TEMPLATES[template]
    types = {str: "string", int: "integer", bool: "boolean"}
    properties: dict[str, ParameterSchema] = {}
    for argument in kind.arguments:
        properties[argument.name] = {"type": argument.type, "description": argument.name}
        if argument.enum:
            properties[argument.name]["enum"] = list(argument.values)
    default: ParameterSchema = {
        "type": types[type(kind.default)],
        "description": kind.optional,
        "default": kind.default,
    }
    properties |= {kind.optional: default, "note": {"type": "string", "description": "A wish to pass on."}}
    required = [argument.name for argument in kind.arguments]
    return {
        "name": kind.function,
        "description": kind.words,
        "parameters": {"type": "dict", "properties": properties, "required": required},
    }


def draw(generator: np.random.Generator) -> Request:
    """Return a random request; all templates are equally likely, and so are all values of an argument."""
    template = int(generator.integers(len(TEMPLATES)))
    first, second = (a.values[generator.integers(len(a.values))] for a in TEMPLATES[template].arguments)
    return Request(template, (first, second))


def answer(request: Request) -> list[str]:
    """Return the intended answer to a request, as a list of pieces."""
    found = [f"{request.kind.function}("]
    for k, (argument, value) in enumerate(zip(request.kind.arguments, request.values, strict=True)):
        word = ['"', value, '"'] if isinstance(value, str) else [str(value)]
        found += [f"{', ' if k else ''}{argument.name}=", *word]
    return [*found, ")"]


def pieces() -> list[str]:
    """Return every piece of which requests and answers are made, also of answers with faults. The longest pieces come
    first.
    """
    found = {PROSE, NOTE, '"', ")", " "}
    for kind in TEMPLATES:
        first, second = kind.arguments
        found |= {f"{kind.function}(", f"{first.name}=", f", {second.name}=", f", {kind.optional}=", str(kind.default)}
        for argument in kind.arguments:
            found |= {str(value) for value in argument.values}
            found |= {_miscased(str(value)) for value in argument.values if argument.enum}
        found |= set(re.findall(r"\w+|[^\w\s]", re.sub(r"\{\w+\}", "", kind.words)))
    return sorted(found, key=lambda piece: (-len(piece), piece))


def _miscased(word: str) -> str:
    """Return a word in the case that an answer with a fault has: capitalised if all its letters are of one case, else
    in lower case.
    """
    return word.capitalize() if word.islower() or word.isupper() else word.lower()
