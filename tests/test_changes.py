"""Weights that change during a run: each step counts under the weights that made it, compared with plain numpy."""

import numpy as np
import polars as pl
import pytest
from fake_logs import Step, generic_frame

import gdpo_audit as ga
from gdpo_audit.recipe.changes import recipe_of_one_batch

NAMES, EPS = ("right", "short", "vowels"), 1e-4
STEPS, GROUPS, SIZE = 18, 4, 8


def parts_of(r, weights, method):
    """Return (groups, size, rewards) each reward's part of the advantages of one step. The sum of the parts is the
    advantages.
    """
    if method == "gdpo":
        z = (r - r.mean(1, keepdims=True)) / (r.std(1, ddof=1, keepdims=True) + EPS)
        return weights * z / ((z @ weights).std(ddof=1) + EPS)
    return weights * (r - r.mean(1, keepdims=True)) / ((r @ weights).std(1, ddof=1)[:, None, None] + EPS)


def draw_run(weights_at, method, seed=0, decimals=None, continuous=False):
    """Return the rows of a random run, its true shares, and its true share of pairs in the wrong order. weights_at:
    returns the weights of a step; decimals: of the logged advantages.
    """
    draw, steps, update, squares, inverted, pairs = np.random.default_rng(seed), [], 0, 0, 0, 0
    for step in range(1, STEPS + 1):
        r = np.stack(
            [draw.random((GROUPS, SIZE)) < 0.5, draw.random((GROUPS, SIZE)), draw.integers(0, 9, (GROUPS, SIZE))], 2
        )
        r = r.astype(np.float32).astype(float) if continuous else np.round(5 * r) / 5
        parts = parts_of(r, np.array(weights_at(step)), method)
        a = parts.sum(2)
        update, squares = update + (parts * a[..., None]).sum((0, 1)), squares + (a**2).sum()
        for group in range(GROUPS):
            more = r[group, :, 0][:, None] > r[group, :, 0]
            pairs, inverted = pairs + more.sum(), inverted + (more & (a[group][:, None] < a[group] - 1e-6)).sum()
        logged = a.astype(np.float32).astype(float) if decimals is None else a.round(decimals)
        steps.append(Step(step, r, logged, tuple(f"{step}, {g}" for g in range(GROUPS))))
    return generic_frame(steps, NAMES).rename({"group": "prompt"}), update / squares, inverted / pairs


def audit(rows, **named):
    report = ga.audit(ga.read_run(rows), primary="right", **named)
    return report, {finding.id: finding for finding in report.findings}


def shares(report, method):
    return [reward["update_share"][method] for reward in report.rewards]


CHANGES = {  # weights of a step, the steps at which they change, the title
    "once": (lambda t: (1, 0.5, 2 if t <= 7 else 0.2), [8], "at step 8: 1 : 0.5 : 2 → 1 : 0.5 : 0.2"),
    "every step": (
        lambda t: (1, 0.5, 2 - t / 10),
        [*range(2, 19)],
        "17 times from step 2 to step 18: 1 : 0.5 : 1.9 → … → 1 : 0.5 : 0.2",
    ),
}


@pytest.mark.parametrize("method", ["grpo", "gdpo"])
@pytest.mark.parametrize("change", CHANGES)
def test_each_step_counts_under_the_weights_that_made_it(change, method):
    weights_at, steps, title = CHANGES[change]
    rows, expected, inverted = draw_run(weights_at, method)
    report, found = audit(rows)
    assert report.run["method"] == method and report.run["reproduced"] is True
    assert shares(report, method) == pytest.approx(expected, abs=1e-5)
    assert report.methods[method]["inversions"] == pytest.approx(inverted)
    finding = found["weights-change"]
    assert (finding.severity, finding.title) == ("info", f"Weights change {title}")
    assert finding.evidence["steps"] == steps and "advantages-not-reproduced" not in found
    first, last = ([finding.evidence[when][name] for name in NAMES] for when in ("before", "after"))
    assert (first, last) == (pytest.approx(weights_at(1), rel=1e-3), pytest.approx(weights_at(STEPS), rel=1e-3))
    # The settings that are tried begin with the run as it was. The others have one set of weights in all steps.
    other = report.what_if(weights=dict.fromkeys(NAMES, 1.0))
    assert list(other.before["update_share"].values()) == pytest.approx(expected, abs=1e-5)
    constant = draw_run(lambda t: (1, 1, 1), method)[1]
    assert list(other.after["update_share"].values()) == pytest.approx(constant, abs=1e-5)


@pytest.mark.parametrize("decimals", [None, 4])
@pytest.mark.parametrize("after", [(1, 0.5, 2), (2, 1, 4)])
def test_weights_equal_up_to_scale_and_what_rounding_does_are_no_change(after, decimals):
    rows, expected, _ = draw_run(lambda t: (1, 0.5, 2) if t <= 7 else after, "grpo", 3, decimals, continuous=True)
    report, found = audit(rows)
    assert not {"weights-change", "advantages-not-reproduced", "eval-overwrote"} & found.keys()
    assert report.run["reproduced"] is True and shares(report, "grpo") == pytest.approx(expected, abs=1e-4)
    used = list(report.run["weights_used"].values())
    assert [w / used[0] for w in used] == pytest.approx([1, 0.5, 2])
    assert used == [float(f"{w:.2g}") for w in used]


@pytest.mark.parametrize("method", ["grpo", "gdpo"])
def test_the_sign_that_flips_half_way(method):
    def weights(t):
        return np.array((1, 0.5, 0.5)) * (1 if t <= STEPS // 2 else -1)

    rows, true_shares, true_inversions = draw_run(weights, method, continuous=True)
    report, found = audit(rows)
    assert found["advantages-upside-down"].evidence["step"] == STEPS // 2 + 1
    assert shares(report, method) == pytest.approx(true_shares, abs=1e-5)
    assert report.methods[method]["inversions"] == pytest.approx(true_inversions, abs=1e-3)


def test_no_schedule_is_seen_in_advantages_that_no_weights_make():
    rows = draw_run(lambda t: (1, 0.5, 2), "grpo")[0]
    run = ga.read_run(rows.with_columns(pl.col("advantage") / (1 + (pl.col("advantage") < 0))))
    assert recipe_of_one_batch(run, list(run.tables())) is None
    assert ga.audit(run).run["method"] is None
