"""The chapter Train without a browser: what scenarios promise, what sentences say, and what the controls ask."""

import contextlib
import io
import json
import re
from dataclasses import replace
from html import unescape
from math import inf
from pathlib import Path

import pytest
import torch
import traitlets

import gdpo_core as gc
from gdpo_core import bfcl
from gdpo_core.scenarios import COMPARISONS, ENDS, Setting, load_scenarios, medians, verdict, verdict_on_coins
from views import controls, gallery, trained
from views.controls import pass_rates, setting_of, state_of
from views.lab import Lab, sheet
from views.link import Session
from views.train import Train, chapter, claim
from views.trained import FASTER, NEITHER, SAME, SLOWER

DATA = Path("data")
PATH = DATA / "scenarios.json"
ALL = {scenario.id: scenario for scenario in load_scenarios(PATH)}
COINS = {name: one for name, one in ALL.items() if not one.setting.arms}
ARMS = {name: one for name, one in ALL.items() if one.setting.arms}
KINDS = ("scales", "equal", "noise", "pays")  # one of each; the others are slow
EVERY = [pytest.param(s, id=s.id, marks=() if s.id in KINDS else pytest.mark.slow) for s in ALL.values()]
RATES = pass_rates(sheet(bfcl.load_tasks(DATA / "tasks")[0])["graded"])
FILE = gallery.load(DATA / "gallery.json", tuple((s.id, bool(s.setting.arms)) for s in ALL.values()))
CLOSE = 3  # epochs: the processor rounds, a draw falls otherwise, and a median moves by an epoch or two


def fast_first(*values, fast=1):
    """Parameters of which all but the first are slow."""
    return [pytest.param(v, marks=() if n < fast else pytest.mark.slow) for n, v in enumerate(values)]


def plain(html):
    return " ".join(unescape(re.sub(r"<[^>]+>", "", str(html))).replace("\xa0", " ").split())


# --- the scenarios ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scenario", EVERY)
@pytest.mark.parametrize("comparison", COMPARISONS)
def test_a_scenario_ends_as_it_promises_and_as_its_picture_shows(scenario, comparison):
    setting, stored = scenario.at(RATES).compared(comparison), FILE["sketches"][scenario.id][comparison]
    arms = bool(setting.arms)
    assert gallery.kind(stored, arms) == scenario.verdict_of(comparison) == verdict(trained.runs(setting), arms)
    made = gallery.sketch(setting)
    for method in trained.COMPARED:
        for epochs, kept in zip(made[method]["steps"], stored[method]["steps"], strict=True):
            assert (epochs is None) == (kept is None)
            assert epochs is None or abs(epochs - kept) <= CLOSE
        if made["epochs"] == stored["epochs"]:
            assert made[method]["curve"] == pytest.approx(stored[method]["curve"], abs=0.1)
        assert made[method]["last"] == pytest.approx(stored[method]["last"], abs=0.02)


@pytest.mark.slow
@pytest.mark.parametrize("scenario", ALL.values(), ids=ALL)
@pytest.mark.parametrize("comparison", COMPARISONS)
def test_a_promise_does_not_hang_on_the_seed(scenario, comparison):
    setting = scenario.at(RATES).compared(comparison)
    found = {m: _train(setting, m, seed=1) for m in trained.COMPARED}
    assert verdict(found, bool(setting.arms)) == scenario.verdict_of(comparison)


def _train(setting, method, **options):
    given = {k: v for k, v in vars(setting).items() if k not in ("arms", *(("scale", "noise") if setting.arms else ()))}
    if setting.arms:
        return gc.train_arms(method, rewards=setting.paid, **given, **options)
    return gc.train(method, **given, **options)


def test_helps_nothing_and_hurts_are_all_there():
    kinds = [scenario.verdict for scenario in COINS.values() if scenario.setting.comparison == "equal"]
    assert (kinds.count(SAME) >= 3, kinds.count(SLOWER) >= 2, kinds.count(FASTER) >= 3) == (True, True, True)
    assert {scenario.verdict for scenario in ARMS.values()} == set(ENDS)
    assert ALL["demo"].setting.comparison == "neither" and ALL["demo"].verdict_of("equal") == SAME
    assert all(scenario.setting.epochs == 150 for name, scenario in ALL.items() if name not in ("varying", "live"))


