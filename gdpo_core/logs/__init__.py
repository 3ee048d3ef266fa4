"""shim: the lead removes it."""

from gdpo_core.runs.run import LogIssue as Trap  # noqa: F401  # shim: the lead removes it
from gdpo_core.runs.run import Run, read_run  # noqa: F401  # shim: the lead removes it
