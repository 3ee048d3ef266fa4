"""Settings that are tried on the whole run, compared with each batch by itself and with numbers by hand."""

import json
import pickle
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import fake_logs
import numpy as np
import pytest
from helpers import nearly
from logs import audit_cli as run

import gdpo_audit as ga
import gdpo_core as gc
from gdpo_audit.report import document, what_if
from gdpo_audit.trials.what_if import FIGURES, TRIED_METHODS
from gdpo_core.shared.parsing import parse_setting

ROOT = Path(__file__).parent.parent
TRL, SWIFT, TOTAL = (str(ROOT / "data/samples" / name) for name in ("trl_gdpo", "ms_swift", "verl_v1"))
BRIEF = ("brief", lambda draw, groups, size: draw.integers(0, 3, (groups, size)))
BINARY = (fake_logs.ACCURACY, fake_logs.FORMAT, BRIEF)


# --- compared with each batch by itself, and with numbers by hand -----------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("method", TRIED_METHODS)
def test_every_method_is_computed_batch_by_batch(tmp_path, method):
    steps = fake_logs.write_trl(tmp_path, steps=10, groups=6, rewards=BINARY, method="grpo", seed=3)
    names, weights = [name for name, _ in BINARY], (1.0, 0.5, 0.25)
    after = (
        ga.audit(ga.read_run(tmp_path), primary=names[0]).what_if(method, dict(zip(names, weights, strict=True))).after
    )
    batches, options = [step.rewards for step in steps], {"weights": weights, "convention": gc.TRL}
    each = [gc.collapse(batch, method, **options) for batch in batches]
    squares = [gc.advantages(batch, method, **options).square().sum().item() for batch in batches]
    differ = [sum((x != y).any() for group in batch for x, y in combinations(group, 2)) for batch in batches]
    shares = np.average([c.update_share for c in each], axis=0, weights=squares)
    assert list(after["update_share"].values()) == pytest.approx(shares.tolist(), abs=1e-9)
    orders = [c.order(0) for c in each]
    assert {name: after[name] for name in FIGURES} == {
        "groups_with_ties": pytest.approx(
            np.average([c.groups_with_ties for c in each], weights=[c.mixed_groups for c in each])
        ),
        "tied_pairs": pytest.approx(sum(c.tied_pair_count for c in each) / sum(differ)),
        "silent_groups": pytest.approx(np.mean([c.silent_groups for c in each])),
        "inversions": pytest.approx(sum(o.wrong for o in orders) / sum(o.pairs for o in orders)),
    }


def test_by_hand():
    """There are two groups of four: all combinations of two rewards, and four equal responses."""
    groups = [(1, 1), (1, 0), (0, 1), (0, 0)], [(1, 1)] * 4
    rows = [{"prompt": g, "a": float(a), "b": float(b)} for g, pairs in enumerate(groups) for a, b in pairs]
    report = ga.audit(ga.read_run(rows, group="prompt"), primary="a")
    found = report.what_if(weights={"b": 2})
    # The sums are 2, 1, 1, 0, and one of six pairs is tied. The sums 3, 1, 2, 0 have no tie, and of the four pairs that
    # differ in a one is in the wrong order. The rewards are uncorrelated, so shares go by the squares of the weights.
    setting = {"method": "grpo", "convention": "paper", "silent_groups": 0.5}
    had = {"weights": {"a": 1, "b": 1}, "update_share": {"a": 0.5, "b": 0.5}, "groups_with_ties": 1.0}
    # Two responses are above the mean of each reward; the one that has this reward alone gets an advantage of 0 or
    # less.
    had |= {"push": {"a": 0.5**0.5, "b": 0.5**0.5}, "punished": {"a": 0.5, "b": 0.5}}
    would = {"weights": {"a": 1, "b": 2}, "update_share": {"a": 0.2, "b": 0.8}, "groups_with_ties": 0.0}
    would |= {"push": {"a": 0.2**0.5, "b": 0.8**0.5}, "punished": {"a": 0.5, "b": 0.0}}
    assert found.before == nearly({**setting, **had, "tied_pairs": 1 / 6, "inversions": 0.0})
    assert found.after == nearly({**setting, **would, "tied_pairs": 0.0, "inversions": 0.25})
    assert found.fix == "gdpo_core.grpo(rewards, weights=[1.0, 2.0])  # a, b"
    assert found.notes == (
        "The numbers under “had” are those of the run as it was, under GRPO (taken as the default, because the log "
        "does not show which method ran), with weights that were assumed.",
    )
    table = found.table()
    assert table.columns == ["figure", "reward", "before", "after"] and len(table) == 12
    assert table.row(1) == ("weights", "b", 1.0, 2.0) and table.rows()[-1] == ("inversions", None, 0.0, 0.25)


# --- the notes on conventions and weights -----------------------------------------------------------------------------


def test_a_convention_that_counts_tokens_says_where_the_log_has_none(tmp_path):
    fake_logs.write_verl(tmp_path)
    report = ga.audit(ga.read_run(tmp_path))
    said = (
        "verl weights GDPO’s batch step by tokens; here the step runs over responses, because the log has no lengths."
    )
    assert said in report.what_if("gdpo").notes and said not in report.what_if("grpo").notes
    assert "weights that were worked out from the logged score" in report.what_if("grpo").notes[0]


