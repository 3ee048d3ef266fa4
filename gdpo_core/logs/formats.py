"""The format of a file, from its first bytes, and from its ending where these leave a choice."""

from gdpo_core.errors import InputError, expect
from gdpo_core.logs.files import LogFile

# The first bytes of compressed files, which polars would unpack without a limit.
PACKED = {b"\x1f\x8b": "a gzip", b"(\xb5/\xfd": "zstd", b"x\x01": "zlib", b"x\x9c": "zlib", b"x\xda": "zlib"}
ENDINGS = {"csv": "csv", "tsv": "tsv", "jsonl": "jsonl", "ndjson": "jsonl", "json": "json", "parquet": "parquet"}


def format_of(file: LogFile) -> str:
    """parquet, csv, tsv, jsonl or json; InputError for any other format.

    >>> format_of(LogFile("log.txt", load=lambda: b'{"a": 1}'))
    'jsonl'
    """
    start = file.start(4096)
    expect(len(start) > 0, file.name, "a log", "an empty file")
    packed = next((name for magic, name in PACKED.items() if start.startswith(magic)), None)
    expect(packed is None, file.name, "a log", f"{packed}; unpack it")
    named = ENDINGS.get(file.name.rpartition(".")[2].lower())
    if start.startswith(b"PAR1") or named == "parquet":
        return "parquet"
    text = start.removeprefix(b"\xef\xbb\xbf").lstrip()
    if named in ("jsonl", "json"):
        return named
    if named is None and text[:1] in (b"{", b"["):
        return "jsonl" if text[:1] == b"{" else "json"
    if named is None:
        raise InputError(f"{file.name}: expected a file that ends in {', '.join(ENDINGS)}, got one that does not")
    return named
