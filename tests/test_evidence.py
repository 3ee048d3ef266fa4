"""Evidence: what its squares, bars, curves and sentences say is what a plain count gives.

The counts are made a second time here, with dictionaries and explicit formulas, without gdpo_core.
"""

import contextlib
import io
import re
from collections import Counter
from dataclasses import replace
from functools import cache
from itertools import combinations
from math import sqrt
from pathlib import Path

import naive
import polars as pl
import pytest
import torch
import traitlets
from hypothesis import given, settings
from hypothesis import strategies as st

import gdpo_core as gc
from gdpo_core import bfcl
from gdpo_core._words import percent, signed
from gdpo_core.collapse import most_needed
from views import about, charts, claims, evidence, opened, prompts, results, sizes
from views.evidence import Evidence, State, part
from views.link import Session, parse
from views.prompts import OUTCOMES, WEIGHTS, Choice

FILE = Path("data/bfcl_rewards.parquet")
FRAME = pl.read_parquet(FILE)
DATA = prompts.published(FILE)
ALL = len(DATA.models)
OTHER = ("bfcl_ast_valid", "style_args", "conciseness_lenient")
CHOICES = [
    Choice(),
    Choice(ALL),
    Choice(12, 1),
    Choice(16, 3, OTHER),
    Choice(12, 4, weight=2.0),
    Choice(8, 0, weight=1.2),
    Choice(2),
    Choice(3),
]


def text_of(html):
    return " ".join(re.sub(r"<[^>]+>", " ", str(html)).replace("\xa0", " ").split())


# --- the same counts without gdpo_core -------------------------------------------------------------------------------


@cache
def verdicts():
    """{(task, model): row of the file}."""
    return {(row["task_id"], row["model"]): row for row in FRAME.iter_rows(named=True)}


@cache
def drawn(group_size, seed):
    """{task: models whose answers were drawn}."""
    models = bfcl.draw(DATA, group_size, seed).tolist()
    return {task: [DATA.models[m] for m in row] for task, row in zip(DATA.tasks, models, strict=True)}


def group(task, choice):
    """The marks of one prompt's drawn answers, straight from the file."""
    rows = [verdicts()[task, model] for model in drawn(choice.group_size, choice.seed)[task]]
    return [tuple(int(row[grader]) for grader in choice.graders) for row in rows]


def scores(rows, weight):
    """Of each different mix: how many answers have it, its sum, and its GDPO score before the batch step."""
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
    """The outcome of one prompt, and per method the pairs [right first, tied, wrong first]."""
    found = scores(rows, weight)
    tied, broken_wrong = [False, False], False
    order = [[0, 0, 0], [0, 0, 0]]
    for a, b in combinations(found, 2):
        (n_a, *score_a), (n_b, *score_b) = found[a], found[b]
        gaps = [x - y for x, y in zip(score_a, score_b, strict=True)]
        alike = [abs(gap) < 1e-9 for gap in gaps]
        tied = [was or now for was, now in zip(tied, alike, strict=True)]
        if a[0] != b[0]:
            ahead = [gap if a[0] else -gap for gap in gaps]
            for method in (0, 1):
                order[method][1 if alike[method] else 0 if ahead[method] > 0 else 2] += n_a * n_b
            broken_wrong |= alike[0] and not alike[1] and ahead[1] < 0
    grpo, gdpo = tied
    if len(found) == 1:
        return "alike", order
    if grpo:
        return ("both" if gdpo else "wrong" if broken_wrong else "apart"), order
    return ("gdpo" if gdpo else "untied"), order


@pytest.mark.parametrize("choice", CHOICES, ids=str)
def test_what_happens_to_each_prompt_is_what_a_plain_count_gives(choice):
    found = prompts.found(DATA, choice)
    plain = [happens(group(task, choice), choice.weight) for task in DATA.tasks]
    assert [OUTCOMES[n] for n in found.outcome.tolist()] == [outcome for outcome, _ in plain]
    for k, method in enumerate(prompts.METHODS):
        order = found.order[method]
        assert [order.right, order.tied, order.wrong] == [sum(o[k][part] for _, o in plain) for part in range(3)]
        c = gc.collapse(prompts.marks_of(DATA, choice), method, weights=choice.weights)
        assert order == c.order() and found.tied_pairs[method] == c.tied_pairs
        assert found.tied_prompts[method] == round(c.groups_with_ties * c.mixed_groups)
        assert found.mixed == c.mixed_groups


