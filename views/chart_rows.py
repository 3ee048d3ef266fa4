"""The rows that the charts draw, with their labels and descriptions: plain Python, without Altair."""

from collections.abc import Mapping, Sequence

from gdpo_core._theme import LOOKS
from gdpo_core._words import percent
from gdpo_core.successors import TITLES as NAMES

ORDERS = {"right": "right order", "tied": "tied", "wrong": "wrong order"}  # of a pair of a right and a wrong answer
INK = "currentColor"  # of the page, dark or light
Lines = Mapping[str, Mapping[float, float]]  # by method, by what is on the x axis: a share


def bars_of_pairs(rows: Sequence[Mapping]) -> tuple[dict[str, list[dict]], str]:
    """Return the pieces and the heads of a bar per method and what it is of, and a description of all bars.

    rows: method, of, order (a key of ORDERS) and share, in the order in which they are drawn.
    """
    drawn: dict[str, list[dict]] = {}
    for row in rows:
        name = f"{NAMES[row['method']]}, {row['of']}"
        bar = drawn.setdefault(name, [])
        at = bar[-1]["to"] if bar else 0.0
        label = f"{percent(row['share'], 1 if row['share'] < 0.1 else 0)} {ORDERS[row['order']]}"
        look = {
            "colour": INK if row["order"] == "wrong" else LOOKS[row["method"]].colour,
            "opacity": 0.3 if row["order"] == "tied" else 1.0,
        }
        bar.append(dict(row) | look | {"bar": name, "at": at, "to": at + row["share"], "label": label})
    labels = {name: [piece["label"] for piece in bar if piece["share"]] for name, bar in drawn.items()}
    pieces = [piece for bar in drawn.values() for piece in bar if piece["share"]]
    heads = [{"bar": name, "rest": " · ".join(texts)} for name, texts in labels.items()]
    return {"pieces": pieces, "heads": heads}, "; ".join(
        f"{name}: {', '.join(texts)}" for name, texts in labels.items()
    )


def points_of_lines(lines: Lines, now: float, labels: list[dict]) -> dict[str, list[dict]]:
    """Return the rows of three layers: the points of a line per method, the points at `now`, and the labels.

    now: the place on the x axis that is chosen; where no line has a point there, the second layer is that place alone.
    """
    rows = [{"x": x, "method": NAMES[m], "share": round(y, 4)} for m, line in lines.items() for x, y in line.items()]
    return {"lines": rows, "now": [row for row in rows if row["x"] == now] or [{"x": now}], "labels": labels}


def moved_apart(ends: list[dict], top: float) -> list[dict]:
    """Return the labels at the ends of lines, moved up where one would cover the one below."""
    placed: list[dict] = []
    for row in sorted(ends, key=lambda row: row["count"]):
        least = placed[-1]["at"] + 0.085 * top if placed else 0
        placed.append(row | {"at": max(row["count"], least)})
    return placed
