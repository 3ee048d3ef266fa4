"""A run over time: one series of numbers per reward or pair of rewards, a number per row of the report's steps."""

from itertools import combinations

import polars as pl

from gdpo_audit.findings.over_time import CORRELATION, DEAD, MEAN, SHARE, column
from gdpo_audit.report.audit_report import AuditReport

Series = list[float | None]


def steps(report: AuditReport) -> list[int]:
    """The number of each row's step, the first one where a row holds several."""
    return report.steps["step"].to_list()


def means(report: AuditReport) -> dict[str, Series]:
    """By reward, its mean at each step."""
    return _by_reward(report, MEAN)


def dead(report: AuditReport) -> dict[str, Series]:
    """By reward, the share of the groups in which it is constant, at each step."""
    return _by_reward(report, DEAD)


def shares(report: AuditReport, method: str) -> dict[str, Series]:
    """By reward, its part of the update under a method, at each step."""
    return _by_reward(report, SHARE, method)


def correlations(report: AuditReport) -> dict[tuple[str, str], Series]:
    """By pair of rewards, their correlation inside groups, at each step."""
    pairs = combinations((reward["name"] for reward in report.rewards), 2)
    return {(i, j): _column(report.steps, column(CORRELATION, i, j)) for i, j in pairs}


def quarters(series: Series) -> tuple[float | None, float | None]:
    """The mean of the first and of the last quarter of its numbers; at least one number each.

    >>> quarters([0.0, 1.0, None, 3.0, 4.0])
    (0.0, 4.0)
    """
    values = present(series)
    part = max(1, len(values) // 4)
    if not values:
        return None, None
    return sum(values[:part]) / part, sum(values[-part:]) / part


def present(series: Series) -> list[float]:
    """The numbers of a series, without the steps that have none.

    >>> present([0.0, None, 2.0])
    [0.0, 2.0]
    """
    return [x for x in series if x is not None]


def _by_reward(report: AuditReport, *what: str) -> dict[str, Series]:
    return {reward["name"]: _column(report.steps, column(*what, reward["name"])) for reward in report.rewards}


def _column(table: pl.DataFrame, name: str) -> Series:
    return table[name].cast(pl.Float64).fill_nan(None).to_list()
