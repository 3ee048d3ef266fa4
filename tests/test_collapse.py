"""What the methods tell apart, counted by hand and pair by pair."""

from dataclasses import FrozenInstanceError, asdict
from math import isnan, nan

import naive
import pytest
import torch
from helpers import check_refusal, check_refusals, f64
from hypothesis import given
from hypothesis import strategies as st

import gdpo_core as gc
from gdpo_core._groups import make_batch as read_batch
from gdpo_core.frameworks import ALL_CONVENTIONS
from gdpo_core.methods import reward_parts
from gdpo_core.registry import ALL_METHODS, method_for

METHODS = pytest.mark.parametrize("method", naive.METHODS)
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

# 101 and 011 tie in GRPO; 001 and 100 too; the vectors are all different
TWELVE = [[1, 0, 1], [0, 1, 1], [1, 1, 1], [0, 0, 1], [1, 0, 0], [0, 0, 0]]


# --- worked by hand ------------------------------------------------------------------------------------------------


def test_grpo_ties_answers_of_equal_total():
    c = gc.collapse(TWELVE, "grpo")  # totals 2 2 3 1 1 0
    assert (c.groups, c.mixed_groups, c.groups_with_ties) == (1, 1, 1.0)
    assert (c.levels, c.vectors, c.tied_pair_count, c.tied_pairs) == (4.0, 6.0, 2, near(2 / 15))
    assert c.dead_rewards == (0.0, 0.0, 0.0) and c.silent_groups == 0.0


def test_gdpo_splits_them_where_the_counts_differ():
    c = gc.collapse(TWELVE, "gdpo")  # passes 3 2 4 of 6: z gaps of 2 and 4 are equal, that of 3 is smaller
    assert (c.levels, c.vectors) == (6.0, 6.0)
    assert (c.tied_pairs, c.tied_pair_count, c.groups_with_ties) == (0.0, 0, 0.0)


def test_equal_vectors_are_no_tie():
    c = gc.collapse([[1, 0], [1, 0], [0, 0], [0, 0]], "grpo")
    assert (c.tied_pairs, c.tied_pair_count, c.levels, c.vectors) == (0.0, 0, 2.0, 2.0)
    assert c.dead_rewards == (0.0, 1.0)


def test_only_mixed_groups_count_but_every_group_can_be_silent():
    same, tied, apart = [[1, 1]] * 3, [[1, 0], [0, 1], [1, 0]], [[1, 1], [0, 0], [1, 1]]
    c = gc.collapse([same, tied, apart], "grpo")
    assert (c.groups, c.mixed_groups) == (3, 2)
    assert (c.groups_with_ties, c.tied_pairs, c.tied_pair_count) == (0.5, 0.5, 2)
    assert (c.levels, c.vectors) == (1.5, 2.0)
    assert c.silent_groups == near(2 / 3)
    assert c.dead_rewards == (0.0, 0.0)


def test_a_mean_over_no_mixed_group_is_nan():
    c = gc.collapse([[1, 1], [1, 1]], "gdpo")
    assert c.mixed_groups == 0 and c.silent_groups == 1.0 and c.tied_pair_count == 0
    means = (c.groups_with_ties, c.tied_pairs, c.levels, c.vectors, *c.dead_rewards, *c.update_share)
    assert all(isnan(value) for value in means)
    assert isnan(c.inversions())


def test_a_loud_reward_takes_the_update_of_grpo_and_half_of_gdpos():
    rewards = [[0, 0], [0, 100], [1, 0], [1, 100]]
    assert gc.collapse(rewards, "grpo").update_share == near((1 / 10001, 10000 / 10001))
    assert gc.collapse(rewards, "grpo_no_std").update_share == near((1 / 10001, 10000 / 10001))
    assert gc.collapse(rewards, "gdpo").update_share == near((0.5, 0.5))
    assert gc.collapse(rewards, "gdpo", weights=[3, 1]).update_share == near((0.9, 0.1))


