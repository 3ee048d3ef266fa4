"""Write data/bfcl_requests.parquet: the requests behind the squares of the chapter Evidence, with a right answer to
each.

The requests are those of the package bfcl-eval, which `make parity` installs; the folder `data` of another one can be
given. An answer is made of the values that the leaderboard accepts: the first of each, without arguments that may be
left out. BFCL's own checker accepts all of these answers.
"""

import importlib.util
import json
import sys
from collections.abc import Mapping
from pathlib import Path

import polars as pl

from gdpo_core.bfcl import load_published

ROOT = Path(__file__).resolve().parent.parent
MADE = ROOT / "data" / "bfcl_requests.parquet"


def answer(accepted: list[Mapping[str, Mapping[str, list]]], required: Mapping[str, list[str]]) -> str:
    """Return an answer that makes the needed calls in Python, each argument with the first value that is accepted.

    accepted: one call after the other, as {function: {argument: accepted values}}. required: by function, the arguments
    that a call must have, even if "" among the accepted values says that they may be left out.

    >>> answer([{"area": {"base": [10, 10.0], "sides": [[3, 4]], "unit": ["cm", ""]}}], {"area": ["base", "sides"]})
    '[area(base=10, sides=[3, 4])]'
    """
    calls = [(name, args) for call in accepted for name, args in call.items()]
    return f"[{', '.join(f'{name}({_arguments(args, required[name])})' for name, args in calls)}]"


def _arguments(args: Mapping[str, list], required: list[str]) -> str:
    """Return the arguments of a call as Python writes them, without those that may be left out. args: the accepted
    values of each; required: the names of arguments that are not left out even if "" is accepted.
    """
    sent = {name: values for name, values in args.items() if "" not in values or name in required}
    return ", ".join(f"{name}={_first(values)!r}" for name, values in sent.items())


def _first(values: list) -> object:
    """Return the first accepted value other than "", which says that a value may be left out. A dictionary in it is
    reduced as in `_plain`.
    """
    return _plain(next(value for value in values if value != ""))


def _plain(value: object) -> object:
    """Return an accepted value in which each dictionary, at any depth, holds for each entry the first of its accepted
    values in place of their list. An entry that may be left out, which "" among its values says, is left out.
    """
    if isinstance(value, dict):
        return {name: _first(values) for name, values in value.items() if "" not in values}
    return [_plain(item) for item in value] if isinstance(value, list) else value


def read(folder: Path) -> pl.DataFrame:
    """Return a table with the name, the request and a right answer of each prompt that has a square, in the order of
    the published verdicts. folder: the `data` of bfcl-eval.
    """
    published = load_published(ROOT / "data" / "bfcl_rewards.parquet")
    requests, required, answers = {}, {}, {}
    for category in dict.fromkeys(published.categories):
        name = f"BFCL_v4_{category}.json"
        for line in (folder / name).read_text(encoding="utf-8").splitlines():
            row = json.loads(line)
            requests[row["id"]] = row["question"][0][-1]["content"]
            required[row["id"]] = {one["name"]: one["parameters"]["required"] for one in row["function"]}
        for line in (folder / "possible_answer" / name).read_text(encoding="utf-8").splitlines():
            row = json.loads(line)
            answers[row["id"]] = answer(row["ground_truth"], required[row["id"]])
    names = list(published.tasks)
    return pl.DataFrame(
        {"task_id": names, "request": [requests[name] for name in names], "answer": [answers[name] for name in names]}
    )


if __name__ == "__main__":
    spec = importlib.util.find_spec("bfcl_eval")
    given = sys.argv[1] if len(sys.argv) > 1 else spec and f"{Path(str(spec.origin)).parent}/data"
    if not given:
        sys.exit("make_requests: expected the folder `data` of bfcl-eval, or the package; `make parity` installs it")
    read(Path(given)).write_parquet(MADE, compression="zstd", compression_level=19, statistics=False)
