"""`gdpo check`: for each trap a configuration that holds it and one that does not, the trainers' own configurations,
and bad input.
"""

import json
import re
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from logs import gdpo

import gdpo_cli
import gdpo_core as gc
from gdpo_core import config_lines
from gdpo_core.checking.evaluate import Known, _even
from gdpo_core.checking.rules import Condition
from gdpo_core.frameworks import FRAMEWORKS
from gdpo_core.shared.words import listing

CONFIGS = Path(__file__).parent / "configs"
RULES = {key: framework.rules for key, framework in FRAMEWORKS.items() if framework.rules}


def held(text, name="a.yaml", trainer=None):
    """Return the ids of the traps in a configuration of one file."""
    return {trap.id for trap in gc.check_config({name: text}, trainer).traps}


# --- each trap -------------------------------------------------------------------------------------------------------


def trl(more="", call="GRPOConfig", funcs="[accuracy, form]"):
    """Return a program that trains with TRL. more: further arguments of the configuration; call: its class; funcs: the
    reward functions.
    """
    trainer = call.replace("Config", "Trainer")
    return (
        f"from trl import {call}, {trainer}\ndef accuracy(**k): ...\ndef form(**k): ...\n"
        f"config = {call}(log_completions=True, logging_steps=1, {more})\n"
        f"{trainer}(model='m', reward_funcs={funcs}, args=config)\n"
    )


GDPO_TRL = "multi_objective_aggregation='normalize_then_sum', "
GDPO_VERL = (
    "algorithm.adv_estimator=gdpo trainer.use_v1=False +algorithm.gdpo_reward_keys=[accuracy,form] "
    "actor_rollout_ref.rollout.n=8 "
)
OVERLONG = GDPO_VERL + "reward.reward_kwargs.overlong_buffer_cfg.enable=True "
LOGGED = OVERLONG + "reward.reward_kwargs.overlong_buffer_cfg.log=True "
GDPO_SWIFT = "--rlhf_type grpo --scale_rewards gdpo --reward_funcs accuracy form "
GDPO_NEMO = "grpo.adv_estimator.name=gdpo grpo.adv_estimator.use_leave_one_out_baseline=false "
WEIGHTED = GDPO_NEMO + "grpo.adv_estimator.reward_weights=[1,0.5] "
FUNCS = "trl: {reward_funcs: [r.accuracy, r.form], "


def verl(more):
    """Return a script that trains with verl. more: options of the command."""
    return f"#!/bin/bash\npython3 -m verl.trainer.main_ppo \\\n    {more}\n"


def swift(more):
    """Return a script that trains with ms-swift. more: options of the command."""
    return f"swift rlhf \\\n    {more}\n"


def nemo(more):
    """Return a script that trains with NeMo-RL, from the configuration with which its own examples begin. more: options
    of the command.
    """
    return f"uv run examples/run_grpo.py --config examples/configs/grpo_math_1B.yaml {more}\n"


def axolotl(more, rl="gdpo"):
    """Return a configuration of axolotl. more: further lines."""
    return f"base_model: m\nrl: {rl}\n{more}\n"


