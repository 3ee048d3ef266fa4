"""The sums that an audit needs, one row per batch. They merge, so that no log has to fit into memory."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
import polars as pl
import torch
from torch import Tensor

from gdpo_core.batch import Batch, whole
from gdpo_core.collapse import SAME, update_parts
from gdpo_core.conventions import CONVENTIONS, VERL
from gdpo_core.errors import expect, expect_index
from gdpo_core.normalise import normalise
from gdpo_core.pairs import blocks, ordered, told_apart
from gdpo_core.reproduce import compare, hidden_inputs, same_direction
from gdpo_core.reproduce.recipe import Log, Recipe, holds_lengths, prepared, read_log, starts_of

# A reward is nearly constant in a group if its std is at most FAINT of its largest absolute value there. A reward with
# few values, such as right or wrong plus a constant, does not count: one lowest and one highest response aside, at most
# the part AT_ENDS of the responses may have the lowest or the highest value.
FAINT, AT_ENDS = 1e-2, 0.25

Sums = dict[str, Tensor]  # (batches,) by name


@dataclass(frozen=True)
class Grouped:
    """Several batches computed as one, with sums over groups and over batches."""

    batch: Batch
    batch_of: Tensor  # (groups,) the batch of each group
    batches: int  # how many there are

    def over_groups(self, x: Tensor) -> Tensor:
        """(…, prompts, rollouts) or (…, responses) summed to (…, groups)."""
        return self._flat(self.batch.group.total(x))

    def lowest(self, x: Tensor) -> Tensor:
        """(…, groups) the lowest value of each group."""
        return self._flat(self.batch.group.lowest(x))

    def silent(self, x: Tensor) -> Tensor:
        """(groups,) whether every value of a group is 0; NaN is not 0."""
        return self.lowest(-x.abs()) == 0

    def back(self, x: Tensor) -> Tensor:
        """(…, groups) repeated for each response of the group."""
        return x[..., None] if self.batch.index is None else self.batch.group.spread(x)

    def centred(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """The std, (…, groups), and each value minus the mean of its group; 0 where x is NaN."""
        centred = normalise(x, self.batch.group, eps=None, ddof=1, skip=bool(x.isnan().any()))
        return self._flat(centred.std), centred.value.nan_to_num_(nan=0.0)

    def sums(self, **of_groups: Tensor) -> Sums:
        """(groups,) summed to (batches,); of (rewards, groups) one sum per reward, its name ending in _0, _1, …"""
        found = {}
        for name, x in of_groups.items():
            x = x if x.is_floating_point() else x.long()
            for k, row in enumerate(x.reshape(-1, x.shape[-1])):
                total = row.new_zeros(self.batches).index_add_(0, self.batch_of, row)
                found[name if x.ndim == 1 else f"{name}_{k}"] = total
        return found

    def lowest_of_batch(self, x: Tensor) -> Tensor:
        """(batches,) the lowest value of each batch; x: (groups,)."""
        return x.new_zeros(self.batches).scatter_reduce_(0, self.batch_of, x, "amin", include_self=False)

    def _flat(self, x: Tensor) -> Tensor:
        return x.squeeze(-1) if self.batch.index is None else x


def group_sums(of: Grouped) -> Sums:
    """The number of responses and groups, and the sizes of the smallest and the largest group."""
    sizes = of.over_groups(torch.ones_like(of.batch.rewards[0])).long()
    return of.sums(responses=sizes, groups=torch.ones_like(sizes)) | {
        "smallest_group": of.lowest_of_batch(sizes),
        "largest_group": -of.lowest_of_batch(-sizes),
    }


def reward_sums(of: Grouped, off: Tensor, std: Tensor) -> Sums:
    """Sums over each reward and each pair of rewards; off, std: as `Grouped.centred` gives them for the rewards."""
    r, there = of.batch.rewards, ~of.batch.rewards.isnan()
    values, squared = r.nan_to_num(nan=0.0), off.square()
    count = of.over_groups(there.to(r))  # (rewards, groups)
    largest = -of.lowest(-values.abs())
    low, high = of.lowest(r.nan_to_num(nan=torch.inf)), -of.lowest((-r).nan_to_num(nan=torch.inf))
    at_ends = of.over_groups(((r == of.back(low)) | (r == of.back(high))).to(r))
    fine = (count > 2) & (at_ends - 2 <= AT_ENDS * (count - 2))
    found = of.sums(
        there=count.long(),
        total=of.over_groups(values),
        squares=of.over_groups(values.square()),
        dead_groups=std == 0,
        there_groups=count > 0,
        faint_groups=(std > 0) & (std <= FAINT * largest) & fine,
        spread=of.over_groups(squared),
        spread_count=(count - 1).clamp_(min=0).long(),
    )
    for k in range(len(r)):
        found |= {f"low_{k}": of.lowest_of_batch(low[k]), f"high_{k}": -of.lowest_of_batch(-high[k])}
    for i, j in combinations(range(len(r)), 2):
        products = {
            f"cross_{i}_{j}": off[i] * off[j],
            f"cross_squares_{i}_{j}": squared[i] * there[j],
            f"cross_squares_{j}_{i}": squared[j] * there[i],
        }
        found |= of.sums(**{name: of.over_groups(x) for name, x in products.items()})
    return found


def length_sums(of: Grouped, off: Tensor, lengths: Tensor) -> Sums:
    """Sums over the lengths, NaN where unknown, and their products with rewards; off: the rewards minus their means."""
    there, values = ~lengths.isnan(), lengths.nan_to_num(nan=0.0)
    beside = of.centred(lengths)[1]
    found = of.sums(
        length_there=of.over_groups(there.to(values)).long(),
        length_total=of.over_groups(values),
        length_squares=of.over_groups(values.square()),
        length_spread=of.over_groups(beside.square()),
        length_cross=of.over_groups(beside * off),
    )
    moved, silent = torch.zeros_like(lengths), torch.zeros_like(there)
    if bool((lengths >= 1).all()):
        formula, batch = prepared("gdpo", replace(of.batch, convention=VERL, lengths=lengths))
        steps = formula(batch)
        silent = of.back(of.silent(steps.sums)) & steps.advantages.isfinite()
        moved = steps.advantages.abs().masked_fill_(~silent, 0)
    return found | of.sums(silent_verl=of.over_groups(moved), silent_responses=of.over_groups(silent.to(values)).long())


def method_sums(of: Grouped, methods: Sequence[str], primary: int | None, same: float, dead: Tensor) -> Sums:
    """Sums over the advantages of each method.

    methods: GRPO, GRPO without std and GDPO among them. primary: the index of the primary reward. same: as in
    `told_apart`. dead: (rewards, groups) whether a reward is constant.
    """
    there = ~of.batch.rewards.isnan().all(0)  # a response without any reward only counts for silent groups
    advantages, known, silent = dict[str, Tensor](), dict[str, Tensor](), dict[str, Tensor]()
    found: Sums = {}
    for method in methods:
        formula, batch = prepared(method, of.batch)
        steps = formula(batch)
        a = batch.learnt(steps.advantages)
        advantages[method], silent[method] = a.flatten(), of.silent(a)
        # A missing reward that makes an advantage NaN does so in its whole group.
        known[method] = of.over_groups((a.isnan() & there).to(a)) == 0
        found |= of.sums(
            **{f"{method}_silent_groups": silent[method], f"{method}_squares": of.over_groups(a.nan_to_num().square())}
        )
        found |= {
            f"{method}_part_{k}": part
            for k, part in enumerate(update_parts(batch, steps.z, a, batch.batches or whole(a)))
        }
        if method == "gdpo":
            # Under some conventions GRPO makes the advantages of a single reward.
            before = steps.sums if steps.z is not None else a

    rewards, kept = of.batch.rewards.flatten(1), there.flatten()
    parts = list(blocks(of.batch.group_index(), None if of.batch.index is not None else there.shape[-1]))
    told = told_apart(parts, rewards, kept, advantages, same)
    mixed = told.vectors > 1
    found |= of.sums(
        mixed_groups=mixed, different_pairs=told.pairs, vectors=told.vectors * mixed, dead_mixed=dead & mixed
    )
    for method, counted in known.items():
        tied, seen = told.tied[method] * counted, mixed & counted
        sums = {
            "tie_groups": tied > 0,
            "tied_pairs": tied,
            "levels": told.levels[method] * seen,
            "mixed_groups": seen,
            "different_pairs": told.pairs * counted,
            "vectors": told.vectors * seen,
        }
        found |= of.sums(**{f"{method}_{name}": x for name, x in sums.items()})
    found |= _signal_sums(of, before, silent["grpo_no_std"])
    if primary is None:
        zero = torch.zeros_like(told.pairs)
        names = [f"{m}_{name}" for m in methods for name in ("primary_pairs", "inverted", "tied_primary")]
        return found | of.sums(**dict.fromkeys(("primary_pairs", *names), zero))
    order = ordered(parts, rewards[primary].masked_fill(~kept, torch.nan), told.level)
    for method, counted in known.items():
        sums = {
            "primary_pairs": order.pairs * counted,
            "inverted": order.inverted[method] * counted,
            "tied_primary": order.tied[method] * counted,
        }
        found |= of.sums(**{f"{method}_{name}": x for name, x in sums.items()})
    return found | of.sums(primary_pairs=order.pairs)


def _signal_sums(of: Grouped, s: Tensor, flat: Tensor) -> Sums:
    """Sums over s, GDPO's advantages before its step over the batch; flat: (groups,) whether Σ w·r is constant."""
    flat = flat | (of.over_groups(torch.ones_like(s)) == 1)
    live = ~of.silent(s.nan_to_num())
    return of.sums(
        live_groups=live,
        live_responses=of.over_groups((~s.isnan()).to(s)).long() * live,
        gdpo_sum_squares=of.over_groups(s.nan_to_num().square()),
        zero_sum_std_groups=flat,
        filtered_groups=flat & live,
    )


