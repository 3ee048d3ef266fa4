"""What each implementation does differently, as data that the methods read."""

from dataclasses import dataclass

from gdpo_core.errors import expect


@dataclass(frozen=True, kw_only=True)
class Convention:
    """How one implementation fills in what the formulas leave open.

    >>> TRL.group_eps
    0.0001
    """

    name: str
    source: str
    ddof: int = 1  # taken off the count in every standard deviation
    group_eps: float = 0.0  # added to the standard deviation of a group
    batch_eps: float = 0.0  # added to the standard deviation of the batch (GDPO's last step)

    def __post_init__(self) -> None:
        expect(type(self.ddof) is int and self.ddof in (0, 1), "ddof", "0 or 1", repr(self.ddof))
        for name in ("group_eps", "batch_eps"):
            value = getattr(self, name)
            fits = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < float("inf")
            expect(fits, name, "a finite number that is not negative", repr(value))


PAPER = Convention(name="paper", source="arXiv 2601.05242, equations 1 to 7")
TRL = Convention(name="TRL", source="TRL 0.27 to 1.16, GRPOTrainer", group_eps=1e-4, batch_eps=1e-4)

CONVENTIONS = {convention.name.lower(): convention for convention in (PAPER, TRL)}
