"""Bytes of a file, unpacked from gzip up to a limit."""

import gzip
import io
from pathlib import PurePath
from typing import Any, BinaryIO, cast

from gdpo_audit.logs.refusals import refuse
from gdpo_core._errors import reason
from gdpo_core._words import count

ENDING = ".gz"
MAX_RATIO = 200  # the most unpacked bytes per packed byte; rewards as text reach about 20
FREE = 1 << 20  # the unpacked bytes up to which the ratio does not count
CHUNK = 1 << 20
_GZIP = b"\x1f\x8b"
# The first bytes of formats that polars would unpack without a limit, and of texts that are no UTF-8.
REFUSED = {_GZIP: "a gzip in a gzip; unpack it", b"(\xb5/\xfd": "zstd; unpack it"}
REFUSED |= dict.fromkeys((b"x\x01", b"x\x9c", b"x\xda"), "zlib; unpack it")
REFUSED |= dict.fromkeys((b"\xff\xfe", b"\xfe\xff"), "UTF-16; save it as UTF-8")


def unpacked_name(name: str) -> str:
    """Return the name of a file without the ending that says how it is packed.

    >>> unpacked_name("run/log.csv.gz"), unpacked_name("log.csv")
    ('run/log.csv', 'log.csv')
    """
    return name[: name.rfind(".")] if name.lower().endswith(ENDING) else name


def format_suffix(name: str) -> str:
    """Return the ending of a file's name that says its format: ".csv" of "log.CSV.gz"."""
    return PurePath(unpacked_name(name)).suffix.lower()


def unpack(raw: BinaryIO, name: str, most: int) -> BinaryIO:
    """Return a file of the bytes in `raw`, or, where its first bytes show a gzip, of at most `most` unpacked bytes.

    Raises InputError, while it is read, for a file that is damaged or unpacks to more. name: the file's, in messages.
    """
    start = raw.read(len(_GZIP))
    size = raw.seek(0, io.SEEK_END)
    raw.seek(0)
    if start != _GZIP:
        return raw
    limit = min(most, max(FREE, MAX_RATIO * size))
    return cast(BinaryIO, io.BufferedReader(_BoundedReader(gzip.GzipFile(fileobj=raw), name, limit), CHUNK))


class _BoundedReader(io.RawIOBase):
    """The content of a packed file, no more than a limit of bytes."""

    def __init__(self, packed: gzip.GzipFile, name: str, limit: int) -> None:
        self.packed, self.name, self.limit, self.got = packed, name, limit, 0

    def readable(self) -> bool:
        """Return True, as a reader does."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read unpacked bytes into the buffer. Raises InputError beyond the limit."""
        try:
            part = self.packed.read(len(buffer))
        except Exception as error:  # gzip and zlib raise errors of their own
            refuse(self.name, "a file that can be unpacked", reason(error))
        self.got += len(part)
        if self.got > self.limit:
            refuse(self.name, f"at most {count(self.limit, 'byte')} unpacked", "more")
        buffer[: len(part)] = part
        return len(part)
