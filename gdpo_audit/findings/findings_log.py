"""The findings about the log: steps, prompts and rewards it lacks, and advantages that its recipe does not make."""

from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import pairwise
from math import isclose
from typing import Any

import numpy as np
import polars as pl

from gdpo_audit.findings.facts import LISTED, Facts, Finding, scaled_share
from gdpo_audit.findings.impossible import alone_by_nothing, largest_z, last_z
from gdpo_audit.findings.sums import Array, Sums, take
from gdpo_audit.findings.thresholds import EVERY_NTH, MERGED, MISSING_OF_TOTAL, SCALE_ONLY
from gdpo_audit.findings.words import FEW_CHANGES, at_steps, ratio_in_words, some, weights_in_turn, weights_in_words
from gdpo_audit.logs.names import reward_column, reward_columns
from gdpo_audit.logs.parts import possible_pays
from gdpo_audit.recipe.added import Added
from gdpo_core import config_lines
from gdpo_core._words import count, listing, number, percent
from gdpo_core.conventions import NAMES
from gdpo_core.frameworks import ALL_CONVENTIONS


def issues(f: Facts, which: str) -> Iterator[Mapping[str, Any]]:
    """What the reader noted about the issues of one kind."""
    return (issue.details for issue in f.run.issues if issue.id == which)


# --- steps ------------------------------------------------------------------------------------------------------------


def steps_missing(f: Facts) -> Iterator[Finding]:
    """Steps that the log does not hold."""
    gaps = Counter(b - a for a, b in pairwise(f.steps))
    if not gaps or set(gaps) == {1} or f.run.undecided[0]:
        return
    usual, times = max(gaps.items(), key=lambda gap: gap[1])
    first, last, held = f.steps[0], f.steps[-1], len(f.steps)
    missing, after = last - first + 1 - held, [a for a, b in pairwise(f.steps) if b - a > 1]
    title = f"{count(missing, 'step')} {_is(missing)} missing from the log"
    message = f"{title}, after {at_steps(after)}: files were lost, or logged elsewhere. They do not count here."
    to_do, fix = "Find the files of these steps, or read the figures as those of the other steps.", None
    if usual > 1 and (times >= EVERY_NTH * gaps.total() or first == usual):
        begin = max(first - usual + 1, min(first, 1))
        missing = last - begin + 1 - held
        why = f": logging_steps={usual} writes the last batch of each {usual}, and {f.framework.title} drops the others"
        title, to_do = f"The log holds only every {_nth(usual)} step", "Log every step."
        message = f"{title}, {held} of the {missing + held} steps from {begin} to {last}"
        message += f"{why * f.framework.logs_last_batch}."
        fix = f.framework.lines.log_every_step
    evidence = {"missing": missing, "after_steps": after[:LISTED]}
    yield Finding(title=title, message=message, to_do=to_do, evidence=evidence, fix=fix)


def steps_repeated(f: Facts) -> Iterator[Finding]:
    """Step numbers that batches of different content have."""
    of_one_step = f.batches.step == f.batches.step_last
    if twice := sorted(step for step, n in Counter(f.batches.step[of_one_step].tolist()).items() if n > 1):
        yield Finding(
            title="Steps are in the log several times, with different content",
            message=f"The log holds {at_steps(twice)} several times, with different content: the run was resumed, two "
            "runs wrote to one place, or an evaluation was logged. Each counts here as a batch of its own.",
            to_do="Check whether the run was resumed, or two runs wrote to one place; audit each of two alone.",
            evidence={"twice": len(twice), "steps": twice[:LISTED]},
        )


# --- groups and rewards -----------------------------------------------------------------------------------------------


