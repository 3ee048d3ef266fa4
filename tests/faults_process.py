"""Faults around a server and a command, each tried for real as root of a Linux machine: `make faults`.

Mounts, networks and memory limits belong to a namespace or a control group, which ends with the process in it. Faults
that need nothing but another environment are tried by `make check-cpu`.
"""

import os
import re
import subprocess
import sys
import time
import urllib.request
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from conftest import ROOT, served
from guests import guest
from helpers import arrived, settled

SAMPLE = ROOT / "data/samples/trl_gdpo"
GDPO = [sys.executable, "-c", "from gdpo_cli import main; main()"]
pytestmark = pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="needs root, for namespaces")


@dataclass(frozen=True)
class Fault:
    """A fault around a process: words that stand before its command, and variables of its environment, None for one to
    remove.
    """

    before: Sequence[str] = ()
    environment: Mapping[str, str | None] = field(default_factory=dict)
    noisy: bool = False  # what marimo can't write into its log under home, Python tells the operator at length


def shell(*lines: str) -> tuple[str, ...]:
    """Return words that stand before a command and let a shell run these lines first."""
    return ("sh", "-ec", "; ".join([*lines, 'exec "$@"']), "sh")


def mounted(*lines: str) -> tuple[str, ...]:
    """Return words that stand before a command and let a shell run these lines first, with mounts of its own."""
    return ("unshare", "--mount", *shell(*lines))


