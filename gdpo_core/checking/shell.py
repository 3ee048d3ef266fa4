"""A shell script, read and not run: its commands, in which variables have the values that the script itself gives."""

import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import takewhile

from gdpo_core._errors import InputError
from gdpo_core.checking.shell_variables import LOST, Frame, Script, Word
from gdpo_core.checking.shell_words import DECLARES, LAUNCHED_BY, Command, commands
from gdpo_core.checking.sources import Entry, Source, Unread, collect, flatten, installed_by
from gdpo_core.checking.values import plain

# What a command of a trainer has in it, by which it is found in other texts.
COMMAND = re.compile(r"\b(?:(?:swift|megatron) rlhf|main_ppo|trl (?:grpo|rloo)|axolotl train|run_grpo)\b")
_OVERRIDE = re.compile(r"(?:\+\+|\+|~)?([A-Za-z_][\w.@/-]*)=(.*)", re.DOTALL)
_NAME = re.compile(r"[A-Za-z_]\w*")
_CLOSES = {"fi": ("if",), "done": ("while", "until", "for", "select"), "esac": ("case",), "}": ("{",)}
_LOOPS = {"while", "until", "for", "select"}
_JOINS = {"&&", "||", "|", "|&"}  # beside a command that may run in some cases only, or in a process of its own
_READS = {"read", "unset", "let", "mapfile", "readarray", "getopts", "eval", "trap"}  # they set names in their words
_ALL = {'"$@"', "$@", '"$*"', "$*", '"${@}"', "${@}"}
_ENVIRONMENT = ("NPROC_PER_NODE",)  # variables that a trainer reads itself
_EXPORTED = " exported"  # after a variable's name: whether it was exported; alone: whether `set -a` is on
_DEEPEST = 30  # how many commands such as if may be inside one another
_LAUNCHERS = {"torchrun", "accelerate", "deepspeed", "ray", "srun", "uv", "python", "python3"}


def read_shell(text: str, file: str, first: int = 1, outside: frozenset[str] = frozenset()) -> list[Source]:
    """Return the sources of entries in a script: one for each command with options, overrides or a file of values.

    The entries of a command are its options, its overrides (words key=value), and variables that a trainer reads itself
    (`_ENVIRONMENT`). A trainer's command inside quotes counts too. A value is what a shell would give the command, or
    `Unread` where that depends on the run.

    file: the name of the file, for errors and places.
    first: the number of the script's first line in this file.
    outside: the names of variables that a script around this one assigns, where this script is a word of another; here
        their values are unknown.

    Raises InputError that names the file where too many commands such as if are inside one another, or one command has
    too many options.
    """
    script = Script(text, first, outside)
    packages = installed_by(text)
    sources: list[Source] = []
    for command in commands(text, script):
        if _is_pattern(command, script):
            continue
        words = _structure(command, script)
        words = [inner for word in words for inner in (word.several if word.several is not None else [word])]
        before, words = _assign(words, command, script)
        for word in words:  # A word can be a whole command as text, as after `bash -c`.
            if word.quoted and " " in word.text.strip() and COMMAND.search(word.text) and word.text != text:
                sources += read_shell(word.text, file, word.line, script.names)
        options = _Options(file, script)
        entries = collect(options.read(words), file)
        parents = (*_parents(words, entries), *options.open)
        if entries or (parents and (len(parents) > len(options.open) or COMMAND.search(_mark(words)))):
            place = f"{file}:{words[0].line}"
            sources.append(
                Source(file, _environment(before, script, place) | entries, _mark(words), place, parents, packages)
            )
        _operator(command.after, script)
        if len(script.frames) > _DEEPEST:
            raise InputError(f"{file}: expected at most {_DEEPEST} commands such as if inside one another, got more")
    return _without_fragments(sources)


def _without_fragments(sources: list[Source]) -> list[Source]:
    """Return the sources of a script, in which the entries of fragments are unknown, as no command gets them.

    A fragment is a line that begins with an option or override, although a command of the script runs a trainer. It may
    be the rest of a command that a comment after a backslash cuts off. A script of nothing but options stays as it is.
    """
    if not any(COMMAND.search(source.mark) for source in sources):
        return sources
    return [
        source if source.mark else replace(source, entries={key: _cut_off(e) for key, e in source.entries.items()})
        for source in sources
    ]


