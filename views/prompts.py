"""What GRPO and GDPO make of the published answers to real prompts: numbers alone, the pictures are in evidence.py."""

import re
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

import torch
from torch import Tensor

import gdpo_core as gc
from gdpo_core.bfcl import REWARDS, Published, draw, load_published
from gdpo_core.collapse import Order, most_needed

GROUP_SIZE = 12  # as in the Lab
METHODS = ("grpo", "gdpo")
HEAVIEST = 5.0  # weight of correctness
WEIGHTS = tuple(round(1 + n / 20, 2) for n in range(round(20 * (HEAVIEST - 1)) + 1))  # of correctness, for the curves
UNLIKE = (1.0, 0.9, 0.8)  # no two are equal, and none is the sum of the others
SIZES = (2, 3, 4, 6, 8, 12, 16, 24, 32, 48)  # of the curves, which end at all answers
CATEGORIES = {
    "simple_python": "one function, one call",
    "multiple": "several functions, one call",
    "parallel": "one function, several calls",
    "parallel_multiple": "several functions, several calls",
}
# What each mark can stand for: the grader's name, the reader's words. The first is the default.
GRADERS = (
    {"correctness": "accepted values", "bfcl_ast_valid": "BFCL's own checker"},
    {"style": "types, spelling, bare call", "style_args": "types and spelling", "envelope": "a bare call"},
    {"conciseness": "strict", "conciseness_lenient": "lenient"},
)
# What can happen to a prompt; the digit that stands for it on the way to the browser is its place here.
OUTCOMES = ("both", "wrong", "apart", "gdpo", "untied", "alike")


@lru_cache(maxsize=2)
def published(path: str | Path) -> Published:
    """The published verdicts, read once; InputError where the file is not the one that was shipped."""
    return load_published(path)


@dataclass(frozen=True)
class Choice:
    """Where the controls stand."""

    group_size: int = GROUP_SIZE
    seed: int = 0
    graders: tuple[str, ...] = REWARDS
    weight: float = 1.0  # of correctness

    @property
    def weights(self) -> tuple[float, ...]:
        return (self.weight, *[1.0] * (len(self.graders) - 1))


@dataclass(frozen=True)
class Mixes:
    """The drawn answers by mix of marks: which answers have the same marks does not matter to any method.

    A mix is numbered by its marks as binary digits.
    """

    count: Tensor  # (prompts, mixes) answers with this mix
    response: Tensor  # (prompts, mixes) the number, among all, of one of them; 0 where there is none
    passed: Tensor  # (mixes, rewards) the marks


@dataclass(frozen=True)
class Found:
    """What happens to each prompt, and to the pairs of answers whose marks differ."""

    outcome: Tensor  # (prompts,) places in OUTCOMES
    tied_prompts: dict[str, int]  # by method
    tied_pairs: dict[str, float]  # by method, share of the pairs whose marks differ
    mixed: int  # prompts whose answers do not all have the same marks
    order: dict[str, Order]  # by method, of all pairs of a right and a wrong answer


@dataclass(frozen=True)
class Priorities:
    """Pairs of a right and a wrong answer as correctness weighs more: which one comes first, from which weight on."""

    grpo_ties: int  # pairs that GRPO ties with equal weights
    broken: int  # of these, the pairs that GDPO tells apart with equal weights
    pairs: int  # all pairs of a right and a wrong answer
    broken_needed: float  # GDPO has the wrong answer first in none of the broken ones from here on; NaN without any
    gdpo_needed: float  # the same of all pairs; NaN without any
    grpo_needed: float  # the same under GRPO: above this
    broken_wrong: tuple[float, ...]  # share of the broken ones with the wrong answer first, at each of WEIGHTS
    gdpo_wrong: tuple[float, ...]
    grpo_wrong: tuple[float, ...]
    wrong: int  # broken ties that have the wrong answer first with equal weights
    worst: int  # the prompt with most of these; without any, with most ties of right and wrong under GRPO

    def wrong_at(self, weight: float) -> tuple[float, ...]:
        """Where the three curves are at a weight that is one of theirs."""
        at = WEIGHTS.index(weight)
        return self.broken_wrong[at], self.gdpo_wrong[at], self.grpo_wrong[at]


