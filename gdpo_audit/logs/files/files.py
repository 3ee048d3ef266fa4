"""The files of a log, found by a path, a directory, a glob, a zip, several of these, or given as bytes in memory."""

import glob
import io
import os
import re
import stat
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path, PurePosixPath
from typing import BinaryIO, TypeAlias

import polars as pl

from gdpo_audit.logs.files.conversions import A_SHEET, PICKLES, SHEETS, ZIP, is_torch, pickled
from gdpo_audit.logs.files.directories import NoLog, choose_files, choose_one_or_parts, is_table, natural
from gdpo_audit.logs.files.unpack import ENDING, FREE, MAX_RATIO, REFUSED, unpack, unpacked_name
from gdpo_audit.logs.refusals import location, refuse, refuse_unless
from gdpo_core.shared.errors import reason
from gdpo_core.shared.words import count

LogSource: TypeAlias = str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | Mapping[str, bytes]

_DEPTH = 6  # how many levels of folders are searched below the folder that was given
# The first bytes of a table of W&B.
_TABLE_START = re.compile(rb'(\xef\xbb\xbf)?\s*\{\s*("columns"\s*:\s*\["|"data"\s*:\s*\[\s*\[)')
_FORMATS = {"csv": "csv", "tsv": "tsv", "jsonl": "jsonl", "ndjson": "jsonl", "json": "json", "parquet": "parquet"}

MAX_FILES = 20_000  # the most files in a zip, which anyone can upload
_MAX_BYTES = 1 << 30  # the most bytes of a whole zip, unpacked
MAX_IN_MEMORY = 1 << 28  # the same for a zip that is not a file on disk
# The packings of a zip that are read. Others unpack a whole block at once, however large it is.
PACKINGS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_BAD_ZIP = (zipfile.BadZipFile, zlib.error, EOFError, OSError, RuntimeError, ValueError)


@dataclass(frozen=True)
class LogFile:
    """A file of a log, or the rows of a log that is not a file.

    A file has a `path`, or a function `load` that returns its bytes. A log that is not a file has its rows as `frame`.
    name: the name of the file in messages.
    path: the path of the file, which may be packed.
    load: returns the bytes of a file in memory, as they were given.
    frame: the rows of a DataFrame, or of another log that is not a file.
    run: the run that the caller named in this file, if it is a database that can hold several.
    odd: the columns of `frame` that are text although most of their values are numbers.
    """

    name: str
    path: Path | None = None
    load: Callable[[], bytes] | None = None
    frame: pl.LazyFrame | None = None
    run: str | None = None
    odd: frozenset[str] = frozenset()

    @property
    def plain_path(self) -> Path | None:
        """The path of the file; None if the file is packed or has no path."""
        return None if self.path is None or self.name.lower().endswith(ENDING) else self.path

    def content(self) -> bytes:
        """Return all bytes of the file, unpacked."""
        with self._open() as file:
            return file.read()

    def start(self, size: int) -> bytes:
        """Return the content of the file from its start, decompressed, up to `size` bytes of it."""
        with self._open() as file:
            return file.read(size)

    @contextmanager
    def _open(self) -> Iterator[BinaryIO]:
        """Open the file for the time of a `with` block, unpacked. Raises InputError if it cannot be read."""
        if self.load is not None:
            yield unpack(io.BytesIO(self.load()), self.name, MAX_IN_MEMORY)
            return
        assert self.path is not None, "a file has a path or a function that returns its bytes"
        try:
            with self.path.open("rb") as file:
                yield unpack(file, self.name, _MAX_BYTES)
        except OSError as error:
            refuse(self.name, "a file that can be read", error.strerror)


@dataclass(frozen=True)
class LogFiles:
    """The files of a log in reading order.

    name: a name for the whole log, for messages.
    args: the args.json near the files, if there is one.
    left_out: in words, the files beside them that are not part of the log.
    several: why they are no log of one run, unless their steps continue each other; empty for the files of one folder.
    """

    files: tuple[LogFile, ...]
    name: str
    args: LogFile | None
    left_out: tuple[str, ...] = ()
    several: str = ""


