"""Bytes as the readers take them: gzip and zstd unpacked up to a limit, UTF-16 as UTF-8."""

import codecs
import gzip
import io
from collections.abc import Callable
from importlib import import_module
from pathlib import PurePath
from typing import Any, BinaryIO, cast

from gdpo_core._errors import InputError, expect, reason
from gdpo_core._words import count

ENDINGS = (".gz", ".zst")
MAX_RATIO = 200  # of unpacked to packed bytes; rewards as text reach about 20
FREE = 1 << 20  # unpacked bytes up to which the ratio does not count
CHUNK = 1 << 20
_FEW = 1 << 10
_GZIP, _ZSTD = b"\x1f\x8b", b"(\xb5/\xfd"
# The first bytes of what polars would unpack without a limit.
PACKED = {_GZIP: "a gzip", _ZSTD: "zstd", b"x\x01": "zlib", b"x\x9c": "zlib", b"x\xda": "zlib"}
_MARKS = {codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}


def unpacked_name(name: str) -> str:
    """The name of a file without the ending that says how it is packed.

    >>> unpacked_name("run/log.csv.gz"), unpacked_name("log.csv")
    ('run/log.csv', 'log.csv')
    """
    return name[: name.rfind(".")] if name.lower().endswith(ENDINGS) else name


def format_suffix(name: str) -> str:
    """The ending of a file's name that says its format: ".csv" of "log.CSV.gz"."""
    return PurePath(unpacked_name(name)).suffix.lower()


def unpack(raw: BinaryIO, name: str, most: int) -> BinaryIO:
    """The bytes of a file, unpacked and in UTF-8 where its first bytes show another form; `most` bytes if unpacked.

    Raises InputError, while it is read, for a file that is damaged or unpacks to more.
    """
    start = raw.read(4)
    size = raw.seek(0, io.SEEK_END)
    raw.seek(0)
    packed: gzip.GzipFile | _Zstd | None = None
    if start.startswith(_GZIP):
        packed = gzip.GzipFile(fileobj=raw)
    elif start.startswith(_ZSTD):
        packed = _Zstd(raw, _zstd(name))
    if packed is not None:
        bounded = io.BufferedReader(_BoundedReader(packed, name, min(most, max(FREE, MAX_RATIO * size))), CHUNK)
        raw, start = cast(BinaryIO, bounded), bounded.peek(4)[:4]
    encoding = _encoding(start)
    if encoding is None:
        return raw
    try:
        return io.BytesIO(raw.read().decode(encoding).encode())
    except UnicodeError:
        raise InputError(f"{name}: expected UTF-16 text, as it begins, got other bytes") from None


def _encoding(start: bytes) -> str | None:
    """The encoding that a mark shows, or a NUL in every other byte of two letters; None for UTF-8 and for no text."""
    marked = _MARKS.get(start[:2])
    if marked or len(start) < 4:
        return marked
    return {"xoxo": "utf-16-le", "oxox": "utf-16-be"}.get("".join("x" if byte else "o" for byte in start))


class _BoundedReader(io.RawIOBase):
    """What a packed file unpacks to, no more than a limit of bytes."""

    def __init__(self, packed: "gzip.GzipFile | _Zstd", name: str, limit: int) -> None:
        self.packed, self.name, self.limit, self.got = packed, name, limit, 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        try:
            part = self.packed.read(len(buffer))
        except Exception as error:  # gzip, zlib and each library for zstd have their own
            raise InputError(f"{self.name}: expected a file that can be unpacked, got {reason(error)}") from None
        self.got += len(part)
        expect(self.got <= self.limit, self.name, f"at most {count(self.limit, 'byte')} unpacked", "more")
        buffer[: len(part)] = part
        return len(part)


class _Zstd:
    """Reads the frames of a file in zstd, a few bytes at a time: each can stand for a thousand times as many.

    zstandard has such a reader, which takes a cut file for a whole one.
    """

    def __init__(self, packed: BinaryIO, new: Callable[[], Any]) -> None:
        self.packed, self.new = packed, new
        self.frame: Any = None
        self.rest = self.ready = b""

    def read(self, size: int) -> bytes:
        while not self.ready:
            data = self.rest or self.packed.read(_FEW)
            if not data:
                if self.frame is not None:
                    raise EOFError("its end is missing")
                return b""
            self.frame = self.frame or self.new()
            self.ready = self.frame.decompress(data)
            self.rest, self.frame = (self.frame.unused_data, None) if self.frame.eof else (b"", self.frame)
        part, self.ready = self.ready[:size], self.ready[size:]
        return part


def _zstd(name: str) -> Callable[[], Any]:
    """What unpacks one frame of zstd: Python's own module, from 3.14 on, or the library zstandard."""
    try:
        return import_module("compression.zstd").ZstdDecompressor
    except ImportError:
        pass
    try:
        return import_module("zstandard").ZstdDecompressor().decompressobj
    except ImportError:
        wanted = "the library zstandard, which unpacks zstd"
        raise InputError(f"{name}: expected {wanted}, got none: pip install zstandard") from None
