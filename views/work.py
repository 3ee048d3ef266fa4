"""What `elsewhere` is asked to compute: functions of the core alone, since their processes import no page."""

from collections.abc import Callable, Mapping
from dataclasses import fields
from io import BytesIO
from typing import Any

from torch import Tensor

from gdpo_core import TrainingRun
from gdpo_core._errors import InputError
from gdpo_core.runs.audit import audit
from gdpo_core.runs.audit_report import AuditReport
from gdpo_core.runs.run import Run, read_run
from gdpo_core.scenarios import Setting
from views import save

Tell = Callable[[float], None]  # what share is done


def trained(tell: Tell, setting: Setting, method: str) -> TrainingRun:
    """One method's runs."""
    run = setting.train(method, lambda epoch: tell(epoch / setting.epochs))
    return TrainingRun(run.method, run.p.contiguous())


def limit(tell: Tell, setting: Setting, method: str) -> Tensor:
    """One method's infinite-group limit."""
    return setting.mean_field(method)


def audited(
    tell: Tell,
    files: Mapping[str, bytes],
    how: Mapping[str, Any],
    weights: Mapping[str, float] | None = None,
    primary: str | None = None,
) -> tuple[Run, AuditReport | InputError]:
    """What a log says of itself, without its tables, and its report or why there is none."""
    run = read_run(_bytes(files), **how)
    facts = {f.name: getattr(run, f.name) for f in fields(run) if not f.name.startswith("_")}
    try:
        return Run(**facts), audit(run, weights=weights, primary=primary)
    except InputError as error:
        return Run(**facts), error


def table(tell: Tell, files: Mapping[str, bytes], how: Mapping[str, Any], kind: str) -> bytes:
    """A log's table as a file of this kind, csv or parquet."""
    return written(read_run(_bytes(files), **how), kind)


def _bytes(files: Mapping[str, Any]) -> dict[str, bytes]:
    """The contents of files as bytes, which come as buffers where there is no other process."""
    return {name: bytes(content) for name, content in files.items()}


def written(run: Run, kind: str) -> bytes:
    """The same of a run that has been read."""
    if kind == "csv":
        return save.of_frame(run.table).encode()
    content = BytesIO()
    run.table.write_parquet(content)
    return content.getvalue()
