"""The early board: the Lab's bar, headline and board in the HTML of the page itself. There they are drawn, and answer,
while marimo is still loading; views/server/early.js says how the Lab then takes them over.

data/early.json has the values, so that no torch is needed.
"""

import json
from pathlib import Path
from typing import Any, TypedDict

from gdpo_core.shared.board_files import CODE, EXPORT, STYLE
from gdpo_core.shared.json_files import read_json
from gdpo_core.shared.markup import Html, data, script, style, table, tag
from views.widgets import still
from views.widgets.first_words import CHOOSE, what_methods_do

_HERE = Path(__file__).parent
_MARKDOWN = "markdown prose dark:prose-invert contents"  # the classes of what marimo makes of Markdown
# What is left in a browser that lacks something that the early board uses: the page without it.
_WITHOUT = 'document.getElementById("early").remove();\ndocument.getElementById("root").inert = false;\n'


class Early(TypedDict):
    """The content of data/early.json, which scripts/make_early.py computes from the Lab."""

    score: bool  # whether one of the first task's rewards is a score and no mark
    request: str
    tasks: list[list[str]]  # (id, title)
    chapters: list[list[str]]  # (name, title, headline)
    train: list[str]  # the sentence below Train's headline, and the title and the caption of what it trains at first
    longest: int  # the most characters of a value in the address
    traits: dict[str, Any]


def markup(folder: Path) -> str:
    """Return the early board as HTML, which stands behind the element `root` of the page.

    folder: the folder of early.json.
    """
    early = read_json(folder / "early.json", Early)
    lab = tag("div", _claim(early), kind="output-area early-claim")
    area = tag("div", _request(early), tag("div", kind="early-board"), _still(early["traits"]), kind="output-area")
    title = tag("div", tag("h1", kind="early-other"), _train(early["train"], folder), kind="output-area markdown")
    page = tag("div", tag("div", _bar(early["chapters"]), tag("div", lab, area, kind="early-lab"), title))
    note = tag("p", kind="lost", role="status")
    css, code = ((_HERE / f"early.{kind}").read_text("utf-8") for kind in ("css", "js"))
    code = (_HERE / "early_address.js").read_text("utf-8") + code
    drawn = f"const STYLE = {json.dumps(STYLE)};\n{CODE.replace(EXPORT, '')}{{\n{code}}}\n"
    drawn = f"(() => {{\ntry {{\n{drawn}}} catch {{\n{_WITHOUT}}}\n}})();"
    nav = (_HERE.parent / "widgets" / "nav.css").read_text("utf-8")
    shared = {key: value for key, value in early.items() if key not in ("score", "request")}
    values = data(shared, "early-data")
    return str(tag("div", style(nav + css), page, note, values, script(drawn), id="early"))


def _bar(chapters: list[list[str]]) -> Html:
    """Return the bar of nav.js with links alone: what copies is there once the page has loaded."""
    links = (
        tag("a", tag("span", n, kind="n", aria_hidden="true"), title, href=f"?at={name}")
        for n, (name, title, _) in enumerate(chapters, 1)
    )
    more = tag("span", "Copy as ", kind="more")
    tools = (tag("button", *text, type="button", disabled="") for text in (("Share",), (more, "Python")))
    name = tag("a", "Reward Policy Intuition", kind="name", href="?at=lab")
    nav = tag("nav", *links, aria_label="Chapters")
    bar = tag("div", name, nav, tag("div", *tools, kind="tools"), kind="bar")
    return tag("div", tag("div", bar, kind="output-area"), kind="early-bar")


def _claim(early: Early) -> Html:
    """Return the headline and the sentence below it, as marimo draws Markdown."""
    sentence = tag("span", what_methods_do(early["score"]), kind="paragraph")
    return tag("span", tag("h1", early["traits"]["drawing"]["claim"]), sentence, kind=_MARKDOWN)


def _request(early: Early) -> Html:
    """Return the request of the first task and the titles of all, as `marimo` draws its radio buttons."""
    words = tag("span", tag("span", CHOOSE, kind="segments large"), kind="paragraph")
    words = tag("span", words, kind=_MARKDOWN)
    label = tag("label", words, kind="text-sm font-medium leading-none font-prose")
    options = (
        tag(
            "div",
            tag("button", kind="h-[16px] w-[16px] shrink-0", type="button", aria_label=title, **looks),
            tag("label", title, kind="text-sm font-normal"),
            kind="flex items-start space-x-2",
        )
        for (_, title), looks in zip(early["tasks"], _chosen(len(early["tasks"])), strict=True)
    )
    group = tag("div", *options, kind="grid grid-flow-col gap-4", role="radiogroup", aria_label=CHOOSE)
    heading = tag("div", label, kind="inline-flex items-center m-0 p-0")
    looks = "mo-label inline-flex pt-0 pb-0 pl-0 flex-row items-center gap-x-1.5 pr-2 w-fit"
    choice = tag("div", heading, group, kind=looks)
    return tag("div", tag("p", f"“{early['request']}”"), choice, kind="request")


def _train(words: list[str], folder: Path) -> Html:
    """Return what stands below Train's headline until it has trained: its first words, and a still of its curves.

    folder: the folder of gallery.json.
    """
    lead, title, caption = words
    looks = tag("span", lead, kind="paragraph"), tag("h2", title), tag("p", caption), still.curves(folder, known=True)
    return tag("div", *looks, kind="early-train")


def _chosen(many: int) -> list[dict[str, str]]:
    """Return the attributes of radio buttons of which the first is chosen, and which cannot be used yet."""
    return [{"role": "radio", "disabled": "", "aria_checked": "false" if n else "true"} for n in range(many)]


def _still(traits: dict[str, Any]) -> Html:
    """Return the advantages of the board as a table, for a browser without JavaScript."""
    rows = zip(traits["answers"], *traits["drawing"]["said"], strict=True)
    return tag("noscript", table(("Answer", "GRPO", "GDPO"), list(map(list, rows))))


def scripts_to_add(page: str, early: str) -> str:
    """Return the HTML of a page of marimo with the early board behind its element `root`.

    >>> scripts_to_add('<body><div id="root"></div></body>', "<i></i>")
    '<body><div id="root"></div><i></i></body>'
    """
    root = str(tag("div", id="root"))
    return page.replace(root, root + early, 1)
