"""The controls of the chapter Your run: which files or which sample, how the log is read, and which reward matters
most. The values of these controls in the address are here too.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import marimo as mo

from gdpo_audit.report.audit_report import AuditReport
from gdpo_core import frameworks
from gdpo_core.shared.markup import fold
from views.chapters.run.log import Log, audit_program
from views.chapters.run.samples import SAMPLES, Sample
from views.server import sessions
from views.widgets.html import Html, div, paragraphs, show, tag
from views.widgets.nav import Nav

MATTERS = "Which reward matters most?"
UNDECIDED = "not decided"  # the button with which no reward matters most
NO_PRIMARY = "none"  # what the address holds where no reward matters most
HOW = "Which files, and how they are read"
_FRAMEWORKS = {"found out from the files": None} | {
    f.log_title or f.title: f.id for f in frameworks.FRAMEWORKS.values() if f.id in frameworks.READABLE
}
TEXT_CONTROLS = {  # the text controls by what they correct: their label and an example
    "group_size": ("Responses per prompt", "8"),
    "rewards": ("Reward columns", "correctness, style"),
    "group": ("Group column", "prompt_id"),
    "parts": (
        "If the log holds only the total reward: what each reward pays when it is passed",
        "correct=1, format=0.5",
    ),
    "weights": ("Weights, if they differ from those in the log", "correctness=2"),
}
_BY_ID = {sample.id: sample for sample in SAMPLES}

OPENING = """# Your log shows which reward shapes the advantages.

Upload a log with **one column for each reward and, if possible, one for the advantages**. The report says what \
another method would do, and which line of your configuration to change."""

_FILES = (
    "With log_completions=True, TRL and axolotl write Parquet files into OUTPUT_DIR/completions; with logging_steps=1 "
    "they do so at every step. verl, ms-swift and NeMo-RL write a JSONL dump. For any other trainer, give a table "
    "(CSV, JSON, JSONL or Parquet) with one column for each reward. In a terminal, gdpo audit PATH prints the report "
    "in a shorter form, and with --html FILE it saves a fuller one. A log without advantages, such as verl's, cannot "
    "show which method ran. If a log holds only the total of the rewards, as those of verl's v1 trainer and of "
    "NeMo-RL do, most of the report stays empty, unless you state below what each reward pays when it is passed.",
    "Files are read into this server's memory, and deleted when you clear them or a few minutes after you leave. "
    "Nothing is stored or sent on.",
)


def sample(page: Nav, files: Sequence[Any]) -> mo.ui.dropdown:
    """Return the dropdown of the log to show: the reader's files, if there are any, and all samples.

    Its value is a Sample, or None for the reader's files. If there are files, they are chosen at first. If not, it is
    the sample that the address names; if the address names none, the first sample.

    page: holds the values of the address.
    files: the files that the reader uploaded.
    """
    linked = _BY_ID[page.restore("run-sample", list(_BY_ID), SAMPLES[0].id)].title
    yours = {"your files" if len(files) > 1 else "your file": None} if files else {}
    options = yours | {sample_log.title: sample_log for sample_log in SAMPLES}
    return mo.ui.dropdown(options, value=next(iter(yours), linked), label="Log to show")


def upload() -> mo.ui.file:
    """Return the control that takes the reader's files. A single file may be as large as all files together may be."""
    most = f"{sessions.LARGEST_UPLOAD / 1e6:.0f}\u00a0MB"
    label = f"**Drop the files of your run here**, or a zip of their folder, of at most {most}."
    return mo.ui.file(multiple=True, kind="area", max_size=sessions.LARGEST_UPLOAD, label=label)


def area(files: mo.ui.file, log: Log | None) -> mo.Html:
    """Return the control for files, with the name of the log that is shown, and a line that is empty at first. nav.js
    writes into that line if files are too large.

    log: the log that is shown, None if none could be read.
    """
    says = f"{sessions.TOO_LARGE}. The page stays as it was."
    refused = tag("p", "", kind="refused", role="alert", data_most=sessions.LARGEST_UPLOAD, data_says=says)
    named = tag("p", log.named if log else "", kind="named")  # names of files are text, whatever they hold
    return show(div("upload", files, named, refused, role="group", aria_label="The files of your run"))


