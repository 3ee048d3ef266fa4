"""Episodes of many steps, which the logs of Tinker's cookbook and of rLLM hold in a row per trajectory or episode."""

from collections.abc import Collection, Sequence

import polars as pl

from gdpo_audit.logs.tables.formats import Table, fields_of, is_number_type

CENTRED = "grpo_no_std"  # the method of trainers that subtract a group's mean and divide by nothing
_TINKER = {"iteration", "group_idx", "traj_idx", "total_reward", "steps"}
_RLLM = {"episode_id", "training_step", "trajectories"}
_ID_COLUMNS = ("id", "episode_id", "trajectory_id", "rollout_id", "request_id", "sample_id", "uuid")


def trainer_of(tables: Sequence[Table]) -> str | None:
    """Return the trainer whose episodes all of these tables hold, tinker or rllm; None for any other log."""
    for trainer, names in (("tinker", _TINKER), ("rllm", _RLLM)):
        if all({*names} <= {*table.schema} for table in tables):
            return trainer
    return None


# --- Tinker ----------------------------------------------------------------------------------------------------------


def of_tinker(frame: pl.LazyFrame, reserved: Collection[str]) -> pl.LazyFrame:
    """Return a row per trajectory: its iteration, group, total reward, and the metrics of the environment as columns.

    The metrics may be rewards. As total_reward is a sum over the steps of a trajectory, plus the reward at its end, a
    metric of the steps is summed, too. Where only one step has the metric, the sum is its value there. The row also has
    the reward at the end, the number of tokens and the tags, if they are logged.
    frame: the rows of Tinker's log.
    reserved: names, in small letters, that have another meaning as columns. A metric with one of these names becomes
        metrics.NAME, or trajectory_metrics.NAME.
    """
    schema = frame.collect_schema()
    step = fields_of(getattr(schema["steps"], "inner", None))
    kept_names = {*reserved, "iteration", "group_idx", "total_reward", "final_reward", "tags", "num_tokens"}
    columns = {
        "iteration": pl.col("iteration"),
        "group_idx": pl.col("group_idx"),
        "total_reward": pl.col("total_reward"),
    }
    if is_number_type(schema.get("final_reward")):
        columns["final_reward"] = pl.col("final_reward")
    for name, kind in fields_of(step.get("metrics")).items():
        if is_number_type(kind):
            columns[f"metrics.{name}" if name.lower() in kept_names else name] = _sum("metrics", name)
    for name, kind in fields_of(schema.get("trajectory_metrics")).items():
        if is_number_type(kind):
            here = name in columns or name.lower() in kept_names
            columns[f"trajectory_metrics.{name}" if here else name] = pl.col("trajectory_metrics").struct.field(name)
    if is_number_type(step.get("ac_len")):
        columns["num_tokens"] = _sum("ac_len")
    if schema.get("tags") == pl.List(pl.String):
        columns["tags"] = pl.col("tags").list.join("/")
    return frame.select(**columns)


def _sum(*path: str) -> pl.Expr:
    """Return an expression for the sum of a number over the steps of each trajectory; null where no step has it.

    path: the names that lead to the number inside a step.
    """
    value = pl.element()
    for name in path:
        value = value.struct.field(name)
    values = pl.col("steps").list.eval(value.cast(pl.Float64).fill_nan(None)).list.drop_nulls()
    return pl.when(values.list.len() > 0).then(values.list.sum())


def never_differ(tables: Sequence[Table], names: Sequence[str]) -> list[str]:
    """Return the named columns whose value is 0 or null in every row, as of a reward that is never given.

    A column that one of the tables lacks is left out of the result.
    tables: the tables of the log.
    names: the columns to look at.
    """
    there = [name for name in names if all(name in table.schema for table in tables)]
    zero = [(pl.col(name).fill_null(0) == 0).all() for name in there]
    checked = [table.collected(table.fresh.select(zero)) for table in tables] if there else []
    return [name for name in there if all(row[name].item() for row in checked)]


# --- rLLM ------------------------------------------------------------------------------------------------------------


def of_rllm(frame: pl.LazyFrame) -> pl.LazyFrame:
    """Return a row per trajectory of rLLM's episodes: training_step, prompt if tasks are texts, group_id and reward.

    A group is the trajectories that have one `name` and belong to one task. Where no task is logged, they belong to one
    episode instead. A trajectory without a name counts as one with an empty name.
    """
    frame = frame.filter(pl.col("trajectories").list.len() > 0).explode("trajectories")
    schema = frame.collect_schema()
    fields = fields_of(schema["trajectories"])

    def inner(name: str, kind: type[pl.DataType]) -> pl.Expr:
        """Return an expression for the field `name` of a trajectory, cast to the type `kind`; null where the log lacks
        it.

        `fields` of the outer function holds the fields that the log has.
        """
        there = name in fields
        return (pl.col("trajectories").struct.field(name) if there else pl.lit(None)).cast(kind)

    tasks = [name for name in ("task_hash", "task") if schema.get(name) == pl.String]
    prompt = {"prompt": pl.col("task")} if schema.get("task") == pl.String else {}
    names = inner("name", pl.String).fill_null("")
    return frame.select(
        "training_step",
        **prompt,
        group_id=pl.concat_str(pl.coalesce(*tasks, "episode_id"), names, separator="/"),
        reward=inner("reward", pl.Float64),
    )


# --- an episode in two files -----------------------------------------------------------------------------------------


def copies(tables: Sequence[Table]) -> dict[int, list[int]]:
    """Return, by the number of a table, the numbers of the rows in it that repeat a row of an earlier table.

    A repeated row has the same id as the earlier one, and all else is the same. Only a column that is named like an id,
    and has no value twice in a table, can show this. Without such a column the dict is empty. All numbers begin with 0.
    """
    names = {name for name, kind in tables[0].schema.items() if name in _ID_COLUMNS and not kind.is_nested()}
    for table in tables[1:]:
        names &= {*table.schema}
    chosen = next((name for name in _ID_COLUMNS if name in names), None)
    if chosen is None or len(tables) < 2:
        return {}
    ids = [
        table.collected(table.fresh.select(pl.col(chosen).cast(pl.String, strict=False)))[chosen] for table in tables
    ]
    every = pl.concat(ids)
    if every.n_unique() == len(every) or any(column.n_unique() < len(column) for column in ids):
        return {}
    again = every.filter(every.is_duplicated()).unique()
    repeated: dict[int, list[int]] = {}
    seen: set[tuple] = set()
    for number, (table, column) in enumerate(zip(tables, ids, strict=True)):
        rows = table.collected(table.fresh.with_row_index("_at").filter(column.is_in(again.implode())))
        content = rows.select(pl.struct(pl.exclude("_at")).struct.json_encode().alias("text"))
        hashes = content["text"].hash().to_list()
        for at, key in zip(rows["_at"].to_list(), zip(rows[chosen].to_list(), hashes, strict=True), strict=True):
            if key in seen:
                repeated.setdefault(number, []).append(at)
            seen.add(key)
    return repeated


def without_rows(frame: pl.LazyFrame, rows: Sequence[int]) -> pl.LazyFrame:
    """Return the rows of a frame without the rows that have these numbers, from 0."""
    number = "__at"
    return frame.with_row_index(number).filter(~pl.col(number).is_in(rows)).drop(number)
