"""Patterns in logged advantages that no recipe makes: a known estimator, the order of the rewards, or a sign that
something is not logged.

Each pattern is looked for in a sample of the log. A known estimator has to fit nearly all groups of the sample, and an
order all groups. There have to be so many groups and responses that the pattern cannot be chance.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import polars as pl
import torch
from torch import Tensor

from gdpo_audit.phrases import weights_in_words
from gdpo_audit.recipe.guesses import round_weights
from gdpo_audit.recipe.recipe import Tensors, grid_of, hidden_groups, tensors_of
from gdpo_audit.recipe.terms import Terms, terms_of
from gdpo_audit.recipe.weights import separating, solution_of
from gdpo_audit.thresholds import MERGED
from gdpo_core.conventions import PAPER
from gdpo_core.shared.words import count, listing, number, percent

_ENOUGH = 4000  # the most responses that are looked at
# An advantage fits if it is this near, relative to the largest of its unit, since an unknown eps may move z so far.
_NEAR, _ROUND_OFF = 1e-3, 1e-6
_NEARLY_ALL = 0.95  # the share of the groups that a pattern has to fit
# A pattern needs so many groups, and so many equations beyond those that any numbers solve: with fewer it fits by
# chance.
_FEWEST, _EQUATIONS = 8, 20
_PAIRS = 10  # the fewest ordered pairs for each reward, where only the order shows
_VARIES = 1.02  # factors whose largest is less than so many times the smallest count as one factor
_FOLLOWS = 0.5  # of the variance inside groups: advantages that follow the rewards less are hardly made of them
_FOLLOWS_ALONE = 0.8  # instead of it, where no two responses are equal, so that nothing else speaks for the rewards
_RARE = 0.02  # of the responses: a gate that is open or closed for fewer does little
_LESS = (
    "In each group the advantages are those of GRPO …, times a factor of the group and less a number of the group, as "
    "where mean and std were taken over rows that are not all in the log, or where something else, such as a median, "
    "stood in their place."
)
_OF_GROUP, _BASELINE = "a factor for each group", "a baseline and a factor for each group"


@dataclass(frozen=True)
class Residual:
    """Describe a pattern in logged advantages that no known recipe makes.

    pattern: the name of the pattern.
    says: sentences about it.
    known: True if the advantages are those of a known estimator or follow the rewards, False if something seems to be
        missing from the log.
    consistent: False if `known` is False and the advantages do not even mostly follow the rewards; otherwise True.
    weights: the weights of the rewards in a known estimator, one per reward; None for another pattern.
    """

    pattern: str
    says: str
    known: bool = True
    consistent: bool = True
    weights: tuple[float, ...] | None = None


def residual(
    tables: Sequence[pl.DataFrame], rewards: Sequence[str], weights: Sequence[float] | None = None
) -> Residual | None:
    """Return the first pattern that is found in advantages that no recipe makes; None where none is found.

    Only the first responses are looked at: as many whole groups as fit into `_ENOUGH` responses, but at least one
    group.

    tables: the rows of the run.
    rewards: the names of the rewards.
    weights: the weights of the rewards as something else than the advantages shows them; None if nothing does.
    """
    table = pl.concat(tables)
    ends = table["group"].rle().struct.field("len").cum_sum().to_numpy()
    table = table.head(max(int(ends[ends <= _ENOUGH].max(initial=0)), int(ends[0])))
    log = tensors_of(table, rewards)
    log = replace(log, grid=grid_of(log.advantages))
    t = terms_of(log, log.read(PAPER), "grpo")
    for pattern, terms, says in _estimators(log, t, rewards):
        w = _fit(terms)
        if w is not None and (pattern not in (_OF_GROUP, _BASELINE) or _factors_vary(terms, w)):
            return Residual(pattern, says.replace("…", _in_words(rewards, w)), weights=round_weights(w))
    hidden, groups = len(hidden_groups(table, rewards)), len(log.batch)
    if hidden <= MERGED * groups and (order := _order(t, rewards, weights)):
        return order
    return _mostly(t, hidden or len(hidden_groups(table.drop("length", strict=False), rewards)), groups)


# --- estimators -------------------------------------------------------------------------------------------------------


def _estimators(log: Tensors, t: Terms, rewards: Sequence[str]) -> Iterator[tuple[str, Terms, str]]:
    """Yield a tuple for each estimator that may have made the advantages: its name, its terms, and a sentence on it. In
    the sentence, “…” stands for weights that are not known yet.

    The caller has to find out whether weights fit. With fitting weights, the weighted sum of the terms in each group is
    a multiple of the advantages `a` that the terms hold. The factor may differ from group to group.

    log: the logged advantages with rewards and lengths.
    t: GRPO's terms of that log.
    rewards: the names of the rewards.
    """
    ratio = t.total(t.a.clamp(max=0)).abs() / t.total(t.a.clamp(min=0))
    ratio = ratio[ratio.isfinite() & (ratio > 0)]
    less = ratio.median().item() if len(ratio) >= _FEWEST else 1.0
    if abs(less - 1) > _NEAR and ((ratio / less - 1).abs() <= _NEAR).double().mean() >= _NEARLY_ALL:
        yield (
            "signs",
            replace(t, a=torch.where(t.a < 0, t.a / less, t.a)),
            f"The advantages below 0 are {number(less, 3)} times as large as what would make each group add up to 0; "
            "apart from that, the advantages are multiples of the centred sum ….",
        )
    else:
        yield (
            _OF_GROUP,
            t,
            "In each group the advantages are those of GRPO …, times a factor that differs from group to group. A "
            "factor for the difficulty of a prompt or for each batch has this effect, and so has a divisor other than "
            "the std, as in DVAO.",
        )
    if len(rewards) > 1 and not log.grid and not _adds_up(t):  # rounding alone may keep sums from 0
        mean = t.total(t.a) / t.total(t.included).clamp(min=1)
        yield _BASELINE, replace(t, a=(t.a - mean[t.unit]) * t.included), _LESS
    if log.lengths is not None:
        length = log.lengths.double().flatten()
        says = "Multiplied by the length of its response, each advantage is a multiple of the centred sum …."
        yield "length", replace(t, a=t.a * length / length.max()), says
    for k, name in enumerate(rewards):
        r = log.rewards[..., k].flatten().nan_to_num(-torch.inf)
        top = r.max().item()
        inside = (r >= top).double()
        # A gate that is open, or closed, for few responses does little, so it is not looked for.
        if _RARE < inside.mean() < 1 - _RARE and bool((t.a * (1 - inside)).abs().max() <= _ROUND_OFF):
            yield (
                "gate on the advantage",
                replace(t, x=t.x * inside, a=t.a * inside, included=t.included * inside),
                f"Where {name} reaches {number(top)}, the advantages are multiples of the centred sum …, as in GRPO, "
                "and elsewhere they are 0: this is a gate on the advantage.",
            )


def _fit(t: Terms) -> Tensor | None:
    """Return (rewards,) the weights of a sum of the terms that fits the advantages. In nearly every group, this sum
    times a positive factor of that group gives the advantages. None if there are no such weights, or if too few groups
    or responses show it.

    t: the terms of an estimator, with the advantages.
    """
    solution = solution_of(replace(t, batch=torch.arange(len(t.batch))), len(t.batch))
    if not solution.is_direction:
        return None
    size = (solution.directions[:, 0] * solution.size).abs()
    w = solution.directions[:, 0].masked_fill(size <= _NEAR * size.max(), 0)
    s = w @ t.x
    square, largest = t.total(s.square()), _largest(t, t.a)
    factor = t.total(s * t.a) / square.masked_fill(square == 0, torch.inf)
    off = (t.a - factor[t.unit] * s).abs() - 2 * t.rounding
    live = (largest > _ROUND_OFF) | (square > _NEAR**2 * square.mean())
    good = live & (_largest(t, off.clamp(min=0)) <= _NEAR * largest + _ROUND_OFF) & (factor > 0)
    kept, groups = good[t.unit] & (t.included > 0), int(good.sum())
    equations = t.different(kept, t.unit) - groups * (1 + _adds_up(t)) - int((w != 0).sum()) + 1
    enough = groups >= _FEWEST and equations >= _EQUATIONS
    return w if enough and groups >= _NEARLY_ALL * live.sum() else None


def _factors_vary(t: Terms, w: Tensor) -> bool:
    """Return whether the advantages are the weighted sums of the terms times a factor that varies from group to group.

    The factor also has to vary if the sums of a group are first divided by their std, computed with n − 1 or with n.

    t: the terms, with the advantages.
    w: (rewards,) the weights.
    """
    square = t.total((w @ t.x).square())
    factor = t.total((w @ t.x) * t.a) / square
    stds = [(square / (t.total(t.included) - ddof).clamp(min=1)).sqrt() for ddof in (1, 0)]
    middle = torch.tensor([0.05, 0.95], dtype=factor.dtype)
    ranges = [torch.quantile(x[x > 0], middle) for x in (factor, *(factor * std for std in stds))]
    return all(high > _VARIES * low for low, high in ranges)


def _in_words(rewards: Sequence[str], weights: Tensor) -> str:
    """Return words that name each reward with a weight other than 0, and its weight. If there is only one such reward,
    they name it alone, without its weight.
    """
    known = {name: w for name, w in zip(rewards, weights.tolist(), strict=True) if w}
    words = weights_in_words(known, True).removesuffix(" (the log shows only their ratio)")
    return f"with weights {words}" if len(known) > 1 else f"of {listing(known)} alone"


# --- order, and what is missing ---------------------------------------------------------------------------------------


def _order(t: Terms, rewards: Sequence[str], weights: Sequence[float] | None = None) -> Residual | None:
    """Return the pattern "order" if a weighted sum of the rewards orders the responses of every group as their logged
    advantages do.

    Responses with equal advantages may stand in any order. None if there is no such sum, or if too few groups or pairs
    of responses show it.

    t: the rewards and the advantages.
    rewards: the names of the rewards.
    weights: weights that are known from elsewhere, which are tried first.
    """
    slack = t.rounding + _NEAR / 2 * _largest(t, t.a)[t.unit] + _ROUND_OFF
    low, high, pairs = t.a - slack, t.a + slack, [t.unit.new_zeros(0, 2)]  # the first one has the higher advantage
    for unit in range(len(t.batch)):
        rows = ((t.unit == unit) & (t.included > 0)).nonzero()[:, 0]
        pairs.append(rows[(low[rows][:, None] > high[rows]).nonzero()])
    i, j = torch.cat(pairs).T
    size = t.x.square().mean(1).sqrt()
    groups = len(t.unit[i].unique())
    if groups < _FEWEST or len(i) < _PAIRS * len(size):
        return None
    apart = ((t.x[:, i] - t.x[:, j]) / size.masked_fill(size == 0, 1)[:, None]).T  # the better one less the other
    kinds = torch.unique((apart * 1e6).round(), dim=0)
    y = separating(kinds.T, kinds.mean(0))
    if not bool((kinds @ y > 0).all()):
        return None
    w = y / size.masked_fill(size == 0, torch.inf)
    w = w / w.abs().max()
    halved = w.sign() * 0.5 ** w.abs().argsort(descending=True).argsort()
    known = [] if weights is None else [torch.tensor(weights, dtype=w.dtype) / max(map(abs, weights), default=1.0)]
    simple = (*known, w.sign(), halved, w.round(decimals=1))
    w = next((v for v in simple if bool((kinds @ (v * size) > 1).all())), w)
    words = f"a sum such as the one {_in_words(rewards, w)}" if len(rewards) > 1 else rewards[0]
    return Residual(
        "order",
        f"In each of {count(groups, 'group')} the advantages are in the order of {words}, or equal: ranks, clipping or "
        "a squashing function keep the order and change the sizes.",
    )


def _mostly(t: Terms, hidden: int, groups: int) -> Residual | None:
    """Return one of two patterns, "something is not logged" or "mostly the rewards"; None if neither shows.

    The first is returned if `hidden` is more than the part `MERGED` of all groups. Otherwise the second is returned, if
    the advantages add up to 0 in nearly every group, and the rewards explain most of their variance but not all.

    t: the rewards and the advantages.
    hidden: the number of groups in which responses with equal rewards have different advantages.
    groups: the number of all groups.
    """
    mean, adds_up = t.total(t.a) / t.total(t.included).clamp(min=1), _adds_up(t)
    a = (t.a - mean[t.unit]) * t.included
    left = a - t.x.T @ (torch.linalg.pinv(t.x @ t.x.T) @ (t.x @ a))
    follows = 1 - (left.square().sum() / a.square().sum()).nan_to_num(nan=1.0).item()
    agrees = (
        f"the advantages add up to 0 in each group, and {percent(follows)} of their variance inside groups follows "
    )
    agrees += "the rewards"
    if hidden <= MERGED * groups:
        enough = int(t.included.sum()) - groups - len(t.x) >= _EQUATIONS
        if not (enough and adds_up and _FOLLOWS_ALONE <= follows < 1 - _NEAR):
            return None
        says = f"But {agrees}. Clipping, a factor for each batch or something that is not logged can explain the rest."
        return Residual("mostly the rewards", says)
    says = (
        f"In {count(hidden)} of {count(groups, 'group')}, responses with equal rewards have different advantages: "
        "something else went into the advantages, such as a KL or length penalty"
    )
    consistent = adds_up and follows >= _FOLLOWS
    other_groups = ", or the trainer's groups are not those that were read here."
    says += f". The rest agrees: {agrees}." if consistent else other_groups
    return Residual("something is not logged", says, known=False, consistent=consistent)


def _adds_up(t: Terms) -> bool:
    """Return whether the advantages add up to 0 in nearly every group."""
    near = t.total(t.a).abs() <= t.total(t.rounding + _NEAR * t.a.abs() + _ROUND_OFF)
    return bool(near.double().mean() >= _NEARLY_ALL)


def _largest(terms: Terms, x: Tensor) -> Tensor:
    """Return (units,) the largest absolute value of x in each unit of the terms, which is a group or a batch. Only the
    responses that `terms.included` marks with 1 count.

    x: (responses,).
    """
    return x.new_zeros(len(terms.batch)).scatter_reduce(0, terms.unit, x.abs() * terms.included, "amax")
