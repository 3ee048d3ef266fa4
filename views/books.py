"""Section 3 in plain words: books with ratings on unequal scales, ranked by GRPO and by GDPO."""

from collections.abc import Sequence

import gdpo_core as gc
from gdpo_core._words import signed
from views.html import Html, bold, join, tag


def ranking(titles: Sequence[str], ratings: Sequence[Sequence[float]]) -> Html:
    """HTML of both rankings side by side; books that a method cannot tell apart share a place."""
    columns = (
        tag("section", tag("h3", name), _list(titles, ratings, method), kind=method)
        for method, name in (("grpo", "GRPO: add the ratings"), ("gdpo", "GDPO: normalise, then add"))
    )
    return tag("div", *columns, kind="ranking")


def _list(titles: Sequence[str], ratings: Sequence[Sequence[float]], method: str) -> Html:
    advantages = gc.advantages(ratings, method).tolist()
    level = gc.collapse(ratings, method).level.tolist()
    order = sorted(range(len(titles)), key=lambda i: -level[i])
    lines = []
    for i in order:
        place = 1 + sum(other > level[i] for other in level)
        tied = any(level[j] == level[i] and list(ratings[j]) != list(ratings[i]) for j in order)
        title = join(titles[i], " ", tag("b", "= tie", kind="tie")) if tied else titles[i]
        value = tag("span", signed(advantages[i]))
        lines.append(tag("li", bold(place), " ", title, value, kind="tied" if tied else ""))
    return tag("ol", *lines)
