"""Logs of training loops that people wrote themselves: foreign words, rounded numbers, totals and weights that change.

The advantages are made by numpy alone, and the log names nothing in the words of a trainer.
"""

import re
from dataclasses import replace

import numpy as np
import polars as pl
import pytest

import gdpo_audit as ga
import gdpo_core as gc
from gdpo_audit.auditing import gather
from gdpo_audit.logs.columns.behaviour import CLOCK, not_rewards
from gdpo_audit.logs.numbers.weighted_sums import sum_of_others
from gdpo_audit.recipe.solve import solve
from gdpo_audit.unexplained.after import solve_after
from gdpo_audit.unexplained.followed_total import with_followed_parts

SIZE, PROMPTS = 6, 8


def parts(random, step, steps):
    """Return (answers, rewards) of one prompt: right or wrong, a form that is learnt, and a score of three decimals."""
    odds = [0.3 + 0.4 * step / steps, 0.4 + 0.5 * step / steps]
    return np.column_stack([*(random.random(SIZE) < p for p in odds), random.beta(2, 3, SIZE).round(3)]).astype(float)


def changing(step, steps):
    """Return weights of which the second falls to a fifth in the middle of the run."""
    return np.array([1, 0.5 if step < steps / 2 else 0.1, 0.2])


def log(weights, advantage, total=None, steps=40, seed=2):
    """Return the rows of a log in German, with a number for the place of each answer.

    weights: a function of the step and the number of steps.
    advantage: makes the advantages of a group from its rewards and the weights.
    total: decimals of a column that holds the weighted sum; None for no such column.
    """
    random = np.random.default_rng(seed)
    for step in range(steps):
        w = weights(step, steps)
        for prompt in range(PROMPTS):
            r = parts(random, step, steps)
            a = advantage(r, w)
            for place in range(SIZE):
                row = {"schritt": step, "frage": f"F{step * PROMPTS + prompt}", "antwort": place}
                row |= dict(zip(("richtig", "form", "kuerze"), r[place].tolist(), strict=True))
                yield (
                    row
                    | ({} if total is None else {"summe": round(float(r[place] @ w), total)})
                    | {"vorteil": float(a[place])}
                )


def grpo(r, w):
    total = r @ w
    return (total - total.mean()) / (total.std(ddof=1) + 1e-4)


def no_std(r, w):
    return r @ w - (r @ w).mean()


def normalised_each(r, w):
    """Return the weighted sum of rewards normalised by numpy's std in their group, divided by nothing afterwards."""
    return ((r - r.mean(0)) / (r.std(0) + 1e-6)) @ w


def claims(rows, **options):
    report = ga.audit(ga.read_run(list(rows), **options))
    return report, {claim.what: claim for claim in report.reading}


@pytest.mark.parametrize("method", [grpo, no_std])
@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("weights", ["constant", "changing"])
def test_the_advantages_tell_a_total_of_a_foreign_name(method, sign, weights):
    """No name says that it is a weighted sum of three of the other columns, and one of these numbers the answers."""
    of_step = (lambda s, n: changing(s, n)) if weights == "changing" else (lambda s, n: np.array([1, 0.5, 0.2]))
    report, told = claims(log(lambda s, n: of_step(s, n) * [1, sign, 1], method, total=4))
    assert told["total"].taken == "summe"
    assert told["rewards"].taken == "richtig, form and kuerze" and told["rewards"].evidence == "proved"
    assert report.run["method"] == {"grpo": "grpo", "no_std": "grpo_no_std"}[method.__name__]
    if weights == "constant":
        assert report.run["weights"] == pytest.approx({"richtig": 1, "form": sign * 0.5, "kuerze": 0.2})
    else:
        assert [change["weights"]["form"] for change in report.run["weights_in_turn"]] == pytest.approx(
            [sign * 0.5, sign * 0.1]
        )


