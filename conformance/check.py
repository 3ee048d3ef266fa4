"""Test vectors for advantages: `python conformance/check.py mymodule:function`. It needs nothing but Python.

`function(rewards, groups, weights, lengths)` takes lists, a row per response, in which NaN is a missing reward, and
returns one advantage per row.
"""

import argparse
import importlib
import json
import sys
from collections.abc import Callable, Iterator
from math import isnan
from operator import attrgetter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
advantages = importlib.import_module("reference").advantages
sys.path.insert(0, str(Path.cwd()))  # where a function to check may be, beside a reference of its own

FILE = Path(__file__).parent / "cases.json"
SAME, ALIKE = 1e-5, 2e-3  # of max(1, |A|): float32 leaves the one, an eps of 1e-4 the other
METHODS = ("gdpo", "grpo", "grpo_no_std", "grpo_batch_std")
INPUTS = ("rewards", "groups", "weights", "lengths")


def load(file: Path = FILE) -> dict:
    """The cases and the conventions; null is a missing reward, and an advantage that is NaN."""
    return json.loads(file.read_text(encoding="utf-8").replace("null", "NaN"))


def near(found: list[float], expected: list[float], tolerance: float) -> bool:
    """Whether all are the same; NaN is where NaN is."""
    pairs = zip(found, expected, strict=True)
    return all((isnan(a) and isnan(b)) or abs(a - b) <= tolerance * max(1, abs(b)) for a, b in pairs)


def first_line(error: BaseException) -> str:
    """What went wrong, however much it has to say."""
    return f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}".rstrip(": ")


def run(function: Callable, case: dict) -> list[float] | str:
    """The advantages that a function gives, or what is wrong with its answer."""
    rows = len(case["rewards"])
    try:
        rewards, weights = [list(map(float, row)) for row in case["rewards"]], list(map(float, case["weights"]))
        found = function(rewards, list(case["groups"]), weights, list(case["lengths"]))
        found = list(found) if isinstance(found, Iterator) else found
    except (Exception, SystemExit) as error:
        return f"raises {first_line(error)}"
    found = found.tolist() if hasattr(found, "tolist") else found
    try:
        texts = isinstance(found, str | dict) or any(isinstance(value, str) for value in found)
        numbers = [] if texts else [float(value) for value in found]
    except (TypeError, ValueError, OverflowError):
        texts = True
    if texts:
        return f"expected {rows} numbers, one per row, got {found!r:.60}"
    return numbers if len(numbers) == rows else f"expected {rows} numbers, one per row, got {len(numbers)}"


def says(found: list[float], case: dict, method: str, common: dict) -> str:
    """What the answer amounts to: the first known way to it, else how far it is off the paper's."""
    for sentence, changes in (case["ways"] | common).items():
        inputs = {name: changes.get(name, case[name]) for name in INPUTS}
        how = {name: value for name, value in changes.items() if name not in INPUTS}
        if near(found, advantages(**inputs, **{"method": method} | how), ALIKE):
            return sentence
    paper = case["advantages"][method]["paper"]
    if lost := [i + 1 for i, value in enumerate(found) if isnan(value) and not isnan(paper[i])]:
        return f"NaN in {len(lost)} of {len(found)} rows, first in row {lost[0]}"
    off = max(abs(a - b) for a, b in zip(found, paper, strict=True))
    return f"off the paper by at most {off:.2g}"


def check(function: Callable, method: str, convention: str) -> list[tuple[str, bool, str]]:
    """Of each case its name, whether the function agrees with the convention, and a sentence."""
    data, lines = load(), []
    for case in data["cases"]:
        found = run(function, case)
        if isinstance(found, str):
            lines.append((case["name"], False, found))
            continue
        agrees = [key for key, values in case["advantages"][method].items() if near(found, values, SAME)]
        whose = ", ".join(data["conventions"][key]["name"] for key in agrees)
        then = f"agrees with {whose}" if agrees else f"agrees with none to {SAME:g}; the case finds {case['finds']}"
        lines.append((case["name"], convention in agrees, f"{says(found, case, method, data['ways'])}; {then}"))
    return lines


def main(arguments: list[str]) -> int:
    """Print a line per case; 0 if all agree, 1 if not, 2 where there is no such function."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("function", metavar="MODULE:FUNCTION", help="or MODULE:CLASS.METHOD")
    parser.add_argument("--method", default="gdpo", choices=METHODS)
    parser.add_argument("--convention", default="paper", choices=tuple(load()["conventions"]))
    options = parser.parse_args(arguments)
    module, _, name = options.function.partition(":")
    try:
        function = attrgetter(name)(importlib.import_module(module))
    except (Exception, SystemExit) as error:
        expected = "expected MODULE:FUNCTION that can be imported"
        print(f"{options.function}: {expected}, got {first_line(error)}", file=sys.stderr)
        return 2
    lines = check(function, options.method, options.convention)
    for case, agrees, sentence in lines:
        print(f"{'ok   ' if agrees else 'WRONG'} {case:24} {sentence}")
    right = sum(agrees for _, agrees, _ in lines)
    print(f"\n{right} of {len(lines)} agree: {options.method}, {options.convention}")
    return 0 if right == len(lines) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
