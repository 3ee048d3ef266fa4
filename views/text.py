"""The methods as the page names them, and what it says of all of them at once."""

from collections.abc import Callable

from gdpo_core._words import listing
from gdpo_core.advantages import METHODS
from gdpo_core.conventions import NAMES as ALL_NAMES

NAMES = {method: ALL_NAMES[method] for method in METHODS}

BAND = (0.05, 0.95)  # quantiles over seeds between which a band is drawn


def each_method(tell: Callable[[str], str]) -> str:
    """A value per method; said once if it is the same for all.

    >>> each_method(lambda method: "3")
    '3 under every method'
    """
    by_method = {m: tell(m) for m in NAMES}
    if len(set(by_method.values())) == 1:
        return f"{by_method['gdpo']} under every method"
    return listing([f"{text} under {NAMES[m]}" for m, text in by_method.items()])
