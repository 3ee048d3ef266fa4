"""The folds below the board: the formulas with a computation step by step, how answers are marked, every convention,
and the paper's Fig. 2. The figure is computed with and without GDPO's batch step.
"""

from functools import lru_cache

from torch import Tensor

import gdpo_core as gc
from gdpo_core.board.state import BASE, CHOSEN_METHODS, State
from gdpo_core.conventions import NAMES, exceptions, formulas
from gdpo_core.shared.words import decimal, listing, signed
from views.widgets.html import ROOT, Html, div, join, points, prose, table, tag


def equations() -> str:
    """Return a section of docs/library.md as Markdown: the paper's equations with every symbol named."""
    text = (ROOT / "docs" / "library.md").read_text(encoding="utf-8")
    return text.partition("## The formulas\n")[2].partition("\n## ")[0]


def side_by_side(total: Tensor, grpo: Tensor, z: Tensor, z_total: Tensor, gdpo: Tensor) -> Html:
    """Return a table of GRPO's computation beside GDPO's, a row per answer.

    total: (answers,), the weighted sums of the rewards.
    grpo, gdpo: (answers,), the advantages.
    z: (answers, rewards), the normalised rewards.
    z_total: (answers,), the weighted sums of z.
    """
    rows = zip(total, grpo, z, z_total, gdpo, strict=True)
    head = ["answer", "(1) sum", "(2) GRPO", *(f"(4) z {k}" for k in range(1, len(z[0]) + 1)), "(5) sum", "(6) GDPO"]
    values = ([*map(signed, (a, b, *c, d, e))] for a, b, c, d, e in rows)
    return table(head, ([i, *row] for i, row in enumerate(values, 1)), "figures")


def grading() -> Html:
    """Return a sentence on where the answers come from, and a list of what an answer has to be to pass each mark."""
    marks = (
        "correctness: the answer makes the right calls, with accepted values. Values are converted to the documented "
        "type before they are compared, so a number may be written as text. The requests have the format of BFCL, a "
        "leaderboard whose own checker is stricter: it asks for exact types.",
        "style: the answer is a bare Python call, and every value has the documented type and spelling.",
        "conciseness: no call and no argument can be deleted without changing what is computed; text around the calls "
        "does not count. In the request about a coat, which the row “Cases” above the board offers, conciseness "
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
    """Return a table of one answer's advantages, a row per convention, and sentences on the convention of the board.

    A row has the advantage under GRPO, and the advantage under the method beside GRPO on the board. The sentences say
    what the board's convention does where the paper's formulas leave a choice.

    answer: the answer's number, from 0.
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
    """Return a sentence on the conventions that weigh answers by their tokens, and on what counts as a token here; ""
    if no convention does.
    """
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
    """Return a table of the advantages in the paper's Fig. 2 under GRPO and GDPO, and a paragraph on it. It is made
    once.

    Each prompt of the figure has two answers: the first passes no mark, the second one mark or both marks. GDPO is
    shown before its batch step and after it. The batch step is shown twice: with each prompt alone in its batch, and
    with both prompts in one batch.
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
                "that we read; the paper does not say so, but only this divisor gives the ±0.7071 "
                f"in its figure. {NO_EPS}"
            ),
        ),
    )


def _second(rewards: object, method: str = "gdpo", prompt: int | None = None, before: bool = False) -> float:
    """Return the advantage of the second answer to a prompt under a method.

    rewards: (answers, rewards) of one prompt, or (prompts, answers, rewards).
    prompt: the number of the prompt, from 0, if there are several; None for one prompt.
    before: whether GDPO's batch step is left out.
    """
    e = gc.explain(rewards, method)
    a = e.weighted_sums if before else e.advantages
    return (a if prompt is None else a[prompt])[1].item()
