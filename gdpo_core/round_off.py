# shim: the lead removes it
from gdpo_core._statistics import GRAIN, adds_exactly  # noqa: F401
