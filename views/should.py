"""Should I? What GDPO would change on some rewards, in five short answers: those of the Lab, or of an audited run."""

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import marimo as mo

import gdpo_core as gc
from gdpo_core._words import listing, percent, signed
from gdpo_core.bfcl import REWARDS
from gdpo_core.report import over_time, sentences
from gdpo_core.runs.thresholds import CONFLICT, MOVED
from gdpo_core.scenarios import load_scenarios
from views.html import Html, prose, show, tag
from views.link import Session
from views.use import Lab

DATA = Path(__file__).resolve().parent.parent / "data"
EFFECTS = {
    "helps": "helps",
    "mixed": "cuts both ways",
    "steps": "longer steps",
    "nothing": "changes nothing",
    "hurts": "hurts",
    "unknown": "not known",
}
TIED = 0.01  # of the pairs that differ
SILENT = 0.1  # of the groups
OFTEN = 0.5  # of the groups: a reward that is constant in more of them is rare
UNDONE = 2.0  # times: weights that make weight times spread so much more even were meant to undo the spread


@dataclass(frozen=True)
class Answer:
    """One answer: what GDPO does in this respect, why, and where it can be seen."""

    effect: str  # a key of EFFECTS
    title: str
    said: str
    at: str  # the chapter that shows it
    scenario: str = ""  # of Train


@lru_cache(maxsize=256)
def of_lab(rewards: tuple[tuple[float, ...], ...], weights: tuple[float, ...]) -> gc.AuditReport:
    """The Lab's group, audited as the log of a run would be."""
    rows = "".join(f"0,{','.join(map(repr, row))}\n" for row in rewards)
    table = f"group,{','.join(REWARDS)}\n{rows}".encode()
    run = gc.read_run({"lab.csv": table}, framework="generic", rewards=list(REWARDS), group="group")
    return gc.audit(run, weights=dict(zip(REWARDS, weights, strict=True)), primary=REWARDS[0])


def answers(report: gc.AuditReport) -> list[Answer]:
    """All answers about the rewards of a report."""
    if not sentences.comparable(report):
        return [Answer("unknown", "Rewards apart", sentences.not_comparable(report), "run")]
    return [_scales(report), _ties(report), _constant(report), _conflict(report), _noise(report)]


def _scales(report: gc.AuditReport) -> Answer:
    title, names = "Unequal scales", [r["name"] for r in report.rewards]
    grpo, gdpo = ([r["update_share"][m] for r in report.rewards] for m in ("grpo", "gdpo"))
    weights = [report.run["weights_used"][name] for name in names]
    squares = sum(w * w for w in weights)
    if not squares or not all(share == share for share in (*grpo, *gdpo)):
        return Answer("nothing", title, "There is no update: every advantage is 0.", "train", "live")
    moved = [abs(a - b) for a, b in zip(grpo, gdpo, strict=True)]

    def said(k: int) -> str:
        return f"{names[k]} takes **{percent(grpo[k])}** of the update under GRPO and **{percent(gdpo[k])}** under GDPO"

    most = moved.index(max(moved))
    if moved[most] < MOVED:
        near = f"within {100 * MOVED:.0f} points of each other, as all shares are"
        return Answer("nothing", title, f"{said(most)}, {near}.", "train", "equal")
    spread = [(abs(w), abs(w) * (r["std"] or 0.0)) for w, r in zip(weights, report.rewards, strict=True) if w]
    apart, with_spread = [max(x) / min(x) if min(x) else float("inf") for x in zip(*spread, strict=True)]
    if apart >= UNDONE * with_spread:
        undone = "The weights seem to undo the scales already; under GDPO they make the rewards unequal again."
        return Answer("hurts", title, f"{said(most)}. {undone}", "train", "undone")
    # Under GDPO, shares go by the squares of the weights where rewards differ equally often and are not correlated.
    meant = [w * w / squares for w in weights]
    off = [[abs(x - m) for x, m in zip(shares, meant, strict=True)] for shares in (grpo, gdpo)]
    gained = [before - after for before, after in zip(*off, strict=True)]
    if max(off[0]) - max(off[1]) >= MOVED:
        k = gained.index(max(gained))
        return Answer(
            "helps", title, f"{said(k)}. Its weight, squared, asks for {percent(meant[k])}.", "train", "scales"
        )
    if max(off[1]) - max(off[0]) >= MOVED:
        k = gained.index(min(gained))
        further = f"{said(k)}, further from the {percent(meant[k])} that its weight, squared, asks for."
        return Answer("hurts", title, further, "train", "undone")
    asks = f"Neither is nearer to the {percent(meant[most])} that its weight, squared, asks for."
    return Answer("mixed", title, f"{said(most)}. {asks}", "train", "difficulty")


def _ties(report: gc.AuditReport) -> Answer:
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


def _constant(report: gc.AuditReport) -> Answer:
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
    if dead[rare] >= OFTEN:
        sentence = (
            f"{rare} is constant in **{percent(dead[rare])}** of the groups and teaches nothing there, by any method."
        )
        return Answer("nothing", title, sentence, "train", "difficulty")
    if dead[rare]:
        return Answer(
            "nothing",
            title,
            f"{rare} is constant in {percent(dead[rare])} of the groups, the others in fewer.",
            "train",
            "difficulty",
        )
    return Answer("nothing", title, "No reward is constant in any group.", "train", "difficulty")


