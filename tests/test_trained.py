"""Rows that no training was made of: adding them to a clean log changes no figure but their own count."""

import io
import json

import numpy as np
import polars as pl
import pytest
from logs import figures, found, issues, lines, parquet, refused

import gdpo_audit as ga

NAMES = ("solved", "tidy")


def trained(steps=10, prompts=4, size=6, advantage=True, group="uid", seed=0, std=True, **columns) -> list[dict]:
    """Return the rows of a training with GRPO and weights 1 : 0.5, computed by plain numpy, a dict each."""
    draw, made = np.random.default_rng(seed), []
    for step in range(1, steps + 1):
        for prompt in range(prompts):
            r = np.stack([draw.random(size) < draw.uniform(0.2, 0.8), draw.random(size) < 0.5], axis=1).astype(float)
            r[:2] = [[1, 0], [0, 1]]  # no group is silent
            a = r @ [1, 0.5] - (r @ [1, 0.5]).mean()
            a /= (r @ [1, 0.5]).std(ddof=1) + 1e-4 if std else 1
            for i in range(size):
                row = {"step": step, group: f"s{step}q{prompt}", **dict(zip(NAMES, r[i].tolist(), strict=True))}
                made.append(row | ({"advantage": float(a[i])} if advantage else {}) | columns)
    return made


def evaluated(steps=(4, 8), n=5, size=1, advantage=True, group="uid", seed=1, **columns) -> list[dict]:
    """Return the rows of evaluations at some steps: `n` groups of `size` rows at each, without an advantage."""
    draw = np.random.default_rng(seed)
    return [
        {"step": step, group: f"e{step}q{k}", "solved": float(draw.random() < 0.6), "tidy": float(draw.random() < 0.5)}
        | ({"advantage": None} if advantage else {})
        | columns
        for step in steps
        for k in range(n)
        for _ in range(size)
    ]


def in_steps(rows: list[dict]) -> list[dict]:
    return sorted(rows, key=lambda row: row["step"])


def shuffled(rows: list[dict]) -> list[dict]:
    return [rows[i] for i in np.random.default_rng(3).permutation(len(rows))]


def written(rows: list[dict], kind: str) -> dict[str, bytes]:
    """Return the rows as a file: jsonl, json, csv or parquet."""
    frame = pl.DataFrame(rows, infer_schema_length=None)
    buffer = io.BytesIO()
    if kind == "csv":
        frame.write_csv(buffer)
    content = {"jsonl": lines(*rows), "json": json.dumps(rows).encode(), "parquet": parquet(frame)}
    return {f"rows.{kind}": content.get(kind, buffer.getvalue())}


def differing(before, after, path="") -> list[str]:
    """Return the paths of the members in which two reports differ."""
    if isinstance(before, dict) and isinstance(after, dict):
        names = [*dict.fromkeys([*before, *after])]
        return [p for name in names for p in differing(before.get(name), after.get(name), f"{path}/{name}")]
    return [] if before == after or str(before) == str(after) else [path]


def assert_alike(rows: list[dict], order, kind: str, n: int, groups: int, told=None, **options):
    """Assert that a log reads as one without the rows whose name of a group begins with e, which are all left out.

    n: how many rows these are, in so many groups. told: the column and the value that tell them; options: those of
    `read_run`.
    """
    rows = order(rows)
    log, clean = (written(part, kind) for part in (rows, [row for row in rows if row.get("uid", "")[:1] != "e"]))
    run = ga.read_run(log, **options)
    details = issues(run)["not-trained"]
    assert (details["rows"], details["groups"]) == (n, groups)
    assert (details.get("column"), details.get("value")) == (told or (None, None))
    without = differing(figures(clean, **options), figures(log, **options))
    assert {*without} <= {"/source/notes", "/source/issues", "/source/left_out", "/source/by", "/reading"}, without
    [note] = [note for note in ga.audit(run).notes if "no part of the training" in note]
    assert note.startswith(f"{n} rows in {groups} groups were left out")