def rewards_collinear(f: Facts) -> Iterator[Finding]:
    """Rewards of which one follows from others, as two equal columns."""
    for name, parts in f.relations:
        terms = [f"{number(w)} × {part}" if abs(w) != 1 else f"{'−' * (w < 0)}{part}" for part, w in parts.items()]
        sum_of, names = " + ".join(terms).replace("+ −", "− "), [name, *parts]
        yield Finding(
            title=f"{some(names)} say the same" if len(parts) == 1 else f"{name} follows from {some(parts)}",
            message=f"In every group {name} is {sum_of}, but for a constant. What {some(names)} do cannot be told "
            "apart: neither their weights nor their shares of the update, only what they do together.",
            to_do=f"Check which of {some(names)} the run used, and name the rewards.",
            evidence={"rewards": names, "relation": f"{name} = {sum_of}", "groups": int(f.totals.groups)},
            extent=1.0,
        )


def groups_mix_prompts(f: Facts) -> Iterator[Finding]:
    """Blocks of rows that were normalised as groups, but hold the answers to several prompts."""
    if f.summary is None or f.run.grouped_by_column or any(issues(f, "groups-sampled")):
        return
    visits = f.summary.visits.filter(pl.col("batch").is_in(f.batches.batch.tolist()))
    mixed, groups = int(visits["mixed"].sum()), len(visits)
    if not mixed:
        return
    proven = f.reproduced and f.recipe is not None
    shows = (
        f"The logged advantages are reproduced in {f.run.grouped_by}" if proven else f"Groups are {f.run.grouped_by}"
    )
    yield Finding(
        severity="error" if mixed > MERGED * groups else "warning",
        title=f"{percent(mixed / groups)} of the groups mix prompts",
        message=f"{shows}, and {count(mixed)} of these {count(groups, 'group')} hold the answers to several prompts: "
        "an answer is compared with answers to another question. Usually responses were dropped before the rewards "
        "were cut into groups of one size, or rows were shuffled.",
        to_do="Drop whole groups, or normalise by the prompt.",
        evidence={"groups": mixed, "looked_at_groups": groups, "grouped_by": f.run.grouped_by},
        extent=mixed / groups,
    )


def prompts_merged(f: Facts) -> Iterator[Finding]:
    """Prompts that occur more than once in a batch."""
    for details in issues(f, "prompts-merged"):
        if f.run.grouped_by_column and f.reproduced:
            continue  # such groups are the trainer's own
        where = f"{count(details['groups'], 'group')} in {count(details['steps'], 'step')}"
        severity, title, to_do = "info", "The text of a prompt does not tell groups apart", ""
        message = f"Some prompts occur more than once in a batch: {where} share theirs with another group. "
        message += f"This report reads {f.run.grouped_by}, as the trainer does."
        if f.run.grouped_by_column:
            severity, title, to_do = "warning", "Prompts that occur twice became one group", "Log an id for each group."
            message = f"Groups are told apart by {f.run.grouped_by}, and {where} hold several times the "
            message += f"{details['group_size']} responses of others: the figures of these groups are wrong."
        yield Finding(severity=severity, title=title, message=message, to_do=to_do, evidence=details)


def ragged_batches(f: Facts) -> Iterator[Finding]:
    """Batches that the group size does not divide."""
    for details in issues(f, "ragged-batches"):
        if f.run.grouped_by_column and f.reproduced:
            continue  # such groups are the trainer's own
        size, step, rows = details["group_size"], details["step"], count(details["rows"], "row")
        says = f"the number of rows is no multiple of the group size {size} (step {step}: {rows})"
        if f.run.grouped_by_column:
            groups = count(details["groups"], "group")
            says = f"{groups} do not hold the usual {size} responses (step {step}: one of {rows})"
        where = f"In {count(details['batches'])} of {count(details['of'], 'batch', 'batches')}"
        yield Finding(
            title="Some groups lack responses",
            message=f"{where}, {says}: rows were lost, or the group size is another one.",
            to_do="Look for lost rows, or give the group size.",
            evidence=details,
        )


