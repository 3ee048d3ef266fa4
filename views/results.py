"""The result tables of the paper, every cell of them: where GDPO is ahead, and where GRPO is."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from functools import lru_cache
from pathlib import Path

import polars as pl

from gdpo_core._errors import InputError, expect
from gdpo_core._words import count, decimal, listing, signed
from views import save
from views.html import Cell, Html, charts, element, join, says, table, tag

FILE = Path(__file__).parent.parent / "data" / "paper_results.csv"
CHARTS = ("evidence-right", "evidence-rest")
GOOD = ("higher", "lower")
NUMBERS = ("base", "grpo", "gdpo")
CELLS = 68  # of the paper's tables


@dataclass(frozen=True)
class Result:
    """One cell of the paper's tables: what training with each method led to, in percent."""

    experiment: str
    model: str
    setting: str
    benchmark: str
    metric: str
    better: str  # higher or lower
    base: float  # before training
    grpo: float
    gdpo: float

    @property
    def ahead(self) -> float:
        """By how many points GDPO is ahead; below 0, GRPO is."""
        return round((self.gdpo - self.grpo) * (1 if self.better == "higher" else -1), 2)

    @property
    def leader(self) -> str:
        return "gdpo" if self.ahead > 0 else "grpo" if self.ahead < 0 else "equal"

    @property
    def name(self) -> str:
        """Short, and the only one of its kind."""
        model = self.model.removeprefix("DeepSeek-").removesuffix("-Instruct").replace("Qwen2.5-", "")
        metric = "" if self.metric in ("accuracy", "passed") else self.metric
        setting = {"length counts only if right": "gated"}.get(self.setting, self.setting)
        return " · ".join(filter(None, (self.benchmark, metric, model, setting)))


@lru_cache(maxsize=1)
def results() -> tuple[Result, ...]:
    """All cells, in the order of the file; InputError where it is missing or has changed."""
    place = f"data/{FILE.name}"
    try:
        read = pl.read_csv(FILE, schema_overrides=dict.fromkeys(NUMBERS, pl.Float64))
    except (OSError, pl.exceptions.PolarsError) as error:
        why = "none" if isinstance(error, FileNotFoundError) else str(error).splitlines()[0]
        raise InputError(f"{place}: expected the paper's tables as CSV, got {why}") from error
    names = [field.name for field in fields(Result)]
    expect(read.columns == names, place, f"columns {listing(names)}", listing(read.columns))
    cells = read.with_columns(pl.col("setting").fill_null("")).drop_nulls().filter(pl.col("better").is_in(GOOD))
    expect(len(cells) == CELLS, place, f"all {CELLS} cells of the paper's tables", len(cells))
    return tuple(Result(**row) for row in cells.to_dicts())


def ahead(cells: tuple[Result, ...]) -> dict[str, list[Result]]:
    """The cells by who is ahead."""
    return {leader: [cell for cell in cells if cell.leader == leader] for leader in ("grpo", "equal", "gdpo")}


def kinds() -> dict[str, tuple[Result, ...]]:
    """The cells of right answers, and those of everything else that was rewarded."""
    titles = ("right answers, %", "format, length and bugs")
    right = tuple(cell for cell in results() if cell.metric in ("accuracy", "passed"))
    return dict(zip(titles, (right, tuple(cell for cell in results() if cell not in right)), strict=True))


def part() -> Html:
    """HTML of both charts and what is to be seen on them."""
    from views.charts import who_is_ahead  # here, because Altair is half of what the first visitor would wait for

    return join(
        tag("h2", "What the paper measured on language models"),
        says(*_says()),
        charts(
            save.pictured(chart, f"Points ahead in the paper's tables: {title}", element(who_is_ahead(cells, title)))
            for chart, (title, cells) in zip(CHARTS, kinds().items(), strict=True)
        ),
        tag("p", _note(), kind="note"),
    )


def numbers(chart: str) -> list[dict]:
    """What a chart shows: a row per cell of the paper's tables."""
    cells = list(kinds().values())[CHARTS.index(chart)]
    return [asdict(cell) | {"points_ahead": cell.ahead, "leader": cell.leader} for cell in cells]


def _says() -> list[str]:
    found, right = ahead(results()), ahead(kinds()["right answers, %"])
    cells = {name: len(of) for name, of in found.items()}
    all_right = sum(map(len, right.values()))
    first = next(cell for cell in results() if cell.benchmark == "BFCL-v3 live")
    largest = max(found["grpo"], key=lambda cell: -cell.ahead)
    return [
        f"As the paper reports, **GRPO is ahead in {cells['grpo']} of {count(len(results()))} cells**, GDPO in "
        f"{cells['gdpo']}, and {cells['equal']} are equal. By at least one point it is {_clear(found['grpo'])} to "
        f"{_clear(found['gdpo'])}; the paper gives no spread for most, and the cells are not independent. For right "
        f"answers alone it is {len(right['grpo'])} to {len(right['gdpo'])} of {all_right}. GRPO's largest lead is "
        f"{decimal(-largest.ahead, 1)} points "
        f"({largest.name}), GDPO's {decimal(max(cell.ahead for cell in results()), 1)}. The tool-calling model with "
        f"1.5 billion parameters, {first.benchmark}: {decimal(first.grpo, 2)} % with GRPO, {decimal(first.gdpo, 2)} % "
        "with GDPO.",
    ]


def _clear(cells: Sequence[Result]) -> int:
    """How many leads are of a percentage point at least, before rounding."""
    return sum(abs(cell.ahead) >= 1 - 1e-9 for cell in cells)


def _note() -> str:
    gated = sum(cell.setting == "length counts only if right" for cell in results())
    return (
        "Reported by the paper (arXiv 2601.05242), not measured by us. Points: percentage points in favour of the "
        "method, so a lower rate of bugs counts for it. “over 4000 tokens” and “too long” are shares of answers. "
        f"“gated”: the length is rewarded only where the answer is right ({gated} cells). The averages of the tables "
        "are left out. The released scripts differ in more than the normalisation: GRPO has a KL penalty inside its "
        "normalised reward and GDPO none, and GDPO alone has the last step over the batch."
    )


def tabled() -> Html:
    """Every cell as HTML; bold where GRPO is ahead."""
    head = ["", "what is better", "before training", "GRPO", "GDPO", "ahead"]
    rows = [
        [
            f"{cell.experiment}: {cell.name}{'' if cell.metric not in ('accuracy', 'passed') else f' · {cell.metric}'}",
            cell.better,
            *(decimal(x, 2) for x in (cell.base, cell.grpo, cell.gdpo)),
            Cell(_lead(cell), "ahead" if cell.leader == "grpo" else ""),
        ]
        for cell in results()
    ]
    models = listing(dict.fromkeys(cell.model for cell in results()))
    return table(head, rows, "figures", f"In percent, of {models}; from arXiv 2601.05242")


def _lead(cell: Result) -> str:
    names = {"grpo": "GRPO", "gdpo": "GDPO"}
    return "equal" if cell.leader == "equal" else f"{names[cell.leader]} {signed(abs(cell.ahead))}"
