"""Logs of training runs: whatever wrote its files, a log becomes one table of responses in batches and groups."""
