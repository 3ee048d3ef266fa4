"""All benchmarks, or those named: `python -m benchmarks toggle page`."""

import sys
from importlib import import_module

ALL = ("toggle", "page", "load", "training", "advantages", "counts", "collapse", "audit")
IN_A_BROWSER = {"toggle", "page"}


def main(names: list[str]) -> None:
    """Run the benchmarks of these names in their order, all without names."""
    unknown = [name for name in names if name not in ALL]
    if unknown:
        sys.exit(f"unknown benchmark {', '.join(unknown)}; there are {', '.join(ALL)}")
    chosen = names or ALL
    if IN_A_BROWSER & set(chosen):
        # Before anything is measured, so that a missing browser is said at once.
        import_module("benchmarks.browser").executable()
    for name in chosen:
        import_module(f"benchmarks.{name}").run()


if __name__ == "__main__":
    main(sys.argv[1:])
