"""The plan of a report: settings tried on the run's own log, its own first. At most one is recommended."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from math import isnan
from typing import Any

from gdpo_audit.findings.facts import Facts
from gdpo_audit.findings.findings_advantages import contradicted_weights
from gdpo_audit.findings.forecast import forecasts_of
from gdpo_audit.findings.shares import weights_for
from gdpo_audit.findings.thresholds import MOVED, push_noise
from gdpo_audit.findings.trials import Gate, Trial, Trials
from gdpo_core import config_lines
from gdpo_core._errors import InputError
from gdpo_core._words import listing, number, signed
from gdpo_core.conventions import NAMES


@dataclass(frozen=True, kw_only=True)
class Setting:
    """Describe a setting of a run, and what the run's own log shows under it; figures as in `AuditReport.methods`.

    title: in a few words; do: what to do for it, as the start of a sentence. gate: `reward` counts only where `on`
    reaches `threshold`, and is `otherwise` everywhere else. lines: of configuration; None: none are known.
    push, punished: of the rewards as the log has them, also of one behind a gate.
    off: how far the shares are from what the weights of the run ask for, from 0 to 1. tried_on: how many responses.
    why, cost: the end of the sentence that recommends the setting, and a sentence about what it costs; both empty for a
    setting that is not recommended.
    """

    title: str
    do: str
    method: str
    weights: Mapping[str, float]
    gate: Mapping[str, Any] | None
    update_share: Mapping[str, float]
    push: Mapping[str, float]
    punished: Mapping[str, float]
    inversions: float
    groups_with_ties: float
    tied_pairs: float
    silent_groups: float
    dead_groups: Mapping[str, float]
    lines: str | None
    off: float
    tried_on: int
    recommended: bool = False
    forecast: Mapping[str, Mapping[str, float | None]] | None = None  # of each reward: difference, low, high
    why: str = ""
    cost: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return the row as plain values, the method, weights and gate under `setting`."""
        values = asdict(self)
        return {"setting": {name: values.pop(name) for name in ("method", "weights", "gate")}, **values}


def plan_of(f: Facts) -> tuple[Setting, ...]:
    """Return the settings that the run could have used, tried on its log, its own first.

    Returns () for a single reward, for weights that are all 0, and where the log does not tell what each reward did.
    """
    unknown = f.run.total_only or f.relations or f.contradicted or f.lacks_a_reward
    if len(f.rewards) < 2 or unknown or not any(f.basis.weights):
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
    """Yield the run's own setting, other methods, and weights that give the shares asked for, each as it is tried."""
    f = trials.facts
    weights_of_run, name = f.basis.weights, NAMES[f.method]
    asked = "the trainer's own" if f.trainers_own else "asked for"
    assumed = f"{name}, {asked if f.intended_method == f.method else 'assumed'}"
    ran = "the weights given" if contradicted_weights(f) else "as it ran" if f.recipe else assumed
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
            yield _tried(trials, f"{NAMES[method]}, other weights", do, Trial(method, weights))


def _asked(trials: Trials) -> dict[int, float]:
    """Return the shares that the weights of the run ask for, by the index of each reward that can act."""
    due_shares = {k: trials.as_it_ran.due_share(k) for k in range(len(trials.facts.rewards))}
    return {k: due for k, due in due_shares.items() if due > 0}


def _differ(weights: Sequence[float], weights_of_run: Sequence[float]) -> bool:
    """Return whether weights differ from the run's by more than a factor, and enough to be worth a change."""
    largest, of_own = max(map(abs, weights)), max(map(abs, weights_of_run))
    return any(abs(w / largest - o / of_own) >= MOVED for w, o in zip(weights, weights_of_run, strict=True))


