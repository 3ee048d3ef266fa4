"""The conventions against what the frameworks returned, the same formulas in exact arithmetic, and numbers by hand."""

from dataclasses import FrozenInstanceError, fields, replace
from itertools import product
from math import inf, isnan, nan, sqrt
from pathlib import Path

import naive
import naive_frameworks
import numpy as np
import pytest
import torch
from helpers import ROUNDED, check_refusal, close, f64, zeros
from hypothesis import given, reject
from hypothesis import strategies as st

import gdpo_core as gc
from gdpo_core import _groups as core_batch
from gdpo_core.registry import method_for

METHODS = pytest.mark.parametrize("method", naive_frameworks.METHODS)
CONVENTIONS = pytest.mark.parametrize("convention", gc.CONVENTIONS.values(), ids=gc.CONVENTIONS)
FRAMEWORKS = pytest.mark.parametrize("framework", naive_frameworks.FRAMEWORKS)
HALF = 1 / sqrt(2)


# --- the nine ------------------------------------------------------------------------------------------------------


NINE = (
    *("paper", "trl", "nvlabs_trl", "verl", "ms_swift", "nemo_rl", "nemo_rl_loo"),
    *("axolotl_async", "axolotl_streaming"),
)


def test_nine_conventions_are_exported_under_their_names():
    for key in NINE:
        assert type(gc.CONVENTIONS[key]) is gc.Convention
        assert getattr(gc, key.upper()) is gc.CONVENTIONS[key] and key.upper() in gc.__all__
    assert next(iter(gc.CONVENTIONS)) == "paper"


def test_no_two_conventions_share_a_name_and_each_says_where_it_was_read():
    assert len({c.name for c in gc.CONVENTIONS.values()}) == len(gc.CONVENTIONS) >= len(NINE)
    assert all(c.source for c in gc.CONVENTIONS.values())


@CONVENTIONS
def test_a_convention_is_frozen(convention):
    for field in fields(convention):
        with pytest.raises(FrozenInstanceError):
            setattr(convention, field.name, getattr(convention, field.name))


def test_a_convention_takes_keywords_only():
    with pytest.raises(TypeError):
        gc.Convention("other", "here")


NUMBERS = (-1e-9, nan, inf, -inf, "1e-4", [1e-4], 1j, True)
BAD_FIELDS = {
    "name": (None, 3),
    "source": (None, 3),
    "ddof": (2, -1, 0.5, 1.0, nan, None, "1", True),
    "group_eps": (*NUMBERS, None),
    "grpo_eps": NUMBERS,
    "batch_eps": (*NUMBERS, None),
    "batch_eps_to": ("mean", "", None, 1, ["std"]),
    "last_step": ("batch", "Tokens", None, 0, {}),
    "missing": ("zero", None, True, nan),
    "missing_is_zero_in_gdpo": (0, 1, None, "True"),
    "empty_counts": (0, 1, None, "False"),
    "group_of_one": ("one", 0, 1.0, nan, None),
    "leave_one_out": (0, 1, None, "yes"),
    "one_reward_is_grpo": (0, 1, None, []),
    "mean_of_others": (0, 1, None, "yes"),
}


def test_every_field_of_a_convention_has_values_that_it_refuses():
    assert list(BAD_FIELDS) == [field.name for field in fields(gc.Convention)]


def test_a_field_that_cannot_be_used_is_named_with_what_was_expected_and_what_came(subtests):
    for field, values in BAD_FIELDS.items():
        for value in values:
            with subtests.test(field=field, value=repr(value)):
                check_refusal(gc.Convention, {"name": "other", "source": "here", field: value}, field, f"got {value!r}")
                with pytest.raises(gc.InputError):
                    replace(gc.TRL, **{field: value})


# --- what the frameworks returned ----------------------------------------------------------------------------------

GOLDENS = Path(__file__).parent / "goldens"
RECORDED = np.load(GOLDENS / "frameworks.npz")
NAMES = {
    "trl-1.16.0": "trl",
    "nvlabs-trl-ref": "nvlabs_trl",
    "verl-0.9.1": "verl",
    "swift-4.6.0": "ms_swift",
    "swift-dynamic": "ms_swift",
    "nemo-HEAD(loo=F)": "nemo_rl",
    "nemo-HEAD(loo=T)": "nemo_rl_loo",
    "axolotl-async": "axolotl_async",
    "axolotl-stream": "axolotl_streaming",
}
OUTPUTS = [key for key in RECORDED if key.split("|")[2] in NAMES]
# float32 is too coarse here: what the frameworks return is their own round-off, divided by itself.
ROUND_OFF = {
    *(f"{method}|offset_100_sd_1e-3|{name}" for method in ("grpo", "gdpo") for name in NAMES),
    *(f"grpo|all_const_0.1|{name}" for name in NAMES if name != "nemo-HEAD(loo=F)"),
    "gdpo|all_const_0.1|verl-0.9.1",
    "gdpo|all_const_0.1|nemo-HEAD(loo=T)",
    "gdpo|const_0.1_and_1/3|nemo-HEAD(loo=T)",
}


