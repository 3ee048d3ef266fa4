"""Twenty-six logs after reports of people who had trouble with them: groups, and what counts as a reward.

As in report_cases, a docstring says what is special about a log, names its source, and says what the report has to find
out. Logs about what became of advantages, and about shapes of files, are in report_cases_reported_shapes. docs/logs.md
has a table of all of them, with what the report said of each before and says now.
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
    """Return a log with an id of the prompt, these columns, and advantages in float32 unless they are None."""
    logged = {} if advantages is None else {"advantage": in_float32(advantages)}
    return {"rows.jsonl": table("jsonl", step=d.step, prompt_id=d.keys, **columns, **logged)}


def named(r, names=NAMES) -> dict:
    """Return the columns of a matrix of rewards, (rows, rewards), by these names."""
    return dict(zip(names, r.T, strict=True))


# --- groups -----------------------------------------------------------------------------------------------------------


@case
def groups_of_one() -> Case:
    """Return a log in which each trajectory is a group of its own, so that nothing is centred and the advantage is
    correct + 0.5 format. After rllm-org/rllm#605 and #924.

    The report has to say first that the advantages add up to 0 in no group, and to name these weights.
    """
    d = drawn(41, prompts=10, size=4)
    r = np.c_[d.r[:, 0], d.draw.random(len(d.step)) < 0.5]
    ids = [f"{step}-{i}" for i, step in enumerate(d.step)]
    log = log_of(d, r @ W / (1 + 1e-6), trajectory_uid=ids, correct=r[:, 0], format=r[:, 1])
    never = f"{UNKNOWN}|No finding asks for a change"
    return Case(log, Truth(("correct", "format"), weights=tuple(W), first="add up to 0 in no group", never=never))


def drawn_by_turn() -> tuple[dict[str, bytes], Truth]:
    """Return a log with a row per turn, each with rewards of its own, normalised by prompt and turn; and the truth
    about it. The later turns of a prompt have fewer rows.
    """
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
    """Return a log that was normalised by prompt and turn, two columns that nobody names to the reader. After
    verl-project/verl#7244, wangyu-ustc/Mem-alpha#14 and rllm-org/rllm#222.

    The report has to try the pair of columns, and to find GRPO with weights 1 : 0.3.
    """
    log, truth = drawn_by_turn()
    return Case(log, truth._replace(says=(r"prompt_id and turn|turn and prompt_id",)))


@case
def groups_by_two_named_columns() -> Case:
    """Return a log that was normalised by prompt and turn, two columns that are named to the reader. The report has to
    find GRPO, and must not say that one of the columns alone fails.
    """
    log, truth = drawn_by_turn()
    return Case(log, truth._replace(never=f"{UNKNOWN}|they are not"), read={"group": ("prompt_id", "turn")})


@case
def a_place_in_the_batch() -> Case:
    """Return a log in which prompt_idx is only an index in the batch, so that it is the same for other prompts in the
    next step. Two files of rollouts stand beside one of metadata, and the reward is a total. After
    allenai/open-instruct, rl_utils.py (RolloutRecord, save_traces).

    The report has to find GRPO with the std over n, and 36 prompts of which none comes twice.
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
    """Return a log from which a fifth of the responses was dropped before the rest was cut into blocks of 8, and the
    truth about it.
    """
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
    """Return a log from which truncated responses were dropped before reshape(-1, 8) made groups. After
    allenai/open-instruct#1794.

    The report has to find GRPO over blocks of 8 rows, with the std over n and weights 1 : 0.25, and to report as an
    error that most blocks mix prompts.
    """
    return Case(*blocks_of_eight())


@case
def blocks_of_a_named_size() -> Case:
    """Return a log that was cut into blocks of 8 after a filter, with the size named to the reader. The report has to
    give the same error as without it.
    """
    log, truth = blocks_of_eight()
    return Case(log, truth, read={"group_size": 8})


