"""The groups that an audit shows, compared with a search over all groups, and their texts, compared with the files."""

import dataclasses
import gzip
import json
import pickle
import re
from itertools import combinations
from math import isnan

import fake_logs
import numpy as np
import polars as pl
import pytest
import torch
from helpers import nearly
from logs import audit_cli, frames_of, lines, write_trackio, write_wandb

import gdpo_audit as ga
import gdpo_core as gc
from gdpo_audit.findings.examples import FINDINGS, MOST_EXAMPLES, PUNISHED
from gdpo_audit.logs.columns.texts import readable
from gdpo_audit.logs.read import read_run
from gdpo_audit.report.group_tables import MARKS, group_tables
from gdpo_core.frameworks import ALL_CONVENTIONS
from gdpo_core.shared import words

BINARY = [("right", 0.4), ("format", 0.7), ("short", 0.5)]


def drawn(seed=0, groups=60, sizes=(2, 7), missing=0.0, step=6, fine=False, silent=0.2):
    """Return a log of random groups. sizes: the smallest size and the one above the largest; missing: the share of
    missing rewards; step: groups per step; fine: whether one reward has many values; silent: the share of groups
    without a difference.
    """
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
    """Return for each kind of finding the numbers of the five groups that show it best, found by looking at each group
    of the table by itself. but: steps to leave out.
    """
    names, weights = list(run.rewards), list(report.run["weights_used"].values())
    method = report.run["method"] or report.run["asked"] or "grpo"
    convention = ALL_CONVENTIONS[report.run["convention_used"]]
    if convention.last_step == "tokens":  # These logs have no lengths.
        convention = dataclasses.replace(convention, last_step="responses")
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
        if sum(varying) > 1 and round(own, 9) <= 1:
            found["reward-dominates"].append((-round(own, 9), number))
    return {finding: [number for _, number in sorted(scored)[:MOST_EXAMPLES]] for finding, scored in found.items()}


def shown(report):
    return {finding: [g.group for g in report.groups if g.finding == finding] for finding in FINDINGS}


LOGS = {
    "equal": {"sizes": (6, 6)},
    "ragged": {"sizes": (2, 9)},
    "missing": {"missing": 0.2},
    "ones": {"sizes": (1, 4)},
    "fine": {"fine": True, "sizes": (5, 5)},
    "many": {"groups": 200, "sizes": (4, 4), "step": 40},
}


@pytest.mark.slow
@pytest.mark.parametrize(("seed", "kind"), [*enumerate(LOGS)])
@pytest.mark.parametrize("asked", ["grpo", "gdpo"])
def test_the_groups_shown_are_those_that_a_search_finds(kind, seed, asked):
    primary = "right" if seed % 2 else None
    run = read_run(drawn(seed, **LOGS[kind]), group="prompt")
    report = ga.audit(run, weights=[1, 1, 0.5] if seed else None, primary=primary, asked=asked)
    assert report.run["method"] is None
    assert shown(report) == searched(run, report, primary)


@pytest.mark.slow
@pytest.mark.parametrize(("method", "missing"), [("grpo", 0.15), ("gdpo", 0.15), ("grpo_batch_std", 0.0)])
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
    report = ga.audit(run, primary="accuracy")
    assert report.run["method"] == method
    assert shown(report) == searched(run, report, "accuracy")
    for group in report.groups:
        rows = run.table.filter(group=group.group)
        assert (group.step, group.method, group.names) == (rows["step"][0], method, run.rewards)
        np.testing.assert_equal(np.array(group.rewards), rows.select(run.rewards).to_numpy())
        assert group.logged == tuple(rows["advantage"])


@pytest.mark.slow
def test_however_the_run_is_cut(monkeypatch):
    run = read_run(drawn(5, groups=90, sizes=(2, 6)), group="prompt")
    whole = ga.audit(run, primary="right", asked="grpo")
    # The log has no advantages, so none can be impossible.
    assert {g.finding for g in whole.groups} == {*FINDINGS, PUNISHED} - {"advantage-impossible"}
    monkeypatch.setattr("gdpo_audit.sums.summarise._AT_ONCE", 30)
    cut = ga.audit(run, primary="right", asked="grpo", engine=lambda *a: reversed([*map(*a)]))
    assert cut.groups == whole.groups and cut.to_dict() == nearly(whole.to_dict())