def test_a_reward_that_others_do_not_make_is_no_total():
    """The advantages follow it alone, and the other columns say little of it: they are left as they are."""
    random = np.random.default_rng(5)
    rows = []
    for step in range(30):
        for prompt in range(PROMPTS):
            r = np.column_stack([random.random(SIZE).round(3), random.random(SIZE) < 0.5, random.random(SIZE)])
            a = no_std(r, np.array([1.0, 0, 0]))
            rows += [
                {
                    "schritt": step,
                    "frage": f"F{step}.{prompt}",
                    "note": r[i, 0],
                    "b": r[i, 1],
                    "c": r[i, 2],
                    "vorteil": a[i],
                }
                for i in range(SIZE)
            ]
    report, told = claims(rows)
    assert told["reward"].taken == "note" and "total" not in told
    assert not any("are those of note alone" in note for note in report.notes)


@pytest.mark.parametrize("decimals", [2, 3, 6])
def test_a_total_of_few_decimals_is_told_by_the_advantages_too(decimals):
    _, told = claims(log(lambda s, n: np.array([1, -0.5, 0.23]), no_std, total=decimals))
    named = "total" if decimals == 6 else "reward"
    assert told[named].taken == "summe" and "antwort" not in told.get("rewards", told["method"]).taken


def test_a_few_groups_do_not_tell_a_total():
    """Nineteen groups with a signal may follow one column by chance; twenty tell it."""
    rows = list(log(lambda s, n: np.array([1, -0.5, 0.2]), no_std, total=4, steps=4))
    live = [*dict.fromkeys(row["frage"] for row in rows if row["vorteil"])]
    for many, told in ((19, False), (20, True)):
        some = [row for row in rows if row["frage"] in live[:many]]
        run = ga.read_run(some, group="frage")
        assert "summe" in run.rewards and (with_followed_parts(run, run.sample) is not None) == told


@pytest.mark.parametrize("scale", [1.0, 0.1])
@pytest.mark.parametrize("decimals", [2, 3])
def test_rounded_advantages_add_up_in_the_groups_that_made_them(decimals, scale):
    """Blocks of twelve add up as well as groups of six do once rounding is allowed for; the finer count."""
    rows = log(lambda s, n: scale * changing(s, n), no_std, total=5)
    rows = [row | {"vorteil": round(row["vorteil"], decimals)} for row in rows]
    for options in ({}, {"rewards": ["richtig", "form", "kuerze"]}):
        report, told = claims(rows, **options)
        assert report.source["group_size"] == SIZE and told["groups"].evidence == "proved"
        assert report.run["method"] == "grpo_no_std"


@pytest.mark.parametrize("scale", [1, 0.37])
def test_weights_that_fall_step_by_step_are_shown_where_nothing_divides_the_sum(scale):
    def falling(step, steps):
        return scale * np.array([1, 1 - 0.9 * step / (steps - 1), 0.5])

    report, told = claims(log(falling, normalised_each))
    assert told["rewards"].evidence == "proved" and told["weights"].taken == "changing 39 times"
    last = report.run["weights_in_turn"][-1]["weights"]
    assert last["form"] / last["richtig"] == pytest.approx(0.1, rel=1e-3)


def test_a_factor_of_the_step_is_no_change_of_weights():
    """Each step multiplies its advantages by a number of its own, so that no weight stays and none is told."""
    random = np.random.default_rng(7)
    factors = random.uniform(0.5, 2, 40)

    def falling(step, steps):
        return factors[step] * np.array([1, 1 - 0.9 * step / (steps - 1), 0.5])

    _, told = claims(log(falling, normalised_each))
    assert told["weights"].evidence == "assumed" and "no known method" in told["weights"].because


def test_a_step_that_never_falls_counts_even_where_prompts_come_again():
    """One or two draws of a prompt, halved advantages: only the column's name and order tell steps."""
    random = np.random.default_rng(10)
    rows = []
    for step in range(60):
        drawn = [f"Q{random.integers(900)}" for _ in range(7)]
        for prompt in drawn + drawn[:3]:
            r = np.column_stack([random.random(4) < 0.5, random.random(4).round(2)]).astype(float)
            a = grpo(r, np.array([1, -0.3]))
            a = np.where(a < 0, a / 2, a)
            rows += [
                {"train_step": step, "prompt": prompt, "verifier": r[i, 0], "verbosity": r[i, 1], "adv": a[i]}
                for i in range(4)
            ]
    report, _ = claims(rows)
    assert report.source["steps"] == 60
    shuffled = [rows[i] for i in random.permutation(len(rows))]
    assert claims(shuffled)[0].source["steps"] in (1, 60)


