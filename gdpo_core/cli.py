"""The command line: `gdpo explain` here, `gdpo audit` in a file of its own."""

import io
import os
import re
import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from typing import Annotated, TextIO

import typer
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table
from torch import Tensor

from gdpo_core._parse import parse_number
from gdpo_core._words import count, listing, printable
from gdpo_core.advantages import METHODS
from gdpo_core.audit_cli import audit_command
from gdpo_core.collapse import collapse
from gdpo_core.conventions import CONVENTIONS, Convention
from gdpo_core.errors import InputError, expect
from gdpo_core.explain import Explanation, explain
from gdpo_core.rules import NAMES, exceptions, float32_error, formulas, only_eps_is_left

_WIDE = 240  # columns of a table in a file or a pipe

app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)


@app.callback()
def gdpo() -> None:
    """What GRPO and GDPO make of several rewards."""


@app.command("explain", context_settings={"ignore_unknown_options": True})
def explain_command(
    responses: Annotated[
        list[str], typer.Argument(metavar="REWARDS...", help="one response each; / starts the next prompt")
    ],
    method: Annotated[str, typer.Option(help="grpo, grpo_no_std or gdpo")] = "gdpo",
    convention: Annotated[str, typer.Option(help=", ".join(CONVENTIONS))] = "paper",
    weights: Annotated[str | None, typer.Option(help="one number per reward: 1,0.5,2")] = None,
    lengths: Annotated[str | None, typer.Option(help="tokens, one number per response: 12,40,7")] = None,
) -> None:
    """Print one computation, every number of it, from rewards to advantages.

    A response is its rewards: 101 for three rewards of 0 or 1, else numbers with commas, 1,0.5,-2; nan is missing.

    \b
    gdpo explain 111 110 011 101 --convention trl --weights 1,0.5,2
    gdpo explain 01 00 / 11 00 --method grpo
    """
    rewards, prompts = _rewards(responses)
    name = method.replace("-", "_").lower()
    expect(name in METHODS, "method", f"one of {', '.join(METHODS)}", repr(name))
    found = explain(
        rewards,
        name,
        weights=None if weights is None else _counted(weights, "weights", len(rewards[0]), "reward"),
        lengths=None if lengths is None else _counted(lengths, "lengths", len(rewards), "response"),
        groups=prompts,
        convention=_convention(convention),
    )
    _print(found, prompts, _ties(found, prompts))


app.command("audit")(audit_command)


class _Held(io.StringIO):
    """Keeps standard output until a command is done, so that a command that fails prints none of it."""

    def __init__(self, stream: TextIO | None) -> None:
        super().__init__()
        self.stream = stream

    @property
    def encoding(self) -> str:  # type: ignore[override]  # the base class has a plain attribute
        return "utf-8" if self.stream is None else self.stream.encoding

    def isatty(self) -> bool:
        return self.stream is not None and self.stream.isatty()


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; input that cannot be used is one line on stderr and exit 2."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal may not know √ or −
    held = _Held(sys.stdout)
    try:
        with redirect_stdout(held):
            code = app(arguments, prog_name="gdpo", standalone_mode=False)
    except (InputError, typer.TyperException) as error:
        text = error.format_message() if isinstance(error, typer.TyperException) else str(error)
        print("gdpo:", printable(text).replace("\n", " "), file=sys.stderr)
        sys.exit(2)
    if not code:
        _print_out(held.getvalue())
    sys.exit(code or 0)


def _print_out(text: str) -> None:
    try:
        if sys.stdout is None:
            raise OSError(9, "it is closed")
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        # Whoever reads has seen enough; at exit Python would flush again, and complain.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError as error:
        if sys.stdout is not None:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        print(f"gdpo: standard output: expected one that can be written, got {error.strerror}", file=sys.stderr)
        sys.exit(2)


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
    found = [number for number in map(parse_number, text.split(",")) if number is not None]
    if len(found) <= text.count(","):
        expected = "numbers with commas between them" + (", or 0s and 1s" if name.startswith("response") else "")
        raise InputError(f"{name}: expected {expected}, got {text!r}")
    return found


def _counted(text: str, name: str, size: int, thing: str) -> list[float]:
    numbers = _numbers(text, name)
    expect(len(numbers) == size, name, f"{count(size, 'number')}, one per {thing}", f"{len(numbers)}, {text!r}")
    return numbers


def _convention(name: str) -> Convention:
    key = re.sub("[-. ]", "_", name.lower())
    expect(key in CONVENTIONS, "convention", f"one of {', '.join(CONVENTIONS)}", repr(name))
    return CONVENTIONS[key]


def _ties(e: Explanation, prompts: Sequence[int]) -> list[list[int]]:
    """The responses of a prompt that share an advantage though their rewards differ; NaN advantages do not count."""
    c = collapse(e.rewards, e.method, weights=e.weights, groups=prompts, lengths=e.lengths, convention=e.convention)
    shared: dict[tuple[int, int], list[int]] = {}
    for response, level in zip(c.response.tolist(), c.level.tolist(), strict=True):
        shared.setdefault((prompts[response], level), []).append(response)
    return [tied for tied in shared.values() if len({str(e.rewards[i].tolist()) for i in tied}) > 1]


