"""Test vectors for advantages: `python conformance/check.py mymodule:function`. It needs nothing but Python.

`function(rewards, groups, weights, lengths)` takes lists with a row per response, in which NaN is a missing reward.
It has to return one advantage per row.
"""

import argparse
import importlib
import json
import sys
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from math import isnan
from operator import attrgetter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
advantages = importlib.import_module("reference").advantages
sys.path.insert(0, str(Path.cwd()))  # the function to check may be there, even beside another module called reference

FILE = Path(__file__).parent / "cases.json"
# Differences that are allowed, relative to max(1, |A|): computing in float32 leaves up to the first, an eps of 1e-4 up
# to the second.
SAME, ALIKE = 1e-5, 2e-3
FEW = 2  # in so few wrong cases different faults may look alike, so that each is named by what its own case shows
AS_THE_PAPER = "the result of the paper's formula"  # the way of this name changes nothing
RECORDED_METHODS = ("gdpo", "grpo", "grpo_no_std", "grpo_batch_std")
INPUTS = ("rewards", "groups", "weights", "lengths")
NO_NUMBERS = (str, bytes, dict, set, frozenset)  # types that hold no numbers, or hold them in no order of rows


def load(file: Path = FILE) -> dict:
    """Return the content of the file of cases as a dict with three keys.

    "cases" holds the cases, and "conventions" the conventions under which they are answered. "ways" holds the ways in
    which a function may answer: the paper's, and known faults. It maps a sentence on each way to the inputs and
    arguments of `reference.advantages` that this way replaces, as `inputs_of` and `fits` read them; for the paper's way
    these are {}. A case may have further ways of its own, under its key "ways".

    Where the file has null, for a missing reward or for an advantage that is NaN, the dict has NaN.
    """
    return json.loads(file.read_text(encoding="utf-8").replace("null", "NaN"))


def near(found: list[float], expected: list[float], tolerance: float) -> bool:
    """Return whether two lists of one length hold the same numbers, and NaN at the same places.

    tolerance: how far apart two numbers may be and still count as the same. If the expected number is above 1 in size,
        the tolerance is multiplied by this size.
    """
    pairs = zip(found, expected, strict=True)
    return all((isnan(a) and isnan(b)) or abs(a - b) <= tolerance * max(1, abs(b)) for a, b in pairs)


def first_line(error: BaseException) -> str:
    """Return the kind of an error and the first line of its message, or the kind alone if the message is empty or
    cannot be read.
    """
    try:
        return f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}".rstrip(": ")
    except Exception:
        return type(error).__name__  # an error that cannot say what it is


def run(function: Callable, case: dict) -> list[float] | str:
    """Return the advantages that a function gives for a case, as a list of floats. If the function raises an error, or
    does not give one number per row, return words that say so.

    case: a case with "rewards", "groups", "weights" and "lengths".
    """
    rows = len(case["rewards"])
    try:
        rewards, weights = [list(map(float, row)) for row in case["rewards"]], list(map(float, case["weights"]))
        found = function(rewards, list(case["groups"]), weights, list(case["lengths"]))
        found = list(islice(found, rows + 1)) if isinstance(found, Iterator) else found
        found = found.tolist() if hasattr(found, "tolist") else found
        shown = f"{found!r:.60}"
        values = [] if isinstance(found, NO_NUMBERS) else list(found) if isinstance(found, Iterable) else None
    except (Exception, SystemExit) as error:
        return f"raises {first_line(error)}"
    try:
        no_numbers = isinstance(found, NO_NUMBERS) or any(isinstance(value, str) for value in values)
        numbers = [] if no_numbers else [float(value) for value in values]
    except (TypeError, ValueError, OverflowError):
        no_numbers = True
    if no_numbers:
        return f"expected {rows} numbers, one per row, got {shown}"
    return numbers if len(numbers) == rows else f"expected {rows} numbers, one per row, got {len(numbers)}"


