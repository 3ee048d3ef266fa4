"""Claims: a record of each decision that reading a log made, with its evidence. A report rests on these claims, and is
never more certain than they are.

A claim is *proved* if the logged advantages are reproduced under it, all of them, and not under the alternatives that
were tried. It *agrees* if something in the log holds that need not hold: the rewards give the total in every row,
advantages add up to 0 in every group, all groups are equally large, a configuration beside the log says so; or if the
caller says so. Otherwise it is *assumed*: a name, a place or a default stands behind it.
"""

from collections.abc import Iterable, Mapping
from shlex import quote

import polars as pl

from gdpo_audit.facts.claims_of_rows import claim_of, explained, incomplete_groups, responses_of
from gdpo_audit.facts.facts import Facts
from gdpo_audit.facts.given_weights import contradicted_weights, unshown
from gdpo_audit.facts.wording import whose
from gdpo_audit.logs.columns.behaviour import CLOCK
from gdpo_audit.logs.columns.candidates import SAMPLED_ROWS
from gdpo_audit.logs.numbers.clues import balanced_share
from gdpo_audit.phrases import some
from gdpo_audit.recipe.recipe import GRIDS, TOLERANCE
from gdpo_audit.records import AGREES, ASSUMED, PROVED, Claim
from gdpo_core.conventions import NAMES
from gdpo_core.frameworks import ALL_CONVENTIONS
from gdpo_core.registry import method_named
from gdpo_core.shared.words import count, listing, number

ALL_ADD_UP = 0.99  # the share of groups whose advantages add up to 0, from which on they do so "in nearly every group"
DECISIVE = ("groups", "rewards", "weights")  # every share, every push and every row of a plan rests on these


def claims_of(f: Facts) -> tuple[Claim, ...]:
    """Return a claim for each decision that reading a log made, at most eight, in the order in which they were made."""
    groups = _groups(f)
    each = (responses_of(f, groups), _steps(f), groups, _rewards(f), _total(f), _weights(f), _method(f), _missing(f))
    return tuple(claim for claim in each if claim is not None)


def taken_for_granted(claims: Iterable[Claim]) -> tuple[Claim, ...]:
    """Return the claims that decide shares, pushes and advice, and that are only assumed."""
    return tuple(claim for claim in claims if claim.what in DECISIVE and claim.evidence == ASSUMED)


def assumed_condition(claims: Iterable[Claim]) -> str:
    """Return the words that stand before a verdict that rests on something assumed, with how to settle it; "" where
    nothing that decides is assumed.

    >>> weights = Claim(what="weights", taken="1 each", evidence="assumed", because="", otherwise="--weight NAME=W")
    >>> assumed_condition([weights])
    'Taken for granted: the weights are 1 each. If not: --weight NAME=W. If so: '
    """
    granted = taken_for_granted(claims)
    if not granted:
        return ""
    what = listing((f"the {claim.what} are {claim.taken}" for claim in granted), link="and")
    options = [claim.otherwise for claim in granted if claim.otherwise]
    ways = listing(options, link="or") if options else ""
    return f"Taken for granted: {what}. {f'If not: {ways}. ' * bool(ways)}If so: "


def rests_on(granted: Iterable[Claim]) -> str:
    """Return the sentence that a finding ends with if it rests on claims that are only assumed; "" without any."""
    what = [f"the {claim.what} are {claim.taken}" for claim in granted]
    return f" This holds if {listing(what)}, which the log does not show." if what else ""


# --- one decision each ------------------------------------------------------------------------------------------------


def either_baseline(f: Facts) -> bool:
    """Return whether RLOO's baseline, the mean of the other responses, gives the advantages as well as the mean of the
    group does, with weights that differ by a factor.

    It does where the method divides by nothing and all groups have one size, or lack rows that were never logged. What
    the run was given as its weights settles which of them it was.
    """
    if f.recipe is None or f.recipe.method != "grpo_no_std":
        return False
    shown = f.run.weights if f.run.weights_by in ("score", "config", "log", "parts") else None
    told = f.given_weights or shown or {}
    pairs = [(told.get(name, 0.0), w) for name, w in zip(f.rewards, f.recipe.weights, strict=True)]
    settled = any(told.values()) and all(abs(w - given) <= 1e-6 * abs(given) for given, w in pairs)
    return not settled and (f.run.group_size is not None or incomplete_groups(f) is not None)


