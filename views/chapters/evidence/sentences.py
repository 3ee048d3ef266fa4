"""Sentences of the chapter Evidence on the answers that are drawn for each prompt. The values of the chapter's controls
for the address of the page, and the program that prints the chapter's numbers, are here too.
"""

from functools import lru_cache
from typing import Any

from gdpo_core.shared.words import count, listing, percent
from views.bfcl import Published
from views.bfcl.prompts import DRAWS, REWARDS, Choice, Outcomes, Spread, marks_of, models, outcomes, ties_of
from views.widgets import glossary
from views.widgets.html import Html, join, prose, tag

_UNLIKE = (1.0, 0.9, 0.8)  # weights of which no two are equal, and none is the sum of the others


def squares_are(data: Published, choice: Choice) -> Html:
    """Return sentences on what a square, a tie and the wrong order are."""
    whole = len(data.models)
    who = f"all {whole} configurations, which cover {models(data)} models"
    if choice.group_size < whole:
        who = f"{choice.group_size} of {whole} configurations of {models(data)} models"
    sentence = join(
        f"Each square is a prompt. Its {choice.group_size} answers come from {who}, not from one ",
        glossary.term("policy"),
        ". Two answers with different marks and the same advantage are a ",
        glossary.term("tie"),
        ". A right and a wrong answer are in the ",
        tag("b", "wrong order"),
        " if the wrong one gets the larger advantage.",
    )
    return tag("p", sentence, kind="note")


def ties(data: Published, choice: Choice, result: Outcomes) -> Html:
    """Return a question of the chapter and its answer: in how many prompts each method ties answers."""
    grpo, gdpo = (f"{count(n)} ({percent(n / len(data.tasks))})" for n in result.tied.values())
    every = count(len(data.tasks), "prompt")
    now = (
        "All marks have the same weight here"
        if choice.weight == 1
        else f"Correctness weighs {choice.weight:g} here, the other marks 1"
    )
    tied = f"GRPO ties answers with different marks in {grpo}, GDPO in {gdpo}"
    answer = f"**Among published answers to {every}, {tied}.** {now}; {unlike(data, choice.weighing(1))}."
    return join(
        tag("h2", "How often does GRPO tie answers that differ?", kind="section"),
        tag("p", prose(answer), kind="answer"),
        squares_are(data, choice),
    )


@lru_cache(maxsize=64)
def unlike(data: Published, choice: Choice) -> str:
    """Return the end of a sentence: in how many prompts GRPO and GDPO would tie answers at the weights _UNLIKE, which
    all differ.

    choice: how answers are drawn and graded; its own weights do not count.
    """
    marks = marks_of(data, choice)
    grpo, gdpo = outcomes(marks, ties_of(marks, _UNLIKE)).tied.values()
    rarely = (
        f"GRPO would tie such answers in {count(grpo, 'prompt')}, GDPO in {count(gdpo)}"
        if grpo or gdpo
        else "neither method would tie two answers with different marks in any prompt"
    )
    return f"with the weights {listing(f'{w:g}' for w in _UNLIKE)} {rarely}"


def draws_said(choice: Choice, most: int, spread: Spread) -> str:
    """Return sentences on how far the shares of ties and of wrong orders range over many draws of answers.

    If all answers are drawn, a sentence says that another draw changes nothing.

    choice: says how many answers are drawn from each prompt.
    most: how many answers each prompt has.
    spread: the lowest and highest value of each share.
    """
    if choice.group_size == most:
        return f"All {most} answers to each prompt are here, so that another draw changes nothing."
    grpo, gdpo = (between(*spread.tied[m]) for m in ("grpo", "gdpo"))
    sentence = (
        f"In {DRAWS} draws of {choice.group_size} answers GRPO ties answers in {grpo} of the prompts, GDPO in {gdpo}."
    )
    if spread.wrong is None:
        return f"{sentence} In none of them does GDPO break a tie of a right and a wrong answer."
    few = (
        ""
        if spread.draws == DRAWS
        else f" in the {count(spread.draws, 'draw')} that {'has' if spread.draws == 1 else 'have'} one"
    )
    wrong = between(*spread.wrong)
    return (
        f"{sentence} Of the ties of a right and a wrong answer that GDPO breaks, {wrong} end in the wrong order{few}."
    )


def between(low: float, high: float) -> str:
    """Return a range of shares as text in per cent. It is a single number if the two ends are the same text.

    >>> between(0.38, 0.437), between(0.0, 0.0)
    ('38–44 %', '0 %')
    """
    return percent(low) if percent(low) == percent(high) else f"{percent(low).removesuffix(' %')}–{percent(high)}"


def link(
    choice: Choice, kind: str, prompt: str, opened: dict[str, str], shown_first: dict[str, str]
) -> tuple[dict[str, Any], dict[str, Any], str]:
    """Return a tuple of what `Nav.write` needs: the values of the chapter's controls, the values of two controls before
    a reader moves them, and a program.

    The first two are mappings by the control's key in the address. The program is Python and prints the chapter's
    shares.

    choice: how answers are drawn, graded and weighed.
    kind: the outcome whose squares are highlighted.
    prompt: the name of the open prompt.
    opened: the open set-up and the open forecast, by the control's key in the address.
    shown_first: those that are open before a reader chooses one.
    """
    values = {
        "evidence-group": choice.group_size,
        "evidence-draw": choice.seed,
        "evidence-kind": kind,
        "evidence-graders": ".".join(choice.graders),
        "evidence-weight": choice.weight,
        "evidence-prompt": prompt,
        **opened,
    }
    untouched = {"evidence-graders": ".".join(REWARDS), **shown_first}
    return values, untouched, shares_program(choice)


def shares_program(choice: Choice) -> str:
    """Return a Python program of at most 15 lines that prints the shares of this choice that the chapter shows."""
    return f"""\
import gdpo_core as gc
from views.bfcl import prompts

data = prompts.load_once("data/bfcl_rewards.parquet")
choice = prompts.Choice({choice.group_size}, {choice.seed}, {choice.graders!r}, weight={choice.weight:g})
marks = prompts.marks_of(data, choice)  # (prompts, answers, rewards)
for method in ("grpo", "gdpo"):
    c = gc.collapse(marks, method, weights=choice.weights)
    order = c.order()  # of all pairs of a right and a wrong answer
    print(method, f"{{c.groups_with_ties * c.mixed_groups / c.groups:.0%}} of the prompts with a tie;", end=" ")
    print(*(f"{{name}} {{getattr(order, name) / max(order.pairs, 1):.1%}}" for name in ("right", "tied", "wrong")))
broken = gc.broken_ties(*(gc.collapse(marks, m, weights=choice.weights) for m in ("grpo", "gdpo")))
wrong = int(broken.inverted.sum()) / max(len(broken.lower), 1)
print(len(broken.lower), "broken ties,", f"{{wrong:.0%}} in the wrong order")
"""
