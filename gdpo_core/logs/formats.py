"""What a file is written in: told by how it begins, and by its ending where that leaves a choice."""

from gdpo_core.errors import expect
from gdpo_core.logs.files import LogFile

# What is packed begins so; polars would unpack it without a limit.
PACKED = {b"\x1f\x8b": "a gzip", b"(\xb5/\xfd": "zstd", b"x\x01": "zlib", b"x\x9c": "zlib", b"x\xda": "zlib"}
ENDINGS = {"csv": "csv", "tsv": "tsv", "jsonl": "jsonl", "ndjson": "jsonl", "json": "json", "parquet": "parquet"}


def format_of(file: LogFile) -> str:
    """parquet, csv, tsv, jsonl or json. Raises InputError where it is none of these.

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
    expect(named is not None, file.name, f"a file that ends in {', '.join(ENDINGS)}", "one that does not")
    return named
