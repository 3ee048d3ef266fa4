"""The chapter Evidence: its squares, bars, curves and sentences agree with plain counts.

The counts are made here once more, with dictionaries and explicit formulas and without gdpo_core.
"""

import re
from collections import Counter
from dataclasses import replace
from functools import cache
from itertools import combinations
from math import sqrt
from pathlib import Path
from random import Random

import polars as pl
import pytest
from helpers import printed, text_of

import gdpo_core as gc
from gdpo_core.shared.words import percent
from views import bfcl
from views.bfcl import prompts
from views.bfcl.prompts import OUTCOMES, Choice
from views.chapters.evidence import about, breaking, group_sizes, opened, order, paper, requests, sentences, squares
from views.server import draws
from views.studies import results
from views.widgets import charts
from views.widgets.address import CONTROLS

FILE = Path("data/bfcl_rewards.parquet")
FRAME = pl.read_parquet(FILE)
DATA = prompts.load_once(FILE)
ALL = len(DATA.models)
OTHER = ("bfcl_ast_valid", "style_args", "conciseness_lenient")
CHOICES = [Choice(), Choice(ALL), Choice(16, 3, OTHER), Choice(12, 4, weight=2.0), Choice(2)]


def looked(choice, data=DATA):
    """Return what the cells of the chapter hold for a choice of controls: marks, ties, outcomes of the prompts, and
    pairs of answers.
    """
    marks = prompts.marks_of(data, choice)
    ties = prompts.ties_of(marks, choice.weights)
    return marks, ties, prompts.outcomes(marks, ties), prompts.pairs(marks)


def told(html):
    return text_of(str(html)).replace("\xa0", " ")


# --- the same counts without gdpo_core -------------------------------------------------------------------------------


@cache
def verdicts():
    """Return the rows of the file of verdicts by (task, model)."""
    return {(row["task_id"], row["model"]): row for row in FRAME.iter_rows(named=True)}


@cache
def drawn(group_size, seed):
    """Return by task the models whose answers were drawn."""
    models = bfcl.draw_models(DATA, group_size, seed).tolist()
    return {task: [DATA.models[m] for m in row] for task, row in zip(DATA.tasks, models, strict=True)}


def group(task, choice):
    """Return the marks of the answers that were drawn for one prompt, straight from the file."""
    rows = [verdicts()[task, model] for model in drawn(choice.group_size, choice.seed)[task]]
    return [tuple(int(row[grader]) for grader in choice.graders) for row in rows]


def scores(rows, weight):
    """Return three things for each different mix of marks: how many answers have it, its weighted sum, and its GDPO
    score before the batch step.
    """
    counts, n = Counter(rows), len(rows)
    passed = [sum(column) for column in zip(*rows, strict=True)]
    stds = [sqrt(k * (n - k) / (n * (n - 1))) for k in passed]
    weights = (weight, 1, 1)
    found = {}
    for mix, count in counts.items():
        z = [(b - k / n) / s if s else 0.0 for b, k, s in zip(mix, passed, stds, strict=True)]
        sums = [sum(w * x for w, x in zip(weights, values, strict=True)) for values in (mix, z)]
        found[mix] = count, *sums
    return found


def happens(rows, weight):
    """Return the outcome of one prompt, such as "alike" or "both", and three counts of pairs, each [right order, tied,
    wrong order]: under GRPO, under GDPO, and of the ties that GDPO breaks.
    """
    found = scores(rows, weight)
    tied = [False, False]
    order = [[0, 0, 0], [0, 0, 0], [0, 0, 0]]
    for a, b in combinations(found, 2):
        (n_a, *score_a), (n_b, *score_b) = found[a], found[b]
        gaps = [x - y for x, y in zip(score_a, score_b, strict=True)]
        alike = [abs(gap) < 1e-9 for gap in gaps]
        tied = [was or now for was, now in zip(tied, alike, strict=True)]
        if a[0] != b[0]:
            ahead = [gap if a[0] else -gap for gap in gaps]
            for method in (0, 1):
                order[method][1 if alike[method] else 0 if ahead[method] > 0 else 2] += n_a * n_b
            if alike[0] and not alike[1]:
                order[2][0 if ahead[1] > 0 else 2] += n_a * n_b
    grpo, gdpo = tied
    if len(found) == 1:
        return "alike", order
    if grpo:
        return ("both" if gdpo else "wrong" if order[2][2] else "apart"), order
    return ("gdpo" if gdpo else "untied"), order


