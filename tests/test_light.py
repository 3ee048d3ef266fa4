"""What the command line costs before it does anything: what it imports, and what its wheel needs and holds."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import gdpo_core as gc
from gdpo_core import _public
from gdpo_core.conventions import COMPARED, NAMES

ROOT = Path(__file__).parent.parent


def python(code: str, *arguments: str) -> str:
    """What a new process prints."""
    # typer takes the shell from the processes around it, unless it is told not to.
    environment = {**os.environ, "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True).stdout


# --- names that are imported when they are used -----------------------------------------------------------------------


@pytest.mark.parametrize("module", ["advantages", "collapse", "explain"])
def test_a_function_keeps_its_name_when_its_module_is_imported_first(module):
    code = (
        f"import sys, gdpo_core.{module}, gdpo_core as gc\n"
        f"assert sys.modules['gdpo_core.{module}'] is not gc.{module} and callable(gc.{module})\n"
        "from gdpo_core import *\n"
        f"assert {module} is gc.{module} and set(gc.__all__) <= set(dir(gc)) & set(globals())"
    )
    python(code)


def test_every_name_on_offer_is_there_and_none_is_forgotten():
    offered = {name for name in vars(_public) if not name.startswith("__")}
    assert offered == set(gc.__all__) and all(getattr(gc, name) is getattr(_public, name) for name in offered)
    with pytest.raises(AttributeError, match="module 'gdpo_core' has no attribute 'nothing'"):
        gc.nothing  # noqa: B018
    with pytest.raises(ImportError, match="cannot import name 'nothing'"):
        from gdpo_core import nothing  # noqa: F401


def test_the_methods_that_help_names_are_those_that_compute():
    assert tuple(gc.METHODS) == COMPARED and list(NAMES)[:3] == list(COMPARED)


# --- the start of the command line ------------------------------------------------------------------------------------

HEAVY = {"torch", "polars", "numpy", "marimo", "altair"}


@pytest.mark.parametrize(
    "arguments", [["--help"], ["audit", "--help"], ["explain"], ["--version"], ["--show-completion", "bash"]]
)
def test_help_version_and_completion_wait_for_nothing_heavy(arguments):
    code = (
        "import json, sys\nfrom gdpo_core.cli import main\n"
        "try:\n    main(sys.argv[1:])\nexcept SystemExit:\n    print('\\n' + json.dumps(sorted(sys.modules)))"
    )
    loaded = set(json.loads(python(code, *arguments).splitlines()[-1]))
    assert "gdpo_core.cli" in loaded and not loaded & HEAVY
