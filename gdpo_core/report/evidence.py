"""The evidence of a finding as one small picture: a few bars against the threshold, or the steps that it is about."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import isfinite
from typing import cast

from gdpo_core._words import count, decimal, listing, number, percent, signed
from gdpo_core.conventions import NAMES
from gdpo_core.report import over_time, svg
from gdpo_core.report.figures import Figure, described, held, look
from gdpo_core.report.sentences import comparable
from gdpo_core.runs.audit_report import AuditReport
from gdpo_core.runs.facts import Finding

_PLAIN = "p0"  # the look of a bar that belongs to no method and no reward
_OF_METHODS = {name: method for method, name in NAMES.items()}  # the look of a method's bar, by its name


def evidence(report: AuditReport, finding: Finding) -> Figure | None:
    """The picture of a finding; None where its evidence holds nothing to draw."""
    draw = _PICTURES.get(finding.id)
    figure = draw(report, finding) if draw else None
    if figure is None:
        return None
    return replace(figure, title=finding.title if figure.rows else figure.title, kind="small")


# --- bars ------------------------------------------------------------------------------------------------------------


def _bars(
    caption: str,
    groups: Mapping[str, Mapping[str, object]],
    looks: Mapping[str, str] | None = None,
    mark: object = None,
    words: Callable[[float | None], str] = percent,
    ends: tuple[float, float] = (0.0, 1.0),
) -> Figure | None:
    """Bars with their names, in groups; those without a number are left out. mark: the threshold, an upright line."""
    known = {
        title: {name: float(x) for name, x in bars.items() if isinstance(x, int | float) and isfinite(x)}
        for title, bars in groups.items()
    }
    drawn = [
        svg.Bars(
            title,
            None,
            [svg.Bar(name, (looks or {}).get(name, _PLAIN), x, words(x), False) for name, x in bars.items()],
            mark if isinstance(mark, int | float) else None,
        )
        for title, bars in known.items()
        if bars
    ]
    if not drawn:
        return None
    rows = [{"of": group.title, "bar": bar.name, "value": bar.value} for group in drawn for bar in group.bars]
    if isinstance(mark, int | float):
        caption += f" The upright line is the threshold, {words(mark)}."
    return Figure(drawn[0].title, caption, svg.grouped_bars(drawn, f"{described(drawn)}.", *ends), rows)


def _of_methods(report: AuditReport, finding: Finding, key: str) -> dict[str, object]:
    """A number per method, from the evidence `key_method`."""
    return {NAMES[m]: finding.evidence.get(f"{key}_{m}") for m in report.methods}


def _dominates(report: AuditReport, finding: Finding) -> Figure | None:
    e = finding.evidence
    own = str(e.get("method", "grpo"))
    bars = {"its weight": e.get("weight_share"), NAMES[own]: e.get("update_share")}
    bars |= {NAMES["gdpo"]: e.get("update_share_gdpo")}
    title = f"{e.get('reward')}: share of the update"
    ends = _ends_of_shares(_numbers(bars))
    return _bars(
        "Its share of the weights, and of the update.", {title: bars}, _OF_METHODS, e.get("threshold"), ends=ends
    )


def _dead(report: AuditReport, finding: Finding) -> Figure | None:
    e = finding.evidence
    dead = {r["name"]: r["dead_groups"] for r in report.rewards}
    looks = {name: look(k) for k, name in enumerate(dead)}
    return _bars(
        "A reward does nothing in a group where it is constant.",
        {"Groups in which it is constant": dead},
        looks,
        e.get("threshold"),
    )


def _dead_in_part(report: AuditReport, finding: Finding) -> Figure | None:
    e = finding.evidence
    bars = {**cast(Mapping[str, object], e["dead_groups"]), "the other groups": e["dead_groups_of_others"]}
    return _bars("By its values.", {f"Groups in which {e['reward']} is constant": bars}, None, e["threshold"])


def _fades(report: AuditReport, finding: Finding) -> Figure | None:
    e = finding.evidence
    quarters = {"first quarter": "first_quarter", "last quarter": "last_quarter"}
    groups = {
        f"{e['reward']}: groups in which it is constant": {n: e.get(f"dead_groups_{q}") for n, q in quarters.items()},
        "Its part of the update": {n: e.get(f"update_share_{q}") for n, q in quarters.items()},
    }
    ends = _ends_of_shares([x for bars in groups.values() for x in _numbers(bars)])
    return _bars("At the start of the run, and at its end.", groups, ends=ends)


def _noise(report: AuditReport, finding: Finding) -> Figure | None:
    e = finding.evidence
    shares = {NAMES[m]: e.get(f"update_share_{m}") for m in ("grpo", "gdpo")}
    groups = {
        f"{e['reward']}: share of the update": shares,
        "Groups in which it differs by next to nothing": {"": e["faint_groups"]},
    }
    return _bars("What GDPO makes of small differences.", groups, _OF_METHODS)


def _ties(report: AuditReport, finding: Finding) -> Figure | None:
    e = finding.evidence
    bars = {NAMES[str(e["method"])]: e.get("groups_with_ties"), NAMES["gdpo"]: e.get("groups_with_ties_gdpo")}
    return _bars(
        "Of the groups whose rewards differ.",
        {"Groups where different responses tie": bars},
        _OF_METHODS,
        e.get("threshold"),
    )


def _silent(report: AuditReport, finding: Finding) -> Figure | None:
    bars = _of_methods(report, finding, "silent_groups")
    shown = {"Groups in which every advantage is 0": bars}
    return _bars("They add nothing to the gradient.", shown, _OF_METHODS, finding.evidence.get("threshold_info"))


def _inversion(report: AuditReport, finding: Finding) -> Figure | None:
    primary = finding.evidence["primary"]
    groups = {
        f"The response with less {primary} gets more": _of_methods(report, finding, "inversions"),
        "Both get the same": _of_methods(report, finding, "tied"),
    }
    return _bars(f"Of the pairs that differ in {primary}.", groups, _OF_METHODS)


def _amplified(report: AuditReport, finding: Finding) -> Figure | None:
    e = finding.evidence
    bars = {"on average": e["factor"], "at most": e["largest_factor"]}
    high = max(2.0, *_numbers(bars))
    title = "Factor by which the advantages grow"
    return _bars(
        "1 without silent groups.", {title: bars}, None, e["threshold_info"], lambda x: decimal(x, 2), (0.0, high)
    )


def _blind(report: AuditReport, finding: Finding) -> Figure | None:
    e = finding.evidence
    bars = {str(e["reward"]): e["dead_groups"], "the sum": e["groups_with_constant_sum"]}
    return _bars("What acts, and what a metric of the sum sees.", {"Groups in which it is constant": bars})


def _filtered(report: AuditReport, finding: Finding) -> Figure | None:
    groups = {"Groups that it would drop though their rewards differ": {"": finding.evidence["share"]}}
    return _bars("Their rewards cancel in the sum.", groups)


def _correlated(report: AuditReport, finding: Finding) -> Figure | None:
    e = finding.evidence
    names = cast(list[str], e.get("rewards") or [e["reward"], "length"])
    title = f"{listing(names)}: correlation inside groups"
    at = e["threshold"]
    if isinstance(at, float) and float(cast(float, e["correlation"])) * at < 0:
        at = -at
    return _bars("From −1 to 1.", {title: {"": e["correlation"]}}, None, at, signed, (-1.0, 1.0))


def _weights(report: AuditReport, finding: Finding) -> Figure | None:
    e = finding.evidence
    given, made = (cast(Mapping[str, float], e[key]) for key in ("given", "logged"))
    groups = {name: {"given": given[name], "in the log": made[name]} for name in given}
    ends = _ends_of_weights([*given.values(), *made.values()])
    return _bars("Up to a common factor.", groups, None, None, number, ends)


def _zero(report: AuditReport, finding: Finding) -> Figure | None:
    used = report.run["weights_used"]
    looks = {name: look(k) for k, name in enumerate(used)}
    return _bars(
        "As the advantages show them.", {"Weights": used}, looks, None, number, _ends_of_weights(list(used.values()))
    )


def _missing(report: AuditReport, finding: Finding) -> Figure | None:
    responses = report.source["responses"]
    missing = {r["name"]: r["missing"] / responses for r in report.rewards if r["missing"]}
    looks = {r["name"]: look(k) for k, r in enumerate(report.rewards)}
    return _bars(f"Of {count(responses, 'response')}.", {"Responses without a value": missing}, looks)


def _asked(report: AuditReport, finding: Finding) -> Figure | None:
    if not comparable(report):
        return None
    methods = [str(finding.evidence[key]) for key in ("asked", "found")]
    groups = {r["name"]: {NAMES[m]: r["update_share"].get(m) for m in methods} for r in report.rewards}
    ends = _ends_of_shares([x for bars in groups.values() for x in _numbers(bars)])
    return _bars("Share of the update under both.", groups, _OF_METHODS, ends=ends)


def _part_of(key: str, whole: str, title: str, caption: str) -> Callable[[AuditReport, Finding], Figure | None]:
    """One bar: a count of the evidence, as a share of another."""

    def draw(report: AuditReport, finding: Finding) -> Figure | None:
        part, of = finding.evidence.get(key), finding.evidence.get(whole)
        if not isinstance(part, int) or not isinstance(of, int) or not of:
            return None
        return _bars(caption, {title: {"": part / of}}, None, None, lambda _: f"{count(part)} of {count(of)}")

    return draw


def _numbers(bars: Mapping[str, object]) -> list[float]:
    return [float(x) for x in bars.values() if isinstance(x, int | float) and isfinite(x)]


def _ends_of_shares(values: Sequence[float]) -> tuple[float, float]:
    """0 to 1, or further where a share of the update is."""
    return -0.5 if min(values, default=0) < 0 else 0.0, 1.5 if max(values, default=0) > 1 else 1.0


def _ends_of_weights(weights: Sequence[float]) -> tuple[float, float]:
    """From 0 to the largest, or as far below 0 where one is negative."""
    high = max(map(abs, weights)) or 1.0
    return -high if min(weights) < 0 else 0.0, high


# --- steps -----------------------------------------------------------------------------------------------------------


def _steps(report: AuditReport, finding: Finding) -> Figure | None:
    """The steps of the log on a line, those of the finding marked; a gap is a step that is missing."""
    about = {step for step in cast(list[int], finding.evidence.get("steps", [])) if isinstance(step, int)}
    marked = {step: step in about for step in sorted({*over_time.steps(report), *about})}
    span = f"Steps in the log, from {min(marked)} to {max(marked)}"
    caption = f"{span}; marked: those of this finding." if about else f"{span}; a gap is what is missing."
    rows = [{"step": step, "marked": int(strong)} for step, strong in marked.items()]
    return Figure("Steps in the log", caption, svg.strip(marked, caption), rows, number)


def _unreproduced(report: AuditReport, finding: Finding) -> Figure | None:
    """The steps that differ, or what of the log there is to compare with."""
    return _steps(report, finding) if finding.evidence.get("steps") else held(report)


def _log(report: AuditReport, finding: Finding) -> Figure | None:
    return held(report)


_PICTURES: dict[str, Callable[[AuditReport, Finding], Figure | None]] = {
    "reward-dominates": _dominates,
    "reward-starved": _dominates,
    "reward-dead": _dead,
    "reward-dead-in-part": _dead_in_part,
    "reward-fades": _fades,
    "reward-noise": _noise,
    "conflict": _correlated,
    "length-coupled": _correlated,
    "weight-zero": _zero,
    "weights-not-as-given": _weights,
    "ties-hide-signal": _ties,
    "silent-groups": _silent,
    "priority-inversion": _inversion,
    "batch-step-amplifies": _amplified,
    "blind-zero-std-metric": _blind,
    "filter-drops-signal": _filtered,
    "method-not-as-asked": _asked,
    "missing-rewards": _missing,
    "steps-missing": _steps,
    "steps-repeated": _steps,
    "eval-overwrote": _steps,
    "group-size-changes": _steps,
    "rows-missing": _steps,
    "eval-logged": _steps,
    "advantages-not-reproduced": _unreproduced,
    "no-components": _log,
    "files-left-out": _log,
    "rewards-collinear": _log,
    "score-not-a-sum": _log,
    "not-in-score": _log,
    "prompts-merged": _log,
    "groups-sampled": _log,
    "reward-columns-merged": _part_of(
        "hidden_groups", "groups", "Groups that the logged rewards cannot explain", "Equal rewards, other advantages."
    ),
    "ragged-batches": _part_of("batches", "of", "Batches that lack responses", "Their groups are taken as they are."),
}
