"""The check of a configuration: what its trainer runs, its rewards, weights, batch and log, and its traps."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import chain
from math import isfinite
from typing import Any, TypeGuard

from gdpo_core.checking.batches import says_batch_of, whole_number, with_answers
from gdpo_core.checking.evaluate import Known, in_force
from gdpo_core.checking.filling import Filled, placeholder_values
from gdpo_core.checking.headline import headline_of
from gdpo_core.checking.readers.reading import Given, names_of, read_files
from gdpo_core.checking.readers.sources import Unread
from gdpo_core.checking.recognise import Recognised, parse_trainer, recognise
from gdpo_core.checking.rules import ABOUT, Condition, Fact, Rules, Runs, Severity, Trap
from gdpo_core.checking.traps import TRAP_SEVERITIES, FoundTrap, lines_of, looked_for, traps_of
from gdpo_core.conventions import NAMES
from gdpo_core.frameworks import ALL_CONVENTIONS
from gdpo_core.shared.plain import jsonable
from gdpo_core.shared.words import clip, listing, one_line

_TITLES = {"rewards": "rewards", "kl": "KL", "penalty": "penalty", "filter": "filter", "loss": "loss", "log": "log"}
_NAMED = 8  # how many keys that cannot be read are named


@dataclass(frozen=True)
class ConfigCheck:
    """The method, the rewards and the traps of a configuration, as far as it tells them without being run.

    headline: a sentence on whether the run starts, or else on the method that runs, as far as it is told.
    files: the names of the configuration's files.
    trainer: the trainer's id.
    title: the trainer's name in sentences.
    version: the trainer's version; None where neither the caller nor the configuration gives one.
    method, convention: the ids of the method and the convention that run. None where gdpo has no id for them, or
        nothing tells them.
    rewards: the names of the rewards, in the order in which the trainer uses them; None where they are not told.
    weights: their weights, in the same order; None where they are not told.
    group_size: the number of answers to a prompt; None where it is not told.
    groups: the number of groups in a batch step; None where it is not told.
    facts: sentences, by subject, such as "method" or "batch".
    lines: lines to add to the configuration, so that the run writes a log that can be audited.
    traps: the traps that the configuration holds, the worst first.
    unread: a text for each key whose value only a run would tell.
    looked: for a configuration without traps, a sentence on how many known traps were looked for; else "".
    """

    headline: str
    files: tuple[str, ...]
    trainer: str
    title: str
    version: str | None
    method: str | None
    convention: str | None
    rewards: tuple[str, ...] | None
    weights: tuple[float, ...] | None
    group_size: int | None
    groups: int | None
    facts: dict[str, str]
    lines: tuple[str, ...]
    traps: tuple[FoundTrap, ...]
    unread: tuple[str, ...]
    looked: str = ""

    @property
    def worst(self) -> Severity | None:
        """The highest severity among the traps; None where there is no trap."""
        return next((s for s in TRAP_SEVERITIES if any(trap.severity == s for trap in self.traps)), None)

    @property
    def errors(self) -> tuple[FoundTrap, ...]:
        """The traps that are errors, which stand before the facts."""
        return tuple(trap for trap in self.traps if trap.severity == "error")

    @property
    def milder(self) -> tuple[FoundTrap, ...]:
        """The traps that are no errors, which stand behind the facts."""
        return tuple(trap for trap in self.traps if trap.severity != "error")

    def to_dict(self) -> dict[str, Any]:
        """Return the check as plain values, ready for JSON; "schema": 1 is added to the fields."""
        return jsonable({"schema": 1} | asdict(self))

    def __str__(self) -> str:
        facts = [f"{name}: {says}" for name, says in self.facts.items()]
        facts += [f"line: {line}" for line in self.lines]
        errors, milder = ([*chain(*map(lines_of, traps))] for traps in (self.errors, self.milder))
        return "\n".join([self.headline, *errors, *facts, *milder])


def check_config(configuration: Given, trainer: str | None = None) -> ConfigCheck:
    """Return what a configuration will run and the traps that it holds; nothing is imported, run or fetched.

    YAML, JSON, shell scripts, Python programs and notebooks are read. A later file overrides an earlier one, and
    commands and calls override files of values.

    configuration: the path of a file; or several paths, whose files are read together; or a mapping from the names of
        files to their texts.
    trainer: NAME or NAME==VERSION; by default the configuration tells it.

    Raises InputError if that trainer is not known, a file cannot be read, or the configuration is not for exactly one
    trainer.

    >>> script = "python3 -m verl.trainer.main_ppo algorithm.adv_estimator=gdpo trainer.use_v1=False"
    >>> check = check_config({"train.sh": script})
    >>> check.title, check.method, [trap.id for trap in check.traps]
    ('verl', 'gdpo', ['verl-no-keys', 'verl-one-answer'])
    >>> print(check.headline)
    Will end before its first update, by the rules of verl 0.9.1.
    """
    asked, version = parse_trainer(trainer)
    recognised = recognise(read_files(configuration), names_of(configuration), asked, version)
    rules, known = recognised.rules, with_answers(recognised.rules, recognised.known)
    recognised = replace(recognised, known=known)
    fill = Filled(placeholder_values(rules, known), known)
    runs, says_method = _method(rules, known)
    told = runs is None or not runs.stops
    rewards, weights = _rewards(recognised, runs) if told else (None, None)
    size = whole_number(known.value(rules.group_size)) if told else None
    groups, says_batch = says_batch_of(rules, known, size, runs) if told else (None, "")
    chosen = {about: fact for about in ABOUT if told and (fact := _fact(recognised, about))}
    unread = tuple(map(one_line, _unread(rules, known)))
    facts = {"trainer": _says_trainer(recognised), "method": says_method}
    if told:
        facts |= _facts(chosen, fill, _says_rewards(rules, known, rewards, weights), says_batch)
    facts |= _notes(unread, recognised)
    traps = tuple(traps_of(recognised, fill))
    return ConfigCheck(
        headline=one_line(headline_of(recognised, traps, runs, len(rewards or ()))),
        files=names_of(configuration),
        trainer=recognised.framework.id,
        title=recognised.framework.title,
        version=recognised.version,
        method=runs.method if runs else None,
        convention=runs.convention if runs else None,
        rewards=rewards,
        weights=weights,
        group_size=size,
        groups=groups,
        facts={name: one_line(says) for name, says in facts.items()},  # a configuration may hold any character
        lines=tuple(line for fact in chosen.values() if (line := fact.line.strip())),
        traps=traps,
        unread=unread,
        looked="" if traps else one_line(looked_for(recognised)),
    )


def _facts(chosen: Mapping[str, Fact], fill: Filled, says_rewards: str, says_batch: str) -> dict[str, str]:
    """Return sentences by their titles: "rewards", "KL", "penalty", "filter", "loss", "batch" and "log", in this order.

    "KL", "penalty", "filter" or "loss" is left out where no fact on it holds.

    chosen: by subject, a name in ABOUT, the fact on it that holds; there is always one on "log".
    fill: a function that puts values of the configuration into a sentence.
    says_rewards: the sentence on the rewards if no fact has one.
    says_batch: the sentence on the batch.
    """
    sentences = {about: fill(fact.says, fact.when) for about, fact in chosen.items()}
    middle = {_TITLES[about]: says for about, says in sentences.items() if about not in ("rewards", "log")}
    return {"rewards": sentences.get("rewards", says_rewards), **middle, "batch": says_batch, "log": sentences["log"]}


def _notes(unread: Sequence[str], recognised: Recognised) -> dict[str, str]:
    """Return notes on a configuration by their keys.

    "not read" names the keys in `unread`, whose values only a run would tell. "note" says what of the configuration was
    left out. A key is missing where there is nothing to say.
    """
    more = f" and {len(unread) - _NAMED} more" * (len(unread) > _NAMED)
    says = [f"Only a run would tell {listing(unread[:_NAMED])}{more}."] * bool(unread)
    says += [f"Not looked into: {listing(recognised.hidden, most=_NAMED)}."] * bool(recognised.hidden)
    notes = {"not read": " ".join(says)} if says else {}
    return notes | ({"note": " ".join(recognised.notes)} if recognised.notes else {})


# --- what runs -------------------------------------------------------------------------------------------------------


def _method(rules: Rules, known: Known) -> tuple[Runs | None, str]:
    """Return two things: the record of the method that runs, None where that cannot be told, and a sentence on it."""
    for runs in rules.runs:
        holds = known.holds(runs.when)
        if holds is None:
            return None, _needs(runs.when, known)
        if holds:
            filled = Filled({}, known)(runs.says, runs.when)
            if runs.method is None:
                return runs, filled
            convention = ALL_CONVENTIONS[runs.convention or "paper"]
            name = f"{NAMES[runs.method]}, as {convention.name} computes it."
            return runs, f"{name} {filled}".strip()
    return None, "It cannot be told."


def _needs(when: Sequence[Condition], known: Known) -> str:
    """Return the sentence "It cannot be told without …", with the keys of the conditions `when` whose values are open.

    A value is open if only a run tells it, or if it may stand in a file that was not given.

    known: the entries of the configuration.
    """
    keys = dict.fromkeys(c.key for c in when if isinstance(known.value(c.key), Unread))
    return f"It cannot be told without {listing(keys)}."


def _rewards(recognised: Recognised, runs: Runs | None) -> tuple[tuple[str, ...] | None, tuple[float, ...] | None]:
    """Return the names of the rewards and their weights, in the order in which the trainer uses them.

    Each is None where the configuration does not tell it, but weights that are not given are 1 for each named reward.
    Weights beyond the number of the names are left out; there may also be fewer.

    Under some methods the trainer uses something else in place of the rewards, and a fact in the rules says what. If
    such a fact holds and what runs is not GDPO, names and weights are both None.

    runs: the record of the rules that says what runs, or None.
    """
    rules, known = recognised.rules, recognised.known
    fact = _fact(recognised, "rewards")
    names, weights = (known.values(key) if key else None for key in (rules.rewards, rules.weights))
    named = tuple(map(str, names)) if _all_are(names, str | int) else None
    counted = _numbers(weights)
    if fact and runs and runs.method != "gdpo":
        return None, None
    if named and counted is None and weights is None:
        counted = (1.0,) * len(named)
    return named, counted if named is None or counted is None else counted[: len(named)]


def _numbers(values: Any) -> tuple[float, ...] | None:
    return tuple(map(float, values)) if _all_are(values, int | float) and all(map(isfinite, values)) else None


def _all_are(values: Any, kinds: Any) -> TypeGuard[list[Any]]:
    """Return whether `values` is a list, not empty, whose entries all have the types `kinds` and are no bool.

    A bool is refused because an option that is given without a value is read as True.
    """
    entries = values if isinstance(values, list) else []
    return bool(entries) and all(isinstance(entry, kinds) and not isinstance(entry, bool) for entry in entries)


def _says_rewards(rules: Rules, known: Known, names: tuple[str, ...] | None, weights: tuple[float, ...] | None) -> str:
    if any(isinstance(known.value(key), Unread) for key in (rules.rewards, rules.weights) if key):
        told = f"{listing(names)}, in this order" if names else "They are not told"
        return f"{told}; the weights are not told." if names else f"{told}."
    if names and weights:
        each = [f"{name} (weight {w:g})" for name, w in zip(names, weights, strict=False)]
        each += [f"{name} (no weight)" for name in names[len(weights) :]]
        return f"{listing(each)}, in this order."
    if names:
        return f"{listing(names)}, in this order; the weights cannot be read."
    if weights:
        return f"They are not named here; the weights are {listing(f'{w:g}' for w in weights)}, in their order."
    return "They are not named here."


def _fact(recognised: Recognised, about: str) -> Fact | None:
    """Return the first of the rules' facts about `about`, a name of ABOUT, that holds; None if none does.

    Facts are tried in turn. If only a run would tell whether one holds, the result is a new fact that says so.
    If the trainer's version is unknown, only facts count that are still true of the newest version. What a key may
    decide that the trainer does not have is not told.
    """
    known, may = recognised.known, recognised.left_open.get(about, ())
    for fact in recognised.rules.facts:
        force = in_force(fact.since, fact.until, known.version)
        if fact.about == about and (force or (force is None and not fact.until)):
            holds = known.holds(fact.when)
            rests = any(c.key in known.entries for c in fact.when) and about != "rewards"
            if holds is not False and may and not rests:
                return Fact(about=about, says=f"Not told: {listing(map(clip, may))} may decide it.")
            if holds is not False:
                return fact if holds else Fact(about=about, says=_needs(fact.when, known))
    return None


def _says_trainer(recognised: Recognised) -> str:
    version = (
        f"{recognised.framework.title} {recognised.version}"
        if recognised.version
        else f"{recognised.framework.title}, of which no version is given"
    )
    read = f"; its rules were read in {recognised.rules.read_version}"
    files = listing(map(clip, recognised.parents), most=3)
    parents = f". It builds on {files}, not given here: a key that is not named may have any value" * bool(
        recognised.parents
    )
    return f"{version}{read}{parents}."


# --- what was not read -----------------------------------------------------------------------------------------------


def _unread(rules: Rules, known: Known) -> Iterator[str]:
    """Yield a text "key = expression (file:line)" for each key that matters and whose value only a run would tell.

    A key matters if a rule depends on it, other than a trap that is a mere hint.
    """
    graver = (trap for trap in rules.traps if trap.severity != "info")
    records: Sequence[Runs | Fact | Trap] = (*rules.runs, *rules.facts, *graver)
    bearing = {c.key for record in records for c in record.when}
    bearing |= {
        rules.rewards,
        rules.weights,
        rules.group_size,
        rules.groups,
        *(k for keys in rules.answers for k in keys),
    }
    for key, entry in known.entries.items():
        if isinstance(entry.value, Unread) and key in bearing:
            yield f"{clip(key)} = {clip(entry.value.text)} ({entry.place})"
