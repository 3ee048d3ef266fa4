"""The weights that logged advantages show, for one method and convention.

In every unit, which is a group or a batch, a method divides by one number. So the advantages are a = Xw / c. X are the
terms that the method adds up, and w are the weights. The number c > 0 is not in the log.

Direction: Xw is parallel to a, so w minimises the part of Xw that is orthogonal to a: w' Σ X'(1 − aa'/a'a)X w.

Scale: c is the std of Xw plus eps. With w = scale · d, Xd is divided by its own std plus eps / scale, and that shows
the scale.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from gdpo_audit.recipe.recipe import starts_of
from gdpo_audit.recipe.terms import BOUND, FLOAT32, Terms
from gdpo_core.conventions import Convention
from gdpo_core.numerics.batch import Batch
from gdpo_core.registry import method_for

# The part of the variance of Xw orthogonal to a that counts as round-off of the log.
_ORTHOGONAL = 1e-7
# The part of the rewards' variance below which the variance of a combination of them is round-off.
_NOTHING = 1e-11
# The relative error of the scale where a method divides by nothing.
_SCALE_UNDIVIDED = 1e-5
_BATCHES_TRIED = 32
_ROUNDS = 200
# The methods that divide by nothing after they added up.
UNDIVIDED = ("grpo_no_std", "mo_grpo")
# The methods that add no eps to their divisor.
WITHOUT_EPS = (*UNDIVIDED, "max_rl")
# The factor by which the error of weights is larger than chance makes it where it repeats itself.
_REPEATED = 3
# The part of a unit's divisor by which it may be off, in addition to rounding.
_DIVISOR_OFF = 1e-3


@dataclass(frozen=True)
class Solution:
    """The weights with which the sums of `Terms` are the logged advantages, if each unit is multiplied by a positive
    factor of its own.

    There are many such weights: null_space · x + directions · y, with any vector x, and with each vector y for which
    all factors are positive. If there is a single direction, y is any number above 0.
    """

    # (rewards, …) orthonormal columns; a multiple of each can be added to the weights and changes no advantage
    null_space: Tensor
    # (rewards, …) columns orthogonal to `null_space`: one, whose largest size is 1; or several, orthonormal; or none
    directions: Tensor
    batches: Tensor  # (batches,) whether these weights make the advantages of the batch
    size: Tensor  # (rewards,) root mean square of each reward's numbers in `Terms.x`; 0 for one that never varies
    error: Tensor  # (rewards,) standard error of the one direction; infinite where there are several or none

    @property
    def is_direction(self) -> bool:
        """Whether the log shows the weights up to one common factor, and up to what `null_space` can add to them."""
        return self.directions.shape[1] == 1

    @cached_property
    def open_rewards(self) -> list[int]:
        """The indices of the rewards whose weight can change without any change of the advantages."""
        return [int(k) for k in (self.null_space.abs().sum(1) > 1e-6).nonzero().flatten()]

    def completed(self, weights: Tensor, wanted: Tensor) -> Tensor:
        """Return `weights` plus the part of `wanted` that lies in the null space, and so does not change the
        advantages. All three are (rewards,).
        """
        return weights + self.null_space @ (self.null_space.T @ wanted)


@np.errstate(divide="ignore", invalid="ignore", over="ignore")
def solution_of(terms: Terms, batches: int, fewest: float = 0) -> Solution:
    """Return the weights that fit the logged advantages of the most batches.

    These batches are found by `_agreeing_batches`, and the weights are then solved anew from all of them together. If
    no batch fits, the weights are solved from all batches in which a reward varies.

    terms: the terms that the method multiplies by the weights and adds up, with the advantages.
    batches: the number of batches.
    fewest: how many batches have to fit; if fewer do, no weights are solved for, which saves time.
    """
    x = terms.x.numpy()
    size = np.sqrt(np.square(x).sum(1) / max(terms.included.sum().item(), 1))
    varying = size > 0
    constant = np.eye(len(size))[:, ~varying]
    unseen_error, no_direction = np.full_like(size, np.inf), np.zeros((len(size), 0))
    if not varying.any():
        return _solution(constant, no_direction, np.zeros(batches, bool), size, unseen_error)
    moments = _moments(terms, x[varying] / size[varying, None], batches)
    live, fits = moments.variance > 0, _agreeing_batches(moments)
    if fits.sum() < fewest:
        return _solution(constant, no_direction, fits, size, unseen_error)
    moments = moments.summed(fits if fits.any() else live)

    value, vector = np.linalg.eigh(moments.every[0])
    nothing = value <= _NOTHING * value.sum()
    if nothing.all():  # as in groups of one response, of which nothing is left once the mean is taken off
        return _solution(constant, no_direction, np.zeros(batches, bool), size, unseen_error)
    unseen, visible = vector[:, nothing], vector[:, ~nothing]
    value, vector = np.linalg.eigh(visible.T @ moments.orthogonal[0] @ visible)
    round_off = moments.round_off[0]
    small = value <= max(10 * _NOTHING * moments.variance[0], round_off, value[0])
    small |= value <= ((visible.T @ moments.rounding[0] @ visible) @ vector * vector).sum(0)
    parallel, across = visible @ vector[:, small], visible @ vector[:, ~small]

    null_space = np.linalg.qr(np.concatenate([constant, _per_reward(unseen, size)], 1))[0]
    directions = _per_reward(parallel * np.where(moments.along @ parallel < 0, -1.0, 1.0), size)
    directions = directions - null_space @ (null_space.T @ directions)
    if directions.shape[1] > 1:
        return _solution(null_space, np.linalg.qr(directions)[0], fits, size, unseen_error)
    # The residual per response, but at least the usual round-off; the bound allows BOUND times that.
    residual = np.sqrt(max(value[0], round_off / BOUND**2) / terms.included.sum().item())
    error = _per_reward(np.sqrt((np.square(across) / value[~small]).sum(1))[:, None] * residual, size)[:, 0]
    if bool(terms.rounding.any()):  # responses with equal rewards are rounded alike, so their errors do not average out
        error = _REPEATED * error
    largest = np.abs(directions).max()
    return _solution(null_space, directions / largest, fits, size, error / largest)


def _solution(*arrays: np.ndarray) -> Solution:
    """Return a solution from arrays of its fields, in their order."""
    return Solution(*map(torch.from_numpy, arrays))


def _per_reward(columns: np.ndarray, size: np.ndarray) -> np.ndarray:
    """Return (rewards, …) the weights on the terms, given the weights on terms that were divided by their size.

    columns: (varying rewards, …) the weights on the divided terms, without the rewards whose size is 0; those rewards
        get weight 0.
    size: (rewards,) the root mean square of each reward's terms.
    """
    weights = np.zeros((len(size), columns.shape[1]))
    weights[size > 0] = columns / size[size > 0, None]
    return weights


@dataclass(frozen=True)
class _Moments:
    """Sums of products from which the weights are found, for each batch; the first axis numbers the batches.

    X holds the terms of the rewards that vary, (responses, rewards), and a the logged advantages. If the method may
    have subtracted a mean over each unit, this mean is taken off X and a here too. In each unit X is then scaled to
    about size 1, and a by the same factors. The products are taken in each unit and added up over the units of a batch.
    X' is X transposed, and |a| is the length of a in the unit.

    With weights w, the squared length of the weighted sums Xw is w'X'Xw. It has a part that is orthogonal to a. For the
    right weights, only round-off and the rounding of a make this part differ from 0.
    """

    every: np.ndarray  # (batches, rewards, rewards) X'X
    orthogonal: np.ndarray  # (batches, rewards, rewards) X'X for the part of X that is orthogonal to a in each unit
    along: np.ndarray  # (batches, rewards) X'a / |a|
    round_off: np.ndarray  # (batches,) how much of the orthogonal part round-off can make with weights of size 1
    rounding: np.ndarray  # (batches, rewards, rewards) S: with weights w, rounding of a can be w'Sw of that part

    @property
    def variance(self) -> np.ndarray:
        """(batches,) the sum of the squares of all numbers in X: the diagonal of X'X, added up over the rewards."""
        return self.every.trace(axis1=1, axis2=2)

    def summed(self, batches: np.ndarray) -> "_Moments":
        """Return the sums over some batches, as if these were one batch.

        batches: (batches,) which of them count.
        """
        moments = (self.every, self.orthogonal, self.along, self.round_off, self.rounding)
        return _Moments(*(moment[batches].sum(0, keepdims=True) for moment in moments))