@pytest.mark.parametrize("choice", CHOICES, ids=str)
def test_what_happens_to_each_prompt_is_what_a_plain_count_gives(choice):
    _, ties, found, first = looked(choice)
    plain = [happens(group(task, choice), choice.weight) for task in DATA.tasks]
    assert [OUTCOMES[n] for n in found.outcome.tolist()] == [outcome for outcome, _ in plain]
    for k, method in enumerate(prompts.BOTH_METHODS):
        pairs = first.order(method, choice.weight)
        assert [pairs.right, pairs.tied, pairs.wrong] == [sum(o[k][part] for _, o in plain) for part in range(3)]
        assert pairs == ties[method].order()
        assert found.tied[method] == round(ties[method].groups_with_ties * ties[method].mixed_groups)
        assert prompts.size_shares(DATA, choice).tied_pairs[method] == ties[method].tied_pairs
    right, _, wrong = (sum(o[2][part] for _, o in plain) for part in range(3))
    broken = first.order("gdpo", choice.weight, first.broken(choice.weight))
    assert (broken.right, broken.tied, broken.wrong) == (right, 0, wrong)
    assert not broken.pairs or prompts.size_shares(DATA, choice).wrong == wrong / (right + wrong)
    assert (found.wrong > 0) == (wrong > 0) and found.wrong == sum(o[2][2] > 0 for _, o in plain)


def test_the_weights_that_are_said_to_be_enough_are_and_less_is_not():
    choice = Choice(12)
    marks, ties, _, first = looked(choice)
    said = order.enough(choice, first)
    assert (
        "the weight has to be above 1.81. For all 12,755 right–wrong pairs, the weight has to be above 3.14 under "
        "GDPO and above 2 under" in said
    )
    broken, every, _ = (float(n) for n in re.findall(r"above ([\d.]+\d|\d)", said))
    pairs = gc.broken_ties(*ties.values())
    for weight, wrong in ((broken, False), (first.sufficient_weight("gdpo", first.broken()) - 0.005, True)):
        a = gc.gdpo(marks, weights=(weight, 1, 1)).flatten()
        assert bool((a[pairs.lower] >= a[pairs.higher] - 1e-12).any()) == wrong
    for method, enough, short in (("gdpo", every, first.sufficient_weight("gdpo") - 0.005), ("grpo", 2.001, 2.0)):
        orders = [gc.collapse(marks, method, weights=(w, 1, 1)).order() for w in (enough, short)]
        assert orders[0].right == orders[0].pairs and orders[1].right < orders[1].pairs


@pytest.mark.slow
def test_slider_and_charts_reach_beyond_every_weight_that_is_said_to_be_enough():
    assert (
        prompts.WEIGHT_STEPS[-1]
        == prompts.TABLE_WEIGHTS[-1]
        == charts.HEAVIEST_SHOWN
        == CONTROLS["evidence-weight"].read("6.5")
    )
    for graders in prompts.GRADED:
        for size, seed in ((12, 0), (64, 7), (70, 84), (ALL, 0)):
            first = prompts.pairs(prompts.marks_of(DATA, Choice(size, seed, tuple(graders.split(".")))))
            assert 1.1 * first.sufficient_weight("gdpo") <= prompts.WEIGHT_STEPS[-1]


# What each setting says is compared with a plain count. With the weight 1.5 there is nothing to break, with 2 answers
# there is a single tie, and with 71 every tie is broken.
SAID_CHOICES = [
    *(Choice(weight=weight) for weight in (1.5, 2.0, 6.5)),
    *(Choice(n, weight=weight) for n, weight in ((2, 1.0), (2, 2.0), (3, 2.0), (4, 1.0), (ALL, 2.0), (ALL, 5.05))),
    Choice(8, 99, OTHER, 2.0),
    Choice(12, 3, ("correctness", "envelope", "conciseness_lenient"), 1.05),
]
_RANDOM = Random(44)
SAID_CHOICES += [
    Choice(
        _RANDOM.choice((2, 3, 4, 8, 12)),
        _RANDOM.randrange(100),
        tuple(_RANDOM.choice(prompts.GRADED).split(".")),
        _RANDOM.choice((1.0, 2.0, *prompts.WEIGHT_STEPS)),
    )
    for _ in range(9)
]


