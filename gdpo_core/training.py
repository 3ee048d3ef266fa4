"""Training of two small policies on several rewards: coins that fall independently, and arms of which one is pulled.

Symbols: f an outcome as zeros and ones (which coins fell on 1, which arm was pulled), p the probabilities of its ones,
A the advantages. A step moves the logits by lr · mean of A (f − p), the score-function gradient of the expected reward.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import prod
from numbers import Real
from typing import Any, TypedDict, Unpack, cast

import numpy as np
import torch
from torch import Tensor

from gdpo_core.conventions import Convention
from gdpo_core.methods import over_batch
from gdpo_core.numerics.batch import Batch, batch_of
from gdpo_core.numerics.reductions import over_axes, weighted
from gdpo_core.policies import Coins, GatePairs, Policy, arms_of, coins_of, corners
from gdpo_core.registry import method_for, method_named
from gdpo_core.shared.errors import InputError, expect, is_finite, is_whole
from gdpo_core.shared.inputs import ArrayLike, shows_keywords_of

PUBLISHED = "published"
MATCHES = (True, False, PUBLISHED)  # the values of `match_scale`

# In the infinite-group limit a standard deviation loses no degree of freedom, so its ddof is 0.
LARGE_GROUPS = Convention(name="large groups", source="the limit of the paper's formulas", ddof=0)

_MOST_DRAWS = 2**26  # the most responses that an epoch may draw
_MOST_EPOCHS = 2**26  # the most epochs of all seeds together, whose probabilities are kept in memory
_MOST_OUTCOMES = 4096  # the most outcomes of the infinite-group limit; each coin and each noisy reward doubles them


@dataclass(frozen=True)
class TrainingRun:
    """The probabilities p during training with one method, in one run per seed."""

    method: str
    p: Tensor  # (seeds, epochs + 1, coins or arms); index 0 of the epoch axis is the start

    def steps_to(self, level: float = 0.9) -> Tensor:
        """Return (seeds, coins or arms) the first epoch at which p ≥ level, and infinity where there is none.

        Raises InputError for a level that is not inside (0, 1).

        >>> TrainingRun("grpo", torch.tensor([[[0.5, 0.5], [0.9, 0.6]]])).steps_to(0.9).tolist()
        [[1.0, inf]]
        """
        fits = isinstance(level, Real) and 0 < level < 1
        expect(fits, "level", "a number inside (0, 1)", repr(level))
        reached = self.p >= level
        first = reached.to(torch.uint8).argmax(1).to(torch.float64)
        return first.masked_fill(~reached.any(1), torch.inf)


# the `match_scale` of each comparison
COMPARISONS: dict[str, bool | str] = {"equal": True, "published": PUBLISHED, "neither": False}


@dataclass(frozen=True)
class Setup:
    """A set-up: what to train and how, as the arguments of `train`, which says what each is.

    Equal set-ups have equal runs. They can be compared only if their fields are tuples, not tensors.
    """

    p0: tuple[float, ...]
    arms: tuple[tuple[float, ...], ...] | None = None  # (arms, rewards) what each answer pays, times the scale
    scale: tuple[float, ...] | None = None
    weights: tuple[float, ...] | None = None
    noise: tuple[float, ...] | None = None  # the std of the noise on each coin's reward
    gate: tuple[int, int] | None = None
    together: float = 0.0  # the share of the answers in which one draw decides for all coins
    rollouts: int = 8
    prompts: int = 32
    epochs: int = 150
    lr: float = 0.5
    optimizer: str = "sgd"
    seeds: int = 32
    seed: int = 0
    match_scale: bool | str = True  # one of MATCHES

    @property
    def rewards(self) -> int:
        """The number of rewards, including those of noise alone."""
        return len(self.arms[0] if self.arms else self.noise or self.p0)

    @property
    def comparison(self) -> str:
        """The key of COMPARISONS whose value is `match_scale`: "equal", "published" or "neither"."""
        return next(name for name, match in COMPARISONS.items() if match == self.match_scale)

    def compared(self, comparison: str) -> "Setup":
        """Return this set-up with the `match_scale` of another comparison, a key of COMPARISONS."""
        return replace(self, match_scale=COMPARISONS[comparison])

    def train(self, method: str) -> TrainingRun:
        """Train with one method and return its runs, one per seed. Raises InputError as the function `train` does.

        >>> Setup((0.5, 0.5), epochs=3, seeds=2).train("gdpo").p.shape
        torch.Size([2, 4, 2])
        """
        return _simulate(method, self.policy(), self)

    def mean_field(self, method: str) -> Tensor:
        """Return the probabilities p before training and after each epoch, in the infinite-group limit of one method.

        The shape is (epochs + 1, coins or arms): p is the probability that a coin falls on 1, or that an arm is chosen.
        Raises InputError as the function `mean_field` does.
        """
        return _integrate(method, self.policy(), self)

    def policy(self) -> Policy:
        """Return the policy from which training starts. Raises InputError that names the field which cannot be used."""
        if self.arms is None:
            is_share = isinstance(self.together, Real) and 0 <= self.together <= 1
            expect(is_share, "together", "a share from 0 to 1", repr(self.together))
            coins = coins_of(self.p0, self.scale, self.weights, self.noise, self.gate)
            return replace(coins, together=float(self.together))
        expect(self.together == 0, "together", "0 with arms", repr(self.together))
        expect(self.noise is None, "noise", "none with arms", repr(self.noise))
        return arms_of(self.p0, self.arms, self.scale, self.weights, self.gate)

    def check(self) -> None:
        """Raise InputError for sizes, rates and options with which nothing can be trained.

        The fields that describe the policy, such as p0 and scale, are checked by `policy`.
        """
        for name in ("epochs", "seeds", "rollouts", "prompts"):
            count = getattr(self, name)
            expect(is_whole(count) and count > 0, name, "a whole number above 0", repr(count))
        draws = prod(self.shape)
        expect(draws <= _MOST_DRAWS, "seeds", f"seeds × prompts × rollouts of at most {_MOST_DRAWS}", str(draws))
        length = self.seeds * self.epochs
        expect(length <= _MOST_EPOCHS, "epochs", f"seeds × epochs of at most {_MOST_EPOCHS}", str(length))
        expect(is_whole(self.seed) and 0 <= self.seed < 2**63, "seed", "a whole number from 0", repr(self.seed))
        expect(is_finite(self.lr) and self.lr > 0, "lr", "a finite number above 0", repr(self.lr))
        known = isinstance(self.optimizer, str) and self.optimizer in _OPTIMIZERS
        expect(known, "optimizer", f"one of {', '.join(_OPTIMIZERS)}", repr(self.optimizer))
        known = isinstance(self.match_scale, bool | str) and self.match_scale in MATCHES
        expect(known, "match_scale", 'True, False or "published"', repr(self.match_scale))

    @property
    def shape(self) -> tuple[int, int, int]:
        """The numbers of seeds, rollouts and prompts, in the order of the axes of a tensor of draws.

        The rollouts stand before the prompts, as statistics along the last axis but one are several times as fast.
        """
        return int(self.seeds), int(self.rollouts), int(self.prompts)


class TrainingOptions(TypedDict, total=False):
    """The fields of a `Setup` besides p0, as keyword arguments; `train` says what each is.

    Where a field of `Setup` is a tuple, the option may also be a list, an array or a tensor. Only `gate` has to be a
    tuple or a list.
    """

    arms: ArrayLike | None
    scale: ArrayLike | None
    weights: ArrayLike | None
    noise: ArrayLike | None
    gate: GatePairs | None
    together: float
    rollouts: int
    prompts: int
    epochs: int
    lr: float
    optimizer: str
    seeds: int
    seed: int
    match_scale: bool | str


_with_options = shows_keywords_of(Setup, TrainingOptions.__annotations__)


@_with_options
def train(method: str, p0: ArrayLike, **options: Unpack[TrainingOptions]) -> TrainingRun:
    """Train a policy that draws outcomes b_k ~ Bernoulli(p_k) and receives the rewards scale_k · b_k.

    The logits move by lr · mean over the batch of A (b_k − p_k), the score-function gradient. The same seed gives the
    same bits; no global generator is touched. The equations are those of arXiv 2601.05242.

    method: a name of `advantages`.
    p0: (coins,) the probabilities before training, inside (0, 1).
    arms: (arms, rewards) what each of several answers pays, times the scale; None to train coins. With arms the policy
        is a softmax that gives one of the answers. Then p0 is (arms,) and sums to 1, gates are between rewards, as in
        `condition`, and there is no noise.
    scale: what a 1 pays, one number per coin, or one per reward if `arms` is given; by default 1.
    weights: one per reward, including rewards of noise alone, by default 1.
    noise: the std of normal noise per reward. Entries beyond the number of coins are rewards of noise alone, without a
        coin.
    gate: (reward, on), or several such pairs; the reward counts only where the coin `on` fell on 1 (eq. 8).
    together: for coins alone, a share of the answers in which a single draw decides for all coins: if a coin falls on 1
        there, so do all likelier ones. The logits move as above, which is then no longer the gradient of one
        distribution.
    rollouts: how many answers are drawn for each prompt.
    prompts: how many prompts an epoch has. An epoch is one step.
    epochs: how many epochs a run has.
    lr: the learning rate of the optimizer.
    optimizer: "sgd", or "adam" on the same gradient.
    seeds: how many runs there are.
    seed: the number that fixes the draws of all runs.
    match_scale: how advantages are normalised over the batch, after the groups. True: the advantages of every method
        are brought to unit std, so that one learning rate suits all. "published": each method takes the step of its
        paper, which is eq. 6 for GDPO and none for GRPO. False: no method takes a step over the batch, as in many demos
        of GDPO.

    Raises InputError for an unknown method, for arguments with which nothing can be trained, and if a run diverges.

    >>> train("gdpo", [0.5, 0.5], epochs=3, seeds=2).p.shape
    torch.Size([2, 4, 2])
    >>> correct_long, wrong_short, wrong_long = (1, 0), (0, 1), (0, 0)
    >>> run = train("gdpo", [0.1, 0.85, 0.05], arms=[correct_long, wrong_short, wrong_long], seeds=4)
    >>> [round(p, 1) for p in run.p[:, -1].mean(0).tolist()]
    [0.0, 1.0, 0.0]
    """
    return Setup(cast(Any, p0), **cast(dict[str, Any], options)).train(method)


@_with_options
def mean_field(method: str, p0: ArrayLike, **options: Unpack[TrainingOptions]) -> Tensor:
    """Return p at each epoch in the infinite-group limit of `train`, (epochs + 1, coins or arms).

    It is computed from the formulas, without draws. Arguments and errors are as in `train`, but the numbers of prompts,
    rollouts and seeds change nothing. An error is also raised if coins and noisy rewards have too many outcomes.

    For coins with scales c and weights w, and all other options at their defaults, the formulas are short. With v = p
    (1 − p), the logits move by lr times w_k c_k v_k / √(Σ w_j² c_j² v_j) under GRPO, and by lr times w_k √v_k / √(Σ
    w_j²) under GDPO.

    >>> [round(p, 3) for p in mean_field("grpo", [0.5, 0.5], scale=[1, 3], epochs=30)[-1].tolist()]
    [0.931, 0.98]
    """
    return Setup(cast(Any, p0), **cast(dict[str, Any], options)).mean_field(method)


# --- how they learn --------------------------------------------------------------------------------------------------


def _simulate(method: str, policy: Policy, setup: Setup) -> TrainingRun:
    """Train all seeds at once, with draws from one generator, and return their runs. Raises InputError as `train` does.

    policy: the policy from which training starts.
    setup: the sizes, the optimizer and the step over the batch.
    """
    setup.check()
    method_named(method)
    generator = np.random.Generator(np.random.SFC64(setup.seed))  # this generator is faster than torch's own
    weights = policy.weights.reshape(-1, 1, 1, 1).to(policy.dtype)
    noisy = policy.noise.nonzero().flatten().tolist()
    exact = policy.exact and not noisy
    # Every epoch draws into the same memory and computes in it, because new memory costs more than the arithmetic.
    uniforms, normal = (torch.empty(n, *setup.shape) for n in (policy.uniforms, 1))
    of_uniforms, of_normal = uniforms.numpy(), normal.numpy()  # arrays that share the memory of these tensors
    outcomes = torch.empty((len(policy.start), *setup.shape), dtype=policy.dtype)
    rewards = torch.empty((len(weights), *setup.shape), dtype=policy.dtype)

    def gradient(logits: Tensor) -> Tensor:
        """Return the score-function gradient of the logits, (coins or arms, seeds), from outcomes that are drawn here.

        A batch of outcomes is drawn for each seed. The policy, the set-up, the method and the random generator are
        those of the outer function, which also gives the memory into which all draws are written.

        logits: (coins or arms, seeds).
        """
        p = policy.probabilities(logits)[:, :, None, None]  # (features, seeds, rollouts, prompts)
        generator.random(dtype=np.float32, out=of_uniforms)
        f = policy.draw(uniforms, p, out=outcomes)
        r = policy.rewards(f, out=rewards)  # (rewards, seeds, rollouts, prompts)
        for k in noisy:
            generator.standard_normal(dtype=np.float32, out=of_normal)
            r[k] += policy.noise[k].item() * normal[0]
        a = step_advantages(method, batch_of(r, weights, exact=exact), setup.match_scale)
        return f.sub_(p).mul_(a).mean((-2, -1))  # mean of A (f − p)

    logits = policy.start.to(policy.dtype)[:, None].repeat(1, setup.shape[0])  # (features, seeds)
    path = _climb(logits, gradient, setup).movedim(0, 1)  # (features, epochs + 1, seeds)
    return TrainingRun(method, policy.probabilities(path).permute(2, 1, 0))


def _integrate(method: str, policy: Policy, setup: Setup) -> Tensor:
    """Return p at every epoch in the infinite-group limit, from the formulas, without draws: (epochs + 1, features).

    The features are the coins or arms. Noise acts through its variance alone in this limit, so it is taken as plus or
    minus its std, equally likely.

    policy: the policy from which training starts.
    setup: the sizes, the optimizer and the step over the batch.

    Raises InputError as `train` does, and where there are too many outcomes.
    """
    if isinstance(policy, Coins):
        count = 2 ** (len(policy.start) + int((policy.noise != 0).sum()))
        few = f"coins and noisy rewards with at most {_MOST_OUTCOMES} outcomes"
        expect(count <= _MOST_OUTCOMES, "p0", few, str(count))
    setup.check()
    method_named(method)
    noisy = policy.noise.nonzero().flatten()
    signs, outcomes = corners(-1.0, 1.0, len(noisy)), policy.outcomes()
    f = outcomes.repeat_interleave(signs.shape[1], 1)  # (features, outcomes · signs)
    r = policy.rewards(f, out=f.new_empty(len(policy.weights), f.shape[1]))
    r[noisy] += policy.noise[noisy, None] * signs.repeat(1, outcomes.shape[1])

    group = Batch(  # all outcomes are the rollouts of one prompt
        rewards=r[:, None],
        weights=policy.weights.reshape(-1, 1, 1),
        missing=False,
        group=over_axes(r[:, None].shape, -1),
        convention=LARGE_GROUPS,
        dtype=r.dtype,
        exact=policy.exact,  # in float64, noise that is independent leaves no sum to cancel
    )

    def gradient(logits: Tensor) -> Tensor:
        """Return the expected policy gradient at these logits, (features,): the mean of A (f − p) over all outcomes.

        A is an outcome's advantage, f its features, and p their probabilities. The policy, the method, the set-up, the
        outcomes and the batch `group` are those of the outer function.

        logits: (features,).
        """
        p = policy.probabilities(logits)
        likelihoods = (policy.likelihoods(p, outcomes) / signs.shape[1]).repeat_interleave(signs.shape[1])
        likely = weighted(group.group, likelihoods[None])  # the group is the whole batch too
        a = step_advantages(method, replace(group, group=likely, batches=likely), setup.match_scale)
        return (likelihoods * a * (f - p[:, None])).sum(-1)  # E[A (f − p)]

    return policy.probabilities(_climb(policy.start.double(), gradient, setup).T).T


def step_advantages(method: str, batch: Batch, match_scale: bool | str) -> Tensor:
    """Return the advantages of a batch, after the step over the batch that `match_scale` names.

    match_scale: True for GDPO's batch step (eq. 6) under every method. If the method has a step of its own that leaves
        another std than 1, this step comes first. False for no step over the batch. "published" for the method's own
        step, if it has one.
    """
    formula, batch = method_for(method, batch)
    a = formula.in_groups(batch).advantages
    batch_step = formula.over_batch
    if match_scale == PUBLISHED:
        return a if batch_step is None else batch_step(batch, a).value
    if not match_scale:
        return a
    if batch_step is not None and not formula.ends_as_gdpo:  # its own step leaves another std than 1
        a = batch_step(batch, a).value
    return over_batch(batch, a).value


def _climb(logits: Tensor, gradient: Callable[[Tensor], Tensor], setup: Setup) -> Tensor:
    """Return the logits before training and after each step, (epochs + 1, …). Raises InputError if they diverge.

    gradient: a function from logits to their gradient.
    setup: the number of epochs, the optimizer and its learning rate.
    """
    step, path = _OPTIMIZERS[setup.optimizer](float(setup.lr)), [logits]
    for _ in range(setup.epochs):
        path.append(path[-1] + step(gradient(path[-1])))
    climbed = torch.stack(path)
    finite = climbed.isfinite().flatten(1).all(1)
    if not finite.all():
        epoch = int(finite.int().argmin())
        raise InputError(f"lr: expected a run that stays finite, got one that diverges at epoch {epoch}")
    return climbed


def _sgd(lr: float) -> Callable[[Tensor], Tensor]:
    """Return a function from a gradient to the step of plain gradient ascent with this learning rate."""
    return lambda gradient: lr * gradient


def _adam(lr: float) -> Callable[[Tensor], Tensor]:
    """Return a function from a gradient to Adam's step of gradient ascent, to be added to the parameters.

    The function remembers the gradients of earlier calls, so it has to be called with one gradient after another.

    lr: the learning rate.

    Source: arXiv 1412.6980, algorithm 1 with the opposite sign, and with the decays and the eps that it recommends.
    """
    first, second, steps = torch.zeros(()), torch.zeros(()), 0

    def step(gradient: Tensor) -> Tensor:
        nonlocal first, second, steps
        steps += 1
        first = 0.9 * first + (1 - 0.9) * gradient
        second = 0.999 * second + (1 - 0.999) * gradient.square()
        unbiased = (second / (1 - 0.999**steps)).sqrt()
        return lr * first / (1 - 0.9**steps) / (unbiased + 1e-8)

    return step


_OPTIMIZERS = {"sgd": _sgd, "adam": _adam}
