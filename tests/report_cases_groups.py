"""Logs as people have them, continued from report_cases: groups, what became of the advantages, and shapes of files."""

import json

import numpy as np
import polars as pl
from logs import lines, parquet
from report_cases import (
    Case,
    Truth,
    case,
    dead,
    drawn,
    gdpo,
    grpo,
    in_bfloat16,
    in_float32,
    rows_of,
    shares,
    silent,
    table,
    trl,
)

NAMES = ("correct", "style")
W = np.array([1, 0.5])

# --- groups -----------------------------------------------------------------------------------------------------------


@case
def groups_of_any_size_by_two_columns() -> Case:
    """Return a log whose groups are told apart by the two columns env_name and example_id. Failed rollouts are dropped,
    so that groups hold 1 to 8 rows; the advantage is centred, and 0 in a group of one. After
    PrimeIntellect-ai/prime-rl#2590.

    Each environment counts its examples from 0. The report has to find 48 groups of a step, an environment and an
    example, and GRPO without std with weights 1 : 0.5.
    """
    d = drawn(11, steps=8, sizes=(1, 8))
    a, parts = grpo(d.r, W, d.keys, scale=False)
    log = {"step": d.step, "env_name": np.where(d.prompt < 3, "math", "code"), "example_id": d.prompt % 3}
    log |= {"correct": d.r[:, 0], "style": d.r[:, 1], "advantage": in_float32(a)}
    never = "are wrong|do not match|Check the group size"
    truth = Truth(NAMES, "grpo_no_std", 48, weights=tuple(W), shares=shares(a, parts), never=never)
    return Case({"rollouts.jsonl": table("jsonl", **log)}, truth)


@case
def blocks_of_interleaved_prompts() -> Case:
    """Return a log whose rollouts are ordered [problem 1, problem 2, …] and again from the start, while the trainer
    normalised over 8 rows that follow one another. After PrimeIntellect-ai/prime-rl#600.

    The report has to find that GRPO over 36 such blocks reproduces the advantages, and to report as an error that every
    block mixes prompts.
    """
    d = drawn(12)
    order = np.lexsort((d.prompt, np.tile(np.arange(8), 36), d.step))
    d = d.kept(order)
    block = np.arange(len(d.step)) // 8
    a, parts = grpo(d.r, W, block)
    log = {"step": d.step, "prompt": d.keys, "correct": d.r[:, 0], "style": d.r[:, 1], "advantage": in_float32(a)}
    truth = Truth(
        NAMES,
        "grpo",
        36,
        weights=tuple(W),
        shares=shares(a, parts),
        finding="groups-mix-prompts",
        says=("100 %|36 of 36",),
    )
    return Case({"rollouts.jsonl": table("jsonl", **log)}, truth)


@case
def interleaved_rollouts_without_an_id() -> Case:
    """Return a log whose rollouts are ordered [problem 1, problem 2, …] and again from the start, normalised by
    problem, but without an id of the problem. Own construction after PrimeIntellect-ai/prime-rl#600.

    With six prompts a step, the group of a row is its index modulo 6. The report has to find 36 groups of 8, and GRPO
    with weights 1 : 0.5.
    """
    d = drawn(13)
    d = d.kept(np.lexsort((d.prompt, np.tile(np.arange(8), 36), d.step)))
    a, parts = grpo(d.r, W, d.keys)
    log = {"step": d.step, "correct": d.r[:, 0], "style": d.r[:, 1], "advantage": in_float32(a)}
    return Case(
        {"rollouts.jsonl": table("jsonl", **log)}, Truth(NAMES, "grpo", 36, weights=tuple(W), shares=shares(a, parts))
    )


