"""An audit as HTML: a fragment for any page, or a file of its own that opens offline."""

from gdpo_core.report.document import html
from gdpo_core.report.fragment import CSS, STYLE, behind, body, copied, front

__all__ = ["CSS", "STYLE", "behind", "body", "copied", "front", "html"]
