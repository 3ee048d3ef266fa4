"""The chapter Train: scenarios as small pictures, one of them large with its controls, trained while the reader looks."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from math import inf, isfinite
from pathlib import Path
from typing import Any

import anywidget
import marimo as mo
import traitlets

from gdpo_core import _theme
from gdpo_core._html import Html, join, prose, tag
from gdpo_core._words import count, decimal, listing, percent
from gdpo_core.scenarios import ALIKE_EPOCHS, ALIKE_SHARE, COMPARISONS, ENDS, LEVEL, Scenario, Setting, load_scenarios
from views import gallery, trained
from views.link import Session
from views.trained import BAND, COMPARED, TITLES, Stopped

HERE = Path(__file__).parent
STARTS = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.6, 0.7, 0.85)
PAYS = (0.1, 0.3, 1.0, 3.0, 6.0, 10.0, 30.0, 100.0)
WEIGHTS = (0.0, 0.1, 0.125, 0.25, 0.5, 0.9, 1.0, 2.0, 4.0, 5.0)
ROLLOUTS, PROMPTS, SEEDS = (2, 4, 8, 16, 32), (1, 8, 16, 32, 64, 128), (4, 8, 16, 32, 64)
EPOCHS, RATES = (10, 1000), (0.01, 5.0)
NOISIEST = 10.0
OPTIMIZERS = ("sgd", "adam")
REST = 0.05  # where the conflict starts the answer that is wrong and long
HURTS = ("GDPO slower", ENDS[3])
FIRST = "scales"
QUESTIONS = {
    False: (
        "Who has every coin at 0.9 first?",
        (("GDPO faster", "GDPO"), ("GDPO slower", "GRPO"), ("no difference", "no difference"), ("neither gets there", "neither gets there")),
    ),
    True: ("Which method learns the right answer?", tuple((end, end.removeprefix("right under ")) for end in ENDS)),
}
FOLDS = {
    "how": "What is trained, and how",
    "steps": "Every median, in all three comparisons",
    "curves": "The curves as a table",
}


@dataclass(frozen=True)
class More:
    """The controls that few need."""

    optimizer: str
    rollouts: int
    prompts: int
    seeds: int
    epochs: int
    lr: float
    noise: tuple[float, ...]  # per reward


@dataclass(frozen=True)
class State:
    """Where the controls stand; start, pays and weights are per reward."""

    scenario: str
    compare: str
    start: tuple[float, ...]  # of arms the right one's alone
    pays: tuple[float, ...]
    weights: tuple[float, ...]
    gate: bool
    more: More
    method: str = ""  # a third one beside GRPO and GDPO


def pass_rates(marks: Sequence[Sequence[int]]) -> tuple[float, ...]:
    """The share of answers that passes each mark, kept half an answer away from none and all.

    >>> pass_rates([[1, 0], [1, 0], [0, 0], [1, 0]])
    (0.75, 0.125)
    """
    edge = 0.5 / len(marks)
    return tuple(round(min(max(sum(mark) / len(mark), edge), 1 - edge), 4) for mark in zip(*marks, strict=True))


def state_of(scenario: Scenario, compare: str, method: str = "", lab: Any = None) -> State:
    """A scenario as it is given; lab: the Lab's state, where it starts from that."""
    s, ones = scenario.setting, (1.0,) * scenario.setting.rewards
    noise = s.noise or (0.0,) * s.rewards
    more = More(s.optimizer, s.rollouts, s.prompts, s.seeds, s.epochs, s.lr, noise)
    start = s.p0[:1] if s.arms else s.p0
    state = State(scenario.id, compare, start, s.scale or ones[: len(s.p0)], s.weights or ones, bool(s.gate), more, method)
    if s.arms:
        return replace(state, pays=s.scale or ones)
    if scenario.from_marks and lab is not None:
        return replace(state, start=pass_rates(lab.marks), pays=tuple(lab.pays), weights=tuple(lab.weights))
    return state


