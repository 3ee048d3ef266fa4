"""The chapter Evidence: real prompts, what breaking their ties is worth, and whether training bears it out."""

from views.evidence import (
    about,
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