@pytest.mark.slow
@pytest.mark.parametrize("choice", SAID_CHOICES, ids=str)
def test_every_sentence_holds_at_every_setting(choice):
    marks, ties, found, first = looked(choice)
    plain = [happens(group(task, choice), choice.weight) for task in DATA.tasks]
    (right, tied, wrong), (_, _, gdpo_wrong), (kept_right, _, turned) = (
        [sum(o[k][part] for _, o in plain) for part in range(3)] for k in range(3)
    )
    broken, pairs = kept_right + turned, right + tied + wrong
    grpo_ties = sum(outcome in ("both", "wrong", "apart") for outcome, _ in plain)
    gdpo_ties = sum(outcome in ("both", "gdpo") for outcome, _ in plain)

    said = told(sentences.ties(DATA, choice, found))
    of_grpo, of_gdpo = (f"{n} ({percent(n / 963)})" for n in (grpo_ties, gdpo_ties))
    assert f"to 963 prompts, GRPO ties answers with different marks in {of_grpo}, GDPO in {of_gdpo}." in said
    assert ("All marks have the same weight" in said) == (choice.weight == 1)

    said = order.ties_and_pairs(choice, first)
    stand = {n: f"{n:,} stand{'s' * (n == 1)} in the wrong order" for n in (gdpo_wrong,)}[gdpo_wrong]
    assert f"Of {pairs:,} pairs of a right and a wrong answer **{stand} under GDPO, {wrong:,} under GRPO**." in said
    assert ("so there is no tie to break" in said) == (tied == 0)
    assert ("GDPO breaks" in said) == (broken > 0) and ("GDPO keeps" in said) == (tied > 0 and not broken)
    if broken:
        pairs_tied = f"GRPO ties a right answer with a wrong one in {tied:,} pair{'s' * (tied != 1)}."
        some = f"{broken:,} of these ties" if broken < tied else "this tie" if tied == 1 else f"all {tied:,} ties"
        assert f"{pairs_tied} GDPO breaks {some}, " in said
        ends = {0: "in the wrong order", broken: "in the wrong order"}.get(
            turned, f"{percent(turned / broken)} of them"
        )
        assert ends in said.partition(" Of ")[0] and ("none in" in said or "not in" in said) == (turned == 0)
    needed = max(first.sufficient_weight(m) for m in prompts.BOTH_METHODS)
    weight = max(1.0, needed) + 0.01
    assert not first.wrong("gdpo", weight) and not first.wrong("grpo", weight)
    each = [order.up(max(1.0, first.sufficient_weight(m))) for m in prompts.BOTH_METHODS]
    ends = f"more than {each[0]} under GRPO and {each[1]} under GDPO"
    assert order.title(first).endswith("from 1 on" if needed < 1 else ends)

    # GRPO without std orders the answers to a prompt as GRPO does.
    shown = told(breaking.table_of_methods(choice, first))
    assert f"GRPO {tied:,} {wrong:,} 0 (compared with)" in shown and f"GRPO without std {tied:,} {wrong:,} −" in shown
    assert f"GDPO {sum(o[1][1] for _, o in plain):,} {gdpo_wrong:,} −" in shown

    everything = [
        said,
        shown,
        order.title(first),
        order.enough(choice, first),
        told(squares.outcome_legend(found, 12)),
    ]
    number = first.worst()
    everything.append(told(opened.prompt(DATA, choice, marks, ties, DATA.tasks[number])))
    for text in everything:
        assert not re.search(r"\b(the 1 |of 1 ties|1 ties|1 prompts|1 pairs|1 draws|([\d,]+) of the \2 )", text), text
        assert "first in" not in text and "wrong way" not in text and not re.search(r"\b(None|nan)\b", text)


def test_the_sentence_on_draws_says_of_how_many_it_is():
    tied = {"grpo": (0.38, 0.437), "gdpo": (0.11, 0.11)}
    said = sentences.draws_said(Choice(), ALL, prompts.Spread(tied, (0.53, 0.71), 100))
    assert said.startswith("In 100 draws of 12 answers GRPO ties answers in 38–44 % of the prompts, GDPO in 11 %. Of")
    assert said.endswith("53–71 % end in the wrong order.")
    assert "in the 3 draws that have one." in sentences.draws_said(Choice(), ALL, prompts.Spread(tied, (0.5, 0.7), 3))
    assert "in the 1 draw that has one." in sentences.draws_said(Choice(), ALL, prompts.Spread(tied, (0.5, 0.5), 1))
    assert "In none of them" in sentences.draws_said(Choice(), ALL, prompts.Spread(tied, None, 0))
    assert "another draw changes nothing" in sentences.draws_said(Choice(ALL), ALL, prompts.Spread(tied, None, 0))


