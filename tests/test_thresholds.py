"""The thresholds of findings: for each, figures just inside and just outside, given to the function that uses it. No
log is read here: a `Figures` stands for the facts of a run of two rewards.
"""

from types import SimpleNamespace as Holds

import numpy as np
import polars as pl
import pytest
import torch

from gdpo_audit.facts import drifts
from gdpo_audit.facts.drifts import Drift
from gdpo_audit.facts.facts import Facts
from gdpo_audit.findings import (
    findings_log,
    findings_methods,
    findings_primary,
    findings_rewards,
    findings_shares,
)
from gdpo_audit.logs.names import reward_column
from gdpo_audit.phrases import of_groups
from gdpo_audit.report.verdict import caution
from gdpo_audit.sums.figures import Figures as OfSums
from gdpo_audit.sums.group_sums import _reward_sums
from gdpo_audit.sums.grouped import Grouped
from gdpo_audit.sums.over_time import changed_at
from gdpo_audit.sums.relations import relations_of
from gdpo_audit.sums.returning import EarlyAndLate, Returning, gave_up, returning
from gdpo_audit.sums.sentinels import sentinels_of
from gdpo_audit.trials import plan, shares
from gdpo_core.numerics.batch import make_batch

pytestmark = pytest.mark.every_case


class Figures:
    """The figures of a run of the rewards a and b. What is passed by name is what the method of that name returns,
    whatever it is asked; a dict is by method, and a pair is by reward.
    """

    def __init__(self, method="grpo", primary=None, wanted=(1, 1), **figures):
        self.rewards, self.method, self.wanted = ("a", "b"), method, wanted
        self.is_gdpo, self.contradicted, self.recipe, self.relations = method == "gdpo", False, None, ()
        self.unit = 1.0
        self.basis = Holds(weights=(1.0, 1.0), primary=primary, convention="trl")
        self.totals = Holds(
            groups=100, rewards=Holds(dead_groups=np.array([0, 0]), holding_groups=np.array([100, 100]))
        )
        held = {name: x for name, x in figures.items() if isinstance(x, Holds | list)}
        self.__dict__ |= held
        usual = {"push": (0.5, 0.5), "dead": (0.0, 0.0), "faint": (0.0, 0.0), "shares": (0.5, 0.5)}
        usual |= {"share_of_squares": (0.5, 0.5), "due_share": (0.5, 0.5), "coverage": (1.0, 1.0), "mean": (0.0, 0.0)}
        usual |= {"dead_or_missing": (0.0, 0.0), "by_chance": 0.0}
        for name, x in (usual | figures).items():
            if name not in held:
                setattr(self, name, asked(x))


def asked(x):
    def answer(of=None, *_):
        if isinstance(x, dict):
            return x[of]
        return x[of] if isinstance(x, tuple) and isinstance(of, int) else x

    return answer


@pytest.fixture(autouse=True)
def no_lead_in(monkeypatch):
    """Leave out the words on how a run went, which need a whole run."""
    for module in (findings_shares, findings_primary, findings_methods):
        monkeypatch.setattr(module, "lead_in", lambda f: "So")
    monkeypatch.setattr(findings_methods, "but_residue", lambda f: "")


def severities(finding, figures):
    return [made.severity for made in finding(figures)]


# --- shares -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("share", "asks", "far"),
    [
        *[(0.6, 0.3, True), (0.599, 0.2, False)],  # at least 0.6
        *[(0.62, 0.31, True), (0.62, 0.32, False)],  # twice what is asked for
        *[(0.8, 0.59, True), (0.8, 0.61, False)],  # or half of what the others should have is left
        *[(0.97, 0.86, True), (0.97, 0.88, False)],  # and a tenth more
    ],
)
def test_a_reward_dominates(share, asks, far):
    assert findings_shares._far_above(share, asks) == far


@pytest.mark.parametrize(("quiet", "dominant"), [({}, [0]), ({"dead": (0, 0.96)}, []), ({"dead": (0, 0.94)}, [0])])
def test_no_reward_dominates_where_the_other_is_constant_in_nearly_all_groups(quiet, dominant):
    figures = Figures(shares=(0.9, 0.1), share_of_squares=(0.3, 0.7), **quiet)
    assert findings_shares._dominant(figures) == dominant


