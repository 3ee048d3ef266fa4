"""Training frameworks, one record each: conventions and eps, the form of the logs, templates of the configuration.

The records stand in frameworks.toml; here is what each of their keys says.
"""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from functools import reduce
from operator import or_
from pathlib import Path
from typing import Any

from gdpo_core._errors import InputError, expect
from gdpo_core.checking.rules import Rules, rules_of
from gdpo_core.conventions import PAPER, Convention


@dataclass(frozen=True, kw_only=True)
class Lines:
    """Lines of configuration, in which `config_lines` fills in $weights, $rewards and other values; None: no such line.

    with_size: what $with_size stands for in `switch_to_gdpo`, where the group size is known.
    switch_to_other: switches to another method than GDPO; options: what $option stands for there, by method, without
    which it is the method's name. set_grpo_weights: sets the weights of the other methods, where that is done elsewhere
    than for GDPO. gate_to: takes the place of `gate` where the value that takes the reward's place is not 0.
    """

    switch_to_gdpo: str
    with_size: str = ""
    switch_to_other: str
    options: Mapping[str, str] | None = None
    set_weights: str
    set_grpo_weights: str | None = None
    log_every_step: str | None = None  # None: no setting of the framework leaves steps out
    log_rewards: str | None = None  # None: no setting of the framework does it, your own code has to
    keep_groups: str | None = None  # turns off the filter for groups whose summed reward is constant
    own_name: str | None = None  # gives a second reward function its own column in the log
    no_evaluation: str | None = None  # keeps evaluations out of the log
    log_whole_groups: str | None = None  # where a setting can make the log a sample of its groups
    gate: str
    gate_to: str | None = None


@dataclass(frozen=True, kw_only=True)
class Framework:
    """One training framework: its formulas, its log, its configuration, and what its users should know.

    >>> FRAMEWORKS["verl"].title, FRAMEWORKS["verl"].convention
    ('verl', 'verl')
    """

    id: str  # in `FORMS` too, which reads its log; axolotl's is read as TRL's
    title: str
    aliases: Sequence[str] = ()  # other names that `framework=` takes

    # Its formulas.
    conventions: Mapping[str, Convention] = field(default_factory=dict)  # its own, by their keys in CONVENTIONS
    convention: str  # the key of the one that it has unless the log shows otherwise
    found_in_logs: Mapping[str, Convention] = field(default_factory=dict)  # others that may have made its logs
    tries: Sequence[str] = ()  # keys to compare its logs with, the likeliest first; "*": all others; none: its own

    # Its log.
    read_as: str = ""  # the framework whose log its own looks like; "": a log of its own
    log_title: str = ""  # of a log in that form, where several write it; "": the title
    log_format: str = "jsonl"  # or parquet
    log_files: str = ""  # a pattern of their names
    total_only_because: str = ""  # why a log holds totals alone, and what to do

    # Facts that the findings rest on.
    logs_last_batch: bool = False  # of logging_steps; the batches between are dropped
    column_per_function: bool = False  # named after the function, so that two of one name become one column
    evaluation_overwrites: bool = False  # an evaluation writes into the file of its step
    grpo_reads_score_alone: bool = False  # the total that the reward function returns beside the rewards
    zero_std_metric: str | None = None  # its share of groups whose summed reward is constant
    zero_std_over_batch: bool = False  # that metric, where the batch step of the method runs over the batch
    filter_option: str | None = None  # which turns on a filter for groups with a constant sum, GDPO's too
    not_gdpo_because: str = ""  # why its GDPO may not have run though it was asked for

    # Its configuration.
    lines: Lines
    rules: Rules | None = None  # what `gdpo check` knows of it

    # Where and how to use it.
    version: str  # that has GDPO
    read_in: str = ""  # what version and lines were read from
    read_on: date  # when these places and those of the notes were opened
    log_place: str
    proof: str  # how to make sure that GDPO ran
    documentation: str = ""  # the address of its page on GRPO
    notes: Sequence[Sequence[str]] = ()  # sentences, each with where it was read

    @property
    def facts(self) -> list[tuple[str, str]]:
        """The version and the notes, each with the places where it was read.

        >>> FRAMEWORKS["verifiers"].facts[-1]
        ('Its log keeps four decimals of an advantage.', 'verifiers==0.4.0 verifiers/v1/graph.py:191')
        """
        version = [(f"GDPO needs {self.title} {self.version}.", self.read_in)] if self.read_in else []
        return [*version, *((says, read_in) for says, read_in in self.notes)]


