"""Conventions: how implementations differ from the paper where they compute advantages.

A convention is a record that the methods read. The functions here put a convention into formulas and sentences.
"""

from dataclasses import dataclass, replace
from typing import Literal, get_args, get_type_hints

from gdpo_core.shared.errors import expect, is_finite

# The names of the methods. The first three are compared in every report; the others can have made a log.
NAMES = {
    "grpo": "GRPO",
    "grpo_no_std": "GRPO without std",
    "gdpo": "GDPO",
    "grpo_batch_std": "GRPO with the batch's std",
    "reinforce_pp_baseline": "REINFORCE++-baseline",
    "reinforce_pp": "REINFORCE++",
    "mo_grpo": "MO-GRPO",
    "max_rl": "MaxRL",
}
COMPARED = ("grpo", "grpo_no_std", "gdpo")


@dataclass(frozen=True, kw_only=True)
class Convention:
    """A convention: how one implementation fills in what the formulas leave open.

    >>> PAPER.ddof, PAPER.group_eps, PAPER.last_step
    (1, 0.0, 'responses')
    """

    name: str
    source: str  # where the convention was read
    ddof: int = 1  # the number that is subtracted from the count in every standard deviation
    group_eps: float = 0.0  # the eps that is added to the standard deviation of a group
    grpo_eps: float | None = None  # the eps of methods on the weighted sum, such as GRPO; None: `group_eps`
    batch_eps: float = 0.0  # the eps that is added to the spread of GDPO's batch step
    batch_eps_to: Literal["std", "variance"] = "std"  # the spread to which `batch_eps` is added
    # over what the mean and std of GDPO's batch step are taken: all responses, all tokens or each group
    last_step: Literal["responses", "tokens", "group"] = "responses"
    # skipped: a missing reward is left out of every statistic; propagates: it makes its statistics NaN
    missing: Literal["skipped", "propagates"] = "skipped"
    missing_is_zero_in_gdpo: bool = False  # whether GDPO of several rewards takes a missing one as a 0 that counts
    # Whether a response without any reward stays in the statistics, with sum 0; else it takes no part and gets 0.
    empty_counts: bool = False
    # What a group of one response gets: zero: 0; raw: its raw reward, as if the mean were 0 and the std 1; nan: NaN
    # where GDPO's batch step looks at that group alone, else 0.
    group_of_one: Literal["zero", "raw", "nan"] = "zero"
    # Whether the mean and std of a rollout are those of the others in its group; where that std is 0, nothing is
    # divided.
    leave_one_out: bool = False
    one_reward_is_grpo: bool = False  # whether GDPO of a single reward is GRPO, without the batch step
    # Whether the mean of the other rollouts is subtracted from a weighted sum, as in RLOO. The std is still that of all
    # rollouts, and GDPO does not change.
    mean_of_others: bool = False

    def __post_init__(self) -> None:
        for name in ("name", "source"):
            expect(isinstance(getattr(self, name), str), name, "text", repr(getattr(self, name)))
        expect(type(self.ddof) is int and self.ddof in (0, 1), "ddof", "0 or 1", repr(self.ddof))
        for name in ("group_eps", "grpo_eps", "batch_eps"):
            value = getattr(self, name)
            if name == "grpo_eps" and value is None:
                continue
            expect(is_finite(value) and value >= 0, name, "a finite number that is not negative", repr(value))
            object.__setattr__(self, name, float(value))
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
        """The eps that GRPO and other methods add to the standard deviation of a weighted sum.

        It is `grpo_eps`, or `group_eps` where `grpo_eps` is None.

        >>> Convention(name="ms-swift", source="4.6.0", group_eps=1e-8, grpo_eps=1e-4).sum_eps
        0.0001
        """
        return self.group_eps if self.grpo_eps is None else self.grpo_eps

    @property
    def without_eps(self) -> "Convention":
        """A convention that differs from this one in its eps alone: nothing is added to a std or variance.

        It is the convention itself where it has no eps.

        >>> PAPER.without_eps is PAPER
        True
        """
        some = self.group_eps or self.grpo_eps or self.batch_eps
        return replace(self, group_eps=0.0, grpo_eps=None, batch_eps=0.0) if some else self


