"""Reports on transformed logs: every transformation alone, and some pairs. `make metamorphic` tries all."""

from dataclasses import replace

import numpy as np
import pytest
from report_cases import gdpo, grpo, shares

import gdpo_audit as ga
from tests import metamorphic
from tests.metamorphic import CHANGES, FAULTS, cases, known, outcome, rotation
from tests.metamorphic_logs import CLEAN, GROUPS, RAW, SIZE, STEPS, WEIGHTS, Log

PAIRS = 200  # every so many pairs one is tried here
LONG = ("ms_swift", ("all renamed",))  # the search for what its nameless columns add takes ten seconds


def params(some, by_day=()):
    """Return cases as parameters; those that are known to be wrong have to fail. by_day: which cases do not wait for
    the night; empty for all.
    """
    marks = {reason: [pytest.mark.xfail(reason=reason, strict=True)] for reason in metamorphic.KNOWN} | {"": []}
    night = {case: [pytest.mark.night] if by_day and case not in by_day else [] for case in some}
    return [
        pytest.param(case, id=f"{case[0]}: {' + '.join(case[1])}", marks=marks[known(case)] + night[case])
        for case in some
    ]


def by_turns(some):
    """Return of the cases of each transformation two, of trainers that take turns, but not `LONG`."""
    of_names = {}
    for case in some:
        if case != LONG:
            of_names.setdefault(case[1], []).append(case)
    return {cases[(n + k) % len(cases)] for n, cases in enumerate(of_names.values()) for k in (0, len(cases) // 2)}


@pytest.mark.parametrize("trainer", CLEAN)
def test_a_clean_log_is_read_right(trainer):
    log = CLEAN[trainer]()
    report = ga.audit(ga.read_run(log.files))
    assert (report.source["groups"], report.source["responses"]) == (STEPS * GROUPS, STEPS * GROUPS * SIZE)
    assert (report.source["group_size"], report.run["method"]) == (SIZE, log.method)
    assert {name: w for name, w in zip(log.rewards, log.weights, strict=True)} == pytest.approx(
        {name: w / report.run["weights_used"]["correct"] for name, w in report.run["weights_used"].items()}
        if "correct" in log.rewards
        else report.run["weights_used"]
    )
    if {*RAW} == {*log.rewards}:
        r, keys, step = log.frame.select(RAW).to_numpy(), log.frame[log.names["group"]].to_list(), log.frame["step"]
        made = gdpo(r, np.array(WEIGHTS), keys, step.to_list()) if log.method == "gdpo" else None
        made = made or grpo(r, np.array(WEIGHTS), keys, scale=log.method != "grpo_no_std")
        got = [reward["update_share"][log.method or "grpo"] for reward in report.rewards]
        assert got == pytest.approx(list(shares(*made)), abs=1e-3)
        silent = [report.methods[log.method or "grpo"]["silent_groups"]]
        assert silent == pytest.approx([1 / (STEPS * GROUPS)])


@pytest.mark.parametrize("case", params([*cases(1)], by_turns(cases(1))))
def test_a_transformation_changes_no_figure_or_is_told(case):
    came = outcome(case)
    assert came.verdict not in FAULTS, f"{came.verdict}: {came.why}"


@pytest.mark.slow
@pytest.mark.parametrize("case", params([case for case in rotation(0, PAIRS) if not metamorphic.known_alone(case)]))
def test_a_pair_of_transformations_changes_no_figure_or_is_told(case):
    came = outcome(case)
    assert came.verdict not in FAULTS, f"{came.verdict}: {came.why}"


@pytest.mark.parametrize(
    ("trainer", "names", "told"),
    [
        (
            "ms_swift",
            ("restart repeated", "rows shuffled"),
            "repeat the rows of the batch before; these rows count once",
        ),
        ("verifiers", ("prompts mixed", "restart repeated"), "every row that was looked at stands twice"),
    ],
)
def test_rows_that_a_restart_wrote_again_in_another_order_are_told(trainer, names, told):
    assert outcome((trainer, names)).verdict == "told"
    log = metamorphic.transformed(trainer, names)
    assert any(told in note for note in ga.audit(ga.read_run(log.files)).notes)


def test_what_is_known_to_be_wrong_can_be_tried():
    listed = {case for of_reason in metamorphic.KNOWN.values() for case in metamorphic.listed(of_reason)}
    assert listed <= {*cases(1), *cases(2)}


# --- the judge -------------------------------------------------------------------------------------------------------


def judged_after(monkeypatch, make) -> str:
    """Return the verdict on verl's log after a transformation."""
    monkeypatch.setitem(metamorphic.CHANGES, "invented", replace(CHANGES["constant text"], make=make))
    log = metamorphic.transformed("verl", ("invented",))
    return metamorphic.judged(log, ("invented",), log.files).verdict


def without_rewards(log: Log, draw) -> Log:
    """Leave out whatever may be a reward."""
    return log.with_frame(log.frame.drop("score", *log.rewards.values()))


def test_the_judge_finds_a_wrong_figure(monkeypatch):
    assert judged_after(monkeypatch, lambda log, draw: log) == "right"
    assert judged_after(monkeypatch, lambda log, draw: log.with_frame(log.frame.head(-SIZE))) == "WRONG"


def test_the_judge_knows_a_refusal_without_a_way_on(monkeypatch):
    assert judged_after(monkeypatch, without_rewards) == "dead end"


def test_the_judge_calls_an_error_of_ours_a_crash(monkeypatch):
    monkeypatch.setattr(metamorphic.ga, "audit", lambda run: 1 / 0)
    assert judged_after(monkeypatch, lambda log, draw: log) == "crash"
