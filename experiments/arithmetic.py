"""A tiny model that adds, under TRL's GRPOTrainer with three rewards; `python -m experiments.arithmetic --out FOLDER`.

It writes data/samples/arithmetic/completions.parquet, a sample of Your run: the answers to sums such as `37+45=`, with
the rewards of the usual run on mathematics, 1 or 0 each: `format`, `correct`, `integer`. The warm-up imitates answers
with faults, so that each reward has room; then TRL trains, and what it logs is put into one file.
"""

import argparse
import os
import re
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import torch

SAMPLE = Path(__file__).resolve().parent.parent / "data" / "samples" / "arithmetic" / "completions.parquet"
PIECES = ("<answer>", "</answer>", *"0123456789+=.")  # a token each
LARGEST = 25  # of a summand
FAULTS = {"value": 0.5, "unclosed": 0.4, "decimal": 0.4}  # in the answers that the warm-up imitates
WARM_UP, BATCH, RATE, SEED = 1800, 256, 3e-3, 0
STEPS, GROUP, PROMPTS, LEARNING_RATE = 60, 8, 8, 1e-4
ANSWER = re.compile(r"<answer>(\d+(?:\.\d+)?)(</answer>)?")


def answer(total: int, generator: np.random.Generator) -> list[str]:
    """The pieces of an answer with faults, drawn independently of each other."""
    faults = {name for name, rate in FAULTS.items() if generator.random() < rate}
    number = str(total if "value" not in faults else int(generator.integers(2 * LARGEST)))
    number += f".{generator.choice((0, 5))}" if "decimal" in faults else ""
    return ["<answer>", *number, *([] if "unclosed" in faults else ["</answer>"])]


def read_marks(prompt: str, text: str) -> tuple[float, float, float]:
    """Format, correct and integer of an answer, 1 or 0: the whole form; the value, however written; a whole number.

    >>> read_marks("2+3=", "<answer>5</answer>"), read_marks("2+3=", "<answer>5.0"), read_marks("2+3=", "5")
    ((1.0, 1.0, 1.0), (0.0, 1.0, 0.0), (0.0, 0.0, 0.0))
    """
    found = ANSWER.fullmatch(text)
    if not found:
        return 0.0, 0.0, 0.0
    first, second = prompt.rstrip("=").split("+")
    right = float(found[1]) == int(first) + int(second)
    return float(found[2] is not None), float(right), float("." not in found[1])


def reward(k: int, name: str) -> Any:
    """One reward function, as TRL calls it."""

    def function(prompts: list[str], completions: list[str], **_: Any) -> list[float]:
        return [read_marks(*pair)[k] for pair in zip(prompts, completions, strict=True)]

    function.__name__ = name
    return function


def warmed_up(words: Any) -> Any:
    """A new model of some 0.2 million parameters that imitates answers with faults."""
    from transformers import LlamaConfig, LlamaForCausalLM, set_seed

    set_seed(SEED)
    sizes = {"hidden_size": 96, "intermediate_size": 192, "num_hidden_layers": 2, "num_attention_heads": 4}
    marks = {"pad_token_id": words.pad_token_id, "eos_token_id": words.eos_token_id, "bos_token_id": None}
    config = LlamaConfig(vocab_size=len(words), max_position_embeddings=64, tie_word_embeddings=True, **sizes, **marks)
    model, generator = LlamaForCausalLM(config), np.random.default_rng(SEED)
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=0.0)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, RATE, total_steps=WARM_UP)
    for step in range(1, WARM_UP + 1):
        rows, labels = [], []
        for first, second in generator.integers(LARGEST, size=(BATCH, 2)):
            prompt = words.encode(f"{first}+{second}=")
            tokens = [*words.convert_tokens_to_ids(answer(int(first + second), generator)), words.eos_token_id]
            rows.append(torch.tensor(prompt + tokens))
            labels.append(torch.tensor([-100] * len(prompt) + tokens))
        ids = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=words.pad_token_id)
        aims = torch.nn.utils.rnn.pad_sequence(labels, batch_first=True, padding_value=-100)
        loss = model(input_ids=ids, attention_mask=(ids != words.pad_token_id).long(), labels=aims).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        if step % 100 == 0:
            print(f"warm-up, step {step}: loss {loss.item():.3f}", flush=True)
    return model


def train(out: Path) -> None:
    """Warm up, train under GRPO, and write what TRL logged."""
    from datasets import Dataset
    from transformers import set_seed
    from trl import GRPOConfig, GRPOTrainer

    from experiments.model import tokenizer

    torch.set_num_threads(1)
    words = tokenizer(PIECES)
    model = warmed_up(words)
    set_seed(SEED)
    args = GRPOConfig(
        output_dir=str(out),
        num_generations=GROUP,
        per_device_train_batch_size=GROUP * PROMPTS,
        max_completion_length=10,
        max_steps=STEPS,
        learning_rate=LEARNING_RATE,
        lr_scheduler_type="constant",
        multi_objective_aggregation="sum_then_normalize",
        gradient_checkpointing=False,
        bf16=False,
        logging_steps=1,
        log_completions=True,
        num_completions_to_print=0,
        report_to="none",
        save_strategy="no",
        disable_tqdm=True,
        use_cpu=True,
        seed=SEED,
    )
    sums = np.random.default_rng(SEED + 1).choice(LARGEST**2, STEPS * PROMPTS, replace=False)
    trainer = GRPOTrainer(
        model=model,
        reward_funcs=[reward(k, name) for k, name in enumerate(("format", "correct", "integer"))],
        args=args,
        train_dataset=Dataset.from_dict({"prompt": [f"{one // LARGEST}+{one % LARGEST}=" for one in sums.tolist()]}),
        processing_class=words,
    )
    trainer.train()
    files = sorted((out / "completions").glob("*.parquet"))
    SAMPLE.parent.mkdir(parents=True, exist_ok=True)
    pl.concat(map(pl.read_parquet, files)).write_parquet(SAMPLE, compression="zstd", compression_level=19)


def main() -> int:
    """Make the sample again, and say how long that took."""
    parser = argparse.ArgumentParser(prog="python -m experiments.arithmetic", description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True, help="folder of what the trainer writes")
    os.environ.setdefault("HF_HUB_OFFLINE", "1")  # nothing is downloaded
    start = time.monotonic()
    train(parser.parse_args().out)
    print(f"{SAMPLE}: {SAMPLE.stat().st_size / 1000:.0f} kB after {time.monotonic() - start:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
