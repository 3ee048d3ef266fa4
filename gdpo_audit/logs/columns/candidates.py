"""The choice of columns: which may be rewards, which are, with which weights, and which column tells tasks apart.

It also says in which columns numbers that are written as text are an error.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from typing import Any

import numpy as np
import polars as pl

from gdpo_audit.logs.columns.behaviour import not_rewards
from gdpo_audit.logs.columns.constants import ONE_VALUE, settings_in
from gdpo_audit.logs.columns.copies import Copy, copies_among, without
from gdpo_audit.logs.columns.rewards import Sampler, choose_among
from gdpo_audit.logs.columns.totals import RewardChoice, beside_score, with_left_out
from gdpo_audit.logs.files.configuration import configured_weights
from gdpo_audit.logs.forms import options as cols
from gdpo_audit.logs.forms.form import Form
from gdpo_audit.logs.forms.options import ReadOptions
from gdpo_audit.logs.forms.roles import ADVANTAGES, LENGTHS, role, total_rank
from gdpo_audit.logs.forms.scans import rows_in, value_of
from gdpo_audit.logs.forms.standard_rows import hash_column
from gdpo_audit.logs.names import EVENT, FILE, GROUP_OF_ROW, MADE, ROW, STEP_OF_ROW
from gdpo_audit.logs.numbers.weighted_sums import weights_of
from gdpo_audit.logs.tables.formats import is_number_type
from gdpo_audit.records import LogIssue

_SAME = 1e-5  # how far a column may lie from the advantages that it repeats, as a share of the largest of them
SPREAD = 16  # the tables, spread over a log, of which a sample is taken
SAMPLED_ROWS = 20_000  # the rows of this sample
# The names of columns that tell one task from another.
TASKS = ("task", "source", "data_source", "dataset", "domain", "category", "subset", "env")
# The most values of a column that an audit looks at one by one though nobody named it, and the most responses of a log
# in which that costs little time.
_FEW_VALUES, BY_RESPONSES = 12, 500_000


def few_texts(form: Form, schema: Mapping[str, pl.DataType], beside: Sequence[str]) -> str | None:
    """Return the name of a column of texts, such as the task, with few different texts, but only one for each prompt.

    Few are 2 to `_FEW_VALUES`. Names in `TASKS` are tried first. Texts that spell numbers do not count, nor do names
    that end with id. The result is None if no column fits, or if the log has more than `BY_RESPONSES` rows.
    A sample of the rows decides. Rows count as one prompt if they agree in the step and in the prompt, as far as the
    log has these columns. In a log without prompts the column of the group takes their place. If the log has none of
    these columns, a column needs only to have few texts.
    form: says which column of the log holds what.
    schema: all columns with their types.
    beside: the columns that nothing else uses.
    """
    texts = [n for n in beside if schema[n] in (pl.String, pl.Categorical, pl.Enum) and n[-2:].lower() != "id"]
    names = sorted((n for n in texts if n.lower() not in form.not_rewards), key=lambda n: n.lower() not in TASKS)
    if not names or rows_in(form.tables) > BY_RESPONSES:
        return None
    keys = [n for n in (form.step, form.prompt or form.key) if n and not schema.get(n, pl.Null()).is_nested()]
    rows = _sample(form, [*dict.fromkeys([*names, *keys])], pl.String)
    for name in names:
        values = rows[name].drop_nulls().unique(maintain_order=True).head(_FEW_VALUES + 1).to_list()
        few = 2 <= len(values) <= _FEW_VALUES and not any(map(cols.is_numeric_text, values))
        if few and (not keys or rows.group_by(keys).agg(pl.col(name).n_unique())[name].max() == 1):
            return name
    return None


def candidates_of(form: Form, schema: Mapping[str, pl.DataType], options: ReadOptions) -> list[str]:
    """Return the columns that may be rewards: columns of numbers, and columns of text in which most values are numbers.

    Columns that the form or the options use for something else are left out. So are columns that the form says are no
    rewards, and names that begin with __. Where the framework logs a total (`form.score`), the flag overlong of verl is
    left out if overlong_reward stands beside it.
    form: says which column of the log holds what.
    schema: all columns with their types.
    options: the caller's options. Rewards that they name are not left out for another use.
    """
    odd = {name for table in form.tables for name in table.odd if name.lower() not in cols.USUAL_TEXTS}
    assigned = {form.step, form.advantage, form.length, form.key, form.total, *options.names}
    assigned -= {*(options.rewards or ())}
    return [
        name
        for name, kind in schema.items()
        if (is_number_type(kind) or (name in odd and name in schema))
        and name not in assigned
        and name.lower() not in form.not_rewards
        and not name.startswith("__")
        and not (name == "overlong" and "overlong_reward" in schema and form.score)  # a flag of verl
    ]


def choose_rewards(
    form: Form, candidates: Sequence[str], schema: Mapping[str, pl.DataType], options: ReadOptions
) -> RewardChoice:
    """Return which of the candidates are the rewards, and what a total beside them tells of their weights.

    Rewards that the caller names stay. Otherwise a form that knows its rewards decides. If it knows none, a total that
    the framework logs beside them decides (`form.score`). Without that total, names and numbers decide, as in
    `choice.choose`. If there is no candidate, a total alone is the reward, if the form has one (`form.total`).
    form: says which column of the log holds what.
    candidates: the columns that may be rewards.
    schema: all columns with their types.
    options: the caller's options, which may name the rewards.
    """
    if form.rewards:
        return RewardChoice(options.rewards or form.rewards)
    sample = partial(_sample, form)
    if options.rewards is not None:
        return _chosen(form, candidates, sample, schema, options)
    rows = sample(candidates)
    constant_ones = settings_in(form, candidates, schema, rows)
    kept = [name for name in candidates if name not in constant_ones]
    # Beside the trainer's own score a flag that repeats a reward has weight 0 anyway.
    numbers = [name for name in kept if form.score is None or schema[name] != pl.Boolean]
    copies = copies_among(rows, numbers, functions=not form.asks and form.score is None)
    kept = without(kept, copies)
    judged, total = form.advantage is not None, _total_of_one(rows, kept, copies)
    choice = _chosen(form, kept if judged or total is None else total.rewards, sample, schema, options)
    if total is not None and not judged:
        choice = replace(choice, weights=total.weights, total=total.total, issues=(*total.issues, *choice.issues))
    told = tuple(LogIssue("same-numbers", asdict(copy)) for copy in copies)
    return with_left_out(replace(choice, issues=(*told, *choice.issues)), dict.fromkeys(constant_ones, ONE_VALUE))


def _chosen(
    form: Form, candidates: Sequence[str], sample: Sampler, schema: Mapping[str, pl.DataType], options: ReadOptions
) -> RewardChoice:
    """Return which of the candidates are the rewards, as `choose_rewards` does, of columns that vary and that are no
    copies of others.

    form: says which column of the log holds what; it does not know its rewards.
    candidates: the columns that may be rewards.
    sample: reads some rows of columns.
    schema: all columns with their types.
    options: the caller's options, which may name the rewards.
    """
    flags = [name for name in candidates if schema[name] == pl.Boolean]
    if form.score and options.rewards != (form.score,) and (options.rewards or candidates):
        rewards = tuple(options.rewards or candidates)
        if form.score in rewards:
            return RewardChoice(rewards)
        rows = sample([form.score, *rewards])
        return beside_score(rows, rewards, form.score, flags, options.rewards is not None)
    if form.total and not (options.rewards or candidates):
        return RewardChoice((form.total,))
    where = form.tables[0].name
    judged = form.advantage is not None
    known = partial(choose_among, where=where, flags=flags, length=form.length)
    again = _advantages_again(form, candidates, schema) if form.asks and judged and options.rewards is None else {}
    chosen = known(
        [n for n in candidates if n not in again], sample, named=options.rewards, asks=form.asks, judged=judged
    )
    return with_left_out(chosen, again)


def _advantages_again(form: Form, candidates: Sequence[str], schema: Mapping[str, pl.DataType]) -> dict[str, str]:
    """Return {column: why it is no reward} for columns that repeat the advantages, as rewards that were normalised do.

    Such a column is equal to the advantage in each row of a sample, up to the rounding of its last digits, and its mean
    is 0. There has to be another column that may be a reward.
    form: says which column of the log holds what.
    candidates: the columns that may be rewards.
    schema: all columns with their types.
    """
    name = form.advantage or ""
    kind = schema.get(name)
    per_token = isinstance(kind, pl.List) and is_number_type(kind.inner)
    if not per_token and not is_number_type(kind):
        return {}
    if per_token:  # lists of one number and zeros as padding
        lists = _sample(form, [name], pl.List(pl.Float64))[name]
        advantage = lists.list.eval(pl.element().filter(pl.element() != 0)).list.first().fill_null(0.0)
        rows = _sample(form, candidates)
    else:
        rows = _sample(form, [name, *candidates])
        advantage = rows[name]
    rows, logged = rows.filter(advantage.is_not_null()), advantage.drop_nulls().to_numpy()
    size = np.abs(logged).max(initial=0)
    if not 0 < size < np.inf or not abs((logged / size).mean()) <= _SAME:
        return {}
    again = [column for column in candidates if np.abs(rows[column].to_numpy() / size - logged / size).max() <= _SAME]
    return dict.fromkeys(again, "it repeats the advantage") if len(again) < len(candidates) else {}


def _total_of_one(rows: pl.DataFrame, kept: Sequence[str], copies: Sequence[Copy]) -> RewardChoice | None:
    """Return the choice of one reward alone, of which a total beside it is a multiple; None if there is none.

    Such a total counts none of the other columns, as an issue says.
    rows: a sample of the rows.
    kept: the columns that may be rewards, without copies.
    copies: the columns that hold the same numbers as another one.
    """
    for copy in copies:
        counted = [name for name in kept if role(name) == "reward"]
        if total_rank(copy.left) is None or copy.factor < 0 or copy.taken not in counted or len(counted) < 2:
            continue
        fit = weights_of(rows, counted, score=copy.left)
        if fit is not None and fit.exact and fit.weights and [n for n, w in fit.weights.items() if w] == [copy.taken]:
            beside = [name for name in counted if name != copy.taken]
            details = {"score": copy.left, "columns": beside, "rewards": [copy.taken]}
            weights = {copy.taken: copy.factor}
            return RewardChoice((copy.taken,), weights, copy.left, (LogIssue("not-in-score", details),))
    return None


def known_weights(
    form: Form, chosen: RewardChoice, candidates: Sequence[str], alone: bool
) -> tuple[Mapping[str, float] | None, str | None]:
    """Return the weights of the rewards, by name, and the word for their origin; None for both if nothing tells them.

    The first of four origins that tells weights counts. "config" is a configuration beside the log. "log" is weights in
    the rows of the log. "score" is a total that is exactly the weighted sum of the rewards, and "fitted" is a total
    that nearly is.
    form: holds the configuration, the rewards and the weights that the log holds.
    chosen: the choice of rewards, with the weights that a total tells.
    candidates: the columns that may be rewards.
    alone: whether the only reward is a total. The configuration is then left aside, because its weights are for the
        parts of the total.
    """
    functions = [name for name in candidates if name != chosen.total and role(name) != "metric"]
    varying = [name for name in functions if name not in settings_left_out(chosen)]
    given = (configured_weights(form.arguments, names, form.rewards) for names in (functions, varying))
    configured = None if alone else next(filter(None, given), None)
    in_log = {name: weight for name, weight in (form.weights or {}).items() if name in form.rewards}
    if configured:
        return configured, "config"
    if in_log:
        return in_log, "log"
    return (chosen.weights, chosen.weights_by) if chosen.weights else (None, None)


def settings_left_out(chosen: RewardChoice) -> list[str]:
    """Return the columns that were not read as rewards because they have one value in the whole log."""
    reasons = (issue.details["columns"] for issue in chosen.issues if issue.id == "no-reward")
    return [name for columns in reasons for name, why in columns.items() if why == ONE_VALUE]


def not_examined(form: Form, schema: Mapping[str, pl.DataType], options: ReadOptions) -> list[str]:
    """Return the columns in which numbers that are written as text are not an error.

    If the caller names the rewards, the result is all columns that `examined_always` does not name. Otherwise it is
    metrics, and columns that the form says are no rewards and that `examined_always` does not name.
    form: says which columns are no rewards.
    schema: all columns with their types.
    options: the caller's options, which may name the rewards.
    """
    never = examined_always(form)
    if options.rewards is None:
        known = form.not_rewards - never
        return [name for name in schema if name.lower() in known or role(name) == "metric"]
    return [name for name in schema if name.lower() not in never]


def nameable_rewards(form: Form) -> tuple[str, ...]:
    """Return the rewards of a form that an error may tell the caller to name.

    A single column of numbers was taken for the reward without a look at it. It is left out if it numbers the steps or
    the responses, so that it cannot be one.
    form: says which columns are rewards.
    """
    if len(form.rewards) != 1 or not form.asks:
        return form.rewards
    return () if not_rewards(_sample(form, form.rewards), form.rewards, labels=True) else form.rewards


def examined_always(form: Form) -> set[str]:
    """Return the names of columns in which numbers written as text are an error even if the caller names the rewards.

    For a log of no known framework (`form.asks`), they are the usual names of advantages and lengths, in small letters.
    For the log of a known framework the set is empty.
    """
    return {*ADVANTAGES, *LENGTHS} if form.asks else set()


def _sample(form: Form, names: Sequence[str], kind: Any = pl.Float64) -> pl.DataFrame:
    """Return the values of these columns in a sample of the responses, cast to `kind`; a missing value is null.

    The sample is the first rows of up to `SPREAD` tables, which lie evenly over the log, in the order of the steps, so
    that a clock rises along them even if the log was shuffled. The result has the further
    column GROUP_OF_ROW if the form has a column that names the group, or one that names the prompt. Its numbers are
    equal for responses of one table and one step with the same group, or with the same prompt if no column names the
    group.
    The column ROW holds the place of a row in the log among those of the sample.
    The column STEP_OF_ROW holds a number that is equal for responses of one step, or of one table without steps.
    form: says how responses are read, and which column holds what.
    names: the columns to read.
    kind: the type of the result's columns.
    """
    some = range(0, len(form.tables), -(-len(form.tables) // SPREAD))
    grouped_by = form.key or form.prompt
    keys = [*dict.fromkeys(name for name in (FILE, form.step, grouped_by) if name)]
    samples = list[pl.DataFrame]()
    for number in some:
        table = form.responses(number)
        there = table.collect_schema()
        values = [value_of(name, there).cast(kind, strict=False) for name in names]
        beside = dict.fromkeys([*keys, *([form.step] if form.step else [])])
        wanted = table.select(*values, *[value_of(name, there).alias(f"{MADE}{name}") for name in beside])
        rows = form.tables[number].collected(wanted.head(-(-SAMPLED_ROWS // len(some))))
        rows = rows.with_row_index(ROW, offset=sum(map(len, samples)))
        rows = _in_steps(rows, f"{MADE}{form.step}") if form.step else rows
        hashes = {name: hash_column(rows, f"{MADE}{name}") for name in keys}
        step = pl.struct(hashes[form.step or FILE]).hash().alias(STEP_OF_ROW)
        group = [step, *([pl.struct(*hashes.values()).hash().alias(GROUP_OF_ROW)] if grouped_by else [])]
        samples.append(rows.select(*names, *group, ROW))
    # Steps are numbered in the order of these rows.
    rows = pl.concat(samples).with_row_index(EVENT)
    return rows.with_columns(pl.col(EVENT).min().over(STEP_OF_ROW).cast(pl.Int64).alias(STEP_OF_ROW)).drop(EVENT)


def _in_steps(rows: pl.DataFrame, step: str) -> pl.DataFrame:
    """Return rows in the order of their steps, and those of one step in the order of the log.

    step: the column of steps. Steps that are no numbers leave the rows as they are.
    """
    if rows.schema[step].is_nested():
        return rows
    steps = rows[step].cast(pl.String).cast(pl.Float64, strict=False)
    in_order = steps.null_count() > 0 or steps.is_sorted()
    return rows if in_order else rows.with_columns(steps).sort(step, maintain_order=True)
