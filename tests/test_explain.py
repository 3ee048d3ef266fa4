"""Every intermediate against the naive loop, in the shape of the caller's rewards."""

from dataclasses import FrozenInstanceError
from itertools import product
from math import nan, sqrt

import naive
import pytest
import torch
from helpers import close, f64
from hypothesis import given

import gdpo_core as gc

METHODS = pytest.mark.parametrize("method", naive.METHODS)
CONVENTIONS = pytest.mark.parametrize("convention", (gc.PAPER, gc.TRL), ids=lambda c: c.name)


def options_of(batch, convention):
    return {"weights": None if batch.weights is None else f64(batch.weights), "convention": convention}


def check_batch_step(e, expected):
    if expected.z is None:
        assert e.z is None and e.batch_mean is None and e.batch_std is None
    else:
        assert isinstance(e.batch_mean, float) and isinstance(e.batch_std, float)
        close([e.batch_mean, e.batch_std], [expected.batch_mean, expected.batch_std])


@CONVENTIONS
@METHODS
@given(naive.batches())
def test_with_groups_every_intermediate_is_that_of_the_naive_loop(method, convention, batch):
    options = options_of(batch, convention)
    e = gc.explain(f64(batch.rows), method, groups=batch.ids, **options)
    expected = naive.compute(batch.rows, batch.ids, method, batch.weights, convention.name)

    assert e.method == method and e.convention is convention
    close(e.rewards, batch.rows, 0)
    close(e.weights, batch.weights or [1.0] * len(batch.rows[0]), 0)
    assert sorted(e.group_ids) == sorted(set(batch.ids))
    close(e.group_means, [expected.means[id] for id in e.group_ids])
    close(e.group_stds, [expected.stds[id] for id in e.group_ids])
    close(e.weighted_sums, expected.sums)
    if expected.z is not None:
        close(e.z, expected.z)
    check_batch_step(e, expected)
    close(e.advantages, expected.advantages)


@pytest.mark.slow
@CONVENTIONS
@METHODS
@given(naive.batches(dense=True))
def test_with_a_prompt_axis_every_intermediate_has_it_too(method, convention, batch):
    prompts, rewards = len(set(batch.ids)), len(batch.rows[0])
    cube = f64(batch.rows).reshape(prompts, -1, rewards)
    rollouts = cube.shape[1]
    e = gc.explain(cube, method, **options_of(batch, convention))
    expected = naive.compute(batch.rows, batch.ids, method, batch.weights, convention.name)

    of_groups = (prompts, rewards) if method == "gdpo" else (prompts,)
    assert e.group_ids is None
    assert e.group_means.shape == of_groups and e.group_stds.shape == of_groups
    assert e.weighted_sums.shape == e.advantages.shape == (prompts, rollouts)
    assert e.rewards.shape == cube.shape and e.weights.shape == (rewards,)
    close(e.group_means, [expected.means[p] for p in range(prompts)])
    close(e.group_stds, [expected.stds[p] for p in range(prompts)])
    close(e.weighted_sums.flatten(), expected.sums)
    if expected.z is not None:
        assert e.z.shape == cube.shape
        close(e.z.reshape(-1, rewards), expected.z)
    check_batch_step(e, expected)
    close(e.advantages.flatten(), expected.advantages)


@METHODS
def test_one_prompt_without_a_prompt_axis_gets_none(method):
    rewards = [[1, 0, 2], [0, 1, 1], [1, 1, 0], [0, 0, 7]]
    e = gc.explain(rewards, method)
    expected = naive.compute(rewards, [0] * 4, method)
    of_group = (3,) if method == "gdpo" else ()
    assert e.group_means.shape == of_group and e.group_stds.shape == of_group
    assert e.rewards.shape == (4, 3) and e.weighted_sums.shape == e.advantages.shape == (4,)
    close(e.group_means, expected.means[0])
    close(e.group_stds, expected.stds[0])
    close(e.weighted_sums, expected.sums)
    if method == "gdpo":
        assert e.z.shape == (4, 3)
        close(e.z, expected.z)


@METHODS
@given(naive.batches())
def test_its_advantages_are_those_of_advantages_bit_for_bit(method, batch):
    for dtype, convention in product((torch.float64, torch.float32), (gc.PAPER, gc.TRL)):
        rows, options = torch.tensor(batch.rows, dtype=dtype), options_of(batch, convention)
        e = gc.explain(rows, method, groups=batch.ids, **options)
        assert torch.equal(e.advantages, gc.advantages(rows, method, groups=batch.ids, **options))
        tensors = (e.rewards, e.weights, e.group_means, e.group_stds, e.z, e.weighted_sums, e.advantages)
        assert all(x is None or x.dtype == dtype for x in tensors)


def test_the_papers_figure_2_before_and_after_the_batch_step():
    for rewards, before in (([[0, 0], [1, 0]], 1 / sqrt(2)), ([[0, 0], [1, 1]], sqrt(2))):
        e = gc.explain(rewards, "gdpo")
        close(e.weighted_sums, [-before, before])
        assert e.batch_mean == 0
        assert e.batch_std == pytest.approx(before * sqrt(2), rel=1e-12)
        close(e.advantages, [-1 / sqrt(2), 1 / sqrt(2)])


