"""`gdpo check`, which loads neither torch nor polars: only the score of a sample, with --log, does."""

import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from rich.text import Text

from gdpo_audit.console import COLOURS, console_of, show_facts, show_lines, show_paragraph
from gdpo_audit.output_files import Options, as_json, expect_spared, targets_of, write
from gdpo_core._extras import needs
from gdpo_core._plain import jsonable
from gdpo_core._words import listing, printable
from gdpo_core.checking.check import ConfigCheck, check_config

if TYPE_CHECKING:
    from gdpo_audit.report.sample_score import SampleScore


def run_check(options: Options, printing: Callable[[], AbstractContextManager[None]]) -> int:
    """Print what a configuration will run and write it to files; return the exit status.

    With --log, the pushes and the shares of the rewards in that log are added. The status is 1 if --strict is given and
    a trap of the configuration is an error, else 0.

    printing: returns the context in which all this is printed.

    Raises InputError.
    """
    targets = targets_of({"html": None, "json_": options["json_"]})
    check = check_config(options["configurations"], options["trainer"])
    expect_spared(targets, check.files, "the configuration")
    sample = None if options["log"] is None else _score(check, options["log"])
    text = as_json(check.to_dict() | {"sample": jsonable(asdict(sample)) if sample else None})
    write(targets, {"json": text})
    with printing():
        if options["json_"] == Path("-"):
            sys.stdout.write(text)
        else:
            show_check(check, sample, sys.stdout)
    return int(options["strict"] and check.worst == "error")


def _score(check: ConfigCheck, log: str) -> "SampleScore":
    """Return what the rewards of a sample would do under a configuration.

    check: the configuration as it was checked.
    log: the path of the sample.

    Raises InputError.
    """
    with needs("audit", "--log"):
        from gdpo_audit.sample import read_sample, score_sample

    return score_sample(check, read_sample(check, log))


def show_check(check: ConfigCheck, sample: "SampleScore | None", file: TextIO) -> None:
    """Print what a configuration will run, its traps, and what a sample, if there is one, would do under it.

    file: where it is printed.
    """
    console = console_of(file)
    console.print()
    show_paragraph(console, listing(check.files, most=4), "bold")
    show_facts(console, check.facts.items())
    for line in check.lines:
        show_lines(console, line, "a line that makes the run write a log that can be audited")
    if not check.traps:
        console.print(f"\n{check.looked}", style="bold")
    for trap in check.traps:
        console.print()
        name = (f"{trap.severity}  {trap.id}", COLOURS[trap.severity])
        console.print(Text.assemble(name, f"  {printable(trap.place)}"), soft_wrap=True)
        show_paragraph(console, trap.says)
        show_lines(console, trap.line, "write")
        show_paragraph(console, f"Read in {trap.read_in}.", "dim")
    if sample:
        from gdpo_audit.report.terminal import show_sample

        show_sample(console, sample)
