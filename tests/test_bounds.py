"""Bounds that say “so much, and not less”: of each a case just inside and one just outside, made by hand."""

import json
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest
from fake_logs import write_ms_swift
from logs import lines

from gdpo_audit.logs.columns.totals import holds_one, near_total
from gdpo_audit.logs.names import reward_columns
from gdpo_audit.logs.numbers.sizes import drawn_at_random, infer, stretches
from gdpo_audit.logs.read import read_run
from gdpo_audit.trials.forecast_backtest import objection_of_run
from gdpo_audit.unexplained.added import added_column
from gdpo_audit.unexplained.residual import residual
from gdpo_core.pushes_by_rate import DifferingGroups

RNG = np.random.default_rng
pytestmark = pytest.mark.every_case


def centred(x, group):
    """Return x less the mean of each group. group: of each row, from 0 on."""
    return x - (np.bincount(group, x) / np.bincount(group))[group]


def apart_from(columns, group, seed=0):
    """Return noise that has mean 0 in each group, and there nothing in common with the columns; its largest size in
    each group is 1.
    """
    noise = np.zeros(len(group))
    for g in np.unique(group):
        here = group == g
        x = np.column_stack([np.ones(here.sum()), *(c[here] for c in columns)])
        drawn = RNG([seed, g]).normal(size=here.sum())
        left = drawn - x @ np.linalg.lstsq(x, drawn, rcond=None)[0]
        noise[here] = left / np.abs(left).max()
    return noise


def table(sizes, a, *rewards):
    """Return the rows of a run, and the names of its rewards. sizes: of its groups."""
    group, names = np.arange(len(sizes)).repeat(sizes), [f"r{k}" for k in range(len(rewards))]
    columns = dict(zip(reward_columns(names), rewards, strict=True))
    return pl.DataFrame({"batch": 0, "step": 0, "group": group, "advantage": a} | columns), names


def pattern(sizes, a, *rewards):
    log, names = table(sizes, a, *rewards)
    found = residual([log], names)
    return found and found.pattern


# --- patterns in advantages -------------------------------------------------------------------------------------------


def scaled(sizes, rewards=2, spread=1.0, broken=0):
    """Return the sizes of groups, advantages that are sums times a factor of the group, and the rewards. spread: how
    far the factors lie apart; broken: in how many groups the advantages are noise.
    """
    group = np.arange(len(sizes)).repeat(sizes)
    r = [RNG([1, k]).normal(size=len(group)) for k in range(rewards)]
    factor = np.where(np.arange(len(sizes)) % 2, 1 + spread, 1)
    a = centred(sum(r), group) * factor[group]
    noise = apart_from(r, group)
    return sizes, np.where(group < broken, noise, a), *r


OF_GROUP = "a factor for each group"


@pytest.mark.parametrize(("groups", "found"), [(8, True), (7, False)])
def test_an_estimator_needs_eight_groups(groups, found):
    assert (pattern(*scaled([8] * groups)) == OF_GROUP) == found


@pytest.mark.parametrize(("last", "found"), [(4, True), (3, False)])
def test_an_estimator_needs_twenty_equations_more_than_it_has_numbers(last, found):
    """Each of 11 groups has a factor and a mean, and two ratios of three weights are free: 44 − 22 − 2 = 20."""
    assert (pattern(*scaled([4] * 10 + [last], rewards=3)) == OF_GROUP) == found


@pytest.mark.parametrize(("broken", "found"), [(2, True), (3, False)])
def test_an_estimator_has_to_fit_nineteen_of_twenty_groups(broken, found):
    assert (pattern(*scaled([8] * 40, broken=broken)) == OF_GROUP) == found


@pytest.mark.parametrize(("spread", "found"), [(0.025, True), (0.015, False)])
def test_factors_of_groups_vary_from_two_percent_on(spread, found):
    assert (pattern(*scaled([8] * 20, spread=spread)) == OF_GROUP) == found


@pytest.mark.parametrize(("sizes", "found"), [([2] * 10, True), ([2] * 9, False), ([3] * 8, True), ([3] * 7, False)])
def test_an_order_needs_ten_pairs_and_eight_groups(sizes, found):
    group = np.arange(len(sizes)).repeat(sizes)
    r = RNG(2).normal(size=len(group))
    squashed = np.tanh(3 * centred(r, group)) * (1 + group)  # in the order of the reward, and no multiple of it
    assert (pattern(sizes, squashed, r) == "order") == found


@pytest.mark.parametrize(("follows", "found"), [(0.81, "mostly the rewards"), (0.79, None)])
def test_advantages_without_equal_rewards_follow_them_from_four_fifths_of_their_variance_on(follows, found):
    sizes, _, *r = scaled([8] * 20)
    assert pattern(sizes, mixed(sizes, r, follows), *r) == found