def recorded(key):
    """(method, framework, rewards, the other arguments but the convention, group size) of a recorded output."""
    method, scenario, name = key.split("|")
    rewards, w, uid, lengths, size = (RECORDED[f"{method}|{scenario}|{x}"] for x in ("inputs", "w", "uid", "L", "G"))
    if name == "swift-dynamic" and method == "gdpo":
        method = "grpo_no_std"  # for turns that are scored one by one; it does not know gdpo, and only centres
    options = {"weights": w.astype(np.float64), "groups": uid, "lengths": lengths}
    return method, NAMES[name], rewards.astype(np.float64), options, int(size)


def allowed(key):
    return 2e-5 if "nemo" in key else 2e-6  # its variance is a difference of squares


def off_by(a, b):
    a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
    assert np.array_equal(np.isnan(a), np.isnan(b))
    return np.nan_to_num(np.abs(a - b)).max()


def test_every_framework_was_recorded_in_every_scenario():
    scenarios = {key.split("|")[1] for key in OUTPUTS}
    assert len(scenarios) == 14 and set(OUTPUTS) > ROUND_OFF
    refused = {f"gdpo|single_reward|nemo-HEAD(loo={loo})" for loo in "TF"}  # NeMo-RL wants two rewards at least
    assert {f"{m}|{s}|{n}" for m in ("grpo", "gdpo") for s in scenarios for n in NAMES} == {*OUTPUTS, *refused}


@pytest.mark.parametrize("name", NAMES)
def test_a_recorded_output_is_reproduced(subtests, name):
    for key in (key for key in OUTPUTS if key.endswith(f"|{name}") and key not in ROUND_OFF):
        with subtests.test(key):
            method, framework, rewards, options, size = recorded(key)
            convention = gc.CONVENTIONS[framework]
            a = gc.advantages(rewards, method, convention=convention, **options)
            assert off_by(a, RECORDED[key]) <= allowed(key)
            cube, lengths = rewards.reshape(-1, size, rewards.shape[1]), options["lengths"].reshape(-1, size)
            dense = gc.advantages(cube, method, weights=options["weights"], lengths=lengths, convention=convention)
            assert off_by(dense.flatten(), RECORDED[key]) <= allowed(key)


def test_where_a_framework_returns_round_off_the_exact_value_is_returned(subtests):
    for key in sorted(ROUND_OFF):
        with subtests.test(key):
            method, framework, rewards, options, _ = recorded(key)
            arguments = rewards, *(options[x] for x in ("groups", "weights", "lengths"))
            exact = naive_frameworks.advantages(framework, method, *arguments)
            close(gc.advantages(rewards, method, convention=gc.CONVENTIONS[framework], **options), exact)
            assert off_by(exact, RECORDED[key]) > allowed(key)


@pytest.mark.parametrize("method", ("grpo", "gdpo"))
def test_far_from_zero_the_two_programmes_of_these_tests_agree(method):
    method, framework, rewards, options, _ = recorded(f"{method}|offset_100_sd_1e-3|trl-1.16.0")
    exact = naive_frameworks.advantages(framework, method, rewards, *(options[x] for x in ("groups", "weights")))
    loop = naive.compute(rewards.tolist(), options["groups"].tolist(), method, options["weights"].tolist(), "TRL")
    close(loop.advantages, exact)


@CONVENTIONS
def test_a_batch_that_is_0_1_throughout_is_exactly_0(convention):
    _, _, rewards, options, _ = recorded("gdpo|all_const_0.1|trl-1.16.0")
    for method, dtype in product(naive_frameworks.METHODS, (np.float64, np.float32)):
        a = gc.advantages(rewards.astype(dtype), method, convention=convention, **options)
        assert zeros(a), (method, dtype)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_exact_arithmetic_reproduces_the_recorded_outputs_too(subtests, name):
    for key in (key for key in OUTPUTS if key.endswith(f"|{name}") and key not in ROUND_OFF):
        with subtests.test(key):
            method, framework, rewards, options, _ = recorded(key)
            arguments = rewards, *(options[x] for x in ("groups", "weights", "lengths"))
            assert off_by(naive_frameworks.advantages(framework, method, *arguments), RECORDED[key]) <= allowed(key)


VERL = {path.stem: np.load(path) for path in sorted((GOLDENS / "verl").glob("*.npz"))}
VERL_ROUND_OFF = {
    *product(("all_constant_batch",), ("grpo", "grpo_vectorized")),
    *product(("large_offset",), ("grpo", "grpo_vectorized", "gdpo")),
    ("constant_groups", "gdpo"),
}
VERL_OUTPUTS = [
    (case, output)
    for case, output in product(VERL, ("grpo", "grpo_vectorized", "gdpo"))
    # norm_adv_by_std=False reaches into verl's GDPO, where it leaves no method that has a name here
    if (case, output) not in {*VERL_ROUND_OFF, ("continuous_no_std", "gdpo")}
]


