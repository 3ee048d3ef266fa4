"""Reads verifiers' `traces.jsonl`, an episode a line: its named rewards and their weights, as trainers get them too.

Each trace of an agent that is trained is a response. Of a training run the episodes of evaluations are left out.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from math import isfinite
from typing import Annotated

import msgspec
import polars as pl

from gdpo_core._errors import InputError, expect
from gdpo_core._words import clip
from gdpo_core.runs.columns import Columns, ReadOptions, batches, expect_columns, standard_rows, validate_columns
from gdpo_core.runs.files import LogFile, LogFiles
from gdpo_core.runs.run import Rows, Run, run_of
from gdpo_core.runs.tables import as_text, expect_width, objects
from gdpo_core.runs.texts import texts_of

# Where a trace has what every log has; no reward or metric can have these names.
STEP, GROUP, ADVANTAGE, LENGTH = "run.work.step", "group.id", "nodes.advantages", "num_output_tokens"


class _Reward(msgspec.Struct):
    score: float | None = None
    weight: float = 1.0


class _Node(msgspec.Struct):
    advantages: list[float] | None = None


class _Agent(msgspec.Struct):
    name: str = "agent"
    trainable: bool = True


class _Trace(msgspec.Struct):
    rewards: dict[str, _Reward | None]
    agent: _Agent = msgspec.field(default_factory=_Agent)
    metrics: dict[str, float | None] = {}
    nodes: list[_Node] = []
    num_output_tokens: float | None = None


class _Data(msgspec.Struct):
    idx: int | None = None
    id: str | None = None


class _Task(msgspec.Struct):
    key: str | None = None
    hash: str | None = None
    data: _Data = msgspec.field(default_factory=_Data)


class _Group(msgspec.Struct):
    id: str


class _Work(msgspec.Struct):
    type: str = "train"
    step: Annotated[int, msgspec.Meta(ge=-(2**53), le=2**53)] | None = None


class _RunInfo(msgspec.Struct):
    type: str = "train"
    work: _Work | None = None


class _Env(msgspec.Struct):
    id: str = ""
    name: str | None = None


class _Episode(msgspec.Struct):
    traces: list[_Trace]
    task: _Task = msgspec.field(default_factory=_Task)
    env: _Env = msgspec.field(default_factory=_Env)
    group: _Group | None = None
    run: _RunInfo | None = None

    @property
    def work(self) -> _Work:
        return (self.run and self.run.work) or _Work()

    @property
    def evaluates(self) -> bool:
        return self.work.type == "eval" or (self.run is not None and self.run.type == "eval")


@dataclass(frozen=True)
class _Response:
    """A trace of an agent that is trained."""

    file: int
    where: str  # the file and the line
    evaluated: bool
    step: int | None
    group: str
    advantage: float | None
    length: float | None
    scores: Mapping[str, float | None]
    weights: Mapping[str, float] = field(default_factory=dict)
    metrics: Mapping[str, float | None] = field(default_factory=dict)


def matches(columns: Mapping[str, object]) -> bool:
    """Whether this is an episode: traces of a task."""
    return {"task", "traces"} <= columns.keys()


def read(log: LogFiles, options: ReadOptions) -> Run:
    """The rewards of a log of verifiers: every one that has a weight other than 0."""
    first = log.files[0].name
    responses = [r for number, file in enumerate(log.files) for r in _responses(number, file, options)]
    expect(bool(responses), first, "a trace of an agent that is trained", "none")
    train = [response for response in responses if not response.evaluated]
    evaluations = ("the episodes of evaluations",) * (0 < len(train) < len(responses))
    responses = train or responses
    lacking = [response.where for response in responses if response.step is None]
    expect(len(lacking) in (0, len(responses)), (lacking or [first])[0], f"{STEP}, as in other lines", "none")
    has_advantage = any(response.advantage is not None for response in responses)
    weights = _weights(responses)
    scored, metrics = _names(responses, "scores"), _names(responses, "metrics")
    logged = list(dict.fromkeys((*scored, *metrics)))
    expect_width(logged, first)
    taken = next((name for name in logged if name in (STEP, GROUP, ADVANTAGE, LENGTH)), None)
    expect(taken is None, first, "rewards and metrics of other names", f"one called {taken!r}")
    expect_columns(options.names, logged, first)
    counted = tuple(name for name in scored if any(weights[name]))
    columns = Columns(
        rewards=options.rewards or counted or tuple(scored),
        step=options.step or (None if lacking else STEP),
        advantage=options.advantage or (ADVANTAGE if has_advantage else None),
        length=options.length or (LENGTH if any(response.length for response in responses) else None),
        key=options.group or GROUP,
    )
    columns = validate_columns(columns, logged, first)
    # Where its weight changes during the run, a reward is what it adds to the total.
    added = {name for name in columns.rewards if len(weights.get(name, ())) > 1}
    table = _table(responses, columns, added)
    by = ["step"] if columns.step else ["_file"]
    known = {name: 1.0 if name in added else weights[name][0] for name in columns.rewards if weights.get(name)}
    return run_of(
        log,
        "verifiers",
        Rows(
            columns=columns,
            read=lambda: batches(iter([_in_order(standard_rows(table, columns, log.files))]), by),
            keyed_by=f"the column {options.group}" if options.group else "the group or task of an episode",
            equal_groups=True,
            texts=texts_of(log.files, options.bad_lines, partial(_messages, evaluations=not train)),
        ),
        left_out=(*(name for name in logged if name not in columns.names), *evaluations),
        weights=known or None,
        weights_by="log" if known else None,
    )


def _responses(number: int, file: LogFile, options: ReadOptions) -> Iterator[_Response]:
    for line, item in objects(file, options.bad_lines):
        where = f"{file.name}, line {line}"
        try:
            episode = msgspec.convert(item, _Episode)
        except (msgspec.ValidationError, UnicodeError, OverflowError) as error:
            raise InputError(
                f"{where}: expected an episode of verifiers, got another form: {clip(str(error), 160)}"
            ) from None
        for trace in episode.traces:
            if trace.agent.trainable:
                yield _response(number, where, episode, trace)


def _messages(item: dict, evaluations: bool) -> Iterator[dict]:
    """The messages of each response of an episode; evaluations: also of one that is an evaluation's."""
    episode = msgspec.convert(item, _Episode)
    if evaluations or not episode.evaluates:
        for trace, raw in zip(episode.traces, item["traces"], strict=True):
            if trace.agent.trainable:
                yield {"messages": [node.get("message") for node in raw.get("nodes", ())]}


