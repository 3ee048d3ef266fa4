"""Your run: a log is chosen, read and audited; its report is shown and handed out."""

from views.run import choose, groups, log, show

__all__ = ["choose", "groups", "log", "show"]
