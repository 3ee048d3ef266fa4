"""The small pictures: every scenario under every comparison, from a file that a script wrote and a test recomputes."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from math import inf
from pathlib import Path
from typing import Any, TypedDict

from gdpo_core._errors import InputError, expect
from gdpo_core._json import read_json
from gdpo_core.scenarios import (
    COMPARISONS,
    ENDS,
    VERDICTS,
    Scenario,
    Setting,
    medians,
    verdict_on_arms,
    verdict_on_coins,
)
from views.text import NAMES
from views.trained import COMPARED, rounded, runs

POINTS = 32  # of a small curve
ROOM = 1.5  # a small picture ends this much after both methods are there
WEIGHTS = (4.0, 2.0, 1.0, 0.9, 0.5, 0.25, 0.125)  # of brevity, in the picture of all weights
FASTER, SAME, SLOWER = 0, 1, 2  # the columns
COLUMNS = dict(zip((*VERDICTS, *ENDS), (SAME, FASTER, SLOWER, SAME, SAME, SAME, FASTER, SLOWER), strict=True))


def sketch(setting: Setting) -> dict:
    """What a small picture shows: per method the medians of all coins, and the curve of the slowest one.

    Of arms it is the right answer, and where it ends.
    """
    by_method = runs(setting)
    steps = {m: medians(run) for m, run in by_method.items()}
    followed = {m: 0 if setting.arms else s.index(max(s)) for m, s in steps.items()}
    last = max(steps[m][followed[m]] for m in COMPARED)
    end = setting.epochs if last == inf else min(setting.epochs, max(8, round(ROOM * last)))
    epochs = sorted({round(end * n / (POINTS - 1)) for n in range(POINTS)})
    return {
        "epochs": epochs,
        **{
            m: {
                "steps": [None if s == inf else int(s) for s in steps[m]],
                "last": round(run.p[:, -1, 0].median().item(), 4),
                "curve": rounded(run.p[:, epochs, followed[m]].median(0).values),
            }
            for m, run in by_method.items()
        },
    }


def ends(setting: Setting, methods: Sequence[str], progress: Callable[[float], None] | None = None) -> dict[str, list]:
    """Per method, for each of WEIGHTS and at last for the gate: [p of the right answer at the end, epochs to LEVEL]."""
    settings = [replace(setting, weights=(1.0, weight), gate=None) for weight in WEIGHTS]
    settings.append(gated(setting))
    endings: dict[str, list] = {m: [] for m in methods}
    for n, one in enumerate(settings):
        hear = None if progress is None else (lambda share, n=n: progress((n + share) / len(settings)))
        for m, run in runs(one, methods, hear).items():
            steps = medians(run)[0]
            endings[m].append([round(run.p[:, -1, 0].median().item(), 4), None if steps == inf else int(steps)])
    return endings


def gated(setting: Setting) -> Setting:
    """The same behind the gate, at equal weights."""
    return replace(setting, weights=None, gate=(1, 0))


def made(scenarios: Sequence[Scenario], rates: Sequence[float]) -> dict:
    """All that the file holds; rates: the pass rates of the answers that the Lab shows first."""
    file: dict[str, Any] = {"sketches": {}, "weights": {}}
    for scenario in scenarios:
        setting = scenario.at(rates)
        file["sketches"][scenario.id] = {c: sketch(setting.compared(c)) for c in COMPARISONS}
        if setting.arms:
            file["weights"][scenario.id] = {c: ends(setting.compared(c), list(NAMES)) for c in COMPARISONS}
    return file


class File(TypedDict):
    """What the file holds, by scenario and comparison."""

    sketches: dict[str, dict[str, dict[str, Any]]]
    weights: dict[str, dict[str, dict[str, list[list[float | None]]]]]


@lru_cache(maxsize=2)
def load(path: Path, arms: tuple[tuple[str, bool], ...]) -> File:
    """The file; arms: for the id of each scenario, whether it has arms. InputError where it can't be read or drawn."""
    file = read_json(path, File)
    names = list(file["sketches"])
    expect(
        set(names) == {name for name, _ in arms}, path.name, "the pictures of all scenarios", ", ".join(names) or "none"
    )
    for name, has_arms in arms:
        try:
            _check(file, name, has_arms)
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            numbers = "the numbers that scripts/make_gallery.py writes"
            raise InputError(f"{path.name}: {name}: expected {numbers}, got something else") from error
    return file


def _check(file: Mapping[str, Any], name: str, arms: bool) -> None:
    """Raises one of several errors where a scenario's pictures can't be drawn under every comparison."""
    for comparison in COMPARISONS:
        drawn = card(file["sketches"][name][comparison], arms)
        for curve in drawn["curves"].values():
            sum(curve)
            if len(curve) != len(drawn["epochs"]):
                raise ValueError("a curve of another length")
        if arms:
            for method in NAMES:
                for p, _ in zip(file["weights"][name][comparison][method], (*WEIGHTS, "gate"), strict=True):
                    float(p[0]), p[1]


def never(steps: Sequence[int | None]) -> list[float]:
    """Medians as the file has them."""
    return [inf if s is None else s for s in steps]


def kind(one: Mapping[str, Any], arms: bool) -> str:
    """The verdict that a sketch shows."""
    if arms:
        return verdict_on_arms(*(one[m]["last"] for m in COMPARED))
    return verdict_on_coins(*(never(one[m]["steps"]) for m in COMPARED))


def label(one: Mapping[str, Any], arms: bool) -> str:
    """The verdict of a sketch in a few words.

    >>> label({"grpo": {"steps": [37, 14]}, "gdpo": {"steps": [20, 20]}}, False)
    'GDPO 1.9× faster'
    """
    ending = kind(one, arms)
    if ending in ENDS[2:]:
        return f"only {ending.split()[2]} is right"
    if arms or ending in (VERDICTS[0], VERDICTS[3]):
        return ending
    grpo, gdpo = (max(never(one[m]["steps"])) for m in COMPARED)
    if inf in (grpo, gdpo):
        return "only GDPO gets there" if grpo == inf else "only GRPO gets there"
    return f"GDPO {grpo / gdpo:.1f}× faster" if gdpo < grpo else f"GDPO {gdpo / grpo:.1f}× slower"


def card(one: Mapping[str, Any], arms: bool) -> dict:
    """What the browser draws of a sketch."""
    found = kind(one, arms)
    curves = {m: one[m]["curve"] for m in COMPARED}
    return {
        "kind": found,
        "column": COLUMNS[found],
        "label": label(one, arms),
        "epochs": one["epochs"],
        "curves": curves,
        "reach": {
            m: None if None in one[m]["steps"][: 1 if arms else None] else _slowest(one[m], arms) for m in COMPARED
        },
    }


def _slowest(one: Mapping[str, Any], arms: bool) -> int:
    return one["steps"][0] if arms else max(one["steps"])
