"""Columns among the rewards that do not count: a column of weight 0, and a weighted copy, which holds another reward
multiplied by that reward's weight.
"""

import re
from collections.abc import Iterator
from dataclasses import replace

from gdpo_audit.facts.facts import Facts
from gdpo_audit.logs.groups.run import Run
from gdpo_audit.records import Uncounted
from gdpo_core.shared.words import number


def without_uncounted(f: Facts) -> Run | None:
    """Return the run without the columns that do not count as rewards. None where every column counts, or where
    advantages are logged but not reproduced.

    A column whose weight is known to be 0 does not count (see `_without_weight`). If there are such columns, only they
    are taken out. If there are none, weighted copies of other rewards are taken out (see `_weighted_copies`). The
    factor of a copy then becomes the weight of the reward that it repeats, unless the run already tells that weight.

    The columns that do not count are added to `uncounted` of the run, each with the reason.
    """
    if f.reproduced is False:
        return None
    uncounted = list(_without_weight(f))
    factors = {} if uncounted else dict(_weighted_copies(f))  # a copy may be what leaves a weight open
    uncounted += [Uncounted(copy, f"{number(w)} × {source}") for source, (copy, w) in factors.items()]
    if not uncounted:
        return None
    away = {x.name for x in uncounted}
    rewards = tuple(name for name in f.rewards if name not in away)
    run = replace(f.run, rewards=rewards, in_order=f.run.columns, uncounted=(*f.run.uncounted, *uncounted))
    if not factors:
        return run
    known = all(name in factors for name in rewards)
    weights = {source: w for source, (_, w) in factors.items()} | {**(f.run.weights or {})}
    return replace(run, weights=weights, weights_by=f.run.weights_by or ("log" if known else "assumed"))


def _without_weight(f: Facts) -> Iterator[Uncounted]:
    """Yield the rewards whose weight is known to be 0, because the log shows it, or because the caller or the run's
    configuration says so. Yield nothing if every weight is 0.

    Some rewards are never among them:
    - The primary reward.
    - A reward that a logged total seems to contain.
    - A reward that has another weight in some part of the run.
    """
    weights, recipe = f.basis.weights, f.recipe
    last = max((k for k, w in enumerate(weights) if w), default=-1)
    for k, name in enumerate(f.rewards):
        solved = recipe is not None and k not in recipe.unknown
        configured = name in f.given_weights or name in (f.run.weights or {})
        if weights[k] or last < 0 or k == f.basis.primary or not (solved or configured):
            continue
        if name in _inside_totals(f) or any(phase.weights[name] for phase in f.phases):  # whatever the caller gives
            continue
        # Trainers with a list of weights write the reward functions first, and then what is logged beside them.
        function = f.framework.column_per_function and (configured or k < last)
        yield Uncounted(name, "weight 0", function)


def _inside_totals(f: Facts) -> list[str]:
    """Return the names of the rewards that seem to be contained in a total that stands beside them in the log."""
    beside = [issue.details for issue in f.run.issues if issue.id == "score-not-a-sum"]
    return [name for details in beside if "explained" in details for name in details["columns"]]


def _weighted_copies(f: Facts) -> Iterator[tuple[str, tuple[str, float]]]:
    """Yield each reward that has a weighted copy among the columns: the name of the reward, then a pair of the name of
    the copy and its factor.

    A column is a weighted copy of a reward if in every group it is factor × reward + a constant of that group. Besides,
    its name has to be the reward's with the word “weighted” before or behind it. The primary reward, and a column whose
    weight the caller gave, are no copies.
    """
    primary = None if f.basis.primary is None else f.rewards[f.basis.primary]
    for later, weights in f.relations:
        if len(weights) != 1:
            continue
        ((earlier, w),) = weights.items()
        for copy, source, factor in ((later, earlier, w), (earlier, later, 1 / w)):
            if _plain(copy) == source.lower() and copy not in (primary, *f.given_weights):
                yield source, (copy, float(f"{factor:.6g}"))


def _plain(name: str) -> str:
    """Return the name of a column in lower case, without the word “weighted” at its start or end.

    >>> _plain("Style_weighted"), _plain("weighted/style"), _plain("weighted")
    ('style', 'style', 'weighted')
    """
    return re.sub(r"^weighted[\W_]+|[\W_]+weighted$", "", name.lower())
