"""Costs of the command line before it does anything: the modules that it imports, and what its wheel needs and
holds.
"""

import json
import os
import shutil
import subprocess
import sys
import zipfile
from importlib import metadata
from pathlib import Path

import pytest

import gdpo_cli
import gdpo_core as gc
from gdpo_core._words import listing
from gdpo_core.conventions import COMPARED, NAMES
from gdpo_core.frameworks import readable_with_writers

ROOT = Path(__file__).parent.parent


def python(code: str, *arguments: str) -> str:
    """Return what a new process prints. code: what it runs."""
    # typer learns the shell from the processes around it, unless it is told not to look.
    environment = {**os.environ, "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True).stdout


# --- names ------------------------------------------------------------------------------------------------------------


def test_every_name_on_offer_is_there_and_no_module_hides_one():
    assert all(hasattr(gc, name) for name in gc.__all__)
    assert not {path.stem for path in (ROOT / "gdpo_core").iterdir()} & set(gc.__all__)
    with pytest.raises(AttributeError, match="module 'gdpo_core' has no attribute 'nothing'"):
        gc.nothing  # noqa: B018


def test_help_names_what_there_is():
    assert tuple(gc.METHODS) == COMPARED and listing(COMPARED, "or") == gdpo_cli.METHODS_IN_WORDS
    assert listing(gc.CONVENTIONS, "or") == gdpo_cli.CONVENTIONS and ", ".join(NAMES) == gdpo_cli.ASKED
    assert listing(readable_with_writers(), "or") == gdpo_cli.FRAMEWORKS


# --- the start of the command line ------------------------------------------------------------------------------------

HEAVY = {"gdpo_core", "gdpo_audit", "torch", "polars", "numpy"}


@pytest.mark.parametrize(
    ("arguments", "printed"),
    [
        (["--help"], "Usage: gdpo"),
        (["audit", "--help"], "Usage: gdpo audit"),
        (["--version"], f"gdpo {metadata.version('reward-policy-intuition')}"),
        (["--show-completion", "bash"], "_gdpo_completion"),
    ],
)
def test_help_version_and_completion_wait_for_nothing_heavy(arguments, printed):
    code = (
        "import json, os, sys\nfrom gdpo_cli import main\n"
        "try:\n    main(sys.argv[1:])\nexcept SystemExit as stopped:\n"
        "    print('\\n' + json.dumps([stopped.code, sorted(sys.modules), dict(os.environ)]))"
    )
    *lines, last = python(code, *arguments).splitlines()
    status, modules, environment = json.loads(last)
    assert environment["OMP_WAIT_POLICY"] == "passive"  # torch reads it when it is imported, and not later.
    assert status == 0 and printed in "\n".join(lines)
    assert not HEAVY & {name.split(".")[0] for name in modules}


# --- the wheel --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    """Return a copy of the files that are built, since building leaves files behind."""
    folder = tmp_path_factory.mktemp("checkout")
    for name in ("pyproject.toml", "README.md", "LICENSE", "gdpo_cli.py"):
        shutil.copy(ROOT / name, folder)
    for name in ("gdpo_core", "gdpo_audit", "views"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    return folder


def built(checkout: Path) -> zipfile.ZipFile:
    """Return the wheel as pip has it built."""
    code = "from setuptools import build_meta; build_meta.build_wheel('dist')"
    (checkout / "dist").mkdir(exist_ok=True)
    subprocess.run([sys.executable, "-c", code], cwd=checkout, capture_output=True, check=True)
    (wheel,) = (checkout / "dist").glob("*.whl")
    return zipfile.ZipFile(wheel)


def entry_points(wheel: zipfile.ZipFile) -> set[str]:
    (name,) = (name for name in wheel.namelist() if name.endswith("/entry_points.txt"))
    return {line.strip() for line in wheel.read(name).decode().splitlines() if "=" in line}


@pytest.mark.slow
def test_the_wheel_holds_the_library_alone(checkout):
    wheel = built(checkout)
    files = (path for package in ("gdpo_core", "gdpo_audit") for path in (ROOT / package).rglob("*"))
    kinds = (".py", ".css", ".js", ".toml", ".typed")
    here = {path.relative_to(ROOT).as_posix() for path in files if path.suffix in kinds}
    assert {name for name in wheel.namelist() if ".dist-info/" not in name} == {*here, "gdpo_cli.py"}
    assert entry_points(wheel) == {"gdpo = gdpo_cli:main"}
    (about,) = (wheel.read(name).decode() for name in wheel.namelist() if name.endswith("/METADATA"))
    assert "gdpo audit" in about and "sdk: docker" not in about
