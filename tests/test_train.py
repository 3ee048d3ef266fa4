"""The chapter Train without a browser: what scenarios promise, what sentences say, and what the controls set."""

import json
import random
import re
from collections import Counter
from dataclasses import replace
from html import unescape
from itertools import product
from math import inf
from pathlib import Path

import pytest
import torch
from helpers import printed

import gdpo_core as gc
from gdpo_core.board.state import State
from gdpo_core.shared.words import listing
from gdpo_core.training import COMPARISONS
from scripts import make_gallery
from views import bfcl
from views.chapters.train import controls, gallery, runs, train_words, verdicts
from views.chapters.train.controls import linked_values, pass_rates, scenario_values, setup_of
from views.studies.scenarios import (
    FASTER,
    NEITHER,
    NO_DIFFERENCE,
    SLOWER,
    Setup,
    load_scenarios,
    medians,
    training_verdict,
    verdict_on_coins,
)
from views.widgets.nav import Nav

DATA = Path("data")
PATH = DATA / "scenarios.json"
ALL = {scenario.id: scenario for scenario in load_scenarios(PATH)}
COINS = {name: one for name, one in ALL.items() if not one.setup.arms}
KINDS = ("scales", "equal", "noise", "pays", "dense", "together")  # one of each; the others are slow
MARKS = tuple(tuple(grades.vector) for grades in bfcl.grade_all(bfcl.load_tasks(DATA / "tasks")[0]))
RATES = pass_rates(MARKS)
LAB = State(MARKS, (1.0,) * 3, (1.0,) * 3)
FILE = gallery.load_gallery(DATA)[1]
CLOSE = 3  # epochs: the processor rounds, a draw falls otherwise, and a median moves by an epoch or two


def plain(html):
    return " ".join(unescape(re.sub(r"<[^>]+>", "", str(html))).replace("\xa0", " ").split())


# --- the scenarios ---------------------------------------------------------------------------------------------------


# Each scenario is tried under every comparison of which it promises something of its own.
@pytest.mark.parametrize(
    ("scenario", "comparison"),
    [
        pytest.param(s, c, id=f"{s.id} {c}", marks=() if s.id in KINDS and c == "equal" else pytest.mark.slow)
        for s in ALL.values()
        for c in COMPARISONS
        if c == s.setup.comparison or c in s.verdicts
    ],
)
def test_a_scenario_ends_as_it_promises_and_as_its_picture_shows(scenario, comparison):
    setup, stored = scenario.at(RATES).compared(comparison), FILE["sketches"][scenario.id][comparison]
    arms = bool(setup.arms)
    promised = scenario.verdicts.get(comparison, scenario.verdict)
    assert gallery.kind(stored, arms) == promised == training_verdict(runs.train_setup(setup), arms)
    made = gallery.sketch(setup)
    for method in runs.COMPARED_METHODS:
        for epochs, kept in zip(made[method]["steps"], stored[method]["steps"], strict=True):
            assert (epochs is None) == (kept is None)
            assert epochs is None or abs(epochs - kept) <= CLOSE
        if made["epochs"] == stored["epochs"]:
            assert made[method]["curve"] == pytest.approx(stored[method]["curve"], abs=0.1)
        assert made[method]["last"] == pytest.approx(stored[method]["last"], abs=0.02)


# These figures were computed before this code was written, as published, with 8 seeds.
@pytest.mark.parametrize(("name", "grpo", "gdpo"), [("live", inf, 175), ("difficulty", 85, 69), ("rare", 97, 62)])
def test_as_published_the_recorded_medians_come_out(name, grpo, gdpo):
    setup = replace(ALL[name].setup.compared("published"), seeds=8)
    found = {m: max(medians(setup.train(m))) for m in runs.COMPARED_METHODS}
    assert found["grpo"] == pytest.approx(grpo, abs=CLOSE)
    assert found["gdpo"] == pytest.approx(gdpo, abs=CLOSE)


