"""The words of a shell script, in which a variable is replaced by its value as far as the script alone tells it."""

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace

from gdpo_core.checking.readers.shell_variables import LOST, Script, Word, may_hold_more

DECLARES = {"export", "readonly", "declare", "local", "typeset"}
_OPENS = {"if", "while", "until", "{", "then", "do", "else", "elif"}  # after each of them a command begins
_BEFORE = _OPENS | {"!", "time", "function"}
LAUNCHED_BY = {"env", "nohup", "exec", "sudo"}  # commands that run the command after them
_NAME = re.compile(r"[A-Za-z_]\w*")
_ASSIGNS = re.compile(r"[A-Za-z_]\w*(?:\[.*\])?\+?=", re.DOTALL)
_BLANKS = re.compile(r"(?:[ \t]|\\\n)+|#[^\n]*")
_REDIRECTS = re.compile(r"&>>|&>|(?:\d+|\{\w+\})?(?:<<<|<<-?|<>|<&|>&|>>|>\||<(?!\()|>(?!\())")
# A ~ at the beginning of a word stands for a folder, but in ~a.b it says that Hydra deletes a key.
_HOME = re.compile(r"~[\w+-]*(?:[/:\s;&|<>()]|\Z)|~[\w.+-]+/")
_OPERATOR = re.compile(r";;&|;&|;;|;|&&|&|\|\||\|&|\||\n|\(|\)")
_FUNCTION = re.compile(
    r"function[ \t]+([^\s(){}]+)[ \t]*(?:\([ \t]*\))?|([^\s=(){}<>;&|'\"$`\\]+)[ \t]*\([ \t]*\)"
)  # the head of a function, without its body
# An assignment in an arithmetic expression, such as N += 2 or N++; the name is group 1 or 2.
_COUNTS = re.compile(r"([A-Za-z_]\w*)\s*(?:(?:[-+*/%&|^]|<<|>>)?=(?!=)|\+\+|--)|(?:\+\+|--)\s*([A-Za-z_]\w*)")
# What may stand between ${ and } to be told: a name, and a text to use instead where it has no value.
_DEFAULT = re.compile(r"([A-Za-z_]\w*)(?:(:?)-(?:'([^']*)'|\"([^\"$`\\]*)\"|([^'\"$`\\]*)))?")
# What stands for itself outside quotes or in single quotes, which is in a group; a line that goes on is in none.
_PLAIN = re.compile(r"\\\n|\\(.?)|\$?'([^'\\]*)'|'([^']*)'?|([^\s;&|<>()\\'\"$`~*?{=\0\1]+)", re.DOTALL)
_QUOTED = re.compile(r"\\\n|\\([\\\"$`])|(\\|[^\"\\$`\0]+)")  # the same inside double quotes
_OUTPUT = re.compile(r"`(?:\\.|[^`\\])*`?|\$\[[^]]*\]?|\$'(?:\\.|[^'\\])*'?", re.DOTALL)  # what only a run would tell
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
    scan = _Scan(f"{text}\n", script)
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
        self.documents: list[re.Pattern[str]] = []  # the lines that end the here-documents after this line

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
        while match := _BLANKS.match(self.text, self.at):
            self._go(match.end())
        word = self._read()
        if operator in ("<<", "<<-"):
            end = re.escape(re.sub(r"['\"\\]", "", word.written))
            self.documents.append(re.compile(rf"^\t*{end}$" if operator == "<<-" else f"^{end}$", re.MULTILINE))

    def _skip_documents(self) -> None:
        """Step over the here-documents that begin on this line, each with the line that ends it."""
        for end in self.documents:
            last = end.search(self.text, self.at)
            self._go(last.end() + 1 if last else len(self.text))
        self.documents = []

    def _read(self) -> Word:
        """Return the word that begins here and ends before the next blank or operator outside quotes."""
        word, begun, text = Word(line=self.line), self.at, self.text
        quoted = False
        while self.at < len(text):
            c = text[self.at]
            if match := (_QUOTED if quoted else _PLAIN).match(text, self.at):
                word.text += "".join(group for group in match.groups() if group)
                word.quoted |= not quoted and "'" in match[0][:2] and c != "\\"
                self._go(match.end())
            elif c in "$`":
                self._expand(word, quoted)
            elif c == '"':
                quoted, word.quoted = not quoted, True
                self.at += 1
            elif quoted:
                self._lost(word, self.at + 1)
            elif c in "<>" and text.startswith("(", self.at + 1):
                self._lost(word, self._closing("(", ")", self.at + 1) + 1)
            elif c in " \t\n;&|<>()":
                break
            else:
                self._letter(word, c)
        word.written, self.begun = text[begun : self.at], begun
        if word.assigns:
            self.script.pending.add((_NAME.match(word.assigns) or [""])[0])
        return self._split(word)

    def _letter(self, word: Word, c: str) -> None:
        """Append a character outside quotes to a word; what a shell would replace by names of files is unknown."""
        text = self.text
        home = c == "~" and (not word.text or word.text[-1] in "=:") and _HOME.match(text, self.at)
        braces = c == "{" and not re.compile(r"\{(?:[\s}]|\Z|[^\s{},.'\"$]*\})").match(text, self.at)
        if home or (not word.assigns and (braces or (c in "*?" and "=" not in word.text))):
            word.text += LOST
        else:
            word.text += LOST if c == _SPLITS else c
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

    def _array(self, word: Word) -> None:
        """Read ( … ) after NAME= or NAME+= and keep its words as the `array` of the word that assigns them.

        An array with an entry such as [3]=x is unknown.
        """
        self.first = False
        self.at += 1
        words: list[Word] = []
        while (item := self.next()) is not None and item != ")":
            if isinstance(item, Word):
                words += item.several if item.several is not None else [item]
            self.first = False
        indexed = any(re.match(r"\[.*\]\+?=", inner.written, re.DOTALL) for inner in words)
        word.array = [may_hold_more(word)] if indexed else [*words]
        self.first = True  # Another assignment may follow.

    def _lost(self, word: Word, end: int) -> None:
        """Append to a word what only a run would tell, which the script writes from here to `end`."""
        word.text += LOST
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
        elif not (quoted and text.startswith("$'", at)) and (match := _OUTPUT.match(text, at)):
            self._lost(word, match.end())
        elif name := re.compile(r"[A-Za-z_]\w*|[\d@*#?$!-]").match(text, at + 1):
            self.at = name.end()
            self._variable(word, name[0], quoted)
        else:  # In $"…" the $ says only that the text may be translated.
            word.text += "" if not quoted and text.startswith('"', at + 1) else "$"
            self.at += 1

    def _variable(self, word: Word, inside: str, quoted: bool) -> None:
        """Append the value of a variable to a word.

        inside: what the script writes between ${ and }.
        quoted: whether the variable stands inside double quotes.
        """
        name = _NAME.match(inside)
        set_here = self.script.may_set(name[0] if name else self.script.arguments)
        if whole := re.match(r"([A-Za-z_]\w*)\[[@*]\]|@$", inside):
            value = self.script.get(whole[1] or self.script.arguments) if whole[0] == inside else LOST
            if isinstance(value, tuple):
                self._words(word, value, quoted, quoted and inside.endswith("*]"))
            elif set_here and not word.assigns:
                word.several = [*(word.several or ()), may_hold_more(word)]
            else:
                word.text += LOST
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
        joined: whether they become one text, which is unknown.
        """
        if word.assigns:
            self._lost(word, self.at)
            word.options = True
        elif joined or not self.script.may_spend(0, len(value)):
            word.several = [may_hold_more(word)]
        else:
            split = [replace(w, text=piece) for w in value for piece in w.text.split()] if not quoted else value
            split = [replace(w, text=LOST) if not quoted and re.search(r"[*?]", w.text) else w for w in split]
            word.several = [*(word.several or ()), *split]

    def _append(self, word: Word, value: str, quoted: bool) -> None:
        """Append the value of a variable to a word.

        quoted: whether the variable stands in quotes. Without them the value splits the word at its blanks, and is
            unknown if a shell may replace it by names of files.
        """
        value = value if self.script.may_spend(len(value)) else LOST
        if not quoted and not word.assigns:
            value = LOST if re.search(r"[*?]", value) or self.script.get("IFS") is not None else value
            value = re.sub(r"[ \t\n]+", _SPLITS, value) or _SPLITS
        word.text += value

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
