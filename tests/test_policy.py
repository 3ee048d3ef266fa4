"""The Bernoulli policy: medians that were recorded before, single updates worked by hand, and the large-group limit."""

from dataclasses import FrozenInstanceError
from math import inf, nan, sqrt

import numpy as np
import pytest
import torch

import gdpo_core as gc

METHODS = pytest.mark.parametrize("method", ("grpo", "grpo_no_std", "gdpo"))


def logit(p):
    return torch.special.logit(torch.as_tensor(p, dtype=torch.float64))


# --- what training does --------------------------------------------------------------------------------------------

# start p, reward scale: median epoch at which each p reaches 0.9, with 10 seeds of another programme
RECORDED = {
    "equal start and scale": (
        (0.5, 0.5, 0.5), (1, 1, 1), {"grpo": (21, 21, 21), "grpo_no_std": (20, 20, 20), "gdpo": (20, 20, 21)}
    ),
    "unequal scale": (
        (0.5, 0.5, 0.5), (1, 3, 10), {"grpo": (37, 25, 14), "grpo_no_std": (53, 28, 12), "gdpo": (20, 20, 21)}
    ),
    "unequal start": (
        (0.5, 0.2, 0.02), (1, 1, 1), {"grpo": (19, 25, 72), "grpo_no_std": (18, 25, 70), "gdpo": (18, 26, 70)}
    ),
    "a hundred times": (
        (0.5, 0.5), (1, 100), {"grpo": (29, 13), "grpo_no_std": (76, 12), "gdpo": (17, 16)}
    ),
}  # fmt: skip


@pytest.mark.parametrize("p0, scale, medians", RECORDED.values(), ids=RECORDED.keys())
@METHODS
def test_the_recorded_medians_of_steps_to_90_percent_come_out(method, p0, scale, medians):
    steps = gc.train(method, p0, scale=scale, seeds=32).steps_to(0.9)
    assert steps.shape == (32, len(p0))
    for got, expected in zip(steps.quantile(0.5, dim=0).tolist(), medians[method], strict=True):
        assert abs(got - expected) <= max(3, 0.12 * expected)


@pytest.mark.parametrize("match_scale", (True, False))
@METHODS
def test_two_rollouts_move_the_logits_as_worked_by_hand(method, match_scale):
    # One prompt, b = (x1, x2) and (y1, y2), p = 0.5. A is ±a or 0, so a logit moves by lr (A_1 x + A_2 y) / 2.
    lr, seeds = 0.5, 400
    run = gc.train(method, [0.5, 0.5], rollouts=2, prompts=1, epochs=1, seeds=seeds, lr=lr, match_scale=match_scale)
    moved = logit(run.p[:, 1].double()) - logit(run.p[:, 0].double())
    unit = lr * sqrt(0.5) / 2
    if method == "grpo_no_std" and not match_scale:
        one, both = lr * 0.5 / 2, lr * 1.0 / 2  # A = ±0.5 where one reward differs, ±1 where both do alike
    else:
        one, both = unit, unit
    possible = torch.tensor([[0, 0], [one, 0], [0, one], [both, both]], dtype=torch.float64)
    nearest = (moved[:, None] - possible).abs().sum(-1).min(1)
    assert nearest.values.max() < 1e-6
    # (1,1)/(0,0) in 2 of 16 draws, one reward alone in 4 and 4; the rest, conflicts (1,0)/(0,1) too, move nothing
    share = nearest.indices.bincount(minlength=4) / seeds
    assert (share - torch.tensor([6, 4, 4, 2]) / 16).abs().max() < 0.1


