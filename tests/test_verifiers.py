"""The recorded log of verifiers, read and compared with its own text: rewards and weights by name, groups, steps and
advantages.
"""

import json

import numpy as np
from logs import LOGS, assert_reads

import gdpo_audit as ga

RECORDED = LOGS / "verifiers/traces.jsonl"
WEIGHTS = {"correct": 1.0, "format": 0.5, "brief": 0.25}


def naive():
    """Return the step, the group, the rewards, the advantage and the length of each response as the file has them,
    ordered by step.
    """
    rows = []
    for line in RECORDED.read_text().splitlines():
        one = json.loads(line)
        if one["run"]["work"]["type"] == "train":
            [solver] = [t for t in one["traces"] if t["agent"]["name"] == "solver"]
            scores = [np.nan if r is None else r["score"] for r in solver["rewards"].values()]
            advantage = solver["nodes"][1].get("advantages", [np.nan])[0]
            where = (one["run"]["work"]["step"], one["group"]["id"])
            rows.append((*where, *scores, advantage, solver["num_output_tokens"]))
    return sorted(rows, key=lambda row: row[0])


def test_the_recorded_log_holds_what_its_file_says():
    rows = naive()
    groups = list(dict.fromkeys(row[1] for row in rows))
    rows = sorted(rows, key=lambda row: groups.index(row[1]))  # In a table the rows of a group stand together.
    step, group, *columns = zip(*rows, strict=True)
    assert_reads(
        ga.read_run(RECORDED.parent),
        dict(framework="verifiers", rewards=tuple(WEIGHTS), group_size=4, weights=WEIGHTS, weights_by="log")
        | dict(left_out=("num_turns", "words", "the episodes of evaluations"), step=list(step))
        | dict(group=[groups.index(one) for one in group])
        | {name: list(column) for name, column in zip((*WEIGHTS, "advantage", "length"), columns, strict=True)},
    )
