"""Claims: a record of each decision that reading a log made, with its evidence. A report rests on these claims, and is
never more certain than they are.

A claim is *proved* if the logged advantages are reproduced under it, all of them, and not under the alternatives that
were tried. It *agrees* if something in the log holds that need not hold: the rewards give the total in every row,
advantages add up to 0 in every group, all groups are equally large, a configuration beside the log says so; or if the
caller says so. Otherwise it is *assumed*: a name, a place or a default stands behind it.
"""

from collections.abc import Iterable, Mapping
from shlex import quote
from typing import Any

import polars as pl

from gdpo_audit.findings.facts import Facts
from gdpo_audit.findings.findings_weights import contradicted_weights
from gdpo_audit.findings.sentences import whose
from gdpo_audit.findings.words import some
from gdpo_audit.logs.columns.behaviour import CLOCK
from gdpo_audit.logs.columns.candidates import SAMPLE
from gdpo_audit.logs.numbers.clues import add_up
from gdpo_audit.recipe.recipe import GRIDS, TOLERANCE
from gdpo_audit.records import AGREES, ASSUMED, PROVED, Claim
from gdpo_core._words import count, listing, number
from gdpo_core.conventions import NAMES
from gdpo_core.frameworks import ALL_CONVENTIONS

ALL_ADD_UP = 0.99  # the share of groups whose advantages add up to 0, from which on they do so "in nearly every group"
DECISIVE = ("groups", "rewards", "weights")  # every share, every push and every row of a plan rests on these


def claims_of(f: Facts) -> tuple[Claim, ...]:
    """Return a claim for each decision that reading a log made, at most eight, in the order in which they were made."""
    groups = _groups(f)
    each = (_responses(f, groups), _steps(f), groups, _rewards(f), _total(f), _weights(f), _method(f), _missing(f))
    return tuple(claim for claim in each if claim is not None)


def taken_for_granted(claims: Iterable[Claim]) -> tuple[Claim, ...]:
    """Return the claims that decide shares, pushes and advice, and that are only assumed."""
    return tuple(claim for claim in claims if claim.what in DECISIVE and claim.evidence == ASSUMED)