@pytest.mark.parametrize(("faint", "dominant"), [(0.49, [0]), (0.51, [])])
def test_no_reward_dominates_where_the_other_is_noise(faint, dominant):
    figures = Figures(shares=(0.9, 0.1), share_of_squares=(0.3, 0.7), faint=(0, faint))
    assert findings_shares._dominant(figures) == dominant


@pytest.mark.parametrize(("under_gdpo", "said"), [(0.69, True), (0.71, False)])
def test_scale_is_the_reason_if_gdpo_moves_a_share_by_a_third_of_the_way(under_gdpo, said):
    """The share is 0.9, and 0.3 is asked for: a third of the way is at 0.7."""
    assert bool(findings_shares._why(Figures(), 0, 0.9, under_gdpo, 0.3)) == said


@pytest.mark.parametrize(
    ("share", "due", "late", "extent", "starved"),
    [
        *[(0.099, 0.4, 1.0, 0.0, True), (0.101, 0.4, 1.0, 0.0, False)],  # a quarter of what is due
        *[(0.0, 0.031, 1.0, 0.0, True), (0.0, 0.029, 1.0, 0.0, False)],  # of which it is meant to have a little
        *[(0.3, 0.4, 0.0, 0.51, True), (0.3, 0.4, 0.0, 0.49, False)],  # in half of the run
    ],
)
def test_a_reward_is_starved(monkeypatch, share, due, late, extent, starved):
    end = findings_shares._End(7, extent, late, late, False, "")
    monkeypatch.setattr(findings_shares, "_at_the_end", lambda f, k: end)
    figures = Figures(shares=(share, 1 - share), due_share=(due, 0.0))
    assert [k for k, _ in findings_shares._starved(figures)] == [0] * starved


class Goes(Exception):
    """Say that a function goes on, to sums that are not here."""


@pytest.mark.parametrize("groups", [32, 31])
def test_the_end_of_a_run_is_looked_for_in_pieces_of_sixteen_groups(monkeypatch, groups):
    def cut(batches, pieces):
        assert pieces == 2
        raise Goes

    monkeypatch.setattr(findings_shares, "bin_batches", cut)
    figures = Figures(totals=Holds(groups=groups), batches=Holds(batch=range(20)))
    if groups == 32:
        with pytest.raises(Goes):
            findings_shares._at_the_end(figures, 0)
    else:
        assert "too short" in findings_shares._at_the_end(figures, 0).words


@pytest.mark.parametrize(
    ("figures", "severity"),
    [
        *[({"push": (0.21, 0)}, "info"), ({"push": (0.19, 0)}, "warning")],
        *[({"push": (0, 0), "faint": (0.51, 0)}, "info"), ({"push": (0, 0), "faint": (0.49, 0)}, "warning")],
        ({"push": (0, 0), "faint": (0.51, 0), "method": "gdpo"}, "warning"),
    ],
)
def test_a_starved_reward_that_is_pushed_all_the_same_or_is_noise_needs_no_warning(figures, severity):
    assert findings_shares._severity_of_starved(Figures(**figures), 0) == severity


# --- values of rewards ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("dead", "found"), [(0.951, 1), (0.949, 0)])
def test_a_reward_is_dead_from_nineteen_of_twenty_groups_on(dead, found):
    figures = Figures(dead=(dead, 0))
    figures.totals.rewards.present = np.array([1, 1])
    assert len(severities(findings_rewards.reward_dead, figures)) == found


def quarter(dead, share, holding):
    sums = Holds(rewards=Holds(holding_groups=np.array([holding, 0])))
    return Holds(totals=sums, dead=lambda k: dead, shares=lambda m: (share, 0), mean=lambda k: 1.0)


