"""Classes for the rules on a trainer's configuration: its keys, what they make run, and its traps.

`rules_of` builds them from the table `check` and the list `traps` of a trainer in frameworks.toml.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from gdpo_core.shared.errors import expect

Severity = Literal["error", "warning", "info"]
Ends = Literal["", "start", "update"]
ABOUT = (
    "rewards",
    "kl",
    "penalty",
    "filter",
    "loss",
    "log",
)  # what a fact can be about, in the order in which facts are said


@dataclass(frozen=True, kw_only=True)
class Condition:
    """A test on the value of one key, which a configuration passes or not.

    Exactly one field besides `key` is given; it is the test. A * in the key stands for any text. Then it is enough that
    one of the keys that fit passes the test. A key that is not in the configuration has its default.

    key: the key whose value is tested. "answers" and "answers_of_a_process" are the number of answers in a batch, which
        the check computes where the configuration tells every factor of it, or all but the number of processes.
    equals: the value that the key must have.
    differs: a value that it must not have.
    one_of: values of which it must have one.
    not_one_of: values of which it must have none.
    holds: an entry that a list must have.
    lacks: an entry that a list must not have.
    like: a regular expression that must be found in the value.
    unlike: a regular expression that must not be found in the value.
    set: True if the key must be there and not null, False if it must not. If it is False and the key has a *, no key
        may fit.
    above: the number that the value must exceed.
    repeats: True if a list must hold something twice, False if it must not.
    longer_than: another key; its list must be shorter than the list of `key`.
    shorter_than: another key; its list must be longer than the list of `key`.
    several: True if a list must have two entries or more, False if it must not.
    even: the key of the weights of the rewards that `key` names. There must be one reward, or two whose weights have
        one size. If such rewards have a constant sum in a group, each is constant there or they mirror each other, so
        that GDPO's sum is 0 too. If it is `key` itself, the sum is taken as one without weights, and GDPO's weights
        must be the same. The test fails if names or weights cannot be told.
    uneven: the same key; there must be three rewards or more, or two whose weights differ in size. The test fails if
        names or weights cannot be told.
    no_multiple_of: another key, whose value must not divide the value of `key`.

    Raises InputError if none or several tests are given.
    """

    key: str
    equals: Any = None
    differs: Any = None
    one_of: Sequence[Any] = ()
    not_one_of: Sequence[Any] = ()
    holds: Any = None  # an entry that a list must have
    lacks: Any = None  # an entry that a list must not have
    like: str | None = None  # a regular expression that must be found in the value
    unlike: str | None = None  # a regular expression that must not be found in it
    set: bool | None = None  # whether the key must be there and not null
    above: float | None = None
    repeats: bool | None = None  # whether a list must hold something twice
    longer_than: str | None = None  # another key, whose list must be shorter
    shorter_than: str | None = None
    several: bool | None = None  # whether a list must have two entries or more
    even: str | None = None  # the key of the weights, with which a constant sum can hide nothing from GDPO
    uneven: str | None = None  # the key of the weights, with which it can
    no_multiple_of: str | None = None  # another key, whose value must not divide this one

    def __post_init__(self) -> None:
        given = [name for name in self.__dataclass_fields__ if name != "key" and getattr(self, name) not in (None, ())]
        expect(len(given) == 1, f"the condition on {self.key}", "one of its tests", repr(given))


@dataclass(frozen=True, kw_only=True)
class Runs:
    """A record on what a trainer runs where the conditions `when` hold; of several records the first that holds counts.

    method: the id of the method that runs, None where gdpo has no id for it.
    convention: the id of the convention by which the method is computed, None for the paper's.
    name: what runs where gdpo has no id for it, in a few words; "" where that was not read.
    says: a sentence about what runs.
    read_in: the place in the trainer's code where it was read.
    stops: whether the check then reports only the trainer, the method, the traps and what it could not read. This is so
        if what runs compares no group of answers, or was not read.
    """

    when: Sequence[Condition] = ()
    method: str | None = None
    convention: str | None = None
    name: str = ""
    says: str = ""
    read_in: str = ""
    stops: bool = False


@dataclass(frozen=True, kw_only=True)
class Fact:
    """A sentence about a subject of a trainer, such as its filter or its log, and when it is true.

    about: the subject, one of ABOUT.
    when: the conditions under which the sentence is true. Of several facts on one subject, the first whose conditions
        hold is used.
    since: the first version of the trainer of which the sentence is true; "" means no bound.
    until: the first version of which it is no longer true; "" means no bound.
    says: the sentence.
    line: a line of configuration with which the trainer writes a log that can be audited, "" for none.
    read_in: the place in the trainer's code where the fact was read.
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
    """A mistake that a configuration can hold, and when it does: where all conditions `when` hold.

    since: the first version of the trainer with the trap; "" means no bound.
    until: the first version without it; "" means no bound.
    if_open: whether a trap with a bound is reported where the version is not known.
    severity: one of "error", "warning" and "info".
    ends: "start" if the trainer refuses to start, "update" if an error ends the run before the first update, as after
        the first rollouts, and "" if the run goes on.
    says: what happens.
    line: the line of configuration to write instead.
    read_in: the place in the trainer's code or documents where the trap was read.
    """

    id: str
    when: Sequence[Condition]
    since: str = ""
    until: str = ""
    if_open: bool = True
    severity: Severity
    ends: Ends = ""
    says: str
    line: str = ""
    read_in: str

    def __post_init__(self) -> None:
        expect(self.severity in get_args(Severity), "severity", "error, warning or info", repr(self.severity))
        expect(self.ends in get_args(Ends), "ends", "start or update", repr(self.ends))


