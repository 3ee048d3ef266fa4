"""What `gdpo audit --engine ray` costs beside the local engine, and the constants of docs/scale.md.

Needs Ray, so it is not one of all: `python -m benchmarks.ray 10` makes a log of ten million responses in a thousand
files; `python -m benchmarks.ray FOLDER` takes the log that is there.
"""

import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.audit import GROUP, PROMPTS, write_log
from benchmarks.table import record, show

ROOT = Path(__file__).resolve().parents[1]
STEPS_A_FILE = 10
ENGINES = {"local": 0, "Ray, 1 worker": 1, "Ray, 2 workers": 2}
MB = 1e6


def run(source: str = "1") -> None:
    """Audit the log with each engine in a process of its own, check that the reports are the same, print."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(source)
        if not path.is_dir():
            path, _ = write_log(Path(folder), int(float(source) * 1e6) // (PROMPTS * GROUP), STEPS_A_FILE)
        found = {name: _measured_row(path, workers) for name, workers in ENGINES.items()}
    local = found["local"]
    same = {name: f["report"] == local["report"] for name, f in found.items()}
    show(
        f"{local['responses']:,} responses, {local['batches']:,} steps, {local['files']:,} files of "
        f"{local['bytes'] / MB:,.0f} MB; the start of Ray is left out",
        ("", *found),
        [
            ["seconds", *(f"{f['s']:.2f}" for f in found.values())],
            ["  driver: steps and advantages of all files", *(_seconds(f, "read_rows") for f in found.values())],
            ["  driver: recipe", *(_seconds(f, "solved") for f in found.values())],
            ["  sums, by the workers or here", *(_seconds(f, "summed") for f in found.values())],
            ["CPU seconds, driver", *(f"{f['driver_cpu']:.2f}" for f in found.values())],
            ["CPU seconds, workers", *(f"{f['worker_cpu']:.2f}" for f in found.values())],
            ["peak memory, driver", *(f"{f['driver_mb']:.0f} MB" for f in found.values())],
            ["  of it imports, and Ray", *(f"{f['before_mb']:.0f} MB" for f in found.values())],
            ["peak memory, largest worker", *(f"{f['worker_mb']:.0f} MB" for f in found.values())],
            ["peak of the object store", *(f"{f['store'] / MB:.2f} MB" for f in found.values())],
            ["read, driver", *(f"{f['driver_read'] / MB:.1f} MB" for f in found.values())],
            ["read, workers", *(f"{f['worker_read'] / MB:.1f} MB" for f in found.values())],
            ["read per response", *(f"{_read(f) / f['responses']:.1f} bytes" for f in found.values())],
            ["sums moved per step", *(f"{f['moved'] / f['batches']:.0f} bytes" for f in found.values())],
            ["report as the local one", *("yes" if yes else "NO" for yes in same.values())],
        ],
    )
    record("ray", **{name.replace(",", "").replace(" ", "_"): f for name, f in found.items()})
    if not all(same.values()):
        raise RuntimeError(f"the reports differ: {same}")


def _seconds(found: dict[str, Any], phase: str) -> str:
    return f"{found['phases'].get(phase, 0):.2f}"


def _read(found: dict[str, Any]) -> float:
    return found["driver_read"] + found["worker_read"]


def _measured_row(path: Path, workers: int) -> dict[str, Any]:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
    command = [sys.executable, "-m", "benchmarks.ray", "--measure", str(path), str(workers)]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])
    files = [file for file in path.rglob("*.parquet")]
    sizes = {"files": len(files), "bytes": sum(file.stat().st_size for file in files)}
    return json.loads(done.stdout.splitlines()[-1]) | sizes


# --- inside the process of one engine --------------------------------------------------------------------------------


def _measure(path: str, workers: int) -> None:
    """Audit the log once and print what that took, as JSON."""
    from gdpo_core.runs import audit, engine_ray
    from gdpo_core.runs.read import read_run

    phases: dict[str, float] = {}
    for module, name, phase in (
        (engine_ray, "read_rows", "read_rows"),
        (sys.modules["gdpo_core.runs.read"], "read_rows", "read_rows"),
        (audit, "solve_recipe", "solved"),
        (audit, "_summary", "summed"),
        (engine_ray, "_map_and_merge", "summed"),
    ):
        setattr(module, name, _time(getattr(module, name), phase, phases))
    moved = _count_bytes(engine_ray)
    store = None
    if workers:
        import ray

        ray.init(num_cpus=workers, log_to_driver=False, logging_level="ERROR", include_dashboard=False)
        ray.get([ray.remote(_warm).remote() for _ in range(workers)])  # workers start and import before the clock does
        store = _Store()
    before, own = _costs(os.getpid()), _peak(os.getpid())
    idle = {pid: _costs(pid) for pid in _workers()}
    start = time.perf_counter()
    report = engine_ray.audit_on_ray(path) if workers else audit.audit(read_run(path))
    seconds = time.perf_counter() - start
    after = _costs(os.getpid())
    spent = [(_costs(pid), idle.get(pid, (0.0, 0.0)), _peak(pid)) for pid in _workers()]
    found = {
        "s": seconds,
        "phases": phases,
        "driver_cpu": after[0] - before[0],
        "driver_read": after[1] - before[1],
        "driver_mb": _peak(os.getpid()),
        "before_mb": own,
        "worker_cpu": sum(now[0] - was[0] for now, was, _ in spent),
        "worker_read": sum(now[1] - was[1] for now, was, _ in spent),
        "worker_mb": max((peak for *_, peak in spent), default=0),
        "store": store.peak() if store else 0,
        "moved": moved[0],
        "responses": report.source["responses"],
        "batches": report.source["steps"],
        "report": hashlib.sha256(json.dumps(report.to_dict(), sort_keys=True).encode()).hexdigest(),
    }
    print(json.dumps(found))


def _warm() -> None:
    import gdpo_core.runs.engine_ray  # noqa: F401

    time.sleep(0.5)  # or one worker would do all of them


def _time(function: Any, phase: str, phases: dict[str, float]) -> Any:
    def timed(*rest: Any, **named: Any) -> Any:
        start = time.perf_counter()
        try:
            return function(*rest, **named)
        finally:
            phases[phase] = phases.get(phase, 0) + time.perf_counter() - start

    return timed


def _count_bytes(engine_ray: Any) -> list[int]:
    """The bytes of the sums that come back from workers, counted where they are unpacked."""
    import pickle
    from types import SimpleNamespace

    moved = [0]

    def loads(content: bytes) -> Any:
        moved[0] += len(content)
        return pickle.loads(content)

    engine_ray.pickle = SimpleNamespace(loads=loads, dumps=pickle.dumps)
    return moved


def _costs(pid: int) -> tuple[float, float]:
    """Seconds of CPU, and bytes read by system calls, cached or not."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    read = Path(f"/proc/{pid}/io").read_text().split("rchar: ")[1].split()[0]
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK"), float(read)