# --- bad input --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ({}, r"what_if: expected one or more of method, weights, convention, got \{\}"),
        ({"method": "ppo"}, "what_if, method: expected one of grpo, .*, got 'ppo'"),
        ({"method": np.array(["grpo", "gdpo"])}, "what_if, method: expected one of grpo, .*, got array"),
        ({"method": ["grpo"]}, "what_if, method: expected one of grpo, .*, got .'grpo'.$"),
        ({"convention": "numpy"}, "what_if, convention: expected one of paper, trl, .*, got 'numpy'"),
        ({"weights": {"brief": 1}}, "what_if, weights: expected names of rewards: correctness_reward, .*, got 'brief'"),
        ({"weights": [0, 0, 0]}, "what_if, weights: expected one that is not 0, got 0 for every reward"),
    ],
)
def test_a_setting_that_cannot_be_is_refused(setting, said):
    log = ga.read_run(TRL)
    with pytest.raises(gc.InputError, match=said):
        ga.audit(log, what_if=setting)


def test_a_log_without_its_rewards_is_refused():
    with pytest.raises(gc.InputError, match="expected a log with each reward in a column of its own, got one total"):
        ga.audit(ga.read_run(TOTAL)).what_if("gdpo")
    merged = ga.audit(ga.read_run(ROOT / "data/samples/trl_same_name"))
    with pytest.raises(gc.InputError, match="what_if: expected a log with every reward, got one that lacks some"):
        merged.what_if("gdpo")


def test_a_report_keeps_its_log_to_itself():
    report = ga.audit(ga.read_run(TRL))
    assert "_facts" not in report.to_dict() and "_facts" not in repr(report)
    back = pickle.loads(pickle.dumps(report))
    assert back.to_dict() == report.to_dict()
    with pytest.raises(gc.InputError, match=r"the audit takes what_if=\{...\} itself\), got one without its log"):
        back.what_if("grpo")
    there = ga.audit(ga.read_run(TRL), what_if={"method": "grpo"})
    back = pickle.loads(pickle.dumps(there))
    assert back.alternative == there.alternative == report.what_if("grpo") and report.alternative is None
    assert len(pickle.dumps(there.alternative)) < 2000


# --- the command line -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "setting"),
    [
        ("method=gdpo", {"method": "gdpo"}),
        (" method = gdpo , weights.a = -.5 ", {"method": "gdpo", "weights": {"a": -0.5}}),
        ("convention=trl,weights.a=1,weights.b=2e-3", {"convention": "trl", "weights": {"a": 1.0, "b": 0.002}}),
        ("weights.a=b=1", {"weights": {"a=b": 1.0}}),
    ],
)
def test_a_setting_is_read(text, setting):
    assert parse_setting(text, "what-if") == setting


EXPECTED = "method=NAME, convention=NAME or weights.REWARD=NUMBER, with commas between several"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", f"what-if: expected {EXPECTED}, got ''"),
        ("method=gdpo,method=grpo", "what-if: expected each part once, got 'method' twice"),
        ("weights.a=1,weights.a=2", "what-if: expected each reward once, got 'a' twice"),
        ("weights.a=nan", "what-if: expected weights.REWARD=NUMBER, got 'a=nan'"),
        ("weights.a=1e40", "what-if: expected a number of at most 1e+30, got 'a=1e40'"),
    ],
)
def test_a_setting_that_cannot_be_read_is_one_line(capsys, text, said):
    assert run(capsys, TRL, "--what-if", text) == (2, "", f"gdpo: {said}\n")


@pytest.mark.slow
def test_the_terminal_shows_both_sides_and_the_lines(capsys):
    setting = "method=GRPO-no-std,weights.length_reward=0.2"
    code, out, err = run(capsys, TRL, "--primary", "correctness_reward", "--what-if", setting)
    assert (code, err) == (0, "")
    rows = [line.split() for line in out.splitlines()]
    assert ["whole", "run", "had", "would", "have"] in rows and ["weight,", "length_reward", "2", "0.2"] in rows
    assert ["method", "GDPO", "GRPO", "without", "std"] in rows
    found = ga.audit(ga.read_run(TRL), primary="correctness_reward").what_if("grpo_no_std", {"length_reward": 0.2})
    before, after = (f"{100 * side['update_share']['length_reward']:.1f}" for side in (found.before, found.after))
    assert ["update", "share,", "length_reward", before, "%", after, "%"] in rows
    had = "are those of the run as it was, under GDPO, with weights that were worked out from the logged advantages."
    assert found.fix in out and had in out
    assert "weight, format_reward" not in out  # The weight of this reward stays as it is.
    assert "What if" not in run(capsys, TRL)[1]


@pytest.mark.slow
def test_json_has_it_where_it_was_asked_for_of_each_run(capsys):
    found = json.loads(run(capsys, TRL, SWIFT, "--what-if", "method=grpo", "--json", "-")[1])["runs"]
    expected = ga.audit(ga.read_run(TRL)).what_if("grpo")
    assert found[0]["what_if"] == json.loads(json.dumps(expected.to_dict())) and found[1]["what_if"]["fix"]
    assert "what_if" not in json.loads(run(capsys, TRL, "--json", "-")[1])


def test_it_shows_itself_and_stands_in_the_report_that_has_it():
    report = ga.audit(ga.read_run(TRL))
    found = report.what_if("grpo")
    kind, shown = found._mime_()
    assert kind == "text/html" and shown == found._repr_html_() and str(what_if(found)) in shown
    assert "What if" not in document(report) and ">What if</h3>" in document(replace(report, alternative=found))
