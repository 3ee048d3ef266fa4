# shim: the lead removes it
from gdpo_core._inputs import numbers, width  # noqa: F401
