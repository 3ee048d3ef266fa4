"""The conflict between two rewards: answers that can only have one of them, and what weights and gates do about it."""

from math import nan, sqrt

import pytest
import torch
from helpers import check_refusals, still

import gdpo_core as gc

METHODS = pytest.mark.parametrize("method", ("grpo", "grpo_no_std", "gdpo"))
MATCHED = pytest.mark.parametrize("match_scale", (True, False), ids=("matched", "not matched"))

CORRECT_LONG, WRONG_SHORT, WRONG_LONG = 0, 1, 2
START = [0.10, 0.85, 0.05]
CORRECT, SHORT = 0, 1  # the rewards
TABLE = [(1, 0), (0, 1), (0, 0)]
GATED = [(1, 0), (0, 0), (0, 0)]  # short counts only where the answer is correct


# --- the conflict --------------------------------------------------------------------------------------------------


@pytest.mark.slow
@METHODS
def test_at_equal_weights_every_method_ends_wrong_and_short(method):
    p = gc.train_arms(method, START, TABLE, epochs=400).p[:, -1]
    assert p.shape == (32, 3)
    assert p[:, WRONG_SHORT].min() >= 0.985


@METHODS
def test_gated_on_correctness_every_method_ends_correct(method):
    p = gc.train_arms(method, START, TABLE, gate=(SHORT, CORRECT), epochs=400).p[:, -1]
    assert p[:, CORRECT_LONG].min() >= 0.9995


@METHODS
def test_the_large_group_curve_of_the_gated_conflict_ends_correct(method):
    p = gc.mean_field_arms(method, START, TABLE, gate=(SHORT, CORRECT), epochs=400)[-1]
    assert p[CORRECT_LONG] > 0.9999


@pytest.mark.parametrize("method", ("grpo", "grpo_no_std"))
def test_the_large_group_curve_of_grpo_ends_wrong_and_short(method):
    assert gc.mean_field_arms(method, START, TABLE, epochs=400)[-1, WRONG_SHORT] > 0.995


def test_in_large_groups_gdpo_stands_still_once_only_the_two_that_cancel_are_left():
    # Without the third answer one reward is 1 minus the other, their z cancel (method.md §2.5), nothing moves.
    curve = gc.mean_field_arms("gdpo", START, TABLE, epochs=800)
    assert curve[-1, WRONG_LONG] < 1e-4
    assert (curve[400, :2] - curve[-1, :2]).abs().max() < 1e-3
    assert curve[-1, :2].tolist() == pytest.approx([0.099, 0.901], abs=1e-3)


@METHODS
def test_a_gate_makes_short_worthless_where_only_correct_counts(method):
    options = {"epochs": 40, "seeds": 3}
    gated = gc.train_arms(method, START, TABLE, gate=(SHORT, CORRECT), **options).p
    assert torch.equal(gated, gc.train_arms(method, START, GATED, **options).p)
    assert torch.equal(gated, gc.train_arms(method, START, TABLE, gate=(-1, -2), **options).p)
    assert torch.equal(gated, gc.train_arms(method, START, TABLE, gate=[(SHORT, CORRECT)], **options).p)


@pytest.mark.parametrize("gate", ((0, 1), (1, 0), (2, 1)), ids=str)
@METHODS
def test_a_gate_is_condition_on_the_table(method, gate):
    table = [(1.0, 0.4, 2), (0, 1.5, 1), (0.9, 1, 3), (2, 0, 0)]
    p0, options = [0.25] * 4, {"epochs": 20}
    conditioned = gc.condition(table, *gate)
    of_table = gc.train_arms(method, p0, table, gate=gate, seeds=3, **options).p
    assert torch.equal(of_table, gc.train_arms(method, p0, conditioned, seeds=3, **options).p)
    curve = gc.mean_field_arms(method, p0, table, gate=gate, **options)
    assert torch.equal(curve, gc.mean_field_arms(method, p0, conditioned, **options))


