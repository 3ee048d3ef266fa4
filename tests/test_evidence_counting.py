"""The exact counts in the chapter Evidence: the numbers that it names are those that gdpo_core counts."""

import re

import pytest
from helpers import text_of

import gdpo_core as gc
from views.chapters.evidence import exact_counts as counts
from views.chapters.evidence.exact_counts import COMPARED_NAMES

COUNTED_METHODS = tuple(COMPARED_NAMES)


def rows(html, part="tbody"):
    return re.findall(r"<tr>.*?</tr>", re.search(f"<{part}>(.*?)</{part}>", html)[1])


@pytest.mark.slow
def test_the_part_claims_the_counts_beyond_where_the_paper_ends():
    told = text_of(counts.section())
    assert (
        "4 answers with 8 marks each form 183,181,376 different groups; GRPO gives them only 119 "
        "different sets of advantages, GDPO 2,929" in counts.title()
    )
    assert "GRPO tells 121 of them, GRPO without std 136 and GDPO 497 apart" in told
    assert "183,181,376" in told and "does not put pairs in the right order" in told


def test_the_tables_hold_every_count_of_the_charts():
    tables = re.findall("<table.*?</table>", counts.tables())
    for table, sizes in zip(tables, (counts.BY_REWARDS, counts.BY_ROLLOUTS), strict=True):
        found = [[int(x.replace(",", "")) for x in re.findall(r"<td>([\d,]+)</td>", row)] for row in rows(table)]
        assert found == [[*counts.count_told_apart(size).values(), gc.count_groups(*size)] for size in sizes]
    assert counts.count_told_apart((9, 2)) == {method: gc.count_distinct(method, 9, 2) for method in COUNTED_METHODS}
