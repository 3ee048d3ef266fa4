"""Forecasts of what a setting does to the rewards of the small language model, beside what training showed. A setting
is a method with weights and perhaps a gate. The forecasts were committed before training.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from math import ceil, floor
from typing import Any

import polars as pl

from gdpo_audit.comparing.judging import CLEAR, GRADED_REWARDS, judge, what_came
from gdpo_core.shared.words import count, decimal, listing, percent, signed
from views.chapters.evidence.experiment import TABLE
from views.widgets import charts, html
from views.widgets.html import ROOT, Cell, Html, join, prose, table, tag

_INTERVAL = percent(0.8)  # the confidence level of a forecast's interval
FROM = 50  # the forecasts that are shown were made from so many first steps of a log
GATED = "gated"  # the set-up in which conciseness counts only where correctness passes
FORECASTS, _RUNS, SPEEDS, _TITLES = (
    ROOT / "data" / name for name in ("forecasts.json", "forecasts.parquet", "speeds.csv", "setups.json")
)
_EVERY = 5  # a point of a curve stands for so many steps


@lru_cache(maxsize=1)
def load_forecasts() -> list[dict[str, Any]]:
    """Return a dict for each reward of every setting that was trained, with a forecast and what was measured.

    A dict has all keys of the forecast in data/forecasts.json, which was made from the first `FROM` steps of a
    log. Three keys are added. "title" is the title of the set-up. "came" is the difference that was measured. "held" is
    whether "came" lies in the interval of the forecast, None where there is no interval. The files are read once.
    """
    came = what_came(pl.read_parquet(_RUNS), pl.read_parquet(TABLE))
    titles = json.loads(_TITLES.read_text(encoding="utf-8"))
    rows = [x for x in json.loads(FORECASTS.read_text(encoding="utf-8")) if x["from_steps"] == FROM]
    known = [x | {"came": came[x["setup"], x["row"], x["reward"]]} for x in rows if _key(x) in came]
    return [x | {"title": titles[x["setup"]], "held": prediction_held(x)} for x in known]


def _key(row: Mapping[str, Any]) -> tuple[str, str, str]:
    """Return the names of a row's set-up, setting and reward."""
    return row["setup"], row["row"], row["reward"]


def prediction_held(row: Mapping[str, Any]) -> bool | None:
    """Return whether the measured change lies in the interval of the forecast; None where no forecast could be made.

    row: a dict with the keys low and high, the ends of the interval, and came, the measured change. low and high are
        None without a forecast.
    """
    return None if row["low"] is None else row["low"] <= row["came"] <= row["high"]


def section() -> Html:
    """Return the heading of the last question of the chapter, and its answer: how many forecasts held."""
    return join(
        tag("h2", "Do forecasts from a log come true in training?", kind="section", id="forecasts"),
        *(tag("p", prose(paragraph), kind="answer") for paragraph in how_many_held(load_forecasts())),
    )


def how_many_held(rows: Sequence[Mapping[str, Any]]) -> tuple[str, str]:
    """Return two paragraphs: the first says what was forecast and from what, the second how many of the forecasts held.

    rows: as `load_forecasts` returns them.
    """
    outcome = judge([row["came"] for row in rows], rows)
    settings, setups = ({(row["setup"], row["row"]) for row in rows}, {row["setup"] for row in rows})
    left = f", and {count(int(outcome['open']), 'forecast')} stayed open" if outcome["open"] else ""
    signs, clear = int(outcome["signs"]), int(outcome["clear"])
    right = f"all {clear}" if signs == clear else f"{signs} of {clear}"
    several = count(len(setups), "set-up")
    before = (
        f"In each of {several} the audit of chapter 4 saw the first {FROM} steps of one run. It forecast by how many "
        f"points the mean of each reward over {_steps()} steps would change under another method, other weights or a "
        f"gate, {len(settings)} such settings in all. (A gated reward counts only where another one is passed.)"
    )
    after = (
        f"Then the model was trained under these settings. **In {right} cases where a mean changed by "
        f"{round(100 * CLEAR)} points or more, the forecast has the right sign. Of the "
        f"{count(int(outcome['intervals']))} forecasts with an interval, {outcome['held']:.0f} have an {_INTERVAL} "
        f"interval that contains the measured change{left}.** On average a forecast is off by "
        f"{decimal(100 * outcome['error'], 1)} points, and the guess “nothing changes” by "
        f"{decimal(100 * outcome['of_no_change'], 1)}."
    )
    return before, after


# --- the picture ------------------------------------------------------------------------------------------------------


