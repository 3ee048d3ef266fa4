"""Recipes found from logs: of real trainers, of the frameworks' recorded outputs, and of batches made here."""

from pathlib import Path

import numpy as np
import polars as pl
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from gdpo_core import CONVENTIONS, InputError
from gdpo_core._groups import make_batch
from gdpo_core.conventions import NAMES
from gdpo_core.registry import method_for, method_named
from gdpo_core.runs.read import read_run
from gdpo_core.runs.recipe import TOLERANCE, Recipe, compare, hidden_inputs, same_direction, tensors_of
from gdpo_core.runs.solve import numbers_near, simplest, solve

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
# MaxRL divides the scale of the weights away, and needs sums above 0: tests/test_recipes.py has it.
SCALED = [method for method in NAMES if method != "max_rl"]


def draw(seed=0, *, batches=6, prompts=4, size=8, rewards=3, missing=0.0):
    """(groups, size, rewards) float32 numbers: 0 or 1, mostly 1, one that is spread; the last is missing at times."""
    rng = np.random.default_rng(seed)
    shape = (batches * prompts, size)
    kinds = [rng.integers(0, 2, shape), rng.random(shape) < 0.7, np.round(1 + rng.random(shape), 2)]
    r = np.stack([rng.permutation(kinds[k % 3].astype(float), axis=1) for k in range(rewards)], -1)
    if missing:
        r[..., -1][rng.random(shape) < missing] = np.nan
        r[rng.random(shape) < missing / 3] = np.nan
    return r.astype(np.float32).astype(float)