# --- the conflict ----------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_stored_weights_are_those_that_are_trained():
    stored = FILE["weights"]["conflict"]["equal"]
    for method, cells in make_gallery.final_values(ALL["conflict"].setup, list(stored)).items():
        for (p, steps), (kept, before) in zip(cells, stored[method], strict=True):
            assert p == pytest.approx(kept, abs=0.02)
            assert (steps is None) == (before is None) and (steps is None or abs(steps - before) <= CLOSE)


# --- a file that is broken -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"verdict": "GDPO wins"}, r"\[0\]: verdict: expected one of no difference, GDPO faster, GDPO slower"),
        ({"coins": ["one"]}, r"\[0\]: train.p0: expected 1 numbers, as many as coins, got 2"),
        ({"train": {"p0": [0.5, 1.0]}}, r"\[0\]: train.p0: expected probabilities inside \(0, 1\)"),
        ({"train": {"p0": [0.5, 0.5], "steps": 9}}, r"\[0\]: train: expected arguments of train, got steps"),
        ({"train": {"p0": [0.5, 0.5], "rollouts": 2.5}}, r"\[0\]: train.rollouts: expected `int`, got `float`"),
        ({"verdicts": {"paper": NO_DIFFERENCE}}, r"\[0\].verdicts"),
        ({"train": {"p0": [0.5, 0.5], "arms": [[1, 0]]}}, r"\[0\]: train.arms: expected shape"),
    ],
)
def test_a_broken_scenario_is_named(tmp_path, change, told):
    entry = {"id": "a", "title": "A", "verdict": NO_DIFFERENCE, "lesson": "L.", "coins": ["one", "two"]}
    file = tmp_path / "scenarios.json"
    file.write_text(json.dumps([{**entry, "train": {"p0": [0.5, 0.5]}, **change}]))
    with pytest.raises(gc.InputError, match=told):
        load_scenarios(file)


# --- the sentences ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("grpo", "gdpo", "kind", "said"),
    [
        (
            (20, 21),
            (20, 20),
            NO_DIFFERENCE,
            "No clear difference: GRPO brings every coin to p = 0.9 in 21 epochs, GDPO in 20.",
        ),
        ((20, 21), (21, 20), NO_DIFFERENCE, "GRPO and GDPO both bring every coin to p = 0.9 in 21 epochs."),
        ((40, 20), (20, 20), FASTER, "GDPO brings every coin to p = 0.9 in 20 epochs, GRPO in 40."),
        ((40, 10), (20, 20), FASTER, "40. The second coin, however, takes 20 epochs under GDPO instead of 10."),
        (
            (20, 20),
            (10, 50),
            SLOWER,
            "in 20 epochs, GDPO in 50. The first coin, however, takes 20 epochs under GRPO instead of 10.",
        ),
        ((40, 10), (40, 30), NO_DIFFERENCE, "in 40 epochs. The second coin takes 10 epochs under GRPO, 30 under GDPO."),
        ((None, 10), (50, 10), FASTER, "GDPO brings every coin to p = 0.9 in 50 epochs, GRPO does not within 100."),
        ((40, 10), (50, None), SLOWER, "GRPO brings every coin to p = 0.9 in 40 epochs, GDPO does not within 100."),
        (
            (None, 10),
            (None, 10),
            NEITHER,
            "Neither GRPO nor GDPO brings every coin to p = 0.9 within 100 epochs. Each b",
        ),
        ((None, None), (None, 10), NEITHER, "within 100 epochs. GDPO brings 1 there, GRPO 0."),
        ((4, 4), (2, 2), FASTER, "GDPO brings every coin to p = 0.9 in 2 epochs, GRPO in 4."),
        ((1, 1), (3, 2), SLOWER, "GRPO brings every coin to p = 0.9 in 1 epoch, GDPO in 3."),
        ((0, 0), (0, 0), NO_DIFFERENCE, "Nothing is left to learn: every coin starts at p = 0.9 or above."),
    ],
)
@pytest.mark.parametrize("comparison", COMPARISONS)
def test_the_sentence_follows_from_the_medians_and_says_of_which_comparison_it_is(grpo, gdpo, kind, said, comparison):
    def run(steps):
        reached = torch.tensor([101 if s is None else s for s in steps])
        return gc.TrainingRun("any", torch.where(torch.arange(101)[:, None] >= reached, 0.95, 0.1)[None])

    setup, found = Setup((0.5, 0.5), epochs=100).compared(comparison), {"grpo": run(grpo), "gdpo": run(gdpo)}
    sentence = plain(verdicts.result(setup, ("first coin", "second coin"), found))
    assert training_verdict(found) == kind
    assert said in sentence and not re.search(r"inf|\b1 epochs", sentence)
    named = {"equal": "", "published": "As published: ", "neither": "Without the batch step: "}
    assert sentence.startswith(named[comparison]) and train_words.WAY_TITLES[comparison].lower() in train_words.caption(
        setup
    )


