"""Section 2: one answer's numbers through every step of GRPO and of GDPO, as formulas with the numbers in them."""

from collections.abc import Sequence

from gdpo_core import Explanation


def number(x: float, digits: int = 3) -> str:
    """A number as the page prints it: a real minus sign, no negative zero.

    >>> number(-0.5), number(-0.00001), number(2.0)
    ('−0.500', '0', '2')
    """
    text = f"{x:.{digits}f}"
    if float(text) == 0:
        return "0"
    return (text[: -digits - 1] if x == int(x) else text).replace("-", "−")


def follow(grpo: Explanation, gdpo: Explanation, answer: int, rewards: Sequence[str]) -> str:
    """HTML of both computations side by side for one answer of one prompt."""
    return f'<div class="follow">{_grpo(grpo, answer)}{_gdpo(gdpo, answer, rewards)}</div>'


def same_sum(grpo: Explanation, answer: int) -> list[int]:
    """The answers with other rewards that have this answer's weighted sum."""
    sums, vectors = grpo.weighted_sums, grpo.rewards
    tied = (sums - sums[answer]).abs() <= 1e-9
    other = (vectors != vectors[answer]).any(1)
    return (tied & other).nonzero().flatten().tolist()


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
            f"Scale over the batch (here these {len(e.weighted_sums)} answers)",
            _divide("A", total, e.batch_mean, e.batch_std, e.convention.batch_eps, a),
        ),
    ]
    return _column("GDPO", "gdpo", steps)


def _sum(weights, values) -> str:
    return " + ".join(
        f"{number(w)}·{_bracket(v)}" for w, v in zip(weights.tolist(), values.tolist(), strict=True)
    )


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
