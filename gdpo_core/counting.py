"""Exact counts of the different advantage vectors that a method can give to a group of binary rewards.

Symbols: G rollouts, K rewards, r rewards of 0 and 1, p the number of rollouts that pass a reward, s sums, A advantages.
An advantage vector holds the advantages of one group, with eps = 0 and before GDPO's batch step; the order of its
rollouts does not count. Other functions count and list the groups themselves, and compute the advantages before the
batch step.
"""

from collections.abc import Iterator, Sequence
from functools import cache
from itertools import combinations_with_replacement, groupby, product
from math import comb, isqrt, lcm, prod
from operator import add

import torch
from torch import Tensor

from gdpo_core.conventions import PAPER, Convention
from gdpo_core.numerics.batch import make_batch
from gdpo_core.registry import method_for
from gdpo_core.shared.errors import expect, expect_count
from gdpo_core.shared.inputs import ArrayLike

_LARGEST = 1000  # the most rollouts or rewards
_MOST_NUMBERS = 2_500_000  # the most numbers of up to 512 bits that one count may look at, which takes a few seconds


def count_distinct(method: str, rollouts: int, rewards: int) -> int:
    """Return how many different advantage vectors a method can give to a group of so many rollouts and binary rewards.

    The count is exact. Where a formula gives it, sizes go up to 1000: for GRPO with and without std, and for GDPO of
    one reward or of up to three rollouts. For GDPO of other sizes the sums are enumerated, up to about 4 × 14, 6 × 6,
    16 × 3 or 60 × 2 (rollouts × rewards).

    method: "grpo", "grpo_no_std" or "gdpo".

    Raises InputError for another method, for a size that is not a whole number from 1 to 1000, and for sizes of GDPO
    that are too large to enumerate the sums. Source: arXiv 2601.05242, Fig. 3.

    >>> [count_distinct(method, 4, 8) for method in ("grpo", "grpo_no_std", "gdpo")]
    [119, 165, 2929]
    """
    known = isinstance(method, str) and method in _COUNTS
    expect(known, "method", f"one of {', '.join(_COUNTS)}", repr(method))
    return _COUNTS[method](_integer(rollouts, "rollouts"), _integer(rewards, "rewards"))


def count_groups(rollouts: int, rewards: int) -> int:
    """Return the number of different groups of so many rollouts with so many binary rewards.

    The order of the rollouts does not count. Raises InputError for a size that is not a whole number from 1 to 1000.

    >>> count_groups(2, 2), count_groups(16, 2)
    (10, 969)
    """
    rollouts, vectors = _integer(rollouts, "rollouts"), 2 ** _integer(rewards, "rewards")
    return comb(rollouts + vectors - 1, rollouts)


def enumerate_groups(rollouts: int, rewards: int) -> Tensor:
    """Return every different group of rewards of 0 and 1, (groups, rollouts, rewards).

    The rollouts of each group are in ascending order. There are as many groups as `count_groups` says. Raises
    InputError where they are too many to list, and for a size that is not a whole number from 1 to 1000.

    >>> enumerate_groups(2, 1).tolist()
    [[[0.0], [0.0]], [[0.0], [1.0]], [[1.0], [1.0]]]
    """
    _expect_feasible(count_groups(rollouts, rewards) * rollouts * rewards, rollouts, rewards)
    vectors = product((0.0, 1.0), repeat=rewards)
    return torch.tensor(list(combinations_with_replacement(vectors, rollouts)), dtype=torch.float64)


def group_advantages(rewards: ArrayLike, method: str = "gdpo", *, convention: Convention = PAPER) -> Tensor:
    """Return the advantages before any step over the batch, (prompts, rollouts) or (rollouts,).

    They depend on nothing but the group.

    rewards: as in `grpo`, without group ids: (prompts, rollouts, rewards) or (rollouts, rewards); every weight is 1.
    method: as in `advantages`, but neither "saw" nor "sa_mrpo", whose weights depend on the whole batch.

    Raises InputError for any other method, and for rewards and conventions that `grpo` refuses. Source: arXiv
    2601.05242, eq. 4 and 5.

    >>> [round(a, 3) for a in group_advantages([[[0, 0], [1, 1]]], "gdpo")[0].tolist()]
    [-1.414, 1.414]
    """
    formula, batch = method_for(method, make_batch(rewards, convention=convention))
    expect(formula.prepare is None, "method", "one that looks at nothing but the group first", repr(method))
    return batch.to_caller(formula.in_groups(batch).advantages)


def _no_std(rollouts: int, rewards: int) -> int:
    """Count the distinct advantage vectors of GRPO without std; the order of the rollouts does not count.

    A vector comes from the sorted sums s_1 ≤ … ≤ s_G of the rollouts, each from 0 to K, where K is the number of
    rewards. All such lists are possible. Lists that differ by a constant have one vector, so only lists with s_1 = 0
    are counted.
    """
    return comb(rollouts + rewards - 1, rewards)


