"""The score of a sample: what the rewards of a few prompts would do under a configuration, told before the run."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from math import isfinite

import polars as pl
from torch import Tensor

from gdpo_audit.logs.groups.run import Run
from gdpo_audit.logs.read import read_run
from gdpo_audit.recipe.recipe import tensors_of
from gdpo_audit.report.sample_score import SampleScore
from gdpo_core.checking.check import ConfigCheck
from gdpo_core.conventions import Convention
from gdpo_core.frameworks import ALL_CONVENTIONS
from gdpo_core.numerics.batch import make_batch
from gdpo_core.pushing import distances, push_from_sums, push_sums
from gdpo_core.registry import method_for
from gdpo_core.shared.errors import expect
from gdpo_core.shared.words import count, listing
from gdpo_core.ties import update_sums


def score_sample(check: ConfigCheck, run: Run) -> SampleScore:
    """Return the shares of the update and the pushes of the rewards of a sample, under the method, weights and
    convention of a configuration.

    check: the configuration as it was checked.
    run: the log of the sample.

    Raises InputError where the configuration does not tell its method, where the sample holds only a total, and where
    the weights do not fit its rewards.
    """
    told = check.method is not None
    expect(told, "--log", "a configuration that tells its method", f"one of {check.title} that does not")
    expect(not run.total_only, "--log", "a sample with each reward in a column of its own", f"one total, in {run.path}")
    weights, notes = _weights(check, run)
    convention, lengths = _convention(check, run)
    if convention is not ALL_CONVENTIONS[check.convention or "paper"]:
        notes.append("The sample has no lengths, so the batch step runs over responses here, not over tokens.")
    table = pl.concat(list(run.tables()))
    names = list(weights)
    log = tensors_of(table, names)
    batches, groups = len(log.batch.unique()), table["group"].n_unique()
    batch = make_batch(
        log.rewards,
        weights=list(weights.values()),
        groups=log.group,
        lengths=log.lengths if lengths else None,
        batches=log.batch,
        convention=convention,
    )
    formula, prepared = method_for(check.method or "", batch)
    steps = formula(prepared)
    a = prepared.zero_unrewarded(steps.advantages)
    shares, whole = (x.sum(-1) for x in update_sums(prepared, steps, a, prepared.all_responses))
    products, squares = (x.sum(-1) for x in push_sums(a, distances(batch), batch.all_responses))
    sizes = f"The sample counts as {count(batches, 'batch', 'batches')} with {count(groups, 'group')}"
    more = f"; the run has {count(check.groups or 0, 'group')} in each batch" * bool(
        check.groups and check.groups * batches != groups
    )
    return SampleScore(
        path=run.path,
        answers=len(table),
        groups=groups,
        weights=weights,
        update_share=_by_name(names, shares / whole),
        push=_by_name(names, push_from_sums(products, squares, whole)),
        notes=(*notes, f"{sizes}{more}."),
    )


def _by_name(names: Sequence[str], values: Tensor) -> dict[str, float | None]:
    """Return the value of each reward by its name, None for a value that is not finite.

    values: one per reward.
    """
    return {name: x if isfinite(x) else None for name, x in zip(names, values.flatten().tolist(), strict=True)}


def _convention(check: ConfigCheck, run: Run) -> tuple[Convention, bool]:
    """Return the convention under which the sample is computed, and whether it uses the lengths of the answers.

    It is the convention of the configuration, or the paper's if the configuration has none. If GDPO's batch step goes
    by tokens in it, and the sample has no lengths, the batch step goes by answers instead.
    """
    convention = ALL_CONVENTIONS[check.convention or "paper"]
    if convention.last_step == "tokens" and check.method == "gdpo":
        return (convention, True) if run.has_length else (replace(convention, last_step="responses"), False)
    return convention, False


def _weights(check: ConfigCheck, run: Run) -> tuple[dict[str, float], list[str]]:
    """Return the weight of each reward of the sample that counts, by its name, and sentences on how the weights were
    assigned.

    - If the configuration gives neither weights nor names of rewards, each weight is 1, and a sentence says so.
    - If it names rewards, each of them is the reward of the sample that has its name, and has weight 1 if the
      configuration gives no weights. A sentence says which rewards of the sample are left out, because the
      configuration does not name them, and which rewards of the configuration the sample lacks.
    - If it gives weights alone, the rewards get them one after the other in alphabetical order, and a sentence says so.

    Raises InputError if no reward of the sample has a name of the configuration, or if there are not as many weights
    without names as rewards.
    """
    if check.rewards is None and check.weights is None:
        alone = "The configuration names no weights" if check.method == "gdpo" else "The weights stand in the score"
        return dict.fromkeys(run.rewards, 1.0), [f"{alone}, so each reward counts with weight 1 here."]
    weights = check.weights or (1.0,) * len(check.rewards or ())
    if check.rewards is not None:
        return _by_names(dict(zip(check.rewards, weights, strict=False)), run)
    names = sorted(run.rewards)
    wanted = f"a sample with {count(len(weights), 'reward')}, as many as the configuration has weights"
    expect(len(names) == len(weights), "--log", wanted, f"{listing(run.rewards)} in {run.path}")
    return {name: w for name, w in zip(names, weights, strict=True)}, [
        f"The weights were given to the rewards in alphabetical order: {listing(names)}."
    ]


def _by_names(configured: Mapping[str, float], run: Run) -> tuple[dict[str, float], list[str]]:
    """Return the weight of each reward of the sample that the configuration names, and sentences on the others.

    configured: the weight of each reward of the configuration, by its name there.

    Raises InputError, with both lists of names, if the sample has none of these rewards.
    """
    logged = matches(configured, run.rewards)
    way = "give the columns of the sample the names of the reward functions"
    wanted = f"a sample with {listing(configured)}, the rewards of the configuration"
    expect(bool(logged), "--log", wanted, f"{listing(run.rewards)} in {run.path}; {way}")
    by_column = {column: configured[name] for name, column in logged.items()}
    weights = {name: by_column[name] for name in run.rewards if name in by_column}
    beyond, lacking = [name for name in run.rewards if name not in weights], [x for x in configured if x not in logged]
    notes = []
    if lacking:
        notes.append(
            f"Only {listing(logged.values())} {'is' if len(logged) == 1 else 'are'} in both: the sample lacks "
            f"{listing(lacking)}, so that the shares are those of a part of the rewards."
        )
    if beyond:
        is_left, names = ("is", "that name") if len(beyond) == 1 else ("are", "those names")
        notes.append(f"{listing(beyond)} {is_left} left out: the configuration has no reward of {names}.")
    return weights, notes


def matches(configured: Iterable[str], logged: Sequence[str]) -> dict[str, str]:
    """Return the column of each reward of a configuration, by the reward's name there. A reward without a column is
    left out.

    The column has the same name, or else the same name in the form of `_bare`, if it is the only such column.

    >>> matches(["m.format_reward", "style"], ["Format", "style", "length"])
    {'m.format_reward': 'Format', 'style': 'style'}
    """
    columns = {}
    for name in configured:
        alike = [column for column in logged if _bare(column) == _bare(name)]
        if name in logged or len(alike) == 1:
            columns[name] = name if name in logged else alike[0]
    return columns


def read_sample(check: ConfigCheck, path: str) -> Run:
    """Return the run in the log of a sample. If the configuration names a reward that reading would leave out, such as
    a copy of another one, the rewards of the configuration are read.

    Raises InputError.
    """
    run = read_run(path)
    hidden = (*run.left_out, *(x.name for x in run.uncounted))
    columns = matches(check.rewards or (), (*run.rewards, *hidden)).values()
    return run if set(columns) <= set(run.rewards) else read_run(path, rewards=[*dict.fromkeys(columns)])


def _bare(name: str) -> str:
    """Return the name of a reward in small letters, without its module and without reward or reward_func at its end.

    If nothing is left then, the result is the whole name in small letters.

    >>> _bare("rewards.format_reward"), _bare("Format")
    ('format', 'format')
    """
    return re.sub(r"_?reward(_func)?$", "", name.rpartition(".")[2].lower()) or name.lower()
