"""The figures of a sample that was scored under a configuration, before the run."""

from dataclasses import dataclass


@dataclass(frozen=True)
class SampleScore:
    """The share of the update and the push of each reward of a sample, under the setting of a configuration.

    path: where the sample was read.
    answers, groups: how many it holds.
    weights, update_share, push: by reward. Where every advantage is 0, each share is None and each push is 0.
    notes: what the figures rest on, in sentences.
    """

    path: str
    answers: int
    groups: int
    weights: dict[str, float]
    update_share: dict[str, float | None]
    push: dict[str, float | None]
    notes: tuple[str, ...]
