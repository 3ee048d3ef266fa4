"""Section 6 without a browser: every scenario keeps its promise, and a run is computed once for all who ask."""

import json
import threading
import time
from dataclasses import replace
from html import unescape
from pathlib import Path

import pytest
import torch
from helpers import html_of

import gdpo_core as gc
from app import app
from gdpo_core import bfcl
from gdpo_core.scenarios import Setting, load_scenarios
from views import scenarios, training
from views.board import sheet
from views.once import Once
from views.training import FASTER, NEITHER, SAME, SLOWER, Verdict

PATH = "data/scenarios.json"
ALL = {scenario.id: scenario for scenario in load_scenarios(PATH)}
GRADED = sheet(bfcl.load_tasks("data/tasks")[0])["graded"]
COINS = ("first coin", "second coin", "third coin")


def html(outputs):
    return unescape(html_of(outputs)).replace("\xa0", " ")


# --- the scenarios ---------------------------------------------------------------------------------------------------


OF_EACH_KIND = {scenario.verdict: scenario for scenario in ALL.values()}.values()
EVERY = [pytest.param(s, id=s.id, marks=() if s in OF_EACH_KIND else pytest.mark.slow) for s in ALL.values()]


@pytest.mark.parametrize("scenario", EVERY)
def test_a_scenario_ends_as_it_promises(scenario):
    assert scenarios.outcome(scenario, GRADED).kind == scenario.verdict


@pytest.mark.slow
@pytest.mark.parametrize("scenario", ALL.values(), ids=ALL)
def test_a_promise_does_not_hang_on_the_seed(scenario):
    setting = scenario.at(scenarios.pass_rates(GRADED))
    found = {m: gc.train(m, seed=1, **vars(setting)) for m in ("grpo", "gdpo")}
    assert training.verdict(found, scenario.coins).kind == scenario.verdict


def test_enough_scenarios_of_each_kind():
    honest = [scenario for scenario in ALL.values() if scenario.setting.match_scale]
    kinds = [scenario.verdict for scenario in honest]
    assert (kinds.count(SAME) >= 3, kinds.count(SLOWER) >= 2, kinds.count(FASTER) >= 3) == (True, True, True)
    assert not any(any(c.isdigit() for c in scenario.lesson) for scenario in ALL.values())


def test_the_gap_of_the_popular_demo_is_the_missing_last_step():
    demo = ALL["demo"]
    closed = training.runs(replace(demo.setting, match_scale=True))
    assert (scenarios.outcome(demo, GRADED).kind, training.verdict(closed, demo.coins).kind) == (FASTER, SAME)


@pytest.mark.slow
@pytest.mark.parametrize("marks", [[0, 0, 0], [1, 1, 1], [0, 1, 0], [1, 1, 0]])
def test_the_answers_of_section_1_make_no_difference_whatever_their_marks(marks):
    assert scenarios.outcome(ALL["board"], [marks] * 12).kind == SAME


def test_every_scenario_starts_on_stops_of_the_sliders():
    for scenario in ALL.values():
        setting = scenario.setting
        assert set(setting.p0) <= set(scenarios.STARTS)
        assert set(setting.scale or ()) <= set(scenarios.SCALES)
        assert set(setting.weights or ()) <= set(scenarios.WEIGHTS)
        assert setting.optimizer in scenarios.OPTIMIZERS.values()
        assert all(value in stops for _, _, stops, value in scenarios.sizes(setting))


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"verdict": "GDPO wins"}, r"\[0\].verdict: expected one of no difference, GDPO faster, GDPO slower"),
        ({"title": " "}, r"\[0\].title: expected text"),
        ({"coins": []}, r"\[0\].coins: expected a list of names"),
        ({"coins": ["one"]}, r"\[0\].train.p0: expected 1 numbers, as many as coins, got 2"),
        ({"results": 3}, r"\[0\]: expected only .* got results"),
        ({"train": [0.5, 0.5]}, r"\[0\].train: expected an object with p0"),
        ({"train": {"p0": [0.5, 1.0]}}, r"\[0\].train.p0: expected probabilities inside \(0, 1\)"),
        ({"train": {"p0": [0.5, 0.5], "scale": [1]}}, r"\[0\].train.scale: expected 2 numbers"),
        ({"train": {"p0": [0.5, 0.5], "epochs": 0}}, r"\[0\].train"),
        ({"train": {"p0": [0.5, 0.5], "lr": -1}}, r"\[0\].train.lr: expected a finite number above 0"),
        ({"train": {"p0": [0.5, 0.5], "gate": [0, 0]}}, r"\[0\].train.gate"),
        ({"train": {"p0": [0.5, 0.5], "steps": 9}}, r"\[0\].train: expected arguments of train, got steps"),
        ({"train": {"p0": [0.5, 0.5], "rollouts": 2.5}}, r"\[0\].train.rollouts: expected a whole number"),
    ],
)
def test_a_broken_scenario_is_named(tmp_path, change, told):
    entry = {"id": "a", "title": "A", "verdict": SAME, "lesson": "L.", "coins": ["one", "two"]}
    file = tmp_path / "scenarios.json"
    file.write_text(json.dumps([{**entry, "train": {"p0": [0.5, 0.5]}, **change}]))
    with pytest.raises(gc.InputError, match=told):
        load_scenarios(file)


