"""The ties and wrong orders that GRPO and GDPO make of the published answers to real prompts.

A tie is of answers to one prompt that have different marks and one advantage. In a wrong order a wrong answer has a
larger advantage than a right one. They are counted for one draw of answers, over many draws, and by the size of the
groups.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product
from pathlib import Path

import torch
from torch import Tensor

from gdpo_core.ties import BrokenTies, Collapse, Order, break_even_weights, broken_ties, collapse
from views.bfcl.graders import REWARDS
from views.bfcl.mixes import marks_of_mix, mix_of, mixes_of
from views.bfcl.published import Published, draw_models, load_published, shuffle_models

BOTH_METHODS = ("grpo", "gdpo")
DRAWS = 100  # how many draws the range of a share is taken over, with the seeds from 0 on
# The weights of correctness for which curves are drawn. The last is 1.1 times 5.84, the largest weight that we found to
# be needed, for 70 answers under other graders.
WEIGHT_STEPS = tuple(round(1 + n / 20, 2) for n in range(111))
TABLE_WEIGHTS = WEIGHT_STEPS[::5]  # the weights of correctness of which tables have a row
SIZES = (2, 3, 4, 6, 8, 12, 16, 24, 32, 48)  # the sizes of groups that are drawn, besides all answers
# For each mark, the graders that can give it: from the grader's name to words for the reader. The first is the default.
READINGS = (
    {"correctness": "accepted values", "bfcl_ast_valid": "BFCL's own checker"},
    {"style": "types, spelling, bare call", "style_args": "types and spelling", "envelope": "a bare call"},
    {"conciseness": "strict", "conciseness_lenient": "lenient"},
)
GRADED = tuple(".".join(names) for names in product(*READINGS))  # every choice of a grader per mark
# What can happen to a prompt. both: both methods tie different marks; wrong: GRPO ties, and GDPO puts a wrong answer
# above a right one among these; apart: GRPO ties, and GDPO does not do that; gdpo: GDPO alone ties; untied: neither
# does; alike: all answers have the same marks.
OUTCOMES = ("both", "wrong", "apart", "gdpo", "untied", "alike")
_SAME = 1e-9  # two weights that are closer to each other than this are one
_BITS = 7  # the bits of a count of answers, of which there are fewer than 128


@dataclass(frozen=True)
class Choice:
    """A choice of answers: how many are drawn for each prompt, who marks them, and what correctness weighs.

    group_size: how many answers make up the group of each prompt.
    seed: the seed with which they are drawn.
    graders: the names of the graders that give the marks, correctness first.
    weight: the weight of the first mark; the others weigh 1.
    """

    group_size: int = 12
    seed: int = 0
    graders: tuple[str, ...] = REWARDS
    weight: float = 1.0

    @property
    def weights(self) -> tuple[float, ...]:
        return (self.weight, *[1.0] * (len(self.graders) - 1))

    def weighing(self, weight: float) -> "Choice":
        """Return this choice with another weight of correctness."""
        return replace(self, weight=weight)


@lru_cache(maxsize=2)
def load_once(path: str | Path) -> Published:
    """Return the published verdicts of a file.

    Those of the last two paths are kept in memory, so that a file is not read anew. Raises the errors of
    `load_published`.
    """
    return load_published(path)


def models(data: Published) -> int:
    """Return the number of models in the data.

    A model that is there both with and without native function calling counts once.

    >>> models(load_published("data/bfcl_rewards.parquet"))
    50
    """
    return len({re.sub(r"-FC(-Any|-Auto)?$", "", name) for name in data.models})


@lru_cache(maxsize=16)
def marks_of(data: Published, choice: Choice) -> Tensor:
    """Return the marks, 0 or 1, (prompts, group_size, rewards), of the answers that are drawn for each prompt.

    Results are kept in memory, where each takes at most 0.2 MB.

    choice: how many answers are drawn, with which seed, and who marks them.
    """
    marks = data.rewards(choice.graders)
    return marks.gather(1, draw_models(data, choice.group_size, choice.seed)[..., None].expand(-1, -1, marks.shape[-1]))


def ties_of(marks: Tensor, weights: Iterable[float]) -> dict[str, Collapse]:
    """Return the ties among the advantages of these marks under GRPO and under GDPO: by method, a `Collapse`.

    marks: (prompts, answers, rewards).
    weights: one per reward.
    """
    return {method: collapse(marks, method, weights=tuple(weights)) for method in BOTH_METHODS}


@dataclass(frozen=True)
class Outcomes:
    """The outcomes of some prompts: which of GRPO and GDPO tie answers with different marks.

    If GRPO alone does, the outcome also says whether GDPO puts a wrong one of these answers above a right one.

    outcome: (prompts,) indices into OUTCOMES, where the outcomes are explained.
    tied: by method, the number of prompts in which answers with different marks tie.
    wrong: the number of prompts in which GDPO puts a wrong answer above a right one that GRPO ties with it.
    """

    outcome: Tensor
    tied: dict[str, int]
    wrong: int

    @property
    def counts(self) -> dict[str, int]:
        """The number of prompts by their outcome, a name of OUTCOMES."""
        return dict(zip(OUTCOMES, self.outcome.bincount(minlength=len(OUTCOMES)).tolist(), strict=True))


def outcomes(marks: Tensor, ties: Mapping[str, Collapse]) -> Outcomes:
    """Return the outcome of each prompt: whether GRPO, GDPO or both give answers with different marks one advantage.

    If GRPO alone does, the outcome also says whether GDPO then orders these answers wrongly. OUTCOMES lists all
    outcomes.

    marks: (prompts, answers, rewards) of 0 or 1.
    ties: by method, the `Collapse` of its advantages of these marks.

    >>> marks = torch.tensor([[[1, 0, 0], [0, 1, 0], [0, 0, 0], [0, 1, 1]]])
    >>> outcomes(marks, ties_of(marks, (1, 1, 1))).counts["apart"]
    1
    """
    tied, different = _ties_and_vectors(marks, ties)
    broken = broken_ties(ties["grpo"], ties["gdpo"])
    wrong = torch.zeros(len(marks), dtype=torch.bool)
    wrong[broken.lower[broken.inverted] // marks.shape[1]] = True
    grpo, gdpo = tied.values()
    outcome = torch.where(gdpo, 3, 4).where(~grpo, torch.where(gdpo, 0, torch.where(wrong, 1, 2)))
    return Outcomes(outcome.where(different > 1, 5), {m: int(x.sum()) for m, x in tied.items()}, int(wrong.sum()))


def _ties_and_vectors(marks: Tensor, ties: Mapping[str, Collapse]) -> tuple[dict[str, Tensor], Tensor]:
    """Return a dict, by method, of (prompts,) whether answers with different marks tie, and a tensor of counts.

    The tensor, (prompts,), says how many different vectors of marks the answers to each prompt have.

    marks: (prompts, answers, rewards) of 0 or 1.
    ties: by method, the `Collapse` of its advantages of these marks.
    """
    different = (mixes_of(marks)[0] > 0).sum(1)
    return {m: ties[m].level.view(marks.shape[:2]).amax(1) + 1 < different for m in BOTH_METHODS}, different


@dataclass(frozen=True)
class Pairs:
    """All pairs of a wrong and a right answer to the same prompt.

    An entry stands for all pairs of one prompt whose answers have the same marks. Which answer of a pair gets the
    larger advantage depends on how much correctness weighs, so the pairs can be looked at under any weight.

    prompt: (entries,) the number of the entry's prompt.
    count: (entries,) how many pairs the entry stands for.
    needed: by method, (entries,) the weight of correctness above which the right answer gets the larger advantage.

    Some methods of this class take `among`, (entries,): whether the pairs of an entry are counted; by default all are.
    """

    prompt: Tensor
    count: Tensor
    needed: dict[str, Tensor]

    def tied(self, method: str, weight: float = 1.0) -> Tensor:
        """Return (entries,) whether the method ties the two answers of each pair of an entry.

        weight: the weight of correctness.
        """
        return (self.needed[method] - weight).abs() < _SAME

    def broken(self, weight: float = 1.0) -> Tensor:
        """Return (entries,) whether GRPO ties the two answers of each pair of an entry and GDPO does not.

        weight: the weight of correctness.
        """
        return self.tied("grpo", weight) & ~self.tied("gdpo", weight)

    def order(self, method: str, weight: float = 1.0, among: Tensor | None = None) -> Order:
        """Return how many pairs the method orders right, how many it ties, and how many it orders wrong.

        weight: the weight of correctness under which the advantages of a pair are compared.
        among: (entries,) whether the pairs of each entry count, by default all. An entry stands for pairs of one prompt
            with the same marks.
        """
        tied, wrong = self.tied(method, weight), self.needed[method] > weight + _SAME
        counted = (self.count if among is None else self.count * among).double()
        right, same, first = (int((counted * where).sum()) for where in (~tied & ~wrong, tied, wrong))
        return Order(right, same, first)

    def wrong(self, method: str, weight: float = 1.0, among: Tensor | None = None) -> float | None:
        """Return the share of the pairs whose wrong answer gets the larger advantage; None if there is no pair.

        weight: the weight of correctness.
        among: (entries,) whether the pairs of each entry count, by default all. An entry stands for pairs of one prompt
            with the same marks.
        """
        order = self.order(method, weight, among)
        return order.wrong / order.pairs if order.pairs else None

    def curve(self, method: str, among: Tensor | None = None) -> dict[float, float]:
        """Return for each weight of WEIGHT_STEPS, the share of the pairs in the wrong order; 0 if there is no pair.

        among: (entries,) whether the pairs of each entry count, by default all. An entry stands for pairs of one prompt
            with the same marks.
        """
        count = self.count if among is None else self.count * among
        wrong = self.needed[method][:, None] > torch.tensor(WEIGHT_STEPS, dtype=torch.float64) + _SAME
        shares = (wrong * count[:, None]).sum(0).double() / count.sum().clamp(min=1)
        return dict(zip(WEIGHT_STEPS, shares.tolist(), strict=True))

    def sufficient_weight(self, method: str, among: Tensor | None = None) -> float:
        """Return the weight of correctness above which every pair is in the right order; NaN if there is no pair.

        among: (entries,) whether the pairs of each entry count, by default all. An entry stands for pairs of one prompt
            with the same marks.
        """
        needed = self.needed[method] if among is None else self.needed[method][among]
        return needed.max().item() if len(needed) else float("nan")

    def worst(self) -> int:
        """Return the index of the prompt in which GDPO decides the most ties of GRPO wrongly, if all marks weigh the
        same.

        A tie is a pair of a wrong and a right answer with one advantage. GDPO decides it wrongly if it gives the wrong
        answer the larger advantage. If there is no such tie, the result is the prompt with the most ties under GRPO;
        without any pair, it is 0.
        """
        inverted = self.broken() & (self.needed["gdpo"] > 1)
        which = inverted if inverted.any() else self.tied("grpo")
        if not len(which):
            return 0
        whole = torch.zeros(int(self.prompt.max()) + 1, dtype=torch.int64)
        return int(whole.scatter_add_(0, self.prompt, self.count * which).argmax())


def pairs(marks: Tensor) -> Pairs:
    """Return all pairs of a wrong and a right answer to one prompt, for all prompts.

    marks: (prompts, answers, rewards) of 0 or 1. The first mark says whether an answer is right.

    >>> found = pairs(torch.tensor([[[1, 0, 0], [0, 1, 0], [0, 1, 0], [0, 1, 1]]]))
    >>> found.order("grpo"), found.order("grpo", weight=3)
    (Order(right=0, tied=2, wrong=1), Order(right=3, tied=0, wrong=0))
    """
    count, response, passed = mixes_of(marks)
    there, right = count > 0, passed[:, 0] > 0
    prompt, wrong, better = (there[:, :, None] & there[:, None, :] & ~right[:, None] & right).nonzero(as_tuple=True)
    lower, higher = response[prompt, wrong], response[prompt, better]
    needed = break_even_weights(marks, BrokenTies(lower, higher, lower > higher))
    # GRPO adds the marks up, so correctness has to weigh as much as the other marks by which the wrong answer is ahead.
    ahead = (passed[wrong, 1:].sum(1) - passed[better, 1:].sum(1)).double()
    return Pairs(prompt, count[prompt, wrong] * count[prompt, better], {"grpo": ahead, "gdpo": needed})


# --- other draws and other sizes -------------------------------------------------------------------------------------

Range = tuple[float, float]


@dataclass(frozen=True)
class Spread:
    """The range of two shares over DRAWS draws of answers, each as a pair of its lowest and its highest value.

    tied: by method, the share of the prompts in which answers with different marks tie.
    wrong: of the pairs of a right and a wrong answer that GRPO ties and GDPO does not, the share that GDPO puts in the
        wrong order. None if no draw has such a pair.
    draws: how many draws have such a pair.
    """

    tied: dict[str, Range]
    wrong: Range | None
    draws: int


def range_of_shares(data: Published, choice: Choice) -> Spread:
    """Return the lowest and the highest value of two shares over DRAWS draws of answers.

    The first is, by method, the share of prompts in which answers with different marks tie. The second is a share of
    the pairs of a right and a wrong answer that GRPO ties and GDPO does not: those that GDPO puts in the wrong order.

    Each draw takes as many answers per prompt as `choice` says. The seeds of the draws count from 0, whatever the seed
    of the choice. Groups that hold the same mixes of marks, each equally often, have the same ties, which are computed
    once.
    """
    chosen = (1 << _BITS * mix_of(data.rewards(choice.graders)))[None].expand(DRAWS, -1, -1)  # (draws, prompts, models)
    orders = other_orders(len(data.tasks), len(data.models))
    counted = chosen.gather(2, orders[..., : choice.group_size].long()).sum(2)  # each 7 bits count one mix
    kinds, kind = counted.unique(return_inverse=True)
    rewards = len(choice.graders)
    mixes = torch.arange(2**rewards)
    count = (kinds[:, None] >> _BITS * mixes) & 2**_BITS - 1
    groups = mixes.expand(len(kinds), -1).flatten().repeat_interleave(count.flatten())
    marks = marks_of_mix(groups.view(len(kinds), choice.group_size), rewards)
    tied, _ = _ties_and_vectors(marks, ties_of(marks, choice.weights))
    first = pairs(marks)

    def per_draw(among: Tensor) -> Tensor:
        whole = torch.zeros(len(kinds), dtype=torch.int64).scatter_add_(0, first.prompt, first.count * among)
        return whole[kind].sum(1).double()

    among = first.broken(choice.weight)
    broken = per_draw(among)
    wrong = (per_draw(among & (first.needed["gdpo"] > choice.weight)) / broken)[broken > 0]
    shares = {m: _range(x[kind].double().mean(1)) for m, x in tied.items()}
    return Spread(shares, _range(wrong) if len(wrong) else None, len(wrong))


@lru_cache(maxsize=1)
def other_orders(prompts: int, models: int) -> Tensor:
    """Return the numbers of the models in random orders, (DRAWS, prompts, models), with the seeds from 0 on.

    The first numbers of an order make up the prompt's group. For the published answers the result takes 7 MB, and
    computing it takes a third of a second. The last result is kept.

    >>> other_orders(2, 71).shape
    torch.Size([100, 2, 71])
    """
    return torch.stack([shuffle_models(prompts, models, seed).byte() for seed in range(DRAWS)])


def _range(x: Tensor) -> Range:
    return x.min().item(), x.max().item()


@dataclass(frozen=True)
class SizeShares:
    """Three shares in groups of one size.

    tied: by method, the share of the prompts in which answers with different marks tie.
    tied_pairs: by method, the share of the pairs of answers with different marks that tie.
    wrong: of the pairs of a right and a wrong answer that GRPO ties and GDPO does not, the share that GDPO puts in the
        wrong order. None if there is no such pair.
    """

    tied: dict[str, float]
    tied_pairs: dict[str, float]
    wrong: float | None


@lru_cache(maxsize=64)
def size_shares(data: Published, choice: Choice) -> SizeShares:
    """Return how often answers tie in this choice, and how often GDPO breaks a tie of GRPO the wrong way.

    `SizeShares` says which shares these are. Each prompt has one group, of the size of the choice.
    """
    marks = marks_of(data, choice)
    ties, first = ties_of(marks, choice.weights), pairs(marks)
    tied = {m: count / len(marks) for m, count in outcomes(marks, ties).tied.items()}
    wrong = first.wrong("gdpo", choice.weight, first.broken(choice.weight))
    return SizeShares(tied, {m: c.tied_pairs for m, c in ties.items()}, wrong)


def by_size(data: Published, choice: Choice) -> dict[int, SizeShares]:
    """Return by group size how often groups have ties, and how often GDPO breaks a tie the wrong way.

    The sizes are the numbers in SIZES below the number of models, and the number of models itself, at which a group
    holds the answers of all models. For one prompt, a smaller group is part of each larger group.

    choice: which answers are drawn and how they are marked; its own group size does not count.
    """
    most = len(data.models)
    return {size: size_shares(data, replace(choice, group_size=size)) for size in (*filter(most.__gt__, SIZES), most)}
