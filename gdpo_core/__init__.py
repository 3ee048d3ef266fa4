"""GRPO and GDPO as the training frameworks compute them, what they tell apart, and what they did in a run."""

from importlib import import_module
from typing import Any

from gdpo_core._errors import InputError
from gdpo_core.conventions import PAPER, Convention
from gdpo_core.counting import count_distinct, count_groups, enumerate_groups, group_advantages
from gdpo_core.frameworks import (
    AXOLOTL_ASYNC,
    AXOLOTL_STREAMING,
    CONVENTIONS,
    MS_SWIFT,
    NEMO_RL,
    NEMO_RL_LOO,
    NVLABS_TRL,
    TRL,
    VERL,
)
from gdpo_core.methods import METHODS, condition, gdpo, grpo, grpo_no_std
from gdpo_core.registry import advantages
from gdpo_core.steps import Explanation, explain
from gdpo_core.successors import SUCCESSORS
from gdpo_core.ties import (
    BrokenTies,
    Collapse,
    break_even_weight,
    break_even_weights,
    broken_ties,
    collapse,
    update_share,
)
from gdpo_core.training import TrainingRun, mean_field, mean_field_arms, train, train_arms

__all__ = [
    "AXOLOTL_ASYNC", "AXOLOTL_STREAMING", "CONVENTIONS", "METHODS", "MS_SWIFT", "NEMO_RL", "NEMO_RL_LOO",
    "NVLABS_TRL", "PAPER", "SUCCESSORS", "TRL", "VERL", "AuditReport", "BrokenTies", "Collapse", "Convention",
    "Explanation", "Finding", "InputError", "Run", "TrainingRun", "advantages", "advise", "audit",
    "break_even_weight", "break_even_weights", "broken_ties", "collapse", "condition", "count_distinct",
    "count_groups", "enumerate_groups", "explain", "gdpo", "group_advantages", "grpo", "grpo_no_std", "mean_field",
    "mean_field_arms", "read_run", "train", "train_arms", "update_share",
]  # fmt: skip

# What reads logs and writes reports needs polars, and is imported when it is used; `report` shows reports in notebooks.
_AUDIT = {
    "advise": "advice",
    "audit": "runs.audit",
    "AuditReport": "runs.audit_report",
    "Finding": "runs.facts",
    "read_run": "runs.read",
    "Run": "runs.run",
}


def __getattr__(name: str) -> Any:
    if name not in _AUDIT:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import_module("gdpo_core.report")
    return getattr(import_module(f"gdpo_core.{_AUDIT[name]}"), name)
