"""Logs whose lines hold groups or whole steps, and runs that were started again: advantages by numpy alone."""

import json
import warnings

import numpy as np
import polars as pl
import pytest
from test_own_loops import SIZE, claims, grpo, log, no_std, normalised_each, parts

import gdpo_audit as ga
import gdpo_core as gc
from gdpo_audit.logs.columns.behaviour import CLOCK, LEAST_GROUPS, PLACE, not_rewards
from gdpo_audit.logs.groups.rows import FEWEST_MARKED, end_without_advantage
from gdpo_audit.logs.names import ROW

NAMES = ("acc", "form", "brief")
WEIGHTS = np.array([1, 0.5, 0.25])


def steps(count=30, prompts=4, seed=5):
    """Yield the groups of each step: the prompt, the rewards (responses, rewards), and the advantages under GRPO."""
    random = np.random.default_rng(seed)
    for step in range(count):
        rewards = [parts(random, step, count) for _ in range(prompts)]
        yield step, [(f"Q{step}-{at}", r, grpo(r, WEIGHTS)) for at, r in enumerate(rewards)]


def samples(rewards, advantages, flat):
    """Return the responses of a group as objects, whose rewards stand beside the advantage or in an object of their
    own."""
    for r, a in zip(rewards.tolist(), advantages.tolist(), strict=True):
        named = dict(zip(NAMES, r, strict=True))
        yield {"advantage": a} | (named if flat else {"rewards": named})


def a_line_per_step(flat):
    for step, groups in steps():
        held = [{"prompt": q, "samples": [*samples(r, a, flat)]} for q, r, a in groups]
        yield {"step": step, "cfg": {"w_acc": 1.0, "lr": 1e-6}, "groups": held}


def a_line_per_group(flat):
    for step, groups in steps():
        yield from ({"step": step, "w_form": 0.5, "prompt": q, "samples": [*samples(r, a, flat)]} for q, r, a in groups)


def a_line_per_run(flat):
    yield {"run": "a", "steps": [{"step": x["step"], "groups": x["groups"]} for x in a_line_per_step(flat)]}


def a_list_of_lists(flat):
    yield from ({"step": x["step"], "groups": [one["samples"] for one in x["groups"]]} for x in a_line_per_step(flat))


def names_that_come_again(flat):
    """A step beside its groups has a mean advantage, a group is called as the list that holds it, or as rewards."""
    for x in a_line_per_step(flat):
        groups = [{"prompt": one["prompt"], "groups": one["samples"]} for one in x["groups"]]
        yield {"step": x["step"], "advantage": 0.25, "groups": groups}


def rollouts_called_rewards(flat):
    for x in a_line_per_step(flat):
        yield {"step": x["step"], "groups": [{"q": one["prompt"], "rewards": one["samples"]} for one in x["groups"]]}


LINES = [a_line_per_step, a_line_per_group, a_line_per_run]
LINES += [a_list_of_lists, names_that_come_again, rollouts_called_rewards]


@pytest.mark.parametrize("lines", LINES)
@pytest.mark.parametrize("flat", [False, True])
def test_rollouts_inside_groups_inside_steps_are_rows(lines, flat, tmp_path):
    (tmp_path / "log.json").write_text(json.dumps([*lines(flat)]))
    run = ga.read_run(tmp_path / "log.json")
    assert set(run.rewards) == {*NAMES} and run.group_size == SIZE, "a weight or a rate beside them is no reward"
    rows = pl.concat(run.tables())
    assert len(rows) == 30 * 4 * SIZE and rows["step"].n_unique() == 30
    report = ga.audit(run)
    weights = report.run["weights"]
    assert [weights[name] / weights["acc"] for name in NAMES] == pytest.approx(WEIGHTS)
    assert {claim.what: claim for claim in report.reading}["weights"].evidence == "proved"


def test_an_empty_list_of_groups_is_no_line(tmp_path):
    lines = [*a_line_per_step(flat=False)]
    lines.insert(3, {"step": 99, "cfg": lines[0]["cfg"], "groups": []})
    (tmp_path / "log.json").write_text(json.dumps(lines))
    assert len(pl.concat(ga.read_run(tmp_path / "log.json").tables())) == 30 * 4 * SIZE


def test_nested_values_that_are_not_understood_are_not_called_means():
    log = [
        {"step": x["step"], "groups": {one["prompt"]: one["samples"] for one in x["groups"]}}
        for x in a_line_per_step(True)
    ]
    with pytest.raises(gc.InputError, match="nested values in groups that are no lists of objects") as refusal:
        ga.read_run(log)
    assert "means" not in str(refusal.value)