# For the id of each trap there is a configuration that holds it and a near one that does not, each with a version where
# that matters.
CASES = {
    "trl-apply-gdpo": (trl("apply_gdpo=True"), trl(GDPO_TRL)),
    "trl-before-gdpo": ((trl(GDPO_TRL), "trl==0.26.2"), (trl(GDPO_TRL), "trl==0.27.0")),
    "trl-scale-is-no-method": (trl("scale_rewards='gdpo'"), trl(GDPO_TRL + "scale_rewards='gdpo'")),
    "trl-scale-alone": (trl("scale_rewards='none'"), trl("scale_rewards='none'", funcs="[accuracy]")),
    "trl-scale-unread": (trl(GDPO_TRL + "scale_rewards=False"), trl(GDPO_TRL + "scale_rewards=True")),
    "trl-filter-of-z-scores": (
        trl(GDPO_TRL + "reward_variance_filtering='top_p'"),
        trl("reward_variance_filtering='top_p'"),
    ),
    "trl-more-weights": (trl("reward_weights=[1, 1, 1]"), trl("reward_weights=[1, 1]")),
    "trl-fewer-weights": (trl("reward_weights=[1]"), trl("reward_weights=[1]", funcs="accuracy")),
    "trl-weights-refused": (trl("reward_weights=[1, 1]", "AsyncGRPOConfig"), trl("", "AsyncGRPOConfig")),
    "trl-async-has-no-gdpo": (trl(GDPO_TRL, "AsyncGRPOConfig"), trl(GDPO_TRL)),
    "trl-one-name-twice": (
        "from functools import partial\n" + trl(funcs="[accuracy, partial(accuracy, strict=True)]"),
        trl(funcs="[accuracy, partial(form, strict=True)]"),
    ),
    "trl-log-lacks-answers": (trl("log_unique_prompts=True"), trl("log_unique_prompts=False")),
    "trl-one-answer": (trl("num_generations=1"), trl("num_generations=2")),
    "trl-broken-groups": (
        trl("num_generations=12, generation_batch_size=32"),
        trl("num_generations=12, generation_batch_size=48"),
    ),
    "trl-broken-groups-of-a-process": (
        trl("num_generations=12"),
        trl("num_generations=12, per_device_train_batch_size=12"),
    ),
    "trl-evaluation-overwrites": (trl("eval_strategy='steps'"), trl("eval_strategy='no'")),
    "verl-one-answer": (verl("algorithm.adv_estimator=grpo"), verl("algorithm.adv_estimator=gae")),
    "verl-first-answer-decides": (
        verl(GDPO_VERL + "data.train_files=[a.parquet,b.parquet]"),
        verl(GDPO_VERL + "data.train_files=[a.parquet]"),
    ),
    "swift-no-rewards": (
        swift("--rlhf_type grpo --scale_rewards gdpo --teacher_model org/model"),
        swift(GDPO_SWIFT + "--teacher_model org/model"),
    ),
    "swift-one-answer": (swift("--rlhf_type grpo --num_generations 1"), swift("--rlhf_type grpo")),
    "swift-broken-groups": (
        swift("--rlhf_type grpo --num_generations 12 --generation_batch_size 16"),
        swift("--rlhf_type grpo --num_generations 12 --generation_batch_size 24"),
    ),
    "swift-broken-groups-of-a-process": (
        swift("--rlhf_type grpo --num_generations 12 --per_device_train_batch_size 8 --gradient_accumulation_steps 2"),
        swift("--rlhf_type grpo --num_generations 12 --per_device_train_batch_size 8 --gradient_accumulation_steps 3"),
    ),
    "axolotl-one-answer": (axolotl("trl: {num_generations: 1}"), axolotl("trl: {num_generations: 2}")),
    "axolotl-broken-groups": (
        axolotl("trl: {num_generations: 6, generation_batch_size: 8}"),
        axolotl("trl: {num_generations: 4, generation_batch_size: 8}"),
    ),
    "axolotl-broken-groups-of-a-process": (
        axolotl("micro_batch_size: 2\ngradient_accumulation_steps: 2\ntrl: {num_generations: 8}"),
        axolotl("micro_batch_size: 2\ngradient_accumulation_steps: 4\ntrl: {num_generations: 8}"),
    ),
    "verl-v1-has-no-gdpo": (
        (verl(GDPO_VERL.replace("trainer.use_v1=False", "")), "verl==0.9.1"),
        (verl(GDPO_VERL.replace("trainer.use_v1=False", "")), "verl==0.8.0"),
    ),
    "verl-before-gdpo": ((verl(GDPO_VERL), "verl==0.7.0"), (verl(GDPO_VERL), "verl==0.7.1")),
    "verl-no-keys": (verl("algorithm.adv_estimator=gdpo trainer.use_v1=False"), verl(GDPO_VERL)),
    "verl-surplus-weights": (
        verl(GDPO_VERL + "+algorithm.gdpo_reward_weights='[1.0, 0.5, 2]'"),
        verl(GDPO_VERL + "+algorithm.gdpo_reward_weights='[1.0, 0.5]'"),
    ),
    "verl-too-few-weights": (
        verl(GDPO_VERL + "algorithm.gdpo_reward_weights=[1]"),
        verl(GDPO_VERL + "algorithm.gdpo_reward_weights=null"),
    ),
    "verl-kl-vanishes": (
        verl(GDPO_VERL + "algorithm.use_kl_in_reward=True"),
        verl("algorithm.adv_estimator=grpo algorithm.use_kl_in_reward=True"),
    ),
    "verl-std-stays": (
        verl(GDPO_VERL + "algorithm.norm_adv_by_std_in_grpo=False"),
        verl("algorithm.adv_estimator=grpo algorithm.norm_adv_by_std_in_grpo=False"),
    ),
    "verl-vectorized-std-stays": (
        verl("algorithm.adv_estimator=grpo_vectorized algorithm.norm_adv_by_std_in_grpo=False"),
        verl("algorithm.adv_estimator=grpo_vectorized"),
    ),
    "verl-overlong-unlogged": (verl(OVERLONG), verl(LOGGED)),
    "verl-overlong-no-key": (verl(LOGGED), verl(LOGGED.replace(",form]", ",overlong_reward]"))),
    "verl-keys-unread": (verl(GDPO_VERL.replace("=gdpo", "=grpo")), verl(GDPO_VERL)),
    "verl-filter-unread": (
        verl("algorithm.adv_estimator=grpo trainer.use_v1=False algorithm.filter_groups.enable=True"),
        verl("algorithm.adv_estimator=grpo algorithm.filter_groups.enable=True"),
    ),
    "swift-reinforce-plus-plus": (
        swift(GDPO_SWIFT + "--advantage_estimator reinforce_plus_plus"),
        swift(GDPO_SWIFT + "--advantage_estimator grpo"),
    ),
    "swift-rloo-unread": (swift(GDPO_SWIFT + "--advantage_estimator rloo"), swift(GDPO_SWIFT)),
    "swift-real": (swift(GDPO_SWIFT + "--loss_type real"), swift(GDPO_SWIFT + "--loss_type grpo")),
    "swift-kl-switched-off": (swift(GDPO_SWIFT + "--kl_in_reward true"), swift(GDPO_SWIFT + "--kl_in_reward false")),
    "swift-filter-drops-signal": (
        swift(GDPO_SWIFT + "--dynamic_sample true --reward_weights 1 0.5"),
        swift(GDPO_SWIFT + "--dynamic_sample true"),
    ),
    "swift-multi-turn": (swift(GDPO_SWIFT + "--multi_turn_scheduler tool_call"), swift(GDPO_SWIFT + "--max_turns 3")),
    "swift-more-weights": (
        swift(GDPO_SWIFT + "--reward_weights 1 1 1"),
        swift(GDPO_SWIFT + "--reward_weights 1 1 1 --reward_model org/model"),
    ),
    "swift-fewer-weights": (swift(GDPO_SWIFT + "--reward_weights 1"), swift(GDPO_SWIFT + "--reward_weights 1 0.5")),
    "swift-no-aggregation": (swift(GDPO_SWIFT + "--multi_objective_aggregation normalize_then_sum"), swift(GDPO_SWIFT)),
    "swift-aggregation-ignored": (
        swift(GDPO_SWIFT + "--ignore_args_error true --multi_objective_aggregation normalize_then_sum"),
        swift(GDPO_SWIFT + "--ignore_args_error false --multi_objective_aggregation normalize_then_sum"),
    ),
    "nemo-kl-vanishes": (
        nemo(GDPO_NEMO + "loss_fn.use_kl_in_reward=true"),
        nemo("grpo.adv_estimator.name=reinforce_plus_plus loss_fn.use_kl_in_reward=true"),
    ),
    "nemo-shaping-vanishes": (
        nemo(GDPO_NEMO + "grpo.reward_shaping.enabled=true"),
        nemo("grpo.reward_shaping.enabled=true"),
    ),
    "nemo-weights-ignored": ((nemo(WEIGHTED), "nemo-rl==0.7"), (nemo(WEIGHTED), "nemo-rl==0.8")),
    "nemo-weights-by-alphabet": (nemo(WEIGHTED), nemo(GDPO_NEMO)),
    "nemo-weights-unread": (nemo("grpo.adv_estimator.reward_weights=[1,1]"), nemo(WEIGHTED)),
    "nemo-gym-total": (
        nemo(GDPO_NEMO + "+env.should_use_nemo_gym=true"),
        (nemo(GDPO_NEMO + "+env.should_use_nemo_gym=true"), "NeMo-RL==0.8.0"),
    ),
    "nemo-gym-features": (
        nemo(WEIGHTED + "env.should_use_nemo_gym=true"),
        nemo(WEIGHTED + "env.should_use_nemo_gym=true grpo.adv_estimator.reward_features.default.env_reward=1"),
    ),
    "nemo-leave-one-out": (nemo("grpo.adv_estimator.name=gdpo"), nemo(GDPO_NEMO)),
    "nemo-undivided": (nemo(GDPO_NEMO + "grpo.adv_estimator.normalize_rewards=false"), nemo(GDPO_NEMO)),
    "nemo-filter-drops-signal": (
        nemo(WEIGHTED + "grpo.use_dynamic_sampling=true"),
        nemo(GDPO_NEMO + "grpo.adv_estimator.reward_weights=[1,1] grpo.use_dynamic_sampling=true"),
    ),
    "axolotl-context-parallel": (
        axolotl("context_parallel_size: 2\nfsdp_version: 2"),
        axolotl("context_parallel_size: 1\nfsdp_version: 2"),
    ),
    "axolotl-context-parallel-deepspeed": (
        (axolotl("context_parallel_size: 2\ndeepspeed: zero3.json", rl="grpo"), "axolotl==0.21.0"),
        (axolotl("context_parallel_size: 2\ndeepspeed: zero3.json", rl="grpo"), "axolotl==0.19.0"),
    ),
    "axolotl-context-parallel-grpo": (
        (axolotl("sequence_parallel_degree: 2\ndeepspeed: zero3.json"), "axolotl==0.19.0"),
        (axolotl("sequence_parallel_degree: 2\ndeepspeed: zero3.json"), "axolotl==0.21.0"),
    ),
    "axolotl-scale-unread": (
        axolotl("context_parallel_size: 2\ntrl: {scale_rewards: batch}", rl="grpo"),
        axolotl("trl: {scale_rewards: batch}", rl="grpo"),
    ),
    "axolotl-two-methods": (
        axolotl("trl: {multi_objective_aggregation: sum_then_normalize}"),
        axolotl("trl: {multi_objective_aggregation: normalize_then_sum}"),
    ),
    "axolotl-aggregation-unplaced": (axolotl("multi_objective_aggregation: normalize_then_sum"), axolotl("")),
    "axolotl-streaming": (
        axolotl("trl: {streaming_partial_batch: true, async_prefetch: true}"),
        axolotl("trl: {streaming_partial_batch: true}"),
    ),
    "axolotl-streaming-unread": (
        axolotl("trl: {streaming_partial_batch: true}"),
        axolotl("trl: {streaming_partial_batch: true, use_data_producer: true}"),
    ),
    "axolotl-context-parallel-async": (
        axolotl("context_parallel_size: 2\ntrl: {async_prefetch: true}"),
        axolotl("context_parallel_size: 1\ntrl: {async_prefetch: true}"),
    ),
    "axolotl-gdpo-scale-unread": (
        axolotl("trl: {scale_rewards: batch}"),
        axolotl("trl: {scale_rewards: batch}", rl="grpo"),
    ),
    "axolotl-aggregation-scale-unread": (
        axolotl("trl: {scale_rewards: none, multi_objective_aggregation: normalize_then_sum}", rl="grpo"),
        axolotl("trl: {scale_rewards: none, multi_objective_aggregation: sum_then_normalize}", rl="grpo"),
    ),
    "axolotl-before-gdpo": ((axolotl(""), "axolotl==0.13.1"), (axolotl(""), "axolotl==0.13.2")),
    "axolotl-more-weights": (
        axolotl(FUNCS + "reward_weights: [1, 2, 3]}"),
        axolotl(FUNCS + "reward_weights: [1, 2]}"),
    ),
    "axolotl-fewer-weights": (axolotl(FUNCS + "reward_weights: [1]}"), axolotl("trl: {reward_weights: [1]}")),
}
SUFFIXES = {"trl": ".py", "verl": ".sh", "swift": ".sh", "nemo": ".sh", "axolotl": ".yaml"}


