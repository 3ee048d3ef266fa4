"""Words for weights, steps and lists, as they stand in the sentences of findings and reports."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import isclose, isfinite
from typing import Any

from gdpo_audit.json_types import GatePart
from gdpo_audit.thresholds import FEW_GROUPS
from gdpo_core.shared.words import listing, number, percent

MOST_GROUPS = 0.9  # where more groups are not centred, a baseline may have been subtracted as well as another mean
FEW_CHANGES = 3  # of the weights: so many are named one by one


def weights_in_words(weights: Mapping[str, float], up_to_scale: bool) -> str:
    """Return words that name the weights of rewards.

    weights: the weights by the names of the rewards.
    up_to_scale: whether only the ratio of the weights is known. The words then name no more than that ratio, or, for a
        single reward, say that no more is known.

    >>> weights_in_words({"correct": 1.0, "short": 0.5}, False), weights_in_words({"correct": 1.0, "short": 0.5}, True)
    ('correct 1, short 0.5', 'correct : short = 2 : 1 (the log shows only their ratio)')
    """
    sizes = [abs(w) for w in weights.values() if w]
    if not up_to_scale or not sizes:
        return listing((f"{name} {number(w)}" for name, w in weights.items()), link="")
    if len(weights) == 1:
        return "of which the log shows only the ratio"
    ratio_of = " : ".join(number(w / min(sizes)) for w in weights.values())
    return f"{' : '.join(weights)} = {ratio_of} (the log shows only their ratio)"


def of_groups(share: float | None, groups: int) -> str:
    """Return a share of the groups in percent, with the counts behind it where a log has few groups.

    There are no counts for a share of a part of the groups, as where the others lack the reward.

    >>> of_groups(0.25, 12), of_groups(0.25, 400), of_groups(0.3, 12)
    ('25 % (3 of 12)', '25 %', '30 %')
    """
    many = share * groups if share is not None and groups < FEW_GROUPS else 0.5
    return percent(share) + f" ({round(many)} of {groups})" * isclose(many, round(many), abs_tol=1e-6)


def gate_opens(gate: GatePart) -> str:
    """Return words that say where a gate is open, such as “right reaches 1”."""
    return f"{gate['on']} {'is at most' if gate.get('at_most') else 'reaches'} {number(gate['threshold'])}"


def ratio_in_words(weights: Mapping[str, float | None]) -> str:
    """Return weights in words, without the names of their rewards and with colons between them. A weight that is None
    becomes a question mark.

    >>> ratio_in_words({"correct": 1.0, "short": 0.5, "style": None})
    '1 : 0.5 : ?'
    """
    return " : ".join("?" if w is None else number(w) for w in weights.values())


def weights_in_turn(phases: Sequence[tuple[int, Mapping[str, float | None]]]) -> str:
    """Return words that say how weights change. They name the weights of each phase, but if there are more than four
    phases, only the first and the last weights.

    phases: for each phase its first step and its weights by reward.

    >>> weights_in_turn([(1, {"correct": 1.0, "short": 0.5}), (11, {"correct": 1.0, "short": 0.2})])
    'correct : short = 1 : 0.5 at first and 1 : 0.2 from step 11 on'
    """
    (_, first), *later = phases
    turns = [f"{ratio_in_words(weights)} from step {step} on" for step, weights in later]
    turns = turns if len(later) <= FEW_CHANGES else [f"{ratio_in_words(later[-1][1])} at the end"]
    return f"{' : '.join(first)} = {listing([f'{ratio_in_words(first)} at first', *turns])}"


def reading_remarks(issue: str, details: Mapping[str, Any]) -> Iterator[str]:
    """Yield phrases that can follow the name of a method, on how its advantages were read.

    issue: the id of an issue of the log.
    details: the details of the issue.
    """
    if issue == "weights-by-column":
        yield f"with weights that depend on {details['column']}"
    elif issue == "clipped":
        yield f"clipped at {bounds_in_words(details)}"
    elif issue == "groups-incomplete":
        groups = f"{details['groups']} of {details['of']} groups"
        what = "mean and the std" if details["divided"] else "mean"
        if details["groups"] < MOST_GROUPS * details["of"]:
            yield f"with the {what} in {groups} over rows that are not all logged"
        else:
            yield f"with something else than the mean of the logged rows subtracted in {groups}"


def bounds_in_words(details: Mapping[str, Any]) -> str:
    """Return words for the bounds at which advantages were clipped, of which one may be infinite.

    details: the bounds, as `low` and `high`.

    >>> bounds_in_words({"low": -1.5, "high": 1.5}), bounds_in_words({"low": float("-inf"), "high": 2})
    ('−1.5 and 1.5', '2')
    """
    return listing(number(details[side]) for side in ("low", "high") if isfinite(details[side]))


def some(items: Iterable[object]) -> str:
    """Return items as a list in words. Of more than nine items, only the first eight are named, and the others are
    counted. "none" if there are no items.

    >>> some([1, 2, 3]), some(range(20))
    ('1, 2 and 3', '0, 1, 2, 3, 4, 5, 6, 7 and 12 more')
    """
    return listing(items, most=8)


def at_steps(steps: Sequence[int]) -> str:
    """Return words that name steps: at most eight of them, or of stretches of three and more, as `some` lists them.

    >>> at_steps([3]), at_steps([3, 5]), at_steps([3, 5, 6, 7])
    ('step 3', 'steps 3 and 5', 'steps 3 and 5 to 7')
    """
    pieces = list[str]()
    for first, last in _stretches(steps):
        pieces += [f"{first} to {last}"] if last - first > 1 else [f"{step}" for step in range(first, last + 1)]
    return f"step{'s' * (len(steps) > 1)} {some(pieces)}"


def leaving_out(steps: Sequence[int]) -> str:
    """Return the option with which an audit leaves steps out.

    >>> leaving_out([10, 20, 21, 22]), leaving_out([7])
    ('--not-steps 10,20-22', '--not-steps 7')
    """
    pieces = (f"{first}-{last}" if last > first else f"{first}" for first, last in _stretches(steps))
    return f"--not-steps {','.join(pieces)}"


def _stretches(steps: Sequence[int]) -> list[tuple[int, int]]:
    """Return the first and the last step of each stretch of whole numbers that follow one another, in order."""
    stretches = list[tuple[int, int]]()
    for step in sorted(set(steps)):
        if stretches and step == stretches[-1][1] + 1:
            stretches[-1] = (stretches[-1][0], step)
        else:
            stretches.append((step, step))
    return stretches


def is_or_are(n: int) -> str:
    """Return the verb that goes with n things, “is” or “are”."""
    return "is" if n == 1 else "are"


def was_or_were(n: int) -> str:
    """Return the verb that goes with n things, “was” or “were”."""
    return "was" if n == 1 else "were"


def does_or_do(n: int) -> str:
    """Return the verb that goes with n things, “does” or “do”."""
    return "does" if n == 1 else "do"
