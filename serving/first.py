"""The first drawing of the Lab, in the page's HTML: of the visitor's link, left out rather than waited for."""

import asyncio
import logging
import sys

from starlette.datastructures import QueryParams
from starlette.types import Scope

from marimo_private import PAGE
from serving.start import warmed

LOGGER = logging.getLogger(__name__)
PATIENCE = 0.5  # seconds in which the drawing must be there; a busy server sends the page without it
LONGEST = 4000  # characters of a query; views/head.html cuts a longer one before the page reads it


async def with_first_drawing(html: bytes, scope: Scope) -> bytes:
    """The page with the Lab drawn in it, once the server has imported what draws."""
    query = scope.get("query_string", b"")
    if not warmed.is_set() or "views.lab" not in sys.modules or len(query) > LONGEST:
        return html
    try:
        drawn = await asyncio.wait_for(asyncio.to_thread(_first, query), PATIENCE)
    except TimeoutError:
        return html
    except Exception:
        LOGGER.exception("the page goes out without its first drawing")
        return html
    return html.replace(b"</body>", drawn + b"</body>", 1)


def _first(query: bytes) -> bytes:
    from views import first  # here, because it imports torch

    return first.html(PAGE.parent / "data" / "tasks", dict(QueryParams(query))).encode()