# The figures of the research note, from before this code: as published, 8 seeds.
@pytest.mark.parametrize(("name", "grpo", "gdpo"), [("live", inf, 175), ("difficulty", 85, 69), ("rare", 97, 62)])
def test_as_published_the_recorded_medians_come_out(name, grpo, gdpo):
    setting = replace(ALL[name].setting.compared("published"), seeds=8)
    found = {m: max(medians(setting.train(m))) for m in trained.COMPARED}
    assert found["grpo"] == pytest.approx(grpo, abs=CLOSE)
    assert found["gdpo"] == pytest.approx(gdpo, abs=CLOSE)


def test_as_published_only_gdpo_has_a_last_step():
    for method, other in (("grpo", "neither"), ("grpo_no_std", "neither"), ("gdpo", "equal")):
        runs = [
            replace(ALL["scales"].setting.compared(c), seeds=2, epochs=5).train(method).p for c in ("published", other)
        ]
        assert runs[0].equal(runs[1])
    arms = [replace(ALL["conflict"].setting.compared(c), seeds=2, epochs=5) for c in ("published", "neither")]
    assert arms[0].train("grpo").p.equal(arms[1].train("grpo").p)
    assert arms[0].mean_field("grpo").equal(arms[1].mean_field("grpo"))


@pytest.mark.parametrize("wrong", ["own", None, 2, 1.0, ["published"]])
def test_another_comparison_is_refused(wrong):
    with pytest.raises(gc.InputError, match='match_scale: expected True, False or "published"'):
        gc.train("gdpo", [0.5], match_scale=wrong)


@pytest.mark.slow
@pytest.mark.parametrize("marks", [[0, 0, 0], [1, 1, 1], [0, 1, 0], [1, 1, 0]])
def test_the_labs_answers_make_no_difference_whatever_their_marks(marks):
    assert verdict(trained.runs(ALL["board"].at(pass_rates([marks] * 12)))) == SAME


# --- the conflict ----------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("start", fast_first(0.1, 0.05, 0.02))
def test_at_equal_weights_every_method_ends_wrong_any_less_turns_it_and_so_does_the_gate(start):
    def right(weight, gate=None):
        setting = Setting((start, 0.95 - start, 0.05), ARMS["conflict"].setting.arms, weights=(1, weight), gate=gate)
        return [p >= 0.9 for p in (setting.train(m).p[:, -1, 0].median() for m in ("grpo", "grpo_no_std", "gdpo"))]

    assert right(1.0) == right(1.1) == [False] * 3
    assert right(0.9) == right(0.25) == right(5.0, (1, 0)) == [True] * 3


@pytest.mark.slow
def test_the_weight_that_is_enough_moves_with_the_pay_under_grpo_alone():
    need = {}
    for pay in (1.0, 3.0):
        found = gallery.ends(replace(ALL["conflict"].setting, scale=(1.0, pay)), trained.COMPARED)
        need[pay] = {m: _largest(cells) for m, cells in found.items()}
    assert need == {1.0: {"grpo": 0.9, "gdpo": 0.9}, 3.0: {"grpo": 0.25, "gdpo": 0.9}}


def _largest(cells):
    right = [weight for weight, (p, _) in zip(gallery.WEIGHTS, cells, strict=False) if p >= 0.9]
    return max(right)


def test_a_gate_that_spares_wrong_answers_from_a_penalty_teaches_nothing_and_one_to_the_worst_value_does():
    setting = ALL["penalty"].setting
    for method in trained.COMPARED:
        assert setting.train(method).p[:, -1, 0].median() == pytest.approx(0.1, abs=1e-6)
        to_worst = replace(setting, arms=((1, -1), (0, -1), (0, -1)), gate=None)
        assert to_worst.train(method).p[:, -1, 0].median() > 0.99


def test_in_groups_without_end_the_conflict_cancels_under_gdpo():
    setting = ALL["conflict"].setting
    assert trained.limit(setting, "gdpo")[-1, 0].item() == pytest.approx(0.1, abs=0.02)
    assert "mirror images and cancel" in trained.without_end(setting, ALL["conflict"].coins)
    assert trained.without_end(ALL["weighed"].setting, ALL["weighed"].coins) == ""


