"""Facts about the log and the run of a report, in words. The tables of a report stand in `tables.py`, and the sentences
of findings stand with the findings.

Names and texts of a log are left as they are: the terminal and HTML make them harmless.
"""

from collections.abc import Mapping, Sequence

from gdpo_audit.facts.wording import WEIGHTS_FROM
from gdpo_audit.findings.finding import SEVERITIES, Finding
from gdpo_audit.report.audit_report import AuditReport
from gdpo_audit.sums.wanted import DIRECTIONS, named
from gdpo_core.conventions import NAMES
from gdpo_core.frameworks import ALL_CONVENTIONS, FRAMEWORKS
from gdpo_core.shared.words import count, listing, number

_SHOWN = 12  # how many items of a list are written out if there are at least two more


def value(x: object) -> str:
    """Return the value of a piece of evidence as short text: of a list or dict of more than 13 items the first 12.

    >>> value([1, 0.333333]), value({"a": None}), value(True), value([])
    ('1, 0.3333', 'a –', 'yes', 'none')
    """
    if isinstance(x, bool):
        return "yes" if x else "no"
    if x is None or isinstance(x, int | float):
        return number(x)
    if isinstance(x, Mapping):
        return listing((f"{key} {value(inner)}" for key, inner in x.items()), link="", most=_SHOWN)
    if isinstance(x, Sequence) and not isinstance(x, str):
        return listing(map(value, x), link="", most=_SHOWN)
    return str(x)


def source_facts(report: AuditReport) -> dict[str, str]:
    """Return facts about the log in words, by their names: where it is, and what it holds. If there are any, notes and
    the columns that were not read follow.
    """
    s = report.source
    size = f" of {s['group_size']}" if s["group_size"] else " of different sizes"
    words = _window(report)
    counts = count(s["files"], "file"), count(s["steps"], "step"), count(s["responses"], "response")
    left = _skipped(report)
    skipped = f", {listing(left)} left out" if left else ""
    rows = {
        "log": f"{s['path']}, written by {writer(report)}",
        "holds": f"{listing(counts, link='')} in {count(s['groups'], 'group')}{size} (grouped by {s['grouped_by']})"
        f"{skipped}" + f"; this report covers only {words}" * bool(words),
    }
    if report.notes:
        rows["notes"] = " ".join(report.notes)
    return rows | ({"not read": f"{value(s['left_out'])} (--reward names rewards)"} if s["left_out"] else {})


def report_limits(report: AuditReport) -> list[str]:
    """Return sentences that say to which steps a report is limited, and what of the log was left out; [] if it covers
    all of the log.
    """
    words, skipped = _window(report), _skipped(report)
    only = [f"This report covers only {words}."] if words else []
    return [*only, *([f"Left out of the log: {listing(skipped)}."] if skipped else [])]


def _skipped(report: AuditReport) -> list[str]:
    """Return in words how many broken lines, and which unreadable files, were left out."""
    lines, files = report.source["skipped_lines"], report.source["skipped_files"]
    words = [count(lines, "broken line")] if lines else []
    unreadable = f"{count(len(files), 'unreadable file')} ({listing(files, most=3)})"
    return [*words, *([unreadable] if files else [])]


def _window(report: AuditReport) -> str:
    """Return in words to which steps a report is limited; empty without a limit."""
    source = report.source
    # A report of an earlier version holds no stretches.
    stretches = source.get("stretches") or ([source["window"]] if source["window"] else [])
    words = [f"{first}" if first == last else f"{first} to {last}" for first, last in stretches]
    return f"step{'s' * (words != [f'{stretches[0][0]}'])} {listing(words, most=8)}" if words else ""


def writer(report: AuditReport) -> str:
    """Return the name of the program that wrote the log, as far as its columns show it."""
    framework = FRAMEWORKS[report.source["framework"]]
    if not report.source.get("as_written", True):  # a report of an earlier version does not say it
        return f"a table with columns of {framework.title}’s"
    return framework.log_title or framework.title


def answered(report: AuditReport, finding: Finding) -> str:
    """Return words for the setting of the plan that may help with a finding: the number of its row, and its title.

    "" if the finding has no such row.
    """
    return "" if finding.row is None else f"Plan, row {finding.row}: {report.plan[finding.row].title}."


