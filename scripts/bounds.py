"""Try the bounds of pyproject.toml: `make lowest` and `make resolves`; `make fresh` tries what lies above them.

python -m scripts.bounds lowest      the library's tests with the lowest versions, in an environment of its own
python -m scripts.bounds resolves    whether the wheel can be installed beside the trainers; asks a registry
"""

import os
import re
import subprocess
import sys
import tempfile
import tomllib
import venv
from pathlib import Path

from scripts.install import ROOT, answers

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
VENV = ROOT / ".lowest"
PYTHON = VENV / "bin" / "python"
# Of the extra `dev` what the tests of the library need; the frames that it takes also in their lowest versions.
TOOLS = ("pytest", "pytest-xdist", "hypothesis", "pyyaml", "jsonschema")
FRAMES = ("pandas", "pyarrow")
TESTS = ("tests", "gdpo_core", "-m", "not slow", "--hypothesis-profile=dev")
# What a trainer installs, each with the Python that all of them take.
TRAINERS = ("axolotl==0.19.0", "verl[vllm]==0.9.1", "verl[fsdp]==0.9.1", "ms-swift==4.6.0", "trl==1.16.0")
THEIR_PYTHON = "3.12"


def of_dev(*names: str) -> list[str]:
    """What the extra `dev` asks for of these packages."""
    return [line for line in PROJECT["optional-dependencies"]["dev"] if name_of(line) in names]


def name_of(requirement: str) -> str:
    return re.split(r"[^\w-]", requirement, maxsplit=1)[0]


def lowest(requirement: str) -> str:
    """The requirement with its lower bound as the only version.

    >>> lowest("torch>=2.4")
    'torch==2.4'
    """
    name, bound = requirement.split(">=")
    return f"{name}=={bound}"


def pip(*arguments: str) -> None:
    command = [PYTHON, "-m", "pip", "install", "-qq", "--disable-pip-version-check", *arguments]
    if subprocess.run(command, cwd=ROOT).returncode:
        sys.exit(f"pip does not install {' '.join(arguments)}")


def try_lowest() -> int:
    """The status of the library's tests with the lowest versions."""
    venv.create(VENV, clear=True, with_pip=True)
    pinned = [lowest(line) for line in [*PROJECT["dependencies"], *of_dev(*FRAMES)]]
    print("With", *pinned, flush=True)
    index = os.environ.get("TORCH_INDEX", "").strip()
    if index and answers(index):
        pip("--no-deps", "--index-url", index, *(one for one in pinned if name_of(one) == "torch"))
    pip("setuptools>=77.0.3", *pinned, *of_dev(*TOOLS))
    pip("--no-deps", "--no-build-isolation", "-e", ".")
    workers = ["-n", "logical", "--maxprocesses", "4", "--dist", "worksteal"]
    return subprocess.run([PYTHON, "-m", "pytest", *TESTS, *workers], cwd=ROOT).returncode


def try_beside() -> int:
    """0 if the wheel resolves beside every trainer, 1 where it does not though the trainer alone does."""
    status = 0
    with tempfile.TemporaryDirectory() as folder:
        build = [sys.executable, "-m", "pip", "wheel", "-qq", "--disable-pip-version-check", "--no-deps", "-w", folder]
        subprocess.run([*build, str(ROOT)], check=True)
        (wheel,) = Path(folder).glob("*.whl")
        for trainer in TRAINERS:
            found = versions(trainer, f"{PROJECT['name']} @ {wheel.as_uri()}")
            if isinstance(found, str):
                alone = not isinstance(versions(trainer), str)
                status |= alone
                print(f"{trainer}: {found}" if alone else f"{trainer}: does not resolve alone either", flush=True)
            else:
                chosen = (f"{name_of(line)} {found[name_of(line)]}" for line in PROJECT["dependencies"])
                print(f"{trainer}: {len(found)} packages; {', '.join(chosen)}", flush=True)
    return status


def versions(*requirements: str) -> dict[str, str] | str:
    """The version of each package that a set of requirements needs; or why there is no such set."""
    command = ["uv", "pip", "compile", "-q", "--no-header", "--no-annotate", "--python-version", THEIR_PYTHON, "-"]
    ran = subprocess.run(
        [sys.executable, "-m", *command], input="\n".join(requirements), capture_output=True, text=True, cwd=ROOT.parent
    )
    pinned = [line.split(" ;")[0].split("==") for line in ran.stdout.splitlines() if "==" in line]
    return {name: version for name, version in pinned} if ran.returncode == 0 else ran.stderr.strip()


if __name__ == "__main__":
    sys.exit({"lowest": try_lowest, "resolves": try_beside}[sys.argv[1]]())
