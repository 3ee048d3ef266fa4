"""The files that the commands of `gdpo` write: which they are, and how a text gets into each of them."""

import json
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from gdpo_core.shared.errors import InputError, expect, reason

CommandOptions = Mapping[str, Any]  # the options of a command, by name


def _real(name: str) -> str:
    """Return the real path of a file, so that two names of one file compare equal.

    name: in UTF-8, as a run spells the names of its files, whatever the locale is.
    """
    return os.path.realpath(os.fsdecode(name.encode("utf-8", "surrogateescape")))


def targets_of(options: CommandOptions) -> dict[str, Path]:
    """Return the path of each file to write, by its option, html or json. The option json is left out if its path is
    "-", which is no file.

    Raises InputError for the path of a directory, for a file in a directory that does not exist, and for a file that
    both options name.
    """
    given = {"html": options["html"], "json": None if options["json_"] == Path("-") else options["json_"]}
    targets = {option: path for option, path in given.items() if path is not None}
    for option, path in targets.items():
        fits = str(path) != "-" and os.path.isdir(path.parent) and not os.path.isdir(path)  # Path.is_dir may raise
        expect(fits, option, "a file in a directory that exists", repr(str(path)))
    real = {option: _real(str(path)) for option, path in targets.items() if str(path) != os.devnull}
    expect(len({*real.values()}) == len(real), "json", "another file than that of --html", repr(str(options["json_"])))
    return targets


def expect_spared(targets: Mapping[str, Path], files: Sequence[str], what: str) -> None:
    """Raise InputError if a file to write, in `targets` by its option, is among `files`.

    files: the names of files that must not be overwritten.
    what: words for `files`.
    """
    for option, target in targets.items():
        expect(_real(str(target)) not in map(_real, files), option, f"another file than {what}", repr(str(target)))


def write_files(targets: Mapping[str, Path], texts: Mapping[str, str]) -> None:
    """Write the text of each option to its file.

    The text is first written beside the file and then moved into its place, so that an old file stays whole if the disk
    is full. A device, such as /dev/stdout, is written to directly.

    targets: by option, the path of the file.
    texts: by option, the text.

    Raises InputError where a file cannot be written.
    """
    for option, path in targets.items():
        real = beside = path
        try:
            real = path.resolve()
            # A device is written to directly, as no file could take its place.
            beside = real.with_name(f".{real.name}.part") if real.is_file() or not real.exists() else real
            beside.write_bytes(texts[option].encode("utf-8", errors="replace"))
            beside.replace(real)
        except (OSError, RuntimeError) as error:  # links that lead to themselves raise RuntimeError
            if beside != real:
                with suppress(OSError):
                    beside.unlink()
            got = f"{str(path)!r} ({getattr(error, 'strerror', None) or reason(error)})"
            raise InputError(f"{option}: expected a file that can be written, got {got}") from None


def as_json(value: Mapping[str, Any]) -> str:
    """Return a mapping as JSON with indents, as a text that ends with a line break."""
    return json.dumps(value, indent=2, allow_nan=False) + "\n"