def of_verl(case, output):
    """(method, rewards, the other arguments but the convention, what verl returned)."""
    z = VERL[case]
    method = "gdpo" if output == "gdpo" else "grpo" if z["norm_adv_by_std"] else "grpo_no_std"
    options = {"weights": z["weights"].astype(np.float64), "groups": z["uid"], "lengths": z["lengths"]}
    return method, z["rewards"].astype(np.float64), options, z[output]


def test_verl_was_recorded_in_fifteen_cases():
    assert len(VERL) == 15 and {case for case, _ in VERL_ROUND_OFF} < set(VERL)


def test_verls_own_cases_are_reproduced(subtests):
    for case, output in VERL_OUTPUTS:
        with subtests.test(case, output=output):
            method, rewards, options, expected = of_verl(case, output)
            assert off_by(gc.advantages(rewards, method, convention=gc.VERL, **options), expected) <= 2e-6


def test_where_verl_returns_round_off_the_exact_value_is_returned(subtests):
    for case, output in sorted(VERL_ROUND_OFF):
        with subtests.test(case, output=output):
            method, rewards, options, expected = of_verl(case, output)
            arguments = rewards, *(options[x] for x in ("groups", "weights", "lengths"))
            exact = naive_frameworks.advantages("verl", method, *arguments)
            close(gc.advantages(rewards, method, convention=gc.VERL, **options), exact)
            assert off_by(exact, expected) > 1e-3


# --- the same formulas in exact arithmetic, on any batch -----------------------------------------------------------


def exactly(framework, method, rows, ids, weights=None, lengths=None):
    """As naive_frameworks, with 0 where a trainer refuses what its formula gives NaN for.

    The NVlabs fork wants groups of two; neither it nor ms-swift trains on a batch of one response.
    """
    a = naive_frameworks.advantages(framework, method, rows, ids, weights, lengths)
    if framework in ("nvlabs_trl", "ms_swift"):
        alone = [len(rows) == 1 or (framework == "nvlabs_trl" and list(ids).count(id) == 1) for id in ids]
        assert all(alone[i] for i, value in enumerate(a) if isnan(value))
        return [0.0 if isnan(value) else value for value in a]
    return a


ANY = st.booleans().flatmap(lambda missing: naive.batches(missing=missing))
TOKENS = st.lists(st.integers(2, 64), min_size=35, max_size=35)


@FRAMEWORKS
@given(ANY, TOKENS)
def test_every_method_agrees_with_exact_arithmetic_on_any_batch(framework, batch, tokens):
    lengths = tokens[: len(batch.rows)]
    weights = None if batch.weights is None else f64(batch.weights)
    for method in naive_frameworks.METHODS:
        try:
            expected = exactly(framework, method, batch.rows, batch.ids, batch.weights, lengths)
        except naive_frameworks.Undecided:
            reject()
        options = {"weights": weights, "lengths": lengths, "convention": gc.CONVENTIONS[framework]}
        a = gc.advantages(f64(batch.rows), method, groups=batch.ids, **options)
        assert a.dtype == torch.float64
        close(a, expected)


def drawn(seed, prompts=6, rollouts=5, missing=False):
    """A binary, an ordinal and a continuous reward (prompts, rollouts, 3), and lengths."""
    draw = np.random.default_rng(seed)
    shape = (prompts, rollouts)
    continuous = np.round(draw.normal(size=shape) * 16) / 16
    rewards = np.stack([draw.random(shape) < 0.4, draw.integers(0, 4, shape), continuous], -1).astype(np.float64)
    if missing:
        rewards[draw.random(rewards.shape) < 0.2] = nan
        rewards[0, 1], rewards[1, :, 1], rewards[2, 1:, 2] = nan, nan, nan
    return rewards, draw.integers(2, 65, shape)


@pytest.mark.parametrize("missing", (False, True), ids=("complete", "missing"))
@METHODS
@FRAMEWORKS
def test_dense_rewards_agree_with_exact_arithmetic(framework, method, missing):
    for seed, weights in ((1, None), (2, [1, 0.5, 2]), (3, [-1, 3, 0.25]), (4, [0, 1, 1])):
        rewards, lengths = drawn(seed, missing=missing)
        ids = np.repeat(np.arange(len(rewards)), rewards.shape[1])
        expected = exactly(framework, method, rewards.reshape(-1, 3), ids, weights, lengths.flatten())
        options = {"weights": weights, "lengths": lengths, "convention": gc.CONVENTIONS[framework]}
        for dtype, tolerance in ((torch.float64, 1e-12), (torch.float32, 1e-5)):
            a = gc.advantages(torch.tensor(rewards, dtype=dtype), method, **options)
            assert a.dtype == dtype
            close(a.flatten(), expected, tolerance)


