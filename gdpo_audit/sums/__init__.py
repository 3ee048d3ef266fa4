"""The sums over a run's batches, and the figures that follow from them alone."""
