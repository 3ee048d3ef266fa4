"""Pool the speeds at which rewards follow a push over several runs of one model."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from gdpo_audit.report.audit_report import AuditReport
from gdpo_audit.report.comparison import PooledSpeed
from gdpo_audit.trials.run_forecast import fitted_speeds
from gdpo_core.forecasting import pool
from gdpo_core.shared.errors import expect


def pooled_speeds(reports: AuditReport | Sequence[AuditReport]) -> tuple[PooledSpeed, ...]:
    """Return the speed at which each reward follows a push, pooled over the reports of several runs of one model.

    The runs may differ in their methods and weights. A reward whose speed no run tells is left out.

    Raises InputError without a report, for anything but reports, and where a log is too short for a forecast or cannot
    be read once more.
    """
    reports = reports_in(reports, "pooled_speeds")
    expect(len(reports) > 0, "pooled_speeds", "at least one report", "none")
    each = [fitted_speeds(report.facts_with_sample("pooled_speeds")) for report in reports]
    names = dict.fromkeys(name for of_run in each for name in of_run)
    return tuple(_pooled(name, [of_run.get(name) for of_run in each]) for name in names)


def reports_in(given: object, name: str) -> list[AuditReport]:
    """Return the reports that a caller gives: one report, or an iterable of several.

    name: the name of the called function, with which an error begins.

    Raises InputError for anything but reports.
    """
    reports: list[Any] = list(given) if isinstance(given, Iterable) else [given]
    for report in reports:
        expect(isinstance(report, AuditReport), name, "what gdpo_audit.audit returns", type(report).__name__)
    return reports


def _pooled(name: str, by_run: list[tuple[float, float] | None]) -> PooledSpeed:
    """Return the speed of one reward over all runs.

    by_run: for each run, the reward's speed and its standard error; None where the run does not tell them.
    """
    known = np.array([x for x in by_run if x is not None])
    return PooledSpeed(name, *pool(known[:, 0], known[:, 1]), tuple(by_run))
