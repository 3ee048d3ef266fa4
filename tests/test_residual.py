"""Advantages that no recipe makes: estimators with a name, the order of a weighted sum, and something that is not
logged.
"""

import numpy as np
import polars as pl
import pytest

import gdpo_audit as ga
from gdpo_audit.logs.names import reward_columns
from gdpo_audit.recipe.solve import solve

GROUPS, SIZE, WEIGHTS = 40, 8, np.array([1, 0.5])
FACTOR = np.random.default_rng(9).uniform(0.5, 2, GROUPS)


def drawn(seed=0):
    """Return two marks, (groups, size, 2), the lengths, (groups, size), and a KL, (groups, size)."""
    rng = np.random.default_rng(seed)
    marks = (rng.random((GROUPS, SIZE, 2)) < rng.uniform(0.2, 0.8, (GROUPS, 1, 2))).astype(float)
    return marks, rng.integers(50, 900, (GROUPS, SIZE)), np.abs(rng.normal(0, 0.3, (GROUPS, SIZE))).round(5)


def z(x, ddof=1):
    return (x - x.mean()) / x.std(ddof=ddof) if np.ptp(x) else x * 0


def papo(r, ddof=1):
    right = r[:, 0] == 1
    a = z(r[:, 0], ddof)
    a[right] += z(r[right, 1], ddof) if right.sum() > 1 else 0
    return a


def ranks(s):
    return z(np.array([(s < x).sum() + (s == x).sum() / 2 for x in s]))


def shortened(s, length):
    return s - 0.3 * s.mean() * length / length.max()


def shuffled(s):
    return np.random.default_rng(int(1e4 * abs(s.sum()))).permutation(z(s))


# Each function makes the advantages of a group, from r (size, 2), s the weighted sums, n the lengths, kl, and i the
# group's number.
MADE = {
    "PAPO": (lambda r, s, n, kl, i: papo(r), "info", "in the order of a sum such as"),
    "advantage gate": (
        lambda r, s, n, kl, i: z(r[:, 0]) + 0.5 * z(r[:, 1]) * r[:, 0],
        *("warning", "in the order of a sum such as"),
    ),
    "prime-rl's length penalty": (
        lambda r, s, n, kl, i: shortened(s, n) - shortened(s, n).mean(),
        *("warning", "such as a KL or length penalty"),
    ),
    "08 ranks": (lambda r, s, n, kl, i: ranks(s), "info", "in the order of a sum such as"),
    "25 kl": (
        lambda r, s, n, kl, i: z(s - 0.04 * kl),
        "warning",
        "With kl as one more reward, the logged advantages are those of GRPO",
    ),
    "26 hidden kl": (
        lambda r, s, n, kl, i: z(s - 0.1 * kl[::-1]),
        "warning",
        "equal rewards have different advantages",
    ),
    "46 by length": (lambda r, s, n, kl, i: z(s) / n, "info", "Multiplied by the length of its response"),
    "47 halved": (
        lambda r, s, n, kl, i: np.where(z(s) < 0, 0.5, 1) * z(s),
        "info",
        "The advantages below 0 are 0.5 times",
    ),
    "50 baseline": (lambda r, s, n, kl, i: s - FACTOR[i], "warning", "in the order of a sum such as"),
    "51 difficulty": (
        lambda r, s, n, kl, i: z(s) * FACTOR[i],
        "info",
        "that differs from group to group",
    ),
    "shuffled": (lambda r, s, n, kl, i: shuffled(s), "error", "or the trainer's groups are not those that were read"),
    "of the next group": (
        lambda r, s, n, kl, i: z(drawn()[0][i - 1] @ WEIGHTS),
        "error",
        "groups are not those that were read",
    ),
}


