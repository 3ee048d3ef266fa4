"""Section 4: the published verdicts, what is counted in them, and how the page shows it.

The counts are made a second time here, with dictionaries and explicit formulas, without gdpo_core.
"""

import re
from collections import Counter
from dataclasses import replace
from functools import cache
from itertools import combinations, pairwise
from math import sqrt
from pathlib import Path

import naive
import polars as pl
import pytest
import torch
from helpers import crossed, html_of, text_of
from hypothesis import given
from hypothesis import strategies as st

import gdpo_core as gc
from app import app
from gdpo_core import bfcl
from views import broken, one_prompt, prompts
from views.prompts import Choice

FILE = "data/bfcl_rewards.parquet"
FRAME = pl.read_parquet(FILE)
DATA = prompts.published(FILE)
ALL = len(DATA.models)
SEEDS = range(6)


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


def group(task, choice, group_size):
    """The marks of one prompt's drawn answers, straight from the file."""
    rows = [verdicts()[task, model] for model in drawn(group_size, choice.seed)[task]]
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


def counted(choice, group_size):
    """Shares of prompts and pairs tied, the mixed prompts, and (pairs broken, of these wrong first)."""
    mixed, different, right_wrong = 0, 0, [0, 0]
    prompts_tied, pairs_tied = [0, 0], [0, 0]
    for task, category in zip(DATA.tasks, DATA.categories, strict=True):
        if choice.category not in (None, category):
            continue
        found = scores(group(task, choice, group_size), choice.weight)
        mixed += len(found) > 1
        ties = [[], []]
        for a, b in combinations(found, 2):
            (n_a, *score_a), (n_b, *score_b) = found[a], found[b]
            different += n_a * n_b
            alike = [abs(x - y) < 1e-9 for x, y in zip(score_a, score_b, strict=True)]
            for method in (0, 1):
                ties[method].append(n_a * n_b * alike[method])
            if a[0] != b[0] and alike[0] and not alike[1]:
                wrong_higher = (score_a[1] > score_b[1]) == (a[0] < b[0])
                right_wrong[0] += n_a * n_b
                right_wrong[1] += n_a * n_b * wrong_higher
        for method in (0, 1):
            prompts_tied[method] += any(ties[method])
            pairs_tied[method] += sum(ties[method])
    return [n / mixed for n in prompts_tied], [n / different for n in pairs_tied], mixed, right_wrong


@pytest.mark.parametrize(
    "choice, group_size",
    [
        pytest.param(Choice(), ALL, marks=pytest.mark.slow),
        (Choice(seed=0), 12),
        *(pytest.param(Choice(seed=seed), 12, marks=pytest.mark.slow) for seed in (1, 2)),
        pytest.param(
            Choice(("bfcl_ast_valid", "style_args", "conciseness_lenient"), seed=3), 16, marks=pytest.mark.slow
        ),
        (Choice(seed=4, category="parallel", weight=2.0), 12),
    ],
    ids=str,
)
def test_what_the_section_says_is_what_a_plain_count_gives(choice, group_size):
    with_ties, pairs, mixed, right_wrong = counted(choice, group_size)
    for method, k in (("grpo", 0), ("grpo_no_std", 0), ("gdpo", 1)):
        found = prompts.tied(DATA, choice, group_size)[method]
        assert found.mixed == mixed
        assert (found.with_ties, found.pairs) == pytest.approx((with_ties[k], pairs[k]), abs=1e-12)
    if choice.weight == 1:
        found = broken.broken(DATA, choice, group_size)
        assert [found.pairs, round(found.wrong_first[0] * found.pairs)] == right_wrong