@case
def a_key_that_begins_anew_in_each_file() -> Case:
    """Return a log with a file per step, in which group_index counts from 0 in each file, groups hold 3 to 8 rows, the
    rewards are in an object, and no column holds the step. After THUDM/slime#275 (a sample's reward may be a dict) and
    #1918 (group_index, uneven groups).

    The report has to find 36 groups and not 6, GRPO with weights 1 : 0.5, and no prompt that comes twice.
    """
    d = drawn(14, sizes=(3, 8))
    a, parts = grpo(d.r, W, d.keys)
    log = {}
    for rows in rows_of(d.step):
        items = [
            {"group_index": int(d.prompt[i]), "index": n, "response": "x", "status": "completed", "advantage": a[i]}
            | {"reward": dict(zip(NAMES, d.r[i].tolist(), strict=True))}
            for n, i in enumerate(rows)
        ]
        log[f"rollouts/{d.step[rows[0]]}.jsonl"] = lines(*items)
    truth = Truth(NAMES, "grpo", 36, weights=tuple(W), shares=shares(a, parts), dead=dead(d.r, d.keys), repeated=0)
    return Case(log, truth)


@case
def one_advantage_in_each_turn() -> Case:
    """Return a log with a row per turn, in which the 1 to 4 turns of a rollout repeat its rewards and its advantage,
    while the trainer's statistics count a rollout once. After microsoft/agent-lightning#445 and radixark/miles#1325.

    The report has to find 36 groups of 4 rollouts, and GRPO with weights 1 : 0.5, with shares over the rollouts.
    """
    d = drawn(15, size=4)
    a, parts = grpo(d.r, W, d.keys)
    rows = np.arange(len(a)).repeat(turns := d.draw.integers(1, 5, len(a)))
    log = {"step": d.step[rows], "data_id": np.array(d.keys)[rows], "rollout_id": [f"r{i}" for i in rows]}
    log |= {"turn_index": np.concatenate([np.arange(n) for n in turns])}
    log |= {"correct": d.r[rows, 0], "style": d.r[rows, 1], "advantage": in_float32(a)[rows]}
    truth = Truth(NAMES, "grpo", 36, weights=tuple(W), shares=shares(a, parts), responses=len(a), says=("rollout_id",))
    return Case({"triplets.jsonl": table("jsonl", **log)}, truth)


@case
def two_draws_of_a_prompt_side_by_side() -> Case:
    """Return a log in which the first prompt of each step is drawn twice and the two draws are two groups, while the
    log holds only the prompt's text. After NVIDIA-NeMo/RL#3959 and #4013.

    The report has to find 40 groups of 8 rows, and GRPO with weights 1 : 0.5. By the text the first 16 rows of a step
    would be one group, which reproduces nothing.
    """
    d = drawn(16, steps=8, prompts=5)
    a, parts = grpo(d.r, W, d.keys)
    texts = [f"s{step} question {max(p, 1)}" for step, p in zip(d.step, d.prompt, strict=True)]
    truth = Truth(NAMES, "grpo", 40, weights=tuple(W), shares=shares(a, parts), never="Nothing known")
    log = {"step": d.step, "prompt": texts, "correct": d.r[:, 0], "style": d.r[:, 1], "advantage": in_float32(a)}
    return Case({"log.jsonl": table("jsonl", **log)}, truth)


@case
def prompts_of_any_sizes_without_advantages() -> Case:
    """Return a log whose groups lost rollouts and hold 3 to 9 rows, without advantages. After NVIDIA-NeMo/labs-molt#48.

    The rows of a prompt stand together, so the report has to find 40 groups, and must not call it a fault that sizes
    differ.
    """
    d = drawn(17, steps=8, prompts=5, sizes=(3, 9))
    log = {
        "step": d.step,
        "prompt": d.keys,
        "completion": ["x"] * len(d.step),
        "correct": d.r[:, 0],
        "style": d.r[:, 1],
    }
    a, parts = grpo(d.r, np.ones(2), d.keys)
    never = "are wrong|Check the group|group size is"
    truth = Truth(
        NAMES, None, 40, shares=shares(a, parts), dead=dead(d.r, d.keys), silent=silent(a, d.keys), never=never
    )
    return Case({"log.jsonl": table("jsonl", **log)}, truth)


