"""The words of a shell script, in which a variable is replaced by its value as far as the script alone tells it."""

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace

from gdpo_core.checking.shell_variables import LONGEST, LOST, Script, Word, may_hold_more

DECLARES = {"export", "readonly", "declare", "local", "typeset"}
_OPENS = {"if", "while", "until", "{", "then", "do", "else", "elif"}  # after each of them a command begins
_BEFORE = _OPENS | {"!", "time", "function"}
LAUNCHED_BY = {"env", "nohup", "exec", "sudo"}  # commands that run the command after them
_NAME = re.compile(r"[A-Za-z_]\w*")
_ASSIGNS = re.compile(r"[A-Za-z_]\w*(?:\[.*\])?\+?=", re.DOTALL)
_BLANKS = re.compile(r"(?:[ \t]|\\\n)+|#[^\n]*")
_REDIRECTS = re.compile(r"&>>|&>|(?:\d+|\{\w+\})?(?:<<<|<<-?|<>|<&|>&|>>|>\||<(?!\()|>(?!\())")
# A ~ at the beginning of a word stands for a folder.
_HOME = re.compile(r"~[\w.+-]*(?:[/:\s;&|<>()]|\Z)")
_OPERATOR = re.compile(r";;&|;&|;;|;|&&|&|\|\||\|&|\||\n|\(|\)")
_FUNCTION = re.compile(
    r"function[ \t]+([^\s(){}]+)[ \t]*(?:\([ \t]*\))?|([^\s=(){}<>;&|'\"$`\\]+)[ \t]*\([ \t]*\)"
)  # the head of a function, without its body
_DOCUMENT = re.compile(r"[ \t]*(?:'([^'\n]*)'|\"([^\"\n]*)\"|([^\s;&|<>()]+))")  # the word that ends a here-document
# An assignment in an arithmetic expression, such as N += 2 or N++; the name is group 1 or 2.
_COUNTS = re.compile(r"([A-Za-z_]\w*)\s*(?:(?:[-+*/%&|^]|<<|>>)?=(?!=)|\+\+|--)|(?:\+\+|--)\s*([A-Za-z_]\w*)")
# What may stand between ${ and } to be told: a name, and a text to use instead where it has no value.
_DEFAULT = re.compile(r"([A-Za-z_]\w*)(?:(:?)-(?:'([^']*)'|\"([^\"$`\\]*)\"|([^'\"$`\\]*)))?")
_LETTERS = re.compile(r"[^\s;&|<>()\\'\"$`~*?{=\0\1]+")  # what stands for itself outside quotes
_QUOTED = re.compile(r"[^\"\\$`\0]+")  # what stands for itself inside double quotes
_LONGEST_ARITHMETIC = 10_000  # the most characters of an expression (( … ))
_SPLITS = "\1"  # stands in the text of a word where a shell splits it, because a value without quotes has blanks there
# What matters between brackets: quotes, comments, the begin of a here-document (its word is group 1), and brackets.
_INSIDE = re.compile(
    r"\\.|'[^']*'|\"(?:\\.|[^\"\\])*\"|(?<=\s)#[^\n]*|<<-?[ \t]*['\"]?(\w+)['\"]?|[(){}]|['\"]", re.DOTALL
)


@dataclass(frozen=True)
class Command:
    """A command of a script, or a keyword such as then, after which a command begins.

    words: its words, without redirections.
    before: the operator before it, such as && or a new line.
    after: the operator after it; "" after a keyword.
    at: the place where its first word begins.
    """

    words: list[Word]
    before: str
    after: str
    at: int


def commands(text: str, script: Script) -> Iterator[Command]:
    """Yield the commands of a script one by one, and each keyword after which a command begins as one of its own.

    The variables in a command get the values that they have when the command is asked for, so that the caller can let
    each command change `script` before it asks for the next.

    text: the script.
    script: its variables, which an expansion that assigns, such as ${N:=8}, makes unknown.
    """
    scan = _Scan(text, script)
    words: list[Word] = []
    before, at = "\n", 0
    while (item := scan.next()) is not None:
        script.at = scan.at
        if isinstance(item, Word):
            at = at if words else scan.begun
            words.append(item)
            if scan.first and item.written in _BEFORE:
                yield Command(words, before, "", at)
                words, before = [], ";" if item.written in _OPENS else before
        else:
            if words or item != "\n":
                yield Command(words, before, item, at)
                before = item
            words = []
    if words:
        yield Command(words, before, "\n", at)


