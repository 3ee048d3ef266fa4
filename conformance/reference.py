"""GRPO and GDPO as in arXiv 2601.05242, in plain Python, with a named argument for each point where implementations
differ.
"""

from math import fsum, isnan, nan, sqrt


def moments(values, ddof, counts):
    """Return the mean and the standard deviation of values.

    Both are NaN if there are no values, or if one is NaN. If the values differ only by round-off, the results are the
    first value and 0.

    ddof: what is subtracted from the number of values in the standard deviation.
    counts: how often each value counts.
    """
    if not values or any(map(isnan, values)):
        return nan, nan
    if max(values) - min(values) <= 1e-12 * max(map(abs, values)):
        return values[0], 0.0
    mean = fsum(c * v for c, v in zip(counts, values, strict=True)) / sum(counts)
    squares = fsum(c * (v - mean) ** 2 for c, v in zip(counts, values, strict=True))
    return mean, sqrt(squares / (sum(counts) - ddof))


def advantages(
    rewards, groups, weights, lengths, *, method="gdpo", ddof=1, group_eps=0.0, grpo_eps=None, batch_eps=0.0,
    batch_eps_to="std", last_step="responses", missing="skipped", empty_counts=False, group_of_one="zero",
    leave_one_out=False, batch_ddof=None, std_of="group", group_eps_to="std",
):  # fmt: skip
    """Return a list of advantages, one per row.

    Defaults are the paper's. The arguments that are not described here are fields of a `gdpo_core.Convention`.

    rewards: a list of rewards per row, NaN for a missing one.
    groups: the group of each row.
    weights: one per reward.
    lengths: the tokens of each row, which count only if last_step is "tokens".
    method: gdpo, grpo, grpo_no_std or grpo_batch_std.
    last_step: as in a `gdpo_core.Convention`, or "none" for no batch step.
    batch_ddof: the ddof of GDPO's batch step, None for `ddof`.
    std_of: "group", or "batch" if what is normalised in a group is divided by the std over the whole batch.
    group_eps_to: "std", or "variance" if the eps inside groups is added to the variance.
    """
    skips, rows, sum_eps = missing == "skipped", range(len(rewards)), group_eps if grpo_eps is None else grpo_eps
    by_n = ddof if batch_ddof is None else batch_ddof
    empty = [skips and not empty_counts and all(map(isnan, row)) for row in rewards]
    members = [[i for i in rows if groups[i] == group] for group in dict.fromkeys(groups)]

    def in_groups(x, eps, divide=True):  # (x - mean) / (std + eps), each group on its own
        out, known = [nan] * len(x), [v for v in x if not isnan(v)]
        for group in members:
            there = [i for i in group if not (skips and isnan(x[i]))]
            for i in there:
                compared = [x[j] for j in there if j != i or not leave_one_out]
                mean, std = moments(compared, ddof, [1] * len(compared))
                if std_of == "batch":
                    std = moments(known, ddof, [1] * len(known))[1]
                if len(there) == 1:
                    mean, std = (0.0, 1.0) if group_of_one == "raw" else (x[i], 0.0)
                by = sqrt(std**2 + eps) if group_eps_to == "variance" else std + eps
                out[i] = x[i] - mean if std == 0 or not divide else (x[i] - mean) / by
        return out

    def weighted_sums(columns):  # what cancels but for round-off is 0
        there = [
            [(w, c[i]) for w, c in zip(weights, columns, strict=True) if not (skips and isnan(c[i]))] for i in rows
        ]
        terms = [[w * x for w, x in row] for row in there]
        return [0.0 if abs(fsum(t)) <= 1e-14 * fsum(map(abs, t)) else fsum(t) for t in terms]

    columns = list(zip(*rewards, strict=True))
    if method != "gdpo":
        sums = [nan if empty[i] else s for i, s in enumerate(weighted_sums(columns))]
        a, there = in_groups(sums, sum_eps, divide=method == "grpo"), [s for s in sums if not (skips and isnan(s))]
        std = moments(there, ddof, [1] * len(there))[1] if method == "grpo_batch_std" else 0.0
        return [0.0 if empty[i] else v / (std + sum_eps) if std else v for i, v in enumerate(a)]
    sums, a = weighted_sums([in_groups(column, group_eps) for column in columns]), [0.0] * len(rewards)
    for batch in members if last_step == "group" else [rows]:
        there = [i for i in batch if not empty[i]]
        counts = [lengths[i] if last_step == "tokens" else 1 for i in there]
        values = [sums[i] for i in there]
        mean, std = moments(values, by_n, counts) if last_step != "none" else (0.0, 0.0)
        by = sqrt(std**2 + batch_eps) if batch_eps_to == "variance" else std + batch_eps
        for i in there:
            a[i] = sums[i] - mean if std == 0 else (sums[i] - mean) / by
    return a
