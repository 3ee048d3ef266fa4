"""Requests in the style of data/tasks, drawn from eight templates, and the task behind each.

An answer is a list of pieces, the tokens of the model: their concatenation is the text that the graders read.
"""

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TypeAlias

import msgspec
import numpy as np

from gdpo_core.bfcl import Task
from gdpo_core.bfcl.task import Function, Schema

Value: TypeAlias = bool | int | float | str


@dataclass(frozen=True)
class Argument:
    """A required argument: its name, its documented type, the values a request may ask for."""

    name: str
    type: str
    values: tuple[Value, ...]
    enum: bool = False  # whether the documentation lists the values


@dataclass(frozen=True)
class Template:
    """A kind of request: its words, the function that answers it, and an optional argument with its default."""

    words: str
    function: str
    arguments: tuple[Argument, Argument]
    optional: str
    default: Value


TEMPLATES = msgspec.json.decode((Path(__file__).parent / "templates.json").read_bytes(), type=tuple[Template, ...])
# What the warm-up's answers with faults held beside the intended ones: still tokens of the checkpoint.
PROSE = "Sure: "
NOTE = ', note=""'  # an optional argument of every function, sent empty


@dataclass(frozen=True)
class Request:
    """A template and the values that are asked for, in the order of its arguments."""

    template: int
    values: tuple[Value, Value]

    @property
    def kind(self) -> Template:
        """The template of the request."""
        return TEMPLATES[self.template]

    @property
    def text(self) -> str:
        """The words of the user, which are the whole prompt."""
        names = [argument.name for argument in self.kind.arguments]
        return self.kind.words.format(**dict(zip(names, self.values, strict=True)))


def task_of(request: Request) -> Task:
    """Return the task that the graders hold an answer to this request against."""
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
    kind = TEMPLATES[template]
    types = {str: "string", int: "integer", bool: "boolean"}
    properties: dict[str, Schema] = {}
    for argument in kind.arguments:
        properties[argument.name] = {"type": argument.type, "description": argument.name}
        if argument.enum:
            properties[argument.name]["enum"] = list(argument.values)
    default: Schema = {"type": types[type(kind.default)], "description": kind.optional, "default": kind.default}
    properties |= {kind.optional: default, "note": {"type": "string", "description": "A wish to pass on."}}
    required = [argument.name for argument in kind.arguments]
    return {
        "name": kind.function,
        "description": kind.words,
        "parameters": {"type": "dict", "properties": properties, "required": required},
    }


def draw(generator: np.random.Generator) -> Request:
    """Return a request, all templates and values equally likely."""
    template = int(generator.integers(len(TEMPLATES)))
    first, second = (a.values[generator.integers(len(a.values))] for a in TEMPLATES[template].arguments)
    return Request(template, (first, second))


def answer(request: Request) -> list[str]:
    """Return the pieces of the intended answer."""
    found = [f"{request.kind.function}("]
    for k, (argument, value) in enumerate(zip(request.kind.arguments, request.values, strict=True)):
        word = ['"', value, '"'] if isinstance(value, str) else [str(value)]
        found += [f"{', ' if k else ''}{argument.name}=", *word]
    return [*found, ")"]


def pieces() -> list[str]:
    """Return every piece that a request or an answer is made of, longest first."""
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
    return word.capitalize() if word.islower() or word.isupper() else word.lower()
