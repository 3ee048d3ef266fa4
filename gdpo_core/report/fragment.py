"""A report as a piece of HTML: verdict, findings, what the run did, figures, tables, how it was computed."""

from pathlib import Path

from gdpo_core import _theme
from gdpo_core._html import Html, fold, join, style, tag
from gdpo_core.audit import AuditReport, Finding
from gdpo_core.report.figures import figures, table
from gdpo_core.report.words import (
    METHODS,
    NAMES,
    computed,
    counted,
    did,
    label,
    limits,
    number,
    percent,
    source,
    value,
    weight_shares,
)

CSS = _theme.css(".audit") + (Path(__file__).parent / "report.css").read_text(encoding="utf-8")
STYLE = style(CSS)
SHAPES = {  # drawn, so that they look the same everywhere; 12 × 12
    "error": tag("path", d="M3.5,0H8.5L12,3.5V8.5L8.5,12H3.5L0,8.5V3.5Z"),
    "warning": tag("path", d="M6,.5L12,11.5H0Z"),
    "info": tag("circle", cx=6, cy=6, r=5, fill="none", stroke="currentcolor", stroke_width=2),
}


def body(report: AuditReport) -> Html:
    """The report as an HTML fragment, all of it inside `<div class="audit">`, styled by `CSS`."""
    verdict = tag("p", report.verdict, kind="verdict-line")
    parts = [verdict, _findings(report), _did(report), tag("h3", "Charts"), figures(report)]
    return tag("div", *parts, _tables(report), _computed(report), kind="audit")


def _findings(report: AuditReport) -> Html:
    cards = list(map(_card, report.findings)) or [tag("p", "Nothing to report.")]
    return join(tag("h3", f"Findings: {counted(report)}"), *cards)


def _card(finding: Finding) -> Html:
    shape = tag("svg", SHAPES[finding.severity], viewBox="0 0 12 12", aria_hidden="true")
    fix = tag("pre", tag("code", finding.fix), tabindex=0) if finding.fix else ""
    evidence = table(["evidence", "value"], [[label(key), value(x)] for key, x in finding.evidence.items()])
    return tag(
        "section",
        tag("h4", shape, finding.severity, " ", tag("code", finding.id)),
        tag("p", finding.message),
        fix,
        fold("Evidence", evidence),
        kind=f"card {finding.severity}",
    )


def _did(report: AuditReport) -> Html:
    rows = {**source(report), **did(report)}
    pairs = (tag("div", tag("dt", name), tag("dd", said)) for name, said in rows.items())
    return join(tag("h3", "What the run did"), tag("dl", *pairs))


def _tables(report: AuditReport) -> Html:
    asked, methods = weight_shares(report), list(report.methods)
    rewards = table(
        ["reward", "mean", "std", "missing", "constant in groups", "weight", *(f"update, {NAMES[m]}" for m in methods)],
        [
            [
                r["name"],
                number(r["mean"]),
                number(r["std"]),
                number(r["missing"]),
                percent(r["dead_groups"]),
                percent(asked[r["name"]]),
                *(percent(r["update_share"].get(m)) for m in methods),
            ]
            for r in report.rewards
        ],
        "rewards",
    )
    columns = {"groups_with_ties": percent, "tied_pairs": percent, "levels": number, "silent_groups": percent}
    columns["inversions"] = percent
    heads = ["groups with ties", "tied pairs", "levels", "silent groups", "inversions"]
    by_method = table(
        ["method", *heads],
        [[NAMES[m], *(say(found.get(key)) for key, say in columns.items())] for m, found in report.methods.items()],
    )
    return join(tag("h3", "Rewards"), rewards, tag("h3", "Methods on the rewards of this run"), by_method)


def _computed(report: AuditReport) -> Html:
    return join(
        tag("h3", "How it was computed"),
        tag("p", _whose(report)),
        tag("ul", *(tag("li", line) for line in computed(report)), kind="formulas"),
        tag("p", f"{METHODS} The threshold of each finding stands in its evidence."),
        tag("h3", "What this cannot tell"),
        tag("ul", *(tag("li", line) for line in limits(report))),
    )


def _whose(report: AuditReport) -> str:
    run = report.run
    if run["method"] and run["convention"]:
        return "The run’s advantages, as its framework computes them:"
    return "The log does not show which formulas the run used. For GDPO they are:"