def _response(number: int, where: str, episode: _Episode, trace: _Trace) -> _Response:
    task = episode.task
    keys = (episode.group and episode.group.id, task.key, task.hash, task.data.id, task.data.idx)
    group = next((key for key in keys if key is not None), None)
    expect(group is not None, where, "what tells groups apart: group.id, task.key or task.data.idx", "none of them")
    rewards = {_name(name): reward or _Reward() for name, reward in trace.rewards.items()}
    for name, reward in rewards.items():
        value = next((v for v in (reward.score or 0.0, reward.weight) if not isfinite(v)), 0.0)
        missing = value != value and isfinite(reward.weight)  # a score of NaN
        expect(value == 0.0 or missing, where, f"finite numbers in the reward {name!r}", f"{value}")
    return _Response(
        file=number,
        where=where,
        evaluated=episode.evaluates,
        step=episode.work.step,
        group=repr((episode.env.id, episode.env.name, trace.agent.name, group)),
        advantage=_advantage(trace.nodes),
        length=trace.num_output_tokens,
        scores={name: reward.score for name, reward in rewards.items()},
        weights={_name(name): reward.weight for name, reward in trace.rewards.items() if reward is not None},
        metrics={_name(name): value for name, value in trace.metrics.items()},
    )


def _name(name: str) -> str:
    return as_text(name) or ""  # with half characters, which polars cannot hold, as escapes


def _advantage(nodes: list[_Node]) -> float | None:
    """The advantage of a response, which stands at each token that the model wrote; their mean where they differ."""
    values = [value for node in nodes for value in node.advantages or ()]
    if not values:
        return None
    return values[0] if len(set(values)) == 1 else sum(values) / len(values)


def _names(responses: list[_Response], part: str) -> list[str]:
    return list(dict.fromkeys(name for response in responses for name in getattr(response, part)))


def _weights(responses: list[_Response]) -> dict[str, list[float]]:
    """The weights that each reward had, one after the other; none of a reward that was never scored."""
    weights: dict[str, dict[float, None]] = {name: {} for name in _names(responses, "scores")}
    for response in responses:
        for name, weight in response.weights.items():
            weights[name][weight] = None
    return {name: list(found) for name, found in weights.items()}


def _table(responses: list[_Response], columns: Columns, added: set[str]) -> pl.DataFrame:
    """One row per response with the columns that are read; what was not scored is null."""
    own = {STEP: "step", GROUP: "group", ADVANTAGE: "advantage", LENGTH: "length"}

    def values(name: str) -> list:
        if name in own:
            return [getattr(response, own[name]) for response in responses]
        if name in added:
            return [_product(response.scores.get(name), response.weights.get(name)) for response in responses]
        return [response.scores.get(name, response.metrics.get(name)) for response in responses]

    kinds = {STEP: pl.Int64, GROUP: pl.String}
    series = {name: pl.Series(name, values(name), kinds.get(name, pl.Float64)) for name in columns.names}
    return pl.DataFrame({"_file": pl.Series([r.file for r in responses], dtype=pl.Int64), **series})


def _product(score: float | None, weight: float | None) -> float | None:
    return None if score is None or weight is None else score * weight


def _in_order(rows: pl.DataFrame) -> pl.DataFrame:
    """The rows in the order of their steps; episodes are written when they end."""
    return rows if rows["step"].is_sorted() else rows.sort("step", maintain_order=True)
