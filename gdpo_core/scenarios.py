"""Training scenarios: a title, one lesson, the arguments of `train`, and the promised verdict."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from torch import Tensor

from gdpo_core.errors import InputError, expect
from gdpo_core.policy import TrainingRun, mean_field, shape_of, train

VERDICTS = ("no difference", "GDPO faster", "GDPO slower")
FROM_MARKS = "marks"  # in place of p0: the pass rates of marked answers, which are given later
_TEXTS = ("id", "title", "verdict", "lesson")


@dataclass(frozen=True)
class Setting:
    """The arguments of `train` except the method."""

    p0: tuple[float, ...]
    scale: tuple[float, ...] | None = None
    weights: tuple[float, ...] | None = None
    noise: tuple[float, ...] | None = None
    gate: tuple[int, int] | None = None
    rollouts: int = 8
    prompts: int = 32
    epochs: int = 150
    lr: float = 0.5
    optimizer: str = "sgd"
    seeds: int = 32
    match_scale: bool = True

    @property
    def rewards(self) -> int:
        """The number of rewards, those of noise alone included."""
        return len(self.noise or self.p0)

    def train(self, method: str, progress: Callable[[int], None] | None = None) -> TrainingRun:
        """The runs of one method.

        >>> Setting((0.5, 0.5), epochs=3, seeds=2).train("gdpo").p.shape
        torch.Size([2, 4, 2])
        """
        return train(method, progress=progress, **vars(self))

    def mean_field(self, method: str) -> Tensor:
        """The infinite-group limit of one method, (epochs + 1, coins)."""
        drawn = ("rollouts", "prompts", "seeds")
        return mean_field(method, **{name: value for name, value in vars(self).items() if name not in drawn})


@dataclass(frozen=True)
class Scenario:
    """What to train, what it teaches, and how it must end."""

    id: str
    title: str
    lesson: str
    verdict: str  # one of VERDICTS
    coins: tuple[str, ...]
    setting: Setting
    from_marks: bool = False  # p0 is a stand-in for pass rates

    def at(self, rates: Sequence[float]) -> Setting:
        """The setting; one that starts from marks starts from these pass rates."""
        return replace(self.setting, p0=tuple(rates)) if self.from_marks else self.setting


def load_scenarios(path: str | Path) -> tuple[Scenario, ...]:
    """Read scenarios; InputError names the file, the entry, what was expected and what came.

    >>> [scenario.id for scenario in load_scenarios("data/scenarios.json")][:3]
    ['scales', 'equal', 'difficulty']
    """
    try:
        data = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:  # a JSON error's text names the line
        raise InputError(f"{path}: expected a readable file with JSON in UTF-8, got: {error}") from error
    expect(isinstance(data, list) and bool(data), f"{path}", "a list of scenarios", _kind(data))
    scenarios: dict[str, Scenario] = {}
    for i, entry in enumerate(data):
        scenario = _scenario(entry, f"{path}: [{i}]")
        titles = [known.title for known in scenarios.values()]
        new = scenario.id not in scenarios and scenario.title not in titles
        expect(new, f"{path}: [{i}]", "an id and a title that no earlier scenario has", repr(scenario.id))
        scenarios[scenario.id] = scenario
    return tuple(scenarios.values())


def _scenario(entry: object, where: str) -> Scenario:
    if not isinstance(entry, dict):
        raise InputError(f"{where}: expected an object, got {_kind(entry)}")
    for name in _TEXTS:
        text = entry.get(name)
        expect(isinstance(text, str) and bool(text.strip()), f"{where}.{name}", "text", repr(text))
    known = entry["verdict"] in VERDICTS
    expect(known, f"{where}.verdict", f"one of {', '.join(VERDICTS)}", repr(entry["verdict"]))
    coins = entry.get("coins")
    if not isinstance(coins, list) or not coins or not all(isinstance(coin, str) and coin.strip() for coin in coins):
        raise InputError(f"{where}.coins: expected a list of names, got {coins!r}")
    unknown = sorted(set(entry) - {*_TEXTS, "coins", "train"})
    expect(not unknown, where, f"only {', '.join(_TEXTS)}, coins and train", ", ".join(unknown))
    from_marks, setting = _setting(entry.get("train"), len(coins), f"{where}.train")
    return Scenario(
        **{name: entry[name] for name in _TEXTS}, coins=tuple(coins), setting=setting, from_marks=from_marks
    )


def _setting(given: object, coins: int, where: str) -> tuple[bool, Setting]:
    """Whether the setting starts from marks, and the setting; `train` checks the values."""
    if not isinstance(given, dict) or "p0" not in given:
        raise InputError(f"{where}: expected an object with p0, got {given!r}")
    unknown = sorted(set(given) - {field.name for field in fields(Setting)})
    expect(not unknown, where, "arguments of train", ", ".join(unknown))
    from_marks = given["p0"] == FROM_MARKS
    values: dict[str, Any] = {**given, "p0": [0.5] * coins} if from_marks else given
    try:
        arguments: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in values.items()}
        setting = Setting(**arguments)
        shape_of(setting.seeds, setting.prompts, setting.rollouts, 0)
        mean_field(
            "gdpo", **{k: v for k, v in values.items() if k not in ("rollouts", "prompts", "seeds", "epochs")}, epochs=1
        )
        shape_of(setting.epochs, 1, 1, 0)
    except InputError as error:
        raise InputError(f"{where}.{error}") from error
    expect(len(setting.p0) == coins, f"{where}.p0", f"{coins} numbers, as many as coins", len(setting.p0))
    return from_marks, setting


def _kind(value: object) -> str:
    return f"{type(value).__name__} {str(value)[:40]}"
