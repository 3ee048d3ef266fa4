"""The plan of a report: the run's own setting and others, each tried on the run's own log. At most one is
recommended.
"""

from collections.abc import Iterator, Mapping, Sequence
from math import isnan
from typing import Annotated

from msgspec import Meta, Struct
from msgspec.structs import replace

from gdpo_audit.findings.facts import Facts
from gdpo_audit.findings.findings_weights import contradicted_weights
from gdpo_audit.findings.forecast import forecasts_of
from gdpo_audit.findings.shares import weights_for
from gdpo_audit.findings.thresholds import MISSED, MOVED, push_noise
from gdpo_audit.findings.trials import Gate, Trial, Trials, changes_of
from gdpo_audit.json_types import PUNISHED, ForecastPart, GatePart, MaybeNaN
from gdpo_core import config_lines
from gdpo_core._errors import InputError
from gdpo_core._words import listing, number, signed
from gdpo_core.conventions import NAMES
from gdpo_core.pushing import MEANING as PUSH


class TrialPart(Struct, frozen=True, kw_only=True):
    """A setting: a method, the weight of each reward by name, and a gate or null."""

    method: str
    weights: Mapping[str, float]
    gate: GatePart | None


class Setting(Struct, frozen=True, kw_only=True):
    """A setting that was tried on this log, and what the log shows under it. The first setting of a plan is the run's
    own.
    """

    setting: TrialPart
    title: Annotated[str, Meta(description="In a few words.")]
    do: Annotated[str, Meta(description="The start of a sentence; empty for the run's own.")]
    update_share: Mapping[str, MaybeNaN]
    push: Annotated[Mapping[str, float], Meta(description=f"By reward, without the gate. {PUSH}")]
    punished: Annotated[Mapping[str, MaybeNaN], Meta(description=f"By reward, without the gate. {PUNISHED}")]
    inversions: Annotated[MaybeNaN, Meta(description="null without a primary reward.")]
    groups_with_ties: MaybeNaN
    tied_pairs: MaybeNaN
    silent_groups: MaybeNaN
    dead_groups: Annotated[Mapping[str, float], Meta(description="By reward, behind the gate.")]
    lines: Annotated[str | None, Meta(description="Of configuration; null: none are known.")]
    off: Annotated[
        MaybeNaN, Meta(description="How far the shares are from what the weights of the run ask for, from 0 to 1.")
    ]
    tried_on: Annotated[int, Meta(description="Responses of the log.")]
    recommended: bool = False
    forecast: Annotated[
        Mapping[str, ForecastPart] | None,
        Meta(description="By reward; null of the run's own, without a primary reward, and of fewer than 20 steps."),
    ] = None
    why: Annotated[str, Meta(description="Of the recommended one: the end of the sentence that `do` begins.")] = ""
    cost: Annotated[str, Meta(description="Of the recommended one: a sentence.")] = ""

    @property
    def method(self) -> str:
        """The method of the setting."""
        return self.setting.method

    @property
    def weights(self) -> Mapping[str, float]:
        """The weight of each reward in the setting, by name."""
        return self.setting.weights

    @property
    def gate(self) -> GatePart | None:
        """The gate of the setting, None without one."""
        return self.setting.gate


def plan_of(f: Facts) -> tuple[Setting, ...]:
    """Return the settings that were tried on the run's own log, with at most one of them marked as recommended.

    The run's own setting comes first. If some gate raises the push on the primary reward by more than noise, a setting
    with a gate comes last.

    Returns () for a single reward, for weights that are all 0, and for weights that depend on a column, as no setting
    that is tried has such weights. Returns () also where the log does not tell what each reward did, and where the
    facts hold no sample of the log.
    """
    unknown = f.run.total_only or f.relations or f.contradicted or f.lacks_a_reward
    if len(f.rewards) < 2 or unknown or f.weights_by_column or not any(f.basis.weights):
        return ()
    trials = Trials(f)
    if not trials.sample:
        return ()
    tried = [*_settings(trials)]
    ran = tried[0][0]
    gated = _gated(trials, ran)
    rows = _with_forecasts(f, [*tried, *gated])
    best = _best(f, rows[: len(tried)])
    if best is not None:
        assert f.basis.primary is not None, "without a primary reward none is the best"
        rows[rows.index(best)] = _recommended(best, ran, f.rewards[f.basis.primary])
    return tuple(rows)


