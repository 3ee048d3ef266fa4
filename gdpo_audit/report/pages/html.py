"""Reports and comparisons of runs as HTML: as a fragment for any page, or as one file that needs no network. A file
with a report has controls for other settings.
"""

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial, reduce
from pathlib import Path

from msgspec.structs import replace

import gdpo_core
from gdpo_audit.facts.claims import line_of
from gdpo_audit.findings.finding import Finding
from gdpo_audit.findings.findings_methods import round_up
from gdpo_audit.report.audit_report import AuditReport
from gdpo_audit.report.comparison import Changes, changes_headline
from gdpo_audit.report.group_tables import GROUPS_EXPLAINED, PUNISHED_TITLE, group_tables, punished_tables
from gdpo_audit.report.meanings import COMPARED_WITH, label
from gdpo_audit.report.pages.cards import cards as settings
from gdpo_audit.report.pages.courses import courses
from gdpo_audit.report.pages.opening import meanings, opening
from gdpo_audit.report.pages.sliders import NAMED, answers, depth, scrolling_table
from gdpo_audit.report.sections import (
    HOW_COMPUTED,
    READING,
    RUN,
    TABLES,
    Section,
    above_and_below,
    changes_sections,
    sections,
    what_if_section,
)
from gdpo_audit.report.summary import answered, comparable, severity_counts, value
from gdpo_audit.report.tables import TextTable
from gdpo_audit.report.verdict import POINTS
from gdpo_audit.trials.recommending import POINT, with_interval_alone
from gdpo_audit.trials.what_if import WhatIf
from gdpo_core.shared import theme
from gdpo_core.shared.errors import expect
from gdpo_core.shared.markup import Html, fold, join, notebook_html, script, style, tag, text
from gdpo_core.shared.words import count, listing

_FORMULAS = Path(gdpo_core.__file__).parent / "board" / "formulas.js"
SCRIPT = "".join(path.read_text(encoding="utf-8") for path in (_FORMULAS, Path(__file__).parent / "answers.js"))
CSS = theme.css(".audit") + (Path(__file__).parent / "report.css").read_text(encoding="utf-8")
REPORT_STYLE = style(CSS)
_PAGE = theme.css(":root") + (Path(__file__).parent / "document.css").read_text(encoding="utf-8")
_SHAPES = {  # the sign of each severity, 12 × 12 pixels; they are drawn so that they look the same everywhere
    "error": tag("path", d="M3.5,0H8.5L12,3.5V8.5L8.5,12H3.5L0,8.5V3.5Z"),
    "warning": tag("path", d="M6,.5L12,11.5H0Z"),
    "info": tag("circle", cx=6, cy=6, r=5, fill="none", stroke="currentcolor", stroke_width=2),
}

ALL_TRIED = "The plan: all settings that were tried"  # the title of its fold on the page
Guide = Callable[[Finding], Html]  # returns the way to where a finding is explained
# Rewrites a sentence of the audit for the place where it is shown: the page has controls where a terminal has options.
Say = Callable[[str], str]


def _place(finding: Finding) -> Html:
    """Return the name of the chapter of the page, or of the section of docs/audit.md, that explains a finding.

    It is no link, because a file does not know the address of the page.
    """
    return text(finding.read_more)


@notebook_html.register
def _(report: AuditReport | WhatIf) -> str:
    """Return what a notebook shows of a report, or of a run under another setting, as HTML with its styles."""
    return f"{REPORT_STYLE}{body(report) if isinstance(report, AuditReport) else what_if(report)}"


# --- parts of a report ------------------------------------------------------------------------------------------------


def body(report: AuditReport, asks: Html | str = "") -> Html:
    """Return a whole report as an HTML fragment, all of it inside `<div class="audit">`, which `CSS` styles.

    asks: what stands before its findings, such as the controls that `asking` returns.
    """
    cards = [_card(report, f, _place(f), _lines(f.fix), _groups(report, f)) for f in report.findings]
    before, below = above_and_below(report)
    punished = _opened(PUNISHED_TITLE, punished_tables(report, clipped=300), PUNISHED_TITLE)
    content = [
        _first(report),
        *(_section(section, above=meanings(report)) for section in before),
        courses(report),
        asks,
        _findings(report, cards),
        punished,
        *map(_section, below),
    ]
    return tag("div", *content, kind="audit")


