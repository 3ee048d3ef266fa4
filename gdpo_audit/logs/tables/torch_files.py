"""Files of torch.save as tables: rows in a list, or tensors and lists with a value per response.

torch.load reads them as files that it does not trust: it makes tensors and plain values, and runs none of their code.
"""

import io
import re
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl

from gdpo_audit.logs.files.conversions import ZIP, advice
from gdpo_audit.logs.refusals import refuse, refuse_unless
from gdpo_audit.logs.tables.json_values import records
from gdpo_audit.logs.tables.repairs import Repairs
from gdpo_core.shared.errors import reason
from gdpo_core.shared.words import clip, count

_MAX_BYTES = 1 << 30  # the most bytes of a file
MAX_VALUES = 50_000_000  # the most values of a file, once its lists are written out
_DEPTH = 20  # the most levels of lists and objects
_SAFE_SINCE = (2, 6)  # in older versions a file could run code in spite of weights_only
_ROWS = ("samples", "rows", "rollouts", "trajectories", "data")  # the names of a list of rows, slime's first
# Two columns whose lengths differ by less than this factor were meant to have one length, so that values are missing. A
# column of prompts is half as long as the others, or shorter, because a group has two responses or more.
_CLOSE = 3 / 4
_CALLED = re.compile("reward|score|advantage", re.IGNORECASE)
_DEEPEST = 4  # the most objects inside each other in which rows are looked for
# The names of a number beside the rows that is their step.
_NUMBERS_STEPS = ("rollout_id", "step", "global_step", "training_step", "iteration", "iter")
_NO_ROWS = "rows in a list, or tensors and lists with a value per response"


def torch_table(name: str, path: Path | None, odd: set[str], repairs: Repairs) -> pl.DataFrame:
    """Return the rows in a file that torch.save wrote, as a table.

    name: the name of the file, for errors.
    path: its path; None for a file that is not on this machine's disk.
    odd: a set to which the columns are added that are read as text although most of their values are numbers.
    repairs: takes note of the objects inside which the rows were found.

    Raises InputError if `path` is None, and for a file that cannot be read, is too large or holds no rows.
    """
    if path is None:
        refuse(name, "a file on this machine, as what torch.save writes is not taken from elsewhere", "")
    content = _loaded(name, path)
    rows = _rows(content, name, repairs.inside)
    if rows is None:
        got = type(content).__name__
        if isinstance(content, Mapping):
            got = f"an object of {clip(', '.join(map(str, content)), 200) or 'nothing'}"
        refuse(name, _NO_ROWS, f"{got}; {advice(name)}")
    refuse_unless(len(rows) > 0, name, "at least one response", "0 rows")
    left = [MAX_VALUES]
    plain = [_plain(row, name, left) for row in rows]
    return records(plain, odd)


def _loaded(name: str, path: Path) -> Any:
    """Return what torch.load finds in a file, whose code it does not run.

    name: the name of the file, for errors.
    path: its path.

    Raises InputError if the file cannot be read.
    """
    _expect_small(name, path)
    import torch  # the import takes seconds, and most logs are none of torch's files

    version = tuple(int(number) for number in re.findall(r"\d+", torch.__version__)[:2])
    if version < _SAFE_SINCE:
        refuse(name, "torch 2.6 or newer, whose torch.load is safe", f"torch {torch.__version__}")
    content = path.read_bytes()
    try:
        return torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
    except MemoryError:
        raise
    except Exception as error:  # pickle, zip and torch raise errors of many classes for a broken file
        why = clip(re.split(r"\(Could this|Please file|Check the doc", reason(error))[0].strip(" ."), 120)
        if content.startswith(ZIP) and not zipfile.is_zipfile(path):
            refuse(name, "a whole file of torch.save", "one without its end")
        wanted = "tensors and plain values that torch.load reads with weights_only=True"
        refuse(name, wanted, f"{why}; {advice(name)}")


def _expect_small(name: str, path: Path) -> None:
    """Raise InputError for a file of more than `_MAX_BYTES`, as it is or once it is unpacked.

    name: the name of the file, for the error.
    """
    try:
        size = path.stat().st_size
        if zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as archive:
                size = max(size, sum(info.file_size for info in archive.infolist()))
    except (OSError, zipfile.BadZipFile, ValueError):
        return  # torch says what is wrong with the file
    if size > _MAX_BYTES:
        refuse(name, f"at most {count(_MAX_BYTES, 'byte')} in a file of torch", count(size))


def _dense(value: Any, name: str) -> Any:
    """Return a tensor as a dense one that is not quantised, or as a number if it has no dimensions.

    Anything but a tensor is returned unchanged.
    value: the tensor.
    name: the name of the file, for errors.

    Raises InputError for a tensor without values, for a nested one, and for one that is too large once it is dense.
    """
    if not hasattr(value, "to_dense"):
        return value
    if value.is_meta:
        refuse(name, "tensors with values", "one on the device meta")
    if value.is_nested:
        refuse(name, "tensors whose rows have one length", "a nested one; save it as a list")
    if value.numel() > MAX_VALUES:
        refuse(name, f"at most {count(MAX_VALUES, 'value')}", "more")
    value = value.dequantize() if value.is_quantized else value
    value = value if str(value.layout) == "torch.strided" else value.to_dense()
    return value if value.ndim else value.item()


