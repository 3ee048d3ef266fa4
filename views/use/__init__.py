"""Use it: when to use which method, the lines for a trainer, whether to use them, and what is said about GDPO."""

from views.use import advise, claims, configure, which

__all__ = ["advise", "claims", "configure", "which"]
