"""The exact counts, compared with the tables of the research notes and with two slow enumerations that share no code
with them.
"""

from dataclasses import replace
from itertools import combinations_with_replacement, product

import pytest
from helpers import check_refusals, close

import gdpo_core as gc

BY_ROLLOUTS = {  # 2 rewards, 2 to 16 rollouts
    "grpo": [2, 4, 7, 11, 16, 22, 29, 37, 46, 56, 67, 79, 92, 106, 121],
    "grpo_no_std": [3, 6, 10, 15, 21, 28, 36, 45, 55, 66, 78, 91, 105, 120, 136],
    "gdpo": [3, 6, 14, 26, 38, 59, 81, 109, 145, 186, 230, 288, 350, 419, 497],
}
DIFFERENT_GROUPS = [10, 20, 35, 56, 84, 120, 165, 220, 286, 364, 455, 560, 680, 816, 969]
BY_REWARDS = {  # 4 rollouts, 1 to 8 rewards
    "grpo": [4, 7, 14, 23, 41, 56, 89, 119],
    "grpo_no_std": [4, 10, 20, 35, 56, 84, 120, 165],
    "gdpo": [4, 14, 45, 127, 318, 722, 1507, 2929],
}
COUNTED_METHODS = tuple(BY_ROLLOUTS)
SMALL = [(1, 1), (1, 3), (2, 1), (2, 2), (2, 5), (3, 1), (3, 2), (3, 4), (4, 2), (4, 3), (5, 2), (5, 3), (6, 2), (9, 2)]
sizes = pytest.mark.parametrize("rollouts, rewards", SMALL)
methods = pytest.mark.parametrize("method", COUNTED_METHODS)


# --- counts by enumeration -------------------------------------------------------------------------------------------


def all_groups(rollouts, rewards):
    return combinations_with_replacement(product((0, 1), repeat=rewards), rollouts)


# --- exact counts ----------------------------------------------------------------------------------------------------


@methods
def test_the_counts_are_those_of_the_tables(method):
    assert [gc.count_distinct(method, g, 2) for g in range(2, 17)] == BY_ROLLOUTS[method]
    assert [gc.count_distinct(method, 4, k) for k in range(1, 9)] == BY_REWARDS[method]


@methods
@sizes
def test_the_counts_are_those_of_the_advantages_themselves(method, rollouts, rewards):
    a = gc.group_advantages(gc.enumerate_groups(rollouts, rewards), method)
    assert a.shape == (gc.count_groups(rollouts, rewards), rollouts)
    assert gc.count_distinct(method, rollouts, rewards) == len((a.sort().values * 1e9).round().unique(dim=0))


def test_far_larger_counts_stay_integers():
    assert gc.count_distinct("grpo_no_std", 1000, 2) == 1000 * 1001 // 2
    assert gc.count_distinct("grpo", 1000, 2) == 1000 * 999 // 2 + 1
    assert gc.count_distinct("grpo", 1000, 1000) < gc.count_distinct("grpo_no_std", 1000, 1000)


# --- groups ----------------------------------------------------------------------------------------------------------


def test_there_are_as_many_groups_as_the_table_says():
    assert [gc.count_groups(g, 2) for g in range(2, 17)] == DIFFERENT_GROUPS


@sizes
def test_every_group_is_enumerated_once(rollouts, rewards):
    groups = gc.enumerate_groups(rollouts, rewards).int().tolist()
    assert [tuple(map(tuple, group)) for group in groups] == list(all_groups(rollouts, rewards))


# --- an eps splits one advantage vector ------------------------------------------------------------------------------


def test_eps_splits_what_is_one_advantage():
    convention = replace(gc.PAPER, group_eps=1e-4)
    a = gc.group_advantages([[[0, 0], [0, 1]], [[0, 0], [1, 1]]], "grpo", convention=convention)
    assert a[:, 1].tolist() == pytest.approx([0.5 / (0.5**0.5 + 1e-4), 1 / (2**0.5 + 1e-4)], abs=1e-15)
    assert [f"{x:.4f}" for x in a[:, 1].tolist()] == ["0.7070", "0.7071"]


# --- bad input -------------------------------------------------------------------------------------------------------

BAD = {"rollouts": (0, 2.0, True, "2", None, 10**9), "rewards": (0, None, 1001)}
OF_COUNTS = BAD | {"method": ("ppo", None, "dvao")}
TOO_LARGE = "rollouts, rewards: expected sizes that need at most 2,500,000 numbers, got"


def test_what_cannot_be_used_is_named(subtests):
    size = {"rollouts": 2, "rewards": 2}
    for call in (gc.count_groups, gc.enumerate_groups):
        check_refusals(subtests, call, size, BAD, shown=True)
    for method in COUNTED_METHODS:
        check_refusals(subtests, gc.count_distinct, size | {"method": method}, OF_COUNTS, shown=True)


@pytest.mark.slow
@pytest.mark.parametrize("size", [(64, 2), (1000, 1000)])
def test_sizes_that_would_take_too_long_are_refused(size):
    with pytest.raises(gc.InputError, match=f"{TOO_LARGE} {size[0]} and {size[1]}"):
        gc.count_distinct("gdpo", *size)


@pytest.mark.parametrize("size", [(4, 9), (500, 2)])
def test_too_many_groups_to_enumerate_are_refused(size):
    with pytest.raises(gc.InputError, match=f"{TOO_LARGE} {size[0]} and {size[1]}"):
        gc.enumerate_groups(*size)


def test_what_a_group_alone_decides_follows_the_convention():
    rewards = [[[1, float("nan")], [0, 1], [0, 1]]]
    for convention in gc.CONVENTIONS.values():
        options = {"convention": convention, "lengths": [[3, 4, 5]]}
        sums = gc.explain(rewards, "gdpo", **options).weighted_sums
        got = gc.group_advantages(rewards, "gdpo", convention=convention)
        assert got.isnan().equal(sums.isnan()) and got.nan_to_num().equal(sums.nan_to_num())
        close(gc.advantages(rewards, "mo_grpo", convention=convention), got)  # MO-GRPO is GDPO without its batch step.
