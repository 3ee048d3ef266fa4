# shim: the lead removes it
from typing import Any

from torch import Tensor

from gdpo_core import _groups
from gdpo_core._groups import Batch, Reduction, over_axes, read, weighted  # noqa: F401


def along(x: Tensor, *axes: int) -> Reduction:
    return over_axes(x.shape, *axes)


def whole(x: Tensor) -> Reduction:
    return over_axes(x.shape, *((-2, -1) if x.ndim > 1 else (-1,)))


def batch_of(x: Tensor, weights: Tensor, _weight: float = 0.0, **options: Any) -> Batch:
    return _groups.batch_of(x, weights, **options)
