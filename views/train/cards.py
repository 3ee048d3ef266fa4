"""The cards of the set-ups, each with a small picture, and the table of weights for the set-ups in which rewards
conflict. data/gallery.json holds the numbers of both, and a test recomputes them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from math import inf
from pathlib import Path
from typing import Any, TypedDict

from gdpo_core._errors import expect
from gdpo_core._html import Html, Row, join, prose, table, tag
from gdpo_core._json import read_json
from gdpo_core._words import count, listing, number
from gdpo_core.board.state import State
from gdpo_core.scenarios import (
    ENDS,
    FASTER,
    LEARNT,
    NEITHER,
    SAME,
    SLOWER,
    VERDICTS,
    Scenario,
    Setup,
    load_scenarios,
    medians,
    verdict_on_arms,
    verdict_on_coins,
)
from views.html import ROOT
from views.train.controls import link_values, scenario_values, setup_of
from views.train.runs import BOTH_METHODS, NAMES, ROOM, program, train
from views.train.words import TITLES, counts, probability

POINTS = 32  # of a small curve
WEIGHTS = (4.0, 2.0, 1.0, 0.9, 0.5, 0.25, 0.125)  # of conciseness, in the table of weights
ROWS = {
    "faster": f"▲ {FASTER}",
    "same": f"= {SAME}",
    "slower": f"▼ {SLOWER}",
    "arms": "Conflict: the right answer wins under",
}
PREDICTED = {"guessed": "Which is faster?", "arms": "Conflict: does the right answer win?"}
COLUMN = dict(
    zip((*VERDICTS, *ENDS), ("same", "faster", "slower", "same", "same", "same", "faster", "slower"), strict=True)
)
WIDTH, HEIGHT = 160, 22


# --- the file --------------------------------------------------------------------------------------------------------


def sketch(setup: Setup) -> dict:
    """Train GRPO and GDPO, and return the numbers of a small picture, a sketch, as a dict.

    Each method follows the coin that it learns last, or the right answer if the policy has arms. "epochs" has at most
    POINTS epochs from 0 on. The last of them is ROOM times the epoch at which both methods have learnt what they
    follow, but at least 8; it is the last epoch of the training if that comes sooner, or if one method never learns.
    There is a dict per method: "steps", the median epochs at which the coins are learnt, None for never; "curve", the
    median probability, at "epochs", of what the method follows; and "last", the final median probability of the first
    coin or of the right answer.
    """
    runs = train(setup)
    steps = {m: medians(run) for m, run in runs.items()}
    followed = {m: 0 if setup.arms else s.index(max(s)) for m, s in steps.items()}
    last = max(steps[m][followed[m]] for m in BOTH_METHODS)
    end = setup.epochs if last == inf else min(setup.epochs, max(8, round(ROOM * last)))
    epochs = sorted({round(end * n / (POINTS - 1)) for n in range(POINTS)})
    return {
        "epochs": epochs,
        **{
            m: {
                "steps": [None if s == inf else int(s) for s in steps[m]],
                "last": round(run.p[:, -1, 0].median().item(), 4),
                "curve": [round(p, 3) for p in run.p[:, epochs, followed[m]].median(0).values.tolist()],
            }
            for m, run in runs.items()
        },
    }


class File(TypedDict):
    """The content of data/gallery.json.

    rates: the pass rate of each reward with which the scenario of the Lab's answers starts.
    sketches: the dict that `sketch` returns, by the scenario's id and by the comparison under which it is trained.
    weights: for the scenarios with arms, by scenario, comparison and method, a list of pairs: one for each of WEIGHTS,
        and a last one for the gate. A pair is the final probability of the right answer, and the epochs until it is
        learnt, None for never.
    """

    rates: list[float]
    sketches: dict[str, dict[str, dict[str, Any]]]
    weights: dict[str, dict[str, dict[str, list[list[float | None]]]]]


@lru_cache(maxsize=2)
def load(data: Path) -> tuple[dict[str, Scenario], File]:
    """Return the scenarios by id, and the content of gallery.json, both from the folder `data`. They are read once.

    Raises InputError if a file cannot be read, or if the scenarios with a sketch (the numbers of a card's small
    picture) in gallery.json are not just those of scenarios.json.
    """
    scenarios = {scenario.id: scenario for scenario in load_scenarios(data / "scenarios.json")}
    path = data / "gallery.json"
    file = read_json(path, File)
    names = list(file["sketches"])
    expect(set(names) == set(scenarios), path.name, "the pictures of all scenarios", ", ".join(names) or "none")
    return scenarios, file


def link(
    scenario: Scenario, setup: Setup, methods: Sequence[str], values: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Any], str]:
    """Return what `Nav.write` needs of the chapter Train: the values of its controls, the values before a reader moves
    them, and a program.

    The first two are mappings by the control's key in the address. Where both have the same value for a control, the
    address leaves the control out. The program is Python and prints the results of the set-up.
    methods: GRPO, GDPO and perhaps a third method.
    values: of the controls of the scenario, by name.
    """
    third = methods[len(BOTH_METHODS)] if len(methods) > len(BOTH_METHODS) else ""
    names = {"train-scenario": scenario.id, "train-compare": setup.comparison, "train-method": third}
    untouched = {
        "train-scenario": next(iter(load(ROOT / "data")[0])),
        "train-compare": scenario.setup.comparison,
        **link_values(scenario_values(scenario)),
    }
    return names | link_values(values), untouched, program(setup, methods)


# --- one card --------------------------------------------------------------------------------------------------------


def kind(sketch: Mapping[str, Any], arms: bool) -> str:
    """Return the verdict on a set-up: one of VERDICTS, or one of ENDS if its policy has arms.

    sketch: the numbers that the function `sketch` returns for it.
    """
    if arms:
        return verdict_on_arms(*(sketch[m]["last"] for m in BOTH_METHODS))
    return verdict_on_coins(*(_never(sketch[m]["steps"]) for m in BOTH_METHODS))


def _never(steps: Sequence[int | None]) -> list[float]:
    """Return the epochs at which the coins or arms of a sketch are learnt, with infinity for None, meaning never."""
    return [inf if s is None else s for s in steps]


def label(sketch: Mapping[str, Any], arms: bool) -> str:
    """Return the verdict on a set-up in a few words. For coins it compares the epochs until the last one is learnt, as
    in "GDPO 1.9× faster"; for three answers (arms) it says under which method the policy ends right, as in "only GDPO
    is right".

    sketch: the numbers that the function `sketch` returns for the set-up.
    arms: whether its policy chooses an answer (True) or has coins (False).

    >>> label({"grpo": {"steps": [37, 14]}, "gdpo": {"steps": [20, 20]}}, False)
    'GDPO 1.9× faster'
    """
    ending = kind(sketch, arms)
    if ending in ENDS[2:]:
        return f"only {ending.split()[2]} is right"
    if arms or ending in (SAME, NEITHER):
        return ending
    grpo, gdpo = (max(_never(sketch[m]["steps"])) for m in BOTH_METHODS)
    if inf in (grpo, gdpo):
        return "only GDPO gets there" if grpo == inf else "only GRPO gets there"
    return f"GDPO {grpo / gdpo:.1f}× faster" if gdpo < grpo else f"GDPO {gdpo / grpo:.1f}× slower"


def _in_short(sketch: Mapping[str, Any], arms: bool) -> str:
    """Return the verdict on a sketch without what the title of the card's row already says, such as "faster".

    For coins: "1.9×" where one method is so many times faster; "only GDPO" where the other one does not learn all
    coins; "neither gets there"; or "" for no difference. For arms: "both", "neither", "GDPO alone" or "GRPO alone".
    """
    ending, words = kind(sketch, arms), label(sketch, arms).split()
    if arms:
        return ending.removeprefix("right under ")
    # A label is like "GDPO 1.9× faster", "only GDPO gets there" or "neither gets there".
    return {SAME: "", NEITHER: ending}.get(ending, words[1] if words[0] == "GDPO" else " ".join(words[:2]))


def _spark(sketch: Mapping[str, Any], arms: bool) -> Html:
    """Draw a sketch: the curves of GRPO and GDPO over the epochs, and a line between the epochs at which the two have
    learnt.

    To have learnt is to have learnt all coins or, with arms, the right answer. The line between the epochs is left out
    if neither method is faster, or if one never learns. A line across the picture marks LEARNT.
    sketch: as the function `sketch` returns it.
    arms: whether the policy has arms.
    """
    low, end = min(0.6, *(min(sketch[m]["curve"]) for m in BOTH_METHODS)), sketch["epochs"][-1]

    def at(epoch: float, p: float) -> str:
        return f"{2 + (WIDTH - 8) * epoch / end:.1f} {HEIGHT - 2 - (HEIGHT - 4) * (p - low) / (1 - low):.1f}"

    lines = [tag("path", kind="learnt", d=f"M{at(0, LEARNT)}L{at(end, LEARNT)}")]
    for m in BOTH_METHODS:
        points = "L".join(at(epoch, p) for epoch, p in zip(sketch["epochs"], sketch[m]["curve"], strict=True))
        lines.append(tag("path", kind=f"curve {m}", d=f"M{points}"))
    there = [max(_never(sketch[m]["steps"][: 1 if arms else None])) for m in BOTH_METHODS]
    column = COLUMN[kind(sketch, arms)]
    if column != "same" and inf not in there:
        lines.append(tag("path", kind=f"gap {column}", d=f"M{at(there[0], LEARNT)}L{at(there[1], LEARNT)}"))
    box = f"0 0 {WIDTH} {HEIGHT}"
    return tag("svg", *lines, viewBox=box, preserveAspectRatio="none", aria_hidden="true")


def facts(scenario: Scenario) -> str:
    """Return in a few words what a reader needs to predict how a set-up ends: starts, pays, weights, noise and so on.

    What has its default, such as equal weights, is left out.

    >>> facts(load(Path("data"))[0]["varying"])
    'start 0.02, 0.1 · pay 1, 6 · noise 0, 1'
    """
    s = scenario.setup
    given = {"start": s.p0[:1] if s.arms else s.p0, "pay": s.scale, "weight": s.weights, "noise": s.noise}
    given["together"] = (s.together,) * (s.together > 0)
    phrases = [f"{name} {', '.join(f'{x:g}' for x in values)}" for name, values in given.items() if values]
    if scenario.from_marks:
        phrases = ["start: pass rates"]
    if s.comparison != "equal":
        phrases.append(TITLES[s.comparison].lower())
    return " · ".join([*phrases, *(["Adam"] if s.optimizer == "adam" else []), *(["gate"] if s.gate else [])])


# --- all of them -----------------------------------------------------------------------------------------------------

Sketches = Mapping[str, Mapping[str, Any]]
Guesses = Mapping[str, str | None]


def sketches(scenarios: Mapping[str, Scenario], file: File, comparison: str, lab: State) -> Sketches:
    """Return the sketch of each scenario, by its id, under a comparison.

    A scenario that is about another comparison alone is sketched under that one. The sketches come from `file`, which
    is as `load` returns it. Only the scenario of the Lab's answers is trained anew, if marks, pays or weights of the
    Lab differ from those for which the file was made.
    lab: the state of the Lab's board.
    """
    by_scenario = {}
    for s in scenarios.values():
        compare = comparison if s.setup.comparison == "equal" else s.setup.comparison
        by_scenario[s.id] = file["sketches"][s.id][compare]
        setup = setup_of(s, compare, scenario_values(s), lab)
        if s.from_marks and setup != s.at(file["rates"]).compared(compare):
            by_scenario[s.id] = sketch(setup)
    return by_scenario


def is_of_another_comparison(scenario: Scenario, comparison: str) -> bool:
    """Return whether a scenario is about a single comparison, and that comparison is not `comparison`."""
    return scenario.setup.comparison not in ("equal", comparison)


def kinds(scenarios: Mapping[str, Scenario], shown: Sketches, comparison: str) -> list[str]:
    """Return the verdict of `kind` on each set-up of coins, for example that GDPO is faster there.

    Set-ups that are made for a single comparison, other than this one, are left out.
    shown: what `sketch` returned for each scenario, by its id.
    comparison: a key of COMPARISONS.
    """
    counted = [s for s in scenarios.values() if not s.setup.arms and not is_of_another_comparison(s, comparison)]
    return [kind(shown[s.id], False) for s in counted]


def summary(scenarios: Mapping[str, Scenario], shown: Sketches, comparison: str, score: str | None) -> Html:
    """Return a paragraph on how the set-ups end, or, for a reader who predicts, on how many predictions were right.

    shown: the sketch of each scenario, by its id.
    score: the sentence on the predictions, "" while nothing is predicted; None for a reader who does not predict.
    """
    if score is not None:
        return tag("p", score or "Choose a set-up and say how it ends; then its curves come.", role="status")
    uncounted = [s for s in scenarios.values() if not s.setup.arms and is_of_another_comparison(s, comparison)]
    arms = [s for s in scenarios.values() if s.setup.arms]
    return tag("p", counts(comparison, kinds(scenarios, shown, comparison), arms, uncounted))


def gallery(scenarios: Mapping[str, Scenario], shown: Sketches, comparison: str, guesses: Guesses | None) -> Html:
    """Return all cards, in a row per verdict. For a reader who predicts verdicts, all are in one row, which tells none.

    Set-ups with arms have a row of their own in either case.
    shown: the sketches, by scenario.
    guesses: by scenario, the verdict that the reader predicted, or None or "" where the reader has not predicted yet;
        in place of the mapping it is None for a reader who does not predict at all.
    """
    places: dict[str, list[Html]] = {name: [] for name in ("guessed", *ROWS)}
    for s in scenarios.values():
        drawn, arms = shown[s.id], bool(s.setup.arms)
        row = "arms" if arms else COLUMN[kind(drawn, arms)]
        places[row if guesses is None or arms else "guessed"].append(_card(s, drawn, comparison, guesses))
    titles = ROWS if guesses is None else PREDICTED
    rows = [tag("h3", title, kind=name) + tag("div", *places[name], kind="set") for name, title in titles.items()]
    return tag("div", *rows, kind="sets", role="radiogroup", aria_label="Set-ups")


def _card(s: Scenario, drawn: Mapping[str, Any], comparison: str, guesses: Guesses | None) -> Html:
    """Return the card of a set-up, with its title.

    If the reader does not predict (`guesses` is None), the card has a small picture and the verdict. Otherwise it has
    no picture: it has facts about the set-up until the reader has predicted it, and then the verdict and whether the
    prediction was right.
    s: the scenario.
    drawn: its sketch.
    comparison: the key of COMPARISONS under which it is drawn.
    guesses: as in `gallery`.
    """
    arms = bool(s.setup.arms)
    another_comparison = is_of_another_comparison(s, comparison)
    ending = f"{label(drawn, arms)}{', by longer steps' if another_comparison else ''}"
    if guesses is None:
        told = tag("span", _in_short(drawn, arms), kind=f"label {COLUMN[kind(drawn, arms)]}")
        body, name = tag("div", _spark(drawn, arms), told), f"{s.title}: {ending}"
    elif not guesses[s.id]:
        body, name = tag("small", facts(s)), f"{s.title}: {facts(s)}"
    else:
        ending = f"{'✓' if guesses[s.id] == kind(drawn, arms) else '✗'} {ending}"
        body, name = tag("span", ending, kind=f"label {COLUMN[kind(drawn, arms)]}"), f"{s.title}: {ending}"
    looks = f"card{' other' if another_comparison else ''}"
    return tag("div", tag("b", s.title), body, kind=looks, role="radio", data_id=s.id, title=name, aria_label=name)


def score(scenarios: Mapping[str, Scenario], shown: Sketches, guesses: Guesses) -> str:
    """Return a sentence on how many predictions were right; "" while nothing is predicted.

    shown: the sketches, by scenario.
    guesses: by scenario, the predicted verdict, or None or "" where none is predicted yet.
    """
    guessed = [s for s in scenarios.values() if guesses[s.id]]
    right = sum(kind(shown[s.id], bool(s.setup.arms)) == guesses[s.id] for s in guessed)
    if not guessed:
        return ""
    last = ", and that was the last one" if len(guessed) == len(scenarios) else ""
    return f"You were right in {right} of {count(len(guessed), 'prediction')}{last}."


# --- the conflict ----------------------------------------------------------------------------------------------------


def weights_table(file: File, scenario: Scenario, setup: Setup) -> Html | str:
    """Return a table of which answer wins at each weight of conciseness and with the gate, a row per method, and
    sentences.

    The right answer wins if its final probability is LEARNT or more, and a wrong one if that probability is 1 − LEARNT
    or less. The result is empty if the reader changed anything in the scenario but weights, gate and comparison.
    file: the content of data/gallery.json, which holds these probabilities.
    """
    as_shipped = replace(scenario.setup, match_scale=setup.match_scale, weights=None, gate=None)
    if replace(setup, weights=None, gate=None) != as_shipped:
        return ""
    endings = file["weights"][scenario.id][setup.comparison]
    here = "gate" if setup.gate else (setup.weights or (1.0, 1.0))[1]
    columns = [*WEIGHTS, "gate"]
    rows = [
        Row([NAMES[m], *(_result(p, column == here) for column, (p, _) in zip(columns, cells, strict=True))], m)
        for m, cells in endings.items()
    ]
    need = {m: _largest(cells) for m, cells in endings.items()}
    each = listing([f"{'none of these' if w is None else number(w)} under {NAMES[m]}" for m, w in need.items()])
    gate = (
        "Behind the gate the right answer wins under every method, at any weight."
        if all(cells[-1][0] >= LEARNT for cells in endings.values())
        else "Behind this gate the right answer does not win: an answer that is not concise pays a penalty here, and "
        "the gate spares wrong answers this penalty."
    )
    sentences = (
        f"The right answer wins if the policy gives it in the end with a probability of {LEARNT:g} or more. Of these "
        f"weights of conciseness, the largest with which the right answer wins is **{each}**. {gate}",
        "Normalising does not know which reward matters more. It moves the weight up to which the right answer wins, "
        "but it does not choose the weight. A gate needs no weight to be found if the gated reward is never below 0; "
        "otherwise let the gate set it to its worst value.",
    )
    caption = (
        "Which answer wins at each weight of conciseness (correctness weighs 1): ✓ the right one, ✗ a wrong one, "
        "~ none. Below: the final probability of the right one."
    )
    head = ["", *(f"{w:g}" for w in WEIGHTS), "gate"]
    return join(table(head, rows, "ends", caption), *(tag("p", prose(sentence)) for sentence in sentences))


def _result(p: float, here: bool) -> Html:
    """Return a cell of `weights_table`: which answer wins, and the final probability of the right answer.

    p: that probability.
    here: whether the reader's set-up has the weight of this cell.
    """
    name, sign = ("right", "✓") if p >= LEARNT else ("wrong", "✗") if p <= 1 - LEARNT else ("open", "~")
    return tag("span", tag("b", sign), tag("small", probability(p)), kind=f"{name}{' here' if here else ''}")


def _largest(cells: Sequence[Sequence[Any]]) -> float | None:
    """Return the largest of WEIGHTS up to which the right answer wins at each weight; None if it does not win at the
    smallest.

    To win, it needs a final probability of LEARNT or more.
    cells: a pair for each of WEIGHTS, and a last one for the gate, which does not count here; the first number of a
        pair is that probability.
    """
    largest = None
    for weight, (p, _) in zip(reversed(WEIGHTS), reversed(cells[:-1]), strict=True):
        if p < LEARNT:
            break
        largest = weight
    return largest
