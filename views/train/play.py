"""The button that plays the curves of Train from left to right, and the counter of epochs beside it."""

from pathlib import Path

import anywidget
import traitlets

from gdpo_core import _theme

HERE = Path(__file__).parent


class Play(anywidget.AnyWidget):
    """The button that plays the curves of Train, and a counter of epochs. The curves play once when they are first
    seen, and then each time the button is pressed.

    The counter shows the current epoch while the curves play, and at other times the last epoch. The whole curves are
    always drawn. While they play, `theme.css` hides what lies right of the current epoch. Nothing plays on a narrow
    screen, or for a reader who asked for reduced motion. On paper the curves are whole.
    """

    _esm = (HERE / "play.js").read_text(encoding="utf-8")
    _css = _theme.css(".play") + (HERE / "play.css").read_text(encoding="utf-8")
    epochs = traitlets.Int(150).tag(sync=True)
    shown = traitlets.Unicode().tag(sync=True)  # the set-up whose curves are drawn
    editing = traitlets.Bool().tag(sync=True)  # in `marimo edit` nothing plays or scrolls by itself
