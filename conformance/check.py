"""Test vectors for advantages: `python conformance/check.py mymodule:function`. It needs nothing but Python.

`function(rewards, groups, weights, lengths)` takes lists with a row per response, in which NaN is a missing reward.
It has to return one advantage per row.
"""

import argparse
import importlib
import json
import sys
from collections.abc import Callable, Collection, Iterable, Iterator
from itertools import islice
from math import inf, isnan, nan
from operator import attrgetter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
advantages = importlib.import_module("reference").advantages
del sys.path[0]

FILE = Path(__file__).parent / "cases.json"
# Differences that are allowed, relative to max(1, |A|): computing in float32 leaves up to the first, an eps of 1e-4 up
# to the second.
SAME, ALIKE = 1e-5, 2e-3
FEW = 2  # in so few wrong cases different faults may look alike, so that each is named by what its own case shows
SEVERAL = 3  # more methods and conventions than these, which agree in equally many cases, are not named
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


def fault_of(wrong: list[tuple[dict, list[float]]], method: str, data: dict, how: dict) -> tuple[list[str], int]:
    """Return the known faults that explain the largest number of wrong answers, and this number.

    There are several faults only if they explain equally many. The result is ([], 0) if this number is not above half
    of the wrong answers, or not above `FEW`.

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
    most = max(found.values())
    faults = [fault for fault, hits in found.items() if hits == most]
    return (faults, most) if most > max(FEW, len(wrong) / 2) else ([], 0)


def wrong_as(
    function: Callable, a: list[float], case: dict, method: str, convention: str, data: dict, faults: list[str]
) -> str:
    """Return a sentence that says what is wrong with `a`, a function's answer to a case, which disagrees with the
    convention.

    If another eps or round-off explains how far `a` is off, the sentence says so. If not, it names those of `faults`
    that explain `a` too. If none does, it names each known way to compute that gives this answer, with "or" between
    them, since the answer does not tell them apart. If none is known, it says how far `a` is off, and names no fault.

    data: what `load` returns.
    faults: the known faults that explain most of the function's answers that are far off.
    """
    how, name = data["conventions"][convention]["how"], data["conventions"][convention]["name"]
    name = "the paper" if convention == "paper" else name
    expected = case["advantages"][method][convention]
    if near(a, expected, ALIKE):
        difference = off_by(a, expected)
        return f"the advantages differ from those of {name} by {difference:.1g}, as another eps or round-off leaves it"
    if common := [x for x in faults if any(fits(a, case, method, data["ways"][x], start) for start in ({}, how))]:
        return ", or ".join(common)
    for ways in (case["ways"], data["ways"]):
        fitting = [sentence for sentence, changes in ways.items() if fits(a, case, method, changes)]
        if AS_THE_PAPER in fitting:
            return f"the advantages are those of the paper, not those of {name}"
        if fitting:
            return ", or ".join(fitting)
    sentence = says(function, a, case, method, {})
    known = sentence.startswith(("NaN", "the round-off"))
    return sentence if known else f"the advantages differ from those of {name} by up to {off_by(a, expected):.2g}"


def judge(
    function: Callable, method: str, convention: str, left_out: Collection[str] = (), tolerance: float = SAME
) -> tuple[list[tuple[str, bool, str]], str, str]:
    """Return three things: the list that `check` returns, a sentence on what is wrong, and one on whose advantages the
    function computes.

    The sentence on what is wrong is "" if all cases agree with some method and convention, or if a case in which the
    function gives no numbers is all that is wrong. Otherwise it says the first of these that applies:

    - a known fault explains more than half of the cases that are far off, and more than FEW of them;
    - some cases are far off, but at most FEW, and what is wrong in each of them.

    If neither applies, it is "". A case is far off if the function's advantages differ from those of the convention
    asked for by more than ALIKE, or by more than the tolerance if that is larger.

    left_out: the names of cases that are not tried.
    tolerance: how far an advantage A may be off and still agree, relative to max(1, |A|).
    """
    data, lines = load(), []
    answers = [(case, run(function, case)) for case in data["cases"] if case["name"] not in left_out]
    numbers = [(case, a) for case, a in answers if not isinstance(a, str)]
    agree = {
        (known, key): {case["name"] for case, a in numbers if near(a, case["advantages"][known][key], tolerance)}
        for known in RECORDED_METHODS
        for key in data["conventions"]
    }
    far = max(ALIKE, tolerance)
    wrong = [(case, a) for case, a in numbers if not near(a, case["advantages"][method][convention], far)]
    faults, hits = fault_of(wrong, method, data, data["conventions"][convention]["how"])
    said = {}  # by sentence, the cases that are far off and of which it is said
    for case, a in answers:
        if isinstance(a, str):
            lines.append((case["name"], False, a))
            continue
        right = case["name"] in agree[method, convention]
        given = (function, a, case, method)
        what = says(*given, data["ways"]) if right else wrong_as(*given, convention, data, faults)
        if any(case is other for other, _ in wrong):
            said.setdefault(what, []).append(case["name"])
        names = ", ".join(
            data["conventions"][key]["name"] for key in data["conventions"] if case["name"] in agree[method, key]
        )
        lines.append((case["name"], right, f"{what}; agrees with {names or f'none to {tolerance:g}'}"))
    whose = whose_of(agree, len(answers), method, convention, data)
    if any(len(names) == len(answers) for names in agree.values()):
        return lines, "", whose
    if faults:
        named = ", or ".join(faults)
        return lines, f"far off in {len(wrong)} cases{f', in {hits} of them' * (hits < len(wrong))}: {named}", whose
    few = [f"far off in {' and '.join(names)}: {what}" for what, names in said.items()] if len(wrong) <= FEW else []
    return lines, "; ".join(few), whose


def whose_of(agree: dict[tuple[str, str], set[str]], tried: int, method: str, convention: str, data: dict) -> str:
    """Return the sentence on whose advantages a function computes: those of the methods and conventions with which it
    agrees in all cases. If there is none, the sentence says so, and which agree in most cases.

    agree: by method and convention, the names of the cases in which the function agrees with them.
    tried: how many cases were tried.
    method, convention: those asked for.
    data: what `load` returns.
    """

    def named(pairs: Iterable[tuple[str, str]]) -> str:
        return " and ".join(f"{known} ({data['conventions'][key]['name']})" for known, key in pairs)

    whole = [pair for pair, names in agree.items() if len(names) == tried]
    cases = f"in all {tried} cases that were tried"
    if (method, convention) in whole:
        others = [pair for pair in whole if pair != (method, convention)]
        alike = f"; {named(others)} would be no different there" if others else ""
        return f"These are the advantages of {named([(method, convention)])} {cases}{alike}."
    if whole:
        known, key = whole[0]
        options = f"--method {known} --convention {key}"
        return f"These are the advantages of {named(whole)} {cases}, not of {named([(method, convention)])}: {options}."
    most = max(map(len, agree.values()))
    best = [pair for pair, names in agree.items() if len(names) == most]
    unknown = f"Whose advantages these are is not known: no method and convention agrees {cases}"
    if not most or len(best) > SEVERAL:
        return f"{unknown}."
    return f"{unknown}; {named(best)} agree{'s' * (len(best) == 1)} in most, in {most}."


def check(
    function: Callable, method: str, convention: str, left_out: Collection[str] = (), tolerance: float = SAME
) -> list[tuple[str, bool, str]]:
    """Return three things for each case: its name, whether the function agrees with the convention there, and a
    sentence on the function's answer.

    left_out, tolerance: as for `judge`.
    """
    return judge(function, method, convention, left_out, tolerance)[0]


def options_of(arguments: list[str]) -> argparse.Namespace:
    """Return the options of the command line. Options that cannot be used end the process with status 2."""
    data = load()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("function", metavar="MODULE:FUNCTION", help="or MODULE:CLASS.METHOD")
    parser.add_argument("--method", default="gdpo", choices=RECORDED_METHODS)
    parser.add_argument("--convention", default="paper", choices=tuple(data["conventions"]))
    parser.add_argument(
        "--except", dest="left_out", metavar="NAMES", help="cases to leave out, with commas between them"
    )
    parser.add_argument(
        "--tolerance",
        metavar="X",
        default=SAME,
        help=f"how far an advantage A may be off, by default {SAME:g} * max(1, |A|)",
    )
    options = parser.parse_args(arguments)
    known = [case["name"] for case in data["cases"]]
    options.left_out = [] if options.left_out is None else [name.strip() for name in options.left_out.split(",")]
    if unknown := [name for name in options.left_out if name not in known]:
        parser.error(f"--except: expected names of cases ({', '.join(known)}), got {unknown[0]!r}")
    if set(options.left_out) == set(known):
        parser.error("--except: expected a case that is left, got none")
    try:
        tolerance = float(options.tolerance)
    except ValueError:
        tolerance = nan
    if not 0 <= tolerance < inf:
        parser.error(f"--tolerance: expected a number from 0 on, got {options.tolerance!r}")
    options.tolerance = tolerance
    return options


def main(arguments: list[str]) -> int:
    """Check the function that the arguments name, print a line per case and a summary, and return the exit status.

    The last line says whose advantages the function computes. The status is 0 if all cases that were tried agree, 1 if
    some do not, and 2 if the function cannot be imported.
    """
    options = options_of(arguments)
    module, _, name = options.function.partition(":")
    sys.path.insert(0, str(Path.cwd()))  # the function may be there, even beside another module called reference
    try:
        function = attrgetter(name)(importlib.import_module(module))
    except (Exception, SystemExit) as error:
        expected = "expected MODULE:FUNCTION that can be imported"
        print(f"{options.function}: {expected}, got {first_line(error)}", file=sys.stderr)
        return 2
    lines, verdict, whose = judge(function, options.method, options.convention, options.left_out, options.tolerance)
    for case, agrees, sentence in lines:
        print(f"{'ok   ' if agrees else 'WRONG'} {case:24} {sentence}")
    right = sum(agrees for _, agrees, _ in lines)
    left_out = f"; left out: {', '.join(options.left_out)}" if options.left_out else ""
    print(f"\n{right} of {len(lines)} agree: {options.method}, {options.convention}{left_out}")
    print(verdict, end="\n" * bool(verdict))
    print(whose)
    return 0 if right == len(lines) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
