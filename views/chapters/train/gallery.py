"""The cards of the set-ups, each with a small picture. data/gallery.json holds their numbers, and a test recomputes
them.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from math import inf
from pathlib import Path
from typing import Any, TypedDict

from gdpo_core.board.state import State
from gdpo_core.shared.errors import expect
from gdpo_core.shared.json_files import read_json
from gdpo_core.shared.markup import Html, tag
from gdpo_core.shared.words import count
from views.chapters.train.controls import link_values, scenario_values, setup_of
from views.chapters.train.runs import COMPARED_METHODS, ROOM, train_setup, training_program
from views.chapters.train.train_words import PREDICTIONS_ASKED, WAY_TITLES, comparison_counts
from views.studies.scenarios import (
    ENDS,
    FASTER,
    LEARNT,
    NEITHER,
    NO_DIFFERENCE,
    SLOWER,
    VERDICTS,
    Scenario,
    Setup,
    load_scenarios,
    medians,
    verdict_on_arms,
    verdict_on_coins,
)
from views.widgets.html import ROOT

_POINTS = 32  # of a small curve
_ROWS = {
    "faster": f"▲ {FASTER}",
    "same": f"= {NO_DIFFERENCE}",
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

    Each method follows one thing: the coin that it learns last, or the right answer if the policy has arms.

    "epochs" has at most _POINTS epochs, the first of which is 0. The last is ROOM times the epoch at which both methods
    have learnt what they follow, but at least 8. It is the last epoch of the training if that comes sooner, or if one
    method never learns.

    Under the id of each method is a dict. "steps" has the median epochs at which the coins are learnt, None for never.
    "curve" has the median probability, at each of "epochs", of what the method follows. "last" is the final median
    probability of the first coin or of the right answer.
    """
    runs = train_setup(setup)
    steps = {m: medians(run) for m, run in runs.items()}
    followed = {m: 0 if setup.arms else s.index(max(s)) for m, s in steps.items()}
    last = max(steps[m][followed[m]] for m in COMPARED_METHODS)
    end = setup.epochs if last == inf else min(setup.epochs, max(8, round(ROOM * last)))
    epochs = sorted({round(end * n / (_POINTS - 1)) for n in range(_POINTS)})
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
    weights: for each scenario with arms, by comparison and by method, a list of pairs. There is a pair for each of the
        weights `weights.WEIGHTS` of conciseness, and a last pair for the gate. A pair is the final probability of the
        right answer, and the epochs until it is learnt, None for never.
    """

    rates: list[float]
    sketches: dict[str, dict[str, dict[str, Any]]]
    weights: dict[str, dict[str, dict[str, list[list[float | None]]]]]


@lru_cache(maxsize=2)
def load_gallery(data: Path) -> tuple[dict[str, Scenario], File]:
    """Return the scenarios of scenarios.json by id, and the content of gallery.json. Both files are in the folder
    `data`.

    The results for the last two folders are kept, so that the files of a folder are not read at every call.

    Raises InputError if a file cannot be read. Raises it too if the scenarios with sketches in gallery.json are not
    just the scenarios in scenarios.json.
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
    """Return a tuple of what `Nav.write` needs: the values of the chapter's controls, the values before a reader moves
    them, and a program.

    The first two are mappings by the control's key in the address. The address leaves out a control that has the same
    value in both. The program is Python and prints the results of the set-up.

    scenario: the chosen scenario.
    setup: the set-up that its controls describe.
    methods: GRPO, GDPO and perhaps a third method.
    values: the values of the scenario's controls, by name.
    """
    third = methods[len(COMPARED_METHODS)] if len(methods) > len(COMPARED_METHODS) else ""
    names = {"train-scenario": scenario.id, "train-compare": setup.comparison, "train-method": third}
    untouched = {
        "train-scenario": next(iter(load_gallery(ROOT / "data")[0])),
        "train-compare": scenario.setup.comparison,
        **link_values(scenario_values(scenario)),
    }
    return names | link_values(values), untouched, training_program(setup, methods)


# --- one card --------------------------------------------------------------------------------------------------------


def kind(sketch: Mapping[str, Any], arms: bool) -> str:
    """Return the verdict on a set-up: one of VERDICTS, or one of ENDS if its policy has arms.

    sketch: the numbers that the function `sketch` returns for the set-up.
    arms: whether its policy chooses an answer (True) or has coins (False).
    """
    if arms:
        return verdict_on_arms(*(sketch[m]["last"] for m in COMPARED_METHODS))
    return verdict_on_coins(*(_never(sketch[m]["steps"]) for m in COMPARED_METHODS))


def _never(steps: Sequence[int | None]) -> list[float]:
    """Return the epochs at which the coins or arms of a sketch are learnt, with infinity for None, meaning never."""
    return [inf if s is None else s for s in steps]


