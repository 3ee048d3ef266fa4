"""A log is read fully right, or refused in one line that names the file, the row and the column."""

import csv
import gzip
import io
import json
import os
import zipfile
import zlib
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from fake_logs import generic_frame, make_steps, write_trl, write_verl
from hypothesis import given, settings
from hypothesis import strategies as st

import gdpo_core as gc
from gdpo_core.runs.read import read_run

NAMES = ("accuracy", "format", "length_penalty")


def lines(*items) -> bytes:
    return "".join(json.dumps(item) + "\n" for item in items).encode()


def parquet(frame: pl.DataFrame) -> bytes:
    content = io.BytesIO()
    frame.write_parquet(content)
    return content.getvalue()


def rows(n: int, **columns) -> list[dict]:
    """Rows in groups of 4, with a reward and the columns given as functions of the row."""
    return [
        {"group": i // 4, "acc": float(i % 3)} | {name: value(i) for name, value in columns.items()} for i in range(n)
    ]


def table(n: int, **columns) -> pl.DataFrame:
    return pl.DataFrame(rows(n, **columns), infer_schema_length=None)


def trl_frame(step: int, **columns) -> pl.DataFrame:
    frame = generic_frame(make_steps(1), NAMES).rename({"group": "prompt"})
    return frame.with_columns(step=pl.lit(step), completion=pl.lit("x"), **columns)


# --- the files that were named, and no others ------------------------------------------------------------------------


@pytest.mark.parametrize("write", [write_verl, write_trl])
def test_a_directory_named_like_a_pattern_is_not_read_as_one(tmp_path, write):
    write(tmp_path / "r1", steps=2, seed=1)
    write(tmp_path / "r[1]", steps=2, seed=2)
    write(tmp_path / "plain", steps=2, seed=2)
    run = read_run(tmp_path / "r[1]")
    assert run.table.equals(read_run(tmp_path / "plain").table)
    assert not run.table.equals(read_run(tmp_path / "r1").table)


@pytest.mark.parametrize("kind", ["parquet", "csv", "jsonl"])
def test_a_file_named_like_a_pattern_is_not_read_as_one(tmp_path, kind):
    for name, column in (("a1", "style"), ("a[1]", "acc")):
        frame = table(8).rename({"acc": column})
        write = {"parquet": frame.write_parquet, "csv": frame.write_csv, "jsonl": frame.write_ndjson}[kind]
        write(tmp_path / f"{name}.{kind}")
    assert read_run(tmp_path / f"a[1].{kind}").rewards == ("acc",)


def test_a_file_is_read_once_however_often_and_however_it_is_spelt(tmp_path):
    write_trl(tmp_path / "o", steps=2)
    (tmp_path / "link").symlink_to(tmp_path / "o")
    once = read_run(tmp_path / "o")
    again = read_run([tmp_path / "o", tmp_path / "o" / ".." / "o", tmp_path / "link"])
    assert again.table.equals(once.table) and len(again.files) == 2


@pytest.mark.parametrize("name", ["completions_00003.parquet", "b.csv"])
def test_pipes_are_not_waited_for(tmp_path, name):
    if name.endswith("parquet"):
        write_trl(tmp_path, steps=2)
        os.mkfifo(tmp_path / "completions" / name)
    else:
        table(8).write_csv(tmp_path / "a.csv")
        os.mkfifo(tmp_path / name)
    assert len(read_run(tmp_path).table) in (8, 64)


@pytest.mark.parametrize("write", [write_verl, write_trl])
def test_a_directory_whose_name_is_no_utf8_is_read(tmp_path, write):
    folder = Path(os.fsdecode(os.fsencode(tmp_path) + b"/bad\xff"))
    write(tmp_path / "bad", steps=2, seed=2)
    try:
        (tmp_path / "bad").rename(folder)
    except OSError:
        pytest.skip("this file system has names in UTF-8 alone")
    write(tmp_path / "good", steps=2, seed=2)
    run = read_run(folder)
    assert run.table.equals(read_run(tmp_path / "good").table)
    assert all(r"bad\xff" in name for name in (run.path, *run.files))


@pytest.mark.parametrize("pack", [lambda content: gzip.compress(gzip.compress(content)), zlib.compress])
@pytest.mark.parametrize("kind", ["csv", "jsonl", "json", "parquet", "tsv"])
def test_what_polars_would_unpack_without_a_limit_is_refused_unread(pack, kind):
    with pytest.raises(gc.InputError, match=rf"a\.{kind}: expected a log, got .*; unpack it"):
        read_run({f"a.{kind}": pack(b"acc,group\n" + b"1,1\n" * 1000)})


def test_zip_members_without_a_name_are_refused():
    for name in ("", "."):
        content = io.BytesIO()
        with zipfile.ZipFile(content, "w") as archive:
            archive.writestr(zipfile.ZipInfo(name), b"x")
        with pytest.raises(gc.InputError, match=r"a\.zip"):
            read_run({"a.zip": content.getvalue()})


# --- runs that lie in one directory ----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["csv", "parquet"])
@pytest.mark.parametrize("steps", [1, 3])
def test_two_seeds_in_one_directory_are_not_one_run(tmp_path, kind, steps):
    for seed in (0, 1):
        frame = generic_frame(make_steps(steps, seed=seed), NAMES)
        (frame.write_csv if kind == "csv" else frame.write_parquet)(tmp_path / f"seed{seed}.{kind}")
    with pytest.raises(gc.InputError, match=r"seed1\.\w+: expected the log of one run, got step 1 .*seed0"):
        read_run(tmp_path)


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_groups_spread_over_the_files_of_workers_are_one_run(tmp_path, kind):
    frame = generic_frame(make_steps(3), NAMES)
    half = pl.col("group").hash() % 2
    for worker in (0, 1):
        part = frame.filter(half == worker)
        (part.write_csv if kind == "csv" else part.write_parquet)(tmp_path / f"worker{worker}.{kind}")
    run = read_run(tmp_path)
    assert run.group_size == 8 and len(run.table) == 96
    assert [n for _, n in run.table.group_by("step", maintain_order=True).len().rows()] == [32] * 3


# --- CSV -------------------------------------------------------------------------------------------------------------

TEXT = "group,acc,fmt\na,1,0\na,0,1\nb,1,1\nb,0,0\n"
CSVS = {
    "a cell too few": (TEXT.replace("a,0,1", "a,0"), r"a\.csv, line 3: expected 3 values, one per column, got 2"),
    "two too few": (TEXT.replace("b,1,1", "b"), r"a\.csv, line 4: expected 3 values, one per column, got 1"),
    "cut in a row": (TEXT[:-3], r"a\.csv, line 5: expected 3 values, one per column, got 2"),
    "a cell too many": (TEXT.replace("a,0,1", "a,0,1,2"), r"a\.csv, line 3: expected 3 values.* got 4"),
    "too few behind quotes": (
        TEXT.replace("a,1,0", '"a\n\n,",1,0').replace("b,1,1", '"b",1'),
        r"a\.csv, line 6: expected 3 values, one per column, got 2",
    ),
    "a quote left open": (TEXT.replace("b,1,1", '"b,1,1'), r"a\.csv, line 4: expected CSV, got a quote .* not closed"),
    "lines that end in \\r": (TEXT.replace("\n", "\r"), r"a\.csv, line 1: expected lines that end in"),
    "no header": (TEXT.partition("\n")[2], r"a\.csv, line 1: expected names of columns, got the number 1"),
    "a header in Latin 1": (TEXT.replace("acc", "é").encode("latin1"), r"a\.csv, line 1: expected UTF-8 text"),
    "zeros": ("\0" * 9000, r"a\.csv, line 1: expected CSV, got bytes that are no text"),
    "no rows": ("group,acc,fmt\n", r"a\.csv: expected at least one response, got 0 rows"),
    "percent": (TEXT.replace(",1\n", ",50%\n").replace(",0\n", ",0%\n"), r"column 'fmt'.* got text '0%'"),
    "thousands": (TEXT.replace(",1\n", ',"1,000"\n').replace(",0\n", ',"2,000"\n'), r"column 'fmt'.* got text '2,000'"),
    "TRUE and 1": (TEXT.replace(",0\n", ",TRUE\n"), r"column 'fmt'.* got text 'TRUE'"),
    "an empty line in one column": ("acc\n1\n\n0\n1\n", r"expected a value in every line, got an empty line"),
}


@pytest.mark.parametrize("text, message", CSVS.values(), ids=CSVS.keys())
def test_csv_that_is_not_whole_is_refused(text, message):
    with pytest.raises(gc.InputError, match=message) as caught:
        read_run({"a.csv": text if isinstance(text, bytes) else text.encode()})
    assert len(str(caught.value)) < 300 and "\n" not in str(caught.value)


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("text", [TEXT, TEXT.replace("a,", '"a, ""x""\n",')])
def test_empty_lines_are_nothing(text, end):
    whole = read_run({"a.csv": text.encode()}).table
    empty = text.replace("0\n", "0\n\n").replace("1\n", "1\n\n\n") + "\n\n"
    assert read_run({"a.csv": ("\n" + empty).replace("\n", end).encode()}).table.equals(whole)
    assert read_run({"a.csv": text.rstrip("\n").encode()}).table.equals(whole)


def test_names_of_columns_are_as_csv_quotes_them():
    text = TEXT.replace("acc", '"a""c"').replace("fmt", '"f,t"')
    assert read_run({"a.csv": text.encode()}).rewards == ('a"c', "f,t")


CELLS = st.one_of(st.sampled_from(["0", "1", "0.5", ""]), st.text("a1,\n\"' ", max_size=4))


@pytest.mark.slow
@settings(max_examples=150)  # a few records each: cheap, and the faults are rare
@given(st.lists(st.tuples(st.sampled_from(["p", "q"]), st.sampled_from("01"), CELLS), min_size=1, max_size=8))
def test_every_record_of_a_csv_is_a_row(records):
    text = io.StringIO()
    csv.writer(text).writerows([("group", "acc", "text"), *records])
    run = read_run({"a.csv": text.getvalue().encode()}, rewards=["acc"], group="group")
    found = {g: sorted(float(a) for k, a, _ in records if k == g) for g, _, _ in records}
    groups = [sorted(part["acc"].to_list()) for part in run.table.partition_by("group")]
    assert sorted(groups) == sorted(found.values())


def test_numbers_that_begin_late_in_a_csv_are_a_reward():
    late = table(20_000, late=lambda i: None if i < 15_000 else i % 2).write_csv().encode()
    run = read_run({"a.csv": late})
    assert run.rewards == ("acc", "late") and run.table["late"].is_not_nan().sum() == 5000


# --- no column of numbers goes missing -------------------------------------------------------------------------------

AS_TEXT = {
    "parquet": ({"a.parquet": parquet(table(8, fmt=lambda i: str(i / 4)))}, "a.parquet"),
    "trl": ({"completions_1.parquet": parquet(trl_frame(1, fmt=pl.lit("0.5")))}, "completions_1.parquet"),
    "jsonl": ({"a.jsonl": lines(*rows(8, fmt=lambda i: str(i / 4)))}, "a.jsonl"),
    "json": ({"a.json": json.dumps(rows(8, fmt=lambda i: str(i / 4))).encode()}, "a.json"),
}


@pytest.mark.parametrize("files, name", AS_TEXT.values(), ids=AS_TEXT.keys())
def test_numbers_written_as_text_are_refused_unless_the_rewards_are_named(files, name):
    with pytest.raises(gc.InputError, match=rf"{name}, column 'fmt': expected numbers, got text '0\.\d"):
        read_run(files)
    reward = "accuracy" if "completions" in name else "acc"
    run = read_run(files, rewards=reward)
    assert run.rewards == (reward,) and "fmt" in run.left_out


@pytest.mark.parametrize("kind", ["parquet", "jsonl", "json", "csv"])
def test_ids_and_prompts_may_be_numbers_in_text(kind):
    frame = table(8, prompt=lambda i: "12", answer=lambda i: str(i), sample_id=lambda i: str(i))
    content = {
        "parquet": lambda: parquet(frame),
        "jsonl": lambda: frame.write_ndjson().encode(),
        "json": lambda: json.dumps(frame.to_dicts()).encode(),
        "csv": lambda: frame.write_csv().encode(),
    }[kind]()
    assert read_run({f"a.{kind}": content}).rewards == ("acc",)


def test_what_is_left_out_is_named():
    kinds = {
        "category": pl.Series(["0", "1"] * 4, dtype=pl.Categorical),
        "enum": pl.Series(["0", "1"] * 4, dtype=pl.Enum(["0", "1"])),
        "list": pl.Series([[1.0]] * 8),
        "struct": pl.Series([{"score": 1.0}] * 8),
        "note": pl.Series(["good"] * 8),
        "nothing": pl.Series([None] * 8),
        "epoch": pl.Series([0.5] * 8),
    }
    run = read_run({"a.parquet": parquet(table(8, prompt=lambda i: "p").with_columns(**kinds))})
    assert run.rewards == ("acc",) and run.left_out == tuple(kinds)
    run = read_run({"completions_1.parquet": parquet(trl_frame(1, note=pl.lit("good"), l=pl.concat_list("step")))})
    assert run.rewards == NAMES and run.left_out == ("note", "l")
    mixed = TEXT.replace(",0\n", ",no\n").replace(",1\n", ",yes\n")
    assert read_run({"a.csv": mixed.encode()}).left_out == ("fmt",)
    nested = lines(*rows(8, grade=lambda i: [1.0], prompt=lambda i: [{"role": "user"}]))
    assert read_run({"a.jsonl": nested}).left_out == ("grade",)
    assert read_run({"a.csv": TEXT.encode()}).left_out == ()


@pytest.mark.parametrize("nan", [False, True])
@pytest.mark.parametrize("early", [{}, {"late": None}])
def test_a_key_that_begins_after_many_lines_of_json_is_a_reward(nan, early):
    items = [row | early for row in rows(400)] + rows(4, late=lambda i: float("nan") if nan and i == 1 else i)
    run = read_run({"a.jsonl": lines(*items)})
    assert run.rewards == ("acc", "late")
    expected = [np.nan] * 400 + [0, np.nan if nan else 1, 2, 3]
    by_group = run.table["late"].to_list()
    assert sorted(x for x in by_group if x == x) == sorted(x for x in expected if x == x)
    assert sum(x != x for x in by_group) == sum(x != x for x in expected)


def test_numbers_and_booleans_of_json_lines_are_the_same_however_they_are_read():
    items = rows(300, flag=lambda i: [True, 0, 0.5, None][i % 4])
    fast = read_run({"a.jsonl": lines(*items)}).table["flag"].to_numpy()
    np.testing.assert_array_equal(fast, [1, 0, 0.5, np.nan] * 75)


MORE = {
    "parquet": lambda frame: {"b.parquet": parquet(frame)},
    "csv": lambda frame: {"b.csv": frame.write_csv().encode()},
    "jsonl": lambda frame: {"b.jsonl": frame.write_ndjson().encode()},
}


@pytest.mark.parametrize("kind", MORE)
@pytest.mark.parametrize("extra", [lambda i: i % 2, lambda i: i % 2 == 0, lambda i: i / 3])
def test_a_reward_in_the_second_file_alone_is_refused(kind, extra):
    first = {name.replace("b.", "a."): content for name, content in MORE[kind](table(8)).items()}
    with pytest.raises(gc.InputError, match=rf"a\.{kind}: expected the columns of b\.{kind}, got none named 'style'"):
        read_run(first | MORE[kind](table(8, style=extra)))
    assert read_run(first | MORE[kind](table(8, style=extra)), rewards="acc").rewards == ("acc",)


@pytest.mark.parametrize("extra", [pl.lit(1), pl.lit(True), pl.lit(0.5)], ids=["int", "bool", "float"])
def test_a_reward_in_the_second_file_of_trl_alone_is_refused(extra):
    files = {f"completions_{i}.parquet": parquet(trl_frame(i, **({"style": extra} if i == 2 else {}))) for i in (1, 2)}
    with pytest.raises(gc.InputError, match=r"completions_2.*: style only in completions_2\.parquet"):
        read_run(files)
    assert read_run(files, rewards="accuracy").rewards == ("accuracy",)


@pytest.mark.parametrize("first", ["1", "good"])
def test_text_in_the_first_file_of_trl_and_numbers_in_the_second_are_refused(first):
    files = {f"completions_{i}.parquet": parquet(trl_frame(i, style=pl.lit(first if i == 1 else 0.5))) for i in (1, 2)}
    with pytest.raises(
        gc.InputError, match=rf"completions_1\.parquet, row 1: expected a number in 'style', got '{first}'"
    ):
        read_run(files)


def test_advantages_as_text_are_refused():
    items = lines(*rows(8, advantage=lambda i: str(i - 1.5)))
    for options in ({}, {"rewards": "acc"}):
        with pytest.raises(gc.InputError, match=r"column 'advantage': expected numbers, got text '-1\.5'"):
            read_run({"a.jsonl": items}, **options)


# --- steps, infinities and names -------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["jsonl", "json", "parquet"])
def test_steps_as_text_are_steps(kind):
    items = rows(16, step=lambda i: str(1 + i // 8))
    content = {"jsonl": lines(*items), "json": json.dumps(items).encode(), "parquet": parquet(pl.DataFrame(items))}
    [read] = read_run({f"a.{kind}": content[kind]}).tables()
    assert read["step"].to_list() == [1] * 8 + [2] * 8 == [b + 1 for b in read["batch"].to_list()]


def test_steps_that_are_dates_or_words_are_refused():
    dates = table(8).with_columns(step=pl.date(2026, 1, 2))
    with pytest.raises(gc.InputError, match=r"a\.parquet: expected whole numbers .*'step', got Date"):
        read_run({"a.parquet": parquet(dates)})
    with pytest.raises(gc.InputError, match=r"a\.jsonl, row 3: expected whole numbers .*'step', got 'two'"):
        read_run({"a.jsonl": lines(*rows(8, step=lambda i: "two" if i == 2 else "1"))})


@pytest.mark.parametrize("name", ["acc", "advantage"])
@pytest.mark.parametrize("value", [float("inf"), float("-inf")])
def test_infinite_rewards_and_advantages_are_refused_by_row(name, value):
    sixth = pl.when(pl.int_range(pl.len()) == 5)
    frame = table(8, advantage=lambda i: i - 1.5).with_columns(sixth.then(value).otherwise(name).alias(name))
    with pytest.raises(gc.InputError, match=rf"a\.parquet, row 6: expected finite numbers in '{name}', .* got -?inf"):
        read_run({"a.parquet": parquet(frame)})


def test_rows_are_counted_in_their_file_where_it_is_read_in_parts(tmp_path, monkeypatch):
    monkeypatch.setattr("gdpo_core.runs.tables.ROWS", 10)
    table(40, fmt=lambda i: i % 2).write_parquet(tmp_path / "a.parquet")
    table(40, fmt=lambda i: float("inf") if i == 26 else 0.5).write_parquet(tmp_path / "b.parquet")
    with pytest.raises(gc.InputError, match=r"b\.parquet, row 27: expected finite"):
        list(read_run(tmp_path).tables())


@pytest.mark.parametrize("name", ["_file", "_row", "_path", "_event", "_key", "*", "^.*$"])
@pytest.mark.parametrize("kind", ["parquet", "csv", "jsonl"])
def test_names_that_columns_cannot_have_are_refused(name, kind):
    frame = table(8, fmt=lambda i: i % 2).rename({"acc": name})
    content = next(iter(MORE[kind](frame).values()))
    for options in ({}, {"rewards": [name, "fmt"]}):
        with pytest.raises(gc.InputError, match=r"columns of other names, or rewards to be named") as caught:
            read_run({f"a.{kind}": content}, **options)
        assert repr(name) in str(caught.value)
    if name not in ("*", "^.*$") or kind != "csv":
        assert read_run({f"a.{kind}": content}, rewards="fmt").rewards == ("fmt",)


def test_a_nemo_rl_line_of_unequal_lists_is_named():
    items = [{"content": [["q", "a"]], "rewards": [1.0, 0.0]}]
    with pytest.raises(gc.InputError, match=r"train_data_step1\.jsonl, line 1: expected lists of one length"):
        read_run({"train_data_step1.jsonl": lines(*items)})


def test_a_file_that_is_handed_over_beside_a_log_is_not_dropped_without_a_word(tmp_path):
    write_trl(tmp_path)
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for path in sorted(tmp_path.rglob("*.parquet")):
            archive.write(path, path.relative_to(tmp_path))
    files = {"run.zip": packed.getvalue(), "other.csv": b"group,acc\n1,0\n1,1\n"}
    with pytest.raises(gc.InputError, match=r"other\.csv: expected a file of the same log as run\.zip:"):
        read_run(files)
    assert len(read_run({"run.zip": packed.getvalue(), "args.json": b"{}"}).files) == 4