def _moments(terms: Terms, x: np.ndarray, batches: int) -> _Moments:
    """Return, for each batch, the sums of products of terms and advantages that `_Moments` names.

    terms: the logged advantages, and which responses count.
    x: (rewards, responses) the terms of the rewards that vary, for each reward divided by the root of their mean
        square.
    batches: the number of batches.
    """
    a, included, unit, batch = (t.numpy() for t in (terms.a, terms.included, terms.unit, terms.batch))
    first = starts_of(unit)

    def total(value: np.ndarray) -> np.ndarray:
        """Return (…, units) the sums of a value over the responses of each unit, which stand together.

        value: (…, responses).
        """
        return np.add.reduceat(value, first, axis=-1)

    size = (total(np.square(x).sum(0)) / np.maximum(total(included), 1))[unit]
    round_off = terms.round_off.numpy()
    trust = np.where(size > 0, included / (size + np.square(round_off)), 0)
    root = np.sqrt(trust)
    if terms.shifted:  # A batch step that subtracts a mean hides the mean of Xw.
        weight = total(trust)
        weight[weight == 0] = 1
        x, a = (value - (total(value * trust) / weight)[..., unit] for value in (x, a))
    x, a = x * root, a * root
    every = total(x[:, None] * x).transpose(2, 0, 1)
    along, square = total(x * a).T, total(a * a)  # (units, rewards), (units,)
    square[square == 0] = 1
    orthogonal = every - along[:, :, None] * along[:, None, :] / square[:, None, None]
    of_round_off = total(trust * np.square(BOUND * FLOAT32 * round_off))
    rounding = (total(trust * np.square(terms.rounding.numpy())) / square)[:, None, None] * every
    sums = (every, orthogonal, along / np.sqrt(square)[:, None], of_round_off, rounding)
    return _Moments(*(_of_batches(value, batch, batches) for value in sums))


