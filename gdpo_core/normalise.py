# shim: the lead removes it
from torch import Tensor

from gdpo_core import _groups
from gdpo_core._groups import Normalised, Reduction


def normalise(x: Tensor, over: Reduction, *, eps: None, ddof: int, skip: bool = False) -> Normalised:
    over = _groups.skipping_missing(over) if skip else over
    mean, deviation = _groups.centre(x, over)
    return Normalised(mean, _groups.std_of(deviation, over, ddof), deviation)
