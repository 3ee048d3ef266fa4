"""The five set-ups, chosen before any of them was run."""

from dataclasses import dataclass

REWARDS = ("correctness", "style", "conciseness")
METHODS = {"grpo": "sum_then_normalize", "gdpo": "normalize_then_sum"}  # as `multi_objective_aggregation`
SEEDS = tuple(range(10))
NOISE_MEAN, NOISE_STD = 1.0, 0.01


@dataclass(frozen=True)
class Setup:
    """What each reward pays for a pass and weighs, what gates it, and whether a reward of noise is added."""

    name: str
    title: str
    pays: tuple[float, float, float] = (1.0, 1.0, 1.0)
    weights: tuple[float, float, float] = (1.0, 1.0, 1.0)
    gated: bool = False  # conciseness pays only where correctness passes
    noise: bool = False  # a fourth reward: NOISE_MEAN and normal noise of NOISE_STD, whatever the answer

    @property
    def names(self) -> tuple[str, ...]:
        """The rewards as the log names them."""
        return (*REWARDS, "noise") if self.noise else REWARDS

    @property
    def reward_weights(self) -> list[float]:
        """One weight per reward."""
        return [*self.weights, 1.0] if self.noise else list(self.weights)


SETUPS = (
    Setup("equal", "Equal pay"),
    Setup("pays_5", "Conciseness pays 5", pays=(1.0, 1.0, 5.0)),
    Setup("gated", "Conciseness counts only where correctness passes", gated=True),
    Setup("weight_2", "Correctness weighs 2", weights=(2.0, 1.0, 1.0)),
    Setup("noise", "A reward of nearly constant noise", noise=True),
)


def setup_named(name: str) -> Setup:
    """The set-up of this name."""
    return next(setup for setup in SETUPS if setup.name == name)