# What a sentence on a third method says, as a pattern with the figures that it names.
BRINGS = re.compile(r"MO-GRPO brings (.+) to p = 0.9 in (\d+) epochs?\.")
BRINGS_NOT = re.compile(
    r"MO-GRPO does not bring (.+) to p = 0.9 within 100 epochs(?:: it brings (none|\d+) of the (\d+) there)?\."
)


@pytest.mark.parametrize("weights", [None, (1, 0), (0, 0), (1, 1, 0)])
def test_the_sentences_on_three_methods_are_true_together_whichever_of_them_learn(weights):
    """Each of three methods learns each coin at the start, soon, late or never."""
    coins = ("first coin", "second coin", "third coin")[: len(weights or (1, 1))]
    counted = [k for k in range(len(coins)) if (weights or (1, 1))[k]]
    every = "every coin" if weights is None else listing([f"the {coins[k]}" for k in counted])
    setup, seen = Setup((0.5,) * len(coins), weights=weights, epochs=100), Counter()

    def run(steps):
        reached = torch.tensor([101 if epoch is None else epoch for epoch in steps])
        return gc.TrainingRun("any", torch.where(torch.arange(101)[:, None] >= reached, 0.95, 0.1)[None])

    ways = [*product((0, 20, 60, None), repeat=max(len(counted), 1))]
    for grpo, gdpo, mo_grpo in product(ways, repeat=3):
        starts = [{x == 0 for x in of_coin} for of_coin in zip(grpo, gdpo, mo_grpo, strict=True)]
        if {True, False} in starts:
            continue  # as a coin starts at the same probability under all methods
        of = {"grpo": grpo, "gdpo": gdpo, "mo_grpo": mo_grpo}
        placed = {m: run([steps[counted.index(k)] if k in counted else None for k in range(len(coins))])
                  for m, steps in of.items()}  # fmt: skip
        said = plain(verdicts.result(setup, coins, placed))
        if not counted:
            assert said == "Nothing is learnt: no coin's reward counts."
            continue
        *_, third = re.split(r"(?<=\.) (?=[A-Z])", said)
        if latest(mo_grpo) == 0:
            assert "Nothing is left to learn" in said and third == "Nor is anything left for MO-GRPO to learn."
            assert re.search(r"(every coin|the \w+ coin) starts at|and the \w+ coin start at", said)
        elif latest(mo_grpo) is not None:
            assert BRINGS.fullmatch(third).groups() == (every, f"{latest(mo_grpo)}")
        else:
            what, some, of_how_many = BRINGS_NOT.fullmatch(third).groups()
            number = sum(epoch is not None for epoch in mo_grpo)
            assert what == every
            assert (some, of_how_many) == (
                (f"{number or 'none'}", f"{len(counted)}") if len(counted) > 1 else (None, None)
            )
        # No sentence speaks of all methods, or of no method, but means two.
        assert not re.search(r"(?:[Nn]either|[Bb]oth) methods?\b|No coin\b|\b0 epochs", said)
        neither = latest(grpo) is latest(gdpo) is None
        assert said.startswith(f"Neither GRPO nor GDPO brings {every} to p = 0.9 within 100 epochs.") == neither
        none = neither and len(counted) > 1 and not any(epoch is not None for epoch in (*grpo, *gdpo))
        assert ("Neither brings a single coin there." in said) == none
        seen[neither, latest(mo_grpo) is None] += 1
    assert len(seen) == 4 or not counted, "GRPO and GDPO, and the third method, learn all coins or do not"


