"""Install the wheel into an empty environment and print what it weighs, how long it takes and what works there.

    python -m scripts.measure_wheel [TORCH]

TORCH: what pip is to install as torch, a version or a file. It takes a few minutes and needs an index of packages.
"""

import json
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SAMPLE = ROOT / "data/samples/trl_gdpo"
BUILT = ("pyproject.toml", "README.md", "LICENSE", "gdpo_core")
SHELLS = {  # how each asks for what follows "gdpo au"
    "bash": {"COMP_WORDS": "gdpo au", "COMP_CWORD": "1"},
    "zsh": {"_TYPER_COMPLETE_ARGS": "gdpo au"},
    "fish": {"_TYPER_COMPLETE_ARGS": "gdpo au", "_TYPER_COMPLETE_FISH_ACTION": "get-args"},
}


def run(*command: object, **environment: str) -> tuple[str, float, float]:
    """What a command prints, its seconds and its seconds of CPU; CalledProcessError where it fails."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    ran = subprocess.run(
        list(map(str, command)), env={**os.environ, **environment}, capture_output=True, text=True, check=True
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return ran.stdout, time.monotonic() - start, cpu


def size(path: Path) -> str:
    files = [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file() and not file.is_symlink()]
    return f"{sum(file.stat().st_size for file in files) / 1e6:,.2f} MB in {len(files):,} files"


def environment(folder: Path) -> Path:
    """The Python of a new environment, empty but for pip."""
    venv.create(folder, with_pip=True)
    return folder / "bin/python"


def works(name: str, *command: object, **environment: str) -> str:
    """Print how long a command takes, or why it fails; what it prints."""
    try:
        printed, seconds, cpu = min((run(*command, **environment) for _ in range(3)), key=lambda r: r[2])
    except subprocess.CalledProcessError as error:
        print(f"  {name}: does not work: {error.stderr.strip().splitlines()[-1]}")
        return ""
    print(f"  {name}: {seconds:.2f} s, {cpu:.2f} s of CPU")
    return printed


def main(torch: str = "torch") -> None:
    with tempfile.TemporaryDirectory() as folder:
        measure(Path(folder), torch)


def measure(folder: Path, torch: str) -> None:
    checkout = folder / "checkout"  # building leaves files behind
    checkout.mkdir()
    for name in BUILT:
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, checkout / name)
    run(sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", folder / "dist", checkout)
    (wheel,) = (folder / "dist").glob("*.whl")
    print(f"{wheel.name}: {size(wheel)}")

    tools = environment(folder / "tools")
    run(tools, "-m", "pip", "install", "-q", "twine")
    checked = run(tools, "-m", "twine", "--no-color", "check", "--strict", wheel)[0]
    print(f"twine check: {checked.strip().rpartition(': ')[2]}")

    python = environment(folder / "venv")
    site, gdpo = next((folder / "venv/lib").glob("python3*/site-packages")), folder / "venv/bin/gdpo"
    needed = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["dependencies"]
    empty = size(site)
    pip = (python, "-m", "pip", "install", "-q", "--disable-pip-version-check")
    seconds = (
        run(*pip, *(name for name in needed if not name.startswith("torch")))[1] + run(*pip, "--no-deps", wheel)[1]
    )
    print(f"empty environment: {empty}\nwithout torch: {size(site)}, {seconds:.0f} s")
    try_commands(gdpo)
    seconds = run(*pip, torch)[1] + run(*pip, wheel)[1]
    print(f"with torch: {size(site)}, {seconds:.0f} s more")
    try_commands(gdpo)
    print("pip check:", run(python, "-m", "pip", "check")[0].strip())


def try_commands(gdpo: Path) -> None:
    works("gdpo --version", gdpo, "--version")
    works("gdpo --help", gdpo, "--help")
    for shell, asked in SHELLS.items():
        found = works(f"completion for {shell}", gdpo, _GDPO_COMPLETE=f"complete_{shell}", **asked)
        assert re.search(r"\baudit\b", found), found
    works("gdpo explain 10 01", gdpo, "explain", "10", "01")
    report = works("gdpo audit SAMPLE --json -", gdpo, "audit", SAMPLE, "--json", "-")
    if report:
        assert json.loads(report)["run"]["method"] == "gdpo"
        works("gdpo compare SAMPLE SAMPLE", gdpo, "compare", SAMPLE, SAMPLE)


if __name__ == "__main__":
    main(*sys.argv[1:])
