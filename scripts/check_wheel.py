"""Try a wheel as a stranger gets it: `python scripts/check_wheel.py dist/NAME.whl`; it needs nothing but Python.

In an empty environment it installs the wheel plainly and tries `gdpo check`, then with the extra `audit` and audits a
sample, then with `page` and runs the lesson, and the page of the checkout. It prints how long the installation and the
command took and how much lies in the environment, and ends with the first thing that is not as it should be.

With the variable TORCH_INDEX, torch comes from there. --only check leaves the extras out, as where torch has no wheel.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CONFIGURATION = "base_model: m\nrl: gdpo\ntrl:\n  num_generations: 8\n"
ON_PYTHON = {  # by the extra, what an installed Python runs; the current folder is the checkout only for the page
    "audit": "import gdpo_core as gc, gdpo_audit as ga; assert gc.gdpo([[1, 0], [0, 0]]).shape == (2,) and ga.audit",
    "page": "import runpy; runpy.run_path('lesson.py')['app'].run()",
}


def run(what: str, *command: object, cwd: Path) -> tuple[str, float]:
    """Return what a command prints, and its seconds; end the programme where it fails.

    what: words for the command.
    cwd: the folder in which it runs.
    """
    begun = time.monotonic()
    hidden = ("PYTHONPATH", "VIRTUAL_ENV")
    environment = {name: value for name, value in os.environ.items() if name not in hidden}
    ran = subprocess.run([*map(str, command)], cwd=cwd, env=environment, capture_output=True, text=True)
    if ran.returncode:
        sys.exit(f"wheel: {what} ended with {ran.returncode}: {ran.stdout[-2000:]}{ran.stderr[-2000:]}")
    return ran.stdout, time.monotonic() - begun


def expect(true: object, told: str) -> None:
    """End the programme with `told` as what was expected, unless `true` is a true result."""
    if not true:
        sys.exit(f"wheel: expected {told}")


def megabytes(folder: Path) -> float:
    """Return the size of all files in a folder, in MB."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 1e6


def install(python: Path, wanted: str, cwd: Path) -> float:
    """Install a requirement, torch first where TORCH_INDEX says from where; return the seconds that it took."""
    pins = ("-c", ROOT / "constraints.txt")  # what was tested
    pip, seconds = (python, "-m", "pip", "install", "-qq", "--disable-pip-version-check", *pins), 0.0
    index = os.environ.get("TORCH_INDEX")
    if index and "[" in wanted:
        _, seconds = run("the installation of torch", *pip, "--index-url", index, "--no-deps", "torch", cwd=cwd)
    return seconds + run(f"the installation of {wanted}", *pip, wanted, cwd=cwd)[1]


def check(wheel: Path, extras: list[str]) -> None:
    """Try the wheel in an environment of its own, first plainly and then with each extra.

    extras: "audit", "page", both or none.
    """
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        venv.create(folder / "env", with_pip=True)
        scripts = folder / "env" / ("Scripts" if os.name == "nt" else "bin")
        python, gdpo, before = scripts / "python", scripts / "gdpo", megabytes(folder)
        (folder / "config.yaml").write_text(CONFIGURATION, encoding="utf-8")
        shutil.copy(ROOT / "examples" / "lesson.py", folder)
        print(f"Python {sys.version.split()[0]}, {wheel.name}, {wheel.stat().st_size / 1e6:.1f} MB")

        def tell(what: str, installed: float, took: float) -> None:
            size = megabytes(folder) - before
            print(
                f"  {what}: installed in {installed:.0f} s, {size:,.0f} MB; its command took {took:.1f} s", flush=True
            )

        installed = install(python, str(wheel), folder)
        said, took = run("gdpo check", gdpo, "check", "config.yaml", cwd=folder)
        expect(said.startswith("Will run GDPO"), f"gdpo check to say that GDPO will run, got {said[:200]!r}")
        hint = "import gdpo_core\ntry:\n  gdpo_core.gdpo\nexcept ImportError as e:\n  print(e)"
        expect("expected the extra audit" in run("a plain import", python, "-c", hint, cwd=folder)[0], "a hint")
        tell("gdpo check", installed, took)
        for extra in extras:
            installed = install(python, f"{wheel}[{extra}]", folder)
            run(f"Python with {extra}", python, "-c", ON_PYTHON[extra], cwd=folder)
            if extra == "audit":
                sample = ROOT / "data" / "samples" / "trl_gdpo"
                said, took = run("gdpo audit", gdpo, "audit", sample, cwd=folder)
                expect("The logged advantages are GDPO as TRL" in " ".join(said.split()), "the method of the sample")
                run("gdpo selftest", gdpo, "selftest", cwd=folder)
            else:
                took = run("the page", python, "-c", "import serve, app; app.app.run()", cwd=ROOT)[1]
            tell(f"gdpo[{extra}]", installed, took)


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("wheel", type=Path, help="the wheel to try")
    parser.add_argument("--only", choices=("check", "audit"), help="the last thing to try; by default the page")
    wanted = parser.parse_args()
    check(wanted.wheel.resolve(), {"check": [], "audit": ["audit"], None: ["audit", "page"]}[wanted.only])


if __name__ == "__main__":
    main()