def groups_sampled(f: Facts) -> Iterator[Finding]:
    """The log keeps a sample: of every group one response, or of a large batch its first rows."""
    for details in issues(f, "groups-sampled"):
        if "tables" in details:
            yield Finding(
                title="W&B probably cut the table",
                message=f"{count(details['tables'], 'table')} of W&B with {count(details['threshold'], 'row')}, where "
                "it cuts a table: do not trust the last group of the step, nor the batch step.",
                to_do="Audit the table of the artifact, or raise the limit before the run.",
                evidence=details,
                fix="wandb.Table.MAX_ROWS = 1_000_000",
            )
            continue
        fix = config_lines.log_whole_groups(f.run.framework)
        why = " log_unique_prompts=True, in older versions wandb_log_unique_prompts=True, does that to the table."
        yield Finding(
            severity="error",
            title="The log holds one response per group",
            message=f"No two responses of a step share their prompt.{why if fix else ''} What this report says about "
            "groups does not hold.",
            to_do="Log every response; the line below does that." if fix else "Log every response.",
            evidence=details,
            fix=fix,
        )


def missing_rewards(f: Facts) -> Iterator[Finding]:
    """Rewards are missing and the framework does not skip them."""
    convention = ALL_CONVENTIONS[f.setup.convention]
    missing = dict(zip(f.rewards, (f.totals.responses - f.totals.rewards.present).tolist(), strict=True))
    missing = {name: n for name, n in missing.items() if n}
    if not missing or convention.missing != "propagates":
        return
    lacking = some(f"{name} in {count(n)}" for name, n in missing.items())
    severity, spreads = "error", f"and {convention.name} does not skip them: one makes its whole group NaN, under GDPO"
    if f.framework.grpo_reads_score_alone and not f.is_gdpo:
        severity = "warning" if f.intended_method is None else "info"
        spreads = f"which {f.framework.title}'s GRPO does not read: under GDPO one makes"
    yield Finding(
        severity=severity,
        title="Responses without a value of every reward",
        message=f"Rewards are missing ({lacking} of {count(f.totals.responses, 'response')}), {spreads} the whole "
        "batch NaN. Such groups and batches are left out of the figures here.",
        to_do="Return a number for every response.",
        evidence={"missing": missing, "responses": int(f.totals.responses)},
    )


def score_not_a_sum(f: Facts) -> Iterator[Finding]:
    """A logged total, which GRPO normalises, is no weighted sum of the rewards logged beside it."""
    for details in issues(f, "score-not-a-sum"):
        score = details.get("score", "score")
        normalises = f"GRPO normalises the {score}"
        if "explained" in details:
            yield from _holds_more(f, score, details, normalises)
            continue
        if "missing" in details:
            yield _nearly_a_sum(f, score, details)
            continue
        yield Finding(
            severity="info",
            title=f"The {score} is not a weighted sum of the rewards",
            message=f"The {score} is not a weighted sum of {some(details['columns'])} (the nearest one is off by up to "
            f"{number(details['error'], 2)}). {normalises}, and what this report says about GRPO is about a weighted "
            "sum of these columns. GDPO takes the columns themselves.",
            evidence=details,
        )


def _nearly_a_sum(f: Facts, score: str, details: Mapping[str, Any]) -> Finding:
    """Return the finding of a total that is a weighted sum of the columns beside it but for something in no column."""
    missing, parts = details["missing"], listing(f"{number(w)} × {name}" for name, w in details["weights"].items())
    follow = "The figures here follow these weights. " if f.weights_from == "score" else ""
    much = missing > MISSING_OF_TOTAL
    return Finding(
        severity="warning" if much else "info",
        title=f"{percent(missing, 1)} of the {score}’s variance is in no column",
        message=f"The {score} is {parts} but for something that is in no column, which makes {percent(missing, 1)} of "
        f"its variance. {follow}A clip, a product or a reward that is not logged leaves such a rest.",
        to_do=f"Log what else the {score} is made of, in a column of its own." if much else "",
        evidence=details,
    )


