"""The findings about the log: steps, prompts and rewards it lacks, and advantages that its recipe does not make."""

from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import compress
from math import isclose
from typing import Any

import numpy as np
import polars as pl

from gdpo_core import config_lines
from gdpo_core._words import count, listing, number, percent
from gdpo_core.conventions import NAMES
from gdpo_core.frameworks import ALL_CONVENTIONS
from gdpo_core.runs.examples import MOST
from gdpo_core.runs.facts import (
    FEW_CHANGES,
    LISTED,
    Facts,
    Finding,
    at_steps,
    ratio_in_words,
    scaled_share,
    some,
    weights_in_turn,
    weights_in_words,
)
from gdpo_core.runs.impossible import alone_by_nothing, largest_z, last_z
from gdpo_core.runs.residual import residual
from gdpo_core.runs.sums import Array, Sums, take
from gdpo_core.runs.thresholds import EVERY_NTH, MERGED, SCALE_ONLY, WEIGHT_MOVED


def _issues(f: Facts, which: str) -> Iterator[Mapping[str, Any]]:
    """What the reader noted about the issues of one kind."""
    return (issue.details for issue in f.run.issues if issue.id == which)


# --- steps ------------------------------------------------------------------------------------------------------------


def steps_missing(f: Facts) -> Iterator[Finding]:
    """Steps that the log does not hold."""
    gaps = Counter(b - a for a, b in zip(f.steps, f.steps[1:], strict=False))
    if not gaps or set(gaps) == {1}:
        return
    usual, times = max(gaps.items(), key=lambda gap: gap[1])
    first, last = f.steps[0], f.steps[-1]
    after = [a for a, b in zip(f.steps, f.steps[1:], strict=False) if b - a > 1]
    missing, fix = last - first + 1 - len(f.steps), None
    numbers = {"missing": missing, "first_step": first, "last_step": last, "after_steps": after[:LISTED]}
    if usual > 1 and (times >= EVERY_NTH * gaps.total() or first == usual):
        begin = max(first - usual + 1, min(first, 1))
        steps = last - begin + 1
        of = f"{steps} steps up to step {last}" if begin <= 1 else f"{steps} steps from {begin} to {last}"
        why = (
            f": {f.framework.title} keeps the last generation batch until it logs, so logging_steps={usual} writes the "
            f"last batch of each {usual} and drops the others"
        )
        because = why if f.framework.logs_last_batch else ""
        title, to_do = f"The log holds only every {_nth(usual)} step", "Log every step."
        message = f"The log holds only every {_nth(usual)} step, {len(f.steps)} of the {of}{because}."
        numbers |= {"missing": steps - len(f.steps), "every": usual}
        fix = config_lines.log_every_step(f.run.framework)
    else:
        title = f"{count(missing, 'step')} {_is(missing)} missing from the log"
        to_do = "Find the files of these steps, or read the figures as those of the other steps."
        message = (
            f"{count(missing, 'step')} {_is(missing)} missing, after {at_steps(after)}: files were lost, or those "
            "steps were logged elsewhere. This report does not cover them."
        )
    yield Finding("warning", message, numbers, fix, title=title, to_do=to_do)


def steps_repeated(f: Facts) -> Iterator[Finding]:
    """Batches that the log holds more than once, and step numbers that batches of different content have."""
    if again := f.repeated_batches.step.tolist():
        why = " num_iterations above 1, or several optimiser steps for each generation batch, does that."
        yield Finding(
            "info",
            f"{count(len(again), 'batch', 'batches')} ({at_steps(again)}) {'repeat' if len(again) > 1 else 'repeats'} "
            f"the rows of the batch before.{why * f.framework.logs_batch_again} This report counts such rows once.",
            {"repeated": len(again), "steps": again[:LISTED]},
            title=f"{count(len(again), 'batch', 'batches')} {_is(len(again))} in the log again",
        )
    of_one_step = f.batches.step == f.batches.step_last
    if twice := sorted(step for step, n in Counter(f.batches.step[of_one_step].tolist()).items() if n > 1):
        yield Finding(
            "warning",
            f"The log holds {at_steps(twice)} several times, with different content: "
            f"{f.framework.steps_twice_because}. This report counts each as a batch of its own.",
            {"twice": len(twice), "steps": twice[:LISTED]},
            title="Steps are in the log several times, with different content",
            to_do="Check whether the run was resumed, or two runs wrote to one place; audit each of two alone.",
        )


