"""The conventions, compared with what the frameworks returned, with the same formulas in plain Python, and with numbers
by hand.
"""

from dataclasses import FrozenInstanceError, fields
from itertools import product
from math import inf, nan, sqrt
from pathlib import Path

import naive
import numpy as np
import pytest
import torch
from helpers import check_refusal, check_refusals, close, f64, zeros
from hypothesis import example, given
from hypothesis import strategies as st

import gdpo_core as gc
from conformance import reference
from gdpo_core.frameworks import ALL_CONVENTIONS
from gdpo_core.numerics.batch import make_batch
from gdpo_core.registry import method_for

CONVENTIONS = pytest.mark.parametrize("convention", gc.CONVENTIONS.values(), ids=gc.CONVENTIONS)
HALF = 1 / sqrt(2)


# --- the conventions -----------------------------------------------------------------------------------------------


SEVEN = ["paper", "trl", "verl", "ms_swift", "nemo_rl", "nemo_rl_loo", "axolotl_async"]


def test_seven_conventions_can_be_chosen_and_two_that_logs_show_are_exported_too():
    assert list(gc.CONVENTIONS) == SEVEN
    for key in (*SEVEN, "nvlabs_trl", "axolotl_streaming"):
        assert getattr(gc, key.upper()) is ALL_CONVENTIONS[key] and key.upper() in gc.__all__
    assert len({c.name for c in ALL_CONVENTIONS.values() if c.source}) == len(ALL_CONVENTIONS)
    with pytest.raises(FrozenInstanceError):
        gc.TRL.ddof = 0


BAD_FIELDS = {
    "ddof": (2, -1, 1.0, None, True),
    **dict.fromkeys(
        ("group_eps", "grpo_eps", "batch_eps"), (-1e-9, nan, inf, np.float32(inf), "1e-4", 1j, True, 10**400)
    ),
    "batch_eps_to": ("mean", None),
    "last_step": ("batch", None),
    "missing": ("zero", None),
    "group_of_one": ("one", nan),
}


def test_a_field_that_cannot_be_used_is_named_with_what_was_expected_and_what_came(subtests):
    options = {"name": "other", "source": "here"}
    for field in fields(gc.Convention):
        bad = {field.name: (*BAD_FIELDS.get(field.name, (0.5, 3)), [None], {})}
        check_refusals(subtests, gc.Convention, options, bad, shown=True)
    check_refusal(gc.Convention, options | {"leave_one_out": True}, "missing", "'skipped'")


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
VERL = {path.stem: np.load(path) for path in sorted((GOLDENS / "verl").glob("*.npz"))}  # its own cases, once more
OUTPUTS = [key for key in RECORDED if key.split("|")[2] in NAMES]
VERL_OUTPUTS = [
    f"{output}|{case}|verl"
    for case, output in product(VERL, ("grpo", "grpo_vectorized", "gdpo"))
    # norm_adv_by_std=False reaches into verl's GDPO, where it leaves no method that has a name here.
    if (case, output) != ("continuous_no_std", "gdpo")
]
# float32 is too coarse here: what the frameworks return is their own round-off, divided by itself.
ROUND_OFF = {
    *(f"{method}|offset_100_sd_1e-3|{name}" for method in ("grpo", "gdpo") for name in NAMES),
    *(f"grpo|all_const_0.1|{name}" for name in NAMES if name != "nemo-HEAD(loo=F)"),
    "gdpo|all_const_0.1|verl-0.9.1",
    "gdpo|all_const_0.1|nemo-HEAD(loo=T)",
    "gdpo|const_0.1_and_1/3|nemo-HEAD(loo=T)",
    *(f"{output}|all_constant_batch|verl" for output in ("grpo", "grpo_vectorized")),
    *(f"{output}|large_offset|verl" for output in ("grpo", "grpo_vectorized", "gdpo")),
    "gdpo|constant_groups|verl",
}


