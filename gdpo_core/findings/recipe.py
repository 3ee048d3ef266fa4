"""The findings about reproducing the logged advantages: overwritten files, merged columns, other methods or weights."""

from collections.abc import Iterator
from dataclasses import replace
from math import isclose

import polars as pl

from gdpo_core import reproduce, settings
from gdpo_core._words import count, number
from gdpo_core.findings.facts import NAMES, Facts, Finding, at_steps, off_by_a_factor, real, some, sums
from gdpo_core.findings.thresholds import MERGED, SCALE_ONLY
from gdpo_core.reproduce import Recipe
from gdpo_core.summary import Summary

_LISTED = 100  # steps in the evidence
_SOLVED_FROM = 20_000  # responses

# By framework and the method that ran (None: any): why the framework does not run GDPO though it was asked for.
_SILENTLY = {
    ("trl", None): "TRL needs multi_objective_aggregation; scale_rewards alone never makes GDPO. axolotl with "
    "context_parallel_size > 1 keeps running GRPO.",
    ("ms_swift", "grpo_no_std"): "ms-swift centres the sum without dividing it under advantage_estimator "
    "reinforce_plus_plus, and in its multi-turn path with split trajectories.",
}


def eval_overwrote(f: Facts) -> Iterator[Finding]:
    """Steps whose file an evaluation wrote."""
    overwritten = f.overwritten
    if not len(overwritten):
        return
    steps, error = overwritten["step"].to_list(), real(overwritten["max_error"].max())
    yield Finding(
        "eval-overwrote",
        "warning",
        f"The logged advantages of {at_steps(steps)} are not reproduced, while those of the other steps are: they "
        f"differ by up to {number(error, 2)}, in most groups only by a factor. That is what an evaluation leaves "
        "behind: it overwrites the file of its step, with its own responses beside those of the training or in their "
        "place. These steps are left out of the figures here. Without evaluations the log stays whole.",
        {
            "steps": steps[:_LISTED],
            "rows_off": int(overwritten["rows_off"].sum()),
            "max_error": error,
            "groups_off_by_a_factor": off_by_a_factor(overwritten),
            "threshold": SCALE_ONLY,
        },
        f"{settings.no_evaluation(f.run.framework)}  # or leave {at_steps(steps)} out where you read the log",
    )


def reward_columns_merged(f: Facts) -> Iterator[Finding]:
    """A reward that made the advantages is not in the log."""
    if not _merged(f):
        return
    hidden = int(f.totals["hidden_groups"])
    unread = f" Columns of it that were not read: {some(f.run.left_out)}." if f.run.left_out else ""
    yield Finding(
        "reward-columns-merged",
        "error",
        f"In {count(hidden, 'group')}, responses with equal rewards have different logged advantages: something that "
        f"is not among the rewards read from the log went into them.{unread} Usually two reward functions share a "
        "name, and the log keeps one column for both (a penalty added to the reward looks the same). Give each "
        "function a name of its own; until then no figure of this report covers what is missing.",
        {"hidden_groups": hidden, "groups": int(f.totals["groups"]), "threshold": MERGED},
        settings.own_name(f.run.framework),
    )


def advantages_not_reproduced(f: Facts) -> Iterator[Finding]:
    """Logged advantages that no recipe reproduces, or none in every batch."""
    if f.reproduced is not False:
        return
    logged = int(f.totals["logged"])
    if f.totals["logged_zero"] == logged:
        if f.totals["mixed_groups"]:
            yield Finding(
                "advantages-not-reproduced",
                "error",
                f"The log says 0 for the advantage of every response ({count(logged)}), though the rewards differ in "
                f"{count(f.totals['mixed_groups'], 'group')}: either nothing was trained, or the advantages were not "
                "in place yet when they were logged.",
                {"logged": logged, "logged_zero": logged, "mixed_groups": int(f.totals["mixed_groups"])},
                None,
            )
        return
    if f.recipe is None:
        if f.run.total_only:
            yield Finding(
                "advantages-not-reproduced",
                "info",
                f"The total alone does not make the logged advantages (groups: {f.run.grouped_by}).",
                {"logged": logged, "grouped_by": f.run.grouped_by},
                None,
            )
        # Merged columns make the whole log impossible to reproduce; that finding says so itself.
        elif not _merged(f):
            evaluation = "evaluations wrote into the files of all steps, " if f.run.framework == "trl" else ""
            yield Finding(
                "advantages-not-reproduced",
                "error",
                "No method, convention and weights make the logged advantages from the logged rewards "
                f"(groups: {f.run.grouped_by}). Usual reasons: the groups are different ones (another group size), "
                f"another framework wrote the log (name it), {evaluation}rewards were clipped, shaped or carry a KL "
                "penalty before they were normalised, or a reward is not logged.",
                {"logged": logged, "grouped_by": f.run.grouped_by},
                None,
            )
        return
    bad = f.batches.filter(pl.col("rows_off") > 0)
    if _merged(f) or not len(bad):
        return
    steps, rows = bad["step"].to_list(), int(bad["rows_off"].sum())
    scale, error = off_by_a_factor(bad), real(bad["max_error"].max())
    another = _another(f, bad)
    if another is not None:
        weights = some(f"{name} {number(w)}" for name, w in zip(f.rewards, another.weights, strict=True))
        why = f"There they are {NAMES[another.method]} with weights {weights}: another run wrote them, or this one "
        why += "was changed on the way"
    elif scale >= SCALE_ONLY:
        why = "Most are a multiple of what they should be: the last step ran over another batch than the one in the "
        why += "log, as when an evaluation wrote the file, or several batches went into one"
    else:
        why = "Usual reasons: an evaluation wrote the file, a group lost rows, rewards were clipped, shaped or carry a "
        why += "KL penalty there, or two runs wrote to one place"
    yield Finding(
        "advantages-not-reproduced",
        "error",
        f"{count(rows)} of {count(logged)} logged advantages, at {at_steps(steps)}, are not what "
        f"{NAMES[f.recipe.method]} makes of the logged rewards, though it makes the others (they differ by up to "
        f"{number(error, 2)}). {why}.",
        {
            "rows_off": rows,
            "logged": logged,
            "steps": steps[:_LISTED],
            "max_error": error,
            "groups_off_by_a_factor": scale,
            **({} if another is None else {"method_there": another.method}),
        },
        None,
    )