def _conflict(report: gc.AuditReport) -> Answer:
    title, mean = "Conflict", {}
    for pair, series in over_time.correlations(report).items():
        known = [x for x in series if x is not None]
        mean |= {pair: sum(known) / len(known)} if known else {}
    if not mean:
        return Answer("nothing", title, "No two rewards vary in one group.", "train", "conflict")
    (a, b), least = min(mean.items(), key=lambda item: item[1])
    most = max(mean.values())
    if least <= CONFLICT:
        sentence = (
            f"{a} and {b} pull against each other ({signed(least)}). GDPO makes both equally loud; a gate decides."
        )
        return Answer("hurts", title, sentence, "train", "gated")
    sentence = (
        f"No two rewards pull against each other: correlations in a group from {signed(least)} to {signed(most)}."
    )
    return Answer("nothing", title, sentence, "train", "conflict")


def _noise(report: gc.AuditReport) -> Answer:
    title = "Nearly constant noise"
    for finding in report.findings:
        if finding.id == "reward-noise":
            reward, share = finding.evidence["reward"], percent(finding.evidence["faint_groups"])
            sentence = (
                f"{reward} is nearly constant in {share} of the groups in which it differs at all. GDPO blows that up."
            )
            return Answer("hurts", title, sentence, "train", "noise")
    return Answer("nothing", title, "No reward varies by next to nothing, which GDPO would blow up.", "train", "noise")


def verdict(judged: list[Answer], caution: str = "") -> str:
    """All answers in one sentence; caution: what stands before it, where there are too few groups to judge."""
    return f"{caution}{_in_one(judged)}"


def _in_one(judged: list[Answer]) -> str:
    effects = {effect: [a.title.lower() for a in judged if a.effect == effect] for effect in EFFECTS}
    if effects["unknown"]:
        return "**It cannot be told** from such a log."
    good, both, bad = (listing(effects[effect]) if effects[effect] else "" for effect in ("helps", "mixed", "hurts"))
    if bad and (good or both):
        then = f"it would help with the {good}" if good else f"{both}: both ways"
        return f"**Not yet:** mend the {bad} first, where it hurts. Then {then}."
    if bad:
        return f"**Not as it stands:** it hurts by {bad} and helps nowhere."
    if good:
        also = f" {both.capitalize()}: both ways." if both else ""
        return f"**Yes, for the {good}.**{also} None of these checks speaks against it."
    if both:
        return f"**It changes one thing, {both}, and that cuts both ways.** The rest stays as it is."
    if effects["steps"]:
        return "**It would take longer steps** and aim no better."
    return "**It would change next to nothing** on these rewards."


def should(chosen: dict[str, str], session: Session) -> mo.Html:
    """The list for the chosen rewards."""
    report = session.audited
    if chosen["source"] == "run" and report is None:
        link = tag("a", "Your run", href="?at=run", data_go="run")
        sentence = tag("p", "No run is audited yet. Open ", link, " and come back.")
        return show(tag("section", tag("h2", "Should I?"), sentence, kind="should"))
    caution = report.caution if report else ""
    if chosen["source"] != "run":
        lab, caution = Lab.now(session), ""
        report = of_lab(tuple(map(tuple, lab.rewards(chosen["gate"]).tolist())), lab.state.weights)
    judged = answers(report)
    return show(
        tag(
            "section",
            tag("h2", "Should I?"),
            tag("p", prose(verdict(judged, caution)), kind="verdict-use"),
            tag("ul", *map(_row, judged)),
            tag("p", prose(_priority(report)), kind="last"),
            kind="should",
        )
    )


def _priority(report: gc.AuditReport) -> str:
    first = report.run["primary"] or "the reward that matters most"
    return (
        f"No normalisation knows that **{first}** matters most. A larger weight helps. A gate does it, if "
        "what stands behind it falls to its worst value."
    )


_MARKS = {  # 14 × 14, told apart by shape
    "helps": tag("path", d="M7,1L13,12H1Z"),
    "mixed": tag("path", d="M7,0L12,6H2ZM7,14L12,8H2Z"),
    "steps": tag("path", d="M1,5H7V1L13,7L7,13V9H1Z"),
    "nothing": tag("rect", x=1, y=5, width=12, height=4),
    "hurts": tag("path", d="M7,13L13,2H1Z"),
    "unknown": tag("circle", cx=7, cy=7, r=5, fill="none", stroke="currentcolor", stroke_width=2),
}


def _row(answer: Answer) -> Html:
    mark = tag("svg", _MARKS[answer.effect], viewBox="0 0 14 14", aria_hidden="true")
    return tag(
        "li",
        tag("p", tag("b", answer.title), " ", tag("span", mark, EFFECTS[answer.effect], kind="effect")),
        tag("p", prose(answer.said), " ", lead(answer.at, answer.title, answer.scenario)),
        kind=answer.effect,
    )


@lru_cache(maxsize=1)
def titles() -> dict[str, str]:
    """The scenarios' titles by id; none where their file cannot be read, which Train then says."""
    try:
        return {scenario.id: scenario.title for scenario in load_scenarios(DATA / "scenarios.json")}
    except gc.InputError:
        return {}


def lead(chapter: str, about: str, scenario: str = "") -> Html:
    """A link to where something can be seen; about: what, for a screen reader."""
    names = {
        "lab": "See it in the Lab",
        "evidence": "See it on real prompts",
        "run": "See the report",
        "train": "See it trained",
    }
    known = scenario if scenario in titles() else ""
    shown = f"Train: {titles()[known]}" if known else names[chapter]
    query = f"?at={chapter}" + (f"&train-scenario={known}" if known else "")
    return tag(
        "a",
        shown,
        href=query,
        data_go=chapter,
        data_scenario=known or None,
        aria_label=f"{shown}: {about}",
        kind="onward",
    )
