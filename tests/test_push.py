"""The push and the share punished, compared with plain numpy: of the core, of whole logs, and of settings tried on
them.
"""

from itertools import product
from math import nan
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import torch

import gdpo_audit as ga
import gdpo_core as gc
from gdpo_audit.logs.names import reward_column
from gdpo_audit.sums.summarise import summarise
from gdpo_audit.sums.sums import Basis, push_of, total
from gdpo_core.frameworks import ALL_CONVENTIONS
from gdpo_core.registry import ALL_METHODS

SAMPLES = Path(__file__).parent.parent / "data" / "samples"
METHODS = ("grpo", "grpo_no_std", "gdpo")
SAME = 1e-6  # of the largest of a group: round-off of rewards in float32


def near(expected, within=1e-9):
    return pytest.approx(expected, rel=within, abs=within, nan_ok=True)


def distances(r, ids):
    """Return (responses, rewards) each reward less the mean of the responses of its group that have it; 0 where it is
    missing.
    """
    d = np.zeros(r.shape)
    for g, k in product(np.unique(ids), range(r.shape[1])):
        here = np.flatnonzero((ids == g) & ~np.isnan(r[:, k]))
        if len(here) and r[here, k].min() < r[here, k].max():
            d[here, k] = r[here, k] - r[here, k].mean()
    return d


def push_by_hand(a, d):
    a, d = a[np.isfinite(a)], d[np.isfinite(a)]
    size = np.sqrt((a**2).sum() * (d**2).sum(0))
    return np.where(size > 0, (a[:, None] * d).sum(0) / np.where(size > 0, size, 1), 0)


def punished_by_hand(a, d, ids):
    above, low = np.zeros(d.shape[1]), np.zeros(d.shape[1])
    for g in np.unique(ids):
        of = (ids == g) & np.isfinite(a)
        if of.any():
            better = d[of] > SAME * np.abs(d[ids == g]).max(0)
            above = above + better.sum(0)
            low = low + (better & (a[of] <= SAME * np.abs(a[of]).max())[:, None]).sum(0)
    return np.where(above > 0, low / np.where(above > 0, above, 1), nan)


def random_rewards(seed, n=36, missing=True):
    """Return three rewards of unlike scales, (n, 3), the group of each row in any order and size, and lengths."""
    rng = np.random.default_rng(seed)
    ids = rng.integers(0, 6, n)
    r = rng.integers(0, (2, 4, 3), (n, 3)) * (0.5, 0.1, 10.0)
    if missing and seed % 2:
        r[rng.random(r.shape) < 0.15] = nan
    return r, ids, rng.integers(1, 50, n).tolist()


