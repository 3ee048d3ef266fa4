"""Recipes that are found from logs: of real trainers, of recorded outputs of the frameworks, of batches made here, and
of chance.
"""

from dataclasses import replace
from pathlib import Path
from statistics import mean

import numpy as np
import polars as pl
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import gdpo_audit as ga
from benchmarks.recipes import round_to
from gdpo_audit.logs.names import reward_column
from gdpo_audit.recipe import solve as solving
from gdpo_audit.recipe.attempts import candidates
from gdpo_audit.recipe.guesses import simple_near
from gdpo_audit.recipe.recipe import (
    GRIDS,
    TOLERANCE,
    Recipe,
    compare,
    grid_of,
    half_step,
    hidden_groups,
    same_direction,
    tensors_of,
)
from gdpo_audit.recipe.round_off import float32_error, float32_error_of_sums
from gdpo_audit.recipe.solve import solve
from gdpo_core import InputError
from gdpo_core.conventions import NAMES
from gdpo_core.frameworks import ALL_CONVENTIONS, FRAMEWORKS
from gdpo_core.numerics.batch import make_batch
from gdpo_core.registry import method_for

GOLDENS = Path(__file__).parent / "goldens"
FRAMEWORK = {"ms_swift": "ms_swift", "nemo_rl": "nemo_rl", "nemo_rl_loo": "nemo_rl", "verl": "verl", "paper": "generic"}
IMPLEMENTATION = {
    "trl": "trl-1.16.0",
    "nvlabs_trl": "nvlabs-trl-ref",
    "verl": "verl-0.9.1",
    "ms_swift": "swift-4.6.0",
    "nemo_rl": "nemo-HEAD(loo=F)",
    "axolotl_async": "axolotl-async",
    "axolotl_streaming": "axolotl-stream",
}
WEIGHTS = (1.0, 0.5, 2.0)
# RLOO makes the same advantages, from weights that are smaller by a factor.
LIKE_RLOO = ("grpo_no_std", "reinforce_pp_baseline")
# MaxRL divides the scale of the weights away and needs sums above 0, so it is tried under each convention alone.
SCALED = [method for method in NAMES if method != "max_rl"]


def draw(seed=0, *, batches=6, prompts=4, size=8, rewards=3, missing=0.0):
    """Return random rewards, (groups, size, rewards), as float32 numbers: 0 or 1, mostly 1, and one that is spread.
    missing: how often the last is missing.
    """
    rng = np.random.default_rng(seed)
    shape = (batches * prompts, size)
    kinds = [rng.integers(0, 2, shape), rng.random(shape) < 0.7, np.round(1 + rng.random(shape), 2)]
    r = np.stack([rng.permutation(kinds[k % 3].astype(float), axis=1) for k in range(rewards)], -1)
    if missing:
        r[..., -1][rng.random(shape) < missing] = np.nan
        r[rng.random(shape) < missing / 3] = np.nan
    return r.astype(np.float32).astype(float)