def _of_batches(value: np.ndarray, batch: np.ndarray, batches: int) -> np.ndarray:
    """Return (batches, …) the sums of a value over the units of each batch, which stand together.

    value: (units, …).
    batch: (units,) the batch of each unit.
    batches: the number of batches.
    """
    if len(batch) == batches:
        return value
    return np.add.reduceat(value, starts_of(batch), axis=0)


def _agreeing_batches(moments: _Moments) -> np.ndarray:
    """Return (batches,) whether a batch fits one direction of the weights. Several directions are tried, and the one
    that most batches fit is meant.

    A direction is weights up to a common factor. A batch fits it if the weighted sums of its terms are parallel to its
    advantages. Even the best direction may fit only a few batches, or none.

    The tried directions are best for all batches together, for 16 batches in a row, for 4 in a row or for single
    batches. Of each kind there are at most `_BATCHES_TRIED`, from all over the run. If several directions fit equally
    many batches, the first in this order counts.
    """
    batches, sums = len(moments.every), list[list[np.ndarray]]([[], []])
    for together in dict.fromkeys(min(number, batches) for number in (batches, 16, 4, 1)):
        first = np.arange(0, batches, together)
        some = np.linspace(0, len(first) - 1, min(len(first), _BATCHES_TRIED)).round().astype(int)
        for kept, moment in zip(sums, (moments.every, moments.orthogonal), strict=True):
            kept.append(np.add.reduceat(moment, first, axis=0)[some])
    tried = _most_parallel(*map(np.concatenate, sums))  # (directions, rewards)

    def squared(moment: np.ndarray) -> np.ndarray:
        """Return (batches, directions) w'Mw for the weights w of each direction and the matrix M of each batch."""
        return ((tried @ moment) * tried).sum(-1)

    signal, variance = squared(moments.every), moments.variance[:, None]
    allowed = _ORTHOGONAL * signal + moments.round_off[:, None] + squared(moments.rounding)
    fits = (squared(moments.orthogonal) <= allowed) & (signal > _NOTHING * variance) & (variance > 0)
    return fits[:, fits.sum(0).argmax()]


def _most_parallel(every: np.ndarray, orthogonal: np.ndarray) -> np.ndarray:
    """Return (…, rewards) the direction, of length 1, of the weights that fit the logged advantages best.

    Under them the weighted sums are as nearly parallel to the advantages as possible: the part of their variance that
    is orthogonal to the advantages is smallest.

    every, orthogonal: (…, rewards, rewards) as in `_Moments`.
    """
    value, vector = np.linalg.eigh(every)
    root = np.where(value <= _NOTHING * value.sum(-1, keepdims=True), 0, 1 / np.sqrt(np.maximum(value, 0)))
    white = vector * root[..., None, :]
    left = white.swapaxes(-1, -2) @ orthogonal @ white + 2.0 * (root == 0)[..., None] * np.eye(root.shape[-1])
    best = (white @ np.linalg.eigh(left)[1][..., :1])[..., 0]
    return best / np.sqrt(np.square(best).sum(-1, keepdims=True))


def eps_of(c: Convention, method: str) -> float:
    """Return the eps that a convention adds to the std of a method's sums. It is 0 for a method that adds none, and for
    GDPO if the convention does not add the eps of the batch step to the std.
    """
    if method == "gdpo":
        return c.batch_eps if c.batch_eps_to == "std" else 0.0
    return 0.0 if method in WITHOUT_EPS else c.sum_eps