@pytest.mark.slow
def test_the_reference_figures():
    (grpo, gdpo), _, mixed, (pairs, wrong) = counted(Choice(), ALL)
    assert (round(grpo, 3), round(gdpo, 3), mixed) == (0.825, 0.065, 963)
    assert wrong / pairs == pytest.approx(0.678, abs=0.001)
    found = [prompts.tied(DATA, Choice(seed=seed), 12) for seed in SEEDS]
    mean = {m: sum(f[m].with_ties for f in found) / len(SEEDS) for m in ("grpo", "gdpo")}
    assert mean["grpo"] == pytest.approx(0.43, abs=0.02)
    assert mean["gdpo"] == pytest.approx(0.15, abs=0.02)
    first = [broken.broken(DATA, Choice(seed=seed), 12).wrong_first[0] for seed in SEEDS]
    assert sum(first) / len(first) == pytest.approx(0.64, abs=0.04)


def test_the_naive_collapse_agrees_on_some_prompts():
    marks = prompts.groups(DATA, Choice(), 12)[::120]
    rows = [[float(x) for x in row] for prompt in marks.tolist() for row in prompt]
    ids = [n for n in range(len(marks)) for _ in range(12)]
    for method in gc.METHODS:
        want, found = naive.collapse(rows, ids, method), gc.collapse(marks, method)
        for name in ("mixed_groups", "groups_with_ties", "tied_pairs", "levels", "vectors"):
            assert getattr(found, name) == pytest.approx(want[name], abs=1e-9)


# --- the weight that would change it ---------------------------------------------------------------------------------


@given(naive.batches(missing=False), st.sampled_from((None, 0)))
def test_the_break_even_weights_of_a_batch_are_those_of_its_prompts(batch, weight):
    count = len(batch.rows[0])
    weights = [1.0, 0.5, 2.0, 1.0][:count] if weight is None else None
    options = {"groups": batch.ids}
    pairs = gc.broken_ties(gc.collapse(batch.rows, "grpo", **options), gc.collapse(batch.rows, "gdpo", **options))
    found = gc.break_even_weights(batch.rows, pairs, weights=weights, **options)
    for low, high, w in zip(pairs.lower.tolist(), pairs.higher.tolist(), found.tolist(), strict=True):
        inside = [i for i, id in enumerate(batch.ids) if id == batch.ids[low]]
        one = gc.break_even_weight(
            [batch.rows[i] for i in inside], inside.index(low), inside.index(high), weights=weights
        )
        assert w == pytest.approx(one, rel=1e-9, abs=1e-9)


def test_the_break_even_weights_turn_the_order_of_the_published_answers():
    marks = prompts.groups(DATA, Choice(), 12)
    pairs = gc.broken_ties(gc.collapse(marks, "grpo"), gc.collapse(marks, "gdpo"))
    needed = gc.break_even_weights(marks, pairs)
    assert torch.equal(needed > 1, pairs.inverted)
    for weight in (1.25, 1.55):
        a = gc.gdpo(marks, weights=(weight, 1, 1)).flatten()
        assert torch.equal(needed > weight, a[pairs.lower] > a[pairs.higher])


def test_no_pairs_need_no_weight():
    rewards = [[1, 1], [0, 0]]
    pairs = gc.broken_ties(gc.collapse(rewards, "grpo"), gc.collapse(rewards))
    assert gc.break_even_weights(rewards, pairs).shape == (0,)


def ties_of(lower, higher):
    return gc.BrokenTies(torch.tensor(lower), torch.tensor(higher), torch.zeros(len(lower), dtype=torch.bool))


@pytest.mark.parametrize(
    "argument, pairs, options",
    [
        ("pairs", [(1, 0)], {}),
        ("pairs", ties_of([1], [9]), {}),
        ("pairs", ties_of([1], [0]), {"groups": [0, 1, 0, 1]}),
        ("pairs", ties_of([0], [1]), {}),
        ("pairs", ties_of([1, 0], [0, 2]), {}),
        ("reward", ties_of([1], [0]), {"reward": 2}),
        ("weights", ties_of([1], [0]), {"weights": [1]}),
    ],
    ids=("no ties", "other rewards", "two prompts", "reversed", "equal", "no such reward", "too few weights"),
)
def test_break_even_weights_name_what_they_cannot_use(argument, pairs, options):
    with pytest.raises(gc.InputError, match=rf"^{argument}: expected "):
        gc.break_even_weights([[1, 0], [0, 1], [1, 1], [0, 0]], pairs, **options)


