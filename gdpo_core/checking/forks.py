"""The keys of a configuration that its trainer does not have, such as those of a fork, and what they leave open.

All keys of verl are known, of which most forks are. Of another trainer, those keys are known whose names sound as if
they decided a value (`decisive`); a key that does not sound so is taken to decide nothing.
"""

import re
from collections.abc import Iterable, Mapping, Sequence

from gdpo_core.checking import verl_keys
from gdpo_core.checking.readers.sources import Source
from gdpo_core.checking.rules import Fact, Rules, Runs, Trap, today
from gdpo_core.shared.words import clip, listing

_NAMED = 6  # how many keys are named
_FREE = re.compile(r"(kwargs|override\w*|args|config)$")  # sections that hold whatever a user puts there
# What a key may decide, by words in its last part.
_DECIDES = {
    "size": re.compile(
        r"(^|_)n(_|$)(?!grams)|num_(samples|generations|return\w*|responses)|group_size|repeat|rollouts"
    ),
    "rewards": re.compile(r"weights?(?!\w*_?(path|dir|file|dtype)$)|maximize|reward_coef|reward_scale"),
    "method": re.compile(r"adv_estimator|advantage|estimator|loss_type"),
    "filter": re.compile(r"filter|dynamic_sampl|oversampl"),
    "kl": re.compile(r"(^|_)kl(_|$)"),
}


def keys_not_had(trainer: str, rules: Rules, sources: Iterable[Source]) -> tuple[str, ...]:
    """Return the keys that the trainer does not have in the version in which its rules were read.

    A trainer but verl has any number of keys that nobody listed here, so that only those of them count that may decide
    a value (`_DECIDES`).

    trainer: the trainer's id.
    sources: the sources of a configuration. A file of values in which no key is the trainer's does not count, as it
        may start a job. Keys of verl without a dot are left out, since they may be options of a launcher.
    """
    records: Sequence[Runs | Fact | Trap] = (*rules.runs, *rules.facts, *rules.traps)
    bearing = {c.key for record in records for c in record.when}
    bearing |= {rules.rewards, rules.weights, rules.group_size, rules.groups, *rules.common, *rules.defaults}
    is_had = _is_had_by_verl if trainer == "verl" else lambda key: not _decides(key) or _last(key) in rules.decisive
    foreign: dict[str, None] = {}
    for source in sources:
        keys = [key for key in source.entries if "." in key or trainer != "verl"]
        missing = [key for key in keys if (now := today(key, rules)) not in bearing and not is_had(now)]
        if source.mark or (len(missing) < len(keys) if trainer == "verl" else bearing & source.entries.keys()):
            foreign |= dict.fromkeys(missing)
    return tuple(foreign)


def _last(key: str) -> str:
    return key.rpartition(".")[2]


def _decides(key: str) -> bool:
    return any(words.search(_last(key)) for words in _DECIDES.values())


def _is_had_by_verl(key: str) -> bool:
    *sections, last = key.split(".")
    if sections[0] not in verl_keys.SECTIONS:
        return False
    return key in verl_keys.KEYS or last in verl_keys.FIELDS or any(map(_FREE.search, sections))


def left_open(keys: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Return what keys that the trainer does not have may decide, such as "size", each with those keys."""
    keys = tuple(keys)
    decided = {about: tuple(k for k in keys if words.search(_last(k))) for about, words in _DECIDES.items()}
    return {about: names for about, names in decided.items() if names}


def open_keys(rules: Rules, about: Mapping[str, tuple[str, ...]], given: Iterable[str]) -> dict[str, str]:
    """Return the trainer's keys whose values are not told, each with the keys that may decide it instead.

    about: what is left open.
    given: the keys of the configuration, of which those about KL and the filter keep their values.
    """
    keys = {
        "size": {rules.group_size},
        "rewards": {rules.weights},
        "method": {c.key for runs in rules.runs for c in runs.when},
    }
    for subject in ("filter", "kl"):
        keys[subject] = {c.key for fact in rules.facts if fact.about == subject for c in fact.when} - {*given}
    return {key: listing(map(clip, names)) for subject, names in about.items() for key in keys[subject] if key}


def says_not_had(title: str, version: str, keys: tuple[str, ...]) -> str:
    """Return the sentence on the keys that the trainer does not have, "" if there is none."""
    more = f" and {len(keys) - _NAMED} more" * (len(keys) > _NAMED)
    named = listing(map(clip, keys[:_NAMED])) if not more else ", ".join(map(clip, keys[:_NAMED]))
    fork = f"Where a fork or a program of its own reads them, what is said here is of {title} alone."
    return f"{title} {version} has no such keys: {named}{more}. {fork}" if keys else ""
