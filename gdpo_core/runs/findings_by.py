"""The findings about the values of a column, such as the tasks of a run."""

from collections.abc import Iterator

from gdpo_core._words import clip, percent
from gdpo_core.runs.facts import Facts, Finding, ValueFacts, some
from gdpo_core.runs.thresholds import BY_GROUPS, BY_RISE, DEAD


def reward_dead_in_part(f: Facts) -> Iterator[Finding]:
    """A reward is constant in nearly all groups of some values, and acts in the others."""
    for k, name in enumerate(f.rewards):
        here = [
            of for of in f.by if of.facts.totals.rewards.holding_groups[k] >= BY_GROUPS and of.facts.dead(k) >= DEAD
        ]
        dead = sum(_dead(of, k) for of in here)
        holding = sum(_holding(of, k) for of in here)
        others = _ratio(sum(_dead(of, k) for of in f.by) - dead, sum(_holding(of, k) for of in f.by) - holding)
        if not here or others is None or others > DEAD - BY_RISE or f.dead(k) >= DEAD:
            continue
        values = [clip("missing" if of.value is None else of.value, 30) for of in here]
        where = f"{f.run.by} {values[0]}" if len(values) == 1 else f"{len(values)} values of {f.run.by}"
        yield Finding(
            "reward-dead-in-part",
            "warning",
            f"{name} is constant in {percent(dead / holding)} of the groups of {f.run.by} {some(values)}, and in "
            f"{percent(others)} of the others: it does nothing there, which the figures of the whole run hide.",
            {
                "reward": name,
                "column": f.run.by,
                "values": values,
                "dead_groups": {value: of.facts.dead(k) for value, of in zip(values, here, strict=True)},
                "dead_groups_of_others": others,
                "groups": holding,
                "threshold": DEAD,
                "threshold_of_others": DEAD - BY_RISE,
                "threshold_groups": BY_GROUPS,
            },
            None,
            extent=f.weight_share(k) * holding / sum(_holding(of, k) for of in f.by),
            title=f"{clip(name, 40)} does nothing in {clip(where, 40)}",
            to_do=f"Grade {name} in finer steps there, or look at whether these prompts are too easy or too hard.",
        )


def _holding(of: ValueFacts, k: int) -> int:
    """The groups that hold the reward."""
    return int(of.facts.totals.rewards.holding_groups[k])


def _dead(of: ValueFacts, k: int) -> int:
    """Of these, the groups in which it is constant."""
    return round(of.facts.dead(k) * _holding(of, k)) if _holding(of, k) else 0


def _ratio(part: int, whole: int) -> float | None:
    return part / whole if whole else None
