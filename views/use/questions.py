"""Three questions about rewards, preset from the Lab or from an audited run, and the verdict that training gave."""

from collections.abc import Mapping, Sequence
from functools import lru_cache

import marimo as mo

from gdpo_audit.explanations import evidence_of
from gdpo_audit.report.audit_report import AuditReport
from gdpo_core._words import decimal, listing, number
from gdpo_core.bfcl import prompts
from views.evidence import trained
from views.evidence.order import up
from views.html import ROOT, div, prose, show, tag
from views.nav import Nav

QUESTIONS = {
    "scales": "Do your rewards have different scales?",
    "first": "Does one of them matter most?",
    "constant": "Is one nearly constant?",
}
SCALES = 3.0  # from how many times the smallest std on the largest one counts as another scale


def presets(report: AuditReport | None, of_run: bool) -> dict[str, bool]:
    """Return the answers to QUESTIONS that the rewards of a report give; all are no without a report.

    of_run: whether the report is of a run. In the Lab, a reward matters most if it weighs more than the others; in a
        run, if it was named.
    """
    if report is None:
        return dict.fromkeys(QUESTIONS, False)
    noise = evidence_of(report, "reward-noise")
    spreads = stds(report)
    weights = {weight for weight in report.run["weights_used"].values() if weight}
    first = report.run["primary"] is not None if of_run else len(weights) > 1
    return {
        "scales": len(spreads) > 1 and max(spreads) >= SCALES * min(spreads),
        "first": first,
        "constant": noise is not None,
    }


def stds(report: AuditReport) -> list[float]:
    """Return the stds of the rewards of a report, without rewards of no weight, constant ones and that of the noise."""
    noise = (evidence_of(report, "reward-noise") or {}).get("reward")
    rewards = (r for r in report.rewards if r["name"] != noise and report.run["weights_used"][r["name"]])
    return [std for std in (r["std"] for r in rewards) if std]


def ask(page: Nav, preset: Mapping[str, bool]) -> mo.ui.dictionary:
    """Return the controls of the questions. An answer is that of the address, or else the preset one."""
    written = page.given("use-asked") or written_as(preset)
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


def section(asked: mo.ui.dictionary, report: AuditReport | None, source: str) -> mo.Html:
    """Return the questions, the verdict on their answers, and what was trained for it.

    report: the report that preset the answers, None if there is none.
    source: words for whose rewards these are.
    """
    sentence, setups = verdict(asked.value)
    spreads = stds(report) if report else []
    ends = f", whose stds go from {number(min(spreads), 2)} to {number(max(spreads), 2)}" if spreads else ""
    preset = f"Preset from {source}{ends}. "
    link = tag("a", "See the curves", href=f"?at=evidence&evidence-setup={setups[0]}", kind="onward")
    asking = div("asking-rewards", *asked.elements.values(), tag("p", preset, link, kind="note"))
    told = tag("div", tag("p", prose(sentence), kind="verdict-use"), trained.blocks(setups), role="status")
    return show(div("asked", asking, told))


def verdict(answers: Mapping[str, bool]) -> tuple[str, tuple[str, ...]]:
    """Return the verdict on the answers, in sentences, and the names of the trained set-ups that show it.

    A nearly constant reward decides first, then the scales, then whether one reward matters most.
    """
    if answers["constant"]:
        less = trained.by_reward("noise")["correctness"]
        return (
            "**GRPO, or GDPO without the nearly constant reward.** GDPO makes its noise as large as a real reward. "
            f"Trained beside such a reward, {_moved(less)}.",
            ("noise",),
        )
    large, small = trained.by_reward("pays_5"), trained.by_reward("scale")
    differ, alike = trained.parted(trained.of_gdpo(trained.load()))
    if answers["scales"] and answers["first"]:
        return (
            "**GDPO, unless the reward that matters is the one on the large scale.** GDPO takes learning from that one "
            f"and gives it to the others. Where conciseness paid 5, {_moved(large['correctness'])}; where correctness "
            f"itself paid most, {_moved(small['correctness'])}.",
            ("pays_5", "scale"),
        )
    if answers["scales"]:
        moved = listing(f"{points(row)} {row.reward}" for row in large.values())
        return (
            "**GDPO.** It counts each reward by its weight, whatever it pays. Where conciseness paid 5, GDPO taught "
            f"{moved} than GRPO. {_in_all('Where rewards differ in scale', differ)}",
            ("pays_5",),
        )
    if answers["first"]:
        grpo, gdpo = weights_that_order_all()
        most = max(abs(row.difference) for row in trained.by_reward("weight_2").values())
        return (
            "**GRPO, with a larger weight on what matters.** Trained with a weight of 2, the methods differ by "
            f"{decimal(most, 1)} points at most. Among published answers, GRPO ranks every right answer above every "
            f"wrong one from a weight above {grpo} on; GDPO needs more than {gdpo}.",
            ("weight_2",),
        )
    most = max((-row.difference for row in alike if row.trails), default=0.0)
    return (
        "**GRPO, or either.** "
        f"{_in_all('Where all rewards are passes and fails that pay alike', alike)[:-1]}, "
        f"by {decimal(most, 1)} points at most.",
        ("equal",),
    )


def _in_all(where: str, rows: Sequence[trained.Difference]) -> str:
    """Return a sentence on how often GDPO leads and trails in some trained comparisons.

    where: what these have in common, in words.
    """
    leads, trails, _ = trained.counted(rows)
    return f"{where}, GDPO leads in {leads or 'none'} of {len(rows)} comparisons and trails in {trails or 'none'}."


def points(row: trained.Difference) -> str:
    """Return words such as "4.8 points more" for a difference."""
    return f"{decimal(abs(row.difference), 1)} points {'more' if row.difference > 0 else 'less'}"


def _moved(row: trained.Difference) -> str:
    """Return words for what GDPO taught more or less of than GRPO."""
    return f"GDPO taught {points(row)} {row.reward} than GRPO"


@lru_cache(maxsize=1)
def weights_that_order_all() -> tuple[str, str]:
    """Return the weight of correctness, under GRPO and under GDPO, above which each right answer gets more advantage
    than each wrong one, among the answers that the chapter Evidence shows when it opens.
    """
    data = prompts.load_once(ROOT / "data" / "bfcl_rewards.parquet")
    pairs = prompts.pairs(prompts.marks_of(data, prompts.Choice()))
    return up(pairs.sufficient_weight("grpo")), up(pairs.sufficient_weight("gdpo"))
