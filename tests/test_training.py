"""The training of both policies, compared with recorded medians, plain loops and the formulas of the infinite-group
limit; and refusals.
"""

import random
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import pairwise, product
from math import exp, inf, log, nan, prod, sqrt

import helpers
import naive
import numpy as np
import pytest
import torch
from helpers import check_refusal, check_refusals, crossed, still

import gdpo_core as gc

EACH_METHOD = pytest.mark.parametrize("method", helpers.METHODS)
MATCHED = pytest.mark.parametrize("match_scale", (True, False), ids=("matched", "not matched"))

# This is the conflict between two rewards that one answer cannot both have.
START = [0.10, 0.85, 0.05]
TABLE = [(1, 0), (0, 1), (0, 0)]
GATED = [(1, 0), (0, 0), (0, 0)]  # short counts only where the answer is correct


# --- recorded medians, and steps worked by hand ----------------------------------------------------------------------


# For each start p and options of the run, these are the median epochs at which each p reaches .9, as another program
# found them. A row with fewer numbers than rewards was recorded for its first rewards alone.
OF_FOUR = {"rollouts": 4, "prompts": 128, "scale": (1, 6)}
RECORDED = {
    "unequal start": (
        (0.5, 0.2, 0.02), {}, {"grpo": (19, 25, 72), "grpo_no_std": (18, 25, 70), "gdpo": (18, 26, 70)}
    ),
    "unequal scale": (
        (0.5, 0.5, 0.5), {"scale": (1, 3, 10)},
        {"grpo": (37, 25, 14), "grpo_no_std": (53, 28, 12), "gdpo": (20, 20, 21)}
    ),
    "rare, beside a reward that always varies": (
        (0.01, 0.1), {"noise": (0, 1), **OF_FOUR}, {"grpo": (366, 33), "grpo_no_std": (336, 27), "gdpo": (160, 34)}
    ),
    "rare, Adam": (
        (0.01, 0.1), {"optimizer": "adam", "lr": 0.05, **OF_FOUR},
        {"grpo": (103,), "grpo_no_std": (114,), "gdpo": (102,)}
    ),
}  # fmt: skip


def long(medians):
    """Return the mark for a slow test if a run takes over a hundred epochs."""
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
    epochs = round(1.2 * max(medians)) + 5  # The run has as many epochs as the median may take.
    steps = gc.train(method, p0, seeds=32, epochs=epochs, **options).steps_to(0.9)
    assert steps.shape == (32, len(p0))
    reached = steps.quantile(0.5, dim=0).tolist()[: len(medians)]
    for got, expected in zip(reached, medians, strict=True):
        assert abs(got - expected) <= max(3, 0.12 * expected)


@MATCHED
@EACH_METHOD
def test_two_rollouts_of_arms_move_the_logits_as_worked_by_hand(method, match_scale):
    # Of two answers to one prompt, correct-long and wrong-short tie; either of them beside wrong-long gives A = ±a to
    # the two.
    p0, lr, seeds = [0.3, 0.3, 0.4], 0.5, 400
    options = {"rollouts": 2, "prompts": 1, "epochs": 1, "seeds": seeds, "lr": lr, "match_scale": match_scale}
    run = gc.train(method, p0, arms=TABLE, **options)
    moved = run.p[:, 1].double().log() - run.p[:, 0].double().log()
    moved = moved - moved.mean(1, keepdim=True)  # A softmax determines its logits only up to a constant.
    a = 0.5 if method == "grpo_no_std" and not match_scale else sqrt(0.5)
    step = lr * a / 2
    possible = torch.tensor([[0, 0, 0], [step, 0, -step], [0, step, -step]], dtype=torch.float64)
    nearest = (moved[:, None] - possible).abs().sum(-1).min(1)
    assert nearest.values.max() < 2e-6
    share = nearest.indices.bincount(minlength=3) / seeds
    assert (share - torch.tensor([0.52, 0.24, 0.24])).abs().max() < 0.1


