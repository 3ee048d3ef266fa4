"""Refusals of what cannot be read, in one line that names the file, the row and the column: a table for all readers."""

import gzip
import io
import json
import re
import zlib

import numpy as np
import polars as pl
import pytest
from fake_logs import generic_frame, make_steps, write_trl
from hypothesis import given
from hypothesis import strategies as st
from logs import (
    EVENT,
    NAMES,
    VERL,
    episode,
    episodes,
    in_form,
    lines,
    parquet,
    refused,
    reward,
    rows,
    table,
    trace,
    trl,
    zip_of,
    zip_of_folder,
)

import gdpo_audit as ga
import gdpo_core as gc
from gdpo_audit.logs.files import files as log_files

BATCH = trl()
CSV = "group,acc,fmt\na,1,0\na,0,1\nb,1,1\nb,0,0\n"
GROUPS = {"group": [1, 1, 2, 2]}
SKIP = {"skip_bad": True}
NESTED = [{"accuracy": {"score": 1.0}, "format": {"score": 0.0}}] * 4
WANDB = '{"columns": ["step", "prompt", "completion", "acc"], "data": %s}'
WIDE = pl.DataFrame({"group": [1] * 8} | {f"c{k}": [float(k % 7)] * 8 for k in range(3_000)})
SIXTH = pl.when(pl.int_range(pl.len()) == 5)


def no(log, message: str, then: dict | None = None, **options):
    """Return a case of a log that is refused with this message. then: options with which it is read after all, if there
    are any; options: those with which it is refused.
    """
    return pytest.param(log, message, then, options, id=message)


def csv(old: str = "", new: str = "") -> dict[str, bytes]:
    return {"a.csv": CSV.replace(old, new).encode() if old else CSV.encode()}


def jsonl(*items) -> dict[str, bytes]:
    return {"a.jsonl": lines(*items)}


def of_wandb(content: str) -> dict[str, bytes]:
    return {"x.table.json": content.encode()}


def of_trl(first: bytes, second: bytes) -> dict[str, bytes]:
    return {"completions_1.parquet": first, "completions_2.parquet": second}


def seeds(kind: str, steps: int) -> dict[str, bytes]:
    tables = (generic_frame(make_steps(steps, seed=seed), NAMES) for seed in (0, 1))
    return {f"seed{seed}.{kind}": in_form(kind, frame) for seed, frame in enumerate(tables)}


def with_change(change) -> dict[str, bytes]:
    """Return a log of verifiers in which the episode of the fourth line is changed."""
    return episodes(lambda number, one: change(one) if number == 3 else None)


