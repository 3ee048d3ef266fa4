"""The sums of one table of a run: what its batches, rewards, methods and logged advantages come to."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations

import numpy as np
import polars as pl
import torch
from torch import Tensor

from gdpo_core._errors import expect
from gdpo_core._groups import Batch, skipping_missing
from gdpo_core._pairs import (
    Block,
    Distinctions,
    PairOrders,
    blocks_of,
    count_distinct_and_tied,
    count_orders,
    tie_tolerance,
)
from gdpo_core._statistics import centre, std_of
from gdpo_core.frameworks import ALL_CONVENTIONS, VERL
from gdpo_core.registry import advantages_without_eps, method_for
from gdpo_core.runs.impossible import impossible
from gdpo_core.runs.recipe import Tensors, compare, hidden_inputs, holds_lengths, same_direction, starts_of, tensors_of
from gdpo_core.runs.sums import (
    HELD_EXAMPLES,
    Array,
    Examples,
    LengthSums,
    LoggedSums,
    Made,
    MethodSums,
    Moments,
    Plan,
    RewardSums,
    Summary,
    Sums,
    join_scatter,
    merge,
)
from gdpo_core.runs.thresholds import FAINT_STD, FEW_VALUES
from gdpo_core.ties import break_even_of, update_parts

_ROUNDS, _NEAR = 100, 1e-9  # of the search for a break-even weight, and how near two rounds are the same
_DIGITS = 14  # of a reward: what differs in later ones, as 0.1 + 0.2 and 0.3 do, is round-off
_AT_ONCE = 1 << 16  # responses per piece, so that a piece and what is computed from it fit into a processor's cache


def summarise(table: pl.DataFrame, plan: Plan) -> Summary:
    """The summary of one table of a run. It holds whole batches; the rows of a batch, and of a group, are consecutive.

    The advantages are computed with the plan's weights and convention. Where a batch lacks the lengths that the
    convention weights by, GDPO's last step runs over responses. A column `cell` numbers parts of batches, each of some
    groups in a row: then the sums are those of each cell, under its number, and the advantages still those of whole
    batches. Raises InputError where these rows are apart.

    >>> table = pl.DataFrame({"batch": 0, "step": 1, "group": 0, "a": [1.0, 0.0, 1.0], "b": [0.0, 1.0, 1.0]})
    >>> from gdpo_core.runs.sums import total
    >>> sums = total(summarise(table, Plan(("a", "b"), (1.0, 1.0), "trl", None, None)).batches)
    >>> sums.methods["grpo"].tied_pairs, sums.different_pairs, round(float(sums.rewards.products[0, 1]), 6)
    (1, 3, -0.333333)
    """
    made = _by_weights(table, plan)
    return merge([replace(_summary(part, own), plan=plan) for own, rows in made for part in _parts(rows, own)])


def _by_weights(table: pl.DataFrame, plan: Plan) -> list[tuple[Plan, pl.DataFrame]]:
    """The table in parts of whole batches that are computed with the same weights, and the plan of each."""
    if not plan.changes:
        return [(plan, table)]
    batches: dict[Made, list[int]] = {}
    for batch in table["batch"].unique(maintain_order=True):
        batches.setdefault(plan.of_batch(batch), []).append(batch)
    return [
        (replace(plan, weights=made.weights, recipe=made.recipe, changes={}), table.filter(pl.col("batch").is_in(some)))
        for made, some in batches.items()
    ]


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


def _lengths(table: pl.DataFrame, rewards: Sequence[str]) -> Array:
    """(responses,) tokens, NaN where unknown."""
    if not holds_lengths(table, rewards):
        return np.full(len(table), np.nan)
    return table["length"].cast(pl.Float64).to_numpy()


def _in_float32(table: pl.DataFrame, rewards: Sequence[str]) -> Array:
    """(responses,) whether the rewards are float32 numbers, as a trainer that computes in float32 logs them."""
    fits = np.full(len(table), True)
    for name in rewards:
        value = table[name].to_numpy()
        with np.errstate(over="ignore"):  # a number too large for float32 is not a float32 number
            fits &= (value == value.astype(np.float32)) | np.isnan(value)
    return fits


def _summary(rows: pl.DataFrame, plan: Plan) -> Summary:
    """The sums of each batch, and the groups that show something best; rows: one of `_parts`."""
    float32 = bool(_in_float32(rows, plan.rewards).all())
    part = rows if float32 else rows.with_columns(pl.col(plan.rewards).round_sig_figs(_DIGITS))
    log = tensors_of(part, plan.rewards)
    lengths = torch.from_numpy(_lengths(part, plan.rewards).copy()).view(log.rewards.shape[:-1])
    convention = ALL_CONVENTIONS[plan.convention]
    if convention.last_step == "tokens" and not bool((lengths >= 1).all()):
        convention = replace(convention, last_step="responses")
    cell = "cell" if "cell" in part.columns else "batch"
    cells = part[cell].to_numpy()
    of_group = cells[starts_of(part["group"].to_numpy())]
    of = _Grouped(log.read(convention, plan.weights), starts_of(of_group))
    std, distance = of.centred(of.batch.rewards)
    outcomes = {method: _outcome(of, method) for method in plan.methods}
    # All methods but GDPO add up raw rewards, so one weight puts their pairs in order. Nobody asks for that of a trial.
    first = plan.primary if plan.extra_method is None else None
    break_even = dict.fromkeys(outcomes, _break_even(of, outcomes["grpo"].added, first))
    break_even["gdpo"] = _break_even(of, outcomes["gdpo"].added, first)
    ties, order = _ties_and_order(of, outcomes, plan.primary, float32)
    sizes = of.per_group(torch.ones_like(of.batch.rewards[0])).long()
    unright = _unright(of, plan.primary)
    before = outcomes["gdpo"].before_batch_step
    live = ~of.silent(before.nan_to_num())
    constant = outcomes["grpo_no_std"].silent | (sizes == 1)
    step, starts = part["step"].to_numpy(), starts_of(cells)
    logged, too_large = _logged_sums(of, log, part, plan)
    sums = Sums(
        batch=cells[starts],
        step=np.minimum.reduceat(step, starts),
        step_last=np.maximum.reduceat(step, starts),
        fingerprint=_fingerprints(part, plan.rewards, starts),
        responses=of.per_batch(sizes),
        groups=of.per_batch(torch.ones_like(sizes)),
        mixed_groups=of.per_batch(ties.vectors > 1),
        different_pairs=of.per_batch(ties.pairs),
        primary_pairs=of.per_batch(order.pairs),
        unright_groups=of.per_batch(unright),
        live_responses=of.per_batch(of.per_group((~before.isnan()).to(before)).long() * live),
        constant_sums=of.per_batch(constant),
        filtered_groups=of.per_batch(constant & live),
        rewards=_reward_sums(of, distance, std),
        methods={
            m: _method_sums(of, m, outcome, ties, order, break_even[m], unright) for m, outcome in outcomes.items()
        },
        lengths=_length_sums(of, distance, lengths),
        logged=logged,
    )
    examples = None
    if plan.examples_of is not None:
        several = (std > 0).sum(0) > 1
        examples = _examples(rows, plan.examples_of, outcomes[plan.examples_of], ties, order, several, too_large)
    return Summary(plan, sums, examples)


def _fingerprints(part: pl.DataFrame, rewards: Sequence[str], starts: Array) -> Array:
    """(batches,) a hash of rewards and logged advantages in their order, equal for batches that hold the same rows."""
    content = part.select("advantage", *rewards) if "advantage" in part.columns else part.select(rewards)
    position = np.arange(len(part)) - starts.repeat(np.diff(starts, append=len(part)))
    odd = (2 * position + 1).astype(np.uint64)  # so that no bit of a hash is lost
    return np.bitwise_xor.reduceat(content.hash_rows().to_numpy() * odd, starts)


@dataclass(frozen=True)
class _Grouped:
    """Several batches computed as one, with sums over groups and over batches."""

    batch: Batch
    starts: Array  # (batches,) the first group of each batch, or of each cell

    @cached_property
    def rewarded(self) -> Tensor:
        """(prompts, rollouts) or (responses,) whether a response has any reward."""
        return ~self.batch.rewards.isnan().all(0)

    @cached_property
    def blocks(self) -> list[Block]:
        """The groups in blocks of similar sizes."""
        return blocks_of(self.batch)

    def per_group(self, x: Tensor) -> Tensor:
        """(…, prompts, rollouts) or (…, responses) summed to (…, groups)."""
        return self.flat(self.batch.group.total(x))

    def lowest(self, x: Tensor) -> Tensor:
        """(…, groups) the lowest value of each group."""
        return self.flat(self.batch.group.lowest(x))

    def silent(self, x: Tensor) -> Tensor:
        """(groups,) whether every value of a group is 0; NaN is not 0."""
        return self.lowest(-x.abs()) == 0

    def per_response(self, x: Tensor) -> Tensor:
        """(…, groups) repeated for each response of the group."""
        return x[..., None] if self.batch.index is None else self.batch.group.broadcast(x)

    def centred(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """The std, (…, groups), and each value minus the mean of its group; 0 where x is NaN."""
        group = self.batch.group
        over = skipping_missing(group) if bool(x.isnan().any()) else group
        distance = centre(x, over)[1]
        return self.flat(std_of(distance, over, ddof=1)), distance.nan_to_num_(nan=0.0)

    def per_batch(self, x: Tensor, merge: np.ufunc = np.add) -> Array:
        """(…, groups) added up, or merged in another way, to (…, batches)."""
        values = x if x.is_floating_point() else x.long()
        return merge.reduceat(values.numpy(), self.starts, axis=-1)

    def flat(self, x: Tensor) -> Tensor:
        """(…, groups) what a reduction over groups gives."""
        return x.squeeze(-1) if self.batch.index is None else x


# --- rewards ----------------------------------------------------------------------------------------------------------


def _reward_sums(of: _Grouped, distance: Tensor, std: Tensor) -> RewardSums:
    """distance, std: as `_Grouped.centred` gives them for the rewards."""
    r, present = of.batch.rewards, ~of.batch.rewards.isnan()
    values, squared = r.nan_to_num(nan=0.0), distance.square()
    count = of.per_group(present.to(r))  # (rewards, groups)
    largest = -of.lowest(-values.abs())
    low, high = of.lowest(r.nan_to_num(nan=torch.inf)), -of.lowest((-r).nan_to_num(nan=torch.inf))
    at_ends = of.per_group(((r == of.per_response(low)) | (r == of.per_response(high))).to(r))
    fine = (count > 2) & (at_ends - 2 <= FEW_VALUES * (count - 2))

    total, around = of.per_group(values), of.per_group(squared)
    own = of.per_batch(around)  # (rewards, batches)
    products, beside = (np.zeros((len(r), *own.shape)) for _ in range(2))
    diagonal = np.arange(len(r))
    products[diagonal, diagonal] = beside[diagonal, diagonal] = own
    for i, j in combinations(range(len(r)), 2):
        products[i, j] = products[j, i] = of.per_batch(of.per_group(distance[i] * distance[j]))
        beside[i, j] = of.per_batch(of.per_group(squared[i] * present[j]))
        beside[j, i] = of.per_batch(of.per_group(squared[j] * present[i]))
    return RewardSums(
        present=of.per_batch(count.long()),
        total=of.per_batch(total),
        scatter=join_scatter(Moments(count.numpy(), total.numpy(), around.numpy()), of.starts),
        low=of.per_batch(low, np.minimum),
        high=of.per_batch(high, np.maximum),
        degrees=of.per_batch((count - 1).clamp_(min=0).long()),
        holding_groups=of.per_batch(count > 0),
        dead_groups=of.per_batch(std == 0),
        faint_groups=of.per_batch((std > 0) & (std <= FAINT_STD * largest) & fine),
        products=products,
        squared=beside,
    )


# --- methods ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Outcome:
    """What a method makes of some batches."""

    advantages: Tensor  # (prompts, rollouts) or (responses,)
    before_batch_step: Tensor  # the same before GDPO's step over the batch
    silent: Tensor  # (groups,) whether every advantage is 0
    counted: Tensor  # (groups,) whether no advantage is NaN
    update: Tensor  # (rewards, groups) each reward's part of Σ A²
    squares: Tensor  # (groups,) Σ A²
    added: Tensor  # (rewards, prompts, rollouts) or (rewards, responses) what the method adds up by weight


def _outcome(of: _Grouped, method: str) -> _Outcome:
    formula, batch = method_for(method, of.batch)
    steps = formula(batch)
    a = batch.zero_unrewarded(steps.advantages)
    update, squares = (of.flat(x) for x in update_parts(batch, steps, a, batch.group))
    return _Outcome(
        advantages=a,
        # Under some conventions GRPO makes the advantages of a single reward: it has no z.
        before_batch_step=a if steps.z is None else steps.sums,
        silent=of.silent(a),
        # A missing reward that makes an advantage NaN does so in its whole group.
        counted=of.per_group((a.isnan() & of.rewarded).to(a)) == 0,
        update=update,
        squares=squares,
        added=batch.rewards if steps.z is None else steps.z,
    )


def _ties_and_order(
    of: _Grouped, outcomes: Mapping[str, _Outcome], primary: int | None, float32: bool
) -> tuple[Distinctions, PairOrders]:
    """What each method ties, and how it orders the pairs with different primary reward; without one there is none."""
    # A response without any reward only counts for silent groups.
    rewards, kept = of.batch.rewards.flatten(1), of.rewarded.flatten()
    advantages = {method: outcome.advantages.flatten() for method, outcome in outcomes.items()}
    bare = {m: a.flatten() for m in outcomes if (a := advantages_without_eps(m, of.batch)) is not None}
    same = tie_tolerance(torch.float32 if float32 else torch.float64)
    ties = count_distinct_and_tied(of.blocks, rewards, kept, advantages, bare, same)
    if primary is None:
        none = torch.zeros_like(ties.pairs)
        return ties, PairOrders(none, dict.fromkeys(outcomes, none), dict.fromkeys(outcomes, none))
    return ties, count_orders(of.blocks, rewards[primary].masked_fill(~kept, torch.nan), ties.level)


def _break_even(of: _Grouped, added: Tensor, primary: int | None) -> Tensor:
    """(groups,) the weight on the primary reward above which no pair is inverted; −infinite where none is now.

    From a weight with inverted pairs on, the one with the largest gap gives the next weight, at which it is tied, until
    none is inverted: Dinkelbach's method, which lists no pairs. added: (rewards, …) what is added up by weight.
    """
    groups = int(of.batch.group_index().max()) + 1
    needed = torch.full((groups,), -torch.inf, dtype=torch.float64)
    if primary is None:
        return needed
    added, weights = added.flatten(1), of.batch.weights.flatten()
    own = added[primary].masked_fill(added[primary].isnan(), torch.inf)
    terms = weights.reshape(-1, 1) * added.nan_to_num()
    rest, responses = terms.sum(0) - terms[primary], torch.arange(len(own))
    for part in of.blocks:
        x, order = part.take(own, torch.inf).sort(-1)
        r, member = (part.take(y, 0).gather(-1, order) for y in (rest, responses))
        below = torch.searchsorted(x, x)  # how many have less of the reward
        weight = weights[primary].expand(len(x))
        for _ in range(_ROUNDS):
            score = (r + weight[:, None] * x).masked_fill(x.isinf(), torch.inf)
            most, of_whom = score.cummax(-1)
            gap = (most.gather(-1, (below - 1).clamp(min=0)) - score).masked_fill(below == 0, -torch.inf)
            high = gap.argmax(-1, keepdim=True)
            low = of_whom.gather(-1, (below.gather(-1, high) - 1).clamp(min=0))
            level = break_even_of(added, member.gather(-1, low)[:, 0], member.gather(-1, high)[:, 0], primary, weights)
            higher = (gap.amax(-1) > 0) & (level > weight + _NEAR * weight.abs())
            if not bool(higher.any()):
                break
            weight = torch.where(higher, level, weight)
        needed[part.groups] = weight.masked_fill(weight == weights[primary], -torch.inf)
    return needed


def _unright(of: _Grouped, primary: int | None) -> Tensor:
    """(groups,) whether a group holds the primary reward and no response has more than 0 of it."""
    if primary is None:
        return torch.zeros(int(of.batch.group_index().max()) + 1, dtype=torch.bool)
    highest = -of.lowest((-of.batch.rewards[primary]).nan_to_num(nan=torch.inf))
    return (highest <= 0) & ~highest.isinf()


def _method_sums(
    of: _Grouped,
    method: str,
    outcome: _Outcome,
    ties: Distinctions,
    order: PairOrders,
    break_even: Tensor,
    unright: Tensor,
) -> MethodSums[Array]:
    counted, mixed = outcome.counted, (ties.vectors > 1) & outcome.counted
    tied = ties.tied[method] * counted
    return MethodSums(
        silent_groups=of.per_batch(outcome.silent),
        squares=of.per_batch(outcome.squares),
        update=of.per_batch(outcome.update),
        update_unright=of.per_batch(outcome.update.masked_fill(~unright, 0)),
        mixed_groups=of.per_batch(mixed),
        different_pairs=of.per_batch(ties.pairs * counted),
        tie_groups=of.per_batch(tied > 0),
        tied_pairs=of.per_batch(tied),
        levels=of.per_batch(ties.levels[method] * mixed),
        primary_pairs=of.per_batch(order.pairs * counted),
        inverted=of.per_batch(order.inverted[method] * counted),
        tied_primary=of.per_batch(order.tied[method] * counted),
        break_even=of.per_batch(break_even.masked_fill(~counted, -torch.inf), np.maximum),
    )


def _examples(
    rows: pl.DataFrame,
    method: str,
    outcome: _Outcome,
    ties: Distinctions,
    order: PairOrders,
    several: Tensor,
    too_large: Tensor,
) -> Examples:
    """The groups of a part that show something best; several: (groups,) whether two rewards differ, or more.

    too_large: (groups,) the size of the largest advantage that no rewards make; 0 where there is none.
    """
    counted = outcome.counted
    tied, inverted = ties.tied[method] * counted, order.inverted[method] * counted
    # Shares that agree in nine digits are equal, whatever their round-off.
    share = (outcome.update / outcome.squares).mul_(1e9).round_().div_(1e9)
    # A reward with more than all of the update decides against others, not alone.
    share = share.masked_fill_(~(several & counted & (outcome.squares > 0) & (share <= 1)), torch.nan)
    scores = {
        ("ties-hide-signal", -1): torch.where(tied > 0, tied, torch.nan),
        ("priority-inversion", -1): torch.where(inverted > 0, inverted, torch.nan),
        ("advantage-impossible", -1): torch.where(too_large > 0, too_large, torch.nan),
        ("silent-groups", -1): torch.where(outcome.silent, ties.pairs, torch.nan),
        **{("reward-dominates", k): own for k, own in enumerate(share)},
    }
    values = [score.double().numpy() for score in scores.values()]
    highest = [_highest(score) for score in values]
    times, held = [len(some) for some in highest], np.concatenate(highest)
    group = rows["group"].to_numpy()
    starts = starts_of(group)
    table = {
        "finding": np.repeat([finding for finding, _ in scores], times),
        "reward": np.repeat([reward for _, reward in scores], times),
        "score": np.concatenate([score[some] for score, some in zip(values, highest, strict=True)]),
        "group": group[starts[held]],
    }
    chosen = np.bincount(held, minlength=len(starts)) > 0
    return Examples(pl.DataFrame(table), rows[np.flatnonzero(chosen.repeat(np.diff(starts, append=len(group))))])


def _highest(score: Array) -> Array:
    """The numbers of the `HELD_EXAMPLES` highest scores, of equal ones the first; NaN is none."""
    there = np.flatnonzero(~np.isnan(score))
    if len(there) > HELD_EXAMPLES:
        there = there[score[there] >= np.partition(score[there], -HELD_EXAMPLES)[-HELD_EXAMPLES]]
    return there[np.argsort(-score[there], kind="stable")[:HELD_EXAMPLES]]


# --- lengths and logged advantages ------------------------------------------------------------------------------------


def _length_sums(of: _Grouped, distance: Tensor, lengths: Tensor) -> LengthSums[Array]:
    """distance: the rewards minus the means of their groups; lengths: NaN where unknown."""
    own = of.centred(lengths)[1]
    moved, silent = torch.zeros_like(lengths), torch.zeros_like(lengths, dtype=torch.bool)
    if bool((lengths >= 1).all()):
        formula, batch = method_for("gdpo", replace(of.batch, convention=VERL, lengths=lengths))
        steps = formula(batch)
        silent = of.per_response(of.silent(steps.sums)) & steps.advantages.isfinite()
        moved = steps.advantages.abs().masked_fill_(~silent, 0)
    return LengthSums(
        squared=of.per_batch(of.per_group(own.square())),
        products=of.per_batch(of.per_group(own * distance)),
        silent_responses=of.per_batch(of.per_group(silent.to(lengths)).long()),
        silent_verl=of.per_batch(of.per_group(moved)),
    )


def _logged_sums(of: _Grouped, log: Tensors, table: pl.DataFrame, plan: Plan) -> tuple[LoggedSums[Array], Tensor]:
    """The sums, and (groups,) the size of the largest advantage that no rewards make; 0 where there is none.

    log and table hold the same responses.
    """
    shape, present = of.batch.rewards.shape[1:], ~log.advantages.isnan()
    error = torch.full_like(log.advantages, -torch.inf)
    wrong, testable = torch.zeros_like(present), torch.zeros_like(present)
    comparison = None
    scaled = torch.zeros(len(log.batch), dtype=torch.bool)
    if plan.recipe is not None and bool(present.any()):
        comparison = compare(log, plan.recipe)
        error = comparison.error.masked_fill(~present, -torch.inf)
        wrong = (error > comparison.allowed) & present
        testable = (comparison.computed.abs() > comparison.allowed) & present
        if bool(wrong.any()):
            scaled = same_direction(log, comparison)
    hidden = np.zeros(len(of.starts), dtype=np.int64)
    # Costly, and of interest only where the rewards do not explain the advantages.
    if bool(present.any()) and (plan.recipe is None or bool(wrong.any())) and hidden_inputs(table, plan.rewards):
        parts = table.partition_by("cell" if "cell" in table.columns else "batch", maintain_order=True)
        hidden = np.array([hidden_inputs(part, plan.rewards) for part in parts])

    def per_group(x: Tensor) -> Tensor:
        """(responses,) yes or no, counted in each group."""
        return of.per_group(x.view(shape).to(of.batch.rewards)).long()

    wrong_in_group, too_large = per_group(wrong), impossible(log, plan.recipe, comparison)
    sums = LoggedSums(
        count=of.per_batch(per_group(present)),
        zeros=of.per_batch(per_group(log.advantages == 0)),
        wrong=of.per_batch(wrong_in_group),
        impossible=of.per_batch(per_group(too_large)),
        testable=of.per_batch(per_group(testable)),
        wrong_groups=of.per_batch(wrong_in_group > 0),
        scaled_groups=of.per_batch(scaled & (wrong_in_group > 0)),
        hidden_groups=hidden,
        max_error=of.per_batch(-of.lowest(-error.view(shape)), np.maximum),
    )
    return sums, -of.lowest(-(log.advantages.abs().nan_to_num() * too_large).view(shape))
