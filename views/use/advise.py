"""Should I? The answers of gdpo_audit.advice, about the Lab's rewards or those of an audited run."""

from collections.abc import Sequence
from functools import lru_cache

import marimo as mo

from gdpo_audit.advice import EFFECTS, Answer, of_group, priority, verdict
from gdpo_audit.report.audit_report import AuditReport
from gdpo_core.bfcl import REWARDS
from gdpo_core.board.state import State
from views.html import Html, prose, show, tag
from views.onward import onward
from views.use.configure import rewards
from views.worker import elsewhere

__all__ = ["report_of", "section"]
_MARKS = {  # 14 × 14, told apart by shape
    "helps": tag("path", d="M7,1L13,12H1Z"),
    "mixed": tag("path", d="M7,0L12,6H2ZM7,14L12,8H2Z"),
    "steps": tag("path", d="M1,5H7V1L13,7L7,13V9H1Z"),
    "nothing": tag("rect", x=1, y=5, width=12, height=4),
    "hurts": tag("path", d="M7,13L13,2H1Z"),
    "unknown": tag("circle", cx=7, cy=7, r=5, fill="none", stroke="currentcolor", stroke_width=2),
}


@lru_cache(maxsize=64)  # a report has half a megabyte
def report_of(lab: State, gate: str) -> AuditReport:
    """The Lab's group behind a gate, audited as the log of a run would be, in another process."""
    return elsewhere(of_group, tuple(map(tuple, rewards(lab, gate))), REWARDS, lab.weights)


def section(advice: Sequence[Answer], report: AuditReport | None, of_run: bool) -> mo.Html:
    """The verdict, an answer a line, and what no normalisation does; report: on whose rewards, if there are any."""
    heading = tag("h2", "Should I?")
    if report is None:
        link = tag("a", "Your run", href="?at=run")
        none = tag("p", "No run is audited yet. Open ", link, " and come back.")
        return show(tag("section", heading, none, kind="should"))
    sentence = verdict(advice, report.caution if of_run else "")  # a Lab is always one group
    parts = [tag("p", prose(sentence), kind="verdict-use"), tag("ul", *map(_row, advice))]
    return show(tag("section", heading, *parts, tag("p", prose(priority(report)), kind="last"), kind="should"))


def _row(answer: Answer) -> Html:
    mark = tag("svg", _MARKS[answer.effect], viewBox="0 0 14 14", aria_hidden="true")
    return tag(
        "li",
        tag("p", tag("b", answer.title), " ", tag("span", mark, EFFECTS[answer.effect], kind="effect")),
        tag("p", prose(answer.sentence), " ", onward(answer.at, answer.title, answer.scenario)),
        kind=answer.effect,
    )
