"""Lines of a trainer's configuration for a method and weights: the templates of frameworks.toml, filled in.

Weights are written with six significant digits. InputError is raised for an unknown framework or method, for no
rewards or names that are no texts, where the number of weights is not that of the rewards, and for a weight that is not
finite.
"""

import json
from collections.abc import Sequence
from decimal import ROUND_UP, Context
from keyword import iskeyword
from string import Template
from unicodedata import normalize

from gdpo_core.frameworks import FRAMEWORKS
from gdpo_core.registry import method_named
from gdpo_core.shared.errors import expect, expect_count, is_finite
from gdpo_core.shared.words import printable


def switch_to_gdpo(
    framework: str,
    rewards: Sequence[str],
    weights: Sequence[float] | None = None,
    group_size: int | None = None,
    *,
    of_grpo: bool = True,
    whole_batch: bool = False,
) -> str:
    """Return the lines of configuration that make a run of this framework use GDPO on these rewards.

    framework: a key of FRAMEWORKS.
    rewards: the names of the rewards.
    weights: one per reward, by default 1.
    group_size: the number of rollouts per prompt, which the lines set if it is given.
    of_grpo: whether the weights were chosen for GRPO; if so and if they differ, a comment says what weights mean under
        GDPO.
    whole_batch: whether the lines set a batch of one whole group per process too, if the group size is given. Some
        trainers do not start where the batch is no multiple of the group.

    Raises InputError for an unknown framework, for no rewards, for names that are no texts, for weights that are not
    one finite number per reward, and for a group size that is not a whole number from 1 to 999,999,999.

    >>> print(switch_to_gdpo("trl", ["correct", "format"], group_size=8))
    GRPOConfig(multi_objective_aggregation="normalize_then_sum", reward_weights=[1.0, 1.0], num_generations=8)
    # axolotl: rl: gdpo, trl.reward_weights: [1.0, 1.0]
    """
    lines = FRAMEWORKS[framework].lines
    if group_size is not None:
        expect_count(group_size, "group_size")
    with_size = "" if group_size is None else Template(lines.with_size).substitute(size=group_size)
    batch = lines.with_batch if whole_batch and group_size is not None else ""
    with_batch = Template(batch).substitute(size=group_size)
    sizes = {"with_size": with_size, "with_batch": with_batch}
    text = Template(lines.switch_to_gdpo).substitute(_values(rewards, weights), **sizes)
    differ = of_grpo and weights is not None and len({f"{float(w):.6g}" for w in weights}) > 1
    why = "# GDPO's weights multiply normalised rewards: take out of them what made up for a reward's scale\n"
    return why * differ + text


def switch_to(
    framework: str, rewards: Sequence[str], weights: Sequence[float], method: str, *, of_grpo: bool = True
) -> str | None:
    """Return the lines of configuration that make a run of this framework use this method; None if none are known.

    framework: a key of FRAMEWORKS.
    rewards, weights: the name and the weight of each.
    of_grpo: whether the weights were chosen for GRPO, which changes the lines for GDPO alone (see `switch_to_gdpo`).

    Raises InputError for an unknown method or framework. If lines are known, it is also raised for no rewards, for
    names that are no texts, and for weights that are not one finite number per reward.

    >>> print(switch_to("ms_swift", ["correct", "format"], [1, 0.5], "grpo_no_std"))
    --scale_rewards none --reward_weights 1 0.5
    """
    method_named(method)  # raises InputError for an unknown one
    if method == "gdpo":
        return switch_to_gdpo(framework, rewards, weights, of_grpo=of_grpo)
    lines = FRAMEWORKS[framework].lines
    option = method if lines.options is None else lines.options.get(method)
    return option and Template(lines.switch_to_other).substitute(_values(rewards, weights), option=option)


def set_weights(framework: str, rewards: Sequence[str], weights: Sequence[float], method: str = "gdpo") -> str:
    """Return the lines of configuration that give the rewards these weights, one per reward, under this method.

    framework: a key of FRAMEWORKS.
    rewards: the names of the rewards.
    method: "gdpo", or any other one, for which some frameworks set the weights elsewhere.

    Raises InputError for an unknown method or framework, for no rewards, for names that are no texts, and for weights
    that are not one finite number per reward.

    >>> print(set_weights("ms_swift", ["correct", "format"], [1, 0.5]))
    --reward_weights 1 0.5
    >>> print(set_weights("verl", ["correct", "format"], [1, 0.5], method="grpo"))
    # compute_score: GRPO sees the score alone
    return {"score": 1 * correct + 0.5 * format, "correct": correct, "format": format}
    """
    method_named(method)  # raises InputError for an unknown one
    lines = FRAMEWORKS[framework].lines
    line = lines.set_weights if method == "gdpo" else lines.set_grpo_weights or lines.set_weights
    return Template(line).substitute(_values(rewards, weights))


