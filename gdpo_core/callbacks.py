"""A callback for transformers and TRL that audits the run while it trains, and logs what it finds as metrics."""

import logging
import time
from collections.abc import Mapping
from typing import Any

from gdpo_core._errors import InputError, expect, is_whole
from gdpo_core.report.sentences import shown_method
from gdpo_core.runs.audit_report import AuditReport
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
    """Every few logged steps, audit the log that the trainer has written so far, and log the shares as `gdpo/…`.

    trainer: metrics go through its logger, to wherever it reports. Without one they are added to the logs of the step,
        which only callbacks that come later see.
    path: the log; the trainer's output_dir by default, with log_completions=True.
    every: logged steps from one audit to the next. An audit is skipped if the last one took more than `budget` of the
        time since then. named: weights, primary, asked, and further arguments of `read_run`.
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
        self._logged, self._failed, self._warned, self._logging = 0, 0, False, False
        self._last_took, self._last_end = 0.0, time.monotonic()

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, Any] | None = None, **kwargs: Any) -> None:
        """Audit if it is time to. The rows of this step are written after it, so the next audit reads them."""
        evaluation = any(name.startswith("eval_") for name in logs or ())
        if self._logging or evaluation or not getattr(state, "is_world_process_zero", True):
            return
        self._logged += 1
        if self._logged % self.every == 0:
            self._audit(args, state, logs)

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Audit what was written since the last audit."""
        if getattr(state, "is_world_process_zero", True):
            self._audit(args, state, None)

    def _audit(self, args: Any, state: Any, logs: dict[str, Any] | None) -> None:
        start = time.monotonic()
        if self._last_took > self.budget * (start - self._last_end):
            return
        try:
            if self._follower is None:
                self._follower = Follower(str(args.output_dir), **self.named)
            report = self._follower.look()
            fault: Exception | None = self._follower.fault
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
                self._show(metrics_of(report), state, logs)
            except Exception as error:
                self._failed = 2
                self._warn(error)

    def _show(self, metrics: Mapping[str, float], state: Any, logs: dict[str, Any] | None) -> None:
        """Hand the metrics to the trainer's logger."""
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


def metrics_of(report: AuditReport) -> dict[str, float]:
    """The shares of a report as metrics, under the run's method; what the log does not tell is left out.

    `gdpo/update_share/NAME` and `gdpo/zero_variance/NAME` by reward; `gdpo/groups_with_ties`, `gdpo/silent_groups` and
    `gdpo/inversions`, which needs the primary reward.
    """
    method, _ = shown_method(report)
    metrics: dict[str, float | None] = {}
    for reward in report.rewards:
        metrics[f"gdpo/update_share/{reward['name']}"] = reward["update_share"].get(f"{method}")
        metrics[f"gdpo/zero_variance/{reward['name']}"] = reward["dead_groups"]
    of_method = report.methods.get(f"{method}", {})
    metrics |= {f"gdpo/{name}": of_method.get(name) for name in ("groups_with_ties", "silent_groups", "inversions")}
    return {name: float(x) for name, x in metrics.items() if x is not None and x == x}
