"""Groups: the rows of a log in batches and groups, which are a run."""
