"""One record per training framework: its conventions and eps, the form of its logs, templates of its configuration.

Each record says where it was read: `name==version` a release, `owner/name@commit` a repository, both with file and
line; `owner/name#number` a thread. What was read was not run, but for the formulas that tests hold to recordings.
A note has this in brackets at its end.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from gdpo_core._errors import InputError, expect
from gdpo_core.conventions import NAMES, PAPER, Convention

_FUNCTION_WITH_GATE = """\
# reward_funcs: in place of $reward; $says
def ${reward}_gated(completions, **kwargs):
    given = dict(completions=completions, **kwargs)
    pairs = zip($reward(**given), $on(**given))
    return [r if g is not None and g >= $threshold else $otherwise for r, g in pairs]"""

_FUNCTION_WITH_NAME = """\
# a def has a name of its own; TRL names a functools.partial after the function inside
def second_reward(**kwargs):
    return original(**kwargs)"""

_OWN_TABLE = """\
# one row per response, where your own code knows the rewards
table = polars.DataFrame({
    "step": steps, "group": prompt_numbers,
    $value_columns,
})
table.write_parquet("rewards.parquet")"""

_SCALES = {"grpo": "group", "grpo_no_std": "none", "grpo_batch_std": "batch"}  # of TRL and ms-swift
_OWN_NAMES = {method: method for method in (*NAMES, "dvao", "gd2po", "corr_grpo")}

_AUDIT_SHOWS = "The report has to say “The logged advantages are GDPO as {} computes it”, with your weights."


@dataclass(frozen=True, kw_only=True)
class Lines:
    """Lines of configuration, in which `config_lines` fills in $weights, $rewards and other values; None: no such line.

    with_size: what $with_size stands for in `switch_to_gdpo`, where the group size is known.
    switch_to_other: to another method than GDPO; options: what $option stands for there, by method.
    set_grpo_weights: where the weights of the other methods are set elsewhere than GDPO's.
    gate_to: `gate`, where the value that takes the reward's place is not 0.
    """

    switch_to_gdpo: str
    with_size: str = ""
    switch_to_other: str
    options: Mapping[str, str]
    set_weights: str
    set_grpo_weights: str | None = None
    log_every_step: str | None = None  # None: no setting of the framework leaves steps out
    log_rewards: str = _OWN_TABLE
    keep_groups: str | None = None  # turns off the filter for groups whose summed reward is constant
    own_name: str | None = None  # gives a second reward function its own column in the log
    no_evaluation: str | None = None  # keeps evaluations out of the log
    log_whole_groups: str | None = None  # where a setting can make the log a sample of its groups
    gate: str
    gate_to: str | None = None


@dataclass(frozen=True, kw_only=True)
class Framework:
    """One training framework: its formulas, its log, its configuration, and what its users should know.

    >>> FRAMEWORKS["verl"].title, FRAMEWORKS["verl"].convention
    ('verl', 'verl')
    """

    id: str  # in `FORMS` too, which reads its log; axolotl's is read as TRL's
    title: str
    aliases: tuple[str, ...] = ()  # other names that `framework=` takes

    # Its formulas.
    conventions: Mapping[str, Convention] = field(default_factory=dict)  # its own, by their keys in CONVENTIONS
    convention: str  # the key of the one that it has unless the log shows otherwise
    found_in_logs: Mapping[str, Convention] = field(default_factory=dict)  # others that may have made its logs
    tries: tuple[str, ...] = ()  # keys to compare its logs with, the likeliest first; "*": all others; none: its own

    # Its log.
    read_as: str = ""  # the framework whose log its own looks like; "": a log of its own
    log_title: str = ""  # of a log in that form, where several write it; "": the title
    log_format: str = "jsonl"  # or parquet
    log_files: str = ""  # a pattern of their names
    total_only_because: str = ""  # why a log holds totals alone, and what to do

    # Facts that the findings rest on.
    logs_last_batch: bool = False  # of logging_steps; the batches between are dropped
    column_per_function: bool = False  # named after the function, so that two of one name become one column
    evaluation_overwrites: bool = False  # an evaluation writes into the file of its step
    grpo_reads_score_alone: bool = False  # the total that the reward function returns beside the rewards
    zero_std_metric: str | None = None  # its share of groups whose summed reward is constant
    zero_std_over_batch: bool = False  # that metric, where the last step of the method runs over the batch
    filter_option: str | None = None  # which turns on a filter for groups with a constant sum, GDPO's too
    not_gdpo_because: str = ""  # why its GDPO may not have run though it was asked for

    # Its configuration.
    lines: Lines

    # Where and how to use it.
    version: str  # that has GDPO
    read_in: str = ""  # what version and lines were read from
    log_place: str
    proof: str  # how to make sure that GDPO ran
    documentation: str = ""  # the address of its page on GRPO
    notes: tuple[str, ...] = ()

    @property
    def facts(self) -> list[tuple[str, str]]:
        """Its version and its notes, each with the places where it was read.

        >>> FRAMEWORKS["verifiers"].facts[-1]
        ('Its log keeps four decimals of an advantage.', 'verifiers==0.4.0')
        """
        notes = (note.removesuffix("]").rpartition(" [") for note in self.notes)
        version = [(f"GDPO: {self.version}.", self.read_in)] if self.read_in else []
        return [*version, *((says, read_in) for says, _, read_in in notes)]

    @property
    def counts_tokens(self) -> bool:
        """Whether its GDPO averages over tokens in the last step, so that it needs their number."""
        return CONVENTIONS[self.convention].last_step == "tokens"


_SYNC = "TRL 1.16, GRPOTrainer; axolotl's synchronous trainer"
TRL = Convention(name="TRL", source=_SYNC, group_eps=1e-4, batch_eps=1e-4)

TRL_RLOO = replace(TRL, name="TRL's RLOO", source="TRL 1.16, RLOOTrainer", mean_of_others=True)

_ASYNC = "TRL 1.16, experimental AsyncGRPOTrainer: rewards added without weights, numpy's std"
TRL_ASYNC = Convention(name="TRL's AsyncGRPO", source=_ASYNC, ddof=0, group_eps=1e-8, batch_eps=1e-8)

NVLABS_TRL = replace(
    TRL,
    name="NVlabs TRL fork",
    source="NVlabs/GDPO, January 2026, the authors' fork of TRL 0.18",
    missing_is_zero_in_gdpo=True,
    empty_counts=True,
    one_reward_is_grpo=True,
)

_TRL = Framework(
    id="trl",
    title="TRL",
    conventions={"trl": TRL, "nvlabs_trl": NVLABS_TRL},
    convention="trl",
    found_in_logs={"trl_rloo": TRL_RLOO},
    tries=("trl", "trl_rloo", "axolotl_async", "nvlabs_trl", "axolotl_streaming", "trl_async"),
    log_title="TRL or axolotl",
    log_format="parquet",
    log_files=r"(^|/)completions/[^/]+\.parquet$|(^|/)completions_\d+[^/]*\.parquet$",
    logs_last_batch=True,
    column_per_function=True,
    evaluation_overwrites=True,
    zero_std_metric="frac_reward_zero_std",
    zero_std_over_batch=True,  # trl==1.16.0 trl/trainer/grpo_trainer.py:2800
    not_gdpo_because="TRL needs multi_objective_aggregation; scale_rewards alone never makes GDPO. axolotl with "
    "context_parallel_size > 1 keeps running GRPO.",
    lines=Lines(
        switch_to_gdpo='GRPOConfig(multi_objective_aggregation="normalize_then_sum", '
        "reward_weights=$weights$with_size)\n# axolotl: rl: gdpo, trl.reward_weights: $weights",
        with_size=", num_generations=$size",
        switch_to_other='GRPOConfig(multi_objective_aggregation="sum_then_normalize", scale_rewards="$option", '
        "reward_weights=$weights)\n# axolotl: rl: grpo, trl.scale_rewards, trl.reward_weights: $weights",
        options=_SCALES,
        set_weights="GRPOConfig(reward_weights=$weights)\n# axolotl: trl.reward_weights: $weights",
        log_every_step="GRPOConfig(log_completions=True, logging_steps=1)",
        log_rewards="GRPOConfig(log_completions=True, logging_steps=1)  # one function in reward_funcs for each reward",
        own_name=_FUNCTION_WITH_NAME,
        no_evaluation='GRPOConfig(eval_strategy="no")',
        log_whole_groups="GRPOConfig(log_unique_prompts=False, num_completions_to_print=None)\n"
        "# older versions: wandb_log_unique_prompts=False",
        gate=_FUNCTION_WITH_GATE,
    ),
    version="0.27 or later, the log from 0.28",
    read_in="huggingface/trl@v0.27.0 trl/trainer/grpo_trainer.py:2045, "
    "huggingface/trl@v0.28.0 trl/trainer/grpo_trainer.py:2182, trl==1.16.0 trl/trainer/grpo_trainer.py:2790",
    documentation="https://huggingface.co/docs/trl/grpo_trainer",
    log_place="OUTPUT_DIR/completions",
    proof=_AUDIT_SHOWS.format("TRL"),
    notes=(
        "apply_gdpo=True, which many texts name, exists only in the authors' fork of TRL 0.18. [NVlabs/GDPO@b080e63 "
        "trl-GDPO/trl-0.18.0-gdpo/trl/trainer/grpo_config.py:442]",
        'log_completions_hub_repo="OWNER/NAME" also pushes the log to a data set on the Hub, public without '
        "hub_private_repo=True, which gdpo audit hf://datasets/OWNER/NAME is made to read. [trl==1.16.0 "
        "trl/trainer/grpo_trainer.py:1220, trl==1.16.0 trl/trainer/grpo_config.py:373]",
        "unsloth 2026.10.9 takes TRL up to 1.15.0, and GDPO by this line. Under context parallelism it raises "
        "NotImplementedError. [unsloth==2026.10.9 unsloth/models/rl_replacements.py:4617, unsloth==2026.10.9 "
        "unsloth/context_parallel.py:1316]",
    ),
)


VERL = Convention(
    name="verl",
    source="verl 0.9.1, compute_gdpo_outcome_advantage and masked_whiten",
    group_eps=1e-6,
    batch_eps=1e-8,
    batch_eps_to="variance",
    last_step="tokens",
    missing="propagates",
    group_of_one="raw",
)

# The plus adds keys that verl's yaml does not have.
_VERL_WEIGHTS = "+algorithm.gdpo_reward_keys='$json_rewards' +algorithm.gdpo_reward_weights='$json_weights'"

_VERL_SCORE = '# compute_score: GRPO sees the score alone\nreturn {"score": $weighted_sum, $items}'

_VERL = Framework(
    id="verl",
    title="verl",
    conventions={"verl": VERL},
    convention="verl",
    log_files=r"(^|/)\d+\.jsonl$",
    total_only_because="verl's v1 trainer (0.9.1) dumps only the score; its legacy trainer also dumps every key that "
    "compute_score returns.",
    grpo_reads_score_alone=True,
    lines=Lines(
        switch_to_gdpo="# the v1 trainer of verl 0.9 raises KeyError with gdpo; compute_score has to return the keys "
        "beside score\nalgorithm.adv_estimator=gdpo trainer.use_v1=False reward.reward_manager.name=gdpo \\\n"
        f"  {_VERL_WEIGHTS}$with_size",
        with_size=" actor_rollout_ref.rollout.n=$size",
        switch_to_other=f"algorithm.adv_estimator=grpo algorithm.norm_adv_by_std_in_grpo=$option\n{_VERL_SCORE}",
        options={"grpo": "True", "grpo_no_std": "False"},
        set_weights=_VERL_WEIGHTS,
        set_grpo_weights=_VERL_SCORE,
        log_rewards="trainer.use_v1=False trainer.rollout_data_dir=rollouts\n"
        '# compute_score: each key becomes a column of the dump\nreturn {"score": $sum, $items}',
        gate="# compute_score, before it returns: $says\n$reward = $reward if $on >= $threshold else $otherwise",
    ),
    version="0.7.1 or later, legacy trainer",
    read_in="verl-project/verl@v0.7.1 verl/trainer/ppo/core_algos.py:413, "
    "verl==0.9.1 verl/trainer/ppo/ray_trainer.py:261, verl==0.9.1 verl/trainer/config/algorithm.py:672",
    documentation="https://verl.readthedocs.io/en/latest/algo/grpo.html",
    log_place="rollouts",
    proof="The dump holds no advantages, so the audit shows shares and ties, not the method. Look for "
    "adv_estimator=gdpo in the configuration that verl prints when it starts, and for metrics gdpo/NAME/mean; without "
    "the reward keys 0.9.1 stops with an error.",
    notes=(
        "Its default trainer, v1, raises KeyError with gdpo, hence use_v1=False; the legacy one warns at its start "
        "that it will be removed. Releases 0.7.1 and 0.8 have no trainer.use_v1: leave it out there. [verl==0.9.1 "
        "verl/trainer/ppo/v1/utils.py:167, verl==0.9.1 verl/trainer/main_ppo.py:189, verl-project/verl@v0.8.0 "
        "verl/trainer/config/algorithm.py:668]",
        "Its v1 trainer dumps the score alone; a change that adds what compute_score returns was open in September "
        "2026. [verl==0.9.1 verl/trainer/ppo/v1/trainer_base.py:1300, verl-project/verl#7588]",
        "Its last step counts tokens, so long responses count for more, and a group without any signal can get "
        "advantages. [verl==0.9.1 verl/trainer/ppo/core_algos.py:466]",
    ),
)


MS_SWIFT = Convention(
    name="ms-swift", source="ms-swift 4.6.0", group_eps=1e-8, grpo_eps=1e-4, batch_eps=1e-8, empty_counts=True
)

MS_SWIFT_RLOO = replace(
    MS_SWIFT, name="ms-swift's rloo", source="ms-swift 4.6.0, advantage_estimator rloo", mean_of_others=True
)

_MS_SWIFT = Framework(
    id="ms_swift",
    title="ms-swift",
    aliases=("swift",),
    conventions={"ms_swift": MS_SWIFT},
    convention="ms_swift",
    found_in_logs={"ms_swift_rloo": MS_SWIFT_RLOO},
    tries=("ms_swift", "ms_swift_rloo", "trl", "axolotl_async", "nvlabs_trl"),
    log_files=r"(^|/)completions\.jsonl$",
    logs_last_batch=True,
    column_per_function=True,
    zero_std_metric="frac_reward_zero_std",
    filter_option="--dynamic_sample",
    not_gdpo_because="Under advantage_estimator reinforce_plus_plus, and in its multi-turn path with split "
    "trajectories, ms-swift centres the sum without dividing it.",
    lines=Lines(
        switch_to_gdpo="--scale_rewards gdpo --reward_weights $spaced_weights$with_size",
        with_size=" --num_generations $size",
        switch_to_other="--scale_rewards $option --reward_weights $spaced_weights",
        options=_SCALES,
        set_weights="--reward_weights $spaced_weights",
        log_every_step="--log_completions true --logging_steps 1",
        log_rewards="--log_completions true --logging_steps 1 --reward_funcs $spaced_rewards",
        keep_groups="--dynamic_sample false",
        own_name="# in the reward plugin: the log has the name of the class\n"
        'class SecondReward(Original):\n    pass\norms["second_reward"] = SecondReward',
        no_evaluation="--eval_strategy no",
        gate="# in the reward plugin, lists with one value per completion: $says\n"
        "$reward = [r if g is not None and g >= $threshold else $otherwise for r, g in zip($reward, $on)]",
    ),
    version="4.0 or later",
    read_in="modelscope/ms-swift@v4.0.0 swift/rlhf_trainers/args_mixin.py:344, "
    "ms-swift==4.6.0 swift/rlhf_trainers/args_mixin.py:418",
    documentation="https://swift.readthedocs.io/en/latest/Instruction/GRPO/GetStarted/GRPO.html",
    log_place="OUTPUT_DIR/completions.jsonl",
    proof=_AUDIT_SHOWS.format("ms-swift"),
    notes=(
        "With multi-turn runs split into several trajectories it silently uses the centred sum, not GDPO. "
        "[ms-swift==4.6.0 swift/rlhf_trainers/grpo_trainer.py:503]",
        "It switches kl_in_reward off under GDPO, with a warning only. [ms-swift==4.6.0 "
        "swift/rlhf_trainers/grpo_trainer.py:2166]",
    ),
)


_WITHOUT = "NeMo-RL, August 2026, use_leave_one_out_baseline false"
NEMO_RL = Convention(name="NeMo-RL", source=_WITHOUT, group_eps=1e-6, missing="propagates")

_DEFAULT = "NeMo-RL, August 2026 with #4158 of September, its default"  # before it, round-off divides (notes below)
NEMO_RL_LOO = replace(NEMO_RL, name="NeMo-RL, leave-one-out", source=_DEFAULT, leave_one_out=True)

_NEMO_ORDER = (
    "# reward_weights: read by main since 21 July 2026, not by 0.6 and 0.7, which weigh all rewards alike\n"
    "# in the alphabetical order of the rewards: $sorted_rewards"
)

_NEMO_TOTAL = "# the environment adds the rewards up: GRPO sees their total alone\ntotal = $weighted_sum"

_NEMO_RL = Framework(
    id="nemo_rl",
    title="NeMo-RL",
    aliases=("nemo",),
    conventions={"nemo_rl": NEMO_RL, "nemo_rl_loo": NEMO_RL_LOO},
    convention="nemo_rl",
    tries=("nemo_rl_loo", "nemo_rl"),
    log_files=r"(^|/)train_data_step\d+\.jsonl$",
    total_only_because="NeMo-RL logs only the total: write the rewards down where your environment computes them.",
    filter_option="grpo.use_dynamic_sampling",
    lines=Lines(
        switch_to_gdpo=f"# leave-one-out is on by default; off, the formula is the paper's\n{_NEMO_ORDER}\n"
        "grpo:$with_size\n  adv_estimator: {name: gdpo, normalize_rewards: true, use_leave_one_out_baseline: false, "
        "reward_weights: $sorted_weights}",
        with_size="\n  num_generations_per_prompt: $size",
        switch_to_other="grpo: {adv_estimator: {name: grpo, normalize_rewards: $option, "
        f"use_leave_one_out_baseline: false}}}}\n{_NEMO_TOTAL}",
        options={"grpo": "true", "grpo_no_std": "false"},
        set_weights=f"{_NEMO_ORDER}\ngrpo: {{adv_estimator: {{reward_weights: $sorted_weights}}}}",
        set_grpo_weights=_NEMO_TOTAL,
        keep_groups="grpo: {use_dynamic_sampling: false}",
        gate="# in the environment, before it returns the rewards: $says\n"
        "$reward = $reward if $on >= $threshold else $otherwise",
    ),
    version="0.6 or later; weights on main only",
    read_in="NVIDIA-NeMo/RL@v0.6.0 nemo_rl/algorithms/advantage_estimator.py:77, "
    "NVIDIA-NeMo/RL@9f701f0 nemo_rl/algorithms/advantage_estimator.py:96",
    documentation="https://docs.nvidia.com/nemo/rl/latest/guides/grpo.html",
    log_place="rewards.parquet",
    proof="Its own dump holds a total alone, from which next to nothing can be told; write the rewards yourself, as "
    "the lines for the log do.",
    notes=(
        "Leave-one-out, its default, compares each response with the others alone. These lines switch it off, as its "
        "guide to GDPO does. [NVIDIA-NeMo/RL@7ea279a docs/guides/grpo.md:717]",
        "Releases 0.6 and 0.7 call the rewards reward1, reward2 and so on, in the order of the environment, and read "
        "no reward_weights. main calls them reward/NAME and takes one weight for each, in alphabetical order. Both "
        "need two rewards at least. [NVIDIA-NeMo/RL@v0.7.0 nemo_rl/algorithms/advantage_estimator.py:91, "
        "NVIDIA-NeMo/RL@7ea279a nemo_rl/algorithms/advantage_estimator.py:145, NVIDIA-NeMo/RL#2680]",
        "Its leave-one-out changed in September 2026: where all others agree nothing is divided. Up to 0.7 the std "
        "there is what float32 leaves of a difference of squares, and an advantage can be in the thousands. "
        "[NVIDIA-NeMo/RL@v0.7.0 nemo_rl/algorithms/utils.py:188, NVIDIA-NeMo/RL#4158]",
        "It writes no dump under env.should_log_nemo_gym_responses=true. [NVIDIA-NeMo/RL@7ea279a "
        "nemo_rl/algorithms/grpo.py:3632]",
    ),
)


AXOLOTL_ASYNC = replace(
    TRL, name="axolotl, asynchronous", source="axolotl 0.19.0, asynchronous GRPO trainer", empty_counts=True
)

_STREAMING = "axolotl 0.19.0, asynchronous GRPO trainer that scores group by group"
AXOLOTL_STREAMING = replace(
    AXOLOTL_ASYNC, name="axolotl, async streaming", source=_STREAMING, last_step="group", group_of_one="nan"
)

_AXOLOTL = Framework(
    id="axolotl",
    title="axolotl",
    conventions={"axolotl_async": AXOLOTL_ASYNC, "axolotl_streaming": AXOLOTL_STREAMING},
    convention="trl",
    read_as="trl",
    lines=Lines(
        switch_to_gdpo="rl: gdpo\ntrl: {${with_size}reward_weights: $weights, log_completions: true}",
        with_size="num_generations: $size, ",
        switch_to_other="rl: grpo\ntrl: {scale_rewards: $option, reward_weights: $weights, log_completions: true}",
        options={"grpo": "true", "grpo_no_std": "false"},
        set_weights="trl: {reward_weights: $weights}",
        log_every_step="logging_steps: 1\ntrl: {log_completions: true}",
        log_rewards="logging_steps: 1\ntrl: {log_completions: true}\n# trl.reward_funcs: one function for each reward",
        own_name=_FUNCTION_WITH_NAME,
        no_evaluation="eval_strategy: 'no'",
        gate=_FUNCTION_WITH_GATE,
    ),
    version="0.13.2 or later, the log from 0.15",
    read_in="axolotl-ai-cloud/axolotl@v0.13.2 src/axolotl/core/builders/rl.py:163, "
    "axolotl-ai-cloud/axolotl@v0.15.0 requirements.txt:19",
    documentation="https://docs.axolotl.ai/docs/rlhf.html",
    log_place="OUTPUT_DIR/completions",
    proof=_AUDIT_SHOWS.format("TRL"),
    notes=(
        "With context_parallel_size above 1 it silently runs GRPO, whatever rl says. [axolotl==0.19.0 "
        "axolotl/core/trainers/grpo/trainer.py:607]",
        "Its asynchronous streaming trainer takes the last step group by group, which is another method. "
        "[axolotl==0.19.0 axolotl/core/trainers/grpo/async_trainer.py:2315]",
    ),
)


_VERIFIERS = Framework(
    id="verifiers",
    title="verifiers",
    convention="paper",  # it scores; a trainer makes the advantages, prime-rl by the sum that is centred alone
    tries=("paper", "*"),
    log_files=r"(^|/)traces\.jsonl$",
    total_only_because="Each @vf.reward of a task is logged by its name: give each its own instead of their sum.",
    lines=Lines(
        switch_to_gdpo="# in the trainer, which gets trace.rewards: $names\ngdpo_core.gdpo(rewards, weights=$weights)",
        switch_to_other="# in the trainer, which gets trace.rewards: $names\n"
        'gdpo_core.advantages(rewards, "$option", weights=$weights)',
        options=_OWN_NAMES,
        set_weights="# the weight of each @vf.reward: $names\nweights = $weights",
        log_rewards="# a method of the task for each reward; traces.jsonl has them all, with their weights\n"
        "@vf.reward(weight=1.0)",
        gate="# in the task's @vf.reward, before it returns: $says\n"
        "$reward = $reward if $on >= $threshold else $otherwise",
    ),
    version="gdpo_core, in the trainer",
    documentation="https://github.com/PrimeIntellect-ai/verifiers",
    log_place="OUTPUT_DIR/traces.jsonl",
    proof="The log has every reward with its weight. Where the trainer writes its advantages into the traces too, the "
    "report says which method they are.",
    notes=(
        "verifiers scores; the trainer makes the advantages. prime-rl, of the same makers, has no GDPO: its grpo "
        "subtracts the group's mean from the total and divides by nothing, its max_rl then divides by that mean. "
        "[PrimeIntellect-ai/prime-rl@559b447 src/prime_rl/orchestrator/algo/grpo.py:30, "
        "PrimeIntellect-ai/prime-rl@559b447 src/prime_rl/orchestrator/algo/max_rl.py:26]",
        "Its log keeps four decimals of an advantage. [verifiers==0.4.0]",
    ),
)


def _own_code(ddof: int, eps: float) -> Convention:
    """What code of one's own does that follows the paper, with another std or with an eps."""
    library = ("numpy", "torch")[ddof]
    name = f"own code with {library}'s std" + (f" + {eps:g}" if eps else "")
    source = f"every std with ddof {ddof}, {library}'s default"
    return Convention(name=name, source=source, ddof=ddof, group_eps=eps, batch_eps=eps)


