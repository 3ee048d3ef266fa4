"""Answers that the methods tell apart or do not: ties, levels, order and shares of the update, counted by hand and pair
by pair.
"""

from dataclasses import replace
from itertools import combinations
from math import isnan, nan

import naive
import numpy as np
import pytest
import torch
from helpers import check_refusal, check_refusals, f64
from hypothesis import given
from hypothesis import strategies as st

import gdpo_core as gc
from gdpo_core.ties import Order, explain_and_collapse

EACH_METHOD = pytest.mark.parametrize("method", naive.METHODS)
CONVENTIONS = pytest.mark.parametrize("convention", (gc.PAPER, gc.TRL), ids=lambda c: c.name)
COUNTED = ("groups", "mixed_groups", "tied_pair_count")
SHARES = ("groups_with_ties", "tied_pairs", "levels", "vectors", "silent_groups")


def read(batch, **options):
    weights = None if batch.weights is None else f64(batch.weights)
    return {"rewards": f64(batch.rows), "groups": batch.ids, "weights": weights, **options}


def near(expected):
    return pytest.approx(expected, rel=1e-9, abs=1e-9, nan_ok=True)


def without_empty_rows(batch):
    kept = [i for i, row in enumerate(batch.rows) if naive.has_a_reward(row)]
    return naive.Batch([batch.rows[i] for i in kept], [batch.ids[i] for i in kept], batch.weights)


with_rewards = naive.batches().map(without_empty_rows).filter(lambda batch: batch.rows)

# In GRPO 101 and 011 tie, and so do 001 and 100, although all vectors are different.
TWELVE = [[1, 0, 1], [0, 1, 1], [1, 1, 1], [0, 0, 1], [1, 0, 0], [0, 0, 0]]


# --- worked by hand ------------------------------------------------------------------------------------------------


BY_HAND = {  # method, rewards, what comes out
    "totals 2 2 3 1 1 0": ("grpo", TWELVE, {
        "groups": 1, "mixed_groups": 1, "groups_with_ties": 1, "levels": 4, "vectors": 6, "tied_pair_count": 2,
        "tied_pairs": 2 / 15, "dead_rewards": (0, 0, 0), "silent_groups": 0,
    }),
    "passes 3 2 4 of 6: z gaps of 2 and 4 are equal, that of 3 is smaller": ("gdpo", TWELVE, {
        "levels": 6, "vectors": 6, "tied_pairs": 0, "tied_pair_count": 0, "groups_with_ties": 0,
    }),
    "equal vectors are no tie": ("grpo", [[1, 0], [1, 0], [0, 0], [0, 0]], {
        "tied_pairs": 0, "tied_pair_count": 0, "levels": 2, "vectors": 2, "dead_rewards": (0, 1),
    }),
    "only mixed groups count, but every group can be silent": (
        "grpo", [[[1, 1]] * 3, [[1, 0], [0, 1], [1, 0]], [[1, 1], [0, 0], [1, 1]]], {
            "groups": 3, "mixed_groups": 2, "groups_with_ties": 0.5, "tied_pairs": 0.5, "tied_pair_count": 2,
            "levels": 1.5, "vectors": 2, "silent_groups": 2 / 3, "dead_rewards": (0, 0),
        },
    ),
    "a mean over no mixed group": ("gdpo", [[1, 1], [1, 1]], {
        "mixed_groups": 0, "silent_groups": 1, "tied_pair_count": 0, "groups_with_ties": nan, "tied_pairs": nan,
        "levels": nan, "vectors": nan, "dead_rewards": (nan, nan), "update_share": (nan, nan),
    }),
    "a reward that is constant where it is there": ("gdpo", f64([[1, 1], [nan, 0], [1, 1]]), {"dead_rewards": (1, 0)}),
    "round-off of float32: totals .8 .8 .8 1.2": (
        "grpo", torch.tensor([[0.1, 0.7], [0.7, 0.1], [0.2, 0.6], [0.3, 0.9]]),
        {"levels": 2, "vectors": 4, "tied_pair_count": 3},
    ),
}  # fmt: skip


@pytest.mark.parametrize("method, rewards, expected", BY_HAND.values(), ids=BY_HAND)
def test_worked_by_hand(method, rewards, expected):
    c = gc.collapse(rewards, method)
    for name, value in expected.items():
        assert getattr(c, name) == near(value), name


def test_a_loud_reward_takes_the_update_of_grpo_and_half_of_gdpos():
    rewards = [[0, 0], [0, 100], [1, 0], [1, 100]]
    for method in ("grpo", "grpo_no_std"):
        assert gc.update_share(rewards, method) == near((1 / 10001, 10000 / 10001))
    assert gc.update_share(rewards, "gdpo") == near((0.5, 0.5))
    assert gc.update_share(rewards, "gdpo", weights=[3, 1]) == near((0.9, 0.1))


