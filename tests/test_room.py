"""The memory that is left to a server, from files as the kernel writes them, and files that are too large for it."""

from dataclasses import dataclass
from math import inf

import pytest

import gdpo_core as gc
from views import room, run


@dataclass
class File:
    name: str
    contents: bytes


@pytest.mark.parametrize(
    ("files", "left"),
    [
        ({}, inf),
        ({"memory.max": "max\n", "memory.current": "5\n", "memory.stat": "inactive_file 1\n"}, inf),
        ({"memory.max": "100\n", "memory.current": "90\n", "memory.stat": "anon 7\ninactive_file 30\n"}, 40),
        (
            {
                "memory/memory.limit_in_bytes": "100\n",
                "memory/memory.usage_in_bytes": "90\n",
                "memory/memory.stat": "total_inactive_file 5\n",
            },
            15,
        ),
    ],
)
def test_what_a_control_group_leaves(tmp_path, monkeypatch, files, left):
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(room, "GROUPS", tmp_path)
    assert room.left() == left


def test_files_that_would_take_more_than_is_left_are_refused(monkeypatch):
    rows = b"group,correct,style\n1,1,0\n1,0,1\n" + b"\n" * 10**6
    told = "expected files that fit into this server's memory, got 1.0 MB, which may take {} MB where 5 MB are left"
    monkeypatch.setattr(room, "left", lambda: 5e6)
    for name, needed in {"run.csv": 6, "run.Parquet": 22, "run.zip": 22}.items():
        with pytest.raises(gc.InputError, match=told.format(needed)):
            run.read(run.SAMPLES[0], [File(name, rows)], run.Reading())
    monkeypatch.setattr(room, "left", lambda: 7e6)
    assert run.read(run.SAMPLES[0], [File("run.csv", rows)], run.Reading()).run.rewards
