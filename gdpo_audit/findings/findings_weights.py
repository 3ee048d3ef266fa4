"""Findings about the weights behind the logged advantages: whether they change, and whether others were given."""

from collections.abc import Iterator
from math import isclose

from gdpo_audit.findings.facts import Facts
from gdpo_audit.findings.finding import LISTED, Finding
from gdpo_audit.findings.words import (
    FEW_CHANGES,
    at_steps,
    ratio_in_words,
    some,
    weights_in_turn,
)
from gdpo_audit.recipe.weights import UNDIVIDED
from gdpo_core import config_lines
from gdpo_core._words import number


def weights_change(f: Facts) -> Iterator[Finding]:
    """Yield one finding if the weights that made the advantages change during the run."""
    if len(f.phases) < 2 or f.weights_by_column:
        return
    first, *later = f.phases
    last, steps = later[-1], [phase.step for phase in later]
    when, vectors = f"at {at_steps(steps)}", [ratio_in_words(phase.weights) for phase in f.phases]
    if len(later) > FEW_CHANGES:
        when, vectors = f"{len(later)} times from step {steps[0]} to step {steps[-1]}", [vectors[0], "…", vectors[-1]]
    ratios = " (the log shows only ratios)" * any(phase.up_to_scale for phase in f.phases)
    follow = "the weights given" if f.given_weights else "the weights that this step had"
    yield Finding(
        severity="info",
        title=f"Weights change {when}: {' → '.join(vectors)}",
        message=f"The weights change {when}: {weights_in_turn([phase[:2] for phase in f.phases])}{ratios}. The figures "
        f"here are computed, for each step, with {follow}.",
        evidence={"steps": steps[:LISTED], "before": dict(first.weights), "after": dict(last.weights)},
    )


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


def weights_not_as_given(f: Facts) -> Iterator[Finding]:
    """Yield one finding if the logged advantages were made with other weights than the caller gives."""
    contradicted = contradicted_weights(f)
    if f.recipe is None or contradicted is None:
        return
    given, made, up_to = contradicted
    of_caller, of_log = (some(f"{name} {number(w)}" for name, w in weights.items()) for weights in (given, made))
    yield Finding(
        severity="error",
        title="The log contradicts the weights given",
        message=f"The weights given are {of_caller}, but the logged advantages were made with other weights "
        f"({of_log}{up_to}). The figures here are computed with the weights given, although the run had others.",
        to_do="Set the weights that you mean.",
        evidence={"given": given, "logged": made},
        fix=config_lines.set_weights(f.run.framework, *f.functions(f.basis.weights), f.recipe.method),
    )
