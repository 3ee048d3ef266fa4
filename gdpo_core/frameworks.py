"""Training frameworks, a record for each: its conventions, the form of its log and the templates of its configuration.

The records stand in frameworks.toml, as do those of trainers without GDPO. The classes here say what each of their keys
is, and the functions find a framework by its name.
"""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from functools import reduce
from operator import or_
from pathlib import Path
from typing import Any

from gdpo_core.checking.rules import Rules, rules_of
from gdpo_core.conventions import PAPER, Convention
from gdpo_core.shared.errors import InputError


@dataclass(frozen=True, kw_only=True)
class _Lines:
    """Templates for lines of a framework's configuration; `config_lines` fills in $weights, $rewards and others.

    A template is None where the framework has no such line.

    switch_to_gdpo: makes a run use GDPO.
    with_size: the text for $with_size in `switch_to_gdpo`, if the group size is known.
    with_batch: the text for $with_batch in `switch_to_gdpo`, which sets a batch of whole groups.
    switch_to_other: makes a run use another method than GDPO.
    options: by method, the text for $option in `switch_to_other`. A method without such a text cannot be set. If
        options is None, the text is the method's name.
    set_weights: sets the weights.
    set_grpo_weights: sets the weights of the methods other than GDPO; if None, `set_weights` does.
    log_every_step: makes the log hold every step.
    log_rewards: makes the log hold each reward and not only their total.
    log_whole_groups: makes the log hold every response of a group.
    gate: makes a reward count only where another one is passed.
    gate_to: does so if the reward gets another value than 0 elsewhere; if None, `gate` does.
    """

    switch_to_gdpo: str
    with_size: str = ""
    with_batch: str = ""
    switch_to_other: str
    options: Mapping[str, str] | None = None
    set_weights: str
    set_grpo_weights: str | None = None
    # makes the log hold every step; None: no setting of the framework leaves steps out
    log_every_step: str | None = None
    # makes the log hold each reward; None: no setting of the framework does it, so the user's own code has to
    log_rewards: str | None = None
    keep_groups: str | None = None  # turns off the filter for groups whose summed reward is constant
    own_name: str | None = None  # gives a second reward function of the same name its own column in the log
    no_evaluation: str | None = None  # keeps evaluations out of the log
    # makes the log hold whole groups; None: no setting of the framework makes the log a sample
    log_whole_groups: str | None = None
    gate: str
    gate_to: str | None = None


@dataclass(frozen=True, kw_only=True)
class Framework:
    """A training framework: its formulas, its log, its configuration, and what its users should know.

    >>> FRAMEWORKS["verl"].title, FRAMEWORKS["verl"].convention
    ('verl', 'verl')
    """

    id: str  # the name of its table; the reader of its log has it too, unless `read_as` names another one
    title: str  # its name as a text shows it
    aliases: Sequence[str] = ()  # other names that `framework=` takes

    # Its formulas.
    conventions: Mapping[str, Convention] = field(default_factory=dict)  # its own, by their keys in CONVENTIONS
    convention: str  # the key of the convention that it has unless the log shows otherwise
    found_in_logs: Mapping[str, Convention] = field(default_factory=dict)  # others that may have made its logs
    # keys of the conventions to compare its logs with, the likeliest first; "*": all others; empty: `convention` alone
    tries: Sequence[str] = ()

    # Its log.
    read_as: str = ""  # the id of the framework whose log its own looks like; "": its log has a form of its own
    log_title: str = ""  # the title of such a log, where several frameworks write it; "": `title`
    log_format: str = "jsonl"  # or parquet
    log_files: str = ""  # a regular expression that the names of the log's files match
    total_only_because: str = ""  # a sentence on why a log holds the total of the rewards alone, and what to do

    # Facts that the findings rest on.
    logs_last_batch: bool = False  # whether it logs only the last batch of `logging_steps` and drops those before
    # whether a column of the log is named after the reward function, so that two of one name become one column
    column_per_function: bool = False
    evaluation_overwrites: bool = False  # whether an evaluation writes into the file of its step
    # whether its GRPO reads the score alone, the total that a reward function returns beside the rewards
    grpo_reads_score_alone: bool = False
    zero_std_metric: str | None = None  # the metric that has the share of groups whose summed reward is constant
    # whether that metric is computed from the whole batch, not from each group, if the method normalises over the batch
    zero_std_over_batch: bool = False
    # the option that turns on a filter for groups whose summed reward is constant, under GDPO too
    filter_option: str | None = None
    not_gdpo_because: str = ""  # a sentence on why its GDPO may not have run though it was asked for

    # Its configuration.
    lines: _Lines  # templates of the lines that set a method, weights or a gate
    rules: Rules | None = None  # what `gdpo check` knows of its configurations

    # Where and how to use it.
    version: str  # which versions have GDPO, in words
    read_in: str = ""  # the places where the version and the lines were read
    read_on: date  # the day on which these places and those of the notes were opened
    log_place: str  # where its log lies
    proof: str  # how to make sure that GDPO ran
    documentation: str = ""  # the address of its page on GRPO
    notes: Sequence[Sequence[str]] = ()  # sentences for its users, each with the place where it was read

    @property
    def facts(self) -> list[tuple[str, str]]:
        """Pairs of a sentence for users and the place where it was read.

        The first pair says which version has GDPO, if a place is known for that; the notes follow.

        >>> FRAMEWORKS["verifiers"].facts[-1]
        ('Its log keeps four decimals of an advantage.', 'verifiers==0.4.0 verifiers/v1/graph.py:191')
        """
        version = [(f"GDPO needs {self.title} {self.version}.", self.read_in)] if self.read_in else []
        return [*version, *((says, read_in) for says, read_in in self.notes)]

    @property
    def conventions_to_try(self) -> tuple[str, ...]:
        """The keys of the conventions that may have made the framework's log, the likeliest first.

        >>> FRAMEWORKS["nemo_rl"].conventions_to_try
        ('nemo_rl_loo', 'nemo_rl')
        """
        tries = self.tries or (self.convention,)
        remaining = [key for key in ALL_CONVENTIONS if key not in tries]
        return tuple(key for tried in tries for key in (remaining if tried == "*" else [tried]))


