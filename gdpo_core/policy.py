"""The smallest policy with several rewards: independent coins, trained on the advantages of each method."""

import sys
from dataclasses import dataclass
from numbers import Integral, Real

import torch
from torch import Tensor

from gdpo_core.advantages import method_named, over_batch
from gdpo_core.batch import batch_of
from gdpo_core.errors import expect
from gdpo_core.inputs import numbers, width
from gdpo_core.round_off import GRAIN, GRAINY


@dataclass(frozen=True)
class TrainingRun:
    """The pass probabilities of one method's runs, one run a seed."""

    method: str
    p: Tensor  # (seeds, epochs + 1, rewards); index 0 of the epoch axis is the start

    def steps_to(self, level: float = 0.9) -> Tensor:
        """(seeds, rewards): the first epoch index at which p ≥ level, infinity where it never is.

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
    p0,
    *,
    scale=None,
    weights=None,
    rollouts: int = 8,
    prompts: int = 32,
    epochs: int = 150,
    lr: float = 0.5,
    seeds: int = 32,
    seed: int = 0,
    match_scale: bool = True,
) -> TrainingRun:
    """Train a policy that draws outcomes b_k ~ Bernoulli(p_k) and is shown the rewards scale_k · b_k.

    The logits move by lr · mean over the batch of A (b_k − p_k), the score-function gradient.
    p0, scale, weights: (rewards,); p0 in (0, 1). match_scale: every method's advantages are brought to unit std
    over the batch, so that no method runs at a larger learning rate than another.
    The same seed gives the same bits; no global generator is touched. Raises InputError.

    >>> train("gdpo", [0.5, 0.5], epochs=3, seeds=2).p.shape
    torch.Size([2, 4, 2])
    """
    formula = method_named(method)
    start = _per_reward(p0, "p0", None)
    expect(bool(((start > 0) & (start < 1)).all()), "p0", "probabilities inside (0, 1)", start.tolist())
    c = torch.ones_like(start) if scale is None else _per_reward(scale, "scale", len(start))
    w = torch.ones_like(start) if weights is None else _per_reward(weights, "weights", len(start))
    for name, value in (("rollouts", rollouts), ("prompts", prompts), ("epochs", epochs), ("seeds", seeds)):
        whole = isinstance(value, Integral) and not isinstance(value, bool) and value > 0
        expect(whole, name, "a whole number above 0", repr(value))
    expect(
        isinstance(lr, Real) and not isinstance(lr, bool) and 0 < lr <= sys.float_info.max,
        "lr",
        "a finite number above 0",
        repr(lr),
    )
    fits = isinstance(seed, Integral) and not isinstance(seed, bool) and 0 <= seed < 2**63
    expect(fits, "seed", "a whole number from 0", repr(seed))

    generator = torch.Generator().manual_seed(int(seed))
    shape = (len(start), seeds, prompts, rollouts)
    dtype = width([*c.abs().tolist(), *(c * w).abs().tolist()], torch.float32, "scale")
    pays = (c * w).abs()
    exact = bool((pays * GRAIN == (pays * GRAIN).round()).all() and pays.sum() < GRAINY)
    w, c = w.reshape(-1, 1, 1, 1).to(dtype), c.reshape(-1, 1, 1, 1).to(dtype)
    logits = start.to(dtype).logit()[:, None].repeat(1, seeds)  # (rewards, seeds)
    path = [logits.sigmoid()]
    # Drawn into, and computed in, the same memory each epoch: fresh memory costs more than the arithmetic.
    drawn, outcomes, work = (torch.empty(shape, dtype=kind) for kind in (torch.float32, dtype, dtype))
    for _ in range(epochs):
        p = path[-1][:, :, None, None]
        torch.lt(drawn.uniform_(generator=generator), p, out=outcomes)  # b_k
        batch = batch_of(torch.mul(c, outcomes, out=work), w, exact=exact)
        steps = formula(batch)
        a = steps.advantages  # (seeds, prompts, rollouts)
        if match_scale and steps.whole is None:
            a = over_batch(batch, a).value
        gradient = torch.mul(a, outcomes.sub_(p), out=work).mean((-2, -1))  # mean of A (b_k − p_k)
        logits = logits + lr * gradient
        path.append(logits.sigmoid())
    return TrainingRun(method, torch.stack(path, -1).permute(1, 2, 0))


def _per_reward(values, name: str, count: int | None) -> Tensor:
    t = numbers(values, name)
    expected = "at least one number, one a reward" if count is None else f"{count} numbers, as many as p0"
    fits = t.ndim == 1 and len(t) > 0 and count in (None, len(t))
    expect(fits and bool(t.isfinite().all()), name, expected, t.tolist())
    return t