def test_the_reference_figures():
    _, _, found, first = looked(Choice(ALL))
    assert [round(found.tied[m] / 963, 3) for m in prompts.BOTH_METHODS] == [0.825, 0.065]
    assert first.wrong("gdpo", 1, first.broken()) == pytest.approx(0.678, abs=0.001)
    _, _, found, first = looked(Choice())
    assert found.counts == {"both": 140, "wrong": 129, "apart": 125, "gdpo": 0, "untied": 485, "alike": 84}
    # Of these prompts, 7 count above as tied by both methods, because of another tie.
    assert found.wrong == 136
    assert (first.order("gdpo", 1, first.broken()).pairs, first.order("grpo").tied) == (996, 1378)
    shares = [looked(Choice(seed=seed))[3] for seed in range(6)]
    assert sum(p.wrong("gdpo", 1, p.broken()) for p in shares) / 6 == pytest.approx(0.62, abs=0.05)


@pytest.mark.slow
def test_the_range_over_draws_is_that_of_each_draw_alone():
    choice = Choice(4, graders=OTHER, weight=2.0)
    spread = prompts.range_of_shares(DATA, choice)
    each = [looked(replace(choice, seed=seed)) for seed in range(prompts.DRAWS)]
    for method in prompts.BOTH_METHODS:
        tied = [found.tied[method] / 963 for _, _, found, _ in each]
        assert spread.tied[method] == pytest.approx((min(tied), max(tied)))
    wrong = [first.wrong("gdpo", choice.weight, first.broken(choice.weight)) for *_, first in each]
    wrong = [share for share in wrong if share is not None]
    assert spread.wrong == (pytest.approx((min(wrong), max(wrong))) if wrong else None)
    assert spread.draws == len(wrong)


def test_another_process_computes_the_same_range_once_for_all_draws():
    # The orders of so many prompts and models are drawn beforehand.
    assert (len(DATA.tasks), len(DATA.models)) == (draws.PROMPTS, draws.MODELS)
    first, second = (draws.shares_over_draws(FILE, Choice(3, seed=seed)) for seed in (4, 5))
    assert first is second and first == prompts.range_of_shares(DATA, Choice(3))


# --- what is shown ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("choice", CHOICES, ids=str)
def test_squares_legend_bars_and_curves_hold_the_same_counts(choice):
    _, _, found, first = looked(choice)
    drawn = str(squares.squares(DATA, found, ""))
    runs = re.findall(r'<span class="(\w+)" role="group"[^>]*>(.*?)</span>', drawn)
    counted = Counter({outcome: 0 for outcome in OUTCOMES})
    for outcome, run in runs:
        counted[outcome] += run.count("data-id")
    assert counted == found.counts
    assert sorted(re.findall('data-id="([^"]+)"', drawn)) == sorted(DATA.tasks)
    legend = dict(re.findall(r'data-id="(\w+)"[^>]* aria-label="([\d,]+):', str(squares.outcome_legend(found, 12))))
    assert legend == {name: str(found.counts[name]) for name in legend}
    of_prompt = dict(re.findall('data-id="([^"]+)" role="radio" aria-label="[^":]+: ([^"]+)"', drawn))
    happened = zip(DATA.tasks, found.outcome.tolist(), strict=True)
    assert of_prompt == {task: squares.SAID[OUTCOMES[n]].replace("'", "&#x27;") for task, n in happened}
    rows = order.first_rows(choice, first)
    for bar in {(row["of"], row["method"]) for row in rows}:
        assert sum(row["share"] for row in rows if (row["of"], row["method"]) == bar) == pytest.approx(1)
    line = order.weight_rows(first)["all right–wrong pairs"]["gdpo"]
    assert line[choice.weight] == next(r["share"] for r in reversed(rows) if r["order"] == "wrong")


def test_a_prompt_that_is_not_known_gets_a_sentence():
    assert opened.search_note(DATA, " ") == opened.search_note(DATA, "parallel_65") == ""
    none = "No prompt has the name “parallel_6x”, and no request has these words. A name here is"
    assert none in told(opened.search_note(DATA, "parallel_6x")) and opened.find(DATA, "parallel_6x") == []
    assert "Names that begin so: multiple_0, multiple_1, " in told(opened.search_note(DATA, "multiple_"))


def test_a_prompt_is_found_by_the_words_of_its_request():
    assert opened.find(DATA, "parallel_65") == ["parallel_65"] and opened.find(DATA, " ") == []
    asked = "Vectors correlation"
    plain = [
        name
        for name, (request, _) in requests.texts().items()
        if all(word in request.lower() for word in asked.lower().split())
    ]
    assert sorted(opened.find(DATA, asked)) == sorted(plain) and plain
    many = f"{len(plain)} request{' has' if len(plain) == 1 else 's have'} these words: "
    assert many in told(opened.search_note(DATA, asked))


