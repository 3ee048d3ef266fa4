"""The recipes of RLOO, REINFORCE++, MO-GRPO and own code, and logs that were rounded, clipped or scaled."""

from statistics import mean, pstdev, stdev

import numpy as np
import polars as pl
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from test_reproduce import WEIGHTS, compared, draw, made, names, solved, table

import gdpo_core as gc
from benchmarks.recipes import MAKERS, random_log, round_to, verdict
from gdpo_core.runs.audit import audit
from gdpo_core.runs.read import read_run
from gdpo_core.runs.recipe import GRIDS, Recipe, grid_of, half_step
from gdpo_core.runs.solve import solve

# --- the formulas, by hand -------------------------------------------------------------------------------------------


def sums(r, weights=WEIGHTS):
    """(groups, size) Σ w·r, one after the other."""
    return [[sum(w * x for w, x in zip(weights, row, strict=True)) for row in group] for group in r.tolist()]


def centred(s):
    return [[x - mean(group) for x in group] for group in s]


def from_the_others(s):
    return [[x - mean(group[:j] + group[j + 1 :]) for j, x in enumerate(group)] for group in s]


def by_batch(s, divisor, batches=6):
    """Each batch divided by what the function gives for the numbers in it."""
    each = len(s) // batches
    parts = [s[b * each : (b + 1) * each] for b in range(batches)]
    return [[x / divisor([x for g in part for x in g]) for x in group] for part in parts for group in part]