def setting_of(state: State, scenario: Scenario) -> Setting:
    """What the controls add up to."""
    own, more = scenario.setting, state.more
    p0 = (state.start[0], round(1 - REST - state.start[0], 6), REST) if own.arms else state.start
    return replace(
        own,
        p0=p0,
        scale=_unless_ones(state.pays),
        weights=_unless_ones(state.weights),
        noise=more.noise if any(more.noise) else None,
        gate=(1, 0) if state.gate else None,
        match_scale=COMPARISONS[state.compare],
        **{name: value for name, value in vars(more).items() if name != "noise"},
    )


def _unless_ones(values: Sequence[float]) -> tuple[float, ...] | None:
    return None if all(x == 1 for x in values) else tuple(values)


def checked(asked: Mapping[str, Any], scenarios: Mapping[str, Scenario]) -> State:
    """The state that the browser or a link names; ValueError, KeyError or TypeError where it is none."""
    scenario = scenarios[asked["scenario"]]
    given = state_of(scenario, str(asked["compare"]), str(asked.get("method") or ""))
    more = asked["more"]
    state = replace(
        given,
        **{name: tuple(map(float, asked[name])) for name in ("start", "pays", "weights")},
        gate=bool(asked["gate"]),
        more=More(
            str(more["optimizer"]),
            *(int(more[name]) for name in ("rollouts", "prompts", "seeds", "epochs")),
            float(more["lr"]),
            tuple(map(float, more["noise"])),
        ),
    )
    most = 1 - REST if scenario.setting.arms else 1.0
    fits = (
        state.compare in COMPARISONS
        and (state.method in extras() or not state.method)
        and all(len(getattr(state, n)) == len(getattr(given, n)) for n in ("start", "pays", "weights"))
        and len(state.more.noise) == len(given.more.noise)
        and all(0 < p < most for p in state.start)
        and all(0 < c <= PAYS[-1] for c in state.pays)
        and all(0 <= w <= 10 for w in state.weights)
        and all(0 <= std <= NOISIEST for std in state.more.noise)
        and not (scenario.setting.arms and any(state.more.noise))
        and not (state.gate and not scenario.setting.arms)
        and state.more.optimizer in OPTIMIZERS
        and 1 <= state.more.rollouts <= ROLLOUTS[-1]
        and 1 <= state.more.prompts <= PROMPTS[-1]
        and 1 <= state.more.seeds <= SEEDS[-1]
        and EPOCHS[0] <= state.more.epochs <= EPOCHS[1]
        and RATES[0] <= state.more.lr <= RATES[1]
        and all(map(isfinite, (*state.start, *state.pays, *state.weights)))
    )
    if not fits:
        raise ValueError("out of range")
    return state


def extras() -> dict[str, str]:
    """The methods that can be a third curve."""
    return {key: name for key, name in trained.names().items() if key not in COMPARED}


