"""Details that the audit reads from a log in addition to sums of its numbers, so that findings do not have to open the
log.

Each detail is read once for a run, and is a member of its `Facts`.
"""

import polars as pl

from gdpo_audit.facts.drifts import early_and_late
from gdpo_audit.facts.facts import Facts
from gdpo_audit.facts.prompt_counts import visited_prompts, worst_of
from gdpo_audit.logs.groups.pays import possible_pays
from gdpo_audit.logs.groups.run import Run
from gdpo_audit.logs.names import reward_column
from gdpo_audit.sums.returning import Returning, returning
from gdpo_audit.sums.summarise import sums_of_all
from gdpo_audit.sums.sums import Array, Basis, LengthSums

# The most responses whose texts are read for their lengths: with more that takes longer than the audit itself.
CHARACTERS_OF = 200_000


def pays_of_total(run: Run) -> list[float]:
    """Return what each reward behind a logged total may pay when it is passed, if the log holds only the total.

    The numbers are a guess, all above 0, the largest first. Empty where the log holds each reward. Empty also where no
    set of two to five numbers explains exactly the totals that occur.
    """
    if not run.total_only:
        return []
    return possible_pays(table[reward_column(run.rewards[0])].to_numpy() for table in run.tables())


def texts_of_worst_prompts(f: Facts) -> pl.DataFrame | None:
    """Return a table with the texts of the prompts that wasted most responses in silent groups, in the order of the
    log.

    In a silent group every advantage is 0. The table has at most ten rows, and none if no response was wasted. The
    columns are `_place`, which says where in the log the first response to the prompt stands, and `text`, the start of
    the prompt.

    None where the log has no prompts, or where it is not known which groups were silent.
    """
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
    """Return the sums over the lengths of completions in characters, for each batch of `f.batches`.

    None where the log holds lengths in tokens, where it holds no texts of completions, and where it holds more
    responses than `CHARACTERS_OF`.
    """
    if f.run.has_length or "length" not in f.run.extracts or f.totals.responses > CHARACTERS_OF:
        return None
    lengths = pl.concat(f.run.extracts["length"]())
    basis = Basis(f.rewards, f.basis.weights, "paper", None, None)  # nobody looks at the advantages under it
    counted = pl.col("batch").is_in(f.batches.batch.tolist())
    tables = (table.filter(counted) for table in f.run.tables())
    with_lengths = (
        table.join(lengths, on="_place", how="left", maintain_order="left") for table in tables if len(table)
    )
    return sums_of_all(with_lengths, basis).lengths


def means_on_returning_prompts(f: Facts) -> dict[int, Returning]:
    """Return the mean of each reward whose mean gets worse on the prompts that come both early and late, by the index
    of the reward; {} where the log has no prompts.
    """
    falling = early_and_late(f)
    if not falling:
        return {}
    columns = ["batch", "_prompt_key", *(reward_column(f.rewards[k]) for k in falling)]
    answers = [table.select(columns) for table in f.run.tables() if "_prompt_key" in table.columns]
    means = {k: returning(answers, f.rewards[k], ways) for k, ways in falling.items()}
    return {k: on_both for k, on_both in means.items() if on_both is not None}