def logged_sums(of: Grouped, log: Log, table: pl.DataFrame, rewards: Sequence[str], recipe: Recipe | None) -> Sums:
    """Sums over the logged advantages; log and table hold the same responses.

    Without a recipe no row counts as off. max_error is −∞ where nothing is compared.
    """
    logged = log.advantages.view(of.batch.rewards.shape[1:])
    there, a = ~logged.isnan(), logged.nan_to_num(nan=0.0)
    error, off = torch.full_like(a, -torch.inf), torch.zeros_like(there)
    if recipe is not None and bool(there.any()):
        errors, allowed = compare(table, rewards, recipe)
        error = errors.view_as(a).masked_fill(~there, -torch.inf)
        off = (errors > allowed).view_as(a) & there
    off_in_group = of.over_groups(off.to(a)).long()
    same = torch.zeros_like(off_in_group).bool()
    if recipe is not None and bool(off.any()):
        same = same_direction(table, rewards, recipe)
    hidden = torch.zeros(of.batches, dtype=torch.int64)
    # Costly, and of interest only where the rewards do not explain the advantages.
    if bool(there.any()) and (recipe is None or bool(off.any())) and hidden_inputs(table, rewards):
        parts = table.partition_by("batch", maintain_order=True)
        hidden = torch.tensor([hidden_inputs(part, rewards) for part in parts])
    return of.sums(
        logged=of.over_groups(there.to(a)).long(),
        logged_missing=of.over_groups((~there).to(a)).long() * ("advantage" in table.columns),
        logged_zero=of.over_groups((logged == 0).to(a)).long(),
        logged_total=of.over_groups(a),
        logged_squares=of.over_groups(a.square()),
        rows_off=off_in_group,
        groups_off=off_in_group > 0,
        groups_off_same_direction=same & (off_in_group > 0),
    ) | {"hidden_groups": hidden, "max_error": -of.lowest_of_batch(of.lowest(-error))}


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


