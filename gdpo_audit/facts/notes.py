"""Notes: sentences in the header of a report about facts of a log that nobody has to act on."""

from collections.abc import Iterator

from gdpo_audit.facts.facts import Facts
from gdpo_audit.facts.notes_on_logs import NOTES
from gdpo_audit.phrases import at_steps, is_or_are, some
from gdpo_core.shared.words import count, number


def notes_on_run(f: Facts) -> Iterator[str]:
    """Yield the notes of a report, each of one or two sentences.

    They say which parts of the log were not read, were left out or count only once. They say which rewards do not count
    or were worked out from their total, how the groups were told apart, and the like.
    """
    for issue in f.run.issues:
        if issue.id in NOTES:
            yield NOTES[issue.id](issue.details)
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
