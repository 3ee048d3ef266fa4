"""Two small policies to train on several rewards: coins that fall independently, and arms of which one is pulled.

An outcome is a vector of zeros and ones: it says which coins fell on 1, or which arm was pulled. Symbol: p, the
probability that a coin falls on 1, or that an arm is pulled.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from numbers import Integral
from typing import TypeAlias

import torch
from torch import Tensor

from gdpo_core.methods import condition
from gdpo_core.numerics.statistics import adds_exactly
from gdpo_core.shared.errors import InputError, expect, expect_index
from gdpo_core.shared.inputs import ArrayLike, numbers, width

GatePairs: TypeAlias = Sequence[int] | Sequence[Sequence[int]]  # (reward, on), or several such pairs


@dataclass(frozen=True, kw_only=True)
class Coins:
    """A policy of independent coins, one per reward: where a coin falls on 1, it pays its scale, and else 0.

    A gate makes a reward count only where another coin falls on 1. In the share `together` of the outcomes one draw
    decides for all coins, so that these are not independent. Further rewards can be of noise alone.
    """

    start: Tensor  # (coins,) the logits before training
    scale: Tensor  # (coins,) the reward of each coin that falls on 1
    gates: list[tuple[int, int]]  # pairs of a reward and the coin that has to fall on 1 for it to count
    noise: Tensor  # (rewards,) the std of the noise on each reward; rewards beyond the coins are noise alone
    weights: Tensor  # (rewards,)
    dtype: torch.dtype  # a dtype that can hold these rewards
    together: float = 0.0  # the share of the outcomes in which one draw decides for all coins

    @property
    def uniforms(self) -> int:
        """The number of random numbers from 0 to 1 that have to be drawn for one outcome."""
        return len(self.start) + (self.together > 0)

    @property
    def exact(self) -> bool:
        """Whether weighted sums of the rewards, before noise is added, have no round-off."""
        return adds_exactly(self.scale * self.weights[: len(self.scale)])

    def probabilities(self, logits: Tensor) -> Tensor:
        """Return the probabilities p of these logits; both are (coins, …)."""
        return logits.sigmoid()

    def draw(self, uniforms: Tensor, p: Tensor, out: Tensor) -> Tensor:
        """Write an outcome for each column of `uniforms` into `out` and return `out`: 1 where a coin falls on 1, else
        0.

        uniforms: (numbers, …) random numbers from 0 to 1. A column has `self.uniforms` numbers.
        p: the probability of 1 for each coin, in a shape that broadcasts to the shape of `out`.
        out: (coins, …).
        """
        if self.together:
            uniforms = torch.where(uniforms[-1] < self.together, uniforms[0], uniforms[:-1])
        return torch.lt(uniforms, p, out=out)

    def rewards(self, outcomes: Tensor, out: Tensor) -> Tensor:
        """Write the rewards of outcomes, (coins, …), before noise, into `out`, (rewards, …), and return `out`.

        Rewards of noise alone, which have no coin, are 0 in it.
        """
        coins = len(self.scale)
        torch.mul(self.scale.to(outcomes).view(-1, *[1] * (outcomes.ndim - 1)), outcomes, out=out[:coins])
        if len(out) > coins:
            out[coins:] = 0
        for reward, on in self.gates:
            out[reward] *= outcomes[on]
        return out

    def outcomes(self) -> Tensor:
        """Return every possible outcome as a column of zeros and ones, (coins, outcomes)."""
        return corners(0.0, 1.0, len(self.start))

    def likelihoods(self, p: Tensor, outcomes: Tensor) -> Tensor:
        """Return the probability of each outcome, (outcomes,).

        p: (coins,) the probability of 1 for each coin.
        outcomes: (coins, outcomes) zeros and ones, an outcome per column.
        """
        alone = torch.where(outcomes == 1, p[:, None], 1 - p[:, None]).prod(0)
        # Where one draw decides for all, a coin falls on 1 if its p is above the draw. So an outcome comes from the
        # draws that are below the p of every coin on 1, and not below the p of any coin on 0.
        below = torch.where(outcomes == 1, p[:, None], 1.0).amin(0)
        above = torch.where(outcomes == 0, p[:, None], 0.0).amax(0)
        return alone + self.together * ((below - above).clamp(min=0) - alone)


@dataclass(frozen=True, kw_only=True)
class Arms:
    """A policy of arms, of which a softmax pulls one; each arm pays the rewards in its row of a table."""

    start: Tensor  # (arms,) the logits before training
    table: Tensor  # (arms, rewards) what each arm pays
    weights: Tensor  # (rewards,)
    dtype: torch.dtype  # a dtype that can hold these rewards

    uniforms = 1  # how many random numbers have to be drawn for one outcome

    @property
    def noise(self) -> Tensor:
        """The std of the noise on each reward, (rewards,): 0, since an arm pays what the table says and no more."""
        return torch.zeros_like(self.weights)

    @property
    def exact(self) -> bool:
        """Whether weighted sums of the rewards have no round-off."""
        return all(adds_exactly(row * self.weights) for row in self.table)

    def probabilities(self, logits: Tensor) -> Tensor:
        """Return the probabilities p of these logits; both are (arms, …)."""
        return logits.softmax(0)

    def draw(self, uniforms: Tensor, p: Tensor, out: Tensor) -> Tensor:
        """Write an outcome for each uniform number into `out` and return `out`: 1 for the arm that is pulled, else 0.

        uniforms: (1, …) random numbers from 0 to 1.
        p: the probability of each arm, in a shape that broadcasts to the shape of `out`.
        out: (arms, …).
        """
        below = p.cumsum(0)
        below[-1] = torch.inf  # the sum may round to less than 1
        torch.lt(uniforms, below, out=out)
        out[1:] -= out[:-1].clone()
        return out

    def rewards(self, outcomes: Tensor, out: Tensor) -> Tensor:
        """Write the rewards of outcomes, (arms, …), into `out`, (rewards, …), and return `out`."""
        torch.mm(self.table.T.to(outcomes), outcomes.flatten(1), out=out.view(len(out), -1))
        return out

    def outcomes(self) -> Tensor:
        """Return every possible outcome, one per arm, as a column of zeros with a one, (arms, arms)."""
        return torch.eye(len(self.start), dtype=torch.float64)

    def likelihoods(self, p: Tensor, outcomes: Tensor) -> Tensor:
        """Return p itself, (arms,): the probability of each arm, and so of each column of `outcomes`."""
        return p


Policy: TypeAlias = Coins | Arms


def coins_of(
    p0: ArrayLike, scale: ArrayLike | None, weights: ArrayLike | None, noise: ArrayLike | None, gate: GatePairs | None
) -> Coins:
    """Return the `Coins` that these arguments of `train` describe, after checking them. Raises InputError."""
    start = _per_reward(p0, "p0")
    expect(bool(((start > 0) & (start < 1)).all()), "p0", "probabilities inside (0, 1)", start.tolist())
    coins = len(start)
    c = torch.ones_like(start) if scale is None else _per_reward(scale, "scale", coins)
    n = torch.zeros_like(start) if noise is None else _noise(noise, coins)
    w = torch.ones_like(n) if weights is None else _per_reward(weights, "weights", len(n), "rewards")
    sizes = [*c.abs().tolist(), *(c * w[:coins]).abs().tolist(), *n.tolist(), *(n * w).abs().tolist()]
    return Coins(
        start=start.logit(),
        scale=c,
        gates=_gates(gate, coins, "another coin than the reward's own"),
        noise=n,
        weights=w,
        dtype=width(sizes, torch.float32, "scale"),
    )


def arms_of(
    p0: ArrayLike, arms: ArrayLike, scale: ArrayLike | None, weights: ArrayLike | None, gate: GatePairs | None
) -> Arms:
    """Return the `Arms` that these arguments of `train` describe, after checking them. Raises InputError."""
    start = _per_reward(p0, "p0")
    inside = bool(((start > 0) & (start < 1)).all()) and abs(float(start.sum()) - 1) < 1e-6
    expect(inside, "p0", "probabilities inside (0, 1) that sum to 1", start.tolist())
    table = numbers(arms, "arms").double()
    fits = table.ndim == 2 and len(table) == len(start) and table.numel() > 0
    expect(fits, "arms", f"shape ({len(start)}, rewards), one row per number of p0", f"shape {tuple(table.shape)}")
    expect(bool(table.isfinite().all()), "arms", "finite numbers", table.tolist())
    count = table.shape[1]
    table = table if scale is None else table * _per_reward(scale, "scale", count, "rewards")
    for reward, on in _gates(gate, count, "another reward"):
        table = condition(table, reward, on)
    w = torch.ones(count).double() if weights is None else _per_reward(weights, "weights", count, "rewards")
    sizes = [*table.abs().amax(0).tolist(), *(table * w).abs().amax(0).tolist()]
    return Arms(start=start.log(), table=table, weights=w, dtype=width(sizes, torch.float32, "arms"))


def _per_reward(values: ArrayLike, name: str, count: int | None = None, counted_by: str = "p0") -> Tensor:
    """Return an argument that has one finite number per reward as a tensor (rewards,) in float64. Raises InputError.

    name: the name of the argument.
    count: how many numbers there have to be, None for any number from 1.
    counted_by: the name of the argument that decides how many.
    """
    t = numbers(values, name).double()
    expected = "at least one number, one per reward" if count is None else f"{count} numbers, as many as {counted_by}"
    fits = t.ndim == 1 and len(t) > 0 and count in (None, len(t))
    expect(fits and bool(t.isfinite().all()), name, expected, t.tolist())
    return t


def _noise(noise: ArrayLike, coins: int) -> Tensor:
    """Return the std of the noise on each reward as (rewards,) in float64, after checking it. Raises InputError.

    At least `coins` numbers are needed; further ones belong to rewards without a coin, which are noise alone.
    """
    t = numbers(noise, "noise").double()
    fits = t.ndim == 1 and len(t) >= coins and bool((t.isfinite() & (t >= 0)).all())
    expect(fits, "noise", f"at least {coins} finite numbers from 0, one per reward", t.tolist())
    return t


def _gates(gate: object, count: int, another: str) -> list[tuple[int, int]]:
    """Return pairs of a reward and the coin or reward that gates it, both as indices from 0; none without a gate.

    gate: the argument of `train`, which is None, a pair (reward, on) or several such pairs.
    count: how many coins or rewards there are.
    another: words for what may gate a reward, for the error.

    Raises InputError if `gate` is anything else, if an index is out of range, or if a reward gates itself.
    """
    if gate is None:
        return []
    wrong = InputError(f"gate: expected (reward, on), or several such pairs, got {gate!r}")
    if not isinstance(gate, Sequence) or isinstance(gate, str):
        raise wrong
    pairs = []
    for pair in [gate] if len(gate) and all(isinstance(k, Integral) for k in gate) else gate:
        if not isinstance(pair, Sequence) or len(pair) != 2:
            raise wrong
        for k in pair:
            expect_index(k, count, "gate", "rewards")
        reward, on = (k % count for k in pair)
        expect(reward != on, "gate", another, repr(tuple(pair)))
        pairs.append((reward, on))
    return pairs


def corners(low: float, high: float, count: int) -> Tensor:
    """Return every way to set `count` numbers to `low` or `high`, one per column, (count, 2^count)."""
    return torch.tensor(list(product((low, high), repeat=count)), dtype=torch.float64).T