def test_a_missing_reward_adds_nothing_to_either_side():
    rewards = [[1, 0, float("nan")], [0, 1, 1], [1, 1, 0], [0, 0, 1], [1, 0, 1]]
    w = gc.break_even_weight(rewards, lower=1, higher=0)
    for weight, sign in ((w - 0.01, 1), (w + 0.01, -1)):
        a = gc.gdpo(rewards, weights=(weight, 1, 1))
        assert (a[1] - a[0]).sign() == sign


# --- the file --------------------------------------------------------------------------------------------------------


def test_the_verdicts_are_those_of_the_file():
    assert DATA.verdicts.shape == (FRAME["task_id"].n_unique(), FRAME["model"].n_unique(), len(bfcl.GRADERS))
    assert Counter(DATA.categories) == {
        "simple_python": 383,
        "multiple": 193,
        "parallel": 193,
        "parallel_multiple": 194,
    }
    for row in range(0, FRAME.height, 997):
        task, category, model, *_ = FRAME.row(row)
        p, m = DATA.tasks.index(task), DATA.models.index(model)
        assert DATA.categories[p] == category
        assert DATA.verdicts[p, m].tolist() == [int(FRAME[name][row]) for name in bfcl.GRADERS]


@pytest.mark.slow
def test_the_order_of_the_rows_does_not_matter(tmp_path):
    FRAME.sample(fraction=1.0, shuffle=True, seed=1).write_parquet(tmp_path / "shuffled.parquet")
    other = bfcl.load_published(tmp_path / "shuffled.parquet")
    place = [[sorted(names).index(n) for n in names] for names in (DATA.tasks, DATA.models, other.tasks, other.models)]
    ours, theirs = (torch.empty_like(DATA.verdicts) for _ in range(2))
    ours[torch.tensor(place[0])[:, None], torch.tensor(place[1])] = DATA.verdicts
    theirs[torch.tensor(place[2])[:, None], torch.tensor(place[3])] = other.verdicts
    assert torch.equal(ours, theirs)


def at(row, name, value):
    """The file with one cell changed."""
    return lambda: FRAME.with_columns(
        pl.when(pl.int_range(pl.len()) == row).then(pl.lit(value)).otherwise(pl.col(name)).alias(name)
    )


@pytest.mark.parametrize(
    "made, said",
    [
        (lambda: FRAME.drop("style"), "expected a column style, got columns task_id, category"),
        (lambda: FRAME.with_columns(style=pl.lit("yes")), "column style: expected 0 or 1, got values of type String"),
        (lambda: FRAME.with_columns(model=pl.lit(1)), "column model: expected names, got values of type Int32"),
        (at(4, "style", 2), "column style, row 5: expected 0 or 1, got 2"),
        (at(4, "style", 0.5), "column style, row 5: expected 0 or 1, got 0.5"),
        (at(4, "envelope", None), "column envelope, row 5: expected 0 or 1, got None"),
        (at(9, "model", None), "column model, row 10: expected a name, got None"),
        (
            lambda: pl.concat([FRAME, FRAME[7:8]]),
            f"row {FRAME.height + 1}: expected an answer that is not there yet, got {FRAME['model'][7]}'s to "
            f"{FRAME['task_id'][7]} again, as in row 8",
        ),
        (lambda: FRAME[:-1], f"got none of {FRAME['model'][-1]} to {FRAME['task_id'][-1]}"),
        (lambda: FRAME[:0], "expected at least one row, got none"),
        (
            lambda: FRAME.with_columns(pl.col("category").cast(pl.String)).with_columns(
                category=pl.when(pl.int_range(pl.len()) == 3).then(pl.lit("other")).otherwise("category")
            ),
            f"column category: expected one for all rows of {FRAME['task_id'][3]}, got other and simple_python",
        ),
    ],
)
def test_a_file_that_cannot_be_used_is_named_with_its_fault(tmp_path, made, said):
    path = tmp_path / "bad.parquet"
    made().write_parquet(path)
    with pytest.raises(gc.InputError) as error:
        bfcl.load_published(path)
    assert str(error.value).startswith(str(path)) and said in str(error.value)