def test_every_trap_has_a_case_and_every_trainer_is_named_in_the_help():
    assert listing(RULES, "or") == gdpo_cli.TRAINERS
    assert set(CASES) == {trap.id for rules in RULES.values() for trap in rules.traps}


@pytest.mark.parametrize("trap", CASES)
def test_a_trap_is_found_where_it_is_and_not_beside_it(trap):
    suffix = SUFFIXES[trap.partition("-")[0]]
    (holds, at), (near, beside) = (case if isinstance(case, tuple) else (case, None) for case in CASES[trap])
    assert trap in held(holds, f"train{suffix}", at)
    assert trap not in held(near, f"train{suffix}", beside)


PLACE = re.compile(r"[\w-]+==[\d.]+ [\w./-]+:\d+|[\w-]+/[\w-]+@[\w.]+ [\w./-]+:\d+|[\w-]+/[\w-]+#\d+")


def test_a_rule_is_a_sentence_with_its_place_and_names_a_convention_that_is_there():
    for key, rules in RULES.items():
        for record in (*rules.traps, *rules.facts, *rules.runs):
            text = getattr(record, "says", "")
            assert not text or text.endswith("."), text
            assert all(PLACE.fullmatch(place) for place in record.read_in.split(", ") if record.read_in), record
        assert all(trap.read_in and trap.line for trap in rules.traps), key
        assert all(runs.method in gc.SUCCESSORS or runs.convention for runs in rules.runs if runs.method)


def test_a_version_that_is_not_given_is_named_on_both_sides():
    def trap(trainer):
        (found,) = (t for t in gc.check_config({"a.sh": nemo(WEIGHTED)}, trainer).traps if "ignored" in t.id)
        return found.severity, found.says

    assert trap("nemo_rl==0.7.0") == ("error", "Releases 0.6 and 0.7 read no reward_weights: all rewards weigh alike.")
    severity, says = trap(None)
    assert severity == "info" and says.endswith("This holds before 0.8; no version is given.")
    installed = "pip install -q 'verl[vllm]==0.8.0'\n" + verl(GDPO_VERL)
    assert gc.check_config({"a.sh": installed}).version == "0.8.0"
    assert gc.check_config({"args.json": '{"rlhf_type": "grpo", "swift_version": "4.6.0"}'}).version == "4.6.0"


# --- what runs -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "name", "method", "convention"),
    [
        (trl(), "a.py", "grpo", "trl"),
        (trl("scale_rewards='batch'"), "a.py", "grpo_batch_std", "trl"),
        (trl("scale_rewards=False"), "a.py", "grpo_no_std", "trl"),
        (trl("", "AsyncGRPOConfig"), "a.py", "grpo", "trl_async"),
        (trl("", "RLOOConfig"), "a.py", None, None),
        (verl("data.train_batch_size=8"), "a.sh", None, None),
        (verl("algorithm.adv_estimator=grpo algorithm.norm_adv_by_std_in_grpo=False"), "a.sh", "grpo_no_std", "verl"),
        (swift("--rlhf_type grpo"), "a.sh", "grpo", "ms_swift"),
        (swift("--rlhf_type dpo"), "a.sh", None, None),
        ("swift sft --model m --num_generations 8 --reward_funcs a", "a.sh", None, None),
        (swift(GDPO_SWIFT + "--advantage_estimator=reinforce_plus_plus"), "a.sh", "grpo_no_std", "ms_swift"),
        (nemo(""), "a.sh", "grpo", "nemo_rl_loo"),
        (nemo(GDPO_NEMO), "a.sh", "gdpo", "nemo_rl"),
        (axolotl(""), "a.yml", "gdpo", "trl"),
        (axolotl("trl: {multi_objective_aggregation: normalize_then_sum}", rl="grpo"), "a.yml", "gdpo", "trl"),
        (
            axolotl("trl: {streaming_partial_batch: true, use_data_producer: true}"),
            "a.yml",
            "gdpo",
            "axolotl_streaming",
        ),
        (axolotl("", rl="dpo"), "a.yml", None, None),
    ],
)
def test_what_will_run_is_named(text, name, method, convention):
    check = gc.check_config({name: text})
    assert (check.method, check.convention) == (method, convention)


