"""The table of `--what-if SETTING`: the whole run as it was, and as it would have been."""

from typing import Any

from gdpo_core._words import number, percent
from gdpo_core.frameworks import ALL_CONVENTIONS
from gdpo_core.report.summary import Table, label
from gdpo_core.runs.what_if import FIGURES, WhatIf
from gdpo_core.successors import TITLES


def what_if_table(w: WhatIf) -> Table:
    """What the setting changes, a row each, and every figure before and after."""
    sides: list[dict[str, Any]] = [dict(w.before), dict(w.after)]
    rows = [["method", *(TITLES[side["method"]] for side in sides)]]
    rows.append(["convention", *(ALL_CONVENTIONS[side["convention"]].name for side in sides)])
    rows += [[f"weight, {name}", *(number(side["weights"][name]) for side in sides)] for name in w.after["weights"]]
    rows = [row for row in rows if row[1] != row[2] or row[0] == "method"]
    rows += [
        [f"update, {name}", *(percent(side["update_share"][name], 1) for side in sides)] for name in w.after["weights"]
    ]
    rows += [[label(figure), *(percent(side[figure], 1) for side in sides)] for figure in FIGURES]
    if w.before["inversions"] is None and w.after["inversions"] is None:  # without a primary reward there are none
        rows.pop()
    return Table("What if", ["whole run", "had", "would have"], rows, " ".join(w.notes))
