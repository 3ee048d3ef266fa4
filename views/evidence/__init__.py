"""The chapter Evidence: real prompts, what it is worth to break their ties, and whether forecasts come true in
training.
"""

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
