"""`gdpo compare`: what changed between two runs, what may be chance, and the one clear line that it prints where it
fails.
"""

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from logs import gdpo

import gdpo_audit as ga
import gdpo_core as gc
from gdpo_audit.comparing.compare import _comparable_rows, changes, changes_headline
from gdpo_audit.comparing.speeds import pooled_speeds
from gdpo_core.intervals import half_width

ROOT = Path(__file__).parent.parent
TRL = ROOT / "data/samples/trl_gdpo"
SWIFT = ROOT / "data/samples/ms_swift"
GOLDENS = ROOT / "tests/goldens/logs/trl"


def rows(a: list[list[int]], b: list[list[int]], first=1) -> list[dict]:
    """Return a log with one group per step. a, b: the two rewards of its responses, by step; first: the number of the
    first step.
    """
    return [
        {"step": first + t, "prompt": t, "a": float(x), "b": float(y)}
        for t, group in enumerate(zip(a, b, strict=True))
        for x, y in zip(*group, strict=True)
    ]


def log(path: Path, rewards: np.ndarray, first=1) -> Path:
    """Write a log with one prompt per step, and return its path. rewards: (steps, responses, 2)."""
    lines = rows(rewards[..., 0].tolist(), rewards[..., 1].tolist(), first)
    pl.DataFrame(lines).write_csv(path)
    return path


COLUMNS = ["--reward", "a", "--reward", "b", "--group", "prompt", "--columns", "step=step"]


def audits(paths):
    named = {"rewards": ["a", "b"], "group": "prompt", "columns": {"step": "step"}}
    return [ga.audit(ga.read_run(path, **named)) for path in paths]


def compared(a: Path, b: Path):
    return changes(*audits([a, b]))


def figure(c, name, reward=None):
    (one,) = [x for x in c.figures if (x.figure, x.reward) == (name, reward)]
    return one


# --- the interval -----------------------------------------------------------------------------------------------------


def test_the_interval_is_student_s_t_by_hand():
    # With std 1 and 4 numbers that alternate, it is 3.182 · √(4/3) / √4, since their std over n − 1 is √(4/3).
    assert half_width([np.array([1.0, -1.0, 1.0, -1.0])]) == pytest.approx(3.182 * (4 / 3) ** 0.5 / 2, rel=1e-3)
    # By Welch, with variances 4/3 and 16/3 over 4 each, the degrees of freedom are (5/3)² / ((1/3)² / 3 + (4/3)² / 3) =
    # 4.41.
    half = half_width([np.array([1.0, -1.0, 1.0, -1.0]), np.array([2.0, -2.0, 2.0, -2.0])])
    assert half == pytest.approx((2.776 + 0.4118 * (2.571 - 2.776)) * (5 / 3) ** 0.5, rel=1e-3)


def test_steps_that_resemble_the_one_before_count_as_fewer_numbers():
    """Four of seven pairs of neighbours are equal: ρ = (4 − 3) · 0.5² / (8 · 0.5²) = 1/8. Eight steps then count as
    8 · (7/8) / (9/8) = 56/9, with a variance of 2/7, and 56/9 − 1 degrees of freedom between 5 and 6.
    """
    t = 2.571 + (56 / 9 - 6) * (2.447 - 2.571)
    half = half_width([np.array([0.0, 0, 1, 1, 0, 0, 1, 1])])
    assert half == pytest.approx(t * (2 / 7 / (56 / 9)) ** 0.5, rel=1e-9)


def test_two_steps_are_too_few_and_no_scatter_is_no_width():
    assert half_width([np.array([1.0, 2.0])]) is None
    assert half_width([np.array([1.0, 1.0, 1.0])]) == 0.0


def test_no_interval_is_given_if_one_of_two_series_counts_as_less_than_two_numbers():
    """Four zeros and four ones have 6 equal ones of 7 pairs of neighbours: ρ = 5/8, and 8 · (3/8) / (13/8) = 1.85."""
    turns, moves = np.repeat([0.0, 1.0], 4), np.array([1.0, -1.0, 1.0, -1.0])
    assert half_width([moves, moves]) is not None
    assert half_width([turns, moves]) is half_width([moves, turns]) is None


@pytest.mark.parametrize(("steps", "memory"), [(6, 0.0), (40, 0.0), (40, 0.6), (120, 0.8)])
def test_the_interval_holds_the_truth_about_as_often_as_it_says(steps, memory):
    rng, held, draws = np.random.default_rng(1), 0, 500
    for _ in range(draws):
        x = np.zeros(steps + 50)
        for t in range(1, len(x)):
            x[t] = memory * x[t - 1] + rng.standard_normal()
        half = half_width([x[50:]])
        held += half is not None and abs(x[50:].mean()) <= half
    # Without the correction for neighbours, the interval would hold the mean about half of the time at memory 0.8.
    assert 0.88 <= held / draws <= 0.99