def test_weights_batch_and_log_of_a_script_with_variables_and_arrays():
    script = (
        'set -x\nBSZ=64; export N=${N:-8}\nKEYS=\'["b","a"]\'\nR=(\n'
        "  '+algorithm.gdpo_reward_weights=[2, 0.5]'  # two\n"
        "  actor_rollout_ref.rollout.n=$N\n)\npython3 -m verl.trainer.main_ppo algorithm.adv_estimator=gdpo \\\n"
        '  "+algorithm.gdpo_reward_keys=${KEYS}" data.train_batch_size=${BSZ} "${R[@]}" trainer.use_v1=False \\\n'
        '  "$@" 2>&1 | tee x\n'
    )
    check = gc.check_config({"train.sh": script})
    assert (check.rewards, check.weights) == (("b", "a"), (2.0, 0.5)) and not check.traps and not check.unread
    assert (check.group_size, check.groups) == (8, 64)
    assert check.facts["batch"] == "8 answers to a prompt; 64 groups share a batch step, 512 answers."
    assert check.lines == ("trainer.rollout_data_dir=rollouts trainer.use_v1=False",)
    logged = gc.check_config({"train.sh": script.replace("use_v1=", "rollout_data_dir=x trainer.use_v1=")})
    assert not logged.lines and "shares and ties" in logged.facts["log"]
    old = gc.check_config({"train.sh": verl("algorithm.adv_estimator=gdpo")}, "verl==0.8.0")
    assert old.lines == ("trainer.rollout_data_dir=rollouts",)  # verl 0.8.0 has no use_v1.


def test_a_shell_variable_is_extended():
    script = (
        "W=1.0; W+=' 0.5'\nN=1\nN+=6\nexport BETA+=0.1\nARGS='--rlhf_type grpo'\nARGS+=' --reward_funcs a b'\n"
        "swift rlhf $ARGS --reward_weights $W --beta $BETA --num_generations $N\n"
    )
    check = gc.check_config({"a.sh": script})
    assert (check.method, check.rewards, check.weights, check.group_size) == ("grpo", ("a", "b"), (1.0, 0.5), 16)
    assert check.unread == ("beta = $BETA (a.sh:7)",)  # The caller of the script may have set BETA.
    array = "A=(--rlhf_type)\nA+='=grpo'\nswift rlhf ${A[@]} --num_generations 4\n"
    assert gc.check_config({"a.sh": array}).method is None  # A text that is added to an array is not followed.
    maybe = gc.check_config({"a.sh": script.replace("N+=6", "if [ $X ]; then N+=6; fi")})
    assert maybe.unread == ("beta = $BETA (a.sh:7)", "num_generations = $N (a.sh:7)")


def test_several_files_are_one_configuration_and_a_command_goes_over_values():
    values = (
        "grpo:\n  num_prompts_per_step: 4\n  adv_estimator:\n    name: gdpo\n    use_leave_one_out_baseline: false\n"
    )
    command = "uv run examples/run_grpo.py --config my/own.yaml grpo.num_prompts_per_step=16\n"
    alone = gc.check_config({"run.sh": command})
    assert alone.method is None and "my/own.yaml" in alone.facts["trainer"]
    for files in ({"run.sh": command, "own.yaml": values}, {"own.yaml": values, "run.sh": command}):
        check = gc.check_config(files)
        assert (check.method, check.groups) == ("gdpo", 16)


def test_a_command_inside_a_file_of_values_or_a_program_is_read():
    job = "name: train\nrun: |\n  set -x\n  python3 -m verl.trainer.main_ppo \\\n    algorithm.adv_estimator=gdpo\n"
    trap = gc.check_config({"job.yaml": job}, "verl==0.9.1").traps[0]
    assert (trap.id, trap.place) == ("verl-v1-has-no-gdpo", "job.yaml:5")
    inside = "docker run img bash -c 'python3 -m verl.trainer.main_ppo algorithm.adv_estimator=grpo'"
    assert gc.check_config({"a.sh": inside}).method == "grpo"
    command = "axolotl train own.yml --rl gdpo --context-parallel-size 2 --trl.scale-rewards true"
    cli = gc.check_config({"a.sh": command})
    assert cli.method == "grpo" and "own.yml" in cli.facts["trainer"]
    program = "import os\nBETA = load()\nos.system(f'swift rlhf --rlhf_type grpo --num_generations 4 --beta {BETA}')\n"
    check = gc.check_config({"a.py": program})
    assert check.group_size == 4 and check.unread == ("beta = … (a.py:3)",)


def test_the_processes_of_accelerate_count():
    program = OF["trl/grpo_vlm.py"].read_text()
    launch = "accelerate launch --config_file zero2.yaml a.py --output_dir x\n"
    files = {"a.py": program, "zero2.yaml": OF["trl/accelerate_zero2.yaml"].read_text(), "run.sh": launch}
    check = gc.check_config(files)
    alone = gc.check_config({"a.py": program})
    assert alone.method is None and "the command line of a.py" in alone.facts["trainer"]
    assert (check.group_size, check.groups) == (8, 8)  # The program has 8 answers on each of 8 processes.
    launched = (
        "accelerate launch --num_processes 2 --config_file x.yaml train.py --num_generations 4 --log_completions \\\n"
    )
    told = gc.check_config({"a.sh": launched + "  --per_device_train_batch_size 8 --gradient_accumulation_steps 2"})
    assert (told.group_size, told.groups) == (4, 8)


def test_a_file_that_another_builds_on_is_read_beside_it(tmp_path):
    (tmp_path / "base.yaml").write_text("grpo: {num_prompts_per_step: 4, adv_estimator: {name: gdpo}}")
    (tmp_path / "own.yaml").write_text("defaults: base.yaml\ngrpo: {num_generations_per_prompt: 2}")
    check = gc.check_config(tmp_path / "own.yaml")
    assert (check.method, check.group_size, check.groups) == ("gdpo", 2, 4)
    assert check.traps[0].place == f"{tmp_path / 'base.yaml'}:1"


def test_python_is_read_and_never_run(tmp_path):
    program = (
        "import trl\nraise SystemExit\nWEIGHTS = [1.0, 0.2]\nKEPT = dict(reward_weights=WEIGHTS, beta=0.1)\n"
        "config = trl.GRPOConfig(num_generations=f(8), **KEPT)\n"
        "config.multi_objective_aggregation = 'normalize_then_sum'\ndef accuracy(): ...\n"
        "trl.GRPOTrainer('m', [accuracy, lambda **k: [0.0]], config)\n"
    )
    check = gc.check_config({"train.py": program})
    assert (check.method, check.weights, check.rewards) == ("gdpo", (1.0, 0.2), ("accuracy", "<lambda>"))
    assert check.unread == ("num_generations = f(8) (train.py:5)",) and "loss" in check.facts["KL"]
    cells = [{"cell_type": "code", "source": ["!pip install trl==1.2.0\n", *program.splitlines(True)]}]
    notebook = gc.check_config({"a.ipynb": json.dumps({"cells": cells})})
    assert (notebook.method, notebook.version) == ("gdpo", "1.2.0")
    opened = gc.check_config({"train.py": "from trl import GRPOConfig\nGRPOConfig(beta=0.1, **load())"})
    assert opened.method is None and "load()" in opened.facts["trainer"]


