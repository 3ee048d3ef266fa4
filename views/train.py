"""The chapter Train: scenarios as small pictures, one of them large with its controls, trained as the reader looks."""

import threading
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import anywidget
import marimo as mo
import traitlets

from gdpo_core import _theme
from gdpo_core._errors import InputError
from gdpo_core._words import percent
from gdpo_core.scenarios import (
    ALIKE_EPOCHS,
    ALIKE_SHARE,
    COMPARISONS,
    ENDS,
    LEVEL,
    VERDICTS,
    Scenario,
    Setting,
    load_scenarios,
)
from views import controls, gallery, save, terms, trained
from views.controls import (
    OPTIMIZERS,
    PAYS,
    PROMPTS,
    ROLLOUTS,
    SEEDS,
    STARTS,
    WEIGHTS,
    State,
    checked,
    methods_of,
    setting_of,
    state_of,
)
from views.html import reason, says, show
from views.large import draw, weighed
from views.link import Session
from views.text import NAMES
from views.trained import TITLES, Stopped

HERE = Path(__file__).parent
FIRST = "scales"
QUESTIONS = (  # of coins, of arms
    (
        f"Who has every coin at {LEVEL:g} first?",
        dict(zip((VERDICTS[1], VERDICTS[2], VERDICTS[0], VERDICTS[3]), ("GDPO", "GRPO", *VERDICTS[::3]), strict=True)),
    ),
    ("Which method learns the right answer?", {end: end.removeprefix("right under ") for end in ENDS}),
)
FOLDS = {
    "how": "What is trained, and how",
    "steps": "Every median, in all three comparisons",
    "curves": "The curves as a table",
}
CHARTS = {"train-curves": "Learning curves", "train-cards": "All set-ups", "train-weights": "Who wins, by weight"}
FIRST_WORDS = {"equal": "At equal step size", "published": "As published,", "neither": "With no last step"}


