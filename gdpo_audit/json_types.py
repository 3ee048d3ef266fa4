"""Types of the parts of a report: `report.schema.json` is made from them, and they hold the descriptions in it.

A part that stands here is a dict in Python too. A part that is an object in Python, such as a finding, is a
`msgspec.Struct` beside the functions that make it.
"""

from typing import Annotated, Literal, NotRequired, TypedDict

from msgspec import Meta

from gdpo_core.pushing import PUSH_EXPLAINED as PUSH

# A number that is NaN in Python where it has no value, and null in JSON: scripts/make_schema.py lets it be null.
MaybeNaN = Annotated[float, Meta(extra_json_schema={"nan": "null"})]

PUNISHED_IN_JSON = (
    "Of the responses above their group's mean in it, the share with an advantage of 0 or less; of those below, where "
    "the run wants less of it."
)


class SourcePart(TypedDict):
    """The files of a log, and what they hold."""

    path: str
    framework: str
    as_written: Annotated[bool, Meta(description="Whether the framework itself writes just such columns.")]
    files: int
    steps: int
    responses: int
    groups: int
    group_size: Annotated[int | None, Meta(description="null: groups of different sizes.")]
    rewards: list[str]
    grouped_by: Annotated[str, Meta(description="How the groups were told apart, in words.")]
    skipped_lines: int
    skipped_files: Annotated[list[str], Meta(description="Files that cannot be read.")]
    left_out: Annotated[list[str], Meta(description="Columns that were not read.")]
    window: Annotated[list[int] | None, Meta(description="The first and the last step, where some were asked for.")]
    stretches: Annotated[
        list[list[int]] | None, Meta(description="Of the steps that were asked for: first and last of each stretch.")
    ]
    notes: Annotated[
        list[str], Meta(description="Facts that ask for nothing, such as what was left out; in sentences.")
    ]


class WeightsFrom(TypedDict):
    """The weights that a run had from one step on."""

    step: int
    weights: Annotated[dict[str, float | None], Meta(description="null for a weight: the log cannot tell it.")]


class RunPart(TypedDict):
    """The recipe that made the logged advantages, and the weights and the convention that the report's figures have.

    max_error: the largest distance of a logged advantage from what the recipe makes.
    asked: the method that was meant to run.
    steps_off: the steps with an advantage that the recipe does not reproduce, the first 100 at most.
    """

    method: Annotated[str | None, Meta(description="null: the log does not show it.")]
    convention: Annotated[str | None, Meta(description="null: the log does not show it.")]
    weights: Annotated[dict[str, float | None] | None, Meta(description="null for a weight: the log cannot tell it.")]
    weights_in_turn: Annotated[
        list[WeightsFrom], Meta(description="Only where they change; `weights` then holds the most frequent ones.")
    ]
    weights_up_to_scale: Annotated[bool | None, Meta(description="true: only the ratios of these weights are known.")]
    remarks: Annotated[
        list[str], Meta(description="What was done to the advantages after the method, and when they were logged.")
    ]
    logged: Annotated[int, Meta(description="Responses with an advantage.")]
    all_zero: Annotated[bool, Meta(description="Advantages are logged, and those of all batches that count are 0.")]
    reproduced: Annotated[bool | None, Meta(description="null: nothing to compare with, or nothing but round-off.")]
    max_error: float | None
    weights_used: Annotated[dict[str, float], Meta(description="Those with which `methods` was computed.")]
    weights_from: Annotated[
        str, Meta(description="given, solved, score, fitted, nearest, config, log, parts or assumed.")
    ]
    not_counted: Annotated[dict[str, str], Meta(description="Columns among the rewards that do not count, and why.")]
    convention_used: str
    asked: str | None
    trainers_own: Annotated[bool, Meta(description="It is the method that the trainer of such a log runs by itself.")]
    primary: str | None
    steps_off: list[int]
    silent_responses: Annotated[
        int | None, Meta(description="Responses in groups without any advantage, under the run's method.")
    ]
    but_residue: Annotated[str, Meta(description="What is logged there all the same, in words; empty: nothing.")]


class RewardPart(TypedDict):
    """One reward: its share of the update, the push on it, its mean, and how often it is missing or constant."""

    name: str
    wanted: Annotated[
        Literal["higher", "lower"] | None,
        Meta(description="What the run wants of it, as the sign of its weight says; null: neither."),
    ]
    mean: float | None
    std: float | None
    range: Annotated[
        float | None, Meta(description="Its largest value in the log less its smallest; a point is 1 % of it.")
    ]
    missing: Annotated[int, Meta(description="The number of responses that lack it.")]
    dead_groups: Annotated[
        float, Meta(description="Of the groups that hold it, the share in which it is constant; 1 if none holds it.")
    ]
    update_share: dict[str, float | None]
    push: Annotated[dict[str, float], Meta(description=f"By method. {PUSH}")]
    punished: Annotated[dict[str, float | None], Meta(description=f"By method. {PUNISHED_IN_JSON}")]
    asks_for: Annotated[float | None, Meta(description="Its share of the update by the squares of the weights.")]
    first_quarter: Annotated[
        float | None, Meta(description="The mean of its values in the first quarter of the batches that hold it.")
    ]
    last_quarter: float | None
    changed_at: Annotated[int | None, Meta(description="The step from which on its mean differs; null: none.")]
    correlations: Annotated[dict[str, float | None], Meta(description="Inside groups; empty for more than 8 rewards.")]


