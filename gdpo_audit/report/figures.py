"""The figures of a report: a chart, and the sentence that says the same."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import isnan

import polars as pl

from gdpo_audit.findings.over_time import DEAD, MEAN, SHARE, column
from gdpo_audit.report import svg
from gdpo_audit.report.audit_report import AuditReport
from gdpo_audit.report.summary import comparable, none_made_it, own_method, shown_method, weight_shares
from gdpo_core import _html
from gdpo_core._html import Html, join, legend, tag
from gdpo_core._words import number, percent
from gdpo_core.conventions import NAMES

Series = list[float | None]  # a number for each row of the report's steps

_COLOURS = 4  # of rewards; they repeat, with other dashes
_FARTHEST = 2.0  # of a share from 0, as far as it is drawn
_MEANS = 8  # rewards with a chart of their own mean


@dataclass(frozen=True)
class Figure:
    """A chart with what it says."""

    title: str
    caption: str
    drawn: Html


def figures(report: AuditReport) -> list[Figure]:
    """All figures that the report has numbers for."""
    return [*_update_shares(report), *_means(report), *_constant(report), *_shares(report)]


def drawable(report: AuditReport) -> bool:
    """Whether there is anything to draw: rewards to compare, or steps over which they changed."""
    return comparable(report) or len(report.steps) > 1


def picture(report: AuditReport) -> Figure | None:
    """The figure that explains the first finding, else which reward made the update; None where none can be drawn."""
    draw = _EXPLAINS.get(report.findings[0].id, _update_shares) if report.findings else _update_shares
    return next(iter(draw(report) or _update_shares(report)), None)


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


# --- bars ------------------------------------------------------------------------------------------------------------


def _update_shares(report: AuditReport) -> list[Figure]:
    """What each reward makes of the update under each method, beside its share of the weights."""
    if not report.methods or not comparable(report):
        return []
    own, weights = own_method(report), weight_shares(report)
    # GRPO without std ties what GRPO ties: it is drawn only where it ran.
    drawn = [m for m in report.methods if m != "grpo_no_std" or m == own]
    groups = []
    for k, r in enumerate(report.rewards):
        shares = {m: r["update_share"].get(m) for m in drawn}
        known = {m: None if x is None or isnan(x) else x for m, x in shares.items()}
        bars = [svg.Bar(NAMES[m], m, x, percent(x), strong=m == own) for m, x in known.items()]
        groups.append(svg.Bars(r["name"], reward_look(k), bars, weights[r["name"]]))
    caption = "Each reward’s share of the update: how much of the advantages comes from this reward."
    if any(share is not None for share in weights.values()):
        caption += " The upright line is its share of the weights; under GDPO shares go by the squares of the weights."
    caption += f" Bold is the run’s own method, {NAMES[own]}." if own else f" {none_made_it(report)}".rstrip()
    values = [0.0, *(bar.value for group in groups for bar in group.bars if bar.value is not None)]
    low, high = -1.0 if min(values) < -0.5 else -0.5 if min(values) < 0 else 0.0, 1.5 if max(values) > 1.005 else 1.0
    said = (f"{of.title} {', '.join(f'{bar.words} ({bar.name})' for bar in of.bars)}" for of in groups)
    chart = svg.grouped_bars(groups, f"Share of the update: {'; '.join(said)}.", low, high)
    makes = "would have made" if none_made_it(report) else "makes"
    return [Figure(f"Which reward {makes} the update", caption, chart)]


# --- lines over the steps --------------------------------------------------------------------------------------------


def _means(report: AuditReport) -> list[Figure]:
    """How the mean of each reward went, one chart per reward."""
    drawn = []
    for k, (name, series) in enumerate(list(_by_reward(report, MEAN).items())[:_MEANS]):
        caption = f"From {_drift(series, number)}." if _present(series) else "Missing in every response."
        drawn += _over_steps(report, f"Mean of {name}", caption, {name: series}, _present(series), number, k)
    return drawn


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
    """A line of shares per reward, between 0 and 1 or as far beyond as they go."""
    beyond = [x for values in series.values() for x in _present(values) if x < -0.005 or x > 1.005]
    low, high = min([0.0, *beyond]), max([1.0, *beyond])
    if max(-low, high) > _FARTHEST:
        caption += f" What is beyond ±{percent(_FARTHEST)} is drawn there."
    return _over_steps(report, title, caption, series, [max(low, -_FARTHEST), min(high, _FARTHEST)])


def _over_steps(
    report: AuditReport,
    title: str,
    caption: str,
    series: Mapping[str, Series],
    ends: Sequence[float],
    words: Callable[[float | None], str] = percent,
    first: int = 0,
) -> list[Figure]:
    """A line per reward, and a legend unless the title names it; nothing for one step.

    ends: what the axis must hold; words: how a number is written; first: the number of the first reward.
    """
    steps = report.steps["step"].to_list()
    if len(steps) < 2 or not series:
        return []
    went = "; ".join(f"{name} {_drift(values, words)}" for name, values in series.items())
    ticks = {tick: number(tick, digits=6) if words is number else words(tick) for tick in svg.ticks(ends)}
    looks = [(reward_look(k), svg.dash(k)) for k in range(first, first + len(series))]
    drawn = [svg.Line(values, *how) for values, how in zip(series.values(), looks, strict=True)]
    chart = svg.lines(drawn, steps, f"{title} over {len(steps)} steps: {went}.", ticks)
    if not all(name in title for name in series):
        chart = join(chart, legend((svg.sample(*how), name) for name, how in zip(series, looks, strict=True)))
    return [Figure(title, caption, chart)]


def _by_reward(report: AuditReport, *what: str) -> dict[str, Series]:
    """By reward, its number at each step."""
    columns = {reward["name"]: report.steps[column(*what, reward["name"])] for reward in report.rewards}
    return {name: values.cast(pl.Float64).fill_nan(None).to_list() for name, values in columns.items()}


def _drift(series: Series, words: Callable[[float | None], str]) -> str:
    """The mean of the first and of the last quarter of the numbers, at least one number each."""
    values = _present(series)
    part = max(1, len(values) // 4)
    first, last = (sum(x) / part if x else None for x in (values[:part], values[-part:]))
    return f"{words(first)} in the first quarter to {words(last)} in the last"


def _present(series: Series) -> list[float]:
    return [x for x in series if x is not None]


# --- which figure explains a finding ---------------------------------------------------------------------------------

_EXPLAINS: dict[str, Callable[[AuditReport], list[Figure]]] = {
    "reward-falls": _means,
    "silent-groups": _constant,
    "reward-dead": _constant,
    "reward-fades": _constant,
    "blind-zero-std-metric": _constant,
    "filter-drops-signal": _constant,
}
