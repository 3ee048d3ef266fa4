"""The Bernoulli policy: medians that were recorded before, single updates worked by hand, and what it refuses."""

from dataclasses import FrozenInstanceError
from fractions import Fraction
from math import inf, nan, sqrt

import numpy as np
import pytest
import torch
from helpers import check_refusals, still

import gdpo_core as gc

METHODS = pytest.mark.parametrize("method", ("grpo", "grpo_no_std", "gdpo"))


def logit(p):
    return torch.special.logit(torch.as_tensor(p, dtype=torch.float64))


# --- what training does --------------------------------------------------------------------------------------------

# Start p, options of the run: median epoch at which each p reaches .9, as another programme found it (method.md §4).
# A row with fewer numbers than rewards was recorded for its first rewards alone.
OF_FOUR = {"rollouts": 4, "prompts": 128, "scale": (1, 6)}
RECORDED = {
    "equal start and scale": (
        (0.5, 0.5, 0.5), {}, {"grpo": (21, 21, 21), "grpo_no_std": (20, 20, 20), "gdpo": (20, 20, 21)}
    ),
    "unequal start": (
        (0.5, 0.2, 0.02), {}, {"grpo": (19, 25, 72), "grpo_no_std": (18, 25, 70), "gdpo": (18, 26, 70)}
    ),
    "unequal scale": (
        (0.5, 0.5, 0.5), {"scale": (1, 3, 10)},
        {"grpo": (37, 25, 14), "grpo_no_std": (53, 28, 12), "gdpo": (20, 20, 21)}
    ),
    "a hundred times": (
        (0.5, 0.5), {"scale": (1, 100)}, {"grpo": (29, 13), "grpo_no_std": (76, 12), "gdpo": (17, 16)}
    ),
    "rare, and small beside the common": (
        (0.02, 0.1), {"scale": (1, 6)}, {"grpo": (77, 24), "grpo_no_std": (105, 23), "gdpo": (62, 26)}
    ),
    "rare, in groups of four": (
        (0.01, 0.1), OF_FOUR, {"grpo": (99, 26), "grpo_no_std": (151, 25), "gdpo": (91, 26)}
    ),
    "rare, beside a reward that always varies": (
        (0.01, 0.1), {"noise": (0, 1), **OF_FOUR}, {"grpo": (366, 33), "grpo_no_std": (336, 27), "gdpo": (160, 34)}
    ),
    "rare, batch step for GDPO alone": (
        (0.01, 0.1), {"match_scale": False, **OF_FOUR}, {"grpo": (199, 38), "grpo_no_std": (330, 12)}
    ),
    "rare, Adam": (
        (0.01, 0.1), {"optimizer": "adam", "lr": 0.05, **OF_FOUR},
        {"grpo": (103,), "grpo_no_std": (114,), "gdpo": (102,)}
    ),
    "two rewards": ((0.5, 0.5), {}, {"grpo": (17, 17), "grpo_no_std": (16, 16), "gdpo": (17, 17)}),
    "two rewards and almost constant noise": (
        (0.5, 0.5), {"noise": (0, 0, 1e-3)}, {"grpo": (17, 17), "grpo_no_std": (16, 16), "gdpo": (21, 21)}
    ),
    "two rarer rewards": ((0.05, 0.05), {}, {"grpo": (43, 43), "grpo_no_std": (42, 42), "gdpo": (42, 42)}),
    "two rarer rewards and almost constant noise": (
        (0.05, 0.05), {"noise": (0, 0, 1e-3)}, {"grpo": (46, 46), "grpo_no_std": (42, 42), "gdpo": (55, 55)}
    ),
}  # fmt: skip


def long(medians):
    """The mark of a run that takes over a hundred epochs."""
    return pytest.mark.slow if max(medians) > 100 else ()


