"""A processor that nobody has: `pytest -p tests.nudge` moves what a processor may round in its own way.

IEEE 754 fixes + − × ÷ for one element at a time, so these stay, and so does what is exact in any order: whole numbers
that are small enough, a sum of two terms, the root of a square. Every other sum, norm, root or exponential of torch
moves up or down by one unit in the last place, or not at all. The direction depends on the element's place, on the
operands and on the environment's NUDGE, a number: equal values in two places part, and the same call gives the same
result twice.
"""

import os
import threading
from collections.abc import Callable

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

_DIGITS = {torch.float64: 53, torch.float32: 24}
_MIX = 0x5851F42D4C957F2D  # Knuth's multiplier for random numbers of 64 bits


class Nudge(TorchDispatchMode):
    """While it is entered, results that were rounded are one unit in the last place off."""

    def __torch_dispatch__(self, op, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        name = op.overloadpacket._qualified_op_name.removeprefix("aten::").removesuffix("_")
        unit = UNITS.get(name)
        if unit is None or any(isinstance(a, Tensor) and not a.numel() for a in args):
            return op(*args, **kwargs)
        operands = [a.clone() if isinstance(a, Tensor) else a for a in args]  # some are about to be overwritten
        options = {name: value for name, value in kwargs.items() if name not in ("out", "dtype")}
        out = op(*args, **kwargs)
        for result in out if isinstance(out, tuple | list) else [out]:
            if result.dtype in _DIGITS and result.numel():
                result.add_(unit(result, *operands, **options) * _directions(result, name, operands))
        return out


def _directions(result: Tensor, name: str, operands: list) -> Tensor:
    """−1, 0 or 1 per element, the same for the same call."""
    seed = hash((int(os.environ.get("NUDGE", 0)), sum(map(ord, name)), tuple(result.shape)))
    for x in operands:
        if isinstance(x, Tensor) and x.dtype in _DIGITS:
            bits = x.contiguous().view(torch.int64 if x.dtype == torch.float64 else torch.int32)
            seed = hash((seed, int(bits.sum())))
    mixed = torch.arange(result.numel()).add_(seed % 2**40).mul_(_MIX)
    mixed ^= mixed >> 29
    return mixed.mul_(_MIX).bitwise_right_shift_(33).remainder_(3).sub_(1).view(result.shape).to(result.dtype)


def _unit(result: Tensor, size: Tensor | None = None) -> Tensor:
    """One unit in the last place of numbers of this size, by default the result's own; 0 of zero."""
    size = result.abs() if size is None else size
    unit = (_power_of_two(size) * 2.0 ** (1 - _DIGITS[result.dtype])).to(result)
    return unit.masked_fill((size == 0) | ~result.isfinite(), 0)


def _unless(exact: Tensor, result: Tensor) -> Tensor:
    return _unit(result).masked_fill(exact, 0)


def _power_of_two(x: Tensor) -> Tensor:
    """The largest one up to |x|, by the bits of the exponent."""
    return (x.double().view(torch.int64) & (0x7FF << 52)).view(torch.float64)


def _lowest_digit(x: Tensor) -> Tensor:
    """What the last binary digit that is set stands for; infinity for zero, which has none."""
    x = x.double()
    digits = x.view(torch.int64) & ((1 << 52) - 1) | (1 << 52)
    lowest = (digits & -digits).double() * 2.0**-52 * _power_of_two(x)
    return lowest.masked_fill(x == 0, torch.inf)


def _exact_in_any_order(size: Tensor, lowest: Tensor, result: Tensor) -> Tensor:
    """Whether every partial sum fits: terms of this total size whose last digit is no lower than that."""
    return size < lowest * 2.0 ** _DIGITS[result.dtype]


def _finite(x: Tensor) -> Tensor:
    return x.nan_to_num(nan=0.0, posinf=0.0, neginf=0.0)


def _of_terms(result: Tensor, terms: Tensor, total: Callable, lowest: Callable, highest: Callable) -> Tensor:
    """By how much another order of the terms may move their sum: a unit of the largest term where they cancel."""
    exact = _exact_in_any_order(total(terms.abs().double()), lowest(_lowest_digit(terms)), result)
    exact |= total((terms != 0).double()) <= 2
    return _unit(result, torch.maximum(result.abs(), highest(terms.abs().double()).to(result))).masked_fill(exact, 0)


def _over(x: Tensor, dims, keepdim: bool) -> list[Callable]:
    """Sum, smallest and largest over these axes, or over all."""
    dims = [dims] if isinstance(dims, int) else list(range(x.ndim)) if not dims else list(dims)
    return [lambda y, reduce=reduce: reduce(y, dims, keepdim) for reduce in (torch.sum, torch.amin, torch.amax)]


def _sum(result: Tensor, x: Tensor, dims=None, keepdim=False, **_) -> Tensor:
    return _of_terms(result, _finite(x.to(result.dtype)), *_over(x, dims, keepdim))


def _mean(result: Tensor, x: Tensor, dims=None, keepdim=False, **_) -> Tensor:
    total = _over(x, dims, keepdim)[0](x)
    return _unless(_sum(total, x, dims, keepdim) == 0, result)


def _norm(result: Tensor, x: Tensor, order=2, dims=None, keepdim=False, **_) -> Tensor:
    """One rounded product added to another may be rounded once or twice, so that here two terms are not exact."""
    total, lowest, _ = _over(x, dims, keepdim)
    squares = total(_finite(x).double().square())
    exact = _exact_in_any_order(squares, lowest(_lowest_digit(_finite(x)).square()), result)
    return _unless(exact & _is_root(result, squares), result)


def _is_root(root: Tensor, x: Tensor) -> Tensor:
    """Whether this is the very root and not a rounded one; the square of 24 digits fits into 53."""
    return (root.float().double() == root) & (root.double().square() == x.double())


def _root(result: Tensor, x: Tensor, *_) -> Tensor:
    return _unless(_is_root(result, x), result)


def _power(result: Tensor, x, exponent) -> Tensor:
    if exponent == 0.5:
        return _root(result, x)
    if isinstance(exponent, int | float) and exponent in (-1, 0, 1, 2):
        return torch.zeros_like(result)
    return _unless((torch.as_tensor(x) == 1) | (torch.as_tensor(exponent) == 0), result)


def _added_by_index(result: Tensor, x: Tensor, dim: int, index: Tensor, source: Tensor) -> Tensor:
    terms = _finite(torch.cat([x, source], dim))
    index = torch.cat([torch.arange(x.shape[dim]), index])

    def extreme(start: float, kind: str) -> Callable:
        places = index.view([-1 if d == dim % x.ndim else 1 for d in range(x.ndim)]).expand(terms.shape)
        return lambda y: torch.full(x.shape, start, dtype=y.dtype).scatter_reduce(dim, places, y, kind)

    def total(y: Tensor) -> Tensor:
        return torch.zeros(x.shape, dtype=y.dtype).index_add(dim, index, y)

    return _of_terms(result, terms, total, extreme(torch.inf, "amin"), extreme(0, "amax"))


def _product(result: Tensor, *operands, **_) -> Tensor:
    """Of matrices, to which another may be added. One term alone is not rounded in any order."""
    *added, a, b = [x for x in operands if isinstance(x, Tensor)]
    terms = torch.matmul((a != 0).double(), (b != 0).double()) + sum((x != 0).double() for x in added)
    size = torch.matmul(a.abs().double(), b.abs().double()) + sum(x.abs().double() for x in added)
    lowest = torch.stack([_lowest_digit(x).amin() for x in (*added, a, b)]).amin().clamp(max=1)
    return _unless((terms <= 1) | _exact_in_any_order(size, lowest.square(), result), result)


def _approximated(result: Tensor, x: Tensor, *_, **__) -> Tensor:
    """What each library computes its own way; all agree at 0 and 1, and no probability leaves the two."""
    sure = (result == 0) | (result == 1)
    return _unless(sure | (x == 0) | (x == 1) if x.shape == result.shape else sure, result)


UNITS: dict[str, Callable] = {
    **dict.fromkeys(("sum", "nansum"), _sum),
    "mean": _mean,
    "linalg_vector_norm": _norm,
    "sqrt": _root,
    "pow": _power,
    "index_add": _added_by_index,
    **dict.fromkeys(("mm", "bmm", "addmm", "mv", "dot", "baddbmm"), _product),
    **dict.fromkeys(
        ("std", "var", "std_mean", "var_mean", "rsqrt", "cumsum", "prod", "exp", "exp2", "expm1", "log", "log2",
         "log10", "log1p", "sigmoid", "logit", "tanh", "_softmax", "_log_softmax", "logsumexp", "erf", "_linalg_eigh",
         "linalg_qr", "linalg_lstsq", "_linalg_svd", "_linalg_solve_ex"), _approximated,
    ),
}  # fmt: skip


def pytest_sessionstart(session):
    """Everything that runs from here on, in this thread and in those that start later."""
    session.config.nudge = Nudge()
    session.config.nudge.__enter__()
    run = threading.Thread.run

    def nudged(self):
        with Nudge():
            run(self)

    threading.Thread.run = nudged


def pytest_sessionfinish(session):
    session.config.nudge.__exit__(None, None, None)
