"""The figures of a sample that was scored under a configuration, before the run."""

from dataclasses import dataclass


@dataclass(frozen=True)
class SampleScore:
    """The part that each reward of a sample would have in the update, and how much the update would raise it.

    update_share, push: by reward; None where every advantage is 0. notes: what the figures stand on, in sentences.
    """

    path: str
    answers: int
    groups: int
    weights: dict[str, float]
    update_share: dict[str, float | None]
    push: dict[str, float | None]
    notes: tuple[str, ...]
