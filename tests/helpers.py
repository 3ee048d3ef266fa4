"""Helpers of several test files, which compare numbers, take text out of HTML, check refusals and thin out
parameters.
"""

import asyncio
import contextlib
import io
import re
from collections.abc import Callable, Coroutine, Iterable
from concurrent.futures import ThreadPoolExecutor
from html import unescape
from itertools import product

import pytest
import torch

import gdpo_core as gc

METHODS = ("grpo", "grpo_no_std", "gdpo")

# --- numbers ---------------------------------------------------------------------------------------------------------


def f64(values) -> torch.Tensor:
    """Return a tensor of these values in float64."""
    return torch.tensor(values, dtype=torch.float64)


def close(got, expected, tolerance: float = 1e-9) -> None:
    """Assert that two arrays have the same shape and the same NaNs, and that they agree within the tolerance, relative
    to max(1, |A|).
    """
    got, expected = (torch.as_tensor(x, dtype=torch.float64) for x in (got, expected))
    assert got.shape == expected.shape
    assert torch.equal(got.isnan(), expected.isnan())
    off = ((got - expected).abs() / expected.abs().clamp(min=1)).nan_to_num().max().item() if got.numel() else 0.0
    assert off <= tolerance, f"off by {off:.3g}: {got.tolist()[:20]} for {expected.tolist()[:20]}"


def zeros(a: torch.Tensor) -> bool:
    """Return whether every number is exactly 0, though perhaps −0."""
    return not a.any() and not a.isnan().any()


def still(p: torch.Tensor, start: torch.Tensor) -> bool:
    """Return whether probabilities have not moved from their start, except for the last digit of an exponential."""
    return bool(((p - start).abs() <= 2 * torch.finfo(p.dtype).eps).all())


def nearly(x):
    """Return a nest of dicts and lists that can be compared with ==, although a processor may round its numbers
    otherwise.
    """
    if isinstance(x, dict):
        return {key: nearly(value) for key, value in x.items()}
    if isinstance(x, list | tuple):
        return type(x)(map(nearly, x))
    return pytest.approx(x, rel=1e-12, abs=1e-12, nan_ok=True) if isinstance(x, float) else x


# --- pages -----------------------------------------------------------------------------------------------------------


def text_of(html: str) -> str:
    """Return the words of some HTML, with single spaces between them."""
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", html)).split())


def printed(program: str) -> list[str]:
    """Return the lines that a program shown on the page prints; it has 15 lines at most."""
    assert len(program.splitlines()) <= 15
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(program, {})
    return out.getvalue().splitlines()


# --- the browser -----------------------------------------------------------------------------------------------------

# What lies in a widget is found through its root, and what lies in a board through the board's own.
ROOTS = """[...document.querySelectorAll("marimo-anywidget")].flatMap(widget =>
  [widget, widget.shadowRoot?.querySelector(".board-root")].map(host => host?.shadowRoot))"""
QUIET = """quiet => new Promise(done => {
  let timer = setTimeout(done, quiet)
  const again = () => { clearTimeout(timer); timer = setTimeout(done, quiet) }
  const changes = new MutationObserver(again)
  const every = { subtree: true, childList: true, attributes: true, characterData: true }
  changes.observe(document, every)
  const roots = root => [...root.querySelectorAll("*")].map(e => e.shadowRoot).filter(Boolean)
    .flatMap(inner => [inner, ...roots(inner)])
  roots(document).forEach(root => changes.observe(root, every))
  document.addEventListener("scroll", again, true)
})"""


def arrived(page, selector: str) -> None:
    """Wait until an element is on the page, also inside a widget; Playwright's own wait would soon look only twice a
    second.
    """
    page.wait_for_function(
        f"selector => [document, ...{ROOTS}].some(root => root?.querySelector(selector))",
        arg=selector,
        polling=40,
        timeout=60_000,
    )


def settled(page, quiet: int = 300) -> None:
    """Wait until nothing on the page has changed or scrolled for so many milliseconds."""
    page.evaluate(QUIET, quiet)


def becomes(page, script: str, expected) -> None:
    """Wait until a JavaScript function on the page returns this value, which may take messages to the server and
    back.
    """
    arg = {"expected": expected}
    page.wait_for_function(f"({{ expected }}) => JSON.stringify(({script})()) === JSON.stringify(expected)", arg=arg)


def apart(doing: Coroutine):
    """Return what a coroutine returns, run in a thread of its own, because Playwright keeps an event loop running in
    this one.
    """
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, doing).result()


# --- refusals --------------------------------------------------------------------------------------------------------


def check_refusal(function: Callable, options: dict, argument: str, came: str = "") -> None:
    """Assert that function(**options) raises InputError of the form "argument: expected …, got …", in which `came`
    occurs.
    """
    with pytest.raises(gc.InputError) as error:
        function(**options)
    text = str(error.value)
    assert type(error.value) is gc.InputError
    assert text.startswith(f"{argument}: expected "), text
    assert came in text.split("expected ", 1)[1], text


def check_refusals(subtests, function: Callable, options: dict, bad: dict[str, Iterable], shown: bool = False) -> None:
    """Assert that each bad value is refused under the name of its argument. options: the other arguments; bad: values
    by argument; shown: whether the message repeats the value.
    """
    for argument, values in bad.items():
        for value in values:
            with subtests.test(argument=argument, value=repr(value)[:60]):
                came = repr(value) if shown else ", got "
                check_refusal(function, {**options, argument: value}, argument, came)


# --- matrices --------------------------------------------------------------------------------------------------------


def crossed(*factors: Iterable) -> list:
    """Return parameters for every combination of the factors. Those that are not needed to show each value once are
    marked as slow.
    """
    factors = [list(factor) for factor in factors]
    shown = {tuple(n % len(factor) for factor in factors) for n in range(max(map(len, factors)))}
    return [
        pytest.param(
            *(factor[i] for factor, i in zip(factors, at, strict=True)), marks=() if at in shown else pytest.mark.slow
        )
        for at in product(*(range(len(factor)) for factor in factors))
    ]


def some_at_night(count: int) -> list:
    """Return the numbers from 0 to count - 1 as parameters. The second half is marked as night."""
    return [n if n < count / 2 else pytest.param(n, marks=pytest.mark.night) for n in range(count)]
