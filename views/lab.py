"""The Lab: one instrument on which every control moves everything: bars, ties, verdict, shares and arithmetic."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from itertools import pairwise, product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import anywidget
import marimo as mo
import torch
import traitlets
from torch import Tensor

import gdpo_core as gc
from gdpo_core import _theme
from gdpo_core._html import Html, join, prose, tag, text
from gdpo_core._words import count, listing, number, percent, power_of_ten, signed, word
from gdpo_core.bfcl import REWARDS, Task, grade_all, load_tasks
from gdpo_core.collapse import explain_and_collapse
from gdpo_core.explain import Explanation
from gdpo_core.successors import kept_shares
from views import TURN, books, save, terms
from views.html import reason, show
from views.link import CONTROLS, Session
from views.state import BASE, HEAVIEST, PAYS, UNDEFINED, Marks, State, checked, frozen, methods

HERE = Path(__file__).parent
LIMIT_STEP = 0.5
DROWNS = 0.9  # of the update: a reward that takes more leaves the others next to nothing
NEAR = 0.1  # advantages that are no further apart are a near-tie
WHY_TIED = (
    "It can't tell two marks apart when as many answers pass the one as pass the other, or as many pass the one as "
    "fail the other."
)
NO_WEIGHT = "A mark without weight tells no answers apart."


def opening(answers: int) -> str:
    """The chapter's claim and what one needs to know before the figure, as Markdown."""
    return f"""
# Different answers, the same advantage

GRPO and GDPO turn an answer's marks into its {terms.term("advantage")}: how hard training pushes towards it, or away.
Here are {word(answers)} answers to one request. GRPO adds the {word(len(REWARDS))} marks, then
{terms.term("normalise", "normalises")}: a wrong answer in good style and a right one in bad style can
{terms.term("tie")}. GDPO normalises each mark first, then adds.
**Flip a mark.**
"""


def chapter(tasks: Path, session: Session) -> mo.Html:
    """The claim and the instrument; one sentence instead of it where a task's file is broken."""
    try:
        loaded = load_tasks(tasks)
    except gc.InputError as error:
        every = tuple(product((0, 1), repeat=len(REWARDS)))  # mix of marks, for the chapters that ask the Lab
        session.lab = SimpleNamespace(state=State(0, every), sheets=[{"answers": ["answer"] * len(every)}])
        return show(tag("p", f"The Lab is closed: {reason(error)}"))
    return mo.vstack([mo.md(opening(len(loaded[0].answers))), mo.ui.anywidget(Lab(loaded, session))])


