"""Checks of callers' arguments, which turn them into tensors or dicts, so that the formulas need no checks.

The last function, `shows_keywords_of`, changes what `help` shows of a function with `**options`.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from inspect import Parameter, signature
from typing import Any, TypeAlias, TypeVar

import numpy as np
import torch
from torch import Tensor

from gdpo_core.shared.errors import InputError, expect, is_finite

ArrayLike: TypeAlias = Tensor | np.ndarray | Sequence["ArrayLike"] | float
Groups: TypeAlias = Tensor | np.ndarray | Sequence[object]

_Function = TypeVar("_Function", bound=Callable)

# By dtype, the least and the largest absolute value whose squares stay in its range. Where numbers leave the range of
# float32, the computation runs in float64.
_RANGE = {torch.float32: (1e-10, 1e10), torch.float64: (1e-100, 1e100)}


def numbers(values: ArrayLike, name: str) -> Tensor:
    """Return values as a dense tensor without gradient: floats keep their dtype, integers and booleans become float64.

    name: the name of the argument, with which InputError begins where the values are no numbers in a regular array.

    >>> numbers([True, False], "rewards")
    tensor([1., 0.], dtype=torch.float64)
    """
    t = _tensor(values, name, "numbers in a regular array")
    return t.detach() if t.is_floating_point() else t.to(torch.float64)


def _tensor(values: Any, name: str, expected: str) -> Tensor:
    """Return `values` as a tensor of real numbers: a tensor as it is, anything else copied into a new one.

    name: the name of the argument, with which an error begins.
    expected: words for what the argument should be, for the error.

    Raises InputError for a masked array, and for values that make no dense tensor of real numbers.
    """
    expect(not isinstance(values, np.ma.MaskedArray), name, expected, "a masked array; NaN marks what is missing")
    if not isinstance(values, Tensor):
        try:
            values = torch.from_numpy(np.array(values))
        except (TypeError, ValueError, RuntimeError, OverflowError) as error:
            raise InputError(f"{name}: expected {expected}, got {_culprit(values, error)}") from None
    dense = values.layout == torch.strided and not values.is_complex()
    expect(dense, name, expected, f"{values.layout} of {values.dtype}")
    return values


def _culprit(values: Any, error: Exception) -> str:
    """Return words for why `values` cannot become a tensor. They begin with the type of `values`.

    They name the first value, at any depth of lists and tuples, that is neither a float nor a whole number below 2⁶³ in
    size. Without one they give the message of `error`. They do so, too, if `values` is neither a list or tuple nor a
    whole number or string.

    values: a list or another argument of a caller.
    error: what torch or numpy raised for it.
    """
    nested, kind = [values], type(values).__name__
    while nested:
        value = nested.pop()
        if isinstance(value, list | tuple):
            nested += reversed(value)
        elif isinstance(value, float) or (isinstance(value, int) and abs(value) < 2**63):
            continue
        elif value is not values:
            return f"{kind} with {type(value).__name__} {value!r}"
        elif isinstance(value, int | str):
            return f"{kind} {value!r}"
    return f"{kind}: {error}"


def rewards_and_weights(
    rewards: ArrayLike, weights: ArrayLike | None, grouped: bool
) -> tuple[Tensor, Tensor, torch.dtype, bool]:
    """Return the rewards, one weight per reward, the dtype of what the caller gets back, and whether any reward is NaN.

    Rewards and weights come back in the dtype to compute in. This is at least float32, and float64 where float32 is too
    narrow.

    weights: None for a weight of 1 each.
    grouped: whether the responses have group ids, so that there is no axis of prompts.

    Raises InputError if rewards or weights are no numbers or have another shape than they should, if there is no
    reward, if a reward is infinite, and if a weight is infinite or NaN. It is raised, too, if the largest reward, by
    itself or times the largest weight, is other than 0 and not between 1e-100 and 1e100 in size.
    """
    r = numbers(rewards, "rewards")
    shape = tuple(r.shape)
    if grouped:
        expect(r.ndim == 2, "rewards", "shape (responses, rewards) with groups", f"shape {shape}")
    else:
        wanted = "shape (prompts, rollouts, rewards) or (rollouts, rewards)"
        expect(r.ndim in (2, 3), "rewards", wanted, f"shape {shape}")
    expect(r.numel() > 0, "rewards", "at least one response and one reward", f"shape {shape}")

    given = r.dtype
    r = r if given in _RANGE else r.float()
    w = torch.ones(shape[-1], dtype=torch.float64) if weights is None else numbers(weights, "weights").double()
    expect(tuple(w.shape) == shape[-1:], "weights", f"{shape[-1]} numbers, one per reward", f"shape {tuple(w.shape)}")
    expect(bool(w.isfinite().all()), "weights", "finite numbers", w.tolist())

    low, high = map(Tensor.item, r.aminmax())
    missing = math.isnan(low)
    largest = r.abs().nan_to_num(posinf=torch.inf).amax().item() if missing else max(-low, high)
    expect(largest < float("inf"), "rewards", "finite numbers or NaN for missing", "an infinite value")
    r = r.to(width([largest, largest * w.abs().amax().item()], r.dtype, "rewards"))
    return r, w.to(r), given, missing


def weights_by_name(weights: object, rewards: Sequence[str], name: str = "weights") -> dict[str, float]:
    """Return the weights that a caller gives as a dict from the name of a reward to its weight.

    weights: a mapping, which may leave rewards out; or one number per reward, in the order of `rewards`; or None, for
        which the dict is empty.
    rewards: the names of the rewards.
    name: the name of the argument, with which InputError begins.

    Raises InputError if there are not as many numbers as rewards, or if a name is not in `rewards`. It is raised, too,
    for a weight that is not finite, and for a weight other than 0 whose size is not between 1e-100 and 1e100.

    >>> weights_by_name({"b": 2}, ["a", "b"]), weights_by_name([1, 2], ["a", "b"]), weights_by_name(None, ["a", "b"])
    ({'b': 2.0}, {'a': 1.0, 'b': 2.0}, {})
    """
    if weights is None:
        return {}
    if not isinstance(weights, Mapping):
        values = weights.tolist() if hasattr(weights, "tolist") else weights
        if not isinstance(values, Sequence) or isinstance(values, str):
            raise InputError(f"{name}: expected numbers, got {weights!r}")
        expect(len(values) == len(rewards), name, f"{len(rewards)} numbers, one per reward", f"{len(values)}")
        weights = dict(zip(rewards, values, strict=True))
    for reward, w in weights.items():
        expect(reward in rewards, name, f"names of rewards: {', '.join(rewards)}", repr(reward))
        expect(is_finite(w), f"{name}, {reward}", "a finite number", repr(w))
        width([abs(float(w))], torch.float64, f"{name}, {reward}")
    return {reward: float(w) for reward, w in weights.items()}


def width(sizes: list[float], dtype: torch.dtype, name: str) -> torch.dtype:
    """Return the dtype to compute in: `dtype`, or float64 where the squares of `sizes` leave the range of `dtype`.

    sizes: absolute values that the computation meets; zeros among them do not matter.
    dtype: float32 or float64.
    name: the name of the argument that has these sizes, for the error.

    Raises InputError where their squares leave the range of float64 too.
    """
    sizes = [size for size in sizes if size]
    for wide in (dtype, torch.float64):
        low, high = _RANGE[wide]
        if not sizes or (low <= min(sizes) and max(sizes) <= high):
            return wide
    got = max(sizes, key=lambda size: abs(math.log(size)) if size < math.inf else size)
    raise InputError(f"{name}: expected numbers from {low:g} to {high:g} in size, also weighted, got {got:g}")


def token_counts(lengths: ArrayLike, shape: tuple[int, ...]) -> Tensor:
    """Return how many tokens each response has, as float64 in the shape `shape`.

    Raises InputError unless `lengths` has that shape and holds whole numbers from 1.
    """
    t = numbers(lengths, "lengths").double()
    expect(tuple(t.shape) == shape, "lengths", f"one per response, shape {shape}", f"shape {tuple(t.shape)}")
    bad = t[~((t >= 1) & (t <= 2**53) & (t == t.round()))]
    expect(not len(bad), "lengths", "positive whole token counts", bad[:1].tolist())
    return t


def group_numbers(
    groups: Groups, count: int, device: torch.device | str, *, name: str = "groups", thing: str = "response"
) -> tuple[Tensor, tuple]:
    """Return (count,) the number of the group to which each response belongs, from 0, and a tuple of the groups' ids.

    The number of a group is the place of its id in the tuple. If the ids are an array of numbers, the tuple is sorted.
    Otherwise the ids stand in the order in which they first appear. Batches of groups are numbered in the same way;
    `name` and `thing` then say so in errors.

    groups: an id per response.
    count: how many responses there are.
    device: where the numbers are to be.
    name: the name of the argument, for InputError.
    thing: the word for what has one id each, for InputError.

    >>> group_numbers(["b", "a", "b"], 3, "cpu")
    (tensor([0, 1, 0]), ('b', 'a'))
    """
    expected = "ids such as strings or integers"
    if not isinstance(groups, Tensor | np.ndarray):
        try:
            groups = list(groups)
        except TypeError:
            raise InputError(f"{name}: expected one id per {thing}, got {type(groups).__name__}") from None
    shape = (len(groups),) if isinstance(groups, list) else tuple(groups.shape)
    expect(shape == (count,), name, f"{count} ids, one per {thing}", f"shape {shape}")
    if isinstance(groups, Tensor) or (isinstance(groups, np.ndarray) and groups.dtype.kind in "iubfc"):
        t = _tensor(groups, name, expected)
        expect(not bool(t.isnan().any()), name, expected, "NaN")
        sorted_ids, index = t.unique(return_inverse=True)
        return index.to(device), tuple(sorted_ids.tolist())
    number: dict = {}
    try:
        ids = [g.item() if isinstance(g, Tensor | np.generic) else g for g in groups]
        known = all(g == g for g in ids)
        index = torch.tensor([number.setdefault(g, len(number)) for g in ids], device=device)
    except (TypeError, ValueError, RuntimeError) as error:
        raise InputError(f"{name}: expected {expected}, got {error}") from None
    expect(known, name, expected, "NaN")
    return index, tuple(number)


def shows_keywords_of(target: Callable, names: Iterable[str]) -> Callable[[_Function], _Function]:
    """Return a decorator, after which `help` shows named keywords of a function in place of its `**options`.

    target: the function to which the options are passed on, from which `help` takes the types and defaults.
    names: the names of the keywords.
    """
    parameters_of_target = signature(target).parameters
    passed_on = [parameters_of_target[name].replace(kind=Parameter.KEYWORD_ONLY) for name in names]

    def decorate(function: _Function) -> _Function:
        """Return the function with the signature that `help` is to show.

        The named keywords of the outer function's `target` stand in it in place of `**options`.
        """
        parameters = [p for p in signature(function).parameters.values() if p.kind is not p.VAR_KEYWORD]
        vars(function)["__signature__"] = signature(function).replace(parameters=[*parameters, *passed_on])
        return function

    return decorate
