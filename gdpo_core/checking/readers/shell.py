"""A shell script, read and not run: its commands, in which variables have the values that the script itself gives."""

import re
from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import replace
from itertools import takewhile

from gdpo_core.checking.readers.shell_options import LAUNCHERS, OVERRIDE, Options, parents_of
from gdpo_core.checking.readers.shell_variables import LOOPS, LOST, Frame, Learnt, Script, Word
from gdpo_core.checking.readers.shell_words import DECLARES, LAUNCHED_BY, Command, commands
from gdpo_core.checking.readers.sources import Entry, Source, Unread, collect, installed_by
from gdpo_core.checking.readers.values import plain
from gdpo_core.shared.errors import InputError
from gdpo_core.shared.words import clip

# What a command of a trainer has in it, by which it is found in other texts.
COMMAND = re.compile(
    r"\b(?:(?:swift|megatron) rlhf|main_ppo|trl (?:grpo|rloo)|trl[./]scripts[./](?:grpo|rloo)|axolotl train|run_grpo)\b"
)
_NAME = re.compile(r"[A-Za-z_]\w*")
_CLOSES = {"fi": ("if",), "done": ("while", "until", "for", "select"), "esac": ("case",), "}": ("{",)}
_JOINS = {"&&", "||", "|", "|&"}  # beside a command that may run in some cases only, or in a process of its own
_READS = {"read", "unset", "let", "mapfile", "readarray", "getopts", "eval", "trap"}  # they set names in their words
_MENTIONS = {"alias", "echo", "printf"}  # a text after these is not run as it stands: more words may follow it
_SHELLS = {"bash", "sh", "zsh", "dash", "ksh"}
# Scripts that prepare programs and set nothing that a configuration holds.
_PREPARES = re.compile(r"activate|conda|bashrc|profile|set_env|setvars|cargo/env|nvm\.sh|modules?\b")
_ENVIRONMENT = "NPROC_PER_NODE"  # a variable that a trainer reads itself
_MOST_READINGS = 8  # how often a script is read to learn about its names
_MOST_CALLS = 4  # how many calls of functions inside one another are followed
_DEEPEST = 30  # how many commands such as if may be inside one another


def read_shell(
    text: str,
    file: str,
    first: int = 1,
    outside: frozenset[str] = frozenset(),
    given: Mapping[str, str] | None = None,
) -> list[Source]:
    """Return the sources of entries in a script: one for each command with options, overrides or a file of values.

    The entries of a command are its options, its overrides (words key=value), and the variable that a trainer reads
    itself (`_ENVIRONMENT`). A trainer's command inside quotes counts too. A value is what a shell would give the
    command, or `Unread` where that depends on the run. A command in a text that is only mentioned (`_MENTIONS`) counts
    where the script has no other, and may have more words than stand there.

    file: the name of the file, for errors and places.
    first: the number of the script's first line in this file.
    outside: the names of variables that a script around this one sets, where this script is a word of another; here
        their values are unknown.
    given: variables that whoever runs the script sets before, with their values.

    Raises InputError that names the file where too many commands such as if are inside one another, or one command has
    too many options.
    """
    text = text.replace("\r\n", "\n")
    script = Script(text, first, outside, _learnt(text, file, first, outside))
    script.variables |= given or {}
    packages = installed_by(text)
    sources = _sources(script, file)
    if not any(COMMAND.search(source.mark) for source in sources):
        sources += script.mentioned
    sources = _without_fragments([replace(source, packages=packages) for source in sources])
    if script.hidden:
        sources.append(Source(file, {}, place=f"{file}:{first}", hidden=tuple(dict.fromkeys(script.hidden))))
    return sources


def _learnt(text: str, file: str, first: int, outside: frozenset[str]) -> Learnt:
    """Return what a script tells about its names, for which it is read until nothing is new.

    The arguments are those of `read_shell`, and so is the error.
    """
    learnt = Learnt()
    for _ in range(_MOST_READINGS):
        before = deepcopy(learnt)
        for _command in _steps(Script(text, first, outside, learnt), file):
            pass
        if learnt == before:
            return learnt
    learnt.unsure |= learnt.places.keys()
    return learnt


def _steps(script: Script, file: str) -> Iterator[tuple[list[Word], list[Word], Command]]:
    """Yield the commands of a script one after another: the assignments before it, its words, and the command.

    While the caller has a command, `script` has the variables as they are when it runs. Raises InputError where too
    many commands such as if are inside one another.

    file: the name of the file, for the error.
    """
    for command in commands(script.text, script):
        case = command.after == ")" and script.frames[-1].kind == "case"
        if case and command.words and command.words[0].written not in ("case", "esac"):  # a pattern, such as a)
            continue
        words = _structure(command, script)
        words = [inner for word in words for inner in (word.several if word.several is not None else [word])]
        before, words = _assign(words, command, script)
        yield before, words, command
        if command.after == "(":
            script.open("(")
        elif command.after == ")" and script.frames[-1].kind != "case":
            script.close(("(",), script.at)
        if len(script.frames) > _DEEPEST:
            raise InputError(f"{file}: expected at most {_DEEPEST} commands such as if inside one another, got more")


