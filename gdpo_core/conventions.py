"""What each implementation does differently, as data that the methods read."""

from dataclasses import dataclass
from typing import Literal, get_args, get_type_hints

from gdpo_core.errors import expect


@dataclass(frozen=True, kw_only=True)
class Convention:
    """How one implementation fills in what the formulas leave open.

    >>> TRL.group_eps, VERL.last_step
    (0.0001, 'tokens')
    """

    name: str
    source: str
    ddof: int = 1  # taken off the count in every standard deviation
    group_eps: float = 0.0  # added to the standard deviation of a group
    grpo_eps: float | None = None  # the same in GRPO, where it differs
    batch_eps: float = 0.0  # added to the spread of GDPO's last step
    batch_eps_to: Literal["std", "variance"] = "std"  # what it is added to
    last_step: Literal["responses", "tokens", "group"] = "responses"  # what GDPO's last step averages over
    missing: Literal["skipped", "propagates"] = "skipped"  # a missing reward; propagates: the statistic is NaN
    missing_is_zero_in_gdpo: bool = False  # GDPO of several rewards takes a missing one as a 0 that counts
    empty_counts: bool = False  # a response without any reward stays in the statistics with sum 0; else it gets 0
    group_of_one: Literal["zero", "raw", "nan"] = "zero"  # raw: its mean is 0 and its std 1; nan: the last step fails
    leave_one_out: bool = False  # mean and std of the other rollouts; where theirs is 0, nothing is divided
    one_reward_is_grpo: bool = False  # GDPO of a single reward is GRPO, without the last step

    def __post_init__(self) -> None:
        for name in ("name", "source"):
            expect(isinstance(getattr(self, name), str), name, "text", repr(getattr(self, name)))
        expect(type(self.ddof) is int and self.ddof in (0, 1), "ddof", "0 or 1", repr(self.ddof))
        for name in ("group_eps", "grpo_eps", "batch_eps"):
            value = getattr(self, name)
            fits = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < float("inf")
            unset = name == "grpo_eps" and value is None
            expect(fits or unset, name, "a finite number that is not negative", repr(value))
        for name, kind in get_type_hints(type(self)).items():
            value, choices = getattr(self, name), get_args(kind)
            if kind is bool:
                expect(isinstance(value, bool), name, "True or False", repr(value))
            elif choices and all(isinstance(choice, str) for choice in choices):
                expect(value in choices, name, f"one of {', '.join(choices)}", repr(value))
        fits = not self.leave_one_out or self.missing == "propagates"
        expect(fits, "missing", "propagates, with leave_one_out", repr(self.missing))

    @property
    def sum_eps(self) -> float:
        """What GRPO adds to the standard deviation of a group's sums.

        >>> MS_SWIFT.sum_eps, MS_SWIFT.group_eps
        (0.0001, 1e-08)
        """
        return self.group_eps if self.grpo_eps is None else self.grpo_eps


PAPER = Convention(name="paper", source="arXiv 2601.05242, equations 1 to 7")

TRL = Convention(
    name="TRL", source="TRL 1.16, GRPOTrainer; axolotl's synchronous trainer", group_eps=1e-4, batch_eps=1e-4
)

NVLABS_TRL = Convention(
    name="NVlabs TRL fork",
    source="NVlabs/GDPO, January 2026, the authors' fork of TRL 0.18",
    group_eps=1e-4,
    batch_eps=1e-4,
    missing_is_zero_in_gdpo=True,
    empty_counts=True,
    one_reward_is_grpo=True,
)

VERL = Convention(
    name="verl",
    source="verl 0.9.1, compute_gdpo_outcome_advantage and masked_whiten",
    group_eps=1e-6,
    batch_eps=1e-8,
    batch_eps_to="variance",
    last_step="tokens",
    missing="propagates",
    group_of_one="raw",
)

MS_SWIFT = Convention(
    name="ms-swift",
    source="ms-swift 4.6.0",
    group_eps=1e-8,
    grpo_eps=1e-4,
    batch_eps=1e-8,
    empty_counts=True,
)

NEMO_RL = Convention(
    name="NeMo-RL",
    source="NeMo-RL, August 2026, use_leave_one_out_baseline false",
    group_eps=1e-6,
    missing="propagates",
)

NEMO_RL_LOO = Convention(
    name="NeMo-RL, leave-one-out",
    source="NeMo-RL, August 2026, its default",
    group_eps=1e-6,
    missing="propagates",
    leave_one_out=True,
)

AXOLOTL_ASYNC = Convention(
    name="axolotl, asynchronous",
    source="axolotl 0.19.0, asynchronous GRPO trainer",
    group_eps=1e-4,
    batch_eps=1e-4,
    empty_counts=True,
)

AXOLOTL_STREAMING = Convention(
    name="axolotl, async streaming",
    source="axolotl 0.19.0, asynchronous GRPO trainer that scores group by group",
    group_eps=1e-4,
    batch_eps=1e-4,
    last_step="group",
    empty_counts=True,
    group_of_one="nan",
)

CONVENTIONS = {
    "paper": PAPER,
    "trl": TRL,
    "nvlabs_trl": NVLABS_TRL,
    "verl": VERL,
    "ms_swift": MS_SWIFT,
    "nemo_rl": NEMO_RL,
    "nemo_rl_loo": NEMO_RL_LOO,
    "axolotl_async": AXOLOTL_ASYNC,
    "axolotl_streaming": AXOLOTL_STREAMING,
}