@EACH_METHOD
def test_one_rollout_a_prompt_or_one_reward_for_all_answers_teaches_nothing(method):
    for p in (
        gc.train(method, [0.5, 0.1], rollouts=1, epochs=5, seeds=3).p,
        gc.train(method, START, arms=[(1,), (1,), (1,)], epochs=5, seeds=3).p,
    ):
        assert still(p, p[:, :1])


# --- a second program, with one draw at a time ---------------------------------------------------------------------


def sigmoids(logits):
    return [1 / (1 + exp(-x)) for x in logits]


def softmax(logits):
    return [exp(x) / sum(map(exp, logits)) for x in logits]


def climb(logits, probabilities, gradient, epochs, lr, optimizer="sgd"):
    """Return the probabilities at every epoch of gradient steps on the logits, plain ones or torch's own Adam, in
    float64. gradient: returns the gradient from the probabilities.
    """
    at = torch.tensor(logits, dtype=torch.float64)
    adam, path = torch.optim.Adam([at], lr=lr, maximize=True) if optimizer == "adam" else None, [probabilities(logits)]
    for _ in range(epochs):
        at.grad = torch.tensor(gradient(path[-1]), dtype=torch.float64)
        if adam is None:  # Plain ascent does without torch.optim, which takes two seconds to start.
            at += lr * at.grad
        else:
            adam.step()
        path.append(probabilities(at.tolist()))
    return torch.tensor(path, dtype=torch.float64)


def of_coins(p):
    return [log(x / (1 - x)) for x in p]


def advantages(method, rows, ids, weights, match_scale):
    computed = naive.compute(rows, ids, method, weights)
    if method == "gdpo":
        return computed.advantages if match_scale else computed.sums
    if not match_scale:
        return computed.advantages
    _, std = naive.mean_and_std(computed.advantages, 1e-6)
    return [a / std if std else 0.0 for a in computed.advantages]


def loop(
    method, p0, *, scale, weights, noise, gate, match_scale, optimizer, lr, seed, prompts, rollouts, epochs, together=0
):
    """Return the probabilities of one seed at every epoch, trained by plain loops.

    An epoch draws its uniforms reward by reward, and then the noise of each noisy reward; in each of these it draws
    rollout by rollout, and in each rollout prompt by prompt.
    """
    draws, rewards = np.random.Generator(np.random.SFC64(seed)), len(noise)
    ids = [prompt for _ in range(rollouts) for prompt in range(prompts)]

    def gradient(p):
        uniforms = draws.random((len(p) + (together > 0), rollouts * prompts), dtype=np.float32).tolist()
        for i, one in enumerate(uniforms[-1] if together else ()):
            for row in uniforms[1 : len(p)] if one < together else ():
                row[i] = uniforms[0][i]
        b = [[float(uniforms[k][i] < p[k]) for k in range(len(p))] for i in range(len(ids))]
        rows = [[c * x for c, x in zip(scale, outcome, strict=True)] + [0.0] * (rewards - len(p)) for outcome in b]
        if gate is not None:
            reward, on = gate
            for row, outcome in zip(rows, b, strict=True):
                row[reward] = row[reward] if outcome[on] >= 1 else 0.0
        for k in range(rewards):
            if noise[k]:
                for row, n in zip(rows, draws.standard_normal(len(rows), dtype=np.float32).tolist(), strict=True):
                    row[k] += noise[k] * n
        a = advantages(method, rows, ids, weights, match_scale)
        return [sum(a[i] * (b[i][k] - p[k]) for i in range(len(ids))) / len(ids) for k in range(len(p))]

    return climb(of_coins(p0), sigmoids, gradient, epochs, lr, optimizer)


