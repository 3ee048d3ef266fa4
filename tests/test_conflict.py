"""Section 7: the conflict of a hard and an easy reward, weighed and gated."""

import re
import threading
import time
from dataclasses import replace

import polars as pl
import pytest
from helpers import html_of, text_of

import gdpo_core as gc
from views import conflict, prompts
from views.conflict import Toy
from views.text import NAMES

DATA = prompts.published("data/bfcl_rewards.parquet")
RIGHT, SHORT = 0, 1
RARE = (0.1, 0.05, 0.02)  # the starts at which a wrong but short answer is the likelier one


# --- the toy ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("start", [RARE[0], *(pytest.param(start, marks=pytest.mark.slow) for start in RARE[1:])])
def test_at_equal_weights_every_method_ends_wrong_but_short(start):
    for end in conflict.ends(Toy(start)).values():
        assert end.p[SHORT] >= 0.985
        assert end.winner == SHORT
    assert "Every method ends wrong but short" in conflict.verdict(Toy(start))


@pytest.mark.slow
@pytest.mark.parametrize("start", RARE)
@pytest.mark.parametrize("weight", [0.99, *[w for w in conflict.WEIGHTS.values() if w < 1]])
def test_any_smaller_weight_turns_every_method_to_the_right_answer(start, weight):
    for end in conflict.ends(Toy(start, weight)).values():
        assert end.p[RIGHT] >= 0.985
    assert "Every method ends right but long" in conflict.verdict(Toy(start, weight))


@pytest.mark.slow
@pytest.mark.parametrize("start", RARE)
def test_the_gate_turns_every_method_whatever_the_weight_and_the_pay(start):
    toy = Toy(start, gated=True)
    assert all(end.p[RIGHT] >= 0.99 for end in conflict.ends(toy).values())
    assert "Every method ends right but long" in conflict.verdict(toy)
    for weight, pays in ((1 / 16, 1.0), (1.0, 3.0), (5.0, 3.0)):
        other = replace(toy, weight=weight, pays=pays)
        assert gc.condition(other.rewards, 1, 0)[:, 1].tolist() == [0, 0, 0]
        for method, run in conflict.runs(toy).items():
            sizes = {"prompts": conflict.PROMPTS, "rollouts": conflict.ROLLOUTS, "seeds": conflict.SEEDS}
            alone = gc.train_arms(method, other.p0, other.rewards, **other.settings(), **sizes)
            assert alone.p.equal(run.p)


def test_above_the_pay_of_the_right_answer_every_method_stays_short():
    for end in conflict.ends(Toy(weight=1.1)).values():
        assert end.winner == SHORT


@pytest.mark.slow
def test_the_weight_that_is_enough_depends_on_the_pay_under_grpo_alone():
    for start in RARE:
        assert conflict.enough(start, 1.0) == dict.fromkeys(NAMES, "0.9")
        assert conflict.enough(start, 3.0) == {"grpo": "1/4", "grpo_no_std": "1/4", "gdpo": "0.9"}
    for start in (*RARE, 0.6):
        low, high = (conflict.enough(start, pays)["gdpo"] for pays in (1.0, 3.0))
        assert low == high
        low, high = (conflict.enough(start, pays)["grpo"] for pays in (1.0, 3.0))
        assert low != high


@pytest.mark.slow
def test_groups_without_end_turn_at_a_weight_of_one_too():
    for weight, right in ((1.05, False), (0.95, True)):
        for curve in conflict.large(Toy(weight=weight)).values():
            assert (curve[-1, RIGHT].item() > 0.9) == right
    gdpo = conflict.large(Toy())["gdpo"][-1].tolist()
    assert gdpo[:2] == pytest.approx([0.1, 0.9], abs=0.01)
    told = text_of(conflict.verdict(Toy()))
    assert "leave GDPO at 0.10 right and 0.90 short" in told
    larger = gc.train_arms("gdpo", Toy().p0, Toy().rewards, epochs=300, seeds=4, prompts=8, rollouts=64)
    assert larger.p[:, -1, RIGHT].median() > 0.05  # so it is the size of the groups that moves it
    assert "nfinite-group limit" not in conflict.verdict(Toy(weight=0.5))


@pytest.mark.slow
def test_an_answer_that_is_likelier_at_the_start_gains_at_equal_weights():
    ends = conflict.ends(Toy(0.6))
    assert all(end.p[RIGHT] > 0.6 for end in ends.values())
    assert ends["gdpo"].winner is None
    assert "not every one settles" in conflict.verdict(Toy(0.6))
    assert "0.6 against 0.35" in conflict.verdict(Toy(0.6))


@pytest.mark.slow
def test_methods_that_end_apart_are_told_apart():
    told = text_of(conflict.verdict(Toy(weight=0.5, pays=3.0)))
    assert "The methods do not end alike" in told
    assert "under GRPO without std and right but long" in told
    assert "GDPO divides the 3 out again: only the weight counts there, 0.5 against 1" in told


