"""Examples for a report: the groups of a run that show a finding best, with their numbers and, where the log has them,
their prompts and completions.
"""

from collections.abc import Sequence
from dataclasses import replace
from math import isnan
from typing import Annotated

import numpy as np
import polars as pl
import torch
from msgspec import Meta, Struct, structs

from gdpo_audit.facts.facts import Examples, Facts
from gdpo_audit.findings.finding import Finding
from gdpo_audit.json_types import MaybeNaN
from gdpo_audit.logs.names import reward_columns
from gdpo_audit.records import Texts
from gdpo_core.frameworks import ALL_CONVENTIONS
from gdpo_core.steps import explain
from gdpo_core.ties import collapse

MOST_EXAMPLES = 5  # the most groups that are shown for a kind of finding
MOST_TEXTS = 256  # the most texts that are shown of a group, as a group may have any number of answers
FINDINGS = ("advantage-impossible", "ties-hide-signal", "priority-inversion", "reward-dominates", "silent-groups")
# Shown though it is no finding: responses above their group's mean of a reward whose advantage is 0 or less.
PUNISHED = "punished"


class GroupPart(Struct, frozen=True, kw_only=True):
    """One of the groups that show a finding best. Each list has an item per answer of the group, in the order of the
    log.

    `logged` holds the logged advantages; it is null if the log lacks one of them. An item of `completions` is null
    where no text was read.
    """

    finding: Annotated[str, Meta(description="The id of a finding, or punished: its best answers get 0 or less.")]
    step: int
    group: Annotated[int, Meta(description="Its number in the table of the run.")]
    rewards: Annotated[
        tuple[tuple[MaybeNaN, ...], ...], Meta(description="Of each answer, in the order of source.rewards.")
    ]
    advantages: Annotated[tuple[MaybeNaN, ...], Meta(description="Of this group alone, under the run's method.")] = ()
    logged: tuple[MaybeNaN, ...] | None = None
    prompt: Annotated[str | None, Meta(description="Clipped; null where the log has none.")] = None
    completions: tuple[str | None, ...] | None = None


class ExampleGroup(GroupPart, frozen=True, kw_only=True):
    """One of the groups that show a finding best, together with all that its advantages under any method are computed
    from.

    score: how well the group shows the finding, higher is better.
    names: the names of the rewards.
    method: the method of the run, or the one that stands in for it.
    convention: a key of ALL_CONVENTIONS.
    weights: one per reward.
    lengths: the length of each answer in tokens, or None.
    reward: the reward that decides alone, or of whose good responses some are punished; None for other findings.
    places: where the answers stand in the files of the log.

    >>> group = ExampleGroup(finding="ties-hide-signal", step=1, group=0, rewards=((1, 0), (0, 1), (0, 0)), score=1.0,
    ...     names=("a", "b"), method="grpo", convention="paper", weights=(1, 1))
    >>> [round(a, 2) for a in group.advantages_under("grpo")], group.ties("grpo")
    ([0.58, 0.58, -1.15], [0, 0, None])
    """

    # The score counts pairs that are tied, inverted or lost in silence, or answers that are punished; or it is a
    # reward's share of the update of the group, or the size of the largest logged advantage.
    score: float
    names: tuple[str, ...]
    method: str
    convention: str
    weights: tuple[float, ...]
    lengths: tuple[float, ...] | None = None
    reward: str | None = None
    places: tuple[int, ...] = ()

    def advantages_under(self, method: str) -> tuple[float, ...]:
        """Return (answers,) the advantages that a method gives this group if the group is the whole batch. The weights
        and the convention are those that the example holds.
        """
        return tuple(explain(self.rewards, method, **self._options()).advantages.tolist())

    @property
    def tensor(self) -> torch.Tensor:
        """The rewards, (answers, rewards): in float32 if all of them are float32 numbers, so that round-off breaks no
        tie, else in float64.
        """
        rewards = torch.tensor(self.rewards, dtype=torch.float64)
        single = rewards.float()
        return single if torch.equal(single.double().nan_to_num(), rewards.nan_to_num()) else rewards

    def ties(self, method: str) -> list[int | None]:
        """Return (answers,) the number of the tie that each answer is in under a method; None for an answer in no tie.

        A tie is a set of answers that have the same advantage, though not all have the same rewards. Ties are numbered
        from 0, the one with the highest advantage first.
        """
        c = collapse(self.tensor, method, **self._options())
        levels = dict(zip(c.response.tolist(), c.level.tolist(), strict=True))
        vectors: dict[int, set[str]] = {}
        for answer, level in levels.items():
            vectors.setdefault(level, set()).add(str(self.rewards[answer]))
        tied = sorted((level for level, some in vectors.items() if len(some) > 1), reverse=True)
        numbers = {level: number for number, level in enumerate(tied)}
        return [numbers.get(levels.get(answer, -1)) for answer in range(len(self.rewards))]

    def _options(self) -> dict:
        convention, lengths = ALL_CONVENTIONS[self.convention], self.lengths
        if convention.last_step != "tokens":
            lengths = None
        elif lengths is None or min(lengths) < 1:  # as the audit computes such a log
            lengths = None
            convention = replace(convention, last_step="responses")
        return {"weights": self.weights, "convention": convention, "lengths": lengths}


