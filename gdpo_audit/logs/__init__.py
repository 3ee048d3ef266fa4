"""Any file of a log becomes one table of responses in batches and groups; a framework is a function on it."""
