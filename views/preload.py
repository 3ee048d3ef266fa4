"""What the process that all workers are forked from has imported and drawn, so that none of them does it again.

Only torch works in it: polars would have threads, which a fork loses and its children wait for.
"""

from gdpo_core.advice import of_group
from gdpo_core.bfcl.prompts import other_orders
from views.evidence.draws import MODELS, PROMPTS

__all__ = ["of_group"]
other_orders(PROMPTS, MODELS)