def _holds_more(f: Facts, score: str, details: Mapping[str, Any], normalises: str) -> Iterator[Finding]:
    """A logged total that the one reward beside it explains in part."""
    [part] = details["columns"]
    known = f.known_weights if f.reproduced else {}
    if known.get(part):
        return  # the two are rewards of their own
    severity, holds = "warning", f"{score} may hold {part} and something unlogged"
    name = f"{normalises}, and this report is about {part}."
    if part in known:
        severity, holds = "error", f"{score} seems to hold {part} and something unlogged"
        name = f"The advantages are made of {score} alone, so what its parts do and what GDPO would do cannot be told."
    elif score in f.rewards:
        name = f"This report takes the two for two rewards: name {score} alone if it is a total."
    yield Finding(
        severity=severity,
        title=holds,
        message=f"{holds}: {part} explains {percent(details['explained'])} of how {score} differs. {name}",
        to_do=f"Log all that {score} is made of, each in a column of its own, if it is a total.",
        evidence=details,
    )


def held_by_totals(f: Facts) -> list[str]:
    """The rewards that a total beside them seems to hold."""
    return [name for details in issues(f, "score-not-a-sum") if "explained" in details for name in details["columns"]]


def no_components(f: Facts) -> Iterator[Finding]:
    """The log holds only the total of the rewards, or one reward that may be a total."""
    details = next(issues(f, "no-components"), dict[str, Any]())
    if f.run.total_only:
        pays = possible_pays(table[reward_column(f.rewards[0])].to_numpy() for table in f.run.tables())
        asks = "Where rewards are 0 or 1, say what a pass of each pays, as in --parts correct=1,format=0.5"
        if pays:
            named = ",".join(f"{name}={pay:g}" for name, pay in zip("abcde", pays, strict=False))
            asks = f"Do the parts of this total pay {listing(map(number, pays))}? Then name them: --parts {named}"
        why = f.framework.total_only_because or f"{f.framework.title} has to log each reward in a column of its own."
        yield Finding(
            severity="error",
            title="The log holds only the total of the rewards",
            message="The log holds one total per response, not the rewards that it was made of, so it cannot be said "
            f"what each one does, nor what GDPO would do. {why}",
            to_do=f"{asks}, or log each reward in a column of its own.",
            evidence={**details, "rewards": list(f.rewards), "pays": pays},
            fix=config_lines.log_rewards(f.run.framework),
        )
    elif details:
        beside = f", and not {some(f.run.left_out)}" if f.run.left_out else ""
        yield Finding(
            severity="info",
            title="One reward was read",
            message=f"One reward was read, {f.rewards[0]}{beside}. If it is the total of several, log each by itself.",
            evidence=details,
        )


# --- the logged advantages against the recipe -------------------------------------------------------------------------


def eval_overwrote(f: Facts) -> Iterator[Finding]:
    """Steps whose file an evaluation wrote."""
    if not len(f.overwritten_batches.batch) or f.recipe_of_the_rest is not None:
        return
    at, error = at_steps(f.overwritten_batches.step.tolist()), _error(f.overwritten_batches)
    yield Finding(
        title=f"An evaluation overwrote {at}",
        message=f"The logged advantages of {at} alone are not reproduced: they differ by up to {error}, in most groups "
        "only by a factor, as where an evaluation overwrites the file of its step. The figures here leave them out.",
        to_do="Train without evaluations, or leave these steps out where you read the log.",
        evidence=_off(f.overwritten_batches),
        fix=f"{f.framework.lines.no_evaluation}  # or leave {at} out where you read the log",
    )


def _error(batches: Sums[Array]) -> str:
    """By how much logged advantages differ at most, in words."""
    return number(float(batches.logged.max_error.max()), 2)


def _off(batches: Sums[Array]) -> dict[str, object]:
    """The evidence that batches are not reproduced, and whether they are but for a factor."""
    wrong, steps = int(batches.logged.wrong.sum()), batches.step.tolist()[:LISTED]
    return {"steps": steps, "rows_off": wrong, "groups_off_by_a_factor": scaled_share(batches), "threshold": SCALE_ONLY}


