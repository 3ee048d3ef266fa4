"""`AuditCallback` under the protocol of transformers' callbacks, with a stand-in for the trainer."""

import importlib
import logging
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from unittest.mock import Mock

import fake_logs
import pytest
from helpers import nearly

import gdpo_audit as ga
import gdpo_core as gc

NAMES = [name for name, _ in fake_logs.REWARDS]

ROOT = Path(__file__).parents[1]


class Trainer:
    """A stand-in for the part of transformers' Trainer that a callback sees: log() keeps the history and calls every
    callback.
    """

    def __init__(self, output_dir, callbacks=()):
        self.args = SimpleNamespace(output_dir=str(output_dir))
        self.state = SimpleNamespace(global_step=0, log_history=[], is_world_process_zero=True)
        self.callbacks = list(callbacks)

    def log(self, logs, start_time=None):
        self.state.log_history.append({**logs, "step": self.state.global_step})
        for callback in self.callbacks:
            callback.on_log(self.args, self.state, SimpleNamespace(), logs=logs)


class TRLTrainer(Trainer):
    """A stand-in for TRL's trainer, whose log() writes the completions of a step only after the callbacks were
    called.
    """

    def __init__(self, output_dir, made):
        super().__init__(output_dir)
        self.made, self.written = made, []

    def log(self, logs, start_time=None):
        super().log(logs, start_time)
        name = f"completions_{self.state.global_step:05d}.parquet"
        self.written.append(name)
        home = Path(self.args.output_dir) / "completions"
        home.mkdir(parents=True, exist_ok=True)
        (home / name).write_bytes((self.made / name).read_bytes())

    def train(self, steps):
        for self.state.global_step in range(1, steps + 1):
            self.log({"loss": 0.5})
        for callback in self.callbacks:
            callback.on_train_end(self.args, self.state, SimpleNamespace())


@pytest.fixture
def callbacks(monkeypatch):
    """Yield the module gdpo_audit.callback, imported beside a transformers that consists of its protocol alone."""
    stub = ModuleType("transformers")
    stub.Trainer, stub.TrainerCallback = Trainer, type("TrainerCallback", (), {})
    monkeypatch.setitem(sys.modules, "transformers", stub)
    monkeypatch.delitem(sys.modules, "gdpo_audit.callback", raising=False)
    yield importlib.import_module("gdpo_audit.callback")
    sys.modules.pop("gdpo_audit.callback", None)


@pytest.fixture
def made(tmp_path):
    fake_logs.write_trl(tmp_path / "made", steps=9)
    return tmp_path / "made/completions"


def ours(history) -> dict[int, dict]:
    """Return the entries of a history that hold our metrics, by step."""
    return {entry["step"]: entry for entry in history if any(name.startswith("audit/") for name in entry)}


def test_every_third_logged_step_and_the_end_are_audited_on_the_last_three(callbacks, tmp_path, made):
    trainer = TRLTrainer(tmp_path / "out", made)
    callback = callbacks.AuditCallback(trainer, every=3, primary="accuracy")
    trainer.callbacks.append(callback)
    trainer.train(8)
    logged = ours(trainer.state.log_history)
    assert list(logged) == [3, 6, 8]
    # Our metrics do not make the trainer write completions again.
    assert len(trainer.written) == len(set(trainer.written)) == 8
    fresh = ga.audit(ga.read_run(tmp_path / "out"), primary="accuracy")
    assert callback.report.to_dict() == nearly(fresh.to_dict())
    assert {name for name in trainer.state.log_history[-1] if name != "step"} == {
        *(f"audit/{what}/{reward}" for what in ("update_share/gdpo", "push", "constant_groups") for reward in NAMES),
        *(f"audit/{what}/gdpo" for what in ("groups_with_ties", "silent_groups", "inversions")),
    }
    # The rows of a step are written after it is logged.
    for step, (first, upto) in {3: (1, 2), 6: (3, 5), 8: (6, 8)}.items():
        files = [str(made / f"completions_{n:05d}.parquet") for n in range(first, upto + 1)]
        alone = ga.audit(ga.read_run(files), primary="accuracy")
        for reward in alone.rewards:
            name = reward["name"]
            assert logged[step][f"audit/constant_groups/{name}"] == pytest.approx(reward["dead_groups"])
            assert logged[step][f"audit/update_share/gdpo/{name}"] == pytest.approx(reward["update_share"]["gdpo"])
        for what in ("groups_with_ties", "silent_groups", "inversions"):
            assert logged[step][f"audit/{what}/gdpo"] == pytest.approx(alone.methods["gdpo"][what])


