"""A picture with elements that a reader can choose: Python makes it, and the browser reports the chosen element."""

from pathlib import Path
from typing import Any

import anywidget
import traitlets

from gdpo_core import _theme
from gdpo_core._html import Html

HERE = Path(__file__).parent


class Pick(anywidget.AnyWidget):
    """A picture, `html`, whose elements with a `data-id` can be chosen; `chosen` is the `data-id` of the chosen one.

    A reader chooses with a click, Enter or the space bar, and moves among these elements, which have one tab stop
    together, with the arrows. The picture is not a chart of Vega's, whose marks cannot be focused.
    """

    _esm = (HERE / "pick.js").read_text(encoding="utf-8")
    _css = _theme.css(".pick") + (HERE / "pick.css").read_text(encoding="utf-8")
    html = traitlets.Unicode().tag(sync=True)
    chosen = traitlets.Unicode().tag(sync=True)

    def __init__(self, html: Html, chosen: str = "") -> None:
        super().__init__(html=str(html), chosen=chosen)

    @traitlets.validate("chosen")
    def _chosen(self, proposal: Any) -> str:
        """Return the proposed `data-id`, "" for none. Raises TraitError where no element of the picture has it."""
        chosen = proposal["value"]
        if chosen and self.html and f'data-id="{chosen}"' not in self.html:
            raise traitlets.TraitError(f"chosen: expected a part of the picture, got {chosen!r:.80}")
        return chosen