PARQUET = [
    no({"a.parquet": b""}, r"a\.parquet: expected .* got an empty file"),
    no({"a.parquet": BATCH[:900]}, r"a\.parquet: expected a whole Parquet file"),
    no({"a.parquet": BATCH[9:]}, r"a\.parquet: expected a (whole )?Parquet file, got "),
    no({"a.parquet": parquet(pl.read_parquet(io.BytesIO(BATCH)).head(0))}, "one response, got 0 rows"),
    no({"a.parquet": trl(format=pl.lit("good"))}, "row 1: .*'format'.*'good'", rewards=["format"]),
    no({"a.parquet": trl(**dict.fromkeys(NAMES, pl.lit(None, pl.Float64)))}, "accuracy, format, .* every one missing"),
    no({"a.parquet": BATCH}, "expected a column 'acc', got step, prompt", rewards=["acc"]),
    no(rows(8, **{"": lambda i: i % 2}, step=lambda i: 1, completion=str), "named: --reward acc --reward '', got"),
    no(rows(8, **{"gdpo::row": lambda i: i}), "expected columns of other names, got one called 'gdpo::row'"),
    no({"a.parquet": BATCH}, r"a\.parquet: .* groups of 5 divide, got 32", group_size=5),
    no({"a.parquet": BATCH}, "group_size: expected a whole number from 1 to .*, got 0", group_size=0),
    no({"a.parquet": BATCH}, "group_size: expected a whole number from 1 to .*, got 10{30}$", group_size=10**30),
    no({"a.parquet": BATCH}, "last: expected a whole number from 1 to .*, got 10{30}$", last=10**30),
    no({"a.parquet": BATCH}, "steps: expected steps of at most 64 bits, got .None, 10{30}.$", steps=(None, 10**30)),
    *[no({"a.parquet": BATCH}, "rewards: expected names of columns, got ", rewards=rewards)
      for rewards in (5, [], {}, {"accuracy": 1.0}, {"accuracy"}, ["accuracy", None], np.array(5), iter(["accuracy"]))],
    no({"a.parquet": BATCH}, "rewards: expected each column once, got", rewards=["accuracy", "accuracy"]),
    *[no({"a.parquet": BATCH}, "group: expected the name of a column, got ", group=group)
      for group in ([], (), "", [""], [None], {"prompt"}, 5, np.array(["prompt"]))],
    *[no({"a.parquet": BATCH}, "skip_bad: expected True or False, got ", skip_bad=odd)
      for odd in ("yes", 1, None, pl.Series([True]))],
    no({"a.parquet": trl(prompt=None, advantage=None)}, "can be told from .* give group_size", {"group_size": 4}),
    no({"a.parquet": trl(t=pl.concat_list("step"))}, r"a\.parquet: expected", columns={"step": "t"}),
    no({"a.parquet": parquet(table(8).with_columns(step=pl.concat_list("acc")))}, "whole numbers .*'step', got List"),
    no({"a.parquet": parquet(table(8).with_columns(step=pl.date(2026, 1, 2)))}, "whole numbers .*'step', got Date"),
    *[no({"a.parquet": trl(**{name: SIXTH.then(value).otherwise(0.5)})}, rf"row 6, step 1: .* '{name}', .* got {value}")
      for name in ("accuracy", "advantage") for value in (float("inf"), float("-inf"))],
]  # fmt: skip
TEXTS = [
    no({"a.csv": bytes(range(256)) * 9}, r"a\.csv, line"),
    no({"a.csv": b"a,b\nx,y\n"}, r"a\.csv: expected at least one column of numbers"),
    no({"a.csv": b"a,a\n1,2\n"}, r"a\.csv: expected columns of different names, got 'a'"),
    no({"a.csv": b"acc,group\n1,0\noops,0\n1,0\n"}, r"a\.csv, row 2: .*'acc', got 'oops'"),
    no({"a.csv": b"acc,group\n1,\xe9\n"}, r"a\.csv, line 2: expected UTF-8"),
    no({"a.csv": b"acc\n1\n0\n"}, "give group_size", {"group_size": 2}),
    no({"a.csv": b"acc,group\n1,a\n0,\n"}, r"a\.csv, row 2: expected a value in every row of 'gro"),
    no({"a.csv": b"acc,group,t\n1,a,one\n"}, r"a\.csv, row 1: expected whole numbers .* got 'one'",
        columns={"step": "t"}),
    no(csv("a,0,1", "a,0"), r"a\.csv, line 3: expected 3 values, one per column, got 2"),
    no({"a.csv": CSV.replace("a,1,0", '"a\n\n,",1,0').replace("b,1,1", '"b",1').encode()},
        r"a\.csv, line 6: expected 3 values, one per column, got 2"),
    no(csv("b,1,1", '"b,1,1'), r"a\.csv, line 4: expected CSV, got unexpected end of data"),
    no(csv("\n", "\r"), r"a\.csv, line 1: expected lines that end in"),
    no(csv("group,acc,fmt\n", ""), r"a\.csv, line 1: expected names of columns, got the number 1"),
    no({"a.csv": CSV.replace("acc", "é").encode("latin1")}, r"a\.csv, line 1: expected UTF-8 text"),
    no({"a.csv": b"\0" * 9000}, r"a\.csv, line 1: expected CSV, got bytes that are no text"),
    no({"a.csv": b"group,acc,fmt\n"}, r"a\.csv: expected at least one response, got 0 rows"),
    no({"a.csv": b"acc\n1\n\n0\n1\n"}, "expected a value in every line, got an empty line"),
    *[no(csv(",0\n", f",{text}\n"), "column 'fmt'.* got text '{}'".format(text.strip('"')))
      for text in ("0%", '"2,000"', "TRUE")],
    *[no({"a.csv": f"step;group;acc\n{f'1;a;{a}{chr(10)}1;a;{b}{chr(10)}' * 4}".encode()},
        r"a\.csv, row 1: expected a number in 'acc', got '[-\d,.]+' ",
        rewards="acc") for a, b in (("1,000", "2,000"), ("-1,000", "12,500"), ("0,5", "1.5"))],
    *[no({name: CSV.encode("utf-16")}, rf"{re.escape(name)}: expected a log, got UTF-16; save it as UTF-8$")
      for name in ("a.csv", "a.jsonl")],
    no({"a.csv.zst": b"(\xb5/\xfd and more"}, r"a\.csv\.zst: expected a log, got zstd; unpack it$"),
    # polars would unpack these without a limit.
    *[no({f"a.{kind}": pack(b"acc,group\n1,1\n")}, rf"a\.{kind}: expected a log, got .*; unpack")
      for kind in ("csv", "jsonl", "json", "parquet", "tsv")
      for pack in (lambda content: gzip.compress(gzip.compress(content)), zlib.compress)],
    no({"a.csv": b"Monday\n1,2,3\n4,5,6\n"}, r"a\.csv, line 2: expected 1 values, one per column, got 3"),
    # These columns hold text although they are called rewards, or numbers inside what made them.
    *[no({"a.csv": in_form("csv", table(8, **{name: lambda i, t=text: t}))},
        f"column '{name}': expected numbers, got text", {"rewards": "acc"}) for name, text in
      (("judge_score", "7/10"), ("style_reward", "good"), ("fmt", "tensor(0.5)"), ("a", "Decimal('1')"),
       ("b", "0,5"))],
    # These advantages differ from token to token, or are no numbers.
    *[no(log, "row 2: expected one number per response in 'advantages', got .*lists of different numbers per token")
      for items in [rows(8, advantages=lambda i: [0.5] if i != 1 else [0.5, 0.25])]
      for log in (jsonl(*items), {"a.json": json.dumps(items).encode()}, {"a.parquet": parquet(pl.DataFrame(items))})],
    no({"a.csv": in_form("csv", table(8, adv=lambda i: "up"))}, "row 1: expected a number in 'adv', got 'up'"),
    no({"notes.txt": b"hello"}, r"notes\.txt: expected a file that ends in"),
    no({"a.jsonl": lines(VERL) + b'{"a": "\xff"}\n'}, r"a\.jsonl, line 2: .* not UTF-8"),
    no({"a.json": b"5"}, r"a\.json: expected an array of objects"),
    no({"a.json": b'{"acc": [1, 0], "group": [0, 0]}'}, r"a\.json: expected an array of objects, .* got one object$"),
    no({"a.jsonl": b"x\ny\n"}, r"a\.jsonl: expected at least one response", skip_bad=True),
    no(jsonl(*rows(8, fmt=lambda i: i % 2), '{"rewards":'), r"line 9: expected a JSON object", SKIP),
    no(jsonl(*rows(8, step=lambda i: "two" if i == 2 else "1")), r"row 3: expected whole .*'step', got 'two'"),
    *[no(jsonl(*rows(8, advantage=lambda i: str(i))), "row 1: expected a number in 'advantage', got '0'", **options)
      for options in ({}, {"rewards": "acc"})],
]  # fmt: skip
EPISODES = [
    (lambda e: e.update(traces=5), "expected an episode of verifiers in every row, with traces and"),
    (lambda e: e["traces"][0].update(rewards=[1]), "expected an episode of verifiers .* rewards by name, got String"),
    (lambda e: e["traces"][0]["rewards"].update(right=1.0), "of verifiers in every row, with a score in 'right'"),
    (lambda e: e["traces"][0]["rewards"]["right"].update(score="x"), "in traces.rewards.right.score, got S"),
    (lambda e: e["traces"][0]["rewards"]["right"].update(score=1e999), "row 4.*: expected finite .*'right', .*got inf"),
    *[
        (
            lambda e, w=w: e["traces"][0]["rewards"]["right"].update(weight=w),
            f"finite numbers in the weights of right, {i}",
        )
        for i, w in (("got", 1e999), ("got others", float("nan")))
    ],
    (lambda e: e["run"]["work"].update(step=2**63), "row 4: expected whole numbers .*got 9223372036854775808"),
    (lambda e: e.pop("run"), r"row 4: expected whole numbers in .*'run\.work\.step', got None"),
    (lambda e: (e.pop("group"), e.update(task={})), r"row 4: expected a value in every row of 'group\.id'"),
    (lambda e: e["traces"][0]["rewards"].update({"group.id": reward(1)}), "expected rewards and metrics of other"),
    *[
        (lambda e, n=n: e["traces"][0]["rewards"].update({n: reward(1)}), f"one called {re.escape(repr(n))}")
        for n in ("*", "^x$")
    ],
    (lambda e: e["traces"][0]["nodes"][1].update(advantages=[float("inf")]), "expected finite numbers in"),
]
FRAMEWORKS = [
    no({"a.parquet": BATCH}, "one of trl .*generic, got 'trlx'", framework="trlx"),
    no(jsonl(VERL), r"a\.jsonl: expected ms-swift's columns", framework="ms_swift"),
    no({"a.parquet": trl(step=None)}, r"a\.parquet: expected TRL's columns step", framework="trl"),
    no(jsonl(EVENT), r"a\.jsonl: expected verl's columns input, output", framework="verl"),
    no(jsonl(EVENT), r"a\.jsonl: expected NeMo-RL's column rewards", framework="nemo_rl"),
    no(jsonl(VERL, VERL, VERL | {"acc": "x"}), r"a\.jsonl, row 3: .*'acc', got 'x'"),
    no(jsonl(VERL, VERL | {"acc": float("inf")}), "expected finite .*'acc'.* got inf"),
    no(jsonl(*[VERL] * 6), r"a\.jsonl: expected groups of 4 rows by the column input, got 6 in step 7", group_size=4),
    no(jsonl(EVENT | {"step": 1}), "expected lists of one length, also in 'step', got 1", framework="ms_swift"),
    no(jsonl({name: [] for name in EVENT}), "lists that are empty in 1"),
    no(jsonl(EVENT, EVENT | {"acc": [1.0]}), "row 2: expected lists of one length, got 2 in 'step', 1 in 'acc'"),
    no(jsonl(EVENT, EVENT | {"acc": [1, "x"]}), "row 4: expected a number in 'acc', got 'x'"),
    no(jsonl({"content": [["q", "a"]], "rewards": [1.0, 0.0]}), r"a\.jsonl, row 1: expected lists of one length"),
    *[no(with_change(change), rf"traces\.jsonl.*{message}") for change, message in EPISODES],
    no(jsonl(episode([trace({"a": reward(1)}, trainable=False)], 1, "g")),
        "a trace of an agent that is trained, got n"),
    *[no(jsonl(episode([trace({}, metrics)], 1, "g")), f"at least one column of numbers that is a .*got {came}")
      for metrics, came in ((None, "no columns"), ({"words": 3.0}, "words"))],
    no(episodes(), "expected a column 'no', got right, short$", rewards="no"),
    no(of_wandb("[1, 2]"), r"x\.table\.json: expected a table of W&B, .* of another form"),
    no(of_wandb('{"rows": []}'), "expected a table of W&B, .* of another form"),
    no(of_wandb(WANDB % "[[1, 2"), "expected a table of W&B, .* got broken JSON"),
    no(of_wandb(WANDB % "[[1, 2, 3, 4], [1]]"), r"x\.table\.json, row 2: expected 4 values, got 1"),
    no(of_wandb('{"columns": ["step"], "data": [1]}'), "row 1: expected 1 value, got int"),
    no(of_wandb('{"columns": ["a", "a"], "data": []}'), "of different names, got 'a' more than once"),
    no(of_wandb(WANDB % '[[1, "p", "c", 1.0], [1, "p", "c", 0], [1, "p", "c", "bad"]]'),
        r"x\.table\.json, row 3: expected a number in 'acc', got 'bad'", group_size=2),
    no(of_wandb(WANDB % '[["1", "p", "c", Infinity], ["1", "p", "c", 1]]'), "row 1, step 1: expected finite .*'acc'",
        group_size=2),
]  # fmt: skip
SEVERAL = [
    no({}, "path: expected at least one file"),
    no({"1.jsonl": lines(VERL), "completions_1.parquet": BATCH}, "the log of one run, got several.*TRL.*verl"),
    no(of_trl(trl(), trl(format=None)), r"_2.parquet: expected the columns of .*_1.parquet.*: format only in .*_1"),
    no(of_trl(trl(), trl(format=pl.lit("x"))), r"_2\.parquet: expected numbers in 'format', as in .*_1\.pa"),
    *[no(of_trl(trl(style=pl.lit(one)), trl(style=pl.lit(0.5))), r"_1\.parquet: expected numbers in 'style', as in ")
      for one in ("1", "good")],
    *[no(of_trl(trl(), trl(step=pl.lit(2), style=pl.lit(extra))), r"_1.*: style only in .*_2\.parquet",
        {"rewards": "accuracy"}) for extra in (1, True, 0.5)],
    *[no({f"a.{kind}": in_form(kind, table(8)), f"b.{kind}": in_form(kind, table(8, style=of))},
        rf"a\.{kind}: expected the columns of .*b\.{kind}, got others: style only in", {"rewards": "acc"})
      for kind in ("parquet", "csv", "jsonl") for of in (lambda i: i % 2, lambda i: i % 2 == 0, lambda i: i / 3)],
    no({"1.jsonl": lines(VERL, VERL), "2.jsonl": lines({k: v for k, v in VERL.items() if k != "acc"})},
        r"2\.jsonl: expected the columns of .*1\.jsonl, got others: acc only in"),
    no({"1.jsonl": lines(*[VERL] * 4), "2.jsonl": lines(*[VERL | {"tool": 0.5}] * 4)},
        r"1\.jsonl: expected the columns of .*2\.jsonl, got others: tool only in", {"rewards": "acc"}),
    *[no(seeds(kind, steps), r"seed1\.\w+: expected the log of one run, got step 1 .*seed0")
      for kind in ("csv", "parquet") for steps in (1, 3)],
]  # fmt: skip
ZIPS = [
    *[no({"up.zip": zip_of({name: BATCH})}, rf"up\.zip: {re.escape(repr(name))}: .* leads elsewhere")
      for name in ("../a.parquet", "a/../../b.parquet", "/tmp/a.parquet", "C:/a.parquet", "a\\..\\..\\b.parquet", ".")],
    no({"up.zip": zip_of({"": b"x"})}, r"up\.zip: expected files with names, got one without"),
    no({"up.zip": zip_of({"a.parquet": b"x"}, external_attr=0o120777 << 16)}, r"up\.zip: .* symbolic link"),
    no({"up.zip": zip_of({"a.zip": zip_of({"a.parquet": BATCH})})}, r"up\.zip: 'a\.zip': .* zip inside the zip"),
    no({"up.zip": zip_of({"1.jsonl": b"0" * 30_000_000})}, r"'1\.jsonl': expected at most 200 times .* 30,000,000"),
    no({"up.zip": zip_of({})}, r"up\.zip: .* an empty one"),
    no({"up.zip": zip_of({"a.parquet": BATCH})[:500]}, r"up\.zip: expected a zip"),
    no({"up.zip": zip_of({"notes.txt": b"x"})}, r"up\.zip: expected a log"),
]  # fmt: skip
EXTRA = "expected one column of numbers per reward, got nested values"
TABLES = [
    no(3, r"path: expected a path, several paths, .*or a table \(polars, pandas, Arrow or a list of dicts\)"),
    no(pl.Series([1.0]), "path: expected .* got Series"),
    no([{"a": 1}, 3], "path: expected .* got list"),
    no([], "path: expected at least one file, got none"),
    no(pl.DataFrame({"group": [], "a": []}), "table: expected at least one"),
    no(pl.DataFrame(GROUPS | {"rewards": NESTED}), f"'rewards': {EXTRA} of accuracy and f"),
    no(pl.DataFrame(GROUPS | {"rewards": NESTED}), "row 1: expected a number in 'rewards'", rewards="rewards"),
    *[no(log, f"column 'rewards': {EXTRA}")
      for value in ([1.0, 0.0], {"a": {"score": 1.0, "weight": 1.0}, "b": {"score": 0.0, "weight": 1.0}})
      for items in [rows(8, rewards=lambda i, value=value: value)]
      for log in (items, pl.DataFrame(items), jsonl(*items), {"a.json": json.dumps(items).encode()})],
    no([{"group": 1, "a": 1}, {"group": 1, "a": "bad"}, {"group": 1, "a": 0}],
        "table, row 2: expected a number in 'a', got 'bad'"),
    no([{1: 2}], "table: expected texts as names of columns, got 1"),
    no(pl.LazyFrame({"a": [1]}).select("b"), "table: expected a table whose columns polars can"),
    # These numbers are written as text. No column of numbers goes missing without a word.
    no(jsonl(*rows(8, fmt=lambda i: str(i / 4))), "column 'fmt': expected numbers, got text '0.0'", {"rewards": "acc"}),
    no({"completions_1.parquet": trl(fmt=pl.lit("0.5"))}, "column 'fmt': expected", {"rewards": "accuracy"}),
    *[no({f"a.{kind}": in_form(kind, table(8, fmt=lambda i: i % 2).rename({"acc": name}))},
        "columns of other names, got one called " + re.escape(repr(name)))
      for name in ("*", "^.*$", "^x$") for kind in ("parquet", "csv", "jsonl")],
    no(rows(8), "table: expected a column 'nope', got ", columns={"step": "nope"}),
    no(rows(8), "columns: expected a column of its own for each", columns=dict(advantage="acc"), rewards="acc"),
    no(WIDE, "100 rewards; .* --reward c0, got 3000 columns of numbers: c0, c1, c2, …", {"rewards": ["c1"]}),
]  # fmt: skip
PATHS = [
    *[no(path, "^path: expected ") for path in (None, "", "a\0b", b"x", {"a": "text"}, [3])],
    *[no(path, "expected a file or directory, got nothing") for path in ("no/such/file", "nothing*.parquet")],
    no("~nobody-of-this-name/log", "~nobody-of-this-name/log: expected a file or directory"),
    no("HF://nothing.csv", r"hf://nothing\.csv: expected Parquet behind a URL; download other files, got one of \.csv"),
    *[no(url, r"or a URL of hf://, s3:// or gs://, got one of \w+://$")
      for url in ("https://x.y/z.parquet", "az://x/y.parquet", "file:///tmp/x.parquet")],
]  # fmt: skip