@pytest.mark.parametrize("size", [2, 8, 12])
@pytest.mark.parametrize(
    ("trainer", "name", "around"),
    [
        ("trl", "a.py", "from trl import GRPOConfig\n{}\n"),
        ("ms_swift", "a.sh", "swift rlhf --rlhf_type grpo --reward_funcs a b {}\n"),
        ("axolotl", "a.yaml", "base_model: m\n{}\n"),
        ("verl", "a.sh", "python3 -m verl.trainer.main_ppo {}\n"),
    ],
)
def test_our_own_lines_for_a_group_start_and_run_gdpo(trainer, name, around, size):
    lines = config_lines.switch_to_gdpo(trainer, ["a", "b"], group_size=size, whole_batch=True)
    check = gc.check_config({name: around.format(lines)})
    assert (check.method, check.group_size) == ("gdpo", size)
    assert not {trap.id for trap in check.traps if trap.severity != "info"}
    assert not any("broken-groups" in trap.id for trap in check.traps)


def test_what_an_answers_length_does_to_the_loss_is_said():
    def of(text, name):
        return gc.check_config({name: text}).facts["loss"]

    assert "dapo, the default" in of(trl(), "a.py") and "no bias" in of(trl(), "a.py")
    for text, name in (
        (trl("loss_type='grpo'"), "a.py"),
        (swift("--rlhf_type grpo"), "a.sh"),
        (axolotl("trl: {loss_type: grpo}"), "a.yaml"),
        (verl("algorithm.adv_estimator=grpo actor_rollout_ref.actor.loss_agg_mode=seq-mean-token-mean"), "a.sh"),
    ):
        assert "short answers are favoured where the advantage is positive" in of(text, name)
    assert "token-mean" in of(verl("algorithm.adv_estimator=grpo"), "a.sh")


# What each filter on a constant sum takes from GDPO, by the weights: computed here from groups whose sum is constant.
@pytest.mark.parametrize("weights", [(1, 1), (2, 2), (1, -1), (1, 0.5), (1, 1, 1), (1, 1, 0), (0.5, 2, 1)])
def test_a_filter_on_a_constant_sum_is_a_trap_just_where_gdpo_could_learn(weights):
    marks = np.random.default_rng(5).normal(size=(200, 4, len(weights)))
    w = np.array(weights, dtype=float)
    last = np.flatnonzero(w)[-1]
    marks[..., last] = (1 - np.delete(marks, last, 2) @ np.delete(w, last)) / w[last]
    z = (marks - marks.mean(1, keepdims=True)) / marks.std(1, ddof=1, keepdims=True)
    learns = np.abs(z @ w).max() > 1e-6
    names = " ".join("abc"[: len(weights)])
    options = f"--rlhf_type grpo --scale_rewards gdpo --dynamic_sample true --reward_funcs {names}"
    check = gc.check_config({"a.sh": swift(f"{options} --reward_weights {' '.join(map(str, weights))}")})
    assert ("swift-filter-drops-signal" in {trap.id for trap in check.traps}) == learns
    assert ("Nothing is lost by it" in check.facts["filter"]) == (not learns)


@pytest.mark.parametrize("module", ["fully_async_policy.fully_async_main", "one_step_off_policy.main_ppo"])
def test_an_experimental_trainer_of_verl_runs_gdpo_without_use_v1(module):
    command = f"python -m verl.experimental.{module} algorithm.adv_estimator=gdpo actor_rollout_ref.rollout.n=8 "
    check = gc.check_config({"a.sh": f"{command} +algorithm.gdpo_reward_keys=[a,b] trainer.rollout_data_dir=x"})
    assert check.method == "gdpo" and not check.traps and "read in the source and not run" in check.facts["method"]
    assert not check.lines and "shares and ties" in check.facts["log"]


# --- the trainers' own, and those of users ---------------------------------------------------------------------------

# These traps hold of an example of a trainer with the version that it was read in: verl's GDPO needs the legacy trainer
# since 0.9, and axolotl documents a setting under which GRPO runs.
TRUE_ALARMS = {
    "verl/gdpo_qwen3_8b_fsdp.sh": {"verl-v1-has-no-gdpo"},
    "axolotl/docs_context_parallel.yaml": {"axolotl-context-parallel"},
}
NO_TRAINER = {"trl/accelerate_zero2.yaml"}
OF = {file.relative_to(CONFIGS).as_posix(): file for file in CONFIGS.glob("*/*") if file.suffix != ".md"}
EXAMPLES = [name for name in OF if not name.startswith("public/")]


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_of_a_trainer_raises_no_false_alarm(name):
    if name in NO_TRAINER:
        with pytest.raises(gc.InputError, match="expected a configuration of TRL"):
            gc.check_config(OF[name])
        return
    check = gc.check_config(OF[name])
    assert check.trainer == name.partition("/")[0]
    assert {trap.id for trap in check.traps if trap.severity != "info"} == TRUE_ALARMS.get(name, set())


def test_each_trainer_has_five_examples():
    assert all(sum(name.startswith(f"{key}/") for name in EXAMPLES) >= 5 for key in RULES)


# The method, and the traps that are no mere hint, were checked by hand.
OF_USERS = {
    "nemo_reward_features.yaml": ("gdpo", {"nemo-leave-one-out"}),
    "swift_dynamic_sample.py": ("gdpo", {"swift-filter-drops-signal"}),  # It has four rewards.
    "swift_function.sh": ("grpo", {"swift-broken-groups"}),  # the first of two calls; two answers, a batch of one
    "swift_geobox.sh": ("gdpo", set()),
    "swift_megatron_three.sh": ("grpo", set()),
    "swift_one_reward.sh": ("gdpo", set()),
    "swift_seven_rewards.sh": ("gdpo", set()),
    "trl_dict_of_arguments.py": ("gdpo", set()),
    "trl_open_r1_code.yaml": ("grpo_no_std", set()),
    "trl_open_r1_demo.yaml": ("grpo", set()),
    "trl_own_script.sh": ("gdpo", set()),
    "trl_six_rewards.py": ("gdpo", set()),
    "verl_computed_keys.sh": ("grpo", set()),
    "verl_dapo_without_keys.sh": ("gdpo", {"verl-no-keys", "verl-overlong-unlogged"}),
    "verl_defaults.sh": ("gdpo", {"verl-v1-has-no-gdpo"}),
    "verl_one_prompt.sh": ("gdpo", {"verl-v1-has-no-gdpo"}),
    "verl_two_keys.sh": ("gdpo", {"verl-v1-has-no-gdpo"}),
}