_OWN_CODE = {"numpy": _own_code(0, 0.0)}
_OWN_CODE |= {f"numpy_{eps:g}": _own_code(0, eps) for eps in (1e-8, 1e-6, 1e-4, 1e-5, 1e-9)}
_OWN_CODE |= {f"torch_{eps:g}": _own_code(1, eps) for eps in (1e-8, 1e-6, 1e-5, 1e-9)}

_GENERIC = Framework(
    id="generic",
    title="your own code",
    convention="paper",
    found_in_logs=_OWN_CODE | {"trl_async": TRL_ASYNC},  # after own code, which may compute just so
    tries=("paper", "trl", "ms_swift", "verl", "nemo_rl", "nemo_rl_loo", "axolotl_async", "axolotl_streaming", "*"),
    log_title="a table of another kind",
    total_only_because="The run has to log each reward in a column of its own.",
    lines=Lines(
        switch_to_gdpo="gdpo_core.gdpo(rewards, weights=$weights)  # rewards: $names",
        switch_to_other='gdpo_core.advantages(rewards, "$option", weights=$weights)  # $names',
        options=_OWN_NAMES,
        set_weights="gdpo_core.gdpo(rewards, weights=$weights)  # $names",
        set_grpo_weights="gdpo_core.grpo(rewards, weights=$weights)  # $names",
        gate="rewards = gdpo_core.condition(rewards, reward=$reward_number, on=$on_number, threshold=$threshold)  "
        "# $says",
        gate_to="# $says\nrewards[..., $reward_number] = torch.where(rewards[..., $on_number] >= $threshold, "
        "rewards[..., $reward_number], $otherwise)",
    ),
    version="gdpo_core",
    log_place="rewards.parquet",
    proof="The report shows shares and ties; with a column “advantage” in the table also the method.",
    notes=(
        "SkyRL, OpenRLHF, slime, miles, tunix, prime-rl, ROLL, EasyR1 and AReaL had no GDPO. [their main branches of "
        "May to August 2026]",
    ),
)


