"""The imports and the random orders that the process from which all workers are forked makes once for all of them.

Of the libraries that compute, that process may use torch alone: polars would start threads, which a fork loses and for
which its children would wait.
"""

import gdpo_audit.advice  # noqa: F401 (of_group runs in workers)
from gdpo_core.bfcl.prompts import other_orders
from views.draws import MODELS, PROMPTS

other_orders(PROMPTS, MODELS)
