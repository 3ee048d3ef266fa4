"""The chapter Your run: the reader chooses a log, which is read and audited, and whose report is shown."""

from views.run import choose, groups, log, show

__all__ = ["choose", "groups", "log", "show"]
