"""Preparations that are made once for all workers, in the process from which they are forked: imports, and the random
orders from which Evidence draws answers.

That process may compute with torch alone. polars would start threads, which a fork loses and for which the forked
processes would wait.
"""

import gdpo_audit.advice.advice  # noqa: F401 (of_group runs in workers)
import gdpo_core.checking.check  # noqa: F401 (check_config runs in workers)
import views.server.uploads  # audit_upload runs in workers
import views.studies.scenarios  # noqa: F401 (train_probabilities runs in workers)
from views.bfcl.prompts import other_orders
from views.server.draws import MODELS, PROMPTS

other_orders(PROMPTS, MODELS)
