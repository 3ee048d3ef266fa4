from gdpo_core.training import step_advantages as advantages  # shim: the lead removes it

__all__ = ["advantages"]
