"""Bounds that a log of means proves, compared with the exact shares of groups; and what the audit says of such a
log.
"""

import json
from itertools import combinations

import numpy as np
import polars as pl
import pytest

import gdpo_audit as ga
import gdpo_core as gc
from experiments import means
from experiments.setups import setup_named
from gdpo_audit.logs.trainers.mean_logs import binary_values
from gdpo_core.bounds.means import Scalars, bound_shares
from gdpo_core.conventions import COMPARED

NAN = float("nan")
# TRL 1.16.0 logged this of the first step of pays_5 under GRPO with seed 0.
LOGGED = {
    "means": [0.6979166865348816, 0.4791666567325592, 2.2916667461395264],
    "stds": [0.46157151460647583, 0.5021882057189941, 2.5043821334838867],
    "reward_std": 2.6830976009368896,
    "frac_reward_zero_std": 0.0,
}


def logged(rewards, weights, values, silent=True):
    """Return what TRL logs of one step, computed by numpy. rewards: (groups, rollouts, rewards); values: the two values
    of each reward.
    """
    groups, size, count = rewards.shape
    flat, total = rewards.reshape(-1, count), rewards @ np.array(weights, float)
    constant = np.array([np.ptp(of) < 1e-8 for of in total]).mean() if silent else NAN
    averages, stds, total_std = flat.mean(0)[None], flat.std(0, ddof=1)[None], np.array([total.std(ddof=1)])
    return Scalars(size, groups, weights, values, averages, stds, total_std, np.array([constant]))


def drawn(draw):
    """Return a random step of a few groups, its weights, and the two values of each reward, None for a reward with
    more.
    """
    groups, size, count = (int(draw.integers(low, high)) for low, high in ((1, 7), (2, 9), (2, 4)))
    rewards, values = np.empty((groups, size, count)), []
    for k in range(count):
        low, high = [(0.0, 1.0), (0.0, 5.0), (-1.0, 1.0)][draw.integers(3)]
        rates = draw.beta(0.5, 0.5, (groups, 1)) if draw.random() < 0.7 else draw.choice([0.02, 0.98])
        rewards[..., k] = np.where(draw.random((groups, size)) < rates, high, low)
        values.append((low, high))
    if draw.random() < 0.3:  # The two rewards are opposites, whose sum hardly moves.
        rewards[..., 1], values[1] = sum(values[0]) - rewards[..., 0], values[0]
    if draw.random() < 0.2:
        rewards[..., 0], values[0] = draw.normal(1, 0.01, (groups, size)), None
    return rewards, [[1, 1, 1], [1, 0.5, 2], [1, 3, -0.5], [0.3, 0.7, 1]][draw.integers(4)][:count], values


@pytest.mark.slow
def test_the_exact_share_is_inside_the_bounds_and_the_largest_is_the_largest():
    draw, decided = np.random.default_rng(47), 0
    for _ in range(120):
        rewards, weights, values = drawn(draw)
        scalars = logged(rewards, weights, values, silent=draw.random() < 0.5)
        for method in COMPARED:
            exact = np.array(gc.update_share(rewards, method, weights=weights, convention=gc.TRL))
            found = bound_shares(scalars, method)
            if np.isfinite(exact).all():
                assert (found.low[0] - 1e-4 <= exact).all() and (exact <= found.high[0] + 1e-4).all()
                decided += found.largest[0] >= 0
                assert found.largest[0] in (-1, exact.argmax()) or np.ptp(exact) < 1e-6
    assert decided > 15


@pytest.mark.parametrize("method", COMPARED)
def test_every_way_to_group_the_answers_is_inside(method):
    answers, marks = np.array([[1, 0], [1, 1], [0, 1], [0, 0], [1, 0], [0, 0.0]]), [(0.0, 1.0)] * 2
    found = bound_shares(logged(answers.reshape(2, 3, 2), [1, 2], marks, silent=False), method)
    for first in combinations(range(1, 6), 2):  # These are the answers in the group of the first answer.
        order = [0, *first, *({*range(1, 6)} - {*first})]
        exact = gc.update_share(answers[order].reshape(2, 3, 2), method, weights=[1, 2], convention=gc.TRL)
        assert (found.low[0] - 1e-6 <= exact).all() and (exact <= found.high[0] + 1e-6).all()