def eval_logged(f: Facts) -> Iterator[Finding]:
    """Tables of evaluations in what a tracker keeps."""
    for details in _issues(f, "eval-logged"):
        steps = details["eval_steps"]
        yield Finding(
            "info",
            f"{count(len(steps), 'table')} of {at_steps(steps)} {'comes' if len(steps) == 1 else 'come'} after another "
            f"of the same step and {'holds' if len(steps) == 1 else 'hold'} other prompts, as {f.framework.title} logs "
            "an evaluation. Left out: this report is about training.",
            {"steps": steps[:LISTED], "tables": len(steps)},
            title=f"{count(len(steps), 'table')} of evaluations {_is(len(steps))} left out",
        )


def files_left_out(f: Facts) -> Iterator[Finding]:
    """Files of the log that were not read."""
    for details in _issues(f, "files-left-out"):
        files = details["files"]
        yield Finding(
            "info",
            f"Not read: {some(files)}. This report is about the other files.",
            details,
            title=f"{count(len(files), 'file')} {_is(len(files))} left out",
        )


# --- groups and rewards -----------------------------------------------------------------------------------------------


def rewards_collinear(f: Facts) -> Iterator[Finding]:
    """Rewards of which one follows from others, as two equal columns."""
    for name, parts in f.relations:
        terms = [f"{number(w)} × {part}" if abs(w) != 1 else f"{'−' * (w < 0)}{part}" for part, w in parts.items()]
        sum_of, names = " + ".join(terms).replace("+ −", "− "), [name, *parts]
        yield Finding(
            "warning",
            f"In every group {name} is {sum_of}, but for a constant. What {some(names)} do cannot be told apart: "
            f"neither their weights nor their shares of the update, only what they do together. If {name} is a total "
            f"of others, or a copy, name the rewards without it.",
            {"rewards": names, "relation": f"{name} = {sum_of}", "groups": int(f.totals.groups)},
            extent=1.0,
            title=f"{some(names)} say the same" if len(parts) == 1 else f"{name} follows from {some(parts)}",
            to_do=f"Check which of {some(names)} the run used, and name the rewards.",
        )


def prompts_merged(f: Facts) -> Iterator[Finding]:
    """Prompts that occur more than once in a batch."""
    for details in _issues(f, "prompts-merged"):
        where = f"{count(details['groups'], 'group')} in {count(details['steps'], 'step')}"
        if f.run.grouped_by_column:
            severity = "warning"
            title, to_do = "Prompts that occur twice became one group", "Log an id for each group."
            message = (
                f"Groups are told apart by {f.run.grouped_by}, and {where} hold several times as many responses as the "
                f"others ({details['group_size']}): a prompt that occurred more than once in a batch became one "
                "group. The figures of those groups are wrong. Log an id for each group, or name the column that "
                "holds one."
            )
        else:
            severity = "info"
            title, to_do = "The text of a prompt does not tell groups apart", ""
            message = (
                f"Some prompts occur more than once in a batch ({where} share their prompt with another group), so the "
                f"text of a prompt does not tell groups apart. This report reads {f.run.grouped_by}, as the trainer "
                "does, and is not affected; a script that groups this log by prompt would merge them."
            )
        yield Finding(severity, message, details, title=title, to_do=to_do)


def group_size_changes(f: Facts) -> Iterator[Finding]:
    """Groups that have another size from some step on."""
    for details in _issues(f, "group-size-changes"):
        pairs = list(zip(details["sizes"], details["from_steps"], strict=True))
        later = [f"{size} from step {step} on" for size, step in pairs[1:]]
        yield Finding(
            "info",
            f"The groups hold {pairs[0][0]} responses at first, and {some(later)}. This report follows that.",
            {**details, "steps": details["from_steps"][1 : LISTED + 1]},
            title="The size of the groups changes during the run",
        )


