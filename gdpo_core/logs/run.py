"""shim: the lead removes it."""

from gdpo_core.runs.run import Run  # noqa: F401  # shim: the lead removes it
