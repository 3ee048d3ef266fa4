"""Every command that the documents name, tried in a new clone as it stands there; `make documents`, and each night.

A block without a language holds commands, one a line. A block of `sh` is a script, and one of `python` without prompts
a program. Between backticks `.venv/bin/...`, `make run`, `make edit` and `make lesson` are commands too.
"""

import os
import re
import signal
import subprocess
import time
import urllib.request
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import pytest
from fake_logs import ACCURACY, FORMAT, write_trl, write_verl

ROOT = Path(__file__).resolve().parent.parent
REPORTS = "docs/upstream.md"  # of marimo alone: its scripts run with whatever `python` is
FOUND = [path for places in ("README.md", "docs/*.md", "experiments/*.md") for path in sorted(ROOT.glob(places))]
DOCUMENTS = [path.relative_to(ROOT).as_posix() for path in FOUND]
LIMIT = 900  # seconds that a command may take
SERVES = re.compile(r"make (run|edit|lesson)\b|\bserve\.py\b")
NOT_TRIED = {
    "make test": "`.ci/run` does it",
    ".venv/bin/python -m pip install -e '.[experiments]'": "asks an index for TRL and what it brings",
    ".venv/bin/python -m experiments.train --out runs": "needs TRL, which `make parity-trainer` has",
    ".venv/bin/python -m experiments.means --runs runs": "needs the logs of the one above",
}


def complete(script: str) -> bool:
    """Return whether a script is whole for bash, as a loop without its end is not."""
    return subprocess.run(["bash", "-n", "-c", script], stderr=subprocess.DEVNULL).returncode == 0


def typed(block: str) -> list[str]:
    """Return the commands in a block, without their comments; a loop over several lines is one command."""
    found, begun = [], []
    for line in re.sub(r"(^|\s+)#\s.*$", "", block, flags=re.MULTILINE).splitlines():
        begun.append(line)
        if complete("\n".join(begun)):
            found.append("\n".join(begun))
            begun = []
    assert not begun, f"no command: {begun}"
    return list(filter(None, found))


@cache
def commands(document: str) -> dict[str, str]:
    """Return each command of a document with the language that it is in, "sh" or "python"."""
    text = (ROOT / document).read_text(encoding="utf-8")
    blocks = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
    found = {}
    for language, block in blocks.findall(text):
        if language == "":
            found |= dict.fromkeys(typed(block), "sh")
        elif language == "sh" or (language == "python" and ">>>" not in block):
            found[block] = language
    inline = re.findall(r"`(\.venv/bin/[^`]+|make (?:run|edit|lesson)\b[^`]*)`", blocks.sub("", text))
    return found | {" ".join(command.split()): "sh" for command in inline}


@pytest.fixture(scope="session")
def clone(tmp_path_factory):
    """Return the folder of a new clone, after `make install`, with logs under the names that the documents use for a
    reader's own.
    """
    folder = tmp_path_factory.mktemp("documents") / "clone"
    subprocess.run(["git", "clone", "--quiet", ROOT, folder], check=True)
    with begun("make install", folder) as (process, said):
        assert process.wait(LIMIT) == 0, said()
    for seed, name in enumerate(("OUT", "runs/a", "runs/b", "a1", "a2", "a3", "b1", "b2", "b3")):
        tasks = {"task": lambda n: ["add" if i < n // 2 else "divide" for i in range(n)]}
        rewards = {"rewards": (ACCURACY, FORMAT), "weights": (1.0, 0.5)}
        write_trl(folder / name, steps=150, method="grpo", seed=seed, one_file=True, extra=tasks, **rewards)
    write_verl(folder / "DUMP", steps=20)
    return folder


@contextmanager
def begun(command: str, folder: Path, language: str = "sh", **environment: str):
    """Yield a running command, and a function that returns the end of its output so far. The command and its children
    are ended with the block.
    """
    shell = ["bash", "-ec", command] if language == "sh" else ["python", "-c", command]
    # Where a document forgets the environment, pip must not install into the machine's own Python.
    environment["PIP_REQUIRE_VIRTUALENV"] = "1"
    hidden = ("PYTHONPATH", "VIRTUAL_ENV", "MAKEFLAGS", "MAKELEVEL", "MFLAGS", "DISPLAY", "WAYLAND_DISPLAY", "BROWSER")
    kept = {name: value for name, value in os.environ.items() if name not in hidden} | environment
    output = folder / "said.log"
    with output.open("wb") as file:
        out = {"stdout": file, "stderr": subprocess.STDOUT}
        process = subprocess.Popen(["env", *shell], cwd=folder, env=kept, start_new_session=True, **out)
    try:
        yield process, lambda: output.read_text(encoding="utf-8", errors="replace")[-4000:]
    finally:
        for sent in (signal.SIGINT, signal.SIGKILL):
            try:
                os.killpg(process.pid, sent)
                process.wait(20)
            except (ProcessLookupError, subprocess.TimeoutExpired):
                pass


def health(command: str) -> bool:
    """Return whether the server that a command starts answers."""
    port, base = re.search(r"PORT=(\d+)", command), re.search(r"--base-url (\S+)", command)
    url = f"http://127.0.0.1:{port[1] if port else 7860}{base[1] if base else ''}/health"
    try:
        return urllib.request.urlopen(url, timeout=1).status == 200
    except OSError:
        return False


@pytest.mark.parametrize(
    ("document", "command"),
    [pytest.param(d, c, id=f"{d}: {c.splitlines()[0]}") for d in DOCUMENTS for c in commands(d) if c not in NOT_TRIED],
)
def test_a_command_works_as_the_document_has_it(clone, document, command):
    folder, path = clone, {"PATH": f"{clone}/.venv/bin:{os.environ['PATH']}"}
    environment = path if document == REPORTS else {}
    assert not (SERVES.search(command) and health(command)), "another server is there"
    with begun(command, folder, commands(document)[command], **environment) as (process, said):
        if SERVES.search(command) or "--watch" in command:
            works = said if "--watch" in command else lambda: health(command)
            end = time.monotonic() + 120
            while not works() and process.poll() is None and time.monotonic() < end:
                time.sleep(0.2)
            assert works() and process.poll() is None, said()
        else:
            assert process.wait(LIMIT) == 0, said()
