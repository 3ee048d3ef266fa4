"""Should I use GDPO? What it would change on some rewards, in short answers from a report on them, order first."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isnan, nan
from typing import cast

from gdpo_audit.audit import audit
from gdpo_audit.findings.thresholds import MOVED
from gdpo_audit.logs.read import read_run
from gdpo_audit.report import summary
from gdpo_audit.report.audit_report import AuditReport
from gdpo_core._errors import expect
from gdpo_core._words import listing, percent, signed
from gdpo_core.conventions import NAMES

EFFECTS = {  # what GDPO does in one respect, in words
    "helps": "helps",
    "mixed": "for better and worse",
    "steps": "longer steps",
    "nothing": "changes nothing",
    "hurts": "hurts",
    "unknown": "not known",
}
ORDER = 0.01  # of the pairs that differ in the primary reward: a smaller difference is none
TIED = 0.01  # of the pairs that differ
SILENT = 0.1  # of the groups
UNDONE = 2.0  # weights undo the scales if their largest ratio is at least so many times that of weight × std


@dataclass(frozen=True)
class Answer:
    """What GDPO does in one respect, why, and where that can be seen."""

    effect: str  # a key of EFFECTS
    title: str
    sentence: str  # what stands between two ** is bold
    at: str  # the chapter of the page that shows it
    scenario: str = ""  # of Train
    headline: str = ""  # what the verdict has to begin with


def of_group(rewards: tuple[tuple[float, ...], ...], names: tuple[str, ...], weights: tuple[float, ...]) -> AuditReport:
    """One group of (rollouts, rewards), audited as the log of a run would be; the first reward matters most.

    >>> of_group(((1.0, 0.0), (0.0, 0.0)), ("right", "short"), (1.0, 1.0)).source["responses"]
    2
    """
    rows = [{"group": 0, **dict(zip(names, row, strict=True))} for row in rewards]
    run = read_run(rows, framework="generic", rewards=list(names), group="group")
    return audit(run, weights=dict(zip(names, weights, strict=True)), primary=names[0])


def advise(report: AuditReport) -> list[Answer]:
    """What GDPO would change on the rewards of a report, in one answer per respect. Raises InputError.

    >>> from gdpo_audit import audit, read_run
    >>> rows = [{"group": g, "right": a, "short": b} for g in range(40) for a, b in ((1, 0), (0, 1), (1, 1), (0, 0))]
    >>> [(answer.effect, answer.title) for answer in advise(audit(read_run(rows), primary="right"))][:2]
    [('nothing', 'Order by right'), ('nothing', 'Shares of the update')]
    """
    expect(isinstance(report, AuditReport), "report", "what gdpo_audit.audit returns", type(report).__name__)
    if not summary.comparable(report):
        none = "**It cannot be told** from such a log."
        return [Answer("unknown", "Rewards apart", summary.not_comparable(report), "run", headline=none)]
    checks = (_order, _scales, _ties, _constant, _conflict, _noise)
    return [check(report) for check in checks]


def verdict(judged: Sequence[Answer], caution: str = "") -> str:
    """All answers in one sentence; caution: what stands before it, where there are too few groups to judge.

    >>> verdict([Answer("helps", "Ties", "", "lab"), Answer("nothing", "Conflict", "", "train")])
    '**Yes, for the ties.** None of these checks speaks against it.'
    """
    headline = next((a.headline for a in judged if a.headline), "")
    rest = [a for a in judged if not a.headline]
    titles = {e: [a.title[:1].lower() + a.title[1:] for a in rest if a.effect == e] for e in EFFECTS}
    good, both, bad = (listing(titles[effect]) if titles[effect] else "" for effect in ("helps", "mixed", "hurts"))
    mixed = f" It changes the {both}, for better and for worse." * bool(both)
    also = f" It helps with the {good}." * bool(good) + mixed
    if headline or bad:
        hurts = f" It hurts by {bad}." * bool(bad)
        return f"{caution}{headline or '**Not as it stands.**'}{hurts}{also}"
    says = "**It would change next to nothing** on these rewards."
    if good:
        says = f"**Yes, for the {good}.**{mixed or ' None of these checks speaks against it.'}"
    elif both:
        says = f"**It may help or hurt.**{mixed}"
    elif titles["steps"]:
        says = "**It would take longer steps** and aim no better."
    return caution + says


def priority(report: AuditReport) -> str:
    """That no normalisation puts the primary reward first, and what does."""
    first = report.run["primary"] or "the reward that matters most"
    return (
        f"No normalisation knows that **{first}** matters most. A larger weight helps. A gate does it, if what stands "
        "behind it falls to its worst value."
    )


def _before(report: AuditReport) -> list[str]:
    """What GDPO is compared with: GRPO, and what runs."""
    return [m for m in report.methods if m == "grpo" or (m == report.run["method"] and m != "gdpo")]


def _found(report: AuditReport, finding: str) -> Mapping[str, object] | None:
    """The evidence of the first finding of this id; None where there is none."""
    return next((x.evidence for x in report.findings if x.id == finding), None)


def _inversions(report: AuditReport, method: str) -> float:
    """NaN where no two answers of a group differ in the primary reward, or none is named."""
    return _number(report.methods[method]["inversions"])


def _number(x: float | None) -> float:
    return nan if x is None else x


def _order(report: AuditReport) -> Answer:
    first = report.run["primary"]
    if first is None:
        names = listing((r["name"] for r in report.rewards), "or", most=6)
        headline = f"**Open:** name the reward that matters most ({names}). The order of answers is judged by it."
        return Answer("unknown", "Order", "No reward is named as the one that matters most.", "run", headline=headline)
    title = f"Order by {first}"
    if _found(report, "advantages-upside-down"):
        headline = "**Not yet:** the advantages are upside down. Mend that first."
        return Answer("unknown", title, "Weights below 0 turn it round, under every method.", "run", headline=headline)
    after, before = _inversions(report, "gdpo"), {m: _inversions(report, m) for m in _before(report)}
    if isnan(after):
        return Answer("nothing", title, f"No two answers of a group differ in {first}.", "lab")
    best = min(before, key=lambda m: before[m])
    more = round(after - before[best], 9)  # without the round-off of a difference
    places = next((n for n in range(6) if percent(after, n) != percent(before[best], n)), 0)
    gdpo, other = percent(after, places), percent(before[best], places)
    under = f"under {NAMES[best]}" + ("" if best == "grpo" else ", which runs")
    effect = "hurts" if more >= ORDER else "helps" if more <= -ORDER else "nothing"
    near = f", less than {100 * ORDER:.0f} point apart" if effect == "nothing" and more else ""
    sentence = f"Of the pairs that differ in {first}, less of it gets more in **{other}** {under}, "
    sentence += f"**{gdpo}** under GDPO{near}."
    headline = f"under GDPO {gdpo} of the pairs come the wrong way round, {other} {under}."
    no = "**Not as it stands:**" if effect == "hurts" else "**No better in order:**"
    return Answer(effect, title, sentence, "evidence", headline=f"{no} {headline}" if more > 0 else "")


def _scales(report: AuditReport) -> Answer:
    title, names, first = "Shares of the update", [r["name"] for r in report.rewards], report.run["primary"]
    known = {m: [_number(r["update_share"][m]) for r in report.rewards] for m in (*_before(report), "gdpo")}
    weights = [report.run["weights_used"][name] for name in names]
    if any(isnan(share) for of in known.values() for share in of):
        silent = not any(weights) or all(report.methods[m]["silent_groups"] == 1 for m in known)
        why = "There is no update: every advantage is 0." if silent else "They are not known: rewards say the same."
        return Answer("nothing", title, why, "train", "live")
    gdpo = known.pop("gdpo")
    # Of what runs and GRPO the one that does more for the reward that matters most.
    method = "grpo" if first is None else max(known, key=lambda m: known[m][names.index(first)])
    now = known[method]
    moved = [after - before for before, after in zip(now, gdpo, strict=True)]
    most = max(range(len(names)), key=lambda k: abs(moved[k]))
    takes = [
        f"takes **{percent(before)}** of the update under {NAMES[method]} and **{percent(after)}** under GDPO"
        for before, after in zip(now, gdpo, strict=True)
    ]
    told = f"{names[most]} {takes[most]}"
    if abs(moved[most]) < MOVED:
        near = f"within {100 * MOVED:.0f} points of each other, as all shares are"
        return Answer("nothing", title, f"{told}, {near}.", "train", "equal")
    sizes = [(abs(w), abs(w) * (r["std"] or 0.0)) for w, r in zip(weights, report.rewards, strict=True) if w]
    of_weights, of_products = [max(x) / min(x) if min(x) else float("inf") for x in zip(*sizes, strict=True)]
    if of_weights >= UNDONE * of_products:
        undo = "The weights seem to undo the scales already; under GDPO they make the rewards unequal again"
        return Answer("hurts", title, f"{told}. {undo}.", "train", "undone")
    if first is None:
        return Answer("mixed", title, f"{told}. Whether it should, is open.", "train", "difficulty")
    k = names.index(first)
    matters = f"{first}, which matters most, {takes[k]}." + ("" if k == most else f" {told}.")
    # A share that grows is praise only for the reward that matters most, and only where others had more.
    if moved[k] >= MOVED and now[k] < max(now):
        return Answer("helps", title, matters, "train", "scales")
    return Answer("mixed", title, matters, "train", "difficulty")


def _ties(report: AuditReport) -> Answer:
    grpo, gdpo = (report.methods[m]["tied_pairs"] or 0.0 for m in ("grpo", "gdpo"))
    sentence = f"Of the pairs of different answers GRPO ties **{percent(grpo)}**, GDPO **{percent(gdpo)}**."
    if not grpo - gdpo >= TIED:
        return Answer("nothing", "Ties", sentence, "lab")
    if isnan(_inversions(report, "gdpo")):
        return Answer("mixed", "Ties", f"{sentence} Whether the better one then comes first, is open.", "evidence")
    return Answer("mixed" if _order(report).headline else "helps", "Ties", sentence, "evidence")


def _constant(report: AuditReport) -> Answer:
    title, silent = "Zero-variance groups", report.methods["gdpo"]["silent_groups"] or 0.0
    dead = {r["name"]: r["dead_groups"] for r in report.rewards}
    rare = max(dead, key=lambda name: dead[name])
    if silent == 1:
        return Answer("nothing", title, "No group teaches anything, under any method.", "train", "live")
    if silent >= SILENT:
        sentence = (
            f"**{percent(silent)}** of the groups teach nothing; GDPO's last step makes the others about "
            f"{(1 / (1 - silent)) ** 0.5:.1f} times as long. That is a larger learning rate, no better aim."
        )
        return Answer("steps", title, sentence, "train", "live")
    rarely = f"{rare} is constant in **{percent(dead[rare])}** of the groups, the others in fewer."
    sentence = rarely if dead[rare] else "No reward is constant in any group."
    return Answer("nothing", title, sentence, "train", "difficulty")


def _conflict(report: AuditReport) -> Answer:
    if found := _found(report, "conflict"):
        (a, b), correlation = cast(list[str], found["rewards"]), signed(cast(float, found["correlation"]))
        sentence = (
            f"{a} and {b} pull against each other ({correlation}). Under GDPO their weights alone decide; a gate "
        )
        return Answer("hurts", "Conflict", f"{sentence}decides whatever these are.", "train", "gated")
    return Answer("nothing", "Conflict", "No two rewards pull against each other.", "train", "conflict")


def _noise(report: AuditReport) -> Answer:
    title, loud = "Nearly constant noise", "GDPO makes it as loud as its weight says"
    if found := _found(report, "reward-noise"):
        share = percent(cast(float, found["faint_groups"]))
        sentence = f"{found['reward']} is nearly constant in {share} of the groups in which it differs at all. {loud}."
        return Answer("hurts", title, sentence, "train", "noise")
    return Answer("nothing", title, f"No reward varies by next to nothing. Where one does, {loud}.", "train", "noise")
