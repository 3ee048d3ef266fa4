"""The first words of the Lab, which the early board has too: they need neither torch nor marimo."""

from gdpo_core.shared.markup import Html, join, tag
from views.widgets.glossary import term

CHOOSE = "Cases"  # the label of the buttons that choose one of the Lab's tasks


def what_methods_do(score: bool) -> Html:
    """Return the sentence below the headline: how each method makes an advantage of an answer's marks.

    score: whether one of the answer's three rewards is a score and no mark.
    """
    marks = term("mark", "marks")
    added = join("two ", marks, " and the score") if score else join("three ", marks)
    return join(
        "For an answer's ",
        term("advantage"),
        ", ",
        tag("strong", "GRPO"),
        " (Group Relative Policy Optimization) adds the ",
        added,
        ", then normalises the sum over the twelve answers; ",
        tag("strong", "GDPO"),
        " (Group reward-Decoupled Normalization Policy Optimization) normalises each mark over the twelve, adds and "
        "renormalises.",
    )