@pytest.mark.parametrize("choice", [c for c in CHOICES if c.weight == 1], ids=str)
def test_the_priorities_are_those_of_the_broken_ties_and_of_all_pairs(choice):
    marks, first = prompts.marks_of(DATA, choice), prompts.priorities(DATA, choice)
    collapses = [gc.collapse(marks, method) for method in prompts.METHODS]
    broken = gc.broken_ties(*collapses)
    assert first.broken == len(broken.lower) and first.wrong == int(broken.inverted.sum())
    assert first.grpo_ties == collapses[0].order().tied and first.pairs == collapses[0].order().pairs
    needed = gc.break_even_weights(marks, broken)
    for weight in (1.0, 1.2, 1.5, 2.0, 3.0, 5.0):
        order = {m: gc.collapse(marks, m, weights=(weight, 1, 1)).order() for m in prompts.METHODS}
        want = [(needed > weight + 1e-9).double().mean().item() if len(needed) else 0.0]
        want += [order[m].wrong / order[m].pairs for m in ("gdpo", "grpo")]
        assert first.wrong_at(weight) == pytest.approx(want, abs=1e-12)
    assert list(first.gdpo_wrong) == sorted(first.gdpo_wrong, reverse=True)


@pytest.mark.parametrize("size", [4, 12, 40])
def test_the_weights_that_are_said_to_be_enough_are_and_less_is_not(size):
    choice = Choice(size)
    first, marks = prompts.priorities(DATA, choice), prompts.marks_of(DATA, choice)
    said = [
        float(n)
        for n in re.findall(r"weighs ([\d.]+\d)|needs ([\d.]+\d)", text_of(evidence.worth(choice, first)))
        for n in n
        if n
    ]
    assert len(said) == 2
    pairs = gc.broken_ties(*(gc.collapse(marks, m) for m in prompts.METHODS))
    for weight, wrong in ((said[0], False), (first.broken_needed - 0.005, True)):
        a = gc.gdpo(marks, weights=(weight, 1, 1)).flatten()
        assert bool((a[pairs.lower] >= a[pairs.higher] - 1e-12).any()) == wrong
    for method, enough, short in (("gdpo", said[1], first.gdpo_needed - 0.005), ("grpo", 2.001, 2.0)):
        order = [gc.collapse(marks, method, weights=(w, 1, 1)).order() for w in (enough, short)]
        assert order[0].right == order[0].pairs and order[1].right < order[1].pairs
    assert "GRPO just over 2" in text_of(evidence.worth(choice, first))


@settings(deadline=None, max_examples=60)
@given(st.lists(st.tuples(*[st.integers(0, 1)] * 3), min_size=2, max_size=14))
def test_no_group_needs_more_weight_than_is_said(rows):
    marks = torch.tensor([rows])
    right = [i for i, row in enumerate(rows) if row[0]]
    wrong = [i for i, row in enumerate(rows) if not row[0]]
    pairs = torch.tensor([[i, j] for i in wrong for j in right], dtype=torch.int64).reshape(-1, 2)
    everyone = gc.BrokenTies(pairs[:, 0], pairs[:, 1], torch.zeros(len(pairs), dtype=torch.bool))
    ties = gc.broken_ties(gc.collapse(rows, "grpo"), gc.collapse(rows, "gdpo"))
    for found, most in ((everyone, prompts.most_of_all(len(rows))), (ties, most_needed(len(rows)))):
        assert max(gc.break_even_weights(marks, found).tolist(), default=0) <= most + 1e-9


