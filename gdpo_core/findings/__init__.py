"""Moved to gdpo_core.runs."""  # shim: the lead removes it

from gdpo_core.runs.facts import NAMES as NAMES
from gdpo_core.runs.facts import SEVERITIES as SEVERITIES
from gdpo_core.runs.facts import Facts as Facts
from gdpo_core.runs.facts import Finding as Finding
