"""Logs as people have them: small ones made after public threads, each with the truth about it, computed in plain
numpy.

A case is a function that returns such a log, drawn from a seed and kept in memory, and the facts that a report on it
has to hold. Its docstring says what is special about the log, names the public threads after which it was made, and
says what the report has to find out. What is special, and the names of columns, are from the threads; the rows are not.
Nothing here is from gdpo_core or gdpo_audit: the first section computes the truth anew.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from logs import in_form

# --- the truth, in numpy ----------------------------------------------------------------------------------------------


def rows_of(keys: Sequence) -> list[np.ndarray]:
    """Return for each key, in the order in which the keys first come, the indices of the rows that have it."""
    places: dict[Any, list[int]] = {}
    for i, key in enumerate(keys):
        places.setdefault(key, []).append(i)
    return [np.array(rows) for rows in places.values()]


def grpo(r, weights, keys, eps=1e-6, scale=True, ddof=1):
    """Return GRPO's advantages, (rows,), and the part that each reward makes of them, (rows, rewards). r: (rows,
    rewards); keys: the group of each row; scale: whether a group is divided by its std plus eps; ddof: of that std.
    """
    s, parts = r @ weights, np.zeros(r.shape)
    for rows in rows_of(keys):
        spread = s[rows].std(ddof=ddof) + eps if scale and len(rows) > 1 else 1
        parts[rows] = (r[rows] - r[rows].mean(0)) * weights / spread
    return parts.sum(1), parts


def gdpo(r, weights, keys, batches, eps=1e-4):
    """Return GDPO's advantages, (rows,), and the part that each reward makes of them, (rows, rewards): each reward is
    normalised in its group, and then the weighted sums over the batch. r: (rows, rewards); keys, batches: the group and
    the batch of each row.
    """
    parts = np.zeros(r.shape)
    for rows in rows_of(keys):
        parts[rows] = weights * (r[rows] - r[rows].mean(0)) / (r[rows].std(0, ddof=1) + eps)
    for rows in rows_of(batches):
        parts[rows] = (parts[rows] - parts[rows].mean(0)) / (parts[rows].sum(1).std(ddof=1) + eps)
    return parts.sum(1), parts


def shares(advantages, parts):
    """Return the share of the update that each reward makes: Σ a A / Σ A² with the advantages A and the reward's part a
    of each.
    """
    return (advantages @ parts) / (advantages @ advantages)


def in_percent(parts) -> str:
    """Return shares in whole percent, as in "36 / 28 / 36"."""
    return " / ".join(f"{100 * share:.0f}" for share in parts)


def dead(r, keys):
    """Return for each reward the share of groups in which it is constant. keys: the group of each row."""
    return np.mean([np.ptp(r[rows], axis=0) < 1e-9 for rows in rows_of(keys)], axis=0)


def silent(advantages, keys):
    """Return the share of groups in which every advantage is 0. keys: the group of each row."""
    return float(np.mean([np.abs(advantages[rows]).max() < 1e-9 for rows in rows_of(keys)]))


def fitted(r, total, keys):
    """Return the weights of the weighted sum of rewards that is nearest to the total inside groups. r: (rows, rewards);
    keys: the group of each row.
    """
    inside = [(r[rows] - r[rows].mean(0), total[rows] - total[rows].mean()) for rows in rows_of(keys)]
    left, right = (np.concatenate(parts) for parts in zip(*inside, strict=True))
    return np.linalg.lstsq(left, right, rcond=None)[0]


def in_float32(values):
    """Return numbers rounded to float32, as float64."""
    return np.float32(values).astype(float)


def in_bfloat16(values):
    """Return numbers rounded to bfloat16, as float64."""
    bits = np.float32(values).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000).astype(np.uint32).view(np.float32).astype(float)


# --- a case -----------------------------------------------------------------------------------------------------------


class Truth(NamedTuple):
    """Facts that a report on a log has to hold. A fact that is None, empty or () is not asked for."""

    rewards: tuple[str, ...] = ()  # the columns that count as rewards, all of them
    method: str | None = None  # what made the logged advantages
    groups: int | None = None
    responses: int | None = None
    repeated: int | None = None  # how many prompts come twice
    weights: tuple[float, ...] = ()  # of the rewards, up to a common factor
    shares: tuple[float, ...] = ()  # of the rewards, under the method that made the advantages, or under `under`
    within: float = 1e-3  # by how much shares may be off, and weights relative to the first
    dead: tuple[float, ...] = ()
    silent: float | None = None
    says: tuple[str, ...] = ()  # patterns, each of which has to be in the report
    never: str = ""  # a pattern that may not be in it
    finding: str = ""  # the id of a finding that has to be there
    # This is a pattern of the question that may stand in place of a report, and that must if no other fact is asked
    # for.
    asks: str = ""
    first: str = ""  # a pattern of what is said first, which is what to do and the first finding
    # The method under which the shares are, if none is known to have made the advantages: "" for GRPO.
    under: str = ""
    reproduced: bool = True  # whether the method made every advantage that is logged


class Case(NamedTuple):
    """A log by the names of its files, the truth about it, and how it is to be read and audited."""

    log: dict[str, bytes]
    truth: Truth
    read: Mapping[str, Any] = {}  # options of read_run
    audit: Mapping[str, Any] = {}  # options of audit
    # This says what to read if the log is written to a disk: “” stands for its folder, another text is a glob there.
    # With None it is read from memory.
    on_disk: str | None = None


CASES: dict[str, Callable[[], Case]] = {}


def case(make: Callable[[], Case]) -> Callable[[], Case]:
    """Register a function as a case, under its own name."""
    CASES[make.__name__] = make
    return make


class Drawn(NamedTuple):
    """Random responses in the order of a trainer's batch, group by group: two rewards each, and the step and prompt
    they belong to.
    """

    step: np.ndarray
    prompt: np.ndarray  # its number in the step
    r: np.ndarray  # (responses, 2): right or wrong, and a number from 0 to 1
    draw: np.random.Generator

    @property
    def keys(self) -> list[str]:
        return [f"s{step}p{prompt}" for step, prompt in zip(self.step, self.prompt, strict=True)]

    def kept(self, which) -> "Drawn":
        """Return some of the responses; which: a mask, or indices in a new order."""
        return Drawn(self.step[which], self.prompt[which], self.r[which], self.draw)


def drawn(seed, steps=6, prompts=6, size=8, sizes=None) -> Drawn:
    """Return random responses in groups of one size, or of sizes drawn between the two of `sizes`. prompts: in each
    step.
    """
    draw, groups = np.random.default_rng(seed), steps * prompts
    n = np.full(groups, size) if sizes is None else draw.integers(sizes[0], sizes[1] + 1, groups)
    group = np.arange(groups).repeat(n)
    right = draw.random(len(group)) < 0.1 + 0.8 * draw.random(groups)[group]
    return Drawn(1 + group // prompts, group % prompts, np.c_[right, draw.random(len(group)).round(3)], draw)


def table(form: str, **columns) -> bytes:
    """Return columns as the bytes of a file of this kind, such as "csv"."""
    return in_form(form, pl.DataFrame({name: np.asarray(values).tolist() for name, values in columns.items()}))


def trl(d: Drawn, names: Sequence[str], advantages, r=None, keys=None) -> dict[str, bytes]:
    """Return a log with TRL's columns in one file. names: of the rewards; r: (rows, rewards), by default those of d;
    keys: the prompt of each row.
    """
    r = d.r if r is None else r
    of_rewards = dict(zip(names, r.T, strict=True))
    keys = d.keys if keys is None else keys
    columns = {"step": d.step, "prompt": keys, "completion": ["x"] * len(r), **of_rewards}
    return {"completions.parquet": table("parquet", **columns, advantage=in_float32(advantages))}


def verl(d: Drawn, score, **columns) -> dict[str, bytes]:
    """Return a dump of verl, which holds no advantages. score: (rows,) the total; columns: further ones."""
    same = {"output": ["x"] * len(d.step), "gts": ["4"] * len(d.step)}
    return {"1.jsonl": table("jsonl", input=d.keys, **same, score=score, step=d.step, **columns)}


# --- names and columns ------------------------------------------------------------------------------------------------


@case
def rewards_named_as_what_a_table_holds() -> Case:
    """Return a log whose rewards are called correct, length and part, names that our own tables use. The advantages are
    tanh of GRPO's, which no recipe makes. Own construction after huggingface/trl#5233 (columns beside the rewards may
    overwrite the table's own).

    The report has to name these three rewards, and to say what it would say under any other names: the advantages have
    the order of a weighted sum.
    """
    d = drawn(1)
    r = np.c_[d.r, d.draw.integers(0, 4, len(d.step))]
    a, _ = grpo(r, (1, 0.5, 0.25), d.keys, 1e-4)
    names = ("correct", "length", "part")
    return Case(trl(d, names, np.tanh(a), r), Truth(names, groups=36, says=("rank|order|clip|squash",)))


@case
def versions_times_and_costs() -> Case:
    """Return a log of two rewards beside columns that are none: versions of the model, a clock, a latency, a cost, a
    log-probability and the worker; no advantages. After areal-project/AReaL#1408 (head_version and tail_version of each
    sample) and rllm-org/rllm#622.

    The report has to take correct and style alone for rewards, and to give GRPO's shares with weights 1 : 1. It may
    also ask what seqlen is, but must not offer clocks and versions as rewards.
    """
    d = drawn(2)
    n, late = len(d.step), d.draw.random(len(d.step)) < 0.2
    tokens = d.draw.integers(50, 900, n)
    log = {"head_version": d.step - 1 - late, "tail_version": d.step - 1, "worker_id": np.arange(n) % 4}
    log |= {"started_at": 1767225600 + 40 * d.step + d.draw.random(n).round(2), "seqlen": tokens}
    log |= {"mean_logprob": -d.draw.gamma(2, 0.1, n).round(4)}
    log |= {"latency_ms": d.draw.gamma(3, 400, n).round(1), "cost_usd": (tokens * 3e-6).round(6)}
    rewards = {"correct": d.r[:, 0], "style": d.r[:, 1]}
    log = {"dump.jsonl": table("jsonl", step=d.step, prompt=d.keys, completion=["x"] * n, **rewards, **log)}
    asks = "^(?!.*--reward (head|tail|worker|started|mean_log|latency|cost)).*seqlen"
    return Case(log, Truth(("correct", "style"), groups=36, shares=shares(*grpo(d.r, (1, 1), d.keys)), asks=asks))


@case
def unordered_rollout_indices() -> Case:
    """Return a log whose rollouts come in any order, with an index from 0 to 5 in each task, and whose reward is 0.6,
    0.3 and 0.1 of three columns. After NVIDIA-NeMo/Gym#2771 (_ng_rollout_index), with columns that its readers add,
    such as sandbox_elapsed_seconds.

    The report has to find that these three make the reward, while the index, the seconds and the return code do not; it
    has to find 40 tasks of 6 rollouts.
    """
    d = drawn(3, steps=1, prompts=40, size=6)
    n, w = len(d.step), np.array([0.6, 0.3, 0.1])
    r = np.c_[d.r, d.draw.integers(0, 3, n) / 2]
    names = ("correctness", "completeness", "convention_compliance")
    log = dict(zip(names, r.T, strict=True)) | {"reward": r @ w, "sandbox_return_code": d.draw.integers(0, 2, n)}
    log |= {"_ng_task_index": d.prompt, "_ng_rollout_index": np.tile(np.arange(6), 40)}
    log |= {"sandbox_elapsed_seconds": d.draw.gamma(2, 5, n).round(2)}
    mixed = d.draw.permutation(n)
    log = {"rollouts.jsonl": table("jsonl", **{name: np.asarray(values)[mixed] for name, values in log.items()})}
    return Case(log, Truth(names, groups=40, weights=tuple(w), shares=shares(*grpo(r, w, d.keys))))


@case
def facts_of_the_prompt_and_an_index_of_pandas() -> Case:
    """Return a CSV whose first column has no name and counts the rows, and in which difficulty and average_reward are
    constant per prompt. After PrimeIntellect-ai/verifiers#365 (average_reward of each prompt) and wandb/wandb#6951
    (DataFrame.to_csv).

    The report has to take correct and style alone for rewards, in 36 groups, and to give GRPO's shares with weights 1 :
    1.
    """
    d = drawn(4)
    facts = d.draw.random((36, 2)).round(2)[(d.step - 1) * 6 + d.prompt]
    log = {"step": d.step, "prompt": d.keys, "correct": d.r[:, 0], "style": d.r[:, 1]}
    log = {"": np.arange(len(d.step)), **log, "difficulty": facts[:, 0], "average_reward": facts[:, 1]}
    truth = Truth(("correct", "style"), groups=36, shares=shares(*grpo(d.r, (1, 1), d.keys)))
    return Case({"rollouts.csv": table("csv", **log)}, truth)


@case
def a_rescaled_copy() -> Case:
    """Return a log that holds a reward twice, as pickscore_raw and divided by 26 as pickscore, without advantages.
    After yifan123/flow_grpo#53 (pickscore is normalised before it is summed).

    Only one of the two can be meant, so the report has to ask which.
    """
    d = drawn(5)
    raw = (20 + 4 * d.r[:, 1]).round(4)
    log = {"step": d.step, "prompt": d.keys, "pickscore_raw": raw, "pickscore": raw / 26, "ocr": d.r[:, 0]}
    asks = r"(?s)pickscore_raw.*pickscore\b|pickscore\b.*pickscore_raw"
    return Case({"samples.jsonl": table("jsonl", **log)}, Truth(asks=asks))


# --- weights ----------------------------------------------------------------------------------------------------------


@case
def a_penalty_that_no_column_holds() -> Case:
    """Return a log whose score is acc + 0.2 fmt less a penalty that is in no column: right answers that are much longer
    than the others of their group lose a little. After radixark/miles#1573.

    The report has to give the shares under the weights of the nearest weighted sum inside groups; under 1 : 1 the
    format would make five times as much.
    """
    d = drawn(6)
    r = np.c_[d.r[:, 0], d.draw.random(len(d.step)) < 0.6]
    tokens, penalty = d.draw.integers(50, 400, len(d.step)), np.zeros(len(d.step))
    for rows in rows_of(d.keys):
        if len(good := rows[r[rows, 0] > 0]) > 1:
            reference = np.median(tokens[good])
            penalty[good] = np.clip(0.2 * (tokens[good] - 1.3 * reference) / reference, 0, 0.15)
    score = r @ (1, 0.2) - penalty
    w = fitted(r, score, d.keys)
    says = ("no column|not logged|unlogged|missing|left over|nearly",)
    truth = Truth(
        ("acc", "fmt"), None, 36, weights=tuple(w), shares=shares(*grpo(r, w, d.keys)), within=0.02, says=says
    )
    return Case(verl(d, score, acc=r[:, 0], fmt=r[:, 1] * 1.0), truth)


@case
def a_scale_of_each_source() -> Case:
    """Return a log whose score, acc + 0.5 style, is multiplied by 15 in one of two sources, which changes no normalised
    advantage. After Tencent-Hunyuan/UniRL#146.

    The report has to find that the score is linear in both rewards inside every group, with the ratio 1 : 0.5, so that
    nothing is missing, and to give GRPO's shares under these weights.
    """
    d = drawn(7)
    scale = np.where(d.prompt < 3, 15, 1)
    log = verl(d, scale * (d.r @ (1, 0.5)), acc=d.r[:, 0], style=d.r[:, 1], data_source=np.where(scale > 1, "a", "b"))
    of_sums = shares(*grpo(d.r, (1, 0.5), d.keys))
    truth = Truth(("acc", "style"), groups=36, weights=(1, 0.5), shares=of_sums, never="Log all that|is missing")
    return Case(log, truth)


@case
def a_clipped_total() -> Case:
    """Return a log whose reward is clip(acc + 0.5 tool − 0.7 long, −1, 1), with all four columns. After
    inclusionAI/AReno#423, where the sum of the rewards is clipped before advantages are computed.

    The report has to find that the advantages are GRPO of reward, and that acc, tool and long are its parts or stand
    beside it. It must not say that the log holds only a total.
    """
    d = drawn(8)
    r = np.c_[d.r[:, 0], d.draw.random((len(d.step), 2)).round(2)]
    reward = np.clip(r @ (1, 0.5, -0.7), -1, 1)
    a, _ = grpo(reward[:, None], np.ones(1), d.keys)
    log = {"step": d.step, "prompt_id": d.keys, "acc": r[:, 0], "tool": r[:, 1], "long": r[:, 2], "reward": reward}
    truth = Truth(method="grpo", groups=36, never="only the total|Nothing known", says=(r"\breward\b",))
    return Case({"rollouts.jsonl": table("jsonl", **log, advantage=in_float32(a))}, truth)


@case
def weights_in_columns() -> Case:
    """Return a log whose weights change from step to step and stand in the columns w_correct and w_brevity. After
    huggingface/trl#5657 (a scheduler of the weights, logged as reward_weights/…).

    The report has to find GRPO with these weights, and two rewards.
    """
    d = drawn(9)
    w = np.c_[0.2 * d.step, 1.4 - 0.2 * d.step].round(2)
    a, parts = grpo(d.r * w, np.ones(2), d.keys)
    log = {"step": d.step, "prompt_id": d.keys, "correct": d.r[:, 0], "brevity": d.r[:, 1]}
    log |= {"w_correct": w[:, 0], "w_brevity": w[:, 1], "advantage": in_float32(a)}
    truth = Truth(("correct", "brevity"), "grpo", 36, shares=shares(a, parts), never="round-off")
    return Case({"log.jsonl": table("jsonl", **log)}, truth)


@case
def kl_in_the_reward() -> Case:
    """Return a log of GRPO on acc + 0.5 style − 0.1 kl, in which kl is a column. After THUDM/slime#1247 (reward −
    kl_coef · kl) and modelscope/ms-swift#6385 (kl_in_reward).

    By its name kl is a metric, so it is not read as a reward. The report has to find that it is what is missing, and to
    name it with its weight.
    """
    d = drawn(10)
    r = np.c_[d.r, d.draw.gamma(2, 1.5, len(d.step)).round(4)]
    a, _ = grpo(r, (1, 0.5, -0.1), d.keys)
    log = {"step": d.step, "prompt_id": d.keys, "acc": d.r[:, 0], "style": d.r[:, 1], "kl": r[:, 2]}
    truth = Truth(groups=36, says=(r"\bkl\b", "GRPO", "10 : 5 : −1|1 : 0.5 : −0.1|−0.1"), never="Nothing known")
    return Case({"log.jsonl": table("jsonl", **log, advantage=in_float32(a))}, truth)