def scale_of(solution: Solution, terms: Terms, batch: Batch, method: str) -> tuple[float | None, float, float]:
    """Return three numbers on the scale of the weights.

    The first is the factor that turns the direction in `solution` into weights, and the second is the relative error of
    this factor. The third is the share of the units in which the log shows the divisor that the method would have. A
    unit is a group or a batch, whose sums are divided by one number. The factor is None and its error infinite if the
    divisors show no scale.

    A method that divides by std plus eps shows the scale, as eps does not grow with the weights. A method that divides
    by nothing shows it in the size of the advantages.

    solution: the weights up to a factor, of which the first direction is used.
    terms: the terms that the method multiplies by the weights and adds up, with the logged advantages.
    batch: the rewards, with the convention.
    method: the id of the method.
    """
    direction, eps = solution.directions[:, 0], eps_of(batch.convention, method)
    total, x = terms.total, direction @ terms.x
    a = (terms.a - terms.mean(terms.a, terms.included)) * terms.included
    along, square = total(a * x), total(a.square())
    by = along / square  # std + eps / factor; 1 / factor where nothing is divided
    round_off = total(terms.round_off.square()) / total(terms.included).clamp(min=1)
    rounding = (total(terms.rounding.square()) / square).sqrt().nan_to_num(posinf=0)  # relative, of a
    trust = torch.where(solution.batches[terms.batch] & (along > 0), 1 / (1 + round_off), 0)
    if method in UNDIVIDED:
        eps, std, trust = 1.0, torch.zeros_like(by), trust * square
    else:
        formula, batch = method_for(method, batch.with_weights(direction))
        steps = formula(batch)
        std = (steps.group if method == "grpo" or steps.batch is None else steps.batch).std.flatten()
        trust = torch.where(std > 0, trust / std.square(), 0).nan_to_num()
    left = _median(by - std, trust)
    off = _DIVISOR_OFF + 2 * rounding + BOUND * FLOAT32 * round_off.sqrt() * square.sqrt() / along
    near = (by - std - max(left or 0, 0)).abs() <= off * by
    fits = ((near & (trust > 0)).sum() / (trust > 0).sum().clamp(min=1)).item()
    if eps == 0 or left is None or left <= 0:
        return None, torch.inf, fits
    if method in UNDIVIDED:
        return 1 / left, _SCALE_UNDIVIDED + (_median(rounding, trust) or 0), fits
    return eps / left, (FLOAT32 / trust.sum().sqrt().item() + (_median(rounding * std, trust) or 0)) / left, fits


def _median(values: Tensor, weights: Tensor) -> float | None:
    """Return the weighted median of some values, which a few outliers hardly move; None if no weight is above 0.

    values: the numbers.
    weights: one per value; values of weight 0 do not count.
    """
    if not (weights > 0).any():
        return None
    values, order = values[weights > 0].sort()
    share = weights[weights > 0][order].cumsum(0)
    return values[torch.searchsorted(share, share[-1] / 2)].item()


def separate(solution: Solution, terms: Terms, wanted: Tensor) -> Tensor:
    """Return (rewards,) weights of a family, near `wanted`, whose weighted sums have the direction of the advantages.

    A unit is a group or a batch. Under all weights of the family, the weighted sums in each unit are parallel to the
    logged advantages, but may point the opposite way. Under the result their dot product with the advantages is
    positive in each unit, unless it is 0 there under all weights of the family. If a batch does not fit the family, its
    units do not count. If `_ROUNDS` rounds find no such weights, the weights of the last round are returned.

    solution: the family, with the batches that fit it.
    terms: the terms that a method multiplies by the weights and adds up, with the logged advantages.
    wanted: (rewards,) the weights to stay near.
    """
    along = solution.directions.T @ terms.total(terms.x * terms.a)[:, solution.batches[terms.batch]]
    along = along[:, along.any(0)]
    return solution.completed(solution.directions @ separating(along, solution.directions.T @ wanted), wanted)


def separating(columns: Tensor, start: Tensor) -> Tensor:
    """Return a vector near `start` whose dot product with every column is positive. The search moves from `start` step
    by step; the vector after `_ROUNDS` steps is returned even if some products are not positive yet.

    columns: (numbers, columns).
    start: (numbers,), like the result.
    """
    y, columns = start, torch.nn.functional.normalize(columns, dim=0)
    for _ in range(_ROUNDS):
        wrong = columns[:, y @ columns <= 1e-3 * y.norm()]
        if not wrong.numel():
            break
        y = y + 0.1 * y.norm() * wrong.mean(1)
    return y
