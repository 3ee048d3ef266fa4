"""Where the controls of Train stand: checked, as the arguments of `train`, and as a scenario has them at first."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import isfinite
from typing import Any

from gdpo_core.scenarios import COMPARISONS, Scenario, Setting
from views import trained
from views.trained import COMPARED

STARTS = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.6, 0.7, 0.85)
PAYS = (0.1, 0.3, 1.0, 3.0, 6.0, 10.0, 30.0, 100.0)
WEIGHTS = (0.0, 0.1, 0.125, 0.25, 0.5, 0.9, 1.0, 2.0, 4.0, 5.0)
ROLLOUTS, PROMPTS, SEEDS = (2, 4, 8, 16, 32), (1, 8, 16, 32, 64, 128), (4, 8, 16, 32, 64)
EPOCHS, RATES = (10, 1000), (0.01, 5.0)
NOISIEST = 10.0
OPTIMIZERS = ("sgd", "adam")
REST = 0.05  # where the conflict starts the answer that is wrong and long


@dataclass(frozen=True)
class More:
    """The controls that few need."""

    optimizer: str
    rollouts: int
    prompts: int
    seeds: int
    epochs: int
    lr: float
    noise: tuple[float, ...]  # per reward


@dataclass(frozen=True)
class State:
    """Where the controls stand; start, pays and weights are per reward."""

    scenario: str
    compare: str
    start: tuple[float, ...]  # of arms the right one's alone
    pays: tuple[float, ...]
    weights: tuple[float, ...]
    gate: bool
    more: More
    method: str = ""  # a third one beside GRPO and GDPO


def pass_rates(marks: Sequence[Sequence[int]]) -> tuple[float, ...]:
    """The share of answers that passes each mark, kept half an answer away from none and all.

    >>> pass_rates([[1, 0], [1, 0], [0, 0], [1, 0]])
    (0.75, 0.125)
    """
    edge = 0.5 / len(marks)
    return tuple(round(min(max(sum(mark) / len(mark), edge), 1 - edge), 4) for mark in zip(*marks, strict=True))


def state_of(scenario: Scenario, compare: str, method: str = "", lab: Any = None) -> State:
    """A scenario as it is given; lab: the Lab's state, where it starts from that."""
    s, ones = scenario.setting, (1.0,) * scenario.setting.rewards
    noise = s.noise or (0.0,) * s.rewards
    more = More(s.optimizer, s.rollouts, s.prompts, s.seeds, s.epochs, s.lr, noise)
    start = s.p0[:1] if s.arms else s.p0
    state = State(
        scenario.id, compare, start, s.scale or ones[: len(s.p0)], s.weights or ones, bool(s.gate), more, method
    )
    if s.arms:
        return replace(state, pays=s.scale or ones)
    if scenario.from_marks and lab is not None:
        return replace(state, start=pass_rates(lab.marks), pays=tuple(lab.pays), weights=tuple(lab.weights))
    return state


def setting_of(state: State, scenario: Scenario) -> Setting:
    """What the controls add up to."""
    own, more = scenario.setting, state.more
    p0 = (state.start[0], round(1 - REST - state.start[0], 6), REST) if own.arms else state.start
    return replace(
        own,
        p0=p0,
        scale=_unless_ones(state.pays),
        weights=_unless_ones(state.weights),
        noise=more.noise if any(more.noise) else None,
        gate=(1, 0) if state.gate else None,
        match_scale=COMPARISONS[state.compare],
        **{name: value for name, value in vars(more).items() if name != "noise"},
    )


def _unless_ones(values: Sequence[float]) -> tuple[float, ...] | None:
    return None if all(x == 1 for x in values) else tuple(values)


def checked(asked: Mapping[str, Any], scenarios: Mapping[str, Scenario]) -> State:
    """The state that the browser or a link names; ValueError, KeyError or TypeError where it is none."""
    scenario = scenarios[asked["scenario"]]
    given = state_of(scenario, str(asked["compare"]), str(asked.get("method") or ""))
    more = asked["more"]
    state = replace(
        given,
        **{name: tuple(map(float, asked[name])) for name in ("start", "pays", "weights")},
        gate=bool(asked["gate"]),
        more=More(
            str(more["optimizer"]),
            *(int(more[name]) for name in ("rollouts", "prompts", "seeds", "epochs")),
            float(more["lr"]),
            tuple(map(float, more["noise"])),
        ),
    )
    most = 1 - REST if scenario.setting.arms else 1.0
    fits = (
        state.compare in COMPARISONS
        and (state.method in extras() or not state.method)
        and all(len(getattr(state, n)) == len(getattr(given, n)) for n in ("start", "pays", "weights"))
        and len(state.more.noise) == len(given.more.noise)
        and all(0 < p < most for p in state.start)
        and all(0 < c <= PAYS[-1] for c in state.pays)
        and all(0 <= w <= 10 for w in state.weights)
        and all(0 <= std <= NOISIEST for std in state.more.noise)
        and not (scenario.setting.arms and any(state.more.noise))
        and not (state.gate and not scenario.setting.arms)
        and state.more.optimizer in OPTIMIZERS
        and 1 <= state.more.rollouts <= ROLLOUTS[-1]
        and 1 <= state.more.prompts <= PROMPTS[-1]
        and 1 <= state.more.seeds <= SEEDS[-1]
        and EPOCHS[0] <= state.more.epochs <= EPOCHS[1]
        and RATES[0] <= state.more.lr <= RATES[1]
        and all(map(isfinite, (*state.start, *state.pays, *state.weights)))
    )
    if not fits:
        raise ValueError("out of range")
    return state


def extras() -> dict[str, str]:
    """The methods that can be a third curve."""
    return {key: name for key, name in trained.names().items() if key not in COMPARED}


def methods_of(state: State) -> list[str]:
    """The methods that are trained."""
    return [*COMPARED, *([state.method] if state.method else [])]


def flat(more: More) -> tuple[float, ...]:
    """As numbers, for a link."""
    return (
        float(OPTIMIZERS.index(more.optimizer)),
        *(float(getattr(more, name)) for name in ("rollouts", "prompts", "seeds", "epochs", "lr")),
        *more.noise,
    )
