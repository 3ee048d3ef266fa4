"""Other readings of a log whose advantages nothing makes as it was read: other groups, rows or rewards.

Logged advantages judge: a reading is taken where a known method makes all of them from it, and the report says so.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial

import numpy as np
import polars as pl

from gdpo_audit.logs.behaviour import CLOCK, LABEL
from gdpo_audit.logs.clues import Clues, Mask, add_up, groupings_of, masks_of
from gdpo_audit.logs.grouping import regrouped
from gdpo_audit.logs.run import LogIssue, Run, spread
from gdpo_audit.recipe.added import Added, added_column
from gdpo_audit.recipe.recipe import TOLERANCE, Recipe, compare, tensors_of
from gdpo_core._errors import InputError

LEFT_OUT = 4  # columns that are tried as rewards, at most: each is another reading
SAMPLE = 20_000  # responses of each
MOSTLY = 0.8  # of the advantages that are 0: in others of these the rewards are those of the mean
ADDS_UP = 0.99  # of the groups: where so many add up to 0, the groups are those of the trainer

Reading = tuple[Run, list[pl.DataFrame], Recipe]  # with a sample and what makes its advantages
Solve = Callable[[Run, list[pl.DataFrame]], Recipe | None]  # the recipe that makes all advantages of a sample


def another_reading(run: Run, solve: Solve) -> Reading | None:
    """Return the run read so that a method makes all of its advantages, a sample and the recipe; None if none does.

    solve: returns the recipe that makes every advantage of a sample, or None.
    """
    if run._read_with is None or run._source.clues is None:
        return None
    clues = run._source.clues()
    if not len(clues.advantage) or not clues.advantage.any():
        return None
    for read in _readings(run, clues):
        with suppress(InputError):
            reread = read()
            sample = spread(reread.sample, SAMPLE)
            recipe = solve(reread, sample)
            if recipe is not None and len(recipe.unknown) < max(len(reread.rewards), 2):
                return _said_of_zeros(reread, clues, sample, recipe), sample, recipe
    return None


def left_out_reward(run: Run, solve: Solve) -> tuple[str, Recipe] | None:
    """Return a column that was not read and makes the advantages together with the rewards, and their recipe, or None.

    solve: as in `another_reading`.
    """
    for name in _not_read(run) if run._read_with else ():
        with suppress(InputError):
            reread = _with_one_more(run, name)
            recipe = solve(reread, spread(reread.sample, SAMPLE))
            if recipe is not None and recipe.weights[-1] and not recipe.unknown:
                return name, recipe
    return None


def added(run: Run, solve: Solve) -> Added | None:
    """Return the first column not read as a reward of which a multiple was added to a method's advantages.

    It comes with the multiple and the recipe; None where there is none. solve: as in `another_reading`.
    """
    for name in _not_read(run) if run._read_with else ():
        with suppress(InputError):
            sample = spread(_with_one_more(run, name).sample, SAMPLE)
            column = added_column(sample, run.rewards, name, partial(solve, run))
            if column is not None:
                return column
    return None


def share_adding_up(sample: list[pl.DataFrame]) -> float:
    """Return the share of the groups of a sample in which the logged advantages add up to 0."""
    table = pl.concat(sample)
    group = np.unique(table["group"].to_numpy(), return_inverse=True)[1]
    return add_up(group, table["advantage"].fill_nan(0).fill_null(0).to_numpy())


def _readings(run: Run, clues: Clues) -> Iterator[Callable[[], Run]]:
    """Yield functions that read the log in another way, the likeliest first."""
    for name in _clocks(run):
        yield partial(_in_steps_of, run, name)
    for grouping in groupings_of(clues):
        yield partial(regrouped, run, grouping, run.grouped_by)
    for column, value in masks_of(clues):
        for counts in (False, True):
            yield partial(_masked, run, Mask(column, value, counts), clues)
    for counts in (False, True):
        yield partial(_without_zeros, run, counts)
    if run.total is not None and run.total not in run.rewards:
        yield partial(_of_total_alone, run)
    for name in () if run.rewards_named else _not_read(run):
        yield partial(_with_one_more, run, name)


def _not_read(run: Run) -> tuple[str, ...]:
    """Return the columns that may be rewards though they were not read as such: those left out, and the length."""
    return (*run.left_out[:LEFT_OUT], *([run.length_column] if run.length_column else []))


def _clocks(run: Run) -> list[str]:
    """Return the columns that may number the steps of a log without steps: they rise along it, or name its groups."""
    if run.has_steps:
        return []
    left_out = [issue.details["columns"] for issue in run.issues if issue.id == "no-reward"]
    reasons: dict[str, str] = left_out[0] if left_out else {}
    return [name for name, why in reasons.items() if why in (CLOCK, LABEL)]


def _in_steps_of(run: Run, name: str) -> Run:
    """Return the run with the steps that a column numbers, and an issue that says so."""
    reread = _read_with(run, columns={"step": name})
    return replace(reread, issues=(*reread.issues, LogIssue("steps-found", {"column": name})))


def _masked(run: Run, mask: Mask, clues: Clues) -> Run:
    """Return the run without the rows that a mask leaves out, or without their advantages."""
    masking = clues.flags[f"{mask.column}"]
    flags = {name for name, flag in clues.flags.items() if _same_or_opposite(flag, masking)}
    rewards = tuple(name for name in run.rewards if name not in flags)
    reread = _read_with(run, mask=mask, rewards=rewards)
    return replace(reread, issues=(*reread.issues, LogIssue("masked", _mask_details(run, reread, mask))))


def _same_or_opposite(flag: np.ndarray, masking: np.ndarray) -> bool:
    """Return whether a column of 0 and 1 says the same as another one, or its opposite."""
    return bool((flag == masking).all() or (flag == 1 - masking).all())


def _without_zeros(run: Run, counts: bool) -> Run:
    """Return the run without its rows of advantage 0, or, if `counts`, without these advantages; an issue says so."""
    mask = Mask(None, 0.0, counts)
    reread = _read_with(run, mask=mask)
    return replace(reread, issues=(*reread.issues, LogIssue("masked", _mask_details(run, reread, mask))))


def _said_of_zeros(run: Run, clues: Clues, sample: list[pl.DataFrame], recipe: Recipe) -> Run:
    """Return the run with what its advantages of 0 that were left out have in common, a column or the sign, in the
    issue about them; unchanged without such an issue.
    """
    masked = next((issue for issue in run.issues if issue.id == "masked" and issue.details["column"] is None), None)
    if masked is None:
        return run
    zero, more = clues.advantage == 0, dict[str, object]()
    for name, flag in clues.flags.items():
        for value in (0.0, 1.0):
            if zero[flag == value].all() and (flag[zero] == value).mean() >= MOSTLY:
                more = {"column": name, "value": value}
    if not more and masked.details["counts"]:
        logs = [tensors_of(table, run.rewards) for table in sample]
        left = [(compare(log, recipe).computed, log.advantages.isnan()) for log in logs]
        above = bool((clues.advantage >= 0).all()) and all(bool((made[out] <= TOLERANCE).all()) for made, out in left)
        more = {"below": True} if above else {}
    issues = [replace(masked, details={**masked.details, **more}) if issue is masked else issue for issue in run.issues]
    return replace(run, issues=tuple(issues))


def _mask_details(run: Run, reread: Run, mask: Mask) -> dict[str, object]:
    """Return which rows a mask leaves out, how many, of how many, and whether they count in the statistics; reread: the
    run as it is read with the mask.
    """
    rows = int(run._source.sizes["rows"].sum())
    left = rows - int(reread._source.sizes["rows"].sum())
    if mask.counts:
        left = sum(int(table["advantage"].is_nan().sum()) for table in reread.tables())
    return {"column": mask.column, "value": mask.value, "rows": left, "of": rows, "counts": mask.counts}


def _of_total_alone(run: Run) -> Run:
    """Return the run of the total alone, with an issue that says that its parts stand beside it."""
    reread = _read_with(run, rewards=(run.total,))
    kept = tuple(issue for issue in reread.issues if issue.id not in ("no-components", "total-of-parts"))
    near = next((issue.details for issue in run.issues if issue.id == "score-not-a-sum"), {})
    details = {"total": run.total, "parts": list(run.rewards), "explained": 1 - near.get("missing", 1.0)}
    return replace(reread, total_only=False, issues=(*kept, LogIssue("total-of-parts", details)))


def _with_one_more(run: Run, name: str) -> Run:
    """Return the run with one more reward, a column that was left out at first, and an issue that says why."""
    reread = _read_with(run, rewards=(*run.rewards, name))
    return replace(reread, issues=(*reread.issues, LogIssue("reward-taken-in", {"reward": name})))


def _read_with(run: Run, **changes: object) -> Run:
    """Return the run as it is read with other options."""
    assert run._read_with is not None, "a run that was read can be read again"
    return run._read_with(**changes)
