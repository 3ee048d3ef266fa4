"""Run the benchmarks that are named, as in `python -m benchmarks toggle page`, or, without names, all but the long one,
`recipes`. A benchmark that fails does not stop the next ones.
"""

import sys
import traceback
from importlib import import_module

ALL = ("toggle", "page", "flip", "load", "training", "advantages", "audit")
LONG = ("recipes",)  # minutes to half an hour, by name alone


def main(names: list[str]) -> None:
    """Run the benchmarks of these names in the order given, or all of `ALL` if there are no names. If any of them
    fails, exit with 1 at the end. If a name is unknown, exit with 1 before the first benchmark runs.
    """
    unknown = [name for name in names if name not in (*ALL, *LONG)]
    if unknown:
        sys.exit(f"unknown benchmark {', '.join(unknown)}; there are {', '.join((*ALL, *LONG))}")
    chosen = names or ALL
    failed = {name: fault for name in chosen if (fault := _fault_of(name))}
    if failed:
        listed = "".join(f"\n  {name}: {fault}" for name, fault in failed.items())
        sys.exit(f"\n{len(failed)} of {len(chosen)} benchmarks failed:{listed}")


def _fault_of(name: str) -> str:
    """Run one benchmark. Return "" if it did not fail; else print the traceback, and return the kind of the error and
    the first line of its message.
    """
    try:
        import_module(f"benchmarks.{name}").run()
    except (Exception, SystemExit) as fault:
        traceback.print_exc()
        return f"{type(fault).__name__}: {fault}".splitlines()[0]
    return ""


if __name__ == "__main__":
    main(sys.argv[1:])