class Lab(anywidget.AnyWidget):
    """Toggles in the browser, arithmetic here: every change asks with a message, and `drawing` comes back.

    No cell depends on it, so a flip reruns none; other chapters ask the session.
    """

    _esm = (HERE / "lab.js").read_text(encoding="utf-8")
    _css = _theme.css(".lab") + terms.CSS + save.CSS + (HERE / "lab.css").read_text(encoding="utf-8")
    sheets = traitlets.List().tag(sync=True)
    choices = traitlets.Dict().tag(sync=True)
    drawing = traitlets.Dict().tag(sync=True)
    ranking = traitlets.Unicode().tag(sync=True)  # of the books

    def __init__(self, tasks: Sequence[Task], session: Session) -> None:
        self._tasks = list(tasks)
        self._sheets = [sheet(task) for task in tasks]
        self._lengths = [tuple(map(len, s["answers"])) for s in self._sheets]
        self._state = brought(self._sheets, session)
        self._ratings = self._rated(session)
        super().__init__(**shown(self._sheets, self._state))
        self.on_msg(lambda _, message, __: self._asked(message))
        for key, pick in {
            "lab-task": lambda s: tasks[s.task].id,
            "lab-marks": lambda s: s.marks,
            "lab-pays": lambda s: s.pays,
            "lab-weights": lambda s: s.weights,
            "lab-convention": lambda s: s.convention,
            "lab-method": lambda s: s.method,
        }.items():
            session.keep(key, lambda pick=pick: pick(self._state), lambda pick=pick: pick(self._untouched(tasks, pick)))
        session.keep("lab-books", lambda: self._ratings, books.RATINGS)
        session.lab = self
        for chart, rows in zip(CHARTS, (advantages_of, shares_of), strict=True):
            session.charts[chart] = lambda rows=rows: save.table(rows(self._state, self._lengths[self._state.task]))
        session.programs["lab"] = lambda: program(self._state, self._lengths[self._state.task])

    @property
    def state(self) -> State:
        """Where the controls stand now."""
        return self._state

    def _untouched(self, tasks: Sequence[Task], pick: Any) -> State:
        """The state a link need not name: the first task, and the graded marks of the task that is shown."""
        task = 0 if pick(State(0, ())) == tasks[0].id else self._state.task
        return State(task, frozen(self._sheets[task]["graded"]))

    def _rated(self, session: Session) -> tuple[float, ...]:
        """The ratings of the books that the visitor's link asks for, as far as they fit."""
        wanted = session.start("lab-books", books.RATINGS)
        try:
            return books.checked(wanted)
        except ValueError as error:
            session.refuse("lab-books", str(error))
            return books.RATINGS

    def _asked(self, message: Any) -> None:
        controls = message if isinstance(message, dict) else {}
        if "books" in controls:
            try:
                self._ratings = books.checked(controls["books"])
            except (TypeError, ValueError) as error:
                raise traitlets.TraitError(
                    f"expected ratings of the books, got {controls['books']!s:.80}: {error}"
                ) from None
            self.ranking = str(books.ranking(self._ratings))
            return
        try:
            self._state = checked(controls, [len(s["answers"]) for s in self._sheets])
        except (TypeError, ValueError, KeyError) as error:
            raise traitlets.TraitError(f"expected the Lab's controls, got {controls!s:.80}: {error}") from None
        self.drawing = self._drawn(int(controls.get("n", 0)), controls.get("open"), controls.get("active"))

    def _drawn(self, n: int, opened: Any = None, active: Any = None) -> dict:
        """The drawing of the state, with the folds that are open, of the answer that the reader points at."""
        lengths = self._lengths[self._state.task]
        answer = active if isinstance(active, int) and 0 <= active < len(lengths) else 0
        names = [name for name in opened if name in FOLD_TITLES] if isinstance(opened, list) else []
        with TURN:
            folds = {name: self._unfolded(name, answer) for name in names}
            return {**drawn(self._sheets, self._state), "n": n, "folds": folds}

    def _unfolded(self, name: str, answer: int) -> str:
        """HTML of an open fold."""
        from views import depth  # here, because few readers open one

        state, lengths = self._state, self._lengths[self._state.task]
        pages = {
            "marking": lambda: depth.marking(self._tasks[state.task], self._sheets[state.task]["answers"]),
            "conventions": lambda: depth.conventions(state, lengths, answer),
            "figure-two": lambda: depth.figure_two(state.convention),
            "books": lambda: books.shelf(self._ratings),
        }
        return str(pages[name]())


CHARTS = {"lab-advantages": "Advantages of the answers", "lab-shares": "What each reward adds to the update"}
FOLD_TITLES = {
    "marking": "How the answers are marked",
    "conventions": "All conventions: one answer, every training program",
    "figure-two": "0.707 or 1.414? The paper's Fig. 2 in both readings",
    "books": "The same in plain words: five books, three ratings",
}