def _sources(script: Script, file: str, depth: int = 0) -> list[Source]:
    """Return the sources of a script's commands.

    A command in a function has a source for each call that the script writes out. If the function may also be called
    in another way, the command has one more source, in which the function's arguments are unknown.

    depth: how many calls of functions led to this script.
    """
    tagged: list[tuple[str, Source]] = []  # each with the function in which it stands
    for before, words, command in _steps(script, file):
        inside = script.body.function if script.body else ""
        if words and not inside and words[0].written in script.functions and depth < _MOST_CALLS:
            called = _of_call(words, command, script, file, depth)
            tagged += [("", source) for source in called]
            if called:
                continue
        tagged += [(inside, source) for source in _of_command(before, words, script, file)]
    followed = {name for name, calls in script.calls.items() if len(calls) + 1 >= script.counts[name.replace("-", "_")]}
    return [source for function, source in tagged if function not in followed]


def _of_call(words: list[Word], command: Command, script: Script, file: str, depth: int) -> list[Source]:
    """Return the sources of the commands in the body of a function that a command calls, with its arguments there.

    words: the words of the command, of which the first is the function's name.
    depth: how many calls of functions led to this one.
    """
    name, place = words[0].written, f"{file}:{words[0].line}"
    body, line = script.functions[name]
    script.calls.setdefault(name, set()).add(command.at)
    if not script.may_spend(0, len(body)):
        return []
    call = Script(body, line, script.outside, deepcopy(script.known), called=name)
    call.variables = {name: script.get(name) or "" for name in script.variables} | {call.arguments: tuple(words[1:])}
    call.functions, call.spent = script.functions, script.spent
    sources = _sources(call, file, depth + 1)
    script.spent = call.spent
    script.hidden += call.hidden
    return [replace(source, place=place) for source in sources]


def _of_command(before: list[Word], words: list[Word], script: Script, file: str) -> list[Source]:
    """Return the sources of one command: those of the commands that its words hold as text, and its own.

    before, words: the assignments before the command, and its words.
    """
    sources, names = [], script.outside | script.known.places.keys()
    for number, word in enumerate(words):  # A word can be a whole command as text, as after `bash -c`.
        text = " " in word.text.strip() and word.text != script.text
        runs = text and (_runs(words[:number]) or (word.quoted and COMMAND.search(word.text)))
        if runs and words[0].text in _MENTIONS:
            script.mentioned += read_shell(f"{word.text} {LOST}", file, word.line, names)
        elif runs and not word.text.strip().startswith(LOST):
            sources += read_shell(word.text, file, word.line, names)
    script.hidden += _hidden(words, file)
    if words and words[0].text == "xargs":
        words = [*words, Word(LOST, "what xargs reads", words[0].line, more=True)]
    options = Options(file, script)
    entries = collect(options.read(words), file)
    parents = (*parents_of(words, entries), *options.open)
    if entries or (parents and (len(parents) > len(options.open) or COMMAND.search(_mark(words)))):
        place = f"{file}:{words[0].line}"
        entries = _environment(before, script, place) | entries
        sources.append(Source(file, entries, _mark(words), place, parents))
    return sources


def _runs(words: list[Word]) -> bool:
    """Return whether the word after these words is a text that a shell runs, as after bash -c."""
    texts = [word.text for word in words]
    shells = [number for number, text in enumerate(texts) if text.rpartition("/")[2] in _SHELLS]
    return texts == ["eval"] or bool(shells and re.fullmatch(r"-[a-z]*c", texts[-1]))


def _hidden(words: list[Word], file: str) -> list[str]:
    """Return what of a command may hold commands or variables and was not read: a text that a shell runs, or a script.

    words: the words of the command.
    """
    texts = [word.text for word in words]
    if len(words) > 1 and texts[0] in ("source", "."):
        quiet = _PREPARES.search(words[1].written)
        return [] if quiet else [f"{file}:{words[0].line} sources {clip(words[1].shown)}"]
    if len(words) == 1 and texts[0].startswith(LOST) and words[0].written[:1] in '"$':
        return [f"{file}:{words[0].line} runs {clip(words[0].shown)}"]
    unknown = [word for number, word in enumerate(words) if LOST in word.text.split(" ")[0] and _runs(words[:number])]
    hooks = [word for word in unknown if not word.written.strip('"').startswith("$(")]
    return [f"{file}:{word.line} runs {clip(word.shown)}" for word in hooks]


def _without_fragments(sources: list[Source]) -> list[Source]:
    """Return the sources of a script, in which the entries of fragments are unknown, as no command gets them.

    A fragment is a line that begins with an option or override, although a command of the script runs a trainer. It may
    be the rest of a command that a comment after a backslash cuts off. A script of nothing but options stays as it is.
    """
    if not any(COMMAND.search(source.mark) for source in sources):
        return sources
    cut = [
        {
            key: e if isinstance(e.value, Unread) else Entry(Unread(str(e.value)), e.place)
            for key, e in s.entries.items()
        }
        for s in sources
    ]
    return [s if s.mark else replace(s, entries=entries) for s, entries in zip(sources, cut, strict=True)]