def random_setup(draw):
    """Return a random set-up of one to three coins that trains in milliseconds, and the names of its coins."""
    many = draw.randint(1, 3)

    def some(values, share=0.5):
        return tuple(draw.choice(values) for _ in range(many)) if draw.random() < share else None

    setup = Setup(
        tuple(draw.choice((0.05, 0.3, 0.5, 0.7, 0.89, 0.95)) for _ in range(many)),
        scale=some((0.1, 1.0, 3.0, 10.0), 0.7),
        weights=some((0.0, 0.2, 1.0, 2.0)),
        noise=some((0.0, 0.3, 2.0), 0.3),
        together=draw.choice((0, 0, 0, 0.5)),
        rollouts=4,
        prompts=8,
        epochs=draw.choice((1, 12, 24)),
        lr=draw.choice((0.5, 1.0, 2.0)),
        optimizer=draw.choice(("sgd", "sgd", "sgd", "adam")),
        seeds=3,
        seed=draw.randrange(100),
        match_scale=draw.choice((*COMPARISONS.values(),)),
    )
    if draw.random() < 0.3:  # In set-ups of this kind a coin often loses time under the method that is ahead overall.
        weights = draw.choice(((1.0, 1.0, 1.0), (1.0, 0.3, 0.1)))[:many]
        setup = replace(setup, p0=(0.5,) * many, scale=(1.0, 3.0, 10.0)[:many], noise=None, weights=weights, lr=1.0)
        setup = replace(setup, epochs=30, optimizer="sgd", together=0)
    return setup, draw.choice((("first coin", "second coin", "third coin"), ("format", "correct", "integer")))[:many]


def plain_medians(run):
    """Return for each coin the first epoch at which its probability is 0.9 or more, the middle one of three seeds; None
    for never.
    """
    found = []
    for k in range(run.p.shape[2]):
        first = []
        for seed in run.p[:, :, k].tolist():
            first.append(next((epoch for epoch, p in enumerate(seed) if p >= 0.9), None))
        found.append(sorted(first, key=lambda epoch: inf if epoch is None else epoch)[1])
    return found


def close(a, b):
    """Return whether the page counts two numbers of epochs as equal: they differ by 2 epochs or 5 % at most, and none
    is half as large again as the other.
    """
    return a == b or (None not in (a, b) and abs(a - b) <= max(2, 0.05 * max(a, b)) and max(a, b) < 1.5 * min(a, b))


def latest(steps):
    return None if None in steps else max(steps)


FIRST = re.compile(
    r"(GRPO|GDPO) brings (.+?) to p = 0.9 in (\d+) epochs?, (GRPO|GDPO) (?:in (\d+)|does not within (\d+))\."
)
LOSS = re.compile(r"([\w ,-]+?), however, takes? ([\d, and]+) epochs? under (?:GRPO|GDPO) instead of ([\d, and]+)\.")
APART = re.compile(r"([\w ]+?) takes (\d+) epochs? under GRPO, (\d+) under GDPO\.")


