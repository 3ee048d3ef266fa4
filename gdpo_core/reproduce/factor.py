"""Finds the scale of the weights. Dividing by a std removes the scale; only the eps beside the std shows it."""

import torch
from torch import Tensor

from gdpo_core.batch import Batch
from gdpo_core.conventions import Convention
from gdpo_core.reproduce.recipe import prepared, with_weights
from gdpo_core.reproduce.terms import FLOAT32, Terms
from gdpo_core.reproduce.weights import Space

# Relative error of the factor where the method divides by nothing.
_EXACT = 1e-5
_ROUNDS = 200


def eps_of(c: Convention, method: str) -> float:
    """The eps that the convention adds to the std of the method's sums; 0 if none shows the scale of the weights."""
    if method == "gdpo":
        return c.batch_eps if c.batch_eps_to == "std" else 0.0
    return 0.0 if method == "grpo_no_std" else c.sum_eps


def factor(batch: Batch, terms: Terms, seen: Space, direction: Tensor, method: str) -> tuple[float | None, float]:
    """The factor of the direction that gives the weights, and its relative error; None if nothing depends on it.

    direction: (rewards,). In a unit a = c · Xw with c = 1 / (std + eps): the larger the weights, the less eps matters.
    """
    c = batch.convention
    formula, batch = prepared(method, with_weights(batch, direction))
    y = direction @ terms.x
    total = terms.total
    count, fits = total(terms.part).clamp(min=1), seen.batches[terms.batch]
    if method == "gdpo":
        y = (y - (total(y) / count)[terms.unit]) * terms.part
    along, square, noise = total(terms.a * y), total(y * y), total(terms.noise.square()) / count
    trust = torch.where(fits & (along > 0), 1 / (1 + noise), 0)
    if method == "grpo_no_std":
        return _median(along / square, trust * square), _EXACT
    eps = eps_of(c, method)
    if eps == 0:
        return None, torch.inf
    steps = formula(batch)
    over = steps.group if method == "grpo" or steps.whole is None else steps.whole
    std = over.std.flatten()
    trust = torch.where(std > 0, trust / std.square(), 0).nan_to_num()
    left, usual = _median(square / along - std, trust), _median(std, trust)  # left: eps over the factor
    # Nobody chooses weights so small that eps is larger than the std.
    if left is None or usual is None or not 0 < left < usual:
        return None, torch.inf
    return eps / left, FLOAT32 / trust.sum().sqrt().item() / left


def _median(values: Tensor, weights: Tensor) -> float | None:
    """The weighted median, which a few batches of another scale hardly move; None without weights above 0."""
    if not (weights > 0).any():
        return None
    values, order = values[weights > 0].sort()
    share = weights[weights > 0][order].cumsum(0)
    return values[torch.searchsorted(share, share[-1] / 2)].item()


def from_divisor(space: Space, terms: Terms, eps: float, ddof: int) -> tuple[Tensor, Tensor] | None:
    """The weights, scale included, and the standard error of each; None where the log does not show them.

    An eps leaves the std of a unit's advantages below 1. With a = Xw / (std + eps) and α the std of a, linear equations
    for w follow: (1 − α) Xw = eps · a.
    """
    total = terms.total
    count = total(terms.part)
    a = total(terms.a.square()) / (count - ddof).clamp(min=1)
    short = 1 - a.sqrt()
    kept = space.batches[terms.batch] & (a > 0)
    if eps == 0 or not kept.any():
        return None
    size = total((terms.x / space.scale.masked_fill(space.scale == 0, 1)[:, None]).square().sum(0)).sqrt()
    trust = torch.where(kept, 1 / size.masked_fill(size == 0, torch.inf), 0)[terms.unit]
    x = (space.basis.T @ terms.x) * trust
    made, wanted = x * short[terms.unit], terms.a * (eps * trust)
    size = made.square().sum(1).sqrt()
    size = size.masked_fill(size == 0, 1)[:, None]
    value, vector = torch.linalg.eigh((made / size) @ (made / size).T)
    determined = value > 1e-10
    vector, lost = vector[:, determined] / size, space.basis @ (vector[:, ~determined] / size)
    inverse = (vector / value[determined]) @ vector.T
    y = inverse @ (made @ wanted)
    # One equation per unit: its responses repeat the same one.
    spare = int((total((made != 0).any(0).double()) > 0).sum()) - len(y)
    residual = torch.maximum((y @ made - wanted).square(), (FLOAT32 * (y @ x)).square()).sum() / max(spare, 1)
    error = ((space.basis @ inverse) * space.basis).sum(1).clamp(min=0).mul(residual).sqrt()
    lost = (lost.abs() > 1e-6 * lost.abs().max()).any(1) if lost.numel() else error < 0
    return space.basis @ y, error.masked_fill(lost, torch.inf) if spare > 0 else torch.full_like(error, torch.inf)


def separating(space: Space, terms: Terms, wanted: Tensor) -> Tensor:
    """Weights near the wanted ones under which no unit's advantages point against the logged ones; as near as found."""
    along = space.basis.T @ terms.total(terms.x * terms.a)[:, space.batches[terms.batch]]
    size = along.square().sum(0).sqrt()
    along = along[:, size > 0] / size[size > 0]
    y = space.basis.T @ wanted
    for _ in range(_ROUNDS):
        wrong = along[:, y @ along <= 1e-3 * y.square().sum().sqrt()]
        if not wrong.numel():
            break
        y = y + y.square().sum().sqrt() * 0.1 * wrong.mean(1)
    return space.basis @ y
