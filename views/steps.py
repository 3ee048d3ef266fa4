"""Section 2: one answer's numbers through every step of GRPO and of GDPO, as formulas with the numbers in them."""

from collections.abc import Sequence

import gdpo_core as gc
from gdpo_core import Explanation
from gdpo_core.bfcl import REWARDS
from views.board import frozen, told_apart
from views.text import number


def follow(passed: Sequence[Sequence[int]], answer: int, convention: gc.Convention) -> str:
    """HTML of both computations side by side for one answer of one prompt, and what GRPO lost on the way."""
    if answer >= len(passed):
        return _says(f"This task has {len(passed)} answers.")
    grpo, gdpo = (gc.explain(passed, method, convention=convention) for method in ("grpo", "gdpo"))
    return f'<div class="follow">{_grpo(grpo, answer)}{_gdpo(gdpo, answer, REWARDS)}</div>{_lost(passed, answer)}'


def _lost(passed: Sequence[Sequence[int]], answer: int) -> str:
    level = {method: told_apart(frozen(passed), method).level.tolist() for method in ("grpo", "gdpo")}
    other = [i for i, marks in enumerate(passed) if marks != passed[answer]]
    tied = {method: [i for i in other if level[method][i] == level[method][answer]] for method in level}
    if not other:
        return _says("All answers have the same marks, so neither method says anything about this one.")
    if not tied["grpo"]:
        return _says("Only answers with the same marks have this sum: GRPO keeps them apart from the others too.")
    same = f"{_answers(tied['grpo'], start=True)} other marks but the same sum, so GRPO gives the same advantage."
    if not tied["gdpo"]:
        return _says(f"{same} GDPO does not.")
    return _says(f"{same} GDPO gives the same one to {_answers(tied['gdpo'])}.")


def _says(text: str) -> str:
    return f'<div class="says">{text}</div>'


def _answers(answers: Sequence[int], start: bool = False) -> str:
    """Their numbers as the page counts, in words.

    >>> _answers([5]), _answers([5, 6, 9]), _answers([5], start=True)
    ('answer 6', 'answers 6, 7 and 10', 'Answer 6 has')
    """
    *first, last = (str(i + 1) for i in answers)
    text = f"answers {', '.join(first)} and {last}" if first else f"answer {last}"
    return f"{text.capitalize()} {'have' if first else 'has'}" if start else text


def _grpo(e: Explanation, answer: int) -> str:
    total, mean, std = e.weighted_sums[answer].item(), e.group_means.item(), e.group_stds.item()
    count = len(e.weighted_sums)
    steps = [
        ("Add the rewards", f"s = {_sum(e.weights, e.rewards[answer])} = <b>{number(total)}</b>"),
        ("Look at the group", f"mean of the {count} sums = {number(mean)}, std = {number(std)}"),
        (
            "Normalise the sum",
            _divide("A", total, mean, std, e.convention.group_eps, e.advantages[answer].item()),
        ),
    ]
    return _column("GRPO", "grpo", steps)


def _gdpo(e: Explanation, answer: int, names: Sequence[str]) -> str:
    z = e.z[answer]
    rows = "".join(
        f"<tr><th>{name}</th><td>"
        + _divide(
            "z",
            e.rewards[answer, k].item(),
            e.group_means[k].item(),
            e.group_stds[k].item(),
            e.convention.group_eps,
            z[k].item(),
        )
        + "</td></tr>"
        for k, name in enumerate(names)
    )
    total = e.weighted_sums[answer].item()
    a = e.advantages[answer].item()
    steps = [
        ("Normalise each reward in the group", f"<table>{rows}</table>"),
        ("Add what is normalised", f"s = {_sum(e.weights, z)} = <b>{number(total)}</b>"),
        (
            "Divide by the spread over the batch: in training many prompts, here these answers. Their mean is 0",
            _divide("A", total, e.batch_mean, e.batch_std, e.convention.batch_eps, a),
        ),
    ]
    return _column("GDPO", "gdpo", steps)


def _sum(weights, values) -> str:
    return " + ".join(f"{number(w)}·{_bracket(v)}" for w, v in zip(weights.tolist(), values.tolist(), strict=True))


def _bracket(x: float) -> str:
    return f"({number(x)})" if number(x).startswith("−") else number(x)


def _divide(symbol: str, x: float, mean: float, std: float, eps: float, result: float) -> str:
    if std == 0:
        return f"{symbol} = <b>0</b>, because all are equal: std = 0"
    divisor = number(std) if eps == 0 else f"{number(std)} + {eps:g}"
    return (
        f'{symbol} = <span class="fraction"><span>{number(x)} − {_bracket(mean)}</span><span>{divisor}</span></span>'
        f" = <b>{number(result)}</b>"
    )


def _column(title: str, method: str, steps: list[tuple[str, str]]) -> str:
    items = "".join(f"<li><p>{what}</p><div>{formula}</div></li>" for what, formula in steps)
    return f'<section class="{method}"><h3>{title}</h3><ol>{items}</ol></section>'
