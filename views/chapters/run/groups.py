"""Groups of a log as examples of what the audit found; the reader opens one of them on a board."""

from collections.abc import Sequence
from itertools import chain
from math import isnan

import marimo as mo
import numpy as np
from msgspec.structs import replace

import gdpo_core as gc
from gdpo_audit.findings.examples import ExampleGroup
from gdpo_audit.report.audit_report import AuditReport
from gdpo_audit.report.group_tables import group_title
from gdpo_audit.report.summary import wanted
from gdpo_core.board import Board
from gdpo_core.frameworks import ALL_CONVENTIONS
from gdpo_core.numerics.pairs import APART
from gdpo_core.shared import markup
from gdpo_core.shared.words import count
from views.widgets.html import div, element, show, tag

_LARGEST = 64  # answers of a group that a board shows


def group_choice(audit: AuditReport | None) -> mo.ui.dropdown:
    """Return the dropdown of the groups that show the findings of a report best, in the order of the findings.

    A group comes last if the report does not list its finding. The dropdown is empty without a report, or if no group
    shows a finding. At first the group is chosen in which the recommended setting helps most: it takes the most pairs
    of answers out of the wrong order. If it does so in none, or if nothing is recommended, the first group is chosen.
    """
    ids = [finding.id for finding in audit.findings] if audit else []
    groups = sorted(audit.groups if audit else (), key=lambda g: ids.index(g.finding) if g.finding in ids else 99)
    options = {group_title(audit, group): group for group in groups}
    most = max(options, key=lambda name: helped_pairs(options[name], audit), default=None)
    return mo.ui.dropdown(options, most, label="Choose a group")


def helped_pairs(group: ExampleGroup, audit: AuditReport | None) -> int:
    """Return in how many more pairs of a group's answers the better one gets the higher advantage under the recommended
    setting than as it ran; 0 if there are not more, if nothing is recommended, or if no board can show the group.

    The better answer is the one with more of the primary reward, or with less where the run wants less.
    """
    row = next((row for row in audit.plan if row.recommended), None) if audit else None
    if (
        audit is None
        or row is None
        or row.gate
        or not 2 <= len(group.rewards) <= _LARGEST
        or isnan(sum(chain(*group.rewards)))
    ):
        return 0
    k = group.names.index(audit.run["primary"])
    rewards = np.array([answer[k] for answer in group.rewards]) * wanted(audit)[audit.run["primary"]]
    better = rewards[:, None] > rewards

    def ordered(weights: Sequence[float], method: str) -> int:
        a = np.array(replace(group, weights=tuple(weights)).advantages_under(method))
        return int((better & (a[:, None] - a > APART * np.abs(a).max())).sum())

    new = ordered([row.weights[name] for name in group.names], row.method)
    return max(0, new - ordered(group.weights, audit.plan[0].method))


def group_board(group: ExampleGroup, audit: AuditReport) -> Board:
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
    return show(markup.fold(title, *inside, kind="waits"))
