"""The controls with which a reader tries another setting on the whole run; the browser computes what follows."""

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
    """The controls of a setting and the figures under it, as in a report's HTML file.

    `html` holds both, and the data from which the browser computes the figures.
    """

    _esm = report.SCRIPT + _RENDER
    html = traitlets.Unicode().tag(sync=True)


def controls(audit: AuditReport) -> Html:
    """Return the controls with which another setting is tried on a report's run; empty for a report without its log.

    Where no other setting can be computed, a sentence that says why stands in their place.
    """
    asks = report.asking(audit, on_page)
    return element(mo.ui.anywidget(Ask(html=f"{report.STYLE}{asks}"))) if asks else asks
