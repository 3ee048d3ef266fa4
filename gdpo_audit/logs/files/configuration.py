"""Files that lie beside the log of a run: its method and weights in ms-swift's args.json, and the steps at which it was
evaluated in trainer_state.json.
"""

import json
from collections.abc import Mapping, Sequence

from gdpo_audit.logs.files.directories import STATE
from gdpo_audit.logs.files.files import LogFile
from gdpo_core.shared.errors import InputError

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


def evaluated_steps(file: LogFile) -> tuple[int, ...]:
    """Return the steps at which a run was evaluated, in order, from the trainer_state.json in the folder of its log or
    in one of the two folders above; () if there is no such file, or if it names none.

    file: a file of the log.
    """
    folders = [] if file.path is None else file.path.absolute().parents[:3]
    for folder in folders:
        try:
            history = json.loads((folder / STATE).read_bytes())["log_history"]
            named = {int(entry["step"]) for entry in history if any(name.startswith("eval_") for name in entry)}
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            continue
        return tuple(sorted(named))
    return ()
