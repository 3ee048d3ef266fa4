"""Short answers to the question "Should I use GDPO?", from the report of an audit; the push decides."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isnan
from typing import cast

from gdpo_audit.auditing import audit
from gdpo_audit.findings.plan import changed
from gdpo_audit.findings.thresholds import FAINT_STD, MOVED
from gdpo_audit.logs.read import read_run
from gdpo_audit.push_changes import PushChange, change_of_primary, compared_methods, nan_if_none, push_changes
from gdpo_audit.report import summary
from gdpo_audit.report.audit_report import AuditReport
from gdpo_core._errors import expect
from gdpo_core._words import listing, percent, signed
from gdpo_core.conventions import NAMES

EFFECTS = {  # each effect that GDPO may have in one respect, with the words for it
    "helps": "helps",
    "mixed": "a trade-off",
    "steps": "longer steps",
    "nothing": "changes nothing",
    "hurts": "hurts",
    "unknown": "not known",
}
# The least difference that counts: in the share of pairs in the wrong order, and in the share of tied pairs.
ORDER, TIED = 0.01, 0.01
SILENT = 0.1  # the share of silent groups from which on GDPO's batch step makes the others much longer
UNDONE = 2.0  # weights undo the scales if their largest ratio is at least so many times that of weight × std


@dataclass(frozen=True)
class Answer:
    """The effect that GDPO has in one respect, such as ties: its key in EFFECTS, its title, and a sentence about it."""

    effect: str  # a key of EFFECTS
    title: str
    sentence: str  # what stands between two ** is bold
    at: str  # the chapter of the page that shows it
    scenario: str = ""  # the scenario of the chapter Train that shows it, if one does
    headline: str = ""  # what the verdict has to begin with
    decides: bool = False  # whether the verdict goes by this respect


def of_group(rewards: tuple[tuple[float, ...], ...], names: tuple[str, ...], weights: tuple[float, ...]) -> AuditReport:
    """Audit one group as if it were the log of a run, and return the report; the first reward is the primary one.

    rewards: (rollouts, rewards); names, weights: one per reward.

    >>> of_group(((1.0, 0.0), (0.0, 0.0)), ("right", "short"), (1.0, 1.0)).source["responses"]
    2
    """
    rows = [{"group": 0, **dict(zip(names, row, strict=True))} for row in rewards]
    run = read_run(rows, framework="generic", rewards=list(names), group="group")
    return audit(run, weights=dict(zip(names, weights, strict=True)), primary=names[0])


def advise(report: AuditReport) -> list[Answer]:
    """Return a list of answers to what GDPO would change on the rewards of a report, one per respect, such as ties.

    The answer about the push on the primary reward decides, together with its forecast if the report's plan holds one.
    The answers about the order, the shares and the ties explain it. A report on a single reward, or on a column that
    mixes several, gets one answer, which says so. Raises InputError if the argument is no report.

    >>> from gdpo_audit import audit, read_run
    >>> rows = [{"group": g, "right": a, "short": b} for g in range(40) for a, b in ((1, 0), (0, 1), (1, 1), (0, 0))]
    >>> [(answer.effect, answer.title) for answer in advise(audit(read_run(rows), primary="right"))][:2]
    [('nothing', 'Push on right'), ('nothing', 'Push on other rewards')]
    """
    expect(isinstance(report, AuditReport), "report", "what gdpo_audit.audit returns", type(report).__name__)
    if not summary.comparable(report):
        none = "**It cannot be told** from such a log."
        return [Answer("unknown", "Rewards apart", summary.not_comparable(report), "run", headline=none)]
    checks = (_push, _other_pushes, _order, _scales, _ties, _constant, _conflict, _noise)
    return [answer for check in checks if (answer := check(report)) is not None]


def verdict(judged: Sequence[Answer], caution: str = "") -> str:
    """Return the verdict on GDPO to which all answers come together, in one or a few sentences. caution: words to put
    before these, as where a log has too few groups to judge.

    >>> verdict([Answer("helps", "Ties", "", "lab"), Answer("nothing", "Conflict", "", "train")])
    '**Yes: with these rewards GDPO helps with the ties.** None of these checks speaks against it.'
    """
    headline = next((a.headline for a in judged if a.headline), "")
    rest = [a for a in judged if not a.headline]
    titles = {e: [f"the {a.title[:1].lower()}{a.title[1:]}" for a in rest if a.effect == e] for e in EFFECTS}
    good, both, bad = (listing(titles[effect]) if titles[effect] else "" for effect in ("helps", "mixed", "hurts"))
    mixed = f" It {'also ' * bool(good)}changes {both}, which is a trade-off." * bool(both)
    also = f" It helps with {good}." * bool(good) + mixed
    if headline or bad:
        hurts = f" What speaks against it: {bad}." * bool(bad)
        return f"{caution}{headline or '**Not as it stands.**'}{hurts}{also}"
    says = "**It would change next to nothing** on these rewards."
    if good:
        nothing_against = " None of these checks speaks against it."
        says = f"**Yes: with these rewards GDPO helps with {good}.**{mixed or nothing_against}"
    elif both:
        pushed = next((a.title for a in rest if a.decides and a.effect == "nothing"), "")
        says = f"**It hardly changes the {pushed[:1].lower() + pushed[1:]}.**" if pushed else "**It may help or hurt.**"
        says += mixed
    elif titles["steps"]:
        says = "**It would take longer steps** and aim no better."
    return caution + says


def priority(report: AuditReport) -> str:
    """Return sentences that say that no normalisation puts the primary reward first; a weight or a gate may."""
    first = report.run["primary"] or "the reward that matters most"
    return (
        f"No normalisation knows that **{first}** matters most. A larger weight on {first} helps. A gate makes sure "
        f"that {first} comes first, provided that the gated reward drops to its worst value where the gate is shut."
    )


# --- the push decides -------------------------------------------------------------------------------------------------


def _held(report: AuditReport, better: int) -> str:
    """Return a key of EFFECTS: the effect if GDPO makes a figure better (1) or worse (-1), or leaves it (0).

    A figure that stays has the effect nothing. Else it depends on the push on the primary reward. Where that rises, a
    better figure helps, and a worse one is mixed, as it may be worth it. Where the push stays, a better figure changes
    nothing; where it falls, a better figure is mixed; in both cases a worse one hurts. Where the push is not known, as
    without a primary reward, a better figure and a worse one are mixed.
    """
    change = change_of_primary(report)
    if change is None:
        return "mixed" if better else "nothing"
    if better > 0:
        return {1: "helps", 0: "nothing", -1: "mixed"}[change.sign]
    if better < 0:
        return "mixed" if change.sign > 0 else "hurts"
    return "nothing"


def _push(report: AuditReport) -> Answer:
    """Return the answer about the push on the primary reward, with a headline where the verdict must be no or stay
    open.
    """
    first = report.run["primary"]
    if first is None:
        names = listing((r["name"] for r in report.rewards), "or", most=6)
        headline = f"**Open:** name the reward that matters most ({names}). The methods are judged by how they push it."
        return Answer("unknown", "Push", "No reward is named as the one that matters most.", "run", headline=headline)
    title = f"Push on {first}"
    if _evidence_of(report, "advantages-upside-down"):
        headline = "**Not yet:** the advantages are upside down. Mend their sign first."
        return Answer(
            "unknown", title, "Weights below 0 turn the push round, under every method.", "run", headline=headline
        )
    change = change_of_primary(report)
    if change is None or isnan(_inversions(report, "gdpo")):
        return Answer("nothing", title, f"No two answers of a group differ in {first}.", "lab")
    under = NAMES[change.method] + (" (which runs)" if change.method != "grpo" else "")
    sentence = (
        f"The push on {first} is **{signed(change.before)}** under {under} and **{signed(change.after)}** under GDPO"
    )
    differs = signed(change.after) != signed(change.before)
    near = ", a difference that noise can make" if differs and not change.sign else ""
    effect, told, headline = _with_forecast(report, change)
    return Answer(effect, title, f"{sentence}{near}.{told}", "evidence", "", _stop(report, change) or headline, True)


def _with_forecast(report: AuditReport, change: PushChange) -> tuple[str, str, str]:
    """Return GDPO's effect on the primary reward (a key of EFFECTS), a sentence on its forecast, and a headline.

    change: the change of the push on that reward. The sentence is empty without a forecast. The headline begins the
    verdict if that must be no or stay open, and is empty otherwise.
    """
    effect = {1: "helps", 0: "nothing", -1: "hurts"}[change.sign]
    less = f"**Not as it stands:** GDPO pushes {change.name} less than {NAMES[change.method]} does."
    forecast = _forecast(report, change)
    if forecast is None:
        return effect, "", less if effect == "hurts" else ""
    difference, low, high = forecast
    by = changed({"difference": difference, "low": low, "high": high})
    told = f" Under GDPO the mean of {change.name} over the logged steps would have {by}."
    if effect == "hurts" or high < 0:
        return "hurts", told, less if effect == "hurts" else f"**Not as it stands:** {change.name} is forecast to fall."
    if effect == "helps" and low <= 0:
        return "unknown", told, f"**Open:** GDPO pushes {change.name} more, but the forecast does not exclude a loss."
    return effect, told, ""


def _forecast(report: AuditReport, change: PushChange) -> tuple[float, float, float] | None:
    """Return the forecast change of a reward under GDPO, and the lower and upper end of its interval; None without one.

    It is the forecast of the plan's row with GDPO, the run's weights and no gate. There is none if `change` compares
    GDPO with another method than that of the plan's first row, which is the run as it was.
    """
    for row in report.plan[1:]:
        ran = report.plan[0]
        alike = row.method == "gdpo" and row.gate is None and row.weights == ran.weights and ran.method == change.method
        told = (row.forecast or {}).get(change.name) if alike else None
        if told is not None and told["difference"] is not None and told["low"] is not None and told["high"] is not None:
            return told["difference"], told["low"], told["high"]
    return None


def _stop(report: AuditReport, change: PushChange) -> str:
    """Return the headline that says why no method serves the primary reward; an empty one where some method may."""
    name, wrong = change.name, [_inversions(report, m) for m in (*compared_methods(report), "gdpo")]
    if not any(report.run["weights_used"].values()):
        return "**Not as it stands:** every reward has the weight 0, so the model learns nothing under any method."
    if not report.run["weights_used"][name]:
        return f"**Not as it stands:** {name} matters most and has the weight 0, so only the other rewards push it."
    if max(change.before, change.after) <= 0:
        return f"**Not as it stands:** no method's update raises {name}."
    if min(wrong) > 0.5:
        return (
            f"**Not as it stands:** of the pairs that differ in {name}, more than half are in the wrong order under "
            "every method."
        )
    return ""


def _other_pushes(report: AuditReport) -> Answer | None:
    """Return the answer about the pushes on the other rewards; None where none is known, or no reward is primary."""
    changes = [change for change in push_changes(report) if change.name != report.run["primary"]]
    if report.run["primary"] is None or not changes:
        return None
    moved = [change for change in changes if change.sign]
    changes_in_words = listing(f"on {c.name} from **{signed(c.before)}** to **{signed(c.after)}**" for c in moved[:6])
    title, at = "Push on other rewards", ("evidence" if moved else "lab")
    if not moved:
        return Answer("nothing", title, "No push on another reward changes by more than noise.", at)
    signs = {change.sign for change in moved}
    effect = "mixed" if len(signs) > 1 else _held(report, signs.pop())
    return Answer(effect, title, f"GDPO changes the push {changes_in_words}.", at)


# --- what explains ----------------------------------------------------------------------------------------------------


def _evidence_of(report: AuditReport, finding: str) -> Mapping[str, object] | None:
    """Return the evidence of the first finding that has this id; None where the report has no such finding."""
    return next((x.evidence for x in report.findings if x.id == finding), None)


def _inversions(report: AuditReport, method: str) -> float:
    """Return the share of pairs in the wrong order under a method, of the pairs that differ in the primary reward.

    NaN where no reward is primary, or where no pair differs in it.
    """
    return nan_if_none(report.methods[method]["inversions"])


def _order(report: AuditReport) -> Answer | None:
    """Return the answer about pairs in the wrong order; None where no reward is primary, or the advantages are upside
    down.
    """
    first = report.run["primary"]
    if first is None or _evidence_of(report, "advantages-upside-down"):
        return None
    title = "Pairs in the wrong order"
    after, before = _inversions(report, "gdpo"), {m: _inversions(report, m) for m in compared_methods(report)}
    if isnan(after):
        return Answer("nothing", title, f"No two answers of a group differ in {first}.", "lab")
    best = min(before, key=lambda m: before[m])
    more = round(after - before[best], 9)  # without the round-off of a difference
    places = next((n for n in range(6) if percent(after, n) != percent(before[best], n)), 0)
    gdpo, best_before = percent(after, places), percent(before[best], places)
    under = f"under {NAMES[best]}" + ("" if best == "grpo" else " (which runs)")
    effect = _held(report, -1 if more >= ORDER else 1 if more <= -ORDER else 0)
    near = f", less than {100 * ORDER:.0f} point apart" if abs(more) < ORDER and more else ""
    sentence = f"Of the pairs of answers that differ in {first}, the one with the lower {first} gets the larger "
    sentence += f"advantage in **{best_before}** {under} and in **{gdpo}** under GDPO{near}. A tied pair is in neither "
    sentence += "order."
    return Answer(effect, title, sentence + _not_followed(report, effect, abs(more) >= ORDER), "evidence")


def _not_followed(report: AuditReport, effect: str, differs: bool) -> str:
    """Return the sentence on how the push on the primary reward moves, and that training goes by the push. It is for an
    answer whose figure GDPO changes although the effect is neither helps nor hurts; the text is empty for any other
    answer, and where that push is not known.

    effect: the effect in the answer, a key of EFFECTS; differs: whether GDPO changes its figure by enough to count.
    """
    change = change_of_primary(report)
    if not differs or change is None or effect in ("helps", "hurts"):
        return ""
    moves = {1: "rises", 0: "stays as it is", -1: "falls"}[change.sign]
    return f" The push on {change.name} {moves}, and training goes by the push."


def _scales(report: AuditReport) -> Answer:
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
    sizes = [(abs(w), abs(w) * (r["std"] or 0.0)) for w, r in zip(weights, report.rewards, strict=True) if w]
    of_weights, of_products = [max(x) / min(x) if min(x) else float("inf") for x in zip(*sizes, strict=True)]
    if of_weights >= UNDONE * of_products:
        undo = "The weights seem to undo the scales already; under GDPO they make the rewards unequal again"
        return Answer(_held(report, -1), title, f"{told}. {undo}.", "train", "undone")
    if first is None:
        return Answer("mixed", title, f"{told}. Whether that is better is open.", "train", "difficulty")
    k = names.index(first)
    matters = f"{first}, which matters most, {phrases[k]}." + ("" if k == most else f" {told}.")
    # A larger share is only praised for the reward that matters most, if another had more before, and if the push on it
    # grows too.
    if moved[k] >= MOVED and now[k] < max(now):
        return Answer(_held(report, 1), title, matters, "train", "scales")
    return Answer(_held(report, -1) if moved[k] <= -MOVED else "mixed", title, matters, "train", "difficulty")


def _ties(report: AuditReport) -> Answer:
    """Return the answer about ties: pairs of responses with different rewards and the same advantage."""
    grpo, gdpo = (nan_if_none(report.methods[m]["tied_pairs"]) for m in ("grpo", "gdpo"))
    if isnan(grpo) or isnan(gdpo):
        return Answer("nothing", "Ties", "No two answers of a group have different rewards.", "lab")
    sentence = f"Of the pairs of answers with different rewards, GRPO ties **{percent(grpo)}** and GDPO "
    sentence += f"**{percent(gdpo)}**."
    moved = abs(grpo - gdpo) >= TIED
    effect = _held(report, (1 if grpo > gdpo else -1) if moved else 0)
    return Answer(effect, "Ties", sentence + _not_followed(report, effect, moved), "lab")


def _constant(report: AuditReport) -> Answer:
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


def _conflict(report: AuditReport) -> Answer:
    """Return the answer that two rewards pull against each other inside groups, or else that no two do so strongly."""
    if evidence := _evidence_of(report, "conflict"):
        (a, b), correlation = cast(list[str], evidence["rewards"]), signed(cast(float, evidence["correlation"]))
        sentence = (
            f"{a} and {b} pull against each other: their correlation inside groups is {correlation}. Under GDPO their "
            "weights alone decide which one gives way; a gate decides it whatever the weights are."
        )
        return Answer(_held(report, -1), "Conflict", sentence, "train", "gated")
    correlations = [(r["name"], partner, x) for r in report.rewards for partner, x in r["correlations"].items()]
    pairs = [(x, name, partner) for name, partner, x in correlations if x is not None]
    lowest, a, b = min(pairs, default=(0.0, "", ""))
    lower = f" The lowest correlation inside groups is {signed(lowest)}, of {a} and {b}." if lowest < 0 else ""
    sentence = f"No two rewards pull strongly against each other.{lower}"
    return Answer("nothing", "Conflict", sentence, "train", "conflict")


def _noise(report: AuditReport) -> Answer:
    """Return the answer that GDPO amplifies the noise of a nearly constant reward, or else that there is none."""
    title = "Nearly constant noise"
    if evidence := _evidence_of(report, "reward-noise"):
        share = percent(cast(float, evidence["faint_groups"]))
        sentence = f"{evidence['reward']} is nearly constant in {share} of the groups in which it differs at all. "
        sentence += (
            "GDPO amplifies it until it counts as much as its weight says. This costs push on the other rewards."
        )
        return Answer(_held(report, -1), title, sentence, "train", "noise")
    sentence = (
        "No reward counts as nearly constant noise here, that is, as one whose std in a group is at most "
        f"{percent(FAINT_STD)} of its largest value there. If one did, GDPO would amplify it until it counted as much "
        "as its weight says."
    )
    return Answer("nothing", title, sentence, "train", "noise")