def test_inversions_are_pairs_in_which_the_lower_primary_gets_more():
    rewards = [[1, 0, 0], [0, 1, 1], [0, 0, 0]]
    c = gc.collapse(rewards, "grpo")  # pairs with different primary: 0 over 1 (inverted), 0 over 2
    assert c.inversions() == c.inversions(primary=0) == 0.5
    assert c.inversions(primary=1) == c.inversions(primary=-2) == 0.0
    assert gc.collapse(rewards, "grpo", weights=[3, 1, 1]).inversions() == 0.0


def test_ties_survive_the_round_off_of_float32_rewards():
    rewards = torch.tensor([[0.1, 0.7], [0.7, 0.1], [0.2, 0.6], [0.3, 0.9]])  # totals .8 .8 .8 1.2
    c = gc.collapse(rewards, "grpo")
    assert (c.levels, c.vectors, c.tied_pair_count) == (2.0, 4.0, 3)


# --- pair by pair, on any batch ------------------------------------------------------------------------------------


@CONVENTIONS
@METHODS
@given(with_rewards)
def test_every_figure_agrees_with_the_explicit_pairs(method, convention, batch):
    c = gc.collapse(**read(batch, method=method, convention=convention))
    expected = naive.collapse(batch.rows, batch.ids, method, batch.weights, convention.name)
    assert {name: getattr(c, name) for name in COUNTED} == {name: expected[name] for name in COUNTED}
    for name in SHARES:
        assert getattr(c, name) == near(expected[name]), name
    assert c.update_share == pytest.approx(expected["update_share"], rel=1e-7, abs=1e-7, nan_ok=True)


@METHODS
@given(naive.batches(missing=False))
def test_a_dead_reward_is_constant_in_its_group(method, batch):
    c = gc.collapse(**read(batch, method=method))
    expected = naive.collapse(batch.rows, batch.ids, method, batch.weights)
    assert c.dead_rewards == near(expected["dead_rewards"])


def test_a_reward_that_is_constant_where_it_is_there_is_dead():
    c = gc.collapse(f64([[1, 1], [nan, 0], [1, 1]]), "gdpo")  # it adds 0 to every advantage
    assert c.dead_rewards == (1.0, 0.0)


@METHODS
@given(with_rewards)
def test_inversions_agree_with_the_explicit_pairs(method, batch):
    c = gc.collapse(**read(batch, method=method))
    a = naive.compute(batch.rows, batch.ids, method, batch.weights).advantages
    for primary in range(len(batch.rows[0])):
        assert c.inversions(primary) == near(naive.inversions(batch.rows, batch.ids, a, primary))


@pytest.mark.parametrize("coarse, fine", (("grpo", "gdpo"), ("gdpo", "grpo"), ("grpo_no_std", "gdpo")))
@given(with_rewards, st.data())
def test_broken_ties_agree_with_the_explicit_pairs(coarse, fine, batch, data):
    primary = data.draw(st.integers(0, len(batch.rows[0]) - 1))
    ties = gc.broken_ties(gc.collapse(**read(batch, method=coarse)), gc.collapse(**read(batch, method=fine)), primary)
    a, b = (naive.compute(batch.rows, batch.ids, m, batch.weights).advantages for m in (coarse, fine))
    got = list(zip(ties.lower.tolist(), ties.higher.tolist(), ties.inverted.tolist(), strict=True))
    assert len(got) == len(set(got))
    assert set(got) == naive.broken_ties(batch.rows, batch.ids, a, b, primary)


@METHODS
@given(with_rewards)
def test_levels_number_the_advantages_of_a_group_from_0_at_the_lowest(method, batch):
    c = gc.collapse(**read(batch, method=method))
    a = naive.compute(batch.rows, batch.ids, method, batch.weights).advantages
    expected = [0] * len(a)
    for group in naive.groups_of(batch.rows, batch.ids, a):
        largest = max(abs(a[i]) for i in group.rows)
        same = {i: {j for j in group.rows if abs(a[i] - a[j]) <= 1e-9 * largest} for i in group.rows}
        for i in group.rows:
            lower = [a[j] for j in group.rows if a[j] < a[i] and j not in same[i]]
            expected[i] = naive.distinct(lower, lambda x, y, largest=largest: abs(x - y) <= 1e-9 * largest)
    assert c.level.tolist() == expected