@pytest.mark.parametrize("content", [None, b"", b"hello", Path(FILE).read_bytes()[:20000]])
def test_what_is_no_parquet_file_is_said_so(tmp_path, content):
    path = tmp_path / "bad.parquet"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(gc.InputError, match="expected a readable Parquet file, got "):
        bfcl.load_published(path)


def test_a_grader_that_there_is_not_is_named():
    with pytest.raises(gc.InputError, match=r"graders: expected names out of .*, got 'brevity'"):
        DATA.rewards(("brevity",))


# --- the draw --------------------------------------------------------------------------------------------------------


def test_a_draw_is_its_own_for_each_prompt_without_replacement_and_repeats():
    torch.manual_seed(0)
    before = torch.get_rng_state()
    drawn = bfcl.draw(DATA, 12, seed=5)
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(drawn, bfcl.draw(DATA, 12, seed=5))
    assert not torch.equal(drawn, bfcl.draw(DATA, 12, seed=6))
    assert drawn.shape == (len(DATA.tasks), 12)
    assert all(len(set(row)) == 12 for row in drawn.tolist())
    assert len(set(map(tuple, drawn.tolist()))) == len(drawn)
    often = drawn.flatten().bincount(minlength=ALL) / len(drawn)
    assert (often - 12 / ALL).abs().max() < 5 * sqrt(12 / ALL * (1 - 12 / ALL) / len(drawn))


def test_a_larger_group_holds_the_smaller_one():
    drawn = [bfcl.draw(DATA, size, seed=1).tolist() for size in (2, 12, 40, ALL)]
    for small, large in pairwise(drawn):
        assert all(set(s) <= set(b) for s, b in zip(small, large, strict=True))


@pytest.mark.parametrize(
    "argument, value",
    [("group_size", v) for v in (0, 1, 72, 2.0, None, True, "12")] + [("seed", v) for v in (-1, 0.5, None)],
)
def test_a_draw_names_what_it_cannot_use(argument, value):
    with pytest.raises(gc.InputError, match=rf"^{argument}: expected a whole number from "):
        bfcl.draw(DATA, **{"group_size": 12, "seed": 0, argument: value})


# --- what the page shows ---------------------------------------------------------------------------------------------


def test_the_heading_counts_prompts():
    found = prompts.tied(DATA, Choice(), prompts.GROUP_SIZE)
    numbers = [int(n) for n in re.findall(r"\d+", prompts.heading(DATA))]
    tied = [found[m].with_ties * found[m].mixed for m in ("grpo", "gdpo")]
    assert numbers == [len(DATA.tasks), *(round(100 * n / len(DATA.tasks)) for n in tied)]
    assert "the heading is for the first draw of 12" in prompts.introduction(DATA)


def test_the_configurations_are_of_fewer_models():
    endings = ("-FC-Any", "-FC-Auto", "-FC")
    stripped = {next((n[: -len(e)] for e in endings if n.endswith(e)), n) for n in DATA.models}
    assert prompts.models(DATA) == len(stripped) == 50
    assert "71 configurations of 50 models, not 71 samples of one policy" in prompts.introduction(DATA)
    for file in ("README.md", "data/README.md"):
        assert "71 configurations of 50 models" in Path(file).read_text(encoding="utf-8")


