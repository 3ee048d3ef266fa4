"""Advantages, compared with numbers worked by hand, known properties of the methods and a naive loop; and what every
entry refuses.
"""

from itertools import product
from math import inf, isnan, nan, sqrt

import naive
import numpy as np
import pytest
import torch
from helpers import check_refusal, check_refusals, close, f64, zeros
from hypothesis import given
from hypothesis import strategies as st

import gdpo_core as gc
from gdpo_core.numerics.batch import make_batch
from gdpo_core.registry import ALL_METHODS, method_for, undivided_terms

EACH_METHOD = pytest.mark.parametrize("method", naive.METHODS)
DTYPES = (torch.float32, torch.float64)
HALF = 1 / sqrt(2)


def before_batch_step(rewards, **options):
    return gc.explain(rewards, "gdpo", **options).weighted_sums


# --- worked by hand ------------------------------------------------------------------------------------------------


NOTHING, ONE, BOTH = [0, 0], [1, 0], [1, 1]
FIFTHS = sqrt(5 / 3)
BY_HAND = {  # mo_grpo: GDPO before the batch step
    "two rollouts": (("grpo", "gdpo", "mo_grpo"), [[0], [1]], {}, [-HALF, HALF]),
    "two rollouts, centred": (("grpo_no_std",), [[0], [1]], {}, [-0.5, 0.5]),
    "one pass of four": (("grpo", "mo_grpo"), [[1], [0], [0], [0]], {}, [1.5, -0.5, -0.5, -0.5]),
    "raw rewards weighed": (  # sums 3, 1, 0; mean 4/3; variance (25 + 1 + 16) / 9 / 2 = 7/3
        ("grpo",), [[1, 0], [0, 1], [0, 0]], {"weights": [3, 1]}, [x / 3 / sqrt(7 / 3) for x in (5, -1, -4)]
    ),
    "normalised rewards weighed": (("mo_grpo",), [[10, 0], [0, 1]], {"weights": [3, 1]}, [2 * HALF, -2 * HALF]),
    "figure 2 of the paper, GRPO": (("grpo",), [[NOTHING, ONE], [NOTHING, BOTH]], {}, [[-HALF, HALF]] * 2),
    "figure 2 of the paper, GDPO": (
        ("mo_grpo",), [[NOTHING, ONE], [NOTHING, BOTH], [ONE, BOTH]], {},
        [[-HALF, HALF], [-2 * HALF, 2 * HALF], [-HALF, HALF]]
    ),
    "two prompts, one batch step": (  # sums ±0.7071 and ±1.4142, their variance 5/3
        ("gdpo",), [[NOTHING, ONE], [NOTHING, BOTH]], {},
        [[-HALF / FIFTHS, HALF / FIFTHS], [-2 * HALF / FIFTHS, 2 * HALF / FIFTHS]]
    ),
    "one prompt alone, which undoes figure 2": (("gdpo",), [NOTHING, BOTH], {}, [-HALF, HALF]),
}  # fmt: skip


@pytest.mark.parametrize("methods, rewards, options, expected", BY_HAND.values(), ids=BY_HAND)
def test_worked_by_hand(methods, rewards, options, expected):
    for method in methods:
        close(gc.advantages(rewards, method, **options), expected)


# --- identities that hold exactly ----------------------------------------------------------------------------------


@pytest.mark.parametrize("rollouts", (2, 3))
@given(st.data())
def test_binary_rewards_of_2_or_3_rollouts_gdpo_is_a_constant_times_grpo_without_std(rollouts, data):
    prompts, rewards = data.draw(st.integers(1, 5)), data.draw(st.integers(1, 4))
    shape = (prompts, rollouts, rewards)
    bits = data.draw(st.lists(st.integers(0, 1), min_size=prompts * rollouts * rewards, max_size=1000))
    r = f64(bits[: prompts * rollouts * rewards]).reshape(shape)
    a, b = gc.gdpo(r), gc.grpo_no_std(r)
    close(before_batch_step(r), b / {2: HALF, 3: 1 / sqrt(3)}[rollouts], 1e-12)
    if b.any():
        close(a, b * (a.norm() / b.norm()), 1e-12)
    else:
        assert zeros(a)


