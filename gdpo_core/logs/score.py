"""shim: the lead removes it."""

from gdpo_core.runs.verl import weights_of  # noqa: F401  # shim: the lead removes it