@pytest.mark.slow
@pytest.mark.parametrize("name", fast_first("conflict", "penalty"))
def test_the_stored_weights_are_those_that_are_trained(name):
    stored = FILE["weights"][name]["equal"]
    for method, cells in gallery.ends(ALL[name].setting, list(stored)).items():
        for (p, steps), (kept, before) in zip(cells, stored[method], strict=True):
            assert p == pytest.approx(kept, abs=0.02)
            assert (steps is None) == (before is None) and (steps is None or abs(steps - before) <= CLOSE)


# --- a file that is broken -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"verdict": "GDPO wins"}, r"\[0\].verdict: expected one of no difference, GDPO faster, GDPO slower"),
        ({"title": ""}, r"\[0\].title: expected `str` of length >= 1"),
        ({"coins": []}, r"\[0\].coins: expected `array` of length >= 1"),
        ({"coins": ["one"]}, r"\[0\].train.p0: expected 1 numbers, as many as coins, got 2"),
        ({"results": 3}, r"\[0\]: object contains unknown field `results`"),
        ({"train": [0.5, 0.5]}, r"\[0\].train: expected `object`, got `array`"),
        ({"train": {"p0": [0.5, 1.0]}}, r"\[0\].train.p0: expected probabilities inside \(0, 1\)"),
        ({"train": {"p0": [0.5, 0.5], "scale": [1]}}, r"\[0\].train.scale: expected 2 numbers"),
        ({"train": {"p0": [0.5, 0.5], "epochs": 0}}, r"\[0\].train"),
        ({"train": {"p0": [0.5, 0.5], "lr": -1}}, r"\[0\].train.lr: expected a finite number above 0"),
        ({"train": {"p0": [0.5, 0.5], "gate": [0, 0]}}, r"\[0\].train.gate"),
        ({"train": {"p0": [0.5, 0.5], "steps": 9}}, r"\[0\].train: expected arguments of train, got steps"),
        ({"train": {"p0": [0.5, 0.5], "rollouts": 2.5}}, r"\[0\].train.rollouts: expected `int`, got `float`"),
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


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"verdicts": {"published": "GDPO wins"}}, r"\[0\].verdicts.published: expected one of no difference"),
        ({"verdicts": {"paper": SAME}}, r"\[0\].verdicts: expected some of equal, published, neither, got paper"),
        ({"lessons": {"neither": ""}}, r"\[0\].lessons\[...\]: expected `str` of length >= 1"),
        ({"train": {"p0": [0.5, 0.5], "arms": [[1, 0]]}}, r"\[0\].train.rewards: expected shape"),
    ],
)
def test_a_broken_promise_is_named(tmp_path, change, told):
    entry = {"id": "a", "title": "A", "verdict": SAME, "lesson": "L.", "coins": ["one", "two"]}
    file = tmp_path / "scenarios.json"
    file.write_text(json.dumps([{**entry, "train": {"p0": [0.5, 0.5]}, **change}]))
    with pytest.raises(gc.InputError, match=told):
        load_scenarios(file)


def test_a_missing_picture_file_is_named(tmp_path):
    (tmp_path / "scenarios.json").write_text(PATH.read_text(encoding="utf-8"), encoding="utf-8")
    told = chapter(tmp_path, Session()).text
    assert "This chapter can't be shown." in unescape(told) and "gallery.json: expected a readable file" in told
    (tmp_path / "gallery.json").write_text('{"sketches": {"scales": {}}, "weights": {}}')
    assert "expected the pictures of all scenarios, got scales" in chapter(tmp_path, Session()).text


