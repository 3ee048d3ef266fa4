"""Reports made by hand, so that what is drawn from them can be compared with known numbers."""

import math

import polars as pl

from gdpo_audit.findings.finding import Finding
from gdpo_audit.findings.findings import links
from gdpo_audit.report.audit_report import AuditReport
from gdpo_core.conventions import NAMES

METHODS = ("grpo", "grpo_no_std", "gdpo")


def report(rewards=("correctness", "format", "length"), steps=40, path="runs/a", method="gdpo", findings=None):
    """Return a report on a run that drifts a little. method: the one that the log shows, None if no advantages are
    logged; findings: those of the report, by default three.
    """
    count = len(rewards)
    weights = {name: 1 / (k + 1) for k, name in enumerate(rewards)}
    share = [w / sum(weights.values()) for w in weights.values()]
    first, last = rewards[0], rewards[-1]
    shown = {"reward": first, "update_share": 0.93, "threshold": 0.6, "steps": list(range(30)), "none": None}
    dominates = {"title": f"{first} makes most of the update", "to_do": f"Give {first} a smaller weight."}
    dominates |= {"links": links("reward-dominates", "trl", fixed=True)}
    says = f"Under GRPO, {first} accounts for 93 % of the update with 33 % of the weight. Weigh it less."
    lines = """GRPOConfig(multi_objective_aggregation="normalize_then_sum",
           reward_weights=[1.0, 0.5, 2.0])"""
    dead = {"title": f"{last} does nothing", "to_do": f"Take {last} out."}
    silent = {"title": "5 % of the groups teach nothing", "message": "5 % of the groups carry no signal."}
    found = [
        Finding(id="reward-dominates", severity="error", message=says, evidence=shown, fix=lines, **dominates),
        Finding(id="reward-dead", message=f"{last} is constant in every group.", evidence={"dead_groups": 1.0}, **dead),
        Finding(id="silent-groups", severity="info", evidence={"silent_groups": 0.05}, **silent),
    ]
    source = {"path": path, "framework": "trl", "files": 40, "rewards": list(rewards), "grouped_by": "blocks of 8 rows"}
    source |= {"steps": steps, "responses": steps * 32, "groups": steps * 4, "group_size": 8, "window": None}
    source |= {"skipped_lines": 0, "skipped_files": [], "left_out": [], "notes": []}
    run = {"method": method, "convention": method and "trl", "weights": method and weights, "weights_in_turn": []}
    run |= {"weights_up_to_scale": method and False, "remarks": [], "logged": steps * 32 if method else 0}
    run |= {"all_zero": False, "reproduced": method and True, "max_error": method and 1.2e-06}
    run |= {"weights_used": dict(weights)}
    run |= {"weights_from": "solved" if method else "assumed", "convention_used": "trl", "asked": None}
    of_rewards = []
    for k, name in enumerate(rewards):
        shares = {"grpo": -0.06 / (count - 1) if k else 1.06, "grpo_no_std": share[k], "gdpo": share[k]}
        numbers = {"mean": 0.3 + k, "std": 0.4, "range": 1.0 + k, "missing": 3 * k, "dead_groups": 0.25 * k}
        numbers |= {"asks_for": share[k] ** 2, "first_quarter": 0.2 + k, "last_quarter": 0.5 - k, "changed_at": 7}
        numbers |= {"push": {m: 0.9 - 0.4 * k for m in METHODS}, "punished": {m: 0.1 * k for m in METHODS}}
        correlations = {other: 0.1 * (k + i) for i, other in enumerate(rewards) if i != k}
        of_rewards.append({"name": name, **numbers, "update_share": shares, "correlations": correlations})
    methods = {}
    for n, m in enumerate(METHODS):
        methods[m] = {"groups_with_ties": 0.43 - 0.1 * n, "tied_pairs": 0.12, "levels": 4.5, "silent_groups": 0.05}
        methods[m]["inversions"] = math.nan if m == "grpo_no_std" else 0.08
    return AuditReport(
        source=source,
        run=run | {"primary": rewards[0], "steps_off": [], "silent_responses": 64},
        rewards=tuple(of_rewards),
        methods=methods,
        findings=tuple(found if findings is None else findings),
        steps=_steps(rewards, steps),
        what_ran=f"The logged advantages are {NAMES.get(method, 'unknown')}.",
        first_step=f"Look first at {found[0].id}: {found[0].title}.",
        further=found[0].to_do,
    )


def _steps(names, steps: int) -> pl.DataFrame:
    """Return the table of a report with a row per step, with columns for these rewards."""
    at = range(1, steps + 1)
    columns: dict[str, list] = {"step": list(at), "step_last": list(at), "responses": [32] * steps}
    for k, name in enumerate(names):
        columns[f"mean:{name}"] = [(k % 2) * 3 + 0.2 + 0.5 * s / steps + 0.05 * math.sin(s + k) for s in at]
        columns[f"std:{name}"] = [0.4] * steps
        columns[f"dead:{name}"] = [0.5 + 0.3 * math.sin(s / 9 + k) if s != 5 else None for s in at]
        for n, m in enumerate(METHODS):
            columns[f"push:{m}:{name}"] = [0.6 - 0.2 * k + 0.02 * n * math.sin(s / 4 + k) for s in at]
            columns[f"share:{m}:{name}"] = [1 / len(names) + 0.02 * n * math.sin(s / 3 + k) for s in at]
        for i in range(k):
            columns[f"correlation:{names[i]}:{name}"] = [math.sin(s / 20 + i + k) for s in at]
    return pl.DataFrame(columns)
