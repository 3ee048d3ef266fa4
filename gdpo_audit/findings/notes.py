"""Notes: sentences in the header of a report about facts of a log that ask for nothing."""

from collections.abc import Iterator, Mapping
from shlex import quote
from typing import Any

from gdpo_audit.findings.facts import Facts
from gdpo_audit.findings.words import at_steps, does_or_do, some, was_or_were
from gdpo_audit.logs.run import LogIssue
from gdpo_core._words import count, number, percent


def notes(f: Facts) -> Iterator[str]:
    """Yield the notes of a report: what of the log was left out or counts only once, which rewards do not count, and
    how the groups were told.
    """
    for issue in f.run.issues:
        yield from _notes_on(issue)
    if f.run.weights and f.run.weights_by == "parts":
        pays = some(f"{x} {number(pay)}{' (how many passed)' * (' + ' in x)}" for x, pay in f.run.weights.items())
        yield f"The rewards were told from their total by what a pass pays, as given: {pays}."
    groups, responses = f.undecided
    if groups:
        left = f"{count(groups, 'group')} ({count(responses, 'response')})"
        blind = "; a method that looks at the whole batch is not recognised then" * f.run.has_advantage
        yield f"{left} are left out, as they hold a total that is a sum of these pays in several ways{blind}."
    if again := f.repeated_batches.step.tolist():
        batches, repeats = count(len(again), "batch", "batches"), "repeats" if len(again) == 1 else "repeat"
        yield f"{batches}, of {at_steps(again)}, {repeats} the rows of the batch before: these count once."
    if f.run.uncounted:
        uncounted = some(f"{x.name} ({x.why})" for x in f.run.uncounted)
        yield f"{uncounted} {does_or_do(len(f.run.uncounted))} not count."
    primary = None if f.basis.primary is None else f.rewards[f.basis.primary]
    if f.reproduced and primary and all(phase.weights[primary] == 0 for phase in f.phases):
        yield f"{primary} has weight 0 in the logged advantages."


def _notes_on(issue: LogIssue) -> Iterator[str]:
    """Yield the notes, if any, about an issue that was noted while the log was read."""
    details = issue.details
    if issue.id == "files-left-out":
        yield f"The following was not read: {some(details['files'])}."
    elif issue.id == "eval-logged":
        steps = details["eval_steps"]
        tables = f"{count(len(steps), 'table')}, of {at_steps(steps)},"
        yield f"{tables} {was_or_were(len(steps))} left out as evaluations."
    elif issue.id == "group-size-changes":
        first, *later = zip(details["sizes"], details["from_steps"], strict=True)
        yield f"Groups hold {first[0]} responses at first, {some(f'{n} from step {step} on' for n, step in later)}."
    elif issue.id == "regrouped":
        yield from _regrouped(details)
    elif issue.id == "masked":
        yield _masked(details)
    elif issue.id == "total-of-parts":
        yield _total_of_parts(details)
    elif issue.id == "steps-found":
        yield f"The column {details['column']} numbers the steps: the logged advantages are reproduced in these."
    elif issue.id == "reward-taken-in":
        yield f"{details['reward']} was taken for a reward, as the logged advantages count it."
    elif issue.id == "no-reward":
        names = list(details["columns"])
        reasons = some(f"{name} ({why})" for name, why in details["columns"].items())
        option = f"The option --reward takes one in, as in --reward {quote(names[0])}."
        yield f"{reasons} {was_or_were(len(names))} not read as rewards. {option}"
    elif issue.id == "not-in-score":
        alone = f"The {details.get('score', 'score')} is a weighted sum of {some(details['rewards'])} alone"
        yield f"{alone}, so {some(details['columns'])} {does_or_do(len(details['columns']))} not count."


def _total_of_parts(details: Mapping[str, Any]) -> str:
    """Return a note that a total was read alone, and how much of it the columns beside it explain. details: those of
    the issue.
    """
    share = percent(details["explained"], 1)
    stand = f"{some(details['parts'])} {'stand' if len(details['parts']) > 1 else 'stands'} beside it"
    explains = f"a weighted sum of what stands beside it explains {share} of how it differs"
    if details.get("named"):
        return f"{details['total']} was read alone, as asked. {stand}: {explains}."
    return f"The logged advantages are those of {details['total']} alone. {stand}, but do not add up to it: {explains}."


def _regrouped(details: Mapping[str, Any]) -> Iterator[str]:
    """Yield notes on what tells the groups apart if that is not what the log says. details: those of the issue."""
    named = bool(details["not_by"]) and details["not_by"] != details["by"]
    why = "as nothing else shows the groups"
    if details["judged"]:
        does = "are reproduced" if named else "add up to 0"
        why = f"as the logged advantages {does} in these groups"
    contrast = f"; with {details['not_by']} they are not" if details["judged"] and named else ""
    yield f"Groups are told apart by {details['by']}, {why}{contrast}."
    if details["once"]:
        yield f"Rows of one {details['once']} repeat one advantage, and only the last of them counts."


def _masked(details: Mapping[str, Any]) -> str:
    """Return a note on the rows whose advantage a mask set to 0. details: those of the issue."""
    if details.get("below"):
        return (
            f"No logged advantage is below 0: those of {count(details['rows'])} of {count(details['of'], 'row')} "
            f"({percent(details['rows'] / details['of'])}), which would be, were set to 0."
        )
    where = f"where {details['column']} is {number(details['value'])}, " if details["column"] else ""
    count_in = (
        "they count in the statistics of their group" if details["counts"] else "no statistic of a group holds them"
    )
    rows = f"{count(details['rows'])} of {count(details['of'], 'row')} ({percent(details['rows'] / details['of'])})"
    return f"The advantage of {rows} is 0, {where}whatever the rewards, as a mask or a filter makes it: {count_in}."
