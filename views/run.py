"""Your run: the log of the reader's own run, or of a sample: read, audited, shown and handed out."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import marimo as mo

from gdpo_core import frameworks, report
from gdpo_core._errors import InputError, expect
from gdpo_core._parse import parse_count, parse_weights
from gdpo_core._words import count
from gdpo_core.runs.audit import audit
from gdpo_core.runs.audit_report import AuditReport
from gdpo_core.runs.facts import Finding
from gdpo_core.runs.read_more import READ_MORE
from gdpo_core.runs.run import Run, read_run
from views import limits, prompts, save, terms, worker
from views.html import Html, controls, fold, framed, join, lazily, paragraphs, prose, reason, show, tag
from views.link import CHAPTERS, Session
from views.should import titles

LARGE = 2 * 10**6  # bytes, from which on a reader is told to wait
UPLOAD = f"Drop the files of your run here, or a zip of their directory ({limits.LARGEST / 1e6:.0f} MB at most)"
FILES = "Which files, and how they are read"
NO_PRIMARY = "none"  # in a link
LARGEST_CSV = 100_000  # responses; a larger table is handed out as Parquet
DATA = Path(__file__).resolve().parent.parent / "data"
FRAMEWORKS = {"found out from the files": None} | {
    f.log_title or f.title: f.id for f in frameworks.FRAMEWORKS.values() if f.id in frameworks.READABLE
}

_AT = {title: key for key, title in CHAPTERS.items()}

_SCENARIOS = {  # of Train, that show what a finding says, by its id
    "reward-dominates": "scales",
    "reward-dead": "live",
    "reward-noise": "noise",
    "conflict": "conflict",
}


@dataclass(frozen=True)
class Sample:
    """A log that comes with the page: its files in data/samples, what it is, and the reward that should decide."""

    title: str
    path: str  # in data/samples
    told: str  # as `prose` has it
    primary: str | None = None

    @property
    def id(self) -> str:
        """What a link calls it."""
        return self.path.removesuffix(".zip")


REAL = "Written by a real trainer ({}) with a tiny random model: short, and what the model said is gibberish."
SAMPLES = (
    Sample(
        "made from published answers",
        "published_answers.zip",
        "Made for this page, **no training run**: verdicts on published answers of {configurations} configurations "
        "of {models} models, laid out like a log of TRL's GRPO. Every weight is 1, but style pays 0 or 5 and the "
        "others 0 or 1, a common mistake. Steps follow the benchmark from one call to several: what changes over them "
        "is the prompts, not a policy.",
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
    how: Reading
    files: Mapping[str, bytes] | None = None  # of an upload, whose tables are read again where they are needed
    report: AuditReport | InputError | None = None  # of an upload, with nothing corrected


@dataclass(frozen=True)
class Audit:
    """A report, and the weights that the reader gave."""

    report: AuditReport
    given: dict[str, float] | None


def opening() -> str:
    """Markdown: the claim, what a log must hold and what it cannot tell."""
    return (
        "# Your log shows which reward shapes the advantages\n\n"
        "From **one column per reward and the advantages** the report tells the method, its weights, which reward "
        "drives the update, what the other method would do, and the line that changes it. Without "
        "advantages (verl) the method stays open, with a total alone (verl's v1 trainer, NeMo-RL) most does."
    )


def files_wanted() -> Html:
    """HTML: which files to give, and what happens to them."""
    return paragraphs(
        "TRL and axolotl: the Parquet files in OUTPUT_DIR/completions, which log_completions=True and, for every step, "
        "logging_steps=1 write. verl, ms-swift, NeMo-RL: their JSONL dump. Anything else: a table (CSV, JSON, JSONL, "
        "Parquet) with one column per reward. `gdpo audit PATH` says the same in a terminal.".replace("`", ""),
        "Files are read in this server's memory and forgotten when you clear them or a few minutes after you leave; "
        "nothing is stored or sent on.",
    )


def samples(session: Session) -> mo.ui.dropdown:
    """The choice of a sample, by its title; the link may bring one."""
    by_id = {sample.id: sample for sample in SAMPLES}
    brought = session.start("run-sample", SAMPLES[0].id)
    if brought not in by_id:
        session.refuse("run-sample", f"one of {', '.join(by_id)}")
    session.sample = first = by_id.get(brought, SAMPLES[0])
    element = mo.ui.dropdown({sample.title: sample for sample in SAMPLES}, value=first.title, label="Sample")
    session.keep("run-sample", lambda: element.value.id, SAMPLES[0].id)
    return element


def upload() -> mo.ui.file:
    """The area for the reader's files."""
    return mo.ui.file(multiple=True, kind="area", max_size=limits.LARGEST, label=UPLOAD)