def _settings(trials: Trials) -> Iterator[tuple[Setting, Trial]]:
    """Yield each setting without a gate that is tried, with the trial that it was computed from.

    First comes the run's own setting, and after it the weights that the caller gave, if other weights ran. Then come
    GDPO and GRPO with the weights of the run; the method that ran is not tried twice. Last come GDPO and GRPO with
    weights under which each reward gets the share of the update that the run's weight for it asks for. These are left
    out in three cases: they are not found, they hardly differ from the weights of the run, or the shares under them
    miss what is asked for by more than `MISSED`.

    If the method that ran is GRPO without std, or GRPO with the std of the batch, it takes the place of GRPO here.
    """
    f = trials.facts
    weights_of_run, name = f.basis.weights, NAMES[f.method]
    asked = "the trainer's own" if f.trainers_own else "asked for"
    assumed = f"{name}, {asked if f.intended_method == f.method else 'assumed'}"
    ran = "as it ran" if f.recipe else assumed
    if f.recipe is not None and contradicted_weights(f):
        yield _tried(trials, ran, "", Trial(f.method, f.recipe.weights))
        yield _tried(trials, "the weights given", "Use the weights given", Trial(f.method, weights_of_run))
    else:
        yield _tried(trials, ran, "", Trial(f.method, weights_of_run))
    of_sums = f.method if f.method in ("grpo_no_std", "grpo_batch_std") else "grpo"
    for method in ("gdpo", of_sums):
        if method != f.method:
            yield _tried(
                trials, f"{NAMES[method]}, same weights", f"Use {NAMES[method]}", Trial(method, weights_of_run)
            )
    for method in ("gdpo", of_sums):
        weights = weights_for(trials, method, _asked(trials))
        if weights is not None and _differ(weights, weights_of_run):
            words = listing(f"{r} {number(w)}" for r, w in zip(f.rewards, f.printed(weights), strict=True))
            do = f"Set the weights {words}" if method == f.method else f"Use {NAMES[method]} with the weights {words}"
            setting, trial = _tried(trials, f"{NAMES[method]}, other weights", do, Trial(method, weights))
            if setting.off <= MISSED:
                yield setting, trial


def _asked(trials: Trials) -> dict[int, float]:
    """Return the share of the update that the run's weights ask for, by the reward's index, where it is above 0."""
    due_shares = {k: trials.as_it_ran.due_share(k) for k in range(len(trials.facts.rewards))}
    return {k: due for k, due in due_shares.items() if due > 0}


def _differ(weights: Sequence[float], weights_of_run: Sequence[float]) -> bool:
    """Return whether weights differ from those of the run by more than a common factor, and enough to be worth a
    change.
    """
    largest, of_own = max(map(abs, weights)), max(map(abs, weights_of_run))
    return any(abs(w / largest - o / of_own) >= MOVED for w, o in zip(weights, weights_of_run, strict=True))


