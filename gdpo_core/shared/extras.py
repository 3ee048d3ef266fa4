"""The extras of the installation: what each brings, and the one sentence of whatever needs one that is not there."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from gdpo_core.shared.errors import InputError

_AUDIT = ("torch", "polars", "numpy", "narwhals", "msgspec", "markupsafe")
_BOARD = (*_AUDIT, "anywidget", "traitlets")
# By the name of each extra, the modules that it brings. A plain installation has what `gdpo check` needs.
EXTRAS = {
    "audit": _AUDIT,
    "board": _BOARD,
    "page": (*_BOARD, "marimo", "starlette", "uvicorn", "psutil", "uvloop", "httptools", "altair"),
}


class MissingExtra(InputError, ModuleNotFoundError):
    """An error for an extra that is not installed: an InputError for a command, an ImportError for a program."""


MissingExtra.__module__ = "gdpo_core"


@contextmanager
def needs(extra: str, what: str) -> Iterator[None]:
    """Run the block of the `with`. Raise MissingExtra if it imports a module of an extra that is not installed.

    extra: a name in EXTRAS.
    what: what needs the extra, for the error.

    >>> with needs("audit", "audit"):  # doctest: +NORMALIZE_WHITESPACE
    ...     raise ModuleNotFoundError(name="torch")
    Traceback (most recent call last):
    gdpo_core.MissingExtra: audit: expected the extra audit (pip install 'gdpo[audit]', in a checkout '.[audit]'),
    got none: no torch
    """
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name not in EXTRAS[extra]:
            raise
        wanted = f"the extra {extra} (pip install 'gdpo[{extra}]', in a checkout '.[{extra}]')"
        missing = MissingExtra(f"{what}: expected {wanted}, got none: no {error.name}")
        missing.name = error.name
        raise missing from None


@contextmanager
def stops_without(extra: str, what: str) -> Iterator[None]:
    """Run the block of the `with`. End the process with status 2, after the sentence that `needs` has, if the block
    imports a module of an extra that is not installed.

    extra, what: as for `needs`.
    """
    try:
        with needs(extra, what):
            yield
    except MissingExtra as error:
        print(error, file=sys.stderr)
        sys.exit(2)