def ragged_batches(f: Facts) -> Iterator[Finding]:
    """Batches that the group size does not divide."""
    for details in _issues(f, "ragged-batches"):
        batches = f"In {count(details['batches'])} of {count(details['of'], 'batch', 'batches')}"
        size, step, rows = details["group_size"], details["step"], count(details["rows"], "row")
        if f.run.grouped_by_column:
            message = (
                f"{batches}, {count(details['groups'], 'group')} do not hold the usual {size} responses (step {step}: "
                f"one of {rows}): rows were lost. The figures take these groups as they are."
            )
        else:
            message = (
                f"{batches}, the number of rows is no multiple of the group size {size} (step {step}: {rows}), so the "
                "last group there is cut: rows were lost, or the group size is another one. In that case give the "
                "group size."
            )
        yield Finding(
            "warning",
            message,
            details,
            title="Some groups lack responses",
            to_do="Look for lost rows, or give the group size.",
        )


def groups_sampled(f: Facts) -> Iterator[Finding]:
    """The log keeps a sample: of every group one response, or of a large batch its first rows."""
    for details in _issues(f, "groups-sampled"):
        if "tables" in details:
            tables, most = details["tables"], count(details["threshold"], "row")
            yield Finding(
                "warning",
                f"{count(tables, 'table')} of W&B {'has' if tables == 1 else 'have'} {most}, which is where W&B cuts a "
                "table: the other rows of the step are probably lost, so the last group and what GDPO's batch step "
                "makes of the batch cannot be trusted there. Audit the table of the artifact, which takes more rows, "
                "or raise the limit before the run.",
                details,
                "wandb.Table.MAX_ROWS = 1_000_000",
                title="W&B probably cut the table",
                to_do="Audit the table of the artifact, or raise the limit before the run.",
            )
            continue
        fix = config_lines.log_whole_groups(f.run.framework)
        why = "log_unique_prompts=True, in older versions wandb_log_unique_prompts=True, does that to the table. "
        yield Finding(
            "error",
            f"No two responses of a step share their prompt (looked at {count(details['rows'], 'row')} of "
            f"{count(details['steps'], 'step')}), so the log holds one response of each group and not the others. "
            f"{why if fix else ''}What this report says about groups does not hold; log every response.",
            details,
            fix,
            title="The log holds one response per group",
            to_do="Log every response; the line below does that." if fix else "Log every response.",
        )


def missing_rewards(f: Facts) -> Iterator[Finding]:
    """Rewards are missing and the framework does not skip them."""
    convention = ALL_CONVENTIONS[f.plan.convention]
    missing = dict(zip(f.rewards, (f.totals.responses - f.totals.rewards.present).tolist(), strict=True))
    missing = {name: n for name, n in missing.items() if n}
    if not missing or convention.missing != "propagates":
        return
    lacking = some(f"{name} in {count(n)}" for name, n in missing.items())
    if f.framework.grpo_reads_score_alone and not f.is_gdpo:
        severity = "warning" if f.intended_method is None else "info"
        spreads = (
            "which harms GDPO alone: there one missing reward makes the advantages of the whole batch NaN, while "
            f"{f.framework.title}'s GRPO reads only score"
        )
    else:
        severity = "error"
        spreads = (
            f"and {convention.name} does not skip them: one missing reward makes the advantages of its whole group "
            "NaN, under GDPO those of the whole batch"
        )
    yield Finding(
        severity,
        f"Rewards are missing ({lacking} of {count(f.totals.responses, 'response')}), {spreads}. Return a number "
        "for every response. Such groups and batches are left out of the figures here.",
        {"missing": missing, "responses": int(f.totals.responses)},
        title="Responses without a value of every reward",
        to_do="Return a number for every response.",
    )


def score_not_a_sum(f: Facts) -> Iterator[Finding]:
    """A logged total, which GRPO normalises, is no weighted sum of the rewards logged beside it."""
    for details in _issues(f, "score-not-a-sum"):
        score = details.get("score", "score")
        grpo = f"{f.framework.title}'s GRPO" if f.framework.grpo_reads_score_alone else "GRPO"
        if "explained" in details:
            yield from _holds_more(f, score, details, grpo)
            continue
        yield Finding(
            "info",
            f"The {score} is not a weighted sum of {some(details['columns'])} (the nearest one differs by up to "
            f"{number(details['error'], 2)}). {grpo} normalises the {score}, so what this report says about "
            f"GRPO holds for the weighted sum of these columns and not for the {score}. GDPO takes the columns "
            "themselves.",
            details,
            title=f"The {score} is not a weighted sum of the rewards",
        )


