"""Moved to gdpo_core.runs."""  # shim: the lead removes it

from gdpo_core.runs.audit_report import RunPart as RunPart
