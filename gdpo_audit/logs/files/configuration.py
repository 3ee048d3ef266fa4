"""The configuration of a run that ms-swift writes beside its log, args.json: its method and its weights."""

import json
from collections.abc import Mapping, Sequence

from gdpo_audit.logs.files.files import LogFile
from gdpo_core._errors import InputError

# The method that each value of ms-swift's argument scale_rewards asks for.
SWIFTS_METHODS = {"gdpo": "gdpo", "group": "grpo", "none": "grpo_no_std", "batch": "grpo_batch_std"}


def arguments_in(file: LogFile | None) -> dict:
    """Return the arguments of a run in its args.json, by name.

    The dict is empty if `file` is None, if it cannot be read, or if it does not hold a JSON object.
    """
    try:
        arguments = json.loads(file.content()) if file else {}
    except (ValueError, InputError):
        return {}
    return arguments if isinstance(arguments, dict) else {}


def configured_weights(arguments: Mapping, logged: Sequence[str], rewards: Sequence[str]) -> dict[str, float] | None:
    """Return the weights that ms-swift's arguments give to these rewards, by name; None if they give none that fit.

    They give none without `reward_weights`. They fit only if they are a list of one number per column of `logged`, and
    if all of the rewards are in `logged`. A null in place of the list stands for weights of 1.
    arguments: the content of args.json, which has one weight per reward function.
    logged: all columns of reward functions, in the order of the log, which is also the order of the weights.
    rewards: the columns that are wanted.

    >>> configured_weights({"reward_weights": [1, 0.5]}, ["MathAccuracy", "Format"], ["Format"])
    {'Format': 0.5}
    """
    if "reward_weights" not in arguments:
        return None
    weights = [1] * len(logged) if arguments["reward_weights"] is None else arguments["reward_weights"]
    fits = isinstance(weights, list) and len(weights) == len(logged) and {*rewards} <= {*logged}
    if not fits or not all(isinstance(w, int | float) and abs(w) < 1e300 for w in weights):
        return None
    by_name = dict(zip(logged, weights, strict=True))
    return {name: float(by_name[name]) for name in rewards}
