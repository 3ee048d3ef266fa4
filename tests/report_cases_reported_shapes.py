"""Logs after reports, continued from report_cases_reported: what became of advantages, and shapes of files."""

import io
import json
import pickle
import zipfile

import numpy as np
import torch
from logs import lines
from report_cases import (
    Case,
    Truth,
    case,
    dead,
    drawn,
    grpo,
    in_bfloat16,
    in_float32,
    rows_of,
    shares,
    silent,
)
from report_cases_reported import NAMES, UNKNOWN, W, log_of, named

# --- what became of the advantages ------------------------------------------------------------------------------------


@case
def statistics_in_bfloat16() -> Case:
    """Return a log in which the rewards of a reward model, and the mean and std of each group, are in bfloat16. After
    OpenRLHF/OpenRLHF#1334.

    In most groups of 4 the advantages do not add up to 0, and some are beyond the largest z-score, 1.5. The report has
    to say first how many these are, and not only that nothing known makes the advantages.
    """
    d = drawn(61, prompts=16, size=4)
    reward = in_bfloat16(2 + 0.004 * d.draw.normal(size=len(d.step)) * (1 + d.prompt % 8))
    a = np.zeros(len(reward))
    for rows in rows_of(d.keys):
        less = in_bfloat16(reward[rows] - in_bfloat16(in_bfloat16(reward[rows].sum()) / 4))
        spread = in_bfloat16(np.sqrt(in_bfloat16((less**2).sum() / 3)))
        a[rows] = in_bfloat16(less / (spread + 1e-9)) if spread else less
    off, beyond = sum(abs(a[rows].sum()) > 0.02 for rows in rows_of(d.keys)), (abs(a) > 1.501).sum()
    truth = Truth(("rm_score",), groups=96, first=f"In {off} of 96 groups the logged advantages do not add up to 0")
    truth = truth._replace(says=("bfloat16", f"{beyond} logged advantages are beyond"), never=UNKNOWN)
    return Case(log_of(d, a, rm_score=reward), truth)


@case
def residues_of_float32() -> Case:
    """Return a log in which a group whose rewards are all 0.7, say, has advantages other than 0, because its mean in
    float32 is not exactly 0.7 and the rest is divided by a std of almost 0. After verl-project/verl#4597.

    The report has to find GRPO of 0.7 correct + format_score. In groups with constant rewards up to 0.06 is logged: it
    has to say that this is round-off, and must not say that every advantage there is 0.
    """
    f, d = np.float32, drawn(62, prompts=8)
    flat = np.array([d.draw.random() < 0.5 for _ in range(48)])[(d.step - 1) * 8 + d.prompt]
    right = np.where(d.prompt % 3 == 1, d.r[:, 0], d.prompt % 3 == 2)
    style = np.where(d.prompt % 2, np.where(flat, f(0.1), f(0.2)), d.draw.integers(0, 3, 384) * f(0.1)).astype(f)
    total, a = (right.astype(f) * f(0.7) + style).astype(f), np.zeros(384, f)
    for rows in rows_of(d.keys):
        mean = f(0)
        for x in total[rows]:
            mean = f(mean + x)
        less = total[rows] - f(mean / f(8))
        a[rows] = less / f(np.sqrt((less**2).sum(dtype=f) / f(7)) + f(1e-6))
    r, w = np.c_[right, style.astype(float).round(3)], np.array([0.7, 1])
    exact, parts = grpo(r, w, d.keys)
    largest = max(abs(a[rows]).max() for rows in rows_of(d.keys) if np.ptp(r[rows] @ w) < 1e-9)
    assert largest > 0.01
    names = ("correct", "format_score")
    truth = Truth(names, "grpo", 48, weights=tuple(w), shares=shares(exact, parts))
    says, never = (f"{largest:.3f}|{largest:.2g}", "float32|round"), "every advantage is 0(?! but for)"
    return Case(log_of(d, a, **named(r, names)), truth._replace(says=says, never=never))


@case
def negative_advantages_set_to_zero() -> Case:
    """Return a log of centred advantages in which those below 0 were set to 0. After PrimeIntellect-ai/prime-rl#610
    (drgrpo-negclipped).

    The report has to find GRPO without std with weights 1 : 0.5, and to say that the negative advantages are 0 and how
    many rows that concerns.
    """
    d = drawn(63)
    a, parts = grpo(d.r, W, d.keys, scale=False)
    up = a > 0
    truth = Truth(NAMES, "grpo_no_std", weights=tuple(W), shares=shares(a[up], parts[up]), never=UNKNOWN)
    truth = truth._replace(says=("below 0|negative", rf"\b{(~up).sum()}\b"))
    return Case(log_of(d, np.maximum(a, 0), **named(d.r)), truth)