def brought(sheets: Sequence[dict], session: Session) -> State:
    """The state that the visitor's link asks for, as far as it fits."""
    graded = [frozen(s["graded"]) for s in sheets]
    ids = [s["id"] for s in sheets]
    wanted = {key: session.start(f"lab-{key}") for key in ("task", "marks", "pays", "weights", "convention", "method")}
    expected = {
        "task": f"one of {listing(ids, 'or')}",
        "marks": f"{count(len(graded[0]), 'row')} of {len(REWARDS)} marks",
        "pays": f"{len(REWARDS)} of {listing(map(number, PAYS), 'or')}",
        "weights": f"{len(REWARDS)} numbers",
        "convention": f"one of {listing(gc.CONVENTIONS, 'or')}",
        "method": f"one of {listing([key for key in methods() if key != BASE], 'or')}",
    }
    fits = {
        "task": wanted["task"] in ids,
        "pays": len(wanted["pays"] or ()) == len(REWARDS) and set(wanted["pays"]) <= set(PAYS),
        "weights": len(wanted["weights"] or ()) == len(REWARDS),
        "convention": wanted["convention"] in gc.CONVENTIONS,
        "method": wanted["method"] in methods() and wanted["method"] != BASE,
    }
    if [wanted["method"], wanted["convention"]] in UNDEFINED:
        fits["convention"] = False
        expected["convention"] = f"one in which {methods()[wanted['method']]} is defined"
    task = ids.index(wanted["task"]) if fits["task"] else 0
    shape = [len(row) for row in graded[task]]
    fits["marks"] = [len(row) for row in wanted["marks"] or ()] == shape
    for key, fit in fits.items():
        if wanted[key] is not None and not fit:
            session.refuse(f"lab-{key}", f"{expected[key]}, got “{CONTROLS[f'lab-{key}'].write(wanted[key])!s:.40}”")
    kept = {key: wanted[key] for key in ("pays", "weights", "convention", "method") if fits[key]}
    return State(task, wanted["marks"] if fits["marks"] else graded[task], **kept)


def shown(sheets: Sequence[dict], state: State) -> dict:
    """All that the browser needs to draw a state, by trait."""
    drawing = drawn(sheets, state)
    return {
        "sheets": list(sheets),
        "choices": {
            "rewards": list(REWARDS),
            "pays": list(PAYS),
            "heaviest": HEAVIEST,
            "conventions": [[key, c.name] for key, c in gc.CONVENTIONS.items()],
            "undefined": UNDEFINED,
            "methods": [[key, title] for key, title in methods().items() if key != BASE],
            "base": methods()[BASE],
            "folds": FOLD_TITLES,
            "share": terms.glossary().get("update share", ""),
            "save": [str(save.links(chart, title)) for chart, title in CHARTS.items()],
        },
        "drawing": drawing,
    }


def drawn(sheets: Sequence[dict], state: State) -> dict:
    """The drawing of a state that answers no question yet, with no fold open."""
    task = sheets[state.task]
    drawing = draw(state, tuple(map(len, task["answers"])), frozen(task["graded"]))
    return {"n": 0, "state": asdict(state), **drawing, "folds": {}}


@lru_cache(maxsize=16)
def sheet(task: Task) -> dict:
    """What the browser shows of a task: its answers from GDPO's highest to its lowest, with what the graders say."""
    grades = grade_all(task)
    marks = tuple(g.vector for g in grades)
    order = sorted(range(len(marks)), key=lambda i: (-_advantages(marks, "gdpo")[i], -_advantages(marks, "grpo")[i], i))
    return {
        "id": task.id,
        "title": task.title,
        "request": task.request,
        "answers": [task.answers[i] for i in order],
        "graded": [list(marks[i]) for i in order],
        "reasons": [[getattr(grades[i], name).reason for name in REWARDS] for i in order],
    }


@lru_cache(maxsize=64)
def _advantages(marks: Marks, method: str) -> list[float]:
    return [round(a, 9) for a in gc.advantages(marks, method).tolist()]


@dataclass(frozen=True)
class Seen:
    """One method's computation of one state, and what it can no longer tell apart."""

    explained: Explanation
    collapsed: gc.Collapse
    advantages: list[float]
    terms: list[list[float]]  # (answers, rewards) what the method adds up, before the weights
    sums: list[float]
    kept: list[float]  # per answer, what GD²PO multiplies its sum by; 1 under the other methods
    levels: list[int]  # per answer, the number of its advantage, 0 = lowest
    ties: list[dict]  # the advantages that answers with different marks share, highest first


