"""The push of an update on each reward: the correlation of the advantages with it inside groups."""

from typing import Unpack

import torch
from torch import Tensor

from gdpo_core.numerics.batch import Batch, MethodOptions, make_batch, with_options
from gdpo_core.numerics.reductions import Reduction, skipping_missing
from gdpo_core.numerics.statistics import centre
from gdpo_core.registry import method_for
from gdpo_core.shared.inputs import ArrayLike

# Without std, advantages are as large as the rewards are apart, and shrink as the rewards saturate.
NO_STD = "grpo_no_std"
OTHER_STEPS = (
    "GRPO without std takes steps of another length than methods that divide by a std, and a push only knows the "
    "direction of a step: trained on a small model, GRPO without std learnt less than GRPO, with a push about as large."
)
# A push of less than ABOUT_0, as printed, hardly raises a reward. One that falls by less than FALL changes little.
ABOUT_0, FALL = 0.05, 0.1
SHARE_EXPLAINED = "The share of a reward in the update is its part of the variance of the advantages."
PUSH_EXPLAINED = (
    "The push on a reward is the correlation of advantage and reward inside groups: at +1 the advantage follows this "
    "reward exactly, near 0 the update hardly moves the reward, and below 0 it tends to lower the reward."
)


@with_options
def push(rewards: ArrayLike, method: str = "gdpo", **options: Unpack[MethodOptions]) -> tuple[float, ...]:
    """Return how much the update raises each reward, from −1 to 1, whichever reward is the cause.

    The push is the correlation of advantage and reward inside groups. With d_k = r_k − mean_G r_k the push on reward k
    is Σ A d_k / √(Σ A² Σ d_k²) over all responses that have an advantage. At 1 the advantage follows this reward
    exactly, near 0 the update hardly moves the reward, and below 0 it tends to lower the reward.

    A missing reward is left out of its mean, of Σ A d_k and of Σ d_k². The push is 0 where the reward is constant in
    every group, and where every advantage is 0. The result has one number per reward. Arguments and errors are those of
    `advantages`.

    Source: Price's equation, by which selection changes the mean of a trait by its covariance with fitness, as told by
    Frank, Natural selection IV, J. Evol. Biol. 25 (2012). A policy gradient selects answers by their advantage.

    >>> [round(x, 2) for x in push([[1, 0], [0, 0], [1, 0], [0, 10]], "grpo")]
    [-0.49, 0.99]
    >>> [round(x, 2) for x in push([[1, 0], [0, 0], [1, 0], [0, 10]], "gdpo")]
    [0.46, 0.46]
    """
    batch = make_batch(rewards, **options).in_float64()
    formula, prepared = method_for(method, batch)
    a = prepared.zero_unrewarded(formula.advantages(prepared))
    return push_under(batch, a)


def same_step(first: str, second: str) -> bool:
    """Return whether the steps of two methods have about the same length, so that their pushes can be compared.

    A push is a correlation: it knows the direction of a step, not its length. Methods that divide by a std make
    advantages of about unit size; GRPO without std does not.

    first, second: the ids of the methods.

    >>> same_step("grpo", "gdpo"), same_step("grpo", "grpo_no_std"), same_step("grpo_no_std", "grpo_no_std")
    (True, False, True)
    """
    return (first == NO_STD) == (second == NO_STD)


def stops(before: float, after: float) -> bool:
    """Return whether a push falls to about 0 or below from one that counts, both as they are printed.

    before, after: the push on a reward under two methods, in the direction that the weight of the reward asks for.

    >>> stops(0.14, 0.04), stops(0.13, 0.04), stops(0.5, 0.05), stops(0.1, -0.2), stops(0.0, -0.2)
    (True, False, False, True, False)
    """
    before, after = round(before, 2), round(after, 2)
    return after < ABOUT_0 and before >= max(after, 0.0) + FALL - 1e-9


def push_under(batch: Batch, a: Tensor) -> tuple[float, ...]:
    """Return the push of advantages on each reward of a batch, one number per reward from −1 to 1.

    a: (prompts, rollouts) or (responses,) the advantages.
    """
    over = batch.all_responses
    products, squares = push_sums(a, distances(batch), over)
    return tuple(push_from_sums(products, squares, over.total(advantage_or_zero(a).square())).flatten().tolist())


def distances(batch: Batch) -> Tensor:
    """Return (rewards, …) each reward minus its mean in the group; 0 where the reward is missing."""
    over = skipping_missing(batch.group) if batch.missing else batch.group
    return centre(batch.rewards, over)[1].nan_to_num_(nan=0.0)


def push_sums(a: Tensor, distance: Tensor, over: Reduction) -> tuple[Tensor, Tensor]:
    """Return the sums Σ A d_k and Σ d_k² from which `push_from_sums` makes the push, each (rewards, …).

    A response whose advantage is NaN or infinite is left out of both sums.

    a: the advantages A.
    distance: d_k, each reward minus its mean in the group.
    over: the reduction over the responses that are summed.
    """
    return over.total(distance * advantage_or_zero(a)), over.total((distance * a.isfinite()).square())


def push_from_sums(products: Tensor, squares: Tensor, of_advantages: Tensor) -> Tensor:
    """Return the push Σ A d_k / √(Σ A² Σ d_k²) on each reward, clipped to −1 and 1; 0 where the divisor is 0.

    A is the advantage, d_k reward k minus its mean in the group.

    products: Σ A d_k.
    squares: Σ d_k².
    of_advantages: Σ A².
    """
    size = squares.sqrt() * of_advantages.sqrt()
    return torch.where(size > 0, products / size, 0.0).clamp(-1, 1)


def advantage_or_zero(a: Tensor) -> Tensor:
    """Return the advantages with 0 in place of NaN and infinity."""
    return a.masked_fill(~a.isfinite(), 0)
