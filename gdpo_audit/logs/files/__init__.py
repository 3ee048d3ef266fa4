"""Files: which ones are the log of a run, and how their bytes are had."""