TRAINERS = {  # what each does otherwise than the paper, as arguments of the reference
    "trl": {"group_eps": 1e-4, "batch_eps": 1e-4},
    "nvlabs_trl": {"group_eps": 1e-4, "batch_eps": 1e-4, "empty_counts": True},
    "ms_swift": {"group_eps": 1e-8, "grpo_eps": 1e-4, "batch_eps": 1e-8, "empty_counts": True},
    "nemo_rl": {"group_eps": 1e-6, "missing": "propagates"},
    "nemo_rl_loo": {"group_eps": 1e-6, "missing": "propagates", "leave_one_out": True},
    "axolotl_async": {"group_eps": 1e-4, "batch_eps": 1e-4, "empty_counts": True},
    "axolotl_streaming": {"group_eps": 1e-4, "batch_eps": 1e-4, "empty_counts": True, "last_step": "group"},
    "verl": {"group_eps": 1e-6, "batch_eps": 1e-8, "batch_eps_to": "variance", "last_step": "tokens"}
    | {"missing": "propagates", "group_of_one": "raw"},
}


def exactly(framework, method, rows, ids, weights, lengths):
    """Return what a trainer's formula gives in plain Python, with what the reference has no argument for done here."""
    rows, ids = np.array(rows, float), list(ids)
    # One reward alone takes GRPO's path; beside others, a missing reward is 0.
    if framework == "nvlabs_trl" and method == "gdpo":
        method, rows = ("grpo", rows) if rows.shape[1] == 1 else (method, np.nan_to_num(rows))
    weights = [1.0] * rows.shape[1] if weights is None else weights
    a = reference.advantages(rows.tolist(), ids, weights, lengths, method=method, **TRAINERS[framework])
    if framework == "axolotl_streaming" and method == "gdpo":  # The std of one response is NaN.
        return [nan if ids.count(id) == 1 else value for id, value in zip(ids, a, strict=True)]
    return a


def recorded(key):
    """Return a recording by its key: the method, the framework, the rewards, the other arguments but the convention,
    and what the framework returned.
    """
    method, scenario, name = key.split("|")
    if name == "verl":
        z = VERL[scenario]
        rewards, w, uid, lengths, expected = (z[x] for x in ("rewards", "weights", "uid", "lengths", method))
        method = "gdpo" if method == "gdpo" else "grpo" if z["norm_adv_by_std"] else "grpo_no_std"
    else:
        rewards, w, uid, lengths = (RECORDED[f"{method}|{scenario}|{x}"] for x in ("inputs", "w", "uid", "L"))
        expected, name = RECORDED[key], NAMES[name]
        if "swift-dynamic" in key and method == "gdpo":
            # This trainer serves turns that are scored one by one. It does not know gdpo, and only centres.
            method = "grpo_no_std"
    options = {"groups": uid, "weights": w.astype(np.float64), "lengths": lengths}
    return method, name, rewards.astype(np.float64), options, expected


def allowed(key):
    return 2e-5 if "nemo" in key else 2e-6  # NeMo-RL computes the variance as a difference of squares.


def off_by(a, b):
    a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
    assert np.array_equal(np.isnan(a), np.isnan(b))
    return np.nan_to_num(np.abs(a - b)).max()


@pytest.mark.parametrize("name", [*NAMES, "verl"])
def test_a_recorded_output_is_reproduced(subtests, name):
    for key in (key for key in (*OUTPUTS, *VERL_OUTPUTS) if key.endswith(f"|{name}")):
        with subtests.test(key):
            method, framework, rewards, options, expected = recorded(key)
            a = gc.advantages(rewards, method, convention=ALL_CONVENTIONS[framework], **options)
            if key in ROUND_OFF:
                exact = exactly(framework, method, rewards, *options.values())
                close(a, exact)
                assert off_by(exact, expected) > allowed(key)
            else:
                assert off_by(a, expected) <= allowed(key)


# --- the same formulas in plain Python, on any batch -----------------------------------------------------------


