"""The published verdicts: how they are read and drawn from, and the weight from which on their pairs change their
order.
"""

from collections import Counter
from itertools import pairwise
from math import sqrt
from pathlib import Path

import naive
import polars as pl
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import gdpo_core as gc
from views import bfcl
from views.bfcl import prompts

FILE = "data/bfcl_rewards.parquet"
FRAME = pl.read_parquet(FILE)
DATA = prompts.load_once(FILE)
ALL = len(DATA.models)


# --- break-even weights ----------------------------------------------------------------------------------------------


@pytest.mark.slow
@given(naive.batches(missing=False), st.sampled_from((None, 0)))
def test_the_break_even_weights_of_a_batch_are_those_of_its_prompts(batch, weight):
    count = len(batch.rows[0])
    weights = [1.0, 0.5, 2.0, 1.0][:count] if weight is None else None
    options = {"groups": batch.ids}
    pairs = gc.broken_ties(gc.collapse(batch.rows, "grpo", **options), gc.collapse(batch.rows, "gdpo", **options))
    needed = gc.break_even_weights(batch.rows, pairs, weights=weights, **options)
    for low, high, w in zip(pairs.lower.tolist(), pairs.higher.tolist(), needed.tolist(), strict=True):
        inside = [i for i, id in enumerate(batch.ids) if id == batch.ids[low]]
        pair = ties_of([inside.index(low)], [inside.index(high)])
        one = gc.break_even_weights([batch.rows[i] for i in inside], pair, weights=weights)
        assert w == pytest.approx(one.item(), rel=1e-9, abs=1e-9)


def ties_of(lower, higher):
    return gc.BrokenTies(torch.tensor(lower), torch.tensor(higher), torch.zeros(len(lower), dtype=torch.bool))


UNUSABLE = {  # argument, pairs, options
    "no ties": ("pairs", [(1, 0)], {}),
    "other rewards": ("pairs", ties_of([1], [9]), {}),
    "two prompts": ("pairs", ties_of([1], [0]), {"groups": [0, 1, 0, 1]}),
    "reversed": ("pairs", ties_of([0], [1]), {}),
    "no such reward": ("reward", ties_of([1], [0]), {"reward": 2}),
    "too few weights": ("weights", ties_of([1], [0]), {"weights": [1]}),
}


@pytest.mark.parametrize("argument, pairs, options", UNUSABLE.values(), ids=UNUSABLE)
def test_break_even_weights_name_what_they_cannot_use(argument, pairs, options):
    with pytest.raises(gc.InputError, match=rf"^{argument}: expected "):
        gc.break_even_weights([[1, 0], [0, 1], [1, 1], [0, 0]], pairs, **options)


def test_a_missing_reward_adds_nothing_to_either_side():
    rewards = [[1, 0, float("nan")], [0, 1, 1], [1, 1, 0], [0, 0, 1], [1, 0, 1]]
    w = gc.break_even_weights(rewards, ties_of([1], [0])).item()
    for weight, sign in ((w - 0.01, 1), (w + 0.01, -1)):
        a = gc.gdpo(rewards, weights=(weight, 1, 1))
        assert (a[1] - a[0]).sign() == sign


# --- the file --------------------------------------------------------------------------------------------------------


def test_the_verdicts_are_those_of_the_file():
    assert DATA.verdicts.shape == (FRAME["task_id"].n_unique(), FRAME["model"].n_unique(), len(bfcl.GRADERS))
    assert sorted(Counter(DATA.categories).values()) == [193, 193, 194, 383]
    for row in range(0, FRAME.height, 997):
        task, category, model, *_ = FRAME.row(row)
        p, m = DATA.tasks.index(task), DATA.models.index(model)
        assert DATA.categories[p] == category
        assert DATA.verdicts[p, m].tolist() == [int(FRAME[name][row]) for name in bfcl.GRADERS]


EACH = f"expected one verdict of 0 or 1 on the answer of each of {ALL} models to each of 963 prompts, got others in"


NO_FILE = "expected a Parquet file of published verdicts, got: "


@pytest.mark.parametrize(
    "write, fault",
    [
        (lambda path: FRAME.drop("style").write_parquet(path), NO_FILE),
        (lambda path: path.write_bytes(Path(FILE).read_bytes()[:20000]), NO_FILE),
        (lambda path: None, NO_FILE),
        (
            lambda path: FRAME.with_columns(pl.col("model").shift()).write_parquet(path),
            f"{EACH} {FRAME.height - 1} rows",
        ),
        (lambda path: pl.concat([FRAME[:-1], FRAME[7:8]]).write_parquet(path), f"{EACH} {FRAME.height} rows"),
    ],
)
def test_a_file_that_is_none_is_named_with_its_fault(tmp_path, write, fault):
    path = tmp_path / "bad.parquet"
    write(path)
    with pytest.raises(gc.InputError) as error:
        bfcl.load_published(path)
    assert str(error.value).startswith(f"{path}: {fault}") and "\n" not in str(error.value)


# --- the draw --------------------------------------------------------------------------------------------------------


def test_a_draw_is_its_own_for_each_prompt_without_replacement_and_repeats():
    torch.manual_seed(0)
    before = torch.get_rng_state()
    drawn = bfcl.draw_models(DATA, 12, seed=5)
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(drawn, bfcl.draw_models(DATA, 12, seed=5))
    assert not torch.equal(drawn, bfcl.draw_models(DATA, 12, seed=6))
    assert drawn.shape == (len(DATA.tasks), 12)
    assert all(len(set(row)) == 12 for row in drawn.tolist())
    assert len(set(map(tuple, drawn.tolist()))) == len(drawn)
    often = drawn.flatten().bincount(minlength=ALL) / len(drawn)
    assert (often - 12 / ALL).abs().max() < 5 * sqrt(12 / ALL * (1 - 12 / ALL) / len(drawn))


def test_a_larger_group_holds_the_smaller_one():
    drawn = [bfcl.draw_models(DATA, size, seed=1).tolist() for size in (2, 12, 40, ALL)]
    for small, large in pairwise(drawn):
        assert all(set(s) <= set(b) for s, b in zip(small, large, strict=True))


@pytest.mark.parametrize("argument, value", [("group_size", 1), ("group_size", 72), ("group_size", 2.0), ("seed", -1)])
def test_a_draw_names_what_it_cannot_use(argument, value):
    with pytest.raises(gc.InputError, match=rf"^{argument}: expected a whole number from "):
        bfcl.draw_models(DATA, **{"group_size": 12, "seed": 0, argument: value})
