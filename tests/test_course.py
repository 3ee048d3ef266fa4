"""Courses of rewards over a run, prompts that teach nothing, and lengths of completions, compared with numpy and naive
loops.
"""

import json
import pickle
import re
from collections import defaultdict
from io import StringIO

import fake_logs
import numpy as np
import polars as pl
import pytest
from audited import report as made_by_hand
from helpers import nearly
from logs import in_form

import gdpo_audit as ga
from gdpo_audit.facts import log_details
from gdpo_audit.report import document
from gdpo_audit.report.printing import terminal
from gdpo_audit.report.prompt_tables import taught
from gdpo_audit.sums.over_time import changed_at

SIZE, GROUPS, STEPS = 6, 5, 16


def table(seed=0, constant=0.4, prompts=12, **columns) -> pl.DataFrame:
    """Return rows of TRL in groups of prompts that occur again and again. constant: the share of groups in which no
    reward differs; columns: further ones.
    """
    draw, rows = np.random.default_rng(seed), []
    for step in range(1, STEPS + 1):
        for prompt in draw.choice(prompts, GROUPS, replace=False):
            same = draw.random() < constant or prompt < 2  # Two prompts teach nothing in any visit.
            a = np.full(SIZE, draw.integers(2)) if same else draw.integers(2, size=SIZE)
            b = np.full(SIZE, 0.5) if same else draw.normal(size=SIZE) + step / 4
            for i in range(SIZE):
                text = "é" * int(draw.integers(40))
                rows.append((step, f"Question {prompt}\nfull", text, float(a[i]), float(b[i])))
    frame = pl.DataFrame(rows, schema=["step", "prompt", "completion", "right", "length"], orient="row")
    return frame.with_columns(**columns)


def groups_of(frame):
    return [frame[i : i + SIZE] for i in range(0, len(frame), SIZE)]


def silent(group) -> bool:
    return group["right"].n_unique() == group["length"].n_unique() == 1


def audited(frame, kind="parquet", **named):
    return ga.audit(ga.read_run({f"log.{kind}": in_form(kind, frame)}, group_size=SIZE, **named))


# --- over the steps ---------------------------------------------------------------------------------------------------


def test_what_each_reward_did_is_that_of_its_rows():
    frame = table()
    report = audited(frame, rewards=["right", "length"])
    for reward in report.rewards:
        means = [frame.filter(step=step)[reward["name"]].mean() for step in range(1, STEPS + 1)]
        first, last = np.mean(means[:4]), np.mean(means[-4:])
        assert (reward["first_quarter"], reward["last_quarter"]) == (nearly(first), nearly(last))
    of_b, run = report.rewards[1], ga.read_run(frame, rewards=["right", "length"])
    # The shares that weights ask for go by their squares.
    for weights, asks in (([1, 1], [0.5, 0.5]), ([1, 3], [0.1, 0.9])):
        assert [reward["asks_for"] for reward in ga.audit(run, weights=weights).rewards] == nearly(asks)
    assert of_b["changed_at"] in range(5, 14) and report.rewards[0]["changed_at"] is None
    centred = {n: np.concatenate([g[n] - g[n].mean() for g in groups_of(frame)]) for n in ("right", "length")}
    correlation = np.corrcoef(centred["right"], centred["length"])[0, 1]
    assert report.rewards[0]["correlations"] == {"length": nearly(correlation)}
    assert of_b["correlations"] == {"right": nearly(correlation)}


def split(x) -> int:
    """Return the index at which a series falls best into two parts with means of their own, found by trying all."""
    parts = range(3, len(x) - 2)
    return min(parts, key=lambda n: np.var(x[:n]) * n + np.var(x[n:]) * (len(x) - n))


@pytest.mark.parametrize("seed", range(20))
def test_the_change_is_where_two_means_explain_most(seed):
    draw = np.random.default_rng(seed)
    at = int(draw.integers(8, 32))
    x = draw.normal(size=40) + np.where(np.arange(40) < at, 0, 4)
    series = [None, *x.tolist(), None]
    assert changed_at(range(100, 142), series) == 101 + split(x)
    assert abs(split(x) - at) <= 1


