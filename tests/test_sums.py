"""The sums of a run, compared batch by batch with gc.collapse, gc.gdpo and numpy; computed in pieces, and with few
rows.
"""

from dataclasses import fields, is_dataclass, replace
from itertools import combinations
from math import inf, nan, sqrt

import naive
import numpy as np
import polars as pl
import pytest
import torch
from helpers import crossed
from hypothesis import given
from hypothesis import strategies as st

import gdpo_core as gc
from gdpo_audit.logs.names import reward_column, reward_columns
from gdpo_audit.recipe.recipe import Recipe
from gdpo_audit.sums.summarise import pieces, summarise, summarise_all
from gdpo_audit.sums.sums import Basis, bin_batches, concat, select_batches, total

conventions = st.sampled_from(sorted(gc.CONVENTIONS))
EXTREMES = ("low", "high", "top", "max_error")  # each of one row; a break-even weight is a quotient of sums


def basis_for(rewards: int, weights=None, convention="paper", primary=None, recipe=None) -> Basis:
    weights = (1.0,) * rewards if weights is None else tuple(weights)
    return Basis(tuple(f"r{k}" for k in range(rewards)), weights, convention, primary, recipe)


def table_of(*batches, **columns) -> pl.DataFrame:
    """Return a table of batches, each given as rows of rewards and the group of each row. columns: further ones, over
    all rows.
    """
    rows = [row for batch in batches for row in batch[0]]
    batch = [b for b, (some, _) in enumerate(batches) for _ in some]
    group = [100 * b + g for b, (_, ids) in enumerate(batches) for g in ids]
    rewards = {
        reward_column(f"r{k}"): pl.Series(values, dtype=pl.Float64) for k, values in enumerate(zip(*rows, strict=True))
    }
    return pl.DataFrame({"batch": batch, "step": batch, "group": group, **rewards, **columns})


def dense(*batches, **columns) -> pl.DataFrame:
    """Return a table of batches, each (prompts, rollouts, rewards). columns: further ones, over all rows."""
    return table_of(
        *(([row for group in b for row in group], [g for g, group in enumerate(b) for _ in group]) for b in batches),
        **columns,
    )


