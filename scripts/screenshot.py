"""Take the README's pictures of the running page: python scripts/screenshot.py [URL]."""

import shutil
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

OUT = Path(__file__).resolve().parent.parent / "docs"
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu"]


def main(url: str) -> None:
    chromium = shutil.which("chromium")
    if chromium is None:
        sys.exit("scripts/screenshot.py needs chromium on the PATH")
    OUT.mkdir(exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
        for scheme in ("light", "dark"):
            page = browser.new_page(viewport={"width": 1440, "height": 980}, color_scheme=scheme)
            page.goto(url)
            page.locator(".board .bar").first.wait_for()
            page.wait_for_timeout(1500)  # fonts and the first drawing
            page.screenshot(path=OUT / f"first-screen-{scheme}.png")
        browser.close()


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:7860")
