"""The lesson in eight cells: its table, its ties and its bars agree with plain loops over the marks."""

import ast
import re
import runpy
import shutil
import subprocess
import sys
import tomllib
from itertools import combinations
from pathlib import Path
from statistics import mean, stdev

import pytest
import torch
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]
LESSON = ROOT / "examples" / "lesson.py"


def normalised(values):
    spread = stdev(values)
    return [(value - mean(values)) / spread if spread else 0.0 for value in values]


def by_hand(marks):
    """Return the advantages under GRPO and under GDPO by name, computed one equation at a time."""
    grpo = normalised([sum(row) for row in marks])
    columns = [normalised(column) for column in zip(*marks, strict=True)]
    return {"GRPO": grpo, "GDPO": normalised([sum(row) for row in zip(*columns, strict=True)])}


def tied_pairs(marks, advantages):
    pairs = combinations(zip(marks, advantages, strict=True), 2)
    return [(a, b) for (a, x), (b, y) in pairs if a != b and abs(x - y) < 1e-9]


@pytest.fixture(scope="module")
def lesson():
    """Return the marks with which the lesson begins, what its cells show, and the values that they define."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT))
        file = runpy.run_path(str(LESSON))
        return file["MARKS"], *file["app"].run()


@pytest.mark.slow
def test_the_lessons_advantages_and_ties_are_those_of_plain_loops(lesson):
    marks, shown, defined = lesson
    for row, (method, advantages) in zip(shown[3].to_dicts(), by_hand(marks).items(), strict=True):
        assert defined["table"][method].to_list() == pytest.approx(advantages, abs=1e-5)
        assert row["method"] == method and row["mixes"] == len(set(map(tuple, marks)))
        assert row["tied"] == len(tied_pairs(marks, advantages))
    # A right and a wrong answer are tied under GRPO; GDPO puts every right one above every wrong one with the same sum.
    right_and_wrong = [(a, b) for a, b in tied_pairs(marks, by_hand(marks)["GRPO"]) if a[0] != b[0]]
    assert right_and_wrong and not tied_pairs(marks, by_hand(marks)["GDPO"])


@pytest.mark.slow
def test_marks_that_are_all_alike_are_a_mix_with_an_advantage(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))
    text, alike = LESSON.read_text(encoding="utf-8"), tmp_path / "lesson.py"
    alike.write_text(re.sub("MARKS = .*", "MARKS = [[1, 0, 1]] * 12", text, count=1), encoding="utf-8")
    shown, _ = runpy.run_path(str(alike))["app"].run()
    rows = shown[3].to_dicts()
    assert [(row["mixes"], row["advantages"], row["tied"]) for row in rows] == [(1, 1, 0)] * 2


@pytest.mark.slow
def test_the_lessons_bars_are_sorted_and_those_of_tied_answers_are_coloured(lesson):
    marks, _, defined = lesson
    for bars, (method, advantages) in zip(defined["bars"], by_hand(marks).items(), strict=True):
        chart = bars.to_dict()
        tied = [row for pair in tied_pairs(marks, advantages) for row in pair]
        coloured = [row["tied by"] == method for row in chart["datasets"][chart["data"]["name"]]]
        assert coloured == [row in tied for row in marks]
        assert chart["encoding"]["y"]["sort"] == "-x" and chart["encoding"]["x"]["field"] == method


@pytest.mark.slow
def test_the_lesson_trains_from_the_start_that_is_chosen_for_150_epochs(lesson):
    _, shown, defined = lesson
    for method, run in defined["runs"].items():
        assert run.p.shape == (8, 151, 3) and torch.allclose(run.p[:, 0], torch.tensor([0.3, 0.5, 0.1]).to(run.p))
        epochs = [[next(i for i, p in enumerate(seed) if p >= 0.9) for seed in coin] for coin in run.p.permute(2, 0, 1)]
        assert shown[6][method].to_list() == [sorted(coin)[3] for coin in epochs]
    assert [panel.to_dict()["encoding"]["y"]["field"] for panel in defined["panels"]] == shown[6]["coin"].to_list()


def test_the_lesson_stands_alone_with_what_its_first_lines_ask_for():
    text = LESSON.read_text(encoding="utf-8")
    block = re.match(r"# /// script\n((?:#.*\n)+?)# ///\n", text)[1]
    asked = tomllib.loads(re.sub(r"^# ?", "", block, flags=re.MULTILINE))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert asked["requires-python"] == project["requires-python"]
    names = {Requirement(line).name for line in asked["dependencies"]}
    imported = {*re.findall(r"^ *(?:import|from) (\w+)", text, re.MULTILINE)}
    assert imported == {"marimo", "polars", "gdpo_core"} and names == {"marimo", "polars", "altair", project["name"]}
    page = {Requirement(line).name: line for line in project["optional-dependencies"]["page"]}
    assert page["altair"] in asked["dependencies"]  # polars draws by Altair


def test_the_stored_session_is_that_of_the_lesson_as_it_is(tmp_path):
    """A preview of the notebook shows it; `marimo export session examples/lesson.py --no-sandbox` writes it anew."""
    session = LESSON.parent / "__marimo__" / "session" / "lesson.py.json"
    assert len(session.read_bytes()) < 300_000 and str(ROOT) not in session.read_text("utf-8")
    (tmp_path / "__marimo__" / "session").mkdir(parents=True)
    shutil.copy(LESSON, tmp_path)
    shutil.copy(session, tmp_path / "__marimo__" / "session")
    command = [sys.executable, "-m", "marimo", "export", "session", "lesson.py", "--no-sandbox"]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert "skip: lesson.py (up-to-date" in ran.stdout + ran.stderr


def test_the_lesson_has_eight_cells_and_shows_what_is_trained():
    tree = ast.parse(LESSON.read_text(encoding="utf-8"))
    assert len([node for node in tree.body if isinstance(node, ast.FunctionDef)]) == 8
    assert "gc.train(method, p0, scale=scale, weights=weights, epochs=150" in LESSON.read_text(encoding="utf-8")
