"""Repairs: what was read otherwise than it stands in a file, so that a report can tell of it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Repairs:
    """A note of what was read otherwise than it stands in a file, which the readers of files complete.

    headers: for each header in the middle of a CSV its line, the number of rows before it, and the columns that it
        adds and leaves out.
    titles: the lines before the header of a CSV that were skipped.
    empty_rows: how many rows without any value were left out.
    decimal_commas: the columns in which a comma was read as the decimal sign.
    inside: the names of the objects inside which the columns of a file of torch were found.
    """

    headers: list[tuple[int, int, list[str], list[str]]] = field(default_factory=list)
    titles: list[str] = field(default_factory=list)
    empty_rows: int = 0
    decimal_commas: list[str] = field(default_factory=list)
    inside: list[str] = field(default_factory=list)

    def issues(self, name: str) -> dict[str, Mapping[str, Any]]:
        """Return the details of an issue for each kind of repair that was made, by the id of the issue.

        name: the name of the file.
        """
        made: dict[str, Mapping[str, Any]] = {}
        if self.headers:
            lines = [line for line, *_ in self.headers]
            later = {column: rows for _, rows, columns, _ in self.headers for column in columns}
            gone = [column for *_, columns in self.headers for column in columns]
            made["header-again"] = {"file": name, "lines": lines, "later": later, "gone": gone}
        if self.titles:
            made["titles-skipped"] = {"lines": self.titles}
        if self.empty_rows:
            made["empty-rows"] = {"rows": self.empty_rows}
        if self.decimal_commas:
            made["decimal-comma"] = {"columns": self.decimal_commas}
        if self.inside:
            made["read-inside"] = {"members": self.inside}
        return made


def together(repairs: Iterable[Mapping[str, Mapping[str, Any]]]) -> dict[str, dict[str, Any]]:
    """Return the repairs of several tables as one: numbers are added up, and lists and dicts are joined.

    repairs: for each table the details of each issue by the issue's id. Of details that are texts the first counts, and
        `tables` says in how many tables there was such a repair.
    """
    joined: dict[str, dict[str, Any]] = {}
    for of_table in repairs:
        for issue, details in of_table.items():
            before = joined.setdefault(issue, {"tables": 0})
            before["tables"] += 1
            for name, value in details.items():
                if name not in before:
                    before[name] = value
                elif isinstance(value, int):
                    before[name] += value
                elif isinstance(value, list):
                    before[name] = [*before[name], *(x for x in value if x not in before[name])]
                elif isinstance(value, dict):
                    before[name] = {**value, **before[name]}
    return joined
