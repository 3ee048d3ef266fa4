"""A picture whose parts can be chosen: it is made in Python, the browser reports the part that was chosen."""

from pathlib import Path
from typing import Any

import anywidget
import traitlets

from gdpo_core import _theme
from gdpo_core._html import Html

HERE = Path(__file__).parent


class Pick(anywidget.AnyWidget):
    """A picture, `html`, with parts that have a `data-id`; a click, Enter or the space bar puts a part's into `chosen`.

    Arrows move among the parts, which together have one tab stop. Vega gives its marks no focus: hence no chart.
    """

    _esm = (HERE / "pick.js").read_text(encoding="utf-8")
    _css = _theme.css(".pick") + (HERE / "pick.css").read_text(encoding="utf-8")
    html = traitlets.Unicode().tag(sync=True)
    chosen = traitlets.Unicode().tag(sync=True)

    def __init__(self, html: Html, chosen: str = "") -> None:
        super().__init__(html=str(html), chosen=chosen)

    @traitlets.validate("chosen")
    def _chosen(self, proposal: Any) -> str:
        chosen = proposal["value"]
        if chosen and self.html and f'data-id="{chosen}"' not in self.html:
            raise traitlets.TraitError(f"chosen: expected a part of the picture, got {chosen!r:.80}")
        return chosen
