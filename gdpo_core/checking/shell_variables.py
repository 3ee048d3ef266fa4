"""The variables of a shell script, each with its value at one place of the script or as unknown."""

import re
from collections import Counter
from dataclasses import dataclass, field, replace
from functools import cached_property

LOST = "\0"  # stands in a text for what only a run would tell
_MOST_WORDS = 2000  # the most words of an array; one that is set to itself twice doubles each time
LONGEST = 100_000  # the most characters of a value; a variable that is set to itself twice doubles each time
_BUDGET = 20_000_000  # the most characters that all expansions of a script may bring; a word counts as 50
_ASSIGNED = re.compile(  # whatever may give a variable a value: an assignment, arithmetic, or a builtin such as read
    r"(?<![\w.\-/@])([A-Za-z_]\w*)(?:\[[^]\n]{0,200}\])?(?:[ \t]*(?:(\+=\()|(?:[-+*/%&|^]|<<|>>)?=(?!=))|\+\+|--)"
    r"|(?:\+\+|[(,=!<>?:]\s*--)\s*([A-Za-z_]\w*)|\$\{([A-Za-z_]\w*)(?:\[[^]\n]{0,200}\])?:?="
    r"|\b(?:read|unset|let|mapfile|readarray|getopts|printf[ \t]+-v|declare|local|typeset|readonly|for|select|eval"
    r"|trap)\b((?:\\\n|[^\n;&|]){0,300})|\b(set)[ \t]+(?:--|[^-+\s])"
)
_NAME = re.compile(r"[A-Za-z_]\w*")
_OPTION = re.compile(r"(?:\\\n|[^\n;]){0,300}?(?<!\w)--\w")  # an option in the text that is assigned


@dataclass
class Word:
    """A word of a script.

    text: its text without quotes; variables are replaced by their values, and what is unknown by `LOST`.
    written: its text as the script has it.
    line: the number of its line.
    quoted: whether a part of it stands in quotes.
    maybe: whether it comes from an array that only sometimes holds it, as when it is added inside an if.
    more: whether something unknown in it was set by the script or is the output of a program, so that it may stand for
        further words.
    options: whether those words may be options even where a value is expected, directly after an option.
    origin: the place of the ( with which the array begins that the word was written into; 0 outside an array.
    assigns: for a word that assigns, its text up to =, such as "NAME+="; otherwise "".
    array: the words that it assigns, as in NAME=(a b).
    several: the words for which it stands: an array's, or those into which a shell splits it.
    """

    text: str = ""
    written: str = ""
    line: int = 0
    quoted: bool = False
    maybe: bool = False
    more: bool = False
    options: bool = False
    origin: int = 0
    assigns: str = ""
    array: list["Word"] | None = None
    several: list["Word"] | None = None


Value = str | tuple[Word, ...]  # of a variable or of an array; `LOST` may be an array too


@dataclass
class Frame:
    """A compound command that has begun and not ended, with what it changed so far.

    It is an if, a case, a loop, a group { … }, a subshell ( … ) or the body of a function.

    kind: the keyword or bracket that opened it, "&&" for a command that runs in some cases only, "" for the script.
    begun: the place in the script where it begins.
    repeats: whether it may run again.
    function: whether it is the body of a function.
    sure: whether it runs exactly once and in the script's own process.
    old: for each name that it set, the value from before it as `Script.get` told it; None where there was none.
    kept: for the same names, what `Script.variables` held before it, which is put back at its end.
    grown: by the names that it changed, whether each is an array that it only added words to.
    gained: by the same names, all words that it put into an array; None for a name that got anything but words.
    branch: the names that it changed in its present branch.
    local: the names that are local in the body of a function.
    """

    kind: str = ""
    begun: int = 0
    repeats: bool = False
    function: bool = False
    sure: bool = False
    old: dict[str, Value | None] = field(default_factory=dict)
    kept: dict[str, Value | None] = field(default_factory=dict)
    grown: dict[str, bool] = field(default_factory=dict)
    gained: dict[str, tuple[Word, ...] | None] = field(default_factory=dict)
    branch: set[str] = field(default_factory=set)
    local: set[str] = field(default_factory=set)


