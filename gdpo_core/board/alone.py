"""The board as a single HTML file that needs neither network nor Python: marks flip, the drop plays, and the arithmetic
shows.

In the drop each answer is a dot. It falls onto the line of one method, to its advantage there, and then slides on to
its advantage on the line of the other method. Headline, verdict and notes come from Python alone. The file has them for
the state of the controls in which it was made, and shows none in any other state.
"""

from base64 import b64encode
from collections.abc import Mapping
from gzip import compress
from typing import Any

from gdpo_core.shared.board_files import EXPORT
from gdpo_core.shared.markup import Html, data, join, script, style, tag

DRAWN_BY_BROWSERS = ("grpo", "grpo_no_std", "gdpo")  # the methods of formulas.js
_PAGE = """body { margin: 0; font: 15px/1.45 system-ui, sans-serif; }
main { max-width: 1316px; margin: 0 auto; padding: 24px; }
h1 { font-size: clamp(22px, 3vw, 32px); line-height: 1.15; min-height: 1.15em; margin: 0 0 16px; text-wrap: balance; }
html { color-scheme: light dark; }
"""
# A widget's script speaks to a model, behind which a kernel answers. Here this object stands in for the model, without
# any kernel.
_START = """
const traits = JSON.parse(document.getElementById("traits").textContent);
const model = {
  get: (name) => traits[name],
  set: (name, value) => (traits[name] = value),
  save_changes() {}, on() {}, off() {},
};
addEventListener("gdpo-claim", ({ detail }) => (document.querySelector("h1").textContent = detail ?? "\\u00a0"));
function unpacked(text) {
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).text();
}
const packed = JSON.parse(document.getElementById("packed").textContent);
unpacked(packed).then((code) => {
  document.head.append(Object.assign(document.createElement("script"), { textContent: code }));
  render({ model, el: document.querySelector("main > div") });
});
"""


def page_of(traits: Mapping[str, Any], code: str) -> str:
    """Return the text of an HTML page that shows a board by itself and lets its drop play.

    In the drop, dots for the answers fall onto the lines of the methods. The page offers the methods of
    DRAWN_BY_BROWSERS alone.

    traits: what the board's widget shares with the browser, by name.
    code: the script of the widget, which the page holds packed by gzip.
    """
    choices = dict(traits["choices"])
    methods = [pair for pair in choices["methods"] if pair[0] in DRAWN_BY_BROWSERS]
    held = dict(traits) | {"choices": choices | {"methods": methods, "alone": True, "drop": True}}
    plain_script = code.replace(EXPORT, "")
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("title", f"GRPO and {dict(methods)[traits['method']]} on {len(traits['answers'])} answers"),
        style(_PAGE),
    )
    main = tag("main", tag("h1", traits["drawing"]["claim"]), tag("div"))
    content = (main, data(held, "traits"), data(_packed(plain_script), "packed"), script(_START))
    page = tag("html", head, Html("\n"), tag("body", *content), lang="en")
    return str(join(Html("<!doctype html>\n"), page, Html("\n")))


def _packed(text: str) -> str:
    return b64encode(compress(text.encode(), 9, mtime=0)).decode()
