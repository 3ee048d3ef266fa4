"""Rules on the configuration of a trainer, as data: its keys, what they make run, and the traps among them.

The records stand in frameworks.toml, one table `check` and one list `traps` per trainer.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from gdpo_core._errors import expect

Severity = Literal["error", "warning", "info"]
ABOUT = ("rewards", "kl", "penalty", "filter", "log")  # what a fact is about, in the order in which they are said


@dataclass(frozen=True, kw_only=True)
class Condition:
    """A test on one key, which a configuration passes or not; of all fields besides `key` exactly one is given.

    A * in the key stands for anything, and one key that fits and passes is enough. A key that is not in the
    configuration has its default; `set` asks whether the configuration has it, and not null. Raises InputError.
    """

    key: str
    equals: Any = None
    differs: Any = None
    one_of: Sequence[Any] = ()
    not_one_of: Sequence[Any] = ()
    holds: Any = None  # what a list has among its entries
    lacks: Any = None
    like: str | None = None  # a pattern that is found in a text
    unlike: str | None = None  # one that is not
    set: bool | None = None
    above: float | None = None
    repeats: bool | None = None  # whether a list holds something twice
    longer_than: str | None = None  # another key with a list
    shorter_than: str | None = None
    several: bool | None = None  # whether a list has two entries or more

    def __post_init__(self) -> None:
        given = [name for name in self.__dataclass_fields__ if name != "key" and getattr(self, name) not in (None, ())]
        expect(len(given) == 1, f"the condition on {self.key}", "one of its tests", repr(given))


@dataclass(frozen=True, kw_only=True)
class Runs:
    """A method that runs where its conditions hold; of several records the first that holds counts.

    method: None where what runs has no name here.
    """

    when: Sequence[Condition] = ()
    method: str | None = None
    convention: str | None = None
    says: str = ""
    read_in: str = ""
    stops: bool = False  # nothing more is said: no group of answers is compared


@dataclass(frozen=True, kw_only=True)
class Fact:
    """A sentence about what reaches the advantages, the filter or the log, where its conditions hold.

    Of several facts about the same thing the first that holds is said. since, until: the first version of which it is
    true, and the first of which it is true no more. line: a line that makes a log that can be audited.
    """

    about: str
    when: Sequence[Condition] = ()
    since: str = ""
    until: str = ""
    says: str
    line: str = ""
    read_in: str = ""

    def __post_init__(self) -> None:
        expect(self.about in ABOUT, "about", f"one of {', '.join(ABOUT)}", repr(self.about))


@dataclass(frozen=True, kw_only=True)
class Trap:
    """A mistake that a configuration can hold: where it is one, since and until which version, and the line to write.

    until: the first version that has it no more. if_open: whether it is told while no version is given.
    """

    id: str
    when: Sequence[Condition]
    since: str = ""
    until: str = ""
    if_open: bool = True
    severity: Severity
    says: str
    line: str = ""
    read_in: str

    def __post_init__(self) -> None:
        expect(self.severity in get_args(Severity), "severity", "error, warning or info", repr(self.severity))


@dataclass(frozen=True, kw_only=True)
class Rules:
    """The rules on the configuration of one trainer.

    marks: patterns of the programs and calls that run it; keys: patterns of the keys that it alone has; common: keys
    that other trainers share, of which two are enough where nothing else is known; packages: names under which it is
    installed. not_keys: patterns of keys that its forks alone have, whose rules are not known.
    own_files: patterns of files of the trainer itself, which hold nothing but defaults.
    defaults: values of keys that are not given; also: today's names of keys by their older names, or today's beginning
    by the older one. rewards, weights: the keys that name the rewards and their weights.
    group_size, groups, answers: keys that say how many answers a prompt has, and how many groups or answers share a
    batch step; each entry of `answers` lists keys whose product it is, and the first whose keys are all known counts.
    """

    read_version: str = ""
    marks: Sequence[str] = ()
    keys: Sequence[str] = ()
    common: Sequence[str] = ()
    not_keys: Sequence[str] = ()
    packages: Sequence[str] = ()
    version_key: str = ""
    own_files: Sequence[str] = ()
    defaults: Mapping[str, Any] = field(default_factory=dict)
    also: Mapping[str, str] = field(default_factory=dict)
    rewards: str = ""
    weights: str = ""
    group_size: str = ""
    groups: str = ""
    answers: Sequence[Sequence[str]] = ()
    runs: Sequence[Runs] = ()
    facts: Sequence[Fact] = ()
    traps: Sequence[Trap] = ()


def rules_of(check: Mapping[str, Any], traps: Sequence[Mapping[str, Any]]) -> Rules:
    """Return the rules in the table `check` and the list `traps` of a trainer. Raises InputError."""

    def built(kind: Any, record: Mapping[str, Any]) -> Any:
        return kind(**dict(record) | {"when": tuple(Condition(**condition) for condition in record.get("when", ()))})

    runs = tuple(built(Runs, record) for record in check.get("runs", ()))
    facts = tuple(built(Fact, record) for record in check.get("facts", ()))
    return Rules(
        **dict(check) | {"runs": runs, "facts": facts, "traps": tuple(built(Trap, record) for record in traps)}
    )
