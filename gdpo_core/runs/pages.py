"""How large the pages of a Parquet file become when they are unpacked, from their headers: no page is unpacked for it.

The footer and the headers of pages are structs in Thrift's compact protocol, https://parquet.apache.org/docs/.
"""

from collections.abc import Collection, Iterator
from typing import Any

_STOP, _TRUE, _FALSE, _BYTE, _DOUBLE, _BINARY, _LIST, _SET, _STRUCT = 0, 1, 2, 3, 7, 8, 9, 10, 12
_INTEGERS = (4, 5, 6)
_ROW_GROUPS, _CHUNKS, _META = 4, 1, 3  # fields of the footer, of a group of rows, of a chunk of a column
_PATH, _VALUES, _PACKED, _DATA, _DICTIONARY = 3, 5, 7, 9, 11  # fields of a chunk's description
_PAGE_UNPACKED, _PAGE_PACKED, _PAGE_KINDS = 2, 3, (5, 7, 8)  # fields of the header of a page
_PAGE_VALUES = 1  # the field of each kind


def unpacked_bytes(content: bytes, unread: Collection[str]) -> Iterator[int]:
    """The bytes of each page once unpacked, except for columns of these names in lower case; ValueError if damaged.

    A value counts as a byte at least: a long run of equal ones takes none in the file.
    """
    start = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    if start < 4:
        raise ValueError("a footer longer than the file")
    try:
        for group in _Struct(content, start).read().get(_ROW_GROUPS, ()):
            for chunk in group.get(_CHUNKS, ()):
                meta = chunk[_META]
                if meta[_PATH][0].decode("utf-8", "replace").lower() not in unread:
                    at = meta.get(_DICTIONARY) or meta[_DATA]
                    yield from _pages(content, at, at + meta[_PACKED], meta[_VALUES])
    except (IndexError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"{type(error).__name__} in its footer or in the header of a page") from None


def _pages(content: bytes, at: int, end: int, values: int) -> Iterator[int]:
    while 0 < at < end <= len(content):
        header = _Struct(content, at)
        page = header.read()
        if page[_PAGE_PACKED] < 0 or page[_PAGE_UNPACKED] < 0:
            raise ValueError("a page of negative size")
        held = [page[kind][_PAGE_VALUES] for kind in _PAGE_KINDS if kind in page]
        if not all(0 <= number <= max(values, page[_PAGE_UNPACKED]) for number in held):
            raise ValueError("a page of more values than its column has")
        yield max(page[_PAGE_UNPACKED], *held)
        at = header.at + page[_PAGE_PACKED]


class _Struct:
    """A reader of one struct: its fields by their numbers."""

    def __init__(self, content: bytes, at: int) -> None:
        self.content, self.at = content, at

    def read(self) -> dict[int, Any]:
        fields: dict[int, Any] = {}
        number = 0
        while (head := self._byte()) & 15 != _STOP:
            number = number + (head >> 4) if head >> 4 else self._integer()
            fields[number] = self._value(head & 15)
        return fields

    def _byte(self) -> int:
        self.at += 1
        return self.content[self.at - 1]

    def _expect(self, size: int) -> None:
        if size > len(self.content) - self.at:
            raise ValueError("a value that is longer than the file")

    def _varint(self) -> int:
        value, shift = 0, 0
        while (byte := self._byte()) & 128:
            value |= (byte & 127) << shift
            shift += 7
            if shift > 63:
                raise ValueError("an integer of more than 64 bits")
        return value | byte << shift

    def _integer(self) -> int:
        value = self._varint()
        return (value >> 1) ^ -(value & 1)

    def _value(self, kind: int) -> Any:
        if kind in (_TRUE, _FALSE):
            return kind == _TRUE
        if kind == _BYTE:
            return self._byte()
        if kind in _INTEGERS:
            return self._integer()
        if kind == _DOUBLE:
            self._expect(8)
            self.at += 8
            return None
        if kind == _BINARY:
            size = self._varint()
            self._expect(size)
            self.at += size
            return self.content[self.at - size : self.at]
        if kind in (_LIST, _SET):
            head = self._byte()
            size = head >> 4 if head >> 4 != 15 else self._varint()
            self._expect(size)  # each takes a byte at least
            # In a list a boolean takes a byte.
            return [self._byte() if head & 15 in (_TRUE, _FALSE) else self._value(head & 15) for _ in range(size)]
        if kind == _STRUCT:
            return self.read()
        raise ValueError(f"a value of kind {kind}")