@given(st.data())
def test_grpo_ties_101_with_011_and_gdpo_does_iff_the_counts_agree_or_add_up_to_the_group(data):
    others = data.draw(st.lists(st.sampled_from(list(product((0, 1), repeat=3))), max_size=7))
    rewards = f64([(1, 0, 1), (0, 1, 1), *others])
    G, k1, k2 = len(rewards), rewards[:, 0].sum().item(), rewards[:, 1].sum().item()
    grpo, s, a = gc.grpo(rewards), before_batch_step(rewards), gc.gdpo(rewards)
    assert grpo[0] == grpo[1]
    sigma1, sigma2 = (sqrt(k * (G - k) / (G * (G - 1))) for k in (k1, k2))
    close(s[0] - s[1], 1 / sigma1 - 1 / sigma2, 1e-12)
    assert (abs(a[0] - a[1]) < 1e-9) == (k1 == k2 or k1 + k2 == G)
    w1, w2 = data.draw(st.tuples(*[st.sampled_from((0.25, 1.0, 3.0))] * 2))
    weighted = before_batch_step(rewards, weights=[w1, w2, 1])
    close(weighted[0] - weighted[1], w1 / sigma1 - w2 / sigma2, 1e-12)


def test_three_rewards_of_constant_total_need_not_cancel():
    rewards = [[1, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]]
    assert zeros(gc.grpo(rewards)) and zeros(gc.grpo_no_std(rewards))
    low = 1.5 - 0.5 - sqrt(3) / 2  # It is about 0.134.
    close(before_batch_step(rewards), [-low, -low, low, low])


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("groups", (None, [0, 0, 0, 0]), ids=("dense", "ids"))
def test_a_difference_in_the_last_digit_of_one_reward_does_not_silence_another(dtype, groups):
    last_digit = 100 * (1 + torch.finfo(dtype).eps)
    rewards = torch.tensor([[100, 1], [last_digit, 0], [100, 0], [100, 1]], dtype=dtype)
    s = before_batch_step(rewards, groups=groups)
    z1, z2 = [-0.5, 1.5, -0.5, -0.5], [sqrt(3) / 2, -sqrt(3) / 2, -sqrt(3) / 2, sqrt(3) / 2]
    close(s, [x + y for x, y in zip(z1, z2, strict=True)], 1e-5)


@EACH_METHOD
@pytest.mark.parametrize(
    "dtype, size",
    ((torch.float64, 1e90), (torch.float64, 1e-90), (torch.float32, 1e25), (torch.float32, 1e-25),
     (torch.float16, 1e3)),
    ids=str,
)  # fmt: skip
def test_no_size_of_a_reward_silences_it(method, dtype, size):
    a = gc.advantages(torch.tensor([[size], [0], [0], [0]], dtype=dtype), method)
    expected = size if method == "grpo_no_std" else 1
    assert (a[0] / expected).item() == pytest.approx(0.75 if method == "grpo_no_std" else 1.5, rel=2e-3)


IDS = {
    "strings": ["b", "a", "b", "c", "a", "b"],
    "integers": [7, -1, 7, 2**40, -1, 7],
    "tuples": [("x", 1), ("x", 2), ("x", 1), None, ("x", 2), ("x", 1)],
    "a string": "babcab",
    "booleans and one more": [True, False, True, 2, False, True],
    "numpy uint64 hashes": np.array([2**64 - 1, 5, 2**64 - 1, 2**63, 5, 2**64 - 1], np.uint64),
    "numpy strings": np.array(["b", "a", "b", "c", "a", "b"]),
    "numpy objects": np.array(["b", 1, "b", None, 1, "b"], object),
    "numpy floats, from the end": np.array([0.5, 0.25, 1, 0.5, 0.25, 0.5])[::-1],
    "torch int32": torch.tensor([7, -1, 7, 3, -1, 7], dtype=torch.int32),
    "list of torch scalars": list(torch.tensor([7, -1, 7, 3, -1, 7])),
}


