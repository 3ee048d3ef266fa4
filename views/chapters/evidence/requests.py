"""The request of each prompt and a right answer to it; the models' own answers have no licence and are not shown."""

from functools import lru_cache

import polars as pl

from views.widgets.html import ROOT, Html, join, tag

_FILE = ROOT / "data" / "bfcl_requests.parquet"
WHY_NO_MORE = (
    "The models' answers are not shown: the repository that published them states no "
    "licence, so our data hold only their marks."
)


@lru_cache(maxsize=1)
def texts() -> dict[str, tuple[str, str]]:
    """Return for each prompt, by its name, its request and an answer that BFCL accepts; the file is read once."""
    return {name: (request, answer) for name, request, answer in pl.read_parquet(_FILE).iter_rows()}


def section(name: str) -> Html:
    """Return a section on a prompt: its request, an answer that BFCL accepts, and why models' answers are not shown."""
    request, answer = texts()[name]
    request = request.strip().strip('"').strip()
    return join(
        tag("p", f"“{request}”", kind="asked-for", title=request),
        tag("p", tag("b", "Right: "), tag("code", answer), kind="right-answer", title=answer),
        tag("p", WHY_NO_MORE, kind="note"),
    )