@lru_cache(maxsize=512)
def seen(state: State, method: str, lengths: tuple[int, ...]) -> Seen:
    """What a method makes of the state."""
    convention = gc.CONVENTIONS[state.convention]
    given: dict[str, Any] = {"weights": state.weights, "convention": convention}
    if convention.last_step == "tokens":
        given["lengths"] = lengths
    explained, collapsed = explain_and_collapse(state.rewards, method, **given)
    levels = collapsed.level.tolist()
    terms = explained.rewards if explained.z is None else explained.z
    return Seen(
        explained,
        collapsed,
        explained.advantages.tolist(),
        terms.tolist(),
        explained.weighted_sums.tolist(),
        kept_shares(state.rewards, **given).tolist() if method == "gd2po" else [1.0] * len(levels),
        levels,
        _ties(state.marks, levels),
    )


@lru_cache(maxsize=512)
def draw(state: State, lengths: tuple[int, ...], graded: Marks) -> dict:
    """Everything the Lab draws of a state."""
    left, right = seen(state, BASE, lengths), seen(state, state.method, lengths)
    answers = range(len(state.marks))
    largest = max(abs(a) for one in (left, right) for a in one.advantages)
    return {
        "a": [left.advantages, right.advantages],
        "said": [[signed(a) for a in one.advantages] for one in (left, right)],
        "order": sorted(answers, key=lambda i: (-right.levels[i], -left.levels[i], i)),
        "limit": max(1.0, LIMIT_STEP * -(-largest // LIMIT_STEP)),
        "ties": [left.ties, right.ties],
        "levels": [len(set(left.levels)), len(set(right.levels))],
        "mixes": len(set(state.marks)),
        "verdict": [str(text(sentence)) for sentence in verdict(state, left, right)],
        "shares": [_shares(left.collapsed), _shares(right.collapsed)],
        "percents": [[percent(x) for x in _shares(one.collapsed) or ()] for one in (left, right)],
        "squared": _squared(state),
        "lines": [list(both) for both in zip(arithmetic(left), arithmetic(right), strict=True)],
        "deeds": deeds(state, left, right, graded, lengths),
    }


def _ties(marks: Marks, levels: list[int]) -> list[dict]:
    sets: dict[int, list[int]] = {}
    for answer, level in enumerate(levels):
        sets.setdefault(level, []).append(answer)
    tied = [(sets[level], len({marks[i] for i in sets[level]})) for level in sorted(sets, reverse=True)]
    return [{"answers": answers, "mixes": mixes} for answers, mixes in tied if mixes > 1]


def _shares(c: gc.Collapse) -> list[float] | None:
    return list(c.update_share) if all(share == share for share in c.update_share) else None


def _squared(state: State) -> str:
    """How unequal weights count in the shares."""
    if len(set(state.weights)) == 1:
        return ""
    alike = state.method not in ("gd2po", "sa_mrpo")  # which change the weights, or leave answers out
    return f"a weight counts squared here, under {methods()[state.method] + ' too' if alike else 'GRPO'}"


def advantages_of(state: State, lengths: tuple[int, ...]) -> list[dict]:
    """Per answer, its marks and its advantage under both methods."""
    both = [(methods()[m], seen(state, m, lengths).advantages) for m in (BASE, state.method)]
    return [
        {"answer": i + 1, **dict(zip(REWARDS, row, strict=True)), **{name: a[i] for name, a in both}}
        for i, row in enumerate(state.marks)
    ]


def shares_of(state: State, lengths: tuple[int, ...]) -> list[dict]:
    """Per reward, what it pays, its weight and its share of the update under both methods."""
    both = [(methods()[m], _shares(seen(state, m, lengths).collapsed)) for m in (BASE, state.method)]
    return [
        {"reward": name, "pays": state.pays[k], "weight": state.weights[k]} | {m: x and x[k] for m, x in both}
        for k, name in enumerate(REWARDS)
    ]


# --- the verdict -------------------------------------------------------------------------------------------------


def verdict(state: State, left: Seen, right: Seen) -> list[str]:  # of text or HTML
    """What this state shows: first what is told apart, then what that is worth."""
    mixes, b = len(set(state.marks)), methods()[state.method]
    if mixes == 1:
        return [
            "All answers have the same marks, so every advantage is 0.",
            "Nothing can be learnt from this request, under either method.",
        ]
    if not any(state.weights):
        return ["All weights are 0, so every advantage is 0.", "Nothing can be learnt: give a mark some weight."]
    kept = [len(set(one.levels)) for one in (left, right)]
    if left.collapsed.tied_pair_count:
        of = f"all {mixes}" if kept[1] == mixes else str(kept[1])
        first = join(
            f"{_alike(state)}GRPO gives {mixes} different ",
            terms.term("mix", "mixes"),
            prose(f" of marks only **{count(kept[0], 'advantage')}**, {b} **{of}**."),
        )
    elif right.collapsed.tied_pair_count:
        only = count(kept[1], "advantage")
        first = prose(f"GRPO tells all {mixes} mixes of marks apart, {b} gives them only **{only}**.")
    else:
        first = prose(f"No tie: GRPO and {b} both give each of the {mixes} mixes of marks **an advantage of its own**.")
    return [first, _worth(state, left, right, b)]


def _alike(state: State) -> str:
    """That GRPO's ties are those of equal pay and weights, where these are equal."""
    return "With equal pay and weights " if len(set(state.pays)) == len(set(state.weights)) == 1 else ""


def _worth(state: State, left: Seen, right: Seen, b: str) -> Html:
    """The second sentence: whether telling apart helped the right answers, or what is left once nothing ties."""
    wrong, of = _wrong_first(state.marks, right.levels)
    before, _ = _wrong_first(state.marks, left.levels)
    tied = right.collapsed.tied_pair_count
    why = f" {WHY_TIED}" if _same_spread(state, right) else f" {NO_WEIGHT}" if 0 in state.weights else ""
    still = f" {b} still ties {count(tied, 'pair')}.{why}" if tied else ""
    if left.collapsed.tied_pair_count and left.levels == right.levels:
        return prose(f"{b} ties them too.{why}")
    if not left.collapsed.tied_pair_count and not state.equal:
        return prose(_left_over(state, left, right, b) + still)
    if wrong:
        mended = _mended(state.marks, left.levels, right.levels, b)
        return join(prose(f"{mended}{_priority(wrong, of, before, right, b, bool(mended))}"), " ", AIM, still)
    if not of:
        return prose(f"{_all_one(state.marks)}, so the other marks alone decide who comes first.{still}")
    split = _split(state.marks, left.levels, right.levels)
    if split:
        right_first = f"{b} splits {count(split, 'such pair')} and puts **the right one first** in all."
        worse = f" GRPO puts a wrong answer above a right one in {count(len(before), 'pair')}." if before else ""
        return prose(f"GRPO ties wrong answers with right ones; {right_first}{worse}{still}")
    if before:
        return prose(f"GRPO puts a wrong answer above a right one in {count(len(before), 'pair')}, {b} in none.{still}")
    return prose(f"No wrong answer stands above a right one under {b}.{still}")


AIM = tag("button", "What would change that?", type="button", kind="link", data_aim="weight")


def _all_one(marks: Marks) -> str:
    return "All answers are right" if marks[0][0] else "No answer is right"


def _mended(marks: Marks, before: list[int], after: list[int], b: str) -> str:
    """Of the ties of a right and a wrong answer those that now put the right one first; empty without any."""
    pairs = [(i, j) for i, row in enumerate(marks) if not row[0] for j, other in enumerate(marks) if other[0]]
    tied = [(i, j) for i, j in pairs if before[i] == before[j]]
    first = sum(after[j] > after[i] for i, j in tied)
    ties = f"Of {count(len(tied), 'tie')} of a right and a wrong answer"
    return f"{ties} {b} puts the right one first in {first}. " if tied else ""


def _priority(wrong: list[tuple[int, int]], of: int, before: list, right: Seen, b: str, mended: bool) -> str:
    """That a wrong answer stands above a right one: the widest case, and how many there are."""
    low, high = max(wrong, key=lambda pair: right.levels[pair[0]] - right.levels[pair[1]])
    more = f", {len(before)} under GRPO" if before else ""
    subject = f"But {b}" if len(wrong) > len(before) else "It also" if mended else b
    return (
        f"{subject} puts answer **{low + 1}**, wrong, above answer **{high + 1}**, right: {len(wrong)} of "
        f"{count(of, 'pair')} of wrong and right{more}."
    )


def _same_spread(state: State, one: Seen) -> bool:
    """Whether every tie is between two marks of equal weight that spread alike: the reason that WHY_TIED gives."""
    passes = [sum(column) for column in zip(*state.marks, strict=True)]
    n = len(state.marks)

    def alike(u: tuple[int, ...], v: tuple[int, ...]) -> bool:
        apart = [k for k in range(len(u)) if u[k] != v[k]]
        if len(apart) != 2:
            return False
        j, k = apart
        return u[j] != u[k] and (passes[j] == passes[k] or passes[j] + passes[k] == n)

    kinds = [{state.marks[i] for i in tie["answers"]} for tie in one.ties]
    return (
        one.explained.z is not None
        and len(set(state.weights)) == 1
        and one.explained.method in ("gdpo", "mo_grpo")
        and bool(kinds)
        and all(alike(u, v) for kind in kinds for u in kind for v in kind if u < v)
    )


def _left_over(state: State, left: Seen, right: Seen, b: str) -> str:
    """What unequal pay and weights leave once they have broken the ties: priorities, near-ties, scale."""
    rest = []
    wrong, of = _wrong_first(state.marks, right.levels)
    before, _ = _wrong_first(state.marks, left.levels)
    if wrong or before:
        rest.append(
            f"of {count(of, 'pair')} a wrong answer comes before the right one "
            f"{_both(len(before), len(wrong), b, 'in ')}"
        )
    for name, one in (("GRPO", left), (b, right)):
        values = sorted(dict(zip(one.levels, one.advantages, strict=True)).values())
        gap = min((y - x for x, y in pairwise(values)), default=0)
        rest += [f"{name}'s closest two only {number(gap, 2)} apart"] if 0 < gap <= NEAR else []
    tops = [(name, _shares(one.collapsed)) for name, one in (("GRPO", left), (b, right))]
    largest = [f"{REWARDS[parts.index(max(parts))]} {percent(max(parts))}" for _, parts in tops if parts]
    rest += [f"{name} gives every answer 0" for name, parts in tops if not parts]
    if len(largest) == len(tops):
        rest.append(f"the largest share of the update: {_both(largest[0], largest[1], b)}")
    lead = "Unequal pay or weights break GRPO's ties too. " if _ties_when_equal(state.marks) else ""
    return f"{lead}What is left: {'; '.join(rest)}."


def _both(one: object, other: object, b: str, before: str = "") -> str:
    """What holds under GRPO and what under the other method."""
    if one == other:
        return f"{before}{one} under both"
    return f"{before}{one} under GRPO, {before}{other} under {b}"


@lru_cache(maxsize=1024)
def _ties_when_equal(marks: Marks) -> bool:
    """Whether GRPO ties different marks of equal pay and weight: those with as many passes."""
    return len({sum(row) for row in marks}) < len(set(marks))


def _split(marks: Marks, before: list[int], after: list[int]) -> int:
    """The number of pairs of a wrong and a right answer that tie before and no longer do after."""
    pairs = [(i, j) for i, row in enumerate(marks) if not row[0] for j, other in enumerate(marks) if other[0]]
    return sum(before[i] == before[j] and after[i] != after[j] for i, j in pairs)


def _wrong_first(marks: Marks, levels: list[int]) -> tuple[list[tuple[int, int]], int]:
    """The pairs (wrong, right) in which the wrong answer gets more, and the number of all such pairs."""
    pairs = [(i, j) for i, row in enumerate(marks) if not row[0] for j, other in enumerate(marks) if other[0]]
    return [(i, j) for i, j in pairs if levels[i] > levels[j]], len(pairs)


# --- the arithmetic of one answer ------------------------------------------------------------------------------------


FINEST = 8  # decimals with which a line is tried at most


def arithmetic(one: Seen) -> list[str]:
    """Per answer, the whole computation of its advantage, in one line.

    ⟨0|…⟩ is what the first reward adds, and the result stands between two `**`. Equal answers share a line.
    Numbers have as many decimals as the line needs to add up as it is printed, two at least.
    """
    n = len(one.sums)
    last = one.explained.batch_std is not None
    mean, std = (one.explained.batch_mean, one.explained.batch_std) if last else (None, None)
    if one.explained.z is None:
        mean, std = one.explained.group_means, one.explained.group_stds
    means, stds = ([0.0] * n, [1.0] * n) if std is None else (_per_answer(mean, n), _per_answer(std, n))
    weights = one.explained.weights.tolist()
    lines: dict[tuple, str] = {}
    keys = [
        (tuple(terms), *rest)
        for terms, *rest in zip(one.terms, one.sums, one.kept, means, stds, one.advantages, strict=True)
    ]
    for key in keys:
        if key not in lines:
            lines[key] = _line(one, list(key[0]), weights, *key[1:])
    return [lines[key] for key in keys]


def _per_answer(x: float | Tensor | None, answers: int) -> list[float]:
    """A statistic of the group, or with leave-one-out of the others, per answer."""
    value = torch.as_tensor(x).tolist()
    return value if isinstance(value, list) else [value] * answers


def _line(
    one: Seen, terms: list[float], weights: list[float], total: float, share: float, mean: float, std: float, a: float
) -> str:
    """The line with the fewest decimals that adds up."""
    for places in range(2, FINEST + 1):
        for fine in (places, places + 1):
            line, adds_up = _tried(one, terms, weights, total, share, mean, std, a, places, fine)
            if adds_up:
                return line
    return line


def _tried(
    one: Seen,
    terms: list[float],
    weights: list[float],
    total: float,
    share: float,
    mean: float,
    std: float,
    a: float,
    places: int,
    fine: int,
) -> tuple[str, bool]:
    """The line with so many decimals, of the terms `fine`, and whether its printed numbers give the printed results."""
    c, method, raw = one.explained.convention, one.explained.method, one.explained.z is None
    terms, weights = [round(x, fine) for x in terms], [round(w, fine) for w in weights]
    s, m = round(total, places), round(mean, places)
    d = float(f"{std:.{places + 1}g}")
    result = f"**{signed(a)}**"
    adds_up = round(abs(sum(w * x for w, x in zip(weights, terms, strict=True)) - s), 9) <= 0.5000001 * 10**-places

    pieces = []
    for k, (w, x) in enumerate(zip(weights, terms, strict=True)):
        times = "" if w == 1 else f"{_plain(w, fine)}·"
        sign = "" if raw else "−" if x < 0 else "+"
        pieces.append(f"⟨{k}|{sign}{times}{_plain(x if raw else abs(x), fine)}⟩")
    sums = (" + " if raw else " ").join(pieces)
    if method == "mo_grpo":
        return f"{sums} = {result}", _near(sum(w * x for w, x in zip(weights, terms, strict=True)), a)
    line = f"{sums} = {_plain(s, places)}"
    if share == 0:
        return f"{line} → left out, as its marks disagree = {result}", adds_up
    top, value = _plain(s, places), s
    if share != 1:
        part = round(share, places + 1)
        top, value = f"{_plain(part, places + 1)}·{_bracket(s, places)}", part * s
    if m:
        top, value = f"({top} − {_bracket(m, places)})", value - m
    if method == "grpo_no_std":
        return f"{line} → {top} = {result}", adds_up and _near(value, a)
    if std == 0:
        if c.leave_one_out and abs(a) > 1e-9:
            return f"{line} → {top}, undivided, as the others are equal = {result}", adds_up and _near(value, a)
        why = "all are equal" if method != "corr_grpo" else "the marks cancel"
        return f"{line} → 0, as {why} = {result}", adds_up
    eps, root = (c.batch_eps, c.batch_eps_to == "variance") if not raw else (c.sum_eps, False)
    eps = 0.0 if method == "corr_grpo" else eps  # its divisor holds it already
    by = d if not eps else (d * d + eps) ** 0.5 if root else d + eps
    shown = _plain(d, 12)
    if eps:
        shown = f"√({shown}² + {power_of_ten(eps)})" if root else f"({shown} + {power_of_ten(eps)})"
    return f"{line} → {top} ÷ {shown} = {result}", adds_up and _near(value / by, a)


def _near(computed: float, a: float) -> bool:
    """Whether what the printed numbers give is printed like the advantage."""
    return abs(computed - round(a, 2)) <= 0.005 + 1e-9  # half a digit may be rounded up or down


def _plain(x: float, places: int = 2) -> str:
    """At most so many decimals."""
    shown = f"{x:.{places}f}"
    shown = shown.rstrip("0").rstrip(".") if "." in shown else shown
    return "0" if shown in ("-0", "") else shown.replace("-", "−")


def _bracket(x: float, places: int) -> str:
    return f"({_plain(x, places)})" if x < 0 else _plain(x, places)


# --- what the tour ticks off --------------------------------------------------------------------------------------


def deeds(state: State, left: Seen, right: Seen, graded: Marks, lengths: tuple[int, ...]) -> list[str]:
    """What the reader has shown with this state."""
    start = State(state.task, graded)
    was = seen(start, BASE, lengths).collapsed.tied_pair_count
    best = [{i for i, level in enumerate(one.levels) if level == max(one.levels)} for one in (left, right)]
    equal = State(state.task, state.marks, state.pays, convention=state.convention, method=state.method)
    shares = _shares(left.collapsed) or [0.0]
    done = {
        "tie-broken": left.collapsed.tied_pair_count < was,
        "best-differs": best[0] != best[1],
        "gdpo-ties": state.method == "gdpo" and right.collapsed.tied_pair_count > 0,
        "right-first": len(set(state.weights)) > 1
        and not _wrong_first(state.marks, right.levels)[0]
        and bool(_wrong_first(equal.marks, seen(equal, state.method, lengths).levels)[0]),
        "drowned": len(set(state.pays)) > 1 and max(shares) >= DROWNS,
    }
    return [name for name, did in done.items() if did]


# --- the same numbers from a program ----------------------------------------------------------------------------------


def program(state: State, lengths: tuple[int, ...]) -> str:
    """A program of at most 15 lines that prints the advantages on the screen."""
    options = "" if state.convention == "paper" else f", convention=gc.{state.convention.upper()}"
    if gc.CONVENTIONS[state.convention].last_step == "tokens":
        options += f", lengths={list(lengths)}"
    marks = ",\n    ".join(
        ", ".join(str(list(row)) for row in state.marks[i : i + 4]) for i in range(0, len(state.marks), 4)
    )
    lines = [
        "import torch",
        "",
        "import gdpo_core as gc",
        "",
        f"marks = torch.tensor([\n    {marks},\n])  # (answers, rewards): {listing(REWARDS)}",
        f"rewards = marks * torch.tensor({list(state.pays)}, dtype=torch.float64)",
        f"options = dict(weights={list(state.weights)}{options})",
        f"for method in ({BASE!r}, {state.method!r}):",
        "    print(method, *(f'{a + 0:+.2f}' for a in gc.advantages(rewards, method, **options).tolist()))",
        "    shares = gc.collapse(rewards, method, **options).update_share",
        "    print('share of the update', *(f'{100 * share:.2f} %' for share in shares))",
    ]
    return "\n".join(lines) + "\n"