# --- what one step does --------------------------------------------------------------------------------------------


@MATCHED
@METHODS
def test_two_rollouts_move_the_logits_as_worked_by_hand(method, match_scale):
    # Two answers of one prompt: correct-long with wrong-short ties, either with wrong-long gives A = ±a to the two.
    p0, lr, seeds = [0.3, 0.3, 0.4], 0.5, 400
    options = {"rollouts": 2, "prompts": 1, "epochs": 1, "seeds": seeds, "lr": lr, "match_scale": match_scale}
    run = gc.train_arms(method, p0, TABLE, **options)
    moved = run.p[:, 1].double().log() - run.p[:, 0].double().log()
    moved = moved - moved.mean(1, keepdim=True)  # a softmax knows its logits but for a constant
    a = 0.5 if method == "grpo_no_std" and not match_scale else sqrt(0.5)
    step = lr * a / 2
    possible = torch.tensor([[0, 0, 0], [step, 0, -step], [0, step, -step]], dtype=torch.float64)
    nearest = (moved[:, None] - possible).abs().sum(-1).min(1)
    assert nearest.values.max() < 2e-6
    share = nearest.indices.bincount(minlength=3) / seeds
    assert (share - torch.tensor([0.52, 0.24, 0.24])).abs().max() < 0.1


def limit_of_one_step(method, p, table, weights, match_scale):
    """The gradient on the logits, p_i A_i, with A from the probabilities of the answers, in plain floats."""
    arms, rewards = range(len(p)), range(len(weights))

    def mean(x):
        return sum(p[i] * x[i] for i in arms)

    def std(x):
        return sqrt(mean([(y - mean(x)) ** 2 for y in x]))

    columns = [[row[k] for row in table] for k in rewards]
    if method == "gdpo":
        columns = [[(y - mean(x)) / std(x) if std(x) > 1e-12 else 0.0 for y in x] for x in columns]
    s = [sum(weights[k] * columns[k][i] for k in rewards) for i in arms]
    divisor = std(s) if match_scale or method == "grpo" else 1.0
    return [p[i] * (s[i] - mean(s)) / divisor for i in arms]


def softmax_climb(p0, gradient, epochs, lr):
    theta, path = torch.tensor(p0, dtype=torch.float64).log(), [torch.tensor(p0, dtype=torch.float64)]
    for _ in range(epochs):
        theta = theta + lr * torch.tensor(gradient(path[-1].tolist()), dtype=torch.float64)
        path.append(theta.exp() / theta.exp().sum())
    return torch.stack(path)


TABLES = {
    "conflict": (START, TABLE, [1, 1]),
    "little weight on short": (START, TABLE, [1, 0.25]),
    "gated": (START, GATED, [1, 1]),
    "four answers, three rewards": ([0.4, 0.3, 0.2, 0.1], [(1, 0, 2), (0, 1.5, 2), (0, 0, 2), (3, 1, 2)], [1, 2, 1]),
}


@pytest.mark.parametrize("p0, table, weights", TABLES.values(), ids=TABLES.keys())
@MATCHED
@METHODS
def test_the_large_group_curve_is_the_formula_integrated(method, match_scale, p0, table, weights):
    curve = gc.mean_field_arms(method, p0, table, weights=weights, epochs=60, lr=0.3, match_scale=match_scale)
    expected = softmax_climb(p0, lambda p: limit_of_one_step(method, p, table, weights, match_scale), 60, 0.3)
    assert curve.shape == (61, len(p0)) and curve.dtype == torch.float64
    torch.testing.assert_close(curve, expected, rtol=0, atol=1e-9)


