"""A small language model under TRL's own trainer: what the coins predicted, and what 100 runs did."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import polars as pl

from gdpo_core._errors import InputError, expect, reason
from gdpo_core._words import count, decimal, listing, number, percent, signed
from gdpo_core.conventions import NAMES
from gdpo_core.predicted import VERDICTS, Comparison, by_chance, hold
from views import charts, html
from views.html import Cell, Html, callout, join, paragraphs, table, tag

TABLE, PREDICTIONS = html.ROOT / "data" / "experiments.parquet", html.ROOT / "experiments" / "predictions.json"
STEPS, LAST = 5, 50  # of a point of a curve; in which shares of the update are looked at
PARAMETERS, ANSWERS = 199_392, 96  # of the model, and per step; experiments/ trains it, tests hold both against it


@dataclass(frozen=True)
class Experiment:
    """The runs, the predictions and what came of each."""

    runs: pl.DataFrame  # a row per set-up, method, seed and step
    predictions: Mapping[str, Any]
    comparisons: tuple[Comparison, ...]

    def ahead(self, method: str) -> list[Comparison]:
        """The comparisons in which this method is clearly ahead."""
        sign = 1 if method == "gdpo" else -1
        return [one for one in self.comparisons if one.found.leaves_out_zero and one.found.mean * sign > 0]

    def title(self, setup: str) -> str:
        """What a set-up is called."""
        return next(one["title"] for one in self.predictions["setups"] if one["name"] == setup)


@lru_cache(maxsize=1)
def load() -> Experiment:
    """The shipped runs; InputError where they are missing or damaged."""
    try:
        runs = pl.read_parquet(TABLE).with_columns(pl.col("setup", "method").cast(pl.String))
        predictions = json.loads(PREDICTIONS.read_text(encoding="utf-8"))
        comparisons = tuple(hold(runs, predictions))
    except (OSError, ValueError, KeyError, pl.exceptions.PolarsError) as error:
        why = reason(error)[:100]
        raise InputError(f"data/{TABLE.name}: expected the runs of the experiments, got {why}") from None
    expect(bool(comparisons), f"data/{TABLE.name}", "runs of set-ups with predictions", "none")
    return Experiment(runs, predictions, comparisons)


def part() -> Html:
    """The count of what held, a row of curves per set-up under its prediction, and the limits."""
    found = load()
    heading = tag("h2", "A language model, small but real", kind="part")
    rows = [_setup(found, setup) for setup in found.predictions["setups"]]
    return join(heading, callout(*_says(found)), *rows, paragraphs(_limits(found)), _next())


def _says(found: Experiment) -> list[str]:
    held, not_held, unseen = ([one for one in found.comparisons if one.verdict == word] for word in VERDICTS)
    many = len(found.comparisons)
    gdpo, grpo = found.ahead("gdpo"), found.ahead("grpo")
    rest = f" {count(len(unseen))} {'shows' if len(unseen) == 1 else 'show'} no difference." if unseen else ""
    sentences = [
        "A policy that writes text, trained by TRL. Before any run, the coins of Train said where GDPO would be "
        f"faster, slower, or less than {count(round(100 * found.predictions['smallest_difference']), 'point')} apart. "
        f"**{len(held)} of {many} predictions held, {len(not_held)} did not.**{rest}",
        f"**GRPO is ahead in {len(grpo)} of the {many} comparisons, GDPO in {len(gdpo)}**; of {many}, about "
        f"{decimal(by_chance(many), 1)} would look so by chance. {_largest(found, gdpo)} {_largest(found, grpo)}",
    ]
    return sentences + [_surprise(found, one) for one in not_held]


def _largest(found: Experiment, of: list[Comparison]) -> str:
    if not of:
        return ""
    most = max(of, key=lambda one: abs(one.found.mean))
    method = NAMES["gdpo" if most.found.mean > 0 else "grpo"]
    return (
        f"{method}'s largest lead is {points(abs(most.found.mean))} points, in {most.reward} with "
        f"“{found.title(most.setup)}”."
    )


def _surprise(found: Experiment, one: Comparison) -> str:
    method = NAMES["gdpo" if one.found.mean > 0 else "grpo"]
    return (
        f"What the coins missed: under “{found.title(one.setup)}” they said “{one.prediction}” of {one.reward}, and "
        f"{method} is {points(abs(one.found.mean))} points ahead. In the last {LAST} steps {one.reward} has "
        f"{percent(_share(found, one, 'grpo'))} of GRPO's update and {percent(_share(found, one, 'gdpo'))} of GDPO's; "
        "this was looked at afterwards, and no run tests whether it is the reason."
    )


def _share(found: Experiment, one: Comparison, method: str) -> float:
    """The reward's mean share of the update in the last steps."""
    last = pl.col("step") > found.runs["step"].max() - LAST
    return found.runs.filter(last, setup=one.setup, method=method)[f"share_{one.reward}"].mean()