@dataclass(frozen=True, kw_only=True)
class WithoutGdpo:
    """A trainer without GDPO: the formula that it uses instead, which was read in its code and not run.

    method: the id of the method of this formula.
    convention: the convention of this formula.
    says: a sentence on the formula.
    read_in: the place where it was read.
    read_on: the day on which it was read.
    cells: by the name of a case in conformance/, a text on what the trainer does there. Only cases in which the trainer
        does not follow the formula are in it.

    >>> WITHOUT_GDPO["Tinker"].method
    'grpo_no_std'
    """

    method: str
    convention: Convention
    says: str
    read_in: str
    read_on: date
    cells: Mapping[str, str]  # by case of conformance/, what it does where it does not follow that formula


class _ById(dict[str, Framework]):
    """Frameworks by their ids, where looking up an id that none has raises an InputError with the known ones."""

    def __getitem__(self, key: str) -> Framework:
        """Return the framework of this id. Raises InputError, also for a key that no dict can hold, such as a list."""
        return super().__getitem__(key) if isinstance(key, str) else self.__missing__(key)

    def __missing__(self, key: str) -> Framework:
        """Raise the InputError for an id that no framework has."""
        raise InputError(f"framework: expected one of {', '.join(self)}, got {key!r}")


def _framework(key: str, record: dict[str, Any]) -> Framework:
    """Return the framework that a table of frameworks.toml describes.

    key: the name of the table, which becomes the framework's id.
    record: the entries of the table, which this changes.
    """
    for name in ("conventions", "found_in_logs"):
        record[name] = {convention: Convention(**values) for convention, values in record.get(name, {}).items()}
    check, traps = record.pop("check", None), record.pop("traps", ())
    rules = None if check is None else rules_of(check, traps)
    return Framework(id=key, **record | {"lines": _Lines(**record["lines"]), "rules": rules})


_TABLES = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
WITHOUT_GDPO: Mapping[str, WithoutGdpo] = {
    title: WithoutGdpo(**table | {"convention": Convention(**table["convention"])})
    for title, table in _TABLES.pop("without_gdpo").items()
}
FRAMEWORKS: Mapping[str, Framework] = _ById({key: _framework(key, table) for key, table in _TABLES.items()})
CONVENTIONS: Mapping[str, Convention] = reduce(or_, (f.conventions for f in FRAMEWORKS.values()), {"paper": PAPER})
# All of CONVENTIONS, and those that nobody chooses but that may have made a log.
ALL_CONVENTIONS = reduce(or_, (f.found_in_logs for f in FRAMEWORKS.values()), CONVENTIONS)
TRL, VERL, MS_SWIFT = (CONVENTIONS[key] for key in ("trl", "verl", "ms_swift"))
NEMO_RL, NEMO_RL_LOO = CONVENTIONS["nemo_rl"], CONVENTIONS["nemo_rl_loo"]
AXOLOTL_ASYNC, NVLABS_TRL = CONVENTIONS["axolotl_async"], ALL_CONVENTIONS["nvlabs_trl"]
AXOLOTL_STREAMING = ALL_CONVENTIONS["axolotl_streaming"]
READABLE = tuple(f.id for f in FRAMEWORKS.values() if not f.read_as)  # the frameworks whose form of a log has a reader


def framework_named(name: object) -> str:
    """Return the id under which the logs of a framework are read, given its name.

    The name is an id or an alias of a framework. The result is the id of that framework or, if its log looks like the
    log of another framework (`read_as`), the id of the other one. Case does not matter, and a hyphen or a blank in the
    name counts as an underscore. Raises InputError for a name that is not known.

    >>> framework_named("MS-Swift"), framework_named("axolotl")
    ('ms_swift', 'trl')
    """
    key = name.strip().lower().replace("-", "_").replace(" ", "_") if isinstance(name, str) else ""
    for framework in FRAMEWORKS.values():
        if key in (framework.id, *framework.aliases):
            return framework.read_as or framework.id
    raise InputError(f"framework: expected one of {', '.join(readable_with_writers())}, got {name!r}")


def readable_with_writers() -> list[str]:
    """Return the ids of READABLE, each with the other frameworks that write the same logs: "trl (axolotl)"."""
    writers = {key: [f.id for f in FRAMEWORKS.values() if f.read_as == key] for key in READABLE}
    return [f"{key} ({', '.join(same)})" if same else key for key, same in writers.items()]