@case
def evaluations_of_smaller_groups() -> Case:
    """Return a log in which an evaluation with 2 generations per prompt overwrote the files of steps 4 and 8. After
    huggingface/trl#4458 (num_generations_eval).

    The report has to name these steps first, to find TRL's GRPO with weights 1 : 0.5 in all others, and must not say
    that the run mixes prompts.
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
    """Return a log with eight draws of prompts a step, of which the last repeats the first, so that the trainer had one
    group of 16; and the truth about it.
    """
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
    """Return a log in which a prompt that was drawn twice in a batch is one group for the trainer, while group_id tells
    the draws apart. After NVIDIA-NeMo/RL#3882.

    The report has to find GRPO by the prompt within a step, with weights 1 : 0.5, and to say that by group_id nothing
    is reproduced.
    """
    log, truth = draws_of_which_some_repeat()
    return Case(log, truth._replace(says=(r"column prompt\b", "group_id")))


@case
def merged_draws_by_the_prompt() -> Case:
    """Return a log in which a prompt that was drawn twice is one group for the trainer, with the prompt named to the
    reader. The report has to find groups of several sizes, and its figures have to be right.
    """
    log, truth = draws_of_which_some_repeat()
    return Case(log, truth, read={"group": "prompt"})


# --- rewards ----------------------------------------------------------------------------------------------------------


def product() -> tuple[dict[str, bytes], Truth]:
    """Return a log whose total is a base times a factor of the length, and the truth about it."""
    d = drawn(47)
    reward = d.r[:, 0] * (1 - 0.3 * (1 - d.r[:, 1]))
    a, _ = grpo(reward[:, None], np.ones(1), d.keys)
    never = f"{UNKNOWN}|only the total|--parts"
    log = log_of(d, a, base_reward=d.r[:, 0], length_score=d.r[:, 1], reward=reward)
    return log, Truth(("reward",), "grpo", 36, silent=silent(a, d.keys), never=never)


@case
def a_product_of_parts() -> Case:
    """Return a log with reward = base_reward · (1 − 0.3 (1 − length_score)) and all three columns. After
    NVIDIA-NeMo/RL#3769.

    The report has to find GRPO of reward alone, and to say that base_reward and length_score stand beside it without
    any weighted sum of them making it.
    """
    log, truth = product()
    truth = truth._replace(
        says=("Beside it, the log holds base_reward and length_score",), never=f"{truth.never}|as asked"
    )
    return Case(log, truth)


@case
def a_product_of_parts_that_is_named() -> Case:
    """Return a log whose reward is a product of two other columns, with that reward named to the reader. The report
    must not say that the log holds only a total.
    """
    log, truth = product()
    return Case(log, truth, read={"rewards": "reward"})


@case
def one_part_of_a_product() -> Case:
    """Return a log whose reward is a product of two other columns, of which the reader is told to read only
    base_reward. The report has to say that reward, which was not read, made the advantages.
    """
    log, _ = product()
    truth = Truth(("base_reward",), says=(r"\breward, which was not read",))
    return Case(log, truth, read={"rewards": "base_reward"})


@case
def signs_in_one_source() -> Case:
    """Return a log whose score is 2 acc − 1 in one source, where acc is true or false, and acc in the other; a file per
    step, rows in any order, no advantages. After verl-project/verl#7151 (math_dapo and gsm8k).

    The report has to find that the score is linear in acc inside every group, so that nothing is missing, and 36
    groups.
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
    """Return a log of a score and its squashed form, beside an index and seconds. advantages: whether they are logged;
    without them the report has to ask which of the two is meant.
    """
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
    """Return a log whose reward is a clipped tanh of score, with both logged. After ash-ding/remote-factory-lumen#22
    and akashgit/remote-factory#1381.

    The report has to find GRPO of reward alone, and to say why the index and the seconds are no rewards.
    """
    return squashed(advantages=True)


@case
def a_raw_and_a_squashed_form_without_advantages() -> Case:
    """Return a log whose reward is a clipped tanh of score, without advantages. The report has to ask which of the two
    is meant, and must not offer the index or the seconds.
    """
    return squashed(advantages=False)


def two_of_three() -> tuple[dict[str, bytes], Truth, str]:
    """Return a log of GDPO over two of three rewards, the truth about it, and the shares that equal weights would make,
    as text.
    """
    names, d = ("correctness", "format", "length_reward"), drawn(50, prompts=8)
    r = np.c_[d.r[:, 0], d.draw.random((len(d.step), 2)) < (0.8, 0.5)]
    a, parts = gdpo(r[:, :2], np.ones(2), d.keys, d.step, 1e-6)
    truth = Truth(names[:2], "gdpo", 48, weights=(1, 1), shares=shares(a, parts), dead=dead(r[:, :2], d.keys))
    equal = in_percent(shares(*gdpo(r, np.ones(3), d.keys, d.step, 1e-6)))
    return log_of(d, a, **named(r, names)), truth, equal


@case
def a_reward_that_is_in_no_advantage() -> Case:
    """Return a log in which the third of three rewards is computed and logged, but not added up. After NVlabs/GDPO#2.

    The report has to find GDPO of the other two, with weights 1 : 1, and weight 0 for length_reward.
    """
    log, truth, _ = two_of_three()
    return Case(log, truth._replace(says=("length_reward",)))


@case
def a_weight_that_did_not_run() -> Case:
    """Return a log in which the third of three rewards is not added up, although the caller gives weight 1 for all
    three. The report has to say that the log contradicts these weights, and must not call their shares those that ran.
    """
    log, _, equal = two_of_three()
    truth = Truth(method="gdpo", finding="weights-not-as-given", never=f"as it ran: {equal}")
    return Case(log, truth._replace(says=("length_reward.* 0",)), audit={"weights": [1, 1, 1]})


@case
def a_list_in_the_score() -> Case:
    """Return a log with score = acc + 0.1 tool_used + 0.05 sum(turn_scores), in which turn_scores is a list of 1 to 4
    numbers, beside other lists and objects. After verl-project/verl#4998 (turn_scores and tool_rewards of agent loops).

    The report has to give the shares under the weights of the nearest weighted sum inside groups, 98 and 2 %, and not
    those of 1 : 1, and to say how much of the score is in no column.
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