@METHODS
def test_it_is_the_same_dense_and_by_groups(method):
    rewards = f64([[[1, 0], [0, 1], [1, 1]], [[1, 1], [0, 0], [0, 1]]])
    dense = gc.collapse(rewards, method)
    ragged = gc.collapse(rewards.reshape(6, 2), method, groups=list("aaabbb"))
    for name in (*COUNTED, *SHARES, "dead_rewards"):
        assert getattr(dense, name) == getattr(ragged, name), name
    assert dense.inversions() == ragged.inversions()


@given(naive.batches(dense=True, missing=False))
def test_the_shares_of_the_update_add_up_to_1(batch):
    for method in naive.METHODS:
        share = gc.collapse(**read(batch, method=method)).update_share
        assert sum(share) == near(1) or all(isnan(s) for s in share)


@METHODS
def test_what_a_reward_is_measured_in_does_not_change_gdpos_picture(method):
    rewards = f64([[1, 0, 1], [0, 1, 1], [1, 1, 0], [0, 0, 1]])
    scaled = gc.collapse(rewards * f64([1, 10, 1000]), method)
    as_it_was = gc.collapse(rewards, method).update_share
    assert (scaled.update_share == near(as_it_was)) == (method == "gdpo")


# --- missing rewards -----------------------------------------------------------------------------------------------


@METHODS
def test_a_response_without_any_reward_is_left_out(method):
    rows = f64([[1, 0, 1], [0, 1, 1], [0, 0, 0]])
    holed = torch.cat([rows, f64([[nan] * 3])])
    assert {n: getattr(gc.collapse(holed, method), n) for n in (*COUNTED, "levels", "vectors")} == {
        n: getattr(gc.collapse(rows, method), n) for n in (*COUNTED, "levels", "vectors")
    }


@METHODS
def test_a_batch_without_any_reward_is_silent(method):
    for rewards in (f64([[nan, nan]] * 3), f64([[[nan], [nan]]] * 2)):
        c = gc.collapse(rewards, method)
        assert c.mixed_groups == 0 and c.silent_groups == 1.0
        assert isnan(c.inversions())


def test_broken_ties_number_the_responses_as_they_were_given():
    rewards = f64([[nan] * 3, [1, 0, 1], [0, 1, 1], [0, 1, 1], [0, 0, 1], [0, 1, 0]])
    ties = gc.broken_ties(gc.collapse(rewards, "grpo"), gc.collapse(rewards, "gdpo"))
    assert ties.lower.tolist() == [2, 3] and ties.higher.tolist() == [1, 1]


# --- the break-even weight -----------------------------------------------------------------------------------------


@given(st.lists(st.tuples(*[st.integers(0, 1)] * 3), min_size=3, max_size=9), st.sampled_from((0.5, 1.0, 2.0)))
def test_at_the_break_even_weight_gdpo_ties_the_two_responses(rest, weight):
    rewards = f64([(1, 0, 0), (0, 1, 1), *rest])
    w = gc.break_even_weight(rewards, lower=1, higher=0, weights=f64([9, weight, 1]))
    s = gc.explain(rewards, weights=f64([w, weight, 1])).weighted_sums
    assert abs(s[0] - s[1]) < 1e-9
    more = gc.explain(rewards, weights=f64([w + 0.25, weight, 1])).weighted_sums
    assert more[0] > more[1]


# --- bad input -----------------------------------------------------------------------------------------------------

C = gc.collapse([[1, 0], [0, 1], [1, 1]], "grpo")
INDICES = (2, -3, "a", None, 1.0, True, [0])


def test_an_index_that_names_no_reward_is_refused(subtests):
    check_refusals(subtests, C.inversions, {}, {"primary": INDICES}, shown=True)
    pair = {"coarse": C, "fine": gc.collapse([[1, 0], [0, 1], [1, 1]])}
    check_refusals(subtests, gc.broken_ties, pair, {"primary": INDICES}, shown=True)


