"""Differences that training gave between GDPO and GRPO, for each reward of every set-up that was trained under both.

`experiments/differences.py` made the two tables that are read here, and says how.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby
from math import ceil, floor

import polars as pl

from gdpo_core.conventions import NAMES
from gdpo_core.intervals import CONFIDENCE
from gdpo_core.shared import markup
from gdpo_core.shared.words import count, decimal, percent, signed
from views.chapters.evidence.experiment import PARAMETERS
from views.widgets import charts, html
from views.widgets.html import ROOT, Html, join, prose, tag

_TABLE, OUTLINE = ROOT / "data" / "trained.csv", ROOT / "data" / "trained_curves.parquet"
LEAST = 1.0  # points: a smaller difference is no lead
_SMALL = 10.0  # points: groups whose intervals all end within them share an axis
WITHOUT_STD = "grpo_no_std"


@dataclass(frozen=True)
class Difference:
    """The points by which a reward of a set-up is higher under a method than under GRPO, with their 95 % interval.

    Above 0 is what the run wants, also of a reward of which it wants less.

    alike: whether all rewards of the set-up that can be learnt are 0 or 1 and pay the same.
    more_is_wanted: whether the run wants more of the reward, not less.
    seeds: the number of pairs of runs.
    """

    setup: str
    group: str
    title: str
    alike: bool
    reward: str
    more_is_wanted: bool
    method: str
    difference: float
    low: float
    high: float
    seeds: int

    @property
    def leads(self) -> bool:
        """Whether the method leads: by at least LEAST, and with an interval above 0."""
        return self.difference >= LEAST and self.low > 0

    @property
    def trails(self) -> bool:
        """Whether GRPO leads, by the same rule."""
        return self.difference <= -LEAST and self.high < 0

    @property
    def named(self) -> str:
        """The name of the reward; a reward of which the run wants less has "fewer" before it."""
        return self.reward if self.more_is_wanted else f"fewer {self.reward}"


@lru_cache(maxsize=1)
def load_differences() -> tuple[Difference, ...]:
    """Return all differences, set-up by set-up; the file is read once."""
    return tuple(Difference(**row) for row in pl.read_csv(_TABLE).to_dicts())


def of_gdpo(rows: Sequence[Difference]) -> list[Difference]:
    """Return the differences GDPO − GRPO alone."""
    return [row for row in rows if row.method == "gdpo"]


def count_leads(rows: Sequence[Difference]) -> tuple[int, int, int]:
    """Return in how many rows the method leads, in how many GRPO leads, and in how many neither does."""
    leads, trails = sum(row.leads for row in rows), sum(row.trails for row in rows)
    return leads, trails, len(rows) - leads - trails


def trained_headline() -> str:
    """Return the headline of the chapter: how often GDPO leads in training, and how often GRPO does."""
    rows = of_gdpo(load_differences())
    leads, trails, neither = count_leads(rows)
    return f"Trained: GDPO leads in {leads} of {len(rows)}, GRPO in {trails}, neither in {neither}."


def lead_of_trained() -> Html:
    """Return the sentences below the headline: what was trained, what a dot is, and when a method leads."""
    rows = of_gdpo(load_differences())
    setups, least = count(len({row.setup for row in rows}), "set-up"), count(round(LEAST), "point")
    says = (
        f"In TRL, with Adam, we trained language models of at most {PARAMETERS:,} parameters under both methods, in "
        f"{setups} with {len(rows)} rewards in all. Each has a blue dot: right of 0, its mean over the run was better "
        f"under GDPO; left of 0, under GRPO. A method leads from {least} on, if the {percent(CONFIDENCE)} "
        "interval leaves out 0."
    )
    return tag("div", tag("p", says, kind="paragraph"), kind="markdown")


def where_it_pays() -> Html:
    """Return a paragraph on where GDPO leads: where rewards differ in scale, and where they are alike."""
    return tag("p", prose(where_in_words(of_gdpo(load_differences()))), kind="answer")


def where_in_words(rows: Sequence[Difference]) -> str:
    """Return the sentences of `where_it_pays` on these rows, which are of GDPO."""
    differ, alike = parted(rows)
    (good, bad, _), (leads, trails, _) = count_leads(differ), count_leads(alike)
    most = decimal(max(abs(row.difference) for row in alike), 1)
    return (
        f"**Where rewards differ in scale, GDPO moves learning from one reward to another: it leads in {good} of "
        f"{len(differ)} and trails in {bad}. Where all rewards are passes and fails that pay alike, it leads in "
        f"{leads or 'none'} of {len(alike)} and trails in {trails or 'none'}**; there the largest difference is {most} "
        "points."
    )


def parted(rows: Sequence[Difference]) -> tuple[list[Difference], list[Difference]]:
    """Return the rows of set-ups in which rewards differ in scale, and of those in which all pay alike."""
    return [row for row in rows if not row.alike], [row for row in rows if row.alike]


# --- the picture ------------------------------------------------------------------------------------------------------


def first_setup() -> str:
    """Return the set-up whose curves are shown at first: the one with the largest lead of GDPO in the first group."""
    rows = of_gdpo(load_differences())
    return max((row for row in rows if row.group == rows[0].group), key=lambda row: row.difference).setup


def setup_names() -> tuple[str, ...]:
    """Return the names of all set-ups; the address may hold one of them."""
    return tuple(dict.fromkeys(row.setup for row in load_differences()))


def picture_of_differences(chosen: str) -> Html:
    """Draw the differences as dots with their intervals, a line per reward and a block per set-up, group by group.

    Groups with small differences share an axis; another one has an axis of its own. The groups are folded under their
    counts, but for the first one and for that of the chosen set-up. A reader can choose a set-up. So the blocks are
    elements of HTML: the marks of a Vega chart cannot be focused.

    chosen: the set-up that is chosen.
    """
    groups = [list(some) for _, some in groupby(load_differences(), key=lambda row: row.group)]
    small = [rows for rows in groups if max(max(-row.low, row.high) for row in rows) <= _SMALL]
    drawn = []
    for rows in groups:
        shared = [row for few in small for row in few] if rows in small else rows
        opened = rows is groups[0] or any(row.setup == chosen for row in rows)
        drawn.append(_group(rows, shared, opened))
    return tag("div", *drawn, kind="forest")


def setup_blocks(setups: Sequence[str]) -> Html:
    """Draw some set-ups below an axis, to be looked at only."""
    rows = [row for row in load_differences() if row.setup in setups]
    return tag("div", _area(rows, rows, chosen_from=""), kind="forest")


def by_reward(setup: str) -> dict[str, Difference]:
    """Return the differences GDPO − GRPO of a set-up, by reward."""
    return {row.reward: row for row in of_gdpo(load_differences()) if row.setup == setup}


def _group(rows: Sequence[Difference], shared: Sequence[Difference], opened: bool) -> Html:
    """Draw the set-ups of a group below an axis, folded under the group's title.

    shared: all rows that the axis has room for.
    opened: whether the fold is open at first.
    """
    leads, trails, _ = count_leads(of_gdpo(rows))
    counts = f": GDPO leads in {leads} of {len(of_gdpo(rows))}, GRPO in {trails}"
    return markup.fold(join(tag("b", rows[0].group), counts), _area(rows, shared, rows[0].group), opened=opened)


def _area(rows: Sequence[Difference], shared: Sequence[Difference], chosen_from: str) -> Html:
    """Draw set-ups below an axis.

    shared: all rows that the axis has room for.
    chosen_from: what a reader chooses from; "" if the set-ups cannot be chosen.
    """
    least, most = 5 * floor(min(row.low for row in shared) / 5), 5 * ceil(max(row.high for row in shared) / 5)

    def at(x: float) -> float:
        return round(100 * (x - least) / (most - least), 2)

    step = 5 if most - least <= 40 else 10
    ticks = [
        tag("span", signed(x, 0), style=f"left: {at(x)}%") for x in range(step * ceil(least / step), most + 1, step)
    ]
    shown = [method for method in ("gdpo", WITHOUT_STD) if any(row.method == method for row in rows)]
    sides = tag("span", "← GRPO leads"), tag("span", "GRPO trails →")
    keys = (join(tag("i", kind=method), NAMES[method]) for method in shown)
    axis = tag("div", *keys, kind="forest-key"), tag("p", *sides, kind="forest-sides"), tag("p", *ticks)
    drawn = [_block(list(rewards), at, bool(chosen_from)) for _, rewards in groupby(rows, key=lambda row: row.setup)]
    label = f"{chosen_from}: choose a set-up to see its curves" if chosen_from else None
    inside = tag("div", *drawn, role="radiogroup" if chosen_from else None, aria_label=label)
    where = f"--zero: {at(0)}%; --from: {at(-LEAST)}%; --to: {at(LEAST)}%"
    return tag("div", *axis, inside, style=where)


def _block(rows: Sequence[Difference], at: Callable[[float], float], chosen: bool) -> Html:
    """Draw the lines of a set-up under its title.

    rows: all differences of the set-up.
    at: a function from points to a place on the axis, in per cent of its length.
    chosen: whether a reader can choose the set-up.
    """
    dots = {row.named: [r for r in rows if r.named == row.named] for row in rows}
    lines = [_line(name, differences, at) for name, differences in dots.items()]
    label = f"{rows[0].title}: {'; '.join(f'{row.named} {_words(row)}' for row in rows)}"
    by_reader = {"role": "radio", "data_id": rows[0].setup} if chosen else {"role": "img"}
    return tag("div", tag("b", rows[0].title), *lines, kind="forest-setup", aria_label=label, **by_reader)


def _words(row: Difference) -> str:
    """Return words for a difference: the method, its points and its interval.

    >>> _words(Difference("", "", "", True, "style", True, "gdpo", 6.34, 5.75, 6.93, 10))
    'GDPO +6.3 points (+5.8 to +6.9)'
    """
    return f"{NAMES[row.method]} {interval(row, ' points')}"


def interval(row: Difference, unit: str = "") -> str:
    """Return a difference in points with its interval behind it.

    unit: a word for the points, with a blank before it.
    """
    return f"{_points(row.difference)}{unit} ({_points(row.low)} to {_points(row.high)})"


def _points(x: float) -> str:
    """Return points with their sign and one decimal; two decimals where one would say 0."""
    return signed(x, 1 if abs(x) >= 0.05 else 2)


def _line(name: str, rows: Sequence[Difference], at: Callable[[float], float]) -> Html:
    """Draw the dots of one reward, a dot per method, with the number of GDPO behind them."""
    dots = []
    for row in sorted(rows, key=lambda row: row.method == "gdpo"):  # GDPO is drawn on top
        low, x, high = map(at, (row.low, row.difference, row.high))
        place = f"left: {x}%; --before: {round(x - low, 2)}; --wide: {round(high - low, 2)}"
        kind = f"{row.method} {'clear' if row.leads or row.trails else 'open'}"
        dots.append(tag("i", kind=kind, style=place, title=f"{name}: {_words(row)}"))
    shown = next((row for row in rows if row.method == "gdpo"), None)
    number = _points(shown.difference) if shown else ""
    return tag("span", tag("small", name), tag("span", *dots), tag("small", number), kind="forest-line")


def key_of_picture() -> Html:
    """Return the note below the picture: what its marks mean."""
    with_no_std = {row.setup for row in load_differences() if row.method == WITHOUT_STD}
    note = (
        "A point is 1 % of a reward's range, in its mean over all steps. A mark to the right of 0 means that more of "
        "what the run wants was learnt than under GRPO: ● under GDPO, ■ under GRPO without std (trained in "
        f"{count(len(with_no_std), 'set-up')}). A filled mark leads or trails. The grey band is a difference of less "
        f"than {count(round(LEAST), 'point')}. The model of the first three groups has {PARAMETERS:,} parameters."
    )
    return tag("p", note, kind="note")


# --- the curves of a set-up -------------------------------------------------------------------------------------------


@lru_cache(maxsize=1)
def _outline() -> pl.DataFrame:
    return pl.read_parquet(OUTLINE).with_columns(pl.col(pl.Categorical).cast(pl.String))


def trained_curves(setup: str) -> Html:
    """Return the curves of a set-up, a chart per reward, and below them the differences in words.

    setup: one of `setup_names`.
    """
    rows = [row for row in load_differences() if row.setup == setup]
    lines = _outline().filter(setup=setup).with_columns(pl.col("method").replace_strict(NAMES))
    drawn = []
    for reward in dict.fromkeys(row.reward for row in rows):
        points = lines.filter(reward=reward).drop("setup", "reward").to_dicts()
        differences = "; ".join(_words(row) for row in rows if row.reward == reward)
        drawn.append(charts.trained(points, reward, differences))
    title = tag("h3", rows[0].title, tag("small", f" {count(rows[0].seeds, 'seed')}", kind="note"))
    says = "Lines are medians over the seeds of each reward's mean by step, bands reach from quartile to quartile."
    return html.div("setup", title, html.charts(drawn, "stacked"), tag("p", says, kind="note"))
