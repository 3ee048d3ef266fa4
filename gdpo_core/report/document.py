"""Reports as one HTML file that needs nothing else: no script, no network."""

from collections.abc import Sequence
from pathlib import Path

from gdpo_core import _theme
from gdpo_core._html import Html, join, style, tag
from gdpo_core._words import count
from gdpo_core.audit import AuditReport
from gdpo_core.errors import expect
from gdpo_core.report.figures import table
from gdpo_core.report.fragment import CSS, body
from gdpo_core.report.words import compared

_PAGE = _theme.css(":root") + (Path(__file__).parent / "document.css").read_text(encoding="utf-8")


def html(reports: AuditReport | Sequence[AuditReport], note: str = "") -> str:
    """A complete HTML document of one report, or of several: then side by side first, and each below.

    note: text about the log that stands first, such as where it comes from. Raises InputError where there is none.
    """
    reports = [reports] if isinstance(reports, AuditReport) else list(reports)
    expect(len(reports) > 0, "reports", "at least one", "none")
    names = [report.source["path"] for report in reports]
    if len(reports) == 1:
        title = f"Audit of {names[0]}"
        parts = [tag("h1", "Audit of a run’s rewards"), tag("h2", names[0]), body(reports[0])]
    else:
        title = f"Audit of {count(len(reports), 'run')}"
        parts = [tag("h1", title), *_several(names, reports)]
    if note:
        parts.insert(0, tag("p", note))
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("title", title),
        style(f"\n{_PAGE}{CSS}"),
    )
    page = tag("html", head, Html("\n"), tag("body", tag("main", *parts)), lang="en")
    return str(join(Html("<!doctype html>\n"), page, Html("\n")))


def _several(names: Sequence[str], reports: Sequence[AuditReport]) -> list[Html]:
    """Runs side by side, and each below."""
    numbered = list(enumerate(zip(names, reports, strict=True), start=1))
    links = (tag("li", tag("a", name, href=f"#run-{i}")) for i, (name, _) in numbered)
    rows = [[name, *cells] for name, cells in compared(reports).items()]
    side_by_side = table(["run", *(f"{i}. {name}" for i, (name, _) in numbered)], rows, "runs")
    parts = [tag("nav", tag("ol", *links), aria_label="Runs"), tag("div", side_by_side, kind="audit")]
    for i, (name, report) in numbered:
        parts += [tag("h2", f"{i}. {name}", id=f"run-{i}"), body(report)]
    return parts