def front(report: AuditReport, guide: Guide = _place, asks: Html | str = "", say: Say = str) -> Html:
    """Return the part of a report that the page shows at first, as HTML: what `body` has from its beginning to the
    findings, these included.

    Lines of configuration have a button that copies them, and a finding shows its title alone until it is opened.

    guide: returns, for a finding, a link to where the page explains it.
    asks: what stands before the findings, as `asking` returns it.
    say: rewrites a sentence of the audit for the page.
    """
    cards = []
    for finding in report.findings:
        fix = copy_box(finding.fix, finding.title) if finding.fix else Html()
        finding = replace(finding, message=say(finding.message))
        cards.append(_card(report, finding, guide(finding), fix, opened=False))
    plan, *rest = (_section(section, copy_box, above=meanings(report)) for section in above_and_below(report)[0])
    tried = fold(ALL_TRIED, plan) if report.plan else plan
    chosen = settings(report, copy_box)
    content = [_first(report, say, chosen), tried, *rest, courses(report), asks, _findings(report, cards)]
    return tag("div", *content, kind="audit front")


def details(report: AuditReport, say: Say = str) -> dict[str, Callable[[], Html]]:
    """Return the folds that the page shows below what the function `front` returns, as a dict.

    Each key is the title of a fold, and its value is a function that returns the content of the fold as HTML.

    say: rewrites a sentence of the audit for the page.
    """
    return {fold: partial(_behind, report, fold, say) for fold in (RUN, TABLES, HOW_COMPUTED)}


def _behind(report: AuditReport, fold: str, say: Say) -> Html:
    """Return the sections of a report that belong in one fold of the page, as HTML.

    fold: the title of the fold.
    say: rewrites a sentence of the audit for the page.
    """
    behind = (section for section in sections(report) if section.fold == fold)
    return tag("div", *(_section(section, say=say) for section in behind), kind="audit")


def asking(report: AuditReport, say: Say = str) -> Html:
    """Return the controls for other settings, with the data from which `SCRIPT` computes them, as HTML.

    Where nothing can be computed, a sentence that says why stands in their place. For a report without its log, the
    result is empty.

    say: rewrites a sentence of the audit for the place where it is shown.
    """
    data = report.answers if comparable(report) else None
    written = json.dumps(data, separators=(",", ":")) if isinstance(data, Mapping) else None
    drawn = answers(report, say)
    return tag("div", drawn, kind="audit asks", data_answers=written) if drawn else drawn


def what_if(w: WhatIf) -> Html:
    """Return a run as it was, beside the same run under another setting, as an HTML fragment that `CSS` styles."""
    return tag("div", _section(what_if_section(w)), kind="audit")


def _first(report: AuditReport, say: Say = str, chosen: Html | str = "") -> Html:
    """Return what comes first in a report: what to do, what ran, and the picture that `opening` draws.

    say: rewrites a sentence of the audit for the page.
    chosen: the cards of settings, which stand before the picture. They say what the settings cost, what a point is, and
        what a forecast of the log missed by, so that the verdict does not say it once more.
    """
    first = with_interval_alone(report.first_step) if chosen else report.first_step
    told = [row.cost for row in report.plan if chosen and (row.recommended or row.held_back)]
    told += [POINTS] * (text(POINT) in chosen)
    left = " ".join(reduce(lambda words, sentence: words.replace(sentence, ""), told, report.further).split())
    further = f" {say(left)}" if left else ""
    verdict = tag(
        "p",
        say(report.caution),
        tag("b", say(first)),
        further,
        kind="verdict-line",
    )
    return join(verdict, tag("p", report.what_ran, kind="what-ran"), chosen, opening(report), _reading(report, say))


