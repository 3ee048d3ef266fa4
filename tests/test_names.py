"""A reward may have any name: its report is that of the same log with a reward of any other name."""

from collections.abc import Iterator
from functools import cache

import numpy as np
import polars as pl
import pytest

import gdpo_audit as ga

# These are names of the columns of a run's tables, of what reading adds, of totals, metrics, texts and functions of
# polars, names that other programs would take for syntax, and names that no one gives a reward.
NAMES = [
    *("length", "range", "part", "batch", "step", "group", "advantage", "advantages", "_row", "_place", "_prompt_key"),
    *("_key", "_file", "_event", "_pass", "_open", "_by", "rows", "sum", "size", "vectors", "index", "literal", "len"),
    *("count", "id", "reward", "score", "total", "kl", "value", "name", "finding", "share", "method", "over", "text"),
    *("float32", "silent", "visits", "responses", "prompt", "completion", "uid", "prompt_id", "task", "gdpo:row"),
    "_value",
    *("reward:correct", "reward:length", "weight 0", "two words", " a ", "it's", 'say "yes"', "a.b", "a/b", "a,b=c"),
    *("a:b:c", "[bold]x[/bold]", "<b>&amp;", "$x^2$", "{}", "%s", "\\n", "tab\there", "Größe", "奖励", "🎯", "e\u0301"),
    *("0", "1.5", "-", "nan", "None", "true", "n" * 3_000, ""),
]
PLAIN = ("plain", "simple")
# Two names are tried in one log, far apart in the list, so that a pair says more than its two names.
PAIRS = [*zip(NAMES[: len(NAMES) // 2], NAMES[len(NAMES) // 2 :], strict=True)]
STEPS, GROUPS, SIZE = 6, 2, 4
ROWS = STEPS * GROUPS * SIZE


@cache
def drawn() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return three rewards, (rewards, groups, size), something that is not logged, (groups, size), and noise, (groups,
    size).
    """
    draw = np.random.default_rng(43)
    shape = STEPS * GROUPS, SIZE
    rewards = np.stack([draw.integers(0, 2, shape), draw.integers(0, 3, shape) / 2, draw.integers(0, 5, shape) / 4])
    return rewards.astype(float), draw.normal(size=shape).round(3), draw.normal(size=shape).round(3)


def z(x: np.ndarray) -> np.ndarray:
    """Return (…, groups, size) each value less the mean of its group, divided by the std of its group."""
    return (x - x.mean(-1, keepdims=True)) / (x.std(-1, ddof=1, keepdims=True) + 1e-4)


def gdpo(r: np.ndarray) -> np.ndarray:
    """Return GDPO's advantages, (groups, size), as TRL computes them: z-scores are added up and normalised over each
    batch.
    """
    a = z(r).sum(0).reshape(STEPS, -1)
    return ((a - a.mean(1, keepdims=True)) / (a.std(1, ddof=1, keepdims=True) + 1e-4)).reshape(r.shape[1:])


ADVANTAGES = {
    "GRPO": lambda r, unlogged, noise: z(r.sum(0)),
    "GDPO": lambda r, unlogged, noise: gdpo(r),
    "none": lambda r, unlogged, noise: None,
    "unexplained": lambda r, unlogged, noise: noise,
    "GRPO and more": lambda r, unlogged, noise: z(r.sum(0) + 0.3 * unlogged),
}


def log(kind: str, names: tuple[str, str]) -> pl.DataFrame:
    """Return the log of a run whose second and third reward have these names. kind: of its advantages, a key of
    ADVANTAGES.
    """
    r, unlogged, noise = drawn()
    columns = {"it": np.arange(ROWS) // (GROUPS * SIZE) + 1, "g": np.arange(ROWS) // SIZE}
    columns |= {reward: values.ravel() for reward, values in zip(("correct", *names), r, strict=True)}
    made = ADVANTAGES[kind](r, unlogged, noise)
    return pl.DataFrame(columns if made is None else columns | {"a": made.ravel().astype(np.float32)})


def report(kind: str, names: tuple[str, str]) -> ga.AuditReport:
    columns = {"step": "it"} if kind == "none" else {"step": "it", "advantage": "a"}
    run = ga.read_run(log(kind, names), rewards=["correct", *names], group="g", columns=columns)
    return ga.audit(run)


def renamed(value, old: str, new: str):
    """Return a report in which one name takes the place of another, in keys and in texts."""
    if isinstance(value, dict):
        return {renamed(key, old, new): renamed(item, old, new) for key, item in value.items()}
    if isinstance(value, list):
        return [renamed(item, old, new) for item in value]
    return value.replace(old, new) if isinstance(value, str) else value


@cache
def expected(kind: str) -> dict:
    return report(kind, PLAIN).to_dict(groups=True)


def _cases() -> Iterator:
    """Yield each pair of names with each kind of log. By day a pair has one kind, and each kind several pairs."""
    for n, names in enumerate(PAIRS):
        for k, kind in enumerate(ADVANTAGES):
            marks = () if k == n % len(ADVANTAGES) else pytest.mark.night
            yield pytest.param(names, kind, id=f"pair {n}-{kind}", marks=marks)


@pytest.mark.parametrize(("names", "kind"), [*_cases()])
def test_a_reward_of_any_name_has_the_report_of_any_other(names, kind):
    wanted = expected(kind)
    for plain, name in zip(PLAIN, names, strict=True):
        wanted = renamed(wanted, plain, name)
    assert report(kind, names).to_dict(groups=True) == wanted


def test_the_table_of_a_run_has_bare_names_but_where_another_column_has_them():
    named = {"length": "length", "step": "it", "advantage": "a"}
    rewards = ["correct", "step", "reward:step", "length"]
    frame = log("GRPO", ("reward:step", "step")).with_columns(length=pl.lit(0.5), tokens=pl.lit(7))
    table = ga.read_run(frame, rewards=rewards, group="g", columns=named | {"length": "tokens"}).table
    expected = ["step", "group", "correct", "reward:step", "reward:reward:step", "reward:length", "advantage", "length"]
    assert table.columns == expected
    for name, column in zip(rewards, expected[2:6], strict=True):
        assert table[column].to_list() == frame[name].cast(pl.Float64).to_list()
    assert table["length"].to_list() == [7] * ROWS and table["step"].to_list() == frame["it"].to_list()