def _steps(f: Facts) -> Claim:
    """Return the claim on what numbers the steps."""
    steps = count(len(f.steps), "step")
    if not f.run.has_steps:
        many = len(f.run.files) > 1
        taken = f"{steps}, a step per file" if many else "1 step"
        why = "the files stand in this order" if many else "no column of the log is read as the number of a step"
        reasons: Mapping[str, str] = next((x.details["columns"] for x in f.run.issues if x.id == "no-reward"), {})
        clock = next((name for name, reason in reasons.items() if reason == CLOCK), None)
        why += f"; {clock} rises along the log" if clock and not many else ""
        return claim_of("steps", taken, ASSUMED, why, f"--columns step={quote(clock or 'NAME')}")
    name = f.run.step_column or "step"
    taken = f"{steps}, from {name}"
    own_step = f.method in ("gdpo", "grpo_batch_std") and f.recipe is not None and not f.recipe.alike
    if explained(f) and own_step and len(f.steps) > 1:
        return claim_of("steps", taken, PROVED, f"the batch step of {NAMES[f.method]} is reproduced in each")
    sizes = f.batches.responses
    rising = bool((f.batches.step[1:] >= f.batches.step[:-1]).all())
    if rising and len(sizes) > 1 and bool((sizes == sizes[0]).all()):
        return claim_of("steps", taken, AGREES, f"it rises along the log, and each holds {count(int(sizes[0]))} rows")
    return claim_of("steps", taken, ASSUMED, "its name says so", "--columns step=NAME")


def _groups(f: Facts) -> Claim:
    """Return the claim on which rows are a group."""
    size = f"groups of {f.run.group_size}" if f.run.group_size else "groups of different sizes"
    seen = _looked_at(f, sum(map(len, f.tables)))
    by, way = f"{size}, by {f.run.grouped_by}", "--group NAME" if f.run.grouped_by_column else "--group-size N"
    if explained(f) and not f.all_zero:
        return claim_of("groups", by, PROVED, "the logged advantages are reproduced in them")
    if f.run.has_advantage and _advantages_add_up(f):
        return claim_of("groups", by, AGREES, f"the logged advantages add up to 0 in nearly every group{seen}", way)
    if any(issue.id == "prompts-merged" for issue in f.run.issues):
        return claim_of("groups", by, ASSUMED, "several of them share a prompt", way)
    if f.run.grouped_by_column and (f.run.group_size or 0) > 1:
        return claim_of("groups", by, AGREES, "all of these groups are equally large", way)
    if (f.run.group_size or 0) > 1 and _one_prompt_a_group(f):
        return claim_of("groups", by, AGREES, f"all rows of a group have one prompt{seen}", way)
    return claim_of("groups", by, ASSUMED, "nothing else in the log shows them", way)


def _looked_at(f: Facts, rows: int) -> str:
    """Return words that say that only a sample was looked at; "" where it holds all responses.

    rows: the most rows of the sample.
    """
    return " of a sample" if rows < f.totals.responses else ""


def _sample(f: Facts, *columns: str) -> pl.DataFrame:
    """Return these columns of a sample of the responses."""
    return pl.concat([table.select(columns) for table in f.tables])


def _one_prompt_a_group(f: Facts) -> bool:
    """Return whether each group of a sample has one prompt, and not all groups have the same one."""
    if not f.tables or "_prompt_key" not in f.tables[0].columns:
        return False
    table = _sample(f, "group", "_prompt_key")
    prompts = table.group_by("group").agg(pl.col("_prompt_key").n_unique())["_prompt_key"]
    return prompts.max() == 1 and (len(prompts) == 1 or table["_prompt_key"].n_unique() > 1)


def _advantages_add_up(f: Facts) -> bool:
    """Return whether the logged advantages add up to 0 in (nearly) every group of a sample, but for round-off."""
    table = _sample(f, "group", "advantage")
    group = table["group"].rank("dense").to_numpy() - 1
    return balanced_share(group.astype(int), table["advantage"].fill_nan(0).fill_null(0).to_numpy()) >= ALL_ADD_UP


def _rewards(f: Facts) -> Claim:
    """Return the claim on which columns are the rewards, or which column is the reward."""
    names, way = some(f.run.rewards), "--reward NAME"
    what = "rewards" if len(f.run.rewards) > 1 else "reward"
    shown = f.recipe is not None and all(w for w in f.recipe.known if w is not None)
    made = explained(f) and shown and bool(f.known_weights)
    open_ones = unshown(f)
    if made and not open_ones:
        return claim_of(what, names, PROVED, "the logged advantages are made of them")
    if f.run.rewards_named:
        return claim_of(what, names, AGREES, "they were named for this audit")
    if made and not any(open_ones.values()):
        differ = "differs inside a group and changes" if len(open_ones) == 1 else "differ inside a group and change"
        still = f"{some(open_ones)} never {differ} nothing"
        return claim_of(what, names, AGREES, f"the logged advantages are made of the others; {still}", way)
    if made:
        varying = [name for name, varies in open_ones.items() if varies]
        which = f"whether {varying[0]} counts" if len(varying) == 1 else f"which of {some(varying)} counts"
        return claim_of(what, names, ASSUMED, f"the logged advantages do not show {which}", way)
    if f.run.total is not None and f.run.weights_by == "score":
        return claim_of(what, names, AGREES, f"they give {f.run.total} in every row{_looked_at(f, SAMPLED_ROWS)}", way)
    if f.run.weights_by in ("config", "log", "parts"):
        where = "the log itself" if f.run.weights_by == "log" else "a configuration"
        return claim_of(what, names, AGREES, f"{where} names them", way)
    return claim_of(what, names, ASSUMED, "their names and numbers look like rewards", way)


