"""The plan goes by what is learnt: by the push on the primary reward, and by its forecast where the log is long
enough.
"""

import io
import json
import re
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

import gdpo_audit as ga
import gdpo_core as gc
from gdpo_audit.report import brief
from gdpo_audit.report.meanings import IN_SHORT
from gdpo_audit.report.printing.printed import print_report

STEPS, GROUPS, SIZE = 30, 8, 8
NAMES = ("right", "style")


def drawn(pays, seed=0) -> np.ndarray:
    """Return two rewards, (steps, groups, size, 2): marks that are learnt slowly, times what each pays."""
    rng = np.random.default_rng(seed)
    rates = np.linspace(0.3, 0.5, STEPS)[:, None, None, None]
    return (rng.random((STEPS, GROUPS, SIZE, 2)) < rates) * np.array(pays)


def grpo(r) -> np.ndarray:
    """Return GRPO's advantages, (steps, groups, size), as TRL computes them: the z-scores of the sums in each group."""
    s = r.sum(-1)
    return (s - s.mean(-1, keepdims=True)) / (s.std(-1, ddof=1, keepdims=True) + 1e-4)


def audited(r, **options) -> ga.AuditReport:
    places = [
        np.broadcast_to(x, r.shape[:3]).ravel() for x in (np.arange(STEPS)[:, None, None], np.arange(GROUPS)[:, None])
    ]
    columns = {"step": places[0], "group": places[1], **dict(zip(NAMES, r.reshape(-1, 2).T, strict=True))}
    log = pl.DataFrame(columns | {"advantage": grpo(r).astype(np.float32).ravel()})
    return ga.audit(ga.read_run(log, rewards=[*NAMES]), **options)


def push(a, r) -> np.ndarray:
    """Return (rewards,) the correlation of advantages and rewards inside groups, computed by plain numpy."""
    d = r - r.mean(2, keepdims=True)
    return (a[..., None] * d).sum((0, 1, 2)) / np.sqrt((a**2).sum() * (d**2).sum((0, 1, 2)))


def recommended(report):
    return next((row for row in report.plan if row.recommended), None)


def test_a_row_is_recommended_where_the_push_on_the_primary_reward_rises_and_its_forecast_lies_above_0():
    r = drawn([1, 5])
    report = audited(r, primary="right")
    ran, best = report.plan[0], recommended(report)
    assert [*ran.push.values()] == pytest.approx(push(grpo(r), r), abs=1e-6)
    assert best is not None and best.push["right"] > ran.push["right"] + 0.1
    assert best.forecast["right"]["low"] > 0 and best.forecast["right"]["low"] < best.forecast["right"]["difference"]
    for name, start, way in (("right", ": right", "higher"), ("style", "It has a cost: style", "lower")):
        points, ends = (100 * abs(best.forecast[name]["difference"]), [best.forecast[name][e] for e in ("low", "high")])
        width = {"right": 1.0, "style": 5.0}[name]
        places = 0 if points / width >= 10 else 1
        told = [
            f"{abs(x):.{places}f}" if f"{abs(x):.{places}f}" not in ("0.0", f"{abs(x)}") else f"{abs(x):.0f}"
            for x in (points / width, *sorted((100 * e / width for e in ends), key=abs))
        ]
        arrow = f"{ran.push[name]:+.2f} → {best.push[name]:+.2f}"
        off = 100 * best.forecast[name]["off_by"] / width
        tested = f"a forecast of this log's second half missed by {off:.1f}"
        words = f"would be {told[0]} points {way} (80 % interval {told[1]} to {told[2]}; {tested}; push {arrow})"
        assert f"{start} {words}" in report.verdict
    assert report.recommended_forecast.rewards["right"].difference == pytest.approx(
        best.forecast["right"]["difference"], rel=1e-3
    )


def no_std(r, w) -> np.ndarray:
    """Return the advantages of GRPO without std, (steps, groups, size), with the weights w of each step."""
    s = (r * w[:, None, None]).sum(-1)
    return s - s.mean(-1, keepdims=True)


def gdpo(r, w) -> np.ndarray:
    """Return GDPO's advantages, (steps, groups, size), with the weights w of each step, as the paper computes them."""
    z = (r - r.mean(2, keepdims=True)) / (r.std(2, ddof=1, keepdims=True) + 1e-4)
    s = (z * w[:, None, None]).sum(-1)
    return (s - s.mean((1, 2), keepdims=True)) / (s.std((1, 2), ddof=1, keepdims=True) + 1e-4)