@pytest.mark.slow
def test_what_a_group_computes_is_what_explain_says():
    report = ga.audit(read_run(drawn(3, missing=0.1), group="prompt"), weights=[1, 2, 0.5], primary="right")
    assert len(report.groups) > 10
    for group in report.groups:
        for method in ("grpo", "grpo_no_std", "gdpo"):
            e = gc.explain(group.rewards, method, weights=[1, 2, 0.5], convention=ALL_CONVENTIONS[group.convention])
            np.testing.assert_array_equal(group.advantages_under(method), e.advantages.numpy())
            for a, b in combinations(range(len(group.rewards)), 2):
                tied = group.ties(method)
                if tied[a] is not None and tied[a] == tied[b]:
                    assert group.advantages_under(method)[a] == pytest.approx(
                        group.advantages_under(method)[b], abs=1e-6
                    )
        assert group.advantages == group.advantages_under(group.method)


# --- texts -----------------------------------------------------------------------------------------------------------


OF_THREE = {"rewards": tuple((name, lambda draw, *shape, p=p: draw.random(shape) < p) for name, p in BINARY)}
OF_THREE |= {"steps": 24, "group_size": 4, "weights": None, "method": "grpo"}


def verifiers(table, evaluations=3) -> dict[str, bytes]:
    """Return a log of verifiers from a table: episodes of two traces, the second of an agent that is not trained.
    evaluations: how many episodes of evaluations lie between them.
    """
    episodes = []
    for number, row in enumerate(table.to_dicts()):
        said = [{"role": "user", "content": row["prompt"]}, {"role": "assistant", "content": row["completion"]}]
        rewards = {name: {"score": row[name], "weight": 1.0} for name, _ in BINARY}
        trace = {"agent": {"name": "solver"}, "nodes": [{"message": m} for m in said], "rewards": rewards}
        other = trace | {"agent": {"name": "judge", "trainable": False}, "nodes": []}
        work = {"type": "train", "step": row["step"]}
        episode = {"task": {"key": row["prompt"]}, "traces": [other, trace]}
        if number % 7 == 0 and number < 7 * evaluations:
            eval_ = {"id": "e", "type": "eval", "work": {"type": "eval", "step": row["step"]}}
            episodes.append(episode | {"run": eval_, "traces": [trace | {"nodes": [{"message": {"content": "no"}}]}]})
        episodes.append(episode | {"run": {"id": "r", "type": "train", "work": work}})
    return {"traces.jsonl": lines(*episodes)}


WRITERS = {name: getattr(fake_logs, f"write_{name}") for name in ("trl", "verl", "ms_swift", "nemo_rl")}
TABLES = {  # of the rows that TRL writes
    "verifiers": lambda folder, table: verifiers(table),
    "jsonl": lambda folder, table: {"a.jsonl": lines(*table.to_dicts()).replace(b"\n", b"\n\n", 3)},
    "csv": lambda folder, table: {"a.csv": table.write_csv().encode()},
    "packed": lambda folder, table: {"a.jsonl.gz": gzip.compress(lines(*table.to_dicts()))},
    "pandas": lambda folder, table: table.to_pandas(),
    "wandb": lambda folder, table: write_wandb(folder / "t", table.partition_by("step", maintain_order=True)),
    "trackio": lambda folder, table: write_trackio(
        folder / "t.db", {"run": table.partition_by("step", maintain_order=True)}
    ),
}