def _total(f: Facts) -> Claim | None:
    """Return the claim on the column that the rewards add up to; None where there is none."""
    total = f.run.total
    if total is None or total in f.rewards:
        return None
    if f.run.weights_by == "score":
        return claim_of(
            "total", total, AGREES, f"the weighted rewards give it in every row{_looked_at(f, SAMPLED_ROWS)}"
        )
    return claim_of("total", total, ASSUMED, "its name says so; the rewards do not give it in every row")


def _weights(f: Facts) -> Claim | None:
    """Return the claim on the weights of the rewards; None for a single reward, which needs none."""
    if len(f.rewards) < 2:
        return None
    used = dict(zip(f.rewards, f.printed(f.basis.weights), strict=True))
    unknown = [name for name in f.rewards if f.recipe is not None and name not in f.known_weights]
    words = some(f"{name} {number(w)}" for name, w in used.items() if name not in unknown)
    taken = f"1 each ({some(used)})" if {*used.values()} == {1.0} and not unknown else words
    taken += f"; of {some(unknown)} not known" if unknown and words else ""
    way = f"--weight {quote([*unknown, *f.rewards][0])}=W"
    surely = PROVED if explained(f) else AGREES
    if f.weights_by_column:
        column = next(issue.details["column"] for issue in f.run.issues if issue.id == "weights-by-column")
        return claim_of("weights", f"they depend on {column}", surely, "each of its values shows its own")
    if len(f.phases) > 1:
        taken, why = f"changing {count(len(f.phases) - 1, 'time')}", "each step shows its own"
        if f.recipe is not None and f.recipe.grid and f.run.total is None:  # a small change is lost in the rounding
            return claim_of(
                "weights", taken.replace(" ", " at least ", 1), AGREES, f"{why}, as far as rounded numbers do"
            )
        return claim_of("weights", taken, surely, why)
    if f.given_weights and contradicted_weights(f):
        return claim_of("weights", taken, ASSUMED, "they were given for this audit, but the log shows others")
    if explained(f) and not f.given_weights and any(unshown(f).values()):
        names = [name for name, varies in unshown(f).items() if varies]
        why = f"the log does not show how {some(names)} {'weighs' if len(names) == 1 else 'weigh'}"
        return claim_of("weights", taken or "1 each", ASSUMED, why, f"--weight {quote(names[0])}=W")
    if explained(f) and f.known_weights and _matching(f):
        ratio = "; the log shows only their ratio" if f.ratios_alone or f.scaled_by_batch else ""
        under = "with this method, " if either_baseline(f) else ""
        why = f"{under}no other weights that were tried give all {count(int(f.totals.logged.count))} advantages{ratio}"
        return claim_of("weights", taken, PROVED, why)
    source = f.weights_from
    if source == "assumed" or (source == "solved" and not f.known_weights):
        unmade = source == "assumed" and f.run.has_advantage and f.recipe is None
        why = "no known method makes the logged advantages, which would show them" if unmade else _NOT_SHOWN
        return claim_of("weights", "1 each", ASSUMED, why, way)
    if source == "fitted":
        return claim_of("weights", taken, ASSUMED, f"with them the rewards come near {f.run.total}, and no nearer", way)
    why = _SOURCES[source].format(total=f.run.total) + _looked_at(f, SAMPLED_ROWS) * (source == "score")
    return claim_of("weights", taken, AGREES, why, way)


_NOT_SHOWN = "the log does not show them"
_SOURCES = {  # by `Facts.weights_from`: why weights that are not proved are taken
    "given": "they were given for this audit",
    "solved": "they give most of the logged advantages",
    "score": "with them the rewards give {total} in every row",
    "config": "a configuration beside the log holds them",
    "log": "the log holds them",
    "parts": "they were given as what a pass pays",
    "nearest": "the logged advantages show them, though no known method makes these",
}