def find_files(path: object) -> LogFiles:
    """Return the files of a log at `path`: a path, a glob, a sequence of them, or a mapping of names to bytes.

    A file that several paths lead to comes once. Files are sorted by name, with the numbers in it by size: 2 before 10.

    Raises InputError for any other `path`, if there is no log that can be read, or if several logs lie side by side.
    """
    if isinstance(path, Mapping):
        return _log_of_upload(path)
    if isinstance(path, str | os.PathLike):
        return _at(os.fspath(path))
    if not isinstance(path, Sequence) or not all(isinstance(p, str | os.PathLike) for p in path):
        wanted = "a path, several paths, names with bytes, or a table (polars, pandas, Arrow or a list of dicts)"
        refuse("path", wanted, type(path).__name__)
    refuse_unless(len(path) > 0, "path", "at least one file", "none")
    logs = [_at(os.fspath(p)) for p in path]
    # Two spellings of one path must not make two files.
    files = {str(f.path.resolve()) if f.path else f.name: f for log in reversed(logs) for f in log.files}
    name = logs[0].name if len(logs) == 1 else f"{logs[0].name} and {len(logs) - 1} more"
    args = next((log.args for log in logs if log.args), None)
    left_out = tuple(dict.fromkeys(words for log in logs for words in log.left_out))
    in_order = tuple(sorted(files.values(), key=lambda file: natural(file.name)))
    return LogFiles(in_order, name, args, left_out, next((log.several for log in logs if log.several), ""))


def format_of(file: LogFile) -> str:
    """Return the format of a file, as its first bytes or the ending of its name show it.

    The formats are parquet, csv, tsv, jsonl, json, wandb, trackio and torch. Rows that came from no file count as
    parquet, because both have columns with types.

    Raises InputError for any other format.

    >>> format_of(LogFile("log.txt", load=lambda: b'{"a": 1}'))
    'jsonl'
    """
    if file.frame is not None:
        return "parquet"
    start = file.start(4096)
    refuse_unless(len(start) > 0, file.name, "a log", "an empty file")
    refused = next((words for magic, words in REFUSED.items() if start.startswith(magic)), None)
    if refused is not None:
        refuse(file.name, "a log", refused)
    name = unpacked_name(file.name).lower()
    if name.endswith(SHEETS):
        refuse(file.name, "a log", A_SHEET)
    by_ending = _FORMATS.get(name.rpartition(".")[2])
    if start.startswith(b"PAR1"):
        return "parquet"
    if start.startswith(b"SQLite format 3\0") or name.endswith(".db"):
        return "trackio"
    if is_torch(name, start):
        return "torch"
    if name.endswith(PICKLES):
        refuse(file.name, "a log that can be read without running it", pickled(file.name))
    if name.endswith(".table.json") or _TABLE_START.match(start):
        return "wandb"
    if by_ending == "parquet":
        refuse(file.name, "a Parquet file", "a file that does not begin as one")
    if by_ending:
        return by_ending
    first = start.removeprefix(b"\xef\xbb\xbf").lstrip()[:1]
    if first in (b"{", b"["):
        return "jsonl" if first == b"{" else "json"
    refuse(file.name, f"a file that ends in {', '.join(_FORMATS)}", "one that does not")


# --- on disk ---------------------------------------------------------------------------------------------------------


def _at(path: str) -> LogFiles:
    """Return the log at a path or at a glob; for DATABASE::RUN, that of one run in a database.

    Raises NoLog if nothing is there. Raises InputError for an empty path or a URL, and if what is there cannot be read
    or is several logs.
    """
    refuse_unless(path != "" and "\0" not in path, "path", "the name of a file or directory", repr(path))
    here = expand_home(path)
    database, separator, run = path.partition("::")
    try:
        if separator and database and not here.exists() and expand_home(database).exists():
            log = _at(database)
            return replace(log, files=tuple(replace(file, run=run) for file in log.files), name=path)
        if here.is_dir():
            return _directory(here)
        if here.is_file():
            return _file(here)
        matches = sorted(glob.glob(str(here), recursive=True), key=natural) if glob.has_magic(path) else []
    except OSError as error:
        refuse(path, "a file or directory that can be read", error.strerror)
    url = re.match(r"\w+://", path)
    if url is not None:
        refuse(path, "a file or directory, or a URL of hf://, s3:// or gs://", f"one of {url[0]}")
    if not matches:
        refuse(path, "a file or directory", "nothing of that name", NoLog)
    if len(matches) == 1:
        return _at(matches[0])
    # A link may lead back to a folder above it, so that a glob finds one file under several paths.
    once = {os.path.realpath(match): Path(match) for match in reversed(matches)}
    paths = [str(file) for file in reversed(once.values()) if file.is_file()]
    if not paths:  # the matches are folders, such as one per step
        around = os.path.commonpath(matches)
        return replace(_directory(Path(around), [os.path.relpath(name, around) for name in matches]), name=_spelt(path))
    return LogFiles(tuple(_on_disk(Path(name)) for name in paths), _spelt(path), _args_near(Path(paths[0]).parent))