@pytest.mark.parametrize("ids", IDS.values(), ids=IDS.keys())
def test_group_ids_can_be_strings_integers_numpy_and_torch(ids):
    rows = f64([[1, 0], [0, 2], [0, 1], [5, 5], [3, 3], [2, 2]])
    close(gc.gdpo(rows, groups=ids), naive.compute(rows.tolist(), list("babcab"), "gdpo").advantages)


# --- ties and digits, whatever the processor ----------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("offset, convention", ((0, gc.TRL), (100, gc.VERL)), ids=("binary", "far from zero"))
def test_float32_keeps_its_digits_over_1_6_million_responses(offset, convention):
    n, generator = 1_600_000, torch.Generator().manual_seed(0)
    rows = torch.randint(0, 2, (n, 3), generator=generator).float() / (8 if offset else 1) + offset
    lengths = torch.randint(1, 2000, (n,), generator=generator)
    groups = torch.arange(n) % 3 if offset else torch.randperm(n, generator=generator) // 16
    options = {"weights": [1, 0.5, 2], "convention": convention, "groups": groups, "lengths": lengths}
    a, exact = (gc.gdpo(r, **options) for r in (rows, rows.double()))
    assert a.dtype == torch.float32 and (a - exact).abs().max() <= 4e-6


# --- inputs and outputs --------------------------------------------------------------------------------------------

ROWS = [[1, 0], [0, 1], [1, 1]]
NUMBERS = ("int8", "uint8", "int64", "bool", "float16", "float32", "float64")
KINDS = {
    "list of int": ROWS,
    "list of bool": [[True, False], [False, True], [True, True]],
    "list of float": [[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]],
    "tuples": ((1, 0), (0, 1), (1, 1)),
    "numpy, read-only": np.broadcast_to(np.array([[1.0, 0], [0, 1], [1, 1]]), (3, 2)),
    "numpy, from the end": np.array([[1.0, 1], [0, 1], [1, 0]])[::-1],
    "rows of numpy": [np.array([1.0, 0]), np.array([0, 1.0]), np.array([1.0, 1])],
    **{f"numpy {dtype}": np.array(ROWS, dtype) for dtype in NUMBERS},
    **{f"torch {dtype}": torch.tensor(ROWS).to(getattr(torch, dtype)) for dtype in (*NUMBERS, "bfloat16")},
}


@pytest.mark.parametrize("kind", KINDS)
def test_ints_and_bools_compute_in_float64_and_floats_in_their_own_dtype(kind):
    dtype = getattr(torch, kind.split()[-1]) if "float" in kind.split()[-1] and "list" not in kind else torch.float64
    for method, options in product(naive.METHODS, ({}, {"groups": [0, 0, 0]})):
        a = gc.advantages(KINDS[kind], method, **options)
        assert a.dtype == dtype
        close(a, naive.compute(ROWS, [0, 0, 0], method).advantages, 16 * torch.finfo(dtype).eps)


def test_python_floats_keep_their_double_precision():
    rows = [[0.1, 0.7], [0.3, 0.2]]
    expected = naive.compute(rows, [0, 0], "grpo_no_std", [0.3, 0.1]).advantages
    for rewards, weights in product((rows, f64(rows)), ([0.3, 0.1], (0.3, 0.1), np.array([0.3, 0.1]), f64([0.3, 0.1]))):
        close(gc.grpo_no_std(rewards, weights=weights), expected, 1e-15)


def test_grpo_batch_std_divides_by_the_std_of_all_sums():
    # The sums are 2, 0, 3, 3; their mean is 2, and the squared deviations are 0 + 4 + 1 + 1.
    rewards = [[[1, 1], [0, 0]], [[2, 1], [2, 1]]]
    expected = f64([[1, -1], [0, 0]]) / 2**0.5
    close(gc.advantages(rewards, "grpo_batch_std"), expected)
    e = gc.explain(rewards, "grpo_batch_std")
    close(e.advantages, expected)
    assert (e.batch_mean, e.batch_std, e.z) == (2.0, 2**0.5, None)
    assert gc.collapse(rewards, "grpo_batch_std").tied_pair_count == 0


# --- conditioning --------------------------------------------------------------------------------------------------


