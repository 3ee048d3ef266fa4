"""The button that draws the curves once more from left to right, and the epoch at which that stands."""

from pathlib import Path

import anywidget
import traitlets

from gdpo_core import _theme

HERE = Path(__file__).parent


class Play(anywidget.AnyWidget):
    """The button that plays the curves; it plays by itself when they are first seen, and then only if it is pressed.

    The curves are whole all the time: `theme.css` hides what lies right of the epoch that plays, on a wide screen
    alone, never on paper, and not for who asked for less motion.
    """

    _esm = (HERE / "play.js").read_text(encoding="utf-8")
    _css = _theme.css(".play") + (HERE / "play.css").read_text(encoding="utf-8")
    epochs = traitlets.Int(150).tag(sync=True)
    shown = traitlets.Unicode().tag(sync=True)  # the set-up whose curves are drawn
    editing = traitlets.Bool().tag(sync=True)  # in `marimo edit` nothing plays or scrolls by itself
