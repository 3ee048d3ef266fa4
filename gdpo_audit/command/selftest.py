"""`gdpo selftest`: whether the library that is installed gives the recorded answers to the test vectors."""

import platform
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

import gdpo_core as gc
from gdpo_core.shared.words import count

_CORE = Path(gc.__file__).parent
# In a wheel the vectors lie inside the library, and in a checkout beside it.
_FOLDERS = (_CORE / "conformance", _CORE.parent / "conformance")


def vectors() -> ModuleType:
    """Return `conformance/check.py`, from the wheel or the checkout that the library is from, as a module."""
    folder = next(folder for folder in _FOLDERS if (folder / "cases.json").is_file())
    spec = spec_from_file_location("gdpo_vectors", folder / "check.py")
    assert spec and spec.loader
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run_selftest() -> int:
    """Print how many of the recorded answers the library gives, and a line for each answer that it does not give.

    Return the exit status, which is 1 if there is such an answer.
    """
    check = vectors()
    cases, conventions = check.load()["cases"], gc.CONVENTIONS
    wrong = [
        f"{case['name']}, {method}, {key}: {text}"
        for case in cases
        for method in check.RECORDED_METHODS
        for key, convention in conventions.items()
        if (text := _wrong(check, case, method, convention, case["advantages"][method][key]))
    ]
    tried = len(cases) * len(check.RECORDED_METHODS) * len(conventions)
    print(*(f"WRONG {line}" for line in wrong), sep="\n", end="\n" * bool(wrong))
    sizes = f"{count(len(cases), 'case')}, {len(check.RECORDED_METHODS)} methods and {len(conventions)} conventions"
    where = f"Python {platform.python_version()}, torch {torch.__version__}, {platform.machine()}"
    print(f"{tried - len(wrong):,} of {tried:,} answers agree to within {check.SAME:g}: {sizes} ({where}).")
    return int(bool(wrong))


def _wrong(
    check: ModuleType, case: dict[str, Any], method: str, convention: gc.Convention, expected: list[float]
) -> str:
    """Return what is wrong with the library's answer to a case, or "" if it is the recorded one.

    check: the module of the test vectors.
    expected: the recorded answer.
    """

    def function(rewards: list[list[float]], groups: list[int], weights: list[float], lengths: list[int]) -> Any:
        return gc.advantages(rewards, method, weights=weights, groups=groups, lengths=lengths, convention=convention)

    given = check.run(function, case)
    if isinstance(given, str):
        return given
    return "" if check.near(given, expected, check.SAME) else f"up to {check.off_by(given, expected):.2g} apart"
