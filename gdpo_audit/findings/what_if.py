"""Figures of a whole run under another method, other weights or another convention, beside those that it has."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from math import isfinite
from typing import Any

import numpy as np
import polars as pl

from gdpo_audit.findings.facts import Facts
from gdpo_audit.findings.sentences import WEIGHTS_FROM, lead_in, whose
from gdpo_audit.findings.summarise import Mapped, summarise_all
from gdpo_audit.findings.sums import Basis, take
from gdpo_audit.json_types import SettingPart
from gdpo_audit.logs.run import Run
from gdpo_core import config_lines
from gdpo_core._errors import expect
from gdpo_core._html import Displayed
from gdpo_core._inputs import weights_by_name
from gdpo_core._json import jsonable
from gdpo_core.frameworks import ALL_CONVENTIONS, CONVENTIONS, FRAMEWORKS
from gdpo_core.registry import ALL_METHODS, method_named
from gdpo_core.successors import TITLES

# Methods that can be tried on a log. Several of its batches are computed as one, so a method that first looks at its
# whole batch is not among them; nor is one for which a reward comes first, since no reward of a log does.
TRIED_METHODS = tuple(m for m in TITLES if ALL_METHODS[m].prepare is None and not ALL_METHODS[m].by_order)
BY_REWARD = ("update_share", "push", "punished")  # figures of each reward
FIGURES = ("groups_with_ties", "tied_pairs", "silent_groups", "inversions")  # of a run, beside the shares


@dataclass(frozen=True)
class WhatIfSetting:
    """Hold a checked setting to try; a field of None, or a reward missing from `weights`, keeps the run's own value."""

    method: str | None
    weights: dict[str, float]
    convention: str | None


@dataclass(frozen=True)
class WhatIf(Displayed):
    """A whole run as it was, beside the same run under another setting.

    before, after: each the setting (method, convention, weights), and under it each reward's share of the update, the
    push on it and the share punished of its best, the share of groups with ties, of tied pairs and of silent groups,
    and of pairs in the wrong order; None where a figure has no value.
    fix: the lines of configuration that make the run this; None where none are known.
    notes: what the figures stand on, one sentence each.
    """

    before: SettingPart
    after: SettingPart
    fix: str | None
    notes: tuple[str, ...]

    def table(self) -> pl.DataFrame:
        """Return a row per figure: figure, reward (null: of the whole run), before and after."""
        sides: list[dict[str, Any]] = [dict(self.before), dict(self.after)]
        by_reward = [(figure, name) for figure in ("weights", *BY_REWARD) for name in self.after["weights"]]
        rows = [(figure, name, *(side[figure][name] for side in sides)) for figure, name in by_reward]
        rows += [(figure, None, *(side[figure] for side in sides)) for figure in FIGURES]
        names = {"figure": pl.String, "reward": pl.String, "before": pl.Float64, "after": pl.Float64}
        return pl.DataFrame(rows, schema=names, orient="row")

    def to_dict(self) -> dict[str, Any]:
        """Return both settings with their figures as plain values, ready for JSON."""
        return jsonable(asdict(self))


def validate_setting(run: Run, setting: Mapping[str, Any]) -> WhatIfSetting:
    """Return the setting that a caller gives by the names of its parts, checked against a run. Raises InputError."""
    parts = ("method", "weights", "convention")
    known = isinstance(setting, Mapping) and bool(setting) and set(setting) <= set(parts)
    expect(known, "what_if", f"one or more of {', '.join(parts)}", repr(setting))
    method, convention = setting.get("method"), setting.get("convention")
    for name, value, choices in (("method", method, TRIED_METHODS), ("convention", convention, tuple(CONVENTIONS))):
        expect(value is None or value in choices, f"what_if, {name}", f"one of {', '.join(choices)}", repr(value))
    expect(not run.total_only, "what_if", "a log with each reward in a column of its own", f"one total, in {run.path}")
    names = [name for name in run.columns if name in (*run.rewards, *run.without_weight)]
    return WhatIfSetting(method, weights_by_name(setting.get("weights"), names, "what_if, weights"), convention)


def with_every_weighed_reward(f: Facts, setting: WhatIfSetting) -> Facts:
    """Return the facts of the run with every reward that a setting weighs, also those that did not count."""
    counts_again = any(w and name not in f.rewards for name, w in setting.weights.items())
    return f.with_all if counts_again and f.with_all is not None else f


