"""Logs of training runs: a log of any framework becomes a run, which is tables of responses in batches and groups."""
