"""Groups of a log as examples of what the audit found; the reader opens one of them on a board."""

import marimo as mo

import gdpo_core as gc
from gdpo_audit.findings.examples import ExampleGroup
from gdpo_audit.report.audit_report import AuditReport
from gdpo_audit.report.groups import title
from gdpo_core import _html
from gdpo_core._words import count
from gdpo_core.board import Board
from gdpo_core.frameworks import ALL_CONVENTIONS
from views.html import div, element, show, tag


def choice(audit: AuditReport | None) -> mo.ui.dropdown:
    """Return the dropdown of the groups that show the findings of a report best, in the order of the findings.

    A group comes last if the report does not list its finding. At first the first group is chosen. The dropdown is
    empty without a report, or if no group shows a finding.
    """
    ids = [finding.id for finding in audit.findings] if audit else []
    groups = sorted(audit.groups if audit else (), key=lambda g: ids.index(g.finding) if g.finding in ids else 99)
    options = {title(audit, group): group for group in groups}
    return mo.ui.dropdown(options, next(iter(options), None), label="Choose a group")


def board(group: ExampleGroup, audit: AuditReport) -> Board:
    """Return the board of a group's answers, with its logged advantages if it has any.

    The board follows the convention of the group, or the paper's formulas if boards lack that convention. Raises
    InputError if no board can show the group.
    """
    return Board(
        group.tensor,
        answers=group.completions and [text or f"answer {i + 1}" for i, text in enumerate(group.completions)],
        names=group.names,
        weights=group.weights,
        convention=group.convention if group.convention in gc.CONVENTIONS else gc.PAPER,
        primary=audit.run["primary"],
        lengths=group.lengths and [max(1, round(n)) for n in group.lengths],
        logged=group.logged,
    )


def group_view(audit: AuditReport | None, choice: mo.ui.dropdown, drawn: mo.ui.anywidget | mo.Html | None) -> mo.Html:
    """Return a fold with the dropdown of the groups, and the prompt and the board of the chosen group; empty if none is
    chosen.

    choice: the dropdown of the groups, whose value is the chosen group.
    drawn: the board, or a sentence on why there is none.
    """
    group = choice.value
    if audit is None or group is None:
        return show()
    prompt = tag("blockquote", group.prompt) if group.prompt is not None else None
    about = "The log holds neither prompts nor answers." if prompt is None and group.completions is None else ""
    if group.convention not in gc.CONVENTIONS:
        about += " The bars on this board follow the paper's formulas, though the run followed those of "
        about += f"{ALL_CONVENTIONS[group.convention].name}."
    answers = count(len(group.rewards), "answer")
    about += f" On this board the group is a batch by itself: GDPO's batch step runs over its {answers} alone."
    about += " What if one more answer had passed?"
    title = "Groups that show the findings"
    asked = [tag("h2", title, kind="section"), div("asking", choice), *([prompt] if prompt else [])]
    inside = [*asked, tag("p", about.strip(), kind="note"), element(drawn)]
    return show(_html.fold(title, *inside, kind="waits"))
