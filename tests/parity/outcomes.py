"""Run the trainers' own code under every combination of the options that choose a method: `python -m
tests.parity.outcomes` writes the advantages to tests/goldens/outcomes.json, which tests/test_outcomes.py compares with
what `gdpo check` says of each combination.
"""

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from itertools import product
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import torch
from torch import Tensor

from tests.parity.code import aggregation_block, assignment, default_of, distribution, functions, method
from tests.parity.frameworks import AXOLOTL_TRAINER, _nanstd, load, verl_estimators

FILE = Path(__file__).parents[1] / "goldens/outcomes.json"
GROUP = 4
REWARDS = torch.tensor(np.random.default_rng(7).integers(0, 4, (12, 3)).astype(np.float64))
WEIGHTS = torch.tensor([1.0, 0.5, 2.0], dtype=torch.float64)
UNSET = None  # the option is not given
Outcome = Tensor | None  # advantages, (responses,); None where the trainer refuses the combination

OPTIONS: dict[str, dict[str, list]] = {
    "trl": {
        "multi_objective_aggregation": [UNSET, "sum_then_normalize", "normalize_then_sum"],
        "scale_rewards": [UNSET, "group", "batch", "none", True, False, "gdpo"],
    },
    "ms_swift": {
        "advantage_estimator": [UNSET, "grpo", "rloo", "reinforce_plus_plus"],
        "scale_rewards": [UNSET, "group", "batch", "none", "gdpo"],
        "loss_type": [UNSET, "grpo", "bnpo", "dr_grpo", "dapo", "cispo", "sapo", "fipo", "real"],
    },
    "axolotl": {
        "rl": ["grpo", "gdpo"],
        "trl.multi_objective_aggregation": [UNSET, "sum_then_normalize", "normalize_then_sum"],
        "trl.scale_rewards": [UNSET, True, False, "batch"],
        "trl.use_data_producer": [UNSET, True],
        "trl.async_prefetch": [UNSET, True],
        "trl.streaming_partial_batch": [UNSET, True],
    },
    "verl": {
        "algorithm.adv_estimator": ["grpo", "grpo_vectorized", "gdpo"],
        "algorithm.norm_adv_by_std_in_grpo": [UNSET, True, False],
    },
}


def combinations(trainer: str) -> list[dict]:
    """Return every combination of a trainer's options, a dict with the options that are given."""
    named = [[(name, value) for value in values] for name, values in OPTIONS[trainer].items()]
    return [{name: value for name, value in chosen if value is not UNSET} for chosen in product(*named)]


def _trl() -> Callable[[Mapping], Outcome]:
    """Return the function from a combination to what TRL computes, by its own defaults, its `__post_init__` and its
    trainer's block.
    """
    trl = distribution("trl").locate_file("trl/trainer")
    known = {name: default_of(trl / "grpo_config.py", name) for name in OPTIONS["trl"]}
    named = assignment(trl / "grpo_config.py", "self.scale_rewards", known={})
    block = _block(trl / "grpo_trainer.py", 0)

    def outcome(chosen: Mapping) -> Outcome:
        config = SimpleNamespace(**known | dict(chosen))
        named(config)
        with suppress(ValueError):
            return block(config)
        return None

    return outcome


def _block(file: Path, nth: int) -> Callable[..., Tensor]:
    """Return TRL's block, or that of a trainer made after it, as a function of the configuration and the rewards, by
    default all. nth: which block of the file.
    """
    block = aggregation_block(file, ("self", "rewards_per_func", "num_generations", "device"), nth=nth, known=_nanstd())

    def run(config: SimpleNamespace, rewards: Tensor = REWARDS) -> Tensor:
        trainer = SimpleNamespace(**vars(config), reward_weights=WEIGHTS, reward_funcs=range(rewards.shape[1]))
        return block(trainer, rewards, GROUP, rewards.device)

    return run


def _ms_swift() -> Callable[[Mapping], Outcome]:
    """Return the function from a combination to what ms-swift computes, by its own `_init_grpo` and
    `compute_advantages`.
    """
    swift = distribution("ms_swift").locate_file("swift")
    silent = SimpleNamespace(info=lambda text: None, warning=lambda text: None)
    settle = method(swift / "arguments/rlhf_args.py", "_init_grpo", known={"logger": silent})
    nanstd = functions(swift / "utils/torch_utils.py", "nanstd", known={})
    compute = functions(swift / "rl_core/advantage.py", "compute_advantages", known=nanstd)["compute_advantages"]
    before = {
        name: default_of(swift / "rlhf_trainers/args_mixin.py", name)
        for name in ("advantage_estimator", "scale_rewards", "kl_in_reward")
    }
    others = dict.fromkeys(["cached_dataset", "cached_val_dataset", "use_vllm", "async_generate", "beta"])

    def outcome(chosen: Mapping) -> Outcome:
        given = others | before | {"loss_type": "grpo"} | dict(chosen)
        config = SimpleNamespace(rlhf_type="grpo", truncation_strategy="left", reward_funcs=[], **given)
        config.num_generations, config.max_completion_length = GROUP, 512
        settle(config)
        return compute(REWARDS, WEIGHTS, GROUP, config.advantage_estimator, config.scale_rewards)[0]

    return outcome


