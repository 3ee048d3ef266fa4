"""The variables of a shell script, each with its value at one place of the script or as unknown.

A variable is known if only commands outside all compound commands set it. Whatever is set inside an if, a loop, a
case, a group, a function or a command next to && is unknown in the whole script, also before that place. An array that
gets nothing but words is told as far as its words may be there.
"""

import re
from collections import Counter
from dataclasses import dataclass, field, replace
from functools import cached_property

from gdpo_core.checking.readers.sources import Source

LOST = "\0"  # stands in a text for what only a run would tell
LOOPS = {"while", "until", "for", "select"}
_BUDGET = 4_000_000  # the most characters that all expansions of a script may bring; a word counts as 50
_MOST_CHOICES = 8  # the most values of one variable that are listed
_NAME = re.compile(r"[A-Za-z_]\w*")
_OPTION = re.compile(r"(?<!\w)--\w")  # an option in the text that is assigned


@dataclass
class Word:
    """A word of a script.

    text: its text without quotes; variables are replaced by their values, and what is unknown by `LOST`.
    written: its text as the script has it.
    line: the number of its line.
    quoted: whether a part of it stands in quotes.
    maybe: the place of the assignment by which an array only sometimes holds it, as one inside an if; else 0.
    more: whether something unknown in it was set by the script or is the output of a program, so that it may stand for
        further words.
    options: whether those words may be options even where a value is expected, directly after an option.
    assigns: for a word that assigns, its text up to =, such as "NAME+="; otherwise "".
    array: the words that it assigns, as in NAME=(a b).
    several: the words for which it stands: an array's, or those into which a shell splits it.
    choices: the values that the script writes for it, where it is a variable that several branches set.
    """

    text: str = ""
    written: str = ""
    line: int = 0
    quoted: bool = False
    maybe: int = 0
    more: bool = False
    options: bool = False
    assigns: str = ""
    array: list["Word"] | None = None
    several: list["Word"] | None = None
    choices: tuple[str, ...] = ()

    @property
    def shown(self) -> str:
        """The word as the script has it, without quotes around it, for a reader."""
        return self.written.strip("\"'").replace(LOST, "…")


Value = str | tuple[Word, ...]  # of a variable or of an array; `LOST` may be an array too


@dataclass(frozen=True)
class Frame:
    """A compound command that has begun and not ended.

    kind: the keyword or bracket that opened it, "&&" for a command that runs in some cases only, "" for the script.
    begun: the place in the script where it begins.
    function: the name of the function whose body it is, "" for any other command.
    line: the number of the line on which it begins.
    """

    kind: str = ""
    begun: int = 0
    function: str = ""
    line: int = 0


@dataclass
class Learnt:
    """A record of what the readings of a whole script so far tell about its names, for the next reading of it.

    places: for each name that the script may set, the places where it does.
    unsure: the names that are unknown in the whole script.
    choices: for each name, all texts that it gets.
    optional: the names whose values may hold options.
    functions: for each function, the places where its bodies begin.
    """

    places: dict[str, set[int]] = field(default_factory=dict)
    unsure: set[str] = field(default_factory=set)
    choices: dict[str, dict[str, None]] = field(default_factory=dict)
    optional: set[str] = field(default_factory=set)
    functions: dict[str, set[int]] = field(default_factory=dict)


