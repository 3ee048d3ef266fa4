"""The recognition of the trainer that a configuration is for, and the entries as that trainer sees them."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

from gdpo_core.checking.evaluate import Known
from gdpo_core.checking.forks import keys_not_had, left_open, open_keys, says_not_had
from gdpo_core.checking.readers.sources import Entry, Source, command_line_of, name_of
from gdpo_core.checking.rules import Rules, today
from gdpo_core.frameworks import FRAMEWORKS, Framework
from gdpo_core.shared.errors import InputError, expect
from gdpo_core.shared.words import clip, listing

_VERSION = re.compile(r"v?\d+(\.\d+)*[\w.+-]*", re.ASCII)


@dataclass(frozen=True)
class Recognised:
    """The trainer of a configuration, its version, the rules for this trainer, and the entries of the configuration.

    framework: the trainer.
    rules: the rules for its configurations.
    version: the trainer's version, None if it is not known.
    known: the entries, with the trainer's defaults; a key that was renamed has its newest name.
    parents: files on which the configuration builds and which were not given.
    notes: sentences on what was left out, such as a second run.
    left_open: what stays undecided, such as "size", because the configuration has keys that this trainer does not know;
        for each, these keys.
    hidden: sentences without a dot on what may hold commands or values and was not read.
    repeated: whether the configuration runs a program again, of which only the first run counts.
    """

    framework: Framework
    rules: Rules
    version: str | None
    known: Known
    parents: tuple[str, ...]  # files on which the configuration builds and which were not given
    notes: tuple[str, ...]
    left_open: Mapping[str, tuple[str, ...]]
    hidden: tuple[str, ...]
    repeated: bool


def trainers() -> dict[str, Framework]:
    """Return the trainers whose configurations can be checked, by their ids."""
    return {key: framework for key, framework in FRAMEWORKS.items() if framework.rules}


def parse_trainer(text: str | None) -> tuple[str | None, str | None]:
    """Return the id of a trainer and its version from NAME or NAME==VERSION; what is not given is None.

    Raises InputError for an unknown trainer, and for what is no version.

    >>> parse_trainer("verl==0.9.1"), parse_trainer("ms-swift"), parse_trainer(None)
    (('verl', '0.9.1'), ('ms_swift', None), (None, None))
    """
    if text is None:
        return None, None
    expect(isinstance(text, str), "trainer", "NAME or NAME==VERSION", repr(text)[:80])
    name, equals, version = (piece.strip() for piece in text.partition("=="))
    key = name.lower().replace("-", "_").replace(" ", "_")
    spellings = {k: (k, *f.aliases, f.title.lower().replace("-", "_")) for k, f in trainers().items()}
    trainer = next((k for k, names in spellings.items() if key in names), None)
    expect(trainer is not None, "trainer", f"NAME or NAME==VERSION, with one of {', '.join(trainers())}", repr(text))
    expect(not equals or bool(_VERSION.fullmatch(version)), "trainer", "a version such as 0.9.1", repr(version))
    return trainer, version.lstrip("v") or None


def recognise(sources: Sequence[Source], files: Sequence[str], asked: str | None, version: str | None) -> Recognised:
    """Return the trainer that the sources are for, with its version and entries.

    Sources for something else are left out.

    files: the names of the files, for errors.
    asked: the id of the trainer that the caller names, None if none.
    version: the version that the caller names, None if the configuration is to tell it.

    Raises InputError if no trainer is recognised, if there are several, or if it is not the one that the caller names.
    """
    strong = [_strong(source) for source in sources]
    weak = [_weak(source) for source in sources]
    seen = {key: why for reasons in strong for key, why in reasons.items()} or {
        k: w for reasons in weak for k, w in reasons.items()
    }
    if asked is None:
        _expect_one(sources, files, seen)
    else:
        wanted = f"a configuration of {FRAMEWORKS[asked].title}"
        expect(asked in seen or not seen, listing(map(clip, files), most=3), wanted, _told(seen))
        there = any(source.entries or source.parents for source in sources)
        expect(there, listing(map(clip, files), most=3), wanted, "no key at all")
    key = asked or next(iter(seen))
    programs = {name_of(source.file) for source, s in zip(sources, strong, strict=True) if key in s}
    chosen = [
        source
        for source, s, w in zip(sources, strong, weak, strict=True)
        if key in s or (not s and (key in w or not source.mark or asked or programs & _started(source)))
    ]
    evidence = any(key in s or key in w for s, w in zip(strong, weak, strict=True))
    recognised = _recognised(FRAMEWORKS[key], chosen, version, evidence)
    return replace(recognised, hidden=_hidden(sources))


def _hidden(sources: Sequence[Source]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(text for source in sources for text in source.hidden))


def _recognised(framework: Framework, sources: Sequence[Source], version: str | None, evidence: bool) -> Recognised:
    """Return what `recognise` does, for the sources of one trainer.

    evidence: whether something besides the caller says that they are for it. Otherwise, and for a fork of the trainer,
        a key that is not given has no default.
    """
    rules = framework.rules
    assert rules is not None
    entries: dict[str, Entry] = {}
    notes, seen, marks, repeated = [], set(), [], False
    for source in sorted(sources, key=lambda source: bool(source.mark)):  # a command overrides a file of values
        if source.mark and (source.file, source.mark) in seen:
            notes.append(f"{source.place} runs it once more: what is said here is of the first.")
            repeated = True
            continue
        seen.add((source.file, source.mark))
        if source.mark:
            marks.append(source.mark)
        entries |= {today(key, rules): entry for key, entry in source.entries.items()}
    if marks:
        entries["program"] = Entry(" ".join(marks), next(s.place for s in sources if s.mark))
    given = {name_of(source.file) for source in sources}
    given |= {command_line_of(name) for source in sources for name in _started(source)}
    named = dict.fromkeys(name for source in sources for name in source.parents if name_of(name) not in given)
    parents = tuple(name for name in named if not any(re.search(pattern, name) for pattern in rules.own_files))
    version = version or _version(rules, sources, entries)
    foreign = keys_not_had(framework.id, rules, sources)
    about = left_open(foreign)
    notes += [text] if (text := says_not_had(framework.title, rules.read_version, foreign)) else []
    assured = evidence or any(key in entries for key in (rules.group_size, *rules.common, *rules.defaults))
    fork = not assured or not all(_fits(source, framework) for source in sources)
    known = Known(entries, rules.defaults, not parents and not fork, version, open_keys(rules, about, entries))
    if fork:
        notes.append(f"Nothing here says that this is {framework.title} itself: what is not given may be anything.")
    return Recognised(framework, rules, version, known, parents, tuple(dict.fromkeys(notes)), about, (), repeated)


def _started(source: Source) -> set[str]:
    """Return the names of the programs that a command starts, without their folders."""
    return {name_of(word) for word in source.mark.split() if word.endswith(".py")}


def _version(rules: Rules, sources: Sequence[Source], entries: Mapping[str, Entry]) -> str | None:
    """Return the version of the trainer that a configuration names, or else the version that its script installs.

    The result is None where the configuration tells no version.

    entries: the entries of all sources by key; an entry with an older name of a key stands under today's name.
    """
    given = entries.get(rules.version_key)
    if given and isinstance(given.value, str) and _VERSION.fullmatch(given.value):
        return given.value.lstrip("v")
    installed = (source.packages[name] for source in sources for name in rules.packages if name in source.packages)
    return next((version for name in installed if _VERSION.fullmatch(version := name.rstrip("."))), None)


def _strong(source: Source) -> dict[str, str]:
    """Return the trainers that a source is surely for, by their ids, each with the program or key that says so and its
    place.

    If the program tells a trainer, the keys do not count. The dict is empty where neither the program nor a key belongs
    to one trainer alone.
    """
    by_mark = {
        key: f"{clip(source.mark)} in {source.place}"
        for key, framework in trainers().items()
        if source.mark and _fits(source, framework) and any(re.search(mark, source.mark) for mark in _marks(framework))
    }
    return by_mark or dict(_by_keys(source))


def _marks(framework: Framework) -> Sequence[str]:
    return framework.rules.marks if framework.rules else ()


def _fits(source: Source, framework: Framework) -> bool:
    """Return whether a source has no key that only a fork of the trainer has."""
    fork_keys = framework.rules.not_keys if framework.rules else ()
    return not any(fnmatchcase(key, pattern) for pattern in fork_keys for key in source.entries)


def _by_keys(source: Source) -> Iterator[tuple[str, str]]:
    for key, framework in trainers().items():
        patterns = framework.rules.keys if framework.rules else ()
        hit = next((name for name in source.entries if any(fnmatchcase(name, p) for p in patterns)), None)
        if hit is not None and _fits(source, framework):
            yield key, f"{clip(hit)} in {source.entries[hit].place}"


def _weak(source: Source) -> dict[str, str]:
    """Return the trainers that a source may be for, by their ids, each with the keys that say so and their file.

    A source may be for a trainer if it has two or more of the keys that this trainer shares with others.
    """
    reasons = {}
    for key, framework in trainers().items():
        hits = [name for name in source.entries if framework.rules and name in framework.rules.common]
        if len(hits) > 1:
            reasons[key] = f"{listing(map(clip, hits), most=3)} in {source.file}"
    return reasons


def _expect_one(sources: Sequence[Source], files: Sequence[str], seen: Mapping[str, str]) -> None:
    titles = listing((framework.title for framework in trainers().values()), "or")
    if not seen:
        keys = list(dict.fromkeys(key for source in sources for key in source.entries))
        got = f"the keys {listing(map(clip, keys), most=4)}" if keys else "no key at all"
        file = listing(map(clip, files), most=3)
        named = [clip(name) for source in sources for name in source.parents]
        hint = f"it names {listing(named, most=2)}: give that file too" if named else "--trainer NAME says which it is"
        unread = f"; not read: {listing(hidden, most=2)}" if (hidden := _hidden(sources)) else ""
        raise InputError(f"{file}: expected a configuration of {titles}, got {got} ({hint}{unread})")
    expect(len(seen) == 1, "configuration", "one trainer (--trainer NAME says which)", _told(seen))


def _told(seen: Mapping[str, str]) -> str:
    return listing(f"{FRAMEWORKS[key].title} ({why})" for key, why in seen.items())