@pytest.mark.parametrize("size, weight", crossed([2, 12, ALL], [1.0, 1.5]))
def test_every_pair_of_right_and_wrong_is_counted_once(size, weight):
    choice = Choice(seed=1, weight=weight)
    marks = prompts.groups(DATA, choice, size)
    found = broken.pairs_first(DATA, choice, size)
    right = marks[..., 0].sum(1)
    for method in gc.METHODS:
        assert sum(found[method]) == int((right * (size - right)).sum())
        inverted = gc.collapse(marks, method, weights=(weight, 1, 1)).inversions()
        assert found[method][2] / sum(found[method]) == pytest.approx(inverted, abs=1e-12)
    assert found["grpo_no_std"] == found["grpo"]
    html = broken.all_pairs(DATA, choice, size)
    for method in ("grpo", "gdpo"):
        cells = re.search(rf'<tr class="{method}">(.*?)</tr>', html)[1]
        assert [int(n.replace(",", "")) for n in re.findall(r"<td>([\d,]+)<", cells)] == list(found[method])


def test_pairs_first_is_what_a_plain_count_gives():
    counted = {m: [0, 0, 0] for m in ("grpo", "gdpo")}
    for task in DATA.tasks:
        found = scores(group(task, Choice(), 12), 1)
        for wrong in found:
            for right in found:
                if wrong[0] < right[0]:
                    for k, method in enumerate(("grpo", "gdpo"), 1):
                        gap = found[right][k] - found[wrong][k]
                        counted[method][1 if abs(gap) < 1e-9 else 0 if gap > 0 else 2] += (
                            found[wrong][0] * found[right][0]
                        )
    for method, numbers in counted.items():
        assert list(broken.pairs_first(DATA, Choice(), 12)[method]) == numbers


@pytest.mark.slow
@pytest.mark.parametrize("size", [4, 5, 12, 24, ALL])
@pytest.mark.parametrize("graders", [bfcl.REWARDS, ("bfcl_ast_valid", "envelope", "conciseness_lenient")])
def test_no_draw_needs_more_weight_than_the_largest_ratio_of_spreads(size, graders):
    most = broken.most_needed(size)
    spreads = [torch.tensor([1.0] * k + [0.0] * (size - k)).double().std().item() for k in range(1, size)]
    assert most == pytest.approx(max(spreads) / min(spreads))
    for seed in SEEDS:
        found = broken.broken(DATA, Choice(graders, seed), size)
        assert not found.pairs or found.needed <= most + 1e-9
        assert found.grpo_right_first == found.grpo_ties


@given(st.lists(st.tuples(*[st.integers(0, 1)] * 3), min_size=2, max_size=14))
def test_no_group_needs_more_weight_than_the_largest_ratio_of_spreads(rows):
    pairs = gc.broken_ties(gc.collapse(rows, "grpo"), gc.collapse(rows, "gdpo"))
    needed = gc.break_even_weights([rows], pairs).tolist()
    assert max(needed, default=0) <= broken.most_needed(len(rows)) + 1e-9


@pytest.mark.parametrize("size", [2, 3])
def test_with_two_or_three_answers_gdpo_ties_what_grpo_ties(size):
    for weight in (1.0, 2.0):
        choice = Choice(weight=weight)
        assert f"With {size} answers GDPO ties exactly what GRPO ties" in broken.order(DATA, choice, size)
        assert not broken.any_pairs(DATA, choice, size) and broken.weight_table(DATA, choice, size) == ""
    marks = prompts.groups(DATA, Choice(), size)
    assert gc.collapse(marks, "grpo").level.equal(gc.collapse(marks, "gdpo").level)


def test_without_a_tie_broken_the_wrong_way_another_prompt_is_shown_and_why():
    said = text_of(one_prompt.opened(DATA, Choice(), 2, ""))
    assert "no tie is broken the wrong way" in said and "Shown instead: the prompt with the most ties" in said
    task = broken.broken(DATA, Choice(), 2).worst
    a, b = group(task, Choice(), 2)
    assert a[0] != b[0] and sum(a) == sum(b)
    assert "Shown instead" not in one_prompt.opened(DATA, Choice(), 12, "")
    assert "Shown instead" not in one_prompt.opened(DATA, Choice(), 2, task)