@given(st.integers(0, 10_000))
def test_a_row_with_the_same_weights_has_those_of_each_step_if_they_change(seed):
    """The row, the what-if and the forecast have the push that plain numpy computes with the weights of each step."""
    rng = np.random.default_rng(seed)
    r = np.round(rng.random((STEPS, GROUPS, SIZE, 2)) < rng.uniform(0.3, 0.7, 2)) + rng.random((1, 2)).round(1)
    turn = rng.integers(6, STEPS - 6)
    w = np.where(np.arange(STEPS)[:, None] < turn, [1, rng.choice([0.1, 0.2, 3])], [1, rng.choice([0.7, 1, 1.5])])
    places = np.indices(r.shape[:3]).reshape(3, -1)
    columns = {"step": places[0], "group": places[1], **dict(zip(NAMES, r.reshape(-1, 2).T, strict=True))}
    log = pl.DataFrame(columns | {"advantage": no_std(r, w).ravel()})
    report = ga.audit(ga.read_run(log, rewards=[*NAMES]), primary="right", what_if={"method": "gdpo"})
    ran, same = report.plan[0], next(row for row in report.plan if row.title == "GDPO, same weights")
    assert [*ran.push.values()] == pytest.approx(push(no_std(r, w), r), abs=1e-6)
    expected = push(gdpo(r, w), r)
    for pushes in (same.push, report.alternative.after["push"]):
        assert [pushes[name] for name in NAMES] == pytest.approx(expected, abs=1e-3)
    told = report.forecast(method="gdpo").rewards
    assert [told[name].push for name in NAMES] == pytest.approx(expected, abs=1e-3)
    assert "the weights of the run change" in same.lines
    best = recommended(report)
    assert best is None or best.push["right"] > ran.push["right"]


@pytest.mark.parametrize("primary", ["style", None])
def test_no_row_is_recommended_under_which_the_primary_reward_is_pushed_less(primary):
    report = audited(drawn([1, 5]), primary=primary)
    assert recommended(report) is None
    if primary:
        assert all(row.push["style"] <= report.plan[0].push["style"] + 0.02 for row in report.plan if not row.gate)
    else:
        assert "the push on" in report.verdict and "whether that is better depends on which" in report.verdict


def test_a_log_of_few_steps_is_judged_by_its_push_alone():
    short = drawn([1, 5])[:10].repeat(3, axis=1)
    short = np.concatenate([short, short[:, ::-1]], axis=0)[:19]
    columns = {
        "step": np.arange(len(short)).repeat(short[0, ..., 0].size),
        "group": np.tile(np.arange(24).repeat(SIZE), 19),
    }
    columns |= dict(zip(NAMES, short.reshape(-1, 2).T, strict=True))
    log = pl.DataFrame(columns | {"advantage": grpo(short).astype(np.float32).ravel()})
    report = ga.audit(ga.read_run(log, rewards=[*NAMES]), primary="right")
    best = recommended(report)
    assert best is not None and best.forecast is None and report.recommended_forecast is None


@pytest.mark.parametrize("worst", [0.0, -2 / 3])
@pytest.mark.parametrize(
    "highest", [[2 / 3], [0.7 + 0.2 + 0.1, 1.0], [0.1 + 0.2, 0.3], [1.0], [float(np.float32(2 / 3))]]
)
def test_a_gate_opens_at_the_highest_logged_values_wherever_its_threshold_is_read(highest, worst):
    """Values that differ by round-off alone count as one in the sums, but a trainer compares them as they are. The
    trial, the lines to copy, and the JSON that a forecast is asked with open at the same responses.
    """
    rng = np.random.default_rng(4)
    right = (rng.random((STEPS, GROUPS, SIZE)) < 0.4) * rng.choice(highest, (STEPS, GROUPS, SIZE))
    # The second reward is paid more often to what is wrong, and never exactly as a float32 number would be.
    style = np.where(rng.random(right.shape) < 0.6 - 0.4 * (right > 0), 0.9 * max(highest), 0.0) + worst
    r = np.stack([right, style], -1)
    report = audited(r, primary="right")
    row = next(row for row in json.loads(json.dumps(report.to_dict()))["plan"] if row["setting"]["gate"])
    gate = row["setting"]["gate"]
    opens = right >= gate["threshold"]
    assert gate["threshold"] == min(highest) and (opens == (right > 0)).all()
    gated = r.copy()
    gated[..., 1] = np.where(opens, style, min(style.min(), 0))
    of_gate = push(grpo(gated), r)
    assert [*row["push"].values()] == pytest.approx(of_gate, abs=1e-3)
    for asked in (gate, {"reward": "style", "on": "right"}):
        told = report.forecast(gate=asked).rewards
        assert [told[name].push for name in NAMES] == pytest.approx(of_gate, abs=1e-3)
    there = {"rewards": torch.tensor(r.reshape(-1, 2)), "gdpo_core": gc}
    if not worst:
        exec(row["lines"], there)
        assert (there["rewards"].numpy().reshape(r.shape) == gated).all()
    assert f"{gate['threshold']}".removesuffix(".0") in row["lines"]


