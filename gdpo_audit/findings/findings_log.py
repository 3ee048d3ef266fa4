"""Findings about what a log holds: steps, prompts and rewards that are missing from it, or that are not what they seem
to be.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any

import polars as pl

from gdpo_audit.findings.facts import Facts
from gdpo_audit.findings.finding import LISTED, Finding
from gdpo_audit.findings.thresholds import EVERY_NTH, MERGED, MISSING_OF_TOTAL
from gdpo_audit.findings.words import at_steps, is_or_are, some
from gdpo_audit.logs.names import reward_options
from gdpo_core import config_lines
from gdpo_core._words import count, listing, number, percent
from gdpo_core.frameworks import ALL_CONVENTIONS


def issues(f: Facts, which: str) -> Iterator[Mapping[str, Any]]:
    """Yield the details of each issue with the id `which` that was noted while the log was read."""
    return (issue.details for issue in f.run.issues if issue.id == which)


# --- steps ------------------------------------------------------------------------------------------------------------


def steps_missing(f: Facts) -> Iterator[Finding]:
    """Yield one finding if the log lacks steps between its first and its last one."""
    gaps = Counter(b - a for a, b in pairwise(f.steps))
    if not gaps or set(gaps) == {1} or f.undecided[0]:
        return
    usual, times = max(gaps.items(), key=lambda gap: gap[1])
    first, last, held = f.steps[0], f.steps[-1], len(f.steps)
    missing, after = last - first + 1 - held, [a for a, b in pairwise(f.steps) if b - a > 1]
    title = f"{count(missing, 'step')} {is_or_are(missing)} missing from the log"
    message = f"{title}, after {at_steps(after)}: files were lost, or logged elsewhere. They do not count here."
    to_do, fix = "Find the files of these steps, or read the figures as those of the other steps.", None
    if usual > 1 and (times >= EVERY_NTH * gaps.total() or first == usual):
        begin = max(first - usual + 1, min(first, 1))
        missing = last - begin + 1 - held
        why = f": with logging_steps={usual}, {f.framework.title} writes only the last of every {usual} batches"
        title, to_do = f"The log holds only every {_nth(usual)} step", "Log every step."
        message = f"{title}, {held} of the {missing + held} steps from {begin} to {last}"
        message += f"{why * f.framework.logs_last_batch}."
        fix = f.framework.lines.log_every_step
    evidence = {"missing": missing, "after_steps": after[:LISTED]}
    yield Finding(title=title, message=message, to_do=to_do, evidence=evidence, fix=fix)


def steps_repeated(f: Facts) -> Iterator[Finding]:
    """Yield one finding if several batches with different content have the same number of a step."""
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
    """Yield one finding for each reward that follows from other rewards inside every group, as where two columns are
    equal.
    """
    for name, weights in f.relations:
        signed = ((f"{number(w)} × " if abs(w) != 1 else "−" * (w < 0), reward) for reward, w in weights.items())
        terms = [f"{factor}{reward}" for factor, reward in signed]
        sum_of, names = " + ".join(terms).replace("+ −", "− "), [name, *weights]
        yield Finding(
            title=f"{some(names)} say the same" if len(weights) == 1 else f"{name} follows from {some(weights)}",
            message=f"In every group {name} is {sum_of}, but for a constant. What {some(names)} do cannot be told "
            "apart: neither their weights nor their shares of the update, only what they do together.",
            to_do=f"Check which of {some(names)} the run used, and name the rewards.",
            evidence={"rewards": names, "relation": f"{name} = {sum_of}", "groups": int(f.totals.groups)},
            extent=1.0,
        )


def groups_mix_prompts(f: Facts) -> Iterator[Finding]:
    """Yield one finding if groups that are blocks of rows hold the answers to several prompts."""
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
    """Yield one finding if a prompt occurs more than once in a batch, so that its text does not tell groups apart; none
    if the advantages show that the trainer grouped by the prompt too.
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
        message += f"This report reads {f.run.grouped_by}, as the trainer does."
        if f.run.grouped_by_column:
            severity, title, to_do = "warning", "Prompts that occur twice became one group", "Log an id for each group."
            message = f"Groups are told apart by {f.run.grouped_by}, and {where} {'holds' if groups == 1 else 'hold'} "
            message += f"several times the {details['group_size']} responses of the others. The figures of such groups "
            message += "are wrong."
        yield Finding(severity=severity, title=title, message=message, to_do=to_do, evidence=details)


def ragged_batches(f: Facts) -> Iterator[Finding]:
    """Yield one finding if batches hold a number of rows that is no multiple of the group size, or, where a column
    tells the groups apart, if some groups are smaller than the others; none if the advantages show that the trainer had
    such groups.
    """
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
    """Yield a finding if the log is only a sample of the responses: one response of each group, or the first rows of a
    large batch.
    """
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
    spreads = f"and {convention.name} does not skip them: one of them makes its whole group NaN, and under GDPO"
    if f.framework.grpo_reads_score_alone and not f.is_gdpo:
        severity = "warning" if f.intended_method is None else "info"
        spreads = f"which {f.framework.title}'s GRPO does not read: under GDPO one of them makes"
    yield Finding(
        severity=severity,
        title="Some responses lack a reward",
        message=f"Rewards are missing ({lacking} of {count(f.totals.responses, 'response')}), {spreads} the whole "
        "batch NaN. Such groups and batches are left out of the figures here.",
        to_do="Return a number for every response.",
        evidence={"missing": missing, "responses": int(f.totals.responses)},
    )


