"""The choice of the setting of a plan that is recommended, with its reason and its cost, both in the direction in which
the run wants each reward.
"""

import re
from collections.abc import Sequence
from math import isnan

from msgspec.structs import replace

from gdpo_audit.facts.facts import Facts
from gdpo_audit.json_types import ForecastPart
from gdpo_audit.phrases import gate_opens
from gdpo_audit.sums.wanted import named
from gdpo_audit.thresholds import push_noise
from gdpo_audit.trials.forecast_backtest import AGAINST
from gdpo_audit.trials.setting import Setting
from gdpo_core.pushing import OTHER_STEPS, same_step, stops
from gdpo_core.shared.words import decimal, listing, signed

INTERVAL = "80 % interval"  # the words before the ends of an interval
POINT = "A point is 1 % of the range of a reward in the log."


def marked(f: Facts, rows: Sequence[Setting]) -> tuple[Setting, ...]:
    """Return the rows of a plan with the best of them, if there is one, marked as recommended or as held back.

    The best is that with the largest gain of those without a gate that meet three conditions. The primary reward is
    pushed in the direction that the run wants. It is pushed so by more than noise more than under the run's own
    setting. And if it has a forecast, the 80 % interval lies wholly on the good side of 0.

    The best is held back where the primary reward moved against its push: then the log shows that a push does not
    predict what is learnt. It is held back, too, where its steps have another length than those of the run, so that
    pushes do not compare the two. No row is marked if no reward is primary, as only the run's owner can then say what
    is better; nor if no known method makes the logged advantages.

    f: the facts of the run.
    rows: the settings, the run's own first.
    """
    primary = f.basis.primary
    if primary is None or (f.recipe is None and f.reproduced is False):
        return tuple(rows)
    first, direction, ran = f.rewards[primary], f.wanted[primary], rows[0]
    good = [row for row in _rising(f, rows) if not _may_get_worse(row, first, direction)]
    alike = [row for row in good if same_step(row.method, f.step_of)]
    best = max(alike or good, key=lambda row: _gain(f, row, ran), default=None)
    if best is None:
        return tuple(rows)
    beside = _passed_over(f, rows, best)
    return tuple(_marked(f, row, ran, first, beside) if row is best else row for row in rows)


def _marked(f: Facts, row: Setting, ran: Setting, first: str, beside: str) -> Setting:
    """Return the best setting of a plan marked as recommended, with a reason, a cost and what has to be accepted; or as
    held back, with the cost.

    ran: the run's own setting.
    first: the name of the primary reward.
    beside: a sentence on a setting that is passed over, which follows the cost of a recommended one; "" for none.
    """
    cost = cost_of(f, row, ran)
    told = row.forecast[first] if row.forecast else None
    why = "" if same_step(row.method, f.step_of) else OTHER_STEPS
    if told is not None and AGAINST in told["why"]:
        why = f"{first} {AGAINST}, so its push cannot tell what a change would do here."
    if why:
        most = f"Of the settings without a gate, {row.title}, would push it most: {_arrow(row, ran, first)}."
        return replace(row, held_back=f"No setting is recommended: {why} {most}", cost=cost)
    if told is not None and told["difference"] is None:
        cost = f"Nothing but the push speaks for it, as {first} has no forecast. {cost}"
    stopping = [name for name in _secondary(f) if _stops(f, row, ran, name)]
    only_if = f"only if {listing(stopping)} may stop improving" if stopping else ""
    cost = " ".join(filter(None, (cost, beside)))
    return replace(row, recommended=True, why=effect(f, row, ran, first), only_if=only_if, cost=cost)


def _passed_over(f: Facts, rows: Sequence[Setting], best: Setting) -> str:
    """Return a sentence that says why the setting of a plan that pushes the primary reward most is not the best; "" if
    no setting pushes it more than the best does, by more than noise.
    """
    assert f.basis.primary is not None, "without a primary reward no setting is best"
    first, direction = f.rewards[f.basis.primary], f.wanted[f.basis.primary]
    more = [(n, row) for n, row in enumerate(rows) if n and same_step(row.method, best.method)]
    more = [(n, row) for n, row in more if rises(row, best, first, direction)]
    if not more:
        return ""
    n, row = max(more, key=lambda pair: direction * pair[1].push[first])
    why = "takes more from the other rewards"
    if row.gate is not None:
        gated = f"counts {row.gate['reward']} only where {gate_opens(row.gate)}"
        why = f"{gated}, which changes the task: your choice"
    elif _may_get_worse(row, first, direction):
        why = "its forecast does not exclude a loss"
    down = " down" * (direction < 0)
    return f"Row {n} pushes {first}{down} more ({signed(row.push[first])}), but {why}."