def test_the_reference_figures():
    found = prompts.found(DATA, Choice(ALL))
    assert [round(found.tied_prompts[m] / 963, 3) for m in prompts.METHODS] == [0.825, 0.065]
    first = prompts.priorities(DATA, Choice(ALL))
    assert first.wrong / first.broken == pytest.approx(0.678, abs=0.001)
    assert Counter(OUTCOMES[n] for n in prompts.found(DATA, Choice()).outcome.tolist()) == {
        "both": 140,
        "wrong": 129,
        "apart": 125,
        "untied": 485,
        "alike": 84,
    }
    shares = [prompts.priorities(DATA, Choice(seed=seed)) for seed in range(6)]
    assert sum(p.wrong / p.broken for p in shares) / 6 == pytest.approx(0.62, abs=0.05)


def test_the_naive_collapse_agrees_on_some_prompts():
    marks = prompts.marks_of(DATA, Choice())[::120]
    rows = [[float(x) for x in row] for prompt in marks.tolist() for row in prompt]
    ids = [n for n in range(len(marks)) for _ in range(12)]
    for method in gc.METHODS:
        want, found = naive.collapse(rows, ids, method), gc.collapse(marks, method)
        for name in ("mixed_groups", "groups_with_ties", "tied_pairs", "levels", "vectors"):
            assert getattr(found, name) == pytest.approx(want[name], abs=1e-9)


def test_with_two_or_three_answers_gdpo_ties_what_grpo_ties():
    for size in (2, 3):
        found = prompts.found(DATA, Choice(size))
        assert set(found.outcome.tolist()) <= {OUTCOMES.index(name) for name in ("both", "untied", "alike")}
        first = prompts.priorities(DATA, Choice(size))
        assert evidence.title(first) == "No more resolution than GRPO"
        assert f"With {size} answers GDPO breaks none" in text_of(evidence.worth(Choice(size), first))


def test_without_std_ties_what_grpo_ties():
    for choice in CHOICES:
        marks = prompts.marks_of(DATA, choice)
        levels = [gc.collapse(marks, m, weights=choice.weights).level for m in ("grpo", "grpo_no_std")]
        assert levels[0].equal(levels[1])


# --- what is shown ---------------------------------------------------------------------------------------------------


def asked(**changed):
    start = {"group": 12, "draw": 0, "graders": list(bfcl.REWARDS), "weight": 1, "kind": "", "prompt": "", "n": 1}
    return {**start, "open": [], **changed}


def sent(widget, **changed):
    widget._asked(asked(**changed))
    return widget.drawing


def test_the_claim_follows_the_controls():
    widget = Evidence(DATA, Session())
    assert text_of(widget.drawing["claim"]) == "On 963 real prompts GRPO ties different answers in 41 %, GDPO in 15 %"
    lead = text_of(widget.drawing["lead"])
    assert "All marks weigh the same here" in lead and "71 configurations of 50 models" in lead
    assert "no samples of one policy" in lead
    assert "With weights 1, 0.9 and 0.8 neither method ties different answers" in lead
    for group_size, weight in ((71, 1), (12, 1.2), (4, 2)):
        drawing = sent(widget, group=group_size, weight=weight)
        tied = prompts.found(DATA, Choice(group_size, weight=weight)).tied_prompts
        shares = [percent(tied[m] / 963) for m in prompts.METHODS]
        assert f"in {shares[0]}, GDPO in {shares[1]}" in text_of(drawing["claim"])
        assert ("All marks weigh the same" in drawing["lead"]) == (weight == 1)
        words = text_of(drawing["lead"]).split()
        assert len(words) <= 60
    assert "a draw changes nothing" in sent(widget, group=ALL)["lead"]


@pytest.mark.parametrize("size", [2, 12, ALL])
def test_weights_of_which_none_is_equal_leave_the_ties_that_are_said(size):
    choice = Choice(size)
    for method, ties in prompts.unlike_ties(DATA, choice).items():
        c = gc.collapse(prompts.marks_of(DATA, choice), method, weights=(1, 0.9, 0.8))
        assert c.tied_pair_count == 0 and ties == 0


