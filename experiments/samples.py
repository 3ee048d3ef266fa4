"""Two of the runs as samples of Your run; `python -m experiments.samples --runs FOLDER` writes them to data/samples.

TRL writes a file per step; a sample is the first of them as one file, row for row: the part in which a reward on a
large scale decides under GRPO, before it is learned.
"""

import argparse
import sys
from pathlib import Path

import polars as pl

from experiments.setups import METHODS
from gdpo_core._errors import InputError

SAMPLES = Path(__file__).resolve().parent.parent / "data" / "samples"
SETUP, SEED, STEPS = "pays_5", 0, 50


def pack(run: Path, out: Path) -> None:
    """Write the completions of the first steps of a run as one file; InputError where there are none."""
    files = sorted((run / "completions").glob("*.parquet"))[:STEPS]
    if not files:
        raise InputError(f"{run}: expected the completions of a run, got none: python -m experiments.train makes them")
    out.parent.mkdir(parents=True, exist_ok=True)
    pl.concat([pl.read_parquet(file) for file in files]).write_parquet(out, compression="zstd", compression_level=19)


def main() -> int:
    """Write the sample of each method; 2 with one sentence where there are no runs."""
    parser = argparse.ArgumentParser(prog="python -m experiments.samples", description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=Path, required=True, help="folder of the runs")
    folder = parser.parse_args().runs
    try:
        for method in METHODS:
            out = SAMPLES / f"{SETUP}_{method}" / "completions.parquet"
            pack(folder / SETUP / method / str(SEED), out)
            print(f"{out}: {out.stat().st_size / 1000:.0f} kB")
    except InputError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