@pytest.mark.slow
@pytest.mark.parametrize(
    "method, p0, options, medians",
    [
        pytest.param(method, p0, options, expected, id=f"{name}, {method}", marks=long(expected))
        for name, (p0, options, medians) in RECORDED.items()
        for method, expected in medians.items()
    ],
)
def test_the_recorded_medians_of_steps_to_90_percent_come_out(method, p0, options, medians):
    epochs = round(1.2 * max(medians)) + 5  # as many as the median may take
    steps = gc.train(method, p0, seeds=32, epochs=epochs, **options).steps_to(0.9)
    assert steps.shape == (32, len(p0))
    reached = steps.quantile(0.5, dim=0).tolist()[: len(medians)]
    for got, expected in zip(reached, medians, strict=True):
        assert abs(got - expected) <= max(3, 0.12 * expected)


@pytest.mark.parametrize(
    "live, amplified", [(64, 1.00), (32, 1.41), (16, 2.0), (8, 2.8), (4, 4.0), (1, 8.0)], ids=lambda x: f"{x}"
)
def test_the_batch_step_amplifies_the_few_groups_that_are_live(live, amplified):
    group = torch.tensor([[1.0, 0], [1, 1], [0, 1], [0, 0], [0, 0], [1, 0], [0, 0], [0, 0]], dtype=torch.float64)
    everywhere = group.repeat(64, 1, 1)
    few = everywhere.clone()
    few[live:] = 1
    a = gc.gdpo(few)
    assert (a[live:] == 0).all()
    torch.testing.assert_close(a[:live], gc.gdpo(everywhere)[:live] * (64 / live) ** 0.5, rtol=1e-12, atol=0)
    assert float(a[0, 1] / gc.gdpo(everywhere)[0, 1]) == pytest.approx(amplified, rel=0.015)


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
    elif method == "gdpo" and not match_scale:
        one, both = unit, 2 * unit  # A = Σ z, ±0.7071 for each reward that differs
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
    assert still(p, p[:, :1])


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
    "lr": (0, -0.5, nan, inf, -inf, 10**400, "fast", None, [0.5], 1j, True),
    "seed": (None, "x", -1, 1.5, 2**64, True),
    "optimizer": (None, "SGD", "rmsprop", 1, ["sgd"], nan),
    "match_scale": (None, 0, 1, "yes", nan),
    "noise": ([0], [0, -1], [0, nan], [0, inf], [], 1, "ab", [[0, 0]], [None, 1], [0, 1j]),
    "gate": ((0, 0), (1, -1), (-2, 0), (2, 0), (0, 2), (0, -3), (True, False), (0.0, 1.0), (0,), (0, 1, 2), "ab", "01",
             0, 1.5, nan, {0: 1}, [None], [(0, None)], [(0, 1), (1, 1)], [(0, 1), 1], torch.tensor([0, 1])),
    "progress": (5, "x"),
}  # fmt: skip


def test_bad_input_is_named_with_what_was_expected_and_what_came(subtests):
    options = {"method": "gdpo", "p0": [0.5, 0.5], "epochs": 2, "seeds": 2, "prompts": 2, "rollouts": 2}
    check_refusals(subtests, gc.train, options, BAD)


NOT_DRAWN = ("rollouts", "prompts", "seeds", "seed", "progress")


def test_the_large_group_curve_names_bad_input_as_training_does(subtests):
    one_each = {name: values[:1] for name, values in BAD.items() if name not in NOT_DRAWN}
    check_refusals(subtests, gc.mean_field, {"method": "gdpo", "p0": [0.5, 0.5], "epochs": 2}, one_each)


@pytest.mark.parametrize("value", ((0, 0), (1, -1), [(0, 1), (1, 1)]), ids=repr)
def test_a_gate_on_itself_is_named(value):
    with pytest.raises(gc.InputError, match=r"^gate: expected another coin than the reward's own, got \("):
        gc.train("gdpo", [0.5, 0.5], gate=value, epochs=1, seeds=1)