def run_facts(report: AuditReport) -> dict[str, str]:
    """Return facts, in words, about how the advantages of the run and the figures of the report were computed, by name.

    They are the facts that `AuditReport.what_ran` does not hold:

    - the convention;
    - the weights of the report's figures, unless they are the weights that the log shows;
    - the method that was asked for or, if nobody asked, the one that the trainer runs by itself.

    A fact that is not known is missing.
    """
    run, rows = report.run, {}
    if run["convention"]:
        convention = ALL_CONVENTIONS[run["convention"]]
        rows["convention"] = f"{convention.name} ({convention.source})"
    if run["weights"] is None or run["weights"] != run["weights_used"]:
        constant = _constant(report)
        used = listing((f"{x} {number(w)}" for x, w in run["weights_used"].items() if x not in constant), link="")
        unknown = [f"{name} constant: its weight cannot be known" for name in constant]
        rows["weights used here"] = "; ".join([f"{used} ({WEIGHTS_FROM[run['weights_from']]})"] * bool(used) + unknown)
    if run["asked"]:
        rows["trainer's own" if run.get("trainers_own") else "asked for"] = NAMES[run["asked"]]
    return rows


def _constant(report: AuditReport) -> list[str]:
    """Return the rewards that are constant in every group and whose weight nothing but the log could tell."""
    if report.run["weights_from"] in ("given", "config", "log", "parts"):
        return []
    known = report.run["weights"] or {}
    return [r["name"] for r in report.rewards if r["dead_groups"] == 1 and known.get(r["name"]) is None]


OPEN = "the log does not show which method ran"


def own_method(report: AuditReport) -> str | None:
    """Return the method that made the advantages; None if the log does not show it, or the report has no
    figures of it.
    """
    method = report.run["method"]
    return method if method is not None and method in report.methods else None


def none_made_it(report: AuditReport) -> str:
    """Return the clause that no known method made the logged advantages.

    It is empty if a method did, if that is open, or if every logged advantage is 0 though the rewards differ.
    """
    if report.run["method"] or report.run["reproduced"] is not False:
        return ""
    return "" if report.run["all_zero"] else "no known method made the logged advantages"


def shown_method(report: AuditReport) -> tuple[str | None, str]:
    """Return the method whose shares a report shows, and why in words.

    It is the run's own method, else the method that was asked for, else the first that the report has. None if the
    report has no method.
    """
    if ran := own_method(report):
        return ran, "the method of this run"
    asked, none = report.run["asked"], none_made_it(report)
    if asked is not None and asked in report.methods:
        why = "the trainer's own method" if report.run.get("trainers_own") else "the method that was asked for"
        return asked, f"{why} ({none or OPEN})"
    return next(iter(report.methods), None), f"although {none}" if none else f"because {OPEN}"


# Errors of these kinds mean that a column is not one reward, so that no comparison of rewards or methods holds.
_NOT_SINGLE = frozenset({"no-components", "reward-columns-merged", "score-not-a-sum"})


def comparable(report: AuditReport) -> bool:
    """Return whether ties and shares of the update mean anything. They do not if the report has a single reward, or if
    an error among its findings says that a column is a mix of rewards.
    """
    return len(report.rewards) > 1 and not _mixes_rewards(report)


def _mixes_rewards(report: AuditReport) -> bool:
    """Return whether a finding of severity "error" says that a column among the rewards is not one reward."""
    return any(f.id in _NOT_SINGLE and f.severity == "error" for f in report.findings)


def not_comparable(report: AuditReport) -> str:
    """Return the sentence that says why a report has no ties and no shares of the update; it is meant for a report that
    is not `comparable`.
    """
    if _mixes_rewards(report):
        return (
            "The log does not hold each reward in a column of its own, so this report cannot tell ties, shares of the "
            "update, or what another method would have done."
        )
    how_many = "Only one reward counts" if report.run.get("not_counted") else "Only one reward was read"
    return f"{how_many}, so there is nothing to say of ties between different rewards, nor of shares of the update."


def wanted(report: AuditReport) -> dict[str, int]:
    """Return what the run wants of each reward, by name: 1 for a higher one, -1 for a lower one, and 0 for neither. A
    report of an earlier version does not say it.
    """
    return {r["name"]: DIRECTIONS[r.get("wanted", "higher")] for r in report.rewards}


def named_first(report: AuditReport, name: str) -> str:
    """Return the name of a reward as it stands where a table names it first: with words if less of it is wanted."""
    return named(name, wanted(report)[name])


def severity_counts(report: AuditReport) -> str:
    """Return in words how many findings of each severity a report has; "none" if it has no finding.

    >>> from types import SimpleNamespace as N
    >>> severity_counts(N(findings=[N(severity="error"), N(severity="info"), N(severity="info")]))
    '1 error, 2 info'
    """
    severities = [f.severity for f in report.findings]
    numbers = {s: severities.count(s) for s in SEVERITIES if s in severities}
    counts = [f"{count(n)} info" if s == "info" else count(n, s) for s, n in numbers.items()]
    return listing(counts, link="") if counts else "none"
