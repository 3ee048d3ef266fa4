"""Links for the tests: random ones that say something of every control, hostile ones, and the page that opens them."""

import random
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import marimo as mo

import gdpo_core as gc
from app import app
from gdpo_core import bfcl
from gdpo_core.bfcl.prompts import GRADED, OUTCOMES, WEIGHTS, load_once
from gdpo_core.board.state import HEAVIEST, METHODS, PAYS, UNDEFINED
from gdpo_core.scenarios import load_scenarios
from views.address import CHAPTERS
from views.lab import books
from views.nav import Nav
from views.run import choose, log
from views.run.samples import SAMPLES
from views.train import controls
from views.train.runs import THIRD
from views.use import configure

DATA = Path(__file__).resolve().parent.parent / "data"
TASKS = bfcl.load_tasks(DATA / "tasks")
SCENARIOS = load_scenarios(DATA / "scenarios.json")
PUBLISHED = load_once(DATA / "bfcl_rewards.parquet")


def joined(values) -> str:
    return "_".join(f"{value:g}" for value in values)


def _lab(r: random.Random) -> dict[str, str]:
    task = r.choice(TASKS)
    pairs = [(m, c) for m in METHODS for c in gc.CONVENTIONS if [m, c] not in UNDEFINED]
    method, convention = r.choice(pairs)
    bounds = list(books.SCALES.values()) * len(books.TITLES)
    return {
        "lab-task": task.id,
        "lab-marks": ".".join("".join(r.choice("01") for _ in bfcl.REWARDS) for _ in task.answers),
        "lab-pays": joined(r.choice(PAYS) for _ in bfcl.REWARDS),
        "lab-weights": joined(r.randint(0, 10 * int(HEAVIEST)) / 10 for _ in bfcl.REWARDS),
        "lab-convention": convention,
        "lab-method": method,
        "lab-books": joined(r.randint(low, high) for low, high in bounds),
    }


def _train(r: random.Random) -> dict[str, str]:
    scenario = r.choice(SCENARIOS)
    arms, given = bool(scenario.setting.arms), controls.scenario_values(scenario)
    noise = [0 if arms else r.choice((0, 0.001, 0.5)) for _ in given["noise"]]
    # Small, for many are trained.
    sizes = (r.choice((2, 4, 8)), r.choice((1, 8)), 4, r.randint(10, 40), r.choice((0.01, 0.25, 5)))
    sliders = () if scenario.from_marks else controls.STEPS
    return {
        "train-scenario": scenario.id,
        "train-compare": r.choice(("equal", "published", "neither")),
        **{f"train-{name}": joined(r.choice(controls.STEPS[name]) for _ in given[name]) for name in sliders},
        "train-method": r.choice(list(THIRD)),
        "train-more": joined((r.choice((0, 1)), *sizes, *noise)),
        "train-gate": r.choice("01") if arms else "0",
    }


def _evidence(r: random.Random) -> dict[str, str]:
    return {
        "evidence-group": str(r.randint(2, len(PUBLISHED.models))),
        "evidence-draw": str(r.randint(0, 99)),
        "evidence-kind": r.choice(OUTCOMES),
        "evidence-graders": r.choice(GRADED),
        "evidence-weight": f"{r.choice(WEIGHTS):g}",
        "evidence-prompt": r.choice(PUBLISHED.tasks),
    }


@cache
def rewards_of(sample) -> tuple[str, ...]:
    return tuple(log.read(sample).run.rewards)


def _run(r: random.Random) -> dict[str, str]:
    sample = r.choice(SAMPLES)
    rewards = rewards_of(sample)
    columns = r.choice(["", rewards[0], "ß & ü"])
    return {
        "run-sample": sample.id,
        "run-primary": r.choice([choose.NO_PRIMARY, *([columns] if columns == rewards[0] else rewards)]),
        "run-framework": r.choice(["", *filter(None, choose.FRAMEWORKS.values())]),  # of some the sample is no log
        "run-group_size": r.choice(["", "4", "five"]),
        "run-rewards": columns,
        "run-group": r.choice(["", "prompt", "a column = none"]),
        "run-weights": r.choice(["", f"{rewards[0]}=0.5", "nothing=1"]),
        "run-if_method": r.choice(["", "gdpo", "grpo_no_std"]),
        "run-if_weights": r.choice(["", f"{rewards[-1]}=0.2", "nothing=1"]),
    }


def _use(r: random.Random) -> dict[str, str]:
    return {
        "use-framework": r.choice(list(configure.TRAINERS)),
        "use-gate": r.choice(list(configure.GATES)),
        "use-source": r.choice(list(configure.SOURCES)),
    }


OF_CHAPTER = {"lab": lambda r: {}, "train": _train, "evidence": _evidence, "run": _run, "use": _use}


def random_link(chapter: str, seed: int) -> dict[str, str]:
    """What a link to the chapter says of each of its controls and the Lab's; half the links are silent on some."""
    r = random.Random(f"{chapter} {seed}")
    full = _lab(r) | OF_CHAPTER[chapter](r)
    silent = r.choice((0, 0.4))
    # Marks, starts and the like fit the task or the scenario that they were drawn for.
    tied = {"lab-task", "lab-marks", "train-scenario", "run-sample", "lab-method", "lab-convention"}
    return {key: text for key, text in full.items() if key in tied or r.random() >= silent}


def opened(query: str | dict[str, str], chapter: str) -> tuple[Nav, dict[str, Any]]:
    """The page's bar and the variables of all its cells after a visitor came by this link and has the chapter open."""
    params = parse_qs(query, keep_blank_values=True) if isinstance(query, str) else query
    page = Nav(params | {"at": chapter}, False)
    doors = {f"{name}_open": lambda name=name: name == chapter for name in CHAPTERS if name != "lab"} | {"doors": {}}
    asked = page.given("train-scenario")
    bar = {"page": page, "nav": mo.ui.anywidget(page), "editing": False}
    scenario = {"requested_scenario": lambda: asked, "ask_scenario": lambda _: None}
    _, variables = app.run(defs=bar | doors | scenario)
    return page, dict(variables)


# Of which no part can be understood; the first one is opened in a browser too.
HOSTILE = [
    "lab-task=%3Cscript%3Ealert(1)%3C/script%3E&colour=red",
    "lab-marks=" + "1" * 10_000,
    "at=nowhere&lab-weights=1_1",
    "train-scenario=%00&evidence-draw=1e999&run-sample=../../etc/passwd&use-framework=%F0%9F%92%A5",
    "lab-marks=111.000&lab-pays=nan_inf_-1&lab-weights=a_b_c&lab-books=1_2",
    "lab-marks=222.111&lab-pays=1_2_3&lab-weights=1e400_1_1_1",
    "lab-convention=__class__&lab-method=grpo",
    "lab-method=dvao&lab-method=ppo",  # twice: the last one counts
    "train-compare=worse&train-weights=1&train-gate=yes&train-more=1_2&train-method=ppo",
    "evidence-draw=nan&evidence-group=many&evidence-graders=a.b.c&evidence-kind=odd&evidence-prompt=none",
    "run-framework=pickle&run-primary=speed&use-gate=%CC%81%CC%81&use-source=moon",
    "__proto__=1&constructor=2&lab-=3&%00=4&=5",
]
# Whole ones: too long, without a key, the same key many times, bytes that no address may hold.
RAW = (
    b"a" * 100_000,
    b"=",
    b"&" * 5000,
    b"\x00",
    b"\xff\xfe",
    b"lab-marks=1&" * 4000,
    b"file=/etc/passwd&session_id=x",
)
