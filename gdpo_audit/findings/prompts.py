"""Which prompts taught nothing, over the whole run, and how long the completions are."""

from typing import Any

import numpy as np
import polars as pl

from gdpo_audit.findings.facts import Facts
from gdpo_audit.findings.over_time import quarters
from gdpo_audit.findings.summarise import summarise_all
from gdpo_audit.findings.sums import Array, LengthSums, Setup
from gdpo_audit.json_types import LengthsPart, PromptsPart

WORST = 10  # prompts in a report
CHARACTERS_OF = 200_000  # responses: reading the texts of more takes longer than the audit


def _visits(f: Facts) -> pl.DataFrame | None:
    """The groups of the batches that are counted; None where their silence is not that of the run's method."""
    if f.summary is None or f.setup.examples_of != f.method:
        return None
    return f.summary.visits.filter(pl.col("batch").is_in(f.batches.batch.tolist()))


def silent_responses(f: Facts) -> int | None:
    """The responses in groups without any advantage."""
    visits = _visits(f)
    return None if visits is None else int(visits.filter("silent")["responses"].sum())


def prompts_of(f: Facts) -> PromptsPart | None:
    """The prompts of a run, and the groups that each got. None: the log has none."""
    visits = _visits(f)
    if visits is None or "_prompt_key" not in visits.columns:
        return None
    wasted = pl.col("responses").filter("silent").sum()
    visited = pl.col("_place").min(), pl.len().alias("visits"), pl.col("silent").sum(), wasted
    prompts = visits.group_by("_prompt_key").agg(visited).sort("responses", "_place", descending=[True, False])
    worst = prompts.filter(pl.col("responses") > 0).head(WORST)
    texts = list[pl.DataFrame]()
    for frame in f.run.others["text"]():
        texts.append(frame.join(worst, on="_place", how="semi"))
        if sum(map(len, texts)) == len(worst):
            break
    with_text = worst.join(pl.concat(texts), on="_place", how="left", maintain_order="left")
    rows: Any = with_text.select(
        "visits", prompt="text", silent_visits="silent", silent_responses="responses"
    ).to_dicts()
    silent, repeated = prompts.filter(silent=pl.col("visits")), prompts.filter(pl.col("visits") > 1)
    return {
        "prompts": len(prompts),
        "repeated": len(repeated),
        "silent": len(silent),
        "silent_repeated": len(repeated.filter(silent=pl.col("visits"))),
        "worst": rows,
    }


def lengths_of(f: Facts) -> LengthsPart | None:
    """How long the completions are: in tokens where they are logged, else in characters. None: neither is known."""
    batches = f.batches.lengths if f.run.has_length else _characters(f)
    if batches is None or not batches.total.sum():
        return None
    spread = np.sqrt(batches.squared.sum() * f.totals.rewards.squared.diagonal())
    together = zip(f.rewards, batches.products.sum(-1), spread, strict=True)
    known = batches.present > 0
    first, last = quarters((batches.total[known] / batches.present[known]).tolist())
    return {
        "unit": "tokens" if f.run.has_length else "characters",
        "first_quarter": first,
        "last_quarter": last,
        "correlations": {name: float(part / whole) if whole else None for name, part, whole in together},
    }


def _characters(f: Facts) -> LengthSums[Array] | None:
    """The sums of the batches with characters in place of tokens; the advantages that come of them are no one's."""
    if "length" not in f.run.others or f.totals.responses > CHARACTERS_OF:
        return None
    lengths = pl.concat(f.run.others["length"]())
    setup = Setup(f.rewards, f.setup.weights, "paper", None, None)
    counted = pl.col("batch").is_in(f.batches.batch.tolist())
    tables = (table.filter(counted) for table in f.run.tables())
    with_lengths = (
        table.join(lengths, on="_place", how="left", maintain_order="left") for table in tables if len(table)
    )
    return summarise_all(with_lengths, setup).batches.lengths
