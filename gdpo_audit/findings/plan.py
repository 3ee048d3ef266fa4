"""The plan of a report: settings tried on the run's own log, its own first. At most one is recommended."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from math import isnan
from typing import Any

from gdpo_audit.findings.facts import Facts
from gdpo_audit.findings.findings_advantages import contradicted_weights
from gdpo_audit.findings.shares import weights_for
from gdpo_audit.findings.thresholds import HELPED, INVERTED_INFO, MOVED, TIED_PAIRS
from gdpo_audit.findings.trials import Gate, Trial
from gdpo_core import config_lines
from gdpo_core._words import listing, number, percent
from gdpo_core.conventions import NAMES


@dataclass(frozen=True, kw_only=True)
class Setting:
    """A setting of a run, and what the run's own log shows under it; figures as in `AuditReport.methods`.

    title: in a few words; do: what to do for it, as the start of a sentence. gate: `reward` counts only where `on`
    reaches `threshold`, and is `otherwise` everywhere else. lines: of configuration; None: none are known.
    off: how far the shares are from what the weights of the run ask for, from 0 to 1. tried_on: responses.
    why, cost: of the one that is recommended, the end of that sentence, and another one.
    """

    title: str
    do: str
    method: str
    weights: Mapping[str, float]
    gate: Mapping[str, Any] | None
    update_share: Mapping[str, float]
    inversions: float
    groups_with_ties: float
    tied_pairs: float
    silent_groups: float
    dead_groups: Mapping[str, float]
    lines: str | None
    off: float
    tried_on: int
    recommended: bool = False
    why: str = ""
    cost: str = ""

    def to_dict(self) -> dict[str, Any]:
        """It as plain values, the setting apart from what it does."""
        values = asdict(self)
        return {"setting": {name: values.pop(name) for name in ("method", "weights", "gate")}, **values}


def plan_of(f: Facts) -> tuple[Setting, ...]:
    """What the run could have used, each tried on its log; empty where the log does not tell what did what."""
    unknown = f.run.total_only or f.relations or f.contradicted or f.lacks_a_reward
    if len(f.rewards) < 2 or unknown or not any(f.setup.weights) or not f.sample:
        return ()
    own, name = f.setup.weights, NAMES[f.method]
    assumed = f"{name}, {'asked for' if f.intended_method == f.method else 'assumed'}"
    ran = "the weights given" if contradicted_weights(f) else "as it ran" if f.recipe else assumed
    rows = [_tried(f, ran, "", Trial(f.method, own))]
    of_sums = f.method if f.method in ("grpo_no_std", "grpo_batch_std") else "grpo"
    for method in ("gdpo", of_sums):
        if method != f.method:
            rows.append(_tried(f, f"{NAMES[method]}, same weights", f"Use {NAMES[method]}", Trial(method, own)))
    for method in ("gdpo", of_sums):
        weights = weights_for(f, method, _asked(f))
        if weights is not None and _differ(weights, own):
            words = listing(f"{r} {number(w)}" for r, w in zip(f.rewards, f.printed(weights), strict=True))
            do = f"Set the weights {words}" if method == f.method else f"Use {NAMES[method]} with the weights {words}"
            rows.append(_tried(f, f"{NAMES[method]}, shares as asked", do, Trial(method, weights)))
    best = _best(f, rows)
    if best is not None:
        assert f.setup.primary is not None
        rows[rows.index(best)] = _recommended(best, rows[0], f.rewards[f.setup.primary])
    return *rows, *_gated(f, rows[0])


def _asked(f: Facts) -> dict[int, float]:
    """The shares that the weights of the run ask for, of the rewards that can act."""
    return {k: due for k in range(len(f.rewards)) if (due := f.baseline.due_share(k)) > 0}


def _differ(weights: Sequence[float], own: Sequence[float]) -> bool:
    """Whether weights differ from the run's by more than a factor, and enough to be worth a change."""
    largest, of_own = max(map(abs, weights)), max(map(abs, own))
    return any(abs(w / largest - o / of_own) >= MOVED for w, o in zip(weights, own, strict=True))


