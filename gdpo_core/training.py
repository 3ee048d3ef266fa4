"""Two toy policies that learn from several rewards: coins, which fall independently, and arms, of which one is pulled.

Symbols: f the features of a draw (which coins fell on 1, which arm was pulled), p their expectations, θ the logits,
A the advantages. The score-function gradient of the expected reward is E[A (f − p)].
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
from math import inf, prod
from numbers import Integral, Real
from typing import TypeAlias

import numpy as np
import torch
from torch import Tensor

from gdpo_core._types import ArrayLike
from gdpo_core.advantages import condition, method_for, method_named, over_batch
from gdpo_core.batch import Batch, along, batch_of, weighted
from gdpo_core.conventions import Convention
from gdpo_core.errors import InputError, expect, expect_index, is_whole
from gdpo_core.inputs import numbers, width
from gdpo_core.round_off import adds_exactly

# The infinite-group limit: each state counts with its probability, and no degree of freedom is lost.
LARGE_GROUPS = Convention(name="large groups", source="the limit of the formulas", ddof=0, last_step="tokens")


PUBLISHED = "published"
MATCHES = (True, False, PUBLISHED)  # what `match_scale` can be


@dataclass(frozen=True)
class Policy:
    """What a policy can draw, and with which probability."""

    start: Tensor  # (features,) logits
    expected: Callable[[Tensor], Tensor]  # logits → p, both (features, …)
    uniforms: int  # random numbers in [0, 1) per draw
    draw: Callable[[Tensor, Tensor, Tensor], Tensor]  # (uniforms, p, memory to write f into) → f
    states: Callable[[], Tensor]  # every possible f, (features, states)
    likely: Callable[[Tensor], Tensor]  # p (features,) → the probability of each state (states,)


@dataclass(frozen=True)
class Pay:
    """The rewards of a draw, and their weights."""

    shown: Callable[[Tensor], Tensor]  # f (features, …) → rewards (rewards, …); may overwrite its last result
    noise: Tensor  # (rewards,) std of the noise on each reward
    weights: Tensor  # (rewards,)
    exact: bool  # weighted sums of these rewards have no round-off


@dataclass(frozen=True)
class Schedule:
    """How long to train, and how fast."""

    epochs: int
    lr: float
    optimizer: str
    match_scale: bool | str  # one of MATCHES
    progress: Callable[[int], None] | None = None  # called with the epochs done; may raise to stop


def simulate(
    method: str,
    policy: Policy,
    pay: Pay,
    schedule: Schedule,
    shape: tuple[int, int, int],
    seed: int,
    dtype: torch.dtype,
) -> Tensor:
    """p at every epoch, (epochs + 1, features, seeds); shape: seeds, rollouts, prompts."""
    generator = np.random.Generator(np.random.SFC64(seed))  # faster than torch's own
    weights = pay.weights.reshape(-1, 1, 1, 1).to(dtype)
    weight = pay.weights.abs().sum().item()
    noisy = pay.noise.nonzero().flatten().tolist()
    logits = policy.start.to(dtype)[:, None].repeat(1, shape[0])  # (features, seeds)
    # Every epoch draws into and computes in the same memory: fresh memory costs more than the arithmetic.
    uniforms = torch.empty((policy.uniforms, *shape))
    features = torch.empty((len(logits), *shape), dtype=dtype)
    work, normal = torch.empty_like(features), torch.empty(shape)

    def gradient(logits: Tensor) -> Tensor:
        p = policy.expected(logits)[:, :, None, None]
        generator.random(dtype=np.float32, out=uniforms.numpy())
        f = policy.draw(uniforms, p, features)
        r = pay.shown(f)  # (rewards, seeds, rollouts, prompts)
        for k in noisy:
            generator.standard_normal(dtype=np.float32, out=normal.numpy())
            r[k] += pay.noise[k].item() * normal
        a = advantages(method, batch_of(r, weights, weight, exact=pay.exact and not noisy), schedule.match_scale)
        return torch.mul(a, f.sub_(p), out=work).mean((-2, -1))  # mean of A (f − p)

    return policy.expected(_path(logits, gradient, schedule).movedim(0, 1)).movedim(0, 1)


def integrate(method: str, policy: Policy, pay: Pay, schedule: Schedule) -> Tensor:
    """p at every epoch in the infinite-group limit, from the formulas and without draws, (epochs + 1, features).

    Noise acts through its variance alone in this limit, so it is taken as plus or minus its std, equally likely.
    """
    noisy = pay.noise.nonzero().flatten().tolist()
    signs = torch.tensor(list(product((-1.0, 1.0), repeat=len(noisy))), dtype=torch.float64)  # (signs, noisy rewards)
    every = policy.states()
    states = every.repeat_interleave(len(signs), 1)  # (features, states · signs)
    r = pay.shown(states).clone()
    for n, k in enumerate(noisy):
        r[k] += pay.noise[k] * signs[:, n].repeat(every.shape[1])
    r, weights, weight = r[:, None], pay.weights.reshape(-1, 1, 1), pay.weights.abs().sum().item()  # one prompt

    def gradient(logits: Tensor) -> Tensor:
        p = policy.expected(logits)
        likely = (policy.likely(p) / len(signs)).repeat_interleave(len(signs))[None]  # (1, states)
        group = weighted(along(r, -1), likely)
        batch = Batch(
            rewards=r,
            weights=weights,
            missing=False,
            group=group,
            convention=LARGE_GROUPS,
            lengths=likely,  # the last step weighs responses by length, here by probability
            index=None,
            group_ids=None,
            single=False,
            dtype=r.dtype,
            weight=weight,
            exact=pay.exact,
        )
        a = advantages(method, batch, schedule.match_scale)
        return (likely * a * (states - p[:, None])).sum(-1)

    return policy.expected(_path(policy.start.double(), gradient, schedule).T).T


def advantages(method: str, batch: Batch, match_scale: bool | str) -> Tensor:
    """What the method gives in each group, and after it, by match_scale: eq. 6 for all, for none, or its own step."""
    formula, batch = method_for(method, batch)
    a = formula.in_groups(batch).advantages
    own = formula.over_batch
    if match_scale == PUBLISHED:
        return a if own is None else own(batch, a).value
    if not match_scale:
        return a
    if own is not None and own is not over_batch:  # it leaves another std
        a = own(batch, a).value
    return over_batch(batch, a).value


def _path(logits: Tensor, gradient: Callable[[Tensor], Tensor], schedule: Schedule) -> Tensor:
    """The logits before training and after each step, (epochs + 1, …)."""
    step, path = OPTIMIZERS[schedule.optimizer](schedule.lr), [logits]
    for epoch in range(1, schedule.epochs + 1):
        path.append(path[-1] + step(gradient(path[-1])))
        if schedule.progress is not None:
            schedule.progress(epoch)
    found = torch.stack(path)
    finite = found.isfinite().flatten(1).all(1)
    if not finite.all():
        epoch = int(finite.int().argmin())
        raise InputError(f"lr: expected a run that stays finite, got one that diverges at epoch {epoch}")
    return found


def _sgd(lr: float) -> Callable[[Tensor], Tensor]:
    return lambda gradient: lr * gradient


def _adam(lr: float, decay: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8) -> Callable[[Tensor], Tensor]:
    """Adam, arXiv 1412.6980, algorithm 1, as ascent."""
    first, second, steps = torch.zeros(()), torch.zeros(()), 0

    def step(gradient: Tensor) -> Tensor:
        nonlocal first, second, steps
        steps += 1
        first = decay[0] * first + (1 - decay[0]) * gradient
        second = decay[1] * second + (1 - decay[1]) * gradient.square()
        unbiased = (second / (1 - decay[1] ** steps)).sqrt()
        return lr * first / (1 - decay[0] ** steps) / (unbiased + eps)

    return step


OPTIMIZERS = {"sgd": _sgd, "adam": _adam}


Gate: TypeAlias = Sequence[int] | Sequence[Sequence[int]]  # (reward, on), or several such pairs

_MOST_DRAWS = 2**26  # per epoch
_MOST_STATES = 4096  # of the infinite-group limit: each coin and each noisy reward doubles them


@dataclass(frozen=True)
class TrainingRun:
    """The probabilities of one method's runs, one run per seed."""

    method: str
    p: Tensor  # (seeds, epochs + 1, rewards); index 0 of the epoch axis is the start

    def steps_to(self, level: float = 0.9) -> Tensor:
        """The first epoch index at which p ≥ level, infinity if there is none, (seeds, rewards).

        >>> TrainingRun("grpo", torch.tensor([[[0.5, 0.5], [0.9, 0.6]]])).steps_to(0.9).tolist()
        [[1.0, inf]]
        """
        fits = isinstance(level, Real) and 0 < level < 1
        expect(fits, "level", "a number inside (0, 1)", repr(level))
        reached = self.p >= level
        first = reached.to(torch.uint8).argmax(1).to(torch.float64)
        return first.masked_fill(~reached.any(1), torch.inf)


