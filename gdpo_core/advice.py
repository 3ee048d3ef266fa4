"""Should I use GDPO? What it would change on some rewards, in five short answers from a report on them."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import isnan, nan
from typing import cast

from gdpo_core._errors import expect
from gdpo_core._words import listing, percent, signed
from gdpo_core.report import per_step, summary
from gdpo_core.runs.audit import audit
from gdpo_core.runs.audit_report import AuditReport
from gdpo_core.runs.read import read_run
from gdpo_core.runs.thresholds import CONFLICT, MOVED

EFFECTS = {  # what GDPO does in one respect, in words
    "helps": "helps",
    "mixed": "for better and worse",
    "steps": "longer steps",
    "nothing": "changes nothing",
    "hurts": "hurts",
    "unknown": "not known",
}
TIED = 0.01  # of the pairs that differ
SILENT = 0.1  # of the groups
OFTEN = 0.5  # of the groups: a reward that is constant in more of them is rare
UNDONE = 2.0  # weights undo the scales if their largest ratio is at least so many times that of weight × std


@dataclass(frozen=True)
class Answer:
    """What GDPO does in one respect, why, and where that can be seen."""

    effect: str  # a key of EFFECTS
    title: str
    sentence: str  # what stands between two ** is bold
    at: str  # the chapter of the page that shows it
    scenario: str = ""  # of Train


@lru_cache(maxsize=256)
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

    >>> from gdpo_core import audit, read_run
    >>> rows = [{"group": g, "right": a, "short": b} for g in range(40) for a, b in ((1, 0), (0, 1), (1, 1), (0, 0))]
    >>> [(answer.effect, answer.title) for answer in advise(audit(read_run(rows)))][1]
    ('nothing', 'Ties')
    """
    expect(isinstance(report, AuditReport), "report", "what gdpo_core.audit returns", type(report).__name__)
    if not summary.comparable(report):
        return [Answer("unknown", "Rewards apart", summary.not_comparable(report), "run")]
    return [_scales(report), _ties(report), _constant(report), _conflict(report), _noise(report)]


def verdict(judged: Sequence[Answer], caution: str = "") -> str:
    """All answers in one sentence; caution: what stands before it, where there are too few groups to judge.

    >>> verdict([Answer("helps", "Ties", "", "lab"), Answer("nothing", "Conflict", "", "train")])
    '**Yes, for the ties.** None of these checks speaks against it.'
    """
    return caution + _in_one({e: [a.title.lower() for a in judged if a.effect == e] for e in EFFECTS})


def _in_one(effects: dict[str, list[str]]) -> str:
    if effects["unknown"]:
        return "**It cannot be told** from such a log."
    good, both, bad = (listing(of) if (of := effects[effect]) else "" for effect in ("helps", "mixed", "hurts"))
    also = f" It changes the {both}, for better and for worse." if both else ""
    if bad and (good or both):
        return f"**Not yet:** mend the {bad} first, where it hurts." + (
            f" Then it would help with the {good}." if good else also
        )
    if bad:
        return f"**Not as it stands:** it hurts by {bad} and helps nowhere."
    if good and both:
        return f"**It helps with the {good}.{also}** Which counts more, is yours to say."
    if good:
        return f"**Yes, for the {good}.** None of these checks speaks against it."
    if both:
        return f"**It changes one thing, {both}, for better and for worse.** The rest stays as it is."
    if effects["steps"]:
        return "**It would take longer steps** and aim no better."
    return "**It would change next to nothing** on these rewards."


def priority(report: AuditReport) -> str:
    """That no normalisation puts the primary reward first, and what does."""
    first = report.run["primary"] or "the reward that matters most"
    return (
        f"No normalisation knows that **{first}** matters most. A larger weight helps. A gate does it, if what stands "
        "behind it falls to its worst value."
    )


