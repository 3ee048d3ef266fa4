"""The formulas in the browser (gdpo_core/board/formulas.js) give the same numbers as the core for any group."""

import json
import math
import re
from dataclasses import asdict
from itertools import chain
from pathlib import Path

import numpy as np
import pytest
import torch

import gdpo_core as gc
from gdpo_core.board.board import RULES
from gdpo_core.board.drawing import draw
from gdpo_core.board.state import PAYS, State, frozen
from gdpo_core.frameworks import ALL_CONVENTIONS
from gdpo_core.numerics.pairs import APART
from gdpo_core.ties import explain_and_collapse

FORMULAS = (Path(gc.__file__).parent / "board" / "formulas.js").read_text(encoding="utf-8")
METHODS = ("grpo", "grpo_no_std", "gdpo")
CASES, CLOSE = 2_500, 1e-12  # of about two groups each
COMPUTE = """cases => cases.map(({ groups: given, method, weights, convention }) => {
  const { advantages, selection, push, levels, withoutEps, total } = gdpoFormulas;
  const groups = given.map(({ n, over, r }) => ({ n, over, r: r.map((row) => row.map((x) => x ?? NaN)) }));
  const made = advantages(groups, method, weights, convention), exact = withoutEps(method, convention);
  const bare = exact ? advantages(groups, method, weights, exact) : made;
  const whole = made.reduce((sum, { a }, g) => sum + total(groups[g].n, (i) => (a[i] || 0) ** 2), 0);
  const sums = weights.map((_, k) => made.map(({ a }, g) => selection(groups[g], a, 1e-9)[k]));
  const add = (of, name) => of.reduce((sum, own) => sum + own[name], 0);
  return {
    a: made.flatMap(({ a }) => a), parts: made.flatMap(({ a, parts }) => a.map((_, i) => parts.map((own) => own[i]))),
    push: sums.map((of) => push(add(of, "pushed"), add(of, "squares"), whole)),
    level: made.map(({ a }, g) => (a.some(Number.isNaN) ? null : levels(a, bare[g].a, 1e-9))),
  };
})"""


def drawn(rng):
    """Return a random batch, one array of rewards per group, with weights, lengths, a method and a convention. A group
    has one to eight rows of marks, scores and constants, and now and then a reward is missing.
    """
    count, missing = int(rng.integers(1, 5)), rng.random() < 0.3
    groups = []
    for _ in range(int(rng.integers(1, 4))):
        size = int(rng.integers(1, 9))
        kinds = (
            rng.integers(0, 2, size) * rng.choice([0.1, 1, 5, 100]),
            rng.normal(size=size) * 10.0 ** rng.integers(-3, 4),
            rng.integers(0, 4, size) / 3,
            np.full(size, rng.choice([0.0, 0.7, 1.0])),
            1 - rng.integers(0, 2, size),
        )
        r = np.stack([kinds[rng.integers(len(kinds))] for _ in range(count)], -1).astype(float)
        if missing:
            r[rng.random(r.shape) < 0.25] = np.nan
        groups.append(r)
    weights = [float(rng.choice([1, 1, 0.5, 2, 0, -1, rng.uniform(0.01, 5)])) for _ in range(count)]
    lengths = [rng.integers(1, 90, len(r)).tolist() for r in groups]
    return groups, weights, lengths, str(rng.choice(METHODS)), str(rng.choice(list(ALL_CONVENTIONS)))


def by_core(groups, weights, lengths, method, convention):
    """Return what the core computes: the advantages, (responses,), each reward's part of them, the pushes and the
    levels.
    """
    ids = np.repeat(np.arange(len(groups)), [len(r) for r in groups])
    given = {"weights": weights, "convention": ALL_CONVENTIONS[convention], "groups": ids}
    if ALL_CONVENTIONS[convention].last_step == "tokens":
        given["lengths"] = list(chain(*lengths))
    explained, collapsed, parts = explain_and_collapse(torch.tensor(np.concatenate(groups)), method, **given)
    level = torch.full((len(ids),), -1, dtype=torch.int64)
    level[collapsed.response] = collapsed.level
    return explained.advantages.flatten(), parts, collapsed.push, level


def asked(groups, weights, lengths, method, convention):
    """Return a batch and its settings in the form in which the browser takes them."""
    c = ALL_CONVENTIONS[convention]
    tokens = c.last_step == "tokens"
    return {
        "groups": [
            {"n": [1] * len(r), "r": [[None if x != x else x for x in row] for row in r.T.tolist()]}
            | ({"over": of} if tokens else {})
            for r, of in zip(groups, lengths, strict=True)
        ],
        "method": method,
        "weights": weights,
        "convention": asdict(c) | {"sum_eps": c.sum_eps, "skips": c.missing == "skipped"},
    }


