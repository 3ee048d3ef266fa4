"""`AuditCallback` against the protocol of transformers' callbacks, with a trainer that stands in for the real one."""

import importlib
import logging
import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import fake_logs
import polars as pl
import pytest
from helpers import nearly

import gdpo_core as gc

NAMES = [name for name, _ in fake_logs.REWARDS]


class Trainer:
    """What a callback sees of transformers' Trainer: log() keeps the history and calls every callback."""

    def __init__(self, output_dir, callbacks=()):
        self.args = SimpleNamespace(output_dir=str(output_dir))
        self.state = SimpleNamespace(global_step=0, log_history=[], is_world_process_zero=True)
        self.callbacks = list(callbacks)

    def log(self, logs, start_time=None):
        self.state.log_history.append({**logs, "step": self.state.global_step})
        for callback in self.callbacks:
            callback.on_log(self.args, self.state, SimpleNamespace(), logs=logs)


class TRLTrainer(Trainer):
    """TRL's log() writes the completions of the step after the callbacks were called."""

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
    """The module, imported beside a transformers that is only its protocol."""
    stub = ModuleType("transformers")
    stub.Trainer, stub.TrainerCallback = Trainer, type("TrainerCallback", (), {})
    monkeypatch.setitem(sys.modules, "transformers", stub)
    monkeypatch.delitem(sys.modules, "gdpo_core.callbacks", raising=False)
    yield importlib.import_module("gdpo_core.callbacks")
    sys.modules.pop("gdpo_core.callbacks", None)


@pytest.fixture
def made(tmp_path):
    fake_logs.write_trl(tmp_path / "made", steps=9)
    return tmp_path / "made/completions"


def ours(history) -> dict[int, dict]:
    """The entries of the history that hold our metrics, by step."""
    return {entry["step"]: entry for entry in history if any(name.startswith("audit/") for name in entry)}


def constant(folder, reward, first, last) -> float:
    """The share of the groups of 8 of these steps in which a reward is constant, counted one by one."""
    names = [f"completions_{step:05d}.parquet" for step in range(first, last + 1)]
    values = [pl.read_parquet(folder / name)[reward].to_list() for name in names]
    groups = [of[i : i + 8] for of in values for i in range(0, len(of), 8)]
    return sum(len(set(group)) == 1 for group in groups) / len(groups)


@pytest.mark.slow
def test_every_third_logged_step_is_audited_and_the_end(callbacks, tmp_path, made):
    trainer = TRLTrainer(tmp_path / "out", made)
    callback = callbacks.AuditCallback(trainer, every=3, budget=1e9, primary="accuracy")
    trainer.callbacks.append(callback)
    trainer.train(8)
    logged = ours(trainer.state.log_history)
    assert list(logged) == [3, 6, 8]
    assert len(trainer.written) == len(set(trainer.written)) == 8  # our metrics do not write completions again
    fresh = gc.audit(gc.read_run(tmp_path / "out"), primary="accuracy")
    assert callback.report.to_dict() == nearly(fresh.to_dict()) and callback.audits == 3
    last = trainer.state.log_history[-1]
    assert {name for name in last if name != "step"} == {
        *(f"audit/{what}/{reward}" for what in ("update_share/gdpo", "constant_groups") for reward in NAMES),
        *(f"audit/{what}/gdpo" for what in ("groups_with_ties", "silent_groups", "inversions")),
    }
    # The rows of a step are written after it is logged.
    for step, (first, upto) in {3: (1, 2), 6: (3, 5), 8: (6, 8)}.items():
        files = [str(made / f"completions_{n:05d}.parquet") for n in range(first, upto + 1)]
        alone = gc.audit(gc.read_run(files), primary="accuracy", weights=fresh.run["weights_used"])
        for name in NAMES:
            assert logged[step][f"audit/constant_groups/{name}"] == pytest.approx(constant(made, name, first, upto))
        for reward in alone.rewards:
            share = logged[step][f"audit/update_share/gdpo/{reward['name']}"]
            assert share == pytest.approx(reward["update_share"]["gdpo"])
        for what in ("groups_with_ties", "silent_groups", "inversions"):
            assert logged[step][f"audit/{what}/gdpo"] == pytest.approx(alone.methods["gdpo"][what])
    assert last["audit/inversions/gdpo"] > 0