def test_noise_is_no_change_and_few_steps_show_none():
    draw = np.random.default_rng(0)
    found = [changed_at(range(50), draw.normal(size=50).tolist()) for _ in range(1000)]
    assert sum(step is not None for step in found) <= 20
    assert changed_at(range(5), [0, 0, 0, 1, 1]) is None and changed_at(range(50), [0.1 + 0.2] * 50) is None


# --- prompts ----------------------------------------------------------------------------------------------------------


def counted(frame) -> dict:
    """Return the facts about the prompts of a log, counted naively over its groups."""
    visits, wasted = defaultdict(list), defaultdict(int)
    for group in groups_of(frame):
        visits[group["prompt"][0]].append(silent(group))
        wasted[group["prompt"][0]] += SIZE * silent(group)
    never, again = {p for p, of in visits.items() if all(of)}, {p for p, of in visits.items() if len(of) > 1}
    numbers = {"prompts": len(visits), "repeated": len(again), "silent": len(never)}
    return numbers | {"silent_repeated": len(never & again), "wasted": wasted, "visits": visits}


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("form", ["parquet", "csv", "jsonl"])
def test_prompts_are_counted_over_the_run(seed, form):
    frame = table(seed)
    report, naive = audited(frame, form, rewards=["right", "length"]), counted(frame)
    found = report.prompts
    assert all(found[name] == naive[name] for name in ("prompts", "repeated", "silent", "silent_repeated"))
    assert naive["silent"] >= 2 and report.run["silent_responses"] == sum(naive["wasted"].values())
    most = sorted(naive["wasted"].values(), reverse=True)[:10]
    assert [worst["silent_responses"] for worst in found["worst"]] == [n for n in most if n]
    for worst in found["worst"]:
        assert worst["visits"] == len(of := naive["visits"][worst["prompt"]]) and worst["silent_visits"] == sum(of)


def verl(frame) -> pl.DataFrame:
    """Return the rows of a log as verl writes them, with the rows of a group apart from one another."""
    frame = frame.rename({"prompt": "input", "completion": "output"}).with_columns(
        score=pl.col("right") + pl.col("length"), gts=pl.lit("x"), place=pl.int_range(pl.len()) % SIZE
    )
    return frame.sort("step", "place").drop("place")


def test_rows_of_a_group_that_stand_apart_and_steps_of_a_window_are_counted_too():
    frame = table(4)
    log = {"1.jsonl": in_form("jsonl", verl(frame))}
    whole, part = (ga.audit(ga.read_run(log, **named)) for named in ({}, {"steps": (5, 9)}))
    some = frame.filter(pl.col("step").is_between(5, 9))
    for report, rows in ((whole, frame), (part, some)):
        naive = counted(rows)
        assert (report.prompts["prompts"], report.prompts["silent"]) == (naive["prompts"], naive["silent"])
        assert report.run["silent_responses"] == sum(naive["wasted"].values())


def test_a_report_that_is_sent_elsewhere_takes_them_along():
    report = audited(table())
    sent = pickle.loads(pickle.dumps(report))
    assert sent.prompts == report.prompts and sent.lengths == report.lengths
    assert json.dumps(sent.to_dict()) == json.dumps(report.to_dict())


# --- lengths ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["parquet", "csv", "jsonl", "json"])
def test_lengths_are_characters_where_no_tokens_are_logged(form):
    # No text is empty, because CSV cannot hold an empty text.
    frame = table(1).with_columns(completion=pl.col("completion") + "x")
    found = audited(frame, form, rewards=["right", "length"]).lengths
    size = frame["completion"].str.len_chars().to_numpy().astype(float).reshape(-1, SIZE)
    means = size.reshape(STEPS, -1).mean(1)
    assert found["unit"] == "characters"
    assert (found["first_quarter"], found["last_quarter"]) == (nearly(means[:4].mean()), nearly(means[-4:].mean()))
    own = size - size.mean(1, keepdims=True)
    for name, correlation in found["correlations"].items():
        reward = frame[name].to_numpy().reshape(-1, SIZE)
        reward = reward - reward.mean(1, keepdims=True)
        assert correlation == nearly((own * reward).sum() / np.sqrt((own**2).sum() * (reward**2).sum()))