def test_rewards_whose_differences_are_no_numbers_raise_no_warning():
    rows = [*log(lambda *_: np.array([1, 0.5, 0.2]), grpo, steps=10)]
    huge = [row | {"judge": 1e308 if at % 7 else -1e308} for at, row in enumerate(rows)]
    with warnings.catch_warnings(), pytest.raises(gc.InputError, match=r"from 1e-100 to 1e\+100"):
        warnings.simplefilter("error")
        claims(huge)


def resumed(second):
    """Yield the rows of a run that stops after step 19 and goes on from its checkpoint of step 20 under another method.

    second: the advantages of a group in the second attempt, from its rewards.
    """
    random = np.random.default_rng(8)
    for attempt, of_attempt in ((0, range(20)), (1, range(20, 40))):
        for step in of_attempt:
            for prompt in range(5):
                r = parts(random, step, 40)
                for one, a in zip(r.tolist(), grpo(r, WEIGHTS) if attempt == 0 else second(r), strict=True):
                    named = dict(zip(NAMES, one, strict=True))
                    yield {"attempt": attempt, "step": step, "prompt_id": f"{step}-{prompt}"} | named | {"advantage": a}


def test_a_run_resumed_under_another_method_says_which_one():
    report, reading = claims(resumed(lambda r: normalised_each(r, np.array([1, 0.2, 0.5]))))
    assert "attempt" not in report.run["weights"]
    assert report.run["weights"] == pytest.approx({"acc": 1, "form": 0.2, "brief": 0.5}, abs=1e-6)
    assert "Find out why steps 0 to 19 ran with GRPO and weights acc : form : brief = 4 : 2 : 1" in report.verdict
    assert reading["responses"].taken.startswith("600 of 1,200 rows")


def test_a_run_resumed_under_something_unknown_has_steps_to_look_at():
    random = np.random.default_rng(1)
    report, _ = claims(resumed(lambda r: random.normal(size=len(r))))
    assert "what wrote steps 20 to 39" in report.verdict and "--not-steps 20-39" in report.verdict


@pytest.mark.parametrize(("again", "is_clock"), [(5, True), (19, False)])
def test_the_number_of_an_attempt_rises_in_the_log_though_its_steps_come_again(again, is_clock):
    """An attempt that goes back by some steps falls in the order of the steps; rows that mix in the log do not rise."""
    rows = pl.DataFrame({"step": [*range(20), *range(20 - again, 40)], "attempt": [0] * 20 + [1] * (20 + again)})
    rows = rows.with_row_index(ROW) if is_clock else rows.sample(fraction=1, shuffle=True, seed=3).with_row_index(ROW)
    rows = pl.concat([rows] * 4).sort(ROW).with_columns(pl.int_range(pl.len()).alias(ROW)).sort("step")
    assert not_rewards(rows, ["attempt"], labels=False) == ({"attempt": CLOCK} if is_clock else {})


def test_options_that_name_a_column_do_not_keep_other_options_from_being_tried():
    """Advantages of which only those above 0 were kept add up to nothing, so that prompts alone tell the groups."""
    rows = []
    for step, groups in steps():
        for q, r, _ in groups:
            total = r @ WEIGHTS
            for one, a in zip(r.tolist(), np.maximum(total - total.mean(), 0), strict=True):
                rows.append({"update": step, "task_id": q} | dict(zip(NAMES, one, strict=True)) | {"A": a})
    with pytest.raises(gc.InputError, match=r"reads it: --group task_id --columns step=update,advantage=A"):
        ga.read_run(rows, columns={"advantage": "A"})
    report, reading = claims(rows, columns={"advantage": "A", "step": "update"}, group="task_id")
    assert reading["weights"].evidence == "proved" and [*report.run["weights"].values()] == pytest.approx([*WEIGHTS])


def test_a_median_in_the_place_of_the_mean_is_told_as_a_baseline():
    def robust(r):
        total = r @ np.array([1, 0.5, 1])
        off = total - np.median(total)
        return off / (1.4826 * np.median(abs(off)) + 0.1)

    random = np.random.default_rng(12)
    rows = []
    for step in range(40):
        for prompt in range(6):
            r = parts(random, step, 40)
            for one, a in zip(r.tolist(), robust(r), strict=True):
                rows.append(
                    {"step": step, "group": step * 6 + prompt} | dict(zip(NAMES, one, strict=True)) | {"adv": a}
                )
    report, _ = claims(rows, columns={"advantage": "adv"})
    titles = [finding.title for finding in report.findings if finding.id == "advantages-not-reproduced"]
    assert len(titles) == 1 and titles[0].endswith("a baseline and a factor for each group")


