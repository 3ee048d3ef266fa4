"""The chapter Your run: the reader chooses a log, the log is read and audited, and the report on it is shown."""

from views.chapters.run import choose, groups, log, show

__all__ = ["choose", "groups", "log", "show"]
