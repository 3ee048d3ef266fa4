"""What a caller may hand in where numbers are expected."""

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from torch import Tensor

ArrayLike: TypeAlias = Tensor | np.ndarray | Sequence["ArrayLike"] | float
Groups: TypeAlias = Tensor | np.ndarray | Sequence[object]
