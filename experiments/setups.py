"""The set-ups that are trained, and the rows of plans.json, each a set-up with a method, weights and perhaps a gate.
All were chosen before any of their runs was started. A set-up says what the rewards of a run are.
"""

from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from gdpo_audit.comparing.judging import GRADED_REWARDS as REWARDS

AGGREGATIONS = {
    "grpo": "sum_then_normalize",
    "gdpo": "normalize_then_sum",
}  # TRL's option `multi_objective_aggregation`
NO_STD = "grpo_no_std"  # GRPO without std, which TRL calls scale_rewards="none"
SEEDS = tuple(range(10))
NOISE_MEAN, NOISE_STD = 1.0, 0.01
PLANS = Path(__file__).parent / "plans.json"
TITLES = msgspec.json.decode((Path(__file__).resolve().parent.parent / "data" / "setups.json").read_bytes())


@dataclass(frozen=True)
class Setup:
    """The rewards of a training run.

    name: the short name of the set-up.
    pays: what each of the three graded rewards pays for an answer that passes.
    weights: one per graded reward; a fourth one, if it is given, is for the noise.
    gate: two names, of which the first reward pays only where the second one passes; None for no gate.
    noise: whether there is a fourth reward, random and nearly constant whatever the answer.
    graded: what each of the three rewards grades, which is also its name.
    fails: what each of the three rewards pays for an answer that fails.
    """

    name: str
    pays: tuple[float, float, float] = (1.0, 1.0, 1.0)
    weights: tuple[float, float, float] = (1.0, 1.0, 1.0)
    gate: tuple[str, str] | None = None  # the first reward pays only where the second one passes
    noise: bool = False  # a fourth reward: NOISE_MEAN and normal noise of NOISE_STD, whatever the answer
    graded: tuple[str, str, str] = REWARDS  # what each reward grades, which is its name: see `experiments.train.grades`
    fails: tuple[float, float, float] = (0.0, 0.0, 0.0)  # what each reward pays for an answer that fails

    @property
    def title(self) -> str:
        """Words for the set-up, which the page shows too."""
        return TITLES[self.name]

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the rewards in the log, in order."""
        return (*self.graded, "noise") if self.noise else self.graded

    @property
    def reward_weights(self) -> list[float]:
        """The weights of the rewards, in the order of `names`. If the set-up has noise, the weight of the noise is the
        fourth number of `weights`, or 1 if there are only three.
        """
        return [*self.weights, 1.0] if self.noise and len(self.weights) == 3 else list(self.weights)


SETUPS = (
    Setup("equal"),
    Setup("pays_5", pays=(1.0, 1.0, 5.0)),
    Setup("gated", gate=("conciseness", "correctness")),
    Setup("weight_2", weights=(2.0, 1.0, 1.0)),
    Setup("noise", noise=True),
)
# The forecasts are tried on these four as well as on the five above.
NEW_SETUPS = (
    Setup("correlated", graded=("correctness", "strict", "conciseness")),
    Setup("dense", graded=("correctness", "closeness", "conciseness")),
    Setup("weights", weights=(1.0, 3.0, 0.5)),
    Setup("scale", pays=(2.0, 1.0, 1.0), fails=(-2.0, 0.0, 0.0)),
)


def setup_named(name: str) -> Setup:
    """Return the set-up with this name, out of SETUPS and NEW_SETUPS."""
    return next(setup for setup in (*SETUPS, *NEW_SETUPS) if setup.name == name)


@dataclass(frozen=True)
class Row:
    """A row of plans.json.

    setup: the name of the set-up that is trained.
    name: the title of the row.
    method: the method with which the set-up is trained.
    weights: the weights with which the set-up is trained.
    gate: as in `Setup`; None means the gate of the set-up, if it has one.
    """

    setup: str
    name: str
    method: str
    weights: tuple[float, ...]
    gate: tuple[str, str] | None = None

    @property
    def trained(self) -> Setup:
        """The set-up with the weights of this row, and with its gate if the row has one. If not, the set-up's own gate
        stays.
        """
        setup = setup_named(self.setup)
        return replace(setup, weights=self.weights, gate=self.gate or setup.gate)  # type: ignore[arg-type]


def planned_rows() -> tuple[Row, ...]:
    """Return the rows of plans.json, in the order in which they are trained. The rows named "as it ran" train their
    set-up with its own weights and GRPO, to compare the set-up's other rows with.
    """
    return msgspec.json.decode(PLANS.read_bytes(), type=tuple[Row, ...])
