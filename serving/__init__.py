"""What stands between marimo's server and the network: two entry points that marimo finds by themselves."""

from starlette.middleware import Middleware
from starlette.types import ASGIApp

from serving.endpoints import Closed
from serving.headers import Headed
from serving.limits import Limited
from serving.start import Warmed, warm
from serving.travel import compressed

__all__ = ["COMPRESS", "warm"]


def served(app: ASGIApp) -> ASGIApp:
    """The app as visitors meet it, outermost layer first."""
    return Warmed(compressed(Headed(Closed(Limited(app)))))


COMPRESS = Middleware(served)
