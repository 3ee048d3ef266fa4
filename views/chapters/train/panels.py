"""The large picture of Train: a chart per coin or answer, its legend, and its numbers as tables."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from math import inf

import marimo as mo
from torch import Tensor

from gdpo_core.shared import theme
from gdpo_core.shared.markup import Html, Row, legend, table, tag
from gdpo_core.shared.words import count, percent
from views.chapters.train.runs import BAND, METHOD_LABELS, TrainedRuns, curve_rows, train_setup
from views.chapters.train.train_words import WAY_TITLES
from views.studies.scenarios import LEARNT, Scenario, Setup, medians
from views.widgets import charts
from views.widgets.html import element, show

FAIR = 0.4  # the start of the upright axis if no curve goes below it, as with fair coins; otherwise it starts at 0
_POINTS = 80  # the most points of a curve: no more can be told apart in a panel
_ROOM = 0.085  # the width of a number, as a share of the epochs


def draw_panel(scenario: Scenario, setup: Setup, runs: TrainedRuns, limits: Mapping[str, Tensor]) -> Html:
    """Return a chart per coin or answer, side by side, all with the same axes.

    runs: the trained runs, by method.
    limits: by method, the probabilities in the infinite-group limit, (epochs + 1, coins or answers).
    """
    rows = curve_rows(scenario.coins, runs, limits, every=-(-setup.epochs // _POINTS))
    names = tuple(METHOD_LABELS[m] for m in runs)
    upright = "probability of the answer" if setup.arms else "probability that the coin shows 1"
    bottom = FAIR if all(row["low"] >= FAIR for row in rows) else 0.0
    drawn = []
    for k, coin in enumerate(scenario.coins):
        there = sorted((medians(run)[k], n, METHOD_LABELS[m]) for n, (m, run) in enumerate(runs.items()))
        marks = _marks([(epoch, name) for epoch, _, name in there if 0 < epoch < inf], setup.epochs)
        pays = "" if setup.arms else f", pays {(setup.scale or (1,) * len(scenario.coins))[k]:g}"
        of_coin = [row for row in rows if row["of"] == coin]
        chart = charts.learning(of_coin, marks, f"{coin}{pays}", names, "" if k else upright, bottom)
        drawn.append(tag("div", element(chart)))
    return tag("div", *drawn, kind=f"panels of-{len(drawn)}")


def _marks(there: Sequence[tuple[float, str]], epochs: int) -> list[dict]:
    """Return the `marks` that `charts.learning` draws: a dict per method that learns a coin. It holds the epoch at
    which the method has learnt the coin, and where in the chart the number of this epoch is written.

    The places are chosen so that a number does not stand on the upright line of another method.

    there: pairs of the epoch and the method's title, the fastest method first.
    epochs: how many epochs were trained.
    """
    marks = [
        {"method": name, "epoch": epoch, "learnt": LEARNT, "beside": epoch, "slot": min(n, 1)}
        for n, (epoch, name) in enumerate(there)
    ]
    for before, after in pairwise(marks[1:]):
        if after["epoch"] - before["epoch"] < _ROOM * epochs:
            before["beside"], after["slot"] = after["epoch"], 2
    return marks


def key(methods: Sequence[str]) -> Html:
    """Return the legend of the picture: these methods' lines, the bands, and the thin lines of the limits."""
    entries = [(_swatch(m), name) for m, name in METHOD_LABELS.items() if m in methods]
    band = f"line: median of the seeds, band: {percent(BAND[1] - BAND[0])} of them"
    return legend([*entries, (tag("i", kind="band"), band), (tag("i", kind="thin"), "thin: infinitely large groups")])


def _swatch(method: str) -> Html:
    """Return a picture of a short piece of a method's line with the method's mark on it."""
    look = theme.LOOKS.get(method, theme.LOOKS["grpo_no_std"])
    line = tag("path", d="M0 6H30", stroke=look.colour, stroke_width=2.5, stroke_dasharray=look.dashes)
    mark = tag("path", d=look.shape, fill=look.colour, transform="translate(15 6) scale(5)")
    return tag("svg", line, mark, width=30, height=12, aria_hidden="true")


def medians_table(scenario: Scenario, setup: Setup, methods: Sequence[str]) -> mo.Html:
    """Return a table of the median epochs at which each coin or answer of a scenario is learnt.

    It has a row for each method under each comparison, a key of WAY_TITLES such as "published". All comparisons are
    trained, whichever one `setup` has.
    """
    rows = []
    for comparison, title in WAY_TITLES.items():
        for m, run in train_setup(setup.compared(comparison), methods).items():
            steps = ["–" if s == inf else f"{s:g}" for s in medians(run)]
            rows.append(Row([f"{title}, {METHOD_LABELS[m]}", *steps], m))
    never = f"– where it is not reached in {count(setup.epochs, 'epoch')}"
    caption = f"Epochs until p ≥ {LEARNT:g}, median over {count(setup.seeds, 'seed')}; {never}."
    return show(table(["", *scenario.coins], rows, "figures", caption))


def epochs_table(scenario: Scenario, runs: TrainedRuns, limits: Mapping[str, Tensor]) -> mo.ui.table:
    """Return a table that the reader can page through, with a row per coin, method and epoch of the curves.

    runs: the trained runs, by method.
    limits: by method, the curves for infinitely large groups, (epochs + 1, coins or answers).
    """
    return mo.ui.table(curve_rows(scenario.coins, runs, limits), selection=None, page_size=10)
