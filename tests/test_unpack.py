"""Forms of files: packed, in UTF-16, with other separators and decimal commas; and files that cannot be read."""

import gzip
import io
import json
import sys
import types
import zipfile
from itertools import product

import pytest

import gdpo_core as gc
from gdpo_core import cli
from gdpo_core.runs import files as log_files
from gdpo_core.runs import unpack

read_run = gc.read_run
ROWS = [(step, group, acc, length / 10) for step, group, acc, length in product((1, 2), "ab", (0, 1), (5, 9, 12))]
HEADER = ("step", "group", "acc", "brief")


def csv_of(separator=",", decimal="."):
    lines = [separator.join(HEADER)]
    lines += [separator.join(str(v).replace(".", decimal) for v in row) for row in ROWS]
    return "\n".join(lines) + "\n"


def jsonl_of():
    return "".join(json.dumps(dict(zip(HEADER, row, strict=True))) + "\n" for row in ROWS)


TEXT = {"csv": csv_of(), "tsv": csv_of("\t"), "jsonl": jsonl_of(), "json": f"[{','.join(jsonl_of().splitlines())}]"}
PLAIN = {kind: text.encode() for kind, text in TEXT.items()}
WANTED = read_run({"a.csv": PLAIN["csv"]}).table


def parquet():
    content = io.BytesIO()
    WANTED.select("step", "group", "acc", "brief").write_parquet(content)
    return content.getvalue()


PLAIN["parquet"] = parquet()


def zstd(content):
    """What the command zstd writes."""
    zstandard = pytest.importorskip("zstandard")
    return zstandard.ZstdCompressor().compress(content)


def same(run):
    table = run.table
    assert run.rewards == ("acc", "brief") and table.height == len(ROWS)
    assert table.select("step", "acc", "brief").equals(WANTED.select("step", "acc", "brief"))
    assert table["group"].n_unique() == WANTED["group"].n_unique()


# --- packed ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("pack", "ending"), [(gzip.compress, "gz"), (zstd, "zst")])
@pytest.mark.parametrize("kind", PLAIN)
def test_a_packed_file_is_read_as_the_file_in_it_wherever_it_lies(tmp_path, pack, ending, kind):
    content, name = pack(PLAIN[kind]), f"log.{kind}.{ending}"
    (tmp_path / name).write_bytes(content)
    same(read_run(tmp_path / name))
    same(read_run(tmp_path))  # a directory
    same(read_run({name: content}))
    same(read_run({"log": content} if kind in ("jsonl", "json", "parquet") else {f"log.{kind}": content}))
    archive = tmp_path / "up.zip"
    with zipfile.ZipFile(archive, "w") as zipped:
        zipped.writestr(f"run/{name}", content)
    same(read_run(archive))
    same(read_run({"up.zip": archive.read_bytes()}))
    assert read_run(tmp_path / name).files == (str(tmp_path / name),)


def test_a_file_of_several_packed_parts_is_read_whole():
    head, rest = PLAIN["csv"][:40], PLAIN["csv"][40:]
    for pack in (gzip.compress, zstd):
        same(read_run({"a.csv": pack(head) + pack(rest)}))


def test_the_logs_of_frameworks_are_found_packed(tmp_path):
    line = {"input": "q", "output": "o", "score": 1.0, "acc": 1.0, "step": 1}
    for step in (1, 2, 10):
        lines = (json.dumps(line | {"step": step, "acc": float(i % 3 == 0), "score": i % 3 == 0}) for i in range(4))
        (tmp_path / f"{step}.jsonl.gz").write_bytes(gzip.compress("\n".join(lines).encode()))
    run = read_run(tmp_path)
    assert run.framework == "verl" and [name.rpartition("/")[2] for name in run.files] == [
        "1.jsonl.gz",
        "2.jsonl.gz",
        "10.jsonl.gz",
    ]
    (tmp_path / "10.jsonl").write_bytes(b"{}\n")  # as `gzip -k` leaves it
    with pytest.raises(gc.InputError, match=r"expected each file of a log once, got 10\.jsonl both packed and not"):
        read_run(tmp_path)


@pytest.mark.parametrize("place", ["disk", "memory", "zip"])
@pytest.mark.parametrize(("pack", "ending"), [(gzip.compress, "gz"), (zstd, "zst")])
def test_a_bomb_is_one_sentence(monkeypatch, tmp_path, pack, ending, place):
    monkeypatch.setattr(unpack, "FREE", 10_000)
    content = pack(PLAIN["csv"] + b"1,a,1,0.5\n" * 50_000)
    name = f"a.csv.{ending}"
    assert len(content) * unpack.MAX_RATIO < 500_000
    (tmp_path / name).write_bytes(content)
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as zipped:
        zipped.writestr(name, content)
    source = {"disk": tmp_path / name, "memory": {name: content}, "zip": {"up.zip": archive.getvalue()}}[place]
    with pytest.raises(gc.InputError, match=rf"{name}: expected at most [\d,]+ bytes unpacked, got more$"):
        read_run(source)


