"""The sums that an audit needs, one row per batch. They merge, so that no log has to fit into memory."""

from gdpo_core.summary.summary import Plan, Summary, binned, merge, summarise, totals

__all__ = ["Plan", "Summary", "binned", "merge", "summarise", "totals"]
