"""The experiments under TRL's own trainer, with only a few steps; `make parity-trainer` runs it."""

from dataclasses import replace

import polars as pl
import pytest

import gdpo_audit as ga
from experiments import train
from experiments.setups import AGGREGATIONS, setup_named

STEPS = 3


def log_of(folder, method):
    """Return the log of the run that was trained with a method."""
    return ga.read_run(folder / "pays_5" / method / "0")


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Return two folders, each with runs of both methods from the same seed."""
    folders = [tmp_path_factory.mktemp(name) for name in ("first", "second")]
    for folder in folders:
        for method in AGGREGATIONS:
            job = replace(train.job_of(setup_named("pays_5"), method, 0), steps=STEPS)
            train.finished(job, folder / "pays_5" / method / "0", setup="pays_5")
    return folders


@pytest.mark.parametrize("method", AGGREGATIONS)
def test_the_same_seed_gives_the_same_log(runs, method):
    first, second = (log_of(folder, method) for folder in runs)
    assert first.table.equals(second.table)


@pytest.mark.parametrize("method", AGGREGATIONS)
def test_an_audit_finds_out_what_was_set(runs, method):
    run = ga.audit(log_of(runs[0], method)).run
    assert (run["method"], run["convention"], run["reproduced"]) == (method, "trl", True)
    assert run["weights"] == pytest.approx(dict.fromkeys(("correctness", "style", "conciseness"), 1), rel=1e-3)


def test_the_first_prompts_are_those_of_the_shipped_sample(runs):
    """Only the prompts are compared, because another machine may round, and so sample, otherwise."""
    shipped = pl.read_parquet("data/samples/pays_5_gdpo/completions.parquet").filter(step=1)
    here = pl.read_parquet(runs[0] / "pays_5/gdpo/0/completions/*.parquet").filter(step=1)
    assert shipped["prompt"].to_list() == here["prompt"].to_list()
