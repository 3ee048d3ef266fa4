"""What an audit needs to know of a run, a row a batch: sums that merge, so that no log has to fit into memory."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import polars as pl
import torch

from gdpo_core.collapse import SAME
from gdpo_core.conventions import CONVENTIONS
from gdpo_core.errors import expect, expect_index
from gdpo_core.reproduce.recipe import Recipe, holds_lengths, read_log, starts_of
from gdpo_core.summary.logged import logged_sums
from gdpo_core.summary.outcomes import method_sums
from gdpo_core.summary.sums import Grouped, group_sums, length_sums, reward_sums

# So many responses, and what is computed from them, fit into the cache of a processor.
_AT_ONCE = 1 << 16


@dataclass(frozen=True)
class Plan:
    """What to look at: the same for all parts of a run."""

    rewards: tuple[str, ...]
    weights: tuple[float, ...]
    convention: str  # a key of CONVENTIONS
    primary: int | None
    recipe: Recipe | None  # how the logged advantages were made

    @property
    def methods(self) -> tuple[str, ...]:
        """What the advantages are computed by: the three methods, and the one that made the log if it is another."""
        named = ("grpo", "grpo_no_std", "gdpo")
        return named if self.recipe is None or self.recipe.method in named else (*named, self.recipe.method)


@dataclass(frozen=True)
class Summary:
    """Sums over the responses and groups of each batch, a row a batch, in the order of the steps.

    `batches` has, with k the index of a reward and m a method:

    batch, step, step_last; responses, groups, smallest_group, largest_group; fingerprint: a hash of rewards and logged
        advantages in their order, the same for batches that hold the same rows.
    there_k (responses that have it), total_k, squares_k, low_k, high_k (null: none has it); spread_k: squared distances
        from the mean of the group, spread_count_k: responses less one, over the groups; there_groups_k: groups that
        hold it at least once; dead_groups_k: groups in which it is constant or missing, dead_mixed_k: those among the
        mixed ones; faint_groups_k: nearly constant, see FAINT.
    cross_i_j, i < j: products of these distances, where both are there; cross_squares_i_j: squares of those of i there,
        so that cross_i_j / √(cross_squares_i_j cross_squares_j_i) is the correlation inside groups.
    mixed_groups (hold two different reward vectors), different_pairs (pairs in a group whose vectors differ), vectors
        (distinct ones, over the mixed groups), primary_pairs (pairs in a group with different primary reward).
    m_silent_groups (every advantage 0), m_tie_groups, m_tied_pairs, m_levels (distinct advantages, over the mixed
        groups), m_inverted and m_tied_primary (of the primary pairs: the lower one gets more; both the same), m_squares
        (of the advantages), m_part_k (of the update, as in `gdpo_core.update_share` before they are brought to 1);
        m_mixed_groups, m_different_pairs, m_vectors, m_primary_pairs: those whose advantages are no NaN, which is what
        a framework that does not skip missing rewards makes of them.
    live_groups, live_responses (GDPO has something to say before its step over the batch), gdpo_sum_squares (of what it
        has there); zero_sum_std_groups (the weighted sum is constant), filtered_groups (it is, and yet GDPO is live).
    length_there, length_total, length_squares, length_spread, length_cross_k: the same of the lengths in tokens, 0
        where the log has none; silent_responses, silent_verl: responses without signal, and Σ |A| that verl gives them
        because it weighs its last step by tokens.
    logged, logged_missing, logged_zero, logged_total, logged_squares: of the advantages in the log; rows_off,
        groups_off, max_error: those that the recipe does not reproduce; groups_off_same_direction: but for a factor;
        hidden_groups: see `hidden_inputs`. All 0, and max_error null, where there is none or no recipe.
    """

    plan: Plan
    batches: pl.DataFrame


def summarise(table: pl.DataFrame, plan: Plan) -> Summary:
    """The summary of one table of a run: whole batches, the rows of a batch and of a group together.

    The advantages are those of the plan's weights and convention; where a batch lacks lengths that the convention
    weighs by, its last step runs over responses. Raises InputError.

    >>> table = pl.DataFrame({"batch": 0, "step": 1, "group": 0, "a": [1.0, 0.0, 1.0], "b": [0.0, 1.0, 1.0]})
    >>> found = totals(summarise(table, Plan(("a", "b"), (1.0, 1.0), "trl", None, None)))
    >>> found["grpo_tied_pairs"], found["different_pairs"], found["cross_0_1"]
    (1, 3, -0.33333333333333337)
    """
    needed = ("batch", "step", "group", *plan.rewards)
    absent = [name for name in needed if name not in table.columns]
    expect(not absent, "table", f"the columns {', '.join(needed)}", f"none named {', '.join(absent)}")
    expect(len(table) > 0, "table", "at least one response", "none")
    expect(plan.convention in CONVENTIONS, "convention", f"one of {', '.join(CONVENTIONS)}", repr(plan.convention))
    if plan.primary is not None:
        expect_index(plan.primary, len(plan.rewards), "primary", "rewards")
    return merge([Summary(plan, _rows(part, plan)) for part in _parts(table, plan)])


def merge(summaries: Sequence[Summary]) -> Summary:
    """The summary of all parts of a run together, in whatever order they come.

    Rows of one batch are added up. If its groups were in several parts, all that comes from a step over the batch is
    that of the parts: squares and parts of GDPO and of GRPO by the batch's std, silent_verl, a NaN that spreads over a
    batch, and what a recipe makes of the logged advantages; nor is the fingerprint that of the whole. All else is a sum
    over groups and stays what it is. Raises InputError.
    """
    expect(len(summaries) > 0, "summaries", "at least one", "none")
    plan = summaries[0].plan
    expect(all(s.plan == plan for s in summaries), "summaries", "parts made by one plan", "several plans")
    rows = pl.concat([s.batches for s in summaries])
    if rows["batch"].n_unique() < len(rows):
        rows = rows.group_by("batch").agg(_together(rows.columns[1:]))
    return Summary(plan, rows.sort("step", "batch"))


def totals(summary: Summary) -> dict[str, int | float | None]:
    """Every column of a summary over all batches: sums, and the least or the largest where that is meant."""
    return summary.batches.select(_together(summary.batches.columns[1:])).row(0, named=True)


def binned(summary: Summary, at_most: int = 200) -> Summary:
    """The same run in at most so many rows: batches that follow one another put together, named after the first."""
    expect(type(at_most) is int and at_most > 0, "at_most", "a positive whole number", repr(at_most))
    rows = summary.batches
    if len(rows) <= at_most:
        return summary
    number = pl.int_range(pl.len()) * at_most // pl.len()
    rows = rows.group_by(number.alias("_bin"), maintain_order=True).agg(
        pl.col("batch").first(), *_together(rows.columns[1:])
    )
    return Summary(summary.plan, rows.drop("_bin"))


_LEAST, _MOST = ("step", "smallest_group", "low_"), ("step_last", "largest_group", "high_", "max_error")


def _together(columns: Sequence[str]) -> list[pl.Expr]:
    """How each column of several rows becomes one."""

    def one(name: str) -> pl.Expr:
        column = pl.col(name)
        if name == "fingerprint":
            return column.bitwise_xor()
        if name in _MOST or name.startswith("high_"):
            return column.max()
        if name in _LEAST or name.startswith("low_"):
            return column.min()
        return column.sum()

    return [one(name) for name in columns]


def _parts(table: pl.DataFrame, plan: Plan) -> Iterator[pl.DataFrame]:
    """The table in pieces of whole batches that are alike.

    Alike, so that one odd batch changes nothing for the others: whether lengths are known, whether groups have one
    size, whether one has a single response, whether the rewards are float32 numbers.
    """
    batch, group = (table[name].to_numpy() for name in ("batch", "group"))
    starts, first = starts_of(batch), starts_of(group)
    for name, ids in (("batch", batch[starts]), ("group", group[first])):
        expect(len(np.unique(ids)) == len(ids), name, "the rows of each one after the other", "some apart")
    sizes, of_batch = np.diff(first, append=len(table)), np.searchsorted(first, starts)
    smallest, largest = np.minimum.reduceat(sizes, of_batch), np.maximum.reduceat(sizes, of_batch)
    kind = 4 * np.where(smallest == largest, largest, np.where(smallest > 1, 0, -1))
    kind += 2 * np.logical_and.reduceat(_lengths(table, plan.rewards) >= 1, starts)
    kind += np.logical_and.reduceat(_in_float32(table, plan.rewards), starts)
    rows = np.diff(starts, append=len(table))
    for alike in np.unique(kind):
        chosen = kind == alike
        part = table if chosen.all() else table.filter(pl.Series(chosen.repeat(rows)))
        begin = rows[chosen].cumsum() - rows[chosen]
        cuts = begin[starts_of(begin // _AT_ONCE)]
        for low, high in zip(cuts, [*cuts[1:], len(part)], strict=True):
            yield part[low:high]


def _rows(part: pl.DataFrame, plan: Plan) -> pl.DataFrame:
    """A row a batch; part: as `_parts` cuts them."""
    log = read_log(part, plan.rewards)
    lengths = torch.from_numpy(_lengths(part, plan.rewards).copy()).view(log.rewards.shape[:-1])
    known = bool((lengths >= 1).all())
    convention = CONVENTIONS[plan.convention]
    if convention.last_step == "tokens" and not known:
        convention = replace(convention, last_step="responses")
    of = Grouped(log.read(convention, plan.weights), log.batch, log.batches)
    same = SAME[torch.float32 if _in_float32(part, plan.rewards).all() else torch.float64]
    std, off = of.centred(of.batch.rewards)
    sums = (
        group_sums(of)
        | reward_sums(of, off, std)
        | length_sums(of, off, lengths)
        | method_sums(of, plan.methods, plan.primary, same, std == 0)
        | logged_sums(of, log, part, plan.rewards, plan.recipe)
    )
    batch, step = part["batch"].to_numpy(), part["step"].to_numpy()
    starts = starts_of(batch)
    position = np.arange(len(part)) - starts.repeat(np.diff(starts, append=len(part)))
    content = part.select("advantage", *plan.rewards) if "advantage" in part.columns else part.select(plan.rewards)
    mark = content.hash_rows().to_numpy() * (2 * position + 1).astype(np.uint64)  # odd: no place cancels a bit
    rows = {
        "batch": batch[starts],
        "step": np.minimum.reduceat(step, starts),
        "step_last": np.maximum.reduceat(step, starts),
        "fingerprint": np.bitwise_xor.reduceat(mark, starts),
    }
    rows |= {name: x.numpy() for name, x in sums.items()}
    # Of nothing there is no lowest and no largest: null.
    extremes, error = pl.col("^(low|high)_.*$"), pl.col("max_error")
    return pl.DataFrame(rows).with_columns(
        pl.when(extremes.is_finite()).then(extremes), pl.when(error >= 0).then(error)
    )


def _lengths(table: pl.DataFrame, rewards: Sequence[str]) -> np.ndarray:
    """(responses,) tokens, NaN where unknown."""
    if not holds_lengths(table, rewards):
        return np.full(len(table), np.nan)
    return table["length"].cast(pl.Float64).to_numpy()


def _in_float32(table: pl.DataFrame, rewards: Sequence[str]) -> np.ndarray:
    """(responses,) whether the rewards are float32 numbers, which have passed through a trainer with its round-off."""
    fits = np.full(len(table), True)
    for name in rewards:
        value = table[name].to_numpy()
        with np.errstate(over="ignore"):  # too large for a float32 is none
            fits &= (value == value.astype(np.float32)) | np.isnan(value)
    return fits
