"""The sums, counts and extremes of each group of some batches: of its rewards, of the advantages that each method
makes, and of the logged advantages.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import polars as pl
import torch
from torch import Tensor

from gdpo_audit.logs.names import reward_columns
from gdpo_audit.recipe.recipe import TOLERANCE, Tensors, compare, hidden_groups, same_direction, starts_of
from gdpo_audit.sums.grouped import Grouped
from gdpo_audit.sums.impossible import impossible
from gdpo_audit.sums.selection import Deviations, Selected, deviations_of, ungated_column
from gdpo_audit.sums.sums import Array, Basis, LengthSums, LoggedSums, MethodSums, RewardSums, Sums
from gdpo_audit.thresholds import FAINT_STD, FEW_DIFFERENT
from gdpo_core.numerics import pairs
from gdpo_core.registry import advantages_without_eps, method_for
from gdpo_core.ties import break_even_of, update_sums

# The search for a break-even weight has at most so many rounds, and it ends when a round changes the weight by less
# than this part of it.
_ROUNDS, _NEAR = 100, 1e-9


def token_lengths(table: pl.DataFrame) -> Array:
    """Return (responses,) the length of each response in tokens, NaN where the log does not hold it."""
    if "length" not in table.columns:
        return np.full(len(table), np.nan)
    return table["length"].cast(pl.Float64).to_numpy()


def sums_of_groups(grouped: Grouped, log: Tensors, rows: pl.DataFrame, basis: Basis, float32: bool) -> Sums[Any]:
    """Return the sums of each group, as tensors and arrays with a number per group.

    grouped, log, rows: the same responses, in groups, as tensors and as a table.
    basis: the methods, weights and recipe of the sums.
    float32: whether the rewards are float32 numbers.
    """
    std, distance = grouped.centred(grouped.batch.rewards)
    same = pairs.tie_tolerance(torch.float32 if float32 else torch.float64)
    logged = _deviations_as_logged(grouped, distance, rows, basis, same)
    outcomes = {method: _outcome(grouped, method, logged) for method in basis.methods}
    # All methods but GDPO add up raw rewards, so that the break-even weight of GRPO is that of all of them. Where a
    # setting is only tried, which is where `extra_method` is given, nobody asks for that weight.
    direction = 0 if basis.primary is None else basis.wanted[basis.primary]
    first = basis.primary if basis.extra_method is None and direction else None
    break_even = dict.fromkeys(outcomes, _break_even(grouped, outcomes["grpo"].added, first, direction))
    break_even["gdpo"] = _break_even(grouped, outcomes["gdpo"].added, first, direction)
    ties, order = _ties_and_order(grouped, outcomes, basis.primary if direction else None, direction, same)
    sizes = grouped.per_group(torch.ones_like(grouped.batch.rewards[0])).long()
    rewards = _reward_sums(grouped, distance, std)
    unright = _without_right_answer(rewards, basis.primary, direction)
    before = outcomes["gdpo"].before_batch_step
    live = ~grouped.silent(before.nan_to_num())
    constant = grouped.silent(outcomes["grpo_no_std"].advantages) | (sizes == 1)
    step, batch = (rows[name].to_numpy() for name in ("step", "batch"))
    return Sums(
        batch=rows["_value"].to_numpy()[grouped.starts] if "_value" in rows.columns else batch[grouped.starts],
        step=np.minimum.reduceat(step, grouped.starts),
        step_last=np.maximum.reduceat(step, grouped.starts),
        **_fingerprints(rows, basis.rewards, batch, grouped.starts),
        responses=sizes,
        groups=torch.ones_like(sizes),
        mixed_groups=ties.vectors > 1,
        different_pairs=ties.pairs,
        primary_pairs=order.pairs,
        unright_groups=unright,
        live_responses=grouped.count(~before.isnan()) * live,
        constant_sums=constant,
        filtered_groups=constant & live,
        rewards=rewards,
        methods={
            m: _method_sums(grouped, m, made, ties, order, break_even[m], unright) for m, made in outcomes.items()
        },
        lengths=_length_sums(grouped, distance, rows),
        logged=_logged_sums(grouped, log, rows, basis),
    )


def _fingerprints(rows: pl.DataFrame, rewards: Sequence[str], batch: Array, groups: Array) -> dict[str, Array]:
    """Return two hashes of each group, each (groups,), of the rewards and logged advantages of its rows.

    The `fingerprint` is also of the places of these rows in the batch: joined by XOR, those of a batch's groups are
    equal for batches with the same rows in the same order. The `content`, added up, is equal for the same rows in any
    order.

    rows: the responses, with batches and groups in blocks.
    rewards: the names of the rewards.
    batch: (rows,) the batch of each row.
    groups: (groups,) the first row of each group.
    """
    content = rows.select(*["advantage"] * ("advantage" in rows.columns), *reward_columns(rewards))
    starts = starts_of(batch)
    position = np.arange(len(rows)) - starts.repeat(np.diff(starts, append=len(rows)))
    odd = (2 * position + 1).astype(np.uint64)  # so that no bit of a hash is lost
    hashes = content.hash_rows().to_numpy()
    in_order = np.bitwise_xor.reduceat(hashes * odd, groups)
    return {"fingerprint": in_order, "content": np.add.reduceat(hashes, groups)}


# --- rewards ----------------------------------------------------------------------------------------------------------


def _reward_sums(grouped: Grouped, distance: Tensor, std: Tensor) -> RewardSums:
    """Return the sums over each reward in each group, which `RewardSums` describes.

    grouped: the batches, which add up numbers of their responses by group.
    distance: (rewards, …) the rewards minus the means of their groups, 0 for a missing one.
    std: (rewards, groups) the std of each reward in each group.
    """
    r, squared = grouped.batch.rewards, distance.square()
    # If no reward is missing, nothing has to be put in the place of missing ones, which would cost time.
    whole = bool(r.isfinite().all())
    present = torch.ones_like(r) if whole else (~r.isnan()).to(r)
    count, scatter = grouped.per_group(present), grouped.per_group(squared)  # (rewards, groups)
    filled = r if whole else r.nan_to_num(nan=0.0)
    low = grouped.lowest(r if whole else r.nan_to_num(nan=torch.inf))
    high = grouped.highest(r if whole else r.nan_to_num(nan=-torch.inf))
    largest = torch.maximum(low.abs(), high.abs()) if whole else grouped.highest(filled.abs())
    at_ends = grouped.per_group(((r == grouped.per_response(low)) | (r == grouped.per_response(high))).to(r))
    fine = (count > 2) & (at_ends - 2 <= FEW_DIFFERENT * (count - 2))
    return RewardSums(
        present=count.long(),
        total=grouped.per_group(filled),
        scatter=scatter,
        low=low,
        high=high,
        top=high,  # as if the rewards were not rounded
        bottom=low,
        degrees=(count - 1).clamp(min=0).long(),
        holding_groups=count > 0,
        dead_groups=std == 0,
        faint_groups=(std > 0) & (std <= FAINT_STD * largest) & fine,
        products=_products(grouped, distance),
        squared=scatter[:, None].expand(-1, len(r), -1)
        if whole
        else torch.stack([grouped.per_group(squares * present) for squares in squared]),
    )


def _products(grouped: Grouped, distance: Tensor) -> Tensor:
    """Return (rewards, rewards, groups) Σ d_i d_j over each group, for each two rewards i and j.

    grouped: the batches, which add up numbers of their responses by group.
    distance: (rewards, …) the distances d of the rewards from their means in the group.
    """
    made = distance.new_empty(len(distance), len(distance), len(grouped.starts))
    for k, deviations in enumerate(distance):
        made[k, k:] = made[k:, k] = grouped.per_group(distance[k:] * deviations)
    return made


def _deviations_as_logged(
    grouped: Grouped, distance: Tensor, rows: pl.DataFrame, basis: Basis, same: float
) -> Deviations:
    """Return how far the rewards are from the means of their groups. The rewards are those in the log, even where a
    gate changes what a method sees.

    grouped: the batches, with the rewards as a method sees them.
    distance: (rewards, …) the distances of the rewards as a method sees them.
    rows: the table of the responses, with a column for each reward that a gate changes.
    basis: the names of the rewards, and what the run wants of them.
    same: the largest distance that counts as round-off, as a part of the largest of its group.
    """
    for k, name in enumerate(basis.rewards):
        if (column := ungated_column(name)) in rows.columns:
            ungated = torch.from_numpy(rows[column].to_numpy().copy()).view(distance.shape[1:])
            distance = distance.clone()
            distance[k] = grouped.centred(ungated)[1]
    return deviations_of(grouped.batch, distance, same, basis.wanted)


# --- methods ----------------------------------------------------------------------------------------------------------


class _Outcome(NamedTuple):
    """The advantages that a method makes of some batches, and what they are made of.

    The fields `update`, `squares` and `selected` hold sums over each group. If a mask took an advantage from the
    update, this advantage counts as 0 in these sums, while the field `advantages` still holds it.
    """

    advantages: Tensor  # (prompts, rollouts) or (responses,)
    before_batch_step: Tensor  # in the same shape, GDPO's sums before its batch step; of other methods the advantages
    added: Tensor  # (rewards, prompts, rollouts) or (rewards, responses) what the method adds up by weight
    update: Tensor  # (rewards, groups) each reward's part of Σ A²
    squares: Tensor  # (groups,) Σ A²
    selected: Selected  # sums of each reward in each group, weighed and counted by the advantages


def _outcome(grouped: Grouped, method: str, logged: Deviations) -> _Outcome:
    """Return the advantages that a method makes of the batches, with the other fields of `_Outcome`.

    grouped: the batches.
    method: the id of the method.
    logged: the distances of the logged rewards from the means of their groups.
    """
    formula, batch = method_for(method, grouped.batch)
    steps = formula(batch)
    a = batch.zero_unrewarded(steps.advantages)
    applied = a if grouped.masked is None else a.masked_fill(grouped.masked.view(a.shape), 0)
    update, squares = (grouped.flat(x) for x in update_sums(batch, steps, applied, batch.group))
    sums = update, squares, logged.selected_by(applied)
    # A method without z, such as GRPO, adds up raw rewards. Under some conventions GDPO is such a method too where
    # there is a single reward.
    return _Outcome(a, a, batch.rewards, *sums) if steps.z is None else _Outcome(a, steps.sums, steps.z, *sums)


def _ties_and_order(
    grouped: Grouped, outcomes: Mapping[str, _Outcome], primary: int | None, direction: int, same: float
) -> tuple[pairs.Distinctions, pairs.PairOrders]:
    """Return two records of counts for each group.

    The first counts the pairs of responses with different rewards, and those of them that each method ties. The second
    counts the pairs that differ in the primary reward, and how each method orders them.

    grouped: the batches with their groups.
    outcomes: what each method makes of the batches, by the id of the method.
    primary: the index of the primary reward; if it is None, the counts of the second record are 0.
    direction: 1 if the run wants more of the primary reward, -1 if it wants less.
    same: how far apart two advantages may be and still be equal, as a share of the largest advantage in their group.
    """
    # A response without any reward counts only where silent groups are counted, so it takes no part in pairs.
    rewards, kept = grouped.batch.rewards.flatten(1), grouped.rewarded.flatten()
    advantages = {method: outcome.advantages.flatten() for method, outcome in outcomes.items()}
    bare = {m: a.flatten() for m in outcomes if (a := advantages_without_eps(m, grouped.batch)) is not None}
    ties = pairs.count_distinct_and_tied(grouped.blocks, rewards, kept, advantages, bare, same)
    if primary is None:
        none = torch.zeros_like(ties.pairs)
        return ties, pairs.PairOrders(none, dict.fromkeys(outcomes, none), dict.fromkeys(outcomes, none))
    return ties, pairs.count_orders(
        grouped.blocks, (direction * rewards[primary]).masked_fill(~kept, torch.nan), ties.level
    )


def _break_even(grouped: Grouped, added: Tensor, primary: int | None, direction: int) -> Tensor:
    """Return (groups,) the weight on the primary reward above which no pair of a group is in the wrong order. If the
    run wants less of that reward, it is the size of the weight below 0.

    It is −infinite for a group in which no pair is in the wrong order now, and for all groups if `primary` is None.

    The search begins with the weight that the primary reward has. It takes the pair in the wrong order whose weighted
    sums are furthest apart, and goes on with the weight that ties this pair. It ends when no pair is in the wrong
    order, or when the weight hardly changes any more. This is Dinkelbach's method, which needs no list of all pairs.

    grouped: the batches, with the weights that the rewards have now.
    added: (rewards, …) for each response, the terms that a method multiplies by the weights of the rewards and adds up;
        under GDPO these are the z-scores.
    primary: the index of the primary reward.
    direction: 1 if the run wants more of it, -1 if it wants less.
    """
    groups = int(grouped.batch.group_index().max()) + 1
    needed = torch.full((groups,), -torch.inf, dtype=torch.float64)
    if primary is None:
        return needed
    # Less of a reward is more of its negative, under the negative weight.
    turn = added.new_ones(len(added))
    turn[primary] = direction
    added, weights = turn[:, None] * added.flatten(1), turn.to(grouped.batch.weights) * grouped.batch.weights.flatten()
    primary_terms = added[primary].masked_fill(added[primary].isnan(), torch.inf)
    terms = weights.reshape(-1, 1) * added.nan_to_num()
    rest, responses = terms.sum(0) - terms[primary], torch.arange(len(primary_terms))
    for block in grouped.blocks:
        x, order = block.pad(primary_terms, torch.inf).sort(-1)
        r, member = (block.pad(y, 0).gather(-1, order) for y in (rest, responses))
        below = torch.searchsorted(x, x)  # how many responses of the group have less of the primary reward
        weight = weights[primary].expand(len(x))
        for _ in range(_ROUNDS):
            score = (r + weight[:, None] * x).masked_fill(x.isinf(), torch.inf)
            most, of_whom = score.cummax(-1)
            gap = (most.gather(-1, (below - 1).clamp(min=0)) - score).masked_fill(below == 0, -torch.inf)
            high = gap.argmax(-1, keepdim=True)
            low = of_whom.gather(-1, (below.gather(-1, high) - 1).clamp(min=0))
            pair = member.gather(-1, low)[:, 0], member.gather(-1, high)[:, 0]
            break_even = break_even_of(added, *pair, primary, weights)
            higher = (gap.amax(-1) > 0) & (break_even > weight + _NEAR * weight.abs())
            if not bool(higher.any()):
                break
            weight = torch.where(higher, break_even, weight)
        needed[block.groups] = weight.masked_fill(weight == weights[primary], -torch.inf)
    return needed


def _without_right_answer(rewards: RewardSums, primary: int | None, direction: int) -> Tensor:
    """Return (groups,) whether a group holds the primary reward and no response has more than 0 of it, or less than 0
    if the run wants less. False in all groups without a primary reward, and if the run wants neither.

    rewards: the sums of each group.
    direction: what the run wants of the primary reward.
    """
    if primary is None or not direction:
        return torch.zeros_like(rewards.holding_groups[0])
    best = rewards.high[primary] if direction > 0 else -rewards.low[primary]
    return (best <= 0) & ~best.isinf()


def _method_sums(
    grouped: Grouped,
    method: str,
    outcome: _Outcome,
    ties: pairs.Distinctions,
    order: pairs.PairOrders,
    break_even: Tensor,
    unright: Tensor,
) -> MethodSums[Any]:
    a = outcome.advantages
    # A group counts unless a response with a reward has a NaN advantage, as a missing reward may give to a whole group.
    counted = grouped.per_group((a.isnan() & grouped.rewarded).to(a)) == 0
    mixed, tied = (ties.vectors > 1) & counted, ties.tied[method] * counted
    return MethodSums(
        silent_groups=grouped.silent(a),
        squares=outcome.squares,
        update=outcome.update,
        update_unright=outcome.update.masked_fill(~unright, 0),
        pushed=outcome.selected.products,
        distances=outcome.selected.squares,
        above=outcome.selected.above,
        punished=outcome.selected.punished,
        mixed_groups=mixed,
        different_pairs=ties.pairs * counted,
        tie_groups=tied > 0,
        tied_pairs=tied,
        levels=ties.levels[method] * mixed,
        primary_pairs=order.pairs * counted,
        inverted=order.inverted[method] * counted,
        tied_primary=order.tied[method] * counted,
        break_even=break_even.masked_fill(~counted, -torch.inf),
    )


# --- lengths and logged advantages ------------------------------------------------------------------------------------


def _length_sums(grouped: Grouped, distance: Tensor, rows: pl.DataFrame) -> LengthSums[Any]:
    """Return the sums over the lengths of completions in tokens, which `LengthSums` describes: each is a number per
    group, and `products` is a number per reward and group.

    grouped: the batches, which add up numbers of their responses by group.
    distance: (rewards, …) each response's rewards minus their means in its group.
    rows: the table of the same responses.
    """
    lengths = torch.from_numpy(token_lengths(rows).copy()).view(distance.shape[1:])
    deviations = grouped.centred(lengths)[1]
    return LengthSums(
        present=grouped.per_group((~lengths.isnan()).to(lengths)),
        total=grouped.per_group(lengths.nan_to_num()),
        squared=grouped.per_group(deviations.square()),
        products=grouped.per_group(deviations * distance),
    )


def _logged_sums(grouped: Grouped, log: Tensors, rows: pl.DataFrame, basis: Basis) -> LoggedSums[Any]:
    """Return the sums over the logged advantages of each group, which `LoggedSums` describes.

    grouped, log, rows: the same responses, in groups, as tensors and as a table.
    basis: the names of the rewards, and the recipe, if any.
    """
    advantages = log.advantages
    shape, present = grouped.batch.rewards.shape[1:], ~advantages.isnan()
    error = torch.full_like(advantages, -torch.inf)
    wrong, testable, comparison = torch.zeros_like(present), torch.zeros_like(present), None
    scaled = hidden = torch.zeros(len(log.batch), dtype=torch.bool)
    if basis.recipe is not None and bool(present.any()):
        comparison = compare(log, basis.recipe)
        error = comparison.error.masked_fill(~present, -torch.inf)
        wrong = (error > comparison.allowed) & present
        testable = (comparison.computed.abs() > comparison.allowed) & present
        scaled = same_direction(log, comparison) if bool(wrong.any()) else scaled
    # Looking for hidden groups is costly, and of interest only where the rewards do not explain the advantages.
    if bool(present.any()) and (basis.recipe is None or bool(wrong.any())):
        number = rows["group"].to_numpy()[grouped.starts]
        hidden = torch.from_numpy(np.isin(number, hidden_groups(rows, basis.rewards).to_numpy()))
    too_large = impossible(log, basis.recipe, comparison)
    alike = torch.zeros(len(log.batch), dtype=torch.bool)
    if comparison is not None:
        alike = grouped.silent(comparison.computed.view(shape))
    sizes = advantages.abs().nan_to_num()
    logged_there = grouped.highest(sizes.view(shape)) * alike
    largest_error = grouped.highest(error.view(shape))
    wrong_in_group = grouped.count(wrong)
    return LoggedSums(
        count=grouped.count(present),
        zeros=grouped.count(advantages == 0),
        wrong=wrong_in_group,
        testable=grouped.count(testable),
        impossible=grouped.count(too_large),
        wrong_groups=wrong_in_group > 0,
        scaled_groups=scaled & (wrong_in_group > 0),
        hidden_groups=hidden,
        max_error=largest_error,
        max_error_live=largest_error.masked_fill(alike, -torch.inf),
        largest_silent=logged_there,
        residue_groups=logged_there > TOLERANCE,
        largest_impossible=grouped.highest((sizes * too_large).view(shape)),
    )
