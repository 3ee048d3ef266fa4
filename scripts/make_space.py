"""Write docs/space-static/, a Space of files alone: the board and a sample's report: python -m scripts.make_space.

The Hub wakes it at once, as no container has to start for it. --space OWNER/NAME adds a link to the Space of the page.
"""

import argparse
from pathlib import Path

import gdpo_cli
from scripts.make_board import EXPLAIN

ROOT = Path(__file__).resolve().parent.parent
OUT = ROOT / "docs" / "space-static"
SAMPLE, PRIMARY = "data/samples/pays_5_grpo", "correctness"
STYLE = "max-width: 1316px; margin: 0 auto; padding: 16px 24px 0; font: 15px/1.45 system-ui, sans-serif"
PAGES = {"index.html": "The board", "report.html": "A report of gdpo audit"}
FRONT_MATTER = """---
title: GRPO and GDPO, the board
emoji: ⚖️
colorFrom: yellow
colorTo: blue
sdk: static
pinned: false
license: mit
arxiv: 2601.05242
short_description: Twelve marks to flip, and the audit of a training log
tags: [grpo, gdpo, rlhf, reinforcement-learning]
---

# GRPO and GDPO, the board

Two files that need no server. `index.html` is a board of eight answers: flip a mark, and see which answers GRPO and
GDPO can no longer tell apart. `report.html` is what `gdpo audit` writes of a run in which one reward paid five times as
much as the others; its sliders answer without a network.
"""


def linked(page: str, here: str, space: str) -> str:
    """Return a page with a line of links before all else: to the other pages, and to the Space with the whole page.

    page: the HTML of the page.
    here: its name, a key of PAGES.
    space: OWNER/NAME, or nothing.

    >>> linked("<body><main>", "index.html", "").partition('">')[2]
    '<b>The board</b> · <a href="report.html">A report of gdpo audit</a></nav><main>'
    """
    links = [f"<b>{title}</b>" if name == here else f'<a href="{name}">{title}</a>' for name, title in PAGES.items()]
    if space:
        links.append(f'<a href="https://huggingface.co/spaces/{space}" target="_top">The whole page</a>')
    return page.replace("<body>", f'<body><nav style="{STYLE}">{" · ".join(links)}</nav>', 1)


def write(out: Path, space: str = "") -> None:
    """Write the Space into the folder `out`, with a link to `space` if it is given."""
    out.mkdir(parents=True, exist_ok=True)
    (out / "README.md").write_text(FRONT_MATTER, encoding="utf-8")
    audit = ("audit", SAMPLE, "--primary", PRIMARY, "--html")
    for name, command in (("index.html", EXPLAIN), ("report.html", audit)):
        file = out / name
        try:
            gdpo_cli.main([*command, str(file)])
        except SystemExit as ended:
            if ended.code:
                raise
        file.write_text(linked(file.read_text("utf-8"), name, space), encoding="utf-8")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m scripts.make_space", description=__doc__.splitlines()[0])
    parser.add_argument("--space", default="", help="the Space with the whole page, as OWNER/NAME")
    write(OUT, parser.parse_args().space)
