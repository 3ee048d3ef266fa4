"""Ends of refusals: options that were tried and work as typed, or where it stands what a log has to hold.
Searches end, and a fault of one attempt does not end the audit.
"""

import itertools
import re
import shlex

import numpy as np
import polars as pl
import pytest
from logs import audit_cli, lines
from test_file_shapes import csv, plain

import gdpo_audit as ga
import gdpo_core as gc
from gdpo_audit.logs.files import trying
from gdpo_audit.logs.groups import leads
from gdpo_audit.unexplained import combining, readings
from gdpo_core.shared.errors import InputError

FOREIGN = {"step": "Schritt", "prompt": "Aufgabe", "right": "richtig", "short": "kurz", "advantage": "Vorteil"}


def foreign(*without: str) -> pl.DataFrame:
    """Return the log with names of columns that tell nothing; without: columns that are left out."""
    return plain().rename(FOREIGN).drop(*without)


def uneven() -> pl.DataFrame:
    """Return a log in which rows of some groups are missing, named by an unusual column."""
    keep = np.random.default_rng(3).random(160) < 0.8
    return plain().rename({"prompt": "example"}).drop("step", "advantage").filter(keep)


LED = {
    "without advantages": (lambda: foreign("Vorteil"), "--group Aufgabe --columns step=Schritt"),
    "without steps": (lambda: foreign("Schritt", "Vorteil"), "--group Aufgabe"),
    "groups of many sizes": (uneven, "--group example"),
}


@pytest.mark.parametrize("name", LED)
def test_a_log_is_read_or_its_refusal_ends_in_options_that_read_it_as_typed(name, tmp_path, capsys):
    make, options = LED[name]
    path = tmp_path / "log.csv"
    path.write_text(csv(make()), encoding="utf-8")
    code, out, err = audit_cli(capsys, path)
    if code == 0:  # what the columns hold told it
        assert err == "" and re.search("^groups .*, by the column ", out, re.M)
        return
    assert code == 2 and out == "" and err.count("\n") == 1
    typed = re.search(r"this was tried and reads it: (.*)$", err)[1]
    assert typed == options
    code, out, err = audit_cli(capsys, path, *shlex.split(typed))
    assert code == 0 and err == "" and re.search("^groups .*, by the column ", out, re.M)


def test_foreign_names_are_read_as_the_usual_ones(tmp_path):
    run = ga.read_run(foreign(), group="Aufgabe", columns={"step": "Schritt", "advantage": "Vorteil"})
    report, usual = ga.audit(run), ga.audit(ga.read_run(plain()))
    assert report.run["reproduced"] and [*report.push["grpo"].values()] == pytest.approx([*usual.push["grpo"].values()])
    assert report.run["weights"]["richtig"] == pytest.approx(2 * report.run["weights"]["kurz"])


def test_where_nothing_leads_on_the_refusal_names_the_table_that_is_always_read():
    with pytest.raises(gc.InputError, match=r"give group_size.*; docs/audit\.md begins with a table that is always"):
        ga.read_run([{"acc": float(k % 2)} for k in range(12)])
    with pytest.raises(gc.InputError, match=r"one column of numbers that is a reward.*docs/audit\.md begins"):
        ga.read_run([{"name": "a", "kind": "b"}] * 4)
    # Options of the caller are taken as they are, and a broken value is no lack of groups.
    with pytest.raises(gc.InputError) as refusal:
        ga.read_run(foreign(), group="Gruppe")
    assert "tried" not in str(refusal.value) and "docs/" not in str(refusal.value)


def test_no_option_names_a_step_as_a_reward():
    rows = plain().drop("prompt", "right", "advantage").with_columns(short=pl.col("short").map_elements(
        lambda x: f"{x} points", return_dtype=pl.String))  # fmt: skip
    with pytest.raises(gc.InputError) as refusal:
        ga.read_run(rows.rename({"step": "Schritt"}).with_columns(note=pl.lit("1,0")))
    assert "--reward Schritt" not in str(refusal.value)


def test_one_column_may_number_the_steps_and_the_groups():
    rows = [{"group": k // 4, "acc": float(k % 2)} for k in range(16)]
    run = ga.read_run(rows, columns={"step": "group"})
    assert run.table["step"].to_list() == run.table["group"].to_list()


def test_trying_ends_when_its_time_is_over(monkeypatch):
    times = itertools.count(step=1.5)
    monkeypatch.setattr(trying, "thread_time", lambda: next(times))
    search = trying.Search(2.0, _begun=0.0)
    assert [*search.among("abcd", "…")] == ["a", "b"] and search.cut and search.tried == 2
    assert [*trying.Search(100.0).among("abcd", "…")] == [*"abcd"]


def test_whoever_waits_is_told_once(monkeypatch):
    monkeypatch.setattr(trying, "monotonic", iter([0.0, 1.0, 4.0, 5.0, 6.0]).__next__)
    told = []
    token = trying.LISTENER.set(told.append)
    assert [*trying.Search(1e9, _since=0.0).among("abc", "Looking …")] == [*"abc"]
    trying.LISTENER.reset(token)
    assert told == ["Looking …"]


# --- faults of one attempt -------------------------------------------------------------------------------------------


def with_objects() -> list[dict]:
    """Return a log whose advantages nobody makes, with lists of objects of which some are empty."""
    draw = np.random.default_rng(1)
    rows = []
    for number, row in enumerate(plain().to_dicts()):
        turns = [{"turn_id": 0, "reward_at": [1.0]}] * (number % 3)
        rows.append({**row, "advantage": float(draw.normal()), "turns": turns, "ids": [number], "note": {"a": "b"}})
    return rows


def test_columns_of_lists_and_objects_end_no_search(tmp_path):
    (tmp_path / "a.jsonl").write_bytes(lines(*with_objects()))
    for source in (tmp_path / "a.jsonl", with_objects()):
        run = ga.read_run(source)
        assert len(run.table) == 160 and ga.audit(run).run["reproduced"] is False
    with pytest.raises(gc.InputError, match="row 1: expected a number in 'ids', got List"):
        ga.read_run(with_objects(), rewards=["right", "ids"])


@pytest.mark.parametrize("error", [pl.exceptions.InvalidOperationError("no"), InputError("no")])
def test_an_attempt_that_polars_or_the_reader_refuses_is_skipped(monkeypatch, error):
    def refuse(*_, **__):
        raise error

    for module in (readings, combining):
        monkeypatch.setattr(module, "with_one_more", refuse)
    monkeypatch.setattr(trying, "TOLERATED", (InputError, pl.exceptions.PolarsError))
    assert ga.audit(ga.read_run(with_objects())).run["reproduced"] is False
    for module in (readings, combining):
        monkeypatch.setattr(module, "with_one_more", lambda *_, **__: [][0])
    with pytest.raises(IndexError):  # a fault of ours is not hidden
        ga.audit(ga.read_run(with_objects()))


def test_a_search_that_was_cut_short_is_told(monkeypatch):
    monkeypatch.setattr("gdpo_audit.unexplained.solving.SEARCH_SECONDS", -1.0)
    report = ga.audit(ga.read_run(with_objects()))
    assert any("Not every other way to read the log was tried" in note for note in report.notes)
    assert leads.TRYING_SECONDS <= 2
