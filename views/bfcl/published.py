"""Verdicts on the published answers of many models to the same BFCL prompts, and groups drawn from these answers."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from gdpo_core.shared.errors import InputError, expect, is_whole
from views.bfcl.graders import REWARDS

# The graders of the three rewards, and other graders of the same answers.
GRADERS = (*REWARDS, "style_args", "envelope", "conciseness_lenient", "bfcl_ast_valid")
_LABELS = ("task_id", "category", "model")
_LARGEST_SEED = 2**63 - 1


@dataclass(frozen=True, eq=False)  # compared and hashed by identity, so that it can be part of a cache's key
class Published:
    """Verdicts of several graders on one answer of each model to each prompt.

    The answers to a prompt come from different models, so they are no samples of one policy.

    tasks: the id of each prompt.
    categories: the BFCL category of each prompt.
    models: the names of the models.
    verdicts: (prompts, models, graders) of 0 or 1, int8, with the graders in the order of GRADERS.
    """

    tasks: tuple[str, ...]
    categories: tuple[str, ...]
    models: tuple[str, ...]
    verdicts: Tensor

    def rewards(self, graders: Sequence[str] = REWARDS) -> Tensor:
        """Return the verdicts of these graders as rewards of 0 or 1, (prompts, models, graders), int8.

        graders: names out of GRADERS.

        Raises InputError for any other name.

        >>> load_published("data/bfcl_rewards.parquet").rewards(("bfcl_ast_valid", "envelope")).shape
        torch.Size([963, 71, 2])
        """
        for name in graders:
            expect(name in GRADERS, "graders", f"names out of {', '.join(GRADERS)}", repr(name))
        return self.verdicts[..., [GRADERS.index(name) for name in graders]]


def load_published(path: str | Path) -> Published:
    """Return the verdicts in a Parquet file, which has a row per answer and a column of 0 or 1 per grader.

    Rows with a null are left out. Prompts and models keep the order in which they first come in the file. Raises
    InputError for a file that cannot be read, or does not hold one verdict of each grader on each model's answer to
    each prompt.

    >>> published = load_published("data/bfcl_rewards.parquet")
    >>> len(published.tasks), len(published.models), published.tasks[0]
    (963, 71, 'simple_python_0')
    """
    import polars as pl  # the import takes 0.2 s, for which a page with a board alone should not wait

    try:
        frame = pl.read_parquet(path, glob=False).drop_nulls()
        frame = frame.select(pl.col(_LABELS).cast(pl.Categorical), pl.col(GRADERS).cast(pl.Int8))
        tasks, models = (
            tuple(frame[name].unique(maintain_order=True).cast(pl.String)) for name in ("task_id", "model")
        )
        prompt, model = (
            frame[name].cast(pl.Enum(names)).to_physical().cast(pl.Int64).to_torch()
            for name, names in (("task_id", tasks), ("model", models))
        )
        answers = frame.select(GRADERS).to_torch()  # (answers, graders)
        categories = frame.unique("task_id", keep="first", maintain_order=True)["category"].cast(pl.String)
    except (OSError, pl.exceptions.PolarsError) as error:
        why = "no such file" if isinstance(error, FileNotFoundError) else str(error).partition("\n")[0]
        raise InputError(f"{path}: expected a Parquet file of published verdicts, got: {why}") from error
    verdicts = torch.full((len(tasks), len(models), len(GRADERS)), -1, dtype=torch.int8)
    verdicts[prompt, model] = answers
    complete = len(answers) == len(tasks) * len(models) and bool(((verdicts == 0) | (verdicts == 1)).all())
    each = f"one verdict of 0 or 1 on the answer of each of {len(models)} models to each of {len(tasks)} prompts"
    expect(complete and len(answers) > 0, str(path), each, f"others in {len(answers)} rows")
    return Published(tasks, tuple(categories), models, verdicts)


def draw_models(published: Published, group_size: int, seed: int) -> Tensor:
    """Return the models whose answers make up the group of each prompt, (prompts, group_size), as ascending numbers.

    The models are drawn without replacement, for each prompt anew. With the same seed a larger group holds the smaller
    ones. Raises InputError if the size is not from 2 to the number of models, or the seed is negative or too large.

    >>> published = load_published("data/bfcl_rewards.parquet")
    >>> draw_models(published, 71, seed=0)[0].equal(torch.arange(71))
    True
    """
    most = len(published.models)
    for name, value, low, high in (("group_size", group_size, 2, most), ("seed", seed, 0, _LARGEST_SEED)):
        expect(is_whole(value) and low <= value <= high, name, f"a whole number from {low} to {high}", repr(value))
    return shuffle_models(len(published.tasks), len(published.models), int(seed))[:, :group_size].sort(1).values


def shuffle_models(prompts: int, models: int, seed: int) -> Tensor:
    """Return the numbers of the models in a random order for each prompt, (prompts, models).

    As many models as a group has answers are taken from the front of a prompt's order to make up its group.

    >>> shuffle_models(963, 71, seed=0).shape
    torch.Size([963, 71])
    """
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(prompts, models, generator=generator, dtype=torch.float64).argsort(1)
