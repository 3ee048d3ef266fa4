"""The tables of a report as texts, for the terminal and for HTML. The first column of a table names its rows.

Names of a log are left as they are: the terminal and HTML make them harmless.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from gdpo_audit.facts.claims import taken_for_granted
from gdpo_audit.facts.wording import WEIGHTS_FROM
from gdpo_audit.json_types import ByRewardPart
from gdpo_audit.phrases import gate_opens, of_groups
from gdpo_audit.report.audit_report import AuditReport
from gdpo_audit.report.meanings import (
    CHANGE,
    CONSTANT,
    LACKING,
    PUNISHED_EXPLAINED,
    QUARTERS,
    SHARES,
    SHIFT_EXPLAINED,
    SILENT_EXPLAINED,
    TIED,
    label,
    wrong_order,
)
from gdpo_audit.report.summary import (
    OPEN,
    comparable,
    named_first,
    none_made_it,
    not_comparable,
    own_method,
    shown_method,
    wanted,
)
from gdpo_audit.sums.over_time import MEAN, UPDATE_SHARE, column_name, series_of, sparkline
from gdpo_audit.trials.forecast_backtest import AGAINST
from gdpo_audit.trials.recommending import POINT
from gdpo_audit.trials.run_forecast import OF_WHAT
from gdpo_audit.trials.setting import Setting
from gdpo_audit.trials.what_if import FIGURES, WhatIf
from gdpo_core.conventions import NAMES
from gdpo_core.frameworks import ALL_CONVENTIONS
from gdpo_core.pushing import OTHER_STEPS, PUSH_EXPLAINED, same_step
from gdpo_core.shared.words import MISSING, clip, count, listing, number, one_line, percent, signed
from gdpo_core.successors import TITLES

FORECAST = "forecast, in points"  # the heading of forecasts in the plan, behind the name of the reward


@dataclass(frozen=True)
class TextTable:
    """A table of texts, with a title, a note on it, and sentences on its columns; the first column names the rows."""

    title: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""  # what the table as a whole says
    meanings: Sequence[str] = ()  # what its columns mean, a sentence or two for each
    prose: bool = False  # whether its cells hold words, else numbers
    on_screen: int | None = None  # the rows that a terminal shows; the HTML shows all
    blocks: Sequence[str] = ()  # columns of block characters, which only a terminal shows: HTML draws the courses
    deep: bool = False  # whether it is folded behind its title in HTML on a phone
    folds: bool = True  # whether the cells of a row stand below each other on a phone if it is wide; else it scrolls


SHARE_COURSE, _MEAN_COURSE = "share over the run", "mean over the run"  # columns of block characters


def rewards_table(report: AuditReport) -> TextTable:
    """Return a table of what each reward did: how its mean went, and in how many groups it is constant.

    If the report is `comparable`, the table also has the push on each reward and its share of the update. It then says
    as well which share of the responses better than their group's mean were punished.
    """
    rewards, (method, why) = report.rewards, shown_method(report)
    columns = {"reward": [named_first(report, r["name"]) for r in rewards]}
    note, meanings = not_comparable(report), list[str]()
    if method and comparable(report):
        granted = if_assumed(report)
        columns[f"push{granted}"] = [signed(r["push"].get(method)) for r in rewards]
        columns[f"share{granted}"] = [percent(r["update_share"].get(method)) for r in rewards]
        shares = (series_of(report.steps, column_name(UPDATE_SHARE, method, r["name"])) for r in rewards)
        columns[SHARE_COURSE] = [sparkline(of_reward, between=(0, 1)) for of_reward in shares]
        columns["punished"] = [percent(r["punished"].get(method)) for r in rewards]
        weights = f" with weights that were {WEIGHTS_FROM[report.run['weights_from']]}" * (own_method(report) is None)
        says = [f"The columns push, share and punished were computed for {NAMES[method]}{weights}, {why}."]
        # The plan, which stands first, explains push and share too, and with a primary reward what punished means.
        meanings += [] if report.plan else [PUSH_EXPLAINED, SHARES]
        if any((r["update_share"].get(method) or 0) < 0 for r in rewards):
            says.append("The update works against a reward whose share is below 0.")
        meanings += [] if report.plan and report.run["primary"] is not None else [PUNISHED_EXPLAINED]
        note = " ".join(says)
    ends = [(r["first_quarter"], r["last_quarter"]) for r in rewards]
    columns["mean"] = [f"{number(first, 3)} → {number(last, 3)}" for first, last in ends]
    columns[_MEAN_COURSE] = [sparkline(series_of(report.steps, column_name(MEAN, r["name"]))) for r in rewards]
    columns["shifted at step"] = [MISSING if r["changed_at"] is None else str(r["changed_at"]) for r in rewards]
    columns["change"] = [signed(None if first is None or last is None else last - first) for first, last in ends]
    in_groups = [of_groups(r["dead_groups"], report.source["groups"]) for r in rewards]
    columns["constant"] = [text.rpartition("(")[2].removesuffix(")") for text in in_groups]  # counts alone, if there
    if any(r["missing"] for r in rewards):
        columns["missing"] = [count(r["missing"]) for r in rewards]
    constant = [] if report.plan and report.run["primary"] is not None else [CONSTANT]
    meanings += [QUARTERS, SHIFT_EXPLAINED, CHANGE, *constant, *[LACKING] * ("missing" in columns)]
    rows = list(zip(*columns.values(), strict=True))
    blocks = (SHARE_COURSE, _MEAN_COURSE)
    return TextTable("What each reward did", list(columns), rows, note.strip(), meanings, blocks=blocks, deep=True)


def if_assumed(report: AuditReport) -> str:
    """Return words behind the heading of a column of shares or pushes if the groups, the rewards or the weights behind
    them are only assumed.
    """
    granted = [claim.what for claim in taken_for_granted(report.reading)]
    return f" ({listing(granted)} assumed)" if granted else ""


def plan_table(report: AuditReport) -> TextTable | None:
    """Return a table of the settings that were tried, with what the log shows under each; None where none was tried."""
    if not report.plan:
        return None
    primary, rows = report.run["primary"], []
    first, names = (" / ".join(x) for x in zip(*((named_first(report, n), n) for n in wanted(report)), strict=True))
    granted = if_assumed(report)
    head = ["setting", f"push{granted}: {first}", f"shares{granted}: {names}"]
    told = primary is not None and any(row.forecast for row in report.plan)
    of_primary = [*[f"{primary} {FORECAST}"] * told, f"{primary} punished", "wrong order", f"{primary} constant"]
    head += [*of_primary * (primary is not None), "tied pairs", "silent groups"]
    for n, row in enumerate(report.plan):
        shares = " / ".join(percent(share).removesuffix(" %") for share in row.update_share.values())
        pushes = " / ".join(map(signed, row.push.values()))
        weights = " / ".join(map(number, row.weights.values()))
        title = row.title if row.weights == report.plan[0].weights else f"{NAMES[row.method]}, weights {weights}"
        cells = [f"{n} {title}{' ←' * row.recommended}", pushes, f"{shares} %"]
        if primary is not None:
            cells += [_forecast_of(row, primary, report)] * told
            cells += [
                percent(row.punished[primary]),
                percent(row.inversions, 1),
                percent(row.dead_groups[primary]),
            ]
        rows.append([*cells, percent(row.tied_pairs, 1), percent(row.silent_groups)])
    meanings = _meanings_of_plan(primary, wanted(report).get(primary or "", 0), forecast=told)
    return TextTable("Plan", head, rows, _note_on_plan(report), meanings, folds=False)


def _meanings_of_plan(primary: str | None, direction: int, forecast: bool) -> list[str]:
    """Return sentences that say what the columns of the table of the plan mean, in the order of the columns.

    primary: the name of the primary reward; None where no reward is primary, and then no column is about it.
    direction: what the run wants of the primary reward: 1 for more, -1 for less.
    forecast: whether one of the columns holds forecasts.
    """
    foretold = (
        f"A forecast estimates how much higher or lower the mean of {primary} over the logged steps would have been "
        "under the setting, with an 80 % interval. It is tested on the log: speeds fitted to the first half foretell "
        "the second half as it ran; where the halves disagree, the forecast is open."
    )
    of_primary = [] if primary is None else [PUNISHED_EXPLAINED, wrong_order(primary, direction), CONSTANT]
    return [PUSH_EXPLAINED, SHARES, *[foretold, OF_WHAT, POINT] * forecast, *of_primary, TIED, SILENT_EXPLAINED]


def _note_on_plan(report: AuditReport) -> str:
    """Return the sentences below the plan: on how many responses its rows were computed, and how their settings were
    chosen.
    """
    on_all = "For each setting, the advantages of this log were computed anew."
    says = [on_a_sample(report) or on_all, on_recommended(report)]
    if any(row.weights != report.plan[0].weights for row in report.plan):
        says.append(
            "Some rows have other weights. These are chosen so that each reward’s share of the update comes as near as "
            "possible to a target. As shares are shares of a variance, the target is proportional to the square of the "
            "reward’s weight in the run, times the number of groups in which the reward varies."
        )
    if gate := next((row.gate for row in report.plan if row.gate), None):
        says.append(
            f"A gate lets {gate['reward']} count only where {gate_opens(gate)}. It "
            "changes the task, so it is never recommended: that choice is yours. In the row with the gate, the share "
            f"of {gate['reward']} is that of the gated reward, while each push is measured on the reward as it was "
            "logged, without the gate."
        )
    return " ".join(says)


def on_a_sample(report: AuditReport) -> str:
    """Return the sentence that says on how many responses the settings of the plan were tried; "" if on all."""
    tried, responses = report.plan[0].tried_on, report.source["responses"]
    if tried >= responses:
        return ""
    where = f"{count(tried)} of the log’s {count(responses)} responses"
    return f"For each setting, the advantages of {where} were computed anew."


def on_recommended(report: AuditReport) -> str:
    """Return a sentence that says which setting of the plan is recommended, or why none is."""
    primary = report.run["primary"]
    if any(row.recommended for row in report.plan):
        return "The arrow ← marks the recommended setting."
    if primary is None:
        return "No setting is recommended as long as no reward is named as the one that matters most."
    if report.run["method"] is None and report.run["reproduced"] is False:
        return f"No setting is recommended, because {none_made_it(report) or OPEN}."
    if held := next((row for row in report.plan if row.held_back), None):
        alike = same_step(held.method, report.plan[0].method)
        return f"No setting is recommended, because {f'{primary} {AGAINST}.' if alike else OTHER_STEPS}"
    direction = wanted(report)[primary]
    if not direction:
        return f"No setting is recommended, because the run wants {primary} neither higher nor lower."
    move, where = ("raise", "above") if direction > 0 else ("lower", "below")
    none = "none" + " without a gate" * any(row.gate for row in report.plan)
    mean = f" and is forecast to {move} its mean" * any(row.forecast for row in report.plan)
    pushed = round(report.plan[0].push[primary] * direction, 2) > 0
    beyond = "" if pushed else f" to {where} 0"
    return f"No setting is recommended, because {none} clearly {move}s the push on {primary}{beyond}{mean}."


def _forecast_of(row: Setting, name: str, report: AuditReport) -> str:
    """Return in words how a reward's mean is forecast to change, in points of its range in the log, with the interval;
    a dash where it is not known.
    """
    x = row.forecast[name] if row.forecast else None
    width = next(reward["range"] for reward in report.rewards if reward["name"] == name)
    if x is None or x["difference"] is None or not width:
        return MISSING
    difference, low, high = (signed(100 * (x[key] or 0.0) / width, 1) for key in ("difference", "low", "high"))
    return f"{difference} ({low} to {high})"


def correlations_table(report: AuditReport) -> TextTable | None:
    """Return a table of the correlations of the rewards with each other, and with the length if that is known; None
    where the report has no correlations.
    """
    rewards, lengths = report.rewards, report.lengths
    if not any(r["correlations"] for r in rewards):
        return None
    names = [r["name"] for r in rewards]
    rows = [[r["name"], *(signed(r["correlations"].get(name)) for name in names)] for r in rewards]
    if lengths:
        rows = [[*row, signed(lengths["correlations"][row[0]])] for row in rows]
    head = ["reward", *names, *([f"length in {lengths['unit']}"] if lengths else [])]
    return TextTable("Correlations inside groups", head, rows, on_screen=0)


def by_table(report: AuditReport) -> TextTable | None:
    """Return a table with a row for each value of the report's column `by`; None if it has no such column.

    A row has the number of groups with the value, and the share of them that is silent. With a primary reward it has
    the share of pairs in the wrong order. It also has each reward's mean, with its share of the update if the report is
    `comparable`.
    """
    if not report.by:
        return None
    column, method = report.by[0]["column"], NAMES[report.by[0]["method"]]
    several, primary = comparable(report), report.run["primary"]
    head = [column, "groups", "silent", *["wrong order"] * bool(primary), *(r["name"] for r in report.rewards)]
    rows = []
    for entry in report.by:
        value_of = MISSING if entry["value"] is None else clip(one_line(entry["value"]), 40)
        row = [value_of, count(entry["groups"]), percent(entry["silent_groups"])]
        row += [percent(entry["inversions"])] * bool(primary)
        rows.append([*row, *(_of_reward(reward, several) for reward in entry["rewards"])])
    note = f"Each row is one value of {column} alone, under {method}, with the mean of each reward there"
    note += " and, after the dot, its share of the update." if several else "."
    meanings = [SILENT_EXPLAINED, *([wrong_order(primary, wanted(report)[primary])] if primary else [])]
    return TextTable(f"By {column}", head, rows, note, meanings)


def _of_reward(reward: ByRewardPart, several: bool) -> str:
    """Return the mean of a reward as text, with its share of the update behind it if `several`.

    several: whether shares of the update mean anything, as `comparable` tells.
    """
    return number(reward["mean"], 3) + f" · {percent(reward['update_share'])}" * several


def what_if_table(w: WhatIf) -> TextTable:
    """Return a table of the run as it was and under another setting, with each figure under both settings.

    The table names the method in any case. It names the convention, and the weight of a reward, only if the settings
    differ in it.

    w: both settings with their figures.
    """
    sides: list[dict[str, Any]] = [dict(w.before), dict(w.after)]
    rows = [["method", *(TITLES[side["method"]] for side in sides)]]
    rows.append(["convention", *(ALL_CONVENTIONS[side["convention"]].name for side in sides)])
    rows += [[f"weight, {name}", *(number(side["weights"][name]) for side in sides)] for name in w.after["weights"]]
    rows = [row for row in rows if row[1] != row[2] or row[0] == "method"]
    rows += [
        [f"update share, {name}", *(percent(side["update_share"][name], 1) for side in sides)]
        for name in w.after["weights"]
    ]
    for figure, words in (("push", signed), ("punished", partial(percent, decimals=1))):
        rows += [[f"{figure}, {name}", *(words(side[figure][name]) for side in sides)] for name in w.after["weights"]]
    rows += [[label(figure), *(percent(side[figure], 1) for side in sides)] for figure in FIGURES]
    if w.before["inversions"] is None and w.after["inversions"] is None:  # without a primary reward there are none
        rows.pop()
    return TextTable(
        "What if", ["whole run", "had", "would have"], rows, " ".join([*w.notes, PUSH_EXPLAINED, PUNISHED_EXPLAINED])
    )