def test_pictures_with_other_numbers_close_the_chapter_with_a_sentence(tmp_path):
    (tmp_path / "scenarios.json").write_text(PATH.read_text(encoding="utf-8"), encoding="utf-8")
    kept = json.loads((DATA / "gallery.json").read_text(encoding="utf-8"))
    text = json.loads((DATA / "gallery.json").read_text(encoding="utf-8"))
    text["sketches"]["rare"]["equal"]["gdpo"]["curve"][3] = "seven"
    short = json.loads((DATA / "gallery.json").read_text(encoding="utf-8"))
    del short["weights"]["gated"]["equal"]["gdpo"][0]
    cases = (
        ("rare: expected the numbers", text),
        ("gated: expected the numbers", short),
        ("object missing required field `weights`", {"sketches": kept["sketches"]}),
    )
    for fault, file in cases:
        (tmp_path / "gallery.json").write_text(json.dumps(file), encoding="utf-8")
        gallery.load.cache_clear()
        told = unescape(chapter(tmp_path, Session()).text)
        assert "This chapter can't be shown. " in told and f"gallery.json: {fault}" in told


# --- the sentences ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("grpo", "gdpo", "kind", "said"),
    [
        ((20, 21), (20, 20), SAME, "no difference, every coin is at 0.9 after 21 epochs under GRPO, 20 under GDPO."),
        ((40, 20), (20, 20), FASTER, "the slowest coin is at 0.9 after 20 epochs under GDPO, 40 under GRPO."),
        ((40, 10), (20, 20), FASTER, "In return the second coin comes later under GDPO: 20, not 10."),
        (
            (20, 20),
            (10, 50),
            SLOWER,
            "with the slowest coin at 0.9 after 50 epochs; under GRPO after 20.",
        ),
        ((40, 10), (40, 30), SAME, "But the second coin comes later under GDPO: 30, not 10."),
        ((None, 10), (50, 10), FASTER, "GDPO has every coin at 0.9 after 50 epochs, GRPO not in 100."),
        ((40, 10), (50, None), SLOWER, "GRPO has every coin at 0.9 after 40 epochs, GDPO not in 100."),
        ((None, 10), (None, 10), NEITHER, "neither method has every coin at 0.9 within 100 epochs."),
    ],
)
@pytest.mark.parametrize("comparison", COMPARISONS)
def test_the_sentence_follows_from_the_medians_and_says_of_which_comparison_it_is(
    monkeypatch, grpo, gdpo, kind, said, comparison
):
    def run(steps):
        reached = torch.tensor([101 if s is None else s for s in steps])
        return gc.TrainingRun("any", torch.where(torch.arange(101)[:, None] >= reached, 0.95, 0.1)[None])

    monkeypatch.setattr(trained, "runs", lambda *_: {"grpo": run(grpo), "gdpo": run(gdpo)})
    setting = Setting((0.5, 0.5), epochs=100).compared(comparison)
    found, sentence = trained.said(setting, ("first coin", "second coin"))
    assert found == kind
    assert plain(sentence).startswith(f"{trained.UNDER[comparison]}: ")
    assert said in plain(sentence) and "inf" not in plain(sentence)


def test_the_tolerance_is_two_epochs_or_five_percent():
    for grpo, gdpo, kind in ((20, 18, SAME), (20, 17, FASTER), (95, 100, SAME), (94, 100, SLOWER)):
        assert verdict_on_coins([grpo], [gdpo]) == kind
    assert "within 2 epochs or 5 %" in Train(DATA, Session()).choices["same"]


def test_the_claim_counts_what_the_columns_show():
    widget = Train(DATA, Session())
    for comparison in COMPARISONS:
        counted = [s for s in COINS.values() if s.setting.comparison in ("equal", comparison)]
        kinds = [s.verdict_of(comparison) for s in counted]
        said = widget.cards[comparison]["claim"]
        assert f"{kinds.count(FASTER)} of {len(kinds)} set-ups, slower in {kinds.count(SLOWER)}" in said
    assert claim("equal", [0, 1, 2]) == "At equal step size GDPO is faster in 1 of 3 set-ups, slower in 1"


@pytest.mark.parametrize("scenario", EVERY)
def test_the_large_picture_says_what_the_small_one_shows(scenario):
    session = Session(brought={"train-scenario": scenario.id})
    widget = Train(DATA, session)
    drawing, card = widget.drawing, widget.cards["equal"]["cards"][scenario.id]
    assert drawing["given"] or scenario.from_marks
    assert drawing["state"]["scenario"] == scenario.id and drawing["kind"] == scenario.verdict
    if not scenario.from_marks:
        assert card["kind"] == drawing["kind"]
    assert scenario.lesson_of(scenario.setting.comparison) in plain(drawing["why"])
    assert ("hurts" in drawing["deeds"]) == (scenario.verdict in (SLOWER, ENDS[3]))
    assert len(drawing["panels"]) == len(scenario.coins)
    assert not re.search(r"\b(nan|inf)\b", plain(drawing["verdict"]))