def test_configurations_of_users_are_told_as_a_reader_would():
    assert {f"public/{name}" for name in OF_USERS} == set(OF) - set(EXAMPLES)
    for name, (method, traps) in OF_USERS.items():
        check = gc.check_config(OF[f"public/{name}"])
        told = check.method, {trap.id for trap in check.traps if trap.severity != "info"}
        assert told == (method, traps), name
    own = gc.check_config(OF["public/trl_own_script.sh"])
    assert (own.weights, own.group_size, own.groups) == ((0.0, 1.0, 0.8, 1.2, 0.5, 1.5), 2, 8)
    assert gc.check_config(OF["public/swift_seven_rewards.sh"]).weights == (2.0, 0.5, 0.5, 0.25, 0.5, 0.5, 0.25)


# --- bad input -------------------------------------------------------------------------------------------------------


# These are six lists, each of which holds the one before eight times.
TIMES = [f"{c}: &{c} [{', '.join([f'*{b}'] * 8)}]\n" for b, c in zip("bcdefg", "cdefgh", strict=True)]
MERGED = "b: &b {k: 1, l: 2}\n" + "".join(
    f"{c}: &{c} {{<<: [{', '.join([f'*{b}'] * 8)}]}}\n" for b, c in zip("bcdefg", "cdefgh", strict=True)
)
BOMB = "b: &b [1, 1, 1, 1, 1, 1, 1, 1]\n" + "".join(TIMES)


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"a.yaml": "model: x\nlr: 1"}, r"a.yaml: expected a configuration of TRL, .* or axolotl, got the keys model"),
        ({"a.yaml": "x: 1"}, r"got the keys x"),
        ({"a.sh": "python3 -m verl.trainer.main algorithm.adv_estimator=grpo worker.rollout.n=5"}, r"got the keys al"),
        ({"a.sh": "accelerate launch grpo.py --config recipes/own.yaml"}, r"it names recipes/own.yaml: give that file"),
        ({"a.py": "print(1)"}, r"a.py: expected a configuration of .* got no key at all"),
        ({"a.yaml": axolotl(""), "b.sh": verl(GDPO_VERL)}, r"one trainer .* axolotl \(base_model in a.yaml:1\) and"),
        ({"a.py": "from trl import GRPOConfig\nGRPOConfig(\n"}, r"a.py:2: expected Python 3\.\d+, got: '\(' was"),
        ({"a.yaml": "a: [1\nb: {"}, r"a.yaml:2: expected YAML"),
        ({"a.yaml": "- 1"}, r"a.yaml: expected keys and values, got a list"),
        ({"a.json": '{"a": 1,\n"b": }'}, r"a.json:2: expected JSON"),
        ({"a.json": "[1]"}, r"a.json: expected an object with arguments, got list"),
        ({"a.ipynb": "{}"}, r"a.ipynb: expected a notebook"),
        ({"a.yaml": b"a: \xff"}, r"a.yaml: expected text in UTF-8, got byte 0xff at 3"),
        ({"a.yaml": "a: " + "[" * 99}, r"a.yaml: expected at most 60 brackets"),
        ({"a.yaml": "a: &a [*a]"}, r"a.yaml: expected at most 60 mappings"),
        ({"a.yaml": BOMB}, r"at most 20,000 values"),
        ({"a.yaml": MERGED}, r"at most 20,000 values"),
        ({"a.yaml": axolotl("trl: &t {<<: *t}")}, r"at most 60 mappings inside one another"),
        ({"a.yaml": axolotl("---\nrl: grpo")}, r"a.yaml:3: .* got: expected a single document .* but found another"),
        ({"a.py": "def f[T](): ...\nprint x"}, r"a.py:[12]: expected Python 3\.\d+, got: "),
        ({"a.ipynb": '{"cells": [1, null]}'}, r"a.ipynb: expected a notebook, got JSON without a list of cells"),
        ({"a.py": trl(f"reward_weights=[{10**400}, 1]")}, r"a.py:4: expected numbers of at most 300 digits"),
        ({"a.py": trl(f"num_generations={16**5000:#x}")}, r"a.py:4: expected numbers of at most 300 digits"),
        ({"a.sh": verl(f"a.b=[{10**400}]")}, r"a.sh:3: expected numbers of at most 300 digits"),
        ({"a.sh": None}, r"a.sh: expected its text, as str or bytes, got NoneType"),
        ("/nowhere/a.yaml", r"/nowhere/a.yaml: expected a file that can be read"),
        ([], r"expected the path of a file"),
        ({}, r"expected at least one text"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_one_sentence(files, message):
    with pytest.raises(gc.InputError, match=message):
        gc.check_config(files)


def test_templates_and_expressions_are_said_by_key_and_the_rest_is_read():
    text = axolotl("micro_batch_size: ${oc.env:BSZ}\ntrl:\n  num_generations: ${G}\n  beta: 0.1\nG: 4\nlr: ${lr}")
    check = gc.check_config({"a.yaml": text})
    assert check.method == "gdpo" and "loss" in check.facts["KL"]
    assert check.unread == ("micro_batch_size = ${oc.env:BSZ} (a.yaml:3)",) and check.group_size == 4
    swift_told = gc.check_config({"a.sh": swift(GDPO_SWIFT + "--beta $BETA --reward_weights $W 1")})
    assert swift_told.unread == ("beta = $BETA (a.sh:2)", "reward_weights = $W (a.sh:2)") and not swift_told.traps
    told = gc.check_config({"a.sh": verl("algorithm.adv_estimator=$(cat m) data.train_batch_size=$((8 * 4))")})
    assert told.method is None and "algorithm.adv_estimator" in told.facts["method"]
    assert told.unread == ("algorithm.adv_estimator = $(cat m) (a.sh:3)", "data.train_batch_size = $((8 * 4)) (a.sh:3)")


@pytest.mark.parametrize("name", ["train.py", "args.json", "a.yaml", "a.sh"])
def test_a_byte_order_mark_is_no_part_of_a_file(name):
    texts = {"train.py": trl(), "args.json": '{"rlhf_type": "grpo"}', "a.yaml": axolotl(""), "a.sh": nemo("")}
    plain, marked = (gc.check_config({name: before + texts[name]}) for before in ("", "\ufeff"))
    assert plain == marked


def test_what_yaml_merges_into_a_mapping_counts_and_of_a_key_twice_the_last():
    base = "base: &base {reward_funcs: [r.a, r.b], reward_weights: [1, 2], num_generations: 2}\n"
    check = gc.check_config(
        {"a.yaml": axolotl(base + "trl:\n  num_generations: 4\n  <<: [*base, {reward_weights: [9]}]")}
    )
    assert (check.rewards, check.weights, check.group_size) == (("r.a", "r.b"), (1.0, 2.0), 4)
    twice = axolotl("trl: {reward_funcs: [r.a], beta: 0.1}\ntrl: {num_generations: 4}")
    assert gc.check_config({"a.yaml": twice}).rewards is None  # Of two equal keys, a parser of YAML keeps the second.


def test_a_notebook_may_hold_what_is_no_python():
    cells = ["%%bash\necho 'a", "!pip install trl==1.2.0\nfiles = !ls\n?dir\ndir??", "x = (5\n  % 3)\n", trl()]
    check = gc.check_config({"a.ipynb": json.dumps({"cells": [{"cell_type": "code", "source": c} for c in cells]})})
    assert (check.method, check.rewards, check.version) == ("grpo", ("accuracy", "form"), "1.2.0")
    command = {"cell_type": "code", "source": ["!swift rlhf \\\n", "  --rlhf_type grpo \\\n", "  --num_generations 4"]}
    assert gc.check_config({"a.ipynb": json.dumps({"cells": [command]})}).group_size == 4


def in_cells(*cells):
    return {"a.ipynb": json.dumps({"cells": [{"cell_type": "code", "source": cell} for cell in cells]})}


def test_a_file_that_a_cell_of_a_notebook_writes_is_read_too():
    check = gc.check_config(in_cells("!pip install trl==1.2.0", f"%%writefile train.py\n{trl()}", "!python train.py"))
    assert (check.method, check.rewards, check.version) == ("grpo", ("accuracy", "form"), "1.2.0")
    assert gc.check_config(in_cells(f"%%file 'run.sh'\n{verl(GDPO_VERL)}")).method == "gdpo"
    begun, ended = axolotl("", "grpo"), "trl: {reward_funcs: [r.a, r.b], reward_weights: [1, 2]}"
    rest = [f"%%writefile c.yaml\n{begun}", f"%%writefile -a ./c.yaml\n{ended}", "%%writefile data.json\n[1]"]
    check = gc.check_config(in_cells("!axolotl train ./c.yaml", *rest))
    assert (check.rewards, check.weights, check.trainer) == (("r.a", "r.b"), (1.0, 2.0), "axolotl")
    with pytest.raises(gc.InputError, match="no key"):  # A text is nothing that runs.
        gc.check_config(in_cells(f"%%writefile notes.txt\n{trl()}"))
    with pytest.raises(gc.InputError, match=r"^a\.ipynb:train\.py:2: expected Python"):
        gc.check_config(in_cells("%%writefile train.py\nx = 1\nfrom trl import (\n"))
    with pytest.raises(gc.InputError, match=r"^a\.ipynb:c\.yaml"):
        gc.check_config(in_cells("%%writefile c.yaml\nrl: [grpo", "!axolotl train c.yaml"))
    check = gc.check_config(in_cells(f"%%writefile c.yaml\n{begun}", f"%%writefile c.yaml -a\n{ended}"))
    assert check.rewards == ("r.a", "r.b")


def test_what_ipython_inserts_into_a_command_is_not_read():
    check = gc.check_config(in_cells("n = 8", "!swift rlhf --rlhf_type grpo --num_generations {n} --beta 0.1"))
    assert check.group_size is None and "num_generations" in check.unread[0]


@pytest.mark.parametrize(
    ("text", "rewards", "weights"),
    [
        (swift("--rlhf_type grpo --reward_funcs --scale_rewards gdpo --reward_weights"), None, None),
        (swift("--rlhf_type grpo --scale_rewards gdpo --reward_funcs a b --reward_weights nan inf"), ("a", "b"), None),
        (verl(GDPO_VERL + "'+algorithm.gdpo_reward_weights=[&a [*a],1]'"), ("accuracy", "form"), None),
        (
            verl(GDPO_VERL + f"'+algorithm.gdpo_reward_weights=[{BOMB[6:].replace(chr(10), ',')}1]'"),
            ("accuracy", "form"),
            None,
        ),
        (verl(GDPO_VERL + "'+x={a: &b {c: *b}}'"), ("accuracy", "form"), (1.0, 1.0)),
    ],
)
def test_what_is_no_name_or_no_number_is_not_told_as_one(text, rewards, weights):
    check = gc.check_config({"a.sh": text})
    assert (check.rewards, check.weights) == (rewards, weights)


def test_what_is_no_version_is_not_taken_for_one():
    check = gc.check_config({"a.sh": "pip install verl==garbage\n" + verl(GDPO_VERL)})
    assert check.version is None and not {trap.id for trap in check.traps} & {"verl-before-gdpo"}
    assert gc.check_config({"a.sh": "pip install verl==0.9.*\n" + verl(GDPO_VERL)}).version == "0.9"


def test_a_trainer_is_named_by_the_caller_where_nothing_tells_it_and_refused_where_it_is_another():
    assert gc.check_config({"a.yaml": "num_generations: 4\n"}, "trl").group_size == 4
    for trainer, message in {
        "verl": "expected a configuration of verl, got axolotl",
        "areal": r"expected NAME or NAME==VERSION, with one of trl, verl",
        "verl==new": "expected a version such as 0.9.1, got 'new'",
        3: "expected NAME or NAME==VERSION, got 3",
    }.items():
        with pytest.raises(gc.InputError, match=message):
            gc.check_config({"a.yaml": axolotl("")}, trainer)


# --- the command -----------------------------------------------------------------------------------------------------


def test_the_command_prints_ten_lines_and_ends_by_what_it_found(capsys, tmp_path):
    (tmp_path / "train.sh").write_text(verl(GDPO_VERL + "algorithm.use_kl_in_reward=True"))
    (tmp_path / "fine.sh").write_text(verl(GDPO_VERL + "trainer.rollout_data_dir=x"))
    code, out, err = gdpo(capsys, "check", str(tmp_path / "train.sh"))
    assert (code, err) == (0, "") and "error  verl-kl-vanishes" in out and "train.sh:3" in out
    assert "verl==0.9.1 verl/trainer/ppo/ray_trainer.py:106" in out
    code, out, _ = gdpo(capsys, "check", str(tmp_path / "fine.sh"), "--strict")
    assert code == 0 and len(out.strip().splitlines()) <= 12 and "None of the known traps" in out
    assert gdpo(capsys, "check", str(tmp_path / "train.sh"), "--strict")[0] == 1
    code, _, err = gdpo(capsys, "check", str(tmp_path / "none.sh"))
    assert code == 2 and err.startswith("gdpo: ") and err.count("\n") == 1
    code, _, err = gdpo(capsys, "check", str(tmp_path / "fine.sh"), "--json", str(tmp_path / "fine.sh"))
    assert code == 2 and "json: expected another file than the configuration" in err
    assert (tmp_path / "fine.sh").read_text().startswith("#!")
    code, out, _ = gdpo(capsys, "check", str(tmp_path / "train.sh"), "--json", "-", "--trainer", "verl==0.8")
    told = json.loads(out)
    assert told["method"] == "gdpo" and told["version"] == "0.8" and told["traps"][0]["id"] == "verl-kl-vanishes"
    assert told["sample"] is None and told["schema"] == 1


def by_hand(marks, weights):
    """Return each reward's share and push under GDPO as TRL computes it, by loops. marks: (prompts, answers,
    rewards).
    """
    prompts, _, rewards = marks.shape
    z = np.zeros_like(marks)
    for p in range(prompts):
        for k in range(rewards):
            column = marks[p, :, k]
            z[p, :, k] = (column - column.mean()) / (column.std(ddof=1) + 1e-4)
    parts = z * np.array(weights)
    s = parts.sum(-1)
    a = (s - s.mean()) / (s.std(ddof=1) + 1e-4)
    parts = parts / (s.std(ddof=1) + 1e-4)
    d = marks - marks.mean(1, keepdims=True)
    shares = [(parts[..., k] * a).sum() / (a**2).sum() for k in range(rewards)]
    return shares, [(a * d[..., k]).sum() / np.sqrt((a**2).sum() * (d[..., k] ** 2).sum()) for k in range(rewards)]


def test_a_sample_is_scored_under_the_configuration(capsys, tmp_path):
    marks = np.random.default_rng(1).integers(0, 2, (6, 4, 2)).astype(float)
    marks[..., 1] *= 10
    table = {"prompt": np.arange(24) // 4, "r.form": marks[..., 1].ravel(), "accuracy_reward": marks[..., 0].ravel()}
    pl.DataFrame(table).write_csv(tmp_path / "sample.csv")
    (tmp_path / "a.yaml").write_text(
        axolotl("trl: {reward_funcs: [m.accuracy, m.form_reward], reward_weights: [1, 0.5]}")
    )
    command = ["check", str(tmp_path / "a.yaml"), "--log", str(tmp_path / "sample.csv")]
    told = json.loads(gdpo(capsys, *command, "--json", "-")[1])["sample"]
    shares, push = by_hand(marks, [1, 0.5])
    assert told["weights"] == {"r.form": 0.5, "accuracy_reward": 1.0} and (told["answers"], told["groups"]) == (24, 6)
    assert [told["update_share"][k] for k in ("accuracy_reward", "r.form")] == pytest.approx(shares, rel=1e-9)
    assert [told["push"][k] for k in ("accuracy_reward", "r.form")] == pytest.approx(push, rel=1e-9)
    _, out, _ = gdpo(capsys, *command)
    assert (
        f"{round(100 * shares[0])} %" in out.replace("\xa0", " ")
        and "The sample counts as 1 batch with 6 groups." in out
    )
    (tmp_path / "a.yaml").write_text(axolotl("trl: {reward_funcs: [m.other], reward_weights: [1]}"))
    code, _, err = gdpo(capsys, *command)
    assert code == 2 and "expected a sample with m.other" in err


def scored(capsys, folder, names, **columns) -> tuple[int, dict | None, str]:
    """Return the exit status of `gdpo check --log`, what it tells of the sample, and what it prints as an error. names:
    the reward functions of the configuration, with the weights 1, 2 and so on; columns: the rewards of the sample.
    """
    rows = len(next(iter(columns.values())))
    pl.DataFrame({"prompt": np.arange(rows) // 4, **columns}).write_csv(folder / "sample.csv")
    weights = list(range(1, len(names) + 1))
    lines = f"trl: {{reward_funcs: [{', '.join(names)}], reward_weights: {weights}}}"
    (folder / "a.yaml").write_text(axolotl(lines))
    command = ["check", str(folder / "a.yaml"), "--log", str(folder / "sample.csv"), "--json", "-"]
    code, out, err = gdpo(capsys, *command)
    return code, json.loads(out)["sample"] if code == 0 else None, err


def test_rewards_of_a_sample_are_those_with_the_names_of_the_configuration(capsys, tmp_path):
    marks = np.random.default_rng(2).normal(size=(6, 4, 3))
    style, fit, brief = (marks[..., k].ravel() for k in range(3))
    code, told, _ = scored(capsys, tmp_path, ["m.fit", "m.brief"], style=style, brief_reward=brief, fit=fit)
    shares, push = by_hand(marks[..., 1:], [1, 2])
    assert code == 0 and told["weights"] == {"fit": 1.0, "brief_reward": 2.0}
    assert [told["update_share"][name] for name in ("fit", "brief_reward")] == pytest.approx(shares, rel=1e-9)
    assert [told["push"][name] for name in ("fit", "brief_reward")] == pytest.approx(push, rel=1e-9)
    assert "style is left out: the configuration has no reward of that name." in told["notes"]


def test_where_only_some_names_are_in_both_the_check_says_which(capsys, tmp_path):
    marks = np.random.default_rng(3).normal(size=(6, 4, 3))
    style, fit, brief = (marks[..., k].ravel() for k in range(3))
    code, told, _ = scored(capsys, tmp_path, ["m.fit", "m.kind", "m.brief"], style=style, brief=brief, fit=fit)
    shares, _ = by_hand(marks[..., 1:], [1, 3])
    assert code == 0 and told["weights"] == {"fit": 1.0, "brief": 3.0}
    assert [told["update_share"][name] for name in ("fit", "brief")] == pytest.approx(shares, rel=1e-9)
    lacks = "Only fit and brief are in both: the sample lacks m.kind, so that the shares are those of a part of the "
    assert [note.startswith(lacks) for note in told["notes"]] == [True, False, False]
    assert told["notes"][1] == "style is left out: the configuration has no reward of that name."


def test_rewards_without_a_common_name_are_refused_and_never_dealt_out_by_their_places(capsys, tmp_path):
    marks = np.random.default_rng(4).normal(size=(24, 2))
    code, told, err = scored(capsys, tmp_path, ["m.fit", "m.brief"], right=marks[:, 0], style=marks[:, 1])
    assert (code, told) == (2, None) and err.count("\n") == 1
    assert "--log: expected a sample with m.fit and m.brief, the rewards of the configuration, got right and " in err
    assert "style in " in err and err.endswith("; give the columns of the sample the names of the reward functions\n")


def test_a_reward_that_the_configuration_names_is_read_though_it_copies_another_one(capsys, tmp_path):
    marks = np.random.default_rng(5).normal(size=24)
    code, told, _ = scored(capsys, tmp_path, ["m.fit", "m.brief"], fit=marks, brief=marks)
    assert code == 0 and told["weights"] == {"fit": 1.0, "brief": 2.0}
    assert told["push"] == {"fit": pytest.approx(told["push"]["brief"]), "brief": pytest.approx(told["push"]["fit"])}


@pytest.mark.parametrize(("complete", "told"), [(True, False), (False, None)])
def test_no_key_is_known_to_fit_a_pattern_where_a_file_is_missing(complete, told):
    """A key that only has to be there is a rare one, which a missing file is taken not to hold."""
    known = Known({}, {}, complete=complete)
    assert known.holds([Condition(key="reward.*", equals=True)]) is told
    assert known.holds([Condition(key="reward.*", set=True)]) is False


def test_a_constant_sum_hides_nothing_from_gdpo_if_two_weights_have_one_size():
    names = ["a", "b"]
    assert [_even(names, w, weighted=True) for w in ([1, 1], [1, -1], [1, 2], [1, 0])] == [True, True, False, True]
    assert [_even(names, w, weighted=False) for w in ([1, 1], [1, -1], [1, 2])] == [True, False, False]