# --- conditions -------------------------------------------------------------------------------------------------------


def rises(row: Setting, ran: Setting, name: str, direction: int) -> bool:
    """Return whether the push on a reward is larger under the setting `row` than under the run's own, `ran`, in the
    direction that the run wants, by more than noise.
    """
    return direction * (row.push[name] - ran.push[name]) > push_noise(row.tried_on)


def _rising(f: Facts, rows: Sequence[Setting]) -> list[Setting]:
    """Return the settings without a gate that push the primary reward in the direction that the run wants, and by more
    than noise more than the run's own setting, the first of `rows`.
    """
    assert f.basis.primary is not None, "without a primary reward no setting is better"
    first, direction = f.rewards[f.basis.primary], f.wanted[f.basis.primary]
    return [
        row
        for row in rows[1:]
        if row.gate is None and round(direction * row.push[first], 2) > 0 and rises(row, rows[0], first, direction)
    ]


def _may_get_worse(row: Setting, name: str, direction: int) -> bool:
    """Return whether the worse end of the interval of a reward's forecast is no gain; False without a forecast."""
    interval = _interval(row, name, direction)
    return interval is not None and interval[0] <= 0


def _interval(row: Setting, name: str, direction: int) -> tuple[float, float] | None:
    """Return the ends of the interval of a reward's forecast, the worse one first, as numbers above 0 where the reward
    gets better; None where there is no forecast.
    """
    told = row.forecast[name] if row.forecast else None
    if told is None or told["low"] is None or told["high"] is None:
        return None
    worse, better = sorted((direction * told["low"], direction * told["high"]))
    return worse, better


def _gain(f: Facts, row: Setting, ran: Setting) -> float:
    """Return by how much a setting pushes the primary reward more in the direction that the run wants, less the losses
    of the pushes on other rewards.

    All of this is against the run's own setting, `ran`. Gains of other rewards do not count.
    """
    moved = {name: f.wanted[k] * (row.push[name] - ran.push[name]) for k, name in enumerate(f.rewards)}
    assert f.basis.primary is not None, "without a primary reward there is no gain"
    return moved.pop(f.rewards[f.basis.primary]) + sum(min(x, 0.0) for x in moved.values() if not isnan(x))


def _secondary(f: Facts) -> list[str]:
    """Return the names of the rewards that are not primary and that the run wants higher or lower."""
    return [name for k, name in enumerate(f.rewards) if k != f.basis.primary and f.wanted[k]]


def _loses_push(f: Facts, row: Setting, ran: Setting, name: str) -> bool:
    """Return whether a setting pushes a reward less in the direction that the run wants, by more than noise."""
    return rises(ran, row, name, f.wanted[f.rewards.index(name)])


def _stops(f: Facts, row: Setting, ran: Setting, name: str) -> bool:
    """Return whether the push on a reward, in the direction that the run wants, falls to about 0 or below."""
    direction = f.wanted[f.rewards.index(name)]
    return stops(direction * ran.push[name], direction * row.push[name])


# --- what it costs ----------------------------------------------------------------------------------------------------


def cost_of(f: Facts, row: Setting, ran: Setting) -> str:
    """Return in sentences what a setting costs, against the run's own setting, `ran`.

    Another reward is a cost if its forecast lies wholly on the bad side, or if it has none and its push falls by more
    than noise in the direction that the run wants. If the push falls so, a forecast with an interval that holds 0 may
    be a cost, and one that lies wholly on the good side is told in a sentence of its own.
    """
    costs, mixed, open_ = list[str](), list[str](), list[str]()
    for name in _secondary(f):
        direction = f.wanted[f.rewards.index(name)]
        interval, loses = _interval(row, name, direction), _loses_push(f, row, ran, name)
        if interval is not None and interval[1] < 0:
            costs.append(effect(f, row, ran, name))
        elif loses:
            kind = costs if interval is None else mixed if interval[0] > 0 else open_
            kind.append(effect(f, row, ran, name))
    says = [f"It has a cost: {'; '.join(costs)}."] if costs else []
    says += [f"It may have a cost: {'; '.join(open_)}."] if open_ else []
    if mixed:
        says.append(f"It pushes less what is forecast to get better all the same: {'; '.join(mixed)}.")
    as_wanted = " in the direction that the run wants" * (min(f.wanted) < 0)
    return " ".join(says) or f"The push on no other reward falls{as_wanted} by more than noise."