def _label(sketch: Mapping[str, Any], arms: bool) -> str:
    """Return the verdict on a set-up in a few words.

    For coins the words compare the epochs until the last coin is learnt, as in "GDPO 1.9× faster". For answers (arms)
    they say under which method the policy ends right, as in "only GDPO is right".

    sketch: the numbers that the function `sketch` returns for the set-up.
    arms: whether its policy chooses an answer (True) or has coins (False).

    >>> _label({"grpo": {"steps": [37, 14]}, "gdpo": {"steps": [20, 20]}}, False)
    'GDPO 1.9× faster'
    """
    ending = kind(sketch, arms)
    if ending in ENDS[2:]:
        return f"only {ending.split()[2]} is right"
    if arms or ending in (NO_DIFFERENCE, NEITHER):
        return ending
    grpo, gdpo = (max(_never(sketch[m]["steps"])) for m in COMPARED_METHODS)
    if inf in (grpo, gdpo):
        return "only GDPO gets there" if grpo == inf else "only GRPO gets there"
    return f"GDPO {grpo / gdpo:.1f}× faster" if gdpo < grpo else f"GDPO {gdpo / grpo:.1f}× slower"


def _in_short(sketch: Mapping[str, Any], arms: bool) -> str:
    """Return the verdict on a sketch without what the title of the card's row already says, such as "faster".

    For coins it is one of four texts:

    - "1.9×" if one method is so many times faster
    - "only GDPO" if GRPO does not learn all coins, and "only GRPO" if GDPO does not
    - "neither gets there"
    - "" for no difference

    For arms it is "both", "neither", "GDPO alone" or "GRPO alone".
    """
    ending, words = kind(sketch, arms), _label(sketch, arms).split()
    if arms:
        return ending.removeprefix("right under ")
    # A label is like "GDPO 1.9× faster", "only GDPO gets there" or "neither gets there".
    return {NO_DIFFERENCE: "", NEITHER: ending}.get(ending, words[1] if words[0] == "GDPO" else " ".join(words[:2]))


def _spark(sketch: Mapping[str, Any], arms: bool) -> Html:
    """Draw a sketch: the curves of GRPO and GDPO over the epochs, and a line across the picture at the probability
    LEARNT.

    A thicker piece of that line is between the epochs at which the two methods have learnt. A method has learnt once it
    has learnt all coins or, with arms, the right answer. The piece is left out if neither method is faster, or if one
    never learns.

    sketch: as the function `sketch` returns it.
    arms: whether the policy has arms.
    """
    low, end = min(0.6, *(min(sketch[m]["curve"]) for m in COMPARED_METHODS)), sketch["epochs"][-1]

    def at(epoch: float, p: float) -> str:
        return f"{2 + (WIDTH - 8) * epoch / end:.1f} {HEIGHT - 2 - (HEIGHT - 4) * (p - low) / (1 - low):.1f}"

    lines = [tag("path", kind="learnt", d=f"M{at(0, LEARNT)}L{at(end, LEARNT)}")]
    for m in COMPARED_METHODS:
        points = "L".join(at(epoch, p) for epoch, p in zip(sketch["epochs"], sketch[m]["curve"], strict=True))
        lines.append(tag("path", kind=f"curve {m}", d=f"M{points}"))
    there = [max(_never(sketch[m]["steps"][: 1 if arms else None])) for m in COMPARED_METHODS]
    column = COLUMN[kind(sketch, arms)]
    if column != "same" and inf not in there:
        lines.append(tag("path", kind=f"gap {column}", d=f"M{at(there[0], LEARNT)}L{at(there[1], LEARNT)}"))
    box = f"0 0 {WIDTH} {HEIGHT}"
    return tag("svg", *lines, viewBox=box, preserveAspectRatio="none", aria_hidden="true")


def facts(scenario: Scenario) -> str:
    """Return in a few words what a reader needs to predict how a set-up ends: starts, pays, weights, noise and so on.

    What has its default, such as equal weights, is left out.

    >>> facts(load_gallery(Path("data"))[0]["varying"])
    'start 0.02, 0.1 · pay 1, 6 · noise 0, 1'
    """
    s = scenario.setup
    given = {"start": s.p0[:1] if s.arms else s.p0, "pay": s.scale, "weight": s.weights, "noise": s.noise}
    given["together"] = (s.together,) * (s.together > 0)
    phrases = [f"{name} {', '.join(f'{x:g}' for x in values)}" for name, values in given.items() if values]
    if scenario.from_marks:
        phrases = ["start: pass rates"]
    if s.comparison != "equal":
        phrases.append(WAY_TITLES[s.comparison].lower())
    return " · ".join([*phrases, *(["Adam"] if s.optimizer == "adam" else []), *(["gate"] if s.gate else [])])


# --- all of them -----------------------------------------------------------------------------------------------------

Sketches = Mapping[str, Mapping[str, Any]]
Guesses = Mapping[str, str | None]


def sketches(scenarios: Mapping[str, Scenario], file: File, comparison: str, lab: State) -> Sketches:
    """Return the sketch of each scenario, by its id, under a comparison.

    A scenario that is about another comparison alone is sketched under that comparison. The scenario of the Lab's
    answers is trained anew if the Lab's marks, pays or weights are not the ones for which the file was made. All other
    sketches come from `file`.

    file: as `load_gallery` returns it.
    comparison: a key of COMPARISONS.
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

    Set-ups that are made for another comparison alone are left out.

    shown: the sketch of each scenario, by its id.
    comparison: a key of COMPARISONS.
    """
    counted = [s for s in scenarios.values() if not s.setup.arms and not is_of_another_comparison(s, comparison)]
    return [kind(shown[s.id], False) for s in counted]


