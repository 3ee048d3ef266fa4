"""The audit of a training log, by hand: read it, find the method, and say what each reward did to the update.

The log is a folder of Parquet files as TRL writes them, with a row per answer: step, prompt, completion, one column per
reward, advantage. `gdpo audit` finds the same numbers; it reads other logs too, and knows other trainers' conventions.

.venv/bin/python examples/audit_by_hand.py data/samples/pays_5_grpo
"""

import sys
from pathlib import Path

import numpy as np
import polars as pl

EPS = 1e-4  # TRL adds it to each standard deviation.

# --- 1. Read ----------------------------------------------------------------------------------------------------------


def read(folder):
    """Return the names of the rewards, and of each answer its rewards, its advantage, its group and its step."""
    log = pl.read_parquet(sorted(Path(folder).glob("*.parquet")))
    names = [name for name in log.columns if name not in ("step", "prompt", "completion", "advantage")]
    # Two neighbouring groups may have the same prompt, so a run of equal prompts may hold several groups.
    runs = log.select(pl.struct("step", "prompt").rle().struct.field("len")).to_series().to_numpy()
    group = np.arange(len(log)) // np.gcd.reduce(runs)
    rewards, step = log.select(names).to_numpy().astype(float), log["step"].rle_id().to_numpy()
    return names, rewards, log["advantage"].to_numpy(), group, step


# --- 2. The three methods, each as parts: what each reward adds to the advantage of each answer -----------------------


def centred(x, ids):
    """Return x less the mean of all rows that have the same id; ids count from 0."""
    sums = np.array([np.bincount(ids, column) for column in x.T]).T
    return x - (sums / np.bincount(ids)[:, None])[ids]


def std(x, ids):
    """Return the standard deviation of the rows that have the same id, for each row."""
    squares = np.array([np.bincount(ids, column) for column in (centred(x, ids) ** 2).T]).T
    return np.sqrt(squares / (np.bincount(ids)[:, None] - 1))[ids]


def parts_of(method, r, w, group, step):
    """Return (answers, rewards) what each reward adds to each advantage; the parts of an answer add up to it.

    The rewards r are (answers, rewards), the weights w (rewards,), group and step (answers,).
    """
    if method == "grpo":  # A = (s − mean_G s) / std_G s, with s = Σ w r
        return centred(w * r, group) / (std((r @ w)[:, None], group) + EPS)
    if method == "grpo_no_std":  # A = s − mean_G s
        return centred(w * r, group)
    z = centred(r, group) / (std(r, group) + EPS)  # GDPO: A = (s − mean_B s) / std_B s, with s = Σ w z
    return centred(w * z, step) / (std((z @ w)[:, None], step) + EPS)


# --- 3. Find the method: solve for the weights that each would need, compute, and compare with the log ----------------


def weights_for(method, r, advantage, group, step):
    """Return the weights with which a method would come nearest to the logged advantages; the first one is 1.

    Where a method divides all answers by one number, its advantages are a weighted sum of terms that are known. GRPO
    does so inside a group, GDPO inside a step. So there least squares finds the weights, up to that number.
    """
    terms = centred(r, group) / (std(r, group) + EPS if method == "gdpo" else 1)
    units = {"grpo": group, "grpo_no_std": np.zeros_like(group), "gdpo": step}[method]
    smallest = [np.linalg.svd(terms[units == unit], compute_uv=False)[-1] for unit in range(units[-1] + 1)]
    clearest = units == np.argmax(smallest)  # the rewards differ most from each other in this group or step
    w = np.linalg.lstsq(terms[clearest], advantage[clearest])[0]
    return w if method == "grpo_no_std" else w / w[0]


def find_method(r, advantage, group, step):
    """Return the method that comes nearest to the log, its weights, and how far it is off at most."""
    tried = {}
    for method in ("grpo", "grpo_no_std", "gdpo"):
        w = weights_for(method, r, advantage, group, step).round(3)
        tried[np.abs(parts_of(method, r, w, group, step).sum(1) - advantage).max()] = method, w
    return *tried[min(tried)], min(tried)


# --- 4. What each reward did ------------------------------------------------------------------------------------------


def shares(parts):
    """Return the share of the update that each reward makes: Σ a_k A / Σ A², with the parts a_k of the advantage A."""
    return parts.T @ parts.sum(1) / (parts.sum(1) ** 2).sum()


def pushes(parts, r, group):
    """Return how much the update raises each reward: the correlation of advantage and reward inside groups."""
    a, d = parts.sum(1), centred(r, group)
    return a @ d / np.sqrt((a**2).sum() * (d**2).sum(0))


def dominating(share, w):
    """Return the indices of rewards with 60 % of the update or more, and twice as much as their weight asks for."""
    asked = w**2 / (w**2).sum()
    return [k for k in range(len(w)) if share[k] >= 0.6 and share[k] >= 2 * asked[k]]


def main(folder="data/samples/pays_5_grpo"):
    names, r, advantage, group, step = read(folder)
    method, w, off = find_method(r, advantage, group, step)
    print(f"{method} with the weights {w.tolist()} is nearest to the logged advantages: at most {off:.0e} away.")
    if not off <= 1e-4:  # the logged advantages are rounded to seven digits or so
        sys.exit("So none of the three methods made this log, and nothing is known of what its rewards did.")
    for shown in dict.fromkeys([method, "gdpo"]):  # as it ran, and under GDPO
        parts = parts_of(shown, r, w, group, step)
        share = shares(parts)
        print(pl.DataFrame({"reward": names, f"share under {shown}": share, "push": pushes(parts, r, group)}))
        for k in dominating(share, w):
            print(f"{names[k]} accounts for {share[k]:.0%} of the update.")


if __name__ == "__main__":
    main(*sys.argv[1:])