@pytest.mark.parametrize("choice", CHOICES, ids=str)
def test_squares_legend_bars_and_curves_hold_the_same_counts(choice):
    drawing = evidence.draw(DATA, State(choice), 1)
    counted = Counter(OUTCOMES[int(digit)] for digit in drawing["outcome"])
    assert len(drawing["outcome"]) == 963
    assert {name: int(n) for name, n, _ in drawing["legend"] if int(n)} == dict(counted)
    for bar in drawing["bars"]:
        assert sum(share for _, share, _ in bar["parts"]) == pytest.approx(1)
    at = WEIGHTS.index(choice.weight)
    wrong = {name: share for name, share, _ in drawing["bars"][-1]["parts"]}.get("wrong", 0)
    line = {method: values for method, _, values in drawing["curves"][-1]["lines"]}["gdpo"]
    assert line[at] == pytest.approx(wrong, abs=1e-5)
    assert all(0 <= x <= curve["top"] for curve in drawing["curves"] for _, _, values in curve["lines"] for x in values)
    told = text_of([drawing[name] for name in ("claim", "lead", "title", "worth", "opened", "never")])
    assert "nan" not in told.split() and "None" not in told


def test_prompts_whose_answers_agree_are_no_division_by_zero():
    some = replace(DATA, verdicts=torch.ones_like(DATA.verdicts))
    drawing = evidence.draw(some, State(), 1)
    assert set(drawing["outcome"]) == {str(OUTCOMES.index("alike"))}
    assert "No prompt here has both a right and a wrong answer" in drawing["worth"]
    assert drawing["bars"] == drawing["curves"] == []
    assert "every advantage is 0" in drawing["opened"]
    for name in evidence.PARTS:
        told = text_of(evidence.part(some, name, Choice()))
        assert "nan" not in told.split()


def test_the_prompt_that_is_open_at_first_has_most_ties_broken_the_wrong_way():
    most = {}
    for task in DATA.tasks:
        found = scores(group(task, Choice()), 1)
        most[task] = sum(
            found[wrong][0] * found[right][0]
            for wrong in found
            for right in found
            if wrong[0] < right[0] and found[wrong][1] == found[right][1] and found[wrong][2] > found[right][2] + 1e-9
        )
    drawing = evidence.draw(DATA, State(), 1)
    assert most[DATA.tasks[drawing["prompt"]]] == max(most.values())
    assert f"{max(most.values())} the wrong way" in text_of(drawing["opened"])
    without = evidence.draw(DATA, State(Choice(2)), 1)
    assert "No tie is broken the wrong way at equal weights" in text_of(without["opened"])
    a, b = group(DATA.tasks[without["prompt"]], Choice(2))
    assert a[0] != b[0] and sum(a) == sum(b)


@pytest.mark.parametrize("task", ["parallel_multiple_95", "simple_python_100", "parallel_65"])
def test_an_opened_prompt_shows_each_mix_with_its_answers(task):
    choice = Choice(30, 3)
    html = opened.prompt(DATA, choice, DATA.tasks.index(task), True)
    rows = group(task, choice)
    body = html.split("<tbody>")[1].split("</tbody>")[0]
    assert body.count("<tr") == len(set(rows))
    assert sum(map(int, re.findall(r"</th><td>(\d+)</td>", body))) == 30
    names = [DATA.models[m] for m in bfcl.draw(DATA, 30, 3)[DATA.tasks.index(task)].tolist()]
    assert all(name in text_of(html) for name in names)
    ties = sum(n for n in Counter(sum(mix) for mix in set(rows)).values() if n > 1)
    assert len(re.findall(r'class="grpo tied"', body)) == ties
    a = gc.gdpo(prompts.marks_of(DATA, choice))[DATA.tasks.index(task)]
    shown = [signed(x) for x in sorted({round(x, 9) for x in a.tolist()}, reverse=True)]
    assert list(dict.fromkeys(re.findall(r'<td class="gdpo[^>]*>([^ <]+)', body))) == list(dict.fromkeys(shown))
    std = float(gc.explain(prompts.marks_of(DATA, choice), "gdpo").batch_std)
    assert f"divides by the spread over all 963 prompts drawn, here {std:.3f}" in text_of(html)