def _tried(trials: Trials, title: str, do: str, trial: Trial) -> tuple[Setting, Trial]:
    """Return a setting as the plan of the report holds it, with its figures, and the trial that gave them.

    trials: the sample on which settings are tried.
    title: the setting in a few words.
    do: the step that a user has to take for it, as the start of a sentence.
    trial: the setting.
    """
    f, after, method = trials.facts, trials.facts_under(trial), trial.method
    shares, (functions, weights) = after.shares(method), f.functions(trial.weights)
    gate: GatePart | None = None
    if trial.gate is not None:
        gate = trial.gate.named(f.rewards)
        lines: str | None = config_lines.gate(f.run.framework, functions, **gate)
    elif method == f.method:
        lines = config_lines.set_weights(f.run.framework, functions, weights, method)
    else:
        lines = config_lines.switch_to(
            f.run.framework, functions, weights, method, of_grpo=trial.weights == f.basis.weights
        )
    if lines is not None and changes_of(f, trial.weights):
        lines = f"# the weights of the run change during it: these are those of some steps alone\n{lines}"
    setting = Setting(
        setting=TrialPart(
            method=method, weights=dict(zip(f.rewards, f.printed(trial.weights), strict=True)), gate=gate
        ),
        title=title,
        do=do,
        update_share=dict(zip(f.rewards, shares, strict=True)),
        push=dict(zip(f.rewards, after.push(method), strict=True)),
        punished=dict(zip(f.rewards, after.punished(method), strict=True)),
        inversions=after.inversions(method),
        groups_with_ties=after.ties(method),
        tied_pairs=after.tied_pairs(method),
        silent_groups=after.silent(method),
        dead_groups={name: after.dead(k) for k, name in enumerate(f.rewards)},
        lines=lines,
        off=sum(abs(shares[k] - share) for k, share in _asked(trials).items()) / 2,
        tried_on=sum(map(len, trials.sample)),
    )
    return setting, trial


# --- which one ------------------------------------------------------------------------------------------------------


def _best(f: Facts, rows: Sequence[Setting]) -> Setting | None:
    """Return the setting to recommend: of those that meet three conditions, the one with the largest gain.

    The gain is how much the push on the primary reward rises above that under the run's own setting, less the losses of
    the pushes on other rewards. The first condition is a push on the primary reward above 0. The second is that this
    push is larger than under the run's own setting by more than noise. The third counts only if the reward has a
    forecast. The forecast says how much higher its mean would be than under the run's own setting, and its 80 %
    interval has to lie above 0.

    None if no setting meets the conditions. None, too, if no reward is primary, as only the run's owner can then say
    what is better. None if no known method makes the logged advantages.

    f: the facts of the run.
    rows: the settings without a gate, the run's own first.
    """
    if f.basis.primary is None or (f.recipe is None and f.reproduced is False):
        return None
    first, ran = f.rewards[f.basis.primary], rows[0]
    good = [row for row in rows[1:] if row.push[first] > 0 and _rises(row, ran, first) and not _may_fall(row, first)]
    return max(good, key=lambda row: _gain(row, ran, first), default=None)


def _rises(row: Setting, ran: Setting, name: str) -> bool:
    """Return whether the push on the reward `name` is larger under the setting `row` than under the run's own, `ran`,
    by more than noise.
    """
    return row.push[name] - ran.push[name] > push_noise(row.tried_on)


def _may_fall(row: Setting, name: str) -> bool:
    """Return whether the forecast of the reward `name` under a setting has an interval that reaches down to 0 or below;
    False where there is no forecast.
    """
    low = row.forecast[name]["low"] if row.forecast else None
    return low is not None and low <= 0


def _gain(row: Setting, ran: Setting, first: str) -> float:
    """Return by how much a setting raises the push on the reward `first`, less the losses of the pushes on other
    rewards.

    All of this is against the run's own setting, `ran`. Gains of other rewards do not count.
    """
    moved = {name: row.push[name] - ran.push[name] for name in row.push}
    return moved.pop(first) + sum(min(x, 0.0) for x in moved.values() if not isnan(x))


def _recommended(row: Setting, ran: Setting, primary: str) -> Setting:
    """Return the setting `row` marked as recommended, with a reason and its cost.

    The reason is how the push on the primary reward changes; the cost is by how much the pushes on other rewards fall.

    row: the setting to mark.
    ran: the run's own setting.
    primary: the name of the primary reward.
    """
    falling = [
        name for name in row.push if name != primary and ran.push[name] - row.push[name] > push_noise(row.tried_on)
    ]
    worse = "; ".join(f"the push on {name} falls {moved_push(row, ran, name)}" for name in falling)
    cost = f"It has a cost: {worse}." if falling else "The push on no other reward falls by more than noise."
    return replace(row, recommended=True, why=f"the push on {primary} goes {moved_push(row, ran, primary)}", cost=cost)


