"""Details that the audit reads from a log beyond its sums, before findings and report exist: these open no log.

Each is read once for a run, and stands in its `Facts`.
"""

import polars as pl

from gdpo_audit.findings.facts import Facts
from gdpo_audit.findings.prompts import visited_prompts, worst_of
from gdpo_audit.findings.summarise import summarise_all
from gdpo_audit.findings.sums import Array, Basis, LengthSums
from gdpo_audit.logs.names import reward_column
from gdpo_audit.logs.parts import possible_pays
from gdpo_audit.logs.run import Run

CHARACTERS_OF = 200_000  # responses: reading the texts of more takes longer than the audit


def pays_of_total(run: Run) -> list[float]:
    """Return what the parts of a total may pay; empty where each reward is logged, or no few pays make the totals."""
    if not run.total_only:
        return []
    return possible_pays(table[reward_column(run.rewards[0])].to_numpy() for table in run.tables())


def texts_of_worst_prompts(f: Facts) -> pl.DataFrame | None:
    """Return `_place` and text of the prompts that wasted most responses; None where the log has no prompts."""
    prompts = visited_prompts(f)
    if prompts is None:
        return None
    worst, texts = worst_of(prompts), list[pl.DataFrame]()
    for frame in f.run.extracts["text"]():
        texts.append(frame.join(worst, on="_place", how="semi"))
        if sum(map(len, texts)) == len(worst):
            break
    return pl.concat(texts)


def lengths_in_characters(f: Facts) -> LengthSums[Array] | None:
    """Return the sums of the lengths in characters; None where the log has tokens, no texts, or too many of them."""
    if f.run.has_length or "length" not in f.run.extracts or f.totals.responses > CHARACTERS_OF:
        return None
    lengths = pl.concat(f.run.extracts["length"]())
    basis = Basis(f.rewards, f.basis.weights, "paper", None, None)  # whose advantages nobody looks at
    counted = pl.col("batch").is_in(f.batches.batch.tolist())
    tables = (table.filter(counted) for table in f.run.tables())
    with_lengths = (
        table.join(lengths, on="_place", how="left", maintain_order="left") for table in tables if len(table)
    )
    return summarise_all(with_lengths, basis).batches.lengths
