"""The whole run under another setting, which the browser computes: the controls of a report's file."""

import anywidget
import marimo as mo
import traitlets

from gdpo_audit import report
from gdpo_audit.report.audit_report import AuditReport
from views.html import Html, element
from views.run.words import on_page

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


def controls(audit: AuditReport) -> Html:
    """Return the controls of a report; empty where there is nothing to ask."""
    asks = report.asking(audit, on_page)
    return element(mo.ui.anywidget(Ask(html=f"{report.STYLE}{asks}"))) if asks else asks
