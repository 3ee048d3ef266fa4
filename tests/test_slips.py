"""Slips by hand that had passed the quick tests: an end of a list, a sign of a word, the second of two files."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest
import torch
from helpers import close

import gdpo_audit as ga
import gdpo_core as gc
from gdpo_audit.advice import advice
from gdpo_audit.command.watch import changed_files
from gdpo_audit.logs.columns import constants
from gdpo_audit.logs.forms.standard_rows import is_ordered
from gdpo_audit.logs.names import reward_columns
from gdpo_audit.logs.numbers.sizes import drawn_at_random
from gdpo_audit.recipe import changes
from gdpo_audit.recipe.guesses import FITTED, is_plausible
from gdpo_audit.recipe.recipe import Recipe, Tensors
from gdpo_audit.recipe.terms import terms_of
from gdpo_audit.recipe.weights import solution_of
from gdpo_audit.sums.summarise import sums_of_all
from gdpo_audit.sums.sums import Basis
from gdpo_audit.unexplained import shown
from gdpo_audit.unexplained.residual import residual
from gdpo_core.frameworks import ALL_CONVENTIONS
from gdpo_core.registry import method_for

pytestmark = pytest.mark.every_case


# --- logs -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("files", "more"), [(2, "and 1 more"), (3, "and 2 more")])
def test_several_files_are_the_first_and_so_many_more(tmp_path, files, more):
    paths = [tmp_path / f"{n}.csv" for n in range(files)]
    for n, path in enumerate(paths):
        path.write_text(f"step,prompt,right\n{n},q,1\n{n},q,0\n")
    assert ga.read_run(paths).path.endswith(f"0.csv {more}")


@pytest.mark.parametrize(("titles", "read"), [(5, True), (6, False)])
def test_up_to_five_lines_of_titles_stand_before_the_header_of_a_csv(titles, read):
    rows = "".join(f"{n // 2},q{n // 2},{n % 2}\n" for n in range(8))
    log = {"a.csv": ("A title\n" * titles + "step,prompt,right\n" + rows).encode()}
    if read:
        assert ga.read_run(log).rewards == ("right",)
    else:
        with pytest.raises(gc.InputError):
            ga.read_run(log)


@pytest.mark.parametrize(("sizes", "random"), [([1, 3, 3, 4, 4], False), ([1, 1, 3, 4, 4], True)])
def test_of_few_groups_two_have_to_have_one_row_before_they_count_as_a_sample(sizes, random):
    assert drawn_at_random(np.array(sizes)) == random


def test_files_in_their_order_are_ordered_however_many_there_are():
    frame = pl.DataFrame({"_file": np.arange(60).repeat(2), "step": np.arange(120) // 3})
    assert is_ordered(iter([frame])) is False  # a step of two files
    assert is_ordered(iter([frame.with_columns(step=pl.col("_file"))])) is True


@pytest.mark.parametrize(
    ("values", "constant"), [([1.0, 1.0], True), ([1.0, None, 1.0], False), ([1.0, 2.0], False), ([None, None], True)]
)
def test_a_constant_column_has_its_value_in_all_rows_or_none(values, constant):
    assert constants._is_constant(pl.Series(values, dtype=pl.Float64)) == constant


def test_the_log_beside_a_database_is_a_change_of_it(tmp_path):
    database, beside = tmp_path / "a.db", tmp_path / "a.db-wal"
    database.write_bytes(b"1")
    before = changed_files(f"{database}::run")
    beside.write_bytes(b"22")
    after = changed_files(f"{database}::run")
    assert {*before} == {str(database)} and {*after} == {str(database), str(beside)} and after[str(beside)][0] == 2


# --- weights ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("equations", "plausible"), [(1, True), (0, False)])
def test_fitted_weights_need_an_equation_more_than_they_have_unknowns(equations, plausible):
    terms = SimpleNamespace(x=torch.tensor([[1.0, -1.0], [0.5, 2.0]], dtype=torch.float64), included=torch.ones(2))
    assert is_plausible(((0.37, 0.91), FITTED), (), terms, 1e-6, equations) == plausible


def test_of_two_factors_that_keep_one_weight_each_the_one_nearer_to_1_is_taken(monkeypatch):
    monkeypatch.setattr(changes, "_reproduces", lambda recipe, log: True)
    monkeypatch.setattr(changes, "tensors_of", lambda table, rewards: None)
    old, new = (Recipe("grpo", "trl", weights, (), True) for weights in ((1.0, 0.5), (2.0, 3.0)))
    assert changes._scaled_to(old, new, [pl.DataFrame()], ["a", "b"]).weights == (1.0, 1.5)  # times 1/2, not 1/6


def test_the_weights_that_a_report_prints_change_nothing_in_a_what_if():
    rng = np.random.default_rng(2)
    r = rng.random((6, 8, 6, 2)).round(2)
    sums = r @ np.array([3.0, 1.5])
    a = (sums - sums.mean(2, keepdims=True)) / sums.std(2, ddof=1, keepdims=True)
    step, group = np.indices(r.shape[:3])[:2].reshape(2, -1)
    columns = {"step": step, "group": group, "a": r[..., 0].ravel(), "b": r[..., 1].ravel(), "advantage": a.ravel()}
    report = ga.audit(ga.read_run(pl.DataFrame(columns), framework="generic"), primary="a")
    assert report.run["weights"] == pytest.approx({"a": 2, "b": 1}) and report.run["weights_up_to_scale"]
    same = report.what_if(weights=report.run["weights"])
    assert same.after["update_share"] == pytest.approx(same.before["update_share"])
    half = report.what_if(weights={"b": 0.5})
    assert half.after["weights"] == pytest.approx({"a": 2, "b": 0.5})


@pytest.mark.parametrize(("whole_steps", "remark"), [(0, "40"), (2, "40")])
def test_the_rows_of_a_batch_step_may_be_those_of_the_log_in_some_steps(whole_steps, remark):
    """GDPO's step ran over 40 responses, of which the log lacks the silent group in all steps but the first ones."""
    rng = np.random.default_rng(8)
    r = rng.random((8, 10, 4, 2)).round(2)
    r[:, 0] = 0.5
    std = r.std(2, ddof=1, keepdims=True)
    z = (r - r.mean(2, keepdims=True)) / np.where(std > 0, std, 1)
    s = z @ np.array([1, 0.5])
    a = (s - s.mean((1, 2), keepdims=True)) / s.std((1, 2), ddof=1, keepdims=True)
    step, group = np.indices(r.shape[:3])[:2].reshape(2, -1)
    logged = (step < whole_steps) | (group > 0)
    columns = {"step": step, "group": group, "a": r[..., 0].ravel(), "b": r[..., 1].ravel(), "advantage": a.ravel()}
    report = ga.audit(ga.read_run(pl.DataFrame(columns).filter(pl.Series(logged))))
    assert any(f"whose batch step ran over {remark} responses a batch" in said for said in report.run["remarks"])