ANY = st.booleans().flatmap(lambda missing: naive.batches(missing=missing))
TOKENS = st.lists(st.integers(2, 64), min_size=35, max_size=35)


EDGES = {  # which chance hardly finds: rows, ids, weights
    "one reward, missing": ([[1], [0], [nan], [3], [nan], [nan]], [0, 0, 0, 1, 1, 1], None),
    "groups of one, missing": ([[1, nan], [nan, nan], [-2, 1]], [0, 1, 2], None),
    "a group of one beside others": ([[5, 1], [1, 0], [0, 3], [2, 1]], ["a", "b", "b", "b"], None),
    "one response": ([[2, 3]], [0], None),
    "one response, nothing there": ([[nan, nan]], [0], None),
    "a row without rewards": ([[1, 2], [nan, nan], [0, 5], [1, 9], [1, 1], [0, 0]], [0, 0, 0, 0, 1, 1], None),
    "nothing there at all": ([[nan, nan]] * 4, [0, 0, 1, 1], None),
    "a row with only that value": ([[1, nan], [nan, 7], [0, nan], [1, 1], [0, 0]], [0, 0, 0, 1, 1], None),
    "a weight of 0 on a missing reward": ([[1, nan], [0, 1], [1, 2], [1, 1], [0, 3]], [0, 0, 0, 1, 1], [1, 0]),
}


def on_edges(test):
    """Return a test of a property that tries the edge cases too."""
    for rows, ids, weights in EDGES.values():
        test = example(naive.Batch(rows, ids, weights), [3, 5, 2, 40, 7, 11])(test)
    return test


@pytest.mark.slow
@pytest.mark.parametrize("framework", TRAINERS)
@on_edges
@given(ANY, TOKENS)
def test_every_method_agrees_with_plain_python_on_any_batch(framework, batch, tokens):
    lengths = tokens[: len(batch.rows)]
    weights = None if batch.weights is None else f64(batch.weights)
    for method in naive.METHODS:
        expected = exactly(framework, method, batch.rows, batch.ids, batch.weights, lengths)
        options = {"weights": weights, "lengths": lengths, "convention": ALL_CONVENTIONS[framework]}
        a = gc.advantages(f64(batch.rows), method, groups=batch.ids, **options)
        assert a.dtype == torch.float64
        close(a, expected)


# --- worked by hand ------------------------------------------------------------------------------------------------


def test_verl_gives_a_dead_group_of_long_wrong_answers_a_positive_advantage():
    # One group has a right answer of 1 token and a wrong one of 20; the other has two wrong ones of 20. That makes 61
    # tokens. z = h, −h, 0, 0 with h = 0.5 / (√½ + 1e-6). Their mean over tokens is h (1 − 20) / 61 = −19/61 h, so they
    # stand 80/61, −42/61, 19/61, 19/61 h away from it. The squares over tokens are (6400 + 20 · 1764 + 40 · 361) / 61²
    # h² = 56120 / 3721 h², over 60. So a wrong answer that was compared with nothing gets 19/61 h / 0.3545 = +0.62.
    rewards, h = [[[1], [0]], [[0], [0]]], 0.5 / (HALF + 1e-6)
    std = sqrt(56120 / 3721 / 60 * h**2 + 1e-8)
    a = gc.gdpo(rewards, lengths=[[1, 20], [20, 20]], convention=gc.VERL)
    close(a, [[80 / 61 * h / std, -42 / 61 * h / std], [19 / 61 * h / std] * 2])
    assert a[1, 0].item() == pytest.approx(0.6213, abs=1e-4)
    for lengths in ([[1, 1], [1, 1]], [[20, 20], [20, 20]]):
        assert zeros(gc.gdpo(rewards, lengths=lengths, convention=gc.VERL)[1])


