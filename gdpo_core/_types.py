"""What callers may hand in, as types."""

from collections.abc import Hashable, Iterable, Sequence
from typing import Any, TypeAlias

import numpy as np
from torch import Tensor

# Numbers in a regular shape: a tensor, an array, or numbers (and such) in lists, one level per axis.
ArrayLike: TypeAlias = Tensor | np.ndarray | float | Sequence[Any]
# One id per response: anything that can be a dictionary's key, or a tensor or an array of numbers.
Ids: TypeAlias = Tensor | np.ndarray | Iterable[Hashable]
