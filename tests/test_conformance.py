"""The test vectors: their answers, the faults that they find, and what check.py says of a bad function."""

import random
import sys
from functools import partial
from itertools import repeat
from math import nan
from types import SimpleNamespace

import naive
import numpy as np
import pytest
import torch
from helpers import close
from logs import gdpo

import gdpo_core as gc
from conformance import check, reference

DATA = check.load()
ORACLES = {"paper": "paper", "trl": "TRL"}  # those of tests/naive.py
HOW = {key: convention["how"] for key, convention in DATA["conventions"].items()}
ONE = reference.advantages


def test_the_answers_are_those_of_the_library():
    for case in DATA["cases"]:
        rewards, groups, weights, lengths = (case[name] for name in check.INPUTS)
        for method, answers in case["advantages"].items():
            assert list(answers) == list(gc.CONVENTIONS)
            for key, expected in answers.items():
                options = {"groups": groups, "weights": weights, "lengths": lengths}
                close(gc.advantages(rewards, method, convention=gc.CONVENTIONS[key], **options), expected, 1e-11)


@pytest.mark.slow
def test_the_reference_is_the_library_and_the_naive_loops_on_ten_thousand_groups():
    draw = random.Random(37)
    for _ in range(2500):
        key, k, groups = draw.choice(list(HOW)), draw.randint(1, 4), draw.choices(range(4), k=draw.randint(4, 24))
        values = [nan, *[0.0, 1.0] * 3, 3.0, -2.5, *(round(16 * draw.gauss(0, 1)) / 16 for _ in "ab")]
        rewards = [draw.choices(values, k=k) for _ in groups]
        weights, lengths = draw.choices([1, 0.5, 2, draw.random()], k=k), draw.choices(range(1, 50), k=len(groups))
        options = {"groups": groups, "weights": weights, "lengths": lengths}
        for method in check.RECORDED_METHODS:
            a = gc.advantages(rewards, method, convention=gc.CONVENTIONS[key], **options)
            by_reference = reference.advantages(rewards, *options.values(), method=method, **HOW[key])
            close(by_reference, a, 1e-12)
            if key in ORACLES and method in naive.METHODS:
                close(by_reference, naive.compute(rewards, groups, method, weights, ORACLES[key]).advantages, 1e-12)


def by_squares(x):
    """Return the std in float32 of a column, with its variance as a difference of squares, which loses digits."""
    x = x.astype(np.float32)
    return np.sqrt(np.maximum((x**2).mean(0) - x.mean(0) ** 2, 0) * len(x) / (len(x) - 1))


def in_numpy(spread, eps, batch_eps, by_tokens, rewards, groups, weights, lengths):
    """Return GDPO's advantages as somebody writes them in a few lines of numpy. spread: computes the std; by_tokens:
    whether the batch step counts tokens.
    """
    r, of, z = np.array(rewards), np.array(groups), np.zeros(np.shape(rewards))
    for g in set(groups):
        x = r[of == g]
        z[of == g] = (x - x.mean(0)) / (spread(x) + eps if len(x) > 1 else 1)
    s = z @ np.array(weights)
    counted = np.repeat(s, lengths if by_tokens else 1)
    return (s - counted.mean()) / (counted.std(ddof=1) + batch_eps)


NANS = {"missing-reward", "row-without-rewards"}
IN_NUMPY = {  # eps of the group, of the batch, whether tokens count; the cases of which a few lines know nothing
    "paper": (1e-15, 1e-15, False, NANS | {"constant-tenths"}),
    "trl": (1e-4, 1e-4, False, NANS),
    "verl": (1e-6, 1e-8, True, {"group-of-one"}),
    "ms_swift": (1e-8, 1e-8, False, NANS),
    "nemo_rl": (1e-6, 1e-15, False, set()),
}