class Script:
    """The variables and arrays of a script, as far as it was read.

    text: the script.
    line: the number of its first line.
    outside: names that the script around this one sets, where this script is a word of another.
    known: what earlier readings of the script told, to which this one adds.
    called: the name of the function of whose body this script is one call; "" for a whole script.
    """

    def __init__(self, text: str, line: int, outside: frozenset[str], known: Learnt, called: str = "") -> None:
        self.text, self.line, self.outside, self.called = text, line, outside, called
        self.known = known
        self.variables: dict[str, Value] = {}
        self.frames = [Frame()]
        self.exported: set[str] = set()
        self.pending: set[str] = set()  # names that the words of the present command assign
        self.spent = 0
        self.at = 0  # the place to which the script was read
        self.head = ""  # the name in the head of a function that was read, whose body comes next
        self.functions: dict[str, tuple[str, int]] = {}  # the bodies of functions, each with its first line
        self.hidden: list[str] = []  # what may hold commands or variables and was not read
        self.mentioned: list[Source] = []  # of commands in texts that are not run as they stand
        self.calls: dict[str, set[int]] = {}  # for each function, the places of the calls that were followed

    @cached_property
    def counts(self) -> Counter[str]:
        """The number of times that each word is written in the script, with _ in place of -."""
        return Counter(name.replace("-", "_") for name in re.findall(r"[A-Za-z_][\w.-]*", self.text))

    @property
    def body(self) -> Frame | None:
        """The body of the function in which the reading is, None outside of functions."""
        return next((frame for frame in self.frames if frame.function), None)

    @property
    def arguments(self) -> str:
        """The name under which the arguments of the script, or of the function in which the reading is, are kept."""
        return f"@{self.body.function if self.body else self.called}"

    def may_set(self, name: str) -> bool:
        """Return whether the script, or one around it, may set a variable anywhere."""
        return name in self.outside or name in self.known.places or name in self.variables

    def get(self, name: str) -> Value | None:
        """Return the value of a variable: `LOST` where it is unknown, and None where the script gave it none.

        A name that is set further on is unknown in a loop, and in the body of a function, which may be called after
        that place.
        """
        again = [frame.begun for frame in self.frames if frame.function or frame.kind in LOOPS]
        if name in self.pending | self.known.unsure or (again and max(self.known.places.get(name, {-1})) > again[0]):
            return LOST
        return self.variables.get(name, LOST if name in self.outside else None)

    def lose(self, name: str) -> None:
        """Make a variable unknown."""
        self.set(name, LOST)

    def set(self, name: str, value: Value, words: bool = False) -> None:
        """Give a variable a value, and note what that tells about its name for the next reading.

        words: whether it gets the words of an array.
        """
        home = (self.body if name.startswith("@") else None) or self.frames[0]  # A function has arguments of its own.
        self.known.places.setdefault(name, set()).add(self.at)
        self.known.choices.setdefault(name, {})[value if isinstance(value, str) else LOST] = None
        if self.frames[-1] is not home and (self.body or not words):
            self.known.unsure.add(name)
        self.variables[name] = value

    def assign(self, word: Word) -> None:
        """Give a variable the value that a word NAME=value, NAME+=value, NAME[…]=value or NAME=( … ) assigns.

        word: the word, whose `assigns` is not empty.
        """
        name, text = (_NAME.match(word.assigns) or [""])[0], word.text[len(word.assigns) :]
        known, extends = self.get(name), word.assigns.endswith("+=")
        if word.options or any(_OPTION.search(w.text) for w in word.array or ()) or _OPTION.search(text):
            self.known.optional.add(name)
        if word.array is not None and "[" not in word.assigns:
            self.set(name, self._with_words(word, name), words=True)
        elif "[" in word.assigns or (extends and (not isinstance(known, str) or known == LOST)):
            self.lose(name)
        else:
            self.set(name, f"{known}{text}" if extends else text)

    def _with_words(self, word: Word, name: str) -> tuple[Word, ...]:
        """Return the words that an array may have after NAME=( … ) or NAME+=( … ).

        Inside a compound command the words that it had before may stay, and those that it gets may be missing.
        """
        inside = self.at if len(self.frames) > 1 else 0
        base = LOST if name in self.known.unsure | self.outside else self.variables.get(name, ())
        if isinstance(base, str):
            base = (may_hold_more(word) if base == LOST else Word(base, line=word.line),)
        if not word.assigns.endswith("+="):
            base = tuple(replace(w, maybe=w.maybe or inside) for w in base if inside)
        return (*base, *(replace(w, maybe=w.maybe or inside) for w in word.array or ()))

    def choices(self, name: str) -> tuple[str, ...]:
        """Return the texts that a name gets in the branches of the script, () where it may get something else."""
        texts = tuple(self.known.choices.get(name, ()))
        told = 1 < len(texts) <= _MOST_CHOICES and not any(LOST in text for text in texts)
        return texts if told else ()

    def may_spend(self, texts: int, words: int = 0) -> bool:
        """Count what an expansion brings, and return whether the script has stayed within `_BUDGET`.

        texts: how many characters the expansion brings.
        words: how many words it brings.
        """
        self.spent += texts + 50 * words
        return self.spent <= _BUDGET

    def open(self, kind: str, line: int = 0) -> None:
        """Note that a compound command begins, which is the body of a function if its head was read just before.

        kind: the keyword or bracket that opens it.
        line: the number of the line.
        """
        if self.head:
            self.known.functions.setdefault(self.head, set()).add(self.at)
        self.frames.append(Frame(kind, self.at, self.head, line))
        self.head = ""

    def close(self, kinds: tuple[str, ...], end: int) -> None:
        """End the innermost compound command of one of some kinds, and those inside it.

        The body of a function is kept where the script has just one function of that name, outside compound commands.

        kinds: the keywords or brackets that may have opened it. If none is open, nothing happens.
        end: the place before what ends it.
        """
        begun = [number for number, frame in enumerate(self.frames) if frame.kind in kinds]
        if not begun:
            return
        frame = self.frames[begun[-1]]
        del self.frames[begun[-1] :]
        alone = len(self.known.functions.get(frame.function, ())) == 1 and len(self.frames) == 1
        if frame.function and frame.kind == "{" and alone:
            self.functions[frame.function] = self.text[frame.begun : end], frame.line


def may_hold_more(word: Word) -> Word:
    """Return a word that stands for words which only a run would tell, as many as there may be.

    word: the word in whose place they stand.
    """
    return Word(LOST, word.written, word.line, maybe=1, more=True, options=True)
