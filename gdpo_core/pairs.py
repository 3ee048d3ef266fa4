# shim: the lead removes it
from gdpo_core._pairs import blocks, inversions, ordered, told_apart  # noqa: F401
