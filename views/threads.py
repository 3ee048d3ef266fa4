"""The number of threads of a computation of torch, in the server and in its workers: one, set by importing this module.

Every visitor has a thread of this process. Threads inside one small computation would only wait for each other.
"""

import torch

torch.set_num_threads(1)
