"""Comparisons of runs with one another, and of forecasts with what came."""