def test_a_reward_that_died_shows_as_dead_though_it_lived_before(callbacks, tmp_path):
    rewards = (fake_logs.ACCURACY, ("dies", lambda draw, groups, size: draw.random((groups, size)) < 0.5))
    fake_logs.write_trl(tmp_path / "made", steps=8, rewards=rewards, weights=(1, 1))
    made = tmp_path / "made/completions"
    for step in range(5, 9):  # dead from step 5 on
        file = made / f"completions_{step:05d}.parquet"
        pl.read_parquet(file).with_columns(pl.lit(1.0).alias("dies")).drop("advantage").write_parquet(file)
    for step in range(1, 5):
        file = made / f"completions_{step:05d}.parquet"
        pl.read_parquet(file).drop("advantage").write_parquet(file)
    trainer = TRLTrainer(tmp_path / "out", made)
    callback = callbacks.AuditCallback(trainer, every=5, budget=1e9)
    trainer.callbacks.append(callback)
    trainer.train(8)
    first, last = ours(trainer.state.log_history).values()
    assert first["audit/constant_groups/dies"] < 0.2 and last["audit/constant_groups/dies"] == 1
    assert last["audit/update_share/grpo/dies"] == 0  # no advantages: the method is taken to be GRPO, and named
    assert callback.report.rewards[1]["dead_groups"] == pytest.approx(constant(made, "dies", 1, 8))


def test_the_audit_at_the_end_is_always_there_and_covers_the_whole_run(callbacks, tmp_path, made):
    trainer = TRLTrainer(tmp_path / "out", made)
    callback = callbacks.AuditCallback(trainer, every=2, budget=1e-9)  # no audit but the first fits
    trainer.callbacks.append(callback)
    trainer.train(9)
    assert callback.audits == 2 and list(ours(trainer.state.log_history)) == [2, 9]
    assert callback.report.to_dict() == nearly(gc.audit(gc.read_run(tmp_path / "out")).to_dict())
    last = trainer.state.log_history[-1]
    assert last["audit/constant_groups/accuracy"] == pytest.approx(constant(made, "accuracy", 2, 9))


@pytest.mark.slow
def test_files_that_a_resumed_run_writes_again_do_not_end_the_audits(callbacks, tmp_path, made, caplog):
    trainer = TRLTrainer(tmp_path / "out", made)
    callback = callbacks.AuditCallback(trainer, every=1, budget=1e9)
    trainer.callbacks.append(callback)
    trainer.train(7)
    for trainer.state.global_step in (4, 5, 6, 7, 8):  # from a checkpoint
        file = made / f"completions_{trainer.state.global_step:05d}.parquet"
        pl.read_parquet(file).with_columns(pl.col("accuracy") * 1.0 + 0.0).write_parquet(file, compression="gzip")
        trainer.log({"loss": 0.5})
    callback.on_train_end(trainer.args, trainer.state, None)
    assert not caplog.records and callback.report.source["steps"] == 8
    assert callback.report.to_dict() == nearly(gc.audit(gc.read_run(tmp_path / "out")).to_dict())


def test_without_a_trainer_the_logs_of_the_step_get_the_metrics(callbacks, tmp_path, made):
    trainer = TRLTrainer(tmp_path / "out", made)
    trainer.callbacks.append(callbacks.AuditCallback(every=2))
    for trainer.state.global_step in (1, 2):
        trainer.log({"loss": 0.5})
    assert {"loss", "audit/silent_groups/gdpo"} <= ours(trainer.state.log_history)[2].keys()
    assert "audit/inversions/gdpo" not in trainer.state.log_history[-1]  # no reward is the primary one