def close(here, core):
    """Return whether numbers are equal to 12 digits of the largest of them, with missing ones in the same places."""
    here = np.array([math.nan if x is None else x for x in here], dtype=float)
    core = np.asarray(core, dtype=float)
    size = max(1.0, np.nanmax(np.abs(core), initial=0.0))
    return (np.isnan(here) == np.isnan(core)).all() and (np.nan_to_num(np.abs(here - core)) <= CLOSE * size).all()


def check(found, cases):
    for here, case in zip(found, cases, strict=True):
        groups, weights, _, method, convention = case
        a, parts, push, level = by_core(*case)
        said = f"{method}, {convention}, weights {weights}, {[r.tolist() for r in groups]}"
        assert close(here["a"], a), said
        live = (a.isfinite() & (a != 0)).numpy()
        assert close(np.array(here["parts"], dtype=float)[live].ravel(), parts.numpy()[live].ravel()), said
        assert close(here["push"], push), said
        at = 0
        for of_group, r in zip(here["level"], groups, strict=True):
            ranked = level[at : at + len(r)].tolist()
            at += len(r)
            if of_group is not None and -1 not in ranked:
                assert of_group == ranked, said


def test_the_browser_ties_what_is_as_near_as_in_the_core():
    (apart,) = re.findall(r"const APART = ([\d.]+);", FORMULAS)
    assert float(apart) == APART == 0.005


@pytest.mark.slow
def test_the_browser_computes_what_the_core_does(browser):
    rng = np.random.default_rng(46)
    cases = [drawn(rng) for _ in range(CASES)]
    page = browser.new_page()
    page.add_script_tag(content=FORMULAS.replace("const gdpoFormulas", "var gdpoFormulas"))
    found = json.loads(
        page.evaluate(
            f"cases => JSON.stringify(({COMPUTE})(JSON.parse(cases)))", json.dumps([asked(*case) for case in cases])
        )
    )
    page.close()
    check(found, cases)


# --- what the board draws of a state ---------------------------------------------------------------------------------

BOARD = Path(gc.__file__).parent / "board"
INSTANT = "".join((BOARD / f"{name}.js").read_text(encoding="utf-8") for name in ("formulas", "instant"))
DRAW = """([rules, cases]) =>
  JSON.stringify(JSON.parse(cases).map(([state, own]) => gdpoInstant.draw(state, { rules, ...own })))"""


def any_state(rng):
    """Return a random state of the board: marks, sometimes a score, any pays and weights, and a method that the browser
    knows.
    """
    many, width = int(rng.integers(2, 13)), int(rng.integers(1, 5))
    marks = rng.integers(0, 2, (many, width)).astype(float)
    if rng.random() < 0.3:
        marks[:, -1] = np.round(rng.random(many), 2)
    return State(
        frozen(marks.tolist()),
        tuple(float(rng.choice(PAYS)) for _ in range(width)),
        tuple(float(round(rng.choice([1, 1, 1, 0, 2, 0.5, -1, rng.uniform(0, 5)]), 2)) for _ in range(width)),
        str(rng.choice(list(gc.CONVENTIONS))),
        str(rng.choice(["gdpo", "grpo_no_std"])),
        tuple(int(n) for n in rng.integers(1, 90, many)),
        None if marks[:, 0].max() not in (0, 1) else 0,
    )


def flat(values):
    """Return all numbers in nested lists, and those in the texts there."""
    if isinstance(values, str):
        return [float(x) for x in re.findall(r"-?\d+(?:\.\d+)?(?:e[+-]\d+)?", values.replace("−", "-"))]
    if values is None or not isinstance(values, list):
        return [math.nan if values is None else float(values)]
    return [x for value in values for x in flat(value)]


@pytest.mark.slow
def test_the_browser_draws_what_the_core_does(browser):
    rng = np.random.default_rng(7)
    states = [any_state(rng) for _ in range(200)]
    own = [{"primary": s.primary, "lengths": s.lengths} for s in states]
    page = browser.new_page()
    page.add_script_tag(content=INSTANT.replace("const gdpoInstant", "var gdpoInstant"))
    cases = json.dumps([[draw(state)["state"], of] for state, of in zip(states, own, strict=True)])
    found = json.loads(page.evaluate(DRAW, [RULES, cases]))
    page.close()
    for state, here in zip(states, found, strict=True):
        core = json.loads(json.dumps(draw(state)))
        for same in ("state", "order", "right", "ties", "wrong_first"):
            assert here[same] == core[same], (same, state)
        for figure, close in (("a", 1e-9), ("parts", 6e-5), ("z", 6e-5), ("shares", 1e-9)):
            sizes = np.array(flat(core[figure]))
            assert flat(here[figure]) == pytest.approx(sizes, abs=close, rel=close, nan_ok=True), (figure, state)
        # A number that lies half-way between two texts may be written as either of them.
        for texts in ("said", "sums_said", "percents", "pushes", "lines"):
            for x, y in zip(flat(here[texts]), flat(core[texts]), strict=True):
                assert abs(x - y) <= 0.011 * max(1.0, abs(y)), (texts, state)
