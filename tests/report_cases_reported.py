"""Twenty-six logs after reports of people who had trouble with them: groups, and what counts as a reward.

As in report_cases: a docstring names the source, the property and the truth. What became of advantages, and the shapes
of files, are in report_cases_reported_shapes. docs/logs.md has a table of all: what was said of each, and what is now.
"""

import numpy as np
import polars as pl
from logs import lines
from report_cases import (
    Case,
    Drawn,
    Truth,
    case,
    dead,
    drawn,
    fitted,
    gdpo,
    grpo,
    in_float32,
    in_percent,
    rows_of,
    shares,
    silent,
    table,
)

NAMES = ("correct", "style")
W = np.array([1, 0.5])
UNKNOWN = "Nothing known|ranks, clipping"  # what says nothing of a log whose advantages show more


def log_of(d: Drawn, advantages, **columns) -> dict[str, bytes]:
    """A table of rows with an id of the prompt, these columns, and advantages in float32 where there are any."""
    logged = {} if advantages is None else {"advantage": in_float32(advantages)}
    return {"rows.jsonl": table("jsonl", step=d.step, prompt_id=d.keys, **columns, **logged)}


def named(r, names=NAMES) -> dict:
    """The columns of a matrix by these names."""
    return dict(zip(names, r.T, strict=True))


# --- groups -----------------------------------------------------------------------------------------------------------


@case
def groups_of_one() -> Case:
    """rllm-org/rllm#605, #924: each trajectory has an id of its own as the group, so nothing is centred.

    Truth: A = correct + 0.5 format, as verl keeps the sum of a group of one; that comes first, with the weights.
    """
    d = drawn(41, prompts=10, size=4)
    r = np.c_[d.r[:, 0], d.draw.random(len(d.step)) < 0.5]
    ids = [f"{step}-{i}" for i, step in enumerate(d.step)]
    log = log_of(d, r @ W / (1 + 1e-6), trajectory_uid=ids, correct=r[:, 0], format=r[:, 1])
    never = f"{UNKNOWN}|No finding asks for a change"
    return Case(log, Truth(("correct", "format"), weights=tuple(W), first="add up to 0 in no group", never=never))


def drawn_by_turn() -> tuple[dict[str, bytes], Truth]:
    """A row per turn, with rewards of its own; the later turns of a prompt have fewer rows."""
    d = drawn(42, prompts=5)
    turns = d.draw.integers(1, 4, len(d.step))
    turn, rows = np.concatenate([np.arange(n) for n in turns]), np.arange(len(turns)).repeat(turns)
    r = np.c_[d.draw.random(len(turn)) < 0.5 + 0.1 * turn, d.draw.random(len(turn)).round(3)]
    d, names = d.kept(rows), ("step_ok", "tool_ok")
    keys = [f"{key}/{k}" for key, k in zip(d.keys, turn, strict=True)]
    a, parts = grpo(r, w := np.array([1, 0.3]), keys)
    truth = Truth(names, "grpo", len(rows_of(keys)), weights=tuple(w), shares=shares(a, parts), dead=dead(r, keys))
    return log_of(d, a, rollout=rows % 8, turn=turn, **named(r, names)), truth._replace(never=UNKNOWN)


@case
def groups_by_prompt_and_turn() -> Case:
    """verl-project/verl#7244, wangyu-ustc/Mem-alpha#14, rllm-org/rllm#222: normalised by (prompt_id, turn).

    Truth: GRPO by the pair of columns, 1 : 0.3; the pair is tried where no one names it.
    """
    log, truth = drawn_by_turn()
    return Case(log, truth._replace(says=(r"prompt_id and turn|turn and prompt_id",)))


@case
def groups_by_two_named_columns() -> Case:
    """A log as before, of which the reader names the pair. Truth: as before; neither column is said to fail alone."""
    log, truth = drawn_by_turn()
    return Case(log, truth._replace(never=f"{UNKNOWN}|they are not"), read={"group": ("prompt_id", "turn")})