@pytest.mark.parametrize(
    ("order", "kind", "train", "val"),
    [
        (in_steps, "jsonl", {}, {}),
        (shuffled, "parquet", {"split": "train"}, {"split": "val"}),
        (list, "csv", {"is_validation": False}, {"is_validation": True}),
        (in_steps, "json", {"modus": "lernen"}, {"modus": "pruefen"}),
    ],
)
def test_rows_without_an_advantage_beside_groups_with_one_are_no_training(order, kind, train, val):
    told = next(((name, str(value).lower()) for name, value in val.items()), None)
    assert_alike(trained(**train) + evaluated(**val), order, kind, 10, 10, told)


@pytest.mark.parametrize(
    ("order", "kind", "train", "val", "size"),
    [
        (shuffled, "jsonl", {"split": "train"}, {"split": "val"}, 6),
        (in_steps, "csv", {"isTrain": 1}, {"isTrain": 0}, 3),
        (list, "parquet", {"phase": "rollout"}, {"phase": "eval"}, 1),
        (shuffled, "csv", {"modus": "lernen"}, {"modus": "pruefen"}, 1),
    ],
)
def test_without_advantages_a_column_tells_evaluations(order, kind, train, val, size):
    rows = trained(advantage=False, **train) + evaluated(advantage=False, size=size, **val)
    told = next((name, str(value).lower()) for name, value in val.items())
    assert_alike(rows, order, kind, 10 * size, 10, told)


def test_groups_without_any_reward_are_no_training():
    sentinels = [row | {"solved": None, "tidy": None} for row in evaluated(advantage=False)]
    assert_alike(trained(advantage=False) + sentinels, in_steps, "jsonl", 10, 10)


def test_without_names_of_groups_long_stretches_without_an_advantage_are_no_training():
    rows = [row for row in in_steps(trained() + evaluated(n=6))]
    clean = [{k: v for k, v in row.items() if k != "uid"} for row in rows if row["advantage"] is not None]
    log = [{k: v for k, v in row.items() if k != "uid"} for row in rows]
    run = ga.read_run(written(log, "jsonl"))
    assert issues(run)["not-trained"]["rows"] == 12 and run.group_size == 6
    assert ga.audit(run).rewards == ga.audit(ga.read_run(written(clean, "jsonl"))).rewards


def greedy(rows: list[dict], advantage, told: tuple) -> list[dict]:
    """Return rows of a training with a row more in each group, made without sampling, with this advantage.

    told: a column, its value in the rows of the training, and its value in the others.
    """
    draw, made = np.random.default_rng(7), []
    column, train, other = told
    for i, row in enumerate(rows):
        made.append(row | {column: train})
        if i + 1 == len(rows) or rows[i + 1]["uid"] != row["uid"]:
            r = dict(zip(NAMES, (draw.random(2) < 0.6).astype(float).tolist(), strict=True))
            made.append(row | r | {"advantage": advantage, column: other})
    return made


@pytest.mark.parametrize("advantage", [0.0, None])
@pytest.mark.parametrize("told", [("modus", "lernen", "gierig"), ("temp", 0.7, 0.0), ("is_x", False, True)])
def test_a_row_of_each_group_that_a_column_tells_is_no_training(advantage, told):
    rows = trained()
    log = ga.audit(ga.read_run(written(greedy(rows, advantage, told), "jsonl")))
    clean = ga.audit(ga.read_run(written(rows, "jsonl")))
    claims = {claim.what: claim for claim in log.reading}
    assert (claims["responses"].evidence, claims["groups"].evidence) == ("agrees", "proved")
    assert claims["responses"].taken == "240 of 280 rows in 40 groups" and told[0] in claims["responses"].because
    assert (log.rewards, log.run["weights"]) == (clean.rewards, clean.run["weights"])
    [note] = [note for note in log.notes if "no part of the training" in note]
    assert note.startswith("40 of 280 rows") and f"because {told[0]} is" in note and "mask" not in note


