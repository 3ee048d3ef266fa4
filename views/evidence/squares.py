"""A square per prompt, by what happens to it; their legend, whose rows highlight."""

from functools import lru_cache

from gdpo_core._html import Html, join, tag
from gdpo_core._words import count
from gdpo_core.bfcl import Published
from gdpo_core.bfcl.prompts import OUTCOMES, Outcomes

CATEGORIES = {
    "simple_python": "one function, one call",
    "multiple": "several functions, one call",
    "parallel": "one function, several calls",
    "parallel_multiple": "several functions, several calls",
}
LEGEND = {
    "both": "tied by GRPO and by GDPO",
    "wrong": "tied by GRPO; GDPO tells them apart and puts a wrong answer above a right one",
    "apart": "tied by GRPO, told apart by GDPO, none the wrong way round",
    "gdpo": "tied by GDPO alone",
    "untied": "no tie under either method",
    "alike": "all {answers} answers have the same marks: nothing to learn",
}


def sort_prompts(data: Published, outcomes: Outcomes) -> list[str]:
    """The names of the prompts as the squares stand: by category, then by what happens to them."""
    kinds = list(dict.fromkeys(data.categories))
    happens = outcomes.outcome.tolist()
    at = sorted(range(len(data.tasks)), key=lambda i: (kinds.index(data.categories[i]), happens[i], i))
    return [data.tasks[i] for i in at]


def neighbours(data: Published, outcomes: Outcomes, name: str) -> tuple[str, str]:
    """The prompts before and after this one, as the squares stand."""
    names = sort_prompts(data, outcomes)
    at = names.index(name)
    return names[at - 1], names[(at + 1) % len(names)]


def squares(data: Published, outcomes: Outcomes, answers: int, kind: str) -> Html:
    """The squares by category; kind: the outcome that is highlighted."""
    happens = dict(zip(data.tasks, outcomes.outcome.tolist(), strict=True))
    category = dict(zip(data.tasks, data.categories, strict=True))
    by_category: dict[str, dict[int, list[str]]] = {}
    for name in sort_prompts(data, outcomes):
        by_category.setdefault(category[name], {}).setdefault(happens[name], []).append(name)
    blocks = [_block(CATEGORIES.get(name, name), inside, answers) for name, inside in by_category.items()]
    label = "What happens to each prompt: choose one to open it"
    return tag("div", *blocks, kind="squares", role="radiogroup", aria_label=label, data_kind=kind)


def _block(title: str, inside: dict[int, list[str]], answers: int) -> Html:
    many = sum(map(len, inside.values()))
    runs = [_run(OUTCOMES[n], names, title, answers) for n, names in inside.items()]
    head = tag("p", tag("b", title), tag("span", f"{many} prompts"), aria_hidden="true")
    return tag("div", head, tag("div", *runs, kind="field"))


def _run(outcome: str, names: list[str], title: str, answers: int) -> Html:
    said = LEGEND[outcome].format(answers=answers)
    drawn = join(*map(_square, names))
    style = f"--said: '{said}'"
    return tag("span", drawn, kind=outcome, role="group", aria_label=f"{title}: {said}", style=style)


@lru_cache(maxsize=4096)
def _square(name: str) -> Html:
    return tag("i", data_id=name, role="radio", aria_label=name)


def legend(outcomes: Outcomes, answers: int) -> Html:
    """A row per outcome with its count, and one that highlights none."""
    counts, texts = outcomes.counts, {name: text.format(answers=answers) for name, text in LEGEND.items()}
    if more := outcomes.wrong - counts["wrong"]:
        texts["both"] += f"; in {more} of these GDPO breaks another tie the wrong way round"
    rows = [(name, counts[name], texts[name]) for name in OUTCOMES if counts[name] or name != "gdpo"]
    rows.append(("", sum(counts.values()), "all prompts"))
    label = "Highlight what happens to a prompt"
    return tag("div", *(_row(*row) for row in rows), kind="legend", role="radiogroup", aria_label=label)


def _row(name: str, n: int, text: str) -> Html:
    inside = tag("span", tag("i"), kind=f"swatch {name}", aria_hidden="true"), tag("b", count(n)), tag("span", text)
    return tag("div", *inside, data_id=name, role="radio", aria_label=f"{count(n)}: {text}")


def as_table(data: Published, outcomes: Outcomes) -> str:
    """The squares as CSV."""
    rows = zip(data.tasks, data.categories, outcomes.outcome.tolist(), strict=True)
    return "\n".join(["prompt,category,outcome", *(f"{name},{kind},{OUTCOMES[n]}" for name, kind, n in rows), ""])