# --- what became of the advantages ------------------------------------------------------------------------------------


@case
def masked_when_too_long() -> Case:
    """Return a log in which truncated answers count in the statistics of their group but have advantage 0. After
    NVIDIA-NeMo/RL#724 and #3957 (sample_mask of filtered samples).

    The report has to find GRPO over all rows with weights 1 : 0.5, not to take truncated and sample_mask for rewards,
    and to say how many rows have advantage 0 although rewards differ.
    """
    d = drawn(18)
    a, parts = grpo(d.r, W, d.keys)
    cut = d.draw.random(len(a)) < 0.12
    log = {"step": d.step, "prompt_id": d.keys, "correct": d.r[:, 0], "style": d.r[:, 1], "truncated": cut * 1}
    log |= {"sample_mask": 1 - cut, "advantage": np.where(cut, 0, in_float32(a))}
    truth = Truth(
        NAMES,
        "grpo",
        36,
        weights=tuple(W),
        shares=shares(a[~cut], parts[~cut]),
        within=0.01,
        says=(rf"\b{cut.sum()}\b",),
    )
    return Case({"log.jsonl": table("jsonl", **log)}, truth)


@case
def the_shortest_of_each_group() -> Case:
    """Return a log in which only the 4 shortest of 8 rollouts are trained on: advantages are centred over these, and
    all others are 0. After PrimeIntellect-ai/prime-rl#1048 and huggingface/trl#3989 (GFPO).

    The report has to find GRPO without std over the kept rows, with weights 1 : 0.5, and to say that 144 rows have
    advantage 0 although rewards differ.
    """
    d = drawn(19)
    tokens, kept = d.draw.permutation(len(d.step)) + 50, np.zeros(len(d.step), bool)
    for rows in rows_of(d.keys):
        kept[rows[np.argsort(tokens[rows])[:4]]] = True
    a, parts = np.zeros(len(kept)), np.zeros(d.r.shape)
    a[kept], parts[kept] = grpo(d.r[kept], W, np.array(d.keys)[kept], scale=False)
    log = {"step": d.step, "prompt_id": d.keys, "correct": d.r[:, 0], "style": d.r[:, 1], "completion_tokens": tokens}
    truth = Truth(NAMES, "grpo_no_std", 36, weights=tuple(W), shares=shares(a, parts), says=(r"\b14\d\b|50 %|half",))
    return Case({"log.jsonl": table("jsonl", **log, advantage=in_float32(a))}, truth)


@case
def groups_of_little_variance_masked() -> Case:
    """Return a log of TRL in which every advantage is 0 in the 14 of 36 groups whose sums vary least. After
    huggingface/trl#7242 and verl-project/verl#7894 (RAGEN-2's filter).

    The report has to find TRL's GRPO over the other groups, with weights 1 : 0.5, and to name the 14 groups as ones
    whose rewards do differ.
    """
    d = drawn(20)
    a, parts = grpo(d.r, W, d.keys, 1e-4)
    groups = rows_of(d.keys)
    low = np.concatenate(sorted(groups, key=lambda rows: (d.r[rows] @ W).var())[:14])
    a[low] = parts[low] = 0
    truth = Truth(
        NAMES,
        "grpo",
        weights=tuple(W),
        shares=shares(a, parts),
        within=0.003,
        says=(r"\b14\b|39 %",),
        never="Nothing known",
    )
    return Case(trl(d, NAMES, a), truth)