@pytest.mark.every_case
@pytest.mark.parametrize(("shared", "paired"), [(2, True), (1, False)])
def test_runs_are_compared_step_by_step_if_they_share_half_of_the_steps_of_the_shortest(shared, paired):
    """The shorter run has four steps, the longer one ten."""
    runs = [pl.DataFrame({"step": s, "step_last": s}) for s in (range(4), range(4 - shared, 14 - shared))]
    tables, by_step = _comparable_rows(runs)
    assert by_step == paired and [len(table) for table in tables] == ([shared] * 2 if paired else [4, 10])


# --- the figures ------------------------------------------------------------------------------------------------------


def draw(rng, steps, p):
    """Return random rewards of 0 and 1, (steps, 8 responses, 2)."""
    return (rng.random((steps, 8, 2)) < p).astype(int)


def test_a_reward_that_rose_is_clear_and_one_that_did_not_is_not(tmp_path):
    rng = np.random.default_rng(3)
    a, b = draw(rng, 30, [0.3, 0.5]), draw(rng, 30, [0.7, 0.5])
    c = compared(log(tmp_path / "a.csv", a), log(tmp_path / "b.csv", b))
    rose = figure(c, "mean", "a")
    assert c.paired and c.steps_a == c.steps_b == 30
    assert (rose.a, rose.b) == (pytest.approx(a[..., 0].mean()), pytest.approx(b[..., 0].mean()))
    assert rose.difference == pytest.approx(rose.b - rose.a) and rose.low < rose.difference < rose.high
    assert rose.clear and not figure(c, "mean", "b").clear
    assert "mean of a" in changes_headline(c) and "mean of b" not in changes_headline(c)


def test_figures_are_means_of_what_each_step_does(tmp_path):
    rng = np.random.default_rng(5)
    paths = [log(tmp_path / f"{name}.csv", draw(rng, 6, p)) for name, p in (("a", 0.5), ("b", [0.2, 0.9]))]
    c = compared(*paths)
    for name, rewards in (("a", pl.read_csv(paths[0])), ("b", pl.read_csv(paths[1]))):
        groups = [
            group.select("a", "b").to_torch().double() for _, group in rewards.group_by("step", maintain_order=True)
        ]
        each = [gc.collapse(group, "grpo") for group in groups]
        ties = [one.groups_with_ties for one in each if one.mixed_groups]
        assert getattr(figure(c, "groups with ties"), name) == pytest.approx(np.mean(ties))
        assert getattr(figure(c, "silent groups"), name) == pytest.approx(np.mean([one.silent_groups for one in each]))
        for k, reward in enumerate("ab"):
            constant = [float((group[:, k] == group[0, k]).all()) for group in groups]
            assert getattr(figure(c, "constant groups", reward), name) == pytest.approx(np.mean(constant))


def test_a_run_does_not_differ_from_itself(tmp_path):
    path = log(tmp_path / "a.csv", draw(np.random.default_rng(2), 12, 0.5))
    c = compared(path, path)
    assert c.settings == () and not any(x.clear for x in c.figures)
    assert {x.difference for x in c.figures} == {x.low for x in c.figures} == {0.0}
    assert changes_headline(c) == (
        f"A run of {c.groups} groups is too short to judge, so take what follows as a first hint. As far as the logs "
        "show, the runs were made the same way. No figure differs beyond the scatter of their steps."
    )