def log_rewards(framework: str, rewards: Sequence[str] = ("accuracy", "format")) -> str:
    """Return the lines of configuration that make the log hold each reward and not only their total.

    framework: a key of FRAMEWORKS. Where no such lines are known for it, the lines for training code of one's own come
        back.
    rewards: the names of the rewards.

    Raises InputError for an unknown framework, for no rewards, and for names that are no texts.

    >>> print(log_rewards("verl"))
    trainer.use_v1=False trainer.rollout_data_dir=rollouts
    # compute_score: each key becomes a column of the dump
    return {"score": accuracy + format, "accuracy": accuracy, "format": format}
    """
    line = FRAMEWORKS[framework].lines.log_rewards or FRAMEWORKS["generic"].lines.log_rewards or ""
    return Template(line).substitute(_values(rewards))


def log_whole_groups(framework: str) -> str | None:
    """Return the lines of configuration that make the log hold every response of a group.

    The result is None where no such lines are needed or known.

    framework: a key of FRAMEWORKS.

    Raises InputError for an unknown framework.

    >>> print(log_whole_groups("trl"))
    GRPOConfig(log_unique_prompts=False, num_completions_to_print=None)
    # older versions: wandb_log_unique_prompts=False
    """
    return FRAMEWORKS[framework].lines.log_whole_groups


def gate(
    framework: str,
    rewards: Sequence[str],
    reward: str,
    on: str,
    threshold: float = 1.0,
    otherwise: float = 0.0,
    at_most: bool = False,
) -> str:
    """Return the lines of configuration that let `reward` count only where the reward `on` reaches the threshold.

    framework: a key of FRAMEWORKS.
    rewards: the names of all rewards.
    threshold: the least value of `on` with which `reward` counts. The lines give it with all of its digits.
    at_most: whether the threshold is the largest value of `on` with which `reward` counts, and not the least.
    otherwise: the value of `reward` wherever `on` does not reach the threshold. For a penalty `otherwise` should be its
        worst value, because 0 would be its best. The lines give `otherwise` with three significant digits, rounded away
        from 0.

    Raises InputError for an unknown framework, for no rewards, for names that are no texts, if `reward` or `on` is none
    of the rewards, and for a threshold or `otherwise` that is not finite. Source: arXiv 2601.05242, eq. 8.

    >>> print(gate("verl", ["correct", "short"], reward="short", on="correct"))
    # compute_score, before it returns: short counts only where correct reaches 1
    short = short if correct >= 1 else 0.0
    """
    lines = FRAMEWORKS[framework].lines
    identifiers = _identifiers(rewards)
    for name, value in (("reward", reward), ("on", on)):
        expect(value in rewards, name, f"one of {', '.join(rewards)}", repr(value))
    for name, number in (("threshold", threshold), ("otherwise", otherwise)):
        expect(is_finite(number), name, "a finite number", repr(number))
    reached = _exact(float(threshold))
    worst = float(Context(prec=3, rounding=ROUND_UP).create_decimal(f"{float(otherwise):.6g}")) + 0.0
    reaches = "is at most" if at_most else "reaches"
    says = f"{_in_comment(reward)} counts only where {_in_comment(on)} {reaches} {reached}"
    says += f"\n# {worst}: no better than its worst penalty so far" * bool(worst)
    names = {"reward": identifiers[reward], "on": identifiers[on], "threshold": reached, "otherwise": f"{worst}"}
    names |= {"reaches": "<=" if at_most else ">="}
    numbers = {"reward_number": list(rewards).index(reward), "on_number": list(rewards).index(on)}
    return Template((lines.gate_to if worst or at_most else None) or lines.gate).substitute(names, says=says, **numbers)