@case
def gdpo_after_dynamic_sampling() -> Case:
    """Return a log of GDPO from which the groups with a constant sum were dropped after the batch step. After
    modelscope/ms-swift#5619 (logged after the filter) and NovaSky-AI/SkyRL#2104 (a filter by the sum under GDPO).

    The report has to find GDPO with weights 1 : 0.5, whose batch step ran over rows of which some are missing, so that
    each step is off by a factor.
    """
    d = drawn(21, prompts=10, size=6)
    d.r[:, 1] = d.r[:, 1] < 0.9
    a, parts = gdpo(d.r, W, d.keys, d.step)
    kept = np.ones(len(a), bool)
    for rows in rows_of(d.keys):
        kept[rows] = np.ptp(d.r[rows] @ W) > 0
    a, parts, d = a[kept], parts[kept], d.kept(kept)
    truth = Truth(
        NAMES,
        "gdpo",
        len(rows_of(d.keys)),
        weights=tuple(W),
        shares=shares(a, parts),
        says=("factor|missing|dropped|filter",),
    )
    log = {"step": d.step, "prompt_id": d.keys, "correct": d.r[:, 0], "format": d.r[:, 1], "advantage": in_float32(a)}
    return Case({"log.jsonl": table("jsonl", **log)}, truth._replace(rewards=("correct", "format")))


@case
def rows_without_a_gain_dropped() -> Case:
    """Return a log of centred advantages without the rows whose advantage was 0 or less. Own construction after
    PrimeIntellect-ai/prime-rl#2762 (rollouts below a threshold of the advantage are dropped).

    The report has to say that the advantages add up to 0 in no group, and must not name a method as certain.
    """
    d = drawn(22, size=10)
    a, _ = grpo(d.r, W, d.keys, scale=False)
    d, a = d.kept(a > 0), a[a > 0]
    log = {"step": d.step, "prompt_id": d.keys, "correct": d.r[:, 0], "style": d.r[:, 1], "advantage": in_float32(a)}
    return Case(
        {"log.jsonl": table("jsonl", **log)}, Truth(NAMES, says=("add up to 0|sum to 0|mean is not 0|positive",))
    )


@case
def leave_one_out_of_those_that_could_be_scored() -> Case:
    """Return a log in which a tenth of the rows has no reward and advantage 0, and every other row is compared with the
    mean of the other scored rows. After huggingface/trl#5902 (rewards may be None).

    The report has to find RLOO without std over the scored rows, with weights 1 : 0.5.
    """
    d = drawn(23)
    scored = d.draw.random(len(d.step)) > 0.1
    a, parts = np.zeros(len(scored)), np.zeros(d.r.shape)
    a[scored], parts[scored] = grpo(d.r[scored], W, np.array(d.keys)[scored], scale=False)
    for rows in rows_of(d.keys):
        k = scored[rows].sum()
        a[rows], parts[rows] = a[rows] * k / (k - 1), parts[rows] * k / (k - 1)
    r = np.where(scored[:, None], d.r, np.nan)
    return Case(
        trl(d, NAMES, a, r),
        Truth(NAMES, "grpo_no_std", 36, weights=tuple(W), shares=shares(a, parts), says=("RLOO|leave",)),
    )


@case
def normalised_twice() -> Case:
    """Return a log of GRPO whose advantages were then whitened over the batch, with groups of several sizes. After
    amazon-science/reskill#12 (masked_whiten).

    The report has to find GRPO with weights 1 : 0.5, and that a step over the batch came after it; the shares are those
    of GRPO.
    """
    d = drawn(24, sizes=(3, 8))
    a, parts = grpo(d.r, W, d.keys)
    for rows in rows_of(d.step):
        spread = np.sqrt(a[rows].var(ddof=1) + 1e-8)
        a[rows], parts[rows] = (a[rows] - a[rows].mean()) / spread, parts[rows] / spread
    log = {"step": d.step, "uid": d.keys, "correct": d.r[:, 0], "style": d.r[:, 1], "advantage": in_float32(a)}
    truth = Truth(NAMES, "grpo", 36, weights=tuple(W), shares=shares(a, parts), says=("batch|factor|whiten",))
    return Case({"log.jsonl": table("jsonl", **log)}, truth)