def random_table(seed=0, batches=5, groups=6, rewards=3, ragged=False, missing=0.0, lengths=False) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    sizes = rng.integers(2, 7, batches * groups) if ragged else np.full(batches * groups, 4)
    n = sizes.sum()
    group = np.arange(batches * groups).repeat(sizes)
    columns = {reward_column(f"r{k}"): rng.integers(0, 3 + k, n) * (0.5, 0.1, 10.0)[k % 3] for k in range(rewards)}
    for values in columns.values():
        values[rng.random(n) < missing] = nan
    table = pl.DataFrame({"batch": group // groups, "step": group // groups, "group": group, **columns})
    return table.with_columns(length=pl.Series(rng.integers(1, 50, n))) if lengths else table


def one_by_one(table):
    return table.partition_by("batch", maintain_order=True)


def tensor(part, basis):
    return torch.from_numpy(part.select(reward_columns(basis.rewards)).to_numpy().copy())


def collapsed(part, basis, method):
    """Return what gc.collapse finds in a batch. Rewards that are float32 numbers are handed over as such, with the
    round-off that they may have.
    """
    r, groups, convention = tensor(part, basis), part["group"].to_list(), gc.CONVENTIONS[basis.convention]
    r = r.float() if torch.equal(r.float().double().nan_to_num(), r.nan_to_num()) else r
    if convention.last_step == "tokens":
        convention = replace(convention, last_step="responses")
    return gc.collapse(r, method, weights=list(basis.weights), groups=groups, convention=convention)


def in_float32(weights):
    return None if weights is None else np.float32(weights).tolist()


def share(part, whole):
    return part / whole if whole else nan


def near(expected, size=1e-12):
    return pytest.approx(expected, rel=size, abs=size, nan_ok=True)


def arrays_of(sums, path=""):
    """Return every array of a record by its path, such as "rewards.total" or "methods.grpo.update"."""
    if is_dataclass(sums):
        sums = {f.name: getattr(sums, f.name) for f in fields(sums)}
    if not isinstance(sums, dict):
        return {path: np.atleast_1d(sums)}
    return {k: v for name, part in sums.items() for k, v in arrays_of(part, f"{path}.{name}".strip(".")).items()}


def check_same(sums, expected, but=()):
    """Assert that two records agree: counts and extremes exactly, and sums to 1e-12. but: paths to leave out."""
    sums, expected = arrays_of(sums), arrays_of(expected)
    assert sums.keys() == expected.keys() and "methods.gdpo.tied_pairs" in sums
    for name, value in expected.items():
        if name not in but:
            exact = value.dtype.kind != "f" or name.endswith(EXTREMES)
            assert np.array_equal(sums[name], value) if exact else sums[name] == near(value), name


def summed(table, basis):
    return total(summarise(table, basis).batches)


def by_batch(sums):
    return [select_batches(sums, slice(i, i + 1)) for i in range(len(sums.batch))]


# --- compared with gc.collapse and gc.gdpo -------------------------------------------------------------------------


@pytest.mark.slow
@given(naive.batches(shuffled=False), conventions)
def test_one_batch_is_what_collapse_finds(batch, convention):
    basis = basis_for(len(batch.rows[0]), in_float32(batch.weights), convention, primary=0)
    table = table_of((batch.rows, batch.ids))
    t = summed(table, basis)
    for m in naive.METHODS:
        c = collapsed(table, basis, m)
        s = t.methods[m]
        assert (t.groups, s.mixed_groups, s.tied_pairs) == (c.groups, c.mixed_groups, c.tied_pair_count)
        assert share(s.tie_groups, s.mixed_groups) == near(c.groups_with_ties)
        assert share(s.tied_pairs, s.different_pairs) == near(c.tied_pairs)
        assert share(s.levels, s.mixed_groups) == near(c.levels)
        assert share(s.silent_groups, t.groups) == near(c.silent_groups)
        assert share(s.inverted, s.primary_pairs) == near(c.inversions(0))
        if s.squares:
            assert [share(part, s.squares) for part in s.update] == near(list(c.update_share), 1e-9)


@pytest.mark.parametrize("convention, ragged, missing", crossed(gc.CONVENTIONS, (False, True), (0.1, 0.0)))
def test_each_batch_is_computed_on_its_own(convention, ragged, missing):
    table = random_table(1, batches=3, ragged=ragged, missing=missing)
    basis = basis_for(3, (1.0, 0.3, -2.0), convention, primary=1)
    together = by_batch(summarise(table, basis).batches)
    for batch, part in zip(together, one_by_one(table), strict=True):
        check_same(batch, summarise(part, basis).batches)


def test_float32_rewards_tie_in_spite_of_their_round_off():
    # The totals are .8, .8, .8 and 1.2.
    rewards = np.float32([[0.1, 0.7], [0.7, 0.1], [0.2, 0.6], [0.3, 0.9]]).tolist()
    t = summed(table_of((rewards, [0] * 4)), basis_for(2))
    assert (t.methods["grpo"].levels, t.different_pairs, t.methods["grpo"].tied_pairs) == (2, 6, 3)


# --- rewards and lengths, compared with numpy ----------------------------------------------------------------------


def centred(part, name):
    value = part[name].to_numpy().astype(float)
    group = part["group"].to_numpy()
    return value - np.array([np.nanmean(value[group == g]) for g in group])


@pytest.mark.parametrize("ragged", (False, True))
def test_the_sums_of_rewards_are_those_of_numpy(ragged):
    table, basis = random_table(4, ragged=ragged, missing=0.1), basis_for(3)
    t = summed(table, basis)
    for k, name in enumerate(reward_columns(basis.rewards)):
        x = table[name].to_numpy()
        x = x[~np.isnan(x)]
        r = t.rewards
        assert r.present[k] == len(x)
        # Of a reward, 14 digits count.
        assert (r.low[k], r.high[k]) == pytest.approx((x.min(), x.max()), rel=1e-13, abs=0)
        assert r.top[k] == x[x > x.max() * (1 - 1e-13)].min()
        assert (r.total[k], r.scatter[k]) == near((x.sum(), ((x - x.mean()) ** 2).sum()))
        assert r.squared[k, k] == r.products[k, k] == near(np.nansum(centred(table, name) ** 2))
        sizes = table.group_by("group").agg(pl.col(name).fill_nan(None).count())[name]
        assert r.degrees[k] == sum(max(n - 1, 0) for n in sizes)
    sizes = table.group_by("group").len()["len"]
    assert (t.responses, t.groups) == (len(table), len(sizes))


@pytest.mark.parametrize("missing", (0.0, 0.2))
def test_the_correlation_inside_groups_is_that_of_numpy(missing):
    table, basis = random_table(5, missing=missing), basis_for(3)
    r = summed(table, basis).rewards
    for i, j in combinations(range(3), 2):
        x, y = centred(table, reward_column(f"r{i}")), centred(table, reward_column(f"r{j}"))
        both = ~(np.isnan(x) | np.isnan(y))
        size = sqrt(r.squared[i, j] * r.squared[j, i])
        expected = (x[both] @ y[both]) / sqrt((x[both] @ x[both]) * (y[both] @ y[both]))
        assert r.products[i, j] / size == r.products[j, i] / size == near(expected)
        if not missing:
            assert expected == near(np.corrcoef(x, y)[0, 1])
            for k, other in ((i, j), (j, i)):  # Both are the same squares, added up in two ways.
                assert r.squared[k, k] == near(r.squared[k, other])


def test_dead_faint_and_missing_rewards():
    groups = [
        [[1, 5.0, nan], [1, 5.01, nan], [0, 5.02, nan]],
        [[1, 5.0, nan], [1, 5.0, nan], [1, 5.0, nan]],
        [[0, 0.0, nan], [1, 9.0, nan], [1, nan, nan]],
    ]
    t = summed(dense(groups), basis_for(3))
    r = t.rewards
    assert r.dead_groups.tolist() == [1, 1, 3]
    assert r.holding_groups.tolist() == [3, 3, 0]
    assert r.faint_groups.tolist() == [0, 1, 0]  # The values go from 5.00 to 5.02, a std of 0.01 beside 5.
    assert (r.present[2], r.total[2], r.low[2], r.high[2]) == (0, 0.0, inf, -inf)
    assert t.mixed_groups == 2 and t.different_pairs == 6


def test_groups_that_a_filter_by_the_sum_drops_though_gdpo_could_use_them():
    cancelled = [[1, 0], [0, 1], [1, 0], [1, 0]]  # The sum is 1 in every answer, and the z cancel as well.
    t = summed(dense([cancelled, [[1, 1]] * 4, [[1, 0], [0, 0], [1, 1], [0, 1]]]), basis_for(2))
    assert (t.constant_sums, t.live_responses, t.filtered_groups) == (2, 4, 0)
    # The sum is 1 in every answer, but the z of a reward that fewer answers have is larger.
    three = [[1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 0, 0]]
    t = summed(dense([three, [[1, 1, 1]] * 4]), basis_for(3))
    assert (t.constant_sums, t.live_responses, t.filtered_groups) == (2, 4, 1)
    # Over 8 live responses with ddof 1, the batch step makes the squares sum to 7.
    assert t.methods["gdpo"].squares == near(7.0)


@pytest.mark.parametrize("ragged", (False, True))
def test_lengths_are_summed_and_put_beside_the_rewards(ragged):
    table, basis = random_table(6, ragged=ragged, lengths=True, missing=0.1), basis_for(3)
    t = summed(table, basis)
    distance = centred(table, "length")
    assert t.lengths.squared == near(distance @ distance)
    assert (t.lengths.present, t.lengths.total) == (len(table), table["length"].sum())
    assert t.lengths.products[0] == near(np.nansum(distance * centred(table, reward_column("r0"))))


def test_without_all_lengths_of_a_batch_its_last_step_runs_over_responses():
    table, basis = random_table(7, lengths=True), basis_for(3, convention="verl")
    holed = table.with_columns(pl.when(pl.int_range(pl.len()) > 0).then("length"))
    whole, none, some = (
        summarise(t, basis).batches.methods["gdpo"].update[0].tolist() for t in (table, table.drop("length"), holed)
    )
    assert some == near([none[0], *whole[1:]])
    assert some[0] != near(whole[0], 1e-6)


# --- logged advantages ---------------------------------------------------------------------------------------------

RECIPE = Recipe("gdpo", "trl", (1.0, 0.3, 2.0), (), False)


def logged_table(**options):
    table = random_table(8, **options)
    a = [
        gc.gdpo(tensor(part, basis_for(3)), weights=RECIPE.weights, groups=part["group"].to_list(), convention=gc.TRL)
        for part in one_by_one(table)
    ]
    return table.with_columns(advantage=pl.Series(torch.cat(a).float().double().numpy()))


@pytest.mark.parametrize("ragged", (False, True))
def test_a_log_that_its_recipe_reproduces_is_not_off(ragged):
    table = logged_table(ragged=ragged)
    logged = summed(table, basis_for(3, RECIPE.weights, "trl", recipe=RECIPE)).logged
    assert (logged.count, logged.zeros) == (len(table), (table["advantage"] == 0).sum())
    assert (logged.wrong, logged.wrong_groups, logged.hidden_groups) == (0, 0, 0) and 0 < logged.max_error < 2e-6


def test_advantages_that_are_off_are_counted_where_they_are():
    table = logged_table()
    row = pl.int_range(pl.len())
    scaled = table["group"] == 7  # This group is in the second batch.
    table = table.with_columns(
        advantage=pl.when(row == 0).then(pl.col("advantage") + 0.5)
        .when(row == 1).then(nan)
        .when(scaled).then(pl.col("advantage") * 1.5)
        .otherwise("advantage")
    )  # fmt: skip
    batches = summarise(table, basis_for(3, RECIPE.weights, "trl", recipe=RECIPE)).batches
    logged = batches.logged
    assert (batches.responses - logged.count).tolist() == [1, 0, 0, 0, 0]
    assert logged.wrong_groups.tolist() == [1, 1, 0, 0, 0]
    assert logged.scaled_groups.tolist() == [0, 1, 0, 0, 0]
    assert logged.wrong[0] == 1 and logged.wrong[2:].tolist() == [0, 0, 0]
    assert logged.max_error[0] == pytest.approx(0.5, abs=1e-5)


# --- logs in pieces, and logs of few rows --------------------------------------------------------------------------


@pytest.mark.parametrize("ragged", (False, True))
def test_pieces_of_whole_batches_come_to_the_same(monkeypatch, ragged):
    table, basis = random_table(0, batches=9, ragged=ragged, missing=0.1, lengths=True), basis_for(3, primary=0)
    whole = summarise(table, basis).batches
    monkeypatch.setattr("gdpo_audit.sums.summarise._AT_ONCE", 50)
    parts = one_by_one(table)
    cut = list(pieces([pl.concat(parts[5:]), pl.concat(parts[:5])]))
    assert 2 < len(cut) < 9 and sum(map(len, cut)) == len(table)
    both = summarise_all([pl.concat(parts[5:]), pl.concat(parts[:5])], basis).batches
    assert both.batch.tolist() == list(range(9))
    check_same(both, whole)
    check_same(total(both), total(whole))


@pytest.mark.slow
@pytest.mark.parametrize("mean", [1e4, 1e9, -1e12])
def test_a_large_mean_costs_the_scatter_no_digits(mean):
    table = random_table(3, batches=40, missing=0.2).with_columns(pl.col(reward_column("r0")) + mean)
    x = table[reward_column("r0")].to_numpy()
    x = x[~np.isnan(x)] - mean  # The difference is exact, because the values lie close together.
    merged = concat([summarise(part, basis_for(3)).batches for part in one_by_one(table)])
    for together in (total(merged), total(bin_batches(merged, 7)), total(bin_batches(merged, 1))):
        assert together.rewards.scatter[0] == pytest.approx(((x - x.mean()) ** 2).sum(), rel=1e-9 + 1e-16 * abs(mean))


@pytest.mark.parametrize("at_most", (1, 3, 7, 20))
def test_bins_hold_the_same_sums_in_the_order_of_steps(at_most):
    batches = summarise(random_table(10, batches=17), basis_for(3)).batches
    few = bin_batches(batches, at_most)
    assert len(few.batch) == min(17, at_most)
    assert (few.step <= few.step_last).all() and (few.step_last[:-1] < few.step[1:]).all()
    check_same(total(few), total(batches))


def test_a_fingerprint_tells_the_same_rows_in_the_same_order():
    rows = [[1.0, 0.5], [0.0, 0.5], [1.0, nan], [0.0, 2.0]]
    again, swapped, minus = [*rows], [rows[1], rows[0], *rows[2:]], [[-0.0 if x == 0 else x for x in r] for r in rows]
    other = [*rows[:3], [0.0, 2.5]]
    ids = [0, 0, 1, 1]
    table = table_of(*((b, ids) for b in (rows, again, swapped, minus, other)))
    batches = summarise(table, basis_for(2)).batches
    mark, rows_alone = batches.fingerprint.tolist(), batches.content.tolist()
    assert mark[0] == mark[1] == mark[3] and len({mark[0], mark[2], mark[4]}) == 3
    assert {*rows_alone[:4]} == {rows_alone[0]} != {rows_alone[4]}
    advantage = table.with_columns(advantage=pl.Series([0.0] * 4 + [1.0] * 16))
    mark = summarise(advantage, basis_for(2)).batches.fingerprint.tolist()
    assert mark[0] != mark[1]


# --- bad input -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "apart, call",
    (
        ("group", lambda t, p: summarise(t.sort("batch", pl.int_range(pl.len()) % 2), p)),
        ("batch", lambda t, p: summarise(t.with_columns(batch=pl.col("group") % 2), p)),
    ),
)
def test_rows_that_lie_apart_are_named(apart, call):
    with pytest.raises(gc.InputError, match=f"^{apart}: expected "):
        call(random_table(batches=2), basis_for(3))


@pytest.mark.parametrize("ragged", [False, True])
@pytest.mark.parametrize("missing", [0.0, 0.2])
@pytest.mark.filterwarnings("ignore:Degrees of freedom", "ignore:Mean of empty")
def test_the_break_even_weight_is_that_of_the_pair_that_turns_last(ragged, missing):
    table = random_table(seed=7, ragged=ragged, missing=missing)
    sums = total(summarise(table, basis_for(3, weights=(0.5, 1.0, -2.0), primary=1)).batches)
    needed = {"grpo": [], "gdpo": []}
    for group in table.partition_by("group"):
        r = group.select(reward_columns(["r0", "r1", "r2"])).to_numpy()
        with np.errstate(invalid="ignore", divide="ignore"):
            z = (r - np.nanmean(r, 0)) / np.nanstd(r, 0, ddof=1)
        for method, x in (("grpo", r), ("gdpo", z)):
            rest = np.nan_to_num(x[:, 0]) * 0.5 - np.nan_to_num(x[:, 2]) * 2.0
            pairs = [(i, j) for i in range(len(x)) for j in range(len(x)) if x[j, 1] > x[i, 1] + 1e-9]
            needed[method] += [(rest[i] - rest[j]) / (x[j, 1] - x[i, 1]) for i, j in pairs]
    for method, weights in needed.items():
        assert max(weights) > 1  # 1 is the weight that the reward has now.
        assert sums.methods[method].break_even == pytest.approx(max(weights), rel=1e-7)
    assert total(summarise(table, basis_for(3)).batches).methods["gdpo"].break_even == -inf
    heavy = basis_for(3, weights=(0.5, 2 * max(needed["gdpo"]) + 1, -2.0), primary=1)
    assert total(summarise(table, heavy).batches).methods["gdpo"].break_even == -inf  # No pair is in the wrong order.
