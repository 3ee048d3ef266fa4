"""Opens zips of a log's directory in memory, with limits, since anyone can upload one."""

import io
import stat
import zipfile
import zlib
from collections.abc import Callable
from functools import partial
from pathlib import Path, PurePosixPath

from gdpo_core._words import count
from gdpo_core.errors import InputError, expect

MAGIC = b"PK\x03\x04"
MAX_FILES = 20_000
MAX_BYTES = 1 << 30  # unpacked, of the whole zip
MAX_RATIO = 200  # of unpacked to packed bytes; rewards as text reach about 20
FREE = 1 << 20  # bytes of a member up to which the ratio does not count
_CHUNK = 1 << 20
_BAD = (zipfile.BadZipFile, zlib.error, EOFError, OSError, RuntimeError, ValueError)


def members(name: str, source: Path | bytes) -> dict[str, Callable[[], bytes]]:
    """For each name inside a zip a function that reads this file. InputError for anything that is no zip of a log."""
    try:
        archive = zipfile.ZipFile(io.BytesIO(source) if isinstance(source, bytes) else source)
        infos = [info for info in archive.infolist() if not info.is_dir()]
    except IndexError:  # asked whether '' is a directory
        raise InputError(f"{name}: expected files with names, got one without") from None
    except _BAD as error:
        raise InputError(f"{name}: expected a zip, got one that cannot be read: {_line(error)}") from None
    expect(len(infos) > 0, name, "a zip with files in it", "an empty one")
    expect(len(infos) <= MAX_FILES, name, f"a zip of at most {count(MAX_FILES, 'file')}", count(len(infos)))
    for info in infos:
        _check(name, info)
    total = sum(info.file_size for info in infos)
    expect(total <= MAX_BYTES, name, f"at most {count(MAX_BYTES, 'byte')} unpacked", count(total))
    repeated = len(infos) - len({info.filename for info in infos})
    expect(repeated == 0, name, "a zip in which every name occurs once", f"{repeated} repeated")
    # Opened once: each opening parses the list of all names again.
    return {info.filename: partial(_unpack, name, archive, info) for info in infos}


def _check(name: str, info: zipfile.ZipInfo) -> None:
    where, path = f"{name}: {info.filename!r}", PurePosixPath(info.filename.replace("\\", "/"))
    outside = not path.parts or path.is_absolute() or ".." in path.parts or ":" in path.parts[0]
    outside = outside or "\0" in info.orig_filename
    expect(not outside, where, "a name inside the zip's own folder", "one that leads elsewhere")
    expect(not stat.S_ISLNK(info.external_attr >> 16), where, "a file", "a symbolic link")
    expect(not info.flag_bits & 0x1, where, "a file that is not encrypted", "an encrypted one")
    expect(path.suffix.lower() != ".zip", where, "a file of a log", "a zip inside the zip")
    bomb = info.file_size > max(FREE, MAX_RATIO * info.compress_size)
    expect(not bomb, where, f"at most {MAX_RATIO} times its packed size", f"{count(info.file_size, 'byte')} unpacked")


def _unpack(name: str, archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> bytes:
    """The bytes of one member, counted while they are read: the sizes in a zip's headers may be false."""
    parts, size = [], 0
    try:
        with archive.open(member) as file:
            limit = min(MAX_BYTES, max(FREE, MAX_RATIO * member.compress_size))
            while part := file.read(_CHUNK):
                size += len(part)
                expect(
                    size <= limit, f"{name}: {member.filename!r}", f"at most {count(limit, 'byte')} unpacked", "more"
                )
                parts.append(part)
    except InputError:
        raise
    except _BAD as error:
        where = f"{name}: {member.filename!r}"
        raise InputError(f"{where}: expected a file that can be unpacked, got {_line(error)}") from None
    return b"".join(parts)


def _line(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__
