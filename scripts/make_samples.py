"""Write data/samples/published_answers.zip: verdicts on published answers in the columns of TRL's log. No run made
them.

Each of 20 steps holds 48 prompts, in the order of the benchmark. Each prompt has the verdicts on 12 answers, drawn from
the answers of the 71 model configurations, as rewards: style pays 5 and the others pay 1. The advantages are what TRL's
GRPO makes of these rewards.
"""

import io
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import torch

import gdpo_core as gc
from views.bfcl import draw_models, load_published

ROOT = Path(__file__).resolve().parent.parent
MADE = ROOT / "data" / "samples" / "published_answers.zip"
STEPS, PROMPTS, ANSWERS, SEED = 20, 48, 12, 0
PAYS = {"correctness": 1.0, "style": 5.0, "conciseness": 1.0}  # for a passed mark


def steps() -> Iterator[pl.DataFrame]:
    """Yield the table of each step, with TRL's columns: a row per answer, with the answers to one prompt together."""
    published = load_published(ROOT / "data" / "bfcl_rewards.parquet")
    models = draw_models(published, ANSWERS, SEED)  # (prompts, answers)
    marks = published.rewards(tuple(PAYS)).gather(1, models[..., None].expand(-1, -1, len(PAYS)))
    paid = marks * torch.tensor(list(PAYS.values()))  # (prompts, answers, rewards), float32 as in TRL
    for step in range(STEPS):
        batch = slice(step * PROMPTS, (step + 1) * PROMPTS)
        tasks = [task for task in published.tasks[batch] for _ in range(ANSWERS)]
        yield pl.DataFrame(
            {
                "step": [step + 1] * len(tasks),
                "prompt": tasks,
                "completion": [""] * len(tasks),
                **{name: paid[batch, :, k].flatten().tolist() for k, name in enumerate(PAYS)},
                "advantage": gc.grpo(paid[batch], convention=gc.TRL).flatten().tolist(),
            }
        )


def write(path: Path) -> None:
    """Write a zip of the sample log: a Parquet file for each table that `steps` yields, named as TRL names its logs."""
    with zipfile.ZipFile(path, "w") as packed:
        for number, table in enumerate(steps(), start=1):
            content = io.BytesIO()
            table.write_parquet(content, compression="uncompressed", statistics=False)  # the zip compresses better
            name = zipfile.ZipInfo(f"completions/completions_{number:05d}.parquet")  # dated 1980, whenever it is made
            packed.writestr(name, content.getvalue(), zipfile.ZIP_DEFLATED, compresslevel=9)


if __name__ == "__main__":
    write(Path(sys.argv[1]) if len(sys.argv) > 1 else MADE)
