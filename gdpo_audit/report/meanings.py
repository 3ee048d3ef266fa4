"""Sentences that say what the columns in the tables of a report mean, and the names of its figures."""

from gdpo_core.conventions import NAMES

SHARES = "The shares are each reward’s part of the update; before rounding, those of all rewards add up to 100 %."
PUNISHED_EXPLAINED = (
    "“Punished”: of the responses with a reward above the mean of their group (below it, where the reward is to be "
    "lowered), this is the share that still get an advantage of 0 or less."
)
CONSTANT = "“Constant” is the share of the groups in which all responses have the same value of the reward."
TIED = "“Tied pairs”: of the pairs of responses with different rewards, this is the share that get the same advantage."
SILENT_EXPLAINED = "A group is silent if every advantage in it is 0."
SHIFT_EXPLAINED = (
    "“Shifted at step” is the step at which the mean moved to a new level; “–” means that no such step was found."
)
QUARTERS = (
    "The “mean” column shows the mean over the responses in the first quarter of the run (at least one step) → "
    "the mean over those in the last quarter."
)
CHANGE = "“Change” is the mean in the last quarter minus the mean in the first."
LACKING = "“Missing” is the number of responses that lack the reward; a mean is that of the responses that have it."
# By a heading of the table of the rewards, what it means in few words: with its title all fit into 100 characters.
IN_SHORT = {
    "push": "push −1 to 1: raised by the update",
    "share": "share: of it",
    "punished": "punished: better, yet ≤ 0",
}
# By the id of a finding, the figure that is compared with the number called `threshold` in its evidence; every kind of
# finding with such a number is here.
COMPARED_WITH = {
    "groups-sampled": "the rows of a table",
    "ties-hide-signal": "groups with ties",
    "silent-groups": "silent groups",
    "priority-inversion": "wrong order",
    "batch-step-amplifies": "the factor",
    "blind-zero-std-metric": "the constant groups that the metric misses",
    "filter-drops-signal": "the share",
    "reward-dead": "constant groups",
    "reward-dead-in-part": "constant groups",
    "reward-fades": "constant groups in the last quarter",
    "reward-noise": "nearly constant groups",
    "reward-sentinel": "the share of variance",
    "reward-dominates": "the update share",
    "no-right-answer": "the update share",
    "reward-falls": "the fall",
    "conflict": "the correlation",
    "length-coupled": "the size of the correlation",
    "eval-overwrote": "groups off by a factor",
    "rows-missing": "groups off by a factor",
    "advantages-not-reproduced": "groups off by a factor",
    "reward-columns-merged": "hidden groups, as a share of the groups that are not reproduced",
}
NAMES_OF_FIGURES = {  # by the key of a piece of evidence, its name where the key alone would not be understood
    "inversions": "wrong order",
    "faint_groups": "nearly constant groups",
    "weight_asks_for": "share by weight alone",
    "due_share": "share by weight, where the reward varies",
    "rewards_differ_in": "silent groups in which rewards differ",
    "live_responses": "responses in groups that are not silent",
    "fall_in_stds": "fall, in standard deviations",
    "update_share_there": "shares of the update in these groups",
    "dead_groups_of_others": "constant groups elsewhere",
    "threshold_rise": "threshold for the rise of constant groups",
    "threshold_times_share": "threshold for the share at the end, as a part of that at the start",
    "threshold_std": "threshold for the std, as a part of the largest absolute value",
    "threshold_times_grpo": "threshold for the share under GDPO, as a multiple of that under GRPO",
    "threshold_update_share": "threshold for the share under GDPO",
    "threshold_times_weight": "threshold for the share, as a multiple of the share by weight alone",
    "threshold_of_due": "threshold for the share, as a part of the share by weight",
    "threshold_groups": "threshold for the number of groups",
    "threshold_of_others": "threshold for constant groups elsewhere",
}
NAMES_WITH_METHOD = {  # by the start of the key of a piece of evidence, behind which a method stands, its name
    "update_share_": "update share",
    "break_even_": "weight above which no pair is in the wrong order",
}


def label(key: str) -> str:
    """Return the name of a piece of evidence in words.

    >>> label("update_share"), label("inversions"), label("update_share_gdpo")
    ('update share', 'wrong order', 'update share under GDPO')
    """
    for start, words in NAMES_WITH_METHOD.items():
        if (method := key.removeprefix(start)) in NAMES and method != key:
            return f"{words} under {NAMES[method]}"
    return NAMES_OF_FIGURES.get(key, key.replace("_", " ").replace("dead groups", "constant groups"))


def wrong_order(primary: str, direction: int) -> str:
    """Return the sentence that explains the share of pairs in the wrong order, for a primary reward.

    direction: what the run wants of it: 1 for more, -1 for less.
    """
    worse = "higher" if direction < 0 else "lower"
    return (
        f"“Wrong order”: of the pairs of responses that differ in {primary}, this is the share in which the larger "
        f"advantage goes to the response that scores {worse} on it."
    )
