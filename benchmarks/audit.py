"""A benchmark of the time and memory that `gdpo audit` takes. It audits a million responses in one Parquet file or in
one per step, and ten million in many files.
"""

import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

import numpy as np
import polars as pl

import gdpo_core as gc
from benchmarks.table import judge, record, show

GROUP, PROMPTS = 8, 125  # a step has 1,000 responses
TEXTS, CHARACTERS = 5_000, (200, 600)  # how many different prompts and completions there are, and how long each of them
SECONDS, MEGABYTES = 2, 600  # the targets for a million responses, measured inside the process
LARGE = 10  # millions of responses in the largest log, which has files of a hundred steps

# This runs in a process of its own, since a peak of memory is that of a process, and so that imports are told apart
# from the work.
MEASURED = """
import resource, sys, time
def peak():
    own = [line for line in open("/proc/self/status") if line.startswith("VmHWM")]
    return int(own[0].split()[1]) / 1024 if own else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
start = time.perf_counter()
import gdpo_audit as ga
imported, before = time.perf_counter() - start, peak()
start = time.perf_counter()
report = ga.audit(ga.read_run(sys.argv[1]))
audited = time.perf_counter() - start
source, run = report.source, report.run
print(imported, before, audited, peak(), source["responses"], source["groups"], run["method"], run["max_error"])
"""


def run(repeats: int = 3, millions: int = LARGE) -> None:
    """Write the logs, audit each in new processes, check that every response was read, and print the table.

    repeats: how many processes audit each log, one after the other.
    millions: how many million responses the largest log has.
    """
    with tempfile.TemporaryDirectory() as folder:
        logs = {
            "1 M in one file": write_log(Path(folder) / "one", steps=1000, steps_a_file=1000),
            "1 M in 1,000 files": write_log(Path(folder) / "many", steps=1000, steps_a_file=1),
            f"{millions} M in {10 * millions} files": write_log(
                Path(folder) / "large", steps=1000 * millions, steps_a_file=100
            ),
        }
        found = {name: _measure(path, steps, repeats) for name, (path, steps) in logs.items()}
    show(
        f"audit from Parquet, 3 rewards, groups of {GROUP}, texts beside them; medians of {repeats} processes",
        ("", "measured", "target", ""),
        [
            row
            for (name, f), seconds in zip(found.items(), (SECONDS, SECONDS, None), strict=True)
            for row in (
                [name, *(judge(f["s"], seconds, "s") if seconds else [f"{f['s']:.2f} s", "", ""])],
                [f"  peak memory, {f['import_mb']:.0f} MB of it imports", *judge(f["peak_mb"], MEGABYTES, "MB")],
            )
        ],
    )
    record("audit", **{name.replace(",", "").replace(" ", "_"): f for name, f in found.items()})


def _measure(path: Path, steps: int, repeats: int) -> dict[str, float]:
    """Audit a log in new processes, one after the other, and return four medians over these processes.

    "import_s" and "import_mb" are the seconds and MB of the imports, "s" is the seconds of the audit, and "peak_mb" the
    MB at the peak.

    path: the log.
    steps: how many steps it has.
    repeats: how many processes audit it.

    Raises RuntimeError if an audit missed some of the responses, or if it did not find that GDPO made the advantages,
    to within 2e-6.
    """
    command = [sys.executable, "-c", MEASURED, path]
    runs = [subprocess.run(command, check=True, capture_output=True, text=True).stdout.split() for _ in range(repeats)]
    for *_, responses, groups, method, error in runs:
        right = int(responses) == steps * PROMPTS * GROUP and int(groups) == steps * PROMPTS and method == "gdpo"
        if not right or float(error) > 2e-6:
            raise RuntimeError(f"{path.name}: {responses} responses, {groups} groups, {method}, off by {error}")
    columns = zip(*(map(float, row[:4]) for row in runs), strict=True)
    return dict(zip(("import_s", "import_mb", "s", "peak_mb"), map(median, columns), strict=True))


def write_log(folder: Path, steps: int, steps_a_file: int, seed: int = 0) -> tuple[Path, int]:
    """Write a log with TRL's columns to `folder`/completions, with random rewards and GDPO's advantages; return
    `folder` and `steps`.

    steps: the number of steps of the log.
    steps_a_file: how many steps one Parquet file holds.
    seed: the seed of the random rewards.
    """
    completions = folder / "completions"
    completions.mkdir(parents=True)
    generator = np.random.default_rng(seed)
    prompts, answers = ([generator.bytes(n // 2).hex() for _ in range(TEXTS)] for n in CHARACTERS)
    prompts, answers = pl.Series(prompts), pl.Series(answers)
    for first in range(0, steps, steps_a_file):
        rewards = generator.random((steps_a_file, PROMPTS, GROUP, 3), dtype=np.float32)
        rewards[..., :2] = rewards[..., :2] < 0.4  # two of the three are 0 or 1
        made = [gc.gdpo(r, weights=(1, 0.5, 2), convention=gc.TRL).numpy().ravel() for r in rewards]
        asked = generator.integers(TEXTS, size=steps_a_file * PROMPTS).repeat(GROUP)
        a, b, c = np.moveaxis(rewards.reshape(-1, 3), 1, 0).astype(np.float64)
        numbered = pl.int_range(len(asked), eager=True).cast(pl.String)  # no two completions are the same
        table = pl.DataFrame(
            {
                "step": np.arange(first + 1, first + steps_a_file + 1).repeat(PROMPTS * GROUP),
                "prompt": prompts[asked],
                "completion": answers[generator.integers(TEXTS, size=len(asked))] + numbered,
                "correct": a,
                "format": b,
                "length": c,
                "advantage": np.concatenate(made).astype(np.float64),
            }
        )
        table.write_parquet(completions / f"completions_{first + steps_a_file:05d}.parquet")
    return folder, steps


if __name__ == "__main__":
    run()
