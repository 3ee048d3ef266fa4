"""A run's log: read, solved, summed, judged."""
