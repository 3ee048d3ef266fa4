"""Columns that are known by what they hold: settings, copies, parts of a total, steps, advantages and groups that no
usual name tells. Each advantage here is worked out in plain numpy.
"""

import json
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest
from logs import lines, parquet

import gdpo_audit as ga
import gdpo_core as gc
from gdpo_audit.logs.columns import unnamed
from gdpo_audit.logs.columns.unnamed import _numbers_steps
from gdpo_audit.report.summary import run_facts, writer

STEPS, GROUPS, SIZE = 12, 5, 6
ROWS = STEPS * GROUPS * SIZE
DRAW = np.random.default_rng(55)
STEP, GROUP = np.arange(ROWS) // (GROUPS * SIZE) + 1, np.arange(ROWS) // SIZE
RIGHT = (DRAW.random(ROWS) < 0.2 + 0.6 * DRAW.random(ROWS // SIZE).repeat(SIZE)) * 1.0
SHORT, NEAT = DRAW.random(ROWS).round(2), (DRAW.random(ROWS) < 0.7) * 1.0
WEIGHTS = (1.0, 0.5, 0.2)
TOTAL = RIGHT + 0.5 * SHORT + 0.2 * NEAT


def grpo(total, eps=1e-4, std=True):
    """Return (total − mean) / (std + eps) in each group of `SIZE` rows."""
    each = total.reshape(-1, SIZE)
    centred = each - each.mean(1, keepdims=True)
    return (centred / (each.std(1, ddof=1, keepdims=True) + eps) if std else centred).ravel()


def table(**columns):
    return pl.DataFrame({name: np.broadcast_to(column, ROWS) for name, column in columns.items()})


USUAL = dict(step=STEP, group=GROUP, right=RIGHT, short=SHORT, neat=NEAT, advantage=grpo(TOTAL))


def figures(log, **options):
    """Return what a report says of each reward, of the weights, and of the groups."""
    report = ga.audit(ga.read_run(log, **options))
    rewards = [[x["update_share"]["grpo"], x["push"]["gdpo"], x["asks_for"], x["dead_groups"]] for x in report.rewards]
    return np.array(rewards), (report.run["method"], report.source["groups"], report.source["steps"])


def same(got, expected):
    assert got[1] == expected[1]
    np.testing.assert_allclose(got[0], expected[0], atol=1e-9)


# --- settings ---------------------------------------------------------------------------------------------------------


def test_a_column_of_one_value_changes_no_figure_whatever_it_is_called():
    constant = {"lora_rank": 16, "schema": 1.0, "format_version": 2, "reward_weight": 0.3, "格式权重": 0.3, "on": True}
    log = table(**constant, **USUAL)
    assert ga.read_run(log).rewards == ("right", "short", "neat")
    same(figures(log), figures(table(**USUAL)))
    trl = table(**USUAL).rename({"group": "prompt"}).with_columns(completion=pl.lit("x"))
    with_settings = trl.with_columns(**{name: pl.lit(value) for name, value in constant.items()})
    same(figures(with_settings), figures(trl))


def test_a_reward_by_name_stays_constant_or_not_and_its_weight_is_not_known():
    run = ga.read_run(table(**USUAL, correctness=1.0))
    assert run.rewards[-1] == "correctness"
    report = ga.audit(run)
    assert report.run["weights"]["correctness"] is None and report.rewards[-1]["asks_for"] == 0
    assert "correctness constant: its weight cannot be known" in run_facts(report)["weights used here"]
    same((figures(table(**USUAL, correctness=1.0))[0][:3], None), (figures(table(**USUAL))[0], None))
    assert ga.read_run(table(**USUAL, schema=2), rewards=["right", "schema"]).rewards == ("right", "schema")


def test_what_varies_anywhere_is_no_setting(monkeypatch):
    monkeypatch.setattr("gdpo_audit.logs.columns.candidates.SAMPLED_ROWS", 60)
    late, paid = np.arange(ROWS) == ROWS - 1, pl.when(pl.col("right") > 0).then(0.5)
    log = table(**USUAL, once=late * 1.0).with_columns(bonus=paid)
    assert ga.read_run(log).rewards == ("right", "short", "neat", "once", "bonus")
    few = table(**USUAL, schema=2).head(24)
    assert "schema" in ga.read_run(few).rewards  # chance may make so few rows alike
    assert ga.read_run(table(step=STEP, group=GROUP, a=1.0, b=2.0)).rewards == ("a", "b")


# --- copies -----------------------------------------------------------------------------------------------------------


def test_of_two_columns_with_the_same_numbers_a_name_says_which_is_read_and_the_weights_of_the_others_stay():
    r = dict(acc=RIGHT, tool_reward=0.5 * GROUP % 7 * 0 + 0.5 * np.round(6 * SHORT))
    score = 0.8 * r["acc"] + r["tool_reward"]
    rows = table(step=STEP, input=GROUP, **r, num_calls=2 * r["tool_reward"], score=score)
    run = ga.read_run({"1.jsonl": lines(*rows.with_columns(output=pl.lit("x"), gts=pl.lit("4")).to_dicts())})
    assert run.framework == "verl" and run.rewards == ("acc", "tool_reward")
    assert run.weights == {"acc": 0.8, "tool_reward": 1.0}
    note = "num_calls is 2 × tool_reward in every row that was looked at, so only tool_reward was read, by its name."
    assert f"{note} If both count, its weight is that of both together." in ga.audit(run).notes


def test_a_total_that_repeats_one_reward_is_not_asked_about():
    columns = dict(step=STEP, group=GROUP, neat_reward=NEAT, answer_reward=RIGHT, reward=RIGHT)
    run = ga.read_run(table(**columns))
    assert (run.rewards, run.total, run.weights) == (("answer_reward",), "reward", {"answer_reward": 1.0})
    report = ga.audit(ga.read_run(table(**columns, advantage=grpo(RIGHT))))
    assert report.run["reproduced"] and report.run["not_counted"] == {"neat_reward": "weight 0"}
    # Where the advantages count the other reward, too, it stays.
    both = ga.audit(ga.read_run(table(**columns, advantage=grpo(RIGHT + 0.5 * NEAT))))
    assert both.run["reproduced"] and [x["name"] for x in both.rewards] == ["neat_reward", "answer_reward"]


def test_functions_of_a_trainer_that_agree_are_both_kept():
    log = table(step=STEP, prompt=GROUP, completion="x", right=RIGHT, same=RIGHT, short=SHORT, advantage=grpo(TOTAL))
    assert ga.read_run(log).rewards == ("right", "same", "short")


# --- objects ----------------------------------------------------------------------------------------------------------

PARTS = [
    {"hit": r, "brief": s, "tidy": n, "seconds": t}
    for r, s, n, t in zip(*(x.tolist() for x in (RIGHT, SHORT, NEAT, DRAW.random(ROWS))), strict=True)
]


@pytest.mark.parametrize("spelled", [json.dumps, str, dict])
def test_members_that_make_the_total_are_rewards_whatever_their_object_is_called(spelled):
    log = table(step=STEP, group=GROUP, reward=TOTAL).with_columns(details=pl.Series([spelled(x) for x in PARTS]))
    run = ga.read_run(log)
    assert (run.rewards, run.total) == (("hit", "brief", "tidy"), "reward")
    assert list(run.weights.values()) == list(WEIGHTS)
    assert ga.read_run(log, rewards=["details.hit", "brief"]).rewards == ("hit", "brief")
    else_ = log.with_columns(reward=pl.Series(np.random.default_rng(1).permutation(TOTAL)))
    assert ga.read_run(else_).rewards == ("reward",)


# --- advantages, steps and groups -------------------------------------------------------------------------------------

FOREIGN = {"step": "步", "group": "题", "right": "对", "short": "短", "neat": "整", "advantage": "优势"}
QUESTIONS = table(**USUAL).with_columns(group=pl.format("q{}", "group"))


@pytest.mark.parametrize("shuffled", [False, True])
@pytest.mark.parametrize("left_out", [[], ["advantage"]])
def test_names_do_not_matter(shuffled, left_out):
    log = QUESTIONS.drop(left_out)
    renamed = log.rename({name: foreign for name, foreign in FOREIGN.items() if name in log.columns})
    renamed = renamed.with_columns(秩=pl.lit(16), 时刻=1.7e9 + pl.int_range(pl.len()) * 1.7)
    same(figures(renamed.sample(fraction=1, shuffle=True, seed=3) if shuffled else renamed), figures(log))


@pytest.mark.parametrize("name", ["grpo_step", "trainerStep", "train_step", "rl_step", "update", "my/own_step"])
def test_what_is_called_a_step_is_one_if_groups_are_whole_in_it(name):
    assert figures(table(**USUAL).rename({"step": name}))[1][2] == STEPS
    apart = table(**USUAL).with_columns(pl.Series("step", STEP + np.arange(ROWS) % 3))  # rows of a group at three steps
    report = ga.audit(ga.read_run(apart.rename({"step": name}).sort(name, maintain_order=True)))
    assert report.source["steps"] == 1 and report.run["reproduced"]


def test_a_number_of_the_group_is_no_step():
    named = table(**USUAL).drop("step").with_columns(prompt=pl.format("q{}", "group")).rename({"group": "nummer"})
    assert ga.read_run(named).has_steps is False


def test_a_reward_is_never_taken_for_an_advantage():
    duel = np.random.default_rng(2).permuted(np.tile(np.arange(SIZE) * 2.0 - SIZE + 1, (ROWS // SIZE, 1)), axis=1)
    clean = dict(step=STEP, group=GROUP, right=RIGHT, short=SHORT, duel=duel.ravel())
    run = ga.read_run(table(**clean))
    assert run.rewards == ("right", "short", "duel") and not run.has_advantage
    beside = ga.read_run(table(**clean, total=RIGHT + SHORT + 0.5 * clean["duel"]))
    assert beside.weights == {"right": 1.0, "short": 1.0, "duel": 0.5} and not beside.has_advantage
    named = dict(step=STEP, group=GROUP, right=RIGHT, short=SHORT, relative_score=grpo(RIGHT + SHORT))
    assert not ga.read_run(table(**named)).has_advantage


def test_of_an_advantage_for_each_reward_the_sum_is_the_advantage():
    each = {"甲": grpo(RIGHT), "乙": grpo(SHORT)}
    run = ga.read_run(table(step=STEP, group=GROUP, right=RIGHT, short=SHORT, **each, 丙=each["甲"] + each["乙"]))
    assert run.rewards == ("right", "short") and run.has_advantage
    assert ga.audit(run).run["reproduced"]


# --- what a total settles, and weights that change ------------------------------------------------------------------


@pytest.mark.parametrize(("eps", "convention"), [(1e-4, "trl"), (1e-6, "verl")])
def test_a_logged_total_fixes_the_scale_of_the_weights_and_the_convention(eps, convention):
    log = table(prompt=GROUP, step=STEP, right=RIGHT, short=SHORT, neat=NEAT, reward=TOTAL, advantage=grpo(TOTAL, eps))
    report = ga.audit(ga.read_run(log))
    assert list(report.run["weights"].values()) == list(WEIGHTS) and report.run["weights_up_to_scale"] is False
    assert report.run["convention"] == convention
    assert "with weights right 1, short 0.5, neat 0.2:" in report.what_ran
    assert writer(report) == "a table with columns of TRL’s"
    trl = log.drop("reward").with_columns(completion=pl.lit("x"))
    assert writer(ga.audit(ga.read_run({"completions.parquet": parquet(trl)}))) == "TRL or axolotl"


def test_a_reward_with_the_name_of_a_metric_is_taken_in_where_the_weights_change():
    tokens = DRAW.integers(1, 13, ROWS) * 1.0
    a = grpo(RIGHT + NEAT - np.where(STEP <= 6, 0.1, 0.4) * tokens)
    log = table(step=STEP, prompt=GROUP, completion="x", right=RIGHT, neat=NEAT, n_tokens=tokens, advantage=a)
    report = ga.audit(ga.read_run(log))
    assert report.run["reproduced"] and [x["name"] for x in report.rewards] == ["right", "neat", "n_tokens"]
    first, last = (x["weights"] for x in report.run["weights_in_turn"])
    assert (first["n_tokens"] / first["right"], last["n_tokens"] / last["right"]) == pytest.approx((-0.1, -0.4))
    explained = log.with_columns(advantage=pl.Series(grpo(RIGHT + NEAT)))
    assert ga.audit(ga.read_run(explained)).rewards[-1]["name"] == "neat"


def test_a_member_that_no_object_has_is_refused():
    log = table(step=STEP, group=GROUP, reward=TOTAL).with_columns(details=pl.Series([json.dumps(x) for x in PARTS]))
    with pytest.raises(gc.InputError, match=r"expected a column 'details\.miss'"):
        ga.read_run(log, rewards=["details.miss"])


@pytest.mark.parametrize(("falls", "steps"), [(2, True), (3, False)])
def test_a_number_of_steps_falls_in_a_fifth_of_its_changes_at_most(falls, steps):
    """Ten changes, some of them back to the first step, as where a run begins again; no number has as many rows."""
    values, now = [0.0], 0.0
    for change in range(10):
        now = 0.0 if change % 3 == 2 and change // 3 < falls else now + 1
        values.append(now)
    column = pl.Series(np.repeat(values, range(3, 14)))
    assert _numbers_steps("grpo_step", column, None, None) == steps


def test_a_log_that_is_read_again_is_searched_for_what_its_columns_hold_only_if_it_may_be_another(monkeypatch):
    searched = []
    for name in ("_advantage_of", "_steps_of"):
        find = getattr(unnamed, name)
        monkeypatch.setattr(unnamed, name, lambda *given, find=find: (searched.append(given[2]), find(*given))[1])
    rng = np.random.default_rng(8)
    r = rng.integers(0, 2, (40, 2)).astype(float)
    a = (r.sum(1).reshape(-1, 4) - r.sum(1).reshape(-1, 4).mean(1, keepdims=True)).ravel()
    table = pl.DataFrame({"nr": np.arange(40) // 8, "x": r[:, 0], "y": r[:, 1], "z": a, "q": np.arange(40) // 4})
    run = ga.read_run(table)
    assert run.has_advantage and [[*numbers] for numbers in searched] == [
        ["nr", "x", "y", "z", "q"],
        ["nr", "x", "y", "q"],
    ]
    again = run._read_with(rewards=None)
    assert len(searched) == 2 and again.table.equals(run.table)
    fewer = run._read_with(columns={"length": "q"})
    assert len(searched) == 4 and fewer.has_advantage
    assert ga.read_run(table.with_columns(z=-pl.col("z"))).has_advantage and len(searched) == 6  # of another log


def test_what_was_found_in_a_log_counts_only_for_the_same_tables_and_all_that_it_depends_on():
    searched, first = [], SimpleNamespace(memory={})
    usual = {"tables": (first, SimpleNamespace()), "to_responses": abs, "batch": ("step",), "step": "s", "key": "k"}
    usual |= {"advantage": None, "kinds": {"a": pl.Float64()}, "numbers": ["a"]}

    def find(*given):
        searched.append(given)
        return len(searched)

    def other_find(*given):
        return find(*given)

    def found(find=find, **changed):
        given = usual | changed
        kinds, numbers = given.pop("kinds"), given.pop("numbers")
        return unnamed._once(find, SimpleNamespace(**given), kinds, numbers)

    assert (found(), found()) == (1, 1)
    others = [{"tables": (first, SimpleNamespace())}, {"tables": (first,)}, {"to_responses": len}, {"batch": ()}]
    others += [{"step": None}, {"key": None}, {"advantage": "a"}, {"kinds": {"a": pl.Int64()}}, {"numbers": ["a", "b"]}]
    for n, other in enumerate([*others, {"find": other_find}], 2):
        assert (found(**other), found()) == (n, 1), other
