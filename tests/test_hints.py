"""The hints in refusals: each is typed as it is printed, and leads on to a report or to another question."""

import json
import re
import shlex
import sqlite3

import polars as pl
import pytest
from fake_logs import write_trl
from logs import audit_cli, lines, parquet, rows, table, trl

CSV = b"group,acc\n1,1\n1,0\n"
LEVEL = dict(level=lambda i: i % 3)


def whole(n=16, **columns):
    """Return a log in one file of JSON lines, with these columns beside one that is clearly a reward."""
    return {"a.jsonl": lines(*rows(n, **columns))}


def write(folder, files):
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return folder


def trackio(folder):
    """Write a database of trackio with two runs, each with a table of completions, and return its path."""
    path = folder / "runs.db"
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE metrics (id INTEGER PRIMARY KEY, run_name TEXT, step INTEGER, metrics TEXT)")
        for run in ("first", "second one"):
            for step in range(1, 5):
                items = [
                    {"step": step, "prompt": "p", "completion": "c", "acc": i % 2, "advantage": 0} for i in range(4)
                ]
                logged = json.dumps({"completions": {"_type": "trackio.table", "_value": items}})
                database.execute("INSERT INTO metrics (run_name, step, metrics) VALUES (?, ?, ?)", (run, step, logged))
    return path


def two_runs(folder):
    for name in ("one", "the other"):
        write_trl(folder / name, steps=2)
    return folder


def cut(folder):
    write_trl(folder, steps=3)
    (folder / "completions/completions_00002.parquet").write_bytes(b"PAR1 cut")
    return folder


def base_reward(folder):
    frame = table(16, base_reward=lambda i: i % 2, reward=lambda i: i % 2 * 0.5 + i % 3).drop("acc")
    return write(folder, {"a.parquet": parquet(frame)})


# For each log that is refused, this holds what makes it, its options, and what the refusal says.
REFUSED = {
    "a reward or a metric": (lambda f: write(f, whole(**LEVEL)), [], "a reward or a metric: name all rewards, out of"),
    "a name that a shell reads": (
        lambda f: write(f, whole(**{"the level": LEVEL["level"], "-level": LEVEL["level"]})),
        [],
        "name all rewards, out of .*'the level' --reward=-level",
    ),
    "metrics alone": (
        lambda f: write(f, {"a.parquet": parquet(table(16, kl=lambda i: i % 3).drop("acc"))}),
        [],
        "look like metrics: kl; name those that are, of",
    ),
    "a reward in one file alone": (
        lambda f: write(f, {"1.csv": b"group,acc,fmt\n1,1,0\n1,0,1\n", "2.csv": b"group,acc\n2,1\n2,0\n"}),
        [],
        "got others: fmt only in .*; name those of all: --reward acc$",
    ),
    "numbers as text": (
        lambda f: write(f, whole(bonus=lambda i: f"{i}%")),
        [],
        "write it as numbers, or name the rewards: --reward acc$",
    ),
    "rewards in one value": (
        lambda f: write(f, {"a.parquet": parquet(table(16).with_columns(rewards=pl.concat_list("acc", "acc")))}),
        [],
        "or name the rewards: --reward acc$",
    ),
    "too many columns": (
        lambda f: write(f, {"a.parquet": parquet(table(8, **{f"c{n}": lambda i: i % 2 for n in range(101)}))}),
        [],
        "name those that are, as --reward",
    ),
    "a column without a name": (
        lambda f: write(f, {"completions_1.parquet": trl(**{"": pl.lit(0.5)})}),
        [],
        None,  # one value in every row is a setting, whatever its name
    ),
    "no groups": (
        lambda f: write(f, {"a.parquet": parquet(table(16).drop("group"))}),
        [],
        "--group-size N, .* --group NAME",
    ),
    "a damaged file": (cut, [], r"cut or damaged: .*\(--skip-bad\)"),
    "several runs in a folder": (two_runs, [], "got several, name one of them: "),
    "several kinds in a folder": (
        lambda f: write(f, {"a.csv": CSV, "b.jsonl": lines(*rows(8)), "c.jsonl": lines(*rows(8))}),
        [],
        "got several, name one of them: ",
    ),
    "several runs in a database": (trackio, [], "name one, as '.*::first': first and second one"),
    "a total beside one reward that is named": (base_reward, ["--reward", "base_reward"], None),
}


def typed(said: str, path: str) -> list[list[str]]:
    """Return the arguments that a reader types after a refusal, one list for each way that it names. said: the refusal;
    path: of the log.
    """
    if named := re.search(r"name one of them: (.*)$", said):
        return [shlex.split(name) for name in named[1].split("; ") if name != "…"]
    if named := re.search(r"name one, as ('.*?::.*?'): (.*)$", said):
        return [shlex.split(named[1])]
    if "--skip-bad" in said:
        return [[path, "--skip-bad"]]
    if "--group-size N" in said:
        return [[path, "--group-size", "4"], [path, *re.search("--group (NAME)", said).group(0).split()]]
    options = re.search(r"--reward.*?(?=, got|$)", said)
    return [[path, *shlex.split(options[0])]]


@pytest.mark.parametrize("name", REFUSED)
def test_each_hint_is_typed_as_it_is_printed_and_leads_on(name, tmp_path, capsys):
    make, options, says = REFUSED[name]
    path = str(make(tmp_path))
    code, out, err = audit_cli(capsys, path, *options)
    if says is None:
        assert (code, err) == (0, "") and out
        return
    said = err.strip()
    assert code == 2 and re.search(says, said) and "fault of gdpo" not in said, said
    ways = typed(said, path)
    assert ways
    for arguments in ways:
        code, out, err = audit_cli(capsys, *arguments)
        assert (code, err) == (0, "") if code != 2 else (err.strip() != said and "fault of gdpo" not in err), err