def test_an_evaluation_and_other_processes_are_left_alone(callbacks, tmp_path, made):
    trainer = TRLTrainer(tmp_path / "out", made)
    callback = callbacks.AuditCallback(trainer, path=str(made), every=1)
    callback.on_log(trainer.args, trainer.state, None, logs={"eval_loss": 1.0})
    trainer.state.is_world_process_zero = False
    callback.on_log(trainer.args, trainer.state, None, logs={"loss": 1.0})
    callback.on_train_end(trainer.args, trainer.state, None)
    assert callback.audits == 0
    trainer.state.is_world_process_zero = True
    callback.on_log(trainer.args, trainer.state, None, logs={"loss": 1.0})
    assert callback.audits == 1


def test_an_audit_that_would_take_more_than_its_share_is_skipped(callbacks, tmp_path, made, monkeypatch):
    now = [0.0]
    monkeypatch.setattr(callbacks.time, "monotonic", lambda: now[0])
    look = callbacks.Follower.look

    def slow(self):
        now[0] += 2.0
        return look(self)

    monkeypatch.setattr(callbacks.Follower, "look", slow)
    trainer = TRLTrainer(tmp_path / "out", made)
    callback = callbacks.AuditCallback(trainer, path=str(made), every=1)
    steps = []
    for _ in range(1000):
        now[0] += 1.0  # a training step
        before = callback.seconds
        (made / "completions_00009.parquet").touch()
        callback.on_log(trainer.args, trainer.state, None, logs={"loss": 1.0})
        if callback.seconds > before:
            steps.append(now[0])
    assert steps == [3.0, 205.0, 407.0, 609.0, 811.0]  # 2 s after every 200 s, from the second audit on


@pytest.mark.parametrize("fault", ["nothing", "damaged", "broken", "logger"])
def test_a_fault_is_one_warning_and_never_an_error(callbacks, tmp_path, made, fault, caplog, monkeypatch):
    out = tmp_path / "out"
    trainer = TRLTrainer(out, made)
    callback = callbacks.AuditCallback(trainer, path=str(made if fault == "logger" else out), every=1, budget=1e9)
    (out / "completions").mkdir(parents=True)
    (out / "notes.txt").write_text("no log")
    if fault == "damaged":
        (out / "completions/completions_00001.parquet").write_bytes(b"PAR1 cut")
    if fault == "broken":
        monkeypatch.setattr(callbacks.Follower, "look", lambda self: 1 / 0)
    if fault == "logger":
        trainer.log = None
        monkeypatch.setattr(Trainer, "log", lambda *_: 1 / 0)
    with caplog.at_level(logging.WARNING, "gdpo_core"):
        for number in range(5):
            (made / "completions_00009.parquet").touch()
            (out / "completions/completions_00001.parquet").write_bytes(
                b"PAR1 cut" * number
            ) if fault == "damaged" else 0
            callback.on_log(trainer.args, trainer.state, None, logs={"loss": 1.0})
    [record] = caplog.records
    said = record.getMessage()
    assert said.startswith("The audit of this run failed, and training goes on without it: ") and "\n" not in said
    wanted = {"nothing": "expected a log", "damaged": "cut or damaged"}
    assert wanted.get(fault, "ZeroDivisionError") in said


def test_what_the_caller_gives_wrong_is_refused_at_once(callbacks):
    with pytest.raises(gc.InputError, match="every: expected a positive whole number, got 0"):
        callbacks.AuditCallback(every=0)
    with pytest.raises(gc.InputError, match="budget: expected a share"):
        callbacks.AuditCallback(budget=0)


@pytest.mark.slow
def test_without_transformers_the_import_says_what_is_missing():
    hidden = "import sys; sys.modules['transformers'] = None; import gdpo_core.callbacks"
    done = subprocess.run(
        [sys.executable, "-c", hidden], capture_output=True, text=True, cwd=Path(__file__).parent.parent
    )
    last = done.stderr.strip().splitlines()[-1]
    assert done.returncode == 1
    assert last == "ImportError: gdpo_core.callbacks needs transformers, which TRL brings: pip install transformers"