class Script:
    """The variables and arrays of a script, as far as it was read.

    text: the script.
    line: the number of its first line.
    outside: names that the script around this one assigns, where this script is a word of another.
    """

    def __init__(self, text: str, line: int, outside: frozenset[str] = frozenset()) -> None:
        self.line, self.outside = line, outside
        self.variables: dict[str, Value | None] = {}
        self.frames = [Frame(sure=True)]
        self.fixed: set[str] = set()  # names that stay unknown whatever is assigned, as those that a function sets
        self.pending: set[str] = set()  # names that the words of the present command assign
        self.spent = 0
        self.at = 0  # the place to which the script was read
        self.heads = False  # whether the head of a function was read, whose body comes next
        self.counts = Counter(name.replace("-", "_") for name in re.findall(r"[A-Za-z_][\w.-]*", text))
        self.last, self.replaced = _assigned_at(text)
        match = (m[1] for m in _ASSIGNED.finditer(text) if m[1] and _OPTION.match(text, m.end()))
        self.optional = set(match)  # names whose values may be whole options

    @cached_property
    def names(self) -> frozenset[str]:
        """The names that the script, or one around it, may assign anywhere."""
        return self.outside | self.last.keys()

    def assigns(self, name: str) -> bool:
        """Return whether the script, or one around it, may assign a variable anywhere."""
        return name in self.last or name in self.outside or name in self.variables

    def get(self, name: str, grows: bool = False) -> Value | None:
        """Return the value of a variable: `LOST` where it is unknown, and None where the script gave it none.

        A loop or function that assigns the variable further on makes it unknown, because it may have run before.

        grows: whether the value is only extended, for which assignments that extend the same array do not count.
        """
        if name in self.pending:
            return LOST
        last = (self.replaced if grows else self.last).get(name, -1)
        for frame in reversed(self.frames):
            if name in frame.old:
                break
            if frame.repeats and last > frame.begun:
                return LOST
        value = self.variables.get(name)
        return LOST if value is None and name in self.outside else value

    def lose(self, name: str) -> None:
        """Make a variable unknown."""
        self.set(name, LOST)

    def set(self, name: str, value: Value, grows: bool = False) -> None:
        """Give a variable a value, and note what the innermost compound command changed.

        grows: whether `value` is the array as it was, with more words at its end.
        """
        frame = self.frames[-1]
        before = self.get(name, grows)
        if name in self.fixed or len(value) > _limit(value):
            value = LOST
        if name not in frame.old:
            frame.old[name], frame.kept[name] = before, self.variables.get(name)
        if isinstance(value, str) and value == before == self.variables.get(name):
            return
        words: tuple[Word, ...] | None = None
        grows = isinstance(value, tuple) and (before is None or (grows and not isinstance(before, str)))
        if isinstance(value, tuple) and not isinstance(before, str):
            known = frame.gained.get(name, ())
            words = None if known is None else known + (value[len(before or ()) :] if grows else value)
        frame.grown[name] = grows and frame.grown.get(name, True)
        frame.gained[name] = words if words is None or len(words) <= _MOST_WORDS else None
        frame.branch.add(name)
        self.variables[name] = value

    def assign(self, word: Word) -> None:
        """Give a variable the value that a word NAME=value, NAME+=value, NAME[…]=value or NAME=( … ) assigns.

        word: the word, whose `assigns` is not empty.
        """
        name = (_NAME.match(word.assigns) or [""])[0]
        extends, text = word.assigns.endswith("+="), word.text[len(word.assigns) :]
        known = self.get(name)
        if "[" in word.assigns:
            self.lose(name)
        elif word.array is None and not extends:
            self.set(name, text if not isinstance(known, tuple) else LOST)
        elif word.array is None and isinstance(known, tuple):
            first = known[0] if known else Word(line=word.line)  # A shell appends a text to the first word of an array.
            longer = (replace(first, text=first.text + text), *known[1:])
            self.set(name, LOST if first.maybe else longer)
        elif word.array is None:
            self.set(name, known + text if isinstance(known, str) and known != LOST else LOST)
        elif not extends:
            self.set(name, tuple(word.array))
        else:
            base = self.get(name, grows=True)
            uncertain = known == LOST and base != LOST  # The loop may have added these words before.
            words = tuple(replace(w, maybe=True) for w in word.array) if uncertain else tuple(word.array)
            whole = isinstance(base, str)
            begun = (may_hold_more(word) if base == LOST else Word(str(base), line=word.line),) if whole else base or ()
            self.set(name, (*begun, *words), grows=not whole)

    def may_spend(self, texts: int, words: int = 0) -> bool:
        """Count what an expansion brings, and return whether the script has stayed within `_BUDGET`.

        texts: how many characters the expansion brings.
        words: how many words it brings.
        """
        self.spent += texts + 50 * words
        return self.spent <= _BUDGET

    def open(self, frame: Frame) -> None:
        """Note that a compound command begins, inside those that are open already."""
        self.frames.append(frame)

    def next_branch(self, restore: bool) -> None:
        """End a branch of the innermost compound command.

        restore: whether the next branch begins with the values from before the command. Otherwise all that this branch
            set is unknown there, as after ;& in a case, or after a condition.
        """
        frame = self.frames[-1]
        for name in frame.branch:
            self.variables[name] = frame.old[name] if restore else LOST
            if not restore:
                frame.gained[name] = None
        frame.branch = set()

    def close(self, kind: str, sure: bool = True) -> None:
        """End the innermost compound command of a kind, and those inside it; what only some runs set is then unknown.

        kind: the keyword or bracket that opened it. If none is open, nothing happens.
        sure: whether the command runs in the script's own process.
        """
        if any(frame.kind == kind for frame in self.frames):
            while self.frames[-1].kind != kind:
                self._close(sure=False)
            self._close(sure)

    def _close(self, sure: bool) -> None:
        """End the innermost compound command, whatever its kind; sure means the same as for `close`."""
        frame = self.frames.pop()
        for name, before in frame.old.items():
            now, self.variables[name] = self.variables.get(name), frame.kept[name]
            if name in frame.local or (frame.kind == "(" and not frame.function):
                continue
            if frame.function:
                self.fixed.add(name)
                self.lose(name)
            elif name not in frame.grown:
                continue
            elif frame.sure and sure and now is not None:
                self.set(name, now, frame.grown[name])
            elif (gained := frame.gained[name]) is None or isinstance(before, str):
                self.lose(name)
            else:
                kept = before or () if frame.grown[name] else tuple(replace(w, maybe=True) for w in before or ())
                self.set(name, (*kept, *(replace(w, maybe=True) for w in gained)), frame.grown[name])


def may_hold_more(word: Word) -> Word:
    """Return a word that stands for words which only a run would tell, as many as there may be.

    word: the word in whose place they stand.
    """
    return Word(LOST, word.written, word.line, maybe=True, more=True, options=True)


def _limit(value: Value) -> int:
    return LONGEST if isinstance(value, str) else _MOST_WORDS


def _assigned_at(text: str) -> tuple[dict[str, int], dict[str, int]]:
    """Return the last place of a script that may assign each name, and the last that does more than extend an array.

    What stands in comments, quotes and here-documents counts too.
    """
    last: dict[str, int] = {}
    replaced: dict[str, int] = {}
    for match in _ASSIGNED.finditer(text):
        name = match[1] or match[3] or match[4]
        names = [name] if name else ["@"] if match[6] else _NAME.findall(match[5] or "")
        for assigned in names:
            last[assigned] = match.start()
            if not match[2]:
                replaced[assigned] = match.start()
    return last, replaced
