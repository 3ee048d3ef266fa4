"""The figures of a report: a chart, the sentence that says the same, and the numbers behind it."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import isnan

from gdpo_core import _html
from gdpo_core._html import Html, fold, join, legend, tag
from gdpo_core._theme import VALUES
from gdpo_core._words import number, percent
from gdpo_core.conventions import NAMES
from gdpo_core.report import per_step, svg
from gdpo_core.report.per_step import Series, present
from gdpo_core.report.summary import checklist, comparable, none_made_it, own_method, shown_method, weight_shares
from gdpo_core.runs.audit_report import AuditReport

METHODS_AND_REWARDS = ("grpo", "grpo_no_std", "grpo_batch_std", "gdpo", "r0", "r1", "r2", "r3", "alarm")  # looks
_COLOURS = 4  # of rewards; they repeat, with other dashes
_ROWS = 40  # of a table behind a chart
_FARTHEST = 2.0  # of a share from 0, as far as it is drawn
_PAIRS = 6  # of rewards, those that go together or against each other most
_MEANS = 8  # rewards with a chart of their own mean


@dataclass(frozen=True)
class Figure:
    """A chart with what it says, and the numbers behind it; one without numbers is a list in words."""

    title: str
    caption: str
    drawn: Html
    rows: Sequence[Mapping[str, object]]  # by the name of the column, the first of which names the row
    words: Callable[[float | None], str] = percent  # how the numbers are written


Frame = Callable[[Figure], Html]  # how a figure stands on a page


def figures(report: AuditReport) -> list[Figure]:
    """All figures that the report has numbers for."""
    return [
        *_update_shares(report),
        *_distinctions(report),
        *_means(report),
        *_over_time(report),
        *_correlations(report),
    ]


def drawable(report: AuditReport) -> bool:
    """Whether there is anything to draw: rewards to compare, or steps over which they changed."""
    return comparable(report) or len(report.steps) > 1


def picture(report: AuditReport) -> Figure:
    """The one figure that explains the first finding, or what the run did where there is none."""
    first = report.findings[0].id if report.findings else None
    drawn = [figure for draw in _EXPLAINS.get(first, ()) for figure in draw(report)]
    return drawn[0] if drawn else log_contents(report)


def frame_figure(figure: Figure) -> Html:
    """A figure as HTML, its numbers in a fold."""
    return tag("figure", content(figure))


def content(figure: Figure) -> Html:
    """What stands inside the frame of a figure."""
    caption = tag("figcaption", tag("b", figure.title), " ", figure.caption)
    return join(caption, figure.drawn, fold("Numbers", _numbers(figure)) if figure.rows else "")


def file_name(figure: Figure) -> str:
    """What its file is called.

    >>> file_name(Figure("Mean of <style>", "", Html(), []))
    'mean-of-style.svg'
    """
    return f"{re.sub(r'[^a-z0-9]+', '-', figure.title.lower()).strip('-')}.svg"


def picture_file(figure: Figure) -> str:
    """The chart as an SVG file of its own, in the look of a report on paper."""
    ink, soft, rule, paper = (VALUES[f"light-{name}"] for name in ("ink", "soft", "rule", "paper"))
    looks = {look: VALUES[look.replace("_", "-").replace("batch", "no")] for look in METHODS_AND_REWARDS}
    looks |= {"p0": ink, "p1": VALUES["grpo-no-std"]}
    rules = {
        "text": f"font: 12px {VALUES['sans']}; fill: {soft}",
        ".head, .strong, .title": f"font-weight: 700; fill: {ink}",
        ".title": "font-size: 15px",
        ".paper": f"fill: {paper}",
        ".zero, .weight, .line": f"fill: none; stroke: {ink}; stroke-width: 2",
        ".zero": "stroke-width: 1",
        ".grid, .track": f"fill: none; stroke: {rule}",
        **{f".{look}.mark": f"fill: {colour}" for look, colour in looks.items()},
        **{f".{look}.line": f"stroke: {colour}" for look, colour in looks.items()},
    }
    css = "\n".join(f"{which} {{ {how} }}" for which, how in rules.items())
    return str(_html.picture(figure.drawn, figure.title, css))


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


def table(
    head: Sequence[object], rows: Sequence[Sequence[object]], kind: str = "", caption: str = "", most: int = 4
) -> Html:
    """A table whose first column names the rows; one of more than `most` columns scrolls, and folds on a phone."""
    wide = len(head) > most
    drawn = _html.table(head, rows, f"{kind} wide".strip() if wide else kind, caption, folds=wide)
    return tag("div", drawn, kind="scroll", tabindex=0)


# --- bars ------------------------------------------------------------------------------------------------------------


def _update_shares(report: AuditReport) -> list[Figure]:
    """What each reward makes of the update under each method, beside its share of the weights."""
    if not report.methods or not comparable(report):
        return []
    own, weights = own_method(report), weight_shares(report)
    groups = [
        svg.Bars(r["name"], reward_look(k), _bars_of_methods(report, r["update_share"]), weights[r["name"]])
        for k, r in enumerate(report.rewards)
    ]
    caption = "Each reward’s share of the update: how much of the advantages comes from this reward."
    if any(share is not None for share in weights.values()):
        caption += " The upright line is its share of the weights; under GDPO shares go by the squares of the weights."
    caption += f" Bold is the run’s own method, {NAMES[own]}." if own else f" {none_made_it(report)}".rstrip()
    values = [bar.value for group in groups for bar in group.bars if bar.value is not None]
    lowest, highest = min(values, default=0), max(values, default=0)
    low, high = -1.0 if lowest < -0.5 else -0.5 if lowest < 0 else 0.0, 1.5 if highest > 1.005 else 1.0
    drawn = svg.grouped_bars(groups, f"Share of the update: {describe(groups)}.", low, high)
    rows = [
        {"reward": r["name"], "weight": weights[r["name"]]} | {m: r["update_share"].get(m) for m in report.methods}
        for r in report.rewards
    ]
    makes = "would have made" if none_made_it(report) else "makes"
    return [Figure(f"Which reward {makes} the update", caption, drawn, rows)]


def _distinctions(report: AuditReport) -> list[Figure]:
    """What each method can tell apart on the rewards of the run."""
    if not comparable(report):
        return []
    titles = {
        "groups_with_ties": "Groups where different responses tie",
        "tied_pairs": "Pairs of different responses that tie",
        "silent_groups": "Groups without any advantage",
        "inversions": f"Pairs where less {report.run['primary']} gets more",
    }
    found = {title: {m: shares.get(key) for m, shares in report.methods.items()} for key, title in titles.items()}
    groups = [svg.Bars(title, None, _bars_of_methods(report, by_method)) for title, by_method in found.items()]
    groups = [group for group in groups if any(bar.value is not None for bar in group.bars)]
    if not groups:
        return []
    caption = "What each method tells apart on the rewards of this run. A tie: other rewards, same advantage."
    rows = [
        {"share of": group.title} | {m: None if x is None or isnan(x) else x for m, x in found[group.title].items()}
        for group in groups
    ]
    drawn = svg.grouped_bars(groups, f"{describe(groups)}.")
    return [Figure("What each method can tell apart", caption, drawn, rows)]


def _constant(report: AuditReport) -> list[Figure]:
    """How often each reward is constant, and so does nothing."""
    shares = {r["name"]: r["dead_groups"] for r in report.rewards}
    groups = [
        svg.Bars(name, None, [svg.Bar("", reward_look(k), share, percent(share), strong=True)])
        for k, (name, share) in enumerate(shares.items())
    ]
    caption = "Share of the groups in which every response has the same value of it. There it does nothing."
    rows = [{"reward": name, "constant": share} for name, share in shares.items()]
    drawn = svg.grouped_bars(groups, f"{describe(groups)}.")
    return [Figure("Groups in which a reward is constant", caption, drawn, rows)]


def _bars_of_methods(report: AuditReport, shares: Mapping[str, float | None]) -> list[svg.Bar]:
    """A bar per method, the run's own stands out; GRPO without std, which ties what GRPO ties, only if it is that."""
    own = own_method(report)
    known = {m: None if share is None or isnan(share) else share for m, share in shares.items()}
    drawn = [m for m in report.methods if m != "grpo_no_std" or m == own]
    return [svg.Bar(NAMES[m], m, known.get(m), percent(known.get(m)), m == own) for m in drawn]


