"""The picture with a square per prompt, and its legend, which can highlight one outcome. The colour of a square shows
the prompt's outcome: which of the methods tie answers with different marks, and whether GDPO orders answers wrongly
that GRPO ties.
"""

from functools import lru_cache

from gdpo_core.shared.markup import Html, join, tag
from gdpo_core.shared.words import count
from views.bfcl import Published
from views.bfcl.prompts import OUTCOMES, Outcomes

CATEGORIES = {
    "simple_python": "one function, one call",
    "multiple": "several functions, one call",
    "parallel": "one function, several calls",
    "parallel_multiple": "several functions, several calls",
}
LEGEND = {
    "both": "GDPO ties too",
    "wrong": "GDPO breaks ties, at least one in the wrong order",
    "apart": "GDPO breaks all ties, none in the wrong order",
    "gdpo": "GDPO ties answers",
    "untied": "GDPO ties none either",
    "alike": "nothing to tie: all {answers} answers have the same marks",
}
_LINES = {"GRPO ties answers": ("both", "wrong", "apart"), "GRPO ties none": ("gdpo", "untied", "alike")}
# What a screen reader says of a square, after the name of its prompt.
SAID = {
    "both": "GRPO and GDPO tie answers",
    "wrong": "GDPO breaks a tie in the wrong order",
    "apart": "GDPO breaks GRPO's ties",
    "gdpo": "GDPO alone ties answers",
    "untied": "no tie",
    "alike": "all marks the same",
}


def sort_prompts(data: Published, outcomes: Outcomes) -> list[str]:
    """Return the names of the prompts in the order of their squares: by category, then by outcome, then as in the data.

    Categories stand in the order in which the data begin with them, and outcomes in the order of OUTCOMES.
    """
    kinds = list(dict.fromkeys(data.categories))
    happens = outcomes.outcome.tolist()
    at = sorted(range(len(data.tasks)), key=lambda i: (kinds.index(data.categories[i]), happens[i], i))
    return [data.tasks[i] for i in at]


def neighbours(data: Published, outcomes: Outcomes, name: str) -> tuple[str, str]:
    """Return the names of two prompts: the one whose square stands before the square of the prompt `name`, and the one
    whose square stands after it.

    After the last square comes the first, and before the first the last.
    """
    names = sort_prompts(data, outcomes)
    at = names.index(name)
    return names[at - 1], names[(at + 1) % len(names)]


def squares(data: Published, outcomes: Outcomes, kind: str) -> Html:
    """Draw a square per prompt, in a block per category.

    kind: the outcome whose squares are highlighted, "" for none.
    """
    happens = dict(zip(data.tasks, outcomes.outcome.tolist(), strict=True))
    category = dict(zip(data.tasks, data.categories, strict=True))
    by_category: dict[str, dict[int, list[str]]] = {}
    for name in sort_prompts(data, outcomes):
        by_category.setdefault(category[name], {}).setdefault(happens[name], []).append(name)
    blocks = [_block(CATEGORIES.get(name, name), inside) for name, inside in by_category.items()]
    label = "What happens to each prompt: choose one to open it"
    return tag("div", *blocks, kind="squares", role="radiogroup", aria_label=label, data_kind=kind)


def _block(title: str, inside: dict[int, list[str]]) -> Html:
    """Draw a square for each prompt of one category, below the title of the category.

    title: the title of the category.
    inside: the names of its prompts, by the index of their outcome in OUTCOMES.
    """
    many = sum(map(len, inside.values()))
    runs = [_run(OUTCOMES[n], names, title) for n, names in inside.items()]
    head = tag("p", tag("b", title), tag("span", count(many, "prompt")), aria_hidden="true")
    return tag("div", head, tag("div", *runs, kind="field"))


def _run(outcome: str, names: list[str], title: str) -> Html:
    """Draw a square for each of some prompts, which are of one category and have one outcome.

    outcome: the name of the outcome in OUTCOMES.
    names: the names of the prompts.
    title: the title of the category, for screen readers.
    """
    drawn = join(*(_square(name, outcome) for name in names))
    return tag("span", drawn, kind=outcome, role="group", aria_label=f"{title}: {SAID[outcome]}")


@lru_cache(maxsize=8192)
def _square(name: str, outcome: str) -> Html:
    return tag("i", data_id=name, role="radio", aria_label=f"{name}: {SAID[outcome]}")


def outcome_legend(outcomes: Outcomes, answers: int) -> Html:
    """Draw the legend, with a count per outcome. One line is for prompts in which GRPO ties answers, and one line for
    all other prompts.

    answers: how many answers are drawn for each prompt.
    """
    counts, texts = outcomes.counts, {name: text.format(answers=answers) for name, text in LEGEND.items()}
    more = outcomes.wrong - counts["wrong"]
    notes = {"both": f"In {count(more)} of these it breaks another tie in the wrong order."} if more else {}
    lines = [_line(title, names, counts, texts, notes) for title, names in _LINES.items()]
    label = "Highlight what happens to a prompt"
    return tag("div", *lines, kind="legend", role="radiogroup", aria_label=label)


def _line(
    title: str, names: tuple[str, ...], counts: dict[str, int], texts: dict[str, str], notes: dict[str, str]
) -> Html:
    """Draw a line of the legend: its title, and an entry with a count for each of the outcomes `names`.

    The outcome "gdpo" is left out if no prompt has it. If "untied" is among `names`, a last entry counts all prompts.

    counts: the number of prompts by outcome.
    texts: words for each outcome.
    notes: by outcome, the text of its tip, for the outcomes that have one.
    """
    there = [name for name in names if counts[name] or name != "gdpo"]
    chips = [_chip(name, counts[name], texts[name], notes.get(name)) for name in there]
    if "untied" in names:
        chips.append(_chip("", sum(counts.values()), "all prompts"))
    return tag("div", tag("b", title), *chips)


def _chip(name: str, n: int, text: str, note: str | None = None) -> Html:
    """Draw the entry of an outcome in the legend, which a reader can choose.

    name: the outcome, "" for all prompts.
    n: how many prompts have the outcome.
    text: words for the outcome.
    note: the text of a tip, if there is one.
    """
    swatch = tag("span", tag("i"), kind=f"swatch {name}", aria_hidden="true") if name else ""
    inside = swatch, tag("b", count(n)), f" {text}"
    return tag("span", *inside, kind="chip", data_id=name, role="radio", title=note, aria_label=f"{count(n)}: {text}")


def as_table(data: Published, outcomes: Outcomes) -> str:
    """Return a CSV text with a row per square: its prompt, category and outcome."""
    rows = zip(data.tasks, data.categories, outcomes.outcome.tolist(), strict=True)
    return "\n".join(["prompt,category,outcome", *(f"{name},{kind},{OUTCOMES[n]}" for name, kind, n in rows), ""])