def test_the_configurations_are_of_fewer_models():
    endings = ("-FC-Any", "-FC-Auto", "-FC")
    stripped = {next((n[: -len(e)] for e in endings if n.endswith(e)), n) for n in DATA.models}
    assert prompts.models(DATA) == len(stripped) == 50
    assert "71 configurations of 50 models, not 71 samples of one policy" in text_of(about.whose(DATA))
    for file in ("README.md", "data/README.md"):
        assert "71 configurations of 50 models" in Path(file).read_text(encoding="utf-8")


# --- further down ----------------------------------------------------------------------------------------------------


def test_the_curves_by_size_hold_the_numbers_and_say_where_gdpo_peaks():
    found = sizes.shares(DATA, Choice())
    for size in prompts.sizes(DATA):
        tied = prompts.found(DATA, Choice(size)).tied_prompts
        assert [found["prompts with a tie"][m][size] for m in prompts.METHODS] == [
            tied[m] / 963 for m in prompts.METHODS
        ]
    told = text_of(sizes.part(DATA, Choice()))
    assert "it rises from 3.1 % to 15.1 % at 16 and falls to 6.5 %" in told
    for title, lines in found.items():
        spec = charts.by_group_size(lines, title, 1.0, 12).to_dict()
        assert "71 answers per prompt" in spec["description"] and spec["config"]["axis"]["grid"] is False
    assert text_of(sizes.tabled(DATA, Choice())).count("%") == 5 * 11 - 2  # nothing is broken with 2 and 3 answers


def test_larger_groups_tie_more_under_grpo():
    found = prompts.by_size(DATA, Choice())
    grpo = [f.tied_prompts["grpo"] for f, _ in found.values()]
    assert grpo == sorted(grpo) and max(found) == ALL


def test_the_papers_cells_are_counted_on_both_sides():
    cells = results.results()
    ahead = Counter(
        "equal" if c.grpo == c.gdpo else "gdpo" if (c.gdpo > c.grpo) == (c.better == "higher") else "grpo"
        for c in cells
    )
    assert ahead == {"gdpo": 58, "grpo": 8, "equal": 2}
    assert {name: len(of) for name, of in results.ahead(cells).items()} == ahead
    told = text_of(results.part())
    assert "GRPO is ahead in 8 of 68 cells , GDPO in 58, and 2 are equal" in told
    assert "6 to 26 of 34" in told and "not measured by us" in told and "KL penalty" in told
    assert len({c.name + c.metric for c in cells}) == len(cells)
    for title, some in results.kinds().items():
        spec = charts.who_is_ahead(some, title).to_dict()
        assert f"in {len(results.ahead(some)['grpo'])} of {len(some)} cells" in spec["description"]
        drawn = next(pl.read_json(rows.encode()) for rows in spec["datasets"].values() if "leader" in rows)
        assert sorted(drawn["ahead"].to_list()) == sorted(c.ahead for c in some)
    assert str(results.tabled()).count('class="ahead"') == 8


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (None, "as CSV, got none"),
        (lambda text: text[: len(text) // 2], "all 68 cells of the paper's tables, got 3"),
        (lambda text: "a,b\n1,2\n", "columns experiment, model,"),
        (lambda text: text.replace("50.63", "many"), "as CSV, got could not parse"),
        (lambda text: text.replace("higher", "bigger", 1), "got 67"),
        (lambda text: "", "as CSV, got empty CSV"),
    ],
)
def test_without_the_papers_tables_what_needs_them_says_so(tmp_path, monkeypatch, change, said):
    path = tmp_path / "paper_results.csv"
    if change:
        path.write_text(change(results.FILE.read_text(encoding="utf-8")), encoding="utf-8")
    monkeypatch.setattr(results, "FILE", path)
    for kept in (results.results, claims.checked):
        kept.cache_clear()
    for html in (part(DATA, "paper", Choice()), part(DATA, "paper-table", Choice()), claims.checked()):
        assert "can't be shown. data/paper_results.csv: expected" in text_of(html) and said in text_of(html)
    for kept in (results.results, claims.checked):
        kept.cache_clear()


