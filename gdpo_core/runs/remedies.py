"""What would mend a finding: each remedy is tried on the log, and the one that does most is advised, if one does."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Any

from gdpo_core import config_lines
from gdpo_core._words import listing, number
from gdpo_core.runs.facts import Facts
from gdpo_core.runs.shares import weights_for
from gdpo_core.runs.thresholds import HELPED, MOVED
from gdpo_core.runs.trials import Gate, Trial


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
    wanted = _due_shares(f)
    if k not in wanted or f.relations:
        return None
    options: list[tuple[str, str, Trial]] = []
    if not f.is_gdpo:
        lines = config_lines.switch_to_gdpo(f.run.framework, *f.functions(f.plan.weights))
        options.append(("Use GDPO", lines, Trial("gdpo", f.plan.weights)))
    weights = weights_for(f, f.method, wanted)
    if weights is not None:
        lines = config_lines.set_weights(f.run.framework, *f.functions(weights), f.method)
        options.append((f"Set the weights {_weights_in_words(f, weights)}", lines, Trial(f.method, weights)))
    tried = [f.try_setting(s) for _, _, s in options]
    before, after = (
        f.baseline.shares(f.method),
        [t.shares(s.method) for t, (_, _, s) in zip(tried, options, strict=True)],
    )
    # The order of answers comes first: no share is worth pairs that turn the wrong way round.
    inverted = f.baseline.inversions(f.method)  # NaN without a primary reward, and then none is too many
    turns = [t.inversions(s.method) - inverted >= HELPED for t, (_, _, s) in zip(tried, options, strict=True)]
    off = [sum(abs(shares[i] - share) for i, share in wanted.items()) / 2 for shares in after]
    helping = [i for i, shares in enumerate(after) if helps(before[k], shares[k]) and not turns[i]]
    best = next((i for i in helping if off[i] <= min(off[j] for j in helping) + MOVED), None)
    if best is None:
        return None
    words, lines, setting = options[best]
    effect = {"update_share": (before[k], after[best][k])} | _inversions(f, setting)
    return Remedy(words, lines, effect, _sample_responses(f))


def lower_weight(f: Facts, k: int, factor: float) -> Remedy | None:
    """The weight of one reward times a factor, if that lowers its share of the update by half."""
    if f.relations:
        return None
    weights = tuple(float(f"{w * factor:.2g}") if i == k else w for i, w in enumerate(f.plan.weights))
    setting = Trial(f.method, weights)
    before, after = f.baseline.shares(f.method)[k], f.try_setting(setting).shares(f.method)[k]
    if not after <= before / 2:
        return None
    lines = config_lines.set_weights(f.run.framework, *f.functions(weights), f.method)
    words = f"Give {f.rewards[k]} the weight {number(f.unit * weights[k])}"
    return Remedy(words, lines, {"update_share": (before, after)} | _inversions(f, setting), _sample_responses(f))


def put_first(f: Facts, gated: Iterable[int] | None = None, weight: float | None = None) -> Remedy | None:
    """A gate, or a larger weight, after which fewer pairs have the response with less of the primary reward ahead.

    gated: the rewards to gate, by default each of the others, and then all. weight: one for the primary reward to try.
    """
    on = f.plan.primary
    if on is None or f.relations:
        return None
    others = [k for k, w in enumerate(f.plan.weights) if k != on and w and f.dead(k) < 1]
    single = [(k,) for k in (others if gated is None else gated)]
    together = [tuple(others)] if gated is None and len(others) > 1 else []
    options, functions = [], f.functions(f.plan.weights)[0]
    for rewards in (*single, *together):
        gates = tuple(Gate(k, on, f.highest(on), f.worst(k)) for k in rewards)
        lines = [
            config_lines.gate(
                f.run.framework, functions, f.rewards[g.reward], f.rewards[on], g.threshold, otherwise=g.fallback
            )
            for g in gates
        ]
        reached = f"only where {f.rewards[on]} reaches {number(f.highest(on))}"
        words = f"Let {listing(f.rewards[k] for k in rewards)} count {reached}"
        options.append((words, "\n".join(lines), Trial(f.method, f.plan.weights, gates)))
    if weight is not None and isfinite(weight):
        weights = tuple(weight if k == on else w for k, w in enumerate(f.plan.weights))
        lines_of_weights = config_lines.set_weights(f.run.framework, *f.functions(weights), f.method)
        words = f"Give {f.rewards[on]} the weight {number(f.unit * weight)}"
        options.append((words, lines_of_weights, Trial(f.method, weights)))
    before = f.baseline.inversions(f.method)
    after = [f.try_setting(setting).inversions(setting.method) for _, _, setting in options]
    helping = [i for i, share in enumerate(after) if before - share >= HELPED]
    if not helping:
        return None
    best = next(i for i in helping if after[i] <= min(after[j] for j in helping) + HELPED)
    words, text, setting = options[best]
    return Remedy(words, text, _inversions(f, setting), _sample_responses(f))


def break_ties(f: Facts) -> Remedy | None:
    """GDPO, or twice the weight on the primary reward, if that breaks ties and makes no inversions."""
    on = f.plan.primary
    if on is None or f.relations:
        return None
    weights = tuple(2 * w if k == on else w for k, w in enumerate(f.plan.weights))
    heavier = config_lines.set_weights(f.run.framework, *f.functions(weights), f.method)
    options = [(f"Give {f.rewards[on]} the weight {number(f.unit * weights[on])}", heavier, Trial(f.method, weights))]
    if not f.is_gdpo:
        lines = config_lines.switch_to_gdpo(f.run.framework, *f.functions(f.plan.weights))
        options.insert(0, ("Use GDPO", lines, Trial("gdpo", f.plan.weights)))
    before = f.baseline
    for words, lines, setting in options:
        after, method = f.try_setting(setting), setting.method
        fewer = before.ties(f.method) - after.ties(method) >= HELPED
        if fewer and after.inversions(method) <= before.inversions(f.method):  # False where one is NaN
            effect = {
                "groups_with_ties": (before.ties(f.method), after.ties(method)),
                "tied_pairs": (before.tied_pairs(f.method), after.tied_pairs(method)),
            }
            return Remedy(words, lines, effect | _inversions(f, setting), _sample_responses(f))
    return None


def _due_shares(f: Facts) -> dict[int, float]:
    """The shares that the weights ask for, of the rewards that can act, by index."""
    ran = f.baseline
    return {k: due for k in range(len(f.rewards)) if (due := ran.due_share(k)) > 0}


def _inversions(f: Facts, setting: Trial) -> dict[str, tuple[float, float]]:
    """The inversions without and with a setting; none without a primary reward."""
    if f.plan.primary is None:
        return {}
    shares = f.baseline.inversions(f.method), f.try_setting(setting).inversions(setting.method)
    return {"inversions": shares} if all(map(isfinite, shares)) else {}


def _weights_in_words(f: Facts, weights: Iterable[float]) -> str:
    return listing(f"{name} {number(w)}" for name, w in zip(f.rewards, f.printed(weights), strict=True))


def _sample_responses(f: Facts) -> int:
    return sum(map(len, f.sample))
