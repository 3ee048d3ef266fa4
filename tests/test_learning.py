"""How the policy learns: against a plain loop, against the formulas of the large-group limit, the same on every run."""

import random
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from math import log, sqrt

import helpers
import naive
import numpy as np
import pytest
import torch
from helpers import crossed

import gdpo_core as gc

METHODS = pytest.mark.parametrize("method", ("grpo", "grpo_no_std", "gdpo"))
MATCHED = pytest.mark.parametrize("match_scale", (True, False), ids=("matched", "not matched"))


def sigmoid(x):
    return float(torch.special.expit(torch.tensor(x, dtype=torch.float64)))


def logit(p):
    return torch.special.logit(torch.as_tensor(p, dtype=torch.float64))


class Adam:
    """Algorithm 1 of arXiv 1412.6980, uphill, one number at a time."""

    def __init__(self, lr, count):
        self.lr, self.m, self.v, self.t = lr, [0.0] * count, [0.0] * count, 0

    def step(self, gradient):
        self.t += 1
        self.m = [0.9 * m + 0.1 * g for m, g in zip(self.m, gradient, strict=True)]
        self.v = [0.999 * v + 0.001 * g * g for v, g in zip(self.v, gradient, strict=True)]
        m = [m / (1 - 0.9**self.t) for m in self.m]
        v = [v / (1 - 0.999**self.t) for v in self.v]
        return [self.lr * m / (sqrt(v) + 1e-8) for m, v in zip(m, v, strict=True)]


class SGD:
    def __init__(self, lr, count):
        self.lr = lr

    def step(self, gradient):
        return [self.lr * g for g in gradient]


OPTIMIZERS = {"sgd": SGD, "adam": Adam}


def climb(p0, gradient, epochs, lr, optimizer="sgd"):
    """Euler steps on the logits, in plain floats; gradient of p."""
    theta, path, steps = [log(p / (1 - p)) for p in p0], [list(p0)], OPTIMIZERS[optimizer](lr, len(p0))
    for _ in range(epochs):
        theta = [t + d for t, d in zip(theta, steps.step(gradient(path[-1])), strict=True)]
        path.append([sigmoid(t) for t in theta])
    return path


# --- a second programme: one draw at a time ------------------------------------------------------------------------


class Draws:
    """What a run draws from its seed: an epoch takes its uniforms, reward by reward, then the noise of each noisy
    reward; seed by seed, in each rollout by rollout, in each prompt by prompt.
    """

    def __init__(self, seed):
        self.generator = np.random.Generator(np.random.SFC64(seed))

    def uniforms(self, *shape):
        return self.generator.random(shape, dtype=np.float32)

    def normal(self, *shape):
        return self.generator.standard_normal(shape, dtype=np.float32)


def advantages(method, rows, ids, weights, match_scale):
    computed = naive.compute(rows, ids, method, weights)
    if method == "gdpo":
        return computed.advantages if match_scale else computed.sums
    if not match_scale:
        return computed.advantages
    _, std = naive.mean_and_std(computed.advantages, 1e-6)
    return [a / std if std else 0.0 for a in computed.advantages]


def loop(method, p0, *, scale, weights, noise, gate, match_scale, optimizer, lr, seed, prompts, rollouts, epochs):
    """One seed."""
    draws, rewards = Draws(seed), len(noise)
    ids = [prompt for _ in range(rollouts) for prompt in range(prompts)]

    def gradient(p):
        uniforms = draws.uniforms(len(p), rollouts * prompts).tolist()
        b = [[float(uniforms[k][i] < p[k]) for k in range(len(p))] for i in range(len(ids))]
        rows = [[c * x for c, x in zip(scale, outcome, strict=True)] + [0.0] * (rewards - len(p)) for outcome in b]
        if gate is not None:
            reward, on = gate
            for row, outcome in zip(rows, b, strict=True):
                row[reward] = row[reward] if outcome[on] >= 1 else 0.0
        for k in range(rewards):
            if noise[k]:
                for row, n in zip(rows, draws.normal(rollouts * prompts).tolist(), strict=True):
                    row[k] += noise[k] * n
        a = advantages(method, rows, ids, weights, match_scale)
        return [sum(a[i] * (b[i][k] - p[k]) for i in range(len(ids))) / len(ids) for k in range(len(p))]

    return climb(p0, gradient, epochs, lr, optimizer)


