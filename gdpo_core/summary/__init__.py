"""What an audit needs to know of a run, a row a batch: sums that merge, so that no log has to fit into memory."""

from gdpo_core.summary.summary import Plan, Summary, binned, merge, summarise, totals

__all__ = ["Plan", "Summary", "binned", "merge", "summarise", "totals"]
