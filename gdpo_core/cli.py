"""The command line: `gdpo explain`, `gdpo audit` and `gdpo compare`.

It ends with 0; with 1 where a finding of `--fail-on` is there, and for nothing else; with 2 and one line on stderr
where it cannot do what was asked; with 130 when it is interrupted. A reader who leaves early changes nothing.
"""

import io
import json
import os
import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer
from rich.console import Console

from gdpo_core._errors import InputError, expect
from gdpo_core._parse import parse_count, parse_number, parse_setting, parse_steps, parse_weights
from gdpo_core._words import count, listing, one_line
from gdpo_core.conventions import COMPARED, NAMES
from gdpo_core.frameworks import CONVENTIONS, readable_with_writers

# What needs torch or polars is imported where it is used: neither help nor shell completion has to wait a second.
if TYPE_CHECKING:
    from gdpo_core.runs.audit_report import AuditReport
    from gdpo_core.steps import Explanation

_PATIENCE = 1.0  # seconds after which progress is shown
# What all of typer's complaints are: its own class in new versions, click's in those before.
_REFUSED: Any = next(kind for kind in reversed(typer.BadParameter.__mro__) if hasattr(kind, "format_message"))

app = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; input or output that cannot be used is one line on stderr and exit 2."""
    # Before torch is imported, whose idle threads would spin and slow down all programs. In lower case, because OpenMP
    # changes the case by the locale, and Turkish has another i.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal may not know √ or −
    try:
        expect(sys.stdout is not None, "standard output", "one that can be written", "none")
        status = 0
        with _reader_may_leave():
            given = _option_per_run(sys.argv[1:] if arguments is None else arguments)
            status = app(given, prog_name="gdpo", standalone_mode=False) or 0
        sys.exit(status)
    except _REFUSED as error:
        message = error.format_message()
    except InputError as error:
        message = str(error)
    except OSError as error:  # of standard output; that of a file is an InputError by now
        message = f"standard output: expected one that can be written, got {error.strerror}"
        with suppress(OSError):
            sys.stdout.close()  # or Python would try again at the end, and complain
    print("gdpo:", one_line(message), file=sys.stderr)
    sys.exit(2)


@contextmanager
def _reader_may_leave() -> Iterator[None]:
    """Go on quietly where the reader of standard output has left, as `head` does."""
    try:
        yield
        sys.stdout.flush()
    except (BrokenPipeError, SystemExit) as error:
        # Click and rich turn the error into an exit with 1, which would look like a finding.
        if not any(isinstance(e, BrokenPipeError) for e in (error, error.__context__)):
            raise
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())  # what is still to be written, by Python at its end too
        os.close(nowhere)


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import PackageNotFoundError, version

        try:
            print("gdpo", version("reward-policy-intuition"))
        except PackageNotFoundError:
            raise InputError("version: expected an installed package, got a bare folder") from None
        raise typer.Exit


@app.callback(invoke_without_command=True)
def gdpo(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="print the version and stop")
    ] = False,
) -> None:
    """What GRPO and GDPO make of several rewards.

    \b
    gdpo audit outputs/completions          which reward drove a run, and what to change
    gdpo compare runs/before runs/after     what changed between two runs
    gdpo explain 111 110 011 101            the arithmetic of one group of responses

    gdpo COMMAND --help says more.
    """
    if context.invoked_subcommand is None:
        print(context.get_help())


def _key(name: str) -> str:
    """A method or a convention in any spelling, as the code has it."""
    return re.sub("[-. ]", "_", name.strip().lower())


# --- gdpo explain ----------------------------------------------------------------------------------------------------


@app.command(
    "explain", short_help="Print every number of one computation.", context_settings={"ignore_unknown_options": True}
)
def explain_command(
    responses: Annotated[
        list[str], typer.Argument(metavar="REWARDS...", help="one response each; / starts the next prompt")
    ],
    method: Annotated[str, typer.Option(metavar="METHOD", help=listing(COMPARED, "or"))] = "gdpo",
    convention: Annotated[str, typer.Option(metavar="NAME", help=listing(CONVENTIONS, "or"))] = "paper",
    weights: Annotated[str | None, typer.Option(metavar="W,W,…", help="one number per reward: 1,0.5,2")] = None,
    lengths: Annotated[str | None, typer.Option(metavar="N,N,…", help="tokens, one number per response")] = None,
) -> None:
    """Print one computation, every number of it, from rewards to advantages.

    A response is its rewards: 101 for three rewards of 0 or 1, else numbers with commas, 1,0.5,-2; nan is missing.

    \b
    gdpo explain 111 110 011 101 --convention trl --weights 1,0.5,2
    gdpo explain 01 00 / 11 00 --method grpo
    """
    from gdpo_core.report import terminal
    from gdpo_core.steps import explain

    rewards, prompts = _rewards(responses)
    for name, value, known in (("method", method, COMPARED), ("convention", convention, CONVENTIONS)):
        expect(_key(value) in known, name, f"one of {', '.join(known)}", repr(value))
    explanation = explain(
        rewards,
        _key(method),
        weights=None if weights is None else _numbers_of(weights, "weights", len(rewards[0]), "reward"),
        lengths=None if lengths is None else _numbers_of(lengths, "lengths", len(rewards), "response"),
        groups=prompts,
        convention=CONVENTIONS[_key(convention)],
    )
    terminal.show_explanation(explanation, prompts, _ties(explanation, prompts), sys.stdout)


def _rewards(responses: Sequence[str]) -> tuple[list[list[float]], list[int]]:
    """The rewards of each response and the number of its prompt.

    >>> _rewards(["10", "0,0.5", "/", "11"])
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
    numbers = [parse_number(part) for part in text.split(",")]
    expected = "numbers with commas between them" + (", or 0s and 1s" if name.startswith("response") else "")
    expect(None not in numbers, name, expected, repr(text))
    return [number for number in numbers if number is not None]


