"""The commands of `gdpo`: each function `run_…` does what one of them promises, with the options that `gdpo_cli.py`
declares.
"""

import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.text import Text

from gdpo_audit.auditing import audit, reading
from gdpo_audit.command.input_paths import name_in_errors, runs_of
from gdpo_audit.command.output_files import CommandOptions, as_json, expect_spared, targets_of, write_files
from gdpo_audit.command.typed_responses import numbers_of, rewards_and_prompts
from gdpo_audit.command.watch import follow
from gdpo_audit.comparing.compare import changes
from gdpo_audit.findings.examples import MOST_EXAMPLES
from gdpo_audit.findings.finding import SEVERITIES
from gdpo_audit.findings.findings import IDS
from gdpo_audit.logs.files.trying import LISTENER
from gdpo_audit.logs.read import read_run
from gdpo_audit.report import comparison_document, document
from gdpo_audit.report.audit_report import AuditReport
from gdpo_audit.report.printing import terminal
from gdpo_core.conventions import COMPARED
from gdpo_core.frameworks import CONVENTIONS
from gdpo_core.shared.errors import expect
from gdpo_core.shared.extras import needs
from gdpo_core.shared.parsing import parse_count, parse_named, parse_setting, parse_steps, parse_weights
from gdpo_core.shared.plain import jsonable
from gdpo_core.shared.words import count, listing, one_line
from gdpo_core.steps import Explanation, explain
from gdpo_core.ties import collapse


def _key(name: str) -> str:
    """Return a name in small letters, with _ for each - . or space: for "GRPO no-std" the key "grpo_no_std"."""
    return re.sub("[-. ]", "_", name.strip().lower())


# --- gdpo explain ----------------------------------------------------------------------------------------------------


def run_explain(options: CommandOptions) -> None:
    """Print every number of the computation that `gdpo explain` asks for. With --html, also write the board of the
    responses to a file.

    Raises InputError.
    """
    rewards, prompts = rewards_and_prompts(options["responses"])
    method, convention = _key(options["method"]), _key(options["convention"])
    for name, value, known in (("method", method, COMPARED), ("convention", convention, CONVENTIONS)):
        expect(value in known, name, f"one of {', '.join(known)}", repr(options[name]))
    explanation = explain(
        rewards,
        method,
        weights=numbers_of(options["weights"], "weights", len(rewards[0]), "reward"),
        lengths=numbers_of(options["lengths"], "lengths", len(rewards), "response"),
        groups=prompts,
        convention=CONVENTIONS[convention],
    )
    if options["html"] is not None:
        _write_board(options["html"], rewards, prompts, explanation)
    terminal.show_explanation(explanation, prompts, _ties(explanation, prompts), sys.stdout)


def _write_board(file: Path, rewards: list[list[float]], prompts: list[int], explanation: Explanation) -> None:
    """Write the board (`gdpo_core.board.Board`) of some responses as an HTML file.

    file: the path of the file.
    rewards: a list of rewards per response.
    prompts: the number of each response's prompt.
    explanation: gives weights, lengths, method and convention.

    Raises InputError if there are several prompts, or if a reward is missing. Raises it too if the convention needs
    lengths and there are none, if the file cannot be written, and if the extra `board` is not installed.
    """
    many, missing = max(prompts), any(x != x for row in rewards for x in row)
    expect(many == 1, "--html", "the responses of one prompt", f"those of {many}")
    expect(not missing, "--html", "responses that have every reward", "a missing one (nan)")
    with needs("board", "--html"):
        from gdpo_core.board import Board
    tokens = explanation.convention.last_step == "tokens"
    told = not tokens or explanation.lengths is not None
    expect(told, "--html", "--lengths, as this convention weighs tokens", "none, and the board shows GDPO")
    board = Board(
        rewards,
        lengths=None if explanation.lengths is None else [int(n) for n in explanation.lengths.flatten().tolist()],
        weights=explanation.weights.tolist(),
        convention=explanation.convention,
        method=explanation.method if explanation.method != "grpo" else "gdpo",
        primary="reward 1",
    )
    write_files(targets_of({"html": file, "json_": None}), {"html": board.to_html()})


def _ties(e: Explanation, prompts: Sequence[int]) -> list[list[int]]:
    """Return a list for each tie: the indices of the responses to one prompt that share an advantage though their
    rewards differ.

    A response whose advantage is NaN is in no tie.

    e: the computation, with its rewards.
    prompts: the number of the prompt of each response.
    """
    c = collapse(e.rewards, e.method, weights=e.weights, groups=prompts, lengths=e.lengths, convention=e.convention)
    shared: dict[tuple[int, int], list[int]] = {}
    for response, level in zip(c.response.tolist(), c.level.tolist(), strict=True):
        shared.setdefault((prompts[response], level), []).append(response)
    return [tied for tied in shared.values() if len({str(e.rewards[i].tolist()) for i in tied}) > 1]


# --- gdpo audit ------------------------------------------------------------------------------------------------------


