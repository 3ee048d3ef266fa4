"""Notes: sentences in the header of a report about facts of a log that nobody has to act on."""

from collections.abc import Iterator, Mapping
from shlex import quote
from typing import Any

from gdpo_audit.findings.facts import Facts
from gdpo_audit.findings.words import MOST_GROUPS, at_steps, bounds_in_words, does_or_do, is_or_are, some, was_or_were
from gdpo_audit.logs.run import LogIssue
from gdpo_core._words import count, listing, number, percent


def notes(f: Facts) -> Iterator[str]:
    """Yield the notes of a report, each of one or two sentences.

    They say which parts of the log were not read, were left out or count only once. They say which rewards do not count
    or were worked out from their total, how the groups were told apart, and the like.
    """
    for issue in f.run.issues:
        yield from _notes_on(issue)
    if f.run.weights and f.run.weights_by == "parts":
        pays = some(f"{x} {number(pay)}{' (how many passed)' * (' + ' in x)}" for x, pay in f.run.weights.items())
        yield f"The rewards were worked out from their total, given what a pass of each pays: {pays}."
    groups, responses = f.undecided
    if groups:
        left = f"{count(groups, 'group')} ({count(responses, 'response')}) {is_or_are(groups)} left out, because"
        blind = " Without all groups, a method that looks at the whole batch is not recognised." * f.run.has_advantage
        yield f"{left} a total there is the sum of several different combinations of these pays.{blind}"
    if again := f.repeated_batches.step.tolist():
        batches, repeats = count(len(again), "batch", "batches"), "repeats" if len(again) == 1 else "repeat"
        yield f"{batches} ({at_steps(again)}) {repeats} the rows of the batch before; these rows count once."
    if f.run.uncounted:
        uncounted = some(f"{x.name} ({x.why})" for x in f.run.uncounted)
        counts = "does not count as a reward" if len(f.run.uncounted) == 1 else "do not count as rewards"
        yield f"{uncounted} {counts} here."
    primary = None if f.basis.primary is None else f.rewards[f.basis.primary]
    if f.reproduced and primary and all(phase.weights[primary] == 0 for phase in f.phases):
        yield f"{primary} has weight 0 in the logged advantages."


def _notes_on(issue: LogIssue) -> Iterator[str]:
    """Yield the notes about an issue that was noted while the log was read; nothing for an issue of a kind that has no
    note.
    """
    details = issue.details
    if issue.id == "files-left-out":
        yield f"The following was not read: {some(details['files'])}."
    elif issue.id == "eval-logged":
        steps = details["eval_steps"]
        tables = f"{count(len(steps), 'table')} ({at_steps(steps)}) {was_or_were(len(steps))} left out, because"
        yield f"{tables} {'it holds an evaluation' if len(steps) == 1 else 'they hold evaluations'}."
    elif issue.id == "group-size-changes":
        first, *later = zip(details["sizes"], details["from_steps"], strict=True)
        sizes = [f"{first[0]} responses at first", *(f"{n} from step {step} on" for n, step in later)]
        yield f"Groups hold {some(sizes)}."
    elif issue.id == "regrouped":
        yield from _regrouped(details)
    elif issue.id == "masked":
        yield _masked(details)
    elif issue.id == "total-of-parts":
        yield _total_of_parts(details)
    elif issue.id in ("clipped", "groups-incomplete", "weights-by-column"):
        yield _of_edited(issue)
    elif issue.id == "total-by-step":
        sums = f"In each step {details['total']} is a weighted sum of {some(details['rewards'])}"
        yield f"{sums}. The weights change between steps, and where one set of weights is named, it is the last one."
    elif issue.id == "steps-found":
        numbered = f"The column {details['column']} was taken for the number of the step"
        total = details.get("by")
        why = f"{total} is a weighted sum in each of" if total else "the logged advantages are reproduced in"
        yield f"{numbered}, because {why} the steps that it numbers."
    elif issue.id == "reward-taken-in":
        yield f"{details['reward']} was taken for a reward, because the logged advantages depend on it."
    elif issue.id == "no-reward":
        names = list(details["columns"])
        reasons = some(f"{name} ({why})" for name, why in details["columns"].items())
        option = f"The option --reward takes a column in, as in --reward {quote(names[0])}."
        yield f"{reasons} {was_or_were(len(names))} not read as rewards. {option}"
    elif issue.id == "not-in-score":
        alone = f"The {details.get('score', 'score')} is a weighted sum of {some(details['rewards'])} alone"
        yield f"{alone}, so {some(details['columns'])} {does_or_do(len(details['columns']))} not count."


