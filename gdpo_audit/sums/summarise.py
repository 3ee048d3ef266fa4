"""The summary of a run: the sums over each of its batches, and the groups that show each kind of finding best."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple, TypeAlias

import numpy as np
import polars as pl
import torch
from torch import Tensor

from gdpo_audit.logs.names import reward_column, reward_columns
from gdpo_audit.recipe.recipe import starts_of, tensors_of
from gdpo_audit.sums.group_sums import sums_of_groups, token_lengths
from gdpo_audit.sums.grouped import Grouped
from gdpo_audit.sums.sums import Array, Basis, RewardSums, Sums, add_up, concat, each, select_batches
from gdpo_core.frameworks import ALL_CONVENTIONS
from gdpo_core.shared.errors import expect

DIGITS = 14  # of a reward that count: rewards that differ only in later ones, as 0.1 + 0.2 and 0.3 do, are equal
# The groups that are kept from a piece for each kind of finding: a report shows five, and may leave out some batches.
_HELD = 20
_AT_ONCE = 1 << 16  # responses per piece, so that a piece and what is computed from it fit into a processor's cache

Mapped: TypeAlias = Callable[..., Iterable]  # like `map`: applies a function to each item, in their order


class Summary(NamedTuple):
    """Hold the sums over each batch of a run, or of a part of it, and the groups that show a kind of finding best."""

    batches: Sums[Array]
    # The groups that show a finding best, and their rows. Columns of the groups: batch, group, and a score for each
    # finding, or for each finding and number of a reward; it is null where the group does not show it.
    groups: pl.DataFrame
    rows: pl.DataFrame
    # A row per group: batch, `_place` and `_prompt_key` of its first response, responses, and whether it is silent or
    # mixes prompts.
    visits: pl.DataFrame


def summarise_all(tables: Iterable[pl.DataFrame], basis: Basis, mapped: Mapped = map) -> Summary:
    """Return the summary of all tables of a run, with its batches in the order of the steps.

    basis: the rewards, weights, convention and methods to compute with.
    mapped: a function that applies another one to each part of the run and returns the results in order. The default,
        `map`, does so in this process; an engine does it elsewhere.
    """
    all_of_them = _joined(mapped(partial(summarise, basis=basis), pieces(tables)))
    return all_of_them._replace(batches=_by_step(all_of_them.batches))


def sums_of_all(tables: Iterable[pl.DataFrame], basis: Basis, mapped: Mapped = map) -> Sums[Array]:
    """Return the sums over each batch of all tables, as `summarise_all` does, which takes longer because it also looks
    for the groups that show a finding best.
    """
    return _by_step(concat([*mapped(partial(sums_of, basis=basis), pieces(tables))]))


def _by_step(batches: Sums[Array]) -> Sums[Array]:
    """Return the batches in the order of their steps, and batches of one step in the order of their numbers."""
    order = np.lexsort((batches.batch, batches.step))
    return batches if (order[1:] > order[:-1]).all() else select_batches(batches, order)


def _joined(summaries: Iterable[Summary]) -> Summary:
    """Return the summaries of several pieces of a run as one."""
    first, *more = summaries
    if not more:
        return first
    batches, *frames = zip(first, *more, strict=True)
    return Summary(concat(batches), *map(pl.concat, frames))


def pieces(tables: Iterable[pl.DataFrame]) -> Iterator[pl.DataFrame]:
    """Yield the tables cut into pieces of whole batches, of about `_AT_ONCE` responses each."""
    for table in tables:
        starts = starts_of(table["batch"].to_numpy())
        cuts = starts[starts_of(starts // _AT_ONCE)]
        for low, high in zip(cuts, [*cuts[1:], len(table)], strict=True):
            yield table[low:high]


def summarise(table: pl.DataFrame, basis: Basis) -> Summary:
    """Return the summary of one table of whole batches, in which the rows of a batch, and those of a group, stand
    together.

    The advantages are computed with the weights and the convention of `basis`. If the convention weights GDPO's batch
    step by tokens, and a batch lacks lengths, that step runs over responses instead.

    The table may have a column `_value`, which gives each group the number of a part of the run. Then the result has
    the sums over each part in place of those over each batch, and the number of the part in place of the batch's. The
    advantages are still computed over whole batches.

    Raises InputError if rows of one batch or group stand apart.

    >>> table = pl.DataFrame({"batch": 0, "step": 1, "group": 0, "reward:a": [1.0, 0, 1], "reward:b": [0.0, 1, 1]})
    >>> from gdpo_audit.sums.sums import total
    >>> sums = total(summarise(table, Basis(("a", "b"), (1.0, 1.0), "trl", None, None)).batches)
    >>> sums.methods["grpo"].tied_pairs, sums.different_pairs, round(float(sums.rewards.products[0, 1]), 6)
    (1, 3, -0.333333)
    """
    return _joined(_summary(rows, basis_of_kind, *known) for rows, basis_of_kind, *known in _kinds(table, basis))


def sums_of(table: pl.DataFrame, basis: Basis) -> Sums[Array]:
    """Return the sums over each batch of one table, those that `summarise` has in its result."""
    groups = (_groups_of(rows, basis_of_kind, *known)[-1] for rows, basis_of_kind, *known in _kinds(table, basis))
    return concat([add_up(sums, sums.batch) for sums in groups])


def _kinds(table: pl.DataFrame, basis: Basis) -> Iterator[tuple[pl.DataFrame, Basis, bool, bool]]:
    """Yield sets of batches of one kind, so that an unusual batch does not change how the others are computed.

    Four things come for each set: its rows, the basis for it, whether all its rewards are float32 numbers, and whether
    all its lengths are known. The batches of a set agree in the last three and in the size of their groups. Batches in
    which sizes differ go into two sets of their own: those with a group of one response, and those without.

    Raises InputError if the rows of one batch, or of one group, do not stand together.
    """
    batch, group = (table[name].to_numpy() for name in ("batch", "group"))
    starts, first = starts_of(batch), starts_of(group)
    for name, ids in (("batch", batch[starts]), ("group", group[first])):
        expect(len(np.unique(ids)) == len(ids), name, "the rows of each one after the other", "some apart")
    sizes, of_batch = np.diff(first, append=len(table)), np.searchsorted(first, starts)
    smallest, largest = np.minimum.reduceat(sizes, of_batch), np.maximum.reduceat(sizes, of_batch)
    size = np.where(smallest == largest, largest, np.where(smallest > 1, 0, -1))
    float32, timed = (
        np.logical_and.reduceat(x, starts) for x in (in_float32(table, basis.rewards), token_lengths(table) >= 1)
    )
    kinds: dict[tuple, list[int]] = {}
    for number, kind in enumerate(zip(size.tolist(), float32.tolist(), timed.tolist(), strict=True)):
        kinds.setdefault((basis.of_batch(int(batch[starts[number]])), *kind), []).append(number)
    rows = np.diff(starts, append=len(table))
    for (made, _, *known), numbers in kinds.items():
        chosen = np.isin(np.arange(len(starts)), numbers).repeat(rows)
        basis_of_kind = replace(basis, weights=made.weights, recipe=made.recipe, changes={}, signs=basis.wanted)
        yield table if chosen.all() else table.filter(pl.Series(chosen)), basis_of_kind, *known


def in_float32(table: pl.DataFrame, rewards: Sequence[str]) -> Array:
    """Return (responses,) whether all rewards of a response are float32 numbers, which is how a trainer that computes
    in float32 logs them. A missing reward, NaN, passes for a float32 number.
    """
    fits = np.full(len(table), True)
    for name in rewards:
        value = table[reward_column(name)].to_numpy()
        with np.errstate(over="ignore"):  # a number too large for float32 is not a float32 number
            fits &= (value == value.astype(np.float32)) | np.isnan(value)
    return fits


def as_counted(table: pl.DataFrame, rewards: Sequence[str]) -> pl.DataFrame:
    """Return a table of whole batches with its rewards as the sums count them: as logged in a batch in which all of
    them are float32 numbers, else rounded to `DIGITS` significant digits.
    """
    starts = starts_of(table["batch"].to_numpy())
    float32 = np.logical_and.reduceat(in_float32(table, rewards), starts)
    kept = pl.Series(float32.repeat(np.diff(starts, append=len(table))))
    names = reward_columns(rewards)
    return table.with_columns(pl.when(kept).then(name).otherwise(pl.col(name).round_sig_figs(DIGITS)) for name in names)


def _groups_of(rows: pl.DataFrame, basis: Basis, float32: bool, timed: bool) -> tuple[Grouped, Sums[Array]]:
    """Return the groups of batches that are computed together, as `_kinds` yields them, and the sums over each group.

    rows: the responses of these batches.
    basis: the weights, convention and methods to compute with.
    float32: whether all rewards of the batches are float32 numbers; if not, the rewards are first rounded to `DIGITS`
        significant digits.
    timed: whether all lengths of the responses are known; if not, a batch step by tokens runs over responses instead.
    """
    rounded = rows if float32 else rows.with_columns(pl.col(reward_columns(basis.rewards)).round_sig_figs(DIGITS))
    log = tensors_of(rounded, basis.rewards)
    convention = ALL_CONVENTIONS[basis.convention]
    if convention.last_step == "tokens" and not timed:
        convention = replace(convention, last_step="responses")
    masked = torch.from_numpy(rounded["_masked"].to_numpy().copy()) if "_masked" in rounded.columns else None
    grouped = Grouped(log.read(convention, basis.weights), starts_of(rounded["group"].to_numpy()), masked)
    groups = each(_as_array, sums_of_groups(grouped, log, rounded, basis, float32))
    if not float32:
        groups = replace(groups, rewards=_with_ends(groups.rewards, rows, rounded, basis.rewards, grouped.starts))
    return grouped, groups


def _summary(rows: pl.DataFrame, basis: Basis, float32: bool, timed: bool) -> Summary:
    """Return the summary of batches that are computed together, as `_kinds` yields them, with the arguments of
    `_groups_of`.
    """
    grouped, groups = _groups_of(rows, basis, float32, timed)
    scores = {} if basis.examples_of is None else _scores(groups, basis.examples_of, basis.primary or 0)
    held = np.zeros(len(grouped.starts), dtype=bool)
    for score in scores.values():
        held[_best(score, _HELD)] = True
    of_group = rows.select("batch", "group")[grouped.starts].with_columns(**scores).fill_nan(None)
    in_held = np.flatnonzero(held.repeat(np.diff(grouped.starts, append=len(rows))))
    visits = rows.select(pl.col("batch").cast(pl.Int32), pl.col("^(_place|_prompt_key)$"))[grouped.starts].with_columns(
        responses=groups.responses.astype(np.uint32),
        silent=groups.methods[basis.examples_of or "grpo"].silent_groups.astype(bool),
        mixed=_hold_several_prompts(rows, grouped.starts),
    )
    return Summary(add_up(groups, groups.batch), of_group.filter(pl.Series(held)), rows[in_held], visits)


def _with_ends(
    sums: RewardSums, rows: pl.DataFrame, rounded: pl.DataFrame, rewards: Sequence[str], starts: Array
) -> RewardSums:
    """Return the sums of rewards that were rounded, with `top` and `bottom` taken from the rewards as logged.

    In each group, `top` is the lowest logged value that was rounded to the group's highest value, and `bottom` the
    highest one that was rounded to its lowest value.

    sums: with the rounded highest and lowest values as `top` and `bottom`.
    rows: the rows with the rewards as logged.
    rounded: the same rows with rounded rewards.
    rewards: the names of the rewards.
    starts: (groups,) the first row of each group.
    """
    logged, counted = (table.select(reward_columns(rewards)).to_numpy().T for table in (rows, rounded))
    sizes = np.diff(starts, append=len(rows))
    is_highest, is_lowest = (counted == x.repeat(sizes, axis=-1) for x in (sums.high, sums.low))
    top = np.minimum.reduceat(np.where(is_highest, logged, np.inf), starts, axis=-1)
    return replace(sums, top=top, bottom=np.maximum.reduceat(np.where(is_lowest, logged, -np.inf), starts, axis=-1))


def _best(score: Array, most: int) -> Array:
    """Return the indices of the groups with the highest scores, at most `most` of them, in no particular order. If
    groups have equal scores, the first ones are taken. NaN is no score.
    """
    shown = np.flatnonzero(score == score)
    if len(shown) <= most:
        return shown
    lowest = np.partition(score[shown], -most)[-most]
    higher, equal = shown[score[shown] > lowest], shown[score[shown] == lowest]
    return np.append(higher, equal[: most - len(higher)])


def _hold_several_prompts(rows: pl.DataFrame, starts: Array) -> Array:
    """Return (groups,) whether the responses of a group answer more than one prompt; False where prompts are not known.

    rows: the responses, with a column `_prompt_key` where prompts are known.
    starts: (groups,) the first row of each group.
    """
    if "_prompt_key" not in rows.columns:
        return np.zeros(len(starts), dtype=bool)
    prompt = rows["_prompt_key"].to_numpy()
    return np.minimum.reduceat(prompt, starts) != np.maximum.reduceat(prompt, starts)


def _as_array(_: str, x: Tensor | Array) -> Array:
    """Return a tensor as an array, of int64 unless it holds floats. An array comes back as it is. The first argument,
    the name of the field, is not used.
    """
    if isinstance(x, np.ndarray):
        return x
    return (x if x.is_floating_point() else x.long()).numpy()


def _scores(groups: Sums[Array], method: str, first: int) -> dict[str, Array]:
    """Return how good an example each group is of each finding that has examples: (groups,) scores by the id of the
    finding. The score is NaN for a group that does not show the finding.

    "reward-dominates" has scores for each reward, so its keys are the id, a space and the index of the reward. One key,
    "punished", is no finding. Its score is the number of responses that are better than their group's mean in the
    reward `first`, and yet get an advantage of 0 or less.

    groups: the sums of each group.
    method: the method whose ties, wrong orders, silent groups, shares and punished responses are meant.
    first: the index of the reward that "punished" looks at.
    """
    sums, several = groups.methods[method], (groups.rewards.dead_groups == 0).sum(0) > 1
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.round(sums.update / sums.squares, 9)  # shares that agree in nine digits are equal
    # A reward with more than all of the update decides against others, so it does not decide alone.
    alone = several & (sums.different_pairs > 0) & (sums.squares > 0) & (share <= 1)
    scores = {
        "ties-hide-signal": (sums.tied_pairs, sums.tied_pairs > 0),
        "priority-inversion": (sums.inverted, sums.inverted > 0),
        "advantage-impossible": (groups.logged.largest_impossible, groups.logged.impossible > 0),
        "silent-groups": (groups.different_pairs, sums.silent_groups > 0),
        "punished": (sums.punished[first], sums.punished[first] > 0),
        **{f"reward-dominates {k}": (share_of_reward, alone[k]) for k, share_of_reward in enumerate(share)},
    }
    return {name: np.where(there, score, np.nan) for name, (score, there) in scores.items()}