def _tried(f: Facts, title: str, do: str, trial: Trial) -> Setting:
    after, method = f.try_setting(trial), trial.method
    shares, (functions, weights) = after.shares(method), f.functions(trial.weights)
    gate: dict[str, Any] | None = None
    if g := trial.gate:
        gate = {"on": f.rewards[g.on], "reward": f.rewards[g.reward], "threshold": g.threshold, "otherwise": g.fallback}
        lines: str | None = config_lines.gate(f.run.framework, functions, **gate)
    elif method == f.method:
        lines = config_lines.set_weights(f.run.framework, functions, weights, method)
    else:
        lines = config_lines.switch_to(
            f.run.framework, functions, weights, method, of_grpo=trial.weights == f.setup.weights
        )
    return Setting(
        title=title,
        do=do,
        method=method,
        weights=dict(zip(f.rewards, f.printed(trial.weights), strict=True)),
        gate=gate,
        update_share=dict(zip(f.rewards, shares, strict=True)),
        inversions=after.inversions(method),
        groups_with_ties=after.ties(method),
        tied_pairs=after.tied_pairs(method),
        silent_groups=after.silent(method),
        dead_groups={name: after.dead(k) for k, name in enumerate(f.rewards)},
        lines=lines,
        off=sum(abs(shares[k] - share) for k, share in _asked(f).items()) / 2,
        tried_on=sum(map(len, f.sample)),
    )


# --- which one ------------------------------------------------------------------------------------------------------


def _best(f: Facts, rows: Sequence[Setting]) -> Setting | None:
    """Of the settings that mend something and spoil nothing the one with the best order, then with shares as asked for.

    None without a primary reward: whether a share or an order is better is then its owner's to say. None too where the
    advantages are not what any method makes.
    """
    if f.setup.primary is None or (f.recipe is None and f.reproduced is False):
        return None
    first, ran = f.rewards[f.setup.primary], rows[0]
    good = []
    for row in rows[1:]:
        turned, nearer = _more(row.inversions, ran.inversions), ran.off - row.off
        # The order of answers comes first: no share is worth pairs that turn the wrong way round, and what matters most
        # may make most of the update.
        mends = turned <= -2 * HELPED or nearer >= MOVED or ran.tied_pairs - row.tied_pairs >= TIED_PAIRS
        weaker = row.update_share[first] < ran.update_share[first] - MOVED
        if mends and not (turned >= HELPED or weaker or (nearer <= -MOVED and turned > -HELPED)):
            good.append(row)
    least = min((_more(row.inversions, 0) for row in good), default=0.0)
    ordered = [row for row in good if _more(row.inversions, 0) <= least + HELPED]
    off = min((row.off for row in ordered), default=0.0)
    return next((row for row in ordered if row.off <= off + MOVED / 2), None)


def _more(after: float, before: float) -> float:
    """By how much a share grew; 0 where one is not known."""
    return 0.0 if isnan(after - before) else after - before


def _recommended(row: Setting, ran: Setting, primary: str) -> Setting:
    """The setting with its reason and its cost."""
    moved = {name: share - ran.update_share[name] for name, share in row.update_share.items()}
    gains, loses = (choose(moved, key=lambda name: moved[name]) for choose in (max, min))
    gains = primary if moved[primary] >= MOVED else gains
    shares = {name: f"{percent(ran.update_share[name])} → {percent(row.update_share[name])}" for name in moved}
    gained = [f"{gains}’s share of the update {shares[gains]}"]
    better = [*gained] if moved[gains] >= MOVED else []
    worse = [f"{loses}’s share {shares[loses]}"] if moved[loses] <= -MOVED else []
    for words, a, b in (
        ("pairs the wrong way round", ran.inversions, row.inversions),
        ("tied pairs", ran.tied_pairs, row.tied_pairs),
        ("silent groups", ran.silent_groups, row.silent_groups),
    ):
        if abs(_more(b, a)) >= HELPED / 2:
            (better if b < a else worse).append(f"{words} {percent(a)} → {percent(b)}")
    cost = f"It costs: {listing(worse)}." if worse else "No figure of this log gets worse."
    return replace(row, recommended=True, why=f"on this log that brings {listing(better or gained)}", cost=cost)


def _gated(f: Facts, ran: Setting) -> list[Setting]:
    """The gate that does most for the order of a primary reward that is inverted, if one helps: it changes the task."""
    on = f.setup.primary
    if on is None or not ran.inversions >= INVERTED_INFO:
        return []
    rows = []
    for k, name in enumerate(f.rewards):
        if k != on and f.setup.weights[k] and f.dead(k) < 1:
            gate = Gate(k, on, f.highest(on), f.worst(k))
            do = f"Let {name} count only where {f.rewards[on]} reaches {number(gate.threshold)}"
            rows.append(_tried(f, f"{name} behind {f.rewards[on]}", do, Trial(f.method, f.setup.weights, gate)))
    best = min(rows, key=lambda row: row.inversions, default=ran)
    return [best] if ran.inversions - best.inversions >= HELPED else []