def _cut_off(entry: Entry) -> Entry:
    return entry if isinstance(entry.value, Unread) else Entry(Unread(str(entry.value)), entry.place)


def _is_pattern(command: Command, script: Script) -> bool:
    """Return whether the words are no command but a pattern of a case, such as a) in case $X in a) …"""
    inside = command.after == ")" and script.frames[-1].kind == "case"
    return inside and bool(command.words) and command.words[0].written not in ("case", "esac")


def _structure(command: Command, script: Script) -> list[Word]:
    """Return the words of a command, or none if a keyword such as if or done begins it.

    A keyword that begins, continues or ends a compound command lets `script` do the same. Words such as ! and nohup
    before the command are left out.
    """
    words = command.words
    while words and words[0].written in LAUNCHED_BY | {"!", "time", "in"}:
        words = words[1:]
    key = words[0].written if words else ""
    at, top = script.at, script.frames[-1]
    if key == "function":
        script.heads = True
    elif key in _LOOPS | {"if", "case", "{"}:
        sure = key == "{" and command.before not in _JOINS
        script.open(Frame(key, at, key in _LOOPS or script.heads, script.heads, sure))
        script.heads = False
        if key in ("for", "select") and len(words) > 1:
            script.lose(words[1].text)
    elif key in ("then", "else", "elif"):
        if top.kind == "if":
            script.next_branch(restore=key != "then")
    elif key in _CLOSES:
        kinds = _CLOSES[key]
        kind = next((frame.kind for frame in reversed(script.frames) if frame.kind in kinds), "")
        if kind:
            script.close(kind, command.after not in _JOINS | {"&"})
    elif key != "do":
        return words
    return []


def _operator(operator: str, script: Script) -> None:
    """Begin a subshell at (, end one at ), and end a branch of a case at ;; and its like.

    operator: the operator after a command.
    """
    if operator == "(":
        script.open(Frame("(", script.at, script.heads, script.heads))
        script.heads = False
    elif operator == ")" and script.frames[-1].kind != "case":
        script.close("(")
    elif operator in (";;", ";&", ";;&") and script.frames[-1].kind == "case":
        script.next_branch(restore=operator == ";;")


def _parents(words: list[Word], entries: dict[str, Entry]) -> tuple[str, ...]:
    """Return the files of values that a command names: by --config FILE, by --config-name NAME, or by a word a.yaml.

    words, entries: those of the command. Of several words a.yaml only the first counts. A name without the ending
        .yaml, .yml or .json gets .yaml. A name that only a run would tell is as the script writes it, with its $.
    """
    named = [entries[key].value for key in ("config", "config_name") if key in entries]
    texts = [value.text if isinstance(value, Unread) else value for value in named if isinstance(value, str | Unread)]
    texts += [word.written for word in words if word.text.endswith((".yaml", ".yml")) and word.text[0] not in "-+"][:1]
    names = [text.strip("'\"") for text in texts if "=" not in text and LOST not in text]
    return tuple(dict.fromkeys(n if n.endswith((".yaml", ".yml", ".json")) else f"{n}.yaml" for n in names if n))


def _assign(words: list[Word], command: Command, script: Script) -> tuple[list[Word], list[Word]]:
    """Return the assignments before a command and its other words, and change the script's variables as it does.

    The other words are none for a builtin that only sets variables, such as export or read. What a command assigns is
    unknown afterwards if it may not have run, or ran in a process of its own. Assignments before a command are for that
    command alone. An `eval` makes unknown what its words name; like a script that is sourced, it is taken to leave the
    other variables alone, because such scripts prepare what the script's own values are meant for.

    words: the words of the command, without keywords.
    command: the command, for the operators around it.
    """
    before = list(takewhile(lambda word: word.assigns, words))
    rest = words[len(before) :]
    name = rest[0].text if rest else ""
    texts = [word.text for word in rest[1:]]
    apart = command.before in _JOINS or command.after in _JOINS | {"&"}
    if apart:
        script.open(Frame("&&"))
    if not rest:
        for word in before:
            script.assign(word)
            if script.get(_EXPORTED) == "1":
                script.set(word.assigns.rstrip("+=") + _EXPORTED, "1")
    elif name in DECLARES:
        _declare(rest, script)
        rest = []
    elif name in _READS or (name == "printf" and "-v" in texts):
        for match in _NAME.findall(" ".join(texts)):
            script.lose(match)
        rest = rest if name == "eval" else []
    elif name == "set" and texts:
        if texts[0] == "--" or texts[0][:1] not in ("-", "+"):
            script.lose("@")
        elif "a" in texts[0] or "allexport" in texts:
            script.set(_EXPORTED, "1" if texts[0][0] == "-" else "")
        rest = []
    if apart:
        script.close("&&")
    return before, rest