def compute_what_if(f: Facts, setting: WhatIfSetting, tables: Iterable[pl.DataFrame], engine: Mapped = map) -> WhatIf:
    """Return the figures of the whole run as it ran and under a setting, and what to change. Raises InputError.

    tables: all tables of the run that `with_every_weighed_reward(f, setting)` holds, read anew; engine: as in `audit`.
    """
    ran, f = f, with_every_weighed_reward(f, setting)
    expect(not f.lacks_a_reward, "what_if", "a log with every reward", f"one that lacks some, in {f.run.path}")
    method = setting.method or f.method
    basis = replace(
        f.basis.with_weights({name: w / f.unit for name, w in setting.weights.items()}),
        convention=setting.convention or f.basis.convention,
        extra_method=method,
        examples_of=None,
    )
    expect(any(basis.weights), "what_if, weights", "one that is not 0", "0 for every reward")
    batches = summarise_all(tables, basis, engine).batches
    batches = take(batches, np.isin(batches.batch, f.batches.batch))
    same = np.array_equal(batches.fingerprint, f.batches.fingerprint)
    expect(same, f.run.path, "the log that was audited", "another one: it changed since")
    lines, notes = lines_and_notes(f, setting, method, basis)
    return WhatIf(
        before=figures_under(ran, ran.method, f.rewards),
        after=figures_under(replace(f, basis=basis, batches=batches), method, f.rewards),
        fix=lines,
        notes=tuple(notes),
    )


def figures_under(f: Facts, method: str, rewards: Sequence[str]) -> SettingPart:
    """Return a setting and the figures under it as a dict.

    rewards: all that it names; one that does not count has weight and share 0, and no push.
    """
    figures = f.ties(method), f.tied_pairs(method), f.silent(method), f.inversions(method)
    shares = dict.fromkeys(rewards, 0.0) | _by_reward(f, f.shares(method))
    # Push and punished of a reward that does not count stay None, as they were not computed.
    raised, punished = (dict.fromkeys(rewards) | _by_reward(f, x) for x in (f.push(method), f.punished(method)))
    weights = dict.fromkeys(rewards, 0.0) | dict(zip(f.rewards, f.printed(f.basis.weights), strict=True))
    setting = {"method": method, "convention": f.basis.convention, "weights": weights}
    setting |= {"update_share": shares, "push": raised, "punished": punished}
    return SettingPart(**setting, **dict(zip(FIGURES, map(_finite_or_none, figures), strict=True)))  # type: ignore[typeddict-item]


def _by_reward(f: Facts, figures: Sequence[float]) -> dict[str, float | None]:
    return dict(zip(f.rewards, map(_finite_or_none, figures), strict=True))


def _finite_or_none(x: float) -> float | None:
    return x if isfinite(x) else None


# --- lines and sentences ----------------------------------------------------------------------------------------------


def lines_and_notes(f: Facts, setting: WhatIfSetting, method: str, basis: Basis) -> tuple[str | None, list[str]]:
    """Return the lines that configure a setting, None where none are known, and notes on its figures."""
    convention = ALL_CONVENTIONS[basis.convention]
    another_convention = setting.convention not in (None, f.basis.convention)
    owners = (
        record for record in FRAMEWORKS.values() if another_convention and setting.convention in record.conventions
    )
    framework = next(owners, FRAMEWORKS["generic"] if another_convention else f.framework)
    # The lines switch the method if more than the weights changes, or if the log does not show that only they do.
    switches = another_convention or setting.method not in (None, f.recipe and f.recipe.method)
    write = config_lines.switch_to if switches else config_lines.set_weights
    lines = write(framework.id, *f.functions(basis.weights), method)
    notes = [
        f"What stands under “had” is the run as it was: {lead_in(f).removeprefix('Under ')}, with weights that were "
        f"{WEIGHTS_FROM[f.weights_from]}."
    ]
    if basis.changes and len(f.phases) > 1:
        notes.append(
            "The weights of the run change, and each step counts with its own; the listed weights are those of most "
            "batches."
        )
    formula = method_named(method)
    if convention.last_step == "tokens" and formula.decoupled and formula.over_batch and not f.run.has_length:
        notes.append(
            f"{convention.name} weights {TITLES[method]}’s batch step by tokens; here the step runs over responses, "
            "because the log has no lengths."
        )
    makes = ALL_CONVENTIONS[framework.convention]
    if lines is None:
        notes.append(f"No lines of configuration are known that make {framework.title} run {TITLES[method]}.")
    elif switches and makes != convention:
        notes.append(
            "With these lines, the run computes advantages by the convention of "
            f"{whose(framework.convention)}; the figures here follow that of {whose(basis.convention)}."
        )
    return lines, notes