EDGES = {  # rows, ids, weights
    "one reward": ([[1], [0], [0], [3], [2], [2]], [0, 0, 0, 1, 1, 1], None),
    "one reward, missing": ([[1], [0], [nan], [3], [nan], [nan]], [0, 0, 0, 1, 1, 1], None),
    "groups of one": ([[1, 0], [0.25, 3], [-2, 1]], [0, 1, 2], [1, 0.5]),
    "groups of one, one reward": ([[1], [0.25], [-2]], [0, 1, 2], [2]),
    "groups of one, missing": ([[1, nan], [nan, nan], [-2, 1]], [0, 1, 2], None),
    "a group of one beside others": ([[5, 1], [1, 0], [0, 3], [2, 1]], ["a", "b", "b", "b"], None),
    "one response": ([[2, 3]], [0], None),
    "one response, one reward": ([[2]], [0], None),
    "one response, missing": ([[2, nan]], [0], None),
    "one response, nothing there": ([[nan, nan]], [0], None),
    "groups of two": ([[1, 0], [0, 3], [2, 2], [2, 1]], [0, 0, 1, 1], [1, 0.5]),
    "groups of two, missing": ([[1, nan], [0, 3], [nan, nan], [2, 1]], [0, 0, 1, 1], [1, 0.5]),
    "a row without rewards": ([[1, 2], [nan, nan], [0, 5], [1, 9], [1, 1], [0, 0]], [0, 0, 0, 0, 1, 1], None),
    "a group without rewards": ([[nan, nan], [nan, nan], [0, 5], [1, 1], [0, 0]], [0, 0, 1, 1, 1], None),
    "nothing there at all": ([[nan, nan]] * 4, [0, 0, 1, 1], None),
    "a reward missing in a group": ([[1, nan], [0, nan], [0, 5], [1, 1], [0, 0]], [0, 0, 1, 1, 1], None),
    "a reward missing everywhere": ([[1, nan], [0, nan], [0, nan], [1, nan]], [0, 0, 1, 1], None),
    "one value in a group": ([[1, nan], [0, 7], [0, nan], [1, 1], [0, 0]], [0, 0, 0, 1, 1], None),
    "a row with only that value": ([[1, nan], [nan, 7], [0, nan], [1, 1], [0, 0]], [0, 0, 0, 1, 1], None),
    "one response with rewards": ([[nan, nan], [nan, nan], [3, 7], [1, 1], [0, 2]], [0, 0, 0, 1, 1], None),
    "a reward that never varies": ([[0.1, 1], [0.1, 0], [0.1, 2], [0.1, 2]], [0, 0, 1, 1], None),
    "all peers but one agree": ([[1, 0.1], [0, 0.1], [0, 0.7], [0, 0.1]], [0, 0, 0, 0], None),
    "a group that never varies": ([[1 / 3, 0.1]] * 3 + [[1, 0], [0, 2], [0, 3]], [0, 0, 0, 1, 1, 1], None),
    "rewards that cancel": ([[1, 0], [0, 1], [1, 0], [1, 1], [0, 0]], [0, 0, 0, 1, 1], None),
    "a negative weight": ([[1, 0.5], [0, 1], [1, 2], [1, 1], [0, 3]], [0, 0, 0, 1, 1], [1, -0.25]),
    "a weight of 0": ([[1, 0.5], [0, 1], [1, 2], [1, 1], [0, 3]], [0, 0, 0, 1, 1], [1, 0]),
    "a weight of 0 on a missing reward": ([[1, nan], [0, 1], [1, 2], [1, 1], [0, 3]], [0, 0, 0, 1, 1], [1, 0]),
    "no weight at all": ([[1, 0.5], [0, 1], [1, 2]], [0, 0, 0], [0, 0]),
}


@FRAMEWORKS
def test_every_edge_agrees_with_exact_arithmetic(subtests, framework):
    for edge, (rows, ids, weights) in EDGES.items():
        lengths = [3, 5, 2, 40, 7, 11][: len(rows)]
        with subtests.test(edge):
            for method in naive_frameworks.METHODS:
                expected = exactly(framework, method, rows, ids, weights, lengths)
                options = {"weights": weights, "lengths": lengths, "convention": gc.CONVENTIONS[framework]}
                close(gc.advantages(rows, method, groups=ids, **options), expected)


