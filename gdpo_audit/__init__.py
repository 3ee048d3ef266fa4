"""Audits of the logs of runs: `read_run` reads a log, `audit` reports on it, and `advise` answers from the report
whether GDPO would help.
"""

from gdpo_audit import report  # noqa: F401 (how a notebook shows what `audit` returns)
from gdpo_audit.advice import advise
from gdpo_audit.auditing import audit
from gdpo_audit.findings.finding import Finding
from gdpo_audit.logs.groups.run import Run
from gdpo_audit.logs.read import read_run
from gdpo_audit.report.audit_report import AuditReport

__all__ = ["AuditReport", "Finding", "Run", "advise", "audit", "read_run"]