def test_the_bounds_of_one_group_of_two_rewards_are_exact_by_hand():
    # With weights 1 and 2, Σ d² is 4 · 3/16 = 3/4 for the first reward and 4 · 4 · 1/4 = 4 for the second.
    rewards = np.array([[[1, 1], [0, 1], [0, 0], [0, 0.0]]])
    total = (rewards @ [1, 2]).var() * 4
    expected = 0.5 + (0.75 - 4) / (2 * total)
    found = bound_shares(logged(rewards, [1, 2], [(0.0, 1.0)] * 2), "grpo_no_std")
    assert found.low[0] == pytest.approx([expected, 1 - expected], abs=1e-3)
    assert found.high[0] == pytest.approx([expected, 1 - expected], abs=1e-3) and found.largest[0] == 1
    # In eight groups of 12, the 6 failures of a reward that pays 10 fill one group at the least, so that its length is
    # 10 √(6 · 6 / 12) = 17.3 or more; the length of the other reward is √(8 · 12 / 4) = 4.9 at most.
    means_, nothing = np.array([[9.375, 0.5]]), np.array([NAN])
    far = Scalars(12, 8, [1, 1], [(0.0, 10.0), (0.0, 1.0)], means_, means_ * NAN, nothing, nothing)
    assert bound_shares(far, "grpo_no_std").largest.tolist() == [0]
    assert bound_shares(far, "gdpo").largest.tolist() == [-1]


def test_answers_in_other_groups_write_the_same_scalars_with_another_largest_reward():
    step = np.array([[[1, 0], [0, 0], [1, 0], [0, 0]], [[1, 1], [0, 1], [1, 1], [0, 1.0]]])
    assert gc.update_share(step, "grpo_no_std")[0] == pytest.approx(1)
    # Grouped by the values of the second reward, only the first varies inside groups.
    assert means.other_largest(step, [1, 1], "grpo_no_std", 0)
    # The second reward never varies here.
    assert not means.other_largest(step[:1].repeat(2, 0), [1, 1], "grpo_no_std", 0)


@pytest.mark.slow
def test_the_page_has_the_tables_of_the_file_and_of_the_100_runs():
    page = means.PAGE.read_text(encoding="utf-8")
    block = page.partition(means.BEGIN)[2].partition(means.END)[0].strip()
    lines = means.tables(pl.DataFrame(means.of_table()), pl.read_csv(means.FILE))
    assert block == "\n".join(lines)
    assert {line.split("|")[4].strip() for line in lines if line.startswith("| ")} == {"steps inside", "100 %"}
    assert pl.read_csv(means.FILE)["held"].eq(1).all()
    ran = pl.read_csv(means.FILE).filter(pl.col("method") == pl.col("ran"))
    # That is why the audit says what such a log cannot show.
    assert ran["same_log"].all() and ran["decided"].sum() == 0


def test_a_log_cut_down_has_the_scalars_that_trl_logged():
    log = means.ROOT / "data" / "samples" / "pays_5_grpo" / "completions.parquet"
    sample = pl.read_parquet(log).filter(pl.col("step") <= 2)
    setup = setup_named("pays_5")
    rewards = sample.select(setup.names).to_numpy().astype(float).reshape(2, means.PROMPTS, means.GROUP, 3)
    cut = means.scalars_of(rewards, setup, "grpo")
    assert cut.means[0] == pytest.approx(LOGGED["means"]) and cut.stds[0] == pytest.approx(LOGGED["stds"])
    assert cut.total_std[0] == pytest.approx(LOGGED["reward_std"]) and cut.silent[0] == LOGGED["frac_reward_zero_std"]


# --- what the audit says ---------------------------------------------------------------------------------------------


def history(steps=20, groups=4, size=8, pays=(1.0, 1.0), every=1, draw=0):
    """Return what TRL's trainer keeps of each step, computed by numpy, and then the last line of a run. every: steps
    per line.
    """
    generator, lines = np.random.default_rng(draw), []
    for step in range(1, steps + 1):
        batches = (generator.random((every, groups * size, 2)) < [0.5, 0.3 + step / 50]) * np.array(pays)
        means_, stds, totals = batches.mean(1).mean(0), batches.std(1, ddof=1).mean(0), batches.sum(2)
        line = {"loss": 0.1, "step": step * every, "epoch": step / 10, "reward": totals.mean()}
        line |= {"reward_std": totals.std(1, ddof=1).mean(), "frac_reward_zero_std": 0.0}
        for k, name in enumerate(("accuracy", "format")):
            line |= {f"rewards/{name}/mean": means_[k], f"rewards/{name}/std": stds[k]}
        lines.append(line)
    return [*lines, {"train_runtime": 12.5, "train_loss": 0.1, "step": steps * every}]


