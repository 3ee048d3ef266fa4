"""A cause is named only where it shows: evaluations, missing rows, copies, a last file, groups of another size."""

import shutil

import numpy as np
import polars as pl
import pytest
from fake_logs import write_trl
from logs import found, frames_of, write_trackio, write_wandb

import gdpo_audit as ga
import gdpo_core as gc
from gdpo_audit.logs.numbers.sizes import stretches
from gdpo_core.shared.words import listing


def files(folder):
    return sorted((folder / "completions").glob("*.parquet"))


# --- missing rows, or an evaluation ----------------------------------------------------------------------------------


def test_an_evaluation_is_told_from_missing_rows_in_one_log(tmp_path):
    write_trl(tmp_path, steps=12, groups=8, evaluated=(4, 8), drop_rows={6: 16})
    report = ga.audit(ga.read_run(tmp_path))
    assert found(report)["eval-overwrote"].evidence["steps"] == [4, 8]
    assert found(report)["rows-missing"].evidence["steps"] == [6]
    assert report.steps["step"].to_list() == [n for n in range(1, 13) if n not in (4, 8)]


# --- what trackers keep ----------------------------------------------------------------------------------------------


@pytest.fixture(params=["wandb", "trackio"])
def tracked(request, tmp_path):
    """Return a function that writes tables as the log of a tracker, W&B or trackio, and returns its path."""

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
def test_tables_of_evaluations_are_no_second_run_and_do_not_count(tmp_path, tracked, method):
    tables, others = logged(tmp_path / "out", method=method), logged(tmp_path / "eval", method=method, seed=77)
    others = [table.with_columns(prompt=pl.lit("evaluated: ") + pl.col("prompt")) for table in others]
    log = []
    for number, (table, other) in enumerate(zip(tables, others, strict=True), start=1):
        log.append(table)
        if number % 4 == 0:  # TRL's table keeps the last responses of training where there is room.
            log.append(pl.concat([table.tail(16), other.head(16)]))
    report, expected = ga.audit(ga.read_run(tracked([*log, log[-1]]))), ga.audit(ga.read_run(tmp_path / "out"))
    assert report.notes == ("3 tables (steps 4, 8 and 12) were left out, because they hold evaluations.",)
    assert not {"steps-repeated", "eval-overwrote", "advantages-not-reproduced"} & {*found(report)}
    assert (report.rewards, report.methods, report.run) == (expected.rewards, expected.methods, expected.run)


# --- groups of another size ------------------------------------------------------------------------------------------


def changing(folder, parts, *drop, **options):
    """Write a log of TRL whose groups change, and return the number of its groups. parts: (steps, groups, size) of each
    stretch; drop: columns to leave out.
    """
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


@pytest.mark.parametrize("name", PARTS)
@pytest.mark.parametrize(("drop", "method"), [("", "gdpo"), ("prompt", "grpo"), ("advantage", "gdpo")])
def test_a_group_size_that_changes_is_followed(tmp_path, name, drop, method):
    parts = PARTS[name]
    groups = changing(tmp_path, parts, *[drop] * bool(drop), method=method)
    report = ga.audit(ga.read_run(tmp_path))
    assert report.source["groups"] == groups and report.source["group_size"] is None
    starts = np.cumsum([steps for steps, _, _ in parts[:-1]]).tolist()
    later = [f"{size} from step {1 + step} on" for step, (_, _, size) in zip(starts, parts[1:], strict=True)]
    assert report.notes == (f"Groups hold {listing([f'{parts[0][2]} responses at first', *later])}.",)
    assert not {"prompts-merged", "ragged-batches"} & {*found(report)}
    if drop != "advantage":
        assert report.run["method"] == method and report.run["reproduced"]


@pytest.mark.slow
def test_a_few_prompts_in_groups_side_by_side_are_no_larger_groups():
    """With two prompts, some steps happen to hold one of them twice in a row; with a hundred prompts that hardly ever
    happens.
    """
    draw = np.random.default_rng(0)
    for among in (2, 3, 5, 20, 100):
        logs = [[np.repeat(draw.integers(0, among, 2), 8) for _ in range(30)] for _ in range(100)]
        assert not any(stretches([16] * 30, [], prompts) for prompts in logs)


# --- shuffled rows, and round-off ------------------------------------------------------------------------------------


@pytest.mark.parametrize("one_file", [False, True])
@pytest.mark.parametrize("drop", [(), ("advantage",)])
def test_shuffled_rows_are_grouped_by_their_prompt_with_and_without_advantages(tmp_path, one_file, drop):
    write_trl(tmp_path, steps=6, one_file=one_file, drop=drop)
    expected = ga.audit(ga.read_run(tmp_path))
    for path in files(tmp_path):
        pl.read_parquet(path).sample(fraction=1, shuffle=True, seed=3).write_parquet(path)
    # The advantages tell the groups by themselves; without them the prompts, which repeat inside a step, do.
    report = ga.audit(ga.read_run(tmp_path))
    assert not drop or "grouped by the column prompt" in report.notes[0]
    assert report.source["groups"] == 24 and report.run["method"] == expected.run["method"]
    for one, other in zip(report.rewards, expected.rewards, strict=True):
        assert one["mean"] == pytest.approx(other["mean"])
        assert one["update_share"] == pytest.approx(other["update_share"])


def test_rows_of_which_no_prompt_repeats_are_refused(tmp_path):
    write_trl(tmp_path, steps=2, drop=("advantage",))
    for path in files(tmp_path):
        pl.read_parquet(path).drop("prompt").sample(fraction=1, shuffle=True, seed=3).write_parquet(path)
    with pytest.raises(gc.InputError, match=r"(a sample or shuffled|TRL's columns)"):
        ga.read_run(tmp_path)
