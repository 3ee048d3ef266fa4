"""Configurations that `gdpo check` says TRL refuses, given to TRL itself; `make parity-trainer` runs it."""

import pytest

import gdpo_core as gc

trl = pytest.importorskip("trl")
asynchronous = pytest.importorskip("trl.experimental.async_grpo.async_grpo_config")
CLASSES = {"GRPOConfig": trl.GRPOConfig, "AsyncGRPOConfig": asynchronous.AsyncGRPOConfig}


@pytest.mark.parametrize(
    ("name", "arguments", "trap"),
    [
        ("GRPOConfig", {"apply_gdpo": True}, "trl-apply-gdpo"),
        ("GRPOConfig", {"num_generations": 1}, "trl-one-answer"),
        ("GRPOConfig", {"num_generations": 12, "generation_batch_size": 32}, "trl-broken-groups"),
        ("AsyncGRPOConfig", {"reward_weights": [1, 1]}, "trl-weights-refused"),
        ("AsyncGRPOConfig", {"multi_objective_aggregation": "normalize_then_sum"}, "trl-async-has-no-gdpo"),
        ("GRPOConfig", {"num_generations": 12, "per_device_train_batch_size": 12}, None),
        ("GRPOConfig", {"scale_rewards": "gdpo"}, None),  # refused later, where the advantages are computed
    ],
)
def test_what_will_not_start_is_refused_by_the_configuration_itself(name, arguments, trap, tmp_path):
    given = ", ".join(f"{key}={value!r}" for key, value in arguments.items())
    check = gc.check_config({"a.py": f"from trl import {name}\n{name}({given})\n"})
    assert check.headline.startswith("Will not start") == (trap is not None)
    options = {"output_dir": str(tmp_path), "use_cpu": True, "bf16": False} | arguments
    if trap is None:
        CLASSES[name](**options)
        return
    assert trap in {one.id for one in check.traps}
    with pytest.raises((TypeError, ValueError)):
        CLASSES[name](**options)
