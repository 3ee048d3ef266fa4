"""Section 5 of the page: what it says is what gdpo_core counts, and the two switches do what their labels say."""

import re

import pytest
from helpers import html_of, text_of

import gdpo_core as gc
from views import counts
from views.text import NAMES

METHODS = tuple(NAMES)


def rows(html, part="tbody"):
    return re.findall(r"<tr>.*?</tr>", re.search(f"<{part}>(.*?)</{part}>", html)[1])


@pytest.mark.slow
def test_the_page_shows_the_section_with_its_claim(default_page):
    outputs, defs = default_page
    page = html_of(outputs)
    assert counts.heading() in page
    assert counts.listed() in page
    assert defs["counts_log"].value is False and defs["counts_rounded"].value is False
    assert counts.verdict(False) in page and counts.verdict(True) not in page and counts.trap() not in page
    assert "By default the counts are exact" in " ".join(page.split())


def test_each_control_has_a_label(default_page):
    _, defs = default_page
    assert "Logarithmic axis" in defs["counts_log"].text
    assert "Count rounded numbers instead" in defs["counts_rounded"].text


def test_every_small_group_is_listed_with_the_advantages_of_each_method():
    html = counts.listed()
    groups = gc.enumerate_groups(*counts.LISTED)
    listed = rows(html)
    assert len(listed) == len(groups) == gc.count_groups(*counts.LISTED)
    patterns = ["".join("○●"[mark] for row in group for mark in row) for group in groups.int().tolist()]
    assert sorted("".join(re.findall("[○●]", row)) for row in listed) == sorted(patterns)
    for row in listed:
        group = patterns.index("".join(re.findall("[○●]", row)))
        for method in METHODS:
            cell = re.search(rf'<td class="{method}[^>]*>(.*?)</td>', row)[1]
            drawn = [float(x.replace("−", "-")) for x in re.findall("<span>([^<]+)</span>", cell)]
            expected = gc.group_advantages(groups, method)[group].sort().values.tolist()
            assert drawn == pytest.approx(expected, abs=0.005)


def test_equal_letters_are_equal_advantages_and_their_number_is_the_count():
    html = counts.listed()
    for method in METHODS:
        cells = re.findall(rf'<td class="{method}(?: shared)?"><span>.*?</td>', "".join(rows(html)))
        vectors = [(re.search("<b>(.)</b>", c)[1], tuple(re.findall("<span>([^<]+)", c))) for c in cells]
        assert len(set(vectors)) == len({letter for letter, _ in vectors}) == gc.count_distinct(method, *counts.LISTED)
        foot = re.search(rf'<td class="{method}"><b>(\d+)</b> different', html)[1]
        assert int(foot) == gc.count_distinct(method, *counts.LISTED)


def test_only_what_gdpo_tells_apart_is_hatched():
    html = counts.listed()
    assert len(re.findall('class="grpo shared"', html)) == 5
    assert 'class="grpo_no_std shared"' not in html and 'class="gdpo shared"' not in html


def test_one_prompt_as_the_batch_brings_the_two_back_to_one_number():
    groups = [[[0, 0], [0, 1]], [[0, 0], [1, 1]]]
    assert gc.gdpo(groups[0]).tolist() == pytest.approx(gc.gdpo(groups[1]).tolist())
    one, two = gc.gdpo(groups)[:, 1].tolist()
    assert two == pytest.approx(2 * one)


@pytest.mark.parametrize("rounded", [False, True])
def test_the_tables_hold_every_count_of_the_charts(rounded):
    tables = re.findall("<table.*?</table>", counts.tables(rounded))
    for table, sizes in zip(tables, (counts.BY_ROLLOUTS, counts.BY_REWARDS), strict=True):
        found = [[int(x.replace(",", "")) for x in re.findall(r"<td>([\d,]+)</td>", row)] for row in rows(table)]
        assert found == [[*counts.counted(size, rounded).values(), gc.count_groups(*size)] for size in sizes]
    if not rounded:
        assert counts.counted((9, 2)) == {method: gc.count_distinct(method, 9, 2) for method in METHODS}


@pytest.mark.parametrize("rounded", [False, True])
@pytest.mark.parametrize("log", [False, True])
def test_the_charts_stay_inside_fixed_axes_and_say_their_ends(rounded, log):
    for chart, sizes in zip(counts.charts(rounded, log), (counts.BY_ROLLOUTS, counts.BY_REWARDS), strict=True):
        spec = chart.to_dict()
        y = spec["layer"][1]["encoding"]["y"]
        assert y["scale"].get("type") == ("log" if log else None)
        most = max(max(counts.counted(size, rounded).values()) for size in sizes)
        assert most <= y["scale"]["domain"][1]
        for method, count in counts.counted(sizes[-1], rounded).items():
            assert f"{NAMES[method]} {count}" in spec["description"]
        assert spec["config"]["background"] == "transparent"


def test_floats_seem_to_end_the_collapse_and_the_page_says_why():
    told = text_of(counts.trap())
    assert "The collapse seems to be gone" in told
    assert "3, 6, 10, … instead of 2, 4, 7, …" in told
    assert "0.7070 and 0.7071" in told and "0.707107" in told
    assert "GDPO's 497 at 16 answers turn into 499" in told
    assert "10⁻⁴" in told
    assert "seem to tell apart" in text_of(counts.verdict(True)) and "seem" not in text_of(counts.verdict(False))


def test_the_switch_for_rounded_numbers_adds_its_reason_below_the_charts():
    verdicts = [counts.verdict(rounded).count("<p>") for rounded in (False, True)]
    assert verdicts[0] == verdicts[1], "what is above the charts keeps its lines, so nothing jumps"


def test_the_section_does_not_call_unequal_groups_the_same_to_training(default_page):
    page = " ".join(html_of(default_page[0]).split())
    assert "one and the same" not in page
    assert "upper limit on what a method can pass on" in page
    assert "size of the advantages counts too" in text_of(counts.listed())
    assert "order of the two answers ignored" in text_of(counts.listed())


def test_with_two_or_three_answers_gdpo_adds_nothing():
    assert "with 2 or 3 answers GDPO keeps no more apart" in text_of(counts.listed())


def test_the_lead_of_gdpo_grows_with_both():
    for sizes in (counts.BY_ROLLOUTS, counts.BY_REWARDS):
        lead = [counts.counted(size)["gdpo"] - counts.counted(size)["grpo"] for size in sizes]
        assert lead == sorted(lead)
