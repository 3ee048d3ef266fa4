"""The board's drawings are made in a process of their own, so that nothing else that the server does holds them up.

A drawing is some 500 calls of torch, each of which lets another thread in and waits for the interpreter afterwards.
"""

import threading
from functools import lru_cache
from multiprocessing.connection import Connection

import torch

from gdpo_core.board.drawing import draw
from gdpo_core.board.state import State
from views import worker

SECONDS = 5  # a drawing takes ten thousandths of that
_turn = threading.Lock()
_pipe: Connection | None = None


def start() -> None:
    """Start the process, or another one in place of it."""
    global _pipe
    _pipe = worker.start(_draw_all)


@lru_cache(maxsize=1024)
def drawn(state: State, names: tuple[str, ...]) -> dict:
    """What `draw` returns; made here while there is no such process."""
    with _turn:
        try:
            if _pipe:
                _pipe.send((state, names))
                if _pipe.poll(SECONDS):
                    return _pipe.recv()
                raise EOFError
        except (EOFError, OSError):
            start()
        return draw(state, names)


def _draw_all(pipe: Connection) -> None:
    torch.set_num_threads(1)
    while True:
        try:
            state, names = pipe.recv()
        except (EOFError, OSError):
            return
        pipe.send(draw(state, names))