def _declare(words: list[Word], script: Script) -> None:
    """Change the variables of a script as a command export, readonly, declare, local or typeset does.

    A variable with an attribute such as -i, which changes what is assigned to it, stays unknown from then on.

    words: the words of the command, whose name is the first.
    """
    flags = {letter for word in words[1:] if word.text[:1] in ("-", "+") for letter in word.text[1:]}
    bodies = [number for number, frame in enumerate(script.frames) if frame.function]
    inside = script.frames[bodies[-1] :] if bodies else []
    body = inside[0] if inside else None
    local = body is not None and words[0].text in ("declare", "local", "typeset") and "g" not in flags
    for word in words[1:]:
        names = _NAME.findall(word.text.partition("=")[0])
        if not word.assigns and word.text.startswith(LOST) and not word.written.strip('"').startswith(("$(", "`")):
            for name in [*script.variables]:  # The name stands behind a variable, so that it can be any.
                script.lose(name)
        if not names or word.text[:1] in ("-", "+"):
            continue
        if "=" in word.text and not word.assigns:  # as in export "$B=5"
            script.lose(names[0])
        if body and local and not any(names[0] in frame.old for frame in inside):  # Else it was set before as a global.
            body.local.add(names[0])
        if not flags <= {"a", "g", "x"}:
            for name in _NAME.findall(word.text):
                script.lose(name)
                script.fixed.add(name)
        elif word.assigns:
            script.assign(word)
        elif local:
            script.lose(names[0])
        if words[0].text == "readonly":
            script.fixed.add(names[0])
        if words[0].text == "export" or "x" in flags:
            script.set(names[0] + _EXPORTED, "1")


def _environment(before: list[Word], script: Script, place: str) -> dict[str, Entry]:
    """Return the entries for the variables that a trainer reads itself; one that is not exported is `Unread`.

    before: the assignments before the trainer's command.
    place: the place of the command.
    """
    entries = {}
    for name in _ENVIRONMENT:
        given = [word.text.partition("=")[2] for word in before if word.assigns == f"{name}="]
        value = given[-1] if given else script.get(name)
        exported = given or script.get(name + _EXPORTED) == "1"
        if value is not None:
            told = isinstance(value, str) and LOST not in value and exported
            entries[name] = Entry(plain(str(value)) if told else Unread(f"${name}"), place)
    return entries


def _mark(words: list[Word]) -> str:
    """Return what a command runs: its words up to the first option or override, at most 20 of them, as one text.

    The words -m, -c and --, and the word after --, are not taken for options. If a launcher such as torchrun begins the
    command, its words do not end at an option: all options are left out, and the words after the first option count,
    overrides too.
    """
    kept: list[str] = []
    launching = False
    for word in words:
        text = word.text.replace(LOST, "…")
        if text.startswith("-") and text not in ("-m", "-c", "--") and kept[-1:] != ["--"]:
            launching = bool(kept) and kept[0] in _LAUNCHERS
            if not launching:
                break
            continue
        if _OVERRIDE.fullmatch(text) and not launching:
            break
        kept.append(text)
    return " ".join(kept[:20])


