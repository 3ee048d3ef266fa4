"""The findings about the log itself: missing or repeated steps, merged prompts, missing rewards."""

from collections import Counter
from collections.abc import Iterator
from typing import TypedDict, cast

import polars as pl

from gdpo_core import settings
from gdpo_core._words import count, number
from gdpo_core.conventions import CONVENTIONS
from gdpo_core.findings.facts import Facts, Finding, at_steps, some
from gdpo_core.findings.thresholds import EVERY_NTH

_WRITER = {"trl": "TRL", "verl": "verl", "ms_swift": "ms-swift", "nemo_rl": "NeMo-RL"}
_LISTED = 100  # steps in the evidence


class Evidence(TypedDict, total=False):
    """What the readers of logs note about a trap; each kind of trap has some of these."""

    batches: int  # that the trap is in
    of: int  # batches in all
    groups: int
    group_size: int
    rows: int
    step: int
    steps: int
    columns: list[str]
    rewards: list[str]
    error: float


def steps_missing(f: Facts) -> Iterator[Finding]:
    """Steps that the log does not hold."""
    gaps = Counter(b - a for a, b in zip(f.steps, f.steps[1:], strict=False))
    if not gaps or set(gaps) == {1}:
        return
    usual, times = max(gaps.items(), key=lambda gap: gap[1])
    first, last = f.steps[0], f.steps[-1]
    after = [a for a, b in zip(f.steps, f.steps[1:], strict=False) if b - a > 1]
    missing = last - first + 1 - len(f.steps)
    evidence = {"missing": missing, "first_step": first, "last_step": last, "after_steps": after[:_LISTED]}
    if usual > 1 and (times >= EVERY_NTH * gaps.total() or first == usual):
        begin = max(first - usual + 1, min(first, 1))
        there = last - begin + 1
        of = f"{there} steps up to step {last}" if begin <= 1 else f"{there} steps from {begin} to {last}"
        message = f"The log holds only every {_nth(usual)} step, {len(f.steps)} of the {of}"
        if f.run.framework in ("trl", "ms_swift"):
            message += (
                f": {_WRITER[f.run.framework]} keeps the last generation batch until it logs, so logging_steps={usual} "
                f"writes the last batch of each {usual} and drops the others"
            )
        message += "."
        evidence |= {"missing": there - len(f.steps), "every": usual}
        fix = settings.log_every_step(f.run.framework)
    else:
        message = (
            f"{count(missing, 'step')} {_is(missing)} missing, after {at_steps(after)}: files were lost, or those "
            "steps were logged elsewhere. This report does not cover them."
        )
        fix = None
    yield Finding("steps-missing", "warning", message, evidence, fix)


def steps_repeated(f: Facts) -> Iterator[Finding]:
    """Batches, or step numbers, that the log holds more than once."""
    again = f.repeated["step"].to_list()
    if again:
        iterates = f.run.framework in ("trl", "ms_swift")
        why = " num_iterations above 1, or several optimiser steps for each generation batch, does that."
        yield Finding(
            "steps-repeated",
            "info",
            f"{count(len(again), 'batch', 'batches')} ({at_steps(again)}) "
            f"{'repeat' if len(again) > 1 else 'repeats'} the rows of the batch before.{why * iterates} This report "
            "counts such rows once.",
            {"repeated": len(again), "steps": again[:_LISTED]},
            None,
        )
    twice = f.batches.filter(pl.col("step") == pl.col("step_last")).group_by("step").len().filter(pl.col("len") > 1)
    steps = sorted(twice["step"].to_list())
    if steps:
        # TRL and verl overwrite the file of a step; ms-swift appends to its one file.
        why = {
            "ms_swift": "mostly a resumed run, or two runs that wrote to one place. ms-swift also appends a line for "
            "an evaluation",
            "generic": "several runs in one table, or a resumed one",
        }.get(f.run.framework, "files of two runs were put together")
        yield Finding(
            "steps-repeated",
            "warning",
            f"The log holds {at_steps(steps)} more than once, with different content: {why}. This report counts each "
            "as a batch of its own.",
            {"twice": len(steps), "steps": steps[:_LISTED]},
            None,
        )


def prompts_merged(f: Facts) -> Iterator[Finding]:
    """Prompts that occur more than once in a batch."""
    for evidence in _traps(f, "prompts-merged"):
        where = f"{count(evidence.get('groups', 0), 'group')} in {count(evidence.get('steps', 0), 'step')}"
        if f.run.grouped_by.startswith("blocks"):
            yield Finding(
                "prompts-merged",
                "info",
                f"Some prompts occur more than once in a batch ({where} share their prompt with another group), so the "
                f"text of a prompt does not tell groups apart. This report reads {f.run.grouped_by}, as the trainer "
                "does, and is not affected; a script that groups this log by prompt would merge them.",
                evidence,
                None,
            )
        else:
            usual = f" ({evidence['group_size']})" if "group_size" in evidence else ""
            yield Finding(
                "prompts-merged",
                "warning",
                f"Groups are told apart by {f.run.grouped_by}, and {where} hold several times as many responses "
                f"as the others{usual}: a prompt that occurred more than once in a batch became one group. The figures "
                "of those groups are wrong. Log an id for each group, or name the column that holds one.",
                evidence,
                None,
            )