def _tried(trials: Trials, title: str, do: str, trial: Trial) -> tuple[Setting, Trial]:
    """Return the setting of a trial with what the sample shows under it, and the trial; title, do: as in Setting."""
    f, after, method = trials.facts, trials.facts_under(trial), trial.method
    shares, (functions, weights) = after.shares(method), f.functions(trial.weights)
    gate: dict[str, Any] | None = None
    if trial.gate is not None:
        gate = trial.gate.named(f.rewards)
        lines: str | None = config_lines.gate(f.run.framework, functions, **gate)
    elif method == f.method:
        lines = config_lines.set_weights(f.run.framework, functions, weights, method)
    else:
        lines = config_lines.switch_to(
            f.run.framework, functions, weights, method, of_grpo=trial.weights == f.basis.weights
        )
    setting = Setting(
        title=title,
        do=do,
        method=method,
        weights=dict(zip(f.rewards, f.printed(trial.weights), strict=True)),
        gate=gate,
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
    """Return the setting under which the primary reward is learnt faster, at the least cost to others, or None.

    Its push on the primary reward has to rise by more than noise, and its forecast, if it has one, has to lie above 0
    with its whole interval. None too without a primary reward, as its owner alone can say then what is better, and
    where no method makes the advantages.
    """
    if f.basis.primary is None or (f.recipe is None and f.reproduced is False):
        return None
    first, ran = f.rewards[f.basis.primary], rows[0]
    good = [row for row in rows[1:] if row.push[first] > 0 and _rises(row, ran, first) and not _may_fall(row, first)]
    return max(good, key=lambda row: _gain(row, ran, first), default=None)


def _rises(row: Setting, ran: Setting, name: str) -> bool:
    """Return whether the push on a reward is larger than as it ran, by more than noise."""
    return row.push[name] - ran.push[name] > push_noise(row.tried_on)


def _may_fall(row: Setting, name: str) -> bool:
    """Return whether a reward has a forecast whose interval reaches 0 or less."""
    told = (row.forecast or {}).get(name, {}).get("low")
    return told is not None and told <= 0


def _gain(row: Setting, ran: Setting, first: str) -> float:
    """Return the gain in the push on the reward `first` over the run's setting `ran`, less what other pushes lose."""
    moved = {name: row.push[name] - ran.push[name] for name in row.push}
    return moved.pop(first) + sum(min(x, 0.0) for x in moved.values() if not isnan(x))


def _recommended(row: Setting, ran: Setting, primary: str) -> Setting:
    """Return the setting as recommended: with its reason, its effect on the primary reward, and its cost to others."""
    falling = [
        name for name in row.push if name != primary and ran.push[name] - row.push[name] > push_noise(row.tried_on)
    ]
    worse = "; ".join(f"the push on {name} falls {moved_push(row, ran, name)}" for name in falling)
    cost = f"It has a cost: {worse}." if falling else "The push on no other reward falls by more than noise."
    return replace(row, recommended=True, why=f"the push on {primary} goes {moved_push(row, ran, primary)}", cost=cost)


def moved_push(row: Setting, ran: Setting, name: str) -> str:
    """Say how the push on a reward changes from the setting `ran` to `row`.

    The forecast change of the reward's mean, with the interval, is added where there is one.
    """
    push = f"from {signed(ran.push[name])} to {signed(row.push[name])}"
    told = (row.forecast or {}).get(name) or {}
    if told.get("difference") is None:
        return push
    low, high = (signed(told[end], 3) for end in ("low", "high"))
    difference = signed(told["difference"], 3)
    mean = f"the mean of {name} over the logged steps is forecast to change by {difference}"
    return f"{push}, and {mean} (80 % interval {low} to {high})"


def _gated(trials: Trials, ran: Setting) -> list[tuple[Setting, Trial]]:
    """Return a list of one pair: the setting with the gate that raises the push on the primary reward most, and its
    trial; [] where none raises it by more than noise, or no reward is primary. A gate changes the task.
    """
    f = trials.facts
    on = f.basis.primary
    if on is None or f.dead(on) >= 1:
        return []
    first, tried = f.rewards[on], list[tuple[Setting, Trial]]()
    for k, name in enumerate(f.rewards):
        if k != on and f.basis.weights[k] and f.dead(k) < 1:
            gate = Gate(k, on, f.highest(on), f.worst(k))
            do = f"Let {name} count only where {first} reaches {number(gate.threshold)}"
            title = f"{NAMES[f.method]}, {name} gated by {first}"
            tried.append(_tried(trials, title, do, Trial(f.method, f.basis.weights, gate)))
    best = max(tried, key=lambda pair: pair[0].push[first], default=None)
    return [best] if best is not None and _rises(best[0], ran, first) else []


def _with_forecasts(f: Facts, tried: Sequence[tuple[Setting, Trial]]) -> list[Setting]:
    """Return the settings, all but the first with the forecast of each reward if a reward is primary and the log tells
    enough, else unchanged.
    """
    rows = [row for row, _ in tried]
    if f.basis.primary is None:
        return rows
    try:
        forecasts = forecasts_of(f, [trial for _, trial in tried[1:]])
    except InputError:  # the log is too short
        return rows
    return [rows[0], *(replace(row, forecast=told) for row, told in zip(rows[1:], forecasts, strict=True))]
