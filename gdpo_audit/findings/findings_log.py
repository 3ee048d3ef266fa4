"""Findings about what a log holds: steps, responses, prompts and rewards that are missing from it, or that are not what
they seem to be.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any

import polars as pl

from gdpo_audit.facts.facts import Facts
from gdpo_audit.findings.finding import LISTED, Finding
from gdpo_audit.logs.names import reward_options
from gdpo_audit.phrases import at_steps, does_or_do, is_or_are, some, was_or_were
from gdpo_audit.thresholds import EVERY_NTH, MERGED, MISSING_OF_TOTAL
from gdpo_core import config_lines
from gdpo_core.frameworks import ALL_CONVENTIONS
from gdpo_core.shared.words import count, listing, number, percent


def issues(f: Facts, which: str) -> Iterator[Mapping[str, Any]]:
    """Yield the details of each issue with the id `which` that was noted while the log was read."""
    return (issue.details for issue in f.run.issues if issue.id == which)


# --- steps ------------------------------------------------------------------------------------------------------------


def steps_missing(f: Facts) -> Iterator[Finding]:
    """Yield one finding if the log lacks steps between its first and its last one, as where it holds only every tenth
    step. Yield nothing if the audit itself left out groups (see `Facts.undecided`), since steps may be missing for that
    reason.
    """
    again = {first for first, _ in f.run.window or ()}  # before these, steps were left out on purpose
    pairs = [(a, b) for a, b in pairwise(f.steps) if b not in again]
    gaps = Counter(b - a for a, b in pairs)
    if not gaps or set(gaps) == {1} or f.undecided[0]:
        return
    usual, times = max(gaps.items(), key=lambda gap: gap[1])
    first, last, held = f.steps[0], f.steps[-1], len(f.steps)
    missing, after = sum(b - a - 1 for a, b in pairs), [a for a, b in pairs if b - a > 1]
    title = f"{count(missing, 'step')} {is_or_are(missing)} missing from the log"
    message = (
        f"Steps are missing after {at_steps(after)}: their files were lost, or logged elsewhere. "
        "The figures here lack these steps."
    )
    to_do, fix = "Find the files of the missing steps, or read the figures as those of the other steps.", None
    if usual > 1 and (times >= EVERY_NTH * gaps.total() or first == usual):
        begin = max(first - usual + 1, min(first, 1))
        missing += first - begin
        why = f" With logging_steps={usual}, {f.framework.title} writes only the last of every {usual} batches."
        title, to_do = f"The log holds only every {_nth(usual)} step", "Log every step."
        message = f"The log holds {held} of the {missing + held} steps from {begin} to {last}."
        message += why * f.framework.logs_last_batch
        fix = f.framework.lines.log_every_step
    evidence = {"missing": missing, "after_steps": after[:LISTED]}
    yield Finding(title=title, message=message, to_do=to_do, evidence=evidence, fix=fix)


def steps_repeated(f: Facts) -> Iterator[Finding]:
    """Yield one finding if several batches with different content have the same step number."""
    of_one_step = (f.batches.step == f.batches.step_last) & (f.weights_by_column is None)
    if twice := sorted(step for step, n in Counter(f.batches.step[of_one_step].tolist()).items() if n > 1):
        yield Finding(
            title=f"The log holds {count(len(twice), 'step')} several times, with different content",
            message=f"The copies of {at_steps(twice)} differ: the run was resumed, or two runs wrote to one place, or "
            "an evaluation was logged. The figures here count each copy as a batch of its own.",
            to_do="Check whether the run was resumed, or two runs wrote to one place; audit two runs one by one.",
            evidence={"twice": len(twice), "steps": twice[:LISTED]},
        )


# --- groups and rewards -----------------------------------------------------------------------------------------------


def rewards_collinear(f: Facts) -> Iterator[Finding]:
    """Yield one finding for each reward that follows from other rewards inside every group, as where two columns are
    equal.
    """
    for name, weights in f.relations:
        signed = ((f"{number(w)} × " if abs(w) != 1 else "−" * (w < 0), reward) for reward, w in weights.items())
        terms = [f"{factor}{reward}" for factor, reward in signed]
        sum_of, names = " + ".join(terms).replace("+ −", "− "), [name, *weights]
        yield Finding(
            title=f"{some(names)} say the same" if len(weights) == 1 else f"{name} follows from {some(weights)}",
            message=f"In every group, {name} is {sum_of}, apart from a constant. So the log cannot show what each of "
            f"{some(names)} does, neither its weight nor its share of the update, but only what they do together.",
            to_do=f"Check which of {some(names)} the run used, and name the rewards.",
            evidence={"rewards": names, "relation": f"{name} = {sum_of}", "groups": int(f.totals.groups)},
            extent=1.0,
        )


def groups_mix_prompts(f: Facts) -> Iterator[Finding]:
    """Yield one finding if some groups hold answers to several prompts. Batches that the recipe does not reproduce are
    not looked at.

    Yield nothing if a column says to which group a row belongs: only groups that are blocks of rows may mix prompts.
    Yield nothing for a log that holds only a sample of the responses.
    """
    if f.summary is None or f.run.grouped_by_column or any(issues(f, "groups-sampled")):
        return
    # An evaluation may have written the batches that the recipe does not make, so they say nothing about training.
    trained = f.batches.batch[f.batches.logged.wrong == 0]
    visits = f.summary.visits.filter(pl.col("batch").is_in(trained.tolist()))
    mixed, groups = int(visits["mixed"].sum()), len(visits)
    if not mixed:
        return
    proven = f.reproduced and f.recipe is not None
    shows = (
        f"The logged advantages are reproduced if groups are {f.run.grouped_by}"
        if proven
        else f"Groups are {f.run.grouped_by}"
    )
    yield Finding(
        severity="error" if mixed > MERGED * groups else "warning",
        title=f"{percent(mixed / groups)} of the groups mix prompts",
        message=f"{shows}, and {count(mixed)} of these {count(groups, 'group')} {'holds' if mixed == 1 else 'hold'} "
        "responses to several prompts, so that responses to different prompts are compared with each other. Usually "
        "some responses were dropped before the rewards were cut into groups of one size, or rows were shuffled.",
        to_do="When responses are dropped, drop whole groups; or let the trainer normalise by prompt.",
        evidence={"groups": mixed, "looked_at_groups": groups, "grouped_by": f.run.grouped_by},
        extent=mixed / groups,
    )


def prompts_merged(f: Facts) -> Iterator[Finding]:
    """Yield one finding if several groups of a batch have one prompt, so that the text of a prompt does not tell groups
    apart.

    Yield nothing if responses were grouped by a column and the logged advantages are reproduced in these groups. This
    shows that the trainer grouped them so too.
    """
    for details in issues(f, "prompts-merged"):
        if f.run.grouped_by_column and f.reproduced:
            continue  # such groups are the trainer's own
        groups = details["groups"]
        where = f"{count(groups, 'group')} in {count(details['steps'], 'step')}"
        severity, title, to_do = "info", "The text of a prompt does not tell groups apart", ""
        message = (
            f"Some prompts occur more than once in a batch: {where} {'shares' if groups == 1 else 'share'} a prompt "
        )
        message += "with another group. "
        message += f"This report takes {f.run.grouped_by} as groups, as the trainer does."
        if f.run.grouped_by_column:
            severity, title, to_do = "warning", "Prompts that occur twice became one group", "Log an id for each group."
            message = f"Responses were grouped by {f.run.grouped_by}, and {where} {'holds' if groups == 1 else 'hold'} "
            message += f"several times as many responses as the usual {details['group_size']}: groups with one prompt "
            message += "were read as a single group. The figures of such groups are wrong."
        yield Finding(severity=severity, title=title, message=message, to_do=to_do, evidence=details)


def ragged_batches(f: Facts) -> Iterator[Finding]:
    """Yield one finding if some groups lack responses.

    Where a column tells the groups apart, this shows in groups whose number of rows is no multiple of the usual one.
    Elsewhere it shows in batches whose number of rows is no multiple of the group size. Yield nothing if a column tells
    the groups apart and a recipe reproduces the logged advantages: the trainer itself then had such groups.
    """
    for details in issues(f, "ragged-batches"):
        if f.run.grouped_by_column and f.reproduced:
            continue  # such groups are the trainer's own
        size, step, rows = details["group_size"], details["step"], count(details["rows"], "row")
        says = f"the number of rows is no multiple of the group size {size} (step {step} has {rows})"
        if f.run.grouped_by_column:
            groups, do = count(details["groups"], "group"), does_or_do(details["groups"])
            says = f"{groups} {do} not hold the usual {size} responses (step {step} has a group of {rows})"
        where = f"In {count(details['batches'])} of {count(details['of'], 'batch', 'batches')}"
        yield Finding(
            title="Some groups lack responses",
            message=f"{where}, {says}: rows were lost, or the group size is not {size}.",
            to_do="Look for lost rows, or give the group size.",
            evidence=details,
        )


def groups_sampled(f: Facts) -> Iterator[Finding]:
    """Yield a finding if the log holds only a sample of the responses. Either it holds one response of each group, or
    its groups have the sizes of random draws, or its tables have as many rows as W&B allows, so that W&B probably cut
    them.
    """
    for details in issues(f, "groups-sampled"):
        if "tables" in details:
            yield Finding(
                title="W&B probably cut the table",
                message=f"The log has {count(details['tables'], 'table')} of W&B with "
                f"{count(details['threshold'], 'row')}, the number at which W&B cuts a table: do not trust the last "
                "group of such a table, nor GDPO's batch step there.",
                to_do="Audit the table in the run's artifact, or raise W&B's limit before the next run.",
                evidence=details,
                fix="wandb.Table.MAX_ROWS = 1_000_000",
            )
            continue
        fix = config_lines.log_whole_groups(f.run.framework)
        if "largest" in details:
            alone = f", {count(details['alone'])} of {count(details['groups'])} a single one" * (details["alone"] > 0)
            yield Finding(
                title="The log holds a sample of the responses",
                message=f"Groups hold up to {details['largest']} responses{alone}, in the numbers that are left where "
                "responses are drawn or dropped at random, while a trainer samples about equally many for each "
                "prompt. The shares, the pushes and the silent groups in this report are those of the rows in the "
                "log, and not those of the training.",
                to_do="Log every response; the line below does that." if fix else "Log every response.",
                evidence=details,
                fix=fix,
            )
            continue
        why = (
            " The option log_unique_prompts=True, in older versions wandb_log_unique_prompts=True, leaves one response "
        )
        why += "per prompt in the table."
        yield Finding(
            severity="error",
            title="The log holds one response per group",
            message=f"No two responses of a step have the same prompt.{why if fix else ''} What this report says about "
            "groups does not hold for such a log.",
            to_do="Log every response; the line below does that." if fix else "Log every response.",
            evidence=details,
            fix=fix,
        )


def missing_rewards(f: Facts) -> Iterator[Finding]:
    """Yield one finding if rewards are missing and the convention does not skip missing rewards, so that they make
    advantages NaN.
    """
    convention = ALL_CONVENTIONS[f.basis.convention]
    missing = dict(zip(f.rewards, (f.totals.responses - f.totals.rewards.present).tolist(), strict=True))
    missing = {name: n for name, n in missing.items() if n}
    if not missing or convention.missing != "propagates":
        return
    lacking = some(f"{name} in {count(n)}" for name, n in missing.items())
    severity = "error"
    spreads = f"{convention.name} does not skip them: a single missing reward makes every advantage of its group "
    spreads += "NaN, and under GDPO every advantage of its batch"
    if f.framework.grpo_reads_score_alone and not f.is_gdpo:
        severity = "warning" if f.intended_method is None else "info"
        spreads = (
            f"{f.framework.title}'s GRPO does not read these rewards; under GDPO, a single missing one would make "
        )
        spreads += "every advantage of its batch NaN"
    yield Finding(
        severity=severity,
        title="Some responses lack a reward",
        message=f"Rewards are missing ({lacking} of {count(f.totals.responses, 'response')}). {spreads}. The figures "
        "here leave out such groups and batches.",
        to_do="Let every reward function return a number for every response.",
        evidence={"missing": missing, "responses": int(f.totals.responses)},
    )


def score_not_a_sum(f: Facts) -> Iterator[Finding]:
    """Yield a finding if the log holds a total that is not exactly a weighted sum of the rewards logged beside it,
    since GRPO normalises such a total. Yield nothing where the total turns out to be a reward of its own.
    """
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
            message=f"The {score} is not a weighted sum of {some(details['columns'])} (the nearest such sum is off by "
            f"up to {number(details['error'], 2)}). {normalises}, but what this report says about GRPO holds for a "
            "weighted sum of these columns. GDPO normalises the columns themselves.",
            evidence=details,
        )


def _nearly_a_sum(f: Facts, score: str, details: Mapping[str, Any]) -> Finding:
    """Return the finding that a logged total is a weighted sum of the columns beside it plus something that is in no
    column.

    score: the name of the total.
    details: the details of the issue `score-not-a-sum`. `weights` are the weights by column, and `missing` is the share
        of the total's variance that is in no column.
    """
    missing = details["missing"]
    terms = listing(f"{number(w)} × {name}" for name, w in details["weights"].items())
    follow = "The figures here are computed with these weights. " if f.weights_from == "fitted" else ""
    much = missing > MISSING_OF_TOTAL
    return Finding(
        severity="warning" if much else "info",
        title=f"{percent(missing, 1)} of the {score}’s variance is in no column",
        message=f"The {score} is {'the sum of ' * (len(details['weights']) > 1)}{terms}, apart from something that is "
        f"in no column and accounts for {percent(missing, 1)} of the variance of the {score}. {follow}A clip, a "
        "product or a reward that is not logged leaves such a remainder.",
        to_do=f"Log what else the {score} is made of, in a column of its own." if much else "",
        evidence=details,
    )


def _holds_more(f: Facts, score: str, details: Mapping[str, Any], normalises: str) -> Iterator[Finding]:
    """Yield the finding that a logged total seems to be the sum of the only reward beside it and something that is not
    logged. Yield nothing where the log shows that the two are separate rewards.

    score: the name of the total.
    details: the details of the issue `score-not-a-sum`. `columns` holds the reward, and `explained` is the share of the
        total's variance that the reward explains.
    normalises: the words “GRPO normalises the score”, with the name of the total in place of “score”.
    """
    [reward] = details["columns"]
    known = f.known_weights if f.reproduced else {}
    if known.get(reward):
        return  # the two are rewards of their own
    severity, holds = "warning", f"{score} may be the total of {reward} and something that is not logged"
    name = f"{normalises}, but this report is about {reward}."
    if reward in known:
        severity, holds = "error", f"{score} seems to be the total of {reward} and something that is not logged"
        name = (
            f"The advantages were computed from {score} alone, so this report cannot tell what its parts do, nor what "
            "GDPO would do."
        )
    elif score in f.rewards:
        name = f"This report takes both for rewards; if {score} is a total, name it alone."
    yield Finding(
        severity=severity,
        title=holds,
        message=f"{holds}: {reward} explains {percent(details['explained'])} of the variance of {score}. {name}",
        to_do=f"If {score} is a total, log each of its parts in a column of its own.",
        evidence=details,
    )


def no_components(f: Facts) -> Iterator[Finding]:
    """Yield one finding if the log holds only the total of the rewards, or if only a total was read. Yield one also if
    the one reward that was read may be a total.
    """
    details = next(issues(f, "no-components"), dict[str, Any]())
    if f.run.total_only:
        asks = "If each reward is 0 or 1, say what a pass of each pays, as in --parts correct=1,format=0.5"
        if f.pays:
            named = ",".join(f"{name}={pay:g}" for name, pay in zip("abcde", f.pays, strict=False))
            asks = f"Do the parts of this total pay {listing(map(number, f.pays))}, if passed? Then name the parts: "
            asks += f"--parts {named}"
        why = f.framework.total_only_because or f"{f.framework.title} has to log each reward in a column of its own."
        yield Finding(
            severity="error",
            title="The log holds only the total of the rewards",
            message="The log holds one total per response, not the rewards that it was made of, so this report cannot "
            f"tell what each reward does, nor what GDPO would do. {why}",
            to_do=f"{asks}, or log each reward in a column of its own.",
            evidence={**details, "rewards": list(f.rewards), "pays": f.pays},
            fix=config_lines.log_rewards(f.run.framework),
        )
    elif total := next(issues(f, "total-of-parts"), None):
        names = total["parts"]
        does, them = ("it does, name it", "was") if len(names) == 1 else ("each of them does, name them", "were")
        yield Finding(
            severity="info",
            title=f"{total['total']} was read alone",
            message=f"{total['total']} was read alone; {some(names)} beside it {them} not read. To see what {does}: "
            f"{reward_options(names)}.",
            evidence=total,
        )
    elif details:
        left_out, reward = f.run.left_out, f.rewards[0]
        beside = f"; {some(left_out)} {was_or_were(len(left_out))} not read" if left_out else ""
        yield Finding(
            severity="info",
            title="One reward was read",
            message=f"One reward was read, {reward}{beside}. If {reward} is the total of several rewards, log each of "
            "them in a column of its own.",
            evidence=details,
        )


# --- words ---


def _nth(n: int) -> str:
    """Return the ordinal of a number: a word for 2 and 3, and digits with their ending for the others.

    >>> _nth(2), _nth(3), _nth(10), _nth(21)
    ('second', 'third', '10th', '21st')
    """
    words = {2: "second", 3: "third"}
    ending = "th" if n // 10 % 10 == 1 else {1: "st", 2: "nd", 3: "rd"}.get(n % 10, "th")
    return words.get(n, f"{n}{ending}")
