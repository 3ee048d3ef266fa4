"""The tables and numbers that the benchmarks print."""

import json
from collections.abc import Sequence


def show(title: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a title and a table below it, with the first column aligned left and the others right.

    head: the titles of the columns.
    rows: the cells of each line below them.
    """
    lines = [list(head), *map(list, rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(head))]
    print(f"\n{title}")
    for line in lines:
        cells = [line[0].ljust(widths[0])]
        cells += [cell.rjust(width) for cell, width in zip(line[1:], widths[1:], strict=True)]
        print("  " + "  ".join(cells).rstrip(), flush=True)


def judge(measured: float | None, target: float, unit: str, at_least: bool = False) -> list[str]:
    """Return three cells of a table: what was measured, the target, and the verdict.

    The verdict is "ok", or "falls short by" the part of the target that is missing, in percent and at least 1 %. If
    `measured` is None, the first cell is "n/a" and the third "not measured".

    target: the highest value wanted.
    unit: the unit of both values.
    at_least: whether the target is the lowest value wanted instead.
    """
    sign = "≥" if at_least else "≤"
    wanted = f"{sign} {target:g} {unit}".strip()
    if measured is None:
        return ["n/a", wanted, "not measured"]
    short = (target - measured if at_least else measured - target) / (target or 1)
    verdict = "ok" if short <= 0 else f"falls short by {max(short, 0.01):.0%}"
    return [f"{measured:.{digits(measured)}f} {unit}".strip(), wanted, verdict]


def digits(x: float) -> int:
    """Return how many decimals a number is shown with: none from 100 on, one from 10 on, and otherwise two."""
    return 0 if abs(x) >= 100 else 1 if abs(x) >= 10 else 2


def quantile(values: Sequence[float], q: float) -> float:
    """Return the q-quantile of some values, q from 0 to 1, interpolated between two values as NumPy does it."""
    ordered = sorted(values)
    at = q * (len(ordered) - 1)
    low = int(at)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (at - low) * (ordered[high] - ordered[low])


def record(benchmark: str, **numbers) -> None:
    """Print one line of JSON with the name of a benchmark and its numbers, floats rounded to three decimals."""
    print(json.dumps({"benchmark": benchmark, **_round(numbers)}), flush=True)


def _round(value):
    """Return a value with every float in it rounded to three decimals, also inside dicts and lists; tuples become
    lists.
    """
    if isinstance(value, float):
        return round(value, 3)
    if isinstance(value, dict):
        return {key: _round(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_round(inner) for inner in value]
    return value