def with_costs(f: Facts, rows: Sequence[Setting]) -> tuple[Setting, ...]:
    """Return the rows of a plan, each but the run's own with what it costs. Without a primary reward they stay as they
    are, as there is then nothing that a cost could be paid for.

    rows: the settings, the run's own first, of which the best has its cost already.
    """
    if f.basis.primary is None:
        return tuple(rows)
    return (rows[0], *(row if row.cost else replace(row, cost=cost_of(f, row, rows[0])) for row in rows[1:]))


def effect(f: Facts, row: Setting, ran: Setting, name: str) -> str:
    """Return words for what a setting does to a reward, against the run's own setting, `ran`: the forecast of its mean
    in points of its range in the log, with the interval, and the push on it. Without a forecast, they name the push
    alone.
    """
    k = f.rewards.index(name)
    direction, told = f.wanted[k], row.forecast[name] if row.forecast else None
    called = named(name, direction) + "," * (direction < 0)
    width = f.width(k)
    if told is not None and told["difference"] is not None and width > 0:
        return f"{called} {_in_points(told, width)}; push {_arrow(row, ran, name)})"
    if direction * row.push[name] < -push_noise(row.tried_on):
        return f"{called} would be pushed {'down' if direction > 0 else 'up'} (push {_arrow(row, ran, name)})"
    before, after = signed(ran.push[name]), signed(row.push[name])
    falls = {True: "falls", False: "rises"}[row.push[name] < ran.push[name]]
    moves = "goes" if f.basis.primary == k else falls
    return f"the push on {called} {moves} from {before} to {after}"


def _arrow(row: Setting, ran: Setting, name: str) -> str:
    """Return the push on a reward under the run's own setting, `ran`, and under another one, with an arrow between."""
    return f"{signed(ran.push[name])} → {signed(row.push[name])}"


def _in_points(told: ForecastPart, width: float) -> str:
    """Return words for a forecast change of a mean, in points of the reward's range, with the interval; the bracket of
    the interval is left open. If the interval holds 0, they do not say in which direction the mean would change, unless
    an end of it is printed as 0.

    told: a forecast of which no number is None. What its test on the log was off by follows.
    width: the range of the reward.

    >>> _in_points({"difference": -0.12, "low": -0.17, "high": -0.07, "why": "", "off_by": 0.01}, 1.0)
    "would be 12 points lower (80 % interval 7 to 17; a forecast of this log's second half missed by 1"
    >>> _in_points({"difference": 0.2, "low": -0.1, "high": 0.5, "why": "", "off_by": 0.0}, 10.0)[:66]
    'may rise or fall (forecast +2.0 points, 80 % interval −1.0 to +5.0'
    >>> _in_points({"difference": -0.02, "low": -0.06, "high": 0.0001, "why": "", "off_by": 0.0}, 1.0)[:65]
    'may fall or stay (forecast −2.0 points, 80 % interval −6.0 to 0.0'
    """
    figures = told["difference"], told["low"], told["high"], told["off_by"]
    difference, low, high, off = (100 * (x or 0.0) / width for x in figures)
    places = 0 if abs(difference) >= 10 else 1
    size, way = decimal(abs(difference), places), "lower" if difference < 0 else "higher"
    missed = f"a forecast of this log's second half missed by {decimal(off, 1)}"
    if not any(float(decimal(abs(x), places).replace(",", "")) for x in (difference, low, high)):
        return f"would hardly change ({INTERVAL} {signed(low, places)} to {signed(high, places)}; {missed}"
    if low * high <= 0:
        ends = f"{INTERVAL} {signed(low, places)} to {signed(high, places)}"
        one_way = "may fall or stay" if round(high, places) <= 0 else "may rise or stay"
        may = "may rise or fall" if round(low, places) < 0 < round(high, places) else one_way
        return f"{may} (forecast {signed(difference, places)} points, {ends}; {missed}"
    nearer, further = (decimal(x, places) for x in sorted((abs(low), abs(high))))
    return f"would be {size} {'point' if size == '1' else 'points'} {way} ({INTERVAL} {nearer} to {further}; {missed}"


