"""Content of the chapter Your run: where a log comes from, its report, files to download, and links to what explains a
finding.
"""

from collections.abc import Iterable, Mapping

import marimo as mo

from gdpo_audit import report
from gdpo_audit.findings.finding import Finding
from gdpo_audit.findings.findings import KINDS
from gdpo_audit.report.audit_report import AuditReport
from gdpo_core.shared.errors import InputError
from views.chapters.run.ask import setting_controls
from views.chapters.run.choose import HOW, TEXT_CONTROLS
from views.chapters.run.downloads import downloads
from views.chapters.run.log import Log
from views.chapters.run.run_words import on_page
from views.widgets import glossary
from views.widgets.address import CHAPTERS
from views.widgets.html import Html, div, prose, reason_shown, show, tag
from views.widgets.onward import onward

LARGE = 2 * 10**6  # bytes of files, above which a reader is told to wait
_AT = {title: key for key, title in CHAPTERS.items()}


def progress_note(doing: str, files: Iterable[bytes]) -> None:
    """Show a line such as "Reading your files …" as the output of the cell until the cell ends; do nothing for small
    files.

    doing: the first word of the line.
    files: the contents of the files.
    """
    if sum(map(len, files)) > LARGE:
        mo.output.replace(show(tag("p", f"{doing} your files …", kind="whose", role="status")))


def source_note(log: Log) -> mo.Html:
    """Return the line on where a sample comes from. The line is empty for the reader's own files, because the control
    for files names them.
    """
    return show(tag("p", prose(log.sample.source_note), kind="whose")) if log.sample else show()


def refusal_box(error: InputError, corrected: Mapping[str, str | None]) -> mo.Html:
    """Return a box with the message of an error, which names controls of the page in place of command-line options.
    nav.js opens the fold of the field that mends the error, and moves the focus there.

    corrected: the values of the controls of `choose.corrections`, by name.
    """
    says = on_page(reason_shown(error))
    field = mends(says, corrected)
    told = {"data_mends": TEXT_CONTROLS[field][0]} if field else {}
    return show(div("unread", mo.callout(says, kind="danger"), **told))


def mends(says: str, corrected: Mapping[str, str | None]) -> str | None:
    """Return the key in TEXT_CONTROLS of the field that mends an error; None if no field is known to do so.

    It is the field that the message names first. If it names none, it is a field with a text that the message quotes.

    says: the message of the error, in the words of the page.
    corrected: the texts in the fields, by key.

    >>> mends("log.csv: give the responses per prompt, in “Responses per prompt”, or the column, in “Group column”", {})
    'group_size'
    >>> mends("log.csv: expected a column 'acc', got a, b", {"rewards": "a, acc"})
    'rewards'
    >>> mends("log.csv: expected a log, got an empty file", {})
    """
    named = {key: says.find(f"“{label}”") for key, (label, _) in TEXT_CONTROLS.items()}
    if places := {key: place for key, place in named.items() if place >= 0}:
        return min(places, key=lambda key: places[key])
    for key, (label, _) in TEXT_CONTROLS.items():
        words = [word.strip() for word in (corrected.get(key) or "").split(",")]
        quoted = any(f"'{word}'" in says or f"groups of {word} " in says for word in words if word)
        if says.startswith((f"{key}:", f"{label.lower()}:")) or quoted:
            return key
    return None


def report_front(audit: AuditReport) -> mo.Html:
    """Return the front of a report: the verdict, what ran and a picture of it, the plan, the rewards, the controls for
    another setting, and the findings. Each finding is folded.
    """
    drawn = report.front(audit, guide, setting_controls(audit), on_page)
    return show(report.REPORT_STYLE, tag("h2", "The report", kind="unseen"), drawn)  # its own headings begin with h3


def folds(audit: AuditReport) -> mo.Html:
    """Return the rest of the report in folds, each of which is drawn once it is opened."""
    # What is drawn late stands in a shadow root, where marimo removes links to data; the page's style alone reaches it.
    behind = report.details(audit, on_page).items()
    return mo.accordion(
        {title: lambda draw=draw: show(report.REPORT_STYLE, draw()) for title, draw in behind}, True, True
    )


def downloads_line(log: Log, audit: AuditReport) -> mo.Html:
    """Return the line of files to download, and a link to the next chapter."""
    files = [mo.download(content, name, label=label) for label, name, content in downloads(log, audit)]
    then = tag("a", "the lines for your trainer, and whether you should use GDPO at all", href="?at=use")
    return show(div("taken", *files), tag("p", "Next: ", then, kind="next"))


def guide(finding: Finding) -> Html:
    """Return links for a finding: to the chapter, or the part of a chapter, that explains it, and to the terms of the
    glossary that it needs.
    """
    place = KINDS[finding.id]
    kind, _, name = place.place.partition(", ")
    if kind == "page":
        way = onward(_AT[name.removeprefix("chapter ")], finding.title, place.scenario)
    elif name == "Limits":
        way = tag("a", "Use it: limits", href="?at=use")
    else:
        way = tag("a", HOW, href="?at=run#run-files")
    says = Html(", ").join(map(glossary.term, place.terms))
    return Html(" · ").join([way, *([says] if says else [])])
