"""shim: the lead removes it."""

from gdpo_core.runs.files import TABLES, UNRELATED  # noqa: F401  # shim: the lead removes it
