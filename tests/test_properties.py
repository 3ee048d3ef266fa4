"""A table of properties: each holds for every method under every convention that promises it, on any batch."""

import random
from dataclasses import dataclass, replace
from itertools import product
from math import nan

import naive
import pytest
import torch
from helpers import close, f64, zeros
from hypothesis import assume, example, given, note, settings
from hypothesis import strategies as st

import gdpo_core as gc
from gdpo_core.conventions import Convention
from gdpo_core.frameworks import ALL_CONVENTIONS
from gdpo_core.registry import ALL_METHODS

CONVENTIONS = {**gc.CONVENTIONS, **{key: ALL_CONVENTIONS[key] for key in ("trl_rloo", "ms_swift_rloo", "numpy")}}
# These methods look at nothing but the group.
GROUPS_ALONE = ("grpo", "grpo_no_std", "mo_grpo", "papo", "max_rl", "dvao", "corr_grpo")
EACH_ALONE = ("gdpo", "mo_grpo", "papo", "saw", "sa_mrpo", "gd2po")  # normalise each reward on its own
OVER_BATCH = ("gdpo", "saw", "sa_mrpo", "gd2po")  # have a batch step as GDPO has it
DTYPES = (torch.float64, torch.float32)

conventions = st.sampled_from(list(CONVENTIONS))
seeds = st.integers(0, 2**31)
# Every example is tried with every method, so a third as many examples are enough.
fewer = settings(max_examples=max(10, settings.default.max_examples // 3))


@dataclass(frozen=True)
class Case:
    """A batch in the form in which `advantages` takes it."""

    rewards: torch.Tensor  # (responses, rewards), or with a prompt axis where groups is None
    weights: torch.Tensor  # (rewards,)
    groups: list | None
    lengths: torch.Tensor | None  # (responses,)

    def __call__(self, method: str, convention: Convention, function=gc.advantages):
        options = {"weights": self.weights, "groups": self.groups, "lengths": self.lengths}
        return function(self.rewards, method, convention=convention, **options)


def case_of(batch: naive.Batch, draw: random.Random) -> Case:
    weights = batch.weights or [1.0] * len(batch.rows[0])
    lengths = torch.tensor([draw.randint(2, 64) for _ in batch.rows])
    return Case(f64(batch.rows), f64(weights), batch.ids, lengths)


def methods_for(convention: Convention) -> list[str]:
    """Return the methods that a convention defines: with leave-one-out there is no CorrGRPO, which correlates whole
    groups, and no PAPO, which divides them.
    """
    return [m for m in ALL_METHODS if not (m in ("corr_grpo", "papo") and convention.leave_one_out)]


def alone(case: Case) -> bool:
    return any(case.groups.count(group) == 1 for group in case.groups)


# --- what may be changed, and what then becomes of the advantages ----------------------------------------------------

# A change takes a case and a source of random numbers; it gives another case, and how its advantages follow.


def same(a):
    return a


def permuted(count: int, draw: random.Random) -> list[int]:
    return draw.sample(range(count), count)


def responses_in_another_order(case, draw):
    order = permuted(len(case.rewards), draw)
    names = draw.choice((str, lambda g: ("step", -g), lambda g: g / 3, lambda g: 1000 - 7 * g))
    groups = [names(case.groups[i]) for i in order]
    return replace(case, rewards=case.rewards[order], groups=groups, lengths=case.lengths[order]), lambda a: a[order]


def with_a_prompt_axis(case, draw):
    """Return the batch with an axis of prompts, in another order of the prompts, of the rollouts and of the memory; and
    a function that puts advantages into that order.
    """
    prompts = len(set(case.groups))
    across, along = permuted(prompts, draw), permuted(len(case.groups) // prompts, draw)

    def cube(x):
        x = x.reshape(prompts, -1, *x.shape[1:])[across][:, along]
        return x[0] if prompts == 1 and draw.random() < 0.5 else x

    rewards = cube(case.rewards)
    lengths = case.lengths.reshape(prompts, -1)[across][:, along].reshape(rewards.shape[:-1])
    strided = rewards.movedim(-1, 0).contiguous().movedim(0, -1)
    moved = lambda a: a.reshape(prompts, -1)[across][:, along].reshape(rewards.shape[:-1])  # noqa: E731
    return replace(case, rewards=strided, groups=None, lengths=lengths), moved


def rewards_in_another_order(case, draw):
    order = permuted(len(case.weights), draw)
    return replace(case, rewards=case.rewards[:, order], weights=case.weights[order]), same


def rewards_from_another_zero(case, draw):
    return replace(case, rewards=case.rewards + f64([draw.choice((-3.0, 0.5, 16.0)) for _ in case.weights])), same


def rewards_in_other_units(case, draw):
    units = f64([draw.choice((1e-6, 0.3, 1.0, 50.0, 1e6)) for _ in case.weights])
    return replace(case, rewards=case.rewards * units), same


def a_reward_and_its_weight_negated(case, draw):
    mirrored = f64([draw.choice((-1, 1)) for _ in case.weights])
    return replace(case, rewards=case.rewards * mirrored, weights=case.weights * mirrored), same


def all_weights_negated(case, draw):
    return replace(case, weights=-case.weights), lambda a: -a


def a_further_reward(values, weight=1.0):
    def change(case, draw):
        further = f64([values(i) for i in range(len(case.rewards))])[:, None]
        weights = torch.cat([case.weights, f64([weight])])
        return replace(case, rewards=torch.cat([case.rewards, further], 1), weights=weights), same

    return change


def without_the_responses_that_have_no_reward(case, draw):
    there = ~case.rewards.isnan().all(1)
    assume(there.any())
    groups = [group for group, kept in zip(case.groups, there.tolist(), strict=True) if kept]
    other = replace(case, rewards=case.rewards[there], groups=groups, lengths=case.lengths[there])

    def kept(a):
        assert zeros(a[~there])
        return a[there]

    return other, kept


# --- the table -------------------------------------------------------------------------------------------------------


def always(method, c, case):
    return True


def tokens_count(method, c):
    return c.last_step == "tokens" and method in OVER_BATCH


def without_eps(c):
    return not (c.group_eps or c.sum_eps or c.batch_eps)


def of_differences(method, c, case):
    """Return whether a method's advantages depend only on differences of rewards, so that a constant can be added to a
    reward.
    """
    return method not in ("max_rl", "papo", "saw") and not (c.group_of_one == "raw" and alone(case))


def allows_a_further_reward(method, c, case):
    return of_differences(method, c, case) and not (c.one_reward_is_grpo and len(case.weights) == 1)


def allows_a_missing_reward(method, c, case):
    return c.missing == "skipped" and allows_a_further_reward(method, c, case)


def leaves_out_empty_responses(method, c, case):
    return c.missing == "skipped" and not c.empty_counts and not c.missing_is_zero_in_gdpo


PROPERTIES = {  # what is changed, who promises the rest, of which batches
    "responses in another order": (responses_in_another_order, always, "any"),
    "with a prompt axis": (with_a_prompt_axis, always, "dense"),
    "rewards in another order": (rewards_in_another_order, lambda m, c, case: m != "papo", "any"),
    "rewards from another zero": (rewards_from_another_zero, of_differences, "complete"),
    "rewards in other units": (
        rewards_in_other_units, lambda method, c, case: method in EACH_ALONE and without_eps(c), "any"
    ),
    "a reward and its weight negated": (  # PAPO asks whether the first is above 0
        a_reward_and_its_weight_negated, lambda m, c, case: m != "papo", "any"
    ),
    "all weights negated": (  # sa_mrpo looks at how far the best value is, MaxRL whether the mean is above 0
        all_weights_negated, lambda method, c, case: method not in ("sa_mrpo", "max_rl"), "any"
    ),
    "a further reward without weight": (
        a_further_reward(lambda i: (7 * i) % 3, 0.0), allows_a_further_reward, "complete"
    ),
    "a further reward that never varies": (a_further_reward(lambda i: 0.1), allows_a_further_reward, "complete"),
    "a further reward that is never there": (a_further_reward(lambda i: nan), allows_a_missing_reward, "any"),
    "without empty responses": (without_the_responses_that_have_no_reward, leaves_out_empty_responses, "any"),
    "without lengths": (
        lambda case, draw: (replace(case, lengths=None), same), lambda m, c, case: not tokens_count(m, c), "any"
    ),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", PROPERTIES)
@fewer
@given(st.data(), conventions, seeds)
def test_advantages_know_nothing_else(name, data, convention, seed):
    (change, promised, of), c, draw = PROPERTIES[name], CONVENTIONS[convention], random.Random(seed)
    case = case_of(data.draw(naive.batches(missing=of != "complete", dense=of == "dense")), draw)
    other, moved = change(case, draw)
    for method in methods_for(c):
        if promised(method, c, case):
            note(f"{method}, {convention}")
            # The sums are added up in another order, and what is left of rewards that nearly cancel is magnified.
            close(other(method, c), moved(case(method, c)), 1e-7)


# --- sizes -----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@fewer
@given(naive.batches(), conventions, seeds)
def test_float32_agrees_with_float64_to_its_own_precision(batch, convention, seed):
    c, case = CONVENTIONS[convention], case_of(batch, random.Random(seed))
    case = replace(case, rewards=case.rewards.mul(8).round().div(8))  # float32 holds these numbers exactly.
    in_float32 = replace(case, rewards=case.rewards.float())
    largest = case.rewards.abs().nansum(1).max().clamp(min=1)
    for method in methods_for(c):
        if method in EACH_ALONE and c.group_eps:
            continue  # Where rewards nearly cancel, little but the eps is left of them.
        note(f"{method}, {convention}")
        a = in_float32(method, c)
        assert a.dtype == torch.float32
        close(a / largest, case(method, c) / largest, 2e-5)


# --- exact zeros and ties --------------------------------------------------------------------------------------------

constants = st.sampled_from((0.0, 0.1, 0.2, 0.7, 1 / 3, 1e-3, 1e6 / 7, -2.3))


def not_compared(method: str, c: Convention, case: Case) -> bool:
    """Return whether a rollout that is alone in its group gets something else than 0."""
    return c.group_of_one == "raw" or (c.group_of_one == "nan" and method in OVER_BATCH)


@pytest.mark.slow
@fewer
@given(st.lists(constants, min_size=1, max_size=4), st.integers(1, 5), st.integers(1, 7), conventions, seeds)
def test_constants_are_exactly_0_whatever_their_binary_digits(values, prompts, rollouts, convention, seed):
    c, draw = CONVENTIONS[convention], random.Random(seed)
    weights = [draw.choice((1.0, 0.1, 1 / 3, -0.7)) for _ in values]
    batch = naive.Batch([values] * prompts * rollouts, [n for n in range(prompts) for _ in range(rollouts)], weights)
    case = case_of(batch, draw)
    for method, dtype in product(methods_for(c), DTYPES):
        if rollouts > 1 or not not_compared(method, c, case):
            note(f"{method}, {convention}, {dtype}")
            assert zeros(replace(case, rewards=case.rewards.to(dtype))(method, c))


conflicting = st.lists(
    st.lists(st.floats(-10, 10, width=32).map(lambda x: round(x, 3)), min_size=2, max_size=7), min_size=1, max_size=5
)
tenths = st.integers(-1000, 1000).map(lambda n: n / 10)


def in_conflict(groups, c, a, dtype) -> Case:
    """Return a batch of two rewards, r and c − a r. groups: the values of r in each group."""
    r = torch.tensor([value for group in groups for value in group], dtype=dtype)
    ids = [n for n, group in enumerate(groups) for _ in group]
    return Case(torch.stack([r, c - a * r], 1), f64([1, 1]), ids, torch.tensor([3 + i % 5 for i in range(len(ids))]))


def assume_a_function(case: Case, a: float, c: float, lost: float) -> None:
    """Skip examples in which c − a r is no function of r any more, because a small gap in r is lost in it. lost: the
    smallest relative gap beside c.
    """
    for group in set(case.groups):
        gaps = case.rewards[[g == group for g in case.groups], 0].unique().diff()
        assume(not len(gaps) or gaps.min() * a > lost * (abs(c) + 10 * a))


@pytest.mark.slow
@fewer
@example([[8.195, 3.184, 2.179]], 49.3, "paper")  # float32 rounds the sums, though all are multiples of 2^-20
@given(conflicting, tenths, conventions)
def test_rewards_that_add_up_to_a_constant_are_exactly_0(groups, total, convention):
    c = CONVENTIONS[convention]
    for method, dtype in product(methods_for(c), DTYPES):
        # Under these three, the reward with more left to learn, or with more variation, wins.
        if method not in ("sa_mrpo", "saw", "papo"):
            note(f"{method}, {convention}, {dtype}")
            assert zeros(in_conflict(groups, total, 1, dtype)(method, c))


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@example([[0.0, 1.0, 0.938]], -32.0, 3 / 256)  # in float32, what a · r leaves in the other has three digits
@given(conflicting, tenths, st.floats(0.01, 100))
def test_a_perfect_conflict_of_any_scales_is_exactly_0_where_each_is_normalised_alone(dtype, groups, c, a):
    case = in_conflict(groups, c, a, dtype)
    assume_a_function(case, a, c, 64 * torch.finfo(dtype).eps)
    for method in ("gdpo", "mo_grpo", "gd2po", "corr_grpo"):
        note(method)
        assert zeros(case(method, gc.PAPER))
        assert zeros(replace(case, weights=f64([0.1, 0.1]))(method, gc.PAPER))


@pytest.mark.slow
def test_equal_reward_vectors_are_equal_in_large_groups_with_and_without_ids(subtests):
    draw = torch.Generator().manual_seed(0)
    for key, c in CONVENTIONS.items():
        for rewards, rollouts, dtype in ((1, 64, torch.float64), (3, 37, torch.float32), (9, 61, torch.float64)):
            vectors = torch.rand(3, rewards, generator=draw, dtype=dtype)
            if rewards == 9:
                vectors[2, 0] = nan
            which = torch.randint(0, 3, (rollouts,), generator=draw)
            options = {"weights": torch.rand(rewards, generator=draw), "lengths": [5] * rollouts, "convention": c}
            with subtests.test(key, rewards=rewards):
                for method in methods_for(c):
                    for groups in (None, [0] * rollouts):
                        a = gc.advantages(vectors[which], method, groups=groups, **options)
                        assert all(len(a[which == v].nan_to_num(9).unique()) <= 1 for v in range(3)), method


@pytest.mark.parametrize("key", CONVENTIONS)
def test_without_weight_every_advantage_is_exactly_0(key):
    for method in methods_for(CONVENTIONS[key]):
        options = {"weights": [0, 0], "lengths": [3, 4, 5], "convention": CONVENTIONS[key]}
        assert zeros(gc.advantages([[1, 0], [0, 3], [1, 1]], method, **options))


# --- missing rewards -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", CONVENTIONS)
def test_a_missing_reward_spreads_as_far_as_the_convention_says(key):
    c, draw = CONVENTIONS[key], torch.Generator().manual_seed(2)
    rewards = torch.randint(0, 2, (6, 5, 3), generator=draw).double()
    lengths = torch.randint(1, 9, (6, 5), generator=draw)
    for method in methods_for(c):
        a = gc.advantages(rewards, method, lengths=lengths, convention=c)
        assert a.isfinite().all() and not zeros(a)
    rewards[0, 0, 0] = nan
    for method in methods_for(c):
        a = gc.advantages(rewards, method, lengths=lengths, convention=c).isnan()
        spread = (c.missing == "propagates") * (1 if method in GROUPS_ALONE else 6)
        assert a.any(1).tolist() == [n < spread for n in range(6)], method
        assert not spread or method in ("dvao", "mo_grpo", "papo", "corr_grpo") or a[0].all(), method


# --- how it is computed ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ALL_METHODS)
def test_a_batch_too_large_for_one_piece_gives_what_its_groups_give_by_their_ids(method):
    # With 8 × 3 rewards each, this is one prompt more than fits into a piece.
    draw, prompts = torch.Generator().manual_seed(14), 21_846
    rewards = torch.randint(0, 3, (prompts, 8, 3), generator=draw) + torch.rand(prompts, 1, 1, generator=draw).double()
    rewards[:11_000, :, 0] = 1  # A piece alone would say that this reward is solved.
    lengths, ids = torch.randint(1, 64, (prompts, 8), generator=draw), torch.arange(prompts).repeat_interleave(8)
    before, options = rewards.clone(), {"weights": [1, 0.5, -2], "convention": gc.VERL}
    a = gc.advantages(rewards, method, lengths=lengths, **options)
    by_id = gc.advantages(rewards.flatten(0, 1), method, groups=ids, lengths=lengths.flatten(), **options)
    close(a.flatten(), by_id, 1e-9)
    assert torch.equal(rewards, before)


@pytest.mark.parametrize("key", CONVENTIONS)
def test_what_goes_in_stays_as_it_is_and_no_gradient_comes_out(key):
    rewards = f64([[0.1, 1], [0.2, nan], [nan, nan], [0.4, 0], [0.5, 1]]).requires_grad_()
    given_in = [rewards, f64([0.3, 2]).requires_grad_(), torch.tensor([3, 1, 3, 1, 1]), f64([1, 2, 3, 4, 5])]
    kept = [x.detach().clone() for x in given_in]
    options = dict(zip(("weights", "groups", "lengths"), given_in[1:], strict=True)) | {"convention": CONVENTIONS[key]}
    for method in methods_for(CONVENTIONS[key]):
        a = gc.advantages(rewards, method, **options)
        assert not a.requires_grad and a.device == rewards.device
        a += 1  # The advantages share no memory with the rewards either, so this changes nothing below.
        for function in (gc.explain, gc.collapse, gc.update_share, gc.push):
            function(rewards, method, **options)
        assert all(torch.equal(x.nan_to_num(9), y.nan_to_num(9)) for x, y in zip(given_in, kept, strict=True))


# --- explain, update shares ------------------------------------------------------------------------------------------


@pytest.mark.slow
@fewer
@given(naive.batches(), conventions, seeds)
def test_an_explanation_has_the_advantages_bit_for_bit_and_shares_of_the_update_add_up_to_1(batch, convention, seed):
    c, case = CONVENTIONS[convention], case_of(batch, random.Random(seed))
    for method, dtype in product(methods_for(c), DTYPES):
        note(f"{method}, {convention}, {dtype}")
        typed = replace(case, rewards=case.rewards.to(dtype))
        e, a = typed(method, c, gc.explain), typed(method, c)
        assert torch.equal(e.advantages.nan_to_num(9), a.nan_to_num(9))
        tensors = (e.rewards, e.weights, e.group_means, e.group_stds, e.z, e.weighted_sums, a)
        assert all(x is None or x.dtype == dtype for x in tensors)
    for method, one in product(methods_for(c), (case, replace(case, rewards=case.rewards.nan_to_num()))):
        share = one(method, c, gc.update_share)
        if share[0] == share[0]:
            close(sum(share), 1.0, 1e-9 * max(1.0, *map(abs, share)))
