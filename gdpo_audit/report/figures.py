"""The figures of a report, each a chart and the sentence that says the same; and the controls for another setting."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil, floor

from gdpo_audit.findings.over_time import DEAD, SHARE, Series, column, present, quarters, series_of
from gdpo_audit.findings.what_if import FIGURES
from gdpo_audit.report import svg
from gdpo_audit.report.audit_report import AuditReport
from gdpo_audit.report.summary import comparable, label, not_comparable, shown_method
from gdpo_core import _html
from gdpo_core._html import Html, join, legend, tag
from gdpo_core._words import count, number, percent
from gdpo_core.conventions import COMPARED, NAMES

_COLOURS = 4  # of rewards; they repeat, with other dashes
_FARTHEST = 2  # of a share from 0, as far as it is drawn


@dataclass(frozen=True)
class Figure:
    """A chart with what it says."""

    title: str
    caption: str
    drawn: Html


def figures(report: AuditReport) -> list[Figure]:
    """All figures that the report has numbers for: none of a single step."""
    return [*_constant(report), *_shares(report)] if len(report.steps) > 1 else []


def frame_figure(figure: Figure) -> Html:
    """A figure as HTML."""
    return tag("figure", tag("figcaption", tag("b", figure.title), " ", figure.caption), figure.drawn)


def reward_look(k: int) -> str:
    """The class of the k-th reward."""
    return f"r{k % _COLOURS}"


def table(head: Sequence[object], rows: Sequence[Sequence[object]], prose: bool = False) -> Html:
    """A table whose first column names the rows; a wide one scrolls, and folds on a phone. prose: of words."""
    wide = len(head) > (2 if prose else 4)
    drawn = _html.table(head, rows, " ".join(["runs"] * prose + ["wide"] * wide), folds=wide)
    return tag("div", drawn, kind="scroll", tabindex=0)


# --- another setting -------------------------------------------------------------------------------------------------


def answers(report: AuditReport) -> Html:
    """The run beside another setting, whose weights and method the reader sets; answers.js computes it."""
    data = report.answers if comparable(report) else not_comparable(report)
    if data is None:
        return Html()
    if isinstance(data, str):
        return join(tag("h3", _ANSWERS), tag("p", data))
    had, names, weights = data["had"], data["names"], data["weights"]
    low, high = min(0.0, *(2 * w for w in weights)), max(1.0, *(2 * w for w in weights))
    rows = []
    for k, name in enumerate(names):
        named = {"aria_label": f"weight of {name}", "value": weights[k], "step": "any"}
        slider = tag("input", type="range", min=low, max=high, **named)
        share = percent(had["update_share"][name], 1)
        now = tag("span", share, kind=f"now {reward_look(k)}", data_reward=k, data_had=share)
        rows.append([name, join(slider, tag("output", number(weights[k]))), now, share])
    figures = [figure for figure in FIGURES if figure != "inversions" or data["primary"] is not None]
    others = [
        [label(x), tag("span", percent(had[x], 1), kind="now", data_figure=x), percent(had[x], 1)] for x in figures
    ]
    options = [tag("option", NAMES[m], value=m, selected="" if m == data["method"] else None) for m in COMPARED]
    some, of = count(data["groups"], "group"), count(data["of"])
    sample = f"A sample of {some} of {of}, whole batches from all over the run: its figures are off by "
    sample += f"{percent(data['off'], 1)} at most, under the run’s weights." if data["groups"] < data["of"] else ""
    return join(
        tag("h3", _ANSWERS),
        tag("p", *[sample] * (data["groups"] < data["of"]), " ".join(data["notes"])),
        tag(
            "fieldset",
            tag("p", tag("label", "method ", tag("select", *options))),
            _html.table(["reward", "weight", "share of the update", "had"], rows, "wide", folds=True),
            table(["", "would have", "had"], others),
            disabled="",
        ),
        tag("pre", tag("code", ""), tabindex=0),
        tag("p", "", role="status", kind="more"),
    )


_ANSWERS = "And with other weights, or another method?"


# --- lines over the steps --------------------------------------------------------------------------------------------


def _constant(report: AuditReport) -> list[Figure]:
    """Where rewards were constant, and so did nothing."""
    caption = "Share of the groups in which every response has the same value of it; it does nothing there."
    return _of_rewards(report, "Constant rewards over the run", caption, _by_reward(report, DEAD))


def _shares(report: AuditReport) -> list[Figure]:
    """Which rewards made the update."""
    method, why = shown_method(report)
    if not method or not comparable(report):
        return []
    shares = _by_reward(report, SHARE, method)
    return _of_rewards(report, "Shares of the update", f"Under {NAMES[method]}, {why}.", shares)


def _of_rewards(report: AuditReport, title: str, caption: str, series: Mapping[str, Series]) -> list[Figure]:
    """A line of shares per reward over the steps, between 0 and 1 or as far beyond as they go."""
    beyond = [x for values in series.values() for x in present(values) if x < -0.005 or x > 1.005]
    low, high = max(floor(min(beyond, default=0)), -_FARTHEST), min(ceil(max(beyond, default=1)), _FARTHEST)
    if any(abs(x) > _FARTHEST for x in beyond):
        caption += f" What is beyond ±{percent(_FARTHEST)} is drawn there."
    ticks = range(min(low, 0), max(high, 1) + 1) if beyond else (0, 0.25, 0.5, 0.75, 1)
    steps, looks = report.steps["step"].to_list(), [(reward_look(k), svg.dash(k)) for k in range(len(series))]
    drawn = [svg.Line(values, *how) for values, how in zip(series.values(), looks, strict=True)]
    went = "; ".join(f"{name} {_drift(values)}" for name, values in series.items())
    chart = svg.lines(drawn, steps, f"{title} over {len(steps)} steps: {went}.", {x: percent(x) for x in ticks})
    key = legend((svg.sample(*how), name) for name, how in zip(series, looks, strict=True))
    return [Figure(title, caption, join(chart, key))]


def _by_reward(report: AuditReport, *what: str) -> dict[str, Series]:
    """By reward, its number at each step."""
    return {reward["name"]: series_of(report.steps, column(*what, reward["name"])) for reward in report.rewards}


def _drift(series: Series) -> str:
    first, last = quarters(series)
    return f"{percent(first)} in the first quarter to {percent(last)} in the last"
