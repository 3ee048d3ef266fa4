"""The whole run under another setting, which the browser computes: the controls of a report's file."""

import anywidget
import marimo as mo
import traitlets

from gdpo_audit import report
from gdpo_audit.report.audit_report import AuditReport
from views.html import Html, show

_RENDER = """
function render({ model, el }) {
  el.innerHTML = model.get("html");
  gdpoReport.all(el, false);
}
export default { render };
"""


class Ask(anywidget.AnyWidget):
    """The controls for another setting and what follows from them; `html` holds the data of the run."""

    _esm = report.SCRIPT + _RENDER
    html = traitlets.Unicode().tag(sync=True)

    def __init__(self, html: Html) -> None:
        super().__init__(html=f"{report.STYLE}{html}")


def controls(audit: AuditReport | None) -> mo.ui.anywidget | mo.Html:
    """The controls of a report; nothing where there is none, or nothing to ask."""
    asks = report.asking(audit) if audit else None
    return mo.ui.anywidget(Ask(asks)) if asks else show()