@pytest.mark.parametrize("log, message, then, options", PARQUET + TEXTS + FRAMEWORKS + SEVERAL + ZIPS + TABLES + PATHS)
def test_what_cannot_be_read_is_refused_in_one_line(log, message, then, options):
    """Some of these logs can be read if the caller says more."""
    refused(log, message, **options)
    if then:
        run = ga.read_run(log, **then)
        assert run.table.height and set(run.rewards) >= {*np.atleast_1d(then.get("rewards", []))}


def test_an_encrypted_member_is_refused():
    content = bytearray(zip_of({"a.parquet": BATCH}))
    content[6] |= 1
    content[content.find(b"PK\x01\x02") + 8] |= 1
    refused({"up.zip": bytes(content)}, r"'a\.parquet': expected a file that is not encrypted")


def test_bytes_are_counted_as_they_unpack_since_headers_lie(monkeypatch):
    monkeypatch.setattr(log_files, "FREE", 1000)
    content = bytearray(zip_of({"7.jsonl": lines(*[VERL | {"output": str(i)} for i in range(2000)])}))
    monkeypatch.setattr(log_files, "MAX_RATIO", 3)
    for at in (22, content.find(b"PK\x01\x02") + 24):
        content[at : at + 4] = (10).to_bytes(4, "little")
    refused({"up.zip": bytes(content)}, r"'7\.jsonl': expected")


