"""Moved to gdpo_core.runs."""  # shim: the lead removes it

from gdpo_core.runs.thresholds import CONFLICT as CONFLICT
from gdpo_core.runs.thresholds import DOMINATES_HELPED as DOMINATES_HELPED
