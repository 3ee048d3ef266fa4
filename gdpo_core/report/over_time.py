"""Old name of `series`."""

from gdpo_core.report.series import correlations  # shim: the lead removes it

__all__ = ["correlations"]
