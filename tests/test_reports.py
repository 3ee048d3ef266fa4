"""Reports on many logs, compared with tests/reports.json: recorded logs, and logs made here from seeds.

`PYTHONPATH=.:tests .venv/bin/python -m test_reports [NAME ...]` adds the reports on new logs, removes those on logs
that are gone, and writes those anew whose names hold a NAME. What changes in that file is what readers of reports will
see. The advantages of the logs that are made here come from benchmarks.recipes and not from gdpo_core.
"""

import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from zlib import crc32

import numpy as np
import polars as pl
import pytest
from fake_logs import Step, generic_frame, write_ms_swift, write_nemo_rl, write_trl, write_verl
from logs import LOGS, frames_of, lines, parquet, write_trackio, write_wandb
from test_logs import LOGGED_METHODS, OF_ANY_TABLE, OF_TRAINERS
from test_schema import VALID

import gdpo_audit as ga
import gdpo_core as gc
from benchmarks.recipes import MAKERS, simulate

ROOT = Path(__file__).parent.parent
EXPECTED = ROOT / "tests" / "reports.json"

# --- made logs --------------------------------------------------------------------------------------------------------


def made(r, recipe="TRL GDPO", weights=None) -> np.ndarray:
    """Return what a recipe makes of rewards, (steps, groups, size, rewards): advantages, (steps, groups, size)."""
    w = np.ones(r.shape[-1]) if weights is None else np.asarray(weights, float)
    return simulate(MAKERS[recipe], [list(step) for step in r], w, np.random.default_rng(0)).reshape(r.shape[:3])


def log(r, advantage=None, *, form="trl", steps=None, **columns) -> dict[str, bytes]:
    """Return a log in memory whose rewards are named a, b, …. r: (steps, groups, size, rewards); form: of the
    framework; columns: further ones, each (steps, groups, size).
    """
    names, a = "abcd"[: r.shape[-1]], np.zeros(r.shape[:3]) if advantage is None else np.asarray(advantage, float)
    prompts = [tuple(f"question {n}, {g}" for g in range(r.shape[1])) for n in range(len(r))]
    logged = [Step(*step) for step in zip(steps or range(1, len(r) + 1), r, a, prompts, strict=True)]
    frame = generic_frame(logged, names, advantage=advantage is not None)
    frame = frame.with_columns(**{name: pl.Series(np.ravel(values)) for name, values in columns.items()})
    if form == "verl":
        frame = frame.rename({"group": "input"}).with_columns(score=pl.sum_horizontal(list(names)))
        return {"1.jsonl": lines(*frame.with_columns(output=pl.lit("x"), gts=pl.lit("4")).to_dicts())}
    if form == "trl":
        frame = frame.rename({"group": "prompt"}).with_columns(completion=pl.lit("x"))
    return {"completions.parquet": parquet(frame)}


def of(r, recipe="TRL GDPO", weights=None, **more) -> dict[str, bytes]:
    return log(r, made(r, recipe, weights), **more)