def method_not_as_asked(f: Facts) -> Iterator[Finding]:
    """The method that ran is not the one asked for."""
    if f.asked is None or f.recipe is None or f.asked == f.recipe.method:
        return
    ran, asked = NAMES[f.recipe.method], NAMES.get(f.asked, f.asked)
    fix, why = None, ""
    if f.asked == "gdpo":
        known = ((f.run.framework, None), (f.run.framework, f.recipe.method))
        why = " ".join(_SILENTLY[key] for key in known if key in _SILENTLY)
        fix = settings.switch_to_gdpo(f.run.framework, f.rewards, f.recipe.weights, f.run.group_size)
    yield Finding(
        "method-not-as-asked",
        "error",
        f"{asked} was asked for, but the logged advantages are those of {ran}. {why}".strip(),
        {"asked": f.asked, "found": f.recipe.method},
        fix,
    )


def weights_not_as_given(f: Facts) -> Iterator[Finding]:
    """The weights that the caller gave are not those that made the logged advantages."""
    if f.recipe is None or not f.given:
        return
    known = [k for k, name in enumerate(f.rewards) if name in f.given and k not in f.recipe.unknown]
    given, made = ([w[k] for k in known] for w in ([f.given.get(name, 1.0) for name in f.rewards], f.recipe.weights))
    if not known:
        return
    # A method that divides by a std removes a common factor of the weights, but for what its eps leaves of it.
    up_to_scale = f.recipe.up_to_scale or f.recipe.method != "grpo_no_std"
    if up_to_scale:
        largest = max(range(len(known)), key=lambda i: abs(made[i]))
        factor = given[largest] / made[largest] if made[largest] else 1.0
        made = [factor * w for w in made]
    if all(isclose(a, b, rel_tol=1e-3, abs_tol=1e-6) for a, b in zip(given, made, strict=True)):
        return
    names = [f.rewards[k] for k in known]
    of_caller, of_log = (some(f"{n} {number(w)}" for n, w in zip(names, ws, strict=True)) for ws in (given, made))
    up_to = ", up to a common factor" if up_to_scale else ""
    yield Finding(
        "weights-not-as-given",
        "warning",
        f"The weights given ({of_caller}) are not those that made the logged advantages ({of_log}{up_to}). The figures "
        "here follow the weights given.",
        {"given": dict(zip(names, given, strict=True)), "logged": dict(zip(names, made, strict=True))},
        settings.set_weights(f.run.framework, f.rewards, f.plan.weights, f.recipe.method),
    )


def _merged(f: Facts) -> bool:
    """Whether a reward that made the advantages is missing, in a log with one column per reward function."""
    if f.reproduced is not False or f.run.framework not in ("trl", "ms_swift") or f.run.total_only:
        return False
    # A missing column is missing in every batch.
    if f.recipe is not None and len(f.batches.filter(pl.col("rows_off") == 0)) > len(f.batches) / 2:
        return False
    groups = f.totals["groups_off"] or f.totals["mixed_groups"]
    return f.totals["hidden_groups"] > MERGED * groups


def _another(f: Facts, bad: pl.DataFrame) -> Recipe | None:
    """One recipe that reproduces all of these batches; None if there is none."""
    few = bad.filter(pl.col("responses").cum_sum() - pl.col("responses") < _SOLVED_FROM)
    recipe = reproduce.solve(list(_tables(f, few)), f.rewards, f.run.framework)
    if recipe is None:
        return None
    compared = (reproduce.compare(table, f.rewards, recipe) for table in _tables(f, bad))
    return None if any(bool((error > allowed).any()) for error, allowed in compared) else recipe


def _tables(f: Facts, batches: pl.DataFrame) -> Iterator[pl.DataFrame]:
    """The responses of these batches."""
    chosen = pl.col("batch").is_in(batches["batch"].to_list())
    return (part for table in f.run.tables() if len(part := table.filter(chosen)))


def without_overwritten(f: Facts) -> Facts:
    """The same run without the batches that an evaluation wrote: they differ by a factor, all others are reproduced."""
    if f.run.framework != "trl" or f.recipe is None or _merged(f):
        return f
    if len(f.recipe.unknown) == len(f.rewards):  # guessed weights may be wrong by a factor themselves
        return f
    good, bad = f.batches.filter(pl.col("rows_off") == 0), f.batches.filter(pl.col("rows_off") > 0)
    if not len(bad) or off_by_a_factor(bad) < SCALE_ONLY or not (good["logged"] > 0).any():
        return f
    return replace(f, batches=good, totals=sums(Summary(f.plan, good)), overwritten=bad)
