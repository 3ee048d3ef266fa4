"""The audit of an upload, as a limited process makes it. It stands apart from the processes themselves, since the Lab
does not wait for the import of the audit.
"""

from dataclasses import fields

from gdpo_audit import AuditReport, Run, audit, read_run
from gdpo_core.shared.errors import InputError


def audit_upload(
    files: dict, how: dict, weights: dict | None, primary: str | None
) -> tuple[Run, AuditReport | InputError]:
    """Return a tuple: the `Run` of a log without its tables, and the report on the log. If the audit fails, its
    InputError stands in place of the report.

    files: contents by name.
    how: further arguments of `read_run`.
    weights, primary: arguments of `audit`.

    Raises InputError if the log cannot be read.
    """
    run = read_run(files, **how)
    facts = Run(**{f.name: getattr(run, f.name) for f in fields(run) if not f.name.startswith("_")})
    try:
        return facts, audit(run, weights=weights, primary=primary)
    except InputError as error:
        return facts, error