_RECORDS = (_TRL, _VERL, _MS_SWIFT, _NEMO_RL, _AXOLOTL, _VERIFIERS, _GENERIC)
FRAMEWORKS: Mapping[str, Framework] = {f.id: f for f in _RECORDS}
CONVENTIONS: Mapping[str, Convention] = dict([("paper", PAPER), *(x for f in _RECORDS for x in f.conventions.items())])
# And those that nobody chooses here, but that may have made a log.
ALL_CONVENTIONS: Mapping[str, Convention] = {
    **CONVENTIONS,
    **{key: convention for f in _RECORDS for key, convention in f.found_in_logs.items()},
}
READABLE = tuple(f.id for f in FRAMEWORKS.values() if not f.read_as)  # a log in their form has a reader


def framework_named(name: object) -> str:
    """The framework whose reader a log needs that was written by the framework of this name, in any spelling.

    >>> framework_named("MS-Swift"), framework_named("axolotl")
    ('ms_swift', 'trl')
    """
    key = name.strip().lower().replace("-", "_").replace(" ", "_") if isinstance(name, str) else ""
    for framework in FRAMEWORKS.values():
        if key in (framework.id, *framework.aliases):
            return framework.read_as or framework.id
    raise InputError(f"framework: expected one of {', '.join(readable_with_writers())}, got {name!r}")


def readable_with_writers() -> list[str]:
    """The frameworks that can be read, each with the others that write the same: "trl (axolotl)"."""
    others = {key: [f.id for f in FRAMEWORKS.values() if f.read_as == key] for key in READABLE}
    return [f"{key} ({', '.join(same)})" if same else key for key, same in others.items()]


def conventions_to_try(framework: str) -> tuple[str, ...]:
    """The keys of the conventions that may have made the log of a framework, the likeliest first.

    >>> conventions_to_try("nemo_rl")
    ('nemo_rl_loo', 'nemo_rl')
    """
    expect(framework in READABLE, "framework", f"one of {', '.join(READABLE)}", repr(framework))
    tries = FRAMEWORKS[framework].tries or (FRAMEWORKS[framework].convention,)
    others = [key for key in ALL_CONVENTIONS if key not in tries]
    return tuple(key for one in tries for key in (others if one == "*" else [one]))
