"""Sentences that say what the columns in the tables of a report mean."""

SHARES = "The shares are each reward’s part of the update; before rounding, those of all rewards add up to 100 %."
PUNISHED = (
    "“Punished”: of the responses above their group’s mean in a reward, the share that still get an advantage of 0 or "
    "less."
)
CONSTANT = "“Constant” is the share of the groups in which all responses have the same value of the reward."
TIED = "“Tied pairs” is the share of the pairs of responses with different rewards that get the same advantage."
SILENT = "A group is silent if every advantage in it is 0."
MOVED = "“Shifted at step” is the step from which on the mean differs from what it was before, if there is one."
QUARTERS = "The “mean” column shows the mean in the first quarter of the run → the mean in the last."
CHANGE = "“Change” is the second of these two means minus the first."


def wrong_order(primary: str) -> str:
    """Return the sentence that explains the share of pairs in the wrong order, for a primary reward."""
    return (
        f"“Wrong order”: of the pairs of responses that differ in {primary}, the share in which the response with the "
        f"lower {primary} gets the larger advantage."
    )
