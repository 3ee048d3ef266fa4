"""The clean logs of the metamorphic test: a small run of each trainer, with its truth, as a table of responses that is
written to files only after it was transformed.
"""

import io
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np
import polars as pl

import gdpo_core as gc
from tests.fake_logs import advantages_of

STEPS, GROUPS, SIZE = 6, 6, 8
PART = "_part"  # 1 for rows that were written after a restart; no file holds this column
RAW = ("correct", "style", "brevity")
WEIGHTS = (1.0, 0.5, 0.25)


@dataclass(frozen=True)
class Log:
    """A log as a table with a row per response, and how its files are written.

    trainer: a key of CLEAN.
    names: the columns by what they hold: step, group, and, where the log has them, advantage and total.
    rewards: the names of the rewards in the clean log, each with its present name.
    method: what made the advantages; None without advantages.
    write: returns the files of the log by name.
    positional: whether the rewards have lost their names, so that only their order tells them apart.
    """

    trainer: str
    frame: pl.DataFrame
    names: Mapping[str, str]
    rewards: Mapping[str, str]
    method: str | None
    write: Callable[["Log"], dict[str, bytes]]
    weights: tuple[float, ...] = WEIGHTS
    positional: bool = False

    @property
    def advantage(self) -> str | None:
        """The name of the column of advantages; None if the log has none."""
        return self.names.get("advantage")

    @property
    def files(self) -> dict[str, bytes]:
        """The files of the log, by name."""
        return self.write(self)

    @property
    def shown(self) -> pl.DataFrame:
        """The table as it is written."""
        return self.frame.drop(PART)

    def with_frame(self, frame: pl.DataFrame) -> "Log":
        """Return the log with other rows or columns."""
        return replace(self, frame=frame)


# --- how each trainer writes its files -------------------------------------------------------------------------------


def lines(items) -> bytes:
    """Return lines of JSON."""
    return "".join(json.dumps(item, ensure_ascii=False) + "\n" for item in items).encode()


def parquet(frame: pl.DataFrame) -> bytes:
    """Return a table as a Parquet file."""
    content = io.BytesIO()
    frame.write_parquet(content)
    return content.getvalue()


def per_step(log: Log, name: str, content: Callable[[pl.DataFrame], bytes]) -> dict[str, bytes]:
    """Return a file for each step. name: a pattern for its name; if the run was restarted, both parts have a folder."""
    files, folders = {}, ("first/", "restart/") if log.frame[PART].max() else ("", "")
    for (part, step), rows in log.frame.group_by([PART, log.names["step"]], maintain_order=True):
        files[folders[part] + name.format(step)] = content(rows.drop(PART))
    return files


def trl(log: Log) -> dict[str, bytes]:
    """Return the Parquet files that TRL writes."""
    return per_step(log, "completions_{:05d}.parquet", parquet)


def verl(log: Log) -> dict[str, bytes]:
    """Return the lines that verl dumps."""
    return per_step(log, "{}.jsonl", lambda rows: lines(rows.to_dicts()))


def ms_swift(log: Log) -> dict[str, bytes]:
    """Return the lines of ms-swift, each with a list per column."""
    events = []
    for _, rows in log.frame.group_by([PART, log.names["step"]], maintain_order=True):
        events.append(rows.drop(PART).with_columns(pl.col(log.names["step"]).cast(pl.String)).to_dict(as_series=False))
    return {"completions.jsonl": lines(events)}


def nemo_rl(log: Log) -> dict[str, bytes]:
    """Return the lines of NeMo-RL, whose values are lists of one, and whose advantages are those of tokens."""

    def line(i: int, row: dict) -> dict:
        tokens, after = 3 + i % 5, 5 - i % 5
        a = row.pop("advantages")
        row = {"content": [row.pop("prompt"), row.pop("completion")], **row, "input_lengths": 4 + tokens}
        row |= {"advantages": [a] * (4 + tokens) + [0.0] * after, "generation_logprobs": [-0.5] * 12}
        row |= {"token_loss_mask": [0] * 4 + [1] * tokens + [0] * after, "prev_logprobs": [-0.5] * 12}
        return {key: [value] for key, value in row.items()} | {"idx": i}

    def content(rows: pl.DataFrame) -> bytes:
        return lines(line(i, row) for i, row in enumerate(rows.drop("step").to_dicts()))

    return per_step(log, "train_data_step{}.jsonl", content)


