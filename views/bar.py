"""The bar that is always there, and the doors of the chapters: a chapter's cells run once its door is opened."""

from pathlib import Path

import anywidget
import traitlets

from views.link import CHAPTERS, Session

HERE = Path(__file__).parent
TOUR = (  # what is told to the page when it is done, what to do, where
    ("tie-broken", "Break a tie: flip a mark so that GRPO ties fewer answers", "lab"),
    ("best-differs", "Make GRPO and GDPO disagree about the best answer", "lab"),
    ("gdpo-ties", "Find a group in which GDPO ties different answers too", "lab"),
    ("right-first", "Put every right answer before the wrong ones, with a weight", "lab"),
    ("drowned", "Let one mark pay so much that it drowns the others", "lab"),
    ("hurts", "Find a scenario in which GDPO hurts", "train"),
    ("audited", "Audit a sample of a run", "run"),
)


class Bar(anywidget.AnyWidget):
    """Chapters, tour, link and program. The browser asks with a message; the answer comes back in `reply`."""

    _esm = "\n".join((HERE / name).read_text(encoding="utf-8") for name in ("save.js", "bar.js"))
    _css = (HERE / "bar.css").read_text(encoding="utf-8")
    chapters = traitlets.List().tag(sync=True)  # (name, title)
    edit = traitlets.Bool().tag(sync=True)  # in `marimo edit` all chapters are there, below each other
    notes = traitlets.List().tag(sync=True)
    tour = traitlets.List().tag(sync=True)  # (deed, sentence, chapter)
    reply = traitlets.Dict().tag(sync=True)

    def __init__(self, session: Session, edit: bool) -> None:
        super().__init__(
            chapters=[list(item) for item in CHAPTERS.items()],
            edit=edit,
            notes=list(session.notes),
            tour=[list(step) for step in TOUR],
        )
        self._session = session
        session.heard = self._heard
        self.on_msg(lambda _, message, __: self._answer(message if isinstance(message, dict) else {}))

    def _heard(self) -> None:
        self.notes = list(self._session.notes)

    def _answer(self, message: dict) -> None:
        chapter = message.get("at") if message.get("at") in CHAPTERS else "lab"
        program = self._session.programs.get(chapter)
        chart = str(message.get("chart"))
        numbers = self._session.charts.get(chart)
        texts = {
            "link": lambda: self._session.query(chapter),
            "python": lambda: program() if program else "",
            "csv": lambda: numbers() if numbers else "",
        }
        if message.get("ask") in texts:
            text = texts[message["ask"]]()
            self.reply = {"n": message.get("n", 0), "ask": message["ask"], "text": text, "chart": chart}


class Door(anywidget.AnyWidget):
    """Opens once, when the reader first comes to its chapter; cells that read its value wait until then."""

    _esm = (HERE / "door.js").read_text(encoding="utf-8")
    chapter = traitlets.Unicode().tag(sync=True)
    title = traitlets.Unicode().tag(sync=True)
    opened = traitlets.Bool().tag(sync=True)
    counts = traitlets.Bool().tag(sync=True)
    visits = traitlets.Int().tag(sync=True)  # after the first, where the door counts: what follows the Lab reads it

    def __init__(self, chapter: str, opened: bool = False, counts: bool = False) -> None:
        super().__init__(chapter=chapter, title=CHAPTERS[chapter], opened=opened, counts=counts)
