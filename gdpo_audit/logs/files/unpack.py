"""Files that gzip packed, which are unpacked while they are read, up to a limit of bytes."""

import gzip
import io
from pathlib import PurePath
from typing import Any, BinaryIO, cast

from gdpo_audit.logs.refusals import refuse
from gdpo_core.shared.errors import reason
from gdpo_core.shared.words import count

ENDING = ".gz"
MAX_RATIO = 200  # the most unpacked bytes per packed byte; rewards as text reach about 20
FREE = 1 << 20  # the unpacked bytes up to which the ratio does not count
CHUNK = 1 << 20  # the bytes that are unpacked at a time
_GZIP = b"\x1f\x8b"
# The first bytes of formats that polars would unpack without a limit, and of texts that are not UTF-8.
REFUSED = {_GZIP: "a gzip in a gzip; unpack it", b"(\xb5/\xfd": "zstd; unpack it"}
REFUSED |= dict.fromkeys((b"x\x01", b"x\x9c", b"x\xda"), "zlib; unpack it")
REFUSED |= dict.fromkeys((b"\xff\xfe", b"\xfe\xff"), "UTF-16; save it as UTF-8")


def unpacked_name(name: str) -> str:
    """Return the name of a file without the ending that says that it is packed.

    >>> unpacked_name("run/log.csv.gz"), unpacked_name("log.csv")
    ('run/log.csv', 'log.csv')
    """
    return name[: name.rfind(".")] if name.lower().endswith(ENDING) else name


def format_suffix(name: str) -> str:
    """Return the ending of a file's name that says its format, in small letters: ".csv" for "log.CSV.gz"."""
    return PurePath(unpacked_name(name)).suffix.lower()


def unpack(raw: BinaryIO, name: str, most: int) -> BinaryIO:
    """Return the file `raw` itself, or, if gzip packed it, a file of its unpacked bytes.

    Reading the unpacked bytes raises InputError if the file is damaged. It also does so beyond `most` bytes, or if they
    are far more than the packed ones.
    raw: the open file.
    name: the name of the file, for errors.
    most: the most unpacked bytes that can be read.
    """
    start = raw.read(len(_GZIP))
    size = raw.seek(0, io.SEEK_END)
    raw.seek(0)
    if start != _GZIP:
        return raw
    limit = min(most, max(FREE, MAX_RATIO * size))
    return cast(BinaryIO, io.BufferedReader(_BoundedReader(gzip.GzipFile(fileobj=raw), name, limit), CHUNK))


class _BoundedReader(io.RawIOBase):
    """The unpacked bytes of a gzip file, of which no more than `limit` can be read."""

    def __init__(self, packed: gzip.GzipFile, name: str, limit: int) -> None:
        self.packed, self.name, self.limit, self.got = packed, name, limit, 0

    def readable(self) -> bool:
        """Return True, because the bytes can be read."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read unpacked bytes into `buffer` and return how many.

        Raises InputError beyond the limit, or if the file is damaged.
        """
        try:
            chunk = self.packed.read(len(buffer))
        except Exception as error:  # gzip and zlib raise errors of classes of their own
            refuse(self.name, "a file that can be unpacked", reason(error))
        self.got += len(chunk)
        if self.got > self.limit:
            refuse(self.name, f"at most {count(self.limit, 'byte')} unpacked", "more")
        buffer[: len(chunk)] = chunk
        return len(chunk)
