"""`python -m tests.fuzz [TARGET…] [--seconds N]` runs atheris on each target, in a process of its own.

atheris drives libFuzzer by the coverage of our Python code. What a target raises is kept as a finding in
.fuzz/TARGET/findings, each kind once, and the fuzzer goes on. A crash or a timeout of the process ends it, and
libFuzzer writes the input that caused it.
"""

import argparse
import hashlib
import os
import subprocess
import sys
import traceback
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
HOME = ROOT / ".fuzz"
LIMITS = {
    "timeout": 120,  # seconds that one input may take
    "malloc_limit_mb": 2500,  # that it may ask for at once
    "rss_limit_mb": 8000,  # what atheris adds to our code keeps 0.1 MB per input, which the code alone does not
    "max_len": 65536,  # bytes of an input
    "report_slow_units": 60,
    "print_final_stats": 1,
    "len_control": 0,
    "dict": HERE / "words.dict",
}


def fuzz(name: str, seconds: int) -> None:
    """Fuzz one target in this process, which libFuzzer ends after so many seconds. name: of the target."""
    import atheris

    os.environ.setdefault("POLARS_MAX_THREADS", "1")  # handing a small file from thread to thread takes longest
    with atheris.instrument_imports(include=["gdpo_core", "gdpo_audit", "views"], exclude=["views.bfcl"]):
        from tests.fuzz import targets
    target = targets.TARGETS[name]
    home = HOME / name
    corpus, findings = home / "corpus", home / "findings"
    for folder in (corpus, findings):
        folder.mkdir(parents=True, exist_ok=True)
    for seed in targets.seeds(name):
        (corpus / hashlib.sha1(seed).hexdigest()).write_bytes(seed)
    seen: set[str] = set()

    def one(data: bytes) -> None:
        """Give the target one input, and keep the input if the target raises something new."""
        if not data:
            return
        try:
            targets.expect_refusal(target, data)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:
            where = [f"{Path(f.filename).name}:{f.lineno}" for f in traceback.extract_tb(error.__traceback__)]
            if (mark := f"{type(error).__name__} {where[-3:]}") not in seen:
                seen.add(mark)
                (findings / hashlib.sha1(data).hexdigest()).write_bytes(data)
                print(f"FINDING {name}: {mark}: {str(error)[:300]!r}", flush=True)
                print("    " + " ".join(where), flush=True)

    options = LIMITS | {"max_total_time": seconds, "artifact_prefix": f"{findings}/"}
    given = [f"-{option}={value}" for option, value in options.items()]
    atheris.Setup([sys.argv[0], *given, str(corpus)], one)
    atheris.Fuzz()


def main() -> int:
    """Fuzz the targets that are named, or all; return 0 if nothing was found."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("targets", nargs="*")
    parser.add_argument("--seconds", type=int, default=120)
    parser.add_argument("--here", action="store_true", help="run the one target in this process")
    given = parser.parse_args()
    if given.here:
        fuzz(given.targets[0], given.seconds)
        return 0
    from tests.fuzz.targets import TARGETS

    status = 0
    for name in given.targets or TARGETS:
        command = [sys.executable, "-m", "tests.fuzz", name, "--here", "--seconds", str(given.seconds)]
        done = subprocess.run(command, cwd=ROOT, check=False)
        found = [path for path in (HOME / name / "findings").iterdir() if path.is_file()]
        print(f"{name}: exit {done.returncode}, {len(found)} findings in {HOME / name / 'findings'}")
        status |= done.returncode != 0 or bool(found)
    return status


if __name__ == "__main__":
    sys.exit(main())
