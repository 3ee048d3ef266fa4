"""Section 4: how often answers to real prompts tie, by category and by group size."""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

from torch import Tensor

import gdpo_core as gc
from gdpo_core._words import count, percent, word
from gdpo_core.bfcl import GRADERS, REWARDS, Published, draw, load_published
from views.html import Cell, Html, Row, bold, charts, fold, join, legend, meter, methods, paragraphs, says, small, table
from views.text import NAMES

GROUP_SIZE = 12  # as in section 1
ANSWERED = "August 2024"
SIZES = (2, 3, 4, 6, 8, 12, 16, 24, 32, 48)  # of the curves, which end at all answers
CATEGORIES = {
    "simple_python": "one function, one call",
    "multiple": "several functions, one call",
    "parallel": "one function, several calls",
    "parallel_multiple": "several functions, several calls",
}
# What each mark can stand for: the reader's words, the grader's name.
CORRECTNESS = {"accepted values": "correctness", "BFCL's own checker": "bfcl_ast_valid"}
STYLE = {
    "types, spelling and a bare call": "style",
    "types and spelling": "style_args",
    "a bare call": "envelope",
}
CONCISENESS = {"strict": "conciseness", "lenient": "conciseness_lenient"}

published: Callable[..., Published] = lru_cache(maxsize=2)(load_published)


@dataclass(frozen=True)
class Choice:
    """What the reader chose, but for the group size, on which the curves do not depend."""

    graders: tuple[str, ...] = REWARDS
    seed: int = 0
    category: str | None = None  # None: all
    weight: float = 1.0  # of correctness, in all three methods

    @property
    def weights(self) -> tuple[float, ...]:
        return (self.weight, *[1.0] * (len(self.graders) - 1))


@dataclass(frozen=True)
class Tied:
    """What one method ties; shares and means over the prompts whose answers have different marks."""

    prompts: int
    mixed: int
    with_ties: float
    pairs: float
    levels: float
    vectors: float


@lru_cache(maxsize=16)
def groups(data: Published, choice: Choice, group_size: int) -> Tensor:
    """The marks of the answers that were drawn, (prompts, group_size, rewards); 0.2 MB at most."""
    marks = data.rewards(choice.graders)
    models = draw(data, group_size, choice.seed)
    marks = marks.gather(1, models[..., None].expand(-1, -1, marks.shape[-1]))
    return marks if choice.category is None else marks[[c == choice.category for c in data.categories]]


@lru_cache(maxsize=1024)
def tied(data: Published, choice: Choice, group_size: int) -> dict[str, Tied]:
    """What each method ties among the drawn answers; 1 kB an entry."""
    marks = groups(data, choice, group_size)
    found = {method: gc.collapse(marks, method, weights=choice.weights) for method in NAMES}
    return {
        method: Tied(c.groups, c.mixed_groups, c.groups_with_ties, c.tied_pairs, c.levels, c.vectors)
        for method, c in found.items()
    }


def heading(data: Published) -> str:
    """The claim of the section, with the controls as they are at first."""
    found = tied(data, Choice(), GROUP_SIZE)
    ties = {method: percent(t.with_ties * t.mixed / t.prompts) for method, t in found.items()}
    ties = {method: share.replace(" ", "\N{NO-BREAK SPACE}") for method, share in ties.items()}  # it wraps on a phone
    return (
        f"{count(len(data.tasks))} real prompts: GRPO ties different answers in {ties['grpo']}, GDPO in {ties['gdpo']}"
    )


def models(data: Published) -> int:
    """How many models the configurations are of: one may be there with and without native function calling.

    >>> models(published("data/bfcl_rewards.parquet"))
    50
    """
    return len({re.sub(r"-FC(-Any|-Auto)?$", "", name) for name in data.models})


