"""Few responses are looked at one by one, many as tensors: both find the same."""

from unittest.mock import patch

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import gdpo_core as gc
from gdpo_core import _pairs as pairs
from gdpo_core.ties import explain_and_collapse

VALUES = st.sampled_from([0.0, -0.0, 1.0, 0.1, 0.2, 0.30000000000000004, 3.0, -2.5, 100.0, float("nan")])
NEAR = st.sampled_from([0.0, 1e-12, -1e-10, 1e-9, 2e-9, 1e-6, 0.5, 1.0, 1.0 + 1e-9, -1.0, 1e300, float("nan")])


@st.composite
def groups_of_few(draw):
    """Blocks, rewards, which responses count, and advantages with near-ties."""
    responses, rewards = draw(st.integers(1, 24)), draw(st.integers(1, 4))
    if draw(st.booleans()):
        sizes = [n for n in range(1, responses + 1) if responses % n == 0]
        rollouts = draw(st.sampled_from(sizes))
        index = torch.arange(responses // rollouts).repeat_interleave(rollouts)
    else:
        rollouts, ids = None, draw(st.lists(st.integers(0, 4), min_size=responses, max_size=responses))
        index = torch.tensor(ids).unique(return_inverse=True)[1]

    def several(of, n):
        return draw(st.lists(st.lists(of, min_size=responses, max_size=responses), min_size=n, max_size=n))

    r, a = (torch.tensor(several(*of), dtype=torch.float64) for of in ((VALUES, rewards), (NEAR, 2)))
    return index, rollouts, r, torch.tensor(several(st.booleans(), 1)[0]), {"grpo": a[0], "gdpo": a[1]}


@given(groups_of_few())
def test_few_responses_are_told_apart_as_many_are(drawn):
    index, rollouts, *arguments = drawn
    few = pairs.count_distinct_and_tied(list(pairs.blocks(index, rollouts)), *arguments, 1e-9)
    with patch.object(pairs, "_FEW", -1), patch.object(pairs, "_distinguish_few", None):
        many = pairs.count_distinct_and_tied(list(pairs.blocks(index, rollouts)), *arguments, 1e-9)
    for name in ("vectors", "pairs", "dead"):
        assert torch.equal(getattr(few, name), getattr(many, name)), name
        assert getattr(few, name).dtype == getattr(many, name).dtype, name
    for name in ("levels", "tied", "level"):
        for method in ("grpo", "gdpo"):
            one, other = getattr(few, name)[method], getattr(many, name)[method]
            assert torch.equal(one, other) and one.dtype == other.dtype, (name, method)


@pytest.mark.parametrize("convention", [gc.PAPER, gc.VERL, gc.NVLABS_TRL, gc.NEMO_RL_LOO], ids=lambda c: c.name)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("method", ["grpo", "grpo_no_std", "gdpo"])
def test_explained_and_collapsed_at_once_is_as_one_by_one(method, dtype, convention):
    rewards = torch.randint(0, 3, (5, 7, 3), generator=torch.Generator().manual_seed(0)).to(dtype)
    rewards[0, 1, 2] = torch.nan
    given = {"weights": [1, 0.3, 2], "lengths": torch.arange(1, 36).view(5, 7), "convention": convention}
    both = explain_and_collapse(rewards, method, **given)
    apart = gc.explain(rewards, method, **given), gc.collapse(rewards, method, **given)
    for one, other in zip(both, apart, strict=True):
        assert one.__dict__.keys() == other.__dict__.keys()
        for name, value in vars(one).items():
            expected = vars(other)[name]
            if isinstance(value, torch.Tensor):
                assert torch.equal(value.nan_to_num(nan=7.7), expected.nan_to_num(nan=7.7)), name
            else:
                assert repr(value) == repr(expected), name