def _structure(command: Command, script: Script) -> list[Word]:
    """Return the words of a command, or none if a keyword such as if or done begins it.

    A keyword that begins, continues or ends a compound command lets `script` do the same. Words such as ! and nohup
    before the command are left out.
    """
    words = command.words
    while words and words[0].written in LAUNCHED_BY | {"!", "time", "in"}:
        words = words[1:]
    key = words[0].written if words else ""
    if key == "function":
        script.head = words[0].text
    elif key in LOOPS | {"if", "case", "{"}:
        script.open(key, words[0].line)
        if key in ("for", "select") and len(words) > 1:
            script.lose(words[1].text)
    elif key in _CLOSES:
        script.close(_CLOSES[key], command.at)
    elif key not in ("do", "then", "else", "elif"):
        return words
    return []


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
        script.frames.append(Frame("&&"))
    if rest and (name in script.known.functions or name == "eval" or LOST in name):
        for word in before:  # The function that is called, or may be, has what is assigned before its name.
            script.known.unsure.add((_NAME.match(word.assigns) or [""])[0])
    if not rest:
        for word in before:
            script.assign(word)
    elif name in DECLARES:
        _declare(rest, script)
        rest = []
    elif name in _READS or (name == "printf" and "-v" in texts):
        for match in _NAME.findall(" ".join(texts)):
            script.lose(match)
        rest = rest if name == "eval" else []
    elif name == "shift":
        _shift(rest[1:], script)
        rest = []
    elif name == "set" and texts:
        if texts[0] == "--" or texts[0][:1] not in ("-", "+"):
            script.lose(script.arguments)
        rest = []
    if apart:
        script.frames.pop()
    return before, rest


def _shift(words: list[Word], script: Script) -> None:
    """Change the arguments of a function, or of the script, as the command shift does.

    words: the words after shift.
    """
    given, count = script.get(script.arguments), words[0].text if words else "1"
    counted = count.isdecimal() and len(count) < 4
    if (
        counted
        and isinstance(given, tuple)
        and all(
            not word.maybe and (not word.more or re.fullmatch(r'"\$(\w+|\{\w+\})"', word.written))  # certainly one word
            for word in given[: int(count)]
        )
    ):
        script.set(script.arguments, given[int(count) :], words=True)
    else:
        script.lose(script.arguments)


def _declare(words: list[Word], script: Script) -> None:
    """Change the variables of a script as a command export, readonly, declare, local or typeset does.

    A variable with an attribute such as -i, which changes what is assigned to it, is unknown everywhere, and so is one
    that is readonly.

    words: the words of the command, whose name is the first.
    """
    if any(word.text.startswith(LOST) and not word.written.strip('"').startswith(("$(", "`")) for word in words[1:]):
        script.known.unsure |= script.known.places.keys()  # The name stands behind a variable: it can be any.
    flags = {letter for word in words[1:] if word.text[:1] in ("-", "+") for letter in word.text[1:]} - {"a", "g", "x"}
    for word in words[1:]:
        names = _NAME.findall(word.text.partition("=")[0])
        if not names or word.text[0] in "-+":
            continue
        if word.assigns and not flags and words[0].text != "readonly":
            script.assign(word)
        elif "=" in word.text or words[0].text in ("declare", "local", "typeset"):  # also as in export "$B=5"
            for name in _NAME.findall(word.text):
                script.lose(name)
                script.known.unsure |= {name} if flags or words[0].text == "readonly" else set()
        if words[0].text == "export":
            script.exported |= set(names) if len(script.frames) == 1 else set()


def _environment(before: list[Word], script: Script, place: str) -> dict[str, Entry]:
    """Return the entry for the variable that a trainer reads itself, if it is set; if not exported, it is `Unread`.

    before: the assignments before the trainer's command.
    place: the place of the command.
    """
    given = [word.text.partition("=")[2] for word in before if word.assigns == f"{_ENVIRONMENT}="]
    value = given[-1] if given else script.get(_ENVIRONMENT)
    if value is None:
        return {}
    told = isinstance(value, str) and LOST not in value and (given or _ENVIRONMENT in script.exported)
    return {_ENVIRONMENT: Entry(plain(str(value)) if told else Unread(f"${_ENVIRONMENT}"), place)}


def _mark(words: list[Word]) -> str:
    """Return what a command runs: its words up to the first option or override, at most 20 of them, as one text.

    The words -m, -c and --, and the word after --, are not taken for options. If a launcher such as torchrun begins the
    command, its words do not end there: options and overrides are left out, and the words after them count.
    """
    kept: list[str] = []
    for word in words:
        text = word.text.replace(LOST, "…")
        option = text.startswith("-") and text not in ("-m", "-c", "--") and kept[-1:] != ["--"]
        if (option or OVERRIDE.fullmatch(text)) and words[0].text not in LAUNCHERS:
            break
        if not option and not OVERRIDE.fullmatch(text):
            kept.append(text)
    return " ".join(kept[:20])