@FRAMEWORKS
def test_one_large_reward_costs_no_digits(subtests, framework):
    precisions = ((torch.float64, 1e-9), (torch.float32, 1e-4))
    for outlier, (dtype, tolerance) in product((10.1, 100.3, 1e3 / 3, 1e6 / 7), precisions):
        rewards = torch.tensor([[outlier], [0.25], [1], [0.5], [1]], dtype=dtype)
        with subtests.test(outlier=outlier, dtype=str(dtype)):
            for method in naive_frameworks.METHODS:
                expected = exactly(framework, method, rewards.double().numpy(), [0] * 5, lengths=[3] * 5)
                a = gc.advantages(rewards, method, lengths=[3] * 5, convention=gc.CONVENTIONS[framework])
                close(a, expected, tolerance)


# --- worked by hand ------------------------------------------------------------------------------------------------


def test_verl_gives_a_dead_group_of_long_wrong_answers_a_positive_advantage():
    # One group has a right answer of 1 token and a wrong one of 20, the other two wrong ones of 20: 61 tokens.
    # z = h, −h, 0, 0 with h = 0.5 / (√½ + 1e-6). Their mean over tokens is h (1 − 20) / 61 = −19/61 h, so they stand
    # 80/61, −42/61, 19/61, 19/61 h away from it; the squares over tokens are (6400 + 20 · 1764 + 40 · 361) / 61² h² =
    # 56120 / 3721 h², over 60. So a wrong answer that was compared with nothing gets 19/61 h / 0.3545 = +0.62.
    rewards, h = [[[1], [0]], [[0], [0]]], 0.5 / (HALF + 1e-6)
    std = sqrt(56120 / 3721 / 60 * h**2 + 1e-8)
    a = gc.gdpo(rewards, lengths=[[1, 20], [20, 20]], convention=gc.VERL)
    close(a, [[80 / 61 * h / std, -42 / 61 * h / std], [19 / 61 * h / std] * 2])
    assert a[1, 0].item() == pytest.approx(0.6213, abs=1e-4)
    for lengths in ([[1, 1], [1, 1]], [[20, 20], [20, 20]]):
        assert zeros(gc.gdpo(rewards, lengths=lengths, convention=gc.VERL)[1])


def test_a_length_in_verl_counts_a_response_as_often_as_it_has_tokens():
    rewards, lengths = f64([[[1, 0], [0, 2], [0, 1]], [[0, 1], [1, 1], [1, 0]]]), [[3, 1, 2], [5, 1, 1]]
    e = gc.explain(rewards, lengths=lengths, convention=gc.VERL)
    by_token = e.weighted_sums.flatten().repeat_interleave(torch.tensor(lengths).flatten())
    assert len(by_token) == 13
    close(e.batch_mean, by_token.mean(), 1e-12)
    close(e.batch_std, by_token.std(), 1e-12)
    close(e.advantages, (e.weighted_sums - by_token.mean()) / (by_token.var() + 1e-8).sqrt(), 1e-12)


@METHODS
def test_lengths_change_nothing_in_grpo_and_where_no_step_weighs_tokens(method):
    rewards, lengths = drawn(5)
    for convention in gc.CONVENTIONS.values():
        if method != "gdpo" or convention.last_step != "tokens":
            a = gc.advantages(rewards, method, lengths=lengths, convention=convention)
            assert torch.equal(a, gc.advantages(rewards, method, convention=convention))


def test_verl_keeps_the_raw_reward_of_a_group_of_one():
    options = {"weights": [1, 2], "groups": ["alone", "b", "b"], "convention": gc.VERL}
    rewards, h = [[3, 4], [1, 1], [0, 1]], 0.5 / (HALF + 1e-6)
    close(gc.grpo(rewards, **options), [11 / (1 + 1e-6), h, -h], 1e-12)
    assert gc.grpo_no_std(rewards, **options).tolist() == [11, 0.5, -0.5]
    s = [11 / (1 + 1e-6), h, -h]  # of one length each, their mean is s[0] / 3
    off = [x - s[0] / 3 for x in s]
    std = sqrt(sum(2 * x * x for x in off) / 5 + 1e-8)  # over six tokens
    close(gc.gdpo(rewards, lengths=[2, 2, 2], **options), [x / std for x in off], 1e-12)


@pytest.mark.parametrize("dtype", (torch.float64, torch.float32), ids=str)
def test_groups_of_one_with_one_reward_are_exactly_0_in_verl(dtype):
    lengths = [28, 52, 13, 63, 40, 27, 38, 53]
    for value in (0.1, 7.3, 1000.1, 8925.917):
        rewards = torch.full((8, 1), value, dtype=dtype)
        assert zeros(gc.gdpo(rewards, groups=range(8), lengths=lengths, convention=gc.VERL))


def test_a_missing_reward_spreads_over_its_group_in_grpo_and_over_the_batch_in_gdpo():
    rewards = [[[1, nan], [0, 1]], [[1, 1], [0, 1]]]
    for convention in (gc.VERL, gc.NEMO_RL, gc.NEMO_RL_LOO):
        for method in ("grpo", "grpo_no_std"):
            assert gc.advantages(rewards, method, convention=convention).isnan().tolist() == [[True] * 2, [False] * 2]
        assert gc.gdpo(rewards, lengths=[[1, 2], [3, 4]], convention=convention).isnan().all()