@pytest.mark.parametrize(
    "fine",
    (gc.collapse([[1, 0], [0, 1]]), gc.collapse([[0, 1], [1, 0], [0, 0]]), [[1, 0], [0, 1], [1, 1]]),
    ids=("fewer responses", "other rewards", "no collapse"),
)
def test_broken_ties_needs_two_collapses_of_the_same_rewards(fine):
    check_refusal(gc.broken_ties, {"coarse": C, "fine": fine}, "fine")


DECIDED = {"rewards": [[1, 0], [0, 1], [1, 1]], "lower": 1, "higher": 0}


def test_break_even_weight_names_an_index_it_cannot_use(subtests):
    bad = dict.fromkeys(("lower", "higher", "reward"), (7, -8, "a", None, 1.0))
    check_refusals(subtests, gc.break_even_weight, DECIDED, bad, shown=True)


@pytest.mark.parametrize(
    "argument, options",
    (
        ("higher", {"lower": 0, "higher": 1}),
        ("higher", {"lower": 0, "higher": 0}),
        ("higher", {"rewards": [[1, 0], [1, 1], [1, 1]]}),
        ("rewards", {"rewards": [[[1, 0], [0, 1]]]}),
        ("weights", {"weights": [1]}),
    ),
)
def test_break_even_weight_names_what_cannot_decide(argument, options):
    check_refusal(gc.break_even_weight, {**DECIDED, **options}, argument)


def test_a_collapse_is_frozen():
    with pytest.raises(FrozenInstanceError):
        C.groups = 2
    assert asdict(C)["groups"] == 1


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


@pytest.mark.parametrize("convention", gc.CONVENTIONS.values(), ids=list(gc.CONVENTIONS))
def test_methods_that_leave_other_responses_out_can_be_compared(convention):
    rewards = [[1, 0, 1], [0, 1, 1], [nan, 1, 1], [0, 0, 1], [0, 1, 0], [nan, nan, nan]]
    coarse, fine = (gc.collapse(rewards, m, convention=convention, lengths=[1] * 6) for m in ("grpo", "gdpo"))
    ties = gc.broken_ties(coarse, fine)
    assert all(rewards[low][0] < rewards[high][0] for low, high in zip(ties.lower, ties.higher, strict=True))


def test_nothing_left_to_compare_is_no_pair():
    c = gc.collapse([[nan, nan], [nan, nan]], "grpo")
    assert len(gc.broken_ties(c, c).lower) == 0


def test_what_is_no_collapse_is_refused():
    with pytest.raises(gc.InputError, match=r"coarse: expected a gdpo_core\.Collapse, got str"):
        gc.broken_ties("x", "y")


# --- shares of the update: A = Σ a_k, in every group divided by what divides its A ------------------------------------


def one_varies_in_each_group(scale: float) -> torch.Tensor:
    """100 groups of 8: in half of them only the first reward varies, in the others only the second, `scale` times."""
    rewards = torch.zeros(100, 8, 2, dtype=torch.float64)
    rewards[:50, :4, 0], rewards[50:, :4, 1] = 1, scale
    return rewards


def test_groups_of_large_spread_count_no_more_than_the_others_under_grpo():
    rewards = one_varies_in_each_group(5)
    ratio = gc.gdpo(rewards) / gc.grpo(rewards)
    assert ratio.min().item() == near(ratio.max().item())  # proportional throughout
    for method in ("grpo", "gdpo"):
        assert gc.update_share(rewards, method) == near((0.5, 0.5))
    # Without the division the scale does count: 1 : 25.
    assert gc.update_share(rewards, "grpo_no_std") == near((1 / 26, 25 / 26))