@pytest.mark.parametrize(
    ("dead", "share", "groups", "batches", "found"),
    [
        *[((0.70, 0.96), (0.5, 0.5), 16, 8, 1), ((0.72, 0.96), (0.5, 0.5), 16, 8, 0)],  # by a quarter of the groups
        *[
            ((0.70, 0.96), (0.5, 0.5), 16, 7, 0),
            ((0.70, 0.96), (0.5, 0.5), 15, 8, 0),
        ],  # with so many batches and groups
        *[((0.2, 0.6), (0.4, 0.099), 16, 8, 1), ((0.2, 0.6), (0.4, 0.101), 16, 8, 0)],  # to a quarter of its share
        *[((0.2, 0.6), (0.101, 0), 16, 8, 1), ((0.2, 0.6), (0.099, 0), 16, 8, 0)],  # which was a tenth of the update
        ((0.69, 0.94), (0.5, 0.5), 16, 8, 0),  # or to nearly all groups
    ],
)
def test_a_reward_fades(monkeypatch, dead, share, groups, batches, found):
    ends = tuple(quarter(d, s, groups) for d, s in zip(dead, share, strict=True))
    monkeypatch.setattr(findings_rewards, "facts_of_quarters", lambda f: [ends, ends])
    figures = Figures(batches=Holds(batch=range(batches)))
    assert len(severities(findings_rewards.reward_fades, figures)) == found


@pytest.mark.parametrize(
    ("faint", "gdpo", "grpo", "found"),
    [
        *[(0.51, 0.3, 0.1, 1), (0.49, 0.3, 0.1, 0)],
        *[(0.6, 0.101, 0.0, 1), (0.6, 0.099, 0.0, 0)],  # a tenth of the update
        *[(0.6, 0.41, 0.2, 1), (0.6, 0.39, 0.2, 0), (0.6, 0.39, -0.2, 0)],  # twice the share under GRPO
    ],
)
def test_gdpo_amplifies_noise(faint, gdpo, grpo, found):
    figures = Figures(faint=(faint, 0), shares={"gdpo": (gdpo, 0.5), "grpo": (grpo, 0.5)})
    assert len(severities(findings_rewards.reward_noise, figures)) == found


@pytest.mark.parametrize(
    ("correlation", "chance", "found"), [(-0.501, 0, 1), (-0.499, 0, 0), (-0.601, 0.6, 1), (-0.599, 0.6, 0)]
)
def test_rewards_conflict_from_a_correlation_of_one_half_on_that_is_beyond_chance(correlation, chance, found):
    figures = Figures(correlation=correlation, by_chance=chance)
    assert len(severities(findings_rewards.conflict, figures)) == found


@pytest.mark.parametrize(("shares", "extent"), [((0.2, 0.8), 0.24), ((0.5, 0.5), 0.6), ((0.9, 0.8), 0.6)])
def test_a_conflict_with_a_reward_of_half_of_the_update_counts_in_full(shares, extent):
    [finding] = findings_rewards.conflict(Figures(correlation=-0.6, shares={"grpo": shares}))
    assert finding.extent == pytest.approx(extent)


@pytest.mark.parametrize(("correlation", "chance", "found"), [(0.301, 0, 1), (-0.299, 0, 0), (0.4, 0.41, 0)])
def test_a_reward_says_length_from_a_correlation_of_three_tenths_on(monkeypatch, correlation, chance, found):
    monkeypatch.setattr(findings_rewards, "lengths_of", lambda f: {"correlations": {"a": correlation, "b": None}})
    figures = Figures(run=Holds(has_length=True), by_chance=chance)
    assert len(severities(findings_rewards.length_coupled, figures)) == found


@pytest.mark.parametrize(("first", "said"), [(1, "longer"), (-1, "shorter"), (0, "longer")])
def test_what_longer_responses_are_taught_depends_on_what_the_run_wants_of_the_reward(monkeypatch, first, said):
    monkeypatch.setattr(findings_rewards, "lengths_of", lambda f: {"correlations": {"a": 0.5}})
    [finding] = findings_rewards.length_coupled(Figures(run=Holds(has_length=True), wanted=(first, 1)))
    assert (
        finding.to_do.endswith(f"favours {said} responses.")
        and "longer responses score higher" in finding.title.lower()
    )


@pytest.mark.parametrize(("groups", "elsewhere", "found"), [(16, 69, 1), (15, 69, 0), (16, 71, 0)])
def test_a_reward_is_dead_in_a_part_of_sixteen_groups_and_clearly_less_elsewhere(groups, elsewhere, found):
    """The reward is constant in all groups of one task, and in so many of the hundred of another: at most 95 − 25."""

    def value(name, holding, dead):
        sums = Holds(holding_groups=np.array([holding] * 2), dead_groups=np.array([dead, 0]))
        return Holds(
            value=name,
            facts=Holds(totals=Holds(rewards=sums, groups=holding), dead=lambda k: dead / holding * (k == 0)),
        )

    by = [value("x", groups, groups), value("y", 100, elsewhere)]
    figures = Figures(by=by, dead=(0.8, 0), run=Holds(by="task"))
    assert len(severities(findings_rewards.reward_dead_in_part, figures)) == found


