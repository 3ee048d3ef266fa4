"""`AuditCallback` inside TRL's own GRPOTrainer, in a run of the experiments; `make parity-trainer` runs it."""

from dataclasses import replace

import pytest

import gdpo_audit as ga
from experiments import train
from experiments.setups import setup_named

trl = pytest.importorskip("trl")

STEPS = 12
WEIGHTS = {"correctness": 2, "style": 1, "conciseness": 1}


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Return the trainer after its run, and the callback."""
    from gdpo_audit.callback import AuditCallback

    kept = []

    class Audited(trl.GRPOTrainer):
        def train(self):
            kept.extend((self, AuditCallback(self, every=4, primary="correctness")))
            self.add_callback(kept[1])
            return super().train()

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(trl, "GRPOTrainer", Audited)
        job = replace(train.job_of(setup_named("weight_2"), "gdpo", 0), steps=STEPS)
        train.trained(job, tmp_path_factory.mktemp("out"))
    return kept


def test_metrics_are_logged_through_the_trainer(trained):
    trainer, _ = trained
    logged = {entry["step"]: entry for entry in trainer.state.log_history if "audit/silent_groups/gdpo" in entry}
    assert list(logged) == [4, 8, 12]
    for entry in logged.values():
        assert all(0 <= entry[f"audit/constant_groups/{name}"] <= 1 for name in WEIGHTS)
        assert sum(entry[f"audit/update_share/gdpo/{name}"] for name in WEIGHTS) == pytest.approx(1)
        assert "audit/inversions/gdpo" in entry and "audit/groups_with_ties/gdpo" in entry


def test_the_callback_says_what_an_audit_of_the_files_says(trained):
    trainer, callback = trained
    fresh = ga.audit(ga.read_run(trainer.args.output_dir), primary="correctness")
    assert callback.report.to_dict() == fresh.to_dict()
    assert fresh.run["method"] == "gdpo" and fresh.run["reproduced"] is True
    assert fresh.source["steps"] == STEPS and fresh.source["responses"] == train.GROUP * train.PROMPTS * STEPS
    assert fresh.run["weights"] == pytest.approx(WEIGHTS, rel=1e-3)