def _matching(f: Facts) -> bool:
    """Return whether the weights of the figures are those that the recipe shows, as far as it shows them."""
    used = dict(zip(f.rewards, f.basis.weights, strict=True))
    known = f.known_weights
    return all(abs(used[name] - w) <= 1e-9 * max(1.0, abs(w)) for name, w in known.items())


def _method(f: Facts) -> Claim:
    """Return the claim on the method and the convention that made the advantages."""
    if f.recipe is None:
        name = NAMES[f.method]
        if f.run.has_advantage and f.contradicted:
            taken, logged = f"not known; figures are those of {name}", "the logged advantages"
            if guess := next((i.details["column"] for i in f.run.issues if i.id == "advantage-found"), ""):
                logged = f"{guess}, which was taken for the advantage"
            return claim_of("method", taken, ASSUMED, f"no known method makes {logged}", "--asked METHOD")
        why = "the log holds no advantages that show it"
        if f.intended_method == f.method and not f.trainers_own and f.intended_method is not None:
            return claim_of("method", name, AGREES, f"it was asked for; {why}", "--asked METHOD")
        return claim_of("method", f"not known; figures are those of {name}", ASSUMED, why, "--asked METHOD")
    taken = NAMES[f.recipe.method]
    taken += "" if f.recipe.convention_open else f" as {whose(f.recipe.convention)} computes it"
    if not f.reproduced:
        wrong = int(f.totals.logged.wrong + f.overwritten_batches.logged.wrong.sum())
        return claim_of("method", taken, AGREES, f"it gives all logged advantages but {count(wrong)}", "--asked METHOD")
    if beyond_rounding(f):
        why = (
            f"it gives all logged advantages but for {number(f.totals.logged.max_error)}, more than they are rounded by"
        )
        return claim_of("method", taken, AGREES, why)
    if f.scaled_by_batch:
        why = "it gives all logged advantages, each batch times a number of its own, in which a std may be"
        return claim_of("method", taken, AGREES, why)
    if f.recipe.alike is None:
        why = "it gives all logged advantages; whether another one does was not tried"
        return claim_of("method", taken, AGREES, why)
    if either_baseline(f):
        convention = ALL_CONVENTIONS[f.recipe.convention]
        either = "without" if convention.leave_one_out or convention.mean_of_others else "with"
        why = f"it gives all logged advantages, and so does the same {either} leave-one-out with weights in that ratio"
        return claim_of("method", taken, AGREES, why)
    if f.recipe.alike:
        same = listing((NAMES[method] for method in f.recipe.alike), link="and")
        return claim_of("method", taken, AGREES, f"it gives all logged advantages, and so does {same} on these rewards")
    return claim_of("method", taken, PROVED, "it gives all logged advantages, and no other method that was tried does")


def beyond_rounding(f: Facts) -> bool:
    """Return whether the recipe misses an advantage by more than the decimals explain with which they are logged. It
    may by half as much again before it counts as wrong, as weights fitted to rounded numbers do; that is no proof.
    """
    decimals = GRIDS[f.recipe.grid] if f.recipe is not None and f.recipe.grid else None
    if not isinstance(decimals, int):
        return False
    return bool(f.totals.logged.max_error > 0.5 * 10.0**-decimals + TOLERANCE)


def _missing(f: Facts) -> Claim | None:
    """Return the claim on what a missing reward means; None where none is missing."""
    present = f.totals.rewards.present
    missing = [name for k, name in enumerate(f.rewards) if int(f.totals.responses) > int(present[k])]
    if not missing:
        return None
    missing_one = f"a missing {listing(missing, 'or', most=8)}"
    summed = (
        len(f.rewards) > 1 and not method_named(f.method).decoupled
    )  # the total is normalised, to which 0 adds nothing
    taken = (
        f"{missing_one} adds nothing to the total, as 0 would" if summed else f"{missing_one} is left out, and is no 0"
    )
    if explained(f):
        return claim_of("missing", taken, PROVED, "the logged advantages are reproduced so")
    return claim_of("missing", taken, ASSUMED, "the trainer's convention says so")


def line_of(claim: Claim) -> str:
    """Return what was taken and why; where it is only assumed, also the option that says otherwise.

    >>> line_of(Claim(what="steps", taken="1 step", evidence="assumed", because="no column", otherwise="--columns"))
    '1 step: no column (otherwise --columns)'
    """
    return f"{claim.taken}: {claim.because}{otherwise_of(claim)}"


def otherwise_of(claim: Claim) -> str:
    """Return the option that says otherwise, in brackets after a blank; "" for a claim that is not only assumed."""
    return f" (otherwise {claim.otherwise})" if claim.otherwise and claim.evidence == ASSUMED else ""
