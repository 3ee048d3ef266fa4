"""The memory that is left to this server, so that one visitor's files are refused before the server dies of them."""

from math import inf
from pathlib import Path

GROUPS = Path("/sys/fs/cgroup")
# By version of control groups: folder, the limit, what is used, and in memory.stat the pages that can be given back.
VERSIONS = (
    ("", "memory.max", "memory.current", "inactive_file"),
    ("memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
)


def left() -> float:
    """Bytes that this process may still take, by its control group; infinity where that has no limit.

    >>> left() > 0
    True
    """
    return min((_of(GROUPS / folder / path, *names) for folder, *names in VERSIONS for path in _paths(folder)))


def _paths(controller: str) -> list[str]:
    """Where this process's group may lie: in a container at the top, else below."""
    try:
        lines = [line.split(":", 2) for line in Path("/proc/self/cgroup").read_text().splitlines()]
    except OSError:
        return ["."]
    return [".", *(path.lstrip("/") for _, names, path in lines if controller in names.split(","))]


def _of(group: Path, limit: str, used: str, idle: str) -> float:
    try:
        most, now = int((group / limit).read_text()), int((group / used).read_text())
        stat = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
        return most - now + int(stat[idle])
    except (OSError, ValueError, KeyError):  # no such group, or "max"
        return inf
