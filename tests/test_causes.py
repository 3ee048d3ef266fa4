"""Causes are named only where they are seen: evaluations, missing rows, copies, a last file, groups of another size."""

import shutil

import numpy as np
import polars as pl
import pytest
from fake_logs import ACCURACY, write_trl, write_verl
from test_trackers import frames_of, write_trackio, write_wandb

import gdpo_audit as ga
import gdpo_core as gc
from gdpo_audit.logs.sizes import stretches


def found(report):
    return {finding.id: finding for finding in report.findings}


def files(folder):
    return sorted((folder / "completions").glob("*.parquet"))


# --- missing rows, or an evaluation ----------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["gdpo", "grpo_batch_std"])
def test_steps_that_lost_whole_groups_lack_rows_and_count(tmp_path, method):
    write_trl(tmp_path, steps=12, groups=8, method=method, drop_rows={4: 32, 7: 32, 10: 32})
    report = ga.audit(ga.read_run(tmp_path))
    finding = found(report)["rows-missing"]
    assert finding.evidence["steps"] == [4, 7, 10] and finding.evidence["usual_rows"] == 64
    assert "hold 32 rows, others 64" in finding.message and "evaluation" not in finding.message
    assert not {"eval-overwrote", "advantages-not-reproduced"} & {*found(report)}
    assert report.run["method"] == method and report.run["steps_off"] == [4, 7, 10]
    rows = pl.concat(map(pl.read_parquet, files(tmp_path)))
    assert report.steps["step"].to_list() == list(range(1, 13))
    assert report.rewards[0]["mean"] == pytest.approx(rows["accuracy"].mean())


