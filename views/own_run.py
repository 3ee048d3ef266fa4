"""Section 8: the log of the reader's own run, or of a sample: read, audited, shown and handed out."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path

from gdpo_core._parse import parse_weights
from gdpo_core._words import count
from gdpo_core.audit import AuditReport, audit
from gdpo_core.errors import expect
from gdpo_core.logs import Run, read_run
from views import prompts
from views.html import Html, framed, join, prose, tag
from views.once import Once

LARGEST = 64 * 10**6  # bytes of all files together, as they are uploaded
LARGE = 2 * 10**6  # bytes, from which on a reader is told to wait
UPLOAD = f"Drop the files of your run here, all of them or a zip of their directory ({LARGEST / 1e6:.0f} MB at most)"
LARGEST_CSV = 100_000  # responses; a larger table is handed out as Parquet
DATA = Path(__file__).resolve().parent.parent / "data"
FRAMEWORKS = {
    "found out from the files": None,
    "TRL or axolotl": "trl",
    "verl": "verl",
    "ms-swift": "ms_swift",
    "NeMo-RL": "nemo_rl",
    "any other table": "generic",
}

_logs, _audits = Once(maxsize=8), Once(maxsize=16)  # of the samples alone: what a reader uploads is not kept


@dataclass(frozen=True)
class Sample:
    """A log that comes with the page: its files in data/samples, what it is, and the reward that should decide."""

    title: str
    path: str
    told: str  # as `prose` has it
    primary: str | None = None


REAL = "Written by a real trainer ({}) with a tiny random model: short, and what the model said is gibberish."
SAMPLES = (
    Sample(
        "made from published answers",
        "published_answers.zip",
        "Made for this page, **no training run**: verdicts on published answers of {configurations} configurations "
        "of {models} models (the real prompts above), laid out like a log of TRL. Every reward has "
        "weight 1, but conciseness pays 0 or 5 and the others 0 or 1, a common mistake; the advantages are those of "
        "TRL's GRPO. The steps follow the benchmark from one call to "
        "several, so what changes over the steps is the prompts, not a policy.",
        primary="correctness",
    ),
    Sample(
        "TRL with GDPO",
        "trl_gdpo",
        REAL.format("TRL 1.16"),
    ),
    Sample(
        "TRL, two reward functions of one name",
        "trl_same_name",
        REAL.format("TRL 1.16") + " Two of its reward functions have the same name, and the log shows it.",
    ),
    Sample("ms-swift", "ms_swift", "Written by ms-swift 4.6 itself, for responses that are invented."),
    Sample("verl, v1 trainer", "verl_v1", "Written by verl 0.9 itself, for responses that are invented."),
)


@dataclass(frozen=True)
class Reading:
    """How the reader says that the files are to be read; None: found out from the files."""

    framework: str | None = None
    group_size: int | None = None
    rewards: tuple[str, ...] | None = None
    group: str | None = None


@dataclass(frozen=True)
class Log:
    """A log that was read; key: what it is in the caches, None for an upload."""

    run: Run
    told: str  # whose it is
    primary: str | None  # where that is known
    key: tuple[Sample, Reading] | None


@dataclass(frozen=True)
class Audit:
    """A report and its HTML."""

    report: AuditReport
    html: Html


def introduction() -> str:
    """Markdown: what goes in, what comes out, and what happens to the files."""
    return (
        "## Check your own run\n\n"
        "Give it what your trainer wrote. TRL and axolotl: the Parquet files in `OUTPUT_DIR/completions`, which are "
        "written with `log_completions=True` and, for every step, `logging_steps=1`. verl, ms-swift, NeMo-RL: their "
        "JSONL dump. Anything else: a table (CSV, JSON, JSONL, Parquet) with one column per reward.\n\n"
        "The report says which method made the advantages (GRPO adds the rewards, then normalises the sum; GDPO "
        "normalises each reward first), with which weights, which reward drives the update, what the other method "
        "would have done, and which line of your configuration changes it. `gdpo audit PATH` does the same in a "
        "terminal. Files are read in this server's memory and forgotten when you clear them or a few minutes after you "
        "leave; nothing is stored or sent on."
    )


def samples() -> dict[str, Sample]:
    """The choice of a sample, by its title."""
    return {sample.title: sample for sample in SAMPLES}


def reading(framework: str | None, group_size: str, rewards: str, group: str) -> Reading:
    """What the controls for a correction by hand say; InputError.

    >>> reading(None, "8", "correctness, style", "")
    Reading(framework=None, group_size=8, rewards=('correctness', 'style'), group=None)
    """
    size = group_size.strip()
    whole = size == "" or (size.isascii() and size.isdigit() and int(size[:9]) >= 1)
    expect(whole, "responses a group", "a whole number from 1", repr(size))
    names = tuple(name.strip() for name in rewards.split(",") if name.strip())
    return Reading(framework, int(size[:9]) if size else None, names or None, group.strip() or None)


def read(sample: Sample, uploads: Sequence, how: Reading) -> Log:
    """The log in the uploaded files, each with `name` and `contents`, or in the sample where there are none.

    Raises InputError, also for uploads that are too large together or two of one name.
    """
    if not uploads:
        return _logs.get((sample, how), lambda: _of_sample(sample, how))
    total = sum(len(file.contents) for file in uploads)
    expect(total <= LARGEST, "upload", f"at most {LARGEST / 1e6:.0f} MB in all", f"{total / 1e6:.1f} MB")
    files: dict[str, bytes] = {}
    for file in uploads:
        different = "files of different names, or a zip of their directory"
        expect(file.name not in files, "upload", different, f"two called {file.name}")
        files[file.name] = file.contents
    first, *more = files
    told = f"Your {'files' if more else 'file'}: {first}" + (f" and {count(len(more))} more." if more else ".")
    return Log(_run(files, how), told, None, None)


def _of_sample(sample: Sample, how: Reading) -> Log:
    path = DATA / "samples" / sample.path
    files = {file.name: file.read_bytes() for file in (sorted(path.iterdir()) if path.is_dir() else [path])}
    published = prompts.published(DATA / "bfcl_rewards.parquet")
    told = sample.told.format(configurations=len(published.models), models=prompts.models(published))
    run = _run(files, how)
    return Log(run, told, sample.primary if sample.primary in run.rewards else None, (sample, how))


def _run(files: Mapping[str, bytes], how: Reading) -> Run:
    return read_run(files, **{field.name: getattr(how, field.name) for field in fields(how)})


def weighted(text: str) -> dict[str, float] | None:
    """Weights by the names of rewards; None for no text. InputError.

    >>> weighted("style=0.5, correctness=2")
    {'style': 0.5, 'correctness': 2.0}
    """
    parts = [re.sub(r"\s*=\s*", "=", part.strip()) for part in text.split(",")] if text.strip() else []
    return parse_weights(parts, "weights", "NAME=NUMBER, with commas between several") or None


def example(log: Log) -> str:
    """How weights are written, with a reward of the log."""
    return f"{log.run.rewards[0]}=2"


def audited(log: Log, primary: str | None, weights: str) -> Audit:
    """The report on a log, with weights as `weighted` reads them; of a sample once for all visitors. InputError."""
    given = weighted(weights)

    def compute() -> Audit:
        from gdpo_core import report as drawn  # here, because nothing before section 8 needs it

        found = audit(log.run, weights=given, primary=primary)
        return Audit(found, join(drawn.STYLE, drawn.body(found)))

    if log.key is None:
        return compute()
    return _audits.get((*log.key, primary, given and tuple(given.items())), compute)


def downloads(log: Log, found: Audit) -> list[tuple[str, str, Callable[[], bytes]]]:
    """Label, file name and content of each file that can be taken away; the content is made when it is asked for."""
    from gdpo_core import report as drawn

    # A file of a sample says what the page says about it; an upload is its reader's own.
    note = log.told.replace("**", "") if log.key else ""

    def as_json() -> bytes:
        content = found.report.to_dict() | ({"note": note} if note else {})
        return json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False).encode()

    if found.report.source["responses"] <= LARGEST_CSV:
        table = "Table (CSV)", "responses.csv", lambda: log.run.table.write_csv().encode()
    else:
        table = "Table (Parquet)", "responses.parquet", lambda: _parquet(log.run.table)
    return [
        ("Report (HTML)", "audit.html", lambda: drawn.html(found.report, note).encode()),
        ("Report (JSON)", "audit.json", as_json),
        table,
    ]


def _parquet(table) -> bytes:
    import io

    content = io.BytesIO()
    table.write_parquet(content)
    return content.getvalue()


def large(uploads: Sequence) -> bool:
    """Whether files may take longer than a moment to read."""
    return sum(len(file.contents) for file in uploads) > LARGE


def waiting(doing: str) -> Html:
    """HTML in place of what is being computed."""
    return tag("p", f"{doing} your files …", kind="whose", role="status")


def whose(log: Log) -> Html:
    """HTML: whose log this is; the names of uploaded files are text, whatever they hold."""
    return tag("p", prose(log.told) if log.key else log.told, kind="whose")


def area(files: object) -> Html:
    """HTML around the area for files, which has no name of its own for a screen reader."""
    return framed("upload", files, role="group", aria_label=UPLOAD)