class MethodPart(TypedDict):
    """The figures of one method on the rewards of the run, computed as `gdpo_core.collapse` does.

    groups_with_ties: of the groups whose reward vectors differ, the share in which two different vectors get one
        advantage.
    tied_pairs: of the pairs in a group with different reward vectors, the share with one advantage.
    levels: the mean number of distinct advantages in a group whose reward vectors differ.
    silent_groups: the share of all groups in which every advantage is 0.
    inversions: of the pairs in a group that differ in the primary reward, the share in the wrong order. In such a pair
        the response with less of the reward gets the larger advantage, or the one with more if the run wants less.
    """

    groups_with_ties: MaybeNaN
    tied_pairs: MaybeNaN
    levels: MaybeNaN
    silent_groups: MaybeNaN
    inversions: Annotated[MaybeNaN, Meta(description="null without a primary reward.")]


class WorstPromptPart(TypedDict):
    """A prompt of which many responses are in silent groups, in which every advantage is 0."""

    prompt: Annotated[str | None, Meta(description="Its text, clipped.")]
    visits: Annotated[int, Meta(description="The number of its groups.")]
    silent_visits: int
    silent_responses: int


class PromptsPart(TypedDict):
    """The prompts of a run over all of its steps, and how many of them had only silent groups.

    In a silent group every advantage is 0 under the run's method.
    """

    prompts: int
    repeated: Annotated[int, Meta(description="Prompts that were seen at least twice.")]
    silent: Annotated[int, Meta(description="Prompts whose groups were all silent.")]
    silent_repeated: Annotated[int, Meta(description="Of these, seen at least twice.")]
    worst: Annotated[list[WorstPromptPart], Meta(description="Those with the most silent responses, ten at most.")]


class LengthsPart(TypedDict):
    """The lengths of the completions."""

    unit: Literal["tokens", "characters"]
    first_quarter: Annotated[float | None, Meta(description="The mean of those in the first quarter of the batches.")]
    last_quarter: float | None
    correlations: Annotated[dict[str, float | None], Meta(description="Of the length with each reward, inside groups.")]


class GatePart(TypedDict):
    """A rule by which `reward` counts only where the reward `on` reaches a threshold."""

    on: str
    reward: str
    threshold: float
    otherwise: Annotated[float, Meta(description="The reward everywhere else.")]
    at_most: NotRequired[
        Annotated[bool, Meta(description="true: `on` has to be at most the threshold, as less of it is wanted.")]
    ]


class ForecastPart(TypedDict):
    """The forecast change of the mean of a reward over the steps of the log under a setting, in the
    reward's own unit.
    """

    difference: Annotated[float | None, Meta(description="Setting less as it ran; null: the log does not tell.")]
    low: Annotated[float | None, Meta(description="The lower end of its 80 % interval.")]
    high: float | None
    why: Annotated[str, Meta(description="Why the log does not tell, in a sentence; empty where it does.")]
    off_by: Annotated[float | None, Meta(description="How far off the forecast of the log's own second half was.")]


class StepPart(TypedDict):
    """One step of a run, or a few steps together where the run has more than 200.

    The further members are numbers or null:

    - by reward: mean:NAME, std:NAME, missing:NAME (how many responses lack it), and dead:NAME (the share of groups in
      which it is constant);
    - by method: ties:METHOD and silent:METHOD, which are shares of groups;
    - by method and reward: share:METHOD:NAME and push:METHOD:NAME;
    - by two rewards: correlation:NAME:NAME.
    """

    step: int
    step_last: int
    responses: int
    groups: int


class ByRewardPart(TypedDict):
    """The figures of one reward in the groups with one value of a column, or in the groups with its rare values
    together.
    """

    name: str
    mean: float | None
    dead_groups: Annotated[float | None, Meta(description="Of the groups that hold it; null: none does.")]
    update_share: float | None


class ByPart(TypedDict):
    """The figures of the groups with one value of a column, under one method."""

    column: str
    value: Annotated[str | None, Meta(description="null: missing.")]
    values: Annotated[int, Meta(description="1, or the number of rare values that are taken together.")]
    method: str
    groups: int
    responses: int
    rewards: list[ByRewardPart]
    groups_with_ties: float | None
    silent_groups: float | None
    inversions: Annotated[float | None, Meta(description="null without a primary reward.")]


class SettingPart(TypedDict):
    """A setting and the figures of the whole run under it; a figure is null if there is nothing to compute it from."""

    method: str
    convention: str
    weights: dict[str, float]
    update_share: dict[str, float | None]
    push: Annotated[dict[str, float | None], Meta(description=f"By reward; null: it does not count. {PUSH}")]
    punished: Annotated[dict[str, float | None], Meta(description=f"By reward. {PUNISHED_IN_JSON}")]
    groups_with_ties: float | None
    tied_pairs: float | None
    silent_groups: float | None
    inversions: Annotated[float | None, Meta(description="null without a primary reward.")]