def test_groups_of_an_evaluation_with_advantages_of_0_are_told_by_a_column_of_any_name():
    rows = [row | {"modus": "lernen"} for row in trained()]
    evals = [row | {"advantage": 0.0, "modus": "pruefen"} for row in evaluated(n=3, size=6)]
    log = ga.audit(ga.read_run(written(in_steps(rows + evals), "jsonl")))
    clean = ga.audit(ga.read_run(written(trained(), "jsonl")))
    responses = log.reading[0]
    assert (responses.evidence, responses.taken) == ("agrees", "240 of 276 rows in 40 groups")
    assert log.rewards == clean.rewards and "mask" not in responses.because


def test_rows_that_a_mask_takes_out_of_the_update_stay_in_their_groups():
    """The advantages of the others show that the masked rows counted."""
    rows = [row | {"long": i % 7 == 0} for i, row in enumerate(trained())]
    masked = [row | ({"advantage": 0.0} if row["long"] else {}) for row in rows]
    report = ga.audit(ga.read_run(written(masked, "jsonl")))
    responses = report.reading[0]
    assert (responses.evidence, responses.taken) == ("proved", "all 240 rows in 40 groups")
    assert "mask" in responses.because and report.source["responses"] == 240


def kept_whole(rows: list[dict], **options) -> ga.Run:
    """Return the run of a log whose rows all count."""
    run = ga.read_run(written(rows, "jsonl"), **options)
    assert "not-trained" not in issues(run)
    assert sum(map(len, run.tables())) == len(rows)
    return run


def test_masked_rows_and_filtered_groups_and_missing_rewards_stay():
    rows = trained()
    masked = [row | {"long": i % 7 == 0} for i, row in enumerate(rows)]
    kept_whole([row | ({"advantage": None} if row["long"] else {}) for row in masked])
    silent = [row | {"solved": 1.0, "tidy": 1.0, "advantage": None} if row["uid"][-1] == "2" else row for row in rows]
    kept_whole(silent)  # a filter took out groups in which nothing differs
    spoilt = [
        row | {"advantage": None, "tidy": None if i % 6 == 0 else row["tidy"]} if row["uid"][-1] == "2" else row
        for i, row in enumerate(rows)
    ]
    kept_whole(spoilt)  # a missing reward spoils the advantages of its group
    kept_whole([row | {"advantage": None} for row in rows])


def test_columns_that_only_look_like_a_split_stay():
    rows = trained(advantage=False)
    kept_whole([row | {"task": "test" if row["uid"][-1] == "1" else "code"} for row in rows])
    kept_whole([row | {"test": float(i % 2)} for i, row in enumerate(rows)])  # a reward: it differs inside groups
    kept_whole([row | {"split": "val"} for row in rows])  # nothing else is there
    kept_whole([row | {"source": "a" if row["uid"][-1] == "1" else "b"} for row in rows])
    by_split = [row | {"split": "val" if row["uid"][-1] == "1" else "train"} for row in rows]
    kept_whole(by_split, by="split")  # whoever asks for the values of a column sees them all


def test_sizes_of_random_draws_are_a_sample_and_others_are_not():
    draw = np.random.default_rng(0)
    rows = trained(steps=20, size=8, advantage=False)
    some = [row for row in rows if draw.random() < 0.3]
    sampled = ga.audit(ga.read_run(written(some, "jsonl")))
    [finding] = [f for f in sampled.findings if f.id == "groups-sampled"]
    sizes = np.unique([row["uid"] for row in some], return_counts=True)[1]
    assert finding.evidence["steps"] == len({row["step"] for row in some})
    assert (finding.evidence["alone"], finding.evidence["groups"]) == (int((sizes == 1).sum()), len(sizes))
    assert "groups-sampled" not in issues(ga.read_run(written(rows, "jsonl")))
    varied = [
        row | {"uid": f"{row['uid']} of {size}"}
        for size in (3, 4, 5, 6)
        for row in trained(steps=5, size=size, seed=size, advantage=False)
    ]
    assert "groups-sampled" not in issues(ga.read_run(written(varied, "jsonl")))
    most = [row for row in trained(steps=30, size=8, advantage=False) if draw.random() < 0.75]
    assert issues(ga.read_run(written(most, "jsonl")))["groups-sampled"]["largest"] == 8