def test_the_verdict_says_what_the_runs_say():
    toy = Toy(weight=0.9)
    told = text_of(conflict.verdict(toy))
    for method, run in conflict.runs(toy).items():
        steps = run.steps_to(0.9)[:, RIGHT].sort().values[(conflict.SEEDS - 1) // 2].item()
        assert f"{steps:g} under {NAMES[method]}" in told
        assert conflict.ends(toy)[method].epochs == steps
        assert conflict.ends(toy)[method].p[RIGHT] == pytest.approx(run.p[:, -1, RIGHT].quantile(0.5).item())


@pytest.mark.slow
def test_the_table_holds_every_weight_and_the_gate():
    table = conflict.weights_table(0.1, 1.0)
    body = table.split("<tbody>")[1]
    assert body.count("<tr") == len(conflict.WEIGHTS) + 1
    rows = dict(re.findall(r'<th scope="row">(.*?)</th>(.*?)</tr>', body))
    for name, weight in conflict.WEIGHTS.items():
        cells = re.findall(r'<td class="(\w+) (\w+)"><b>(.*?)</b>', rows[f"weight {name}"])
        for (method, kind, shown), (m, end) in zip(cells, conflict.ends(Toy(0.1, weight)).items(), strict=True):
            assert method == m
            assert kind == ("wrong" if weight == 1 else "right")
            assert shown == conflict.probability(end.p[RIGHT])
    assert rows["gated, any weight"].count("right but long") == len(NAMES)
    told = text_of(table)
    assert "At equal weights every method fails to settle" in told
    assert "The largest weight in the table that makes it win: 0.9 under every method" in told
    assert "Behind the gate it wins under every method, at any weight" in told


@pytest.mark.slow
@pytest.mark.parametrize("start", conflict.STARTS.values())
@pytest.mark.parametrize("pays", conflict.PAYS.values())
def test_every_choice_of_the_controls_has_its_sentences(start, pays):
    for weight in conflict.WEIGHTS.values():
        told = conflict.verdict(Toy(start, weight, pays))
        assert not re.search(r"\b(nan|inf)\b", told)
    assert "Behind the gate it wins under every method" in conflict.weights_table(start, pays)


@pytest.mark.slow
def test_the_charts_hold_the_curves_on_fixed_axes():
    toy = Toy(weight=0.5)
    charts = conflict.charts(toy)
    assert [chart.title for chart in charts] == list(conflict.ANSWERS)
    for n, chart in enumerate(charts):
        assert conflict.ANSWERS[n] in chart.description and "Infinite-group limit" in chart.description
        low, line, limit = chart.to_dict()["layer"]
        assert low["encoding"]["y"]["scale"]["domain"] == [0, 1]
        assert low["encoding"]["x"]["scale"]["domain"] == [0, conflict.EPOCHS]
        assert "strokeDash" in line["encoding"] and limit["mark"]["strokeDash"]
        values = pl.read_csv(chart.data["values"].encode())
        for method, run in conflict.runs(toy).items():
            drawn = values.filter(method=NAMES[method], epoch=conflict.EPOCHS)
            assert drawn["median"].item() == pytest.approx(run.p[:, -1, n].quantile(0.5).item(), abs=1e-3)
            assert drawn["large"].item() == pytest.approx(conflict.large(toy)[method][-1, n].item(), abs=1e-3)


def test_the_table_behind_the_charts():
    table = conflict.curves_table(Toy())
    rows = dict(re.findall(r'<th scope="row">(\d+)</th>(.*?)</tr>', table))
    assert list(map(int, rows)) == list(conflict.IN_THE_TABLE)
    assert max(conflict.IN_THE_TABLE) == conflict.EPOCHS
    assert rows["0"].count("<td>0.100<small>0.100</small></td>") == len(NAMES)


def test_equal_requests_of_several_visitors_are_computed_once(monkeypatch):
    calls, gate = [], threading.Barrier(4)

    def slow(method, *_, **__):
        calls.append(method)
        time.sleep(0.05)
        return method

    def visitor():
        gate.wait()
        assert conflict.runs(Toy(0.123, 0.321)) == {m: m for m in NAMES}

    monkeypatch.setattr(gc, "train_arms", slow)
    visitors = [threading.Thread(target=visitor) for _ in range(4)]
    for thread in visitors:
        thread.start()
    for thread in visitors:
        thread.join(10)
    assert calls == list(NAMES)


# --- the page --------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_page_shows_the_section(default_page):
    outputs, defs = default_page
    html = html_of(outputs)
    plain = " ".join(html.split())
    assert "Normalising does not decide which reward matters more" in plain
    assert "softmax over the three" in plain and "eq. 8" in plain
    assert "Every weight, and the gate" in plain and "gate the easy reward on the hard one" in plain
    assert defs["brevity_weight"].value == 1.0 and defs["brevity_gate"].value is False
    assert plain.index("Train it") < plain.index("Normalising does not decide")
