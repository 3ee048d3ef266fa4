"""The rooms of the house: which may import which, how many files stand in one, and which names stand in two."""

import ast
import importlib
import re
from collections import Counter, defaultdict
from pathlib import Path

import pytest

from gdpo_core.shared.moved import NEW_PATHS

ROOT = Path(__file__).parent.parent
PACKAGES = ("gdpo_core", "gdpo_audit", "views")
MODULES = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
    for package in PACKAGES
    for path in sorted((ROOT / package).rglob("*.py"))
}

# The rooms of each package, in order: a room imports only from itself, from those before it, and from packages below. A
# module beside the rooms is a room by itself. Those on one line may import one another.
ORDER = {
    "gdpo_core": (
        "shared",
        "conventions checking.rules",  # a trainer's record has its conventions and the rules of its traps
        "frameworks",
        "numerics",
        "methods successors registry config_lines",
        "pushing steps ties counting policies training intervals pushes_by_rate forecasting",
        "bounds",
        "checking.readers",
        "checking",
        "board",
    ),
    "gdpo_audit": (
        "json_types records thresholds phrases console",
        "logs",
        "recipe",
        "sums",
        "unexplained",
        "facts",
        "trials",
        "findings",
        "report",
        "auditing",
        "advice comparing callback",
        "command",
    ),
    # The limit on threads is set before anything is imported that starts some.
    "views": ("bfcl", "studies", "server.threads", "widgets", "server", "chapters"),
}
# The walk from a package to the rooms behind its public names is made when a name is first used.
FRONT = {"gdpo_core", "gdpo_audit"}


def imports(name: str, path: Path) -> set[str]:
    """Return the modules of the house that a module imports, wherever it does."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            full = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= {module if module in MODULES else node.module for module in full}
    return found & set(MODULES) - {name}


def place(name: str) -> int | None:
    """Return the place of a module's room in the order of its package; None for the front door of the package."""
    package, _, inside = name.partition(".")
    rooms = {room: number for number, line in enumerate(ORDER[package]) for room in line.split()}
    fitting = [room for room in rooms if inside == room or inside.startswith(f"{room}.")]
    return rooms[max(fitting, key=len)] if fitting else None


@pytest.mark.parametrize("name", sorted(set(MODULES) - set(PACKAGES)))
def test_a_room_imports_only_from_those_before_it(name):
    room = place(name)
    assert room is not None, "it stands in no room"
    for imported in imports(name, MODULES[name]):
        if imported.split(".")[0] == name.split(".")[0] and imported not in FRONT:
            there = place(imported)
            assert there is not None and there <= room, imported


def test_no_room_holds_more_than_16_files():
    held = Counter(path.parent.relative_to(ROOT) for path in MODULES.values() if path.name != "__init__.py")
    assert not {str(room): count for room, count in held.items() if count > 16}


# Each of these pairs is one idea in two rooms: what the board says and what a report says, and so on.
TWICE = {"check.py", "facts.py", "headline.py", "html.py", "notes.py", "verdict.py"}


def test_at_most_six_file_names_stand_twice():
    names = Counter(path.name for path in MODULES.values() if path.name != "__init__.py")
    assert {name: count for name, count in names.items() if count > 1} == dict.fromkeys(TWICE, 2)


# --- names ------------------------------------------------------------------------------------------------------------

SHARED = {  # public names that stand in two modules or more, and why
    "Array": "the alias of NumPy's array with which a module types its numbers",
    "fold": "an element of HTML, and on the page the same one as the content of a cell",
    "link": "the link by which a chapter is opened anew as it is",
    "section": "what a fold of a chapter shows",
    "title": "what stands on a fold of a chapter",
}


def public_names(path: Path) -> set[str]:
    """Return the names without an underscore that a module defines at its top, imports aside."""
    found: set[str] = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            found |= {part.id for target in targets for part in ast.walk(target) if isinstance(part, ast.Name)}
    return {name for name in found if not name.startswith("_")}


def test_a_name_means_one_thing():
    where = defaultdict(set)
    for module, path in MODULES.items():
        for name in public_names(path):
            where[name].add(module)
    assert {name for name, modules in where.items() if len(modules) > 1} == set(SHARED) and len(SHARED) <= 20


def test_no_module_of_another_room_is_private():
    assert not {name for name in MODULES if re.search(r"\._(?!_)", name)}


# --- old names --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("old", NEW_PATHS)
def test_an_old_path_is_answered_with_the_new_one(old):
    with pytest.raises(ModuleNotFoundError, match=re.escape(f"{old} is now {NEW_PATHS[old]}: import it from there")):
        importlib.import_module(old)
    package, _, module = old.rpartition(".")
    if package in MODULES:
        with pytest.raises(ImportError, match=re.escape(NEW_PATHS[old])):
            exec(f"from {package} import {module}", {})


def test_a_new_path_is_there_and_an_unknown_one_is_not_answered():
    assert set(NEW_PATHS.values()) <= set(MODULES) and not set(NEW_PATHS) & set(MODULES)
    with pytest.raises(ModuleNotFoundError, match="No module named"):
        importlib.import_module("gdpo_core.nothing")