@pytest.mark.parametrize(("times", "of", "found"), [(5, 100, 1), (4, 100, 0), (15, 100, 1), (16, 100, 0)])
def test_a_sentinel_has_five_responses_and_at_most_three_in_twenty(times, of, found):
    rows = np.tile(np.array([-1.0, 0, 1, 0, -1, 1, 0, 0, 2, -2]), of // 10)
    rows[(np.arange(times) * 7) % of] = -50
    table = pl.DataFrame({"group": np.arange(of) // 10, reward_column("a"): rows})
    assert len(sentinels_of([table], ["a"])) == found


@pytest.mark.parametrize(("values", "found"), [(4, 1), (3, 0)])
def test_a_sentinel_stands_apart_from_three_values_or_more(values, found):
    rows = np.tile(np.arange(10.0) % (values - 1), 10)
    rows[np.arange(5) * 10 + 1] = -50
    table = pl.DataFrame({"group": np.arange(100) // 10, reward_column("a"): rows})
    assert len(sentinels_of([table], ["a"])) == found


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize(("value", "found"), [(-5.0, 1), (-4.5, 0)])
def test_a_sentinel_makes_half_of_the_variance(value, found, sign):
    """Five of 20 groups of the rewards −1, 0, 1, 0 hold the value in place of a 0. Each of the others has the sum of
    squares 2. With −5 the five have 20.75, of which the value makes 14.06; with −4.5 they have 17.19, and it 11.39.
    """
    rows = np.tile([-1.0, 0, 1, 0], 20)
    rows[1:20:4] = value
    table = pl.DataFrame({"group": np.arange(80) // 4, reward_column("a"): sign * rows})
    assert len(sentinels_of([table], ["a"])) == found


@pytest.mark.parametrize(("times", "found"), [(6, 1), (5, 0)])
def test_a_sentinel_near_the_others_is_three_times_as_common_as_its_neighbour(times, found):
    rows = np.tile([0.0, 0, 0, 0.1, 0.1, 0.1, 0.2, 0.2], 20)
    rows[:16:8] = -1  # two neighbours, from which the others reach as far as to the sentinel
    rows[80 : 80 + 8 * times : 8] = -2.1
    table = pl.DataFrame({"group": np.arange(160) // 8, reward_column("a"): rows})
    assert len(sentinels_of([table], ["a"])) == found


def faint(values):
    grouped = Grouped(make_batch(torch.tensor(values, dtype=torch.float64)[None, :, None]), np.array([0]))
    std, distance = grouped.centred(grouped.batch.rewards)
    return _reward_sums(grouped, distance, std).faint_groups.item()


@pytest.mark.parametrize(("part", "found"), [(0.0099, True), (0.0101, False)])
def test_a_reward_is_nearly_constant_up_to_a_hundredth_of_its_largest_value(part, found):
    """The std of values that are evenly spread around 100 from 100 − d to 100 + d is s × d, and the largest 100 + d."""
    even = np.linspace(-1, 1, 9)
    s = even.std(ddof=1)
    assert faint(100 + even * 100 * part / (s - part)) == found


@pytest.mark.parametrize(("ends", "found"), [(4, True), (5, False)])
def test_a_reward_with_a_quarter_of_its_values_at_the_ends_has_few(ends, found):
    """Two of ten values are the lowest and the highest in any case; of the others two may be like them."""
    assert faint([5.0] * (ends - 1) + [5.01] + list(np.linspace(5.001, 5.009, 10 - ends))) == found


# --- means ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("jump", "step"), [(2.1, 5), (1.9, None)])
def test_a_mean_changes_by_four_standard_errors(jump, step):
    """The numbers 0, 1, 0, 1 and then j, j + 1, j, j + 1 have the noise √((6 + (j − 1)²) / 14). The means of the halves
    are j apart, and their error is that noise times √(1/2). So j is four errors where 3 j² + 8 j = 28, which is j = 2.
    """
    assert changed_at(range(1, 9), [0, 1, 0, 1, jump, jump + 1, jump, jump + 1]) == step


@pytest.mark.parametrize(("series", "step"), [([0, 0, 0, 9, 9, 9, 9], 4), ([0, 0, 9, 9, 9, 9, 9], None)])
def test_a_mean_changes_with_three_steps_on_either_side(series, step):
    assert changed_at(range(1, 8), series) == step


@pytest.mark.parametrize(("size", "moves"), [(-0.251, True), (-0.249, False)])
def test_a_mean_moves_by_a_quarter_of_a_standard_deviation(size, moves):
    assert Drift(1, 0, size, True).moves(-1) == moves and not Drift(1, 0, size, False).moves(-1)


@pytest.mark.parametrize(("size", "found"), [(-0.751, ["warning"]), (-0.749, [])])
def test_a_fall_by_three_quarters_of_a_standard_deviation_counts_by_itself(monkeypatch, size, found):
    monkeypatch.setattr(findings_primary, "drifts_of", lambda f: {0: Drift(1, 0, size, True)})
    monkeypatch.setattr(findings_primary, "falling_rewards", lambda f, drifts: [0])
    monkeypatch.setattr(findings_primary, "step_of_fall", lambda f, k: (3, 1.0, 0.0))
    figures = Figures(returning=Holds(get=lambda k: None))
    assert severities(findings_primary.reward_falls, figures) == found


@pytest.mark.parametrize(("wanted", "word"), [(1, "falls"), (-1, "rises against its weight of 1")])
def test_a_mean_falls_or_rises_against_what_the_run_wants(monkeypatch, wanted, word):
    monkeypatch.setattr(findings_primary, "drifts_of", lambda f: {0: Drift(1, 0, -1, True)})
    monkeypatch.setattr(findings_primary, "falling_rewards", lambda f, drifts: [0])
    monkeypatch.setattr(findings_primary, "step_of_fall", lambda f, k: (3, 1.0, 0.0))
    [finding] = findings_primary.reward_falls(Figures(returning=Holds(get=lambda k: None), wanted=(wanted, 1)))
    assert finding.title.startswith(f"The mean of a {word}")


@pytest.mark.parametrize(("prompts", "error", "given_up"), [(5, 0.26, True), (4, 0.26, None), (5, 0.27, None)])
def test_a_policy_gave_a_reward_up_on_five_prompts_by_three_standard_errors(prompts, error, given_up):
    """On the same prompts the mean falls by 0.8, as it does over all."""
    assert gave_up("a", Returning(prompts, 1.0, 0.2, error, "both"), -0.8)[1] is given_up


@pytest.mark.parametrize(("error", "given_up"), [(0.13, False), (0.14, None)])
def test_prompts_became_harder_if_less_than_half_of_a_fall_is_on_the_same_ones(error, given_up):
    assert gave_up("a", Returning(5, 1.0, 1.0, error, "both"), -0.8)[1] is given_up


@pytest.mark.parametrize(("prompts", "when"), [(5, "first"), (4, "second")])
def test_the_first_way_counts_in_which_five_prompts_come_again(prompts, when):
    rows = {"batch": [0] * prompts + [1] * prompts, "_prompt_key": [*range(prompts)] * 2}
    table = pl.DataFrame(rows | {reward_column("a"): np.zeros(2 * prompts)})
    ways = [EarlyAndLate(np.array([0]), np.array([1]), name) for name in ("first", "second")]
    assert returning([table], "a", ways).when == when


def test_chance_is_three_standard_errors_of_the_reward_with_fewer_degrees_of_freedom():
    of_two = Holds(totals=Holds(rewards=Holds(degrees=np.array([900, 100]))))
    assert (OfSums.by_chance(of_two, 0), OfSums.by_chance(of_two, 0, 1)) == pytest.approx((0.1, 0.3))


@pytest.mark.parametrize(("share", "found"), [(0.201, ["info"]), (0.199, []), (0.501, ["warning"]), (0.499, ["info"])])
@pytest.mark.parametrize(("wanted", "less"), [(1, "less"), (-1, "more")])
def test_groups_without_a_right_answer(monkeypatch, share, found, wanted, less):
    monkeypatch.setattr(findings_primary, "_can_be_missed", lambda f, k: True)
    sums = Holds(update_unright=np.array([0, share * 1000]), squares=1000)
    figures = Figures(primary=0, method_sums=sums, wanted=(wanted, 1))
    figures.totals.unright_groups = 40
    made = [*findings_primary.no_right_answer(figures)]
    assert [finding.severity for finding in made] == found
    assert all(f"in which a is 0 or {less} for every response" in finding.message for finding in made)


@pytest.mark.parametrize(("off", "surely"), [(0.9e-9, True), (1.1e-9, False)])
def test_a_reward_with_two_values_and_one_below_0_is_missed_up_to_round_off(off, surely):
    """The values are −1 and 1: where all have one of the two, (mean + 1)(1 − mean) is the variance, here 0.75."""
    sums = Holds(low=[-1.0], high=[1.0], scatter=np.array([7.5 - 10 * 4 * off]), present=np.array([10]))
    figures = Figures(mean=(0.5, 0))
    figures.totals.rewards = sums
    assert findings_primary._can_be_missed(figures, 0) == surely


# --- methods ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ties", "pairs", "left", "found"),
    [
        *[(0.251, 0.1, 0, ["warning"]), (0.249, 0.1, 0, [])],  # a quarter of the groups
        *[(0.5, 0.051, 0, ["warning"]), (0.5, 0.049, 0, ["info"])],  # a twentieth of the pairs
        *[(0.5, 0.2, 0.099, ["warning"]), (0.5, 0.2, 0.101, ["info"])],  # of which GDPO leaves half
    ],
)
def test_ties_hide_signal(ties, pairs, left, found):
    figures = Figures(ties=ties, tied_pairs={"grpo": pairs, "gdpo": left})
    assert severities(findings_methods.ties_hide_signal, figures) == found


@pytest.mark.parametrize(("silent", "found"), [(0.101, ["info"]), (0.099, []), (0.301, ["warning"]), (0.299, ["info"])])
def test_groups_are_silent(silent, found):
    figures = Figures(silent=silent, method_sums=Holds(silent_groups=10))
    figures.totals.mixed_groups = 90
    assert severities(findings_methods.silent_groups, figures) == found


@pytest.mark.parametrize(
    ("inverted", "push", "found"),
    [
        *[(0.051, 0.1, ["info"]), (0.049, 0.1, [])],
        *[(0.101, 0.1, ["warning"]), (0.099, 0.1, ["info"])],
        *[(0.2, 0.249, ["warning"]), (0.2, 0.251, ["info"])],  # half of the largest push, 0.5
    ],
)
@pytest.mark.parametrize(("wanted", "worse", "beyond"), [(1, "lower", "above"), (-1, "higher", "below")])
def test_pairs_in_the_wrong_order(inverted, push, found, wanted, worse, beyond):
    order = Holds(pairs=100, tied=0, right=1, wrong=1)
    pushes = (push * wanted, 0.5)
    figures = Figures(primary=0, inversions=inverted, push=pushes, order={"grpo": order}, wanted=(wanted, 1))
    figures.totals.methods = {m: Holds(break_even=2.0) for m in ("grpo", "gdpo")}
    made = [*findings_methods.priority_inversion(figures)]
    assert [finding.severity for finding in made] == found
    for finding in made:
        assert f"the response that scores {worse} on it" in finding.message
        assert f"With a weight on a {beyond} " in finding.message


@pytest.mark.parametrize(("weight", "usable"), [(100, True), (101, False)])
def test_a_weight_of_a_hundred_times_the_largest_other_one_is_usable(weight, usable):
    said = findings_methods._break_even_in_words(Figures(), 0, {"grpo": weight})
    assert said.startswith("With a weight") == usable


@pytest.mark.parametrize(("square", "found"), [(2.26, 1), (2.24, 0)])
def test_silent_groups_amplify_the_others_from_one_and_a_half_times_on(square, found):
    batches = Holds(live_responses=np.array([8]), methods={"grpo_batch_std": Holds(squares=np.array([8 * square]))})
    figures = Figures(method="grpo_batch_std", batches=batches)
    figures.totals.live_responses = figures.totals.responses = 8
    assert len([*findings_methods.batch_step_amplifies(figures)]) == found


@pytest.mark.parametrize(("dead", "found"), [(0.601, 1), (0.599, 0)])
def test_a_metric_is_blind_to_half_of_the_groups(dead, found):
    """In a tenth of the groups the sum is constant, which the metric shows."""
    figures = Figures(dead=(dead, 0), framework=Holds(zero_std_metric="m", zero_std_over_batch=False, title="T"))
    figures.totals.constant_sums = 10
    assert len([*findings_methods.blind_zero_std_metric(figures)]) == found


@pytest.mark.parametrize(("groups", "found"), [(10, 1), (9, 0)])
def test_a_filter_drops_a_tenth_of_the_groups(groups, found):
    figures = Figures(method="gdpo", framework=Holds(filter_option="o", lines=Holds(keep_groups=None)))
    figures.totals.filtered_groups = groups
    assert len([*findings_methods.filter_drops_signal(figures)]) == found


# --- the log ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("gaps", "every"), [([3] * 8 + [4, 5], True), ([3] * 7 + [4, 5, 6], False)])
def test_a_log_holds_every_third_step_if_eight_gaps_of_ten_are_equal(gaps, every):
    framework = Holds(title="T", logs_last_batch=False, lines=Holds(log_every_step=None))
    steps = [*map(int, np.cumsum([1, *gaps]))]
    [finding] = findings_log.steps_missing(
        Holds(steps=steps, run=Holds(window=None), undecided=(0, 0), framework=framework)
    )
    assert ("every third" in finding.title or "every 3" in finding.title) == every


@pytest.mark.parametrize(("mixed", "severity"), [(6, "error"), (5, "warning")])
def test_groups_that_mix_prompts_are_an_error_from_a_twentieth_on(mixed, severity):
    visits = pl.DataFrame({"batch": np.zeros(100, int), "mixed": np.arange(100) < mixed})
    run = Holds(grouped_by_column=False, grouped_by="blocks", issues=(), framework="trl")
    batches = Holds(batch=np.array([0]), logged=Holds(wrong=np.array([0])))
    f = Holds(summary=Holds(visits=visits), run=run, batches=batches, reproduced=None, recipe=None)
    assert severities(findings_log.groups_mix_prompts, f) == [severity]


@pytest.mark.parametrize(("missing", "severity"), [(0.101, "warning"), (0.099, "info")])
def test_what_is_missing_of_a_total_is_much_from_a_tenth_on(missing, severity):
    f = Holds(weights_from="assumed")
    assert findings_log._nearly_a_sum(f, "total", {"missing": missing, "weights": {"a": 1}}).severity == severity


@pytest.mark.parametrize(("scaled", "lacks"), [(5, True), (4, False)])
def test_rows_are_missing_where_half_of_the_groups_are_off_by_a_factor(scaled, lacks):
    logged = Holds(wrong=np.array([0, 8]), scaled_groups=np.array([0, scaled]), wrong_groups=np.array([0, 10]))
    f = Holds(
        batches=Holds(logged=logged, responses=np.array([64, 32])), recipe=Holds(method="gdpo"), lacks_a_reward=False
    )
    assert Facts.lack_rows.func(f).tolist() == [False, lacks]


@pytest.mark.parametrize(("hidden", "lacks"), [(6, True), (5, False)])
def test_a_reward_is_missing_where_more_than_a_twentieth_of_the_groups_differ_at_equal_rewards(hidden, lacks):
    totals = Holds(logged=Holds(wrong_groups=100, hidden_groups=hidden))
    f = Holds(
        reproduced=False,
        framework=Holds(column_per_function=True),
        run=Holds(total_only=False),
        recipe=None,
        totals=totals,
    )
    assert Facts.lacks_a_reward.fget(f) == lacks


@pytest.mark.parametrize(("groups", "few"), [(29, True), (30, False)])
def test_below_thirty_groups_a_log_is_short(monkeypatch, groups, few):
    monkeypatch.setattr("gdpo_audit.report.verdict.incomplete_groups", lambda f: None)
    assert ("too short" in caution(Holds(totals=Holds(groups=groups, responses=8 * groups)))) == few
    assert ("of" in of_groups(1 / groups, groups)) == few


@pytest.mark.parametrize(
    ("varying", "degrees", "unexplained", "found"),
    [(4, 7, 0, 1), (3, 7, 0, 0), (4, 6, 0, 0), (4, 7, 0.9e-11, 1), (4, 7, 1.2e-11, 0)],
)
def test_a_reward_follows_from_another(varying, degrees, unexplained, found):
    """The second of two rewards is twice the first, but for a part of its variance. 7 is more than 3 times 2."""
    square = np.array([[1.0, 1.0], [4.0, 4.0]])
    products = np.array([[1.0, 2.0], [2.0, 4.0]])
    products[0, 1] = products[1, 0] = 2 * np.sqrt(1 - unexplained)
    sums = Holds(products=products, squared=square, dead_groups=np.array([10 - varying] * 2))
    sums.degrees, sums.present = np.array([degrees] * 2), np.array([9, 9])
    relations = [*relations_of(["a", "b"], Holds(rewards=sums, groups=10))]
    assert relations == [("b", {"a": pytest.approx(2)})] * found


@pytest.mark.parametrize(("gap", "known"), [(8, True), (7, False)])
def test_a_run_shows_how_means_move_from_eight_batches_on(monkeypatch, gap, known):
    """The quarters have sixteen groups, and a mean that moves by four of its errors."""
    ends = [Holds(totals=Holds(rewards=Holds(holding_groups=np.array([16, 0]))), mean=lambda k, x=x: x) for x in (0, 1)]
    monkeypatch.setattr(drifts, "facts_of_quarters", lambda f: [ends, ends])
    monkeypatch.setattr(drifts, "_squared_error", lambda f, k: 1 / 32)
    figures = Figures(batches=Holds(batch=np.arange(gap), step=np.arange(gap)))
    figures.totals.rewards = Holds(scatter=np.array([99.0, 0]), present=np.array([100, 100]))
    assert drifts.drifts_of(figures) == ({0: Drift(0, 1, 1.0, True)} if known else {})


@pytest.mark.parametrize(("groups", "squared", "beyond"), [(16, 0.055, True), (16, 0.056, False), (15, 0.01, None)])
def test_a_mean_drifts_by_three_standard_errors_in_sixteen_groups(monkeypatch, groups, squared, beyond):
    """The mean moves by 1, which is 3 √(2 × 1/18)."""
    held = Holds(rewards=Holds(holding_groups=np.array([groups, 0])))
    ends = [Holds(totals=held, mean=lambda k, x=x: x) for x in (0, 1)]
    monkeypatch.setattr(drifts, "facts_of_quarters", lambda f: [ends, ends])
    monkeypatch.setattr(drifts, "_squared_error", lambda f, k: squared)
    figures = Figures(batches=Holds(batch=np.arange(8), step=np.arange(8)))
    figures.totals.rewards = Holds(scatter=np.array([99.0, 0]), present=np.array([100, 100]))
    found = drifts.drifts_of(figures)
    assert (found[0].beyond_chance if found else None) is beyond


# --- settings that are tried ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("off", "tried"), [(0.049, 4), (0.051, 2)])
def test_weights_are_tried_under_which_the_shares_miss_what_is_asked_for_by_a_twentieth_at_most(
    monkeypatch, off, tried
):
    """The run's own setting and the other method with its weights are tried in any case."""
    monkeypatch.setattr(plan, "_tried", lambda *_: (Holds(off=off), None))
    monkeypatch.setattr(plan, "weights_for", lambda *_: (1.0, 0.5))
    monkeypatch.setattr(plan, "_asked", lambda trials: {})
    facts = Figures(trainers_own=False, intended_method=None, printed=[1.0, 0.5])
    facts.printed = list
    assert len([*plan._settings(Holds(facts=facts))]) == tried


@pytest.mark.parametrize(("second", "tried"), [(0.89, True), (0.91, False)])
def test_weights_differ_from_a_tenth_of_the_largest_on(second, tried):
    assert plan._differ((2.0, 2 * second), (1.0, 1.0)) == tried


def test_a_reward_of_which_no_share_is_wanted_keeps_its_weight(monkeypatch):
    """The second reward varies twice as much as the first, so half its weight makes the shares equal."""
    monkeypatch.setattr(shares, "_products", lambda *_: (np.diag([1.0, 4.0, 9.0])[None], None))
    trials = Holds(facts=Holds(basis=Holds(weights=(1.0, 1.0, 3.0))))
    assert shares.weights_for(trials, "grpo_no_std", {0: 0.5, 1: 0.5}) == (1.0, 0.5, 3.0)