def test_inversions_are_pairs_in_which_the_lower_primary_gets_more():
    rewards = [[1, 0, 0], [0, 1, 1], [0, 0, 0]]
    # Two pairs differ in the primary reward: 0 over 1, which is in the wrong order, and 0 over 2.
    c = gc.collapse(rewards, "grpo")
    assert c.inversions() == c.inversions(primary=0) == 0.5
    assert c.inversions(primary=1) == c.inversions(primary=-2) == 0.0
    assert gc.collapse(rewards, "grpo", weights=[3, 1, 1]).inversions() == 0.0
    assert isnan(gc.collapse([[1, 1], [1, 1]]).inversions())


@pytest.mark.parametrize(("eps", "tied"), [(0.0031, 1), (0.0033, 0)])
def test_what_an_eps_moves_apart_is_a_tie_below_half_a_hundredth_of_the_largest(eps, tied):
    """Without an eps 1 of the first reward is worth 10 of the second. With it they are apart by 2 · 0.5 / (σ + eps)
    less 2 · 5 / (10 σ + eps), for σ = √(1/3), and the largest advantage is half of their sum.
    """
    one, ten = 1 / ((1 / 3) ** 0.5 + eps), 10 / ((100 / 3) ** 0.5 + eps)
    assert (abs(one - ten) / ((one + ten) / 2) < 0.005) == bool(tied)
    rewards = f64([[0, 0], [1, 0], [0, 10], [1, 10]])
    assert gc.collapse(rewards, "gdpo", convention=replace(gc.PAPER, group_eps=eps)).tied_pair_count == tied


# --- any batch, compared pair by pair ------------------------------------------------------------------------------


@CONVENTIONS
@EACH_METHOD
@given(with_rewards)
def test_every_figure_agrees_with_the_explicit_pairs(method, convention, batch):
    c = gc.collapse(**read(batch, method=method, convention=convention))
    expected = naive.collapse(batch.rows, batch.ids, method, batch.weights, convention.name)
    assert {name: getattr(c, name) for name in COUNTED} == {name: expected[name] for name in COUNTED}
    for name in SHARES:
        assert getattr(c, name) == near(expected[name]), name
    assert c.update_share == pytest.approx(expected["update_share"], rel=1e-7, abs=1e-7, nan_ok=True)
    # With missing rewards, one value with a gap and two values are not told apart.
    if not any(isnan(r) for row in batch.rows for r in row):
        assert c.dead_rewards == near(expected["dead_rewards"])


def pairs_of(collapsed, ids):
    """Return the level of each response by its index, and the pairs of responses of one group, without those that were
    left out.
    """
    level = dict(zip(collapsed.response.tolist(), collapsed.level.tolist(), strict=True))
    return level, [(i, j) for i, j in combinations(sorted(level), 2) if ids[i] == ids[j]]


@pytest.mark.slow
@given(st.sampled_from(naive.METHODS), naive.batches())
def test_every_pair_is_right_tied_or_wrong(method, batch):
    c = gc.collapse(batch.rows, method, groups=batch.ids)
    level, pairs = pairs_of(c, batch.ids)
    for primary in range(len(batch.rows[0])):
        counted = {"right": 0, "tied": 0, "wrong": 0}
        for i, j in pairs:
            if batch.rows[i][primary] > batch.rows[j][primary]:
                i, j = j, i
            if batch.rows[i][primary] < batch.rows[j][primary]:  # A comparison with NaN is false.
                gap = level[j] - level[i]
                counted["right" if gap > 0 else "wrong" if gap < 0 else "tied"] += 1
        found = c.order(primary)
        assert found == Order(**counted)
        if found.pairs:
            assert c.inversions(primary) == found.wrong / found.pairs


@pytest.mark.slow
@pytest.mark.parametrize("coarse, fine", (("grpo", "gdpo"), ("gdpo", "grpo"), ("grpo_no_std", "gdpo")))
@given(with_rewards, st.data())
def test_broken_ties_agree_with_the_explicit_pairs(coarse, fine, batch, data):
    primary = data.draw(st.integers(0, len(batch.rows[0]) - 1))
    ties = gc.broken_ties(gc.collapse(**read(batch, method=coarse)), gc.collapse(**read(batch, method=fine)), primary)
    a, b = (naive.compute(batch.rows, batch.ids, m, batch.weights).advantages for m in (coarse, fine))
    got = list(zip(ties.lower.tolist(), ties.higher.tolist(), ties.inverted.tolist(), strict=True))
    assert len(got) == len(set(got))
    assert set(got) == naive.broken_ties(batch.rows, batch.ids, a, b, primary)


