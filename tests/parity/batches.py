"""Random batches on which the frameworks and gdpo_core are compared."""

from dataclasses import dataclass, replace

import torch
from torch import Generator, Tensor

PROMPTS = 16


@dataclass(frozen=True)
class Batch:
    """A batch: rewards, (responses, rewards) in float32 with NaN for a missing one, weights, groups and lengths.
    groups: the group of each response, or the one size of groups that are blocks.
    """

    rewards: Tensor
    weights: Tensor
    groups: int | list[int]
    lengths: Tensor  # tokens per response
    round_off: bool = False  # whether float32 is too coarse for these values, so that what it gives is chance


def batches(seed: int) -> dict[str, Batch]:
    """Return one random batch of each kind, by the name of the kind. The same seed gives the same batches.

    >>> sorted(batches(0)) == sorted(batches(1))
    True
    """
    generator = torch.Generator().manual_seed(seed)
    mixed = _mixed(generator, 8)
    plain = _batch(generator, mixed, 8)
    weighted = replace(plain, weights=torch.tensor([1.0, 0.5, 2.0]))
    dead = mixed.view(PROMPTS, 8, 3).clone()
    dead[::2] = dead[::2, :1]
    constant = torch.stack([torch.full((PROMPTS * 8,), 0.1), torch.full((PROMPTS * 8,), 1 / 3), mixed[:, 2]], 1)
    far = 100 + torch.randn(PROMPTS * 8, 3, generator=generator) * 1e-3
    sizes = torch.randint(1, 9, (PROMPTS,), generator=generator)
    shuffled = torch.arange(PROMPTS).repeat_interleave(sizes)
    shuffled = shuffled[torch.randperm(len(shuffled), generator=generator)]
    return {
        "binary": _batch(generator, _binary(generator, PROMPTS * 8, 3), 8),
        "mixed_equal_len": replace(plain, lengths=torch.full((PROMPTS * 8,), 8)),
        "mixed_skewed_len": replace(weighted, lengths=torch.randint(1, 65, (PROMPTS * 8,), generator=generator)),
        "mixed_weights": weighted,
        "random_weights": replace(plain, weights=torch.randint(0, 49, (3,), generator=generator) / 16),
        # In groups of two with equal weights, rewards would cancel except for the eps, which a step in each group
        # enlarges.
        "group_size_2": replace(_batch(generator, _mixed(generator, 2), 2), weights=weighted.weights),
        "groups_of_one": _batch(generator, _mixed(generator, 1), 1),
        "half_groups_dead": _batch(generator, dead.flatten(0, 1), 8),
        "single_reward": _batch(generator, mixed[:, 2:], 8),
        "eight_rewards": _batch(generator, _binary(generator, PROMPTS * 8, 8), 8),
        "const_0.1_and_1/3": _batch(generator, constant, 8),
        "all_const_0.1": _batch(generator, torch.full((PROMPTS * 8, 3), 0.1), 8, round_off=True),
        "offset_100_sd_1e-3": _batch(generator, far, 8, round_off=True),
        "ragged": _batch(generator, _mixed(generator, 1, len(shuffled)), shuffled.tolist()),
        **{name: replace(weighted, rewards=rewards) for name, rewards in _with_gaps(generator, mixed).items()},
    }


def _batch(generator: Generator, rewards: Tensor, groups: int | list[int], round_off: bool = False) -> Batch:
    """Return a batch of these rewards with equal weights and random lengths."""
    lengths = torch.randint(1, 33, (len(rewards),), generator=generator)
    return Batch(rewards, torch.ones(rewards.shape[1]), groups, lengths, round_off)


def _binary(generator: Generator, responses: int, rewards: int) -> Tensor:
    """Return random rewards, (responses, rewards), each 0 or 1."""
    return (torch.rand(responses, rewards, generator=generator) < 0.4).float()


def _mixed(generator: Generator, rollouts: int, responses: int | None = None) -> Tensor:
    """Return a binary, an ordinal and a continuous reward, (responses, 3), in steps that float32 adds and subtracts
    exactly. rollouts: per group; responses: how many, by default those of `PROMPTS` groups.
    """
    responses = responses or PROMPTS * rollouts
    ordinal = torch.randint(0, 4, (responses, 1), generator=generator).float()
    continuous = (torch.randn(responses, 1, generator=generator) * 16).round() / 16
    return torch.cat([_binary(generator, responses, 1), ordinal, continuous], 1)


def _with_gaps(generator: Generator, mixed: Tensor) -> dict[str, Tensor]:
    """Return the rewards with some of them missing, by the kind of gap: here and there, whole rows, whole groups, and
    all but one of a group. mixed: the rewards without gaps.
    """
    scattered, row, one, group = (mixed.clone() for _ in range(4))
    scattered[torch.rand(mixed.shape, generator=generator) < 0.3] = torch.nan
    rows = torch.randint(0, len(mixed), (3,), generator=generator)
    row[rows] = torch.nan
    one[1:8, 1] = torch.nan
    group[: 3 * 8, 2] = torch.nan
    return {
        "nan_scattered": scattered,
        "nan_row_all": row,
        "nan_one_valid": one,
        "nan_whole_reward_in_groups": group,
    }