class _Options:
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

    def read(self, words: list[Word]) -> Iterator[tuple[str, Entry]]:
        """Yield the key and the entry of each option and of each override of a command.

        In the name of an option - becomes _; an option without a value is True, and one with several is a list. A value
        that only a run would tell is `Unread`. An override by a mapping comes as one entry per key inside it.
        """
        launching = words[0].text.rpartition("/")[2] in _LAUNCHERS if words else False
        for word in words:
            override = None if word.quoted and self.flag else _OVERRIDE.fullmatch(word.text)
            if launching and (word.text.endswith(".py") or word.text == "-m"):  # the launcher's options end here
                yield from self._end()
                launching = False
            elif word is not words[0] and self._holds_more(word):
                yield from self._opened(word)
            elif word.text.startswith("--") and len(word.text) > 2:
                yield from self._end(word.maybe)
                text, equals, value = word.text.partition("=")
                self.flag = replace(word, text=text)
                self.sure = self.sure if word.maybe else self.flag
                inside = replace(word, text=value, written=word.written.partition("=")[2])
                self.values = [inside] if equals else []
            elif override and ("." in override[1] or word.text[0] == "+" or self.flag is None or self.values):
                yield from self._end(word.maybe)
                yield from self._override(word, override)
            elif word.text == "--" or re.fullmatch(r"-[A-Za-z]\w*", word.text):
                yield from self._end(word.maybe)
            elif word.written not in _ALL:
                yield from self._value(word)
        yield from self._end()

    def _holds_more(self, word: Word) -> bool:
        """Return whether a word may stand for further options.

        Directly after an option, an unknown word counts as that option's value, unless the script writes options into
        the variable or array from which it comes.
        """
        if word.written in _ALL and any(frame.function for frame in self.script.frames):
            return True
        if not word.more or word.text.strip(LOST):
            return False
        if self.flag is None:
            return word.options or bool(self.seen) or not word.quoted
        return word.options or bool(self.values)

    def _opened(self, word: Word) -> Iterator[tuple[str, Entry]]:
        """Yield an `Unread` entry for each key so far that the options in a word may change.

        The arguments of a function can change only a key that the script has in another place too.
        """
        yield from self._end()
        given = word.written in _ALL and not word.more
        self.open.append("the arguments of its function" if given else word.written.strip("\"'"))
        for key in [key for key in self.seen if not given or self.script.counts[key.replace("-", "_")] > 1]:
            yield key, Entry(Unread(word.written.strip("\"'")), self.seen.pop(key))

    def _value(self, word: Word) -> Iterator[tuple[str, Entry]]:
        """Take a word as a value of the option before it.

        If that option may be missing without the word, the word may be a value of the last certain option, for which an
        `Unread` entry is yielded.
        """
        if self.flag is not None:
            self.values.append(word)
        together = word.maybe and self.flag is not None and word.origin == self.flag.origin
        if self.sure is not None and self.flag is not self.sure and not together:
            yield _key(self.sure), Entry(Unread(self.sure.written), f"{self.file}:{self.sure.line}")

    def _override(self, word: Word, fits: re.Match[str]) -> Iterator[tuple[str, Entry]]:
        """Yield the key and the entry of an override, or several if its value is a mapping.

        fits: the match of `_OVERRIDE` in the word.
        """
        value = _plain(replace(word, text=fits[2], written=word.written.partition("=")[2]))
        name, place = fits[1], f"{self.file}:{word.line}"
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
            if self.flag.maybe:
                lost = Unread(lost.text if lost else self.flag.written, maybe=True)
            key, place = _key(self.flag), f"{self.file}:{self.flag.line}"
            self.seen[key] = place
            known = True if not value else value[0] if len(value) == 1 else value
            yield key, Entry(replace(lost, maybe=self.flag.maybe) if lost else known, place)
        self.flag, self.values = None, []
        self.sure = self.sure if maybe else None


def _key(flag: Word) -> str:
    """Return the key of an option --some-key: some_key."""
    return flag.text[2:].replace("-", "_")


def _plain(word: Word) -> object:
    """Return the value of a word, which is `Unread` if the word depends on the run or holds a template ${…}."""
    lost = word.maybe or LOST in word.text or "${" in word.text
    return Unread((word.written.strip("\"'") or word.text).replace(LOST, "…"), word.maybe) if lost else plain(word.text)
