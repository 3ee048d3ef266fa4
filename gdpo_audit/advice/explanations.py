"""Answers on what GDPO changes in other respects than the push on rewards: the order of pairs, the shares of the
update, ties, constant rewards, conflicts and noise. Each answer has an effect, a title and a sentence. The answer about
the push on the primary reward decides the verdict and is made in `advice.py`; the answers here explain it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import isnan
from typing import cast

from gdpo_audit.advice.push_changes import change_of_primary, compared_methods, nan_if_none
from gdpo_audit.report.audit_report import AuditReport
from gdpo_audit.report.summary import wanted
from gdpo_audit.thresholds import FAINT_STD, MOVED
from gdpo_core.conventions import NAMES
from gdpo_core.shared.words import percent, signed

EFFECTS = {  # each effect that GDPO may have in one respect, with the words for it
    "helps": "helps",
    "mixed": "a trade-off",
    "steps": "longer steps",
    "nothing": "changes nothing",
    "hurts": "hurts",
    "unknown": "not known",
}
# The least difference that counts: in the share of pairs in the wrong order, and in the share of tied pairs.
ORDER, _TIED = 0.01, 0.01
SILENT = 0.1  # the share of silent groups from which on GDPO's batch step makes the others much longer
UNDONE = 2.0  # weights undo the scales if their largest ratio is at least so many times that of weight × std


@dataclass(frozen=True)
class Answer:
    """An answer to what GDPO would change in one respect, such as ties: its effect, a title, and a sentence."""

    effect: str  # a key of EFFECTS
    title: str
    sentence: str  # what stands between two ** is bold
    at: str  # the chapter of the page that shows it
    scenario: str = ""  # the scenario of the chapter Train that shows it, if one does
    headline: str = ""  # the words that the verdict has to begin with; "" if this answer leaves them open
    decides: bool = False  # whether this is the answer about the push, by which the verdict goes


def effect_on(report: AuditReport, better: int) -> str:
    """Return GDPO's effect, a key of EFFECTS, in respect of one figure of a report, such as its ties.

    Without a change of the figure the effect is "nothing". Otherwise it depends on how GDPO moves the push on the
    primary reward:

    - The push rises, or falls if the run wants less of that reward: a better figure "helps"; a worse figure is "mixed",
      as it may be worth it.
    - The push stays: a better figure changes "nothing"; a worse figure "hurts".
    - The push changes the other way: a better figure is "mixed"; a worse figure "hurts".
    - The push is not known, as without a primary reward: the effect is "mixed".

    better: how GDPO changes the figure: 1 for better, -1 for worse, 0 for no change.
    """
    change = change_of_primary(report)
    if change is None:
        return "mixed" if better else "nothing"
    if better > 0:
        return {1: "helps", 0: "nothing", -1: "mixed"}[change.sign]
    if better < 0:
        return "mixed" if change.sign > 0 else "hurts"
    return "nothing"


def evidence_of(report: AuditReport, finding: str) -> Mapping[str, object] | None:
    """Return the evidence of the first finding that has this id; None where the report has no such finding."""
    return next((x.evidence for x in report.findings if x.id == finding), None)


def inversions(report: AuditReport, method: str) -> float:
    """Return the share of pairs in the wrong order under a method, of the pairs that differ in the primary reward; NaN
    where no reward is primary, or where no pair differs in it.
    """
    return nan_if_none(report.methods[method]["inversions"])


def order(report: AuditReport) -> Answer | None:
    """Return the answer about pairs in the wrong order; None where no reward is primary, or where the report finds that
    the advantages are upside down.
    """
    first = report.run["primary"]
    if first is None or evidence_of(report, "advantages-upside-down"):
        return None
    title = "Pairs in the wrong order"
    after, before = inversions(report, "gdpo"), {m: inversions(report, m) for m in compared_methods(report)}
    direction = wanted(report)[first]
    if not direction:
        return Answer("nothing", title, f"The run wants {first} neither higher nor lower.", "lab")
    if isnan(after):
        return Answer("nothing", title, f"No two answers of a group differ in {first}.", "lab")
    best = min(before, key=lambda m: before[m])
    more = round(after - before[best], 9)  # without the round-off of a difference
    places = next((n for n in range(6) if percent(after, n) != percent(before[best], n)), 0)
    gdpo, best_before = percent(after, places), percent(before[best], places)
    method = NAMES[best] + ("" if best == "grpo" else " (which runs)")
    effect = effect_on(report, -1 if more >= ORDER else 1 if more <= -ORDER else 0)
    worse = "higher" if direction < 0 else "lower"
    near = f", less than {100 * ORDER:.0f} point apart" if abs(more) < ORDER and more else ""
    sentence = (
        f"A pair of answers that differ in {first} is in the wrong order if the answer that scores {worse} on it gets "
        f"the larger advantage. This holds for **{best_before}** of these pairs under {method}, and for **{gdpo}** "
        f"under GDPO{near}. A tied pair is in neither order."
    )
    return Answer(effect, title, sentence + _not_followed(report, effect, abs(more) >= ORDER), "evidence")


def _not_followed(report: AuditReport, effect: str, differs: bool) -> str:
    """Return the sentence that says whether the push on the primary reward rises, stays or falls, and that training
    goes by the push.

    An answer gets this sentence if GDPO changes the answer's figure, and yet the answer's effect is neither "helps" nor
    "hurts". The text is empty for any other answer, and where the push is not known.

    effect: the answer's effect, a key of EFFECTS.
    differs: whether GDPO changes the figure by as much as the check counts as a change.
    """
    change = change_of_primary(report)
    if not differs or change is None or effect in ("helps", "hurts"):
        return ""
    moves = {1: "rises", 0: "stays as it is", -1: "falls"}[change.sign * (change.wanted or 1)]
    return f" The push on {change.name} {moves}, and training goes by the push."


def scales(report: AuditReport) -> Answer:
    """Return the answer about the share of the update that each reward accounts for."""
    title, names, first = "Shares of the update", [r["name"] for r in report.rewards], report.run["primary"]
    known = {
        m: [nan_if_none(r["update_share"][m]) for r in report.rewards] for m in (*compared_methods(report), "gdpo")
    }
    weights = [report.run["weights_used"][name] for name in names]
    if any(isnan(share) for shares in known.values() for share in shares):
        silent = not any(weights) or all(report.methods[m]["silent_groups"] == 1 for m in known)
        why = "There is no update, because every advantage is 0."
        why = why if silent else "The shares are not known, because some rewards say the same as others."
        return Answer("nothing", title, why, "train", "live")
    gdpo = known.pop("gdpo")
    # GDPO is held against the method, GRPO or what runs, that does more for the reward that matters most.
    method = "grpo" if first is None else max(known, key=lambda m: known[m][names.index(first)])
    now = known[method]
    moved = [after - before for before, after in zip(now, gdpo, strict=True)]
    most = max(range(len(names)), key=lambda k: abs(moved[k]))
    under, has = f"under {NAMES[method]}", "accounts for" if min(*now, *gdpo) >= 0 else "has a share of"
    phrases = [
        f"{has} **{percent(before)}** of the update {under} and **{percent(after)}** under GDPO"
        for before, after in zip(now, gdpo, strict=True)
    ]
    told = f"{names[most]} {phrases[most]}"
    if abs(moved[most]) < MOVED:
        near = f"No share of a reward changes by {100 * MOVED:.0f} points or more."
        return Answer("nothing", title, f"{told}. {near}", "train", "equal")
    if undone(report):
        undo = "The weights seem to undo the scales already; under GDPO they make the rewards unequal again"
        return Answer(effect_on(report, -1), title, f"{told}. {undo}.", "train", "undone")
    if first is None:
        return Answer("mixed", title, f"{told}. Whether that is better is open.", "train", "difficulty")
    k = names.index(first)
    matters = f"{first}, which matters most, {phrases[k]}." + ("" if k == most else f" {told}.")
    # A larger share is only praised for the reward that matters most, if another had more before, and if the push on it
    # grows too.
    if moved[k] >= MOVED and now[k] < max(now):
        return Answer(effect_on(report, 1), title, matters, "train", "scales")
    return Answer(effect_on(report, -1) if moved[k] <= -MOVED else "mixed", title, matters, "train", "difficulty")


def undone(report: AuditReport) -> bool:
    """Return whether the weights of a report seem to undo the scales of its rewards: under GRPO, which adds weight
    times reward, the rewards then count more equally than their weights say.
    """
    weights = (report.run["weights_used"][r["name"]] for r in report.rewards)
    sizes = [(abs(w), abs(w) * (r["std"] or 0.0)) for w, r in zip(weights, report.rewards, strict=True) if w]
    if not sizes:
        return False
    of_weights, of_products = [max(x) / min(x) if min(x) else float("inf") for x in zip(*sizes, strict=True)]
    return of_weights >= UNDONE * of_products


def ties_answer(report: AuditReport) -> Answer:
    """Return the answer about ties: pairs of responses with different rewards and the same advantage."""
    grpo, gdpo = (nan_if_none(report.methods[m]["tied_pairs"]) for m in ("grpo", "gdpo"))
    if isnan(grpo) or isnan(gdpo):
        return Answer("nothing", "Ties", "No two answers of a group have different rewards.", "lab")
    sentence = f"Of the pairs of answers with different rewards, GRPO ties **{percent(grpo)}** and GDPO "
    sentence += f"**{percent(gdpo)}**."
    moved = abs(grpo - gdpo) >= _TIED
    effect = effect_on(report, (1 if grpo > gdpo else -1) if moved else 0)
    return Answer(effect, "Ties", sentence + _not_followed(report, effect, moved), "lab")


def constant(report: AuditReport) -> Answer:
    """Return the answer about groups in which a reward is constant, or in which every advantage is 0."""
    title, silent = "Zero-variance groups", report.methods["gdpo"]["silent_groups"] or 0.0
    dead = {r["name"]: r["dead_groups"] for r in report.rewards}
    rare = max(dead, key=lambda name: dead[name])
    if silent == 1:
        return Answer("nothing", title, "No group teaches anything, under any method.", "train", "live")
    if silent >= SILENT:
        sentence = (
            f"**{percent(silent)}** of the groups teach nothing, and GDPO's batch step makes the advantages of the "
            f"others about {(1 / (1 - silent)) ** 0.5:.1f} times as large. That acts like a larger learning rate, but "
            "aims no better."
        )
        return Answer("steps", title, sentence, "train", "live")
    rarely = f"{rare} is constant in **{percent(dead[rare])}** of the groups, and no other reward in more."
    sentence = rarely if dead[rare] else "No reward is constant in any group."
    return Answer("nothing", title, sentence, "train", "difficulty")


def conflict_answer(report: AuditReport) -> Answer:
    """Return the answer about conflict: that two rewards pull against each other inside groups, or that no two do so
    strongly.
    """
    if evidence := evidence_of(report, "conflict"):
        (a, b), correlation = cast(list[str], evidence["rewards"]), signed(cast(float, evidence["correlation"]))
        sentence = (
            f"{a} and {b} pull against each other: their correlation inside groups is {correlation}. Under GDPO their "
            "weights alone decide which one gives way; a gate decides it whatever the weights are."
        )
        return Answer(effect_on(report, -1), "Conflict", sentence, "train", "gated")
    correlations = [(r["name"], partner, x) for r in report.rewards for partner, x in r["correlations"].items()]
    signs = wanted(report)
    pairs = [(signs[name] * signs[partner] * x, name, partner, x) for name, partner, x in correlations if x is not None]
    most, a, b, of_two = min(pairs, default=(0.0, "", "", 0.0))
    those = f" Those that do so most are {a} and {b}; their correlation inside groups is {signed(of_two)}."
    lower = those if most < 0 else ""
    sentence = f"No two rewards pull strongly against each other.{lower}"
    return Answer("nothing", "Conflict", sentence, "train", "conflict")


def noise_answer(report: AuditReport) -> Answer:
    """Return the answer about noise: that GDPO amplifies the noise of a nearly constant reward, or that no reward is so
    constant.
    """
    title = "Nearly constant rewards"
    if evidence := evidence_of(report, "reward-noise"):
        share = percent(cast(float, evidence["faint_groups"]))
        sentence = f"{evidence['reward']} is nearly constant in {share} of the groups in which it differs at all. "
        sentence += (
            "GDPO amplifies it until it counts as much as its weight says. This costs push on the other rewards."
        )
        return Answer(effect_on(report, -1), title, sentence, "train", "noise")
    sentence = (
        f"A reward is nearly constant in a group if its std there is at most {percent(FAINT_STD)} of its largest "
        "absolute value. GDPO amplifies such a reward until it counts as much as its weight says, but this matters "
        "for none of these rewards."
    )
    return Answer("nothing", title, sentence, "train", "noise")
