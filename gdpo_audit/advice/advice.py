"""Answers to what GDPO would change for the rewards of a report, and a verdict by the push: how much the update raises
each reward. A push is no training, so this verdict never says by itself that GDPO should be used.
"""

from collections.abc import Sequence
from math import isnan
from typing import cast

from gdpo_audit.advice.explanations import (
    Answer,
    conflict_answer,
    constant,
    effect_on,
    evidence_of,
    inversions,
    noise_answer,
    order,
    scales,
    ties_answer,
)
from gdpo_audit.advice.push_changes import PushChange, change_of_primary, compared_methods, push_changes
from gdpo_audit.auditing import audit
from gdpo_audit.json_types import ForecastPart
from gdpo_audit.logs.read import read_run
from gdpo_audit.report import summary
from gdpo_audit.report.audit_report import AuditReport
from gdpo_audit.sums.wanted import named
from gdpo_audit.trials.recommending import change_in_words
from gdpo_core.conventions import NAMES
from gdpo_core.pushing import OTHER_STEPS, same_step
from gdpo_core.shared.errors import expect
from gdpo_core.shared.words import listing, signed

UNTRAINED = "only training shows whether more is learnt"


def of_group(rewards: tuple[tuple[float, ...], ...], names: tuple[str, ...], weights: tuple[float, ...]) -> AuditReport:
    """Audit one group as if it were the log of a run, and return the report; the first reward is the primary one.

    rewards: (rollouts, rewards).
    names, weights: one per reward.

    >>> of_group(((1.0, 0.0), (0.0, 0.0)), ("right", "short"), (1.0, 1.0)).source["responses"]
    2
    """
    rows = [{"group": 0, **dict(zip(names, row, strict=True))} for row in rewards]
    run = read_run(rows, framework="generic", rewards=list(names), group="group")
    return audit(run, weights=dict(zip(names, weights, strict=True)), primary=names[0])


def advise(report: AuditReport) -> list[Answer]:
    """Return the answers to what GDPO would change for the rewards of a report: one answer for each respect, such as
    ties.

    The answer about the push on the primary reward decides, together with its forecast if the report's plan holds one.
    The other answers explain it. The answers about other pushes and about the order may be missing, as they are without
    a primary reward. A report on a single reward, or on a column that mixes several, gets one answer, which says so.

    Raises InputError if the argument is no report.

    >>> from gdpo_audit import audit, read_run
    >>> rows = [{"group": g, "right": a, "short": b} for g in range(40) for a, b in ((1, 0), (0, 1), (1, 1), (0, 0))]
    >>> [(answer.effect, answer.title) for answer in advise(audit(read_run(rows), primary="right"))][:2]
    [('nothing', 'Push on right'), ('nothing', 'Push on other rewards')]
    """
    expect(isinstance(report, AuditReport), "report", "what gdpo_audit.audit returns", type(report).__name__)
    if not summary.comparable(report):
        none = "**It cannot be told** from such a log."
        return [Answer("unknown", "Rewards apart", summary.not_comparable(report), "run", headline=none)]
    checks = (_push, _other_pushes, order, scales, ties_answer, constant, conflict_answer, noise_answer)
    return [answer for check in checks if (answer := check(report)) is not None]


def advice_verdict(judged: Sequence[Answer], caution: str = "") -> str:
    """Return what GDPO would change by the push, as all answers say it, in one or a few sentences; words between two **
    are bold.

    judged: the answers.
    caution: words to put before the verdict, as where a log has too few groups to judge.

    >>> print(advice_verdict([Answer("mixed", "Ties", "", "lab"), Answer("nothing", "Conflict", "", "train")]))
    **GDPO may help or hurt.** It changes the ties, which is a trade-off.
    """
    good, both, _ = (_titles(judged, effect) for effect in ("helps", "mixed", "hurts"))
    mixed = f" It {'also ' * bool(good)}changes {both}, which is a trade-off." * bool(both)
    if any(a.headline or a.effect == "hurts" for a in judged):
        return f"{caution}{against(judged)}{f' It helps with {good}.' * bool(good)}{mixed}"
    if good:
        nothing_against = " None of these checks speaks against it."
        return f"{caution}**GDPO helps with {good}; {UNTRAINED}.**{mixed or nothing_against}"
    if both:
        pushed = next((a.title for a in judged if a.decides and a.effect == "nothing"), "")
        says = f"**GDPO hardly changes the {_small(pushed)}.**" if pushed else "**GDPO may help or hurt.**"
        return f"{caution}{says}{mixed}"
    return caution + against(judged)


