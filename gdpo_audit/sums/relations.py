"""Rewards that follow from other rewards inside every group, such as a total of several rewards, or a copy of one."""

from collections.abc import Iterator, Sequence

import numpy as np

from gdpo_audit.sums.sums import Array, Sums
from gdpo_audit.thresholds import DEGREES, NO_SPREAD, VARYING

# A relation is a reward and the earlier ones of which it is a weighted sum, with their weights.
Relation = tuple[str, dict[str, float]]


def correlations(products: Array, first: Array, second: Array) -> Array:
    """Return the correlations of pairs of rewards inside groups; NaN where one of the two does not differ.

    All three arguments are sums over responses and have one number per pair, with d the distance of a reward from its
    mean in the group.

    products: Σ d_i d_j.
    first: Σ d_i².
    second: Σ d_j².

    >>> correlations(np.array([2e200, 1e-300, 0.0]), np.array([2e200, 4e-300, 0.0]), np.array([2e200, 1e-300, 1.0]))
    array([1. , 0.5, nan])
    """
    # The product of two squares could leave the range of float64. Taking out powers of two changes no digit.
    a, b = (np.frexp(squares)[1] // 2 for squares in (first, second))
    size = np.sqrt(np.ldexp(first, -2 * a) * np.ldexp(second, -2 * b))
    return np.divide(np.ldexp(products, -a - b), size, out=np.full(size.shape, np.nan), where=size > 0)


def relations_of(rewards: Sequence[str], totals: Sums[float]) -> Iterator[Relation]:
    """Yield each reward that is a weighted sum of earlier rewards, inside every group, and up to a constant in each
    group.

    Each comes as a pair of its name and a dict from the names of the earlier rewards to their weights. Weights next to
    0 are left out of the dict. Rewards that vary in too few groups, or that too few responses hold, are passed over.

    rewards: all names, in the order of the sums.
    totals: the sums over all batches that count.
    """
    sums, independent = totals.rewards, list[int]()
    correlation = correlations(sums.products, sums.squared, sums.squared.T)
    varying = int(totals.groups) - sums.dead_groups
    live = [k for k in range(len(rewards)) if varying[k] >= VARYING and sums.degrees[k] > DEGREES * len(rewards)]
    for k in live:
        # If some responses lack rewards, the correlations of different pairs of rewards are those of different
        # responses, and cannot be solved together.
        whole = all(sums.present[i] == sums.present[k] for i in independent)
        for before in ([independent] if whole else []) + [[i] for i in independent]:
            among, with_reward = correlation[np.ix_(before, before)], correlation[before, k]
            if not before or not np.isfinite(with_reward).all():
                continue
            w = np.linalg.solve(among, with_reward)
            if 1 - w @ with_reward <= NO_SPREAD:
                sizes = np.sqrt(np.diagonal(sums.squared))
                raw = {rewards[i]: float(f"{x * sizes[k] / sizes[i]:.6g}") for i, x in zip(before, w, strict=True)}
                yield (
                    rewards[k],
                    {reward: x for (reward, x), weight in zip(raw.items(), w, strict=True) if abs(weight) > 1e-5},
                )
                break
        else:
            independent.append(k)
