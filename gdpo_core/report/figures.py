"""The figures of a report: a chart, the sentence that says the same, and the numbers behind it as a table."""

from collections.abc import Callable, Mapping, Sequence
from typing import TypeGuard

from gdpo_core import _html
from gdpo_core._html import Html, fold, join, legend, tag
from gdpo_core._words import number, percent
from gdpo_core.audit import AuditReport
from gdpo_core.report import series as over_time
from gdpo_core.report import svg
from gdpo_core.report.sentences import NAMES, acting, comparable, held, looked_at, weight_shares
from gdpo_core.report.series import Series

COLOURS = 4  # of rewards; they repeat, with other dashes
_ROWS = 40  # of a table behind a chart
_PAIRS = 6  # of rewards, those that go together or against each other most
_TILES = 8  # rewards with a chart of their own mean


def figures(report: AuditReport) -> Html:
    """HTML of all figures that the report has numbers for."""
    return tag("div", *_shares(report), *_told_apart(report), *_over_time(report), kind="figures-grid")


def picture(report: AuditReport) -> Html:
    """HTML of the one figure that explains the first finding, or what the run did where there is none."""
    first = report.findings[0].id if report.findings else ""
    drawn = [figure for draw in _EXPLAINS.get(first, (_shares,)) for figure in draw(report)]
    return (drawn or _held(report))[0]


def look(k: int) -> str:
    """The class of the k-th reward."""
    return f"r{k % COLOURS}"


def table(head: Sequence[object], rows: Sequence[Sequence[object]], kind: str = "", caption: str = "") -> Html:
    """A table whose first column names the rows; it scrolls where it is wide."""
    return tag("div", _html.table(head, rows, kind, caption), kind="scroll", tabindex=0)


def _shares(report: AuditReport) -> list[Html]:
    own, methods, asked = acting(report), list(report.methods), weight_shares(report)
    if not methods or not comparable(report):
        return []
    taken = {r["name"]: {m: r["update_share"].get(m) for m in methods} for r in report.rewards}
    there = [x for share in taken.values() for x in share.values() if x is not None and _there(x)]
    lowest, highest = min(there, default=0), max(there, default=0)
    bars = [
        svg.Bars(name, look(k), [_bar(m, share[m], own) for m in methods], asked[name])
        for k, (name, share) in enumerate(taken.items())
    ]
    said = {name: [percent(share[m]) for m in methods] for name, share in taken.items()}
    caption = "Each reward’s share of the update: its part of the variance of the advantages."
    if any(x is not None for x in asked.values()):
        caption += " The upright line is its share of the weights; under GDPO shares go by the squares of the weights."
    caption += f" Bold is the run’s own method, {NAMES[own]}." if own else ""
    low, high = -1.0 if lowest < -0.5 else -0.5 if lowest < 0 else 0.0, 1.5 if highest > 1.005 else 1.0
    drawn = svg.grouped_bars(bars, f"Share of the update: {_told(said, methods)}.", low, high)
    rows = [[name, percent(asked[name]), *shares] for name, shares in said.items()]
    behind = table(["reward", "weight", *(NAMES[m] for m in methods)], rows)
    return [_figure("Which reward makes the update", caption, drawn, behind)]


def _told_apart(report: AuditReport) -> list[Html]:
    if not comparable(report):
        return []
    own, methods = acting(report), list(report.methods)
    kinds = {
        "groups_with_ties": "Groups where different responses tie",
        "tied_pairs": "Pairs of different responses that tie",
        "silent_groups": "Groups without any advantage",
        "inversions": f"Pairs where less {report.run['primary']} gets more",
    }
    found = {title: {m: report.methods[m].get(key) for m in methods} for key, title in kinds.items()}
    found = {title: shares for title, shares in found.items() if any(map(_there, shares.values()))}
    if not found:
        return []
    bars = [svg.Bars(title, None, [_bar(m, x, own) for m, x in shares.items()]) for title, shares in found.items()]
    said = {title: [percent(x) for x in shares.values()] for title, shares in found.items()}
    caption = "What each method tells apart on the rewards of this run. A tie: other rewards, same advantage."
    behind = table(["share of", *(NAMES[m] for m in methods)], [[title, *shares] for title, shares in said.items()])
    drawn = svg.grouped_bars(bars, f"{_told(said, methods)}.")
    return [_figure("What each method can tell apart", caption, drawn, behind)]