class Train(anywidget.AnyWidget):
    """Small pictures from a file; the large one is trained in a thread that a change of a control stops."""

    _esm = HERE / "train.js"
    _css = _theme.css(".train") + (HERE / "train.css").read_text(encoding="utf-8")
    choices = traitlets.Dict().tag(sync=True)
    cards = traitlets.Dict().tag(sync=True)  # per comparison and scenario
    drawing = traitlets.Dict().tag(sync=True)
    working = traitlets.Dict().tag(sync=True)  # of which question how much is done
    weighed = traitlets.Dict().tag(sync=True)  # who wins, per weight and method
    folded = traitlets.Dict().tag(sync=True)  # the content of open folds

    def __init__(self, data: Path, session: Session) -> None:
        self._scenarios = {s.id: s for s in load_scenarios(data / "scenarios.json")}
        self._file = gallery.load(data / "gallery.json")
        self._session = session
        self._state = self._brought()
        self._wanted = 0
        super().__init__(
            choices={
                "scenarios": [self._listed(s) for s in self._scenarios.values()],
                "compare": list(TITLES.items()),
                "methods": [["", "no third method"], *extras().items()],
                "stops": {"start": STARTS, "pays": PAYS, "weights": WEIGHTS},
                "sizes": {"rollouts": ROLLOUTS, "prompts": PROMPTS, "seeds": SEEDS},
                "looks": _looks(),
                "questions": [[q, list(map(list, a))] for q, a in QUESTIONS.values()],
                "folds": list(FOLDS.items()),
                "level": LEVEL,
                "same": f"“No difference”: medians within {ALIKE_EPOCHS} epochs or {percent(ALIKE_SHARE)}.",
                "sum": list(gallery.WEIGHTS),
            },
            cards={c: self._cards(c) for c in COMPARISONS},
        )
        self._show(0, self._state)
        self.on_msg(lambda _, message, __: self._asked(message if isinstance(message, dict) else {}))
        self._keep()

    @property
    def state(self) -> State:
        """Where the controls stand now."""
        return self._state

    # --- what the link brings and takes along ---------------------------------------------------------------------

    def _brought(self) -> State:
        start = self._session.start
        name, compare, method = start("train-scenario"), start("train-compare"), start("train-method")
        scenario = self._scenarios.get(name or FIRST)
        if scenario is None:
            self._session.refuse("train-scenario", f"one of {', '.join(self._scenarios)}")
            scenario = self._scenarios[FIRST]
        own = state_of(scenario, scenario.setting.comparison if compare == "equal" else compare, lab=self._lab())
        asked = asdict(own) | {"method": method or ""}
        given = {key: start(f"train-{key}") for key in ("start", "pays", "weights", "more", "gate")}
        more = given.pop("more")
        if more is not None and len(more) == 6 + len(own.more.noise):
            names = ("rollouts", "prompts", "seeds", "epochs", "lr")
            asked["more"] = {"optimizer": OPTIMIZERS[more[0] == 1], **dict(zip(names, more[1:], strict=False)), "noise": more[6:]}
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
            "more": lambda s: _flat(s.more),
        }
        for key, pick in picks.items():
            default = FIRST if key == "scenario" else (lambda pick=pick: pick(given()))
            self._session.keep(f"train-{key}", lambda pick=pick: pick(self._state), default)
        self._session.keep("train-compare", lambda: self._state.compare, lambda: given().compare)
        self._session.programs["train"] = lambda: trained.program(self._setting(self._state), self._methods(self._state))

    def _lab(self) -> Any:
        return getattr(self._session.lab, "state", None)

    # --- what the browser asks ------------------------------------------------------------------------------------

    def _asked(self, asked: Mapping[str, Any]) -> None:
        n = int(asked.get("n", 0))
        if "fold" in asked:
            self._unfold([name for name in asked["fold"] if name in FOLDS])
            return
        self._wanted = n  # whatever runs is stopped
        if asked.get("stop"):
            self.working = {}
            return
        try:
            state = self._chosen(asked) if "choose" in asked else checked(asked, self._scenarios)
        except (TypeError, ValueError, KeyError, AttributeError) as error:
            raise traitlets.TraitError(f"expected the controls of Train, got {asked!s:.80}: {error}") from None
        self._state = state
        self.working = {"n": n, "share": 0.0}
        if trained.ready(self._setting(state), self._methods(state)):
            self._show(n, state)
            self._weigh(n, state)
        else:
            mo.Thread(target=self._train, args=(n, state)).start()

    def _chosen(self, asked: Mapping[str, Any]) -> State:
        scenario, compare = self._scenarios[str(asked["choose"])], str(asked["compare"])
        if compare not in COMPARISONS:
            raise ValueError("compare")
        own = scenario.setting.comparison
        return state_of(scenario, compare if own == "equal" else own, self._state.method, self._lab())

    def _train(self, n: int, state: State) -> None:
        """In a thread of its own; a later question, or the end of the session, stops it."""
        setting, last = self._setting(state), 0.0

        def told(share: float) -> None:
            nonlocal last
            self._go_on(n)
            if share > last + 0.05:
                last = share
                self.working = {"n": n, "share": round(share, 2)}

        try:
            trained.runs(setting, self._methods(state), told)
            self._go_on(n)
            self._show(n, state)
            self._weigh(n, state)
        except Stopped:
            return

    def _go_on(self, n: int) -> None:
        if self._wanted != n or getattr(mo.current_thread(), "should_exit", False):
            raise Stopped

    # --- what it is told ------------------------------------------------------------------------------------------

    def _show(self, n: int, state: State) -> None:
        self.drawing = {"n": n, **draw(state, self._scenarios[state.scenario], self._setting(state), self._methods(state), self._file)}
        self.working = {}

    def _weigh(self, n: int, state: State) -> None:
        """Who wins at which weight; from the file where it has it, else trained."""
        scenario, setting = self._scenarios[state.scenario], self._setting(state)
        if not setting.arms:
            return
        methods = (*COMPARED, state.method) if state.method else COMPARED
        own = replace(scenario.setting, match_scale=setting.match_scale, weights=None, gate=None)
        if replace(setting, weights=None, gate=None) == own and not set(methods) - {"grpo", "grpo_no_std", "gdpo"}:
            found = self._file["weights"][scenario.id][state.compare]
        else:
            def told(share: float) -> None:
                if trained_in_thread():
                    self._go_on(n)

            found = gallery.ends(setting, methods, told)
        self.weighed = {"n": n, **weighed(state, {m: found[m] for m in methods})}

    def _unfold(self, names: Sequence[str]) -> None:
        state = self._state
        setting, scenario, methods = self._setting(state), self._scenarios[state.scenario], self._methods(state)
        made = {
            "how": lambda: trained.how_it_learns(setting),
            "steps": lambda: trained.steps_table(setting, scenario.coins, methods),
            "curves": lambda: trained.curves_table(setting, scenario.coins, methods),
        }
        self.folded = {name: str(made[name]()) for name in names}

    def _setting(self, state: State) -> Setting:
        return setting_of(state, self._scenarios[state.scenario])

    def _methods(self, state: State) -> list[str]:
        return [*COMPARED, *([state.method] if state.method else [])]

    def _listed(self, scenario: Scenario) -> dict:
        return {"id": scenario.id, "title": scenario.title, "arms": bool(scenario.setting.arms), "own": scenario.setting.comparison}

    def _cards(self, compare: str) -> dict:
        """Every card under a comparison, or under the one that it is about; and what they add up to."""
        cards = {}
        for s in self._scenarios.values():
            own = s.setting.comparison
            cards[s.id] = gallery.card(self._file["sketches"][s.id][compare if own == "equal" else own], bool(s.setting.arms))
        counted = [s for s in self._scenarios.values() if not s.setting.arms and s.setting.comparison in ("equal", compare)]
        coins = [cards[s.id]["column"] for s in counted]
        return {"cards": cards, "claim": claim(compare, coins)}