def run_audit(options: CommandOptions, printing: Callable[[], AbstractContextManager[None]]) -> int:
    """Print and write the reports of runs; return 1 where one holds a finding of --fail-on, else 0.

    printing: returns the context in which the reports are printed.

    Raises InputError.
    """
    torch.set_num_threads(1)  # where other programs use the cores, several would spend most time waiting for each other
    failing = _parse_fail_on(options["fail_on"])
    groups = options["groups"]
    fits = groups is None or re.fullmatch(f" *[1-{MOST_EXAMPLES}] *", groups)
    expect(bool(fits), "groups", f"a whole number from 1 to {MOST_EXAMPLES}", repr(groups))
    shown, paths, engine = int(groups or 0), options["paths"], options["engine"]
    expect(engine in ("local", "ray"), "--engine", "local or ray", repr(engine))
    only_json = options["json_"] == Path("-")
    targets = targets_of(options)
    read_args, audit_args = _read_args(options), _audit_args(options)
    if options["reading"]:
        return _show_readings(paths, audit_args, read_args, only_json, printing)
    if options["watch"]:
        expect("what_if" not in audit_args, "--watch", "no --what-if beside it", "one")
        expect(engine == "local", "--watch", "the engine local", engine)
        expect(len(paths) == 1, "--watch", "one directory or file", f"{len(paths)}")
        reports = [follow(paths[0], sys.stderr if only_json else sys.stdout, audit_args, **read_args)]
    else:
        with _telling():
            reports = _audit_runs(runs_of(paths), audit_args, read_args, targets, engine)
    text = _json(reports, shown)
    write_files(targets, {"json": text, "html": document(reports) if "html" in targets else ""})
    status = _status(reports, failing)
    with printing():
        if only_json:
            sys.stdout.write(text)
        else:
            terminal.print_reports(reports, sys.stdout, shown, options["explain"])
    return status


def _show_readings(
    paths: Sequence[str],
    audit_args: Mapping[str, Any],
    read_args: Mapping[str, Any],
    only_json: bool,
    printing: Callable[[], AbstractContextManager[None]],
) -> int:
    """Print how each log was read, without an audit, and return 0.

    paths: the paths of the logs.
    audit_args, read_args: the arguments of `audit` and of `read_run`, by name.
    only_json: whether to print JSON in place of lines.
    printing: returns the context in which to print.

    Raises InputError.
    """
    wanted = {name: audit_args[name] for name in ("weights", "primary", "asked") if name in audit_args}
    readings = []
    for run_paths in runs_of(paths):
        with name_in_errors(run_paths, len(paths) > 1):
            run = read_run(run_paths if len(run_paths) > 1 else run_paths[0], **read_args)
            readings.append((run.path, reading(run, **wanted)))
    with printing():
        if only_json:
            runs = [{"path": path, "reading": jsonable(claims)} for path, claims in readings]
            sys.stdout.write(as_json({"schema": 1, **(runs[0] if len(runs) == 1 else {"runs": runs})}))
        else:
            for path, claims in readings:
                terminal.show_reading(claims, path, sys.stdout)
    return 0


@contextmanager
def _telling() -> Iterator[None]:
    """Tell whoever waits, in a line on stderr, what takes long in the block of the `with`, if stderr is a terminal."""
    if sys.stderr is None or not sys.stderr.isatty():
        yield
        return
    token = LISTENER.set(lambda doing: print(doing, file=sys.stderr, flush=True))
    try:
        yield
    finally:
        LISTENER.reset(token)


def _read_args(options: CommandOptions) -> dict[str, Any]:
    """Return the arguments of `read_run` by name, from the options of the command line. Raises InputError."""
    size, steps, last = options["group_size"], options.get("steps"), options.get("last")
    left_out = options.get("not_steps")
    return {
        "framework": options["framework"],
        "group_size": None if size is None else parse_count(size, "group-size"),
        "rewards": options["reward"] or None,
        "group": tuple(options["group"]) if options["group"] else None,
        "columns": _columns(options["columns"]),
        "skip_bad": options["skip_bad"],
        "by": "" if options.get("by") == "none" else options.get("by"),
        "steps": None if steps is None else parse_steps(steps, "steps"),
        "last": None if last is None else parse_count(last, "last"),
        "not_steps": None if left_out is None else parse_steps(left_out, "not-steps"),
        "parts": None if options["parts"] is None else parse_named(options["parts"], "parts", "NAME=PAY"),
    }


def _columns(text: str | None) -> dict[str, str] | None:
    """Return {what a column holds: its name} from a text such as "step=it,advantage=adv"; None for None.

    Raises InputError for a text in another form, or if it says twice which column holds the same thing.

    >>> _columns("step=it, length=tokens")
    {'step': 'it', 'length': 'tokens'}
    """
    if text is None:
        return None
    pairs = [pair.strip().partition("=") for pair in text.split(",")]
    wanted = "step=NAME, advantage=NAME or length=NAME, with commas between several"
    expect(all(equals for _, equals, _ in pairs), "columns", wanted, repr(text))
    named = {what: name for what, _, name in pairs}
    expect(len(named) == len(pairs), "columns", "each of step, advantage and length once", repr(text))
    return named


