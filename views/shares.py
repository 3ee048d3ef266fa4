"""Section 3: what part of the update each reward takes, beside the part of the weight it was given."""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from math import isnan

import torch

import gdpo_core as gc
from gdpo_core._words import listing, percent
from views.html import Html, join, meter, says, table, tag
from views.marks import Passed, frozen, told_apart
from views.text import NAMES


def update(passed: Sequence, scale: Sequence[float], weights: Sequence[float], rewards: Sequence[str]) -> Html:
    """HTML of each reward's share of the update under every method, and what that means."""
    return _update(frozen(passed), tuple(scale), tuple(weights), tuple(rewards))


@lru_cache(maxsize=512)
def _update(passed: Passed, scale: tuple[float, ...], weights: tuple[float, ...], rewards: tuple[str, ...]) -> Html:
    paid = torch.tensor(passed) * torch.tensor(scale, dtype=torch.float64)  # (answers, rewards)
    taken = {method: gc.update_share(paid, method, weights=weights) for method in NAMES}
    total = sum(weights)
    asked = [w / total if total else float("nan") for w in weights]
    columns = {"weight": asked, **{NAMES[method]: share for method, share in taken.items()}}
    told = says(_loudest(taken["grpo"], asked, passed, rewards), _priority(passed, weights, rewards[0]))
    return join(told, shares_table(columns, rewards))


def _loudest(share: Sequence[float], asked: Sequence[float], passed: Sequence, rewards: Sequence[str]) -> str:
    if any(map(isnan, asked)):
        return "Every weight is 0, so there is no update to share."
    if any(map(isnan, share)):
        alike = len(set(passed)) == 1
        why = "No reward tells the answers apart" if alike else "What one reward gives, another takes: they cancel"
        return f"{why}, so there is no update to share."
    k = max(range(len(share)), key=lambda k: share[k] - asked[k])
    against = [reward for reward, part in zip(rewards, share, strict=True) if part < -0.005]
    if against:
        return f"Under GRPO, **{rewards[k]}** decides; {listing(against)} pull against it and lose."
    part, weight = percent(share[k]), percent(asked[k])
    return f"Under GRPO, **{rewards[k]}** takes {part} of the update for {weight} of the weight."


def _priority(passed: Passed, weights: Sequence[float], first: str) -> str:
    """Where GDPO puts wrong calls above right ones that have as many marks, and which weight would change that.

    The scale plays no part: GDPO divides it out.
    """
    pairs = gc.broken_ties(told_apart(passed, "grpo"), gc.collapse(passed, "gdpo", weights=weights))
    if not len(pairs.inverted):
        return ""
    compared = sorted({(passed[low], passed[high]) for low, high in zip(pairs.lower, pairs.higher, strict=True)})
    needed = max(
        gc.break_even_weight(passed, passed.index(low), passed.index(high), weights=weights) for low, high in compared
    )
    wrong, count = int(pairs.inverted.sum()), len(pairs.inverted)
    enough = f"when {first} weighs more than **{needed:.2f}**" if needed > 0 else f"however little {first} weighs"
    placed = f"the wrong one first in **{wrong}**" if wrong else "**the right one first in all**"
    return (
        f"Of {count} pairs of a right and a wrong call with equally many marks, GDPO puts {placed}. "
        f"The right one comes first in all {enough}."
    )


def shares_table(columns: Mapping[str, Sequence[float]], rewards: Sequence[str]) -> Html:
    """HTML table with a bar in each cell; columns are methods (or the weights), rows are rewards."""
    rows = [
        [join(tag("i", kind=f"mark r{k}"), reward), *(_cell(share[k], k) for share in columns.values())]
        for k, reward in enumerate(rewards)
    ]
    return table(["", *columns], rows, "shares")


def _cell(share: float, k: int) -> Html:
    """The bar starts at zero, a fifth from the left: what goes beyond 1 or below −1/4 is cut."""
    length = 0.0 if isnan(share) else 0.8 * min(abs(share), 1.0 if share > 0 else 0.25)
    return join(meter(length, f"r{k} {'against' if share < 0 else 'for'}", "share"), percent(share))
