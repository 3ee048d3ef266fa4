"""Moved to gdpo_core.runs.recipe."""  # shim: the lead removes it

import torch
from torch import Tensor

from gdpo_core.advantages import method_for as prepared
from gdpo_core.runs.recipe import TOLERANCE, Log, Recipe, float32_error, holds_lengths, read_log, starts_of

__all__ = [
    "TOLERANCE",
    "Log",
    "Recipe",
    "float32_error",
    "holds_lengths",
    "off_by",
    "prepared",
    "read_log",
    "starts_of",
]


def off_by(logged: Tensor, computed: Tensor) -> Tensor:
    """New code: recipe.compare_with(log, method, batch).error."""
    error = (logged - computed.flatten()).abs()
    return error.nan_to_num_(nan=torch.inf, posinf=torch.inf).masked_fill_(logged.isnan(), torch.nan)
