"""The arithmetic of one answer: the whole computation of its advantage in one line, which adds up as it is printed."""

import torch
from torch import Tensor

from gdpo_core._words import power_of_ten, signed
from gdpo_core.board.result import Result

FINEST = 8  # decimals with which a line is tried at most


def arithmetic(one: Result) -> list[str]:
    """Per answer, the whole computation of its advantage, in one line.

    ⟨0|…⟩ is what the first reward adds, and the result stands between two `**`. Equal answers share a line.
    Numbers have as many decimals as the line needs to add up as it is printed, two at least.
    """
    n = len(one.sums)
    last = one.explained.batch_std is not None
    mean, std = (one.explained.batch_mean, one.explained.batch_std) if last else (None, None)
    if one.explained.z is None:
        mean, std = one.explained.group_means, one.explained.group_stds
    means, stds = ([0.0] * n, [1.0] * n) if std is None else (_per_answer(mean, n), _per_answer(std, n))
    weights = one.explained.weights.tolist()
    lines: dict[tuple, str] = {}
    keys = [
        (tuple(terms), *rest)
        for terms, *rest in zip(one.terms, one.sums, one.factors, means, stds, one.advantages, strict=True)
    ]
    for key in keys:
        if key not in lines:
            lines[key] = _line(one, list(key[0]), weights, *key[1:])
    return [lines[key] for key in keys]


def _per_answer(x: float | Tensor | None, answers: int) -> list[float]:
    """A statistic of the group, or with leave-one-out of the others, per answer."""
    value = torch.as_tensor(x).tolist()
    return value if isinstance(value, list) else [value] * answers


def _line(
    one: Result, terms: list[float], weights: list[float], total: float, share: float, mean: float, std: float, a: float
) -> str:
    """The line with the fewest decimals that adds up."""
    for places in range(2, FINEST + 1):
        for fine in (places, places + 1):
            line, adds_up = _tried(one, terms, weights, total, share, mean, std, a, places, fine)
            if adds_up:
                return line
    return line


def _tried(
    one: Result,
    terms: list[float],
    weights: list[float],
    total: float,
    share: float,
    mean: float,
    std: float,
    a: float,
    places: int,
    fine: int,
) -> tuple[str, bool]:
    """The line with so many decimals, of the terms `fine`, and whether its printed numbers give the printed results."""
    c, method, raw = one.explained.convention, one.explained.method, one.explained.z is None
    terms, weights = [round(x, fine) for x in terms], [round(w, fine) for w in weights]
    s, m = round(total, places), round(mean, places)
    d = float(f"{std:.{places + 1}g}")
    result = f"**{signed(a)}**"
    adds_up = round(abs(sum(w * x for w, x in zip(weights, terms, strict=True)) - s), 9) <= 0.5000001 * 10**-places

    pieces = []
    for k, (w, x) in enumerate(zip(weights, terms, strict=True)):
        times = "" if w == 1 else f"{_plain(w, fine)}·"
        sign = "" if raw else "−" if x < 0 else "+"
        pieces.append(f"⟨{k}|{sign}{times}{_plain(x if raw else abs(x), fine)}⟩")
    sums = (" + " if raw else " ").join(pieces)
    if method == "mo_grpo":
        return f"{sums} = {result}", _near(sum(w * x for w, x in zip(weights, terms, strict=True)), a)
    line = f"{sums} = {_plain(s, places)}"
    if share == 0:
        return f"{line} → left out, as its marks disagree = {result}", adds_up
    top, value = _plain(s, places), s
    if share != 1:
        part = round(share, places + 1)
        top, value = f"{_plain(part, places + 1)}·{_bracket(s, places)}", part * s
    if m:
        top, value = f"({top} − {_bracket(m, places)})", value - m
    if method == "grpo_no_std":
        return f"{line} → {top} = {result}", adds_up and _near(value, a)
    if std == 0:
        if c.leave_one_out and abs(a) > 1e-9:
            return f"{line} → {top}, undivided, as the others are equal = {result}", adds_up and _near(value, a)
        why = "all are equal" if method != "corr_grpo" else "the marks cancel"
        return f"{line} → 0, as {why} = {result}", adds_up
    eps, root = (c.batch_eps, c.batch_eps_to == "variance") if not raw else (c.sum_eps, False)
    eps = 0.0 if method == "corr_grpo" else eps  # its divisor holds it already
    by = d if not eps else (d * d + eps) ** 0.5 if root else d + eps
    shown = _plain(d, 12)
    if eps:
        shown = f"√({shown}² + {power_of_ten(eps)})" if root else f"({shown} + {power_of_ten(eps)})"
    return f"{line} → {top} ÷ {shown} = {result}", adds_up and _near(value / by, a)


def _near(computed: float, a: float) -> bool:
    """Whether what the printed numbers give is printed like the advantage."""
    return abs(computed - round(a, 2)) <= 0.005 + 1e-9  # half a digit may be rounded up or down


def _plain(x: float, places: int = 2) -> str:
    """At most so many decimals."""
    shown = f"{x:.{places}f}"
    shown = shown.rstrip("0").rstrip(".") if "." in shown else shown
    return "0" if shown in ("-0", "") else shown.replace("-", "−")


def _bracket(x: float, places: int) -> str:
    return f"({_plain(x, places)})" if x < 0 else _plain(x, places)