def corrections(session: Session) -> mo.ui.dictionary:
    """How files are read and weighed, where the reader knows better."""
    by_name = {key or "": title for title, key in FRAMEWORKS.items()}
    framework = by_name.get(session.start("run-framework", ""), next(iter(FRAMEWORKS)))
    texts = {
        "group_size": ("Responses per prompt", "8"),
        "rewards": ("Reward columns", "correctness, style"),
        "group": ("Group column", "prompt_id"),
        "weights": ("Weights, if not those of the log", "correctness=2"),
    }
    element = mo.ui.dictionary(
        {"framework": mo.ui.dropdown(FRAMEWORKS, value=framework, label="Written by")}
        | {
            key: mo.ui.text(value=session.start(f"run-{key}", ""), label=label, placeholder=like)
            for key, (label, like) in texts.items()
        }
    )
    for key in element.elements:
        session.keep(f"run-{key}", lambda key=key: element.value[key] or "", "")
    return element


def primary(log: "Log", session: Session) -> mo.ui.dropdown:
    """The choice of the reward that matters most; of an upload it stays out of links, as its files do."""
    known = log.primary or NO_PRIMARY
    brought = session.start("run-primary", known) if log.key else known
    if brought not in (NO_PRIMARY, *log.run.rewards):
        session.refuse("run-primary", f"one of {', '.join(log.run.rewards)}")
        brought = known
    element = mo.ui.dropdown(
        log.run.rewards,
        value=None if brought == NO_PRIMARY else brought,
        allow_select_none=True,
        label="The reward that matters most",
    )
    session.keep("run-primary", lambda: (element.value or NO_PRIMARY) if log.key else None, known)
    return element


def reading(framework: str | None, group_size: str, rewards: str, group: str) -> Reading:
    """What the controls for a correction by hand say; InputError.

    >>> reading(None, "8", "correctness, style", "")
    Reading(framework=None, group_size=8, rewards=('correctness', 'style'), group=None)
    """
    size = parse_count(group_size, "responses per prompt") if group_size.strip() else None
    names = tuple(name.strip() for name in rewards.split(",") if name.strip())
    return Reading(framework, size, names or None, group.strip() or None)


def read(sample: Sample, uploads: Sequence, how: Reading) -> Log:
    """The log in the uploaded files, each with `name` and `contents`, or in the sample where there are none.

    Raises InputError, also for uploads that are too large together or two of one name.
    """
    if not uploads:
        return _of_sample(sample, how)
    total, most = sum(len(file.contents) for file in uploads), limits.LARGEST
    expect(total <= most, "upload", f"at most {most / 1e6:.0f} MB in all", f"{total / 1e6:.1f} MB")
    if limits.full():
        raise InputError(limits.NO_ROOM)
    files: dict[str, bytes] = {}
    for file in uploads:
        different = "files of different names, or a zip of their directory"
        expect(file.name not in files, "upload", different, f"two called {file.name}")
        files[file.name] = file.contents
    first, *more = files
    note = f"Your {'files' if more else 'file'}: {first}" + (f" and {count(len(more))} more." if more else ".")
    run, report = worker.call(worker.audited, files, vars(how), None, None)
    return Log(run, note, None, None, how, files, report)


@lru_cache(8)
def _of_sample(sample: Sample, how: Reading) -> Log:
    path = DATA / "samples" / sample.path
    try:
        files = {file.name: file.read_bytes() for file in (sorted(path.iterdir()) if path.is_dir() else [path])}
    except OSError as error:
        raise InputError(f"{path}: expected the files of a log, got none") from error
    note = sample.told
    if "{models}" in note:
        published = prompts.published(DATA / "bfcl_rewards.parquet")
        note = note.format(configurations=len(published.models), models=prompts.models(published))
    run = _run(files, how)
    return Log(run, note, sample.primary if sample.primary in run.rewards else None, (sample, how), how)


