"""Decides which weights that reproduce a log are plausible: chance, or another convention, can reproduce it too."""

from collections.abc import Iterator, Sequence

import torch

from gdpo_core.conventions import CONVENTIONS, Convention
from gdpo_core.reproduce.factor import eps_of
from gdpo_core.reproduce.nice import ODD, simplest
from gdpo_core.reproduce.recipe import Log, Recipe
from gdpo_core.reproduce.terms import Terms
from gdpo_core.reproduce.weights import Space

# An eps below this part of the spread shows little of the weights. A larger eps could imitate another method, so then
# the weights have to be round numbers; more so where the largest weight is below _SMALL.
_EPS_BESIDE = 0.01
_SMALL = 0.01
# Nobody chooses one weight so much smaller than another.
_FAR_APART = 1e-5
# A log with more responses than this has more equations than weights.
_FEW = 4096
# Where two scales of the weights fit, a scale is implausible if all of its weights are at least the first number, or
# all are below the second.
_SMALLEST, _LARGEST = 10, 0.1


def spare(log: Log, terms: Terms, seen: Space) -> float:
    """The number of independent equations in the log minus the number of unknowns; infinite for a large log."""
    if terms.x.shape[1] > _FEW:
        return torch.inf
    group = log.group_of_response
    mark = (
        terms.x.T @ torch.rand(len(terms.x), generator=torch.Generator().manual_seed(0), dtype=torch.float64) * 1e6
    ).round()
    mark = mark[terms.part > 0]
    kinds = torch.unique(torch.stack([group[terms.part > 0].to(mark), mark], 1), dim=0)[:, 0].long().bincount()
    live = torch.zeros(len(terms.batch), dtype=torch.bool)
    live[terms.unit[(terms.x != 0).any(0)]] = True
    shown = int((seen.scale > 0).sum())
    return (kinds - 1).clamp(min=0).sum().item() - int(live.sum()) - (shown - 1)


def believed(
    weights: Sequence[float], odd: int, unknown: Sequence[int], terms: Terms, eps: float, equations: float
) -> bool:
    """Whether someone may have chosen these weights, which reproduce a log.

    odd: see `nice.simplest`; 0 for the weights asked for and for ones, which are always plausible. unknown: indices of
    the weights that the log cannot tell. equations: see `spare`.
    """
    if odd == 0:
        return True
    w = torch.tensor(weights, dtype=torch.float64)
    size = w.abs().max().item()
    known = [abs(x) for k, x in enumerate(weights) if x and k not in unknown]
    if size == 0 or (known and min(known) < _FAR_APART * size) or (odd >= ODD and equations <= 0):
        return False
    spread = (w @ terms.x).square().sum().div(terms.part.sum()).sqrt().item()
    # With very small weights eps can do what another method did.
    return eps < _EPS_BESIDE * spread or odd <= 1 + len(w) * (2 if size >= _SMALL else 1)


def rivals(log: Log, recipe: Recipe, conventions: Sequence[str]) -> Iterator[Recipe]:
    """Equivalent recipes: the same method under another convention, with the weights multiplied by a factor."""
    weights = [w for k, w in enumerate(recipe.weights) if k not in recipe.unknown]
    if all(w == 1 for w in weights):
        return
    for name in conventions:
        factor = _factor(log, recipe.method, CONVENTIONS[recipe.convention], CONVENTIONS[name])
        if factor is not None and factor != 1 and _likely([factor * w for w in weights], weights):
            yield Recipe(recipe.method, name, tuple(factor * w for w in recipe.weights), recipe.unknown, True)


def _factor(log: Log, method: str, made: Convention, other: Convention) -> float | None:
    """The factor of the weights that gives the same advantages under the other convention; None if there is none."""
    if method != "grpo_no_std":
        eps, others = eps_of(made, method), eps_of(other, method)
        return others / eps if eps and others else None
    if made.leave_one_out == other.leave_one_out or log.group is not None:
        return None
    size = log.rewards.shape[1]  # the mean of the others is n / (n − 1) times as far away
    return (size - 1) / size if other.leave_one_out else size / (size - 1)


def _likely(weights: Sequence[float], beside: Sequence[float]) -> bool:
    """Whether the first weights are about as plausible as the second."""
    size = [abs(w) for w in weights if w]
    if not size or min(size) >= _SMALLEST or max(size) < _LARGEST:
        return False
    odd = [sum((simplest(w, 1e-6) or (w, ODD))[1] for w in ws) for ws in (weights, beside)]
    return odd[0] <= odd[1] + 1 + len(weights)
