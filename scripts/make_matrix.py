"""Write the answers in conformance/cases.json, and data/matrix.json, which says what each trainer does in each case.

`python -m scripts.make_matrix` runs the trainers that are installed in .parity. `make parity` then shows which cells
have changed.
"""

import json
import re
import warnings
from collections.abc import Callable, Iterator
from dataclasses import asdict
from datetime import date
from functools import partial
from pathlib import Path

import torch

from conformance import check, reference
from gdpo_core.conventions import PAPER, Convention
from gdpo_core.frameworks import CONVENTIONS, WITHOUT_GDPO
from tests.parity.frameworks import SOURCES, Method, load

MATRIX = Path(__file__).parent.parent / "data" / "matrix.json"


def differing(c: Convention) -> dict:
    """Return the points in which a convention differs from the paper, as named arguments of `reference.advantages`."""
    return {name: x for name, x in asdict(c).items() if name not in ("name", "source") and x != getattr(PAPER, name)}


def answer(inputs: list, method: str, how: dict) -> list[float]:
    """Return the advantages of the reference, rounded to twelve decimals, and 0 without a sign.

    inputs: the inputs of `advantages`, in order.
    how: the arguments of `advantages` that make a convention.
    """
    return [round(a, 12) + 0.0 for a in reference.advantages(*inputs, method=method, **how)]


def answered(data: dict) -> dict:
    """Return `data`, which `check.load` returned, with its answers; `data` is changed in place. Each case gets, as
    "advantages", the advantages of each method of `check.RECORDED_METHODS` under every convention. The whole gets the
    "conventions" themselves.
    """
    data["conventions"] = {
        key: {"name": c.name.replace(",", ""), "how": differing(c)} for key, c in CONVENTIONS.items()
    }
    for case in data["cases"]:
        inputs = [case[name] for name in check.INPUTS]
        case["advantages"] = {
            method: {key: answer(inputs, method, c["how"]) for key, c in data["conventions"].items()}
            for method in check.RECORDED_METHODS
        }
    return data


def written(value: dict) -> str:
    """Return a value as JSON in which a list without lists or objects is on one line, and NaN is null."""
    text = re.sub(r"(?m)^( *)NaN(,?)$", r"\1null\2", json.dumps(value, indent=1, ensure_ascii=False))
    return re.sub(r"\[\s+([^][{}]+?)\s+\]", lambda found: f"[{' '.join(found[1].split())}]", text) + "\n"


def cells(function: Callable, method: str, data: dict) -> dict[str, str]:
    """Return a sentence on what the function does in each case, by the name of the case.

    The sentence is the function's error, or it says how its answer stands beside the paper's for `method`.

    data: cases with answers, from `answered`.
    """
    found = {case["name"]: (case, check.run(function, case)) for case in data["cases"]}
    return {
        name: a.removeprefix("raises TypeError: ")
        if isinstance(a, str)
        else check.says(function, a, case, method, data["ways"])
        for name, (case, a) in found.items()
    }


def of_framework(method: Method) -> Callable:
    """Return a method of a trainer's own code as a function that takes lists, as `conformance/check.py` calls it."""

    def function(rewards: list, groups: list, weights: list, lengths: list) -> torch.Tensor:
        """Return the trainer's advantages for rewards, groups, weights and lengths as `conformance/check.py` hands them
        over.

        The trainer's method is the outer function's `method`. If the groups are blocks of one size, one after another,
        it is given that size, else the id of each response's group.
        """
        size = groups.count(groups[0])
        blocks = groups == [i // size for i in range(len(groups))]
        given = (torch.tensor(values, dtype=torch.float32) for values in (rewards, weights))
        return method(*given, size if blocks else groups, torch.tensor(lengths))

    return function


def rows(data: dict) -> Iterator[tuple[str, str, str, dict[str, str]]]:
    """Yield four things for each trainer: its name, the method, how its cells were found, and the cells.

    The cells are sentences by the name of the case.

    data: what `answered` returns.
    """
    for key, c in CONVENTIONS.items():
        function = partial(reference.advantages, **data["conventions"][key]["how"])
        how = "by the formula" if c is PAPER else "by the formula, as recorded"
        if key in SOURCES and (framework := load(key)):
            how, function = f"run, {framework.version}", of_framework(framework.methods["gdpo"])
        yield c.name, "gdpo", how, cells(function, "gdpo", data)
    for title, one in WITHOUT_GDPO.items():
        function = partial(reference.advantages, method=one.method, **differing(one.convention))
        yield title, one.method, "as read, not run", cells(function, one.method, data) | one.cells


def main() -> None:
    """Write conformance/cases.json and data/matrix.json anew."""
    data = answered(check.load())
    check.FILE.write_text(written(data), encoding="utf-8")
    trainers = [dict(zip(("title", "method", "how", "cells"), row, strict=True)) for row in rows(data)]
    finds = {case["name"]: case["finds"] for case in data["cases"]}
    matrix = {"made": date.today().isoformat(), "finds": finds, "trainers": trainers}
    MATRIX.write_text(written(matrix), encoding="utf-8")


if __name__ == "__main__":
    warnings.filterwarnings("ignore", "std.*degrees of freedom")
    main()