def without_figures(cost: str) -> str:
    """Return what a setting costs without the brackets that hold an interval or a push: what draws figures beside the
    sentence need not tell them twice.

    >>> without_figures("It has a cost: b would be 4 points lower (80 % interval 1 to 9; push 1 → 0).")
    'It has a cost: b would be 4 points lower.'
    >>> without_figures("Row 3 pushes acc (2) more (+0.82), but its forecast does not exclude a loss.")
    'Row 3 pushes acc (2) more, but its forecast does not exclude a loss.'
    >>> without_figures("It may have a cost: b may rise or fall (forecast −2 points, 80 % interval −6 to 0).")
    'It may have a cost: b may rise or fall.'
    """
    return re.sub(rf" \((?:forecast [^()]*, )?{INTERVAL} [^()]*\)| \([+−]?\d\.\d\d\)(?=, but )", "", cost)


def with_interval_alone(effect: str) -> str:
    """Return what a setting does without what follows the interval in the bracket that `effect` writes: what a forecast
    of the log missed, and the push.

    >>> with_interval_alone("Use GDPO: a would be 2 points higher (80 % interval 1 to 3; missed by 0.1; push 0 → 1).")
    'Use GDPO: a would be 2 points higher (80 % interval 1 to 3).'
    """
    return re.sub(rf"({INTERVAL} [^();]*);[^()]*\)", r"\1)", effect)


# --- no change, or a decision -----------------------------------------------------------------------------------------


def why_no_change(f: Facts, plan: Sequence[Setting]) -> str:
    """Return a clause that says why no setting of a plan is better than the run's own.

    It is "" in four cases: a setting is recommended or held back, no reward is primary, the logged advantages are not
    reproduced, or the run does not push the primary reward in the wanted direction by more than noise.
    """
    primary = f.basis.primary
    if primary is None or len(plan) < 2 or f.reproduced is not True or any(r.recommended or r.held_back for r in plan):
        return ""
    first, direction, ran = f.rewards[primary], f.wanted[primary], plan[0]
    if direction * ran.push[first] <= push_noise(ran.tried_on):
        return ""
    if rising := _rising(f, plan):
        row = max(rising, key=lambda row: direction * row.push[first])
        return f"{effect(f, row, ran, first)} under {row.title}"
    down, now = " down" * (direction < 0), signed(ran.push[first])
    setting = "setting without a gate" if any(row.gate for row in plan) else "setting that was tried"
    return f"no other {setting} pushes {first}{down} more by more than noise (the push is {now})"


def to_decide(f: Facts, plan: Sequence[Setting]) -> list[str]:
    """Return sentences that ask whether one reward should count only where another one is high enough: of a gate of the
    plan, if its two rewards conflict inside groups beyond noise, and if the forecast of the primary reward under the
    gate lies wholly on the good side.
    """
    for row in plan:
        if row.gate is None:
            continue
        k, on = (f.rewards.index(row.gate[key]) for key in ("reward", "on"))
        conflict = f.correlation(k, on) * f.wanted[k] * f.wanted[on] < -f.by_chance(k, on)
        interval = _interval(row, f.rewards[on], f.wanted[on])
        if conflict and interval is not None and interval[0] > 0:
            return [
                f"One decision is open: should {row.gate['reward']} count only where {gate_opens(row.gate)}?",
                f"Such a gate changes the task; with it, {effect(f, row, plan[0], f.rewards[on])}.",
            ]
    return []


def change_in_words(told: ForecastPart) -> str:
    """Return words for a forecast change of a mean that follow “would have”: by how much it would have been higher or
    lower, with the interval.

    If the interval holds 0, they say by how much the mean would have changed. If three decimals show no change, they
    say that it hardly would have changed.

    told: a forecast of which no number is None.

    >>> change_in_words({"difference": -0.02, "low": -0.03, "high": -0.01})
    'been lower by an estimated 0.020 (80 % interval 0.010 to 0.030)'
    >>> change_in_words({"difference": 0.0004, "low": -0.00001, "high": 0.001})
    'hardly changed (80 % interval 0.000 to +0.001)'
    """
    difference, low, high = (round(float(told[key] or 0.0), 3) for key in ("difference", "low", "high"))
    if low * high > 0 and difference:
        by, *ends = (f"{abs(x):.3f}" for x in (difference, *sorted((low, high), key=abs)))
        way = "higher" if difference > 0 else "lower"
        return f"been {way} by an estimated {by} ({INTERVAL} {' to '.join(ends)})"
    by = f"changed by an estimated {signed(difference, 3)}" if difference else "hardly changed"
    return f"{by} ({INTERVAL} {signed(low, 3)} to {signed(high, 3)})"
