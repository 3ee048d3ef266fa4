"""Three questions about rewards, preset from the Lab or an audited run, and the one verdict on whether to use GDPO."""

from collections.abc import Mapping, Sequence
from functools import lru_cache

import marimo as mo

from gdpo_audit.advice.advice import against
from gdpo_audit.advice.explanations import Answer, evidence_of, undone
from gdpo_audit.json_types import RewardPart
from gdpo_audit.report.audit_report import AuditReport
from gdpo_core.shared.words import decimal, listing, number
from views.bfcl import prompts
from views.chapters.evidence import trained
from views.chapters.evidence.order import up
from views.chapters.run.run_words import on_page
from views.widgets.html import ROOT, div, prose, show, tag
from views.widgets.nav import Nav

QUESTIONS = {
    "scales": "Do your rewards differ in scale?",
    "first": "Does one of them matter most?",
    "constant": "Is one nearly constant?",
}
WEIGHTED = ("weight_2", "weights", "fast-weights")  # trained with passes and fails that pay alike and weigh unequally
_SCALES = 3.0  # from how many times the smallest range or std on the largest one counts as another scale


def presets(report: AuditReport | None, of_run: bool) -> dict[str, bool]:
    """Return the answers to QUESTIONS that the rewards of a report give; all are no without a report.

    Scales that the weights undo do not count as different ones.

    of_run: whether the report is of a run. In the Lab, a reward matters most if it weighs more than the others; in a
        run, if it was named.
    """
    if report is None:
        return dict.fromkeys(QUESTIONS, False)
    weights = {weight for weight in report.run["weights_used"].values() if weight}
    first = report.run["primary"] is not None if of_run else len(weights) > 1
    return {
        "scales": _differ(*scale(report)[1:]) and not undone(report),
        "first": first,
        "constant": evidence_of(report, "reward-noise") is not None,
    }


def scale(report: AuditReport) -> tuple[str, float, float]:
    """Return by what the scales of the rewards of a report differ more, “ranges” or “stds”, with the smallest and the
    largest of them; 0 and 0 where there are none.

    Rewards of no weight, constant ones and that of the noise are left out.
    """
    sizes = {f"{measure}s": [reward[measure] for reward in _counted(report)] for measure in ("range", "std")}
    ends = {measure: (min(each), max(each)) for measure, each in sizes.items() if each}
    measure = max(ends, key=lambda measure: ends[measure][1] / ends[measure][0], default="stds")
    return measure, *ends.get(measure, (0.0, 0.0))


def _counted(report: AuditReport) -> list[RewardPart]:
    """Return the rewards of a report that `scale` does not leave out."""
    noise = (evidence_of(report, "reward-noise") or {}).get("reward")
    weights = report.run["weights_used"]
    return [r for r in report.rewards if r["name"] != noise and weights[r["name"]] and r["std"] and r["range"]]


def _differ(smallest: float, largest: float) -> bool:
    """Return whether two sizes are those of different scales."""
    return largest > 0 and largest >= _SCALES * smallest


def on_large_scale(report: AuditReport | None, of_run: bool) -> bool:
    """Return whether the reward that matters most is the one on the large scale. That is the reward with the largest
    product of std and weight, by which GRPO's sum counts it.

    False without a report, and where no reward matters most or it is not known which one.

    of_run: as in `presets`.
    """
    if report is None:
        return False
    weights = report.run["weights_used"]
    sizes = {r["name"]: abs(weights[r["name"]]) * (r["std"] or 0.0) for r in _counted(report)}
    heavy = max((abs(weights[name]) for name in sizes), default=0.0)
    heaviest = [name for name in sizes if abs(weights[name]) == heavy]
    first = report.run["primary"] if of_run else heaviest[0] if len(heaviest) == 1 else None
    return first in sizes and sizes[first] == max(sizes.values()) and _differ(min(sizes.values()), sizes[first])


def question_controls(page: Nav, preset: Mapping[str, bool]) -> mo.ui.dictionary:
    """Return the controls of the questions. An answer is that of the address, or else the preset one."""
    written = page.restore("use-asked") or written_as(preset)
    answers = dict(zip(QUESTIONS, (letter == "y" for letter in written), strict=True))
    return mo.ui.dictionary(
        {
            key: mo.ui.radio(
                {"yes": True, "no": False},
                "yes" if answers[key] else "no",
                inline=True,
                label=tag("span", question, kind="segments"),
            )
            for key, question in QUESTIONS.items()
        }
    )


def written_as(answers: Mapping[str, bool]) -> str:
    """Return answers as three letters, y or n, for the address."""
    return "".join("y" if answers[key] else "n" for key in QUESTIONS)


def section(
    asked: mo.ui.dictionary, report: AuditReport | None, source: str, advice: Sequence[Answer], of_run: bool
) -> mo.Html:
    """Return the questions, the verdict on their answers, and what was trained for it.

    report: the report that preset the answers, None if there is none.
    source: words for whose rewards these are.
    advice: what the pushes on these rewards say.
    of_run: as in `presets`.
    """
    sentence, setups = answers_verdict(asked.value, report, advice, of_run)
    measure, least, most = scale(report) if report else ("", 0.0, 0.0)
    ends = f": the {measure} of the rewards go from {number(least, 2)} to {number(most, 2)}" if most else ""
    ends += f"; a ratio of {_SCALES:g} or more counts as different" * bool(most)
    ends += "; the weights undo these scales" * (report is not None and undone(report))
    preset = f"Preset from {source}{ends}. "
    link = tag("a", "See the curves", href=f"?at=evidence&evidence-setup={setups[0]}", kind="onward")
    asking = div("asking-rewards", *asked.elements.values(), tag("p", preset, link, kind="note"))
    told = tag("div", tag("p", prose(sentence), kind="verdict-use"), trained.setup_blocks(setups), role="status")
    return show(div("asked", asking, told))


