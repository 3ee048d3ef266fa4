"""Whether the logged advantages come out: overwritten files, merged columns, another method, other weights."""

from collections.abc import Iterator
from math import isclose

import polars as pl

from gdpo_core import settings
from gdpo_core.findings.facts import NAMES, Facts, Finding, at_steps, count, named
from gdpo_core.findings.thresholds import MERGED, SCALE_ONLY

_LISTED = 100  # steps in the evidence

# How each framework comes to compute something else than was asked for, without a word.
_SILENTLY = {
    "trl": "TRL needs multi_objective_aggregation; scale_rewards alone never makes GDPO. axolotl with "
    "context_parallel_size > 1 goes on with GRPO.",
    "ms_swift": "ms-swift's multi-turn path with split trajectories centres the sum and leaves it unscaled.",
}


def eval_overwrote(f: Facts) -> Iterator[Finding]:
    """Steps whose file an evaluation wrote."""
    off = _overwritten(f)
    if off is None:
        return
    steps = off["step"].to_list()
    yield Finding(
        "eval-overwrote",
        "warning",
        f"The logged advantages of {at_steps(steps)} do not come out, while those of the other steps do: they are off "
        f"by up to {off['max_error'].max():.2g}, in most groups by a factor alone. That is what an evaluation leaves "
        "behind: it writes the file of its step anew, with its own responses beside those of the training. Do not "
        "judge the training by these steps. Without evaluations the log stays whole.",
        {
            "steps": steps[:_LISTED],
            "rows_off": int(off["rows_off"].sum()),
            "max_error": off["max_error"].max(),
            "groups_off_by_a_factor": off["groups_off_same_direction"].sum() / max(off["groups_off"].sum(), 1),
            "threshold": SCALE_ONLY,
        },
        settings.no_evaluation(f.run.framework),
    )


def reward_columns_merged(f: Facts) -> Iterator[Finding]:
    """A reward that made the advantages is not in the log."""
    if not _merged(f):
        return
    hidden = int(f.totals["hidden_groups"])
    yield Finding(
        "reward-columns-merged",
        "error",
        f"In {count(hidden, 'group')} responses with equal rewards have different logged advantages: these were made "
        "from something that is not in the log. Mostly two reward functions have one name, and the log keeps one "
        "column for both (a penalty added to the reward looks the same). Give each function a __name__ of its own; "
        "until then no figure of this report covers what is missing.",
        {"hidden_groups": hidden, "groups": int(f.totals["groups"]), "threshold": MERGED},
        '# before the trainer is made\nsecond_reward.__name__ = "second_reward"',
    )


def advantages_not_reproduced(f: Facts) -> Iterator[Finding]:
    """Logged advantages that nothing makes, or not everywhere."""
    if f.reproduced is not False:
        return
    logged, off = int(f.totals["logged"]), int(f.totals["rows_off"])
    if f.totals["logged_zero"] == logged:
        if f.totals["mixed_groups"]:
            yield Finding(
                "advantages-not-reproduced",
                "error",
                f"The log says 0 for the advantage of every response ({logged:,}), though the rewards differ in "
                f"{count(f.totals['mixed_groups'], 'group')}: either nothing was trained, or the advantages were not "
                "in place yet when they were logged.",
                {"logged": logged, "logged_zero": logged, "mixed_groups": int(f.totals["mixed_groups"])},
                None,
            )
        return
    if f.recipe is None:
        # Merged columns make the whole log impossible to reproduce, and say so themselves.
        if not _merged(f):
            known = "total, which is all that is logged" if f.run.total_only else "logged rewards"
            yield Finding(
                "advantages-not-reproduced",
                "error",
                f"No method, convention and weights make the logged advantages from the {known} "
                f"(groups: {f.run.grouped_by}). Usual reasons: the groups are read wrongly (give the group size), "
                "another framework wrote the log (name it), rewards were clipped, shaped or carry a KL penalty before "
                "they were normalised, or a reward is not logged.",
                {"logged": logged, "grouped_by": f.run.grouped_by},
                None,
            )
        return
    bad = f.batches.filter(pl.col("rows_off") > 0)
    overwritten = _overwritten(f)
    if overwritten is not None:
        bad = bad.join(overwritten, on="batch", how="anti")
    if _merged(f) or not len(bad):
        return
    steps, rows = bad["step"].to_list(), int(bad["rows_off"].sum())
    scale = bad["groups_off_same_direction"].sum() / max(bad["groups_off"].sum(), 1)
    why = (
        "Most are a multiple of what they should be: the last step ran over another batch than the one in the log, "
        "as when an evaluation wrote the file, or several batches went into one"
        if scale >= SCALE_ONLY
        else "Usual reasons: an evaluation wrote the file, a group lost rows, rewards were clipped, shaped or carry a "
        "KL penalty there, or two runs wrote to one place"
    )
    yield Finding(
        "advantages-not-reproduced",
        "error",
        f"{rows:,} of {logged:,} logged advantages, at {at_steps(steps)}, are not what "
        f"{NAMES[f.recipe.method]} makes of the logged rewards, though it does make the others (off by up to "
        f"{bad['max_error'].max():.2g}). {why}.",
        {
            "rows_off": rows,
            "logged": logged,
            "all_rows_off": off,
            "steps": steps[:_LISTED],
            "max_error": bad["max_error"].max(),
            "groups_off_by_a_factor": scale,
        },
        None,
    )


