"""A report as a piece of HTML: verdict, findings, what the run did, figures, tables, how it was computed."""

from pathlib import Path

from gdpo_core.audit import AuditReport, Finding
from gdpo_core.report.figures import figures, table, typeset
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

CSS = (Path(__file__).parent / "report.css").read_text(encoding="utf-8")
SHAPES = {  # drawn, so that they look the same everywhere; 12 × 12
    "error": '<path d="M3.5,0H8.5L12,3.5V8.5L8.5,12H3.5L0,8.5V3.5Z"/>',
    "warning": '<path d="M6,.5L12,11.5H0Z"/>',
    "info": '<circle cx="6" cy="6" r="5" fill="none" stroke="currentcolor" stroke-width="2"/>',
}


def body(report: AuditReport) -> str:
    """The report as an HTML fragment, all of it inside `<div class="audit">`, styled by `CSS`."""
    parts = [_verdict(report), _findings(report), _did(report), "<h3>Charts</h3>", figures(report)]
    return f'<div class="audit">{"".join([*parts, _tables(report), _computed(report)])}</div>'


def _verdict(report: AuditReport) -> str:
    return f'<p class="verdict-line">{typeset(report.verdict)}</p>'


def _findings(report: AuditReport) -> str:
    cards = "".join(map(_card, report.findings)) or "<p>Nothing to report.</p>"
    return f"<h3>Findings: {typeset(counted(report))}</h3>{cards}"


def _card(finding: Finding) -> str:
    fix = f'<pre tabindex="0"><code>{typeset(finding.fix)}</code></pre>' if finding.fix else ""
    evidence = table(["evidence", "value"], [[label(key), value(x)] for key, x in finding.evidence.items()])
    return (
        f'<section class="card {finding.severity}"><h4><svg viewBox="0 0 12 12" aria-hidden="true">'
        f"{SHAPES[finding.severity]}</svg>{finding.severity} <code>{typeset(finding.id)}</code></h4>"
        f"<p>{typeset(finding.message)}</p>{fix}<details><summary>Evidence</summary>{evidence}</details></section>"
    )


def _did(report: AuditReport) -> str:
    rows = "".join(
        f"<div><dt>{typeset(name)}</dt><dd>{typeset(said)}</dd></div>"
        for name, said in {**source(report), **did(report)}.items()
    )
    return f"<h3>What the run did</h3><dl>{rows}</dl>"


def _tables(report: AuditReport) -> str:
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
    return f"<h3>Rewards</h3>{rewards}<h3>Methods on the rewards of this run</h3>{by_method}"


def _computed(report: AuditReport) -> str:
    steps = "".join(f"<li>{typeset(line)}</li>" for line in computed(report))
    unsaid = "".join(f"<li>{typeset(line)}</li>" for line in limits(report))
    return (
        f'<h3>How it was computed</h3><p>{_whose(report)}</p><ul class="formulas">{steps}</ul>'
        f"<p>{METHODS} The threshold of each finding stands in its evidence.</p>"
        f"<h3>What this cannot tell</h3><ul>{unsaid}</ul>"
    )


def _whose(report: AuditReport) -> str:
    run = report.run
    if run["method"] and run["convention"]:
        return "The run’s advantages, as its framework computes them:"
    return "The log does not show which formulas the run used. For GDPO they are:"
