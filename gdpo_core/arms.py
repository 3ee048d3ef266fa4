"""The smallest conflict between rewards: a softmax policy over a few answers, with a table of their rewards."""

from collections.abc import Callable

import torch
from torch import Tensor

from gdpo_core._types import ArrayLike
from gdpo_core.advantages import condition, method_named
from gdpo_core.errors import expect
from gdpo_core.inputs import numbers, width
from gdpo_core.learning import Pay, Policy, integrate, simulate
from gdpo_core.policy import Gate, TrainingRun, gates_of, per_reward, schedule_of, shape_of
from gdpo_core.round_off import adds_exactly


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