def rows_missing(f: Facts) -> Iterator[Finding]:
    """Steps that lack rows which were there when the advantages were computed."""
    short = take(f.batches, f.lack_rows)
    if not len(short.batch) or f.run.undecided[0]:
        return
    at, most = at_steps(short.step.tolist()), int(f.batches.responses[f.batches.logged.wrong == 0].max())
    yield Finding(
        title=f"Rows are missing at {at}",
        message=f"The log holds {count(short.responses.sum(), 'row')} of {at}, and up to {most} of other steps: its "
        f"advantages are those of {NAMES[f.method]} over more rows. The rows that are there count in the figures here.",
        to_do=f"Find the missing rows of {at}, or read the figures as those of the rows that are left.",
        evidence=_off(short),
    )


def reward_columns_merged(f: Facts) -> Iterator[Finding]:
    """A reward that made the advantages is not in the log."""
    if not f.lacks_a_reward:
        return
    hidden = int(f.totals.logged.hidden_groups)
    unread = f" Columns of it that were not read: {some(f.run.left_out)}." if f.run.left_out else ""
    yield Finding(
        severity="error",
        title="A reward that made the advantages is not in the log",
        message=f"In {count(hidden, 'group')}, responses with equal rewards have different logged advantages: "
        f"something that was not read went into them.{unread} Usually two reward functions share a name, and the log "
        "keeps one column for both (a penalty looks the same).",
        to_do="Give each reward function a name of its own.",
        evidence={"hidden_groups": hidden, "groups": int(f.totals.groups), "threshold": MERGED},
        fix=f.framework.lines.own_name,
    )


def advantages_not_reproduced(f: Facts) -> Iterator[Finding]:
    """Logged advantages that no recipe reproduces, or none in every batch."""
    if f.reproduced is not False:
        return
    if f.all_zero:
        if f.totals.mixed_groups:
            yield _all_zero_though_rewards_differ(f)
    # A missing reward makes the whole log impossible to reproduce; `reward_columns_merged` says so.
    elif f.lacks_a_reward:
        return
    elif f.recipe is None:
        yield _nothing_makes_them(f)
    elif f.recipe_of_the_rest is not None:
        yield _some_are_others(f, f.overwritten_batches)
    elif (wrong := (f.batches.logged.wrong > f.batches.logged.impossible) & ~f.lack_rows).any():
        yield _some_are_others(f, take(f.batches, wrong))


def _all_zero_though_rewards_differ(f: Facts) -> Finding:
    mixed = int(f.totals.mixed_groups)
    return Finding(
        severity="error",
        title="Every logged advantage is 0, though the rewards differ",
        message=f"Every logged advantage is 0, though the rewards differ in {count(mixed, 'group')}: nothing was "
        "trained, or they were logged before they were computed.",
        to_do="Check whether anything was trained, and log the advantages after they are computed.",
        evidence={"mixed_groups": mixed},
    )


def _nothing_makes_them(f: Facts) -> Finding:
    pattern, by_itself = None, f.by_themselves
    none = "No method that this report computes makes the logged advantages from the logged rewards"
    severity, title = "error", "Nothing known makes the logged advantages"
    to_do = "Check the group size, the framework, and that each reward is logged as it was used."
    if f.run.total_only:
        severity, title, to_do = "info", "The total does not make the logged advantages", ""
        none, why = "The total alone does not make the logged advantages", ""
    elif f.left_out_reward is not None:
        name, recipe = f.left_out_reward
        weights = weights_in_words(dict(zip([*f.rewards, name], recipe.weights, strict=True)), recipe.up_to_scale)
        severity, title = "warning", f"{name}, which was not read, went into the advantages"
        to_do = f"Name all rewards, {name} among them."
        why = f" With {name} as one more reward they are those of {NAMES[recipe.method]} with weights {weights}."
        pattern = "a column that was not read"
    elif by_itself.weights is not None:
        pattern, why = "never centred", ""
    elif f.added is not None:
        severity, title, why = _says_what_was_added(f, f.added)
        pattern, to_do = "a column that was added", f"Decide whether {f.added.column} is to act on the advantages."
    elif (found := f.pattern) is not None:
        pattern, why = found.pattern, f" {found.says}"
        if found.known:
            severity, to_do = "info", ""
            title = f"The logged advantages are those of no method here, but consistent: {found.pattern}"
        elif found.consistent:
            severity, title = "warning", "Something beside the rewards went into the logged advantages"
            to_do = "Log what was added to the rewards as a column of its own."
    else:
        evaluation = "evaluations wrote into the files of all steps, " * f.framework.evaluation_overwrites
        why = f" Usually the group size or the framework is another, {evaluation}a reward is not logged as used, or "
        why += "advantages were clipped or scaled."
    telling = by_itself.title and f.left_out_reward is None and f.added is None
    if telling and pattern in (None, "never centred", "order", "mostly the rewards", "something is not logged"):
        title, severity = by_itself.title, "warning" if severity == "info" else severity
        to_do = to_do or "Find out what was done to the advantages after, or in place of, the mean of their group."
    if by_itself.weights is not None:
        severity, to_do = "error", "Check what the trainer takes for a group: no group is centred."
    evidence = {"logged": int(f.totals.logged.count), "pattern": pattern}
    shows = "" if f.added is not None else " ".join(by_itself.says)
    message = f"{shows} {none} (groups: {f.run.grouped_by}).{why}".strip()
    return Finding(severity=severity, title=title, message=message, to_do=to_do, evidence=evidence)


