"""The controls with which a reader tries another setting, such as another method or other weights, on the whole run.
The browser computes the figures that change.
"""

import anywidget
import marimo as mo
import traitlets

from gdpo_audit import report
from gdpo_audit.report.audit_report import AuditReport
from views.chapters.run.run_words import on_page
from views.widgets.html import Html, element

_RENDER = """
function render({ model, el }) {
  el.innerHTML = model.get("html");
  gdpoReport.all(el, false);
}
export default { render };
"""


class Ask(anywidget.AnyWidget):
    """The controls of a setting and the figures below them, as they stand in a report's HTML file.

    `html` holds the controls, the figures, and the data from which the browser computes the figures.
    """

    _esm = report.SCRIPT + _RENDER
    html = traitlets.Unicode().tag(sync=True)


def setting_controls(audit: AuditReport) -> Html:
    """Return the controls with which a reader tries another setting on the run of a report.

    If no other setting can be computed, a sentence says why in their place. The result is empty for a report without
    its log.
    """
    asks = report.asking(audit, on_page)
    return element(mo.ui.anywidget(Ask(html=f"{report.REPORT_STYLE}{asks}"))) if asks else asks