def test_a_warning_is_an_alert_of_trackio_once_and_only_where_the_trainer_reports_there(
    callbacks, tmp_path, made, monkeypatch
):
    trackio, alerts, log = ModuleType("trackio"), [], str(ROOT / "data" / "samples" / "pays_5_grpo")
    trackio.AlertLevel = SimpleNamespace(WARN="warn", ERROR="error")
    trackio.alert = lambda **alert: alerts.append(alert)
    monkeypatch.setitem(sys.modules, "trackio", trackio)
    for report_to in (["wandb"], ["wandb", "trackio"]):
        assert not alerts
        trainer = TRLTrainer(tmp_path / report_to[-1], made)
        trainer.args.report_to = report_to
        trainer.callbacks.append(callbacks.AuditCallback(trainer, path=log, every=3))
        trainer.train(8)
    serious = [finding for finding in ga.audit(ga.read_run(log, last=3)).findings if finding.severity != "info"]
    assert serious and [alert["title"] for alert in alerts] == [f"gdpo audit: {finding.title}" for finding in serious]
    for alert, finding in zip(alerts, serious, strict=True):
        assert alert["text"].startswith(f"Of the last 3 logged steps: {finding.message}")
        assert alert["level"] == {"warning": "warn", "error": "error"}[finding.severity]


def test_an_evaluation_and_other_processes_are_left_alone(callbacks, tmp_path, made):
    trainer = TRLTrainer(tmp_path / "out", made)
    callback = callbacks.AuditCallback(trainer, path=str(made), every=1)
    callback.on_log(trainer.args, trainer.state, None, logs={"eval_loss": 1.0})
    trainer.state.is_world_process_zero = False
    callback.on_log(trainer.args, trainer.state, None, logs={"loss": 1.0})
    callback.on_train_end(trainer.args, trainer.state, None)
    assert callback.report is None
    trainer.state.is_world_process_zero = True
    callback.on_log(trainer.args, trainer.state, None, logs={"loss": 1.0})
    assert callback.report.source["steps"] == 1


@pytest.mark.parametrize(
    ("fault", "wanted"),
    [
        ("nothing", "expected a log"),
        ("damaged", "cut or damaged"),
        ("logger", ": the trainer's logger raised ZeroDivisionError: division by zero"),
        ("audit", ": a fault of gdpo, not of your input: KeyError: 'x'; please report it"),
        ("polars", ": a fault of gdpo, not of your input: PanicException: of polars' own code; please report it"),
    ],
)
def test_a_fault_is_one_warning_and_never_an_error(callbacks, tmp_path, made, fault, wanted, caplog, monkeypatch):
    out = tmp_path / "out"
    (out / "completions").mkdir(parents=True)
    if fault == "damaged":
        (out / "completions/completions_00001.parquet").write_bytes(b"PAR1 cut")
    if fault == "logger":
        monkeypatch.setattr(Trainer, "log", lambda *_: 1 / 0)
    own = {"audit": KeyError("x"), "polars": type("PanicException", (BaseException,), {})("of polars' own code")}
    if fault in own:
        monkeypatch.setattr(callbacks, "audit", Mock(side_effect=own[fault]))
    trainer = TRLTrainer(out, made)
    callback = callbacks.AuditCallback(trainer, path=str(out if fault in ("nothing", "damaged") else made), every=1)
    with caplog.at_level(logging.WARNING, "gdpo_audit"):
        callback.on_log(trainer.args, trainer.state, None, logs={"loss": 1.0})
        # The first failure is not reported, because the trainer may not have written anything yet.
        assert not caplog.records
        for _ in range(4):
            callback.on_log(trainer.args, trainer.state, None, logs={"loss": 1.0})
    [record] = caplog.records
    said = record.getMessage()
    assert said.startswith("The audit of this run failed, and training goes on without it: ") and "\n" not in said
    assert wanted in said


def test_what_the_caller_gives_wrong_is_refused_at_once(callbacks):
    with pytest.raises(gc.InputError, match="every: expected a whole number from 1 to 999,999,999, got 0"):
        callbacks.AuditCallback(every=0)


def test_without_transformers_the_import_says_what_is_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "transformers", None)
    monkeypatch.delitem(sys.modules, "gdpo_audit.callback", raising=False)
    with pytest.raises(ImportError, match=r"^gdpo_audit.callback needs transformers, .*: pip install transformers$"):
        importlib.import_module("gdpo_audit.callback")