def expand_home(path: str) -> Path:
    """Return a path in which a leading ~ is replaced by the home of its user, if that user exists."""
    return Path(os.path.expanduser(path))


def _directory(folder: Path, within: Sequence[str] = (".",)) -> LogFiles:
    """Return the log in a directory, which is searched `_DEPTH` levels deep.

    folder: the path of the directory.
    within: the folders of the directory that are searched, as paths inside it; by default all of it is.

    Raises InputError unless the directory holds exactly one log, or several of one kind (`LogFiles.several`).
    """
    names: list[str] = []
    errors: list[OSError] = []
    for where, folders, files in chain(*(os.walk(folder / start, onerror=errors.append) for start in within)):
        below = Path(where).relative_to(folder)
        folders[:] = [f for f in folders if not f.startswith(".")] if len(below.parts) < _DEPTH else []
        # A pipe is not a log, and opening one would wait for ever.
        names += [(below / file).as_posix() for file in files if os.path.isfile(os.path.join(where, file))]
    if errors and not names:
        got = f"{_spelt(errors[0].filename)!r} ({errors[0].strerror})"
        refuse(_spelt(folder), "a directory that can be read", got)
    chosen = choose_one_or_parts(names, _spelt(folder), f"{_spelt(folder).rstrip('/')}/")
    log_files = tuple(_on_disk(folder / name) for name in chosen.files)
    args = _args_near((folder / chosen.files[0]).parent)
    return LogFiles(log_files, _spelt(folder), args, chosen.left_out, chosen.several)


def _file(path: Path) -> LogFiles:
    """Return the log that is a single file; of a zip, the log inside it."""
    file, name = _on_disk(path), _spelt(path)
    start = file.start(4096)
    sheet = name.lower().endswith(SHEETS)
    if path.suffix.lower() == ".zip" or (not sheet and start.startswith(ZIP) and not is_torch(name, start)):
        return _inside({f"{name}:{member}": load for member, load in _members(name, path).items()}, name)
    return LogFiles((file,), name, _args_near(path.absolute().parent))


def _on_disk(path: Path) -> LogFile:
    """Return the file at a path.

    If the path is not UTF-8, polars cannot open it. The file then has a function that reads its bytes, and no path.
    """
    name = _spelt(path)
    return LogFile(name, path) if name == str(path) else LogFile(name, load=path.read_bytes)


def _spelt(path: Path | str) -> str:
    """Return a path as text, in which bytes that are not UTF-8 are written as escapes."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def _args_near(folder: Path) -> LogFile | None:
    """Return args.json, ms-swift's configuration of a run, from the folder of its log or the one above, or None."""
    for near in (folder, *folder.absolute().parents[:1]):
        if (near / "args.json").is_file():
            return _on_disk(near / "args.json")
    return None


# --- in memory -------------------------------------------------------------------------------------------------------


def _log_of_upload(files: Mapping) -> LogFiles:
    """Return the log among uploaded files and zips.

    files: the bytes of each file by its name. For a single database the name may be DATABASE::RUN to choose a run.

    Raises InputError if there is no log, or if there are several. Whoever uploads a file wants it to be read. So a file
    that may be a log, but is not part of the one that was found, raises InputError, too.
    """
    refuse_unless(len(files) > 0, "path", "at least one file", "none")
    loads: dict[str, Callable[[], bytes]] = {}
    for name, content in files.items():
        fits = isinstance(name, str) and isinstance(content, bytes | bytearray | memoryview)
        refuse_unless(fits, "path", "names with bytes", f"{type(name).__name__} with {type(content).__name__}")
        content = bytes(content)
        if name.lower().endswith(".zip"):
            loads |= {f"{name}:{member}": load for member, load in _members(name, content).items()}
        else:
            loads[name] = partial(bytes, content)
    if loads.keys() == files.keys() and len(loads) == 1:
        [(name, load)] = loads.items()
        named = re.fullmatch(r"(.+\.db)::(.*)", name, re.DOTALL)
        database, run = named.groups() if named else (name, None)
        return LogFiles((LogFile(database, load=load, run=run),), name, None)
    first = next(iter(files))
    log = _inside(loads, first if len(files) == 1 else f"{first} and {len(files) - 1} more")
    read = {file.name for file in log.files}
    for name in files:  # a directory may hold other files too, but a file that is handed over is meant to be read
        if name not in read and is_table(name):
            refuse(name, f"a file of the same log as {log.files[0].name}", "another")
    return log


