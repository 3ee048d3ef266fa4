"""A callback for transformers and TRL that audits the run while it trains, and logs what it finds as metrics."""

import logging
from collections.abc import Mapping
from typing import Any

from gdpo_audit.auditing import audit
from gdpo_audit.logs.read import read_run
from gdpo_audit.report.audit_report import AuditReport
from gdpo_audit.report.summary import shown_method
from gdpo_core.shared.errors import InputError, expect_count, fault_of, is_fault, reason

try:
    from transformers import Trainer, TrainerCallback
except ImportError as error:
    raise ImportError(
        "gdpo_audit.callback needs transformers, which TRL brings: pip install transformers", name=error.name
    ) from None

_log = logging.getLogger("gdpo_audit")


class AuditCallback(TrainerCallback):
    """A callback that audits the last logged steps every few steps, and logs figures of the audit as `audit/…`.

    `report` is the report of the last audit. While the trainer runs, that is an audit of the last steps, so that it
    shows when a reward becomes constant; after training it is an audit of the whole run. In the names of the metrics,
    NAME is a reward. METHOD is the method that made the advantages. Where the log does not show this method, METHOD is
    the method that was asked for, or grpo if none was:

        audit/update_share/METHOD/NAME   the reward's share of the update
        audit/push/NAME                  how much the update raises the reward, from -1 to 1; of a reward with a weight
                                         below 0, which is to be lowered, a push below 0 is what the run wants
        audit/constant_groups/NAME       of the groups that hold the reward, the share in which it is constant
        audit/groups_with_ties/METHOD    of the groups whose rewards differ, the share with a tie
        audit/silent_groups/METHOD       the share of the groups in which every advantage is 0
        audit/inversions/METHOD          of the pairs that differ in the primary reward, the share in the wrong order

    A metric for which the log has no value is left out. Where the trainer reports to trackio, each warning or error
    that an audit during training finds is also an alert there, once in a run. No fault of an audit stops the trainer.
    When a second audit in a row fails, the logger `gdpo_audit` warns of it.

    trainer: the trainer through whose logger the metrics go, to wherever it reports. Without one they are added to the
        logs of the step, which callbacks that come later see. They are also added to the log_history of the trainer's
        state.
    path: the log; by default the trainer's output_dir, into which it writes with log_completions=True.
    every: the number of logged steps from one audit to the next, which is also the number of steps in each audit.
    weights, primary, asked: as in `audit`.
    named: further arguments of `read_run`.

        trainer = GRPOTrainer(..., args=GRPOConfig(log_completions=True, ...))
        trainer.add_callback(AuditCallback(trainer, primary="correctness"))
    """

    def __init__(
        self,
        trainer: Any = None,
        *,
        path: str | None = None,
        every: int = 10,
        weights: Mapping[str, float] | None = None,
        primary: str | None = None,
        asked: str | None = None,
        **named: Any,
    ) -> None:
        expect_count(every, "every")
        self.trainer, self.path, self.every, self.named = trainer, path, every, named
        self.audit_args: dict[str, Any] = {"weights": weights, "primary": primary, "asked": asked}
        self.report: AuditReport | None = None
        self._logged, self._failed, self._logging = 0, 0, False
        self._alerted: set[tuple[str, str]] = set()  # of each alert the finding's id, and its reward

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, Any] | None = None, **kwargs: Any) -> None:
        """Audit the last steps each time that `every` steps were logged; logs of evaluations do not count.

        The trainer writes the rows of the present step only after this call, so the next audit is the first to read
        them. Only the main process of the training audits.
        """
        evaluation = any(name.startswith("eval_") for name in logs or ())
        if self._logging or evaluation or not getattr(state, "is_world_process_zero", True):
            return
        self._logged += 1
        if self._logged % self.every == 0:
            self._audit(args, state, logs, self.every)

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Audit the last steps once more, now that all rows are written, and then audit the whole run.

        The metrics of the last steps are logged if there is a trainer. The metrics of the whole run are not logged.
        `report` is then the report of the whole run.
        """
        if getattr(state, "is_world_process_zero", True):
            self._audit(args, state, None, self.every)
            self._audit(args, state, None, None)

    def _audit(self, args: Any, state: Any, logs: dict[str, Any] | None, last: int | None) -> None:
        """Audit the last logged steps, or the whole run if `last` is None, and keep the report.

        A fault is not raised; the second one in a row becomes a warning of the logger `gdpo_audit`.

        args: the trainer's arguments, whose output_dir is the log if the callback has no path.
        state: the state of the training.
        logs: the trainer's logs of the present step, None after training.
        last: how many steps to audit. If it is given, the metrics of the report are logged as well (see `_show`).
        """
        metrics = None
        try:
            run = read_run(self.path or str(args.output_dir), last=last, **self.named)
            self.report = audit(run, **self.audit_args)
            metrics = metrics_of(self.report)
            if last is not None:
                self._show(metrics, state, logs)
            if logs is not None:  # after training trackio has no run any more
                self._alert(args, self.report)
            self._failed = 0
        except BaseException as error:  # an error of polars' own code is no Exception
            if not is_fault(error):
                raise
            self._failed += 1
            if self._failed == 2:  # at the first audit the trainer may not have written anything yet
                what = str(error) if isinstance(error, InputError) else fault_of(error)
                if metrics is not None:
                    what = f"the trainer's logger raised {type(error).__name__}: {reason(error)}"
                _log.warning("The audit of this run failed, and training goes on without it: %s", what)

    def _alert(self, args: Any, report: AuditReport) -> None:
        """Send the warnings and errors of a report to trackio, each once in a run, if the trainer reports there."""
        if "trackio" not in (getattr(args, "report_to", None) or ()):
            return
        import trackio

        for finding in report.findings:
            key = finding.id, str(finding.evidence.get("reward"))
            if finding.severity != "info" and key not in self._alerted:
                text = f"Of the last {self.every} logged steps: {finding.message} {finding.to_do}".rstrip()
                severity = trackio.AlertLevel.ERROR if finding.severity == "error" else trackio.AlertLevel.WARN
                trackio.alert(title=f"gdpo audit: {finding.title}", text=text, level=severity)
                self._alerted.add(key)

    def _show(self, metrics: dict[str, float], state: Any, logs: dict[str, Any] | None) -> None:
        """Hand the metrics to the trainer's logger. If the callback has no trainer, add them to `logs` and to the last
        entry of the state's log_history; if `logs` is None too, do nothing.

        metrics: the metrics by name.
        state: the state of the training, which may lack a history.
        logs: what the trainer logs at this step.
        """
        if self.trainer is not None:
            # This is the log() of the base class: that of TRL's trainers writes the table of completions once more.
            self._logging = True
            try:
                Trainer.log(self.trainer, metrics)
            finally:
                self._logging = False
        elif logs is not None:
            logs.update(metrics)
            if getattr(state, "log_history", None):
                state.log_history[-1].update(metrics)


def metrics_of(report: AuditReport) -> dict[str, float]:
    """Return the figures of a report as the metrics that `AuditCallback` logs, by name. Figures without a value are
    left out.
    """
    method = shown_method(report)[0] or "grpo"
    metrics: dict[str, float | None] = {}
    if figures := report.methods.get(method):
        metrics[f"groups_with_ties/{method}"] = figures["groups_with_ties"]
        metrics[f"silent_groups/{method}"] = figures["silent_groups"]
        metrics[f"inversions/{method}"] = figures["inversions"]
    for reward in report.rewards:
        name = reward["name"]
        metrics[f"update_share/{method}/{name}"] = reward["update_share"].get(method)
        metrics[f"push/{name}"] = reward["push"].get(method)
        if reward["missing"] < report.source["responses"]:
            metrics[f"constant_groups/{name}"] = reward["dead_groups"]
    return {f"audit/{name}": x for name, x in metrics.items() if x is not None and x == x}