# --- gc.push ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", ALL_CONVENTIONS)
def test_push_is_the_correlation_inside_groups_under_every_method_and_convention(key):
    for seed in range(200 // len(ALL_CONVENTIONS) + 1):
        r, ids, lengths = random_rewards(seed)
        options = {"weights": [1, 0.3, -2], "groups": ids.tolist(), "lengths": lengths} | {
            "convention": ALL_CONVENTIONS[key]
        }
        for method in METHODS if seed else ALL_METHODS:
            try:
                a = gc.advantages(r, method, **options).numpy()
            except gc.InputError:  # This convention has no such method.
                continue
            assert gc.push(r, method, **options) == near(push_by_hand(a, distances(r, ids)).tolist(), 1e-9)


def test_the_shape_of_the_rewards_makes_no_difference():
    r = torch.from_numpy(np.random.default_rng(0).normal(size=(5, 4, 3)))
    order = torch.randperm(20, generator=torch.Generator().manual_seed(1))
    for method in METHODS:
        flat = gc.push(r.flatten(0, 1)[order], method, groups=torch.arange(5).repeat_interleave(4)[order])
        assert gc.push(r, method) == near(flat, 1e-12)
        assert len(gc.push(r[0], method)) == 3


def test_push_knows_no_scale_and_no_shift_of_a_reward():
    r = np.random.default_rng(2).integers(0, 3, (6, 5, 3)).astype(float)
    pushed = gc.push(r)
    assert gc.push(r * [2, 0.01, 30] + [-1, 5, 0.25]) == near(pushed, 1e-9)
    factors = np.array([2, 0.01, 30])  # The sum of GRPO depends on the scale, unless the weights undo it.
    assert gc.push(r * factors + 7, "grpo", weights=1 / factors) == near(gc.push(r, "grpo"), 1e-9)


def test_a_reward_alone_is_all_that_the_update_raises():
    r = np.random.default_rng(3).normal(size=(6, 5, 1))
    assert gc.push(r, "grpo_no_std") == near([1], 1e-12)
    assert gc.push(r[0], "grpo") == near([1], 1e-12)
    spread_alike = np.stack([group / group.std() for group in r])
    assert gc.push(spread_alike, "grpo") == near([1], 1e-12)
    assert gc.push(r, "grpo", weights=[-1])[0] < -0.8
    assert gc.push([[[1], [0]], [[0], [1]], [[1], [1]]], "gdpo") == near([1], 1e-12)


def test_what_is_constant_or_silent_has_no_push():
    assert gc.push([[0.1, 1], [0.1, 0], [0.1, 0]], "grpo") == (0, pytest.approx(1))
    assert gc.push([[1, 0], [0, 1]], "grpo") == (0, 0)  # All sums are equal.
    assert gc.push([[nan, 1], [nan, 0]], "gdpo") == (0, pytest.approx(1))
    assert gc.push([[1, 1]]) == (0, 0)


# --- the push of a log ------------------------------------------------------------------------------------------------


def tensors(run, report):
    """Yield three things for each batch of a run: the rewards, (responses, rewards), the group of each response, and
    lengths or None.
    """
    names = [reward["name"] for reward in report.rewards]
    for part in pl.concat(run.tables()).partition_by("batch", maintain_order=True):
        rows = part.select([reward_column(name) for name in names]).to_numpy()
        lengths = part["length"].to_list() if "length" in part.columns else None
        yield rows, part["group"].to_numpy(), lengths


def by_hand(run, report, method, weights, convention, gated=np.copy):
    """Return the push on each reward and the share punished over a whole log, with the advantages computed batch by
    batch. gated: applies a gate to the rewards that the method sees.
    """
    advantages, away, ids = [], [], []
    for r, groups, lengths in tensors(run, report):
        r32 = torch.from_numpy(gated(r)).float()
        options = {"weights": weights, "groups": groups.tolist(), "lengths": lengths, "convention": convention}
        advantages.append(gc.advantages(r32.double(), method, **options).numpy())
        away.append(distances(r, groups))
        ids.append(groups)
    a, d = np.concatenate(advantages), np.concatenate(away)
    return push_by_hand(a, d), punished_by_hand(a, d, np.concatenate(ids))


def check(found_push, found_punished, expected):
    assert list(found_push.values()) == near(expected[0].tolist(), 1e-9)
    assert [nan if x is None else x for x in found_punished.values()] == near(expected[1].tolist(), 1e-9)


@pytest.mark.parametrize(
    "sample", ["pays_5_grpo", "pays_5_gdpo", "trl_gdpo", "ms_swift", "arithmetic", "trl_same_name"]
)
def test_the_report_of_every_sample_has_them(sample):
    run = ga.read_run(SAMPLES / sample)
    report = ga.audit(run, primary=run.rewards[0])
    weights = [report.run["weights_used"][reward["name"]] for reward in report.rewards]
    convention = ALL_CONVENTIONS[report.run["convention_used"]]
    for method in report.methods:
        check(report.push[method], report.punished[method], by_hand(run, report, method, weights, convention))
    for row in report.plan:
        if row.gate is None:
            own = [row.weights[reward["name"]] for reward in report.rewards]
            check(row.push, row.punished, by_hand(run, report, row.method, own, convention))
    if len(weights) > 1:
        other = report.what_if("gdpo", [2.0, *weights[1:]]).after
        check(other["push"], other["punished"], by_hand(run, report, "gdpo", [2.0, *weights[1:]], convention))
    assert report.to_dict()["rewards"][0]["push"] == report.rewards[0]["push"]


@pytest.mark.parametrize("key", ALL_CONVENTIONS)
def test_random_logs_have_them_under_every_convention(key):
    """One sum holds several batches with groups of several sizes and missing rewards, and two such sums are added
    up.
    """
    weights, convention = (1.0, 0.3, -2.0), ALL_CONVENTIONS[key]
    basis = Basis(tuple("abc"), weights, key, None, None)
    for seed in range(200 // len(ALL_CONVENTIONS) + 1):
        r, ids, lengths = random_rewards(seed, n=60)
        order = np.argsort(ids, kind="stable")
        r, ids, lengths = r[order], ids[order], np.array(lengths)[order]
        columns = {"batch": ids // 2, "step": ids // 2, "group": ids, "length": lengths}
        table = pl.DataFrame(columns | dict(zip(map(reward_column, "abc"), r.T, strict=True)))
        sums = total(summarise(table, basis).batches)
        for method in METHODS:
            options = {"weights": weights, "convention": convention}
            batches = [ids // 2 == b for b in np.unique(ids // 2)]
            a = np.concatenate(
                [
                    gc.advantages(r[b], method, groups=ids[b].tolist(), lengths=lengths[b].tolist(), **options).numpy()
                    for b in batches
                ]
            )
            m, d = sums.methods[method], distances(r, ids)
            assert push_of(m.pushed, m.distances, m.squares) == near(push_by_hand(a, d))
            punished = np.divide(m.punished, m.above, out=np.full(3, nan), where=m.above > 0)
            # Of the reward with a weight below 0, the good responses are those below the mean.
            assert punished == near(punished_by_hand(a, d * np.sign(weights), ids))


def test_behind_a_gate_they_are_of_the_reward_that_the_log_has():
    run = ga.read_run(SAMPLES / "pays_5_grpo")
    report = ga.audit(run, primary="correctness")
    [row] = [row for row in report.plan if row.gate]
    assert row.gate["on"] == "correctness"
    names = [reward["name"] for reward in report.rewards]
    on, k = names.index("correctness"), names.index(row.gate["reward"])

    def gated(r):
        r = r.copy()
        r[r[:, on] < row.gate["threshold"], k] = row.gate["otherwise"]
        return r

    weights = [row.weights[name] for name in names]
    check(row.push, row.punished, by_hand(run, report, row.method, weights, gc.TRL, gated))


def test_a_step_has_the_push_of_its_own_responses():
    run = ga.read_run(SAMPLES / "pays_5_grpo")
    report = ga.audit(run)
    for part, row in zip(
        pl.concat(run.tables()).partition_by("batch", maintain_order=True), report.steps.to_dicts(), strict=True
    ):
        r = part.select([reward_column(reward["name"]) for reward in report.rewards]).to_torch().double()
        for method in METHODS:
            pushed = gc.push(r, method, groups=part["group"].to_list(), convention=gc.TRL)
            assert [row[f"push:{method}:{name}"] for name in report.push[method]] == near(pushed, 1e-9)


def test_the_share_punished_that_was_counted_before():
    """The percentages are those that other code counted in the rows of the shipped logs."""
    report = ga.audit(ga.read_run(SAMPLES / "pays_5_grpo"))
    shown = {
        m: [round(100 * of[name], 1) for name in ("correctness", "conciseness")] for m, of in report.punished.items()
    }
    assert (shown["grpo"], shown["gdpo"]) == ([26.6, 12.7], [23.1, 31.3])


def test_the_worst_group_is_that_with_most_punished():
    run = ga.read_run(SAMPLES / "pays_5_grpo")
    report = ga.audit(run, primary="correctness")
    worst = next(group for group in report.groups if group.finding == "punished")
    r, a = np.array(worst.rewards)[:, 0], np.array(worst.logged)
    assert worst.reward == "correctness" and worst.score == ((r > r.mean()) & (a <= 0)).sum() and worst.completions
    most = 0
    for part in pl.concat(run.tables()).partition_by("group"):
        r, a = part[reward_column("correctness")].to_numpy(), part["advantage"].to_numpy()
        most = max(most, int(((r > r.mean()) & (a <= 1e-6)).sum()))
    assert most == worst.score
