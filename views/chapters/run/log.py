"""The reading and the audit of a log. A reader's files are read in another process, and a sample is read once for all
visitors. `audit_program` writes, for the reader, a Python program that reads and audits the same log.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from gdpo_audit import AuditReport, Run, audit, read_run
from gdpo_core.shared.errors import InputError, expect
from gdpo_core.shared.parsing import parse_count, parse_named
from gdpo_core.shared.words import count
from views.chapters.run.samples import Sample
from views.server import memory, sessions, worker
from views.server.uploads import audit_upload

How = tuple[tuple[str, Any], ...]  # arguments of read_run as pairs; what is not among them is inferred from the files


@dataclass(frozen=True)
class Log:
    """A log that was read: a sample, or the files that a reader uploaded.

    run: the log itself.
    named: a line that says which log it is.
    how: the arguments of `read_run` that the reader corrected, as pairs of a name and a value.
    sample: the sample, None for the reader's files.
    files: the reader's files by name, which are read again where their tables are needed; None for a sample.
    report: the report on the reader's files, made with no weights and no primary reward. If the audit failed, it is the
        audit's InputError. None for a sample.
    """

    run: Run
    named: str
    how: How
    sample: Sample | None = None
    files: Mapping[str, bytes] | None = None
    report: AuditReport | InputError | None = None

    @property
    def primary(self) -> str | None:
        """The sample's reward that matters most; None for the reader's files, for a sample of which none is known, and
        for a log that lacks this reward.
        """
        return self.sample.primary if self.sample and self.sample.primary in self.run.rewards else None


def parse_corrections(
    framework: str | None = None, group_size: str = "", rewards: str = "", group: str = "", parts: str = "", **_: Any
) -> How:
    """Return the arguments of `read_run` that the reader corrected, as pairs of a name and a value.

    A text is what the reader typed into one control; an empty text corrects nothing. Other controls, such as the
    control for weights, are passed over. Raises InputError for a text that cannot be read.

    framework: the id of the trainer that wrote the log, None to find it out from the files.

    >>> parse_corrections(None, "8", "correctness, style")
    (('group_size', 8), ('rewards', ('correctness', 'style')))
    """
    size = parse_count(group_size, "responses per prompt") if group_size.strip() else None
    names = tuple(name.strip() for name in rewards.split(",") if name.strip())
    how = {"framework": framework, "group_size": size, "rewards": names, "group": group.strip()}
    how["parts"] = tuple(parse_named(parts, "parts", "NAME=PAY").items()) if parts.strip() else None
    return tuple((key, value) for key, value in how.items() if value)


def arguments(how: How) -> dict[str, Any]:
    """Return the pairs of `parse_corrections` as keyword arguments of `read_run`.

    >>> arguments(parse_corrections(parts="correct=1, format=0.5"))
    {'parts': {'correct': 1.0, 'format': 0.5}}
    """
    return {key: dict(value) if key == "parts" else value for key, value in how}


def read_log(sample: Sample | None, uploads: Sequence[Any] = (), **corrected: Any) -> Log:
    """Return the log of a sample, or, if `sample` is None, the log in the reader's files.

    The reader's files are also audited, with no weights and no primary reward. The log then holds the report, or the
    InputError that the audit raised.

    sample: a log that comes with the page.
    uploads: the reader's files, objects with `name` and `contents`.
    corrected: what the reader typed to correct how the log is read, the arguments of `parse_corrections`.

    Raises InputError if the log cannot be read, or if two files have the same name. Raises it too if the files are
    together too large for an upload or for the server's memory.
    """
    how = parse_corrections(**corrected)
    if sample:
        return _of_sample(sample, how)
    total, most = sum(len(file.contents) for file in uploads), sessions.LARGEST_UPLOAD
    expect(total <= most, "upload", f"at most {most / 1e6:.0f} MB in all", f"{total / 1e6:.1f} MB")
    files: dict[str, bytes] = {}
    for file in uploads:
        different = "files of different names, or a zip of their directory"
        expect(file.name not in files, "upload", different, f"two called {file.name}")
        files[file.name] = file.contents
    with memory.reserved(total) as fits:
        if not fits:
            raise InputError(sessions.NO_ROOM)
        run, report = worker.call(audit_upload, files, arguments(how), None, None)
    first, *more = files
    holds = "" if isinstance(report, InputError) else f", {count(report.source['responses'], 'response')}"
    named = f"{first} and {count(len(more))} more" if more else first
    return Log(run, f"Your {'files' if more else 'file'}: {named}{holds}", how, files=files, report=report)


@lru_cache(8)
def _of_sample(sample: Sample, how: How) -> Log:
    """Return the log of a sample, read once for all visitors; the last 8 logs are kept.

    how: the arguments of `read_run` that the reader corrected, as pairs of a name and a value.
    """
    return Log(read_run(sample.files(), **arguments(how)), f"This is a sample: “{sample.title}”.", how, sample)


def named_weights(text: str) -> dict[str, float] | None:
    """Return the weights that a text gives, by the name of the reward; None for an empty text.

    Raises InputError for a text that is not NAME=NUMBER with commas between several, for a name that comes twice, and
    for a weight that is not finite or beyond ±1e30.

    >>> named_weights("style=0.5, correctness=2")
    {'style': 0.5, 'correctness': 2.0}
    """
    return parse_named(text, "weights") if text.strip() else None


def audit_log(log: Log, primary: str | None, weights: str) -> AuditReport:
    """Return the report on a log that was read, with the given weights and primary reward.

    The audit of a sample is made once for all visitors, and kept. The reader's files are read and audited again, in
    another process, if weights or a primary reward are given. If neither is given, the report that `log` holds is
    returned.

    primary: the reward that matters most, None if none is chosen.
    weights: a text as `named_weights` reads it, "" for none.

    Raises InputError if the text or the audit is refused. If `log` holds an InputError in place of a report, and
    neither weights nor a primary reward are given, that error is raised.
    """
    given = named_weights(weights)
    if log.sample:
        return _audit_of_sample(log.sample, log.how, primary, tuple((given or {}).items()))
    report = log.report
    if given or primary:
        _, report = worker.call(audit_upload, log.files, arguments(log.how), given, primary)
    if isinstance(report, InputError):
        raise report
    return report


@lru_cache(16)
def _audit_of_sample(sample: Sample, how: How, primary: str | None, weights: tuple) -> AuditReport:
    return audit(_of_sample(sample, how).run, weights=dict(weights) or None, primary=primary)


def audit_program(log: Log, report: AuditReport, weights: str) -> str:
    """Return a Python program of at most 15 lines that reads the log and prints the numbers of its report.

    weights: the text in which the reader typed the weights, such as "style=0.5, correctness=2", or "" for none.
    """
    files = [f"data/samples/{log.sample.path}"] if log.sample else list(log.run.files)
    how = "".join(f", {key}={value!r}" for key, value in arguments(log.how).items())
    corrected = {"weights": named_weights(weights), "primary": report.run["primary"]}
    options = "".join(f", {key}={value!r}" for key, value in corrected.items() if value is not None)
    return f"""import gdpo_audit as ga

run = ga.read_run({(files[0] if len(files) == 1 else files)!r}{how})
report = ga.audit(run{options})
print(report.run["method"], report.run["convention"], report.run["weights_used"])
for reward in report.rewards:
    print(reward["name"], reward["dead_groups"], reward["update_share"])
for method, found in report.methods.items():
    print(method, found)
for finding in report.findings:
    print(finding.severity, finding.id)
"""
