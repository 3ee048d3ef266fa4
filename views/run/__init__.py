"""Your run: a log is chosen, read and audited; its report is shown and handed out."""

from views.run import ask, choose, groups, log, show

__all__ = ["ask", "choose", "groups", "log", "show"]
