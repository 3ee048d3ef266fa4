"""An audit as annotations of GitHub Actions, one line per finding."""

from collections.abc import Sequence

from gdpo_core._words import printable
from gdpo_core.report.summary import effect
from gdpo_core.runs.audit_report import AuditReport

_COMMANDS = {"error": "error", "warning": "warning", "info": "notice"}


def annotations(reports: Sequence[AuditReport]) -> str:
    """Workflow commands for the findings of each report, its verdict first as a notice.

    Source: GitHub's "Workflow commands for GitHub Actions"; escapes as in its toolkit, packages/core/src/command.ts.
    """
    lines = []
    for report in reports:
        path = report.source["path"]
        lines.append(_command("notice", f"gdpo audit {path}", report.verdict))
        for finding in report.findings:
            text = "\n".join(part for part in (finding.message, finding.fix, effect(report, finding)) if part)
            lines.append(_command(_COMMANDS[finding.severity], f"{finding.title} ({finding.id} in {path})", text))
    return "".join(f"{line}\n" for line in lines)


def _command(command: str, title: str, text: str) -> str:
    """One workflow command; a log can end neither its line nor its title.

    >>> _command("error", "conflict: a,b", "95 %\\nof all")
    '::error title=conflict%3A a%2Cb::95 %25%0Aof all'
    """
    return f"::{command} title={_escape(title).replace(':', '%3A').replace(',', '%2C')}::{_escape(text)}"


def _escape(text: str) -> str:
    # GitHub escapes \r too, which `printable` has spelled out.
    return printable(text).replace("%", "%25").replace("\n", "%0A")