AS_IT_IS = {"scale": [1, 1], "weights": [1, 1], "noise": [0, 0], "gate": None, "optimizer": "sgd", "lr": 0.5}
SMALL_RUNS = {
    "as it is": AS_IT_IS,
    "scale and weights": AS_IT_IS | {"scale": [1, 3], "weights": [2, 0.5]},
    "gate": AS_IT_IS | {"gate": (1, 0), "scale": [1, 2]},
    # There are more draws here, because where a coin falls the same way throughout, Adam would make a step of float32's
    # round-off.
    "Adam": AS_IT_IS | {"optimizer": "adam", "lr": 0.3, "prompts": 4, "rollouts": 5},
    "together": AS_IT_IS | {"scale": [1, 3], "together": 0.5},
    "noise": AS_IT_IS | {"noise": [0, 0.5, 1], "weights": [1, 2, 0.5], "gate": (0, 1)},
}


@pytest.mark.parametrize("name, match_scale, method", crossed(SMALL_RUNS, (True, False), helpers.METHODS))
def test_a_small_run_is_that_of_a_plain_loop_over_the_same_draws(name, match_scale, method):
    options = {"prompts": 2, "rollouts": 3, "epochs": 3, "match_scale": match_scale} | SMALL_RUNS[name]
    for seed in range(8):
        run = gc.train(method, [0.5, 0.3], seeds=1, seed=seed, **options)
        expected = loop(method, [0.5, 0.3], seed=seed, **options)
        torch.testing.assert_close(run.p[0].double(), expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("gate", ((0, 1), (-2, 0), (2, 1)), ids=str)
@EACH_METHOD
def test_a_gate_is_condition_on_the_table(method, gate):
    table = [(1.0, 0.4, 2), (0, 1.5, 1), (0.9, 1, 3), (2, 0, 0)]
    p0, options = [0.25] * 4, {"epochs": 20}
    conditioned = gc.condition(table, *gate)
    of_table = gc.train(method, p0, arms=table, gate=gate, seeds=3, **options).p
    assert torch.equal(of_table, gc.train(method, p0, arms=conditioned, seeds=3, **options).p)
    curve = gc.mean_field(method, p0, arms=table, gate=gate, **options)
    assert torch.equal(curve, gc.mean_field(method, p0, arms=conditioned, **options))


# --- infinite-group limit ---------------------------------------------------------------------------------------------


def limit(method, likely, rows, weights, match_scale):
    """Return the advantage of each outcome in the limit where every group holds all outcomes, each as often as it is
    likely. rows: the rewards of each outcome.
    """

    def mean(x):
        return sum(p * y for p, y in zip(likely, x, strict=True))

    def standardised(x, divide=True):
        centred = [y - mean(x) for y in x]
        std = sqrt(mean([y * y for y in centred]))
        return [y / std if std > 1e-9 else 0.0 for y in centred] if divide else centred

    columns = [standardised(x) if method == "gdpo" else x for x in zip(*rows, strict=True)]
    s = [sum(w * x for w, x in zip(weights, row, strict=True)) for row in zip(*columns, strict=True)]
    return standardised(s, divide=match_scale or method == "grpo")


def likelihood(b, p, together):
    """Return the probability of an outcome b of some coins: they fall independently, or, with probability `together`,
    all by one draw.
    """
    alone = prod(q if x else 1 - q for x, q in zip(b, p, strict=True))
    edges = [0, *sorted(p), 1]
    by_one = sum(
        high - low
        for low, high in pairwise(edges)
        if all((q > (low + high) / 2) == x for x, q in zip(b, p, strict=True))
    )
    return (1 - together) * alone + together * by_one


def gradient_of_coins(p, method, scale, weights, noise, gate, match_scale, together=0):
    """Return the gradient of each coin's logit in the limit of infinite groups, added up over all outcomes, with the
    noise of each reward at one std up or down.
    """
    rows, likely, fell = [], [], []
    for b in product((0.0, 1.0), repeat=len(p)):
        r = [c * x for c, x in zip(scale, b, strict=True)] + [0.0] * (len(noise) - len(p))
        for reward, on in gate:
            r[reward] *= b[on]
        for signs in product(*((-1, 1) if n else (0,) for n in noise)):
            rows.append([x + sign * n for x, sign, n in zip(r, signs, noise, strict=True)])
            likely.append(likelihood(b, p, together) / 2 ** sum(map(bool, noise)))
            fell.append(b)
    a = limit(method, likely, rows, weights, match_scale)
    return [sum(q * x * (b[k] - p[k]) for q, x, b in zip(likely, a, fell, strict=True)) for k in range(len(p))]


PLAIN = {"scale": [1, 1], "weights": [1, 1], "noise": [0, 0], "gate": []}
CURVES = {
    "as it is": ([0.5, 0.02], PLAIN),
    "scales": ([0.5, 0.5, 0.3], {"scale": [1, 3, 10], "weights": [1, 1, 1], "noise": [0, 0, 0], "gate": []}),
    "weights": ([0.5, 0.2], PLAIN | {"weights": [2, -0.5], "scale": [1, 6]}),
    "a reward of noise alone": ([0.5, 0.2], PLAIN | {"noise": [0, 0.3, 1e-3], "weights": [1, 2, 0.5]}),
    "together": (
        [0.5, 0.2, 0.3],
        {"scale": [1, 3, 1], "weights": [1, 1, 1], "noise": [0] * 3, "gate": [], "together": 0.5},
    ),
    "nothing to win": ([0.5, 0.2], PLAIN | {"scale": [0, 1]}),
    "two gates": ([0.3, 0.6], PLAIN | {"noise": [0.2, 0, 1], "weights": [1, 0.7, 2], "gate": [(1, 0), (0, 1)]}),
}
RATES = {"sgd": 0.5, "adam": 0.05}


@pytest.mark.parametrize("name, optimizer, match_scale, method", crossed(CURVES, RATES, (True, False), helpers.METHODS))
def test_the_large_group_curve_of_coins_is_the_outcomes_counted_one_by_one(name, optimizer, match_scale, method):
    (p0, options), lr = CURVES[name], RATES[optimizer]
    curve = gc.mean_field(method, p0, epochs=40, lr=lr, optimizer=optimizer, match_scale=match_scale, **options)
    gradient = partial(gradient_of_coins, method=method, match_scale=match_scale, **options)
    torch.testing.assert_close(curve, climb(of_coins(p0), sigmoids, gradient, 40, lr, optimizer), rtol=0, atol=1e-9)


TABLES = {
    "conflict": (START, TABLE, [1, 1]),
    "little weight on short": (START, TABLE, [1, 0.25]),
    "gated": (START, GATED, [1, 1]),
    "four answers, three rewards": ([0.4, 0.3, 0.2, 0.1], [(1, 0, 2), (0, 1.5, 2), (0, 0, 2), (3, 1, 2)], [1, 2, 1]),
}


@pytest.mark.parametrize("name, match_scale, method", crossed(TABLES, (True, False), helpers.METHODS))
def test_the_large_group_curve_of_arms_is_that_of_each_answer(name, match_scale, method):
    p0, table, weights = TABLES[name]
    curve = gc.mean_field(method, p0, arms=table, weights=weights, epochs=60, lr=0.3, match_scale=match_scale)

    def gradient(p):
        return [q * a for q, a in zip(p, limit(method, p, table, weights, match_scale), strict=True)]

    torch.testing.assert_close(curve, climb(list(map(log, p0)), softmax, gradient, 60, 0.3), rtol=0, atol=1e-9)


# --- round-off teaches nothing ---------------------------------------------------------------------------------------


@MATCHED
@pytest.mark.parametrize("rollouts", (2, 7, 8, 50))
def test_two_answers_that_trade_one_reward_for_the_other_leave_gdpo_still(rollouts, match_scale):
    # The z of one reward is −z of the other, at any scale. Only round-off is left, which no batch step may blow up.
    table, options = [(0.3, 1 / 7), (0.1, 5 / 7)], {"weights": [0.3, 0.3], "match_scale": match_scale, "epochs": 20}
    p = gc.train("gdpo", [0.3, 0.7], arms=table, rollouts=rollouts, seeds=4, **options).p
    assert still(p, p[:, :1])
    curve = gc.mean_field("gdpo", [0.3, 0.7], arms=table, **options)
    assert still(curve, curve[:1])


# --- what comes back -----------------------------------------------------------------------------------------------


NOISY = {"scale": [1, 3], "noise": [0, 0.5, 1], "gate": (1, 0), "epochs": 10, "seeds": 3}
BOTH = {
    "coins": lambda method, **options: gc.train(method, [0.5, 0.3], **NOISY | options).p,
    "arms": lambda method, **options: gc.train(method, START, arms=TABLE, **{"epochs": 10, "seeds": 3} | options).p,
}


@pytest.mark.parametrize("train", BOTH.values(), ids=BOTH)
@EACH_METHOD
def test_the_same_seed_gives_the_same_bits_and_no_global_generator_plays_a_part(method, train):
    states = torch.get_rng_state(), np.random.get_state(), random.getstate()
    first = train(method, seed=3)
    gc.mean_field(method, [0.5, 0.3], noise=[0, 1], epochs=3)
    assert torch.equal(states[0], torch.get_rng_state()) and random.getstate() == states[2]
    assert all(np.array_equal(x, y) for x, y in zip(states[1], np.random.get_state(), strict=True))
    torch.manual_seed(99)
    np.random.seed(99)
    assert torch.equal(first, train(method, seed=3))
    assert not torch.equal(first, train(method, seed=4))
    assert len(first[:, -1, 0].unique()) == 3  # Each seed has draws of its own.


@pytest.mark.parametrize("train", BOTH.values(), ids=BOTH)
def test_runs_at_the_same_time_do_not_disturb_each_other_and_share_no_memory(train):
    with ThreadPoolExecutor(4) as pool:
        at_once = list(pool.map(lambda seed: train("gdpo", seed=seed), range(8)))
    assert all(torch.equal(p, train("gdpo", seed=seed)) for seed, p in enumerate(at_once))


def test_steps_to_is_the_first_epoch_at_the_level_and_infinity_if_never():
    seeds = [[0.5, 0.95], [0.9, 0.1], [0.2, 0.1]], [[0.6, 0.5], [0.89, 0.5], [0.91, 0.9]], [[0.1, 0.1]] * 3
    run = gc.TrainingRun("grpo", torch.tensor(seeds, dtype=torch.float64))
    assert run.steps_to(0.9).tolist() == [[1, 0], [2, 2], [inf, inf]]
    assert run.steps_to(0.1).tolist() == [[0, 0], [0, 0], [0, 0]]


# --- bad input -----------------------------------------------------------------------------------------------------


whole = (0, 1.5, "2", None, True)
FRACTIONS = ([1], [nan, 1], 2, [[1, 2]], [None, 1])
OF_COINS = {
    "method": ("ppo", None),
    "p0": ([0, 0.5], [1, 0.5], [nan, 0.5], [inf], [], 0.5, None, [[0.5]], [1j]),
    "scale": FRACTIONS,
    "weights": FRACTIONS,
    "rollouts": whole,
    "prompts": whole,
    "epochs": whole,
    "seeds": whole,
    "lr": (0, nan, inf, 10**400, "fast", None, True),
    "seed": (None, -1, 1.5, 2**64, True),
    "optimizer": (None, "SGD", ["sgd"]),
    "match_scale": (None, 1),
    "noise": ([0], [0, -1], [0, nan], [], 1, [0, 1j]),
    "together": (-0.1, 1.5, "half", float("nan")),
    "gate": ((0, 0), (1, -1), (2, 0), (0, -3), (True, False), (0.0, 1.0), (0,), "01", 0, {0: 1}, [None], [(0, 1), 1]),
}
OF_ARMS = {
    "p0": ([0.1, 0.8, 0.05], [0, 0.9, 0.1], [1.0], [0.5, 0.6, -0.1], [], None),
    "arms": (TABLE[:2], [1, 0, 0], [[], [], []], [(nan, 0), (0, 1), (0, 0)], [(1,), (0, 1), (0, 0)]),
    "weights": ([1], [1, nan], 1),
    "gate": ((0, 0), (0, 2), [(1, 0), (0, 0)]),
    "lr": (0, "fast"),
}


DRAWN = ("rollouts", "prompts", "seeds", "seed")  # which a large-group curve does not take
COINS = {"method": "gdpo", "p0": [0.5, 0.5], "epochs": 2}
ARMS = {"method": "gdpo", "p0": START, "arms": TABLE, "epochs": 2}


def test_bad_input_is_named_with_what_was_expected_and_what_came(subtests):
    check_refusals(subtests, gc.train, {**COINS, "seeds": 2, "prompts": 2, "rollouts": 2}, OF_COINS)
    drawn = {name: OF_COINS[name][:2] for name in DRAWN}
    check_refusals(subtests, gc.train, {**ARMS, "seeds": 2}, OF_ARMS | drawn)
    once = {name: values[:1] for name, values in OF_COINS.items() if name not in DRAWN}
    check_refusals(subtests, gc.mean_field, COINS, once)
    check_refusals(subtests, gc.mean_field, ARMS, OF_ARMS)
    run = gc.train("gdpo", [0.5], epochs=1, seeds=1)
    check_refusals(subtests, run.steps_to, {}, {"level": ("high", None, nan, 0, 1, True, [0.5])})


NOISE_ALONE = {"noise": [0, 0, 1], "seeds": 2, "prompts": 2}  # a third reward, without a coin
SAID = (
    (gc.train, {"gate": (0, 0)}, "gate", "another coin than the reward's own, got (0, 0)"),
    (gc.train, NOISE_ALONE | {"weights": [1, 1]}, "weights", "3 numbers, as many as rewards, got [1.0, 1.0]"),
    (gc.train, NOISE_ALONE | {"scale": [1, 1, 1]}, "scale", "2 numbers, as many as p0, got [1.0, 1.0, 1.0]"),
    (gc.train, NOISE_ALONE | {"gate": (2, 0)}, "gate", "an index of 2 rewards, got 2"),
    (gc.train, {"seeds": 10**12}, "seeds", "seeds × prompts × rollouts of at most"),
    (gc.train, {"epochs": 10**30}, "epochs", "seeds × epochs of at most"),
    (gc.mean_field, {"p0": [0.5] * 13}, "p0", "at most 4096 outcomes, got 8192"),
    (gc.mean_field, {"p0": [0.5] * 12, "noise": [1, *[0] * 11]}, "p0", "got 8192"),
)


def test_what_does_not_go_together_is_named(subtests):
    for run, options, argument, came in SAID:
        with subtests.test(argument=argument, came=came):
            check_refusal(run, COINS | options, argument, came)
    # These go together.
    gc.train(**COINS, **NOISE_ALONE, weights=[1, 1, 2], scale=[1, 3])
    assert gc.train("gdpo", [0.5] * 13, epochs=2, seeds=2, prompts=4).p.shape == (2, 3, 13)
    assert gc.mean_field("gdpo", [0.5] * 12, epochs=1).shape == (2, 12)


# The logits leave float32, or float64, at an epoch that can be worked out.
DIVERGING = {
    "SGD": (gc.train, {"lr": 1e300, "seeds": 2}, 1),
    "Adam": (gc.train, {"lr": 1e38, "optimizer": "adam", "seeds": 2}, 7),
    "Adam, large groups": (gc.mean_field, {"lr": 1e308, "optimizer": "adam"}, 3),
}


@pytest.mark.parametrize("run, options, epoch", DIVERGING.values(), ids=DIVERGING.keys())
@EACH_METHOD
def test_a_diverging_run_stops_with_its_epoch_named(method, run, options, epoch):
    with pytest.raises(gc.InputError, match=rf"^lr: expected .*, got .* at epoch {epoch}$"):
        run(method, [0.5, 0.5], epochs=20, **options)
