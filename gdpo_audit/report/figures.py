"""The figures of a report: a chart, the sentence that says the same, and the numbers behind it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import isnan

from gdpo_audit.report import per_step, svg
from gdpo_audit.report.audit_report import AuditReport
from gdpo_audit.report.per_step import Series, present
from gdpo_audit.report.summary import comparable, none_made_it, own_method, shown_method, weight_shares
from gdpo_core import _html
from gdpo_core._html import Html, fold, join, legend, tag
from gdpo_core._words import number, percent
from gdpo_core.conventions import NAMES

_COLOURS = 4  # of rewards; they repeat, with other dashes
_ROWS = 40  # of a table behind a chart
_FARTHEST = 2.0  # of a share from 0, as far as it is drawn
_PAIRS = 6  # of rewards, those that go together or against each other most
_MEANS = 8  # rewards with a chart of their own mean


@dataclass(frozen=True)
class Figure:
    """A chart with what it says, and the numbers behind it."""

    title: str
    caption: str
    drawn: Html
    rows: Sequence[Mapping[str, object]]  # by the name of the column, the first of which names the row
    words: Callable[[float | None], str] = percent  # how the numbers are written


def figures(report: AuditReport) -> list[Figure]:
    """All figures that the report has numbers for."""
    return [*_update_shares(report), *_means(report), *_constant(report), *_shares(report), *_correlations(report)]


def drawable(report: AuditReport) -> bool:
    """Whether there is anything to draw: rewards to compare, or steps over which they changed."""
    return comparable(report) or len(report.steps) > 1


def picture(report: AuditReport) -> Figure | None:
    """The figure that explains the first finding, else which reward made the update; None where none can be drawn."""
    draw = _EXPLAINS.get(report.findings[0].id, _update_shares) if report.findings else _update_shares
    return next(iter(draw(report) or _update_shares(report)), None)


def frame_figure(figure: Figure) -> Html:
    """A figure as HTML, its numbers in a fold."""
    caption = tag("figcaption", tag("b", figure.title), " ", figure.caption)
    return tag("figure", caption, figure.drawn, fold("Numbers", _numbers(figure)))


def _numbers(figure: Figure) -> Html:
    """The numbers as a table; of many rows some."""
    rows = figure.rows
    every = -(-len(rows) // _ROWS)
    kept = [rows[i] for i in sorted({*range(0, len(rows), every), len(rows) - 1})]
    head = [NAMES.get(column, column) for column in rows[0]]
    cells = [[first, *map(figure.words, values)] for first, *values in (row.values() for row in kept)]
    return table(head, cells, caption="" if every == 1 else f"{len(kept)} of {len(rows)} {head[0]}s")


def reward_look(k: int) -> str:
    """The class of the k-th reward."""
    return f"r{k % _COLOURS}"


def table(head: Sequence[object], rows: Sequence[Sequence[object]], prose: bool = False, caption: str = "") -> Html:
    """A table whose first column names the rows; a wide one scrolls, and folds on a phone. prose: of words."""
    wide = len(head) > (2 if prose else 4)
    drawn = _html.table(head, rows, " ".join(["runs"] * prose + ["wide"] * wide), caption, folds=wide)
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
        bars = [svg.Bar(NAMES[m], m, *_share(r["update_share"].get(m)), strong=m == own) for m in drawn]
        groups.append(svg.Bars(r["name"], reward_look(k), bars, weights[r["name"]]))
    caption = "Each reward’s share of the update: how much of the advantages comes from this reward."
    if any(share is not None for share in weights.values()):
        caption += " The upright line is its share of the weights; under GDPO shares go by the squares of the weights."
    caption += f" Bold is the run’s own method, {NAMES[own]}." if own else f" {none_made_it(report)}".rstrip()
    values = [0.0, *(bar.value for group in groups for bar in group.bars if bar.value is not None)]
    low, high = -1.0 if min(values) < -0.5 else -0.5 if min(values) < 0 else 0.0, 1.5 if max(values) > 1.005 else 1.0
    chart = svg.grouped_bars(groups, f"Share of the update: {describe(groups)}.", low, high)
    rows = [
        {"reward": r["name"], "weight": weights[r["name"]]} | {m: r["update_share"].get(m) for m in report.methods}
        for r in report.rewards
    ]
    makes = "would have made" if none_made_it(report) else "makes"
    return [Figure(f"Which reward {makes} the update", caption, chart, rows)]


def _share(share: float | None) -> tuple[float | None, str]:
    """A share, None where it is not known, and its words."""
    known = None if share is None or isnan(share) else share
    return known, percent(known)


def describe(groups: Sequence[svg.Bars]) -> str:
    """What bars show, in words."""
    bars = (", ".join(f"{bar.words} ({bar.name})" for bar in group.bars) for group in groups)
    return "; ".join(f"{group.title} {said}" for group, said in zip(groups, bars, strict=True))


# --- lines over the steps --------------------------------------------------------------------------------------------


def _means(report: AuditReport) -> list[Figure]:
    """How the mean of each reward went, one chart per reward."""
    means = list(per_step.means(report).items())[:_MEANS]
    drawn = []
    for k, (name, series) in enumerate(means):
        caption = f"From {_drift(series, number)}." if present(series) else "Missing in every response."
        looks = [(reward_look(k), "")]
        drawn += _over_steps(report, f"Mean of {name}", caption, {name: series}, looks, present(series), number)
    return drawn


def _constant(report: AuditReport) -> list[Figure]:
    """Where rewards were constant, and so did nothing."""
    caption = "Share of the groups in which every response has the same value of it; it does nothing there."
    return _of_rewards(report, "Constant rewards over the run", caption, per_step.dead(report))


def _shares(report: AuditReport) -> list[Figure]:
    """Which rewards made the update."""
    method, why = shown_method(report)
    if not method or not comparable(report):
        return []
    shares = per_step.shares(report, method)
    return _of_rewards(report, "Shares of the update", f"Under {NAMES[method]}, {why}.", shares)


def _of_rewards(report: AuditReport, title: str, caption: str, series: Mapping[str, Series]) -> list[Figure]:
    """A line of shares per reward, between 0 and 1 or as far beyond as they go."""
    looks = [(reward_look(k), svg.dash(k)) for k in range(len(series))]
    beyond = [x for values in series.values() for x in present(values) if x < -0.005 or x > 1.005]
    low, high = min([0.0, *beyond]), max([1.0, *beyond])
    if max(-low, high) > _FARTHEST:
        caption += f" What is beyond ±{percent(_FARTHEST)} is drawn there."
    return _over_steps(report, title, caption, series, looks, [max(low, -_FARTHEST), min(high, _FARTHEST)])


def _correlations(report: AuditReport) -> list[Figure]:
    """Which rewards go together inside groups."""
    pairs = per_step.correlations(report)

    def strength(pair: tuple[str, str]) -> float:
        values = present(pairs[pair])
        return abs(sum(values)) / len(values) if values else -1.0

    strongest = sorted(pairs, key=strength, reverse=True)[:_PAIRS]
    series = {f"{i} and {j}": pairs[i, j] for i, j in strongest}
    looks = [(f"p{k // len(svg.DASHES)}", svg.DASHES[k % len(svg.DASHES)]) for k in range(len(series))]
    caption = "Inside groups. Below 0, one reward is had at the cost of the other."
    if len(pairs) > len(strongest):
        caption += f" The {len(strongest)} strongest of {len(pairs)} pairs."
    return _over_steps(report, "Correlation between rewards", caption, series, looks, [-1.0, 1.0], number)


def _over_steps(
    report: AuditReport,
    title: str,
    caption: str,
    series: Mapping[str, Series],
    looks: Sequence[tuple[str, str]],
    ends: Sequence[float],
    words: Callable[[float | None], str] = percent,
) -> list[Figure]:
    """A line per series with its look and its dashes, and a legend unless the title names it; nothing for one step.

    ends: what the axis must hold; words: how a number is written.
    """
    steps = per_step.steps(report)
    if len(steps) < 2 or not series:
        return []
    went = "; ".join(f"{name} {_drift(values, words)}" for name, values in series.items())
    ticks = {tick: number(tick, digits=6) if words is number else words(tick) for tick in svg.ticks(ends)}
    drawn = [svg.Line(values, *how) for values, how in zip(series.values(), looks, strict=True)]
    chart = svg.lines(drawn, steps, f"{title} over {len(steps)} steps: {went}.", ticks)
    if not all(name in title for name in series):
        chart = join(chart, legend((svg.sample(*how), name) for name, how in zip(series, looks, strict=True)))
    rows = [{"step": step} | {name: values[i] for name, values in series.items()} for i, step in enumerate(steps)]
    return [Figure(title, caption, chart, rows, words)]


def _drift(series: Series, words: Callable[[float | None], str]) -> str:
    first, last = per_step.quarters(series)
    return f"{words(first)} in the first quarter to {words(last)} in the last"


# --- which figure explains a finding ---------------------------------------------------------------------------------

_EXPLAINS: dict[str, Callable[[AuditReport], list[Figure]]] = {
    "reward-falls": _means,
    "silent-groups": _constant,
    "reward-dead": _constant,
    "reward-fades": _constant,
    "blind-zero-std-metric": _constant,
    "filter-drops-signal": _constant,
    "conflict": _correlations,
    "length-coupled": _correlations,
}
