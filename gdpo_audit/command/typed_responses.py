"""Responses, weights and lengths as they are typed after `gdpo explain`, turned into numbers."""

import re
from collections.abc import Sequence

from gdpo_core.shared.errors import expect
from gdpo_core.shared.parsing import parse_number
from gdpo_core.shared.words import count


def rewards_and_prompts(responses: Sequence[str]) -> tuple[list[list[float]], list[int]]:
    """Return the rewards of each response, and the number of the prompt that it answers, from 1.

    responses: for each response its rewards, as "10" or "0,0.5"; a "/" stands between the responses of two prompts.

    Raises InputError for any other text, for a prompt without a response, and for responses with different numbers of
    rewards.

    >>> rewards_and_prompts(["10", "0,0.5", "/", "11"])
    ([[1.0, 0.0], [0.0, 0.5], [1.0, 1.0]], [1, 1, 2])
    """
    rows: list[list[float]] = []
    prompts: list[int] = []
    prompt = 1
    for text in responses:
        if text == "/":
            expect(prompt in prompts, f"prompt {prompt}", "at least one response", "none")
            prompt += 1
            continue
        expect(not text.startswith("--"), "option", "--method, --convention, --weights or --lengths", repr(text))
        name = f"response {len(rows) + 1}"
        rows.append([float(mark) for mark in text] if re.fullmatch("[01]+", text) else _numbers(text, name))
        prompts.append(prompt)
        first = f"{count(len(rows[0]), 'reward')}, as response 1, {responses[0]!r}"
        expect(len(rows[-1]) == len(rows[0]), name, first, f"{len(rows[-1])}, {text!r}")
    expect(prompt in prompts, f"prompt {prompt}", "at least one response", "none")
    return rows, prompts


def _numbers(text: str, name: str) -> list[float]:
    """Return the numbers in a text, which commas separate.

    name: what the numbers are, such as "weights", for the error.

    Raises InputError for any other text.
    """
    numbers = [parse_number(number) for number in text.split(",")]
    expected = "numbers with commas between them" + (", or 0s and 1s" if name.startswith("response") else "")
    expect(None not in numbers, name, expected, repr(text))
    return [number for number in numbers if number is not None]


def numbers_of(text: str | None, name: str, size: int, thing: str) -> list[float] | None:
    """Return the numbers in a text, which commas separate; None for None.

    `name` and `thing` are words for the errors.

    name: what the numbers are, such as "weights".
    size: how many numbers there have to be.
    thing: what each of them belongs to, such as "reward".

    Raises InputError for any other text, and if there are not `size` numbers.
    """
    if text is None:
        return None
    numbers = _numbers(text, name)
    expect(len(numbers) == size, name, f"{count(size, 'number')}, one per {thing}", f"{len(numbers)}, {text!r}")
    return numbers
