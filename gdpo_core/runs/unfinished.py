"""A log whose last file is still being written."""

import json
from dataclasses import replace

from gdpo_core._errors import InputError
from gdpo_core.runs.files import LogFile, LogFiles, format_of
from gdpo_core.runs.tables import parquet_schema

_PARTS = ("parquet", "jsonl", "json", "wandb")  # formats that show that their end is missing


def without_unfinished(log: LogFiles, skips_lines: bool = False) -> LogFiles:
    """The log without its last file, if that is empty or cut and the one before is not: a run is still writing it.

    skips_lines: broken lines are left out anyway. A broken file among the others stays, for the reader to name.
    """
    *before, last = log.files
    if not before or last.frame is not None or before[-1].frame is not None:
        return log
    kind = _kind(before[-1])
    if kind is None or _whole(before[-1], kind) is False or _whole(last, kind) or (kind == "jsonl" and skips_lines):
        return log
    why = "ends in the middle, as while it is written" if last.start(1) else "is empty, as before it is written"
    return replace(log, files=tuple(before), left_out=(*log.left_out, (last.name, why)))


def _kind(file: LogFile) -> str | None:
    try:
        return format_of(file)
    except InputError:
        return None


def _whole(file: LogFile, kind: str) -> bool:
    """Whether a file of this format has its end, as far as that can be seen."""
    if not file.start(1):
        return False
    try:
        if kind == "parquet":
            return bool(parquet_schema(file))
        if kind in _PARTS:
            content = file.content().rstrip()
            json.loads((content.rpartition(b"\n")[2] if kind == "jsonl" else content).decode("utf-8-sig"))
    except (InputError, ValueError, RecursionError):
        return False
    return True