def two_tasks(second_scale):
    """Return rows of two tasks, groups of 8 and of 4, whose rewards differ, by GRPO with numpy's std + 1e-6."""
    random = np.random.default_rng(9)
    for step in range(40):
        for prompt in range(PROMPTS):
            n = 4 if prompt % 2 else 8
            right, x = (random.random(n) < 0.5).astype(float), random.random(n).round(2)
            total = right + 0.2 * x if n == 8 else second_scale * right + 0.3 * x
            a = (total - total.mean()) / (total.std() + 1e-6)
            for i in range(n):
                rewards = {"correct": right[i], "format": x[i] if n == 8 else None, "lint": None if n == 8 else x[i]}
                yield {"step": step, "group": prompt, **rewards, "advantage": a[i]}


def test_an_eps_is_named_only_where_it_is_seen():
    """With a factor between the tasks no weights give all advantages to the last digit, so no eps is shown."""
    report, told = claims(two_tasks(2.0))
    assert report.run["method"] == "grpo" and report.run["convention"] is None and told["method"].taken == "GRPO"
    seen = claims(two_tasks(1.0))[0].run
    assert seen["convention"] == "numpy_1e-06" and seen["max_error"] < 1e-7


@pytest.mark.parametrize("ragged", [False, True])
@pytest.mark.parametrize("total", [False, True])
@pytest.mark.parametrize("others", [False, True])
def test_rloo_and_no_std_are_told_apart_only_where_something_tells(ragged, total, others):
    """In groups of one size their advantages differ by a factor, which the weights may hold as well."""
    random = np.random.default_rng(3)
    rows = []
    for step in range(30):
        for prompt in range(PROMPTS):
            n = int(random.integers(4, 8)) if ragged else SIZE
            r = np.column_stack([random.random(n) < 0.5, random.random(n).round(2)]).astype(float)
            sums = r @ [1, 0.3]
            a = (sums - sums.mean()) * (n / (n - 1) if others else 1)
            for i in range(n):
                row = {"step": step, "group": step * PROMPTS + prompt, "acc": r[i, 0], "fmt": r[i, 1]}
                rows.append(row | ({"reward": sums[i]} if total else {}) | {"advantage": a[i]})
    _, told = claims(rows)
    assert told["method"].evidence == ("proved" if ragged or total else "agrees")
    either = "without leave-one-out" if others else "with leave-one-out"
    assert (either in told["method"].because) == (not ragged and not total)
    assert ("with this method" in told["weights"].because) == (not ragged and not total)


def table(advantage, steps=30, size=8, seed=116, **more):
    """Return rows of groups of one size. advantage: makes them from the (answers, rewards) of a group and its step."""
    random = np.random.default_rng(seed)
    for step in range(steps):
        for prompt in range(PROMPTS):
            odds = 1 / (1 + np.exp(-random.normal()))
            r = np.column_stack([random.random(size) < odds, random.random(size) < 0.6, random.random(size).round(4)])
            a = advantage(r.astype(float), step, prompt)
            for i in range(size):
                row = {"step": step, "prompt_id": f"q{step}-{prompt}", "exact": float(r[i, 0]), "fmt": float(r[i, 1])}
                row |= {"style": r[i, 2]} | {name: value(step, prompt, i) for name, value in more.items()}
                yield row | {"advantage": float(a[i])}


WEIGHTS = np.array([1, 0.5, 0.3])