@pytest.mark.parametrize("gate", (None, (SHORT, CORRECT)), ids=("free", "gated"))
@MATCHED
@METHODS
def test_training_in_large_groups_follows_the_large_group_curve(method, match_scale, gate):
    options = {"epochs": 20, "gate": gate, "match_scale": match_scale}
    p = gc.train_arms(method, START, TABLE, rollouts=1024, prompts=4, seeds=8, **options).p
    curve = gc.mean_field_arms(method, START, TABLE, **options)
    assert ((p.mean(0) - curve).abs() <= 5 * p.std(0) / sqrt(8) + 2e-3).all()


@MATCHED
@pytest.mark.parametrize("rollouts", (2, 7, 8, 50))
def test_two_answers_that_trade_one_reward_for_the_other_leave_gdpo_still(rollouts, match_scale):
    # z of one reward is −z of the other, at any scale; what is left is round-off, which no batch step may blow up.
    table, options = [(0.3, 1 / 7), (0.1, 5 / 7)], {"weights": [0.3, 0.3], "match_scale": match_scale, "epochs": 20}
    p = gc.train_arms("gdpo", [0.3, 0.7], table, rollouts=rollouts, seeds=4, **options).p
    assert still(p, p[:, :1])
    curve = gc.mean_field_arms("gdpo", [0.3, 0.7], table, **options)
    assert still(curve, curve[:1])


@MATCHED
@pytest.mark.parametrize("method", ("grpo", "grpo_no_std"))
def test_totals_that_are_equal_but_for_round_off_leave_grpo_still(method, match_scale):
    table, options = [(1, 1, 0), (0, 0, 1)], {"weights": [0.1, 0.2, 0.3], "match_scale": match_scale, "epochs": 20}
    p = gc.train_arms(method, [0.3, 0.7], table, seeds=4, **options).p
    assert still(p, p[:, :1])
    curve = gc.mean_field_arms(method, [0.3, 0.7], table, **options)
    assert still(curve, curve[:1])


# --- what comes back -----------------------------------------------------------------------------------------------


@METHODS
def test_the_probabilities_sum_to_1_at_every_epoch_and_start_where_they_were_put(method):
    run = gc.train_arms(method, START, TABLE, epochs=30, seeds=5, prompts=4)
    assert run.method == method and run.p.shape == (5, 31, 3)
    torch.testing.assert_close(run.p.sum(-1), torch.ones(5, 31))
    torch.testing.assert_close(run.p[:, 0], torch.tensor(START).expand(5, 3))
    curve = gc.mean_field_arms(method, START, TABLE, epochs=30)
    torch.testing.assert_close(curve.sum(-1), torch.ones(31, dtype=torch.float64), rtol=1e-12, atol=0)
    torch.testing.assert_close(curve[0], torch.tensor(START, dtype=torch.float64), rtol=1e-12, atol=0)


def test_steps_to_counts_the_epochs_of_an_answer():
    run = gc.train_arms("grpo", START, TABLE, epochs=60, seeds=4)
    steps = run.steps_to(0.9)
    assert steps.shape == (4, 3)
    assert steps[:, WRONG_SHORT].isfinite().all() and steps[:, [CORRECT_LONG, WRONG_LONG]].isinf().all()


@METHODS
def test_answers_are_drawn_as_likely_as_they_are(method):
    # A reward all answers share teaches nothing; one step of a single winner moves it by its own share.
    still = gc.train_arms(method, START, [(1,), (1,), (1,)], epochs=5, seeds=3).p
    torch.testing.assert_close(still, still[:, :1].expand_as(still))
    p = [0.5, 0.3, 0.2]
    run = gc.train_arms(
        method, p, [(0,), (0,), (1,)], rollouts=256, prompts=64, epochs=1, seeds=16, lr=0.1, match_scale=True
    )
    moved = (run.p[:, 1].log() - run.p[:, 0].log()).mean(0)
    expected = 0.1 * torch.tensor(limit_of_one_step(method, p, [(0,), (0,), (1,)], [1], True))
    torch.testing.assert_close(moved - moved.mean(), expected - expected.mean(), rtol=0.02, atol=1e-3)


