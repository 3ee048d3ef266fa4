"""Sums over the logged advantages, and over their distance from those of a recipe, per batch."""

from collections.abc import Sequence

import polars as pl
import torch

from gdpo_core.reproduce import compare, hidden_inputs, same_direction
from gdpo_core.reproduce.recipe import Log, Recipe
from gdpo_core.summary.sums import Grouped, Sums


def logged_sums(of: Grouped, log: Log, table: pl.DataFrame, rewards: Sequence[str], recipe: Recipe | None) -> Sums:
    """Sums over the logged advantages; log and table hold the same responses.

    Without a recipe no row counts as off. max_error is −∞ where nothing is compared.
    """
    logged = log.advantages.view(of.batch.rewards.shape[1:])
    there, a = ~logged.isnan(), logged.nan_to_num(nan=0.0)
    error, off = torch.full_like(a, -torch.inf), torch.zeros_like(there)
    if recipe is not None and bool(there.any()):
        errors, allowed = compare(table, rewards, recipe)
        error = errors.view_as(a).masked_fill(~there, -torch.inf)
        off = (errors > allowed).view_as(a) & there
    off_in_group = of.over_groups(off.to(a)).long()
    same = torch.zeros_like(off_in_group).bool()
    if recipe is not None and bool(off.any()):
        same = same_direction(table, rewards, recipe)
    hidden = torch.zeros(of.batches, dtype=torch.int64)
    # Costly, and of interest only where the rewards do not explain the advantages.
    if bool(there.any()) and (recipe is None or bool(off.any())) and hidden_inputs(table, rewards):
        parts = table.partition_by("batch", maintain_order=True)
        hidden = torch.tensor([hidden_inputs(part, rewards) for part in parts])
    return of.sums(
        logged=of.over_groups(there.to(a)).long(),
        logged_missing=of.over_groups((~there).to(a)).long() * ("advantage" in table.columns),
        logged_zero=of.over_groups((logged == 0).to(a)).long(),
        logged_total=of.over_groups(a),
        logged_squares=of.over_groups(a.square()),
        rows_off=off_in_group,
        groups_off=off_in_group > 0,
        groups_off_same_direction=same & (off_in_group > 0),
    ) | {"hidden_groups": hidden, "max_error": -of.lowest_of_batch(of.lowest(-error))}