def three_normalised() -> tuple[dict[str, bytes], Truth]:
    """Return a log of GDPO without its batch step, on three rewards, and the truth about it."""
    names, w, d = (*NAMES, "len_score"), np.array([1, 0.5, 1]), drawn(64)
    r = np.c_[d.r, d.draw.integers(0, 5, 288)]
    parts = np.zeros(r.shape)
    for rows in rows_of(d.keys):
        parts[rows] = w * (r[rows] - r[rows].mean(0)) / (r[rows].std(0, ddof=1) + 1e-6)
    a = parts.sum(1)
    truth = Truth(names, "mo_grpo", 36, weights=tuple(w), shares=shares(a, parts), dead=dead(r, d.keys))
    return log_of(d, a, **named(r, names)), truth._replace(never=UNKNOWN)


@case
def gdpo_without_its_last_step() -> Case:
    """Return a log of GDPO without its batch step, which trainers have as a separate flag. After radixark/miles#700,
    axolotl#3353 (gdpo_batch_norm) and prime-rl#1583.

    The report has to find MO-GRPO with weights 1 : 0.5 : 1, where each reward is normalised in its group and no batch
    step follows.
    """
    return Case(*three_normalised())


@case
def gdpo_asked_for_without_its_last_step() -> Case:
    """Return a log of GDPO without its batch step, where GDPO was meant to run. The report has to say first that the
    batch step is missing, and must not say that GDPO has to be switched on.
    """
    log, truth = three_normalised()
    truth = truth._replace(finding="method-not-as-asked", never="Switch GDPO on", first="last step|batch")
    return Case(log, truth, audit={"asked": "gdpo"})


@case
def placeholders_of_failed_rollouts() -> Case:
    """Return a log in which failed rollouts stay as rows of zeros whose column `valid` is false. After
    areal-project/AReaL#1559 and agentcore-rl-toolkit#122.

    The report has to take valid for a mask and not for a reward, to find GRPO over the valid rows with weights 1 : 0.5,
    and to say how many rows are masked.
    """
    d = drawn(65)
    valid = d.draw.random(288) > 0.12
    a, parts = np.zeros(288), np.zeros((288, 2))
    a[valid], parts[valid] = grpo(d.r[valid], W, np.array(d.keys)[valid])
    log = log_of(d, a, **named(d.r * valid[:, None]), valid=valid)
    truth = Truth(NAMES, "grpo", 36, int(valid.sum()), weights=tuple(W), shares=shares(a, parts))
    return Case(log, truth._replace(says=(rf"\b{(~valid).sum()}\b.*valid", "do not count in the statistics")))


@case
def kl_in_the_advantages() -> Case:
    """Return a log of GRPO to whose advantages 0.05 · (mean of kl over the batch − kl) was added, with kl as a column.
    After NovaSky-AI/SkyRL#1262.

    The report has to find GRPO with weights 1 : 0.5 and then kl with 0.05, instead of an unknown method.
    """
    d = drawn(66)
    a, parts = grpo(d.r, W, d.keys)
    of_grpo, kl = shares(a, parts), d.draw.gamma(2, 1.5, 288).round(4)
    for rows in rows_of(d.step):
        a[rows] += 0.05 * (kl[rows].mean() - kl[rows])
    truth = Truth(NAMES, groups=36, weights=tuple(W), shares=of_grpo, first=r"\bkl\b", never=UNKNOWN)
    return Case(log_of(d, a, **named(d.r), kl=kl), truth._replace(says=(r"GRPO.*0\.05 × \(kl",)))


# --- shapes -----------------------------------------------------------------------------------------------------------


@case
def components_in_an_object() -> Case:
    """Return a log with a line per rollout whose reward is the sum of the numbers in an object reward_components;
    without advantages or steps. After NVIDIA-NeMo/Gym#1525 (_ng_task_index).

    The report has to find three rewards of weight 1, 12 tasks of 16 rollouts, and GRPO's shares.
    """
    names, d = ("correctness", "schema_valid", "format"), drawn(67, steps=1, prompts=12, size=16)
    r = np.c_[d.r[:, 0], d.draw.random((192, 2)) < (0.8, 0.5)]
    rows = [
        {"responses_create_params": {"input": [{"role": "user", "content": f"weather {d.prompt[i]}"}]}}
        | {"response": {"id": "r", "output": [{"type": "message"}], "usage": {"output_tokens": 10 + i % 7}}}
        | {"reward": float(r[i].sum()), "reward_components": dict(zip(names, r[i].tolist(), strict=True))}
        | {"_ng_task_index": int(d.prompt[i]), "_ng_rollout_index": i % 16}
        for i in range(192)
    ]
    truth = Truth(names, groups=12, weights=(1, 1, 1), shares=shares(*grpo(r, np.ones(3), d.keys)))
    return Case({"rollouts.jsonl": lines(*rows)}, truth._replace(dead=dead(r, d.keys)))


