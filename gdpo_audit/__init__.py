"""Audits of the logs of runs: `read_run` reads a log, `audit` reports on it, and `advise` answers from the report
whether GDPO would help.
"""

from typing import TYPE_CHECKING

from gdpo_core.shared.lazy import names_on_demand

if TYPE_CHECKING:
    from gdpo_audit.advice.advice import advise
    from gdpo_audit.auditing import audit
    from gdpo_audit.findings.finding import Finding
    from gdpo_audit.logs.groups.run import Run
    from gdpo_audit.logs.read import read_run
    from gdpo_audit.report.audit_report import AuditReport

__all__ = ["AuditReport", "Finding", "Run", "advise", "audit", "read_run"]

# What is imported when it is first used: `gdpo check` waits for no torch.
_MODULES = {
    "gdpo_audit.advice.advice": "advise",
    "gdpo_audit.auditing": "audit",
    "gdpo_audit.findings.finding": "Finding",
    "gdpo_audit.logs.groups.run": "Run",
    "gdpo_audit.logs.read": "read_run",
    "gdpo_audit.report.audit_report": "AuditReport",
}
if not TYPE_CHECKING:
    __getattr__ = names_on_demand(__name__, _MODULES)


def __dir__() -> list[str]:
    """Return the names of the package, also those that were not used yet."""
    return sorted({*globals(), *__all__})