def test_the_gdpo_column_says_what_it_is_divided_by():
    z = gc.explain(prompts.groups(DATA, Choice(), 12), "gdpo")
    said = text_of(one_prompt.opened(DATA, Choice(), 12, ""))
    assert f"divides by the spread over all 963 prompts drawn, here {float(z.batch_std):.3f}" in said
    assert "texts of the answers are not in our data" in said


def test_all_answers_leave_nothing_to_draw():
    assert prompts.tied(DATA, Choice(seed=0), ALL) == prompts.tied(DATA, Choice(seed=7), ALL)
    assert "the seed changes nothing" in prompts.ties(DATA, Choice(), ALL)
    assert "the seed changes nothing" not in prompts.ties(DATA, Choice(), 12)


def test_a_method_that_repeats_grpo_has_no_column_and_one_that_does_not_has():
    html = prompts.ties(DATA, Choice(), 12)
    assert 'class="grpo_no_std"' not in html and "GRPO without std ties exactly the same" in html
    row = prompts.tied(DATA, Choice(), 12)
    assert prompts.apart([row]) == ["grpo", "gdpo"]
    assert prompts.apart([row, {**row, "grpo_no_std": row["gdpo"]}]) == ["grpo", "grpo_no_std", "gdpo"]
    assert "GRPO, also without std" in prompts.size_legend(DATA, Choice())


def test_larger_groups_tie_more_under_grpo_and_pairs_less_under_gdpo():
    found = prompts.by_size(DATA, Choice())
    assert min(found) == 2 and max(found) == ALL
    grpo = [row["grpo"].with_ties for row in found.values()]
    assert grpo == sorted(grpo)
    assert found[ALL]["gdpo"].pairs < found[2]["gdpo"].pairs


@pytest.mark.parametrize("size, weight, category", crossed([2, 12, ALL], [1.5, 1.0, 5.0], [None, "parallel"]))
def test_no_setting_shows_a_number_that_is_none(size, category, weight):
    choice = Choice(category=category, weight=weight)
    shown = [
        prompts.ties(DATA, choice, size),
        broken.order(DATA, choice, size),
        broken.weight_table(DATA, choice, size),
        one_prompt.opened(DATA, choice, size, ""),
        one_prompt.opened(DATA, choice, size, "simple_python_0"),
    ]
    assert "nan" not in " ".join(map(text_of, shown)).split() and "None" not in " ".join(shown)
    assert shown[0].count('class="chosen"') == 1


def test_prompts_whose_answers_agree_are_no_division_by_zero():
    some = replace(DATA, verdicts=torch.ones_like(DATA.verdicts))
    assert "nothing to tell apart" in prompts.ties(some, Choice(), 12)
    assert "none" in broken.order(some, Choice(), 12)
    assert "every advantage is 0" in one_prompt.opened(some, Choice(), 12, "")


@pytest.mark.parametrize("size", [12, 40])
def test_the_weight_that_is_said_to_be_enough_is(size):
    found = broken.broken(DATA, Choice(), size)
    marks = prompts.groups(DATA, Choice(), size)
    said = float(re.search(r"From a weight of ([\d.]+) on", text_of(broken.order(DATA, Choice(), size)))[1])
    equal = [gc.collapse(marks, m) for m in ("grpo", "gdpo")]
    pairs = gc.broken_ties(*equal)
    for weight, wrong in ((said, False), (found.needed - 0.005, True)):
        a = gc.gdpo(marks, weights=(weight, 1, 1)).flatten()
        assert bool((a[pairs.lower] > a[pairs.higher] + 1e-12).any()) == wrong
    assert list(found.wrong_first) == sorted(found.wrong_first, reverse=True)
    assert found.grpo_right_first == found.grpo_ties


