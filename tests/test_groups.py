"""The groups that an audit shows: held to a search over all groups, and their texts to what the files say."""

from itertools import combinations
from math import isnan

import fake_logs
import numpy as np
import polars as pl
import pytest
import torch

import gdpo_core as gc
from gdpo_core.frameworks import RECOGNISED
from gdpo_core.runs.audit import facts_of, plan_of
from gdpo_core.runs.run import read_run
from gdpo_core.runs.shown import FINDINGS, SHOWN, shown_groups
from gdpo_core.runs.summarise import summarise
from gdpo_core.runs.sums import merge

BINARY = [("right", 0.4), ("format", 0.7), ("short", 0.5)]


def drawn(seed=0, groups=60, sizes=(2, 7), missing=0.0, step=6, fine=False, silent=0.2):
    """A log of random groups, `step` of them a step; some are silent, rewards may be missing, sizes differ."""
    draw = np.random.default_rng(seed)
    frames = []
    for group in range(groups):
        n = int(draw.integers(*sizes)) if sizes[0] < sizes[1] else sizes[0]
        r = np.stack([draw.random(n) < p for _, p in BINARY], axis=1).astype(float)
        if fine:
            r[:, 2] = np.round(draw.normal(-1, 3, n), 2)
        if draw.random() < silent:
            r[:] = r[0]
        r[draw.random(r.shape) < missing] = np.nan
        columns = {"step": [group // step + 1] * n, "prompt": [f"question {group}"] * n}
        columns |= {name: r[:, k] for k, (name, _) in enumerate(BINARY)}
        frames.append(pl.DataFrame(columns | {"completion": [f"answer {group}.{i}" for i in range(n)]}))
    return pl.concat(frames)


def searched(run, report, primary=None, but=()):
    """By finding, the numbers of the five groups that show it best: each group of the table by itself."""
    names, weights = list(run.rewards), list(report.run["weights_used"].values())
    method = report.run["method"] or report.run["asked"] or "grpo"
    convention = RECOGNISED[report.run["convention_used"]]
    share = [reward["update_share"][method] for reward in report.rewards]
    dominant = next((f.evidence["reward"] for f in report.findings if f.id == "reward-dominates"), None)
    k = int(np.nanargmax(share)) if dominant is None else names.index(dominant)
    found = {finding: [] for finding in FINDINGS}
    for (number,), rows in run.table.partition_by("group", as_dict=True, maintain_order=True).items():
        if rows["step"][0] in but:
            continue
        r = rows.select(names).rows()
        c = gc.collapse(torch.tensor(r, dtype=torch.float32), method, weights=weights, convention=convention)
        if c.tied_pair_count:
            found["ties-hide-signal"].append((-c.tied_pair_count, number))
        if primary is not None and (wrong := c.order(names.index(primary)).wrong):
            found["priority-inversion"].append((-wrong, number))
        if c.silent_groups:
            some = [str(row) for row in r if not all(map(isnan, row))]
            found["silent-groups"].append((-sum(a != b for a, b in combinations(some, 2)), number))
        varying = [len({x for x in column if not isnan(x)}) > 1 for column in zip(*r, strict=True)]
        own = gc.update_share(r, method, weights=weights, convention=convention)[k]
        if sum(varying) > 1 and not isnan(own):
            found["reward-dominates"].append((-round(own, 9), number))
    return {finding: [number for _, number in sorted(scored)[:SHOWN]] for finding, scored in found.items()}


def shown(report):
    return {finding: [g.group for g in report.groups if g.finding == finding] for finding in FINDINGS}


LOGS = {
    "equal": {"sizes": (6, 6)},
    "ragged": {"sizes": (2, 9)},
    "missing": {"missing": 0.2},
    "ones": {"sizes": (1, 4)},
    "fine": {"fine": True, "sizes": (5, 5)},
    "many": {"groups": 400, "sizes": (4, 4), "step": 40},
}


@pytest.mark.parametrize("kind", LOGS)
@pytest.mark.parametrize("asked", ["grpo", "grpo_no_std", "gdpo"])
@pytest.mark.parametrize("primary", [None, "right"])
def test_the_groups_shown_are_those_that_a_search_finds(kind, asked, primary):
    for seed in range(3):
        run = read_run(drawn(seed, **LOGS[kind]), group="prompt")
        report = gc.audit(run, weights=[1, 1, 0.5] if seed else None, primary=primary, asked=asked)
        assert report.run["method"] is None
        assert shown(report) == searched(run, report, primary)


@pytest.mark.parametrize("method", ["grpo", "grpo_no_std", "gdpo", "grpo_batch_std"])
@pytest.mark.parametrize("missing", [0.0, 0.15])
def test_under_the_method_that_made_the_log(tmp_path, method, missing):
    fake_logs.write_trl(
        tmp_path,
        steps=8,
        groups=8,
        method=method,
        missing=missing,
        weights=(1.0, 1.0, 1.0),
        rewards=(*fake_logs.REWARDS[:2], ("brief", lambda draw, groups, size: draw.random((groups, size)) < 0.5)),
    )
    run = read_run(tmp_path)
    report = gc.audit(run, primary="accuracy")
    assert report.run["method"] == method
    assert shown(report) == searched(run, report, "accuracy")
    for group in report.groups:
        rows = run.table.filter(group=group.group)
        assert (group.step, group.method, group.names) == (rows["step"][0], method, run.rewards)
        np.testing.assert_equal(np.array(group.rewards), rows.select(run.rewards).to_numpy())
        assert group.logged == tuple(rows["advantage"])


def test_however_the_run_is_split():
    run = read_run(drawn(5, groups=90, sizes=(2, 6)), group="prompt")
    [table] = run.tables()
    plan = plan_of(run, {}, "right", None, "grpo")
    batches = table.partition_by("batch", maintain_order=True)
    whole = shown_groups(facts_of(run, summarise(table, plan), {}, "grpo"), ())
    assert {g.finding for g in whole} == {*FINDINGS}
    for parts in (batches, batches[::-1], [pl.concat(batches[:7]), *batches[7:]]):
        made = [summarise(part, plan) for part in parts]
        for summary in (merge(made), merge([merge(made[:3]), merge(made[3:])])):
            assert shown_groups(facts_of(run, summary, {}, "grpo"), ()) == whole


def test_over_several_files(tmp_path):
    log = drawn(7, groups=120, sizes=(4, 4))
    for number, part in enumerate(log.partition_by("step", maintain_order=True)):
        part.write_csv(tmp_path / f"{number}.csv")
    run, one = read_run(tmp_path, group="prompt"), read_run(log, group="prompt")
    several, report = gc.audit(run, primary="right"), gc.audit(one, primary="right")
    assert shown(several) == shown(report) == searched(run, several, "right")
    columns = ["group", "prompt", "completions"]
    assert several.groups_table()[columns].equals(report.groups_table()[columns])


def test_batches_that_the_audit_leaves_out_are_not_shown(tmp_path):
    fake_logs.write_trl(
        tmp_path, steps=5, groups=6, iterations=3, method="grpo", rewards=fake_logs.REWARDS[:2], weights=None
    )
    run = read_run(tmp_path)
    report = gc.audit(run, primary="accuracy")
    repeated = [step for step in range(1, 16) if step % 3 != 1]
    assert any(f.id == "steps-repeated" for f in report.findings)
    assert shown(report) == searched(run, report, "accuracy", but=repeated)


def test_what_a_group_computes_is_what_explain_says():
    report = gc.audit(read_run(drawn(3, missing=0.1), group="prompt"), weights=[1, 2, 0.5], primary="right")
    assert len(report.groups) > 10
    for group in report.groups:
        for method in ("grpo", "grpo_no_std", "gdpo"):
            e = gc.explain(group.rewards, method, weights=[1, 2, 0.5], convention=RECOGNISED[group.convention])
            np.testing.assert_array_equal(group.under(method), e.advantages.numpy())
            for a, b in combinations(range(len(group.rewards)), 2):
                tied = group.ties(method)
                if tied[a] is not None and tied[a] == tied[b]:
                    assert group.under(method)[a] == pytest.approx(group.under(method)[b], abs=1e-6)
        assert group.advantages == group.under(group.method)
