"""The push on each reward under GDPO, beside the push under the methods that GDPO is compared with."""

from dataclasses import dataclass
from math import isnan, nan

from gdpo_audit.report.audit_report import AuditReport
from gdpo_audit.report.summary import wanted
from gdpo_audit.thresholds import PUSH_MOVED, push_noise
from gdpo_core.pushing import same_step, stops


@dataclass(frozen=True)
class PushChange:
    """The push on one reward under GDPO, and under GRPO or the method that runs, whichever of them pushes it more in
    the direction that the run wants.
    """

    name: str
    method: str  # the method beside GDPO
    before: float  # the push under that method
    after: float  # the push under GDPO
    noise: float  # by how much two pushes may differ by chance
    wanted: int  # what the run wants of the reward: 1 for a higher one, -1 for a lower one, and 0 for neither

    @property
    def sign(self) -> int:
        """1 where GDPO pushes the reward more than the method beside it does in the direction that the run wants, by
        more than noise; -1 where it pushes it less by more than noise; else 0. 0 for a reward that is wanted neither
        higher nor lower.
        """
        gain = self.wanted * (self.after - self.before)
        return (gain > self.noise) - (gain < -self.noise)

    @property
    def stops(self) -> bool:
        """Whether a reward that the method beside GDPO pushes as the run wants is pushed about 0 or the other way by
        GDPO. Noise does not excuse that: to stop is worse than to fall.
        """
        return stops(self.wanted * self.before, self.wanted * self.after)


def push_changes(report: AuditReport) -> list[PushChange]:
    """Return for each reward how its push changes from another method to GDPO.

    The other method is GRPO or the method that runs, whichever pushes the reward more in the direction that the run
    wants (see `compared_methods`). A reward is left out if its push is not known under GDPO or under one of the
    compared methods.
    """
    known = [
        (r["name"], {m: nan_if_none(r["push"][m]) for m in (*compared_methods(report), "gdpo")}) for r in report.rewards
    ]
    noise = PUSH_MOVED if report.source["groups"] == 1 else push_noise(report.source["responses"])
    changes, directions = [], wanted(report)
    for name, push in known:
        after, direction = push.pop("gdpo"), directions[name]
        best = max(push, key=lambda method: direction * push[method])
        if not any(isnan(x) for x in (after, *push.values())):
            changes.append(PushChange(name, best, push[best], after, noise, direction))
    return changes


def change_of_primary(report: AuditReport) -> PushChange | None:
    """Return the change of the push on the primary reward.

    None where no reward is primary, or where the push on it is not known.
    """
    return next((change for change in push_changes(report) if change.name == report.run["primary"]), None)


def compared_methods(report: AuditReport) -> list[str]:
    """Return the methods that GDPO is compared with: GRPO, and the method that runs if it is neither GRPO nor GDPO and
    takes steps of about the same length as GDPO.
    """
    ran = report.run["method"]
    return [m for m in report.methods if m == "grpo" or (m == ran and m != "gdpo" and same_step(m, "gdpo"))]


def nan_if_none(x: float | None) -> float:
    """Return a number as it is, and NaN for None."""
    return nan if x is None else x