def test_the_shares_of_two_groups_by_hand():
    # Group 1: sums 1 0, so that A = ±1/√2, all of it by the first reward. Group 2: sums 11 0; the parts are 1 and 10
    # elevenths of A. Each group has Σ A² = 1.
    rewards = [[[1, 0], [0, 0]], [[1, 10], [0, 0]]]
    assert gc.update_share(rewards, "grpo") == near(((1 + 1 / 11) / 2, (10 / 11) / 2))
    # GDPO: s = ±0.7071 in group 1 and ±1.4142 in group 2, so that Σ s² = 1 + 4; in group 2 both parts are equal.
    assert gc.update_share(rewards, "gdpo") == near(((1 + 2) / 5, 2 / 5))


@given(naive.batches(dense=True, missing=False), st.floats(0.01, 100))
def test_methods_with_proportional_advantages_have_equal_shares(batch, factor):
    given_rewards = read(batch)
    rewards, weights = given_rewards["rewards"], torch.tensor([1.0] * len(batch.rows[0]), dtype=torch.float64)
    given_rewards["weights"] = weights
    pairs = [("grpo_no_std", "grpo_batch_std"), ("mo_grpo", "gdpo")]  # one number divides the whole batch
    shares = {m: gc.update_share(**given_rewards, method=m) for pair in pairs for m in pair}
    for first, second in pairs:
        assert shares[first] == pytest.approx(shares[second], rel=1e-7, abs=1e-7, nan_ok=True)
    # A common factor of rewards or weights changes no advantage of GRPO and GDPO.
    for m in ("grpo", "gdpo"):
        as_it_was = gc.update_share(**given_rewards, method=m)
        for other in ({"rewards": rewards * factor}, {"weights": weights * factor}):
            changed = gc.update_share(**{**given_rewards, **other}, method=m)
            assert changed == pytest.approx(as_it_was, rel=1e-6, abs=1e-6, nan_ok=True)


@given(st.integers(1, 4), st.integers(1, 12), st.integers(2, 8), st.floats(0.1, 10), st.integers(0, 2**31))
def test_where_one_reward_varies_in_each_group_grpo_and_gdpo_share_alike(rewards, prompts, rollouts, scale, seed):
    draw = torch.Generator().manual_seed(seed)
    r = torch.zeros(prompts, rollouts, rewards, dtype=torch.float64)
    which = torch.randint(0, rewards, (prompts,), generator=draw)
    ones = 1 + torch.randint(0, rollouts - 1, (1,), generator=draw).item()  # passes, in every group as many
    for i, k in enumerate(which.tolist()):
        r[i, torch.randperm(rollouts, generator=draw)[:ones], k] = scale ** (k + i % 3)
    expected = tuple((which == k).double().mean().item() for k in range(rewards))
    for method in ("grpo", "gdpo", "dvao"):
        assert gc.update_share(r, method) == near(expected), method


@given(naive.batches(dense=True), st.sampled_from(sorted(ALL_CONVENTIONS)), st.integers(0, 2**31))
def test_the_parts_of_an_advantage_add_up_to_it(batch, convention, seed):
    """Of every method under every convention, also of those that only a log shows."""
    convention = ALL_CONVENTIONS[convention]
    made = read(batch, convention=convention)
    rows = made["rewards"].shape[:-1]
    made["lengths"] = torch.randint(1, 50, rows, generator=torch.Generator().manual_seed(seed))
    for method in (*ALL_METHODS, "mo_grpo"):
        if method == "corr_grpo" and convention.leave_one_out:
            continue
        made.pop("method", None)
        whole = read_batch(**made).in_float64()
        formula, prepared = method_for(method, whole)
        steps = formula(prepared)
        a = prepared.zero_unrewarded(steps.advantages)
        there = a.isfinite() & (a != 0)
        found = reward_parts(prepared, steps).nan_to_num()
        largest = max(1.0, found.abs().max().item())
        assert found.sum(0)[there].tolist() == pytest.approx(a[there].tolist(), abs=1e-9 * largest), method
        share = gc.update_share(**made, method=method)
        if not isnan(share[0]):
            assert sum(share) == pytest.approx(1, abs=1e-9 * max(1.0, *map(abs, share))), method
