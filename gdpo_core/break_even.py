# shim: the lead removes it
from gdpo_core.collapse import most_needed  # noqa: F401