def mixed(sizes, r, follows):
    """Return advantages of which the rewards explain a part of the variance inside groups."""
    group = np.arange(len(sizes)).repeat(sizes)
    s, noise = centred(sum(r), group), apart_from(r, group)
    return s + noise * np.sqrt((1 / follows - 1) * (s @ s) / (noise @ noise))


@pytest.mark.parametrize(("follows", "consistent"), [(0.51, True), (0.49, False)])
def test_advantages_that_differ_at_equal_rewards_agree_with_them_from_half_of_their_variance_on(follows, consistent):
    sizes = [8] * 20
    r = [RNG([3, k]).integers(0, 2, 160).astype(float) for k in range(2)]
    log, names = table(sizes, mixed(sizes, r, follows), *r)
    found = residual([log], names)
    assert (found.pattern, found.consistent) == ("something is not logged", consistent)


@pytest.mark.parametrize(("noisy", "found"), [(slice(500, 527), True), (slice(240, 267), False)])
def test_patterns_are_looked_for_in_4000_responses(noisy, found):
    """There are 27 groups of noise among 527 of 8; in the first 500 they are more than a twentieth, or none."""
    sizes, a, *r = scaled([8] * 527)
    group = np.arange(527).repeat(8)
    bad = (group >= noisy.start) & (group < noisy.stop)
    assert (pattern(sizes, np.where(bad, apart_from(r, group), a), *r) == OF_GROUP) == found


def gated(closed, left=0.0):
    """Return the pattern of 20 groups of 8 whose advantages are those of GRPO, but next to 0 where a gate is closed.
    closed: for how many responses, one in a group; left: the size of an advantage there.
    """
    group = np.arange(160) // 8
    gate, r = np.ones(160), RNG(6).normal(size=160)
    gate[: 8 * closed : 8] = 0
    return pattern([8] * 20, np.where(gate, centred(gate + r, group), left), gate, r)


@pytest.mark.parametrize(("closed", "found"), [(4, True), (3, False)])
def test_a_gate_is_looked_for_that_is_closed_for_two_responses_in_a_hundred(closed, found):
    assert (gated(closed) == "gate on the advantage") == found


@pytest.mark.parametrize(("left", "found"), [(0.9e-6, True), (1.1e-6, False)])
def test_behind_a_gate_advantages_are_0_up_to_a_millionth(left, found):
    assert (gated(8, left) == "gate on the advantage") == found


@pytest.mark.parametrize(("off", "found"), [(0.8e-3, True), (1.2e-3, False)])
def test_an_estimator_fits_up_to_a_thousandth_of_the_largest_advantage_of_a_group(off, found):
    """One of 20 groups may be missed. In two of them something is added, of this size beside the largest advantage."""
    sizes, a, *r = scaled([8] * 20)
    group = np.arange(160) // 8
    largest = np.array([np.abs(a[group == g]).max() for g in range(20)])[group]
    assert (pattern(sizes, a + np.where(group < 2, off * largest * apart_from(r, group), 0), *r) == OF_GROUP) == found


# --- a column that was added ------------------------------------------------------------------------------------------


def added(groups=8, times=0.05, off=0.0):
    """Return how a column is found that was added to the advantages of so many groups. times: its factor, one or one
    per group; off: what else is in the advantages, relative to the largest of each group.
    """
    group = np.arange(groups).repeat(6)
    r, kl = RNG(4).normal(size=(2, len(group)))
    a = centred(r, group) + np.broadcast_to(times, groups)[group] * kl
    size = np.array([np.abs(centred(a, group)[group == g]).max() for g in range(groups)])
    log, [reward, column] = table([6] * groups, a + off * size[group] * apart_from([r, kl], group), r, kl)
    return added_column([log], [reward], column, lambda tables: "a recipe")


@pytest.mark.parametrize(("groups", "found"), [(8, True), (7, False)])
def test_a_column_that_was_added_shows_in_eight_groups(groups, found):
    assert (added(groups) is not None) == found
    assert not found or added(groups).times == 0.05


@pytest.mark.parametrize(("off", "found"), [(0.9e-5, True), (1.1e-5, False), (-0.9e-5, True), (-1.1e-5, False)])
def test_a_column_that_was_added_leaves_nothing_of_the_advantages(off, found):
    assert (added(off=off) is not None) == found


@pytest.mark.parametrize(("apart", "found"), [(0.9e-3, True), (1.1e-3, False)])
def test_a_column_that_was_added_has_the_same_factor_in_most_groups(apart, found):
    assert (added(9, 0.05 * (1 + apart * (np.arange(9) - 4).clip(-1, 1))) is not None) == found


# --- totals -----------------------------------------------------------------------------------------------------------


def with_total(explained, total, parts=2):
    """Return rows of some rewards and of a column of which they explain this part of the variance."""
    r = [RNG([5, k]).normal(size=400) for k in range(parts)]
    a = mixed([400], r, explained)
    return pl.DataFrame({total: a} | {f"r{k}": x for k, x in enumerate(r)})


