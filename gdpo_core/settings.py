"""The lines of configuration that change what a run does with its rewards, for each framework.

Names of options as of TRL 1.16, verl 0.9.1, ms-swift 4.6, axolotl 0.19 and NeMo-RL of August 2026.
"""

import json
import re
from collections.abc import Sequence
from decimal import ROUND_UP, Context

from gdpo_core.errors import expect

FRAMEWORKS = ("trl", "verl", "ms_swift", "nemo_rl", "axolotl", "generic")


def switch_to_gdpo(
    framework: str, rewards: Sequence[str], weights: Sequence[float] | None = None, group_size: int | None = None
) -> str:
    """The lines that make a run of this framework use GDPO on these rewards; weights: one per reward, by default 1.

    If the weights differ, a comment says what they mean under GDPO. Raises InputError.

    >>> print(switch_to_gdpo("trl", ["correct", "format"], group_size=8))
    GRPOConfig(multi_objective_aggregation="normalize_then_sum", reward_weights=[1.0, 1.0], num_generations=8)
    # axolotl: rl: gdpo, trl.reward_weights: [1.0, 1.0]
    """
    w = _checked(framework, rewards, weights)
    lines = {
        "trl": [
            _trl('multi_objective_aggregation="normalize_then_sum"', f"reward_weights={w}", _trl_size(group_size)),
            f"# axolotl: rl: gdpo, trl.reward_weights: {w}",
        ],
        "verl": [
            "# the v1 trainer of verl 0.9 raises KeyError with gdpo; compute_score has to return the keys beside score",
            "algorithm.adv_estimator=gdpo trainer.use_v1=False reward.reward_manager.name=gdpo \\",
            f"  {_verl_rewards(rewards, w)}{_if(group_size, ' actor_rollout_ref.rollout.n={}')}",
        ],
        "ms_swift": [
            f"--scale_rewards gdpo --reward_weights {_spaced(w)}{_if(group_size, ' --num_generations {}')}",
        ],
        "nemo_rl": [
            "# leave-one-out is on by default; off, the formula is the paper's",
            _nemo_order(rewards),
            "grpo:",
            *_if(group_size, "  num_generations_per_prompt: {}\n").splitlines(),
            "  adv_estimator: {name: gdpo, normalize_rewards: true, use_leave_one_out_baseline: false, "
            f"reward_weights: {_alphabetical(rewards, w)}}}",
        ],
        "axolotl": [
            "rl: gdpo",
            f"trl: {{{_if(group_size, 'num_generations: {}, ')}reward_weights: {w}, log_completions: true}}",
        ],
        "generic": [f"gdpo_core.gdpo(rewards, weights={w})  # rewards: {_named(rewards)}"],
    }[framework]
    if len(set(w)) > 1:
        lines = [
            "# GDPO's weights multiply normalised rewards: take out of them what made up for a reward's scale",
            *lines,
        ]
    return "\n".join(lines)


def set_weights(framework: str, rewards: Sequence[str], weights: Sequence[float], method: str = "gdpo") -> str:
    """The lines that give the rewards these weights under this method, one per reward. Raises InputError.

    >>> print(set_weights("ms_swift", ["correct", "format"], [1, 0.5]))
    --reward_weights 1 0.5
    >>> print(set_weights("verl", ["correct", "format"], [1, 0.5], method="grpo"))
    # compute_score: GRPO sees the score alone
    return {"score": 1 * correct + 0.5 * format, "correct": correct, "format": format}
    """
    w = _checked(framework, rewards, weights)
    if framework in ("verl", "nemo_rl") and method != "gdpo":
        total = " + ".join(f"{x:g} * {_identifier(name)}" for name, x in zip(rewards, w, strict=True))
        if framework == "nemo_rl":
            return f"# the environment adds the rewards up: GRPO sees their total alone\ntotal = {total}"
        parts = "".join(f", {_text(name)}: {_identifier(name)}" for name in rewards)
        return f'# compute_score: GRPO sees the score alone\nreturn {{"score": {total}{parts}}}'
    return {
        "trl": f"{_trl(f'reward_weights={w}')}\n# axolotl: trl.reward_weights: {w}",
        "verl": _verl_rewards(rewards, w),
        "ms_swift": f"--reward_weights {_spaced(w)}",
        "nemo_rl": f"{_nemo_order(rewards)}\ngrpo: {{adv_estimator: {{reward_weights: {_alphabetical(rewards, w)}}}}}",
        "axolotl": f"trl: {{reward_weights: {w}}}",
        "generic": f"gdpo_core.{'gdpo' if method == 'gdpo' else 'grpo'}(rewards, weights={w})  # {_named(rewards)}",
    }[framework]