def _peak(pid: int) -> float:
    """The most memory that the process held, in MB."""
    return int(Path(f"/proc/{pid}/status").read_text().split("VmHWM:")[1].split()[0]) / 1024


def _workers() -> list[int]:
    """The processes of Ray's workers below this one."""
    parents, workers = {}, []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            parents[int(entry.name)] = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
            workers += [int(entry.name)] * (entry / "cmdline").read_bytes().startswith(b"ray::")
        except OSError:  # ended meanwhile
            continue

    def is_below(pid: int) -> bool:
        while pid in parents and pid != os.getpid():
            pid = parents[pid]
        return pid == os.getpid()

    return [pid for pid in workers if is_below(pid)]


class _Store:
    """The largest number of bytes in the object store, asked for ten times a second."""

    def __init__(self) -> None:
        import threading

        import ray

        self._total, self._most, self._ended = ray.cluster_resources()["object_store_memory"], 0.0, threading.Event()
        self._thread = threading.Thread(target=self._watch, args=(ray,), daemon=True)
        self._thread.start()

    def _watch(self, ray: Any) -> None:
        while not self._ended.wait(0.1):
            self._most = max(
                self._most, self._total - ray.available_resources().get("object_store_memory", self._total)
            )

    def peak(self) -> float:
        self._ended.set()
        self._thread.join()
        return self._most


if __name__ == "__main__":
    if sys.argv[1:2] == ["--measure"]:
        _measure(sys.argv[2], int(sys.argv[3]))
    else:
        run(*sys.argv[1:2])
