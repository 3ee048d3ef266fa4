"""Write data/early.json, from which the Lab's board is drawn while the page is still loading: python -m
scripts.make_early.

The server has the file at once; to compute it anew it would have to import torch first.
"""

import json
from pathlib import Path
from typing import Any

from views.bfcl import load_tasks
from views.chapters.lab import answers
from views.widgets import address
from views.widgets.nav import Nav

DATA = Path(__file__).resolve().parent.parent / "data"


def early() -> dict[str, Any]:
    """Return what the file holds: the Lab as it is with an address that sets nothing.

    score: whether the first task has a score among its rewards.
    request, tasks: what the first task asks, and the id and title of each task.
    chapters, longest: CHAPTERS and LONGEST of views/widgets/address.py.
    traits: what the Lab's board shares with the browser.
    """
    tasks = load_tasks(DATA / "tasks")
    board = answers.task_board(tasks[0], tasks[0], Nav({}, editing=False))
    return {
        "score": bool(tasks[0].longest),
        "request": tasks[0].request,
        "tasks": [[task.id, task.title] for task in tasks],
        "chapters": list(map(list, address.CHAPTERS.items())),
        "longest": address.LONGEST,
        "traits": board.shared(),
    }


if __name__ == "__main__":
    (DATA / "early.json").write_text(json.dumps(early(), separators=(",", ":"), ensure_ascii=False) + "\n", "utf-8")
