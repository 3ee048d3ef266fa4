"""The Evidence: 963 real prompts as squares, what breaking their ties is worth, and the controls that move both."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from math import ceil
from pathlib import Path
from typing import Any

import anywidget
import marimo as mo
import traitlets

from gdpo_core import _theme
from gdpo_core._errors import InputError
from gdpo_core._html import Html, join, prose, tag
from gdpo_core._words import count, listing, percent
from gdpo_core.bfcl import REWARDS, Published
from gdpo_core.collapse import most_needed
from views import opened, save, terms
from views.html import reason, show
from views.link import Session
from views.prompts import (
    CATEGORIES,
    GRADERS,
    HEAVIEST,
    METHODS,
    OUTCOMES,
    UNLIKE,
    WEIGHTS,
    Choice,
    Found,
    Priorities,
    found,
    models,
    most_of_all,
    priorities,
    published,
    unlike_ties,
)

HERE = Path(__file__).parent
DRAWS = 99  # the last one
LEGEND = {
    "both": "tied by GRPO and by GDPO",
    "wrong": "tied by GRPO; GDPO tells them apart and puts a wrong answer above a right one",
    "apart": "tied by GRPO, told apart by GDPO, none the wrong way round",
    "gdpo": "tied by GDPO alone",
    "untied": "tied by neither",
    "alike": "all {answers} have the same marks: nothing to learn",
}
NAMES = {"grpo": "GRPO", "gdpo": "GDPO"}


@dataclass(frozen=True)
class State:
    """Where the controls stand: the choice, the outcome that is highlighted, the prompt that is open."""

    choice: Choice = field(default_factory=Choice)
    kind: str = ""
    prompt: str = ""  # "": the one with most ties broken the wrong way


class Evidence(anywidget.AnyWidget):
    """Squares in the browser, counts here: every change asks with a message, and `drawing` comes back.

    What lies further down is computed when the reader comes near it, or opens its fold; it comes in `parts`.
    """

    _esm = (HERE / "evidence.js").read_text(encoding="utf-8")
    _css = _theme.css(".evidence") + terms.CSS + save.CSS + (HERE / "evidence.css").read_text(encoding="utf-8")
    fixed = traitlets.Dict().tag(sync=True)
    drawing = traitlets.Dict().tag(sync=True)
    parts = traitlets.Dict().tag(sync=True)

    def __init__(self, data: Published, session: Session) -> None:
        self._data = data
        self._sent: dict[str, object] = {}
        self._state = _brought(data, session)
        kinds = list(dict.fromkeys(data.categories))
        super().__init__(
            fixed={
                "prompts": list(data.tasks),
                "category": [kinds.index(name) for name in data.categories],
                "categories": [CATEGORIES.get(name, name) for name in kinds],
                "outcomes": list(OUTCOMES),
                "largest": len(data.models),
                "draws": DRAWS,
                "heaviest": HEAVIEST,
                "rewards": list(REWARDS),
                "graders": [[[key, words] for key, words in one.items()] for one in GRADERS],
                "parts": PARTS_SHOWN,
                "folds": FOLDS,
                "save": {chart: str(save.links(chart, title)) for chart, title in SHOWN.items()},
            },
            drawing=draw(data, self._state, 0),
        )
        self.on_msg(lambda _, message, __: self._asked(message))
        for key, pick in {
            "evidence-group": lambda s: s.choice.group_size,
            "evidence-draw": lambda s: s.choice.seed,
            "evidence-graders": lambda s: ".".join(s.choice.graders),
            "evidence-weight": lambda s: s.choice.weight,
            "evidence-kind": lambda s: s.kind,
            "evidence-prompt": lambda s: s.prompt,
        }.items():
            session.keep(key, lambda pick=pick: pick(self._state), pick(State()))
        session.programs["evidence"] = lambda: program(self._state.choice)
        for chart in (*SHOWN, *BELOW):
            session.charts[chart] = lambda chart=chart: save.table(numbers(data, self._state.choice, chart))

    @property
    def state(self) -> State:
        """Where the controls stand now."""
        return self._state

    def _asked(self, message: Any) -> None:
        controls = message if isinstance(message, dict) else {}
        try:
            self._state = checked(controls, self._data)
        except (TypeError, ValueError, KeyError) as error:
            raise traitlets.TraitError(f"expected the controls of Evidence, got {controls!s:.80}: {error}") from None
        self.drawing = draw(self._data, self._state, int(controls.get("n", 0)))
        self._send_parts(controls.get("open"))

    def _send_parts(self, wanted: Any) -> None:
        """The parts that are in sight or open and not as they were sent last."""
        names = [name for name in wanted if name in PARTS] if isinstance(wanted, list) else []
        choice = self._state.choice
        new = {name: choice if name in FOLLOW else None for name in names}
        new = {name: key for name, key in new.items() if name not in self._sent or self._sent[name] != key}
        if new:
            self.parts = {name: str(part(self._data, name, choice)) for name in new}
            self._sent |= new


def chapter(path: Path, session: Session) -> Any:
    """What the chapter shows: the widget, or one sentence where its data cannot be used."""
    try:
        data = published(path)
    except InputError as error:
        return show(tag("p", f"The answers to real prompts cannot be shown. {reason(error)}"))
    return mo.ui.anywidget(Evidence(data, session))


def _brought(data: Published, session: Session) -> State:
    """The state that the visitor's link asks for, as far as it fits."""
    keys = ("group", "draw", "weight", "graders", "kind", "prompt")
    wanted = {key: session.start(f"evidence-{key}") for key in keys}
    graders = tuple((wanted["graders"] or "").split("."))
    fits = {
        "graders": _graded(graders),
        "kind": wanted["kind"] in OUTCOMES,
        "prompt": wanted["prompt"] in data.tasks,
    }
    for key, fit in fits.items():
        if wanted[key] and not fit:
            session.refuse(f"evidence-{key}", f"something else than {wanted[key]!s:.40}")
    choice = Choice(
        group_size=min(wanted["group"], len(data.models)),
        seed=wanted["draw"],
        graders=graders if fits["graders"] else REWARDS,
        weight=_on_the_curve(wanted["weight"]),
    )
    return State(choice, *(wanted[key] if fits[key] else "" for key in ("kind", "prompt")))