def test_the_limit_of_a_z_score_is_said_for_the_largest_group():
    """No z-score of four responses is above 1.5, and none of nine is above 2.67."""
    group = np.repeat([0, 1, 2], [4, 9, 4])
    a = np.tile([1.0, -1.0], 9)[:17]
    a[4] = 3.1
    title, sentence = shown._beyond(a, group)
    assert title == "1 logged advantage is beyond the largest possible z-score"
    assert "(2.67 in the largest group, if the std divides by n − 1)" in sentence


def with_small(spread: float, alike: bool = False) -> ga.AuditReport:
    """Return the report on a log of GRPO without std whose third reward varies by so much. The weights are 1, 2, 1.

    alike: whether the third reward is constant inside groups.
    """
    r = np.random.default_rng(3).random((20, 6, 8, 3)).round(2) * np.array([1, 5, spread])
    r[..., 2] = r[:, :, :1, 2] if alike else r[..., 2]
    a = (r - r.mean(2, keepdims=True)) @ np.array([1.0, 2.0, 1.0])
    step, group = np.indices(r.shape[:3])[:2].reshape(2, -1)
    columns = {"step": step, "group": group} | {name: r[..., k].ravel() for k, name in enumerate("abc")}
    table = pl.DataFrame(columns | {"advantage": a.ravel().astype(np.float32)})
    return ga.audit(ga.read_run(table, rewards=[*"abc"] if alike else None), primary="a")


def test_a_weight_that_the_log_does_not_show_is_named_in_the_claim_the_hint_and_the_lines():
    report = with_small(1e-8)
    (weights,) = (claim for claim in report.reading if claim.what == "weights")
    assert report.run["weights"] == {"a": pytest.approx(1), "b": pytest.approx(2), "c": None}
    assert (weights.evidence, weights.otherwise) == ("assumed", "--weight c=W")
    assert weights.because == "the log does not show how c weighs"
    (rewards,) = (claim for claim in report.reading if claim.what == "rewards")
    assert rewards.because == "the logged advantages do not show whether c counts"
    said = "# the log does not show the weight of c\n"
    own, others = report.plan[0].setting.weights, [row.setting.weights for row in report.plan if row.lines]
    assert [said in row.lines for row in report.plan if row.lines] == [weights == own for weights in others]
    assert own in others and any(weights != own for weights in others)
    constant = with_small(1.0, alike=True)
    assert constant.run["weights"]["c"] is None and said not in constant.plan[0].lines
    known = with_small(1.0)
    assert known.run["weights"]["c"] == pytest.approx(1)
    assert not any("does not show the weight" in row.lines for row in known.plan if row.lines)