@pytest.mark.parametrize("convention", IN_NUMPY)
def test_a_few_lines_of_numpy_fail_in_what_they_leave_out(convention):
    *how, left_out = IN_NUMPY[convention]
    found = check.check(partial(in_numpy, partial(np.std, axis=0, ddof=1), *how), "gdpo", convention)
    assert {name for name, agrees, _ in found if not agrees} == left_out


def leave_one_out(always, by_squares, rewards, groups, weights, lengths):
    """Return the advantages of NeMo-RL's old GRPO in float32. always: whether it divides by a std of 0 plus eps;
    by_squares: whether the variance is a difference of squares.
    """
    s, of = (torch.tensor(rewards) * torch.tensor(weights)).sum(1), torch.tensor(groups)
    a = torch.empty_like(s)
    for i in range(len(s)):
        others = s[(of == of[i]) & (torch.arange(len(s)) != i)]
        n, mean = len(others), others.mean()
        squares = (others**2).mean() - mean**2 if by_squares else ((others - mean) ** 2).mean()
        std = (squares * n / (n - 1)).sqrt().nan_to_num()
        a[i] = (s[i] - mean) / (std + 1e-6) if always or std > 0 else s[i] - mean
    return a


def dropping(rewards, groups, weights, lengths):
    """Return GDPO's advantages after a filter on the sum, which empties groups with a constant sum."""
    pairs = list(zip(rewards, groups, strict=True))
    alive = [len({sum(row) for row, g in pairs if g == one}) > 1 for one in groups]
    left = [row if on else [0.0] * len(row) for row, on in zip(rewards, alive, strict=True)]
    return ONE(left, groups, weights, lengths)


def rounding(rewards, groups, weights, lengths):
    """Return the advantages of verl's old GRPO in float32, in which the mean of equal sums is not exactly one of
    them.
    """
    s, of = (torch.tensor(rewards) * torch.tensor(weights)).sum(1), torch.tensor(groups)
    a = torch.full_like(s, nan)
    for g in set(groups):
        x = s[of == g]
        a[of == g] = x if len(x) == 1 else (x - x.mean()) / (x.std() + 1e-6)
    return a