def corrections(page: Nav, sample: Sample | None) -> mo.ui.dictionary:
    """Return the controls with which the reader corrects how a log is read and what its rewards weigh.

    They are the dropdown "framework" and a text for each key of TEXT_CONTROLS, such as "group_size". If the address is
    of this sample, they have the values that the address names. Otherwise they are empty.

    page: holds the values of the address.
    sample: the sample that is shown, None for the reader's own files.
    """
    here = is_linked(page, sample)
    by_id = {key or "": title for title, key in _FRAMEWORKS.items()}
    framework = by_id[page.restore("run-framework") if here else ""]
    texts = {
        key: mo.ui.text(page.restore(f"run-{key}") if here else "", placeholder=like, label=label)
        for key, (label, like) in TEXT_CONTROLS.items()
    }
    return mo.ui.dictionary({"framework": mo.ui.dropdown(_FRAMEWORKS, value=framework, label="Written by")} | texts)


def corrections_fold(corrections: mo.ui.dictionary) -> mo.Html:
    """Return a fold with the controls `corrections`, which correct how a log is read. Above them, paragraphs say which
    files are wanted and what happens to them.
    """
    inside: Html = div(
        "", paragraphs(*_FILES), div("controls", *(div("", correction) for correction in corrections.elements.values()))
    )
    return show(div("reading", fold(HOW, inside, kind="fold", name="run-files")))


def primary(page: Nav, log: Log | None) -> mo.ui.radio:
    """Return the buttons for the reward that matters most, one per reward. With the last one, none is chosen.

    If the log is a sample and the address is of this sample, the reward that the address names is chosen at first.
    Otherwise it is the sample's own primary reward, if it has one. For the reader's own files none is chosen.

    page: holds the values of the address.
    log: the log that is shown, None if none could be read.
    """
    rewards = list(log.run.rewards) if log else []
    chosen = _known(log)
    if log and log.sample and is_linked(page, log.sample):
        chosen = page.restore("run-primary", [NO_PRIMARY, *rewards], chosen)
    options = {UNDECIDED: None} | {reward: reward for reward in rewards}
    options |= {UNDECIDED: options.pop(UNDECIDED)}  # behind the rewards
    value = UNDECIDED if chosen == NO_PRIMARY else chosen
    return mo.ui.radio(options, value, inline=True, label=tag("span", MATTERS, kind="segments matters"))


def address(
    sample: Sample | None, corrected: Mapping[str, str | None], log: Log | None, primary: str | None
) -> tuple[dict[str, str | None], dict[str, str]]:
    """Return two mappings by control: the values of the chapter's controls, and their defaults. The address leaves out
    a control that has its default.

    The default of the control for the sample is the first sample. The default of the control for the primary reward is
    the reward that is known to matter most in the log. The address tells nothing of the reader's own files, so the
    values of all controls are None for them.

    sample: the chosen sample, None for the reader's own files.
    corrected: the values of the controls of `corrections`, by name.
    log: the log that is shown, None if none could be read.
    primary: the reward that the reader chose as the one that matters most.
    """
    values = {f"run-{key}": text or "" for key, text in corrected.items()}
    values |= {"run-primary": primary or NO_PRIMARY} if log else {}
    if sample is None:
        values = dict.fromkeys(values)
    return {"run-sample": sample and sample.id, **values}, {"run-sample": SAMPLES[0].id, "run-primary": _known(log)}


def link(
    sample: Sample | None,
    corrected: Mapping[str, str | None],
    primary: str | None,
    log: Log | None,
    report: AuditReport | None,
) -> tuple[dict[str, str | None], dict[str, str], str]:
    """Return a tuple of what `Nav.write` needs: the values of the controls, the defaults that the address leaves out,
    and a program.

    The first two are mappings by control, which `address` makes. The program is Python and prints the numbers of the
    report; it is "" without a log or a report.

    sample: the chosen sample, None for the reader's own files.
    corrected: the values of the controls of `corrections`, by name.
    primary: the reward that the reader chose as the one that matters most.
    log, report: the log that is shown and the report on it, None if there is none.
    """
    prints = audit_program(log, report, corrected["weights"] or "") if log and report else ""
    return *address(sample, corrected, log, primary), prints


def _known(log: Log | None) -> str:
    """Return the name of the reward that is known to matter most in a log; NO_PRIMARY if none is known, or if there is
    no log.
    """
    return (log.primary if log else None) or NO_PRIMARY


def is_linked(page: Nav, sample: Sample | None) -> bool:
    """Return whether the address is of this sample. An address that names no known sample is of the first sample."""
    named = page.restore("run-sample", default=SAMPLES[0].id)
    return sample is _BY_ID.get(named, SAMPLES[0])
