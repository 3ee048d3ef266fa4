"""The servers that are measured: this page, two marimo apps and a Dash app, as `COMMANDS` starts them.

Each runs as a subprocess on a free port of this machine, and its CPU time and memory can be read.
"""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
MARIMO = ("-m", "marimo", "-y", "run")
MARIMO_OPTIONS = ("--headless", "--no-token", "--no-sandbox", "--port", "{port}")
COMMANDS = {
    "this page": ("serve.py", "--port", "{port}"),
    "empty marimo app": (*MARIMO, "benchmarks/toys/empty.py", *MARIMO_OPTIONS),
    "idiomatic marimo": (*MARIMO, "benchmarks/toys/idiomatic.py", *MARIMO_OPTIONS),
    "Dash": ("-m", "benchmarks.toys.dash_toy", "{port}"),
}


@dataclass(frozen=True)
class Server:
    """A running server that is measured.

    started: what time.perf_counter() gave when its process was started.
    """

    process: subprocess.Popen
    port: int
    started: float  # time.perf_counter() when it was spawned

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/"

    def cpu(self) -> float | None:
        """Return the seconds of CPU that the server's own process, without its children, has used so far; None where
        /proc does not tell, as after its end.
        """
        try:
            fields = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        except OSError:
            return None
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def memory(self) -> float | None:
        """Return the MB of memory that the server's own process holds, without its children; None where /proc does not
        tell.
        """
        try:
            pages = int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
        except OSError:
            return None
        return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


@contextmanager
def serve(name: str, stderr: int = subprocess.DEVNULL) -> Iterator[Server]:
    """Start a server, yield it once it accepts connections, and end it with the `with` block.

    name: a key of COMMANDS.
    stderr: where its error output goes, as for Popen, by default nowhere.

    Raises RuntimeError if it does not start.
    """
    port = unused_port()
    command = [sys.executable, *(word.format(port=port) for word in COMMANDS[name])]
    started = time.perf_counter()
    process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=stderr)
    try:
        until_listening(process, port)
        yield Server(process, port, started)
    finally:
        end(process)


def end(process: subprocess.Popen) -> None:
    """Ask a process to end, and kill it if it still runs after ten seconds."""
    process.terminate()
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()


def unused_port() -> int:
    """Return a port of this machine on which nobody listens at the moment."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def until_listening(process: subprocess.Popen, port: int, patience: float = 60) -> None:
    """Wait until a server accepts connections. Raises RuntimeError if its process ends, or if it takes longer than
    `patience` seconds.
    """
    deadline = time.perf_counter() + patience
    while time.perf_counter() < deadline:
        if process.poll() is not None:
            raise RuntimeError(f"a server ended at once, with exit status {process.returncode}")
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            time.sleep(0.01)
    raise RuntimeError(f"a server did not listen within {patience:g} s")
