"""The files of data/ as they were shipped: what the page says of them holds for these and for no others."""

import re
from functools import lru_cache
from hashlib import sha256
from pathlib import Path

from gdpo_core._errors import InputError

ROOT = Path(__file__).resolve().parent.parent
LIST = ROOT / "data" / "README.md"
ROW = re.compile(r"^\| `(data/[^`]+)` \|.*\| `([0-9a-f]{64})` \|$", re.M)


@lru_cache(maxsize=1)
def checksums() -> dict[str, str]:
    """The SHA-256 of each file, by its path from the project's folder on, as data/README.md lists them.

    >>> len(checksums()["data/books.json"])
    64
    """
    return dict(ROW.findall(LIST.read_text(encoding="utf-8"))) if LIST.exists() else {}


def shipped(path: str | Path) -> Path:
    """The path of a file or a folder whose listed files are all there and unchanged; InputError names one that is not.

    A file that is not listed is its owner's: a task that a teacher adds, a folder of a test.

    >>> shipped("data/books.json").name
    'books.json'
    """
    path = Path(path)
    place = path.resolve()
    name = place.relative_to(ROOT).as_posix() if place.is_relative_to(ROOT) else ""
    for file, checksum in checksums().items():
        if file == name or file.startswith(f"{name}/"):
            try:
                found = sha256((ROOT / file).read_bytes()).hexdigest()
            except OSError as error:
                raise InputError(f"{file}: expected the file that was shipped, got {error.strerror}") from error
            if found != checksum:
                told = "its SHA-256 is not the one in data/README.md"
                raise InputError(f"{file}: expected the file that was shipped, got another: {told}")
    return path
