"""The experiments without TRL: requests, set-ups, predictions and results; and `views.experiment`."""

import csv
import json
import re
from hashlib import sha256
from math import prod, sqrt
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest

import gdpo_core as gc
from experiments import predict, samples, setups, summarise, train, warm_up
from experiments.requests import FAULTS, TEMPLATES, answer, draw, draw_faults, faults_for, pieces, task_of
from gdpo_core.bfcl import grade
from gdpo_core.report.changes import changes
from views.evidence import trained
from views.experiment import Difference, by_chance, hold, paired_difference, verdict

ROOT = Path(__file__).parent.parent
REQUESTS = [draw(np.random.default_rng(seed)) for seed in range(40)]
T_975_OF_9 = 2.262157  # from a printed table


@pytest.fixture(scope="module")
def predictions():
    return json.loads(predict.PREDICTIONS.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def table():
    return pl.read_parquet(summarise.TABLE)


# --- requests and answers --------------------------------------------------------------------------------------------


def test_requests_of_every_template_are_drawn():
    assert {request.template for request in REQUESTS} == set(range(len(TEMPLATES)))


def test_the_intended_answer_passes_all_three():
    for request in REQUESTS:
        assert grade(task_of(request), "".join(answer(request))).vector == (1, 1, 1)


def test_a_fault_fails_its_reward_alone(subtests):
    generator = np.random.default_rng(0)
    for k, reward in enumerate(FAULTS):
        for request in REQUESTS:
            for fault in faults_for(request, reward):
                text = "".join(answer(request, (fault,), generator))
                with subtests.test(f"{fault}: {text}"):
                    assert grade(task_of(request), text).vector == tuple(int(i != k) for i in range(3))


def test_every_fault_can_happen():
    possible = {fault for request in REQUESTS for reward in FAULTS for fault in faults_for(request, reward)}
    assert possible == {fault for faults in FAULTS.values() for fault in faults}


def test_faults_come_as_often_as_they_should():
    generator = np.random.default_rng(1)
    rates = {"correctness": 0.0, "style": 1.0, "conciseness": 0.5}
    drawn = [draw_faults(REQUESTS[0], rates, generator) for _ in range(400)]
    assert all(fault[0] in FAULTS["style"] for fault in drawn)
    assert 0.4 < sum(len(faults) == 2 for faults in drawn) / 400 < 0.6


def test_the_pieces_are_the_tokens_of_a_text():
    token = re.compile("|".join(map(re.escape, pieces())))
    for request in REQUESTS:
        said = answer(request, ("prose", "text", "default and empty"))
        assert token.findall("".join(said)) == said
        assert "".join(token.findall(request.text)) == request.text


def test_the_requests_of_training_are_different():
    texts = [request.text for request in train.prompts()]
    assert len(texts) == len(set(texts)) > 200


# --- rewards ---------------------------------------------------------------------------------------------------------


def rewards_of(name, texts, seed=0, step=0):
    request = REQUESTS[0]
    functions = train.reward_functions(setups.setup_named(name), {request.text: task_of(request)}, seed)
    state = SimpleNamespace(global_step=step)
    given = {"prompts": [request.text] * len(texts), "completions": texts, "trainer_state": state}
    return {function.__name__: function(**given) for function in functions}


def test_the_setups_pay_what_they_say():
    good, wrong = "".join(answer(REQUESTS[0])), "".join(answer(REQUESTS[0], ("value",)))
    assert rewards_of("equal", [good, wrong]) == {"correctness": [1, 0], "style": [1, 1], "conciseness": [1, 1]}
    assert rewards_of("pays_5", [good, wrong])["conciseness"] == [5, 5]
    assert rewards_of("gated", [good, wrong])["conciseness"] == [1, 0]
    assert setups.setup_named("weight_2").reward_weights == [2, 1, 1]


def test_the_noise_is_of_the_seed_and_the_step_alone():
    first = rewards_of("noise", ["a"] * 500)["noise"]
    assert first == rewards_of("noise", ["b"] * 500)["noise"] != rewards_of("noise", ["a"] * 500, step=1)["noise"]
    assert np.mean(first) == pytest.approx(1, abs=0.002) and np.std(first) == pytest.approx(0.01, abs=0.001)


# --- predictions -----------------------------------------------------------------------------------------------------


def test_the_predictions_are_those_of_the_coins(predictions):
    measured, lr = predictions["measured"], predictions["coins"]["lr"]
    setup = setups.setup_named("pays_5")
    stored = next(entry for entry in predictions["setups"] if entry["name"] == "pays_5")
    again = predict.predict(setup, measured, lr)
    assert again["words"] == stored["words"] and again["suffers"] == stored["suffers"]
    for reward, numbers in stored["rewards"].items():
        for name in ("grpo", "gdpo", "difference"):
            assert again["rewards"][reward][name] == pytest.approx(numbers[name], abs=0.005)


def test_the_predictions_are_of_these_setups_and_this_checkpoint(predictions):
    assert [entry["name"] for entry in predictions["setups"]] == [setup.name for setup in setups.SETUPS]
    weights = (train.CHECKPOINT / "model.safetensors").read_bytes()
    assert sha256(weights).hexdigest() == predictions["measured"]["checkpoint"]
    assert (150, predictions["measured"]["learning_rate"]) == (train.STEPS, train.LEARNING_RATE)


def test_the_words_of_a_prediction():
    same, slow, fast = ({"prediction": word} for word in ("no difference", "slower", "faster"))
    assert predict.sentence({"a": same, "b": same}) == "No difference between the methods in any reward."
    words = predict.sentence({"a": fast, "b": fast, "c": slow, "d": same})
    assert words == "GDPO is faster at a and b and slower at c, and there is no difference in d."


# --- paired differences ----------------------------------------------------------------------------------------------


def test_a_paired_difference_is_that_of_a_slow_loop():
    first, second = np.random.default_rng(0).normal(size=(2, 10)).tolist()
    differences = [b - a for a, b in zip(first, second, strict=True)]
    mean = sum(differences) / 10
    half = T_975_OF_9 * sqrt(sum((d - mean) ** 2 for d in differences) / 9 / 10)
    found = paired_difference(first, second)
    assert (found.mean, found.low, found.high) == pytest.approx((mean, mean - half, mean + half), abs=1e-4)
    assert found.pairs == 10


def test_about_one_comparison_in_twenty_leaves_out_zero_by_chance():
    draws = np.random.default_rng(0).normal(size=(200, 2, 10))
    out = sum(paired_difference(*pair).leaves_out_zero for pair in draws.tolist())
    assert out == pytest.approx(by_chance(200), abs=10)


@pytest.mark.parametrize(
    ("prediction", "low", "high", "expected"),
    [
        ("faster", 0.01, 0.03, "held"),
        ("faster", -0.03, -0.01, "did not hold"),
        ("faster", -0.01, 0.03, "no difference seen"),
        ("slower", -0.03, -0.01, "held"),
        ("slower", 0.01, 0.03, "did not hold"),
        ("no difference", 0.001, 0.009, "held"),
        ("no difference", 0.001, 0.02, "did not hold"),
        ("no difference", -0.02, 0.02, "no difference seen"),
    ],
)
def test_verdicts(prediction, low, high, expected):
    assert verdict(prediction, Difference((low + high) / 2, low, high, 10)) == expected


def test_what_cannot_be_compared_is_refused_in_one_sentence():
    with pytest.raises(gc.InputError, match=r"^pairs: expected at least two of both methods, got 1 and 1$"):
        paired_difference([1.0], [2.0])
    for values in (["a", "b"], [1.0, float("nan")], None):
        with pytest.raises(gc.InputError, match=r"^pairs: expected "):
            paired_difference([1.0, 2.0], values)
    with pytest.raises(gc.InputError, match=r"^prediction: .* faster, slower, no difference, got 'better'$"):
        verdict("better", Difference(0, 0, 0, 2))


# --- what the page says of them --------------------------------------------------------------------------------------


def test_the_numbers_that_the_page_says_of_the_model_are_those_of_its_checkpoint():
    weights = (train.CHECKPOINT / "model.safetensors").read_bytes()
    header = json.loads(weights[8 : 8 + int.from_bytes(weights[:8], "little")])
    sizes = [prod(entry["shape"]) for name, entry in header.items() if name != "__metadata__"]
    assert (sum(sizes), train.GROUP * train.PROMPTS) == (trained.PARAMETERS, trained.ANSWERS)


def test_the_page_counts_what_a_plain_loop_over_the_table_counts(table, predictions):
    """No code of the core: means by dicts, Student's t from a printed table."""
    rows, held, apart, right, never = table.to_dicts(), 0, 0, 0, 0
    ahead, large = {"grpo": 0, "gdpo": 0}, {"grpo": 0, "gdpo": 0}
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
            clear = abs(middle) > half
            ahead["gdpo" if middle > 0 else "grpo"] += clear
            large["gdpo" if middle > 0 else "grpo"] += clear and abs(middle) >= 0.01
            within = max(abs(middle - half), abs(middle + half)) < 0.01
            sign = {"faster": 1, "slower": -1}.get(entry["prediction"])
            never += within
            apart += sign is not None
            right += sign is not None and middle * sign > 0
            held += within if sign is None else clear and middle * sign > 0
    text = " ".join(trained._says(trained.load()))
    assert f"**{held} of 15 predictions held, {15 - held} did not.**" in text
    assert f"clear margin, GDPO is ahead in {ahead['gdpo']} and GRPO in {ahead['grpo']};" in text
    assert f"By 1 point or more, **GDPO is ahead in {large['gdpo']}, GRPO in {large['grpo']}** of the 15" in text
    assert f"Of {apart} predicted differences {right} have the right sign and" in text
    assert f"“no difference” said every time would have held in {never}." in text
    assert "about 0.8 of 15 would look so by chance" in text
    assert "within 1 point of GRPO (2 points first, until two runs of a set-up for tuning" in text
    assert f"The smallest difference was {trained.FIRST_LEAST} first;" in Path("experiments/README.md").read_text()


def test_the_curves_are_medians_and_quartiles_over_the_seeds(table):
    found = trained.load()
    one = found.comparisons[3]  # correctness where conciseness pays 5
    rows = {(row["method"], row["step"]): row for row in trained.curves(found, one)}
    assert set(rows) == {(method, step) for method in ("GRPO", "GDPO") for step in range(5, 151, 5)}
    first = table.filter(
        (pl.col("setup").cast(pl.String) == "pays_5") & (pl.col("method").cast(pl.String) == "grpo"),
        pl.col("step") <= 5,
    )
    means = sorted(first.group_by("seed").agg(pl.col("correctness").mean())["correctness"].to_list())
    row = rows["GRPO", 5]
    assert row["median"] == pytest.approx((means[4] + means[5]) / 2, abs=1e-4)
    assert (row["low"], row["high"]) == pytest.approx((means[2], means[7]), abs=2e-3)


def test_every_comparison_stands_on_the_page_with_its_verdict():
    part, rows = str(trained.part()), str(trained.results_table())
    found = trained.load()
    for one in found.comparisons:
        assert part.count(trained.interval(one)) and one.verdict in rows
    assert part.count("<h3>") == len(found.predictions["setups"]) == 5
    assert part.count("Predicted: ") == 15 and part.count('class="missed"') == 1


@pytest.mark.parametrize("name", ["TABLE", "PREDICTIONS"])
@pytest.mark.parametrize("content", [None, b"", b"PAR1 cut", b'{"setups": 5}', b"[]"])
def test_a_damaged_file_is_named_in_one_sentence(name, content, tmp_path, monkeypatch):
    monkeypatch.setattr(trained, name, tmp_path / "experiments.file")
    if content is not None:
        getattr(trained, name).write_bytes(content)
    trained.load.cache_clear()
    with pytest.raises(gc.InputError, match=r"experiments\.(file|parquet): expected the experiments as"):
        trained.load()


# --- results ---------------------------------------------------------------------------------------------------------


def test_the_table_has_every_step_of_every_run(table):
    counted = table.group_by("setup", "method", "seed").len()
    assert len(counted) == len(setups.SETUPS) * 2 * len(setups.SEEDS) and set(counted["len"]) == {train.STEPS}
    assert summarise.TABLE.stat().st_size <= 300_000


def test_the_columns_of_the_table_agree(table):
    passed = table.select(setups.REWARDS).to_numpy() * train.GROUP * train.PROMPTS
    assert np.allclose(passed, passed.round(), atol=1e-3)
    shares = table.select(pl.sum_horizontal(pl.col("^share_.*$").fill_null(0))).to_series()
    assert shares.is_between(0.997, 1.003).all()
    with_noise = pl.col("setup").cast(pl.String) == "noise"
    assert table.filter(with_noise)["noise"].is_between(0.99, 1.01).all()
    assert table.filter(~with_noise)["noise"].is_null().all()


def test_the_verdicts_are_those_of_a_slow_loop(table, predictions):
    rows = table.with_columns(pl.col("setup", "method").cast(pl.String)).to_dicts()
    for comparison in hold(table, predictions)[::4]:
        means = {}
        for row in rows:
            if row["setup"] == comparison.setup:
                means.setdefault((row["method"], row["seed"]), []).append(row[comparison.reward])
        means = {key: sum(values) / len(values) for key, values in means.items()}
        differences = [means["gdpo", seed] - means["grpo", seed] for seed in setups.SEEDS]
        mean = sum(differences) / 10
        half = T_975_OF_9 * sqrt(sum((d - mean) ** 2 for d in differences) / 90)
        found = comparison.found
        assert (found.mean, found.low, found.high) == pytest.approx((mean, mean - half, mean + half), abs=1e-4)


def test_the_audit_found_out_every_run():
    with summarise.RUNS.open(encoding="utf-8") as file:
        runs = list(csv.DictReader(file))
    assert len(runs) == len(setups.SETUPS) * 2 * len(setups.SEEDS)
    assert all(run["recovered"] == "true" for run in runs)
    # Noise of a small spread around 1 leaves float32 few digits.
    assert all(float(run["max_error"]) < (1e-3 if run["setup"] == "noise" else 1e-5) for run in runs)


@pytest.mark.parametrize("method", setups.METHODS)
def test_a_sample_is_the_log_of_its_run(method, table):
    path = samples.SAMPLES / f"{samples.SETUP}_{method}"
    log = pl.read_parquet(path / "completions.parquet")
    assert (path / "completions.parquet").stat().st_size <= 200_000
    of_run = (pl.col("setup").cast(pl.String) == samples.SETUP) & (pl.col("method").cast(pl.String) == method)
    rows = table.filter(of_run & (pl.col("seed") == samples.SEED), pl.col("step") <= samples.STEPS).sort("step")
    passed = log.group_by("step").agg((pl.col(setups.REWARDS) > 0).mean()).sort("step")
    assert np.allclose(rows.select(setups.REWARDS), passed.select(setups.REWARDS), atol=1e-6)
    report = gc.audit(gc.read_run(path), primary="correctness")
    weights = {"correctness": 1, "style": 1, "conciseness": 1}
    assert report.run["method"] == method and report.run["weights"] == pytest.approx(weights, rel=1e-3)
    assert report.run["reproduced"] is True and report.source["steps"] == samples.STEPS
    dominant = [f.evidence["reward"] for f in report.findings if f.id == "reward-dominates"]
    assert dominant == (["conciseness"] if method == "grpo" else [])


def test_the_comparison_of_the_samples_names_the_difference():
    folders = [samples.SAMPLES / f"{samples.SETUP}_{method}" for method in setups.METHODS]
    compared = changes(*(gc.audit(gc.read_run(folder)) for folder in folders))
    assert [(setting.name, setting.a, setting.b) for setting in compared.settings] == [("method", "GRPO", "GDPO")]


# --- what is missing or cut ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", [train, warm_up])
def test_without_trl_a_command_says_what_to_install(command, monkeypatch, capsys):
    monkeypatch.setattr(train, "find_spec", lambda name: None)
    monkeypatch.setattr("sys.argv", ["x", "--out", "nowhere"])
    assert command.main() == 2
    assert capsys.readouterr().err == f"{command.__name__} needs TRL: pip install -e '.[experiments]'\n"


def test_without_a_checkpoint_it_says_what_makes_it(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(train, "find_spec", lambda name: object())
    monkeypatch.setattr(train, "CHECKPOINT", tmp_path)
    monkeypatch.setattr("sys.argv", ["x", "--out", "nowhere"])
    assert train.main() == 2
    assert capsys.readouterr().err == (
        f"{tmp_path / 'model.safetensors'} is missing: python -m experiments.warm_up makes it\n"
    )


@pytest.mark.parametrize("command", [summarise, samples])
def test_without_runs_it_says_what_makes_them(command, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["x", "--runs", str(tmp_path)])
    assert command.main() == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and error.endswith("got none: python -m experiments.train makes them\n")


def test_a_cut_log_is_refused_in_one_sentence(tmp_path):
    whole = (samples.SAMPLES / "pays_5_gdpo" / "completions.parquet").read_bytes()
    (tmp_path / "completions.parquet").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(gc.InputError) as refused:
        gc.read_run(tmp_path)
    assert "completions.parquet" in str(refused.value) and "\n" not in str(refused.value)