def _holds_more(f: Facts, score: str, details: Mapping[str, Any], grpo: str) -> Iterator[Finding]:
    """A logged total that the one reward beside it explains in part."""
    [part] = details["columns"]
    known = f.known_weights if f.reproduced else {}
    if known.get(part):
        return  # the two are rewards of their own
    severity, holds = "warning", f"{score} may hold {part} and something unlogged"
    name = f"{grpo} normalises the {score}, and this report is about {part}."
    if part in known:
        severity, holds = "error", f"{score} seems to hold {part} and something unlogged"
        name = f"The advantages are made of {score} alone, so what its parts do and what GDPO would do cannot be told."
    elif score in f.rewards:
        name = f"This report takes the two for two rewards: name {score} alone if it is a total."
    yield Finding(
        severity,
        f"{holds}: {part} explains {percent(details['explained'])} of how {score} differs. {name}",
        details,
        title=holds,
        to_do=f"Log all that {score} is made of, each in a column of its own, if it is a total.",
    )


def held_by_totals(f: Facts) -> list[str]:
    """The rewards that a total beside them seems to hold."""
    return [name for details in _issues(f, "score-not-a-sum") if "explained" in details for name in details["columns"]]


def not_in_score(f: Facts) -> Iterator[Finding]:
    """Columns that a logged total leaves out, and that are taken for no rewards."""
    for details in _issues(f, "not-in-score"):
        columns = details["columns"]
        yield Finding(
            "info",
            f"The {details.get('score', 'score')} is a weighted sum of {some(details['rewards'])} alone, so "
            f"{some(columns)} {_is(len(columns))} not counted as {'a reward' if len(columns) == 1 else 'rewards'} "
            f"here. If {'gdpo_reward_keys names' if f.framework.grpo_reads_score_alone else 'the run used'} more, name "
            "all of them as rewards.",
            details,
            title=f"{some(columns)} {_is(len(columns))} not counted among the rewards",
        )


def no_components(f: Facts) -> Iterator[Finding]:
    """The log holds only the total of the rewards, or one reward that may be a total."""
    details = next(_issues(f, "no-components"), dict[str, Any]())
    if not f.run.total_only:
        if details:
            beside = f", and not {some(f.run.left_out)}" if f.run.left_out else ""
            yield Finding(
                "info",
                f"One reward was read, {f.rewards[0]}{beside}. If it is the total of several, log each in a column of "
                "its own: from a total alone nothing can be said about them.",
                details,
                title="One reward was read",
            )
        return
    why = f.framework.total_only_because or f"{f.framework.title} has to log each reward in a column of its own."
    yield Finding(
        "error",
        "The log holds one total per response, not the rewards that the total was made of, so nothing can be said "
        f"about them: neither what each one does, nor what GDPO would do. {why}",
        {**details, "rewards": list(f.rewards)},
        config_lines.log_rewards(f.run.framework),
        title="The log holds only the total of the rewards",
        to_do="Log each reward in a column of its own.",
    )


# --- the logged advantages against the recipe -------------------------------------------------------------------------


def eval_overwrote(f: Facts) -> Iterator[Finding]:
    """Steps whose file an evaluation wrote."""
    if not len(f.overwritten_batches.batch) or f.recipe_of_the_rest is not None:
        return
    steps, error = f.overwritten_batches.step.tolist(), float(f.overwritten_batches.logged.max_error.max())
    yield Finding(
        "warning",
        f"The logged advantages of {at_steps(steps)} are not reproduced, while those of the other steps are: they "
        f"differ by up to {number(error, 2)}, in most groups only by a factor, and no rows are missing. That is what "
        "an evaluation leaves behind: it overwrites the file of its step, with its own responses beside those of the "
        "training or in their place. These steps are left out of the figures here. Without evaluations the log stays "
        "whole.",
        {
            "steps": steps[:LISTED],
            "rows_off": int(f.overwritten_batches.logged.wrong.sum()),
            "max_error": error,
            "groups_off_by_a_factor": scaled_share(f.overwritten_batches),
            "threshold": SCALE_ONLY,
        },
        f"{config_lines.no_evaluation(f.run.framework)}  # or leave {at_steps(steps)} out where you read the log",
        title=f"An evaluation overwrote {at_steps(steps)}",
        to_do="Train without evaluations, or leave these steps out where you read the log.",
    )


