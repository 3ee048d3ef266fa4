"""The plan of a report: the run's own setting and others, each tried on the run's own log. At most one is
recommended.
"""

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from gdpo_audit.facts.facts import Facts
from gdpo_audit.facts.given_weights import contradicted_weights, unshown
from gdpo_audit.json_types import GatePart
from gdpo_audit.phrases import gate_opens
from gdpo_audit.sums.wanted import sign_of
from gdpo_audit.thresholds import MISSED, MOVED
from gdpo_audit.trials.recommending import marked, rises, with_costs
from gdpo_audit.trials.run_forecast import forecasts_of
from gdpo_audit.trials.setting import Setting, TrialPart
from gdpo_audit.trials.shares import weights_for
from gdpo_audit.trials.trials import Gate, Trial, Trials, changes_of
from gdpo_core import config_lines
from gdpo_core.conventions import NAMES
from gdpo_core.shared.errors import InputError
from gdpo_core.shared.words import listing, number


def plan_of(f: Facts) -> tuple[Setting, ...]:
    """Return the settings that were tried on the run's own log, with at most one of them marked as recommended or as
    held back.

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
    return with_costs(f, marked(f, _with_forecasts(f, [*tried, *gated])))


def _settings(trials: Trials) -> Iterator[tuple[Setting, Trial]]:
    """Yield each setting without a gate that is tried, with the trial that it was computed from.

    First comes the run's own setting, and after it the weights that the caller gave, if other weights ran. Then come
    GDPO and GRPO with the weights of the run; the method that ran is not tried twice. Last come GDPO and GRPO with
    weights under which each reward gets the share of the update that the run's weight for it asks for. These are left
    out in four cases: they are not found, they hardly differ from the weights of the run, one of them has another
    sign, or the shares under them miss what is asked for by more than `MISSED`.

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
        if weights is not None and _differ(weights, weights_of_run) and _same_signs(weights, weights_of_run):
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


def _same_signs(weights: Sequence[float], weights_of_run: Sequence[float]) -> bool:
    """Return whether each weight has the sign that it has in the run, so that no reward is turned or taken in."""
    return [*map(sign_of, weights)] == [*map(sign_of, weights_of_run)]


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
    open_ones = [name for name, varies in unshown(f).items() if varies and name not in f.given_weights]
    if lines is not None and open_ones and trial.weights == f.basis.weights:
        lines = f"# the log does not show the weight of {listing(open_ones)}\n{lines}"
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


def _gated(trials: Trials, ran: Setting) -> list[tuple[Setting, Trial]]:
    """Return a list with one pair: the setting whose gate raises the push on the primary reward most in the direction
    that the run wants, and its trial.

    Return [] if no gate raises it by more than noise, if no reward is primary, if the run wants the primary reward
    neither higher nor lower, or if it never varies within a group. Each gate lets another reward count only where the
    primary reward has its best value, which changes the task.

    trials: the sample on which settings are tried.
    ran: the run's own setting.
    """
    f = trials.facts
    on = f.basis.primary
    if on is None or f.dead(on) >= 1 or not f.wanted[on]:
        return []
    first, tried = f.rewards[on], list[tuple[Setting, Trial]]()
    for k, name in enumerate(f.rewards):
        if k != on and f.basis.weights[k] and f.wanted[k] and f.dead(k) < 1:
            gate = Gate(k, on, f.top(on), f.worst(k), at_most=f.wanted[on] < 0)
            do = f"Let {name} count only where {gate_opens(gate.named(f.rewards))}"
            title = f"{NAMES[f.method]}, {name} gated by {first}"
            tried.append(_tried(trials, title, do, Trial(f.method, f.basis.weights, gate)))
    best = max(tried, key=lambda pair: f.wanted[on] * pair[0].push[first], default=None)
    return [best] if best is not None and rises(best[0], ran, first, f.wanted[on]) else []


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
