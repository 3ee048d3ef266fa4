"""Findings about logged advantages: the recipe does not make some of them, no rewards can make some, their sign is
wrong, or another method was asked for.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from gdpo_audit.facts.facts import Facts
from gdpo_audit.findings.finding import LISTED, Finding
from gdpo_audit.logs.names import reward_columns
from gdpo_audit.phrases import at_steps, is_or_are, leaving_out, some, was_or_were, weights_in_words
from gdpo_audit.recipe.recipe import Recipe
from gdpo_audit.sums.impossible import alone_by_nothing, largest_z, last_z
from gdpo_audit.sums.sums import Array, Sums, scaled_share, select_batches
from gdpo_audit.sums.wanted import upside_down
from gdpo_audit.thresholds import MERGED, SCALE_ONLY
from gdpo_audit.unexplained.added import Added
from gdpo_core import config_lines
from gdpo_core.conventions import NAMES
from gdpo_core.frameworks import ALL_CONVENTIONS
from gdpo_core.shared.words import count, number


def eval_overwrote(f: Facts) -> Iterator[Finding]:
    """Yield one finding if evaluations overwrote the files of some steps, so that the log holds the advantages of the
    evaluations there, or if these steps hold rows of an evaluation beside their own. Nothing is yielded if another
    recipe than the run's makes all advantages of these steps.
    """
    if not len(f.overwritten_batches.batch) or f.recipe_of_the_rest is not None:
        return
    steps = f.overwritten_batches.step.tolist()
    at, error = at_steps(steps), _error(f.overwritten_batches)
    how = f"they are off by up to {error}, in most groups only by a factor"
    if f.size_of_evaluations is not None:
        how = f"they are those of groups of {f.size_of_evaluations}"
        how += f", not of {f.run.group_size}" if f.size_of_evaluations != f.run.group_size else " in smaller batches"
    usual, fewest = int(f.batches.responses.max(initial=0)), int(f.overwritten_batches.responses.min())
    title, happens = f"An evaluation overwrote {at}", "an evaluation overwrites the file of its step"
    if fewest > usual:  # nothing is missing there
        title = f"Rows of an evaluation stand beside those of {at}"
        happens = f"rows of an evaluation stand in the file of a step, for there are {fewest} or more, and {usual} or "
        happens += "fewer in every other step"
    yield Finding(
        title=title,
        message=f"Of all logged advantages, only those of {at} are not reproduced: {how}, as happens where {happens}. "
        f"The figures here leave {at} out.",
        to_do=f"Train without evaluations, or leave {at} out of the audit ({leaving_out(steps)}).",
        evidence=_off(f.overwritten_batches),
        fix=f"{f.framework.lines.no_evaluation}  # or leave {at} out: gdpo audit … {leaving_out(steps)}",
    )


def _error(batches: Sums[Array]) -> str:
    """Return the largest distance of a logged advantage of these batches from what the recipe makes, in digits for a
    sentence.
    """
    return number(float(batches.logged.max_error.max()), 2)


def _off(batches: Sums[Array]) -> dict[str, object]:
    """Return the evidence of a finding about batches that are not reproduced, by name:
    - "steps": the first `LISTED` of their steps.
    - "rows_off": the number of their rows whose advantage is not reproduced.
    - "groups_off_by_a_factor": of the groups with such rows, the share whose logged advantages are the computed ones
      times one positive factor.
    - "threshold": the threshold of that share.
    """
    wrong, steps = int(batches.logged.wrong.sum()), batches.step.tolist()[:LISTED]
    return {"steps": steps, "rows_off": wrong, "groups_off_by_a_factor": scaled_share(batches), "threshold": SCALE_ONLY}


def rows_missing(f: Facts) -> Iterator[Finding]:
    """Yield one finding if the log lacks rows of some steps that were there when the advantages were computed. Yield
    nothing if the audit itself left out groups (see `Facts.undecided`), since rows may be missing for that reason.
    """
    short = select_batches(f.batches, f.lack_rows)
    if not len(short.batch) or f.undecided[0]:
        return
    at, most = at_steps(short.step.tolist()), int(f.batches.responses[f.batches.logged.wrong == 0].max())
    yield Finding(
        title=f"Rows are missing at {at}",
        message=f"The log holds only {count(short.responses.sum(), 'row')} of {at}, though up to {most} of each other "
        f"step; the advantages logged at {at} are what {NAMES[f.method]} makes of more rows. The figures here count "
        "the rows that the log holds.",
        to_do=f"Find the missing rows of {at}, or read the figures as those of the rows that are left.",
        evidence=_off(short),
    )


def reward_columns_merged(f: Facts) -> Iterator[Finding]:
    """Yield one finding if a reward that went into the advantages is not in the log, as where two reward functions
    share a name and so one column.
    """
    if not f.lacks_a_reward:
        return
    hidden = int(f.totals.logged.hidden_groups)
    left_out = f.run.left_out
    unread = f" Of its columns, {some(left_out)} {was_or_were(len(left_out))} not read." if left_out else ""
    yield Finding(
        severity="error",
        title="A reward that made the advantages is not in the log",
        message=f"In {count(hidden, 'group')} of the log, responses with equal rewards have different advantages: "
        f"something that was not read went into the advantages.{unread} Usually two reward functions share a name, and "
        "the log keeps one column for both; a penalty that is not logged looks the same.",
        to_do="Give each reward function a name of its own.",
        evidence={"hidden_groups": hidden, "groups": int(f.totals.groups), "threshold": MERGED},
        fix=f.framework.lines.own_name,
    )


def advantages_not_reproduced(f: Facts) -> Iterator[Finding]:
    """Yield one finding if no recipe reproduces the logged advantages, or if the recipe fails in some of the batches.

    Yield nothing if all advantages are 0 and the rewards of no group differ. If not all are 0, yield nothing where a
    reward is missing from the log. Batches that another finding explains do not count. Such batches lack rows, were
    overwritten by an evaluation, or are wrong only in advantages that no rewards can make.
    """
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
        yield _some_are_others(f, select_batches(f.batches, wrong))


def _all_zero_though_rewards_differ(f: Facts) -> Finding:
    """Return the finding that every logged advantage is 0 although the rewards differ."""
    mixed = int(f.totals.mixed_groups)
    return Finding(
        severity="error",
        title="Every logged advantage is 0, though the rewards differ",
        message=f"The rewards differ in {count(mixed, 'group')}, where a method gives some response an advantage other "
        "than 0 unless the weighted rewards cancel out.",
        to_do="Find out why every logged advantage is 0: either nothing was trained, or the advantages were logged "
        "before they were computed.",
        evidence={"mixed_groups": mixed},
    )


def _nothing_makes_them(f: Facts) -> Finding:
    """Return the finding that no method makes the logged advantages. It adds what else is known of them, such as a
    column that went into them, or a pattern in them.
    """
    pattern, by_itself = None, f.by_themselves
    none = "No method that this report computes makes the logged advantages from the logged rewards"
    severity, title = "error", "No known method makes the logged advantages"
    to_do = "Check the group size, the framework, and that each reward is logged as it was used."
    if f.run.total_only:
        severity, title, to_do = "info", "No known method makes the logged advantages from the total", ""
        none, why = "No method that this report computes makes the logged advantages from the logged total alone", ""
    elif f.left_out_reward is not None:
        severity, title, why = _says_what_was_not_read(f, *f.left_out_reward)
        pattern, to_do = "a column that was not read", f"Name all rewards, {f.left_out_reward[0]} among them."
    elif by_itself.weights is not None:
        pattern, why = "never centred", ""
    elif f.added is not None:
        severity, title, why = _says_what_was_added(f, f.added)
        pattern, to_do = "a column that was added", f"Decide whether {f.added.column} is to act on the advantages."
    elif (residual := f.pattern) is not None:
        pattern, why = residual.pattern, f" {residual.says}"
        if residual.known:
            severity, to_do = "info", ""
            title = f"No method here makes the logged advantages, but they follow a pattern: {residual.pattern}"
        elif residual.consistent:
            severity, title = "warning", "Something beside the rewards went into the logged advantages"
            to_do = "Log what was added to the rewards as a column of its own."
    else:
        evaluation = "evaluations wrote into the files of all steps, " * f.framework.evaluation_overwrites
        why = f" Usually the group size or the framework is not the one assumed here, {evaluation}a reward was not "
        why += "logged as it was used, or the advantages were clipped or scaled."
    telling = by_itself.title and f.left_out_reward is None and f.added is None
    if telling and pattern in (None, "never centred", "order", "mostly the rewards", "something is not logged"):
        title, severity = by_itself.title, "warning" if severity == "info" else severity
        # Ranks and clipping, which leave the order alone, also centre the advantages: they explain nothing here.
        why = why.partition(": ranks")[0] + "." * (pattern == "order")
        to_do = to_do or "Find out what was done to the advantages after their group's mean was subtracted, or instead."
    if by_itself.weights is not None:
        severity, to_do = "error", "Check what the trainer takes for a group: no group's mean was subtracted."
    evidence = {"logged": int(f.totals.logged.count), "pattern": pattern}
    shows = "" if f.added is not None else " ".join(by_itself.says)
    message = f"{shows} {none} (grouped by {f.run.grouped_by}).{why}".strip()
    return Finding(severity=severity, title=title, message=message, to_do=to_do, evidence=evidence)


def _says_what_was_not_read(f: Facts, name: str, recipe: Recipe) -> tuple[str, str, str]:
    """Return the severity, the title and a sentence about a column that was not read as a reward although it went into
    the advantages.

    f: the facts of the run.
    name: the name of the column.
    recipe: the recipe that makes the advantages once the column is added as the last reward.
    """
    weights = weights_in_words(dict(zip([*f.rewards, name], recipe.weights, strict=True)), recipe.up_to_scale)
    says = f" With {name} as one more reward, the logged advantages are those of {NAMES[recipe.method]} with weights "
    says += f"{weights}."
    return "warning", f"{name}, which was not read, went into the advantages", says


def _says_what_was_added(f: Facts, added: Added) -> tuple[str, str, str]:
    """Return the severity, the title and a sentence about a column of which a multiple was added to the advantages.

    f: the facts of the run.
    added: the column, the factor, and the recipe that made the advantages before.
    """
    recipe, name, sign = added.recipe, added.column, "less" if added.times < 0 else "plus"
    weights = weights_in_words(dict(zip(f.rewards, recipe.weights, strict=True)), recipe.up_to_scale)
    made = f"{NAMES[recipe.method]}{f' with weights {weights}' * (len(f.rewards) > 1)}"
    what = f"({name} − its mean over the {added.over})" if added.over else name
    says = f" The logged advantages are those of {made} {sign} {number(abs(added.times))} × {what}."
    return "warning", f"A multiple of {name} was added to the advantages of {NAMES[recipe.method]}", says


def _some_are_others(f: Facts, bad: Sums[Array]) -> Finding:
    """Return the finding that the recipe makes all logged advantages but some, which are in the batches `bad`."""
    recipe_there, at, made = f.recipe_of_the_rest, at_steps(bad.step.tolist()), NAMES[f.method]
    logged = int(f.totals.logged.count + f.overwritten_batches.logged.count.sum())
    to_do = f"Find out what wrote {at}, or leave {at} out of the audit ({leaving_out(bad.step.tolist())})."
    if recipe_there is not None:
        weights = weights_in_words(dict(zip(f.rewards, recipe_there.weights, strict=True)), recipe_there.up_to_scale)
        why = f"There, the logged advantages are {NAMES[recipe_there.method]} with weights {weights}. "
        why += f"The figures here leave {at} out"
        to_do = f"Find out why {at} ran with {NAMES[recipe_there.method]} and weights {weights}. The figures here are "
        to_do += "those of the other steps."
    elif (cut := _cut_batches(f, bad)) is not None:
        why = f"The log holds {count(cut['rows'], 'row')} of {at_steps([cut['step']])}, which are no whole groups of "
        why += f"{cut['group_size']}: rows are missing, as where a run ended while it wrote"
        to_do = f"Leave {at} out of the audit ({leaving_out(bad.step.tolist())}), as rows of it are missing."
    elif scaled_share(bad) >= SCALE_ONLY:
        why = (
            "In most of these groups, all advantages are off by one factor: the batch step ran over another batch than "
        )
        why += "the logged one"
    else:
        why = "Usually an evaluation or another run wrote the file, rows were lost, or rewards were clipped or shaped"
    wrong = int(bad.logged.wrong.sum())
    return Finding(
        severity="error",
        title=f"Some logged advantages are not what {made} makes",
        message=f"{count(wrong)} of {count(logged)} logged advantages, at {at}, {is_or_are(wrong)} not what {made} "
        f"makes of the logged rewards (off by up to {_error(bad)}), though {made} makes all others. {why}.",
        to_do=to_do,
        evidence=_off(bad) | {"method_there": recipe_there and recipe_there.method},
    )


def _cut_batches(f: Facts, bad: Sums[Array]) -> Mapping[str, Any] | None:
    """Return the details of the issue that a batch holds no whole groups, if that is the only batch in `bad`."""
    issues = [issue.details for issue in f.run.issues if issue.id == "ragged-batches"]
    steps = bad.step.tolist()
    return next((cut for cut in issues if steps == [cut["step"]]), None)


def advantages_upside_down(f: Facts) -> Iterator[Finding]:
    """Yield one finding if the advantages show weights below 0, so that a lower reward is rewarded.

    Weights below 0 that were asked for, or that may be meant, such as that of a penalty, do not count (see
    `upside_down`).
    """
    asked = {**(f.run.weights or {}), **f.given_weights}
    against = [upside_down(phase.weights, asked) for phase in f.phases]
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
        f"that scores lower on {some(names)} gets the larger advantage. Usually the sign of the advantage is wrong, as "
        "in (mean − reward) / std; if less is meant to be better, give the audit these weights.",
        to_do="Check the sign of the advantages.",
        evidence={"rewards": names, "weights": dict(phase.weights), "step": phase.step},
        extent=1.0,
    )


def advantage_impossible(f: Facts) -> Iterator[Finding]:
    """Yield one finding if some logged advantages cannot come from any rewards. They are larger than a z-score can be,
    or leave-one-out divided them by almost 0. Yield nothing where no examples of groups were kept.
    """
    many = int(f.totals.logged.impossible)
    if not many or f.examples is None:
        return
    rows, over = f.examples.rows.partition_by("group", as_dict=True), f.recipe and last_z(f.recipe)
    by_nothing, beyond, sizes = list[str](), list[str](), list[int]()  # sizes: numbers of z-scores
    for group in f.examples.scores.filter(finding="advantage-impossible")["group"]:
        group_rows = rows[group,]
        a, step = group_rows["advantage"].to_numpy(), group_rows["step"][0]
        named = f"{number(a[np.nanargmax(np.abs(a))], 6)} (step {step}, group {group})"
        if alone_by_nothing(group_rows.select(reward_columns(f.rewards)).to_numpy(), a) is not None:
            by_nothing.append(named)
        else:
            beyond.append(named)
            sizes.append(len(group_rows) if over == "group" else int(f.batches.responses[f.batches.step == step].max()))
    all_logged = count(f.totals.logged.count, "logged advantage")
    message = f"{count(many)} of {all_logged} {is_or_are(many)} impossible."
    to_do = f"Find out what made {'these advantages' if len(beyond) > 1 else 'this advantage'}: {some(beyond)}."
    if by_nothing:
        to_do = "Switch leave-one-out off, or use a trainer that divides nothing where the other responses agree."
        message += (
            f" For {some(by_nothing)}, the other responses of the same group agree in every reward, and leave-one-out "
            "divided by the round-off of their std, which is 0, as in NeMo-RL's issues 1518, 4158 and 4161."
        )
    if beyond and f.recipe is not None and over:
        limit = number(largest_z(float(sizes[0]), ALL_CONVENTIONS[f.recipe.convention].ddof))
        message += (
            f" The following {'is' if len(beyond) == 1 else 'are'} too large: {some(beyond)}. {NAMES[f.method]} makes "
        )
        message += f"z-scores in each {over}, and whatever the rewards, none of {sizes[0]} z-scores can be larger than "
        message += f"{limit}."
    yield Finding(
        severity="error",
        title=f"{count(many, 'logged advantage')} {is_or_are(many)} impossible",
        message=message,
        to_do=to_do,
        evidence={"impossible": many, "logged": int(f.totals.logged.count)},
        extent=1.0,
    )


def method_not_as_asked(f: Facts) -> Iterator[Finding]:
    """Yield one finding if the log shows that another method ran than the one that was meant to run."""
    if f.intended_method is None or f.recipe is None:
        return
    if f.intended_method in (f.recipe.method, *(f.recipe.alike or ())):
        return
    asked, ran = NAMES[f.intended_method], NAMES[f.recipe.method]
    if (f.intended_method, f.recipe.method) == ("gdpo", "mo_grpo"):
        yield _gdpo_without_its_batch_step(f)
        return
    fix, why = None, ""
    if f.intended_method == "gdpo":
        why = f.framework.not_gdpo_because
        fix = config_lines.switch_to_gdpo(f.run.framework, *f.functions(f.recipe.weights), f.run.group_size)
    yield Finding(
        severity="error",
        title=f"{asked} was asked for, but {ran} ran",
        message=f"{asked} was asked for, but the logged advantages are those of {ran}. {why}".strip(),
        to_do=f"Switch {asked} on.",
        evidence={"asked": f.intended_method, "found": f.recipe.method},
        fix=fix,
    )


def _gdpo_without_its_batch_step(f: Facts) -> Finding:
    """Return the finding that GDPO was asked for and its batch step did not run. Each reward was normalised, and the
    results were added up, but nothing more was done.
    """
    return Finding(
        severity="error",
        title="GDPO was asked for, but its batch step did not run",
        message="The logged advantages are GDPO's z-scores of each reward, added up by weight (which is MO-GRPO): the "
        "batch step is missing. Without it, the size of the advantages depends on the number of rewards and on the "
        "weights, which acts like a change of the learning rate; the order of the advantages and each reward’s share "
        "of the update hardly change.",
        to_do="Switch the batch step on, if the trainer has a switch for it.",
        evidence={"asked": "gdpo", "found": "mo_grpo"},
    )
