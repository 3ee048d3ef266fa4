"""Moved to gdpo_core.runs."""  # shim: the lead removes it

from gdpo_core.runs.audit import audit as audit
from gdpo_core.runs.audit_report import AuditReport as AuditReport
from gdpo_core.runs.facts import Finding as Finding