@pytest.mark.parametrize("advantage", [True, False])
def test_a_column_of_ids_tells_groups_that_lack_rows(advantage):
    draw = np.random.default_rng(1)
    rows = trained(group="aufgabe")
    rows = [row | {"worker": i % 3, "turns": int(draw.integers(1, 4))} for i, row in enumerate(rows)]
    rows = shuffled([row for row in rows if draw.random() < 0.8])
    rows = [{k: v for k, v in row.items() if advantage or k != "advantage"} for row in rows]
    run = ga.read_run(written(rows, "jsonl"), rewards=list(NAMES))
    told = issues(run)["regrouped"]
    assert run.grouped_by == "the column aufgabe" and (told["ids"] or (advantage and told["follows"]))
    assert pl.concat(run.tables())["group"].n_unique() == 40


def judged(sentinel, share, seed=0, low=5, high=9):
    """Return rows with a judge's grades, normal around the middle, and a value in its place in some rows, and the two
    shares by plain numpy: of the rows, and of the sum of squares inside groups.
    """
    draw, rows = np.random.default_rng(seed), []
    middle = (low + high) / 2
    for n in range(100):
        grades = np.clip(draw.normal(middle, 1, 8).round(), low, high)
        grades[draw.random(8) < share] = sentinel
        where = {"step": n // 4 + 1, "uid": f"q{n}"}
        rows += [where | {"judge_score": g, "valid": float(draw.random() < 0.5)} for g in grades]
    values = np.array([row["judge_score"] for row in rows]).reshape(100, 8)
    squares = (values - values.mean(1, keepdims=True)) ** 2
    return rows, (values == sentinel).mean(), squares[values == sentinel].sum() / squares.sum()


@pytest.mark.parametrize(
    ("sentinel", "low", "severity"), [(-1, 5, "warning"), (-100, 1, "warning"), (0, 2, "info"), (999, 1, "warning")]
)
def test_a_value_far_from_all_others_is_told_with_what_it_makes(sentinel, low, severity):
    rows, share, variance = judged(sentinel, 0.06, low=low, high=10 if low < 5 else 9)
    [finding] = [f for f in ga.audit(ga.read_run(written(rows, "csv"))).findings if f.id == "reward-sentinel"]
    e = finding.evidence
    assert (e["reward"], e["value"], finding.severity) == ("judge_score", sentinel, severity)
    assert (e["share_of_responses"], e["share_of_variance"]) == (pytest.approx(share), pytest.approx(variance))
    assert f"{variance:.0%}".replace("%", " %") in finding.title


@pytest.mark.parametrize(
    ("sentinel", "share"),
    [
        (-1, 0.004),  # too few responses to be more than an accident
        (-1, 0.3),  # too many to be an exception
        (4, 0.06),  # next to the others
    ],
)
def test_values_that_belong_to_a_reward_are_no_sentinels(sentinel, share):
    rows, _, _ = judged(sentinel, share)
    assert "reward-sentinel" not in [f.id for f in ga.audit(ga.read_run(written(rows, "csv"))).findings]


def test_rewards_of_two_values_have_no_sentinel():
    rows = [row | {"valid": float(i % 16 == 0)} for i, row in enumerate(judged(7, 0.0)[0])]
    assert "reward-sentinel" not in [f.id for f in ga.audit(ga.read_run(written(rows, "csv"))).findings]


def restarted(folders=("a", "b"), second=(6, 15), advantage=True) -> dict[str, bytes]:
    """Return the log of a run in two folders, each with two files of half of every group; the steps of the second begin
    before the first ends.
    """
    log = {}
    for folder, (first, last), seed in zip(folders, ((1, 8), second), (0, 1), strict=True):
        rows = [r for r in trained(steps=15, seed=seed, advantage=advantage) if first <= r["step"] <= last]
        for rank in (0, 1):
            log[f"{folder}/rank{rank}.jsonl"] = lines(*(r for i, r in enumerate(rows) if i // 3 % 2 == rank))
    return log


def test_a_restart_in_another_folder_is_batches_of_its_own(tmp_path):
    for name, content in restarted().items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(content)
    for source in (tmp_path, str(tmp_path / "*" / "*.jsonl")):
        run = ga.read_run(source)
        assert (run.group_size, pl.concat(run.tables())["batch"].n_unique()) == (6, 8 + 10)
        assert "advantages-not-reproduced" not in found(ga.audit(run)) and sum(map(len, run.tables())) == 4 * 6 * 18


def test_two_runs_side_by_side_are_refused_as_before(tmp_path):
    for name, content in restarted(second=(1, 8)).items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(content)
    refused(tmp_path, r"expected the log of one run, got several, name one of them: ")


def test_an_evaluation_that_stands_behind_the_rows_of_a_step_overwrote_nothing(tmp_path):
    """GDPO as TRL computes it: rows more in the file move the step over the batch, so that all are off by a factor."""
    draw = np.random.default_rng(5)
    for step in range(1, 13):
        frames = []
        for rows, n in ((24, 6), *[(18, 3)] * (step in (5, 10))):
            r = np.stack([draw.random(rows) < 0.5, draw.random(rows).round(2)], axis=1).astype(float)
            groups = r.reshape(-1, n, 2)
            z = (groups - groups.mean(1, keepdims=True)) / (groups.std(1, ddof=1, keepdims=True) + 1e-4)
            sums = z.reshape(rows, 2) @ [1, 0.5]
            a = (sums - sums.mean()) / (sums.std(ddof=1) + 1e-4)
            columns = {"step": [step] * rows, "prompt": [f"{step} {rows} question {k // n}" for k in range(rows)]}
            columns |= {"completion": ["x"] * rows, **dict(zip(NAMES, r.T, strict=True)), "advantage": a}
            frames.append(pl.DataFrame(columns))
        pl.concat(frames).write_parquet(tmp_path / f"completions_{step:05d}.parquet")
    findings = ga.audit(ga.read_run(tmp_path)).findings
    assert not any("overwrote" in finding.title for finding in findings)
    [finding] = [finding for finding in findings if finding.id == "eval-overwrote"]
    assert finding.evidence["steps"] == [5, 10] and "stand beside those of steps 5 and 10" in finding.title
    assert "42 or more, and 24 or fewer" in finding.message


@pytest.mark.parametrize(("size", "part"), [(3, 12), (2, 24)])
def test_an_evaluation_of_another_group_size_in_the_file_of_a_step(tmp_path, size, part):
    draw = np.random.default_rng(5)
    for step in range(1, 13):
        n, rows = (size, part) if step in (5, 10) else (6, 24)
        r = np.stack([draw.random(24) < 0.5, draw.random(24).round(2)], axis=1).astype(float)
        sums = r @ [1, 0.5]
        centred = sums - sums.reshape(-1, n).mean(1).repeat(n)
        a = centred / (sums.reshape(-1, rows).std(1, ddof=1).repeat(rows) + 1e-4)
        prompts = [f"{step} question {k // n}" for k in range(24)]
        columns = {"step": [step] * 24, "prompt": prompts, "completion": ["x"] * 24, "advantage": a}
        frame = pl.DataFrame(columns | dict(zip(NAMES, r.T, strict=True)))
        frame.write_parquet(tmp_path / f"completions_{step:05d}.parquet")
    [finding] = [f for f in ga.audit(ga.read_run(tmp_path)).findings if f.id == "eval-overwrote"]
    assert finding.evidence["steps"] == [5, 10] and f"groups of {size}, not of 6" in finding.message