def against(judged: Sequence[Answer]) -> str:
    """Return what the answers say against GDPO, in one or two sentences; "" where GDPO changes something and nothing
    speaks against it.

    judged: the answers.

    >>> against([Answer("hurts", "Noise", "", "lab"), Answer("helps", "Ties", "", "lab")])
    '**Not as it stands.** What speaks against it: the noise.'
    >>> against([Answer("helps", "Ties", "", "lab")])
    ''
    """
    headline, hurts = next((a.headline for a in judged if a.headline), ""), _titles(judged, "hurts")
    if headline or hurts:
        return (headline or "**Not as it stands.**") + f" What speaks against it: {hurts}." * bool(hurts)
    if any(a.effect in ("helps", "mixed") for a in judged):
        return ""
    if any(a.effect == "steps" for a in judged):
        return "**GDPO would take longer steps** and aim no better."
    return "**GDPO would change next to nothing** on these rewards."


def _titles(judged: Sequence[Answer], effect: str) -> str:
    """Return the titles of the answers with an effect, but for that of the answer with the headline; "" if there are
    none.
    """
    first = next((a for a in judged if a.headline), None)
    titles = [f"the {_small(a.title)}" for a in judged if a is not first and a.effect == effect]
    return listing(titles) if titles else ""


def _small(title: str) -> str:
    return title[:1].lower() + title[1:]


def priority(report: AuditReport) -> str:
    """Return sentences that say that no normalisation puts the primary reward first, but a weight or a gate may."""
    first = report.run["primary"] or "the reward that matters most"
    return (
        f"If **{first}** matters most, no normalisation knows it. A larger weight on {first} says so. So does a gate, "
        f"which lets another reward count only where {first} is reached; elsewhere that reward gets its worst value."
    )


def _push(report: AuditReport) -> Answer:
    """Return the answer about the push on the primary reward and about the forecast of this reward.

    The answer has a headline where it alone settles that the verdict on GDPO is no or stays open. It has one where its
    effect is "hurts" or "unknown". It also has one where answers of a group differ in the primary reward, but no method
    serves this reward (`_stop`).

    The answer's effect is "unknown" in three cases:

    - no reward is primary;
    - the report finds that the advantages are upside down;
    - GDPO pushes the reward more, but the forecast does not exclude a loss.
    """
    first = report.run["primary"]
    if first is None:
        names = listing((r["name"] for r in report.rewards), "or", most=6)
        headline = f"**Open:** name the reward that matters most ({names}). The methods are judged by how they push it."
        return Answer("unknown", "Push", "No reward is named as the one that matters most.", "run", headline=headline)
    title = f"Push on {first}"
    if evidence_of(report, "advantages-upside-down"):
        headline = "**Not yet:** the advantages are upside down. Mend their sign first."
        return Answer(
            "unknown", title, "Weights below 0 turn the push round, under every method.", "run", headline=headline
        )
    change = change_of_primary(report)
    if change is None or (change.wanted and isnan(inversions(report, "gdpo"))):
        return Answer("nothing", title, f"No two answers of a group differ in {first}.", "lab")
    under = NAMES[change.method] + (" (which runs)" if change.method != "grpo" else "")
    pushes = f"**{signed(change.before)}** under {under} and **{signed(change.after)}** under GDPO"
    sentence = f"The push on {_as_wanted(change)} is {pushes}"
    differs = signed(change.after) != signed(change.before)
    near = ", a difference that noise can make" if differs and not change.sign else ""
    effect, told, headline = _with_forecast(report, change)
    if report.run["method"] is not None and not same_step(report.run["method"], "gdpo"):
        told += f" The run has another method: {OTHER_STEPS}"
    return Answer(effect, title, f"{sentence}{near}.{told}", "evidence", "", _stop(report, change) or headline, True)


def _with_forecast(report: AuditReport, change: PushChange) -> tuple[str, str, str]:
    """Return three things about the primary reward: GDPO's effect on the push, a sentence on the forecast, and a
    headline.

    The effect, a key of EFFECTS, is read from the sign of `change`. A forecast overrules it in two cases, as seen in
    the direction that the run wants. If the whole interval of the forecast is below 0, the effect is "hurts". If only
    its lower end is 0 or below, "helps" becomes "unknown".

    The sentence says what the reward's mean is forecast to do under GDPO. It is empty if there is no forecast.

    The headline is what the verdict has to begin with. It is empty for any effect but "hurts" and "unknown".

    change: by how much the push on the primary reward changes from another method to GDPO.
    """
    effect = {1: "helps", 0: "nothing", -1: "hurts"}[change.sign]
    down = " down" * (change.wanted < 0)
    less = f"**Not as it stands:** GDPO pushes {change.name}{down} less than {NAMES[change.method]} does."
    forecast = _forecast(report, change)
    if forecast is None:
        return effect, "", less if effect == "hurts" else ""
    low, high = sorted(change.wanted * cast(float, forecast[end]) for end in ("low", "high"))
    told = f" Under GDPO the mean of {change.name} over the logged steps would have {change_in_words(forecast)}."
    if effect == "hurts" or high < 0:
        worse = f"**Not as it stands:** {change.name} is forecast to {'rise' if change.wanted < 0 else 'fall'}."
        return "hurts", told, less if effect == "hurts" else worse
    if effect == "helps" and low <= 0:
        more = f"GDPO pushes {change.name}{down} more"
        return "unknown", told, f"**Open:** {more}, but the forecast does not exclude a loss."
    return effect, told, ""