def condition(claims: Iterable[Claim]) -> str:
    """Return the words that stand before a verdict that rests on something assumed, with how to settle it; "" where
    nothing that decides is assumed.

    >>> weights = Claim(what="weights", taken="1 each", evidence="assumed", because="", otherwise="--weight NAME=W")
    >>> condition([weights])
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


def _responses(f: Facts, groups: Claim) -> Claim:
    """Return the claim on which rows are responses of the training.

    groups: the claim on the groups, without which nothing tells whether a row belongs to the training.
    """
    in_all = f.batches, f.repeated_batches, f.overwritten_batches
    rows = int(sum(batches.responses.sum() for batches in in_all))
    apart = int(f.repeated_batches.responses.sum() + f.overwritten_batches.responses.sum())
    untrained = [issue for issue in f.run.issues if issue.id == "not-trained"]
    masked = next((issue.details for issue in f.run.issues if issue.id == "masked"), None)
    left = sum(issue.details["rows"] for issue in untrained)
    left += masked["rows"] if masked is not None and not masked["counts"] else 0
    taken = f"{count(rows - apart)} of {count(rows + left)} rows" if apart or left else f"all {count(rows)} rows"
    taken += f" in {count(int(f.totals.groups), 'group')}"
    if lacking := incomplete_groups(f):
        lack = f"{taken}; the log lacks rows of {lacking[0]} of {count(lacking[1], 'group')}"
        return _claim("responses", lack, PROVED, "the logged advantages are reproduced only so")
    if any(issue.id == "rows-twice" for issue in f.run.issues):
        return _claim("responses", taken, ASSUMED, "rows that stand twice count twice")
    if _explained(f) and masked is not None:
        return _claim("responses", taken, *_of_masked(masked))
    clipped = sum(issue.details["rows"] for issue in f.run.issues if issue.id == "clipped")
    without = int(f.totals.responses - f.totals.logged.count) - clipped if f.run.has_advantage else 0
    beside = f"; {count(clipped)} of them lie on a bound, where the advantages were clipped" if clipped else ""
    if _explained(f) and without > 0:
        return _claim("responses", taken, ASSUMED, f"{count(without)} of them have no advantage and count all the same")
    if _explained(f) and any(issue.details["why"] in ("evaluation", "alone") for issue in untrained):
        why = f"their logged advantages are reproduced{beside}; a column alone says that the others are no training"
        return _claim("responses", taken, AGREES, why, "--by COLUMN")
    if _explained(f):
        why = f"their logged advantages are reproduced from these rows alone{beside}"
        return _claim("responses", taken, PROVED, why)
    if groups.evidence != ASSUMED and (f.run.group_size or 0) > 1:
        return _claim("responses", taken, AGREES, f"every group holds {f.run.group_size}, as groups of a training do")
    if groups.evidence == AGREES and f.run.has_advantage:
        return _claim("responses", taken, AGREES, "the logged advantages add up to 0 in nearly every group of them")
    return _claim("responses", taken, ASSUMED, "nothing in the log tells rows of an evaluation, or lost rows, apart")


def _of_masked(masked: Mapping[str, Any]) -> tuple[str, str]:
    """Return the evidence and the reason of the claim on the responses, where some rows have the advantage 0 or none
    and the others are reproduced.

    masked: the details of the issue `masked`.
    """
    rows = count(masked["rows"])
    if masked["untrained"]:
        return AGREES, f"their advantages are reproduced without the others, which {masked['column']} alone tells"
    if masked["missing"]:
        return AGREES, f"their advantages are reproduced without the {rows} others, which have none"
    return PROVED, f"the others are reproduced; {rows} have advantage 0 by a mask"


def incomplete_groups(f: Facts) -> tuple[int, int] | None:
    """Return in how many groups the logged advantages show that rows are missing, and how many groups there are; None
    if they show no such thing.
    """
    issue = next((issue for issue in f.run.issues if issue.id == "groups-incomplete"), None)
    return None if issue is None else (issue.details["groups"], issue.details["of"])


def _either_baseline(f: Facts) -> bool:
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


def _explained(f: Facts) -> bool:
    """Return whether the recipe gives every logged advantage of the rows that count; batches that are set apart, as
    those of an evaluation, are not among them.
    """
    logged = f.totals.logged
    return f.recipe is not None and bool(logged.count) and not logged.wrong


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
        return _claim("steps", taken, ASSUMED, why, f"--columns step={quote(clock or 'NAME')}")
    name = f.run.step_column or "step"
    taken = f"{steps}, from {name}"
    if _explained(f) and f.method in ("gdpo", "grpo_batch_std") and len(f.steps) > 1:
        return _claim("steps", taken, PROVED, f"the batch step of {NAMES[f.method]} is reproduced in each")
    sizes = f.batches.responses
    rising = bool((f.batches.step[1:] >= f.batches.step[:-1]).all())
    if rising and len(sizes) > 1 and bool((sizes == sizes[0]).all()):
        return _claim("steps", taken, AGREES, f"it rises along the log, and each holds {count(int(sizes[0]))} rows")
    return _claim("steps", taken, ASSUMED, "its name says so", "--columns step=NAME")


def _groups(f: Facts) -> Claim:
    """Return the claim on which rows are a group."""
    size = f"groups of {f.run.group_size}" if f.run.group_size else "groups of different sizes"
    seen = _looked_at(f, sum(map(len, f.tables)))
    by, way = f"{size}, by {f.run.grouped_by}", "--group NAME" if f.run.grouped_by_column else "--group-size N"
    if _explained(f) and not f.all_zero:
        return _claim("groups", by, PROVED, "the logged advantages are reproduced in them")
    if f.run.has_advantage and _advantages_add_up(f):
        return _claim("groups", by, AGREES, f"the logged advantages add up to 0 in nearly every group{seen}", way)
    if any(issue.id == "prompts-merged" for issue in f.run.issues):
        return _claim("groups", by, ASSUMED, "several of them share a prompt", way)
    if f.run.grouped_by_column and (f.run.group_size or 0) > 1:
        return _claim("groups", by, AGREES, "all of these groups are equally large", way)
    if (f.run.group_size or 0) > 1 and _one_prompt_a_group(f):
        return _claim("groups", by, AGREES, f"all rows of a group have one prompt{seen}", way)
    return _claim("groups", by, ASSUMED, "nothing else in the log shows them", way)


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
    return add_up(group.astype(int), table["advantage"].fill_nan(0).fill_null(0).to_numpy()) >= ALL_ADD_UP


def _rewards(f: Facts) -> Claim:
    """Return the claim on which columns are the rewards, or which column is the reward."""
    names, way = some(f.run.rewards), "--reward NAME"
    what = "rewards" if len(f.run.rewards) > 1 else "reward"
    shown = f.recipe is not None and all(w for w in f.recipe.known if w is not None)
    made = _explained(f) and shown and bool(f.known_weights)
    unshown = _unshown(f)
    if made and not unshown:
        return _claim(what, names, PROVED, "the logged advantages are made of them")
    if f.run.rewards_named:
        return _claim(what, names, AGREES, "they were named for this audit")
    if made and not any(unshown.values()):
        still = (
            f"{some(unshown)} never {'differs' if len(unshown) == 1 else 'differ'} inside a group and changes nothing"
        )
        return _claim(what, names, AGREES, f"the logged advantages are made of the others; {still}", way)
    if made:
        counts = some(name for name, varies in unshown.items() if varies)
        return _claim(what, names, ASSUMED, f"the logged advantages do not show which of {counts} counts", way)
    if f.run.total is not None and f.run.weights_by == "score":
        return _claim(what, names, AGREES, f"they give {f.run.total} in every row{_looked_at(f, SAMPLE)}", way)
    if f.run.weights_by in ("config", "log", "parts"):
        where = "the log itself" if f.run.weights_by == "log" else "a configuration"
        return _claim(what, names, AGREES, f"{where} names them", way)
    return _claim(what, names, ASSUMED, "their names and numbers look like rewards", way)


def _unshown(f: Facts) -> dict[str, bool]:
    """Return the rewards whose weight the logged advantages leave open, each with whether it varies inside a group."""
    unknown = f.recipe.unknown if f.recipe is not None else ()
    return {f.rewards[k]: f.dead(k) < 1 for k in unknown}


def _total(f: Facts) -> Claim | None:
    """Return the claim on the column that the rewards add up to; None where there is none."""
    total = f.run.total
    if total is None or total in f.rewards:
        return None
    if f.run.weights_by == "score":
        return _claim("total", total, AGREES, f"the weighted rewards give it in every row{_looked_at(f, SAMPLE)}")
    return _claim("total", total, ASSUMED, "its name says so; the rewards do not give it in every row")


def _weights(f: Facts) -> Claim | None:
    """Return the claim on the weights of the rewards; None for a single reward, which needs none."""
    if len(f.rewards) < 2:
        return None
    used = dict(zip(f.rewards, f.printed(f.basis.weights), strict=True))
    unknown = [name for name in f.rewards if f.recipe is not None and name not in f.known_weights]
    words = some(f"{name} {number(w)}" for name, w in used.items() if name not in unknown)
    taken = f"1 each ({some(used)})" if {*used.values()} == {1.0} and not unknown else words
    taken += f"; of {some(unknown)} not known" if unknown and words else ""
    way = f"--weight {quote(f.rewards[0])}=W"
    surely = PROVED if _explained(f) else AGREES
    if f.weights_by_column:
        column = next(issue.details["column"] for issue in f.run.issues if issue.id == "weights-by-column")
        return _claim("weights", f"they depend on {column}", surely, "each of its values shows its own")
    if len(f.phases) > 1:
        least, surely = ("at least ", AGREES) if beyond_rounding(f) else ("", surely)
        taken = f"changing {least}{count(len(f.phases) - 1, 'time')}"
        return _claim("weights", taken, surely, "each step shows its own")
    if f.given_weights and contradicted_weights(f):
        return _claim("weights", taken, ASSUMED, "they were given for this audit, but the log shows others")
    if _explained(f) and not f.given_weights and any(_unshown(f).values()):
        counts = some(name for name, varies in _unshown(f).items() if varies)
        return _claim("weights", taken or "1 each", ASSUMED, f"the log does not show how {counts} weigh", way)
    if _explained(f) and f.known_weights and _matching(f):
        ratio = "; the log shows only their ratio" if f.ratios_alone else ""
        under = "with this method, " if _either_baseline(f) else ""
        why = f"{under}no other weights that were tried give all {count(int(f.totals.logged.count))} advantages{ratio}"
        return _claim("weights", taken, PROVED, why)
    source = f.weights_from
    if source == "assumed" or (source == "solved" and not f.known_weights):
        unmade = source == "assumed" and f.run.has_advantage and f.recipe is None
        why = "no known method makes the logged advantages, which would show them" if unmade else _NOT_SHOWN
        return _claim("weights", "1 each", ASSUMED, why, way)
    if source == "fitted":
        return _claim("weights", taken, ASSUMED, f"with them the rewards come near {f.run.total}, and no nearer", way)
    why = _SOURCES[source].format(total=f.run.total) + _looked_at(f, SAMPLE) * (source == "score")
    return _claim("weights", taken, AGREES, why, way)


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
            return _claim("method", taken, ASSUMED, f"no known method makes {logged}", "--asked METHOD")
        why = "the log holds no advantages that show it"
        if f.intended_method == f.method and not f.trainers_own and f.intended_method is not None:
            return _claim("method", name, AGREES, f"it was asked for; {why}", "--asked METHOD")
        return _claim("method", f"not known; figures are those of {name}", ASSUMED, why, "--asked METHOD")
    taken = NAMES[f.recipe.method]
    taken += "" if f.recipe.convention_open else f" as {whose(f.recipe.convention)} computes it"
    if not f.reproduced:
        wrong = int(f.totals.logged.wrong + f.overwritten_batches.logged.wrong.sum())
        return _claim("method", taken, AGREES, f"it gives all logged advantages but {count(wrong)}", "--asked METHOD")
    if beyond_rounding(f):
        why = (
            f"it gives all logged advantages but for {number(f.totals.logged.max_error)}, more than they are rounded by"
        )
        return _claim("method", taken, AGREES, why)
    if f.recipe.alike is None:
        return _claim("method", taken, AGREES, "it gives all logged advantages; whether another one does was not tried")
    if _either_baseline(f):
        convention = ALL_CONVENTIONS[f.recipe.convention]
        either = "without" if convention.leave_one_out or convention.mean_of_others else "with"
        why = f"it gives all logged advantages, and so does the same {either} leave-one-out with weights in that ratio"
        return _claim("method", taken, AGREES, why)
    if f.recipe.alike:
        same = listing((NAMES[method] for method in f.recipe.alike), link="and")
        return _claim("method", taken, AGREES, f"it gives all logged advantages, and so does {same} on these rewards")
    return _claim("method", taken, PROVED, "it gives all logged advantages, and no other method that was tried does")


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
    taken = f"a missing {listing(missing, 'or', most=8)} is left out, and is no 0"
    if _explained(f):
        return _claim("missing", taken, PROVED, "the logged advantages are reproduced so")
    return _claim("missing", taken, ASSUMED, "the trainer's convention says so")


def _claim(what: str, taken: str, evidence: str, because: str, otherwise: str = "") -> Claim:
    """Return a claim with its fields in the order in which a reader asks for them."""
    return Claim(what=what, taken=taken, evidence=evidence, because=because, otherwise=otherwise)


def line_of(claim: Claim) -> str:
    """Return what was taken and why; where it is only assumed, also the option that says otherwise.

    >>> line_of(Claim(what="steps", taken="1 step", evidence="assumed", because="no column", otherwise="--columns"))
    '1 step: no column (otherwise --columns)'
    """
    return f"{claim.taken}: {claim.because}{otherwise_of(claim)}"


def otherwise_of(claim: Claim) -> str:
    """Return the option that says otherwise, in brackets after a blank; "" for a claim that is not only assumed."""
    return f" (otherwise {claim.otherwise})" if claim.otherwise and claim.evidence == ASSUMED else ""
