"""Finds the files of a log: from a path, a directory, a glob, a zip, several of these, or bytes in memory."""

import glob
import io
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import BinaryIO, TypeAlias

from gdpo_core._words import listing
from gdpo_core.errors import InputError, expect
from gdpo_core.logs import zips

Source: TypeAlias = str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | Mapping[str, bytes]

DEPTH = 4  # levels of folders that are searched below the one given
# How each framework names its files; the content decides later which framework it is.
KINDS = {
    "TRL": re.compile(r"(^|/)completions/[^/]+\.parquet$|(^|/)completions_\d+\.parquet$"),
    "ms-swift": re.compile(r"(^|/)completions\.jsonl$"),
    "verl": re.compile(r"(^|/)\d+\.jsonl$"),
    "NeMo-RL": re.compile(r"(^|/)train_data_step\d+\.jsonl$"),
}
TABLES = (".parquet", ".csv", ".tsv", ".jsonl", ".ndjson", ".json")
# Names of configurations, metrics and reports, which often lie beside logs.
UNRELATED = re.compile(
    r"(audit|report|config|args|state|tokenizer|vocab|map|index|metrics|logging|results|processor|metadata)\b.*$"
)


@dataclass(frozen=True)
class LogFile:
    """One file of a log: its name in messages, and either its path or a function that returns its bytes."""

    name: str
    path: Path | None = None
    load: Callable[[], bytes] | None = None

    def content(self) -> bytes:
        """All its bytes."""
        with self._open() as file:
            return file.read()

    def lines(self) -> Iterator[bytes]:
        """Its lines, one after the other."""
        with self._open() as file:
            yield from file

    def start(self, size: int) -> bytes:
        """Its first bytes."""
        with self._open() as file:
            return file.read(size)

    @contextmanager
    def _open(self) -> Iterator[BinaryIO]:
        if self.load is not None:
            yield io.BytesIO(self.load())
            return
        assert self.path is not None, "a file has a path or a function that returns its bytes"
        try:
            with self.path.open("rb") as file:
                yield file
        except OSError as error:
            raise InputError(f"{self.name}: expected a file that can be read, got {error.strerror}") from None


@dataclass(frozen=True)
class Found:
    """The files of a log in reading order, a name for all of them, and the args.json near them, if any."""

    files: tuple[LogFile, ...]
    name: str
    args: LogFile | None


def find(path: object) -> Found:
    """The files of a log at `path`: a path, a glob, a sequence of them, or a mapping of names to bytes.

    Raises InputError if there is no log, or if several logs lie side by side.
    """
    if isinstance(path, Mapping):
        return _uploaded(path)
    if isinstance(path, str | os.PathLike):
        return _at(os.fspath(path))
    if not isinstance(path, Sequence) or not all(isinstance(p, str | os.PathLike) for p in path):
        raise InputError(f"path: expected a path, several paths, or names with bytes, got {type(path).__name__}")
    expect(len(path) > 0, "path", "at least one file", "none")
    parts = [_at(os.fspath(p)) for p in path]
    files = {_place(file): file for part in reversed(parts) for file in part.files}
    name = parts[0].name if len(parts) == 1 else f"{parts[0].name} and {len(parts) - 1} more"
    args = next((part.args for part in parts if part.args), None)
    return Found(tuple(sorted(files.values(), key=lambda file: natural(file.name))), name, args)


def _place(file: LogFile) -> str:
    """One key per file, whatever the spelling of its path."""
    return str(file.path.resolve()) if file.path is not None else file.name


def _on_disk(path: Path) -> LogFile:
    """The file at a path; without the path where that is not UTF-8, which polars cannot open."""
    name = _spelt(path)
    return LogFile(name, path) if name == str(path) else LogFile(name, load=path.read_bytes)


def _spelt(path: Path | str) -> str:
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def natural(name: str) -> list[tuple[int, int, str]]:
    """A sort key that orders the numbers in names by size.

    >>> sorted(["10.jsonl", "9.jsonl", "b/1.jsonl"], key=natural)
    ['9.jsonl', '10.jsonl', 'b/1.jsonl']
    """
    return [(0, int(part), "") if part.isdecimal() else (1, 0, part) for part in re.split(r"(\d+)", name) if part]


def choose(names: Sequence[str], where: str) -> list[str]:
    """The files of a directory that make up one log, in their order.

    >>> choose(["run/completions.jsonl", "run/args.json", "run/logging.jsonl"], "run")
    ['run/completions.jsonl']
    """
    seen = [
        name
        for name in sorted(names, key=natural)
        if not any(part.startswith((".", "__MACOSX")) for part in name.split("/"))
    ]
    found: dict[tuple[str, str], list[str]] = {}
    for name in seen:
        kind = next((kind for kind, pattern in KINDS.items() if pattern.search(name)), None)
        if kind:
            home = re.sub(r"(^|/)completions$", "", name.rpartition("/")[0])
            found.setdefault((home, kind), []).append(name)
    if not found:
        for name in seen:
            folder, _, base = name.rpartition("/")
            if _is_table(base):
                found.setdefault((folder, f"*{os.path.splitext(base)[1].lower()}"), []).append(name)
    expect(bool(found), where, f"a log: files that end in {', '.join(TABLES)}", _listing(seen))
    depth = min(_depth(folder) for folder, _ in found)
    nearest = {key: names for key, names in found.items() if _depth(key[0]) == depth}
    if len(nearest) > 1:
        listed = [f"{kind} in {folder or where} ({files[0]})" for (folder, kind), files in sorted(nearest.items())]
        which = "; ".join(listed[:4]) + ("; …" if len(listed) > 4 else "")
        raise InputError(f"{where}: expected the log of one run, got several, name one of them: {which}")
    [files] = nearest.values()
    return files