def _forecast(report: AuditReport, change: PushChange) -> ForecastPart | None:
    """Return the forecast of how the mean of a reward changes when GDPO takes the place of another method.

    Row 0 of the plan is the run as it was. The forecast is taken from the first later row that has GDPO, no gate, the
    weights of row 0, and a whole forecast of the reward: its difference and both ends of its interval.

    None if the plan has no row of this kind. None also if row 0 has another method than `change`: the forecast would
    then be no comparison with that method.

    change: names the reward, and the method that GDPO is compared with.
    """
    for row in report.plan[1:]:
        ran = report.plan[0]
        alike = row.method == "gdpo" and row.gate is None and row.weights == ran.weights and ran.method == change.method
        told = (row.forecast or {}).get(change.name) if alike else None
        if told is not None and None not in (told["difference"], told["low"], told["high"]):
            return told
    return None


def _stop(report: AuditReport, change: PushChange) -> str:
    """Return the headline that says why no method serves the primary reward; an empty one where some method may.

    The methods are GDPO and the methods that it is compared with (`compared_methods`). None of them serves the reward
    in six cases, of which two are about GDPO alone:

    - all weights are 0;
    - the weight of the primary reward is 0;
    - none of the methods gives the reward a push that is printed above 0, or below 0 if the run wants less of it;
    - under each of the methods, more than half of the pairs that differ in the reward are in the wrong order;
    - under GDPO the push on the reward falls to about 0 or below (`PushChange.stops`);
    - under GDPO more than half of these pairs are in the wrong order, and under another method at most half.

    change: the change of the push on the primary reward.
    """
    name, wrong = change.name, [inversions(report, m) for m in (*compared_methods(report), "gdpo")]
    if not any(report.run["weights_used"].values()):
        return "**Not as it stands:** every reward has the weight 0, so the model learns nothing under any method."
    if not report.run["weights_used"][name]:
        return f"**Not as it stands:** {name} matters most and has the weight 0, so only the other rewards push it."
    if not change.wanted:
        return f"**Open:** the run has weights above 0 and weights below 0 for {name}, so what is better is not known."
    if max(round(change.wanted * x, 2) for x in (change.before, change.after)) <= 0:
        return f"**Not as it stands:** no method's update {'lowers' if change.wanted < 0 else 'raises'} {name}."
    if max(wrong[-1], min(wrong)) > 0.5:
        under = "every method" if min(wrong) > 0.5 else "GDPO"
        return (
            f"**Not as it stands:** of the pairs that differ in {name}, more than half are in the wrong order under "
            f"{under}."
        )
    down = "lower" if change.wanted < 0 else "raise"
    return (
        f"**Not as it stands:** GDPO's update does not {down} {name}, and {NAMES[change.method]}'s does." * change.stops
    )


def _other_pushes(report: AuditReport) -> Answer | None:
    """Return the answer about the pushes on the other rewards; None where none is known, or no reward is primary."""
    changes = [change for change in push_changes(report) if change.name != report.run["primary"]]
    if report.run["primary"] is None or not changes:
        return None
    moved = [change for change in changes if change.sign or change.stops]
    title, at = "Push on other rewards", ("evidence" if moved else "lab")
    if not moved:
        return Answer("nothing", title, "No push on another reward changes by more than noise.", at)
    sentence, stopped = _moves(moved[:6]), [change for change in moved if change.stops]
    if stopped:
        names, effect = listing(change.name for change in stopped), effect_on(report, -1)
        only = f"**Only if {names} may stop improving:** {_moves(stopped)}"
        no = f"**Not as it stands:** {names} would stop improving under GDPO."
        return Answer(effect, title, sentence, at, headline=only if effect == "mixed" else no)
    signs = {change.sign for change in moved}
    effect = "mixed" if len(signs) > 1 else effect_on(report, signs.pop())
    return Answer(effect, title, sentence, at)


def _moves(changes: Sequence[PushChange]) -> str:
    """Return a sentence on how GDPO changes the push on some rewards."""
    each = (f"on {_as_wanted(c)} from **{signed(c.before)}** to **{signed(c.after)}**" for c in changes)
    return f"GDPO changes the push {listing(each)}."


def _as_wanted(change: PushChange) -> str:
    """Return the name of the reward whose push changes, with words if the run wants less of it."""
    return named(change.name, change.wanted) + "," * (change.wanted < 0)
