"""The order of pairs: right, tied and wrong, and ties among some responses, against a plain loop over the pairs."""

from itertools import combinations

import naive
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import gdpo_core as gc
from gdpo_core.ties import Order, highest_break_even


def pairs_of(collapsed, ids):
    """Pairs of responses of one group that were not left out, with the level of each."""
    level = dict(zip(collapsed.response.tolist(), collapsed.level.tolist(), strict=True))
    return level, [(i, j) for i, j in combinations(sorted(level), 2) if ids[i] == ids[j]]


@given(st.sampled_from(naive.METHODS), naive.batches())
def test_every_pair_is_right_tied_or_wrong(method, batch):
    c = gc.collapse(batch.rows, method, groups=batch.ids)
    level, pairs = pairs_of(c, batch.ids)
    for primary in range(len(batch.rows[0])):
        counted = {"right": 0, "tied": 0, "wrong": 0}
        for i, j in pairs:
            if batch.rows[i][primary] > batch.rows[j][primary]:
                i, j = j, i
            if batch.rows[i][primary] < batch.rows[j][primary]:  # NaN compares false
                gap = level[j] - level[i]
                counted["right" if gap > 0 else "wrong" if gap < 0 else "tied"] += 1
        found = c.order(primary)
        assert found == Order(**counted)
        if found.pairs:
            assert c.inversions(primary) == found.wrong / found.pairs


@given(st.sampled_from(naive.METHODS), naive.batches(missing=False), st.data())
def test_ties_among_some_responses(method, batch, data):
    c = gc.collapse(batch.rows, method, groups=batch.ids)
    among = data.draw(st.lists(st.booleans(), min_size=len(batch.rows), max_size=len(batch.rows)))
    other = [[float(x > 0) for x in row] for row in batch.rows]  # coarser rewards than those of the collapse
    level, pairs = pairs_of(c, batch.ids)
    for rows, given_rows in ((batch.rows, None), (other, torch.tensor(other))):
        differ = [(i, j) for i, j in pairs if among[i] and among[j] and rows[i] != rows[j]]
        tied = sum(level[i] == level[j] for i, j in differ)
        assert c.ties_among(torch.tensor(among), given_rows) == (len(differ), tied)


def test_ties_among_all_are_the_ties_of_the_collapse():
    c = gc.collapse([[1, 0, 1], [0, 1, 1], [1, 1, 0], [0, 0, 0]], "grpo")
    assert c.ties_among(torch.ones(4, dtype=torch.bool)) == (6, c.tied_pair_count)


@pytest.mark.parametrize("primary", [3, -4, 1.5, None])
def test_an_order_names_a_primary_it_cannot_use(primary):
    with pytest.raises(gc.InputError, match=r"^primary: expected "):
        gc.collapse([[1, 0, 1], [0, 1, 1]]).order(primary)


@pytest.mark.parametrize("rollouts", [3, 4, 7, 12, 25])
def test_the_weight_that_is_most_needed_is_the_largest_ratio_of_spreads(rollouts):
    spreads = [torch.tensor([1.0] * k + [0.0] * (rollouts - k)).double().std().item() for k in range(1, rollouts)]
    assert highest_break_even(rollouts) == pytest.approx(max(spreads) / min(spreads))