# --- the controls ----------------------------------------------------------------------------------------------------


def asked(state, **changes):
    given = {**state.__dict__, "more": dict(state.more.__dict__), **changes}
    return {name: list(value) if isinstance(value, tuple) else value for name, value in given.items()}


@pytest.mark.parametrize("scenario", ALL.values(), ids=ALL)
def test_the_controls_as_they_start_are_the_scenario(scenario):
    state = state_of(scenario, scenario.setting.comparison)
    assert controls.checked(asked(state), ALL) == state
    setting = setting_of(state, scenario)
    assert trained.as_given(scenario, setting)
    for name in ("start", "pays", "weights"):
        stops = {"start": controls.STARTS, "pays": controls.PAYS, "weights": controls.WEIGHTS}[name]
        assert scenario.from_marks or set(getattr(state, name)) <= set(stops)
    assert not trained.as_given(scenario, replace(setting, seeds=8))


@pytest.mark.parametrize(
    "change",
    [
        {"scenario": "none"},
        {"compare": "fair"},
        {"method": "ppo"},
        {"start": [0.5, 0.5]},
        {"start": [0.5, 0.5, 1.0]},
        {"start": [0.5, 0.5, float("nan")]},
        {"pays": [1, 3, 1e9]},
        {"weights": [1, 1, -1]},
        {"weights": [1, 1, float("inf")]},
        {"gate": True},
        {"more": {}},
        {"more": {"optimizer": "sgd", "rollouts": 8, "prompts": 32, "seeds": 10**9, "epochs": 9, "lr": 1, "noise": []}},
        {"start": "many"},
    ],
)
def test_controls_that_fit_nothing_are_refused_and_change_nothing(change):
    widget = Train(DATA, Session())
    before = widget.state
    with pytest.raises(traitlets.TraitError, match="expected the controls of Train"):
        widget._asked({**asked(before), **change, "n": 1})
    assert widget.state == before


def test_a_link_restores_every_control():
    first = Session(brought={"train-scenario": "noise", "train-compare": "published", "train-method": "grpo_no_std"})
    widget = Train(DATA, first)
    widget._state = replace(
        widget.state,
        start=(0.3, 0.85),
        pays=(3.0, 1.0),
        weights=(2.0, 0.5, 1.0),
        more=replace(widget.state.more, optimizer="adam", seeds=4, epochs=20, lr=0.05, noise=(0.0, 0.5, 0.001)),
    )
    query = dict(pair.split("=") for pair in first.query("train").split("&"))
    second = Session.of(query)
    assert Train(DATA, second).state == widget.state and second.notes == []
    gated = Train(DATA, Session.of({"train-scenario": "conflict", "train-gate": "1", "train-start": "0.6"}))
    assert gated.state.gate and gated.state.start == (0.6,)


@pytest.mark.parametrize(
    "params",
    [
        {"train-scenario": "none"},
        {"train-start": "0.5"},
        {"train-more": "1_2"},
        {"train-method": "ppo"},
        {"train-gate": "1"},
        {"train-scenario": "conflict", "train-start": "0.99"},
    ],
)
def test_a_link_that_fits_nothing_opens_the_chapter_with_a_note(params):
    session = Session.of(params)
    widget = Train(DATA, session)
    assert widget.drawing["panels"] and session.notes


def test_a_link_restores_another_comparison_than_a_scenarios_own():
    session = Session(brought={"train-scenario": "demo"})
    widget = Train(DATA, session)
    assert widget.state.compare == "neither" and "compare" not in session.query("train")
    widget._state = replace(widget.state, compare="equal")
    again = Session.of(dict(pair.split("=") for pair in session.query("train").split("&")))
    assert Train(DATA, again).state == widget.state


def test_what_is_untouched_stays_out_of_the_link():
    session = Session()
    Train(DATA, session)
    assert session.query("train") == "v=1&at=train"