@pytest.mark.parametrize("text", ["", "{}", "[]", "[1]", '{"a": '])
def test_a_file_that_holds_no_scenarios_is_refused(tmp_path, text):
    (tmp_path / "scenarios.json").write_text(text)
    with pytest.raises(gc.InputError, match=r"scenarios\.json"):
        load_scenarios(tmp_path / "scenarios.json")


def test_two_scenarios_of_one_title_are_refused(tmp_path):
    entry = json.loads(Path(PATH).read_text(encoding="utf-8"))[0]
    (tmp_path / "scenarios.json").write_text(json.dumps([entry, {**entry, "id": "other"}]))
    with pytest.raises(gc.InputError, match="no earlier scenario has"):
        load_scenarios(tmp_path / "scenarios.json")


# --- the sentences ---------------------------------------------------------------------------------------------------


def ran(grpo, gdpo, epochs=100):
    """Runs in which each method has its coins at the level from these epochs on; None for never."""

    def run(steps):
        epoch = torch.arange(epochs + 1)[:, None]
        reached = torch.tensor([epochs + 1 if s is None else s for s in steps])
        return gc.TrainingRun("any", torch.where(epoch >= reached, 0.95, 0.1)[None])

    return {"grpo": run(grpo), "gdpo": run(gdpo)}


@pytest.mark.parametrize(
    ("grpo", "gdpo", "kind", "said"),
    [
        ((20, 21), (20, 20), SAME, "No difference</b>: GRPO and GDPO have every coin at 0.9 after 21 and 20 epochs."),
        ((40, 20), (20, 20), FASTER, "in the slowest coin in 50 % of GRPO's steps</b>: 20 epochs, not 40."),
        ((40, 10), (20, 20), FASTER, "In return, GDPO has the second coin there later: after 20 epochs, not 10."),
        ((20, 20), (10, 50), SLOWER, "after 50 epochs, GRPO after 20 (250 % of GRPO's steps)."),
        ((40, 10), (40, 30), SAME, "But GDPO has the second coin there later: after 30 epochs, not 10."),
        ((None, 10), (50, 10), FASTER, "GDPO has every coin at 0.9 after 50 epochs, GRPO not within 100."),
        ((40, 10), (50, None), SLOWER, "GRPO has every coin at 0.9 after 40 epochs, GDPO not within 100."),
        ((None, 10), (None, 10), NEITHER, "Neither method has every coin at 0.9</b> within 100 epochs."),
        ((0, 0), (0, 0), SAME, "at 0.9 at its start."),
    ],
)
def test_the_sentence_follows_from_the_medians(grpo, gdpo, kind, said):
    found = training.verdict(ran(grpo, gdpo), COINS[:2])
    assert found.kind == kind
    assert said in found.sentence.replace("\xa0", " ")
    assert "inf" not in found.sentence


def test_the_tolerance_is_two_epochs_or_five_percent():
    assert training.verdict(ran((20,), (18,)), COINS[:1]).kind == SAME
    assert training.verdict(ran((20,), (17,)), COINS[:1]).kind == FASTER
    assert training.verdict(ran((95,), (100,)), COINS[:1]).kind == SAME
    assert training.verdict(ran((94,), (100,)), COINS[:1]).kind == SLOWER


def test_a_level_that_is_never_reached_is_said_so_in_the_table():
    assert "not in 100" in training.steps_table(ran((None, 10), (50, 10)), COINS[:2])


def test_every_chart_is_described_and_marks_where_the_level_is_reached():
    setting = ALL["scales"].setting
    steps = {m: training.medians(run) for m, run in training.runs(setting).items()}
    for k, chart in enumerate(training.charts(setting, COINS)):
        spec = chart.to_dict()
        assert f"GRPO reaches 0.9 at {steps['grpo'][k]:g}" in spec["description"]
        points = spec["datasets"][spec["layer"][-1]["data"]["name"]]
        assert all(f",{s[k]:g}" in points for s in steps.values())
    never = training.charts(replace(setting, p0=(0.002,) * 3, epochs=5), COINS)[0].to_dict()
    assert "does not reach 0.9" in never["description"]


@pytest.mark.slow
@pytest.mark.parametrize("scenario", ALL.values(), ids=ALL)
def test_the_axes_are_those_of_the_scenario_whatever_its_curves_do(scenario):
    for chart in training.charts(scenario.setting, scenario.coins):
        spec = chart.to_dict()
        axes = [layer["encoding"] for layer in spec["layer"]]
        assert all(axis["x"]["scale"]["domain"] == [0, scenario.setting.epochs] for axis in axes)
        assert all(axis["y"]["scale"]["domain"] == [0, 1] for axis in axes)
        assert (spec["height"], spec["config"]["background"]) == (200, "transparent")


# --- a guess ---------------------------------------------------------------------------------------------------------


