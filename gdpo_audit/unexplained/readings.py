"""Other ways to read a log whose logged advantages no method makes: with other groups, rows, steps or rewards.

A way counts if a known method makes all advantages of a sample that is read so. The report then says how the log was
read.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import polars as pl

from gdpo_audit.logs.columns.behaviour import CLOCK, LABEL
from gdpo_audit.logs.columns.constants import ONE_VALUE
from gdpo_audit.logs.columns.totals import NEARLY
from gdpo_audit.logs.files.trying import Search, attempt
from gdpo_audit.logs.forms.roles import total_rank
from gdpo_audit.logs.groups.run import Run, batches_from_all_over
from gdpo_audit.logs.names import reward_columns
from gdpo_audit.logs.numbers.clues import balanced_share, column_like_blocks, flag_values
from gdpo_audit.logs.numbers.weighted_sums import weights_of
from gdpo_audit.recipe.changes import recipe_of_one_batch
from gdpo_audit.recipe.recipe import TOLERANCE, Recipe, compare, tensors_of
from gdpo_audit.records import Clues, LogIssue, Mask
from gdpo_audit.unexplained.added import Added, added_column

SEARCH_SECONDS = 20.0  # the time of the processor that the search for another reading may take
SECONDS_PER_COLUMNS = 8.0  # the same for the search for a column that the advantages depend on
DOING = "Looking for another way to read the log …"
LEFT_OUT = 4  # the most columns that are tried as rewards, as each of them is another reading
JUDGED_RESPONSES = 20_000  # the most responses on which a reading is judged
# The share of the advantages of 0 in which a column has one value if it explains them. The others may be 0 because the
# rewards are at the mean of their group.
_MOSTLY = 0.8
ADDS_UP = 0.99  # the share of groups with a sum of 0 from which on the groups are taken to be those of the trainer

_Reading = tuple[Run, list[pl.DataFrame], Recipe]  # a run, a sample of it, and the recipe of the sample's advantages
Solve = Callable[[Run, list[pl.DataFrame]], Recipe | None]  # returns the recipe that makes all advantages of a sample


def with_changing_weights(run: Run) -> tuple[Run, list[pl.DataFrame]] | None:
    """Read a column as one more reward if the advantages depend on it with weights that change during the run. Return
    the run so read and a sample of it; None if there is no such column.

    A column counts if one method makes each of some batches by itself, with a weight of the column that is not 0. None
    if the caller names the rewards.
    """
    ways = not_read(run) if run._read_with and not run.rewards_named else ()
    for name in Search(SECONDS_PER_COLUMNS).among(ways, DOING):
        with attempt():
            reread = with_one_more(run, name)
            sample = reread.sample
            recipe = recipe_of_one_batch(reread, sample)
            last = len(reread.rewards) - 1
            if recipe is not None and recipe.weights[last] and last not in recipe.unknown:
                return reread, sample
    return None


def left_out_reward(run: Run, solve: Solve) -> tuple[str, Recipe] | None:
    """Return the first column that has to be a reward although it was not read as one, with a recipe; or None.

    If the column is read as one more reward, this recipe makes all logged advantages of a sample. The log then shows
    all weights, and the column's is not 0. None if there is no such column, or if the run cannot be read once more.

    solve: a function of a run and a sample of it, which returns the recipe that makes every advantage there, or None.
    """
    for name in Search(SECONDS_PER_COLUMNS).among(not_read(run) if run._read_with else (), DOING):
        with attempt():
            reread = with_one_more(run, name)
            recipe = solve(reread, batches_from_all_over(reread.sample, JUDGED_RESPONSES))
            if recipe is not None and recipe.weights[-1] and not recipe.unknown:
                return name, recipe
    return None


def added(run: Run, solve: Solve) -> Added | None:
    """Return the first column of the log of which a multiple was added to the advantages that a method makes.

    Only columns that were not read as rewards are tried. The result holds the column, the multiple, and the recipe of
    the advantages without it; None where there is no such column.

    solve: a function of a run and a sample of it, which returns the recipe that makes every advantage there, or None.
    """
    for name in Search(SECONDS_PER_COLUMNS).among(not_read(run) if run._read_with else (), DOING):
        with attempt():
            sample = batches_from_all_over(with_one_more(run, name).sample, JUDGED_RESPONSES)
            column = added_column(sample, run.rewards, name, partial(solve, run))
            if column is not None:
                return column
    return None


def total_alone(run: Run, recipe: Recipe, sample: list[pl.DataFrame]) -> Run | None:
    """Return the run read with a total as its only reward, if the advantages are those of this total alone; else None.

    The total is among the rewards, as no weighted sum of the others makes it. Only its name says that it is a total, so
    the others also have to explain much of it. They are then its parts, and no rewards of weight 0.

    recipe: the recipe of the advantages.
    sample: tables of the run.
    """
    counted = [name for name, w in zip(run.rewards, recipe.known, strict=True) if w != 0]
    parts = [name for name in run.rewards if name not in counted]
    named = run.rewards_named or run._read_with is None or run.total is not None
    if named or len(counted) != 1 or len(parts) < 2 or total_rank(counted[0]) is None:
        return None
    table = pl.concat(sample).head(JUDGED_RESPONSES).select(reward_columns(run.rewards))
    columns = dict(zip(table.columns, run.rewards, strict=True))
    score = weights_of(table.rename(columns), parts, (), counted[0])
    if score is None or score.explained < NEARLY:
        return None
    with attempt():
        return of_total_alone(run, counted[0], parts, score.explained)
    return None


def share_adding_up(sample: list[pl.DataFrame]) -> float:
    """Return the share of groups in a sample whose logged advantages add up to 0, but for round-off.

    Only groups with an advantage other than 0 count. The result is 0 if too few groups have one. A missing advantage
    counts as 0.
    """
    table = pl.concat(sample)
    group = np.unique(table["group"].to_numpy(), return_inverse=True)[1]
    return balanced_share(group, table["advantage"].fill_nan(0).fill_null(0).to_numpy())


def not_read(run: Run) -> tuple[str, ...]:
    """Return the columns that may be rewards though they were not read as rewards.

    They are the first `LEFT_OUT` columns that were left out although they vary, and are no copies of others, and the
    column of the lengths, if there is one.
    """
    same = {issue.details["left"] for issue in run.issues if issue.id == "same-numbers"}
    names = [name for name in run.left_out if name not in same and _reasons(run).get(name) != ONE_VALUE]
    return (*names[:LEFT_OUT], *([run.length_column] if run.length_column else []))


def _reasons(run: Run) -> dict[str, str]:
    """Return the columns that were not read as rewards because of their numbers, each with the reason."""
    left_out = [issue.details["columns"] for issue in run.issues if issue.id == "no-reward"]
    return left_out[0] if left_out else {}


def clocks(run: Run) -> list[str]:
    """Return the columns that may number the steps of a log; [] where the log has steps already.

    They are the columns that were not read as rewards because they rise along the log, or because they are the same for
    all responses of a group.
    """
    if run.has_steps:
        return []
    return [name for name, why in _reasons(run).items() if why in (CLOCK, LABEL)]


def in_steps_of(run: Run, name: str) -> Run:
    """Return the run read with the steps that the column `name` numbers, and with an issue that says so."""
    reread = _read_with(run, columns={"step": name})
    return replace(reread, issues=(*reread.issues, LogIssue("steps-found", {"column": name})))


def masked(run: Run, mask: Mask, clues: Clues) -> Run:
    """Return the run as it is read with a mask, and with an issue that tells of the mask.

    A mask leaves out some rows of the log: the whole rows, or only their advantages. A reward is left out too if it
    only repeats the mask, or if it alone tells rows that count nowhere. It repeats the mask if it is 1 where the mask
    leaves out rows and 0 elsewhere, or the other way round, in all rows looked at.

    mask: the mask, which has to name a column.
    clues: the rows looked at, with the columns of the log that hold few values.
    """
    column = clues.flags[f"{mask.column}"]
    masking = column == mask.value
    flags = {name for name, flag in clues.flags.items() if masking.any() and _same_or_opposite(flag, masking)}
    # What tells the rows of the training is no reward of theirs, unless it has other values beside the one that does.
    flags |= set() if mask.counts or flag_values(column) == [mask.value] else {f"{mask.column}"}
    rewards = tuple(name for name in run.rewards if name not in flags)
    reread = _read_with(run, mask=mask, rewards=rewards, **_grouped_as(run, mask, clues))
    return replace(reread, issues=(*reread.issues, LogIssue("masked", _mask_details(run, reread, mask, clues))))


def _grouped_as(run: Run, mask: Mask, clues: Clues) -> dict[str, object]:
    """Return the options that keep the groups of a run where a mask hides what shows them; {} if a column tells groups.

    Blocks of rows keep their size while all rows are read. Where rows are left out, the prompt tells the groups, or
    else a column that cuts the rows looked at into the same groups.
    """
    if not run._blocks:
        return {}
    if mask.counts:
        return {"group_size": run._blocks[0][1]} if len(run._blocks) == 1 else {}
    if run.prompt_column or len(run._blocks) > 1:
        return {"group": run.prompt_column} if run.prompt_column else {}
    name = column_like_blocks(clues, run._blocks[0][1])
    return {"group": name} if name else {}


def _same_or_opposite(flag: np.ndarray, masking: np.ndarray) -> bool:
    """Return whether a column of 0 and 1 is equal to a mask in every row, or differs from it in every row.

    flag: (rows,) the column, which may hold other numbers or texts too.
    masking: (rows,) whether the mask leaves each row out.
    """
    ones = np.array([value == 1 for value in flag.tolist()])
    return bool(np.isin(flag_values(flag), [0, 1]).all() and ((ones == masking).all() or (ones == ~masking).all()))


def without_masked_rows(run: Run, mask: Mask, clues: Clues) -> Run:
    """Return the run without its rows of advantage 0, or without those that have none, with an issue that says so.

    mask: the mask, which names no column.
    clues: some rows of the log.
    """
    reread = _read_with(run, mask=mask, **_grouped_as(run, mask, clues))
    return replace(reread, issues=(*reread.issues, LogIssue("masked", _mask_details(run, reread, mask, clues))))


def said_of_zeros(run: Run, clues: Clues, sample: list[pl.DataFrame], recipe: Recipe) -> Run:
    """Return the run with more details in its issue "masked": what the rows that a mask leaves out have in common.

    Only an issue whose "column" is None gets them, and only where rows are left out because their advantage is 0. A run
    without this issue is unchanged. The details are:

    - "column" and "value": most of these rows have this value in this column, and no other row has it.
    - Otherwise "below": True if under the recipe all of these rows get an advantage of at most 0, and no logged
      advantage is below 0. Only rows that count in the statistics of their groups are examined for this.

    clues: some rows of the log, with the columns of few values.
    sample: tables of the run.
    recipe: the recipe of the advantages in the sample.
    """
    mask_issue = next((issue for issue in run.issues if issue.id == "masked" and issue.details["column"] is None), None)
    if mask_issue is None or mask_issue.details["missing"]:
        return run
    zero, more = clues.advantage == 0, dict[str, object]()
    for name, flag in clues.flags.items():
        for value in flag_values(flag):
            if zero[flag == value].all() and (flag[zero] == value).mean() >= _MOSTLY:
                more = {"column": name, "value": value}
    if not more and mask_issue.details["counts"]:
        logs = [tensors_of(table, run.rewards) for table in sample]
        left = [(compare(log, recipe).computed, log.advantages.isnan()) for log in logs]
        above = bool((clues.advantage >= 0).all()) and all(bool((made[out] <= TOLERANCE).all()) for made, out in left)
        more = {"below": True} if above else {}
    told = replace(mask_issue, details={**mask_issue.details, **more})
    return replace(run, issues=tuple(told if issue is mask_issue else issue for issue in run.issues))


def _mask_details(run: Run, reread: Run, mask: Mask, clues: Clues) -> dict[str, object]:
    """Return the details of the issue about a mask, in a dict.

    "column" and "value" say which rows the mask leaves out: the rows with this value in this column. If "column" is
    None, the column of the advantages is meant. "rows" is the number of these rows, and "of" the number of all rows.
    "counts" says whether the rows that are left out count in the statistics of their groups all the same, "missing"
    whether they have no advantage at all, and "untrained" whether a column alone tells them and they count nowhere.

    run: the run as it was read at first.
    reread: the run read with the mask.
    clues: some rows of the log.
    """
    rows = int(run._source.sizes["rows"].sum())
    left = rows - int(reread._source.sizes["rows"].sum())
    if mask.counts:
        left = sum(int(table["advantage"].is_nan().sum()) for table in reread.tables())
    untrained = mask.column is not None and not mask.counts
    return {
        "column": mask.column,
        "value": mask.value,
        "rows": left,
        "of": rows,
        "counts": mask.counts,
        "missing": mask == clues.unjudged,
        "untrained": untrained,
    }


def of_total_alone(run: Run, total: str, parts: Sequence[str], explained: float) -> Run:
    """Return the run read with its logged total as the only reward, and with an issue that names the parts of the
    total.

    total: the column of the total.
    explained: the share of its variance that a weighted sum of them explains.
    """
    reread = _read_with(run, rewards=(total,))
    kept = tuple(issue for issue in reread.issues if issue.id not in ("no-components", "total-of-parts"))
    details = {"total": total, "parts": [*parts], "explained": explained}
    return replace(reread, total_only=False, issues=(*kept, LogIssue("total-of-parts", details)))


def with_one_more(run: Run, name: str) -> Run:
    """Return the run read with one more reward, and with an issue that names it.

    name: the column of the reward, which was left out before.
    """
    reread = _read_with(run, rewards=(*run.rewards, name))
    return replace(reread, issues=(*reread.issues, LogIssue("reward-taken-in", {"reward": name})))


def _read_with(run: Run, **changes: object) -> Run:
    """Return the run as it is read with other options.

    changes: the options that change, named as the members of `ReadOptions`.
    """
    assert run._read_with is not None, "a run that was read can be read again"
    return run._read_with(**changes)
