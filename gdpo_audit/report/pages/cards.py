"""The cards of a report: at most three settings of its plan side by side, or the card that no change is called for.

A card draws what a setting would do to each reward, and adds the words of the report: its costs, and what it rests on.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gdpo_audit.facts.claims import rests_on, taken_for_granted
from gdpo_audit.report.audit_report import AuditReport
from gdpo_audit.report.pages.courses import DRAWN
from gdpo_audit.report.pages.sliders import reward_look
from gdpo_audit.report.summary import comparable, named_first, wanted
from gdpo_audit.thresholds import push_noise
from gdpo_audit.trials.recommending import INTERVAL, POINT, rises, without_figures
from gdpo_audit.trials.setting import Setting
from gdpo_core.pushing import OTHER_STEPS, same_step
from gdpo_core.shared.markup import Html, fold, join, tag
from gdpo_core.shared.words import decimal, listing, signed

_MOST = 3  # cards
Box = Callable[[str, str], Html]  # draws lines of configuration, given the lines and what they do


@dataclass(frozen=True)
class _Effect:
    """Hold what a setting does to a reward: a change and the ends of its interval, and the same in words.

    The change is in points of the reward's range if it is forecast, else in pushes. It is None where the log does not
    tell it. The ends are those of the 80 % interval, and both are the change itself where there is no interval.
    """

    change: float | None
    low: float
    high: float
    words: str


def cards(report: AuditReport, box: Box) -> Html:
    """Draw the cards of a report: the settings of its plan that `chosen` returns, or one that says that no change is
    called for. Empty where nothing can be compared, and where no setting was tried.
    """
    if not comparable(report) or not report.plan:
        return Html()
    if report.not_called_for:
        told = tag("h3", f"No {report.not_called_for} is called for.")
        return tag("div", tag("section", told, kind="setting best"), kind="settings")
    rows = chosen(report)
    if not rows:
        return Html()
    effects = [effects_of(report, report.plan[n]) for n in rows]
    drawn = [_card(report, n, of_row, _widest(report, rows, n), box) for n, of_row in zip(rows, effects, strict=True)]
    return join(tag("div", *drawn, kind="settings"), tag("p", _what_bars_show(report, rows), kind="more"))


def chosen(report: AuditReport) -> list[int]:
    """Return the numbers of the rows of a plan that become cards, in the order of the plan.

    They are the row that is recommended or held back, and the first of each kind that is not there yet: another method
    with the weights of the run, other weights, and a gate. There are at most `_MOST`.
    """
    rows = list(enumerate(report.plan))[1:]
    kinds: dict[str, int] = {}
    for n, row in sorted(rows, key=lambda pair: not (pair[1].recommended or pair[1].held_back)):
        kinds.setdefault(_kind(row, report.plan[0]), n)
    return sorted(kinds.values())


def _kind(row: Setting, ran: Setting) -> str:
    """Return which kind of change a setting is, against the run's own setting, `ran`."""
    if row.gate is not None:
        return "gate"
    return "method" if row.weights == ran.weights else "weights"


def is_forecast(row: Setting) -> bool:
    """Return whether a setting has a forecast of at least one reward."""
    return any(told["difference"] is not None for told in (row.forecast or {}).values())


def effects_of(report: AuditReport, row: Setting) -> list[_Effect]:
    """Return what a setting of the plan does to each reward: the forecasts if it has any, else the changes of the push.

    An effect is open if only other rewards have a forecast, or if the reward has no range.
    """
    return [_effect(report, row, k) for k in range(len(report.rewards))]


def _effect(report: AuditReport, row: Setting, k: int) -> _Effect:
    """Return what a setting of the plan does to the reward of index k."""
    name, width = report.rewards[k]["name"], report.rewards[k]["range"]
    if not is_forecast(row):
        before, after = report.plan[0].push[name], row.push[name]
        change = after - before
        return _Effect(change, change, change, f"push {signed(before)} → {signed(after)}")
    told = row.forecast[name] if row.forecast else None
    ends = (told["difference"], told["low"], told["high"]) if told else (None,)
    known = [100 * end / width for end in ends if end is not None and width]
    if len(known) < 3:
        return _Effect(None, 0.0, 0.0, "open")
    change, low, high = known
    return _Effect(change, low, high, f"{signed(change, 1)} ({signed(low, 1)} to {signed(high, 1)})")


def _widest(report: AuditReport, rows: Sequence[int], like: int) -> float:
    """Return the end of the axis of a card, which all cards with effects of its unit share.

    rows: the numbers of the rows of the plan that are cards.
    like: the number of the row of this card.
    """
    same = (row for row in (report.plan[n] for n in rows) if is_forecast(row) == is_forecast(report.plan[like]))
    ends = [abs(end) for row in same for e in effects_of(report, row) for end in (e.low, e.high)]
    return max(ends, default=0.0) or 1.0


