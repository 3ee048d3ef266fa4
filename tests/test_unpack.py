"""Forms of files: packed ones, ones with other separators, and ones that cannot be read."""

import gzip
from itertools import product

import polars as pl
import pytest
from logs import in_form, refused, zip_of

import gdpo_audit as ga
from gdpo_audit.logs.files import unpack

read_run = ga.read_run
ROWS = [(step, group, acc, length / 10) for step, group, acc, length in product((1, 2), "ab", (0, 1), (5, 9, 12))]
FRAME = pl.DataFrame(ROWS, schema=("step", "group", "acc", "brief"), orient="row")
PLAIN = {kind: in_form(kind, FRAME) for kind in ("csv", "tsv", "jsonl", "json", "parquet")}


def csv_of(separator):
    return PLAIN["csv"].decode().replace(",", separator)


def assert_same(source) -> None:
    run = read_run(source)
    assert run.rewards == ("acc", "brief") and run.table["group"].n_unique() == 4
    assert run.table.select("step", "acc", "brief").equals(FRAME.select("step", pl.col("acc").cast(float), "brief"))


# --- packed files ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", PLAIN)
def test_a_packed_file_is_read_as_the_file_in_it_wherever_it_lies(tmp_path, kind):
    content, name = gzip.compress(PLAIN[kind]), f"log.{kind}.gz"
    (tmp_path / "alone").mkdir()
    (tmp_path / "alone" / name).write_bytes(content)
    archive = zip_of({f"run/{name}": content})
    (tmp_path / "up.zip").write_bytes(archive)
    # For these kinds the first bytes show what the file is.
    unnamed = "log" if kind in ("jsonl", "json", "parquet") else f"log.{kind}"
    for source in (
        *(tmp_path / "alone" / name, tmp_path / "alone", tmp_path / "up.zip"),
        *({name: content}, {unnamed: content}, {"up.zip": archive}),
    ):
        assert_same(source)
    assert read_run(tmp_path / "alone").files == (str(tmp_path / "alone" / name),)


def test_a_file_of_several_packed_parts_is_read_whole():
    assert_same({"a.csv": gzip.compress(PLAIN["csv"][:40]) + gzip.compress(PLAIN["csv"][40:])})


@pytest.mark.parametrize("place", ["disk", "memory", "zip"])
def test_a_bomb_is_one_sentence(monkeypatch, tmp_path, place):
    monkeypatch.setattr(unpack, "FREE", 10_000)
    name, content = "a.csv.gz", gzip.compress(PLAIN["csv"] + b"1,a,1,0.5\n" * 50_000)
    assert len(content) * unpack.MAX_RATIO < 500_000
    (tmp_path / name).write_bytes(content)
    source = {"disk": tmp_path / name, "memory": {name: content}, "zip": {"up.zip": zip_of({name: content})}}[place]
    refused(source, rf"{name}: expected at most [\d,]+ bytes unpacked, got more$")


def test_a_packed_file_that_is_cut_or_damaged_is_one_sentence_at_every_byte():
    content = gzip.compress(PLAIN["csv"])
    for end in range(5, len(content)):
        refused({"a.csv.p": content[:end]}, r"a\.csv\.p: expected .*, got ")
    refused({"a.csv": content + b"more"}, r"a\.csv: expected .*, got ")


# --- encodings and separators ------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["csv", "tsv"])
@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
def test_the_separator_is_found_in_the_header(kind, separator):
    text = csv_of(separator)
    quoted = text.replace("group", '"group"').replace(f"{separator}a{separator}", f'{separator}"a,;\t|"{separator}')
    prompts = text.replace(f"{separator}a{separator}", f"{separator}“ü\u2028 中”{separator}")
    for content in (text, f"\ufeff{quoted}", text.replace("\n", "\r\n"), prompts):
        assert_same({f"a.{kind}": content.encode()})


# --- files that cannot be read ---------------------------------------------------------------------------------------


def write_steps(folder, kind, count=4):
    """Write one file per step and return the paths. kind: the ending of the files."""
    for step in range(1, count + 1):
        (folder / f"rows_{step}.{kind}").write_bytes(in_form(kind, FRAME.with_columns(step=pl.lit(step))))
    return [f"{folder}/rows_{step}.{kind}" for step in range(1, count + 1)]


@pytest.mark.parametrize("kind", ["parquet", "csv"])
@pytest.mark.parametrize("bad", [b"", b"PAR1 and no more", b"step,group,acc,brief\n2,a,1"])
def test_files_that_cannot_be_read_are_left_out_counted_and_named(tmp_path, kind, bad):
    names = write_steps(tmp_path, kind)
    whole = read_run(tmp_path)
    assert whole.skipped_files == () and list(whole.files) == names and whole.table.height == 4 * len(ROWS)
    (tmp_path / f"rows_2.{kind}").write_bytes(bad)
    refused(tmp_path, rf"^{names[1]}.*expected .*; with skip_bad \(--skip-bad\) it")
    run = read_run(tmp_path, skip_bad=True)
    assert run.skipped_files == (names[1],) and list(run.files) == [names[0], *names[2:]]
    assert run.table.equals(whole.table.filter(whole.table["step"] != 2).with_columns(run.table["group"]))
    report = ga.audit(run)
    assert report.source["skipped_files"] == [names[1]] and report.source["files"] == 3


@pytest.mark.parametrize(
    ("files", "message"),
    [
        # Where no file can be read, the error says why the first one cannot.
        ({"rows_1.csv": b"", "rows_2.csv": b""}, r"rows_1\.csv: expected a log, got an empty file$"),
        # Files that can be read do not count as bad.
        (
            {"rows_1.csv": PLAIN["csv"], "rows_2.csv": b"step,group,other\n2,1,0.5\n"},
            r"rows_\d\.csv: expected the columns of .*, got others: acc only in .*\.csv$",
        ),
        (dict.fromkeys(("rows_1.csv", "rows_2.csv"), b"group,said\na,yes\n"), "one column of numbers that is a reward"),
        # A file that stands alone is never left out.
        ({"a.csv": b"a,b\n1\n"}, "line 2: expected 2 values, one per column, got 1$"),
    ],
)
def test_what_is_no_bad_file_among_others_is_not_left_out(files, message):
    refused(files, message, skip_bad=True)
    if len(files) == 1 or b"" not in files.values():
        assert "skip_bad" not in refused(files, message)