def introduction(data: Published) -> str:
    """Markdown: whose answers these are, and what a share of them says."""
    configurations = f"{len(data.models)} configurations of {models(data)} models"
    return (
        f"{configurations} (some with and without native function calling) answered each of {count(len(data.tasks))} "
        "prompts of the [Berkeley Function Calling Leaderboard](https://gorilla.cs.berkeley.edu/leaderboard.html) "
        f"(BFCL) in {ANSWERED}, and each answer was graded for the same {word(len(REWARDS))} marks. A group here is a "
        "random draw of the answers to one prompt, or all of them; the heading is for the first draw of "
        f"{GROUP_SIZE}. These are **{configurations}, not {len(data.models)} samples of one policy**. The marks are "
        "real, but the answers of a model that you train may differ more or less from each other than these do: read "
        "the shares as what can happen, not as a forecast."
    )


def categories(data: Published) -> dict[str, str | None]:
    """The choice of a category, in words with its number of prompts, to its name."""
    counts = {name: data.categories.count(name) for name in dict.fromkeys(data.categories)}
    named = {f"{CATEGORIES.get(name, name)} ({count(n)})": name for name, n in counts.items()}
    return {f"all ({count(len(data.categories))})": None, **named}


def apart(found: Iterable[Mapping[str, Tied]]) -> list[str]:
    """The methods to show; not GRPO without std if it ties the same throughout."""
    repeats = all(row["grpo_no_std"] == row["grpo"] for row in found)
    return [method for method in NAMES if not (repeats and method == "grpo_no_std")]


def ties(data: Published, choice: Choice, group_size: int) -> Html:
    """HTML of what ties, in sentences and as a table with a row per category."""
    kinds = {words: replace(choice, category=name) for words, name in categories(data).items()}
    found = {words: tied(data, kind, group_size) for words, kind in kinds.items()}
    shown = apart(found.values())
    rows = [_row(words, {m: row[m] for m in shown}, kinds[words] == choice) for words, row in found.items()]
    caption = (
        "Bar: of the prompts with different marks, the share with a tie. Below: the share of their pairs that tie. "
        "Then, on average, the advantages that are left for the different mixes of marks."
    )
    head = ["Kind of prompt", *(Cell(NAMES[method], method) for method in shown)]
    return join(
        says(*_verdict(data, tied(data, choice, group_size), group_size)), table(head, rows, "prompts", caption)
    )


def _verdict(data: Published, found: Mapping[str, Tied], group_size: int) -> list[str]:
    grpo, gdpo = found["grpo"], found["gdpo"]
    if not grpo.mixed:
        return ["No prompt here has drawn answers with different marks, so there is nothing to tell apart."]
    everything = group_size == len(data.models)
    answers = f"{group_size} answers" if everything else f"{group_size} drawn answers"
    said = [
        f"In {count(grpo.mixed)} of {count(grpo.prompts)} prompts the {answers} do not all have the same marks. In "
        f"**{percent(grpo.with_ties)}** of these GRPO gives one advantage to answers whose marks differ, GDPO in "
        f"**{percent(gdpo.with_ties)}**. Of all pairs of answers with different marks, GRPO ties "
        f"{percent(grpo.pairs, 1)} and GDPO {percent(gdpo.pairs, 1)}."
    ]
    if everything:
        said.append("All answers are taken, so there is nothing to draw: the seed changes nothing.")
    if found["grpo_no_std"] == grpo:
        said.append(
            "GRPO without std ties exactly the same: dividing a whole group by one number moves no answer past another."
        )
    return said


def _row(words: str, found: Mapping[str, Tied], chosen: bool) -> Row:
    name = join(words, small("chosen")) if chosen else words
    return Row([name, *(Cell(_share(t), method) for method, t in found.items())], "chosen" if chosen else "")


def _share(t: Tied) -> Html | str:
    if not t.mixed:
        return "–"
    return join(
        meter(t.with_ties),
        bold(percent(t.with_ties)),
        small(f"{percent(t.pairs, 1)} of pairs"),
        small(f"{t.levels:.1f} advantages for {t.vectors:.1f} mixes"),
    )