# --- an eps tells no answers apart ----------------------------------------------------------------------------------


def test_a_tie_that_only_an_eps_parts_is_one():
    # As many answers pass the first reward as the second, which pays 5. Their z are equal, but 1e-4 is a smaller part
    # of a std of 2.7 than of 0.5. So TRL gives the second answer more than the first, by 0.0003 of its advantage.
    rewards = [[1, 0], [0, 5], [1, 0], [0, 5], [1, 5]]
    paper, trl = (gc.collapse(rewards, convention=c) for c in (gc.PAPER, gc.TRL))
    a = gc.gdpo(rewards, convention=gc.TRL)
    assert 0 < (a[1] - a[0]) / abs(a[1]) < 1e-3
    assert paper.level.tolist() == trl.level.tolist() == [0, 0, 0, 0, 1]
    assert (paper.pairs_by_eps, trl.pairs_by_eps, trl.tied_pair_count) == (0, near(4 / 8), 4)
    assert trl.order(0) == paper.order(0) == Order(right=2, tied=4, wrong=0)
    # With a std near the eps itself the two answers really are told apart.
    apart = gc.collapse([[one, 1e-4 * five] for one, five in rewards], convention=gc.TRL)
    assert apart.tied_pairs == apart.pairs_by_eps == 0


@pytest.mark.parametrize("name", gc.CONVENTIONS)
def test_continuous_rewards_have_no_tie(name):
    draw = np.random.default_rng(0)
    rewards, lengths = draw.random((200, 16, 3)) * [1, 5, 0.1], draw.integers(1, 90, (200, 16))
    for method in naive.METHODS:
        c = gc.collapse(rewards, method, convention=gc.CONVENTIONS[name], lengths=lengths)
        assert (c.tied_pair_count, c.pairs_by_eps, c.levels) == (0, 0, 16)


# --- missing rewards -----------------------------------------------------------------------------------------------


def test_broken_ties_number_the_responses_as_they_were_given():
    rewards = f64([[nan] * 3, [1, 0, 1], [0, 1, 1], [0, 1, 1], [0, 0, 1], [0, 1, 0]])
    ties = gc.broken_ties(gc.collapse(rewards, "grpo"), gc.collapse(rewards, "gdpo"))
    assert ties.lower.tolist() == [2, 3] and ties.higher.tolist() == [1, 1]


# --- the break-even weight -----------------------------------------------------------------------------------------


def pair(lower, higher):
    return gc.BrokenTies(torch.tensor([lower]), torch.tensor([higher]), torch.tensor([False]))


@given(st.lists(st.tuples(*[st.integers(0, 1)] * 3), min_size=3, max_size=9), st.sampled_from((0.5, 1.0, 2.0)))
def test_at_the_break_even_weight_gdpo_ties_the_two_responses(rest, weight):
    rewards = f64([(1, 0, 0), (0, 1, 1), *rest])
    w = gc.break_even_weights(rewards, pair(1, 0), weights=f64([9, weight, 1])).item()
    s = gc.explain(rewards, weights=f64([w, weight, 1])).weighted_sums
    assert abs(s[0] - s[1]) < 1e-9
    more = gc.explain(rewards, weights=f64([w + 0.25, weight, 1])).weighted_sums
    assert more[0] > more[1]


# --- bad input -----------------------------------------------------------------------------------------------------

C = gc.collapse([[1, 0], [0, 1], [1, 1]], "grpo")
PAIR = {"coarse": C, "fine": gc.collapse([[1, 0], [0, 1], [1, 1]])}
DECIDED = {"rewards": [[1, 0], [0, 1], [1, 1]], "pairs": pair(1, 0)}
INDICES = (2, -3, "a", None, 1.0, True, [0])
REFUSED = (
    (gc.broken_ties, PAIR | {"fine": gc.collapse([[1, 0], [0, 1]])}, "fine"),  # fewer responses
    (gc.broken_ties, PAIR | {"fine": gc.collapse([[0, 1], [1, 0], [0, 0]])}, "fine"),  # other rewards
    (gc.broken_ties, PAIR | {"coarse": "x"}, "coarse"),
    (gc.break_even_weights, DECIDED | {"pairs": pair(0, 1)}, "pairs"),
    (gc.break_even_weights, DECIDED | {"pairs": pair(3, 0)}, "pairs"),
    (gc.break_even_weights, DECIDED | {"pairs": "x"}, "pairs"),
    (gc.break_even_weights, DECIDED | {"rewards": [[[1, 0], [0, 1]], [[1, 0], [0, 1]]], "pairs": pair(1, 2)}, "pairs"),
    (gc.break_even_weights, DECIDED | {"rewards": [[1, 0], [1, 1], [1, 1]]}, "pairs"),
    (gc.break_even_weights, DECIDED | {"weights": [1]}, "weights"),
)


