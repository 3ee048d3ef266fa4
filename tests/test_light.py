"""Costs of the command line before it does anything: the modules that it imports, and what its wheel needs and
holds.
"""

import ast
import json
import os
import pickle
import shutil
import subprocess
import sys
import tomllib
import zipfile
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import gdpo_audit as ga
import gdpo_cli
import gdpo_core as gc
from gdpo_core.conventions import COMPARED, NAMES
from gdpo_core.frameworks import readable_with_writers
from gdpo_core.shared.extras import EXTRAS
from gdpo_core.shared.words import listing

ROOT = Path(__file__).parent.parent


def python(code: str, *arguments: str) -> str:
    """Return what a new process prints. code: what it runs."""
    # typer learns the shell from the processes around it, unless it is told not to look.
    environment = {**os.environ, "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True).stdout


# --- names ------------------------------------------------------------------------------------------------------------


def without(modules: set[str], code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run code in a new process in which modules cannot be imported, and return how it ended."""
    hidden = f"import sys\nsys.modules.update(dict.fromkeys({modules!r}))\n"
    command = [sys.executable, "-c", hidden + code, *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)


def test_every_name_on_offer_is_there_and_no_module_hides_one():
    assert all(hasattr(gc, name) for name in gc.__all__) and set(gc.__all__) <= set(dir(gc))
    assert not {path.stem for path in (ROOT / "gdpo_core").iterdir()} & set(gc.__all__)
    with pytest.raises(AttributeError, match="module 'gdpo_core' has no attribute 'nothing'"):
        gc.nothing  # noqa: B018


@pytest.mark.parametrize("package", [gc, ga], ids=["core", "audit"])
def test_what_a_type_checker_reads_is_what_is_imported_on_demand(package):
    tree = ast.parse(Path(package.__file__).read_text("utf-8"))
    (typed,) = (node for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING")
    read = {(node.module, alias.name) for node in typed.body for alias in node.names}
    on_demand = {(module, name) for module, names in package._MODULES.items() for name in names.split()}
    assert read == on_demand
    assert {name for _, name in on_demand} | ({"InputError"} if package is gc else set()) == set(package.__all__)


def test_a_star_imports_every_name_in_a_new_process():
    for package in ("gdpo_core", "gdpo_audit"):
        told = f"from {package} import *\nimport {package} as p\nprint(set(p.__all__) <= set(globals()))"
        assert python(told).strip() == "True"


def test_help_names_what_there_is():
    assert tuple(gc.METHODS) == COMPARED and listing(COMPARED, "or") == gdpo_cli.METHODS_IN_WORDS
    assert listing(gc.CONVENTIONS, "or") == gdpo_cli.CONVENTIONS and ", ".join(NAMES) == gdpo_cli.ASKED
    assert listing(readable_with_writers(), "or") == gdpo_cli.FRAMEWORKS


# --- the start of the command line ------------------------------------------------------------------------------------

OF_AUDIT = {*EXTRAS["audit"]}
HEAVY = {"gdpo_core", "gdpo_audit", *OF_AUDIT}
RUN = (
    "import json, os, sys\nfrom gdpo_cli import main\n"
    "try:\n    main(sys.argv[1:])\nexcept SystemExit as stopped:\n"
    "    print('\\n' + json.dumps([stopped.code, sorted(sys.modules), dict(os.environ)]))"
)
NOTEBOOK = {"cells": [{"cell_type": "code", "source": ["!swift rlhf --rlhf_type grpo --scale_rewards gdpo"]}]}
CONFIGURATIONS = {
    "a.yaml": "base_model: m\nrl: gdpo\n",
    "a.json": '{"rlhf_type": "grpo", "scale_rewards": "gdpo"}',
    "a.sh": "python3 -m verl.trainer.main_ppo algorithm.adv_estimator=gdpo\n",
    "a.py": "from trl import GRPOConfig\nGRPOConfig(multi_objective_aggregation='normalize_then_sum')\n",
    "a.ipynb": json.dumps(NOTEBOOK),
}


@pytest.mark.parametrize(
    ("arguments", "printed"),
    [
        (["--help"], "Usage: gdpo"),
        (["audit", "--help"], "Usage: gdpo audit"),
        (["--version"], f"gdpo {metadata.version('gdpo')}"),
        (["--show-completion", "bash"], "_gdpo_completion"),
    ],
)
def test_help_version_and_completion_wait_for_nothing_heavy(arguments, printed):
    *lines, last = python(RUN, *arguments).splitlines()
    status, modules, environment = json.loads(last)
    assert environment["OMP_WAIT_POLICY"] == "passive"  # torch reads it when it is imported, and not later.
    assert status == 0 and printed in "\n".join(lines)
    assert not HEAVY & {name.split(".")[0] for name in modules}


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_a_check_waits_for_no_package_of_the_audit(name, tmp_path):
    (tmp_path / name).write_text(CONFIGURATIONS[name])
    for options in ([], ["--json", "-"]):
        *lines, last = python(RUN, "check", str(tmp_path / name), *options).splitlines()
        status, modules, _ = json.loads(last)
        assert status == 0 and "GDPO" in "\n".join(lines)
        assert not OF_AUDIT & {module.split(".")[0] for module in modules}


@pytest.mark.parametrize(
    ("what", "arguments"),
    [
        ("audit", ["audit", "data/samples/trl_gdpo"]),
        ("compare", ["compare", "data/samples/trl_gdpo", "data/samples/trl_gdpo"]),
        ("explain", ["explain", "11", "00"]),
        ("selftest", ["selftest"]),
        ("--log", ["check", "tests/configs/trl/paper_index_gdpo.py", "--log", "data/samples/trl_gdpo"]),
    ],
)
def test_a_command_without_its_extra_names_it_in_one_sentence(what, arguments):
    ended = without(OF_AUDIT, "from gdpo_cli import main\nmain(sys.argv[1:])", *arguments)
    assert ended.returncode == 2 and ended.stderr.count("\n") == 1
    hint = "(pip install 'gdpo[audit]', in a checkout '.[audit]')"
    assert ended.stderr.startswith(f"gdpo: {what}: expected the extra audit {hint}")


@pytest.mark.parametrize(
    ("extra", "module", "code", "arguments"),
    [
        ("page", "psutil", "import runpy\nrunpy.run_path('serve.py', run_name='__main__')", []),
        ("page", "marimo", "import runpy\nrunpy.run_path('serve.py', run_name='__main__')", []),
        (
            "board",
            "anywidget",
            "from gdpo_cli import main\nmain(sys.argv[1:])",
            ["explain", "11", "00", "--html", "b.html"],
        ),
    ],
)
def test_the_page_and_the_board_name_their_extra_too(extra, module, code, arguments):
    for needed in ("psutil", "marimo", "anywidget"):
        pytest.importorskip(needed)  # where several are missing, the sentence names the first
    ended = without({module}, code, *arguments)
    assert ended.returncode == 2 and ended.stderr.count("\n") == 1
    hint = f"(pip install 'gdpo[{extra}]', in a checkout '.[{extra}]')"
    assert f": expected the extra {extra} {hint}, got none: no {module}" in ended.stderr


def test_a_program_without_an_extra_meets_an_import_error_and_only_where_a_name_needs_it():
    code = "import gdpo_core as gc\ntry:\n    {}\nexcept ImportError as error:\n    print(error)"
    assert without(OF_AUDIT, code.format("gc.gdpo")).stdout.startswith("gdpo_core.gdpo: expected the extra audit")
    board = code.format("import gdpo_core.board")
    assert without({"anywidget"}, board).stdout.startswith("gdpo_core.board: expected the extra board")
    told = code.format("print(gc.check_config({'a.yaml': 'base_model: m\\nrl: gdpo\\n'}).method, gc.PAPER.ddof)")
    assert without(OF_AUDIT, told).stdout == "gdpo 1\n"
    # A module that no extra brings is a fault, which no sentence about an extra hides.
    hidden = code.format("gc.training")
    assert without({"gdpo_core.policies"}, hidden).stdout.startswith("import of gdpo_core.policies halted")


def test_the_extras_are_those_that_are_installed():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    for extra, modules in EXTRAS.items():
        wanted = [Requirement(line).name for line in project["optional-dependencies"][extra]]
        within = EXTRAS["audit"] if project["name"] in wanted else ()
        assert {*wanted} - {project["name"]} <= {*modules} and {*within} <= {*modules}
    named = {Requirement(line).name for line in project["dependencies"]}
    assert not {"yaml" if name == "pyyaml" else name for name in named} & {
        x for names in EXTRAS.values() for x in names
    }


def test_names_that_are_imported_when_they_are_used_are_what_they_were():
    assert pickle.loads(pickle.dumps(gc.PAPER)) == gc.PAPER and pickle.loads(pickle.dumps(gc.gdpo)) is gc.gdpo
    seen = python(
        "import sys, pickle, gdpo_core as gc, gdpo_audit as ga\n"
        "import gdpo_core.checking\n"
        "print(*(name for name in ('torch', 'numpy', 'polars') if name in sys.modules), 'light')\n"
        "print(gc.frameworks.TRL is gc.TRL, ga.report.document is not None, 'gdpo' in dir(gc), 'audit' in dir(ga))\n"
        "print(pickle.loads(pickle.dumps(gc.TRL)) == gc.TRL)"
    )
    assert seen.split("\n") == ["light", "True True True True", "True", ""]


# --- the wheel --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    """Return a copy of the files that are built, since building leaves files behind."""
    folder = tmp_path_factory.mktemp("checkout")
    for name in ("pyproject.toml", "README.md", "LICENSE", "gdpo_cli.py"):
        shutil.copy(ROOT / name, folder)
    for name in ("gdpo_core", "gdpo_audit", "views", "conformance"):
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
    vectors = {f"gdpo_core/conformance/{name}" for name in ("__init__.py", "cases.json", "check.py", "reference.py")}
    assert {name for name in wheel.namelist() if ".dist-info/" not in name} == {*here, *vectors, "gdpo_cli.py"}
    for name in vectors:  # what is in the wheel is what is in the checkout, of which there is one copy
        assert wheel.read(name) == (ROOT / "conformance" / Path(name).name).read_bytes()
    assert entry_points(wheel) == {"gdpo = gdpo_cli:main"}
    (about,) = (wheel.read(name).decode() for name in wheel.namelist() if name.endswith("/METADATA"))
    assert "gdpo audit" in about and "sdk: docker" not in about