@METHODS
def test_the_same_seed_gives_the_same_bits_and_global_generators_stay(method):
    options, before = {"epochs": 10, "seeds": 3}, torch.get_rng_state()
    first = gc.train_arms(method, START, TABLE, seed=3, **options).p
    torch.manual_seed(99)
    changed = torch.get_rng_state()
    assert torch.equal(first, gc.train_arms(method, START, TABLE, seed=3, **options).p)
    assert torch.equal(changed, torch.get_rng_state())
    assert not torch.equal(first, gc.train_arms(method, START, TABLE, seed=4, **options).p)
    assert len(first[:, -1, 0].unique()) == 3
    torch.set_rng_state(before)


def test_tables_come_as_lists_or_tensors_and_stay_as_they_are():
    table, p0 = torch.tensor(TABLE, dtype=torch.float64), torch.tensor(START, dtype=torch.float64)
    options = {"gate": (SHORT, CORRECT), "epochs": 5}
    of_lists = gc.train_arms("gdpo", START, TABLE, seeds=2, **options).p
    assert torch.equal(of_lists, gc.train_arms("gdpo", p0, table, seeds=2, **options).p)
    gc.mean_field_arms("gdpo", p0, table, **options)
    assert table.tolist() == torch.tensor(TABLE).tolist() and p0.tolist() == START


def test_progress_is_told_every_epoch_and_may_stop_the_run():
    epochs_done = []
    gc.train_arms("gdpo", START, TABLE, epochs=4, seeds=2, progress=epochs_done.append)
    assert epochs_done == [1, 2, 3, 4]
    with pytest.raises(ZeroDivisionError):
        gc.train_arms("gdpo", START, TABLE, epochs=10**6, seeds=2, progress=lambda epoch: 1 // (3 - epoch))


# --- bad input -----------------------------------------------------------------------------------------------------

BAD = {
    "method": ("ppo", None),
    "p0": ([0.1, 0.8, 0.05], [0, 0.9, 0.1], [1.0], [0.5, 0.6, -0.1], [nan, 0.5, 0.5], [], 0.5, None, [[0.5, 0.5]]),
    "rewards": (TABLE[:2], [1, 0, 0], [[], [], []], [(nan, 0), (0, 1), (0, 0)], [(1,), (0, 1), (0, 0)], None, "ab"),
    "weights": ([1], [1, 2, 3], [1, nan], 1, "ab"),
    "gate": ((0, 0), (1, -1), (0, 2), (-3, 0), (True, False), (0,), "ab", 1, [(1, 0), (0, 0)], [None]),
    "epochs": (0, -1, 1.5, True),
    "lr": (0, -1, nan, "fast", True),
    "optimizer": ("rmsprop", None),
    "match_scale": (None, 1),
}
DRAWN = {"rollouts": (0, 1.5, True), "prompts": (0, None), "seeds": (0, "2"), "seed": (-1, True)}


OPTIONS = {"method": "gdpo", "p0": START, "rewards": TABLE, "epochs": 2}


def test_bad_input_is_named_with_what_was_expected_and_what_came(subtests):
    check_refusals(subtests, gc.train_arms, {**OPTIONS, "seeds": 2}, BAD | DRAWN)


def test_the_large_group_curve_names_the_same_bad_input(subtests):
    check_refusals(subtests, gc.mean_field_arms, OPTIONS, BAD)


def test_a_number_in_the_table_that_cannot_be_used_is_shown():
    with pytest.raises(gc.InputError, match=r"^rewards: expected finite numbers.*, got .*(nan|NaN)"):
        gc.train_arms("gdpo", START, [(nan, 0), (0, 1), (0, 0)], epochs=1, seeds=1)


def test_a_diverging_run_stops_with_its_epoch_named():
    with pytest.raises(gc.InputError, match=r"^lr: expected .*, got .* at epoch 1$"):
        gc.train_arms("grpo", START, TABLE, lr=1e300, epochs=5, seeds=2)