def made(make, seed=0):
    r, lengths, kl = drawn(seed)
    each = zip(r, r @ WEIGHTS, lengths, kl, range(GROUPS), strict=True)
    columns = {"step": np.repeat(np.arange(5), GROUPS * SIZE // 5), "group": np.repeat(np.arange(GROUPS), SIZE)}
    columns |= {"correct": r[..., 0].ravel(), "style": r[..., 1].ravel(), "tokens": lengths.ravel(), "kl": kl.ravel()}
    return pl.DataFrame(columns | {"advantage": np.ravel([make(*group) for group in each]).astype(np.float32)})


def audited(log):
    report = ga.audit(ga.read_run(log, rewards=["correct", "style"], group="group", columns={"step": "step"}))
    return report, [f for f in report.findings if f.id == "advantages-not-reproduced"]


@pytest.mark.parametrize("name", MADE)
def test_what_made_the_advantages_is_said_and_only_a_contradiction_is_an_error(name):
    make, severity, says = MADE[name]
    log = made(make)
    report, found = audited(log.drop("kl") if "kl" not in says else log)
    assert [(f.severity, says in f.message) for f in found] == [(severity, True)]
    assert severity != "info" or not [f for f in report.findings if f.severity == "error"]
    # The figures are those of methods that did not make the advantages.
    assert "Nothing has to be changed" not in report.verdict
    if "with weights" in "".join(f.message for f in found) and "PAPO" not in name and "kl" not in name:
        assert "weights correct : style = 2 : 1" in found[0].message  # These weights made the advantages.


def test_advantages_behind_a_gate_are_those_of_the_method_but_for_the_rows_that_it_sets_to_0():
    report, found = audited(made(lambda r, s, n, kl, i: z(s) * r[:, 0]))
    assert not found and report.run["method"] == "grpo" and report.run["reproduced"]
    assert report.run["weights_used"] == {"correct": 2.0, "style": 1.0}  # The weights are known up to a common factor.
    [note] = [note for note in report.notes if "so a mask or a filter set it to 0" in note]
    assert "where correct is 0" in note and "Such rows count in the statistics of their group" in note


def added_kl(times, mean):
    """Return a log of GRPO from whose advantages so many times the KL, less this mean of it, was subtracted."""
    log = made(lambda r, s, n, kl, i: z(s))
    return log.with_columns(advantage=pl.col("advantage") - times * (pl.col("kl") - mean))


MEANS = {
    "(kl − its mean over the batch).": pl.col("kl").mean().over("step"),
    "(kl − its mean over the group).": pl.col("kl").mean().over("step", "group"),
    "kl.": pl.lit(0.0),
}


@pytest.mark.parametrize("what", MEANS)
@pytest.mark.parametrize("times", [0.05, -0.2])
def test_a_column_that_was_added_to_the_advantages_is_named_with_its_factor(times, what):
    report, [finding] = audited(added_kl(times, MEANS[what]))
    sign = "less" if times > 0 else "plus"
    assert f"{sign} {abs(times):g} × {what}" in finding.message
    assert report.run["weights_used"] == {"correct": 1.0, "style": 0.5} and report.run["weights_from"] == "nearest"


def test_what_advantages_show_by_themselves_comes_first():
    raw = made(lambda r, s, n, kl, i: s)
    [finding] = audited(raw)[1]
    assert finding.severity == "error" and finding.message.startswith("The logged advantages add up to 0 in no group")
    assert "the weighted sum 1 × correct and 0.5 × style itself" in finding.message
    silent = made(lambda r, s, n, kl, i: z(s) * (i % 3 > 0))
    report, found = audited(silent)
    assert not found and any("of 320 rows" in note and "is 0" in note for note in report.notes)


@pytest.mark.parametrize("framework, convention", [("trl", "trl_async"), ("verifiers", "numpy")])
def test_async_grpo_of_trl_is_found(framework, convention):
    log = made(lambda r, s, *_: z(r.sum(1), 0)).rename({"step": "batch"})
    names = ["correct", "style"]
    recipe = solve([log.rename(dict(zip(names, reward_columns(names), strict=True)))], names, framework)
    assert (recipe.method, recipe.convention, recipe.weights) == ("grpo", convention, (1, 1))