def verifiers(log: Log) -> dict[str, bytes]:
    """Return the episodes of verifiers. What is neither a reward nor known to it is a metric or, if text, in `info`."""

    def item(i: int, row: dict) -> dict:
        step, group, a, work = (row.pop(name) for name in ("step", "group", "advantage", "work"))
        row.pop(PART)
        weights = dict(zip(log.rewards.values(), log.weights, strict=True))
        rewards = {name: {"score": row.pop(name), "weight": w} for name, w in weights.items()}
        metrics = {name: value for name, value in row.items() if not isinstance(value, str)}
        nodes = [{"message": {"role": "user", "content": group}}]
        nodes += [{"message": {"role": "assistant"}, "advantages": None if a is None else [a] * 3}]
        trace = {"agent": {"name": "solver", "trainable": True, "config": {}}, "nodes": nodes}
        trace |= {"rewards": rewards, "metrics": metrics}
        run = {"type": "train", "id": "r", "work": {"type": work, "step": step}}
        task = {"type": "T", "data": {"idx": 0}, "key": group}
        texts = {name: value for name, value in row.items() if isinstance(value, str)}
        return {"id": f"e{i}", "task": task, "traces": [trace], "run": run, "group": {"id": group}, "info": texts}

    ids = log.frame.select(*log.rewards.values(), "step", "group", "advantage").hash_rows(0).to_list()
    return {"traces.jsonl": lines(item(i, row) for i, row in zip(ids, log.frame.to_dicts(), strict=True))}


def table(log: Log) -> dict[str, bytes]:
    """Return one Parquet file."""
    return {"rollouts.parquet": parquet(log.shown)}


# --- the clean logs --------------------------------------------------------------------------------------------------


def drawn(seed: int) -> np.ndarray:
    """Return the rewards of a run, (steps, groups, size, rewards), in which one group is silent."""
    draw = np.random.default_rng(seed)
    shape = (STEPS, GROUPS, SIZE)
    right = draw.random(shape) < draw.uniform(0.2, 0.8, (STEPS, GROUPS, 1))
    r = np.stack([right, draw.random(shape) < 0.7, draw.integers(0, 9, shape) / 8], axis=-1).astype(float)
    r[1, 2] = r[1, 2, :1]
    return r


def clean(trainer: str, seed: int, method: str | None, convention, write, **names) -> Log:
    """Return the clean log of a trainer. names: of the columns that are not called step, group and advantage."""
    r = drawn(seed)
    a = [advantages_of(step, method or "grpo", WEIGHTS, convention).ravel() for step in r]
    step = np.arange(1, STEPS + 1).repeat(GROUPS * SIZE)
    place = np.arange(GROUPS).repeat(SIZE)
    prompts = [f"question {n * 7 % 31}-{g}: how many?" for n, g in zip(step, np.tile(place, STEPS), strict=True)]
    names = {"step": "step", "group": "group", "advantage": "advantage"} | names
    columns = {names["step"]: step, names["group"]: prompts}
    columns |= {"completion": [f"answer {i * 37 % 101} " * (1 + i % 7) for i in range(len(step))]}
    columns |= {name: r[..., k].ravel() for k, name in enumerate(RAW)}
    columns |= {names["advantage"]: np.concatenate(a), PART: np.zeros(len(step), int)}
    log = Log(trainer, pl.DataFrame(columns), names, dict(zip(RAW, RAW, strict=True)), method, write)
    return log


def total_of(log: Log) -> pl.Expr:
    """Return the weighted total of the rewards, as an expression."""
    return pl.sum_horizontal(pl.col(name) * w for name, w in zip(log.rewards.values(), log.weights, strict=True))


def _verl() -> Log:
    """Return a clean log of verl, which has the score and no advantages."""
    log = clean("verl", 1, None, gc.PAPER, verl, group="input")
    frame = log.frame.rename({"completion": "output"}).with_columns(gts=pl.lit("4"), score=total_of(log))
    names = {"step": "step", "group": "input", "total": "score"}
    return replace(log, frame=frame.drop("advantage"), names=names)


def _nemo_rl() -> Log:
    """Return a clean log of NeMo-RL, which has only the total of the rewards."""
    log = clean("nemo_rl", 3, "grpo", gc.NEMO_RL, nemo_rl, group="prompt", advantage="advantages")
    frame = log.frame.with_columns(rewards=total_of(log)).drop(RAW)
    return replace(log, frame=frame, rewards={"rewards": "rewards"}, weights=(1.0,))


def _verifiers() -> Log:
    """Return a clean log of verifiers, whose trainer subtracts the mean alone and keeps four decimals."""
    log = clean("verifiers", 4, "grpo_no_std", gc.PAPER, verifiers)
    frame = log.frame.drop("completion").with_columns(pl.col("advantage").round(4), work=pl.lit("train"))
    return replace(log, frame=frame)


def _table() -> Log:
    """Return a clean log of somebody's own code, with a number per prompt and no texts."""
    log = clean("table", 5, "grpo", gc.PAPER, table, group="prompt_id")
    number = pl.col("prompt_id").rank("dense") * 131 % 997 + 1000
    return log.with_frame(log.frame.drop("completion").with_columns(prompt_id=number))


CLEAN: Mapping[str, Callable[[], Log]] = {
    "trl": lambda: clean("trl", 0, "gdpo", gc.TRL, trl, group="prompt"),
    "verl": _verl,
    "ms_swift": lambda: clean("ms_swift", 2, "gdpo", gc.MS_SWIFT, ms_swift, group="prompt", advantage="advantages"),
    "nemo_rl": _nemo_rl,
    "verifiers": _verifiers,
    "table": _table,
}
