"""`--parts`: rewards of 0 or 1 are told from their total where only one set of passes makes it, and are never
guessed.
"""

import json
from collections import Counter
from fractions import Fraction
from itertools import product

import numpy as np
import polars as pl
import pytest
from fake_logs import write_nemo_rl
from logs import LOGS, VERL, audit_cli, found, in_form, lines, refused
from test_reports import BINARY, ROOT, made

import gdpo_audit as ga
from gdpo_audit.command import watch
from gdpo_audit.logs.groups.pays import possible_pays
from gdpo_audit.logs.tables import formats as tables
from views.chapters.run import log as page
from views.chapters.run.samples import SAMPLES

PAYS = {"correct": 1, "format": 0.5, "short": 2}

# --- components stripped from real logs ------------------------------------------------------------------------------


def binary_logs() -> dict[str, pl.DataFrame]:
    """Return the rewards with two values in the logs at hand, by log, as 0, 1 and NaN, with their groups."""
    folders = [ROOT / f"data/samples/{name}" for name in ("pays_5_grpo", "pays_5_gdpo", "published_answers.zip")]
    folders += [LOGS / name for name in ("ms_swift", "verl_legacy", "trl/gdpo", "trl/grpo_none", "trl/edge_conv")]
    frames = {folder.name: ga.read_run(folder).table for folder in folders}
    graded = pl.read_parquet(ROOT / "data/bfcl_rewards.parquet").head(6_000).select(pl.col(pl.Int8).cast(pl.Float64))
    frames["bfcl"] = graded.with_columns(group=pl.int_range(pl.len()) // 12)
    passes = {}
    for name, frame in frames.items():
        values = frame.drop("step", "group", "advantage", "length", strict=False)
        two = [c for c in values.columns if sorted(values[c].drop_nans().unique().sign()) == [0, 1]]
        two = [c for c in two if values[c].drop_nans().n_unique() == 2]
        passes[name] = values.select(pl.col(c).sign() for c in two).with_columns(frame["group"])
    return passes


LOGGED = binary_logs()


def stripped(passes: pl.DataFrame, pays: dict[str, Fraction]) -> tuple[list[Fraction | None], list[list | None]]:
    """Return the total of each row, and how often each pay was paid; None in place of the latter where the total can be
    paid in other ways too. pays: by reward.
    """
    names_by_pay: dict[Fraction, list[str]] = {}
    for name, pay in pays.items():
        names_by_pay.setdefault(pay, []).append(name)
    every = product(*(range(len(names) + 1) for names in names_by_pay.values()))
    ways = Counter(sum(p * n for p, n in zip(names_by_pay, times, strict=True)) for times in every)
    totals, told = [], []
    for row in passes.to_dicts():
        times = [sum(row[name] for name in names) for names in names_by_pay.values()]
        missing = any(n != n for n in times)
        totals.append(None if missing else sum(p * int(n) for p, n in zip(names_by_pay, times, strict=True)))
        told.append([None] * len(times) if missing else times if ways[totals[-1]] == 1 else None)
    return totals, told


@pytest.mark.parametrize("rounded", [np.float32, lambda x: np.round(x, 4)], ids=["float32", "4 decimals"])
@pytest.mark.parametrize("pays", ["1 1/2 2 4 8 16", "1/2 1 3/2 5 1/3 2", "1 1 3 3 9 9", "1/3 2/3 1 3/10 7/10 1"])
@pytest.mark.parametrize("name", LOGGED)
def test_components_come_back_where_a_total_tells_them_and_no_others(name, pays, rounded):
    passes = LOGGED[name]
    rewards = passes.drop("group").columns
    several = len(rewards) > 2 and "/" in pays.removeprefix("1 1/2")
    pays = dict(zip(rewards, map(Fraction, pays.split()), strict=False))
    totals, told = stripped(passes, pays)
    logged = [float("nan") if x is None else float(rounded(float(x))) for x in totals]
    groups: dict[int, list] = {}
    for group, row in zip(passes["group"], told, strict=True):
        groups.setdefault(group, []).append(row)
    kept = [rows for rows in groups.values() if None not in rows]
    run = ga.read_run(passes.select("group").with_columns(total=pl.Series(logged)), parts=pays)
    got = run.table.select(pl.col(run.rewards).fill_nan(None)).rows()
    assert [list(row) for row in got] == [row for rows in kept for row in rows]
    assert run.count_undecided() == (len(groups) - len(kept), len(passes) - len(got)) and several == (
        len(kept) < len(groups)
    )
    by_pay = {float(pay): " + ".join(n for n in rewards if pays[n] == pay) for pay in pays.values()}
    assert run.weights == {name: pay for pay, name in by_pay.items()} and not run.total_only


# --- what a report says ----------------------------------------------------------------------------------------------


def log_of(pays, recipe="NeMo-RL GRPO") -> pl.DataFrame:
    """Return a log of 32 groups that holds the totals of three parts, and the advantages that a recipe makes of
    these.
    """
    total = (BINARY * pays).sum(-1, keepdims=True)
    step, group = np.arange(4).repeat(64), np.arange(32).repeat(8)
    return pl.DataFrame({"step": step, "group": group, "reward": total.ravel()}).with_columns(
        advantage=made(total, recipe).ravel()
    )


def test_the_report_is_that_of_the_log_with_its_components_but_says_whence_they_come():
    log = log_of([1, 0.5, 2])
    parts = dict(zip(PAYS, BINARY.reshape(-1, 3).T, strict=True))
    whole = ga.audit(ga.read_run(log.drop("reward").with_columns(**parts)), weights=PAYS, primary="correct")
    report = ga.audit(ga.read_run(log, parts=PAYS), weights=PAYS, primary="correct")
    assert report.rewards == whole.rewards and report.methods == whole.methods and report.run == whole.run
    assert [f.id for f in report.findings] == [f.id for f in whole.findings] and report.run["method"] == "grpo"
    note = (
        "The rewards were worked out from their total, given what a pass of each pays: correct 1, format 0.5 and "
        "short 2."
    )
    assert report.source["notes"] == [note]
    assert ga.audit(ga.read_run(log.drop("advantage"), parts=PAYS)).run["weights_from"] == "parts"


def test_groups_left_out_are_counted_and_no_step_of_them_is_missed():
    log = log_of([1, 1, 2]).filter(pl.col("step") != 3)
    undecided = pl.col("step") == 1
    clear = log.with_columns(reward=pl.when(undecided).then(2.0).otherwise(4.0 * (pl.col("reward") > 2)))
    report = ga.audit(ga.read_run(clear, parts={"a": 1, "b": 1, "c": 2}))
    assert report.source["groups"] == 16 and report.source["steps"] == 2 and "steps-missing" not in found(report)
    assert report.source["notes"] == [
        "The rewards were worked out from their total, given what a pass of each pays: a + b 1 (how many passed) and "
        "c 2.",
        "8 groups (64 responses) are left out, because a total there is the sum of several different combinations of "
        "these pays. Without all groups, a method that looks at the whole batch is not recognised.",
    ]


def test_rows_that_were_left_out_are_not_missing_from_the_log():
    a, b, c = np.moveaxis(BINARY, -1, 0)
    passes = np.stack([a, b, np.where(a == b, a, c)], axis=-1)
    passes[3, 0, 0] = 1, 1, 0  # A total of 1.5 can be the pay of c, too.
    advantage = made(passes, "TRL GDPO", (1, 0.5, 1.5)).ravel()
    log = log_of([1, 1, 1]).with_columns(reward=(passes @ [1, 0.5, 1.5]).ravel(), advantage=advantage)
    report = ga.audit(ga.read_run(log, parts={"a": 1, "b": 0.5, "c": 1.5}))
    assert report.run["method"] == "gdpo" and report.source["groups"] == 31
    assert not {"rows-missing", "advantages-not-reproduced"} & found(report).keys()


def test_without_parts_the_report_asks_and_guesses_only_in_a_question():
    asked = found(ga.audit(ga.read_run(log_of([1, 0.5, 2]))))["no-components"]
    assert (
        asked.to_do.startswith("Do the parts of this total pay 2, 1 and 0.5, if passed? Then name the parts")
        and "--parts a=2,b=1,c=0.5" in asked.to_do
    )
    assert asked.evidence["pays"] == [2, 1, 0.5]
    open_one = found(ga.audit(ga.read_run(log_of([1, 1, 2]))))["no-components"]
    assert open_one.evidence["pays"] == [] and "?" not in open_one.to_do and "--parts" in open_one.to_do


@pytest.mark.parametrize(
    ("totals", "pays"),
    [
        ([0, 0.5, 1, 1.5], [1, 0.5]),
        (np.float32([0, 1 / 3, 0.7, 1 / 3 + 0.7]), [0.7, 0.3333]),
        ([0, 0.1667, 0.3333, 0.5], [0.3333, 0.1667]),
        ([-1, 0, 2, 1], []),
        ([0, 1, 5, 6, 7, 2, 8, 3, np.nan], [5, 2, 1]),
        ([0, 1], []),  # one reward
        ([0, 1, 1.5], []),  # a sum of two of three pays, or a pay
        ([1, 1.5, 2, 2.5], []),
        ([0, 1, 2, 4], []),
        ([-1, 0, 1, 2], []),
        (np.arange(11) / 10, []),
        (2.0 ** np.arange(32), []),
        ([np.nan], []),
    ],
)
def test_pays_are_asked_about_where_all_their_sums_and_no_other_totals_occur(totals, pays):
    assert possible_pays([np.asarray(totals, float)]) == pytest.approx(pays)


def test_random_totals_are_never_read_as_parts():
    draw = np.random.default_rng(35)
    for _ in range(10_000):
        totals = draw.random(int(draw.integers(3, 40))) * draw.choice([1, 5, 100])
        assert not possible_pays([totals]) and not possible_pays([np.append(totals, 0)])
    values = {
        "uniform": draw.random(10_000),
        "normal": draw.normal(size=10_000),
        "graded": draw.integers(11, size=10_000),
    }
    for reward in values.values():
        run = ga.read_run(pl.DataFrame({"group": np.arange(10_000) // 8, "reward": reward}))
        assert run.rewards == ("reward",) and run.total_only and not run.weights
        assert not found(ga.audit(run))["no-components"].evidence["pays"]


# --- every kind of log, and every way to read it ---------------------------------------------------------------------


def verl(*scores) -> bytes:
    return lines(
        *({"input": "q", "output": "a", "gts": "4", "score": score, "step": 1, "uid": "0_0_0"} for score in scores)
    )


def test_every_reader_gives_the_parts(tmp_path, capsys, monkeypatch):
    binary = [(name, lambda draw, *size: draw.random(size) < 0.5) for name in PAYS]
    drawn = write_nemo_rl(tmp_path / "nemo", rewards=binary, weights=(1, 0.5, 2), method="grpo")
    expected = np.concatenate([step.flat()[0] for step in drawn])
    run = ga.read_run(tmp_path / "nemo", parts=PAYS)
    assert (run.table.select(*PAYS).to_numpy() == expected).all() and run.framework == "nemo_rl" and run.has_length
    # This part has the name of the column of lengths.
    of_length = ga.read_run(tmp_path / "nemo", parts=PAYS | {"length": 4})
    assert of_length.has_length and of_length.table["reward:length"].is_in([0.0, 1.0]).all()
    assert of_length.table["length"].equals(run.table["length"])
    frame = log_of([1, 0.5, 2])
    for kind in ("csv", "json", "jsonl", "parquet"):
        other = ga.read_run({f"log.{kind}": in_form(kind, frame)}, parts=PAYS)
        assert (other.table.select(*PAYS).to_numpy() == BINARY.reshape(-1, 3)).all()
    monkeypatch.setattr(tables, "ROWS_AT_ONCE", 50)
    files = {f"{n}.jsonl": verl(0, 1.5, 0.5, 1) for n in range(1, 30)}
    # No other column has the name of the part length.
    assert ga.read_run(files, parts={"right": 1, "length": 0.5}).table["length"].to_list() == [0, 1, 1, 0] * 29
    code, out, _ = audit_cli(capsys, tmp_path / "nemo", "--parts", "correct=1, format = 0.5,short=2", "--json", "-")
    assert code == 0 and json.loads(out)["source"]["rewards"] == [*PAYS]
    first = next(watch.reports(str(tmp_path / "nemo"), {}, parts=PAYS))
    assert first.to_dict() == ga.audit(run).to_dict()
    sample = next(sample for sample in SAMPLES if sample.id == "verl_v1")
    assert page.read_log(sample, parts="correct=1, format=0.5").run.rewards == ("correct", "format")


@pytest.mark.parametrize(
    ("log", "parts", "message"),
    [
        ([0, 1], {"a": -1}, "parts, 'a': expected a pay above 0, at most 1e30, got -1"),
        ([0, 1], {"a": 10**400}, "parts, 'a': expected a pay above 0, at most 1e30, got 1"),
        ([0, 1], {"a": float("nan")}, "parts, 'a': .* got nan"),
        ([0, 1], {"a": True}, "parts, 'a': .* got True"),
        ([0, 1], {"a": "1"}, "parts, 'a': .* got '1'"),
        ([0, 1], {}, "pays of 1 to 12 parts, such as correct=1,format=0.5, got {}"),
        ([0, 1], "a=1", "pays of 1 to 12 parts, .* got 'a=1'"),
        ([0, 1], {"^a$": 1}, "parts: expected columns of other names"),
        ([0, 1], {"": 1}, "parts: expected a name for each part, got one called ''"),
        ([0, 1], {"a": 1, "b": 1, "a + b": 2}, "expected each column once"),
        (
            [0.0, 1, 0.7, 0.2],
            {"a": 1},
            "table, row 3: expected a sum of some of the pays 1 .--parts. in 'reward', got 0.7",
        ),
        ([2, 2], {"a": 1, "b": 2, "c": 3, "d": 1}, "one way alone"),
        ({"1.jsonl": verl(1, 1), "2.jsonl": verl(1, -0.5)}, {"a": 1}, r"2.jsonl, row 2: .*'score', got -0.5"),
        (
            {"a.jsonl": lines(VERL, VERL)},
            {"a": 1},
            "one column of totals .* got the rewards acc and their total score",
        ),
        (LOGS / "ms_swift", {"a": 1}, "one column of totals .* got the rewards MathAccuracy and Format"),
    ],
)
def test_what_cannot_be_is_a_sentence(log, parts, message):
    refused(pl.DataFrame({"group": 0, "reward": log}) if isinstance(log, list) else log, message, parts=parts)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("correct", "parts: expected NAME=PAY, with commas between several, got 'correct'"),
        ("correct=much", "got 'correct=much'"),
        ("a=1,a=2", "parts: expected each reward once, got 'a' twice"),
    ],
)
def test_a_text_of_pays_that_cannot_be_is_a_sentence(capsys, tmp_path, text, message):
    code, _, err = audit_cli(capsys, tmp_path, "--parts", text)
    assert code == 2 and message in err