@pytest.mark.parametrize(("name", "most"), [("MAX_IN_MEMORY", "memory"), ("MAX_BYTES", "disk")])
def test_no_file_unpacks_to_more_than_a_log_may_hold(monkeypatch, tmp_path, name, most):
    monkeypatch.setattr(log_files, name, 100)
    content = gzip.compress(PLAIN["csv"])
    (tmp_path / "a.csv.gz").write_bytes(content)
    with pytest.raises(gc.InputError, match=r"a\.csv\.gz: expected at most 100 bytes unpacked, got more"):
        read_run({"a.csv.gz": content} if most == "memory" else tmp_path / "a.csv.gz")


@pytest.mark.parametrize("pack", [gzip.compress, zstd])
def test_a_packed_file_that_is_cut_or_damaged_is_one_sentence_at_every_byte(pack):
    content = pack(PLAIN["csv"])
    for end in range(5, len(content)):
        with pytest.raises(gc.InputError, match=r"a\.csv\.p: expected .*, got "):
            read_run({"a.csv.p": content[:end]})
    with pytest.raises(gc.InputError, match=r"a\.csv: expected .*, got "):
        read_run({"a.csv": content + b"more"})


def test_without_the_library_for_zstd_one_sentence_names_it(monkeypatch):
    content = zstd(PLAIN["csv"])
    monkeypatch.setitem(sys.modules, "zstandard", None)
    monkeypatch.setitem(sys.modules, "compression", None)
    with pytest.raises(gc.InputError, match=r"a\.csv\.zst: expected the library zstandard.*: pip install zstandard"):
        read_run({"a.csv.zst": content})


def test_the_module_of_python_3_14_is_used_where_it_is(monkeypatch):
    zstandard = pytest.importorskip("zstandard")
    of_python = types.SimpleNamespace(ZstdDecompressor=lambda: zstandard.ZstdDecompressor().decompressobj())
    monkeypatch.setitem(sys.modules, "compression", types.ModuleType("compression"))
    monkeypatch.setitem(sys.modules, "compression.zstd", of_python)
    content = zstd(PLAIN["csv"])
    monkeypatch.setitem(sys.modules, "zstandard", None)
    same(read_run({"a.csv.zst": content}))


# --- encodings -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-8-sig"])
@pytest.mark.parametrize("kind", TEXT)
def test_text_in_other_encodings_is_read(tmp_path, encoding, kind):
    content = TEXT[kind].encode(encoding)
    same(read_run({f"a.{kind}": content}))
    same(read_run({f"a.{kind}": gzip.compress(content)}))
    (tmp_path / f"a.{kind}").write_bytes(content)
    same(read_run(tmp_path))


def test_prompts_in_utf16_come_as_they_are():
    text = csv_of().replace(",a,", ",“ü\u2028 中”,")
    same(read_run({"a.csv": text.encode("utf-16")}))


@pytest.mark.parametrize("content", [TEXT["csv"].encode("utf-16")[:-1], b"\xff\xfe" + b"\0\xd8" * 20])
def test_broken_utf16_is_one_sentence(content):
    with pytest.raises(gc.InputError, match=r"a\.csv: expected UTF-16 text, as it begins, got other bytes"):
        read_run({"a.csv": content})


# --- separators and decimal commas -----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["csv", "tsv"])
@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
def test_the_separator_is_found_in_the_header(kind, separator):
    same(read_run({f"a.{kind}": csv_of(separator).encode()}))
    quoted = (
        csv_of(separator)
        .replace("group", '"group"')
        .replace(f"{separator}a{separator}", f'{separator}"a,;\t|"{separator}')
    )
    same(read_run({f"a.{kind}": b"\xef\xbb\xbf" + quoted.encode()}))
    same(read_run({f"a.{kind}": csv_of(separator).replace("\n", "\r\n").encode("utf-16")}))


def test_a_wrong_number_of_values_is_named_under_any_separator():
    with pytest.raises(gc.InputError, match=r"a\.csv, line 3: expected 4 values, one per column, got 5"):
        read_run({"a.csv": csv_of(";").replace("\n1;a;0;0.9", "\n1;a;0;0.9;7").encode()})


def test_one_column_is_one_column():
    run = read_run({"a.csv": b"acc\n" + b"1\n0\n" * 8}, group_size=4)
    assert run.rewards == ("acc",) and run.table.height == 16


