"""The advantage code of each installed framework, as functions that are all called alike."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import Distribution
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import torch
from torch import Tensor

from tests.parity.code import aggregation_block, distribution, functions

AXOLOTL_TRAINER = "axolotl/core/trainers/grpo/async_trainer.py"  # its first block is for batches, its second streams


@dataclass(frozen=True)
class Method:
    """A method of a framework in three steps. They are apart because the benchmark times only the second; all others
    call the method as a whole.

    prepare: turns (rewards, weights, groups, lengths) into the arguments of `call`. call: the framework's own code.
    read: turns what it returns into advantages, (responses,).
    """

    prepare: Callable[..., tuple]
    call: Callable[..., Tensor]
    read: Callable[[Tensor], Tensor] = lambda advantages: advantages

    def __call__(self, rewards: Tensor, weights: Tensor, groups: int | Sequence, lengths: Tensor) -> Tensor:
        """Return the advantages, (responses,), of rewards, (responses, rewards). groups: the group of each response, or
        the size of groups that are blocks.
        """
        return self.read(self.call(*self.prepare(rewards, weights, groups, lengths)))


@dataclass(frozen=True)
class Framework:
    """An installed framework and its methods. `convention` is the name of the constant in gdpo_core that follows it."""

    name: str
    version: str
    convention: str
    methods: dict[str, Method]  # under the names of gdpo_core, and further variants as "grpo, vectorized"
    float64: tuple[str, ...]  # the methods that stay in double precision when given it
    ragged: bool = False  # takes groups of different sizes, by id


@dataclass(frozen=True)
class Source:
    """The package of a framework, and the function that loads its code once it is installed; None if it is not on
    PyPI.
    """

    title: str
    package: str | None = None
    load: Callable[[Distribution], Framework] | None = None


def load(name: str) -> Framework | None:
    """Return the framework with that key in SOURCES; None if it is not installed.

    >>> load("nvlabs_trl") is None  # was never released on PyPI
    True
    """
    source = SOURCES[name]
    package = source.package and distribution(source.package)
    return source.load(package) if package else None


def _blocks(rewards: Tensor, weights: Tensor, groups: int | Sequence, lengths: Tensor) -> tuple:
    """Return the arguments of a framework that takes only groups that are blocks of one size. Raises TypeError for
    others.
    """
    if not isinstance(groups, int):
        raise TypeError("it takes blocks of one size")
    return rewards, weights, groups


def _trainer(file: Path, nth: int = 0) -> dict[str, Method]:
    """Return the methods of TRL, or of another trainer that holds TRL's block. nth: which of its blocks."""
    arguments = ("self", "rewards_per_func", "num_generations", "device")
    block = aggregation_block(file, arguments, nth=nth, known=_nanstd())

    def method(aggregation: str, scale: str = "group") -> Method:
        """Return the method with this kind of aggregation and of scaling."""

        def call(rewards: Tensor, weights: Tensor, group_size: int) -> Tensor:
            """Run the block with an object in the trainer's place that holds what it asks for."""
            trainer = SimpleNamespace(
                multi_objective_aggregation=aggregation,
                scale_rewards=scale,
                reward_weights=weights,
                reward_funcs=range(rewards.shape[1]),
            )
            return block(trainer, rewards, group_size, rewards.device)

        return Method(_blocks, call)

    return {
        "grpo": method("sum_then_normalize"),
        "grpo_no_std": method("sum_then_normalize", "none"),
        "gdpo": method("normalize_then_sum"),
    }


def _nanstd() -> dict:
    """Return by name the functions that the block calls; axolotl too imports them from TRL. Raises LookupError without
    TRL.
    """
    trl = distribution("trl")
    if trl is None:
        raise LookupError("axolotl calls a function of TRL, which is not installed")
    return functions(trl.locate_file("trl/trainer/utils.py"), "nanstd", known={})


def _trl(package: Distribution) -> Framework:
    methods = _trainer(package.locate_file("trl/trainer/grpo_trainer.py"))
    return Framework("TRL", package.version, "TRL", methods, tuple(methods))


def _axolotl_async(package: Distribution) -> Framework:
    methods = _trainer(package.locate_file(AXOLOTL_TRAINER), nth=0)
    return Framework("axolotl async", package.version, "AXOLOTL_ASYNC", methods, tuple(methods))


def _axolotl_streaming(package: Distribution) -> Framework:
    methods = _trainer(package.locate_file(AXOLOTL_TRAINER), nth=1)
    return Framework("axolotl streaming", package.version, "AXOLOTL_STREAMING", methods, tuple(methods))


