"""Logs as the frameworks write them, with random rewards; the advantages are gdpo_core's, rounded to float32."""

import json
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import polars as pl
import torch

import gdpo_core as gc

# A reward is its name and the function that draws its values from (generator, groups, size).
ACCURACY = ("accuracy", lambda draw, groups, size: draw.random((groups, size)) < draw.random((groups, 1)))
FORMAT = ("format", lambda draw, groups, size: draw.random((groups, size)) < 0.8)
LENGTH = ("length_penalty", lambda draw, groups, size: draw.normal(-1, 0.5, (groups, size)))
REWARDS = (ACCURACY, FORMAT, LENGTH)
WEIGHTS = (1.0, 0.5, 2.0)


@dataclass(frozen=True)
class Step:
    """A logged step: its number, rewards (groups, size, rewards), advantages (groups, size) and prompts (groups,)."""

    number: int
    rewards: np.ndarray
    advantages: np.ndarray
    prompts: tuple[str, ...]

    def flat(self) -> tuple[np.ndarray, np.ndarray, list[str]]:
        """Return the rewards, (responses, rewards), the advantages, (responses,), and the prompts, (responses,)."""
        size = self.advantages.shape[1]
        return self.rewards.reshape(-1, self.rewards.shape[-1]), self.advantages.ravel(), repeated(self.prompts, size)


def repeated(prompts, size: int) -> list[str]:
    """Return a list in which each prompt stands `size` times in a row."""
    return [prompt for prompt in prompts for _ in range(size)]


def advantages_of(rewards: np.ndarray, method: str = "gdpo", weights=None, convention=gc.TRL) -> np.ndarray:
    """Return advantages, (groups, size), of rewards, (groups, size, rewards), rounded to float32. method: those of
    gdpo_core, and also `grpo_batch_std`.
    """
    if method == "grpo_batch_std":
        centred = gc.grpo_no_std(rewards, weights=weights, convention=convention).numpy()
        w = np.ones(rewards.shape[-1]) if weights is None else np.asarray(weights, float)
        sums = np.nansum(rewards * w, axis=-1)
        spread = np.std(sums[~np.isnan(rewards).all(-1)], ddof=1)
        made = centred / (spread + convention.sum_eps)
    else:
        made = gc.advantages(torch.from_numpy(rewards), method, weights=weights, convention=convention).numpy()
    return made.astype(np.float32).astype(float)


def make_steps(
    steps: int = 4,
    groups: int = 4,
    group_size: int = 8,
    rewards=REWARDS,
    method: str = "gdpo",
    weights=WEIGHTS,
    convention=gc.TRL,
    seed: int = 0,
    missing: float = 0.0,
    same_prompts: str = "",
) -> list[Step]:
    """Return random steps 1, 2, … of a run. rewards: pairs of a name and a function that draws the values. missing: the
    share of rewards that are NaN. same_prompts: "pairs" if every second group has the prompt of the one before, "all"
    for one prompt per step.
    """
    draw, made = np.random.default_rng(seed), []
    for number in range(1, steps + 1):
        r = np.stack([np.asarray(f(draw, groups, group_size), float) for _, f in rewards], axis=-1)
        r = r.astype(np.float32).astype(float)
        if missing:
            r[draw.random(r.shape) < missing] = np.nan
        alike = {"": 1, "pairs": 2, "all": groups}[same_prompts]
        prompts = tuple(f"step {number}, question {g // alike}: what is it?" for g in range(groups))
        made.append(Step(number, r, advantages_of(r, method, weights, convention), prompts))
    return made


def weights_of(options, r: np.ndarray) -> np.ndarray:
    """Return (rewards,) the weights among the options of `make_steps`. r: (responses, rewards)."""
    weights = options.get("weights", WEIGHTS)
    return np.ones(r.shape[1]) if weights is None else np.asarray(weights, float)


def mixed_with_evaluation(step: Step, evaluation: Step) -> Step:
    """Return a step in which an evaluation, normalised as a batch of its own, overwrote the second half of the
    groups.
    """
    half = len(step.rewards) // 2
    return replace(
        step,
        rewards=np.concatenate([step.rewards[:half], evaluation.rewards[half:]]),
        advantages=np.concatenate([step.advantages[:half], evaluation.advantages[half:]]),
        prompts=step.prompts[:half] + evaluation.prompts[half:],
    )


