"""Teach a new model to answer requests with faults, so that every reward has room; `python -m experiments.warm_up`."""

import sys
import time
from typing import Any

import numpy as np
import torch

from experiments.requests import answer, draw, draw_faults
from experiments.train import CHECKPOINT, missing_extra

RATES = {"correctness": 0.45, "style": 0.5, "conciseness": 0.5}  # of faults in the answers that it imitates
STEPS, BATCH, LEARNING_RATE, SEED = 1200, 128, 2e-3, 0


def batch_of(generator: np.random.Generator, words: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """Token ids and labels of requests with their answers, both (BATCH, length); labels are of the answers alone."""
    rows, labels = [], []
    for _ in range(BATCH):
        request = draw(generator)
        prompt = words.encode(request.text)
        pieces = answer(request, draw_faults(request, RATES, generator), generator)
        tokens = [*words.convert_tokens_to_ids(pieces), words.eos_token_id]
        rows.append(prompt + tokens)
        labels.append([-100] * len(prompt) + tokens)
    length = max(map(len, rows))
    ids = torch.tensor([row + [0] * (length - len(row)) for row in rows])
    return ids, torch.tensor([row + [-100] * (length - len(row)) for row in labels])


def main() -> int:
    """Train and save the checkpoint, and print the loss now and then; 2 with one sentence where TRL is missing."""
    if fault := missing_extra("experiments.warm_up"):
        print(fault, file=sys.stderr)
        return 2
    from experiments.model import new_model, save, tokenizer

    torch.set_num_threads(1)
    words, model, generator = tokenizer(), new_model(SEED), np.random.default_rng(SEED)
    optimizer = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE, weight_decay=0.0)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, LEARNING_RATE, total_steps=STEPS)
    start = time.monotonic()
    for step in range(1, STEPS + 1):
        ids, labels = batch_of(generator, words)
        loss = model(input_ids=ids, attention_mask=(ids != 0).long(), labels=labels).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        if step % 100 == 0:
            print(f"step {step}: loss {loss.item():.3f}, {time.monotonic() - start:.0f} s", flush=True)
    save(model, CHECKPOINT)
    return 0


if __name__ == "__main__":
    sys.exit(main())
