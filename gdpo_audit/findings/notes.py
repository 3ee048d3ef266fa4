"""Facts of a log that ask for nothing: short sentences for the header of a report."""

from collections.abc import Iterator

from gdpo_audit.findings.facts import Facts, at_steps, some
from gdpo_core._words import count, number


def notes(f: Facts) -> Iterator[str]:
    """What was left out of the log, what counts once or not at all, and groups of another size."""
    for issue in f.run.issues:
        of = issue.details
        if issue.id == "files-left-out":
            yield f"Not read: {some(of['files'])}."
        elif issue.id == "eval-logged":
            yield f"Left out as evaluations: {count(len(of['eval_steps']), 'table')}, of {at_steps(of['eval_steps'])}."
        elif issue.id == "group-size-changes":
            first, *later = zip(of["sizes"], of["from_steps"], strict=True)
            yield f"Groups hold {first[0]} responses at first, {some(f'{n} from step {step} on' for n, step in later)}."
        elif issue.id == "not-in-score":
            alone = f"The {of.get('score', 'score')} is a weighted sum of {some(of['rewards'])} alone"
            yield f"{alone}; not counted: {some(of['columns'])}."
    if f.run.weights and f.run.weights_by == "parts":
        pays = some(f"{x} {number(pay)}{' (how many passed)' * (' + ' in x)}" for x, pay in f.run.weights.items())
        yield f"The rewards were told from their total by what a pass pays, as given: {pays}."
    if f.run.undecided[0]:
        left = f"{count(f.run.undecided[0], 'group')} ({count(f.run.undecided[1], 'response')})"
        blind = "; a method that looks at the whole batch is not recognised then" * f.run.has_advantage
        yield f"Left out: {left}, which hold a total that is a sum of these pays in several ways{blind}."
    if again := f.repeated_batches.step.tolist():
        batches = count(len(again), "batch", "batches")
        yield f"Rows that repeat those of the batch before count once: {batches}, of {at_steps(again)}."
    if f.run.uncounted:
        yield f"Not counted: {some(f'{x.name} ({x.why})' for x in f.run.uncounted)}."
    primary = None if f.setup.primary is None else f.rewards[f.setup.primary]
    if f.reproduced and primary and all(phase.weights[primary] == 0 for phase in f.phases):
        yield f"{primary} has weight 0 in the logged advantages."
