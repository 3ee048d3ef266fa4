"""The function `explain`, which returns every intermediate result of one computation under its name."""

from dataclasses import dataclass
from typing import Unpack

from torch import Tensor

from gdpo_core.conventions import Convention
from gdpo_core.methods import Steps
from gdpo_core.numerics.batch import Batch, MethodOptions, make_batch, with_options
from gdpo_core.registry import method_for
from gdpo_core.shared.inputs import ArrayLike


@dataclass(frozen=True)
class Explanation:
    """An explanation of one computation from rewards to advantages, in the order in which it runs.

    Shapes follow the caller's rewards: there is no prompt axis where none was given. With `groups` the statistics have
    one row per group, in the order of `group_ids`. With leave-one-out every rollout has statistics of its own, in the
    shape of what they normalise. A field is None if the method has no such step.
    """

    method: str
    convention: Convention
    weights: Tensor  # (rewards,) those of the weighted sums; saw and sa_mrpo make them of the caller's weights
    rewards: Tensor  # as given, in floating point
    lengths: Tensor | None  # tokens per response, as given, float64; None if not given
    group_ids: tuple | None  # None without `groups`
    group_means: Tensor  # (prompts, rewards) where the method has z, else (prompts,), of the weighted sums
    group_stds: Tensor  # in the same shape; for dvao and corr_grpo the divisors of their formulas
    z: Tensor | None  # (prompts, rollouts, rewards), where each reward is normalised on its own
    weighted_sums: Tensor  # (prompts, rollouts) of z, else of the raw rewards
    factors: Tensor | None  # (prompts, rollouts) by which gd2po multiplies the sums; 0 for a rollout that it drops
    batch_mean: float | Tensor | None  # None without a batch step; (prompts,) if that step is over each group
    batch_std: float | Tensor | None  # in the same shape
    advantages: Tensor  # (prompts, rollouts)


@with_options
def explain(rewards: ArrayLike, method: str = "gdpo", **options: Unpack[MethodOptions]) -> Explanation:
    """Return every step of the computation behind `advantages`; arguments and errors are those of `advantages`.

    >>> e = explain([[1, 1], [1, 0], [0, 1], [0, 0]], "grpo")
    >>> e.weighted_sums.tolist(), e.group_means.tolist()
    ([2.0, 1.0, 1.0, 0.0], 1.0)
    """
    batch = make_batch(rewards, **options)
    formula, prepared = method_for(method, batch)
    return explanation_of(method, batch, prepared, formula(prepared))


def explanation_of(method: str, batch: Batch, prepared: Batch, steps: Steps) -> Explanation:
    """Return the explanation of a finished computation, in the shapes and dtype of the caller's rewards.

    method: the name of the method.
    batch: the rewards as given.
    prepared: the batch as the convention and the method changed it.
    steps: what the method computed for `prepared`.
    """
    return Explanation(
        method=method,
        convention=batch.convention,
        weights=prepared.weights.flatten().to(batch.dtype),
        rewards=_rewards_last(batch, batch.rewards),
        lengths=batch.lengths[0] if batch.lengths is not None and batch.single else batch.lengths,
        group_ids=batch.group_ids,
        group_means=_of_groups(batch, steps.group.mean),
        group_stds=_of_groups(batch, steps.group.std),
        z=None if steps.z is None else _rewards_last(batch, steps.z),
        weighted_sums=batch.to_caller(steps.sums),
        factors=None if steps.factors is None else batch.to_caller(steps.factors),
        batch_mean=None if steps.batch is None else _of_batch(batch, steps.batch.mean),
        batch_std=None if steps.batch is None else _of_batch(batch, steps.batch.std),
        advantages=batch.to_caller(batch.zero_unrewarded(steps.advantages)),
    )


def _of_groups(batch: Batch, x: Tensor) -> Tensor:
    """Return a statistic of the groups in the caller's shape: one row per group, without the rollout axis.

    With leave-one-out the rollout axis stays, because each rollout has a statistic of its own.

    x: the mean or std of a `Normalised`.
    """
    per_reward = x.ndim == batch.rewards.ndim
    if batch.convention.leave_one_out:
        return _rewards_last(batch, x) if per_reward else batch.to_caller(x)
    if batch.index is None:
        x = x.squeeze(-1)
    x = x.movedim(0, -1) if per_reward else x
    return (x[0] if batch.single else x).to(batch.dtype)


def _of_batch(batch: Batch, x: Tensor) -> float | Tensor:
    """Return the mean or the std of GDPO's batch step as a number.

    If the convention takes the batch step over each group, the result is a tensor with a number per group.
    """
    return _of_groups(batch, x) if batch.convention.last_step == "group" else x.item()


def _rewards_last(batch: Batch, x: Tensor) -> Tensor:
    """Return a tensor with the axis of rewards last, in the dtype that the caller gets back.

    The axis of prompts is left out if the caller gave a single prompt without one.

    x: (rewards, …).
    """
    return batch.to_caller(x).movedim(0, -1).contiguous()