def _reading(report: AuditReport, say: Say) -> Html:
    """Return how the log was read: a line for each decision, with its evidence; empty for a report without claims.

    say: rewrites a sentence of the audit for the page.
    """
    rows = [
        tag(
            "div",
            tag("dt", c.what),
            tag("dd", tag("b", c.evidence, kind=f"evidence {c.evidence}"), tag("span", say(line_of(c)))),
        )
        for c in report.reading
    ]
    return join(tag("h3", READING), tag("dl", *rows, kind="reading")) if rows else Html()


def _section(
    section: Section, box: Callable[[str, str], Html] | None = None, say: Say = str, above: Collection[str] = ()
) -> Html:
    """Return one section of a report as HTML.

    box: draws lines of configuration, given the lines and what they do; None draws them without a button.
    say: rewrites a sentence of the audit for the place where it is shown.
    above: sentences on columns that stand above the section already, so that its tables do not repeat them.
    """
    box = box or (lambda lines, _: _lines(lines))
    facts = [tag("div", tag("dt", name), tag("dd", _with_lines(say(fact)))) for name, fact in section.facts.items()]
    return join(
        tag("h3", section.title) if section.title else "",
        tag("dl", *facts) if facts else "",
        tag("ul", *(tag("li", item) for item in section.items)) if section.items else "",
        *(_table(t, above) for t in section.tables if t),
        *(fold(title, box(lines, title)) for title, lines in section.lines.items()),
    )


def _with_lines(fact: str) -> Html:
    """Return a text as HTML, in which its line breaks stay line breaks."""
    return tag("br").join(map(text, fact.split("\n")))


def _table(t: TextTable, above: Collection[str] = ()) -> Html:
    """Return a table of a report as HTML: its title, its cells, its note, and a fold that explains its columns.

    Columns of block characters, which draw courses in a terminal, are left out. A table that is `deep` is folded on a
    phone.

    above: sentences on columns that stand above the table already and are not repeated.
    """
    heading, note = tag("h3", t.title) if t.title else "", tag("p", t.note) if t.note else ""
    says = [tag("li", sentence) for sentence in t.meanings if sentence not in above]
    explained = fold("What the columns mean", tag("ul", *says)) if says else ""
    kept = [i for i, name in enumerate(t.head) if name not in t.blocks]
    head, *rows = ([row[i] for i in kept] for row in (t.head, *t.rows))
    drawn = scrolling_table(head, rows, t.prose, t.folds)
    below = drawn, note, explained
    return depth(t.title, *below) if t.deep else join(heading, *below)


def _lines(fix: str | None) -> Html:
    """Return lines of configuration as HTML, in a box that can be reached with the Tab key. A reader without a mouse
    can then scroll it. Empty for None and for "".
    """
    return tag("pre", tag("code", fix), tabindex=0) if fix else Html()


def copy_box(lines: str, purpose: str) -> Html:
    """Return lines of configuration with a button that copies them, on a page whose script handles `data-copy`.

    purpose: what the lines do, for the label of the button.
    """
    button = tag("button", "Copy", type="button", data_copy=lines, aria_label=f"Copy: {purpose}")
    return tag("div", tag("pre", tag("code", lines), tabindex=0), button, kind="copied")


# --- findings ---------------------------------------------------------------------------------------------------------


def _findings(report: AuditReport, cards: Sequence[Html]) -> Html:
    """Return the findings of a report under a heading that counts them; empty without any."""
    return join(tag("h3", f"Findings: {severity_counts(report)}"), *cards) if cards else Html()


def _name_of_figure(finding: Finding, key: str) -> str:
    """Return the name of a piece of evidence of a finding in words. The name of a threshold says what the threshold is
    compared with.
    """
    compared = COMPARED_WITH.get(finding.id) if key == "threshold" else None
    return f"threshold for {compared}" if compared else label(key)


def _figure(key: str, x: object) -> str:
    """Return the value of a piece of evidence as text.

    If its name begins with `NAMED`, the value is a weight, above which no pair is in the wrong order. It is rounded up
    then, as it is in the sentence of the finding.
    """
    return value(round_up(x) if key.startswith(NAMED) and isinstance(x, float) else x)


