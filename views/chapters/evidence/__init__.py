"""The chapter Evidence: what training gave, how often real prompts have ties, and whether forecasts come true."""

from views.chapters.evidence import (
    about,
    breaking,
    coins,
    draw_controls,
    exact_counts,
    forecasts_and_outcomes,
    group_sizes,
    opened,
    order,
    paper,
    requests,
    sentences,
    squares,
    trained,
)

__all__ = [
    "about",
    "breaking",
    "coins",
    "draw_controls",
    "exact_counts",
    "forecasts_and_outcomes",
    "group_sizes",
    "opened",
    "order",
    "paper",
    "requests",
    "sentences",
    "squares",
    "trained",
]
