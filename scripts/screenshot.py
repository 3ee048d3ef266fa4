"""Take the pictures of the running page for the README and for links to it: python -m scripts.screenshot [URL]."""

import sys
from pathlib import Path

from playwright.sync_api import Browser, Page

from benchmarks.browser import browser

ROOT = Path(__file__).resolve().parent.parent
OUT = ROOT / "docs"
PREVIEW = ROOT / "__marimo__" / "assets" / "app" / "opengraph.png"  # where marimo looks for the picture of a link
SCREEN = (1440, 900)


def main(url: str) -> None:
    """Take all pictures of the page at an address, and write them to their files."""
    OUT.mkdir(exist_ok=True)
    PREVIEW.parent.mkdir(parents=True, exist_ok=True)
    with browser() as running:
        for scheme in ("light", "dark"):
            page = open_page(running, url, *SCREEN, color_scheme=scheme)
            page.screenshot(path=OUT / f"first-screen-{scheme}.png")
        open_page(running, url, 1500, 788, device_scale_factor=0.8).screenshot(path=PREVIEW)  # 1200 × 630


def open_page(running: Browser, url: str, width: int, height: int, **options: object) -> Page:
    """Return a new page of the browser, which shows `url`, once the Lab is drawn.

    width, height: the size of its window in pixels.
    options: more arguments of Playwright's `new_page`.
    """
    still = {"reduced_motion": "reduce"}  # so that what drops into place is shown where it ends
    page = running.new_page(viewport={"width": width, "height": height}, **still, **options)
    page.goto(url)
    page.locator(".board .bar").first.wait_for()
    page.wait_for_timeout(1500)  # until the fonts are there and the first drawing is done
    return page


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:7860")