def test_too_many_files_and_too_many_bytes_in_a_zip(monkeypatch):
    content = zip_of({f"{i}.jsonl": lines(VERL) for i in range(5)})
    monkeypatch.setattr(log_files, "MAX_FILES", 4)
    refused({"up.zip": content}, r"up\.zip: expected a zip of at most 4 files, got 5")
    monkeypatch.setattr(log_files, "MAX_FILES", 5)
    monkeypatch.setattr(log_files, "MAX_IN_MEMORY", 100)
    refused({"up.zip": content}, r"up\.zip: expected at most 100 bytes unpacked")


def test_a_file_that_is_handed_over_beside_a_log_is_not_dropped_without_a_word(tmp_path):
    write_trl(tmp_path)
    packed = zip_of_folder(tmp_path)
    beside = {"run.zip": packed, "other.csv": b"group,acc\n1,0\n1,1\n"}
    refused(beside, r"other\.csv: expected a file of the same log as run\.zip:")
    assert len(ga.read_run({"run.zip": packed, "args.json": b"{}"}).files) == 4


def test_rows_are_counted_in_their_file_where_it_is_read_in_parts(tmp_path, monkeypatch):
    monkeypatch.setattr("gdpo_audit.logs.tables.formats.ROWS_AT_ONCE", 10)
    table(40, fmt=lambda i: i % 2).write_parquet(tmp_path / "a.parquet")
    table(40, fmt=lambda i: float("inf") if i == 26 else 0.5).write_parquet(tmp_path / "b.parquet")
    refused(tmp_path, r"b\.parquet, row 27: expected finite")


