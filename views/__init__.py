"""What is drawn: plain data in, a view out."""

from threading import Lock

import torch

# Every visitor has a thread of this process. Threads inside one small computation would only wait for each other.
torch.set_num_threads(1)

# Every call of torch lets another thread in: drawings and epochs of training that run at once would wait for the
# interpreter at each. One of them runs at a time.
TURN = Lock()
