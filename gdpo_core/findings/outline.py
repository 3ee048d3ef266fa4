"""The parts of a report, from the facts about a run."""

from collections.abc import Sequence
from math import isnan, sqrt
from typing import TypedDict

import polars as pl

from gdpo_core._words import count, listing, number
from gdpo_core.conventions import CONVENTIONS
from gdpo_core.findings import NAMES, Facts, Finding
from gdpo_core.findings.facts import real
from gdpo_core.findings.thresholds import FEW_GROUPS

_LISTED = 100  # steps in the report


class SourcePart(TypedDict):
    """What the log holds."""

    path: str
    framework: str
    files: int
    steps: int
    responses: int
    groups: int
    group_size: int | None  # None: groups of different sizes
    rewards: list[str]
    grouped_by: str  # in words
    skipped_lines: int
    left_out: list[str]  # columns that were not read


class RunPart(TypedDict):
    """What made the logged advantages, and what the figures were computed with."""

    method: str | None  # None: the log does not show it
    convention: str | None
    weights: dict[str, float | None] | None  # None for a weight: the log cannot tell it
    weights_up_to_scale: bool | None
    logged: int
    reproduced: bool | None  # None: nothing to compare with
    max_error: float | None
    weights_used: dict[str, float]
    weights_from: str  # given, solved, score, config or assumed
    convention_used: str
    asked: str | None
    primary: str | None
    steps_off: list[int]


class RewardPart(TypedDict):
    """One reward: its spread, where it is missing or constant, and its part of the update under each method."""

    name: str
    mean: float | None
    std: float | None
    missing: int  # responses
    dead_groups: float
    update_share: dict[str, float]


def source(f: Facts, batches: pl.DataFrame) -> SourcePart:
    """What the log holds; batches: all batches, repeated ones too."""
    return {
        "path": f.run.path,
        "framework": f.run.framework,
        "files": len(f.run.files),
        "steps": len(f.steps),
        "responses": int(batches["responses"].sum()),
        "groups": int(batches["groups"].sum()),
        "group_size": f.run.group_size,
        "rewards": list(f.run.rewards),
        "grouped_by": f.run.grouped_by,
        "skipped_lines": f.run.skipped_lines,
        "left_out": list(f.run.left_out),
    }


def run(f: Facts) -> RunPart:
    """What made the logged advantages, and what the figures were computed with."""
    recipe = f.recipe
    compared = pl.concat([f.batches, f.overwritten])
    off = compared.filter(pl.col("rows_off") > 0)
    error = real(compared["max_error"].max())
    weights: dict[str, float | None] | None = None
    if recipe is not None:
        weights = {
            name: None if k in recipe.unknown else w
            for k, (name, w) in enumerate(zip(f.rewards, recipe.weights, strict=True))
        }
    by = f.run.weights_by if f.run.weights and f.run.weights_by else "assumed"
    if recipe is not None and (len(recipe.unknown) < len(f.rewards) or not f.run.weights):
        by = "solved"
    return {
        "method": None if recipe is None else recipe.method,
        "convention": None if recipe is None else recipe.convention,
        "weights": weights,
        "weights_up_to_scale": None if recipe is None else recipe.up_to_scale,
        "logged": int(f.totals["logged"]) + int(f.overwritten["logged"].sum()),
        "reproduced": f.reproduced,
        "max_error": None if recipe is None or isnan(error) else error,
        "weights_used": dict(zip(f.rewards, f.plan.weights, strict=True)),
        "weights_from": "given" if f.given else by,
        "convention_used": f.plan.convention,
        "asked": f.asked,
        "primary": None if f.plan.primary is None else f.rewards[f.plan.primary],
        "steps_off": off["step"].unique().sort().head(_LISTED).to_list(),
    }


def reward(f: Facts, k: int) -> RewardPart:
    """One reward: its spread, where it is missing or constant, and its part of the update under each method."""
    there, total = int(f.totals[f"there_{k}"]), f.totals[f"total_{k}"]
    variance = (f.totals[f"squares_{k}"] - total**2 / there) / (there - 1) if there > 1 else None
    return {
        "name": f.rewards[k],
        "mean": total / there if there else None,
        "std": None if variance is None else sqrt(max(variance, 0.0)),
        "missing": int(f.totals["responses"]) - there,
        "dead_groups": f.dead(k),
        "update_share": {m: f.shares(m)[k] for m in f.methods},
    }


def method(f: Facts, m: str) -> dict[str, float]:
    """Which of these rewards one method tells apart."""
    return {
        "groups_with_ties": f.ties(m),
        "tied_pairs": f.part(f"{m}_tied_pairs", f"{m}_different_pairs"),
        "levels": f.part(f"{m}_levels", f"{m}_mixed_groups"),
        "silent_groups": f.part(f"{m}_silent_groups", "groups"),
        "inversions": f.inversions(m),
    }


def verdict(f: Facts, found: Sequence[Finding]) -> str:
    """What ran, whether that is certain, and what to look at first."""
    if f.recipe is not None:
        made = f"{NAMES[f.recipe.method]} as {CONVENTIONS[f.recipe.convention].name} computes it"
        pairs = zip(f.rewards, f.recipe.weights, strict=True)
        weights = [f"{name} {number(w)}" for k, (name, w) in enumerate(pairs) if k not in f.recipe.unknown]
        made += f" with weights {listing(weights, link='')}" if weights and len(f.rewards) > 1 else ""
        off, logged = (int(f.totals[what]) + int(f.overwritten[what].sum()) for what in ("rows_off", "logged"))
        if f.reproduced:
            error = number(real(f.batches["max_error"].max()), digits=1)
            ran = f"The logged advantages are {made}: all {count(logged)} are reproduced, to {error}."
        else:
            ran = f"The logged advantages are {made}, but for {count(off)} of {count(logged)}."
    elif f.all_silent and f.totals["mixed_groups"]:
        ran = "Every logged advantage is 0, as under every method here: the rewards cancel in each group."
    elif f.totals["logged"] and f.totals["logged_zero"] == f.totals["logged"]:
        ran = "Every logged advantage is 0, which does not show the method that ran."
    elif f.reproduced is False:
        known = "total" if f.run.total_only else "rewards"
        ran = f"The logged advantages are not what any known method makes of the logged {known}."
    else:
        ran = "The log holds no advantages, so it does not show which method ran."
    return f"{ran} {_first(f, found)}"


def _first(f: Facts, found: Sequence[Finding]) -> str:
    for finding in found:
        if finding.severity != "info":
            return f"Look first at {finding.id}: {finding.headline}"
    groups, responses = f.totals["groups"], f.totals["responses"]
    size = f"{count(responses, 'response')} in {count(groups, 'group')}"
    few = f"{size} are too few to judge; " if groups < FEW_GROUPS else ""
    sentence = f"{few}{'no finding asks for a change' if found else 'no finding'}."
    return sentence[0].upper() + sentence[1:]