def _axolotl() -> Callable[[Mapping], Outcome]:
    """Return the function from a combination to what axolotl computes. Its validator refuses, and the blocks of its
    asynchronous trainer and of TRL compute. Which of them runs was read in its builder, and is written here once more.
    """
    package, trl = (distribution(name) for name in ("axolotl", "trl"))
    refuse = method(package.locate_file("axolotl/utils/schemas/validation.py"), "check_gdpo", known={})
    config_file = trl.locate_file("trl/trainer/grpo_config.py")
    known = {name: default_of(config_file, name) for name in OPTIONS["trl"]}
    named = assignment(config_file, "self.scale_rewards", known={})
    plain = _block(trl.locate_file("trl/trainer/grpo_trainer.py"), 0)
    whole, streamed = (_block(package.locate_file(AXOLOTL_TRAINER), nth) for nth in (0, 1))

    def outcome(chosen: Mapping) -> Outcome:
        given = {key.removeprefix("trl."): value for key, value in chosen.items()}
        rl = given.pop("rl")
        try:
            refuse(None, {"rl": rl, "trl": given})
        except ValueError:
            return None
        of_gdpo = {"multi_objective_aggregation": "normalize_then_sum"} if rl == "gdpo" else {}
        config = SimpleNamespace(**known | of_gdpo | given)
        named(config)
        if not (given.get("use_data_producer") or given.get("async_prefetch")):
            return plain(config)
        if not given.get("streaming_partial_batch"):
            return whole(config)
        return torch.cat([streamed(config, group) for group in REWARDS.split(GROUP)])

    return outcome


def _verl() -> Callable[[Mapping], Outcome]:
    """Return the function from a combination to what verl's legacy trainer computes, by its own `compute_advantage`.

    It gets the trainer's default of norm_adv_by_std_in_grpo, and answers of one token each.
    """
    package, framework = distribution("verl"), load("verl")
    core = SimpleNamespace(**verl_estimators(package))
    core.get_adv_estimator_fn = lambda name: getattr(core, f"compute_{name}_outcome_advantage")
    names = SimpleNamespace(
        GAE="gae", GRPO="grpo", GDPO="gdpo", OPTIMAL_TOKEN_BASELINE="", TIR_OPTIMAL_TOKEN_BASELINE=""
    )
    file = package.locate_file("verl/trainer/ppo/ray_trainer.py")
    known = {"core_algos": core, "AdvantageEstimator": names}
    compute = functions(file, "compute_advantage", known=known)["compute_advantage"]
    scores, mask, uid, options = framework.methods["gdpo"].prepare(
        REWARDS, WEIGHTS, GROUP, torch.ones(12, dtype=torch.long)
    )

    def outcome(chosen: Mapping) -> Outcome:
        batch = options["batch"] | {"token_level_rewards": scores, "response_mask": mask}
        data = SimpleNamespace(batch=batch, non_tensor_batch=options["non_tensor_batch"] | {"uid": uid})
        divide = chosen.get("algorithm.norm_adv_by_std_in_grpo", True)
        config = options["config"]
        compute(data, chosen["algorithm.adv_estimator"], norm_adv_by_std_in_grpo=divide, config=config)
        return batch["advantages"][:, 0]

    return outcome


LOADERS = {"trl": _trl, "ms_swift": _ms_swift, "axolotl": _axolotl, "verl": _verl}


def outcomes_of(trainer: str) -> dict:
    """Return what a trainer computes under every combination of its options: its version, the different outcomes, and
    for each combination the index of its outcome, None where the trainer refuses the combination.
    """
    run = LOADERS[trainer]()
    different: list[Tensor] = []
    rows = []
    for chosen in combinations(trainer):
        found = run(chosen)
        alike = (
            i
            for i, other in enumerate(different)
            if found is not None and torch.allclose(found.double(), other, atol=1e-4)
        )
        index = None if found is None else next(alike, len(different))
        if found is not None and index == len(different):
            different.append(found.double())
        rows.append([chosen, index])
    outcomes = [[round(x, 6) + 0.0 for x in outcome.tolist()] for outcome in different]
    return {"version": distribution(trainer).version, "outcomes": outcomes, "combinations": rows}


def main() -> None:
    """Write tests/goldens/outcomes.json."""
    table = {"rewards": REWARDS.tolist(), "weights": WEIGHTS.tolist(), "group": GROUP}
    table["trainers"] = {trainer: outcomes_of(trainer) for trainer in OPTIONS}
    lines = json.dumps(table, separators=(",", ":")).replace("[{", "\n[{").replace('"version"', '\n"version"')
    FILE.write_text(lines + "\n")


if __name__ == "__main__":
    main()