def rows_missing(f: Facts) -> Iterator[Finding]:
    """Steps that lack rows which were there when the advantages were computed."""
    short = take(f.batches, f.lack_rows)
    if not len(short.batch):
        return
    steps, rows = short.step.tolist(), short.responses
    most = int(f.batches.responses[f.batches.logged.wrong == 0].max())
    held = f"{rows.min()}" if rows.min() == rows.max() else f"{rows.min()} to {rows.max()}"
    yield Finding(
        "warning",
        f"{at_steps(steps).capitalize()} {'holds' if len(steps) == 1 else 'hold'} {held} rows, others {most}, and the "
        f"logged advantages there are those of {NAMES[f.method]} but for a factor: they were computed over more rows, "
        "which are missing from the log. They were cut off, or groups were dropped, as a filter does with those "
        "without a signal. The rows that are there count in the figures here.",
        {
            "steps": steps[:LISTED],
            "rows": int(rows.sum()),
            "usual_rows": most,
            "rows_off": int(short.logged.wrong.sum()),
            "groups_off_by_a_factor": scaled_share(short),
            "threshold": SCALE_ONLY,
        },
        title=f"Rows are missing at {at_steps(steps)}",
        to_do=f"Find the missing rows of {at_steps(steps)}, or read the figures as those of the rows that are left.",
    )


def reward_columns_merged(f: Facts) -> Iterator[Finding]:
    """A reward that made the advantages is not in the log."""
    if not f.lacks_a_reward:
        return
    hidden = int(f.totals.logged.hidden_groups)
    unread = f" Columns of it that were not read: {some(f.run.left_out)}." if f.run.left_out else ""
    yield Finding(
        "error",
        f"In {count(hidden, 'group')}, responses with equal rewards have different logged advantages: something that "
        f"is not among the rewards read from the log went into them.{unread} Usually two reward functions share a "
        "name, and the log keeps one column for both (a penalty added to the reward looks the same). Give each "
        "function a name of its own; until then no figure of this report covers what is missing.",
        {"hidden_groups": hidden, "groups": int(f.totals.groups), "threshold": MERGED},
        config_lines.own_name(f.run.framework),
        title="A reward that made the advantages is not in the log",
        to_do="Give each reward function a name of its own.",
    )


def advantages_not_reproduced(f: Facts) -> Iterator[Finding]:
    """Logged advantages that no recipe reproduces, or none in every batch."""
    if f.reproduced is not False:
        return
    if f.all_zero:
        yield from _all_zero_though_rewards_differ(f)
    # A missing reward makes the whole log impossible to reproduce; `reward_columns_merged` says so.
    elif f.lacks_a_reward:
        return
    elif f.recipe is None:
        yield _nothing_makes_them(f)
    elif f.recipe_of_the_rest is not None:
        yield _some_are_others(f, f.overwritten_batches)
    elif (bad := (f.batches.logged.wrong > f.batches.logged.impossible) & ~f.lack_rows).any():
        yield _some_are_others(f, take(f.batches, bad))


def _all_zero_though_rewards_differ(f: Facts) -> Iterator[Finding]:
    logged, mixed = int(f.totals.logged.count), int(f.totals.mixed_groups)
    if mixed:
        yield Finding(
            "error",
            f"The log says 0 for the advantage of every response ({count(logged)}), though the rewards differ in "
            f"{count(mixed, 'group')}: either nothing was trained, or the advantages were not in place yet when they "
            "were logged.",
            {"logged": logged, "logged_zero": logged, "mixed_groups": mixed},
            title="Every logged advantage is 0, though the rewards differ",
            to_do="Check whether anything was trained, and log the advantages after they are computed.",
        )