def moved_push(row: Setting, ran: Setting, name: str) -> str:
    """Return words that say how the push on a reward changes from the setting `ran` to the setting `row`.

    If `row` has a forecast of that reward, the forecast change of its mean follows, with the interval.
    """
    push = f"from {signed(ran.push[name])} to {signed(row.push[name])}"
    told = row.forecast[name] if row.forecast else None
    if told is None or told["difference"] is None:
        return push
    return f"{push}, and the mean of {name} over the logged steps would have {changed(told)}"


def changed(told: ForecastPart) -> str:
    """Return words for a forecast change of a mean that follow “would have”: by how much it would have been higher or
    lower, with the interval.

    If the interval holds 0, they say by how much the mean would have changed. If three decimals show no change, they
    say that it hardly would have changed.

    told: a forecast of which no number is None.

    >>> changed({"difference": -0.02, "low": -0.03, "high": -0.01})
    'been lower by an estimated 0.020 (80 % interval 0.010 to 0.030)'
    >>> changed({"difference": 0.0004, "low": -0.00001, "high": 0.001})
    'hardly changed (80 % interval 0.000 to +0.001)'
    """
    difference, low, high = (round(float(told[key] or 0.0), 3) for key in ("difference", "low", "high"))
    if low * high > 0 and difference:
        by, *ends = (f"{abs(x):.3f}" for x in (difference, *sorted((low, high), key=abs)))
        way = "higher" if difference > 0 else "lower"
        return f"been {way} by an estimated {by} (80 % interval {' to '.join(ends)})"
    by = f"changed by an estimated {signed(difference, 3)}" if difference else "hardly changed"
    return f"{by} (80 % interval {signed(low, 3)} to {signed(high, 3)})"


def _gated(trials: Trials, ran: Setting) -> list[tuple[Setting, Trial]]:
    """Return a list with one pair: the setting whose gate raises the push on the primary reward most, and its trial.

    Return [] if no gate raises it by more than noise, if no reward is primary, or if the primary reward never varies
    within a group. Each gate lets another reward count only where the primary reward has its highest value, which
    changes the task.

    trials: the sample on which settings are tried.
    ran: the run's own setting.
    """
    f = trials.facts
    on = f.basis.primary
    if on is None or f.dead(on) >= 1:
        return []
    first, tried = f.rewards[on], list[tuple[Setting, Trial]]()
    for k, name in enumerate(f.rewards):
        if k != on and f.basis.weights[k] and f.dead(k) < 1:
            gate = Gate(k, on, f.top(on), f.worst(k))
            do = f"Let {name} count only where {first} reaches {number(gate.threshold)}"
            title = f"{NAMES[f.method]}, {name} gated by {first}"
            tried.append(_tried(trials, title, do, Trial(f.method, f.basis.weights, gate)))
    best = max(tried, key=lambda pair: pair[0].push[first], default=None)
    return [best] if best is not None and _rises(best[0], ran, first) else []


def _with_forecasts(f: Facts, tried: Sequence[tuple[Setting, Trial]]) -> list[Setting]:
    """Return the settings, each but the run's own with a forecast of each reward. They come without forecasts if no
    reward is primary, or if the log lacks what a forecast needs.

    f: the facts of the run.
    tried: pairs of a setting and its trial, the run's own first.
    """
    rows = [row for row, _ in tried]
    if f.basis.primary is None:
        return rows
    try:
        forecasts = forecasts_of(f, [trial for _, trial in tried[1:]])
    except InputError:  # the log is too short
        return rows
    return [rows[0], *(replace(row, forecast=told) for row, told in zip(rows[1:], forecasts, strict=True))]