def score_not_a_sum(f: Facts) -> Iterator[Finding]:
    """Yield a finding if the log holds a total, which GRPO normalises, that is not a weighted sum of the rewards logged
    beside it.
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
            message=f"The {score} is not a weighted sum of {some(details['columns'])} (the nearest one is off by up to "
            f"{number(details['error'], 2)}). {normalises}, and what this report says about GRPO is about a weighted "
            "sum of these columns. GDPO takes the columns themselves.",
            evidence=details,
        )


def _nearly_a_sum(f: Facts, score: str, details: Mapping[str, Any]) -> Finding:
    """Return the finding that a logged total is a weighted sum of the columns beside it plus something that is in no
    column. score: the name of the total; details: those of the issue, with the weights and with the missing part.
    """
    missing = details["missing"]
    terms = listing(f"{number(w)} × {name}" for name, w in details["weights"].items())
    follow = "The figures here follow these weights. " if f.weights_from == "fitted" else ""
    much = missing > MISSING_OF_TOTAL
    return Finding(
        severity="warning" if much else "info",
        title=f"{percent(missing, 1)} of the {score}’s variance is in no column",
        message=f"The {score} is {terms} but for something that is in no column, which makes {percent(missing, 1)} of "
        f"its variance. {follow}A clip, a product or a reward that is not logged leaves such a rest.",
        to_do=f"Log what else the {score} is made of, in a column of its own." if much else "",
        evidence=details,
    )


def _holds_more(f: Facts, score: str, details: Mapping[str, Any], normalises: str) -> Iterator[Finding]:
    """Yield the finding that a logged total seems to contain the only reward beside it, and something more that is not
    logged; nothing where the log shows that the two are separate rewards.

    score: the name of the total; details: those of the issue; normalises: words that say what GRPO normalises.
    """
    [reward] = details["columns"]
    known = f.known_weights if f.reproduced else {}
    if known.get(reward):
        return  # the two are rewards of their own
    severity, holds = "warning", f"{score} may hold {reward} and something unlogged"
    name = f"{normalises}, and this report is about {reward}."
    if reward in known:
        severity, holds = "error", f"{score} seems to hold {reward} and something unlogged"
        name = f"The advantages are made of {score} alone, so what its parts do and what GDPO would do cannot be told."
    elif score in f.rewards:
        name = f"This report takes the two for two rewards: name {score} alone if it is a total."
    yield Finding(
        severity=severity,
        title=holds,
        message=f"{holds}: {reward} explains {percent(details['explained'])} of how {score} differs. {name}",
        to_do=f"Log all that {score} is made of, each in a column of its own, if it is a total.",
        evidence=details,
    )


def held_by_totals(f: Facts) -> list[str]:
    """Return the names of the rewards that seem to be contained in a total that stands beside them in the log."""
    return [name for details in issues(f, "score-not-a-sum") if "explained" in details for name in details["columns"]]


def no_components(f: Facts) -> Iterator[Finding]:
    """Yield one finding if the log holds only the total of the rewards, if only a total was read, or if the one reward
    that was read may be a total.
    """
    details = next(issues(f, "no-components"), dict[str, Any]())
    if f.run.total_only:
        asks = "Where rewards are 0 or 1, say what a pass of each pays, as in --parts correct=1,format=0.5"
        if f.pays:
            named = ",".join(f"{name}={pay:g}" for name, pay in zip("abcde", f.pays, strict=False))
            asks = f"Do the parts of this total pay {listing(map(number, f.pays))}? Then name them: --parts {named}"
        why = f.framework.total_only_because or f"{f.framework.title} has to log each reward in a column of its own."
        yield Finding(
            severity="error",
            title="The log holds only the total of the rewards",
            message="The log holds one total per response, not the rewards that it was made of, so it cannot be said "
            f"what each one does, nor what GDPO would do. {why}",
            to_do=f"{asks}, or log each reward in a column of its own.",
            evidence={**details, "rewards": list(f.rewards), "pays": f.pays},
            fix=config_lines.log_rewards(f.run.framework),
        )
    elif total := next(issues(f, "total-of-parts"), None):
        yield Finding(
            severity="info",
            title=f"{total['total']} was read alone",
            message=f"{total['total']} was read alone, and {some(total['parts'])} beside it were not. What each of "
            f"these does shows where they are named: {reward_options(total['parts'])}.",
            evidence=total,
        )
    elif details:
        beside = f", and not {some(f.run.left_out)}" if f.run.left_out else ""
        yield Finding(
            severity="info",
            title="One reward was read",
            message=f"One reward was read, {f.rewards[0]}{beside}. If it is the total of several, log each by itself.",
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
