"""Two parts of a report. One is about the prompts of the whole run, and which of them taught nothing. The other is
about the lengths of the completions.
"""

from math import isnan
from typing import Any

import polars as pl

from gdpo_audit.facts.facts import Facts
from gdpo_audit.facts.quarters import mean_of_quarters
from gdpo_audit.json_types import LengthsPart, PromptsPart
from gdpo_audit.sums.relations import correlations

WORST = 10  # the most prompts that a report shows


def _visits(f: Facts) -> pl.DataFrame | None:
    """Return a table with a row per group that counts in the report. None where it is not known which groups the run's
    method left silent.

    A row holds the group's number of responses, whether it is silent and, where the log has prompts, which prompt it
    answers.
    """
    if f.summary is None or f.basis.examples_of != f.method:
        return None
    return f.summary.visits.filter(pl.col("batch").is_in(f.batches.batch.tolist()))


def silent_responses(f: Facts) -> int | None:
    """Return how many responses are in silent groups, where every advantage is 0; None where that is not known."""
    visits = _visits(f)
    return None if visits is None else int(visits.filter("silent")["responses"].sum())


def visited_prompts(f: Facts) -> pl.DataFrame | None:
    """Return a table with a row per prompt, those first that wasted most responses on silent groups. None where the log
    has no prompts, or where it is not known which groups were silent.

    The columns are:
    - `_prompt_key`: the key of the prompt.
    - `_place`: the place in the log of the first response to the prompt.
    - `visits`: the number of groups that answer the prompt.
    - `silent`: how many of these groups are silent.
    - `responses`: the number of responses in the silent groups.
    """
    visits = _visits(f)
    if visits is None or "_prompt_key" not in visits.columns:
        return None
    wasted = pl.col("responses").filter("silent").sum()
    visited = pl.col("_place").min(), pl.len().alias("visits"), pl.col("silent").sum(), wasted
    return visits.group_by("_prompt_key").agg(visited).sort("responses", "_place", descending=[True, False])


def worst_of(prompts: pl.DataFrame) -> pl.DataFrame:
    """Return the prompts that a report shows: the first `WORST` of those that wasted responses on silent groups.

    prompts: a table as `visited_prompts` returns it.
    """
    return prompts.filter(pl.col("responses") > 0).head(WORST)


def prompts_of(f: Facts) -> PromptsPart | None:
    """Return the report's part about prompts. None where the log has no prompts, where their texts were not read, or
    where it is not known which groups were silent.

    The part has five entries:
    - "prompts": the number of prompts.
    - "repeated": how many of them several groups answer.
    - "silent": how many of them have only silent groups.
    - "silent_repeated": how many of the repeated ones have only silent groups.
    - "worst": a list of the prompts that wasted most responses, with their texts.
    """
    prompts = visited_prompts(f)
    if prompts is None or f.prompt_texts is None:
        return None
    with_text = worst_of(prompts).join(f.prompt_texts, on="_place", how="left", maintain_order="left")
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
    """Return the report's part about lengths. None where no lengths are known, or all are 0.

    It has four entries:
    - "unit": tokens if the log has lengths in tokens, else characters.
    - "first_quarter": the mean length in the first quarter of the batches.
    - "last_quarter": the mean length in the last quarter of the batches.
    - "correlations": by reward, the correlation of the reward with the length inside groups; None where one of them is
      constant.
    """
    batches = f.batches.lengths if f.run.has_length else f.characters
    if batches is None or not batches.total.sum():
        return None
    with_rewards = correlations(batches.products.sum(-1), batches.squared.sum(), f.totals.rewards.squared.diagonal())
    first, last = mean_of_quarters(batches.total, batches.present)
    return {
        "unit": "tokens" if f.run.has_length else "characters",
        "first_quarter": first,
        "last_quarter": last,
        "correlations": {n: None if isnan(x) else float(x) for n, x in zip(f.rewards, with_rewards, strict=True)},
    }
