"""Finds the direction of the weights from logged advantages, as the eigenvector of a smallest eigenvalue.

In every unit (a group or a batch) a method divides by one number, so the advantages are a = c · Xw, with the terms X
and an unknown c > 0. So Xw is parallel to a, and w minimises the part of Xw orthogonal to a: w' Σ X'(1 − aa'/a'a)X w.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from gdpo_core.reproduce.terms import FLOAT32, Terms

# The part of the variance of Xw orthogonal to a that counts as round-off of the log.
_BESIDE = 1e-7
# A combination of rewards with less than this part of their variance is round-off.
_NOTHING = 1e-11
_TRIED = 32


@dataclass(frozen=True)
class Space:
    """The weights that make the logged advantages, up to a factor for each unit."""

    basis: Tensor  # (rewards, …) orthonormal, spans all of these weights
    free: Tensor  # (rewards, …) orthonormal, spans what can be added to the weights without changing the advantages
    direction: Tensor | None  # (rewards,) orthogonal to `free`; None where the log leaves several directions open
    batches: Tensor  # (batches,) whether the batch fits these weights
    scale: Tensor  # (rewards,) root mean square of each reward's terms; 0 for a reward that never varies
    error: Tensor  # (rewards,) standard error of the direction; infinite where there is none


def space(terms: Terms, batches: int) -> Space:
    """The weights that most batches agree on; batches that do not fit them are left out."""
    scale = (terms.x.square().sum(1) / terms.part.sum().clamp(min=1)).sqrt()
    seen = scale > 0
    rewards, dead = len(scale), torch.eye(len(scale), dtype=scale.dtype)[:, ~seen]
    unsure = torch.full_like(scale, torch.inf)
    if not seen.any():
        return Space(dead, dead, None, torch.zeros(batches, dtype=torch.bool), scale, unsure)
    every, beside, along, noise = _by_batch(terms, terms.x[seen] / scale[seen, None], batches)

    tried = _directions(every, beside)  # (directions, rewards)
    signal = torch.einsum("di,bij,dj->db", tried, every, tried)
    left = torch.einsum("di,bij,dj->db", tried, beside, tried)
    size = every.diagonal(dim1=1, dim2=2).sum(1)
    live = size > 0
    fits = (left <= _BESIDE * signal + noise) & (signal > _NOTHING * size) & live
    batch_fits = fits[fits.sum(1).argmax()]
    chosen = batch_fits if batch_fits.any() else live
    every, beside, along, noise = (m[chosen].sum(0) for m in (every, beside, along, noise))

    value, vector = torch.linalg.eigh(every)
    nothing = value <= _NOTHING * value.sum()
    if nothing.all():  # groups of one, whose mean is all they have
        return Space(dead, dead, None, torch.zeros(batches, dtype=torch.bool), scale, unsure)
    unseen, visible = vector[:, nothing], vector[:, ~nothing]
    value, vector = torch.linalg.eigh(visible.T @ beside @ visible)
    small = value <= max(10 * _NOTHING * every.trace().item(), noise.item(), value[0].item())
    found = visible @ vector[:, small]

    def in_rewards(columns: Tensor) -> Tensor:
        """Columns of scaled coordinates as columns of weights."""
        w = scale.new_zeros(rewards, columns.shape[1])
        w[seen] = columns / scale[seen, None]
        return w

    free = _orthonormal(torch.cat([dead, in_rewards(unseen)], 1))
    found = in_rewards(found * torch.where(along @ found < 0, -1.0, 1.0))
    found = found - free @ (free.T @ found)
    basis = torch.cat([free, _orthonormal(found)], 1)
    if found.shape[1] > 1:
        return Space(basis, basis, None, batch_fits, scale, unsure)
    # The residual per response, but at least the usual round-off; `noise` allows 4 times that, so 16 of its square.
    spread = (torch.maximum(value[0], noise / 16) / terms.part.sum()).sqrt()
    other = visible @ vector[:, ~small]
    error = scale.new_zeros(rewards)
    error[seen] = (other.square() / value[~small]).sum(1).sqrt() * spread / scale[seen]
    direction = found[:, 0]
    largest = direction.abs().max()
    return Space(basis, free, direction / largest, batch_fits, scale, error / largest)


def _by_batch(terms: Terms, x: Tensor, batches: int) -> tuple[Tensor, ...]:
    """X'X and its part orthogonal to a (batches, rewards, rewards), X'a (batches, rewards), noise (batches,).

    X of each unit is scaled to size 1. noise: the part orthogonal to a that round-off can make with weights of size 1.
    """
    k, total = len(x), terms.total
    count = total(terms.part).clamp(min=1)
    size = total(x.square().sum(0)) / count
    trust = terms.part / (size[terms.unit] + terms.noise.square()).masked_fill(size[terms.unit] == 0, torch.inf)
    weight = total(trust)
    weight = weight.masked_fill(weight == 0, 1)
    # A last step that subtracts a mean hides the mean of Xw.
    x = (x - (total(x * trust) / weight)[:, terms.unit]) * trust.sqrt()
    a = (terms.a - (total(terms.a * trust) / weight)[terms.unit]) * trust.sqrt()
    every = total((x[:, None] * x[None]).view(k * k, -1)).T.view(-1, k, k)
    along, square = total(x * a).T, total(a * a)  # (units, rewards), (units,)
    explained = along[:, :, None] * along[:, None, :] / square.masked_fill(square == 0, 1)[:, None, None]
    along = along / square.sqrt().masked_fill(square == 0, 1)[:, None]
    noise = total(trust * (4 * FLOAT32 * terms.noise).square())
    sums = (every, every - explained, along, noise)
    return tuple(value.new_zeros(batches, *value.shape[1:]).index_add_(0, terms.batch, value) for value in sums)


def _directions(every: Tensor, beside: Tensor) -> Tensor:
    """(directions, rewards) the best direction of all batches together, of single batches, and of a few together."""
    tried = [_best(every.sum(0, keepdim=True), beside.sum(0, keepdim=True))]
    for together in (1, 4, 16):
        number = torch.arange(len(every)) // together
        count = int(number[-1]) + 1
        sums = [m.new_zeros(count, *m.shape[1:]).index_add_(0, number, m) for m in (every, beside)]
        some = torch.linspace(0, count - 1, min(count, _TRIED)).round().long()
        tried.append(_best(*(m[some] for m in sums)))
    return torch.cat(tried)


def _best(every: Tensor, beside: Tensor) -> Tensor:
    """(…, rewards) the direction with the smallest part orthogonal to a, among those in which the rewards vary."""
    value, vector = torch.linalg.eigh(every)
    total = value.sum(-1, keepdim=True)
    root = value.clamp(min=0).rsqrt().masked_fill(value <= _NOTHING * total, 0)
    white = vector * root[..., None, :]
    left = white.mT @ beside @ white
    left = left + torch.diag_embed((root == 0).to(left) * 2)
    best = (white @ torch.linalg.eigh(left)[1][..., :1])[..., 0]
    return best / best.square().sum(-1, keepdim=True).sqrt()


def _orthonormal(columns: Tensor) -> Tensor:
    """An orthonormal basis of linearly independent columns."""
    return torch.linalg.qr(columns)[0] if columns.shape[1] else columns