_ROWS = 200

# Small batches can be equal by chance. A batch counts as repeated if it holds at least so many pairs of responses that
# differ, or if at least this share of the run's batches equals the batch before.
_PAIRS = 24
_SHARE = 0.4


def over_time(summary: Summary) -> pl.DataFrame:
    """The run in at most 200 rows: one row per step, or per few steps where there are more. The columns:

    step, step_last, responses, groups. By reward: mean:reward, std:reward, missing:reward (responses), dead:reward (the
    share, of the groups that hold the reward, in which it is constant). By method: share:method:reward (of the update),
    silent:method (share of the groups). By pair in the order of the rewards: correlation:reward:reward (inside groups).
    """
    names = summary.plan.rewards
    b = binned(summary, _ROWS).batches
    methods = [name.removesuffix("_silent_groups") for name in b.columns if name.endswith("_silent_groups")]
    found = {}
    for k, name in enumerate(names):
        n, total, squares = (pl.col(f"{what}_{k}") for what in ("there", "total", "squares"))
        found[f"mean:{name}"] = _ratio(total, n)
        found[f"std:{name}"] = _ratio((squares - total**2 / n).clip(0), n - 1).sqrt()
        found[f"missing:{name}"] = pl.col("responses") - n
        held = pl.col(f"there_groups_{k}").cast(pl.Int64)
        found[f"dead:{name}"] = _ratio(pl.col(f"dead_groups_{k}") - pl.col("groups") + held, held)
    for m in methods:
        parts = [pl.col(f"{m}_part_{k}") for k in range(len(names))]
        for name, part in zip(names, parts, strict=True):
            found[f"share:{m}:{name}"] = _ratio(part, pl.sum_horizontal(parts))
        found[f"silent:{m}"] = _ratio(pl.col(f"{m}_silent_groups"), pl.col("groups"))
    for i, j in combinations(range(len(names)), 2):
        size = (pl.col(f"cross_squares_{i}_{j}") * pl.col(f"cross_squares_{j}_{i}")).sqrt()
        found[f"correlation:{names[i]}:{names[j]}"] = _ratio(pl.col(f"cross_{i}_{j}"), size)
    columns = [pl.col("step", "step_last", "responses", "groups")]
    return b.select(columns + [expression.alias(name) for name, expression in found.items()])


def repeated_batches(batches: pl.DataFrame) -> pl.Series:
    """One boolean per batch: whether it repeats the rows of the batch before it."""
    same = (batches["fingerprint"] == batches["fingerprint"].shift(1)).fill_null(False)
    # Batches in which nothing differs are equal without being repeated.
    differs = batches["different_pairs"] > 0
    same &= differs
    often = int(same.sum()) >= _SHARE * max(int(differs.sum()) - 1, 1)
    return same & (batches["different_pairs"] >= _PAIRS) if not often or len(batches) < 4 else same


def _ratio(a: pl.Expr, b: pl.Expr) -> pl.Expr:
    return pl.when(b > 0).then(a / b)
