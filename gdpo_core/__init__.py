"""The public functions of the core: GRPO, GDPO and related methods, as training frameworks compute them.

The functions compute advantages and explain each step of a computation. They tell which responses the advantages no
longer tell apart, and count how many different advantages are possible. They also train small policies, and check
configurations of trainers.
"""

from typing import TYPE_CHECKING

from gdpo_core.shared.errors import InputError
from gdpo_core.shared.lazy import names_on_demand
from gdpo_core.shared.moved import answer_old_paths

if TYPE_CHECKING:
    from gdpo_core.checking.check import ConfigCheck, check_config
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
    from gdpo_core.pushing import push
    from gdpo_core.registry import advantages
    from gdpo_core.steps import Explanation, explain
    from gdpo_core.successors import SUCCESSORS
    from gdpo_core.ties import (
        BrokenTies,
        Collapse,
        break_even_weights,
        broken_ties,
        collapse,
        update_share,
    )
    from gdpo_core.training import TrainingRun, mean_field, train

__all__ = [
    "AXOLOTL_ASYNC", "AXOLOTL_STREAMING", "CONVENTIONS", "METHODS", "MS_SWIFT", "NEMO_RL", "NEMO_RL_LOO",
    "NVLABS_TRL", "PAPER", "SUCCESSORS", "TRL", "VERL", "BrokenTies", "Collapse", "ConfigCheck", "Convention",
    "Explanation", "InputError", "TrainingRun", "advantages", "break_even_weights", "broken_ties", "check_config",
    "collapse", "condition", "count_distinct", "count_groups", "enumerate_groups", "explain", "gdpo",
    "group_advantages", "grpo", "grpo_no_std", "mean_field", "push", "train", "update_share",
]  # fmt: skip

# What is imported when it is first used: the check of a configuration and the help of `gdpo` wait for no torch.
_MODULES = {
    "gdpo_core.checking.check": "ConfigCheck check_config",
    "gdpo_core.conventions": "Convention PAPER",
    "gdpo_core.counting": "count_distinct count_groups enumerate_groups group_advantages",
    "gdpo_core.frameworks": "AXOLOTL_ASYNC AXOLOTL_STREAMING CONVENTIONS MS_SWIFT NEMO_RL NEMO_RL_LOO NVLABS_TRL TRL "
    "VERL",
    "gdpo_core.methods": "METHODS condition gdpo grpo grpo_no_std",
    "gdpo_core.pushing": "push",
    "gdpo_core.registry": "advantages",
    "gdpo_core.steps": "Explanation explain",
    "gdpo_core.successors": "SUCCESSORS",
    "gdpo_core.ties": "BrokenTies Collapse break_even_weights broken_ties collapse update_share",
    "gdpo_core.training": "TrainingRun mean_field train",
}
answer_old_paths()
if not TYPE_CHECKING:
    __getattr__ = names_on_demand(__name__, _MODULES)


def __dir__() -> list[str]:
    """Return the names of the package, also those that were not used yet."""
    return sorted({*globals(), *__all__})
