"""Write data/gallery.json, which holds the numbers behind the small pictures of the chapter Train, and the numbers of
its table of weights. To train for them at every visit would take seconds.

python scripts/make_gallery.py
"""

import json
from collections.abc import Sequence
from dataclasses import replace
from math import inf
from pathlib import Path
from typing import Any

from gdpo_core.conventions import COMPARED
from gdpo_core.training import COMPARISONS
from views import bfcl
from views.chapters.train import gallery
from views.chapters.train.controls import pass_rates
from views.chapters.train.other_weights import WEIGHTS
from views.chapters.train.runs import train_setup
from views.studies.scenarios import Scenario, Setup, load_scenarios, medians
from views.widgets import still

DATA = Path(__file__).resolve().parent.parent / "data"


def final_values(setup: Setup, methods: Sequence[str]) -> dict[str, list]:
    """Return a list of pairs for each method: one pair for each weight of `weights.WEIGHTS` on the second reward, and a
    last pair for a gate.

    Under the gate, the second reward counts only where the first one passes. A pair is the probability of a right
    answer at the end, and the number of epochs until the right answer was learnt, None if it never was. Both are
    medians over the runs.

    setup: what to train, except for its weights and gate.
    methods: the methods to train with.
    """
    variants = [replace(setup, weights=(1.0, weight), gate=None) for weight in WEIGHTS]
    variants.append(replace(setup, weights=None, gate=(1, 0)))
    endings: dict[str, list] = {m: [] for m in methods}
    for variant in variants:
        for m, run in train_setup(variant, methods).items():
            steps = medians(run)[0]
            endings[m].append([round(run.p[:, -1, 0].median().item(), 4), None if steps == inf else int(steps)])
    return endings


def build_gallery(scenarios: Sequence[Scenario], rates: Sequence[float]) -> dict:
    """Return the content of data/gallery.json, a dict with four entries.

    "rates" is the argument: the pass rate of each reward among the answers that the Lab shows first. "sketches" holds
    what `cards.sketch` returns for each scenario, by its id and by each of COMPARISONS. "weights" holds in the same way
    what `final_values` returns, for the scenarios whose policy chooses among a few answers. "still" has the curves of
    the first scenario: by method, for each coin, its median probability at every `still.EVERY`-th epoch.
    """
    runs = train_setup(scenarios[0].at(rates).compared("equal"))
    still_curves = {
        m: [[round(p, 3) for p in coin] for coin in run.p[:, :: still.EVERY].median(0).values.T.tolist()]
        for m, run in runs.items()
    }
    file: dict[str, Any] = {"rates": list(rates), "still": still_curves, "sketches": {}, "weights": {}}
    for scenario in scenarios:
        setup = scenario.at(rates)
        file["sketches"][scenario.id] = {c: gallery.sketch(setup.compared(c)) for c in COMPARISONS}
        if setup.arms:
            file["weights"][scenario.id] = {c: final_values(setup.compared(c), COMPARED) for c in COMPARISONS}
    return file


def main() -> None:
    """Write data/gallery.json, after training for all that `build_gallery` puts into it. The pass rates are taken from
    the answers to the first task in data/tasks.
    """
    rates = pass_rates([grades.vector for grades in bfcl.grade_all(bfcl.load_tasks(DATA / "tasks")[0])])
    made = build_gallery(load_scenarios(DATA / "scenarios.json"), rates)
    text = json.dumps(made, separators=(",", ":"), allow_nan=False) + "\n"
    (DATA / "gallery.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
