"""The sums that an audit needs, one row per batch. They merge, so that no log has to fit into memory."""

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

# Responses per piece, so that a piece and what is computed from it fit into the cache of a processor.
_AT_ONCE = 1 << 16


@dataclass(frozen=True)
class Plan:
    """What a summary is computed with: the same for all parts of a run."""

    rewards: tuple[str, ...]
    weights: tuple[float, ...]
    convention: str  # a key of CONVENTIONS
    primary: int | None
    recipe: Recipe | None  # how the logged advantages were made

    @property
    def methods(self) -> tuple[str, ...]:
        """The methods to compute: the three of this library, and the one that made the log if it is a fourth."""
        named = ("grpo", "grpo_no_std", "gdpo")
        return named if self.recipe is None or self.recipe.method in named else (*named, self.recipe.method)


@dataclass(frozen=True)
class Summary:
    """Sums over the responses and groups of each batch, one row per batch, in the order of the steps.

    The columns of `batches`, with k the index of a reward and m a method:

    batch, step, step_last, responses, groups, smallest_group, largest_group. fingerprint: a hash of rewards and logged
        advantages in their order, equal for batches that hold the same rows.
    Rewards. there_k: responses that have the reward. total_k, squares_k: sums of its values and of their squares.
        low_k, high_k: its lowest and highest value, null if no response has it. spread_k: sum of the squared distances
        from the mean of the group. spread_count_k: responses that have it, minus one per group. there_groups_k: groups
        that hold it at least once. dead_groups_k: groups in which it is constant or missing. dead_mixed_k: of these,
        the mixed ones. faint_groups_k: groups in which it is nearly constant, see FAINT.
    Pairs of rewards, over responses that have both, with distances from the mean of the group. cross_i_j, i < j: sum of
        the products of the distances of i and j. cross_squares_i_j: sum of the squared distances of i. The correlation
        inside groups is cross_i_j / √(cross_squares_i_j cross_squares_j_i).
    Groups. mixed_groups: groups that hold two different reward vectors. different_pairs: pairs in a group whose vectors
        differ. vectors: distinct vectors, summed over the mixed groups. primary_pairs: pairs in a group with different
        primary reward.
    Methods. m_silent_groups: groups in which every advantage is 0. m_tie_groups: groups with ties. m_tied_pairs: pairs
        that differ and have the same advantage. m_levels: distinct advantages, summed over the mixed groups.
        m_inverted, m_tied_primary: primary pairs in which the lower response gets more, or both get the same.
        m_squares: sum of the squared advantages. m_part_k: the reward's part of the update, as in
        `gdpo_core.update_share` before the parts are scaled to sum to 1. m_mixed_groups, m_different_pairs, m_vectors,
        m_primary_pairs: as above, in groups without a NaN advantage; a framework that does not skip missing rewards
        makes such NaNs.
    GDPO before its step over the batch. live_groups, live_responses: groups with an advantage other than 0, and their
        responses. gdpo_sum_squares: sum of the squared advantages. zero_sum_std_groups: groups in which the weighted
        sum of the rewards is constant. filtered_groups: those that are live none the less.
    Lengths in tokens, 0 where the log has none. length_there, length_total, length_squares, length_spread,
        length_cross_k: as for rewards. silent_responses: responses in groups without signal. silent_verl: Σ |A| that
        verl gives them, because it weights its last step by tokens.
    Logged advantages, all 0 where none is logged. logged, logged_missing, logged_zero: how many there are, are missing,
        are 0. logged_total, logged_squares: sums. Against the recipe, 0 without one: rows_off, groups_off: not
        reproduced. max_error: the largest error, null where nothing is compared. groups_off_same_direction: not
        reproduced, but a positive multiple. hidden_groups: see `hidden_inputs`.
    """

    plan: Plan
    batches: pl.DataFrame


def summarise(table: pl.DataFrame, plan: Plan) -> Summary:
    """The summary of one table of a run. It holds whole batches; the rows of a batch, and of a group, are consecutive.

    The advantages are computed with the plan's weights and convention. Where a batch lacks the lengths that the
    convention weights by, GDPO's last step runs over responses. Raises InputError.

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
    """The summary of all parts of a run together, in any order.

    Rows of the same batch are added up. Sums over groups are then those of the whole batch. What comes from a step over
    the batch is not, if the groups of a batch were in several parts: squares and parts of GDPO and of GRPO with the
    batch's std, silent_verl, a NaN that spreads over a batch, the comparison with the recipe, and the fingerprint.
    Raises InputError.
    """
    expect(len(summaries) > 0, "summaries", "at least one", "none")
    plan = summaries[0].plan
    expect(all(s.plan == plan for s in summaries), "summaries", "parts made by one plan", "several plans")
    rows = pl.concat([s.batches for s in summaries])
    if rows["batch"].n_unique() < len(rows):
        rows = rows.group_by("batch").agg(_together(rows.columns[1:]))
    return Summary(plan, rows.sort("step", "batch"))


def totals(summary: Summary) -> dict[str, int | float | None]:
    """Every column of a summary over all batches: the sum, or the lowest or highest value where the name says so."""
    return summary.batches.select(_together(summary.batches.columns[1:])).row(0, named=True)


def binned(summary: Summary, at_most: int = 200) -> Summary:
    """The same run in at most `at_most` rows: consecutive batches are put together under the number of the first."""
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
    """One expression per column that merges its rows into one."""

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
    """The table in pieces of whole batches of one kind, so that an unusual batch does not change how others compute.

    The kind: whether lengths are known, whether all groups have one size, whether a group has a single response,
    whether the rewards are float32 numbers.
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
    """The columns of `Summary.batches`, one row per batch; part: one of `_parts`."""
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
    mark = content.hash_rows().to_numpy() * (2 * position + 1).astype(
        np.uint64
    )  # odd, so that no bit of a hash is lost
    rows = {
        "batch": batch[starts],
        "step": np.minimum.reduceat(step, starts),
        "step_last": np.maximum.reduceat(step, starts),
        "fingerprint": np.bitwise_xor.reduceat(mark, starts),
    }
    rows |= {name: x.numpy() for name, x in sums.items()}
    # The lowest and the highest value of nothing are null.
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
    """(responses,) whether the rewards are float32 numbers, as a trainer that computes in float32 logs them."""
    fits = np.full(len(table), True)
    for name in rewards:
        value = table[name].to_numpy()
        with np.errstate(over="ignore"):  # a number too large for float32 is not a float32 number
            fits &= (value == value.astype(np.float32)) | np.isnan(value)
    return fits