def train(
    method: str,
    p0: ArrayLike,
    *,
    scale: ArrayLike | None = None,
    weights: ArrayLike | None = None,
    rollouts: int = 8,
    prompts: int = 32,
    epochs: int = 150,
    lr: float = 0.5,
    optimizer: str = "sgd",
    seeds: int = 32,
    seed: int = 0,
    match_scale: bool | str = True,
    noise: ArrayLike | None = None,
    gate: Gate | None = None,
    progress: Callable[[int], None] | None = None,
) -> TrainingRun:
    """Train a policy that draws outcomes b_k ~ Bernoulli(p_k) and receives the rewards scale_k · b_k.

    The logits move by lr · mean over the batch of A (b_k − p_k), the score-function gradient.
    p0, scale: (rewards,), p0 inside (0, 1).
    weights: one per reward, those of noise alone included.
    optimizer: "sgd", or "adam" on the same gradient.
    match_scale: what follows the groups. True: bring the advantages of every method to unit std over the batch, so
    that all methods have the same learning rate. "published": each method as published, GDPO with its own last step
    (eq. 6), GRPO with none. False: no last step for any method, as in many demos of GDPO.
    noise: std of normal noise per reward; entries beyond those of p0 are rewards of noise alone, without a coin.
    gate: (reward, on), or several such pairs; the reward counts only where the coin `on` fell on 1 (eq. 8).
    progress: called with the number of epochs done; an exception that it raises stops the run.
    The same seed gives the same bits; no global generator is touched. Raises InputError, also for a run that diverges.

    >>> train("gdpo", [0.5, 0.5], epochs=3, seeds=2).p.shape
    torch.Size([2, 4, 2])
    """
    method_named(method)
    policy, pay, dtype = _coins(p0, scale, weights, noise, gate)
    schedule = schedule_of(epochs, lr, optimizer, match_scale, progress)
    shape, seed = shape_of(seeds, prompts, rollouts, seed)
    return TrainingRun(method, simulate(method, policy, pay, schedule, shape, seed, dtype).permute(2, 0, 1))


