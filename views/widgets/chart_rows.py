"""The rows that the charts draw, with their labels and descriptions: plain Python, without Altair."""

from collections.abc import Mapping, Sequence

from gdpo_core.shared.theme import LOOKS
from gdpo_core.shared.words import percent
from gdpo_core.successors import TITLES as NAMES

ORDERS = {"right": "right order", "tied": "tied", "wrong": "wrong order"}  # of a pair of a right and a wrong answer
INK = "currentColor"  # of the page, dark or light
Lines = Mapping[str, Mapping[float, float]]  # by method and by x, a share or a push


def bars_of_pairs(rows: Sequence[Mapping]) -> tuple[dict[str, list[dict]], str]:
    """Return the data of a bar chart, and a text that describes the chart. Each bar is divided into pieces, one for
    each share above 0.

    The data have two tables. "pieces" has a row per piece, with its colour and with its start and end on the bar, from
    0 to 1. "heads" has a row per bar, with its name and its shares in words.

    rows: a dict per piece, in the order in which pieces are drawn. "method" (an id) and "of" (words for the kind of
        pair) name the bar; "order" is a key of ORDERS, and "share" is from 0 to 1.
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
    """Return the data of a chart of lines as three tables: "lines", "now" and "labels".

    "lines" has a row per point, with x, method (its title) and share, rounded to four decimals. "now" has the rows of
    "lines" at the x `now`. If no line has a point there, "now" has a single row with that x alone. "labels" are
    returned as given.

    lines: by method and by x, a share or a push.
    now: the x that is chosen.
    labels: the rows of the texts beside the lines.
    """
    rows = [{"x": x, "method": NAMES[m], "share": round(y, 4)} for m, line in lines.items() for x, y in line.items()]
    return {"lines": rows, "now": [row for row in rows if row["x"] == now] or [{"x": now}], "labels": labels}


def moved_apart(ends: list[dict], top: float) -> list[dict]:
    """Return the labels of the ends of lines, from the lowest up. A label is moved up where it would cover the label
    below it.

    A row that is returned has all keys of its row in `ends`, and the key "at", the height at which the label stands.
    That is at least 8.5 % of `top` above the label below.

    ends: a row per label, whose "count" is the height at which its line ends.
    top: the height of the whole axis.
    """
    placed: list[dict] = []
    for row in sorted(ends, key=lambda row: row["count"]):
        least = placed[-1]["at"] + 0.085 * top if placed else 0
        placed.append(row | {"at": max(row["count"], least)})
    return placed
