"""The groups of a log: rows that share a value in a column, rows a fixed number of places apart, or blocks of rows.

Where nobody gives the size of the blocks, `sizes.py` infers it.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from shlex import quote
from typing import NoReturn

import numpy as np
import polars as pl

from gdpo_audit.logs.forms.options import ReadOptions
from gdpo_audit.logs.forms.window import select_steps, window_of
from gdpo_audit.logs.groups.restarts import rows_twice
from gdpo_audit.logs.groups.run import SOLVED_RESPONSES, Run, batches_from_all_over, size_at
from gdpo_audit.logs.numbers.clues import in_words
from gdpo_audit.logs.numbers.sizes import WHOLE, drawn_at_random, infer, stretches, stretches_of_size
from gdpo_audit.logs.refusals import Lacking, refuse, refuse_unless
from gdpo_audit.records import Blocks, Grouping, LogIssue
from gdpo_core import config_lines

BATCHES = 200  # the number of batches whose advantages are examined
_MANY = 0.5  # the share of groups of an unusual size from which on groups simply differ in size, and have lost no rows
# issues that only one way to group has
OF_BLOCKS = ("ragged-batches", "prompts-merged", "group-size-changes", "rows-twice")


class NoGroups(Lacking):
    """Raised where nothing in a log shows which rows are a group."""


def regrouped(run: Run, grouping: Grouping, before: str, ids: bool = False) -> Run:
    """Return the run read again in other groups, with an issue that says so.

    A column that now tells groups apart is not a reward any more.
    run: the run to read again.
    grouping: how the groups are told apart from now on.
    before: in words, how the groups were told apart until now; empty if they were not.
    ids: whether only the values of a column, which repeat inside a step, show these groups.
    """
    assert run._read_with is not None, "a run that was read can be read again"
    rewards = tuple(name for name in run.rewards if name not in grouping.columns)
    fewer = {"rewards": rewards} if rewards != run.rewards else {}
    reread = run._read_with(**grouping.options, **fewer)
    details = {"by": in_words(grouping), "not_by": before, "once": grouping.once, "ids": ids}
    details["judged"] = run.has_advantage and not ids
    details |= {"follows": True} if grouping.follows else {}
    return replace(reread, issues=(*reread.issues, LogIssue("regrouped", details)))


def with_groups(run: Run, options: ReadOptions) -> Run:
    """Return the run with its rows in groups.

    If the options hold `places`, the groups are rows that stand so many places apart. Otherwise a column identifies the
    groups, or, if none does, they are blocks of rows. If the options hold the size of the blocks, it counts. Without
    it, the size in a configuration file beside the log counts, provided that it divides every batch. If there is no
    size that counts, it is inferred.
    The size of blocks, and where it changes, is inferred from all steps, also where the options choose only some. Cut
    and merged groups are looked for in the chosen steps alone.
    run: the run, with clues to its groups (see `with_clues`).
    options: the caller's options.

    Raises NoGroups if nothing shows the groups. Raises InputError if the size that the options hold does not fit, or if
    the log has none of the chosen steps.
    """
    rows = run._source
    window = window_of(rows.sizes["step"], options.steps, options.last, options.not_steps)
    run = replace(run, window=window)
    if options.places:
        return _by_places(run, select_steps(rows.sizes, window)["rows"].to_list(), options.places)
    if rows.keyed_by:
        return _by_key(run, select_steps(rows.sizes, window), options.group_size)
    run = _with_sample(run)
    if options.group_size:
        return regroup(run, options.group_size)
    size = rows.group_size
    sizes, ids = rows.sizes["rows"].to_list(), _prompt_ids(rows.prompts)
    changes = () if size else tuple(stretches(sizes, rows.advantages, ids))
    if changes:
        return _in_blocks(_with_changes(run, rows.sizes, changes), changes)
    if size is not None and (select_steps(rows.sizes, window)["rows"] % size == 0).all():
        return _in_blocks(run, ((0, size),))
    inferred = infer(sizes, rows.advantages, ids)
    if inferred is None:
        refuse_groups(run)
    return replace(_in_blocks(run, ((0, inferred.size),)), other_sizes=inferred.smaller)


def _by_places(run: Run, sizes: Sequence[int], places: int) -> Run:
    """Return the run with groups in which each row stands `places` rows after the one before, in the same batch.

    sizes: the number of rows of each batch.
    places: how many rows apart the rows of a group stand.
    """
    usual = Counter(sizes).most_common(1)[0][0] // places
    whole = all(size == usual * places for size in sizes)
    words = in_words(Grouping(places=places))
    return replace(run, _places=places, grouped_by=words, group_size=usual if whole else None)


def regroup(run: Run, size: int) -> Run:
    """Return the run with blocks of `size` rows as its groups.

    Issues that were about its old groups, with an id in `OF_BLOCKS`, are dropped.

    Raises InputError if a batch, in the steps that are asked for, has a number of rows that is no multiple of `size`.
    """
    sizes, _ = _in_window(run)
    _expect_none(sizes.filter(pl.col("rows") % size != 0), run, f"rows that groups of {size} divide")
    before = tuple(issue for issue in run.issues if issue.id not in OF_BLOCKS)
    return replace(_in_blocks(replace(run, issues=before), ((0, size),)), other_sizes=(), grouped_by_column=False)


def with_clues(run: Run) -> Run:
    """Return the run with clues to its groups, which are gathered in one pass over the log.

    The first clue is a sample of the rows. If a column identifies the groups, the second is how many rows each group
    has. If no column does, the second is how many rows each batch has, and a third is the advantages of the first
    batches, if they are logged.

    Raises InputError for a log without rows.
    """
    rows = run._source
    by = ["batch", "_key"] if rows.keyed_by else ["batch"]
    sizes: list[pl.DataFrame] = []
    advantages: list[np.ndarray] = []

    def seen() -> Iterator[pl.DataFrame]:
        """Yield the tables of the log, and note in `sizes` of the outer function how many rows each of its groups has.

        If no column identifies the groups, note the rows of each batch instead. Then also note, in `advantages`, the
        advantages of the first batches, if they are logged.
        """
        for table in rows.read():
            counts = table.group_by(by, maintain_order=True).agg(
                pl.len().alias("rows"), pl.col("step").first(), pl.col("_file").first()
            )
            sizes.append(counts)
            if run.has_advantage and not rows.keyed_by and len(advantages) < BATCHES:
                advantages.extend(np.split(table["advantage"].to_numpy(), counts["rows"].cum_sum().to_numpy()[:-1]))
            yield table

    sample = batches_from_all_over(seen(), SOLVED_RESPONSES)
    refuse_unless(bool(sizes), run.path, "at least one response", "0 rows")
    some = tuple(advantages[:BATCHES])
    return replace(run, _rows=replace(rows, sizes=pl.concat(sizes), advantages=some, sample=tuple(sample)))


def _in_window(run: Run) -> tuple[pl.DataFrame, pl.DataFrame | None]:
    """Return two tables of the run's `Rows`, `batches` and `prompts`, both only for the steps that are asked for.

    The table of prompts is None if the log does not show which prompt a row belongs to.
    """
    rows = run._source
    prompts = None if rows.prompts is None else select_steps(rows.prompts, run.window)
    return select_steps(rows.batches, run.window), prompts


def _with_changes(run: Run, sizes: pl.DataFrame, changes: Blocks) -> Run:
    """Return the run with an issue that says from which steps on its groups have another size.

    sizes: a table with a row for each batch or each group of the run, in order, with the columns `batch` and `step`.
    changes: the stretches of batches with one group size, each as its first batch and that size.
    """
    steps = [sizes.filter(pl.col("batch") >= batch)["step"][0] for batch, _ in changes]
    details = {"sizes": [size for _, size in changes], "from_steps": steps}
    return replace(run, issues=(*run.issues, LogIssue("group-size-changes", details)))


def _expect_none(ragged: pl.DataFrame, run: Run, wanted: str) -> None:
    """Raise InputError for the first row of `ragged`; do nothing if `ragged` has no rows.

    ragged: a row for each batch, or group, whose number of responses is no multiple of the group size. Its columns are
        `rows` (that number), `step`, and `_file` (the number of the file).
    run: the run, whose files the error names.
    wanted: in words, what was expected.
    """
    if len(ragged):
        file, rows, step = run.files[ragged["_file"][0]], ragged["rows"][0], ragged["step"][0]
        refuse(file, wanted, f"{rows} in step {step}")


def _in_blocks(run: Run, blocks: Blocks) -> Run:
    """Return the run with blocks of rows, from the start of each batch on, as groups.

    Batches that are cut, and prompts that several groups share, become issues.
    run: the run.
    blocks: the first batch and the group size of each stretch of batches.
    """
    sizes, prompts = _in_window(run)
    size = size_at(blocks)
    ragged = sizes.filter(pl.col("rows") % size != 0).with_columns(size.alias("size"))
    issues = list(run.issues)
    if len(ragged):
        details = {"group_size": ragged["size"][0], "batches": len(ragged), "of": len(sizes)}
        issues.append(LogIssue("ragged-batches", details | {"step": ragged["step"][0], "rows": ragged["rows"][0]}))
    merged = None if prompts is None else _merged_prompts(prompts, size)
    if merged:
        issues.append(LogIssue("prompts-merged", merged))
    usual = min(sizes["rows"].mode(), default=1)
    larger = sizes.filter((pl.col("rows") > usual) & (pl.col("rows") % usual == 0))
    # Where a batch is logged once per epoch over it, all batches are as large, and every row stands twice in each.
    twice = larger if len(larger) else sizes.filter(pl.col("rows") % (2 * size) == 0)
    issues += rows_twice(run._source.sample, twice, twice.select((pl.col("rows") // size).sum()).item())
    return replace(
        run,
        group_size=None if len(ragged) or len(blocks) > 1 else blocks[0][1],
        grouped_by=f"blocks of {', then '.join(f'{size}' for _, size in blocks)} rows",
        issues=tuple(issues),
        _blocks=blocks,
    )


def _by_key(run: Run, sizes: pl.DataFrame, group_size: int | None) -> Run:
    """Return the run in the groups that a column identifies, with an issue for each of these cases:

    - the groups have another size from some step on;
    - every group has a single row, though there are more groups than batches;
    - the sizes of groups are those of rows drawn at random, in a log without advantages;
    - groups hold a multiple of the usual size, so that they are several groups;
    - groups have lost rows, in a log in which all should have one size and few do not.

    run: the run.
    sizes: a row per group with its number of rows, batch, step and file.
    group_size: the usual size, if the caller gave it.

    Raises InputError if the rows of a group are no multiple of the size that the caller gave.
    """
    rows = run._source
    usual = group_size or min(sizes["rows"].mode())
    sizes, changes = _with_usual(sizes, usual, changes=group_size is None)
    run = _with_changes(run, sizes, changes) if changes else run
    cut = sizes.filter(pl.col("rows") % pl.col("usual") != 0)
    if group_size:
        _expect_none(cut, run, f"groups of {usual} rows by {rows.keyed_by}")
    issues = list(run.issues)
    if (sizes["rows"] == 1).all() and len(sizes) > sizes["batch"].n_unique():
        issues.append(LogIssue("groups-sampled", _steps(sizes) | {"rows": len(sizes)}))
    elif not group_size and not run.has_advantage and drawn_at_random(sizes["rows"].to_numpy()):
        drawn = {"groups": len(sizes), "alone": int((sizes["rows"] == 1).sum()), "largest": sizes["rows"].max()}
        issues.append(LogIssue("groups-sampled", _steps(sizes) | {"rows": sizes["rows"].sum()} | drawn))
    several = (pl.col("rows") > pl.col("usual")) & (pl.col("rows") % pl.col("usual") == 0)
    merged = sizes.filter(several & (pl.col("usual") > 1))
    if len(merged):
        details = _steps(merged) | {
            "groups": len(merged),
            "group_size": merged["usual"][0],
            "rows": merged["rows"][0],
            "looked_at_groups": len(sizes),
        }
        issues.append(LogIssue("prompts-merged", details))
        issues += rows_twice(rows.sample, merged, len(merged))
    if rows.equal_groups and 0 < len(cut) < _MANY * len(sizes):
        details = {"group_size": cut["usual"][0], "batches": cut["batch"].n_unique(), "of": sizes["batch"].n_unique()}
        details |= {"step": cut["step"][0], "rows": cut["rows"][0], "groups": len(cut)}
        issues.append(LogIssue("ragged-batches", details))
    return replace(
        run,
        group_size=sizes["rows"][0] if sizes["rows"].n_unique() == 1 else None,
        grouped_by=f"{rows.keyed_by}",
        grouped_by_column=True,
        issues=tuple(issues),
        other_sizes=_blocks_of(sizes) if rows.keyed_by_text and not group_size else (),
    )


def _steps(rows: pl.DataFrame) -> dict[str, int]:
    """Return the step of the first of these rows as `step`, and how many different steps they have as `steps`, for an
    issue.

    rows: at least one row, in the order of the log, so that `step` need not be the smallest step.
    """
    return {"step": rows["step"][0], "steps": rows["step"].n_unique()}


def _blocks_of(sizes: pl.DataFrame) -> tuple[int, ...]:
    """Return, in a tuple, the largest number that divides the sizes of all groups, as a group size to try.

    A larger group may be several groups of this size with one prompt, as where a batch draws a prompt twice. The tuple
    is empty if no group is larger, or if the number is 1.
    sizes: a table whose column `rows` has the number of rows of each group.
    """
    rows = sizes["rows"].to_numpy()
    size = int(np.gcd.reduce(rows))
    return (size,) if 1 < size < rows.max() else ()


def _with_usual(sizes: pl.DataFrame, usual: int, changes: bool) -> tuple[pl.DataFrame, Blocks]:
    """Return two things: the groups with a column `usual`, and the changes of the usual group size.

    The column holds the usual group size in the stretch of the log where the group stands. The changes are the first
    batch and the size of each stretch of at least `LEAST` batches with one size. They are () if there is a single
    stretch.
    sizes: the rows and the batch of each group.
    usual: the size if it never changes.
    changes: whether to look for changes.
    """
    changing: Blocks = ()
    if changes:
        mode = pl.col("rows").mode().min()
        alike = (pl.col("rows") == mode).mean() >= WHOLE
        by_batch = sizes.group_by("batch", maintain_order=True).agg(pl.when(alike).then(mode).alias("size"))
        runs = [(by_batch["batch"][first], size) for first, size in stretches_of_size(by_batch["size"].to_list())]
        changing = tuple(runs) if len(runs) > 1 else ()
    blocks = changing or ((0, usual),)
    return sizes.with_columns(size_at(blocks).alias("usual")), changing


# --- prompts ---------------------------------------------------------------------------------------------------------


def _prompt_ids(prompts: pl.DataFrame | None) -> list[np.ndarray]:
    """Return an array per batch with the prompt of each row; [] if the prompts are not known.

    The last of several batches is left out, because the sample of prompts may have cut it off.
    prompts: the batch and `_key`, the prompt, of some rows; None if the prompts are not known.
    """
    if prompts is None or not len(prompts):
        return []
    by_batch = [rows["_key"].to_numpy() for rows in prompts.partition_by("batch", maintain_order=True)]
    return by_batch[:-1] if len(by_batch) > 1 else by_batch


def _with_sample(run: Run) -> Run:
    """Return the run, with an issue if no two rows of any batch share a prompt.

    The log is then probably only a sample. Batches of one row do not count. If two rows share a prompt, or if the
    prompts are not known, the run is unchanged.
    """
    _, prompts = _in_window(run)
    whole = None if prompts is None else prompts.filter(pl.len().over("batch") > 1)
    if whole is None or not len(whole) or whole.select(pl.struct("batch", "_key").is_duplicated().any()).item():
        return run
    details = _steps(whole) | {"rows": len(whole)}
    return replace(run, issues=(*run.issues, LogIssue("groups-sampled", details)))


def refuse_groups(run: Run) -> NoReturn:
    """Raise NoGroups for a run in which nothing shows the groups.

    The error names the trainer's option, if there is one, with which it would log whole groups.
    """
    option = config_lines.log_whole_groups(run.framework)
    whole = f"log all rows, with {option.splitlines()[0]}, or " if option else ""
    prompt = quote(run._source.prompt_column or "NAME")
    got = (
        f"none, as of rows that are a sample or shuffled; {whole}give group_size, the responses per prompt, as "
        f"--group-size N, or the column that identifies the prompt, as --group {prompt} (rewards: "
        f"{', '.join(run.rewards)})"
    )
    refuse(run.path, "groups that can be told from prompts or advantages", got, NoGroups)


def _merged_prompts(prompts: pl.DataFrame, size: pl.Expr) -> dict[str, object] | None:
    """Return what an issue needs to say that groups of one batch share a prompt, by name; None if no groups do.

    A group is a block of rows, and its prompt is the prompt of its first row.
    prompts: the batch, step and `_key` (the prompt) of some rows.
    size: an expression that gives the group size at each row.
    """
    block = pl.int_range(pl.len()).over("batch") // size
    groups = prompts.with_columns(block.alias("block")).unique(["batch", "block"], keep="first", maintain_order=True)
    shared = groups.filter(pl.len().over("batch", "_key") > 1)
    if not len(shared):
        return None
    return {
        **_steps(shared),
        "groups": len(shared),
        "prompts": len(shared.unique(["batch", "_key"])),
        "looked_at_groups": len(groups),
    }
