"""Links for the tests: random ones that say something of every control, hostile ones, and the page that opens them."""

import random
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote_from_bytes

import marimo as mo
from hypothesis import strategies as st

import gdpo_core as gc
from app import app
from gdpo_core import bfcl
from gdpo_core.bfcl.prompts import GRADED, OUTCOMES, WEIGHTS, load_once
from gdpo_core.board.state import HEAVIEST, METHODS, PAYS, UNDEFINED
from gdpo_core.scenarios import load_scenarios
from views.address import CHAPTERS, CONTROLS
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
    doors: dict[str, Any] = {}
    for name in CHAPTERS:
        doors |= {f"{name}_open": lambda name=name: name == chapter, f"open_{name}": lambda _: None}
    del doors["lab_open"], doors["open_lab"]
    asked = page.given("train-scenario")
    bar = {"page": page, "nav": mo.ui.anywidget(page), "editing": False}
    scenario = {"requested_scenario": lambda: asked, "ask_scenario": lambda _: None}
    _, variables = app.run(defs=bar | doors | scenario)
    return page, dict(variables)


# The first ones are opened in a browser too. Each: the query, and what the note about it holds.
HOSTILE = [
    ("lab-marks=" + "1" * 10_000, "lab-marks is longer than 600 characters"),
    ("lab-task=%3Cscript%3Ealert(1)%3C/script%3E&colour=red", "colour is not known here"),
    ("at=nowhere&embed=nothing&lab-weights=1_1", "lab-weights: expected 3 numbers"),
    ("train-scenario=%00&evidence-draw=1e999&run-sample=../../etc/passwd&use-framework=%F0%9F%92%A5", ""),
    ("v=99", "version 99"),
    ("v=", "version"),
    ("v=1&lab-task", "lab-task: expected"),
    ("lab-marks=111.110.10", "lab-marks: expected"),  # cut off
    ("lab-marks=111.000&lab-pays=nan_inf_-1&lab-weights=a_b_c", "lab-weights: expected a number"),
    ("lab-marks=222.111", "rows of 0 and 1"),
    ("lab-pays=1_1_NaN", "lab-pays: expected a number"),
    ("lab-pays=1_2_3", "lab-pays: expected 3 of"),
    ("lab-pays=" + "_".join(["1"] * 200), "lab-pays: expected 3 of"),
    ("lab-weights=1e400_1_1_1", "lab-weights: expected 3 numbers"),
    ("lab-weights=%ZZ%E0%80_1_1", "lab-weights: expected a number"),
    ("lab-weights=1_1_", "expected a number from 0 to 5, got “1_1_”"),
    ("lab-convention=mine", "lab-convention: expected"),
    ("lab-convention=__class__&lab-method=grpo", "lab-method: expected"),
    ("lab-method=dvao&lab-method=ppo", "lab-method: expected"),  # twice: the last one counts
    ("lab-books=1_2", "lab-books: expected"),
    ("lab-task=" + "%F0%9F%92%A5" * 100, "lab-task: expected"),
    ("train-compare=worse", "train-compare: expected one of"),
    ("train-scenario=noise&train-start=0.5_0.5_0.5_0.5_0.5_0.5_0.5", "train-start: expected"),
    ("train-weights=1&train-gate=yes", "train-gate: expected one of 0"),
    ("train-more=1_2", "train-more: expected"),
    ("train-more=0_1e9_1e9_1e9_1e9_1e9_0", "train-more: expected"),
    ("train-method=ppo", "train-method: expected one of grpo_no_std"),
    ("evidence-draw=nan", "expected a number from 0 to 99"),
    ("evidence-group=many", "evidence-group: expected a number from 2 to 71"),
    ("evidence-group=" + "9" * 500 + "&evidence-draw=", "evidence-draw: expected a number"),
    ("evidence-graders=a.b.c&evidence-kind=odd&evidence-prompt=none", "evidence-kind: expected"),
    ("run-sample=trl_gdpo%00.zip&run-primary=speed", "run-sample: expected one of"),
    ("run-framework=pickle&run-group_size=-1&run-weights=a%3Db%3Dc", "run-framework: expected one of"),
    ("use-framework=%27%3B+DROP+TABLE&use-gate=%CC%81%CC%81&use-source=moon", "use-gate: expected one of"),
    ("__proto__=1&constructor=2&lab-=3&%00=4&=5", "constructor is not known here"),
]

# Keys that marimo or its front end reads, and what one might try with them.
KEYS_OF_MARIMO = (
    *("file", "session_id", "access_token", "refresh_token", "kiosk", "view-as", "show-chrome", "include-code"),
    *("show-code", "vscode", "lsp", "theme", "embed", "at", "v", "__theme"),
)
TRIED = (
    *("app.py", "../app.py", "/etc/passwd", "%2e%2e%2fapp.py", "__new__", "__new__s_abcdef", "edit", "present", "true"),
    *("s_abcdef", "%00", "%0d%0aSet-Cookie:%20a=b", "%3C/script%3E%3Cscript%3Ealert(1)%3C/script%3E", "//evil.example"),
    *(
        "javascript:alert(1)",
        "<script>alert(1)</script>",
        '"onload="alert(1)',
        "%ZZ",
        "%",
        "&&==",
        "%E2%80%AE",
        "9" * 9000,
    ),
)
KEYS = st.one_of(st.sampled_from((*CONTROLS, *KEYS_OF_MARIMO)), st.text(max_size=8)).map(str.encode)
VALUES = st.one_of(
    st.sampled_from(TRIED).map(str.encode),
    st.binary(max_size=30),
    st.text(max_size=30).map(str.encode),
    st.binary(max_size=30).map(quote_from_bytes).map(str.encode),
)
QUERIES = st.lists(st.tuples(KEYS, VALUES), max_size=6).map(
    lambda pairs: b"&".join(key + b"=" + value for key, value in pairs)
)
# Whole ones: too long, without a key, the same key many times, bytes that no address may hold.
RAW = (
    b"a" * 100_000,
    b"a" * 60_000,
    b"=",
    b"&" * 5000,
    b"%",
    b"\x00",
    b"\xff\xfe",
    b"lab-marks=1&" * 4000,
    b"[]=;;?#?/../",
)