def test_condition_gates_one_reward_on_another():
    rewards = [[1, 5, 7], [0.5, 5, 7], [0, 5, 7], [2, 5, 7]]
    assert gc.condition(rewards)[:, 1].tolist() == [5, 0, 0, 5]
    assert gc.condition(rewards, threshold=0.5)[:, 1].tolist() == [5, 5, 0, 5]
    assert gc.condition(rewards, reward=-1, on=1, threshold=10**30)[:, 2].tolist() == [0, 0, 0, 0]
    assert gc.condition(rewards)[:, [0, 2]].tolist() == [[1, 7], [0.5, 7], [0, 7], [2, 7]]
    assert gc.condition([rewards, rewards]).shape == (2, 4, 3)


def test_condition_is_missing_where_the_gate_is_and_leaves_what_it_was_given():
    rewards = f64([[nan, 5], [1, nan], [0, nan], [1, 2]])
    out = gc.condition(rewards)
    assert [isnan(v) for v in out[:, 1].tolist()] == [True, True, False, False]
    out.zero_()
    assert rewards[3].tolist() == [1, 2] and gc.condition(rewards.float()).dtype == torch.float32


# --- bad input -----------------------------------------------------------------------------------------------------

R = [[1, 0], [0, 1], [1, 1]]
OTHER_ORDER = np.dtype(float).newbyteorder()
BAD = {
    # For each argument there are bad values, each with a part of what the error says came.
    "rewards": [
        (None, "NoneType"), ("abc", "str"), ([["a", "b"]], "list"), ([[1, 2], [1]], "list"), ([[1, None]], "NoneType"),
        ([[1j, 1]], "complex"), (np.array([["1"], ["2"]]), "numpy"), (3, "shape ()"), ([1, 2, 3], "shape (3,)"),
        (np.ones((1, 1, 1, 1)), "shape (1, 1, 1, 1)"), ([], "shape (0,)"), (np.ones((2, 0, 3)), "shape (2, 0, 3)"),
        ([[-inf, 1], [0, 1]], "infinite"), ([[2**70, 1], [0, 1]], f"list with int {2**70}"), (iter(R), "iterator"),
        (torch.tensor(R).float().to_sparse(), "sparse"), (np.array(R, OTHER_ORDER), "byte order"),
        (np.ma.array([[1.0, 0], [0, 1]], mask=[[1, 0], [0, 0]]), "mask"),
    ],
    "weights": [
        ([1], "shape (1,)"), ([], "shape (0,)"), (1.0, "shape ()"), ([[1, 2]], "shape (1, 2)"), ([1, nan], "nan"),
        ([1, -inf], "inf"), (["a", "b"], "list"), ([1j, 1], "complex"), ([None, 1], "NoneType"),
    ],
    "groups": [
        ([0, 0], "shape (2,)"), ([], "shape (0,)"), (3, "int"), ([[0], [0], [0]], "list"),
        (torch.zeros(3, 1), "shape (3, 1)"), ([{}, {}, {}], "dict"), ([nan, nan, 1], "NaN"),
        (np.array([0, 0, 1], OTHER_ORDER), "byte order"), (torch.tensor([0, 0, 1]).to_sparse(), "sparse"),
    ],
    "lengths": [
        ([1, 2], "shape (2,)"), ([[1, 2, 3]], "shape (1, 3)"), (5, "shape ()"), ([0, 1, 2], "0"), ([-4, 1, 2], "-4"),
        ([0.5, 1, 1], "0.5"), ([1e300, 1, 1], "1e+300"), ([nan, 1, 2], "nan"), (["a", "b", "c"], "list"),
        ([1, None, 2], "None"),
    ],
    "convention": [(None, "None"), ("paper", "'paper'"), (gc.Convention, "Convention")],
    "method": [(None, "None"), ("GRPO", "'GRPO'"), (["gdpo"], "['gdpo']"), (gc.gdpo, "function")],
}  # fmt: skip

# These are all public functions that take these arguments; advantages is tried with every value.
WITH_METHOD = (gc.advantages, gc.explain, gc.collapse, gc.update_share, gc.push)
ENTRIES = (*WITH_METHOD, gc.grpo, gc.grpo_no_std, gc.gdpo)