def less_the_batch_mean(s, batches=6):
    each = len(s) // batches
    means = [mean(x for g in s[b * each : (b + 1) * each] for x in g) for b in range(batches)]
    return [[x - means[i // each] for x in group] for i, group in enumerate(s)]


def z(r, std, eps):
    """(groups, size) Σ w·z."""
    columns = [[[group[j][k] for j in range(len(group))] for group in r.tolist()] for k in range(r.shape[2])]

    def one(x):
        by = std(x)
        return [(v - mean(x)) / (by + eps) if by else 0.0 for v in x]

    each = [[one(x) for x in column] for column in columns]
    return [[sum(w * each[k][g][j] for k, w in enumerate(WEIGHTS)) for j in range(r.shape[1])] for g in range(len(r))]


def test_the_new_methods_against_plain_loops():
    r = draw(3)[:8]
    s = sums(r)
    expected = {
        "reinforce_pp": by_batch(less_the_batch_mean(s, 1), stdev, 1),
        "reinforce_pp_baseline": by_batch(centred(s), stdev, 1),
        "mo_grpo": z(r, stdev, 0),
        "max_rl": [[x / mean(g) for x in c] for c, g in zip(centred(s), s, strict=True)],
    }
    for method, a in expected.items():
        computed = gc.advantages(torch.tensor(r), method, weights=WEIGHTS)
        np.testing.assert_allclose(computed, a, atol=1e-12)
        flat = gc.advantages(r.reshape(-1, 3), method, weights=WEIGHTS, groups=np.arange(8).repeat(8))
        np.testing.assert_allclose(flat, np.ravel(a), atol=1e-12)


def test_rloo_takes_off_the_mean_of_the_others_and_skips_what_is_missing():
    rloo = gc.Convention(name="mine", source="here", mean_of_others=True)
    r = torch.tensor([[[1.0], [0.0], [torch.nan], [0.5]], [[2.0], [2.0], [2.0], [2.0]]])
    a = gc.grpo_no_std(r, convention=rloo)
    assert a[0].tolist() == pytest.approx([0.75, -0.75, 0, 0]) and a[1].tolist() == [0] * 4
    assert gc.grpo_no_std([[3.0]], convention=rloo).tolist() == [0]
    torch.testing.assert_close(gc.gdpo(r, convention=rloo), gc.gdpo(r))


# --- which recipe a log has ------------------------------------------------------------------------------------------


def recognised(a, framework, r=None):
    return solved(draw() if r is None else r, np.array(a, dtype=np.float32).astype(float), framework)


@pytest.mark.parametrize("framework, convention", [("trl", "trl_rloo"), ("ms_swift", "ms_swift_rloo")])
def test_rloo_is_told_from_grpo_without_std_by_its_round_weights(framework, convention):
    s = from_the_others(sums(draw()))
    assert recognised(s, framework) == Recipe("grpo_no_std", convention, WEIGHTS, (), False)
    assert recognised(centred(sums(draw())), framework).convention == framework


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


@pytest.mark.slow
def test_the_matrix_of_ms_swift():
    s = sums(draw())
    loo = from_the_others(s)
    with_eps = {f: (lambda x, f=f: f(x) + 1e-4) for f in (stdev,)}[stdev]
    every = by_batch(s, lambda x: 1 / (stdev(x) + 1e-4))  # what each sum is multiplied by, times the sum
    of_sums = [
        [c * e / x if x else 0 for c, e, x in zip(*rows, strict=True)] for rows in zip(loo, every, s, strict=True)
    ]
    groups = [[x / (stdev(group) + 1e-4) for x in a] for a, group in zip(loo, s, strict=True)]
    assert np.isfinite(of_sums).all()
    divided = [stdev([x for g in s[b * 4 : b * 4 + 4] for x in g]) + 1e-4 for b in range(6)]
    cases = {
        ("grpo", "ms_swift_rloo"): groups,
        ("grpo_batch_std", "ms_swift_rloo"): [[x / divided[i // 4] for x in a] for i, a in enumerate(loo)],
        ("grpo_batch_std", "ms_swift"): [[x / divided[i // 4] for x in a] for i, a in enumerate(centred(s))],
        ("grpo_no_std", "ms_swift"): centred(s),
        ("reinforce_pp_baseline", "ms_swift"): by_batch(centred(s), with_eps),
    }
    for (method, convention), a in cases.items():
        assert recognised(a, "ms_swift") == Recipe(method, convention, WEIGHTS, (), False)


def test_rloo_normalised_as_trl_has_it():
    a = by_batch(from_the_others(sums(draw())), lambda x: stdev(x) + 1e-4)
    recipe = recognised(a, "trl")
    assert recipe == Recipe("reinforce_pp_baseline", "trl_rloo", WEIGHTS, (), False)


@pytest.mark.parametrize(
    "method, make",
    [
        (
            "grpo",
            lambda r: [[x / (pstdev(s) + 1e-8) for x in a] for s, a in zip(sums(r), centred(sums(r)), strict=True)],
        ),
        ("gdpo", lambda r: by_batch(z(r, pstdev, 1e-8), lambda x: pstdev(x) + 1e-8)),
        ("reinforce_pp", lambda r: by_batch(less_the_batch_mean(sums(r)), lambda x: pstdev(x) + 1e-8)),
        ("mo_grpo", lambda r: z(r, pstdev, 1e-8)),
    ],
)
def test_numpys_std_in_own_code(method, make):
    r = draw()
    recipe = recognised(make(r), "generic")
    assert recipe.method == method and recipe.convention.startswith("numpy") and recipe.unknown == ()
    assert recipe.up_to_scale == (method != "mo_grpo")  # the others divide the scale away
    assert np.array(recipe.weights) / max(recipe.weights) == pytest.approx(np.array(WEIGHTS) / 2)


@pytest.mark.parametrize("eps", [1e-5, 1e-6])
def test_the_eps_of_own_code_leaves_the_scale_of_the_weights_open(eps):
    r = draw()
    a = [[x / (stdev(s) + eps) for x in c] for s, c in zip(sums(r), centred(sums(r)), strict=True)]
    recipe = recognised(a, "generic", r)
    assert recipe.method == "grpo" and recipe.up_to_scale and recipe.unknown == ()


# --- rounded, clipped, scaled ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("precision", ["bf16", "float16", "4 decimals", "3 decimals", "2 decimals"])
@pytest.mark.parametrize("method", ["grpo", "gdpo", "grpo_no_std"])
def test_rounded_advantages_are_reproduced_and_the_rounding_named(method, precision):
    r = draw(batches=12)
    a = round_to(made(r, method, batches=12).ravel(), precision)
    recipe = solved(r, a, batches=12)
    known = [k for k in range(3) if k not in recipe.unknown]
    assert recipe.method == method and (precision == "2 decimals" or len(known) == 3)
    ratios = np.array(recipe.weights)[known] / recipe.weights[2]
    assert 2 in known and ratios == pytest.approx(np.array(WEIGHTS)[known] / 2, rel=0.01)
    if (method, precision) == ("grpo_no_std", "4 decimals"):  # all of which its advantages have anyway
        assert recipe == Recipe(method, "trl", WEIGHTS, (), False)
        return
    assert recipe.up_to_scale and recipe.grid == precision  # of GRPO without std by RLOO
    comparison = compared(table(r, a, 12), names(r), recipe)
    assert bool((comparison.error <= comparison.allowed).all())
    assert recipe.remarks == (f"logged {'with' if 'decimals' in precision else 'in'} {precision}",)


def test_rewards_that_are_rounded_in_the_log():
    r = draw(batches=12)
    r[..., 2] = np.random.default_rng(0).normal(1, 0.5, r.shape[:2])
    a = made(r, "grpo", batches=12)
    r[..., 2] = round_to(r[..., 2].ravel(), "bf16").reshape(r.shape[:2])
    recipe = solved(r, a, batches=12)
    assert recipe.method == "grpo" and recipe.rewards_grid == "bf16"
    assert np.array(recipe.weights) / max(recipe.weights) == pytest.approx(np.array(WEIGHTS) / 2, rel=0.01)
    assert recipe.remarks == ("from rewards that are logged in bf16",)


@pytest.mark.parametrize("method", ["grpo", "gdpo", "grpo_no_std"])
def test_a_few_clipped_advantages_do_not_hide_the_method(method):
    r = draw(batches=12)
    a = made(r, method, batches=12)
    clip = {"grpo": 1.5, "gdpo": 2.0, "grpo_no_std": 1.0}[method]
    assert 2 <= (np.abs(a) > clip).sum() < a.size / 3
    recipe = solved(r, a.clip(-clip, clip), batches=12)
    assert recipe == Recipe(method, "trl", WEIGHTS, (), False, clipped_at=clip)
    assert recipe.remarks == (f"clipped at ±{clip:g}",)


@pytest.mark.parametrize("method", ["grpo", "gdpo", "grpo_no_std"])
def test_a_factor_per_batch_leaves_the_scale_open(method):
    r = draw(batches=12)
    a = made(r, method, batches=12).reshape(12, -1) * np.random.default_rng(0).uniform(0.3, 3, (12, 1))
    recipe = solved(r, a.astype(np.float32).astype(float), batches=12)
    assert recipe.scaled and recipe.up_to_scale and recipe.method == method
    assert np.array(recipe.weights) / recipe.weights[0] == pytest.approx(WEIGHTS, rel=1e-3)


def test_silent_groups_that_are_dropped_after_gdpos_step_leave_a_factor():
    r = draw(batches=12)
    r[::3] = r[::3, :1]  # constant in every third group
    log = table(r, made(r, "gdpo", batches=12), 12).filter(pl.col("group") % 3 > 0)
    recipe = solve([log], names(r), "trl")
    assert (recipe.method, recipe.scaled) == ("gdpo", True)


@given(st.floats(-100, 100).map(np.float32), st.sampled_from(sorted(GRIDS)))
def test_a_rounded_number_is_on_its_grid_and_no_farther_than_half_a_step(x, grid):
    near = round_to(np.array([x], dtype=np.float32), grid)
    on = torch.from_numpy(near)
    assert abs(near[0] - float(x)) <= half_step(grid, torch.tensor([float(x)], dtype=torch.float64)).item()
    held = grid_of(on)
    assert held and list(GRIDS).index(held) <= list(GRIDS).index(grid)


def test_the_report_names_what_came_after_the_method():
    r = draw(batches=12)
    a = round_to(made(r, "grpo", batches=12).ravel(), "4 decimals")
    log = table(r, a, 12)
    report = audit(read_run(log, rewards=names(r), framework="trl", group_size=8))
    run = report.run
    assert (run["method"], run["reproduced"], run["weights_up_to_scale"]) == ("grpo", True, True)
    assert 2e-5 < run["max_error"] <= 6e-5
    assert not {"advantages-not-reproduced"} & {finding.id for finding in report.findings}


# --- random logs -----------------------------------------------------------------------------------------------------


def wrong_or_nothing(name, seeds):
    said = []
    for seed in seeds:
        log = random_log(MAKERS[name], np.random.default_rng(seed))
        recipe = solve([log.table], log.rewards, MAKERS[name].framework)
        said.append(verdict(log, MAKERS[name].method, recipe))
        assert said[-1] != "certain, wrong", (log.about, recipe)
    return said


@pytest.mark.parametrize(
    "name, seed, found",
    [
        # Advantages of 800 lose more in the last steps than small ones: one batch missed, and weights × 10/9 did not.
        ("TRL RLOO", [2, 4, 5], ("grpo_no_std", False)),
        # Rewards that cancel leave a std of 0, and so an allowed error as large as the advantages.
        ("MO-GRPO, eps 0.0001", [3, 49, 1], None),
        # ±0.7071, which MO-GRPO with the numbers 0 and 0.7071 meets even more closely than they are rounded.
        ("own GRPO, eps 1e-09", [2, 23, 5], ("grpo", True)),
        # A convention without a reading of missing values was asked only about the few groups that have none.
        ("numpy GRPO, eps 1e-08", [3, 32, 1], ("grpo", True)),
        ("numpy GDPO, eps 1e-08", [4, 34, 4], ("gdpo", True)),
        # The factor of one of two batches is no weight.
        ("TRL GDPO, factor per batch", [3, 57, 9], ("gdpo", True)),
        # A weight of 1.19 alone is no better claim than one of 0.6525 whose scale is open.
        ("TRL GDPO", [1, 3, 2], ("gdpo", True)),
    ],
)
def test_what_a_random_log_once_misled(name, seed, found):
    maker = MAKERS[name]
    log = random_log(maker, np.random.default_rng(seed))
    recipe = solve([log.table], log.rewards, maker.framework)
    assert verdict(log, maker.method, recipe) in ("certain, right", "open", "nothing")
    assert (recipe and (recipe.method, recipe.up_to_scale)) == found


@pytest.mark.slow
def test_one_random_log_of_every_recipe():  # benchmarks/recipes.py tries thousands
    said = [verdict for seed, name in enumerate(MAKERS) for verdict in wrong_or_nothing(name, [seed])]
    assert said.count("nothing") <= len(said) // 10
