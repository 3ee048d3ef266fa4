"""Mixes of marks: each is a number whose binary digits are the marks of an answer, so that mixes can be counted."""

import torch
from torch import Tensor


def mixes_of(marks: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return how often each mix of marks comes, an answer that has it, and its marks.

    A mix is a number whose binary digits are the marks of an answer. The result is three tensors:
    - (prompts, mixes) how many answers to the prompt have the mix;
    - (prompts, mixes) the number of an answer to the prompt with the mix, 0 if none has it. All answers to all prompts
      are numbered together;
    - (mixes, rewards) the marks of the mix.

    marks: (prompts, answers, rewards) of 0 or 1.
    """
    prompts, size, rewards = marks.shape
    mix = mix_of(marks)
    count = torch.zeros(prompts, 2**rewards, dtype=torch.int64).scatter_add_(1, mix, torch.ones_like(mix))
    number = torch.arange(prompts * size).reshape(prompts, size)
    return count, torch.zeros_like(count).scatter_(1, mix, number), marks_of_mix(torch.arange(2**rewards), rewards)


def mix_of(marks: Tensor) -> Tensor:
    """Return the mix of each answer, (…), a number whose binary digits are its marks.

    marks: (…, rewards) of 0 or 1.
    """
    return (marks.long() << torch.arange(marks.shape[-1] - 1, -1, -1)).sum(-1)


def marks_of_mix(mix: Tensor, rewards: int) -> Tensor:
    """Return the marks of each answer, (…, rewards).

    mix: (…) a number for each answer, whose binary digits are its marks.
    rewards: how many marks an answer has.
    """
    return (mix[..., None] >> torch.arange(rewards - 1, -1, -1)) & 1
