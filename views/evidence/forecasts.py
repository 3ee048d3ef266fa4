"""Forecasts of plans' rows for the small language model, committed before these were trained, and what came."""

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import polars as pl

from experiments.forecasts import CLEAR, FORECASTS, RUNS, SPEEDS, judge, what_came
from experiments.setups import setup_named
from gdpo_core._words import count, decimal, percent, signed
from views import charts, html
from views.html import Cell, Html, callout, join, table, tag

FROM = 50  # steps of the log that the forecasts shown were made from
_EVERY = 5  # steps of a point of a curve


@lru_cache(maxsize=1)
def load() -> list[dict[str, Any]]:
    """A row per reward of every row of a plan that was trained: its forecast, and what came."""
    came = what_came(pl.read_parquet(RUNS))
    rows = [x for x in json.loads(FORECASTS.read_text(encoding="utf-8")) if x["from_steps"] == FROM]
    known = [x | {"came": came[x["setup"], x["row"], x["reward"]]} for x in rows if _key(x) in came]
    return [x | {"title": setup_named(x["setup"]).title, "held": held(x)} for x in known]


def _key(row: Mapping[str, Any]) -> tuple[str, str, str]:
    return row["setup"], row["row"], row["reward"]


def held(row: Mapping[str, Any]) -> bool | None:
    """Whether what came is within the interval; None where the forecast is open."""
    return None if row["low"] is None else row["low"] <= row["came"] <= row["high"]


def part() -> Html:
    """Say which forecasts held, and draw each beside what came."""
    rows = load()
    drawn = [charts.forecasts(points(rows), round(100 * CLEAR)), charts.speeds(speeds())]
    return join(callout(*_says(rows)), html.charts(drawn))


def _says(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    found = judge([row["came"] for row in rows], rows)
    plans = len({(row["setup"], row["row"]) for row in rows})
    left = f", {count(int(found['open']), 'forecast')} left open" if found["open"] else ""
    clear = count(int(found["clear"]), "difference")
    return [
        f"From the first {FROM} steps of a log of each set-up, the audit said what {count(plans, 'row')} of "
        f"plans would make of each reward, before one of them was trained. Of {clear} of {round(100 * CLEAR)} points "
        f"and more **{found['signs']:.0f} have the right sign**; {found['held']:.0f} of "
        f"{count(int(found['intervals']), 'interval')} of 80 % hold{left}. The mean error is "
        f"{decimal(100 * found['error'], 1)} points, and that of the guess “nothing changes” "
        f"{decimal(100 * found['of_no_change'], 1)}."
    ]


def points(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """A point per reward and row, in points of the mean rate; those with a forecast."""
    numbers = ("difference", "low", "high", "came")
    return [
        {name: 100 * row[name] for name in numbers}
        | {"what": f"{row['title']}; {row['row']}: {row['reward']}", "said": words(row)}
        | {"held": "within its interval" if row["held"] else "outside"}
        for row in rows
        if row["low"] is not None
    ]


def words(row: Mapping[str, Any]) -> str:
    """A forecast and what came, in points."""
    if row["low"] is None:
        return f"open; came {signed(100 * row['came'], 1)}"
    low, high = (signed(100 * row[name], 1) for name in ("low", "high"))
    return f"forecast {signed(100 * row['difference'], 1)} ({low} to {high}), came {signed(100 * row['came'], 1)}"


def speeds() -> list[dict[str, Any]]:
    """Draw how fast each reward of each run follows a push, by set-up, with its standard error."""
    rows = pl.read_csv(SPEEDS).to_dicts()
    return [
        {"setup": row["setup"], "reward": row["reward"], "speed": row["speed"]}
        | {"low": row["speed"] - row["error"], "high": row["speed"] + row["error"], "row": row["row"]}
        for row in rows
    ]


def all_curves() -> Html:
    """Both curves of every forecast, and the course that the runs of the row took."""
    runs = pl.read_parquet(RUNS).with_columns(pl.col("setup", "row", "reward").cast(pl.String))
    means = runs.group_by("setup", "row", "reward", ((pl.col("step") - 1) // _EVERY * _EVERY).alias("step"))
    came = means.agg(pl.col("mean").cast(pl.Float64).mean()).sort("step")
    drawn: dict[str, list[Any]] = {}
    for row in load():
        of_row = came.filter(setup=row["setup"], row=row["row"], reward=row["reward"])
        lines = [
            {"line": line, "step": _EVERY * i, "rate": x}
            for line, course in (("as it ran", row["as_it_ran"]), ("forecast", row["forecast"]))
            for i, x in enumerate(course)
        ]
        lines += [{"line": "came", "step": step, "rate": x} for step, x in of_row.select("step", "mean").iter_rows()]
        drawn.setdefault(f"{row['title']}: {row['row']}", []).append(charts.courses(lines, row["reward"], words(row)))
    return join(*(html.div("setup", tag("h3", title), html.charts(x, "small")) for title, x in drawn.items()))


def results_table() -> Html:
    """Every forecast and what came of it."""
    rows = [
        [
            row["title"],
            row["row"],
            row["reward"],
            "open" if row["low"] is None else signed(100 * row["difference"], 1),
            "" if row["low"] is None else f"{signed(100 * row['low'], 1)} to {signed(100 * row['high'], 1)}",
            Cell(signed(100 * row["came"], 1), "" if row["held"] else "ahead"),
        ]
        for row in load()
    ]
    head = ["set-up", "row", "reward", "forecast", f"{percent(0.8)} interval", "came"]
    return table(head, rows, "figures", "Setting less as it ran, of the mean over 150 steps, in points of the range")