def models(data: Published) -> int:
    """How many models the configurations are of: one may be there with and without native function calling.

    >>> models(published("data/bfcl_rewards.parquet"))
    50
    """
    return len({re.sub(r"-FC(-Any|-Auto)?$", "", name) for name in data.models})


@lru_cache(maxsize=16)
def groups(data: Published, group_size: int, seed: int, graders: tuple[str, ...]) -> Tensor:
    """The marks of the drawn answers, (prompts, group_size, rewards); 0.2 MB at most."""
    marks = data.rewards(graders)
    drawn = draw(data, group_size, seed)
    return marks.gather(1, drawn[..., None].expand(-1, -1, marks.shape[-1]))


def marks_of(data: Published, choice: Choice) -> Tensor:
    """The marks of the answers that the controls draw."""
    return groups(data, choice.group_size, choice.seed, choice.graders)


@lru_cache(maxsize=8)
def collapsed(data: Published, choice: Choice, method: str) -> gc.Collapse:
    """What a method ties; 8 MB at most for all that is kept."""
    return gc.collapse(marks_of(data, choice), method, weights=choice.weights)


@lru_cache(maxsize=256)
def found(data: Published, choice: Choice) -> Found:
    """What happens to each prompt; 10 kB an entry."""
    collapses = {method: collapsed(data, choice, method) for method in METHODS}
    mixes = mixed(marks_of(data, choice))
    level = {method: _levels(mixes, c) for method, c in collapses.items()}
    present = (mixes.count > 0)[:, :, None] & (mixes.count > 0)[:, None, :]
    different = present & ~torch.eye(len(mixes.passed), dtype=torch.bool)
    tied = {method: _equal(x) & different for method, x in level.items()}
    right = mixes.passed[:, 0] > 0
    wrong_first = (~right[:, None] & right[None, :]) & (level["gdpo"][:, :, None] > level["gdpo"][:, None, :])
    grpo, gdpo = (tied[method].flatten(1).any(1) for method in METHODS)
    broken_wrong = (tied["grpo"] & ~tied["gdpo"] & wrong_first).flatten(1).any(1)
    several = (mixes.count > 0).sum(1) > 1
    outcome = torch.where(
        grpo & gdpo, 0, torch.where(grpo & broken_wrong, 1, torch.where(grpo, 2, torch.where(gdpo, 3, 4)))
    )
    return Found(
        outcome=torch.where(several, outcome, 5),
        tied_prompts={"grpo": int(grpo.sum()), "gdpo": int(gdpo.sum())},
        tied_pairs={method: c.tied_pairs for method, c in collapses.items()},
        mixed=int(several.sum()),
        order={method: _order(mixes, x, right) for method, x in level.items()},
    )


