"""`--engine ray` with Ray itself, in an environment of its own: make parity-ray."""

import os
import sys
from pathlib import Path

import fake_logs
import pytest

import gdpo_core as gc
from gdpo_core.runs import engine_ray


@pytest.fixture(scope="module")
def ray():
    import ray

    root = str(Path(__file__).parent.parent)
    ray.init(
        num_cpus=2,
        log_to_driver=False,
        include_dashboard=False,
        runtime_env={"env_vars": {"PYTHONPATH": os.pathsep.join([root, *sys.path])}},
    )
    yield ray
    ray.shutdown()


def same(path, **named) -> bool:
    fresh = gc.audit(gc.read_run(path), **named).to_dict(groups=True)
    assert engine_ray.audit_on_ray(str(path), **named).to_dict(groups=True) == fresh
    return True


def test_the_report_is_that_of_the_local_engine(ray, tmp_path):
    fake_logs.write_trl(
        tmp_path / "trl", steps=40, evaluated=(7,), drop_rows={9: 3}, same_prompts="pairs", missing=0.05
    )
    assert same(tmp_path / "trl", primary="accuracy")
    fake_logs.write_verl(tmp_path / "verl", steps=20)
    assert same(tmp_path / "verl", weights={"accuracy": 2.0})
    fake_logs.write_ms_swift(tmp_path / "swift", steps=10)  # one file: one worker
    assert same(tmp_path / "swift")
    fake_logs.write_trl(tmp_path / "once", steps=6, iterations=2)
    assert same(tmp_path / "once")


def test_some_steps_and_the_values_of_a_column(ray, tmp_path):
    fake_logs.write_trl(tmp_path, steps=40, drop_rows={9: 3}, extra={"task": lambda n: [i // 8 % 2 for i in range(n)]})
    named = {"steps": (8, 31), "by": "task"}
    fresh = gc.audit(gc.read_run(tmp_path, **named)).to_dict()
    assert engine_ray.audit_on_ray(str(tmp_path), **named).to_dict() == fresh


def test_files_of_no_steps_count_as_steps(ray, tmp_path):
    for number in range(20):
        rows = [f"{i // 8},{(i * i + number) % 3},{(i + number) % 5 / 4}" for i in range(32)]
        (tmp_path / f"part{number}.csv").write_text("prompt,right,short\n" + "\n".join(rows) + "\n")
    assert same(tmp_path)


@pytest.mark.parametrize("order", ["two files per step", "no order"])
def test_steps_that_span_files_are_refused(ray, tmp_path, order):
    for number in range(40):
        step = number // 2 if order == "two files per step" else 7 * number % 40
        rows = [f"{step},{i // 8 + number * 4},{(i * i) % 3},{i % 5 / 4}" for i in range(32)]
        (tmp_path / f"part{number:02}.csv").write_text("step,prompt,right,short\n" + "\n".join(rows) + "\n")
    wanted = "a step that spans files; use --engine local|files in the order of their steps for ray, or --engine local"
    with pytest.raises(gc.InputError, match=wanted) as refused:
        engine_ray.audit_on_ray(str(tmp_path))
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("log", "message"),
    [
        ("wandb", "files of rows for ray; --engine local reads trackers, got .*table.json$"),
        ("trackio/project.db", "files of rows for ray; .*project.db$"),
        ("trackio/project.db::gdpo", "files of rows for ray; .*project.db$"),
    ],
)
def test_tables_of_trackers_are_refused(ray, log, message):
    with pytest.raises(gc.InputError, match=message):
        engine_ray.audit_on_ray(str(Path(__file__).parent / "goldens/logs" / log))


def test_a_log_in_an_object_store_is_refused(ray):
    with pytest.raises(gc.InputError, match="files on a disk that all machines see for ray, got the URL s3://b/run"):
        engine_ray.audit_on_ray("s3://b/run")


def test_large_numbers_keep_their_digits(ray, tmp_path):
    large = [("large", lambda draw, *shape: 1e9 + 64 * draw.integers(0, 9, shape)), fake_logs.FORMAT]
    fake_logs.write_trl(tmp_path, steps=40, rewards=large, weights=(1.0, 1.0))
    assert same(tmp_path)


def test_a_worker_that_dies_is_one_line(ray, tmp_path, monkeypatch):
    fake_logs.write_trl(tmp_path, steps=4)

    def dies(*_):
        os._exit(1)

    monkeypatch.setattr(engine_ray, "_summarise_files", dies)
    with pytest.raises(gc.InputError, match="--engine: expected ray's workers to finish, got ") as died:
        engine_ray.audit_on_ray(str(tmp_path))
    assert "\n" not in str(died.value)


def test_a_log_that_a_worker_cannot_read_is_one_line(ray, tmp_path, monkeypatch):
    fake_logs.write_trl(tmp_path, steps=4)

    def refuses(*rest):
        return {"first_batch": rest[-1]["first_batch"], "summary": b"", "error": "a.parquet: expected rows, got none"}

    monkeypatch.setattr(engine_ray, "_summarise_files", refuses)
    with pytest.raises(gc.InputError, match=r"--engine: expected a log .*, got a.parquet: expected rows, got none$"):
        engine_ray.audit_on_ray(str(tmp_path))
