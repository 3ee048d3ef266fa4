"""The experiments without TRL: requests, set-ups, the predictions, and what the page says came of them."""

import json
import re
from ast import literal_eval
from dataclasses import replace
from hashlib import sha256
from math import prod, sqrt
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest

import gdpo_audit as ga
import gdpo_core as gc
from experiments import learners, setups, train
from experiments.requests import TEMPLATES, answer, draw, pieces, task_of
from gdpo_audit.trials.run_forecast import OF_WHAT
from views.bfcl import grade
from views.chapters.evidence import breaking, coins, trained

ROOT = Path(__file__).parent.parent
SAMPLES = ROOT / "data" / "samples"
REQUESTS = [draw(np.random.default_rng(seed)) for seed in range(40)]
T_975_OF_9 = 2.262157  # from a printed table
LEAST = 0.01


@pytest.fixture(scope="module")
def predictions():
    return json.loads((ROOT / "data" / "predictions.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def table():
    return pl.read_parquet(ROOT / "data" / "experiments.parquet").with_columns(
        pl.col("setup", "method").cast(pl.String)
    )


# --- what is trained -------------------------------------------------------------------------------------------------


def test_the_intended_answer_of_every_template_passes_all_three():
    assert {request.template for request in REQUESTS} == set(range(len(TEMPLATES)))
    for request in REQUESTS:
        assert grade(task_of(request), "".join(answer(request))).vector == (1, 1, 1)


def test_the_pieces_are_the_tokens_of_a_text():
    token = re.compile("|".join(map(re.escape, pieces())))
    for request in REQUESTS:
        assert token.findall("".join(answer(request))) == answer(request)
        assert "".join(token.findall(request.text)) == request.text


def test_the_requests_of_training_are_different():
    texts = [request.text for request in train.prompts()]
    assert len(texts) == len(set(texts)) > 200


def rewards_of(name, texts, seed=0, step=0):
    request = REQUESTS[0]
    functions = train.reward_functions(setups.setup_named(name), {request.text: task_of(request)}, seed)
    state = SimpleNamespace(global_step=step)
    given = {"prompts": [request.text] * len(texts), "completions": texts, "trainer_state": state}
    return {function.__name__: function(**given) for function in functions}


def test_the_setups_pay_what_they_say():
    good = "".join(answer(REQUESTS[0]))
    wrong = "".join(answer(next(r for r in REQUESTS if r.kind == REQUESTS[0].kind and r != REQUESTS[0])))
    assert rewards_of("equal", [good, wrong]) == {"correctness": [1, 0], "style": [1, 1], "conciseness": [1, 1]}
    assert rewards_of("pays_5", [good, wrong])["conciseness"] == [5, 5]
    assert rewards_of("gated", [good, wrong])["conciseness"] == [1, 0]
    assert setups.setup_named("weight_2").reward_weights == [2, 1, 1]


def test_the_noise_is_of_the_seed_and_the_step_alone():
    first = rewards_of("noise", ["a"] * 500)["noise"]
    assert first == rewards_of("noise", ["b"] * 500)["noise"] != rewards_of("noise", ["a"] * 500, step=1)["noise"]
    assert np.mean(first) == pytest.approx(1, abs=0.002) and np.std(first) == pytest.approx(0.01, abs=0.001)


def test_the_numbers_that_are_said_of_the_model_are_those_of_its_checkpoint(predictions):
    weights = (train.CHECKPOINT / "model.safetensors").read_bytes()
    header = json.loads(weights[8 : 8 + int.from_bytes(weights[:8], "little")])
    sizes = [prod(entry["shape"]) for name, entry in header.items() if name != "__metadata__"]
    assert (sum(sizes), train.GROUP * train.PROMPTS) == (coins.PARAMETERS, coins.ANSWERS)
    # Evidence says that no other learner has more: each is of this size, or smaller where its own numbers say so.
    config = json.loads((ROOT / "experiments/checkpoint/config.json").read_text("utf-8"))
    code = (ROOT / "experiments/learners.py").read_text("utf-8")
    others = [literal_eval(own) for own in re.findall(r"_random\(\d, (\{.*?\})\)", code)]
    assert len(others) == 2 and all(size <= config[name] for own in others for name, size in own.items())
    # TRL's own default is AdamW without decay; nothing here chooses another optimizer.
    assert "optim" not in code + (ROOT / "experiments/train.py").read_text("utf-8")
    measured = predictions["measured"]
    assert (sha256(weights).hexdigest(), measured["learning_rate"]) == (measured["checkpoint"], train.LEARNING_RATE)
    assert [entry["name"] for entry in predictions["setups"]] == [setup.name for setup in setups.SETUPS]


# --- what was predicted ----------------------------------------------------------------------------------------------


def test_the_predictions_are_those_of_the_coins(predictions):
    setup, measured = setups.setup_named("pays_5"), predictions["measured"]
    options = {"scale": setup.pays, "rollouts": train.GROUP, "prompts": train.PROMPTS, "epochs": measured["steps"]}
    options |= {name: predictions["coins"][name] for name in ("lr", "seeds")}
    grpo, gdpo = (
        gc.train(method, measured["pass_rates"], **options).p[:, :-1].mean(1) for method in setups.AGGREGATIONS
    )
    stored = next(entry for entry in predictions["setups"] if entry["name"] == "pays_5")["rewards"]
    for k, reward in enumerate(setups.REWARDS):
        found = np.median((gdpo - grpo)[:, k])
        assert found == pytest.approx(stored[reward]["difference"], abs=0.005)
        assert stored[reward]["prediction"] == ("faster" if found >= LEAST else "slower")


# --- the results on the page, computed anew without code of the core --------------------------------------------------


@pytest.fixture(scope="module")
def compared(table, predictions):
    """Return three things for each set-up and reward: the prediction, and the mean and half the width of the interval
    of GDPO less GRPO over the seeds.
    """
    rows, found = table.to_dicts(), {}
    for setup in predictions["setups"]:
        for reward, entry in setup["rewards"].items():
            rates = {}
            for row in rows:
                if row["setup"] == setup["name"]:
                    rates.setdefault((row["method"], row["seed"]), []).append(row[reward])
            mean = {key: sum(of) / len(of) for key, of in rates.items()}
            differences = [mean["gdpo", seed] - mean["grpo", seed] for seed in range(10)]
            middle = sum(differences) / 10
            half = T_975_OF_9 * sqrt(sum((d - middle) ** 2 for d in differences) / 9 / 10)
            found[setup["name"], reward] = entry["prediction"], middle, half
    return found


def verdict_of(prediction, mean, half):
    """Return the verdict on a prediction by the rule of predictions.json. mean, half: of the interval."""
    if prediction == "no difference":
        within = max(abs(mean - half), abs(mean + half)) < LEAST
        return "held" if within else "did not hold" if abs(mean) > half else "no difference seen"
    right = (mean > 0) == (prediction == "faster")
    return "no difference seen" if abs(mean) <= half else "held" if right else "did not hold"


def test_every_comparison_is_that_of_a_plain_loop(compared):
    ours = coins.load_experiment().comparisons
    assert [(one.setup, one.reward) for one in ours] == list(compared)
    for one, (prediction, mean, half) in zip(ours, compared.values(), strict=True):
        found = one.measured
        assert (found.mean, found.low, found.high) == pytest.approx((mean, mean - half, mean + half), abs=1e-4)
        assert (one.prediction, one.verdict) == (prediction, verdict_of(prediction, mean, half))


def test_the_page_counts_what_a_plain_loop_counts(compared):
    verdicts = [verdict_of(*one) for one in compared.values()]
    held, apart = verdicts.count("held"), [one for one in compared.values() if one[0] != "no difference"]
    right = sum((mean > 0) == (said == "faster") for said, mean, _ in apart)
    never = sum(verdict_of("no difference", mean, half) == "held" for _, mean, half in compared.values())
    clear = [mean for _, mean, half in compared.values() if abs(mean) > half]
    gdpo = sum(mean > 0 for mean in clear)
    text = " ".join(coins._says(coins.load_experiment()))
    assert f"**{held} of 15 predictions held, {15 - held} did not.**" in text
    assert f"excludes 0, **GDPO leads in {gdpo} and GRPO in {len(clear) - gdpo}**;" in text
    assert f"Of {len(apart)} predicted differences {right} have the right sign and" in text
    assert f"a prediction of “no difference” each time would have held in {never}." in text
    assert coins.title().endswith(f"{held} of 15 predictions about GDPO against GRPO held")


# --- every difference between the methods, by plain loops -------------------------------------------------------------

T_975 = {4: 2.776445, 9: 2.262157}  # from a printed table


def rows_of(name):
    """Return the rows of a table in data/ as dicts."""
    return pl.read_parquet(ROOT / "data" / name).with_columns(pl.col(pl.Categorical).cast(pl.String)).to_dicts()


@pytest.fixture(scope="module")
def means():
    """Return the mean over all steps of each reward in each run: by set-up, method, reward and then seed."""
    found = {}

    def add(setup, method, row, reward, rate):
        found.setdefault((setup, method, reward), {}).setdefault(row["seed"], []).append(rate)

    for row in rows_of("experiments.parquet"):
        for reward in setups.REWARDS:
            add(row["setup"], row["method"], row, reward, row[reward])
    # Of the gated set-up, this table has conciseness behind the gate, and that of the runs above has it without.
    for row in rows_of("no_std.parquet"):
        gated = (row["setup"], row["reward"]) == ("gated", "conciseness")
        add(row["setup"], "grpo_no_std", row, "gated reward" if gated else row["reward"], row["mean"])
    methods = {"as it ran": "grpo", "GDPO": "gdpo"}
    for row in rows_of("forecasts.parquet"):
        if row["setup"] in ("correlated", "dense", "weights", "scale") and row["row"] in methods:
            add(row["setup"], methods[row["row"]], row, row["reward"], row["mean"])
        if (row["setup"], row["row"], row["reward"]) == ("gated", "as it ran", "conciseness"):
            add("gated", "grpo", row, "gated reward", row["mean"])
    ran = {case.learner + "-" + case.name: case.method for case in (*learners.CASES, *learners.LATER_CASES)}
    for row in rows_of("learners.parquet"):
        setup = row["learner"] + "-" + row["setup"]
        if row["row"] in ("as it ran", "other method"):
            as_it_ran = row["row"] == "as it ran"
            method = ran[setup] if as_it_ran else {"grpo": "gdpo", "gdpo": "grpo"}[ran[setup]]
            add(setup, method, row, row["reward"], row["mean"])
    return {key: {seed: sum(of) / len(of) for seed, of in seeds.items()} for key, seeds in found.items()}


def test_every_difference_that_the_page_shows_is_that_of_a_plain_loop(means):
    shown = {(row.setup, row.method, row.reward): row for row in trained.load_differences()}
    assert {*shown} == {key for key in means if key[1] != "grpo"}
    ranges = {}
    for path in ("learners.json", "learners_later.json"):
        for x in json.loads((ROOT / "data" / path).read_text()):
            ranges[x["learner"] + "-" + x["setup"], x["reward"]] = x["range"]
    for (setup, method, reward), row in shown.items():
        grpo, other = means[setup, "grpo", reward], means[setup, method, reward]
        unit = ranges.get((setup, reward), 1) * (-1 if reward == "tokens" else 1)
        apart = [100 * (other[seed] - grpo[seed]) / unit for seed in sorted(grpo.keys() & other.keys())]
        n = len(apart)
        middle = sum(apart) / n
        half = T_975[n - 1] * sqrt(sum((x - middle) ** 2 for x in apart) / (n - 1) / n)
        assert (row.difference, row.low, row.high) == pytest.approx((middle, middle - half, middle + half), abs=6e-3)
        assert (row.seeds, row.more_is_wanted) == (n, reward != "tokens")
    assert len(shown) == 87 and sum(key[1] == "gdpo" for key in shown) == 72


def test_a_set_up_is_alike_where_every_reward_is_0_or_1_and_pays_the_same():
    marks = {"correctness", "style", "conciseness", "strict", "on_topic", "closed"}
    for row in trained.load_differences():
        rewards = {other.reward for other in trained.load_differences() if other.setup == row.setup} - {"gated reward"}
        assert row.alike == (rewards <= marks and row.setup not in ("pays_5", "scale"))


def test_a_method_leads_from_one_point_on_if_its_interval_leaves_out_0():
    row = trained.load_differences()[0]
    for difference, end, leads in ((1.0, 0.01, True), (0.99, 0.01, False), (1.0, 0.0, False), (3.0, -0.1, False)):
        up = replace(row, difference=difference, low=end, high=5.0)
        down = replace(row, difference=-difference, low=-5.0, high=-end)
        assert (up.leads, up.trails, down.leads, down.trails) == (leads, False, False, leads)


def test_headline_and_sentence_count_what_a_plain_loop_counts():
    rows = pl.read_csv(ROOT / "data/trained.csv").filter(method="gdpo").to_dicts()

    def counted(some):
        leads = sum(row["difference"] >= 1 and row["low"] > 0 for row in some)
        return leads, sum(row["difference"] <= -1 and row["high"] < 0 for row in some)

    leads, trails = counted(rows)
    assert leads and trails  # the Lab's last words say that either led in some comparisons
    neither = len(rows) - leads - trails
    assert (
        trained.trained_headline()
        == f"Trained: GDPO leads in {leads} of {len(rows)}, GRPO in {trails}, neither in {neither}."
    )
    assert len(trained.trained_headline()) <= 60
    alike, differ = ([row for row in rows if row["alike"] == same] for same in (True, False))
    said = trained.where_in_words(trained.of_gdpo(trained.load_differences()))
    assert f"it leads in {counted(differ)[0]} of {len(differ)} and trails in {counted(differ)[1]}." in said
    assert f"it leads in none of {len(alike)} and trails in {counted(alike)[1]}**" in said and not counted(alike)[0]
    assert f"the largest difference is {max(abs(row['difference']) for row in alike):.1f} points" in said
    drawn = str(trained.picture_of_differences("equal"))
    for group in {row["group"]: 0 for row in rows}:
        of = [row for row in rows if row["group"] == group]
        assert f"<b>{group}</b>: GDPO leads in {counted(of)[0]} of {len(of)}, GRPO in {counted(of)[1]}" in drawn
    assert drawn.count("data-id") == len({row["setup"] for row in rows}) and drawn.count("<details open") == 1
    assert str(trained.picture_of_differences("wide-equal")).count("<details open") == 2


def test_what_training_says_of_breaking_ties_follows_its_sign():
    found = breaking.of_correctness("equal")
    said = breaking.in_training(found)
    assert "**Training says no, in the set-up “Equal pay”:**" in said
    assert "1.2 points less under GDPO" in said and "it learnt 2.1 points less" in said
    for gdpo, says in (((3, 2, 4), "**Training says yes, in"), ((0.2, -1, 1.4), "**Training shows no clear help, in")):
        other = replace(found["gdpo"], **dict(zip(("difference", "low", "high"), gdpo, strict=True)))
        assert says in breaking.in_training(found | {"gdpo": other})


# --- the files of data ------------------------------------------------------------------------------------------------


def test_the_table_has_every_step_of_every_run_and_its_columns_agree(table):
    counted = table.group_by("setup", "method", "seed").len()
    assert len(counted) == len(setups.SETUPS) * 2 * len(setups.SEEDS) and set(counted["len"]) == {train.STEPS}
    passed = table.select(setups.REWARDS).to_numpy() * train.GROUP * train.PROMPTS
    assert np.allclose(passed, passed.round(), atol=1e-3)
    shares = table.select(pl.sum_horizontal(pl.col("^share_.*$").fill_null(0))).to_series()
    assert shares.is_between(0.997, 1.003).all()
    assert table.filter(setup="noise")["noise"].is_between(0.99, 1.01).all()
    assert table.filter(pl.col("setup") != "noise")["noise"].is_null().all()


@pytest.mark.parametrize("method", setups.AGGREGATIONS)
def test_a_sample_is_the_log_of_its_run(method, table):
    path = SAMPLES / f"pays_5_{method}"
    log = pl.read_parquet(path / "completions.parquet")
    rows = table.filter(pl.col("step") <= 50, setup="pays_5", method=method, seed=0).sort("step")
    passed = log.group_by("step").agg((pl.col(setups.REWARDS) > 0).mean()).sort("step")
    assert np.allclose(rows.select(setups.REWARDS), passed.select(setups.REWARDS), atol=1e-6)
    report = ga.audit(ga.read_run(path), primary="correctness")
    weights = {"correctness": 1, "style": 1, "conciseness": 1}
    assert report.run["method"] == method and report.run["weights"] == pytest.approx(weights, rel=1e-3)
    assert report.run["reproduced"] is True and report.source["steps"] == 50
    dominant = [f.evidence["reward"] for f in report.findings if f.id == "reward-dominates"]
    assert dominant == (["conciseness"] if method == "grpo" else [])


# --- three learners and two more --------------------------------------------------------------------------------------


def judged_learners() -> dict[tuple[str, int], dict[str, float]]:
    """Return how the told forecasts of each learner fared, by its name and the steps of the log, by plain means."""
    means = pl.read_parquet(ROOT / "data/learners.parquet").with_columns(pl.col(pl.Categorical).cast(pl.String))
    key = ("learner", "setup", "row", "reward")
    came = {tuple(place): x for *place, x in means.group_by(*key).agg(pl.col("mean").mean()).iter_rows()}
    found: dict[tuple[str, int], dict[str, float]] = {}
    for path in ("learners.json", "learners_later.json"):
        for x in json.loads((ROOT / "data" / path).read_text()):
            learner, setup, row, reward = (x[part] for part in key)
            true = (came[learner, setup, row, reward] - came[learner, setup, "as it ran", reward]) / x["range"]
            of = found.setdefault(
                (learner, x["from_steps"]), dict.fromkeys(("open", "told", "held", "clear", "signs"), 0)
            )
            if x["low"] is None:
                of["open"] += 1
                continue
            of["told"] += 1
            of["held"] += x["low"] <= true <= x["high"]
            of["clear"] += abs(true) >= 0.03
            of["signs"] += abs(true) >= 0.03 and true * x["difference"] > 0
    return found


def test_what_is_said_of_the_learners_is_what_their_runs_gave():
    found = judged_learners()
    text = (ROOT / "experiments/README.md").read_text()
    for (learner, steps), x in found.items():
        row = f"| {learner} | {steps} | {x['open']} | {x['signs']} of {x['clear']} | {x['held']} of {x['told']} |"
        assert row in text
    warm, cold = (
        {name: sum(found[learner, 50][name] for learner in some) for name in ("held", "told", "signs", "clear")}
        for some in (("warm", "fast", "faster"), ("small", "wide"))
    )
    assert f"{warm['held']} of {warm['told']} such intervals held" in OF_WHAT
    assert f"{cold['held']} of {cold['told']}, with {cold['signs']} of {cold['clear']} directions right" in OF_WHAT


def test_grpo_without_std_is_behind_grpo_as_the_runs_say():
    curves = pl.read_parquet(ROOT / "data/no_std.parquet").with_columns(pl.col(pl.Categorical).cast(pl.String))
    earlier = pl.read_parquet(ROOT / "data/experiments.parquet").with_columns(pl.col(pl.Categorical).cast(pl.String))
    mine = curves.filter(reward="correctness").group_by("setup", "seed").agg(pl.col("mean").mean())
    grpo = earlier.filter(method="grpo").group_by("setup", "seed").agg(pl.col("correctness").mean())
    apart = mine.join(grpo, on=("setup", "seed")).with_columns(apart=pl.col("mean") - pl.col("correctness"))
    by = apart.group_by("setup").agg(pl.col("apart").mean().alias("mean"), pl.col("apart").std(), pl.len())
    assert len(by) == 5 and (by["len"] == 10).all() and (by["mean"] < 0).all()
    assert (by["mean"] < -2 * by["apart"] / 10**0.5).sum() == 4
    pushes = pl.read_csv(ROOT / "data/no_std_pushes.csv").group_by("setup").mean()
    assert (pushes["push_grpo_no_std"] >= pushes["push_grpo"] - 0.03).sum() == 4