def picture_of_forecasts(rows: Sequence[Mapping[str, Any]]) -> Html:
    """Draw a dot per forecast. The farther right it is, the larger the forecast change; the higher it is, the larger
    the measured change.

    A reader can choose a dot. So the dots are elements of HTML: the marks of a Vega chart cannot be focused.

    rows: as `load_forecasts` returns them.
    """
    drawn = forecast_dots(rows)
    ends = [min(min(p["low"], p["came"]) for p in drawn), max(max(p["high"], p["came"]) for p in drawn)]
    least, most = 5 * floor(ends[0] / 5), 5 * ceil(ends[1] / 5)

    def at(x: float) -> float:
        return round(100 * (x - least) / (most - least), 2)

    ticks = range(least, most + 1, 5)
    diagonal = tag("svg", tag("path", d="M0 100L100 0"), viewBox="0 0 100 100", preserveAspectRatio="none")
    clear = round(100 * CLEAR)
    area = [
        tag("span", kind="band", style=f"bottom: {at(-clear)}%; height: {round(at(clear) - at(-clear), 2)}%"),
        diagonal,
        *(tag("span", signed(x, 0), kind="across", style=f"left: {at(x)}%") for x in ticks),
        *(tag("span", signed(x, 0), kind="upward", style=f"bottom: {at(x)}%") for x in ticks),
        *(_point(p, at) for p in drawn),
    ]
    label = "What was forecast for each setting and reward, and what was measured: choose a dot to open its curves"
    key = (
        "Each dot is one reward under one setting; it shows by how many points the mean of the reward over "
        f"{_steps()} steps changes. ● The measured change lies in the {_INTERVAL} interval. ✕ It lies outside. On "
        "the dashed line the forecast and the measured change agree; the grey band is a change of less than "
        f"{clear} points. Choose a dot to see its curves."
    )
    return tag(
        "div",
        tag("p", "measured, points ↑", kind="upward-title", aria_hidden="true"),
        tag("div", *area, kind="area", role="radiogroup", aria_label=label),
        tag("p", "forecast, points →", kind="across-title", aria_hidden="true"),
        tag("p", key, kind="note"),
        kind="plane",
    )


def _point(p: Mapping[str, Any], at: Callable[[float], float]) -> Html:
    """Draw a dot of the picture with the interval of its forecast.

    p: the dict of the dot, as `forecast_dots` returns it.
    at: a function from percentage points to a place on an axis, in per cent of its length.
    """
    x = at(p["difference"])
    place = f"left: {x}%; bottom: {at(p['came'])}%; --low: {round(at(p['low']) - x, 2)}; "
    place += f"--wide: {round(at(p['high']) - at(p['low']), 2)}"
    inside = "held" if p["held"] else "outside"
    aria_label = f"{p['what']}: {p['said']}{'' if p['held'] else '; outside its interval'}"
    return tag("i", kind=inside, data_id=p["id"], role="radio", aria_label=aria_label, style=place)


def names() -> tuple[str, ...]:
    """Return the names of all dots of the picture; the address may hold one of them."""
    return tuple(p["id"] for p in forecast_dots(load_forecasts()))


def widest_miss() -> str:
    """Return the name of the dot whose forecast is furthest from what was measured. Its curves are shown at first."""
    return max(forecast_dots(load_forecasts()), key=lambda p: abs(p["difference"] - p["came"]))["id"]


