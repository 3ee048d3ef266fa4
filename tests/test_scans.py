"""Parquet files that are read together in one plan give the same as each read by itself."""

import polars as pl
import pytest
from logs import refused

import gdpo_audit as ga

FILES, GROUP = 40, 4
SIZES = [0 if number == 7 else GROUP * (1 + number % 5) for number in range(FILES)]  # of the files, one without rows


def write(folder, change=lambda number, table: table):
    """Write files with groups of four rows, and return their folder. The reward `acc` says which file a row is in, and
    where. change: returns the table of a file anew, or None to leave the file out.
    """
    folder.mkdir()
    for number, size in enumerate(SIZES):
        columns = {"step": [number] * size, "uid": [f"{number}-{k // GROUP}" for k in range(size)]}
        columns |= {"acc": [1000.0 * number + k for k in range(size)], "style": [float(k % 2) for k in range(size)]}
        kinds = {"step": pl.Int64, "uid": pl.String, "acc": pl.Float64, "style": pl.Float64}
        table = change(number, pl.DataFrame(columns, schema=kinds))
        if table is not None:
            table.write_parquet(folder / f"part_{number}.parquet")
    return folder


@pytest.mark.parametrize("rows", [1, 9, 30, 1_000])  # of a frame: no two files fit into one, some do, all do
def test_each_row_keeps_its_place(tmp_path, monkeypatch, rows):
    monkeypatch.setattr("gdpo_audit.logs.tables.formats.ROWS_AT_ONCE", rows)
    run = ga.read_run(write(tmp_path / "run"), rewards=["acc", "style"])
    wanted = [(number, k) for number, size in enumerate(SIZES) for k in range(size)]
    assert run.table["step"].to_list() == [number for number, _ in wanted]
    assert run.table["acc"].to_list() == [1000.0 * number + k for number, k in wanted]
    places = [place for table in run.tables() for place in table["_place"]]
    assert [divmod(place, 2**32) for place in places] == wanted
    assert run.table["group"].n_unique() == sum(size // GROUP for size in SIZES)


def test_columns_in_another_order_or_of_another_type_are_read(tmp_path):
    def change(number, table):
        if number % 3 == 1:
            return table.select("style", "acc", "uid", "step")
        return table.with_columns(pl.col("style").cast(pl.Int8)) if number > 30 else table

    run = ga.read_run(write(tmp_path / "run", change), rewards=["acc", "style"])
    assert run.table["acc"].to_list() == [1000.0 * n + k for n, size in enumerate(SIZES) for k in range(size)]
    assert run.table["style"].to_list() == [float(k % 2) for size in SIZES for k in range(size)]


def test_a_fault_in_one_of_many_names_its_file_and_row(tmp_path):
    def change(number, table):
        missing = pl.when(pl.int_range(pl.len()) != 2).then(pl.col("uid"))
        return table.with_columns(uid=missing) if number == 33 else table

    log = write(tmp_path / "run", change)
    refused(log, "part_33.parquet, row 3: expected a value in every row of 'uid'", rewards=["acc"])


def test_a_damaged_one_of_many_is_named_or_left_out(tmp_path):
    log = write(tmp_path / "run")
    damaged = log / "part_21.parquet"
    content = damaged.read_bytes()
    # The end of the file stays whole.
    damaged.write_bytes(content[:4] + bytes(len(content) // 2) + content[4 + len(content) // 2 :])
    refused(log, "part_21.parquet: expected a whole Parquet file", rewards=["acc", "style"])
    run = ga.read_run(log, rewards=["acc", "style"], skip_bad=True)
    assert [name.rpartition("/")[2] for name in run.skipped_files] == ["part_21.parquet"]
    assert len(run.table) == sum(SIZES) - SIZES[21]
