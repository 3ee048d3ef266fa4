"""Write data/bfcl_requests.parquet, with each prompt that the chapter Evidence draws as a square: its request and a
right answer to it.

The requests are from the package bfcl-eval, which `make parity` installs; another folder `data` of bfcl-eval can be
given as an argument. An answer gives each argument the first value that the leaderboard accepts, and leaves out
arguments that may be left out. BFCL's own checker accepts all of these answers.
"""

import importlib.util
import json
import sys
from collections.abc import Mapping
from pathlib import Path

import polars as pl

from views.bfcl import load_published

ROOT = Path(__file__).resolve().parent.parent
MADE = ROOT / "data" / "bfcl_requests.parquet"


def answer(accepted: list[Mapping[str, Mapping[str, list]]], required: Mapping[str, list[str]]) -> str:
    """Return a right answer to a prompt: its calls as a Python list, each argument with the first value that is
    accepted.

    An argument with "" among its accepted values may be left out. It is left out if `required` does not name it.

    accepted: the calls in order, each as {function: {argument: accepted values}}.
    required: by function, the arguments that its calls must have.

    >>> answer([{"area": {"base": [10, 10.0], "sides": [[3, 4]], "unit": ["cm", ""]}}], {"area": ["base", "sides"]})
    '[area(base=10, sides=[3, 4])]'
    """
    calls = [(name, args) for call in accepted for name, args in call.items()]
    return f"[{', '.join(f'{name}({_arguments(args, required[name])})' for name, args in calls)}]"


def _arguments(args: Mapping[str, list], required: list[str]) -> str:
    """Return the arguments of a call as Python writes them, such as "a=1, b='x'", each with the first value accepted
    for it.

    An argument for which "" is accepted may be left out. It is left out if `required` does not name it.

    args: for each argument the values that are accepted.
    required: the names of the arguments that are written even if "" is accepted.
    """
    sent = {name: values for name, values in args.items() if "" not in values or name in required}
    return ", ".join(f"{name}={_first(values)!r}" for name, values in sent.items())


def _first(values: list) -> object:
    """Return the first accepted value other than "", as `_plain` reduces it. The value "" only says that an argument
    may be left out.
    """
    return _plain(next(value for value in values if value != ""))


def _plain(value: object) -> object:
    """Return an accepted value with its dictionaries reduced, at any depth. A dictionary has a list of accepted values
    for each of its entries; reduced, it has only the first of them. An entry that may be left out, as "" in its list
    says, is left out.
    """
    if isinstance(value, dict):
        return {name: _first(values) for name, values in value.items() if "" not in values}
    return [_plain(item) for item in value] if isinstance(value, list) else value


def read(folder: Path) -> pl.DataFrame:
    """Return a table with a row for each published prompt, in the order of the published verdicts.

    Its columns are task_id, the prompt's name; request, what it asks; and answer, a right answer to it.

    folder: the folder `data` of bfcl-eval.
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