@pytest.mark.slow
def test_each_sentence_of_a_verdict_holds_at_random_setups():
    draw, seen = random.Random(45), Counter()
    for _ in range(300):
        setup, coins = random_setup(draw)
        trained = {m: setup.train(m) for m in runs.COMPARED_METHODS}
        said = plain(verdicts.result(setup, coins, trained)).removeprefix("As published: ")
        said = said.removeprefix("Without the batch step: ")
        assert not re.search(r"\b1 epochs|inf|nan|None|  ", said), said
        assert len(train_words.train_headline(setup.comparison, False)) <= 60
        # No pay is 0 here, so a coin counts if its weight is not 0.
        counted = [k for k in range(len(coins)) if (setup.weights or [1] * 3)[k]]
        if setup.together and counted:
            counted = [*range(len(coins))]
        named = [f"the {coin}" if coin.endswith("coin") else f"the {coin} coin" for coin in coins]
        if not counted:
            assert said == "Nothing is learnt: no coin's reward counts."
            seen["nothing counts"] += 1
            continue
        steps = {m.upper(): [plain_medians(run)[k] for k in counted] for m, run in trained.items()}
        grpo, gdpo = steps["GRPO"], steps["GDPO"]
        left = [name for k, name in enumerate(named) if k not in counted]
        assert ("does not count" in said) == bool(left) and all(name in said for name in left), said
        what = "every coin" if not left else listing([named[k] for k in counted])
        pairs = [*zip(grpo, gdpo, strict=True)]
        if latest(grpo) is latest(gdpo) is None:
            there = [sum(x is not None for x in of) for of in (grpo, gdpo)]
            assert said.startswith(f"Neither GRPO nor GDPO brings {what} to p = 0.9 within {setup.epochs} epoch"), said
            if there[0] != there[1]:
                assert f"GDPO brings {there[1]} there, GRPO {there[0]}." in said
            elif there[0]:
                assert f"Each brings {there[0]} of {len(counted)} there." in said
            seen["neither"] += 1
        elif close(latest(grpo), latest(gdpo)):
            head = "Nothing is left" if latest(grpo) == 0 == latest(gdpo) else "GRPO and GDPO both bring"
            assert said.startswith(head if latest(grpo) == latest(gdpo) else "No clear difference: "), said
            assert (f"{latest(grpo)}" in said and f"{latest(gdpo)}" in said) or head == "Nothing is left"
            apart = {named[counted[k]]: pair for k, pair in enumerate(pairs) if not close(*pair)}
            told = {name.strip().lower(): (int(a), int(b)) for name, a, b in APART.findall(said)}
            assert told == apart, said
            seen["same"] += 1
        else:
            winner, of, when, loser, later, within = FIRST.search(said).groups()
            mine, other = steps[winner], steps[loser]
            assert (of, int(when), winner != loser) == (what, latest(mine), True), said
            assert latest(other) == (int(later) if later else None), said
            assert latest(other) is None or latest(mine) < latest(other)
            assert within is None or int(within) == setup.epochs
            lost = [k for k, (a, b) in enumerate(zip(mine, other, strict=True)) if b is not None and a > b]
            lost = [k for k in lost if not close(mine[k], other[k])]
            found = LOSS.search(said)
            assert bool(found) == bool(lost), said
            if found:
                who, took, would = found.groups()
                assert [int(x) for x in re.findall(r"\d+", took)] == [mine[k] for k in lost], said
                assert [int(x) for x in re.findall(r"\d+", would)] == [other[k] for k in lost], said
                pays = [(setup.scale or [1] * 3)[k] for k in counted]
                names = listing([named[counted[k]] for k in lost])
                best = [k for k, pay in enumerate(pays) if pay == max(pays)] == lost and len(pays) > 1
                assert who.strip().lower() == ("the best-paid coin" if best else names), said
            seen[winner] += 1
            seen["loss"] += bool(found)
    assert min(seen[kind] for kind in ("nothing counts", "neither", "same", "GRPO", "GDPO", "loss")) >= 5, seen


def test_a_coin_that_no_method_can_learn_is_told_apart_from_those_that_are_judged():
    setup, coins = replace(ALL["scales"].setup, weights=(0.0, 1.0, 1.0)), ALL["scales"].coins
    said = plain(verdicts.result(setup, coins, {m: setup.train(m) for m in runs.COMPARED_METHODS}))
    assert re.match(r"GDPO brings the second coin and the third coin to p = 0.9 in \d+ epochs, GRPO in \d+\.", said)
    assert said.endswith("The reward of the first coin does not count, so no method trains it.")


