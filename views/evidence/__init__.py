"""The chapter Evidence: real prompts, what breaking their ties is worth, and whether training bears it out."""

from views.evidence import (
    about,
    controls,
    counting,
    forecasts,
    opened,
    order,
    paper,
    pushed,
    requests,
    sentences,
    sizes,
    squares,
    trained,
)

__all__ = [
    "about",
    "controls",
    "counting",
    "forecasts",
    "opened",
    "order",
    "paper",
    "pushed",
    "requests",
    "sentences",
    "sizes",
    "squares",
    "trained",
]
