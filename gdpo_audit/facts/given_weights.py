"""The weights that the log shows, beside those that a caller gave, and the rewards whose weight it does not show."""

from math import isclose

from gdpo_audit.facts.facts import Facts
from gdpo_audit.recipe.weights import UNDIVIDED


def contradicted_weights(f: Facts) -> tuple[dict[str, float], dict[str, float], str] | None:
    """Return the weights that the caller gave and those that the log shows in their place; None where the two agree, or
    where the log shows none of the given ones.

    Three things are returned: the given weights by reward, the shown weights by reward, and words to put behind the
    shown ones if only their ratio counts, else "". Rewards whose weight does not show are left out. A reward whose
    weight was not given keeps the shown one; if the log leaves a common factor open, it is left out.

    If only the ratio counts, the shown weights are multiplied by one factor. It makes the shown weight of largest size
    equal to the given weight of its reward, unless one of the two is 0.
    """
    if f.recipe is None:
        return None
    known = [k for k, name in enumerate(f.rewards) if name in f.given_weights and k not in f.recipe.unknown]
    if not known:
        return None
    if not f.recipe.up_to_scale:  # the weights that were not given are those of the run, beside the given ones
        known = [k for k in range(len(f.rewards)) if k not in f.recipe.unknown]
    names, made = [f.rewards[k] for k in known], [f.recipe.weights[k] for k in known]
    given = [f.given_weights.get(name, w) for name, w in zip(names, made, strict=True)]
    # A method that divides the sum by a std removes a common factor of the weights, except for what its eps leaves.
    up_to_scale = f.recipe.up_to_scale or f.recipe.method not in UNDIVIDED
    if up_to_scale:
        largest = max(range(len(known)), key=lambda i: abs(made[i]))
        factor = given[largest] / made[largest] if made[largest] and given[largest] else 1.0
        made = [factor * w for w in made]
    if all(isclose(a, b, rel_tol=1e-3, abs_tol=1e-6) for a, b in zip(given, made, strict=True)):
        return None
    up_to = ", up to a common factor" if up_to_scale else ""
    return dict(zip(names, given, strict=True)), dict(zip(names, made, strict=True)), up_to


def unshown(f: Facts) -> dict[str, bool]:
    """Return the rewards whose weight the logged advantages leave open, each with whether it varies inside a group."""
    unknown = f.recipe.unknown if f.recipe is not None else ()
    return {f.rewards[k]: f.dead(k) < 1 for k in unknown}