@case
def summaries_of_tinker() -> Case:
    """Return a log with a folder per iteration, in which total_reward is correct + 0.1 (format − 1), the parts are in
    steps[].metrics, and files of evaluations lie beside. After thinking-machines-lab/tinker-cookbook,
    rollout_logging.py.

    The report has to find two rewards with weights 1 : 0.1 and 36 groups, to give the shares of centring alone, as the
    trainer does it, and to leave out the evaluations.
    """
    d, log = drawn(68), {"metrics.jsonl": lines(*({"step": n, "reward": 0.3} for n in range(6))), "config.json": b"{}"}
    r, w = np.c_[d.r[:, 0], d.draw.random(288) < 0.8].astype(float), np.array([1, 0.1])
    for step, rows in enumerate(rows_of(d.step)):
        summaries = [
            {
                "schema_version": 1,
                "split": "train",
                "iteration": step,
                "group_idx": int(d.prompt[i]),
                "traj_idx": int(i % 8),
            }
            | {"traj_idx": int(i % 8), "total_reward": r[i] @ w - 0.1, "final_reward": 0.0, "trajectory_metrics": {}}
            | {"steps": [{"reward": r[i] @ w - 0.1, "metrics": {"format": r[i, 1], "correct": r[i, 0]}, "logs": {}}]}
            for i in rows
        ]
        folder = f"iteration_{step:06d}"
        log[f"{folder}/train_rollout_summaries.jsonl"] = lines(*summaries)
        log[f"{folder}/train_logtree.json"] = b'{"title": "RL Iteration", "children": []}'
        if step % 3 == 0:
            log[f"{folder}/eval_gsm8k_rollout_summaries.jsonl"] = lines(*(s | {"split": "test"} for s in summaries[:3]))
    a, parts = grpo(r, w, d.keys, scale=False)
    truth = Truth(("correct", "format"), None, groups=36, responses=288, weights=tuple(w), shares=shares(a, parts))
    truth = truth._replace(under="grpo_no_std", dead=dead(r, d.keys), says=("2 files of evaluations",))
    return Case(log, truth, on_disk="")


@case
def a_line_of_lists_per_step() -> Case:
    """Return a log with a file per step, whose single line is an object of lists with a value per response. After
    alibaba/ROLL, rlvr/utils.py.

    The report has to find one total, scores, and by the ids of a step 36 groups of 8.
    """
    d, log = drawn(69), {}
    for step, rows in enumerate(rows_of(d.step)):
        of_all = {"global_step": step, "difficulty": "0", "tag": "math", "messages": "[]", "responses": "a"}
        lists = {name: [value] * 48 for name, value in of_all.items()} | {"id": [d.keys[i] for i in rows]}
        lists |= {"prompt": [f"问 {d.keys[i]}" for i in rows], "scores": d.r[rows, 0].tolist()}
        log[f"rollout_dump_data.step_{step}.jsonl"] = lines(lists)
    a, _ = grpo(d.r[:, :1], np.ones(1), d.keys)
    return Case(log, Truth(("scores",), groups=36, responses=288, silent=silent(a, d.keys)))


@case
def a_line_per_group_with_tokens() -> Case:
    """Return a log with a line per group that holds tokens, masks, scores and messages; advantages are null. After
    NousResearch/atropos, envs/base.py (ScoredDataGroup).

    The report has to find one total with a value per answer and none per token, and 40 groups of 8.
    """
    d = drawn(70, steps=1, prompts=40)
    groups = [
        {"tokens": [[7] * (4 + i % 5) for i in rows], "masks": [[-100, -100, *[7] * (2 + i % 5)] for i in rows]}
        | {"scores": (2 * d.r[rows, 0] - 1).tolist(), "advantages": None, "ref_logprobs": None, "overrides": None}
        | {"messages": [[{"role": "user", "content": d.keys[i]}, {"role": "assistant", "content": "a"}] for i in rows]}
        for rows in rows_of(d.keys)
    ]
    a, _ = grpo(d.r[:, :1], np.ones(1), d.keys)
    truth = Truth(("scores",), groups=40, responses=320, silent=silent(a, d.keys))
    return Case({"groups.jsonl": lines(*groups)}, truth)