def _says_what_was_added(f: Facts, added: Added) -> tuple[str, str, str]:
    """Return the severity, the title and the sentence of advantages to which a column was added."""
    recipe, name, sign = added.recipe, added.column, "less" if added.times < 0 else "and"
    weights = weights_in_words(dict(zip(f.rewards, recipe.weights, strict=True)), recipe.up_to_scale)
    made = f"{NAMES[recipe.method]}{f' with weights {weights}' * (len(f.rewards) > 1)}"
    says = f" They are those of {made} {sign} {number(abs(added.times))} × ({name} − its mean over the batch)."
    return "warning", f"{name} went into the logged advantages, after {NAMES[recipe.method]}", says


def _some_are_others(f: Facts, bad: Sums[Array]) -> Finding:
    """Of a run whose recipe makes the others."""
    other, at, made = f.recipe_of_the_rest, at_steps(bad.step.tolist()), NAMES[f.method]
    logged = int(f.totals.logged.count + f.overwritten_batches.logged.count.sum())
    if other is not None:
        weights = weights_in_words(dict(zip(f.rewards, other.weights, strict=True)), other.up_to_scale)
        why = f"There they are {NAMES[other.method]} with weights {weights}. The figures here leave these steps out"
    elif scaled_share(bad) >= SCALE_ONLY:
        why = "Most are a multiple of what they should be: the last step ran over another batch than the logged one"
    else:
        why = "Usually an evaluation or another run wrote the file, rows were lost, or rewards were clipped or shaped"
    return Finding(
        severity="error",
        title=f"Some logged advantages are not what {made} makes",
        message=f"{count(int(bad.logged.wrong.sum()))} of {count(logged)} logged advantages, at {at}, are not what "
        f"{made} makes of the logged rewards, though it makes the others (they differ by up to "
        f"{_error(bad)}). {why}.",
        to_do=f"Find out what wrote {at}, or leave them out where you read the log.",
        evidence=_off(bad) | {"method_there": other and other.method},
    )


