# shim: the lead removes it
from gdpo_core._pairs import blocks, inversions  # noqa: F401
from gdpo_core._pairs import count_orders as ordered  # noqa: F401
from gdpo_core._pairs import distinguish as told_apart  # noqa: F401
