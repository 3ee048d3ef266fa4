"""What would mend a finding: each remedy is tried on the log, and the one that does most is advised, if one does."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Any, NamedTuple

from gdpo_audit.findings.facts import Facts
from gdpo_audit.findings.shares import weights_for
from gdpo_audit.findings.thresholds import HELPED, MOVED
from gdpo_audit.findings.trials import Gate, Trial
from gdpo_core import config_lines
from gdpo_core._words import listing, number


@dataclass(frozen=True)
class Remedy:
    """A change of the run, and what it does on the run's own log."""

    words: str  # what to do, as the start of a sentence
    fix: str  # lines of configuration
    effect: Mapping[str, tuple[float, float]]  # figures without and with it
    tried_on: int  # responses


def finding_members(remedy: Remedy | None) -> dict[str, Any]:
    """The members of a finding that say what mends it."""
    return {} if remedy is None else {"fix": remedy.fix, "effect": remedy.effect, "tried_on": remedy.tried_on}


def rebalance(f: Facts, k: int, helps: Callable[[float, float], bool]) -> Remedy | None:
    """GDPO, or other weights, after which the shares of the update are nearer to what the weights ask for.

    helps: whether the change mends the share of reward k, from the shares without and with it. Of two that do about as
    much GDPO is the first: it follows scales that drift.
    """
    # The shares that the weights ask for, of the rewards that can act.
    wanted = {i: due for i in range(len(f.rewards)) if (due := f.baseline.due_share(i)) > 0}
    if k not in wanted or f.relations:
        return None
    options, weights = _gdpo(f), weights_for(f, f.method, wanted)
    if weights is not None:
        printed = zip(f.rewards, f.printed(weights), strict=True)
        words = f"Set the weights {listing(f'{name} {number(w)}' for name, w in printed)}"
        options.append(_weights(f, words, weights))
    before = f.baseline.shares(f.method)
    after = [option.tried(f).shares(option.setting.method) for option in options]
    # The order of answers comes first: no share is worth pairs that turn the wrong way round.
    inverted = f.baseline.inversions(f.method)  # NaN without a primary reward, and then none is too many
    turns = [option.inversions(f) - inverted >= HELPED for option in options]
    off = [sum(abs(shares[i] - share) for i, share in wanted.items()) / 2 for shares in after]
    helping = [i for i, shares in enumerate(after) if helps(before[k], shares[k]) and not turns[i]]
    best = next((i for i in helping if off[i] <= min(off[j] for j in helping) + MOVED), None)
    return None if best is None else options[best].remedy(f, {"update_share": (before[k], after[best][k])})


def lower_weight(f: Facts, k: int, factor: float) -> Remedy | None:
    """The weight of one reward times a factor, if that lowers its share of the update by half."""
    if f.relations:
        return None
    option = _weight(f, k, float(f"{f.plan.weights[k] * factor:.2g}"))
    before, after = f.baseline.shares(f.method)[k], option.tried(f).shares(f.method)[k]
    return option.remedy(f, {"update_share": (before, after)}) if after <= before / 2 else None


def put_first(f: Facts, gated: Iterable[int] | None = None, weight: float | None = None) -> Remedy | None:
    """A gate, or a larger weight, after which fewer pairs have the response with less of the primary reward ahead.

    gated: the rewards to gate, by default each of the others, and then all. weight: one for the primary reward to try.
    """
    on = f.plan.primary
    if on is None or f.relations:
        return None
    others = [k for k, w in enumerate(f.plan.weights) if k != on and w and f.dead(k) < 1]
    options = [_gates(f, on, [k]) for k in (others if gated is None else gated)]
    if gated is None and len(others) > 1:
        options.append(_gates(f, on, others))
    if weight is not None:
        options.append(_weight(f, on, weight))
    before, after = f.baseline.inversions(f.method), [option.inversions(f) for option in options]
    helping = [i for i, share in enumerate(after) if before - share >= HELPED]
    best = next((i for i in helping if after[i] <= min(after[j] for j in helping) + HELPED), None)
    return None if best is None else options[best].remedy(f, {})


def break_ties(f: Facts) -> Remedy | None:
    """GDPO, or twice the weight on the primary reward, if that breaks ties and makes no inversions."""
    on = f.plan.primary
    if on is None or f.relations:
        return None
    before = f.baseline
    for option in (*_gdpo(f), _weight(f, on, 2 * f.plan.weights[on])):
        after, method = option.tried(f), option.setting.method
        ties = before.ties(f.method), after.ties(method)
        if ties[0] - ties[1] >= HELPED and option.inversions(f) <= before.inversions(
            f.method
        ):  # False where one is NaN
            pairs = before.tied_pairs(f.method), after.tied_pairs(method)
            return option.remedy(f, {"groups_with_ties": ties, "tied_pairs": pairs})
    return None


# --- what is tried ---------------------------------------------------------------------------------------------------


class _Option(NamedTuple):
    """A change that may mend a finding."""

    words: str
    lines: str
    setting: Trial

    def tried(self, f: Facts) -> Facts:
        return f.try_setting(self.setting)

    def inversions(self, f: Facts) -> float:
        return self.tried(f).inversions(self.setting.method)

    def remedy(self, f: Facts, effect: Mapping[str, tuple[float, float]]) -> Remedy:
        """It with its effect, to which the inversions are added where a reward is primary."""
        inverted = f.baseline.inversions(f.method), self.inversions(f)
        known = f.plan.primary is not None and all(map(isfinite, inverted))
        order = {"inversions": inverted} if known else {}
        return Remedy(self.words, self.lines, {**effect, **order}, sum(map(len, f.sample)))


def _gdpo(f: Facts) -> list[_Option]:
    """GDPO with the weights of the run, unless it ran."""
    lines = config_lines.switch_to_gdpo(f.run.framework, *f.functions(f.plan.weights))
    return [] if f.is_gdpo else [_Option("Use GDPO", lines, Trial("gdpo", f.plan.weights))]


def _weights(f: Facts, words: str, weights: tuple[float, ...]) -> _Option:
    lines = config_lines.set_weights(f.run.framework, *f.functions(weights), f.method)
    return _Option(words, lines, Trial(f.method, weights))


def _weight(f: Facts, k: int, weight: float) -> _Option:
    """Another weight of one reward."""
    weights = tuple(weight if i == k else w for i, w in enumerate(f.plan.weights))
    return _weights(f, f"Give {f.rewards[k]} the weight {number(f.unit * weight)}", weights)


def _gates(f: Facts, on: int, rewards: Iterable[int]) -> _Option:
    """Rewards that count only where the primary one is at its highest."""
    gates = tuple(Gate(k, on, f.highest(on), f.worst(k)) for k in rewards)
    functions = f.functions(f.plan.weights)[0]
    lines = [
        config_lines.gate(
            f.run.framework, functions, f.rewards[g.reward], f.rewards[on], g.threshold, otherwise=g.fallback
        )
        for g in gates
    ]
    names = listing(f.rewards[g.reward] for g in gates)
    words = f"Let {names} count only where {f.rewards[on]} reaches {number(f.highest(on))}"
    return _Option(words, "\n".join(lines), Trial(f.method, f.plan.weights, gates))