def mixed(marks: Tensor) -> Mixes:
    """The answers of each prompt by mix; marks: (prompts, group_size, rewards) of 0 or 1.

    >>> mixed(torch.tensor([[[0, 1], [1, 1], [0, 1]]])).count.tolist()
    [[0, 2, 0, 1]]
    """
    prompts, group_size, rewards = marks.shape
    digits = 2 ** torch.arange(rewards - 1, -1, -1)
    mix = (marks.long() * digits).sum(-1)  # (prompts, group_size)
    count = torch.zeros(prompts, 2**rewards, dtype=torch.int64).scatter_add_(1, mix, torch.ones_like(mix))
    number = torch.arange(prompts * group_size).reshape(prompts, group_size)
    response = torch.zeros_like(count).scatter_(1, mix, number)
    return Mixes(count, response, (torch.arange(2**rewards)[:, None] // digits) % 2)


def _levels(mixes: Mixes, collapse: gc.Collapse) -> Tensor:
    """(prompts, mixes) the number of the advantage that each mix gets; 0 or more also where a mix is not there."""
    return collapse.level[mixes.response]


def _order(mixes: Mixes, level: Tensor, right: Tensor) -> Order:
    """`Collapse.order` from the mixes: 64 pairs of mixes per prompt instead of up to 5,041 pairs of answers."""
    pairs = mixes.count[:, :, None] * mixes.count[:, None, :] * (~right[:, None] & right[None, :])
    wrong, better = level[:, :, None], level[:, None, :]
    return Order(*(int(pairs[where].sum()) for where in (wrong < better, wrong == better, wrong > better)))


def _equal(level: Tensor) -> Tensor:
    return level[:, :, None] == level[:, None, :]


@lru_cache(maxsize=32)
def unlike_ties(data: Published, choice: Choice) -> dict[str, int]:
    """By method, the prompts with a tie at weights of which no two are equal and none is the sum of the others."""
    marks = marks_of(data, choice)
    collapses = {method: gc.collapse(marks, method, weights=UNLIKE) for method in METHODS}
    return {
        method: round(c.groups_with_ties * c.mixed_groups) if c.mixed_groups else 0 for method, c in collapses.items()
    }


def priorities(data: Published, choice: Choice) -> Priorities:
    """The same whatever weight was chosen."""
    return _priorities(data, replace(choice, weight=1.0))


@lru_cache(maxsize=256)
def _priorities(data: Published, choice: Choice) -> Priorities:
    marks = marks_of(data, choice)
    mixes = mixed(marks)
    level = {method: _levels(mixes, collapsed(data, choice, method)) for method in METHODS}
    right = mixes.passed[:, 0] > 0
    present = (mixes.count > 0)[:, :, None] & (mixes.count > 0)[:, None, :]
    prompt, wrong, better = (present & ~right[:, None] & right[None, :]).nonzero(as_tuple=True)
    pairs = mixes.count[prompt, wrong] * mixes.count[prompt, better]  # of answers with these two mixes
    tied = {method: level[method][prompt, wrong] == level[method][prompt, better] for method in METHODS}
    broken = tied["grpo"] & ~tied["gdpo"]
    inverted = level["gdpo"][prompt, wrong] > level["gdpo"][prompt, better]
    lower, higher = mixes.response[prompt, wrong], mixes.response[prompt, better]
    needed = gc.break_even_weights(marks, gc.BrokenTies(lower, higher, inverted))
    # GRPO adds the marks up, so the weight has to make up for the marks by which the wrong answer is ahead.
    ahead = (mixes.passed[wrong, 1:].sum(1) - mixes.passed[better, 1:].sum(1)).double()
    wrong_way = broken & inverted if (broken & inverted).any() else tied["grpo"]
    worst = torch.zeros(len(marks), dtype=torch.int64).scatter_add_(0, prompt, pairs * wrong_way)
    return Priorities(
        grpo_ties=int(pairs[tied["grpo"]].sum()),
        broken=int(pairs[broken].sum()),
        pairs=int(pairs.sum()),
        broken_needed=_most(needed[broken]),
        gdpo_needed=_most(needed),
        grpo_needed=_most(ahead),
        broken_wrong=_wrong(needed[broken], pairs[broken]),
        gdpo_wrong=_wrong(needed, pairs),
        grpo_wrong=_wrong(ahead, pairs),
        wrong=int(pairs[broken & inverted].sum()),
        worst=int(worst.argmax()),
    )


def _most(needed: Tensor) -> float:
    return needed.max().item() if len(needed) else float("nan")


def _wrong(needed: Tensor, pairs: Tensor) -> tuple[float, ...]:
    """The share of the pairs whose wrong answer is first, at each of WEIGHTS."""
    heavier = needed[:, None] > torch.tensor(WEIGHTS, dtype=torch.float64) + 1e-9
    return tuple(((heavier * pairs[:, None]).sum(0).double() / pairs.sum().clamp(min=1)).tolist())


def most_of_all(group_size: int) -> float:
    """The most that GDPO can need to put a right answer before a wrong one, whatever the other two marks.

    The wrong answer is ahead in both at most, and each spreads at most `most_needed` times less than correctness.

    >>> round(most_of_all(12), 4)
    3.6181
    """
    return (len(REWARDS) - 1) * most_needed(group_size)


def sizes(data: Published) -> tuple[int, ...]:
    """The sizes of the curves."""
    return (*(size for size in SIZES if size < len(data.models)), len(data.models))


def by_size(data: Published, choice: Choice) -> dict[int, tuple[Found, Priorities]]:
    """What happens as the groups grow; a larger group holds the smaller ones."""
    choices = {size: replace(choice, group_size=size) for size in sizes(data)}
    return {size: (found(data, one), priorities(data, one)) for size, one in choices.items()}
