"""The Lab: one instrument on which every control moves everything: bars, ties, verdict, shares and arithmetic."""

import threading
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import anywidget
import torch
import traitlets
from torch import Tensor

import gdpo_core as gc
from gdpo_core import _theme
from gdpo_core._words import count, listing, number, percent, power_of_ten, signed
from gdpo_core.bfcl import REWARDS, Task, grade_all
from gdpo_core.collapse import explain_and_collapse
from gdpo_core.explain import Explanation
from views.link import Session

HERE = Path(__file__).parent
PAYS = (0.1, 0.3, 1.0, 3.0, 10.0, 100.0)
HEAVIEST = 5.0
BASE = "grpo"  # the method on the left
LIMIT_STEP = 0.5
DROWNS = 0.9  # of the update: a reward that takes more leaves the others next to nothing
NEAR = 0.1  # advantages that are no further apart are a near-tie
WHY_TIED = (
    "It can't tell two marks apart when as many answers pass the one as pass the other, or as many pass the one as "
    "fail the other."
)
AIM = "What would change that?"  # at the end of a verdict: a button that leads to the weight of the first mark
Marks = tuple[tuple[int, ...], ...]  # (answers, rewards) of 0 or 1
# Every call of torch lets another thread in: fifty visitors' short computations at once would take three times as long.
IN_TURN = threading.Lock()


@dataclass(frozen=True)
class State:
    """Where the Lab's controls stand."""

    task: int
    marks: Marks
    pays: tuple[float, ...] = (1.0,) * len(REWARDS)
    weights: tuple[float, ...] = (1.0,) * len(REWARDS)
    convention: str = "paper"
    method: str = "gdpo"  # on the right

    @property
    def rewards(self) -> list[list[float]]:
        """(answers, rewards) what each answer is paid."""
        return [[mark * pay for mark, pay in zip(row, self.pays, strict=True)] for row in self.marks]

    @property
    def equal(self) -> bool:
        """Whether a pass of each mark counts the same in GRPO's sum."""
        return len({round(pay * weight, 9) for pay, weight in zip(self.pays, self.weights, strict=True)}) == 1


class Lab(anywidget.AnyWidget):
    """Toggles in the browser, arithmetic here: every change asks with a message, and `drawing` comes back.

    No cell depends on it, so a flip reruns none; other chapters ask the session.
    """

    _esm = HERE / "lab.js"
    _css = _theme.css(".lab") + (HERE / "lab.css").read_text(encoding="utf-8")
    sheets = traitlets.List().tag(sync=True)
    choices = traitlets.Dict().tag(sync=True)
    drawing = traitlets.Dict().tag(sync=True)

    def __init__(self, tasks: Sequence[Task], session: Session) -> None:
        self._sheets = [sheet(task) for task in tasks]
        self._lengths = [tuple(map(len, s["answers"])) for s in self._sheets]
        self._state = self._brought(tasks, session)
        super().__init__(
            sheets=self._sheets,
            choices={
                "rewards": list(REWARDS),
                "pays": list(PAYS),
                "heaviest": HEAVIEST,
                "conventions": [[key, c.name] for key, c in gc.CONVENTIONS.items()],
                "methods": [[key, title] for key, title in methods().items() if key != BASE],
                "base": methods()[BASE],
                "folds": FOLD_TITLES,
                "aim": AIM,
            },
            drawing=self._drawn(0),
        )
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
        session.lab = self
        session.programs["lab"] = lambda: program(self._state, self._lengths[self._state.task])

    @property
    def state(self) -> State:
        """Where the controls stand now."""
        return self._state

    def _untouched(self, tasks: Sequence[Task], pick: Any) -> State:
        """The state a link need not name: the first task, and the graded marks of the task that is shown."""
        task = 0 if pick(State(0, ())) == tasks[0].id else self._state.task
        return State(task, frozen(self._sheets[task]["graded"]))

    def _brought(self, tasks: Sequence[Task], session: Session) -> State:
        """The state that the visitor's link asks for, as far as it fits."""
        graded = [frozen(s["graded"]) for s in self._sheets]
        ids = [task.id for task in tasks]
        wanted = {
            key: session.start(f"lab-{key}") for key in ("task", "marks", "pays", "weights", "convention", "method")
        }
        fits = {
            "task": wanted["task"] in ids,
            "pays": len(wanted["pays"] or ()) == len(REWARDS) and set(wanted["pays"]) <= set(PAYS),
            "weights": len(wanted["weights"] or ()) == len(REWARDS),
            "convention": wanted["convention"] in gc.CONVENTIONS,
            "method": wanted["method"] in methods() and wanted["method"] != BASE,
        }
        task = ids.index(wanted["task"]) if fits["task"] else 0
        shape = [len(row) for row in graded[task]]
        fits["marks"] = [len(row) for row in wanted["marks"] or ()] == shape
        for key, fit in fits.items():
            if wanted[key] is not None and not fit:
                session.refuse(f"lab-{key}", f"something else than {wanted[key]!s:.40}")
        kept = {key: wanted[key] for key in ("pays", "weights", "convention", "method") if fits[key]}
        return State(task, wanted["marks"] if fits["marks"] else graded[task], **kept)

    def _asked(self, message: Any) -> None:
        asked = message if isinstance(message, dict) else {}
        try:
            self._state = checked(asked, [len(s["answers"]) for s in self._sheets])
        except (TypeError, ValueError, KeyError) as error:
            raise traitlets.TraitError(f"expected the Lab's controls, got {asked!s:.80}: {error}") from None
        self.drawing = self._drawn(int(asked.get("n", 0)), asked.get("open"), asked.get("active"))

    def _drawn(self, n: int, opened: Any = None, active: Any = None) -> dict:
        """The drawing of the state, with the folds that are open, of the answer that the reader points at."""
        state = self._state
        lengths, graded = self._lengths[state.task], frozen(self._sheets[state.task]["graded"])
        answer = active if isinstance(active, int) and 0 <= active < len(lengths) else 0
        names = [name for name in opened if name in FOLD_TITLES] if isinstance(opened, list) else []
        with IN_TURN:
            drawing = draw(state, lengths, graded)
            folds = {name: unfold(name, state, lengths, answer) for name in names}
        return {"n": n, "state": asdict(state), **drawing, "folds": folds}