def test_the_labs_answers_bring_marks_pay_and_weights():
    session = Session()
    lab = Lab(bfcl.load_tasks(DATA / "tasks"), session)
    widget = Train(DATA, session)
    marks = ((1, 0, 1),) * 6 + ((0, 0, 1),) * 6
    lab._state = replace(lab.state, marks=marks, pays=(1.0, 3.0, 10.0), weights=(2.0, 1.0, 1.0))
    state = widget._chosen({"choose": "board", "compare": "equal"})
    assert state.start == (0.5, round(0.5 / 12, 4), round(11.5 / 12, 4))
    assert (state.pays, state.weights) == ((1.0, 3.0, 10.0), (2.0, 1.0, 1.0))


def test_a_scenario_with_a_comparison_of_its_own_brings_it_along():
    widget = Train(DATA, Session())
    assert widget._chosen({"choose": "demo", "compare": "equal"}).compare == "neither"
    assert widget._chosen({"choose": "equal", "compare": "published"}).compare == "published"


def test_a_later_question_stops_the_run_of_the_earlier_one():
    widget = Train(DATA, Session())
    before = widget.drawing
    state = replace(widget.state, more=replace(widget.state.more, epochs=777))
    widget._wanted = 2
    widget._train(1, state)  # what a thread that was overtaken does
    assert widget.drawing is before


def test_a_run_that_is_stopped_leaves_nothing_behind_and_the_next_tells_its_progress():
    setting, shares = Setting((0.3, 0.4), epochs=40, seeds=3), []

    def stop(share):
        if share > 0.2:
            raise trained.Stopped

    with pytest.raises(trained.Stopped):
        trained.runs(setting, progress=stop)
    assert trained.runs(setting, progress=shares.append)["gdpo"].p.shape == (3, 41, 2)
    assert sorted(set(shares)) == [0, 0.5]


def test_equal_requests_are_trained_once():
    setting = replace(ALL["conflict"].setting, epochs=11, seeds=2)
    assert trained.runs(setting)["gdpo"] is trained.runs(setting)["gdpo"]


# --- depth and programs ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["scales", "noise", "pays"])
def test_the_folds_hold_what_the_runs_say(name):
    widget = Train(DATA, Session(brought={"train-scenario": name}))
    assert widget.folded == {}
    widget._asked({"fold": ["how", "steps", "curves", "other"]})
    assert set(widget.folded) == {"how", "steps", "curves"}
    scenario = ALL[name]
    for comparison in COMPARISONS:
        for run in trained.runs(scenario.setting.compared(comparison)).values():
            for steps in medians(run):
                assert f"<td>{'–' if steps == inf else f'{steps:g}'}</td>" in widget.folded["steps"]
    assert f"{scenario.setting.prompts} groups of {scenario.setting.rollouts} answers" in plain(widget.folded["how"])


@pytest.mark.parametrize(
    "name", fast_first("pays", "scales", "varying", "undone", "demo", "live", "penalty", "gated", fast=2)
)
def test_the_program_prints_the_numbers_on_the_screen(name):
    session = Session(brought={"train-scenario": name, "train-method": "grpo_no_std"})
    widget = Train(DATA, session)
    program = session.programs["train"]()
    assert len(program.splitlines()) <= 15
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(program, {})
    scenario = ALL[name]
    for line, (method, run) in zip(
        out.getvalue().splitlines(),
        trained.runs(setting_of(widget.state, scenario), controls.methods_of(widget.state)).items(),
        strict=True,
    ):
        shown = [round(p, 2) for p in run.p[:, -1].median(0).values.tolist()] if scenario.setting.arms else medians(run)
        assert line == f"{method} {shown}"


@pytest.mark.slow
@pytest.mark.parametrize("method", sorted(controls.extras()))
def test_every_third_method_trains_and_is_named(method):
    widget = Train(DATA, Session(brought={"train-method": method}))
    series = widget.drawing["panels"][0]["series"]
    assert [one["method"] for one in series] == ["grpo", "gdpo", method]
    assert f"{controls.extras()[method]} has every coin there" in plain(widget.drawing["verdict"])