@pytest.mark.parametrize(
    ("total", "explained", "left"),
    [
        *[("total_reward", 0.51, ["r0", "r1"]), ("total_reward", 0.49, None)],
        *[("score", 0.91, ["r0", "r1"]), ("score", 0.89, "nothing")],
    ],
)
def test_a_total_is_near_its_sum_from_a_half_on_and_by_a_name_that_may_be_a_rewards_from_nine_tenths_on(
    total, explained, left
):
    log = with_total(explained, total)
    choice = near_total(log, log.columns, (), "a.csv", asks=False)
    if left == "nothing":
        assert choice is None
    else:  # A total whose name can mean nothing else is none of the rewards, but below the bound it tells no weights.
        assert choice.rewards == ("r0", "r1") and (choice.weights is None) == (left is None)


@pytest.mark.parametrize(("explained", "found"), [(0.51, 1), (0.49, 0)])
def test_one_reward_makes_much_of_a_total_from_a_half_on(explained, found):
    log = with_total(explained, "total_reward", parts=1)
    assert len(holds_one(log, log.columns, ())) == found
    assert not holds_one(log.head(29), log.columns, ())


# --- sizes of groups --------------------------------------------------------------------------------------------------


def in_blocks(size, rows=12):
    return np.arange(rows // size).repeat(size)


@pytest.mark.parametrize(("fit", "size"), [(3, 4), (2, None)])
def test_a_size_has_to_fit_the_prompts_of_three_batches_in_five(fit, size):
    prompts = [in_blocks(4)] * fit + [in_blocks(1)] * (5 - fit)
    found = infer([12] * 5, [], prompts)
    assert (found and found.size) == size


@pytest.mark.parametrize(("batches", "found"), [(3, [(0, 4), (8, 2)]), (2, [])])
def test_another_size_has_to_hold_for_three_batches(batches, found):
    prompts = [in_blocks(4) + 100 * n for n in range(8)] + [in_blocks(2) + 100 * n for n in range(8, 8 + batches)]
    assert stretches([12] * len(prompts), [], prompts) == found


@pytest.mark.parametrize(("cut", "size"), [(0, 16), (8, 8)])
def test_a_size_that_a_configuration_names_counts_where_it_divides_every_batch(tmp_path, cut, size):
    """A batch has 32 rows, in groups of 8; one has 24, which 16 does not divide."""
    write_ms_swift(tmp_path, steps=4)
    steps = [json.loads(line) for line in (tmp_path / "completions.jsonl").read_text().splitlines()]
    steps[1] = {name: values[: 32 - cut] for name, values in steps[1].items()}
    log = {"completions.jsonl": lines(*steps), "args.json": json.dumps({"num_generations": 16}).encode()}
    assert read_run(log).group_size == size


@pytest.mark.parametrize(
    ("single", "of", "random"), [(2, 100, True), (1, 100, False), (4, 200, True), (3, 200, False), (1, 3, False)]
)
def test_from_two_groups_of_one_row_in_a_hundred_on_sizes_are_those_of_a_sample(single, of, random):
    rest = of - single
    assert drawn_at_random(np.array([1] * single + [3] * (rest // 3) + [4] * (rest - rest // 3))) == random


@pytest.mark.parametrize(("groups", "random"), [(60, True), (59, False)])
def test_of_fewer_than_sixty_groups_the_spread_of_sizes_says_nothing(groups, random):
    sizes = np.array([8] + [5] * 17 + [6] * 14 + [4] * 14 + [3] * 7 + [7] * 6 + [2])  # about binomial: 8 rows, 0.6 stay
    assert drawn_at_random(sizes[-groups:] if groups == 60 else np.delete(sizes, 1)) == random


# --- forecasts --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("ratio", "objects"), [(4.99, False), (5.01, True)])
@pytest.mark.parametrize("fast", [0, 1])
def test_speeds_are_unlike_from_five_times_on(fast, ratio, objects):
    speed = np.array([1.0, 1.0])
    speed[fast] = ratio
    test = SimpleNamespace(objection=lambda k, name: "")
    said = objection_of_run(test, SimpleNamespace(fitted=speed, error=np.zeros(2)), ["a", "b"])
    assert said.startswith(f"{'ab'[fast]} followed its push more than 5 times as fast") == objects
    unknown = SimpleNamespace(fitted=speed, error=speed * [0.51, 0.51])  # neither is surely above 0
    assert objection_of_run(test, unknown, ["a", "b"]) == ""


def test_a_group_always_differs_with_some_chance_and_else_with_the_chance_of_coins():
    """Two coins of a rate differ with the chance 2 p (1 − p), times the part of the variance inside groups."""
    p = 1 / (1 + np.exp(9))
    seldom, never = DifferingGroups.for_size(np.array([1.0, 1e-4]), 2).shares[:, 0]
    assert seldom == pytest.approx(2 * p * (1 - p), rel=1e-6) and seldom < 1e-3
    assert never == 1e-6 > 2 * p * (1 - p) * 1e-4