def set_group_size(framework: str, rollouts: int) -> str | None:
    """The line that sets the group size; None if the framework has no such setting. Raises InputError.

    >>> set_group_size("verl", 16)
    'actor_rollout_ref.rollout.n=16'
    """
    _known(framework)
    expect(isinstance(rollouts, int) and rollouts > 0, "rollouts", "a whole number from 1", repr(rollouts))
    return {
        "trl": _trl(f"num_generations={rollouts}"),
        "verl": f"actor_rollout_ref.rollout.n={rollouts}",
        "ms_swift": f"--num_generations {rollouts}",
        "nemo_rl": f"grpo: {{num_generations_per_prompt: {rollouts}}}",
        "axolotl": f"trl: {{num_generations: {rollouts}}}",
    }.get(framework)


def log_every_step(framework: str) -> str | None:
    """The lines that log the completions of every step; None if the framework always does. Raises InputError.

    >>> log_every_step("trl")
    'GRPOConfig(log_completions=True, logging_steps=1)'
    """
    _known(framework)
    return {
        "trl": _trl("log_completions=True", "logging_steps=1"),
        "ms_swift": "--log_completions true --logging_steps 1",
        "axolotl": "logging_steps: 1\ntrl: {log_completions: true}",
    }.get(framework)


def log_rewards(framework: str, rewards: Sequence[str] = ("accuracy", "format")) -> str:
    """The lines that make the log hold each reward, not only their total. Raises InputError.

    >>> print(log_rewards("verl"))
    trainer.use_v1=False trainer.rollout_data_dir=rollouts
    # compute_score: each key becomes a column of the dump
    return {"score": accuracy + format, "accuracy": accuracy, "format": format}
    """
    _known(framework)
    total = " + ".join(map(_identifier, rewards))
    parts = ", ".join(f"{_text(name)}: {_identifier(name)}" for name in rewards)
    columns = ", ".join(f"{_text(name)}: {_identifier(name)}_values" for name in rewards)
    own = (
        "# one row per response, where your own code knows the rewards\n"
        f'table = polars.DataFrame({{\n    "step": steps, "group": prompt_numbers,\n    {columns},\n}})\n'
        'table.write_parquet("rewards.parquet")'
    )
    return {
        "trl": f"{log_every_step('trl')}  # one function in reward_funcs for each reward",
        "verl": "trainer.use_v1=False trainer.rollout_data_dir=rollouts\n"
        "# compute_score: each key becomes a column of the dump\n"
        f'return {{"score": {total}, {parts}}}',
        "ms_swift": f"{log_every_step('ms_swift')} --reward_funcs {' '.join(rewards)}",
        "axolotl": f"{log_every_step('axolotl')}\n# trl.reward_funcs: one function for each reward",
    }.get(framework, own)


def keep_groups(framework: str) -> str | None:
    """The line that turns off the filter for groups whose summed reward is constant; None if GDPO has no such filter.

    >>> keep_groups("ms_swift"), keep_groups("trl")
    ('--dynamic_sample false', None)
    """
    _known(framework)
    return {
        "ms_swift": "--dynamic_sample false",
        "nemo_rl": "grpo: {use_dynamic_sampling: false}",
    }.get(framework)


def own_name(framework: str) -> str | None:
    """The lines that give a second reward function its own column in the log; None if columns have other names.

    >>> print(own_name("trl"))
    # a def has a name of its own; TRL names a functools.partial after the function inside
    def second_reward(**kwargs):
        return original(**kwargs)
    """
    _known(framework)
    function = (
        "# a def has a name of its own; TRL names a functools.partial after the function inside\n"
        "def second_reward(**kwargs):\n"
        "    return original(**kwargs)"
    )
    return {
        "trl": function,
        "axolotl": function,
        "ms_swift": "# in the reward plugin: the log has the name of the class\n"
        "class SecondReward(Original):\n"
        "    pass\n"
        'orms["second_reward"] = SecondReward',
    }.get(framework)


def no_evaluation(framework: str) -> str | None:
    """The line that keeps evaluations out of the training log; None if they never write there. Raises InputError.

    >>> no_evaluation("trl")
    'GRPOConfig(eval_strategy="no")'
    """
    _known(framework)
    return {
        "trl": _trl('eval_strategy="no"'),
        "ms_swift": "--eval_strategy no",
        "axolotl": "eval_strategy: 'no'",
    }.get(framework)


