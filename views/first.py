"""The first drawing: the page's HTML holds the Lab of the visitor's link, long before marimo's front end is there.

The Lab's own script and style sheet draw it, from what the Lab will draw from: one instrument, drawn twice.
"""

from collections.abc import Mapping
from pathlib import Path

import marimo as mo

import gdpo_core as gc
from gdpo_core._html import Html, data, join, script, style, tag
from gdpo_core.bfcl import load_tasks
from views.bar import TOUR, Bar
from views.html import element, show
from views.lab import Lab, brought, opening, sheet, shown
from views.link import CHAPTERS, Session
from views.shipped import shipped

HERE = Path(__file__).parent
EXPORT = "export default { render };"


def _file(name: str) -> str:
    return (HERE / name).read_text(encoding="utf-8")


def _rendered(*names: str) -> str:
    """A widget's module as an expression, its `render`: a module would wait for all those of marimo."""
    return f"(() => {{ {''.join(map(_file, names)).replace(EXPORT, 'return render;')} }})()"


SCRIPT = script(
    f'"use strict"; (() => {{ {_file("first.js")} first({{ bar: {_rendered("away.js", "bar.js")}, '
    f"lab: {_rendered('lab.js')} }}); }})()"
)
STYLES = style(_file("first.css"))


def html(tasks: Path, params: Mapping[str, str]) -> Html:
    """What the page's HTML holds of the Lab; nothing where the link leads to another chapter, or the Lab is closed."""
    alone = params.get("embed") in CHAPTERS
    chapter = params["embed"] if alone else params.get("at")
    if chapter != "lab" and chapter in {*CHAPTERS, "all"}:
        return join()
    try:
        sheets = [sheet(task) for task in load_tasks(shipped(tasks))]
    except gc.InputError:
        return join()
    session = Session.of(params)
    lab = shown(sheets, brought(sheets, session))
    # In `edit` the bar leaves the page as it is.
    bar = {"chapters": list(CHAPTERS.items()), "tour": TOUR, "notes": session.notes, "edit": True}
    values = {"bar": {**bar, "css": Bar._css}, "lab": {**lab, "css": Lab._css}}
    claim = () if alone else (mo.md(opening(len(sheets[0]["answers"]))),)
    stack = element(mo.vstack([*claim, show(tag("div", id="first-lab"))]))
    drawn = tag("div", tag("div", tag("div", id="first-bar"), stack), inert="")
    page = tag("div", drawn, tag("p", role="status"), id="first", aria_busy="true")
    return join(STYLES, page, data(values, "first-data"), SCRIPT)
