"""The verdict of a report: what ran, whether that is certain, and what to do first, in sentences."""

from collections.abc import Iterator, Sequence
from decimal import ROUND_UP, Context
from math import inf

from gdpo_audit.facts.claims import either_baseline
from gdpo_audit.facts.claims_of_rows import any_baseline, incomplete_groups
from gdpo_audit.facts.facts import Facts
from gdpo_audit.facts.wording import whose
from gdpo_audit.findings.finding import Finding
from gdpo_audit.findings.findings import KINDS
from gdpo_audit.phrases import some, weights_in_turn, weights_in_words
from gdpo_audit.thresholds import FEW_GROUPS, MOVED
from gdpo_audit.trials.recommending import INTERVAL, to_decide, why_no_change
from gdpo_audit.trials.run_forecast import DIRECTION_ALONE
from gdpo_audit.trials.setting import Setting
from gdpo_core.conventions import NAMES
from gdpo_core.frameworks import ALL_CONVENTIONS
from gdpo_core.shared.words import count, listing, number, power_of_ten, signed

POINTS = "Points are hundredths of a reward’s range in the log, in its mean over the logged steps."
# What is said in place of “all is well”, which no report says without a primary reward.
NAME_PRIMARY = (
    "Name the reward that matters most (--primary): without it, the audit cannot check the order of the responses."
)


def what_ran(f: Facts) -> str:
    """Return in one or a few sentences what made the logged advantages, or why the log does not show it."""
    if f.recipe is None:
        if f.only_round_off:
            few = "The rewards differ by little more than float32's round-off"
            return f"{few}, so the logged advantages do not show which method ran."
        if f.all_silent and f.totals.mixed_groups:
            return (
                "Every logged advantage is 0, as it would be under every method here: the rewards cancel in each group."
            )
        if f.all_zero:
            return "Advantages that are all 0 do not show which method ran."
        if f.reproduced is False:
            known = "total" if f.run.total_only else "rewards"
            return f"The logged advantages are not what any method computed here makes of the logged {known}."
        if f.run.has_advantage:
            return "Every logged advantage is missing, so the log does not show which method ran."
        return "The log holds no advantages, so it does not show which method ran."
    made = NAMES[f.recipe.method]
    if not f.recipe.convention_open:
        made += f" as {whose(f.recipe.convention)} computes it"
    weights = f.known_weights
    if len(f.phases) > 1 and not f.weights_by_column:
        made += f" with weights that change, {weights_in_turn([phase[:2] for phase in f.phases])}"
    elif weights and len(f.rewards) > 1 and not f.weights_by_column:
        made += f" with weights {weights_in_words(weights, f.recipe.up_to_scale)}"
    made = ", ".join([made, *f.remarks])
    if f.reproduced:
        end = f": all {count(logged_count(f))} are reproduced {_off_by(f)}."
    else:
        wrong = f.totals.logged.wrong + f.overwritten_batches.logged.wrong.sum()
        end = f", except for {count(wrong)} of {count(logged_count(f))}."
    below = [
        f" {name} has weight {number(w)}, so more of {name} lowers the advantage."
        for name, w in weights.items()
        if w < 0
    ]
    return f"The logged advantages are {made}{end}{_so_do(f)}{''.join(below) * (len(below) < len(weights))}"


def _so_do(f: Facts) -> str:
    """Return a sentence on what else makes the logged advantages; "" if nothing else is known to."""
    if either_baseline(f):
        convention = ALL_CONVENTIONS[f.recipe.convention]  # type: ignore[union-attr]
        either = "without" if convention.leave_one_out or convention.mean_of_others else "with"
        return f" The same {either} leave-one-out, and weights in that ratio, makes them as well."
    if f.recipe is None or not f.recipe.alike:
        return ""
    same = listing((NAMES[method] for method in f.recipe.alike), link="and")
    return f" On these rewards {same} {'makes' if len(f.recipe.alike) == 1 else 'make'} the same."


def _off_by(f: Facts) -> str:
    """Return in words how far the advantages that the recipe makes are at most from the logged ones.

    Where no reward differs in a group, the log may hold large round-off in place of 0. These groups are left out of the
    distance, and words about them follow the distance.
    """
    up, logged = Context(prec=1, rounding=ROUND_UP), f.totals.logged
    residue = int(logged.residue_groups)
    error = logged.max_error_live if residue and logged.max_error_live >= 0 else logged.max_error
    largest = float(up.create_decimal_from_float(float(error)))
    off = f"to within {power_of_ten(largest)}" if largest else "exactly"
    if not residue:
        return off
    there = (
        f"values of up to {number(logged.largest_silent, 2)} are logged, the round-off of float32 divided by its own"
    )
    return f"{off}, except in {count(residue, 'group')} in which no reward differs: there, {there} std"


def what_to_do(f: Facts, findings: Sequence[Finding], plan: Sequence[Setting], condition: str = "") -> list[str]:
    """Return what the owner of a run should do, as a list of texts of one or two sentences, the most important first.

    They say to mend the log, to follow the plan or to decide something. If nothing asks for a change, the texts say
    that.

    condition: the words that stand before the first text if it rests on the weights, and behind it if it does not,
        where something that decides them is only assumed; else "".
    """
    errors, urgent = _errors(findings), _urgent(findings)
    planned = [] if errors else [*_to_decide(f, plan), *_no_change(f, findings, plan)]
    planned = [*_recommended(plan)] or planned
    warned = [x for x in findings if x.severity != "info"][:1]
    asked = [(x.to_do, KINDS[x.id].weighed) for x in ([*urgent] if urgent or planned else warned)]
    texts = [*asked, *((text, True) for text in planned)] or [(text, True) for text in _nothing_to_do(f, findings)]
    (first, rests), *further = texts
    told = condition + first if rests else f"{first} {condition.removesuffix('If so: ')}".rstrip()
    narrowed = [f"{POINTS} {DIRECTION_ALONE}"] * any(INTERVAL in text for text, _ in texts)
    return [told, *(text for text, _ in further), *narrowed]


