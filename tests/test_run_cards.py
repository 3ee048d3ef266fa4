"""The cards of a report: what they draw is what the plan of the report holds, and they recommend nothing else."""

import re
from dataclasses import replace

import pytest
from helpers import text_of
from msgspec import structs

import gdpo_audit as ga
from gdpo_audit.report.pages import html
from gdpo_audit.report.pages.cards import cards, chosen, effects_of
from gdpo_audit.report.tables import on_recommended
from gdpo_audit.thresholds import push_noise
from gdpo_audit.trials.recommending import with_interval_alone, without_figures
from views.chapters.run.log import audit_log, read_log
from views.chapters.run.samples import SAMPLES


def report_of(path, primary):
    log = read_log(next(sample for sample in SAMPLES if sample.path == path))
    return audit_log(log, primary, "")


def drawn(report):
    return str(cards(report, html.copy_box))


def test_bars_are_forecasts_in_points_of_the_range_with_their_interval():
    report = report_of("pays_5_grpo", "correctness")
    assert chosen(report) == [1, 2, 3]
    for n in chosen(report):
        row, words = report.plan[n], text_of(drawn(report))
        for reward, effect in zip(report.rewards, effects_of(report, row), strict=True):
            told = row.forecast[reward["name"]]
            by_hand = [100 * told[key] / reward["range"] for key in ("difference", "low", "high")]
            assert [effect.change, effect.low, effect.high] == pytest.approx(by_hand)
            assert reward["name"] in words and effect.words in words
    # Conciseness pays 0 to 5: a fall of 0.2133 in it is 4.3 points.
    assert report.rewards[2]["range"] == 5 and effects_of(report, report.plan[1])[2].words.startswith("−4.3 (−9.4 to")


def test_only_what_the_report_recommends_is_shown_as_a_recommendation():
    report = report_of("pays_5_grpo", "correctness")
    html_of = drawn(report)
    assert html_of.count("· Recommended") == html_of.count('class="setting best"') == 1
    best = next(row for row in report.plan if row.recommended)
    assert without_figures(best.cost) in text_of(html_of) and best.lines.split("\n")[0] in text_of(html_of).replace(
        "&quot;", '"'
    )
    # Held back by the report, or without a reward that matters most: nothing is recommended, and pushes are drawn.
    for path, primary in (("published_answers.zip", "correctness"), ("pays_5_grpo", None)):
        other = report_of(path, primary)
        assert "· Recommended" not in drawn(other) and "setting best" not in drawn(other)
        assert all(effect.words.startswith("push ") for effect in effects_of(other, other.plan[1]))


def test_each_card_says_its_cost_once_a_reward_matters_most():
    report = report_of("pays_5_grpo", "correctness")
    words = text_of(drawn(report))
    for n in chosen(report):
        said = without_figures(report.plan[n].cost)
        assert said.startswith("It ") and said in words and not re.search(r"interval|missed|push [+−]", said)
    assert not report.plan[0].cost
    undecided = report_of("pays_5_grpo", None)
    assert not any(row.cost for row in undecided.plan) and "may be noise" in drawn(undecided)


def test_what_forecasts_of_the_log_missed_by_stands_once_below_the_cards():
    report = report_of("pays_5_grpo", "correctness")
    told, words = report.plan[2].forecast, text_of(drawn(report))
    off = [f"{r['name']} by {100 * told[r['name']]['off_by'] / r['range']:.1f}" for r in report.rewards]
    assert words.count("missed") == 1
    assert words.endswith(f"A forecast of this log's second half missed {off[0]}, {off[1]} and {off[2]} points.")
    assert "missed" not in text_of(drawn(report_of("published_answers.zip", "correctness")))  # nothing is forecast


def test_a_card_calls_a_setting_as_good_where_noise_alone_parts_it_from_the_recommended_one():
    report = report_of("pays_5_grpo", "correctness")
    states = re.findall(r"Row (\d) of the plan · ([^<]*)<", drawn(report))
    assert states == [("1", "Recommended"), ("2", "As good for correctness, by this log"), ("3", "Changes the task")]
    push = {**report.plan[2].push, "correctness": report.plan[1].push["correctness"] - 2 * push_noise(4800)}
    less = replace(report, plan=[*report.plan[:2], structs.replace(report.plan[2], push=push), *report.plan[3:]])
    assert "Row 2 of the plan · Not recommended" in drawn(less)


def test_a_run_whose_push_is_printed_as_0_is_not_said_to_raise_its_reward():
    report = report_of("pays_5_gdpo", "correctness")
    assert not any(row.recommended for row in report.plan)
    for push, beyond in ((1e-17, " to above 0 and"), (0.0049, " to above 0 and"), (0.0051, " and")):
        ran = structs.replace(report.plan[0], push={**report.plan[0].push, "correctness": push})
        said = on_recommended(replace(report, plan=[ran, *report.plan[1:]]))
        assert f"raises the push on correctness{beyond} is forecast" in said, push


def test_a_gate_says_on_its_card_what_it_lets_count():
    words = text_of(drawn(report_of("pays_5_grpo", "correctness")))
    assert "Let conciseness count only where correctness reaches 1" in words and "gated by" not in words


def test_no_change_is_one_card_without_a_setting():
    words = text_of(drawn(report_of("arithmetic", "correct")))
    assert words == "No change is called for."


def test_what_is_not_called_for_is_a_fact_of_the_report_and_not_read_from_its_words():
    report = report_of("pays_5_grpo", "correctness")
    worded = replace(report, further="A log of which a reward is named “No change is called for.”")
    assert not worded.not_called_for and text_of(drawn(worded)) == text_of(drawn(report))
    other = replace(report, not_called_for="other setting")
    assert text_of(drawn(other)) == "No other setting is called for."


def test_a_card_says_what_is_only_assumed_and_that_a_log_is_short():
    rows = [{"prompt": g, "a": i % 2, "b": i // 2, "advantage": 0.1 * i} for g in "xyz" for i in range(4)]
    report = ga.audit(ga.read_run(rows), primary="a")
    assumed = [claim.what for claim in report.reading if claim.evidence == "assumed"]
    words = text_of(drawn(report))
    assert report.condition and {"rewards", "weights"} & set(assumed)
    of_cards = re.findall(r"This holds if .*?, which the log does not show\.", words)
    assert len(of_cards) == len(chosen(report)) and words.count(report.caution.strip()) == len(chosen(report))


def test_the_verdict_of_the_page_leaves_the_cost_to_its_card():
    report = report_of("pays_5_grpo", "correctness")
    words = text_of(str(html.front(report)))
    best = next(row for row in report.plan if row.recommended)
    assert words.count(without_figures(best.cost)) == 1 and with_interval_alone(report.first_step) in words
    assert report.first_step in text_of(str(html.body(report)))
    assert text_of(str(html.body(report))).count(best.cost) == 1  # the file has no cards, and says it in its verdict