def said(path, **options):
    with pytest.raises(gc.InputError) as refused:
        ga.read_run(path, **options)
    text = str(refused.value)
    assert "expected a row per response, got one per step of a tracker: these are means per step, not responses" in text
    assert text.endswith("GRPOConfig(log_completions=True, logging_steps=1)") and "\n" not in text
    return text


@pytest.fixture
def state(tmp_path):
    """Return the folder OUT of a run without completions, in which two checkpoints hold the trainer's state."""
    for step in (9, 20):
        folder = tmp_path / f"checkpoint-{step}"
        folder.mkdir()
        content = {"global_step": step, "log_history": history(step), "logging_steps": 1, "train_batch_size": 8}
        (folder / "trainer_state.json").write_text(json.dumps(content))
        (folder / "config.json").write_text("{}")
    return tmp_path


def test_a_log_of_means_is_answered_with_what_it_cannot_show_and_its_bounds(state):
    file = state / "checkpoint-20" / "trainer_state.json"
    for place in (file, state / "checkpoint-20", state):
        text = said(place)
        assert (
            "of accuracy and format" in text and "Each entry is of 32 responses: with group_size (--group-size)" in text
        )
        assert str(file) in text
    assert said({"trainer_state.json": file.read_bytes()}) == said(file).replace(f"{file.parent}/", "")
    text = said(file, group_size=8)
    assert "Over the last 10 steps, with 4 groups of 8 and the weights 1 and 1, it stays open under" in text
    assert text.count(" % for ") == 2
    assert "which are no groups of 7" in said(file, group_size=7)
    assert "Under" not in said(file, group_size=32)


def test_exports_of_trackers_are_answered_alike(tmp_path):
    rows = pl.DataFrame(history()[:-1])
    rows.write_ndjson(tmp_path / "log.jsonl")
    wandb = rows.rename({name: f"train/{name}" for name in rows.columns if name != "step"}).rename({"step": "Step"})
    wandb.write_csv(tmp_path / "wandb.csv")
    for name in ("log.jsonl", "wandb.csv"):
        assert "4 groups of 8 and the weights 1 and 1" in said(tmp_path / name, group_size=8)
    means_ = ["Step", *[name for name in wandb.columns if name.endswith("/mean")]]
    assert "Without the stds nothing else follows." in said(wandb.select(means_), group_size=8)
    assert "Its only reward makes the whole update" in said(wandb.select(means_[:2]), group_size=8)
    two = wandb.rename({"train/rewards/format/mean": "b - train/rewards/format/mean"})
    assert "It holds several runs" in said(two, group_size=8)


def test_what_decides_and_what_leaves_all_open_is_said(tmp_path):
    def of(**options):
        return pl.DataFrame(history(**options)[:-1])

    text = said(of(pays=(20.0, 1.0), groups=1, size=32), group_size=32)
    assert "under GRPO, accuracy" not in text and "under GRPO accuracy had the largest share" in text
    assert "accuracy and format do not show two values alone and one batch per entry" in said(of(every=5), group_size=8)
    values = np.random.default_rng(3).random(19)
    real = of(steps=19).with_columns(pl.Series("rewards/format/mean", values))
    assert "as format does not show two values alone" in said(real, group_size=8)


@pytest.mark.parametrize(
    ("values", "told"),
    [
        (["0.5"] * 19, "as not every mean is a column of numbers"),
        ([[0.5]] * 19, "as not every mean is a column of numbers"),
        ([1e308] * 19, "the means of too few steps"),
        ([NAN] * 19, "the means of too few steps"),
    ],
)
def test_means_that_are_no_numbers_or_too_large_for_a_square_are_said(tmp_path, values, told):
    lines = [line | {"rewards/format/mean": value} for line, value in zip(history(19), values, strict=False)]
    file = tmp_path / "trainer_state.json"
    file.write_text(json.dumps({"log_history": lines}))
    assert told in said(file, group_size=8)


def test_the_two_values_of_a_reward_are_those_that_its_means_and_stds_leave():
    draw = np.random.default_rng(1)
    for low, high in ((0.0, 1.0), (-1.0, 1.0), (0.5, 2.0)):
        marks = np.where(draw.random((12, 96)) < 0.6, high, low).astype(np.float32)
        assert binary_values(marks.mean(1), marks.std(1, ddof=1)) == (low, high, 96)
    three = draw.choice([0.0, 0.5, 1.0], (12, 96))
    assert binary_values(three.mean(1), three.std(1, ddof=1)) is None