def gate(
    framework: str, rewards: Sequence[str], reward: str, on: str, threshold: float = 1.0, otherwise: float = 0.0
) -> str:
    """The lines that let `reward` count only where the reward `on` reaches the threshold (arXiv 2601.05242, eq. 8).

    otherwise: the value everywhere else; for a penalty its worst value, because 0 would be its best. The lines have it
    with three digits, rounded away from 0. Raises InputError.

    >>> print(gate("verl", ["correct", "short"], reward="short", on="correct"))
    # compute_score, before it returns: short counts only where correct reaches 1
    short = short if correct >= 1 else 0.0
    """
    _known(framework)
    for name, value in (("reward", reward), ("on", on)):
        expect(value in rewards, name, f"one of {', '.join(rewards)}", repr(value))
    gated, gating, t = _identifier(reward), _identifier(on), f"{threshold:g}"
    worst = float(Context(prec=3, rounding=ROUND_UP).create_decimal(f"{otherwise:.6g}")) + 0.0
    said = f"{reward} counts only where {on} reaches {t}"
    if worst:
        said += f"\n# {worst}: no better than its worst penalty so far"
    function = (
        f"# reward_funcs: in place of {gated}; {said}\n"
        f"def {gated}_gated(completions, **kwargs):\n"
        f"    given = dict(completions=completions, **kwargs)\n"
        f"    pairs = zip({gated}(**given), {gating}(**given))\n"
        f"    return [r if g is not None and g >= {t} else {worst} for r, g in pairs]"
    )
    place = {"verl": "compute_score, before it returns", "nemo_rl": "in the environment, before it returns the rewards"}
    if framework in place:
        return f"# {place[framework]}: {said}\n{gated} = {gated} if {gating} >= {t} else {worst}"
    if framework == "ms_swift":
        pairs = f"r if g is not None and g >= {t} else {worst} for r, g in zip({gated}, {gating})"
        return f"# in the reward plugin, lists with one value per completion: {said}\n{gated} = [{pairs}]"
    if framework == "generic":
        k, g = list(rewards).index(reward), list(rewards).index(on)
        if worst:
            return f"# {said}\nrewards[..., {k}] = torch.where(rewards[..., {g}] >= {t}, rewards[..., {k}], {worst})"
        return f"rewards = gdpo_core.condition(rewards, reward={k}, on={g}, threshold={t})  # {said}"
    return function


def _known(framework: str) -> None:
    expect(framework in FRAMEWORKS, "framework", f"one of {', '.join(FRAMEWORKS)}", repr(framework))


def _checked(framework: str, rewards: Sequence[str], weights: Sequence[float] | None) -> list[float]:
    _known(framework)
    expect(len(rewards) > 0, "rewards", "at least one name", "none")
    w = [1.0] * len(rewards) if weights is None else [float(f"{x:.6g}") for x in weights]
    expect(len(w) == len(rewards), "weights", f"{len(rewards)} numbers, one per reward", f"{len(w)}")
    return w


def _trl(*options: str) -> str:
    return f"GRPOConfig({', '.join(option for option in options if option)})"


def _trl_size(rollouts: int | None) -> str:
    return _if(rollouts, "num_generations={}")


def _if(value: int | None, text: str) -> str:
    return "" if value is None else text.format(value)


def _verl_rewards(rewards: Sequence[str], w: Sequence[float]) -> str:
    # The plus adds keys that verl's yaml does not have.
    keys = json.dumps(list(rewards), separators=(",", ":"), ensure_ascii=False)
    weights = json.dumps(list(w), separators=(",", ":"))
    return f"+algorithm.gdpo_reward_keys='{keys}' +algorithm.gdpo_reward_weights='{weights}'"


def _nemo_order(rewards: Sequence[str]) -> str:
    return f"# reward_weights in the alphabetical order of the rewards: {', '.join(sorted(rewards))}"


def _alphabetical(rewards: Sequence[str], w: Sequence[float]) -> list[float]:
    return [x for _, x in sorted(zip(rewards, w, strict=True))]


def _named(rewards: Sequence[str]) -> str:
    return ", ".join(rewards)


def _spaced(w: Sequence[float]) -> str:
    return " ".join(f"{x:g}" for x in w)


def _text(name: str) -> str:
    return json.dumps(name, ensure_ascii=False)


def _identifier(name: str) -> str:
    """The name as a Python identifier.

    >>> _identifier("my-reward"), _identifier("3rd")
    ('my_reward', '_3rd')
    """
    name = re.sub(r"\W", "_", name)
    return name if name.isidentifier() else f"_{name}"