FOLD_TITLES = {
    "conventions": "All conventions: one answer, every training program",
    "figure-two": "0.707 or 1.414? The paper's Fig. 2 in both readings",
}


def unfold(name: str, state: State, lengths: tuple[int, ...], answer: int) -> str:
    """HTML of an open fold."""
    from views import depth  # here, because few readers open one

    pages = {
        "conventions": lambda: depth.conventions(state, lengths, answer),
        "figure-two": lambda: depth.figure_two(state.convention),
    }
    return str(pages[name]())


def methods() -> dict[str, str]:
    """The methods to compare, by key: their titles."""
    return {"grpo": "GRPO", "gdpo": "GDPO", "grpo_no_std": "GRPO without std"} | {
        key: successor.title for key, successor in getattr(gc, "SUCCESSORS", {}).items()
    }


def checked(asked: dict, answers: Sequence[int]) -> State:
    """The state that the browser names; ValueError where it is none."""
    state = State(
        task=int(asked["task"]),
        marks=frozen(asked["marks"]),
        pays=tuple(map(float, asked["pays"])),
        weights=tuple(map(float, asked["weights"])),
        convention=str(asked["convention"]),
        method=str(asked["method"]),
    )
    fits = (
        0 <= state.task < len(answers)
        and len(state.marks) == answers[state.task]
        and all(len(row) == len(REWARDS) and set(row) <= {0, 1} for row in state.marks)
        and len(state.pays) == len(state.weights) == len(REWARDS)
        and all(0 < pay <= PAYS[-1] for pay in state.pays)
        and all(0 <= weight <= HEAVIEST for weight in state.weights)
        and state.convention in gc.CONVENTIONS
        and state.method in methods()
    )
    if not fits:
        raise ValueError("out of range")
    return state


def frozen(marks: Sequence[Sequence[int]]) -> Marks:
    """Marks as a key for a cache."""
    return tuple(tuple(int(mark) for mark in row) for row in marks)


def sheet(task: Task) -> dict:
    """What the browser shows of a task: its answers from GDPO's highest to its lowest, with what the graders say."""
    grades = grade_all(task)
    marks = tuple(g.vector for g in grades)
    order = sorted(range(len(marks)), key=lambda i: (-_advantages(marks, "gdpo")[i], -_advantages(marks, "grpo")[i], i))
    return {
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
    levels: list[int]  # per answer, the number of its advantage, 0 = lowest
    ties: list[dict]  # the advantages that answers with different marks share, highest first


@lru_cache(maxsize=2048)
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
        levels,
        _ties(state.marks, levels),
    )


