"""Check a built image as a cautious host would run it: `python scripts/check_image.py podman reward-policy-intuition`.

The container runs as user 1000, with a read-only root and without capabilities, and it can get none. The check ends
with the first thing that is not as it should be. The script needs nothing but Python; only to open the Lab in a browser
it also needs Playwright and Chromium.
"""

import json
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from urllib.request import urlopen

LARGEST = 1.4e9  # bytes
PATIENCE = 120  # seconds to wait for anything, as the machine may have other work to do
PORT = 7860  # of the page inside the container
HELD = ("--read-only", "--tmpfs", "/tmp", "--cap-drop", "all", "--security-opt", "no-new-privileges")
SAMPLE = "data/samples/trl_gdpo"
# Prints what should not be in the image: what the page does not need but an attacker might, or what makes it large.
UNWANTED = (
    "command -v gcc cc g++ c++ clang make; ls -d /app/tests /app/.git /root/.cache /venv/bin/pip 2>/dev/null; true"
)


def expect(true: object, told: str) -> None:
    """Print `told` if a check had a true result. If not, end the programme with an error that says that `told` was
    expected.

    true: the result of the check.
    told: words for what the check expects.
    """
    if not true:
        sys.exit(f"image: expected {told}")
    print(f"  {told}")


def output_of(engine: str, *arguments: str) -> str:
    """Return what a command of podman or docker prints; if the command fails, end the programme with what went
    wrong.
    """
    ran = subprocess.run([engine, *arguments], capture_output=True, text=True)
    if ran.returncode:
        sys.exit(f"image: {engine} {' '.join(arguments)} ended with {ran.returncode}: {ran.stderr.strip()}")
    return ran.stdout


def check(engine: str, image: str) -> None:
    """Run the image, check it from inside and outside, and remove the container again.

    engine: podman or docker.
    """

    health = check_description(engine, image)
    started = time.monotonic()
    name = f"check-image-{started:.0f}"
    port = unused_port()
    output_of(engine, "run", "-d", "--name", name, "-p", f"127.0.0.1:{port}:{PORT}", *HELD, image)
    inside = partial(output_of, engine, "exec", name)
    try:
        healthy = [engine, "exec", name, *health]
        until(lambda: subprocess.run(healthy, capture_output=True).returncode == 0, "a healthy server")
        expect(True, f"healthy {time.monotonic() - started:.1f} s after it was started")
        check_rights(inside)
        expect(not inside("sh", "-c", UNWANTED), "no compiler, no cache, no tests, no pip in it")
        report = json.loads(inside("gdpo", "audit", SAMPLE, "--json", "-"))
        expect(report["source"]["responses"] > 0, f"gdpo audit {SAMPLE}: method {report['run']['method']}")
        address = f"http://127.0.0.1:{port}/"
        expect(b"marimo" in urlopen(address, timeout=20).read(), "the page travels")
        in_a_browser(address)
        used = inside("cat", "/proc/1/status")
        peak = next(int(line.split()[1]) for line in used.splitlines() if line.startswith("VmHWM"))
        expect(peak < 1e6, f"{peak / 1e3:.0f} MB of memory at most")
        logs = subprocess.run([engine, "logs", name], capture_output=True, text=True)
        expect("Traceback" not in logs.stdout + logs.stderr, "no traceback in its log")
    finally:
        subprocess.run([engine, "rm", "-f", name], capture_output=True)


def check_description(engine: str, image: str) -> list[str]:
    """Check size, user and health check of an image before it runs, and return the command of the health check.

    engine: the programme that runs images, docker or podman.
    """
    (about,) = json.loads(output_of(engine, "image", "inspect", image))
    config, size = about["Config"], about["Size"]
    health = config.get("Healthcheck") or about.get("Healthcheck", {"Test": ["NONE"]})  # docker's place, podman's
    expect(size <= LARGEST, f"{size / 1e9:.2f} GB, at most {LARGEST / 1e9:g}")
    expect(config["User"] == "1000", f"user 1000: {config['User']}")
    kind, *command = health["Test"]
    expect(kind == "CMD", "a HEALTHCHECK")
    return command


def check_rights(inside: Callable[..., str]) -> None:
    """Check that the server has no rights but the rights of its user, and that nothing but /tmp can be written.

    inside: runs a command in the container and returns its output.
    """
    status = dict(line.split(":\t", 1) for line in inside("cat", "/proc/1/status").splitlines() if ":\t" in line)
    expect(status["Uid"].split() == ["1000"] * 4, "uid 1000, whoever asks")
    expect(int(status["CapEff"], 16) == int(status["CapBnd"], 16) == 0, "no capability, and none to be had")
    expect(status["NoNewPrivs"].strip() == "1", "no new privileges")
    tried = inside("sh", "-c", "touch /app/x /venv/x 2>/dev/null; ls /app/x /venv/x 2>/dev/null; touch /tmp/x; true")
    expect(not tried, "nothing can be written but /tmp")


def in_a_browser(address: str) -> None:
    """Open the Lab in a browser, flip a mark, and check that nothing fails and no other host is asked for anything.

    Without a browser, only print that this was left out.
    """
    left_out = "  left out: the Lab in a browser, which needs Chromium and .venv with the extra dev"
    if find_spec("playwright") is None:
        return print(left_out)
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
    from benchmarks.browser import NAMES, PAGE, browser

    if not any(map(shutil.which, NAMES)):
        return print(left_out)
    asked, errors = set(), []
    with browser() as running:
        page = running.new_page(**PAGE)
        page.on("request", lambda request: asked.add(request.url))
        page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.goto(address)
        board = page.locator(".board")
        board.locator(".bar").first.wait_for(timeout=PATIENCE * 1000)
        before = board.inner_html()
        page.get_by_role("checkbox").first.click()
        until(lambda: board.inner_html() != before, "a flip that moves the bars")
    expect(not errors, f"the Lab in a browser, and a flip that moves its bars {errors or ''}".strip())
    elsewhere = [url for url in asked if not url.startswith((address, "data:", "blob:"))]
    expect(not elsewhere, f"no request to another host {elsewhere or ''}".strip())


def until(done: Callable[[], bool], told: str) -> None:
    """Wait until `done()` is true, or end the programme after `PATIENCE` seconds.

    told: what is waited for, in words.
    """
    end = time.monotonic() + PATIENCE
    while not done():
        if time.monotonic() > end:
            sys.exit(f"image: expected {told}, got none in {PATIENCE} s")
        time.sleep(0.2)


def unused_port() -> int:
    """Return a port of this machine on which nobody listens at the moment."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


if __name__ == "__main__":
    check(*sys.argv[1:])
