"""docs/decisions.md: each entry says what failed and what would change it, and the figures that can be had are true."""

import re
from itertools import combinations_with_replacement
from pathlib import Path
from statistics import fmean, stdev

import pytest

import gdpo_core as gc

ROOT = Path(__file__).parent.parent
TEXT = (ROOT / "docs" / "decisions.md").read_text(encoding="utf-8")
ENTRIES = re.findall(r"^## (\d+)\. (.+)\n\n((?:.+\n)+)", TEXT, re.MULTILINE)
ON_ONE_LINE = " ".join(TEXT.split())


def test_every_entry_says_what_was_decided_what_was_tried_and_what_would_change_it():
    assert [int(number) for number, _, _ in ENTRIES] == list(range(1, TEXT.count("\n## ") + 1))
    for _, title, text in ENTRIES:
        said = " ".join(text.split())
        assert re.fullmatch(r"\*Decided:\* .+ \*(?:Tried|Failed|Considered).*:\* .+ \*It would change\* .+\.", said), (
            title
        )


def vectors(rollouts: int, eps: float, digits: int) -> int:
    """Return how many vectors of GRPO's advantages two rewards can make, written with so many digits."""
    made = set()
    for sums in combinations_with_replacement((0, 1, 2), rollouts):
        mean, spread = fmean(sums), stdev(sums)
        made.add(tuple(round((s - mean) / (spread + eps), digits) + 0.0 if spread else 0.0 for s in sums))
    return len(made)


def test_an_eps_makes_ties_seem_to_vanish():
    exact, with_eps = ([vectors(n, *how) for n in range(2, 6)] for how in ((0.0, 9), (1e-4, 4)))
    assert exact == [2, 4, 7, 11] and with_eps == [3, 6, 10, 15]
    assert "GRPO's 2, 4, 7 and 11 distinct" in ON_ONE_LINE and "become 3, 6, 10 and 15" in ON_ONE_LINE
    a = gc.gdpo([[1, 10], [1, 0], [0, 10], [0, 0]], convention=gc.TRL)
    assert f"{100 * float((a[1] - a[2]).abs() / a.abs().max()):.3f} %" == "0.016 %" and "0.016 %" in ON_ONE_LINE


@pytest.mark.parametrize(
    ("method", "scale", "match_scale", "epochs"),
    [
        ("grpo", None, False, {22}),
        ("gdpo", None, False, {13, 14}),
        ("grpo", None, True, {20, 21}),
        ("gdpo", None, True, {20}),
        ("grpo", (1, 3, 10), True, {37, 25, 14}),
        ("gdpo", (1, 3, 10), True, {20}),
    ],
)
def test_coins_take_as_many_epochs_as_told(method, scale, match_scale, epochs):
    run = gc.train(method, [0.5, 0.5, 0.5], scale=scale, match_scale=match_scale, seeds=10)
    assert {*run.steps_to(0.9).median(0).values.tolist()} == epochs
    for told in (
        "GDPO then reaches 0.9 in 13 or 14 epochs and GRPO in 22",
        "20 or 21",
        "37, 25 and 14 epochs, and GDPO 20",
    ):
        assert told in ON_ONE_LINE
