"""The figures of a sample that was scored under a configuration, before the run."""

from dataclasses import dataclass


@dataclass(frozen=True)
class SampleScore:
    """The share of the update that each reward of a sample makes, and the push on it, if a policy is trained on the
    sample with the method, weights and convention of a configuration.

    path: where the sample was read.
    answers: how many answers the sample holds.
    groups: how many groups the sample holds.
    weights: the weight of each reward, by its name.
    update_share: the share of the update of each reward, by its name; None where every advantage is 0.
    push: the push on each reward, by its name; 0 where every advantage is 0.
    notes: what the figures rest on, in sentences.
    """

    path: str
    answers: int
    groups: int
    weights: dict[str, float]
    update_share: dict[str, float | None]
    push: dict[str, float | None]
    notes: tuple[str, ...]
