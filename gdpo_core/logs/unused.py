"""Columns that a reader does not use: they are listed, and an error names one that holds numbers as text."""

from collections.abc import Iterable, Mapping, Sequence

import polars as pl

from gdpo_core.errors import InputError

SAMPLE = 20  # values that decide whether a text column holds numbers
# Usual names of the texts beside rewards.
TEXTS = {
    *("prompt", "prompts", "completion", "completions", "response", "responses", "output", "outputs"),
    *("input", "inputs", "question", "questions", "query", "problem", "text", "texts", "message", "messages"),
    *("content", "answer", "answers", "target", "label", "labels", "ground_truth", "gts", "gold", "solution"),
    *("reference", "expected", "generation", "reasoning", "extracted_answer", "predicted", "prediction"),
}


def number_kind(kind: pl.DataType) -> bool:
    """Whether a column of this type can be a reward."""
    return kind.is_numeric() or kind == pl.Boolean


def together(schemas: Sequence[Mapping[str, pl.DataType]]) -> dict[str, pl.DataType]:
    """The columns of several files; a column that holds numbers in one file counts as a number column."""
    found: dict[str, pl.DataType] = {}
    for schema in schemas:
        for name, kind in schema.items():
            before = found.get(name, pl.Null())
            if before == pl.Null or (number_kind(kind) and not number_kind(before)):
                found[name] = kind
    return found


def left_out(schema: Mapping[str, pl.DataType], used: Iterable[str]) -> tuple[str, ...]:
    """The columns that are neither used nor texts that logs usually hold.

    >>> left_out({"acc": pl.Float64(), "prompt": pl.String(), "grade": pl.String()}, ["acc"])
    ('grade',)
    """
    used = set(used)
    return tuple(
        name
        for name, kind in schema.items()
        if name not in used and not (name.lower() in TEXTS and not number_kind(kind))
    )


def suspects(schema: Mapping[str, pl.DataType], used: Iterable[str]) -> list[str]:
    """The text columns that might hold numbers: not used, and not named like prompts, answers or ids."""
    used = set(used)
    return [
        name
        for name, kind in schema.items()
        if kind == pl.String and name not in used and name.lower() not in TEXTS and not name.lower().endswith("id")
    ]


def expect_words(where: str, column: str, values: Iterable[object]) -> None:
    """Raise InputError if all values, apart from empty ones, are numbers written as text."""
    texts = [value for value in values if isinstance(value, str) and value.strip()]
    if texts and all(map(_says_number, texts)):
        raise InputError(
            f"{where}, column {column!r}: expected numbers, got text {texts[0][:60]!r}; "
            "write it as numbers, or name the rewards"
        )


def _says_number(text: str) -> bool:
    text = text.strip().lower().removesuffix("%").replace(",", "")
    try:
        float(text)
    except ValueError:
        return text in ("true", "false")
    return True