def _of_edited(issue: LogIssue) -> str:
    """Return a note on advantages that are a method's but for what the issue tells: a clip, means over rows that are
    not logged, or weights that depend on a column.
    """
    details = issue.details
    if issue.id == "clipped":
        rows = (
            f"{count(details['rows'])} of {count(details['of'], 'advantage')} {is_or_are(details['rows'])} on a bound"
        )
        return (
            f"The advantages were clipped at {bounds_in_words(details)}: {rows}, where the method makes larger ones. "
            "The figures here are computed without the clip."
        )
    if issue.id == "groups-incomplete":
        groups = (
            f"In {count(details['groups'])} of {count(details['of'], 'group')} the logged advantages do not add up to 0"
        )
        why = "in every group they are the weighted sum of the rewards, less a number of the group"
        if details["whole"]:
            why = "there they are the weighted sum of the rewards, less a number of the group and divided by another "
            why += "one. The method was checked in the groups that are whole"
        so = "So the mean was taken over rows that are not all in the log"
        if details["groups"] >= MOST_GROUPS * details["of"]:
            so = (
                "Either the mean was taken over rows that are not all in the log, or a baseline of each group took the "
            )
            so += "place of the mean"
        figures = "The weights are certain, but shares, pushes and silent groups are those of the logged rows."
        return f"{groups}: {why}. {so}. {figures}"
    recipes, rewards = details["recipes"], details["rewards"]
    by_weights = dict[str, list[str]]()
    for value, recipe in recipes.items():
        words = listing(f"{name} {number(w)}" for name, w in zip(rewards, recipe.weights, strict=True))
        by_weights.setdefault(words, []).append(value)
    each = (f"{words} where it is {listing(values, 'or')}" for words, values in by_weights.items())
    return f"The weights depend on {details['column']}: {'; '.join(each)}. The figures are computed with these."


def _total_of_parts(details: Mapping[str, Any]) -> str:
    """Return a note that only a total was read as a reward, with the share of its variance that the columns beside it
    explain.

    details: the details of the issue `total-of-parts`. `total` is the name of the total, and `parts` are the names of
        the columns. `explained` is the share, and `named` is true if the caller asked for the total.
    """
    share = percent(details["explained"], 1)
    total, terms = details["total"], details["parts"]
    beside = f"Beside it, the log holds {some(terms)}"
    their_sum = f"{terms[0]}" if len(terms) == 1 else "a weighted sum of them"
    explains = f"{their_sum} explains {share} of the variance of {total}"
    if details.get("named"):
        return f"{total} was read alone, as asked. {beside}; {explains}."
    add_up = "which does" if len(terms) == 1 else "which do"
    return f"The logged advantages are those of {total} alone. {beside}, {add_up} not add up to {total}: {explains}."


def _regrouped(details: Mapping[str, Any]) -> Iterator[str]:
    """Yield one or two notes about groups that the audit had to find out by itself.

    The first note says by what the responses were grouped, and why. The second says that several rows have one
    advantage in common and only the last of them counts; it is left out if there are no such rows.

    details: the details of the issue `regrouped`. `by` says in words how the groups are told apart now, and `not_by`
        how they were before. `once` names what rows with one advantage have in common; it is empty without such rows.
        `judged` is true if advantages are logged.
    """
    named = bool(details["not_by"]) and details["not_by"] != details["by"]
    why = "because nothing else in the log shows the groups"
    if details["judged"]:
        does = "are reproduced" if named else "add up to 0"
        does = "follow the rewards" if details.get("follows") else does
        why = f"because the logged advantages {does} in these groups"
    contrast = f"; in groups by {details['not_by']} they are not reproduced" if details["judged"] and named else ""
    yield f"Responses were grouped by {details['by']}, {why}{contrast}."
    if details["once"]:
        yield f"Several rows of one {details['once']} repeat one advantage, and only the last of these rows counts."


def _masked(details: Mapping[str, Any]) -> str:
    """Return a note on the rows whose advantage was set to 0, by a mask, a filter, or a rule that no advantage may be
    below 0.

    details: the details of the issue `masked`. `rows` of `of` rows are such rows, and `below` is true if the rule is
        the reason. `column` and `value` say which value of a column marks the rows, None if no column does. `counts`
        says whether the rows count in the statistics of their group.
    """
    if details.get("below"):
        return (
            f"No logged advantage is below 0: in {count(details['rows'])} of {count(details['of'], 'row')} "
            f"({percent(details['rows'] / details['of'])}) the advantage would be below 0 and was set to 0."
        )
    where = f" These are the rows where {details['column']} is {number(details['value'])}." if details["column"] else ""
    count_in = "count" if details["counts"] else "do not count"
    rows = f"{count(details['rows'])} of {count(details['of'], 'row')} ({percent(details['rows'] / details['of'])})"
    return (
        f"The advantage of {rows} is 0 whatever the rewards, so a mask or a filter set it to 0.{where} Such rows "
        f"{count_in} in the statistics of their group."
    )