def _graded(graders: tuple[str, ...]) -> bool:
    return len(graders) == len(GRADERS) and all(name in one for name, one in zip(graders, GRADERS, strict=True))


def _on_the_curve(weight: float) -> float:
    return min(WEIGHTS, key=lambda w: abs(w - weight))


def checked(controls: dict, data: Published) -> State:
    """The state that the browser names; ValueError where it is none."""
    choice = Choice(
        int(controls["group"]), int(controls["draw"]), tuple(controls["graders"]), float(controls["weight"])
    )
    state = State(choice, str(controls.get("kind") or ""), str(controls.get("prompt") or ""))
    fits = (
        2 <= choice.group_size <= len(data.models)
        and 0 <= choice.seed <= DRAWS
        and _graded(choice.graders)
        and 1 <= choice.weight <= HEAVIEST
        and state.kind in ("", *OUTCOMES)
        and state.prompt in ("", *data.tasks)
    )
    if not fits:
        raise ValueError("out of range")
    return replace(state, choice=replace(choice, weight=_on_the_curve(choice.weight)))


# --- what is drawn ------------------------------------------------------------------------------------------------


def draw(data: Published, state: State, n: int) -> dict:
    """Everything above the fold."""
    choice = state.choice
    happened, first = found(data, choice), priorities(data, choice)
    prompt = data.tasks.index(state.prompt) if state.prompt else first.worst
    return {
        "n": n,
        "state": {
            "group": choice.group_size,
            "draw": choice.seed,
            "graders": list(choice.graders),
            "weight": choice.weight,
            "kind": state.kind,
            "prompt": state.prompt,
        },
        **_above(data, choice, happened, first),
        "prompt": prompt,
        "opened": str(opened.prompt(data, choice, prompt, bool(state.prompt))),
    }


