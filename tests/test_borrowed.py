"""docs/borrowed.md lists what we lean on of others' insides: it is true, complete, and these fail where one is gone."""

import ast
import re
import sys
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("gdpo_core", "views", "tests", "benchmarks", "scripts", "parity", "fuzz")
FILES = sorted([path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")] + list(ROOT.glob("*.py")))
# The names of marimo that views/patches.py changes have tests of their own.
DOTTED = re.compile(r"[A-Za-z]\w*(\.\w+)+")
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


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text("utf-8"))


def private(name: str) -> bool:
    return name.startswith("_") and not name.endswith("_")  # not __dunder__, and not _mime_, a protocol


@cache
def ours() -> frozenset[str]:
    """Every private name that a file of ours gives to something."""
    made = set()
    for path in FILES:
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                made.add(node.name)
            elif isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store):
                made.add(node.id if isinstance(node, ast.Name) else node.attr)
    return frozenset(made)


def borrowed(path: Path) -> set[str]:
    """The private names in a file that no file of ours made."""
    own = {*FOLDERS, *sys.stdlib_module_names, *(file.stem for file in FILES)}
    found, standard = set(), set()
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
            standard |= {alias.asname or alias.name for alias in node.names} & sys.stdlib_module_names
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and DOTTED.fullmatch(node.value):
            names = [node.value]  # for import_module and monkeypatch
        else:
            names = []
        found |= {name for name in names if name.split(".")[0] not in own and any(map(private, name.split(".")))}
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Attribute) and private(node.attr) and node.attr not in ours():
            of_python = isinstance(node.value, ast.Name) and node.value.id in standard  # os._exit
            found |= set() if of_python else {node.attr}
    return found


@pytest.mark.slow
def test_no_other_file_reaches_into_a_private_name_of_a_dependency():
    listed = {(where, name) for row in ROWS for where in quoted(row[2]) for name in quoted(row[1])}
    reached = {}
    for path in FILES:
        file = path.relative_to(ROOT).as_posix()
        if file not in OF_MARIMO and path != Path(__file__):
            names = {one for one in borrowed(path) if not any(f == file and one.startswith(x) for f, x in listed)}
            reached |= {file: names} if names else {}
    assert reached == {}, "list these in docs/borrowed.md, each with a test that guards it"


def test_a_reach_is_seen(tmp_path):
    path = tmp_path / "reaches.py"
    path.write_text(
        "import polars._utils\nfrom altair._x import y\nimport os\nos._exit\n"
        "polars.DataFrame()._df\nsetattr('rich._ratio.ratio_resolve')\nself._repr_html_\nours._block\n"
    )
    assert borrowed(path) == {"polars._utils", "altair._x.y", "_df", "rich._ratio.ratio_resolve"}


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