@pytest.mark.parametrize("separator", [";", "\t", "|"])
def test_decimal_commas_are_read_where_they_are_clear(separator):
    same(read_run({"a.csv": csv_of(separator, ",").encode()}))
    three = csv_of(separator).replace("0.5\n", "0,500\n").replace("0.9\n", "0,900\n").replace("1.2\n", "1,200\n")
    same(read_run({"a.csv": three.encode()}))  # 0,500 is no number of thousands, so 1,200 is none either


@pytest.mark.parametrize("values", [("1,000", "2,000"), ("-1,000", "12,500"), ("0,5", "1.5")])
def test_commas_that_may_mean_thousands_are_asked_about(values):
    rows = "".join(f"1;a;{values[i % 2]}\n" for i in range(8))
    wanted = r"a\.csv, column 'acc': expected numbers with a decimal point, got '[-\d,]+', whose comma may be"
    with pytest.raises(gc.InputError, match=wanted):
        read_run({"a.csv": f"step;group;acc\n{rows}".encode()}, rewards="acc")


def test_texts_with_commas_are_no_numbers():
    rows = "".join(f"1;a;{i % 2};yes, {i}\n" for i in range(8))
    assert read_run({"a.csv": f"step;group;acc;grade\n{rows}".encode()}).rewards == ("acc",)


# --- files that cannot be read ---------------------------------------------------------------------------------------


def steps(tmp_path, kind="parquet", count=4):
    """A directory with a file per step, and the names of the files."""
    for step in range(1, count + 1):
        table = WANTED.with_columns(step=step + WANTED["step"] * 0, group=WANTED["group"].cast(str))
        path = tmp_path / f"rows_{step}.{kind}"
        table.write_parquet(path) if kind == "parquet" else table.write_csv(path)
    return sorted(tmp_path.iterdir())


@pytest.mark.parametrize("kind", ["parquet", "csv"])
@pytest.mark.parametrize("bad", [b"", b"PAR1 and no more", b"step,group,acc,brief\n2,a,1"])
def test_files_that_cannot_be_read_are_left_out_counted_and_named(tmp_path, capsys, kind, bad):
    names = list(map(str, steps(tmp_path, kind)))
    whole = read_run(tmp_path)
    assert whole.skipped_files == () and len(whole.files) == 4 and whole.table.height == 4 * len(ROWS)
    (tmp_path / f"rows_2.{kind}").write_bytes(bad)
    with pytest.raises(gc.InputError, match=rf"^{names[1]}.*expected .*; with skip_bad_files \(--skip-bad-files\) it"):
        read_run(tmp_path)
    run = read_run(tmp_path, skip_bad_files=True)
    assert run.skipped_files == (names[1],) and list(run.files) == [names[0], *names[2:]]
    assert run.table.equals(whole.table.filter(whole.table["step"] != 2).with_columns(run.table["group"]))
    report = gc.audit(run)
    assert report.source["skipped_files"] == [names[1]] and report.source["files"] == 3
    for arguments, status in ((), 2), (("--skip-bad-files",), 0):
        with pytest.raises(SystemExit) as ended:
            cli.main(["audit", str(tmp_path), *arguments])
        assert ended.value.code == status
    said = "".join(capsys.readouterr().out.split())
    assert "".join(f"1 unreadable file left out: {names[1]}".split()) in said


def test_where_no_file_can_be_read_the_first_says_why(tmp_path):
    for name in ("rows_1.csv", "rows_2.csv"):
        (tmp_path / name).write_bytes(b"")
    with pytest.raises(gc.InputError, match=r"rows_1\.csv: expected a log, got an empty file$"):
        read_run(tmp_path, skip_bad_files=True)


def test_a_file_with_other_columns_can_be_read_and_is_not_left_out(tmp_path):
    steps(tmp_path, "csv", 2)
    (tmp_path / "rows_2.csv").write_text("step,group,other\n2,1,0.5\n")
    for skip in (False, True):
        with pytest.raises(gc.InputError, match=r"rows_\d\.csv: expected the columns of") as error:
            read_run(tmp_path, skip_bad_files=skip)
        assert "skip_bad_files" not in str(error.value)


def test_a_file_of_texts_alone_can_be_read_and_is_no_bad_file(tmp_path):
    for step in (1, 2):
        (tmp_path / f"rows_{step}.csv").write_text("group,said\na,yes\n")
    with pytest.raises(gc.InputError, match="at least one column of numbers that is a reward"):
        read_run(tmp_path, skip_bad_files=True)


def test_one_file_alone_is_never_left_out(tmp_path):
    (tmp_path / "a.csv").write_text("a,b\n1\n")
    for skip in (False, True):
        with pytest.raises(gc.InputError, match=r"line 2: expected 2 values, one per column, got 1$"):
            read_run(tmp_path / "a.csv", skip_bad_files=skip)
