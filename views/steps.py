"""Section 2: one answer's numbers through every step of GRPO and of GDPO, as formulas with the numbers in them."""

from collections.abc import Sequence
from functools import lru_cache

import gdpo_core as gc
from gdpo_core import Explanation
from gdpo_core._words import decimal, listing, power_of_ten, word
from gdpo_core.bfcl import REWARDS, Task, grade_all
from gdpo_core.rules import exceptions
from views.html import Html, bold, fold, join, says, table, tag
from views.marks import Passed, frozen, told_apart
from views.text import NAMES

ONE_MARK, BOTH_MARKS = ((0, 0), (1, 0)), ((0, 0), (1, 1))  # the paper's Fig. 2: (0, 1) and (0, 2) marks in all


def follow(
    passed: Sequence[Sequence[int]], answer: int, convention: gc.Convention, lengths: Sequence[int] = ()
) -> Html:
    """HTML of both computations side by side for one answer of one prompt, and what GRPO lost on the way.

    lengths: of the answers, in what stands in for tokens; if they are not those of these answers, all count alike.
    """
    if answer >= len(passed):
        return says(f"This task has {len(passed)} answers.")
    if len(lengths) != len(passed):  # another task was just chosen and its marks are on their way
        lengths = [1] * len(passed)
    return _follow(frozen(passed), answer, convention, tuple(lengths))


@lru_cache(maxsize=512)
def _follow(passed: Passed, answer: int, convention: gc.Convention, lengths: tuple[int, ...]) -> Html:
    grpo, gdpo = (_explain(passed, method, convention, lengths) for method in ("grpo", "gdpo"))
    return join(
        tag("p", f"Computed as in {convention.source}.", kind="source"),
        tag("div", _grpo(grpo, answer), _gdpo(gdpo, answer, REWARDS), kind="follow"),
        says(_lost(passed, answer)),
        _everywhere(passed, answer, lengths),
        _elsewhere(convention),
    )


def _explain(passed, method: str, convention: gc.Convention, lengths: Sequence[int]) -> Explanation:
    return gc.explain(passed, method, convention=convention, lengths=lengths)


def _everywhere(passed: Sequence[Sequence[int]], answer: int, lengths: Sequence[int]) -> Html:
    """The answer's advantages under every convention, to six digits, in a fold."""
    found = {
        c.name: [_explain(passed, method, c, lengths).advantages[answer].item() for method in ("grpo", "gdpo")]
        for c in gc.CONVENTIONS.values()
    }
    rows = [[name, *(decimal(a, 6) for a in both)] for name, both in found.items()]
    low, high = (decimal(pick(a for _, a in found.values())) for pick in (min, max))
    title = f"Answer {answer + 1} under all {len(found)} conventions: GDPO gives it from {low} to {high}"
    return fold(title, table(["convention", NAMES["grpo"], NAMES["gdpo"]], rows, "figures"))


def _elsewhere(c: gc.Convention) -> Html:
    title, before = f"Other cases under {c.name}: missing rewards, a group of one", ""
    if c == gc.PAPER:
        title = "What the paper leaves open: missing rewards, a group of one"
        before = tag("p", "The paper leaves these open; this library then does:")
    return fold(title, before, tag("ul", *(tag("li", line) for line in exceptions(c))))


def implementations(task: Task) -> str:
    """What frameworks fill in, in how many ways, and whose numbers differ visibly on this task and in a batch."""
    passed, lengths = frozen(grades.vector for grades in grade_all(task)), tuple(map(len, task.answers))
    others = [c for c in gc.CONVENTIONS.values() if c != gc.PAPER]
    alone = [c for c in others if _far(c, passed, lengths)]
    batch = [c for c in others if c not in alone and _far(c, (ONE_MARK, BOTH_MARKS), ((1, 1), (1, 1)))]
    codes = len({c.name.split(",")[0] for c in others})  # what follows a comma is an option of the same code
    text = (
        f"{word(len(others)).capitalize()} configurations of {word(codes)} code bases differ in details: "
        f"what guards the divisions (nothing in the paper, {power_of_ten(gc.TRL.group_eps)} in {gc.TRL.name}), what "
        "the last step averages over, whom an answer is compared with."
    )
    if alone:
        text += f" On one prompt, only {listing([_option(c) for c in alone])} move the numbers visibly"
        text += f"; {listing([_option(c) for c in batch])} once a batch has several prompts." if batch else "."
    return text


