"""Install what pyproject.toml asks for, with the extras named, into the Python that runs this.

torch comes first, from TORCH_INDEX (CPU builds) where that answers: Linux's plain wheel pulls gigabytes
of CUDA.
"""

import os
import subprocess
import sys
import threading
import tomllib
import urllib.request
from importlib import metadata
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CONSTRAINTS = ROOT / "constraints.txt"


def pip(*arguments: str) -> bool:
    quiet = [] if sys.stdout.isatty() else ["-qq"]
    command = [sys.executable, "-m", "pip", "install", "--disable-pip-version-check", *quiet]
    return subprocess.run([*command, "-c", CONSTRAINTS, *arguments]).returncode == 0


def answers(index: str, seconds: float = 8) -> bool:
    """Whether the index lists torch. In a thread: a host with many addresses has one time-out for each."""
    found = []

    def ask() -> None:
        try:
            with urllib.request.urlopen(f"{index.rstrip('/')}/torch/", timeout=5):
                found.append(True)
        except Exception as error:  # a certificate that only pip knows is pip's to judge
            if "CERTIFICATE_VERIFY_FAILED" in str(error):
                found.append(True)

    asking = threading.Thread(target=ask, daemon=True)
    asking.start()
    asking.join(seconds)
    return bool(found)


def torch_is_here() -> bool:
    try:
        version = metadata.version("torch").split("+")[0]
    except metadata.PackageNotFoundError:
        return False
    return f"torch=={version}" in CONSTRAINTS.read_text().split()


def main(extras: list[str]) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    wanted = project["build-system"]["requires"] + project["project"]["dependencies"]
    for extra in extras:
        wanted += project["project"]["optional-dependencies"][extra]

    index = os.environ.get("TORCH_INDEX", "").strip()
    if index and not torch_is_here():
        if not answers(index):
            print(f"TORCH_INDEX {index} can't be reached: going on without it")
        elif not pip("--no-deps", "--index-url", index, "torch"):
            print(f"TORCH_INDEX {index} gave no torch for this machine: going on without it")
    if not pip(*wanted):
        sys.exit("The install failed; pip says why above (no network?). The same command tries again.")


if __name__ == "__main__":
    main(sys.argv[1:])
