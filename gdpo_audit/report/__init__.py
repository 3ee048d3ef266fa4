"""The report of an audit: its members, its words and tables, and how HTML and a terminal show it."""

from gdpo_audit.report.pages.html import (  # noqa: F401
    CSS,
    REPORT_STYLE,
    SCRIPT,
    asking,
    body,
    comparison_document,
    copy_box,
    details,
    document,
    front,
    what_if,
)