def mean_field(
    method: str,
    p0: ArrayLike,
    *,
    scale: ArrayLike | None = None,
    weights: ArrayLike | None = None,
    epochs: int = 150,
    lr: float = 0.5,
    optimizer: str = "sgd",
    match_scale: bool | str = True,
    noise: ArrayLike | None = None,
    gate: Gate | None = None,
) -> Tensor:
    """The infinite-group limit of `train`, from the formulas and without draws, (epochs + 1, rewards).

    Arguments and errors as in `train`. With p, v = p (1 − p), scales c and weights w the logits move by
    w_k c_k v_k / √(Σ w_j² c_j² v_j) under GRPO, by w_k √v_k / √(Σ w_j²) under GDPO.

    >>> [round(p, 3) for p in mean_field("grpo", [0.5, 0.5], scale=[1, 3], epochs=30)[-1].tolist()]
    [0.931, 0.98]
    """
    method_named(method)
    policy, pay, _ = _coins(p0, scale, weights, noise, gate)
    states = 2 ** (len(policy.start) + int((pay.noise != 0).sum()))
    expect(states <= _MOST_STATES, "p0", f"coins and noisy rewards with at most {_MOST_STATES} states", str(states))
    return integrate(method, policy, pay, schedule_of(epochs, lr, optimizer, match_scale))


def schedule_of(
    epochs: int, lr: float, optimizer: str, match_scale: bool | str, progress: Callable[[int], None] | None = None
) -> Schedule:
    """The checked schedule of a run."""
    try:
        rate = float(lr) if isinstance(lr, Real) and not isinstance(lr, bool) else 0.0
    except OverflowError:
        rate = inf
    expect(0 < rate < inf, "lr", "a finite number above 0", repr(lr))
    known = isinstance(optimizer, str) and optimizer in OPTIMIZERS
    expect(known, "optimizer", f"one of {', '.join(OPTIMIZERS)}", repr(optimizer))
    fits = isinstance(match_scale, bool | str) and match_scale in MATCHES
    expect(fits, "match_scale", 'True, False or "published"', repr(match_scale))
    expect(progress is None or callable(progress), "progress", "a function of the epochs done, or None", repr(progress))
    return Schedule(_count(epochs, "epochs"), rate, optimizer, match_scale, progress)


