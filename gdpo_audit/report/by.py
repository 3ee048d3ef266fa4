"""The part of a report about the groups with one value of a column, such as the task of a prompt."""

from gdpo_audit.facts.facts import Facts, ValueFacts
from gdpo_audit.json_types import ByPart, ByRewardPart


def of_value(f: Facts, value_facts: ValueFacts) -> ByPart:
    """Return the part of a report about the groups with one value of a column, under the run's method."""
    method, here = f.method, value_facts.facts
    shares = here.shares(method)

    def reward(k: int, name: str) -> ByRewardPart:
        dead = here.dead(k) if here.coverage(k) else None
        return {"name": name, "mean": here.mean(k), "dead_groups": dead, "update_share": shares[k]}

    return {
        "column": f"{f.run.by}",
        "value": value_facts.value,
        "values": value_facts.values,
        "method": method,
        "groups": int(here.totals.groups),
        "responses": int(here.totals.responses),
        "rewards": [reward(k, name) for k, name in enumerate(f.rewards)],
        "groups_with_ties": here.ties(method),
        "silent_groups": here.silent(method),
        "inversions": here.inversions(method),
    }
