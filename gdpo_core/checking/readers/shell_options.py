"""The options and overrides of one command of a shell script, with their values."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import pairwise

from gdpo_core.checking.readers.shell_variables import LOST, Script, Word
from gdpo_core.checking.readers.sources import Entry, Unread, flatten
from gdpo_core.checking.readers.values import plain

OVERRIDE = re.compile(r"(?:\+\+|\+|~)?([A-Za-z_][\w.@/-]*)=(.*)|~([A-Za-z_][\w.@/-]*)", re.DOTALL)
LAUNCHERS = {"torchrun", "accelerate", "deepspeed", "ray", "srun", "uv", "python", "python3"}
_ALL = {'"$@"', "$@", '"$*"', "$*", '"${@}"', "${@}"}


class Options:
    """A reader of the options --key and the overrides key=value of a command.

    file: the name of the file, for the places.
    script: the script in which the command stands.
    open: the words that may stand for further options, as the script writes them; filled by `read`.
    """

    def __init__(self, file: str, script: Script) -> None:
        self.file, self.script = file, script
        self.open: list[str] = []
        self.flag: Word | None = None  # the option to which the next words belong
        self.values: list[Word] = []
        self.sure: Word | None = None  # the last option that is certainly there
        self.seen: dict[str, str] = {}  # the keys so far with their places
        self.texts: dict[str, dict[str, None]] = {}  # for each option so far, the values that it may have

    def read(self, words: list[Word]) -> Iterator[tuple[str, Entry]]:
        """Yield the key and the entry of each option and of each override of a command.

        In the name of an option - becomes _; an option without a value is True, and one with several is a list. A value
        that only a run would tell is `Unread`. An override by a mapping comes as one entry per key inside it.
        """
        launching = words[0].text.rpartition("/")[2] in LAUNCHERS if words else False
        for word in words:
            override = None if word.quoted and self.flag else OVERRIDE.fullmatch(word.text)
            if launching and (word.text.endswith(".py") or word.text == "-m"):  # the launcher's options end here
                yield from self._end()
                launching = False
            elif word is not words[0] and self._holds_more(word):
                yield from self._opened(word)
            elif word.text.startswith("--") and len(word.text) > 2:
                yield from self._end(bool(word.maybe))
                text, equals, value = word.text.partition("=")
                self.flag = replace(word, text=text)
                self.sure = self.sure if word.maybe else self.flag
                inside = replace(word, text=value, written=word.written.partition("=")[2])
                self.values = [inside] if equals else []
            elif override and (
                "." in word.text.partition("=")[0] or word.text[0] in "+~" or self.flag is None or self.values
            ):
                yield from self._end(bool(word.maybe))
                yield from self._override(word, override)
            elif word.text == "--" or re.fullmatch(r"-[A-Za-z]\w*", word.text):
                yield from self._end(bool(word.maybe))
            elif word.written not in _ALL:
                yield from self._value(word)
        yield from self._end()

    def _holds_more(self, word: Word) -> bool:
        """Return whether a word may stand for further options.

        Directly after an option, an unknown word counts as that option's value, unless the script writes options into
        the variable or array from which it comes.
        """
        if word.written in _ALL and (self.script.body or self.script.called):
            return True
        expected = self.flag is not None and not self.values  # a value is
        free = word.options or (not expected and (self.flag is not None or bool(self.seen) or not word.quoted))
        return word.more and not word.text.strip(LOST) and free

    def _opened(self, word: Word) -> Iterator[tuple[str, Entry]]:
        """Yield an `Unread` entry for each key so far that the options in a word may change.

        The arguments of a function can change only a key that the script has in another place too, and the option
        before them, which may get more values.
        """
        last = _key(self.flag) if self.flag else ""
        yield from self._end()
        given = word.written in _ALL and not word.more
        self.open.append("the arguments of its function" if given else word.shown)
        for key in [*self.seen]:
            if given and key != last and self.script.counts[key.replace("-", "_")] < 2:
                continue
            yield key, Entry(Unread(word.shown), self.seen.pop(key))

    def _value(self, word: Word) -> Iterator[tuple[str, Entry]]:
        """Take a word as a value of the option before it.

        If that option may be missing without the word, the word may be a value of the last certain option, for which an
        `Unread` entry is yielded.
        """
        if self.flag is not None:
            self.values.append(word)
        if self.sure is not None and self.flag is not self.sure and (not self.flag or word.maybe != self.flag.maybe):
            yield _key(self.sure), Entry(Unread(self.sure.shown), f"{self.file}:{self.sure.line}")

    def _override(self, word: Word, fits: re.Match[str]) -> Iterator[tuple[str, Entry]]:
        """Yield the key and the entry of an override, or several if its value is a mapping.

        fits: the match of `OVERRIDE` in the word.
        """
        name, place = fits[1] or fits[3], f"{self.file}:{word.line}"
        value = _plain(replace(word, text=fits[2] or "", written=word.written.partition("=")[2]))
        if word.text.startswith(
            "~"
        ):  # Hydra deletes the key, after which the trainer may have no value or another one.
            value = Unread(word.shown)
        match = flatten(value, place, f"{name}.") if isinstance(value, dict) else [(name, Entry(value, place))]
        for key, entry in match:
            self.seen[key] = place
            yield key, entry

    def _end(self, maybe: bool = False) -> Iterator[tuple[str, Entry]]:
        """Yield the entry of the present option, which ends here.

        maybe: whether the word that ends it may be missing.
        """
        if self.flag is not None:
            value = [_plain(word) for word in self.values]
            lost = next((v for v in value if isinstance(v, Unread)), None)
            key, place = _key(self.flag), f"{self.file}:{self.flag.line}"
            text = " ".join(word.text for word in self.values) or self.flag.written
            self.texts[key] = {**(self.texts.get(key, {}) if self.flag.maybe else {}), text.replace(LOST, "…"): None}
            if self.flag.maybe:
                lost = Unread(_one_of(self.texts[key]), maybe=True)
            self.seen[key] = place
            known = True if not value else value[0] if len(value) == 1 else value
            yield key, Entry(replace(lost, maybe=bool(self.flag.maybe)) if lost else known, place)
        self.flag, self.values = None, []
        self.sure = self.sure if maybe else None


def _one_of(texts: Iterable[str]) -> str:
    """Return texts as one text, which begins with "one of" if there are several; an empty one is written as ''."""
    written = [text or "''" for text in texts]
    return f"one of {', '.join(written)}" if len(written) > 1 else written[0]


def _key(flag: Word) -> str:
    """Return the key of an option --some-key: some_key."""
    return flag.text[2:].replace("-", "_")


def _plain(word: Word) -> object:
    """Return the value of a word, which is `Unread` if the word depends on the run or holds a template ${…}."""
    lost = word.maybe or LOST in word.text or "${" in word.text
    if word.text == LOST and word.choices:
        return Unread(_one_of(word.choices), bool(word.maybe))
    return Unread(word.shown or word.text.replace(LOST, "…"), bool(word.maybe)) if lost else plain(word.text)


def parents_of(words: list[Word], entries: dict[str, Entry]) -> tuple[str, ...]:
    """Return the files of values that a command names: by --config FILE, by --config-name NAME, or by a word a.yaml.

    words, entries: those of the command. Of several words a.yaml only the first counts. A name without the ending
        .yaml, .yml or .json gets .yaml. A name that only a run would tell is as the script writes it, with its $.
    """
    named = [entries[key].value for key in ("config", "config_name") if key in entries]
    texts = [value.text if isinstance(value, Unread) else value for value in named if isinstance(value, str | Unread)]
    values = [word for before, word in pairwise([Word(), *words]) if before.text != "--config_file"]  # accelerate's own
    texts += [word.written for word in values if word.text.endswith((".yaml", ".yml")) and word.text[0] not in "-+"][:1]
    names = [text.strip("'\"") for text in texts if "=" not in text and LOST not in text]
    return tuple(dict.fromkeys(n if n.endswith((".yaml", ".yml", ".json")) else f"{n}.yaml" for n in names if n))
