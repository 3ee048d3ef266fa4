"""Chromium, started in the same way for every measurement."""

import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Browser, sync_playwright

# The browser is the programme that the environment's CHROMIUM names, or else the first of these that is installed.
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    # Chromium would open two hidden pages beside each of ours, which cost some 0.2 s of every visit.
    "--disable-features=WebUIOmniboxPopup,WebUIOmniboxAimPopup,WebUIOmniboxFullPopup",
)
STATED = "Chromium without its hidden pages"  # for the title of every table that is measured in it
# Without motion a repaint is final; with it, bars would still be on their way for 0.3 s.
PAGE = {"viewport": {"width": 1440, "height": 960}, "reduced_motion": "reduce"}


def find_chromium() -> str | None:
    """Return the path of Chromium, or None if it is not installed.

    If the environment variable CHROMIUM names a programme, only that programme is looked for.
    """
    named = os.environ.get("CHROMIUM")
    return next(filter(None, map(shutil.which, [named] if named else NAMES)), None)


def executable() -> str:
    """Return what `find_chromium` finds; if it finds nothing, end the programme with a sentence that says so."""
    path = find_chromium()
    if not path:
        sys.exit("No chromium here, and this benchmark needs one. On Debian: apt-get install chromium")
    return path


@contextmanager
def browser() -> Iterator[Browser]:
    """Yield a running Chromium without a window; it is closed at the end of the `with` block. If Chromium is not
    installed, the programme ends with a sentence that says so.
    """
    path = executable()
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=path, args=list(FLAGS))
        try:
            yield running
        finally:
            running.close()
