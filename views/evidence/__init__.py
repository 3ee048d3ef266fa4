"""The chapter Evidence: what training gave, how often real prompts have ties, and whether forecasts come true."""

from views.evidence import (
    about,
    breaking,
    coins,
    controls,
    counting,
    forecasts,
    opened,
    order,
    paper,
    requests,
    sentences,
    sizes,
    squares,
    trained,
)

__all__ = [
    "about",
    "breaking",
    "coins",
    "controls",
    "counting",
    "forecasts",
    "opened",
    "order",
    "paper",
    "requests",
    "sentences",
    "sizes",
    "squares",
    "trained",
]
