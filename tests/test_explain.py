"""Every intermediate number of `explain`, compared with the naive loop, in the shape of the caller's rewards."""

from dataclasses import FrozenInstanceError
from math import sqrt

import naive
import pytest
import torch
from helpers import close, f64
from hypothesis import given
from hypothesis import strategies as st

import gdpo_core as gc

EACH_METHOD = pytest.mark.parametrize("method", naive.METHODS)
CONVENTIONS = pytest.mark.parametrize("convention", (gc.PAPER, gc.TRL), ids=lambda c: c.name)


@pytest.mark.slow
@CONVENTIONS
@EACH_METHOD
@given(naive.batches())
def test_with_groups_every_intermediate_is_that_of_the_naive_loop(method, convention, batch):
    options = {"weights": None if batch.weights is None else f64(batch.weights), "convention": convention}
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
        assert isinstance(e.batch_mean, float) and isinstance(e.batch_std, float)
        close([e.batch_mean, e.batch_std], [expected.batch_mean, expected.batch_std])
    else:
        assert e.z is None and e.batch_mean is None and e.batch_std is None
    close(e.advantages, expected.advantages)


@pytest.mark.slow
@given(naive.batches(dense=True), st.sampled_from(sorted(gc.CONVENTIONS)), st.booleans())
def test_with_a_prompt_axis_every_intermediate_has_it_too_and_one_prompt_alone_has_none(batch, convention, alone):
    prompts, rewards = len(set(batch.ids)), len(batch.rows[0])
    shape = () if alone and prompts == 1 else (prompts,)
    cube = f64(batch.rows).reshape(*shape, -1, rewards)  # (prompts, rollouts, rewards) or (rollouts, rewards)
    lengths = [2 + i % 5 for i in range(len(batch.rows))]
    options = {"weights": batch.weights, "convention": gc.CONVENTIONS[convention]}
    for method in naive.METHODS:
        e = gc.explain(cube, method, lengths=torch.tensor(lengths).reshape(cube.shape[:-1]), **options)
        by_id = gc.explain(cube.reshape(-1, rewards), method, groups=batch.ids, lengths=lengths, **options)
        assert e.group_ids is None and e.rewards.shape == cube.shape
        assert e.weighted_sums.shape == e.advantages.shape == e.lengths.shape == cube.shape[:-1]
        of_group = (rewards,) if e.z is not None else ()
        of_group = shape + of_group if not options["convention"].leave_one_out else cube.shape[:-1] + of_group
        assert e.group_means.shape == e.group_stds.shape == of_group
        for name, x in vars(e).items():
            if name in ("method", "convention", "group_ids"):
                continue
            y = getattr(by_id, name)
            assert (x is None) == (y is None), name
            if x is not None:
                close(torch.as_tensor(x).reshape(torch.as_tensor(y).shape), y, 1e-7)


def test_group_ids_are_sorted_if_an_array_of_numbers_and_else_as_they_appear():
    rewards = [[1], [2], [5], [3]]
    assert gc.explain(rewards, groups=["b", "a", "b", "c"]).group_ids == ("b", "a", "c")
    e = gc.explain(rewards, "grpo", groups=torch.tensor([7, 2, 7, 3]))
    assert e.group_ids == (2, 3, 7)
    close(e.group_means, [2, 3, 3])
    with pytest.raises(FrozenInstanceError):
        e.method = "gdpo"


# --- every convention ------------------------------------------------------------------------------------------------


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
