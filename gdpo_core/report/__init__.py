"""An audit in words, as HTML and in a terminal."""

from gdpo_core.report.html import CSS, STYLE, behind, body, compared, copied, document, front, what_if

__all__ = ["CSS", "STYLE", "behind", "body", "compared", "copied", "document", "front", "what_if"]
