"""Links for the tests: some that set every control, hostile ones, and the page as a link opens it."""

from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import marimo as mo

from views import bfcl
from views.widgets.address import CHAPTERS
from views.widgets.nav import Nav

TASKS = bfcl.load_tasks(Path(__file__).resolve().parent.parent / "data" / "tasks")


# Each link says something of every control of a chapter; a link to a run also says what its log does not have.
LINKS = [
    ("lab", "lab-task=hotel&lab-marks=011.101.000.111.111.011.100.100.111.111.110.000&lab-pays=10_100_0.3&lab-why=yes"
        "&lab-weights=4.3_4.5_3.1&lab-convention=axolotl_async&lab-method=mo_grpo"
        "&lab-books=7_2_3_1_8_5_6_4_5_9_7_2_3_1_3"),
    ("lab", "lab-task=coat&lab-marks=1_1_0.5" + "~0_1_-1000000000" * 10 + "~0_0_0.123456789&lab-pays=1_1_10"),
    ("train", "train-scenario=rare&train-compare=published&train-start=0.02_0.2&train-pays=0.1_6&train-weights=4_2"
        "&train-method=mo_grpo&train-more=1_2_1_4_13_5_0_0&train-gate=0"),
    ("train", "train-scenario=conflict&train-start=0.6&train-weights=1_0.25&train-gate=1&train-more=0_8_8_4_26_1_0_0"),
    ("evidence", "evidence-setup=wide-equal&evidence-group=52&evidence-draw=68&evidence-kind=gdpo&evidence-weight=2.1"
        "&evidence-forecast=scale~GDPO~style&evidence-graders=correctness.envelope.conciseness&evidence-prompt=simple_python_251"),
    ("run", "run-sample=pays_5_grpo&run-primary=correctness&run-framework=trl&run-group_size=4&run-rewards=%C3%9F"
        "&run-group=a+column+%3D+none&run-weights=correctness%3D0.5"),
    ("run", "run-sample=verl_v1&run-primary=none&run-group_size=five&run-weights=nothing%3D1&run-parts=a%3D1"),
    ("use", "use-asked=yny&use-framework=verl&use-gate=conciseness&use-source=run&done=tie_guess_judge"),
]  # fmt: skip


def opened(query: str | dict[str, str], chapter: str) -> tuple[Nav, dict[str, Any]]:
    """Return the page's bar, and the variables of all its cells, after a visitor has come by this link and opened the
    chapter. query: the part of the link after the question mark, as text or by key.
    """
    from app import app  # The import takes a second, for which tests without a page should not wait.

    params = parse_qs(query, keep_blank_values=True) if isinstance(query, str) else query
    page = Nav(params | {"at": chapter}, False)
    doors = {f"{name}_open": lambda name=name: name == chapter for name in CHAPTERS if name != "lab"} | {"doors": {}}
    asked = page.restore("train-scenario")
    bar = {"page": page, "nav": mo.ui.anywidget(page), "editing": False}
    scenario = {"requested_scenario": lambda: asked, "ask_scenario": lambda _: None}
    _, variables = app.run(defs=bar | doors | scenario)
    return page, dict(variables)


# No part of these can be understood.
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
# These are whole queries: one that is too long, one without a key, one with a key many times, and one with bytes that
# no address may hold.
RAW = (
    b"a" * 100_000,
    b"=",
    b"&" * 5000,
    b"\x00",
    b"\xff\xfe",
    b"lab-marks=1&" * 4000,
    b"file=/etc/passwd&session_id=x",
)
