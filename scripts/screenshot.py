"""Take the README's pictures of the running page: python -m scripts.screenshot [URL]."""

import sys
from pathlib import Path

from benchmarks.browser import browser

ROOT = Path(__file__).resolve().parent.parent
OUT = ROOT / "docs"
PREVIEW = ROOT / "__marimo__" / "assets" / "app" / "opengraph.png"  # where marimo looks for the picture of a link


def main(url: str) -> None:
    OUT.mkdir(exist_ok=True)
    PREVIEW.parent.mkdir(parents=True, exist_ok=True)
    with browser() as running:
        for scheme in ("light", "dark"):
            page = running.new_page(viewport={"width": 1440, "height": 900}, color_scheme=scheme)
            page.goto(url)
            page.locator(".board .bar").first.wait_for()
            page.wait_for_timeout(1500)  # fonts and the first drawing
            page.screenshot(path=OUT / f"first-screen-{scheme}.png")
        page = running.new_page(viewport={"width": 1500, "height": 788}, device_scale_factor=0.8)  # 1200 × 630
        page.goto(url)
        page.locator(".board .bar").first.wait_for()
        page.wait_for_timeout(1500)
        page.screenshot(path=PREVIEW)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:7860")