# Each fault names the case that finds it, the method, the convention, the function or the arguments in which it
# differs, and what the case says. Those with a number are old formulas, rebuilt as they were before that change or
# issue.
FAULTS = {
    "ms-swift #8123": ("missing-reward", "gdpo", "ms_swift", {"missing": "propagates"}, "NaN spreads"),
    "NeMo-RL #1518": ("others-agree", "grpo", "nemo_rl_loo", partial(leave_one_out, True, False), "1e+06"),
    "NeMo-RL #4158": ("others-agree", "grpo", "nemo_rl_loo", partial(leave_one_out, False, True), "e+03"),
    "TRL #5775": ("row-without-rewards", "gdpo", "trl", {"empty_counts": True}, "the response counts with sum 0"),
    "TRL #3991": ("silent-groups", "grpo_batch_std", "trl", {"method": "grpo"}, "normalised, not each reward"),
    "slime #1414": ("uneven-groups", "gdpo", "paper", lambda r, g, w, n: ONE(r, [0] * len(g), w, n), "one group"),
    "blocks": ("shuffled", "gdpo", "paper", lambda r, g, w, n: ONE(r, sorted(g), w, n), "blocks of rows"),
    "no weights": ("weights", "gdpo", "paper", lambda r, g, w, n: ONE(r, g, [1] * len(w), n), "have no effect"),
    "raw": ("group-of-one", "gdpo", "paper", {"group_of_one": "raw"}, "keeps its raw reward"),
    "filter": ("equal-sums", "gdpo", "paper", dropping, "is dropped"),
    "verl #4597": ("constant-tenths", "grpo", "verl", rounding, "the round-off of a mean is taken for a std"),
    "squares": ("far-from-zero", "gdpo", "paper", partial(in_numpy, by_squares, 1e-6, 1e-9, False), "differ from"),
    "tokens": ("lengths", "gdpo", "paper", {"last_step": "tokens"}, "counts tokens"),
    "n": ("group-of-two", "gdpo", "paper", {"ddof": 0}, "divides by n"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_found_by_the_case_that_is_named_for_it(fault):
    case, method, convention, function, said = FAULTS[fault]
    mended = partial(ONE, **{"method": method} | HOW[convention])
    if isinstance(function, dict):
        function = partial(mended, **function)
    wrong = {name: sentence for name, agrees, sentence in check.check(function, method, convention) if not agrees}
    assert said in wrong[case]
    assert all(agrees for _, agrees, _ in check.check(mended, method, convention))


def in_few_lines(
    rewards, groups, weights, lengths, *, kind=np.float64, ddof=1, batch_ddof=1, add=0.0, root=0.0, floor=0.0,
    batch="all", zeros=False, blocks=0, others=False, first=False, drop=False, std_of_batch=False,
):  # fmt: skip
    """Return GDPO's advantages as somebody writes them in numpy, with a fault that the named arguments choose. Missing
    rewards are known not to count.
    """
    r, of, w = np.array(rewards, kind), np.array(groups), np.array(weights, kind)
    of = np.arange(len(of)) // (len(of) // len({*groups})) if blocks else of
    r, empty = np.nan_to_num(r) if zeros else r, np.isnan(r).all(1) & (not zeros)
    r, w = (r * w, np.ones_like(w)) if first else (r, np.ones_like(w) if drop else w)
    z = np.zeros_like(r)
    for rows, k in ((np.flatnonzero((of == g) & ~np.isnan(r[:, k])), k) for g in set(of) for k in range(len(w))):
        for i in rows:
            x = r[rows[rows != i] if others else rows, k]
            exact = kind is np.float64 and len({*x}) == 1
            mean = x[0] if exact else x.mean(dtype=kind) if len(x) else r[i, k]
            spread = r[~np.isnan(r[:, k]), k] if std_of_batch else x
            std = 0 if exact or len(x) <= ddof else spread.std(ddof=ddof, dtype=kind)
            by = max(np.sqrt(std**2 + root), floor) + add
            z[i, k] = (r[i, k] - mean) / by if std > 0 else (r[i, k] - mean) * others
    s, a = (z @ w).astype(float), np.zeros(len(r))
    for g in {"all": [0], "none": [], "group": set(of)}[batch]:
        rows = np.flatnonzero(~empty & ((of == g) | (batch == "all")))
        std = s[rows].std(ddof=batch_ddof) if len(rows) > 1 else 0
        a[rows] = (s[rows] - s[rows].mean()) / (std + add if std > 1e-12 else 1)
    return np.where(empty, 0, s) if batch == "none" else a


# For each thing that is wrong with an implementation, these are its arguments and what the last line of check.py says.
IMPLEMENTED = {
    "nothing": ({}, ""),
    "a mean in float32": (
        {"kind": np.float32, "add": 1e-6},
        "far off in constant-tenths: the round-off of a mean is taken for a std: up to",
    ),
    "with less of an eps": (
        {"kind": np.float32, "add": 1e-8},
        "far off in constant-tenths: the round-off of a mean is taken for a std: up to",
    ),
    "ddof": ({"ddof": 0, "batch_ddof": 0}, "far off in 15 cases: std divides by n"),
    "ddof of the groups": ({"ddof": 0}, "far off in 3 cases: the std of each group divides by n"),
    "ddof of the batch": ({"batch_ddof": 0}, "far off in 15 cases: the std of the batch divides by n"),
    "eps": ({"add": 1e-2}, "far off in 15 cases: an eps of 1e-2 is added to each std"),
    "eps under the root": ({"root": 1e-6}, "far off in small-differences: an eps of 1e-6 is under the root of the var"),
    "a floor": ({"floor": 1e-2}, "an eps of 1e-4 is under the root of the variance, or each std is 1e-2 at least"),
    "no batch step": ({"batch": "none"}, "far off in 14 cases: no step over the batch"),
    "a batch step per group": ({"batch": "group"}, "far off in 15 cases: the batch step looks at each group"),
    "NaN as 0": ({"zeros": True}, "far off in missing-reward and row-without-rewards: a missing reward is taken as 0"),
    "blocks": ({"blocks": True}, "far off in shuffled and uneven-groups: groups are taken as blocks of rows"),
    "leave one out": ({"others": True}, "each response is compared with the others alone"),
    "weights first": ({"first": True}, "far off in weights: the weights have no effect: dropped, or applied before"),
    "no weights": ({"drop": True}, "far off in weights: the weights have no effect: dropped, or applied before"),
    "the std of the batch": ({"std_of_batch": True}, "13 cases: each reward is divided by its std over the batch"),
}


@pytest.mark.parametrize("fault", IMPLEMENTED)
def test_an_implementation_is_told_what_is_wrong_with_it(fault):
    how, said = IMPLEMENTED[fault]
    lines, verdict, whose = check.judge(partial(in_few_lines, **how), "gdpo", "paper")
    wrong = [sentence for _, agrees, sentence in lines if not agrees]
    assert said in verdict and bool(said) == bool(verdict) == bool(wrong)
    assert not any(check.AS_THE_PAPER in sentence for sentence in wrong)
    named = verdict.partition(": ")[2].partition(";")[0]
    assert not wrong or any(sentence.startswith(named) for sentence in wrong)
    assert whose.startswith(
        "Whose advantages these are is not known" if wrong else "These are the advantages of gdpo (p"
    )


def test_code_of_another_convention_is_called_that_and_no_line_contradicts_itself(capsys, monkeypatch):
    for ours, asked in (("trl", "paper"), ("paper", "verl"), ("ms_swift", "trl")):
        lines, verdict, whose = check.judge(partial(ONE, **HOW[ours]), "gdpo", asked)
        assert verdict == "" and whose == (
            f"These are the advantages of gdpo ({DATA['conventions'][ours]['name']}) in all 16 cases that were tried, "
            f"not of gdpo ({DATA['conventions'][asked]['name']}): --method gdpo --convention {ours}."
        )
        assert not any(check.AS_THE_PAPER in sentence for _, agrees, sentence in lines if not agrees)
    monkeypatch.setitem(sys.modules, "mine", SimpleNamespace(function=partial(in_few_lines, batch="none", add=1e-4)))
    assert check.main(["mine:function", "--convention", "trl"]) == 1
    assert "\nfar off in 14 cases: no step over the batch\n" in capsys.readouterr().out


@pytest.mark.parametrize("convention", HOW)
@pytest.mark.parametrize("method", check.RECORDED_METHODS)
def test_the_last_sentence_says_whose_advantages_they_are(method, convention):
    function = partial(ONE, method=method, **HOW[convention])
    lines, verdict, whose = check.judge(function, method, convention)
    name = DATA["conventions"][convention]["name"]
    assert verdict == "" and all(agrees for _, agrees, _ in lines)
    assert whose.startswith(f"These are the advantages of {method} ({name}) in all 16 cases that were tried")
    # Whatever else is named gives the same advantages in every case, and nothing else does.
    alike = [
        f"{other} ({DATA['conventions'][key]['name']})"
        for other in check.RECORDED_METHODS
        for key in HOW
        if (other, key) != (method, convention)
        and all(check.near(case["advantages"][method][convention], case["advantages"][other][key], 1e-5)
                for case in DATA["cases"])
    ]  # fmt: skip
    _, _, rest = whose.partition("tried; ")
    assert rest.removesuffix(" would be no different there.").split(" and ") == (alike or [""])
    asked = "grpo" if method == "gdpo" else "gdpo"
    sentence = check.judge(function, asked, "verl")[2]
    assert f", not of {asked} (verl): --method" in sentence


def test_no_fault_is_called_by_a_name_that_was_not_recognised_and_two_that_look_alike_are_both_named():
    lines, verdict, whose = check.judge(lambda r, g, w, n: [0.1 * i for i in range(len(r))], "gdpo", "paper")
    known = {*DATA["ways"], *(sentence for case in DATA["cases"] for sentence in case["ways"])}
    finds = [case["finds"] for case in DATA["cases"]]
    for _, agrees, sentence in lines:
        assert not agrees and sentence.startswith("the advantages differ from those of the paper by up to ")
        assert not [text for text in [*known, *finds] if text in sentence]
    assert verdict == "" and whose.endswith("no method and convention agrees in all 16 cases that were tried.")
    # In the case silent-groups alone, std divided by n everywhere and in the batch step alone look alike.
    others = [case["name"] for case in DATA["cases"] if case["name"] != "silent-groups"]
    ((_, _, sentence),), verdict, _ = check.judge(partial(ONE, batch_ddof=0), "gdpo", "paper", others)
    both = "std divides by n, or the std of the batch divides by n"
    assert sentence.startswith(f"{both}; agrees with") and verdict == f"far off in silent-groups: {both}"


def test_cases_are_left_out_and_a_tolerance_is_given_on_both_sides_of_the_bound(capsys, monkeypatch):
    def off(by):
        return lambda *given: [a + by * max(1, abs(a)) for a in ONE(*given)]

    assert all(agrees for _, agrees, _ in check.check(off(0.9e-3), "gdpo", "paper", tolerance=1e-3))
    assert not any(agrees for _, agrees, _ in check.check(off(1.1e-3), "gdpo", "paper", tolerance=1e-3))
    far = check.judge(off(0.9), "gdpo", "paper", tolerance=1)
    assert all(agrees for _, agrees, _ in far[0]) and far[1] == "" and "would be no different there" in far[2]
    monkeypatch.setitem(sys.modules, "mine", SimpleNamespace(function=partial(in_few_lines, zeros=True)))
    assert check.main(["mine:function"]) == 1
    assert capsys.readouterr().out.splitlines()[-1].endswith("; gdpo (paper) agrees in most, in 14.")
    left_out = ["--except", "missing-reward, row-without-rewards"]
    assert check.main(["mine:function", *left_out]) == 0
    printed = capsys.readouterr().out
    assert "\n14 of 14 agree: gdpo, paper; left out: missing-reward, row-without-rewards\n" in printed
    assert printed.splitlines()[-1].startswith(
        "These are the advantages of gdpo (paper) in all 14 cases that were tried"
    )
    assert "missing-reward  " not in printed


@pytest.mark.parametrize(
    ("option", "value", "says"),
    [
        ("--except", "plain,nothing", "--except: expected names of cases (plain, "),
        ("--except", "", "got ''"),
        (
            "--except",
            ",".join(case["name"] for case in DATA["cases"]),
            "--except: expected a case that is left, got none",
        ),
        *(
            ("--tolerance", x, f"--tolerance: expected a number from 0 on, got '{x}'")
            for x in ("x", "-1", "nan", "inf")
        ),
    ],
)
def test_an_option_that_cannot_be_used_is_refused(option, value, says, capsys):
    with pytest.raises(SystemExit) as stopped:
        check.main(["mine:function", f"{option}={value}"])
    assert stopped.value.code == 2 and says in capsys.readouterr().err


class Mute(Exception):
    """An error whose text and whose representation both raise an error."""

    def __str__(self):
        raise ValueError("no text")

    def __repr__(self):
        raise ValueError("no repr")


@pytest.mark.parametrize("where", range(3))
def test_numbers_are_nan_apart_wherever_one_list_alone_has_nan(where):
    a, b = [0.0, 1.0, 2.0], [0.5, 1.0, 5.0]
    assert check.off_by(a, b) == 3 and check.off_by([], []) == 0
    one, other = ([nan if i == where else x for i, x in enumerate(values)] for values in (a, b))
    assert np.isnan(check.off_by(one, b)) and np.isnan(check.off_by(a, other))
    assert check.off_by(one, other) == max(abs(a[i] - b[i]) for i in range(3) if i != where)


def test_selftest_counts_the_recorded_answers_that_the_library_gives(capsys, monkeypatch):
    tried = len(DATA["cases"]) * len(check.RECORDED_METHODS) * len(HOW)
    code, out, err = gdpo(capsys, "selftest")
    assert (code, err) == (0, "") and out.startswith(
        f"{tried} of {tried} answers agree to within 1e-05: 16 cases, 4 met"
    )
    right = gc.advantages

    def nearly(by, *given, **options):
        a = right(*given, **options)
        return a + by * (options["convention"] is gc.TRL) * a.abs().clamp(min=1)

    for by, status in ((0.9e-5, 0), (1.1e-5, 1)):
        monkeypatch.setattr(gc, "advantages", partial(nearly, by))
        code, out, _ = gdpo(capsys, "selftest")
        wrong = [line for line in out.splitlines() if line.startswith("WRONG ")]
        assert code == status and len(wrong) == status * tried / len(HOW)
        assert all(line.endswith(" apart") and ", trl: up to " in line for line in wrong)
        assert f"{tried - len(wrong)} of {tried} answers agree" in out


def raise_(error):
    raise error


BAD = {
    "raises KeyError: 'x'": lambda *given: {}["x"],
    "expected 4 numbers, one per row, got 1": lambda *given: [0.0],
    "expected 4 numbers, one per row, got 'ab'": lambda *given: "ab",
    "expected 4 numbers, one per row, got None": lambda *given: None,
    "expected 4 numbers, one per row, got [[0.0], [0.0], [0.0], [0.0]]": lambda r, *given: [[0.0]] * len(r),
    "expected 4 numbers, one per row, got {0: 0.0}": lambda *given: {0: 0.0},
    "expected 4 numbers, one per row, got [1000": lambda r, *given: [10**400] * len(r),
    "NaN in 4 of 4 rows, first in row 1": lambda r, *given: torch.full((len(r),), nan),
    "raises ZeroDivisionError: division by zero": lambda *given: (1 / (2 - i) for i in range(4)),
    "raises SystemExit: 3": lambda *given: sys.exit(3),
    "expected 4 numbers, one per row, got b'abcd'": lambda *given: b"abcd",
    "expected 4 numbers, one per row, got {0, 1, 2, 3}": lambda *given: {0, 1, 2, 3},
    "expected 4 numbers, one per row, got 5": lambda *given: repeat(0.0),
    "raises Mute": lambda *given: raise_(Mute()),
    "raises ValueError: no repr": lambda *given: [Mute()],
    "raises TypeError: no list": lambda *given: SimpleNamespace(tolist=lambda: raise_(TypeError("no list"))),
}


def test_what_is_no_answer_is_one_line_per_case_and_what_is_no_function_one_sentence(capsys, monkeypatch, tmp_path):
    for said, function in BAD.items():
        monkeypatch.setitem(sys.modules, "mine", SimpleNamespace(function=function))
        assert check.main(["mine:function"]) == 1
        printed = capsys.readouterr().out
        assert printed.count("WRONG") == len(DATA["cases"]) and f"WRONG group-of-two             {said}" in printed
    monkeypatch.setitem(sys.modules, "mine", SimpleNamespace(mine=SimpleNamespace(function=ONE)))
    assert check.main(["mine:mine.function"]) == 0 and "agrees with paper, verl, ms-swift" in capsys.readouterr().out
    (tmp_path / "broken.py").write_text("function = (")
    monkeypatch.syspath_prepend(tmp_path)
    for unknown in ("mine:other", "nowhere:function", "mine", ":", "broken:function"):
        assert check.main([unknown]) == 2
        assert capsys.readouterr().err.startswith(f"{unknown}: expected MODULE:FUNCTION that can be imported, got ")
