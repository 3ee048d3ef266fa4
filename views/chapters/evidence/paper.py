"""The paper's result tables without their averages: where GDPO is ahead, and where GRPO is."""

from gdpo_core.shared.words import count, decimal, listing, signed
from views.studies.results import ahead, clear, results
from views.widgets.html import Cell, Html, callout, join, table, tag

LEADS = {"grpo": "GRPO {}", "gdpo": "GDPO {}", "equal": "equal"}
_RIGHT = ("accuracy", "passed")  # what is measured of right answers


def title() -> str:
    """Return the title of the fold: in how many cells of the paper's tables each method leads by a point or more."""
    cells_by_winner = ahead(results())
    cells = f"{clear(cells_by_winner['gdpo'])} of {count(len(results()))} cells"
    grpo = clear(cells_by_winner["grpo"]) or "none"
    return f"The paper's own results? In {cells} of its tables GDPO is ahead by at least one point, GRPO in {grpo}"


def section() -> Html:
    """Return a paragraph on what the paper's tables show, and the tables."""
    return join(callout(_says()), paper_table())


def _says() -> str:
    """Return the paragraph on the cells of the paper's tables. It says in how many cells each method is ahead, also
    among the cells about right answers, and by how much at most.
    """
    cells_by_winner, right = ahead(results()), ahead(tuple(cell for cell in results() if cell.metric in _RIGHT))
    (grpo, equal, gdpo), rights = (len(cells) for cells in cells_by_winner.values()), sum(map(len, right.values()))
    largest = max(cells_by_winner["grpo"], key=lambda cell: -cell.ahead)
    return (
        f"By any margin GDPO is ahead in {gdpo} cells and GRPO in {grpo}, and {equal} cells are equal. Of the {rights} "
        f"cells about right answers, GDPO is ahead in {len(right['gdpo'])} and GRPO in {len(right['grpo'])}. For most "
        "cells the paper does not say how much its runs vary, and the cells are not independent. GRPO's largest lead "
        f"is {decimal(-largest.ahead, 1)} points ({largest.name}), GDPO's is "
        f"{decimal(max(cell.ahead for cell in results()), 1)}."
    )


def _note() -> str:
    """Return the note on how to read the table of the paper's results."""
    gated = sum(cell.setting == "length counts only if right" for cell in results())
    return (
        "The paper (arXiv 2601.05242) reports these numbers; we did not measure them. A lead is in percentage "
        "points in favour of the method, so a lower rate of bugs counts in its favour. “Over 4000 tokens” and "
        f"“too long” are shares of answers. In {gated} cells, which are called “gated”, the length is "
        "rewarded only where the answer is right. The averages of the tables are left out. The released "
        "scripts differ in more than the normalisation: GRPO has a KL penalty inside its normalised reward "
        "and GDPO none, and GDPO alone has the batch step."
    )


def paper_table() -> Html:
    """Return a table with a row for each cell of the paper's result tables, and a note below it.

    The last column says which method is ahead. It has the CSS class "ahead" where that is GRPO.
    """
    head = ["", "what is better", "before training", "GRPO", "GDPO", "ahead"]
    rows = [
        [
            f"{cell.experiment}: {cell.name}{'' if cell.metric not in _RIGHT else f' · {cell.metric}'}",
            cell.better,
            *(decimal(x, 2) for x in (cell.base, cell.grpo, cell.gdpo)),
            Cell(LEADS[cell.leader].format(signed(abs(cell.ahead))), "ahead" if cell.leader == "grpo" else ""),
        ]
        for cell in results()
    ]
    models = listing(dict.fromkeys(cell.model for cell in results()))
    return join(
        table(head, rows, "figures", f"In percent, of {models}; from arXiv 2601.05242"), tag("p", _note(), kind="note")
    )