@dataclass(frozen=True, kw_only=True)
class Rules:
    """The rules on the configurations of one trainer: how they are recognised, what their keys mean, what can be wrong.

    read_version: the version in which the rules were read.
    marks: regular expressions for the programs and calls that run the trainer.
    keys: patterns of keys that only this trainer has.
    common: keys that it shares with other trainers. Two of them are enough where nothing else tells the trainer.
    decisive: names of its keys, without sections, that no rule reads although they sound as if they decided a value. A
        key that sounds so and is not among them counts as a fork's. Empty for verl, all of whose keys are known.
    not_keys: patterns of keys that only its forks have. The rules of the forks are not known.
    packages: names under which the trainer is installed.
    version_key: the key whose value is the trainer's version.
    own_files: regular expressions for files of the trainer itself, which hold nothing but defaults.
    defaults: the values of keys that are not given.
    also: for each older name of a key, today's name. A name with a dot at its end is the beginning of names, and gives
        today's beginning.
    rewards: the key that names the rewards.
    weights: the key with their weights.
    group_size: the key with the number of answers to a prompt.
    groups: the key with the number of groups that share a batch step.
    answers: lists of keys. The product of the values of a list is the number of answers that share a batch step. The
        first list counts in which all keys have known values; an unknown number of processes counts as 1.
    runs: which method the trainer runs under which conditions.
    facts: sentences that are true under conditions.
    traps: mistakes that a configuration can hold.
    """

    read_version: str = ""
    marks: Sequence[str] = ()
    keys: Sequence[str] = ()
    common: Sequence[str] = ()
    decisive: Sequence[str] = ()
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
    """Return the `Rules` of one trainer, built from its table `check` and from its list `traps`.

    Raises InputError for a condition without exactly one test, for a fact about something that is not in ABOUT, and for
    a trap of unknown severity or end.
    """

    def built(kind: Any, record: Mapping[str, Any]) -> Any:
        return kind(**dict(record) | {"when": tuple(Condition(**condition) for condition in record.get("when", ()))})

    runs = tuple(built(Runs, record) for record in check.get("runs", ()))
    facts = tuple(built(Fact, record) for record in check.get("facts", ()))
    return Rules(
        **dict(check) | {"runs": runs, "facts": facts, "traps": tuple(built(Trap, record) for record in traps)}
    )


def today(key: str, rules: Rules) -> str:
    """Return the name that a key has today.

    It is the key itself, unless the key, or the section that it begins with, has been renamed since.
    """
    for old, new in rules.also.items():
        if key == old or (old.endswith(".") and key.startswith(old)):
            return new + key[len(old) :] if old.endswith(".") else new
    return key
