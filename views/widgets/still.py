"""The picture that stands in place of Train's curves until they are drawn: the first set-up, from data/gallery.json.

It needs neither Altair nor a training, so that it is there at once.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TypedDict

from gdpo_core.shared.json_files import read_json
from gdpo_core.shared.markup import Html, tag

EVERY, _BOTTOM = 5, 0.4  # the epochs between two points of a curve; the probability at which the upright axis begins


class Still(TypedDict):
    """The part of data/gallery.json that is drawn.

    still: by method, for each coin, its median probability at every EVERY-th epoch.
    """

    still: dict[str, list[list[float]]]


def curves(data: Path, known: bool) -> Html:
    """Return the picture; without curves where another set-up is about to be shown, so that only its room is kept.

    data: the folder of gallery.json.
    known: whether the set-up is the first one, unchanged.
    """
    by_method = read_json(data / "gallery.json", Still)["still"]
    coins = range(len(by_method["grpo"]))
    panels = (
        tag("div", _panel({m: of_method[k] for m, of_method in by_method.items()} if known else {})) for k in coins
    )
    return tag("div", *panels, kind="still", aria_hidden="true")


def _panel(by_method: dict[str, Sequence[float]]) -> Html:
    """Return the curves of one coin, on an upright axis from 0.4 to 1 as `charts.learning` has it for this set-up."""
    lines = []
    for method, curve in by_method.items():
        points = (f"{100 * i / (len(curve) - 1):.1f} {100 * (1 - p) / (1 - _BOTTOM):.1f}" for i, p in enumerate(curve))
        lines.append(tag("path", kind=method, d="M" + "L".join(points)))
    return tag("svg", *lines, viewBox="0 0 100 100", preserveAspectRatio="none")
