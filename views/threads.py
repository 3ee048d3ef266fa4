"""The number of threads that a computation takes, in the server and in its workers: what computes imports this.

Every visitor has a thread of this process. Threads inside one small computation would only wait for each other.
"""

import torch

torch.set_num_threads(1)
