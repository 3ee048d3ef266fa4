"""The claim on which rows of a log are responses of the training, and what it rests on."""

from collections.abc import Mapping, Sequence
from shlex import quote
from typing import Any

from gdpo_audit.facts.facts import Facts
from gdpo_audit.logs.columns.behaviour import LABEL
from gdpo_audit.logs.forms.roles import words_of
from gdpo_audit.phrases import MOST_GROUPS
from gdpo_audit.records import AGREES, ASSUMED, PROVED, Claim, LogIssue
from gdpo_core.shared.words import count

# Words in the name of a column that says which groups were trained on.
_OF_TRAINING = {
    "kept",
    "keep",
    "used",
    "trained",
    "selected",
    "accepted",
    "filtered",
    "dropped",
    "discarded",
    "skipped",
}


def claim_of(what: str, taken: str, evidence: str, because: str, otherwise: str = "") -> Claim:
    """Return a claim with its fields in the order in which a reader asks for them."""
    return Claim(what=what, taken=taken, evidence=evidence, because=because, otherwise=otherwise)


def explained(f: Facts) -> bool:
    """Return whether the recipe gives every logged advantage of the rows that count; batches that are set apart, as
    those of an evaluation, are not among them.
    """
    logged = f.totals.logged
    return f.recipe is not None and bool(logged.count) and not logged.wrong


def responses_of(f: Facts, groups: Claim) -> Claim:
    """Return the claim on which rows are responses of the training.

    groups: the claim on the groups, without which nothing tells whether a row belongs to the training.
    """
    in_all = f.batches, f.repeated_batches, f.overwritten_batches
    rows = int(sum(batches.responses.sum() for batches in in_all))
    apart = int(f.repeated_batches.responses.sum() + f.overwritten_batches.responses.sum())
    untrained = [issue for issue in f.run.issues if issue.id == "not-trained"]
    masked = next((issue.details for issue in f.run.issues if issue.id == "masked"), None)
    left = sum(issue.details["rows"] for issue in untrained)
    left += masked["rows"] if masked is not None and not masked["counts"] else 0
    taken = f"{count(rows - apart)} of {count(rows + left)} rows" if apart or left else f"all {count(rows)} rows"
    taken += f" in {count(int(f.totals.groups), 'group')}"
    if lacking := incomplete_groups(f):
        of_groups = f"{lacking[0]} of {count(lacking[1], 'group')}"
        if any_baseline(lacking):
            why = f"in {of_groups} something else than the mean of these rows was subtracted: rows that the log lacks, "
            return claim_of("responses", taken, AGREES, f"{why}or a baseline")
        lack = f"{taken}; the log lacks rows of {of_groups}"
        return claim_of("responses", lack, PROVED, "the logged advantages are reproduced only so")
    if again := next((issue.details for issue in f.run.issues if issue.id == "rows-again"), None):
        taken = f"{count(rows - apart)} of {count(again['of'])} rows in {count(int(f.totals.groups), 'group')}"
        why = f"the logged advantages are reproduced without {count(again['rows'], 'row')} that a group holds twice"
        return claim_of("responses", taken, PROVED, why)
    if any(issue.id == "rows-twice" for issue in f.run.issues):
        return claim_of("responses", taken, ASSUMED, "rows that stand twice count twice")
    if explained(f):
        return claim_of("responses", taken, *_of_reproduced(f, masked, untrained, apart or left))
    if groups.evidence != ASSUMED and (f.run.group_size or 0) > 1:
        return claim_of("responses", taken, AGREES, f"every group holds {f.run.group_size}, as groups of a training do")
    if groups.evidence == AGREES and f.run.has_advantage:
        return claim_of("responses", taken, AGREES, "the logged advantages add up to 0 in nearly every group of them")
    return claim_of("responses", taken, ASSUMED, "nothing in the log tells rows of an evaluation, or lost rows, apart")


def _of_reproduced(
    f: Facts, masked: Mapping[str, Any] | None, untrained: Sequence[LogIssue], left: int
) -> tuple[str, ...]:
    """Return the evidence and the reason of the claim on the responses where all logged advantages are reproduced, and
    perhaps the option that says otherwise.

    masked: the details of the issue `masked`; None without it.
    untrained: the issues on rows that no training was made of.
    left: how many rows were left out.
    """
    if masked is not None:
        return _of_masked(masked)
    clipped = sum(issue.details["rows"] for issue in f.run.issues if issue.id == "clipped")
    without = int(f.totals.responses - f.totals.logged.count) - clipped
    if without > 0:
        return ASSUMED, f"{count(without)} of them have no advantage and count all the same"
    beside = f"; {count(clipped)} of them lie on a bound, where the advantages were clipped" if clipped else ""
    if any(issue.details["why"] in ("evaluation", "alone") for issue in untrained):
        why = f"their logged advantages are reproduced{beside}; a column alone says that the others are no training"
        return AGREES, why, "--by COLUMN"
    if not left and (flag := _may_tell_training(f)) is not None:
        why = f"their logged advantages are reproduced; whether all were trained on, {flag} may say, which was not used"
        return ASSUMED, why, f"--by {quote(flag)}"
    return PROVED, f"their logged advantages are reproduced from these rows alone{beside}"


def _of_masked(masked: Mapping[str, Any]) -> tuple[str, str]:
    """Return the evidence and the reason of the claim on the responses, where some rows have the advantage 0 or none
    and the others are reproduced.

    masked: the details of the issue `masked`.
    """
    rows = count(masked["rows"])
    if masked["untrained"]:
        return AGREES, f"their advantages are reproduced without the others, which {masked['column']} alone tells"
    if masked["missing"]:
        return AGREES, f"their advantages are reproduced without the {rows} others, which have none"
    return PROVED, f"the others are reproduced; {rows} have advantage 0 by a mask"


def incomplete_groups(f: Facts) -> tuple[int, int] | None:
    """Return in how many groups the logged advantages show that rows are missing, and how many groups there are; None
    if they show no such thing.
    """
    issue = next((issue for issue in f.run.issues if issue.id == "groups-incomplete"), None)
    return None if issue is None else (issue.details["groups"], issue.details["of"])


def _may_tell_training(f: Facts) -> str | None:
    """Return a column whose name says which groups were trained on, and that is the same for all responses of a group;
    None without one. Advantages may be logged of groups that a filter drops afterwards.
    """
    reasons = [x.details["columns"] for x in f.run.issues if x.id == "no-reward"]
    labels = [name for columns in reasons for name, why in columns.items() if why == LABEL]
    flags = [*labels, *(name for name in f.run.left_out if name not in labels)]
    return next((name for name in flags if _OF_TRAINING & {*words_of(name)}), None)


def any_baseline(lacking: tuple[int, int]) -> bool:
    """Return whether a baseline explains the advantages as well as rows that the log lacks do, because nearly no group
    is whole.

    lacking: what `incomplete_groups` returns.
    """
    return lacking[0] >= MOST_GROUPS * lacking[1]
