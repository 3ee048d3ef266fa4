"""All that `gdpo_core` offers, from where it is: `gdpo_core` imports this module when the first name is used."""

from gdpo_core import report as _report
from gdpo_core._errors import InputError
from gdpo_core.advice import advise
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
from gdpo_core.runs.audit import audit
from gdpo_core.runs.audit_report import AuditReport
from gdpo_core.runs.facts import Finding
from gdpo_core.runs.read import read_run
from gdpo_core.runs.run import Run
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
