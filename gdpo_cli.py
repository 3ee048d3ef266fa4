"""The command line: `gdpo check`, `audit`, `compare` and `explain`. What these commands do is in
`gdpo_audit/command/cli.py`, and for the check in `gdpo_audit/command/check_command.py`.

This file imports nothing of the library, so that neither help nor shell completion has to wait a second for torch.

The exit status is 0 if all went well. It is 1 if there is a finding that `--fail-on` names or a trap under `--strict`,
and for no other reason. It is 2, after one line on stderr, if the command cannot do what was asked. It is 70, after one
line, if gdpo itself is at fault; `--debug` prints the traceback above that line. It is 130 after an interruption. If
whoever reads the output leaves early, that changes nothing.
"""

import io
import os
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import typer

# The class of all of typer's complaints: its own class in new versions, and that of click in older ones.
_REFUSED: Any = next(kind for kind in reversed(typer.BadParameter.__mro__) if hasattr(kind, "format_message"))

app = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit with its status.

    Input that cannot be used, and output that cannot be written, lead to one line on stderr and exit status 2. The
    environment variable OMP_WAIT_POLICY becomes "passive" where it is not set.

    arguments: the words after `gdpo`, by default those with which the process was started.
    """
    # This has to stand before torch is imported, whose idle threads would spin and slow down all programs. The value is
    # in lower case because OpenMP changes the case by the locale, and Turkish has another i.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal may not know √ or −
    given = sys.argv[1:] if arguments is None else list(arguments)
    try:
        if sys.stdout is None:
            raise OSError(0, "none")
        status = 0
        with reader_may_leave():
            status = app(given, prog_name="gdpo", standalone_mode=False) or 0
        sys.exit(status)
    except _REFUSED as error:
        status, message = 2, error.format_message()
    except (SystemExit, KeyboardInterrupt):  # an ordinary end: it does not wait for the imports of `_said_of`
        raise
    except BaseException as error:
        status, message = _said_of(error, "--debug" in given)
    print("gdpo:", "".join(c if c.isprintable() else " " for c in message), file=sys.stderr)
    sys.exit(status)


def _said_of(error: BaseException, debug: bool) -> tuple[int, str]:
    """Return the exit status and the line on stderr for an error that ended a command.

    If the error is that standard output cannot be written, that output is closed. An order to end the programme, such
    as Ctrl+C, is raised again.

    debug: whether to print the traceback too, where the fault is in gdpo itself.
    """
    from gdpo_core.shared.errors import InputError, fault_of, is_fault

    if isinstance(error, InputError):
        return 2, str(error)
    if isinstance(error, MemoryError):
        return 2, "memory: expected enough to read and audit this, got none left"
    # An OSError without a file is about standard output, since one about a file was turned into an InputError.
    if isinstance(error, OSError) and error.filename is None:
        with suppress(OSError, AttributeError):
            sys.stdout.close()  # or Python would try again at the end, and complain
        return 2, f"standard output: expected one that can be written, got {error.strerror}"
    if not is_fault(error):
        raise error
    if debug:
        traceback.print_exception(error)
    return 70, fault_of(error)


@contextmanager
def reader_may_leave() -> Iterator[None]:
    """Run the block of the `with`. If whoever reads standard output leaves meanwhile, as `head` does, end the block
    without an error. What is written afterwards is lost.
    """
    try:
        yield
        sys.stdout.flush()
    except (BrokenPipeError, SystemExit) as error:
        # Click and rich turn the error into an exit with 1, which would look like a finding.
        if not any(isinstance(e, BrokenPipeError) for e in (error, error.__context__)):
            raise
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())  # for what is still written, also by Python when it ends
        os.close(nowhere)


def _version(wanted: bool) -> None:
    """Print the version and exit, if it is wanted."""
    if wanted:
        from importlib.metadata import version

        print("gdpo", version("gdpo"))
        raise typer.Exit


@app.callback(invoke_without_command=True)
def gdpo(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="the version")] = False,
) -> None:
    """Show what GRPO and GDPO make of several rewards.

    \b
    gdpo check train.sh                     what a configuration will run, before it runs
    gdpo audit outputs/completions          which reward drove a run, and what to change
    gdpo compare runs/before runs/after     what changed between two runs
    gdpo explain 111 110 011 101            the arithmetic of one group of responses
    gdpo selftest                           whether this installation computes as recorded

    gdpo COMMAND --help says more.
    """
    if context.invoked_subcommand is None:
        print(context.get_help())


# --- options, each spelt once -----------------------------------------------------------------------------------------

METHODS_IN_WORDS = "grpo, grpo_no_std or gdpo"
CONVENTIONS = "paper, trl, verl, ms_swift, nemo_rl, nemo_rl_loo or axolotl_async"
FRAMEWORKS = "trl (axolotl), verl, ms_swift, nemo_rl, verifiers or generic"
TRAINERS = "trl, verl, ms_swift, nemo_rl or axolotl"
ASKED = "grpo, grpo_no_std, gdpo, grpo_batch_std, reinforce_pp_baseline, reinforce_pp, mo_grpo, max_rl"

_EXAMPLE = '"method=gdpo,weights.length=0.2"'
_FAIL_ON = "error, warning, info or the id of a finding; a severity includes graver ones"

_Text: TypeAlias = str | None
_Texts: TypeAlias = list[str] | None
_Framework = Annotated[_Text, typer.Option(metavar="NAME", help=f"{FRAMEWORKS}; found by default")]
_GroupSize = Annotated[_Text, typer.Option(metavar="N", help="responses per prompt; found by default")]
_Weight = Annotated[_Texts, typer.Option(metavar="NAME=W", help="a reward's weight; found by default, else 1")]
_Reward = Annotated[_Texts, typer.Option(metavar="NAME", help="a column with a reward")]
_Group = Annotated[_Texts, typer.Option(metavar="NAME", help="a column that identifies the group; twice: two together")]
_Columns = Annotated[
    _Text, typer.Option(metavar="WHAT=NAME,…", help="columns by what they hold: step=it,advantage=adv,length=tokens")
]
_Parts = Annotated[_Text, typer.Option(metavar="NAME=PAY,…", help="what a pass pays, for a log of totals alone")]
_SkipBad = Annotated[bool, typer.Option("--skip-bad", help="leave out broken lines, and files that cannot be read")]
_Json = Annotated[Path | None, typer.Option("--json", metavar="FILE", help="write JSON; - prints only that")]
_Debug = Annotated[bool, typer.Option("--debug", help="the traceback, where gdpo itself is at fault")]
_Html = Annotated[Path | None, typer.Option(metavar="FILE", help="write one HTML file with charts")]


# --- commands ---------------------------------------------------------------------------------------------------------


@app.command(
    "explain", short_help="Print every number of one computation.", context_settings={"ignore_unknown_options": True}
)
def explain_command(
    context: typer.Context,
    responses: Annotated[list[str], typer.Argument(metavar="REWARDS...", help="a response each; / starts a prompt")],
    method: Annotated[str, typer.Option(metavar="METHOD", help=METHODS_IN_WORDS)] = "gdpo",
    convention: Annotated[str, typer.Option(metavar="NAME", help=CONVENTIONS)] = "paper",
    weights: Annotated[_Text, typer.Option(metavar="W,W,…", help="one number per reward: 1,0.5,2")] = None,
    lengths: Annotated[_Text, typer.Option(metavar="N,N,…", help="tokens, one number per response")] = None,
    html: Annotated[Path | None, typer.Option(metavar="FILE", help="write a board to flip and draw: one file")] = None,
    debug: _Debug = False,
) -> None:
    """Print every number of one computation, from rewards to advantages.

    A response is given by its rewards: 101 for three rewards of 0 or 1, or numbers with commas between them, as in
    1,0.5,-2. A missing reward is nan.

    \b
    gdpo explain 111 110 011 101 --convention trl --weights 1,0.5,2
    gdpo explain 01 00 / 11 00 --method grpo
    """
    from gdpo_core.shared.extras import needs

    with needs("audit", "explain"):
        from gdpo_audit.command import cli

    cli.run_explain(context.params)


@app.command("audit", short_help="Say which reward drove a run, and what to do.")
def audit_command(
    context: typer.Context,
    paths: Annotated[list[str], typer.Argument(metavar="PATH...", help="files, directories, globs, URLs; DB::RUN")],
    framework: _Framework = None,
    group_size: _GroupSize = None,
    weight: _Weight = None,
    primary: Annotated[_Text, typer.Option(metavar="NAME", help="the reward that matters most")] = None,
    asked: Annotated[_Text, typer.Option(metavar="METHOD", help=f"the method that was meant to run: {ASKED}")] = None,
    what_if: Annotated[_Text, typer.Option(metavar="SETTING", help=f"the run under a setting, too: {_EXAMPLE}")] = None,
    reward: _Reward = None,
    group: _Group = None,
    columns: _Columns = None,
    parts: _Parts = None,
    skip_bad: _SkipBad = False,
    steps: Annotated[_Text, typer.Option(metavar="FIRST-LAST,…", help="these alone: 1-20,41-60, 100: or :50")] = None,
    last: Annotated[_Text, typer.Option(metavar="N", help="the last N steps alone")] = None,
    not_steps: Annotated[_Text, typer.Option(metavar="STEPS", help="without these steps: 10,20 or 10,20-30")] = None,
    by: Annotated[
        _Text, typer.Option(metavar="COLUMN", help="each value of a column, such as the task, too; none: of no column")
    ] = None,
    json_: _Json = None,
    html: _Html = None,
    fail_on: Annotated[
        _Texts, typer.Option(metavar="SEVERITY|ID,…", help=f"exit with 1 at such a finding: {_FAIL_ON}")
    ] = None,
    engine: Annotated[str, typer.Option(metavar="NAME", help="local, or ray: computed on a Ray cluster")] = "local",
    watch: Annotated[bool, typer.Option("--watch", help="follow a log that grows; Ctrl-C ends it")] = False,
    groups: Annotated[_Text, typer.Option(metavar="N", help="with the N groups that show a finding best")] = None,
    explain: Annotated[bool, typer.Option("--explain", help="with what each column and each finding means")] = False,
    reading: Annotated[bool, typer.Option("--reading", help="how the log is read alone, with the evidence")] = False,
    debug: _Debug = False,
) -> int:
    """Say what the log of a training run shows about its rewards.

    A path is a run. Files of one ending in one directory are one run, so that
    completions/*.parquet means the same as completions.

    \b
    gdpo audit outputs/completions --primary correctness --html audit.html
    gdpo audit rewards.csv --reward correct --reward short --group prompt_id --weight short=0.5
    gdpo audit outputs/completions --fail-on error,reward-dead

    Exit status: 0 with a report, 1 if --fail-on finds something, 2 if a log cannot be read, 70 if gdpo itself is at
    fault.
    """
    from gdpo_core.shared.extras import needs

    with needs("audit", "audit"):
        from gdpo_audit.command import cli

    return cli.run_audit(context.params, reader_may_leave)


@app.command("check", short_help="Say what a configuration will run.")
def check_command(
    context: typer.Context,
    configurations: Annotated[list[str], typer.Argument(metavar="CONFIG...", help="files of one configuration")],
    trainer: Annotated[_Text, typer.Option(metavar="NAME==VERSION", help=f"{TRAINERS}; found by default")] = None,
    log: Annotated[
        _Text,
        typer.Option(
            metavar="SAMPLE",
            help="log of a few prompts, given as for audit; adds each reward's share of the update, and the push on "
            "it, under this configuration",
        ),
    ] = None,
    strict: Annotated[bool, typer.Option("--strict", help="exit with 1 at a trap of severity error")] = False,
    each: Annotated[bool, typer.Option("--each", help="take each file as a configuration of its own")] = False,
    format: Annotated[
        str, typer.Option(metavar="NAME", help="text, or github for lines that mark the files of a pull request")
    ] = "text",
    json_: _Json = None,
    debug: _Debug = False,
) -> int:
    """Say what a configuration will run, and where it is a trap, before anything runs.

    YAML, JSON, shell scripts, Python programs and notebooks are read, never run. Several files are one configuration.
    In it a command has precedence over a file of values, and a later file over an earlier one.

    \b
    gdpo check train.sh --trainer verl==0.9.1
    gdpo check accelerate.yaml train.py --strict
    gdpo check config.yaml --log rewards.csv
    gdpo check configs/*.yaml --each --strict --format github

    Exit status: 0 if all went well; 1 if --strict meets a trap of severity error; 2 if this cannot be done, as where a
    file cannot be read or not exactly one trainer is recognised; 70 if gdpo itself is at fault.
    """
    from gdpo_audit.command.check_command import run_check

    return run_check(context.params, reader_may_leave)


@app.command("compare", short_help="Say what changed from one run to another.")
def compare_command(
    context: typer.Context,
    runs: Annotated[list[str], typer.Argument(metavar="A B | A... --with B", help="runs, each as for audit")],
    with_: Annotated[_Texts, typer.Option("--with", metavar="B", help="runs to compare with, one each")] = None,
    framework: _Framework = None,
    group_size: _GroupSize = None,
    weight: _Weight = None,
    reward: _Reward = None,
    group: _Group = None,
    columns: _Columns = None,
    parts: _Parts = None,
    skip_bad: _SkipBad = False,
    json_: _Json = None,
    html: _Html = None,
    debug: _Debug = False,
) -> None:
    """Say what changed from one run to another, and which changes may be chance.

    Chance is judged by how steps differ within a run, or by how runs differ that had other seeds: name several then.

    \b
    gdpo compare runs/grpo/completions runs/gdpo/completions
    gdpo compare before.csv after.csv --group prompt_id --html changes.html
    gdpo compare runs/grpo-1 runs/grpo-2 --with runs/gdpo-1 --with runs/gdpo-2
    """
    from gdpo_core.shared.extras import needs

    with needs("audit", "compare"):
        from gdpo_audit.command import cli

    cli.run_compare(context.params)


@app.command("selftest", short_help="Say whether this installation computes as recorded.")
def selftest_command(debug: _Debug = False) -> int:
    """Say whether this installation gives the recorded answers to the test vectors of the repository (conformance/).

    Each case is computed by every method that has recorded answers, and under every convention.

    \b
    gdpo selftest

    Exit status: 0 if all answers agree, 1 if one does not, and 2 if the extra audit is not installed.
    """
    from gdpo_core.shared.extras import needs

    with needs("audit", "selftest"):
        from gdpo_audit.command.selftest import run_selftest

    return run_selftest()
