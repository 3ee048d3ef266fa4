"""A picture with elements that a reader can choose: Python makes it, and the browser reports the chosen element."""

from pathlib import Path
from typing import Any

import anywidget
import traitlets

from gdpo_core.shared import theme
from gdpo_core.shared.markup import Html

_HERE = Path(__file__).parent


class Pick(anywidget.AnyWidget):
    """A picture whose parts a reader can choose, one at a time: the elements of `html` that have a `data-id`.

    `chosen` is the `data-id` of the chosen element, "" for none. A click, Enter or the space bar chooses. All these
    elements share one tab stop, and the arrow keys lead from one to the next. The picture is no chart of Vega's, whose
    marks cannot be focused.
    """

    _esm = (_HERE / "pick.js").read_text(encoding="utf-8")
    _css = theme.css(".pick") + (_HERE / "pick.css").read_text(encoding="utf-8")
    html = traitlets.Unicode().tag(sync=True)
    chosen = traitlets.Unicode().tag(sync=True)

    def __init__(self, html: Html, chosen: str = "") -> None:
        super().__init__(html=str(html), chosen=chosen)

    @traitlets.validate("chosen")
    def _chosen(self, proposal: Any) -> str:
        """Return the proposed value, the `data-id` of the chosen part of the picture, or "" for no part. Raises
        TraitError if the picture is not empty and has no part with this `data-id`.
        """
        chosen = proposal["value"]
        if chosen and self.html and f'data-id="{chosen}"' not in self.html:
            raise traitlets.TraitError(f"chosen: expected a part of the picture, got {chosen!r:.80}")
        return chosen
