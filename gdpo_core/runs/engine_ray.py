"""The audit of a log on Ray: workers sum up the parts of a log, and their sums are merged as the local ones are."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from gdpo_core._errors import InputError
from gdpo_core._inputs import ArrayLike
from gdpo_core.runs.audit import audit
from gdpo_core.runs.audit_report import AuditReport
from gdpo_core.runs.read import read_run
from gdpo_core.runs.run import Run
from gdpo_core.runs.summarise import summarise
from gdpo_core.runs.sums import Plan, Summary, merge
from gdpo_core.runs.trials import Sample


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

    named: further arguments of `read_run`. Raises InputError, also if Ray is not installed or a worker dies.
    """
    _ray()  # nothing is read in vain
    run = read_run(path, framework, **named)
    return audit(run, weights, primary, asked=asked, what_if=what_if, engine=_map_and_merge)


def _ray() -> Any:
    try:
        import ray
    except ImportError:
        raise InputError(
            "--engine: expected ray to be installed for this engine, got none: pip install 'ray'"
        ) from None
    return ray


def _map_and_merge(run: Run, plan: Plan) -> Summary:
    """The summary of the run, merged from those of its parts."""
    ray, sample = _ray(), Sample()
    try:
        if not ray.is_initialized():
            ray.init(log_to_driver=False, logging_level="ERROR", include_dashboard=False)
        remote = ray.remote(max_retries=2)(lambda table: _summarise(table, plan))
        waiting = []
        for table in run.tables():
            waiting.append(remote.remote(table))
            sample.add(table)
        parts = ray.get(waiting)
    except ray.exceptions.RayError as error:
        why = next((line for line in str(error).splitlines() if line.strip()), "no reason given")
        raise InputError(f"--engine: expected ray's workers to finish, got {type(error).__name__}: {why}") from None
    return replace(merge(parts), sample=tuple(sample.tables))


def _summarise(table: Any, plan: Plan) -> Summary:
    import torch

    torch.set_num_threads(1)  # as many workers as cores
    return summarise(table, plan)
