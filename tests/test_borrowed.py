"""docs/borrowed.md lists the private names of other packages that we use: the list is true and complete, and these
tests fail if one of the names is gone.
"""

import re
import tomllib
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("gdpo_core", "gdpo_audit", "views", "tests", "benchmarks", "scripts")
FILES = sorted([path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")] + list(ROOT.glob("*.py")))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
ASKED = [*PROJECT["dependencies"], *(line for lines in PROJECT["optional-dependencies"].values() for line in lines)]
PACKAGES = "|".join({re.split(r"[^\w]", line, maxsplit=1)[0] for line in ASKED if PROJECT["name"] not in line})
# This matches a private module or name of a dependency that is imported, or that stands in a string for import_module
# and monkeypatch.
REACH = re.compile(rf"\b(?:{PACKAGES})(?:\.\w+)*?(?:\._[a-z]\w*| import _[a-z]\w*)(?:\.\w+)*")
# What stands here is changed by views/server/patches.py, whose names have tests of their own.
OF_MARIMO = {"tests/test_patches.py"}
ROWS = [
    [cell.strip() for cell in line.strip("|").split(" | ")]
    for line in (ROOT / "docs" / "borrowed.md").read_text("utf-8").splitlines()
    if line.startswith("| ")
][1:]


def quoted(cell: str) -> list[str]:
    return [long.strip() or short for long, short in re.findall(r"``(.+?)``|`([^`]+)`", cell)]


@cache
def text(path: str) -> str:
    return (ROOT / path).read_text("utf-8")


def test_no_other_file_reaches_into_a_private_name_of_a_dependency():
    listed = {(where, name) for row in ROWS for where in quoted(row[2]) for name in quoted(row[1])}
    reached = {}
    for path in FILES:
        file = path.relative_to(ROOT).as_posix()
        if file not in OF_MARIMO and path != Path(__file__):
            names = set(REACH.findall(path.read_text("utf-8")))
            left = {one for one in names if not any(f == file and one.startswith(x) for f, x in listed)}
            reached |= {file: left} if left else {}
    assert reached == {}, "list these in docs/borrowed.md, each with a test that guards it"
    example = "import polars._utils; from altair._x import y; 'rich._ratio.a'; polars.col._df"
    assert REACH.findall(example) == ["polars._utils", "altair._x", "rich._ratio.a", "polars.col._df"]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row[0]}: {row[1][:40]}")
def test_what_is_listed_is_there_and_guarded(row):
    _, what, where, guard = row
    (file,) = quoted(where)
    for name in quoted(what):
        if "*" not in name:
            assert name in text(file) or file == name, f"{file} has no {name}"
    path, _, test = quoted(guard)[0].partition("::")
    assert (f"def {test}(" if test else "") in text(path)


@pytest.mark.slow
def test_chromium_opens_no_hidden_pages(browser):
    targets = browser.new_browser_cdp_session().send("Target.getTargets", {"filter": [{}]})["targetInfos"]
    assert [target["url"] for target in targets if target["type"] == "browser_ui"] == []