def test_a_course_that_both_runs_share_cancels_only_where_steps_pair(tmp_path):
    rng, steps = np.random.default_rng(4), np.arange(40)
    course = (steps // 5 % 2)[:, None, None] * 8  # Both runs go up and down together.
    a, b = draw(rng, 40, 0.4) + course, draw(rng, 40, 0.8) + course
    paired = compared(log(tmp_path / "a.csv", a), log(tmp_path / "b.csv", b))
    apart = compared(log(tmp_path / "a.csv", a), log(tmp_path / "late.csv", b, first=101))
    assert paired.paired and figure(paired, "mean", "a").clear
    assert not apart.paired and not figure(apart, "mean", "a").clear
    assert figure(paired, "mean", "a").difference == pytest.approx(figure(apart, "mean", "a").difference)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ([TRL], "compare: expected two runs, A B, or several of each kind, A1 A2 --with B1 --with B2, got 1 run"),
        ([TRL, "--with", TRL], "--with: expected at least two runs on each side, got 1 and 1"),
        (
            [GOLDENS / "grpo", GOLDENS / "gdpo", "--with", TRL, "--with", TRL],
            f"{GOLDENS / 'grpo'} and the runs beside it: expected runs by one method, got GRPO and GDPO",
        ),
        (["nowhere", TRL, "--json", "{tmp}/c.json"], "nowhere: expected a file or directory"),
        ([TRL, SWIFT, "--weight", "Format=1"], f"{TRL}: weights: expected names of rewards"),
        ([TRL, TRL, "--json", f"{TRL}/completions_00001.parquet"], "json: expected another file than the log"),
    ],
)
def test_bad_input_is_one_line_and_exit_2(capsys, tmp_path, arguments, named):
    code, out, err = gdpo(capsys, "compare", *(str(a).replace("{tmp}", str(tmp_path)) for a in arguments))
    assert (code, out) == (2, "") and err.count("\n") == 1 and named in err
    assert not list(tmp_path.iterdir())


# --- several runs on each side ----------------------------------------------------------------------------------------


def runs_of(folder: Path, means, steps=3) -> list[Path]:
    """Write runs in which reward a has these means, one per run, and reward b is the same; return their paths."""
    folder.mkdir()
    b = [[0, 1, 1, 0]] * steps
    made = []
    for k, mean in enumerate(means):
        # The rows differ from step to step, because equal steps would be counted once.
        a = [[mean - 1 - t, mean + 1 + t, mean, mean] for t in range(steps)]
        pl.DataFrame(rows(a, b)).write_csv(folder / f"{k}.csv")
        made.append(folder / f"{k}.csv")
    return made


def test_runs_are_the_unit_by_hand(tmp_path):
    a, b = audits(runs_of(tmp_path / "a", [1, 2, 3])), audits(runs_of(tmp_path / "b", [12, 14, 16]))
    c = changes(a, b)
    x = figure(c, "mean", "a")
    # By Welch, with variances 1 and 4 over 3 each, the degrees of freedom are (5/3)² / ((1/3)² / 2 + (4/3)² / 2) =
    # 2.941.
    half = (4.303 + 0.9412 * (3.182 - 4.303)) * (5 / 3) ** 0.5
    assert (x.a, x.b, x.difference) == (2, 14, 12) and x.high - x.difference == pytest.approx(half, rel=1e-3)
    assert x.clear and (c.unit, c.paired, len(c.runs_a), len(c.runs_b)) == ("runs", False, 3, 3)
    y = figure(c, "mean", "b")
    assert (y.difference, y.low, y.high, y.clear) == (0, 0, 0, False)
    assert "Beyond the scatter between runs of one side they differ in the mean of a" in changes_headline(c)


def test_sides_of_several_runs_on_the_command_line(capsys, tmp_path):
    a, b = runs_of(tmp_path / "a", [1, 2, 3]), runs_of(tmp_path / "b", [12, 14, 16])
    others = [part for path in b for part in ("--with", path)]
    written = ["--html", tmp_path / "c.html", "--json", tmp_path / "c.json"]
    code, out, err = gdpo(capsys, "compare", *a, *others, *COLUMNS, *written)
    page, made = (tmp_path / "c.html").read_text(encoding="utf-8"), json.loads((tmp_path / "c.json").read_text())
    assert (code, err) == (0, "") and "The figures are means over 3 runs of A and 3 runs of B" in out
    assert all(str(path) in page and f"{path}" in out for path in (*a, *b))
    assert made["runs_a"] == [str(path) for path in a] and made["runs_b"] == [str(path) for path in b]
    assert (made["unit"], made["paired"], made["clear_by_seed"]) == ("runs", False, 0.05)
    assert (made["schema"], made["level"]) == (1, 0.95)


def test_what_is_no_report_is_refused(tmp_path):
    (report,) = audits(runs_of(tmp_path / "a", [1]))
    for odd in (np.int64(3), 3, None, "ab", report.to_dict(), [report, 1], [None], np.array([1, 2]), {"a": report}):
        for sides in ((odd, report), (report, odd)):
            with pytest.raises(gc.InputError, match=r"changes: expected what gdpo_audit\.audit returns, got \w+$"):
                changes(*sides)
        with pytest.raises(gc.InputError, match=r"pooled_speeds: expected what gdpo_audit\.audit returns, got \w+$"):
            pooled_speeds(odd)
    for nothing in ([], ()):
        with pytest.raises(gc.InputError, match="expected at least two runs on each side, got 0 and 1"):
            changes(nothing, report)