def test_group_ids_are_sorted_if_an_array_of_numbers_and_else_as_they_appear():
    rewards = [[1], [2], [5], [3]]
    assert gc.explain(rewards, groups=["b", "a", "b", "c"]).group_ids == ("b", "a", "c")
    e = gc.explain(rewards, "grpo", groups=torch.tensor([7, 2, 7, 3]))
    assert e.group_ids == (2, 3, 7)
    close(e.group_means, [2, 3, 3])


def test_a_group_without_any_value_has_no_mean_and_no_spread():
    rewards = f64([[nan, 1], [nan, 0], [2, 1], [4, 0]])
    e = gc.explain(rewards, "gdpo", groups=[0, 0, 1, 1])
    close(e.group_means, [[nan, 0.5], [3, 0.5]])
    close(e.group_stds, [[0, 1 / sqrt(2)], [sqrt(2), 1 / sqrt(2)]])


def test_an_explanation_is_frozen():
    with pytest.raises(FrozenInstanceError):
        gc.explain([[1], [0]]).method = "grpo"


# --- every convention ------------------------------------------------------------------------------------------------


def rebuilt(e):
    """The advantages once more, from the intermediates alone."""
    c = e.convention
    mean, std = e.group_means, e.group_stds
    if e.rewards.ndim == 3 and not c.leave_one_out:
        mean, std = mean.unsqueeze(1), std.unsqueeze(1)

    def divided(x, mean, std, eps, to="std"):
        divisor = (std.square() + eps).sqrt() if to == "variance" else std + eps
        whole = torch.ones_like(std) if c.leave_one_out else torch.full_like(std, torch.inf)
        return (x - mean) / torch.where(std == 0, whole, divisor)

    if e.z is None:
        s = (e.weights * e.rewards).sum(-1)
        close(e.weighted_sums, s.tolist())
        if e.method == "grpo_no_std":
            return s - mean
        return divided(s, mean, std, c.group_eps if c.grpo_eps is None else c.grpo_eps)
    close(e.z, divided(e.rewards, mean, std, c.group_eps).tolist())
    s = (e.weights * e.z).sum(-1)
    close(e.weighted_sums, s.tolist())
    mean, std = (torch.as_tensor(x, dtype=torch.float64) for x in (e.batch_mean, e.batch_std))
    if c.last_step == "group" and s.ndim == 2:
        mean, std = mean.unsqueeze(1), std.unsqueeze(1)
    return divided(s, mean, std, c.batch_eps, c.batch_eps_to)


@METHODS
@pytest.mark.parametrize("convention", gc.CONVENTIONS.values(), ids=list(gc.CONVENTIONS))
@pytest.mark.parametrize("prompts", [None, 3])
def test_the_intermediates_are_enough_to_compute_the_advantages(method, convention, prompts):
    generator = torch.Generator().manual_seed(5)
    rewards = torch.randint(0, 3, (prompts or 1, 6, 3), generator=generator).double() * f64([1, 0.5, 3])
    rewards[0, :, 1] = 2  # dead in a group
    lengths = torch.randint(1, 40, rewards.shape[:2], generator=generator)
    if prompts is None:
        rewards, lengths = rewards[0], lengths[0]
    e = gc.explain(rewards, method, weights=[1, 2, -0.5], lengths=lengths, convention=convention)
    close(e.advantages, rebuilt(e).tolist())
    close(e.lengths, lengths.tolist())


def test_with_leave_one_out_everyone_has_statistics_of_their_own():
    e = gc.explain([[1, 0], [0, 0], [0, 4]], "gdpo", convention=gc.NEMO_RL_LOO)
    close(e.group_means, [[0, 2], [0.5, 2], [0.5, 0]])
    close(e.group_stds, [[0, sqrt(8)], [sqrt(0.5), sqrt(8)], [sqrt(0.5), 0]])


def test_a_last_step_over_each_group_has_statistics_of_each():
    rewards = [[[1, 0], [0, 0]], [[1, 1], [0, 0]]]
    e = gc.explain(rewards, "gdpo", convention=gc.AXOLOTL_STREAMING)
    z = sqrt(0.5) / (sqrt(0.5) + 1e-4) * sqrt(0.5)
    close(e.batch_mean, [0, 0])
    close(e.batch_std, [sqrt(2) * z, 2 * sqrt(2) * z])


def test_gdpo_of_one_reward_is_grpo_in_the_authors_fork():
    e = gc.explain([[[1], [0], [0]], [[1], [1], [0]]], "gdpo", convention=gc.NVLABS_TRL)
    assert e.z is None and e.batch_mean is None
    close(e.advantages, gc.grpo([[[1], [0], [0]], [[1], [1], [0]]], convention=gc.NVLABS_TRL).tolist())