def describe(groups: Sequence[svg.Bars]) -> str:
    """What bars show, in words."""
    names = [[f"{bar.words} ({bar.name})" if bar.name else bar.words for bar in group.bars] for group in groups]
    return "; ".join(f"{group.title} {', '.join(bars)}" for group, bars in zip(groups, names, strict=True))


# --- lines over the steps --------------------------------------------------------------------------------------------


def _means(report: AuditReport) -> list[Figure]:
    """How the mean of each reward went, one chart per reward."""
    steps = per_step.steps(report)
    if len(steps) < 2:
        return []
    drawn = []
    for k, (name, series) in enumerate(list(per_step.means(report).items())[:_MEANS]):
        drift, values = _drift(series, number), present(series)
        ticks = {tick: number(tick, digits=6) for tick in svg.ticks(values)}
        chart = svg.lines(
            [svg.Line(series, reward_look(k), "")], steps, f"Mean of {name} over {len(steps)} steps: {drift}.", ticks
        )
        caption = f"From {drift}." if values else "Missing in every response."
        drawn.append(Figure(f"Mean of {name}", caption, chart, _rows(steps, {name: series}), number))
    return drawn


def _over_time(report: AuditReport) -> list[Figure]:
    """Where rewards were constant, and which made the update, over time."""
    if len(per_step.steps(report)) < 2:
        return []
    constant = per_step.dead(report)
    drawn = [
        _of_rewards(report, "Constant rewards over the run", "Share of the groups; it does nothing there.", constant)
    ]
    method, why = shown_method(report)
    if method and comparable(report):
        shares = per_step.shares(report, method)
        drawn.append(_of_rewards(report, "Shares of the update", f"Under {NAMES[method]}, {why}.", shares))
    return drawn


