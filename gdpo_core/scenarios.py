"""Training scenarios: a title, one lesson, the arguments of `train`, and the promised verdicts.

The policy is one of coins, or, where the setting has `arms`, a softmax over a few answers of which the first is right.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from math import inf
from pathlib import Path
from typing import Any

from torch import Tensor

from gdpo_core.errors import InputError, expect
from gdpo_core.training import PUBLISHED, Options, TrainingRun, mean_field, mean_field_arms, train, train_arms

LEVEL = 0.9  # a coin that falls on 1, or an answer that is given, at least this often is learnt
ALIKE_EPOCHS, ALIKE_SHARE = 2, 0.05  # medians that are no further apart count as equal
VERDICTS = ("no difference", "GDPO faster", "GDPO slower", "neither gets there")  # on coins
ENDS = ("right under both", "right under neither", "right under GDPO alone", "right under GRPO alone")  # on arms
COMPARISONS: dict[str, bool | str] = {
    "equal": True,
    "published": PUBLISHED,
    "neither": False,
}  # the match_scale of each
FROM_MARKS = "marks"  # in place of p0: the pass rates of marked answers, which are given later
_TEXTS = ("id", "title", "verdict", "lesson")
_PER_COMPARISON = ("verdicts", "lessons")


@dataclass(frozen=True)
class Setting:
    """The arguments of `train` except the method; with arms, those of `train_arms`."""

    p0: tuple[float, ...]
    arms: tuple[tuple[float, ...], ...] | None = None  # (arms, rewards) what each answer is paid, times the scale
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
    match_scale: bool | str = True

    @property
    def rewards(self) -> int:
        """The number of rewards, those of noise alone included."""
        return len(self.arms[0] if self.arms else self.noise or self.p0)

    @property
    def comparison(self) -> str:
        """The name of its match_scale."""
        return next(name for name, match in COMPARISONS.items() if match == self.match_scale)

    def compared(self, comparison: str) -> "Setting":
        """The same under another comparison."""
        return replace(self, match_scale=COMPARISONS[comparison])

    def train(self, method: str, progress: Callable[[int], None] | None = None) -> TrainingRun:
        """The runs of one method.

        >>> Setting((0.5, 0.5), epochs=3, seeds=2).train("gdpo").p.shape
        torch.Size([2, 4, 2])
        """
        return self._policy(train, train_arms)(method, progress=progress)

    def mean_field(self, method: str) -> Tensor:
        """The infinite-group limit of one method, (epochs + 1, coins)."""
        return self._policy(mean_field, mean_field_arms, ("rollouts", "prompts", "seeds"))(method)

    def _policy(self, of_coins: Callable, of_arms: Callable, without: Sequence[str] = ()) -> Callable:
        """The function for this policy with its arguments, except the method."""
        apart = {"arms", *(("scale", "noise") if self.arms else ()), *without}
        given = {name: value for name, value in vars(self).items() if name not in apart}
        if self.arms is None:
            return partial(of_coins, **given)
        return partial(of_arms, rewards=self.paid, **given)

    @property
    def paid(self) -> list[list[float]]:
        """(arms, rewards) what each answer is paid."""
        scale = self.scale or (1,) * self.rewards
        return [[pay * times for pay, times in zip(row, scale, strict=True)] for row in self.arms or ()]


@dataclass(frozen=True)
class Scenario:
    """What to train, what it teaches, and how it must end."""

    id: str
    title: str
    lesson: str
    verdict: str  # one of VERDICTS, of arms one of ENDS
    coins: tuple[str, ...]  # or arms
    setting: Setting
    from_marks: bool = False  # p0 is a stand-in for pass rates
    verdicts: Mapping[str, str] = field(default_factory=dict)  # per comparison, where it is another
    lessons: Mapping[str, str] = field(default_factory=dict)

    def verdict_of(self, comparison: str) -> str:
        """The verdict that it promises under this comparison."""
        return self.verdicts.get(comparison, self.verdict)

    def lesson_of(self, comparison: str) -> str:
        """What to learn from it under this comparison."""
        return self.lessons.get(comparison, self.lesson)

    def at(self, rates: Sequence[float]) -> Setting:
        """The setting; one that starts from marks starts from these pass rates."""
        return replace(self.setting, p0=tuple(rates)) if self.from_marks else self.setting


def medians(run: TrainingRun, level: float = LEVEL) -> list[float]:
    """Per coin or arm, the (lower) median over seeds of the epoch at which it reaches the level; infinity for never."""
    return run.steps_to(level).median(0).values.tolist()


def alike(a: float, b: float) -> bool:
    """Whether two medians count as equal.

    >>> alike(100, 105), alike(100, 107), alike(18, 20), alike(inf, 3)
    (True, False, True, False)
    """
    return a == b or (max(a, b) < inf and abs(a - b) <= max(ALIKE_EPOCHS, ALIKE_SHARE * max(a, b)))


def verdict_on_coins(grpo: Sequence[float], gdpo: Sequence[float]) -> str:
    """One of VERDICTS, by the medians of each method's slowest coin.

    >>> verdict_on_coins([37, 14], [20, 20]), verdict_on_coins([inf, 14], [inf, 20])
    ('GDPO faster', 'neither gets there')
    """
    a, b = max(grpo), max(gdpo)
    if a == b == inf:
        return VERDICTS[3]
    return VERDICTS[0] if alike(a, b) else VERDICTS[1 if b < a else 2]


def verdict_on_arms(grpo: float, gdpo: float) -> str:
    """One of ENDS, by each method's last probability of the right answer, the median over seeds.

    >>> verdict_on_arms(0.3, 0.99)
    'right under GDPO alone'
    """
    right = grpo >= LEVEL, gdpo >= LEVEL
    return ENDS[{(True, True): 0, (False, False): 1, (False, True): 2, (True, False): 3}[right]]


def verdict(runs: Mapping[str, TrainingRun], arms: bool = False) -> str:
    """How the runs of "grpo" and "gdpo" ended."""
    if arms:
        return verdict_on_arms(*(runs[m].p[:, -1, 0].median().item() for m in ("grpo", "gdpo")))
    return verdict_on_coins(*(medians(runs[m]) for m in ("grpo", "gdpo")))


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
    coins = entry.get("coins")
    if not isinstance(coins, list) or not coins or not all(isinstance(coin, str) and coin.strip() for coin in coins):
        raise InputError(f"{where}.coins: expected a list of names, got {coins!r}")
    unknown = sorted(set(entry) - {*_TEXTS, *_PER_COMPARISON, "coins", "train"})
    expect(not unknown, where, f"only {', '.join((*_TEXTS, *_PER_COMPARISON))}, coins and train", ", ".join(unknown))
    from_marks, setting = _setting(entry.get("train"), len(coins), f"{where}.train")
    verdicts, lessons = (_per_comparison(entry.get(name, {}), f"{where}.{name}") for name in _PER_COMPARISON)
    known = ENDS if setting.arms else VERDICTS
    promised = {f"verdicts.{comparison}": said for comparison, said in verdicts.items()}
    for name, said in {"verdict": entry["verdict"], **promised}.items():
        expect(said in known, f"{where}.{name}", f"one of {', '.join(known)}", repr(said))
    return Scenario(
        **{name: entry[name] for name in _TEXTS},
        coins=tuple(coins),
        setting=setting,
        from_marks=from_marks,
        verdicts=verdicts,
        lessons=lessons,
    )


def _per_comparison(given: object, where: str) -> dict[str, str]:
    if not isinstance(given, dict) or not set(given) <= set(COMPARISONS):
        raise InputError(f"{where}: expected an object with some of {', '.join(COMPARISONS)}, got {_kind(given)}")
    for name, text in given.items():
        expect(isinstance(text, str) and bool(text.strip()), f"{where}.{name}", "text", repr(text))
    return given


def _setting(given: object, coins: int, where: str) -> tuple[bool, Setting]:
    """Whether the setting starts from marks, and the setting; `train` checks the values."""
    if not isinstance(given, dict) or "p0" not in given:
        raise InputError(f"{where}: expected an object with p0, got {given!r}")
    unknown = sorted(set(given) - {field.name for field in fields(Setting)})
    expect(not unknown, where, "arguments of train", ", ".join(unknown))
    from_marks = given["p0"] == FROM_MARKS
    values: dict[str, Any] = {**given, "p0": [0.5] * coins} if from_marks else given
    try:
        setting = Setting(**{name: _frozen(value) for name, value in values.items()})
        Options(
            **{field.name: getattr(setting, field.name) for field in fields(Options) if hasattr(setting, field.name)}
        )
        replace(setting, epochs=1).mean_field("gdpo")
    except InputError as error:
        raise InputError(f"{where}.{error}") from error
    expect(len(setting.p0) == coins, f"{where}.p0", f"{coins} numbers, as many as coins", len(setting.p0))
    return from_marks, setting


def _frozen(value: Any) -> Any:
    return tuple(map(_frozen, value)) if isinstance(value, list) else value


def _kind(value: object) -> str:
    return f"{type(value).__name__} {str(value)[:40]}"