@pytest.mark.parametrize("function", ENTRIES, ids=lambda f: f.__name__)
def test_bad_input_is_named_with_what_was_expected_and_what_came(subtests, function):
    for argument, cases in BAD.items():
        if argument != "method" or function in WITH_METHOD:
            for value, came in cases if function is gc.advantages else cases[:1]:
                with subtests.test(argument=argument, value=repr(value)[:60]):
                    check_refusal(function, {"rewards": R, argument: value}, argument, came)


def test_lengths_have_the_shape_of_the_responses_also_where_they_weigh_nothing_and_groups_take_two_dimensions(subtests):
    for groups, convention in product((None, [0, 0, 1]), (gc.VERL, gc.PAPER)):
        options = {"rewards": R, "groups": groups, "convention": convention}
        gc.gdpo(**options, lengths=torch.tensor([1, 2, 3]))
        check_refusals(subtests, gc.gdpo, options, {"lengths": [value for value, _ in BAD["lengths"][::5]]})
    gc.gdpo([R, R], lengths=[[1, 2, 3]] * 2)
    check_refusal(gc.gdpo, {"rewards": [R, R], "lengths": [1, 2, 3]}, "lengths", "shape (3,)")
    check_refusal(gc.gdpo, {"rewards": [R], "groups": [0, 0, 0]}, "rewards", "shape (1, 3, 2)")


def test_condition_names_what_it_cannot_use(subtests):
    bad = {"reward": (2, -3, "a", None, 1.0, True), "on": (2, [0], 1, -1), "threshold": (nan, "1", None, 10**400)}
    check_refusals(subtests, gc.condition, {"rewards": R}, bad, shown=True)
    check_refusal(gc.condition, {"rewards": R, "reward": 0}, "on", "0")  # A reward cannot be conditioned on itself.
    check_refusal(gc.condition, {"rewards": [1, 2]}, "rewards", "shape (2,)")


# --- the terms that are added up -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ALL_METHODS)
def test_the_terms_of_a_method_are_rewards_minus_the_means_that_it_subtracts(name):
    """The means are those of the groups or, where a method says that it centres no groups, that of the batch."""
    rewards = np.random.default_rng(5).integers(0, 4, (6, 5, 3)).astype(float)
    weights = [2.0, 0.5, -1.0]
    formula, batch = method_for(name, make_batch(torch.tensor(rewards), weights=weights))
    assert formula(batch).in_groups == formula.centres_groups == (name != "reinforce_pp")
    if formula.decoupled:
        with pytest.raises(
            gc.InputError, match="method: expected one that adds up the rewards themselves, got one that"
        ):
            undivided_terms(formula, batch)
        return
    terms = undivided_terms(formula, batch).numpy()
    means = rewards.mean(1, keepdims=True) if formula.centres_groups else rewards.mean((0, 1), keepdims=True)
    assert np.moveaxis(terms, 0, -1) == pytest.approx(rewards - means, abs=1e-12)
    # The advantages are the weighted sum of the terms, each group divided by something of its own.
    a, s = gc.advantages(rewards, name, weights=weights).numpy(), np.tensordot(weights, terms, 1)
    assert (
        np.abs(a * np.linalg.norm(s, axis=1, keepdims=True) - s * np.linalg.norm(a, axis=1, keepdims=True)).max() < 1e-9
    )


def test_a_method_that_is_not_known_has_no_terms():
    with pytest.raises(gc.InputError, match=r"method: expected one of grpo, .*, got 'ppo'"):
        method_for("ppo", make_batch(R))


# --- offsets and round-off -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("dtype", "weight"), [(torch.float32, 1e-7), (torch.float64, 1e-15)])
def test_a_large_weight_on_a_dead_reward_hides_nothing(dtype, weight):
    a = gc.gdpo(torch.tensor([[1, 0], [1, 1]], dtype=dtype), weights=[1, weight])
    assert a.tolist() == pytest.approx([-(0.5**0.5), 0.5**0.5], rel=1e-6)