PAPER = Convention(name="paper", source="arXiv 2601.05242, equations 1 to 7")


def formulas(method: str, convention: Convention, rewards: int) -> tuple[str, ...]:
    """Return the formulas by which a method computes the advantages under a convention, one per step, in order.

    method: a key of NAMES.
    rewards: how many rewards there are; for a single one, some conventions compute GDPO as GRPO.

    >>> print(*formulas("gdpo", PAPER, rewards=3), sep="\\n")
    z = (r − mean) / std, each reward in its group
    s = Σ w·z
    A = (s − mean) / std, over all responses of the batch
    """
    whose = " of the other rollouts" if convention.leave_one_out else ""
    z = f"z = (r − mean{whose}) / {_divisor(convention.group_eps, whose)}, each reward in its group"
    decoupled = method in ("gdpo", "mo_grpo") and not (convention.one_reward_is_grpo and rewards == 1)
    if decoupled and method == "mo_grpo":
        return z, "A = Σ w·z"
    if decoupled:
        over = {"responses": "all responses of the batch", "tokens": "all tokens of the batch", "group": "each group"}
        eps = convention.batch_eps
        divisor = f"√(variance + {eps:g})" if convention.batch_eps_to == "variance" else _divisor(eps, "")
        return z, "s = Σ w·z", f"A = (s − mean) / {divisor}, over {over[convention.last_step]}"
    mean = "mean of the other rollouts" if convention.leave_one_out or convention.mean_of_others else "mean"
    by, of_batch = _divisor(convention.sum_eps, ""), "over all responses of the batch"
    last = {
        "grpo_no_std": (f"A = s − {mean}, in its group",),
        "grpo_batch_std": (f"A = (s − {mean}) / {by}, mean in its group, std {of_batch}",),
        "reinforce_pp_baseline": (f"c = s − {mean}, in its group", f"A = (c − mean) / {by}, {of_batch}"),
        "reinforce_pp": (f"A = (s − mean) / {by}, {of_batch}",),
        "max_rl": (f"A = (s − {mean}) / mean, in its group; 0 where that mean is not above 0",),
    }
    of_group = (f"A = (s − {mean}) / {_divisor(convention.sum_eps, whose)}, in its group",)
    return "s = Σ w·r", *last.get(method, of_group)


def _divisor(eps: float, whose: str) -> str:
    """Return the text of a formula's divisor, such as "(std + 0.0001)"; without an eps it is the std alone.

    whose: words that follow "std" and say of which rollouts it is, or "".
    """
    return f"(std{whose} + {eps:g})" if eps else f"std{whose}"


def exceptions(convention: Convention) -> tuple[str, ...]:
    """Return sentences on what a convention does where the formulas say nothing, one for each case.

    The cases are, in this order: a missing reward; a response without any reward, unless missing rewards propagate; a
    group of one; other rollouts whose std is 0, only with leave-one-out; and GDPO of a single reward, only if the
    convention has GRPO in its place.

    >>> print(*exceptions(PAPER)[1:], sep="\\n")
    A response without any reward is left out and gets 0.
    A group of one gets 0.
    """
    missing = {
        "skipped": "A missing reward is skipped: statistics and sums run over what is there.",
        "propagates": "A missing reward makes its whole group NaN, under GDPO the whole batch.",
    }[convention.missing]
    if convention.missing_is_zero_in_gdpo:
        missing = "GDPO of several rewards takes a missing one as 0; GRPO skips it."
    then = "counts with sum 0" if convention.empty_counts else "is left out and gets 0"
    empty = f"A response without any reward {then}."
    alone = {
        "zero": "A group of one gets 0.",
        "raw": "A group of one keeps its raw reward: its mean counts as 0 and its std as 1.",
        "nan": "GDPO gives a group of one NaN.",
    }[convention.group_of_one]
    sentences = [missing, *([empty] if convention.missing == "skipped" else []), alone]
    if convention.leave_one_out:
        sentences.append("Where the other rollouts agree, so that their std is 0, nothing is divided.")
    if convention.one_reward_is_grpo:
        sentences.append("GDPO of a single reward is GRPO, without the batch step.")
    return tuple(sentences)