def _above(data: Published, choice: Choice, happened: Found, first: Priorities) -> dict:
    counts = happened.outcome.bincount(minlength=len(OUTCOMES)).tolist()
    answers = f"{choice.group_size} answers"
    return {
        "claim": str(claim(data, choice)),
        "lead": str(lead(data, choice)),
        "outcome": "".join(map(str, happened.outcome.tolist())),
        "legend": [
            [name, count(counts[n]), LEGEND[name].format(answers=answers)]
            for n, name in enumerate(OUTCOMES)
            if counts[n] or name != "gdpo"
        ],
        "title": title(first),
        "worth": str(worth(choice, first)),
        "bars": bars(choice, happened, first),
        "curves": curves(choice, first),
        "never": never_more(choice) if first.pairs else "",
    }


def claim(data: Published, choice: Choice) -> Html:
    """The chapter's claim, of the prompts that are drawn now."""
    tied = found(data, choice).tied_prompts
    n = len(data.tasks)
    shares = [percent(tied[method] / n) for method in METHODS]
    return prose(f"On {count(n)} real prompts GRPO ties different answers in {shares[0]}, GDPO in {shares[1]}")


def lead(data: Published, choice: Choice) -> Html:
    """What a square is, whose answers these are, and the weights without which there are no ties."""
    size, everything = choice.group_size, choice.group_size == len(data.models)
    who = f"{len(data.models)} configurations of {models(data)} models"
    drawn = (
        f"the answers of all {who} (so a draw changes nothing)"
        if everything
        else f"{size} answers drawn from those of {who}"
    )
    now = (
        "**All marks weigh the same here.**"
        if choice.weight == 1
        else f"**Correctness weighs {choice.weight:g} here**, the other marks 1."
    )
    grpo, gdpo = unlike_ties(data, choice).values()
    rarely = (
        f"GRPO ties different answers in {count(grpo, 'prompt')} and GDPO in {count(gdpo)}"
        if grpo or gdpo
        else "neither method ties different answers"
    )
    unlike = f"With weights {listing(f'{w:g}' for w in UNLIKE)} {rarely}."
    return join(
        f"A square is a prompt with {drawn}, which are no samples of one ",
        terms.term("policy"),
        ". A ",
        terms.term("tie"),
        prose(f" is one advantage for different marks. {now} {unlike}"),
    )


def title(first: Priorities) -> str:
    """What breaking ties is worth, in a few words."""
    if not first.broken:
        return "No more resolution than GRPO"
    wrong = first.wrong_at(1)[0]
    return "More resolution, not better priorities" if wrong else "More resolution, and never the wrong answer first"


def worth(choice: Choice, first: Priorities) -> Html:
    """Which answer comes first where GDPO breaks a tie, and from which weight on it is the right one."""
    if not first.pairs:
        return prose("No prompt here has both a right and a wrong answer among those drawn.")
    if not first.broken:
        return prose(
            f"With {choice.group_size} answers GDPO breaks none of the {count(first.grpo_ties)} ties of a right and "
            f"a wrong answer that GRPO has with equal weights. {_all_pairs(first)}"
        )
    now, _, _ = first.wrong_at(choice.weight)
    weighed = f" ({percent(now)} at weight {choice.weight:g})" if choice.weight != 1 else ""
    return prose(
        f"GDPO tells apart {count(first.broken)} of {count(first.grpo_ties)} ties of a right and a wrong answer that "
        f"GRPO has with equal weights, and puts the **wrong one first in {percent(first.wrong_at(1)[0])}**{weighed}. "
        f"The right one is first in all of these once correctness weighs **{_enough(first.broken_needed)}**. "
        f"{_all_pairs(first)}"
    )


def _all_pairs(first: Priorities) -> str:
    """From which weight on the right answer is first in all pairs."""
    if max(first.gdpo_needed, first.grpo_needed) < 1:
        return "Both methods have the right answer first in all pairs."
    return (
        f"For that in all {count(first.pairs)} pairs GDPO needs **{_enough(first.gdpo_needed)}**, "
        f"GRPO **{_enough(first.grpo_needed)}**."
    )


def _enough(needed: float) -> str:
    """A weight with which the right answer is first, with two decimals: rounded up, so that it is true.

    >>> _enough(1.8091), _enough(2.0), _enough(0.3)
    ('1.81', 'just over 2', '1')
    """
    if needed < 1:
        return "1"
    exact = abs(100 * needed - round(100 * needed)) < 1e-6
    return f"just over {needed:g}" if exact else f"{ceil(100 * needed) / 100:g}"


