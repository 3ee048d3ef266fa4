"""The gate on real answers: what it does to their order, counted pair by pair. The toy stands in test_train.py."""

from itertools import combinations

import pytest
from helpers import text_of

import gdpo_core as gc
from views import gated as gated_view
from views import prompts
from views.prompts import Choice
from views.text import NAMES

DATA = prompts.published("data/bfcl_rewards.parquet")


# --- the real answers ------------------------------------------------------------------------------------------------


def pair_by_pair(choice, group_size, gated):
    """The same counts for GRPO and GDPO from the advantages, pair by pair."""
    graded = prompts.groups(DATA, choice, group_size)
    marks = gated_view.gated_marks(DATA, choice, group_size) if gated else graded
    found = {}
    for method in ("grpo", "gdpo"):
        advantages = gc.advantages(marks.double(), method, weights=choice.weights).tolist()
        counts = dict.fromkeys(("right_first", "tied", "wrong_first", "two_right", "two_wrong"), 0)
        for rows, a in zip(graded.tolist(), advantages, strict=True):
            for i, j in combinations(range(group_size), 2):
                gap = a[i] - a[j]
                if rows[i][0] != rows[j][0]:
                    ahead = gap if rows[i][0] else -gap
                    counts["tied" if abs(gap) < 1e-9 else "right_first" if ahead > 0 else "wrong_first"] += 1
                elif rows[i] != rows[j] and abs(gap) < 1e-9:
                    counts["two_right" if rows[i][0] else "two_wrong"] += 1
        found[method] = counts
    return found


@pytest.mark.parametrize(("choice", "group_size"), [(Choice(), 12), (Choice(seed=3, weight=1.5), 5)])
def test_the_order_of_real_answers_counted_pair_by_pair(choice, group_size):
    for gated, found in zip((False, True), gated_view.sorted_by(DATA, choice, group_size), strict=True):
        for method, counts in pair_by_pair(choice, group_size, gated).items():
            assert {name: getattr(found[method], name) for name in counts} == counts


@pytest.mark.slow
@pytest.mark.parametrize("group_size", [2, 4, 12, 71])
@pytest.mark.parametrize("choice", [Choice(), Choice(("bfcl_ast_valid", "envelope", "conciseness_lenient"), 7)])
def test_behind_the_gate_no_wrong_answer_comes_first_and_none_ties_with_a_right_one(choice, group_size):
    marks = gated_view.gated_marks(DATA, choice, group_size)
    assert not marks[marks[..., 0] == 0].any()
    graded, gated = gated_view.sorted_by(DATA, choice, group_size)
    total, two_right, two_wrong = gated_view.different(DATA, choice, group_size)
    for method in NAMES:
        assert gated[method].right_first == total
        assert gated[method].tied == gated[method].wrong_first == 0
        assert gated[method].two_wrong == two_wrong  # what it costs: they are all alike
        assert gated[method].two_right <= two_right
        assert gated[method].mixes <= graded[method].mixes
        assert gc.collapse(marks, method).inversions(0) == 0
    assert f"comes first in all {total:,} under every method" in text_of(
        gated_view.conditioned(DATA, choice, group_size)
    )


def test_the_published_draw_in_numbers():
    told = text_of(gated_view.conditioned(DATA, Choice(), prompts.GROUP_SIZE))
    assert "of 12,755 pairs of a right and a wrong answer GRPO puts the wrong answer first in 98 and ties 1,378" in told
    assert "GDPO puts the wrong answer first in 714 and ties 382" in told
    assert "comes first in all 12,755 under every method" in told
    assert "Of 1,605 pairs of wrong answers with different marks the gate ties all" in told
    assert "has 2.5 different mixes of marks left of 2.9; GDPO tells 2.5 apart, before the gate 2.8" in told


def test_without_a_right_and_a_wrong_answer_there_is_nothing_to_compare(monkeypatch):
    monkeypatch.setattr(gated_view, "different", lambda *_: (0, 3, 0))
    assert "no order to compare" in gated_view.conditioned(DATA, Choice(), 4)
