"""Reports as HTML: a fragment for any page, or one file that needs nothing else, neither script nor network."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from gdpo_core import _theme
from gdpo_core._errors import expect
from gdpo_core._html import Html, fold, join, notebook_html, style, tag, text
from gdpo_core._words import count
from gdpo_core.report.changes import Changes, changes_figures, figure_name, figures_table, headline, settings_table
from gdpo_core.report.figures import Frame, drawable, figures, frame_figure, picture, table
from gdpo_core.report.groups import MEANING, group_tables
from gdpo_core.report.summary import (
    by_table,
    comparable,
    comparison,
    effect,
    formulas_used,
    label,
    limits,
    methods_table,
    not_comparable,
    rewards_table,
    run_facts,
    severities,
    severity_counts,
    shares_table,
    source_facts,
    ties,
    to_do,
    value,
    what_if_table,
)
from gdpo_core.runs.audit_report import AuditReport
from gdpo_core.runs.facts import Finding
from gdpo_core.runs.what_if import WhatIf

CSS = _theme.css(".audit") + (Path(__file__).parent / "report.css").read_text(encoding="utf-8")
STYLE = style(CSS)
_PAGE = _theme.css(":root") + (Path(__file__).parent / "document.css").read_text(encoding="utf-8")
_SHAPES = {  # drawn, so that they look the same everywhere; 12 × 12
    "error": tag("path", d="M3.5,0H8.5L12,3.5V8.5L8.5,12H3.5L0,8.5V3.5Z"),
    "warning": tag("path", d="M6,.5L12,11.5H0Z"),
    "info": tag("circle", cx=6, cy=6, r=5, fill="none", stroke="currentcolor", stroke_width=2),
}


Guide = Callable[[Finding], Html]


def _place(finding: Finding) -> Html:
    """The chapter of the page or the section of docs/audit.md, which have no address that a file could know."""
    return text(finding.read_more)


@notebook_html.register
def _(report: AuditReport | WhatIf) -> str:
    return f"{STYLE}{body(report) if isinstance(report, AuditReport) else what_if(report)}"


def body(report: AuditReport) -> Html:
    """The report as an HTML fragment, all of it inside `<div class="audit">`, styled by `CSS`."""
    charts = join(tag("h3", "Charts"), _charts(report, frame_figure)) if drawable(report) else Html()
    alternative = _what_if(report.alternative) if report.alternative else Html()
    parts = [
        _verdict(report),
        _findings(report),
        alternative,
        _run_section(report),
        charts,
        _tables(report),
        _method_notes(report),
    ]
    return tag("div", *parts, kind="audit")


def front(report: AuditReport, frame: Frame = frame_figure, guide: Guide = _place) -> Html:
    """What a reader sees first: what to do, what ran, the findings, the first of them open, and its figure.

    frame: how a figure stands on the page; guide: the way to what the page itself says about a finding.
    """
    large = frame(picture(report))
    cards = [_fold_of_finding(report, finding, n == 0, guide) for n, finding in enumerate(report.findings)]
    heading = tag("h2", f"Findings: {severity_counts(report)}")
    left = tag("div", _verdict(report), heading, _severities(report), *cards)
    return tag("div", left, large, kind="audit front")


def details(report: AuditReport, frame: Frame = frame_figure) -> dict[str, Callable[[], Html]]:
    """What stands behind the first screen, whose chart is not repeated, by title; each is built when asked for."""
    parts: dict[str, Callable[[AuditReport], Html]] = {
        "What the run did": _facts,
        **({"More charts": partial(_charts, frame=frame, but=picture(report).title)} if drawable(report) else {}),
        "Tables": _tables,
        "How it was computed, and what this cannot tell": _method_notes,
    }
    return {title: partial(_part, draw, report) for title, draw in parts.items()}


def _part(draw: Callable[[AuditReport], Html], report: AuditReport) -> Html:
    return tag("div", draw(report), kind="audit")


def _verdict(report: AuditReport) -> Html:
    """What to do, and below it what ran."""
    return join(tag("p", to_do(report), kind="verdict-line"), tag("p", report.what_ran, kind="what-ran"))


def _charts(report: AuditReport, frame: Frame, but: str = "") -> Html:
    return tag("div", *(frame(figure) for figure in figures(report) if figure.title != but), kind="figures-grid")


def _fold_of_finding(report: AuditReport, finding: Finding, first: bool, guide: Guide) -> Html:
    """A finding in one line, which opens to all of it; the figure of the first one stands beside it."""
    shape = tag("svg", _SHAPES[finding.severity], viewBox="0 0 12 12", role="img", aria_label=f"{finding.severity}:")
    title = join(shape, tag("b", finding.title), " ", tag("code", finding.id))
    fix = copy_box(finding.fix, finding.title) if finding.fix else Html()
    parts = _finding_parts(report, finding, fix, guide)
    return fold(title, *parts, kind=f"card {finding.severity}", opened=first)


def _finding_parts(report: AuditReport, finding: Finding, fix: Html, guide: Guide) -> list[Html]:
    """What it is, what to do about it, and where to read more."""
    does = effect(report, finding)
    tried = tag("p", does, kind="tried") if does else Html()
    return [tag("p", finding.message), fix, tried, _read_more(report, finding, guide), _evidence(finding)]


def _read_more(report: AuditReport, finding: Finding, guide: Guide) -> Html:
    """Where to read more: what we say about it, the paper, and the documentation of the framework."""
    pages = [tag("a", link.title, href=link.url, target="_blank", rel="noreferrer") for link in report.links(finding)]
    ways = [way for way in (guide(finding), *pages) if way]
    return tag("p", "Read more: ", Html(" · ").join(ways), kind="more") if ways else Html()


def copy_box(lines: str, purpose: str) -> Html:
    """Lines of configuration with a button that copies them, where the page listens to `data-copy`."""
    button = tag("button", "Copy", type="button", data_copy=lines, aria_label=f"Copy: {purpose}")
    return tag("div", tag("pre", tag("code", lines), tabindex=0), button, kind="copied")


def _findings(report: AuditReport) -> Html:
    cards = [_card(report, finding) for finding in report.findings]
    return join(tag("h3", f"Findings: {severity_counts(report)}"), _severities(report), *cards)


def _severities(report: AuditReport) -> Html:
    return tag("p", severities(report), kind="severities") if report.findings else Html()


def _card(report: AuditReport, finding: Finding) -> Html:
    shape = tag("svg", _SHAPES[finding.severity], viewBox="0 0 12 12", aria_hidden="true")
    fix = tag("pre", tag("code", finding.fix), tabindex=0) if finding.fix else Html()
    title = tag("h4", shape, finding.title, " ", tag("code", f"{finding.severity} · {finding.id}"))
    inside = [*_finding_parts(report, finding, fix, _place), _groups(report, finding)]
    return tag("section", title, *inside, kind=f"card {finding.severity}")


def _groups(report: AuditReport, finding: Finding) -> Html:
    """The groups that show a finding best, behind a fold."""
    tables = group_tables(report, finding, clipped=300)
    parts = [
        join(tag("h5", t.title), tag("p", t.meaning) if t.meaning else Html(), table(t.head, t.rows)) for t in tables
    ]
    title = f"The {count(len(parts), 'group')} that show it best" if len(parts) > 1 else "The group that shows it best"
    return fold(title, *parts, tag("p", MEANING), label=f"{title}: {finding.title}") if parts else Html()


def _evidence(finding: Finding) -> Html:
    rows = [[label(key), value(x)] for key, x in finding.evidence.items()]
    return fold("Evidence", table(["evidence", "value"], rows), label=f"Evidence: {finding.title}")


def what_if(w: WhatIf) -> Html:
    """A run as it was and under another setting, as an HTML fragment styled by `CSS`."""
    return tag("div", _what_if(w), kind="audit")


def _what_if(w: WhatIf) -> Html:
    drawn = what_if_table(w)
    lines = tag("pre", tag("code", w.fix), tabindex=0) if w.fix else Html()
    return join(tag("h3", drawn.title), table(drawn.head, drawn.rows), lines, tag("p", drawn.meaning))


def _run_section(report: AuditReport) -> Html:
    return join(tag("h3", "What the run did"), _facts(report))


def _facts(report: AuditReport) -> Html:
    rows = {**source_facts(report), **run_facts(report)}
    return tag("dl", *(tag("div", tag("dt", name), tag("dd", text)) for name, text in rows.items()))


def _tables(report: AuditReport) -> Html:
    rewards = rewards_table(report)
    heading = tag("h3", rewards.title)
    by = by_table(report)
    of_values = join(tag("h3", by.title), table(by.head, by.rows), tag("p", by.meaning)) if by else Html()
    if not report.methods or not comparable(report):
        return join(heading, table(rewards.head, rewards.rows, "rewards"), tag("p", not_comparable(report)), of_values)
    shares, methods = shares_table(report), methods_table(report)
    _, weight, *names = shares.head
    head = [*rewards.head, weight, *(f"update, {name}" for name in names)]
    rows = [[*row, *cells] for row, (_, *cells) in zip(rewards.rows, shares.rows, strict=True)]
    by_method = join(tag("h3", methods.title), tag("p", ties(report)), table(methods.head, methods.rows))
    return join(heading, table(head, rows, "rewards"), by_method, of_values)


def _method_notes(report: AuditReport) -> Html:
    meaning = methods_table(report).meaning if comparable(report) else not_comparable(report)
    return join(
        tag("h3", "How it was computed"),
        tag("p", _source_note(report)),
        tag("ul", *(tag("li", line) for line in formulas_used(report)), kind="formulas"),
        tag("p", f"{meaning} The threshold of each finding stands in its evidence."),
        tag("h3", "What this cannot tell"),
        tag("ul", *(tag("li", line) for line in limits(report))),
    )


def _source_note(report: AuditReport) -> str:
    run = report.run
    if run["method"] and run["convention"]:
        return "The run’s advantages, as its framework computes them:"
    return "The log does not show which formulas the run used. For GDPO they are:"


def document(reports: AuditReport | Sequence[AuditReport], note: str = "") -> str:
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
    return _whole(title, parts)


def comparison_document(c: Changes) -> str:
    """A complete HTML document of what changed between runs."""
    return _whole(f"From {c.a} to {c.b}", [tag("h1", "What changed between runs"), comparison_body(c)])


def comparison_body(c: Changes) -> Html:
    """What changed between runs, to stand on a page that has `STYLE`."""
    settings, did = settings_table(c), figures_table(c)
    _, _, *head = did.head
    rows = [[figure_name(x), *cells] for x, (_, _, *cells) in zip(c.figures, did.rows, strict=True)]
    runs = tag("dl", *(tag("div", tag("dt", name), tag("dd", path)) for name, path in (("A", c.a), ("B", c.b))))
    parts = [tag("p", headline(c), kind="verdict-line"), runs]
    if settings:
        parts += [tag("h3", settings.title), table(settings.head, settings.rows, "runs", most=2)]
    parts += [tag("h3", did.title), *map(frame_figure, changes_figures(c)), table(["figure", *head], rows, "rewards")]
    return tag("div", *parts, tag("p", did.meaning), kind="audit")


def _whole(title: str, parts: Sequence[Html]) -> str:
    """A complete HTML document."""
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
    rows = [[name, *cells] for name, cells in comparison(reports).items()]
    side_by_side = table(["run", *(f"{i}. {name}" for i, (name, _) in numbered)], rows, "runs", most=2)
    parts = [tag("nav", tag("ol", *links), aria_label="Runs"), tag("div", side_by_side, kind="audit")]
    for i, (name, report) in numbered:
        parts += [tag("h2", f"{i}. {name}", id=f"run-{i}"), body(report)]
    return parts
