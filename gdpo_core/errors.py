"""The one error class that bad input raises."""


class InputError(ValueError):
    """Input that cannot be used: the text names the argument or file, what was expected and what came."""


def expect(condition: bool, name: str, expected: str, got: object) -> None:
    """Raise InputError when `condition` is false.

    >>> expect(False, "weights", "3 numbers, one a reward", "2")
    Traceback (most recent call last):
    gdpo_core.errors.InputError: weights: expected 3 numbers, one a reward, got 2
    """
    if not condition:
        raise InputError(f"{name}: expected {expected}, got {got}")