@pytest.mark.parametrize("share", [0.0, 0.0005, 0.03])
@pytest.mark.parametrize("shuffled", [False, True])
def test_rows_that_a_writer_wrote_twice_count_once(share, shuffled):
    random = np.random.default_rng(1)
    rows = list(table(lambda r, step, prompt: grpo(r, WEIGHTS)))
    again = [row for row in rows for _ in range(1 + (random.random() < share))]
    if share and len(again) == len(rows):
        again.insert(7, rows[7])
    copies = len(again) - len(rows)
    report, told = claims([again[i] for i in random.permutation(len(again))] if shuffled else again)
    clean = claims(rows)[0]
    assert report.source["responses"] == len(rows) and told["responses"].evidence == "proved"
    assert (f"{copies} row" in told["responses"].because) == (copies > 0)
    for first, second in zip(report.rewards, clean.rewards, strict=True):
        assert first["push"] == pytest.approx(second["push"]) and first["mean"] == pytest.approx(second["mean"])
    assert report.run["weights"] == pytest.approx(clean.run["weights"])


def test_groups_that_lack_a_row_are_still_said_to_lack_it():
    rows = list(table(lambda r, step, prompt: grpo(r, WEIGHTS)))
    _, told = claims(row for n, row in enumerate(rows) if n % 97)
    assert "lacks rows" in told["responses"].taken


def test_a_baseline_of_each_prompt_is_as_likely_as_rows_that_were_lost():
    random = np.random.default_rng(4)
    report, told = claims(table(lambda r, step, prompt: r @ WEIGHTS - random.uniform(0.4, 1.2), size=4))
    assert told["responses"].evidence == "agrees" and "or a baseline" in told["responses"].because
    assert report.what_first.startswith("Either the log lacks rows of its groups, or each group has a baseline.")


@pytest.mark.parametrize("factor", [lambda step: (step + 1) / 30, lambda step: min(1, (step + 1) / 12)])
def test_a_factor_of_each_step_proves_no_std_of_the_batch(factor):
    """A free factor takes in any std, so GRPO without std and with the batch's std are one, and their steps differ."""
    rows = list(table(lambda r, step, prompt: factor(step) * no_std(r, WEIGHTS)))
    report = ga.audit(ga.read_run(rows), asked="grpo_no_std", primary="style")
    told = {claim.what: claim for claim in report.reading}
    assert "times a factor for each batch" in report.what_ran and told["method"].evidence == "agrees"
    assert gather(ga.read_run(rows)).step_of == "grpo_no_std"
    assert re.search("each batch times a number of its own|so does GRPO without std", told["method"].because)
    assert told["steps"].evidence != "proved" and "only their ratio" in told["weights"].because
    assert not [finding for finding in report.findings if finding.id == "method-not-as-asked"]
    assert not any(row.recommended for row in report.plan if row.method != "grpo_no_std")


def test_a_column_that_may_say_what_was_trained_leaves_that_open():
    random = np.random.default_rng(6)
    kept = random.random((30, PROMPTS)) < 0.5
    rows = list(table(lambda r, step, prompt: grpo(r, WEIGHTS), kept=lambda s, p, i: int(kept[s, p])))
    _, told = claims(rows)
    assert told["responses"].evidence == "assumed" and "kept may say" in told["responses"].because
    untrained = [row if row["kept"] else row | {"advantage": None} for row in rows]
    assert "kept may say" not in claims(untrained)[1]["responses"].because
    renamed = [{"domain" if name == "kept" else name: x for name, x in row.items()} for row in rows]
    assert claims(renamed)[1]["responses"].evidence == "proved"


@pytest.mark.parametrize(("eps", "convention"), [(1e-6, "verl"), (1e-4, "trl"), (0.0, "paper")])
def test_float64_parts_conventions_that_differ_by_their_eps_alone(eps, convention):
    def made(r, step, prompt):
        total = r @ WEIGHTS
        std = total.std(ddof=1)
        return (total - total.mean()) / (std + eps) if std else total * 0

    report, _ = claims(table(made))
    assert report.run["convention"] == convention and report.run["max_error"] < 1e-9


def test_lists_of_counts_of_tokens_are_no_lists_of_tokens():
    by_group = dict[str, list]()
    for row in table(lambda r, step, prompt: no_std(r, WEIGHTS), n_tokens=lambda s, p, i: 100 + 7 * i + s):
        by_group.setdefault(row["prompt_id"], []).append(row)
    lists = ("exact", "fmt", "style", "n_tokens", "advantage")
    rows = [
        {"step": rows[0]["step"], "prompt_id": name} | {key: [row[key] for row in rows] for key in lists}
        for name, rows in by_group.items()
    ]
    report, told = claims(rows)
    assert report.source["groups"] == len(rows) and told["rewards"].taken == "exact, fmt and style"