def _inside(loads: Mapping[str, Callable[[], bytes]], where: str) -> LogFiles:
    """Return the log among files in memory.

    loads: functions that return the bytes of the files, by names such as archive:folder/file.
    where: a name for the whole.

    Raises InputError if there is no log, or more than one.
    """
    inner = {name.rpartition(":")[2]: name for name in loads}
    chosen = choose_files(list(inner), where)
    args = next((name for key, name in inner.items() if key.rpartition("/")[2] == "args.json"), None)
    files = tuple(LogFile(inner[name], load=loads[inner[name]]) for name in chosen.files)
    return LogFiles(files, where, None if args is None else LogFile(args, load=loads[args]), chosen.left_out)


# --- zips ------------------------------------------------------------------------------------------------------------


def _members(name: str, source: Path | bytes) -> dict[str, Callable[[], bytes]]:
    """Return for each file in a zip, by its name there, a function that returns the bytes of the file.

    name: the name of the zip, for errors.
    source: its path or its bytes.

    Raises InputError for a file that is not a zip, and for a zip that is empty or too large or has a name twice. It
    also raises it for a file in the zip that `_check_member` refuses.
    """
    try:
        archive = zipfile.ZipFile(io.BytesIO(source) if isinstance(source, bytes) else source)
        infos = [info for info in archive.infolist() if not info.is_dir()]
    except IndexError:  # zipfile asked whether '' is a directory
        refuse(name, "files with names", "one without")
    except _BAD_ZIP as error:
        refuse(name, "a zip", f"one that cannot be read: {reason(error)}")
    refuse_unless(len(infos) > 0, name, "a zip with files in it", "an empty one")
    if len(infos) > MAX_FILES:
        refuse(name, f"a zip of at most {count(MAX_FILES, 'file')}", count(len(infos)))
    for info in infos:
        _check_member(name, info)
    total = sum(info.file_size for info in infos)
    most = MAX_IN_MEMORY if isinstance(source, bytes) else _MAX_BYTES
    if total > most:
        refuse(name, f"at most {count(most, 'byte')} unpacked", count(total))
    repeated = len(infos) - len({info.filename for info in infos})
    if repeated:
        refuse(name, "a zip in which every name occurs once", f"{repeated} repeated")
    # The zip is opened once, because each opening parses the list of all names again.
    return {info.filename: partial(_unpack, name, archive, info) for info in infos}


def _check_member(name: str, info: zipfile.ZipInfo) -> None:
    """Raise InputError for a file in a zip that no log needs and that may do harm.

    The file is a link, encrypted, packed in an unusual way, or a zip itself. Or it is far larger once it is unpacked,
    or its name leads out of the zip's folder.
    name: the name of the zip.
    info: what the zip says of the file.
    """
    where, path = location(name, member=info.filename), PurePosixPath(info.filename.replace("\\", "/"))
    outside = not path.parts or path.is_absolute() or ".." in path.parts or ":" in path.parts[0]
    outside = outside or "\0" in info.orig_filename
    if outside:
        refuse(where, "a name inside the zip's own folder", "one that leads elsewhere")
    if stat.S_ISLNK(info.external_attr >> 16):
        refuse(where, "a file", "a symbolic link")
    if info.flag_bits & 0x1:
        refuse(where, "a file that is not encrypted", "an encrypted one")
    refuse_unless(
        info.compress_type in PACKINGS, where, "a file that is stored or deflated, as zip does", "another packing"
    )
    if path.suffix.lower() == ".zip":
        refuse(where, "a file of a log", "a zip inside the zip")
    bomb = info.file_size > max(FREE, MAX_RATIO * info.compress_size)
    if bomb:
        refuse(where, f"at most {MAX_RATIO} times its packed size", f"{count(info.file_size, 'byte')} unpacked")


def _unpack(name: str, archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> bytes:
    """Return the bytes of one file in a zip, as many as its header says.

    name: the name of the zip.
    archive: the open zip.
    member: what the zip says of the file.

    Raises InputError if the file cannot be unpacked. A false header shows in the checksum, which then does not fit.
    """
    try:
        with archive.open(member) as file:
            return file.read(member.file_size)
    except _BAD_ZIP as error:
        refuse(location(name, member=member.filename), "a file that can be unpacked", reason(error))