def test_the_tolerance_is_two_epochs_or_five_percent_and_no_half_as_long_again():
    for grpo, gdpo, kind in (
        (20, 18, NO_DIFFERENCE),
        (20, 17, FASTER),
        (95, 100, NO_DIFFERENCE),
        (94, 100, SLOWER),
        (4, 2, FASTER),
    ):
        assert verdict_on_coins([grpo], [gdpo]) == kind
    rule = "by at most 5 %, or if they differ by at most 2 epochs and the larger is less than 1.5 times the smaller"
    assert rule in plain(train_words.how_it_learns(Setup((0.5,))))


def test_the_headline_is_one_line_that_its_own_cards_bear_out():
    assert train_words.HEADLINES["equal"] == "Where scales differ, GDPO is faster with SGD, not with Adam."
    assert all(len(title) <= 60 for title in (*train_words.HEADLINES.values(), train_words.PREDICT))
    coins = [s for s in COINS.values() if s.setup.comparison == "equal"]
    faster, slower = ([s.setup for s in coins if s.verdict == kind] for kind in (FASTER, SLOWER))
    # In these set-ups the sum drowns the small reward.
    assert all(max(s.scale) >= 3 * min(s.scale) and s.weights is None and s.optimizer == "sgd" for s in faster)
    scales, adam = COINS["scales"], COINS["adam"]
    assert (scales.verdict, adam.verdict, adam.setup.optimizer) == (FASTER, NO_DIFFERENCE, "adam")
    assert max(adam.setup.scale) >= 3 * min(adam.setup.scale)
    # In these, the sum had drowned the noise, or weights had balanced it.
    assert all(s.noise or s.weights for s in slower)


def test_the_reply_to_a_prediction_says_what_was_said_and_what_came():
    """The epochs are those of the file, of the coin that each method learns last."""
    drawn = {s: of["equal"] for s, of in FILE["sketches"].items()}
    for s in ALL.values():
        came = gallery.kind(drawn[s.id], bool(s.setup.arms))
        for guess, shown in train_words.PREDICTIONS_ASKED[bool(s.setup.arms)][1].items():
            said = gallery.reply(s, drawn, {s.id: guess})
            assert said.startswith("Right: " if guess == came else f"You said {shown}; ") and len(said) <= 80
            slowest = [max(x if x is not None else 999 for x in drawn[s.id][m]["steps"]) for m in ("grpo", "gdpo")]
            if s.setup.arms or came in (NO_DIFFERENCE, NEITHER):
                assert came in said
            elif 999 in slowest:
                assert said.endswith(f"only {'GDPO' if slowest[0] == 999 else 'GRPO'} gets there.")
            else:
                way = "faster" if slowest[1] < slowest[0] else "slower"
                many = abs(slowest[0] - slowest[1])
                assert said.endswith(f"GDPO was {many} epoch{'s' * (many != 1)} {way}.")
    scales = ALL["scales"]
    assert (
        gallery.reply(scales, drawn, {"scales": NO_DIFFERENCE}) == "You said no difference; GDPO was 17 epochs faster."
    )
    assert gallery.reply(scales, drawn, {"scales": ""}) == gallery.reply(scales, drawn, None) == ""


def test_the_numbers_of_set_ups_are_those_of_the_cards():
    for comparison in COMPARISONS:
        counted = [s for s in COINS.values() if s.setup.comparison in ("equal", comparison)]
        promised = [s.verdicts.get(comparison, s.verdict) for s in counted]
        sketches = gallery.sketches(ALL, FILE, comparison, LAB)
        assert sorted(gallery.kinds(ALL, sketches, comparison)) == sorted(promised)
        said = plain(gallery.summary(ALL, sketches, comparison, None))
        faster, slower, never = (promised.count(kind) for kind in (FASTER, SLOWER, NEITHER))
        rest, dashed = len(promised) - faster - slower, len(COINS) - len(counted)
        assert (
            f"faster in {faster} of {len(promised)} coin set-ups, slower in {slower} and no different in {rest}" in said
        )
        assert f"In {len(ALL) - len(COINS)} more set-ups the rewards conflict" in said
        assert "the policy settles on one of three answers, of which one is right." in said
        assert {len(s.setup.p0) for s in ALL.values() if s.setup.arms} == {3}
        assert (f"(in {never} neither method gets there)" in said) == bool(never)
        not_counted = "“The popular demo”, which is dashed, does not count here, because it is made for"
        assert (not_counted in said) == (dashed == 1)
        assert dashed <= 1, "the sentence on the dashed set-up needs a plural"
        shown = str(gallery.gallery(ALL, sketches, comparison, None))
        assert shown.count('role="radio"') == len(ALL) == len(promised) + dashed + len(ALL) - len(COINS)
        assert shown.count("card other") == shown.count('by longer steps" aria-label') == dashed