def _run(files: Mapping[str, bytes], how: Reading) -> Run:
    return read_run(files, **vars(how))


def weighted(text: str) -> dict[str, float] | None:
    """Weights by the names of rewards; None for no text. InputError.

    >>> weighted("style=0.5, correctness=2")
    {'style': 0.5, 'correctness': 2.0}
    """
    parts = [re.sub(r"\s*=\s*", "=", part.strip()) for part in text.split(",")] if text.strip() else []
    return parse_weights(parts, "weights", "NAME=NUMBER, with commas between several") or None


def audited(log: Log, primary: str | None, weights: str) -> Audit:
    """The report on a log, with weights as `weighted` reads them; of a sample once for all visitors. InputError."""
    given = weighted(weights)
    if log.files:
        plain = given is None and primary is None
        report = log.report
        if not plain:
            _, report = worker.call(worker.audited, log.files, vars(log.how), given, primary)
        if isinstance(report, InputError):
            raise report
        return Audit(report, given)
    return Audit(_audit_of_sample(*log.key, primary, tuple((given or {}).items())), given)


@lru_cache(16)
def _audit_of_sample(sample: Sample, how: Reading, primary: str | None, weights: tuple) -> AuditReport:
    return audit(_of_sample(sample, how).run, weights=dict(weights) or None, primary=primary)


def shown(log: Log, audit: Audit, session: Session) -> mo.Html:
    """The report on one screen, its rest in folds, the files to take away; the tour and the session are told."""
    session.audited = audit.report
    session.programs["run"] = lambda: program(log, audit)
    behind = report.behind(audit.report, save.framed("run-all", session.charts))
    styles = join(report.STYLE, save.STYLE)
    # What waits to be seen stands in a shadow root, which the style of the page does not reach.
    folds = (fold(title, lazily(lambda draw=draw: join(styles, draw()))) for title, draw in behind.items())
    taken = [mo.download(data=data, filename=name, label=label) for label, name, data in downloads(log, audit)]
    return show(
        styles,
        report.front(audit.report, save.framed("run-front", session.charts), guide),
        framed("folds", *folds),
        framed("taken", *taken),
        tag(
            "p",
            "Next: ",
            tag("a", "the lines for your trainer, and whether you should", href="?at=use", data_go="use"),
            kind="next",
        ),
        tag("span", hidden="", data_deed="audited") if handed_over(log, session) else "",
    )


def guide(finding: Finding) -> Html:
    """The way to the chapter or the fold that explains a finding, and the terms that it rests on."""
    place = READ_MORE[finding.id]
    kind, _, name = place.place.partition(", ")
    if kind == "page":
        title = name.removeprefix("chapter ")
        to = {"href": f"?at={_AT[title]}", "data_go": _AT[title]}
        if scenario := titles().get(_SCENARIOS.get(finding.id, "")):
            to["href"] += f"&train-scenario={_SCENARIOS[finding.id]}"
            to["data_scenario"] = _SCENARIOS[finding.id]
            title = f"{title}: {scenario}"
    elif name == "Limits":
        title, to = "Use it: limits", {"href": "?at=use", "data_go": "use"}
    else:
        title, to = FILES, {"href": "?at=run", "data_go": "run", "data_to": "run-files"}
    says = [terms.term(name) for name in place.terms]
    return Html(" · ").join([tag("a", title, **to), *([Html(", ").join(says)] if says else [])])


def handed_over(log: Log, session: Session) -> bool:
    """Whether the reader chose this sample or brought these files: the one that the chapter opens with is neither."""
    return log.key is None or log.key[0] != session.sample


