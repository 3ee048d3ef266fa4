"""Logs as people have them: small ones made after public threads, each with its truth by plain numpy.

A case is a function: its docstring names the source, the property and the truth; what it returns is the log in memory,
drawn from a seed, and what a reader of the report needs. The properties and the names of columns are from the threads,
the rows are not. Nothing here is from gdpo_core or gdpo_audit: the first section computes the truth anew.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from logs import in_form

# --- the truth, in numpy ----------------------------------------------------------------------------------------------


def rows_of(keys: Sequence) -> list[np.ndarray]:
    """The places of the rows that share a key, in the order in which the keys come."""
    places: dict[Any, list[int]] = {}
    for i, key in enumerate(keys):
        places.setdefault(key, []).append(i)
    return [np.array(rows) for rows in places.values()]


def grpo(r, weights, keys, eps=1e-6, scale=True, ddof=1):
    """Advantages of GRPO (scale False: less the mean alone), and the part that each reward makes of them."""
    s, parts = r @ weights, np.zeros(r.shape)
    for rows in rows_of(keys):
        spread = s[rows].std(ddof=ddof) + eps if scale and len(rows) > 1 else 1
        parts[rows] = (r[rows] - r[rows].mean(0)) * weights / spread
    return parts.sum(1), parts


def gdpo(r, weights, keys, batches, eps=1e-4):
    """Return GDPO's advantages: each reward normalised in its group, then the sums over the batch."""
    parts = np.zeros(r.shape)
    for rows in rows_of(keys):
        parts[rows] = weights * (r[rows] - r[rows].mean(0)) / (r[rows].std(0, ddof=1) + eps)
    for rows in rows_of(batches):
        parts[rows] = (parts[rows] - parts[rows].mean(0)) / (parts[rows].sum(1).std(ddof=1) + eps)
    return parts.sum(1), parts


def shares(advantages, parts):
    """The share of each reward in the update: of every advantage, the part that the reward makes."""
    return (advantages @ parts) / (advantages @ advantages)


def in_percent(parts) -> str:
    """Shares in whole percent, as "36 / 28 / 36"."""
    return " / ".join(f"{100 * share:.0f}" for share in parts)


def dead(r, keys):
    """The share of groups in which each reward is constant."""
    return np.mean([np.ptp(r[rows], axis=0) < 1e-9 for rows in rows_of(keys)], axis=0)


def silent(advantages, keys):
    """The share of groups in which every advantage is 0."""
    return float(np.mean([np.abs(advantages[rows]).max() < 1e-9 for rows in rows_of(keys)]))


def fitted(r, total, keys):
    """The weights of the sum that is nearest to the total inside the groups."""
    inside = [(r[rows] - r[rows].mean(0), total[rows] - total[rows].mean()) for rows in rows_of(keys)]
    left, right = (np.concatenate(parts) for parts in zip(*inside, strict=True))
    return np.linalg.lstsq(left, right, rcond=None)[0]


def in_float32(values):
    return np.float32(values).astype(float)


def in_bfloat16(values):
    bits = np.float32(values).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000).astype(np.uint32).view(np.float32).astype(float)


# --- a case -----------------------------------------------------------------------------------------------------------


class Truth(NamedTuple):
    """Facts that a report on the log has to hold; None and () ask for nothing."""

    rewards: tuple[str, ...] = ()  # those that count, and no other column
    method: str | None = None  # what made the logged advantages
    groups: int | None = None
    responses: int | None = None
    repeated: int | None = None  # prompts that come twice
    weights: tuple[float, ...] = ()  # up to a factor
    shares: tuple[float, ...] = ()  # under the method that made the advantages, or `under`
    within: float = 1e-3  # of the shares, and of the weights relative to the first
    dead: tuple[float, ...] = ()
    silent: float | None = None
    says: tuple[str, ...] = ()  # patterns, each of which is in the report
    never: str = ""  # a pattern that is not
    finding: str = ""  # the id of one that is there
    asks: str = ""  # a pattern of the question that may stand in place of a report; that must, if nothing else is asked
    first: str = ""  # a pattern of what is said first: what to do, and the first finding
    under: str = ""  # the method whose shares these are, where none is known to have made the advantages: "" for GRPO
    reproduced: bool = True  # whether the method made every advantage that is logged


