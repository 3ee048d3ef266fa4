"""The findings about the log: steps, prompts and rewards it lacks, and advantages that its recipe does not make."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from math import isclose
from typing import TypedDict, cast

import polars as pl

from gdpo_core import reproduce, settings
from gdpo_core._words import count, number
from gdpo_core.conventions import CONVENTIONS
from gdpo_core.reproduce import Recipe
from gdpo_core.runs.facts import NAMES, Facts, Finding, at_steps, off_by_a_factor, real, some, sums
from gdpo_core.runs.sums import Summary
from gdpo_core.runs.thresholds import EVERY_NTH, MERGED, SCALE_ONLY

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


_LISTED = 100  # steps in the evidence
_SOLVED_FROM = 20_000  # responses

# By framework and the method that ran (None: any): why the framework does not run GDPO though it was asked for.
_SILENTLY = {
    ("trl", None): "TRL needs multi_objective_aggregation; scale_rewards alone never makes GDPO. axolotl with "
    "context_parallel_size > 1 keeps running GRPO.",
    ("ms_swift", "grpo_no_std"): "ms-swift centres the sum without dividing it under advantage_estimator "
    "reinforce_plus_plus, and in its multi-turn path with split trajectories.",
}


def eval_overwrote(f: Facts) -> Iterator[Finding]:
    """Steps whose file an evaluation wrote."""
    overwritten = f.overwritten
    if not len(overwritten):
        return
    steps, error = overwritten["step"].to_list(), real(overwritten["max_error"].max())
    yield Finding(
        "eval-overwrote",
        "warning",
        f"The logged advantages of {at_steps(steps)} are not reproduced, while those of the other steps are: they "
        f"differ by up to {number(error, 2)}, in most groups only by a factor. That is what an evaluation leaves "
        "behind: it overwrites the file of its step, with its own responses beside those of the training or in their "
        "place. These steps are left out of the figures here. Without evaluations the log stays whole.",
        {
            "steps": steps[:_LISTED],
            "rows_off": int(overwritten["rows_off"].sum()),
            "max_error": error,
            "groups_off_by_a_factor": off_by_a_factor(overwritten),
            "threshold": SCALE_ONLY,
        },
        f"{settings.no_evaluation(f.run.framework)}  # or leave {at_steps(steps)} out where you read the log",
    )


def reward_columns_merged(f: Facts) -> Iterator[Finding]:
    """A reward that made the advantages is not in the log."""
    if not _merged(f):
        return
    hidden = int(f.totals["hidden_groups"])
    unread = f" Columns of it that were not read: {some(f.run.left_out)}." if f.run.left_out else ""
    yield Finding(
        "reward-columns-merged",
        "error",
        f"In {count(hidden, 'group')}, responses with equal rewards have different logged advantages: something that "
        f"is not among the rewards read from the log went into them.{unread} Usually two reward functions share a "
        "name, and the log keeps one column for both (a penalty added to the reward looks the same). Give each "
        "function a name of its own; until then no figure of this report covers what is missing.",
        {"hidden_groups": hidden, "groups": int(f.totals["groups"]), "threshold": MERGED},
        settings.own_name(f.run.framework),
    )


def advantages_not_reproduced(f: Facts) -> Iterator[Finding]:
    """Logged advantages that no recipe reproduces, or none in every batch."""
    if f.reproduced is not False:
        return
    logged = int(f.totals["logged"])
    if f.totals["logged_zero"] == logged:
        if f.totals["mixed_groups"]:
            yield Finding(
                "advantages-not-reproduced",
                "error",
                f"The log says 0 for the advantage of every response ({count(logged)}), though the rewards differ in "
                f"{count(f.totals['mixed_groups'], 'group')}: either nothing was trained, or the advantages were not "
                "in place yet when they were logged.",
                {"logged": logged, "logged_zero": logged, "mixed_groups": int(f.totals["mixed_groups"])},
                None,
            )
        return
    if f.recipe is None:
        if f.run.total_only:
            yield Finding(
                "advantages-not-reproduced",
                "info",
                f"The total alone does not make the logged advantages (groups: {f.run.grouped_by}).",
                {"logged": logged, "grouped_by": f.run.grouped_by},
                None,
            )
        # Merged columns make the whole log impossible to reproduce; that finding says so itself.
        elif not _merged(f):
            evaluation = "evaluations wrote into the files of all steps, " if f.run.framework == "trl" else ""
            yield Finding(
                "advantages-not-reproduced",
                "error",
                "No method, convention and weights make the logged advantages from the logged rewards "
                f"(groups: {f.run.grouped_by}). Usual reasons: the groups are different ones (another group size), "
                f"another framework wrote the log (name it), {evaluation}rewards were clipped, shaped or carry a KL "
                "penalty before they were normalised, or a reward is not logged.",
                {"logged": logged, "grouped_by": f.run.grouped_by},
                None,
            )
        return
    bad = f.batches.filter(pl.col("rows_off") > 0)
    if _merged(f) or not len(bad):
        return
    steps, rows = bad["step"].to_list(), int(bad["rows_off"].sum())
    scale, error = off_by_a_factor(bad), real(bad["max_error"].max())
    another = _another(f, bad)
    if another is not None:
        weights = some(f"{name} {number(w)}" for name, w in zip(f.rewards, another.weights, strict=True))
        why = f"There they are {NAMES[another.method]} with weights {weights}: another run wrote them, or this one "
        why += "was changed on the way"
    elif scale >= SCALE_ONLY:
        why = "Most are a multiple of what they should be: the last step ran over another batch than the one in the "
        why += "log, as when an evaluation wrote the file, or several batches went into one"
    else:
        why = "Usual reasons: an evaluation wrote the file, a group lost rows, rewards were clipped, shaped or carry a "
        why += "KL penalty there, or two runs wrote to one place"
    yield Finding(
        "advantages-not-reproduced",
        "error",
        f"{count(rows)} of {count(logged)} logged advantages, at {at_steps(steps)}, are not what "
        f"{NAMES[f.recipe.method]} makes of the logged rewards, though it makes the others (they differ by up to "
        f"{number(error, 2)}). {why}.",
        {
            "rows_off": rows,
            "logged": logged,
            "steps": steps[:_LISTED],
            "max_error": error,
            "groups_off_by_a_factor": scale,
            **({} if another is None else {"method_there": another.method}),
        },
        None,
    )


def method_not_as_asked(f: Facts) -> Iterator[Finding]:
    """The method that ran is not the one asked for."""
    if f.asked is None or f.recipe is None or f.asked == f.recipe.method:
        return
    ran, asked = NAMES[f.recipe.method], NAMES.get(f.asked, f.asked)
    fix, why = None, ""
    if f.asked == "gdpo":
        known = ((f.run.framework, None), (f.run.framework, f.recipe.method))
        why = " ".join(_SILENTLY[key] for key in known if key in _SILENTLY)
        fix = settings.switch_to_gdpo(f.run.framework, f.rewards, f.recipe.weights, f.run.group_size)
    yield Finding(
        "method-not-as-asked",
        "error",
        f"{asked} was asked for, but the logged advantages are those of {ran}. {why}".strip(),
        {"asked": f.asked, "found": f.recipe.method},
        fix,
    )


def weights_not_as_given(f: Facts) -> Iterator[Finding]:
    """The weights that the caller gave are not those that made the logged advantages."""
    if f.recipe is None or not f.given:
        return
    known = [k for k, name in enumerate(f.rewards) if name in f.given and k not in f.recipe.unknown]
    given, made = ([w[k] for k in known] for w in ([f.given.get(name, 1.0) for name in f.rewards], f.recipe.weights))
    if not known:
        return
    # A method that divides by a std removes a common factor of the weights, but for what its eps leaves of it.
    up_to_scale = f.recipe.up_to_scale or f.recipe.method != "grpo_no_std"
    if up_to_scale:
        largest = max(range(len(known)), key=lambda i: abs(made[i]))
        factor = given[largest] / made[largest] if made[largest] else 1.0
        made = [factor * w for w in made]
    if all(isclose(a, b, rel_tol=1e-3, abs_tol=1e-6) for a, b in zip(given, made, strict=True)):
        return
    names = [f.rewards[k] for k in known]
    of_caller, of_log = (some(f"{n} {number(w)}" for n, w in zip(names, ws, strict=True)) for ws in (given, made))
    up_to = ", up to a common factor" if up_to_scale else ""
    yield Finding(
        "weights-not-as-given",
        "warning",
        f"The weights given ({of_caller}) are not those that made the logged advantages ({of_log}{up_to}). The figures "
        "here follow the weights given.",
        {"given": dict(zip(names, given, strict=True)), "logged": dict(zip(names, made, strict=True))},
        settings.set_weights(f.run.framework, f.rewards, f.plan.weights, f.recipe.method),
    )


def _merged(f: Facts) -> bool:
    """Whether a reward that made the advantages is missing, in a log with one column per reward function."""
    if f.reproduced is not False or f.run.framework not in ("trl", "ms_swift") or f.run.total_only:
        return False
    # A missing column is missing in every batch.
    if f.recipe is not None and len(f.batches.filter(pl.col("rows_off") == 0)) > len(f.batches) / 2:
        return False
    groups = f.totals["groups_off"] or f.totals["mixed_groups"]
    return f.totals["hidden_groups"] > MERGED * groups


def _another(f: Facts, bad: pl.DataFrame) -> Recipe | None:
    """One recipe that reproduces all of these batches; None if there is none."""
    few = bad.filter(pl.col("responses").cum_sum() - pl.col("responses") < _SOLVED_FROM)
    recipe = reproduce.solve(list(_tables(f, few)), f.rewards, f.run.framework)
    if recipe is None:
        return None
    compared = (reproduce.compare(table, f.rewards, recipe) for table in _tables(f, bad))
    return None if any(bool((error > allowed).any()) for error, allowed in compared) else recipe


def _tables(f: Facts, batches: pl.DataFrame) -> Iterator[pl.DataFrame]:
    """The responses of these batches."""
    chosen = pl.col("batch").is_in(batches["batch"].to_list())
    return (part for table in f.run.tables() if len(part := table.filter(chosen)))


def without_overwritten(f: Facts) -> Facts:
    """The same run without the batches that an evaluation wrote: they differ by a factor, all others are reproduced."""
    if f.run.framework != "trl" or f.recipe is None or _merged(f):
        return f
    if len(f.recipe.unknown) == len(f.rewards):  # guessed weights may be wrong by a factor themselves
        return f
    good, bad = f.batches.filter(pl.col("rows_off") == 0), f.batches.filter(pl.col("rows_off") > 0)
    if not len(bad) or off_by_a_factor(bad) < SCALE_ONLY or not (good["logged"] > 0).any():
        return f
    return replace(f, batches=good, totals=sums(Summary(f.plan, good)), overwritten=bad)