def trained_in_thread() -> bool:
    """Whether this is not the thread that answers the browser."""
    try:
        return mo.current_thread() is not None
    except Exception:  # marimo raises where there is no thread of its own
        return False


def claim(compare: str, columns: Sequence[int]) -> str:
    """What the cards add up to, in a line."""
    faster, slower = columns.count(gallery.FASTER), columns.count(gallery.SLOWER)
    first = {"equal": "At equal step size", "published": "As published,", "neither": "With no last step"}[compare]
    return f"{first} GDPO is faster in {faster} of {len(columns)} set-ups, slower in {slower}"


def _looks() -> dict:
    """How the curve of each method looks; a successor as a third one that is told apart by its dash."""
    grey = _theme.METHODS["grpo_no_std"]
    return {m: [name, *_look(_theme.METHODS.get(m, grey))] for m, name in trained.names().items()}


def _look(look: _theme.Look) -> list[str]:
    return [look.dashes, look.shape]


def _flat(more: More) -> tuple[float, ...]:
    return (
        float(OPTIMIZERS.index(more.optimizer)),
        *(float(getattr(more, name)) for name in ("rollouts", "prompts", "seeds", "epochs", "lr")),
        *more.noise,
    )


def draw(state: State, scenario: Scenario, setting: Setting, methods: Sequence[str], file: Mapping[str, Any]) -> dict:
    """The large picture: curves, the verdict and its reason, and the controls beside it."""
    kind, sentence = trained.said(setting, scenario.coins, methods)
    given = trained.as_given(scenario, setting)
    about = "Why" if given else f"Changed. As it was, “{scenario.title}” shows"
    extra = methods[len(COMPARED) :]
    notes = " ".join(trained.told(scenario, setting, scenario.coins))
    return {
        "state": asdict(state),
        "title": scenario.title,
        "given": given,
        "sub": f"{setting.epochs} epochs · median and {percent(BAND[1] - BAND[0])} band of {count(setting.seeds, 'seed')}",
        "kind": kind,
        "verdict": str(join(sentence, trained.beside(setting, extra), _at_equal(state, scenario, given, file))),
        "why": str(join(tag("b", about), ": ", scenario.lesson_of(state.compare), " ", tag("span", notes, kind="notes"))),
        "panels": trained.panels(setting, scenario.coins, methods),
        "epochs": setting.epochs,
        "rows": _rows(scenario, setting),
        "deeds": ["hurts"] if kind in HURTS else [],
    }