def _numbers_of(text: str, name: str, size: int, thing: str) -> list[float]:
    numbers = _numbers(text, name)
    expect(len(numbers) == size, name, f"{count(size, 'number')}, one per {thing}", f"{len(numbers)}, {text!r}")
    return numbers


def _ties(e: "Explanation", prompts: Sequence[int]) -> list[list[int]]:
    """The responses of a prompt that share an advantage though their rewards differ; NaN advantages do not count."""
    from gdpo_core.ties import collapse

    c = collapse(e.rewards, e.method, weights=e.weights, groups=prompts, lengths=e.lengths, convention=e.convention)
    shared: dict[tuple[int, int], list[int]] = {}
    for response, level in zip(c.response.tolist(), c.level.tolist(), strict=True):
        shared.setdefault((prompts[response], level), []).append(response)
    return [tied for tied in shared.values() if len({str(e.rewards[i].tolist()) for i in tied}) > 1]


# --- gdpo audit ------------------------------------------------------------------------------------------------------

# How to read a log.
_PATHS = "files, directories, globs, zips or URLs of runs; DATABASE::RUN"
_Framework = Annotated[
    str | None, typer.Option(metavar="NAME", help=f"{listing(readable_with_writers(), 'or')}; found by default")
]
_GroupSize = Annotated[str | None, typer.Option(metavar="N", help="responses per prompt; found by default")]
_Weight = Annotated[
    list[str] | None, typer.Option(metavar="NAME=W", help="a reward's weight; found by default, else 1")
]
_Reward = Annotated[list[str] | None, typer.Option(metavar="NAME", help="a column with a reward")]
_Group = Annotated[str | None, typer.Option(metavar="NAME", help="the column that identifies the prompt")]
_Advantage = Annotated[str | None, typer.Option(metavar="NAME", help="the column with advantages")]
_Length = Annotated[str | None, typer.Option(metavar="NAME", help="the column with tokens per response")]
_Step = Annotated[str | None, typer.Option(metavar="NAME", help="the column with the training step")]
_SkipBadLines = Annotated[bool, typer.Option("--skip-bad-lines", help="leave out broken lines")]
_SkipBadFiles = Annotated[bool, typer.Option("--skip-bad-files", help="leave out files that cannot be read")]
# Where to write JSON.
_Json = Annotated[
    Path | None,
    typer.Option("--json", metavar="FILE", help="write JSON; - prints only that", writable=True, allow_dash=True),
]
_Html = Annotated[Path | None, typer.Option(metavar="FILE", help="write one HTML file with charts", writable=True)]


