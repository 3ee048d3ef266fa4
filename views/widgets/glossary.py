"""Terms of the field, each of which shows its sentence of docs/glossary.md on focus or tap."""

import re
from functools import cache
from pathlib import Path

from gdpo_core.shared.markup import Html, tag

_ENTRY = re.compile(r"- \*\*([^*]+)\*\*(?: \(([^)]+)\))? — (.+)")  # term, other names, sentence


@cache
def glossary() -> dict[str, str]:
    """Return the sentences of docs/glossary.md, by term and by each other name of a term; {} if there is no such file.
    The file is read once.
    """
    file = Path(__file__).parent.parent.parent / "docs" / "glossary.md"
    text = file.read_text(encoding="utf-8") if file.exists() else ""
    return {
        name: entry[3]
        for entry in map(_ENTRY.fullmatch, text.splitlines())
        if entry
        for name in (entry[1], *(entry[2] or "").split(", "))
        if name
    }


def term(name: str, shown: str = "") -> Html:
    """Return a term as HTML, with its sentence of the glossary as a tip. A term that the glossary lacks has no tip.

    name: a term in docs/glossary.md, or another name of one.
    shown: the text that stands on the page, such as a plural, by default the name.

    >>> term("policy", "policies")
    Markup('<dfn class="term" tabindex="0" data-tip="What is trained: the rule that gives every possible answer to a prompt its probability.">policies</dfn>')
    """  # noqa: E501
    return tag("dfn", shown or name, kind="term", tabindex=0, data_tip=glossary().get(name))
