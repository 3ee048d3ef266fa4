"""A mean that falls, on the prompts that come both early and late, and one mean for one thing, compared with polars."""

from itertools import cycle, islice

import numpy as np
import polars as pl
import pytest
from helpers import nearly

import gdpo_audit as ga
from gdpo_audit.findings.finding import Finding
from gdpo_audit.report import document

SIZE, STEPS = 6, 40


def log(chance, prompts, seed=0) -> pl.DataFrame:
    """Return the rows of a log. chance: the chance that a response is right, from the step and the number of its
    prompt; prompts: the numbers of the prompts of a step, from the step.
    """
    draw, rows = np.random.default_rng(seed), []
    for step in range(STEPS):
        for prompt in prompts(step):
            right = (draw.random(SIZE) < chance(step, prompt)).astype(float)
            style = draw.normal(size=SIZE) + step / 10
            rows += [(step, f"question {prompt}", float(a), float(b)) for a, b in zip(right, style, strict=True)]
    return pl.DataFrame(rows, schema=["step", "prompt", "right", "style"], orient="row")


def falls(frame) -> Finding:
    """Return the finding that the mean of the reward `right` falls."""
    report = ga.audit(ga.read_run(frame, group_size=SIZE, rewards=["right", "style"]), primary="right")
    return next(finding for finding in report.findings if finding.id == "reward-falls")


def on_both(frame, early, late) -> tuple[int, float, float]:
    """Return how many prompts come in both sets of steps, and the means of their means in each."""
    means = [
        frame.filter(pl.col("step").is_in(list(steps))).group_by("prompt").agg(pl.col("right").mean())
        for steps in (early, late)
    ]
    both = means[0].join(means[1], on="prompt", suffix="_late")
    return len(both), both["right"].mean(), both["right_late"].mean()


def given_up(step, prompt) -> float:
    return 0.8 - 0.7 * step / STEPS


def harder(step, prompt) -> float:
    return 0.8 if prompt < 30 else 0.1


def all_again(step) -> list[int]:
    return list(islice(cycle(range(20)), step * 5, step * 5 + 5))


def ever_harder(step) -> list[int]:
    """Return three prompts of the first twenty, and more and more of the hard ones, which are new in each step."""
    hard = round(8 * step / STEPS)
    easy = list(islice(cycle(range(20)), step * 3, step * 3 + 3))
    return [*easy, *(1000 * step + n for n in range(500, 500 + hard))]


def test_a_reward_that_falls_on_the_same_prompts_was_given_up():
    frame = log(given_up, all_again)
    finding = falls(frame)
    prompts, first, last = on_both(frame, range(10), range(30, 40))
    says = f"On the {prompts} prompts that come both in the first quarter of the run and in the last, the mean goes "
    assert f"{says}from {first:.3g} to {last:.3g}: the policy gave it up." in finding.message
    assert prompts == 20 and "harder" not in finding.message + finding.to_do
    assert finding.evidence["prompts_early_and_late"] == 20
    assert finding.evidence["mean_on_them_early"] == nearly(first)
    assert finding.evidence["mean_on_them_late"] == nearly(last)


def test_a_reward_that_keeps_its_mean_on_the_same_prompts_met_harder_ones():
    frame = log(harder, ever_harder)
    finding = falls(frame)
    prompts, first, last = on_both(frame, range(10), range(30, 40))
    assert prompts == 20
    assert (
        f"the mean goes from {first:.3g} to {last:.3g}, less than half of that: the prompts became " in finding.message
    )


def test_prompts_that_come_again_outside_the_quarters_are_compared_before_and_after():
    """Each prompt comes in the first and in the third quarter, or in the second and in the fourth."""
    frame = log(given_up, lambda step: [10 * (step % 20) + n for n in range(5)])
    finding = falls(frame)
    step = finding.evidence["since_step"]
    prompts, first, last = on_both(frame, range(step), range(step, 40))
    says = f"On the {prompts} prompts that come both before step {step} and from there on, the mean goes from "
    assert f"{says}{first:.3g} to {last:.3g}: the policy gave it up." in finding.message


def test_prompts_that_never_come_again_show_nothing_and_the_report_says_so():
    finding = falls(log(given_up, lambda step: [1000 * step + n for n in range(5)]))
    step = finding.evidence["since_step"]
    says = f"No prompt comes both before step {step} and from there on, so this report cannot tell whether the policy "
    assert f"{says}gave right up or the prompts became harder." in finding.message
    assert "prompts_early_and_late" not in finding.evidence and "became harder" in finding.to_do


def test_a_log_without_prompts_says_that_it_has_none():
    finding = falls(log(given_up, all_again).drop("prompt"))
    assert "this report cannot tell which, because the log has no prompts." in finding.message


def test_few_prompts_that_come_again_decide_nothing():
    frame = log(given_up, lambda step: [*range(2), *(1000 * step + n for n in range(4))])
    assert "; that does not show whether the policy gave right up or " in falls(frame).message


# --- one mean --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
def test_a_mean_is_one_number_where_a_reward_is_missing_for_some_responses(seed):
    """Step means that count alike, and the mean over responses, differ here by far."""
    frame = log(given_up, all_again, seed)
    draw = np.random.default_rng(seed)
    present = draw.random(len(frame)) < np.where(frame["step"] % 3 == 0, 0.1, 0.9)
    present &= ~frame["step"].is_in([4, 20, 33]).to_numpy()  # In these steps no response has the reward.
    frame = frame.with_columns(right=pl.when(pl.Series(present)).then("right"))
    report = ga.audit(ga.read_run(frame, group_size=SIZE, rewards=["right", "style"]), primary="right")
    held = sorted(set(frame.drop_nulls("right")["step"]))
    quarter = len(held) // 4
    first, last = (
        frame.filter(pl.col("step").is_in(steps))["right"].mean() for steps in (held[:quarter], held[-quarter:])
    )
    reward = report.rewards[0]
    assert (reward["first_quarter"], reward["last_quarter"]) == (nearly(first), nearly(last))
    assert reward["missing"] == frame["right"].null_count() > 0
    finding = next(finding for finding in report.findings if finding.id == "reward-falls")
    assert f"falls, from {first:.3g} to {last:.3g}" in finding.title
    page = document(report)
    assert f"{first:.3g} → {last:.3g}" in page and f"from {first:.3g} to {last:.3g}" in page.replace("\u00a0", " ")


def test_lengths_are_means_over_the_responses_that_have_one():
    frame = log(given_up, lambda step: all_again(step)[: 1 + step % 5])
    frame = frame.with_columns(length=pl.Series(np.random.default_rng(1).integers(1, 99, len(frame))))
    lengths = ga.audit(ga.read_run(frame, group_size=SIZE, rewards=["right", "style"])).lengths
    first, last = (frame.filter(pl.col("step").is_between(*ends))["length"].mean() for ends in ((0, 9), (30, 39)))
    assert (lengths["first_quarter"], lengths["last_quarter"]) == (nearly(first), nearly(last))
