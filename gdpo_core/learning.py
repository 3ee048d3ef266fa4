"""How a small policy learns from advantages: simulated from a seed, or integrated in the infinite-group limit.

Symbols: f the features of a draw (which coins fell on 1, which arm was pulled), p their expectations, θ the logits,
A the advantages. The score-function gradient of the expected reward is E[A (f − p)].
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product

import numpy as np
import torch
from torch import Tensor

from gdpo_core.advantages import method_for, over_batch
from gdpo_core.batch import Batch, along, batch_of, weighted
from gdpo_core.conventions import Convention
from gdpo_core.errors import InputError

# The infinite-group limit: each state counts with its probability, and no degree of freedom is lost.
LARGE_GROUPS = Convention(name="large groups", source="the limit of the formulas", ddof=0)


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
            lengths=None,
            batches=weighted(along(r, -2, -1), likely),
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