def _is_table(name: str) -> bool:
    """Whether a file with this name may be a log."""
    base = name.rpartition("/")[2].lower()
    suffix = os.path.splitext(base)[1]
    return suffix in TABLES and not (suffix.startswith(".json") and bool(UNRELATED.search(base)))


def _depth(folder: str) -> int:
    return folder.count("/") + bool(folder)


def _listing(names: Sequence[str]) -> str:
    return listing(sorted(names), most=5) if names else "no files"


def _at(path: str) -> Found:
    expect(path != "" and "\0" not in path, "path", "the name of a file or directory", repr(path))
    here = Path(path).expanduser()
    try:
        if here.is_dir():
            return _directory(here)
        if here.is_file():
            return _file(here)
        matches = sorted(glob.glob(str(here), recursive=True), key=natural) if glob.has_magic(path) else []
    except OSError as error:
        raise InputError(f"{path}: expected a file or directory that can be read, got {error.strerror}") from None
    expect(bool(matches), path, "a file or directory", "nothing of that name")
    if len(matches) == 1:
        return _at(matches[0])
    files = [Path(match) for match in matches if Path(match).is_file()]
    expect(bool(files), path, "one directory, or files", f"directories: {_listing(matches)}")
    return Found(tuple(map(_on_disk, files)), _spelt(path), _args_near(files[0].parent))


def _directory(folder: Path) -> Found:
    names: list[str] = []
    errors: list[OSError] = []
    for where, folders, here in os.walk(folder, onerror=errors.append):
        below = Path(where).relative_to(folder)
        folders[:] = [f for f in folders if not f.startswith(".")] if len(below.parts) < DEPTH else []
        # Opening a pipe would wait for ever.
        names += [(below / file).as_posix() for file in here if (Path(where) / file).is_file()]
    if errors and not names:
        got = f"{_spelt(errors[0].filename)!r} ({errors[0].strerror})"
        raise InputError(f"{_spelt(folder)}: expected a directory that can be read, got {got}")
    chosen = choose(names, _spelt(folder))
    files = tuple(_on_disk(folder / name) for name in chosen)
    return Found(files, _spelt(folder), _args_near((folder / chosen[0]).parent))


def _args_near(folder: Path) -> LogFile | None:
    for near in (folder, *folder.absolute().parents[:1]):
        if (near / "args.json").is_file():
            return _on_disk(near / "args.json")
    return None


def _file(path: Path) -> Found:
    file, name = _on_disk(path), _spelt(path)
    if path.suffix.lower() == ".zip" or file.start(4) == zips.MAGIC:
        return _inside({f"{name}:{member}": load for member, load in zips.members(name, path).items()}, name)
    return Found((file,), name, _args_near(path.absolute().parent))


def _uploaded(files: Mapping) -> Found:
    expect(len(files) > 0, "path", "at least one file", "none")
    loads: dict[str, Callable[[], bytes]] = {}
    for name, content in files.items():
        fits = isinstance(name, str) and isinstance(content, bytes | bytearray | memoryview)
        expect(fits, "path", "names with bytes", f"{type(name).__name__} with {type(content).__name__}")
        content = bytes(content)
        if name.lower().endswith(".zip"):
            loads |= {f"{name}:{member}": load for member, load in zips.members(name, content).items()}
        else:
            loads[name] = partial(bytes, content)
    if loads.keys() == files.keys() and len(loads) == 1:
        [(name, load)] = loads.items()
        return Found((LogFile(name, load=load),), name, None)
    first = next(iter(files))
    found = _inside(loads, first if len(files) == 1 else f"{first} and {len(files) - 1} more")
    read = {file.name for file in found.files}
    for name in files:  # a directory may hold other files too, but who hands over a file wants it read
        expect(name in read or not _is_table(name), name, f"a file of the same log as {found.files[0].name}", "another")
    return found


def _inside(loads: Mapping[str, Callable[[], bytes]], where: str) -> Found:
    """The log among files in memory, whose names are archive:folder/file."""
    inner = {name.rpartition(":")[2]: name for name in loads}
    chosen = [inner[name] for name in choose(list(inner), where)]
    args = next((name for key, name in inner.items() if key.rpartition("/")[2] == "args.json"), None)
    files = tuple(LogFile(name, load=loads[name]) for name in chosen)
    return Found(files, where, None if args is None else LogFile(args, load=loads[args]))