def _bar(method: str, share: float | None, own: str | None) -> svg.Bar:
    return svg.Bar(NAMES[method], method, share if _there(share) else None, percent(share), method == own)


def _told(shares: Mapping[str, Sequence[str]], methods: Sequence[str]) -> str:
    """What the bars show, as a sentence."""
    said = {name: zip(row, methods, strict=True) for name, row in shares.items()}
    return "; ".join(f"{name} {', '.join(f'{x} ({NAMES[m]})' for x, m in pairs)}" for name, pairs in said.items())


def _there(share: float | None) -> TypeGuard[float]:
    return share is not None and share == share


def _over_time(report: AuditReport) -> list[Html]:
    steps = over_time.steps(report)
    if len(steps) < 2:
        return []
    order = {reward["name"]: k for k, reward in enumerate(report.rewards)}
    means, found = over_time.means(report), []
    for name, series in list(means.items())[:_TILES]:
        there = [x for x in series if x is not None]
        drawn = svg.lines(
            [svg.Line(series, look(order[name]), "")],
            steps,
            f"Mean of {name} over {len(steps)} steps: {_drift(series, number)}.",
            *svg.ends(there),
        )
        said = f"From {_drift(series, number)}." if there else "Missing in every response."
        found.append(_figure(f"Mean of {name}", said, drawn, _steps_table(steps, {name: series}, number)))
    method, why = looked_at(report)
    title, dead = "Groups in which a reward is constant", over_time.dead(report)
    found.append(_of_rewards(title, "There it does nothing.", dead, order, steps))
    if method and comparable(report):
        shares = over_time.shares(report, method)
        found.append(_of_rewards("Shares of the update", f"Under {NAMES[method]}, {why}.", shares, order, steps))
    return found + _together(report)


def _together(report: AuditReport) -> list[Html]:
    """Which rewards go together, over time."""
    steps, pairs = over_time.steps(report), over_time.correlations(report)
    return [_of_pairs(pairs, steps)] if len(steps) > 1 and pairs else []


def _constant(report: AuditReport) -> list[Html]:
    bars = [
        svg.Bars(r["name"], None, [svg.Bar("", look(k), r["dead_groups"], percent(r["dead_groups"]), True)])
        for k, r in enumerate(report.rewards)
    ]
    said = "; ".join(f"{r['name']} {percent(r['dead_groups'])}" for r in report.rewards)
    caption = "Share of the groups in which every response has the same value of it. There it does nothing."
    behind = table(["reward", "constant"], [[r["name"], percent(r["dead_groups"])] for r in report.rewards])
    return [_figure("Groups in which a reward is constant", caption, svg.grouped_bars(bars, f"{said}."), behind)]


def _held(report: AuditReport) -> list[Html]:
    rows = [
        tag(
            "li", svg.yes() if there else svg.no(), tag("div", tag("b", what), tag("span", tells)), kind=f"held-{there}"
        )
        for what, there, tells in held(report)
    ]
    said = tag("figcaption", tag("b", "What this log holds"), " ", "And what can be told from it.")
    return [tag("figure", said, tag("ul", *rows, kind="held"))]


