"""The theme of theme.css: as CSS for reports and widgets, and as values for charts."""

import re
from dataclasses import dataclass
from pathlib import Path

_FILE = (Path(__file__).parent.parent / "theme.css").read_text(encoding="utf-8")
THEME_VALUES: dict[str, str] = {name: value.strip('"') for name, value in re.findall(r"--([\w-]+): ([^;]+);", _FILE)}


def css(selector: str) -> str:
    """Return a rule of CSS that defines the theme's custom properties for this selector.

    >>> css(".board").count(".board {"), "--gdpo: " in css(".board")
    (1, True)
    """
    return _FILE.replace(":root", selector)


@dataclass(frozen=True)
class Look:
    """The look of a line in a chart and in its legend: its colour, its dash and its marker."""

    colour: str
    dash: tuple[int, ...]  # lengths in pixels, drawn and left out in turn
    shape: str = ""  # the marker, as an SVG path of size 2

    @property
    def dashes(self) -> str:
        """The dash in the form that SVG's attribute `stroke-dasharray` takes."""
        return " ".join(map(str, self.dash))


def _dash(name: str) -> tuple[int, ...]:
    """Return the dash that the theme has under this name: lengths in pixels, drawn and left out in turn."""
    return tuple(map(int, THEME_VALUES[f"{name}-dash"].split()))


LOOKS = {
    name.replace("-", "_"): Look(THEME_VALUES[name], _dash(name), THEME_VALUES[f"{name}-shape"])
    for name in ("grpo", "grpo-no-std", "gdpo")
}
LIMIT = Look("currentcolor", _dash("limit"))  # the infinite-group limit, thin