def test_a_third_method_has_its_sentence_where_rewards_conflict():
    scenario = ALL["conflict"]
    setup = replace(scenario.setup, epochs=2, seeds=1)
    said = plain(verdicts.result(setup, scenario.coins, runs.train_setup(setup, ["grpo", "gdpo", "grpo_no_std"])))
    assert re.search(r"With GRPO without std it ends [^.]+\.", said)


def test_a_card_is_named_with_its_verdict():
    sketches = gallery.sketches(ALL, FILE, "equal", LAB)
    names = re.findall(r'aria-label="([^"]+)"', str(gallery.gallery(ALL, sketches, "equal", None)))
    titles = {"Rewards of unequal scale: GDPO 1.9× faster", "Conciseness pays triple, weighs half: only GDPO is right"}
    assert titles <= {*names}


# --- predictions -----------------------------------------------------------------------------------------------------


def test_who_predicts_is_told_nothing_before_the_guess_and_the_score_after_it():
    sketches, guesses = gallery.sketches(ALL, FILE, "equal", LAB), dict.fromkeys(ALL)
    hidden = str(gallery.gallery(ALL, sketches, "equal", guesses))
    assert not any(told in hidden for told in ("1.9×", "GDPO faster", "right under", "<svg"))
    assert "start 0.5, 0.5 · pay 1, 100" in hidden and "start 0.5, 0.5, 0.5 · without the batch step" in hidden
    assert gallery.score(ALL, sketches, guesses) == ""
    told = plain(gallery.summary(ALL, sketches, "equal", "")) + train_words.train_headline("equal", True)
    assert not any(claim in told for claim in (*train_words.HEADLINES.values(), "faster in"))
    guesses["scales"] = FASTER
    assert gallery.score(ALL, sketches, guesses) == "You were right in 1 of 1 prediction."
    guesses["noise"] = FASTER
    shown = plain(gallery.gallery(ALL, sketches, "equal", guesses))
    both = (gallery.gallery(ALL, sketches, "equal", g) for g in (guesses, guesses | {"demo": NO_DIFFERENCE}))
    order = [re.findall(r'data-id="(\w+)"', str(one)) for one in both]
    assert order[0] == order[1] == list(ALL)  # A card stays in its place when it is guessed.
    assert "✓ GDPO 1.9× faster" in shown and "✗ GDPO 1.2× slower" in shown
    assert gallery.score(ALL, sketches, guesses) == "You were right in 1 of 2 predictions."


# --- the controls ----------------------------------------------------------------------------------------------------


def linked(**params):
    page = Nav({f"train-{key}": text for key, text in params.items()}, editing=False)
    scenario = ALL[page.restore("train-scenario", ALL, "scales")]
    return page, scenario, linked_values(scenario, page)


@pytest.mark.parametrize("scenario", ALL.values(), ids=ALL)
def test_the_controls_as_they_start_are_the_scenario(scenario):
    values = scenario_values(scenario)
    made = controls.elements(scenario, values)
    own = scenario.setup.comparison
    for given in (values, made.value):
        setup = setup_of(scenario, own, given, LAB)
        assert setup == scenario.at(RATES)
    links, given = map(controls.link_values, (made.value, values))
    assert links == {name: given[name] for name in links}
    assert linked(scenario=scenario.id)[2] == values
    for name in ("start", "pays", "weights"):
        assert set(values[name]) <= set(controls.STEP_RULES[name])