def write_trl(
    folder: Path,
    *,
    chat: bool = False,
    iterations: int = 1,
    evaluated: tuple[int, ...] = (),
    drop_rows: dict[int, int] | None = None,
    one_file: bool = False,
    extra=None,
    drop: tuple[str, ...] = (),
    **options,
) -> list[Step]:
    """Write a log as TRL does, one file OUT/completions/completions_0000N.parquet per step, and return the steps.

    chat: whether prompts and completions are lists of messages. iterations: how often every batch is logged, under
    steps that follow one another. evaluated: the numbers of steps in which an evaluation overwrote the second half of
    the groups. drop_rows: how many rows to leave out at the end of a step, by its number. one_file: whether all steps
    are in one file. extra: further columns, each as a function of the number of rows. drop: columns to leave out.
    options: those of `make_steps`.
    """
    names = [name for name, _ in options.get("rewards", REWARDS)]
    drawn, other = make_steps(**options), make_steps(**options | {"seed": options.get("seed", 0) + 1000})
    drawn = [mixed_with_evaluation(s, o) if s.number in evaluated else s for s, o in zip(drawn, other, strict=True)]
    logged = [replace(step, number=(step.number - 1) * iterations + i + 1) for step in drawn for i in range(iterations)]
    frames = [_trl_frame(step, names, chat, extra or {}).drop(drop) for step in logged]
    frames = [f.head(len(f) - (drop_rows or {}).get(s.number, 0)) for f, s in zip(frames, logged, strict=True)]
    home = Path(folder) / "completions"
    home.mkdir(parents=True, exist_ok=True)
    if one_file:
        pl.concat(frames).write_parquet(home / "completions_00001.parquet")
    else:
        for step, frame in zip(logged, frames, strict=True):
            frame.write_parquet(home / f"completions_{step.number:05d}.parquet")
    return logged


def _trl_frame(step: Step, names, chat: bool, extra: dict) -> pl.DataFrame:
    """Return the table that TRL logs of a step. names: of the rewards; chat: whether prompts and completions are lists
    of messages; extra: further columns, each as a function of the number of rows.
    """
    r, a, prompts = step.flat()
    answers = [(f"answer {i} " * 6)[:40] for i in range(len(a))]
    if chat:
        prompts = [[{"role": "user", "content": prompt}] for prompt in prompts]
        answers = [[{"role": "assistant", "content": answer}] for answer in answers]
    columns = {"step": pl.Series([step.number] * len(a), dtype=pl.Int64), "prompt": prompts, "completion": answers}
    columns |= {name: r[:, k] for k, name in enumerate(names)}
    columns |= {name: make(len(a)) for name, make in extra.items()}
    return pl.DataFrame(columns | {"advantage": a})


def write_verl(folder: Path, *, v1: bool = False, shuffled: bool = True, **options) -> list[Step]:
    """Write a log as verl does, one file DUMP/{step}.jsonl per step with a line per response, and return the steps. v1:
    whether each line has a uid and only the total of the rewards, in order; else the lines are shuffled. options: those
    of `make_steps`.
    """
    drawn = make_steps(**{"convention": gc.PAPER} | options)
    names = [name for name, _ in options.get("rewards", REWARDS)]
    draw = np.random.default_rng(options.get("seed", 0))
    Path(folder).mkdir(parents=True, exist_ok=True)
    for step in drawn:
        r, _, prompts = step.flat()
        score, size = r @ weights_of(options, r), step.advantages.shape[1]
        rows = []
        for i, prompt in enumerate(prompts):
            row = {"input": f"user\n{prompt}\nassistant\n", "output": f"answer {i}", "gts": "4"}
            row |= {"score": float(score[i]), "step": step.number}
            if v1:
                row["uid"] = f"{step.number:02x}_{i // size}_{i % size}_0"
            else:
                row |= {name: float(r[i, k]) for k, name in enumerate(names)}
            rows.append(row)
        order = draw.permutation(len(rows)) if shuffled and not v1 else range(len(rows))
        write_lines(Path(folder) / f"{step.number}.jsonl", [rows[i] for i in order])
    return drawn


