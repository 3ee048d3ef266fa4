"""Imports and draws of the process from which all workers are forked, so that none of them does it again.

Only torch works in it: polars would have threads, which a fork loses and its children wait for.
"""

import gdpo_audit.advice  # noqa: F401 (of_group runs in workers)
from gdpo_core.bfcl.prompts import other_orders
from views.draws import MODELS, PROMPTS

other_orders(PROMPTS, MODELS)