def best_groups(f: Facts) -> Examples | None:
    """Return the groups that show each kind of finding best, with a score for each, and the responses of these groups.

    At most `MOST_EXAMPLES` groups are chosen for a kind of finding; if the kind is about one reward, at most
    `MOST_EXAMPLES` for each reward. They are from the batches that count in the report. None where no examples were
    looked for while the run was summarised.
    """
    if f.summary is None or f.basis.examples_of is None:
        return None
    counted = f.summary.groups.filter(pl.col("batch").is_in(f.batches.batch.tolist()))
    best = []
    for name in counted.columns[2:]:
        finding, _, reward = name.partition(" ")
        labels = pl.lit(finding).alias("finding"), pl.lit(int(reward) if reward else None, pl.Int64).alias("reward")
        scores = counted.select(*labels, pl.col(name).alias("score"), "group").drop_nulls("score")
        best.append(scores.sort("score", "group", descending=[True, False]).head(MOST_EXAMPLES))
    scores = pl.concat(best)
    return Examples(scores, f.summary.rows.filter(pl.col("group").is_in(scores["group"].unique().implode())))


def example_groups(f: Facts, findings: Sequence[Finding]) -> tuple[ExampleGroup, ...]:
    """Return the groups that show each kind of finding in `FINDINGS` best, and those with the most punished responses.

    A response is punished if it is above its group's mean of the primary reward and its advantage is 0 or less. Without
    a primary reward, the first reward takes its place. The groups come without their texts. The result is () where no
    example groups were kept, or where they were chosen under another method than `f.method`.

    f: the facts of the run.
    findings: the findings about the run. The first `reward-dominates` among them says which reward the examples of that
        kind are about. If there is none, it is the reward with the largest share of the update.
    """
    if f.examples is None or f.basis.examples_of != f.method:
        return ()
    named = (finding.evidence["reward"] for finding in findings if finding.id == "reward-dominates")
    share = np.nan_to_num(f.shares(f.method), nan=-np.inf)
    reward = f.rewards.index(str(next(named, f.rewards[int(share.argmax())])))
    of_group = {number: rows for (number,), rows in f.examples.rows.partition_by("group", as_dict=True).items()}
    scores = f.examples.scores.filter(pl.col("reward").is_null() | (pl.col("reward") == reward))
    about = {"reward-dominates": f.rewards[reward], PUNISHED: f.rewards[f.basis.primary or 0]}
    return tuple(
        _example(f, finding, score, of_group[group], about.get(finding))
        for finding in (*FINDINGS, PUNISHED)
        for score, group in scores.filter(finding=finding).select("score", "group").rows()
    )


def _example(f: Facts, finding: str, score: float, rows: pl.DataFrame, reward: str | None) -> ExampleGroup:
    """Return one example group, made from the rows of the group.

    f: the facts of the run.
    finding: the id of the finding that the group shows, or `PUNISHED`, which is no finding, for a group in which good
        responses are punished.
    score: how well the group shows the finding.
    rows: the responses of the group.
    reward: the name of the reward that the example is about; None where it is about all of them.
    """

    def column(name: str) -> tuple[float, ...] | None:
        """Return the numbers in a column of `rows`, one per answer of the group. None where `rows` has no such column,
        or where a number is missing in the column.
        """
        values = tuple(rows[name].cast(pl.Float64).to_list()) if name in rows.columns else None
        return None if values is None or any(v is None or isnan(v) for v in values) else values

    return ExampleGroup(
        finding=finding,
        step=rows["step"][0],
        group=rows["group"][0],
        score=score,
        names=f.rewards,
        rewards=tuple(rows.select(reward_columns(f.rewards)).rows()),
        method=f.method,
        convention=f.basis.convention,
        weights=f.basis.of_batch(rows["batch"][0]).weights,
        logged=column("advantage"),
        lengths=column("length"),
        reward=reward,
        places=tuple(rows["_place"].to_list()) if "_place" in rows.columns else (),
    )


def completed(groups: Sequence[ExampleGroup], texts: Texts) -> tuple[ExampleGroup, ...]:
    """Return the groups with their prompts and completions added, as far as the log holds them, and with the advantages
    of the run's method. Of each group, at most `MOST_TEXTS` completions are read.

    groups: the example groups.
    texts: a function that takes places in the files of the log and returns the prompt and the completion by place.
    """
    records = texts({place for group in groups for place in group.places[:MOST_TEXTS]})
    return tuple(_completed(group, [records.get(place) for place in group.places]) for group in groups)


def _completed(group: ExampleGroup, records: Sequence) -> ExampleGroup:
    """Return an example group with its advantages, its prompt and its completions added.

    The advantages are those of the group alone under `group.method`.

    group: the example group.
    records: for each answer a record with its prompt and its completion, or None if its texts were not read. The group
        keeps its own prompt if no record has one, and its own completions if no record has one.
    """
    prompt = next((record.prompt for record in records if record and record.prompt is not None), group.prompt)
    completions = tuple(record and record.completion for record in records)
    return structs.replace(
        group,
        advantages=group.advantages_under(group.method),
        prompt=prompt,
        completions=group.completions if set(completions) <= {None} else completions,
    )
