"""One computation in formulas and words, the same for the terminal and the page."""

import torch

from gdpo_core.conventions import exceptions as exceptions  # shim: the lead removes it
from gdpo_core.conventions import formulas as formulas  # shim: the lead removes it
from gdpo_core.explain import Explanation

NAMES = {"grpo": "GRPO", "grpo_no_std": "GRPO without std", "gdpo": "GDPO"}
_FLOAT32 = torch.finfo(torch.float32).eps / 2


def float32_error(e: Explanation) -> float:
    """How much float32 round-off may change a framework's result of the group step, where a small std magnifies it.

    0 if all values are multiples of 1/1024, which float32 adds up exactly, and for leave-one-out: not examined.

    >>> from gdpo_core import VERL, explain
    >>> constant = explain([[0.1], [0.1], [0.1]], "grpo", convention=VERL)
    >>> round(float32_error(constant), 4), constant.advantages.tolist()
    (0.006, [0.0, 0.0, 0.0])
    """
    c = e.convention
    eps = c.group_eps if e.z is not None else c.sum_eps
    values = e.rewards if e.z is not None else e.weighted_sums
    if eps == 0 or c.leave_one_out or e.method == "grpo_no_std" or bool(((values * 1024) % 1 == 0).all()):
        return 0.0
    return (e.group_means.abs() * _FLOAT32 / (e.group_stds + eps)).nan_to_num().max().item()


def only_eps_is_left(e: Explanation) -> bool:
    """Whether the normalised rewards cancel, so that GDPO's last step divides by little more than eps.

    >>> from gdpo_core import MS_SWIFT, explain
    >>> only_eps_is_left(explain([[0, -3], [-2, 3]], convention=MS_SWIFT))
    True
    """
    if e.batch_std is None:
        return False
    std = torch.as_tensor(e.batch_std)
    return bool(((std > 0) & (std < 1e-4 * e.weights.abs().sum())).any())