@pytest.mark.parametrize("weights", (None, (2.0, 0.5, 1.0)))
@METHODS
def test_in_large_groups_one_step_is_the_gradient_of_the_limit(method, weights):
    p0, scale, lr = torch.tensor([0.5, 0.3, 0.1]), torch.tensor([1.0, 3.0, 10.0]), 0.25
    run = gc.train(method, p0, scale=scale, weights=weights, rollouts=256, prompts=64, epochs=1, seeds=24, lr=lr)
    v, w = p0 * (1 - p0), torch.ones(3) if weights is None else torch.tensor(weights)
    if method == "gdpo":
        gradient = w * v.sqrt() / w.square().sum().sqrt()
    else:
        gradient = w * scale * v / ((w * scale).square() * v).sum().sqrt()
    moved = (run.p[:, 1].logit() - run.p[:, 0].logit()).mean(0) / lr
    torch.testing.assert_close(moved, gradient, rtol=0.02, atol=3e-3)


def test_without_matched_scale_grpo_without_std_takes_steps_of_the_rewards_own_size():
    options = {"scale": [1, 10], "rollouts": 256, "prompts": 64, "epochs": 1, "seeds": 24, "lr": 0.1}
    run = gc.train("grpo_no_std", [0.5, 0.5], match_scale=False, **options)
    moved = (run.p[:, 1].logit() - run.p[:, 0].logit()).mean(0) / 0.1
    torch.testing.assert_close(moved, torch.tensor([0.25, 2.5]), rtol=0.02, atol=0.01)


def test_gdpo_does_not_see_the_reward_scale():
    assert torch.equal(
        gc.train("gdpo", [0.5, 0.2], scale=[1, 1], epochs=20, seeds=4).p,
        gc.train("gdpo", [0.5, 0.2], scale=[4, 1024], epochs=20, seeds=4).p,
    )


def test_no_reward_scale_keeps_gdpo_from_learning():
    for scale in (1e-30, 1e30):
        p = gc.train("gdpo", [0.5, 0.5], scale=[1, scale], epochs=60, seeds=4).p[:, -1]
        assert p.min() > 0.9


@METHODS
def test_one_rollout_a_prompt_teaches_nothing(method):
    p = gc.train(method, [0.5, 0.1], rollouts=1, epochs=5, seeds=3).p
    assert torch.equal(p, p[:, :1].expand_as(p))


@METHODS
def test_a_reward_of_scale_0_is_not_learnt_from(method):
    p = gc.train(method, [0.5, 0.5], scale=[1, 0], epochs=60, seeds=16).p[:, -1]
    assert p[:, 0].min() > 0.95
    assert (p[:, 1] - 0.5).abs().median() < 0.2


@METHODS
def test_a_negative_weight_is_unlearnt(method):
    p = gc.train(method, [0.5, 0.5], weights=[1, -1], epochs=60, seeds=8).p[:, -1]
    assert p[:, 0].min() > 0.9 and p[:, 1].max() < 0.1


# --- what comes back -----------------------------------------------------------------------------------------------


@METHODS
def test_p_is_seeds_by_epochs_and_one_by_rewards_and_starts_at_p0(method):
    run = gc.train(method, (0.5, 0.2, 0.02), epochs=7, seeds=5, prompts=3, rollouts=4)
    assert run.method == method and run.p.shape == (5, 8, 3)
    torch.testing.assert_close(run.p[:, 0], torch.tensor([0.5, 0.2, 0.02]).expand(5, 3))
    assert ((run.p > 0) & (run.p < 1)).all()
    with pytest.raises(FrozenInstanceError):
        run.p = None


@METHODS
def test_the_same_seed_gives_the_same_bits_and_another_does_not(method):
    options = {"epochs": 30, "seeds": 4}
    first = gc.train(method, [0.5, 0.1], seed=7, **options).p
    torch.manual_seed(123)
    np.random.seed(123)
    assert torch.equal(first, gc.train(method, [0.5, 0.1], seed=7, **options).p)
    assert not torch.equal(first, gc.train(method, [0.5, 0.1], seed=8, **options).p)


def test_runs_of_different_seeds_differ():
    p = gc.train("gdpo", [0.5], epochs=10, seeds=8).p[:, -1, 0]
    assert len(p.unique()) > 4


