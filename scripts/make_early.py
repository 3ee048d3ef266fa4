"""Write data/early.json, from which the Lab's board is drawn while the page is still loading: python -m
scripts.make_early.

The server has the file at once; to compute it anew it would have to import torch first.
"""

import json
from pathlib import Path
from typing import Any

from views.bfcl import load_tasks
from views.chapters.evidence.trained import trained_headline
from views.chapters.lab import answers
from views.chapters.run.choose import OPENING
from views.chapters.train import train_words
from views.chapters.use.published_claims import CLAIMS_OPENING
from views.studies.scenarios import load_scenarios
from views.widgets import address
from views.widgets.nav import Nav

DATA = Path(__file__).resolve().parent.parent / "data"


def early() -> dict[str, Any]:
    """Return what the file holds: the Lab as it is with an address that sets nothing.

    score: whether the first task has a score among its rewards.
    request, tasks: what the first task asks, and the id and title of each task.
    chapters: of each chapter the name, the title, and the headline with which it opens.
    train: the sentence below Train's headline, and the title and the caption of what it trains at first.
    longest: LONGEST of views/widgets/address.py.
    traits: what the Lab's board shares with the browser.
    """
    tasks = load_tasks(DATA / "tasks")
    board = answers.task_board(tasks[0], tasks[0], Nav({}, editing=False))
    first = load_scenarios(DATA / "scenarios.json")[0]
    headlines = {
        "lab": board.drawing["claim"],
        "train": train_words.train_headline(first.setup.comparison, predicts=False),
        "evidence": trained_headline(),
        "run": _headline(OPENING),
        "use": _headline(CLAIMS_OPENING),
    }
    return {
        "score": bool(tasks[0].longest),
        "request": tasks[0].request,
        "tasks": [[task.id, task.title] for task in tasks],
        "chapters": [[name, title, headlines[name]] for name, title in address.CHAPTERS.items()],
        "train": [train_words.lead(first.setup).striptags(), first.title, train_words.caption(first.setup)],
        "longest": address.LONGEST,
        "traits": board.shared(),
    }


def _headline(opening: str) -> str:
    """Return the headline with which a text of Markdown opens."""
    return opening.split("\n")[0].removeprefix("# ")


if __name__ == "__main__":
    (DATA / "early.json").write_text(json.dumps(early(), separators=(",", ":"), ensure_ascii=False) + "\n", "utf-8")