class Case(NamedTuple):
    log: dict[str, bytes]
    truth: Truth
    read: Mapping[str, Any] = {}  # options of read_run
    audit: Mapping[str, Any] = {}  # and of audit
    on_disk: str | None = None  # what is read of the log on a disk: "" for its folder, or a glob there


CASES: dict[str, Callable[[], Case]] = {}


def case(make: Callable[[], Case]) -> Callable[[], Case]:
    CASES[make.__name__] = make
    return make


class Drawn(NamedTuple):
    """Responses in the order of a trainer's batch, group by group: two rewards, and who they belong to."""

    step: np.ndarray
    prompt: np.ndarray  # its number in the step
    r: np.ndarray  # (responses, 2): right or wrong, and a number from 0 to 1
    draw: np.random.Generator

    @property
    def keys(self) -> list[str]:
        return [f"s{step}p{prompt}" for step, prompt in zip(self.step, self.prompt, strict=True)]

    def kept(self, which) -> "Drawn":
        return Drawn(self.step[which], self.prompt[which], self.r[which], self.draw)


def drawn(seed, steps=6, prompts=6, size=8, sizes=None) -> Drawn:
    """Groups of a size, or of sizes that are drawn between two."""
    draw, groups = np.random.default_rng(seed), steps * prompts
    n = np.full(groups, size) if sizes is None else draw.integers(sizes[0], sizes[1] + 1, groups)
    group = np.arange(groups).repeat(n)
    right = draw.random(len(group)) < 0.1 + 0.8 * draw.random(groups)[group]
    return Drawn(1 + group // prompts, group % prompts, np.c_[right, draw.random(len(group)).round(3)], draw)


def table(form: str, **columns) -> bytes:
    return in_form(form, pl.DataFrame({name: np.asarray(values).tolist() for name, values in columns.items()}))


def trl(d: Drawn, names: Sequence[str], advantages, r=None, keys=None) -> dict[str, bytes]:
    """The log as TRL writes it, in one file."""
    r = d.r if r is None else r
    of_rewards = dict(zip(names, r.T, strict=True))
    keys = d.keys if keys is None else keys
    columns = {"step": d.step, "prompt": keys, "completion": ["x"] * len(r), **of_rewards}
    return {"completions.parquet": table("parquet", **columns, advantage=in_float32(advantages))}


def verl(d: Drawn, score, **columns) -> dict[str, bytes]:
    """A dump of verl, which holds no advantages."""
    same = {"output": ["x"] * len(d.step), "gts": ["4"] * len(d.step)}
    return {"1.jsonl": table("jsonl", input=d.keys, **same, score=score, step=d.step, **columns)}


# --- names and columns ------------------------------------------------------------------------------------------------


@case
def rewards_named_as_what_a_table_holds() -> Case:
    """huggingface/trl#5233 (columns beside the rewards may overwrite the table's own); own construction.

    Rewards are called correct, length and part; the advantages are tanh of GRPO's, which no recipe makes.
    Truth: the rewards are these three, and the report is that of any other names: their order is that of a sum.
    """
    d = drawn(1)
    r = np.c_[d.r, d.draw.integers(0, 4, len(d.step))]
    a, _ = grpo(r, (1, 0.5, 0.25), d.keys, 1e-4)
    names = ("correct", "length", "part")
    return Case(trl(d, names, np.tanh(a), r), Truth(names, groups=36, says=("rank|order|clip|squash",)))


@case
def versions_times_and_costs() -> Case:
    """areal-project/AReaL#1408 (head_version, tail_version of each sample in the dump), rllm-org/rllm#622.

    Beside two rewards stand versions of the weights, a clock, a latency, a cost, a log-probability and the worker, who
    take turns; no advantages. Truth: correct and style alone are rewards; shares of GRPO with 1 : 1. To ask what seqlen
    is would do, without offering clocks and versions as rewards.
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
    """NVIDIA-NeMo/Gym#2771 (_ng_rollout_index), and its readers' columns: sandbox_elapsed_seconds, …_return_code.

    Rollouts come in any order; each task has its indices 0 to 5; reward is 0.6, 0.3 and 0.1 of three columns.
    Truth: these three make the reward, the index, the seconds and the return code do not; 40 tasks of 6.
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
    """PrimeIntellect-ai/verifiers#365 (average_reward of each prompt), wandb/wandb#6951 (DataFrame.to_csv).

    A CSV whose first column has no name and counts rows; difficulty and average_reward are constant per prompt.
    Truth: correct and style alone are rewards; 36 groups; shares of GRPO with 1 : 1.
    """
    d = drawn(4)
    facts = d.draw.random((36, 2)).round(2)[(d.step - 1) * 6 + d.prompt]
    log = {"step": d.step, "prompt": d.keys, "correct": d.r[:, 0], "style": d.r[:, 1]}
    log = {"": np.arange(len(d.step)), **log, "difficulty": facts[:, 0], "average_reward": facts[:, 1]}
    truth = Truth(("correct", "style"), groups=36, shares=shares(*grpo(d.r, (1, 1), d.keys)))
    return Case({"rollouts.csv": table("csv", **log)}, truth)


@case
def a_rescaled_copy() -> Case:
    """yifan123/flow_grpo#53 (pickscore is normalised before it is summed): both forms logged, no advantages.

    pickscore is pickscore_raw / 26. Truth: only one of the two can be meant, and which one is asked.
    """
    d = drawn(5)
    raw = (20 + 4 * d.r[:, 1]).round(4)
    log = {"step": d.step, "prompt": d.keys, "pickscore_raw": raw, "pickscore": raw / 26, "ocr": d.r[:, 0]}
    asks = r"(?s)pickscore_raw.*pickscore\b|pickscore\b.*pickscore_raw"
    return Case({"samples.jsonl": table("jsonl", **log)}, Truth(asks=asks))


# --- weights ----------------------------------------------------------------------------------------------------------


@case
def a_penalty_that_no_column_holds() -> Case:
    """radixark/miles#1573: of right answers, those much longer than their group's others lose a little.

    score = acc + 0.2 fmt − that penalty, and the penalty is in no column. Truth: the shares under the weights of the
    nearest sum inside groups; under 1 : 1 the format would make five times as much.
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
    """Tencent-Hunyuan/UniRL#146: one source's score is times 15, which changes no normalised advantage.

    score = (acc + 0.5 style) · 15 in one data_source, · 1 in the other. Truth: it is linear in both inside every group,
    with the ratio 1 : 0.5; nothing is missing, and GRPO's shares are those of 1 : 0.5.
    """
    d = drawn(7)
    scale = np.where(d.prompt < 3, 15, 1)
    log = verl(d, scale * (d.r @ (1, 0.5)), acc=d.r[:, 0], style=d.r[:, 1], data_source=np.where(scale > 1, "a", "b"))
    of_sums = shares(*grpo(d.r, (1, 0.5), d.keys))
    truth = Truth(("acc", "style"), groups=36, weights=(1, 0.5), shares=of_sums, never="Log all that|is missing")
    return Case(log, truth)


@case
def a_clipped_total() -> Case:
    """inclusionAI/AReno#423: the sum of the rewards is clipped to [−1, 1] before advantages are computed.

    reward = clip(acc + 0.5 tool − 0.7 long, −1, 1), all four logged. Truth: the advantages are GRPO of reward; acc,
    tool and long are its parts, or what stands beside it, and the log does not hold only a total.
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
    """huggingface/trl#5657 (a scheduler of the weights, logged as reward_weights/…): a weight for each step.

    w_correct rises and w_brevity falls with the steps; both are columns. Truth: GRPO with these weights; two rewards.
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
    """THUDM/slime#1247 (reward − kl_coef · kl), modelscope/ms-swift#6385 (kl_in_reward); kl is a column.

    Truth: GRPO of acc + 0.5 style − 0.1 kl; kl, by its name a metric, is what is missing, and is named with its weight.
    """
    d = drawn(10)
    r = np.c_[d.r, d.draw.gamma(2, 1.5, len(d.step)).round(4)]
    a, _ = grpo(r, (1, 0.5, -0.1), d.keys)
    log = {"step": d.step, "prompt_id": d.keys, "acc": d.r[:, 0], "style": d.r[:, 1], "kl": r[:, 2]}
    truth = Truth(groups=36, says=(r"\bkl\b", "GRPO", "10 : 5 : −1|1 : 0.5 : −0.1|−0.1"), never="Nothing known")
    return Case({"log.jsonl": table("jsonl", **log, advantage=in_float32(a))}, truth)