def test_no_global_generator_is_touched():
    before, numpys = torch.get_rng_state(), np.random.get_state()
    gc.train("gdpo", [0.5, 0.5], epochs=3, seeds=2)
    assert torch.equal(before, torch.get_rng_state())
    assert numpys[0] == np.random.get_state()[0]
    assert np.array_equal(numpys[1], np.random.get_state()[1])
    assert numpys[2:] == np.random.get_state()[2:]


@METHODS
def test_p0_scale_and_weights_come_as_lists_numpy_or_torch_and_stay_as_they_are(method):
    options = {"epochs": 5, "seeds": 2}
    lists = gc.train(method, [0.5, 0.25], scale=[1, 3], weights=[1, 2], **options).p
    arrays = [np.array(x) for x in ([0.5, 0.25], [1, 3], [1, 2])]
    tensors = [torch.tensor(x, dtype=torch.float64) for x in ([0.5, 0.25], [1, 3], [1, 2])]
    for p0, scale, weights in (arrays, tensors):
        assert torch.equal(lists, gc.train(method, p0, scale=scale, weights=weights, **options).p)
    assert arrays[0].tolist() == tensors[0].tolist() == [0.5, 0.25]


def test_steps_to_is_the_first_epoch_at_the_level_and_infinity_if_never():
    p = torch.tensor(
        [
            [[0.5, 0.95], [0.9, 0.1], [0.2, 0.1], [0.99, 0.1]],
            [[0.5, 0.5], [0.6, 0.5], [0.89, 0.5], [0.91, 0.9]],
            [[0.1, 0.1], [0.1, 0.1], [0.1, 0.89], [0.1, 0.8]],
        ],
        dtype=torch.float64,
    )
    run = gc.TrainingRun("grpo", p)
    assert run.steps_to(0.9).tolist() == [[1, 0], [3, 3], [inf, inf]]
    assert run.steps_to().tolist() == run.steps_to(0.9).tolist()
    assert run.steps_to(0.6).tolist() == [[1, 0], [1, 3], [inf, 2]]
    assert run.steps_to(0.1).tolist() == [[0, 0], [0, 0], [0, 0]]


# --- bad input -----------------------------------------------------------------------------------------------------

whole = (0, -1, 2.0, 1.5, "2", None, True, nan)
BAD = {
    "method": ("ppo", None, "GDPO"),
    "p0": ([0, 0.5], [1, 0.5], [-0.1, 0.5], [1.5], [nan, 0.5], [inf], [], 0.5, None, "ab", [[0.5]], [0.5, [0.5]],
           [1j], torch.tensor([0.5j])),
    "scale": ([1], [1, 2, 3], [nan, 1], [inf, 1], 2, "ab", [[1, 2]], [None, 1]),
    "weights": ([1], [1, 2, 3], [nan, 1], [1, -inf], 2, "ab", [[1, 2]], [None, 1]),
    "rollouts": whole,
    "prompts": whole,
    "epochs": whole,
    "seeds": whole,
    "lr": (0, -0.5, nan, inf, 10**400, "fast", None, [0.5], 1j),
    "seed": (None, "x", -1, 1.5, 2**64),
}  # fmt: skip


@pytest.mark.parametrize(
    "argument, value",
    [pytest.param(name, v, id=f"{name} {v!r}"[:40]) for name, values in BAD.items() for v in values],
)
def test_bad_input_is_named_with_what_was_expected_and_what_came(argument, value):
    options = {"method": "gdpo", "p0": [0.5, 0.5], "epochs": 2, "seeds": 2, "prompts": 2, "rollouts": 2}
    with pytest.raises(gc.InputError) as error:
        gc.train(**{**options, argument: value})
    text = str(error.value)
    assert text.startswith(f"{argument}: expected ") and ", got " in text


@pytest.mark.parametrize("level", ("high", None, nan, [0.5]), ids=repr)
def test_steps_to_names_a_level_it_cannot_use(level):
    run = gc.train("gdpo", [0.5], epochs=1, seeds=1)
    with pytest.raises(gc.InputError) as error:
        run.steps_to(level)
    assert str(error.value).startswith("level: expected ")