def inputs_of(case: dict, changes: dict) -> dict:
    """Return the four inputs of `advantages` by name, for a case as a faulty trainer sees it.

    changes: by the name of an input, what the trainer has in its place. It is a list, or the name of a change, such as
        "zeros" for missing rewards that count as 0. Keys of `changes` that name no input are ignored.
    """
    rows, kinds = len(case["groups"]), len(set(case["groups"]))
    named = {
        "equal": lambda: [1.0] * len(case["weights"]),
        "zeros": lambda: [[0.0 if isnan(x) else x for x in row] for row in case["rewards"]],
        "blocks": lambda: [i * kinds // rows for i in range(rows)],
        "one": lambda: [0] * rows,
    }
    given = {name: changes.get(name, case[name]) for name in INPUTS}
    return {name: named[value]() if isinstance(value, str) else value for name, value in given.items()}


def fits(found: list[float], case: dict, method: str, changes: dict, how: dict | None = None) -> bool:
    """Return whether some advantages are, to within `ALIKE`, the advantages that a known fault would give in a case.

    found: the advantages that a function found for the case.
    method: the method asked for.
    changes: the fault, as inputs and arguments by name that replace the inputs and arguments of `advantages`.
    how: arguments of `advantages` that make the convention to which the fault is added; None for the paper's, which
        needs none.
    """
    otherwise = {name: value for name, value in changes.items() if name not in INPUTS}
    return near(found, advantages(**inputs_of(case, changes), **{"method": method} | (how or {}) | otherwise), ALIKE)


def by_roundoff(function: Callable, case: dict, method: str) -> bool:
    """Return whether the function gives the paper's answer to the case once the case's rewards are rounded to 1024ths,
    which float32 adds up exactly.

    False also if rounding would change nothing or make different rewards equal, or if the function gives no numbers for
    the rounded rewards.
    """
    rewards = [[x if isnan(x) else round(x * 1024) / 1024 for x in row] for row in case["rewards"]]
    kinds = [[len(set(column)) for column in zip(*rows, strict=True)] for rows in (rewards, case["rewards"])]
    exact = case | {"rewards": rewards}
    found = run(function, exact) if rewards != case["rewards"] and kinds[0] == kinds[1] else ""
    return not isinstance(found, str) and fits(found, exact, method, {})


def says(function: Callable, found: list[float], case: dict, method: str, common: dict) -> str:
    """Return a sentence on the answer that a function gives in a case.

    It is the sentence of the first known way to compute that gives this answer. One such way is the paper's, and the
    others are faults. If no known way gives the answer, the sentence says that the answer has NaN where the paper's has
    none, if it has. If not, it says that the function takes round-off for a std, if it does. In all other cases it says
    how far the answer is from the paper's.

    found: the answer.
    case: a case of the file cases.json, whose own ways are tried first.
    method: the method asked for.
    common: further ways, which are tried in every case: from the sentence of a way to the inputs and arguments of
        `reference.advantages` that it changes.
    """
    for sentence, changes in (case["ways"] | common).items():
        if fits(found, case, method, changes):
            return sentence
    paper = case["advantages"][method]["paper"]
    if lost := [i + 1 for i, value in enumerate(found) if isnan(value) and not isnan(paper[i])]:
        return f"NaN in {len(lost)} of {len(found)} rows, first in row {lost[0]}"
    if by_roundoff(function, case, method):
        return f"the round-off of a mean is taken for a std: up to {off_by(found, paper):.2g}"
    return f"the advantages differ from those of the paper by up to {off_by(found, paper):.2g}"


def off_by(found: list[float], expected: list[float]) -> float:
    """Return the largest difference between two lists of numbers; NaN if one of them has NaN where the other has a
    number.
    """
    pairs = [(a, b) for a, b in zip(found, expected, strict=True) if not (isnan(a) and isnan(b))]
    return max((abs(a - b) for a, b in pairs), key=lambda x: (isnan(x), x), default=0.0)


def fault_of(wrong: list[tuple[dict, list[float]]], method: str, data: dict, how: dict) -> tuple[str, int]:
    """Return the known fault that explains the largest number of wrong answers, and this number.

    The result is ("", 0) if this number is not above half of the wrong answers, or not above `FEW`.

    wrong: the cases that were answered wrongly, each with its answer.
    method: the method asked for.
    data: what `load` returns.
    how: the arguments of `reference.advantages` that make the convention asked for. Each fault is tried both under this
        convention and under the paper's.
    """
    found = {
        fault: sum(any(fits(a, case, method, changes, start) for start in ({}, how)) for case, a in wrong)
        for fault, changes in data["ways"].items()
        if changes
    }
    fault = max(found, key=lambda name: found[name])
    return (fault, found[fault]) if found[fault] > max(FEW, len(wrong) / 2) else ("", 0)


def wrong_as(
    function: Callable, a: list[float], case: dict, method: str, convention: str, data: dict, fault: str
) -> str:
    """Return a sentence that says what is wrong with `a`, a function's answer to a case, which disagrees with the
    convention.

    If another eps or round-off explains how far `a` is off, the sentence says so. If not, it is `fault` if this fault
    explains `a` too. In all other cases it rests on what `says` finds.

    data: what `load` returns.
    fault: a sentence on the known fault that explains most of the function's answers that are far off; "" if no fault
        does.
    """
    how, name = data["conventions"][convention]["how"], data["conventions"][convention]["name"]
    name = "the paper" if convention == "paper" else name
    expected = case["advantages"][method][convention]
    if near(a, expected, ALIKE):
        difference = off_by(a, expected)
        return f"the advantages differ from those of {name} by {difference:.1g}, as another eps or round-off leaves it"
    if fault and any(fits(a, case, method, data["ways"][fault], start) for start in ({}, how)):
        return fault
    sentence = says(function, a, case, method, data["ways"])
    if sentence == AS_THE_PAPER:
        return f"the advantages are those of the paper, not those of {name}"
    known = sentence in case["ways"] | data["ways"] or sentence.startswith("the round-off")
    return sentence if known else f"{sentence}; the case finds {case['finds']}"


def judge(function: Callable, method: str, convention: str) -> tuple[list[tuple[str, bool, str]], str]:
    """Return two things: the list that `check` returns, and a sentence on the function as a whole.

    The sentence says the first of these that applies:

    - all cases agree with another convention, and not all with the one asked for;
    - a known fault explains more than half of the cases that are far off, and more than FEW of them;
    - some cases are far off, but at most FEW, and what is wrong in each of them.

    Otherwise the sentence is "". A case is far off if the function's advantages differ from those of the convention
    asked for by more than ALIKE. A case in which the function gives no numbers is not among them.
    """
    data, lines = load(), []
    answers = [(case, run(function, case)) for case in data["cases"]]
    numbers = [(case, a) for case, a in answers if not isinstance(a, str)]
    agree = {
        key: {case["name"] for case, a in numbers if near(a, case["advantages"][method][key], SAME)}
        for key in data["conventions"]
    }
    how = data["conventions"][convention]["how"]
    wrong = [(case, a) for case, a in numbers if not near(a, case["advantages"][method][convention], ALIKE)]
    fault, hits = fault_of(wrong, method, data, how)
    said = {}  # by sentence, the cases that are far off and of which it is said
    for case, a in answers:
        if isinstance(a, str):
            lines.append((case["name"], False, a))
            continue
        right, whose = case["name"] in agree[convention], [key for key in agree if case["name"] in agree[key]]
        given = (function, a, case, method)
        what = says(*given, data["ways"]) if right else wrong_as(*given, convention, data, fault)
        if any(case is other for other, _ in wrong):
            said.setdefault(what, []).append(case["name"])
        names = ", ".join(data["conventions"][key]["name"] for key in whose)
        lines.append((case["name"], right, f"{what}; agrees with {names or f'none to {SAME:g}'}"))
    whole = [key for key, names in agree.items() if len(names) == len(answers)]
    if convention not in whole and whole:
        return lines, f"all agree with {data['conventions'][whole[0]]['name']}: --convention {whole[0]}"
    if fault:
        return lines, f"far off in {len(wrong)} cases{f', in {hits} of them' * (hits < len(wrong))}: {fault}"
    few = [f"far off in {' and '.join(names)}: {what}" for what, names in said.items()] if len(wrong) <= FEW else []
    return lines, "; ".join(few)


def check(function: Callable, method: str, convention: str) -> list[tuple[str, bool, str]]:
    """Return three things for each case: its name, whether the function agrees with the convention there, and a
    sentence on the function's answer.
    """
    return judge(function, method, convention)[0]


def main(arguments: list[str]) -> int:
    """Check the function that the arguments name, print a line per case and a summary, and return the exit status.

    The status is 0 if all cases agree, 1 if some do not, and 2 if the function cannot be imported.
    """
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("function", metavar="MODULE:FUNCTION", help="or MODULE:CLASS.METHOD")
    parser.add_argument("--method", default="gdpo", choices=RECORDED_METHODS)
    parser.add_argument("--convention", default="paper", choices=tuple(load()["conventions"]))
    options = parser.parse_args(arguments)
    module, _, name = options.function.partition(":")
    try:
        function = attrgetter(name)(importlib.import_module(module))
    except (Exception, SystemExit) as error:
        expected = "expected MODULE:FUNCTION that can be imported"
        print(f"{options.function}: {expected}, got {first_line(error)}", file=sys.stderr)
        return 2
    lines, verdict = judge(function, options.method, options.convention)
    for case, agrees, sentence in lines:
        print(f"{'ok   ' if agrees else 'WRONG'} {case:24} {sentence}")
    right = sum(agrees for _, agrees, _ in lines)
    print(f"\n{right} of {len(lines)} agree: {options.method}, {options.convention}")
    print(verdict, end="\n" * bool(verdict))
    return 0 if right == len(lines) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
