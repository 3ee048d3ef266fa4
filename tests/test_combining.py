"""Totals that fix the weights of each step, and explanations of advantages that are found together: a clip, a mask, a
total, groups of which rows are missing, and weights that depend on a column. The advantages are made in plain numpy.
"""

import numpy as np
import pytest

import gdpo_audit as ga
import gdpo_core as gc
from gdpo_audit.unexplained.edited import _by_column

NAMES = ("acc", "fmt", "brief")


def z(x, eps=1e-4, std=True):
    return (x - x.mean()) / (x.std(ddof=1) + eps if std else 1.0)


def rewards(rng, n=8, digits=2):
    right = rng.random(n) < rng.uniform(0.2, 0.8)
    return np.c_[right, rng.random(n) < 0.7, rng.random(n).round(digits)].astype(float)


def ramp(steps=16, first=(0.1, 0.8, 0.1), last=(0.8, 0.1, 0.3), advantage="grpo", total="reward", digits=None, **more):
    """Return the rows of a log whose weights move from `first` to `last`, and the weights of each step."""
    rng, rows, weights = np.random.default_rng(3), [], []
    for step in range(steps):
        w = np.array(first) + (np.array(last) - first) * step / (steps - 1)
        weights.append(w)
        for prompt in range(3):
            r = rewards(rng)
            made = {"grpo": z(r @ w), "gdpo": sum(w[k] * z(r[:, k]) for k in range(3)), "": None}[advantage]
            for i in range(len(r)):
                row = {"step": step, "prompt": f"{step} {prompt}"} | dict(zip(NAMES, r[i].tolist(), strict=True))
                row |= {total: float(r[i] @ w) if digits is None else round(float(r[i] @ w), digits)} | more
                rows.append(row | ({} if made is None else {"advantage": float(made[i])}))
    return rows, np.array(weights)


def audited(rows, **options):
    return ga.audit(ga.read_run(rows, **options))


def ids(report):
    return [finding.id for finding in report.findings]


# --- totals ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("advantage", "method"), [("", None), ("grpo", "grpo"), ("gdpo", "mo_grpo")], ids=["none", "grpo", "gdpo"]
)
def test_a_total_fixes_the_weights_of_each_step(advantage, method):
    rows, weights = ramp(advantage=advantage)
    report = audited(rows)
    assert report.run["method"] == method and ids(report).count("weights-change") == 1
    turns = report.run["weights_in_turn"]
    assert [*turns[0]["weights"]] == [*NAMES]
    assert [*turns[0]["weights"].values()] == pytest.approx(weights[0], abs=1e-5)
    assert [*turns[-1]["weights"].values()] == pytest.approx(weights[-1], abs=1e-5)
    assert not report.run["not_counted"]


def test_shares_are_those_of_the_weights_of_each_step():
    """The share of a reward is Σ over all groups of its part of the advantage times the advantage."""
    rows, weights = ramp()
    expected, made = np.zeros(3), np.array([row["advantage"] for row in rows]).reshape(16, 3, 8)
    values = np.array([[row[name] for name in NAMES] for row in rows]).reshape(16, 3, 8, 3)
    for step, prompt in np.ndindex(16, 3):
        r = values[step, prompt]
        part = (r - r.mean(0)) * weights[step] / ((r @ weights[step]).std(ddof=1) + 1e-4)
        expected += (part * made[step, prompt][:, None]).sum(0)
    shares = [reward["update_share"]["grpo"] for reward in audited(rows).rewards]
    assert shares == pytest.approx(expected / expected.sum(), abs=2e-4)


def test_a_total_with_the_same_weights_in_every_step_shows_no_change():
    rows, _ = ramp(first=(1, 0.5, 0.2), last=(1, 0.5, 0.2))
    report = audited(rows)
    assert "weights-change" not in ids(report) and report.run["weights"] == pytest.approx(
        {"acc": 1, "fmt": 0.5, "brief": 0.2}
    )


@pytest.mark.parametrize("advantage", ["", "grpo"])
def test_a_total_and_a_step_of_other_names(advantage):
    rows, weights = ramp(advantage=advantage)
    names = {"reward": "gesamt", "step": "schritt", "acc": "richtig", "fmt": "form", "brief": "kurz"}
    shuffled = np.random.default_rng(1).permutation(len(rows))
    report = audited([{names.get(name, name): x for name, x in rows[i].items()} for i in shuffled])
    turns = report.run["weights_in_turn"]
    assert [*turns[0]["weights"]] == ["richtig", "form", "kurz"] and len(report.steps) == 16
    assert [*turns[-1]["weights"].values()] == pytest.approx(weights[-1], abs=1e-5)


