"""The house rules: who may import whom, what the page may not hold, and where the data comes from."""

import ast
import re
import subprocess
import sys
from functools import cache
from hashlib import sha256
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
APP = ROOT / "app.py"
CORE = sorted((ROOT / "gdpo_core").rglob("*.py"))
VIEWS = sorted((ROOT / "views").rglob("*.py"))


def relative(path):
    return path.relative_to(ROOT).as_posix()


@cache
def imported(path) -> set[str]:
    """Top-level names of all that a file imports, anywhere in it; a relative import counts as its own package."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add(node.module.split(".")[0] if node.level == 0 else path.relative_to(ROOT).parts[0])
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith(("import_module", "__import__")):
            names |= {arg.value.split(".")[0] for arg in node.args if isinstance(arg, ast.Constant)}
    return names


# --- the direction of the arrows: app → views → gdpo_core, never back -------------------------------------------------

IMPORT_ALL_OF_THE_CORE = """
import importlib, pkgutil, sys
import gdpo_core
for module in pkgutil.walk_packages(gdpo_core.__path__, "gdpo_core."):
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)
print(*sorted({name.split(".")[0] for name in sys.modules}))
"""


@pytest.mark.slow
def test_the_core_loads_neither_marimo_nor_altair_nor_the_views():
    ran = subprocess.run(
        [sys.executable, "-c", IMPORT_ALL_OF_THE_CORE], cwd=ROOT, capture_output=True, text=True, check=True
    )
    loaded = set(ran.stdout.split())
    assert "gdpo_core" in loaded
    assert not loaded & {"marimo", "altair", "anywidget", "views", "app"}


def test_a_file_of_the_core_imports_nothing_of_the_views_or_the_page(subtests):
    for path in CORE:
        with subtests.test(relative(path)):
            assert not imported(path) & {"views", "app", "marimo", "altair", "anywidget"}


def test_a_view_imports_nothing_of_the_page(subtests):
    for path in VIEWS:
        with subtests.test(relative(path)):
            assert "app" not in imported(path)


def test_only_views_charts_imports_altair():
    importers = {relative(path) for path in (APP, *CORE, *VIEWS) if "altair" in imported(path)}
    assert importers == {"views/charts.py"}


# --- the page: prose, controls, wiring -------------------------------------------------------------------------------


def test_the_page_does_no_arithmetic_on_tensors():
    assert not imported(APP) & {"torch", "numpy", "scipy", "polars", "pandas", "math", "statistics"}


def test_the_page_keeps_no_state_and_reacts_through_cells_alone():
    tree = ast.parse(APP.read_text(encoding="utf-8"))
    attributes = {ast.unparse(node) for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    keywords = {node.arg for node in ast.walk(tree) if isinstance(node, ast.keyword)}
    assert "mo.md" in attributes  # marimo goes by that name here
    assert not attributes & {"mo.state", "marimo.state"} and "state" not in names
    assert "on_change" not in keywords


# --- the data --------------------------------------------------------------------------------------------------------

README = ROOT / "data" / "README.md"
COLUMNS = ["file", "what it is", "origin", "licence", "how made", "rows", "sha256"]


def rows() -> list[dict]:
    lines = [line for line in README.read_text(encoding="utf-8").splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]
    assert cells[0] == COLUMNS
    return [dict(zip(COLUMNS, row, strict=True)) for row in cells[2:]]


def test_every_file_of_data_has_one_row_with_every_cell_filled():
    named = [row["file"].strip("`") for row in rows()]
    assert len(named) == len(set(named))
    there = {
        relative(path)
        for folder in ("data", "tests/goldens")
        for path in (ROOT / folder).rglob("*")
        if path.is_file() and path != README and not path.name.startswith(".")
    }
    assert set(named) == there
    assert all(cell for row in rows() for cell in row.values())


def test_a_file_of_data_has_the_checksum_of_its_row(subtests):
    for row in rows():
        with subtests.test(row["file"]):
            content = (ROOT / row["file"].strip("`")).read_bytes()
            assert sha256(content).hexdigest() == row["sha256"].strip("`")
