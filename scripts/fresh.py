"""Try the newest version of every dependency, and print what breaks: `make fresh`, or `make fresh HOLD="torch numpy"`.

In an environment of its own, .fresh, which begins as constraints.txt says: first all together, without the bounds of
pyproject.toml; then, one by one, what did not come along or what fails `make check`. What passes is for a person to
write into constraints.txt.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

from scripts.install import ROOT, answers

VENV = ROOT / ".fresh"
PYTHON = VENV / "bin" / "python"
NOT_TRIED = {"reward-policy-intuition", "pip"}


def run(*command: str | Path) -> tuple[bool, str]:
    """Whether it ended with 0, and all that it said."""
    ran = subprocess.run(list(map(str, command)), cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return ran.returncode == 0, ran.stdout


def pip(*arguments: str) -> tuple[bool, str]:
    return run(PYTHON, "-m", "pip", "--disable-pip-version-check", "--no-input", *arguments)


def check() -> tuple[bool, str]:
    return run("make", "check", f"VENV={VENV.name}", f"PYTHON={sys.executable}")


def versions(*options: str) -> dict[str, dict]:
    """What is installed, by name; with --outdated what has a newer version, as its latest_version."""
    done, said = pip("list", "--format", "json", *options)
    found = re.search(r"^\[.*\]$", said, re.MULTILINE)
    if not done or not found:
        sys.exit(f"pip does not list the versions: {said.strip()}")
    return {row["name"]: row for row in json.loads(found[0]) if row["name"] not in NOT_TRIED}


def now() -> dict[str, str]:
    return {name: row["version"] for name, row in versions().items()}


def unbounded() -> list[str]:
    """What pyproject.toml asks for, with no bound from above."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    return [
        re.sub(r",?\s*<=?[^,;]+", "", wanted) for wanted in project["dependencies"] + extras["page"] + extras["dev"]
    ]


def back_to(before: dict[str, str]) -> None:
    after = now()
    changed = [f"{name}=={version}" for name, version in before.items() if after.get(name) != version]
    if changed and not pip("install", "-qq", "--no-deps", *changed)[0]:
        sys.exit(f"pip does not take back {', '.join(changed)}")
    if added := [name for name in after if name not in before]:
        pip("uninstall", "-qq", "-y", *added)


def why(said: str) -> str:
    """The first lines that name what failed."""
    named = re.findall(r"^(?:FAILED|ERROR) (\S+::\S+)|^(\S+:\d+: error: .*)$", said, re.MULTILINE)
    failed = ["".join(parts)[:100] for parts in named]
    last = (said.strip().splitlines() or ["no output"])[-1]
    return (
        f"{', '.join(failed[:3])}{f' and {len(failed) - 3} more' if len(failed) > 3 else ''}" if failed else last[:160]
    )


def verdict() -> str:
    """What `make check` says of what is installed now."""
    passed, said = check()
    return "passes" if passed else f"fails: {why(said)}"


def held_back(name: str) -> list[str]:
    """Which others require another version of it than the one that is installed now."""
    mine = f" has requirement {name}".lower()
    return [line.partition(", but ")[0] for line in pip("check")[1].splitlines() if mine in line.lower()]


def alone(name: str, latest: str, held: list[str]) -> str:
    """Install one newest version, and try it if all others take it."""
    if pip("install", "-qq", "--no-deps", f"{name}=={latest}")[0] and (others := held_back(name)):
        return f"held back: {'; '.join(others)}"
    done, said = pip("install", "-qq", *held, f"{name}=={latest}")
    return f"alone: {verdict()}" if done else f"does not install: {why(said)}"


def together(newer: dict[str, dict], held: list[str]) -> str:
    """Install the newest set that goes together, and try it."""
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as constraints:
        constraints.write("\n".join(held))
        constraints.flush()
        wanted = [*unbounded(), *newer]
        done, said = pip("install", "-qq", "--upgrade", "--upgrade-strategy", "eager", "-c", constraints.name, *wanted)
    return verdict() if done else f"pip finds no set: {why(said)}"


def main(hold: list[str]) -> int:
    index = os.environ.get("TORCH_INDEX", "").strip()
    shutil.rmtree(VENV, ignore_errors=True)
    print("As constraints.txt says ...", flush=True)
    passed, said = check()
    if not passed:
        print(f"fails before anything is newer: {why(said)}")
        return 1
    if index and answers(index):
        os.environ["PIP_EXTRA_INDEX_URL"] = f"{os.environ.get('PIP_EXTRA_INDEX_URL', '')} {index}".strip()
    before = now()
    newer = {name: row for name, row in versions("--outdated").items() if name not in hold}
    held = [f"{name}=={version}" for name, version in before.items() if name in hold]
    if not newer:
        print("Nothing is newer.")
        return 0
    print(f"{len(newer)} newer versions together ...", flush=True)
    told = together(newer, held)
    passed, after = told.startswith("passes"), now()
    print(f"together: {told}", flush=True)
    rows = []
    for name, row in newer.items():
        latest = row["latest_version"]
        if passed and after[name] == latest:
            rows.append((name, before[name], latest, "passes together"))
            continue
        back_to(before)
        print(f"{name} {latest} ...", flush=True)
        rows.append((name, before[name], latest, alone(name, latest, held)))
    head = ("package", "tested", "newest", "verdict")
    widths = [max(len(row[i]) for row in [head, *rows]) for i in range(3)]
    for row in (head, *rows):
        print("  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[3]]))
    return int(any("fails" in row[3] or "not install" in row[3] for row in rows))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
