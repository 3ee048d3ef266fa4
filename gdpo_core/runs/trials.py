"""Other settings of a run, tried on the run's own log: no report recommends what it has not tried."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from numbers import Real
from typing import TYPE_CHECKING, Annotated, TypedDict

import numpy as np
import polars as pl
import torch
from msgspec import Meta
from torch import Tensor

from gdpo_core import config_lines
from gdpo_core._errors import expect
from gdpo_core._groups import Reduction, skipping_missing
from gdpo_core._statistics import centre
from gdpo_core.frameworks import RECOGNISED
from gdpo_core.registry import method_for
from gdpo_core.runs.recipe import tensors_of
from gdpo_core.runs.summarise import summarise
from gdpo_core.runs.sums import Array, Sums, merge

if TYPE_CHECKING:
    from gdpo_core.runs.facts import Facts  # which tries settings by `sums_under`

MOST = 20_000  # responses on which a setting is tried: all of a smaller log, else whole batches from all over the run
_ROUNDS, _EXACT, _REACHED = 200, 1e-4, 0.01  # of the search for weights: where it ends, and which shares are reached
_LEAST = 1e-3  # of the largest product of weight and spread: with smaller weights a reward could as well be left out


@dataclass(frozen=True)
class Gate:
    """A reward that counts only where another one reaches a threshold; both are indices."""

    reward: int
    on: int
    threshold: float
    fallback: float  # what stands in its place everywhere else


@dataclass(frozen=True)
class Trial:
    """What a run could have used."""

    method: str
    weights: tuple[float, ...]
    gates: tuple[Gate, ...] = ()


class WeightsForShares(TypedDict):
    """Weights under which a method gives rewards their wanted shares of the update."""

    method: str
    weights: dict[str, float]
    update_share: Annotated[dict[str, float], Meta(description="What they give on this log.")]
    reached: Annotated[bool, Meta(description="false: no weights give the wanted shares; these come nearest.")]
    fix: Annotated[str, Meta(description="The lines of configuration that set them.")]


@dataclass
class Sample:
    """Whole batches from all over a run, whose tables come one after the other.

    >>> sample = Sample()
    >>> sample.add(pl.DataFrame({"batch": [0, 0, 1, 1], "group": [0, 0, 1, 1]}))
    >>> sample.every, [len(table) for table in sample.tables]
    (1, [4])
    """

    tables: list[pl.DataFrame] = field(default_factory=list)
    every: int = 1  # of so many batches by number, one is here

    def add(self, table: pl.DataFrame) -> None:
        """Take what is needed of one more table."""
        self.tables.append(_every(table, self.every))
        while sum(map(len, self.tables)) > MOST and self._batches > 1:
            self.every *= 2
            self.tables = [_every(table, self.every) for table in self.tables]
        if self._batches == 1 and sum(map(len, self.tables)) > MOST:  # one batch alone is too large: its first groups
            whole = pl.concat(self.tables)
            ends = whole["group"].rle().struct.field("len").cum_sum()
            self.tables = [whole.head(max(ends.filter(ends <= MOST).max() or 0, ends[0]))]

    @property
    def _batches(self) -> int:
        return sum(table["batch"].n_unique() for table in self.tables)


def _every(table: pl.DataFrame, number: int) -> pl.DataFrame:
    return table if number == 1 else table.filter(pl.col("batch") % number == 0)


def sums_under(f: "Facts", setting: Trial) -> Sums[Array]:
    """The sums over the sample of a run under another setting. Raises InputError."""
    plan = replace(f.plan, weights=setting.weights, recipe=None, also=setting.method, examples_of=None)
    tables = [_apply_gates(table, f.rewards, setting.gates) for table in f.sample]
    return merge([summarise(table.drop("advantage", strict=False), plan) for table in tables]).batches


def _apply_gates(table: pl.DataFrame, rewards: Sequence[str], gates: Sequence[Gate]) -> pl.DataFrame:
    """The table with the rewards as they are behind their gates; a missing reward stays missing."""
    behind = []
    for gate in gates:
        reward, on = pl.col(rewards[gate.reward]), pl.col(rewards[gate.on])
        reached = on.is_not_nan() & (on >= gate.threshold)
        behind.append(pl.when(reached | reward.is_nan()).then(reward).otherwise(gate.fallback))
    return table.with_columns(behind)


# --- weights for wanted shares ---------------------------------------------------------------------------------------


def weights_for(f: "Facts", method: str, wanted: Mapping[int, float]) -> tuple[float, ...] | None:
    """Weights under which the method gives each of these rewards its wanted share of the update; None: there are none.

    wanted: shares that sum to 1, by the index of their reward; the other rewards keep their weight beside the first
    of these. Signs stay, and the largest of these weights stays as large as it is. A share is Σ_u w_k (M_u w)_k / d_u²
    beside Σ_u w'M_u w / d_u², over the units u that one number d_u divides, with the products M_u of the terms there.
    """
    products, divisors = _products(f, method)
    keys = list(wanted)
    sign = np.sign(np.where(np.array(f.plan.weights) == 0, 1.0, f.plan.weights))
    target = np.array([wanted.get(k, 0.0) for k in range(len(sign))])
    spread = np.sqrt(np.einsum("ukk->k", products))
    if not keys or (spread[keys] == 0).any():
        return None
    size = np.divide(target > 0, spread, out=np.zeros_like(spread), where=spread > 0)
    for _ in range(_ROUNDS):
        w = sign * size
        parts = w * np.einsum("ukl,l->uk", products, w)
        by = np.ones(len(parts)) if divisors is None else np.einsum("k,ukl,l->u", w, divisors, w)
        inverse = np.divide(1.0, by, out=np.zeros_like(by), where=by > 0)
        share = (parts * inverse[:, None]).sum(0)
        share = share / share.sum() if share.sum() > 0 else share
        if np.abs(share - target).max() <= _EXACT:
            break
        # A share goes by about the square of its weight; steps stay small where rewards are correlated.
        size *= np.clip(target / np.maximum(share, 1e-3), 0.25, 4.0) ** 0.25
        loud = size * spread
        size = np.where(target > 0, np.maximum(loud, _LEAST * loud.max()) / np.where(spread > 0, spread, 1), 0.0)
    largest = max(abs(f.plan.weights[k]) for k in keys) or 1.0
    found = np.where(target > 0, sign * size * largest / size.max(), f.plan.weights)
    return tuple(float(f"{x:.3g}") for x in found)


def _products(f: "Facts", method: str) -> tuple[Array, Array | None]:
    """(units, rewards, rewards) Σ x_k x_l of the terms, and what makes d² of the weights; None: nothing is divided."""
    c = RECOGNISED[f.plan.convention]
    by_group = method == "grpo" or (method == "gdpo" and c.last_step == "group")
    products, divisors = [], []
    for table in f.sample:
        log = tensors_of(table, f.rewards)
        batch = log.read(replace(c, last_step="responses"))
        formula, batch = method_for("gdpo" if method == "gdpo" else "grpo_no_std", batch)
        z = formula.in_groups(batch).z
        terms = _centre(batch.rewards, batch.group) if z is None else z.nan_to_num()
        unit = log.group_of_response if by_group else log.batch_of_response
        products.append(_in_units(terms.flatten(1), unit))
        # The batch's std is that of the sums themselves, whose means differ from group to group.
        whole = _centre(batch.rewards, batch.all_responses) if method == "grpo_batch_std" else terms
        degrees = (unit.bincount() - 1).clamp(min=1).numpy()
        divisors.append(_in_units(whole.flatten(1), unit) / degrees[:, None, None])
    return np.concatenate(products), None if method == "grpo_no_std" else np.concatenate(divisors)


def _centre(x: Tensor, over: Reduction) -> Tensor:
    return centre(x, skipping_missing(over))[1].nan_to_num()


def _in_units(x: Tensor, unit: Tensor) -> Array:
    """(units, rewards, rewards) Σ x_k x_l; x: (rewards, responses)."""
    pairs = torch.einsum("kj,lj->jkl", x, x)
    return pairs.new_zeros(int(unit.max()) + 1, *pairs.shape[1:]).index_add_(0, unit, pairs).numpy()


def weights_for_shares(f: "Facts", targets: Mapping[str, float]) -> list[WeightsForShares]:
    """The weights that give rewards their wanted shares of the update, under GRPO, GDPO and the run's own method.

    targets: shares by name; the other rewards have the rest, as their weights ask for. The shares are those of the
    sample under the weights found: the nearest ones where rewards are too correlated. Raises InputError.
    """
    wanted = _target_shares(f, targets)
    rows: list[WeightsForShares] = []
    for method in dict.fromkeys(["grpo", "gdpo", f.method]):
        weights = weights_for(f, method, wanted)
        if weights is not None:
            shares = f.try_setting(Trial(method, weights)).shares(method)
            lines = config_lines.set_weights(f.run.framework, f.rewards, weights, method)
            by_name = [dict(zip(f.rewards, values, strict=True)) for values in (weights, shares)]
            reached = all(abs(shares[k] - share) <= _REACHED for k, share in wanted.items())
            rows.append(
                {"method": method, "weights": by_name[0], "update_share": by_name[1], "reached": reached, "fix": lines}
            )
    return rows


def _target_shares(f: "Facts", targets: Mapping[str, float]) -> dict[int, float]:
    """The wanted share of each reward that has one, by index. Raises InputError."""
    for name, share in targets.items():
        expect(name in f.rewards, "target share", f"the name of a reward: {', '.join(f.rewards)}", repr(name))
        number = isinstance(share, Real) and not isinstance(share, bool) and 0 < share < 1
        expect(number, f"target share of {name}", "a number between 0 and 1", repr(share))
        dead = f.as_it_ran.dead(f.rewards.index(name)) == 1
        expect(not dead, f"target share of {name}", "a reward that differs in some group", "one that never does")
    due = {k: f.as_it_ran.due_share(k) for k, name in enumerate(f.rewards) if name not in targets}
    due = {k: share for k, share in due.items() if share > 0}
    total = sum(targets.values())
    fits = total < 1 if due else abs(total - 1) < 1e-6
    rest = "less than 1, as other rewards have the rest" if due else "1, as no other reward can have the rest"
    expect(fits, "target shares", f"shares that sum to {rest}", f"{total:g}")
    named = {f.rewards.index(name): float(share) for name, share in targets.items()}
    return named | {k: (1 - total) * share / sum(due.values()) for k, share in due.items()}