def never_more(choice: Choice) -> str:
    """The most that any group of this size can need."""
    size = choice.group_size
    tie, pair = _enough(most_needed(size)), _enough(most_of_all(size))
    return f"In no group of {size} answers can GDPO need more than {tie} where GRPO ties, {pair} anywhere."


def bars(choice: Choice, happened: Found, first: Priorities) -> list[dict]:
    """Who comes first: of the broken ties under GDPO, of all pairs under both."""
    rows = []
    if first.broken:
        wrong = first.wrong_at(choice.weight)[0]
        shares = {"right": 1 - wrong, "tied": 0.0, "wrong": wrong}
        rows.append((f"the {count(first.broken)} ties that GDPO broke", "gdpo", shares))
    for method, order in happened.order.items():
        if order.pairs:
            shares = {name: getattr(order, name) / order.pairs for name in ("right", "tied", "wrong")}
            rows.append((f"all {count(order.pairs)} pairs", method, shares))
    return [
        {
            "of": of,
            "method": method,
            "name": NAMES[method],
            "parts": [
                [name, share, percent(share, 1 if share < 0.1 else 0)] for name, share in shares.items() if share
            ],
        }
        for of, method, shares in rows
    ]


def curves(choice: Choice, first: Priorities) -> list[dict]:
    """The share with the wrong answer first as correctness weighs more, in two small charts."""
    if not first.pairs:
        return []
    of = {"gdpo": first.gdpo_wrong, "grpo": first.grpo_wrong}
    top = max(0.05, ceil(20 * max(max(values) for values in of.values())) / 20)
    lone = {"gdpo": first.broken_wrong} if first.broken else {}
    ends = {"gdpo": first.gdpo_needed, "grpo": first.grpo_needed}
    charts = [("of the broken ties", 1.0, lone, {"gdpo": first.broken_needed}), ("of all pairs", top, of, ends)]
    return [
        {
            "title": f"wrong answer first, {name}",
            "top": high,
            "label": percent(high),
            "weights": list(WEIGHTS),
            "lines": [[method, NAMES[method], [round(x, 5) for x in values]] for method, values in lines.items()],
            "none": [[m, needed[m], _enough(needed[m])] for m in lines if needed[m] >= 1],
            "said": "; ".join(
                f"{NAMES[m]} {percent(values[0], 1)} at weight 1, none from {_enough(needed[m])}"
                for m, values in lines.items()
            ),
        }
        for name, high, lines, needed in charts
        if lines
    ]


# --- the numbers of the charts --------------------------------------------------------------------------------------

SHOWN = {  # above the fold
    "evidence-prompts": "What happens to each prompt",
    "evidence-first": "Which answer comes first",
    "evidence-weights": "Wrong answer first, as correctness weighs more",
}
BELOW = {  # the part that draws each of the others
    **dict.fromkeys(("evidence-ties", "evidence-pairs", "evidence-broken"), "sizes"),
    **dict.fromkeys(("evidence-marks", "evidence-answers"), "counts"),
    **dict.fromkeys(("evidence-right", "evidence-rest"), "paper"),
}


def numbers(data: Published, choice: Choice, chart: str) -> list[dict]:
    """The rows behind a chart."""
    from views import counts, results, sizes

    rows: dict[str, Callable[[], list[dict]]] = {
        "evidence-prompts": lambda: _prompts(data, choice),
        "evidence-first": lambda: _first(found(data, choice), priorities(data, choice), choice.weight),
        "evidence-weights": lambda: _weights(priorities(data, choice)),
        "sizes": lambda: sizes.numbers(data, choice, chart),
        "counts": lambda: counts.numbers(chart),
        "paper": lambda: results.numbers(chart),
    }
    return rows[BELOW.get(chart, chart)]()


def _prompts(data: Published, choice: Choice) -> list[dict]:
    outcome = found(data, choice).outcome.tolist()
    return [
        {"prompt": name, "category": category, "outcome": OUTCOMES[n]}
        for name, category, n in zip(data.tasks, data.categories, outcome, strict=True)
    ]