def _card(report: AuditReport, finding: Finding, way: Html, fix: Html, *more: Html, opened: bool = True) -> Html:
    """Return a finding as a line with its title. The line opens to the message, a remedy, where to read more, and the
    figures.

    way: a link to what the page says about the finding, or the name of that place.
    fix: the remedy, as lines of configuration.
    more: what stands below the figures, such as groups.
    opened: whether the line is open at first.
    """
    shape = tag("svg", _SHAPES[finding.severity], viewBox="0 0 12 12", role="img", aria_label=f"{finding.severity}:")
    title = join(shape, tag("b", finding.title), " ", tag("code", finding.id))
    pages = [tag("a", link.title, href=link.url, target="_blank", rel="noreferrer") for link in finding.links]
    ways = [link for link in (way, *pages) if link]
    rows = [[_name_of_figure(finding, key), _figure(key, x)] for key, x in finding.evidence.items()]
    figures = scrolling_table(["figure", "value"], rows)
    content = [
        tag("p", finding.message),
        fix,
        tag("p", answered(report, finding), kind="tried") if finding.row is not None else "",
        tag("p", "Read more: ", Html(" · ").join(ways), kind="more") if ways else "",
        fold("The numbers behind it", figures, label=f"The numbers behind it: {finding.title}"),
    ]
    return fold(title, *content, *more, kind=f"card {finding.severity}", opened=opened)


def _groups(report: AuditReport, finding: Finding) -> Html:
    """Return a fold with tables of the groups that show a finding best; empty where no group shows it."""
    tables = group_tables(report, finding, clipped=300)
    several = len(tables) > 1
    title = "The group that shows this finding best"
    title = f"The {count(len(tables), 'group')} that show this finding best" if several else title
    return _opened(title, tables, f"{title}: {finding.title}")


def _opened(title: str, tables: Sequence[TextTable], label: str) -> Html:
    """Return a fold with tables of groups, which opens on a click; empty without tables.

    label: the title of the fold for a screen reader.
    """
    groups = []
    for t in tables:
        groups += [tag("h5", t.title), tag("p", t.note) if t.note else "", scrolling_table(t.head, t.rows)]
    return fold(title, *groups, tag("p", GROUPS_EXPLAINED), label=label) if groups else Html()


# --- whole documents --------------------------------------------------------------------------------------------------


def document(reports: AuditReport | Sequence[AuditReport], note: str = "") -> str:
    """Return a complete HTML document with one report, or with several one below the other.

    note: a text about the log that stands first, such as where it comes from.

    Raises InputError where there is no report.
    """
    reports = [reports] if isinstance(reports, AuditReport) else list(reports)
    expect(len(reports) > 0, "reports", "at least one", "none")
    content = [tag("p", note)] if note else []
    content.append(
        tag("h1", "Audit of a run’s rewards" if len(reports) == 1 else f"Audit of {count(len(reports), 'run')}")
    )
    for report in reports:
        content += [tag("h2", report.source["path"]), body(report, asking(report))]
    if any(isinstance(report.answers, Mapping) for report in reports):
        content.append(script(f"{SCRIPT}gdpoReport.all(document, true);"))
    return _whole(f"Audit of {listing((report.source['path'] for report in reports), most=3)}", content)


def comparison_document(c: Changes) -> str:
    """Return a complete HTML document about what changed between runs."""
    content = [tag("p", tag("b", changes_headline(c)), kind="verdict-line"), *map(_section, changes_sections(c))]
    return _whole(f"From {c.a} to {c.b}", [tag("h1", "What changed between runs"), tag("div", *content, kind="audit")])


def _whole(title: str, content: Sequence[Html]) -> str:
    """Return a complete HTML document with a title and some content; it needs no other file."""
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("title", title),
        style(f"\n{_PAGE}{CSS}"),
    )
    page = tag("html", head, Html("\n"), tag("body", tag("main", *content)), lang="en")
    return str(join(Html("<!doctype html>\n"), page, Html("\n")))
