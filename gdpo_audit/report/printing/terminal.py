"""Reports, comparisons of runs, scores of samples and single computations, printed in a terminal."""

from collections.abc import Iterator, Sequence
from typing import TextIO

from rich.console import Console
from torch import Tensor

from gdpo_audit.console import console_of, show_paragraph
from gdpo_audit.report.audit_report import AuditReport
from gdpo_audit.report.comparison import Changes, changes_headline
from gdpo_audit.report.printing.printed import print_report, show_reading  # noqa: F401
from gdpo_audit.report.printing.printed_tables import show_section, show_table
from gdpo_audit.report.sample_score import SampleScore
from gdpo_audit.report.sections import changes_sections
from gdpo_audit.report.tables import TextTable
from gdpo_core.conventions import NAMES, exceptions, formulas
from gdpo_core.pushing import PUSH_EXPLAINED as PUSH
from gdpo_core.shared.words import count, listing, number, percent, printable, raw, raw_column, signed
from gdpo_core.steps import Explanation


def print_reports(reports: Sequence[AuditReport], file: TextIO, groups: int = 0, explain: bool = False) -> None:
    """Print some reports.

    file: where they are printed.
    groups: the most groups that are printed for each finding, those that show it best; by default none.
    explain: whether to print each report as a whole, with what its columns and findings mean, and not only its screen.
    """
    console = console_of(file)
    for report in reports:
        if len(reports) > 1:
            path = printable(report.source["path"])
            console.print(f"\n{path}\n{'─' * min(len(path), console.width)}", style="bold")
        print_report(console, report, groups, explain)


def show_changes(c: Changes, file: TextIO) -> None:
    """Print what changed between runs.

    file: where it is printed.
    """
    console = console_of(file)
    show_paragraph(console, changes_headline(c), "bold")
    for section in changes_sections(c):
        show_section(console, section)


# --- a configuration with a sample -----------------------------------------------------------------------------------


def show_sample(console: Console, sample: SampleScore) -> None:
    """Print a table of what the rewards of a sample would do under a configuration, and the notes on it."""
    rows = [
        [name, number(weight), percent(sample.update_share[name]), signed(sample.push[name])]
        for name, weight in sample.weights.items()
    ]
    console.print()
    title = (
        f"What the update would do with {count(sample.answers, 'response')} of {sample.path} under this configuration"
    )
    show_table(console, TextTable(title, ["reward", "weight", "share of the update", "push"], rows, note=PUSH))
    for note in sample.notes:
        show_paragraph(console, note)


# --- one computation -------------------------------------------------------------------------------------------------


def show_explanation(e: Explanation, prompts: Sequence[int], ties: Sequence[Sequence[int]], file: TextIO) -> None:
    """Print every number of a computation.

    e: the computation.
    prompts: the number of the prompt of each response.
    ties: a list for each tie with the indices, from 0, of the responses that share an advantage though their rewards
        differ.
    file: where it is printed.
    """
    console = console_of(file)
    show_paragraph(console, f"{NAMES[e.method]}, convention {e.convention.name} ({e.convention.source})")
    for k, formula in enumerate(formulas(e.method, e.convention, len(e.weights)), start=1):
        show_paragraph(console, f"  {k}. {formula}")
    show_paragraph(console, f"  w = {listing((raw(w, 6) for w in e.weights.tolist()), link='')}")
    ids = list(dict.fromkeys(prompts))
    for group, prompt in enumerate(ids):
        if len(ids) > 1:
            console.print(f"\nprompt {prompt}")
        show_table(console, _steps(e, [i for i, prompt_of_row in enumerate(prompts) if prompt_of_row == prompt], group))
    for line in _notes(e, ties):
        show_paragraph(console, line)


def _notes(e: Explanation, ties: Sequence[Sequence[int]]) -> Iterator[str]:
    """Yield the lines below the tables of a computation: the mean and std of its batch step, its ties, and what its
    formulas leave out.

    e: the computation.
    ties: for each tie, the indices of its responses.
    """
    if isinstance(e.batch_mean, float) and isinstance(e.batch_std, float):
        over = "tokens" if e.convention.last_step == "tokens" else "responses"
        [mean], [std] = raw_column([e.batch_mean]), raw_column([e.batch_std])
        yield f"over the {over} of the batch: mean s = {mean}, std s = {std}"
    for tied in ties:
        yield f"Responses {listing(i + 1 for i in tied)} differ in their rewards and have the same advantage."
    yield from (f"· {line}" for line in exceptions(e.convention))


def _steps(e: Explanation, rows: Sequence[int], group: int) -> TextTable:
    """Return a table of the responses to one prompt, with a column for each step of the computation.

    A column that is normalised has its mean and std in two rows at the end of the table. With leave-one-out, each
    response has a mean and std of its own in the group. These then stand in more columns.

    e: the computation.
    rows: the indices of the responses.
    group: the index of the prompt.
    """
    rewards = [f"r{k + 1}" for k in range(len(e.weights))]
    columns = {name: [raw(x) for x in e.rewards[rows, k].tolist()] for k, name in enumerate(rewards)}
    feet = {}
    if e.lengths is not None:
        columns["tokens"] = [raw(x) for x in e.lengths[rows].tolist()]
    for k, name in enumerate(rewards if e.z is not None else ["s"]):
        mean, std = (x[..., k] if e.z is not None else x for x in (e.group_means, e.group_stds))
        if e.convention.leave_one_out:
            columns[f"mean {name}"] = raw_column(mean[rows].tolist())
            columns[f"std {name}"] = raw_column(std[rows].tolist())
        else:
            feet[name] = [raw(mean[group].item()), raw(std[group].item(), 6)]
    if e.z is not None:
        columns |= {f"z{k + 1}": raw_column(e.z[rows, k].tolist()) for k in range(len(rewards))}
    columns["s"] = raw_column(e.weighted_sums[rows].tolist())
    if isinstance(e.batch_mean, Tensor) and isinstance(e.batch_std, Tensor):
        feet["s"] = [raw(e.batch_mean[group].item()), raw(e.batch_std[group].item(), 6)]
    columns["A"] = raw_column(e.advantages[rows].tolist())
    names = [*(str(i + 1) for i in rows), *(["mean", "std"] if feet else [])]
    cells = [[*values, *(feet.get(name, ["", ""]) if feet else [])] for name, values in columns.items()]
    return TextTable("", ["", *columns], list(zip(names, *cells, strict=True)))
