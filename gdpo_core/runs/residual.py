"""What advantages show that no recipe makes: an estimator with a name, their order, or that something is missing.

All look at a sample of the log. What is named holds in nearly all of its groups, and chance cannot make it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import polars as pl
import torch
from torch import Tensor
from torch.nn.functional import normalize

from gdpo_core._words import count, listing, number, percent
from gdpo_core.conventions import PAPER, Convention
from gdpo_core.runs.facts import weights_in_words
from gdpo_core.runs.recipe import Tensors, grid_of, hidden_inputs, tensors_of
from gdpo_core.runs.thresholds import MERGED
from gdpo_core.runs.weights import Terms, solution_of, terms_of

_ENOUGH = 4000  # responses
# An advantage fits if it is this near, relative to the largest of its unit: an eps that is not known moves z so far.
_NEAR, _ROUND_OFF = 1e-3, 1e-6
_NEARLY_ALL = 0.95  # of the groups
_FEWEST, _EQUATIONS = 8, 20  # groups, and equations beyond those that any numbers solve: fewer fit by chance
_PAIRS = 10  # for each reward, where the order is all there is
_VARIES = 1.02  # the largest factor over the smallest: less is one factor
_FOLLOWS = 0.5  # of the variance inside groups: what follows the rewards less is hardly made of them
_FOLLOWS_ALONE = 0.8  # the same where no two responses are equal: nothing else speaks for the rewards there
_RARE = 0.02  # of the responses: a gate that is open, or closed, for fewer does little
_ROUNDS = 100
_STDS = PAPER, replace(PAPER, ddof=0)


@dataclass(frozen=True)
class Residual:
    """What was found; says: sentences. known: it is an estimator or the order, so that nothing is missing."""

    pattern: str
    says: str
    known: bool = True
    consistent: bool = True  # whether most of the advantages follows the rewards, where something is missing


def residual(tables: Sequence[pl.DataFrame], rewards: Sequence[str]) -> Residual | None:
    """What these tables of a log show, whose advantages no recipe makes; None where that is nothing."""
    table = pl.concat(tables)
    ends = table["group"].rle().struct.field("len").cum_sum().to_numpy()
    table = table.head(max(int(ends[ends <= _ENOUGH].max(initial=0)), int(ends[0])))
    tensors = tensors_of(table, rewards)
    log = _Log(replace(tensors, grid=grid_of(tensors.advantages)), tuple(rewards))
    for look in (_factors, _signs, _lengths, _gates):
        for pattern, says in look(log):
            return Residual(pattern, says)
    hidden, groups = hidden_inputs(table, rewards), int(table["group"].n_unique())
    if hidden <= MERGED * groups and (found := _order(log)):
        return found
    return _mostly(log, hidden or hidden_inputs(table.drop("length", strict=False), rewards), groups)


@dataclass(frozen=True)
class _Fit:
    factor: Tensor  # (units,) what the sum is multiplied by; NaN where a unit shows none
    spread: Tensor  # (units,) the root of the sum of the squares of the sums
    weights: Tensor  # (rewards,), up to a factor
    words: str  # the same


@dataclass(frozen=True)
class _Log:
    """The sample, and what fits it."""

    tensors: Tensors
    rewards: tuple[str, ...]

    def terms(self, method: str = "grpo", rewards: Tensor | None = None, convention: Convention = PAPER) -> Terms:
        """The rewards, or others in their place, centred in each group, or normalised ("mo_grpo")."""
        log = self.tensors if rewards is None else replace(self.tensors, rewards=rewards)
        terms = terms_of(log, log.read(convention), method)
        return terms if method == "grpo" else replace(terms, shifted=True)  # as a last step may have done

    @cached_property
    def centred(self) -> Terms:
        return self.terms()

    @cached_property
    def means(self) -> Tensor:
        """(groups,) of the advantages."""
        t = self.centred
        return t.total(t.a) / t.total(t.part).clamp(min=1)

    @cached_property
    def adds_up(self) -> bool:
        """Whether the advantages of nearly every group add up to 0."""
        t = self.centred
        size = t.total(t.rounding + _NEAR * t.a.abs()) / t.total(t.part).clamp(min=1)
        return bool((self.means.abs() <= size + _ROUND_OFF).double().mean() >= _NEARLY_ALL)

    def fit(self, terms: Terms, made_0: bool = False) -> _Fit | None:
        """Weights that make the advantages of nearly every unit but for a factor; None where chance may do that.

        made_0: whether the advantages were changed such that they add up to 0 in each group, which shows nothing.
        """
        units = len(terms.batch)
        solution = solution_of(replace(terms, batch=torch.arange(units)), units)
        if not solution.is_direction:
            return None
        w = solution.directions[:, 0]
        part = (w * solution.size).abs()
        w = w.masked_fill(part <= _NEAR * part.max(), 0)
        s = w @ terms.x
        s, a = ((v - terms.mean(v, terms.part)) * terms.part for v in (s, terms.a))
        square, largest = terms.total(s.square()), _largest(terms, a)
        factor = terms.total(s * a) / square.masked_fill(square == 0, torch.nan)
        off = (a - factor.nan_to_num()[terms.unit] * s).abs() - 2 * terms.rounding
        live = (largest > _ROUND_OFF) | (square > _NEAR**2 * square.mean())
        good = live & (_largest(terms, off.clamp(min=0)) <= _NEAR * largest + _ROUND_OFF) & (factor > 0)
        group = self.tensors.group_of_response
        kept = good[terms.unit] & (terms.part > 0)
        if good.sum() < _NEARLY_ALL * live.sum() or len(group[kept].unique()) < _FEWEST:
            return None
        mark = (terms.x.T @ _draw(len(w)) * 1e6).round()[kept]  # equal for equal terms
        kinds = torch.unique(torch.stack([group[kept].double(), mark], 1), dim=0)[:, 0].long().bincount()
        free = int(good.sum()) * (1 + terms.shifted) + int((w != 0).sum()) - 1
        free += int((kinds > 0).sum()) * (self.adds_up or made_0)
        if int(kinds.sum()) - free < _EQUATIONS:
            return None
        return _Fit(factor.masked_fill(~good, torch.nan), square.sqrt(), w, self.in_words(w))

    def in_words(self, weights: Tensor) -> str:
        known = {name: w for name, w in zip(self.rewards, weights.tolist(), strict=False) if w}
        words = weights_in_words(known, True).removesuffix(" (the log shows their ratio alone)")
        return f"with weights {words}" if len(known) > 1 else f"of {listing(known)} alone"

    def varies(self, factor: Tensor) -> bool:
        """Whether the factors of the groups, NaN left out, differ inside batches; inside the run, if each has one."""
        batch, there = self.tensors.batch, factor.isfinite()
        if len(batch) > self.tensors.batches:
            total = factor.new_zeros(2, self.tensors.batches)
            total.index_add_(1, batch[there], torch.stack([factor, torch.ones_like(factor)])[:, there])
            factor = factor / (total[0] / total[1])[batch]
        low, high = _range(factor)
        return high > _VARIES * low


# --- estimators -------------------------------------------------------------------------------------------------------

Named = Iterator[tuple[str, str]]  # a pattern, and what it says


def _factors(log: _Log) -> Named:
    """A factor for each group."""
    fit, counted = log.fit(log.centred), log.centred.total(log.centred.part)
    grpo = [] if fit is None else [fit.factor * fit.spread / (counted - ddof).clamp(min=1).sqrt() for ddof in (1, 0)]
    if fit and all(map(log.varies, (fit.factor, *grpo))):
        low, high = _range(grpo[0])
        yield (
            "a factor for each group",
            f"In each group they are those of GRPO {fit.words}, times a factor of the group's own, whose largest is "
            f"{number(high / low, 2)} times its smallest (of the middle 90 %): a factor for the difficulty of a "
            "prompt, or a divisor other than the std, as in DVAO, does that.",
        )


def _signs(log: _Log) -> Named:
    """Advantages below 0 made smaller, or larger."""
    t = log.centred
    above, below = t.total(t.a.clamp(min=0)), -t.total(t.a.clamp(max=0))
    ratio = (below / above)[(above > _ROUND_OFF) & (below > _ROUND_OFF)]
    if log.adds_up or len(ratio) < _FEWEST:
        return
    middle = ratio.median()
    alike = ((ratio / middle - 1).abs() <= _NEAR).double().mean() >= _NEARLY_ALL
    if alike and (fit := log.fit(replace(t, a=torch.where(t.a < 0, t.a / middle, t.a)), made_0=True)):
        yield (
            "signs",
            f"Those below 0 are {number(middle.item(), 3)} times what would make each group add up to 0; but for that "
            f"they are multiples of the centred sum {fit.words}.",
        )


def _lengths(log: _Log) -> Named:
    """Divided by the length, or of rewards with a penalty on it."""
    if log.tensors.lengths is None:
        return
    t, length, batches = log.centred, log.tensors.lengths.double().flatten(), log.tensors.batches
    if fit := log.fit(replace(t, a=t.a * length / length.max()), made_0=True):
        yield "length", f"Times the length of the response they are multiples of the centred sum {fit.words}."
    r = log.tensors.rewards.reshape(len(length), -1).T
    mean = (t.total(r.nan_to_num()) / t.total(torch.ones_like(length)))[:, t.unit]
    both = torch.cat([r, mean * length / _largest(t, length).clamp(min=1)[t.unit]]).T
    terms = log.terms(rewards=both.reshape(*log.tensors.rewards.shape[:-1], -1))
    if fit := log.fit(replace(terms, unit=log.tensors.batch_of_response, batch=torch.arange(batches))):
        w, penalty = fit.weights.view(2, -1)
        beta = -(w @ penalty) / w.square().sum()
        if beta.abs() > _NEAR and (penalty + beta * w).abs().max() <= 0.01 * (beta * w).abs().max():
            yield (
                "length penalty",
                f"They are those of GRPO without std {log.in_words(w)}, after each sum lost {number(beta.item())} "
                "times the group's mean times the length over the longest of the group: prime-rl's length penalty.",
            )


def _gates(log: _Log) -> Named:
    """Rewards, or advantages, that count only where one reward is at its highest."""
    r, t, of_rewards = log.tensors.rewards, log.centred, "a gate on the rewards, which came after they were logged."
    for k, name in enumerate(log.rewards):
        top = r[..., k].nan_to_num(-torch.inf).max()
        reached, others = r[..., k] >= top, [i for i in range(len(log.rewards)) if i != k]
        inside = reached.flatten().double()
        at, rest = f"{name} reaches {number(top.item())}", listing(log.rewards[i] for i in others)
        behind = replace(t, x=t.x * inside, a=t.a * inside, part=t.part * inside)
        closed = bool((t.a * (1 - inside)).abs().max() <= _ROUND_OFF)
        if closed and _RARE < inside.mean() < 1 - _RARE and (fit := log.fit(behind)):
            yield (
                "gate on the advantage",
                f"Where {at} they are multiples of the centred sum {fit.words}, as in GRPO, and elsewhere they are 0: "
                "a gate on the advantage.",
            )
        if not others or not _RARE < inside.mean() < 1 - _RARE:
            continue
        gated, masked = r.clone(), r.clone()
        for other, fallback in (gated, 0.0), (masked, torch.nan):
            other[..., others] = torch.where(reached[..., None], r[..., others], fallback)
        if (fit := log.fit(log.terms(rewards=gated))) and fit.weights[others].any():
            yield (
                "gate on the rewards",
                f"In each group they are a multiple of the centred sum {fit.words}, as in GRPO, with 0 in place of "
                f"{rest} unless {at}: {of_rewards}",
            )
        for std in _STDS:
            if (fit := log.fit(log.terms("mo_grpo", masked, std))) and fit.weights[others].any():
                yield (
                    "PAPO",
                    f"They are {name}, normalised over its group, plus {rest}, normalised over the responses in which "
                    f"{at}, {fit.words}: PAPO (arXiv 2603.26535).",
                )
            z = log.terms("mo_grpo", convention=std)
            counts = torch.ones_like(z.x)
            counts[others] = inside
            if (fit := log.fit(replace(z, x=z.x * counts))) and fit.weights[others].any():
                yield (
                    "gate on the advantage",
                    f"They are the normalised rewards {fit.words}, in which {rest} counted only where {at}: a gate on "
                    "the advantage, not on the reward as in equation 8 of GDPO.",
                )
            if (fit := log.fit(log.terms("mo_grpo", gated, std))) and fit.weights[others].any():
                yield (
                    "gate on the rewards",
                    f"They are GDPO's {fit.words}, with 0 in place of {rest} unless {at}: {of_rewards}",
                )


# --- order, and what is missing ---------------------------------------------------------------------------------------


def _order(log: _Log) -> Residual | None:
    """The order of a weighted sum, which no group contradicts; equal advantages contradict nothing."""
    t, group, lengths = log.centred, log.tensors.group_of_response, log.tensors.lengths
    none = group.new_zeros(0, 2)
    i, j = torch.cat([none, *(p for g in group.unique() for p in _pairs(t, (group == g).nonzero()[:, 0]))]).T
    groups, size = len(group[i].unique()), t.x.square().mean(1).sqrt()
    if groups < _FEWEST or len(i) < _PAIRS * len(size):
        return None
    apart = ((t.x[:, i] - t.x[:, j]) / size.masked_fill(size == 0, 1)[:, None]).T  # the better one less the other
    alike = apart.abs().amax(1) <= _ROUND_OFF
    if bool(alike.any()) and (lengths is None or bool((lengths.flatten()[i] >= lengths.flatten()[j])[alike].any())):
        return None
    kinds = normalize(torch.unique((apart[~alike] * 1e6).round(), dim=0))
    y = torch.zeros_like(size)
    for _ in range(_ROUNDS):  # the least squares of what is short of a margin of 1
        short = kinds[kinds @ y < 1 - _NEAR]
        if not len(short):
            break
        y = (y + torch.linalg.pinv(short).sum(1)) / 2
    if not len(kinds) or not bool((kinds @ y > 0).all()):
        return None
    w = y / size.masked_fill(size == 0, torch.inf)
    w = w / w.abs().max()
    place = w.abs().argsort(descending=True).argsort()
    simple = (w.sign(), w.sign() * 0.5**place, w.round(decimals=1), w.round(decimals=2))
    fits = (v for v in simple if bool((kinds @ (v * size) > _ROUND_OFF * (v * size).norm()).all()))
    words = f"a sum such as {log.in_words(next(fits, w))}" if len(log.rewards) > 1 else log.rewards[0]
    shorter = ", and of responses with equal rewards the shorter one has more" if bool(alike.any()) else ""
    return Residual(
        "order",
        f"In each of {count(groups, 'group')} their order is that of {words} (or they are equal){shorter}: ranks, "
        "clipping or a squashing function leave the order and change the sizes.",
    )


def _pairs(t: Terms, rows: Tensor) -> Iterator[Tensor]:
    """(pairs, 2) responses of one group of which the first has the higher advantage."""
    rows = rows[t.part[rows] > 0]
    if len(rows):
        a = t.a[rows]
        slack = 2 * t.rounding[rows].max() + _NEAR * a.abs().max() + _ROUND_OFF
        yield rows[(a[:, None] > a[None] + slack).nonzero()]


def _mostly(log: _Log, hidden: int, groups: int) -> Residual | None:
    """How much follows the rewards, though equal ones may have different advantages."""
    t = log.centred
    a = (t.a - log.means[t.unit]) * t.part
    left = a - t.x.T @ (torch.linalg.pinv(t.x @ t.x.T) @ (t.x @ a))
    follows = 1 - (left.square().sum() / a.square().sum()).nan_to_num(nan=1.0).item()
    agrees = f"they add up to 0 in each group, and {percent(follows)} of their variance there follows the rewards"
    if hidden <= MERGED * groups:
        enough = int(t.part.sum()) - groups - len(log.rewards) >= _EQUATIONS
        if not (enough and log.adds_up and _FOLLOWS_ALONE <= follows < 1 - _NEAR):
            return None
        return Residual("mostly the rewards", f"But {agrees}; what is left follows something else.", known=False)
    says = (
        f"In {count(hidden)} of {count(groups, 'group')} responses with equal rewards have different advantages: "
        "something else went into them, such as a KL or length penalty"
    )
    consistent = log.adds_up and follows >= _FOLLOWS
    says += f". The rest agrees: {agrees}." if consistent else ", or the groups are other ones."
    return Residual("something is not logged", says, known=False, consistent=consistent)


# --- parts ------------------------------------------------------------------------------------------------------------


def _largest(terms: Terms, x: Tensor) -> Tensor:
    """(units,) the largest size in each unit."""
    return x.new_zeros(len(terms.batch)).scatter_reduce(0, terms.unit, x.abs() * terms.part, "amax")


def _range(x: Tensor) -> tuple[float, float]:
    """Where the middle 90 % of these numbers lie, NaN left out."""
    low, high = torch.quantile(x[x.isfinite()], torch.tensor([0.05, 0.95], dtype=x.dtype)).tolist()
    return low, high


def _draw(n: int) -> Tensor:
    return torch.rand(n, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
