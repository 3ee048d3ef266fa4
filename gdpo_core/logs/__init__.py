"""Readers of training logs: one per framework, all with the same table as result."""

from gdpo_core.logs.read import read_run
from gdpo_core.logs.run import Run, Trap

__all__ = ["Run", "Trap", "read_run"]