def test_a_foreign_advantage_is_found_where_each_task_has_rewards_of_its_own():
    rows = []
    for n, row in enumerate(table(lambda r, step, prompt: grpo(r, WEIGHTS))):
        a = row.pop("advantage")
        rows.append(row | {"fmt": row["fmt"], "lint": None if n // 8 % 2 else 0.0, "mehrwert": a})
    report, told = claims(rows)
    assert report.run["method"] == "grpo" and "mehrwert" not in told["rewards"].taken


def test_a_number_of_the_answers_is_no_reward_where_no_column_names_the_groups():
    rows = []
    for n, row in enumerate(table(lambda r, step, prompt: no_std(r, WEIGHTS))):
        del row["prompt_id"]
        rows.append({"versuch": n % 8, **row})
    _, told = claims(rows)
    assert "versuch" not in told["rewards"].taken


@pytest.mark.parametrize("seed", range(8))
def test_columns_that_add_up_to_a_constant_hold_no_total(seed):
    """The direction in which they cancel has one sign throughout, which may come out as minus everywhere."""
    a, b = np.random.default_rng(seed).normal(size=(2, 40))
    columns = pl.DataFrame({"a": a, "b": b, "c": -a - b})
    assert sum_of_others(columns, ["a", "b", "c"]) is None
    assert sum_of_others(columns.with_columns(c=pl.col("a") + pl.col("b")), ["a", "b", "c"]) == "c"


def test_numbers_whose_squares_are_infinite_are_refused_and_not_followed():
    rows = [row | {"exact": row["exact"] * 1e200} for row in table(lambda r, step, prompt: grpo(r, WEIGHTS))]
    with pytest.raises(gc.InputError):
        claims(rows)


@pytest.mark.parametrize("seed", [0, 1, 3, 9])
def test_a_single_weight_of_many_digits_shows_no_scale(seed):
    """Whitened groups of one size are GRPO's times one number, which no weight is."""
    random = np.random.default_rng(seed)
    rows = []
    for step in range(2):
        r = random.normal(size=(5, 5))
        z = (r - r.mean(1, keepdims=True)) / (r.std(1, ddof=1, keepdims=True) + 1e-4)
        a = ((z - z.mean()) / z.std(ddof=1)).round(4)
        each = [(g, i) for g in range(5) for i in range(5)]
        rows += [{"step": step, "group": step * 5 + g, "score": r[g, i], "advantage": a[g, i]} for g, i in each]
    run = ga.read_run(rows)
    recipe = solve(run.sample, run.rewards, "trl")
    assert recipe is None or recipe.up_to_scale


@pytest.mark.parametrize(("rows", "clock"), [(29, False), (30, True)])
def test_the_number_of_a_stage_never_falls_and_is_no_reward(rows, clock):
    stages = pl.DataFrame({"attempt": np.repeat([0.0, 1.0, 2.0], rows), "right": np.tile([0.0, 1.0, 1.0], rows)})
    assert not_rewards(stages, ["attempt", "right"], labels=False) == ({"attempt": CLOCK} if clock else {})


def test_times_a_factor_the_std_of_a_batch_is_no_step_of_its_own():
    """The search by batches finds both; the steps of the run then count as those of GRPO without std."""
    rows = list(table(lambda r, step, prompt: (step + 1) / 30 * no_std(r, WEIGHTS)))
    facts = gather(ga.read_run(rows))
    recipe = solve_after(facts.run.sample, facts.rewards, "generic")
    assert recipe.method == "grpo_batch_std" and recipe.alike == ("grpo_no_std",)
    under = replace(facts, basis=replace(facts.basis, recipe=recipe))
    assert under.method == "grpo_batch_std" and under.step_of == "grpo_no_std"
    alone = replace(facts, basis=replace(facts.basis, recipe=replace(recipe, alike=())))
    assert alone.step_of == "grpo_batch_std"
