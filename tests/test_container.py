"""The container: exactly the files that .dockerignore admits, in an empty folder. The server, every chapter, the
command and a wheel have to work there without the checkout.
"""

import ast
import json
import os
import re
import subprocess
import sys
import sysconfig
import tomllib
from functools import cache
from pathlib import Path
from shutil import copyfile
from urllib.request import urlopen

import pytest
from docker.utils.build import exclude_paths

from benchmarks.servers import end, until_listening, unused_port

ROOT = Path(__file__).resolve().parent.parent
WATCH = Path(__file__).with_name("container_watch.py")
SAMPLE, BOOKS = "data/samples/trl_gdpo", "data/books.json"
# These are read by Docker or by the build of the package, whatever the page needs.
BUILD = (
    "pyproject.toml",
    "constraints.txt",
    *tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["license-files"],
)


def admitted(patterns: str) -> set[str]:
    """Return the files that Docker would take from the checkout, by Docker's own rules of patterns.

    patterns: the text of a .dockerignore.
    """
    lines = [line.strip() for line in patterns.splitlines()]
    kept = exclude_paths(str(ROOT), [line for line in lines if line and not line.startswith("#")])
    return {path for path in kept if (ROOT / path).is_file()} - {".dockerignore", "Dockerfile"}


@cache
def named_in(path: str) -> set[str]:
    """Return the files of the checkout that a Python file names: the modules that it imports, at whatever time, and
    paths put together from words, as in `ROOT / "docs" / "glossary.md"`.
    """
    found = set()
    for node in ast.walk(ast.parse((ROOT / path).read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name.replace(".", "/") for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            module = node.module.replace(".", "/")
            found |= {module, *(f"{module}/{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
            found.add("/".join(words_of(node)))
    ways = {name + ending for name in found for ending in ("", ".py", "/__init__.py")}
    return {way for way in ways if way and (ROOT / way).is_file()}


def words_of(node: ast.expr) -> list[str]:
    """Return the constant words of a path that is put together with `/`, in order."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
        return words_of(node.left) + words_of(node.right)
    return [node.value] if isinstance(node, ast.Constant) and isinstance(node.value, str) else []


def left_out(patterns: str) -> list[str]:
    """Return a sentence for each file that one of the admitted files names and that these patterns leave out."""
    inside = admitted(patterns)
    wanted = {(file, by) for by in sorted(inside) if by.endswith(".py") for file in named_in(by)}
    wanted |= {(file, "the build") for file in BUILD}
    return [f"{file} is left out, which {chapter_of(by)} needs" for file, by in sorted(wanted) if file not in inside]


def chapter_of(path: str) -> str:
    """Return the chapter that a file of views/ belongs to, and of another file its path."""
    _, _, rest = path.partition("views/chapters/")
    return f"the chapter {rest.partition('/')[0]} ({path})" if "/" in rest else path


def run(folder: Path, *words: str | Path, told: Path | None = None) -> subprocess.CompletedProcess:
    """Run Python in a folder, with the installed packages but without the checkout, which a file .pth would bring."""
    packages = os.pathsep.join((str(folder), sysconfig.get_path("purelib")))
    ran = subprocess.run(
        [sys.executable, "-S", *words],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": packages, "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    missing = [json.loads(line) for line in told.read_text().splitlines()] if told and told.exists() else []
    missing = [f"{file} is left out, which {who} needs" for file, who, there in missing if not there]
    assert not missing, "; ".join(missing)
    assert ran.returncode == 0, ran.stderr
    return ran


@pytest.fixture(scope="module")
def container(tmp_path_factory) -> Path:
    """Return a folder with exactly the files that .dockerignore admits."""
    folder = tmp_path_factory.mktemp("container")
    for path in admitted((ROOT / ".dockerignore").read_text(encoding="utf-8")):
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        copyfile(ROOT / path, folder / path)
    return folder


def test_no_file_that_an_admitted_one_names_is_left_out():
    assert left_out((ROOT / ".dockerignore").read_text(encoding="utf-8")) == []


NEEDED = {  # by whom; each is left out once
    "views/chapters/evidence/squares.py": "the chapter evidence (views/chapters/evidence/__init__.py)",
    "views/server/memory.py": "serve.py",
    "gdpo_audit/comparing/judging.py": "the chapter evidence (views/chapters/evidence/forecasts_and_outcomes.py)",
    "gdpo_core/checking/readers/shell.py": "gdpo_core/checking/readers/commands.py",
    "data/experiments.parquet": "the chapter evidence (views/chapters/evidence/experiment.py)",
    "data/matrix.json": "the chapter use (views/chapters/use/configure.py)",
    "docs/library.md": "the chapter lab (views/chapters/lab/depth.py)",
    "docs/glossary.md": "views/widgets/glossary.py",
    "constraints.txt": "the build",
    "LICENSE": "the build",
}


@pytest.mark.parametrize("file", NEEDED)
def test_a_file_that_is_left_out_is_named_with_who_needs_it(file):
    told = left_out((ROOT / ".dockerignore").read_text(encoding="utf-8") + f"\n{file}\n")
    assert f"{file} is left out, which {NEEDED[file]} needs" in told


@pytest.mark.slow
def test_a_file_that_the_page_opens_is_named_where_it_is_left_out(container, tmp_path):
    """No code names this file as a whole path, so that only a run shows who opens it."""
    (container / BOOKS).rename(tmp_path / "away")
    try:
        with pytest.raises(AssertionError, match=f"^{BOOKS} is left out, which the chapter lab needs"):
            run(container, WATCH, ROOT, tmp_path / "told", "chapters", SAMPLE, told=tmp_path / "told")
    finally:
        (tmp_path / "away").rename(container / BOOKS)


@pytest.mark.slow
def test_every_chapter_and_an_audit_run_in_the_container(container, tmp_path):
    told = tmp_path / "told"
    ran = run(container, WATCH, ROOT, told, "chapters", SAMPLE, told=told)
    opened = {file for file, _, _ in map(json.loads, told.read_text().splitlines())}
    assert {"serve.py", "data/matrix.json", "docs/library.md", "gdpo_core/board/drop.js"} <= opened
    assert "The logged advantages are GDPO" in ran.stdout


@pytest.mark.slow
def test_the_container_serves_the_page(container, tmp_path, browser):
    port, told = unused_port(), tmp_path / "told"
    packages = os.pathsep.join((str(container), sysconfig.get_path("purelib")))
    command = [sys.executable, "-S", WATCH, ROOT, told, "serve", "--port", str(port)]
    server = subprocess.Popen(
        command,
        cwd=container,
        env=os.environ | {"PYTHONPATH": packages},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    try:
        until_listening(server, port)
        with urlopen(f"http://127.0.0.1:{port}/health", timeout=20) as answer:
            assert json.load(answer) == {"status": "healthy"}
        with urlopen(f"http://127.0.0.1:{port}/og/thumbnail?file=app.py", timeout=20) as picture:
            assert picture.headers["content-type"] == "image/png"
        page = browser.new_page()
        page.goto(f"http://127.0.0.1:{port}/")
        page.locator(".board .bar").first.wait_for(timeout=90_000)
        page.close()
    finally:
        end(server)
    assert not [line for line in told.read_text().splitlines() if not json.loads(line)[2]]


@pytest.mark.slow
def test_a_wheel_works_without_the_checkout(container, tmp_path):
    """The wheel is built from the container's files, and holds all that the command and the library need."""
    subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "-qq", "--no-deps", "--no-build-isolation", "-w", tmp_path, container],
        check=True,
        env=os.environ | {"PIP_NO_CACHE_DIR": "1"},
    )
    (wheel,) = tmp_path.glob("*.whl")
    installed, log = tmp_path / "installed", ROOT / SAMPLE
    subprocess.run([sys.executable, "-m", "zipfile", "-e", wheel, installed], check=True)
    (tmp_path / "run.sh").write_text("accelerate launch train.py --reward_weights 1 2 --num_generations 8\n")
    begin = "import sys; from gdpo_cli import main; sys.argv = ['gdpo', *sys.argv[1:]]; main()"
    assert "audit" in run(installed, "-c", begin, "--help").stdout
    assert "The logged advantages are GDPO" in run(installed, "-c", begin, "audit", log).stdout
    assert re.match(r"(\d+) of \1 answers agree", run(installed, "-c", begin, "selftest").stdout)
    assert "GRPO" in run(installed, "-c", begin, "check", tmp_path / "run.sh", "--trainer", "trl").stdout
    says = "import gdpo_core as gc; print(gc.gdpo([[1.0, 0], [0, 1], [1, 1]]).tolist(), gc.__file__)"
    assert str(installed) in run(installed, "-c", says).stdout
