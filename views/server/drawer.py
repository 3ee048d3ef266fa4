"""A process of its own that draws the board, so that nothing else that the server does holds a drawing up.

A drawing makes some 500 calls of torch. In the server's own process each call would let another thread run, and then
wait for the interpreter.
"""

import contextlib
import threading
from functools import lru_cache
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess

from gdpo_core.board.drawing import draw
from gdpo_core.board.state import State
from views.server import worker

SECONDS = 5  # a drawing takes a thousandth of that
_turn = threading.Lock()
_process: BaseProcess | None = None
_pipe: Connection | None = None


def start_drawer() -> None:
    """Start the process that draws; if one runs already, it is ended first."""
    global _process, _pipe
    stop()
    _process = _pipe = None
    _process, _pipe = worker.start_process(_draw_all)


def stop() -> None:
    """End the process that draws, if there is one."""
    if _process and _pipe:
        _pipe.close()
        _process.kill()
        _process.join()


@lru_cache(maxsize=1024)
def drawn(state: State) -> dict:
    """Return what `gdpo_core.board.drawing.draw` returns for a state of the board, computed in the process that draws.

    The last 1024 drawings are kept. If the process that draws is gone or takes longer than `SECONDS`, another one is
    started if that is possible, and the calling process computes this drawing itself.
    """
    with _turn:
        try:
            if not _pipe:
                raise EOFError
            _pipe.send(state)
            if _pipe.poll(SECONDS):
                return _pipe.recv()
        except (EOFError, OSError):
            pass
        with contextlib.suppress(EOFError, OSError):  # where there is no room for one
            start_drawer()
        return draw(state)


def _draw_all(pipe: Connection) -> None:
    """Answer each state of the board that comes through the pipe with its drawing, until the pipe is closed."""
    while True:
        try:
            state = pipe.recv()
        except (EOFError, OSError):
            return
        pipe.send(draw(state))