def _option(c: gc.Convention) -> str:
    """Its name, with an option in brackets: in a list, commas part the names."""
    name, *option = c.name.split(", ")
    return f"{name} ({', '.join(option)})" if option else name


def named() -> dict[str, str]:
    """The choice of a convention: what the reader sees, to its key."""
    paper = f"{gc.PAPER.name} ({gc.PAPER.source.split(',')[0]})"
    return {paper if c == gc.PAPER else c.name: key for key, c in gc.CONVENTIONS.items()}


VISIBLE = 0.01  # a difference in the two decimals that the page prints of an advantage


@lru_cache(maxsize=32)
def _far(c: gc.Convention, rewards, lengths) -> bool:
    return any(
        (gc.advantages(rewards, m, convention=c, lengths=lengths) - gc.advantages(rewards, m)).abs().max() >= VISIBLE
        for m in ("grpo", "gdpo")
    )


def printed() -> tuple[str, str]:
    """What the paper's Fig. 2 prints for the second answer where it passes one mark, and where it passes both."""
    return tuple(decimal(_second(rewards, before=True)) for rewards in (ONE_MARK, BOTH_MARKS))


@lru_cache(maxsize=16)
def readings(convention: gc.Convention) -> Html:
    """HTML of the paper's Fig. 2 in both readings: two answers of which the second passes one mark, or both."""
    both_prompts = [ONE_MARK, BOTH_MARKS]
    before = [_second(rewards, convention, before=True) for rewards in both_prompts]
    alone = [_second(rewards, convention) for rewards in both_prompts]
    together = [_second(both_prompts, convention, prompt=prompt) for prompt in (0, 1)]
    rows = {
        "GRPO": [_second(rewards, convention, "grpo") for rewards in both_prompts],
        "GDPO before its last step": before,
        "GDPO, each prompt alone in its batch": alone,
        "GDPO, both prompts in one batch": together,
    }
    shown = [[name, *(f"±{decimal(a)}" for a in values)] for name, values in rows.items()]
    undone = "the same number again" if _alike(alone) else "hardly a difference"
    with_others = (
        f"{convention.name} divides by it even with other prompts in the batch."
        if _alike(together)
        else f"With other prompts in the batch the difference stays, here {listing(map(decimal, together))}."
    )
    kept = (
        f" Under {convention.name} GRPO keeps the two apart here: each answer is compared with the one other, which "
        "alone has no spread to divide by."
        if convention.leave_one_out and not _alike(rows["GRPO"])
        else ""
    )
    return join(
        table(["", "passes one mark of two", "passes both"], shown, "figures"),
        says(
            f"Two answers; the first passes nothing. The paper's Fig. 2 prints {listing(printed())}: GDPO **before** "
            "its last step. That step divides by the spread over the batch, and where a prompt is alone in its batch, "
            f"that is its own spread: {undone}. {with_others}{kept}"
        ),
    )


def _second(
    rewards, convention: gc.Convention = gc.PAPER, method: str = "gdpo", prompt: int | None = None, before: bool = False
) -> float:
    """What the second answer gets, of that prompt if there are several; before: without GDPO's last step."""
    lengths = [[1, 1]] * len(rewards) if prompt is not None else [1, 1]
    e = gc.explain(rewards, method, convention=convention, lengths=lengths)
    a = e.weighted_sums if before else e.advantages
    return (a if prompt is None else a[prompt])[1].item()


def _alike(values: Sequence[float]) -> bool:
    return decimal(values[0]) == decimal(values[1])


def _lost(passed: Sequence[Sequence[int]], answer: int) -> str:
    level = {method: told_apart(frozen(passed), method).level.tolist() for method in ("grpo", "gdpo")}
    other = [i for i, marks in enumerate(passed) if marks != passed[answer]]
    tied = {method: [i for i in other if level[method][i] == level[method][answer]] for method in level}
    if not other:
        return "All answers have the same marks, so neither method says anything about this one."
    if not tied["grpo"]:
        return "Only answers with the same marks have this sum: GRPO keeps them apart from the others too."
    same = f"{_answers(tied['grpo'], start=True)} other marks but the same sum, so GRPO gives the same advantage."
    if not tied["gdpo"]:
        return f"{same} GDPO does not."
    return f"{same} GDPO gives the same one to {_answers(tied['gdpo'])}."