def _audit_args(options: CommandOptions) -> dict[str, Any]:
    """Return the arguments of `audit` by name, from the options of the command line. Raises InputError."""
    given: dict[str, Any] = {"weights": parse_weights(options["weight"] or [], "weight") or None}
    if options.get("primary") is not None:
        given["primary"] = options["primary"]
    if options.get("asked") is not None:
        given["asked"] = _key(options["asked"])
    if options.get("what_if") is not None:
        setting = parse_setting(options["what_if"], "what-if")
        given["what_if"] = setting | {name: _key(setting[name]) for name in ("method", "convention") if name in setting}
    return given


def _parse_fail_on(texts: Sequence[str] | None) -> frozenset[str]:
    """Return the severities and ids of findings in texts such as "warning,reward-dead"; a severity adds graver ones.

    Raises InputError for any other word.

    >>> sorted(_parse_fail_on(["warning,reward-dead", "conflict"])), _parse_fail_on(None)
    (['conflict', 'error', 'reward-dead', 'warning'], frozenset())
    """
    failing: set[str] = set()
    for entry in (entry for text in texts or () for entry in text.split(",")):
        name = entry.strip().lower().replace("_", "-")
        known = f"{', '.join(SEVERITIES)} or the id of a finding: {', '.join(IDS)}"
        expect(name in (*SEVERITIES, *IDS), "fail-on", known, repr(entry))
        failing.update(SEVERITIES[: SEVERITIES.index(name) + 1] if name in SEVERITIES else [name])
    return frozenset(failing)


def _status(reports: Sequence[AuditReport], failing: frozenset[str]) -> int:
    """Return 1 if a report has findings of these severities or ids, and print a line on stderr for each such report;
    else return 0.

    The line names the path of the log and the ids of these findings.

    failing: the severities and ids that count, as `_parse_fail_on` returns them: those that --fail-on names, and every
        severity graver than one of these.
    """
    status = 0
    for report in reports:
        ids = dict.fromkeys(f.id for f in report.findings if not failing.isdisjoint((f.id, f.severity)))
        if ids:
            status = 1
            print(f"gdpo: fail-on: {one_line(report.source['path'])}: {listing(ids)}", file=sys.stderr)
    return status


def _audit_runs(
    runs: Sequence[Sequence[str]],
    audit_args: CommandOptions,
    read_args: CommandOptions,
    targets: Mapping[str, Path],
    engine: str,
) -> list[AuditReport]:
    """Return a report for each run.

    runs: for each run, the paths of its files.
    audit_args: arguments of `audit`, by name.
    read_args: arguments of `read_run`, by name.
    targets: the files that will be written, by option.
    engine: local or ray.

    Raises InputError, also where a target is a file of a log, or every weight is 0.
    """
    mapped: Any = map
    if engine == "ray":
        from gdpo_audit.command.engine_ray import ray_engine  # only --engine ray needs it

        mapped = ray_engine()
    reports = []
    for paths in runs:
        path = paths if len(paths) > 1 else paths[0]
        with (
            name_in_errors(paths, len(runs) > 1),
            Console(stderr=True).status(Text(f"reading {one_line(paths[0])} …")),
        ):
            run = read_run(path, **read_args)
            expect_spared(targets, run.files, "the log")
            weights = audit_args["weights"] or {}
            all_zero = weights.keys() >= set(run.rewards) and not any(weights.values())
            expect(not all_zero, "weight", "one that is not 0", "0 for every reward")
            reports.append(audit(run, engine=mapped, **audit_args))
    return reports


def _json(reports: Sequence[AuditReport], groups: int) -> str:
    """Return the JSON of one report, or of several together.

    groups: the most groups of each finding in it.
    """
    dicts = [report.to_dict(groups) for report in reports]
    return as_json(dicts[0] if len(dicts) == 1 else {"schema": 1, "runs": dicts})


# --- gdpo compare ----------------------------------------------------------------------------------------------------


def run_compare(options: CommandOptions) -> None:
    """Print and write what changed from one run to another, or from several runs to the runs of --with. Raises
    InputError.
    """
    runs, compared_with, targets = options["runs"], options["with_"], targets_of(options)
    wanted = "two runs, A B, or several of each kind, A1 A2 --with B1 --with B2"
    expect(len(runs) == 2 or bool(compared_with), "compare", wanted, count(len(runs), "run"))
    first, second = (runs, compared_with) if compared_with else (runs[:1], runs[1:])
    sizes = f"{len(first)} and {len(second)}"
    expect(not compared_with or min(len(first), len(second)) > 1, "--with", "at least two runs on each side", sizes)
    each = [[path] for path in (*first, *second)]
    reports = _audit_runs(each, _audit_args(options), _read_args(options), targets, "local")
    difference = changes(reports[: len(first)], reports[len(first) :])
    text = as_json(difference.to_dict())
    write_files(targets, {"json": text, "html": comparison_document(difference)})
    if options["json_"] == Path("-"):
        sys.stdout.write(text)
    else:
        terminal.show_changes(difference, sys.stdout)