BY_HAND = {
    "the difference of two, where one is left out": (
        gc.NEMO_RL_LOO, "grpo", {"rewards": [[3, 0.5], [1, 1]], "weights": [1, 2]}, [1, -1]
    ),
    "what the others have on average taken off, and nothing else of them": (
        ALL_CONVENTIONS["trl_rloo"], "grpo_no_std", {"rewards": [[3, 0], [1, 0], [1, 1]]}, [1.5, -1.5, 0]
    ),
    "another eps in GDPO": (
        gc.MS_SWIFT, "mo_grpo", {"rewards": [[2], [0]]}, [1 / (2 * HALF + 1e-8), -1 / (2 * HALF + 1e-8)]
    ),
    "GRPO for one reward": (
        gc.NVLABS_TRL, "gdpo", {"rewards": [[1], [nan], [0], [0]]}, [0.75 / 0.5001, *[-0.25 / 0.5001] * 3]
    ),
}  # fmt: skip


@pytest.mark.parametrize("convention, method, options, expected", BY_HAND.values(), ids=BY_HAND)
def test_a_convention_has(convention, method, options, expected):
    close(gc.advantages(method=method, convention=convention, **options), expected, 1e-12)


# --- bad input -----------------------------------------------------------------------------------------------------

R = [[1, 0], [0, 1], [1, 1]]


@pytest.mark.parametrize("function", (gc.gdpo, gc.advantages, gc.explain, gc.collapse, gc.update_share, gc.push))
@pytest.mark.parametrize("options", ({}, {"groups": [0, 0, 1]}), ids=("dense", "ids"))
def test_weighing_tokens_without_lengths_is_an_error(function, options):
    with pytest.raises(gc.InputError, match=r"^lengths: expected tokens .*verl.*, got none$"):
        function(R, convention=gc.VERL, **options)
    function(R, lengths=[4, 2, 1], convention=gc.VERL, **options)
    for method in ("grpo", "grpo_no_std"):  # These methods weigh no tokens.
        gc.advantages(R, method, convention=gc.VERL, **options)


# --- several batches at once, as the audit of a log reads them -------------------------------------------------------


@pytest.mark.parametrize("missing", (False, True), ids=("complete", "missing"))
@CONVENTIONS
def test_several_batches_at_once_give_what_each_gives_alone(convention, missing):
    generator = torch.Generator().manual_seed(3)
    rewards = torch.randint(0, 4, (12, 4, 3), generator=generator).double()
    lengths = torch.randint(2, 65, (12, 4), generator=generator)
    if missing:
        rewards[torch.rand(rewards.shape, generator=generator) < 0.2] = nan
        rewards[0, 1], rewards[1, :, 1], rewards[2, 1:, 2] = nan, nan, nan
    options, batches = {"weights": [1, 0.5, 2], "convention": convention}, [*"bbbaaaaccccc"]
    parts, groups = [slice(0, 3), slice(3, 7), slice(7, 12)], torch.arange(12).repeat_interleave(4)
    dense = make_batch(rewards, lengths=lengths, batches=batches, **options)
    by_id = make_batch(rewards.flatten(0, 1), lengths=lengths.flatten(), groups=groups, batches=batches, **options)
    for method in (*naive.METHODS, "grpo_batch_std", "reinforce_pp_baseline", "reinforce_pp", "max_rl"):
        alone = [gc.advantages(rewards[part], method, lengths=lengths[part], **options) for part in parts]
        for batch in (dense, by_id):
            formula, prepared = method_for(method, batch)
            for a in (formula(prepared).advantages, formula.advantages(prepared)):
                close(prepared.zero_unrewarded(a).reshape(12, 4), torch.cat(alone), 1e-12)


def test_a_refused_id_of_a_batch_is_named_as_such_and_counted_by_group():
    wrong = ([1, 2, 3], "2 ids, one per group, got shape (3,)"), (5, "int"), ([1, nan], "NaN"), ([{}, 1], "dict")
    for batches, got in (*wrong, (f64([1, nan]), "NaN")):
        check_refusal(make_batch, {"rewards": torch.zeros(2, 3, 1), "batches": batches}, "batches", got)
