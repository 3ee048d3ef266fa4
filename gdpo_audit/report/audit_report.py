"""The report of an audit as an object: what it holds, and what else can be asked of the run."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import polars as pl

from gdpo_audit.facts.claims import assumed_condition
from gdpo_audit.facts.facts import Facts
from gdpo_audit.findings.examples import MOST_EXAMPLES, ExampleGroup, completed
from gdpo_audit.records import Texts, no_texts
from gdpo_audit.report.answers_data import data_of
from gdpo_audit.report.document import ReportMembers
from gdpo_audit.trials.run_forecast import Forecast, forecast_of, why_no_forecast
from gdpo_audit.trials.what_if import WhatIf, compute_what_if, validate_setting, with_every_weighed_reward
from gdpo_core.shared.errors import InputError, expect, is_whole
from gdpo_core.shared.inputs import ArrayLike
from gdpo_core.shared.markup import Displayed
from gdpo_core.shared.plain import jsonable
from gdpo_core.shared.words import count


@dataclass(frozen=True, kw_only=True)
class AuditReport(ReportMembers, Displayed):
    """Hold all that an audit says of a run; `to_dict` gives it as plain values.

    The members that JSON has too are described in `ReportMembers`: source, run, rewards, methods, plan, findings, by,
    prompts and lengths. The others are:

    steps: a table with a row per step, with the columns of `StepPart`.
    what_ran: the method that ran and whether that is certain, in sentences.
    first_step: what to do first, in one or two sentences.
    further: what else to do, in sentences; "" if there is nothing else.
    not_called_for: what the report says is not called for, “change” or “other setting”; "" if it does not say so.
    caution: the words that stand before first_step where the log has too few groups to judge, with a space at their
        end. "" for any other log.
    alternative: the figures of the run under another setting, where one was asked for.

    Raises InputError when it is made with a finding whose `row` is the number of no row of the plan.
    """

    steps: pl.DataFrame
    what_ran: str
    first_step: str
    further: str = ""
    not_called_for: str = ""
    caution: str = ""
    alternative: WhatIf | None = None
    _facts: Facts | None = field(default=None, repr=False, compare=False)  # None where the log cannot be read once more
    _groups: tuple[ExampleGroup, ...] = field(default=(), repr=False)
    _texts: Texts = field(default=no_texts, repr=False, compare=False)

    def __post_init__(self) -> None:
        for finding in self.findings:
            known = finding.row is None or finding.row < len(self.plan)
            expect(known, "findings, row", f"a row of the plan, which has {count(len(self.plan), 'row')}", finding.row)

    @cached_property
    def groups(self) -> tuple[ExampleGroup, ...]:
        """The groups that show a finding best, at most five for each finding. Their prompts and completions are read
        from the log when this is first used.
        """
        return completed(self._groups, self._texts)

    @cached_property
    def answers(self) -> Mapping[str, Any] | str | None:
        """The data from which a browser computes other settings, or a sentence that says why there are none. There are
        none, for instance, if the log is no longer there.

        The log is read when this is first used, and the result is kept. None for a report that was put together without
        the facts of a run, such as one that no call of `audit` made.
        """
        try:
            return None if self._facts is None else data_of(self._facts, self._facts.run.tables())
        except InputError as error:  # the log is no longer there
            return f"{error}"

    def __eq__(self, report: object) -> bool:
        """Return whether another report says the same: whether `to_dict` gives the same values for both."""
        return self.to_dict() == report.to_dict() if isinstance(report, AuditReport) else NotImplemented

    def __getstate__(self) -> dict[str, Any]:
        """Return what is pickled: the report with its groups, answers and recommended forecast already computed.

        The facts are left out, as they read from the log, which may not be there where the report is unpickled.
        """
        from_the_log = {"groups": self.groups, "_groups": self.groups, "_texts": no_texts, "answers": self.answers}
        from_the_log |= {"recommended_forecast": self.recommended_forecast}
        return self.__dict__ | from_the_log | {"_facts": None}

    def what_if(
        self,
        method: str | None = None,
        weights: Mapping[str, float] | ArrayLike | None = None,
        convention: str | None = None,
    ) -> WhatIf:
        """Compute the figures of the whole run under another method, other weights or another convention, beside the
        figures under the run's own.

        An argument that is not given stays as the run has it. The log is read once more.

        method: as in `gdpo_core.advantages`, except papo, saw and sa_mrpo.
        weights: {reward: weight}; a reward without one has the weight that it has in the run.
        convention: a key of `gdpo_core.CONVENTIONS`.

        Raises InputError, also where the log has changed since the audit, or the report came here without its log.
        """
        if self._facts is None:
            made_here = "a report that gdpo_audit.audit made in this process (the audit takes what_if={...} itself)"
            raise InputError(f"what_if: expected {made_here}, got one without its log")
        given = {"method": method, "weights": weights, "convention": convention}
        setting = {name: value for name, value in given.items() if value is not None}
        checked = validate_setting(self._facts.run, setting)
        tables = with_every_weighed_reward(self._facts, checked).run.tables()
        return compute_what_if(self._facts, checked, tables)

    def forecast(
        self,
        method: str | None = None,
        weights: Mapping[str, float] | ArrayLike | None = None,
        gate: Mapping[str, Any] | None = None,
        steps: int | None = None,
    ) -> Forecast:
        """Forecast what the mean of each reward would have come to under another setting, with an 80 % interval.

        method, weights: as in `what_if`.
        gate: {"reward": a, "on": b}, if reward a is to count only where b reaches "threshold". The threshold is by
            default the best value of b: the highest, or the lowest if the run wants less of b. Elsewhere a is
            "otherwise", by default the worst value of a, or 0 if that is worse.
        steps: the number of steps over which the means are taken, by default as many as the log has.

        Raises InputError, also for a log of fewer than 20 steps.
        """
        return forecast_of(self.facts_with_sample("forecast"), method, weights, gate, steps)

    def facts_with_sample(self, asked_by: str) -> Facts:
        """Return the facts with a sample of the log, which is read once more.

        asked_by: the name of the method or function that needs them, with which an error begins.

        Raises InputError where the report came here without its log.
        """
        if self._facts is None:
            made_here = "a report that gdpo_audit.audit made in this process"
            raise InputError(f"{asked_by}: expected {made_here}, got one without its log")
        return replace(self._facts, tables=self._facts.run.sample)

    @cached_property
    def recommended_forecast(self) -> Forecast | None:
        """The forecast under the setting that the plan recommends.

        None where the plan recommends none, where the log does not tell enough, and where the log is no longer there.
        """
        best = next((row for row in self.plan if row.recommended), None)
        if best is None or self._facts is None:
            return None
        try:
            return self.forecast(best.method, best.weights)  # a gate is never recommended
        except InputError:  # fewer steps than a forecast needs, or the log is no longer there
            return None

    @property
    def forecast_note(self) -> str:
        """A sentence that says why the recommended setting has no forecast of the primary reward.

        Empty if it has one, if no setting is recommended or no reward primary, or if the report came here without its
        log and without a forecast.
        """
        primary = self.run["primary"]
        if primary is None or not any(row.recommended for row in self.plan):
            return ""
        forecast = self.recommended_forecast
        if forecast is not None:
            return forecast.rewards[primary].why
        return "" if self._facts is None else why_no_forecast(self._facts)

    @property
    def push(self) -> dict[str, dict[str, float]]:
        """The push on each reward under each method: {method: {reward: push}}.

        A push says how much the update raises the reward, from −1 to 1. It is `gdpo_core.push` of the whole run.
        """
        return {m: {reward["name"]: reward["push"][m] for reward in self.rewards} for m in self.methods}

    @property
    def punished(self) -> dict[str, dict[str, float | None]]:
        """The share of a reward's good responses that a method punishes, by method and reward: {method: {reward:
        share}}.

        A response is good if it is above its group's mean of the reward, or below it if the run wants less of the
        reward. It is punished if its advantage is 0 or less. A share is NaN (null in JSON) where no response is good.
        """
        return {m: {reward["name"]: reward["punished"][m] for reward in self.rewards} for m in self.methods}

    @property
    def condition(self) -> str:
        """The words that stand before what rests on something that is only assumed; "" where nothing that decides is.

        `first_step` and `further` hold them already, before the first sentence that rests on it.
        """
        return assumed_condition(self.reading)

    @property
    def notes(self) -> tuple[str, ...]:
        """Facts of the log that ask for nothing, such as what was left out of it, in short sentences."""
        return tuple(self.source["notes"])

    @property
    def what_first(self) -> str:
        """The sentences that say what to do: the caution, the first step, and all further ones."""
        return f"{self.caution}{self.first_step}" + f" {self.further}" * bool(self.further)

    @property
    def verdict(self) -> str:
        """The first lines of the report: what ran, whether that is certain, and what to do."""
        return f"{self.what_ran} {self.what_first}"

    def to_dict(self, groups: bool | int | None = False) -> dict[str, Any]:
        """Return the report as plain lists, numbers and text, ready for JSON; NaN and infinity become None.

        groups: whether the groups that show a finding best are in it, with their texts. A number lets in at most so
            many groups of each finding, and never more than five. False and None let in none.

        Raises InputError for any other value.
        """
        report = {"schema": 1, "verdict": self.verdict, "source": self.source, "run": self.run, "rewards": self.rewards}
        report |= {
            "methods": self.methods,
            "plan": self.plan,
            "reading": self.reading,
            "findings": self.findings,
            "steps": self.steps.to_dicts(),
            "by": self.by,
            "prompts": self.prompts,
            "lengths": self.lengths,
        }
        known = groups is None or isinstance(groups, bool) or (is_whole(groups) and groups >= 0)
        expect(known, "groups", "True, False or a whole number from 0", repr(groups))
        if groups:
            most = MOST_EXAMPLES if groups is True else min(groups, MOST_EXAMPLES)
            report["groups"] = self.groups_table().group_by("finding", maintain_order=True).head(most).to_dicts()
        if self.alternative is not None:
            report["what_if"] = self.alternative
        return {name: jsonable(value) for name, value in report.items()}

    def findings_table(self) -> pl.DataFrame:
        """Return the findings as a table with a row for each, and the columns id, severity, message and fix."""
        return _table(self.findings, dict.fromkeys(("id", "severity", "message", "fix"), pl.String))

    def groups_table(self) -> pl.DataFrame:
        """Return the groups that show a finding best as a table with a row for each, at most five for each finding.

        The columns are finding, step, group, rewards, advantages, logged, prompt and completions. "rewards" has a list
        of rewards per answer. "advantages" has what the run's method makes of this group alone, and "logged" the logged
        advantages. A value that the log does not have is null.

        >>> from gdpo_audit import audit, read_run
        >>> rows = [(g, a, b) for g in "xy" for a, b in ((1, 0), (0, 1), (1, 1), (0, 0))]
        >>> run = read_run([{"prompt": g, "a": a, "b": b, "completion": f"{a} {b}"} for g, a, b in rows])
        >>> table = audit(run).groups_table().filter(finding="ties-hide-signal")
        >>> table["rewards"][0].to_list(), table["completions"][0].to_list()
        ([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [0.0, 0.0]], ['1 0', '0 1', '1 1', '0 0'])
        """
        numbers = pl.List(pl.Float64)
        schema: dict[str, Any] = {
            "finding": pl.String,
            "step": pl.Int64,
            "group": pl.Int64,
            "rewards": pl.List(numbers),
        }
        schema |= {"advantages": numbers, "logged": numbers, "prompt": pl.String, "completions": pl.List(pl.String)}
        return _table(self.groups, schema)


def _table(rows: Sequence[object], schema: Mapping[str, Any]) -> pl.DataFrame:
    """Return a table with a row for each of some records.

    schema: the members of a record that become columns, with their types.
    """
    return pl.DataFrame([[getattr(row, name) for name in schema] for row in rows], schema=schema, orient="row")
