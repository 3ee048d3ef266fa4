"""Pool the speeds at which rewards follow a push over several runs of one model."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gdpo_audit.findings.forecast import fitted_speeds
from gdpo_audit.report.audit_report import AuditReport
from gdpo_core._errors import InputError, expect
from gdpo_core.forecasting import pool


@dataclass(frozen=True)
class PooledSpeed:
    """The speed of one reward over several runs: logit a step for a push of one.

    error: its standard error. between: how far the runs differ beyond their errors. by_run: of each run by itself,
    speed and error; None where the run has no such reward.
    """

    reward: str
    speed: float
    error: float
    between: float
    by_run: tuple[tuple[float, float] | None, ...]

    def of_runs(self, runs: slice) -> tuple[float, float] | None:
        """Return the speed and its error over some of the runs; None where none of these has the reward."""
        known = np.array([x for x in self.by_run[runs] if x is not None])
        return pool(known[:, 0], known[:, 1])[:2] if len(known) else None


def pooled_speeds(reports: Sequence[AuditReport]) -> tuple[PooledSpeed, ...]:
    """Return the speed of every reward over runs of one model, which may have other methods and weights.

    Raises InputError as `AuditReport.forecast` does.
    """
    expect(len(reports) > 0, "pooled_speeds", "at least one report", "none")
    if any(report._facts is None for report in reports):
        raise InputError("pooled_speeds: expected reports that gdpo_audit.audit made in this process, got one without")
    each = [fitted_speeds(report._facts) for report in reports if report._facts is not None]
    names = dict.fromkeys(name for of_run in each for name in of_run)
    return tuple(_pooled(name, [of_run.get(name) for of_run in each]) for name in names)


def _pooled(name: str, by_run: list[tuple[float, float] | None]) -> PooledSpeed:
    known = np.array([x for x in by_run if x is not None])
    return PooledSpeed(name, *pool(known[:, 0], known[:, 1]), tuple(by_run))