@app.command("audit", short_help="Say which reward drove a run, and what to do.")
def audit_command(
    context: typer.Context,
    paths: Annotated[list[str], typer.Argument(metavar="PATH...", help=_PATHS)],
    framework: _Framework = None,
    group_size: _GroupSize = None,
    weight: _Weight = None,
    primary: Annotated[str | None, typer.Option(metavar="NAME", help="the reward that matters most")] = None,
    asked: Annotated[
        str | None, typer.Option(metavar="METHOD", help=f"the method that was meant to run: {', '.join(NAMES)}")
    ] = None,
    what_if: Annotated[
        str | None,
        typer.Option(
            metavar="SETTING", help='the whole run under another setting too: "method=gdpo,weights.length=0.2"'
        ),
    ] = None,
    reward: _Reward = None,
    group: _Group = None,
    advantage: _Advantage = None,
    length: _Length = None,
    step: _Step = None,
    skip_bad_lines: _SkipBadLines = False,
    steps: Annotated[
        str | None, typer.Option(metavar="FIRST:LAST", help="these steps alone: 100:150, 100: or :50")
    ] = None,
    last: Annotated[str | None, typer.Option(metavar="N", help="the last N steps alone")] = None,
    by: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="each value of this column, such as a task, by itself too")
    ] = None,
    skip_bad_files: _SkipBadFiles = False,
    json_: _Json = None,
    html: _Html = None,
    fail_on: Annotated[
        list[str] | None,
        typer.Option(
            metavar="LEVEL|ID,…", help="exit with 1 at such a finding: error, warning, info or the id of a finding"
        ),
    ] = None,
    engine: Annotated[str, typer.Option(metavar="NAME", help="local, or ray: computed on a Ray cluster")] = "local",
    watch: Annotated[
        bool, typer.Option("--watch", help="follow a log that grows; Ctrl-C ends with the report")
    ] = False,
    groups: Annotated[
        str | None, typer.Option(metavar="N", help="print the N groups that show a finding best, 1 to 5")
    ] = None,
    verbose: Annotated[
        bool, typer.Option("--verbose", help="print the evidence of each finding, and every table")
    ] = False,
) -> int:
    """Say what the log of a training run shows about its rewards.

    A path is a run; several are compared. Files of one ending in one directory are one run, so that
    completions/*.parquet means the same as completions.

    \b
    gdpo audit outputs/completions --primary correctness --html audit.html
    gdpo audit rewards.csv --reward correct --reward short --group prompt_id --weight short=0.5
    gdpo audit outputs/completions --fail-on error,reward-dead

    Exit status: 0 with a report, 1 where --fail-on finds something, 2 where a log cannot be read.
    """
    from gdpo_core.report import document, terminal
    from gdpo_core.runs.examples import MOST

    failing = _parse_fail_on(fail_on)
    one_to_five = groups is None or re.fullmatch(f" *[1-{MOST}] *", groups)
    expect(bool(one_to_five), "groups", f"a whole number from 1 to {MOST}", repr(groups))
    shown = int(groups or 0)
    only_json = json_ == Path("-")
    targets = _targets(html, None if only_json else json_)
    read_args = _read_args(context.params)
    read_args |= {"by": by, "steps": None if steps is None else parse_steps(steps, "steps")}
    read_args["last"] = None if last is None else parse_count(last, "last")
    weights = parse_weights(weight or [], "weight") or None
    audit_args: dict[str, Any] = {
        "weights": weights,
        "primary": primary,
        "asked": None if asked is None else _key(asked),
    }
    if what_if is not None:
        expect(not watch, "--watch", "no --what-if beside it", "one")
        audit_args["what_if"] = setting = parse_setting(what_if, "what-if")
        setting |= {name: _key(setting[name]) for name in ("method", "convention") if name in setting}
    expect(engine in ("local", "ray"), "--engine", "local or ray", repr(engine))
    if watch:
        expect(engine == "local", "--watch", "the engine local", engine)
        expect(len(paths) == 1, "--watch", "one directory or file", f"{len(paths)}")
        _expect_no_overwrite(targets, paths, paths)
        with _name_in_errors(paths, False):
            reports = [_watch(paths[0], audit_args | read_args, sys.stderr if only_json else sys.stdout)]
    else:
        reports = _audit_runs(_runs(paths), audit_args, read_args, targets, engine)
    texts: dict[str, Callable[..., str]] = {"html": document, "json": partial(_json, groups=shown)}
    for option, path in targets.items():
        _write(path, texts[option](reports), option)
    with _reader_may_leave():
        if only_json:
            sys.stdout.write(_json(reports, shown))
        else:
            terminal.show(reports, sys.stdout, verbose, shown)
    return _status(reports, failing)


