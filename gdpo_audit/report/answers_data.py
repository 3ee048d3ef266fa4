"""The data in a report from which answers.js computes other settings in the browser: the groups of the run."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace
from itertools import groupby
from operator import itemgetter
from typing import Any

import numpy as np
import polars as pl

from gdpo_audit.facts.facts import Facts
from gdpo_audit.logs.groups.run import batches_from_all_over
from gdpo_audit.logs.names import reward_column
from gdpo_audit.recipe.recipe import starts_of
from gdpo_audit.sums.group_sums import token_lengths
from gdpo_audit.sums.summarise import DIGITS, in_float32
from gdpo_audit.sums.sums import select_batches
from gdpo_audit.trials.what_if import WhatIfSetting, figures_under, lines_and_notes
from gdpo_core.conventions import COMPARED
from gdpo_core.frameworks import ALL_CONVENTIONS

# The most characters of the data: `_ROOM` for a run of up to `_OF_GROUPS` groups, in proportion more for a longer one,
# and never more than `_MOST`.
_ROOM, _OF_GROUPS, _MOST = 200_000, 1_200, 1_500_000
# The first of the numbers that stand for weights in lines of configuration: answers.js replaces each by the reader's.
_PLACE = 90_000


def data_of(f: Facts, tables: Iterable[pl.DataFrame]) -> dict[str, Any] | str:
    """Return the data from which answers.js computes other settings, or a sentence that says why there can be none.

    The data are the rewards of all groups of the run, with the setting and the figures that the run had. If the groups
    are too many, the data have only the rewards of some whole batches, from all over the run. There are no data in
    three cases:

    - the log lacks a reward;
    - the convention compares each response only with the others of its group;
    - a single batch is too large.

    f: the facts of the run.
    tables: the tables of the run, read anew.
    """
    convention = ALL_CONVENTIONS[f.basis.convention]
    if f.lacks_a_reward:
        return "The log lacks a reward, so this report cannot tell what another setting would have done."
    if convention.leave_one_out:
        return f"{convention.name} compares each response only with the others, which only --what-if computes."
    groups = int(f.totals.groups)
    room = min(_ROOM * max(1.0, groups / _OF_GROUPS), _MOST)
    counted, tokens = pl.col("batch").is_in(f.batches.batch.tolist()), convention.last_step == "tokens"
    most = int(room)  # the most rows, as each takes more than a character
    rows = batches_from_all_over((_vectors(table.filter(counted), f.rewards, tokens) for table in tables), most)
    while len(json.dumps(held := _written(rows, len(f.rewards)), separators=(",", ":"))) > room:
        most = sum(map(len, rows)) * 2 // 3
        if sum(map(len, rows := batches_from_all_over(rows, most))) > most:
            return "A batch of this log is too large for a file that computes other settings; --what-if does."
    batches = np.unique(np.concatenate([table["batch"].to_numpy() for table in rows]))
    sample = replace(f, batches=select_batches(f.batches, np.isin(f.batches.batch, batches)))
    skips = {"sum_eps": convention.sum_eps, "skips": convention.missing == "skipped"}
    return held | _setting(f) | {"convention": asdict(convention) | skips, "of": groups, "off": _largest(f, sample)}


def _largest(f: Facts, sample: Facts) -> float:
    """Return the largest difference between a figure of the whole run and the same figure of a sample of it.

    Both figures are computed under the run's own weights, for each of the methods in COMPARED. 0 where no figure is
    known.
    """
    both = ([x for m in COMPARED for x in _figures(facts, m)] for facts in (f, sample))
    return max((abs(x - y) for x, y in zip(*both, strict=True) if x == x and y == y), default=0.0)


def _figures(f: Facts, method: str) -> tuple[float, ...]:
    """Return all figures of a run under a method that change when a reader sets other weights or another method.

    First come the shares of the update of all rewards, then the pushes on all rewards. Then comes for each reward the
    share of its good responses that the method punishes. The last four are the shares of groups that have ties, of
    pairs that are tied, of groups that are silent, and of pairs in the wrong order.
    """
    by_reward = *f.shares(method), *f.push(method), *f.punished(method)
    return *by_reward, f.ties(method), f.tied_pairs(method), f.silent(method), f.inversions(method)


def _setting(f: Facts) -> dict[str, Any]:
    """Return a dict of what answers.js needs, apart from the rewards of the groups, to show other settings than the
    run's own.

    It holds, among other things, the names and weights of the rewards and the figures that the run had. "method" is the
    one that is chosen at first: the run's, or GRPO if the run's is not in COMPARED. "lines" has the lines of
    configuration of each method in COMPARED. In these lines, the number `_PLACE` + k stands for the weight of the
    reward with index k; answers.js puts the reader's weight in its place.
    """
    basis = replace(f.basis, weights=tuple((_PLACE + k) / f.unit for k in range(len(f.rewards))))
    told = {m: lines_and_notes(f, WhatIfSetting(m, {}, None), m, basis) for m in COMPARED}
    return {
        "names": f.rewards,
        "alike": [name in f.alike for name in f.rewards],
        "primary": f.basis.primary,
        "wanted": f.wanted,
        "unit": f.unit,
        "weights": f.printed(f.basis.weights),
        "method": f.method if f.method in COMPARED else COMPARED[0],
        "lines": {m: lines for m, (lines, _) in told.items()},
        "notes": list(dict.fromkeys(note for _, notes in told.values() for note in notes)),
        "had": figures_under(f, f.method, f.rewards),
    }


def _vectors(table: pl.DataFrame, rewards: Sequence[str], tokens: bool) -> pl.DataFrame:
    """Return a table with a row for each distinct reward vector of each group.

    Its columns are:

    - batch and group;
    - float32: whether all rewards of the batch are float32 numbers;
    - "0", "1" and so on: the rewards of the vector;
    - n: how many responses of the group have the vector;
    - over: the weight of these responses in the batch step.

    In a batch that is not float32, rewards are rounded to `DIGITS` significant digits first.

    tokens: whether the batch step weights responses by their tokens, so that `over` is the sum of their lengths. If
        not, or if the batch lacks a length, `over` is n.
    """
    starts = starts_of(table["batch"].to_numpy())
    sizes = np.diff(starts, append=len(table))
    float32, timed = (
        np.logical_and.reduceat(x, starts).repeat(sizes)
        for x in (in_float32(table, rewards), token_lengths(table) >= 1)
    )
    columns = {"batch": table["batch"], "group": table["group"], "float32": float32}
    columns |= {"over": np.where(timed & tokens, token_lengths(table), 1.0)}
    vector = {f"{k}": table[reward_column(name)] for k, name in enumerate(rewards)}
    rounded = [pl.when("float32").then(name).otherwise(pl.col(name).round_sig_figs(DIGITS)) for name in vector]
    rows = pl.DataFrame(columns | vector).with_columns(
        expression.alias(k) for expression, k in zip(rounded, vector, strict=True)
    )
    by = rows.group_by("batch", "group", "float32", *vector, maintain_order=True)
    return by.agg(n=pl.len(), over=pl.col("over").sum())


def _written(tables: Sequence[pl.DataFrame], rewards: int) -> dict[str, Any]:
    """Return the reward vectors of a sample as a report holds them: a dict of three lists and a number.

    - `vectors` lists all distinct vectors, with None for a missing reward.
    - `batches` is a list of batches, and a batch is a list of groups.
    - `float32` says of each batch whether its rewards are float32 numbers.
    - `groups` is the number of groups.

    A group is three lists of one length, with an item for each of its vectors. The first holds the index of the vector
    in `vectors`. The second holds how many responses of the group have the vector. The third holds the weight of these
    responses in the batch step. A group lacks the third list if it equals the second.

    tables: what `_vectors` returns.
    rewards: how many rewards there are.
    """
    rows = pl.concat(tables).with_columns(pl.col("over").cast(pl.Int64))
    numbers: dict[tuple[float | None, ...], int] = {}
    vectors = rows.select(f"{k}" for k in range(rewards)).fill_nan(None).rows()
    at = pl.Series("at", [numbers.setdefault(vector, len(numbers)) for vector in vectors])
    of_group = rows.with_columns(at).group_by("batch", "group", "float32", maintain_order=True)
    groups = of_group.agg("at", "n", "over").rows()
    batches = [(key, list(members)) for key, members in groupby(groups, itemgetter(0, 2))]
    return {
        "vectors": list(numbers),
        "batches": [[[at, n, over][: 2 + (over != n)] for *_, at, n, over in members] for _, members in batches],
        "float32": [float32 for (_, float32), _ in batches],
        "groups": len(groups),
    }