def _of_rewards(report: AuditReport, title: str, caption: str, series: Mapping[str, Series]) -> Figure:
    """A line per reward; shares."""
    steps = per_step.steps(report)
    looks = [(reward_look(k), svg.dash(k)) for k in range(len(series))]
    drifts = "; ".join(f"{name} {_drift(values, percent)}" for name, values in series.items())
    shares = [x for values in series.values() for x in present(values)]
    ends = min([0.0, *(x for x in shares if x < -0.005)]), max([1.0, *(x for x in shares if x > 1.005)])
    if max(abs(end) for end in ends) > _FARTHEST:
        caption += f" What is beyond ±{percent(_FARTHEST)} is drawn there."
    ticks = {tick: percent(tick) for tick in svg.ticks([max(ends[0], -_FARTHEST), min(ends[1], _FARTHEST)])}
    drawn = _lines(series, looks, steps, f"{title} over {len(steps)} steps: {drifts}.", ticks)
    return Figure(title, caption, drawn, _rows(steps, series))


def _correlations(report: AuditReport) -> list[Figure]:
    """Which rewards go together inside groups, over time."""
    steps, pairs = per_step.steps(report), per_step.correlations(report)
    if len(steps) < 2 or not pairs:
        return []

    def strength(pair: tuple[str, str]) -> float:
        values = present(pairs[pair])
        return abs(sum(values)) / len(values) if values else -1.0

    strongest = sorted(pairs, key=strength, reverse=True)[:_PAIRS]
    series = {f"{i} and {j}": pairs[i, j] for i, j in strongest}
    looks = [(f"p{k // len(svg.DASHES)}", svg.DASHES[k % len(svg.DASHES)]) for k in range(len(series))]
    drifts = "; ".join(f"{name} {_drift(values, number)}" for name, values in series.items())
    ticks = {tick: number(tick) for tick in svg.ticks([-1.0, 1.0])}
    description = f"Correlation of rewards inside groups over {len(steps)} steps: {drifts}."
    caption = "Inside groups. Below 0, one reward is had at the cost of the other."
    if len(pairs) > len(strongest):
        caption += f" The {len(strongest)} strongest of {len(pairs)} pairs."
    drawn = _lines(series, looks, steps, description, ticks)
    return [Figure("Correlation between rewards", caption, drawn, _rows(steps, series), number)]


def _lines(
    series: Mapping[str, Series],
    looks: Sequence[tuple[str, str]],
    steps: Sequence[int],
    description: str,
    ticks: Mapping[float, str],
) -> Html:
    """A line per series with its look and its dashes, and a legend."""
    named = list(zip(series, looks, strict=True))
    drawn = svg.lines([svg.Line(series[name], *how) for name, how in named], steps, description, ticks)
    return join(drawn, legend((svg.sample(*how), name) for name, how in named))


def _drift(series: Series, words: Callable[[float | None], str]) -> str:
    first, last = per_step.quarters(series)
    return f"{words(first)} in the first quarter to {words(last)} in the last"


def _rows(steps: Sequence[int], series: Mapping[str, Series]) -> list[dict[str, object]]:
    return [{"step": step} | {name: values[i] for name, values in series.items()} for i, step in enumerate(steps)]


# --- what a log holds ------------------------------------------------------------------------------------------------


def log_contents(report: AuditReport) -> Figure:
    """What a log should hold, and what this one does."""
    rows = [
        tag("li", svg.tick_or_cross(holds), tag("div", tag("b", what), tag("span", use)), kind="yes" if holds else "no")
        for what, holds, use in checklist(report)
    ]
    return Figure("What this log holds", "And what can be told from it.", tag("ul", *rows, kind="held"), [])


# The figures that explain a finding, the first that can be drawn; what the log holds explains all others.
_EXPLAINS: dict[str | None, Sequence[Callable[[AuditReport], list[Figure]]]] = {
    None: [_update_shares],  # no finding
    "reward-dominates": [_update_shares],
    "reward-starved": [_update_shares],
    "reward-noise": [_update_shares],
    "no-right-answer": [_update_shares],
    "reward-falls": [_means],
    "weight-zero": [_update_shares],
    "weights-not-as-given": [_update_shares],
    "method-not-as-asked": [_update_shares],
    "ties-hide-signal": [_distinctions],
    "silent-groups": [_distinctions],
    "priority-inversion": [_distinctions],
    "batch-step-amplifies": [_distinctions],
    "reward-dead": [_constant],
    "reward-fades": [_constant],
    "blind-zero-std-metric": [_constant],
    "filter-drops-signal": [_constant],
    "conflict": [_correlations, _update_shares],
    "length-coupled": [_correlations, _update_shares],
}