# This folder stands in place of /tmp and home, in either of which Python itself may lie.
FULL = "/var/tmp"
FILLED = f"mount -t tmpfs -o size=16k tmpfs {FULL}; head -c 1M /dev/zero >{FULL}/filled 2>/dev/null || true"
HELD = "mount --bind {0} {0}; mount -o remount,bind,ro {0}"
FAULTS = {
    "none": Fault(),
    "a full disk": Fault(mounted(FILLED), {"TMPDIR": FULL, "HOME": FULL}, noisy=True),
    "a home and a checkout that are read-only": Fault(mounted(HELD.format(ROOT), HELD.format("/root"))),
    "no HOME": Fault(environment={"HOME": None, "USER": None, "LOGNAME": None}),
    "no locale": Fault(environment={"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}),
    "few file descriptors": Fault(shell("ulimit -n 64")),
}
UNDER_EACH = pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)


@contextmanager
def serving(fault: Fault, log: Path) -> Iterator[tuple[str, Callable[[], str]]]:
    """Yield the address of the page under a fault, and a function that returns the server's output so far. log: the
    file for it.
    """
    with log.open("ab") as file, served("app.py", before=fault.before, said=file, **fault.environment) as url:
        yield url, lambda: log.read_text(encoding="utf-8", errors="replace")


def answers(url: str) -> bool:
    """Return whether a server answers."""
    return urllib.request.urlopen(f"{url}/health", timeout=5).status == 200


def until(done: Callable[[], object], what: str, patience: float = 90) -> None:
    """Wait until `done()` is true; what: what is expected, in words."""
    end = time.monotonic() + patience
    while not done():
        assert time.monotonic() < end, f"expected {what}"
        time.sleep(0.05)


# --- one line, whatever is wrong with the machine ---------------------------------------------------------------------


@pytest.fixture
def log_folder(tmp_path_factory):
    """Return a folder in which the server may log even if /tmp is full, since the file is opened outside of the
    fault.
    """
    return tmp_path_factory.mktemp("log")


@UNDER_EACH
def test_the_page_shows_the_lab_and_audits_an_upload(fault, browser, log_folder):
    """A flip moves the bars and an upload is audited, without an error and without a request to another host."""
    with serving(fault, log_folder / "log") as (url, said):
        page = browser.new_page(reduced_motion="reduce")
        errors, elsewhere = [], []
        page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("request", lambda r: r.url.startswith((url, "data:", "blob:")) or elsewhere.append(r.url))
        page.goto(url)
        arrived(page, ".board .bar")
        before = page.locator(".board").inner_html()
        page.get_by_role("checkbox").first.click()
        until(lambda: page.locator(".board").inner_html() != before, "a flip that moves the bars")
        page.locator("nav").get_by_role("link", name="Your run").click()
        arrived(page, ".audit.front")
        settled(page)
        page.locator(".upload input[type=file]").set_input_files(sorted(SAMPLE.glob("*.parquet")))
        page.locator(".named", has_text="Your files:").wait_for()
        arrived(page, ".audit.front")
        page.close()
        assert answers(url) and not errors and not elsewhere
        assert fault.noisy or "Traceback" not in said(), said()


WHOLE = test_the_page_shows_the_lab_and_audits_an_upload.__name__


def test_without_a_network_the_page_is_whole():
    """A network that holds the server's loopback and nothing else is enough for the page."""
    alone = shell("ip link set lo up", "! ip route | grep -q .")
    child = [sys.executable, "-m", "pytest", "-q", "-p", "no:xdist", f"{__file__}::{WHOLE}[none]"]
    ran = subprocess.run(["unshare", "--net", *alone, *child], cwd=ROOT, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout


@UNDER_EACH
def test_the_command_audits(fault):
    for option, told in ((("--json", "-"), b'"method": "gdpo"'), ((), b"GDPO")):
        command = [*fault.before, *GDPO, "audit", str(SAMPLE), *option]
        kept = {name: value for name, value in (os.environ | fault.environment).items() if value is not None}
        ran = subprocess.run(command, env=kept, capture_output=True, timeout=180)
        assert ran.returncode == 0 and not ran.stderr and told in ran.stdout, ran.stderr


# --- little memory ----------------------------------------------------------------------------------------------------


@contextmanager
def memory(megabytes: int) -> Iterator[tuple[Fault, Callable[[], int]]]:
    """Yield a fault that limits the memory to so much by a control group, of either version, and a function that
    returns the most bytes used. The test is skipped if there are no control groups.
    """
    whose = dict(line.split(":", 2)[1:] for line in Path("/proc/self/cgroup").read_text().splitlines())
    first = "memory" in whose
    above = Path(f"/sys/fs/cgroup/{'memory' if first else ''}{whose['memory' if first else '']}")
    limit, peak = ("memory.limit_in_bytes", "memory.max_usage_in_bytes") if first else ("memory.max", "memory.peak")
    group = above / f"faults-{os.getpid()}"
    try:
        group.mkdir()
        (group / limit).write_text(str(megabytes * 10**6))
    except OSError as error:
        pytest.skip(f"needs control groups: {error}")
    try:
        yield Fault(shell(f"echo $$ >{group}/cgroup.procs")), lambda: int((group / peak).read_text())
    finally:
        until(lambda: not (group / "cgroup.procs").read_text(), "the end of all processes in the group")
        group.rmdir()


def largest_upload() -> str:
    """Return 95,000 responses with texts as CSV, 60 MB, in base64."""
    generator, n = np.random.default_rng(0), 95_000
    marks = {name: generator.integers(0, 2, n).astype(float) for name in ("correctness", "style")}
    texts = pl.Series("completion", [generator.bytes(300).hex() for _ in range(100)])[np.arange(n) % 100]
    table = pl.DataFrame({"step": np.arange(n) // 1000, "prompt_id": np.arange(n) // 8} | marks).with_columns(texts)
    return b64encode(table.write_csv().encode()).decode()


def test_uploads_into_a_container_of_1_gb_cost_no_visitor_the_page(tmp_path):
    """The first uploads are audited and the last are refused by a 413 that says why; the server lives on."""
    files, statuses = [["texts.csv", largest_upload()]], []
    with memory(1000) as (fault, peak), serving(fault, tmp_path / "log") as (url, said), ExitStack() as inside:
        for _ in range(4):
            visitor = inside.enter_context(guest(url))
            visitor.set(visitor.having("chapters"), at="run", asked={})
            visitor.rest()
            statuses.append(visitor.choose(visitor.controls("marimo-file")[-1], files))
            if statuses[-1] == 200:
                visitor.rest()
                assert re.search("Your file: texts.csv|upload: expected room", "".join(visitor.messages))
        assert answers(url) and statuses[0] == 200 and statuses[-1] == 413
        assert said().count("413 upload: expected room") == statuses.count(413)
        print(f"{statuses}, {peak() / 1e6:.0f} MB at most")
