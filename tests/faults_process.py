"""What goes wrong around a server and a command, each tried for real; as root of a Linux machine: `make faults`.

Mounts, networks and memory limits are those of a namespace or a control group, which end with the process in them.
"""

import json
import os
import re
import shutil
import signal
import socket
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
from guests import guest
from helpers import arrived, settled

from benchmarks.servers import end
from views import sessions

ROOT = Path(__file__).resolve().parent.parent
SAMPLE = ROOT / "data/samples/trl_gdpo"
GDPO = [sys.executable, "-c", "from gdpo_cli import main; main()"]
FAKETIME = next(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"), None)
pytestmark = pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="needs root, for namespaces")


@dataclass(frozen=True)
class Fault:
    """What is wrong around a process: how it is started, and its environment; None takes a variable away."""

    before: Sequence[str] = ()
    environment: Mapping[str, str | None] = field(default_factory=dict)
    needs: object = True  # false: this machine can't have it
    noisy: bool = False  # what marimo can't write into its log under home, Python tells the operator at length

    def command(self, *command: object) -> list[str]:
        return [*self.before, *map(str, command)]

    @property
    def variables(self) -> dict[str, str]:
        changed = dict(os.environ) | self.environment
        return {name: value for name, value in changed.items() if value is not None}


def shell(*lines: str) -> tuple[str, ...]:
    """The start of a command before which a shell does something."""
    return ("sh", "-ec", "; ".join([*lines, 'exec "$@"']), "sh")


def mounted(*lines: str) -> tuple[str, ...]:
    return ("unshare", "--mount", *shell(*lines))


def clock(time: str) -> dict[str, str]:
    return {"LD_PRELOAD": str(FAKETIME), "FAKETIME": f"@{time}", "FAKETIME_DONT_RESET": "1"}


