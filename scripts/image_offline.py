"""`make image` on a Debian machine without a container registry, as root: `python scripts/image_offline.py`.

The base image is a stand-in that debootstrap makes and podman tags with the Dockerfile's name for it. Needs the
packages podman, runc and debootstrap. pip inside the build sees what it sees outside: its settings, its folders, its
certificates. Images stay in .image/ for the next run; `make clean` removes them.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
WORK = ROOT / ".image"
STORAGE = '[storage]\ndriver = "overlay"\ngraphroot = "{work}/graph"\nrunroot = "{work}/run"\n'
# No systemd and no limits to raise: a container that runs inside another machine's.
ENGINE = """[containers]
default_ulimits = ["nofile=4096:4096", "nproc=4096:4096"]
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"
"""
PACKAGES = "ca-certificates,python3,python3-pip,python3-venv"
BASE_PATH = "ENV PATH=/usr/local/bin:/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin"


def main() -> None:
    """Make the base if it is not there, then let make build and check as ever."""
    WORK.mkdir(exist_ok=True)
    for variable, name, text in (
        ("CONTAINERS_STORAGE_CONF", "storage.conf", STORAGE.format(work=WORK)),
        ("CONTAINERS_CONF", "containers.conf", ENGINE),
    ):
        (WORK / name).write_text(text)
        os.environ[variable] = str(WORK / name)
    name = re.search(r"^FROM (\S+)", (ROOT / "Dockerfile").read_text(), re.M)[1]
    base = f"docker.io/library/{name}"
    if subprocess.run(["podman", "image", "exists", base]).returncode:
        stand_in(base)
    build = ["--pull=never", "--isolation=chroot", *mounts()]
    os.execvp("make", ["make", "-C", str(ROOT), "image", "ENGINE=podman", f"BUILD={' '.join(build)}"])


def stand_in(base: str) -> None:
    """A minimal Debian with its Python under that name, from where this machine takes its packages."""
    sources = "\n".join(path.read_text() for path in sorted(Path("/etc/apt/sources.list.d").glob("*.sources")))
    mirror = re.findall(r"^URIs: *(\S+)", sources, re.M)[:1]  # without one, debootstrap's own
    release = re.search(r"^VERSION_CODENAME=(\w+)", Path("/etc/os-release").read_text(), re.M)[1]
    files, tar = WORK / "files", WORK / "files.tar"
    with (WORK / "debootstrap.log").open("w") as log:
        call("debootstrap", "--variant=minbase", f"--include={PACKAGES}", release, str(files), *mirror, stdout=log)
    for left in ("usr/lib/python3*/EXTERNALLY-MANAGED", "var/lib/apt/lists/*_*", "var/cache/apt/archives/*.deb"):
        for path in files.glob(left):
            path.unlink()
    (files / "usr/local/bin/python").symlink_to("/usr/bin/python3")
    call("tar", "-C", str(files), "-cf", str(tar), ".")
    call("podman", "import", "-q", "-c", BASE_PATH, str(tar), base)
    call("rm", "-r", str(files), str(tar))


def mounts() -> list[str]:
    """Options of the build that lend it pip's settings and the files that they name."""
    listed = subprocess.run(
        [sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True, check=True
    ).stdout
    settings = re.findall(r"^global\.([\w-]+)='(.*)'$", listed, re.M)
    config = WORK / "pip.conf"
    config.write_text("[global]\n" + "".join(f"{key} = {value}\n" for key, value in settings))
    # An index of files lies in simple/, and the packages that it names beside it.
    paths = {word.removeprefix("file://").removesuffix("/simple") for _, value in settings for word in value.split()}
    there = sorted(path for path in paths if path.startswith("/") and Path(path).exists())
    return [f"--volume={config}:/etc/pip.conf:ro", *(f"--volume={path}:{path}:ro" for path in there)]


def call(*command: str, **options: object) -> None:
    """Run a command; its own words say what went wrong."""
    if subprocess.run(command, **options).returncode:
        sys.exit(f"image-offline: {command[0]} failed")


if __name__ == "__main__":
    main()
