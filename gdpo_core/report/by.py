"""The table of `--by COLUMN`: what each value of the column shows."""

from gdpo_core._words import MISSING, clip, count, number, one_line, percent
from gdpo_core.conventions import NAMES
from gdpo_core.report.summary import Table, comparable
from gdpo_core.runs.audit_report import AuditReport


def by_table(report: AuditReport) -> Table | None:
    """A row per value and reward; None where no column was asked for."""
    if not report.by:
        return None
    column, method = report.by[0]["column"], NAMES[report.by[0]["method"]]
    several, primary = comparable(report), report.run["primary"]
    head = [column, "groups", *["ties"] * several, "silent", *["inversions"] * bool(primary)]
    head += ["reward", "mean", "constant", *["update"] * several]
    rows = []
    for part in report.by:
        of_value = [MISSING if part["value"] is None else clip(one_line(part["value"]), 40), count(part["groups"])]
        of_value += [percent(part["groups_with_ties"])] * several + [percent(part["silent_groups"])]
        of_value += [percent(part["inversions"])] * bool(primary)
        for reward in part["rewards"]:
            rows.append([*of_value, reward["name"], number(reward["mean"]), percent(reward["dead_groups"])])
            rows[-1] += [percent(reward["update_share"])] * several
            of_value = [""] * len(of_value)
    meaning = f"Each value of {column} alone, under {method}. Constant: of the groups that hold the reward."
    if several:
        meaning += " Update: share of the update that the groups of this value make."
    return Table(f"By {column}", head, rows, meaning)