PLAIN = {"scale": [1, 1], "weights": [1, 1], "noise": [0, 0], "gate": None, "optimizer": "sgd", "lr": 0.5}
SMALL_RUNS = {
    "as it is": PLAIN,
    "scale and weights": PLAIN | {"scale": [1, 3], "weights": [2, 0.5]},
    "gate": PLAIN | {"gate": (1, 0), "scale": [1, 2]},
    # More draws: where a coin falls the same way throughout, Adam would make a step of float32's round-off.
    "Adam": PLAIN | {"optimizer": "adam", "lr": 0.3, "prompts": 4, "rollouts": 5},
    "noise": PLAIN | {"noise": [0, 0.5, 1], "weights": [1, 2, 0.5], "gate": (0, 1)},
}


@pytest.mark.slow
@pytest.mark.parametrize("options", SMALL_RUNS.values(), ids=SMALL_RUNS.keys())
@MATCHED
@METHODS
def test_a_small_run_is_that_of_a_plain_loop_over_the_same_draws(method, match_scale, options):
    p0, options = [0.5, 0.3], {"prompts": 2, "rollouts": 3, "epochs": 3, "match_scale": match_scale} | options
    for seed in range(8):
        run = gc.train(method, p0, seeds=1, seed=seed, **options)
        expected = torch.tensor(loop(method, p0, seed=seed, **options))
        torch.testing.assert_close(run.p[0], expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("gate", ((1, 0), (0, 1), (-1, 0), (2, -2)), ids=str)
@METHODS
def test_a_gated_reward_is_what_condition_makes_of_the_outcomes(method, gate):
    p0, scale, shape = [0.5, 0.4, 0.6], torch.tensor([2.0, 0.5, 3.0]), (3, 8, 4)  # seeds, rollouts, prompts
    b = (torch.from_numpy(Draws(5).uniforms(3, *shape)) < torch.tensor(p0).reshape(-1, 1, 1, 1)).float()
    b = b.permute(1, 3, 2, 0)  # (seeds, prompts, rollouts, rewards)
    run = gc.train(method, p0, scale=scale, gate=gate, seed=5, epochs=1, seeds=3, prompts=4, rollouts=8)
    moved = logit(run.p[:, 1]) - logit(p0)
    for seed, outcomes in enumerate(b):
        a = gc.advantages(gc.condition(outcomes, *gate) * scale, method)
        a = a / a.std()
        expected = 0.5 * (a[..., None] * (outcomes - torch.tensor(p0))).mean((0, 1))
        torch.testing.assert_close(moved[seed], expected.double(), rtol=1e-4, atol=1e-5)


@METHODS
def test_negative_indices_and_lists_of_pairs_mean_the_same_gate(method):
    options = {"epochs": 10, "seeds": 4}
    once = gc.train(method, [0.5, 0.5], gate=(1, 0), **options).p
    for gate in ((-1, 0), (1, -2), [1, 0], [(1, 0)], ((1, 0),), [[-1, -2]], (np.int64(1), np.int64(0))):
        assert torch.equal(once, gc.train(method, [0.5, 0.5], gate=gate, **options).p)
    assert not torch.equal(once, gc.train(method, [0.5, 0.5], **options).p)


# --- infinite-group limit ---------------------------------------------------------------------------------------------


def closed_form(method, p, scale, weights, noise, match_scale):
    """The gradient on the logits as method.md §4 gives it; noise adds to a reward's variance."""
    coins = range(len(p))
    c, w = [*scale, *[0.0] * (len(noise) - len(p))], weights
    v = [x * (1 - x) for x in p] + [0.0] * (len(noise) - len(p))
    variance = [c[k] ** 2 * v[k] + noise[k] ** 2 for k in range(len(noise))]
    if method == "gdpo":
        spread = sqrt(sum(w[k] ** 2 for k in range(len(noise)) if variance[k])) if match_scale else 1.0
        return [w[k] * c[k] * v[k] / sqrt(variance[k]) / spread if variance[k] else 0.0 for k in coins]
    spread = sqrt(sum(w[k] ** 2 * variance[k] for k in range(len(noise))))
    return [w[k] * c[k] * v[k] / (1.0 if method == "grpo_no_std" and not match_scale else spread) for k in coins]


def enumerated(method, p, scale, weights, noise, gates, match_scale):
    """The same gradient, outcome by outcome and with the noise of each reward at one std up or down."""
    rewards, states = range(len(noise)), []
    for b in product((0.0, 1.0), repeat=len(p)):
        for signs in product((-1.0, 1.0), repeat=len(noise)):
            likely = 0.5 ** len(noise)
            for x, q in zip(b, p, strict=True):
                likely *= q if x else 1 - q
            r = [c * x for c, x in zip(scale, b, strict=True)] + [0.0] * (len(noise) - len(p))
            for reward, on in gates:
                r[reward] *= b[on]
            states.append((likely, b, [r[k] + signs[k] * noise[k] for k in rewards]))

    def expected(of):
        return sum(likely * of(n) for n, (likely, _, _) in enumerate(states))

    def standardised(x, divide=True):
        mean = expected(lambda n: x[n])
        std = sqrt(expected(lambda n: (x[n] - mean) ** 2))
        return [(y - mean) / (std if divide and std > 1e-9 else 1.0) for y in x]

    shown = [[r[k] for _, _, r in states] for k in rewards]
    if method == "gdpo":
        shown = [standardised(x) for x in shown]
    a = [sum(weights[k] * shown[k][n] for k in rewards) for n in range(len(states))]
    a = standardised(a, divide=match_scale or method == "grpo")
    return [expected(lambda n, k=k: a[n] * (states[n][1][k] - p[k])) for k in range(len(p))]


RUNS = {
    "as it is": ([0.5, 0.2, 0.02], {}),
    "scales": ([0.5, 0.5, 0.3], {"scale": [1, 3, 10]}),
    "weights": ([0.5, 0.2], {"weights": [2, -0.5], "scale": [1, 6]}),
    "noise on a reward": ([0.01, 0.1], {"scale": [1, 6], "noise": [0, 1]}),
    "a reward of noise alone": ([0.5, 0.2], {"noise": [0, 0.3, 1e-3], "weights": [1, 2, 0.5]}),
    "nothing to win": ([0.5, 0.2], {"scale": [0, 1]}),
}
RATES = {"sgd": 0.5, "adam": 0.05}


@pytest.mark.parametrize("name, optimizer, match_scale, method", crossed(RUNS, RATES, (True, False), helpers.METHODS))
def test_the_large_group_curve_is_the_closed_form_integrated(method, match_scale, name, optimizer):
    (p0, options), lr = RUNS[name], RATES[optimizer]
    noise = options.get("noise", [0] * len(p0))
    full = (options.get("scale", [1] * len(p0)), options.get("weights", [1] * len(noise)), noise)
    curve = gc.mean_field(method, p0, epochs=60, lr=lr, optimizer=optimizer, match_scale=match_scale, **options)
    expected = climb(p0, lambda p: closed_form(method, p, *full, match_scale), 60, lr, optimizer)
    assert curve.shape == (61, len(p0)) and curve.dtype == torch.float64
    torch.testing.assert_close(curve, torch.tensor(expected, dtype=torch.float64), rtol=0, atol=1e-9)


GATES, NOISES = ((1, 0), (0, 1), [(1, 0), (0, 1)]), ([0, 0], [0, 0.5], [0.2, 0, 1])


@pytest.mark.parametrize("gate, noise, match_scale, method", crossed(GATES, NOISES, (True, False), helpers.METHODS))
def test_with_a_gate_the_large_group_curve_is_the_outcomes_counted_one_by_one(method, match_scale, noise, gate):
    p0, scale, weights = [0.3, 0.6], [1, 2], [1, 0.7, 2][: len(noise)]
    gates = gate if isinstance(gate, list) else [gate]
    curve = gc.mean_field(
        method, p0, scale=scale, weights=weights, noise=noise, gate=gate, epochs=25, match_scale=match_scale
    )
    expected = climb(p0, lambda p: enumerated(method, p, scale, weights, noise, gates, match_scale), 25, 0.5)
    torch.testing.assert_close(curve, torch.tensor(expected, dtype=torch.float64), rtol=0, atol=1e-9)


LARGE = {
    "scales": ([0.5, 0.2], {"scale": [1, 3]}),
    "noise": ([0.5, 0.2], {"noise": [0, 1, 0.3]}),
    "gate": ([0.5, 0.6], {"gate": (1, 0)}),
    "Adam": ([0.5, 0.2], {"optimizer": "adam", "lr": 0.1}),
}


@pytest.mark.parametrize("p0, options", LARGE.values(), ids=LARGE.keys())
@MATCHED
@METHODS
def test_training_in_large_groups_follows_the_large_group_curve(method, match_scale, p0, options):
    options = {"epochs": 8, "match_scale": match_scale} | options
    run, curve = gc.train(method, p0, rollouts=512, prompts=8, seeds=8, **options), gc.mean_field(method, p0, **options)
    distance = (run.p.mean(0) - curve).abs()
    assert (distance <= 5 * run.p.std(0) / sqrt(8) + 2e-3).all()
    assert curve[-1, 0] > p0[0] + 0.02  # there was something to follow


# --- the same on every run -----------------------------------------------------------------------------------------

NOISY = {"scale": [1, 3], "noise": [0, 0.5, 1], "gate": (1, 0), "epochs": 10, "seeds": 3}


@METHODS
def test_the_same_seed_gives_the_same_bits_with_noise_and_gate_too(method):
    first = gc.train(method, [0.5, 0.3], seed=3, **NOISY).p
    assert torch.equal(first, gc.train(method, [0.5, 0.3], seed=3, **NOISY).p)
    assert not torch.equal(first, gc.train(method, [0.5, 0.3], seed=4, **NOISY).p)


@METHODS
def test_a_run_and_its_curve_leave_every_global_generator_where_it_was(method):
    torch_state, numpy_state, python_state = torch.get_rng_state(), np.random.get_state(), random.getstate()
    gc.train(method, [0.5, 0.3], **NOISY)
    gc.mean_field(method, [0.5, 0.3], noise=[0, 1], epochs=3)
    assert torch.equal(torch_state, torch.get_rng_state())
    assert random.getstate() == python_state
    assert all(np.array_equal(x, y) for x, y in zip(numpy_state, np.random.get_state(), strict=True))


@pytest.mark.slow
@pytest.mark.parametrize("seeds, prompts, rollouts", [(32, 32, 8), (1, 512, 64), (1, 1, 20_000), (3, 4000, 4)])
@METHODS
def test_one_thread_and_two_give_the_same_bits(method, seeds, prompts, rollouts):
    options = {"scale": [1, 3], "noise": [0, 0.1], "epochs": 4}
    threads, runs = torch.get_num_threads(), []
    try:
        for n in (1, 2):
            torch.set_num_threads(n)
            run = gc.train(method, [0.5, 0.2], seeds=seeds, prompts=prompts, rollouts=rollouts, **options)
            runs.append(run.p)
    finally:
        torch.set_num_threads(threads)
    assert torch.equal(*runs)


@METHODS
def test_runs_at_the_same_time_do_not_disturb_each_other(method):
    def run(seed):
        return gc.train(method, [0.5, 0.3], seed=seed, **NOISY).p

    with ThreadPoolExecutor(4) as pool:
        at_once = list(pool.map(run, range(8)))
    assert all(torch.equal(p, run(seed)) for seed, p in enumerate(at_once))


@METHODS
def test_what_the_caller_hands_in_stays_as_it_is(method):
    given = {"p0": [0.5, 0.3], "scale": [1, 3], "weights": [1, 2, 0.5], "noise": [0, 0.1, 1]}
    for kind in (torch.tensor, np.array):
        handed = {name: kind(values) for name, values in given.items()}
        before = {name: values.tolist() for name, values in handed.items()}
        gc.train(method, **handed, epochs=3, seeds=2, gate=(1, 0))
        gc.mean_field(method, **handed, epochs=3, gate=(1, 0))
        assert {name: values.tolist() for name, values in handed.items()} == before


@METHODS
def test_runs_and_curves_share_no_memory(method):
    first, curve = gc.train(method, [0.5, 0.3], **NOISY).p, gc.mean_field(method, [0.5, 0.3], epochs=5)
    copies = first.clone(), curve.clone()
    gc.train(method, [0.4, 0.2], **NOISY)
    gc.mean_field(method, [0.4, 0.2], epochs=5)
    assert torch.equal(first, copies[0]) and torch.equal(curve, copies[1])


@METHODS
def test_a_longer_run_begins_as_a_shorter_one(method):
    options = {"scale": [1, 3], "noise": [0, 0.5], "seeds": 3}
    short, long = (gc.train(method, [0.5, 0.3], epochs=n, **options).p for n in (5, 12))
    # the draws are the same; each p is a sigmoid, which a processor may round by its place
    torch.testing.assert_close(short, long[:, :6], rtol=0, atol=1e-6)


# --- progress, and stopping ----------------------------------------------------------------------------------------


@METHODS
def test_progress_is_told_every_epoch_once_and_changes_nothing(method):
    epochs_done = []
    run = gc.train(method, [0.5], epochs=7, seeds=2, progress=epochs_done.append)
    assert epochs_done == list(range(1, 8))
    assert torch.equal(run.p, gc.train(method, [0.5], epochs=7, seeds=2).p)


class Stopped(Exception):
    pass


@METHODS
def test_what_progress_raises_stops_the_run_and_comes_through(method):
    epochs_done = []

    def progress(epoch):
        epochs_done.append(epoch)
        if epoch == 3:
            raise Stopped("enough")

    with pytest.raises(Stopped, match=r"^enough$"):
        gc.train(method, [0.5], epochs=10**6, seeds=2, progress=progress)
    assert epochs_done == [1, 2, 3]