def test_a_step_leads_to_the_square_beside_and_around_the_ends():
    found = looked(Choice())[2]
    names = squares.sort_prompts(DATA, found)
    assert squares.neighbours(DATA, found, names[5]) == (names[4], names[6])
    assert squares.neighbours(DATA, found, names[-1]) == (names[-2], names[0])
    assert squares.as_table(DATA, found).count("\n") == 964


def test_an_opened_prompt_is_a_board_of_its_answers():
    choice, task = Choice(30, 3, weight=2.0), "parallel_multiple_95"
    marks = prompts.marks_of(DATA, choice)
    board, rows = opened.prompt_board(DATA, choice, marks, task), group(task, choice)
    assert sorted(map(tuple, board.marks)) == sorted(rows) and board.weights == list(choice.weights)
    assert board.answers == [DATA.models[m] for m in bfcl.draw_models(DATA, 30, 3)[DATA.tasks.index(task)].tolist()]
    for method, shown in zip(("grpo", "gdpo"), board.drawing["a"], strict=True):
        alone = gc.advantages(marks[DATA.tasks.index(task)], method, weights=choice.weights)
        assert shown == pytest.approx(alone.tolist())
    shown = told(opened.prompt(DATA, choice, marks, prompts.ties_of(marks, choice.weights), task))
    assert requests.texts()[task][0].strip(' "')[:60] in shown and "Right: [" in shown and "states no licence" in shown
    for mix, (many, *_) in scores(rows, choice.weight).items():
        assert f"{many} answer{'s' * (many > 1)} {' '.join('✗✓'[mark] for mark in mix)} " in shown


def test_the_configurations_are_of_fewer_models():
    endings = ("-FC-Any", "-FC-Auto", "-FC")
    stripped = {next((n[: -len(e)] for e in endings if n.endswith(e)), n) for n in DATA.models}
    assert prompts.models(DATA) == len(stripped) == 50
    assert "71 configurations of 50 models, not 71 samples of one policy" in told(about.note_on_answers(DATA))


# --- the folds below ------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_curves_by_size_hold_the_numbers_and_say_where_gdpo_peaks():
    by_size = prompts.by_size(DATA, Choice())
    found = group_sizes.shares(by_size)
    for size in by_size:
        tied = looked(Choice(size))[2].tied
        assert all(found["prompts with a tie"][m][size] == tied[m] / 963 for m in prompts.BOTH_METHODS)
    assert list(by_size) == [2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 71]
    grpo, gdpo = "3.1 %, 40.9 % and 82.5 %", "3.1 %, 14.5 % and 6.5 %"
    ends = f"GRPO ties answers in {grpo} of the prompts, GDPO in {gdpo}"
    assert group_sizes.title(DATA, Choice()).endswith(ends)
    assert group_sizes.title(DATA, Choice(4, weight=2.0)) == group_sizes.title(DATA, Choice())
    said = told(group_sizes.section(by_size, Choice()))
    assert "under GDPO from 3.1 % to 6.5 %, with 15.1 % at 16" in said


def test_the_papers_cells_are_counted_on_both_sides():
    cells = results.results()
    ahead = Counter(
        "equal" if c.grpo == c.gdpo else "gdpo" if (c.gdpo > c.grpo) == (c.better == "higher") else "grpo"
        for c in cells
    )
    assert ahead == {"gdpo": 58, "grpo": 8, "equal": 2}
    assert {name: len(of) for name, of in results.ahead(cells).items()} == ahead
    said = told(paper.section())
    assert paper.title().endswith("35 of 68 cells of its tables GDPO is ahead by at least one point, GRPO in none")
    assert "By any margin GDPO is ahead in 58 cells and GRPO in 8, and 2 cells are equal" in said
    assert "For most cells the paper does not say how much its runs vary" in said
    assert str(paper.paper_table()).count('class="ahead"') == 8


# --- the cells -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("choice", [Choice(), Choice(12, 4, weight=2.0)], ids=str)
def test_the_program_prints_the_numbers_on_the_screen(choice):
    shown = " ".join(printed(sentences.shares_program(choice))).replace("%", " %")
    _, _, found, first = looked(choice)
    for n in found.tied.values():
        assert f" {round(100 * n / 963)} % of the prompts" in shown
    pairs = first.order("gdpo", choice.weight)
    assert f"right {100 * pairs.right / pairs.pairs:.1f} % tied {100 * pairs.tied / pairs.pairs:.1f} %" in shown
    broken = first.order("gdpo", choice.weight, first.broken(choice.weight))
    share = percent(broken.wrong / broken.pairs) if broken.pairs else "0 %"
    assert f"{broken.pairs} broken ties, {share} in the wrong order" in shown