def made(r, method, weights=WEIGHTS, convention="trl", batches=6, lengths=None):
    """Return a method's advantages, (groups, size), in float32 as a framework computes them."""
    batch = make_batch(
        torch.tensor(r, dtype=torch.float32),
        weights=torch.tensor(weights, dtype=torch.float64),
        batches=torch.arange(batches).repeat_interleave(len(r) // batches),
        lengths=lengths,
        convention=ALL_CONVENTIONS[convention],
    )
    formula, batch = method_for(method, batch)
    return batch.zero_unrewarded(formula.advantages(batch)).double().numpy()


def table(r, advantages, batches=6, lengths=None):
    groups, size, rewards = r.shape
    batch = np.arange(batches).repeat(groups // batches * size)
    columns = {"batch": batch, "step": batch + 1, "group": np.arange(groups).repeat(size)}
    columns |= {reward_column(f"r{k}"): r[..., k].ravel() for k in range(rewards)}
    columns |= {"advantage": np.ravel(advantages)} | ({} if lengths is None else {"length": np.ravel(lengths)})
    return pl.DataFrame(columns)


def names(r):
    return [f"r{k}" for k in range(r.shape[-1])]


def solved(r, advantages, framework="trl", weights=None, batches=6):
    return solve([table(r, advantages, batches)], names(r), framework, weights)


def compared(log, rewards, recipe):
    return compare(tensors_of(log, rewards), recipe)


def directions(log, rewards, recipe):
    return same_direction(tensors_of(log, rewards), compared(log, rewards, recipe))


def reproduced(r, advantages, recipe, batches=6):
    comparison = compared(table(r, advantages, batches), names(r), recipe)
    return (comparison.error <= comparison.allowed).double().mean().item()


# --- logs of real trainers, and recorded outputs of the frameworks' own code ------------------------------------------


SCENARIOS = ("binary", "half_groups_dead", "mixed_equal_len", "mixed_skewed_len", "nan_row_all", "offset_100_sd_1e-3")
RECORDED = [
    (convention, scenario)
    for convention in IMPLEMENTATION
    for scenario in SCENARIOS
    if (convention, scenario) != ("nemo_rl", "offset_100_sd_1e-3")  # nothing but round-off
]


# These are enough to have each convention and each scenario.
IN_TURN_RECORDED = RECORDED[:: len(SCENARIOS) - 1]


@pytest.mark.parametrize(("convention", "scenario"), IN_TURN_RECORDED)
@pytest.mark.parametrize("method", ["grpo", "gdpo"])
def test_recorded_outputs_of_frameworks_are_reproduced(scenario, method, convention):
    data, key = np.load(GOLDENS / "frameworks.npz"), f"{method}|{scenario}"
    r, w, a = data[f"{key}|inputs"].astype(float), data[f"{key}|w"], data[f"{key}|{IMPLEMENTATION[convention]}"]
    columns = {reward_column(name): r[:, k] for k, name in enumerate(names(r))}
    log = pl.DataFrame({"batch": 0, "group": data[f"{key}|uid"]} | columns)
    log = log.with_columns(pl.Series("advantage", a.astype(float)), pl.Series("length", data[f"{key}|L"].astype(int)))
    recipe = solve([log], names(r), FRAMEWORK.get(convention, "trl"))
    if np.isnan(a).all():  # One missing reward made all advantages NaN.
        assert recipe is None
        return
    assert recipe.method == method
    weights = np.array(recipe.weights)
    if recipe.up_to_scale:
        weights, w = weights / weights.max(), w / w.max()
    assert weights == pytest.approx(w, rel=1e-6)
    comparison = compared(log, names(r), recipe)
    logged = ~torch.tensor(np.isnan(a))
    assert bool((comparison.error <= comparison.allowed)[logged].all())
    assert scenario.startswith("offset") or comparison.error[logged].max() < 2e-6


def sums(r, weights=WEIGHTS):
    """Return the weighted sums Σ w·r of a batch as lists, (groups, size), added one term after the other."""
    return [[sum(w * x for w, x in zip(weights, row, strict=True)) for row in group] for group in r.tolist()]


def centred(s):
    return [[x - mean(group) for x in group] for group in s]


def from_the_others(s):
    return [[x - mean(group[:j] + group[j + 1 :]) for j, x in enumerate(group)] for group in s]


# --- batches made here ------------------------------------------------------------------------------------------------


SOLVABLE = [
    (method, name, missing)
    for method in NAMES
    for name in ("paper", *IMPLEMENTATION, "nemo_rl_loo")
    for missing in (0.0, 0.1)
    for c in [ALL_CONVENTIONS[name]]
    if not (missing and c.missing == "propagates") and not (method in ("grpo", "max_rl") and c.leave_one_out)
]


SOLVED_WEIGHTS = (WEIGHTS, (0.3, -0.1, 1.25), (10.0, 3.0, 7.0), (1.0, 1.0, 1.0))  # each with its own draw
# Each draw has its weights in turn, and every third of all combinations is tried.
IN_TURN = [(*case, n % 4) for n, case in enumerate(SOLVABLE)][::3]


@pytest.mark.parametrize(("method", "convention", "missing", "seed"), IN_TURN)
def test_each_method_is_found_under_each_convention(method, convention, missing, seed):
    r, weights = draw(seed, missing=missing), SOLVED_WEIGHTS[seed]
    lengths = np.random.default_rng(seed).integers(1, 500, r.shape[:2])
    a = made(r, method, weights, convention, lengths=torch.tensor(lengths))
    log = table(r, a, lengths=lengths if convention == "verl" else None)
    recipe = solve([log], names(r), FRAMEWORK.get(convention, "trl"))
    assert recipe.method == method
    same = np.array(recipe.weights) / (np.abs(recipe.weights).max() if recipe.up_to_scale else 1)
    assert same == pytest.approx(np.array(weights) / (np.abs(weights).max() if recipe.up_to_scale else 1), rel=0.01)
    comparison = compared(log, names(r), recipe)
    assert bool((comparison.error <= comparison.allowed).all())


def test_leave_one_out_grpo_is_recognised_by_the_weights_that_are_given():
    r = draw()
    a = made(r, "grpo", WEIGHTS, "nemo_rl_loo")
    assert solved(r, a, "nemo_rl") is None
    recipe = solved(r, a, "nemo_rl", WEIGHTS)
    assert (recipe.method, recipe.convention, recipe.weights) == ("grpo", "nemo_rl_loo", WEIGHTS)


@pytest.mark.parametrize("convention", ["paper", "trl", "verl", "nemo_rl", "nemo_rl_loo"])
@pytest.mark.parametrize("case", ["dense", "ragged", "missing", "exact"])
def test_the_round_off_of_centred_sums_follows_from_the_rewards_alone(case, convention):
    """The bound of GRPO without std needs no advantages, and float32 keeps within it."""
    draw = np.random.default_rng(7)
    rewards = torch.tensor(draw.integers(0, 4, (6, 5, 3)) * (1.0 if case == "exact" else 0.1))
    rewards[draw.random((6, 5, 3)) < 0.2 * (case == "missing")] = torch.nan
    groups = {"groups": [0] * 3 + [1] * 11 + [2] * 16} if case == "ragged" else {}
    given = rewards.flatten(0, 1) if groups else rewards
    options = {"weights": [1, 2, 4], "convention": ALL_CONVENTIONS[convention], **groups}
    formula, batch = method_for("grpo_no_std", make_batch(given, **options))
    bound = float32_error_of_sums(batch)
    assert torch.equal(bound, float32_error("grpo_no_std", batch, formula(batch)))
    if case == "exact":
        assert bound.tolist() == [0]
        return
    assert bound.shape == given.shape[:-1]
    if not ALL_CONVENTIONS[convention].leave_one_out and case != "missing":
        sums = (given.numpy().astype(np.float32) * np.array([1, 2, 4], np.float32)).sum(-1)
        exact = (given.numpy() * [1, 2, 4]).sum(-1)
        of_group = np.array(groups.get("groups", np.arange(30) // 5)).reshape(sums.shape)
        for g in np.unique(of_group):
            here = of_group == g
            off = (sums[here] - sums[here].mean()) - (exact[here] - exact[here].mean())
            assert np.abs(off).max() <= bound.numpy()[here].max()


def test_the_round_off_of_sums_near_a_constant_is_allowed():
    """A policy that passes nearly everything, beside a reward of nearly constant noise, leaves sums that are nearly
    constant.
    """
    draw = np.random.default_rng(0)
    r = np.ones((4800, 12, 4), dtype=np.float32)
    r[..., 3] += draw.normal(0, 0.01, r.shape[:2])
    r[::8, 0, 0] = 0  # In each batch one answer fails, which shows the weights.
    sums = torch.from_numpy(r).sum(-1)  # From here on the numbers are float32, as in TRL.
    a = (sums - sums.mean(1, keepdim=True)) / (sums.std(1, keepdim=True) + 1e-4)
    log = table(r.astype(float), a.double().numpy(), batches=600)
    comparison = compared(log, names(r), Recipe("grpo", "trl", (1.0,) * 4, (), False))
    assert bool((comparison.error <= comparison.allowed).all())
    assert comparison.error.max() > 1e-4


@pytest.mark.parametrize("method", SCALED)
def test_a_dead_reward_keeps_the_weight_that_was_given_else_1(method):
    r = draw()
    r[..., 0] = 1
    a = made(r, method)
    assert solved(r, a) == Recipe(method, "trl", (1.0, 0.5, 2.0), (0,), False)
    assert solved(r, a, weights=(3, 0.5, 2)) == Recipe(method, "trl", (3.0, 0.5, 2.0), (0,), False)


@pytest.mark.parametrize("method", SCALED)
def test_of_a_reward_and_its_copy_only_the_sum_is_known(method):
    r = draw()
    r[..., 1] = r[..., 0]
    a = made(r, method)
    # For a single weight under RLOO, 1.75 is as likely as 2.
    assert solved(r, a) == Recipe(method, "trl", (0.75, 0.75, 2.0), (0, 1), up_to_scale=method in LIKE_RLOO)
    assert solved(r, a, weights=WEIGHTS).weights == WEIGHTS
    assert solved(r, made(r, method, (1.5, 0.5, 1.0))).weights == (1.0, 1.0, 1.0)


@pytest.mark.parametrize("method", SCALED)
def test_a_column_that_is_no_reward_has_weight_0(method):
    r = draw()
    r[..., 2] = np.random.default_rng(0).integers(1, 4000, r.shape[:2])
    assert solved(r, made(r, method, (1, 0.5, 0))).weights == (1.0, 0.5, 0.0)
    assert solved(r, made(r, method, (1, 0.5, -0.001))).weights == (1.0, 0.5, -0.001)


@pytest.mark.parametrize("size", [2, 3, 8])
@pytest.mark.parametrize("method", SCALED)
def test_one_reward_in_small_groups_is_told_or_open(method, size):
    r = draw(size=size, rewards=1, prompts=8)
    for weight in (1.0, -2.0):
        a = made(r, method, (weight,))
        recipe = solved(r, a)
        assert reproduced(r, a, recipe) == 1 and np.sign(recipe.weights[0]) == np.sign(weight)
        # The scale stays open under leave-one-out and where there are few different advantages.
        if not recipe.up_to_scale:
            assert recipe.weights == (weight,)


def test_weights_that_are_given_or_1_go_before_others_that_do_as_well():
    r = draw()
    a = made(r, "gdpo", (2, 2, 2), "ms_swift")
    assert solved(r, a, "ms_swift") == Recipe("gdpo", "ms_swift", (1.0, 1.0, 1.0), (), True)
    assert solved(r, a, "ms_swift", (4, 4, 4)).weights == (4.0, 4.0, 4.0)
    assert solved(r, a, "ms_swift", (4, 4, 1)).weights == (1.0, 1.0, 1.0)


@pytest.mark.parametrize(
    "size, weights, rloo, is_open",
    [
        (2, (1, 1), False, True),  # or 0.5 and 0.5
        (5, (1, 2), False, True),  # or 0.8 and 1.6
        (5, (0.8, 1.6), True, True),
        (5, (1, 2), True, False),  # nobody has 1.25 and 2.5
        (4, (3, 1.5), True, True),  # or 4 and 2
        (8, (1, 2), False, False),  # nobody has 0.875 and 1.75
        (8, (1, 2), True, False),
        (8, (0.7312, 1.8414), False, True),  # as odd either way
    ],
)
def test_where_both_readings_are_as_round_the_scale_is_open(size, weights, rloo, is_open):
    r = draw(2, size=size, rewards=2)
    recipe = solved(r, np.array((from_the_others if rloo else centred)(sums(r, weights))), "trl")
    assert recipe.method == "grpo_no_std" and recipe.up_to_scale == is_open
    assert recipe.weights[0] / recipe.weights[1] == pytest.approx(weights[0] / weights[1])
    if not is_open:
        assert (recipe.convention, recipe.weights) == ("trl_rloo" if rloo else "trl", weights)


def test_groups_of_different_sizes_tell_rloo_for_certain():
    r = draw(size=9)
    keep = np.random.default_rng(1).random(r.shape[:2]) < 0.7
    a = np.zeros(r.shape[:2])
    weights = (0.7312, 1.1841, 0.2263)
    for g, s in enumerate(sums(r, weights)):
        a[g, keep[g]] = from_the_others([[x for x, there in zip(s, keep[g], strict=True) if there]])[0]
    log = table(r, a).filter(pl.Series(keep.ravel()))
    recipe = solve([log], names(r), "trl")
    assert (recipe.method, recipe.convention, recipe.unknown) == ("grpo_no_std", "trl_rloo", ())
    assert not recipe.up_to_scale and recipe.weights == pytest.approx(weights, rel=1e-4)


# --- groups of two, where advantages show little but signs ------------------------------------------------------------


def test_groups_of_two_without_eps_tell_signs_only():
    r = draw(size=2, prompts=8)
    a = made(r, "grpo", convention="paper")
    recipe = solved(r, a, "generic")
    assert (recipe.method, recipe.unknown, recipe.up_to_scale) == ("grpo", (0, 1, 2), True)
    assert reproduced(r, a, recipe) == 1
    assert solved(r, a, "generic", WEIGHTS).weights == WEIGHTS


def eight_pairs(seed, framework, convention):
    """Return random weights, and the recipe that is found for eight groups of two under GRPO with them."""
    weights = tuple(np.random.default_rng(seed).choice([1.0, 0.5, 2.0, 0.1, 10.0], 3).tolist())
    r = draw(seed, batches=1, prompts=8, size=2)
    return weights, solved(r, made(r, "grpo", weights, convention, 1), framework, batches=1)


# In the first case a weight of 0.000316 made GDPO's batch step divide by little more than eps, which imitated GRPO. In
# the other two, equal rewards beside an eps of 1e-8 allowed so much round-off that all advantages were reproduced.
@pytest.mark.parametrize("seed", [228, 2048])
def test_the_signs_of_a_few_pairs_are_not_taken_for_another_method(seed):
    _, recipe = eight_pairs(seed, "generic", "paper")
    assert (recipe.method, recipe.unknown, recipe.up_to_scale) == ("grpo", (0, 1, 2), True)


# --- what a log leaves open -------------------------------------------------------------------------------------------


def test_a_reward_too_small_beside_eps_to_be_seen_is_unknown_and_not_0():
    r = draw(2)
    r[..., 0] *= 1e-12
    recipe = solved(r, made(r, "gdpo", (1.0, 0.5, 2.0)))
    assert (recipe.method, recipe.unknown) == ("gdpo", (0,))
    assert recipe.weights[1:] == (0.5, 2.0)


# --- rounded, clipped and scaled advantages ---------------------------------------------------------------------------


@pytest.mark.parametrize("precision", ["bf16", "float16", "4 decimals", "3 decimals", "2 decimals"])
@pytest.mark.parametrize("method", ["grpo", "gdpo", "grpo_no_std"])
def test_rounded_advantages_are_reproduced_and_the_rounding_named(method, precision):
    r = draw(batches=12)
    a = round_to(made(r, method, batches=12).ravel(), precision)
    recipe = solved(r, a, batches=12)
    ratios = [(w, true) for w, true in zip(recipe.known, WEIGHTS, strict=True) if w is not None]
    assert recipe.method == method and len(ratios) >= (1 if precision == "2 decimals" else 3)
    assert [w / ratios[-1][0] for w, _ in ratios] == pytest.approx([w / ratios[-1][1] for _, w in ratios], rel=0.01)
    # The advantages of this method have no more than 4 decimals anyway.
    if (method, precision) != ("grpo_no_std", "4 decimals"):
        assert recipe.grid == precision and recipe.remarks == (
            f"logged {'with' if 'decimals' in precision else 'in'} {precision}",
        )
    comparison = compared(table(r, a, 12), names(r), recipe)
    assert bool((comparison.error <= comparison.allowed).all())


@pytest.mark.parametrize("framework, is_open", [("generic", True), ("trl", False)])
def test_a_convention_that_rounding_hides_is_open_unless_the_framework_tells_it(framework, is_open):
    r = draw(batches=12)
    recipe = solved(r, round_to(made(r, "grpo", batches=12).ravel(), "3 decimals"), framework, batches=12)
    assert (recipe.method, recipe.convention_open) == ("grpo", is_open)
    assert recipe.remarks == ("logged with 3 decimals" + ", too coarse to show the convention" * is_open,)


def rewards_in_bf16(r, method):
    r[..., 2] = np.random.default_rng(0).normal(1, 0.5, r.shape[:2])
    a = made(r, method, batches=12)
    r[..., 2] = round_to(r[..., 2].ravel(), "bf16").reshape(r.shape[:2])
    return a


def without_silent_groups(r, method):
    r[::3] = r[::3, :1]
    a = made(r, method, batches=12)
    r[::3], a[::3] = 0, np.nan  # These groups are dropped after the batch step.
    return a


IMITATIONS = {  # beside those that tests/reports.json holds: clipped, and times a factor per batch
    "rewards in bf16": rewards_in_bf16,
    "without silent groups": without_silent_groups,
}


@pytest.mark.parametrize("method", ["grpo", "gdpo", "grpo_no_std"])
@pytest.mark.parametrize("imitation", IMITATIONS)
def test_of_what_was_done_afterwards_nothing_wrong_is_said(imitation, method):
    r = draw(batches=12)
    a = IMITATIONS[imitation](r, method)
    recipe = solved(r, a, batches=12)
    if recipe is not None:
        known = [(w, true) for w, true in zip(recipe.known, WEIGHTS, strict=True) if w is not None]
        scale = known[0][1] / known[0][0] if recipe.up_to_scale and known else 1.0
        assert recipe.method == method
        assert [scale * w for w, _ in known] == pytest.approx([true for _, true in known], rel=0.01)


@given(st.floats(-100, 100).map(np.float32), st.sampled_from(sorted(GRIDS)))
def test_a_rounded_number_is_on_its_grid_and_no_farther_than_half_a_step(x, grid):
    near = round_to(np.array([x], dtype=np.float32), grid)
    on = torch.from_numpy(near)
    assert abs(near[0] - float(x)) <= half_step(grid, torch.tensor([float(x)], dtype=torch.float64)).item()
    held = grid_of(on)
    assert held and list(GRIDS).index(held) <= list(GRIDS).index(grid)


# --- damaged logs -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", SCALED)
def test_the_recipe_of_most_batches_is_found(method):
    r = draw(batches=12)
    a = made(r, method, batches=12)
    # These are 5 of the 12 batches.
    a[:20] = made(r, "grpo" if method != "grpo" else "gdpo", (1, 1, 1), batches=12)[:20]
    assert solved(r, a, batches=12) == Recipe(method, "trl", WEIGHTS, (), False)
    a[:20] = made(r, method, (1, 0.5, 3), batches=12)[:20]
    recipe = solved(r, a, batches=12)
    assert recipe == Recipe(method, "trl", WEIGHTS, (), False)
    same = directions(table(r, a, 12), names(r), recipe)
    assert same[20:].all() and not same[:20].all()


@pytest.mark.slow
@pytest.mark.parametrize("framework", ["trl", "generic"])
def test_advantages_that_have_nothing_to_do_with_the_rewards_are_not_claimed(framework):
    r, rng = draw(), np.random.default_rng(1)
    for a in (rng.normal(size=r.shape[:2]), np.zeros(r.shape[:2]), np.ones(r.shape[:2]), r.sum(-1) ** 2):
        assert solved(r, a, framework) is None
    for _ in range(5):
        pairs, sign = draw(size=2), np.sign(rng.normal(size=24))
        assert solved(pairs, np.stack([sign, -sign], 1) * 0.5**0.5, framework) is None


def test_round_off_of_float32_is_no_difference():
    r = np.full((4, 8, 1), np.float32(0.1), dtype=float)
    r[1:, :, 0] = draw(batches=1, prompts=3, rewards=1)[..., 0]
    a = made(r, "grpo", (1,), batches=1)
    a[0] = 2e-4  # TRL logs this for a group whose rewards all are 0.1.
    recipe = Recipe("grpo", "trl", (1.0,), (), False)
    allowed = compared(table(r, a, 1), names(r), recipe).allowed.view(4, 8)
    assert (allowed[0] > 2e-4).all() and (allowed[1:] == TOLERANCE).all()
    assert reproduced(r, a, recipe, 1) == 1


# --- errors, and what else the functions say --------------------------------------------------------------------------


@pytest.mark.parametrize("length", [0, -3, 1.5])
def test_lengths_that_are_no_counts_of_tokens_are_left_out(length):
    r, lengths = draw(), np.full((24, 8), 7.0)
    lengths[0, 0] = length
    log = table(r, made(r, "grpo", convention="verl"), lengths=lengths)
    assert solve([log], names(r), "verl").method == "grpo"


def test_hidden_groups_are_those_in_which_equal_rewards_have_different_advantages():
    log = pl.DataFrame(
        {
            "batch": 0,
            "group": [0, 0, 0, 1, 1, 1, 2, 2, 2],
            reward_column("r"): [1.0, 1.0, 0.0] * 2 + [float("nan"), float("nan"), 0.0],
            "advantage": [0.5, 0.5005, -1.0, 0.5, 0.6, -1.1, 1.0, -1.0, 0.0],
        }
    )
    assert len(hidden_groups(log, ["r"])) == 2
    assert len(hidden_groups(log.with_columns(length=pl.Series([3, 4, 3] * 3)), ["r"])) == 0


def test_without_advantages_there_is_no_recipe_and_a_framework_has_a_name():
    log = table(draw(), made(draw(), "grpo"))
    assert solve([log.drop("advantage")], names(draw()), "trl") is solve([], names(draw()), "trl") is None
    with pytest.raises(InputError, match=r"framework: expected one of trl, .* got 'slime'"):
        solve([log], names(draw()), "slime")


@given(st.integers(1, 999), st.integers(-4, 2), st.floats(-1, 1))
def test_the_simplest_number_is_near_and_has_no_more_digits(whole, exponent, error):
    x = whole * 10.0**exponent
    complexity, number = simple_near(x * (1 + 1e-6 * error), 1e-5)[0]
    assert number == pytest.approx(x, rel=2e-5) and complexity <= 3


def test_the_worked_log_of_the_guide_is_reproduced_by_the_recipe_that_it_names_alone():
    run = ga.read_run(Path(__file__).parents[1] / "data/samples/trl_gdpo")
    log = tensors_of(pl.concat(run.tables()), run.rewards)
    assert log.batches == 4 and len(list(candidates(log, FRAMEWORKS["trl"].conventions_to_try))) == 20
    recipe = solve(list(run.tables()), run.rewards, "trl")
    assert (recipe.method, recipe.convention, recipe.weights, recipe.up_to_scale) == ("gdpo", "trl", (1, 0.5, 2), False)
    for method, convention, batches in (("grpo", "trl", 0), ("gdpo", "trl_async", 0), ("gdpo", "trl", 4)):
        comparison = compare(log, replace(recipe, method=method, convention=convention))
        wrong = set(log.batch_of_response[comparison.error > comparison.allowed].tolist())
        assert log.batches - len(wrong) == batches


# --- what is solved once ---------------------------------------------------------------------------------------------


def test_the_same_numbers_are_solved_once_whatever_they_are_called(monkeypatch):
    searched = []
    monkeypatch.setattr(solving, "_SOLVED", {})
    monkeypatch.setattr(solving, "_search", lambda *_: searched.append(1))
    rng = np.random.default_rng(6)
    r, a = rng.integers(0, 2, (24, 2)).astype(float), rng.normal(size=24)

    def solved(names="ab", first=0, weights=None, framework="trl", **changed):
        places = {"batch": np.arange(24) // 12 + first, "group": np.arange(24) // 4 + 3 * first}
        columns = dict(zip(map(reward_column, names), r.T, strict=True))
        return solve([pl.DataFrame(places | columns | {"advantage": a} | changed)], [*names], framework, weights)

    for alike in ({}, {"names": "xy"}, {"first": 7}):
        solved(**alike)
    assert len(searched) == 1
    nearly = a + np.eye(24)[5] * 1e-12
    ragged = np.r_[0, np.arange(23) // 4]
    others = (
        {"advantage": nearly},
        {"length": np.arange(24.0) + 3},
        {"group": ragged},
        {"weights": (1, 2)},
        {"framework": "verl"},
    )
    for n, other in enumerate(others):
        solved(**other)
        assert len(searched) == n + 2, other
    monkeypatch.setattr(solving, "_MOST_SOLVED", 3)
    solved(first=1)
    assert len(solving._SOLVED) == len(others) + 1  # it is still known
    solved(weights=(3, 1))
    assert len(solving._SOLVED) == 1