@pytest.mark.parametrize(("decimals", "taken"), [(3, "changing at least 13 times"), (None, "changing 39 times")])
def test_small_changes_of_weights_may_be_lost_in_rounded_advantages(decimals, taken):
    """The weight moves in each of 40 steps; advantages of three decimals show some of these changes alone."""

    def made(r, w):
        return no_std(r, w) if decimals is None else no_std(r, w).round(decimals)

    _, reading = claims(log(lambda step, _: np.array([1, 0.5 + 0.01 * step, 0.2]), made))
    assert (reading["weights"].taken, reading["weights"].evidence) == (taken, "agrees" if decimals else "proved")


@pytest.mark.parametrize(
    ("size", "groups", "is_place"), [(3, LEAST_GROUPS, True), (3, LEAST_GROUPS - 1, False), (2, 40, False)]
)
def test_numbers_that_begin_again_are_places_where_no_column_names_the_groups(size, groups, is_place):
    rows = pl.DataFrame({"at": [*range(1, size + 1)] * groups})
    assert not_rewards(rows, ["at"], labels=False) == ({"at": PLACE} if is_place else {})


@pytest.mark.parametrize(("weight", "shown"), [(0.011, [1 / 0.011, 1, 0.3 / 0.011]), (0.009, [1, 0.009, 0.3])])
def test_ratios_of_weights_are_counted_from_the_smallest_unless_it_is_tiny(weight, shown):
    report, _ = claims(log(lambda *_: np.array([1, weight, 0.3]), grpo))
    assert [*report.run["weights"].values()] == pytest.approx(shown, rel=1e-4)


@pytest.mark.parametrize("mark", [-1.0, 99.0])
def test_answers_that_a_judge_marks_as_unread_are_no_part_of_their_group(mark):
    """The mark is the judge's own smallest or largest value; it stays a reward, and the marked rows count nowhere."""
    random = np.random.default_rng(3)
    rows = []
    for step in range(40):
        for prompt in range(6):
            r = parts(random, step, 40)
            total, unread = r[:, 0] + 0.5 * r[:, 2], random.random(SIZE) < 0.1
            a = np.zeros(SIZE)
            a[~unread] = grpo(total[~unread, None], np.ones(1))
            for right, judge, out, x in zip(r[:, 0], r[:, 2], unread, a, strict=True):
                row = {"step": step, "item": f"i{step * 6 + prompt}", "right": right}
                rows.append(row | {"judge": mark if out else judge, "advantage": x})
    report, reading = claims(rows)
    assert report.run["weights"] == pytest.approx({"right": 2, "judge": 1})
    assert reading["responses"].taken.startswith(f"{sum(row['judge'] != mark for row in rows):,} of 1,440 rows")
    assert (reading["responses"].evidence, reading["weights"].evidence) == ("agrees", "proved")


@pytest.mark.parametrize("times", [1.0, SIZE / (SIZE - 1)])
def test_what_the_first_lines_name_is_not_the_only_way_where_a_baseline_and_a_ratio_give_the_same(times):
    """The mean of the others subtracted makes what the mean of all makes with larger weights: nobody can tell them
    apart.
    """
    report, reading = claims(log(lambda *_: times * np.array([1, 0.5, 0.2]), no_std))
    assert "leave-one-out, and weights in that ratio, makes them as well." in report.what_ran
    assert reading["method"].evidence == "agrees"


def test_a_single_reward_is_named_with_the_methods_that_make_the_same_of_it():
    report, _ = claims(log(lambda *_: np.array([1, 0, 0]), lambda r, w: grpo(r[:, :1], w[:1])), rewards=["richtig"])
    assert report.what_ran.endswith("On these rewards MO-GRPO makes the same.")


