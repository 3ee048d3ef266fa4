"""The configuration of a run that lies beside its log, ms-swift's args.json: its method and its weights."""

import json
from collections.abc import Mapping, Sequence

from gdpo_audit.logs.files import LogFile
from gdpo_core._errors import InputError

SWIFTS_METHODS = {"gdpo": "gdpo", "group": "grpo", "none": "grpo_no_std", "batch": "grpo_batch_std"}


def settings_in(file: LogFile | None) -> dict:
    """Return the configuration in args.json; an empty one if the file is missing or cannot be read."""
    try:
        settings = json.loads(file.content()) if file else {}
    except (ValueError, InputError):
        return {}
    return settings if isinstance(settings, dict) else {}


def configured_weights(settings: Mapping, logged: Sequence[str], rewards: Sequence[str]) -> dict[str, float] | None:
    """Return ms-swift's weights by the names of the rewards; None if the configuration has none that fit.

    ms-swift has one weight per reward function, in the order of the logged columns.

    >>> configured_weights({"reward_weights": [1, 0.5]}, ["MathAccuracy", "Format"], ["Format"])
    {'Format': 0.5}
    """
    if "reward_weights" not in settings:
        return None
    weights = [1] * len(logged) if settings["reward_weights"] is None else settings["reward_weights"]
    fits = isinstance(weights, list) and len(weights) == len(logged) and {*rewards} <= {*logged}
    if not fits or not all(isinstance(w, int | float) and abs(w) < 1e300 for w in weights):
        return None
    by_name = dict(zip(logged, weights, strict=True))
    return {name: float(by_name[name]) for name in rewards}
