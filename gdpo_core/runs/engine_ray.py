"""The audit of a log on Ray: workers read and sum up files, and their sums are merged as the local ones are.

The driver reads the schemas, the steps and the advantages of all files, and the responses from which the recipe is
solved; everything else is read by the workers. A batch is summed up by one worker, so that the report is the same.
"""

import pickle
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import polars as pl

from gdpo_core._errors import InputError, expect
from gdpo_core._inputs import ArrayLike
from gdpo_core.frameworks import framework_named
from gdpo_core.runs.audit import audit
from gdpo_core.runs.audit_report import AuditReport
from gdpo_core.runs.columns import ROWS_OF_A_FILE, ReadOptions
from gdpo_core.runs.files import LogFiles, find_files, format_of
from gdpo_core.runs.frames import REMOTE
from gdpo_core.runs.grouping import clues_of, groups_before, with_groups
from gdpo_core.runs.read import read_rows, without_bad_files, without_unfinished
from gdpo_core.runs.run import Blocks, Run, tables_of
from gdpo_core.runs.summarise import summarise
from gdpo_core.runs.sums import Plan, Summary, merge
from gdpo_core.runs.trials import Sample
from gdpo_core.runs.window import select_steps

PER_WORKER = 8  # tasks, so that workers that are done early take over
RETRIES = 2  # of a task whose worker died


def audit_on_ray(
    path: str | Sequence[str],
    *,
    framework: str | None = None,
    weights: Mapping[str, float] | ArrayLike | None = None,
    primary: str | None = None,
    asked: str | None = None,
    what_if: Mapping[str, Any] | None = None,
    **named: Any,
) -> AuditReport:
    """The report of `audit(read_run(path))`, computed by the workers of a Ray cluster, or of one started here.

    named: further arguments of `read_run`. The workers must see the files under the same paths. Raises InputError,
    also if Ray is not installed, a worker dies, or a step spans several files.
    """
    _ray()  # nothing is read in vain
    paths = [path] if isinstance(path, str) else path
    remote = next((one for one in paths if REMOTE.match(one)), None)
    expect(remote is None, "--engine", "files on a disk that all machines see for ray", f"the URL {remote}")
    options = ReadOptions(**named)
    log = find_files(path)
    log, skipped = without_bad_files(log, options) if options.skip_bad_files else (without_unfinished(log), ())
    expect(all(file.path is not None for file in log.files), "--engine", "files on disk for ray", "an archive")
    tracked = next((file.name for file in log.files if format_of(file) in ("wandb", "trackio")), None)
    expect(tracked is None, "--engine", "files of rows for ray; --engine local reads trackers", f"{tracked}")
    run = read_rows(log, None if framework is None else framework_named(framework), options)
    run = replace(with_groups(run, options), skipped_files=skipped)
    engine = partial(_map_and_merge, log, named)
    return audit(run, weights, primary, asked=asked, what_if=what_if, engine=engine)


def _ray() -> Any:
    try:
        import ray
    except ImportError:
        raise InputError(
            "--engine: expected ray to be installed for this engine, got none: pip install 'ray'"
        ) from None
    return ray


def _map_and_merge(log: LogFiles, named: Mapping[str, Any], run: Run, plan: Plan) -> Summary:
    """The summary of the run, merged from those of its files."""
    ray = _ray()
    try:
        if not ray.is_initialized():
            ray.init(log_to_driver=False, logging_level="ERROR", include_dashboard=False)
        workers = max(1, int(ray.cluster_resources().get("CPU", 1)))
        tasks = _tasks(log, run, PER_WORKER * workers)
        work = partial(_summarise_files, run.framework, dict(named), run._blocks, run.window, plan)
        remote = ray.remote(max_retries=RETRIES)(lambda task: work(task))
        rows = ray.get([remote.remote(task) for task in tasks])
    except ray.exceptions.RayError as error:
        why = next((line for line in str(error).splitlines() if line.strip()), "no reason given")
        raise InputError(f"--engine: expected ray's workers to finish, got {type(error).__name__}: {why}") from None
    for row in sorted(rows, key=lambda row: row["first_batch"]):
        expect(not row["error"], "--engine", "a log that ray's workers can read file by file", row["error"])
    parts = [pickle.loads(row["summary"]) for row in rows]
    samples = [pickle.loads(row["sample"]) for row in sorted(rows, key=lambda row: row["first_batch"])]
    sample = Sample(every=max(part.every for part in samples))
    for table in (table for part in samples for table in part.tables):
        sample.add(table)
    return replace(merge(parts), sample=tuple(sample.tables))


def _tasks(log: LogFiles, run: Run, count: int) -> list[dict[str, Any]]:
    """The files in about `count` parts, and what each holds; parts have equally many files with steps of the window."""
    size = -(-len(log.files) // count)
    batches = clues_of(run).batches
    tasks = []
    for first in range(0, len(log.files), size):
        mine = batches.filter(pl.col("_file").is_between(first, first + size - 1))
        if len(select_steps(mine, run.window)):
            paths = [str(file.path) for file in log.files[first : first + size]]
            held = {"steps": mine["step"].to_list(), "rows": mine["rows"].to_list()}
            task = {"paths": paths, "first_file": first, "first_batch": mine["batch"][0], **held}
            task["first_group"] = groups_before(run, task["first_batch"])
            in_a_row = mine["batch"].to_list() == list(range(task["first_batch"], task["first_batch"] + len(mine)))
            wanted = "files in the order of their steps for ray, or --engine local"
            expect(in_a_row, "--engine", wanted, f"others in {log.files[first].name}")
            tasks.append(task)
    return tasks


def _summarise_files(
    framework: str,
    named: Mapping[str, Any],
    blocks: Blocks,
    window: tuple[int, int] | None,
    plan: Plan,
    task: Mapping[str, Any],
) -> dict[str, Any]:
    """What a worker does: the summary of some files, whose batches get the numbers that they have in the whole log."""
    import torch

    torch.set_num_threads(1)  # as many workers as cores
    done: dict[str, Any] = {"first_batch": task["first_batch"], "summary": b"", "sample": b"", "error": ""}
    try:
        options = ReadOptions(**{**named, "rewards": list(plan.rewards)})
        run = read_rows(find_files(list(task["paths"])), framework, options)
        batches = clues_of(run).batches
        offset = task["first_file"] if run._numbered_by_file else 0
        steps = (batches["step"] + offset).to_list()
        if (steps, batches["rows"].to_list()) != (list(task["steps"]), list(task["rows"])):
            wanted = f"{task['paths'][0]}: expected files that hold whole steps for ray, got a step that spans files"
            raise InputError(f"{wanted}; use --engine local")
        summaries, sample = [], Sample()
        for table in tables_of(run, blocks, task["first_batch"]):
            first = {"batch": task["first_batch"], "group": task["first_group"], "step": offset}
            first["_place"] = task["first_file"] * ROWS_OF_A_FILE
            table = table.with_columns(pl.col(name) + number for name, number in first.items())
            if len(table := select_steps(table, window)):
                summaries.append(summarise(table, plan))
                sample.add(table)
        done |= {"summary": pickle.dumps(merge(summaries)), "sample": pickle.dumps(sample)}
    except InputError as error:
        done["error"] = str(error)
    return done