def program(log: Log, audit: Audit) -> str:
    """A program of at most 15 lines that prints the numbers of the report."""
    path = f"data/samples/{log.key[0].path}" if log.key else None
    files = [path] if path else list(log.run.files)
    how = {k: v for k, v in vars(log.how).items() if v is not None}
    given = "".join(f", {key}={value!r}" for key, value in how.items())
    corrected = {"weights": audit.given, "primary": audit.report.run["primary"]}
    options = "".join(f", {key}={value!r}" for key, value in corrected.items() if value is not None)
    lines = [
        "import gdpo_core as gc",
        "",
        f"run = gc.read_run({(files[0] if len(files) == 1 else files)!r}{given})",
        f"report = gc.audit(run{options})",
        'print(report.run["method"], report.run["convention"], report.run["weights_used"])',
        "for reward in report.rewards:",
        '    print(reward["name"], reward["dead_groups"], reward["update_share"])',
        "for method, found in report.methods.items():",
        "    print(method, found)",
        "for finding in report.findings:",
        "    print(finding.severity, finding.id)",
    ]
    return "\n".join(lines) + "\n"


def downloads(log: Log, audit: Audit) -> list[tuple[str, str, Callable[[], bytes]]]:
    """Label, file name and content of each file that can be taken away; the content is made when it is asked for."""
    # A file of a sample says what the page says about it; an upload is its reader's own.
    note = log.told.replace("**", "") if log.key else ""

    def as_json() -> bytes:
        content = audit.report.to_dict() | ({"note": note} if note else {})
        return json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False).encode()

    label, kind = ("CSV", "csv") if audit.report.source["responses"] <= LARGEST_CSV else ("Parquet", "parquet")

    def table() -> bytes:
        if log.files:
            return worker.call(save.of_log, log.files, vars(log.how), kind)
        return save.written(log.run.table, kind)

    return [
        ("Report (HTML)", "audit.html", lambda: report.document(audit.report, note).encode()),
        ("Report (JSON)", "audit.json", as_json),
        (f"Table ({label})", f"responses.{kind}", table),
    ]


def large(uploads: Sequence) -> bool:
    """Whether files may take longer than a moment to read."""
    return sum(len(file.contents) for file in uploads) > LARGE


@dataclass(frozen=True)
class Read:
    """What came of the reader's files, and what the page shows of it; log None: they cannot be read."""

    log: Log | None
    shown: mo.Html
    weights: str  # as the reader wrote them
    wait: bool  # whether an audit may take longer than a moment


def read_or_why(sample: Sample, uploads: Sequence, corrected: Mapping[str, str | None]) -> Read:
    """The log, or the sentence that says why there is none; `asked` as `corrections` has it."""
    how = {key: value for key, value in corrected.items() if key != "weights"}
    wait = large(uploads)
    if wait:
        mo.output.replace(show(waiting("Reading")))
    try:
        log = read(sample, uploads, reading(**how))
    except InputError as error:
        return Read(None, refused(error), "", False)
    return Read(log, show(whose(log)), corrected["weights"] or "", wait)


def audited_or_why(given: Read, primary: str | None, session: Session) -> mo.Html:
    """The report on a log that was read, or the sentence that says why there is none."""
    if given.wait:
        mo.output.replace(show(waiting("Auditing")))
    try:
        audit = audited(given.log, primary, given.weights)
    except InputError as error:
        session.audited = None
        session.programs.pop("run", None)
        return refused(error)
    return shown(given.log, audit, session)


def refused(error: InputError) -> mo.Html:
    """One sentence in place of what could not be done."""
    return show(framed("unread", mo.callout(reason(error), kind="danger")))


def waiting(doing: str) -> Html:
    """HTML in place of what is being computed."""
    return tag("p", f"{doing} your files …", kind="whose", role="status")


def whose(log: Log) -> Html:
    """HTML: whose log this is; the names of uploaded files are text, whatever they hold."""
    return tag("p", prose(log.told) if log.key else log.told, kind="whose")


def area(files: object) -> mo.Html:
    """The area for files with a name for a screen reader, which it has not of its own."""
    return show(framed("upload", files, role="group", aria_label=UPLOAD))


def asking(element: mo.ui.dictionary) -> mo.Html:
    """Corrections in a fold, with which files are wanted and what happens to them."""
    inside = controls(element.elements.values())
    return show(framed("asking", fold(FILES, files_wanted(), inside), id="run-files"))