def check_texts(report, steps) -> int:
    """Assert that each answer shown is the one of its step and group that has these rewards; return how many groups are
    shown. steps: what was written to the log.
    """
    for group in report.groups:
        number, place = map(int, re.search(r"step (\d+), question (\d+): what is it\?", group.prompt).groups())
        assert number == group.step
        for text, rewards in zip(group.completions, group.rewards, strict=True):
            answer = int(re.match(r"answer (\d+)", text)[1])
            r = steps[number - 1].rewards.reshape(-1, len(BINARY))[answer]
            assert answer // 4 == place and list(rewards) == ([r.sum()] if len(rewards) == 1 else list(r))
    return len(report.groups)


@pytest.mark.parametrize("kind", [*WRITERS, *TABLES])
def test_prompts_and_completions_are_those_of_the_rows(tmp_path, kind):
    source = tmp_path / "log"
    steps = WRITERS.get(kind, fake_logs.write_trl)(source, **OF_THREE)
    if kind in TABLES:
        source = TABLES[kind](tmp_path, pl.concat(frames_of(source)))
    report = ga.audit(read_run(source))
    assert check_texts(report, steps) >= 5
    again = pickle.loads(pickle.dumps(report))
    assert again.groups == report.groups and again.groups_table().equals(report.groups_table())


@pytest.mark.slow
def test_a_file_that_is_gone_or_was_rewritten_gives_no_texts(tmp_path):
    steps = fake_logs.write_trl(tmp_path, **OF_THREE)
    reports = [ga.audit(read_run(tmp_path)) for _ in range(3)]
    assert check_texts(reports[0], steps)
    files = sorted((tmp_path / "completions").iterdir())
    pl.concat(map(pl.read_parquet, files)).write_parquet(files[-1])
    last = [group.completions for group in reports[1].groups if group.step == len(files)]
    assert all(text is None for text in last)
    for file in files:
        file.unlink()
    table = reports[2].groups_table()
    assert len(table) and table["completions"].null_count() == table["prompt"].null_count() == len(table)


def odd(prompt, completions):
    """Return a log of two groups of four, the first with these texts; GRPO ties two answers of each group."""
    r = [(1, 0), (0, 1), (1, 1), (0, 0)]
    said = [(prompt, text) for text in completions] + [("other", f"{i}") for i in range(4)]
    return [{"prompt": p, "a": a, "b": b, "completion": c} for (p, c), (a, b) in zip(said, 2 * r, strict=True)]


@pytest.mark.parametrize("kind", ["lines", "dicts"])
def test_texts_are_clipped_and_whole_characters(kind):
    rows = odd("p" * 1001, ["x" * (1 << 20), "half \ud83d", None, "\N{GRINNING FACE} whole"])
    [group, *_] = ga.audit(read_run({"a.jsonl": lines(*rows)} if kind == "lines" else rows, group_size=4)).groups
    assert group.prompt == "p" * 1000 + "… (1,001 characters)"
    half = "half \ufffd"  # No column of polars can hold half a character.
    assert group.completions == ("x" * 2000 + "… (1,048,576 characters)", half, None, "\N{GRINNING FACE} whole")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ([], None),
        ("plain", "plain"),
        ([{"role": "assistant", "content": "one"}, {"role": "tool", "content": "two"}], "assistant: one\ntool: two"),
        ([{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}], "a\nb"),
        ([{"role": "assistant", "content": None, "tool_calls": [1]}], '{"role": "assistant", "tool_calls": [1]}'),
        (["a", "b"], "a\nb"),
        ({"content": "alone"}, "alone"),
    ],
)
def test_chats_become_readable(value, text):
    assert readable(value) == text


# --- what is shown ---------------------------------------------------------------------------------------------------


def printed(capsys, *arguments, status=0) -> str:
    code, out, err = audit_cli(capsys, *arguments)
    assert code == status, err
    return err if status else out


@pytest.fixture
def tied(tmp_path):
    """Return the folder of a log under GRPO with ties, silent groups and pairs in the wrong order."""
    (tmp_path / "log").mkdir()
    drawn(2, groups=60, sizes=(6, 6)).write_csv(tmp_path / "log/a.csv")
    return tmp_path / "log"


