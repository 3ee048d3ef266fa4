"""Sums over the advantages of each method, per batch: ties, update shares, silent groups and inversions."""

from collections.abc import Sequence

import torch
from torch import Tensor

from gdpo_core.batch import whole
from gdpo_core.collapse import update_parts
from gdpo_core.pairs import blocks, ordered, told_apart
from gdpo_core.reproduce.recipe import prepared
from gdpo_core.summary.sums import Grouped, Sums


def method_sums(of: Grouped, methods: Sequence[str], primary: int | None, same: float, dead: Tensor) -> Sums:
    """Sums over the advantages of each method.

    methods: GRPO, GRPO without std and GDPO among them. primary: the index of the primary reward. same: as in
    `told_apart`. dead: (rewards, groups) whether a reward is constant.
    """
    there = ~of.batch.rewards.isnan().all(0)  # a response without any reward only counts for silent groups
    advantages, known, silent = dict[str, Tensor](), dict[str, Tensor](), dict[str, Tensor]()
    found: Sums = {}
    for method in methods:
        formula, batch = prepared(method, of.batch)
        steps = formula(batch)
        a = batch.learnt(steps.advantages)
        advantages[method], silent[method] = a.flatten(), of.silent(a)
        # A missing reward that makes an advantage NaN does so in its whole group.
        known[method] = of.over_groups((a.isnan() & there).to(a)) == 0
        found |= of.sums(
            **{f"{method}_silent_groups": silent[method], f"{method}_squares": of.over_groups(a.nan_to_num().square())}
        )
        found |= {
            f"{method}_part_{k}": part
            for k, part in enumerate(update_parts(batch, steps.z, a, batch.batches or whole(a)))
        }
        if method == "gdpo":
            # Under some conventions GRPO makes the advantages of a single reward.
            before = steps.sums if steps.z is not None else a

    rewards, kept = of.batch.rewards.flatten(1), there.flatten()
    parts = list(blocks(of.batch.group_index(), None if of.batch.index is not None else there.shape[-1]))
    told = told_apart(parts, rewards, kept, advantages, same)
    mixed = told.vectors > 1
    found |= of.sums(
        mixed_groups=mixed, different_pairs=told.pairs, vectors=told.vectors * mixed, dead_mixed=dead & mixed
    )
    for method, counted in known.items():
        tied, seen = told.tied[method] * counted, mixed & counted
        sums = {
            "tie_groups": tied > 0,
            "tied_pairs": tied,
            "levels": told.levels[method] * seen,
            "mixed_groups": seen,
            "different_pairs": told.pairs * counted,
            "vectors": told.vectors * seen,
        }
        found |= of.sums(**{f"{method}_{name}": x for name, x in sums.items()})
    found |= _signal_sums(of, before, silent["grpo_no_std"])
    if primary is None:
        zero = torch.zeros_like(told.pairs)
        names = [f"{m}_{name}" for m in methods for name in ("primary_pairs", "inverted", "tied_primary")]
        return found | of.sums(**dict.fromkeys(("primary_pairs", *names), zero))
    order = ordered(parts, rewards[primary].masked_fill(~kept, torch.nan), told.level)
    for method, counted in known.items():
        sums = {
            "primary_pairs": order.pairs * counted,
            "inverted": order.inverted[method] * counted,
            "tied_primary": order.tied[method] * counted,
        }
        found |= of.sums(**{f"{method}_{name}": x for name, x in sums.items()})
    return found | of.sums(primary_pairs=order.pairs)


def _signal_sums(of: Grouped, s: Tensor, flat: Tensor) -> Sums:
    """Sums over s, GDPO's advantages before its step over the batch; flat: (groups,) whether Σ w·r is constant."""
    flat = flat | (of.over_groups(torch.ones_like(s)) == 1)
    live = ~of.silent(s.nan_to_num())
    return of.sums(
        live_groups=live,
        live_responses=of.over_groups((~s.isnan()).to(s)).long() * live,
        gdpo_sum_squares=of.over_groups(s.nan_to_num().square()),
        zero_sum_std_groups=flat,
        filtered_groups=flat & live,
    )
