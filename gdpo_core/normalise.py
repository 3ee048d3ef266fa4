# shim: the lead removes it
from torch import Tensor

from gdpo_core._groups import Reduction, skipping_missing
from gdpo_core._statistics import Normalised, centre, std_of


def normalise(x: Tensor, over: Reduction, *, eps: None, ddof: int, skip: bool = False) -> Normalised:
    over = skipping_missing(over) if skip else over
    mean, deviation = centre(x, over)
    return Normalised(mean, std_of(deviation, over, ddof), deviation)