def _grpo(rollouts: int, rewards: int) -> int:
    """Count the distinct advantage vectors of GRPO; the order of the rollouts does not count.

    A vector comes from the sums of the rollouts' rewards. With rewards of 0 and 1 a sum is a whole number from 0 to the
    number of rewards. As for GRPO without std (`_no_std`), only sorted lists of sums that begin with 0 are counted. The
    division by the std takes a common factor out of a list. So only lists with a greatest common divisor of 1 are
    counted, and one vector for the list of zeros.

    To count the lists of divisor 1 that reach at most m, take all lists that reach at most m but for the list of zeros.
    Then subtract, for each g > 1, the number of lists of divisor 1 that reach at most m / g, since g times each of
    these is a list of divisor g.
    """
    coprime = [0]
    for m in range(1, rewards + 1):
        coprime.append(_no_std(rollouts, m) - 1 - sum(coprime[m // g] for g in range(2, m + 1)))
    return coprime[rewards] + 1


def _gdpo(rollouts: int, rewards: int) -> int:
    """Count the distinct advantage vectors of GDPO, where vectors that differ only in their order count once.

    An advantage vector is a sum of K columns, one per reward, each a normalised column of marks. The sums are collected
    column by column and sorted. Nothing is lost by that, because a column in any other order is a column too. A
    constant column adds 0, so what K − 1 columns reach, K columns reach too. So only sums that are new can lead to
    further ones.

    In two cases the count is that of GRPO without std. With one reward, both have a vector of zeros and one vector for
    each number of passes in between. With up to three rollouts, σ is the same wherever it is not 0.

    Raises InputError where there are too many sums.
    """
    if rewards == 1 or rollouts <= 3:
        return _no_std(rollouts, rewards)
    unit = _units(rollouts, rewards)
    normalised = cache(lambda runs: [_normalised(column, unit) for column in _columns(runs)])
    reached = new = {(0,) * rollouts}
    numbers, size = 0, 1 + max(unit).bit_length() // 512
    for _ in range(rewards):
        numbers += size * rollouts * sum(prod(size + 1 for size in _runs(sums)) for sums in new)
        _expect_feasible(numbers, rollouts, rewards)
        new = {tuple(sorted(map(add, sums, z))) for sums in new for z in normalised(_runs(sums))} - reached
        reached |= new
    return len(reached)


_COUNTS = {"grpo": _grpo, "grpo_no_std": _no_std, "gdpo": _gdpo}


def _normalised(column: Sequence[int], unit: Sequence[int]) -> tuple[int, ...]:
    """Return a column of 0 and 1, the marks of one reward in a group, normalised by eq. 4, as integers.

    The integers are proportional to z_j = (r_j − p/G) / σ, where p of the G marks are 1. Each is (G r_j − p) · unit[p].

    unit: the integers of `_units` for p = 0 … G.
    """
    passes = sum(column)
    return tuple((len(column) * r - passes) * unit[passes] for r in column)


def _units(rollouts: int, rewards: int) -> list[int]:
    """Return, for p = 0 … G, an integer that stands for 1 / √(p(G − p)) in exact comparisons.

    It is 0 for p = 0 and p = G, where nothing is divided. The integers serve for sums of K of them, each times a whole
    number up to G. Two such sums are equal exactly where the same sums of the real numbers are.

    With p(G − p) = q² d, d square-free, the real number is √d / (q d). The roots of different square-free d are
    linearly independent over the rationals (Besicovitch 1940), so two sums are equal only if their parts with each d
    are. Each d therefore has a digit of its own in the integer. The digit counts units of √d / (d lcm q), where lcm q
    is taken over all q of this d. The base is so large that no digit of a sum spills into the next one. In the example
    1 / √3 counts in the first digit, and 1 / 2 in the second, which is worth 33.

    rollouts: the size G of a group.
    rewards: the number K of rewards.

    >>> _units(4, 2)
    [0, 1, 33, 1, 0]
    """
    factors = [_square_and_free(p * (rollouts - p)) for p in range(1, rollouts)]
    common: dict[int, int] = {}
    for q, d in factors:
        common[d] = lcm(common.get(d, 1), q)
    base = 2 * rewards * rollouts * max(common.values(), default=1) + 1
    digit = {d: base**n for n, d in enumerate(common)}
    return [0, *(common[d] // q * digit[d] for q, d in factors), 0]


def _square_and_free(n: int) -> tuple[int, int]:
    """Return q and the square-free d of n = q² d; for n = 28 they are 2 and 7."""
    q = max(q for q in range(1, isqrt(n) + 1) if n % (q * q) == 0)
    return q, n // q**2


def _columns(runs: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Yield columns with a 0 or 1 per rollout. Of columns that differ only in the order inside a run, just one is
    yielded.

    A run is a stretch of rollouts with equal sums of the columns that were added before, so that the order inside it
    does not matter.

    runs: how many rollouts stand in each run.
    """
    for ones in product(*(range(size + 1) for size in runs)):
        yield tuple(r for size, n in zip(runs, ones, strict=True) for r in [0] * (size - n) + [1] * n)


def _runs(ordered: Sequence[int]) -> tuple[int, ...]:
    """Return the lengths of the runs of equal numbers, one after the other; for (0, 0, 3) they are (2, 1)."""
    return tuple([len(list(run)) for _, run in groupby(ordered)])


def _integer(value: int, name: str) -> int:
    """Return `value` as an int if it is a whole number from 1 to `_LARGEST`; else raise InputError.

    name: the name of the argument.
    """
    expect_count(value, name, _LARGEST)
    return int(value)


def _expect_feasible(numbers: int, rollouts: int, rewards: int) -> None:
    """Raise InputError if a count would look at too many numbers.

    numbers: how many it would look at.
    rollouts, rewards: the sizes, which the error names.
    """
    wanted = f"sizes that need at most {_MOST_NUMBERS:,} numbers"
    expect(numbers <= _MOST_NUMBERS, "rollouts, rewards", wanted, f"{rollouts} and {rewards}, which need more")
