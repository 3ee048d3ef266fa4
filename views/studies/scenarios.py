"""Training scenarios: each has a title, a lesson, the arguments of `train`, and the verdict that it promises.

The policy consists of coins, or, where the set-up has `arms`, it is a softmax over a few answers, of which the first is
right. The functions here load scenarios from a file, and give the verdict on the runs of GRPO and GDPO.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import inf
from pathlib import Path
from typing import Annotated, Any, Literal, cast

import msgspec
import numpy as np

from gdpo_core.shared.errors import InputError, expect
from gdpo_core.shared.json_files import as_type, read_json
from gdpo_core.training import Setup, TrainingRun

LEARNT = 0.9  # a coin counts as learnt if it falls on 1 at least this often, an answer if it is given this often
# Two medians count as equal if they are at most ALIKE_EPOCHS epochs, or at most ALIKE_SHARE of the larger one, apart.
# They do not if one of them is ALIKE_TIMES the other or more.
ALIKE_EPOCHS, ALIKE_SHARE, ALIKE_TIMES = 2, 0.05, 1.5
# The verdicts on coins.
VERDICTS = NO_DIFFERENCE, FASTER, SLOWER, NEITHER = "no difference", "GDPO faster", "GDPO slower", "neither gets there"
# The verdicts on arms.
ENDS = ("right under both", "right under neither", "right under GDPO alone", "right under GRPO alone")
FROM_MARKS = "marks"  # stands in place of p0 where training starts from the pass rates of marked answers, given later
_Text = Annotated[str, msgspec.Meta(min_length=1)]
Comparison = Literal["equal", "published", "neither"]  # the keys of COMPARISONS


@dataclass(frozen=True)
class Scenario:
    """A scenario: what to train, what it teaches, and with which verdict it must end.

    Raises InputError for a verdict that is not known and for arguments with which nothing can be trained.
    """

    id: _Text
    title: _Text
    lesson: _Text
    verdict: _Text  # one of VERDICTS, or of ENDS for arms
    coins: Annotated[tuple[_Text, ...], msgspec.Meta(min_length=1)]  # the names of the coins or arms
    train: dict[str, Any]  # the arguments of `train`
    # By comparison: the verdict, and the lesson, under that comparison where they differ from `verdict` and `lesson`.
    verdicts: dict[Comparison, _Text] = field(default_factory=dict)
    lessons: dict[Comparison, _Text] = field(default_factory=dict)

    def __post_init__(self) -> None:
        known = ENDS if self.setup.arms else VERDICTS
        for promise in (self.verdict, *self.verdicts.values()):
            expect(promise in known, "verdict", f"one of {', '.join(known)}", repr(promise))

    @property
    def from_marks(self) -> bool:
        """Whether training starts from the pass rates of marked answers, which are given to `at` later.

        Until then `setup` has 0.5 for each pass rate.
        """
        return self.train.get("p0") == FROM_MARKS

    @cached_property
    def setup(self) -> Setup:
        """The arguments of `train` as a `Setup`, after checking them.

        Raises InputError for a name that is no argument of `train`, for another number of probabilities than of coins,
        and for values with which nothing can be trained.
        """
        unknown = set(self.train) - set(Setup.__dataclass_fields__)
        expect(not unknown, "train", "arguments of train", ", ".join(sorted(unknown)))
        many = len(self.coins)
        arguments = self.train | {"p0": [0.5] * many} if self.from_marks else self.train
        setup = replace(as_type(arguments, Setup, "train"))  # msgspec leaves the defaults out of vars()
        expect(len(setup.p0) == many, "train.p0", f"{many} numbers, as many as coins", len(setup.p0))
        try:
            setup.policy()
            setup.check()
        except InputError as error:
            raise InputError(f"train.{error}") from error
        return setup

    def lesson_of(self, comparison: str) -> str:
        """Return the lesson under a comparison, a key of COMPARISONS: its own in `lessons`, or else `lesson`."""
        return self.lessons.get(cast(Any, comparison), self.lesson)

    def at(self, rates: Sequence[float]) -> Setup:
        """Return the set-up with `rates` as its starting pass rates, or unchanged if the scenario has its own."""
        return replace(self.setup, p0=tuple(rates)) if self.from_marks else self.setup


def medians(run: TrainingRun) -> list[float]:
    """Return for each coin or arm the lower median over seeds of the epoch at which its probability reaches LEARNT.

    A seed in which the probability never gets there counts as infinity.
    """
    return run.steps_to(LEARNT).median(0).values.tolist()


def alike(a: float, b: float) -> bool:
    """Return whether two medians of epochs are so close to each other that they count as equal.

    They do if two things hold. The first is that they are at most ALIKE_EPOCHS epochs apart, or at most ALIKE_SHARE of
    the larger one. The second is that the larger one is less than ALIKE_TIMES the smaller. Two equal numbers always do,
    infinity included.

    >>> alike(100, 105), alike(100, 107), alike(18, 20), alike(2, 4), alike(inf, 3)
    (True, False, True, False, False)
    """
    if a == b:
        return True
    few, many = sorted((a, b))
    return many < min(inf, ALIKE_TIMES * few) and many - few <= max(ALIKE_EPOCHS, ALIKE_SHARE * many)


def verdict_on_coins(grpo: Sequence[float], gdpo: Sequence[float]) -> str:
    """Return one of VERDICTS on the epochs at which two methods have learnt the slowest of their coins.

    The verdict is NEITHER if neither method learns its slowest coin, and NO_DIFFERENCE if both do about as fast
    (`alike`). Otherwise it says whether GDPO is FASTER or SLOWER.

    grpo: for each coin the median epoch at which GRPO has learnt it, infinity if it never does.
    gdpo: the same under GDPO.

    >>> verdict_on_coins([37, 14], [20, 20]), verdict_on_coins([inf, 14], [inf, 20])
    ('GDPO faster', 'neither gets there')
    """
    a, b = max(grpo), max(gdpo)
    if a == b == inf:
        return NEITHER
    return NO_DIFFERENCE if alike(a, b) else FASTER if b < a else SLOWER


def verdict_on_arms(grpo: float, gdpo: float) -> str:
    """Return one of ENDS, which says under which methods the right answer's probability reaches LEARNT.

    grpo: that probability after the last epoch under GRPO, the median over seeds.
    gdpo: the same under GDPO.

    >>> verdict_on_arms(0.3, 0.99)
    'right under GDPO alone'
    """
    right = grpo >= LEARNT, gdpo >= LEARNT
    return ENDS[{(True, True): 0, (False, False): 1, (False, True): 2, (True, False): 3}[right]]


def training_verdict(runs: Mapping[str, TrainingRun], arms: bool = False) -> str:
    """Return how the runs of "grpo" and "gdpo" ended: one of ENDS for arms and one of VERDICTS for coins.

    runs: by method, its runs.
    arms: whether the policy chooses between a few answers, its arms; else it draws coins.
    """
    if arms:
        return verdict_on_arms(*(runs[m].p[:, -1, 0].median().item() for m in ("grpo", "gdpo")))
    return verdict_on_coins(*(medians(runs[m]) for m in ("grpo", "gdpo")))


def load_scenarios(path: str | Path) -> tuple[Scenario, ...]:
    """Return the scenarios in a JSON file.

    Raises InputError if an entry is no scenario, if the file holds none, or if two scenarios have one id or title. The
    error names the file, the entry, what was expected and what came.

    >>> [scenario.id for scenario in load_scenarios("data/scenarios.json")][:3]
    ['scales', 'equal', 'difficulty']
    """
    scenarios = read_json(path, tuple[Scenario, ...])
    for names in ([scenario.id for scenario in scenarios], [scenario.title for scenario in scenarios]):
        expect(0 < len(set(names)) == len(names), str(path), "scenarios of an id and title each", ", ".join(names))
    return scenarios


def train_probabilities(setup: Setup, method: str, limit: bool) -> np.ndarray:
    """Return the probabilities of a set-up's coins or arms by epoch, trained by one method. Raises InputError.

    limit: False returns the runs of all seeds, (seeds, epochs + 1, coins or arms). True returns the infinite-group
        limit in their place, (epochs + 1, coins or arms).
    """
    return (setup.mean_field(method) if limit else setup.train(method).p).numpy()