def forecast_dots(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return a dict for each dot of the picture. A dot stands for a row of `load_forecasts`; a row without a forecast
    has none.

    The keys are:

    - difference, the forecast change; low and high, the ends of its interval; and came, the measured change, all in
      percentage points
    - id, the name of the dot
    - what, words for set-up, setting and reward
    - said, the forecast and the measured change in words
    - held, whether the measured change lies in the interval

    rows: as `load_forecasts` returns them.
    """
    numbers = ("difference", "low", "high", "came")
    return [
        {name: 100 * row[name] for name in numbers}
        | {"id": "~".join(_key(row)), "what": f"{row['title']}, {row['row']}, {row['reward']}"}
        | {"said": _words(row), "held": row["held"]}
        for row in rows
        if row["low"] is not None
    ]


def _words(row: Mapping[str, Any]) -> str:
    """Return words for the forecast change of a row, with its interval, and for the measured change, in percentage
    points.

    If the row has no forecast, the words say "open" in its place.
    """
    if row["low"] is None:
        return f"open; measured {signed(100 * row['came'], 1)}"
    low, high = (signed(100 * row[name], 1) for name in ("low", "high"))
    return f"forecast {signed(100 * row['difference'], 1)} ({low} to {high}), measured {signed(100 * row['came'], 1)}"


def speed_rows() -> list[dict[str, Any]]:
    """Return a dict per reward and run: how fast the reward follows a push, with its standard error.

    The keys are setup, reward, speed, low and high (the speed less and plus one standard error), and row, the name of
    the run's setting. A speed is how far the logit of the reward's mean moves in a step at a push of 1.
    """
    rows = pl.read_csv(SPEEDS).to_dicts()
    return [
        {"setup": row["setup"], "reward": row["reward"], "speed": row["speed"]}
        | {"low": row["speed"] - row["error"], "high": row["speed"] + row["error"], "row": row["row"]}
        for row in rows
    ]


def setup_curves(name: str) -> Html:
    """Draw the charts of a set-up under one setting, one chart for each reward of the set-up. A chart has three
    courses: the forecast for the run left as it was, the forecast for the setting, and what was measured under the
    setting.

    name: one of `names`: the set-up, the setting and a reward, joined by "~". All rewards of the set-up are drawn; the
        reward in `name` is only mentioned in the note above the charts, as the dot that the reader selected.
    """
    setup, setting, chosen = name.split("~")
    rows = [row for row in load_forecasts() if (row["setup"], row["row"]) == (setup, setting)]
    drawn = [charts.chart_of_courses(_lines(row), f"{row['reward']}: {_words(row)}") for row in rows]
    title = tag("h3", rows[0]["title"], tag("small", f" setting: {setting}", kind="note"))
    key = tag(
        "p",
        "The curves show the mean of each reward at each step. Dotted lines are the forecast for the run left as it "
        "was, under GRPO; dashed lines are the forecast for this setting; solid lines are what was measured, the mean "
        f"of {count(_seeds(setup, setting), 'run')}. The selected dot is for {chosen}.",
        kind="note",
    )
    return html.div("setup", title, html.charts(drawn, "stacked"), key)


def _lines(row: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the points of three courses of a reward, as `charts.courses` takes them.

    The courses are the forecast for the run as it ran, the forecast under another setting, and what was measured under
    that setting. A point of the measured course is the mean of five steps and of all seeds. A forecast course has a
    point at every fifth step.

    row: a row of `load_forecasts`, which names the reward and the setting.
    """
    setup, setting, reward = _key(row)
    came = _runs().filter(setup=setup, row=setting, reward=reward)
    means = came.group_by((pl.col("step") - 1) // _EVERY * _EVERY).agg(pl.col("mean").cast(pl.Float64).mean())
    lines = [
        {"line": line, "step": _EVERY * i, "rate": x}
        for line, course in (("as it ran", row["as_it_ran"]), ("forecast", row["forecast"]))
        for i, x in enumerate(course)
    ]
    return lines + [{"line": "came", "step": step, "rate": x} for step, x in means.sort("step").iter_rows()]


def _seeds(setup: str, setting: str) -> int:
    """Return the number of seeds with which a setting of a set-up was trained."""
    return _runs().filter(setup=setup, row=setting)["seed"].n_unique()


def _steps() -> int:
    """Return the number of steps in the runs with which the forecasts are compared."""
    return _runs()["step"].n_unique()


@lru_cache(maxsize=1)
def _runs() -> pl.DataFrame:
    """Return what was measured, read once: a table with the columns setup, row (the setting), seed, step, reward, and
    mean (the reward's mean).
    """
    return pl.read_parquet(_RUNS).with_columns(pl.col("setup", "row", "reward").cast(pl.String))


def speeds_section() -> Html:
    """Return the chart of the speeds of all runs, with a paragraph on how alike they are."""
    return join(html.charts([charts.chart_of_speeds(speed_rows())]), tag("p", speeds_said(), kind="note"))


def speeds_said() -> str:
    """Return a paragraph on how much the speed of each reward differs between the set-ups. A set-up's speed is the
    median over its runs.

    Three rewards occur in one set-up each, so the paragraph gives a single speed for each of them: “strict”,
    “closeness”, and conciseness that counts only where correctness passes.
    """
    medians = pl.read_csv(SPEEDS).group_by("reward", "setup").agg(pl.col("speed").median())
    free, gated = medians.filter(pl.col("setup") != GATED), medians.filter(setup=GATED, reward=GRADED_REWARDS[2])
    each = (free.filter(reward=reward)["speed"] for reward in GRADED_REWARDS)
    ranges = [
        f"between {decimal(speed.min())} and {decimal(speed.max())} for {reward}"
        for reward, speed in zip(GRADED_REWARDS, each, strict=True)
    ]
    strict, closeness = (decimal(medians.filter(reward=reward)["speed"].item()) for reward in ("strict", "closeness"))
    return (
        "A forecast works because each reward has a speed of its own, at which it follows a push, and this speed is "
        "similar in every set-up. The speed is how far the logit of the reward's mean moves in one step if the push "
        "is 1 and the mean is one half. If the mean is nearer to 0 or to 1, the same push moves the logit less. For "
        "each set-up we took the median speed of its runs. Across the set-ups this median lies "
        f"{listing(ranges, link='and')}. Three more rewards occur in only one set-up each. Their medians are "
        f"{decimal(gated['speed'].item())} for a conciseness that is gated from the start, {strict} for “strict”, "
        f"which is 1 if correctness and style are both passed, and {closeness} for “closeness”, a score from 0 to 1 "
        "for how similar an answer is to the intended one."
    )


def results_table() -> Html:
    """Return a table of every forecast, its interval, and what was measured."""
    rows = [
        [
            row["title"],
            row["row"],
            row["reward"],
            "open" if row["low"] is None else signed(100 * row["difference"], 1),
            "" if row["low"] is None else f"{signed(100 * row['low'], 1)} to {signed(100 * row['high'], 1)}",
            Cell(signed(100 * row["came"], 1), "" if row["held"] else "ahead"),
        ]
        for row in load_forecasts()
    ]
    head = ["set-up", "setting", "reward", "forecast", f"{_INTERVAL} interval", "measured"]
    caption = (
        f"By how many points of its range the mean of a reward over {_steps()} steps changes against the run as it ran"
    )
    return table(head, rows, "figures", caption)
