"""One computation in formulas and words, the same for the terminal and the page."""

import torch
from torch import Tensor

from gdpo_core.conventions import Convention
from gdpo_core.explain import Explanation

NAMES = {"grpo": "GRPO", "grpo_no_std": "GRPO without std", "gdpo": "GDPO"}
# A bound on the relative round-off of a product, a sum and a mean in float32.
ROUNDED = 2 * torch.finfo(torch.float32).eps


def formulas(method: str, c: Convention, rewards: int) -> tuple[str, ...]:
    """The steps of the method under a convention, in order, one formula per step.

    >>> from gdpo_core import TRL
    >>> print(*formulas("gdpo", TRL, rewards=3), sep="\\n")
    z = (r − mean) / (std + 0.0001), each reward in its group
    s = Σ w·z
    A = (s − mean) / (std + 0.0001), over all responses of the batch
    """
    others = " of the other rollouts" if c.leave_one_out else ""
    if method == "gdpo" and not (c.one_reward_is_grpo and rewards == 1):
        over = {"responses": "all responses of the batch", "tokens": "all tokens of the batch", "group": "each group"}
        divisor = f"√(variance + {c.batch_eps:g})" if c.batch_eps_to == "variance" else _divisor(c.batch_eps, "")
        return (
            f"z = (r − mean{others}) / {_divisor(c.group_eps, others)}, each reward in its group",
            "s = Σ w·z",
            f"A = (s − mean) / {divisor}, over {over[c.last_step]}",
        )
    if method == "grpo_no_std":
        return "s = Σ w·r", f"A = s − mean{others}, in its group"
    eps = c.sum_eps
    return "s = Σ w·r", f"A = (s − mean{others}) / {_divisor(eps, others)}, in its group"


def _divisor(eps: float, others: str) -> str:
    return f"(std{others} + {eps:g})" if eps else f"std{others}"


def exceptions(c: Convention) -> tuple[str, ...]:
    """What the convention does in the cases that the formulas leave open, one sentence per case.

    >>> from gdpo_core import AXOLOTL_STREAMING
    >>> print(*exceptions(AXOLOTL_STREAMING)[1:], sep="\\n")
    A response without any reward counts with sum 0.
    GDPO gives a group of one NaN.
    """
    missing = {
        "skipped": "A missing reward is skipped: statistics and sums run over what is there.",
        "propagates": "A missing reward makes its whole group NaN, under GDPO the whole batch.",
    }[c.missing]
    if c.missing_is_zero_in_gdpo:
        missing = "GDPO of several rewards takes a missing one as 0; GRPO skips it."
    empty = "A response without any reward " + ("counts with sum 0." if c.empty_counts else "is left out and gets 0.")
    alone = {
        "zero": "A group of one gets 0.",
        "raw": "A group of one keeps its raw reward: its mean counts as 0 and its std as 1.",
        "nan": "GDPO gives a group of one NaN.",
    }[c.group_of_one]
    found = [missing, *([empty] if c.missing == "skipped" else []), alone]
    if c.leave_one_out:
        found.append("Where the other rollouts agree, so that their std is 0, nothing is divided.")
    if c.one_reward_is_grpo:
        found.append("GDPO of a single reward is GRPO, without the last step.")
    return tuple(found)


def float32_error(e: Explanation) -> float:
    """How much float32 round-off may change a framework's result of the group step, where a small std magnifies it.

    0 if all values are multiples of 1/1024, which float32 adds up exactly, and for leave-one-out: not examined.

    >>> from gdpo_core import VERL, explain
    >>> constant = explain([[0.1], [0.1], [0.1]], "grpo", convention=VERL)
    >>> round(float32_error(constant), 4), constant.advantages.tolist()
    (0.0238, [0.0, 0.0, 0.0])
    """
    c = e.convention
    eps = c.group_eps if e.z is not None else c.sum_eps
    values = e.rewards if e.z is not None else e.weighted_sums
    if eps == 0 or c.leave_one_out or e.method == "grpo_no_std" or bool(((values * 1024) % 1 == 0).all()):
        return 0.0
    error = normalised_in_float32(
        ROUNDED * e.group_means.abs(), e.group_stds, eps, values.shape[-2 if e.z is not None else -1]
    )
    return error.nan_to_num().max().item()


def normalised_in_float32(error: Tensor, std: Tensor, eps: float, count: Tensor | int) -> Tensor:
    """A bound on the error of (x − mean) / (std + eps) in float32, given the error of x − mean.

    Normalised values of `count` responses stay below √count, and so does their error; it is 0 where nothing is divided.

    >>> normalised_in_float32(torch.tensor([0.01, 1.0, 1.0]), torch.tensor([0.5, 1e-9, 0.0]), 0.0, 4)
    tensor([0.0200, 2.0000, 0.0000])
    """
    divisor = std + eps
    most = torch.as_tensor(count, dtype=error.dtype).sqrt()
    return torch.minimum(error / divisor.masked_fill(divisor == 0, torch.inf), most)


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
