"""One reader a framework, one table out."""

from gdpo_core.logs.read import read_run
from gdpo_core.logs.run import Run, Trap

__all__ = ["Run", "Trap", "read_run"]
