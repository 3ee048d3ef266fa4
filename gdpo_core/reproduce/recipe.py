"""Moved to gdpo_core.runs.recipe."""  # shim: the lead removes it

from gdpo_core.advantages import method_for as prepared
from gdpo_core.runs.recipe import Log, Recipe, holds_lengths, read_log, starts_of

__all__ = ["Log", "Recipe", "holds_lengths", "prepared", "read_log", "starts_of"]
