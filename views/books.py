"""Section 3 in plain words: books with ratings on unequal scales, ranked by GRPO and by GDPO."""

from collections.abc import Sequence
from html import escape

import gdpo_core as gc
from views.text import signed


def ranking(titles: Sequence[str], ratings: Sequence[Sequence[float]]) -> str:
    """HTML of both rankings side by side; books that a method cannot tell apart share a place."""
    return (
        '<div class="ranking">'
        + "".join(
            f'<section class="{method}"><h3>{name}</h3>{_list(titles, ratings, method)}</section>'
            for method, name in (("grpo", "GRPO: add the ratings"), ("gdpo", "GDPO: normalise, then add"))
        )
        + "</div>"
    )


def _list(titles: Sequence[str], ratings: Sequence[Sequence[float]], method: str) -> str:
    advantages = gc.advantages(ratings, method).tolist()
    level = gc.collapse(ratings, method).level.tolist()
    order = sorted(range(len(titles)), key=lambda i: -level[i])
    lines = []
    for i in order:
        place = 1 + sum(other > level[i] for other in level)
        tied = any(level[j] == level[i] and list(ratings[j]) != list(ratings[i]) for j in order)
        title = escape(titles[i]) + (' <b class="tie">= tie</b>' if tied else "")
        value = f"<span>{signed(advantages[i])}</span>"
        lines.append(f'<li class="{"tied" if tied else ""}"><b>{place}</b> {title}{value}</li>')
    return f"<ol>{''.join(lines)}</ol>"
