"""The large picture of Train: curves, the verdict and its reason, and who wins at which weight."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from math import inf
from typing import Any

from gdpo_core._html import Html, join, prose, tag
from gdpo_core._words import count, listing, number, percent
from gdpo_core.scenarios import ENDS, LEVEL, VERDICTS, Scenario, Setting
from views import gallery, trained
from views.controls import State, methods_of, setting_of
from views.trained import BAND, COMPARED

HURTS = (VERDICTS[2], ENDS[3])


def draw(state: State, scenario: Scenario, file: Mapping[str, Any]) -> dict:
    """The large picture: curves, the verdict and its reason, and the controls beside it."""
    setting, methods = setting_of(state, scenario), methods_of(state)
    kind, sentence = trained.said(setting, scenario.coins, methods)
    given = trained.as_given(scenario, setting)
    about = "Why" if given else f"Changed. As it was, “{scenario.title}” shows"
    extra = methods[len(COMPARED) :]
    band = percent(BAND[1] - BAND[0])
    notes = " ".join([*trained.told(setting, scenario.coins), trained.without_end(setting, scenario.coins)])
    return {
        "state": asdict(state),
        "title": scenario.title,
        "given": given,
        "sub": f"probability of {'each answer' if setting.arms else 'a 1'} over {setting.epochs} epochs · median and "
        f"{band} band of {count(setting.seeds, 'seed')}",
        "kind": kind,
        "verdict": str(join(sentence, trained.beside(setting, extra), _at_equal(state, scenario, given, file))),
        "why": str(
            join(tag("b", about), ": ", scenario.lesson_of(state.compare), " ", tag("span", notes, kind="notes"))
        ),
        "panels": trained.panels(setting, scenario.coins, methods),
        "epochs": setting.epochs,
        "rows": _rows(scenario, setting),
        "card": gallery.card(gallery.sketch(setting), False) if scenario.from_marks else None,
        "deeds": ["hurts"] if kind in HURTS else [],
    }


def _rows(scenario: Scenario, setting: Setting) -> list[dict]:
    """The rows of controls: of each reward, at which place of which list its controls stand."""
    if setting.arms:
        return [
            {"name": "being right", "start": 0, "weights": 0},
            {"name": "being short", "pays": 1, "weights": 1},
        ]
    coins = [{"name": coin, "start": k, "pays": k, "weights": k} for k, coin in enumerate(scenario.coins)]
    noises = [{"name": "noise", "weights": k} for k in range(len(coins), scenario.setting.rewards)]
    return coins + noises


def _at_equal(state: State, scenario: Scenario, given: bool, file: Mapping[str, Any]) -> Html | str:
    """Under the other comparisons: what is left at equal step size."""
    if state.compare == "equal" or not given or scenario.setting.arms or scenario.from_marks:
        return ""
    one = file["sketches"][scenario.id]["equal"]
    grpo, gdpo = (max(gallery.never(one[m]["steps"])) for m in COMPARED)
    if inf in (grpo, gdpo):
        return ""
    said = f"With steps of equal size it is {gdpo:g} for GDPO, {grpo:g} for GRPO: {gallery.kind(one, False)}."
    return tag("p", said, kind="beside")


def weighed(endings: Mapping[str, list]) -> dict:
    """Who wins at which weight of brevity, and behind the gate."""
    names = trained.names()
    need = {m: _largest(cells) for m, cells in endings.items()}
    right = {m: cells[-1][0] >= LEVEL for m, cells in endings.items()}
    each = listing([f"{names[m]} {'none of these' if w is None else number(w)}" for m, w in need.items()])
    gate = (
        "Behind the gate it wins under every method, at any weight."
        if all(right.values())
        else "Behind this gate it does not win: brevity is a penalty here, and the gate spares wrong answers from it."
    )
    sentences = (
        f"Of these weights of brevity, the largest with which the right answer wins: **{each}**. {gate}",
        "Normalising does not know which reward matters more. It moves the weight of brevity up to which the right "
        "answer wins; it does not choose it. The gate needs no number, if the gated reward is never below 0; else gate "
        "it to its worst value.",
    )
    return {
        "rows": [
            {"method": m, "name": names[m], "cells": [_cell(p, steps) for p, steps in cells]}
            for m, cells in endings.items()
        ],
        "said": str(join(*(tag("p", prose(one)) for one in sentences))),
    }


def _cell(p: float, steps: int | None) -> dict:
    return {"p": trained.probability(p), "end": _ending(p), "steps": steps}


def _largest(cells: Sequence[Sequence[Any]]) -> float | None:
    """The largest weight from which on, downwards, the right answer wins."""
    largest = None
    for weight, (p, _) in zip(reversed(gallery.WEIGHTS), reversed(cells[:-1]), strict=True):
        if p < LEVEL:
            break
        largest = weight
    return largest


def _ending(p: float) -> str:
    return "right" if p >= LEVEL else "wrong" if p <= 1 - LEVEL else "open"