def test_lengths_are_tokens_where_these_are_logged():
    tokens = np.random.default_rng(2).integers(1, 99, len(table()))
    frame = table().rename({"length": "brief"}).with_columns(num_tokens=tokens)
    found, means = audited(frame).lengths, tokens.reshape(STEPS, -1).mean(1)
    assert (found["unit"], found["first_quarter"]) == ("tokens", nearly(means[:4].mean()))


def test_characters_make_no_finding_and_no_advantage():
    frame = verl(table(3))
    frame = frame.with_columns(output=pl.Series(["x" * int(9 + 20 * r) for r in frame["right"]]))
    report = ga.audit(ga.read_run({"1.jsonl": in_form("jsonl", frame)}), asked="gdpo")
    assert report.lengths["correlations"]["right"] == nearly(1)
    assert "length-coupled" not in {finding.id for finding in report.findings}
    without = ga.audit(ga.read_run({"1.jsonl": in_form("jsonl", frame.with_columns(output=pl.lit("")))}), asked="gdpo")
    assert without.methods == report.methods and without.lengths is None


def test_texts_of_a_large_log_are_not_read_and_a_log_without_prompts_tells_none_apart(monkeypatch):
    monkeypatch.setattr(log_details, "CHARACTERS_OF", 100)
    report = audited(table().drop("prompt"))
    assert report.lengths is None and report.prompts is None


# --- what is shown ----------------------------------------------------------------------------------------------------


def test_a_terminal_says_it_in_at_most_forty_lines(tmp_path):
    fake_logs.write_trl(tmp_path, steps=12, groups=8)
    for report in (audited(table()), ga.audit(ga.read_run(tmp_path)), made_by_hand()):
        out = StringIO()
        terminal.print_reports([report], out)
        assert out.getvalue().count("\n") <= 40 and "What each reward did" in out.getvalue()
        page = document(report)
        assert "Correlations inside groups" in page and "What each reward did" in page


def test_the_sentences_say_what_was_wasted():
    frame = table()
    naive, out = counted(frame), StringIO()
    terminal.print_reports([audited(frame)], out, explain=True)
    said = out.getvalue()
    assert re.search(
        rf"\b{sum(naive['wasted'].values())} responses \(.+ %\) taught nothing: every advantage in their", said
    )
    assert f"For {naive['silent']} of 12 prompts, every group had only advantages of 0; this holds for " in said
    assert f" of the {naive['repeated']} that came more than once." in said
    assert "Question 0 full" in said and "The mean length of the responses goes from " in said


def test_a_log_of_one_step_or_of_prompts_that_never_come_again_is_told_so():
    rows = [
        {"step": i // 24, "prompt": f"{i // 4}", "right": i // 4 % 2 * (i % 2), "style": i % 4 // 2 * (i // 4 % 2)}
        for i in range(48)
    ]
    frame = pl.DataFrame(rows).with_columns(completion=pl.lit("éé"))
    for table, steps in ((frame[:24], 1), (frame, 2)):
        said = " ".join(taught(ga.audit(ga.read_run(table, group_size=4))))
        assert f"{12 * steps} responses (50 %) taught nothing" in said and " prompts, every group " not in said
        assert ("The mean length of the responses is 2 characters." in said) == (steps == 1)
        same = "The mean length of the responses is 2 characters, at the start of the run as well as at its end."
        assert (same in said) == (steps == 2)
    varied = pl.concat([frame[4:8]] * 6).with_columns(step=pl.int_range(24) // 12)
    for silent, says in ((0, ""), (1, "4 responses (14 %), all of one group, taught nothing: every advantage in that")):
        table = pl.concat([varied, *[frame[:4].with_columns(step=pl.lit(1, pl.Int64))] * silent])
        assert (" ".join(taught(ga.audit(ga.read_run(table, group_size=4))))).startswith(says or "The mean length")
    again = frame.with_columns(prompt=(pl.int_range(48) // 4 % 6).cast(pl.String))
    said = " ".join(taught(ga.audit(ga.read_run(again, group_size=4))))
    assert "For 3 of 6 prompts, every group had only advantages of 0; this holds for 3 of the 6" in said
