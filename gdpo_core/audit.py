"""Moved to gdpo_core.runs."""  # shim: the lead removes it

from gdpo_core.runs.audit import AuditReport as AuditReport
from gdpo_core.runs.audit import Finding as Finding
from gdpo_core.runs.audit import audit as audit
