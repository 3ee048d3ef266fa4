"""The audit of a log on Ray, whose workers compute the parts of a log in place of this process."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from gdpo_audit.auditing import audit
from gdpo_audit.logs.read import read_run
from gdpo_audit.report.audit_report import AuditReport
from gdpo_core.shared.errors import InputError

AHEAD = 2  # the most parts per worker that wait for it, so that only these take up memory
RETRIES = 2  # how often a part is computed again whose worker died


def audit_on_ray(path: Any, *, framework: str | None = None, what_if: Any = None, **named: Any) -> AuditReport:
    """Return the report of `audit(read_run(path))`, computed by the workers of a Ray cluster.

    Where this process is connected to no cluster, one is started on this machine.

    path: as in `read_run`.
    framework: as in `read_run`.
    what_if: as in `audit`.
    named: further arguments of `read_run` or of `audit`.

    Raises InputError where `read_run` or `audit` raises it, if Ray is not installed, and if Ray fails. Ray fails, for
    instance, if the worker of one part of the log has died for the third time.
    """
    engine = ray_engine()  # raises before the log is read in vain
    mine = {name: named.pop(name) for name in ("weights", "primary", "asked") if name in named}
    return audit(read_run(path, framework, **named), what_if=what_if, engine=engine, **mine)


def ray_engine() -> Callable[..., Iterator[Any]]:
    """Return `map_on_ray`, the engine of an audit on Ray. Raises InputError if Ray is not installed."""
    _ray()
    return map_on_ray


def _ray() -> Any:
    """Return the module `ray`. Raises InputError if it is not installed."""
    try:
        import ray
    except ImportError:
        raise InputError(
            "--engine: expected ray to be installed for this engine, got none: pip install 'ray'"
        ) from None
    return ray


def map_on_ray(function: Callable[[Any], Any], tables: Iterable[Any]) -> Iterator[Any]:
    """Yield what a function returns for each of some tables, in their order, as `map` does; Ray's workers compute it.

    Where this process is connected to no cluster, one is started on this machine.

    tables: the parts of a log.

    Raises what the function itself raises. Raises InputError if Ray is not installed, or if it fails. Ray fails, for
    instance, if the worker of one part has died for the third time.
    """
    ray = _ray()
    try:
        if not ray.is_initialized():
            ray.init(log_to_driver=False, logging_level="ERROR", include_dashboard=False)
        workers = max(1, int(ray.cluster_resources().get("CPU", 1)))
        remote = ray.remote(max_retries=RETRIES)(lambda table: _in_one_thread(function, table))
        waiting = deque[Any]()
        for table in tables:
            waiting.append(remote.remote(table))
            if len(waiting) > AHEAD * workers:
                yield ray.get(waiting.popleft())
        yield from map(ray.get, waiting)
    except ray.exceptions.RayError as error:
        if isinstance(cause := getattr(error, "cause", None), Exception):  # an error of the function, not of Ray
            raise cause from None
        why = next((line for line in str(error).splitlines() if line.strip()), "no reason given")
        raise InputError(f"--engine: expected ray's workers to finish, got {type(error).__name__}: {why}") from None


def _in_one_thread(function: Callable[[Any], Any], table: Any) -> Any:
    """Return what a function returns for one table; torch is kept to one thread from then on."""
    import torch

    torch.set_num_threads(1)  # there are as many workers as cores, so more threads would only wait for each other
    return function(table)
