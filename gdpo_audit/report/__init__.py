"""An audit in words, as HTML and in a terminal."""

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
