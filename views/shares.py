"""Section 3: what part of the update each reward takes, beside the part of the weight it was given."""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from math import isnan

import torch

import gdpo_core as gc
from views.board import Passed, frozen, told_apart
from views.text import NAMES, percent


def update(passed: Sequence, scale: Sequence[float], weights: Sequence[float], rewards: Sequence[str]) -> str:
    """HTML of each reward's share of the update under every method, and what that means."""
    return _update(frozen(passed), tuple(scale), tuple(weights), tuple(rewards))


@lru_cache(maxsize=512)
def _update(passed: Passed, scale: tuple[float, ...], weights: tuple[float, ...], rewards: tuple[str, ...]) -> str:
    paid = torch.tensor(passed) * torch.tensor(scale, dtype=torch.float64)  # (answers, rewards)
    taken = {method: gc.update_share(paid, method, weights=weights) for method in NAMES}
    total = sum(weights)
    asked = [w / total if total else float("nan") for w in weights]
    columns = {"weight": asked, **{NAMES[method]: share for method, share in taken.items()}}
    return (
        f'<div class="says"><p>{_loudest(taken["grpo"], asked, passed, rewards)}</p>'
        f"<p>{_priority(passed, weights, rewards[0])}</p></div>{shares_table(columns, rewards)}"
    )


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
        return f"Under GRPO, <b>{rewards[k]}</b> decides; {' and '.join(against)} pull against it and lose."
    part, weight = percent(share[k]), percent(asked[k])
    return f"Under GRPO, <b>{rewards[k]}</b> takes {part} of the update for {weight} of the weight."


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
    enough = f"when {first} weighs more than <b>{needed:.2f}</b>" if needed > 0 else f"however little {first} weighs"
    placed = f"the wrong one first in <b>{wrong}</b>" if wrong else "<b>the right one first in all</b>"
    return (
        f"Of {count} pairs of a right and a wrong call with equally many marks, GDPO puts {placed}. "
        f"The right one comes first in all {enough}."
    )


def shares_table(columns: Mapping[str, Sequence[float]], rewards: Sequence[str]) -> str:
    """HTML table with a bar in each cell; columns are methods (or the weights), rows are rewards."""
    head = "".join(f'<th scope="col">{name}</th>' for name in columns)
    rows = "".join(
        f'<tr><th scope="row"><i class="mark r{k}"></i>{reward}</th>'
        + "".join(_cell(share[k], k) for share in columns.values())
        + "</tr>"
        for k, reward in enumerate(rewards)
    )
    return f'<table class="shares"><thead><tr><td></td>{head}</tr></thead><tbody>{rows}</tbody></table>'


def _cell(share: float, k: int) -> str:
    width = 0 if isnan(share) else min(abs(share), 1.0 if share > 0 else 0.25) * 80
    kind = "against" if share < 0 else "for"
    return f'<td><span class="share"><i class="r{k} {kind}" style="width:{width:.1f}%"></i></span>{percent(share)}</td>'
