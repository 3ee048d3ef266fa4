"""Run the server, every chapter and the command in a folder with what the container holds, and tell which files they
want: `python -S tests/container_watch.py CHECKOUT TOLD DO [WORDS…]`, started in that folder.

DO is `chapters` (imports the server, runs the page as a script and audits the log that WORDS names) or `serve` (the
server with WORDS). Each line of the file TOLD is a JSON list: a path, who wanted it, and whether it is there. With
-S no installed package leads back to the checkout.
"""

import importlib
import json
import os
import re
import runpy
import sys
import traceback
from collections.abc import Callable
from functools import cache
from pathlib import Path

HERE = os.getcwd()
CHAPTERS = ("lab", "train", "evidence", "run", "use")
FOLDERS = ("app.py", "serve.py", "gdpo_cli.py", "views", "gdpo_audit", "gdpo_core")
LISTED = "data"  # the only folder of which a listing is read: who lists it wants all its files


def wanted_by(frames: list) -> str:
    """Return the chapter that one of these frames belongs to; without one, the file of ours that stands first.

    frames: pairs of a frame of the stack and its line, the innermost first.
    """
    ours = [(frame.f_code.co_filename.removeprefix(HERE + os.sep).split(os.sep), line) for frame, line in frames]
    ours = [(parts, line) for parts, line in ours if parts[0] in FOLDERS]
    chapters = [parts[2] for parts, _ in ours if parts[:2] == ["views", "chapters"] and parts[2] in CHAPTERS]
    chapters += [name for parts, line in ours if parts == ["app.py"] for name in chapter_at(line)]
    return (
        f"the chapter {chapters[0].lower()}" if chapters else next(("/".join(parts) for parts, _ in ours), "the page")
    )


def chapter_at(line: int) -> list[str]:
    """Return the name of the chapter whose cells in app.py are at a line, in a list; without one, an empty list."""
    return re.findall(r"^# --- (?:Your )?(\w+)", "\n".join(app_lines()[:line]), re.MULTILINE)[-1:]


@cache
def app_lines() -> list[str]:
    """Return the lines of app.py, read before anything is watched; none if it is left out."""
    app = Path(HERE) / "app.py"
    return app.read_text(encoding="utf-8").splitlines() if app.is_file() else []


def missed(error: BaseException) -> list[str]:
    """Return the files of the project that an error may be about: a path in its text, or a module that it names."""
    paths = [path.removeprefix(f"{HERE}/") for path in re.findall(rf"{re.escape(HERE)}[\w./-]+", str(error))]
    names = re.findall(r"[\w.]+", " ".join(re.findall(r"'([\w.]+)'", str(error))))
    modules = [name.replace(".", "/") for name in [*names, ".".join(reversed(names))]]
    return [*paths, *(f"{name}{end}" for name in modules for end in (".py", "/__init__.py"))]


def watch(checkout: str, told: str) -> Callable[[BaseException], None]:
    """Write down from now on each file of the project that is opened, and each file in a folder of data that is listed.
    Return a function that writes down which files an error is about.

    checkout: the whole project, which says what belongs to it.
    told: the file to write to.
    """
    out = open(told, "a", encoding="utf-8", buffering=1)  # noqa: SIM115 (it is open as long as the process runs)
    seen = set()

    def tell(relative: str, who: str) -> None:
        if relative not in seen and "__pycache__" not in relative and os.path.isfile(os.path.join(checkout, relative)):
            seen.add(relative)
            out.write(json.dumps([relative, who, os.path.isfile(os.path.join(HERE, relative))]) + "\n")

    def told_of(error: BaseException) -> None:
        who = wanted_by(list(traceback.walk_tb(error.__traceback__))[::-1])
        for relative in missed(error):
            tell(relative, who)

    def hear(event: str, arguments: tuple) -> None:
        if event not in ("open", "os.listdir", "os.scandir") or not isinstance(arguments[0], str | os.PathLike):
            return
        path = os.path.abspath(os.fspath(arguments[0]))
        if not path.startswith(f"{HERE}{os.sep}"):
            return
        relative = os.path.relpath(path, HERE)
        if event == "open":
            tell(relative, wanted_by(list(traceback.walk_stack(sys._getframe()))))
        elif relative.split(os.sep)[0] == LISTED:
            for name in os.listdir(os.path.join(checkout, relative)):
                tell(os.path.join(relative, name), wanted_by(list(traceback.walk_stack(sys._getframe()))))

    sys.addaudithook(hear)
    return told_of


def chapters(log: str) -> None:
    """Import the server, run the page as a script, with all that it draws only once a reader scrolls there, read each
    sample, and audit a log by the command.
    """
    marimo = importlib.import_module("marimo")
    marimo.lazy = lambda draw, **_: draw() if callable(draw) else draw
    importlib.import_module("serve")
    importlib.import_module("app").app.run()
    for sample in importlib.import_module("views.chapters.run.samples").SAMPLES:
        sample.files()
    sys.argv = ["gdpo", "audit", log]
    importlib.import_module("gdpo_cli").main()


def main(checkout: str, told: str, do: str, *words: str) -> None:
    """Do what the first lines of this file say."""
    sys.path[0] = HERE
    app_lines()
    told_of = watch(checkout, told)
    try:
        if do == "serve":
            sys.argv = ["serve.py", *words]
            runpy.run_path(str(Path(HERE) / "serve.py"), run_name="__main__")
        else:
            chapters(*words)
    except Exception as error:
        told_of(error)
        raise


if __name__ == "__main__":
    main(*sys.argv[1:])
