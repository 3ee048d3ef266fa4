"""The HTML of the page: the output of a cell, paragraphs, framed boxes, folds, charts, and content that comes late."""

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import marimo as mo
from anywidget import AnyWidget

from gdpo_core.shared import markup
from gdpo_core.shared.errors import InputError
from gdpo_core.shared.markup import Cell, Html, Row, join, prose, table, tag, text
from views.server import threads  # noqa: F401

ROOT = Path(__file__).resolve().parents[2]
__all__ = ["Cell", "Html", "Row", "join", "prose", "table", "tag", "text"]


def element(x: object) -> Html:
    """Return a control, a chart or anything else that marimo draws as HTML; a text is escaped.

    >>> element(mo.Html("<i>a</i>")), element("a < b")
    (Markup('<i>a</i>'), Markup('a &lt; b'))
    """
    return text(x) if isinstance(x, str) else Html(format(mo.as_html(x)))


def show(*content: object) -> mo.Html:
    """Return pieces of content, one after another, as the output of a cell; each is a text or what `element` takes.

    >>> show(tag("b", "a"), "<").text
    '<b>a</b>&lt;'
    """
    return mo.Html(str(join(*map(element, content))))


def reason_shown(error: Exception) -> str:
    """Return the message of an error, in which the paths of our files begin at the folder of the project.

    >>> reason_shown(ValueError(f"{ROOT}/data/tasks: expected a task"))
    'data/tasks: expected a task'
    """
    return str(error).replace(f"{ROOT}/", "")


def paragraphs(*sentences: str) -> Html:
    """Return a paragraph per sentence, in which text between two `**` is bold; an empty sentence has no paragraph.

    >>> paragraphs("**4** of 5", "")
    Markup('<p><b>4</b> of 5</p>')
    """
    return join(*(tag("p", prose(sentence)) for sentence in sentences if sentence))


def callout(*sentences: str) -> Html:
    """Return sentences, such as a verdict, in a framed box, each as a paragraph that `paragraphs` makes.

    >>> callout("a < b")
    Markup('<div class="callout"><p>a &lt; b</p></div>')
    """
    return tag("div", paragraphs(*sentences), kind="callout")


def fold(title: object, *content: object) -> Html:
    """Return content folded away under a title that opens it.

    content: pieces of content, or functions without arguments that return one. A function is called once the fold is
        open.

    >>> fold("more", "a < b")
    Markup('<details class="fold"><summary>more</summary><div>a &lt; b</div></details>')
    """
    waits = any(map(callable, content))
    inside = (lazily(piece) if callable(piece) else piece for piece in content)
    return markup.fold(title, tag("div", *inside), kind="fold deeper" if waits else "fold")


def opener(title: str, opened: bool = False) -> mo.ui.switch:
    """Return a switch that looks like the title of a fold; other cells compute the content once the switch is on.

    opened: whether the switch is on at first.
    """
    return mo.ui.switch(opened, label=tag("span", title, kind="folded"))


def charts(drawn: Iterable[object], kind: str = "") -> Html:
    """Return charts side by side, or below each other where there is no room.

    kind: a second CSS class of the div around them.
    """
    return tag("div", *(tag("div", element(chart)) for chart in drawn), kind=f"charts {kind}".strip())


def board_or_reason(make: Callable[[], AnyWidget]) -> mo.ui.anywidget | mo.Html:
    """Return the board that `make` returns, as a control; if `make` raises InputError, return a box with its message
    instead.
    """
    try:
        return mo.ui.anywidget(make())
    except InputError as error:
        return show(div("unread", mo.callout(reason_shown(error), kind="neutral")))


def points(sentences: Iterable[object]) -> Html:
    """Return sentences as a list with a bullet for each."""
    return tag("ul", *(tag("li", sentence) for sentence in sentences))


def loaded(load: Callable[[Path], Any], path: Path) -> Any:
    """Return what `load` reads from one of our own files. If it raises InputError, stop the cell, which then shows the
    reason.
    """
    try:
        return load(path)
    except InputError as error:
        mo.stop(True, show(callout(f"This chapter can't be shown. {reason_shown(error)}")))


def div(kind: str, *content: object, **attributes: object) -> Html:
    """Return content in a `<div>` with the class `kind` and these attributes.

    content: pieces, each a text or anything that `element` takes.
    """
    return tag("div", *map(element, content), kind=kind, **attributes)


def lazily(draw: Callable[[], object]) -> Html:
    """Return an empty place in which the result of `draw` appears once the reader scrolls near it."""
    return element(mo.lazy(lambda: show(draw())))


def lesson() -> Html:
    """Return a sentence about the lesson, a notebook of eight cells: what it shows and where its file is. On a Hugging
    Face Space the file is a link.
    """
    space, path = os.environ.get("SPACE_ID", ""), "examples/lesson.py"
    name = (
        tag("a", path, href=f"https://huggingface.co/spaces/{space}/blob/main/{path}") if space else tag("code", path)
    )
    opens = join("; the command ", tag("code", "make lesson"), " opens it.")
    return join("A notebook of eight cells shows the whole computation, with nothing hidden: ", name, opens)


def footer(paper: str) -> Html:
    """Return the last line of the page: links to the paper, the code and how to cite, and the licence.

    On a Hugging Face Space, "Code" is a link to the files of the Space. Elsewhere it is no link, and names app.py.

    paper: the address of the paper.
    """
    space = os.environ.get("SPACE_ID", "")
    code = tag("a", "Code", href=f"https://huggingface.co/spaces/{space}/tree/main") if space else text("Code: app.py")
    cite = tag("a", "How to cite", href="?at=use#references")
    content = [tag("a", "Paper", href=paper), code, cite, text("MIT licence")]
    return tag("p", Html(" · ").join(content), kind="footer")