def _setup(found: Experiment, setup: Mapping[str, Any]) -> Html:
    of = [one for one in found.comparisons if one.setup == setup["name"]]
    drawn = [
        html.div("measured", charts.trained(curves(found, one), one.reward, _words(one)), _caption(one)) for one in of
    ]
    title = join(tag("h3", setup["title"]), tag("p", "The coins said: ", tag("i", setup["words"]), kind="note"))
    return html.div("setup", title, html.charts(drawn, "small"))


def _caption(one: Comparison) -> Html:
    words = f"Predicted: {one.prediction}. "
    verdict = tag("b", one.verdict[0].upper() + one.verdict[1:], kind="missed" if one.verdict != VERDICTS[0] else "")
    return tag("p", words, verdict, f": {interval(one)}.", kind="note")


def _words(one: Comparison) -> str:
    return f"predicted {one.prediction}; {one.verdict}; {interval(one)}"


def interval(one: Comparison) -> str:
    """Who is ahead by how many points, with the interval; GDPO − GRPO where nobody is."""
    found = one.found
    if not found.leaves_out_zero:
        low, high = (signed(100 * x, 1) for x in (found.low, found.high))
        return f"GDPO − GRPO {signed(100 * found.mean, 1)} points ({low} to {high})"
    least, most = sorted((abs(found.low), abs(found.high)))
    leader = NAMES["gdpo" if found.mean > 0 else "grpo"]
    return f"{leader} ahead by {points(abs(found.mean))} points ({points(least)} to {points(most)})"


def points(x: float) -> str:
    """A share in points, to a tenth."""
    return decimal(100 * x, 1)


def curves(found: Experiment, one: Comparison) -> list[dict[str, Any]]:
    """Median, lower and upper quartile over seeds of the pass rate, a point for every STEPS steps, by method."""
    of = found.runs.filter(setup=one.setup).with_columns((pl.col("step") - 1) // STEPS * STEPS + STEPS)
    means = of.group_by("method", "seed", "step").agg(pl.col(one.reward).cast(pl.Float64).mean().alias("rate"))
    rate = pl.col("rate")
    lines = means.group_by("method", "step").agg(
        rate.median().alias("median"), rate.quantile(0.25).alias("low"), rate.quantile(0.75).alias("high")
    )
    named = lines.with_columns(pl.col("method").replace_strict(NAMES), pl.selectors.float().round(4))
    return named.sort("method", "step").to_dicts()


def _limits(found: Experiment) -> str:
    runs, measured = found.runs, found.predictions["measured"]
    seeds, last = runs["seed"].n_unique(), runs["step"].max()
    smallest = found.predictions["smallest_difference"]
    small = [one for one in found.comparisons if one.prediction != "no difference" and abs(one.found.mean) < smallest]
    return (
        f"**What this can't show.** The model has {PARAMETERS:,} parameters and was made here from nothing; it answers "
        f"eight kinds of requests with calls of {number(runs['length'].min(), 2)} to {number(runs['length'].max(), 2)} "
        f"tokens on average, and starts where {listing(map(percent, measured['pass_rates']))} of its answers pass the "
        f"three graders. Each run is {last} steps of {ANSWERS} answers, with {seeds} seeds per set-up and method, Adam "
        "and TRL's defaults, on requests that it is also graded on. Its faults were planted independently of each "
        "other, which is close to what the coins assume and real rewards need not be. Compared is the mean pass rate "
        "over all steps, so how fast a reward is learned. A larger model, another task or longer training can differ. "
        "The comparisons of one set-up share their runs, so they are not independent. The interval is Student's t over "
        f"pairs of one seed. {count(len(small))} of the differences that were predicted came out smaller than "
        f"{count(round(100 * smallest), 'point')}."
    )


def _next() -> Html:
    runs = tag("a", "Two of these runs in Your run", href="?at=run&run-sample=pays_5_grpo")
    command = tag("code", "gdpo compare data/samples/pays_5_grpo data/samples/pays_5_gdpo")
    return tag("p", runs, "; in a terminal ", command, kind="next")


def results_table() -> Html:
    """Every prediction with what the coins and the runs did."""
    found = load()
    rows = [
        [
            found.title(one.setup),
            one.reward,
            one.prediction,
            signed(100 * one.coins, 1),
            signed(100 * one.found.mean, 1),
            f"{signed(100 * one.found.low, 1)} to {signed(100 * one.found.high, 1)}",
            Cell(one.verdict, "ahead" if one.verdict != VERDICTS[0] else ""),
        ]
        for one in found.comparisons
    ]
    head = ["set-up", "reward", "predicted of GDPO", "coins", "model", "95 % interval", "verdict"]
    return join(
        table(head, rows, "figures", "GDPO − GRPO of the mean pass rate over all steps, in points"),
        tag("p", found.predictions["rule"], kind="note"),
    )