def _print(e: Explanation, prompts: Sequence[int], ties: Sequence[Sequence[int]]) -> None:
    terminal = sys.stdout.isatty()
    console = Console(width=None if terminal else _WIDE, highlight=False, markup=False, soft_wrap=not terminal)
    console.print(f"{NAMES[e.method]}, convention {e.convention.name} ({e.convention.source})")
    for number, formula in enumerate(formulas(e.method, e.convention, len(e.weights)), start=1):
        console.print(f"  {number}. {formula}")
    console.print(f"  w = {', '.join(f'{w:g}' for w in e.weights.tolist())}")
    ids = list(dict.fromkeys(prompts))
    for group, prompt in enumerate(ids):
        rows = [i for i, number in enumerate(prompts) if number == prompt]
        columns, feet = _columns(e, rows, group)
        if len(ids) > 1:
            console.print(f"\nprompt {prompt}")
        for table in _tables([str(i + 1) for i in rows], columns, feet, console.width):
            console.print(table)
    if isinstance(e.batch_mean, float) and isinstance(e.batch_std, float):
        over = "tokens" if e.convention.last_step == "tokens" else "responses"
        [mean], [std] = _six([e.batch_mean]), _six([e.batch_std])
        console.print(f"over the {over} of the batch: mean s = {mean}, std s = {std}")
    for tie in ties:
        tied = listing((i + 1 for i in tie), most=len(tie))
        console.print(f"Responses {tied} differ in their rewards and have the same advantage.")
    name = e.convention.name
    if (error := float32_error(e)) > 1e-3:
        console.print(f"{name} computes in float32, where round-off may change z or A by about {error:.1g}.")
    if only_eps_is_left(e):
        console.print(f"The normalised rewards cancel but for eps: {name} in float32 may return something else.")
    for line in exceptions(e.convention):
        console.print(f"· {line}")


def _columns(e: Explanation, rows: Sequence[int], group: int) -> tuple[dict[str, list[str]], dict[str, str]]:
    """The responses of one prompt, one column per step, and the mean and std that normalised a column."""
    rewards = [f"r{k + 1}" for k in range(len(e.weights))]
    columns = {name: [f"{x:.10g}" for x in e.rewards[rows, k].tolist()] for k, name in enumerate(rewards)}
    feet = {}
    if e.lengths is not None:
        columns["tokens"] = [f"{x:.10g}" for x in e.lengths[rows].tolist()]
    for k, name in enumerate(rewards if e.z is not None else ["s"]):
        mean, std = (x[..., k] if e.z is not None else x for x in (e.group_means, e.group_stds))
        if e.convention.leave_one_out:
            columns[f"mean {name}"], columns[f"std {name}"] = _six(mean[rows].tolist()), _six(std[rows].tolist())
        else:
            feet[name] = _foot(mean[group], std[group])
    if e.z is not None:
        columns |= {f"z{k + 1}": _six(e.z[rows, k].tolist()) for k in range(len(rewards))}
    columns["s"] = _six(e.weighted_sums[rows].tolist())
    if isinstance(e.batch_mean, Tensor) and isinstance(e.batch_std, Tensor):
        feet["s"] = _foot(e.batch_mean[group], e.batch_std[group])
    columns["A"] = _six(e.advantages[rows].tolist())
    return columns, feet


def _foot(mean: Tensor, std: Tensor) -> str:
    return f"{mean.item():.10g}\n{std.item():.6g}"


def _tables(rows: Sequence[str], columns: dict[str, list[str]], feet: dict[str, str], width: int) -> list[Table]:
    """The columns as one table, or as several below each other if the terminal is too narrow."""
    tables: list[list[tuple[str, str, Sequence[str]]]] = []
    room = 0
    for name, values in columns.items():
        wide = max(map(len, [name, *values, *feet.get(name, "").split("\n")])) + 2
        if not tables or room < wide:
            foot = "mean\nstd" if feet.keys() & columns.keys() else ""
            tables.append([("", foot, rows)])
            room = width - max(map(len, [*rows, *foot.split("\n")])) - 2
        tables[-1].append((name, feet.get(name, ""), values))
        room -= wide
    return [_table(columns) for columns in tables]


def _table(columns: Sequence[tuple[str, str, Sequence[str]]]) -> Table:
    """Columns of a header, a footer of one or two lines, and the cells."""
    table = Table(
        title_justify="left", show_footer=any(foot for _, foot, _ in columns[1:]), box=SIMPLE, padding=(0, 1, 0, 0)
    )
    for number, (name, foot, _) in enumerate(columns):
        table.add_column(name, foot, justify="right" if number else "left", no_wrap=True)
    for cells in zip(*(values for _, _, values in columns), strict=True):
        table.add_row(*cells)
    return table


def _six(values: Sequence[float]) -> list[str]:
    """Six decimals, or six digits where decimals would show too little; without a minus before zero.

    >>> _six([-1e-16]), _six([0.70710678]), _six([2e-7])
    (['0.000000'], ['0.707107'], ['2e-07'])
    """
    tiny = 1e-12 < max((abs(v) for v in values if v == v), default=0) < 1e-3
    return [f"{v:.6g}" if tiny else f"{round(v, 6) + 0.0:.6f}" for v in values]