# --- shapes -----------------------------------------------------------------------------------------------------------


@case
def a_history_of_wandb_as_csv() -> Case:
    """Return a CSV of TRL's GDPO with a nameless index, _step, _runtime and _timestamp, and with advantages rounded to
    3 decimals. After wandb/wandb#6951 (pd.DataFrame(run.scan_history()).to_csv).

    The report has to find two rewards, none of which is a clock or a count, and GDPO with weights 1 : 0.5.
    """
    d = drawn(25)
    a, parts = gdpo(d.r, W, d.keys, d.step)
    log = {"": np.arange(len(a)), "_step": d.step, "prompt": d.keys, "correct": d.r[:, 0], "style": d.r[:, 1]}
    log |= {"advantage": a.round(3), "_runtime": 31.5 * d.step, "_timestamp": 1767225600.5 + 31.5 * d.step}
    return Case(
        {"history.csv": table("csv", **log)},
        Truth(NAMES, "gdpo", 36, weights=tuple(W), shares=shares(a, parts), never=r"to within \d+\.(?!\d)"),
    )


@case
def json_text_in_cells() -> Case:
    """Return a CSV whose cells hold the rewards as JSON text, with advantages rounded to bfloat16. Own construction
    after a public field `reward_components: str # json` of a rollout, which was found by its text alone.

    The report has to find GRPO with weights 1 : 0.5.
    """
    d = drawn(26)
    a, parts = grpo(d.r, W, d.keys)
    cells = [json.dumps(dict(zip(NAMES, row, strict=True))) for row in d.r.tolist()]
    log = {"step": d.step, "example_id": d.keys, "reward_components": cells, "advantage": in_bfloat16(a)}
    return Case(
        {"rollouts.csv": table("csv", **log)}, Truth(NAMES, "grpo", 36, weights=tuple(W), shares=shares(a, parts))
    )


@case
def objects_of_rollouts_in_a_line_per_group() -> Case:
    """Return a log with a line per group, which holds a list of rollouts, each with its reward, an object of its parts,
    and its advantage. After pytorch/torchtitan#3602 (RolloutGroup).

    The report has to find 36 groups, and GRPO of the sum with weights 1 : 0.5.
    """
    d = drawn(27, sizes=(4, 8))
    a, parts = grpo(d.r, W, d.keys)
    groups = []
    for number, rows in enumerate(rows_of(d.keys)):
        rollouts = [
            {"reward": float(d.r[i] @ W), "reward_breakdown": dict(zip(NAMES, d.r[i].tolist(), strict=True))}
            | {"advantage": float(np.float32(a[i])), "response": "x"}
            for i in rows
        ]
        groups.append({"step": int(d.step[rows[0]]), "group_id": f"g{number}", "rollouts": rollouts})
    return Case({"groups.jsonl": lines(*groups)}, Truth(NAMES, "grpo", 36, weights=tuple(W), shares=shares(a, parts)))


@case
def parquet_of_lists() -> Case:
    """Return a Parquet file with a row per prompt, whose columns are lists with a value for each of 3 to 8 answers. Own
    construction after verl-project/verl#916 (Dataset.from_dict(…).to_parquet).

    The report has to find 36 groups, and GRPO with weights 1 : 0.5.
    """
    d = drawn(28, sizes=(3, 8))
    a, parts = grpo(d.r, W, d.keys)
    groups = [
        {"step": int(d.step[rows[0]]), "prompt": d.keys[rows[0]], "responses": ["x"] * len(rows)}
        | {"correct": d.r[rows, 0].tolist(), "style": d.r[rows, 1].tolist(), "advantages": in_float32(a[rows]).tolist()}
        for rows in rows_of(d.keys)
    ]
    return Case(
        {"rollouts.parquet": parquet(pl.DataFrame(groups))},
        Truth(NAMES, "grpo", 36, weights=tuple(W), shares=shares(a, parts)),
    )