def _nothing_makes_them(f: Facts) -> Finding:
    numbers = {"logged": int(f.totals.logged.count), "grouped_by": f.run.grouped_by}
    if f.run.total_only:
        severity, title, to_do = "info", "The total does not make the logged advantages", ""
        message = f"The total alone does not make the logged advantages (groups: {f.run.grouped_by})."
    else:
        found = residual(f.sample, f.rewards)
        severity, title = "error", "Nothing known makes the logged advantages"
        to_do = "Check the group size, the framework, and that each reward is logged as it was used."
        evaluation = "evaluations wrote into the files of all steps, " * f.framework.evaluation_overwrites
        why = (
            "The groups may be different ones (another group size), another framework may have written the log (name "
            f"it), {evaluation}or a reward is not logged as it was used."
        )
        if f.left_out_reward is not None:
            name, recipe = f.left_out_reward
            weights = weights_in_words(dict(zip([*f.rewards, name], recipe.weights, strict=True)), recipe.up_to_scale)
            severity, title = "warning", f"{name}, which was not read, went into the advantages"
            to_do = f"Name all rewards, {name} among them."
            why = f"With {name} as one more reward they are those of {NAMES[recipe.method]} with weights {weights}."
            numbers["pattern"] = "a column that was not read"
        elif found is not None:
            numbers["pattern"], why = found.pattern, found.says
            if found.known:
                severity, to_do = "info", ""
                title = f"The logged advantages are those of no method here, but consistent: {found.pattern}"
            elif found.consistent:
                severity, title = "warning", "Something beside the rewards went into the logged advantages"
                to_do = "Log what was added to the rewards as a column of its own."
        message = (
            "No method that this report computes makes the logged advantages from the logged rewards "
            f"(groups: {f.run.grouped_by}). {why}"
        )
    return Finding(severity, message, numbers, title=title, to_do=to_do)


def _some_are_others(f: Facts, bad: Sums[Array]) -> Finding:
    """Of a run whose recipe makes the others."""
    ran, other = f.method, f.recipe_of_the_rest
    steps, wrong = bad.step.tolist(), int(bad.logged.wrong.sum())
    logged = int(f.totals.logged.count + f.overwritten_batches.logged.count.sum())
    scaled, error = scaled_share(bad), float(bad.logged.max_error.max())
    if other is not None:
        weights = weights_in_words(dict(zip(f.rewards, other.weights, strict=True)), other.up_to_scale)
        why = f"There they are {NAMES[other.method]} with weights {weights}: another run wrote them, or this one was "
        why += "changed on the way. The figures here leave these steps out"
    elif scaled >= SCALE_ONLY:
        why = "Most are a multiple of what they should be: the last step ran over another batch than the one in the "
        why += "log, as when an evaluation wrote the file, or several batches went into one"
    else:
        why = "Usual reasons: an evaluation wrote the file, a group lost rows, rewards were clipped, shaped or carry a "
        why += "KL penalty there, or two runs wrote to one place"
    return Finding(
        "error",
        f"{count(wrong)} of {count(logged)} logged advantages, at {at_steps(steps)}, are not what {NAMES[ran]} makes "
        f"of the logged rewards, though it makes the others (they differ by up to {number(error, 2)}). {why}.",
        {
            "rows_off": wrong,
            "logged": logged,
            "steps": steps[:LISTED],
            "max_error": error,
            "groups_off_by_a_factor": scaled,
            **({} if other is None else {"method_there": other.method}),
        },
        title=f"Some logged advantages are not what {NAMES[ran]} makes",
        to_do=f"Find out what wrote {at_steps(steps)}, or leave them out where you read the log.",
    )


