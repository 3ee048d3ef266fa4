"""What is drawn: plain data in, a view out."""

import torch

# Every visitor has a thread of this process. Threads inside one small computation would only wait for each other.
torch.set_num_threads(1)
