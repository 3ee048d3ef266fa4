"""Write the wheel and the source archive that an index gets, into dist/: python -m scripts.make_wheel --repository URL.

On an index README.md stands alone. So its settings of the Space go, and its links and pictures become addresses in the
repository at the tag of the version. The checkout does not know where it is published, so the repository's address is
an argument. The files are those that git knows.
"""

import argparse
import re
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PICTURE = (".png", ".svg")
BADGE = "<!-- Here an index shows the badge of the lesson; see docs/releasing.md. -->\n\n"
LESSON = "examples/lesson.py"
# Builds both, by the means that pyproject.toml names and without a network: setuptools is there.
BUILD = "import sys; from setuptools import build_meta as b; _, out = sys.argv; b.build_sdist(out); b.build_wheel(out)"


def badge(repository: str, tag: str) -> str:
    """Return a line of Markdown that opens the lesson in molab, which shows notebooks of GitHub; empty for a repository
    that lies elsewhere.

    >>> badge("https://github.com/o/n", "v1").partition("](")[2].partition("](")[2].strip()
    'https://molab.marimo.io/github/o/n/blob/v1/examples/lesson.py)'
    """
    _, _, name = repository.partition("://github.com/")
    if not name:
        return ""
    picture = "https://marimo.io/molab-shield.svg"
    return f"[![Open in molab]({picture})](https://molab.marimo.io/github/{name}/blob/{tag}/{LESSON})\n\n"


def described(readme: str, repository: str, tag: str) -> str:
    """Return the text of README.md as an index can show it: without the settings of the Space before it, and with whole
    addresses in place of paths.

    repository: the address of the repository, as https://github.com/OWNER/NAME.
    tag: the tag of the version.

    >>> described("---\\ntitle: T\\n---\\n[a](docs/a.md#b) <img src=\\"a.png\\"> [c](#c)", "https://host/o/n", "v1")
    '[a](https://host/o/n/blob/v1/docs/a.md#b) <img src="https://host/o/n/raw/v1/a.png"> [c](#c)'
    """

    def whole(match: re.Match[str]) -> str:
        before, path, after = match.groups()
        kind = "raw" if path.endswith(PICTURE) else "blob"
        return f"{before}{repository}/{kind}/{tag}/{path}{after}"

    text = re.sub(r"\A---\n.*?\n---\n+", "", readme, flags=re.DOTALL).replace(BADGE, badge(repository, tag))
    return re.sub(r"(\]\(|src=\"|srcset=\")(?![a-z]+:|#)([^)\s\"]+)([)\"])", whole, text)


def addresses(repository: str, tag: str) -> dict[str, str]:
    """Return the addresses that an index shows beside a project, by their labels."""
    return {
        "Homepage": repository,
        "Source": repository,
        "Issues": f"{repository}/issues",
        "Documentation": f"{repository}/tree/{tag}/docs",
        "Changelog": f"{repository}/blob/{tag}/CHANGELOG.md",
    }


def build(repository: str, out: Path) -> list[Path]:
    """Write the wheel and the source archive into the folder `out`, and return their paths."""
    version = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"]
    tag = f"v{version}"
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "gdpo"
        for name in filter(None, listed.split("\0")):
            if (ROOT / name).is_file():
                (tree / name).parent.mkdir(parents=True, exist_ok=True)
                (tree / name).write_bytes((ROOT / name).read_bytes())
        readme, project = tree / "README.md", tree / "pyproject.toml"
        readme.write_text(described(readme.read_text("utf-8"), repository, tag), "utf-8")
        lines = "\n".join(f'{label} = "{address}"' for label, address in addresses(repository, tag).items())
        text = project.read_text("utf-8").replace("[project.urls]\n", f"[project.urls]\n{lines}\n")
        project.write_text(re.sub("^readme = .*$", 'readme = "README.md"', text, flags=re.MULTILINE), "utf-8")
        (tree / "MANIFEST.in").write_text("prune tests\n", "utf-8")  # they need the whole checkout
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        subprocess.run([sys.executable, "-c", BUILD, out.resolve()], cwd=tree, check=True, **quiet)
    return sorted(out.glob(f"gdpo-{version}*"))


def main() -> None:
    """Run the command: build, and print what was written with its size."""
    parser = argparse.ArgumentParser(prog="python -m scripts.make_wheel", description=__doc__.splitlines()[0])
    parser.add_argument("--repository", required=True, help="the address of the repository")
    parser.add_argument("--out", type=Path, default=ROOT / "dist", help="the folder to write to")
    wanted = parser.parse_args()
    for path in build(wanted.repository.rstrip("/"), wanted.out):
        print(f"{path}: {path.stat().st_size / 1e3:,.0f} kB")


if __name__ == "__main__":
    main()