def test_leave_one_out_of_two_is_the_plain_difference():
    rewards = [[3, 0.5], [1, 1]]
    for method in ("grpo", "grpo_no_std"):
        close(gc.advantages(rewards, method, weights=[1, 2], convention=gc.NEMO_RL_LOO), [1, -1], 1e-15)
    s = gc.explain([[[3, 0.5], [1, 1]], [[0, 4], [0, 0]]], convention=gc.NEMO_RL_LOO).weighted_sums
    close(s, [[2 - 0.5, -2 + 0.5], [4, -4]], 1e-15)
    std = sqrt(2 * (1.5**2 + 4**2) / 3)
    a = gc.gdpo([[[3, 0.5], [1, 1]], [[0, 4], [0, 0]]], convention=gc.NEMO_RL_LOO)
    close(a, [[1.5 / std, -1.5 / std], [4 / std, -4 / std]], 1e-12)


def test_leave_one_out_divides_by_the_std_of_the_others_unless_they_agree():
    a = gc.grpo([[1], [0], [0]], convention=gc.NEMO_RL_LOO)  # the others of 0 are 1 and 0
    close(a, [1, -0.5 / (HALF + 1e-6), -0.5 / (HALF + 1e-6)], 1e-12)
    a = gc.grpo([[1]] + [[0]] * 7, convention=gc.NEMO_RL_LOO)  # one 1 and six 0: mean 1/7, variance 1/7
    close(a, [1] + [-1 / 7 / (sqrt(1 / 7) + 1e-6)] * 7, 1e-12)


def test_leave_one_out_without_std_is_the_centred_sum_stretched():
    rewards, _ = drawn(6)
    centred = gc.grpo_no_std(rewards, weights=[1, -2, 0.5])
    close(gc.grpo_no_std(rewards, weights=[1, -2, 0.5], convention=gc.NEMO_RL_LOO), centred * 5 / 4, 1e-12)


def test_nemo_does_not_divide_where_nothing_varies_and_has_no_eps_in_the_last_step():
    assert zeros(gc.gdpo([[[0.1, 0.7]] * 3] * 2, convention=gc.NEMO_RL))
    rewards, _ = drawn(7)
    close(gc.gdpo(rewards, convention=gc.NEMO_RL).std(), 1, 1e-12)
    close(gc.gdpo(rewards, convention=gc.NEMO_RL_LOO).std(), 1, 1e-12)


def test_a_row_without_rewards_counts_as_0_in_ms_swift_and_axolotl_and_not_at_all_in_trl():
    rewards = [[1], [nan], [0], [0]]  # with the 0: mean 1/4, std 1/2; without: mean 1/3, std 1/√3
    for convention in (gc.MS_SWIFT, gc.AXOLOTL_ASYNC, gc.AXOLOTL_STREAMING, gc.NVLABS_TRL):
        close(gc.grpo(rewards, convention=convention), [0.75 / 0.5001] + [-0.25 / 0.5001] * 3, 1e-12)
    third = 1 / (1 / sqrt(3) + 1e-4)
    close(gc.grpo(rewards, convention=gc.TRL), [2 / 3 * third, 0, -third / 3, -third / 3], 1e-12)


def test_a_row_without_rewards_counts_in_ms_swifts_last_step():
    # of the three that are there z = 2/3, −1/3, −1/3 over 1/√3 + 1e-8, squares 2/3 over (1/√3 + 1e-8)²
    z = [x / (1 / sqrt(3) + 1e-8) for x in (2 / 3, 0, -1 / 3, -1 / 3)]
    size = sqrt(2 / 3) / (1 / sqrt(3) + 1e-8)
    close(gc.gdpo([[1], [nan], [0], [0]], convention=gc.MS_SWIFT), [x / (size / sqrt(3) + 1e-8) for x in z], 1e-12)


def test_ms_swift_has_an_eps_for_grpo_and_another_for_gdpo():
    assert gc.grpo([[1], [0]], convention=gc.MS_SWIFT)[0].item() == pytest.approx(0.5 / (HALF + 1e-4), rel=1e-12)
    z = gc.explain([[1], [0]], convention=gc.MS_SWIFT).z[0, 0].item()
    assert z == pytest.approx(0.5 / (HALF + 1e-8), rel=1e-12)


def test_the_fork_of_nvlabs_takes_one_reward_as_grpo():
    rewards = f64([[[1], [0], [0], [nan]], [[2], [0], [7], [1]]])
    assert torch.equal(gc.gdpo(rewards, convention=gc.NVLABS_TRL), gc.grpo(rewards, convention=gc.NVLABS_TRL))
    assert gc.explain(rewards, convention=gc.NVLABS_TRL).batch_std is None