def ragged_batches(f: Facts) -> Iterator[Finding]:
    """Batches that the group size does not divide."""
    for evidence in _traps(f, "ragged-batches"):
        if "groups" in evidence:  # a column tells the groups apart
            yield Finding(
                "ragged-batches",
                "warning",
                f"In {_batches(evidence)}, {count(evidence['groups'], 'group')} do not hold the usual "
                f"{evidence['group_size']} responses (step {evidence['step']}: one of "
                f"{count(evidence['rows'], 'row')}): rows were lost. The figures take these groups as they are.",
                evidence,
                None,
            )
            continue
        yield Finding(
            "ragged-batches",
            "warning",
            f"In {_batches(evidence)}, the number of rows is no multiple of the group size {evidence['group_size']} "
            f"(step {evidence['step']}: {count(evidence['rows'], 'row')}), so the last group there is cut: rows were "
            "lost, or the group size is another one. In that case give the group size.",
            evidence,
            None,
        )


def missing_rewards(f: Facts) -> Iterator[Finding]:
    """Rewards are missing and the framework does not skip them."""
    convention = CONVENTIONS[f.plan.convention]
    missing = {name: int(f.totals["responses"] - f.totals[f"there_{k}"]) for k, name in enumerate(f.rewards)}
    missing = {name: n for name, n in missing.items() if n}
    if not missing or convention.missing != "propagates":
        return
    lacking = some(f"{name} in {count(n)}" for name, n in missing.items())
    severity = "error"
    spreads = (
        f"and {convention.name} does not skip them: one missing reward makes the advantages of its whole group NaN, "
        "under GDPO those of the whole batch"
    )
    if f.run.framework == "verl" and not f.is_gdpo:
        severity = "warning" if f.asked is None else "info"
        spreads = (
            "which harms GDPO alone: there one missing reward makes the advantages of the whole batch NaN, while "
            "verl's GRPO reads only score"
        )
    yield Finding(
        "missing-rewards",
        severity,
        f"Rewards are missing ({lacking} of {count(f.totals['responses'], 'response')}), {spreads}. Return a number "
        "for every response. Such groups and batches are left out of the figures here.",
        {"missing": missing, "responses": int(f.totals["responses"])},
        None,
    )


def score_and_rewards(f: Facts) -> Iterator[Finding]:
    """Whether verl's score, which its GRPO normalises, is a weighted sum of the rewards logged beside it."""
    for evidence in _traps(f, "score-not-a-sum"):
        yield Finding(
            "score-not-a-sum",
            "info",
            f"The score is not a weighted sum of {some(evidence['columns'])} (the nearest one differs by up to "
            f"{number(evidence['error'], 2)}). verl's GRPO normalises the score, so what this report says about GRPO "
            "holds for the weighted sum of these columns and not for the score. GDPO takes the columns themselves.",
            evidence,
            None,
        )
    for evidence in _traps(f, "not-in-score"):
        columns = evidence["columns"]
        yield Finding(
            "not-in-score",
            "info",
            f"The score is a weighted sum of {some(evidence['rewards'])} alone, so {some(columns)} "
            f"{_is(len(columns))} not counted as {'a reward' if len(columns) == 1 else 'rewards'} here. If "
            "gdpo_reward_keys names more, name all of them as rewards.",
            evidence,
            None,
        )


def no_components(f: Facts) -> Iterator[Finding]:
    """The log holds only the total of the rewards."""
    if not f.run.total_only:
        return
    evidence = next(_traps(f, "no-components"), Evidence())
    writer = _WRITER.get(f.run.framework, "The run")
    why = {
        "verl": "verl's v1 trainer dumps only the score; its legacy trainer also dumps every key that compute_score "
        "returns.",
        "nemo_rl": "NeMo-RL logs only the total: write the rewards down where your environment computes them.",
    }.get(f.run.framework, f"{writer} has to log each reward in a column of its own.")
    yield Finding(
        "no-components",
        "error",
        "The log holds one total per response, not the rewards that the total was made of, so nothing can be said "
        f"about them: neither what each one does, nor what GDPO would do. {why}",
        {**evidence, "rewards": list(f.rewards)},
        settings.log_rewards(f.run.framework),
    )


def _batches(evidence: Evidence) -> str:
    return f"{count(evidence['batches'])} of {count(evidence['of'], 'batch', 'batches')}"


def _is(n: int) -> str:
    return "is" if n == 1 else "are"


def _nth(n: int) -> str:
    """An ordinal number.

    >>> _nth(2), _nth(3), _nth(10), _nth(21)
    ('second', 'third', '10th', '21st')
    """
    words = {2: "second", 3: "third"}
    ending = "th" if n // 10 % 10 == 1 else {1: "st", 2: "nd", 3: "rd"}.get(n % 10, "th")
    return words.get(n, f"{n}{ending}")


def _traps(f: Facts, which: str) -> Iterator[Evidence]:
    """What the reader noted about traps of one kind."""
    return (cast(Evidence, dict(trap.evidence)) for trap in f.run.traps if trap.id == which)
