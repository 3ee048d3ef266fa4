"""The registry of methods by name: the paper's, the ones that frameworks offer besides, and those of other papers.

The functions compute with a method by its name: its advantages, with and without eps, and the terms that it adds up.
"""

from dataclasses import replace
from typing import Unpack

import torch
from torch import Tensor

from gdpo_core.methods import METHODS, OF_FRAMEWORKS, Method, apply_convention, compute_advantages
from gdpo_core.numerics.batch import Batch, MethodOptions, make_batch, with_options
from gdpo_core.numerics.reductions import skipping_missing
from gdpo_core.numerics.statistics import centre
from gdpo_core.shared.errors import InputError, expect
from gdpo_core.shared.inputs import ArrayLike
from gdpo_core.successors import OF_SUCCESSORS

ALL_METHODS = METHODS | OF_FRAMEWORKS | OF_SUCCESSORS


@with_options
def advantages(rewards: ArrayLike, method: str = "gdpo", **options: Unpack[MethodOptions]) -> Tensor:
    """Return the advantages of the method of this name; rewards, options and errors are those of `grpo`.

    method: "grpo", "grpo_no_std", "gdpo", "grpo_batch_std", "reinforce_pp_baseline", "reinforce_pp", "max_rl" or a key
        of SUCCESSORS. "grpo_batch_std" is GRPO divided by the std of the sums over the batch, as with
        `scale_rewards="batch"` in TRL and ms-swift.

    >>> advantages([[1], [0]], "grpo_no_std").tolist()
    [0.5, -0.5]
    """
    return compute_advantages(method_named(method), make_batch(rewards, **options))


def method_named(method: str) -> Method:
    """Return the formulas of the method of this name. Raises InputError for a name that is unknown.

    >>> method_named("ppo")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    gdpo_core.InputError: method: expected one of grpo, grpo_no_std, gdpo, grpo_batch_std, ..., got 'ppo'
    """
    if not isinstance(method, str) or method not in ALL_METHODS:
        raise InputError(f"method: expected one of {', '.join(ALL_METHODS)}, got {method!r}")
    return ALL_METHODS[method]


def method_for(method: str, batch: Batch) -> tuple[Method, Batch]:
    """Return the method of this name and the batch to compute with, after `apply_convention` has changed them.

    Under some conventions GRPO takes the place of GDPO for a single reward, or 0 the place of missing rewards; SAW and
    SA-MRPO change the weights. Raises InputError for a name that is unknown.
    """
    return apply_convention(method_named(method), batch)


def undivided_terms(formula: Method, batch: Batch) -> Tensor:
    """Return the terms that a method multiplies by the weights and adds up: each reward minus the means that the method
    subtracts, before anything is divided by a std.

    The terms have the shape of the batch's rewards. They are NaN where the convention gives no advantage, as in a group
    with a missing reward that it does not skip.
    formula, batch: as `method_for` returns them.

    Raises InputError for a method that adds up z-scores, as GDPO and MO-GRPO do.
    """
    expect(not formula.decoupled, "method", "one that adds up the rewards themselves", "one that adds up z-scores")
    subtract_means = (METHODS["grpo_no_std"] if formula.centres_groups else formula).in_groups
    weights_of_one_reward = torch.eye(len(batch.rewards))
    x = torch.stack([subtract_means(batch.with_weights(weights)).advantages for weights in weights_of_one_reward])
    if formula.centres_groups:
        return x
    over = batch.all_responses
    return centre(x, skipping_missing(over) if bool(x.isnan().any()) else over)[1]


def advantages_without_eps(method: str, batch: Batch) -> Tensor | None:
    """Return the advantages as they are with every eps set to 0; None if no eps can make equal advantages differ.

    The advantages are (prompts, rollouts), or (responses,) with group ids. The result is None where the convention has
    no eps. It is None, too, where a whole group has one divisor, because equal advantages then stay equal with an eps.
    So an eps can matter only where rewards are normalised one by one, or with leave-one-out, where every rollout has a
    divisor of its own.
    """
    c = batch.convention
    if not (method_named(method).decoupled or c.leave_one_out) or (bare := c.without_eps) is c:
        return None
    formula, batch = method_for(method, replace(batch, convention=bare))
    return batch.zero_unrewarded(formula(batch).advantages)
