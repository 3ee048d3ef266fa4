"""The arithmetic of one answer: the whole computation of its advantage in one line, with rounded numbers."""

import torch
from torch import Tensor

from gdpo_core.board.result import Result
from gdpo_core.shared.words import number, signed


def arithmetic(side: Result) -> list[str]:
    """Return, for each answer, one line of text with the whole computation of its advantage under a method.

    The browser colours what each reward adds. So what the first reward adds stands between ⟨0| and ⟩, what the second
    adds stands between ⟨1| and ⟩, and so on. The advantage stands between `**` and `**`.

    side: the method's result.
    """
    e, n = side.explained, len(side.sums)
    mean, std = (e.group_means, e.group_stds) if e.z is None else (e.batch_mean, e.batch_std)
    means, stds = ([0.0] * n, [1.0] * n) if std is None else (_per_answer(mean, n), _per_answer(std, n))
    rows = zip(side.terms, side.sums, side.factors, means, stds, side.advantages, strict=True)
    return [_line(side, *row) for row in rows]


def _per_answer(x: float | Tensor | None, answers: int) -> list[float]:
    """Return a statistic as one number per answer.

    x: a single number, which holds for every answer; or, with leave-one-out, one number per answer.
    """
    value = torch.as_tensor(x).tolist()
    return value if isinstance(value, list) else [value] * answers


def _line(side: Result, terms: list[float], total: float, share: float, mean: float, std: float, a: float) -> str:
    c, method, raw = side.explained.convention, side.explained.method, side.explained.z is None
    result = f"**{signed(a)}**"
    pieces = []
    for k, (w, x) in enumerate(zip(side.explained.weights.tolist(), terms, strict=True)):
        w, sign = (w, "") if raw else (abs(w), "−" if w * x < 0 else "+")
        times = "" if w == 1 else f"{_plain(w)}·"
        pieces.append(f"⟨{k}|{sign}{times}{_plain(x if raw else abs(x))}⟩")
    sums = (" + " if raw else " ").join(pieces)
    if method == "mo_grpo":
        return f"{sums} = {result}"
    line = f"{sums} = {_plain(total)}"
    if share == 0:
        return f"{line} → left out, as its marks disagree = {result}"
    top = _plain(total) if share == 1 else f"{_plain(share)}·{_bracket(total)}"
    if abs(mean) > 1e-9:
        top = f"({top} − {_bracket(mean)})"
    if method == "grpo_no_std":
        return f"{line} → {top} = {result}"
    if std == 0:
        return f"{line} → {top}, without a spread to divide by = {result}"
    # The divisor of CorrGRPO, which stands here as its std, holds the eps already.
    eps = 0.0 if method == "corr_grpo" else c.sum_eps if raw else c.batch_eps
    by = (std * std + eps) ** 0.5 if not raw and c.batch_eps_to == "variance" else std + eps
    return f"{line} → {top} ÷ {_plain(by)} = {result}"


def _plain(x: float) -> str:
    """Return a number as text with up to three decimals.

    A number below 0.01 in size has three significant digits instead.
    """
    return number(round(x, 3), 6) if abs(x) >= 0.01 else number(x, 3)


def _bracket(x: float) -> str:
    return f"({_plain(x)})" if x < 0 else _plain(x)