def episodes_of_prime_rl() -> tuple[dict[str, bytes], np.ndarray, list[str], np.ndarray]:
    """Return a log of episodes in which two groups of 8 in each step were filtered out, the rewards, (episodes, 2), the
    group of each episode, and whether it was trained on.
    """
    d, log = drawn(71, prompts=8), {}
    kept = d.prompt < 6
    same = d.draw.random((6, 8))[d.step - 1, d.prompt] < 0.5
    r = np.where(kept[:, None], np.c_[d.r[:, 0], d.draw.random(384) < 0.7], np.c_[same, np.ones(384)])
    for step, rows in enumerate(rows_of(d.step), 1):
        episodes = {}
        for i in rows:
            task, rewards = f"t{step}-{d.prompt[i]}", zip(("correct", "format"), r[i], (1.0, 0.25), strict=True)
            trace = {"agent": {"name": "agent", "trainable": True}, "reward": r[i] @ (1, 0.25), "nodes": []}
            trace |= {"rewards": {name: {"score": x, "weight": w} for name, x, w in rewards}, "metrics": {"turns": 1.0}}
            episodes[i] = {"id": f"e{i}", "task": {"key": task, "data": {"id": task}}, "group": {"id": f"g{task}"}}
            episodes[i] |= {"run": {"type": "train", "work": {"type": "train", "step": step}}, "traces": [trace]}
        folder = f"rollouts/step_{step}"
        log[f"{folder}/train/all/traces.jsonl"] = lines(*episodes.values())
        log[f"{folder}/train/effective/traces.jsonl"] = lines(*(e for i, e in episodes.items() if kept[i]))
        if step % 3 == 0:
            log[f"{folder}/eval/all/traces.jsonl"] = lines(*[*episodes.values()][:8])
    return log, r, d.keys, kept


def of_prime_rl(r, keys) -> Truth:
    """Return the truth about a log of episodes from prime-rl, which only centres. r: (episodes, 2); keys: the group of
    each.
    """
    w = np.array([1, 0.25])
    a, parts = grpo(r, w, keys, scale=False)
    truth = Truth(("correct", "format"), groups=len(rows_of(keys)), responses=len(r), under="grpo_no_std")
    figures = {"shares": shares(a, parts), "dead": dead(r, keys), "silent": silent(a, keys)}
    return truth._replace(weights=tuple(w), never="GRPO, assumed|GRPO, taken", **figures)


@case
def effective_episodes() -> Case:
    """Return a log of episodes in the files step_N/{train,eval}/{all,effective}/traces.jsonl. After
    PrimeIntellect-ai/prime-rl, monitors/file.py.

    The report has to read the effective episodes, which are those trained on, and to leave out evaluations. No method
    is logged, so it has to assume the trainer's own, which only centres.
    """
    log, r, keys, kept = episodes_of_prime_rl()
    truth = of_prime_rl(r[kept], [key for key, which in zip(keys, kept, strict=True) if which])
    return Case(log, truth._replace(says=("evaluations", "6 files of all episodes")), on_disk="")


@case
def episodes_in_two_files() -> Case:
    """Return a log of episodes that is read by a glob which matches both files of a step. The report has to count an
    episode that is in both only once.
    """
    log, r, keys, kept = episodes_of_prime_rl()
    truth = of_prime_rl(r, keys)._replace(says=(rf"\b{kept.sum()} episodes.* once",))
    return Case(log, truth, on_disk="rollouts/step_*/train/*/traces.jsonl")


def dumps(*objects) -> dict[str, bytes]:
    """Return a file of torch for each of these objects, as a trainer saves it."""
    log = {}
    for number, saved in enumerate(objects):
        torch.save(saved, content := io.BytesIO())
        log[f"data_{number}.pt"] = content.getvalue()
    return log


@case
def files_of_torch() -> Case:
    """Return a log of .pt files with dicts, lists and numbers. After THUDM/slime#1519 and #618
    (--save-debug-rollout-data DIR/{rollout_id}.pt).

    The files have to be read, with two rewards and 36 groups.
    """
    d = drawn(72)
    samples = [
        {"group_index": int(d.prompt[i]), "index": int(i), "reward": dict(zip(NAMES, d.r[i].tolist(), strict=True))}
        for i in range(288)
    ]
    rollouts = [{"rollout_id": n, "samples": [samples[i] for i in rows]} for n, rows in enumerate(rows_of(d.step))]
    of_grpo = shares(*grpo(d.r, np.ones(2), d.keys))
    return Case(dumps(*rollouts), Truth(NAMES, groups=36, responses=288, shares=of_grpo), on_disk="")


