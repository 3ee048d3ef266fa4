"""The controls of a report with which a reader sets weights and a method; answers.js computes what they do."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from gdpo_audit.report.audit_report import AuditReport
from gdpo_audit.report.meanings import label
from gdpo_audit.report.summary import comparable, not_comparable
from gdpo_audit.thresholds import BREAK_EVEN
from gdpo_audit.trials.what_if import FIGURES
from gdpo_core.conventions import COMPARED, NAMES
from gdpo_core.shared import markup
from gdpo_core.shared.markup import Html, fold, join, tag
from gdpo_core.shared.words import count, number, percent, signed

_COLOURS = 4  # the number of colours for rewards


def reward_look(k: int) -> str:
    """Return the CSS class that gives the reward of index k its colour; the colours repeat."""
    return f"r{k % _COLOURS}"


def scrolling_table(
    head: Sequence[object], rows: Sequence[Sequence[object]], prose: bool = False, folds: bool = True
) -> Html:
    """Return a table, whose first column names the rows, in an element that scrolls if the table is wide.

    prose: whether the cells hold words, else numbers.
    folds: whether a wide table has the cells of a row below each other on a phone.
    """
    wide = folds and len(head) > (2 if prose else 4)
    drawn = markup.table(head, rows, " ".join(["runs"] * prose + ["wide"] * wide), folds=wide)
    return tag("div", drawn, kind="scroll", tabindex=0)


def depth(title: str, *content: object) -> Html:
    """Return content that is folded behind its title on a phone, and stands open below it on a wide screen."""
    return fold(title, tag("h3", title), *content, kind="depth")


def slider_ends(report: AuditReport, weights: Sequence[float]) -> tuple[float, float]:
    """Return the lower and the upper end of the sliders of the weights.

    The range covers 0 and 1, twice each weight of the run, and about 1.2 times each other weight that the report names.
    These other weights are the weights of its plan, and the weights that a finding names as large enough for no pair to
    be in the wrong order. A weight that the finding names is left out if it is far too large to use.

    weights: the weights of the run.
    """
    named = [w for row in report.plan for w in row.weights.values()]
    for finding in report.findings:
        if finding.id == "priority-inversion":
            usable = BREAK_EVEN * max(map(abs, weights))
            weighed = (w for key, w in finding.evidence.items() if key.startswith(NAMED))
            named += [w for w in weighed if isinstance(w, float) and 0 < w <= usable]
    reached = [*(2 * w for w in weights), *(1.2 * _ROUNDED * w for w in named)]
    return min(0.0, *reached), max(1.0, *reached)


def answers(report: AuditReport, say: Callable[[str], str] = str) -> Html:
    """Return the controls for other settings, beside the figures of the run; answers.js computes what they do.

    Where nothing can be computed, a sentence that says why stands in their place. For a report without its log, the
    result is empty.

    say: rewrites a sentence of the audit for the place where it is shown: the page has controls where a terminal has
        options.
    """
    data = report.answers if comparable(report) else not_comparable(report)
    if data is None:
        return Html()
    if isinstance(data, str):
        return join(tag("h3", _ANSWERS), tag("p", say(data)))
    had, ends = data["had"], slider_ends(report, data["weights"])
    rows = [_reward_row(k, name, data["weights"][k], had, ends) for k, name in enumerate(data["names"])]
    figures = [figure for figure in FIGURES if figure != "inversions" or data["primary"] is not None]
    figure_rows = [
        [label(x), tag("span", percent(had[x], 1), kind="now", data_figure=x), percent(had[x], 1)] for x in figures
    ]
    options = [tag("option", NAMES[m], value=m, selected="" if m == data["method"] else None) for m in COMPARED]
    held_groups, all_groups = count(data["groups"], "group"), count(data["of"])
    sample = (
        f"The figures are those of a sample, {held_groups} of {all_groups}, in whole batches from all over the run; "
    )
    sample += (
        f"with the run’s weights they differ from those of the whole run by {percent(data['off'], 1)} at most."
        if data["groups"] < data["of"]
        else ""
    )
    return depth(
        _ANSWERS,
        tag("p", *[sample] * (data["groups"] < data["of"]), " ".join(data["notes"])),
        tag(
            "fieldset",
            tag("p", tag("label", "method ", tag("select", *options))),
            markup.table(_HEAD, rows, "wide", folds=True),
            scrolling_table(["", "would have", "had"], figure_rows),
            disabled="",
        ),
        tag("pre", tag("code", ""), tabindex=0),
        tag("p", "", role="status", kind="more"),
    )


def _reward_row(k: int, name: str, weight: float, had: Mapping[str, Any], ends: tuple[float, float]) -> list[object]:
    """Return the cells of one reward: its name, the slider of its weight, and each figure twice, as it would be and as
    it was.

    k: the index of the reward.
    name: the name of the reward.
    weight: the weight of the reward in the run, where the slider stands at first.
    had: the figures of the run.
    ends: the lower and the upper end of the slider.
    """
    low, high = ends
    label_of = f"weight of {name}"
    slider = tag("input", type="range", min=low, max=high, aria_label=label_of, value=weight, step="any")
    share = percent(had["update_share"][name], 1)
    of_100 = f"--had: {100 * (had['update_share'][name] or 0):.1f}"
    now = tag("span", share, kind=f"now {reward_look(k)}", data_reward=k, style=of_100)
    row: list[object] = [name, join(slider, tag("output", number(weight))), now, share]
    for figure, words in (("push", signed), ("punished", partial(percent, decimals=1))):
        shown = words(had[figure][name])
        row += [tag("span", shown, data_of=figure, data_k=k), shown]
    return row


_ROUNDED = 1.01  # the largest factor by which a weight that a sentence names is rounded up
# The start of the name, before the method, of the evidence that is a weight above which no pair is in the wrong order.
NAMED = "break_even_"
_HEAD = ("reward", "weight", "share of the update", "had", "push", "had", "punished", "had")
_ANSWERS = "What would other weights or another method have done?"