def made(r, method, weights=WEIGHTS, convention="trl", batches=6, lengths=None):
    """(groups, size) advantages in float32, like a framework's."""
    batch = make_batch(
        torch.tensor(r, dtype=torch.float32),
        weights=torch.tensor(weights, dtype=torch.float64),
        batches=torch.arange(batches).repeat_interleave(len(r) // batches),
        lengths=lengths,
        convention=CONVENTIONS[convention],
    )
    formula, batch = method_for(method, batch)
    return batch.zero_unrewarded(formula.advantages(batch)).double().numpy()


def table(r, advantages, batches=6, lengths=None):
    groups, size, rewards = r.shape
    batch = np.arange(batches).repeat(groups // batches * size)
    columns = {"batch": batch, "step": batch + 1, "group": np.arange(groups).repeat(size)}
    columns |= {f"r{k}": r[..., k].ravel() for k in range(rewards)}
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


# Logs of real trainers


@pytest.mark.parametrize("log", ["gdpo", "grpo", "gdpo_none", "grpo_none", "edge_conv", "edge_dupprompts"])
@pytest.mark.parametrize("framework", ["trl", "generic"])
def test_the_logs_of_trl_give_method_convention_and_weights(log, framework):
    run = read_run(GOLDENS / "logs" / "trl" / log)
    tables = list(run.tables())
    recipe = solve(tables, run.rewards, framework)
    truth = tuple(np.load(GOLDENS / "logs" / "trl" / log / "capture.npz")["weights"].tolist())
    method = "grpo" if log.startswith("grpo") else "gdpo"
    # Own code with eps 1e-5 makes GRPO's advantages from a tenth of the weights; z shows GDPO's eps.
    assert recipe == Recipe(method, "trl", truth, (), up_to_scale=(framework, method) == ("generic", "grpo"))
    assert max(compared(t, run.rewards, recipe).error.max().item() for t in tables) < 2e-6
    assert all(directions(t, run.rewards, recipe).all() for t in tables)
    assert sum(hidden_inputs(t, run.rewards) for t in tables) == 0


def test_a_log_that_holds_one_of_two_rewards_is_not_explained():
    run = read_run(GOLDENS / "logs" / "trl" / "edge_dupnames")
    tables = list(run.tables())
    assert solve(tables, run.rewards, "trl") is None
    assert sum(hidden_inputs(t, run.rewards) for t in tables) == 8  # all groups


def test_advantages_that_are_all_zero_beside_rewards_that_differ_are_not_explained():
    run = read_run(GOLDENS / "logs" / "ms_swift")
    assert solve(list(run.tables()), run.rewards, "ms_swift") is None


# Recorded outputs of the frameworks' own code

SCENARIOS = ("binary", "half_groups_dead", "mixed_equal_len", "mixed_skewed_len", "nan_row_all", "offset_100_sd_1e-3")
RECORDED = [
    (convention, scenario)
    for convention in IMPLEMENTATION
    for scenario in SCENARIOS
    if (convention, scenario) != ("nemo_rl", "offset_100_sd_1e-3")  # nothing but round-off
]


# Each convention and each scenario once; the rest is slow.
IN_TURN_RECORDED = [
    pytest.param(*case, marks=() if n % len(SCENARIOS) == n // len(SCENARIOS) % len(SCENARIOS) else pytest.mark.slow)
    for n, case in enumerate(RECORDED)
]


@pytest.mark.parametrize(("convention", "scenario"), IN_TURN_RECORDED)
@pytest.mark.parametrize("method", ["grpo", "gdpo"])
def test_recorded_outputs_of_frameworks_are_reproduced(scenario, method, convention):
    data, key = np.load(GOLDENS / "frameworks.npz"), f"{method}|{scenario}"
    r, w, a = data[f"{key}|inputs"].astype(float), data[f"{key}|w"], data[f"{key}|{IMPLEMENTATION[convention]}"]
    log = pl.DataFrame({"batch": 0, "group": data[f"{key}|uid"]} | {f"r{k}": r[:, k] for k in range(r.shape[1])})
    log = log.with_columns(pl.Series("advantage", a.astype(float)), pl.Series("length", data[f"{key}|L"].astype(int)))
    recipe = solve([log], names(r), FRAMEWORK.get(convention, "trl"))
    if np.isnan(a).all():  # one missing reward made all of it NaN
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


# Batches made here


SOLVABLE = [
    (method, name, missing)
    for method in NAMES
    for name, c in CONVENTIONS.items()
    for missing in (0.0, 0.1)
    if not (missing and c.missing == "propagates") and not (method in ("grpo", "max_rl") and c.leave_one_out)
]


SOLVED_WEIGHTS = (WEIGHTS, (0.3, -0.1, 1.25), (10.0, 3.0, 7.0), (1.0, 1.0, 1.0))  # each with its own draw
# Each draw with its weights in turn.
IN_TURN = [(*case, n % 4) for n, case in enumerate(SOLVABLE)]


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


@pytest.mark.slow
@given(
    st.lists(
        st.sampled_from([-1.0, -0.1, 0.0, 0.05, 0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 10.0]), min_size=3, max_size=3
    ).filter(any),
    st.sampled_from(sorted(SCALED)),
    st.integers(0, 1000),
)
def test_weights_come_back_exactly(weights, method, seed):
    r = draw(seed)
    recipe = solved(r, made(r, method, weights))
    assert (recipe.method, recipe.weights) == (method, tuple(weights))


def test_grpo_batch_std_divides_by_the_spread_of_the_sums_over_the_batch():
    r = draw(batches=1)
    a = np.empty(r.shape[:2])
    s = [[sum(w * x for w, x in zip(WEIGHTS, row, strict=True)) for row in group] for group in r]
    everything = [x for group in s for x in group]
    middle = sum(everything) / len(everything)
    std = (sum((x - middle) ** 2 for x in everything) / (len(everything) - 1)) ** 0.5
    for g, group in enumerate(s):
        a[g] = [(x - sum(group) / len(group)) / (std + 1e-4) for x in group]
    recipe = Recipe("grpo_batch_std", "trl", WEIGHTS, (), False)
    assert compared(table(r, a, 1), names(r), recipe).error.max() < 1e-12
    assert solved(r, a, batches=1) == recipe


@pytest.mark.slow
def test_groups_of_different_sizes():
    r = draw(size=9)
    keep = np.random.default_rng(1).random(r.shape[:2]) < 0.7
    keep[0] = [True] + 8 * [False]  # a group of one
    full = table(r, np.zeros(r.shape[:2])).filter(pl.Series(keep.ravel()))
    for method in SCALED:
        index, first = np.unique(full["group"].to_numpy(), return_index=True)
        batch = make_batch(
            torch.tensor(full.select(names(r)).to_numpy(), dtype=torch.float32),
            weights=torch.tensor(WEIGHTS),
            groups=full["group"].to_numpy().copy(),
            batches=full["batch"].to_numpy()[first],
            convention=CONVENTIONS["trl"],
        )
        a = method_named(method).advantages(batch).double().numpy()
        log = full.with_columns(pl.Series("advantage", a))
        recipe = solve([log], names(r), "trl")
        assert recipe == Recipe(method, "trl", WEIGHTS, (), False)
        assert compared(log, names(r), recipe).error.max() < 2e-6
        assert len(directions(log, names(r), recipe)) == len(index)


def test_the_round_off_of_sums_near_a_constant_is_allowed():
    """As a policy that passes nearly everything beside a reward of nearly constant noise leaves it."""
    draw = np.random.default_rng(0)
    r = np.ones((4800, 12, 4), dtype=np.float32)
    r[..., 3] += draw.normal(0, 0.01, r.shape[:2])
    r[::8, 0, 0] = 0  # in each batch one answer fails, which shows the weights
    sums = torch.from_numpy(r).sum(-1)  # float32 from here on, as in TRL
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
    # Of a single weight, 1.75 of RLOO is as likely as 2.
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
def test_one_reward_small_groups(method, size):
    r = draw(size=size, rewards=1, prompts=8)
    for weight in (1.0, -2.0):
        a = made(r, method, (weight,))
        recipe = solved(r, a)
        assert reproduced(r, a, recipe) == 1
        if (method, weight) == ("mo_grpo", 1):  # is GRPO
            assert recipe == Recipe("grpo", "trl", (1.0,), (), False)
        elif not recipe.up_to_scale:
            assert recipe == Recipe(method, "trl", (weight,), (), False)
        else:  # by leave-one-out, or where groups of two and three have few different advantages
            assert method in LIKE_RLOO or size < 8
            assert np.sign(recipe.weights[0]) == np.sign(weight)


@pytest.mark.parametrize("method", SCALED)
def test_groups_of_two_are_told_by_what_eps_leaves(method):
    r = draw(size=2, prompts=8)
    assert solved(r, made(r, method)) == Recipe(method, "trl", WEIGHTS, (), up_to_scale=method in LIKE_RLOO)


def test_groups_of_two_without_eps_tell_signs_only():
    r = draw(size=2, prompts=8)
    a = made(r, "grpo", convention="paper")
    recipe = solved(r, a, "generic")
    assert (recipe.method, recipe.unknown, recipe.up_to_scale) == ("grpo", (0, 1, 2), True)
    assert reproduced(r, a, recipe) == 1
    assert solved(r, a, "generic", WEIGHTS).weights == WEIGHTS


@pytest.mark.parametrize("method", SCALED)
def test_one_batch_is_enough(method):
    r = draw(batches=1)
    assert solved(r, made(r, method, batches=1), batches=1) == Recipe(method, "trl", WEIGHTS, (), False)


def test_weights_that_are_given_or_1_go_before_others_that_do_as_well():
    r = draw()
    a = made(r, "gdpo", (2, 2, 2), "ms_swift")
    assert solved(r, a, "ms_swift") == Recipe("gdpo", "ms_swift", (1.0, 1.0, 1.0), (), True)
    assert solved(r, a, "ms_swift", (4, 4, 4)).weights == (4.0, 4.0, 4.0)
    assert solved(r, a, "ms_swift", (4, 4, 1)).weights == (1.0, 1.0, 1.0)


# Damage


@pytest.mark.parametrize("method", ["gdpo", "grpo_batch_std"])
def test_batches_that_an_evaluation_overwrote_keep_their_directions(method):
    r = draw(batches=12)
    a = made(r, method, batches=12)
    a[:16:4] *= 0.8  # one of the four groups of each of four batches was scaled elsewhere
    recipe = solved(r, a, batches=12)
    assert recipe == Recipe(method, "trl", WEIGHTS, (), False)
    log = table(r, a, 12)
    comparison = compared(log, names(r), recipe)
    wrong = (comparison.error > comparison.allowed).view(-1, 8).any(1)
    assert set(np.flatnonzero(wrong)) <= set(range(0, 16, 4)) and wrong.sum() >= 3
    assert directions(log, names(r), recipe).all()


@pytest.mark.parametrize("method", SCALED)
def test_the_recipe_of_most_batches_is_found(method):
    r = draw(batches=12)
    a = made(r, method, batches=12)
    a[:20] = made(r, "grpo" if method != "grpo" else "gdpo", (1, 1, 1), batches=12)[:20]  # 5 of 12 batches
    assert solved(r, a, batches=12) == Recipe(method, "trl", WEIGHTS, (), False)
    a[:20] = made(r, method, (1, 0.5, 3), batches=12)[:20]
    recipe = solved(r, a, batches=12)
    assert recipe == Recipe(method, "trl", WEIGHTS, (), False)
    same = directions(table(r, a, 12), names(r), recipe)
    assert same[20:].all() and not same[:20].all()


@pytest.mark.slow
@pytest.mark.parametrize("framework", ["trl", "ms_swift", "nemo_rl", "generic"])
def test_advantages_that_have_nothing_to_do_with_the_rewards_are_not_claimed(framework):
    r, rng = draw(), np.random.default_rng(1)
    for a in (rng.normal(size=r.shape[:2]), np.zeros(r.shape[:2]), np.ones(r.shape[:2]), r.sum(-1) ** 2):
        assert solved(r, a, framework) is None
    for _ in range(5):
        pairs, sign = draw(size=2), np.sign(rng.normal(size=24))
        assert solved(pairs, np.stack([sign, -sign], 1) * 0.5**0.5, framework) is None


def test_rewards_that_never_differ_tell_nothing():
    r = np.ones((24, 8, 3))
    assert solved(r, np.zeros(r.shape[:2])) is None


def test_round_off_of_float32_is_no_difference():
    r = np.full((4, 8, 1), np.float32(0.1), dtype=float)
    r[1:, :, 0] = draw(batches=1, prompts=3, rewards=1)[..., 0]
    a = made(r, "grpo", (1,), batches=1)
    a[0] = 2e-4  # what TRL logs for a group of equal rewards of 0.1
    recipe = Recipe("grpo", "trl", (1.0,), (), False)
    allowed = compared(table(r, a, 1), names(r), recipe).allowed.view(4, 8)
    assert (allowed[0] > 2e-4).all() and (allowed[1:] == TOLERANCE).all()
    assert reproduced(r, a, recipe, 1) == 1


# What errors and the other functions say


def test_errors_are_nan_where_nothing_is_logged_and_infinite_where_the_recipe_gives_no_number():
    r = draw()
    a = made(r, "grpo")
    a[0, 0] = np.nan
    log = table(r, a)
    error = compared(log, names(r), Recipe("grpo", "trl", WEIGHTS, (), False)).error
    assert error[0].isnan() and error[1:].max() < 2e-6
    r[1, 0, 0] = np.nan
    error = compared(table(r, a), names(r), Recipe("grpo", "verl", WEIGHTS, (), False)).error.view(-1, 8)
    assert error[1].isinf().all() and error[2:].isfinite().all()


def test_hidden_inputs_counts_groups_in_which_equal_rewards_have_different_advantages():
    log = pl.DataFrame(
        {
            "batch": 0,
            "group": [0, 0, 0, 1, 1, 1, 2, 2, 2],
            "r": [1.0, 1.0, 0.0] * 2 + [float("nan"), float("nan"), 0.0],
            "advantage": [0.5, 0.5005, -1.0, 0.5, 0.6, -1.1, 1.0, -1.0, 0.0],
        }
    )
    assert hidden_inputs(log, ["r"]) == 2
    assert hidden_inputs(log.with_columns(length=pl.Series([3, 4, 3] * 3)), ["r"]) == 0


def test_a_log_without_advantages_has_no_recipe():
    r = draw()
    assert solve([table(r, np.zeros(r.shape[:2])).drop("advantage")], names(r), "trl") is None
    assert solve([], names(r), "trl") is None


def test_what_is_wrong_with_the_arguments_is_named():
    r = draw()
    log = table(r, made(r, "grpo"))
    with pytest.raises(
        InputError, match="framework: expected one of trl, verl, ms_swift, nemo_rl, verifiers, generic, got 'slime'"
    ):
        solve([log], names(r), "slime")


@given(st.integers(1, 999), st.integers(-4, 2), st.floats(-1, 1))
def test_the_simplest_number_is_near_and_has_no_more_digits(whole, exponent, error):
    x = whole * 10.0**exponent
    number, complexity = simplest(x * (1 + 1e-6 * error), 1e-5)
    assert number == pytest.approx(x, rel=2e-5) and complexity <= 3


@given(st.floats())
def test_any_number_at_all_has_round_ones_near_or_none(x):
    assert all(number == pytest.approx(x, rel=0.02) for number in numbers_near(x, 0.01))
    assert (simplest(x, 0.01) is None) == (x != 0 and not numbers_near(x, 0.01))
