"""Use it: when to use which method, lines for a trainer, whether to use them, a check, and what is said of GDPO."""

from views.use import advise, check, claims, configure, which

__all__ = ["advise", "check", "claims", "configure", "which"]
