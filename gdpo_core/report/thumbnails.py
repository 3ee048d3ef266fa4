"""A finding as one small picture, where a picture says more than its number: of several rewards, methods or steps."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import isfinite
from typing import cast

from gdpo_core._words import number, percent
from gdpo_core.conventions import NAMES
from gdpo_core.report import over_time, svg
from gdpo_core.report.figures import Figure, describe, reward_look
from gdpo_core.report.summary import comparable
from gdpo_core.runs.audit_report import AuditReport
from gdpo_core.runs.facts import Finding

_PLAIN = "p0"  # the look of a bar that belongs to no method and no reward
_LOOKS_OF_METHODS = {name: method for method, name in NAMES.items()}


def thumbnail(report: AuditReport, finding: Finding) -> Figure | None:
    """The picture of a finding; None where its numbers say as much."""
    draw = THUMBNAILS.get(finding.id)
    figure = draw(report, finding) if draw else None
    return replace(figure, title=finding.title, kind="small") if figure else None


# --- bars ------------------------------------------------------------------------------------------------------------


def _bars(
    caption: str,
    groups: Mapping[str, Mapping[str, object]],
    looks: Mapping[str, str] = _LOOKS_OF_METHODS,
    mark: object = None,
    words: Callable[[float | None], str] = percent,
    ends: tuple[float, float] = (0.0, 1.0),
) -> Figure | None:
    """Bars with their names, in groups; those without a number are left out. mark: the threshold, an upright line."""
    threshold = mark if isinstance(mark, int | float) else None
    drawn = [
        svg.Bars(
            title,
            None,
            [svg.Bar(name, looks.get(name, _PLAIN), x, words(x), False) for name, x in _numbers(bars).items()],
            threshold,
        )
        for title, bars in groups.items()
        if _numbers(bars)
    ]
    if not drawn:
        return None
    rows = [{"of": group.title, "bar": bar.name, "value": bar.value} for group in drawn for bar in group.bars]
    if threshold is not None:
        caption += f" The upright line is the threshold, {words(threshold)}."
    return Figure(drawn[0].title, caption, svg.grouped_bars(drawn, f"{describe(drawn)}.", *ends), rows)


def _numbers(bars: Mapping[str, object]) -> dict[str, float]:
    """Those bars that have a number."""
    return {name: float(x) for name, x in bars.items() if isinstance(x, int | float) and isfinite(x)}


def _shares(caption: str, groups: Mapping[str, Mapping[str, object]], mark: object = None) -> Figure | None:
    """Bars from 0 to 1, or further where a share of the update is."""
    shares = [x for bars in groups.values() for x in _numbers(bars).values()]
    ends = -0.5 if min(shares, default=0) < 0 else 0.0, 1.5 if max(shares, default=0) > 1 else 1.0
    return _bars(caption, groups, mark=mark, ends=ends)


def _share_of_the_update(report: AuditReport, finding: Finding) -> Figure | None:
    e = finding.evidence
    bars = {"its weight": e.get("weight_share"), NAMES[str(e.get("method", "grpo"))]: e.get("update_share")}
    bars |= {NAMES["gdpo"]: e.get("update_share_gdpo")}
    caption = "Its share of the weights, and of the update."
    return _shares(caption, {f"{e.get('reward')}: share of the update": bars}, e.get("threshold"))


def _constant(report: AuditReport, finding: Finding) -> Figure | None:
    dead = {r["name"]: r["dead_groups"] for r in report.rewards}
    looks = {name: reward_look(k) for k, name in enumerate(dead)}
    caption = "A reward does nothing in a group where it is constant."
    return _bars(caption, {"Groups in which it is constant": dead}, looks, finding.evidence.get("threshold"))


def _constant_by_value(report: AuditReport, finding: Finding) -> Figure | None:
    e = finding.evidence
    bars = {**cast(Mapping[str, object], e["dead_groups"]), "the other groups": e["dead_groups_of_others"]}
    return _bars("By its values.", {f"Groups in which {e['reward']} is constant": bars}, {}, e["threshold"])


def _first_and_last_quarter(report: AuditReport, finding: Finding) -> Figure | None:
    e = finding.evidence
    quarters = {"first quarter": "first_quarter", "last quarter": "last_quarter"}
    groups = {
        f"{e['reward']}: groups in which it is constant": {n: e.get(f"dead_groups_{q}") for n, q in quarters.items()},
        "Its part of the update": {n: e.get(f"update_share_{q}") for n, q in quarters.items()},
    }
    return _shares("At the start of the run, and at its end.", groups)


def _order(report: AuditReport, finding: Finding) -> Figure | None:
    e = finding.evidence
    kinds = {"inversions": f"The response with less {e['primary']} gets more", "tied": "Both get the same"}
    groups = {title: {NAMES[m]: e.get(f"{key}_{m}") for m in report.methods} for key, title in kinds.items()}
    return _bars(f"Of the pairs that differ in {e['primary']}.", groups)


def _shares_under_both(report: AuditReport, finding: Finding) -> Figure | None:
    if not comparable(report):
        return None
    methods = [str(finding.evidence[key]) for key in ("asked", "found")]
    groups = {r["name"]: {NAMES[m]: r["update_share"].get(m) for m in methods} for r in report.rewards}
    return _shares("Share of the update under both.", groups)


def _weights(report: AuditReport, finding: Finding) -> Figure | None:
    given, logged = (cast(Mapping[str, float], finding.evidence[key]) for key in ("given", "logged"))
    groups = {name: {"given": given[name], "in the log": logged[name]} for name in given}
    weights = [*given.values(), *logged.values()]
    high = max(map(abs, weights)) or 1.0
    return _bars("Up to a common factor.", groups, {}, None, number, (-high if min(weights) < 0 else 0.0, high))


# --- steps -----------------------------------------------------------------------------------------------------------


def _steps(report: AuditReport, finding: Finding) -> Figure:
    """The steps of the log on a line, those of the finding marked; a gap is a step that is missing."""
    about = {step for step in cast(Sequence[object], finding.evidence.get("steps", [])) if isinstance(step, int)}
    marked = {step: step in about for step in sorted({*over_time.steps(report), *about})}
    span = f"Steps in the log, from {min(marked)} to {max(marked)}"
    caption = f"{span}; marked: those of this finding." if about else f"{span}; a gap is what is missing."
    rows = [{"step": step, "marked": int(strong)} for step, strong in marked.items()]
    return Figure("Steps in the log", caption, svg.strip(marked, caption), rows, number)


def _steps_if_some(report: AuditReport, finding: Finding) -> Figure | None:
    return _steps(report, finding) if finding.evidence.get("steps") else None


THUMBNAILS: dict[str, Callable[[AuditReport, Finding], Figure | None]] = {
    "reward-dominates": _share_of_the_update,
    "reward-starved": _share_of_the_update,
    "reward-dead": _constant,
    "reward-dead-in-part": _constant_by_value,
    "reward-fades": _first_and_last_quarter,
    "priority-inversion": _order,
    "method-not-as-asked": _shares_under_both,
    "weights-not-as-given": _weights,
    "steps-missing": _steps,
    "steps-repeated": _steps,
    "eval-overwrote": _steps,
    "group-size-changes": _steps,
    "rows-missing": _steps,
    "eval-logged": _steps,
    "advantages-not-reproduced": _steps_if_some,
}