def test_weights_that_miss_their_shares_by_more_than_a_twentieth_are_no_row(monkeypatch):
    """Weights are moved until their shares miss the target by just less, and by just more, than a twentieth."""
    r = drawn((1.0, 5.0))
    found = next(row for row in audited(r).plan if row.title == "GRPO, other weights")

    def rows(w):
        monkeypatch.setattr("gdpo_audit.trials.plan.weights_for", lambda *_: (w, found.weights["style"]))
        return [row for row in audited(r).plan if row.title == "GRPO, other weights"]

    low, high = found.weights["right"], 3 * found.weights["right"]
    assert rows(low) and not rows(high)
    for _ in range(12):
        middle = (low + high) / 2
        low, high = (middle, high) if rows(middle) else (low, middle)
    assert 0.045 < rows(low)[0].off <= 0.05


# --- what the screen says --------------------------------------------------------------------------------------------


def on_screen(report, columns):
    """Return what a terminal of a width prints of a report, in one line."""
    out = io.StringIO()
    print_report(Console(file=out, width=columns), report)
    return " ".join(out.getvalue().split())


def test_the_screen_names_the_primary_reward_and_says_what_its_words_mean():
    report, nobodys = audited(drawn([1, 5]), primary="right"), audited(drawn([1, 5]))
    for columns in (60, 100, 200):
        said = on_screen(report, columns)
        assert said.count("; primary: right") == 1
        assert all(said.count(words) == 1 for words in IN_SHORT.values())
        assert said.index("What each reward did") < said.index(IN_SHORT["share"])
        assert "; primary: " not in on_screen(nobodys, columns)


def test_a_line_that_points_to_a_row_of_the_plan_says_what_it_is_there():
    ran, row = (SimpleNamespace(tied_pairs=x, inversions=x + 0.1, silent_groups=x + 0.2) for x in (0.5, 0.04))
    told = {"ties-hide-signal": ": 4", "priority-inversion": ": 14", "silent-groups": ": 24", "reward-dominates": ""}
    for finding, share in told.items():
        found = SimpleNamespace(id=finding, severity="info", title="", evidence={}, row=1)
        [line] = brief.finding_lines(SimpleNamespace(plan=[ran, row], findings=[found]))
        assert re.sub(r"\s%", "", line.row) == f" (plan, row 1{share})"
        found.row = None
        [line] = brief.finding_lines(SimpleNamespace(plan=[ran, row], findings=[found]))
        assert not line.row


def test_the_counts_behind_a_share_stand_where_groups_are_few():
    for steps, counted in ((3, True), (4, False)):  # 24 and 32 groups; few are below 30
        r = drawn([1, 5])[:steps]
        places = np.indices((steps, GROUPS, SIZE)).reshape(3, -1)
        columns = {"step": places[0], "group": places[1], **dict(zip(NAMES, r.reshape(-1, 2).T, strict=True))}
        log = pl.DataFrame(columns | {"advantage": grpo(r).astype(np.float32).ravel()})
        said = on_screen(ga.audit(ga.read_run(log, rewards=[*NAMES])), 200)
        constant = [(r[..., k].std(2) == 0).sum() for k in range(2)]
        for many in constant:
            assert (f" {many} of {steps * GROUPS} " in said) == counted