def shape_of(seeds: int, prompts: int, rollouts: int, seed: int) -> tuple[tuple[int, int, int], int]:
    """The checked sizes of a simulation, and its seed."""
    shape = _count(seeds, "seeds"), _count(rollouts, "rollouts"), _count(prompts, "prompts")
    expect(
        prod(shape) <= _MOST_DRAWS, "seeds", f"seeds × prompts × rollouts of at most {_MOST_DRAWS}", str(prod(shape))
    )
    expect(is_whole(seed) and 0 <= seed < 2**63, "seed", "a whole number from 0", repr(seed))
    return shape, int(seed)


def _coins(
    p0: ArrayLike, scale: ArrayLike | None, weights: ArrayLike | None, noise: ArrayLike | None, gate: Gate | None
) -> tuple[Policy, Pay, torch.dtype]:
    """The checked policy, its rewards, and the dtype to compute in."""
    start = per_reward(p0, "p0", None)
    expect(bool(((start > 0) & (start < 1)).all()), "p0", "probabilities inside (0, 1)", start.tolist())
    coins = len(start)
    c = torch.ones_like(start) if scale is None else per_reward(scale, "scale", coins)
    n = torch.zeros_like(start) if noise is None else _noise(noise, coins)
    w = torch.ones_like(n) if weights is None else per_reward(weights, "weights", len(n), "rewards")
    gates = gates_of(gate, coins)
    sizes = [*c.abs().tolist(), *(c * w[:coins]).abs().tolist(), *n.tolist(), *(n * w).abs().tolist()]
    dtype = width(sizes, torch.float32, "scale")
    memory: dict[tuple[torch.Size, torch.dtype], Tensor] = {}

    def shown(f: Tensor) -> Tensor:
        key = (f.shape, f.dtype)
        if key not in memory:
            memory[key] = f.new_zeros((len(n), *f.shape[1:]))
        r = memory[key]
        torch.mul(c.reshape(-1, *[1] * (f.ndim - 1)).to(f), f, out=r[:coins])
        r[coins:] = 0
        for reward, on in gates:
            r[reward] *= f[on]
        return r

    @cache
    def states() -> Tensor:
        return torch.tensor(list(product((0.0, 1.0), repeat=coins)), dtype=torch.float64).T  # (coins, states)

    def likely(p: Tensor) -> Tensor:
        return torch.where(states() == 1, p[:, None], 1 - p[:, None]).prod(0)

    policy = Policy(
        start=start.logit(),
        expected=torch.sigmoid,
        uniforms=coins,
        draw=lambda uniforms, p, out: torch.lt(uniforms, p, out=out),
        states=states,
        likely=likely,
    )
    return policy, Pay(shown, n, w, adds_exactly(c * w[:coins])), dtype


def _noise(noise: ArrayLike, coins: int) -> Tensor:
    t = numbers(noise, "noise").double()
    fits = t.ndim == 1 and len(t) >= coins and bool((t.isfinite() & (t >= 0)).all())
    expect(fits, "noise", f"at least {coins} finite numbers from 0, one per reward", t.tolist())
    return t


def gates_of(gate: object, count: int, other: str = "another coin than the reward's own") -> list[tuple[int, int]]:
    """Pairs of a reward and the coin or reward that gates it, both as indices from 0."""
    wrong = InputError(f"gate: expected (reward, on), or several such pairs, got {gate!r}")
    if gate is None or (isinstance(gate, Sequence) and not len(gate)):
        return []
    if not isinstance(gate, Sequence) or isinstance(gate, str):
        raise wrong
    one = all(isinstance(k, Integral) for k in gate)
    pairs = []
    for pair in [gate] if one else gate:
        if not isinstance(pair, Sequence) or len(pair) != 2:
            raise wrong
        reward, on = pair
        expect_index(reward, count, "gate", "rewards")
        expect_index(on, count, "gate", "rewards")
        expect(reward % count != on % count, "gate", other, repr(tuple(pair)))
        pairs.append((reward % count, on % count))
    return pairs


def _count(value: int, name: str) -> int:
    expect(is_whole(value) and value > 0, name, "a whole number above 0", repr(value))
    return int(value)


def per_reward(values: ArrayLike, name: str, count: int | None, of: str = "p0") -> Tensor:
    """One finite number per reward, (rewards,) in float64; `of` names the argument that says how many."""
    t = numbers(values, name).double()
    expected = "at least one number, one per reward" if count is None else f"{count} numbers, as many as {of}"
    fits = t.ndim == 1 and len(t) > 0 and count in (None, len(t))
    expect(fits and bool(t.isfinite().all()), name, expected, t.tolist())
    return t


