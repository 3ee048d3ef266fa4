"""The published answers, for what still asks here; their place is gdpo_core/bfcl/prompts.py."""

from gdpo_core.bfcl.prompts import OUTCOMES, WEIGHTS, models, published
from gdpo_core.bfcl.prompts import READINGS as GRADERS

__all__ = ["GRADERS", "OUTCOMES", "WEIGHTS", "models", "published"]
