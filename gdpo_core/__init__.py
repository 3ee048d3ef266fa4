"""GRPO and GDPO as the training frameworks compute them, what they tell apart, and what they did in a run.

A name is imported when it is first used, so that `gdpo --help` need not wait for torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gdpo_core._public import *

__all__ = [
    "AXOLOTL_ASYNC",
    "AXOLOTL_STREAMING",
    "CONVENTIONS",
    "METHODS",
    "MS_SWIFT",
    "NEMO_RL",
    "NEMO_RL_LOO",
    "NVLABS_TRL",
    "PAPER",
    "SUCCESSORS",
    "TRL",
    "VERL",
    "AuditReport",
    "BrokenTies",
    "Collapse",
    "Convention",
    "Explanation",
    "Finding",
    "InputError",
    "Run",
    "TrainingRun",
    "advantages",
    "advise",
    "audit",
    "break_even_weight",
    "break_even_weights",
    "broken_ties",
    "collapse",
    "condition",
    "count_distinct",
    "count_groups",
    "enumerate_groups",
    "explain",
    "gdpo",
    "group_advantages",
    "grpo",
    "grpo_no_std",
    "mean_field",
    "mean_field_arms",
    "read_run",
    "train",
    "train_arms",
    "update_share",
]


# What a board needs, from its own module: 0.2 instead of 0.9 s with those that read logs and write reports.
_PLACES = {
    "_errors": "InputError",
    "conventions": "PAPER Convention",
    "frameworks": "AXOLOTL_ASYNC AXOLOTL_STREAMING CONVENTIONS MS_SWIFT NEMO_RL NEMO_RL_LOO NVLABS_TRL TRL VERL",
    "methods": "METHODS condition gdpo grpo grpo_no_std",
    "registry": "advantages",
    "steps": "Explanation explain",
    "successors": "SUCCESSORS",
    "ties": "BrokenTies Collapse break_even_weight break_even_weights broken_ties collapse update_share",
}
_PLACE = {name: module for module, names in _PLACES.items() for name in names.split()}


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"gdpo_core.{_PLACE.get(name, '_public')}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