def random_log(name: str) -> dict[str, bytes]:
    """Return a log of a recipe, with random rewards and weights, and in every third log with groups of random sizes."""
    draw = np.random.default_rng(crc32(name.encode()))
    k, sizes = int(draw.integers(2, 4)), draw.integers(3, 9, 24) if draw.random() < 1 / 3 else np.full(24, 6)
    weights, shape = draw.choice([1, 0.5, 2, 0.25, 3], k), (int(sizes.sum()), k)
    kinds = np.stack([draw.random(shape) < 0.5, draw.integers(0, 3, shape) / 2, draw.normal(size=shape)])
    r = kinds[draw.integers(3, size=k), :, np.arange(k)].T.astype(np.float32).astype(float)
    groups = np.split(r, sizes.cumsum()[:-1])
    a = simulate(MAKERS[name], [groups[i : i + 4] for i in range(0, 24, 4)], weights, draw).astype(float)
    group = np.arange(24).repeat(sizes)
    columns = {"step": 1 + group // 4, "group": group} | dict(zip("abcd", r.T, strict=False)) | {"advantage": a}
    return {"log.parquet": parquet(pl.DataFrame(columns))}


def varied(steps=4, seed=0) -> np.ndarray:
    """Return random rewards, (steps, 8, 8, 3), without equal values."""
    return np.random.default_rng(seed).normal(size=(steps, 8, 8, 3)).astype(np.float32).astype(float)


def with_values(r, k, values, at=...) -> np.ndarray:
    """Return rewards in which reward k has other values at some places."""
    r = r.copy()
    r[..., k][at] = values
    return r


def silenced(r, share, k=slice(None)) -> np.ndarray:
    """Return rewards in which the first groups of each step are constant. share: how many of the groups; k: the rewards
    concerned.
    """
    r, groups = r.copy(), round(share * r.shape[1])
    r[:, :groups, :, k] = r[:, :groups, :1, k]
    return r


def with_half(values, others):
    """Return values in which an evaluation overwrote half of step 3. others: the values of the evaluation."""
    values = values.copy()
    values[2, :4] = others[2, :4]
    return values


V, W, LONG = varied(), varied(seed=9), varied(24)
BINARY = (V < 0).astype(float)
LOUD = with_values(with_values(V, 0, V[..., 0] > 0), 1, 3 * V[..., 1] - (V[..., 0] > 0))
TIMES_20 = with_values(V, 2, 20 * V[..., 2])
HOLES = with_values(V, 0, np.nan, (1, 2, 3))
GATED = with_values(V, 1, -0.9 * V[..., 0] + 0.6 * V[..., 1])
FADED = np.arange(24)[:, None, None] + 3 * np.arange(8)[:, None] > 20
FADING = with_values(LONG, 1, np.where(FADED, LONG[..., :1, 1], LONG[..., 1]))
FALLING = LONG + np.linspace(0, 1, 24)[:, None, None, None] * [-3, 3, 0]
TURNED = np.concatenate([made(LONG[:12], "TRL GRPO", (1, 0.5, 2)), made(LONG[12:], "TRL GRPO", (1, 2, 2))])
TWO, NOISE = np.concatenate([V, W]), np.random.default_rng(5).normal(size=V.shape[:3])
LONG_WINDED = (200 + 60 * V[..., 1]).round().clip(1)
GRPO, GDPO = made(V, "TRL GRPO"), made(V)
AGAIN, PLACE = np.concatenate([GDPO, made(W)]), np.arange(512) // 8 % 8
FOUND = {  # name: (log, arguments of the audit besides the first reward as primary)
    "nothing, GRPO": (log(V, GRPO), {}),
    "nothing, GDPO": (log(V, GDPO), {}),
    "no advantages": (log(V), {}),
    "no advantages, generic, GDPO asked": (log(V, form="generic"), {"asked": "gdpo"}),
    "ties, GRPO": (of(BINARY, "TRL GRPO"), {}),
    "ties, no std": (of(BINARY, "TRL GRPO, no std", (1, 0.5, 2)), {}),
    "ties, GDPO": (of(BINARY, "TRL GDPO", (1, 0.5, 2)), {}),
    "ties, no primary": (of(BINARY, "TRL GRPO"), {"primary": None}),
    "inversions, GRPO": (of(LOUD, "TRL GRPO"), {}),
    "inversions, GDPO": (of(LOUD, "NeMo-RL GDPO", form="generic"), {}),
    "inversions, verl": (log(LOUD, form="verl"), {"asked": "grpo"}),
    "dominates": (of(TIMES_20, "TRL GRPO"), {}),
    "dominates, no primary": (of(TIMES_20, "TRL GRPO"), {"primary": None}),
    "dominates where others are constant": (of(silenced(silenced(V, 0.9, 1), 0.9, 2)), {}),
    "dead": (of(silenced(V, 1, 1)), {}),
    "dead in half": (of(silenced(V, 0.5, 1), "TRL GRPO"), {}),
    "nearly constant": (of(with_values(V, 2, 0.5 - 1e-3 * V[..., 2])), {}),
    "opposed": (of(GATED), {}),
    "fades": (of(FADING, "TRL GRPO"), {}),
    "falls, hacked": (of(FALLING, "TRL GRPO"), {}),
    "collinear": (of(with_values(V, 2, V[..., 0] + V[..., 1]), "TRL GRPO"), {}),
    "no right answer": (of(silenced(BINARY, 1, 0) * [0, 1, 1], "TRL GRPO"), {}),
    "silent": (of(silenced(V, 0.4), "TRL GRPO"), {}),
    "silent, batch step": (of(silenced(V, 0.75)), {}),
    "silent, batch std": (of(silenced(V, 0.75), "TRL GRPO, batch std"), {}),
    "length-coupled": (log(V, GDPO, form="generic", num_tokens=LONG_WINDED), {}),
    "silent, verl, GDPO asked": (log(silenced(V, 0.5), form="verl"), {"asked": "gdpo"}),
    "missing": (of(HOLES), {}),
    "missing, verl, GDPO asked": (log(HOLES, form="verl"), {"asked": "gdpo"}),
    "weight 0": (of(V, "TRL GRPO", (1, 1, 0)), {}),
    "weight below 0": (of(V, "TRL GRPO", (1, 0.5, -1)), {}),
    "other weights than given": (of(V, "TRL GRPO, no std", (1, 0.5, 2)), {"weights": {"b": 2}}),
    "other method than asked": (log(V, GRPO), {"asked": "gdpo"}),
    "weights change": (log(LONG, TURNED), {}),
    "methods change": (log(V, np.concatenate([GDPO[:2], GRPO[2:]])), {}),
    "upside down": (log(V, -GRPO), {}),
    "upside down since step 13": (log(LONG, TURNED * np.repeat([1, -1], 12)[:, None, None]), {}),
    "noise": (log(V, NOISE), {}),
    "zeros": (log(V, 0 * GRPO), {}),
    "impossible": (log(V, np.where(np.arange(256).reshape(V.shape[:3]) == 77, 9, GRPO)), {}),
    "one step of noise": (log(V, np.concatenate([GDPO[:3], NOISE[3:]])), {}),
    "evaluated": (log(with_half(V, W), with_half(GDPO, made(W))), {}),
    "steps missing": (log(V, GDPO, steps=[2, 4, 6, 8]), {}),
    "restart": (log(TWO, AGAIN, steps=[1, 2, 3, 4, 3, 4, 5, 6], form="generic", group=PLACE), {}),
    "run twice": (log(TWO, AGAIN, steps=[1, 2, 3, 4] * 2, form="generic", group=PLACE), {}),
    "batches twice": (of(np.repeat(V[:3], 2, axis=0)), {}),
    "one name twice": (log(V[..., :1], GDPO), {}),
    "few responses": (log(V[:1, :2], GRPO[:1, :2]), {}),
}
SIZES = {
    "missing": {"missing": 0.2},
    "chat": {"chat": True},
    "twice": {"iterations": 2},
    "evaluated": {"evaluated": (2, 3)},
}
SIZES |= {"no prompts": {"drop": ("prompt",)}, "same prompts": {"same_prompts": "pairs"}, "cut": {"drop_rows": {3: 5}}}
WRITTEN = {  # name: what writes it into a folder, its options
    **{f"trl {method}": (write_trl, {"method": method}) for method in LOGGED_METHODS},
    **{f"trl {name}": (write_trl, options) for name, options in SIZES.items()},
    **{f"ms_swift {method}": (write_ms_swift, {"method": method, "args": True}) for method in LOGGED_METHODS},
    "verl": (write_verl, {}),
    "verl same prompts": (write_verl, {"same_prompts": "all"}),
    "verl v1": (write_verl, {"v1": True}),
    "nemo_rl": (write_nemo_rl, {}),
    "wandb": (lambda folder: write_wandb(folder, frames_of(LOGS / "trl/gdpo")), {}),
    "trackio": (lambda folder: write_trackio(folder / "a.db", {"run": frames_of(LOGS / "trl/grpo")}), {}),
}
RECORDED = sorted({*(ROOT / "data/samples").iterdir(), *(LOGS / "trl").iterdir(), *LOGS.iterdir()} - {LOGS / "trl"})
TABLES = {f"table {case.id}": case.values for case in (*OF_TRAINERS, *OF_ANY_TABLE)}


def all_logs() -> Iterator[tuple]:
    """Yield four things for each log: its name, a function that returns it or writes it to a folder, and the arguments
    of `read_run` and of `audit`.
    """
    for path in RECORDED:
        name = path.relative_to(ROOT).as_posix()
        yield name, lambda folder, path=path: path, {}, {}
        if path.parent == LOGS / "trl":
            yield f"{name}, no primary", lambda folder, path=path: path, {}, {"primary": None}
    for name, (files, arguments) in FOUND.items():
        yield f"found {name}", lambda folder, files=files: files, {}, arguments
    for name in (name for name in MAKERS if "eps 1e-0" not in name):
        yield f"recipe {name}", lambda folder, name=name: random_log(name), {}, {}
    for name, (write, options) in WRITTEN.items():
        yield f"written {name}", lambda folder, w=write, o=options: (w(folder, **o), folder)[1], {}, {}
    for case in (*OF_TRAINERS, *OF_ANY_TABLE):
        files, _, options = case.values
        if {*options} <= {"framework", "group_size", "rewards", "group"}:
            yield f"table {case.id}", lambda folder, files=files: files, options, {}


ALL = {name: rest for name, *rest in all_logs()}  # of tables with one id, the last

# --- what is said of them ---------------------------------------------------------------------------------------------


def figures(name: str, folder: Path) -> dict:
    """Return what is compared of the report on a log, by name; or the sentence by which the log is refused."""
    source, options, arguments = ALL[name]
    try:
        run = ga.read_run(source(folder), **options)
        report = ga.audit(run, **{"primary": run.rewards[0]} | arguments).to_dict()
    except gc.InputError as error:
        return {"refused": str(error).replace(str(folder), "")}
    VALID.validate(json.loads(json.dumps(report)))
    counts, recipe = ("framework", "rewards", "groups", "group_size", "responses", "steps"), report["run"]
    said = {key: recipe[key] for key in ("method", "convention", "remarks", "reproduced", "weights_up_to_scale")}
    said |= {"weights_by": recipe["weights_from"], "turns": len(recipe["weights_in_turn"])}
    weights = {k: w if w is None else float(f"{w:.6g}") for k, w in (recipe["weights"] or {}).items()}
    return {
        **{key: report["source"][key] for key in counts},
        "recipe": said | {"weights": weights},
        "findings": [[finding[key] for key in ("id", "severity", "title", "fix")] for finding in report["findings"]],
        "plan": [[row["title"], row["recommended"], rounded(row["update_share"])] for row in report["plan"]],
        "shares": {reward["name"]: rounded(reward["update_share"]) for reward in report["rewards"]},
        "methods": {method: rounded(shares) for method, shares in report["methods"].items()},
    }


def rounded(values: dict) -> dict:
    return {key: None if value is None else round(value, 9) for key, value in values.items()}


def differences(old, new, at: str) -> Iterator[str]:
    """Yield each member that differs, as "member: old → new"; of a list, what went and what came. at: the path of the
    member.
    """
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted({*old, *new}):
            yield from differences(old.get(key), new.get(key), f"{at}.{key}".lstrip("."))
    elif isinstance(old, list) and isinstance(new, list):
        went, came = ([one for one in a if one not in b] for a, b in ((old, new), (new, old)))
        if went or came or old != new:
            yield f"{at}: {went} → {came}" if went or came else f"{at}: another order"
    elif old != (pytest.approx(new, rel=1e-7, abs=1e-7) if isinstance(new, float) else new):
        yield f"{at}: {old} → {new}"


REPORTS = json.loads(EXPECTED.read_text(encoding="utf-8")) if EXPECTED.exists() else {}


@pytest.mark.slow
@pytest.mark.parametrize("name", ALL)
def test_a_log_gets_the_report_that_it_had(name, tmp_path):
    changed = [*differences(REPORTS.get(name), figures(name, tmp_path), "")]
    assert not changed, "\n".join(["", name, *changed])


def test_every_report_has_its_log():
    assert {*REPORTS} == {*ALL}


def write(*names: str) -> None:
    lines = []
    for name in sorted(ALL):
        if name in REPORTS and not any(part in name for part in names):
            report = REPORTS[name]
        else:
            with tempfile.TemporaryDirectory() as folder:
                report = figures(name, Path(folder))
        lines.append(f"{json.dumps(name)}: {json.dumps(report, sort_keys=True)}")
    EXPECTED.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    write(*sys.argv[1:])