def _answers(answers: Sequence[int], start: bool = False) -> str:
    """Their numbers as the page counts, in words.

    >>> _answers([5]), _answers([5, 6, 9]), _answers([5], start=True)
    ('answer 6', 'answers 6, 7 and 10', 'Answer 6 has')
    """
    several = len(answers) > 1
    text = f"answer{'s' if several else ''} {listing(i + 1 for i in answers)}"
    return f"{text.capitalize()} {'have' if several else 'has'}" if start else text


def _grpo(e: Explanation, answer: int) -> Html:
    c, total, count = e.convention, e.weighted_sums[answer].item(), len(e.weighted_sums)
    mean, std = (_own(e, x, answer).item() for x in (e.group_means, e.group_stds))
    which = f"the other {count - 1} sums" if c.leave_one_out else f"the {count} sums"
    eps = c.sum_eps
    steps = [
        ("Add the rewards", join(f"s = {_sum(e.weights, e.rewards[answer])} = ", bold(decimal(total)))),
        ("Look at the group", f"mean of {which} = {decimal(mean)}, std = {decimal(std)}"),
        ("Normalise the sum", _divide("A", total, mean, std, eps, e.advantages[answer].item(), c.leave_one_out)),
    ]
    return _column("GRPO", "grpo", steps)


def _gdpo(e: Explanation, answer: int, names: Sequence[str]) -> Html:
    c, z, r = e.convention, e.z[answer], e.rewards[answer]
    mean, std = (_own(e, x, answer) for x in (e.group_means, e.group_stds))
    rows = [
        [name, _divide("z", *numbers, c.leave_one_out)]
        for name, *numbers in zip(
            names, r.tolist(), mean.tolist(), std.tolist(), [c.group_eps] * len(names), z.tolist(), strict=True
        )
    ]
    total, a = e.weighted_sums[answer].item(), e.advantages[answer].item()
    mean, std = float(e.batch_mean), float(e.batch_std)
    others = "against the others of its group" if c.leave_one_out else "in the group"
    steps = [
        (f"Normalise each reward {others}", table([], rows)),
        ("Add what is normalised", join(f"s = {_sum(e.weights, z)} = ", bold(decimal(total)))),
        (
            LAST_STEP[c.last_step].format(mean=decimal(mean), count=len(e.rewards)),
            _divide("A", total, mean, std, c.batch_eps, a, root=c.batch_eps_to == "variance"),
        ),
    ]
    return _column("GDPO", "gdpo", steps)


LAST_STEP = {
    "responses": "Subtract the mean of all s ({mean}) and divide by their spread. In training: over all prompts of the "
    "batch; here: these {count}",
    "tokens": "Subtract the mean of all s ({mean}) and divide by their spread. An answer counts as often as it is "
    "long: in training in tokens, over the batch; here in characters, over these {count}",
    "group": "Subtract the mean of all s ({mean}) and divide by their spread, over the group once more: these {count}, "
    "also in training",
}


def _own(e: Explanation, x, answer: int):
    """What this answer is normalised with: with leave-one-out everyone has statistics of their own."""
    return x[answer] if e.convention.leave_one_out else x


def _sum(weights, values) -> str:
    return " + ".join(f"{decimal(w)}·{_bracket(v)}" for w, v in zip(weights.tolist(), values.tolist(), strict=True))


def _bracket(x: float) -> str:
    return f"({decimal(x)})" if decimal(x).startswith("−") else decimal(x)


def _divide(
    symbol: str, x: float, mean: float, std: float, eps: float, result: float, peers: bool = False, root: bool = False
) -> Html:
    """One division as a formula; peers: the statistics are of the other answers; root: eps is inside the root."""
    if std == 0 and peers:
        left = f"{symbol} = {decimal(x)} − {_bracket(mean)} = "
        return join(left, bold(decimal(result)), ", undivided: the others agree")
    if std == 0:
        return join(f"{symbol} = ", bold(0), ", because all are equal: std = 0")
    guard, divisor = power_of_ten(eps), decimal(std)
    if root:
        divisor = f"√({divisor}² + {guard})"
    elif eps:
        divisor = f"{divisor} + {guard}"
    above = tag("span", f"{decimal(x)} − {_bracket(mean)}")
    fraction = tag("span", above, tag("span", divisor), kind="fraction")
    return join(f"{symbol} = ", fraction, " = ", bold(decimal(result)))


def _column(title: str, method: str, steps: list[tuple[str, Html | str]]) -> Html:
    items = (tag("li", tag("p", what), tag("div", formula)) for what, formula in steps)
    return tag("section", tag("h3", title), tag("ol", *items), kind=method)