def write_ms_swift(folder: Path, *, gen_step: bool = False, args: bool = False, **options) -> list[Step]:
    """Write a log as ms-swift does, OUT/completions.jsonl with a line per step and lists as columns, and return the
    steps. gen_step: whether the step is in that column; args: whether to write an args.json too. options: those of
    `make_steps`.
    """
    drawn = make_steps(**{"convention": gc.MS_SWIFT} | options)
    names = [name for name, _ in options.get("rewards", REWARDS)]
    events = []
    for step in drawn:
        r, a, prompts = step.flat()
        number = {"gen_step": [step.number] * len(a)} if gen_step else {"step": [str(step.number)] * len(a)}
        event = number | {"prompt": prompts, "completion": [f"answer {i}" for i in range(len(a))]}
        event |= {name: r[:, k].tolist() for k, name in enumerate(names)}
        events.append(event | {"advantages": a.tolist()})
    Path(folder).mkdir(parents=True, exist_ok=True)
    write_lines(Path(folder) / "completions.jsonl", events)
    if args:
        scales = {"gdpo": "gdpo", "grpo": "group", "grpo_no_std": "none", "grpo_batch_std": "batch"}
        settings = {"scale_rewards": scales[options.get("method", "gdpo")]}
        settings |= {"num_generations": drawn[0].advantages.shape[1]}
        settings |= {"reward_weights": list(options.get("weights", WEIGHTS) or ())}
        (Path(folder) / "args.json").write_text(json.dumps(settings))
    return drawn


def write_nemo_rl(folder: Path, *, content: str = "parts", as_lists: bool = False, **options) -> list[Step]:
    """Write a log as NeMo-RL does, one file LOG/train_data_step{N}.jsonl per step with a line per response, whose
    values are lists of one; return the steps.

    content: "parts" (one text per message), "messages" (with roles) or "text" (a single text). as_lists: whether a file
    is a single object of lists. options: those of `make_steps`.
    """
    drawn = make_steps(**{"convention": gc.NEMO_RL} | options)
    Path(folder).mkdir(parents=True, exist_ok=True)
    for step in drawn:
        r, a, prompts = step.flat()
        total = r @ weights_of(options, r)
        rows = []
        for i, prompt in enumerate(prompts):
            answer, tokens = f"answer {i}", 3 + i % 5
            said = {
                "parts": [prompt, answer],
                "messages": [{"role": "user", "content": prompt}, {"role": "assistant", "content": answer}],
                "text": f"{prompt}\n{answer}",
            }[content]
            row = {"content": said, "rewards": float(total[i]), "input_lengths": 4 + tokens}
            row |= {"advantages": [float(a[i])] * (4 + tokens) + [0.0] * (5 - i % 5)}
            row |= {"token_loss_mask": [0] * 4 + [1] * tokens + [0] * (5 - i % 5)}
            row |= {"generation_logprobs": [-0.5] * 12, "prev_logprobs": [-0.5] * 12}
            rows.append(row)
        if as_lists:
            rows = [{key: [row[key] for row in rows] for key in rows[0]}]
        else:
            rows = [{key: [value] for key, value in row.items()} | {"idx": i} for i, row in enumerate(rows)]
        write_lines(Path(folder) / f"train_data_step{step.number}.jsonl", rows)
    return drawn


def generic_frame(
    steps: list[Step], names, *, group: bool = True, step: bool = True, advantage: bool = True
) -> pl.DataFrame:
    """Return the steps as one table with a row per response: step, group, a column per reward, and advantage. names: of
    the rewards; group, step, advantage: whether to include that column.
    """
    frames = []
    for s in steps:
        r, a, prompts = s.flat()
        columns = {"step": [s.number] * len(a)} if step else {}
        columns |= {"group": prompts} if group else {}
        columns |= {name: r[:, k] for k, name in enumerate(names)}
        frames.append(pl.DataFrame(columns | ({"advantage": a} if advantage else {})))
    return pl.concat(frames)


def write_lines(path: Path, items: list) -> None:
    """Write each item as a line of JSON, with NaN as Python writes it."""
    path.write_text("".join(json.dumps(item) + "\n" for item in items), encoding="utf-8")
