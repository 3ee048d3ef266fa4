"""How ties and priorities change with the number of answers per prompt."""

from collections.abc import Callable, Collection
from functools import lru_cache

from gdpo_core._words import percent
from gdpo_core.bfcl import Published
from views import save
from views.html import Html, charts, element, join, says, table, tag
from views.prompts import METHODS, WEIGHTS, Choice, Found, Priorities, by_size
from views.text import NAMES

CHARTS = ("evidence-ties", "evidence-pairs", "evidence-broken")
FEW = 0.2  # curves that stay below have an axis that ends there
Read = Callable[[Found, Priorities], float | None]


def shares(data: Published, choice: Choice) -> dict[str, dict[str, dict[int, float | None]]]:
    """By what is counted, by method and by group size: a share, None where there is nothing to count."""
    sizes = by_size(data, choice)
    prompts = len(data.tasks)
    at = WEIGHTS.index(choice.weight)

    def read(share: Read) -> dict[int, float | None]:
        return {size: share(*both) for size, both in sizes.items()}

    return {
        "prompts with a tie": {m: read(lambda f, _, m=m: f.tied_prompts[m] / prompts) for m in METHODS},
        "pairs with different marks, tied": {m: read(lambda f, _, m=m: f.tied_pairs[m]) for m in METHODS},
        "broken ties, wrong answer first": {"gdpo": read(lambda _, p: p.broken_wrong[at] if p.broken else None)},
    }


@lru_cache(maxsize=32)
def part(data: Published, choice: Choice) -> Html:
    """HTML of the three curves with what they do."""
    from views.charts import by_group_size  # here, because Altair is half of what the first visitor would wait for

    by_title = shares(data, choice)
    drawn = [
        save.pictured(
            chart,
            f"By answers per prompt: {title}",
            element(by_group_size(lines, title, _top(lines), choice.group_size)),
        )
        for chart, (title, lines) in zip(CHARTS, by_title.items(), strict=True)
    ]
    return join(
        tag("h2", "More answers per prompt, more ties under GRPO"), says(*_says(data, choice, by_title)), charts(drawn)
    )


def numbers(data: Published, choice: Choice, chart: str) -> list[dict]:
    """What a chart shows: a share per method and group size."""
    lines = list(shares(data, choice).values())[CHARTS.index(chart)]
    return [{"answers": n, "method": NAMES[m], "share": x} for m, line in lines.items() for n, x in line.items()]


def _top(lines: dict[str, dict[int, float | None]]) -> float:
    """Where the axis ends."""
    return FEW if max(x or 0 for line in lines.values() for x in line.values()) <= FEW else 1.0


def _says(data: Published, choice: Choice, by_title: dict) -> list[str]:
    ties = by_title["prompts with a tie"]
    grpo, gdpo = (ties[m] for m in METHODS)
    first, last = min(grpo), max(grpo)
    top = max(gdpo, key=lambda size: gdpo[size])
    start, most, end = (percent(gdpo[size], 1) for size in (first, top, last))
    rises = first < top < last
    rest = f"rises from {start} to {most} at {top} and falls to {end}" if rises else f"goes from {start} to {end}"
    without_std = (
        "GRPO without std (Dr. GRPO) leaves out the division. It ties exactly what GRPO ties: dividing a group by one "
        "number moves no answer past another."
    )
    broken = {n: x for n, x in by_title["broken ties, wrong answer first"]["gdpo"].items() if x is not None}
    if not broken:
        return [f"From {first} to {last} answers the share of prompts with a tie {rest} under GDPO.", without_std]
    return [
        f"From {first} to {last} answers the share of prompts with a tie goes from {percent(grpo[first], 1)} to "
        f"**{percent(grpo[last], 1)}** under GRPO; under GDPO it {rest}. More answers do not mend the order: with "
        f"{min(broken)} to {max(broken)} answers the wrong one is first in {_tenths(broken.values())} of "
        f"the ties that GDPO breaks{_weighed(choice)}.",
        without_std,
    ]


def _tenths(shares: Collection[float]) -> str:
    """About how many in ten; of few answers another draw gives another percentage.

    >>> _tenths([0.6, 0.68]), _tenths([0.61, 0.63])
    ('about **6 to 7 in 10**', 'about **6 in 10**')
    """
    low, high = (round(10 * share) for share in (min(shares), max(shares)))
    return f"about **{low if low == high else f'{low} to {high}'} in 10**"


def _weighed(choice: Choice) -> str:
    return f", with correctness at {choice.weight:g}" if choice.weight != 1 else ""


def tabled(data: Published, choice: Choice) -> Html:
    """The curves as HTML."""
    by_title = shares(data, choice)
    columns = [lines[m] for lines in by_title.values() for m in lines]
    rows = [[size, *(percent(column[size], 1) for column in columns)] for size in columns[0]]
    over = {title: len(lines) for title, lines in by_title.items()}
    return table(["answers", *(NAMES[m] for lines in by_title.values() for m in lines)], rows, "figures", over=over)
