"""The section "What would GDPO change?": what `gdpo_audit.advice.advice` says by the push, for the Lab's rewards or for
the rewards of an audited run. Whether to use GDPO is not said here: the verdict of the questions says it.
"""

from collections.abc import Sequence
from functools import lru_cache

import marimo as mo

from gdpo_audit.advice.advice import advice_verdict, of_group, priority
from gdpo_audit.advice.explanations import EFFECTS, Answer
from gdpo_audit.report.audit_report import AuditReport
from gdpo_core import CONVENTIONS
from gdpo_core.board.state import State
from gdpo_core.shared.words import listing, word
from views.bfcl import REWARDS
from views.chapters.run.run_words import on_page
from views.chapters.use.configure import rewards
from views.server.worker import elsewhere
from views.widgets.glossary import term
from views.widgets.html import Html, fold, prose, show, tag
from views.widgets.onward import onward

__all__ = ["report_of_lab", "section"]
CHECKS = "Each check, with its numbers"
_MARKS = {  # 14 × 14, told apart by shape
    "helps": tag("path", d="M7,1L13,12H1Z"),
    "mixed": tag("path", d="M7,0L12,6H2ZM7,14L12,8H2Z"),
    "steps": tag("path", d="M1,5H7V1L13,7L7,13V9H1Z"),
    "nothing": tag("rect", x=1, y=5, width=12, height=4),
    "hurts": tag("path", d="M7,13L13,2H1Z"),
    "unknown": tag("circle", cx=7, cy=7, r=5, fill="none", stroke="currentcolor", stroke_width=2),
}


@lru_cache(maxsize=64)  # a report has half a megabyte
def report_of_lab(lab: State, gate: str) -> AuditReport:
    """Return the report on the Lab's answers. They are audited in another process, as if they were one group of a run's
    log. The last 64 reports are kept.

    lab: the state of the Lab's board.
    gate: a key of GATES, which says which rewards count only for right answers.
    """
    return elsewhere(of_group, tuple(map(tuple, rewards(lab, gate))), REWARDS, lab.weights)


def section(advice: Sequence[Answer], report: AuditReport | None, lab: State | None = None) -> mo.Html:
    """Return the section "What would GDPO change?".

    It has what the checks say together, and a fold with a line for each check in which GDPO changes something, and with
    all other checks. Its last line says that no normalisation puts the primary reward first.

    advice: the answers of the checks.
    report: the report on the rewards that are judged. None if no run is audited; the section then says how to get a
        report.
    lab: the state of the Lab's board if its rewards are judged, None if the rewards of a run are.
    """
    above = "on these answers; the verdict above, by training" if lab else "in this run, whose report gives the verdict"
    by = tag("small", "judged by the ", term("push"), f" {above}", kind="note")
    heading = tag("h2", "What would GDPO change? ", by)
    if report is None:
        link = tag("a", "Your run", href="?at=run")
        none = tag("p", "No run is audited yet. Open ", link, " and come back.")
        return show(tag("section", heading, none, kind="should"))
    sentence = advice_verdict(
        advice, "" if lab else on_page(report.caution + report.condition)
    )  # the caution would only say that it is one group
    told = [answer for answer in advice if answer.effect != "nothing"]
    checks = fold(CHECKS, tag("ul", *map(_row, told)), _unchanged(advice))
    content = [tag("p", prose(sentence), kind="verdict-use"), checks]
    about = [tag("p", _of_paper(lab), kind="last")] if lab and lab.convention != "paper" else []
    last = tag("p", prose(priority(report)), kind="last")
    return show(tag("section", heading, *content, *about, last, kind="should"))


def _of_paper(lab: State) -> str:
    """Return a note that the checks follow the paper's formulas, while the Lab shows the advantages of another
    convention. It is meant for a Lab whose convention is not the paper's.

    lab: names the convention.
    """
    here = CONVENTIONS[lab.convention].name
    return f"These checks follow the paper's formulas. The Lab now shows those of {here}, which may differ from them."


def _unchanged(advice: Sequence[Answer]) -> Html:
    """Return a fold with the checks in which GDPO changes nothing; its title names them. Empty where there are none.

    advice: the answers of all checks.
    """
    rows = [answer for answer in advice if answer.effect == "nothing"]
    if not rows:
        return Html()
    rest = " other" * (len(rows) < len(advice))
    checks = f"{word(len(rows))}{rest} {'check finds' if len(rows) == 1 else 'checks find'} no difference"
    names = listing(answer.title[:1].lower() + answer.title[1:] for answer in rows)
    return fold(f"{checks[:1].upper()}{checks[1:]}: {names}", tag("ul", *map(_row, rows)))


def _row(answer: Answer) -> Html:
    """Return the answer of a check as an item of a list: its title, its effect, its sentence, and a link to where it
    can be seen.
    """
    mark = tag("svg", _MARKS[answer.effect], viewBox="0 0 14 14", aria_hidden="true")
    return tag(
        "li",
        tag("p", tag("b", answer.title), " ", tag("span", mark, EFFECTS[answer.effect], kind="effect")),
        tag("p", prose(answer.sentence), " ", onward(answer.at, answer.title, answer.scenario)),
        kind=answer.effect,
    )
