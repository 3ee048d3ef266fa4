"""The depth below the board: how answers are marked, all conventions, and the paper's Fig. 2.

The figure is computed with and without GDPO's batch step.
"""

from functools import lru_cache

from torch import Tensor

import gdpo_core as gc
from gdpo_core._words import decimal, listing, signed
from gdpo_core.board.state import BASE, CHOSEN_METHODS, State
from gdpo_core.conventions import NAMES, exceptions, formulas
from views.html import ROOT, Html, div, join, points, prose, table, tag


def equations() -> str:
    """Return the paper's equations with every symbol named: a section of docs/library.md, as Markdown."""
    text = (ROOT / "docs" / "library.md").read_text(encoding="utf-8")
    return text.partition("## The formulas\n")[2].partition("\n## ")[0]


def side_by_side(total: Tensor, grpo: Tensor, z: Tensor, z_total: Tensor, gdpo: Tensor) -> Html:
    """Return GRPO's and GDPO's computation side by side in a table, a row per answer.

    total: weighted sums of rewards; grpo, gdpo: advantages; z: (answers, rewards) normalised rewards; z_total: their
    weighted sums. All but z are (answers,).
    """
    rows = zip(total, grpo, z, z_total, gdpo, strict=True)
    head = ["answer", "(1) sum", "(2) GRPO", *(f"(4) z {k}" for k in range(1, len(z[0]) + 1)), "(5) sum", "(6) GDPO"]
    values = ([*map(signed, (a, b, *c, d, e))] for a, b, c, d, e in rows)
    return table(head, ([i, *row] for i, row in enumerate(values, 1)), "figures")


def grading() -> Html:
    """Return a sentence on the answers, and a list of what each mark asks of one."""
    marks = (
        "correctness: the answer makes the right calls, with accepted values. Values are converted to the documented "
        "type before they are compared, so a number may be written as text. The requests have the format of BFCL, a "
        "leaderboard whose own checker is stricter: it asks for exact types.",
        "style: the answer is a bare Python call, and every value has the documented type and spelling.",
        "conciseness: no call and no argument can be deleted without changing what is computed; text around the calls "
        "does not count. In the request about a coat, which the selector “Where” above the board offers, conciseness "
        "is not a mark but a score between 0 and 1, which works like a penalty on length: the fewer characters an "
        "answer has, the nearer its score is to 1.",
    )
    return join(
        tag("p", "We wrote the answers by hand to show typical faults. Three programs mark them:"),
        points(marks),
    )


NO_EPS = (
    "The paper adds a small constant, which it also calls ε, to the divisor of GDPO's batch step, but does not say how "
    "large the constant is. In the paper's formulas, as they are computed here, it is 0."
)
ONE_MARK, BOTH_MARKS = ((0, 0), (1, 0)), ((0, 0), (1, 1))  # the paper's Fig. 2: (0, 1) and (0, 2) marks in all


def conventions(state: State, answer: int) -> Html:
    """Return a table of one answer's advantage under every convention, by GRPO and by the chosen method, and sentences
    on the convention of the board.

    The sentences say what that convention does where the formulas leave a choice. answer: the answer's number, from 0.
    """

    def row(c: gc.Convention) -> list[str]:
        both = (_advantage(state, method, c, answer) for method in (BASE, state.method))
        return [c.name, *both, formulas("gdpo", c, len(state.pays))[-1], c.source]

    chosen = gc.CONVENTIONS[state.convention]
    paper = "this library" if chosen == gc.PAPER else ""
    return div(
        "opened",
        tag(
            "p",
            "Trainers differ in small things: what keeps a divisor above 0, what the batch step averages "
            f"over, and which answers an answer is compared with. {_by_tokens()} This is the advantage of answer "
            f"{answer + 1} under each convention:",
        ),
        table(
            ["convention", NAMES[BASE], CHOSEN_METHODS[state.method], "GDPO's batch step", "source"],
            [row(c) for c in gc.CONVENTIONS.values()],
            "wide",
        ),
        tag("p", f"The paper's formulas leave some cases open. This is how {paper or chosen.name} settles them:"),
        points(exceptions(chosen)),
        tag("p", NO_EPS) if paper else "",
    )


def _by_tokens() -> str:
    """Return a sentence on the conventions that weigh answers by tokens, and what a token is here; "" if none does."""
    names = [c.name for c in gc.CONVENTIONS.values() if c.last_step == "tokens"]
    weigh = "weighs" if len(names) == 1 else "weigh"
    return f"{listing(names)} {weigh} answers by their tokens; here each character counts as one." if names else ""


def _advantage(state: State, method: str, c: gc.Convention, answer: int) -> str:
    """Return an answer's advantage with four decimals, or a dash where the convention does not define the method."""
    try:
        a = gc.advantages(state.rewards, method, weights=state.weights, lengths=state.lengths, convention=c)
    except gc.InputError:
        return "–"
    return decimal(a[answer].item(), 4)


@lru_cache(maxsize=1)
def figure_two() -> Html:
    """Return a table of the advantages in the paper's Fig. 2, under GRPO and under GDPO before and after its batch
    step, and a paragraph on it.

    Each prompt of the figure has two answers: the first passes no mark, the second one mark or both.
    """
    both = [ONE_MARK, BOTH_MARKS]
    rows = {
        "GRPO": [_second(rewards, "grpo") for rewards in both],
        "GDPO before its batch step": [_second(rewards, before=True) for rewards in both],
        "GDPO, each prompt alone in its batch": [_second(rewards) for rewards in both],
        "GDPO, both prompts in one batch": [_second(both, prompt=prompt) for prompt in (0, 1)],
    }
    return join(
        table(
            ["", "passes one mark of two", "passes both"],
            [[name, *(f"±{decimal(a)}" for a in values)] for name, values in rows.items()],
        ),
        tag(
            "p",
            prose(
                "Each prompt has two answers. The first passes no mark; the second passes one mark or both. The "
                "paper's Fig. 2 shows GDPO **before** its batch step. If each prompt is alone in its batch, that step "
                "makes the two prompts alike again. The standard deviation divides by n − 1 here and in every trainer "
                f"that we read; the paper does not say so, but only this divisor gives the ±0.7071 in its figure. "
                f"{NO_EPS}"
            ),
        ),
    )


def _second(rewards: object, method: str = "gdpo", prompt: int | None = None, before: bool = False) -> float:
    """Return the advantage of the second answer to a prompt; before: whether GDPO's batch step is left out.

    prompt: the number of that prompt; None where the rewards are of one prompt, without an axis of prompts.
    """
    e = gc.explain(rewards, method)
    a = e.weighted_sums if before else e.advantages
    return (a if prompt is None else a[prompt])[1].item()