class Train(anywidget.AnyWidget):
    """Small pictures from a file; the large one is trained in a thread that a change of a control stops."""

    _esm = (HERE / "train.js").read_text(encoding="utf-8")
    _css = _theme.css(".train") + terms.CSS + save.CSS + (HERE / "train.css").read_text(encoding="utf-8")
    choices = traitlets.Dict().tag(sync=True)
    cards = traitlets.Dict().tag(sync=True)  # per comparison and scenario
    drawing = traitlets.Dict().tag(sync=True)
    working = traitlets.Dict().tag(sync=True)  # of which question how much is done
    weighed = traitlets.Dict().tag(sync=True)  # who wins, per weight and method
    folded = traitlets.Dict().tag(sync=True)  # the content of open folds

    def __init__(self, data: Path, session: Session) -> None:
        self._scenarios = {s.id: s for s in load_scenarios(data / "scenarios.json")}
        self._file = gallery.load(
            data / "gallery.json", tuple((s.id, bool(s.setting.arms)) for s in self._scenarios.values())
        )
        self._session = session
        self._state = self._brought()
        self._wanted = 0
        self._ended: Mapping[str, list] = {}  # per method, where the right answer ends at each weight
        super().__init__(
            choices={
                "scenarios": [self._listed(s) for s in self._scenarios.values()],
                "compare": list(TITLES.items()),
                "methods": [["", "no third method"], *controls.extras().items()],
                "stops": {"start": STARTS, "pays": PAYS, "weights": WEIGHTS},
                "sizes": {"rollouts": ROLLOUTS, "prompts": PROMPTS, "seeds": SEEDS},
                "looks": _looks(),
                "questions": [[question, list(answers.items())] for question, answers in QUESTIONS],
                "folds": list(FOLDS.items()),
                "level": LEVEL,
                "same": f"“No difference”: medians within {ALIKE_EPOCHS} epochs or {percent(ALIKE_SHARE)}.",
                "sum": list(gallery.WEIGHTS),
                "save": {chart: str(save.links(chart, title)) for chart, title in CHARTS.items()},
                "policy": terms.glossary().get("policy", ""),
            },
            cards={c: self._cards(c) for c in COMPARISONS},
        )
        self._show(0, self._state)
        self.on_msg(lambda _, message, __: self._asked(message if isinstance(message, dict) else {}))
        self._keep()
        numbers = (self._curves, self._small, self._ends)
        for chart, rows in zip(CHARTS, numbers, strict=True):
            session.charts[chart] = lambda rows=rows: save.table(rows())

    @property
    def state(self) -> State:
        """Where the controls stand now."""
        return self._state

    # --- what the link brings and takes along ---------------------------------------------------------------------

    def _brought(self) -> State:
        start, chosen = self._session.start, "train-compare" in self._session.brought
        name, compare, method = start("train-scenario"), start("train-compare"), start("train-method")
        scenario = self._scenarios.get(name or FIRST)
        if scenario is None:
            self._session.refuse("train-scenario", f"one of {', '.join(self._scenarios)}")
            scenario = self._scenarios[FIRST]
        own = state_of(scenario, compare if chosen else scenario.setting.comparison, lab=self._lab())
        asked = asdict(own) | {"method": method or ""}
        given = {key: start(f"train-{key}") for key in ("start", "pays", "weights", "more", "gate")}
        more = given.pop("more")
        if more is not None and len(more) == 6 + len(own.more.noise):
            sizes = dict(zip(("rollouts", "prompts", "seeds", "epochs", "lr"), more[1:6], strict=True))
            asked["more"] = {"optimizer": OPTIMIZERS[more[0] == 1], **sizes, "noise": more[6:]}
        elif more is not None:
            self._session.refuse("train-more", f"{6 + len(own.more.noise)} numbers")
        gate = given.pop("gate")
        asked["gate"] = own.gate if gate is None else gate == "1"
        asked |= {key: value for key, value in given.items() if value is not None}
        try:
            return checked(asked, self._scenarios)
        except (ValueError, KeyError, TypeError):
            self._session.refuse("train", "controls that fit the scenario")
            return own

    def _keep(self) -> None:
        def given() -> State:
            scenario = self._scenarios[self._state.scenario]
            return state_of(scenario, scenario.setting.comparison, lab=None)

        picks: dict[str, Any] = {
            "scenario": lambda s: s.scenario,
            "start": lambda s: s.start,
            "pays": lambda s: s.pays,
            "weights": lambda s: s.weights,
            "method": lambda s: s.method,
            "gate": lambda s: str(int(s.gate)),
            "more": lambda s: controls.flat(s.more),
        }
        for key, pick in picks.items():
            default = FIRST if key == "scenario" else (lambda pick=pick: pick(given()))
            self._session.keep(f"train-{key}", lambda pick=pick: pick(self._state), default)
        self._session.keep("train-compare", lambda: self._state.compare, lambda: given().compare)
        self._session.programs["train"] = lambda: trained.program(self._setting(self._state), methods_of(self._state))

    def _lab(self) -> Any:
        return getattr(self._session.lab, "state", None)

    # --- what the browser asks ------------------------------------------------------------------------------------

    def _asked(self, controls: Mapping[str, Any]) -> None:
        n = int(controls.get("n", 0))
        if "fold" in controls:
            self._unfold([name for name in controls["fold"] if name in FOLDS])
            return
        self._wanted = n  # whatever runs is stopped
        if controls.get("stop"):
            self.working = {}
            return
        try:
            state = self._chosen(controls) if "choose" in controls else checked(controls, self._scenarios)
        except (TypeError, ValueError, KeyError, AttributeError) as error:
            raise traitlets.TraitError(f"expected the controls of Train, got {controls!s:.80}: {error}") from None
        self._state = state
        self.working = {"n": n, "share": 0.0}
        mo.Thread(target=self._train, args=(n, state)).start()

    def _chosen(self, controls: Mapping[str, Any]) -> State:
        scenario, compare = self._scenarios[str(controls["choose"])], str(controls["compare"])
        if compare not in COMPARISONS:
            raise ValueError("compare")
        own = scenario.setting.comparison
        return state_of(scenario, compare if own == "equal" else own, self._state.method, self._lab())

    def _train(self, n: int, state: State) -> None:
        """In a thread of its own; a later question, or the end of the session, stops it."""
        setting, last = self._setting(state), 0.0

        def progress(share: float) -> None:
            nonlocal last
            self._go_on(n)
            if share > last + 0.05:
                last = share
                self.working = {"n": n, "share": round(share, 2)}

        try:
            trained.runs(setting, methods_of(state), progress)
            self._go_on(n)
            self._show(n, state)
            self._weigh(n, state)
        except Stopped:
            return
        except InputError as error:
            self.working = {"n": n, "share": 0.0, "failed": reason(error)}

    def _go_on(self, n: int) -> None:
        if self._wanted != n or _left():
            raise Stopped

    # --- what it is told ------------------------------------------------------------------------------------------

    def _show(self, n: int, state: State) -> None:
        self.drawing = {"n": n, **draw(state, self._scenarios[state.scenario], self._file)}
        self.working = {}

    def _weigh(self, n: int, state: State) -> None:
        """Who wins at which weight; from the file where it has it, else trained."""
        scenario, setting = self._scenarios[state.scenario], self._setting(state)
        if not setting.arms:
            return
        methods = list(dict.fromkeys([*NAMES, *methods_of(state)]))
        own = replace(scenario.setting, match_scale=setting.match_scale, weights=None, gate=None)
        if replace(setting, weights=None, gate=None) == own and methods == list(NAMES):
            endings = self._file["weights"][scenario.id][state.compare]
        else:
            endings = gallery.ends(setting, methods, lambda share: self._go_on(n))
        self._ended = {m: endings[m] for m in methods}
        self.weighed = {"n": n, **weighed(self._ended)}

    # --- the numbers of the charts --------------------------------------------------------------------------------

    def _curves(self) -> list[dict]:
        scenario = self._scenarios[self._state.scenario]
        return trained.curves(self._setting(self._state), scenario.coins, methods_of(self._state))

    def _small(self) -> list[dict]:
        compare, rows = self._state.compare, []
        for s in self._scenarios.values():
            own = compare if s.setting.comparison == "equal" else s.setting.comparison
            one = self._file["sketches"][s.id][own]
            card = gallery.card(one, bool(s.setting.arms))
            curves = zip(*card["curves"].values(), strict=True)
            rows += [
                {"set-up": s.title, "steps": own, "verdict": card["label"], "epoch": epoch}
                | {NAMES[m]: p for m, p in zip(card["curves"], both, strict=True)}
                for epoch, both in zip(card["epochs"], curves, strict=True)
            ]
        return rows

    def _ends(self) -> list[dict]:
        names, weights = trained.names(), [*gallery.WEIGHTS, "gate"]
        return [
            {"method": names[m], "weight of being short": w, "right answer": p, f"epochs to {LEVEL:g}": steps}
            for m, cells in self._ended.items()
            for w, (p, steps) in zip(weights, cells, strict=True)
        ]

    def _unfold(self, names: Sequence[str]) -> None:
        state = self._state
        setting, scenario, methods = self._setting(state), self._scenarios[state.scenario], methods_of(state)
        made = {
            "how": lambda: trained.how_it_learns(setting),
            "steps": lambda: trained.steps_table(setting, scenario.coins, methods),
            "curves": lambda: trained.curves_table(setting, scenario.coins, methods),
        }
        self.folded = {name: str(made[name]()) for name in names}

    def _setting(self, state: State) -> Setting:
        return setting_of(state, self._scenarios[state.scenario])

    def _listed(self, scenario: Scenario) -> dict:
        arms, own = bool(scenario.setting.arms), scenario.setting.comparison
        return {"id": scenario.id, "title": scenario.title, "arms": arms, "own": own}

    def _cards(self, compare: str) -> dict:
        """Every card under a comparison, or under the one that it is about; and what they add up to."""
        cards = {}
        for s in self._scenarios.values():
            own = s.setting.comparison
            one = self._file["sketches"][s.id][compare if own == "equal" else own]
            cards[s.id] = gallery.card(one, bool(s.setting.arms))
        of_coins = [s for s in self._scenarios.values() if not s.setting.arms]
        coins = [cards[s.id]["column"] for s in of_coins if s.setting.comparison in ("equal", compare)]
        return {"cards": cards, "claim": claim(compare, coins)}


def _left() -> bool:
    """Whether the visitor has gone; never outside of marimo's own threads."""
    thread = threading.current_thread()
    return isinstance(thread, mo.Thread) and thread.should_exit


def chapter(data: Path, session: Session) -> mo.Html:
    """The chapter; without its files, the sentence that says which one is missing or broken."""
    try:
        return mo.ui.anywidget(Train(data, session))
    except InputError as error:
        return show(says(f"This chapter can't be shown. {reason(error)}"))


def claim(compare: str, columns: Sequence[int]) -> str:
    """What the cards add up to, in a line."""
    faster, slower = columns.count(gallery.FASTER), columns.count(gallery.SLOWER)
    first = FIRST_WORDS[compare]
    return f"{first} GDPO is faster in {faster} of {len(columns)} set-ups, slower in {slower}"


def _looks() -> dict:
    """How the curve of each method looks; a successor as a third one that is told apart by its dash."""
    grey = _theme.METHODS["grpo_no_std"]
    return {m: [name, *_look(_theme.METHODS.get(m, grey))] for m, name in trained.names().items()}


def _look(look: _theme.Look) -> list[str]:
    return [look.dashes, look.shape]