class Chosen:
    """Stands in for a control."""

    def __init__(self, value):
        self.value = value


def test_without_a_prediction_everything_is_shown(default_page):
    text = html(default_page[0])
    assert "of GRPO's steps" in text and ALL["scales"].lesson in text and "Your guess" not in text


@pytest.mark.slow
def test_before_a_guess_nothing_is_given_away():
    text = html(app.run(defs={"predict": Chosen(True), "scenario": Chosen(ALL["scales"])})[0])
    assert "appear once you have said" in text and "Hidden while you predict" in text
    assert "of GRPO's steps" not in text and not any(s.lesson in text for s in ALL.values())


# Each scenario with a right and a wrong guess, and each guess once right and once wrong.
@pytest.mark.slow
@pytest.mark.parametrize(
    "name, guess",
    [("scales", FASTER), ("equal", SAME), ("noise", SLOWER), ("scales", SAME), ("equal", SLOWER), ("noise", FASTER)],
)
def test_a_guess_is_told_right_or_wrong(name, guess):
    defs = {"predict": Chosen(True), "scenario": Chosen(ALL[name]), "guess": Chosen(guess)}
    text = html(app.run(defs=defs)[0])
    assert ALL[name].lesson in text
    assert ("✓ Right." in text) == (guess == ALL[name].verdict)
    assert ("✗ Not so." in text) == (guess != ALL[name].verdict)


def test_where_neither_gets_there_no_difference_was_right():
    assert "Right" in scenarios.reckoned(SAME, Verdict(NEITHER, ""))


@pytest.mark.slow
def test_the_controls_as_they_start_are_the_scenario_and_a_change_is_said_so():
    for name in ALL:
        text = html(app.run(defs={"scenario": Chosen(ALL[name]), "predict": Chosen(False)})[0])
        assert "You have changed" not in text
        assert scenarios.outcome(ALL[name], GRADED).sentence.replace("\xa0", " ") in text
    changed = replace(ALL["scales"].setting, seeds=8)
    assert "You have changed" in scenarios.lesson(ALL["scales"], changed)


@pytest.mark.slow
def test_the_marks_of_section_1_are_what_their_scenario_trains():
    passed = [[1, 0, 1]] * 6 + [[0, 0, 1]] * 6
    defs = {"passed": passed, "scenario": Chosen(ALL["board"]), "predict": Chosen(False)}
    assert "correctness 0.50, style 0.04, conciseness 0.96" in html(app.run(defs=defs)[0])


# --- once for all who ask --------------------------------------------------------------------------------------------


def together(call, count):
    """What `call(n)` returned or raised in threads that start at the same moment."""
    found, gate = [None] * count, threading.Barrier(count)

    def work(n):
        gate.wait()
        try:
            found[n] = call(n)
        except Exception as error:
            found[n] = error

    threads = [threading.Thread(target=work, args=(n,)) for n in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    return found


def test_what_many_ask_at_once_is_computed_once():
    once, calls = Once(maxsize=4), []

    def slow():
        calls.append(1)
        time.sleep(0.2)
        return object()

    found = together(lambda n: once.get("key", slow), 8)
    assert len(calls) == 1
    assert len(set(map(id, found))) == 1


def test_who_gives_up_leaves_the_others_to_compute_for_themselves():
    once, calls, lock = Once(maxsize=4), [], threading.Lock()

    def first_fails():
        with lock:
            calls.append(1)
            mine = len(calls)
        time.sleep(0.1)
        if mine == 1:
            raise training.Stopped
        return "done"

    found = together(lambda n: once.get("key", first_fails), 4)
    assert sorted(map(str, found)) == ["", "done", "done", "done"]
    assert len(calls) == 2


def test_who_waits_can_leave():
    once, started, left = Once(maxsize=4), threading.Event(), threading.Event()

    def slow():
        started.set()
        left.wait(10)
        return "done"

    def leave():
        raise training.Stopped

    owner = threading.Thread(target=once.get, args=("key", slow))
    owner.start()
    started.wait()
    with pytest.raises(training.Stopped):
        once.get("key", slow, waiting=leave)
    left.set()
    owner.join()
    assert once.has("key")
    assert once.get("key", leave) == "done"


def test_only_the_latest_keys_are_kept():
    once = Once(maxsize=2)
    for key in "aabca":
        once.get(key, lambda: None)
    assert [once.has(key) for key in "abc"] == [True, False, True]


def test_a_run_can_be_stopped_and_leaves_nothing_behind():
    setting = Setting((0.3, 0.4), epochs=40, seeds=3)

    def stop(share):
        if share > 0.2:
            raise training.Stopped

    with pytest.raises(training.Stopped):
        training.runs(setting, stop)
    shares = []
    assert training.runs(setting, shares.append)["gdpo"].p.shape == (3, 41, 2)
    assert shares == sorted(shares) and shares[-1] == 1


def test_what_the_scenarios_ask_for_takes_no_bar():
    assert all(training.quick(scenario.setting) for scenario in ALL.values())
    assert not training.quick(Setting((0.5,) * 3, rollouts=16, prompts=64, epochs=400))
