"""Old name of `sentences`."""

from gdpo_core.report.sentences import comparable, not_comparable  # shim: the lead removes it

__all__ = ["comparable", "not_comparable"]
