"""Importing this module, as the server and its workers do, sets torch to one thread per computation.

Every visitor has a thread of this process. Threads inside one small computation would only wait for each other.
"""

import torch

torch.set_num_threads(1)