@pytest.mark.parametrize("choice", [Choice(), Choice(5, 3, weight=1.5), Choice(ALL, 0, OTHER)], ids=str)
def test_behind_the_gate_the_right_answer_is_first_in_every_pair(choice):
    rows = re.findall(
        r"<tr><th scope=\"row\">(\w+), gated</th><td>([^<]+)</td><td>([^<]+)</td>", about.gate(DATA, choice)
    )
    assert [row[0] for row in rows] == ["GRPO", "GDPO"]
    assert all(row[1].startswith("100") and row[2].startswith("0") for row in rows)


# --- the widget ------------------------------------------------------------------------------------------------------


def test_a_part_is_sent_when_it_is_near_and_again_only_when_it_changes():
    widget = Evidence(DATA, Session())
    assert widget.parts == {}
    sent(widget, open=["figure-two", "sizes-table"])
    assert set(widget.parts) == {"figure-two", "sizes-table"}
    before = widget.parts
    sent(widget, open=["figure-two", "sizes-table"])
    assert widget.parts is before or widget.parts == before
    sent(widget, open=["figure-two", "sizes-table"], draw=3)
    assert set(widget.parts) == {"sizes-table"}


@pytest.mark.parametrize(
    "message",
    [
        "nonsense",
        {},
        asked(group=1),
        asked(group=72),
        asked(draw=100),
        asked(graders=["correctness"]),
        asked(graders=["style", "style", "conciseness"]),
        asked(weight=float("nan")),
        asked(weight=11),
        asked(kind="odd"),
        asked(prompt="none_such"),
    ],
    ids=str,
)
def test_what_is_no_control_changes_nothing(message):
    widget = Evidence(DATA, Session())
    before = widget.drawing
    with pytest.raises(traitlets.TraitError, match="expected the controls of Evidence"):
        widget._asked(message)
    assert widget.drawing is before and widget.state == State()


@pytest.mark.parametrize(
    "changed",
    [
        {"group": 5, "draw": 9, "weight": 1.45},
        {"graders": list(OTHER), "kind": "wrong"},
        {"prompt": "parallel_65", "group": 71, "weight": 5},
    ],
    ids=str,
)
def test_a_link_restores_what_was_seen(changed):
    session = Session()
    widget = Evidence(DATA, session)
    sent(widget, **changed)
    query = dict(pair.split("=") for pair in session.query("evidence").split("&"))
    again = Session(*parse(query))
    restored = Evidence(DATA, again)
    assert again.notes == [] and restored.state == widget.state
    assert restored.drawing | {"n": 1} == widget.drawing


def test_a_link_that_does_not_fit_says_so():
    query = {"evidence-graders": "a.b.c", "evidence-kind": "odd", "evidence-prompt": "none", "evidence-group": "500"}
    session = Session(*parse(query))
    widget = Evidence(DATA, session)
    assert len(session.notes) == 3 and widget.state == State(Choice(ALL))


@pytest.mark.parametrize("choice", CHOICES, ids=str)
def test_the_program_prints_the_numbers_on_the_screen(choice):
    program = evidence.program(choice)
    assert len(program.splitlines()) <= 15
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(program, {})
    printed = printed.getvalue().replace("%", " %")
    drawing = evidence.draw(DATA, State(choice), 1)
    for share in re.findall(r"in ([\d.]+)", text_of(drawing["claim"])):
        assert f" {round(float(share))} % of the prompts" in printed
    order = prompts.found(DATA, choice).order["gdpo"]
    assert f"right {100 * order.right / order.pairs:.1f} % tied {100 * order.tied / order.pairs:.1f} %" in printed
    first = prompts.priorities(DATA, choice)
    if first.broken:
        assert f"{first.broken} broken ties, {percent(first.wrong / first.broken)} with" in printed


def test_a_file_that_cannot_be_used_is_one_sentence(tmp_path):
    shown = evidence.chapter(tmp_path / "bfcl_rewards.parquet", Session())
    assert (
        "cannot be shown" in shown.text
        and "expected a Parquet file of published verdicts, got: no such file" in shown.text
    )
    assert "Traceback" not in shown.text
