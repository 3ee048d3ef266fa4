"""The chapter Use it: three questions and a verdict, lines for a trainer, advice, the check of a configuration, when to
use which method, and claims about GDPO.
"""

from views.chapters.use import advise, check, configure, published_claims, questions, which

__all__ = ["advise", "check", "configure", "published_claims", "questions", "which"]