def weights_change(f: Facts) -> Iterator[Finding]:
    """Weights that are others from some step on."""
    if len(f.phases) < 2:
        return
    first, *later = f.phases
    last, steps = later[-1], [phase.step for phase in later]
    when, vectors = f"at {at_steps(steps)}", [ratio_in_words(phase.weights) for phase in f.phases]
    if len(later) > FEW_CHANGES:
        when, vectors = f"{len(later)} times from step {steps[0]} to step {steps[-1]}", [vectors[0], "…", vectors[-1]]
    ratios = " (the log shows ratios alone)" * any(phase.up_to_scale for phase in f.phases)
    follow = "the weights given" if f.given_weights else "the weights that it had"
    yield Finding(
        severity="info",
        title=f"Weights change {when}: {' → '.join(vectors)}",
        message=f"The weights change {when}: {weights_in_turn([phase[:2] for phase in f.phases])}{ratios}. The figures "
        f"here compute each step with {follow}.",
        evidence={"steps": steps[:LISTED], "before": dict(first.weights), "after": dict(last.weights)},
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
        severity="error",
        title=f"The advantages are upside down{since}",
        message=f"The weights that made the logged advantages are below 0{since} ({weights}){unlike}: the response "
        f"with less of {some(names)} gets more. Usually the sign of the advantage is wrong, as in (mean − reward) / "
        "std; where less is meant to be better, give these weights.",
        to_do="Check the sign of the advantages.",
        evidence={"rewards": names, "weights": dict(phase.weights), "step": phase.step},
        extent=1.0,
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
    rows, over = f.examples.rows.partition_by("group", as_dict=True), f.recipe and last_z(f.recipe)
    by_nothing, beyond, sizes = list[str](), list[str](), list[int]()  # sizes: how many z-scores there were
    for group in f.examples.scores.filter(finding="advantage-impossible")["group"]:
        part = rows[group,]
        a, step = part["advantage"].to_numpy(), part["step"][0]
        named = f"{number(a[np.nanargmax(np.abs(a))], 6)} (step {step}, group {group})"
        if alone_by_nothing(part.select(reward_columns(f.rewards)).to_numpy(), a) is not None:
            by_nothing.append(named)
        else:
            beyond.append(named)
            sizes.append(len(part) if over == "group" else int(f.batches.responses[f.batches.step == step].max()))
    of = count(f.totals.logged.count, "logged advantage")
    message = f"{count(many)} of {of} {_is(many)} impossible."
    to_do = f"Find what made the advantage of {some(beyond)}."
    if by_nothing:
        to_do = "Switch leave-one-out off, or use a trainer that divides nothing where the other responses agree."
        message += f" {some(by_nothing)}: the other responses of the group agree in every reward, and leave-one-out "
        message += "divided by the round-off of their std, as in NeMo-RL's issues 1518, 4158 and 4161."
    if beyond and f.recipe is not None and over:
        limit = number(largest_z(float(sizes[0]), ALL_CONVENTIONS[f.recipe.convention].ddof))
        message += f" {some(beyond)}: {NAMES[f.method]} makes z-scores of each {over}, and none of {sizes[0]} is "
        message += f"larger than {limit}, whatever the rewards."
    yield Finding(
        severity="error",
        title=f"{count(many, 'logged advantage')} {_is(many)} impossible",
        message=message,
        to_do=to_do,
        evidence={"impossible": many, "logged": int(f.totals.logged.count)},
        extent=1.0,
    )


def method_not_as_asked(f: Facts) -> Iterator[Finding]:
    """The method that ran is not the intended one."""
    if f.intended_method is None or f.recipe is None or f.intended_method == f.recipe.method:
        return
    asked, ran = NAMES[f.intended_method], NAMES[f.recipe.method]
    fix, why = None, ""
    if f.intended_method == "gdpo":
        why = f.framework.not_gdpo_because
        fix = config_lines.switch_to_gdpo(f.run.framework, *f.functions(f.recipe.weights), f.run.group_size)
    yield Finding(
        severity="error",
        title=f"{asked} was asked for, {ran} ran",
        message=f"{asked} was asked for, but the logged advantages are those of {ran}. {why}".strip(),
        to_do=f"Switch {asked} on.",
        evidence={"asked": f.intended_method, "found": f.recipe.method},
        fix=fix,
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
        title="The weights given are not those that ran",
        message=f"The weights given ({of_caller}) are not those that made the logged advantages ({of_log}{up_to}). The "
        "figures here follow the weights given.",
        to_do="Set the weights that you mean.",
        evidence={"given": dict(zip(names, given, strict=True)), "logged": dict(zip(names, made, strict=True))},
        fix=config_lines.set_weights(f.run.framework, *f.functions(f.setup.weights), f.recipe.method),
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
