"""Verdicts on the answers that many models published to the same BFCL prompts, and groups drawn from them."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl
import torch
from torch import Tensor

from gdpo_core.bfcl.graders import REWARDS
from gdpo_core.errors import InputError, expect, is_whole

# The three rewards, and the other graders of the same answers.
GRADERS = (*REWARDS, "style_args", "envelope", "conciseness_lenient", "bfcl_ast_valid")
_LABELS = ("task_id", "category", "model")
_LARGEST_SEED = 2**63 - 1


@dataclass(frozen=True, eq=False)  # compared and hashed by identity, so that it can be part of a cache's key
class Published:
    """Verdicts on one answer per model and prompt.

    The answers to a prompt come from different models: they are no samples of one policy.
    """

    tasks: tuple[str, ...]  # (prompts,)
    categories: tuple[str, ...]  # (prompts,)
    models: tuple[str, ...]
    verdicts: Tensor  # (prompts, models, graders) of 0 or 1, int8, in the order of GRADERS

    def rewards(self, graders: Sequence[str] = REWARDS) -> Tensor:
        """The verdicts of these graders as rewards, (prompts, models, rewards); InputError for an unknown grader.

        >>> load_published("data/bfcl_rewards.parquet").rewards(("bfcl_ast_valid", "envelope")).shape
        torch.Size([963, 71, 2])
        """
        for name in graders:
            expect(name in GRADERS, "graders", f"names out of {', '.join(GRADERS)}", repr(name))
        return self.verdicts[..., [GRADERS.index(name) for name in graders]]


def load_published(path: str | Path) -> Published:
    """Read the verdicts from a Parquet file: one row per answer, one column of 0 or 1 per grader.

    Prompts and models keep the order in which they first come. Raises InputError for a missing column or verdict, a
    verdict that is neither 0 nor 1, and an answer that is there twice or not at all; it names the file, and the column
    or the row, counted from 1.

    >>> published = load_published("data/bfcl_rewards.parquet")
    >>> len(published.tasks), len(published.models), published.tasks[0]
    (963, 71, 'simple_python_0')
    """
    frame = _read(Path(path))
    tasks, models = (tuple(frame[name].unique(maintain_order=True).cast(pl.String)) for name in ("task_id", "model"))
    prompt, model = (
        frame[name].cast(pl.Enum(names)).to_physical().cast(pl.Int64)
        for name, names in (("task_id", tasks), ("model", models))
    )
    _check_complete(frame, prompt * len(models) + model, tasks, models, path)
    verdicts = torch.empty(len(tasks), len(models), len(GRADERS), dtype=torch.int8)
    verdicts[prompt.to_torch(), model.to_torch()] = frame.select(GRADERS).to_torch()
    return Published(tasks, _categories(frame, path), models, verdicts)


def draw(published: Published, group_size: int, seed: int) -> Tensor:
    """The models whose answers make up the group of each prompt, (prompts, group_size), as ascending numbers.

    The draw is without replacement and independent per prompt. With the same seed a larger group holds the smaller
    ones. Raises InputError.

    >>> published = load_published("data/bfcl_rewards.parquet")
    >>> draw(published, 71, seed=0)[0].equal(torch.arange(71))
    True
    """
    most = len(published.models)
    for name, value, low, high in (("group_size", group_size, 2, most), ("seed", seed, 0, _LARGEST_SEED)):
        expect(is_whole(value) and low <= value <= high, name, f"a whole number from {low} to {high}", repr(value))
    generator = torch.Generator().manual_seed(int(seed))
    shuffled = torch.rand(len(published.tasks), most, generator=generator, dtype=torch.float64).argsort(1)
    return shuffled[:, :group_size].sort(1).values


def _read(path: Path) -> pl.DataFrame:
    """The columns that are needed, labels as categories and verdicts as int8."""
    try:
        frame = pl.read_parquet(path, glob=False)
    except (OSError, pl.exceptions.PolarsError) as error:
        why = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InputError(f"{path}: expected a readable Parquet file, got {why}") from error
    for name in (*_LABELS, *GRADERS):
        expect(name in frame.columns, str(path), f"a column {name}", f"columns {', '.join(frame.columns)}")
    expect(frame.height > 0, str(path), "at least one row", "none")
    for name in _LABELS:
        text = frame[name].dtype in (pl.String, pl.Categorical, pl.Enum)
        expect(text, f"{path}: column {name}", "names", f"values of type {frame[name].dtype}")
        _expect_rows(frame[name].is_not_null(), frame[name], path, "a name")
    for name in GRADERS:
        values = frame[name]
        usable = values.dtype.is_numeric() or values.dtype == pl.Boolean
        expect(usable, f"{path}: column {name}", "0 or 1", f"values of type {values.dtype}")
        _expect_rows(values.cast(pl.Float64).is_in([0.0, 1.0]).fill_null(False), values, path, "0 or 1")
    return frame.select(pl.col(_LABELS).cast(pl.Categorical), pl.col(GRADERS).cast(pl.Int8))


def _expect_rows(good: pl.Series, values: pl.Series, path: Path, expected: str) -> None:
    if not good.all():
        row = (~good).arg_true()[0]
        raise InputError(f"{path}: column {values.name}, row {row + 1}: expected {expected}, got {values[row]!r}")


def _check_complete(
    frame: pl.DataFrame, cell: pl.Series, tasks: Sequence[str], models: Sequence[str], path: str | Path
) -> None:
    twice = (~cell.is_first_distinct()).arg_true()
    if len(twice):
        row = twice[0]
        name, first = f"{path}: row {row + 1}", (cell == cell[row]).arg_true()[0]
        answer = f"{frame['model'][row]}'s to {frame['task_id'][row]}"
        raise InputError(f"{name}: expected an answer that is not there yet, got {answer} again, as in row {first + 1}")
    if len(cell) < len(tasks) * len(models):
        absent = torch.ones(len(tasks) * len(models), dtype=torch.bool)
        absent[cell.to_torch()] = False
        task, model = divmod(int(absent.nonzero()[0]), len(models))
        each = f"an answer of each of the {len(models)} models to each of the {len(tasks)} prompts"
        raise InputError(f"{path}: expected {each}, got none of {models[model]} to {tasks[task]}")


def _categories(frame: pl.DataFrame, path: str | Path) -> tuple[str, ...]:
    first = frame.unique("task_id", keep="first", maintain_order=True)["category"].cast(pl.String)
    several = frame.unique(["task_id", "category"]).filter(pl.col("task_id").is_duplicated())
    if len(several):
        task = several["task_id"][0]
        names = " and ".join(sorted(several.filter(pl.col("task_id") == task)["category"].cast(pl.String)))
        raise InputError(f"{path}: column category: expected one for all rows of {task}, got {names}")
    return tuple(first)
