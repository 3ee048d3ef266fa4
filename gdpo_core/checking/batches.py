"""The sizes of groups and batches that a configuration asks for."""

from math import prod
from typing import Any

from gdpo_core.checking.evaluate import Known
from gdpo_core.checking.rules import Rules, Runs
from gdpo_core.shared.words import count

_PROCESSES = "num_processes"  # the key of the number of processes, which a configuration often does not give


def whole_number(value: Any) -> int | None:
    """Return a value if it is a whole number above 0 that a batch may have, else None."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 < value < 10**9 else None


def says_batch_of(rules: Rules, known: Known, size: int | None, runs: Runs | None) -> tuple[int | None, str]:
    """Return how many groups share a batch step, and a sentence on the sizes of a group and of a batch.

    The number is None where the configuration does not tell it.

    size: the number of answers to a prompt, or None.
    runs: the record of the rules that says what runs, or None.
    """
    sizes = f"{count(size, 'answer')} to a prompt" if size else "The number of answers to a prompt is not told"
    gdpo = runs is not None and runs.method == "gdpo"
    if runs and runs.convention == "axolotl_streaming":
        return 1, f"{sizes}; every group has a batch step of its own."
    groups = whole_number(known.value(rules.groups)) if rules.groups else None
    answers, missing = _product(rules, known)
    if answers and size and not missing and answers % size == 0:
        groups = answers // size
    if groups:
        has = "has" if groups == 1 else "share" if gdpo else "make"
        step = "a batch step" if gdpo else "a batch"
        total = f", {count(groups * size, 'answer')}" if size else ""
        alone = " of its own" if groups == 1 else ""
        return groups, f"{sizes}; {count(groups, 'group')} {has} {step}{alone}{total}."
    if answers:
        each = f" of each process, whose number ({_PROCESSES}) is not told" if missing else ""
        return None, f"{sizes}; {'a batch step' if gdpo else 'a batch'} holds {count(answers, 'answer')}{each}."
    return None, f"{sizes}; how many groups {'share a batch step' if gdpo else 'make a batch'} is not told."


def _product(rules: Rules, known: Known) -> tuple[int | None, bool]:
    """Return two things: the number of answers in a batch, and whether it is the number of one process alone.

    The second is true if the configuration tells every factor of the number but the number of processes. If more
    factors are not told, the result is (None, False).
    """
    for keys in rules.answers:
        values = {key: whole_number(known.value(key)) for key in keys}
        missing = [key for key, value in values.items() if value is None]
        if not missing or missing == [_PROCESSES]:
            return prod(value or 1 for value in values.values()), bool(missing)
    return None, False


def with_answers(rules: Rules, known: Known) -> Known:
    """Return the entries with one more default: the number of answers in a batch, under the key "answers", or under
    "answers_of_a_process" where it is the number of one process alone. Neither has a value where it cannot be told.
    """
    answers, alone = _product(rules, known)
    more = {"answers_of_a_process" if alone else "answers": answers}
    return Known(known.entries, {**known.defaults, **more}, known.complete, known.version, known.undecided)