def test_weights_cover_the_rewards_of_noise_alone_and_scale_does_not():
    options = {"noise": [0, 0, 1], "epochs": 2, "seeds": 2, "prompts": 2}
    gc.train("gdpo", [0.5, 0.5], weights=[1, 1, 2], scale=[1, 3], **options)
    with pytest.raises(gc.InputError, match=r"^weights: expected 3 numbers, .*, got \[1\.0, 1\.0\]$"):
        gc.train("gdpo", [0.5, 0.5], weights=[1, 1], **options)
    with pytest.raises(gc.InputError, match=r"^scale: expected 2 numbers, .*, got \[1\.0, 1\.0, 1\.0\]$"):
        gc.train("gdpo", [0.5, 0.5], scale=[1, 1, 1], **options)
    with pytest.raises(gc.InputError, match=r"^gate: expected an index of 2 rewards, got 2$"):
        gc.train("gdpo", [0.5, 0.5], gate=(2, 0), **options)


# The logits leave float32, or float64, at an epoch that can be worked out.
DIVERGING = {
    "SGD": (gc.train, {"lr": 1e300, "seeds": 2}, 1),
    "just too fast": (gc.train, {"lr": 1e39, "seeds": 2}, 1),
    "Adam": (gc.train, {"lr": 1e38, "optimizer": "adam", "seeds": 2}, 7),
    "Adam, large groups": (gc.mean_field, {"lr": 1e308, "optimizer": "adam"}, 3),
}


@pytest.mark.parametrize("run, options, epoch", DIVERGING.values(), ids=DIVERGING.keys())
@METHODS
def test_a_diverging_run_stops_with_its_epoch_named(method, run, options, epoch):
    with pytest.raises(gc.InputError, match=rf"^lr: expected .*, got .* at epoch {epoch}$"):
        run(method, [0.5, 0.5], epochs=20, **options)


def test_a_very_fast_run_that_stays_finite_goes_through():
    p = gc.train("gdpo", [0.5, 0.5], lr=1e6, epochs=20, seeds=4).p
    assert p.isfinite().all() and ((p >= 0) & (p <= 1)).all()


@pytest.mark.parametrize("lr", (np.float32(0.5), np.float64(0.5), Fraction(1, 2)), ids=lambda x: type(x).__name__)
def test_any_kind_of_real_number_is_a_learning_rate(lr):
    options = {"epochs": 3, "seeds": 2}
    assert torch.equal(gc.train("grpo", [0.5], lr=lr, **options).p, gc.train("grpo", [0.5], lr=0.5, **options).p)


@pytest.mark.parametrize("coins", (13, 40))
def test_too_many_coins_for_the_large_group_curve_are_named_and_training_takes_them(coins):
    assert gc.train("gdpo", [0.5] * coins, epochs=2, seeds=2, prompts=4).p.shape == (2, 3, coins)
    with pytest.raises(gc.InputError, match=r"^p0: expected .* at most 4096 .*, got "):
        gc.mean_field("gdpo", [0.5] * coins, epochs=2)


def test_twelve_coins_are_not_too_many_and_with_noise_they_are():
    assert gc.mean_field("gdpo", [0.5] * 12, epochs=1).shape == (2, 12)
    with pytest.raises(gc.InputError, match=r"^p0: expected .*, got 8192$"):
        gc.mean_field("gdpo", [0.5] * 12, noise=[1, *[0] * 11], epochs=1)


def test_steps_to_names_a_level_it_cannot_use(subtests):
    run = gc.train("gdpo", [0.5], epochs=1, seeds=1)
    check_refusals(subtests, run.steps_to, {}, {"level": ("high", None, nan, 0, 1, True, [0.5])})


@pytest.mark.parametrize("size", ({"seeds": 10**12}, {"rollouts": 2**70}, {"prompts": 2**24}))
def test_sizes_beyond_memory_are_refused(size):
    with pytest.raises(gc.InputError, match="seeds: expected seeds × prompts × rollouts of at most"):
        gc.train("grpo", [0.5], **size)


def test_no_gates_are_no_gate():
    settings = {"epochs": 3, "seeds": 2, "scale": [1, 3]}
    for none in ([], ()):
        assert torch.equal(
            gc.train("gdpo", [0.5, 0.2], gate=none, **settings).p, gc.train("gdpo", [0.5, 0.2], **settings).p
        )
