"""Sentences that say what the columns in the tables of a report mean."""

SHARES = "The shares are each reward’s part of the update; before rounding, those of all rewards add up to 100 %."
PUNISHED = (
    "“Punished” says which share of the responses above their group’s mean in a reward still gets an advantage of 0 or "
    "less."
)
CONSTANT = "“Constant” is the share of the groups in which all responses have the same value of the reward."
TIED = "“Tied pairs” is the share of the pairs of responses with different rewards that get the same advantage."
SILENT = "A group is silent if every advantage in it is 0."
MOVED = "“Shifted at step” is the step at which the mean moved to a new level; “–” means that no such step was found."
QUARTERS = (
    "The “mean” column shows the mean in the first quarter of the run (at least one step) → the mean in the last "
    "quarter."
)
CHANGE = "“Change” is the mean in the last quarter minus the mean in the first."
COMPARED_WITH = {  # by the id of a finding, the figure that its threshold is compared with
    "ties-hide-signal": "groups with ties",
    "silent-groups": "silent groups",
    "priority-inversion": "wrong order",
    "batch-step-amplifies": "the factor",
    "blind-zero-std-metric": "the constant groups that the metric misses",
    "filter-drops-signal": "the share",
    "reward-dead": "constant groups",
    "reward-noise": "faint groups",
    "reward-dominates": "the update share",
    "no-right-answer": "the update share",
    "reward-falls": "the fall",
    "conflict": "the correlation",
    "length-coupled": "the size of the correlation",
}


def wrong_order(primary: str) -> str:
    """Return the sentence that explains the share of pairs in the wrong order, for a primary reward."""
    return (
        f"“Wrong order” says in which share of the pairs of responses that differ in {primary} the response with the "
        f"lower {primary} gets the larger advantage."
    )