def test_what_cannot_be_used_is_named(subtests):
    for method in (C.inversions, C.order):
        check_refusals(subtests, method, {}, {"primary": INDICES}, shown=True)
    check_refusals(subtests, gc.broken_ties, PAIR, {"primary": INDICES}, shown=True)
    check_refusals(subtests, gc.break_even_weights, DECIDED, {"reward": (7, -8, "a", None, 1.0)}, shown=True)
    for function, options, argument in REFUSED:
        with subtests.test(argument=argument, options=repr(options)[:60]):
            check_refusal(function, options, argument)


# --- conventions that leave responses out, or do not centre ----------------------------------------------------------


def test_a_reward_that_is_constant_in_every_group_has_no_share_with_leave_one_out():
    rewards = [[[1, 5], [0, 5], [0, 5]], [[1, -5], [1, -5], [0, -5]]]
    for method in naive.METHODS:
        share = gc.update_share(rewards, method, convention=gc.NEMO_RL_LOO)
        assert share == pytest.approx((1, 0), abs=1e-12)


def test_a_group_that_is_nan_leaves_the_shares_of_the_others():
    rewards = [[[1, nan], [0, 1], [0, 0], [1, 1]], [[1, 1], [0, 1], [1, 0], [0, 0]]]
    for convention in (gc.VERL, gc.NEMO_RL):
        c = gc.collapse(rewards, "grpo", convention=convention)
        assert c.update_share == pytest.approx(gc.update_share(rewards[1], "grpo", convention=convention))
        assert c.mixed_groups == 1 and c.response.tolist() == [4, 5, 6, 7]


@pytest.mark.parametrize("convention", gc.CONVENTIONS.values(), ids=lambda c: c.name)
@pytest.mark.parametrize("method", [*naive.METHODS, *gc.SUCCESSORS, "reinforce_pp_baseline", "reinforce_pp", "max_rl"])
def test_the_parts_of_a_response_sum_to_its_advantage_or_are_nan(method, convention):
    rewards = torch.tensor([[[1, 0], [0, 2], [0, 0], [3, 1]], [[1, 1], [nan, 1], [2, 0], [0, 1]]], dtype=torch.float64)
    empty = rewards.index_put((torch.tensor([1]), torch.tensor([1])), torch.tensor(nan, dtype=torch.float64))
    refused = convention.leave_one_out and method in ("corr_grpo", "papo")  # they need whole groups
    for given_rewards in () if refused else (rewards[:1], rewards, empty):
        lengths = torch.ones(given_rewards.shape[:2])
        e, _, parts = explain_and_collapse(given_rewards, method, convention=convention, lengths=lengths)
        a, without_parts = e.advantages.flatten(), parts.isnan().all(1)
        assert torch.equal(without_parts, parts.isnan().any(1)) and bool(without_parts[a.isnan()].all())
        assert bool((a[without_parts & ~a.isnan()] == 0).all())
        assert parts[~without_parts].sum(1).tolist() == near(a[~without_parts].tolist())
        if convention.missing == "propagates" and given_rewards.isnan().any():
            assert without_parts[4:].all()
        elif method != "gd2po":  # GD²PO also drops responses with rewards
            assert not without_parts[[i for i in range(len(a)) if i != 5]].any()


# --- shares of the update: A = Σ a_k, in every group divided by what divides its A ------------------------------------


def test_the_shares_of_two_groups_by_hand():
    # In group 1 the sums are 1 and 0, so that A = ±1/√2 comes from the first reward alone. In group 2 they are 11 and
    # 0, and the parts are 1 and 10 elevenths of A. Each group has Σ A² = 1.
    rewards = [[[1, 0], [0, 0]], [[1, 10], [0, 0]]]
    assert gc.update_share(rewards, "grpo") == near(((1 + 1 / 11) / 2, (10 / 11) / 2))
    # Under GDPO s = ±0.7071 in group 1 and ±1.4142 in group 2, so that Σ s² = 1 + 4. In group 2 both parts are equal.
    assert gc.update_share(rewards, "gdpo") == near(((1 + 2) / 5, 2 / 5))
    # Without a division A = ±1/2 and ±11/2, so that the sizes count: 1 + 1 · 11 and 10 · 11 of 1 + 121.
    assert gc.update_share(rewards, "grpo_no_std") == near((12 / 122, 110 / 122))