def answers_verdict(
    answers: Mapping[str, bool],
    report: AuditReport | None = None,
    advice: Sequence[Answer] = (),
    of_run: bool = False,
) -> tuple[str, tuple[str, ...]]:
    """Return the one verdict of the chapter, in sentences, and the names of the trained set-ups that show it.

    The evidence is asked in the order of its strength. What an audited run says of itself comes first, as Your run says
    it. Then comes what was trained with rewards that get the same answers. A push comes last: it never speaks for GDPO
    by itself, but GDPO is not advised where the push speaks against it or hardly changes.

    answers: the answers to QUESTIONS.
    report: the report on the rewards, None where nothing but the answers is known of them.
    advice: what the pushes on these rewards say.
    of_run: as in `presets`.
    """
    advised, why, setups = _trained(answers, on_large_scale(report, of_run))
    if report is not None and of_run:
        says = on_page(report.first_step).replace("**", "∗∗")
        return f"{on_page(report.caution)}**{says}** Trained elsewhere: {why[:1].lower()}{why[1:]}", setups
    if advised.startswith("GDPO") and advice and (reason := against(advice)):
        return f"{reason} What speaks for GDPO is what training gave where scales differ. {why}", setups
    return f"**{advised}** {why}", setups


def _trained(answers: Mapping[str, bool], large: bool) -> tuple[str, str, tuple[str, ...]]:
    """Return what training advises for rewards with these answers, why, and the names of the set-ups that show it.

    A nearly constant reward decides first, then the scales, then whether one reward matters most.

    large: whether the reward that matters most is known to be the one on the large scale.
    """
    if answers["constant"]:
        moved = _moved(trained.by_reward("noise")["correctness"])
        return (
            "GRPO, or GDPO without the nearly constant reward.",
            f"GDPO makes the noise of a nearly constant reward as large as a real one. Trained beside it, {moved}.",
            ("noise",),
        )
    large_scale, small_scale = trained.by_reward("pays_5"), trained.by_reward("scale")
    differ, alike = trained.parted(trained.of_gdpo(trained.load_differences()))
    if answers["scales"] and answers["first"]:
        moves = "GDPO takes learning from the reward on the large scale and gives it to the others. "
        itself = f"here correctness itself paid most, {_moved(small_scale['correctness'])}."
        if large:
            return "GRPO: what matters most is on the large scale.", f"{moves}W{itself}", ("scale",)
        advised = "GDPO, unless the reward that matters is the one on the large scale."
        moved = f"Where conciseness paid 5, {_moved(large_scale['correctness'])}; w{itself}"
        return advised, f"{moves}{moved}", ("pays_5", "scale")
    if answers["scales"]:
        moved = listing(f"{points_in_words(row)} {row.reward}" for row in large_scale.values())
        return (
            "GDPO.",
            f"GDPO counts each reward by its weight, whatever it pays. Where conciseness paid 5, GDPO taught {moved} "
            f"than GRPO. {_in_all('Where rewards differ in scale', differ)}",
            ("pays_5",),
        )
    if answers["first"]:
        grpo, gdpo = weights_that_order_all()
        return (
            "GRPO, with a larger weight on what matters.",
            f"{_in_all('Where passes and fails that pay alike had unequal weights', _weighted())} Among published "
            f"answers, GRPO ranks every right answer above every wrong one from a weight above {grpo} on; GDPO needs "
            f"more than {gdpo}.",
            WEIGHTED[:2],
        )
    return "GRPO is enough.", _in_all("Where all rewards are passes and fails that pay alike", alike), ("equal",)


def _weighted() -> list[trained.Difference]:
    """Return the differences of all set-ups of WEIGHTED."""
    return [row for row in trained.of_gdpo(trained.load_differences()) if row.setup in WEIGHTED]


def _in_all(where: str, rows: Sequence[trained.Difference]) -> str:
    """Return a sentence on how often GDPO leads and trails in some trained comparisons, and by how much it trails at
    most.

    where: what these have in common, in words.
    """
    leads, trails, _ = trained.count_leads(rows)
    most = max((-row.difference for row in rows if row.trails), default=0.0)
    by = f", by {decimal(most, 1)} points at most" * bool(trails)
    compared = f"{len(rows)} comparisons of small models"
    return f"{where}, GDPO leads in {leads or 'none'} of {compared} and trails in {trails or 'none'}{by}."


def points_in_words(row: trained.Difference) -> str:
    """Return words such as "4.8 points more" for a difference."""
    return f"{decimal(abs(row.difference), 1)} points {'more' if row.difference > 0 else 'less'}"


def _moved(row: trained.Difference) -> str:
    """Return words for what GDPO taught more or less of than GRPO."""
    return f"GDPO taught {points_in_words(row)} {row.reward} than GRPO"


@lru_cache(maxsize=1)
def weights_that_order_all() -> tuple[str, str]:
    """Return the weight of correctness, under GRPO and under GDPO, above which each right answer gets more advantage
    than each wrong one, among the answers that the chapter Evidence shows when it opens.
    """
    data = prompts.load_once(ROOT / "data" / "bfcl_rewards.parquet")
    pairs = prompts.pairs(prompts.marks_of(data, prompts.Choice()))
    return up(pairs.sufficient_weight("grpo")), up(pairs.sufficient_weight("gdpo"))
