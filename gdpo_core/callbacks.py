"""A callback for transformers and TRL that audits the run while it trains, and logs what it finds as metrics."""

import logging
import time
from collections.abc import Mapping
from dataclasses import replace
from math import inf, nan
from typing import Any

from gdpo_core._errors import InputError, expect, is_whole
from gdpo_core.runs.audit_report import AuditReport
from gdpo_core.runs.facts import Facts
from gdpo_core.runs.sums import take
from gdpo_core.runs.watch import Follower

try:
    from transformers import Trainer, TrainerCallback
except ImportError as error:
    raise ImportError(
        "gdpo_core.callbacks needs transformers, which TRL brings: pip install transformers", name=error.name
    ) from None

BUDGET = 0.01  # share of the training time that audits may take
_log = logging.getLogger("gdpo_core")


class AuditCallback(TrainerCallback):
    """Every few logged steps, audit the log that the trainer has written so far, and log its shares as `audit/…`.

    The metrics are of the steps since the last audit, so that they show when a reward dies; `report` is of the whole
    run so far, and after training of the whole run. With NAME a reward and METHOD the method that made the advantages
    (where the log does not show it: the one asked for, else grpo):

        audit/update_share/METHOD/NAME   the reward's share of the update
        audit/constant_groups/NAME       of the groups that hold the reward, the share in which it is constant
        audit/groups_with_ties/METHOD    of the groups whose rewards differ, the share with a tie
        audit/silent_groups/METHOD       the share of the groups in which every advantage is 0
        audit/inversions/METHOD          of the pairs that differ in the primary reward, the share the wrong way round

    What the log does not tell is left out.

    trainer: metrics go through its logger, to wherever it reports. Without one they are added to the logs of the step,
        which only callbacks that come later see.
    path: the log; the trainer's output_dir by default, with log_completions=True.
    every: logged steps from one audit to the next. An audit is skipped if the last one took more than `budget` of the
        time since then; the one at the end of training never is.
    named: weights, primary, asked, and further arguments of `read_run`.
    Nothing raises while the trainer runs: the first fault is one warning in the log `gdpo_core`.

        trainer = GRPOTrainer(..., args=GRPOConfig(log_completions=True, ...))
        trainer.add_callback(AuditCallback(trainer, primary="correctness"))
    """

    def __init__(
        self, trainer: Any = None, *, path: str | None = None, every: int = 10, budget: float = BUDGET, **named: Any
    ) -> None:
        expect(is_whole(every) and every > 0, "every", "a positive whole number", repr(every))
        expect(budget > 0, "budget", "a share of the training time above 0", repr(budget))
        self.trainer, self.path, self.every, self.budget, self.named = trainer, path, every, budget, named
        self.report: AuditReport | None = None  # of the last audit
        self.audits, self.seconds = 0, 0.0  # how many there were, and how long all of them took
        self._follower = None if path is None else Follower(path, **named)
        self._audited = -inf  # the last step that metrics were logged of
        self._logged, self._failed, self._warned, self._logging = 0, 0, False, False
        self._last_took, self._last_end = 0.0, time.monotonic()

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, Any] | None = None, **kwargs: Any) -> None:
        """Audit if it is time to. The rows of this step are written after it, so the next audit reads them."""
        evaluation = any(name.startswith("eval_") for name in logs or ())
        if self._logging or evaluation or not getattr(state, "is_world_process_zero", True):
            return
        self._logged += 1
        affordable = self._last_took <= self.budget * (time.monotonic() - self._last_end)
        if self._logged % self.every == 0 and affordable:
            self._audit(args, state, logs)

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Audit what was written since the last audit, whatever it takes."""
        if getattr(state, "is_world_process_zero", True):
            self._audit(args, state, None)

    def _audit(self, args: Any, state: Any, logs: dict[str, Any] | None) -> None:
        start = time.monotonic()
        try:
            report = self._report_if_changed(args)
            fault: Exception | None = self._follower.fault if self._follower else None
        except Exception as error:
            report, fault = None, error
        self._last_end = time.monotonic()
        self._last_took = self._last_end - start
        self.seconds += self._last_took
        self._failed = self._failed + 1 if fault else 0
        if fault is not None:
            self._warn(fault)
        if report is not None:
            self.report = report
            self.audits += 1
            try:
                self._show(self._metrics(), state, logs)
            except Exception as error:
                self._failed = 2
                self._warn(error)

    def _report_if_changed(self, args: Any) -> AuditReport | None:
        if self._follower is not None:
            try:
                return self._follower.look()
            except InputError:
                # A run that goes on from a checkpoint writes its last files again: they are read from the start.
                pass
        self._follower = Follower(self.path or str(args.output_dir), **self.named)
        return self._follower.look()

    def _metrics(self) -> dict[str, float]:
        """The metrics of the steps since the last ones."""
        facts = self._follower.facts if self._follower else None
        assert facts is not None, "there is a report"
        before, self._audited = self._audited, max(facts.steps)
        if before > self._audited:  # the log was begun anew
            before = -inf
        new = take(facts.batches, facts.batches.step_last > before)
        return metrics_of(replace(facts, batches=new), facts.method) if len(new.batch) else {}

    def _show(self, metrics: Mapping[str, float], state: Any, logs: dict[str, Any] | None) -> None:
        """Hand the metrics to the trainer's logger."""
        if not metrics:
            return
        if self.trainer is not None:
            # The log() of TRL's trainers writes its table of completions once more.
            log = Trainer.log if isinstance(self.trainer, Trainer) else type(self.trainer).log
            self._logging = True
            try:
                log(self.trainer, dict(metrics))
            finally:
                self._logging = False
        elif logs is not None:
            logs.update(metrics)
            if getattr(state, "log_history", None):
                state.log_history[-1].update(metrics)

    def _warn(self, fault: Exception) -> None:
        """Say it once; not the first time, when the trainer may not have written anything yet."""
        if self._failed < 2 or self._warned:
            return
        self._warned = True
        what = str(fault) if isinstance(fault, InputError) else f"{type(fault).__name__}: {fault}"
        _log.warning("The audit of this run failed, and training goes on without it: %s", " ".join(what.split()))


def metrics_of(f: Facts, method: str) -> dict[str, float]:
    """The figures of some steps as the metrics of `AuditCallback`, under this method."""
    metrics = {f"groups_with_ties/{method}": f.ties(method), f"silent_groups/{method}": f.silent(method)}
    metrics[f"inversions/{method}"] = f.inversions(method)
    for k, name in enumerate(f.rewards):
        metrics[f"update_share/{method}/{name}"] = nan if f.contradicted else f.shares(method)[k]
        if f.coverage(k):
            metrics[f"constant_groups/{name}"] = f.dead(k)
    return {f"audit/{name}": x for name, x in metrics.items() if x == x}