def test_a_number_type_that_polars_does_not_know_is_refused():
    arrow = pytest.importorskip("pyarrow")
    wide = arrow.table({"prompt": ["a", "a"], "correct": arrow.array([1, 2]).cast(arrow.decimal256(70, 2))})
    refused(wide, "table: expected a table whose columns polars can take")


@pytest.mark.slow
@given(data=st.data(), kind=st.sampled_from(["trl", "verl", "ms_swift", "csv", "zip"]))
def test_damage_anywhere_is_read_or_refused_in_one_line(data, kind):
    name, content = {
        "trl": ("a.parquet", BATCH),
        "verl": ("a.jsonl", lines(VERL, VERL | {"input": "p"})),
        "ms_swift": ("a.jsonl", lines(EVENT, EVENT)),
        "csv": ("a.csv", in_form("csv", generic_frame(make_steps(1), NAMES))),
        "zip": ("a.zip", zip_of({"7.jsonl": lines(VERL, VERL)})),
    }[kind]
    at = data.draw(st.integers(0, len(content) - 1))
    damage = data.draw(st.binary(max_size=8))
    damaged = content[:at] + damage + content[at + data.draw(st.integers(0, 60)) :]
    try:
        assert sum(map(len, ga.read_run({name: damaged}).tables())) > 0
    except gc.InputError as error:
        assert "\n" not in str(error)
