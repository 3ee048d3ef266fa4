"""Old import paths that documents once named, answered for one release with the sentence that names the new path."""

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

NEW_PATHS = {  # from 0.1 on; the table goes with the release after the next
    "gdpo_audit.check_command": "gdpo_audit.command.check_command",
    "gdpo_audit.cli": "gdpo_audit.command.cli",
    "gdpo_audit.compare": "gdpo_audit.comparing.compare",
    "gdpo_audit.explanations": "gdpo_audit.advice.explanations",
    "gdpo_audit.findings.claims": "gdpo_audit.facts.claims",
    "gdpo_audit.findings.facts": "gdpo_audit.facts.facts",
    "gdpo_audit.findings.forecast": "gdpo_audit.trials.run_forecast",
    "gdpo_audit.findings.plan": "gdpo_audit.trials.plan",
    "gdpo_audit.findings.sums": "gdpo_audit.sums.sums",
    "gdpo_audit.findings.thresholds": "gdpo_audit.thresholds",
    "gdpo_audit.findings.what_if": "gdpo_audit.trials.what_if",
    "gdpo_audit.judging": "gdpo_audit.comparing.judging",
    "gdpo_audit.report.html": "gdpo_audit.report.pages.html",
    "gdpo_audit.report.terminal": "gdpo_audit.report.printing.terminal",
    "gdpo_audit.selftest": "gdpo_audit.command.selftest",
    "gdpo_audit.speeds": "gdpo_audit.comparing.speeds",
    "gdpo_audit.watch": "gdpo_audit.command.watch",
    "gdpo_core._errors": "gdpo_core.shared.errors",
    "gdpo_core._words": "gdpo_core.shared.words",
    "gdpo_core._pairs": "gdpo_core.numerics.pairs",
    "gdpo_core.callbacks": "gdpo_audit.callback",
    "gdpo_core.forecast_pushes": "gdpo_core.pushes_by_rate",
    "gdpo_core.means": "gdpo_core.bounds.means",
    "gdpo_core.term_lengths": "gdpo_core.bounds.term_lengths",
}


class OldPaths(MetaPathFinder):
    """A finder of modules that refuses an old path with the new one."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return None for any name but an old one.

        Raises ModuleNotFoundError for an old path; without its name, as Python passes over a missing module that
        `from package import name` asks for by that name.
        """
        if fullname in NEW_PATHS:
            raise ModuleNotFoundError(f"{fullname} is now {NEW_PATHS[fullname]}: import it from there")
        return None


def answer_old_paths() -> None:
    """Have old paths answered, once in a process."""
    if not any(isinstance(finder, OldPaths) for finder in sys.meta_path):
        sys.meta_path.insert(0, OldPaths())