def weights_change(f: Facts) -> Iterator[Finding]:
    """Weights that are others from some step on."""
    if len(f.phases) < 2:
        return
    first, *later = f.phases
    last, steps = later[-1], [phase.step for phase in later]
    message = f"The weights are {weights_in_turn([phase[:2] for phase in f.phases])}"
    if len(later) <= FEW_CHANGES:
        when, vectors = f"at {at_steps(steps)}", [ratio_in_words(phase.weights) for phase in f.phases]
    else:
        when = f"{len(later)} times from step {steps[0]} to step {steps[-1]}"
        vectors = [ratio_in_words(first.weights), "…", ratio_in_words(last.weights)]
        known = {name: [w for phase in f.phases if (w := phase.weights[name]) is not None] for name in f.rewards}
        spans = [
            f"{name} from {number(min(had))} to {number(max(had))}"
            for name, had in known.items()
            if had and max(had) - min(had) > WEIGHT_MOVED * max(map(abs, had))
        ]
        message = f"The weights change {when}. {message.removeprefix('The weights are ')}"
        message += f"; in between lie {listing(spans)}" if spans else ""
    if any(phase.up_to_scale for phase in f.phases):
        message += " (the log shows ratios alone)"
    follow = "the weights given" if f.given_weights else "the weights that it had"
    yield Finding(
        "info",
        f"{message}. The logged advantages show that, and the figures here compute each step with {follow}.",
        {
            "steps": steps[:LISTED],
            "changes": len(later),
            "before": dict(first.weights),
            "after": dict(last.weights),
            "weights": [dict(phase.weights) for phase in f.phases[:LISTED]],
        },
        title=f"Weights change {when}: {' → '.join(vectors)}",
    )


def advantages_upside_down(f: Facts) -> Iterator[Finding]:
    """Advantages that are higher where rewards are lower, though nobody asked for that."""
    asked = {**(f.run.weights or {}), **f.given_weights}
    against = [_against(phase.weights, asked) for phase in f.phases]
    first = next((number for number, names in enumerate(against) if names), None)
    if first is None:
        return
    names, phase = against[first], f.phases[first]
    since = f" from step {phase.step} on" if all(against[first:]) else f" in some steps, first at step {phase.step}"
    since = "" if all(against) else since
    weights = some(f"{name} {number(phase.weights[name])}" for name in names)
    unlike = ", though weights above 0 were asked for" if any(name in asked for name in names) else ""
    yield Finding(
        "error",
        f"The weights that made the logged advantages are below 0{since} ({weights}){unlike}: of two responses to a "
        f"prompt, the one with less of {some(names)} gets more, so the run is trained to be worse. Usually the sign "
        "of the advantage is wrong, as in (mean − reward) / std. Where less is meant to be better, give these weights.",
        {"rewards": names, "weights": dict(phase.weights), "step": phase.step},
        extent=1.0,
        title=f"The advantages are upside down{since}",
        to_do="Check the sign of the advantages.",
    )


def _against(weights: Mapping[str, float | None], asked: Mapping[str, float]) -> list[str]:
    """The rewards whose weight is below 0: those of which more was asked for, or all if nobody asked for any of it."""
    below = [name for name, w in weights.items() if w is not None and w < 0]
    if wanted := [name for name in below if asked.get(name, 0) > 0]:
        return wanted
    known = [name for name, w in weights.items() if w]
    penalty = len(known) < min(len(weights), 2)  # alone beside rewards that never differ
    meant = any(asked.get(name, 0) < 0 for name in below)
    return below if below == known and not penalty and not meant else []