def _card(report: AuditReport, n: int, effects: Sequence[_Effect], end: float, box: Box) -> Html:
    """Draw the card of one setting.

    n: the number of the setting's row in the plan.
    effects: what the setting does to each reward.
    end: the end of the axis of the bars.
    """
    row = report.plan[n]
    bars = []
    for k, (reward, effect) in enumerate(list(zip(report.rewards, effects, strict=True))[:DRAWN]):
        words = tag("span", tag("b", named_first(report, reward["name"])), tag("span", effect.words), kind="of")
        bars.append(tag("li", words, _bar(effect, end), kind=reward_look(k)))
    title = " ".join(filter(None, (row.do, row.only_if))) if row.recommended or row.gate else row.title
    return tag(
        "section",
        tag("p", f"Row {n} of the plan · {_state(report, row)}", kind="state"),
        tag("h3", title),
        tag("ul", *bars),
        tag("p", says) if (says := f"{without_figures(row.cost)} {_rests(report, row)}".strip()) else "",
        _lines(row, box),
        kind="setting best" if row.recommended else "setting",
    )


def _state(report: AuditReport, row: Setting) -> str:
    """Return in a few words how a setting of the plan stands beside the one that is recommended. It is as good where
    neither pushes the primary reward more than the other does, by more than noise; a gate changes the task.
    """
    first, best = report.run["primary"], next((row for row in report.plan if row.recommended), None)
    if first is None:
        return "Tried on this log"
    if row is best:
        return "Recommended"
    if best is None or not same_step(row.method, best.method):
        return "Not recommended"
    if row.gate is not None:
        return "Changes the task"
    direction = wanted(report)[first]
    apart = rises(row, best, first, direction) or rises(best, row, first, direction)
    return "Not recommended" if apart else f"As good for {first}, by this log"


def _rests(report: AuditReport, row: Setting) -> str:
    """Return what the figures of a card rest on beyond the log: a log that is too short, claims that are only assumed,
    and steps of the same length; "" if there is nothing of that.
    """
    granted = rests_on(taken_for_granted(report.reading))
    steps = "" if is_forecast(row) or same_step(row.method, report.plan[0].method) else OTHER_STEPS
    return " ".join(filter(None, (report.caution.strip(), granted.strip(), steps)))


def _lines(row: Setting, box: Box) -> Html:
    """Draw the first line of configuration of a setting, with what copies it. Lines that hold only together are folded,
    all of them.
    """
    if not row.lines:
        return tag("p", "No lines of configuration are known for this trainer.")
    first, *more = row.lines.split("\n")
    if first.startswith("#") and more:
        return fold("Lines of configuration", box(row.lines, row.do), label=f"Lines of configuration: {row.do}")
    return box(first, row.do)


def _bar(effect: _Effect, end: float) -> Html:
    """Draw an effect as a bar from 0, with a line for its interval, on an axis from −`end` to `end`."""

    def at(x: float) -> str:
        return f"{50 + 50 * x / end:.4g}"

    drawn = [tag("path", kind="axis", d="M0,7H100M50,0V14")]
    if effect.change is not None:
        left, right = sorted((0.0, effect.change))
        drawn.append(tag("rect", x=at(left), y=3, width=f"{50 * (right - left) / end:.4g}", height=8))
        if effect.low < effect.high:
            drawn.append(tag("path", kind="interval", d=f"M{at(effect.low)},7H{at(effect.high)}"))
    return tag("svg", *drawn, viewBox="0 0 100 14", preserveAspectRatio="none", aria_hidden="true")


def _what_bars_show(report: AuditReport, rows: Sequence[int]) -> str:
    """Return the sentences below the cards: what their bars show, and of how many rewards.

    rows: the numbers of the rows of the plan that are cards.
    """
    told = [is_forecast(report.plan[n]) for n in rows]
    says = []
    if any(told):
        says.append(f"Bars: the forecast change of each mean against the run, in points, with its {INTERVAL}. {POINT}")
        says.append(_misses(report, report.plan[rows[told.index(True)]]))
    if not all(told):
        noise = push_noise(report.plan[0].tried_on)
        says.append(
            "Bars: the change of the push on each reward against the run; a change of less than "
            f"{decimal(noise, 2)} may be noise."
        )
    hidden = len(report.rewards) - DRAWN
    return " ".join([*filter(None, says), *[f"{decimal(hidden, 0)} more rewards stand in the plan."] * (hidden > 0)])


def _misses(report: AuditReport, row: Setting) -> str:
    """Return a sentence on how far off forecasts were that were made of the first half of the log and tried on its
    second half; "" where none was tried.

    row: a setting with a forecast. Every setting has the same tried forecasts, which are of the run as it was.
    """
    told, off = row.forecast or {}, list[str]()
    for reward in report.rewards[:DRAWN]:
        missed = told[reward["name"]]["off_by"] if reward["name"] in told else None
        if missed is not None and reward["range"]:
            off.append(f"{reward['name']} by {decimal(100 * missed / reward['range'], 1)}")
    return f"A forecast of this log's second half missed {listing(off)} points." if off else ""
