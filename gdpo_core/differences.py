"""Where a trainer's advantages differ from those of the paper's formulas, in words."""

from collections.abc import Sequence

from gdpo_core._words import decimal, number, power_of_ten
from gdpo_core.conventions import PAPER, Convention, exceptions, formulas
from gdpo_core.frameworks import CONVENTIONS, Framework
from gdpo_core.steps import explain

TINY = 1e-4  # by which one of four answers differs, to show what an eps does to a small difference


def differences(
    framework: Framework, rewards: Sequence[Sequence[float]], weights: Sequence[float], lengths: Sequence[int]
) -> list[str]:
    """What GDPO differs in from the paper's formula, measured on one group.

    rewards: (rollouts, rewards), lengths: tokens a rollout.
    """
    c = CONVENTIONS[framework.convention]
    notes = []
    if c.group_eps:
        here, formula = decimal(_tiny(c), 2), decimal(_tiny(PAPER), 2)
        as_said = "as by the formula" if here == formula else f"not {formula} as by the formula"
        notes.append(
            f"It adds {power_of_ten(c.group_eps)} to each standard deviation: a reward that differs by "
            f"{power_of_ten(TINY)} in one of four answers becomes {here}, {as_said}."
        )
    if c != PAPER:
        a, b = (explain(rewards, "gdpo", weights=weights, lengths=lengths, convention=x).advantages for x in (c, PAPER))
        tokens = ", with a token per character," if c.last_step == "tokens" else ""
        off = number((a - b).abs().max().item(), 2)
        notes.append(f"On the Lab's answers{tokens} its advantages are off the paper's formula by at most {off}.")
    return notes


def _tiny(c: Convention) -> float:
    z = explain([[0.0, 0], [0, 1], [0, 0], [TINY, 1]], "gdpo", convention=c, lengths=[1] * 4).z
    assert z is not None  # of GDPO it is there
    return z[-1, 0].item()


def left_open(framework: Framework, rewards: int) -> tuple[str, ...]:
    """The trainer's last step, and what it does in the cases that the formulas leave open.

    >>> from gdpo_core.frameworks import FRAMEWORKS
    >>> left_open(FRAMEWORKS["generic"], 3)[-1]
    'A group of one gets 0.'
    """
    c = CONVENTIONS[framework.convention]
    return formulas("gdpo", c, rewards)[-1], *exceptions(c)