def test_a_rounded_total_shows_the_weights_to_its_rounding():
    rows, weights = ramp(advantage="", digits=3)
    turns = audited(rows).run["weights_in_turn"]
    assert [*turns[-1]["weights"].values()] == pytest.approx(weights[-1], abs=5e-3)


def test_the_parts_of_a_gated_total_have_no_weight_0():
    rng, rows = np.random.default_rng(4), []
    for group in range(40):
        r = rewards(rng)
        total = r[:, 0] * (0.3 + 0.4 * r[:, 2]) + 0.3 * r[:, 1] * r[:, 2]
        for i, a in enumerate(z(total)):
            row = dict(zip(NAMES, r[i].tolist(), strict=True))
            rows.append({"step": group // 4, "prompt": f"p{group}"} | row | {"reward": total[i], "advantage": a})
    report = audited(rows)
    assert report.run["method"] == "grpo" and report.run["reproduced"]
    notes = " ".join(report.source["notes"])
    assert "weight 0" not in notes and "those of reward alone" in notes and not report.run["not_counted"]


def test_a_total_is_not_among_the_rewards_to_name():
    rows, _ = ramp(advantage="", first=(1, 0.5, 0.2), last=(1, 0.5, 0.2))
    clipped = [row | {"reward": min(row["reward"], 0.7)} for row in rows]
    with pytest.raises(gc.InputError, match=r"--reward acc --reward fmt --reward brief$"):
        ga.read_run(clipped)


@pytest.mark.parametrize("digits", [None, 2])
@pytest.mark.parametrize("name", ["reward", "summe"])
def test_a_total_with_weights_of_each_step_is_found_whatever_its_name(name, digits):
    """Beside it stand a clock and the number of the answer, which are no parts of it. Rounded to two decimals,
    leave-one-out of the total with an odd weight comes near to the advantages, though not to within the rounding.
    """
    rng, rows = np.random.default_rng(2), []
    for step in range(40):
        w = np.array([1, 0.5 if step < 20 else 0.1, 0.2])
        for group in range(8):
            r = np.stack([rng.random(6) < 0.5, rng.random(6) < 0.4 + step / 80, rng.beta(2, 3, 6).round(3)], axis=1)
            total = r @ w
            a = total - total.mean()
            a = a if digits is None else a.round(digits)
            for i in range(6):
                row = dict(zip(NAMES, r[i].tolist(), strict=True)) | {name: round(float(total[i]), 4)}
                beside = {"antwort": i, "zeit": 1.7e9 + len(rows) + round(float(rng.random()), 1)}
                rows.append({"step": step, "group": f"p{step}.{group}"} | beside | row | {"advantage": float(a[i])})
    report = audited(rows)
    claims = {claim.what: claim for claim in report.reading}
    assert [row["name"] for row in report.rewards] == [*NAMES]
    assert claims["weights"].taken == "changing 1 time" and "leave-one-out" not in claims["method"].taken
    [finding] = [finding for finding in report.findings if finding.id == "weights-change"]
    assert "1 : 0.5 : 0.2 → 1 : 0.1 : 0.2" in finding.title


# --- groups of which rows are missing --------------------------------------------------------------------------------


def with_rows_missing(std, every=0.4, subtracted=None, key="prompt"):
    """Return rows of groups of 8, of which a part lacks 1 to 3 rows, and how many groups do."""
    rng, rows, short = np.random.default_rng(6), [], 0
    for group in range(100):
        r = rewards(rng)
        score = r @ [1, 0.5, 0.2]
        a = z(score, std=std) if subtracted is None else score - subtracted(group)
        lacks = rng.random() < every
        short += lacks
        for i in sorted(rng.choice(8, 8 - rng.integers(1, 4) * lacks, replace=False)):
            row = dict(zip(NAMES, r[i].tolist(), strict=True)) | {"advantage": float(a[i])}
            rows.append({"step": group // 5, key: f"p{group}"} | row)
    return rows, short


@pytest.mark.parametrize("key", ["prompt", "example_id"])
@pytest.mark.parametrize(("std", "method"), [(False, "grpo_no_std"), (True, "grpo")])
def test_groups_of_which_rows_are_missing(std, method, key):
    rows, short = with_rows_missing(std, key=key)
    report = audited(rows)
    weights = [report.run["weights"][name] for name in NAMES]
    assert report.run["method"] == method and report.run["reproduced"]
    assert np.array(weights) / weights[0] == pytest.approx([1, 0.5, 0.2], abs=1e-4)
    assert any(f"in {short} of 100 groups over rows" in remark for remark in report.run["remarks"])
    assert "those of the logged rows" in " ".join(report.source["notes"])
    assert f"{short} of 100" in report.what_ran


def of_rloo(lost, sizes=(8,), seed=3):
    """Return rows of leave-one-out without std, weights 1 : 0.5 : 0.2, of which a part was lost afterwards, and whether
    each row stands in a whole group.
    """
    rng, rows, whole = np.random.default_rng(seed), [], []
    for group in range(120):
        n = rng.choice(sizes)
        r = rewards(rng)[np.arange(n) % 8] + rng.random((n, 1)).round(2) * [0, 0, 1]
        score = r @ [1, 0.5, 0.2]
        a = (score - score.mean()) * n / (n - 1)
        kept = np.flatnonzero(rng.random(n) >= lost)
        whole += [len(kept) == n] * len(kept)
        for i in kept:
            row = dict(zip(NAMES, r[i].tolist(), strict=True)) | {"advantage": float(a[i])}
            rows.append({"step": group // 5, "prompt": f"p{group}"} | row)
    return rows, np.array(whole)


@pytest.mark.parametrize("lost", [0.01, 0.06])
def test_weights_come_from_whole_groups_where_others_lack_rows(lost):
    """In groups of 8, leave-one-out is the score less its mean, times 8/7: with other weights both methods fit."""
    rows, whole = of_rloo(lost)
    report = audited(rows)
    claims = {claim.what: claim for claim in report.reading}
    assert [report.run["weights"][name] for name in NAMES] == pytest.approx([1, 0.5, 0.2])
    assert (claims["weights"].evidence, claims["method"].evidence) == ("proved", "agrees")
    assert "RLOO" in claims["method"].taken and "without leave-one-out" in claims["method"].because
    assert f"all {whole.sum():,} advantages" in claims["weights"].because
    assert "The log lacks rows of" in report.verdict and "and the std" not in report.what_ran


def test_without_whole_groups_only_the_ratio_of_the_weights_is_known():
    rows, whole = of_rloo(0.5)
    report = audited(rows)
    claims = {claim.what: claim for claim in report.reading}
    weights = [report.run["weights"][name] for name in NAMES]
    assert whole.mean() < 0.05 and np.array(weights) / weights[0] == pytest.approx([1, 0.5, 0.2], abs=1e-4)
    assert "only their ratio" in claims["weights"].because and claims["method"].evidence == "agrees"
    assert "ratio of the weights is certain" in " ".join(report.source["notes"])


def test_a_baseline_of_the_batch_is_no_missing_row():
    rows, _ = with_rows_missing(False, every=0, subtracted=lambda group: 0.1 * (group // 5))
    report = audited(rows)
    assert not any("rows" in remark for remark in report.run["remarks"])


def test_a_known_order_is_said_with_the_known_weights():
    """Another sum than that of the total, 1 : 0.5 : 0.2, would order the advantages as well."""
    rows, _ = with_rows_missing(False, every=0, subtracted=lambda group: 0.1 * (group // 5))
    rows = [row | {"reward": row["acc"] + 0.5 * row["fmt"] + 0.2 * row["brief"]} for row in rows]
    told = " ".join(finding.message for finding in audited(rows).findings)
    assert "acc : fmt : brief = 5 : 2.5 : 1" in told


# --- clips, masks and totals -----------------------------------------------------------------------------------------


def clipped(bounds, over="batch", gate=False, mask=False, steps=20):
    """Return rows whose advantages were clipped, perhaps of a gated score and perhaps behind a mask, and the number
    of clipped ones that the mask did not set to 0.
    """
    rng, rows, many = np.random.default_rng(8), [], 0
    for step in range(steps):
        r = np.stack([rewards(rng)[:, [0, 2]] for _ in range(4)])
        score = r @ [1, 0.5] * (1 - 0.4 * gate * (r[..., 1] > 0.8))
        a = score - score.mean(1, keepdims=True)
        a = a / (score.std(ddof=1) + 1e-4) if over == "batch" else a / (score.std(1, ddof=1, keepdims=True) + 1e-4)
        out = (rng.random(a.shape) < 0.15) & mask
        many += int((((a < bounds[0]) | (a > bounds[1])) & ~out).sum())
        a = np.where(out, 0, np.clip(a, *bounds))
        for group, i in np.ndindex(4, 8):
            row = {"step": step, "prompt": f"p{step} {group}", "acc": r[group, i, 0], "brief": r[group, i, 1]}
            row |= {"advantage": round(float(a[group, i]), 6)} | ({"score": score[group, i]} if gate else {})
            rows.append(row | ({"cut": bool(out[group, i])} if mask else {}))
    return rows, many


@pytest.mark.parametrize("bounds", [(-1.3, 1.3), (-9, 1.3), (-1.2, 9)], ids=["both", "above", "below"])
def test_clipped_advantages(bounds):
    rows, many = clipped(bounds)
    report = audited(rows)
    assert report.run["method"] == "grpo_batch_std" and report.run["reproduced"]
    assert report.run["weights"]["brief"] / report.run["weights"]["acc"] == pytest.approx(0.5)
    assert f": {many} of 640 advantages are on a bound" in " ".join(report.source["notes"])


def test_advantages_that_no_bound_cuts_are_not_clipped():
    report = audited(clipped((-9, 9))[0])
    assert report.run["method"] == "grpo_batch_std" and not any("clip" in remark for remark in report.run["remarks"])


def test_numbers_set_below_a_bound_are_no_clip():
    """Nothing was clipped where the method makes numbers inside the bounds for the rows that lie on them."""
    rows, _ = clipped((-9, 9))
    for row in rows[::9]:
        row["advantage"] = 3.0
    assert not audited(rows).run["reproduced"]


@pytest.mark.parametrize("bounds", [(-9, 9), (-1.4, 1.4)], ids=["total and mask", "total, mask and clip"])
def test_explanations_are_found_together(bounds):
    rows, _ = clipped(bounds, over="group", gate=True, mask=True)
    report = audited(rows)
    notes = " ".join(report.source["notes"])
    assert report.run["method"] == "grpo" and report.run["reproduced"]
    assert "cut is 1" in notes and "those of score alone" in notes
    assert ("clipped" in notes) == (bounds[1] < 9)


# --- weights that depend on a column ---------------------------------------------------------------------------------


def turns(column="turn", key="task_id", same=False):
    """Return rows of turns. In the last turn, only the outcome counts; with `same`, both rewards do everywhere."""
    rng, rows = np.random.default_rng(9), []
    for group in range(40):
        outcome = (rng.random(8) < rng.uniform(0.2, 0.8)).astype(float)
        for turn in range(3):
            each = rng.choice([-0.2, 0, 0.5, 1], 8)
            a = z(outcome) if turn == 2 and not same else z(each) + 0.5 * z(outcome)
            for i in range(8):
                row = {"step": group // 4, key: f"t{group}", column: turn, "each": each[i], "outcome": outcome[i]}
                rows.append(row | {"advantage": float(a[i])})
    return rows


@pytest.mark.parametrize("shuffled", [False, True])
def test_weights_that_depend_on_the_turn(shuffled):
    rows = turns("runde" if shuffled else "turn")
    rows = [rows[i] for i in np.random.default_rng(0).permutation(len(rows))] if shuffled else rows
    report = audited(rows)
    notes = " ".join(report.source["notes"])
    assert report.run["method"] == "mo_grpo" and report.run["reproduced"] and "weights-change" not in ids(report)
    assert "each 1 and outcome 0.5 where it is 0 or 1; each 0 and outcome 1 where it is 2" in notes
    assert "steps-repeated" not in ids(report) and not report.run["weights_in_turn"]


def test_weights_that_are_alike_in_all_turns_depend_on_no_column():
    report = audited(turns(same=True))
    assert report.run["method"] == "mo_grpo" and "depend" not in " ".join(report.source["notes"])


def test_where_the_most_rows_have_no_recipe_those_of_other_turns_are_not_searched():
    """Otherwise a log of six steps under foreign names is searched for twenty seconds, step by step."""
    rows = [row | {"task_id": f"{row['task_id']} {row['turn']}"} for row in turns()]
    run = ga.read_run([row for row in rows if row["turn"] != 1 or row["step"]])
    searched = []
    assert not [*_by_column(run, run.sample, lambda _, tables: searched.append(sum(map(len, tables))))]
    assert searched == [320]  # turn 0 or 2; turn 1 has fewer rows


# --- faults, and weights that miss their shares ----------------------------------------------------------------------


def test_a_column_of_lists_ends_no_audit():
    rows, _ = with_rows_missing(False, subtracted=lambda group: np.sin(np.arange(8) * group))
    rows = [row | {"turns": [{"turn_id": 0}] if i % 3 else []} for i, row in enumerate(rows)]
    assert not audited(rows, group="prompt").run["reproduced"]


def test_weights_that_miss_the_shares_they_are_for_are_no_setting():
    """No weights give each of two rewards that nearly cancel each other a half of the update."""
    rng, rows = np.random.default_rng(2), []
    for group in range(60):
        a = (rng.random(6) < 0.5).astype(float)
        b = 1 - a * (rng.random(6) < 0.97)
        rows += [{"step": group // 4, "prompt": f"p{group}", "acc": x, "fmt": y} for x, y in zip(a, b, strict=True)]
    plan = audited(rows, rewards=["acc", "fmt"]).plan
    assert all(row.off <= 0.05 for row in plan if "other weights" in row.title)
    assert all(min(row.update_share.values()) > 0 for row in plan if "other weights" in row.title)
