"""What the command line costs before it does anything: what it imports, and what its wheel needs and holds."""

import json
import os
import shutil
import subprocess
import sys
import tomllib
import venv
import zipfile
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import gdpo_cli
import gdpo_core as gc
from gdpo_core._words import listing
from gdpo_core.conventions import COMPARED, NAMES
from gdpo_core.frameworks import readable_with_writers

ROOT = Path(__file__).parent.parent


def python(code: str, *arguments: str) -> str:
    """What a new process prints."""
    # typer takes the shell from the processes around it, unless it is told not to.
    environment = {**os.environ, "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True).stdout


def output(*command: object, **environment: str) -> str:
    """What a command prints that ends with 0."""
    ran = subprocess.run(list(map(str, command)), env=environment, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


# --- names ------------------------------------------------------------------------------------------------------------


def test_every_name_on_offer_is_there_and_no_module_hides_one():
    assert all(hasattr(gc, name) for name in gc.__all__)
    assert not {path.stem for path in (ROOT / "gdpo_core").iterdir()} & set(gc.__all__)
    with pytest.raises(AttributeError, match="module 'gdpo_core' has no attribute 'nothing'"):
        gc.nothing  # noqa: B018


def test_help_names_what_there_is():
    assert tuple(gc.METHODS) == COMPARED and listing(COMPARED, "or") == gdpo_cli.METHODS
    assert listing(gc.CONVENTIONS, "or") == gdpo_cli.CONVENTIONS and ", ".join(NAMES) == gdpo_cli.ASKED
    assert listing(readable_with_writers(), "or") == gdpo_cli.FRAMEWORKS


# --- the start of the command line ------------------------------------------------------------------------------------

HEAVY = {"gdpo_core", "torch", "polars", "numpy"}


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
    assert environment["OMP_WAIT_POLICY"] == "passive"  # read when torch is imported, no later
    assert status == 0 and printed in "\n".join(lines)
    assert not HEAVY & {name.split(".")[0] for name in modules}


# --- the wheel --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    """A copy of what is built, since building leaves files behind."""
    folder = tmp_path_factory.mktemp("checkout")
    for name in ("pyproject.toml", "README.md", "LICENSE", "gdpo_cli.py"):
        shutil.copy(ROOT / name, folder)
    for name in ("gdpo_core", "views"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    return folder


def built(checkout: Path) -> zipfile.ZipFile:
    """The wheel as pip has it built."""
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
    files = (ROOT / "gdpo_core").rglob("*")
    here = {path.relative_to(ROOT).as_posix() for path in files if path.suffix in (".py", ".css", ".js", ".typed")}
    assert {name for name in wheel.namelist() if ".dist-info/" not in name} == {*here, "gdpo_cli.py"}
    assert entry_points(wheel) == {"gdpo = gdpo_cli:main"}
    (about,) = (wheel.read(name).decode() for name in wheel.namelist() if name.endswith("/METADATA"))
    assert "gdpo audit" in about and "sdk: docker" not in about


def needed(name: str) -> set[str]:
    """The distributions that a requirement needs, itself included, as they are installed here."""
    found, rest = set(), [name]
    while rest:
        requirement = Requirement(rest.pop())
        applies = requirement.marker is None or requirement.marker.evaluate({"extra": ""})
        if applies and canonicalize_name(requirement.name) not in found:
            found.add(canonicalize_name(requirement.name))
            rest += metadata.requires(requirement.name) or []
    return found


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="links of POSIX")
def test_the_command_works_from_its_wheel_with_what_it_says_it_needs_and_nothing_else(checkout, tmp_path):
    wheel = built(checkout).filename
    venv.create(tmp_path / "venv", with_pip=False, symlinks=True)
    python = tmp_path / "venv/bin/python"
    install = ["install", "--quiet", "--no-deps", "--no-index", "--disable-pip-version-check", wheel]
    output(sys.executable, "-m", "pip", "--python", python, *install, **os.environ)

    # What the wheel requires, and no more, as links to what is installed here: no network, no copies.
    dependencies = tmp_path / "dependencies"
    dependencies.mkdir()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    names = set().union(*(needed(line) for line in project["dependencies"]))
    assert {"torch", "typer"} <= names and not {"marimo", "altair", "anywidget", "starlette"} & names
    for name in names:
        for file in metadata.files(name) or []:
            top = file.parts[0]
            if top not in ("..", "__pycache__") and not (dependencies / top).exists():
                (dependencies / top).symlink_to(metadata.distribution(name).locate_file(top))

    environment = {"PYTHONPATH": str(dependencies), "PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    gdpo = tmp_path / "venv/bin/gdpo"
    assert output(gdpo, "--version", **environment) == f"gdpo {project['version']}\n"
    assert output(gdpo, "explain", "10", "01", **environment).startswith("GDPO, convention paper")
    log = ROOT / "data/samples/trl_gdpo"
    report = json.loads(output(gdpo, "audit", log, "--html", tmp_path / "a.html", "--json", "-", **environment))
    assert report == json.loads(json.dumps(gc.audit(gc.read_run(log)).to_dict()))
    assert (tmp_path / "a.html").stat().st_size > 10_000
    words = {"COMP_WORDS": "gdpo au", "COMP_CWORD": "1", "_GDPO_COMPLETE": "complete_bash"}
    assert output(gdpo, **environment, **words).split() == ["audit"]
    code = "import gdpo_core; print(gdpo_core.__file__, gdpo_core.gdpo([[1, 0], [0, 1]]).tolist())"
    assert output(python, "-P", "-c", code, **environment).startswith(str(tmp_path / "venv"))
