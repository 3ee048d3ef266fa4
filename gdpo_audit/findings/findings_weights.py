"""Findings about the weights behind the logged advantages: whether they change, and whether others were given."""

from collections.abc import Iterator

from gdpo_audit.facts.facts import Facts
from gdpo_audit.facts.given_weights import contradicted_weights
from gdpo_audit.findings.finding import LISTED, Finding
from gdpo_audit.phrases import FEW_CHANGES, at_steps, ratio_in_words, some, weights_in_turn
from gdpo_core import config_lines
from gdpo_core.shared.words import number


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
