"""A shell script, read and not run: its commands, in which variables have the values that the script itself gives."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import islice

from gdpo_core.checking.sources import Entry, Source, Unread, collect, flatten, installed_by
from gdpo_core.checking.values import plain

# What a command of a trainer has in it, by which it is found in other texts.
COMMAND = re.compile(r"\b(?:(?:swift|megatron) rlhf|main_ppo|trl (?:grpo|rloo)|axolotl train|run_grpo)\b")
_NAME = re.compile(r"[A-Za-z_]\w*")
_ASSIGNED = re.compile(r"([A-Za-z_]\w*)\+?=")
_OVERRIDE = re.compile(r"(?:\+\+|\+|~)?([A-Za-z_][\w.@/-]*)=(.*)", re.DOTALL)
_OPENS, _CLOSES = {"if", "for", "while", "until", "case", "select"}, {"fi", "done", "esac"}
_FUNCTION = re.compile(r"^[ \t]*(?:function[ \t]+)?[\w-]+[ \t]*\(\)\s*\{", re.MULTILINE)
_ALL = {'"$@"', "$@", '"$*"', "$*", '"${@}"', "${@}"}
LOST = "\0"  # stands in a word for what only a run would tell
_ENVIRONMENT = ("NPROC_PER_NODE",)  # variables that a trainer reads itself
_MOST_WORDS = 2000  # the most words of an array; one that is set to itself twice doubles each time
_LONGEST = 100_000  # the most characters of a word; a variable that is set to itself twice doubles each time
_LAUNCHERS = {"torchrun", "accelerate", "deepspeed", "ray", "srun", "uv", "python", "python3"}
_LAUNCHED_BY = {"env", "nohup", "exec", "time", "sudo"}


@dataclass
class _Word:
    text: str = ""  # its text without quotes, with variables filled in and LOST where something is unknown
    written: str = ""  # its text as the script has it
    line: int = 0
    quoted: bool = False
    maybe: bool = False  # whether it comes from an array to which it was added inside an if, for or case
    splits: bool = False  # whether a variable without quotes brought blanks, which split the word
    several: list["_Word"] | None = None  # the words for which it stands: an array's, or those into which it splits


@dataclass
class _Script:
    """The variables and arrays of a script, as far as it was read.

    first: the number of the script's first line.
    """

    first: int = 1
    variables: dict[str, str] = field(default_factory=dict)
    arrays: dict[str, list[_Word]] = field(default_factory=dict)
    depth: int = 0  # how many if, for and case are open here, in which a value may or may not be assigned


def read_shell(text: str, file: str, first: int = 1) -> list[Source]:
    """Return the sources of entries in a script: one for each command with options, overrides or a file of values.

    The entries of a command are its options, its overrides (words key=value), and variables that a trainer reads itself
    (`_ENVIRONMENT`). A trainer's command inside quotes counts too.
    file: the name of the file, for errors and places.
    first: the number of the script's first line in this file.
    """
    script = _Script(first)
    functions = [range(*_lines_of(m, text, first)) for m in islice(_FUNCTION.finditer(text), 200)]
    packages = installed_by(text)
    sources: list[Source] = []
    for command in _commands(text, script):
        words = [inner for word in command for inner in (word.several if word.several is not None else [word])]
        while words and words[0].text in {"then", "do", "else", "elif", "{", "!", *_LAUNCHED_BY}:
            words = words[1:]
        if words and words[0].text in _OPENS | _CLOSES:
            script.depth += 1 if words[0].text in _OPENS else -1
            continue
        words = _assign(words, script)
        for word in words:  # a word can be a whole command as text, as after `bash -c`
            if word.quoted and " " in word.text.strip() and COMMAND.search(word.text) and word.text != text:
                sources += read_shell(word.text, file, word.line)
        entries = collect(_entries(words, file), file)
        parents = _parents(words, entries)
        if entries or parents:
            place = f"{file}:{words[0].line}"
            environment = {
                name: Entry(plain(value) if LOST not in value else Unread(f"${name}"), place)
                for name in _ENVIRONMENT
                if (value := script.variables.get(name)) is not None
            }
            if any(words[0].line in lines for lines in functions) and any(w.written in _ALL for w in words):
                parents += ("the arguments of its function",)
            sources.append(Source(file, environment | entries, _mark(words), place, parents, packages))
    return sources


def _lines_of(head: re.Match[str], text: str, first: int) -> tuple[int, int]:
    """Return the number of the first line of a function, and the number of a line that follows its last command.

    head: the match of the function's head in `text`.
    first: the number of the first line of `text`.
    """
    end = re.compile(r"^\s*\}", re.MULTILINE).search(text, head.end())
    begun, ended = (text.count("\n", 0, at) for at in (head.start(), end.start() if end else len(text)))
    return begun + first, ended + first + 1


def _parents(words: list[_Word], entries: dict[str, Entry]) -> tuple[str, ...]:
    """Return the files of values that a command names: by --config FILE, by --config-name NAME, or by a word a.yaml.

    words, entries: those of the command. Of several words a.yaml only the first counts. A name without the ending
        .yaml, .yml or .json gets .yaml. A name that only a run would tell is as the script writes it, with its $.
    """
    named = [entries[key].value for key in ("config", "config_name") if key in entries]
    texts = [value.text if isinstance(value, Unread) else value for value in named if isinstance(value, str | Unread)]
    texts += [word.written for word in words if word.text.endswith((".yaml", ".yml")) and word.text[0] not in "-+"][:1]
    names = [text.strip("'\"") for text in texts if "=" not in text and LOST not in text]
    return tuple(dict.fromkeys(n if n.endswith((".yaml", ".yml", ".json")) else f"{n}.yaml" for n in names if n))


def _assign(words: list[_Word], script: _Script) -> list[_Word]:
    """Return the words of a command without the assignments before it, and give the script's variables their values.

    The result is empty for a command that only declares variables, such as export. A variable that has a value, and
    gets a different one inside an if, for or case, is then unknown (`LOST`). So is one that NAME+= extends where the
    script has not given it a value before, or to more than `_LONGEST` characters.
    """
    declared = bool(words) and words[0].text in {"export", "local", "declare", "readonly", "typeset"}
    rest = words[1:] if declared else words
    while rest and (name := _ASSIGNED.match(rest[0].text)):
        value, key = rest[0].text[name.end() :], name[1]
        known = script.variables.get(key)
        if name[0].endswith("+="):
            if array := script.arrays.get(key):  # a shell appends such a text to the first word of an array
                array[0] = replace(array[0], text=array[0].text + value, maybe=array[0].maybe or script.depth > 0)
            value = LOST if known is None or len(known) + len(value) > _LONGEST else known + value
        uncertain = script.depth > 0 and known is not None and known != value
        script.variables[key] = LOST if uncertain else value
        rest = rest[1:]
    return [] if declared else rest


def _mark(words: list[_Word]) -> str:
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


def _entries(words: list[_Word], file: str) -> Iterator[tuple[str, Entry]]:
    """Yield the key and the entry of each option --key and of each override key=value of a command.

    In the name of an option - becomes _; an option without a value is True, and one with several is a list. A value
    that only a run would tell is `Unread`. An override by a mapping comes as one entry per key inside it.
    """
    flag: str | None = None
    place = ""
    values: list[_Word] = []

    def told() -> Iterator[tuple[str, Entry]]:
        if flag is not None:
            value = [_plain(v) for v in values]
            lost = next((v for v in value if isinstance(v, Unread)), None)
            yield flag, Entry(True if not value else lost or (value[0] if len(value) == 1 else value), place)

    launching = words[0].text.rpartition("/")[2] in _LAUNCHERS if words else False
    for word in words:
        override = None if word.quoted and flag else _OVERRIDE.fullmatch(word.text)
        if launching and (word.text.endswith(".py") or word.text == "-m"):  # the launcher's options end here
            yield from told()
            flag, launching = None, False
        elif word.text.startswith("--") and len(word.text) > 2:
            yield from told()
            name, equals, value = word.text[2:].partition("=")
            flag, place = name.replace("-", "_"), f"{file}:{word.line}"
            values = [replace(word, text=value, written=word.written.partition("=")[2])] if equals else []
        elif override and ("." in override[1] or word.text[0] == "+" or flag is None or values):
            yield from told()
            flag = None
            given = _plain(replace(word, text=override[2], written=word.written.partition("=")[2]))
            name, where = override[1], f"{file}:{word.line}"
            yield from flatten(given, where, f"{name}.") if isinstance(given, dict) else [(name, Entry(given, where))]
        elif re.fullmatch(r"-[A-Za-z]\w*", word.text):
            yield from told()
            flag = None
        elif flag is not None and word.text != "--" and word.written not in _ALL:
            values.append(word)
        elif word.text == "--":
            yield from told()
            flag = None
    yield from told()


def _plain(word: _Word) -> object:
    lost = word.maybe or LOST in word.text or "${" in word.text
    return Unread((word.written.strip("\"'") or word.text).replace(LOST, "…"), word.maybe) if lost else plain(word.text)


# --- words -----------------------------------------------------------------------------------------------------------


def _commands(text: str, script: _Script) -> Iterator[list[_Word]]:
    """Yield the words of each command of a script, in which variables have the values that they have at that point."""
    scan = _Scan(text.replace("\r\n", "\n"), script)
    command: list[_Word] = []
    while (word := scan.word()) is not None:
        if word.text == "\n" and not word.quoted:
            if command:
                yield command
            command = []
        else:
            command.append(word)
    if command:
        yield command


class _Scan:
    """A reader of a script that goes through its text and returns one word after another."""

    def __init__(self, text: str, script: _Script) -> None:
        self.text, self.at, self.line, self.script = text, 0, script.first, script

    def word(self) -> _Word | None:
        """Return the next word, or None at the end; a word "\\n" without quotes stands for the end of a command."""
        text = self.text
        while self.at < len(text):
            if text.startswith("\\\n", self.at):
                self.at, self.line = self.at + 2, self.line + 1
            elif text[self.at] in " \t":
                self.at += 1
            elif text[self.at] == "#":
                end = text.find("\n", self.at)
                self.at = len(text) if end < 0 else end
            elif text.startswith("<<", self.at) and not text.startswith("<<<", self.at):
                self._skip_document()
            elif text[self.at] in "\n;&|()":
                self.line += text[self.at] == "\n"
                self.at += 1
                return _Word("\n", "\n", self.line)
            elif text[self.at] in "<>":
                self.at += 1
                self._skip_target()
            else:
                return self._read()
        return None

    def _skip_document(self) -> None:
        """Step over a text that follows a command after <<, including the line that ends it."""
        begun = re.compile(r"<<-?\s*(['\"]?)(\w+)\1").match(self.text, self.at)
        if begun is None:
            self.at += 2
            return
        ended = re.compile(rf"^\s*{begun[2]}\s*$", re.MULTILINE).search(self.text, begun.end())
        end = ended.start() if ended else len(self.text)
        line_end = self.text.find("\n", begun.end())
        # The rest of the line with << is skipped too; what stands there is as a rule a redirection.
        self.at = ended.end() if ended else len(self.text)
        self.line += self.text.count("\n", begun.start(), max(end, line_end))

    def _skip_target(self) -> None:
        while self.at < len(self.text) and self.text[self.at] in "<>& \t":
            self.at += 1
        while self.at < len(self.text) and self.text[self.at] not in " \t\n;|":
            self.at += 1

    def _read(self) -> _Word:
        """Return the word that begins here and ends before the next blank or operator outside quotes."""
        word, begun, text = _Word(line=self.line), self.at, self.text
        while self.at < len(text) and text[self.at] not in " \t\n;&|<>()":
            c = text[self.at]
            if c == "\\" and self.at + 1 < len(text):
                word.text += "" if text[self.at + 1] == "\n" else text[self.at + 1]
                self.line += text[self.at + 1] == "\n"
                self.at += 2
            elif c == "'":
                end = text.find("'", self.at + 1)
                end = len(text) if end < 0 else end
                word.text, word.quoted = word.text + text[self.at + 1 : end], True
                self.line += text.count("\n", self.at, end)
                self.at = end + 1
            elif c == '"':
                word.quoted = True
                self._double(word)
            elif c in "$`":
                before = len(word.text)
                self._expand(word)
                word.splits |= bool(re.search(r"\s", word.text[before:]))
            else:
                word.text += c
                self.at += 1
                if c == "=" and text.startswith("(", self.at) and _ASSIGNED.fullmatch(word.text):
                    self._array(word)
        word.written = text[begun : self.at]
        if word.splits and not word.quoted:  # a shell splits the value of a variable without quotes at its blanks
            word.several = [replace(word, text=piece, splits=False) for piece in word.text.split()]
        return word

    def _double(self, word: _Word) -> None:
        self.at += 1
        while self.at < len(self.text) and self.text[self.at] != '"':
            c = self.text[self.at]
            if c == "\\" and self.at + 1 < len(self.text):
                after = self.text[self.at + 1]
                word.text += after if after in '"\\$`' else "" if after == "\n" else c + after
                self.line += after == "\n"
                self.at += 2
            elif c in "$`":
                self._expand(word)
            else:
                word.text += c
                self.line += c == "\n"
                self.at += 1
        self.at += 1

    def _array(self, word: _Word) -> None:
        """Read ( … ) after NAME= and keep its words as the array of that name; after NAME+= add them to that array.

        word: the word whose text so far is NAME= or NAME+=; its text becomes NAME=.
        """
        name = (_ASSIGNED.fullmatch(word.text) or [""])[0].rstrip("+=")
        appended = word.text.endswith("+=")
        self.at += 1
        words: list[_Word] = []
        while self.at < len(self.text):
            if self.text[self.at] == ")":
                self.at += 1
                break
            if self.text[self.at] == "\n":
                self.at, self.line = self.at + 1, self.line + 1
                continue
            if (inner := self.word()) is None:
                break
            if inner.text == "\n" and not inner.quoted:
                if self.text[self.at - 1] == ")":
                    break
                continue
            words += inner.several if inner.several is not None else [inner]
        arrays = self.script.arrays
        words = [replace(inner, maybe=inner.maybe or self.script.depth > 0) for inner in words]
        arrays[name] = [*arrays.get(name, ()), *words][:_MOST_WORDS] if appended else words[:_MOST_WORDS]
        word.text = f"{name}="

    def _expand(self, word: _Word) -> None:
        """Append to a word what the $ or ` at this place of the line stands for: a variable's value, its default, or
        `LOST` if only a run would tell.

        An array does not become text: its entries become `several` of the word.
        """
        text = self.text
        if text.startswith("${", self.at):
            end = self._closing("{", "}", self.at + 1)
            inside, self.at = text[self.at + 2 : end], end + 1
            self._variable(word, inside)
        elif text.startswith("$(", self.at):
            end = self._closing("(", ")", self.at + 1)
            self.line += text.count("\n", self.at, end)
            word.text, self.at = word.text + LOST, end + 1
        elif text[self.at] == "`":
            end = text.find("`", self.at + 1)
            word.text, self.at = word.text + LOST, (len(text) if end < 0 else end + 1)
        elif name := _NAME.match(text, self.at + 1):
            self.at = name.end()
            self._variable(word, name[0])
        else:
            word.text, self.at = word.text + LOST, self.at + 2  # such as $1 or $@

    def _variable(self, word: _Word, inside: str) -> None:
        whole = re.fullmatch(r"([A-Za-z_]\w*)\[[@*]\]", inside)
        if whole and whole[1] in self.script.arrays:
            word.several = [*(word.several or ()), *self.script.arrays[whole[1]]][:_MOST_WORDS]
            return
        fits = re.fullmatch(r"([A-Za-z_]\w*)(?::?[-=](.*))?", inside, re.DOTALL)
        value = self.script.variables.get(fits[1]) if fits else None
        if value is None and fits and fits[2] is not None:
            value = fits[2].strip("'\"") if "$" not in fits[2] and "`" not in fits[2] else LOST
        word.text += LOST if value is None or len(word.text) + len(value) > _LONGEST else value

    def _closing(self, opens: str, closes: str, at: int) -> int:
        depth = 0
        for k in range(at, len(self.text)):
            depth += (self.text[k] == opens) - (self.text[k] == closes)
            if depth == 0:
                return k
        return len(self.text)