SOLVED = [(method, "paper") for method in ("grpo", "grpo_no_std", "gdpo", "grpo_batch_std", "reinforce_pp", "mo_grpo")]


@pytest.mark.parametrize(("method", "convention"), [*SOLVED, ("gdpo", "verl")])
def test_the_direction_of_the_weights_is_solved_from_all_batches(method, convention):
    """Under verl's convention a batch step weighs each response by its length, so that its mean has to be taken off."""
    rng = np.random.default_rng(6)
    r, weights = torch.tensor(rng.random((12, 8, 3))), torch.tensor([2.0, -1.0, 0.5], dtype=torch.float64)
    lengths, batch = torch.tensor(rng.integers(1, 900, (12, 8))), torch.arange(12) // 4
    log = Tensors(r, None, batch, lengths, torch.zeros(96, dtype=torch.float64))
    formula, made = method_for(method, log.read(ALL_CONVENTIONS[convention], weights.tolist()))
    log = replace(log, advantages=formula.advantages(made).flatten())
    terms = terms_of(log, log.read(ALL_CONVENTIONS[convention]), method)
    solution = solution_of(terms, 3)
    assert solution.batches.all() and solution.is_direction
    close(solution.directions[:, 0], weights / 2, 1e-6)
    assert not solution_of(terms, 3, fewest=3.5).is_direction


def test_weights_that_an_estimator_shows_have_no_round_off_which_would_break_ties():
    """Weights 1 : 2 : 5 tie the answers (2/3, 4/3, 0) and (0, 0, 2/3), whatever the last digits of a solution are."""
    rng = np.random.default_rng(5)
    r = rng.integers(0, 4, (60, 6, 3)) / 3
    s = r @ np.array([1, 2, 5]) * rng.uniform(0.5, 2, (60, 1))
    group = np.arange(60).repeat(6)
    columns = dict(zip(reward_columns(["a", "b", "c"]), r.reshape(-1, 3).T, strict=True))
    log = pl.DataFrame({"batch": group // 6, "step": group // 6, "group": group} | columns)
    found = residual([log.with_columns(advantage=(s - s.mean(1, keepdims=True)).ravel())], ["a", "b", "c"])
    assert found.pattern == "a factor for each group" and found.weights == (0.2, 0.4, 1.0)


def test_sums_stand_in_the_order_of_the_steps():
    ids = {"batch": [0, 0, 1, 1], "step": [5, 5, 3, 3], "group": [0, 0, 1, 1]}
    table = pl.DataFrame(ids | {"reward:a": [1.0, 0, 1, 1]})
    sums = sums_of_all([table], Basis(("a",), (1.0,), "trl", None, None))
    assert (sums.step.tolist(), sums.batch.tolist()) == ([3, 5], [1, 0])


# --- what is said, and what is 0 --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("wanted", "low", "high", "does"), [(1, -0.3, -0.1, "fall"), (-1, 0.1, 0.3, "rise")])
def test_a_forecast_of_what_is_not_wanted_says_where_the_mean_goes(monkeypatch, wanted, low, high, does):
    forecast = {"difference": (low + high) / 2, "low": low, "high": high}
    monkeypatch.setattr(advice, "_forecast", lambda report, change: forecast)
    monkeypatch.setattr(advice, "change_in_words", lambda forecast: "changed")
    change = SimpleNamespace(sign=1, wanted=wanted, name="length", method="grpo")
    effect, _, headline = advice._with_forecast(None, change)
    assert (effect, headline) == ("hurts", f"**Not as it stands:** length is forecast to {does}.")


def test_sums_that_differ_by_round_off_alone_have_no_advantage_over_a_whole_batch():
    rewards = torch.tensor([[[0.1, 0.2], [0.3, 0.0]]] * 3, dtype=torch.float64)
    assert (rewards.sum(-1) != rewards.sum(-1).flip(1)).any()
    for method in ("reinforce_pp", "reinforce_pp_baseline"):
        assert not gc.advantages(rewards, method, convention=gc.PAPER).any(), method