# What explains a finding; of the others, which are about the log, what it holds.
_EXPLAINS: dict[str, Sequence[Callable[[AuditReport], list[Html]]]] = {
    **dict.fromkeys(("", "reward-dominates", "reward-noise", "weight-zero", "method-not-as-asked"), (_shares,)),
    **dict.fromkeys(
        ("ties-hide-signal", "silent-groups", "priority-inversion", "batch-step-amplifies"), (_told_apart,)
    ),
    **dict.fromkeys(("reward-dead", "reward-fades", "blind-zero-std-metric", "filter-drops-signal"), (_constant,)),
    **dict.fromkeys(("conflict", "length-coupled"), (_together, _shares)),
    **dict.fromkeys(
        (
            "advantages-not-reproduced",
            "eval-overwrote",
            "missing-rewards",
            "no-components",
            "not-in-score",
            "prompts-merged",
            "ragged-batches",
            "reward-columns-merged",
            "score-not-a-sum",
            "steps-missing",
            "steps-repeated",
        ),
        (_held,),
    ),
}


def _of_rewards(
    title: str, caption: str, series: Mapping[str, Series], order: Mapping[str, int], steps: Sequence[int]
) -> Html:
    told = "; ".join(f"{name} {_drift(values, percent)}" for name, values in series.items())
    below = min((x for values in series.values() for x in values if x is not None), default=0)
    drawn = svg.lines(
        [svg.Line(values, look(order[name]), svg.dash(order[name])) for name, values in series.items()],
        steps,
        f"{title} over {len(steps)} steps: {told}.",
        -0.5 if below < -0.005 else 0.0,
        1.0,
        share=True,
    )
    key = _key([(look(order[name]), svg.dash(order[name]), name) for name in series])
    return _figure(title, caption, join(drawn, key), _steps_table(steps, series, percent))


def _of_pairs(pairs: Mapping[tuple[str, str], Series], steps: Sequence[int]) -> Html:
    def size(pair: tuple[str, str]) -> float:
        there = [x for x in pairs[pair] if x is not None]
        return abs(sum(there)) / len(there) if there else -1.0

    shown = sorted(pairs, key=size, reverse=True)[:_PAIRS]
    named = {f"{i} and {j}": pairs[i, j] for i, j in shown}
    told = "; ".join(f"{name} {_drift(values, number)}" for name, values in named.items())
    looks = [(f"p{k // len(svg.DASHES)}", svg.DASHES[k % len(svg.DASHES)]) for k in range(len(named))]
    drawn = svg.lines(
        [svg.Line(values, *how) for values, how in zip(named.values(), looks, strict=True)],
        steps,
        f"Correlation of rewards inside groups over {len(steps)} steps: {told}.",
        -1.0,
        1.0,
    )
    key = _key([(*how, name) for how, name in zip(looks, named, strict=True)])
    said = "Inside groups. Below 0, one reward is had at the cost of the other."
    if len(pairs) > len(shown):
        said += f" The {len(shown)} strongest of {len(pairs)} pairs."
    return _figure("Correlation between rewards", said, join(drawn, key), _steps_table(steps, named, number))


def _drift(series: Series, words: Callable[[float | None], str]) -> str:
    first, last = over_time.quarters(series)
    return f"{words(first)} in the first quarter to {words(last)} in the last"


def _steps_table(steps: Sequence[int], series: Mapping[str, Series], words: Callable[[float | None], str]) -> Html:
    every = -(-len(steps) // _ROWS)
    kept = sorted({*range(0, len(steps), every), len(steps) - 1})
    rows = [[steps[i], *(words(values[i]) for values in series.values())] for i in kept]
    return table(["step", *series], rows, caption="" if every == 1 else f"{len(rows)} of {len(steps)} steps")


def _key(entries: Sequence[tuple[str, str, str]]) -> Html:
    """The look, the dashes and the name of each line."""
    drawn = ((svg.sample(kind, dashes), name) for kind, dashes, name in entries)
    return legend(drawn)


def _figure(title: str, caption: str, drawn: Html, behind: Html) -> Html:
    said = tag("figcaption", tag("b", title), " ", caption)
    return tag("figure", said, drawn, fold("Numbers", behind))