def _values(rewards: Sequence[str], weights: Sequence[float] | None = None) -> dict[str, str]:
    """Return a dict from the name of each placeholder of the templates to the text that takes its place.

    The texts are the names of the rewards and their weights, by default 1 each, in the spellings of different
    frameworks. Raises InputError for no rewards, for names that are no texts, and for weights that are not one finite
    number per reward.
    """
    named = _identifiers(rewards)
    weights = [1.0] * len(rewards) if weights is None else weights
    weights = weights.tolist() if hasattr(weights, "tolist") else weights
    wanted, listed = f"{len(rewards)} numbers, one per reward", isinstance(weights, Sequence)
    expect(listed and not isinstance(weights, str), "weights", wanted, repr(weights))
    expect(len(weights) == len(rewards), "weights", wanted, f"{len(weights)}")
    for number in weights:
        expect(is_finite(number), "weights", "finite numbers", repr(number))
    w = [float(f"{float(x):.6g}") for x in weights]
    identifiers = [named[name] for name in rewards]
    keys = [(json.dumps(name, ensure_ascii=False), named[name]) for name in rewards]
    ordered = sorted(zip(rewards, w, strict=True))
    return {
        "names": ", ".join(map(_in_comment, rewards)),
        "spaced_rewards": " ".join(rewards),
        "json_rewards": json.dumps(list(rewards), separators=(",", ":"), ensure_ascii=False).replace("'", r"'\''"),
        "sorted_rewards": ", ".join(_in_comment(name) for name, _ in ordered),
        "weights": f"{w}",
        "spaced_weights": " ".join(f"{x:g}" for x in w),
        "json_weights": json.dumps(w, separators=(",", ":")),
        "sorted_weights": f"{[x for _, x in ordered]}",
        "sum": " + ".join(identifiers),
        "weighted_sum": " + ".join(f"{x:g} * {name}" for x, name in zip(w, identifiers, strict=True)),
        # The total of verl's rewards has the key "score", so that a reward of this name cannot have it as well.
        "items": ", ".join(f"{key}: {name}" for key, name in keys if key != '"score"'),
        "value_columns": ", ".join(f"{key}: {name}_values" for key, name in keys),
    }


def _exact(x: float) -> str:
    """Return a number as text that Python reads as just this number: with six significant digits if they are enough.

    >>> _exact(1.0), _exact(2 / 3), _exact(1000001.0)
    ('1', '0.6666666666666666', '1000001.0')
    """
    return f"{x:g}" if float(f"{x:g}") == x else repr(x)


def _in_comment(name: str) -> str:
    """Return a name on one line, as it stands in a comment: with line breaks and other control characters spelled out,
    but for tabs, which end no comment.

    >>> _in_comment("two\\nlines")
    'two\\\\nlines'
    """
    return "\t".join(map(printable, name.split("\t"))).replace("\n", r"\n")


def _identifiers(rewards: Sequence[str]) -> dict[str, str]:
    """Return a dict from the name of each reward to a Python identifier for it, another one for each name.

    A name that is an identifier stays as it is. Another one gets a _ in place of each character that may not stand in
    an identifier, a _ before a digit at its beginning, and a _ at its end as long as it is a keyword of Python or the
    identifier of another name. Raises InputError for no names, for equal ones, and for anything
    but a sequence of texts.

    >>> _identifiers(["a-b", "a_b", "3rd", "class"])
    {'a-b': 'a_b_', 'a_b': 'a_b', '3rd': '_3rd', 'class': 'class_'}
    """
    listed = isinstance(rewards, Sequence) and not isinstance(rewards, str)
    expect(listed and all(isinstance(name, str) for name in rewards), "rewards", "a list of names", repr(rewards))
    expect(len(rewards) > 0, "rewards", "at least one name", "none")
    expect(len({*rewards}) == len(rewards), "rewards", "different names", repr(rewards))
    identifiers = {name: name for name in rewards if name.isidentifier() and not iskeyword(name)}
    # Python reads an identifier in the form NFKC, in which two names that look different can be equal.
    identifiers = {name: name for name in identifiers if normalize("NFKC", name) == name}
    used = {*identifiers}
    for name in rewards:
        if name not in identifiers:
            text = "".join(c if f"_{c}".isidentifier() else "_" for c in normalize("NFKC", name))
            text = text if text.isidentifier() else f"_{text}"
            while iskeyword(text) or text in used:
                text += "_"
            identifiers[name] = text
            used.add(text)
    return {name: identifiers[name] for name in rewards}
