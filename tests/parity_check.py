"""Check traps of `gdpo check` against the trainers' own code: what a trap says will happen does happen. `make parity`
runs it.

Each test has a configuration with the trap, and gives the same values to the trainer's own function or validator.
"""

import ast
import json
from types import SimpleNamespace

import numpy as np
import pytest
import torch

import gdpo_core as gc
from tests.parity.code import _run, aggregation_block, distribution, functions
from tests.parity.frameworks import load
from tests.parity.outcomes import FILE, OPTIONS, outcomes_of

REWARDS = torch.tensor(np.random.default_rng(3).integers(0, 3, (12, 2)).astype(np.float32))
WEIGHTS, SIZE, LENGTHS = torch.tensor([1.0, 0.5]), 4, torch.arange(12) % 5 + 2


def held(text, name):
    """Return the ids of the traps in a configuration. name: of its file."""
    return {trap.id for trap in gc.check_config({name: text}).traps}


@pytest.fixture
def verl():
    """Return a function that runs verl's GDPO on arguments which `change` may have altered."""
    framework = load("verl")
    if framework is None:
        pytest.skip("verl is not installed")
    gdpo = framework.methods["gdpo"]

    def advantages(change=lambda scores, options: None):
        scores, mask, uid, options = gdpo.prepare(REWARDS, WEIGHTS, SIZE, LENGTHS)
        change(scores, options)
        return gdpo.read(gdpo.call(scores, mask, uid, options))

    return advantages


VERL = (
    "python3 -m verl.trainer.main_ppo algorithm.adv_estimator=gdpo trainer.use_v1=False "
    "+algorithm.gdpo_reward_keys=[a,b] "
)


def test_verl_drops_a_surplus_weight_and_stops_at_one_too_few(verl):
    def given(weights):
        return verl(lambda scores, options: options["config"].update(gdpo_reward_weights=weights))

    assert "verl-surplus-weights" in held(VERL + "algorithm.gdpo_reward_weights=[1,0.5,7]", "a.sh")
    assert torch.equal(given([1.0, 0.5, 7.0]), given([1.0, 0.5]))
    assert "verl-too-few-weights" in held(VERL + "algorithm.gdpo_reward_weights=[1]", "a.sh")
    with pytest.raises(IndexError):
        given([1.0])


def test_verl_stops_without_keys(verl):
    assert "verl-no-keys" in held(VERL.replace("+algorithm.gdpo_reward_keys=[a,b]", ""), "a.sh")
    with pytest.raises(AssertionError, match="gdpo_reward_keys"):
        verl(lambda scores, options: options["config"].pop("gdpo_reward_keys"))


def test_verl_reads_no_kl_that_was_taken_off_the_rewards(verl):
    assert "verl-kl-vanishes" in held(VERL + "algorithm.use_kl_in_reward=True", "a.sh")
    assert torch.equal(verl(lambda scores, options: scores.sub_(0.3)), verl())


@pytest.mark.parametrize(
    ("trap", "estimator"), [("swift-reinforce-plus-plus", "reinforce_plus_plus"), ("swift-rloo-unread", "rloo")]
)
def test_ms_swift_centres_the_sum_or_forgets_the_estimator(trap, estimator):
    package = distribution("ms_swift")
    if package is None:
        pytest.skip("ms-swift is not installed")
    known = functions(package.locate_file("swift/utils/torch_utils.py"), "nanstd", known={})
    file = package.locate_file("swift/rl_core/advantage.py")
    compute = functions(file, "compute_advantages", known=known)["compute_advantages"]
    options = f"--rlhf_type grpo --scale_rewards gdpo --reward_funcs a b --advantage_estimator {estimator}"
    assert trap in held(f"swift rlhf {options}", "a.sh")
    found = compute(REWARDS, WEIGHTS, SIZE, estimator, "gdpo")[0]
    if estimator == "rloo":
        assert torch.equal(found, compute(REWARDS, WEIGHTS, SIZE, "grpo", "gdpo")[0])
    else:
        sums = (REWARDS * WEIGHTS).sum(1).view(-1, SIZE)
        assert torch.allclose(found, (sums - sums.mean(1, keepdim=True)).flatten())


def test_trl_reads_no_scale_under_normalize_then_sum():
    package = distribution("trl")
    if package is None:
        pytest.skip("TRL is not installed")
    config = "GRPOConfig(multi_objective_aggregation='normalize_then_sum', scale_rewards='none')"
    assert "trl-scale-unread" in held(config, "a.py")
    arguments = ("self", "rewards_per_func", "num_generations", "device")
    known = functions(package.locate_file("trl/trainer/utils.py"), "nanstd", known={})
    block = aggregation_block(package.locate_file("trl/trainer/grpo_trainer.py"), arguments, known=known)

    def under(scale):
        how = {"multi_objective_aggregation": "normalize_then_sum", "reward_weights": WEIGHTS, "reward_funcs": range(2)}
        return block(SimpleNamespace(scale_rewards=scale, **how), REWARDS, SIZE, REWARDS.device)

    assert torch.equal(under("none"), under("group"))


@pytest.mark.parametrize(
    ("trap", "validator", "config"),
    [
        (
            "axolotl-two-methods",
            "check_gdpo",
            {"rl": "gdpo", "trl": {"multi_objective_aggregation": "sum_then_normalize"}},
        ),
        (
            "axolotl-context-parallel-deepspeed",
            "check_context_parallel_deepspeed",
            {"rl": "gdpo", "context_parallel_size": 2, "deepspeed": "zero3.json"},
        ),
    ],
)
def test_axolotl_refuses_it_itself(trap, validator, config):
    package = distribution("axolotl")
    if package is None:
        pytest.skip("axolotl is not installed")
    file = package.locate_file("axolotl/utils/schemas/validation.py")
    nodes = ast.walk(ast.parse(file.read_text()))
    found = [node for node in nodes if isinstance(node, ast.FunctionDef) and node.name == validator]
    assert trap in held("base_model: m\n" + "\n".join(f"{key}: {value}" for key, value in config.items()), "a.yaml")
    if not found:
        pytest.skip(f"axolotl {package.version} has no {validator}")
    found[0].decorator_list = []
    validate = _run(found[:1], file, {})[validator]
    given = (None, config) if validator == "check_gdpo" else (SimpleNamespace(**config, use_glm_dsa_kernels=False),)
    with pytest.raises(ValueError, match=r"gdpo|GDPO"):
        validate(*given)


@pytest.mark.parametrize("trainer", OPTIONS)
def test_every_combination_of_options_gives_the_recorded_advantages(trainer):
    if distribution(trainer) is None:
        pytest.skip(f"{trainer} is not installed")
    recorded, found = json.loads(FILE.read_text())["trainers"][trainer], outcomes_of(trainer)
    assert [chosen for chosen, _ in found["combinations"]] == [chosen for chosen, _ in recorded["combinations"]]
    for (chosen, i), (_, j) in zip(found["combinations"], recorded["combinations"], strict=True):
        assert (i is None) == (j is None), chosen
        assert i is None or np.allclose(found["outcomes"][i], recorded["outcomes"][j], rtol=0, atol=2e-5), chosen