@dataclass(frozen=True, kw_only=True)
class WithoutGdpo:
    """A trainer without GDPO: the formula that it has in its place, as read and not run.

    >>> WITHOUT_GDPO["Tinker"].method
    'grpo_no_std'
    """

    method: str
    convention: Convention
    says: str
    read_in: str
    read_on: date
    cells: Mapping[str, str]  # of cases of conformance/ in which it does not follow that formula


def _framework(key: str, record: dict[str, Any]) -> Framework:
    """Return the framework that a table of frameworks.toml describes."""
    for name in ("conventions", "found_in_logs"):
        record[name] = {convention: Convention(**values) for convention, values in record.get(name, {}).items()}
    check, traps = record.pop("check", None), record.pop("traps", ())
    rules = None if check is None else rules_of(check, traps)
    return Framework(id=key, **record | {"lines": Lines(**record["lines"]), "rules": rules})


_TABLES = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
WITHOUT_GDPO: Mapping[str, WithoutGdpo] = {
    title: WithoutGdpo(**table | {"convention": Convention(**table["convention"])})
    for title, table in _TABLES.pop("without_gdpo").items()
}
FRAMEWORKS: Mapping[str, Framework] = {key: _framework(key, table) for key, table in _TABLES.items()}
CONVENTIONS: Mapping[str, Convention] = reduce(or_, (f.conventions for f in FRAMEWORKS.values()), {"paper": PAPER})
# And those that nobody chooses here, but that may have made a log.
ALL_CONVENTIONS = reduce(or_, (f.found_in_logs for f in FRAMEWORKS.values()), CONVENTIONS)
TRL, VERL, MS_SWIFT = (CONVENTIONS[key] for key in ("trl", "verl", "ms_swift"))
NEMO_RL, NEMO_RL_LOO = CONVENTIONS["nemo_rl"], CONVENTIONS["nemo_rl_loo"]
AXOLOTL_ASYNC, NVLABS_TRL = CONVENTIONS["axolotl_async"], ALL_CONVENTIONS["nvlabs_trl"]
AXOLOTL_STREAMING = ALL_CONVENTIONS["axolotl_streaming"]
READABLE = tuple(f.id for f in FRAMEWORKS.values() if not f.read_as)  # a log in their form has a reader


def framework_named(name: object) -> str:
    """Return the id of the framework whose reader reads the logs of the framework of this name.

    Case, hyphens and blanks do not matter. Raises InputError for a name that is not known.

    >>> framework_named("MS-Swift"), framework_named("axolotl")
    ('ms_swift', 'trl')
    """
    key = name.strip().lower().replace("-", "_").replace(" ", "_") if isinstance(name, str) else ""
    for framework in FRAMEWORKS.values():
        if key in (framework.id, *framework.aliases):
            return framework.read_as or framework.id
    raise InputError(f"framework: expected one of {', '.join(readable_with_writers())}, got {name!r}")


def readable_with_writers() -> list[str]:
    """Return the frameworks that can be read, each with others that write the same logs: "trl (axolotl)"."""
    writers = {key: [f.id for f in FRAMEWORKS.values() if f.read_as == key] for key in READABLE}
    return [f"{key} ({', '.join(same)})" if same else key for key, same in writers.items()]


def conventions_to_try(framework: str) -> tuple[str, ...]:
    """Return the keys of the conventions that may have made the log of a framework, the likeliest first.

    Raises InputError for a framework that is not in READABLE.

    >>> conventions_to_try("nemo_rl")
    ('nemo_rl_loo', 'nemo_rl')
    """
    expect(framework in READABLE, "framework", f"one of {', '.join(READABLE)}", repr(framework))
    tries = FRAMEWORKS[framework].tries or (FRAMEWORKS[framework].convention,)
    remaining = [key for key in ALL_CONVENTIONS if key not in tries]
    return tuple(key for tried in tries for key in (remaining if tried == "*" else [tried]))