def test_the_opened_prompt_is_the_one_with_most_pairs_the_wrong_way():
    most = {}
    for task in DATA.tasks:
        found = scores(group(task, Choice(), 12), 1)
        most[task] = sum(
            found[wrong][0] * found[right][0]
            for wrong in found
            for right in found
            if wrong[0] < right[0] and found[wrong][1] == found[right][1] and found[wrong][2] > found[right][2] + 1e-9
        )
    task = broken.broken(DATA, Choice(), 12).worst
    assert most[task] == max(most.values())
    said = text_of(one_prompt.opened(DATA, Choice(), 12, ""))
    assert f"{task} : " in said
    assert re.search(
        rf"Of the {most[task]} pairs .* wrong answer first in all|wrong answer first in {most[task]}", said
    )


@pytest.mark.parametrize("task", ["parallel_multiple_95", "simple_python_100", "parallel_65"])
def test_an_opened_prompt_shows_each_mix_with_its_answers(task):
    html = one_prompt.opened(DATA, Choice(seed=3), 30, task)
    rows = group(task, Choice(seed=3), 30)
    body = html.split("<tbody>")[-1].split("</tbody>")[0]
    assert body.count("<tr>") == len(set(rows))
    assert sum(map(int, re.findall(r"<summary>(\d+)<", body))) == 30
    names = [DATA.models[m] for m in bfcl.draw(DATA, 30, 3)[DATA.tasks.index(task)].tolist()]
    assert all(f"<li>{name}</li>" in body for name in names)
    ties = sum(n for n in Counter(sum(mix) for mix in set(rows)).values() if n > 1)
    assert len(re.findall(r'class="grpo tied"', body)) == ties == len(re.findall(r"grpo tied.{1,40}?= tie", body))
    a = gc.gdpo(prompts.groups(DATA, Choice(seed=3), 30))[DATA.tasks.index(task)]
    shown = [one_prompt.signed(x) for x in sorted({round(x, 9) for x in a.tolist()}, reverse=True)]
    assert list(dict.fromkeys(re.findall(r'<td class="gdpo[^>]*>([^ <]+)', body))) == list(dict.fromkeys(shown))


def test_the_charts_hold_the_numbers_and_say_what_they_are():
    charts = [*prompts.size_charts(DATA, Choice()), *broken.weight_charts(DATA, Choice(), 12)]
    for chart in charts:
        assert chart.description
        assert chart.to_dict()["encoding"]["y"]["scale"]["domain"][0] == 0
    values = pl.read_csv(charts[0].data["values"].encode())
    for size, row in prompts.by_size(DATA, Choice()).items():
        shares = values.filter(size=size).sort("method")["share"].to_list()
        assert shares == pytest.approx([row[m].with_ties for m in ("gdpo", "grpo")], abs=1e-4)
    assert "71" in prompts.size_table(DATA, Choice())


def test_the_page_shows_the_section(default_page):
    outputs, defs = default_page
    html = html_of(outputs)
    assert prompts.heading(DATA) in html
    assert "71 configurations of 50 models" in " ".join(html.split()) and "one policy" in html
    assert prompts.ties(DATA, Choice(), prompts.GROUP_SIZE) in html
    assert broken.order(DATA, Choice(), prompts.GROUP_SIZE) in html
    assert one_prompt.opened(DATA, Choice(), prompts.GROUP_SIZE, "") in html
    assert defs["choice"] == Choice()


def test_a_file_that_cannot_be_used_is_a_sentence_on_the_page(monkeypatch):
    def broken_file(_path):
        raise gc.InputError("data/bfcl_rewards.parquet: column style, row 5: expected 0 or 1, got 2")

    monkeypatch.setattr(prompts, "published", broken_file)
    outputs, _ = app.run()
    html = html_of(outputs)
    assert "column style, row 5: expected 0 or 1, got 2" in html
    assert "Train it" in html and "Traceback" not in html