def test_a_link_restores_every_control():
    told = {"scenario": "noise", "start": "0.3_0.85", "pays": "3_1", "weights": "2_0.5_1"}
    told["more"] = "1_8_32_4_20_0.05_0_0.5_0.001"
    page, scenario, values = linked(**told)
    setup = setup_of(scenario, "published", controls.elements(scenario, values).value, LAB)
    assert setup == Setup(
        (0.3, 0.85), scale=(3.0, 1.0), weights=(2.0, 0.5, 1.0), noise=(0.0, 0.5, 0.001), epochs=20, lr=0.05,
        optimizer="adam", seeds=4, match_scale="published",
    )  # fmt: skip
    assert not page.unread
    _, _, gated = linked(scenario="conflict", gate="1", start="0.6")
    assert gated["gate"] and gated["start"] == (0.6,)
    assert linked(scenario="demo", compare="equal")[2]["compare"] == "equal"


@pytest.mark.parametrize(
    "params",
    [
        {"scenario": "none"}, {"start": "0.5"}, {"more": "1_2"}, {"gate": "1"}, {"gate": "yes", "scenario": "conflict"},
        {"start": "9_9"}, {"scenario": "board", "pays": "1_1_1"}, {"compare": "fair"}, {"weights": "1_x_1"},
    ],
)  # fmt: skip
def test_a_link_that_fits_nothing_opens_the_chapter_and_is_said(params):
    page, scenario, values = linked(**params)
    assert page.unread
    assert setup_of(scenario, "equal", controls.elements(scenario, values).value, LAB) == scenario.at(RATES)


def test_a_link_beyond_the_ranges_is_brought_into_them():
    page, scenario, values = linked(more="7_999_0_999_1_999_50_0_0")
    setup_of(scenario, "equal", controls.elements(scenario, values).value, LAB).check()
    assert (values["rollouts"], values["prompts"], values["seeds"], values["epochs"]) == (32, 1, 64, 10)
    assert (values["lr"], values["noise"][0]) == (5.0, 10.0)
    assert not page.unread


@pytest.mark.slow
def test_the_labs_answers_bring_marks_pay_and_weights():
    marks = ((1, 0, 1),) * 6 + ((0, 0, 1),) * 6
    lab, board = State(marks, (1.0, 3.0, 10.0), (2.0, 1.0, 1.0)), ALL["board"]
    setup = setup_of(board, "equal", controls.elements(board, scenario_values(board)).value, lab)
    assert setup.p0 == (0.5, round(0.5 / 12, 4), round(11.5 / 12, 4))
    assert (setup.scale, setup.weights) == ((1.0, 3.0, 10.0), (2.0, 1.0, 1.0))
    assert gallery.sketches(ALL, FILE, "equal", lab)["board"] == gallery.sketch(setup)
    # A mark that is a number becomes a coin with the same spread.
    number = replace(lab, marks=((1, 0.25, 7),) * 6 + ((0, 0.75, 7),) * 6)
    assert controls.as_coins(number)[0][1:] == [0.5, 0.5] and controls.as_coins(number)[1] == [1, 1.5, 0]
    assert gallery.sketches(ALL, FILE, "equal", LAB)["board"] is FILE["sketches"]["board"]["equal"]


# --- depth and programs ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["pays", "scales", "undone"])
def test_the_program_prints_the_numbers_on_the_screen(name):
    setup, methods = ALL[name].setup, [*runs.COMPARED_METHODS, "grpo_no_std"]
    lines, found = printed(runs.training_program(setup, methods)), runs.train_setup(setup, methods)
    for line, (method, run) in zip(lines, found.items(), strict=True):
        shown = [round(p, 2) for p in run.p[:, -1].median(0).values.tolist()] if setup.arms else medians(run)
        assert line == f"{method} {shown}"
