"""Other settings, tried on the log of a run: the plan, what-if, and forecasts."""