def _scales(report: AuditReport) -> Answer:
    title, names = "Shares of the update", [r["name"] for r in report.rewards]
    found = [[r["update_share"][m] for r in report.rewards] for m in ("grpo", "gdpo")]
    grpo, gdpo = ([nan if share is None else share for share in shares] for shares in found)
    weights = [report.run["weights_used"][name] for name in names]
    squares = sum(w * w for w in weights)
    if not squares or any(map(isnan, (*grpo, *gdpo))):
        silent = not squares or all(report.methods[m]["silent_groups"] == 1 for m in ("grpo", "gdpo"))
        why = "There is no update: every advantage is 0." if silent else "They are not known: rewards say the same."
        return Answer("nothing", title, why, "train", "live")
    moved = [abs(a - b) for a, b in zip(grpo, gdpo, strict=True)]

    def share_sentence(k: int) -> str:
        return f"{names[k]} takes **{percent(grpo[k])}** of the update under GRPO and **{percent(gdpo[k])}** under GDPO"

    most = moved.index(max(moved))
    if moved[most] < MOVED:
        near = f"within {100 * MOVED:.0f} points of each other, as all shares are"
        return Answer("nothing", title, f"{share_sentence(most)}, {near}.", "train", "equal")
    sizes = [(abs(w), abs(w) * (r["std"] or 0.0)) for w, r in zip(weights, report.rewards, strict=True) if w]
    of_weights, of_products = [max(x) / min(x) if min(x) else float("inf") for x in zip(*sizes, strict=True)]
    if of_weights >= UNDONE * of_products:
        undone = "The weights seem to undo the scales already; under GDPO they make the rewards unequal again."
        return Answer("hurts", title, f"{share_sentence(most)}. {undone}", "train", "undone")
    # Under GDPO, shares go by the squares of the weights where rewards differ equally often and are not correlated.
    meant = [w * w / squares for w in weights]
    off = [[abs(x - m) for x, m in zip(shares, meant, strict=True)] for shares in (grpo, gdpo)]
    gained = [before - after for before, after in zip(*off, strict=True)]
    nearer = max(off[0]) - max(off[1])
    k = gained.index(max(gained) if nearer > 0 else min(gained))
    asks = f"{percent(meant[k])} that its weight, squared, asks for"
    if nearer >= MOVED:
        return Answer("helps", title, f"{share_sentence(k)}, nearer to the {asks}.", "train", "scales")
    if -nearer >= MOVED:
        return Answer("hurts", title, f"{share_sentence(k)}, further from the {asks}.", "train", "undone")
    asks = f"Neither is nearer to the {percent(meant[most])} that its weight, squared, asks for."
    return Answer("mixed", title, f"{share_sentence(most)}. {asks}", "train", "difficulty")


def _ties(report: AuditReport) -> Answer:
    title, first = "Ties", report.run["primary"]
    grpo, gdpo = (report.methods[m]["tied_pairs"] or 0.0 for m in ("grpo", "gdpo"))
    sentence = f"Of the pairs of different answers GRPO ties **{percent(grpo)}**, GDPO **{percent(gdpo)}**."
    if not grpo - gdpo >= TIED:
        return Answer("nothing", title, sentence, "lab")
    before, after = (report.methods[m]["inversions"] for m in ("grpo", "gdpo"))
    if first is None or before is None or after is None:
        return Answer("mixed", title, f"{sentence} Whether the better one then comes first, is open.", "evidence")
    wrong = (
        f"Of the pairs that differ in {first}, the answer with less of it comes first in {percent(before)} under GRPO "
        f"and in {percent(after)} under GDPO."
    )
    return Answer("helps" if after <= before else "mixed", title, f"{sentence} {wrong}", "evidence")


def _constant(report: AuditReport) -> Answer:
    title, silent = "Zero-variance groups", report.methods["gdpo"]["silent_groups"] or 0.0
    dead = {r["name"]: r["dead_groups"] for r in report.rewards}
    rare = max(dead, key=lambda name: dead[name])
    if silent == 1:
        return Answer("nothing", title, "No group teaches anything, under any method.", "train", "live")
    if silent >= SILENT:
        longer = (1 / (1 - silent)) ** 0.5
        sentence = (
            f"**{percent(silent)}** of the groups teach nothing; GDPO's last step makes the others about {longer:.1f} "
            "times as long. That is a larger learning rate, no better aim."
        )
        return Answer("steps", title, sentence, "train", "live")
    sentence = "No reward is constant in any group."
    if dead[rare] >= OFTEN:
        sentence = (
            f"{rare} is constant in **{percent(dead[rare])}** of the groups and teaches nothing there, by any method."
        )
    elif dead[rare]:
        sentence = f"{rare} is constant in {percent(dead[rare])} of the groups, the others in fewer."
    return Answer("nothing", title, sentence, "train", "difficulty")


def _conflict(report: AuditReport) -> Answer:
    title = "Conflict"
    mean: dict[tuple[str, str], float] = {}
    for pair, series in per_step.correlations(report).items():
        known = per_step.present(series)
        mean |= {pair: sum(known) / len(known)} if known else {}
    if not mean:
        return Answer("nothing", title, "No two rewards vary in one group.", "train", "conflict")
    (a, b), least = min(mean.items(), key=lambda item: item[1])
    if least <= CONFLICT:
        sentence = (
            f"{a} and {b} pull against each other ({signed(least)}). GDPO makes both equally loud; a gate decides."
        )
        return Answer("hurts", title, sentence, "train", "gated")
    between = f"from {signed(least)} to {signed(max(mean.values()))}"
    sentence = f"No two rewards pull against each other: correlations in a group {between}."
    return Answer("nothing", title, sentence, "train", "conflict")


def _noise(report: AuditReport) -> Answer:
    title, loud = "Nearly constant noise", "GDPO makes it as loud as the others"
    for finding in report.findings:
        if finding.id == "reward-noise":
            reward, share = finding.evidence["reward"], percent(cast(float, finding.evidence["faint_groups"]))
            sentence = f"{reward} is nearly constant in {share} of the groups in which it differs at all. {loud}."
            return Answer("hurts", title, sentence, "train", "noise")
    return Answer("nothing", title, f"No reward varies by next to nothing. Where one does, {loud}.", "train", "noise")
