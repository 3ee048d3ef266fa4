"""The server of the page: marimo's own ASGI app behind ordinary middleware. `python serve.py --host --port
--base-url`
"""

import contextlib
import importlib
import os
import shutil
import signal
import sys
import threading
import time
import traceback
from collections.abc import Mapping
from multiprocessing.util import get_temp_dir
from pathlib import Path
from typing import Annotated

import typer

from gdpo_core.shared.extras import stops_without

with stops_without("page", "serve.py"):
    from views.server import memory, sessions

Port = Annotated[int, typer.Option(min=1, max=65535)]


def proxies(environment: Mapping[str, str]) -> str:
    """Return, as one text, the addresses of the proxies whose header X-Forwarded-For is believed.

    They are the addresses in FORWARDED_ALLOW_IPS, if the operator has set it. Otherwise they are the internal addresses
    on a Space of Hugging Face, which stands behind a proxy of its own, and elsewhere this machine alone. If SPACE_ID is
    set, the server runs on a Space.

    environment: the variables of the environment, by name.
    """
    return environment.get("FORWARDED_ALLOW_IPS", "10.0.0.0/8" if "SPACE_ID" in environment else "127.0.0.1")


def load() -> None:
    """Import what the page's cells import, above all torch, while a browser still fetches the page. Then let sessions
    begin.

    The cells' own imports then take no time. An import that fails here would fail in every session, so it ends the
    process. Ten seconds after the imports, `prepare` is called, which starts the process that draws boards.
    """
    sys.setswitchinterval(0.0005)  # while this thread imports, the server's answers wait for its turns to end
    try:
        importlib.import_module("views.chapters.lab.answers")
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    sys.setswitchinterval(0.005)
    sessions.may_begin.set()
    time.sleep(10)  # by then the first visitors have the page, and none of them has reached the chapter Train yet
    prepare()


def prepare() -> None:
    """Start the process in which boards are drawn from then on. Its start also starts the fork server, the process from
    which the processes that read logs are forked later.
    """
    from gdpo_core.board import Board
    from views.server import drawer

    drawer.start_drawer()
    Board.make_drawing = staticmethod(drawer.drawn)


def main(host: str = "127.0.0.1", port: Port = 7860, base_url: str = "/") -> None:
    """Serve the page until the process is ended.

    host, port: the address of this machine at which the server listens.
    base_url: the path under which a proxy shows the page.
    """
    with stops_without("page", "serve.py"):
        import marimo
        import uvicorn

        from views.server import assets, early, guard, heads, patches

    # Visitors of a server see no code and have no cell of their own: what only such cells read is not computed, so that
    # fifty of them do not wait for each other.
    sessions.LEAVES_OUT_UNSEEN_CELLS = True
    patches.apply(at_end=memory.left.set, early=early.markup(Path(__file__).with_name("data")))
    memory.tend()
    path = f"/{base_url.strip('/')}".rstrip("/")
    builder = marimo.create_asgi_app(quiet=True, skew_protection=True)
    page = builder.with_app(path=path, root=str(Path(__file__).with_name("app.py"))).build()
    page = assets.shown_at_once(page, Path(marimo.__file__).parent / "_static" / "assets")
    times = {"ws_ping_interval": 1, "ws_ping_timeout": 60, "timeout_keep_alive": 300, "timeout_graceful_shutdown": 1}
    app = assets.compressed(sessions.limited(guard.guarded(sessions.awaited(page))))
    options = {"http": heads.BoundedHeads, "forwarded_allow_ips": proxies(os.environ)}
    options |= {"log_level": "warning", "server_header": False}
    config = uvicorn.Config(app, host, port, **options, **times)
    socket = config.bind_socket()
    print(f"The page is on http://{host}:{port}{path}", flush=True)
    threading.Thread(target=load, daemon=True).start()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with contextlib.suppress(KeyboardInterrupt):
        uvicorn.Server(config).run([socket])
    # Python's own end would remove this folder of the workers, but it would also wait for the threads of all sessions.
    shutil.rmtree(get_temp_dir(), ignore_errors=True)
    os._exit(0)


if __name__ == "__main__":
    typer.run(main)