@case
def a_file_of_torch_with_code_in_it() -> Case:
    """Return a .pt file whose samples are objects. It must not be read, and the one line that converts it has to be
    named.
    """
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr("archive/data.pkl", pickle.dumps({"rollout_id": 0}))
    return Case({"data_0.pt": content.getvalue()}, Truth(asks="python -c .*torch.load"), on_disk="")


@case
def a_pickle() -> Case:
    """Return a .pkl file. After NovaSky-AI/SkyRL (dump_data_batch).

    It must not be read, since loading a pickle runs what is in it; the line that converts it has to be named.
    """
    log = {"global_step_1_training_input.pkl": pickle.dumps({"a": 1})}
    return Case(log, Truth(asks="runs what is in it.*python -c .*pickle.load"), on_disk="")


@case
def a_key_of_wandb_per_step() -> Case:
    """Return a log of W&B in which the key holds the step, as in completions_step=12, so that each step is a table of
    its own. After huggingface/trl#6568.

    The report has to find one run of 6 steps, and TRL's GRPO with weights 2 : 1.
    """
    d, log = drawn(73), {}
    a, parts = grpo(d.r, w := np.array([2, 1]), d.keys, 1e-4)
    for step, rows in enumerate(rows_of(d.step), 1):
        columns = ["step", "prompt", "completion", *NAMES, "advantage"]
        data = [[str(step), d.keys[i], "c", *d.r[i].tolist(), in_float32(a[i])] for i in rows]
        path = f"wandb/run-20260801_000000-qqqq2222/files/media/table/completions_step={step}_{step}_{step:020x}"
        log[f"{path}.table.json"] = json.dumps({"columns": columns, "data": data}).encode()
    return Case(log, Truth(NAMES, "grpo", 36, 288, weights=tuple(w), shares=shares(a, parts)), on_disk="")


def a_line_per_group(in_object: bool) -> Case:
    """Return a log with a line per prompt, which holds a list for each reward; in_object: whether these lists are in
    one object.
    """
    d = drawn(74)
    a, parts = grpo(d.r, W, d.keys)
    groups = []
    for rows in rows_of(d.keys):
        lists = {name: values.tolist() for name, values in named(d.r[rows]).items()}
        group = {"step": int(d.step[rows[0]]), "prompt": d.keys[rows[0]], "completions": ["c"] * 8}
        group |= {"rewards": lists} if in_object else lists
        groups.append(group | {"advantages": in_float32(a[rows]).tolist()})
    truth = Truth(NAMES, "grpo", 36, 288, weights=tuple(W), shares=shares(a, parts), dead=dead(d.r, d.keys))
    return Case({"log.jsonl": lines(*groups)}, truth)


@case
def a_line_of_lists_per_group() -> Case:
    """Return a log with a line per prompt, in which each reward is a list. After logs of own trainers ("group_rewards",
    "group_advantages").

    The report has to find a row per answer, one group per line, and GRPO with weights 1 : 0.5.
    """
    return a_line_per_group(in_object=False)


@case
def an_object_of_lists_per_group() -> Case:
    """Return a log with a line per prompt, in which the rewards are an object of lists, {"correct": […], "style": […]}.
    The report has to find the same as with one list per column.
    """
    return a_line_per_group(in_object=True)


@case
def an_object_with_its_total() -> Case:
    """Return a log whose rewards are an object per answer that holds their total as well, with no id of a group but the
    prompt. After logs of own trainers ("rewards": {"accuracy": …, "total": …}).

    The report has to find three rewards with weights 1 : 1 : 0.5, whose sum is the total, and TRL's GRPO of it. A
    reward called length keeps the object's name before its own, because lengths of answers are called so too.
    """
    names, w, d = ("accuracy", "format", "length"), np.array([1, 1, 0.5]), drawn(75)
    r = np.c_[d.r[:, 0], d.draw.random(288) < 0.8, d.r[:, 1]]
    a, parts = grpo(r, w, d.keys, 1e-4)
    rows = [
        {"step": int(d.step[i]), "prompt": d.keys[i], "completion": "c", "advantage": float(in_float32(a[i]))}
        | {"rewards": dict(zip(names, r[i].tolist(), strict=True)) | {"total": r[i] @ w}}
        for i in range(288)
    ]
    truth = Truth(("accuracy", "format", "rewards.length"), "grpo", 36, weights=tuple(w), shares=shares(a, parts))
    return Case({"rows.jsonl": lines(*rows)}, truth)
