"""The large picture: a chart per coin or answer, and what its lines are."""

from collections.abc import Mapping, Sequence
from math import inf

import marimo as mo
from torch import Tensor

from gdpo_core import _theme
from gdpo_core._html import Html, Row, join, legend, table, tag
from gdpo_core.scenarios import LEVEL, Scenario, Setting, medians
from views import charts
from views.html import element, show
from views.train.runs import NAMES, Runs, curves, last_epoch, train
from views.train.words import TITLES

POINTS = 160  # of a curve, at most


def draw(scenario: Scenario, setting: Setting, runs: Runs, limits: Mapping[str, Tensor]) -> Html:
    """A chart per coin or answer, side by side, with one pair of axes, and their legend."""
    end = last_epoch(setting, runs)
    rows = curves(scenario.coins, runs, limits, every=-(-end // POINTS))
    low = 0.4 if min(row["low"] for row in rows) >= 0.4 else 0.0
    names = tuple(NAMES[m] for m in runs)
    drawn = []
    for k, coin in enumerate(scenario.coins):
        there = sorted((medians(run)[k], n, NAMES[m]) for n, (m, run) in enumerate(runs.items()))
        there = [one for one in there if 0 < one[0] <= end]
        beside = 0 if there and there[0][0] > 0.2 * end else 1  # the axis leaves no room on the left
        marks = [
            {"method": name, "epoch": epoch, "level": LEVEL, "label": f"{epoch:g}", "place": n}
            for n, (epoch, _, name) in enumerate(there, beside)
        ]
        pays = "" if setting.arms else f", pays {(setting.scale or (1,) * len(scenario.coins))[k]:g}"
        of_coin = [row for row in rows if row["of"] == coin and row["epoch"] <= end]
        drawn.append(tag("div", element(charts.learning(of_coin, marks, f"{coin}{pays}", names, low))))
    entries = [(_swatch(m), name) for m, name in NAMES.items() if m in runs]
    entries.append((tag("i", kind="thin"), "thin: endless groups"))
    return tag("div", tag("div", *drawn, kind=f"panels of-{len(drawn)}"), legend(entries), kind="picture")


def _swatch(method: str) -> Html:
    look = _theme.METHODS.get(method, _theme.METHODS["grpo_no_std"])
    line = tag("path", d="M0 6H30", stroke=look.colour, stroke_width=2.5, stroke_dasharray=look.dashes)
    mark = tag("path", d=look.shape, fill=look.colour, transform="translate(15 6) scale(5)")
    return tag("svg", line, mark, width=30, height=12, aria_hidden="true")


def medians_table(scenario: Scenario, setting: Setting, methods: Sequence[str]) -> mo.Html:
    """The median epoch at which each coin or answer is learnt, under each comparison."""
    rows = []
    for comparison, title in TITLES.items():
        for n, (m, run) in enumerate(train(setting.compared(comparison), methods).items()):
            steps = ["–" if s == inf else f"{s:g}" for s in medians(run)]
            rows.append(Row([join("" if n else title, tag("small", NAMES[m])), *steps], m))
    never = f"– where it is not reached in {setting.epochs}"
    caption = f"Epochs until p ≥ {LEVEL:g}, median over {setting.seeds} seeds; {never}."
    return show(table(["", *scenario.coins], rows, "figures", caption))


def curves_table(scenario: Scenario, runs: Runs, limits: Mapping[str, Tensor]) -> mo.ui.table:
    """Every epoch of what is drawn."""
    return mo.ui.table(curves(scenario.coins, runs, limits), selection=None, page_size=10)
