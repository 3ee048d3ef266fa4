"""What lies under the board: how answers are marked, all conventions, the paper's Fig. 2 in both readings."""

from collections.abc import Sequence
from functools import lru_cache

import gdpo_core as gc
from gdpo_core._html import Html, join, prose, table, tag
from gdpo_core._words import decimal, listing
from gdpo_core.bfcl import Task, grade
from gdpo_core.bfcl.calls import parse_calls
from gdpo_core.bfcl.task import type_error
from gdpo_core.board.state import BASE, METHODS, State
from gdpo_core.conventions import NAMES, exceptions, formulas


def grading(task: Task, answers: Sequence[str]) -> Html:
    """What each mark looks at, and whom BFCL's own checker would judge otherwise."""
    typed = [f"{i + 1}" for i, answer in enumerate(answers) if _right_of_another_type(task, answer)]
    strict = f": here it would fail {listing(typed)}" if typed else ""
    return join(
        tag("p", "The answers are written by hand to show typical faults; three programs mark them, 1 or 0:"),
        tag(
            "ul",
            tag(
                "li",
                "correctness: the calls are the accepted ones. Values are compared after conversion, so a number may "
                f"be written as text. The checker of BFCL, from whose format the task is, wants exact types{strict}.",
            ),
            tag("li", "style: a bare Python call, with every value in the documented type and spelling."),
            tag("li", "conciseness: nothing can be deleted without changing the calls."),
        ),
        tag(
            "p",
            "A mark is what the paper calls a reward; there it can be any number. With positive weights GRPO ties "
            "different marks of 1 and 0 only where pay times weight is the same for two of them, or for one as much as "
            "for the other two together.",
        ),
    )


def _right_of_another_type(task: Task, answer: str) -> bool:
    if not grade(task, answer).correctness.passed:
        return False
    calls, _ = parse_calls(task, answer)
    schemas = {function: parameters["properties"] for function, parameters in task.parameters.items()}
    return any(type_error(value, schemas[c.function][name]) for c in calls for name, value in c.args.items())


NO_EPS = (
    "In the paper GDPO's last step adds an ε of no stated size to its divisor. Computed as in the paper, it is 0 here."
)
ONE_MARK, BOTH_MARKS = ((0, 0), (1, 0)), ((0, 0), (1, 1))  # the paper's Fig. 2: (0, 1) and (0, 2) marks in all


def conventions(state: State, answer: int) -> Html:
    """One answer's advantage under every convention, and what each does where the formulas leave something open."""

    def row(c: gc.Convention) -> list[str]:
        both = (_advantage(state, method, c, answer) for method in (BASE, state.method))
        return [c.name, *both, formulas("gdpo", c, len(state.pays))[-1], c.source]

    chosen = gc.CONVENTIONS[state.convention]
    return join(
        tag(
            "p",
            f"Training programs differ in small things: what guards a division, what the last step averages over, whom "
            f"an answer is compared with. Where tokens count, a character stands for one. Answer {answer + 1} under "
            "each of them:",
        ),
        table(
            ["", NAMES[BASE], METHODS[state.method], "GDPO's last step", "source"],
            [row(c) for c in gc.CONVENTIONS.values()],
            "wide",
        ),
        tag("p", f"What the paper's formulas leave open, {_here(chosen)} settles like this:"),
        tag("ul", *(tag("li", line) for line in exceptions(chosen))),
        tag("p", NO_EPS) if chosen == gc.PAPER else "",
    )


def _here(c: gc.Convention) -> str:
    return "this library" if c == gc.PAPER else c.name


def _advantage(state: State, method: str, c: gc.Convention, answer: int) -> str:
    try:
        a = gc.advantages(state.rewards, method, weights=state.weights, lengths=state.lengths, convention=c)
    except gc.InputError:  # a method that this convention does not define
        return "–"
    return decimal(a[answer].item(), 4)


@lru_cache(maxsize=16)
def figure_two(convention: str) -> Html:
    """The paper's Fig. 2 in both readings: two answers, of which the second passes one mark, or both."""
    c = gc.CONVENTIONS[convention]
    both = [ONE_MARK, BOTH_MARKS]
    before = [_second(rewards, c, before=True) for rewards in both]
    alone = [_second(rewards, c) for rewards in both]
    together = [_second(both, c, prompt=prompt) for prompt in (0, 1)]
    stds = [gc.explain(rewards, "gdpo", convention=c, lengths=[1, 1]).batch_std for rewards in both]
    rows = {
        "GRPO": [_second(rewards, c, "grpo") for rewards in both],
        "GDPO before its last step": before,
        "GDPO, each prompt alone in its batch": alone,
        "GDPO, both prompts in one batch": together,
    }
    divided = " and ".join(f"{decimal(b)} by {decimal(float(s))}" for b, s in zip(before, stds, strict=True))
    return join(
        table(
            ["", "passes one mark of two", "passes both"],
            [[name, *(f"±{decimal(a)}" for a in values)] for name, values in rows.items()],
        ),
        tag(
            "p",
            prose(
                f"Two answers; the first passes nothing. The paper's Fig. 2 prints {listing(map(decimal, _paper()))}: "
                f"GDPO **before** its last step. If a batch holds only this prompt, that step divides {divided}, and "
                f"{_undone(alone)}. {_among(c, together)}"
            ),
        ),
        tag(
            "p",
            "Std divides by n − 1 here and in every framework; the paper does not say so, but the ±0.7071 of its "
            f"figure needs it. {NO_EPS}",
        ),
    )


def _paper() -> list[float]:
    return [_second(rewards, gc.PAPER, before=True) for rewards in (ONE_MARK, BOTH_MARKS)]


def _undone(alone: list[float]) -> str:
    same = decimal(alone[0]) == decimal(alone[1])
    return f"both become {decimal(alone[0])}" if same else f"they become {listing(map(decimal, alone))}"


def _among(c: gc.Convention, together: list[float]) -> str:
    if decimal(together[0]) == decimal(together[1]):
        return f"{c.name} divides group by group even where a batch holds other prompts."
    return f"With other prompts in the batch the difference stays, here {listing(map(decimal, together))}."


def _second(
    rewards: object, c: gc.Convention, method: str = "gdpo", prompt: int | None = None, before: bool = False
) -> float:
    """What the second answer gets, of that prompt if there are several; before: without GDPO's last step."""
    lengths = [1, 1] if prompt is None else [[1, 1]] * len(rewards)  # type: ignore[arg-type]
    e = gc.explain(rewards, method, convention=c, lengths=lengths)
    a = e.weighted_sums if before else e.advantages
    return (a if prompt is None else a[prompt])[1].item()