def _read_args(options: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of `read_run` from the options of the command line."""
    size = None if options["group_size"] is None else parse_count(options["group_size"], "group-size")
    columns = {name: options[name] for name in ("advantage", "length", "step") if options[name] is not None}
    read = {"columns": columns, "skip_bad": options["skip_bad_lines"] or options["skip_bad_files"]}
    read |= {name: options[name] for name in ("framework", "group")}
    return {"group_size": size, "rewards": options["reward"] or None, **read}


def _parse_fail_on(texts: Sequence[str] | None) -> frozenset[str]:
    """The severities and ids in texts such as "warning,reward-dead"; a severity holds those above it.

    >>> sorted(_parse_fail_on(["warning,reward-dead", "conflict"])), _parse_fail_on(None)
    (['conflict', 'error', 'reward-dead', 'warning'], frozenset())
    """
    from gdpo_core.runs.facts import SEVERITIES
    from gdpo_core.runs.findings import IDS

    failing: set[str] = set()
    for part in (part for text in texts or () for part in text.split(",")):
        name = part.strip().lower().replace("_", "-")
        known = f"{', '.join(SEVERITIES)} or the id of a finding: {', '.join(IDS)}"
        expect(name in (*SEVERITIES, *IDS), "fail-on", known, repr(part))
        failing.update(SEVERITIES[: SEVERITIES.index(name) + 1] if name in SEVERITIES else [name])
    return frozenset(failing)


def _status(reports: Sequence["AuditReport"], failing: frozenset[str]) -> int:
    """1 if a report holds a finding of these severities or ids, which are named on stderr; else 0."""
    status = 0
    for report in reports:
        ids = dict.fromkeys(f.id for f in report.findings if not failing.isdisjoint((f.id, f.severity)))
        if ids:
            status = 1
            print(f"gdpo: fail-on: {one_line(report.source['path'])}: {listing(ids)}", file=sys.stderr)
    return status


def _audit_runs(
    runs: Sequence[Sequence[str]],
    audit_args: Mapping[str, Any],
    read_args: Mapping[str, Any],
    targets: Mapping[str, Path],
    engine: str = "local",
) -> list["AuditReport"]:
    """The reports of runs, each given by its paths; audit_args, read_args: arguments of `audit` and of `read_run`."""
    from gdpo_core.runs.audit import audit
    from gdpo_core.runs.read import read_run

    reports = []
    for number, files in enumerate(runs, start=1):
        name = f"run {number} of {len(runs)}: " if len(runs) > 1 else ""
        path = files if len(files) > 1 else files[0]
        with _name_in_errors(files, len(runs) > 1), _progress(name) as progress:
            if engine == "ray":
                from gdpo_core.runs.engine_ray import audit_on_ray  # what only --engine ray needs

                _expect_no_overwrite(targets, files, files)
                reports.append(audit_on_ray(path, **audit_args, **read_args))
            else:
                run = read_run(path, **read_args)
                _expect_no_overwrite(targets, files, run.files)
                given = audit_args["weights"] or {}
                all_zero = given.keys() >= set(run.rewards) and not any(given.values())
                expect(not all_zero, "weight", "one that is not 0", "0 for every reward")
                reports.append(audit(run, progress=progress, **audit_args))
    return reports


def _watch(path: str, read_args: Mapping[str, Any], file: TextIO) -> "AuditReport":
    """The report of a log that was followed until Ctrl-C."""
    from gdpo_core.report.live import follow  # what only --watch needs
    from gdpo_core.runs.watch import Follower

    return follow(Follower(path, **read_args), file)


def _runs(paths: Sequence[str]) -> list[list[str]]:
    """The paths of each run: files of one ending in one directory belong together, any other path is a run.

    >>> import tempfile, pathlib
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     names = [f"{folder}/{name}" for name in ("1.parquet", "2.parquet", "a.csv")]
    ...     for name in names: pathlib.Path(name).touch()
    ...     [[pathlib.Path(path).name for path in run] for run in _runs([*names, "elsewhere"])]
    [['1.parquet', '2.parquet'], ['a.csv'], ['elsewhere']]
    """
    from gdpo_core.runs.unpack import format_suffix

    runs: dict[object, list[str]] = {}
    for path in paths:
        file = Path(path)
        # Each zip holds a whole run.
        part = os.path.isfile(path) and file.suffix.lower() != ".zip"
        run = runs.setdefault((file.resolve().parent, format_suffix(path)) if part else _real(path), [])
        if _real(path) not in map(_real, run):
            run.append(path)
    return list(runs.values())


def _real(path: str | Path) -> str:
    """One name per file or directory; realpath, because Path.resolve fails on a link to itself.

    A run spells its files in UTF-8, whatever the locale says of names.
    """
    return os.path.realpath(os.fsdecode(str(path).encode("utf-8", "surrogateescape")))


@contextmanager
def _name_in_errors(paths: Sequence[str], several: bool) -> Iterator[None]:
    """Make errors name the run, those that the readers did not foresee included."""
    from polars.exceptions import PolarsError

    try:
        yield
    except InputError as error:
        # Numbers that a computation refuses come from the log.
        if (several or str(error).startswith(("rewards:", "lengths:"))) and not str(error).startswith(paths[0]):
            raise InputError(f"{paths[0]}: {error}") from None
        raise
    except (OSError, PolarsError, UnicodeError) as error:
        first = str(error).strip().split("\n")[0]
        raise InputError(f"{paths[0]}: expected the log of a run, got {type(error).__name__}: {first}") from None


@contextmanager
def _progress(name: str) -> Iterator[Callable[[int], None] | None]:
    """Count responses on stderr, if that is a terminal and the run takes a while."""
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    if not console.is_terminal:
        yield None
        return
    columns = SpinnerColumn(), TextColumn("{task.description}{task.completed:,.0f} responses"), TimeElapsedColumn()
    bar = Progress(*columns, console=console, transient=True)
    task, started = bar.add_task(name, total=None), time.monotonic()

    def advance(responses: int) -> None:
        bar.advance(task, responses)
        if time.monotonic() - started > _PATIENCE:
            bar.start()

    try:
        yield advance
    finally:
        bar.stop()


def _targets(html: Path | None, json_: Path | None) -> dict[str, Path]:
    """The files to write, by their options."""
    targets = {option: path for option, path in {"html": html, "json": json_}.items() if path is not None}
    for option, path in targets.items():
        expect(str(path) != "-", option, "the name of a file", "'-'")
        expect(not os.path.isdir(path), option, "the name of a file", f"the directory {str(path)!r}")
        expect(os.path.isdir(path.parent), option, "a file in a directory that exists", repr(str(path)))
    different = len({_real(path) for path in targets.values()}) == len(targets)
    expect(different, "json", "another file than for the other option", repr(str(json_)))
    return targets


def _expect_no_overwrite(targets: Mapping[str, Path], paths: Sequence[str], files: Sequence[str]) -> None:
    """Raise InputError if a file to write is a file of the log, or would be read as one the next time."""
    from gdpo_core.runs.files import is_table

    log = {_real(name.partition("::")[0]) for name in files}  # DATABASE::RUN
    for option, path in targets.items():
        target = Path(_real(path))
        expect(str(target) not in log, option, "another file than the log", repr(str(path)))
        inside = any(target.is_relative_to(_real(path)) for path in paths if os.path.isdir(path))
        expect(
            not (inside and is_table(target.name)),
            option,
            "a file that is not taken for a part of the log",
            repr(str(path)),
        )


def _json(reports: Sequence["AuditReport"], groups: int) -> str:
    parts = [report.to_dict(groups) for report in reports]
    return _dump(parts[0] if len(parts) == 1 else {"schema": 1, "runs": parts})


def _dump(value: Mapping[str, Any]) -> str:
    return json.dumps(value, indent=2, allow_nan=False) + "\n"


def _write(path: Path, text: str, option: str) -> None:
    try:
        path.write_bytes(text.encode("utf-8", errors="replace"))
    except OSError as error:
        got = f"{str(path)!r} ({error.strerror})"
        raise InputError(f"{option}: expected a file that can be written, got {got}") from None


# --- gdpo compare ----------------------------------------------------------------------------------------------------


def _option_per_run(arguments: Sequence[str]) -> list[str]:
    """The arguments of the command line, with `--with` before each run that follows it.

    >>> _option_per_run(["compare", "a", "b", "--with", "c", "d", "--json", "-"])
    ['compare', 'a', 'b', '--with', 'c', '--with', 'd', '--json', '-']
    """
    spread: list[str] = []
    after_with = False
    for text in arguments:
        option = text.startswith("--")
        if after_with and not option and spread[-1] != "--with":
            spread.append("--with")
        after_with = text.partition("=")[0] == "--with" if option else after_with
        spread.append(text)
    return spread


@app.command("compare", short_help="Say what changed from one run to another.")
def compare_command(
    context: typer.Context,
    runs: Annotated[list[str], typer.Argument(metavar="A B | A... --with B...", help="runs, each as for audit")],
    with_: Annotated[
        list[str] | None, typer.Option("--with", metavar="B...", help="the runs to compare with, of other seeds each")
    ] = None,
    framework: _Framework = None,
    group_size: _GroupSize = None,
    weight: _Weight = None,
    reward: _Reward = None,
    group: _Group = None,
    advantage: _Advantage = None,
    length: _Length = None,
    step: _Step = None,
    skip_bad_lines: _SkipBadLines = False,
    skip_bad_files: _SkipBadFiles = False,
    json_: _Json = None,
    html: _Html = None,
) -> None:
    """Say what changed from one run to another, and what may be scatter: of their steps, or of several runs by seeds.

    \b
    gdpo compare runs/grpo/completions runs/gdpo/completions
    gdpo compare before.csv after.csv --group prompt_id --html changes.html
    gdpo compare runs/grpo-1 runs/grpo-2 runs/grpo-3 --with runs/gdpo-1 runs/gdpo-2 runs/gdpo-3
    """
    from gdpo_core.report import comparison_document, terminal
    from gdpo_core.report.changes import changes

    only_json = json_ == Path("-")
    targets = _targets(html, None if only_json else json_)
    read_args = _read_args(context.params)
    audit_args = {"weights": parse_weights(weight or [], "weight") or None}
    two = len(runs) == 2 or bool(with_)
    expect(two, "compare", "two runs, A B, or several of each kind, A1 A2 --with B1 B2", count(len(runs), "run"))
    sides = (runs, with_) if with_ else (runs[:1], runs[1:])
    expect(not with_ or min(map(len, sides)) > 1, "--with", "at least two runs on each side", _sizes(sides))
    reports = _audit_runs([[path] for side in sides for path in side], audit_args, read_args, targets)
    difference = changes(reports[: len(sides[0])], reports[len(sides[0]) :])
    text = _dump(difference.to_dict())
    texts = {"html": lambda: comparison_document(difference), "json": lambda: text}
    for option, file in targets.items():
        _write(file, texts[option](), option)
    with _reader_may_leave():
        if only_json:
            sys.stdout.write(text)
        else:
            terminal.show_changes(difference, sys.stdout)


def _sizes(sides: Sequence[Sequence[str]]) -> str:
    return " and ".join(count(len(side)) for side in sides)
