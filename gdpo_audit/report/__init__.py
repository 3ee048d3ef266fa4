"""The report of an audit: its members, its words and tables, and how HTML and a terminal show it."""

from gdpo_audit.report.html import (  # noqa: F401
    CSS,
    SCRIPT,
    STYLE,
    asking,
    body,
    comparison_document,
    copy_box,
    details,
    document,
    front,
    what_if,
)
