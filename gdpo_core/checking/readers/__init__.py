"""The readers of configurations: YAML, JSON, scripts and programs become `Source`s."""
