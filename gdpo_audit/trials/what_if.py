"""The figures of a whole run under another method, other weights or another convention, beside those of its own
setting.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isfinite
from typing import Annotated, Any

import numpy as np
import polars as pl
from msgspec import Meta, Struct

from gdpo_audit.facts.facts import Facts
from gdpo_audit.facts.wording import WEIGHTS_FROM, lead_in, whose
from gdpo_audit.json_types import SettingPart
from gdpo_audit.logs.groups.run import Run
from gdpo_audit.sums.summarise import Mapped, sums_of_all
from gdpo_audit.sums.sums import Basis, select_batches
from gdpo_core import config_lines
from gdpo_core.frameworks import ALL_CONVENTIONS, CONVENTIONS, FRAMEWORKS
from gdpo_core.registry import ALL_METHODS, method_named
from gdpo_core.shared.errors import expect
from gdpo_core.shared.inputs import weights_by_name
from gdpo_core.shared.markup import Displayed
from gdpo_core.shared.plain import jsonable
from gdpo_core.successors import TITLES

# Methods that can be tried on a log. Several of its batches are computed as one, so a method that first looks at its
# whole batch is not among them; nor is one for which a reward comes first, since no reward of a log does.
TRIED_METHODS = tuple(m for m in TITLES if ALL_METHODS[m].prepare is None and not ALL_METHODS[m].by_order)
BY_REWARD = ("update_share", "push", "punished")  # figures of each reward
FIGURES = ("groups_with_ties", "tied_pairs", "silent_groups", "inversions")  # of a run, beside the shares


@dataclass(frozen=True)
class WhatIfSetting:
    """Hold a setting to try, after its check. Where method or convention is None, or a reward has no entry in
    `weights`, the run's own value is kept.
    """

    method: str | None
    weights: dict[str, float]
    convention: str | None


class WhatIf(Displayed, Struct, frozen=True):
    """The whole run as it was, and under another setting."""

    before: SettingPart
    after: SettingPart
    fix: Annotated[str | None, Meta(description="Lines of configuration that set it; null: none are known.")]
    notes: Annotated[tuple[str, ...], Meta(description="What the figures stand on, a sentence each.")]

    def table(self) -> pl.DataFrame:
        """Return a table with a row per figure.

        Its columns are the name of the figure, the reward that it is about, its value `before` and its value `after`.
        The reward is null for a figure of the whole run. `before` is the value in the run as it was, `after` the value
        under the other setting.
        """
        sides: list[dict[str, Any]] = [dict(self.before), dict(self.after)]
        by_reward = [(figure, name) for figure in ("weights", *BY_REWARD) for name in self.after["weights"]]
        rows = [(figure, name, *(side[figure][name] for side in sides)) for figure, name in by_reward]
        rows += [(figure, None, *(side[figure] for side in sides)) for figure in FIGURES]
        names = {"figure": pl.String, "reward": pl.String, "before": pl.Float64, "after": pl.Float64}
        return pl.DataFrame(rows, schema=names, orient="row")

    def to_dict(self) -> dict[str, Any]:
        """Return both settings with their figures as plain values, ready for JSON."""
        return jsonable(self)


def validate_setting(run: Run, setting: Mapping[str, Any]) -> WhatIfSetting:
    """Return the setting that a caller gives as a mapping with one or more of the keys method, weights and convention,
    checked against a run.

    Raises InputError for anything else, for an unknown method, convention or reward, for a run that is none, and for a
    log that holds a total alone.
    """
    expect(isinstance(run, Run), "run", "what gdpo_audit.read_run returns", type(run).__name__)
    keys = ("method", "weights", "convention")
    known = isinstance(setting, Mapping) and bool(setting) and set(setting) <= set(keys)
    expect(known, "what_if", f"one or more of {', '.join(keys)}", repr(setting))
    method, convention = setting.get("method"), setting.get("convention")
    for name, value, choices in (("method", method, TRIED_METHODS), ("convention", convention, tuple(CONVENTIONS))):
        fits = value is None or (isinstance(value, str) and value in choices)
        expect(fits, f"what_if, {name}", f"one of {', '.join(choices)}", repr(value))
    expect(not run.total_only, "what_if", "a log with each reward in a column of its own", f"one total, in {run.path}")
    names = [name for name in run.columns if name in (*run.rewards, *run.without_weight)]
    return WhatIfSetting(method, weights_by_name(setting.get("weights"), names, "what_if, weights"), convention)


def with_every_weighed_reward(f: Facts, setting: WhatIfSetting) -> Facts:
    """Return the facts to try a setting on: f itself, or `f.with_all`, the facts of the same run with every reward.

    `f.with_all` is returned if there is one and `setting` gives a weight other than 0 to a reward that f leaves out.
    """
    counts_again = any(w and name not in f.rewards for name, w in setting.weights.items())
    return f.with_all if counts_again and f.with_all is not None else f


def compute_what_if(f: Facts, setting: WhatIfSetting, tables: Iterable[pl.DataFrame], engine: Mapped = map) -> WhatIf:
    """Return the figures of the whole run under its own setting and under another one, and the lines of configuration
    that switch to the other one.

    f: the facts of the run.
    setting: the other setting.
    tables: all tables of the run, read anew. They have every reward to which the setting gives a weight, as do the
        facts that `with_every_weighed_reward(f, setting)` returns.
    engine: applies a function to each part of the run, as `map` does.

    Raises InputError for a log that lacks a reward, for weights that are all 0, and if the log changed since the audit.
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
    batches = sums_of_all(tables, basis, engine)
    batches = select_batches(batches, np.isin(batches.batch, f.batches.batch))
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
    """Return a part of the report: a setting together with the figures of a run under it.

    f: the facts of the run under that setting; they tell its weights and its convention.
    method: the id of the setting's method.
    rewards: the names of all rewards that the part lists. A reward that does not count in the facts f has weight 0 and
        share 0, and None as its push and as its share of punished responses.
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
    """Return one figure per reward as a dict by the names of the rewards, with None in place of NaN and infinity."""
    return dict(zip(f.rewards, map(_finite_or_none, figures), strict=True))


def _finite_or_none(x: float) -> float | None:
    """Return a number, or None in place of NaN and infinity."""
    return x if isfinite(x) else None


# --- lines and sentences ----------------------------------------------------------------------------------------------


def lines_and_notes(f: Facts, setting: WhatIfSetting, method: str, basis: Basis) -> tuple[str | None, list[str]]:
    """Return the lines of configuration that bring a setting about, and sentences on what its figures rest on. The
    lines are None where none are known.

    f: the facts of the run.
    setting: the setting as the caller gave it.
    method: the id of the method in the setting.
    basis: the weights and the convention with which the figures were computed.
    """
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
        f"The numbers under “had” are those of the run as it was, u{lead_in(f).removeprefix('U')}, with weights that "
        f"were {WEIGHTS_FROM[f.weights_from]}."
    ]
    if basis.changes and len(f.phases) > 1:
        notes.append(
            "The weights of the run change, and each step counts with its own; "
            "the listed weights are the most frequent ones."
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