@lru_cache(maxsize=2048)
def draw(state: State, lengths: tuple[int, ...], graded: Marks) -> dict:
    """Everything the Lab draws of a state."""
    left, right = seen(state, BASE, lengths), seen(state, state.method, lengths)
    answers = range(len(state.marks))
    largest = max(abs(a) for one in (left, right) for a in one.advantages)
    return {
        "a": [left.advantages, right.advantages],
        "order": sorted(answers, key=lambda i: (-right.levels[i], -left.levels[i], i)),
        "limit": max(1.0, LIMIT_STEP * -(-largest // LIMIT_STEP)),
        "ties": [left.ties, right.ties],
        "levels": [len(set(left.levels)), len(set(right.levels))],
        "mixes": len(set(state.marks)),
        "verdict": verdict(state, left, right),
        "shares": [_shares(left.collapsed), _shares(right.collapsed)],
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


# --- the verdict -------------------------------------------------------------------------------------------------


def verdict(state: State, left: Seen, right: Seen) -> list[str]:
    """What this state shows, bold between two `**`: first what is told apart, then what that is worth."""
    mixes, a, b = len(set(state.marks)), "GRPO", methods()[state.method]
    if mixes == 1:
        return [
            "All answers have the same marks, so every advantage is 0.",
            "Nothing can be learnt from this request, under either method.",
        ]
    kept = [len(set(one.levels)) for one in (left, right)]
    if left.collapsed.tied_pair_count:
        of = f"all {mixes}" if kept[1] == mixes else str(kept[1])
        first = f"{a} gives {mixes} different mixes of marks only **{count(kept[0], 'advantage')}**, {b} **{of}**."
    elif right.collapsed.tied_pair_count:
        first = f"{a} tells all {mixes} mixes of marks apart, {b} keeps **{kept[1]}**."
    else:
        first = f"No tie: {a} and {b} both give each of the {mixes} mixes of marks **an advantage of its own**."
    return [first, _worth(state, left, right, a, b)]


def _worth(state: State, left: Seen, right: Seen, a: str, b: str) -> str:
    """The second sentence: whether telling apart helped the right answers, or what is left once nothing ties."""
    wrong, of = _wrong_first(state.marks, right.levels)
    before, _ = _wrong_first(state.marks, left.levels)
    tied = f" {b} still ties {count(right.collapsed.tied_pair_count, 'pair')}. {WHY_TIED}"
    still = tied if right.collapsed.tied_pair_count and state.method == "gdpo" else ""
    if left.collapsed.tied_pair_count and left.levels == right.levels:
        return f"{b} ties them too." + (f" {WHY_TIED}" if state.method == "gdpo" else "")
    if wrong:
        low, high = max(wrong, key=lambda pair: right.levels[pair[0]] - right.levels[pair[1]])
        more = "" if not before else f" {a} does so in {len(before)}."
        return (
            f"But answer **{low + 1}**, wrong, stands above answer **{high + 1}**, right, as in "
            f"{len(wrong)} of {count(of, 'such pair')} under {b}.{more}{still} {AIM}"
        )
    if not left.collapsed.tied_pair_count and not state.equal:
        return _left_over(left, right, a, b)
    split = _split(state.marks, left.levels, right.levels)
    if split:
        right_first = f"{b} splits {count(split, 'such pair')} and puts **the right one first** in all."
        return f"{a} ties wrong answers with right ones; {right_first}{still}"
    if before:
        return f"{a} puts a wrong answer above a right one in {count(len(before), 'pair')}, {b} in none.{still}"
    return f"No wrong answer stands above a right one under {b}.{still}"


def _left_over(left: Seen, right: Seen, a: str, b: str) -> str:
    """What unequal pay and weights leave once they have broken the ties: near-ties, and who takes the update."""
    near, largest = [], []
    for name, one in ((a, left), (b, right)):
        values = sorted({round(x, 9) for x in one.advantages})
        gap = min((y - x for x, y in pairwise(values)), default=0)
        near += [f"{name}'s closest two differ by {number(gap, 2)}"] if 0 < gap <= NEAR else []
        top = max(range(len(REWARDS)), key=lambda k, c=one.collapsed: c.update_share[k])
        largest.append(f"{REWARDS[top]} {percent(one.collapsed.update_share[top])} under {name}")
    end = f"; {listing(near)}" if near else ""
    return f"Unequal pay or weights break the ties as well. What is left: the update goes to {listing(largest)}{end}."


def _split(marks: Marks, before: list[int], after: list[int]) -> int:
    """The number of pairs of a wrong and a right answer that tie before and no longer do after."""
    pairs = [(i, j) for i, row in enumerate(marks) if not row[0] for j, other in enumerate(marks) if other[0]]
    return sum(before[i] == before[j] and after[i] != after[j] for i, j in pairs)


def _wrong_first(marks: Marks, levels: list[int]) -> tuple[list[tuple[int, int]], int]:
    """The pairs (wrong, right) in which the wrong answer gets more, and the number of all such pairs."""
    pairs = [(i, j) for i, row in enumerate(marks) if not row[0] for j, other in enumerate(marks) if other[0]]
    return [(i, j) for i, j in pairs if levels[i] > levels[j]], len(pairs)


# --- the arithmetic of one answer ------------------------------------------------------------------------------------


def arithmetic(one: Seen) -> list[list[tuple[str, str]]]:
    """Per answer, the whole computation of its advantage in one line: pieces of text, each with its class or none."""
    e, c = one.explained, one.explained.convention
    raw, answers = e.z is None, len(one.sums)
    show = _plain if raw else signed
    times = ["" if weight == 1 else f"{_plain(weight)}·" for weight in e.weights.tolist()]
    lines = []
    for values, total in zip(one.terms, one.sums, strict=True):
        line = [
            (" + " if raw else " ", "") if piece else (f"{times[k]}{show(value)}", f"r{k}")
            for k, value in enumerate(values)
            for piece in (1, 0)
        ][1:]
        lines.append([*line, (f" = {_plain(total)}", "")])
    results = [(signed(a), "result") for a in one.advantages]
    last = e.method == "gdpo" and not raw
    if not last and e.method not in ("grpo", "grpo_no_std"):
        return [[*line, (" → ", ""), result] for line, result in zip(lines, results, strict=True)]
    statistics = (e.batch_mean, e.batch_std) if last else (e.group_means, e.group_stds)
    means, stds = (_per_answer(x, answers) for x in statistics)
    eps, root = (c.batch_eps, c.batch_eps_to == "variance") if last else (c.sum_eps, False)
    return [
        [*line, (f" → {_normalising(e.method, total, mean, std, eps, root)} = ", ""), result]
        for line, result, total, mean, std in zip(lines, results, one.sums, means, stds, strict=True)
    ]


def _per_answer(x: float | Tensor | None, answers: int) -> list[float]:
    """A statistic of the group, or with leave-one-out of the others, per answer."""
    value = torch.as_tensor(x).tolist()
    return value if isinstance(value, list) else [value] * answers


def _normalising(method: str, total: float, mean: float, std: float, eps: float, root: bool) -> str:
    """How a weighted sum becomes an advantage."""
    top = f"({_plain(total)} − {_bracket(mean)})" if round(mean, 2) else _plain(total)
    if method == "grpo_no_std":
        return top
    if std == 0:
        return "0, since all are equal"
    divisor = f"√({number(std, 3)}² + {power_of_ten(eps)})" if root else _divisor(std, eps)
    return f"{top} ÷ {divisor}"


def _divisor(std: float, eps: float) -> str:
    return f"({number(std, 3)} + {power_of_ten(eps)})" if eps else number(std, 3)


def _plain(x: float) -> str:
    """At most two decimals."""
    text = f"{x:.2f}".rstrip("0").rstrip(".")
    return "0" if text in ("-0", "") else text.replace("-", "−")


def _bracket(x: float) -> str:
    return f"({_plain(x)})" if x < 0 else _plain(x)


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
    needs_lengths = gc.CONVENTIONS[state.convention].last_step == "tokens"
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
        f"for method in ({BASE!r}, {state.method!r}):",
        f"    a = gc.advantages(rewards, method, weights={list(state.weights)}{options}"
        + (f", lengths={list(lengths)})" if needs_lengths else ")"),
        "    print(method, [round(x, 2) for x in a.tolist()])",
    ]
    return "\n".join(lines) + "\n"
