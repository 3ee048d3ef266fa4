"""Your run: a log is chosen, read and audited; its report is shown and handed out."""

from views.run import choose, log, show

__all__ = ["choose", "log", "show"]
