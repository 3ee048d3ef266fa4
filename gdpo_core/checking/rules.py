"""What is known of the configuration of a trainer, as data: its keys, what they make run, and the traps among them.

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
    """What must hold of one key; a * in it stands for anything, and one such key is enough. Of the others one is given.

    A key that is not in the configuration has its default; `set` asks whether the configuration has it, and not null.
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
    """A method that runs where its conditions hold; of several the first. None: no method that has a name here."""

    when: Sequence[Condition] = ()
    method: str | None = None
    convention: str | None = None
    says: str = ""
    read_in: str = ""
    stops: bool = False  # nothing more is said: no group of answers is compared


@dataclass(frozen=True, kw_only=True)
class Fact:
    """A sentence about what reaches the advantages, the filter or the log, where its conditions hold.

    Of several about the same the first that holds is said, of versions from `since` on and before `until`. line: what
    makes a log that can be audited.
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
    """What is known of the configuration of one trainer.

    marks: patterns of the programs that it is; keys: of the keys that it alone has; common: keys that other trainers
    share, of which two are enough where nothing else is known; packages: names under which it is installed.
    not_keys: of keys that its forks have alone, whose rules are not known.
    own_files: patterns of files of the trainer itself, which hold nothing but defaults.
    defaults: of keys that are not given; also: older names of keys, or of what they begin with.
    group_size, groups, answers: how many answers a prompt has, how many groups or answers share a batch step; of
    `answers` each entry is a list of keys whose product it is, and the first whose keys are all known counts.
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
    """Return the rules in the tables of a trainer."""

    def built(kind: Any, record: Mapping[str, Any]) -> Any:
        return kind(**dict(record) | {"when": tuple(Condition(**condition) for condition in record.get("when", ()))})

    runs = tuple(built(Runs, record) for record in check.get("runs", ()))
    facts = tuple(built(Fact, record) for record in check.get("facts", ()))
    return Rules(
        **dict(check) | {"runs": runs, "facts": facts, "traps": tuple(built(Trap, record) for record in traps)}
    )