def _rows(content: Any, where: str, inside: list[str], depth: int = 0) -> list | None:
    """Return the rows, one object each, in what torch.load found in a file; None if it holds none.

    The content may be a list of objects, or hold such a list under a name of `_ROWS`: these are the rows. A number
    rollout_id beside the list, which slime writes, is their step, and so is one that is named like a step. In any other
    content, tensors and lists are columns if they have the usual length (see `_usual`), and are left out if not. A
    single number or text stands in every row. If no column is called a reward or an advantage, but one inside an object
    is, the rows are those of that object.
    content: what torch.load found.
    where: the name of the file, for errors.
    inside: a list to which the names are added that lead to the object in which the rows are.
    depth: how many objects the content stands in.

    Raises InputError if the length of a column without texts is close to the usual one but not equal. Leaving it out
    might hide a reward. It also raises InputError for tensors that `_dense` refuses.
    """
    if isinstance(content, list) and content and all(isinstance(row, Mapping) for row in content):
        return content
    if not isinstance(content, Mapping) or not all(isinstance(name, str) for name in content):
        return None
    step = _step_of(content, where)
    for name in _ROWS:
        rows = content.get(name)
        if isinstance(rows, list) and rows and all(isinstance(row, Mapping) for row in rows):
            return [{**step, **row} for row in rows]
    called = any(_CALLED.search(name) and _size(value) is not None for name, value in content.items())
    for name, value in content.items() if not called and depth < _DEEPEST else ():
        deeper = [name]
        rows = _rows(value, where, deeper, depth + 1) if isinstance(value, Mapping | list) else None
        if rows and any(isinstance(key, str) and _CALLED.search(key) for key in rows[0]):
            inside += [x for x in deeper if x not in inside]
            return [{**step, **row} for row in rows]
    return _rows_of_columns(content, where)


def _step_of(content: Mapping[str, Any], where: str) -> dict[str, int]:
    """Return {"step": a whole number that stands beside the rows and is named like a step}, or {} without one.

    content: the object that holds the rows.
    where: the name of the file, for errors.
    """
    for name in _NUMBERS_STEPS:
        number = _dense(content.get(name), where)
        if isinstance(number, int) and not isinstance(number, bool):
            return {"step": number}
    return {}


def _rows_of_columns(content: Mapping[str, Any], where: str) -> list | None:
    """Return the rows that tensors and lists with a value per row make; None if there are no such columns.

    content: the columns by name, beside which other values may stand.
    where: the name of the file, for errors.

    Raises InputError as `_rows` does.
    """
    content = {name: _dense(value, where) for name, value in content.items()}
    columns = {name: list(value) for name, value in content.items() if _size(value) is not None}
    usual = _usual({name: len(values) for name, values in columns.items()})
    if usual is None:
        return None
    same = {name: value for name, value in content.items() if isinstance(value, int | float | str)}
    for name, values in columns.items():
        close = len(values) != usual and _CLOSE * usual < len(values) < usual / _CLOSE
        numbers = not any(isinstance(value, str) for value in values)
        if close and numbers:
            refuse(where, f"{usual} values in {name!r}, as many as there are responses", len(values))
    columns = {name: values for name, values in columns.items() if len(values) == usual}
    return [{**same, **dict(zip(columns, row, strict=True))} for row in zip(*columns.values(), strict=True)]


def _size(value: Any) -> int | None:
    """Return the number of values of a list, or of the rows of a tensor; None for anything else."""
    if isinstance(value, list | tuple):
        return len(value)
    return len(value) if getattr(value, "ndim", 0) else None


def _usual(sizes: Mapping[str, int]) -> int | None:
    """Return how many responses a file holds; None if it has no columns.

    It is the most usual length of the columns that are called a reward, score or advantage, or, without any, of all.
    sizes: the length of each column, by name.
    """
    called = [size for name, size in sizes.items() if _CALLED.search(name)]
    every = called or [*sizes.values()]
    return max(every, key=every.count) if every else None


def _plain(value: Any, name: str, left: list[int], depth: int = 0) -> Any:
    """Return a value as JSON could hold it: tensors become numbers and lists, and unknown objects texts.

    value: the value.
    name: the name of the file.
    left: a list of one number, which says how many values may still come and falls with each.
    depth: how many lists and objects the value stands in.

    Raises InputError for too many values, and for values that are nested too deep.
    """
    if depth >= _DEPTH:
        refuse(name, f"at most {_DEPTH} levels of lists", "more")
    value = _dense(value, name)
    left[0] -= value.numel() if hasattr(value, "numel") else 1
    if left[0] < 0:
        refuse(name, f"at most {count(MAX_VALUES, 'value')}", "more")
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, Mapping):
        return {str(key): _plain(inner, name, left, depth + 1) for key, inner in value.items()}
    if isinstance(value, list | tuple | set):
        return [_plain(inner, name, left, depth + 1) for inner in value]
    return value if isinstance(value, int | float | str | None) else str(value)