@case
def a_place_in_the_batch() -> Case:
    """allenai/open-instruct, rl_utils.py (RolloutRecord, save_traces): prompt_idx is a place in the batch.

    Two files of rollouts beside one of metadata; a total of 10 and 1. Truth: GRPO with std over n; 36 prompts, of which
    none comes twice.
    """
    d = drawn(43)
    reward = 10.0 * d.r[:, 0] + (d.r[:, 1] < 0.7)
    a, _ = grpo(reward[:, None], np.ones(1), d.keys, 1e-8, ddof=0)
    tokens = d.draw.integers(5, 900, (36, 12)).tolist()
    rows = [
        {"step": int(d.step[i]), "sample_idx": i % 48, "prompt_idx": int(d.prompt[i]), "prompt_tokens": tokens[i // 8]}
        | {"response_tokens": [7] * (3 + i % 5), "reward": float(reward[i]), "advantage": float(a[i])}
        | {"finish_reason": "stop", "dataset": ("gsm8k", "math")[d.prompt[i] % 2], "ground_truth": [1, 2, 3]}
        for i in range(len(a))
    ]
    log = {f"run_rollouts_00000{n}.jsonl": lines(*rows[144 * n :][:144]) for n in range(2)}
    log["run_metadata.jsonl"] = lines({"run_name": "run", "git_commit": "abc", "model_name": "m"})
    truth = Truth(("reward",), "grpo", 36, 288, repeated=0, silent=silent(a, d.keys))
    return Case(log, truth._replace(never=r"of 6 visits|of 6 prompts"))


def blocks_of_eight() -> tuple[dict[str, bytes], Truth]:
    """A log from which a fifth of the responses was dropped before it was cut into groups of 8."""
    d = drawn(44, steps=8)
    d = d.kept(d.draw.random(len(d.step)) > 0.2)
    d = d.kept(np.concatenate([rows[: len(rows) // 8 * 8] for rows in rows_of(d.step)]))
    block = np.arange(len(d.step)) // 8
    a, parts = grpo(d.r, w := np.array([1, 0.25]), block, 1e-8, ddof=0)
    mixed = sum(len({d.keys[i] for i in rows}) > 1 for rows in rows_of(block))
    groups = len(rows_of(block))
    truth = Truth(NAMES, "grpo", groups, weights=tuple(w), shares=shares(a, parts), finding="groups-mix-prompts")
    log = {"step": d.step, "prompt": d.keys, "completion": ["x"] * len(a), **named(d.r), "advantage": a}
    says = (rf"\b{mixed} of (these )?{groups}\b",)
    return {"rollouts.jsonl": table("jsonl", **log)}, truth._replace(says=says, never=f"{UNKNOWN}|no finding yet")


@case
def blocks_after_a_filter() -> Case:
    """allenai/open-instruct#1794: truncated responses are dropped before reshape(-1, 8).

    Truth: GRPO over blocks of 8 rows, std over n, 1 : 0.25; that most blocks mix prompts is an error.
    """
    return Case(*blocks_of_eight())


@case
def blocks_of_a_named_size() -> Case:
    """A log as before, of which the reader names the size. Truth: the error as before."""
    log, truth = blocks_of_eight()
    return Case(log, truth, read={"group_size": 8})


@case
def evaluations_of_smaller_groups() -> Case:
    """huggingface/trl#4458 (num_generations_eval): an evaluation with 2 generations a prompt took the file of a step.

    Truth: TRL's GRPO, 1 : 0.5, but for steps 4 and 8; these are named first. The run mixes no prompts.
    """
    log, kept, d = {}, [], drawn(45, steps=12, prompts=4)
    for step, rows in enumerate(rows_of(d.step), 1):
        group = np.arange(32) // (2 if step in (4, 8) else 8)
        a, parts = grpo(d.r[rows], W, group, 1e-4)
        prompts = [f"{'eval' if step in (4, 8) else step} question {k}" for k in group]
        columns = {"step": d.step[rows], "prompt": prompts, "completion": ["x"] * 32, **named(d.r[rows])}
        log[f"completions/completions_{step:05d}.parquet"] = table("parquet", **columns, advantage=in_float32(a))
        kept += [(a, parts)] * (step not in (4, 8))
    a, parts = (np.concatenate(made) for made in zip(*kept, strict=True))
    truth = Truth(NAMES, "grpo", reproduced=False, weights=tuple(W), shares=shares(a, parts), first="steps 4 and 8")
    return Case(log, truth._replace(says=("evaluation",), never="mix prompts|Drop whole groups"))


def draws_of_which_some_repeat() -> tuple[dict[str, bytes], Truth]:
    """Eight draws a step, of which the last repeats the first: one group of 16 for the trainer."""
    d = drawn(46, prompts=8)
    texts = d.draw.integers(0, 30, (6, 8))
    texts[:, 7] = texts[:, 0]
    prompt = [f"problem {texts[step - 1, n]}" for step, n in zip(d.step, d.prompt, strict=True)]
    keys = [f"{step}/{text}" for step, text in zip(d.step, prompt, strict=True)]
    a, parts = grpo(d.r, W, keys)
    truth = Truth(NAMES, "grpo", len(rows_of(keys)), weights=tuple(W), shares=shares(a, parts))
    log = {"step": d.step, "group_id": d.keys, "prompt": prompt, "response": ["x"] * len(a), **named(d.r)}
    log = {"rows.jsonl": table("jsonl", **log, advantage=in_float32(a))}
    return log, truth._replace(never=f"{UNKNOWN}|are wrong|do not match")


@case
def merged_draws() -> Case:
    """NVIDIA-NeMo/RL#3882: a prompt drawn twice in a batch is one group for the trainer; group_id tells the draws.

    Truth: GRPO by the prompt within a step, 1 : 0.5, and that by group_id nothing is reproduced.
    """
    log, truth = draws_of_which_some_repeat()
    return Case(log, truth._replace(says=(r"column prompt\b", "group_id")))


@case
def merged_draws_by_the_prompt() -> Case:
    """A log as before, of which the reader names the prompt. Truth: groups of several sizes, with right figures."""
    log, truth = draws_of_which_some_repeat()
    return Case(log, truth, read={"group": "prompt"})


# --- rewards ----------------------------------------------------------------------------------------------------------


def product() -> tuple[dict[str, bytes], Truth]:
    """The total of a log is its base times a factor of its length."""
    d = drawn(47)
    reward = d.r[:, 0] * (1 - 0.3 * (1 - d.r[:, 1]))
    a, _ = grpo(reward[:, None], np.ones(1), d.keys)
    never = f"{UNKNOWN}|only the total|--parts"
    log = log_of(d, a, base_reward=d.r[:, 0], length_score=d.r[:, 1], reward=reward)
    return log, Truth(("reward",), "grpo", 36, silent=silent(a, d.keys), never=never)


@case
def a_product_of_parts() -> Case:
    """NVIDIA-NeMo/RL#3769: reward = base · (1 − 0.3 (1 − length_score)), all three logged.

    Truth: GRPO of reward alone; base_reward and length_score stand beside it, and no weighted sum of them makes it.
    """
    log, truth = product()
    truth = truth._replace(
        says=("Beside it, the log holds base_reward and length_score",), never=f"{truth.never}|as asked"
    )
    return Case(log, truth)


@case
def a_product_of_parts_that_is_named() -> Case:
    """A log as before, with the reward named. Truth: as before; the log does not hold only a total."""
    log, truth = product()
    return Case(log, truth, read={"rewards": "reward"})


@case
def one_part_of_a_product() -> Case:
    """A log as before, with one part named. Truth: reward, which was not read, made the advantages; no crash."""
    log, _ = product()
    truth = Truth(("base_reward",), says=(r"\breward, which was not read",))
    return Case(log, truth, read={"rewards": "base_reward"})


@case
def signs_in_one_source() -> Case:
    """verl-project/verl#7151: score is 2 acc − 1 in math_dapo, where acc is true or false, and acc in gsm8k.

    Files of a step each, rows in any order, no advantages. Truth: score is linear in acc inside every group: nothing is
    missing; 36 groups.
    """
    d, log = drawn(48), {}
    for step, rows in enumerate(rows_of(d.step), 1):
        items = []
        for i in d.draw.permutation(rows):
            right, dapo = bool(d.r[i, 0]), d.prompt[i] % 2 == 0
            row = {"input": d.keys[i], "output": f"answer {i}", "gts": "7", "step": step}
            row |= {"score": 2.0 * right - 1 if dapo else float(right), "acc": right if dapo else float(right)}
            items.append(row | {"pred": "7" if dapo else None, "data_source": "math_dapo" if dapo else "openai/gsm8k"})
        log[f"{step}.jsonl"] = lines(*items)
    return Case(log, Truth(("acc",), groups=36, dead=dead(d.r[:, :1], d.keys), never="Log all|may hold|in no column"))


def squashed(advantages: bool) -> Case:
    """A log of a score and its squashed form, with an index and seconds, with or without advantages."""
    d = drawn(49)
    score = np.abs(d.draw.normal(20 * d.prompt, 30)).round(2)
    reward = np.clip(np.tanh(score / 60), 0, 0.95)
    a, _ = grpo(reward[:, None], np.ones(1), d.keys)
    log = {"rollout_idx": np.arange(288) % 8, "score": score, "reward": reward}
    log = log_of(d, a if advantages else None, **log, gen_time_s=(9 * d.draw.random(288)).round(2))
    truth = Truth(("reward",), "grpo", 36, says=("rollout_idx", "gen_time_s", "score"))
    return Case(log, truth if advantages else Truth(asks="^(?!.*(rollout_idx|gen_time_s)).*score.*reward"))


@case
def a_raw_and_a_squashed_form() -> Case:
    """ash-ding/remote-factory-lumen#22, akashgit/remote-factory#1381: reward is tanh of score, clipped; both logged.

    Truth: GRPO of reward alone; the index and the seconds are no rewards, and why is said.
    """
    return squashed(advantages=True)


@case
def a_raw_and_a_squashed_form_without_advantages() -> Case:
    """A log as before, without advantages. Truth: it is asked which of both is meant; no index or time is offered."""
    return squashed(advantages=False)


def two_of_three() -> tuple[dict[str, bytes], Truth, str]:
    """A log of GDPO over two of three rewards, its truth, and the shares that equal weights would make."""
    names, d = ("correctness", "format", "length_reward"), drawn(50, prompts=8)
    r = np.c_[d.r[:, 0], d.draw.random((len(d.step), 2)) < (0.8, 0.5)]
    a, parts = gdpo(r[:, :2], np.ones(2), d.keys, d.step, 1e-6)
    truth = Truth(names[:2], "gdpo", 48, weights=(1, 1), shares=shares(a, parts), dead=dead(r[:, :2], d.keys))
    equal = in_percent(shares(*gdpo(r, np.ones(3), d.keys, d.step, 1e-6)))
    return log_of(d, a, **named(r, names)), truth, equal


@case
def a_reward_that_is_in_no_advantage() -> Case:
    """NVlabs/GDPO#2: the third of three rewards is computed and logged, but not in the sum.

    Truth: GDPO of two, 1 : 1; length_reward has weight 0.
    """
    log, truth, _ = two_of_three()
    return Case(log, truth._replace(says=("length_reward",)))


@case
def a_weight_that_did_not_run() -> Case:
    """A log as before, with weight 1 given for all three. Truth: the log contradicts it; those shares ran nowhere."""
    log, _, equal = two_of_three()
    truth = Truth(method="gdpo", finding="weights-not-as-given", never=f"as it ran: {equal}")
    return Case(log, truth._replace(says=("length_reward.* 0",)), audit={"weights": [1, 1, 1]})


@case
def a_list_in_the_score() -> Case:
    """verl-project/verl#4998 (turn_scores, tool_rewards of agent loops): lists and objects beside the rewards.

    score = acc + 0.1 tool_used + 0.05 sum(turn_scores), the last a list of 1 to 4. Truth: the shares under the weights
    of the nearest sum inside groups, 98 and 2, with what is missing as a figure; not those of 1 : 1.
    """
    d = drawn(51)
    r = np.c_[d.r[:, 0], d.draw.random(288) < 0.5].astype(float)
    turns = [d.draw.integers(0, 2, n).astype(float).tolist() for n in d.draw.integers(1, 5, 288)]
    score = r @ (1, 0.1) + [0.05 * sum(turn) for turn in turns]
    beside = {
        "turn_scores": turns,
        "tool_rewards": [{"calc": x / 10} for x in r[:, 1]],
        "num_turns": [*map(len, turns)],
    }
    log = {"input": d.keys, "output": ["x"] * 288, "gts": ["7"] * 288, "score": score.tolist(), "step": d.step.tolist()}
    log = pl.DataFrame(log | {"acc": r[:, 0].tolist(), "tool_used": r[:, 1].tolist()} | beside).to_dicts()
    w = fitted(r, score, d.keys)
    of_sums = shares(*grpo(r, w, d.keys))
    truth = Truth(("acc", "tool_used"), groups=36, weights=tuple(w), shares=of_sums, within=0.01)
    says = (r"[\d.]+ % of the score’s variance is in no column", "turn_scores")
    return Case({"1.jsonl": lines(*log)}, truth._replace(says=says))