def method_not_as_asked(f: Facts) -> Iterator[Finding]:
    """Another method ran than was asked for."""
    if f.asked is None or f.recipe is None or f.asked == f.recipe.method:
        return
    found, asked = NAMES[f.recipe.method], NAMES.get(f.asked, f.asked)
    fix = None
    if f.asked == "gdpo":
        fix = settings.switch_to_gdpo(f.run.framework, f.rewards, f.recipe.weights, f.run.group_size)
    yield Finding(
        "method-not-as-asked",
        "error",
        f"{asked} was asked for, but the logged advantages are those of {found}. "
        f"{_SILENTLY.get(f.run.framework, '')}".strip(),
        {"asked": f.asked, "found": f.recipe.method},
        fix,
    )


def weights_not_as_given(f: Facts) -> Iterator[Finding]:
    """The caller has other weights in mind than those in the log."""
    if f.recipe is None or not f.given:
        return
    known = [k for k, name in enumerate(f.rewards) if name in f.given and k not in f.recipe.unknown]
    given, made = ([w[k] for k in known] for w in ([f.given.get(name, 1.0) for name in f.rewards], f.recipe.weights))
    if not known:
        return
    # But for its eps, a method that divides by a std takes a common factor out again.
    up_to_scale = f.recipe.up_to_scale or f.recipe.method != "grpo_no_std"
    if up_to_scale:
        largest = max(range(len(known)), key=lambda i: abs(made[i]))
        factor = given[largest] / made[largest] if made[largest] else 1.0
        made = [factor * w for w in made]
    if all(isclose(a, b, rel_tol=1e-3, abs_tol=1e-6) for a, b in zip(given, made, strict=True)):
        return
    names = [f.rewards[k] for k in known]
    said, was = (named([f"{n} {w:.4g}" for n, w in zip(names, ws, strict=True)]) for ws in (given, made))
    up_to = ", up to a common factor" if up_to_scale else ""
    yield Finding(
        "weights-not-as-given",
        "warning",
        f"The weights given ({said}) are not those that made the logged advantages ({was}{up_to}). The figures here "
        "follow the weights given.",
        {"given": dict(zip(names, given, strict=True)), "logged": dict(zip(names, made, strict=True))},
        settings.set_weights(f.run.framework, f.rewards, f.plan.weights, f.recipe.method),
    )


def _merged(f: Facts) -> bool:
    """Whether a reward that made the advantages is missing from the log of a framework with a column a function."""
    if f.reproduced is not False or f.run.framework not in ("trl", "ms_swift") or f.run.total_only:
        return False
    # A column that is missing is missing everywhere.
    if f.recipe is not None and len(f.batches.filter(pl.col("rows_off") == 0)) > len(f.batches) / 2:
        return False
    off = f.totals["groups_off"] or f.totals["mixed_groups"]
    return f.totals["hidden_groups"] > MERGED * off


def _overwritten(f: Facts) -> pl.DataFrame | None:
    """The batches that an evaluation wrote: right but for a factor, in a log whose other batches come out."""
    if f.run.framework != "trl" or f.recipe is None or _merged(f):
        return None
    off = f.batches.filter(pl.col("rows_off") > 0)
    right = f.batches.filter((pl.col("rows_off") == 0) & (pl.col("logged") > 0))
    scale = off["groups_off_same_direction"].sum() / max(off["groups_off"].sum(), 1)
    return off if len(off) and len(right) and scale >= SCALE_ONLY else None
