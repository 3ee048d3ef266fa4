"""The button that plays the curves of Train from left to right, and the counter of epochs beside it."""

from pathlib import Path

import anywidget
import traitlets

from gdpo_core.shared import theme

_HERE = Path(__file__).parent


class Play(anywidget.AnyWidget):
    """The button that plays the curves of Train, and a counter of epochs. The curves play once when they are first
    seen, and then each time the button is pressed.

    The counter shows the current epoch while the curves play, and at other times the last epoch. The whole curves are
    always drawn. Until they first play, and while they play, `theme.css` hides what lies right of the current epoch.
    Nothing plays or is hidden on a narrow screen, or for a reader who asked for reduced motion. On paper the curves are
    whole.

    A change of `epochs` or `shown` stops the curves, which are then seen whole. If `shown` changes while the lower end
    of the curves is above the screen or in its upper third, the page also scrolls up to them.

    epochs: the last epoch.
    shown: the set-up whose curves are drawn.
    editing: whether the page is open in `marimo edit`. Nothing then plays or scrolls by itself, and nothing is hidden
        before the button is pressed.
    """

    _esm = (_HERE / "play.js").read_text(encoding="utf-8")
    _css = theme.css(".play") + (_HERE / "play.css").read_text(encoding="utf-8")
    epochs = traitlets.Int(150).tag(sync=True)
    shown = traitlets.Unicode().tag(sync=True)  # the set-up whose curves are drawn
    editing = traitlets.Bool().tag(sync=True)  # in `marimo edit` nothing plays or scrolls by itself