def train_arms(
    method: str,
    p0: ArrayLike,
    rewards: ArrayLike,
    *,
    weights: ArrayLike | None = None,
    rollouts: int = 8,
    prompts: int = 32,
    epochs: int = 150,
    lr: float = 0.5,
    optimizer: str = "sgd",
    seeds: int = 32,
    seed: int = 0,
    match_scale: bool | str = True,
    gate: Gate | None = None,
    progress: Callable[[int], None] | None = None,
) -> TrainingRun:
    """Train a softmax policy that gives one of several answers (arms) and receives that answer's rewards.

    The logits move by lr · mean over the batch of A (1[arm] − p).
    p0: (arms,), probabilities that sum to 1. rewards: (arms, rewards).
    gate: (reward, on), or several such pairs of rewards, gated as by `condition`.
    Other arguments and errors as in `train`; `p` of the run is (seeds, epochs + 1, arms).

    >>> correct_long, wrong_short, wrong_long = (1, 0), (0, 1), (0, 0)
    >>> run = train_arms("gdpo", [0.1, 0.85, 0.05], [correct_long, wrong_short, wrong_long], seeds=4)
    >>> [round(p, 1) for p in run.p[:, -1].mean(0).tolist()]
    [0.0, 1.0, 0.0]
    """
    method_named(method)
    policy, pay, dtype = _softmax(p0, rewards, weights, gate)
    schedule = schedule_of(epochs, lr, optimizer, match_scale, progress)
    shape, seed = shape_of(seeds, prompts, rollouts, seed)
    return TrainingRun(method, simulate(method, policy, pay, schedule, shape, seed, dtype).permute(2, 0, 1))


def mean_field_arms(
    method: str,
    p0: ArrayLike,
    rewards: ArrayLike,
    *,
    weights: ArrayLike | None = None,
    epochs: int = 150,
    lr: float = 0.5,
    optimizer: str = "sgd",
    match_scale: bool | str = True,
    gate: Gate | None = None,
) -> Tensor:
    """The infinite-group limit of `train_arms`, (epochs + 1, arms); arguments and errors as there.

    >>> table = [(1, 0), (0, 1), (0, 0)]
    >>> [round(p, 2) for p in mean_field_arms("grpo", [0.1, 0.85, 0.05], table, gate=(1, 0), epochs=400)[-1].tolist()]
    [1.0, 0.0, 0.0]
    """
    method_named(method)
    policy, pay, _ = _softmax(p0, rewards, weights, gate)
    return integrate(method, policy, pay, schedule_of(epochs, lr, optimizer, match_scale))


def _softmax(
    p0: ArrayLike, rewards: ArrayLike, weights: ArrayLike | None, gate: Gate | None
) -> tuple[Policy, Pay, torch.dtype]:
    """The checked policy, its rewards, and the dtype to compute in."""
    start = per_reward(p0, "p0", None)
    inside = bool(((start > 0) & (start < 1)).all()) and abs(float(start.sum()) - 1) < 1e-6
    expect(inside, "p0", "probabilities inside (0, 1) that sum to 1", start.tolist())
    table = numbers(rewards, "rewards").double()
    fits = table.ndim == 2 and len(table) == len(start) and table.numel() > 0
    expect(fits, "rewards", f"shape ({len(start)}, rewards), one row per arm", f"shape {tuple(table.shape)}")
    expect(bool(table.isfinite().all()), "rewards", "finite numbers", table.tolist())
    for reward, on in gates_of(gate, table.shape[1], "another reward"):
        table = condition(table, reward, on)
    count = table.shape[1]
    w = torch.ones(count).double() if weights is None else per_reward(weights, "weights", count, "rewards")
    sizes = [*table.abs().amax(0).tolist(), *(table * w).abs().amax(0).tolist()]

    def draw(uniforms: Tensor, p: Tensor, out: Tensor) -> Tensor:
        below = p.cumsum(0)
        below[-1] = torch.inf  # the sum may round to less than 1
        torch.lt(uniforms, below, out=out)
        out[1:] -= out[:-1].clone()
        return out

    policy = Policy(
        start=start.log(),
        expected=lambda logits: logits.softmax(0),
        uniforms=1,
        draw=draw,
        states=lambda: torch.eye(len(start), dtype=torch.float64),
        likely=lambda p: p,
    )
    exact = all(adds_exactly(row * w) for row in table)
    pay = Pay(lambda f: torch.tensordot(table.T.to(f), f, dims=1), torch.zeros(count), w, exact)
    return policy, pay, width(sizes, torch.float32, "rewards")