@pytest.mark.parametrize(("beside", "name"), [("used", "used"), ("temp", None)])
def test_a_column_that_is_the_same_in_each_group_is_no_reward_though_groups_are_found_last(beside, name):
    """No column is called a group, so that the advantages tell the groups, after the rewards were chosen."""
    rows = [*log(lambda *_: np.array([1, 0.5, 0.2]), grpo)]
    draws = np.random.default_rng(1).integers(0, 2, len(rows) // SIZE).repeat(SIZE)
    report, reading = claims([row | {beside: float(x)} for row, x in zip(rows, draws, strict=True)])
    assert set(report.run["weights"]) == {"richtig", "form", "kuerze"}
    assert (reading["responses"].evidence == "assumed") == (name is not None), "used may say which groups were trained"


@pytest.mark.parametrize("epochs", [1, 2])
def test_a_batch_that_is_logged_once_per_epoch_counts_twice_and_says_so(epochs):
    rows = [*log(lambda *_: np.array([1, 0.5, 0.2]), grpo, steps=12)]
    batch = SIZE * 8
    twice = [row for at in range(0, len(rows), batch) for _ in range(epochs) for row in rows[at : at + batch]]
    report, reading = claims(twice)
    assert (reading["responses"].evidence == "assumed") == (epochs == 2)
    assert any("stands twice" in note for note in report.source["notes"]) == (epochs == 2)


def test_answers_without_an_advantage_do_not_hide_the_prompt_that_tells_the_groups():
    """Cut answers count in the mean and the std, and their advantage is 0: no sum is 0, and no group follows."""
    random = np.random.default_rng(6)
    rows = []
    for step, groups in steps():
        for q, r, a in groups:
            cut = random.random(SIZE) < 0.2
            for one, x, out in zip(r.tolist(), np.where(cut, 0, a).tolist(), cut, strict=True):
                named = dict(zip(NAMES, one, strict=True))
                rows.append({"step": step, "pid": q} | named | {"finish": "length" if out else "stop", "advantage": x})
    report, reading = claims(rows)
    assert report.run["weights"] == pytest.approx({"acc": 4, "form": 2, "brief": 1})
    assert reading["groups"].taken == f"groups of {SIZE}, by the column pid"


def test_a_last_step_that_was_cut_off_is_to_be_left_out():
    rows = [*log(lambda *_: np.array([1, 0.5, 0.2]), grpo, steps=20)]
    report, _ = claims(rows[: -SIZE * 8 + SIZE + 4])
    assert "Leave step 19 out of the audit (--not-steps 19), as rows of it are missing." in report.verdict


@pytest.mark.parametrize(
    ("each_alone", "says"), [(False, "adds nothing to the total, as 0 would"), (True, "and is no 0")]
)
def test_a_missing_reward_is_no_other_than_0_where_the_total_is_normalised(each_alone, says):
    random = np.random.default_rng(7)
    rows = []
    for step, groups in steps():
        for q, r, _ in groups:
            held = np.where(random.random(r.shape) < 0.15, np.nan, r)
            held[:, 0], held[:2] = r[:, 0], r[:2]  # two values of each reward are there, so that each has a std
            z = (held - np.nanmean(held, 0)) / (np.nanstd(held, 0, ddof=1) + 1e-4)
            a = np.nansum(z * WEIGHTS, 1) if each_alone else grpo(np.nan_to_num(held), WEIGHTS)
            for one, x in zip(held.tolist(), a.tolist(), strict=True):
                named = {name: None if v != v else v for name, v in zip(NAMES, one, strict=True)}
                rows.append({"step": step, "prompt": q} | named | {"advantage": x})
    _, reading = claims(rows)
    assert reading["missing"].taken.endswith(says) and reading["missing"].evidence == "proved"


@pytest.mark.parametrize(("rows", "told"), [(FEWEST_MARKED, True), (FEWEST_MARKED - 1, False)])
def test_few_rows_at_an_end_have_no_advantage_by_chance(rows, told):
    values = np.concatenate([np.full(rows, -1.0), np.linspace(0, 1, 40)])
    end = end_without_advantage(values, np.where(values < 0, 0.0, 0.5))
    assert (end is not None) == told
    assert end_without_advantage(values, np.full(len(values), 0.5)) is None


def test_a_column_that_is_called_a_reward_stays_one_though_no_group_parts_by_it():
    rows = [*log(lambda *_: np.array([1, 0.5, 0.2]), grpo)]
    draws = np.random.default_rng(1).integers(0, 2, len(rows) // SIZE).repeat(SIZE)
    report, _ = claims([row | {"reward_sprache": float(x)} for row, x in zip(rows, draws, strict=True)])
    assert "reward_sprache" in report.run["weights"]


def test_several_steps_without_whole_groups_are_to_be_looked_into():
    rows = [*log(lambda *_: np.array([1, 0.5, 0.2]), grpo, steps=20)]
    batch = SIZE * 8
    short = [row for at, row in enumerate(rows) if at // batch not in (9, 14) or at % batch < batch - 4]
    report, _ = claims(short, group_size=None)
    assert "as rows of it are missing" not in report.verdict


def test_weights_that_rounded_advantages_show_have_no_more_digits_than_these():
    random = np.random.default_rng(5)
    rows = []
    for step in range(25):
        held = [parts(random, step, 25) for _ in range(10)]
        each = [(r - r.mean(0)) / (r.std(0, ddof=1) + 1e-4) for r in held]
        total = np.concatenate(each) @ WEIGHTS
        a = ((total - total.mean()) / (total.std(ddof=1) + 1e-4)).round(3)
        for at, (one, x) in enumerate(zip(np.concatenate(held).tolist(), a.tolist(), strict=True)):
            named = dict(zip(NAMES, one, strict=True))
            rows.append({"step": step, "prompt": f"{step}-{at // SIZE}"} | named | {"advantage": x})
    report, _ = claims(rows)
    assert report.run["weights"] == {"acc": 4, "form": 2, "brief": 1}
