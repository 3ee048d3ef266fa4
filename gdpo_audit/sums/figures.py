"""Figures of each reward and of each method over a run, which follow from the sums over its batches alone."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from math import nan, sqrt

import numpy as np

from gdpo_audit.sums.relations import Relation, correlations, relations_of
from gdpo_audit.sums.sums import Array, Basis, Sums, push_of, total
from gdpo_audit.thresholds import CHANCE
from gdpo_core.conventions import NAMES
from gdpo_core.ties import Order


@dataclass(frozen=True, kw_only=True)
class Figures:
    """Hold the sums over the batches of a run, and compute from them the figures of a reward or of a method.

    A reward is named by its index k, and a method by its id.
    """

    basis: Basis  # what the sums were computed with
    batches: Sums[Array]  # the batches that count

    @cached_property
    def totals(self) -> Sums[float]:
        """The sums over all of `batches` together: plain numbers in place of arrays with a number per batch."""
        return total(self.batches)

    @property
    def rewards(self) -> tuple[str, ...]:
        return self.basis.rewards

    @property
    def wanted(self) -> tuple[int, ...]:
        """The direction in which the run wants each reward: 1 for higher, -1 for lower, and 0 for neither."""
        return self.basis.wanted

    @property
    def methods(self) -> list[str]:
        """The ids of the methods whose advantages were computed on this log, in the order of `NAMES`."""
        return [m for m in NAMES if m in self.totals.methods]

    @cached_property
    def relations(self) -> tuple[Relation, ...]:
        """The rewards that follow from others: each is, inside every group, a weighted sum of earlier rewards. An item
        holds the name of one of them, and the weights of the earlier rewards by name.
        """
        return tuple(relations_of(self.rewards, self.totals))

    @property
    def alike(self) -> set[str]:
        """The names of all rewards that occur in `relations`, whose shares of the update the log cannot tell apart."""
        return {linked for name, terms in self.relations for linked in (name, *terms)}

    # --- one reward; k is its index ---

    def dead(self, k: int) -> float:
        """Return the share of groups in which the reward with index k is constant. It is a share of the groups that
        hold the reward in at least one response; 1 where no group holds it.
        """
        holding = self.totals.rewards.holding_groups[k]
        missing = self.totals.groups - holding
        return ratio(self.totals.rewards.dead_groups[k] - missing, holding) if holding else 1.0

    def dead_or_missing(self, k: int) -> float:
        """Return the share of all groups in which the reward with index k is constant or missing, so that it does
        nothing there.
        """
        return ratio(self.totals.rewards.dead_groups[k], self.totals.groups)

    def coverage(self, k: int) -> float:
        """Return the share of all groups in which at least one response has the reward with index k."""
        return ratio(self.totals.rewards.holding_groups[k], self.totals.groups)

    def faint(self, k: int) -> float:
        """Return the share of groups in which the reward with index k is nearly constant, as `thresholds.FAINT_STD` and
        `thresholds.FEW_VALUES` say. It is a share of the groups in which the reward differs; 0 where it differs in no
        group.
        """
        differs = self.totals.groups - self.totals.rewards.dead_groups[k]
        return ratio(self.totals.rewards.faint_groups[k], differs) if differs else 0.0

    def mean(self, k: int) -> float:
        return ratio(self.totals.rewards.total[k], self.totals.rewards.present[k])

    def highest(self, k: int) -> float:
        return float(self.totals.rewards.high[k])

    def width(self, k: int) -> float:
        """Return the range of the reward with index k in the log: its highest value less its lowest one."""
        return self.highest(k) - float(self.totals.rewards.low[k])

    def top(self, k: int) -> float:
        """Return the worst of the logged values of the reward with index k that count as its best one, with all digits.

        The best value is the highest one, or the lowest one if the run wants less of the reward. Rewards may be rounded
        before they are counted, so that several logged values count as the best one. A gate with this number as its
        threshold opens at all of them.
        """
        sums = self.totals.rewards
        return float((sums.bottom if self.wanted[k] < 0 else sums.top)[k])

    def worst(self, k: int) -> float:
        """Return the value that a gate pays in place of the reward with index k where the gate is closed, so that the
        reward does not count.

        It is the worst value that is logged, or 0 if 0 is worse. The lowest value is the worst one, or the highest if
        the run wants less of the reward.
        """
        if self.wanted[k] >= 0:
            return min(float(self.totals.rewards.low[k]), 0.0)
        return max(self.highest(k), 0.0)

    def correlation(self, i: int, j: int) -> float:
        """Return the correlation of the rewards with indices i and j inside groups; NaN where one of them is constant
        in every group.
        """
        sums = self.totals.rewards
        return float(correlations(sums.products[i, j], sums.squared[i, j], sums.squared[j, i]))

    def by_chance(self, *rewards: int) -> float:
        """Return the size up to which a correlation counts as chance.

        rewards: the indices of the two rewards that are correlated, or the index of one reward that is correlated with
            something else, such as the length.
        """
        return CHANCE / sqrt(max(min(self.totals.rewards.degrees[list(rewards)]), 1))

    def share_of_squares(self, k: int) -> float:
        """Return the squared weight of the reward with index k, as a share of the sum of the squared weights of all
        rewards. Each square is first multiplied by the share of groups that hold its reward. A reward that is constant
        in every group counts as 0, because its weight cannot be known and does nothing.

        A reward has just this share of the update where all rewards differ equally and are not correlated. Where the
        weights change during the run, the result is the mean over all groups. NaN where each of these products is 0.
        """
        return self._over_groups(self._by_weights(lambda i: self.coverage(i) * (self.dead(i) < 1))[k])

    def due_share(self, k: int) -> float:
        """Return the share of the update that the reward with index k should have by its weight.

        It is the reward's squared weight as a share of the sum over all rewards. Each squared weight is first
        multiplied by the share of the groups in which its reward differs, since a weight can do nothing in the other
        groups. Where the weights change during the run, the result is the mean over all groups. NaN where each of these
        products is 0.
        """
        return self._over_groups(self.due_shares(k))

    def due_shares(self, k: int) -> Array:
        """Return (batches,) the share of the update that the reward with index k should have by its weight in each
        batch.

        It is computed as `due_share` says, with the weights of the batch. The share of groups in which a reward differs
        is taken from the whole run.
        """
        return self._by_weights(lambda i: 1 - self.dead_or_missing(i))[k]

    def _by_weights(self, acts: Callable[[int], float]) -> Array:
        """Return (rewards, batches) the shares that the weights ask for, which sum to 1 in each batch.

        For each reward its squared weight in the batch is multiplied by the share of the groups in which it acts. This
        product is divided by the sum of the products of all rewards. NaN where that sum is 0.

        acts: returns the share of the groups in which a reward acts, given the reward's index.
        """
        squares = np.square(self._weights) * np.array([[acts(k)] for k in range(len(self.rewards))])
        whole = squares.sum(0)
        return np.divide(squares, whole, out=np.full_like(squares, nan), where=whole > 0)

    @cached_property
    def _weights(self) -> Array:
        """(rewards, batches) the weights with which the advantages of each batch are computed."""
        batches = self.batches.batch.tolist()
        each = [self.basis.of_batch(b).weights for b in batches] if self.basis.changes else [self.basis.weights]
        return np.broadcast_to(each, (len(batches), len(self.rewards))).T

    def _over_groups(self, of_batch: Array) -> float:
        """Return the mean over all groups of a number that is the same for every group of a batch.

        of_batch: (batches,) that number; batches where it is NaN are left out.
        """
        known = of_batch == of_batch
        return ratio(of_batch[known] @ self.batches.groups[known], self.batches.groups[known].sum())

    # --- one method ---

    def shares(self, method: str) -> list[float]:
        """Return each reward's share of the update under a method, in the order of the rewards, as
        `gdpo_core.update_share` defines it.

        All are NaN if every advantage is 0. NaN also for the rewards in `alike`, whose shares the log cannot tell
        apart.
        """
        sums = self.totals.methods[method]
        shares = zip(self.rewards, sums.update.tolist(), strict=True)
        return [nan if name in self.alike else ratio(update, sums.squares) for name, update in shares]

    def push(self, method: str) -> list[float]:
        """Return the push on each reward under a method, in the order of the rewards, as `gdpo_core.push` defines it.

        Unlike a share of the update, a push is known even for the rewards in `alike`. They are a weighted sum of other
        rewards, or occur in such a sum.
        """
        sums = self.totals.methods[method]
        return [float(x) for x in push_of(sums.pushed, sums.distances, sums.squares)]

    def punished(self, method: str) -> list[float]:
        """Return for each reward the share of good responses that a method punishes. Good are the responses above their
        group's mean of that reward, or below it if the run wants less of the reward; punished are those of them whose
        advantage is 0 or less. NaN for a reward without good responses, as one that the run wants neither higher nor
        lower.
        """
        sums = self.totals.methods[method]
        return [ratio(punished, above) for punished, above in zip(sums.punished, sums.above, strict=True)]

    def silent(self, method: str) -> float:
        """Return the share of all groups in which a method makes every advantage 0."""
        return ratio(self.totals.methods[method].silent_groups, self.totals.groups)

    def ties(self, method: str) -> float:
        """Return the share of groups in which a method ties two responses: they have different rewards and one
        advantage. It is a share of the groups with different rewards in them; NaN if there is no such group.
        """
        sums = self.totals.methods[method]
        return ratio(sums.tie_groups, sums.mixed_groups)

    def tied_pairs(self, method: str) -> float:
        """Return the share of pairs that get the same advantage from a method. It is a share of the pairs of responses
        in one group that have different rewards; NaN without such pairs.
        """
        sums = self.totals.methods[method]
        return ratio(sums.tied_pairs, sums.different_pairs)

    def order(self, method: str) -> Order:
        """Return how a method orders the pairs of responses in one group that differ in the primary reward.

        The result counts the pairs that the advantages put in the right order, the pairs that they tie, and the pairs
        that they put in the wrong order, in which the worse response gets more. Groups with a NaN advantage are left
        out.
        """
        sums = self.totals.methods[method]
        pairs, tied, wrong = int(sums.primary_pairs), int(sums.tied_primary), int(sums.inverted)
        return Order(pairs - tied - wrong, tied, wrong)

    def inversions(self, method: str) -> float:
        """Return the share of pairs in the wrong order, in which the response that is worse in the primary reward gets
        the larger advantage. It is a share of the pairs of responses in one group that differ in that reward; NaN
        without such pairs, and if the run wants neither more nor less of that reward.
        """
        return ratio(self.order(method).wrong, self.order(method).pairs)


def ratio(numerator: float, denominator: float) -> float:
    """Return the numerator divided by the denominator; NaN where the denominator is 0."""
    return float(numerator / denominator) if denominator else nan
