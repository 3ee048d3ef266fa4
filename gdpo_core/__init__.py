"""GRPO and GDPO as the training frameworks compute them: advantages, their intermediates, and what they tell apart."""

from gdpo_core.advantages import METHODS, advantages, condition, gdpo, grpo, grpo_no_std
from gdpo_core.collapse import BrokenTies, Collapse, break_even_weight, broken_ties, collapse, update_share
from gdpo_core.conventions import CONVENTIONS, PAPER, TRL, Convention
from gdpo_core.errors import InputError
from gdpo_core.explain import Explanation, explain
from gdpo_core.policy import TrainingRun, train

__all__ = [
    "CONVENTIONS",
    "METHODS",
    "PAPER",
    "TRL",
    "BrokenTies",
    "Collapse",
    "Convention",
    "Explanation",
    "InputError",
    "TrainingRun",
    "advantages",
    "break_even_weight",
    "broken_ties",
    "collapse",
    "condition",
    "explain",
    "gdpo",
    "grpo",
    "grpo_no_std",
    "train",
    "update_share",
]
