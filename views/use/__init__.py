"""The chapter Use it: when to use which method, lines for a trainer, advice, the check of a configuration, and claims
about GDPO.
"""

from views.use import advise, check, claims, configure, which

__all__ = ["advise", "check", "claims", "configure", "which"]