def _first(happened: Found, first: Priorities, weight: float) -> list[dict]:
    wrong = first.wrong_at(weight)[0]
    of = [("ties that GDPO breaks", "gdpo", first.broken, (1 - wrong, 0.0, wrong))] if first.broken else []
    of += [
        ("all pairs", m, order.pairs, tuple(x / order.pairs for x in (order.right, order.tied, order.wrong)))
        for m, order in happened.order.items()
        if order.pairs
    ]
    return [
        {"of": what, "method": NAMES[m], "pairs": n, "right first": right, "tied": tied, "wrong first": wrong}
        for what, m, n, (right, tied, wrong) in of
    ]


def _weights(first: Priorities) -> list[dict]:
    columns = {
        "GDPO, of the broken ties": first.broken_wrong,
        "GDPO, of all pairs": first.gdpo_wrong,
        "GRPO, of all pairs": first.grpo_wrong,
    }
    return [{"weight of correctness": w} | {name: x[i] for name, x in columns.items()} for i, w in enumerate(WEIGHTS)]


# --- what lies further down -----------------------------------------------------------------------------------------

PARTS_SHOWN = {  # computed when the reader comes near; on a phone, behind these titles
    "sizes": "More or fewer answers per prompt",
    "counts": "How much can survive",
    "paper": "What the paper measured on language models",
}
FOLDS = {  # computed when opened; the part below which each lies
    "sizes-table": ["sizes", "The curves as a table"],
    "figure-two": ["counts", "The paper's Fig. 2: every group of two answers with two marks, listed"],
    "rounded": ["counts", "The trap: eps and rounding make the collapse vanish"],
    "counts-table": ["counts", "The counts as tables"],
    "paper-table": ["paper", "The paper's tables"],
    "graders": ["about", "What the marks ask for"],
    "gate": ["about", "What a gate on correctness would do to these answers"],
    "whose": ["about", "Whose answers these are"],
}
PARTS = (*PARTS_SHOWN, *FOLDS)
FOLLOW = ("sizes", "sizes-table", "gate")  # the controls


def part(data: Published, name: str, choice: Choice) -> Html:
    """HTML of a part of the chapter; one sentence where its data cannot be used."""
    from views import about, counts, results, sizes  # here: Altair takes longer than all that is drawn at first

    makers: dict[str, Callable[[], Html]] = {
        "sizes": lambda: sizes.part(data, choice),
        "sizes-table": lambda: sizes.tabled(data, choice),
        "counts": counts.part,
        "figure-two": counts.listed,
        "rounded": counts.trap,
        "counts-table": counts.tables,
        "paper": results.part,
        "paper-table": results.tabled,
        "graders": lambda: about.readings(data),
        "gate": lambda: about.gate(data, choice),
        "whose": lambda: about.whose(data),
    }
    try:
        return makers[name]()
    except InputError as error:
        return tag("p", f"This part can't be shown. {error}")


# --- the same numbers from a program ----------------------------------------------------------------------------------


def program(choice: Choice) -> str:
    """A program of at most 15 lines that prints the shares on the screen."""
    weights = ", ".join(f"{w:g}" for w in choice.weights)
    return f"""\
import gdpo_core as gc
from gdpo_core.bfcl import draw, load_published

data = load_published("data/bfcl_rewards.parquet")
marks = data.rewards({choice.graders!r})
models = draw(data, {choice.group_size}, seed={choice.seed})
marks = marks.gather(1, models[..., None].expand(-1, -1, 3))  # (prompts, answers, marks)
for method in ("grpo", "gdpo"):
    c = gc.collapse(marks, method, weights=[{weights}])
    order = c.order()  # of all pairs of a right and a wrong answer
    print(method, f"{{c.groups_with_ties * c.mixed_groups / c.groups:.0%}} of the prompts with a tie;", end=" ")
    print(*(f"{{name}} {{getattr(order, name) / order.pairs:.1%}}" for name in ("right", "tied", "wrong")))
broken = gc.broken_ties(gc.collapse(marks, "grpo"), gc.collapse(marks, "gdpo"))
print(len(broken.lower), "broken ties,", f"{{broken.inverted.double().mean():.0%}} with the wrong answer first")
"""
