"""Reports as one HTML file that needs nothing else: no script, no network."""

from collections.abc import Sequence
from pathlib import Path

from gdpo_core.audit import AuditReport
from gdpo_core.errors import expect
from gdpo_core.report.figures import table, typeset
from gdpo_core.report.fragment import CSS, body
from gdpo_core.report.words import compared, number

_PAGE = (Path(__file__).parent / "document.css").read_text(encoding="utf-8")


def html(reports: AuditReport | Sequence[AuditReport], note: str = "") -> str:
    """A complete HTML document of one report, or of several: then side by side first, and each below.

    note: text about the log that stands first, such as where it comes from. Raises InputError where there is none.
    """
    reports = [reports] if isinstance(reports, AuditReport) else list(reports)
    expect(len(reports) > 0, "reports", "at least one", "none")
    names = [report.source["path"] for report in reports]
    title = f"Audit of {names[0]}" if len(reports) == 1 else f"Audit of {number(len(reports))} runs"
    if len(reports) == 1:
        parts = [f"<h1>Audit of a run’s rewards</h1><h2>{typeset(names[0])}</h2>{body(reports[0])}"]
    else:
        numbered = list(enumerate(zip(names, reports, strict=True), start=1))
        links = "".join(f'<li><a href="#run-{i}">{typeset(name)}</a></li>' for i, (name, _) in numbered)
        rows = [[name, *cells] for name, cells in compared(reports).items()]
        side_by_side = table(["run", *(f"{i}. {name}" for i, (name, _) in numbered)], rows, "runs")
        parts = [f"<h1>{typeset(title)}</h1>"]
        parts.append(f'<nav aria-label="Runs"><ol>{links}</ol></nav><div class="audit">{side_by_side}</div>')
        parts += [f'<h2 id="run-{i}">{i}. {typeset(name)}</h2>{body(report)}' for i, (name, report) in numbered]
    if note:
        parts.insert(0, f"<p>{typeset(note)}</p>")
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{typeset(title)}</title><style>\n{_PAGE}{CSS}</style></head>\n<body><main>{''.join(parts)}</main></body>"
        "</html>\n"
    )