def advantage_impossible(f: Facts) -> Iterator[Finding]:
    """Logged advantages that no rewards make, or that leave-one-out divided by nothing."""
    many = int(f.totals.logged.impossible)
    if not many or f.examples is None:
        return
    rows = f.examples.rows.filter(pl.col("batch").is_in(f.batches.batch.tolist()))
    of_group = {number: part for (number,), part in rows.partition_by("group", as_dict=True).items()}
    largest = f.examples.scores.filter(finding="advantage-impossible")["group"].to_list()
    shown = [of_group[number] for number in largest if number in of_group][:MOST]
    numbers, steps = [part["advantage"].to_numpy() for part in shown], [int(part["step"][0]) for part in shown]
    advantages = [float(a[np.nanargmax(np.abs(a))]) for a in numbers]
    pairs = zip(shown, numbers, strict=True)
    by_nothing = [alone_by_nothing(part.select(f.rewards).to_numpy(), a) is not None for part, a in pairs]
    where = [
        f"{number(a, 6)} (step {step}, group {part['group'][0]})"
        for a, step, part in zip(advantages, steps, shown, strict=True)
    ]
    message = [f"{count(many)} of {count(f.totals.logged.count, 'logged advantage')} {_is(many)} impossible."]
    to_do = f"Find what made the advantage of {number(advantages[0])} at step {steps[0]}."
    if any(by_nothing):
        message.append(
            f"{some(compress(where, by_nothing))}: the other responses of the group agree in every reward. Their std "
            "is 0, so that leave-one-out, whose advantages the others have, has nothing to divide by: the advantage "
            "should be its total less the mean of the others'. It was divided by the round-off of the std, as in "
            "NeMo-RL's issues 1518, 4158 and 4161."
        )
        to_do = "Switch leave-one-out off, or use a trainer that divides nothing where the other responses agree."
    beyond = [not by for by in by_nothing]
    if any(beyond) and f.recipe is not None and (over := last_z(f.recipe)):
        first = beyond.index(True)
        n = len(shown[first]) if over == "group" else int(f.batches.responses[f.batches.step == steps[first]].max())
        limit = largest_z(float(n), ALL_CONVENTIONS[f.recipe.convention].ddof)
        message.append(
            f"{some(compress(where, beyond))}: {NAMES[f.method]} makes z-scores of each {over}, and none of {n} is "
            f"beyond ±{number(limit)}, whatever the rewards. It makes the others of the group, so that these were "
            "changed afterwards, or came about in another way."
        )
    if many > len(shown):
        message.append("Named are the largest, at most one a group.")
    yield Finding(
        "error",
        " ".join(message),
        {"impossible": many, "logged": int(f.totals.logged.count), "largest": advantages, "steps": steps},
        extent=1.0,
        title=f"{count(many, 'logged advantage')} {_is(many)} impossible",
        to_do=to_do,
    )


def method_not_as_asked(f: Facts) -> Iterator[Finding]:
    """The method that ran is not the intended one."""
    if f.intended_method is None or f.recipe is None or f.intended_method == f.recipe.method:
        return
    fix, why = None, ""
    if f.intended_method == "gdpo":
        reasons = f.framework.not_gdpo_because
        why = " ".join(reasons[method] for method in (None, f.recipe.method) if method in reasons)
        fix = config_lines.switch_to_gdpo(f.run.framework, *f.functions(f.recipe.weights), f.run.group_size)
    yield Finding(
        "error",
        f"{NAMES[f.intended_method]} was asked for, but the logged advantages are those of {NAMES[f.recipe.method]}. "
        f"{why}".strip(),
        {"asked": f.intended_method, "found": f.recipe.method},
        fix,
        title=f"{NAMES[f.intended_method]} was asked for, {NAMES[f.recipe.method]} ran",
        to_do=f"Switch {NAMES[f.intended_method]} on.",
    )


def weights_not_as_given(f: Facts) -> Iterator[Finding]:
    """The weights that the caller gave are not those that made the logged advantages."""
    if f.recipe is None:
        return
    known = [k for k, name in enumerate(f.rewards) if name in f.given_weights and k not in f.recipe.unknown]
    if not known:
        return
    names = [f.rewards[k] for k in known]
    given, made = [f.given_weights[name] for name in names], [f.recipe.weights[k] for k in known]
    # A method that divides by a std removes a common factor of the weights, but for what its eps leaves of it.
    up_to_scale = f.recipe.up_to_scale or f.recipe.method != "grpo_no_std"
    if up_to_scale:
        largest = max(range(len(known)), key=lambda i: abs(made[i]))
        factor = given[largest] / made[largest] if made[largest] and given[largest] else 1.0
        made = [factor * w for w in made]
    if all(isclose(a, b, rel_tol=1e-3, abs_tol=1e-6) for a, b in zip(given, made, strict=True)):
        return
    of_caller, of_log = (some(f"{n} {number(w)}" for n, w in zip(names, ws, strict=True)) for ws in (given, made))
    up_to = ", up to a common factor" if up_to_scale else ""
    yield Finding(
        "warning",
        f"The weights given ({of_caller}) are not those that made the logged advantages ({of_log}{up_to}). The figures "
        "here follow the weights given.",
        {"given": dict(zip(names, given, strict=True)), "logged": dict(zip(names, made, strict=True))},
        config_lines.set_weights(f.run.framework, *f.functions(f.plan.weights), f.recipe.method),
        title="The weights given are not those that ran",
        to_do="Set the weights that you mean.",
    )


# --- words ------------------------------------------------------------------------------------------------------------


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
