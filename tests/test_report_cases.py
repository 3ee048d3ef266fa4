"""Reports on logs as people have them, compared with what a reader needs; report_cases.py has the sources and the
truth.
"""

import re
from pathlib import Path

import pytest
import report_cases_groups  # noqa: F401 (its cases)
import report_cases_reported  # noqa: F401
import report_cases_reported_shapes  # noqa: F401
from report_cases import CASES, Case, Truth, in_percent

import gdpo_audit as ga
import gdpo_core as gc
from gdpo_audit.report.prompt_tables import taught


def said(report: ga.AuditReport) -> str:
    """Return all sentences of a report, the reasons why columns do not count, and the shares of the settings that were
    tried.
    """
    findings = [f"{finding.title} {finding.message} {finding.to_do}" for finding in report.findings]
    tried = [f"{row.title}: {in_percent(row.update_share.values())}" for row in report.plan]
    not_counted = [f"{name}: {reason}" for name, reason in report.run["not_counted"].items()]
    of_the_log = [report.source["grouped_by"], *report.source["left_out"], *report.run["remarks"]]
    return "\n".join([report.verdict, *report.notes, *of_the_log, *not_counted, *findings, *taught(report), *tried])


def said_first(report: ga.AuditReport) -> str:
    return " ".join([report.what_first, *(f"{finding.title} {finding.message}" for finding in report.findings[:1])])


def faults(report: ga.AuditReport, truth: Truth) -> list[str]:
    """Return what a report lacks or gets wrong, one text each."""
    text, wrong = said(report), []

    def expect(holds: bool, name: str, got) -> None:
        if not holds:
            wrong.append(f"{name}: {got}")

    names = [reward["name"] for reward in report.rewards]
    if truth.rewards:
        expect(sorted(names) == sorted(truth.rewards), "rewards", names)
    if truth.method:
        expect(report.run["method"] == truth.method, "method", report.run["method"])
        expect((report.run["reproduced"] is not False) == truth.reproduced, "reproduced", report.run["reproduced"])
    for name in ("groups", "responses"):
        expect(getattr(truth, name) in (None, report.source[name]), name, report.source[name])
    repeated = (report.prompts or {"repeated": 0})["repeated"]
    expect(truth.repeated in (None, repeated), "prompts that come twice", repeated)
    if truth.rewards and not wrong:
        wrong += wrong_figures(report, truth)
    expect(re.search(truth.first, said_first(report)) is not None, f"first {truth.first!r}", said_first(report))
    for pattern in truth.says:
        expect(re.search(pattern, text) is not None, f"says no {pattern!r}", text)
    expect(not truth.never or not re.search(truth.never, text), f"says {truth.never!r}", text)
    expect(truth.finding in ("", *(finding.id for finding in report.findings)), "no finding", truth.finding)
    return wrong


def wrong_figures(report: ga.AuditReport, truth: Truth) -> list[str]:
    """Return the figures of a report that are not those of the truth: weights, shares, and shares of constant and
    silent groups.
    """
    by_name = {reward["name"]: reward for reward in report.rewards}
    rewards, method = [by_name[name] for name in truth.rewards], truth.method or truth.under or "grpo"
    used = [report.run["weights_used"][name] for name in truth.rewards]
    figures = {
        "weights": ([w / used[0] for w in used], [w / truth.weights[0] for w in truth.weights], truth.within),
        "shares": ([reward["update_share"][method] for reward in rewards], truth.shares, truth.within),
        "dead": ([reward["dead_groups"] for reward in rewards], truth.dead, 1e-9),
        "silent": ([report.methods[method]["silent_groups"]], () if truth.silent is None else (truth.silent,), 1e-9),
    }
    return [
        f"{name}: {got}, not {list(expected)}"
        for name, (got, expected, within) in figures.items()
        if len(expected) and got != pytest.approx(list(expected), abs=within)
    ]


SLOW = ("masked_when_too_long", "a_history_of_wandb_as_csv")


@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.slow) if n in SLOW else n for n in CASES])
def test_the_report_has_what_its_reader_needs(tmp_path, name):
    made = CASES[name]()
    truth = made.truth
    try:
        report = ga.audit(ga.read_run(source_of(made, tmp_path), **made.read), **made.audit)
    except gc.InputError as refusal:
        assert truth.asks, f"refused: {refusal}"
        assert re.search(truth.asks, str(refusal)), f"asks no {truth.asks!r}: {refusal}"
    else:
        assert truth != Truth(asks=truth.asks), "a report in place of a question"
        assert not (wrong := faults(report, truth)), "\n".join(wrong)


def source_of(made: Case, folder: Path) -> dict[str, bytes] | str:
    """Return a log as `read_run` takes it: its files in memory, or a path after they were written to the folder."""
    if made.on_disk is None:
        return made.log
    for name, content in made.log.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return str(folder / made.on_disk)