def test_the_fork_of_nvlabs_takes_a_missing_reward_as_0_in_gdpo_and_skips_it_in_grpo():
    rewards = f64([[[1, nan], [5, 2], [nan, 3]], [[2, 1], [nan, nan], [1, 0]]])
    a = gc.gdpo(rewards, convention=gc.NVLABS_TRL)
    close(a, gc.gdpo(rewards.nan_to_num(0), convention=gc.NVLABS_TRL), ROUNDED)
    close(a, gc.gdpo(rewards.nan_to_num(0), convention=gc.TRL), ROUNDED)
    sums = f64([[[1], [7], [3]], [[3], [0], [1]]])
    close(gc.grpo(rewards, convention=gc.NVLABS_TRL), gc.grpo(sums, convention=gc.NVLABS_TRL), ROUNDED)


def test_what_a_trainer_refuses_gets_0():
    groups_of_one = [[[1, 2]], [[3, 5]]]
    for method in naive_frameworks.METHODS:
        assert zeros(gc.advantages(groups_of_one, method, convention=gc.NVLABS_TRL))
        for convention in (gc.NVLABS_TRL, gc.MS_SWIFT):
            assert zeros(gc.advantages([[3.5, 1]], method, convention=convention))


def test_axolotls_streaming_is_gdpo_prompt_by_prompt():
    rewards, _ = drawn(8, missing=False)
    a = gc.gdpo(rewards, weights=[1, -2, 0.5], convention=gc.AXOLOTL_STREAMING)
    for prompt, advantages in zip(rewards, a, strict=True):
        close(advantages, gc.gdpo(prompt, weights=[1, -2, 0.5], convention=gc.TRL), 1e-12)


def test_axolotls_streaming_has_no_value_for_a_group_of_one_in_gdpo_alone():
    options = {"groups": ["alone", "b", "b"], "convention": gc.AXOLOTL_STREAMING}
    rewards = [[3, 4], [1, 1], [0, 1]]
    assert gc.gdpo(rewards, **options).isnan().tolist() == [True, False, False]
    assert gc.grpo(rewards, **options)[0] == gc.grpo_no_std(rewards, **options)[0] == 0


# --- how far apart they are ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(5))
def test_on_one_batch_the_conventions_differ_from_trl_by_this_much(seed):
    rewards, _ = drawn(seed, prompts=16, rollouts=8)
    lengths = np.random.default_rng(seed).integers(1, 65, (16, 8))
    dead = rewards.copy()
    dead[::2] = dead[::2, :1]  # every other group has eight equal rows

    def from_trl(convention, lengths=None, rewards=rewards):
        other = gc.gdpo(rewards, lengths=lengths, convention=convention)
        return (other - gc.gdpo(rewards, convention=gc.TRL)).abs().max().item()

    assert 0.005 < from_trl(gc.VERL, np.full((16, 8), 8)) < 0.02
    assert 0.02 < from_trl(gc.VERL, lengths) < 0.5
    assert 1e-4 < from_trl(gc.MS_SWIFT) < 1e-3
    assert 1e-4 < from_trl(gc.NEMO_RL) < 1e-3
    assert 0.5 < from_trl(gc.NEMO_RL_LOO) < 3
    assert 0.3 < from_trl(gc.AXOLOTL_STREAMING) < 1.2
    assert 1 < from_trl(gc.AXOLOTL_STREAMING, rewards=dead) < 3
    assert from_trl(gc.AXOLOTL_ASYNC) < 1e-12 and from_trl(gc.NVLABS_TRL) < 1e-12


# --- ids, order, pieces --------------------------------------------------------------------------------------------

IDS = {
    "strings": lambda group: f"prompt {9 - group}",
    "integers": lambda group: 1000 - 7 * group,
    "tuples": lambda group: ("step", -group),
    "floats": lambda group: group / 3,
}


@METHODS
@CONVENTIONS
def test_neither_the_order_of_the_rows_nor_the_kind_of_ids_matters(convention, method):
    sizes = [4, 1, 2, 6, 3]
    for seed, missing in ((11, False), (12, True)):
        rewards, lengths = drawn(seed, prompts=4, rollouts=4, missing=missing)
        rewards, lengths = rewards.reshape(16, 3), lengths.flatten()
        ids = np.repeat(np.arange(5), sizes)
        options = {"weights": [1, 0.5, -2], "convention": convention}
        a = gc.advantages(rewards, method, groups=ids, lengths=lengths, **options)
        order = np.random.default_rng(seed).permutation(16)
        for name in IDS.values():
            names = [name(group) for group in ids[order].tolist()]
            b = gc.advantages(rewards[order], method, groups=names, lengths=lengths[order], **options)
            close(b, a[torch.from_numpy(order)], 1e-12)