def by_size(data: Published, choice: Choice) -> dict[int, dict[str, Tied]]:
    """What each method ties as the groups grow; a larger group holds the smaller ones."""
    sizes = [size for size in SIZES if size < len(data.models)]
    return {size: tied(data, choice, size) for size in (*sizes, len(data.models))}


def size_charts(data: Published, choice: Choice) -> list:
    """A chart of the prompts with a tie, and one of the pairs."""
    from views.charts import ties_by_size  # here, because Altair is half of what the first visitor would wait for

    found = by_size(data, choice)
    shown = apart(found.values())
    return [
        ties_by_size({s: {m: getattr(row[m], what) for m in shown} for s, row in found.items()}, title, top)
        for what, title, top in (
            ("with_ties", "mixed prompts with a tie", 1.0),
            ("pairs", "pairs with different marks, tied", 0.2),
        )
    ]


def size_legend(data: Published, choice: Choice) -> Html:
    """HTML legend of the curves, one entry for two methods that tie the same."""
    shown = apart(by_size(data, choice).values())
    alike = ", also without std" if len(shown) < len(NAMES) else ""
    return legend(methods({m: f"{NAMES[m]}{alike if m == 'grpo' else ''}" for m in shown}))


def size_says(data: Published, choice: Choice) -> Html:
    """HTML of what the curves do from their first to their last point."""
    found = by_size(data, choice)
    first, last = min(found), max(found)

    def change(method: str, what: str) -> str:
        return " to ".join(percent(getattr(found[size][method], what), 1) for size in (first, last))

    return says(
        f"From {first} to {last} answers, the mixed prompts with a tie go from {change('grpo', 'with_ties')} under "
        f"GRPO and from {change('gdpo', 'with_ties')} under GDPO; the tied pairs from {change('grpo', 'pairs')} and "
        f"from {change('gdpo', 'pairs')}."
    )


def size_table(data: Published, choice: Choice) -> Html:
    """The curves as HTML, folded."""
    rows = [
        [size, *(cell for t in row.values() for cell in (percent(t.with_ties), percent(t.pairs, 1)))]
        for size, row in by_size(data, choice).items()
    ]
    head = ["group size", *["prompts", "pairs"] * len(NAMES)]
    return fold("The curves as a table", table(head, rows, "figures", over=dict.fromkeys(NAMES.values(), 2)))


def size_figure(data: Published, choice: Choice) -> Html:
    """HTML of both curves with their legend, what they do, and their numbers."""
    drawn = charts(size_charts(data, choice))
    return join(size_legend(data, choice), drawn, size_says(data, choice), size_table(data, choice))


@lru_cache(maxsize=2)
def readings(data: Published) -> Html:
    """HTML, folded: what each choice of a grader means, the default first, and how many answers it changes."""
    graded = {name: data.rewards((name,)) for name in GRADERS}

    def changed(reading: str, mark: str) -> str:
        more, less = (int((graded[a] > graded[b]).sum()) for a, b in ((reading, mark), (mark, reading)))
        fewer = count(less) if less else "none"
        return f"passes {count(more)} answers that the default fails and fails {fewer} that it passes"

    return fold(
        "What the marks ask for",
        paragraphs(
            f"Each mark has a default and alternatives; there are {count(graded['style'].numel())} answers. One "
            f"without a readable call fails the default of all {word(len(REWARDS))}.",
            "**Correctness**, by default: exactly the needed calls, with accepted values once they are read as the "
            f"documented types. Alternative: BFCL's own checker, which {changed('bfcl_ast_valid', 'correctness')}.",
            "**Style**, by default: exact types, documented spelling and a bare call, which is only the call with no "
            f"text around it. Alternatives: types and spelling alone, which {changed('style_args', 'style')}; or a "
            f"bare call alone, which {changed('envelope', 'style')}.",
            "**Conciseness**, by default strict: nothing was sent that could be deleted, such as a documented default "
            "or an unknown parameter. Alternative: a lenient reading. Our data hold its verdicts but not its rule; it "
            f"{changed('conciseness_lenient', 'conciseness')}.",
        ),
    )