def _ms_swift(package: Distribution) -> Framework:
    known = functions(package.locate_file("swift/utils/torch_utils.py"), "nanstd", known={})
    file = package.locate_file("swift/rl_core/advantage.py")
    compute = functions(file, "compute_advantages", known=known)["compute_advantages"]

    def method(scale: str) -> Method:
        return Method(_blocks, lambda rewards, weights, size: compute(rewards, weights, size, scale_rewards=scale)[0])

    methods = {"grpo": method("group"), "grpo_no_std": method("none"), "gdpo": method("gdpo")}
    return Framework("ms-swift", package.version, "MS_SWIFT", methods, tuple(methods))


VERL_ESTIMATORS = tuple(f"compute_{name}_outcome_advantage" for name in ("grpo", "grpo_vectorized", "gdpo"))


def verl_estimators(package: Distribution) -> dict[str, Callable]:
    """Return verl's functions in VERL_ESTIMATORS by their names."""
    utils = package.locate_file("verl/utils")
    masked = functions(
        utils / "torch_functional.py", "masked_sum", "masked_mean", "masked_var", "masked_whiten", known={}
    )
    grouping = ("_resolve_device", "_to_1d_numpy_object_array", "as_torch_index", "group_mean_std")
    known = functions(utils / "groupwise.py", *grouping, known={"np": np})
    known |= {"np": np, "defaultdict": defaultdict, "verl_F": SimpleNamespace(**masked)}
    core = functions(package.locate_file("verl/trainer/ppo/core_algos.py"), *VERL_ESTIMATORS, known=known)
    return {name: core[name] for name in VERL_ESTIMATORS}


def _verl(package: Distribution) -> Framework:
    grpo, vectorized, gdpo = verl_estimators(package).values()

    def first_token(advantages: Tensor) -> Tensor:
        return advantages[:, 0]

    def method(function: Callable, divide: bool = True) -> Method:
        return Method(_verl_scores, lambda *a: function(*a, norm_adv_by_std_in_grpo=divide)[0], first_token)

    methods = {
        "grpo": method(grpo),
        "grpo_no_std": method(grpo, divide=False),
        "grpo, vectorized": method(vectorized),
        "gdpo": Method(
            _verl_components, lambda scores, mask, uid, options: gdpo(scores, mask, uid, **options)[0], first_token
        ),
    }
    in_double = ("grpo", "grpo_no_std")
    return Framework("verl", package.version, "VERL", methods, in_double, ragged=True)


def _verl_tokens(responses: int, groups: int | Sequence, lengths: Tensor) -> tuple[Tensor, np.ndarray]:
    """Return the mask of each response's tokens and the id of its group, as verl takes them."""
    ids = np.arange(responses) // groups if isinstance(groups, int) else groups
    uid = np.array([f"prompt {i}" for i in np.asarray(ids)], dtype=object)
    return (torch.arange(int(lengths.max())) < lengths[:, None]).long(), uid


def _verl_scores(rewards: Tensor, weights: Tensor, groups: int | Sequence, lengths: Tensor) -> tuple:
    """Return the arguments of verl's GRPO, which takes one score per response, on its last token."""
    mask, uid = _verl_tokens(len(rewards), groups, lengths)
    scores = torch.zeros(mask.shape, dtype=rewards.dtype)
    scores[torch.arange(len(rewards)), lengths - 1] = (rewards * weights).sum(1)
    return scores, mask, uid


def _verl_components(rewards: Tensor, weights: Tensor, groups: int | Sequence, lengths: Tensor) -> tuple:
    """Return the arguments of verl's GDPO, which takes each reward by its name."""
    scores, mask, uid = _verl_scores(rewards, weights, groups, lengths)
    components = {f"reward {k}": column.numpy() for k, column in enumerate(rewards.unbind(1))}
    prompts = torch.ones(len(rewards), 1, dtype=torch.long)
    options = {
        "config": {"gdpo_reward_keys": list(components), "gdpo_reward_weights": weights.tolist()},
        "non_tensor_batch": components,
        "batch": {"prompts": prompts, "attention_mask": torch.cat([prompts, mask], 1)},
    }
    return scores, mask, uid, options


SOURCES = {
    "trl": Source("TRL", "trl", _trl),
    "nvlabs_trl": Source("TRL fork in NVlabs/GDPO"),
    "verl": Source("verl", "verl", _verl),
    "ms_swift": Source("ms-swift", "ms_swift", _ms_swift),
    "axolotl_async": Source("axolotl async", "axolotl", _axolotl_async),
    "axolotl_streaming": Source("axolotl streaming", "axolotl", _axolotl_streaming),
    "nemo_rl": Source("NeMo-RL"),
}