@pytest.mark.slow
def test_the_terminal_shows_so_many_groups_of_each_finding(capsys, tied):
    assert "answer 1" not in printed(capsys, tied, "--primary", "right")
    report = ga.audit(read_run(tied), primary="right")
    group = next(g for g in report.groups if g.finding == "ties-hide-signal")
    for number in (1, 5):
        text = printed(capsys, tied, "--primary", "right", "--groups", number)
        assert text.count("Prompt: question") == number * (1 + sum(f.id in FINDINGS for f in report.findings))
        assert f"Step {group.step}, group {group.group}: {group.score:.0f} pairs with different rewards" in text
        assert all(f"answer {group.group}.{i} " in text for i in range(6))
    for wrong in ("0", "6", "1.5", ""):
        said = printed(capsys, tied, f"--groups={wrong}", status=2)
        assert said == f"gdpo: groups: expected a whole number from 1 to 5, got {wrong!r}\n"


@pytest.mark.slow
def test_each_advantage_stands_in_its_row_and_ties_have_one_mark(capsys, tied):
    report = ga.audit(read_run(tied))
    finding = next(f for f in report.findings if f.id == "ties-hide-signal")
    group = next(g for g in report.groups if g.finding == finding.id)
    table = group_tables(report, finding)[0]
    assert table.head == ["response", "right", "format", "short", "GRPO", "GDPO"]
    for i, row in enumerate(table.rows):
        assert row[1:4] == [words.number(x) for x in group.rewards[i]]
        for cell, method in zip(row[4:], ("grpo", "gdpo"), strict=True):
            assert cell.rstrip(MARKS) == words.signed(group.advantages_under(method)[i])
    marked = [(row[4], group.rewards[i]) for i, row in enumerate(table.rows) if row[4][-1] in MARKS]
    assert len({cell for cell, _ in marked}) < len({rewards for _, rewards in marked})


def test_json_holds_groups_only_beside_the_option(capsys, tied):
    assert "answer 1" not in (plain := printed(capsys, tied, "--json", "-")) and "groups" not in json.loads(plain)
    asked = json.loads(printed(capsys, tied, "--json", "-", "--groups", 2))["groups"]
    report = ga.audit(read_run(tied))
    whole = report.to_dict(groups=True)["groups"]
    assert "groups" not in report.to_dict() and len(whole) == len(report.groups)
    assert asked == [g for f in (*FINDINGS, PUNISHED) for g in [g for g in whole if g["finding"] == f][:2]]
    assert report.to_dict(groups=10**30)["groups"] == whole
    assert asked[0]["completions"] and json.dumps(whole, allow_nan=False)


@pytest.mark.parametrize("groups", [-1, 2.5, "3"])
def test_what_is_no_number_of_groups_is_refused(tied, groups):
    with pytest.raises(gc.InputError, match=r"^groups: expected True, False or a whole number from 0, got "):
        ga.audit(read_run(tied)).to_dict(groups)


def test_rewards_of_few_bits_tie_in_the_list_as_in_the_log(tmp_path):
    log = pl.DataFrame({"group": [0] * 3, "a": [0.1, 0.3, 1.0], "b": [0.2, 0.0, 1.0]})
    log.with_columns(pl.col("a", "b").cast(pl.Float32)).write_parquet(tmp_path / "log.parquet")
    group = next(g for g in ga.audit(read_run(tmp_path / "log.parquet")).groups if g.finding == "ties-hide-signal")
    assert (group.score, group.ties("grpo")) == (1, [0, 0, None])
    assert group.tensor.dtype == torch.float32


def test_groups_of_missing_rewards_and_of_huge_ones_are_shown():
    nan = float("nan")
    rewards = [(nan, nan), (0.0, nan), (1e50, 1.0), (-1e50, nan), (5.0, 5.0), (5.0, 5.0)]
    rows = [{"group": i // 2, "a": a, "b": b} for i, (a, b) in enumerate(rewards)]
    groups = ga.audit(read_run(rows)).groups
    assert {g.group for g in groups if g.finding == "silent-groups"} == {0, 2}
    assert all(len(g.advantages_under(m)) == len(g.ties(m)) == 2 for g in groups for m in ("grpo", "gdpo"))