def _rows(scenario: Scenario, setting: Setting) -> list[dict]:
    """The rows of controls: of each reward, at which place of which list its controls stand."""
    if setting.arms:
        return [
            {"name": "being right", "start": 0, "weights": 0},
            {"name": "being short", "pays": 1, "weights": 1},
        ]
    coins = [{"name": coin, "start": k, "pays": k, "weights": k} for k, coin in enumerate(scenario.coins)]
    noises = [{"name": "noise", "weights": k} for k in range(len(coins), scenario.setting.rewards)]
    return coins + noises


def _at_equal(state: State, scenario: Scenario, given: bool, file: Mapping[str, Any]) -> Html | str:
    """Under the other comparisons: what is left at equal step size."""
    if state.compare == "equal" or not given or scenario.setting.arms or scenario.from_marks:
        return ""
    one = file["sketches"][scenario.id]["equal"]
    grpo, gdpo = (max(gallery.never(one[m]["steps"])) for m in COMPARED)
    if inf in (grpo, gdpo):
        return ""
    said = f"With steps of equal size it is {gdpo:g} for GDPO, {grpo:g} for GRPO: {gallery.kind(one, False)}."
    return tag("p", said, kind="beside")


def weighed(state: State, found: Mapping[str, list]) -> dict:
    """Who wins at which weight of brevity, and behind the gate."""
    names = trained.names()
    need = {m: _largest(cells) for m, cells in found.items()}
    right = {m: cells[-1][0] >= LEVEL for m, cells in found.items()}
    each = listing([f"{names[m]} {'none of these' if w is None else decimal(w, 3).rstrip('0') if w != int(w) else f'{w:g}'}" for m, w in need.items()])
    gate = (
        "Behind the gate it wins under every method, at any weight."
        if all(right.values())
        else "Behind this gate it does not win: brevity is a penalty here, and the gate spares wrong answers from it."
    )
    return {
        "rows": [
            {"method": m, "name": names[m], "cells": [{"p": trained.probability(p), "end": _ending(p), "steps": s} for p, s in cells]}
            for m, cells in found.items()
        ],
        "said": str(join(
            tag("p", prose(f"Largest weight of brevity with which the right answer wins: **{each}**. {gate}")),
            tag("p", "Normalising does not know which reward matters more. It moves the weight from which on the right "
                "answer wins; it does not choose it. The gate needs no number, if the gated reward is never below 0; "
                "else gate it to its worst value."),
        )),
    }


def _largest(cells: Sequence[Sequence[Any]]) -> float | None:
    """The largest weight from which on, downwards, the right answer wins."""
    found = None
    for weight, (p, _) in zip(reversed(gallery.WEIGHTS), reversed(cells[:-1]), strict=True):
        if p < LEVEL:
            break
        found = weight
    return found


def _ending(p: float) -> str:
    return "right" if p >= LEVEL else "wrong" if p <= 1 - LEVEL else "open"
