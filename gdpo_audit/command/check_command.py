"""`gdpo check`, which loads neither torch nor polars: only the score of a sample, with --log, does."""

import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from rich.console import Console
from rich.text import Text

from gdpo_audit.command.annotations import annotations, refusal_command
from gdpo_audit.command.output_files import CommandOptions, as_json, expect_spared, targets_of, write_files
from gdpo_audit.console import COLOURS, console_of, show_facts, show_lines, show_paragraph
from gdpo_core.checking.check import ConfigCheck, check_config
from gdpo_core.checking.traps import FoundTrap
from gdpo_core.shared.errors import InputError, expect
from gdpo_core.shared.extras import needs
from gdpo_core.shared.plain import jsonable
from gdpo_core.shared.words import listing, printable

if TYPE_CHECKING:
    from gdpo_audit.report.sample_score import SampleScore


FORMATS = ("text", "github")


@dataclass(frozen=True)
class _Answer:
    """The answer on one configuration: its check, and the score of the sample of --log, if there is one."""

    check: ConfigCheck
    sample: "SampleScore | None"

    def to_dict(self) -> dict[str, Any]:
        """Return the answer as plain values, ready for JSON."""
        return self.check.to_dict() | {"sample": jsonable(asdict(self.sample)) if self.sample else None}


def run_check(options: CommandOptions, printing: Callable[[], AbstractContextManager[None]]) -> int:
    """Print what a configuration will run, or with --each each of several, and write it to files; return the status.

    With --log, the pushes and the shares of the rewards in that log are added. The status is 1 if --strict is given and
    a trap of a configuration is an error, else 0. With --each it is 2 where one configuration cannot be read; one line
    on stderr then says why, and the others are checked all the same.

    printing: returns the context in which all this is printed.

    Raises InputError.
    """
    github, only_json = options["format"] == "github", options["json_"] == Path("-")
    expect(options["format"] in FORMATS, "--format", " or ".join(FORMATS), repr(options["format"]))
    expect(not github or not only_json, "--format", "no --json - beside github", "one")
    expect(not github or options["log"] is None, "--format", "no --log beside github", "one")
    targets = targets_of({"html": None, "json_": options["json_"]})
    given = options["configurations"]
    answers, refused = _answers([[name] for name in given] if options["each"] else [given], options, targets)
    if refused and not options["each"]:
        if github:
            print(refusal_command(str(refused[0])), flush=True)
        raise refused[0]
    told = [answer.to_dict() for answer in answers]
    text = as_json({"schema": 1, "checks": told, "refused": [*map(str, refused)]} if options["each"] else told[0])
    write_files(targets, {"json": text})
    with printing():
        if only_json:
            sys.stdout.write(text)
        else:
            _print(answers, refused, github)
    for error in refused:
        print("gdpo:", error, file=sys.stderr)
    worst = any(answer.check.worst == "error" for answer in answers)
    return 2 if refused else int(options["strict"] and worst)


def _answers(
    configurations: Sequence[Sequence[str]], options: CommandOptions, targets: Mapping[str, Path]
) -> tuple[list[_Answer], list[InputError]]:
    """Return the answer on each configuration that can be read, and the error of each other one.

    configurations: for each configuration, the names of its files.
    targets: the files that will be written, by option, none of which may be a file of a configuration.
    """
    answers, refused = [], []
    for files in configurations:
        try:
            check = check_config(files, options["trainer"])
            expect_spared(targets, check.files, "the configuration")
            sample = None if options["log"] is None else _score(check, options["log"])
            answers.append(_Answer(check, sample))
        except InputError as error:
            refused.append(error)
    return answers, refused


def _print(answers: Sequence[_Answer], refused: Sequence[InputError], github: bool) -> None:
    """Print the answers, one after another.

    refused: the errors of the configurations that could not be read, which are printed for GitHub's workflows alone.
    github: whether to print commands of GitHub's workflows.
    """
    for nth, answer in enumerate(answers):
        if github:
            print(*annotations(answer.check), sep="\n")
        else:
            print("\n" * (nth > 0), end="")
            show_check(answer.check, answer.sample, sys.stdout)
    for error in refused if github else ():
        print(refusal_command(str(error)))


def _score(check: ConfigCheck, log: str) -> "SampleScore":
    """Return what the rewards of a sample would do under a configuration.

    check: the configuration as it was checked.
    log: the path of the sample.

    Raises InputError.
    """
    with needs("audit", "--log"):
        from gdpo_audit.command.sample import read_sample, score_sample

    return score_sample(check, read_sample(check, log))


def show_check(check: ConfigCheck, sample: "SampleScore | None", file: TextIO) -> None:
    """Print what a configuration will run: its errors first, then the facts and its milder traps, and what a sample, if
    there is one, would do under it.

    file: where it is printed.
    """
    console = console_of(file)
    show_paragraph(console, check.headline, "bold")
    show_paragraph(console, listing(check.files, most=4), "dim")
    for trap in check.errors:
        _show_trap(console, trap)
    console.print("\n" * bool(check.errors), end="")
    show_facts(console, check.facts.items())
    for line in check.lines:
        show_lines(console, line, "a line that makes the run write a log that can be audited")
    if not check.traps:
        console.print(f"\n{check.looked}", style="bold")
    for trap in check.milder:
        _show_trap(console, trap)
    if sample:
        from gdpo_audit.report.printing.terminal import show_sample

        show_sample(console, sample)


def _show_trap(console: Console, trap: FoundTrap) -> None:
    """Print what happens under a trap, the line to write instead, and where this was read."""
    console.print()
    name = (f"{trap.severity}  {trap.id}", COLOURS[trap.severity])
    console.print(Text.assemble(name, f"  {printable(trap.place)}"), soft_wrap=True)
    show_paragraph(console, trap.says)
    show_lines(console, trap.line, "write")
    show_paragraph(console, f"Read in {trap.read_in}.", "dim")