@pytest.mark.parametrize("missing", (False, True), ids=("complete", "missing"))
@METHODS
@CONVENTIONS
def test_a_batch_in_pieces_gives_the_same_and_is_not_changed(convention, method, missing, monkeypatch):
    rewards, lengths = drawn(13, prompts=11, missing=missing)
    rewards[4] = rewards[4, 0]
    rewards = torch.from_numpy(rewards)
    kept, options = rewards.clone(), {"weights": [1, 0.5, -2], "lengths": lengths, "convention": convention}
    whole = gc.advantages(rewards, method, **options)
    for size in (1, 40, 45):  # one prompt at a time, 2 and 3 of 5 × 3 rewards, the last piece shorter
        monkeypatch.setattr(core_batch, "_PIECE", size)
        assert len(list(core_batch.read(rewards).pieces())) == {1: 11, 40: 6, 45: 4}[size]
        close(gc.advantages(rewards, method, **options), whole, 1e-12)
        assert torch.equal(rewards.nan_to_num(9), kept.nan_to_num(9))


@METHODS
def test_a_batch_too_large_for_one_piece_gives_what_its_groups_give_alone(method):
    rewards, lengths = drawn(14, prompts=50_000, rollouts=8)
    rewards, options = torch.from_numpy(rewards), {"lengths": lengths, "convention": gc.VERL}
    assert rewards.numel() > core_batch._PIECE
    kept, a = rewards.clone(), gc.advantages(rewards, method, **options)
    by_id = gc.advantages(
        rewards.flatten(0, 1), method, groups=torch.arange(50_000).repeat_interleave(8),
        lengths=lengths.flatten(), convention=gc.VERL,
    )  # fmt: skip
    close(a.flatten(), by_id, 1e-12)
    assert torch.equal(rewards, kept)


# --- bad input -----------------------------------------------------------------------------------------------------

R = [[1, 0], [0, 1], [1, 1]]


@pytest.mark.parametrize("ids", (False, True), ids=("dense", "ids"))
@pytest.mark.parametrize("missing", (False, True), ids=("complete", "missing"))
@METHODS
@CONVENTIONS
def test_several_batches_at_once_give_what_each_gives_alone(convention, method, missing, ids):
    generator = torch.Generator().manual_seed(3)
    rewards = torch.rand(12, 4, 3, generator=generator, dtype=torch.float64).round(decimals=1)
    rewards[torch.rand(12, 4, 3, generator=generator) < 0.2 * missing] = torch.nan
    lengths = torch.randint(1, 30, (12, 4), generator=generator)
    batches = ["b"] * 3 + ["a"] * 4 + ["c"] * 5
    options = {"weights": [1, 0.5, 2], "convention": convention}
    parts = [slice(0, 3), slice(3, 7), slice(7, 12)]
    alone = [gc.advantages(rewards[part], method, lengths=lengths[part], **options) for part in parts]
    if ids:
        groups = torch.arange(12).repeat_interleave(4)
        rewards, lengths = rewards.reshape(48, 3), lengths.flatten()
        batch = core_batch.read(rewards, groups=groups, lengths=lengths, batches=batches, **options)
    else:
        batch = core_batch.read(rewards, lengths=lengths, batches=batches, **options)
    formula, batch = method_for(method, batch)
    for a in (formula(batch).advantages, formula.advantages(batch)):
        close(batch.zero_unrewarded(a).reshape(12, 4), torch.cat(alone), 1e-12)


def test_several_batches_have_an_id_a_group():
    with pytest.raises(gc.InputError, match="2 ids"):
        core_batch.read(torch.zeros(2, 3, 1), batches=[1, 2, 3])


@pytest.mark.parametrize("function", (gc.gdpo, gc.advantages, gc.explain, gc.collapse, gc.update_share))
@pytest.mark.parametrize("options", ({}, {"groups": [0, 0, 1]}), ids=("dense", "ids"))
def test_weighing_tokens_without_lengths_is_an_error(function, options):
    with pytest.raises(gc.InputError, match=r"^lengths: expected tokens .*verl.*, got none$"):
        function(R, convention=gc.VERL, **options)
    function(R, lengths=[4, 2, 1], convention=gc.VERL, **options)


@pytest.mark.parametrize("method", ("grpo", "grpo_no_std"))
def test_what_does_not_weigh_tokens_needs_no_lengths(method):
    for function in (gc.advantages, gc.explain, gc.collapse, gc.update_share):
        function(R, method, convention=gc.VERL)


@CONVENTIONS
def test_weights_may_be_negative(convention):
    options = {"lengths": [4, 2, 1], "convention": convention}
    for method in naive_frameworks.METHODS:
        a = gc.advantages(R, method, weights=[-1, -2], **options)
        close(a, -gc.advantages(R, method, weights=[1, 2], **options), 1e-12)


def test_leave_one_out_skips_nothing():
    with pytest.raises(gc.InputError, match="missing: expected propagates, with leave_one_out, got 'skipped'"):
        gc.Convention(name="mine", source="here", leave_one_out=True)
