"""An error that no check foresaw is reported as a fault of gdpo, wherever a reader meets it; an error that a file
causes is not.
"""

from pathlib import Path

import polars as pl
import pytest
from logs import audit_cli, gdpo, parquet, rows, table

import gdpo_audit as ga
import gdpo_core as gc
from gdpo_audit.command import cli
from gdpo_audit.logs.files.files import LogFile
from gdpo_audit.logs.tables import formats as tables
from gdpo_core.shared.errors import fault_of

SAYS = "a fault of gdpo, not of your input: "


class PanicException(BaseException):
    """An error like the one that polars raises when its own code fails; it is no Exception."""


FAULTS = {
    "a column": lambda: pl.DataFrame({"a": [1]})["x"],
    "two columns": lambda: pl.DataFrame({"a": [1], "b": [2]}).rename({"a": "b"}),
    "a key": lambda: {}["x"],
    "a text": lambda: "ä".encode("ascii"),
    "a file of ours": lambda: Path("/no such place/theme.css").read_text(),
    "numbers": lambda: float("x"),
}


def raising(make):
    def work(*_, **__):
        return make()

    return work


def panic():
    raise PanicException("index out of bounds")


@pytest.mark.parametrize("make", [*FAULTS.values(), panic], ids=[*FAULTS, "polars' own"])
@pytest.mark.parametrize("place", ["read_run", "audit"])
def test_what_no_check_foresaw_is_one_line_and_exit_70(capsys, tmp_path, monkeypatch, make, place):
    (tmp_path / "a.parquet").write_bytes(parquet(table(16)))
    monkeypatch.setattr(cli, place, raising(make))
    # What reading raises is taken for a fault of the file where the operating system says so.
    foreseen = make is FAULTS["a file of ours"]
    code, out, err = audit_cli(capsys, tmp_path)
    assert (code, out, err.count("\n")) == (2 if foreseen else 70, "", 1)
    assert err.startswith(f"gdpo: {tmp_path}: expected " if foreseen else f"gdpo: {SAYS}")
    if foreseen:
        return
    with pytest.raises(BaseException) as raised:
        make()
    assert f"{type(raised.value).__name__}: " in err and "report it" in err and "--debug prints the traceback" in err
    code, out, debugged = audit_cli(capsys, tmp_path, "--debug")
    assert (code, out) == (70, "") and debugged.startswith("Traceback (most recent call last):\n")
    assert debugged.endswith(err) and "in work\n" in debugged


@pytest.mark.parametrize("command", [("compare", "a", "b"), ("explain", "11", "10")], ids=" ".join)
def test_each_command_says_it(capsys, monkeypatch, command):
    monkeypatch.setattr(cli, f"run_{command[0]}", raising(FAULTS["a key"]))
    line = f"gdpo: {fault_of(KeyError('x'))}\n"
    assert gdpo(capsys, *command) == (70, "", line)
    code, _, err = gdpo(capsys, *command, "--debug")
    assert code == 70 and err.startswith("Traceback") and err.endswith(line)


def test_bad_input_has_no_traceback(capsys, tmp_path):
    assert audit_cli(capsys, tmp_path / "nothing", "--debug") == audit_cli(capsys, tmp_path / "nothing")
    code, _, err = gdpo(capsys, "explain", "1,x", "--debug")
    assert code == 2 and err.count("\n") == 1


def test_where_memory_runs_out_it_is_no_fault(capsys, monkeypatch, tmp_path):
    (tmp_path / "a.parquet").write_bytes(parquet(table(16)))

    def full(*_, **__):
        raise MemoryError

    monkeypatch.setattr(cli, "audit", full)
    assert audit_cli(capsys, tmp_path) == (
        2,
        "",
        "gdpo: memory: expected enough to read and audit this, got none left\n",
    )


# --- reading ----------------------------------------------------------------------------------------------------------


def test_an_operation_of_ours_on_a_whole_file_is_not_told_as_damage(tmp_path):
    path = tmp_path / "a.parquet"
    path.write_bytes(parquet(table(16)))
    [read] = tables.tables_of(LogFile("a.parquet", path))
    for operation in (pl.col("x"), pl.col("acc").str.len_chars(), pl.col("acc").cast(pl.String).cast(pl.Boolean)):
        with pytest.raises(pl.exceptions.PolarsError):
            read.collected(read.frame.select(operation))


@pytest.mark.parametrize("damage", ["a byte", "the middle", "the end"])
def test_a_damaged_file_is_the_reader_s_whatever_polars_says_of_it(tmp_path, damage, capsys):
    content = bytearray(parquet(pl.DataFrame(rows(4000, text=lambda i: f"{i}" * 9))))
    middle = len(content) // 2
    changed = {"a byte": bytes([content[middle] ^ 255]), "the middle": b"\xff" * 64, "the end": b""}[damage]
    content[middle : middle + len(changed)] = changed
    (tmp_path / "a.parquet").write_bytes(content[:-9] if damage == "the end" else content)
    code, _, err = audit_cli(capsys, tmp_path)
    assert SAYS not in err and code in (0, 2)


def test_a_library_is_told_the_error_itself(monkeypatch):
    monkeypatch.setattr("gdpo_audit.logs.read.with_groups", raising(FAULTS["a column"]))
    with pytest.raises(pl.exceptions.ColumnNotFoundError):
        ga.read_run(rows(8))


# --- the page ---------------------------------------------------------------------------------------------------------


def broken(_):
    return {}["x"]


def out_of_memory(how):
    raise RuntimeError("can't allocate memory: you tried to allocate 9 bytes") if how == "torch" else MemoryError


@pytest.mark.slow
def test_the_page_says_the_same_sentence():
    worker = pytest.importorskip("views.server.worker")
    with pytest.raises(gc.InputError) as said:
        worker.call(broken, None)
    assert str(said.value) == fault_of(KeyError("x"))
    for how in ("torch", "python"):
        with pytest.raises(gc.InputError) as said:
            worker.call(out_of_memory, how)
        assert str(said.value) == worker.LIMIT_EXCEEDED