def _to_decide(f: Facts, plan: Sequence[Setting]) -> Iterator[str]:
    """Yield sentences with the questions that only the owner of the run can decide.

    If no reward is primary and a setting of the plan moves a push, they ask which reward is primary. For a gate in the
    plan they may ask whether one reward should count only where another is high enough (see `to_decide`).
    """
    if f.basis.primary is None and plan:
        now = plan[0].push
        moved = [(abs(push - now[name]), name, row) for row in plan for name, push in row.push.items()]
        most = max((size for size, _, _ in moved if size >= MOVED), default=inf)
        # The first setting is taken that moves a push about as far as any does.
        for _, name, row in [x for x in moved if x[0] >= most - MOVED / 2][:1]:
            lowered = ", to be lowered," * (f.wanted[f.rewards.index(name)] < 0)
            yield (f"Open: name the reward that matters most (--primary): {listing(f.rewards, 'or', most=6)}.")
            yield (
                f"If you {row.do[:1].lower()}{row.do[1:]}, the push on {name}{lowered} goes from "
                f"{signed(now[name])} to {signed(row.push[name])}; whether that is better depends on "
                "which reward matters most."
            )
    yield from to_decide(f, plan)


def _recommended(plan: Sequence[Setting]) -> Iterator[str]:
    """Yield the sentences on the setting of a plan that is recommended: what to do and why, and what it costs. If one
    is held back instead, yield the sentences that say why, and what it would cost.
    """
    for row in plan:
        if row.recommended:
            yield f"{' '.join(filter(None, (row.do, row.only_if)))}: {row.why}."
            yield row.cost
        elif row.held_back:
            yield row.held_back
            yield row.cost


def not_called_for(f: Facts, findings: Sequence[Finding], plan: Sequence[Setting]) -> str:
    """Return what is not called for: “change”, or “other setting” where something else is urgent; "" where neither can
    be said.
    """
    open_ = to_decide(f, plan) or f.run.lost or not_looked_for(f)
    if _errors(findings) or open_ or not why_no_change(f, plan):
        return ""
    return "other setting" if _urgent(findings) else "change"


def _no_change(f: Facts, findings: Sequence[Finding], plan: Sequence[Setting]) -> list[str]:
    """Return the sentence that no change is called for, with its reason, in a list; [] where that cannot be said."""
    what = not_called_for(f, findings, plan)
    return [f"No {what} is called for: {why_no_change(f, plan)}."] if what else []


def _errors(findings: Sequence[Finding]) -> list[Finding]:
    return [x for x in findings if x.severity == "error"]


def _urgent(findings: Sequence[Finding]) -> list[Finding]:
    """Return the finding that comes before any setting, in a list; [] if there is none."""
    return _errors(findings)[:1] or [x for x in findings if x.severity == "warning" and KINDS[x.id].first][:1]


def _nothing_to_do(f: Facts, findings: Sequence[Finding]) -> list[str]:
    """Return the sentence that nothing has to be changed, or sentences on what has to be known before that can be
    said.
    """
    none = "No finding asks for a change" if findings else "There is no finding"
    if lost := f.run.lost:
        was, holds = ("was", "it holds") if len(lost) == 1 else ("were", "they hold")
        return [f"{none}, but {some(lost)} {was} not read, because {holds} no number."]
    if f.basis.primary is None and len(f.rewards) > 1:
        return [f"{none} yet.", NAME_PRIMARY]
    if f.contradicted:
        return [f"{none}, but the figures here are those of methods that did not make the logged advantages."]
    if unseen := not_looked_for(f):
        return [f"{none}, but {unseen}."]
    return [f"Nothing has to be changed: {'no finding asks for it' if findings else 'there is no finding'}."]


def not_looked_for(f: Facts) -> str:
    """Return the clause that says what no finding could show in this log; "" if what can be found was looked for."""
    if not f.run.has_advantage:
        return "the log holds no advantages, so the method and the weights could not be checked"
    if f.reproduced is None:
        return "its advantages do not show which method ran, so the method and the weights could not be checked"
    if not f.reproduced:
        return "not all logged advantages are explained"
    if alone := next((issue.details for issue in f.run.issues if issue.id == "total-of-parts"), None):
        return f"{some(alone['parts'])} could not be judged, because they do not add up to {alone['total']}"
    return ""


def caution(f: Facts) -> str:
    """Return the words that stand before the verdict on a log of few groups, or of groups that lack rows; an empty text
    where there are enough, and where all are whole.
    """
    groups, responses = f.totals.groups, count(f.totals.responses, "response")
    few = (
        f"This log is too short to judge: it holds {responses} in {count(groups, 'group')}. "
        "Take what follows as a first hint. "
    )
    lacking = incomplete_groups(f)
    lacks = ""
    if lacking is not None:
        rows = f"The log lacks rows of {lacking[0]} of {count(lacking[1], 'group')}, so that"
        if any_baseline(lacking):
            rows = "Either the log lacks rows of its groups, or each group has a baseline. If rows are missing,"
        lacks = f"{rows} shares, pushes and silent groups are those of the logged rows alone. "
    return few * (groups < FEW_GROUPS) + lacks


def logged_count(f: Facts) -> int:
    """Return the number of logged advantages, also of the advantages in batches that an evaluation or another method
    made.
    """
    return int(f.totals.logged.count + f.overwritten_batches.logged.count.sum())
