"""`gdpo check` against the trainers' own code: for every combination of the options that choose a method, the method
and convention that the check names give the advantages that the trainer computes.

What the trainers compute stands in tests/goldens/outcomes.json. `python -m tests.parity.outcomes` writes it, and `make
parity` compares it with the trainers anew.
"""

import json
from pathlib import Path

import pytest
import torch

import gdpo_core as gc
from gdpo_core.frameworks import ALL_CONVENTIONS

TABLE = json.loads((Path(__file__).parent / "goldens/outcomes.json").read_text())
REWARDS = torch.tensor(TABLE["rewards"], dtype=torch.float64).unflatten(0, (-1, TABLE["group"]))
NAMES = ["a", "b", "c"]


def text_of(trainer, chosen):
    """Return the name and the text of a configuration. chosen: its options by name."""
    if trainer == "trl":
        options = "".join(f"{key}={value!r}, " for key, value in chosen.items())
        return "a.py", (
            "from trl import GRPOConfig, GRPOTrainer\n"
            f"config = GRPOConfig({options}reward_weights={TABLE['weights']})\n"
            f"GRPOTrainer(model='m', reward_funcs=[{', '.join(NAMES)}], args=config)\n"
        )
    if trainer == "ms_swift":
        options = " ".join(f"--{key} {value}" for key, value in chosen.items())
        weights = " ".join(map(str, TABLE["weights"]))
        return (
            "a.sh",
            f"swift rlhf --rlhf_type grpo --reward_funcs {' '.join(NAMES)} --reward_weights {weights} {options}",
        )
    if trainer == "axolotl":
        below = {key.removeprefix("trl."): value for key, value in chosen.items() if key != "rl"}
        below |= {"reward_funcs": NAMES, "reward_weights": TABLE["weights"]}
        return "a.yaml", f"base_model: m\nrl: {chosen['rl']}\ntrl: {json.dumps(below)}\n"
    options = " ".join(f"{key}={value}" for key, value in chosen.items())
    keys = f"+algorithm.gdpo_reward_keys=[{','.join(NAMES)}] +algorithm.gdpo_reward_weights={TABLE['weights']}"
    return "a.sh", f"python3 -m verl.trainer.main_ppo trainer.use_v1=False {options} {keys.replace(', ', ',')}\n"


@pytest.mark.parametrize("trainer", TABLE["trainers"])
def test_every_combination_is_named_by_what_it_computes(trainer, subtests):
    table = TABLE["trainers"][trainer]
    for chosen, index in table["combinations"]:
        name, text = text_of(trainer, chosen)
        check = gc.check_config({name: text})
        with subtests.test(f"{chosen}"):
            if index is None:
                assert check.worst == "error"
                continue
            assert check.method is not None, check
            theirs = torch.tensor(table["outcomes"][index], dtype=torch.float64)
            ours = gc.advantages(
                REWARDS,
                check.method,
                weights=TABLE["weights"],
                lengths=torch.ones(REWARDS.shape[:2], dtype=torch.long),
                convention=ALL_CONVENTIONS[check.convention or "paper"],
            )
            assert torch.allclose(ours.flatten(), theirs, rtol=0, atol=2e-5), (check.method, check.convention)


def test_the_rows_tell_the_methods_apart():
    for table in TABLE["trainers"].values():
        found = torch.tensor(table["outcomes"], dtype=torch.float64)
        apart = (found[:, None] - found[None]).abs().amax(-1) + torch.eye(len(found))
        assert len(found) > 2 and apart.min() > 1e-3
