"""The style and the script of the board, from the files in gdpo_core/board/. This module needs no torch, so that a
server can send them at once.
"""

from pathlib import Path

from gdpo_core.shared import theme

_HERE = Path(__file__).parent.parent / "board"
STYLE = theme.css(".board") + "".join((_HERE / f"{name}.css").read_text(encoding="utf-8") for name in ("board", "drop"))
SCRIPTS = (
    "formulas",
    "instant",
    "exchange",
    "drop",
    "labels",
    "play",
    "rules",
    "head",
    "board",
)  # one module, in order
CODE = "".join((_HERE / f"{name}.js").read_text(encoding="utf-8") for name in SCRIPTS)
EXPORT = "export default { render };"  # the end of the module, which a script does without
