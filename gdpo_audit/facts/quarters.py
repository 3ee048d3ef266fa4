"""The first and the last quarter of a run: one definition for every table, picture and sentence that names them."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from gdpo_audit.facts.facts import Facts
from gdpo_audit.sums.sums import Array, select_batches


def quarters_of(held: Array) -> tuple[Array, Array]:
    """Return the positions of the batches in the first and in the last quarter of those that hold something; each
    quarter is at least one batch, unless no batch holds it.

    held: (batches,) whether a batch holds it.

    >>> [of.tolist() for of in quarters_of(np.array([True] * 4 + [False] + [True] * 4))]
    [[0, 1], [7, 8]]
    """
    there = np.flatnonzero(held)
    quarter = max(1, len(there) // 4)
    return there[:quarter], there[-quarter:]


def mean_of_quarters(total: Array, present: Array) -> tuple[float | None, float | None]:
    """Return the mean over all responses of the first quarter of the batches, and that of the last quarter, where only
    batches and responses that have the number count; None where no response has it.

    total: (batches,) the sum of the numbers of the responses that have one.
    present: (batches,) how many responses have one.

    >>> mean_of_quarters(np.array([1.0, 0.0, 3.0, 8.0]), np.array([4, 0, 1, 2]))
    (0.25, 4.0)
    """
    first, last = quarters_of(present > 0)
    if not len(first):
        return None, None
    return float(total[first].sum() / present[first].sum()), float(total[last].sum() / present[last].sum())


def facts_of_quarters(f: Facts) -> Sequence[tuple[Facts, Facts]]:
    """Return for each reward the facts of the first and of the last quarter of the batches that hold it. Of a reward
    that no batch holds, they are those of the whole run.
    """
    made: dict[bytes, tuple[Facts, Facts]] = {}
    of_rewards = []
    for held in f.batches.rewards.present > 0:
        if held.tobytes() not in made:
            first, last = quarters_of(held if held.any() else ~held)
            ends = [replace(f, batches=select_batches(f.batches, batches)) for batches in (first, last)]
            made[held.tobytes()] = ends[0], ends[1]
        of_rewards.append(made[held.tobytes()])
    return of_rewards
