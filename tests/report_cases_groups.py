"""Logs as people have them, the second half of report_cases: groups, what became of advantages, and shapes of files."""

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
    """PrimeIntellect-ai/prime-rl#2590: groups by (env_name, example_id), whose failed rollouts are dropped.

    Each environment counts its examples from 0; groups hold 1 to 8; the advantage is centred, and 0 in a group of one.
    Truth: 48 groups of a step, an environment and an example; GRPO without std, 1 : 0.5.
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
    """PrimeIntellect-ai/prime-rl#600: [problem_1, problem_2, …] · rollouts, but statistics over rows in a row.

    Blocks of 8 rows hold six prompts. Truth: GRPO over these blocks, 36 of them, reproduces; that every block mixes
    prompts is an error of the run.
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
    """Own construction after PrimeIntellect-ai/prime-rl#600: the same order, with statistics by problem, no id logged.

    Six prompts a step: the group of a row is its place modulo 6. Truth: 36 groups of 8, GRPO, 1 : 0.5.
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
    """THUDM/slime#275 (a sample's reward may be a dict), #1918 (group_index, uneven groups); dumps as JSON lines.

    A file per rollout, no step in it; group_index counts from 0 in each, groups hold 3 to 8; rewards in an object.
    Truth: 36 groups, not 6; GRPO, 1 : 0.5; no prompt is known to come twice.
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
    """microsoft/agent-lightning#445 (each (data_id, rollout_id) counts once), radixark/miles#1325: a row per turn.

    The rows of a rollout, 1 to 4 turns, copy its rewards and its advantage; statistics have one row per rollout.
    Truth: 36 groups of 4 rollouts, GRPO, 1 : 0.5, with shares over the rollouts.
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
    """NVIDIA-NeMo/RL#3959, #4013: groups by the identity of the draw, while the log has the prompt's text alone.

    In each step the first prompt is drawn twice: 16 rows in a row have its text. Truth: 40 groups of 8 rows, GRPO,
    1 : 0.5; by the text the first 16 rows would be one group, which reproduces nothing.
    """
    d = drawn(16, steps=8, prompts=5)
    a, parts = grpo(d.r, W, d.keys)
    texts = [f"s{step} question {max(p, 1)}" for step, p in zip(d.step, d.prompt, strict=True)]
    truth = Truth(NAMES, "grpo", 40, weights=tuple(W), shares=shares(a, parts), never="Nothing known")
    log = {"step": d.step, "prompt": texts, "correct": d.r[:, 0], "style": d.r[:, 1], "advantage": in_float32(a)}
    return Case({"log.jsonl": table("jsonl", **log)}, truth)


@case
def prompts_of_any_sizes_without_advantages() -> Case:
    """NVIDIA-NeMo/labs-molt#48: groups that lost rollouts are used as they are; no advantages logged.

    Prompts come in whole runs of 3 to 9 rows. Truth: each is a group, 40 of them; that sizes differ is no fault.
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
    """NVIDIA-NeMo/RL#724, #3957 (sample_mask of filtered samples): what did not end is in the statistics, not trained.

    truncated rows have advantage 0. Truth: GRPO over all rows, 1 : 0.5; truncated and sample_mask are no rewards; the
    number of rows with 0 although rewards differ is said.
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
    """PrimeIntellect-ai/prime-rl#1048, huggingface/trl#3989 (GFPO): of 8 rollouts the 4 shortest count.

    Advantages are centred over the four that are kept, the others have 0. Truth: GRPO without std over the kept, with
    1 : 0.5; 144 rows have 0 although rewards differ.
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
    """huggingface/trl#7242, verl-project/verl#7894 (RAGEN-2's filter): the groups of lowest variance are masked.

    In 14 of 36 groups of TRL's log every advantage is 0 although the rewards differ. Truth: TRL's GRPO over the others,
    1 : 0.5; the 14 groups are said, and not as groups whose rewards are equal.
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
    """modelscope/ms-swift#5619 (logged after the filter), NovaSky-AI/SkyRL#2104 (a filter by the sum under GDPO).

    Groups whose sum is constant are dropped after GDPO's step over the batch; the log has the others. Truth: GDPO,
    1 : 0.5, its last step over rows of which some are missing: a factor for each step.
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
    """PrimeIntellect-ai/prime-rl#2762 (rollouts below a threshold of the advantage are dropped); own construction.

    Centred advantages; rows at 0 or below are gone from the log. Truth: nothing adds up to 0 in any group, as rows of
    every group are missing; this comes first, and no method is named as certain.
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
    """huggingface/trl#5902: rewards may be None; the baseline is the mean of the other rows that have one.

    A tenth of the rows has no reward, and advantage 0. Truth: RLOO without std over the others, 1 : 0.5.
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
    """amazon-science/reskill#12: GRPO, and then whitened over the batch (masked_whiten); groups of several sizes.

    Truth: GRPO, 1 : 0.5, and that a step over the batch came after it; the shares are those of GRPO.
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
    """wandb/wandb#6951 (pd.DataFrame(run.scan_history()).to_csv): a nameless index, _step, _runtime, _timestamp.

    TRL's GDPO, its advantages rounded to 3 decimals. Truth: two rewards, no clock and no count; GDPO, 1 : 0.5.
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
    """Own construction after a public field `reward_components: str  # json` of a rollout (found by its text alone).

    A CSV whose cells hold the rewards as JSON text; advantages rounded to bfloat16. Truth: GRPO, 1 : 0.5.
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
    """pytorch/torchtitan#3602: RolloutGroup(group_id, rollouts), each rollout with reward, reward_breakdown, advantage.

    A line per group; the rewards are an object two levels down. Truth: 36 groups, GRPO of the sum, 1 : 0.5.
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
    """Own construction after verl-project/verl#916 (Dataset.from_dict(…).to_parquet): a row per prompt, lists in it.

    prompt, responses, correct, style, advantages: each list has a value per answer, 3 to 8 of them. Truth: 36 groups,
    GRPO, 1 : 0.5.
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