class _Scan:
    """A reader of a script that goes through its text and returns one word or operator after another.

    text: the script.
    script: its variables, whose values replace them in the words.
    """

    def __init__(self, text: str, script: Script) -> None:
        self.text, self.at, self.line, self.script = text, 0, script.line, script
        self.begun = 0  # the place where the last word begins
        self.first = True  # whether the next word may be the name of a command, or an assignment before it
        self.declares = False  # whether the present command is one of `DECLARES`
        self.long = False  # whether the present word is longer than `LONGEST`
        self.documents: list[tuple[str, bool]] = []  # the words that end the here-documents after this line

    def next(self) -> Word | str | None:
        """Return the next word or operator, or None at the end of the script.

        Redirections are left out, and so are comments and here-documents.
        """
        while self.at < len(self.text):
            if match := _BLANKS.match(self.text, self.at):
                self._go(match.end())
            elif match := _REDIRECTS.match(self.text, self.at):
                self._go(match.end())
                self._skip_target(match[0].lstrip("0123456789"))
            elif self.text.startswith("((", self.at) and self.text.startswith("))", (end := self._arithmetic()) - 1):
                word = Word(LOST, "((", self.line)
                self._lose_in(self.text[self.at : end])
                self._go(end + 1)
                self.first = False
                return word
            elif match := _OPERATOR.match(self.text, self.at):
                self._go(match.end())
                self.first, self.declares = True, False
                self.script.pending.clear()
                if match[0] == "\n":
                    self._skip_documents()
                return match[0]
            elif self.first and (match := _FUNCTION.match(self.text, self.at)):
                self._go(match.end())
                return Word(match[1] or match[2], "function", self.line)
            else:
                word = self._read()
                self.declares |= self.first and word.written in DECLARES
                before = word.assigns or word.written in _BEFORE | LAUNCHED_BY
                self.first = (self.first and bool(before)) or self.declares
                return word
        return None

    def _go(self, to: int) -> None:
        """Step to a place further on in the text, and count the lines on the way."""
        self.line += self.text.count("\n", self.at, to)
        self.at = min(to, len(self.text))

    def _arithmetic(self) -> int:
        """Return the place of the last bracket of the (( … )) that begins here; two subshells may begin here, too."""
        return self._closing("(", ")", self.at, self.at + _LONGEST_ARITHMETIC)

    def _lose_in(self, expression: str) -> None:
        """Make the variables unknown to which an arithmetic expression assigns."""
        for match in _COUNTS.finditer(expression):
            self.script.lose(match[1] or match[2])

    def _skip_target(self, operator: str) -> None:
        """Step over the word after a redirection; after << note it as the word that ends a here-document."""
        if operator in ("<<", "<<-"):
            if match := _DOCUMENT.match(self.text, self.at):
                self._go(match.end())
                word = match[1] or match[2] or (match[3] or "").replace("\\", "")
                self.documents.append((word, operator == "<<-"))
            return
        while match := _BLANKS.match(self.text, self.at):
            self._go(match.end())
        self._read()

    def _skip_documents(self) -> None:
        """Step over the here-documents that begin on this line, each with the line that ends it."""
        for word, tabs in self.documents:
            while self.at < len(self.text):
                end = self.text.find("\n", self.at)
                end = len(self.text) if end < 0 else end
                line = self.text[self.at : end]
                self._go(end + 1)
                if (line.lstrip("\t") if tabs else line) == word:
                    break
        self.documents = []

    def _read(self) -> Word:
        """Return the word that begins here and ends before the next blank or operator outside quotes."""
        word, begun, text = Word(line=self.line), self.at, self.text
        self.long = False
        while self.at < len(text):
            c = text[self.at]
            if c in "<>" and text.startswith("(", self.at + 1):
                self._lost(word, self._closing("(", ")", self.at + 1) + 1)
            elif c in " \t\n;&|<>()":
                break
            elif match := _LETTERS.match(text, self.at):
                self._add(word, match[0])
                self.at = match.end()
            elif c == "\\":
                after = text[self.at + 1 : self.at + 2]
                self._add(word, "" if after == "\n" else after)
                self._go(self.at + 2)
            elif c == "'":
                end = text.find("'", self.at + 1)
                end = len(text) if end < 0 else end
                self._add(word, text[self.at + 1 : end])
                word.quoted = True
                self._go(end + 1)
            elif c == '"':
                self._double(word)
            elif c in "$`":
                self._expand(word, quoted=False)
            else:
                self._letter(word, c)
        word.written, self.begun = text[begun : self.at], begun
        word.text = LOST if self.long else word.text
        if word.assigns:
            self.script.pending.add((_NAME.match(word.assigns) or [""])[0])
        return self._split(word)

    def _letter(self, word: Word, c: str) -> None:
        """Append a character outside quotes to a word; what a shell would replace by names of files is unknown."""
        text, before = self.text, word.text
        home = c == "~" and (not before or before[-1] in "=:") and _HOME.match(text, self.at)
        braces = c == "{" and not re.compile(r"\{(?:[\s}]|\Z|[^\s{},.'\"$]*\})").match(text, self.at)
        if home or (not word.assigns and (braces or (c in "*?" and "=" not in before))):
            self._add(word, LOST)
        else:
            self._add(word, LOST if c == _SPLITS else c)
        word.more |= c == LOST
        self.at += 1
        if c == "=" and self.first and not word.quoted and not word.assigns and _ASSIGNS.fullmatch(word.text):
            word.assigns = word.text
            if text.startswith("(", self.at):
                self._array(word)

    def _split(self, word: Word) -> Word:
        """Return a word with the words into which a shell splits it, if it does, as its `several`."""
        if word.several is not None and word.text.strip(LOST):
            return replace(word, text=LOST, several=None, more=True)  # an array inside a longer word
        if word.several is not None:
            word.several = [w if w.written else replace(w, written=word.written) for w in word.several]
        elif _SPLITS in word.text:
            pieces = [piece for piece in word.text.split(_SPLITS) if piece]
            if word.quoted or not self.script.may_spend(0, len(pieces)):
                return replace(word, text=LOST, more=True)
            word.several = [replace(word, text=piece) for piece in pieces]
        return word

    def _double(self, word: Word) -> None:
        """Append to a word the text inside the double quotes that begin here."""
        word.quoted = True
        self.at += 1
        while self.at < len(self.text) and self.text[self.at] != '"':
            c = self.text[self.at]
            if c == "\\" and self.at + 1 < len(self.text):
                after = self.text[self.at + 1]
                self._add(word, after if after in '"\\$`' else "" if after == "\n" else c + after)
                self._go(self.at + 2)
            elif c in "$`":
                self._expand(word, quoted=True)
            else:
                match = _QUOTED.match(self.text, self.at)
                self._add(word, match[0] if match else LOST)
                word.more |= not match
                self._go(match.end() if match else self.at + 1)
        self.at += 1

    def _array(self, word: Word) -> None:
        """Read ( … ) after NAME= or NAME+= and keep its words as the `array` of the word that assigns them.

        An array with an entry such as [3]=x is unknown.
        """
        first, self.first = self.first, False
        origin = self.at
        self.at += 1
        words: list[Word] = []
        while (item := self.next()) is not None and item != ")":
            if isinstance(item, Word):
                words += item.several if item.several is not None else [item]
            self.first = False
        indexed = any(re.match(r"\[.*\]\+?=", inner.written, re.DOTALL) for inner in words)
        word.array = [may_hold_more(word)] if indexed else [replace(w, origin=w.origin or origin) for w in words]
        self.first = first

    def _lost(self, word: Word, end: int) -> None:
        """Append to a word what only a run would tell, which the script writes from here to `end`."""
        self._add(word, LOST)
        word.more = True
        self._go(end)

    def _expand(self, word: Word, quoted: bool) -> None:
        """Append to a word what the $ or ` at this place stands for, which is unknown if only a run would tell it."""
        text, at = self.text, self.at
        if text.startswith("${", at):
            end = self._closing("{", "}", at + 1)
            self._go(end + 1)
            self._variable(word, text[at + 2 : end], quoted)
        elif text.startswith("$(", at):
            end = self._closing("(", ")", at + 1)
            if text.startswith("$((", at):
                self._lose_in(text[at:end])
            self._lost(word, end + 1)
        elif match := re.compile(r"`(?:\\.|[^`\\])*`?|\$\[[^]]*\]?", re.DOTALL).match(text, at):
            self._lost(word, match.end())
        elif not quoted and text.startswith("$'", at):
            match = re.compile(r"\$'((?:\\.|[^'\\])*)'?", re.DOTALL).match(text, at)
            inside = match[1] if match else ""
            self._add(word, LOST if "\\" in inside else inside)
            word.quoted = True
            self._go(match.end() if match else len(text))
        elif name := re.compile(r"[A-Za-z_]\w*|[\d@*#?$!-]").match(text, at + 1):
            self.at = name.end()
            self._variable(word, name[0], quoted)
        else:  # In $"…" the $ says only that the text may be translated.
            self._add(word, "" if not quoted and text.startswith('"', at + 1) else "$")
            self.at += 1

    def _variable(self, word: Word, inside: str, quoted: bool) -> None:
        """Append the value of a variable to a word.

        inside: what the script writes between ${ and }.
        quoted: whether the variable stands inside double quotes.
        """
        name = _NAME.match(inside)
        set_here = self.script.assigns(name[0] if name else self.script.arguments)
        if whole := re.match(r"([A-Za-z_]\w*)\[[@*]\]|@$", inside):
            value = self.script.get(whole[1] or self.script.arguments) if whole[0] == inside else LOST
            if isinstance(value, tuple):
                self._words(word, value, quoted, bool(word.assigns) or (quoted and inside.endswith("*]")))
            elif set_here and not word.assigns:
                word.several = [*(word.several or ()), may_hold_more(word)]
            else:
                self._add(word, LOST)
            return
        fits = _DEFAULT.fullmatch(inside)
        value = self.script.get(fits[1]) if fits else LOST
        if isinstance(value, tuple):
            value = value[0].text if value and not value[0].maybe else LOST
        default = next((text for text in fits.groups()[2:] if text is not None), None) if fits else None
        if fits and default is not None and (value is None or (value == "" and fits[2])):
            literal = fits[5] is None
            value = LOST if literal and quoted and fits[4] is None else default
            quoted |= literal
        if match := re.match(r"([A-Za-z_]\w*)(?:\[.*\])?:?=", inside, re.DOTALL):
            self.script.lose(match[1])
        if value is not None and LOST in value:
            word.more |= set_here
            word.options |= name is not None and name[0] in self.script.known.optional
            word.choices = self.script.choices(inside) if not word.text else ()
        self._append(word, LOST if value is None else value, quoted)

    def _words(self, word: Word, value: tuple[Word, ...], quoted: bool, joined: bool) -> None:
        """Append the words of an array to a word.

        quoted: whether the array stands inside double quotes, without which its words are split at their blanks.
        joined: whether they become one text, with blanks between them.
        """
        if not self.script.may_spend(0, len(value)):
            word.several = [may_hold_more(word)]
        elif not joined:
            split = [replace(w, text=piece) for w in value for piece in w.text.split()] if not quoted else value
            split = [replace(w, text=LOST) if not quoted and re.search(r"[*?]", w.text) else w for w in split]
            word.several = [*(word.several or ()), *split]
        elif any(inner.maybe for inner in value):
            self._lost(word, self.at)
        else:
            self._append(word, " ".join(inner.text for inner in value), quoted=True)

    def _append(self, word: Word, value: str, quoted: bool) -> None:
        """Append the value of a variable to a word.

        quoted: whether the variable stands in quotes. Without them the value splits the word at its blanks, and is
            unknown if a shell may replace it by names of files.
        """
        value = value if self.script.may_spend(len(value)) else LOST
        if not quoted and not word.assigns:
            value = LOST if re.search(r"[*?]", value) or self.script.get("IFS") is not None else value
            value = re.sub(r"[ \t\n]+", _SPLITS, value) or _SPLITS
        self._add(word, value)

    def _add(self, word: Word, text: str) -> None:
        """Append a text to a word; a word that would get longer than `LONGEST` is unknown in the end."""
        self.long |= len(word.text) + len(text) > LONGEST
        word.text += "" if self.long else text

    def _closing(self, opens: str, closes: str, at: int, most: int = sys.maxsize) -> int:
        """Return the place of the bracket that closes the one at `at`, or the end of the text if none does.

        Brackets in quotes, comments and here-documents do not count.

        most: the place up to which the bracket is looked for.
        """
        depth = 0
        while match := _INSIDE.search(self.text, at, most):
            at = match.end()
            depth += (match[0] == opens) - (match[0] == closes)
            if depth == 0 and match[0] == closes:
                return match.start()
            if match[1]:
                end = re.compile(rf"^\s*{match[1]}\s*$", re.MULTILINE).search(self.text, at)
                at = end.end() if end else len(self.text)
        return len(self.text)
