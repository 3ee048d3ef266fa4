"""Requests in the style of data/tasks, drawn from eight templates: the task behind each, and answers with faults.

An answer is a list of pieces, the tokens of the model: their concatenation is the text that the graders read.
"""

import re
from dataclasses import dataclass
from functools import cache
from typing import TypeAlias

import numpy as np

from gdpo_core.bfcl import Task
from gdpo_core.bfcl.task import Function, Schema

Value: TypeAlias = str | int | float | bool
Generator: TypeAlias = np.random.Generator

FAULTS = {  # of each reward; what an answer of the warm-up may have
    "correctness": ("value",),
    "style": ("text", "case", "positional", "prose"),
    "conciseness": ("default", "empty", "default and empty"),
}
CITIES = ("Lyon", "Oslo", "Rome", "Milan", "Nice", "Paris", "Turin", "Bergen")


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


TEMPLATES = (
    Template(
        "What will {principal} euros grow to in {years} years?",
        "compound",
        (
            Argument("principal", "float", (500, 800, 1200, 2000, 3500, 5000, 7500, 9000)),
            Argument("years", "integer", (2, 3, 4, 5, 8, 10, 12, 20)),
        ),
        "per_year",
        1,
    ),
    Template(
        "What is the weather in {city} in {unit}?",
        "weather",
        (
            Argument("city", "string", CITIES),
            Argument("unit", "string", ("celsius", "fahrenheit", "kelvin"), enum=True),
        ),
        "days",
        1,
    ),
    Template(
        "Book a {room} in {city}.",
        "book",
        (
            Argument("room", "string", ("SINGLE", "DOUBLE", "SUITE"), enum=True),
            Argument("city", "string", CITIES),
        ),
        "breakfast",
        False,
    ),
    Template(
        "Convert {amount} dollars to {to}.",
        "convert",
        (
            Argument("amount", "float", (15, 25, 40, 60, 75, 90, 150, 300)),
            Argument("to", "string", ("EUR", "GBP", "NOK", "CHF"), enum=True),
        ),
        "digits",
        2,
    ),
    Template(
        "Set a timer of {minutes} minutes for the {label}.",
        "timer",
        (
            Argument("minutes", "integer", (2, 5, 7, 9, 12, 18, 30, 45)),
            Argument("label", "string", ("pasta", "rice", "eggs", "bread", "tea", "laundry")),
        ),
        "repeat",
        False,
    ),
    Template(
        "Order {count} {size} pizzas.",
        "order",
        (
            Argument("count", "integer", (2, 3, 4, 5, 6, 7, 8, 9)),
            Argument("size", "string", ("small", "medium", "large"), enum=True),
        ),
        "cheese",
        True,
    ),
    Template(
        "Find a train to {city} for {people} people.",
        "train",
        (
            Argument("city", "string", CITIES),
            Argument("people", "integer", (2, 3, 4, 5, 6, 7, 8, 9)),
        ),
        "changes",
        True,
    ),
    Template(
        "Translate {word} into {language}.",
        "translate",
        (
            Argument("word", "string", ("bread", "tea", "rice", "eggs", "house", "river", "winter", "friend")),
            Argument("language", "string", ("French", "German", "Italian", "Polish"), enum=True),
        ),
        "formal",
        False,
    ),
)
PROSE = "Sure: "
NOTE = ', note=""'  # an optional argument of every function, sent empty


@dataclass(frozen=True)
class Request:
    """A template and the values that are asked for, in the order of its arguments."""

    template: int
    values: tuple[Value, Value]

    @property
    def kind(self) -> Template:
        """Its template."""
        return TEMPLATES[self.template]

    @property
    def text(self) -> str:
        """What the user says, which is the whole prompt."""
        names = [argument.name for argument in self.kind.arguments]
        return self.kind.words.format(**dict(zip(names, self.values, strict=True)))


def task_of(request: Request) -> Task:
    """What the graders hold an answer against."""
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


def draw(generator: Generator) -> Request:
    """A request, all templates and values equally likely."""
    template = int(generator.integers(len(TEMPLATES)))
    first, second = (a.values[generator.integers(len(a.values))] for a in TEMPLATES[template].arguments)
    return Request(template, (first, second))


def answer(request: Request, faults: tuple[str, ...] = (), generator: Generator | None = None) -> list[str]:
    """The pieces of the intended answer, with these faults; the generator draws what a fault leaves open."""
    kind, values = request.kind, list(request.values)
    if "value" in faults:
        k = _index(generator, 2)
        others = [value for value in kind.arguments[k].values if value != values[k]]
        values[k] = others[_index(generator, len(others))]
    pieces = [PROSE] if "prose" in faults else []
    pieces.append(f"{kind.function}(")
    for k, (argument, value) in enumerate(zip(kind.arguments, values, strict=True)):
        positional = k == 0 and "positional" in faults
        pieces += [] if positional and k == 0 else [f"{', ' if k else ''}{argument.name}="]
        word = _miscased(str(value)) if argument.enum and "case" in faults else str(value)
        quoted = isinstance(value, str) or "text" in faults
        pieces += ['"', word, '"'] if quoted else [word]
    if any("default" in fault for fault in faults):
        pieces += [f", {kind.optional}=", str(kind.default)]
    if any("empty" in fault for fault in faults):
        pieces.append(NOTE)
    return [*pieces, ")"]


def faults_for(request: Request, reward: str) -> tuple[str, ...]:
    """The faults against a reward that an answer to this request can have."""
    arguments = request.kind.arguments
    impossible = set()
    if all(argument.type == "string" for argument in arguments):
        impossible.add("text")
    if not any(argument.enum for argument in arguments):
        impossible.add("case")
    return tuple(fault for fault in FAULTS[reward] if fault not in impossible)


def draw_faults(request: Request, rates: dict[str, float], generator: Generator) -> tuple[str, ...]:
    """At most one fault against each reward, independently, each reward's with its rate."""
    hit = [reward for reward in FAULTS if generator.random() < rates[reward]]
    possible = [faults_for(request, reward) for reward in hit]
    return tuple(faults[_index(generator, len(faults))] for faults in possible)


def pieces() -> list[str]:
    """Every piece that a request or an answer is made of, longest first."""
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


def _index(generator: Generator | None, count: int) -> int:
    return 0 if generator is None else int(generator.integers(count))