def summary(scenarios: Mapping[str, Scenario], shown: Sketches, comparison: str, score: str | None) -> Html:
    """Return a paragraph on how the set-ups end, or, for a reader who predicts, on how many predictions were right.

    shown: the sketch of each scenario, by its id.
    comparison: a key of COMPARISONS.
    score: the sentence on the predictions, "" while nothing is predicted; None for a reader who does not predict.
    """
    if score is not None:
        return tag("p", score or "Choose a set-up and say how it ends; then its curves come.", role="status")
    uncounted = [s for s in scenarios.values() if not s.setup.arms and is_of_another_comparison(s, comparison)]
    arms = [s for s in scenarios.values() if s.setup.arms]
    return tag("p", comparison_counts(comparison, kinds(scenarios, shown, comparison), arms, uncounted))


def gallery(scenarios: Mapping[str, Scenario], shown: Sketches, comparison: str, guesses: Guesses | None) -> Html:
    """Return all cards, in a row per verdict. For a reader who predicts verdicts, the cards of coins are in one row,
    which tells no verdict. The cards with arms always have a row of their own.

    shown: the sketch of each scenario, by its id.
    comparison: a key of COMPARISONS.
    guesses: by scenario, the verdict that the reader predicted, or None or "" while there is no prediction. For a
        reader who does not predict at all, None stands in place of the mapping.
    """
    places: dict[str, list[Html]] = {name: [] for name in ("guessed", *_ROWS)}
    for s in scenarios.values():
        drawn, arms = shown[s.id], bool(s.setup.arms)
        row = "arms" if arms else COLUMN[kind(drawn, arms)]
        places[row if guesses is None or arms else "guessed"].append(_card(s, drawn, comparison, guesses))
    titles = _ROWS if guesses is None else PREDICTED
    rows = [tag("h3", title, kind=name) + tag("div", *places[name], kind="set") for name, title in titles.items()]
    return tag("div", *rows, kind="sets", role="radiogroup", aria_label="Set-ups")


def _card(s: Scenario, drawn: Mapping[str, Any], comparison: str, guesses: Guesses | None) -> Html:
    """Return the card of a set-up, with its title.

    If the reader does not predict (`guesses` is None), the card has a small picture and the verdict. Otherwise it has
    no picture. It then has facts about the set-up until the reader has predicted it, and from then on the verdict and
    whether the prediction was right.

    s: the scenario.
    drawn: the sketch of the scenario.
    comparison: the key of COMPARISONS that the reader chose.
    guesses: as in `gallery`.
    """
    arms = bool(s.setup.arms)
    another_comparison = is_of_another_comparison(s, comparison)
    ending = f"{_label(drawn, arms)}{', by longer steps' if another_comparison else ''}"
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


def reply(scenario: Scenario, shown: Sketches, guesses: Guesses | None) -> str:
    """Return the reply to what a reader predicted of a scenario, such as “Right: …” or “You said …; …”, with what the
    scenario shows; "" if nothing was predicted.

    shown: the sketch of each scenario, by its id.
    guesses: the predicted verdicts, by the id of the scenario; None where nobody is asked.
    """
    guess, arms = (guesses or {}).get(scenario.id), bool(scenario.setup.arms)
    if not guess:
        return ""
    drawn = shown[scenario.id]
    came = kind(drawn, arms)
    told = PREDICTIONS_ASKED[arms][1][guess]
    first = "Right:" if came == guess else f"You said {told};"
    if arms or came not in (FASTER, SLOWER):
        ends = f"the answer is {came}" if arms else f"there is {came}" if came == NO_DIFFERENCE else came
        return f"{first} {ends}."
    grpo, gdpo = (max(_never(drawn[m]["steps"])) for m in COMPARED_METHODS)
    if inf in (grpo, gdpo):
        return f"{first} only {'GDPO' if grpo == inf else 'GRPO'} gets there."
    return f"{first} GDPO was {count(abs(grpo - gdpo), 'epoch')} {'faster' if gdpo < grpo else 'slower'}."


def score(scenarios: Mapping[str, Scenario], shown: Sketches, guesses: Guesses) -> str:
    """Return a sentence on how many predictions were right; "" while nothing is predicted.

    shown: the sketch of each scenario, by its id.
    guesses: by scenario, the predicted verdict, or None or "" while none is predicted.
    """
    guessed = [s for s in scenarios.values() if guesses[s.id]]
    right = sum(kind(shown[s.id], bool(s.setup.arms)) == guesses[s.id] for s in guessed)
    if not guessed:
        return ""
    last = ", and that was the last one" if len(guessed) == len(scenarios) else ""
    return f"You were right in {right} of {count(len(guessed), 'prediction')}{last}."