def test_silent_groups_that_were_filtered_out_are_missing_rows(tmp_path):
    rewards = (ACCURACY, ("second", ACCURACY[1]))
    write_trl(tmp_path, steps=12, groups=8, group_size=4, rewards=rewards, weights=(1, 0.5), seed=2)
    short = []
    for number, path in enumerate(files(tmp_path), start=1):
        rows = pl.read_parquet(path).with_columns(group=pl.int_range(pl.len()) // 4)
        live = pl.any_horizontal(pl.col(n).n_unique().over("group") > 1 for n in ("accuracy", "second"))
        left = rows.filter(live)
        short += [number] if len(left) < len(rows) else []
        left.drop("group").write_parquet(path)
    report = ga.audit(ga.read_run(tmp_path))
    assert found(report)["rows-missing"].evidence["steps"] == short and 0 < len(short) < 9
    assert "eval-overwrote" not in found(report) and report.run["method"] == "gdpo"


def test_an_evaluation_is_told_from_missing_rows_in_one_log(tmp_path):
    write_trl(tmp_path, steps=12, groups=8, evaluated=(4, 8), drop_rows={6: 16})
    report = ga.audit(ga.read_run(tmp_path))
    assert found(report)["eval-overwrote"].evidence["steps"] == [4, 8]
    assert found(report)["rows-missing"].evidence["steps"] == [6]
    assert report.steps["step"].to_list() == [n for n in range(1, 13) if n not in (4, 8)]


def test_other_advantages_in_a_short_step_are_an_error(tmp_path):
    write_trl(tmp_path, steps=12, drop_rows={5: 8})
    path = files(tmp_path)[4]
    rows = pl.read_parquet(path)
    rows.with_columns(advantage=pl.col("advantage").reverse()).write_parquet(path)
    report = ga.audit(ga.read_run(tmp_path))
    assert "rows-missing" not in found(report)
    assert found(report)["advantages-not-reproduced"].evidence["steps"] == [5]


# --- what trackers keep ----------------------------------------------------------------------------------------------


@pytest.fixture(params=["wandb", "trackio"])
def tracked(request, tmp_path):
    """A function from tables to a log of a tracker."""

    def write(tables):
        shutil.rmtree(tmp_path / "log", ignore_errors=True)
        (tmp_path / "log").mkdir()
        if request.param == "wandb":
            return write_wandb(tmp_path / "log/table", tables)
        return write_trackio(tmp_path / "log/a.db", {"run": tables})

    return write


def logged(folder, **options):
    write_trl(folder, steps=12, **options)
    return frames_of(folder)


@pytest.mark.parametrize("method", ["grpo", "gdpo"])
@pytest.mark.parametrize("groups", [1, 4])
def test_the_last_table_once_more_counts_once_and_nothing_is_said(tmp_path, tracked, method, groups):
    tables = logged(tmp_path / "out", method=method, groups=groups)
    expected, report = ga.audit(ga.read_run(tmp_path / "out")), ga.audit(ga.read_run(tracked([*tables, tables[-1]])))
    assert not report.notes and report.source["responses"] == 12 * groups * 8
    assert (report.rewards, report.methods, report.run) == (expected.rewards, expected.methods, expected.run)


@pytest.mark.parametrize("method", ["grpo", "gdpo"])
def test_tables_of_evaluations_are_no_second_run_and_do_not_count(tmp_path, tracked, method):
    tables, others = logged(tmp_path / "out", method=method), logged(tmp_path / "eval", method=method, seed=77)
    others = [table.with_columns(prompt=pl.lit("evaluated: ") + pl.col("prompt")) for table in others]
    log = []
    for number, (table, other) in enumerate(zip(tables, others, strict=True), start=1):
        log.append(table)
        if number % 4 == 0:  # TRL's table keeps the last responses of training, where there is room
            log.append(pl.concat([table.tail(16), other.head(16)]))
    report, expected = ga.audit(ga.read_run(tracked([*log, log[-1]]))), ga.audit(ga.read_run(tmp_path / "out"))
    assert report.notes == ("Left out as evaluations: 3 tables, of steps 4, 8 and 12.",)
    assert not {"steps-repeated", "eval-overwrote", "advantages-not-reproduced"} & {*found(report)}
    assert (report.rewards, report.methods, report.run) == (expected.rewards, expected.methods, expected.run)


# --- files -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("write", [write_trl, write_verl])
@pytest.mark.parametrize("size", [0, 900])
def test_a_last_file_without_its_end_is_left_out_and_named(tmp_path, write, size):
    write(tmp_path, steps=4)
    paths = sorted(path for path in tmp_path.rglob("*.*") if path.is_file())
    expected = ga.audit(ga.read_run([*map(str, paths[:-1])]))
    paths[-1].write_bytes(paths[-1].read_bytes()[:size])
    report = ga.audit(ga.read_run(tmp_path))
    (left,) = report.notes
    assert paths[-1].name in left and ("empty" if size == 0 else "ends in the middle") in left
    assert report.rewards == expected.rewards and report.source["files"] == 3


# --- groups of another size ------------------------------------------------------------------------------------------


def changing(folder, parts, *drop, **options):
    """A log of TRL; parts: (steps, groups, size). Returns the number of groups."""
    (folder / "completions").mkdir(parents=True)
    number = 0
    for seed, (steps, groups, size) in enumerate(parts):
        write_trl(folder / f"part{seed}", steps=steps, groups=groups, group_size=size, seed=seed, **options)
        for path in files(folder / f"part{seed}"):
            number += 1
            rows = pl.read_parquet(path).with_columns(step=pl.lit(number, pl.Int64)).drop(drop)
            rows.write_parquet(folder / f"completions/completions_{number:05d}.parquet")
        shutil.rmtree(folder / f"part{seed}")
    return sum(steps * groups for steps, groups, _ in parts)


PARTS = {
    "fewer": [(12, 4, 8), (12, 8, 4)],
    "more": [(6, 8, 4), (6, 4, 8)],
    "fewer rows": [(6, 4, 8), (6, 4, 4)],
    "no divisor": [(8, 3, 8), (8, 4, 6)],
    "and back": [(5, 4, 8), (5, 8, 4), (5, 4, 8)],
    "early": [(3, 4, 8), (9, 8, 4)],
}


@pytest.mark.parametrize("parts", PARTS.values(), ids=PARTS)
@pytest.mark.parametrize("drop", ["", "prompt", "advantage"])
@pytest.mark.parametrize("method", ["grpo", "gdpo"])
def test_a_group_size_that_changes_is_followed(tmp_path, parts, drop, method):
    groups = changing(tmp_path, parts, *[drop] * bool(drop), method=method)
    report = ga.audit(ga.read_run(tmp_path))
    assert report.source["groups"] == groups and report.source["group_size"] is None
    starts = np.cumsum([steps for steps, _, _ in parts[:-1]]).tolist()
    later = [f"{size} from step {1 + step} on" for step, (_, _, size) in zip(starts, parts[1:], strict=True)]
    assert report.notes == (f"Groups hold {parts[0][2]} responses at first, {' and '.join(later)}.",)
    assert not {"prompts-merged", "ragged-batches"} & {*found(report)}
    if drop != "advantage":
        assert report.run["method"] == method and report.run["reproduced"]


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("drop", [(), ("prompt",), ("advantage",)])
def test_groups_of_one_size_do_not_seem_to_change(tmp_path, seed, drop):
    rewards = {"rewards": (ACCURACY, ("second", ACCURACY[1])), "weights": None, "method": ("grpo", "gdpo")[seed % 2]}
    write_trl(tmp_path, steps=20, groups=2 + seed % 3, seed=seed, drop=drop, **rewards)
    run = ga.read_run(tmp_path)
    assert run.group_size == 8 and not run.issues


def test_a_few_prompts_in_groups_side_by_side_are_no_larger_groups():
    """Of two prompts some steps in a row hold one twice; of a hundred that hardly ever happens."""
    draw = np.random.default_rng(0)
    for among in (2, 3, 5, 20, 100):
        logs = [[np.repeat(draw.integers(0, among, 2), 8) for _ in range(30)] for _ in range(100)]
        assert not any(stretches([16] * 30, [], prompts) for prompts in logs)


# --- shuffled rows, and round-off ------------------------------------------------------------------------------------


@pytest.mark.parametrize("one_file", [False, True])
@pytest.mark.parametrize("drop", [(), ("advantage",)])
def test_shuffled_rows_are_grouped_by_their_prompt_on_request(tmp_path, one_file, drop):
    write_trl(tmp_path, steps=6, one_file=one_file, drop=drop)
    expected = ga.audit(ga.read_run(tmp_path))
    for path in files(tmp_path):
        pl.read_parquet(path).sample(fraction=1, shuffle=True, seed=3).write_parquet(path)
    with pytest.raises(gc.InputError, match=r"as many per prompt, got others: .* give group_size, or --group prompt"):
        ga.read_run(tmp_path)
    report = ga.audit(ga.read_run(tmp_path, group="prompt"))
    assert report.source["groups"] == 24 and report.run["method"] == expected.run["method"]
    for one, other in zip(report.rewards, expected.rewards, strict=True):
        assert one["mean"] == pytest.approx(other["mean"])
        assert one["update_share"] == pytest.approx(other["update_share"])


def test_values_that_differ_by_round_off_alone_are_one():
    draw = np.random.default_rng(1)
    where = {"step": np.repeat(np.arange(6), 64), "group": np.repeat(np.arange(48), 8)}
    first = draw.random(384) < 0.5
    nearly = pl.DataFrame(where | {"a": np.where(first, 0.3, 0.1 + 0.2), "b": draw.integers(0, 3, 384) / 10})
    assert nearly["a"].n_unique() == 2
    report, equal = (ga.audit(ga.read_run(log)) for log in (nearly, nearly.with_columns(a=pl.lit(0.3))))
    assert report.methods == equal.methods and report.rewards[0]["dead_groups"] == 1
    assert "ties-hide-signal" not in found(report)
    apart = nearly.with_columns(a=pl.Series(np.where(first, 0.3, 0.3 + 1e-9)))
    assert ga.audit(ga.read_run(apart)).rewards[0]["dead_groups"] < 0.1