# In place of /tmp and home, in either of which Python itself may lie.
FULL = "/var/tmp"
FILLED = f"mount -t tmpfs -o size=16k tmpfs {FULL}; head -c 1M /dev/zero >{FULL}/filled 2>/dev/null || true"
HELD = "mount --bind {0} {0}; mount -o remount,bind,ro {0}"
FAULTS = {
    "none": Fault(),
    "a full disk": Fault(mounted(FILLED), {"TMPDIR": FULL, "HOME": FULL}, noisy=True),
    "a home and a checkout that are read-only": Fault(mounted(HELD.format(ROOT), HELD.format("/root"))),
    "no HOME": Fault(environment={"HOME": None, "USER": None, "LOGNAME": None}),
    "a home that is not there": Fault(environment={"HOME": "/proc/nowhere"}),
    "no locale": Fault(environment={"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}),
    "Turkish": Fault(environment={"LC_ALL": "tr_TR.UTF-8", "LANG": "tr_TR.UTF-8"}),
    "the year 1970": Fault(environment=clock("1970-01-02 00:00:00"), needs=FAKETIME),
    "the year 2100": Fault(environment=clock("2100-01-01 00:00:00"), needs=FAKETIME),
    "a time zone that is none": Fault(environment={"TZ": "Nowhere/Never"}),
    "few file descriptors": Fault(shell("ulimit -n 64")),
}


@pytest.fixture(params=FAULTS)
def fault(request):
    found = FAULTS[request.param]
    if not found.needs:
        pytest.skip("needs libfaketime")
    return found


def unused_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


@dataclass
class Server:
    process: subprocess.Popen
    port: int
    log: Path

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def lives(self) -> bool:
        return self.process.poll() is None

    def said(self) -> str:
        return self.log.read_text(encoding="utf-8", errors="replace")


@contextmanager
def serving(fault: Fault, log: Path, port: int | None = None) -> Iterator[Server]:
    """The page under a fault, once it answers."""
    port = port or unused_port()
    command = fault.command(sys.executable, "serve.py", "--port", port)
    with log.open("ab") as file:
        process = subprocess.Popen(command, cwd=ROOT, env=fault.variables, stdout=file, stderr=subprocess.STDOUT)
    server = Server(process, port, log)
    try:
        until(lambda: answers(server), "an answer")
        yield server
    finally:
        end(process)


def answers(server: Server) -> bool:
    assert server.lives(), server.said()
    try:
        return urllib.request.urlopen(f"{server.url}/health", timeout=5).status == 200
    except OSError:
        return False


def until(done: Callable[[], object], what: str, patience: float = 90) -> None:
    end = time.monotonic() + patience
    while not done():
        assert time.monotonic() < end, f"expected {what}"
        time.sleep(0.05)


def audited(fault: Fault, *arguments: object, **options: object) -> subprocess.CompletedProcess:
    command = fault.command(*GDPO, "audit", *arguments)
    return subprocess.run(command, env=fault.variables, capture_output=True, timeout=180, **options)


# --- whatever is wrong ------------------------------------------------------------------------------------------------


def test_the_page_shows_the_lab_and_audits_an_upload(fault, browser, log_folder):
    with serving(fault, log_folder / "log") as server:
        look_around(browser, server)
        assert fault.noisy or "Traceback" not in server.said(), server.said()


WHOLE = test_the_page_shows_the_lab_and_audits_an_upload.__name__


def opened(browser, server: Server):
    """The page of a new visitor, in its Lab."""
    page = browser.new_page(reduced_motion="reduce")
    page.goto(server.url)
    arrived(page, ".board .bar")
    return page


def look_around(browser, server: Server) -> None:
    """Flip a mark, have the sample audited and then an upload; no error, and no request to another host."""
    page = browser.new_page(reduced_motion="reduce")
    errors, elsewhere = [], []
    page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("request", lambda r: r.url.startswith((server.url, "data:", "blob:")) or elsewhere.append(r.url))
    page.goto(server.url)
    arrived(page, ".board .bar")
    before = page.locator(".board").inner_html()
    page.get_by_role("checkbox").first.click()
    until(lambda: page.locator(".board").inner_html() != before, "a flip that moves the bars")
    page.locator("nav").get_by_role("link", name="Your run").click()
    arrived(page, ".audit.front")
    settled(page)
    upload_sample(page)
    page.close()
    assert server.lives() and not errors and not elsewhere


def test_the_command_audits(fault):
    ran = audited(fault, SAMPLE, "--json", "-")
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout)["run"]["method"] == "gdpo" and not ran.stderr
    ran = audited(fault, SAMPLE)
    assert ran.returncode == 0 and b"GDPO" in ran.stdout and not ran.stderr


def test_without_a_network_the_page_is_whole():
    """In a browser that shares the server's loopback and nothing else."""
    alone = shell("ip link set lo up", "! ip route | grep -q .")
    child = [sys.executable, "-m", "pytest", "-q", "-p", "no:xdist", f"{__file__}::{WHOLE}[none]"]
    ran = subprocess.run(["unshare", "--net", *alone, *child], cwd=ROOT, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout


# --- one thing at a time ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("option", ["--html", "--json"])
@pytest.mark.parametrize("before", [b"last week's report", None])
def test_a_report_on_a_full_disk_is_one_line_and_no_half_a_file(option, before, tmp_path):
    disk, copied = tmp_path / "disk", tmp_path / "copied"
    disk.mkdir()
    (tmp_path / "before").write_bytes(before or b"")
    lines = [
        f"mount -t tmpfs -o size=8k tmpfs {disk}",
        f"cp {tmp_path}/before {disk}/report" if before else ":",
        f'"$@" || status=$?; cp -r {disk} {copied}; exit $status',
    ]
    command = ["unshare", "--mount", "sh", "-ec", "; ".join(lines), "sh", *GDPO, "audit", SAMPLE, option]
    ran = subprocess.run([*map(str, command), str(disk / "report")], cwd=ROOT, capture_output=True, text=True)
    told = f"gdpo: {option[2:]}: expected a file that can be written, got '{disk}/report' (No space left on device)\n"
    assert (ran.returncode, ran.stdout, ran.stderr) == (2, "", told)
    assert {path.name: path.read_bytes() for path in copied.iterdir()} == ({"report": before} if before else {})


@pytest.mark.parametrize("locale", ["C", "POSIX", "tr_TR.UTF-8"])
@pytest.mark.parametrize("name", ["läufe – größe".encode(), "実験".encode(), b"\xff\xfe"])
def test_a_log_has_any_name_in_any_locale(locale, name, tmp_path):
    place = os.path.join(os.fsencode(tmp_path), name)
    shutil.copytree(os.fsencode(SAMPLE), place)
    page = os.path.join(os.fsencode(tmp_path), name + b".html")
    environment = dict(os.environ) | {"LC_ALL": locale, "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    ran = subprocess.run([*GDPO, "audit", place, "--html", page], cwd=ROOT, env=environment, capture_output=True)
    assert ran.returncode == 0 and not ran.stderr, ran.stderr
    assert os.path.getsize(page) > 10_000
    ran = subprocess.run([*GDPO, "audit", place, "--json", "-"], cwd=ROOT, env=environment, capture_output=True)
    assert json.loads(ran.stdout)["source"]["responses"] == 128


def test_who_takes_every_file_descriptor_keeps_nobody_out_for_longer_than_that(tmp_path, browser):
    with serving(FAULTS["few file descriptors"], tmp_path / "log") as server:
        opened(browser, server).close()
        held = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(100)]
        files = Path(f"/proc/{server.process.pid}/fd")
        until(lambda: len(list(files.iterdir())) >= 64, "no file descriptor left")
        assert server.lives()
        for one in held:
            one.close()
        look_around(browser, server)


# --- 512 MB -----------------------------------------------------------------------------------------------------------


def upload_sample(page) -> None:
    page.locator(".upload input[type=file]").set_input_files(sorted(SAMPLE.glob("*.parquet")))
    page.locator(".whose", has_text="Your files:").wait_for()
    arrived(page, ".audit.front")


@contextmanager
def memory(megabytes: int) -> Iterator[tuple[Fault, Callable[[], int]]]:
    """A control group of that much memory, and what it has used at most; either version of control groups."""
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


@pytest.fixture(scope="session")
def million(tmp_path_factory):
    """A million responses as CSV, 37 MB, and 95,000 with texts, 60 MB: the largest upload."""
    generator, folder, n = np.random.default_rng(0), tmp_path_factory.mktemp("million"), 1_000_000
    marks = {name: generator.integers(0, 2, n).astype(float) for name in ("correctness", "style")}
    numbered = {"step": np.arange(n) // 1000, "prompt_id": np.arange(n) // 8}
    table = pl.DataFrame(numbered | marks | {"length": generator.random(n)})
    table.write_csv(folder / "million.csv")
    texts = pl.Series("completion", [generator.bytes(300).hex() for _ in range(100)])
    few = table.head(95_000)
    few.with_columns(texts[np.arange(len(few)) % 100]).write_csv(folder / "texts.csv")
    return folder


@pytest.mark.parametrize("name", ["million.csv", "texts.csv"])
def test_an_audit_in_512_mb(million, name):
    options = (
        "--reward",
        "correctness",
        "--reward",
        "style",
        "--reward",
        "length",
        "--group",
        "prompt_id",
        "--json",
        "-",
    )
    with memory(512) as (fault, peak):
        ran = audited(fault, million / name, *options)
        print(f"{name}: {peak() / 1e6:.0f} MB at most")
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout)["source"]["responses"] in (1_000_000, 95_000)


def test_uploads_into_a_container_of_1_gb_cost_no_visitor_the_page(million, tmp_path):
    """The first are audited, the last are refused by a 413 that says why; the server lives."""
    files = [["texts.csv", b64encode((million / "texts.csv").read_bytes()).decode()]]
    said = []
    with memory(1000) as (fault, peak), serving(fault, tmp_path / "log") as server, ExitStack() as inside:
        for _ in range(4):
            visitor = inside.enter_context(guest(server.url))
            visitor.set(visitor.having("chapters"), at="run", asked={})
            visitor.rest()
            said.append(visitor.choose(visitor.controls("marimo-file")[-1], files))
            if said[-1] == 200:
                visitor.rest()
                assert re.search(rf"Your file: texts.csv|{sessions.NO_ROOM}", "".join(visitor.messages))
        assert answers(server) and said[0] == 200 and said[-1] == 413
        assert server.said().count("413 upload: expected room") == said.count(413)
        print(f"{said}, {peak() / 1e6:.0f} MB at most")


# --- killed -----------------------------------------------------------------------------------------------------------


def test_a_server_that_is_killed_in_mid_upload_and_started_again(million, tmp_path, browser):
    port = unused_port()
    with serving(Fault(), tmp_path / "log", port) as server:
        page = opened(browser, server)
        page.locator("nav").get_by_role("link", name="Your run").click()
        arrived(page, ".audit.front")
        settled(page)
        sent = page.expect_request(lambda request: "set_ui_element_value" in request.url, timeout=120_000)
        with sent:
            page.locator(".upload input[type=file]").set_input_files(million / "texts.csv")
        server.process.send_signal(signal.SIGKILL)
        server.process.wait(10)
    with serving(Fault(), tmp_path / "log", port) as server:
        page.reload()
        arrived(page, ".audit.front")
        settled(page)
        upload_sample(page)
        page.close()
        look_around(browser, server)


@pytest.fixture
def log_folder(tmp_path_factory):
    """Where a server may write its log though /tmp is full: opened outside."""
    return tmp_path_factory.mktemp("log")
